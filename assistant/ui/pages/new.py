"""The *New* page: a form in three steps, and dry runs; nothing is stored before the start."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import streamlit as st

from assistant.config.sweep_file import toml_text
from assistant.presentation.text.number_format import duration, lasting, number, quantity, unit_of
from assistant.ui import labels
from assistant.ui.intents import FormFieldError, Intent, answer_at, refusal
from assistant.ui.jobs import BackgroundJob, CommandExit, JobRegistry, work_folder
from assistant.ui.pages import new_fields, new_source, new_steps
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_form import Form, ObjectiveFields
from assistant.ui.pages.new_preview import (
    START,
    NewExperiment,
    Outline,
    open_from,
    outline,
    similar_words,
)
from assistant.ui.pages.new_sweep_file import FormFault
from assistant.ui.state import put, seed_choice

MOST = 8  # Dry runs at a time, over all browsers; a further one ends the oldest

_COMPLETED_CODE, _FAILED_CODE, _BAD_INPUT_CODE = 0, 4, 2


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """State, output and error message of a dry run.

    Args:
        state: ``tried`` if the run was made (it may have failed), ``refused`` if the sweep is
            wrong, ``stopped`` if the user ended it, ``broken`` for an error of the program.
        output: output of ``copperline try --json``; None unless the run was made.
        sentence: reason for ``refused`` and ``broken``; empty otherwise.
    """

    state: Literal["tried", "refused", "stopped", "broken"]
    output: Mapping[str, Any] | None = None
    sentence: str = ""


class DryRunJob(BackgroundJob):
    """Background dry run of a sweep file, which raises OSError if the process cannot start."""

    def __init__(self, text: str) -> None:
        folder = work_folder("copperline-try-")
        file = Path(folder.name) / "sweep.toml"
        file.write_text(text, encoding="utf-8")
        super().__init__([["try", "--json", str(file)]], folder)

    def result(self) -> DryRunResult | None:
        """Return the result and remove the files, or return None while the dry run goes on."""
        ended = self.ended()
        if ended is None:
            return None
        result = DryRunResult("stopped") if ended.stopped else _parse_exit(ended)
        self.close()
        return result


def _parse_exit(ended: CommandExit) -> DryRunResult:
    if ended.code == _BAD_INPUT_CODE:
        text = ended.last_word
        return DryRunResult("refused", sentence=f"{text[:1].upper()}{text[1:]}")
    if ended.code in (_COMPLETED_CODE, _FAILED_CODE):
        with suppress(ValueError):
            return DryRunResult("tried", json.loads(ended.out))
    return DryRunResult(
        "broken",
        sentence=f"Error in Copperline: the dry run ended with exit code {ended.code}. Its last "
        f"message: {ended.last_word}",
    )


class DryRunJobs(JobRegistry[DryRunResult]):
    """Registry of the dry runs of all browsers, at most `MOST` at once."""

    def __init__(self) -> None:
        super().__init__(MOST)

    def start(self, owner: str, text: str) -> None:
        """Replace the dry run of a browser, or raise OSError if the process cannot start."""
        self.begin(owner, lambda: DryRunJob(text))


@st.cache_resource(max_entries=1, show_spinner=False)
def dry_run_jobs() -> DryRunJobs:
    """Return the registry of dry runs of this process."""
    return DryRunJobs()


_OWNER, _LAST = "new-state-owner", "new-state-tried"
_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class LatestDryRun:
    """Latest dry run: digest of its sweep file, and its result (None while it runs)."""

    digest: str
    tried: DryRunResult | None


def _owner() -> str:
    owner: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return owner


def digest_of(text: str) -> str:
    """Return a short digest of a sweep file's text, to detect changes."""
    return sha256(text.encode()).hexdigest()[:16]


def start_dry_run(text: str) -> None:
    """Start a dry run of a sweep file, or raise OSError if the process cannot start."""
    dry_run_jobs().start(_owner(), text)
    st.session_state[_LAST] = LatestDryRun(digest_of(text), None)


def latest_dry_run() -> LatestDryRun | None:
    """Return this browser's latest dry run, with its result once ended, or None."""
    latest: LatestDryRun | None = st.session_state.get(_LAST)
    if latest is not None and latest.tried is None:
        tried = dry_run_jobs().fetch(_owner())
        if tried is None and dry_run_jobs().of(_owner()) is None:
            tried = DryRunResult("stopped")
        if tried is not None:
            latest = st.session_state[_LAST] = LatestDryRun(latest.digest, tried)
    return latest


def dry_run_measures() -> list[str]:
    """Return the names of the measures of the latest dry run."""
    output = _dry_run_output()
    return sorted(output["measures"]) if output and output.get("measures") else []


