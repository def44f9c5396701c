"""Group D, 50-66: values and names in a command. A value stays one argument, byte for byte."""

import json
import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from assistant import Objective, SingleMeasure
from assistant.applications.measures import JsonFile
from assistant.applications.program import Program
from assistant.cli.main import run
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ApplicationError, AssistantError, RunError
from strategies import Exclusion, Parameter, ParameterSpace, SpaceError
from strategies.space.errors import StrategyError
from tests.fuzz.watch import fault_of, fault_of_sentence

COST = Objective(SingleMeasure("cost"))
TELL = (
    "import json, os, sys; "
    "told = {'argv': sys.argv[2:], 'stdin': sys.stdin.read(), 'env': dict(os.environ)}; "
    "open(sys.argv[1], 'w').write(json.dumps(told)); print(1)"
)


def telling(told: Path, space: ParameterSpace, *arguments: str, **more: object) -> Program:
    """A command that writes down what it was given."""
    code = TELL.replace("{", "{{").replace("}", "}}")
    return Program(
        (sys.executable, "-I", "-S", "-c", code, str(told), *arguments),
        space, COST, cwd=str(told.parent), **more,  # type: ignore[arg-type]
    )  # fmt: skip


VALUES = {
    "D50 ; rm": "; rm -rf canary; touch canary",
    "D51 $()": "$(touch canary)",
    "D52 backticks": "`touch canary`",
    "D53 a pipe": "x | tee canary",
    "D54 a line end, written": "a\\ntouch canary\\n",
    "D55 --help": "--help",
    "D55 -o": "-o/etc/x",
    "D55 --": "--",
    "D56 {other}": "{other}",
    "D56 {0.__class__}": "{0.__class__}",
    "D56 {seed}": "{seed}",
    "D56 %s": "%s%n$x${HOME}",
    "D58 100 kB": "v" * 99_000,
    "D59 ../../x": "../../x",
    "D61 homoglyph": "\u0430dmin",
    "D66 DROP TABLE": "x'); DROP TABLE task;--",
    "a redirection": "> canary",
    "and": "x && touch canary",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_arrives_byte_for_byte(value: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    space = ParameterSpace((Parameter("text", (value,)), Parameter("other", (7,))))
    command = telling(
        told, space, "{text}", "--text={text}", "{other}", env={"HINT": "{text}"}, stdin="{text}"
    )
    assert command.evaluate({"text": value, "other": 7}, 0) == {"cost": 1.0}
    given = json.loads(told.read_text())
    assert given["argv"] == [value, f"--text={value}", "7"]
    assert (given["env"]["HINT"], given["stdin"]) == (value, value.replace("\r\n", "\n"))
    assert [p.name for p in tmp_path.iterdir()] == ["told.json"]


REFUSED_VALUES = {
    "D58 200 kB": ("v" * 200_000, "has a level of 200,000 characters; at most 100,000 bytes"),
    "D58 in bytes": ("\u20ac" * 40_000, "at most 100,000 bytes can be passed to a program"),
}


@pytest.mark.parametrize("value,words", REFUSED_VALUES.values(), ids=REFUSED_VALUES)  # noqa: PT006
def test_a_value_that_no_program_can_be_given(value: str, words: str, tmp_path: Path) -> None:
    space = ParameterSpace((Parameter("text", ("good", value)),))
    with pytest.raises(ApplicationError, match=words) as caught:
        telling(tmp_path / "told.json", space, "{text}")
    assert fault_of_sentence(str(caught.value)) is None


LEVELS = {
    "D54 a line end": "a\ntouch canary\n",
    "D54 a carriage return": "a\r\nb",
    "D57 NUL": "a\0b",
    "D57 an escape": "\x1b[31m",
    "D61 right to left": "a\u202eb",
    "D61 zero width": "a\u200bb",
    "D61 half a character": "a\ud800",
    "nothing": "",
    "spaces": " a",
}


@pytest.mark.parametrize("value", LEVELS.values(), ids=LEVELS)
def test_what_cannot_be_a_level(value: str) -> None:
    with pytest.raises(SpaceError, match="no control characters") as caught:
        Parameter("text", ("good", value))
    assert fault_of_sentence(str(caught.value)) is None


def test_d58_arguments_that_are_too_long_together_are_a_failed_run(tmp_path: Path) -> None:
    space = ParameterSpace((Parameter("text", ("v" * 99_000,)),))
    command = telling(tmp_path / "told.json", space, "{text}{text}")
    with pytest.raises(RunError, match="could not be started") as caught:
        command.evaluate({"text": "v" * 99_000}, 0)
    assert fault_of_sentence(str(caught.value)) is None


def test_d59_a_file_of_measures_elsewhere_is_the_operators_word_alone(tmp_path: Path) -> None:
    """There is no type for paths: what a level names is read only if this run wrote it."""
    (tmp_path / "secret.json").write_text('{"cost": 1}')
    (tmp_path / "in").mkdir()
    space = ParameterSpace((Parameter("text", ("../secret.json",)),))
    command = Program(
        (sys.executable, "-c", "", "{text}"), space, COST, reading=JsonFile("{text}"),
        cwd=str(tmp_path / "in"),
    )  # fmt: skip
    with pytest.raises(RunError, match="was not written by this run"):
        command.evaluate({"text": "../secret.json"}, 0)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PATH", "PYTHONPATH", "HOME", "IFS"], ids="D60 {}".format
)
def test_a_parameter_never_becomes_a_variable(name: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    command = telling(told, ParameterSpace((Parameter(name, ("/nowhere/x.so",)),)), f"{{{name}}}")
    assert command.evaluate({name: "/nowhere/x.so"}, 0) == {"cost": 1.0}
    given = json.loads(told.read_text())
    assert given["argv"] == ["/nowhere/x.so"]
    usual = os.environ.get(name) if name in ("PATH", "HOME") else None
    assert given["env"].get(name) == usual


NAMES = {
    "D61 right to left": "a\u202eb",
    "D61 zero width": "a\u200bb",
    "D61 a ligature": "\ufb01",
    "D66 DROP TABLE": "x'); DROP TABLE task;--",
    "D66 markup": "<img>",
    "a space": "a b",
    "nothing": "",
    "a keyword": "in",
    "NUL": "a\0b",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_what_cannot_be_the_name_of_a_parameter(name: str) -> None:
    with pytest.raises(SpaceError, match="a name starts with a letter") as caught:
        Parameter(name, (1, 2))
    assert fault_of_sentence(str(caught.value)) is None


def test_d61_names_that_look_alike_are_distinct() -> None:
    space = ParameterSpace((Parameter("a", (1, 2)), Parameter("\u0430", (3, 4))))
    assert space.names == ("a", "\u0430")
    assert space.values(space.from_values({"a": 1, "\u0430": 4})) == {"a": 1, "\u0430": 4}


def test_d62_a_value_outside_the_declared_domain() -> None:
    space = ParameterSpace((Parameter("x", (1, 2)),))
    for value in (3, "1", True, 1.5, None, float("nan"), [1]):
        with pytest.raises(SpaceError):
            space.from_values({"x": value})  # type: ignore[dict-item]
    with pytest.raises(SpaceError):
        space.from_values({"x": 1, "y": 1})
    with pytest.raises(SpaceError):
        space.from_values({})


DOMAINS: dict[str, tuple[tuple[object, ...], str | None]] = {
    "D63 empty": ((), "has no levels"),
    "D63 one value": ((1,), None),
    "D63 twice": ((1, 1), "twice"),
    "D63 twice, as int and float": ((1, 1.0), "twice"),
    "D63 truth beside numbers": ((1, True), "mixes"),
    "D63 NaN": ((1, float("nan")), "finite"),
    "D63 infinite": ((1, float("inf")), "finite"),
}


@pytest.mark.parametrize("levels,words", DOMAINS.values(), ids=DOMAINS)  # noqa: PT006
def test_domains(levels: tuple[object, ...], words: str | None) -> None:
    if words is None:
        assert Parameter("x", levels).n_levels == len(levels)  # type: ignore[arg-type]
        return
    with pytest.raises(SpaceError, match=words):
        Parameter("x", levels)  # type: ignore[arg-type]


def test_d64_a_space_of_10_to_the_12_is_never_unrolled() -> None:
    def wide() -> None:
        space = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(10))) for i in range(12)))
        assert space.size == 10**12
        total = " + ".join(space.names)
        space = space.excluding(Exclusion.parse(f"{total} > 50"))
        assert space.count_allowed() is None
        space.check(space.from_values(dict.fromkeys(space.names, 1)))

    tracemalloc.start()
    try:
        assert fault_of(wide) is None
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_d65_20_000_parameters_are_refused() -> None:
    many = [{"name": f"p{i}", "levels": [1, 2]} for i in range(20_000)]
    tables = {
        "application": {"command": ["true"], "unused": True},
        "objective": {"minimise": "wall_s"},
        "parameters": many,
    }

    def build() -> None:
        build_sweep(check_settings(tables, "sweep.toml"))

    assert fault_of(build) is None
    with pytest.raises((AssistantError, StrategyError), match=r"20,000 parameters; at most 1,000"):
        build()


def test_d66_an_experiment_of_that_name_is_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x,objective\n1,1\n2,2\n")
    name = "x'); DROP TABLE event;--"
    for _ in range(2):
        assert run(["sweep", "--table", "t.csv", "--runs", "2", "--name", name]) == 0
    capsys.readouterr()
    assert run(["experiments", "--json"]) == 0
    assert capsys.readouterr().out.count(name) == 2
