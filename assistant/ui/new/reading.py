"""A form from the tables of a sweep file: what *New* is filled in with, to change and to duplicate.

What no field shows stays in `Form.kept`. Where fields and tables would not mean the same, the form
is a sweep file as it stands: nothing is lost by being shown.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from assistant.settings import SweepSettings, check_settings, kind_of
from assistant.toml_text import toml_text
from assistant.ui.new.form import (
    Bound,
    Cluster,
    Foresight,
    Form,
    How,
    Kind,
    Program,
    Row,
    Source,
    Wish,
)
from assistant.ui.new.rows import KINDS
from assistant.ui.new.writing import written
from assistant.ui.steering.terms import Terms
from strategies import Level, StrategyError, make_strategy
from strategies.parameter import family_of

_PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_SHOWN = frozenset((
    "name", "runs", "deadline", "goal", "at_goal", "run_limit", "cost", "seed", "workers",
    "initial", "batch", "exploitation", "exclude", "application", "objective", "strategy",
    "parameters",
))  # fmt: skip
_SHOWN_OBJECTIVE = frozenset((
    "minimise", "maximise", "unit", "second", "second_goal", "constraints", "without",
))  # fmt: skip
_SHOWN_APPLICATION = frozenset((
    "kind", "log", "table", "first", "procs", "today", "levels", "small_job_below",
    "small_job_wait", "preset", "options", "too_wide", "overrun", "command", "cwd", "env", "stdin",
    "limit", "unused", "measures", "noisy", "function", "folder",
))  # fmt: skip


_SHOWN_FUTURES = frozenset(("generator", "count", "duration", "judge", "quantile"))


def form_of(tables: Mapping[str, Any]) -> Form:
    """Return a form that means what the tables of a sweep file say.

    Args:
        tables: of a sweep file or a recipe, with absolute paths.

    Raises:
        SettingsError: they are no sweep.
    """
    settings = check_settings(tables, "the sweep")
    try:
        make_strategy(settings.strategy.name, **settings.strategy.options)
    except StrategyError:
        return as_file(tables)  # fields hold what a strategy can have, and nothing else
    if settings.application.kind in ("flood", "maze", "placement", "rest"):
        return as_file(tables)  # the form has no fields for them
    found = _form(tables, settings)
    told = written(found)
    if not told.faults and _meaning(told.tables) == _meaning(tables):
        return found
    return as_file(tables)


def form_of_recipe(recipe: str, name: str) -> Form:
    """Return a form that opens an experiment again, under another name.

    Args:
        recipe: see `assistant.starting.recipe`.
        name: of the new experiment.

    Raises:
        SettingsError: it is no sweep.
    """
    tables = json.loads(recipe)
    tables = {k: v for k, v in tables.items() if not (k in ("run", "results") and v == [])}
    return form_of({**tables, "name": name})


def as_file(tables: Mapping[str, Any]) -> Form:
    """Return a form that is the sweep file itself."""
    return Form("file", text=toml_text(tables), name=str(tables.get("name", "")))


def _meaning(tables: Mapping[str, Any]) -> object:
    """Return what tables say, whichever way they say it."""
    settings = check_settings(tables, "the sweep")
    parameters = tuple(one.build() for one in settings.parameters)
    objective = settings.objective.model_dump() if settings.objective is not None else {}
    rest = settings.model_copy(update={"parameters": [], "name": "", "objective": None})
    return parameters, {k: v for k, v in objective.items() if v not in (None, [])}, rest


def _form(tables: Mapping[str, Any], settings: SweepSettings) -> Form:
    application = tables.get("application", {})
    source = _source(application)
    strategy = settings.strategy
    kept = {key: value for key, value in tables.items() if key not in _SHOWN}
    for key, shown in (("application", _SHOWN_APPLICATION), ("objective", _SHOWN_OBJECTIVE)):
        if key == "application" and _has_fields(application):
            shown |= {"futures"}
        rest = {k: v for k, v in tables.get(key, {}).items() if k not in shown}
        if rest:
            kept[key] = rest
    return Form(
        source=source,
        path=str(application.get("log", application.get("table", ""))),
        name=settings.name,
        runs=settings.runs,
        deadline=_text(tables.get("deadline")),
        terms=_terms(tables),
        strategy=strategy.name,
        options=strategy.options,
        seed=settings.seed,
        workers=settings.workers,
        program=_program(application),
        rows=_rows(tables.get("parameters", []), application.get("today")),
        cluster=_cluster(application) if source in ("example", "log") else Cluster(),
        exclude="\n".join(settings.exclude),
        wish=_wish(tables.get("objective", {}), kept.get("objective", {})),
        exploitation=settings.exploitation,
        initial=settings.initial,
        batch=settings.batch,
        kept=kept,
    )


def _source(application: Mapping[str, Any]) -> Source:
    kind = kind_of(application)
    if kind == "scheduling":
        return "log" if application.get("log") is not None else "example"
    sources: Mapping[str, Source] = {
        "lookup": "table", "command": "command", "function": "function", "ai_platform": "platform",
    }  # fmt: skip
    return sources[kind]


def _text(value: object) -> str:
    """Return a value as it would be typed; nothing is an empty field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _terms(tables: Mapping[str, Any]) -> Terms:
    cost = tables.get("cost", {})
    names = [one.name for one in fields(Terms)]
    texts = {name: _text(value) for name, value in cost.items() if name in names}
    return Terms(
        goal=_text(tables.get("goal")),
        go_on=tables.get("at_goal") == "go_on",
        run_limit=_text(tables.get("run_limit")),
        cost_limit=_text(cost.get("limit")),
        **texts,
    )


