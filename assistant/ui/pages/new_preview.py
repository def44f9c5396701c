"""The experiment that a form describes: a preview while the form is filled, and its opening."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from assistant.applications import application_entry
from assistant.config.models import check_measures, objective_of
from assistant.config.snapshot import (
    config_snapshot,
    import_past_runs,
    initial_configurations,
    open_sweep,
    past_results,
)
from assistant.config.sweep_file import (
    BuiltSweep,
    SweepSource,
    build_sweep,
    check_settings,
    kind_of,
    read_source,
    toml_text,
)
from assistant.core.files import is_there
from assistant.core.ports import Application, Result, Store
from assistant.core.sla import AutoSteering
from assistant.service.store_connection import open_store
from assistant.session.opening import earlier_sweeps, similar_experiment
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.pages.new_form import ClusterFields, Form, ObjectiveFields, parameter_of
from assistant.ui.pages.new_sweep_file import FormFault, write_tables
from strategies import (
    EarlierSweep,
    Exclusion,
    Level,
    ParameterSpace,
    make_strategy,
    strategy_entry,
    strategy_names,
)

EXAMPLE = Form(
    name="example",
    runs=40,
    seed=3,
    strategy="copper",
    unattended=True,
    warnings="wait",
    wish=ObjectiveFields(without=("small_jobs_max_wait_s",)),
    cluster=ClusterFields(
        procs="88",
        levels={
            "order": ("fcfs", "sjf", "saf", "lxf"),
            "backfill": ("easy", "conservative", "none"),
        },
    ),
)
"""*Start the example*: its gain goes on after the first runs, and it asks twice what to do."""

EXAMPLE_COURSE = (
    2640, 1793, 4689, 2165, 2378, 6099, 1789, 2542, 3510, 1744, 6434, 1528, 1556, 1528, 1528, 1499,
    1740, 1593, 1537, 1640, 7419, 1784, 1492, 2057, 2092, 1478, 1640, 1569, 1535, 1504, 1448, 2110,
    1474, 1508, 1982, 1552, 1538, 1556, 2127, 1601,
)  # fmt: skip
"""Results of the example's runs in seconds, the current configuration first, where both warnings
were accepted; for its picture, which is there before anything runs."""

START = "new-start"


@dataclass(frozen=True, slots=True)
class NewExperiment:
    """Newly opened experiment: session, application and auto-steering (None for manual)."""

    session: Session
    application: Application
    auto_steering: AutoSteering | None = None


def open_from(form: Form, store: Path) -> NewExperiment:
    """Open an experiment from a form, with the baseline as its first run.

    Raises FormFieldError for the first wrong field; nothing is stored then.
    """
    tables, built = build_form(form)
    settings = built.settings
    try:
        past, configurations = past_results(built), initial_configurations(built)
        made_from = config_snapshot(tables, configurations)
        earlier = _earlier(built, store)
        # opened in memory first, to find faults
        _open_session(
            built, form.full_name, MemoryStore(), past, configurations, made_from, earlier
        )
    except Exception as error:
        raise FormFieldError(_general(form), sentence(error)) from error
    target = open_store(store, take_key=False)
    session = _open_session(built, form.full_name, target, past, configurations, made_from, earlier)
    auto_steering = AutoSteering(settings.batch, settings.initial, settings.warnings)
    return NewExperiment(session, built.application, auto_steering if form.unattended else None)


def _earlier(built: BuiltSweep, store: Path) -> tuple[EarlierSweep, ...]:
    """Return what a sweep learns from the stored experiments that its settings name."""
    named = built.settings.learn_from
    if not named:
        return ()
    with closing(open_store(store, take_key=False)) as opened:
        return earlier_sweeps(opened, named, built.objective)


def similar_words(form: Form, store: Path, space: ParameterSpace | None) -> str:
    """Return a sentence on a stored experiment with the form's parameters; "" without one."""
    known = form.strategy in strategy_names() and strategy_entry(form.strategy).learns
    if form.learn_from.strip() or space is None or not known or not is_there(store):
        return ""
    with closing(open_store(store, take_key=False)) as opened:
        similar = similar_experiment(opened, space)
    if similar is None:
        return ""
    return f"Experiment {similar.id} has the same parameters; its results may guide this search."


def _open_session(
    built: BuiltSweep,
    name: str,
    store: Store,
    past: Sequence[Result],
    configurations: Sequence[Mapping[str, Level]],
    made_from: Mapping[str, Any],
    earlier: tuple[EarlierSweep, ...],
) -> Session:
    """Open a session; import past results, submit the baseline and the listed runs."""
    session = open_sweep(built, store, name, made_from, earlier)
    import_past_runs(session, built, past, configurations, baseline=True)
    return session


