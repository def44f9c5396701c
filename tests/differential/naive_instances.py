"""A slow reference for instances of tasks on machines, in plain lists, from its definition.

It shares no text with the kernel. Everything is thought out anew at every instant: who computes is
found by asking every instance, what is free by asking everybody who holds something, and every
instance that waits is tried one by one on every machine; which of those with room it gets is up to
`naive_placements`.
"""

from dataclasses import dataclass, field
from math import inf, nan

from sim import Scenario
from sim.model.tasks import Tasks
from tests.differential.naive_placements import Chooser, capacity

WEIGHTS = {"compute_bound": 1.0, "mixed": 0.75, "memory_bound": 0.5, "bandwidth_bound": 0.5,
           "io_bound": 0.25}  # fmt: skip


@dataclass(eq=False)
class Machine:
    number: int
    name: str
    amounts: list[float]
    n_gpus: int
    gpu_resource: str
    labels: dict[str, str]
    cpu: float
    gpu: float
    held: list["Pod"] = field(default_factory=list)

    def speeds(self, scenario: Scenario, now: float) -> tuple[float, float]:
        on = [
            w for w in scenario.throttles
            if self.name in w.machines and w.from_s <= now < w.until_s
        ]  # fmt: skip
        return min([self.cpu] + [w.cpu for w in on]), min([self.gpu] + [w.gpu for w in on])

    def devices_left(self) -> list[int]:
        left = [1000] * self.n_gpus
        for pod in self.held:
            for device, part in pod.devices:
                left[device] -= part
        return left

    def devices_for(self, mgpu: int) -> list[tuple[int, int]] | None:
        left = self.devices_left()
        if mgpu < 1000:
            for device, part in enumerate(left):
                if part >= mgpu:
                    return [(device, mgpu)]
            return None
        whole = [device for device, part in enumerate(left) if part == 1000]
        n = mgpu // 1000
        return [(device, 1000) for device in whole[:n]] if len(whole) >= n else None

    def fits(self, pod: "Pod", *, empty: bool = False) -> bool:
        others = [] if empty else self.held
        for r in range(3):
            if sum(other.asks[r] for other in others) + pod.asks[r] > self.amounts[r]:
                return False
        if pod.asks[3] > 0:
            if pod.gpu_resource is not None and pod.gpu_resource != self.gpu_resource:
                return False
            if empty and pod.asks[3] > 1000 * self.n_gpus:
                return False
            if not empty and self.devices_for(pod.asks[3]) is None:
                return False
        for key, operator, values in pod.terms:
            has = key in self.labels
            good = {
                "Exists": has,
                "DoesNotExist": not has,
                "In": has and self.labels[key] in values,
                "NotIn": not has or self.labels[key] not in values,
            }[operator]
            if not good:
                return False
        return True


@dataclass(eq=False)
class Pod:
    task: int
    job: int
    is_gang: bool
    asks: list[int]
    gpu_resource: str | None
    terms: list[tuple[str, str, tuple[str, ...]]]
    cpu_left: float
    gpu_left: float
    base: tuple[float, float]
    feels: tuple[float, float, float]
    machine: Machine | None = None
    devices: list[tuple[int, int]] = field(default_factory=list)
    start: float = nan
    begin: float = nan
    finish: float = inf
    is_done: bool = False
    rates: tuple[float, float] = (0.0, 0.0)
    alone_s: float = 0.0
    since: float = 0.0

    def computes(self) -> bool:
        return self.begin == self.begin and not self.is_done


def pods_of(scenario: Scenario) -> list[Pod]:
    tasks = scenario.workload.tasks
    assert tasks is not None
    pods = []
    for t in range(tasks.n_tasks):
        for _ in range(int(tasks.instances[t])):
            pods.append(_pod(scenario, tasks, t))
    return pods


def _pod(scenario: Scenario, tasks: Tasks, t: int) -> Pod:
    work, runtime = tasks.work, float(tasks.runtime_s[t])
    asks = [int(c[t]) for c in (tasks.mcpu, tasks.mem_bytes, tasks.disk_bytes, tasks.mgpu)]
    cpu, gpu, base, feels = runtime, 0.0, (1.0, 1.0), (1.0, 1.0, 0.0)
    if work is None and asks[3] > 0:
        cpu, gpu = 0.0, runtime
    if work is not None:
        cpu, gpu = float(work.cpu_units[t]), float(work.gpu_units[t])
        u, ug, m, i, f = (float(x) for x in work.profile[t])
        told = scenario.options
        used = max(u, 0.1) if told.get("by_utilisation", 1) else 1.0
        gpu_used = max(ug, 0.1) if told.get("by_utilisation", 1) else 1.0
        base = (
            asks[0] / 1000 * used * told.get("cpu_unit_rate", 1.0) if cpu else 1.0,
            asks[3] / 1000 * gpu_used * told.get("gpu_unit_rate", 1.0) if gpu else 1.0,
        )
        names = [
            work.classes[c].split(".")[-1] if c >= 0 else "" for c in
            (int(work.cpu_class[t]), int(work.gpu_class[t]))
        ]  # fmt: skip
        weight, gpu_weight = (WEIGHTS.get(name, 1.0) for name in names)
        impact = 0.60 * u + 0.25 * (1 - m) + 0.15 * (1 - i)
        s, sg = float(work.cpu_sensitivity[t]), float(work.gpu_sensitivity[t])
        feels = (min(s * weight * impact, 1.0), sg * gpu_weight, s * f)
    demand, resource = int(tasks.demand[t]), int(tasks.gpu_resource[t])
    terms = tasks.affinities[demand] if demand >= 0 else ()
    return Pod(
        task=t,
        job=int(tasks.job[t]),
        is_gang=bool(tasks.gang[t]),
        asks=asks,
        gpu_resource=tasks.gpu_resources[resource] if resource >= 0 else None,
        terms=[(term.key, term.operator, term.values) for term in terms],
        cpu_left=cpu,
        gpu_left=gpu,
        base=base,
        feels=feels,
        alone_s=max(cpu / base[0], gpu / base[1]),
    )


