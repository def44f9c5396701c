"""Seeded mutants of what places instances: each breaks one line of the text and must be seen.

As in `test_mutants`: a copy of the package is edited, and drawn scenarios are run by the loop in
Python against the naive reference, which shares no text with it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sim

UP = "\n            break\n        times_s[slot], instances[slot] = "
"""Lines behind one that stands in two heaps."""

MUTANTS = {
    "what just fits does not": (
        "kernel/instances.py",
        "if fleet.free[at + r] < fleet.demand[wants + r]:",
        "if fleet.free[at + r] <= fleet.demand[wants + r]:",
    ),
    "GPUs are not given back": (
        "kernel/instances.py",
        "        fleet.free[at + r] += fleet.demand[wants + r]",
        "        fleet.free[at + r] += fleet.demand[wants + r] * (r < GPU)",
    ),
    "the last machine where something was given back is the first": (
        "kernel/instances.py",
        "need.start == NONE or machine < need.start",
        "need.start == NONE or machine > need.start",
    ),
    "one parent is enough": (
        "kernel/instances.py",
        "fleet.tasks[child].n_parents -= 1",
        "fleet.tasks[child].n_parents = 0",
    ),
    "a gang does not wait for itself": (
        "kernel/instances.py",
        "if task_row.is_gang == 0:\n        begin",
        "if task_row.is_gang >= 0:\n        begin",
    ),
    "a need is thought to have no room when some of it has been placed": (
        "kernel/instances.py",
        "need.is_stuck = 0 if is_placed else 1",
        "need.is_stuck = need.is_stuck if is_placed else 1",
    ),
    "who comes before the one that blocks waits behind it": (
        "kernel/instances.py",
        "fleet.tasks[task].rank < fleet.tasks[blocked].rank:",
        "fleet.tasks[task].rank < -fleet.tasks[blocked].rank:",
    ),
    "one whole GPU is enough": (
        "kernel/instances.py",
        "return host.n_whole * WHOLE >= part",
        "return host.n_whole > 0 or part == 0",
    ),
    "half a gang keeps its machines": (
        "kernel/instances.py",
        "            give_back(fleet, task_row.need, task_row.placed)\n",
        "",
    ),
    "what was done is reckoned with the new speed": (
        "kernel/instances.py",
        "progress.cpu_left - progress.cpu_rate * passed_s",
        "progress.cpu_left - cpu * passed_s",
    ),
    "what was done is reckoned twice": (
        "kernel/instances.py",
        "progress.since_s = cpu, gpu, now_s",
        "progress.since_s = cpu, gpu, progress.since_s",
    ),
    "the processors do not feed the GPU": (
        "kernel/instances.py",
        "return rate * (1.0 - speed.feed * (1.0 - host.cpu_speed))",
        "return rate",
    ),
    "who has ended still takes a share": (
        "kernel/instances.py",
        "    host.n_computing -= 1\n",
        "",
    ),
    "the wrong one of two moves up in a line": (
        "kernel/instances.py",
        "            below += 1",
        "            below += 0",
    ),
    "who is placed still waits, and another one in his place not": (
        "policies/backfills.py",
        "            fleet.queue[slot] = fleet.queue[need.first + need.n_waiting]\n",
        "",
    ),
    "who is behind the first of a need comes in any order": (
        "policies/backfills.py",
        "remove_first(fleet, fleet.queue, need.first, need.n_waiting)",
        "fleet.queue[need.first] = fleet.queue[need.first + need.n_waiting]",
    ),
    "the most urgent stays on top when fewer of his need wait": (
        "policies/backfills.py",
        "        if n > 0:\n            sink(fleet, n, 0)\n",
        "",
    ),
    "the greater score is on top of the pile": (
        "policies/placements.py",
        "if mine < score[other] or",
        "if mine > score[other] or",
    ),
    "a pile is good for ever": (
        "policies/placements.py",
        "    if n == 0:\n        cursor[PILE_NEED] = NONE\n",
        "",
    ),
    "who is full stays in the pile": (
        "policies/placements.py",
        "    if goes_on and n < fleet.cursor[N_PILE]:",
        "    if goes_on and n < 0:",
    ),
    "who is full stays in the lottery": (
        "policies/placements.py",
        "pile[slot] = pile[slot + 1]",
        "pile[slot] = pile[slot]",
    ),
    "a gang without room has drawn all the same": (
        "kernel/instances.py",
        "    fleet.cursor[DRAW_A], fleet.cursor[DRAW_B] = draw_a, draw_b\n",
        "",
    ),
    "a GPU that was picked is not the one that is taken": (
        "kernel/instances.py",
        "    for device in range(first, host.behind_device):",
        "    for device in range(host.first_device, host.behind_device):",
    ),
    "who left still counts in his class": (
        "kernel/instances.py",
        "gauges.n_of_class[of_class] += more",
        "gauges.n_of_class[of_class] += 1",
    ),
    "who left is still held against the user": (
        "kernel/instances.py",
        "gauges.group_usage[holds + r] += more *",
        "gauges.group_usage[holds + r] += 1 *",
    ),
    "who is placed is still waited for": (
        "kernel/instances.py",
        "    fleet.needs[task_row.need].n_unplaced -= 1\n",
        "",
    ),
    "no score is ever reckoned again": (
        "policies/placements.py",
        "gauges.kept_at[at] == version",
        "gauges.kept_at[at] >= 0",
    ),
    "fragments are what is large enough": (
        "policies/placements.py",
        "            if free < asks:",
        "            if free >= asks:",
    ),
    "ends are not sorted": (
        "kernel/event_heap.py",
        f"        if times_s[above] <= time_s:{UP}",
        f"        if times_s[above] <= time_s + 5.0:{UP}",
    ),
    "an end that is moved stays where it is": (
        "kernel/event_heap.py",
        "    elif times_s[slot] < time_s:",
        "    elif times_s[slot] > time_s:",
    ),
}

CODE = """
from sim.policies.placements import PLACEMENTS
from tests.differential.test_instances import as_in_the_reference, of_users, placed_by
from tests.draw.instances import scenario_of_instances
for seed in range(1000, 1030):
    for rule in PLACEMENTS:
        as_in_the_reference(placed_by(rule.name, seed), seed, ("interpreted",))
for seed in range(3000, 3040):
    for rule in ("drf", "max_weight", "least_work"):
        as_in_the_reference(of_users(rule, seed), seed, ("interpreted",))
for seed in range(600):
    as_in_the_reference(scenario_of_instances(seed), seed, ("interpreted",))
"""


def judged(folder: Path, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the package in a folder against the naive reference."""
    return subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants")
    package = Path(sim.__file__).parent
    tests = Path(__file__).parent.parent
    for source in (package, tests):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.soak
def test_the_unbroken_text_passes(copied: Path) -> None:
    done = judged(copied, 1800)
    assert done.returncode == 0, done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_seen(copied: Path, name: str) -> None:
    file, before, after = MUTANTS[name]
    path = copied / "sim" / file
    text = path.read_text()
    assert text.count(before) == 1, f"{name}: the line to break is not there once"
    path.write_text(text.replace(before, after))
    try:
        done = judged(copied)
        assert done.returncode != 0, f"nobody saw that {name}"
        assert "AssertionError" in done.stderr or "Error" in done.stderr
    except subprocess.TimeoutExpired:
        pass  # a loop that does not end has been seen too
    finally:
        path.write_text(text)