def build_form(form: Form) -> tuple[Mapping[str, Any], BuiltSweep]:
    """Return the settings tables of a form, as in a sweep file, and the sweep built from them.

    It reads a log or a table, and imports the module of a function. Raises FormFieldError for the
    first wrong field.
    """
    draft_tables = write_tables(form)
    if draft_tables.faults:
        raise FormFieldError(draft_tables.faults[0].place, draft_tables.faults[0].text)
    try:
        return draft_tables.tables, build_sweep(check_settings(draft_tables.tables, "the form"))
    except Exception as error:
        fault = fault_of(form, draft_tables.tables, error)
        raise FormFieldError(fault.place, fault.text) from error


def preview(form: Form) -> str | None:
    """Return the sweep file of a form as text, or None while a field has an error."""
    draft_tables = write_tables(form)
    return None if draft_tables.faults else toml_text(draft_tables.tables)


def _general(form: Form) -> str:
    return "new-path" if form.source == "file" else START


def fault_of(
    form: Form, tables: Mapping[str, Any], error: Exception, source: SweepSource | None = None
) -> FormFault:
    """Return the form field that caused an error in building the sweep, with a message.

    It builds the tables without all suspected parts, and then puts them back one by one. Without
    ``source`` it reads the log or the table again.
    """
    general = FormFault(_general(form), sentence(error))
    if form.source == "file":
        return general
    settings = check_settings(tables, "the form")
    try:
        make_strategy(settings.strategy.name, **settings.strategy.options)
    except Exception as fault:
        return FormFault("new-strategy", sentence(fault))
    bare = _bare(form, tables)
    try:
        built = build_sweep(check_settings(bare, "the form"), source)
    except Exception as fault:
        return FormFault(_place_of_application(form, bare, source), sentence(fault))
    return _fault_beyond_application(form, tables, built) or general


def _bare(form: Form, tables: Mapping[str, Any]) -> dict[str, Any]:
    general_keys = ("name", "seed", "application", "parameters")
    bare = {key: tables[key] for key in general_keys if key in tables}
    if form.is_own_program:
        bare["objective"] = {"minimise": "wall_s"}
    return bare


def _place_of_application(form: Form, bare: Mapping[str, Any], source: SweepSource | None) -> str:
    """Return the field of the application without which the sweep can be built."""
    if form.source == "platform":
        return START
    if form.source in ("table", "log", "example"):
        application = bare["application"]
        for key, place in (
            ("levels", "new-levels"),
            ("options", "new-options"),
            ("baseline", "new-order"),
            ("procs", "new-procs"),
            ("futures", "new-futures"),
        ):
            less = {k: v for k, v in application.items() if k != key}
            if len(less) < len(application) and _is_well({**bare, "application": less}, source):
                return place
        return "new-path" if form.source != "example" else START
    return _PLACES.get(kind_of(bare["application"]), "new-function")


_PLACES = {"command": "new-command", "function": "new-function"}
"""Main field of each program of the user that the form has fields for."""


def _is_well(tables: Mapping[str, Any], source: SweepSource | None) -> bool:
    try:
        build_sweep(check_settings(tables, "the form"), source)
    except Exception:
        return False
    return True


def _fault_beyond_application(
    form: Form, tables: Mapping[str, Any], built: BuiltSweep
) -> FormFault | None:
    """Return the fault of conditions, objective, constraints or cost; None without one."""
    settings, application, space = check_settings(tables, "x"), built.application, built.space
    for line in settings.exclude:
        try:
            space = space.excluding(Exclusion.parse(line))
            space.check_not_empty()
        except Exception as fault:
            return FormFault("new-exclude", f"In '{line}': {sentence(fault)}")
    objective = settings.objective
    if objective is not None:
        pieces = [("new-measure", objective.model_copy(update={"constraints": [], "second": None}))]
        pieces.append(("new-second", objective.model_copy(update={"constraints": []})))
        for bound, constraint in zip(form.wish.bounds, objective.constraints, strict=True):
            alone = objective.model_copy(update={"constraints": [constraint], "second": None})
            pieces.append((f"new-c{bound.uid}", alone))
        for place, piece in pieces:
            try:
                check_measures(objective_of(piece, application.objective), application)
                if form.is_own_program:
                    replace(application, objective=objective_of(piece, application.objective))  # type: ignore[type-var]
            except Exception as fault:
                return FormFault(place, sentence(fault))
    try:
        settings.check_cost(application, space)
    except Exception as fault:
        return FormFault("new-cost", sentence(fault))
    return None


