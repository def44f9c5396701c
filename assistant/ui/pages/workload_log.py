"""Choice of a job log: built-in, path or upload, with the rules for reading it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from assistant.simtools import Workload
from assistant.simtools.workload_log import (
    built_in,
    read_log,
    read_upload,
    reading_alternatives,
    reading_choices,
)
from assistant.ui.intents import sentence
from assistant.ui.labels import escape_markdown

Source = Literal["example", "path", "upload"]
_SOURCES: dict[Source, str] = {
    "example": "Built-in example",
    "path": "A file here",
    "upload": "Upload",
}
_FORMATS = "SWF, JSONL, or a table of openb, Philly, CloudSimPy or tasks, plain or gzipped"


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Selected job log that was read, with its source and reading rules.

    Args:
        path: path of the file; None without a file on this machine.
        upload: name and content of an uploaded file.
        reading: reading rules that differ from the defaults.
    """

    log: Workload
    path: str | None = None
    upload: tuple[str, bytes] | None = None
    reading: Mapping[str, str] = field(default_factory=dict)


def choose_log(key: str, first_path: str | None = None) -> LogSelection | None:
    """Draw the choice of a job log, by default ``first_path``, and return the log that was read.

    Returns None if no log is selected or it cannot be read; the next step is drawn then.
    """
    state = st.session_state
    if first_path is not None and state.get(f"{key}-came") != first_path:
        state[f"{key}-came"], state[f"{key}-source"], state[f"{key}-path"] = (
            first_path,
            "path",
            first_path,
        )
    state.setdefault(f"{key}-source", "example")
    source: Source | None = st.segmented_control(
        "Job log", list(_SOURCES), format_func=_SOURCES.__getitem__, key=f"{key}-source",
        required=True, persist_state="session",
    )  # fmt: skip
    if source == "path":
        path = st.text_input(
            "Path of the log", placeholder="logs/your.swf.gz", key=f"{key}-path",
            persist_state="session",
            help=f"{_FORMATS}. A path is relative to the folder that the app runs in.",
        )  # fmt: skip
        if not (path or "").strip():
            st.info(f"Name the path of a job log ({_FORMATS}), or select the built-in example.")
            return None
        return _from_path(key, str(Path((path or "").strip()).expanduser()))
    if source == "upload":
        return _from_upload(key)
    return LogSelection(_built_in())


def _from_path(key: str, path: str) -> LogSelection | None:
    try:
        reading = _reading(key)
        with st.spinner(f"Reading {escape_markdown(Path(path).name)} …"):
            return LogSelection(
                _read(path, _stamp(path), tuple(reading.items())), path, None, reading
            )
    except Exception as error:
        _refusal_buttons(key, error)
        return None


def _from_upload(key: str) -> LogSelection | None:
    uploaded: UploadedFile | None = st.file_uploader(
        f"A job log ({_FORMATS})", key=f"{key}-file",
        help="The app keeps it in memory and writes it to a file only on your request.",
    )  # fmt: skip
    upload_key = f"{key}-uploaded"
    if uploaded is not None:
        st.session_state[upload_key] = (uploaded.file_id, uploaded.name, uploaded.getvalue())
    if upload_key not in st.session_state:
        st.info("Choose a file. It stays on the machine of the app.")
        return None
    file_id, name, data = st.session_state[upload_key]
    if uploaded is None:
        st.caption(f"The current log is {escape_markdown(name)}, uploaded earlier.")
    try:
        reading = _reading(key)
        with st.spinner(f"Reading {escape_markdown(name)} …"):
            log = _read_upload(file_id, name, tuple(reading.items()), data)
        return LogSelection(log, None, (name, data), reading)
    except Exception as error:
        _refusal_buttons(key, error)
        return None


def _reading(key: str) -> dict[str, str]:
    with st.expander("Reading rules"):
        names = [f"{rule} = {choice}" for rule, choice in reading_choices()]
        rules = st.multiselect(
            "Rules other than the defaults", names, key=f"{key}-reading", persist_state="session",
            placeholder="none: jobs that never ran are dropped, anomalies are refused or noted",
            help="The documentation describes each rule, under *Rules for reading logs*.",
        )  # fmt: skip
    reading: dict[str, str] = {}
    for text in rules:
        rule, _, choice = text.partition(" = ")
        if rule in reading:
            raise DuplicateRuleError(rule)
        reading[rule] = choice
    return reading


class DuplicateRuleError(Exception):
    """Error for a reading rule that was selected in two fields."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"The rule {rule} is selected twice. Remove one.")


def _refusal_buttons(key: str, error: Exception) -> None:
    """Draw why a log cannot be read, with buttons for rules that would permit it."""
    text = str(error) if isinstance(error, DuplicateRuleError) else sentence(error)
    st.error(escape_markdown(text), icon=":material/error:")
    with st.container(horizontal=True):
        for rule, choice in reading_alternatives(error):
            name = f"{rule} = {choice}"
            st.button(
                f"Read it with {name}", key=f"{key}-way-{rule}", on_click=_add, args=(key, name)
            )


def _add(key: str, rule: str) -> None:
    state = st.session_state
    state[f"{key}-reading"] = [*state.get(f"{key}-reading", ()), rule]


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size


@st.cache_resource(max_entries=4, show_spinner=False)
def _read(
    path: str,
    stamp: tuple[int, int] | None,  # noqa: ARG001 - a part of the key
    reading: tuple[tuple[str, str], ...],
) -> Workload:
    return read_log(path, dict(reading))


@st.cache_resource(max_entries=4, show_spinner=False)
def _read_upload(
    file_id: str,  # noqa: ARG001 - a part of the key
    name: str,
    reading: tuple[tuple[str, str], ...],
    _data: bytes,
) -> Workload:
    return read_upload(name, _data, dict(reading))


@st.cache_resource(max_entries=1, show_spinner=False)
def _built_in() -> Workload:
    return built_in()
