"""The public interface: load, generate or describe a workload, and check, simulate and measure.

Shells and applications need no deeper module. Importing this one is cheap; SimPy and Numba are
imported when a simulation needs them.
"""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

from sim import explain as _explain
from sim.engines import ENGINES
from sim.engines import run as run_engine
from sim.engines.algorithms import (
    Algorithm,
    AlgorithmRun,
    Cpop,
    FirstFit,
    FleetSeries,
    Heft,
    Monitor,
    RandomFit,
)
from sim.engines.capacity_planning import first_fit_servers, plan_capacity
from sim.engines.compilation import (
    Compilation,
    Readiness,
    compilation_state,
    other_caches,
    remove_other_caches,
)
from sim.engines.compilation import begin as begin_to_compile
from sim.engines.fleet_setup import check_instances, summarise_instances, summarise_placing
from sim.engines.live_cluster import (
    Amounts,
    LiveCluster,
    LiveInstance,
    LiveJob,
    LiveMachine,
    LiveTask,
)
from sim.engines.parallel import CacheCounts, ResultCache, simulate_many
from sim.explain.explanation import JobExplanation, OtherJobs, QueueHeads, WaitPhase
from sim.formats.gpu_clusters import (
    MACHINE_COLUMNS,
    OPENB_COLUMNS,
    PHILLY_COLUMNS,
    read_machines,
    read_openb,
    read_philly,
)
from sim.formats.joulie_reader import TELEMETRY_COLUMNS, read_joulie, read_telemetry
from sim.formats.joulie_writer import write_joulie
from sim.formats.registry import (
    FORMATS,
    Format,
    format_by_name,
    format_of,
    is_model,
    read_workload,
    roundtrip_losses,
    write_workload,
)
from sim.formats.swf import ReadingRules, rule_choices, rules_from_texts, write_swf
from sim.formats.task_table import (
    CLOUDSIMPY_COLUMNS,
    read_cloudsimpy,
    read_task_table,
    write_cloudsimpy,
    write_task_table,
)
from sim.formats.vm_trace import VM_COLUMNS, read_vm_table
from sim.formats.vm_trace import is_bergsma as is_cloud_trace
from sim.formats.vm_trace import read_beside as read_cloud_trace
from sim.generators.cloud.batches import CloudWindows
from sim.generators.cloud.batches import windows_of as cloud_windows
from sim.generators.cloud.batches import windows_of_traces as cloud_windows_of_traces
from sim.generators.cloud.capacity import DEFINITIONS as CAPACITY_DEFINITIONS
from sim.generators.cloud.capacity import (
    CapacityCase,
    CapacityPlan,
    ServerRequirement,
    ServerSize,
    fluid_servers,
)
from sim.generators.cloud.packing import FULL as CLOUD_FULL
from sim.generators.cloud.packing import (
    PACKING_RULES,
    PackingRequests,
    PackingResults,
    PackingSummary,
    SchedulingTuple,
    TupleRanges,
    draw_tuples,
    read_tuples,
    requests_of,
    write_tuples,
)
from sim.generators.cloud.packing import pack as pack_jobs
from sim.generators.cloud.report import REPORTED as CLOUD_GENERATORS
from sim.generators.cloud.report import chosen_generators, cloud_report
from sim.generators.cloud.report import fit_trace as fit_cloud_trace
from sim.generators.cloud.report import knob_values as cloud_knobs
from sim.generators.cloud.report_values import DEFINITIONS as CLOUD_DEFINITIONS
from sim.generators.cloud.report_values import LEVELS as CLOUD_LEVELS
from sim.generators.cloud.report_values import CloudReport
from sim.generators.cloud.shareable_model import ShareableModel, SharingLoss, make_shareable
from sim.generators.downey import MoldableJobs, moldable_jobs, speedup
from sim.generators.generator import (
    Generator,
    Horizon,
    Model,
    RandomStreams,
    load_model,
    save_model,
)
from sim.generators.joulie.calibration import calibrate
from sim.generators.joulie.estimates import ParameterEstimate
from sim.generators.joulie.manifests import (
    ManifestStyle,
    TargetNode,
    render_manifests,
    retarget,
    without_power_terms,
    write_manifests,
)
from sim.generators.joulie.model_fit import JoulieFit, learn_joulie
from sim.generators.joulie.parameters import export_bundle, import_bundle
from sim.generators.joulie.phases import USUAL_PHASES, WorkloadPhase
from sim.generators.load_scaling import inflate_workload, scale_load, shake
from sim.generators.lublin_generator import default_workload
from sim.generators.registry import fit, generate, generator_named, generators, published_model
from sim.generators.validation import DEFINITIONS, Distance, Quantity, WorkloadComparison
from sim.generators.validation import compare as compare_workloads
from sim.kernel.instances import has_room
from sim.kernel.jit import kernel
from sim.metrics.placement_metrics import (
    Fragmentation,
    PlacementMetrics,
    TargetWorkload,
    fragmentation,
    overcommitted_share,
)
from sim.metrics.schedule_metrics import (
    SIZE_CLASSES,
    TAU_S,
    Distribution,
    GroupMetrics,
    InstanceMetrics,
    ScheduleMetrics,
    max_wait_s,
    measures,
    summarise,
)
from sim.metrics.wall_clock import WallClock
from sim.metrics.workload_profile import (
    ColumnSummary,
    CumulativeDistribution,
    ProfileWindow,
    WorkloadDescription,
    WorkloadProfile,
    describe,
    offered_load,
    profile,
)
from sim.model.admission import admit
from sim.model.cluster import (
    CapacityWindow,
    ClusterSpec,
    MachineSpec,
    Partition,
    ThrottleWindow,
    WindowKind,
)
from sim.model.errors import (
    ClusterError,
    DurationError,
    EngineError,
    ScenarioError,
    SimError,
    SizeError,
    TraceError,
    UnknownNameError,
    WorkloadError,
)
from sim.model.pods import Telemetry
from sim.model.result import Instances, JobState, Placement, Restarts, SimulationResult, StepSeries
from sim.model.scenario import Allocation, Overrun, Scenario, TooWide
from sim.model.tasks import Tasks, TaskWork, Term
from sim.model.units import format_duration, format_size, parse_duration, parse_size
from sim.model.workload import ReadingNote, Workload
from sim.policies.backfills import BACKFILLS, backfill_named, decision_of, rules_for
from sim.policies.orders import ORDERS, TASK_ORDERS, order_named
from sim.policies.placements import PLACEMENTS, PlacementRule, placement_named, register_placement
from sim.policies.placements import SCENARIO_OPTIONS as INSTANCE_OPTIONS
from sim.policies.placements import by_score as placement_by_score
from sim.policies.policy import PolicyOption
from sim.policies.policy_options import options_of

