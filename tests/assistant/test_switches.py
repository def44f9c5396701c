"""Switches of which one is on: what a program, a function and the form of the browser get."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from assistant.applications.function import Function
from assistant.applications.program import Program
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ApplicationError, SettingsError
from assistant.ui.pages.new_sweep_file import form_of, write_tables


def tables(application: dict[str, Any], **group: Any) -> dict[str, Any]:
    return {
        "application": application,
        "objective": {"minimise": "time_ms"},
        "parameters": [{"name": "sort", **group}, {"name": "n", "levels": [1, 2]}],
    }


def command(*argv: str, **more: Any) -> dict[str, Any]:
    return {"kind": "command", "command": ["echo", *argv], "cwd": ".", **more}


def program(application: dict[str, Any], **group: Any) -> Program:
    built = build_sweep(check_settings(tables(application, **group), "here")).application
    assert isinstance(built, Program)
    return built


def test_each_switch_is_1_or_0_by_its_own_name() -> None:
    made = program(
        command("{n}", "--quick={quick}", env={"MERGE": "{merge}"}),
        one_of=["quick", "merge"], or_none=True,
    )  # fmt: skip
    sort, _ = made.space.parameters
    assert (sort.name, sort.levels, sort.kind) == ("sort", ("quick", "merge", "none"), "nominal")
    lines = [made.command_line({"sort": level, "n": 2}, 0) for level in sort.levels]
    assert lines == [("echo", "2", f"--quick={is_on}") for is_on in (1, 0, 0)]


def test_an_argument_that_is_only_the_group_is_left_out_where_none_is_on() -> None:
    made = program(command("{sort}", "{n}", "a{sort}"), one_of=["--quick", "-m"], or_none=True)
    assert made.command_line({"sort": "-m", "n": 1}, 0) == ("echo", "-m", "1", "a-m")
    assert made.command_line({"sort": "none", "n": 1}, 0) == ("echo", "1", "a")
    assert pickle.loads(pickle.dumps(made)).switches == made.switches


def test_a_function_gets_a_truth_value_for_each_switch(tmp_path: Path) -> None:
    (tmp_path / "sorts.py").write_text(
        "COSTS = {(True, False): 1, (False, True): 2}\n"
        "def cost(quick, merge, n):\n    return COSTS[quick, merge]\n"
    )
    application = {"kind": "function", "function": "sorts:cost", "folder": str(tmp_path)}
    settings = tables(application, one_of=["quick", "merge"])
    made = build_sweep(check_settings(settings, "here")).application
    assert isinstance(made, Function)
    assert made.evaluate({"sort": "merge", "n": 1}, 0) == {"time_ms": 2}
    assert pickle.loads(pickle.dumps(made)).evaluate({"sort": "quick", "n": 1}, 0)["time_ms"] == 1
    with pytest.raises(ApplicationError, match="'--quick' of the parameter 'sort' cannot be an"):
        build_sweep(check_settings(tables(application, one_of=["--quick", "merge"]), "here"))


@pytest.mark.parametrize(
    ("application", "sentence"),
    [
        (command("{n}"), r"'sort' has no effect: .* do not contain '\{sort\}'"),
        (command("{quick}", "{n}"), r"some switches of 'sort', but not '\{merge\}'"),
        ({"kind": "rest"}, "is for a command or a function"),
    ],
)
def test_what_gets_no_switches_is_refused(application: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ApplicationError, SettingsError), match=sentence):
        build_sweep(check_settings(tables(application, one_of=["quick", "merge"]), "here"))


def test_a_form_does_not_lose_the_switches() -> None:
    stored = tables(command("{sort}", "{n}"), one_of=["quick", "merge"])
    form = form_of({**stored, "name": "sorts"})
    assert form.source == "file", "the form has no fields for them"
    assert write_tables(form).tables["parameters"][0] == {
        "name": "sort", "one_of": ["quick", "merge"],
    }  # fmt: skip
