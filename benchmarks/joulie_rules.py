"""Each rule of Joulie's page against what the generator draws, with its interval, in one table.

The expectations are written down here once more, from the page and its program, and are not taken
from the generator's parameters: so a number that is wrong there shows here.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.drawn_checks import NORMAL, Check, Floats, mean, never, share
from sim.generators.generator import Horizon, Model, RandomStreams, generate, published_model
from sim.generators.joulie.generator import arrivals
from sim.generators.joulie.parameters import parameters_of
from sim.model.pods import GIB, KINDS
from sim.model.tasks import Tasks, TaskWork, Term
from sim.model.workload import Workload

HOUR_S, DAY_S = 3600.0, 86400.0
_LONG_S = 20_000 * DAY_S

# fmt: off
HOURS = [.7] * 8 + [.95] + [1.2] * 3 + [.85] + [1.15] * 5 + [.85, .95] + [1.0] * 3 + [.95]
SHARES = {
    "debug_eval": .45, "single_gpu_training": .25, "distributed_training": .14,
    "parameter_server_training": .07, "hpo_experiment": .09,
    "cpu_preprocess": .75, "cpu_analytics": .25,
}
CPU_ONLY = ("cpu_preprocess", "cpu_analytics")
GPUS = {1: .80, 2: .10, 4: .07, 8: .03}
DURATIONS = {  # median, sigma, clamps
    "debug_eval": (206, 1.0, 30, 1000), "single_gpu_training": (7200, 1.0, 900, 604800),
    "distributed_training": (14400, 1.2, 1200, 1209600),
    "parameter_server_training": (10800, 1.1, 900, 604800),
    "hpo_experiment": (7200, 1.0, 1200, 259200), "cpu_preprocess": (900, .8, 120, 28800),
    "cpu_analytics": (1800, .9, 300, 86400),
}
GPU_MEANS = {1: .5238, 2: .50, 4: .4518, 8: .5899}
SHIFTS = {"debug_eval": -.10, "single_gpu_training": 0.0, "distributed_training": -.08,
          "parameter_server_training": -.10, "hpo_experiment": -.05}
SIGNALS = {  # column of the profile: from, to
    "debug_eval": {0: (.20, .40), 2: (.55, .85), 3: (.05, .20), 4: (.15, .35)},
    "single_gpu_training": {0: (.20, .45), 2: (.30, .60), 3: (.05, .25), 4: (.25, .55)},
    "distributed_training": {0: (.15, .35), 2: (.45, .75), 3: (.05, .25), 4: (.35, .70)},
    "parameter_server_training": {0: (.20, .40), 2: (.70, .92), 3: (.05, .25), 4: (.40, .75)},
    "hpo_experiment": {0: (.15, .35), 2: (.35, .70), 3: (.05, .25), 4: (.20, .45)},
    "cpu_preprocess": {0: (.50, .75), 2: (.70, .92), 3: (.10, .30)},
    "cpu_analytics": {0: (.75, .95), 2: (.20, .45), 3: (.05, .25)},
}
NAMES = {0: "cpuUtilization", 2: "memoryIntensity", 3: "ioIntensity", 4: "cpuFeedIntensityGpu"}
CLASSES = {
    "debug_eval": ("cpu.mixed", "gpu.memory_bound"),
    "single_gpu_training": ("cpu.mixed", "gpu.compute_bound"),
    "distributed_training": ("cpu.mixed", "gpu.compute_bound"),
    "parameter_server_training": ("cpu.memory_bound", "gpu.compute_bound"),
    "hpo_experiment": ("cpu.mixed", "gpu.mixed"),
    "cpu_preprocess": ("cpu.memory_bound", ""), "cpu_analytics": ("cpu.compute_bound", ""),
}
CORES = {  # median, sigma, clamps
    "debug_eval": (2, .35, 1, 16), "single_gpu_training": (4, .35, 1, 16),
    "distributed_training": (4, .35, 1, 16), "parameter_server_training": (5, .35, 1, 16),
    "hpo_experiment": (2, .35, 1, 16), "cpu_preprocess": (16, .45, 4, 64),
    "cpu_analytics": (32, .5, 8, 128),
}
MEMORY = {  # base, median per GPU, sigma, clamps per GPU
    "debug_eval": (2, 4, .35, 2, 32), "single_gpu_training": (2, 10, .35, 2, 32),
    "distributed_training": (2, 12, .35, 2, 32), "parameter_server_training": (2, 14, .35, 2, 32),
    "hpo_experiment": (2, 6, .35, 2, 32), "cpu_preprocess": (0, 6, .45, 1, 64),
    "cpu_analytics": (0, 10, .5, 2, 128),
}
WORK = {  # share of the CPU work of workers and trials, and of their helpers
    "distributed_training": (.90, .25), "parameter_server_training": (.85, .35),
    "hpo_experiment": (.90, .10),
}
CPU_SENSE = {"ps": .45, "launcher": .25, "controller": .25}
FAMILY_SENSE = {"cpu_preprocess": .75, "cpu_analytics": .90}
GPU_SENSE = {"debug_eval": .55, "hpo_experiment": .65, "single_gpu_training": .85,
             "distributed_training": .90, "parameter_server_training": .90}
# fmt: on
HELPERS = ("launcher", "ps", "controller")
BURST_HOURS, DIP_HOURS = (10, 11, 14, 15, 16), (3, 4, 5, 19, 20, 21)
BURST_DAYS, BURST_MEAN_S = 800, 10.0


def rule_table(
    n_workloads: int, seed: int, told: Mapping[str, object] | None = None
) -> list[Check]:
    """Return the table for workloads drawn here.

    Args:
        n_workloads: logical workloads; 50,000 or more tell shares to half a per cent.
        seed: of all draws.
        told: parameters of the model that are other than published: then some checks must fail.
    """
    model = published_model("joulie").with_parameters(dict(told or {}))
    of_pods = model.with_parameters({"jobs": n_workloads})
    drawn = generate(of_pods, duration_s=_LONG_S, seed=seed)
    eco = generate(of_pods.with_parameters({"eco_ratio": 0.20}), duration_s=_LONG_S, seed=seed)
    calm = {"burst_day_probability": 0.0}
    few = {"mean_inter_arrival_sec": BURST_MEAN_S}
    flat = _arrivals(of_pods.with_parameters(calm), _LONG_S, seed)
    bursts = _arrivals(model.with_parameters(few), BURST_DAYS * DAY_S, seed)
    dips = _arrivals(
        model.with_parameters(calm | few | {"dip_day_probability": 0.30}), BURST_DAYS * DAY_S, seed
    )
    idle = _arrivals(
        of_pods.with_parameters(calm | {"hourly_multipliers": [0.0] * 24}), _LONG_S, seed
    )
    return [
        *_arrival_rule(flat),
        *_odd_hours("J4 burst", bursts, 0.25, BURST_HOURS, lambda mult: mult * 2.0 + 8.0 / 16.0),
        *_odd_hours("J4 [H] dip", dips, 0.30, DIP_HOURS, lambda mult: max(mult * 0.08, 0.05)),
        mean("J4", "seconds between arrivals at multiplier 0: floor 0.05", 100.0, np.diff(idle)),
        *_pod_rules(_Drawn.of(drawn)),
        *_intent_rule(drawn, eco),
        never("J17", "as many workloads as `jobs` says", np.array([drawn.n_jobs != n_workloads])),
    ]


def _arrivals(model: Model, duration_s: float, seed: int) -> Floats:
    """Return submissions as the generator draws them, in seconds from midnight."""
    streams = RandomStreams(seed).inside("arrivals")
    return arrivals(parameters_of(model), Horizon(duration_s), streams)


def _arrival_rule(times_s: Floats) -> Iterator[Check]:
    gaps = np.diff(times_s)
    multiplier = np.array(HOURS)[(times_s[:-1] % DAY_S // HOUR_S).astype(int)]
    for each in sorted(set(HOURS)):
        what = f"seconds between arrivals in hours of multiplier {each:g}"
        yield mean("J3", what, 5.0 / each, gaps[multiplier == each])
    scaled = gaps * multiplier / 5.0
    yield share("J3", "exponential: share of gaps below the mean", 1 - math.exp(-1), scaled < 1.0)


def _odd_hours(
    rule: str,
    times_s: Floats,
    probability: float,
    hours: Sequence[int],
    changed: Callable[[float], float],
) -> Iterator[Check]:
    """Yield checks of days with one hour that is unlike the others of its kind."""
    of_hours = np.bincount((times_s // HOUR_S).astype(int), minlength=24 * BURST_DAYS)
    counts = of_hours[: 24 * BURST_DAYS].reshape(BURST_DAYS, 24).astype(np.float64)
    usual = np.array(HOURS)
    other = np.array([changed(mult) for mult in HOURS])
    # In an hour at another rate: the gap that began before it ends in it, and then it is Poisson.
    expected = other * HOUR_S / BURST_MEAN_S + 1.0 - other / np.roll(usual, 1)
    middle = (usual * HOUR_S / BURST_MEAN_S + expected) / 2.0
    is_odd = counts > middle if other[hours[0]] > usual[hours[0]] else counts < middle
    of_these = is_odd[:, list(hours)]
    some = of_these.any(axis=1)
    yield share(rule, "share of days that have one", probability, some)
    yield never(rule, "one hour a day at most", of_these.sum(axis=1) > 1)
    for place, hour in enumerate(hours):
        rows = of_these[:, place]
        yield share(rule, f"in hour {hour}", 1.0 / len(hours), rows[some])
        what = f"arrivals in hour {hour} if it is one, over those expected"
        yield mean(rule, what, 1.0, counts[rows, hour] / expected[hour])


@dataclass(frozen=True)
class _Drawn:
    """A workload with what the rules speak of; pods have an index of their job."""

    workload: Workload
    tasks: Tasks
    work: TaskWork
    family: NDArray[np.str_]
    role: NDArray[np.str_]
    gpus: NDArray[np.int64]
    workers: NDArray[np.int64]
    helpers: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload) -> "_Drawn":
        tasks = workload.tasks
        assert tasks is not None
        assert tasks.work is not None
        role = np.array([*tasks.roles, ""])[tasks.role]
        is_helper = np.isin(role, HELPERS)
        return cls(
            workload, tasks, tasks.work, np.array(KINDS)[workload.group], role,
            np.bincount(tasks.job, weights=tasks.mgpu / 1000.0).astype(np.int64),
            np.bincount(tasks.job, weights=~is_helper).astype(np.int64),
            np.bincount(tasks.job, weights=is_helper).astype(np.int64),
        )  # fmt: skip


def _pod_rules(d: _Drawn) -> Iterator[Check]:
    yield from _mix(d)
    yield from _durations(d)
    yield from _profiles(d)
    yield from _structures(d)
    yield from _requests(d)
    yield from _units(d)


def _mix(d: _Drawn) -> Iterator[Check]:
    has_gpus = ~np.isin(d.family, CPU_ONLY)
    yield share("J5", "workloads with GPUs", 0.80, has_gpus)
    for family, expected in SHARES.items():
        among = has_gpus != np.isin(family, CPU_ONLY)
        yield share("J5", f"{family} among its kind", expected, d.family[among] == family)
    yield never("J5", "CPU families have no GPU, others some", has_gpus != (d.gpus > 0))
    known = has_gpus & (d.family != "hpo_experiment")
    for count, expected in GPUS.items():
        yield share("J6", f"G = {count} (all but HPO)", expected, d.gpus[known] == count)


def _lognormal(
    rule: str, what: str, values: Floats, median: float, sigma: float, least: float, most: float
) -> Iterator[Check]:
    """Yield checks of median, spread and clamps of a clamped lognormal law."""

    def below(value: float) -> float:
        return NORMAL.cdf(math.log(value / median) / sigma)

    for name, at in (("median", 1.0), ("median/e^sigma", math.exp(-sigma))):
        value = max(median * at, least)
        label = f"{what}: share below {name}"
        yield share(rule, f"{label}, {value:.6g}", below(value), values < value)
    value = min(median * math.exp(sigma), most)
    label = f"{what}: share above median*e^sigma, {value:.6g}"
    yield share(rule, label, 1.0 - below(value), values >= value)
    outside = (values < least) | (values > most)
    yield never(rule, f"{what}: in {least:g} .. {most:g}", outside)


def _durations(d: _Drawn) -> Iterator[Check]:
    for family, (median, sigma, least, most) in DURATIONS.items():
        rows = d.family == family
        if family == "distributed_training":
            yield from _lognormal("J7", f"{family}, G >= 4 (x 1.2)",
                                  d.workload.runtime_s[rows & (d.gpus >= 4)],
                                  1.2 * median, sigma, least, most)  # fmt: skip
            rows &= d.gpus < 4
        values = d.workload.runtime_s[rows]
        yield from _lognormal("J7", family, values, median, sigma, least, most)


def _profiles(d: _Drawn) -> Iterator[Check]:
    first = np.searchsorted(d.tasks.job, np.arange(d.workload.n_jobs))
    profile = d.work.profile[first]
    known = ~np.isin(d.family, (*CPU_ONLY, "hpo_experiment"))
    shift = np.array([SHIFTS.get(family, 0.0) for family in KINDS])[d.workload.group]
    for count, expected in GPU_MEANS.items():
        rows = known & (d.gpus == count)
        noise = profile[rows, 1] - expected - shift[rows]
        spread = 0.16 if count >= 4 else 0.12
        yield mean("J8", f"GPU utilisation at G = {count}, less its family's shift", expected,
                   noise + expected)  # fmt: skip
        yield share("J8", f"within half of +-{spread:g} at G = {count}", 0.5,
                    np.abs(noise) < spread / 2)  # fmt: skip
        outside = np.abs(noise) > spread + 1e-4
        yield never("J8", f"within +-{spread:g} at G = {count}", outside)
    for family, expected in SHIFTS.items():
        if family == "hpo_experiment":
            mixed = sum(GPUS[g] * GPU_MEANS[g] for g in GPUS)
            values = profile[d.family == family, 1] - mixed
        else:
            rows = d.family == family
            means = np.array([GPU_MEANS.get(g, 0.0) for g in range(17)])[d.gpus[rows]]
            values = profile[rows, 1] - means
        yield mean("J8", f"shift of {family}", expected, values)
    for family, ranges in SIGNALS.items():
        values = profile[d.family == family]
        for column, (low, high) in ranges.items():
            rule = "J9" if column == 0 else "J10"
            quarter = (high - low) / 4.0
            for part, begin in (("lowest", low), ("highest", high - quarter)):
                # Four digits: what is rounded into the quarter comes from half of one beyond it.
                inside = (values[:, column] > begin - 5e-5) & (
                    values[:, column] < begin + quarter + 5e-5
                )
                what = f"{NAMES[column]} of {family}, {part} quarter of {low:g} .. {high:g}"
                yield share(rule, what, (quarter + 5e-5) / (high - low), inside)
    cpu_only = np.isin(d.family, CPU_ONLY)
    yield never(
        "J10", "no GPU signals without GPU", (profile[cpu_only][:, [1, 4]] != 0).any(axis=1)
    )


def _structures(d: _Drawn) -> Iterator[Check]:
    names = [*d.work.classes, ""]
    for family, (cpu, gpu) in CLASSES.items():
        rows = d.family[d.tasks.job] == family
        of_pods = np.array(names)[d.work.cpu_class[rows]], np.array(names)[d.work.gpu_class[rows]]
        yield never("J11", f"classes of {family}", (of_pods[0] != cpu) | (of_pods[1] != gpu))
    gang = np.isin(d.family, ("distributed_training", "parameter_server_training"))
    yield never("J12", "gang: distributed and PS only", gang[d.tasks.job] != (d.tasks.gang == 1))
    single = np.isin(d.family, ("debug_eval", "single_gpu_training", *CPU_ONLY))
    yield never("J12", "one pod with all GPUs", (d.workers + d.helpers)[single] != 1)
    distributed = d.family == "distributed_training"
    broken = (d.helpers != 1) | (d.workers != d.gpus)
    yield never("J12", "distributed: a launcher and a worker a GPU", broken[distributed])
    servers = d.family == "parameter_server_training"
    broken = (d.helpers != np.where(d.workers >= 4, 2, 1)) | (d.workers != d.gpus)
    yield never("J12", "PS: 1 server, 2 from 4 workers; a worker a GPU", broken[servers])
    hpo = d.family == "hpo_experiment"
    yield never(
        "J12", "HPO: a controller; a GPU a trial", ((d.helpers != 1) | (d.workers != d.gpus))[hpo]
    )
    for trials in range(2, 9):
        expected = 0.9 / 3 * (trials <= 4) + 0.1 / 7
        yield share("J12", f"HPO: {trials} trials", expected, d.workers[hpo] == trials)
    yield from _helper_requests(d)


def _helper_requests(d: _Drawn) -> Iterator[Check]:
    """Yield checks of helpers against the last worker of their job, as far as rounding tells."""
    last = np.searchsorted(d.tasks.job, np.arange(d.workload.n_jobs), side="right") - 1
    cores, memory = d.tasks.mcpu / 1000.0, d.tasks.mem_bytes / GIB
    of_worker = last[d.tasks.job]
    rules = {"launcher": (0.5, 1, 4, 0.4, 1, 8), "ps": (0.75, 1, 6, 1, 2, 16)}
    for role, (cpu, cpu_low, cpu_high, mem, mem_low, mem_high) in rules.items():
        rows = d.role == role
        wanted = np.clip(cpu * cores[of_worker][rows], cpu_low, cpu_high)
        broken = np.abs(cores[rows] - wanted) > 0.0101
        yield never("J12", f"{role}: clamp({cpu}c, {cpu_low}, {cpu_high}) cores", broken)
        wanted = np.clip(mem * memory[of_worker][rows], mem_low, mem_high)
        broken = np.abs(memory[rows] - wanted) > 0.5 + mem * 0.5 + 1e-9
        yield never("J12", f"{role}: clamp({mem}m, {mem_low}, {mem_high}) GiB", broken)
    rows = d.role == "controller"
    yield never("J12", "controller: 1 core, 1 GiB", (cores[rows] != 1) | (memory[rows] != 1))


def _requests(d: _Drawn) -> Iterator[Check]:
    family, cores = d.family[d.tasks.job], d.tasks.mcpu / 1000.0
    memory, of_pod = d.tasks.mem_bytes / GIB, d.tasks.mgpu // 1000
    is_helper = np.isin(d.role, HELPERS)
    # Workers of a job are alike, so one of each counts; trials are drawn one by one.
    is_first = np.ones(len(family), dtype=np.bool_)
    is_first[1:] = (d.tasks.job[1:] != d.tasks.job[:-1]) | is_helper[:-1]
    for name, (median, sigma, least, most) in CORES.items():
        rows = (family == name) & ~is_helper & (is_first | (name == "hpo_experiment"))
        near = median - 0.005  # two digits: between two of them
        for what, at in (
            ("median", near),
            ("median*e^sigma", round(near * math.exp(sigma), 2) - 0.005),
        ):
            expected = NORMAL.cdf(math.log(at / median) / sigma)
            label = f"cores of {name}: share below {what}, {at:.6g}"
            yield share("J13", label, expected, cores[rows] < at)
        outside = (cores[rows] < least) | (cores[rows] > most)
        yield never("J13", f"cores of {name} in {least} .. {most}", outside)
        base, per_gpu, spread, low, high = MEMORY[name]
        rows &= of_pod <= 1
        for z in (0.0, 1.0):
            at = math.floor(base + per_gpu * math.exp(z * spread)) + 0.5
            expected = NORMAL.cdf(math.log((at - base) / per_gpu) / spread)
            label = f"GiB of {name} at 1 GPU or none: share below {at:g}"
            yield share("J13", label, expected, memory[rows] < at)
        outside = (memory[rows] < base + low - 0.5) | (memory[rows] > base + high + 0.5)
        yield never("J13", f"GiB of {name} in {base + low} .. {base + high}", outside)
    rows = (family == "single_gpu_training") & (of_pod == 4)
    expected = NORMAL.cdf(math.log((42.5 - 2) / 4 / 10) / 0.35)
    yield share(
        "J13",
        "GiB of single_gpu_training at 4 GPUs: share below 42.5",
        expected,
        memory[rows] < 42.5,
    )
    yield never("J17", "cores have two digits, memory whole GiB",
                (d.tasks.mcpu % 10 != 0) | (d.tasks.mem_bytes % GIB != 0))  # fmt: skip


def _units(d: _Drawn) -> Iterator[Check]:
    job, family = d.tasks.job, d.family[d.tasks.job]
    is_helper = np.isin(d.role, HELPERS)
    factor = np.ones(len(job))
    for name, (workers, helpers) in WORK.items():
        rows = family == name
        factor[rows & ~is_helper] = workers / d.workers[job[rows & ~is_helper]]
        factor[rows & is_helper] = helpers / d.helpers[job[rows & is_helper]]
    used = np.maximum(d.work.profile[:, :2], 0.10)
    duration_s = d.workload.runtime_s[job]
    for name in KINDS:
        rows = family == name
        cpu = duration_s * d.tasks.mcpu / 1000.0 * used[:, 0] * factor
        broken = np.abs(d.work.cpu_units - cpu) > 1e-3 + 1e-9 * cpu
        yield never("J14", f"CPU units of {name}", broken[rows])
        if name not in CPU_ONLY:
            gpu = duration_s * d.tasks.mgpu / 1000.0 * used[:, 1]
            broken = np.abs(d.work.gpu_units - gpu) > 1e-3 + 1e-9 * gpu
            yield never("J14", f"GPU units of {name}", broken[rows])
    sense = np.array([FAMILY_SENSE.get(name, 0.65) for name in KINDS])[d.workload.group[job]]
    for role, expected in CPU_SENSE.items():
        sense[d.role == role] = expected
    yield never("J15", "CPU sensitivities", d.work.cpu_sensitivity != sense)
    of_gpu = np.array([GPU_SENSE.get(name, 1.0) for name in KINDS])[d.workload.group[job]]
    yield never("J15", "GPU sensitivities", d.work.gpu_sensitivity != of_gpu)


def _intent_rule(drawn: Workload, eco: Workload) -> Iterator[Check]:
    not_eco = (Term("joulie.io/power-profile", "NotIn", ("eco",)),)
    on_eco = (
        Term("joulie.io/power-profile", "In", ("eco",)),
        Term("joulie.io/draining", "NotIn", ("true",)),
    )
    for workload, terms, expected, what in (
        (drawn, not_eco, 0.30, "performance: not on eco machines"),
        (drawn, on_eco, 0.0, "eco at eco-ratio 0"),
        (eco, not_eco, 0.30, "performance at eco-ratio 0.2"),
        (eco, on_eco, 0.20, "eco at eco-ratio 0.2: on eco machines that do not drain"),
        (eco, (), 0.50, "general: anywhere"),
    ):
        tasks = workload.tasks
        assert tasks is not None
        first = np.searchsorted(tasks.job, np.arange(workload.n_jobs))
        told = [*tasks.affinities, ()]
        code = np.array([one == terms for one in told])
        yield share("J16", what, expected, code[tasks.demand[first]])
