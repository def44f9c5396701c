"""Simulation of a trained scheduler in machine code: the engine `compiled` with its network.

Its decisions are those of `LearnedPlacement` under `simulate_algorithm`. Scores may differ in their
last digits, which matters only where two differ by `SAME_SCORE` to that accuracy.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sim.engines import compilation
from sim.engines.compilation import load_or_recompile
from sim.engines.compiled import advance
from sim.engines.event_loop import (
    compiled_fleet_loop,
    compiled_fleet_text,
    compiled_placement,
)
from sim.engines.fleet_setup import instances_result, make_fleet
from sim.kernel import jit
from sim.kernel.fleet import AMOUNTS, Fleet
from sim.model.admission import tasks_of
from sim.model.cluster import UNLIMITED
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import Tasks, levels, upward_ranks
from sim.placement.algorithms import checked_algorithm, named_result, simulate_algorithm
from sim.placement.learned.scheduler import LearnedPlacement
from sim.policies.backfills import backfill_named
from sim.policies.pair_network import NetworkTables, packed, serve_by_network
from sim.policies.placements import placement_named

MOST_INTERPRETED = 1_000
"""Instances up to which a simulation in Python takes less time than loading machine code."""

ENGINES: dict[str, bool | None] = {"auto": None, "process": False, "compiled": True}
"""Names of engines for people, and what `simulate_learned` takes for each."""


def simulate_learned(
    scenario: Scenario, scheduler: LearnedPlacement, *, compiled: bool | None = None
) -> SimulationResult:
    """Simulate task instances that a trained scheduler places on machines.

    Args:
        scenario: scenario with allocation ``instances``; backfill and placement are ignored.
        scheduler: trained scheduler.
        compiled: whether in machine code, else by the engine ``process``; None takes machine code
            for many instances where there is a compiler.

    Raises:
        EngineError: there is no compiler for machine code.
        ScenarioError: a task that cannot be placed.
    """
    is_large = tasks_of(scenario).n_instances > MOST_INTERPRETED
    if compiled is None:
        compiled = is_large and jit.unavailable() is None
    if not compiled:
        mine = LearnedPlacement(scheduler.brain, scheduler.record)  # for this thread
        return simulate_algorithm(scenario, mine).result
    checked_algorithm(scenario)
    plain = replace(scenario, backfill="greedy", placement="first_fit")
    if not compilation.is_ready("instances"):
        compilation.wait("instances")
    program, decide, choose = load_or_recompile(_program, "instances")
    fleet, table = make_fleet(plain)
    fleet = with_network(fleet, scheduler, scenario)
    advance(lambda n_instants: program(fleet, decide, choose, table, n_instants))
    return named_result(instances_result(scenario, fleet, table, "compiled"), scheduler)


def _program() -> tuple[Any, Any, Any]:
    return (
        compiled_fleet_loop(backfill_named("greedy")),
        compiled_fleet_text(serve_by_network),
        compiled_placement(placement_named("first_fit")),
    )


def with_network(fleet: Fleet, scheduler: LearnedPlacement, scenario: Scenario) -> Fleet:
    """Return a fleet whose gauges hold the network of a scheduler, and space for its decisions."""
    brain, record, tasks = scheduler.brain, scheduler.record, tasks_of(scenario)
    capacity = np.asarray(fleet.free).reshape(-1, AMOUNTS)
    most = np.where(capacity < UNLIMITED, capacity, 0).max(axis=0).astype(np.float64)
    most[most == 0] = np.inf
    sizes = (len(brain.mean), len(brain.weights[2]), len(brain.weights[4]))
    tables = NetworkTables(
        sizes, record.scale_s, most, *_graph_columns(tasks, scenario, most, record.scale_s),
        (brain.mean, brain.deviation, *brain.weights),
    )  # fmt: skip
    n_tasks, n_machines = tasks.n_tasks, len(capacity)
    columns: dict[str, Any] = {
        "options": packed(tables),
        "cached_scores": np.zeros(n_tasks + sum(sizes)),
        "kept_at": np.zeros(2 * (n_tasks + n_machines), dtype=np.int64),
    }
    return fleet._replace(gauges=fleet.gauges._replace(**columns))


def _graph_columns(tasks: Tasks, scenario: Scenario, most: Any, scale_s: float) -> tuple[Any, Any]:
    """Return the tables of tasks and jobs, see `NetworkTables`."""
    to_end_s = upward_ranks(tasks, tasks.runtime_s)
    n_children = np.bincount(tasks.parent_task, minlength=tasks.n_tasks)
    of_tasks = np.column_stack([
        np.log1p(to_end_s / scale_s), np.log1p(levels(tasks)), np.log1p(n_children),
        np.log1p(_n_behind(tasks)), tasks.runtime_s * (tasks.demands / most).max(axis=1),
    ])  # fmt: skip
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    path_s = np.maximum.reduceat(to_end_s, first)
    return of_tasks, np.column_stack([np.log1p(path_s / scale_s), scenario.workload.submit_s])


def _n_behind(tasks: Tasks) -> Any:
    """Return the number of tasks that must wait for each task: int64 [n_tasks]."""
    behind = [0] * tasks.n_tasks  # sets of tasks of a job, as bits
    first = np.searchsorted(tasks.job, tasks.job)
    for task in np.argsort(-levels(tasks), kind="stable").tolist():
        bit = 1 << int(task - first[task])
        for parent in tasks.parent_task[tasks.first_parent[task] : tasks.first_parent[task + 1]]:
            behind[int(parent)] |= behind[task] | bit
    return np.array([bits.bit_count() for bits in behind], dtype=np.int64)
