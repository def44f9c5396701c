"""Load a workload, check its scenario and policies, and simulate it.

SimPy and Numba are imported when a simulation needs them.
"""

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

from sim.engines import ENGINES
from sim.engines import run as run_engine
from sim.engines.fleet_setup import check_instances
from sim.formats.registry import read_workload
from sim.formats.swf import ReadingRules
from sim.model.admission import admit
from sim.model.result import SimulationResult
from sim.model.scenario import Allocation, Scenario
from sim.model.workload import ReadingNote, Workload
from sim.policies.backfills import BACKFILLS, backfill_named, decision_of, rules_for
from sim.policies.orders import ORDERS, TASK_ORDERS, order_named
from sim.policies.placements import PLACEMENTS, placement_named
from sim.policies.placements import SCENARIO_OPTIONS as INSTANCE_OPTIONS
from sim.policies.policy import PolicyOption
from sim.policies.policy_options import options_of


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


def load_workload(
    path: str | PathLike[str],
    *,
    rules: ReadingRules | None = None,
    first: int | None = None,
    pending: bool = False,
) -> Workload:
    """Read a workload from a file, whose format is detected from the content.

    Args:
        path: file, plain or gzip.
        rules: treatment of the peculiarities of logs in the Standard Workload Format; None is
            `ReadingRules()`.
        first: number of first jobs to use, among those that the rules accept (by default those that
            ran), in submit order. None uses all. A note says how many jobs the log has.
        pending: whether to keep jobs that were never started, where the format records them.

    Raises:
        TraceError: an unreadable file; the error has file, line, field, value and what is allowed.
        WorkloadError: `first` is less than 1, the file is a model, or rules are given for a format
            that has none.
    """
    workload = read_workload(Path(path), rules, pending=pending)
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
    order_named(scenario.order)
    decision_of(backfill_named(scenario.backfill), scenario.allocation)
    options_of(scenario)


def known_names() -> dict[str, tuple[str, ...]]:
    """Return the registered names of policies and engines, by kind such as ``order``."""
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
    return _OPTIONS_OF[kind](name)


_OPTIONS_OF: dict[str, Callable[[str], tuple[PolicyOption, ...]]] = {
    "order": lambda name: order_named(name).options,
    "backfill": lambda name: backfill_named(name).options,
    "placement": lambda name: (*INSTANCE_OPTIONS, *placement_named(name).options),
}
