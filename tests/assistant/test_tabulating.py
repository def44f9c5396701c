"""The whole table of an application: complete, resumed where it stopped, believed only if true."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import pytest

from assistant.applications.extensions import evaluate_batches
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.function import Function
from assistant.applications.scheduling import Scheduling
from assistant.core.errors import ApplicationError, RunError, SettingsError
from assistant.core.objective import Constraint, Objective, SingleMeasure
from assistant.simtools.measured_tables import (
    MeasuredRow,
    TabulationResult,
    TabulationTask,
    table_of,
    tabulate,
)
from sim.generators import default_workload
from strategies import Level, MeasuredTable, Parameter, ParameterSpace

SPACE = ParameterSpace((Parameter("x", (1, 2, 3)), Parameter("mode", ("b", "a"))))
CALLS: list[tuple[int, str]] = []


def bowl(x: int, mode: str) -> dict[str, float]:
    CALLS.append((x, mode))
    if (x, mode) == (2, "a"):
        raise RunError("not so")
    return {"height": (x - 2) ** 2 / 3 + (mode == "b"), "other": 1.0}


def function(noisy: bool | None = False) -> Function:
    return Function(bowl, SPACE, Objective(SingleMeasure("height")), noisy=noisy)


def stopped(question: TabulationTask, path: Path, after: int) -> None:
    """Tabulate, and be interrupted after so many rows."""
    measured_rows = question.measured

    def some(*given: object) -> Iterator[MeasuredRow]:
        yield from islice(measured_rows(*given), after)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    object.__setattr__(question, "measured", some)
    with pytest.raises(KeyboardInterrupt):
        tabulate(question, path)
    assert not path.exists()


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    CALLS.clear()


def test_every_configuration_that_does_not_fail_is_a_row(tmp_path: Path) -> None:
    seen: list[int] = []
    path = tmp_path / "all.csv"
    found = tabulate(TabulationTask.of(function()), path, progress=seen.append)
    assert found == TabulationResult(5, 5, 0, MeasuredRow({"x": 1, "mode": "a"}, 1 / 3, True))
    assert seen == [1, 2, 3, 4, 5, 6]
    table = MeasuredTable.read(path)
    assert table.n_rows == 5
    assert table.lookup(table.space.from_values({"x": 2, "mode": "a"})) is None
    told = table.lookup(table.space.from_values({"x": 1, "mode": "a"}))
    assert told is not None
    assert told.objective == 1 / 3, "to the last bit"
    assert [one.name for one in tmp_path.iterdir()] == ["all.csv"]


@pytest.mark.parametrize("after", [1, 3, 4, 5])
def test_what_was_interrupted_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, after: int
) -> None:
    whole, path = tmp_path / "whole.csv", tmp_path / "all.csv"
    tabulate(TabulationTask.of(function()), whole)
    stopped(TabulationTask.of(function()), path, after)
    part = tmp_path / "all.csv.part"
    part.write_text(part.read_text() + "3,a,0.", newline="")  # killed in the middle of a line
    CALLS.clear()
    found = tabulate(TabulationTask.of(function()), path)
    assert found.taken_up == after
    assert len(CALLS) <= 6 - after + 1, "the first row again, and what was missing"
    assert path.read_bytes() == whole.read_bytes()
    assert not part.exists()


def test_what_is_about_something_else_is_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    stopped(TabulationTask.of(function()), path, 3)
    other = TabulationTask(function(), SPACE, Objective(SingleMeasure("other")))
    found = tabulate(other, path)
    assert found.taken_up == 0
    assert {line.rpartition(",")[2] for line in path.read_text().split()[1:]} == {"1.0"}
    stopped(TabulationTask.of(function()), path.with_name("b.csv"), 3)
    part = tmp_path / "b.csv.part"
    part.write_text(part.read_text().replace("1,b,1.3333333333333333", "1,b,9.5"), newline="")
    assert tabulate(TabulationTask.of(function()), path.with_name("b.csv")).taken_up == 0
    assert "9.5" not in (tmp_path / "b.csv").read_text()


def test_a_table_on_disk_is_read_and_one_that_is_not_true_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    first = table_of(function(), path)
    CALLS.clear()
    again = table_of(function(), path)
    assert again.measurements.values().__len__() == first.n_rows
    assert len(CALLS) == 3, "first, middle and last"
    path.write_text(path.read_text().replace("1,b,1.3333333333333333", "1,b,7.25"))
    assert "7.25" not in repr(table_of(function(), path).measurements)
    path.write_text("x,mode,objective\n1,b,2\n")
    assert table_of(function(), path).n_rows == 5
    path.write_text("no table")
    assert table_of(function(), path).n_rows == 5


def test_only_what_repeats_itself_is_tabulated(tmp_path: Path) -> None:
    for noisy in (True, None):
        with pytest.raises(ApplicationError, match="'function' may vary from run to run"):
            TabulationTask.of(function(noisy))
    with pytest.raises(SettingsError, match="its folder is missing, or it is a folder"):
        tabulate(TabulationTask.of(function()), tmp_path)
    wide = ParameterSpace(tuple(Parameter.range(name, 1, 101, 1) for name in "abc"))
    with pytest.raises(SettingsError, match="1,030,301 combinations are more than 1,000,000"):
        TabulationTask(function(), wide, Objective(SingleMeasure("height")))


def test_a_schedule_is_tabulated_too(tmp_path: Path) -> None:
    levels = {"small_procs": (0, 16), "small_max_procs": (4,), "small_max_requested_s": (3600,)}
    application = Scheduling(default_workload(seed=2, n_jobs=60), levels=levels)
    table = table_of(application, tmp_path / "jobs.csv", threads=1)
    assert table.n_rows == 2
    for configuration, told in table.measurements.items():
        measures = application.evaluate(table.space.values(configuration), 0)
        assert told.objective == measures["mean_response_s"]


def test_the_flood_is_flat_in_its_table_and_the_maze_is_whole(tmp_path: Path) -> None:
    flood = Flood(seed=1)
    some = [one for i, one in enumerate(flood.space.configurations()) if i % 81 == 0]
    rows = list(TabulationTask.of(flood).measured(some, None, None))
    flat = {row.value for row in rows if float(row.values["conductivity_mmh"]) >= 40}
    assert len(flat) == 1
    assert len({row.value for row in rows}) > 8
    maze = MazeRunner(n_games=1)
    table = table_of(maze, tmp_path / "maze.csv")
    assert (table.n_rows, table.space.size) == (54, 54)
    for parameter in maze.space.parameters:
        assert table.space.parameter(parameter.name).levels == parameter.levels
    told = table.measurements[table.space.from_values(maze.space.values(some_of(maze)))]
    assert told.objective == maze.evaluate(maze.space.values(some_of(maze)), 5)["time_s"]


def some_of(maze: MazeRunner):  # type: ignore[no-untyped-def]
    return list(maze.space.configurations())[37]


@pytest.mark.soak
@pytest.mark.slow
def test_processes_side_by_side_give_the_same_in_order() -> None:
    maze = MazeRunner(n_games=1)
    wanted = [maze.space.values(one) for one in maze.space.configurations()]
    alone = list(maze.evaluate_many(wanted))
    seen: list[int] = []
    beside = list(maze.evaluate_many(wanted, threads=2, progress=seen.append))
    assert beside == alone
    assert seen[-1] == 54


def test_measuring_takes_configurations_as_it_needs_them() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[Mapping[str, Level]]:
        for number in range(100):
            taken.append(number)
            yield {"x": number}

    found = evaluate_batches(
        lambda some: [{"x": float(values["x"]) ** 2} for values in some], numbers(), at_once=4
    )
    assert next(found) == ({"x": 0}, {"x": 0.0})
    assert next(islice(found, 4, None)) == ({"x": 5}, {"x": 25.0})
    assert len(taken) == 8
    with pytest.raises(SettingsError, match="at least 1, not 0"):
        next(evaluate_batches(lambda some: [], numbers(), at_once=4, processes=0))


def test_what_violates_a_constraint_is_worse_than_the_worst_that_does_not(tmp_path: Path) -> None:
    values = {1: (5.0, 1.0), 2: (9.0, 2.0), 3: (1.0, 3.0), 4: (2.0, 6.0)}
    objective = Objective(SingleMeasure("cost"), constraints=(Constraint("load", at_most=2.0),))

    def program(x: int) -> dict[str, float]:
        return dict(zip(("cost", "load"), values[x], strict=True))

    space = ParameterSpace((Parameter("x", (1, 2, 3, 4)),))
    asked = TabulationTask.of(Function(program, space, objective, noisy=False))
    path = tmp_path / "all.csv"
    assert tabulate(asked, path).best == MeasuredRow({"x": 3}, 1.0, False, 0.5)
    found = tabulate(asked, path, penalised=True)
    table = MeasuredTable.read(path)
    told = [table.lookup(table.space.from_values({"x": x})) for x in values]
    assert [None if one is None else one.objective for one in told] == [5.0, 9.0, 10.0, 13.0]
    assert found.feasible == 2
    assert found.best == MeasuredRow({"x": 1}, 5.0, True)
