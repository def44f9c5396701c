"""Opening an experiment from what was filled in: every field checked before anything is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assistant import Application, Session, Store
from assistant.door import open_store
from assistant.ports import Result
from assistant.settings import Source, Sweep, build_sweep, check_settings, kind_of
from assistant.settings_objective import check_measures, objective_of
from assistant.sla import Automatic
from assistant.starting import open_sweep, own_configurations, past_results, recipe, take_over
from assistant.store import MemoryStore
from assistant.toml_text import toml_text
from assistant.ui.intents import FieldError, sentence
from assistant.ui.new.form import Form
from assistant.ui.new.writing import Fault, written
from strategies import Exclusion, Level, make_strategy

EXAMPLE = Form(runs=24, unattended=True)
"""What *Start the example* opens: a few dozen runs of milliseconds, steered by themselves."""

PLATFORM = Form("platform", runs=60, seed=0, unattended=True)
"""What *Start the AI platform* opens: a run simulates ten days in about half a second."""

START = "new-start"
"""The place of what belongs to no single field."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A new experiment and what it runs.

    Args:
        session: of the experiment, whose first runs wait.
        application: what is run.
        automatic: how it steers itself from its opening on; None leaves that to the person.
    """

    session: Session
    application: Application
    automatic: Automatic | None = None


def open_from(form: Form, store: Path) -> Opened:
    """Open a new experiment, with today's configuration as its first run.

    Raises:
        FieldError: the first thing that is wrong, with the field it belongs to; nothing is stored.
    """
    tables, built = built_from(form)
    settings = built.settings
    try:
        past, own = past_results(built), own_configurations(built)
        made_from = recipe(tables, own)
        _opened(built, form.full_name, MemoryStore(), past, own, made_from)  # a rehearsal
    except Exception as error:
        raise FieldError(_general(form), sentence(error)) from error
    kept = open_store(store, take_key=False)
    session = _opened(built, form.full_name, kept, past, own, made_from)
    automatic = Automatic(settings.batch, settings.initial, settings.advice)
    return Opened(session, built.application, automatic if form.unattended else None)


def _opened(
    built: Sweep,
    name: str,
    store: Store,
    past: Sequence[Result],
    own: Sequence[Mapping[str, Level]],
    made_from: str,
) -> Session:
    """Open, and take in the plan, past results, today's and the analyst's own configurations."""
    session = open_sweep(built, store, name, made_from)
    take_over(session, built, past, own, today=True)
    return session


def built_from(form: Form) -> tuple[Mapping[str, Any], Sweep]:
    """Return the tables of a sweep file and what they are when made real.

    A log or a table is read, and the module of a function is loaded.

    Raises:
        FieldError: the first field that is wrong.
    """
    told = written(form)
    if told.faults:
        raise FieldError(told.faults[0].place, told.faults[0].text)
    try:
        return told.tables, build_sweep(check_settings(told.tables, "the form"))
    except Exception as error:
        fault = blamed(form, told.tables, error)
        raise FieldError(fault.place, fault.text) from error


def preview(form: Form) -> str | None:
    """Return the sweep file that says what the form says; None while a field is at fault.

    ``copperline sweep`` takes it, from any folder.
    """
    told = written(form)
    return None if told.faults else toml_text(told.tables)


def _general(form: Form) -> str:
    return "new-path" if form.source == "file" else START


# -- which field it was ----------------------------------------------------------------------------


def blamed(
    form: Form, tables: Mapping[str, Any], error: Exception, source: Source | None = None
) -> Fault:
    """Return the field that keeps tables from being made real.

    They are built again without what could be at fault, and then that is put back piece by piece.

    Args:
        form: what was filled in.
        tables: that it says, without a fault of a field by itself.
        error: what building them raised.
        source: what the log or the table holds; it is read again if None.
    """
    general = Fault(_general(form), sentence(error))
    if form.source == "file":
        return general
    settings = check_settings(tables, "the form")
    try:
        make_strategy(settings.strategy.name, **settings.strategy.options)
    except Exception as fault:
        return Fault("new-strategy", sentence(fault))
    bare = _bare(form, tables)
    try:
        built = build_sweep(check_settings(bare, "the form"), source)
    except Exception as fault:
        return Fault(_place_of_application(form, bare, source), sentence(fault))
    return _blamed_beyond(form, tables, built) or general


def _bare(form: Form, tables: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("name", "seed", "application", "parameters")
    bare = {key: tables[key] for key in kept if key in tables}
    if form.is_own_program:
        bare["objective"] = {"minimise": "wall_s"}
    return bare


def _place_of_application(form: Form, bare: Mapping[str, Any], source: Source | None) -> str:
    """Return the field of the application that is at fault: the one without which it is well."""
    if form.source == "platform":
        return START
    if form.source in ("table", "log", "example"):
        application = bare["application"]
        for key, place in (
            ("levels", "new-levels"),
            ("options", "new-options"),
            ("today", "new-order"),
            ("procs", "new-procs"),
            ("futures", "new-futures"),
        ):
            less = {k: v for k, v in application.items() if k != key}
            if len(less) < len(application) and _is_well({**bare, "application": less}, source):
                return place
        return "new-path" if form.source != "example" else START
    return "new-command" if kind_of(bare["application"]) == "command" else "new-function"


def _is_well(tables: Mapping[str, Any], source: Source | None) -> bool:
    try:
        build_sweep(check_settings(tables, "the form"), source)
    except Exception:
        return False
    return True


def _blamed_beyond(form: Form, tables: Mapping[str, Any], built: Sweep) -> Fault | None:
    """Return which of conditions, goal, constraints and cost is at fault; None if none is."""
    settings, application, space = check_settings(tables, "x"), built.application, built.space
    for line in settings.exclude:
        try:
            space = space.excluding(Exclusion.parse(line))
            space.count_allowed()
        except Exception as fault:
            return Fault("new-exclude", f"In '{line}': {sentence(fault)}")
    wanted = settings.objective
    if wanted is not None:
        pieces = [("new-measure", wanted.model_copy(update={"constraints": [], "second": None}))]
        pieces.append(("new-second", wanted.model_copy(update={"constraints": []})))
        for bound, one in zip(form.wish.bounds, wanted.constraints, strict=True):
            alone = wanted.model_copy(update={"constraints": [one], "second": None})
            pieces.append((f"new-c{bound.uid}", alone))
        for place, piece in pieces:
            try:
                check_measures(objective_of(piece, application.objective), application)
                if form.is_own_program:
                    replace(application, objective=objective_of(piece, application.objective))  # type: ignore[type-var]
            except Exception as fault:
                return Fault(place, sentence(fault))
    try:
        settings.check_cost(application, space)
    except Exception as fault:
        return Fault("new-cost", sentence(fault))
    return None
