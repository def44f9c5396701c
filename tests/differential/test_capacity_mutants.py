"""Seeded mutants of queues, limits, preemption and windows: each breaks one line and must be seen.

As in `tests.differential.test_mutants`, whose copy and process these use.
"""

from pathlib import Path

import pytest

from tests.differential.test_mutants import copied, mutated, outcome

MUTANTS = {
    "tiers are forgotten where the queue is ranked anew": (
        "kernel/job_queue.py",
        "return standings[job].tier > standings[other].tier",
        "return job < other",
    ),
    "a door lets in one too many": (
        "kernel/job_queue.py",
        "door.n_inside < door.limit",
        "door.n_inside <= door.limit",
    ),
    "who leaves rings no bell": (
        "kernel/job_queue.py",
        "        outside.doors[door].n_inside -= 1\n        _mark_limit(outside, k, door)",
        "        outside.doors[door].n_inside -= 1",
    ),
    "windows that are planned are not foreseen": (
        "kernel/plan.py",
        "is_planned = window.kind == PLANNED and window.state == AHEAD",
        "is_planned = False",
    ),
    "failures are foreseen": (
        "kernel/plan.py",
        "is_planned = window.kind == PLANNED and window.state == AHEAD",
        "is_planned = window.state == AHEAD",
    ),
    "the oldest is killed": (
        "kernel/preemption.py",
        "mine_s > since_s or (mine_s == since_s and job > youngest)",
        "youngest < 0",
    ),
    "nobody is spared": (
        "kernel/preemption.py",
        "if can and not is_free(pool, k, procs, until_s):",
        "if can:",
    ),
    "the end of a killed job stays in the calendar": (
        "engines/process.py",
        "if callbacks is not None:\n                callbacks.clear()",
        "if callbacks is not None:\n                pass",
    ),
    "the wrong end is withdrawn": (
        "kernel/event_heap.py",
        "while jobs[slot] != job:",
        "while jobs[slot] < job:",
    ),
    "conservative backfilling relies on its plan when processors fail": (
        "kernel/preemption.py",
        "    here.has_ended = OVERRUN\n    n_killed",
        "    n_killed",
    ),
    "the end of a window lets nobody look again": (
        "kernel/preemption.py",
        "        here.free += window.procs\n        here.look_from = here.head",
        "        here.free += window.procs",
    ),
}

TRY = """
import os
from hypothesis import HealthCheck, given, seed, settings
from sim import simulate
from tests.differential import naive_capacity
from tests.draw.capacity import busy_scenario, capacity_scenarios

def look(scenario):
    expected = [(j.start, j.restarts) for j in naive_capacity.schedule(scenario)]
    for engine in ("interpreted", "process"):
        result = simulate(scenario, engine=engine)
        n = [0] * len(expected) if result.restarts is None else result.restarts.n.tolist()
        if list(zip(result.start_s.tolist(), n)) != expected:
            os._exit(3)  # at once: there is nothing to shrink

for number in range(40):
    look(busy_scenario(number))

@seed(1)
@settings(
    max_examples=int(os.environ["MOST"]), deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)
@given(capacity_scenarios(most_jobs=40))
def same(scenario):
    look(scenario)

same()
"""

SEEN = (1, 3)
"""Exit codes of a process that stumbled, and of one that saw other starts."""


@pytest.mark.soak
@pytest.mark.slow
def test_the_unbroken_text_passes(tmp_path: Path, repository: Path) -> None:
    assert outcome(copied(tmp_path), repository, TRY, most=40) == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    assert outcome(mutated(tmp_path, *MUTANTS[name]), repository, TRY, most=200) in SEEN
