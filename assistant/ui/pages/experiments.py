"""The *Experiments* page: the stored experiments with their progress and actions."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

from assistant.analysis.experiment_state import ExperimentState, experiment_state
from assistant.core.errors import DamagedEventError, SettingsError
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.ports import StoredExperiment, SystemClock
from assistant.presentation.tables.experiment_summary import (
    ExperimentSummary,
    summarise_experiment,
)
from assistant.presentation.text.number_format import moment, quantity
from assistant.service.store_connection import open_store
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import EXAMPLE, PLATFORM, NewExperiment, open_from
from assistant.ui.pages.new_sweep_file import form_of_experiment

PER_PAGE = 25  # Experiments whose event log is read at once

_PLACE = "experiments"
_SNAPSHOT, _NUMBER = "experiments-shown", "experiments-number"


@dataclass(frozen=True, slots=True)
class _ExperimentListSnapshot:
    """The rows on the screen; a selection refers to them, even after the store changed."""

    number: int
    stored: tuple[StoredExperiment, ...]


def page(
    store: Path,
    stored: Sequence[StoredExperiment],
    choose: Callable[[str], None],
    opened: Callable[[NewExperiment], None],
) -> Intent | None:
    """Draw the page that lists all experiments and return the action that the user requested."""
    if not stored:
        st.session_state.pop(_SNAPSHOT, None)
        return _welcome(store, opened)
    st.title("Experiments")
    snapshot, renewed = _snapshot(tuple(stored))
    pages = -(-len(snapshot.stored) // PER_PAGE)
    at = 1 if pages == 1 else st.pagination(pages, key=f"experiments-page-{snapshot.number}")
    rows = snapshot.stored[PER_PAGE * (at - 1) : PER_PAGE * at]
    try:
        summaries, states = _summaries(store, rows)
    except Exception as error:
        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
        return None
    rows = tuple(entry for entry in rows if entry.id in states)
    if not rows:
        return renewed
    selected = _table(rows, summaries, states, f"experiments-{snapshot.number}-{at}")
    answer_at(_PLACE)
    return _actions(store, selected, summaries, choose, opened) or renewed


def _welcome(store: Path, opened: Callable[[NewExperiment], None]) -> Intent | None:
    st.title("Copperline")
    with st.container(border=True):
        st.subheader("No experiment yet")
        st.markdown(
            "An experiment tries settings of a program, learns which of them matter, and finds "
            "better ones within a budget of runs and time.\n\n"
            "The built-in example divides a cluster of 128 processors so that jobs wait less. "
            "Auto-steering makes "
            f"{EXAMPLE.runs} runs in less than a minute. You can watch, and turn auto-steering "
            "off at any time."
        )
        answer_at(_PLACE)
        intent = None
        if st.button(
            "Start the example", type="primary", icon=":material/play_arrow:", key="start-example",
            width="stretch",
        ):  # fmt: skip
            intent = _example(store, opened)
    with st.container(border=True):
        st.markdown(
            "Another example tunes a platform for AI pipelines: the size of its clusters, its "
            "scheduler, and when to train deployed models again. It makes "
            f"{PLATFORM.runs} runs, which takes about a minute."
        )
        if st.button(
            "Start the AI platform", icon=":material/hub:", key="start-platform", width="stretch"
        ):
            intent = _example(store, opened, PLATFORM)
    with st.container(horizontal=True):
        if st.button("Set up an experiment", icon=":material/add:", key="new-experiment"):
            intent = _new()
    st.caption(f"Experiments are stored in `{store}`, which is empty.")
    return intent


def _example(store: Path, opened: Callable[[NewExperiment], None], form: Form = EXAMPLE) -> Intent:
    def do() -> str:
        opened(open_from(form, store))
        return ""

    return Intent(_PLACE, do, "Preparing the example", then="overview")


def _new() -> Intent:
    return Intent(_PLACE, lambda: "", then="new")


def _snapshot(
    stored: tuple[StoredExperiment, ...],
) -> tuple[_ExperimentListSnapshot, Intent | None]:
    snapshot: _ExperimentListSnapshot | None = st.session_state.get(_SNAPSHOT)
    if snapshot is None:
        snapshot = _new_snapshot(stored)
    n = _n_changes(snapshot.stored, stored)
    if n == 0:
        return snapshot, None
    text = "1 change since" if n == 1 else f"{n} changes since"
    if st.button(f"{text} - refresh", icon=":material/refresh:", key="experiments-refresh"):
        return _new_snapshot(stored), Intent(_PLACE, lambda: "")
    return snapshot, None


def _new_snapshot(stored: tuple[StoredExperiment, ...]) -> _ExperimentListSnapshot:
    number = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    snapshot = st.session_state[_SNAPSHOT] = _ExperimentListSnapshot(number, stored)
    return snapshot


def _n_changes(snapshot: Sequence[StoredExperiment], stored: Sequence[StoredExperiment]) -> int:
    """Count the experiments that are new or have changed."""
    before = {experiment.id: experiment.n_events for experiment in snapshot}
    return sum(before.get(experiment.id) != experiment.n_events for experiment in stored)


def _summaries(
    store: Path, rows: Sequence[StoredExperiment]
) -> tuple[dict[str, ExperimentSummary], dict[str, ExperimentState]]:
    """Return summaries and present states; an event log is read again once it has grown."""
    cache = _replayed(str(store.absolute()))
    n_missing = sum((entry.id, entry.n_events) not in cache for entry in rows)
    summaries, states = {}, {}
    with st.spinner(f"Reading {n_missing} event logs …") if n_missing else nullcontext():
        opened = open_store(store, take_key=False)
        try:
            for entry in rows:
                key = (entry.id, entry.n_events)
                if key not in cache:
                    try:
                        events = opened.load(entry.id)[: entry.n_events]
                    except DamagedEventError as error:  # the others are shown all the same
                        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
                        continue
                    experiment = Experiment.replay(events)
                    cache[key] = experiment, summarise_experiment(experiment)
                experiment, summaries[entry.id] = cache[key]
                execution = opened.execution(entry.id)
                states[entry.id] = experiment_state(experiment, SystemClock().now_s(), execution)
        finally:
            opened.close()
    return summaries, states


@st.cache_resource(max_entries=4, show_spinner=False)
def _replayed(store: str) -> "_ExperimentCache":  # noqa: ARG001 - it is the key
    return _ExperimentCache()


class _ExperimentCache(dict[tuple[str, int], tuple[Experiment, ExperimentSummary]]):
    """Experiments read from a store with their summaries, the latest `MOST` of them."""

    MOST = 200

    def __setitem__(
        self, key: tuple[str, int], value: tuple[Experiment, ExperimentSummary]
    ) -> None:
        super().__setitem__(key, value)
        while len(self) > self.MOST:
            del self[next(iter(self))]


def _table(
    rows: Sequence[StoredExperiment],
    summaries: dict[str, ExperimentSummary],
    states: dict[str, ExperimentState],
    key: str,
) -> StoredExperiment:
    """Draw the rows; return the selected one, the first by default."""
    now_s = SystemClock().now_s()
    glances = [summaries[entry.id] for entry in rows]
    has_warning = any(entry.warning for entry in glances)
    columns: dict[str, list[object]] = {
        "name": [entry.name for entry in glances],
        "state": [f"{states[entry.id].icon} {states[entry.id].name}" for entry in glances],
        "next step": [str(states[entry.id].next_step) for entry in glances],
        "best": [_best(entry) for entry in glances],
        "compared with current": [entry.gain for entry in glances],
        "runs": [_done(entry) for entry in glances],
        "used": [None if entry.share is None else 100 * entry.share for entry in glances],
        "time left": [entry.time_left(now_s, states[entry.id]) for entry in glances],
    }
    if has_warning:
        columns["warning"] = [f"▲ {entry.warning}" if entry.warning else "" for entry in glances]
    columns["opened"] = [moment(entry.opened_s) for entry in glances]
    event = st.dataframe(
        columns,
        hide_index=True,
        key=key,
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "used": st.column_config.ProgressColumn(
                "used",
                help="Share of the budget of runs that is used",
                width=110,
                min_value=0,
                max_value=100,
                format="%.0f %%",
            ),
        },
        alt="The stored experiments, latest first",
    )
    selected: list[int] = event["selection"]["rows"]
    st.caption(
        "Tick the box at the left of a row to select it. By default the first row is selected."
    )
    return rows[selected[0] if selected and selected[0] < len(rows) else 0]


def _best(summary: ExperimentSummary) -> str:
    return "" if summary.best is None else quantity(summary.best, summary.unit).partition(" (")[0]


def _done(summary: ExperimentSummary) -> str:
    text = f"{summary.done}" if summary.budget is None else f"{summary.done} of {summary.budget}"
    return f"{text}, {summary.failed} failed" if summary.failed else text


def _actions(
    store: Path,
    selected: StoredExperiment,
    summaries: dict[str, ExperimentSummary],
    choose: Callable[[str], None],
    opened: Callable[[NewExperiment], None],
) -> Intent | None:
    name = labels.escape_markdown(summaries[selected.id].name)
    intent = None
    with st.container(horizontal=True):
        if st.button(
            f"Open {name}", type="primary", icon=":material/folder_open:",
                key=f"open-{selected.id}",
        ):  # fmt: skip
            intent = _open(selected, choose)
        if st.button(
            "Duplicate", icon=":material/content_copy:", key=f"duplicate-{selected.id}",
            help="Fill in *New* with the settings of this experiment; nothing is started.",
        ):  # fmt: skip
            run_s = summaries[selected.id].run_s
            intent = Intent(
                _PLACE, lambda: _duplicated(store, selected, run_s), "Reading", then="new"
            )
        if st.button("New experiment", icon=":material/add:", key="new-experiment"):
            intent = _new()
        if st.button("Start the example", icon=":material/play_arrow:", key="start-example"):
            intent = _example(store, opened)
        if st.button("Start the AI platform", icon=":material/hub:", key="start-platform"):
            intent = _example(store, opened, PLATFORM)
    st.caption(f"{selected.id} · {summaries[selected.id].objective} · stored in `{store}`")
    return intent


def _open(selected: StoredExperiment, choose: Callable[[str], None]) -> Intent:
    def do() -> str:
        choose(selected.id)
        return ""

    return Intent(_PLACE, do, "Opening", then="overview")


def _duplicated(store: Path, selected: StoredExperiment, run_s: float | None) -> str:
    new_fields.begin(replace(duplicate(store, selected.id), run_s=run_s))
    return ""


def duplicate(store: Path, experiment_id: str) -> Form:
    """Return a form filled with the settings of a stored experiment.

    Raises:
        SettingsError: the experiment was opened from Python, so there is no sweep to copy.
        StoreError: the experiment cannot be read.
    """
    source = open_store(store, take_key=False)
    try:
        first = source.load(experiment_id)[0]
    finally:
        source.close()
    if not isinstance(first, ExperimentOpened) or not first.recipe:
        raise SettingsError(
            f"experiment '{experiment_id}' was opened from Python, so there is no sweep to copy; "
            "set up a new one"
        )
    return form_of_experiment(first, f"{first.name} again")
