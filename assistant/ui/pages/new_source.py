"""Step 1 of *New*: the application and its files; uploads are kept, as sweeps name them."""

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from assistant.core.errors import SettingsError
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_form import ClusterFields, Form, Measures, ProgramFields, Source
from assistant.ui.pages.new_sweep_file import FormFault, form_of, write_tables

MOST_BYTES = 200 * 2**20  # Largest upload; it is in memory while it is read

_FOLDER = "uploads"
_DIGITS = 12
_LONGEST = 80
_NOT_CLEAN = re.compile(r"[^A-Za-z0-9._-]+")


def clean_name(name: str) -> str:
    """Return a safe file name for any name that a browser sends.

    >>> clean_name("../../etc/my log.swf.gz"), clean_name("ü.csv"), clean_name("..")
    ('my_log.swf.gz', 'file.csv', 'file')
    """
    last = re.split(r"[/\\]", name)[-1]
    clean = _NOT_CLEAN.sub("_", last).lstrip("_-")[-_LONGEST:].rstrip(".")
    return clean if clean and clean[0].isalnum() else f"file{clean.lstrip('_-')}"


def keep_upload(store: Path, name: str, data: bytes) -> Path:
    """Store an uploaded file beside the store, readable only by its owner, and return its path.

    The name begins with a digest of the content, so that equal files are kept once and different
    files never overwrite each other. Raises SettingsError if the upload is empty or too large, or
    cannot be written.
    """
    if not data:
        raise SettingsError(f"the uploaded file '{clean_name(name)}' is empty")
    if len(data) > MOST_BYTES:
        raise SettingsError(
            f"the uploaded file '{clean_name(name)}' has {len(data) / 2**20:,.0f} MB, and at most "
            f"{MOST_BYTES // 2**20} MB are taken; put it on this machine and name its path"
        )
    folder = store.absolute().parent / _FOLDER
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    path = folder / f"{digest}-{clean_name(name)}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.is_symlink() and path.is_file() and path.read_bytes() == data:
            return path
        descriptor, part = tempfile.mkstemp(prefix=".part-", dir=folder)  # 0600
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
            Path(part).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(part).unlink()
            raise
    except OSError as error:
        raise SettingsError(f"cannot keep the upload in '{folder}': {error.strerror}") from error
    return path


SOURCES: Mapping[Source, str] = {
    "example": "Built-in example",
    "log": "Job log (SWF)",
    "platform": "AI platform",
    "table": "Measured table (CSV)",
    "command": "Own program",
    "function": "Python function",
    "file": "Sweep file (TOML)",
}
_SAYS: Mapping[Source, str] = {
    "example": "A generated job log on a cluster of 128 processors: which part should be kept for "
    "small jobs, which jobs are small, and in which order should jobs wait? Nothing to fill in.",
    "log": "Your own log in the Standard Workload Format, simulated: which part of the "
    "cluster is kept for small jobs, or which policy suits, is what can be asked.",
    "platform": "A simulated platform for AI pipelines: how large are its clusters, who is next, "
    "when is a deployed model trained again, and how good must it be? Nothing to fill in; the page "
    "*AI platform* sets another future.",
    "table": "Runs that are measured already, looked up instead of executed: parameter columns, "
    "then `objective`.",
    "command": "A program of your own. Each run starts it once with one level of every parameter, "
    "and reads what it prints.",
    "function": "A function of yours in a Python module, called once for each run.",
    "file": "Everything is said in the file: application, levels, goal, budget and strategy.",
}
_PATHS: Mapping[Source, tuple[str, str, tuple[str, ...]]] = {
    "log": ("Path of the log", "logs/your.swf.gz", ("swf", "gz", "txt")),
    "table": ("Path of the table", "measured.csv", ("csv",)),
    "file": ("Path of the sweep file", "sweep.toml", ("toml",)),
}
_MEASURES: Mapping[Measures, str] = {
    "usual": "the last line it prints, as JSON",
    "json": "all that it prints, as JSON",
    "file": "a JSON file that it writes",
    "pattern": "a pattern in what it prints",
    "last_line": "the last line it prints, as JSON",
}
_NOISY: Mapping[str, bool | None] = {
    "not known": None,
    "no, the same every time": False,
    "yes, from run to run": True,
}