__all__ = [
    "CAPACITY_DEFINITIONS",
    "CLOUDSIMPY_COLUMNS",
    "CLOUD_DEFINITIONS",
    "CLOUD_FULL",
    "CLOUD_GENERATORS",
    "CLOUD_LEVELS",
    "DEFINITIONS",
    "FORMATS",
    "MACHINE_COLUMNS",
    "OPENB_COLUMNS",
    "PACKING_RULES",
    "PHILLY_COLUMNS",
    "SIZE_CLASSES",
    "TAU_S",
    "TELEMETRY_COLUMNS",
    "USUAL_PHASES",
    "VM_COLUMNS",
    "Algorithm",
    "AlgorithmRun",
    "Allocation",
    "Amounts",
    "CacheCounts",
    "CapacityCase",
    "CapacityPlan",
    "CapacityWindow",
    "CloudReport",
    "CloudWindows",
    "ClusterError",
    "ClusterSpec",
    "ColumnSummary",
    "Compilation",
    "Cpop",
    "CumulativeDistribution",
    "Distance",
    "Distribution",
    "DurationError",
    "EngineError",
    "FirstFit",
    "FleetSeries",
    "Format",
    "Fragmentation",
    "Generator",
    "GroupMetrics",
    "Heft",
    "Horizon",
    "InstanceMetrics",
    "Instances",
    "JobExplanation",
    "JobState",
    "JoulieFit",
    "LiveCluster",
    "LiveInstance",
    "LiveJob",
    "LiveMachine",
    "LiveTask",
    "MachineSpec",
    "ManifestStyle",
    "Model",
    "MoldableJobs",
    "Monitor",
    "OtherJobs",
    "Overrun",
    "PackingRequests",
    "PackingResults",
    "PackingSummary",
    "ParameterEstimate",
    "Partition",
    "Placement",
    "PlacementMetrics",
    "PlacementRule",
    "PolicyOption",
    "ProfileWindow",
    "Quantity",
    "QueueHeads",
    "RandomFit",
    "RandomStreams",
    "Readiness",
    "ReadingNote",
    "ReadingRules",
    "Restarts",
    "ResultCache",
    "Scenario",
    "ScenarioError",
    "ScheduleMetrics",
    "SchedulingTuple",
    "ServerRequirement",
    "ServerSize",
    "ShareableModel",
    "SharingLoss",
    "SimError",
    "SimulationResult",
    "SizeError",
    "StepSeries",
    "TargetNode",
    "TargetWorkload",
    "TaskWork",
    "Tasks",
    "Telemetry",
    "Term",
    "ThrottleWindow",
    "TooWide",
    "TraceError",
    "TupleRanges",
    "UnknownNameError",
    "WaitPhase",
    "WallClock",
    "WindowKind",
    "Workload",
    "WorkloadComparison",
    "WorkloadDescription",
    "WorkloadError",
    "WorkloadPhase",
    "WorkloadProfile",
    "admit",
    "backfills_for",
    "begin_to_compile",
    "calibrate",
    "check_backfill",
    "check_order",
    "check_policies",
    "check_scenario",
    "chosen_generators",
    "cloud_knobs",
    "cloud_report",
    "cloud_windows",
    "cloud_windows_of_traces",
    "compare_workloads",
    "compilation_state",
    "default_workload",
    "describe",
    "draw_tuples",
    "explain",
    "export_bundle",
    "first_fit_servers",
    "fit",
    "fit_cloud_trace",
    "fluid_servers",
    "format_by_name",
    "format_duration",
    "format_of",
    "format_size",
    "fragmentation",
    "generate",
    "generator_named",
    "generators",
    "has_room",
    "import_bundle",
    "inflate_workload",
    "is_cloud_trace",
    "is_model",
    "kernel",
    "known_names",
    "known_options",
    "learn_joulie",
    "load_model",
    "load_workload",
    "make_shareable",
    "max_wait_s",
    "measures",
    "moldable_jobs",
    "offered_load",
    "other_caches",
    "overcommitted_share",
    "pack_jobs",
    "parse_duration",
    "parse_size",
    "placement_by_score",
    "plan_capacity",
    "profile",
    "published_model",
    "read_cloud_trace",
    "read_cloudsimpy",
    "read_joulie",
    "read_machines",
    "read_openb",
    "read_philly",
    "read_task_table",
    "read_telemetry",
    "read_tuples",
    "read_vm_table",
    "register_placement",
    "remove_other_caches",
    "render_manifests",
    "requests_of",
    "retarget",
    "roundtrip_losses",
    "rule_choices",
    "rules_from_texts",
    "save_model",
    "scale_load",
    "shake",
    "simulate",
    "simulate_algorithm",
    "simulate_many",
    "speedup",
    "summarise",
    "summarise_instances",
    "summarise_placing",
    "wait_for_compiler",
    "without_power_terms",
    "write_cloudsimpy",
    "write_joulie",
    "write_manifests",
    "write_swf",
    "write_task_table",
    "write_tuples",
    "write_workload",
]


