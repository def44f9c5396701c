"""The front page: what to tune, as three cards, and the stored experiments with their actions."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import streamlit as st

from assistant.analysis.experiment_state import ExperimentState, experiment_state
from assistant.applications.scheduling_presets import LOG_PRESET, preset_of_log
from assistant.core.errors import DamagedEventError, SettingsError
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.ports import StoredExperiment, SystemClock
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.experiment_summary import (
    ExperimentSummary,
    summarise_experiment,
)
from assistant.service.store_connection import open_store
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.pages import experiments_actions, new_fields
from assistant.ui.pages.new_form import ClusterFields, Form, ProgramFields
from assistant.ui.pages.new_preview import EXAMPLE, EXAMPLE_COURSE, NewExperiment, open_from
from assistant.ui.pages.new_source import MOST_BYTES, keep_upload
from assistant.ui.pages.new_sweep_file import form_of_experiment

ACCENT, _MUTED = "#b4632d", "#7b8794"
MOST_POINTS = 60  # Points of the line of a small picture; more are thinned out
PER_PAGE = 25  # Experiments whose event log is read at once

_PLACE = "experiments"
_TAG, _PAGE = "experiments-tag", "experiments-page"
_UPLOADED = "front-log-taken"  # Upload that was taken already; drawn again it is not taken twice


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """A stored experiment as a row of the list: its summary, its state, and its best so far."""

    stored: StoredExperiment
    summary: ExperimentSummary
    state: ExperimentState
    best: tuple[float, ...]
    n_runs: int


def page(
    store: Path,
    stored: Sequence[StoredExperiment],
    deleted: Sequence[StoredExperiment],
    choose: Callable[[str], None],
    opened: Callable[[NewExperiment], None],
) -> Intent | None:
    """Draw the front page and return the action that the user requested, or None."""
    st.html(_STYLE)
    st.title("Experiments" if stored else "What do you want to tune?", anchor=False)
    answer_at(_PLACE)
    intent = experiments_actions.restore_just_deleted(store, _PLACE, deleted)
    if stored:
        intent = _list(store, tuple(stored), choose) or intent
        st.subheader("What do you want to tune next?", anchor=False)
    intent = _cards(store, opened) or intent
    return experiments_actions.deleted_section(store, _PLACE, deleted) or intent


# -- cards -----------------------------------------------------------------------------------------


def _cards(store: Path, opened: Callable[[NewExperiment], None]) -> Intent | None:
    program, log, example = st.columns(3)
    with program, st.container(border=True, height="stretch"):
        intent = _program_card()
    with log, st.container(border=True, height="stretch"):
        intent = _log_card(store) or intent
    with example, st.container(border=True, height="stretch"):
        intent = _example_card(store, opened) or intent
    st.caption(
        f"A table, a Python function or a sweep file: *New*. Experiments are stored in `{store}`."
    )
    return intent


def _program_card() -> Intent | None:
    st.markdown("##### :material/terminal: My program")
    st.markdown("Type the command that runs it. Put braces around each setting to try.")
    with st.form("front-program", border=False):
        words = st.text_input(
            "Command", placeholder="python train.py --lr {lr}", key="front-command",
            help="Its last line of output is the result, such as 12.5 or cost: 12.5.",
        )  # fmt: skip
        pressed = st.form_submit_button(
            "Set it up", icon=":material/arrow_forward:", key="front-set-up", width="stretch"
        )
    return _to_new(Form("command", program=ProgramFields(words=words))) if pressed else None


def _log_card(store: Path) -> Intent | None:
    st.markdown("##### :material/stacked_bar_chart: A job log")
    st.markdown("Drop what `sacct` printed, or a log as SWF. Other policies are simulated on it.")
    uploaded = st.file_uploader(
        "Job log", key="front-log",
        max_upload_size=MOST_BYTES // 2**20, label_visibility="collapsed",
    )  # fmt: skip
    if st.button("Enter a path", key="front-log-path", icon=":material/folder:", width="stretch"):
        return _to_new(_log_form())
    if uploaded is None or st.session_state.get(_UPLOADED) == uploaded.file_id:
        return None
    st.session_state[_UPLOADED] = uploaded.file_id

    def do() -> str:
        path = keep_upload(store, uploaded.name, uploaded.getvalue())
        new_fields.begin(_log_form(str(path), preset_of_log(path)))
        return ""

    return Intent(_PLACE, do, "Storing the log", then="new")


def _log_form(path: str = "", preset: str = LOG_PRESET) -> Form:
    """Return the form of a job log and its question."""
    return Form("log", path, cluster=ClusterFields(preset=preset))


def _example_card(store: Path, opened: Callable[[NewExperiment], None]) -> Intent | None:
    st.markdown("##### :material/play_circle: Show me an example")
    best = [min(EXAMPLE_COURSE[: i + 1]) for i in range(len(EXAMPLE_COURSE))]
    gain = round(100 * (1 - best[-1] / best[0]))
    st.markdown(f"The jobs of a cluster wait {gain} % less after {EXAMPLE.runs} runs.")
    name = f"{EXAMPLE.runs} runs of the example; its best is {gain} % lower than the current value"
    st.html(course(EXAMPLE_COURSE, best, best[0], name, (320, 92)))
    if st.button(
        "Start the example", type="primary", icon=":material/play_arrow:", key="start-example",
        width="stretch",
    ):  # fmt: skip

        def do() -> str:
            opened(open_from(EXAMPLE, store))
            return ""

        return Intent(_PLACE, do, "Preparing the example", then="overview")
    return None


def _to_new(form: Form) -> Intent:
    def do() -> str:
        new_fields.begin(form)
        return ""

    return Intent(_PLACE, do, then="new")


# -- rows ------------------------------------------------------------------------------------------

_STYLE = """<style>
.cl-row { display: grid; grid-template-columns: 9rem 11rem 8rem 1fr; gap: 0.25rem 1rem;
  align-items: center; font-size: 0.9rem; }