_KEPT = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """Preview of a form: the sweep as far as it can be built, and the errors of the fields.

    Args:
        faults: faults of the fields; empty if the experiment could be opened.
        space: parameter space; None while it is unknown.
        built: the sweep; None if a field is at fault, and for a user function, which is imported
            only for a dry run or at the start.
    """

    tables: Mapping[str, Any]
    faults: tuple[FormFault, ...]
    space: ParameterSpace | None
    built: BuiltSweep | None

    @property
    def size_words(self) -> str:
        """Size of the parameter space, in words."""
        if self.space is None:
            return "The size of the space is not known yet."
        n = len(self.space.parameters)
        text = f"{self.space.n_combinations:,} combinations of {n} parameter{'' if n == 1 else 's'}"
        allowed = self.space.count_allowed()
        if allowed is None:
            return f"{text}, some of them excluded."
        return f"{text}{'' if allowed == self.space.n_combinations else f', {allowed:,} allowed'}."

    @property
    def too_small(self) -> str:
        """Reason why no parameter can be varied, or empty if one can."""
        allowed = None if self.space is None else self.space.count_allowed()
        if allowed is None or allowed > 1:
            return ""
        count_text = "No combination is" if allowed == 0 else "Only one combination is"
        text = f"{count_text} allowed, so there is nothing to try: add levels, or exclude less."
        return text + _ADVICE.get(kind_of(self.tables.get("application", {})), "")


_ADVICE = {
    "scheduling": " If the widest job of a log needs the whole cluster, no part of it can be kept "
    "for other jobs. Let such jobs run narrower (*How the log is read*), enter more processors, or "
    "vary the order."
}
"""More advice where nothing can be varied, by the kind of the application."""


def outline(form: Form) -> Outline:
    """Return the preview of a form; it reads logs and measured tables but starts no program."""
    draft_tables = write_tables(form)
    space = _own_space(form, draft_tables.tables)
    entry = application_entry(kind_of(draft_tables.tables.get("application", {})))
    if draft_tables.faults or (entry is not None and entry.loads_code):
        return Outline(draft_tables.tables, draft_tables.faults, space, None)
    built, source = _sweep(draft_tables.tables)
    if isinstance(built, BuiltSweep):
        return Outline(draft_tables.tables, (), built.space, built)
    return Outline(
        draft_tables.tables, (fault_of(form, draft_tables.tables, built, source),), space, None
    )


def plain_application(form: Form) -> BuiltSweep | None:
    """Return the sweep of a form's application with default levels, or None if invalid."""
    draft_tables = write_tables(form)
    application = dict(draft_tables.tables.get("application", {}))
    for name in ("levels", "options", "baseline"):  # ``baseline`` only where it is at fault
        application.pop(name, None)
        built, _ = _sweep({"seed": form.seed, "application": application})
        if isinstance(built, BuiltSweep):
            return built
    return None


def _own_space(form: Form, tables: Mapping[str, Any]) -> ParameterSpace | None:
    try:
        if form.is_own_program:
            space = ParameterSpace(tuple(parameter_of(row)[1] for row in form.rows))
        elif form.source == "file":
            settings = check_settings(tables, "x")
            space = ParameterSpace(tuple(parameter.build() for parameter in settings.parameters))
        else:
            return None
        for line in tables.get("exclude", []):
            space = space.excluding(Exclusion.parse(line))
        space.count_allowed()
    except Exception:
        return None  # the message is drawn beside the field
    return space


def _sweep(tables: Mapping[str, Any]) -> tuple[BuiltSweep | Exception, SweepSource | None]:
    """Return the sweep built from tables, or the error; and the content of its source."""
    source = None
    try:
        settings = check_settings(tables, "the form")
        application = tables.get("application", {})
        if {"log", "table"} & type(settings.application).model_fields.keys():
            source_settings = {k: application[k] for k in _OF_SOURCE if k in application}
            # the generated workload depends on the seed
            seed = {} if len(source_settings) > 1 else {"seed": settings.seed}
            key_settings = {**seed, "application": source_settings}
            source = _source(json.dumps(key_settings), _stamp(application))
        return build_sweep(settings, source), source
    except Exception as error:
        return error, source


_OF_SOURCE = ("kind", "log", "table", "first", "reading")
"""Settings that decide what is read; all others are quick to change."""


@st.cache_resource(max_entries=_KEPT, show_spinner="Reading the files …")
def _source(
    tables: str,
    stamp: tuple[str, int, int] | None,  # noqa: ARG001 - a part of the key
) -> SweepSource | None:
    return read_source(check_settings(json.loads(tables), "the form"))


def _stamp(application: Mapping[str, Any]) -> tuple[str, int, int] | None:
    path = application.get("log") or application.get("table")
    if path is None:
        return None
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return (path, 0, int(time.time()))  # the file may appear later
    return (path, stat.st_mtime_ns, stat.st_size)