def explain(scenario: Scenario, job_id: int) -> JobExplanation:
    """Simulate a scenario and explain why a given job started when it did.

    Args:
        scenario: workload, cluster and policies.
        job_id: number of the job in the log.

    Raises:
        SimError: the errors of `sim.explain.explain`.
    """
    from sim.engines.process import run

    return _explain.explain(
        scenario,
        job_id,
        lambda run_of, observer: run(run_of, kernel="interpreted", witness=observer),
    )


def wait_for_compiler() -> None:
    """Compile the simulator if necessary, and wait until it can be loaded.

    Raises:
        EngineError: it cannot be compiled or loaded.
    """
    from sim.engines.compilation import compile_now

    compile_now()


def simulate(
    scenario: Scenario, *, engine: str = "auto", monitor: bool = False
) -> SimulationResult:
    """Simulate a scenario until its last job has ended.

    Args:
        scenario: workload, cluster and policies.
        engine: name of an engine in `sim.engines.ENGINES`. All give the same result, bit by bit.
        monitor: whether to record queue lengths and processors in use over time.

    Raises:
        UnknownNameError: no such engine, order, backfilling rule or option.
        EngineError: the engine cannot do what is requested, or nothing can be compiled here.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
    """
    options_of(scenario)
    return run_engine(scenario, engine, monitor=monitor)


