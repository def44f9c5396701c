"""Step 1 of the *New* page: the application and its files; uploads are stored for the sweep."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from assistant.applications.scheduling_presets import (
    DEFAULT_PRESET,
    LOG_PRESET,
    preset_of_log,
    presets_of_logs,
)
from assistant.core.errors import SettingsError
from assistant.core.files import write_atomically
from assistant.ui.bindings import label
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_form import Form, Measures, ProgramFields, Source
from assistant.ui.pages.new_sweep_file import FormFault, form_of, write_tables
from assistant.ui.state import put, seed_choice

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
            f"the uploaded file '{clean_name(name)}' has {len(data) / 2**20:,.0f} MB, but the "
            f"limit is {MOST_BYTES // 2**20} MB; copy it to this machine and enter its path"
        )
    folder = store.absolute().parent / _FOLDER
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    path = folder / f"{digest}-{clean_name(name)}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.is_symlink() and path.is_file() and path.read_bytes() == data:
            return path
    except OSError as error:
        raise SettingsError(f"cannot store the upload in '{folder}': {error.strerror}") from error
    write_atomically(path, data, raises=SettingsError, private=True)
    return path


SOURCES: Mapping[Source, str] = {
    "command": "My program",
    "log": "Job log",
    "function": "Python function",
    "table": "Measured table (CSV)",
    "file": "Sweep file (TOML)",
    "example": "Built-in example",
    "platform": "AI platform",
}
_SAYS: Mapping[Source, str] = {
    "example": "A generated job log on 128 processors. The sweep varies the part of the cluster "
    "kept for small jobs, the limit of a small job, and the queue order. Nothing to fill in.",
    "log": "A simulation of the jobs of your cluster: a log in the Standard Workload Format, or "
    "what `sacct --parsable2` printed. The sweep varies the policies.",
    "platform": "A simulated platform for AI pipelines. The sweep varies the cluster sizes, the "
    "queue order, when a deployed model is trained again, and how good it must be. Nothing to fill "
    "in; set another future on the page *AI platform*.",
    "table": "A table of measured runs: parameter columns, then `objective`. Results are looked "
    "up; no run is executed.",
    "command": "Each run starts your program once, with one level of every parameter.",
    "function": "Your own function in a Python module, called once for each run.",
    "file": "The file contains the application, levels, objective, budget and strategy.",
}
_PATHS: Mapping[Source, tuple[str, str, tuple[str, ...] | None]] = {
    "log": (label("application.log"), "dump.txt or logs/your.swf.gz", None),
    "table": (label("application.table", "lookup"), "measured.csv", ("csv",)),
    "file": ("Path of the sweep file", "sweep.toml", ("toml",)),
}
_MEASURES: Mapping[Measures, str] = {
    "usual": "the last line of its output",
    "json": "its whole output, as JSON",
    "file": "a JSON file that it writes",
    "pattern": "a pattern in its output",
    "last_line": "the last line of its output, needed in every run",
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
        form = _reading(form, beside)
    if source == "platform" and form.extra_tables.get("application"):
        settings = ", ".join(
            f"{name} {value}" for name, value in form.extra_tables["application"].items()
        )
        st.caption(escape_markdown(f"Its future: {settings}. Other settings have defaults."))
    if source == "file":
        _to_fields(form)
    if source == "command":
        return _command(form, beside)
    if source == "function":
        return replace(form, program=_function(form.program, beside))
    return form


def _source(form: Form) -> Source:
    key = "new-source"
    seed_choice(key, form.source)
    selected: Source = st.radio(
        "Application", list(SOURCES), format_func=SOURCES.__getitem__, horizontal=True,
        key=key,
    )  # fmt: skip
    return selected


def _switch_source(form: Form, source: Source) -> Form:
    """Return the form with another source; each source keeps its own path.

    Settings of the old source that no field shows, such as how a log is read, are dropped. An
    objective without a measure becomes that of the application.
    """
    paths: dict[str, tuple[str, str | None]] = st.session_state.setdefault("new-state-paths", {})
    paths[form.source] = (form.path, form.text)
    path, text = paths.get(source, ("", None))
    put("new-path", path)
    extra_tables = {
        name: table for name, table in form.extra_tables.items() if name != "application"
    }
    wish = form.wish
    if not wish.measure.strip() and wish.direction != "kept":
        wish = replace(wish, direction="own")
        new_fields.leave("new-direction")
    form = replace(form, source=source, path=path, text=text, extra_tables=extra_tables, wish=wish)
    if source == "log" and form.cluster.preset == DEFAULT_PRESET:
        return _with_question(_with_preset(form, LOG_PRESET))
    if source != "log" and form.cluster.preset in presets_of_logs():
        return _with_preset(form, DEFAULT_PRESET)
    return form


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
        form = _with_question(replace(form, path=path, text=None))
    beside.at("new-path")
    st.file_uploader(
        "or upload it", type=endings, key=f"new-upload-{form.source}",
        max_upload_size=MOST_BYTES // 2**20,
        help="Paths in an uploaded sweep file are relative to the folder that the app runs in."
        if form.source == "file"
        else f"The file is stored in the folder uploads beside {store}.",
    )  # fmt: skip
    beside.at("new-upload")
    if fault is not None:
        beside.tell([fault], missing=True)
    if form.text is not None:
        st.caption("The uploaded file is used. A path typed above replaces it.")
    return form


def _with_upload(form: Form, store: Path, uploaded: Any) -> Form:
    """Return the form with an upload: a sweep file as text, another file by its path."""
    data = uploaded.getvalue()
    if form.source == "file":
        try:
            text = data.decode("utf-8-sig")
        except ValueError as error:
            raise FormFieldError("new-upload", "The uploaded file is not UTF-8 text.") from error
        put("new-path", "")
        return replace(form, path="", text=text)
    try:
        path = str(keep_upload(store, uploaded.name, data))
    except Exception as error:
        raise FormFieldError("new-upload", sentence(error)) from error
    put("new-path", path)
    return _with_question(replace(form, path=path, text=None))


def _with_question(form: Form) -> Form:
    """Return the form with the question that belongs to its log, unless the user chose another.

    Only the beginning of the log is read.
    """
    if form.source != "log" or form.cluster.preset not in presets_of_logs():
        return form
    return _with_preset(form, preset_of_log(Path(form.path)) if form.path else LOG_PRESET)


def _with_preset(form: Form, preset: str) -> Form:
    """Return the form with a question; another question begins with its own levels."""
    if preset == form.cluster.preset:
        return form
    for fields in ("new-preset", "new-level-"):
        new_fields.leave(fields)
    return replace(form, cluster=replace(form.cluster, preset=preset, levels=None))


def _to_fields(form: Form) -> None:
    """Draw the button that converts a sweep file to fields, once it can be read."""
    draft_tables = write_tables(form)
    if draft_tables.faults:
        return
    pressed = st.button(
        "Edit it in the fields", key="new-fields", icon=":material/edit:",
        help="Fills in the steps from the file. The file itself does not change.",
    )  # fmt: skip
    if not pressed:
        return
    as_fields = form_of(draft_tables.tables)
    if as_fields.source == "file":
        st.warning("The file has settings without a field, so it is used unchanged.")
        return
    new_fields.begin(as_fields)
    st.rerun()


_TOO_WIDE = {"reject": "is rejected", "clip": "runs narrower and longer"}
_OVERRUN = {
    "raise": "runs on, known in advance", "kill": "is killed at the limit",
    "extend": "runs on, not known in advance",
    "extend_at_events": "the same, seen when a job comes or ends",
}  # fmt: skip
_DEPENDENCIES = {
    "ignore": "are submitted as in the log",
    "logged": "follow the job that the log names",
    "sessions": "follow the batch before of the user's session",
}


def _reading(form: Form, beside: FieldMessages) -> Form:
    with st.expander("How the log is read"):
        with st.container(horizontal=True):
            form = new_fields.bound(form, "application.first", placeholder="all", width=240)
            for path in ("application.small_job_below", "application.small_job_wait"):
                form = new_fields.bound(form, path, width=240)
        beside.at("new-first", "new-small-job-below", "new-small-job-wait")
        with st.container(horizontal=True):
            form = new_fields.bound(form, "application.too_wide", words=_TOO_WIDE, width=370)
            form = new_fields.bound(form, "application.overrun", words=_OVERRUN, width=370)
        form = new_fields.bound(form, "application.dependencies", words=_DEPENDENCIES, width=370)
        form = new_fields.bound(form, "application.accounts", width=755)
        beside.at("new-accounts")
    return form


def _command(form: Form, beside: FieldMessages) -> Form:
    program = form.program
    words = new_fields.area(
        "new-command", label("application.command", "command"), program.words, height=80,
        placeholder="./program --size={size} --mode {mode}",
        help="{name} is the level of a parameter, {seed} a number that differs from run to run, "
        "{scratch} an empty folder for the run. Quotes keep spaces together. There is no shell, "
        "so pipes and $VARIABLES do not work.",
    )  # fmt: skip
    beside.at("new-command", "new-limit", "new-environment", "new-measures")
    st.caption(
        "The last line of its output is the result: `12.5`, `time_ms: 12.5` or "
        '`{"time_ms": 12.5}`. `wall_s`, the duration of a run, is always measured.'
    )
    usual = ProgramFields(words=program.words)
    with st.expander("More: folder, output, run limit, environment", expanded=program != usual):
        folder = _folder(program, label("application.cwd", "command"))
        with st.container(horizontal=True):
            measures: Measures = new_fields.choice(
                "new-measures-how", "Source of the measures", program.measures,
                [name for name in _MEASURES if name != _other(program.measures)],
                format_func=_MEASURES.__getitem__, width=370,
            )  # fmt: skip
            noisy = _varies(program)
        where, stream = program.where, program.stream
        if measures == "file":
            where = new_fields.text(
                "new-where",
                label("application.measures.file", "command"),
                where,
                placeholder="{scratch}/result.json",
            )
        elif measures == "pattern":
            where = new_fields.area(
                "new-where", label("application.measures.pattern", "command"), where, height=80,
                placeholder=r"time: (?P<time_ms>[0-9.]+)",
            )  # fmt: skip
            stream = new_fields.choice(
                "new-stream",
                label("application.measures.stream", "command"),
                stream,
                ["stdout", "stderr"],
            )
        form = new_fields.bound(form, "application.limit")
        environment = new_fields.area(
            "new-environment", label("application.env", "command"), program.environment,
            height=80, placeholder="OMP_NUM_THREADS={threads}",
        )  # fmt: skip
        stdin = new_fields.area(
            "new-stdin", label("application.stdin", "command"), program.stdin, height=80
        )
        form = new_fields.bound(form, "application.unused")
    program = replace(
        form.program, words=words, folder=folder, measures=measures, where=where, stream=stream,
        noisy=noisy, environment=environment, stdin=stdin,
    )  # fmt: skip
    return replace(form, program=program)


def _other(measures: Measures) -> Measures:
    """Return which of the two names of the last line is not offered."""
    return "usual" if measures == "last_line" else "last_line"


def _function(program: ProgramFields, beside: FieldMessages) -> ProgramFields:
    function = new_fields.text(
        "new-function", label("application.function", "function"), program.function,
        placeholder="module:function",
        help="Each run calls it with one level of every parameter by name, and with seed if it has "
        "that argument. It returns a number, or a mapping of names to numbers.",
    )  # fmt: skip
    beside.at("new-function")
    folder = _folder(program, label("application.folder", "function"))
    return replace(program, function=function, folder=folder, noisy=_varies(program))


def _folder(program: ProgramFields, label: str) -> str:
    return new_fields.text("new-folder", label, program.folder, placeholder=str(Path.cwd()))


def _varies(program: ProgramFields) -> bool | None:
    now = next(text for text, noisy in _NOISY.items() if noisy is program.noisy)
    selected = new_fields.choice(
        "new-noisy", label("application.noisy", "command"), now, list(_NOISY), width=370,
        help="If they do, the last runs of the budget confirm the best configuration.",
    )  # fmt: skip
    return _NOISY[selected]
