"""Start or open: what is stored, and a new experiment from four kinds of source."""

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from assistant.ports import StoredExperiment
from assistant.report.words import moment
from assistant.ui.controls import strategy_fields
from assistant.ui.intents import Intent, answer_at
from assistant.ui.opening import Form, Source, open_from
from assistant.ui.runner import runner_of
from assistant.ui.terms import Terms, goal_field, more_fields
from strategies import DEFAULT_STRATEGY

_SOURCES: dict[Source, str] = {
    "example": "Built-in example",
    "log": "Job log (SWF)",
    "table": "Measured table (CSV)",
    "file": "Sweep file (TOML)",
}
_SAYS: dict[Source, str] = {
    "example": "A generated job log on a cluster of 128 processors: which part should be kept for "
    "small jobs, which jobs are small, and in which order should jobs wait?",
    "log": "Your own log in the Standard Workload Format, simulated with two partitions.",
    "table": "Runs that are measured already, looked up instead of executed: parameter columns, "
    "then `objective`.",
    "file": "Everything is said in the file: application, levels, objective, budget and strategy.",
}


def page(
    store: Path, stored: Sequence[StoredExperiment], choose: Callable[[str], None]
) -> Intent | None:
    """Draw the page.

    Args:
        store: the file that new experiments are kept in.
        stored: what it holds, latest first.
        choose: makes an experiment the open one.
    """
    st.title("Copperline")
    left, right = st.columns([3, 2], gap="large")
    with right:
        intent = _open(store, stored, choose)
    with left:
        return _new(store, choose) or intent


def _open(
    store: Path, stored: Sequence[StoredExperiment], choose: Callable[[str], None]
) -> Intent | None:
    st.subheader("Open")
    answer_at("open")
    if not stored:
        st.info(f"No experiment is stored in `{store}` yet. The built-in example is quick.")
        return None
    labels = {one.id: f"{one.name} · {moment(one.opened_s)} · {one.id}" for one in stored}
    chosen = st.selectbox("Experiment", list(labels), format_func=labels.__getitem__, key="stored")
    if not st.button("Open", key="open"):
        return None

    def do() -> str:
        runner_of(str(store), chosen)
        choose(chosen)
        return ""

    return Intent("open", do, "Opening", then="steer")


def _new(store: Path, choose: Callable[[str], None]) -> Intent | None:
    st.subheader("Start")
    source: Source = st.radio(
        "What shall be run", list(_SOURCES), format_func=_SOURCES.__getitem__, horizontal=True,
        key="start-source",
    )  # fmt: skip
    st.caption(_SAYS[source])
    with st.container():
        path, text = _source_fields(source)
    is_file = source == "file"
    form = Form(source=source, path=path, text=text) if is_file else _fields(source, path)
    answer_at("start")
    if not st.button("Start the experiment", type="primary", key="start"):
        return None

    def do() -> str:
        opened = open_from(form, store)
        runner_of(str(store), opened.session.id).start(opened.application)
        choose(opened.session.id)
        return ""

    return Intent("start", do, "Reading and preparing", then="steer")


def _source_fields(source: Source) -> tuple[str, str | None]:
    path, text = "", None
    if source == "log":
        path = st.text_input("Path of the log", placeholder="logs/your.swf.gz", key="start-log")
        answer_at("start-log")
    elif source == "table":
        path = st.text_input("Path of the table", placeholder="measured.csv", key="start-table")
        answer_at("start-table")
    elif source == "file":
        path = st.text_input("Path of the sweep file", placeholder="sweep.toml", key="start-file")
        upload = st.file_uploader(
            "or upload it", type="toml", key="start-upload",
            help="Paths in an uploaded file are relative to the folder that the app runs in.",
        )  # fmt: skip
        if upload is not None:
            text = upload.getvalue().decode("utf-8", errors="replace")
        answer_at("start-file")
    return path, text


def _fields(source: Source, path: str) -> Form:
    name = st.text_input("Name (optional)", key="start-name")
    one, two = st.columns(2)
    runs = one.number_input("Budget of runs", 1, value=40, key="start-runs")
    deadline = two.text_input(
        "Deadline, as a time from now", placeholder="none, or 30m", key="start-deadline"
    )
    answer_at("start-deadline")
    with one:
        goal = goal_field("start", Terms())
    with st.expander("More of the agreement: cost, time of a run"):
        terms = more_fields("start", goal, Terms())
    with st.expander("How it chooses"):
        strategy, options = strategy_fields("start", DEFAULT_STRATEGY, {})
        seed = st.number_input("Seed of every random choice", 0, value=3, key="start-seed")
        workers = st.number_input("Runs at once", 1, 64, 1, key="start-workers")
    return Form(source, path, None, name, runs, deadline, terms, strategy, options, seed, workers)
