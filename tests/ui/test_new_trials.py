"""The page *New* by the script itself: what is filled in stays, and a trial needs no goal yet."""

import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant.ui.pages.new_form import ConstraintField, Form, ParameterRow, ProgramFields
from assistant.ui.pages.new_steps import _until
from tests.ui.screens import first_page, go, press, shown, sound, until

pytestmark = pytest.mark.slow

PROGRAM = """import json, sys
print(json.dumps({"loss": float(sys.argv[1]) ** 2, "memory": 3.0}))
"""


@pytest.fixture
def form(tmp_path: Path) -> Form:
    (tmp_path / "prog.py").write_text(PROGRAM)
    program = ProgramFields(words=f"{sys.executable} prog.py {{x}}", folder=str(tmp_path))
    return Form(
        "command", program=program, rows=(ParameterRow(0, "x", levels=("1", "2"), baseline="1"),)
    )


def at_goal(form: Form) -> AppTest:
    page = first_page()
    page.session_state["new-form"] = form
    page.session_state["new-state-step"] = 2
    return go(page, "new")


def tried(page: AppTest) -> AppTest:
    press(page, "new-try")

    def is_over() -> bool:
        sound(page.run())
        return bool(page.metric)

    until(is_over)
    return page  # as it is drawn when the trial is over: nobody touches it again


@pytest.mark.usefixtures("store")
def test_a_trial_takes_nothing_away_of_what_was_typed(form: Form) -> None:
    page = at_goal(form)
    sound(page.text_input(key="new-measure").set_value("loss").run())
    press(page, "new-add-bound")
    sound(page.text_input(key="new-c0-measure").set_value("memory").run())
    sound(page.text_input(key="new-c0-high").set_value("4").run())
    tried(page)
    kept = page.session_state["new-form"].wish
    assert (kept.measure, kept.bounds) == ("loss", (ConstraintField(0, "memory", "4"),))
    assert page.selectbox(key="new-measure-known").value == "loss"
    assert page.selectbox(key="new-c0-measure-known").value == "memory"


@pytest.mark.usefixtures("store")
def test_a_trial_tells_the_measures_before_one_is_named(form: Form) -> None:
    page = tried(at_goal(form))
    assert not page.error
    assert "before your last change" not in shown(page)
    assert [metric.label for metric in page.metric] == ["loss", "memory", "The run took"]
    assert page.selectbox(key="new-measure-known").options == ["none", "loss", "memory", "wall_s"]
    assert page.session_state["new-form"].wish.measure == "", "nothing is chosen for the person"


@pytest.mark.usefixtures("store")
def test_what_else_is_missing_still_holds_a_trial_back(form: Form) -> None:
    page = press(at_goal(Form("command")), "new-try")
    assert not page.metric
    assert page.session_state["new-state-step"] == 0, "the command is missing"


@pytest.mark.usefixtures("store")
def test_a_deadline_says_what_it_comes_to() -> None:
    page = at_goal(Form(deadline="22:00"))
    assert any("is 22 h 00 min after the start" in one.value for one in page.caption)
    assert "1970-01-01 22:00 UTC" in _until(79200.0, 0.0)
    assert not any("deadline" in one.value for one in at_goal(Form(deadline="tonight")).caption)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python3 own/prog.py --x {x}", "prog"),
        ("./solve --size={size}", "solve"),
        ("env A=1 bash ./r.sh", "r"),
        ("python3 -m mesh --x {x}", "mesh"),
        ("python3 {script}", "python3"),
        ("", "sweep"),
    ],
)
def test_an_experiment_is_named_after_the_program_and_not_its_interpreter(
    words: str, name: str
) -> None:
    assert Form("command", program=ProgramFields(words=words)).full_name == name


@pytest.mark.usefixtures("store")
def test_levels_are_typed_one_by_one_or_with_commas_and_blanks_between(form: Form) -> None:
    page = first_page()
    page.session_state["new-form"] = form
    page.session_state["new-state-step"] = 1
    page = go(page, "new")
    page.session_state["new-p0-levels"] = ["1", "2", "0, 4,  6"]
    sound(page.run())
    assert page.session_state["new-form"].rows[0].levels == ("1", "2", "0", "4", "6")
    assert not page.error


@pytest.mark.usefixtures("store")
def test_what_the_example_varies_beside_computed_levels_is_open_to_see() -> None:
    page = first_page()
    page.session_state["new-form"] = Form()
    page.session_state["new-state-step"] = 1
    page = go(page, "new")
    (more,) = [one for one in page.expander if one.label.startswith("More parameters")]
    assert more.proto.expanded
    assert page.multiselect(key="new-level-small_procs").help.startswith("Size of the small part")
