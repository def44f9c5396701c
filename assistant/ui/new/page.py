"""*New*: four steps to an experiment and a review; nothing is stored before it is started."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

from assistant.report.words import lasting
from assistant.toml_text import toml_text
from assistant.ui import words
from assistant.ui.intents import FieldError, Intent, answer_at, refusal
from assistant.ui.new import choice as new_choice
from assistant.ui.new import fields
from assistant.ui.new import goal as new_goal
from assistant.ui.new import levels_step as new_levels
from assistant.ui.new import source as new_source
from assistant.ui.new import trial as new_trial
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Form, Wish
from assistant.ui.new.opening import START, Opened, open_from
from assistant.ui.new.outline import Outline, outline
from assistant.ui.new.writing import Fault

STEPS = ("What is run", "Parameters", "Goal and agreement", "How it chooses", "Review")

_PLACES = (
    r"new-(path|upload|command|function|environment|limit|measures|first|small-job-\w+)",
    r"new-(p\d+-\w+|parameters|levels|options|exclude|procs|order|futures[-\w]*)",
    r"new-(measure|second|c\d+|deadline|goal|run-limit|runs|cost)",
    r"new-(strategy)",
    r"new-(name)",
)
"""The places of refusals, step by step; what is nowhere here belongs to the whole."""

_TIME = "wall_s"
"""The measure that every program of one's own gives."""

_STEP, _GO, _SEEN = "new-step", "new-state-go", "new-state-seen"
_DRAWN = "new-state-step"
"""The step on the screen. Whoever types and goes to another step at once sends both together."""


def step_of(place: str) -> int:
    """Return the number of the step that a field stands in; the review for the whole.

    >>> step_of("new-path"), step_of("new-p3-levels"), step_of("new-start")
    (0, 1, 4)
    """
    found = (i for i, places in enumerate(_PLACES) if re.fullmatch(places, place))
    return next(found, len(STEPS) - 1)


@dataclass(frozen=True, slots=True)
class _Pressed:
    back: bool
    further: bool
    trial: bool
    start: bool


def page(store: Path, opened: Callable[[Opened], None]) -> Intent | None:
    """Draw the page.

    Args:
        store: the file that the experiment will be kept in.
        opened: told of the new experiment: makes it the open one and sees that it is executed.
    """
    wanted = _step()
    step = st.session_state.setdefault(_DRAWN, wanted)
    form, beside, known = fields.draft(), Beside(), new_trial.last()
    st.title("New experiment")
    _tabs(wanted)
    before = form.what_is_run
    form, seen = _drawn(step, form, beside, store)
    if form.what_is_run != before:
        form = replace(form, run_s=None)
    fields.keep(form)
    if step != wanted:  # drawn once more, what was typed last has been taken in
        _seen().add(step)  # it is left: what is missing there is said when one comes back
        st.session_state[_DRAWN] = wanted
        st.rerun()
    faults = _with_refusal(seen.faults)
    elsewhere = beside.tell(faults, missing=step in _seen())
    text = None if seen.faults else toml_text(seen.tables)
    is_trying = _is_trying()
    st.divider()
    run_s = new_trial.seconds() or form.run_s
    st.markdown(f":material/grid_on: {seen.size_words} {_lasting(seen, run_s)}")
    if seen.too_small:
        st.warning(seen.too_small, icon=":material/unfold_less:")
    _elsewhere(elsewhere, step)
    pressed = _buttons(step, is_trying=is_trying)
    answer_at("new-trial")
    trial = _to_try(form, seen, text)
    new_trial.section(trial, known)
    if pressed.back or pressed.further:
        _seen().add(step)
        held = [one for one in faults if step_of(one.place) == step]
        _go(step if pressed.further and held else step + (1 if pressed.further else -1))
    if pressed.trial:
        return _tried(trial, faults)
    if pressed.start:
        return _started(form, store, opened)
    return None


def _step() -> int:
    """Return the step that is wanted; one that was asked for by a button comes first."""
    wanted = st.session_state.pop(_GO, None)
    if wanted is not None or _STEP not in st.session_state:
        kept = st.session_state.get(_DRAWN, 0)
        st.session_state[_STEP] = STEPS[kept if wanted is None else wanted]
    return STEPS.index(st.session_state[_STEP] or STEPS[0])


def _go(step: int) -> None:
    st.session_state[_GO] = min(max(step, 0), len(STEPS) - 1)
    st.rerun()


def _seen() -> set[int]:
    """Return the steps of which empty fields are told."""
    seen: set[int] = st.session_state.setdefault(_SEEN, set())
    return seen


def _tabs(step: int) -> None:
    st.segmented_control(
        "Step", STEPS, key=_STEP, label_visibility="collapsed", required=True,
        format_func=lambda name: f"{STEPS.index(name) + 1}  {name}",
    )  # fmt: skip
    if step < 4:
        st.caption("Steps may be taken in any order; what is filled in stays.")