.cl-row small { display: block; opacity: 0.7; }
.cl-bar { height: 4px; border-radius: 2px; background: rgba(123, 135, 148, 0.3); }
.cl-bar i { display: block; height: 4px; border-radius: 2px; background: #a4561f; }
.cl-tags { grid-column: 1 / -1; }
.cl-tags em { font-style: normal; font-size: 0.8rem; padding: 0 0.5rem; margin-right: 0.35rem;
  border-radius: 0.6rem; background: rgba(123, 135, 148, 0.2); display: inline-block; }
[class*="st-key-open-"] button, [class*="st-key-open-"] button * {
  justify-content: flex-start; text-align: left; font-weight: 600; }
[class*="st-key-row-"] { border-bottom: 1px solid rgba(123, 135, 148, 0.25);
  padding-bottom: 0.35rem; }
@media (max-width: 1000px) {
  [class*="st-key-row-"] > :has(.cl-row) { flex: 1 1 100%; }
  .cl-row { grid-template-columns: 1fr 1fr; }
}
</style>"""


def _list(
    store: Path, stored: tuple[StoredExperiment, ...], choose: Callable[[str], None]
) -> Intent | None:
    tags = sorted({tag for entry in stored for tag in entry.tags})
    entries = _on_this_page(_with_tag(stored, tags))
    try:
        rows = _rows(store, entries)
    except Exception as error:
        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
        return None
    ticked = [row for row in rows if st.session_state.get(f"tick-{row.stored.id}")]
    intent = _actions(store, ticked, tags) if ticked else None
    for row in rows:
        intent = _row(row, choose) or intent
    if not ticked:
        st.caption("Click a name to open it. Tick a box for more.")
    return intent


def _with_tag(
    stored: tuple[StoredExperiment, ...], tags: Sequence[str]
) -> tuple[StoredExperiment, ...]:
    """Draw the choice of a tag if there are tags; return the experiments with the chosen one."""
    if not tags:
        return stored
    if st.session_state.get(_TAG) not in tags:
        st.session_state.pop(_TAG, None)  # no experiment has it any more
    tag = st.pills("Only with the tag", tags, key=_TAG)
    return tuple(entry for entry in stored if tag is None or tag in entry.tags)


def _on_this_page(stored: tuple[StoredExperiment, ...]) -> tuple[StoredExperiment, ...]:
    """Draw the choice of a page if there are several; return its experiments."""
    pages = -(-len(stored) // PER_PAGE)
    if st.session_state.get(_PAGE, 1) > pages:
        st.session_state.pop(_PAGE, None)
    at = 1 if pages <= 1 else st.pagination(pages, key=_PAGE)
    return stored[PER_PAGE * (at - 1) : PER_PAGE * at]


def _row(row: ExperimentRow, choose: Callable[[str], None]) -> Intent | None:
    experiment_id, name = row.stored.id, labels.escape_markdown(row.summary.name)
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", key=f"row-{experiment_id}"
    ):
        st.checkbox(
            f"Select {name}", key=f"tick-{experiment_id}", label_visibility="collapsed", width=24
        )
        pressed = st.button(
            name, type="tertiary", key=f"open-{experiment_id}", width=220,
            help=labels.escape_markdown(f"{row.summary.objective} · {experiment_id}"),
        )  # fmt: skip
        st.html(_cells(row))
    if not pressed:
        return None

    def do() -> str:
        choose(experiment_id)
        return ""

    return Intent(_PLACE, do, "Opening", then="overview")


def _cells(row: ExperimentRow) -> str:
    summary, state = row.summary, row.state
    best, gain = "no result yet", summary.gain
    if summary.best is not None:
        best = labels.value_words(summary.best, summary.unit)
        gain = gain or summary.objective
    limit = "" if summary.budget is None else f" of {summary.budget:,}"
    failed = f", {summary.failed:,} failed" if summary.failed else ""
    bar = ""
    if summary.share is not None:
        bar = f'<div class="cl-bar"><i style="width:{100 * summary.share:.0f}%"></i></div>'
    left = summary.time_left(SystemClock().now_s(), state)
    line = sparkline(row.best, f"best so far of {summary.name}")
    tags = "".join(f"<em>{escape(tag)}</em>" for tag in row.stored.tags)
    tags = f'<span class="cl-tags">{tags}</span>' if tags else ""
    return (
        '<div class="cl-row">'
        f"<span>{state.icon} {escape(state.name)}<small>{escape(left)}</small></span>"
        f"<span>{escape(best)}<small>{escape(gain)}</small></span>"
        f"<span>{summary.done:,}{limit} runs{failed}{bar}</span><span>{line}</span>{tags}</div>"
    )


def _actions(store: Path, ticked: Sequence[ExperimentRow], tags: Sequence[str]) -> Intent | None:
    """Draw what can be done with the ticked experiments."""
    row = ticked[0]
    return experiments_actions.actions(
        store,
        _PLACE,
        [one.stored for one in ticked],
        sum(one.n_runs for one in ticked),
        tags,
        lambda: _duplicated(store, row.stored, row.summary.run_s),
    )


def _rows(store: Path, entries: Sequence[StoredExperiment]) -> list[ExperimentRow]:
    """Return the rows of experiments; an event log is read again once it has grown."""
    cache = _replayed(str(store.absolute()))
    n_missing = sum((entry.id, entry.n_events) not in cache for entry in entries)
    rows = []
    with st.spinner(f"Reading {n_missing} event logs …") if n_missing else nullcontext():
        opened = open_store(store, take_key=False)
        try:
            for entry in entries:
                key = (entry.id, entry.n_events)
                if key not in cache:
                    try:
                        events = opened.load(entry.id)[: entry.n_events]
                    except DamagedEventError as error:  # the others are shown all the same
                        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
                        continue
                    experiment = Experiment.replay(events)
                    best = [p.best for p in run_points(experiment) if p.best is not None]
                    cache[key] = experiment, summarise_experiment(experiment), tuple(best)
                experiment, summary, line = cache[key]
                execution = opened.execution(entry.id)
                state = experiment_state(experiment, SystemClock().now_s(), execution)
                rows.append(ExperimentRow(entry, summary, state, line, len(experiment.runs)))
        finally:
            opened.close()
    return rows


@st.cache_resource(max_entries=4, show_spinner=False)
def _replayed(store: str) -> "_ExperimentCache":  # noqa: ARG001 - it is the key
    return _ExperimentCache()


class _ExperimentCache(
    dict[tuple[str, int], tuple[Experiment, ExperimentSummary, tuple[float, ...]]]
):
    """Experiments read from a store with their summaries, the latest `MOST` of them."""

    MOST = 200

    def __setitem__(
        self, key: tuple[str, int], value: tuple[Experiment, ExperimentSummary, tuple[float, ...]]
    ) -> None:
        super().__setitem__(key, value)
        while len(self) > self.MOST:
            del self[next(iter(self))]


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


def sparkline(best: Sequence[float], name: str, width: int = 120, height: int = 28) -> str:
    """Return a step line of the best value after each run; empty without two values.

    Args:
        best: the best value after each completed run; better is down if it falls.
        name: text for people who do not see it.
        width: of the picture, in pixels.
        height: of the picture, in pixels.
    """
    return _line_picture((), best, None, name, width, height) if len(best) > 1 else ""


def course(
    values: Sequence[float], best: Sequence[float], current: float, name: str, size: tuple[int, int]
) -> str:
    """Return a picture of a whole experiment: runs as dots, the best as a line, the current value.

    Args:
        values: of the completed runs, in order.
        best: the best value after each of them.
        current: value of the current configuration, drawn dashed.
        name: text for people who do not see it.
        size: width and height of the picture, in pixels.
    """
    return _line_picture(values, best, current, name, *size)


def _line_picture(
    values: Sequence[float],
    best: Sequence[float],
    current: float | None,
    name: str,
    width: int,
    height: int,
) -> str:
    edge = 3.0
    values = [*best, *([] if current is None else [current])]
    low, high = min(values), max(values)
    span = high - low or 1.0
    if values:  # room for results around the line; those far away are left out
        low, high = low - 0.25 * span, high + 0.25 * span
        span = high - low

    def x(i: int) -> float:
        return edge + i * (width - 2 * edge) / max(len(best) - 1, 1)

    def y(value: float) -> float:
        return edge + (high - value) * (height - 2 * edge) / span

    dots = "".join(
        f'<circle cx="{x(i):.1f}" cy="{y(value):.1f}" r="2" fill="none" stroke="{_MUTED}"/>'
        for i, value in enumerate(values)
        if low <= value <= high
    )
    step = max(1, -(-len(best) // MOST_POINTS))
    indices = sorted({*range(0, len(best), step), len(best) - 1})
    path = f"M{x(indices[0]):.1f},{y(best[indices[0]]):.1f}" + "".join(
        f"H{x(i):.1f}V{y(best[i]):.1f}" for i in indices[1:]
    )
    rule = "" if current is None else _dashed_line(y(current), edge, width)
    if current is not None:
        rule += _svg_text(y(current) - 5, width, "current") + _svg_text(
            y(best[-1]) + 12, width, "best"
        )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{dots}{rule}'
        f'<path d="{path}" fill="none" stroke="{ACCENT}" stroke-width="2"/></svg>'
    )
    data = b64encode(svg.encode()).decode()  # tags of SVG would be removed from the page
    return (
        f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}" '
        'style="max-width:100%;display:block">'
    )


def _dashed_line(at: float, edge: float, width: int) -> str:
    return (
        f'<line x1="{edge}" x2="{width - edge}" y1="{at:.1f}" y2="{at:.1f}" stroke="{_MUTED}" '
        'stroke-dasharray="4 3"/>'
    )


def _svg_text(at: float, width: int, text: str) -> str:
    return (
        f'<text x="{width - 4}" y="{at:.1f}" fill="{_MUTED}" font-size="11" text-anchor="end" '
        f'font-family="system-ui, sans-serif">{text}</text>'
    )
