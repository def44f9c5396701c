"""Setup of fleets: the state before the first event and the result after the last."""

import numpy as np
from numpy.typing import NDArray

from sim.engines.event_loop import Timetable, new_timetable
from sim.kernel.fleet import (
    GPU,
    Fleet,
    GaugeSettings,
    InstanceSpeed,
    MachineTable,
    TaskTable,
    empty_fleet,
)
from sim.kernel.records import field
from sim.metrics.placement_metrics import PlacementMetrics, TargetWorkload, placement_metrics
from sim.metrics.schedule_metrics import InstanceMetrics, instance_metrics
from sim.model.admission import Pace, PlacementProblem, pace_of, placement_problem, tasks_of
from sim.model.cluster import UNLIMITED, speed_changes
from sim.model.errors import ScenarioError
from sim.model.result import Instances, JobState, SimulationResult
from sim.model.scenario import Scenario
from sim.policies.backfills import backfill_named
from sim.policies.orders import order_named, ranks
from sim.policies.placements import (
    ALL_OR_NOTHING,
    BY_TASK,
    BY_UTILISATION,
    CPU_UNIT_RATE,
    EVEN_SHARES,
    GPU_UNIT_RATE,
    placement_named,
)
from sim.policies.policy import JobFacts, TaskFacts
from sim.policies.policy_options import OptionValues, options_of

MAX_CACHED_SCORES = 2**23


def make_fleet(scenario: Scenario) -> tuple[Fleet, Timetable]:
    """Return the initial fleet and timetable of a scenario, as arrays.

    Raises:
        ScenarioError: see `sim.model.admission.placement_problem`.
        UnknownNameError: no such order.
    """
    tasks, needs, options = tasks_of(scenario), placement_problem(scenario), options_of(scenario)
    pace = scenario_pace(scenario)
    rank = _task_ranks(scenario, needs, pace, options)
    specs = [s for part in scenario.cluster.partitions for s in part.machines]
    counts = [spec.count for spec in specs]
    plant = MachineTable(
        needs.capacity,
        needs.machine_kind,
        np.repeat([float(spec.cpu_throttle) for spec in specs], counts),
        np.repeat([float(spec.gpu_throttle) for spec in specs], counts),
    )
    orders = TaskTable(
        job=tasks.job,
        instances=tasks.instances,
        need=needs.of_task,
        gang=tasks.gang,
        rank=rank,
        first_parent=tasks.first_parent,
        parent=tasks.parent_task,
        demand=needs.demand,
        suits=needs.suits,
        speeds=np.column_stack([getattr(pace, name) for name in InstanceSpeed.__annotations__]),
    )
    fleet = empty_fleet(
        plant,
        orders,
        _gauge_settings(scenario, needs, options, pace),
        follows=bool(scenario.throttles),
        shares=options.of(EVEN_SHARES) == 1.0,
        at_once=options.of(ALL_OR_NOTHING) == 1.0,
    )
    turns = speed_changes(scenario.throttles, scenario.cluster)
    submit_s = scenario.workload.submit_s
    return fleet, new_timetable(submit_s, needs.takes_part, turns, tasks.n_instances)


def _gauge_settings(
    scenario: Scenario, needs: PlacementProblem, options: OptionValues, pace: Pace
) -> GaugeSettings:
    """Return the gauge settings of the placement rule and the order of a scenario."""
    rule, tasks = placement_named(scenario.placement), tasks_of(scenario)
    typical, popular = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if rule.has_typical:
        share = float(options.placement[-1])
        typical, popular = typical_needs(needs, tasks.instances, share)
    draws = np.random.SeedSequence(scenario.seed).generate_state(2) % 2_000_000_000 + 1
    return GaugeSettings(
        options=options.placement,
        limited=needs.capacity < UNLIMITED,
        classes=rule.counts_classes,
        typical=typical,
        popular=popular,
        keeps=rule.has_typical and needs.demand.shape[0] * len(needs.capacity) <= MAX_CACHED_SCORES,
        group_of=_groups(scenario),
        runtime_s=np.maximum(pace.cpu_work / pace.cpu_rate, pace.gpu_work / pace.gpu_rate),
        draws=(int(draws[0]), int(draws[1])),
    )


def _groups(scenario: Scenario) -> NDArray[np.int64]:
    """Return the group whose usage includes each job: int64 [n_jobs]; [0] if unused."""
    if not backfill_named(scenario.backfill).counts_holders:
        return np.zeros(0, dtype=np.int64)
    user = scenario.workload.user
    if (user < 0).all():
        return np.arange(len(user), dtype=np.int64)
    return np.unique(user, return_inverse=True)[1].astype(np.int64)


