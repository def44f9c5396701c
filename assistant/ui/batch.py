"""The suggestions on the table: frozen as they were shown, taken, edited or left, then submitted.

A row is known by its batch and its position. If the batch on the screen is not the open one any
more, because another window or the automatic mode acted, every action on it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from assistant import BatchSuggested, Experiment
from assistant.decisions import submission, taken_from
from assistant.errors import ExperimentError
from assistant.recommendation import KEPT_RUNS, recommend
from assistant.report.why import expected_text
from assistant.report.words import level
from assistant.ui import words
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.runner import Runner, RunnerState
from strategies import Level

NUMBER, TAKE, EXPECTED, WHY = "no.", "take", "expected", "why"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is ticked and changed in a batch, by position."""

    keep: tuple[int, ...]
    edits: Mapping[int, Mapping[str, Level]]


def section(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw the suggestions. Returns what the person wants done with them."""
    st.subheader("Suggestions")
    answer_at("suggest", "submit")
    if runner.automatic is not None:
        st.info(
            f"Automatic steering takes {runner.automatic} suggestions at a time. "
            "Switch it off below to decide yourself.",
            icon=":material/sync:",
        )
        return None
    batch = _held(runner, experiment)
    if batch is None:
        return _ask(runner, experiment, first=not experiment.batches)
    return _table(runner, experiment, batch) or _ask(runner, experiment, first=False)


def release(experiment_id: str) -> None:
    """Let the next drawing show the batch that is open then."""
    st.session_state.pop(f"held-{experiment_id}", None)


def _held(runner: Runner, experiment: Experiment) -> BatchSuggested | None:
    """Return the batch on this screen: the open one when it was first drawn."""
    key = f"held-{runner.session.id}"
    number = st.session_state.get(key)
    if number is None:
        batch = experiment.open_batch
        if batch is not None:
            st.session_state[key] = batch.number
        return batch
    return experiment.batches[number - 1] if number <= len(experiment.batches) else None


def _ask(runner: Runner, experiment: Experiment, *, first: bool) -> Intent | None:
    room = experiment.remaining_runs
    if experiment.finished is not None:
        st.info(f"This experiment is finished: {words.plain(experiment.finished.reason)}")
        return None
    if room == 0:
        st.info("The budget is used up. Raise it below to go on, or read the report.")
        return None
    if first:
        st.write("Nothing has been suggested yet. The first runs are chosen at random.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        n = st.number_input(
            "How many", 1, room, min(5, room or 5), key=f"n-{runner.session.id}", width=140
        )
        label = "Suggest the first runs" if first else "Suggest others"
        if experiment.open_batch is None and not first:
            label = "Suggest"
        kind = "primary" if experiment.open_batch is None else "secondary"
        asked = st.button(label, type=kind, key="suggest")  # type: ignore[arg-type]
        confirm = _confirm(runner, experiment)
    if not asked:
        return confirm

    def suggest() -> str:
        release(runner.session.id)
        session = runner.session
        batch = session.initial_evaluation(n) if first else session.suggest(n)
        if not batch.suggestions:
            return "Nothing is left to suggest: every allowed configuration has been proposed."
        return ""

    return Intent("suggest", suggest, "Choosing suggestions")


def _confirm(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw a button that suggests replicates of what is recommended, while that is not sure."""
    if experiment.opened.deterministic:
        return None
    recommended = recommend(experiment)
    if recommended is None or recommended.confirmed:
        return None
    label = f"Suggest to confirm run {recommended.run.id}"
    if not st.button(label, key="confirm", help=recommended.sentence):
        return None

    def confirm() -> str:
        release(runner.session.id)
        room = runner.experiment.remaining_runs
        runner.session.confirm(KEPT_RUNS if room is None else min(KEPT_RUNS, room))
        return ""

    return Intent("suggest", confirm, "Choosing what to repeat")


def _table(runner: Runner, experiment: Experiment, batch: BatchSuggested) -> Intent | None:
    open_batch = experiment.open_batch
    is_stale = open_batch is None or open_batch.number != batch.number
    if is_stale:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.warning(
                f"Batch {batch.number} was submitted or replaced since it was shown here. "
                "Nothing can be done with it any more.",
                icon=":material/history:",
            )
            if st.button("Show what is open now", key="renew"):
                release(runner.session.id)
                st.rerun()
    st.markdown(
        f"**{words.batch_title(batch)}.** Untick what shall not run, choose other levels, submit."
    )
    choice = _editor(runner, experiment, batch)
    refused = "" if is_stale else _preview(experiment, batch, choice)
    with st.expander("Why each of them"):
        reasons = [words.plain(suggestion.reason) for suggestion in batch.suggestions]
        st.markdown("\n".join(f"{i}. {reason}" for i, reason in enumerate(reasons, 1)))
    n = len(choice.keep)
    with st.container(horizontal=True):
        submit = st.button(
            f"Submit {words.runs(n)}",
            type="primary",
            key=f"submit-{batch.number}",
            disabled=n == 0 or bool(refused),
            shortcut="Ctrl+Enter",
        )
        for label, taken in (("Take all", True), ("Take none", False)):
            if st.button(label, key=f"{label}-{batch.number}"):
                _tick(runner, batch, taken)
                st.rerun()
    if not submit:
        return None

    def do() -> str:
        open_now = runner.experiment.open_batch
        if open_now is None or open_now.number != batch.number:
            raise ExperimentError(
                f"batch {batch.number} was submitted or replaced since it was shown here; "
                "nothing was submitted"
            )
        submitted = runner.session.submit(batch, keep=choice.keep, edits=choice.edits)
        release(runner.session.id)
        runner.wake()
        waits = runner.state in (RunnerState.VIEWING, RunnerState.PAUSED)
        return f"{words.runs(len(submitted))} submitted." + (" Start them above." if waits else "")

    return Intent("submit", do, "Submitting")


def _base(experiment: Experiment, batch: BatchSuggested) -> pd.DataFrame:
    """Return the table as it is first shown; later results do not change it."""
    space = experiment.space
    offered = [suggestion.configuration for suggestion in batch.suggestions]
    rows: list[dict[str, object]] = []
    expected = [expected_text(experiment, one) for one in offered]
    for suggestion, value in zip(batch.suggestions, expected, strict=True):
        values = space.values(suggestion.configuration)
        cells = {name: level(one) for name, one in values.items()}
        number = len(rows) + 1
        rows.append({NUMBER: number, TAKE: True, **cells, EXPECTED: value, WHY: suggestion.reason})
    return pd.DataFrame(rows)


def _keys(runner: Runner, batch: BatchSuggested) -> tuple[str, str]:
    """Return the keys of the table's base and of its editor; the latter changes with the base."""
    base = f"base-{runner.session.id}-{batch.number}"
    return base, f"editor-{runner.session.id}-{batch.number}-{st.session_state.get(base, (0,))[0]}"


def _tick(runner: Runner, batch: BatchSuggested, taken: bool) -> None:
    """Tick all or none, keeping the edited levels."""
    base_key, editor_key = _keys(runner, batch)
    version, frame = st.session_state[base_key]
    frame = frame.copy()
    edited = st.session_state.get(editor_key, {}).get("edited_rows", {})
    for row, cells in edited.items():
        for name, value in cells.items():
            frame.loc[int(row), name] = value
    frame[TAKE] = taken
    st.session_state[base_key] = (version + 1, frame)


def _editor(runner: Runner, experiment: Experiment, batch: BatchSuggested) -> Choice:
    base_key, editor_key = _keys(runner, batch)
    if base_key not in st.session_state:
        st.session_state[base_key] = (0, _base(experiment, batch))
    _, frame = st.session_state[base_key]
    space = experiment.space
    columns: dict[str, Any] = {
        NUMBER: st.column_config.NumberColumn("no.", disabled=True, width=40),
        TAKE: st.column_config.CheckboxColumn(
            "take", width=60, help="Click on the box, or go to it and press the space key."
        ),
        EXPECTED: st.column_config.TextColumn(
            "expected",
            disabled=True,
            help="By the model of what was measured so far, with a 95% interval.",
        ),
        WHY: st.column_config.TextColumn("why", disabled=True, width="large"),
    }
    for parameter in space.parameters:
        options = [level(value) for value in words.open_levels(space, parameter)]
        own = [value for value in frame[parameter.name] if value not in options]
        columns[parameter.name] = st.column_config.SelectboxColumn(
            parameter.name,
            options=[*options, *dict.fromkeys(own)],
            required=True,
            help=f"{parameter.description} [{parameter.unit or 'no unit'}]",
        )
    table = st.data_editor(
        frame,
        key=editor_key,
        column_config=columns,
        hide_index=True,
        width="stretch",
        alt=f"{words.batch_title(batch)}, with the reason of each",
    )
    edits: dict[int, dict[str, Level]] = {}
    for position, suggestion in enumerate(batch.suggestions):
        values = space.values(suggestion.configuration)
        for parameter in space.parameters:
            cell = table.loc[position, parameter.name]
            if cell != level(values[parameter.name]):
                edits.setdefault(position, {})[parameter.name] = parameter.parse(str(cell))
    keep = tuple(i for i in range(len(batch.suggestions)) if bool(table.loc[i, TAKE]))
    return Choice(keep, {i: edit for i, edit in edits.items() if i in keep})


def _preview(experiment: Experiment, batch: BatchSuggested, choice: Choice) -> str:
    """Say what the changed rows are expected to give, and what would be refused."""
    try:
        wanted = taken_from(experiment, batch, choice.keep, choice.edits)
        expected = [expected_text(experiment, one.configuration) for one in wanted]
        for position, value in zip(choice.keep, expected, strict=True):
            if position in choice.edits:
                st.caption(f"No. {position + 1}, as you changed it: expected {value}.")
        submission(experiment, wanted, 0.0)
    except Exception as error:
        refused = sentence(error)
        st.error(words.plain(refused), icon=":material/block:")
        return refused
    return ""
