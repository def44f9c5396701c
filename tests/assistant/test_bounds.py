"""Every number that people set has a bound, and a sentence that names it."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from assistant import Session, Sla, Steering, open_session
from assistant.config.sweep_file import SweepSettings, check_settings
from assistant.core import bounds
from assistant.core.bounds import Bound
from assistant.core.errors import ImpossibleValueError, SettingsError
from assistant.core.sla import AutoSteering, Tariff
from assistant.service.app import make_documentation_app, openapi_document
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl, TickingClock

BOUNDS = {name: bound for name, bound in vars(bounds).items() if isinstance(bound, Bound)}

ANY_NUMBER = ("levels", "baseline", "plan", "run", "options")
"""Settings that take levels, which may be any finite number."""


def unbounded_of(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each number without a bound in a JSON schema, with its path."""
    if isinstance(schema, dict):
        if is_bounded(schema):
            return
        if schema.get("type") in ("integer", "number"):
            yield path, schema
        for key, value in schema.items():
            yield from unbounded_of(value, (*path, key))
    elif isinstance(schema, list):
        for place, value in enumerate(schema):
            yield from unbounded_of(value, (*path, str(place)))


def is_bounded(schema: dict[str, Any]) -> bool:
    lows = ("minimum", "exclusiveMinimum", "ge", "gt")
    highs = ("maximum", "exclusiveMaximum", "le", "lt")
    return any(k in schema for k in lows) and any(k in schema for k in highs)


def test_every_number_of_a_sweep_file_has_a_bound() -> None:
    unbounded = [
        ".".join(path)
        for path, _ in unbounded_of(SweepSettings.model_json_schema())
        if not any(name in path for name in ANY_NUMBER)
    ]
    assert unbounded == []


def test_every_number_of_a_request_has_a_bound() -> None:
    schemas = openapi_document(make_documentation_app())["components"]["schemas"]
    levels = ("values", "value", "levels", "options", "edits", "of", "close", "measures")
    free = ("settings", "described", "events", "warning_policy")
    unbounded = [
        ".".join(path)
        for name, schema in schemas.items()
        if name.endswith("In")
        for path, _ in unbounded_of(schema, (name,))
        if not any(part in path for part in (*levels, *free))
    ]
    assert unbounded == []


SETTINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "seed": (("seed",), "SEED"),
    "runs": (("runs",), "RUNS"),
    "initial": (("initial",), "INITIAL"),
    "batch": (("batch",), "BATCH"),
    "workers": (("workers",), "WORKERS"),
    "deadline": (("deadline",), "DURATION_S"),
    "run limit": (("run_limit",), "DURATION_S"),
    "goal": (("goal",), "VALUE"),
    "cost limit": (("cost", "limit"), "COST"),
    "price": (("cost", "per_hour"), "COST"),
    "threshold": (("warning_policy", "threshold"), "VALUE"),
    "eps": (("warning_policy", "eps"), "RADIUS"),
    "min_samples": (("warning_policy", "min_samples"), "MIN_SAMPLES"),
    "cores": (("environment", "cores"), "CORES"),
    "weight": (("objective", "weighted", "x"), "VALUE"),
    "walltime": (("executor", "walltime"), "DURATION_S"),
    "first": (("application", "first"), "RUNS"),
    "small jobs": (("application", "small_job_below"), "DURATION_S"),
    "futures": (("application", "futures", "duration"), "DURATION_S"),
    "scale": (("application", "futures", "scale"), "FACTOR"),
}


def tables_with(path: tuple[str, ...], value: object) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "cost": {"per_hour": 1.0}, "executor": {"kind": "slurm"},
        "application": {"kind": "scheduling", "futures": {"generator": "lublin"}},
    }  # fmt: skip
    table = tables
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value
    return tables


def outside(bound: Bound) -> list[float]:
    """Values just outside a bound and far outside of it."""
    is_whole = isinstance(bound.low, int)
    above = bound.high + 1 if is_whole else math.nextafter(bound.high, math.inf)
    below = bound.low - 1 if is_whole else math.nextafter(bound.low, -math.inf)
    far = [10**30] if is_whole else [1e308, -1e308, math.inf, -math.inf, math.nan]
    return [above, bound.low if bound.above else below, -(10**30) if is_whole else -1e300, *far]