def _cluster(application: Mapping[str, Any]) -> Cluster:
    today = application.get("today", {})
    usual = Cluster()
    levels: Mapping[str, Sequence[Level]] = application.get("levels", {})
    return Cluster(
        preset=application.get("preset", usual.preset),
        first=_text(application.get("first")),
        procs=_text(application.get("procs")),
        order=today.get("order", usual.order),
        backfill=today.get("backfill", usual.backfill),
        small_job_below=_text(application.get("small_job_below")),
        small_job_wait=_text(application.get("small_job_wait")),
        too_wide=application.get("too_wide", usual.too_wide),
        overrun=application.get("overrun", usual.overrun),
        levels={name: tuple(map(_text, values)) for name, values in levels.items()},
        options={name: _text(value) for name, value in application.get("options", {}).items()},
        futures=_foresight(application),
    )


def _has_fields(application: Mapping[str, Any]) -> bool:
    """Whether fields can show the futures of an application."""
    futures = application.get("futures")
    return futures is not None and "generator" in futures and set(futures) <= _SHOWN_FUTURES


def _foresight(application: Mapping[str, Any]) -> Foresight:
    if not _has_fields(application):
        return Foresight()
    futures, usual = application["futures"], Foresight()
    return Foresight(
        futures["generator"],
        _text(futures.get("count", usual.count)),
        _text(futures.get("duration", usual.duration)),
        futures.get("judge", usual.judge),
        _text(futures.get("quantile")),
    )


def _program(application: Mapping[str, Any]) -> Program:
    measures = application.get("measures") or {}
    where = measures.get("file") or measures.get("pattern") or ""
    how: Any = "usual"
    if "stdout" in measures:
        how = measures["stdout"]
    elif where:
        how = "file" if "file" in measures else "pattern"
    return Program(
        words=" ".join(map(_quoted, application.get("command", []))),
        function=application.get("function", ""),
        folder=application.get("cwd", application.get("folder", "")),
        environment="\n".join(f"{k}={v}" for k, v in application.get("env", {}).items()),
        stdin=application.get("stdin", ""),
        limit=_text(application.get("limit")),
        measures=how,
        where=where if isinstance(where, str) else "\n".join(where),
        stream=measures.get("stream", "stdout"),
        noisy=application.get("noisy"),
        unused=application.get("unused", False),
        has_today=application.get("today") is not None,
    )


def _quoted(word: str) -> str:
    """Return an argument as it is typed; braces need no quotes, for no shell reads them."""
    return word if _PLAIN_WORD.fullmatch(word) else shlex.quote(word)


def _rows(
    parameters: Sequence[Mapping[str, Any]], today: Mapping[str, Level] | None
) -> tuple[Row, ...]:
    if not parameters:
        return (Row(),)
    return tuple(_row(uid, one, today or {}) for uid, one in enumerate(parameters))


def _row(uid: int, given: Mapping[str, Any], today: Mapping[str, Level]) -> Row:
    name = given["name"]
    how: How = "list"
    ends: Mapping[str, Any] = {}
    if given.get("range") is not None:
        how, ends = "steps", given["range"]
    elif given.get("logarithmic") is not None:
        how, ends = "ratio", given["logarithmic"]
    return Row(
        uid=uid,
        name=name,
        how=how,
        levels=tuple(map(_text, given.get("levels") or ())),
        low=_text(ends.get("low")),
        high=_text(ends.get("high")),
        step=_text(ends.get("step", ends.get("count"))),
        whole=bool(ends.get("integer", False)),
        kind=_kind(given),
        unit=given.get("unit", ""),
        description=given.get("description", ""),
        today=_text(today.get(name)),
    )


def _kind(given: Mapping[str, Any]) -> Kind:
    levels = given.get("levels") or [0]
    family, kind = family_of(levels[0]), given.get("kind")
    usual = "ordinal" if family == "number" else "nominal"
    wanted = (family, None if kind in (None, usual) else kind)
    return next(name for name, means in KINDS.items() if means == wanted)


def _wish(objective: Mapping[str, Any], kept: Mapping[str, Any]) -> Wish:
    measure, direction = "", "own"
    for name in ("minimise", "maximise"):
        if objective.get(name) is not None:
            measure, direction = objective[name], name
    if kept:
        direction = "kept"
    bounds = tuple(
        Bound(
            uid,
            one["measure"],
            _text(one.get("at_most")),
            _text(one.get("at_least")),
            one.get("label", ""),
        )
        for uid, one in enumerate(objective.get("constraints", []))
    )
    return Wish(
        direction=direction,  # type: ignore[arg-type]
        measure=measure,
        unit=objective.get("unit") or "",
        second=objective.get("second") or "",
        second_direction=objective.get("second_goal") or "minimise",
        bounds=bounds,
        without=tuple(objective.get("without", ())),
    )