def source_step(form: Form, beside: FieldMessages, store: Path) -> Form:
    """Draw the form step for the application and its source, and return the changed form."""
    source: Source = _source(form)
    if source != form.source:
        form = _switch_source(form, source)
    st.caption(_SAYS[source])
    if source in _PATHS:
        form = _path_fields(form, beside, store)
    if source == "log":
        form = replace(form, cluster=_reading(form.cluster, beside))
    if source == "platform" and form.extra_tables.get("application"):
        settings = ", ".join(
            f"{name} {value}" for name, value in form.extra_tables["application"].items()
        )
        st.caption(escape_markdown(f"Its future: {settings}; all else is as usual."))
    if source == "file":
        _to_fields(form)
    if source == "command":
        return replace(form, program=_command(form.program, beside))
    if source == "function":
        return replace(form, program=_function(form.program, beside))
    return form


def _source(form: Form) -> Source:
    key = "new-source"
    if key not in st.session_state:
        st.session_state[key] = form.source
    selected: Source = st.radio(
        "What shall be run", list(SOURCES), format_func=SOURCES.__getitem__, horizontal=True,
        key=key,
    )  # fmt: skip
    return selected


def _switch_source(form: Form, source: Source) -> Form:
    """Return the form with another source; each source keeps its own path.

    Settings of the old source that no field shows, such as how a log is read, are dropped.
    """
    paths: dict[str, tuple[str, str | None]] = st.session_state.setdefault("new-state-paths", {})
    paths[form.source] = (form.path, form.text)
    path, text = paths.get(source, ("", None))
    new_fields.put("new-path", path)
    extra_tables = {
        name: table for name, table in form.extra_tables.items() if name != "application"
    }
    return replace(form, source=source, path=path, text=text, extra_tables=extra_tables)


def _path_fields(form: Form, beside: FieldMessages, store: Path) -> Form:
    label, example, endings = _PATHS[form.source]
    fault = None
    uploaded = st.session_state.get(f"new-upload-{form.source}")
    upload_key = f"new-state-upload-{form.source}"
    if uploaded is not None and st.session_state.get(upload_key) != uploaded.file_id:
        st.session_state[upload_key] = uploaded.file_id
        try:
            form = _with_upload(form, store, uploaded)
        except FormFieldError as error:
            fault = FormFault("new-upload", str(error))
    path = new_fields.text("new-path", label, form.path, placeholder=example)
    if path != form.path:
        form = replace(form, path=path, text=None)
    beside.at("new-path")
    st.file_uploader(
        "or upload it", type=endings, key=f"new-upload-{form.source}",
        max_upload_size=MOST_BYTES // 2**20,
        help="Paths in an uploaded sweep file are relative to the folder that the app runs in."
        if form.source == "file"
        else f"It is kept in the folder uploads beside {store}.",
    )  # fmt: skip
    beside.at("new-upload")
    if fault is not None:
        beside.tell([fault], missing=True)
    if form.text is not None:
        st.caption("The uploaded file counts; a path typed above replaces it.")
    return form


def _with_upload(form: Form, store: Path, uploaded: Any) -> Form:
    """Return the form with an upload: a sweep file as text, another file by its path."""
    data = uploaded.getvalue()
    if form.source == "file":
        try:
            text = data.decode("utf-8-sig")
        except ValueError as error:
            raise FormFieldError("new-upload", "The uploaded file is not UTF-8 text.") from error
        new_fields.put("new-path", "")
        return replace(form, path="", text=text)
    try:
        path = str(keep_upload(store, uploaded.name, data))
    except Exception as error:
        raise FormFieldError("new-upload", sentence(error)) from error
    new_fields.put("new-path", path)
    return replace(form, path=path, text=None)


def _to_fields(form: Form) -> None:
    """Draw the button that converts a sweep file to fields, once it can be read."""
    draft_tables = write_tables(form)
    if draft_tables.faults:
        return
    pressed = st.button(
        "Change it in the fields", key="new-fields", icon=":material/edit:",
        help="Fills in the steps with what the file says; the file itself stays as it is.",
    )  # fmt: skip
    if not pressed:
        return
    as_fields = form_of(draft_tables.tables)
    if as_fields.source == "file":
        st.warning("It says what no field shows, so it is taken as it stands.")
        return
    new_fields.begin(as_fields)
    st.rerun()


