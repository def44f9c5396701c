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

MUTANTS = {
    "what just fits does not": (
        "placing.py",
        "if fleet.free[at + r] < fleet.demand[wants + r]:",
        "if fleet.free[at + r] <= fleet.demand[wants + r]:",
    ),
    "GPUs are not given back": (
        "placing.py",
        "        fleet.free[at + r] += fleet.demand[wants + r]",
        "        fleet.free[at + r] += fleet.demand[wants + r] * (r < GPU)",
    ),
    "the last machine where something was given back is the first": (
        "placing.py",
        "need.start == NONE or machine < need.start",
        "need.start == NONE or machine > need.start",
    ),
    "one parent is enough": (
        "placing.py",
        "fleet.tasks[child].n_parents -= 1",
        "fleet.tasks[child].n_parents = 0",
    ),
    "a gang does not wait for itself": (
        "placing.py",
        "if one.is_gang == 0:\n                begin",
        "if one.is_gang >= 0:\n                begin",
    ),
    "a need is thought to have no room when some of it has been placed": (
        "placing.py",
        "need.is_stuck = 0 if is_placed else 1",
        "need.is_stuck = need.is_stuck if is_placed else 1",
    ),
    "who comes before the one that blocks waits behind it": (
        "placing.py",
        "fleet.tasks[task].rank < fleet.tasks[blocked].rank:",
        "fleet.tasks[task].rank < -fleet.tasks[blocked].rank:",
    ),
    "one whole GPU is enough": (
        "placing.py",
        "return host.n_whole * WHOLE >= part",
        "return host.n_whole > 0 or part == 0",
    ),
    "half a gang keeps its machines": (
        "placing.py",
        "            give_back(fleet, one.need, one.placed)\n",
        "",
    ),
    "what was done is reckoned with the new speed": (
        "progress.py",
        "one.cpu_left - one.cpu_rate * passed_s",
        "one.cpu_left - cpu * passed_s",
    ),
    "what was done is reckoned twice": (
        "progress.py",
        "one.since_s = cpu, gpu, now_s",
        "one.since_s = cpu, gpu, one.since_s",
    ),
    "the processors do not feed the GPU": (
        "progress.py",
        "return rate * (1.0 - speed.feed * (1.0 - host.cpu_speed))",
        "return rate",
    ),
    "who has ended still takes a share": (
        "progress.py",
        "    host.n_computing -= 1\n",
        "",
    ),
    "the wrong one of two moves up in a line": (
        "lines.py",
        "            below += 1",
        "            below += 0",
    ),
    "ends are not sorted": (
        "agenda.py",
        "        if times_s[above] <= time_s:",
        "        if times_s[above] <= time_s + 5.0:",
    ),
    "an end that is moved stays where it is": (
        "agenda.py",
        "    elif times_s[slot] < time_s:",
        "    elif times_s[slot] > time_s:",
    ),
}

CODE = """
from tests.differential.test_instances import as_in_the_reference
from tests.draw.instances import scenario_of_instances
for seed in range(600):
    as_in_the_reference(scenario_of_instances(seed), seed, ("interpreted",))
"""


def judged(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the package in a folder against the naive reference."""
    return subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants")
    package = Path(sim.__file__).parent
    tests = Path(__file__).parent.parent
    for source in (package, tests):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.slow
def test_the_unbroken_text_passes(copied: Path) -> None:
    done = judged(copied)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_seen(copied: Path, name: str) -> None:
    file, before, after = MUTANTS[name]
    path = copied / "sim" / "kernel" / file
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
