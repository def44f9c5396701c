"""The one door: load, generate or describe a workload, check and simulate a scenario, measure it.

Shells and applications need no deeper module. Importing this one is cheap; SimPy and Numba are
imported when a simulation needs them.
"""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

from sim.engine import ENGINES
from sim.engine import run as run_engine
from sim.engine.cache import CacheCounts, ResultCache
from sim.engine.explain import Explanation, Heads, Jobs, Phase, explain
from sim.engine.fleets.setup import check_instances, summarise_instances, summarise_placing
from sim.engine.many import simulate_many
from sim.engine.objects.algorithms import Cpop, FirstFit, Heft, RandomFit
from sim.engine.objects.live import (
    Amounts,
    LiveCluster,
    LiveInstance,
    LiveJob,
    LiveMachine,
    LiveTask,
)
from sim.engine.objects.values import Algorithm, AlgorithmRun, FleetSeries, Monitor
from sim.engine.preparation import (
    Compilation,
    Readiness,
    compilation,
    other_caches,
    remove_other_caches,
)
from sim.engine.preparation import begin as begin_to_compile
from sim.engine.servers import first_fit_servers, plan_capacity
from sim.errors import (
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
from sim.kernel.placing import has_room
from sim.kernel.text import kernel
from sim.model.admission import admit
from sim.model.capacity import CapacityWindow, WindowKind
from sim.model.cluster import ClusterSpec, MachineSpec, Partition
from sim.model.describe import ColumnSummary, WorkloadDescription, describe, offered_load
from sim.model.fragmentation import Fragmentation, Target, fragmentation
from sim.model.hours import WallClock
from sim.model.instance_metrics import InstanceMetrics
from sim.model.metrics import (
    SIZE_CLASSES,
    TAU_S,
    Distribution,
    GroupMetrics,
    Metrics,
    max_wait_s,
    measures,
    summarise,
)
from sim.model.placing_metrics import PlacingMetrics, beyond
from sim.model.profile import Curve, Window, WorkloadProfile, profile
from sim.model.result import (
    Instances,
    JobState,
    Placement,
    Restarts,
    SimulationResult,
    StepSeries,
)
from sim.model.scenario import Allocation, Overrun, Scenario, TooWide
from sim.model.tasks import Tasks, Term, Work
from sim.model.telemetry import Telemetry
from sim.model.throttle import ThrottleWindow
from sim.model.workload import ReadingNote, Workload
from sim.policies.backfill import BACKFILLS, backfill_named, decision_of, rules_for
from sim.policies.kinds import Option
from sim.policies.order import ORDERS, TASK_ORDERS, order_named
from sim.policies.placement import OPTIONS as INSTANCE_OPTIONS
from sim.policies.placement import PLACEMENTS, placement_named, register_placement
from sim.policies.placements.kinds import PlacementRule
from sim.policies.placements.kinds import by_score as placement_by_score
from sim.policies.told import options_of
from sim.traces.bergsma_files import is_bergsma as is_cloud_trace
from sim.traces.bergsma_files import read_beside as read_cloud_trace
from sim.traces.cloudsimpy import CLOUDSIMPY_COLUMNS, read_cloudsimpy, write_cloudsimpy
from sim.traces.formats import (
    FORMATS,
    Format,
    format_of,
    is_model,
    lost,
    read_workload,
    write_workload,
    written_as,
)
from sim.traces.joulie import read_joulie
from sim.traces.joulie_write import write_joulie
from sim.traces.machines import MACHINE_COLUMNS, read_machines
from sim.traces.openb import OPENB_COLUMNS, read_openb
from sim.traces.philly import PHILLY_COLUMNS, read_philly
from sim.traces.rules import ReadingRules, rule_choices, rules_from_texts
from sim.traces.swf_write import write_swf
from sim.traces.task_table import read_task_table, write_task_table
from sim.traces.telemetry import TELEMETRY_COLUMNS, read_telemetry
from sim.traces.vm_table import VM_COLUMNS, read_vm_table
from sim.units import format_duration, format_size, parse_duration, parse_size
from sim.workloads.builtin import default_workload
from sim.workloads.cloud.capacity import DEFINITIONS as CAPACITY_DEFINITIONS
from sim.workloads.cloud.capacity import CapacityPlan, Case, Needed, Server, fluid_servers
from sim.workloads.cloud.packing import FULL as CLOUD_FULL
from sim.workloads.cloud.packing import Packings, PackingSummary, Requests, requests_of
from sim.workloads.cloud.packing import pack as pack_jobs
from sim.workloads.cloud.report import REPORTED as CLOUD_GENERATORS
from sim.workloads.cloud.report import chosen_generators, cloud_report
from sim.workloads.cloud.report import fit_trace as fit_cloud_trace
from sim.workloads.cloud.report import knob_values as cloud_knobs
from sim.workloads.cloud.report_values import DEFINITIONS as CLOUD_DEFINITIONS
from sim.workloads.cloud.report_values import LEVELS as CLOUD_LEVELS
from sim.workloads.cloud.report_values import CloudReport
from sim.workloads.cloud.report_windows import Windows as CloudWindows
from sim.workloads.cloud.report_windows import windows_of as cloud_windows
from sim.workloads.cloud.report_windows import windows_of_traces as cloud_windows_of_traces
from sim.workloads.cloud.sharing import Loss, Shared, share
from sim.workloads.cloud.tuples import (
    PACKING_RULES,
    SchedulingTuple,
    TupleRanges,
    draw_tuples,
    read_tuples,
    write_tuples,
)
from sim.workloads.downey import MoldableJobs, moldable_jobs, speedup
from sim.workloads.generator import Generator, Horizon
from sim.workloads.generators import GENERATORS, fit, generate, generator_named, published_model
from sim.workloads.inflation import inflated
from sim.workloads.joulie.bundles import export_bundle, import_bundle
from sim.workloads.joulie.calibration import calibrate
from sim.workloads.joulie.fitting import Fitting, learn_joulie
from sim.workloads.joulie.learning import Learnt
from sim.workloads.joulie.manifests import ManifestStyle, render_manifests, write_manifests
from sim.workloads.joulie.phases import USUAL_PHASES
from sim.workloads.joulie.phases import Phase as WorkloadPhase
from sim.workloads.joulie.retarget import PoolNode, baseline, retarget
from sim.workloads.model import Model, load_model, save_model
from sim.workloads.scaling import scale_load, shake
from sim.workloads.streams import Streams
from sim.workloads.validation import DEFINITIONS, Comparison, Distance, Quantity
from sim.workloads.validation import compare as compare_workloads

__all__ = [
    "CAPACITY_DEFINITIONS", "CLOUDSIMPY_COLUMNS", "CLOUD_DEFINITIONS", "CLOUD_FULL",
    "CLOUD_GENERATORS", "CLOUD_LEVELS", "DEFINITIONS", "FORMATS", "GENERATORS", "MACHINE_COLUMNS",
    "OPENB_COLUMNS", "PACKING_RULES", "PHILLY_COLUMNS", "SIZE_CLASSES", "TAU_S",
    "TELEMETRY_COLUMNS", "USUAL_PHASES", "VM_COLUMNS", "Algorithm", "AlgorithmRun", "Allocation",
    "Amounts", "CacheCounts", "CapacityPlan", "CapacityWindow", "Case", "CloudReport",
    "CloudWindows", "ClusterError", "ClusterSpec", "ColumnSummary", "Comparison", "Compilation",
    "Cpop", "Curve", "Distance", "Distribution", "DurationError", "EngineError", "Explanation",
    "FirstFit", "Fitting", "FleetSeries", "Format", "Fragmentation", "Generator", "GroupMetrics",
    "Heads", "Heft", "Horizon", "InstanceMetrics", "Instances", "JobState", "Jobs", "Learnt",
    "LiveCluster", "LiveInstance", "LiveJob", "LiveMachine", "LiveTask", "Loss", "MachineSpec",
    "ManifestStyle", "Metrics", "Model", "MoldableJobs", "Monitor", "Needed", "Option", "Overrun",
    "PackingSummary", "Packings", "Partition", "Phase", "Placement", "PlacementRule",
    "PlacingMetrics", "PoolNode", "Quantity", "RandomFit", "Readiness", "ReadingNote",
    "ReadingRules", "Requests", "Restarts", "ResultCache", "Scenario", "ScenarioError",
    "SchedulingTuple", "Server", "Shared", "SimError", "SimulationResult", "SizeError",
    "StepSeries", "Streams", "Target", "Tasks", "Telemetry", "Term", "ThrottleWindow", "TooWide",
    "TraceError", "TupleRanges", "UnknownNameError", "WallClock", "Window", "WindowKind", "Work",
    "Workload", "WorkloadDescription", "WorkloadError", "WorkloadPhase", "WorkloadProfile", "admit",
    "backfills_for", "baseline", "begin_to_compile", "beyond", "calibrate", "check_backfill",
    "check_order", "check_policies", "check_scenario", "chosen_generators", "cloud_knobs",
    "cloud_report", "cloud_windows", "cloud_windows_of_traces", "compare_workloads", "compilation",
    "default_workload", "describe", "draw_tuples", "explain", "export_bundle", "first_fit_servers",
    "fit", "fit_cloud_trace", "fluid_servers", "format_duration", "format_of", "format_size",
    "fragmentation", "generate", "generator_named", "has_room", "import_bundle", "inflated",
    "is_cloud_trace", "is_model", "kernel", "known_names", "known_options", "learn_joulie",
    "load_model", "load_workload", "lost", "max_wait_s", "measures", "moldable_jobs",
    "offered_load", "other_caches", "pack_jobs", "parse_duration", "parse_size",
    "placement_by_score", "plan_capacity", "profile", "published_model", "read_cloud_trace",
    "read_cloudsimpy", "read_joulie", "read_machines", "read_openb", "read_philly",
    "read_task_table", "read_telemetry", "read_tuples", "read_vm_table", "register_placement",
    "remove_other_caches", "render_manifests", "requests_of", "retarget", "rule_choices",
    "rules_from_texts", "save_model", "scale_load", "shake", "share", "simulate",
    "simulate_algorithm", "simulate_many", "speedup", "summarise", "summarise_instances",
    "summarise_placing", "wait_for_compiler", "write_cloudsimpy", "write_joulie", "write_manifests",
    "write_swf", "write_task_table", "write_tuples", "write_workload", "written_as",
]  # fmt: skip


def wait_for_compiler() -> None:
    """Compile the simulator now if need be, wait for it, and make sure that it can be loaded.

    Raises:
        EngineError: it cannot be had.
    """
    from sim.engine.loading import compile_now

    compile_now()


def simulate(
    scenario: Scenario, *, engine: str = "auto", monitor: bool = False
) -> SimulationResult:
    """Simulate a scenario to the end of its last job.

    Args:
        scenario: workload, cluster and policies.
        engine: name of an engine in `sim.engine.ENGINES`. All give the same result, bit by bit.
        monitor: also record queue lengths and processors in use over time.

    Raises:
        UnknownNameError: no such engine, order, backfilling rule or option.
        EngineError: the engine cannot do what is asked, or nothing can be compiled here.
        ScenarioError: a job fits nowhere and the scenario does not say what to do with it.
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
    """Simulate instances of tasks that an object places, on the SimPy engine.

    Args:
        scenario: with allocation ``instances``. Its order is that of `LiveCluster.ready_tasks`;
            what goes where is up to the algorithm, so that backfill and placement do not count.
        algorithm: has a method ``algorithm(cluster, clock)`` that returns a machine and a task, of
            which one more instance is placed there, and (None, None) when it wants no more. An
            object or a function that is called so will do, as CloudSimPy's are.
        tick_s: ask it every so many seconds, as CloudSimPy does (1); None asks at the end of every
            instant at which something comes, ends or changes its speed.
        monitor: what to record; None records nothing.

    Raises:
        ScenarioError: what cannot be placed, an answer that cannot be carried out, or tasks that
            the algorithm leaves waiting for ever.
    """
    from sim.engine.objects.running import run

    return run(scenario, algorithm, tick_s=tick_s, monitor=monitor)


def load_workload(
    path: str | PathLike[str], *, rules: ReadingRules | None = None, first: int | None = None
) -> Workload:
    """Read a workload; its format is told by its content, see `sim.traces.formats.FORMATS`.

    Args:
        path: the file, plain or gzip.
        rules: what to do with the peculiarities of real logs in the Standard Workload Format; None
            is `ReadingRules()`.
        first: keep the first so many jobs that the rules let pass (by default those that ran), in
            submit order. None keeps all. A note says how many jobs the log has.

    Raises:
        TraceError: file, line, field, value and what is allowed.
        WorkloadError: `first` is less than 1, the file is a model, or rules are given for a format
            that has none.
    """
    workload = read_workload(Path(path), rules)
    if first is None:
        return workload
    kept = workload.head(first)
    if kept.n_jobs == workload.n_jobs:
        return workload
    sentence = (
        f"the first {kept.n_jobs:,} of {workload.n_jobs:,} jobs are used; the other notes count "
        "the whole log."
    )
    return replace(kept, notes=(ReadingNote("first", kept.n_jobs, sentence), *workload.notes))


def check_scenario(scenario: Scenario) -> None:
    """Refuse, before anything slow begins, a scenario that `simulate` would refuse.

    Raises:
        UnknownNameError: no such order or backfilling rule.
        ScenarioError: a job fits nowhere and the scenario does not say what to do with it.
    """
    check_policies(scenario)
    if scenario.allocation == "instances":
        check_instances(scenario)
    else:
        admit(scenario)


def check_policies(scenario: Scenario) -> None:
    """Refuse order, backfilling rule and options that `simulate` would refuse; look at no job.

    Raises:
        UnknownNameError: no such order, backfilling rule or option.
        ScenarioError: the rule cannot allocate what is wanted, or an option has a value that is
            not allowed.
    """
    check_order(scenario.order)
    decision_of(backfill_named(scenario.backfill), scenario.allocation)
    options_of(scenario)


def check_order(name: str) -> None:
    """Refuse a queue order that nobody registered.

    Raises:
        UnknownNameError: with the names that are known.
    """
    order_named(name)


def check_backfill(name: str) -> None:
    """Refuse a backfilling rule that nobody registered.

    Raises:
        UnknownNameError: with the names that are known.
    """
    backfill_named(name)


def known_names() -> dict[str, tuple[str, ...]]:
    """Return the names that a scenario and `simulate` accept, by kind, such as ``order``."""
    return {
        "order": tuple(order.name for order in ORDERS),
        "task_order": tuple(order.name for order in TASK_ORDERS),
        "backfill": tuple(backfill.name for backfill in BACKFILLS),
        "placement": tuple(rule.name for rule in PLACEMENTS),
        "engine": tuple(engine.name for engine in ENGINES),
    }


def backfills_for(allocation: Allocation) -> tuple[str, ...]:
    """Return the names of the backfilling rules that can decide with an allocation."""
    return tuple(rule.name for rule in rules_for(allocation))


def known_options(kind: Literal["order", "backfill", "placement"], name: str) -> tuple[Option, ...]:
    """Return what an order or a backfilling rule can be told, or placing, by any rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if kind == "placement":
        return (*INSTANCE_OPTIONS, *placement_named(name).options)
    return (order_named(name) if kind == "order" else backfill_named(name)).options
