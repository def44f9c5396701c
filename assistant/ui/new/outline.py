"""What a form comes to while it is filled in: its space, and what a log or a table says.

Logs are long to read, so what was read of the same file is kept for a while.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from assistant.settings import Source, Sweep, build_sweep, check_settings, kind_of, read_source
from assistant.ui.new.form import Form
from assistant.ui.new.opening import blamed
from assistant.ui.new.rows import parameter_of
from assistant.ui.new.writing import Fault, written
from strategies import Exclusion, ParameterSpace

_KEPT = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a form.

    Args:
        tables: of the sweep file.
        faults: what is wrong, field by field; empty if it could be opened.
        space: what can be set; None while it is not known.
        built: the sweep made real; None if a field is at fault, and for a function of one's own,
            which is loaded when it is tried or started only.
    """

    tables: Mapping[str, Any]
    faults: tuple[Fault, ...]
    space: ParameterSpace | None
    built: Sweep | None

    @property
    def size_words(self) -> str:
        """Say how large the space is."""
        if self.space is None:
            return "The size of the space is not known yet."
        n = len(self.space.parameters)
        text = f"{self.space.size:,} combinations of {n} parameter{'' if n == 1 else 's'}"
        allowed = self.space.count_allowed()
        if allowed is None:
            return f"{text}, some of them excluded."
        return f"{text}{'' if allowed == self.space.size else f', {allowed:,} allowed'}."

    @property
    def too_small(self) -> str:
        """Say why nothing can be varied; empty if something can."""
        allowed = None if self.space is None else self.space.count_allowed()
        if allowed is None or allowed > 1:
            return ""
        told = "No combination is" if allowed == 0 else "Only one combination is"
        text = f"{told} allowed, so there is nothing to try: add levels, or exclude less."
        if kind_of(self.tables.get("application", {})) != "scheduling":
            return text
        return (
            f"{text} Where the widest job of a log fills the whole cluster, no part of it can be "
            "kept for others: let such jobs run narrower (*How the log is read*), name more "
            "processors, or vary the order."
        )


def outline(form: Form) -> Outline:
    """Return what a form comes to; logs and tables are read, programs are not started."""
    told = written(form)
    space = _own_space(form, told.tables)
    if told.faults or kind_of(told.tables.get("application", {})) == "function":
        return Outline(told.tables, told.faults, space, None)
    made, source = _sweep(told.tables)
    if isinstance(made, Sweep):
        return Outline(told.tables, (), made.space, made)
    return Outline(told.tables, (blamed(form, told.tables, made, source),), space, None)


def plain_application(form: Form) -> Sweep | None:
    """Return what a log or a table is by itself, with computed levels; None while it cannot be."""
    told = written(form)
    application = dict(told.tables.get("application", {}))
    for name in ("levels", "options", "today"):  # the latter only where they are at fault
        application.pop(name, None)
        made, _ = _sweep({"seed": form.seed, "application": application})
        if isinstance(made, Sweep):
            return made
    return None


def _own_space(form: Form, tables: Mapping[str, Any]) -> ParameterSpace | None:
    """Return the space of a program of one's own, as far as its parameters are well said."""
    try:
        if form.is_own_program:
            space = ParameterSpace(tuple(parameter_of(row)[1] for row in form.rows))
        elif form.source == "file":
            settings = check_settings(tables, "x")
            space = ParameterSpace(tuple(one.build() for one in settings.parameters))
        else:
            return None
        for line in tables.get("exclude", []):
            space = space.excluding(Exclusion.parse(line))
        space.count_allowed()
    except Exception:
        return None  # said beside the field
    return space


def _sweep(tables: Mapping[str, Any]) -> tuple[Sweep | Exception, Source | None]:
    """Return the sweep that tables say, or why there is none; and what was read for it."""
    source = None
    try:
        settings = check_settings(tables, "the form")
        application = tables.get("application", {})
        if kind_of(application) in ("scheduling", "lookup"):
            told = {k: application[k] for k in _OF_SOURCE if k in application}
            seed = {} if len(told) > 1 else {"seed": settings.seed}  # of the generated workload
            named = {**seed, "application": told}
            source = _source(json.dumps(named), _stamp(application))
        return build_sweep(settings, source), source
    except Exception as error:
        return error, source


_OF_SOURCE = ("kind", "log", "table", "first", "reading")
"""What decides what is read; everything else is quick to change."""


@st.cache_resource(max_entries=_KEPT, show_spinner="Reading what is named …")
def _source(
    tables: str,
    stamp: tuple[str, int, int] | None,  # noqa: ARG001 - a part of the key
) -> Source | None:
    """Return what a log or a table holds. Raises what is wrong with it."""
    return read_source(check_settings(json.loads(tables), "the form"))


def _stamp(application: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """Return what tells that a named file has changed."""
    path = application.get("log") or application.get("table")
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return (path, 0, int(time.time()))  # it may be there the next time
    return (path, found.st_mtime_ns, found.st_size)