def dry_run_seconds() -> float | None:
    """Return the runtime of the latest dry run in seconds, or None if it failed."""
    output = _dry_run_output()
    return float(output["duration_s"]) if output and output["ok"] else None


def _dry_run_output() -> Mapping[str, Any] | None:
    latest = latest_dry_run()
    return None if latest is None or latest.tried is None else latest.tried.output


def dry_run_section(texts: Sequence[str], previous: LatestDryRun | None) -> None:
    """Draw the running dry run or its result, redrawing the page if its state has changed.

    ``texts`` are the sweep files that would run the same.
    """
    latest = latest_dry_run()
    if latest is not previous:
        st.rerun()  # the fields above were drawn without its result
    if latest is None:
        return
    with st.container(border=True, key="new-state-trial"):
        if latest.tried is None:
            st.fragment(_watch, run_every=_EVERY_S)()
            return
        if latest.digest not in map(digest_of, texts):
            st.caption("This dry run used the values before your last change.")
        _result(latest.tried)


def _watch() -> None:
    attempt = dry_run_jobs().of(_owner())
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Dry run … {attempt.seconds:.0f} s")
        if st.button("Stop the dry run", key="new-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _result(tried: DryRunResult) -> None:
    if tried.state == "stopped":
        st.info("The dry run was stopped. Nothing was stored.", icon=":material/stop_circle:")
    elif tried.output is None:
        st.error(labels.escape_markdown(tried.sentence), icon=":material/error:")
    elif tried.output["ok"]:
        _measured_run(tried.output)
    else:
        _failed(tried.output["failure"])


def _measured_run(output: Mapping[str, Any]) -> None:
    subject = "The current configuration" if output["baseline"] else "The first configuration"
    st.success(f"{subject} was run once. Nothing was stored.", icon=":material/check_circle:")
    with st.container(horizontal=True):
        for name, value in _headline_measures(output):
            st.metric(labels.escape_markdown(name), value.partition(" (")[0], border=True)
        st.metric("The run took", duration(output["duration_s"]), border=True)
        verdict_text = "all met" if output["feasible"] else "violated"
        if output["constraints"]:
            st.metric("Constraints", verdict_text, border=True)
    st.markdown(labels.escape_markdown(f"{output['budget'][:1].upper()}{output['budget'][1:]}."))
    if output["note"]:
        st.caption(labels.escape_markdown(f"{output['note']}."))
    for constraint in output["constraints"]:
        icon = ":material/check:" if constraint["met"] else ":material/close:"
        verdict = "met" if constraint["met"] else "violated"
        st.markdown(f"{icon} {verdict}: {labels.escape_markdown(constraint['text'])}")
    with st.expander("All measures"):
        st.dataframe(
            {
                "measure": list(output["measures"]),
                "value": [_measured(name, value) for name, value in output["measures"].items()],
            },
            hide_index=True,
            alt="All measures of the run",
        )
    with st.expander("The configuration"):
        st.dataframe(
            {
                "parameter": list(output["configuration"]),
                "level": [str(value) for value in output["configuration"].values()],
            },
            hide_index=True,
            alt="The levels of the configuration",
        )


def _headline_measures(output: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the value of the objective; if that is the runtime, the other measures, at most two.

    The runtime has a tile of its own, and stands in for an objective that is not named yet.
    """
    if output["objective"] != f"minimise {_TIME}":
        return [(output["objective"], quantity(output["value"], output["unit"]))]
    others = [(name, value) for name, value in output["measures"].items() if name != _TIME]
    return [(name, _measured(name, value)) for name, value in others[:2]]


def _measured(name: str, value: float | Sequence[float] | None) -> str:
    if isinstance(value, Sequence):
        return f"a series of {len(value):,} numbers, from {number(value[0])} to {number(value[-1])}"
    return quantity(value, unit_of(name))


def _failed(failure: Mapping[str, Any]) -> None:
    st.error(
        labels.escape_markdown(f"The run failed: {failure['reason']}."), icon=":material/error:"
    )
    st.markdown(f"**What to change**: {labels.escape_markdown(failure['hint'])}")
    with st.container(horizontal=True):
        for name, pattern in failure["readable"].items():
            st.button(
                f"Take {name}", key=f"new-state-read-{name}", icon=":material/straighten:",
                help=f"Makes {name} the measure, and reads it wherever the program prints it.",
                on_click=_read, args=(name, pattern),
            )  # fmt: skip
    if failure["command"]:
        st.caption("The command")
        st.code(shlex.join(failure["command"]), language=None, wrap_lines=True)
        code = failure["exit_code"]
        ended = "it was not started" if code is None else f"exit code {code}"
        st.caption(f"in the folder `{failure['folder']}`: {ended}")
    for name, lines in (
        ("standard output", failure["stdout"]), ("standard error", failure["stderr"]),
    ):  # fmt: skip
        if lines:
            st.caption(f"The end of {name}")
            st.code("\n".join(lines), language=None, height=min(320, 40 + 24 * len(lines)))


def _read(name: str, pattern: str) -> None:
    """Take a measure that the output names, as the form's objective."""
    new_fields.begin(new_fields.draft().reading(name, pattern))
    st.session_state[_GO] = len(STEPS) - 1


STEPS = ("What to run", "Parameters", "Objective and goal")

_PLACES = (
    r"new-(path|upload|command|function|environment|limit|measures|first|small-job-\w+|accounts)",
    r"new-(p\d+-\w+|parameters|levels|options|exclude|procs|order|futures[-\w]*)",
)
"""Keys of the fields of each step but the last; other messages belong to the last one."""

_TIME = "wall_s"  # The measure that every user program has

_STEP, _GO, _VISITED_KEY = "new-step", "new-state-go", "new-state-seen"
_STEP_KEY = "new-state-step"
"""The step on the screen; typed text and a change of step can arrive together."""


def step_of(place: str) -> int:
    """Return the index of the form step that has the field with this key, else the last step.

    >>> step_of("new-path"), step_of("new-p3-levels"), step_of("new-start")
    (0, 1, 2)
    """
    steps = (i for i, places in enumerate(_PLACES) if re.fullmatch(places, place))
    return next(steps, len(STEPS) - 1)


@dataclass(frozen=True, slots=True)
class _NavigationButtons:
    back: bool
    further: bool
    trial: bool
    start: bool


def page(store: Path, opened: Callable[[NewExperiment], None]) -> Intent | None:
    """Draw the form of a new experiment; return the request to start it, which calls ``opened``."""
    next_step = _step()
    step = st.session_state.setdefault(_STEP_KEY, next_step)
    form, beside, latest = new_fields.draft(), FieldMessages(), latest_dry_run()
    st.title("New experiment")
    _tabs()
    before = form.what_is_run
    form, preview = _draw_step(step, form, beside, store)
    if form.what_is_run != before:
        form = replace(form, run_s=None)
    new_fields.keep(form)
    if step != next_step:  # the old step is drawn once more, to read the text typed last
        _visited_steps().add(step)  # the user left it, so its missing fields are marked from now on
        st.session_state[_STEP_KEY] = next_step
        st.rerun()
    faults = _with_refusal(preview.faults)
    elsewhere = beside.tell(faults, missing=step in _visited_steps())
    text = None if preview.faults else toml_text(preview.tables)
    is_trying = _is_dry_running()
    st.divider()
    run_s = dry_run_seconds() or form.run_s
    st.markdown(f":material/grid_on: {preview.size_words} {_duration_words(preview, run_s)}")
    if preview.too_small:
        st.warning(preview.too_small, icon=":material/unfold_less:")
    _elsewhere(elsewhere, step)
    blocking = [fault for fault in faults if step_of(fault.place) == step]
    n_marked = sum(step in _visited_steps() or not fault.missing for fault in blocking)
    if n_marked:  # they may be out of sight, and a button would seem to do nothing
        fields = "1 field" if n_marked == 1 else f"{n_marked} fields"
        st.caption(f":material/edit: {fields} to fill in or correct: see the marks above.")
    pressed = _buttons(step, is_trying=is_trying)
    answer_at("new-trial")
    is_needed = text is None or latest is not None
    unnamed = _unnamed_text(form, preview) if is_needed else None
    trial = text or unnamed
    dry_run_section([each for each in (text, unnamed) if each is not None], latest)
    if pressed.back or pressed.further:
        _visited_steps().add(step)
        _go(step if pressed.further and blocking else step + (1 if pressed.further else -1))
    if pressed.trial:
        return _dry_run_intent(trial, faults)
    if pressed.start:
        return _start_intent(form, store, opened)
    return None


def _step() -> int:
    """Return the step to draw; a step requested by a button comes first."""
    requested_step = st.session_state.pop(_GO, None)
    if requested_step is not None:
        put(_STEP, STEPS[requested_step])
    seed_choice(_STEP, STEPS[st.session_state.get(_STEP_KEY, 0)])
    return STEPS.index(st.session_state[_STEP] or STEPS[0])


def _go(step: int) -> None:
    st.session_state[_GO] = min(max(step, 0), len(STEPS) - 1)
    st.rerun()


def _visited_steps() -> set[int]:
    steps: set[int] = st.session_state.setdefault(_VISITED_KEY, set())
    return steps


def _tabs() -> None:
    st.segmented_control(
        "Step", STEPS, key=_STEP, label_visibility="collapsed", required=True,
        format_func=lambda name: f"{STEPS.index(name) + 1}  {name}",
    )  # fmt: skip


def _draw_step(step: int, form: Form, beside: FieldMessages, store: Path) -> tuple[Form, Outline]:
    if step == 0:
        form = new_source.source_step(form, beside, store)
    elif step == 1:
        form = new_steps.parameters_step(form, beside, outline(form))
    else:
        form = new_steps.objective_step(form, beside, outline(form), dry_run_measures())
        similar = similar_words(form, store, outline(form).space)
        form = new_steps.steering_step(form, beside, similar)
        form = new_steps.file_section(form, beside, outline(form))
    return form, outline(form)


def _with_refusal(faults: tuple[FormFault, ...]) -> list[FormFault]:
    result = refusal()
    if result is None or not result.place.startswith("new-") or result.place == "new-trial":
        return list(faults)
    if any(fault.place == result.place for fault in faults):
        return list(faults)
    return [*faults, FormFault(result.place, result.text)]


def _elsewhere(elsewhere: list[FormFault], step: int) -> None:
    """Draw the faults of other steps; missing values only in the last one."""
    for fault in sorted(elsewhere, key=lambda candidate: step_of(candidate.place)):
        at = step_of(fault.place)
        if fault.place == START:
            st.error(labels.escape_markdown(fault.text), icon=":material/error:")
        elif step == len(STEPS) - 1 or not fault.missing:
            where = f"Step {at + 1}, {STEPS[at]}: "
            icon = ":material/edit:" if fault.missing else ":material/error:"
            (st.info if fault.missing else st.error)(
                labels.escape_markdown(where + fault.text), icon=icon
            )


def _duration_words(preview: Outline, run_s: float | None) -> str:
    runs = preview.tables.get("runs")
    if run_s is None:
        return "*Try one run* shows how long the budget takes."
    if not isinstance(runs, int):
        return f"One run takes {lasting(run_s)}."
    workers = preview.tables.get("workers", 1)
    n = min(runs, preview.space.n_combinations) if preview.space is not None else runs
    whole_s = -(-n // workers) * run_s
    each = f" of {lasting(run_s)}" if run_s >= 1 else ""
    return f"{labels.runs(n).capitalize()}{each} take {lasting(whole_s)}."


def _is_dry_running() -> bool:
    latest = latest_dry_run()
    return latest is not None and latest.tried is None


def _buttons(step: int, *, is_trying: bool) -> _NavigationButtons:
    at_end = step == len(STEPS) - 1
    with st.container(horizontal=True):
        back = st.button("Back", key="new-back", icon=":material/arrow_back:", disabled=step == 0)
        further = st.button(
            "Next", key="new-next", icon=":material/arrow_forward:", disabled=at_end,
            type="secondary" if at_end else "primary",
        )  # fmt: skip
        trial = st.button(
            "Try one run", key="new-try", icon=":material/science:", disabled=is_trying,
            help="Runs the current configuration once and stores nothing.",
        )  # fmt: skip
        start = st.button(
            "Start the experiment", key="new-start", icon=":material/play_arrow:",
            type="primary" if at_end else "secondary",
        )  # fmt: skip
    return _NavigationButtons(back, further, trial, start)


def _unnamed_text(form: Form, preview: Outline) -> str | None:
    """Return the sweep file of a dry run before the measure is named; None if it cannot run.

    The runtime is the objective; the output has the names.
    """
    unnamed = all(fault.missing and step_of(fault.place) == 2 for fault in preview.faults)
    if not form.is_own_program or not unnamed:
        return None
    program = form.program
    if program.measures == "usual":  # the output is not parsed where only the runtime counts
        program = replace(program, measures="last_line")
    trial_preview = outline(replace(form, program=program, wish=ObjectiveFields("minimise", _TIME)))
    return None if trial_preview.faults else toml_text(trial_preview.tables)


def _dry_run_intent(text: str | None, faults: list[FormFault]) -> Intent:
    """Return the intent to start a dry run; it shows the faults instead if there are any."""

    def do() -> str:
        if text is None:
            raise _go_to_fault(FormFieldError(faults[0].place, faults[0].text))
        try:
            start_dry_run(text)
        except OSError as error:
            raise FormFieldError("new-trial", f"Cannot start the dry run: {error}.") from error
        return ""

    return Intent("new-trial", do, "Preparing")


def _start_intent(form: Form, store: Path, opened: Callable[[NewExperiment], None]) -> Intent:

    def do() -> str:
        try:
            new = open_from(form, store)
        except FormFieldError as error:
            raise _go_to_fault(error) from error
        opened(new)
        new_fields.begin(new_fields.FIRST)
        return ""

    return Intent(START, do, "Reading and preparing", then="overview")


def _go_to_fault(error: FormFieldError) -> FormFieldError:
    """Go to the step of a refusal and mark its empty fields."""
    _visited_steps().update(range(len(STEPS)))
    if error.place != START:
        st.session_state[_GO] = step_of(error.place)
    return error
