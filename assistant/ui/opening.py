"""Opening an experiment from what was filled in: every field checked before anything is stored."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from assistant import Application, Session, Store
from assistant.door import open_store
from assistant.errors import SettingsError
from assistant.ports import Result
from assistant.results import read_results
from assistant.settings import Sweep, build_sweep, check_settings, read_settings
from assistant.starting import open_sweep, recipe
from assistant.store import MemoryStore
from assistant.ui.intents import FieldError, sentence
from assistant.ui.terms import Terms, check_field
from strategies import DEFAULT_STRATEGY, Level

Source = Literal["example", "log", "table", "file"]


@dataclass(frozen=True, slots=True)
class Form:
    """What was filled in, as it was typed. A sweep file says everything itself.

    Args:
        source: what is run.
        path: of the log, the table or the sweep file.
        text: an uploaded sweep file; wins over the path.
        name: of the experiment; made from the source if empty.
        runs: budget of runs.
        deadline: time from now, such as ``30m``; none if empty.
        terms: the other terms of the agreement.
        strategy: a registered name, with its ``options``.
        options: of the strategy.
        seed: of every random choice.
        workers: runs at once.
    """

    source: Source = "example"
    path: str = ""
    text: str | None = None
    name: str = ""
    runs: int = 40
    deadline: str = ""
    terms: Terms = field(default_factory=Terms)
    strategy: str = DEFAULT_STRATEGY
    options: Mapping[str, Level] = field(default_factory=dict)
    seed: int = 3
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Opened:
    """A new experiment and what it runs."""

    session: Session
    application: Application


def open_from(form: Form, store: Path) -> Opened:
    """Open a new experiment, with today's configuration as its first run.

    Raises:
        FieldError: the first thing that is wrong, with the field it belongs to; nothing is stored.
    """
    tables, built = _built(form)
    settings = built.settings
    try:
        past = [r for path in settings.results for r in read_results(Path(path), built.space)]
        own = [{**dict(built.application.baseline or {}), **values} for values in settings.run]
        for values in own:
            built.space.check(built.space.from_values(values))
    except Exception as error:
        raise FieldError(_PLACES[form.source], sentence(error)) from error
    made_from = recipe(tables, own)
    try:
        _opened(built, _name(form), MemoryStore(), past, own, made_from)  # a rehearsal
    except Exception as error:
        raise FieldError(_PLACES[form.source], sentence(error)) from error
    session = _opened(built, _name(form), open_store(store, take_key=False), past, own, made_from)
    return Opened(session, built.application)


def _opened(
    built: Sweep,
    name: str,
    store: Store,
    past: list[Result],
    own: list[dict[str, Level]],
    made_from: str,
) -> Session:
    """Open, and take in the plan, past results, today's and the analyst's own configurations."""
    session = open_sweep(built, store, name, made_from)
    session.import_results(past, replicates=built.settings.replicates)
    session.submit_baseline()
    for values in own:
        if session.experiment.space.from_values(values) not in {
            run.configuration for run in session.experiment.runs
        }:
            session.include(values)
    return session


_PLACES: Mapping[Source, str] = {
    "example": "start", "log": "start-log", "table": "start-table", "file": "start-file",
}  # fmt: skip


def _built(form: Form) -> tuple[dict[str, Any], Sweep]:
    place = _PLACES[form.source]
    try:
        tables = _tables(form)
        settings = check_settings(tables, "the form" if form.source != "file" else "the sweep file")
    except FieldError:
        raise
    except Exception as error:
        raise FieldError(place, sentence(error)) from error
    try:
        built = build_sweep(settings.model_copy(update={"cost": None}))
    except Exception as error:
        raise FieldError(place, sentence(error)) from error
    try:
        settings.check_cost(built.application, built.space)
    except Exception as error:  # of the cost, which has a field of its own in the form
        cost = "start-file" if form.source == "file" else "start-cost"
        raise FieldError(cost, sentence(error)) from error
    return tables, replace(built, settings=settings)


def _tables(form: Form) -> dict[str, Any]:
    """Return the tables of a sweep file that says what the form says."""
    if form.source == "file":
        return _file_tables(form)
    tables: dict[str, Any] = {
        "name": form.name.strip(),
        "runs": form.runs,
        "seed": form.seed,
        "workers": form.workers,
        "strategy": {"name": form.strategy, **form.options},
    }
    if form.deadline.strip():
        tables["deadline"] = form.deadline.strip()
        hint = "A time from now is wanted, such as 90s, 30m or 2h; empty for none."
        check_field("start-deadline", {"deadline": tables["deadline"]}, hint)
    tables |= form.terms.tables("start")
    if form.source == "example":
        tables["application"] = {"kind": "scheduling", "levels": {"order": ["fcfs", "sjf"]}}
        return tables
    if not form.path.strip():
        what = "the job log (SWF, also .gz)" if form.source == "log" else "the table (CSV)"
        raise FieldError(_PLACES[form.source], f"Name the path of {what}.")
    path = str(Path(form.path.strip()).expanduser())
    if form.source == "log":
        tables["application"] = {"kind": "scheduling", "log": path}
    else:
        tables["application"] = {"kind": "lookup", "table": path}
    return tables


def _file_tables(form: Form) -> dict[str, Any]:
    if form.text is not None:
        try:
            return tomllib.loads(form.text)
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"the uploaded sweep file is not TOML: {error}") from error
    if not form.path.strip():
        raise FieldError("start-file", "Name the path of a sweep file, or upload one.")
    return read_settings(Path(form.path.strip()).expanduser())


def _name(form: Form) -> str:
    if form.source == "example":
        return "built-in example"
    return Path(form.path).name.split(".")[0] if form.path.strip() else "sweep"
