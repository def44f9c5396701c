"""Options of the command line laid over the tables of a sweep file."""

from pathlib import Path
from typing import Any

from assistant.errors import SettingsError
from assistant.settings import Sweep
from strategies import Level


def merge_options(
    tables: dict[str, Any],
    *,
    log: Path | None,
    table: Path | None,
    first: int | None,
    procs: str | None,
    order: str | None,
    backfill: str | None,
    levels: list[str],
    reading: list[str],
    too_wide: str | None,
    exclude: list[str],
    strategy: str | None,
    beta: float | None,
    **top: Any,
) -> None:
    """Put the options that were given into ``tables``, where they overrule the file.

    Raises:
        SettingsError: an option that cannot be read, or two that contradict each other.
    """
    tables.update({name: value for name, value in top.items() if value is not None})
    tables.setdefault("exclude", [])
    tables["exclude"] = [*tables["exclude"], *exclude]
    if log is not None and table is not None:
        raise SettingsError("give --log or --table, not both")
    application = tables.setdefault("application", {})
    if table is not None:
        tables["application"] = application = {"kind": "lookup", "table": str(table)}
    if log is not None:
        application["log"] = str(log)
    plain = {"first": first, "too_wide": too_wide}
    application.update({name: value for name, value in plain.items() if value is not None})
    _lists(application, procs=procs, order=order, backfill=backfill)
    for text in levels:
        name, values = _pair(text, "--levels", "small_procs=0,16,32")
        application.setdefault("levels", {})[name] = _values(values)
    for text in reading:
        rule, choice = _pair(text, "--reading", "unsorted=sort")
        application.setdefault("reading", {})[rule] = choice
    chosen = tables.setdefault("strategy", {})
    if strategy is not None:
        chosen["name"] = strategy
    if beta is not None:
        chosen["beta"] = beta


def _lists(
    application: dict[str, Any], *, procs: str | None, order: str | None, backfill: str | None
) -> None:
    """One value says how it is today; several say that it is a parameter, today's first."""
    if procs is not None:
        sizes = _values(procs)
        if not all(type(size) is int for size in sizes):
            raise SettingsError(f"--procs is a whole number or a list of them, not '{procs}'")
        application["procs"] = sizes[0]
        if len(sizes) > 1:
            application.setdefault("levels", {})["procs"] = sizes
    for name, text in (("order", order), ("backfill", backfill)):
        if text is None:
            continue
        choices = _values(text)
        application["today"] = {**application.get("today", {}), name: choices[0]}
        if len(choices) > 1:
            application.setdefault("levels", {})[name] = choices


def own_runs(built: Sweep, texts: list[str]) -> tuple[dict[str, Level], ...]:
    """Return the analyst's own first configurations, from the file and from ``--include``.

    A parameter that is not named takes today's value, if there is a today.

    Raises:
        SettingsError: not of the form name=value,...
        StrategyError: a value outside the space.
    """
    today = dict(built.application.baseline or {})
    own = [{**today, **values} for values in built.settings.run]
    for text in texts:
        given: dict[str, Level] = {}
        for part in text.split(","):
            name, value = _pair(part, "--include", "small_procs=16,small_max_procs=8")
            given[name] = built.space.parse_value(name, value)
        own.append({**today, **given})
    for values in own:
        built.space.check(built.space.from_values(values))
    return tuple(own)


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise SettingsError(f"{option} '{text}' is not of the form {example}")
    return name.strip(), value.strip()


def _values(text: str) -> list[Level]:
    return [_value(part.strip()) for part in text.split(",") if part.strip()]


def _value(text: str) -> Level:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