def machines_of(scenario: Scenario) -> list[Machine]:
    made: list[Machine] = []
    (part,) = scenario.cluster.partitions
    for spec in part.machines:
        for name in spec.names:
            amounts = [1000.0 * spec.procs, spec.mem_bytes or inf, spec.disk_bytes or inf]
            made.append(
                Machine(len(made), name, amounts, spec.gpus, spec.gpu_resource, dict(spec.labels),
                        spec.cpu_throttle, spec.gpu_throttle)
            )  # fmt: skip
    return made


class StuckError(Exception):
    """Somebody waits for ever."""


def schedule(scenario: Scenario) -> list[Pod]:
    """Return every instance as it ran; raise StuckError if some never can."""
    workload, tasks = scenario.workload, scenario.workload.tasks
    assert tasks is not None
    pods, machines = pods_of(scenario), machines_of(scenario)
    hopeless = {p.job for p in pods if not any(m.fits(p, empty=True) for m in machines)}
    pods_here = [p for p in pods if p.job not in hopeless]
    chooser = Chooser(scenario, machines, pods)
    parents = [
        tasks.parent_task[tasks.first_parent[t] : tasks.first_parent[t + 1]].tolist()
        for t in range(tasks.n_tasks)
    ]
    score = {
        "fcfs": lambda j: workload.submit_s[j],
        "sjf": lambda j: workload.requested_s[j],
        "ljf": lambda j: -workload.requested_s[j],
    }[scenario.order]
    order = sorted(range(workload.n_jobs), key=lambda j: (score(j), j))
    turns = sorted({t for w in scenario.throttles for t in (w.from_s, w.until_s)})
    submit = workload.submit_s.tolist()
    now = -inf
    while True:
        later = [p.finish for p in pods_here if p.computes()]
        later += [t for j, t in enumerate(submit) if t > now and j not in hopeless]
        later += [t for t in turns if t > now]
        if not later:
            break
        now = min(later)
        for pod in pods_here:
            if pod.computes() and pod.finish == now:
                pod.is_done = True
                assert pod.machine is not None
                pod.machine.held.remove(pod)

        def ready(t: int, now: float = now) -> bool:
            return submit[int(tasks.job[t])] <= now and all(
                p.is_done for p in pods_here if p.task in parents[t]
            )

        _place(scenario, pods_here, chooser, order, [ready(t) for t in range(tasks.n_tasks)], now)
        _begin(pods_here, now)
        _settle(scenario, pods_here, machines, now)
    if not all(p.is_done for p in pods_here):
        raise StuckError
    return pods


def _bind(pod: Pod, chooser: Chooser, now: float) -> bool:
    machine = chooser.choose(pod)
    if machine is None:
        return False
    device = chooser.device(machine, pod)
    if device is None:
        pod.devices = (machine.devices_for(pod.asks[3]) or []) if pod.asks[3] else []
    else:
        pod.devices = [(device, pod.asks[3])]
    pod.machine, pod.start = machine, now
    machine.held.append(pod)
    return True


def _place(
    scenario: Scenario,
    pods: list[Pod],
    chooser: Chooser,
    order: list[int],
    ready: list[bool],
    now: float,
) -> None:
    at_once = scenario.options.get("all_or_nothing", 0) == 1
    if scenario.backfill in URGENT:
        _place_urgent(scenario, pods, chooser, order, ready, now, at_once)
        return
    for job in order:
        gang = [p for p in pods if p.job == job and p.is_gang]
        gang_done = False
        for task in dict.fromkeys(p.task for p in pods if p.job == job):
            mine = [p for p in pods if p.task == task and p.machine is None]
            if not mine:
                continue
            if at_once and mine[0].is_gang:
                if gang_done or not all(ready[p.task] for p in gang):
                    continue
                gang_done = True
                got, drawn = [], list(chooser.lottery.state)
                for pod in gang:
                    if not _bind(pod, chooser, now):
                        break
                    got.append(pod)
                if len(got) < len(gang):
                    chooser.lottery.state = drawn
                    for pod in got:
                        assert pod.machine is not None
                        pod.machine.held.remove(pod)
                        pod.machine, pod.start, pod.devices = None, nan, []
                    if scenario.backfill == "none":
                        return
                continue
            if not ready[task]:
                continue
            for pod in mine:
                if not _bind(pod, chooser, now):
                    if scenario.backfill == "none":
                        return
                    break