def _reading(cluster: ClusterFields, beside: FieldMessages) -> ClusterFields:
    with st.expander("How the log is read"):
        with st.container(horizontal=True):
            first = new_fields.text(
                "new-first", "Only the first jobs", cluster.first, placeholder="all", width=240
            )
            below = new_fields.text(
                "new-small-job-below", "Small jobs ask for less than", cluster.small_job_below,
                placeholder="1h", width=240,
            )  # fmt: skip
            wait = new_fields.text(
                "new-small-job-wait", "and shall wait at most", cluster.small_job_wait,
                placeholder="3h", width=240,
            )  # fmt: skip
        beside.at("new-first", "new-small-job-below", "new-small-job-wait")
        with st.container(horizontal=True):
            too_wide = new_fields.choice(
                "new-too-wide", "A job that fits no partition", cluster.too_wide,
                ["reject", "clip"], width=370,
                format_func={
                    "reject": "is turned away", "clip": "runs narrower and longer",
                }.__getitem__,
            )  # fmt: skip
            overrun = new_fields.choice(
                "new-overrun", "A job that outlives its request", cluster.overrun,
                ["raise", "kill", "extend"], width=370,
                format_func={
                    "raise": "runs on, which is known", "kill": "is ended there",
                    "extend": "runs on, which nobody knew",
                }.__getitem__,
            )  # fmt: skip
    return replace(
        cluster, first=first, small_job_below=below, small_job_wait=wait, too_wide=too_wide,
        overrun=overrun,
    )  # fmt: skip


def _command(program: ProgramFields, beside: FieldMessages) -> ProgramFields:
    words = new_fields.area(
        "new-command", "The command", program.words, height=80,
        placeholder="./program --size={size} --mode {mode}",
        help="{name} is the level of a parameter, {seed} a number that differs from run to run, "
        "{scratch} an empty folder of the run's own. Quotes keep blanks together; there is no "
        "shell, so no pipes and no $VARIABLES.",
    )  # fmt: skip
    beside.at("new-command")
    folder = _folder(program, "Folder that it runs in")
    with st.container(horizontal=True):
        measures: Measures = new_fields.choice(
            "new-measures-how", "Its measures are", program.measures,
            [name for name in _MEASURES if name != _other(program.measures)],
            format_func=_MEASURES.__getitem__, width=370,
        )  # fmt: skip
        noisy = _varies(program)
    where, stream = program.where, program.stream
    if measures == "file":
        where = new_fields.text("new-where", "The file", where, placeholder="{scratch}/result.json")
    elif measures == "pattern":
        where = new_fields.area(
            "new-where", "Patterns, one a line", where, height=80,
            placeholder=r"time: (?P<time_ms>[0-9.]+)",
        )  # fmt: skip
        stream = new_fields.choice("new-stream", "looked for in", stream, ["stdout", "stderr"])
    else:
        st.caption(
            'For example the line {"time_ms": 12.5, "memory_mb": 310}. '
            "`wall_s`, the time of a run, is always there."
        )
    beside.at("new-measures")
    with st.expander("More: limit of a run, environment, standard input"):
        limit = new_fields.text(
            "new-limit", "Stop a run after", program.limit, placeholder="any time, or 1m"
        )
        beside.at("new-limit")
        environment = new_fields.area(
            "new-environment", "Environment, NAME=value, one a line", program.environment,
            height=80, placeholder="OMP_NUM_THREADS={threads}",
        )  # fmt: skip
        beside.at("new-environment")
        stdin = new_fields.area("new-stdin", "Standard input", program.stdin, height=80)
        unused = new_fields.tick(
            "new-unused", "A parameter may stand nowhere in the command", program.unused
        )
    return replace(
        program, words=words, folder=folder, measures=measures, where=where, stream=stream,
        noisy=noisy, limit=limit, environment=environment, stdin=stdin, unused=unused,
    )  # fmt: skip


def _other(measures: Measures) -> Measures:
    """Return which of the two names of the last line is not offered."""
    return "usual" if measures == "last_line" else "last_line"


def _function(program: ProgramFields, beside: FieldMessages) -> ProgramFields:
    function = new_fields.text(
        "new-function", "The function", program.function, placeholder="module:function",
        help="It is called with one level of every parameter by name, and with seed if it takes "
        "one; it returns a number, or a mapping of names to numbers.",
    )  # fmt: skip
    beside.at("new-function")
    folder = _folder(program, "Folder of the module")
    return replace(program, function=function, folder=folder, noisy=_varies(program))


def _folder(program: ProgramFields, label: str) -> str:
    return new_fields.text("new-folder", label, program.folder, placeholder=str(Path.cwd()))


def _varies(program: ProgramFields) -> bool | None:
    now = next(text for text, noisy in _NOISY.items() if noisy is program.noisy)
    selected = new_fields.choice(
        "new-noisy", "Results vary from run to run", now, list(_NOISY), width=370,
        help="If they do, the last runs of the budget confirm the winner.",
    )  # fmt: skip
    return _NOISY[selected]
