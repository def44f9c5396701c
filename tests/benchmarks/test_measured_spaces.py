"""Measured spaces: every combination runs once, calls go on, failures have no row."""

import math
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from assistant import AssistantError
from assistant.core.errors import RunError
from benchmarks.measured_programs import PROGRAMS, ProgramSpace
from benchmarks.measured_spaces import chosen_programs, finished, measured
from benchmarks.spaces import from_table

LATER = math.inf


class Counter:
    """A program of 6 x 2 combinations that counts its runs, of which one fails."""

    def __init__(self) -> None:
        self.n_runs = 0

    def __call__(self, at: SimpleNamespace) -> float:
        self.n_runs += 1
        if (at.size, at.kind) == (3, "a"):
            raise RunError
        return at.size**2 + 0.1 * (at.kind == "b") if at.size != 5 else math.inf


def program(run: Counter, kinds: tuple[str, ...] = ("a", "b")) -> ProgramSpace:
    return ProgramSpace(run, {"size": range(1, 7), "kind": kinds})


def test_a_call_goes_on_where_another_ended(tmp_path: Path) -> None:
    run = Counter()
    begun, n_runs = measured("squares", program(run), tmp_path, LATER, most=5)
    assert (n_runs, run.n_runs, len(begun.valid) <= 5) == (5, 5, True)
    _, n_runs = measured("squares", program(run), tmp_path, deadline_s=time.monotonic() - 1)
    assert (n_runs, run.n_runs) == (5, 5)
    path = tmp_path / "squares.part"
    path.write_text(path.read_text()[:-3])  # the last line was cut off: its run is done again
    whole, n_runs = measured("squares", program(run), tmp_path, LATER)
    assert (n_runs, run.n_runs) == (12, 13)
    assert measured("squares", program(run), tmp_path, LATER)[1] == 12
    assert run.n_runs == 13
    assert len(whole.valid) == 9  # one fails by itself, two results are not finite
    read = from_table(finished(whole, tmp_path))
    assert read.space.values(read.space.configuration(0)) == {"size": 1, "kind": "a"}
    assert sorted(read.valid) == sorted(whole.valid)
    assert whole.objective[
        whole.space.index(whole.space.from_values({"size": 4, "kind": "b"}))
    ] == (pytest.approx(16.1))


def test_runs_of_other_levels_are_not_taken(tmp_path: Path) -> None:
    measured("squares", program(Counter()), tmp_path, LATER, most=2)
    with pytest.raises(AssistantError, match="was begun with other levels"):
        measured("squares", program(Counter(), ("a", "b", "c")), tmp_path, LATER)


def test_an_error_that_is_no_failure_of_the_program_ends_the_call(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        measured("broken", ProgramSpace(lambda at: 1 / at.x, {"x": (0, 1)}), tmp_path, LATER)


def test_a_table_with_nothing_to_search_for_is_set_apart(tmp_path: Path) -> None:
    hard = ProgramSpace(lambda at: float(at.x), {"x": range(100), "y": (1, 2)})
    easy = ProgramSpace(lambda at: float(at.x > 10), {"x": range(100), "y": (1, 2)})
    for name, one in {"hard": hard, "easy": easy}.items():
        finished(measured(name, one, tmp_path, LATER)[0], tmp_path)
    tables = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv")}
    assert tables == {"hard.csv", "easy/easy.csv"}


def test_a_program_that_is_not_there() -> None:
    assert chosen_programs("sparse_flow, tree_wine") == ["sparse_flow", "tree_wine"]
    assert chosen_programs(None) == list(PROGRAMS)
    with pytest.raises(AssistantError, match=r"--only 'tree' is no program; there are zlib_lines"):
        chosen_programs("tree")