def _place_urgent(
    scenario: Scenario,
    pods: list[Pod],
    chooser: Chooser,
    order: list[int],
    ready: list[bool],
    now: float,
    at_once: bool,
) -> None:
    """Place one instance, or one gang, after the other, each time of whom is most urgent then."""
    rank = {job: number for number, job in enumerate(order)}
    passed_over: set[int] = set()
    while True:
        waiting = []
        for task in dict.fromkeys(p.task for p in pods):
            mine = [p for p in pods if p.task == task and p.machine is None]
            if not mine or task in passed_over:
                continue
            if at_once and mine[0].is_gang:
                gang = [p for p in pods if p.job == mine[0].job and p.is_gang]
                if gang[0].task == task and all(ready[p.task] for p in gang):
                    waiting.append(gang)
            elif ready[task]:
                waiting.append(mine)
        if not waiting:
            return
        urgency = URGENT[scenario.backfill]
        line = min(
            waiting,
            key=lambda w: (urgency(scenario, pods, chooser, w, waiting), rank[w[0].job], w[0].task),
        )
        together = line if at_once and line[0].is_gang else line[:1]
        got, drawn = [], list(chooser.lottery.state)
        for pod in together:
            if not _bind(pod, chooser, now):
                break
            got.append(pod)
        if len(got) < len(together):
            chooser.lottery.state = drawn
            passed_over.add(line[0].task)
            for pod in got:
                assert pod.machine is not None
                pod.machine.held.remove(pod)
                pod.machine, pod.start, pod.devices = None, nan, []


def _by_dominant_share(
    scenario: Scenario, pods: list[Pod], chooser: Chooser, line: list[Pod], _all: list[list[Pod]]
) -> float:
    users = scenario.workload.user.tolist()
    if all(user < 0 for user in users):
        users = list(range(len(users)))
    limits = [capacity(m) for m in chooser.machines]
    shares = [0.0]
    for r in range(4):
        total = sum(limit[r] for limit in limits if limit[r] < inf)
        held = sum(
            p.asks[r] for m in chooser.machines for p in m.held
            if users[p.job] == users[line[0].job]
        )  # fmt: skip
        if total > 0:
            shares.append(held / total)
    return max(shares)


def _by_weight(
    scenario: Scenario, _pods: list[Pod], _chooser: Chooser, line: list[Pod], all_: list[list[Pod]]
) -> float:
    def need(pods: list[Pod]) -> object:
        if pods[0].is_gang and scenario.options.get("all_or_nothing", 0) == 1:
            return pods[0].job
        return (pods[0].asks, pods[0].gpu_resource if pods[0].asks[3] else None, pods[0].terms)

    return -float(sum(len(other) for other in all_ if need(other) == need(line)))


def _by_work(
    scenario: Scenario, pods: list[Pod], chooser: Chooser, line: list[Pod], _all: list[list[Pod]]
) -> float:
    work = 0.0
    for task in dict.fromkeys(p.task for p in pods if p.job == line[0].job):
        mine = [p for p in pods if p.task == task]
        size = 0.0
        for r in range(4):
            if chooser.most[r] > 0:
                size += mine[0].asks[r] / chooser.most[r]
        work += sum(not p.is_done for p in mine) * mine[0].alone_s * size
    return work


URGENT = {"drf": _by_dominant_share, "max_weight": _by_weight, "least_work": _by_work}


def _begin(pods: list[Pod], now: float) -> None:
    for pod in pods:
        if pod.machine is None or pod.begin == pod.begin:
            continue
        gang = [p for p in pods if p.job == pod.job and p.is_gang]
        if not pod.is_gang or all(p.machine is not None for p in gang):
            pod.begin = pod.since = now


def _settle(scenario: Scenario, pods: list[Pod], machines: list[Machine], now: float) -> None:
    for machine in machines:
        here = [p for p in machine.held if p.computes()]
        cpu, gpu = machine.speeds(scenario, now)
        for pod in here:
            rate = pod.base[0] * (1 - pod.feels[0] * (1 - cpu))
            if scenario.options.get("even_shares", 0) == 1 and len(here) > 1:
                rate = rate / len(here)
            gpu_rate = pod.base[1] * (1 - pod.feels[1] * (1 - gpu))
            gpu_rate = gpu_rate * (1 - pod.feels[2] * (1 - cpu))
            if (rate, gpu_rate) != pod.rates:
                passed = now - pod.since
                pod.cpu_left = max(0.0, pod.cpu_left - pod.rates[0] * passed)
                pod.gpu_left = max(0.0, pod.gpu_left - pod.rates[1] * passed)
                pod.rates, pod.since = (rate, gpu_rate), now
                pod.finish = now + max(pod.cpu_left / rate, pod.gpu_left / gpu_rate)
