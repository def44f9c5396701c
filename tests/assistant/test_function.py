"""Python functions as applications: found by name or given, called by keyword, never trusted."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assistant import Objective, Rmse, SingleMeasure
from assistant.applications.function import Function
from assistant.applications.measures import WALL, measures_of
from assistant.core.errors import ApplicationError, RunError
from assistant.core.ports import ExecutionRequest
from assistant.executors import make_executor
from strategies import Parameter, ParameterSpace

SPACE = ParameterSpace((Parameter("x", (1, 2)), Parameter("mode", ("a", "b"))))
COST = Objective(SingleMeasure("cost"))
VALUES = {"x": 2, "mode": "b"}


def known(x: int, mode: str) -> int:
    return x + len(mode)


def seeded(x: int, mode: str, *, seed: int) -> float:
    return seed + x


def open_ended(**values: Any) -> dict[str, float]:
    return {"cost": float(len(values))}


def test_every_parameter_comes_by_name_and_the_seed_if_it_is_taken() -> None:
    assert Function(known, SPACE, COST).evaluate(VALUES, 5) == {"cost": 3.0}
    assert Function(seeded, SPACE, COST).evaluate(VALUES, 5) == {"cost": 7.0}
    assert Function(open_ended, SPACE, COST).evaluate(VALUES, 5) == {"cost": 2.0}


RETURNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "NumPy number": (np.float32(1.5), {"cost": 1.5}),
    "NumPy array inside": ({"cost": 1, "s": np.array([1, 2])}, {"cost": 1.0, "s": (1.0, 2.0)}),
    "other things beside": ({"cost": 1, "who": "me", "ok": True}, {"cost": 1.0}),
    "unknown beside": ({"cost": 1, "m": None}, {"cost": 1.0, "m": None}),
}


@pytest.mark.parametrize("returned,measures", RETURNS.values(), ids=RETURNS)  # noqa: PT006
def test_what_it_returns_becomes_measures(returned: Any, measures: dict[str, Any]) -> None:
    assert Function(lambda x, mode: returned, SPACE, COST).evaluate(VALUES, 0) == measures


def test_a_series_is_a_measure_for_an_rmse() -> None:
    objective = Objective(Rmse("level", (1.0, 2.0)))
    measures = Function(lambda x, mode: np.array([1.0, 2.0]), SPACE, objective).evaluate(VALUES, 0)
    assert objective.assess(measures).value == 0.0


BAD_RETURNS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "nothing (None)"),
    "NaN": (float("nan"), "nan"),
    "infinite": (np.inf, "inf"),
    "text": ("12", "the text '12'"),
    "truth": (True, "True"),
    "object": (object(), "object"),
    "empty": ({}, "no measure 'cost'"),
    "series with NaN": ([1.0, float("nan")], "nan"),
    "text inside": ({"cost": "12"}, "the text '12'"),
}


@pytest.mark.parametrize("returned,words", BAD_RETURNS.values(), ids=BAD_RETURNS)  # noqa: PT006
def test_what_is_no_measure_is_a_failed_run(returned: Any, words: str) -> None:
    with pytest.raises(RunError) as caught:
        Function(lambda x, mode: returned, SPACE, COST).evaluate(VALUES, 0)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def _raises(x: int, mode: str) -> float:
    raise ValueError("two\nlines")


def _leaves(x: int, mode: str) -> float:
    sys.exit(3)


def test_what_it_raises_is_a_failed_run() -> None:
    with pytest.raises(RunError, match=r"ValueError: two lines \(test_function.py, line \d+\)"):
        Function(_raises, SPACE, COST).evaluate(VALUES, 0)
    with pytest.raises(RunError, match="SystemExit"):
        Function(_leaves, SPACE, COST).evaluate(VALUES, 0)


def _speaks(x: int, mode: str) -> float:
    sys.stdout.write("hello\n")
    return 1.0


def test_standard_output_stays_ours(capsys: pytest.CaptureFixture[str]) -> None:
    Function(_speaks, SPACE, COST).evaluate(VALUES, 0)
    assert capsys.readouterr() == ("", "hello\n")


async def _later(x: int, mode: str) -> float:
    return 1.0


REFUSED: dict[str, tuple[Any, str]] = {
    "no function": (3, "is not a function"),
    "an argument too few": (lambda x: 1, "mode"),
    "an argument too many": (lambda x, mode, depth: 1, "depth"),
    "by position only": (lambda x, mode, /: 1, "by name"),
    "async": (_later, "async"),
}


@pytest.mark.parametrize("function,words", REFUSED.values(), ids=REFUSED)  # noqa: PT006
def test_what_cannot_be_called_is_refused_when_it_is_built(function: Any, words: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        Function(function, SPACE, COST)
    assert words in str(caught.value)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return tmp_path

    return write


GOOD = "import own_helper_of_test\ndef cost(x, mode):\n    return own_helper_of_test.K * x\n"


def test_it_is_found_beside_the_file_with_what_it_imports(
    write: Callable[[str, str], Path],
) -> None:
    write("own_helper_of_test.py", "K = 10\n")
    folder = write("random.py", GOOD)  # the name of a standard module does not matter
    found = Function.load("random:cost", SPACE, COST, folder=folder)
    assert found.evaluate(VALUES, 0) == {"cost": 20.0}
    again = pickle.loads(pickle.dumps(found))
    assert again.evaluate(VALUES, 0) == {"cost": 20.0}
    with make_executor(found, 2) as executor:
        executor.submit(ExecutionRequest(1, VALUES, 0))
        (completion,) = executor.collect()
    assert completion.measures == {"cost": 20.0}


def test_an_edited_file_is_read_again(write: Callable[[str, str], Path]) -> None:
    folder = write("tune.py", "def cost(x, mode): return 1\n")
    assert Function.load("tune:cost", SPACE, COST, folder=folder).evaluate(VALUES, 0)["cost"] == 1
    write("tune.py", "def cost(x, mode): return 22\n")
    assert Function.load("tune:cost", SPACE, COST, folder=folder).evaluate(VALUES, 0)["cost"] == 22


UNFOUND: dict[str, tuple[str, str, str]] = {
    "no colon": ("tune", "", "module:function"),
    "a path": ("../tune:cost", "", "module:function"),
    "no module": ("no_such_module_x:cost", "", "no module 'no_such_module_x'"),
    "no function": ("tune:cots", "def cost(): pass\n", "its functions are cost"),
    "not callable": ("tune:cost", "cost = 3\n", "is not a function"),
    "syntax": ("tune:cost", "def cost(:\n", "SyntaxError"),
    "raises": ("tune:cost", "1 / 0\n", r"ZeroDivisionError: division by zero (tune.py, line 1)"),
    "leaves": ("tune:cost", "raise SystemExit(3)\n", "SystemExit"),
    "missing import": ("tune:cost", "import no_such_thing_y\n", "no_such_thing_y"),
}


@pytest.mark.parametrize("reference,text,words", UNFOUND.values(), ids=UNFOUND)  # noqa: PT006
def test_what_cannot_be_found_is_said(
    reference: str, text: str, words: str, write: Callable[[str, str], Path]
) -> None:
    folder = write("tune.py", text)
    with pytest.raises(ApplicationError) as caught:
        Function.load(reference, SPACE, COST, folder=folder)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_other_processes_cannot_find_is_said() -> None:
    with (
        pytest.raises(ApplicationError, match="top of a module, or use one worker"),
        make_executor(Function(lambda x, mode: 1.0, SPACE, COST), 2) as executor,
    ):
        executor.submit(ExecutionRequest(1, VALUES, 0))


def test_a_number_is_the_result_where_only_the_duration_is_required() -> None:
    wall = Objective(SingleMeasure(WALL), "minimise")
    assert measures_of(12.5, wall, "the program") == {"result": 12.5}
    with pytest.raises(RunError, match="gave the text 'fast'; the objective uses wall_s"):
        measures_of("fast", wall, "the program")


NAMED = ParameterSpace(
    (
        Parameter("opt.kind", ("sgd", "adam")),
        Parameter("learning-rate", (0.1, 1.0)),
        Parameter("sgd.momentum", (0.5, 0.9), when="`opt.kind` == 'sgd'"),
    )
)


def optional(opt_kind: str, learning_rate: float, sgd_momentum: float | None = None) -> float:
    return learning_rate + (0 if sgd_momentum is None else sgd_momentum) + (opt_kind == "adam")


def required(opt_kind: str, learning_rate: float, sgd_momentum: float) -> float:
    return learning_rate + sgd_momentum


def mixed(learning_rate: float, **others: Any) -> float:
    return learning_rate + sum(name == "sgd.momentum" for name in others)


def test_dashes_and_dots_are_underscores_and_inactive_arguments_are_left_out() -> None:
    sgd = {"opt.kind": "sgd", "learning-rate": 1.0, "sgd.momentum": 0.5}
    adam = {"opt.kind": "adam", "learning-rate": 1.0}
    for function, costs in ((optional, (1.5, 2.0)), (mixed, (2.0, 1.0))):
        application = Function(function, NAMED, COST)
        assert [application.evaluate(v, 0)["cost"] for v in (sgd, adam)] == list(costs)
    with pytest.raises(ApplicationError, match="give their arguments a default value, such as No"):
        Function(required, NAMED, COST)
    alike = ParameterSpace((Parameter("a-b", (1, 2)), Parameter("a.b", (1, 2))))
    with pytest.raises(ApplicationError, match="two parameters would be the argument 'a_b'"):
        Function(open_ended, alike, COST)