@pytest.mark.parametrize(("path", "name"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_outside_its_bound_is_one_sentence_with_the_bound(
    path: tuple[str, ...], name: str
) -> None:
    bound = BOUNDS[name]
    check_settings(tables_with(path, bound.high), "a.toml")
    for value in outside(bound):
        with pytest.raises(SettingsError) as caught:
            check_settings(tables_with(path, value), "a.toml")
        assert str(caught.value) == f"a.toml: '{'.'.join(path)}' must be {bound}, not {value!r}"


def test_a_deadline_beyond_the_calendar_is_refused_as_it_was_written() -> None:
    with pytest.raises(SettingsError) as caught:
        check_settings({"deadline": "999999999999999d"}, "a.toml")
    assert str(caught.value) == (
        "a.toml: 'deadline' must be a time above 0 s and at most 36,500 days, "
        "not '999999999999999d'"
    )


VALUES: dict[str, tuple[Any, str]] = {
    "budget": (lambda x: Sla(max_runs=x), "RUNS"),
    "deadline": (lambda x: Sla(deadline_s=x), "MOMENT_S"),
    "cost limit": (lambda x: Sla(max_cost=x, tariff=Tariff(measure="c")), "COST"),
    "goal": (lambda x: Sla(goal=x), "VALUE"),
    "run limit": (lambda x: Sla(run_limit_s=x), "DURATION_S"),
    "price": (lambda x: Tariff(per_hour=x), "COST"),
    "batch": (lambda x: AutoSteering(batch=x), "BATCH"),
    "initial": (lambda x: AutoSteering(initial=x), "INITIAL"),
    "weight": (
        lambda x: Steering(weights=((Bowl().space.configuration(0), x),)), "REGION_WEIGHT"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "name"), VALUES.values(), ids=VALUES)
def test_a_value_outside_its_bound_cannot_be_constructed(make: Any, name: str) -> None:
    make(BOUNDS[name].high)
    for value in (*outside(BOUNDS[name]), True, "1"):
        with pytest.raises(SettingsError) as caught:
            make(value)
        assert str(caught.value).endswith(f"must be {BOUNDS[name]}, not {value!r}")


def session_and_store() -> tuple[Session, MemoryStore]:
    store = MemoryStore()
    return open_session(Bowl(), store=store, sla=Sla(20), clock=TickingClock()), store


@pytest.mark.parametrize("n", [1_001, 10**6, 10**30])
def test_a_batch_beyond_its_bound_is_refused_and_not_stored(n: int) -> None:
    session, store = session_and_store()
    session.include({"x": 0, "y": 0, "mode": "odd"})
    stored = store.load(session.id)
    for ask in (session.suggest, session.initial_evaluation, session.confirm):
        with pytest.raises(SettingsError, match=f"from 1 to 1,000, not {n}"):
            ask(n)
    with pytest.raises(SettingsError, match=f"replicates must be .*, not {n}"):
        session.replicate(1, n)
    assert store.load(session.id) == stored


@pytest.mark.parametrize("priority", [math.nan, math.inf, 1e308, 1_000_001, -1_000_001])
def test_a_priority_beyond_its_bound_is_refused(priority: float) -> None:
    session, _ = session_and_store()
    session.include({"x": 0, "y": 0, "mode": "odd"})
    with pytest.raises(ImpossibleValueError, match="from -1,000,000 to 1,000,000, not"):
        session.reprioritise(1, priority)


@pytest.mark.parametrize("workers", [0, 10_001, 10**6])
def test_an_experiment_of_too_many_workers_is_not_opened(workers: int) -> None:
    store = MemoryStore()
    with pytest.raises(SettingsError, match=f"from 1 to 10,000, not {workers}"):
        open_session(Bowl(), store=store, workers=workers)
    assert not store.experiments()