def typical_needs(
    needs: PlacementProblem, instances: NDArray[np.int64], share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most frequent resource requests and their instance counts: int64 [n_typical].

    Args:
        needs: needs of the tasks.
        instances: int64 [n_tasks].
        share: minimum share of all instances that they cover, 0 to 1; at least one need is
            returned.
    """
    popular = np.zeros(len(needs.demand), dtype=np.int64)
    np.add.at(popular, needs.of_task, instances)
    by_number = np.argsort(-popular, kind="stable")
    before = np.cumsum(popular[by_number]) - popular[by_number]
    typical = by_number[(before < share * popular.sum()) | (before == 0)]
    typical = typical[np.argsort(needs.demand[typical, GPU], kind="stable")]
    return typical.astype(np.int64), popular[typical]


def scenario_pace(scenario: Scenario) -> Pace:
    """Return work and speeds of a scenario's tasks, under the scenario's options.

    Raises `ScenarioError` for units for processors or GPUs that a task does not request.
    """
    options = options_of(scenario)
    return pace_of(
        tasks_of(scenario),
        by_utilisation=options.of(BY_UTILISATION) == 1.0,
        cpu_rate=options.of(CPU_UNIT_RATE),
        gpu_rate=options.of(GPU_UNIT_RATE),
    )


def summarise_instances(scenario: Scenario, result: SimulationResult) -> InstanceMetrics:
    """Compute the metrics of a simulated schedule of instances on machines."""
    return instance_metrics(scenario, result, scenario_pace(scenario))


def summarise_placing(
    scenario: Scenario, result: SimulationResult, target: TargetWorkload | None = None
) -> PlacementMetrics:
    """Compute metrics of how well instances were placed on machines, such as fragmentation.

    `target` is the typical instances for the fragmentation; None is the workload of the scenario.
    """
    return placement_metrics(scenario, result, scenario_pace(scenario), target)


def check_instances(scenario: Scenario) -> None:
    """Raise `ScenarioError` if the scenario's instances cannot be placed."""
    placement_problem(scenario)
    scenario_pace(scenario)


def _task_ranks(
    scenario: Scenario, needs: PlacementProblem, pace: Pace, options: OptionValues
) -> NDArray[np.int64]:
    """Return the place of every task in the order: int64 [n_tasks], a permutation."""
    order, tasks = order_named(scenario.order), tasks_of(scenario)
    if order.score_tasks is not None:
        score = order.score_tasks(task_facts(scenario, needs, pace))
        place = np.argsort(score, kind="stable")
    elif options.of(BY_TASK) == 1.0:
        place = np.argsort(ranks(order, _facts(scenario, needs, options, pace)), kind="stable")
    else:
        of_jobs = ranks(order, _facts(scenario, needs, options))
        place = np.argsort(of_jobs[tasks.job], kind="stable")
    rank = np.empty(tasks.n_tasks, dtype=np.int64)
    rank[place] = np.arange(tasks.n_tasks)
    return rank


def _facts(
    scenario: Scenario, needs: PlacementProblem, options: OptionValues, of_tasks: Pace | None = None
) -> JobFacts:
    """Return the facts on jobs for an order; with a pace of tasks, as if each task were a job."""
    workload, tasks = scenario.workload, tasks_of(scenario)
    row = np.arange(workload.n_jobs) if of_tasks is None else tasks.job
    return JobFacts(
        submit_s=workload.submit_s[row],
        requested_s=workload.requested_s if of_tasks is None else _full_s(of_tasks),
        procs=workload.procs if of_tasks is None else np.maximum(-(-tasks.mcpu // 1000), 1),
        partition=np.where(needs.takes_part, 0, -1).astype(np.int64)[row],
        queue=workload.queue[row],
        cluster=scenario.cluster,
        qos_priority=scenario.qos_priority,
        options=options.values,
    )


def task_facts(scenario: Scenario, needs: PlacementProblem, pace: Pace) -> TaskFacts:
    """Return the task properties that a queue order may use."""
    tasks, full_s = tasks_of(scenario), _full_s(pace)
    specs = [s for part in scenario.cluster.partitions for s in part.machines]
    total, n = np.zeros(tasks.n_tasks), np.zeros(tasks.n_tasks)
    first = 0
    for spec in specs:
        holds = (needs.demand <= needs.capacity[first]).all(axis=1)
        holds &= needs.suits[:, needs.machine_kind[first]] == 1
        can = holds[needs.of_task]
        takes_s = seconds_on(pace, float(spec.cpu_throttle), float(spec.gpu_throttle))
        total, n = total + np.where(can, spec.count * takes_s, 0.0), n + spec.count * can
        first += spec.count
    mean_s = np.where(n > 0, total / np.maximum(n, 1), full_s)
    return TaskFacts(tasks, full_s, mean_s)


def _full_s(pace: Pace) -> NDArray[np.float64]:
    return seconds_on(pace, 1.0, 1.0)


def seconds_on(pace: Pace, cpu: float, gpu: float) -> NDArray[np.float64]:
    """Return one instance's run time in seconds alone on a machine, per task: float64 [n_tasks].

    `cpu` and `gpu` are speeds as shares of full speed. The arithmetic is that of the kernel.
    """
    cpu_pace = pace.cpu_rate * (1.0 - pace.cpu_feels * (1.0 - cpu))
    gpu_pace = pace.gpu_rate * (1.0 - pace.gpu_feels * (1.0 - gpu))
    gpu_pace = gpu_pace * (1.0 - pace.feed * (1.0 - cpu))
    return np.maximum(pace.cpu_work / cpu_pace, pace.gpu_work / gpu_pace)


def instances_result(
    scenario: Scenario, fleet: Fleet, table: Timetable, engine: str
) -> SimulationResult:
    """Return the result of a simulation of instances.

    A job starts when its first instance is placed, and ends when the last one ends.

    Raises:
        ScenarioError: jobs wait for each other, or for machines that do not exist.
    """
    tasks = tasks_of(scenario)
    takes_part = np.asarray(table.takes_part, dtype=np.int64) == 1
    first = np.concatenate([[0], np.cumsum(tasks.instances)]).astype(np.int64)
    start_s = np.asarray(fleet.start_s, dtype=np.float64)
    end_s = np.asarray(fleet.end_s, dtype=np.float64)
    of_jobs = first[np.searchsorted(tasks.job, np.arange(tasks.n_jobs), side="left")]
    left = np.array(field(fleet.tasks, "n_left"), dtype=np.int64)
    waits = np.flatnonzero((left > 0) & takes_part[tasks.job])
    if len(waits):
        raise ScenarioError(_why_stuck(scenario, fleet, waits, start_s, first))
    state = np.full(tasks.n_jobs, JobState.COMPLETED, dtype=np.int8)
    state[~takes_part] = JobState.REJECTED
    return SimulationResult(
        start_s=np.minimum.reduceat(start_s, of_jobs),
        end_s=np.maximum.reduceat(end_s, of_jobs),
        partition=np.where(takes_part, 0, -1).astype(np.int64),
        state=state,
        scenario_digest=scenario.digest,
        engine=engine,
        instances=Instances(
            first=first,
            machine=np.asarray(fleet.machine, dtype=np.int64),
            start_s=start_s,
            begin_s=np.asarray(fleet.begin_s, dtype=np.float64),
            end_s=end_s,
            device=np.asarray(fleet.device, dtype=np.int64),
        ),
    )


def _why_stuck(
    scenario: Scenario,
    fleet: Fleet,
    waits: NDArray[np.intp],
    start_s: NDArray[np.float64],
    first: NDArray[np.int64],
) -> str:
    tasks, ids = tasks_of(scenario), scenario.workload.job_id
    has_begun = ~np.isnan(np.asarray(fleet.begin_s, dtype=np.float64))
    placed = ~np.isnan(start_s)
    holds = np.add.reduceat(placed & ~has_begun, first[:-1]) > 0
    holders = np.unique(tasks.job[waits[holds[waits]]])
    if len(holders):
        some = ", ".join(str(ids[job]) for job in holders[:5].tolist())
        more = ", ..." if len(holders) > 5 else ""
        return (
            f"the gangs of jobs {some}{more} hold machines and wait forever for the rest of their "
            "instances; place whole gangs with the option all_or_nothing=1, or use more machines."
        )
    n_waiting, begins = (field(fleet.needs, name) for name in ("n_waiting", "first"))
    heads = [int(fleet.queue[at]) for n, at in zip(n_waiting, begins, strict=True) if n > 0]
    rank = field(fleet.tasks, "rank")
    job = int(tasks.job[min(heads, key=lambda task: int(rank[task]))])
    return (
        f"the gang of job {ids[job]} has no room even when all machines are idle (placement "
        f"'{scenario.placement}'); use more machines, or leave the job out."
    )