def _drawn(step: int, form: Form, beside: Beside, store: Path) -> tuple[Form, Outline]:
    """Draw one step. Returns the form as it is filled in now, and what it comes to."""
    if step == 0:
        form = new_source.step(form, beside, store)
    elif step == 1:
        form = new_levels.step(form, beside, outline(form))
    elif step == 2:
        form = new_goal.step(form, beside, outline(form), new_trial.measures())
    elif step == 3:
        form = new_choice.step(form, beside)
    else:
        form = new_choice.review(form, beside, outline(form))
    return form, outline(form)


def _with_refusal(faults: tuple[Fault, ...]) -> list[Fault]:
    """Return what is wrong by itself, and what starting it was refused for."""
    told = refusal()
    if told is None or not told.place.startswith("new-") or told.place == "new-trial":
        return list(faults)
    if any(fault.place == told.place for fault in faults):
        return list(faults)
    return [*faults, Fault(told.place, told.text)]


def _elsewhere(elsewhere: list[Fault], step: int) -> None:
    """Say what is wrong in other steps; what is only missing there, at the end."""
    for fault in sorted(elsewhere, key=lambda one: step_of(one.place)):
        at = step_of(fault.place)
        if fault.place == START:
            st.error(words.plain(fault.text), icon=":material/error:")
        elif step == len(STEPS) - 1 or not fault.missing:
            where = f"Step {at + 1}, {STEPS[at]}: "
            icon = ":material/edit:" if fault.missing else ":material/error:"
            (st.info if fault.missing else st.error)(words.plain(where + fault.text), icon=icon)


def _lasting(seen: Outline, run_s: float | None) -> str:
    """Say how long the budget takes, from how long one run took."""
    runs = seen.tables.get("runs")
    if run_s is None:
        return "*Try one run* tells how long the budget takes."
    if not isinstance(runs, int):
        return f"One run takes {lasting(run_s)}."
    workers = seen.tables.get("workers", 1)
    n = min(runs, seen.space.size) if seen.space is not None else runs
    whole_s = -(-n // workers) * run_s
    each = f" of {lasting(run_s)}" if run_s >= 1 else ""
    return f"{words.runs(n).capitalize()}{each} take {lasting(whole_s)}."


def _is_trying() -> bool:
    found = new_trial.last()
    return found is not None and found.tried is None


def _buttons(step: int, *, is_trying: bool) -> _Pressed:
    at_end = step == len(STEPS) - 1
    with st.container(horizontal=True):
        back = st.button("Back", key="new-back", icon=":material/arrow_back:", disabled=step == 0)
        further = st.button(
            "Next", key="new-next", icon=":material/arrow_forward:", disabled=at_end,
            type="secondary" if at_end else "primary",
        )  # fmt: skip
        trial = st.button(
            "Try one run", key="new-try", icon=":material/science:", disabled=is_trying,
            help="Runs today's configuration once, and stores nothing.",
        )  # fmt: skip
        start = st.button(
            "Start the experiment", key="new-start", icon=":material/play_arrow:",
            type="primary" if at_end else "secondary",
        )  # fmt: skip
    return _Pressed(back, further, trial, start)


def _to_try(form: Form, seen: Outline, text: str | None) -> str | None:
    """Return the sweep file of a trial; None while it cannot be tried.

    Where only names of measures are missing, the time of a run stands in for the goal: the trial
    is what tells their names.
    """
    unnamed = all(fault.missing and step_of(fault.place) == 2 for fault in seen.faults)
    if text is not None or not form.is_own_program or not unnamed:
        return text
    program = form.program
    if program.measures == "usual":  # what is printed is not read where the time is all that counts
        program = replace(program, measures="last_line")
    told = outline(replace(form, program=program, wish=Wish("minimise", _TIME)))
    return None if told.faults else toml_text(told.tables)


def _tried(text: str | None, faults: list[Fault]) -> Intent:
    """Return the wish to try one run; what is at fault is shown instead."""

    def do() -> str:
        if text is None:
            raise _led_to(FieldError(faults[0].place, faults[0].text))
        try:
            new_trial.start(text)
        except OSError as error:
            raise FieldError("new-trial", f"The trial cannot be started: {error}.") from error
        return ""

    return Intent("new-trial", do, "Preparing")


def _started(form: Form, store: Path, opened: Callable[[Opened], None]) -> Intent:
    """Return the wish to open the experiment; what is refused is shown beside its field."""

    def do() -> str:
        try:
            new = open_from(form, store)
        except FieldError as error:
            raise _led_to(error) from error
        opened(new)
        fields.begin(Form())
        return ""

    return Intent(START, do, "Reading and preparing", then="overview")


def _led_to(error: FieldError) -> FieldError:
    """Make the step of a refusal the one that is drawn next, with its empty fields told."""
    _seen().update(range(len(STEPS)))
    if error.place != START:
        st.session_state[_GO] = step_of(error.place)
    return error
