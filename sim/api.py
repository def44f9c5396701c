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
from sim.engine.preparation import (
    Compilation,
    Readiness,
    compilation,
    other_caches,
    remove_other_caches,
)
from sim.engine.preparation import begin as begin_to_compile
from sim.errors import (
    ClusterError,
    DurationError,
    EngineError,
    ScenarioError,
    SimError,
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
from sim.policies.order import ORDERS, order_named
from sim.policies.placement import OPTIONS as INSTANCE_OPTIONS
from sim.policies.placement import PLACEMENTS, placement_named, register_placement
from sim.policies.placements.kinds import PlacementRule
from sim.policies.placements.kinds import by_score as placement_by_score
from sim.policies.told import options_of
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
from sim.traces.telemetry import TELEMETRY_COLUMNS, read_telemetry
from sim.units import format_duration, parse_duration
from sim.workloads.builtin import default_workload
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
    "DEFINITIONS",
    "FORMATS",
    "GENERATORS",
    "MACHINE_COLUMNS",
    "OPENB_COLUMNS",
    "PHILLY_COLUMNS",
    "SIZE_CLASSES",
    "TAU_S",
    "TELEMETRY_COLUMNS",
    "USUAL_PHASES",
    "Allocation",
    "CacheCounts",
    "CapacityWindow",
    "ClusterError",
    "ClusterSpec",
    "ColumnSummary",
    "Comparison",
    "Compilation",
    "Curve",
    "Distance",
    "Distribution",
    "DurationError",
    "EngineError",
    "Explanation",
    "Fitting",
    "Format",
    "Fragmentation",
    "Generator",
    "GroupMetrics",
    "Heads",
    "Horizon",
    "InstanceMetrics",
    "Instances",
    "JobState",
    "Jobs",
    "Learnt",
    "MachineSpec",
    "ManifestStyle",
    "Metrics",
    "Model",
    "MoldableJobs",
    "Option",
    "Overrun",
    "Partition",
    "Phase",
    "Placement",
    "PlacementRule",
    "PlacingMetrics",
    "PoolNode",
    "Quantity",
    "Readiness",
    "ReadingNote",
    "ReadingRules",
    "Restarts",
    "ResultCache",
    "Scenario",
    "ScenarioError",
    "SimError",
    "SimulationResult",
    "StepSeries",
    "Streams",
    "Target",
    "Tasks",
    "Telemetry",
    "Term",
    "ThrottleWindow",
    "TooWide",
    "TraceError",
    "UnknownNameError",
    "WallClock",
    "Window",
    "WindowKind",
    "Work",
    "Workload",
    "WorkloadDescription",
    "WorkloadError",
    "WorkloadPhase",
    "WorkloadProfile",
    "admit",
    "backfills_for",
    "baseline",
    "begin_to_compile",
    "beyond",
    "calibrate",
    "check_backfill",
    "check_order",
    "check_policies",
    "check_scenario",
    "compare_workloads",
    "compilation",
    "default_workload",
    "describe",
    "explain",
    "export_bundle",
    "fit",
    "format_duration",
    "format_of",
    "fragmentation",
    "generate",
    "generator_named",
    "has_room",
    "import_bundle",
    "inflated",
    "is_model",
    "kernel",
    "known_names",
    "known_options",
    "learn_joulie",
    "load_model",
    "load_workload",
    "lost",
    "max_wait_s",
    "measures",
    "moldable_jobs",
    "offered_load",
    "other_caches",
    "parse_duration",
    "placement_by_score",
    "profile",
    "published_model",
    "read_joulie",
    "read_machines",
    "read_openb",
    "read_philly",
    "read_telemetry",
    "register_placement",
    "remove_other_caches",
    "render_manifests",
    "retarget",
    "rule_choices",
    "rules_from_texts",
    "save_model",
    "scale_load",
    "shake",
    "simulate",
    "simulate_many",
    "speedup",
    "summarise",
    "summarise_instances",
    "summarise_placing",
    "wait_for_compiler",
    "write_joulie",
    "write_manifests",
    "write_swf",
    "write_workload",
    "written_as",
]


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