def simulate_algorithm(
    scenario: Scenario,
    algorithm: Algorithm,
    *,
    tick_s: float | None = None,
    monitor: Monitor | None = None,
) -> AlgorithmRun:
    """Simulate task instances that a user's algorithm object places on machines.

    Args:
        scenario: scenario with allocation ``instances``. Its order is that of
            `LiveCluster.ready_tasks`; backfill and placement are ignored.
        algorithm: object with a method ``algorithm(cluster, clock)``, or a function, as in
            CloudSimPy. It returns a machine and a task, of which one more instance is placed there,
            or (None, None) when it wants no more.
        tick_s: interval of its calls in seconds, 1 in CloudSimPy; None calls it at the end of every
            instant with an arrival, an end or a change of speed.
        monitor: settings of the records; None records nothing.

    Raises:
        ScenarioError: a task that cannot be placed, an answer that cannot be carried out, or tasks
            that the algorithm leaves waiting for ever.
    """
    from sim.engines.algorithm_engine import run

    return run(scenario, algorithm, tick_s=tick_s, monitor=monitor)


def load_workload(
    path: str | PathLike[str], *, rules: ReadingRules | None = None, first: int | None = None
) -> Workload:
    """Read a workload from a file, whose format is detected from the content.

    Args:
        path: file, plain or gzip.
        rules: treatment of the peculiarities of logs in the Standard Workload Format; None is
            `ReadingRules()`.
        first: number of first jobs to use, among those that the rules accept (by default those that
            ran), in submit order. None uses all. A note says how many jobs the log has.

    Raises:
        TraceError: an unreadable file; the error has file, line, field, value and what is allowed.
        WorkloadError: `first` is less than 1, the file is a model, or rules are given for a format
            that has none.
    """
    workload = read_workload(Path(path), rules)
    if first is None:
        return workload
    first_jobs = workload.head(first)
    if first_jobs.n_jobs == workload.n_jobs:
        return workload
    sentence = (
        f"the first {first_jobs.n_jobs:,} of {workload.n_jobs:,} jobs are used; the other notes "
        "count the whole log."
    )
    return replace(
        first_jobs, notes=(ReadingNote("first", first_jobs.n_jobs, sentence), *workload.notes)
    )


def check_scenario(scenario: Scenario) -> None:
    """Check quickly that a scenario can be simulated, raising the errors of `simulate`.

    Raises:
        UnknownNameError: no such order or backfilling rule.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
    """
    check_policies(scenario)
    if scenario.allocation == "instances":
        check_instances(scenario)
    else:
        admit(scenario)


def check_policies(scenario: Scenario) -> None:
    """Check a scenario's policies and their options, raising the errors of `simulate`.

    Raises:
        UnknownNameError: no such order, backfilling rule or option.
        ScenarioError: the rule does not support the allocation, or the value of an option is not
            allowed.
    """
    check_order(scenario.order)
    decision_of(backfill_named(scenario.backfill), scenario.allocation)
    options_of(scenario)


def check_order(name: str) -> None:
    """Raise `UnknownNameError` unless a queue order has the given name.

    Raises:
        UnknownNameError: unknown name; the message lists the known ones.
    """
    order_named(name)


def check_backfill(name: str) -> None:
    """Raise `UnknownNameError` unless a backfilling rule has the given name.

    Raises:
        UnknownNameError: unknown name; the message lists the known ones.
    """
    backfill_named(name)


def known_names() -> dict[str, tuple[str, ...]]:
    """Return the valid names in scenarios and for `simulate`, by kind such as ``order``."""
    return {
        "order": tuple(order.name for order in ORDERS),
        "task_order": tuple(order.name for order in TASK_ORDERS),
        "backfill": tuple(backfill.name for backfill in BACKFILLS),
        "placement": tuple(rule.name for rule in PLACEMENTS),
        "engine": tuple(engine.name for engine in ENGINES),
    }


def backfills_for(allocation: Allocation) -> tuple[str, ...]:
    """Return the names of the backfilling rules that support an allocation."""
    return tuple(rule.name for rule in rules_for(allocation))


def known_options(
    kind: Literal["order", "backfill", "placement"], name: str
) -> tuple[PolicyOption, ...]:
    """Return the options of an order, a backfilling rule or a placement rule.

    Raises:
        UnknownNameError: no policy has that name.
    """
    if kind == "placement":
        return (*INSTANCE_OPTIONS, *placement_named(name).options)
    return (order_named(name) if kind == "order" else backfill_named(name)).options
