"""Opening of sessions: create a new experiment on an application, or load a stored one."""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from assistant.core.bounds import SEED, WORKERS
from assistant.core.errors import SettingsError
from assistant.core.events import ExperimentOpened, Fact
from assistant.core.experiment import Experiment
from assistant.core.objective import Objective
from assistant.core.ports import Application, Clock, Store, SystemClock
from assistant.core.sla import Sla, Steering, WarningPolicy
from assistant.session.session import Session
from strategies import DEFAULT_STRATEGY, Level, ParameterSpace, make_strategy

MAX_SLUG = 48
MAX_NAME = 200
_NO_IDENTIFIER = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]")
MANY_EVENTS = 20_000  # Event logs of this length or more are left out of garbage collections


class ExperimentDescription(TypedDict, total=False):
    """Keyword arguments of `open_session` that describe a new experiment; all are optional.

    Args:
        space: space of the sweep; the application's own if None.
        objective: objective; the application's own if None.
        sla: SLA; no limit if None.
        options: options of the strategy; its defaults if None.
        exploitation: share of suggestions inside regions (section 3.2); None does not split.
        warning_policy: warning policy; defaults if None.
        workers: runs executed at once, for the forecast of a deadline.
        seed: seed of every random stream of the experiment.
        recipe: settings tables from which any program can build the application again.
        facts: facts for the report beside the application's own.
    """

    name: str
    space: ParameterSpace | None
    objective: Objective | None
    sla: Sla | None
    strategy: str
    options: Mapping[str, Level] | None
    exploitation: float | None
    warning_policy: WarningPolicy | None
    workers: int
    seed: int
    version: str
    recipe: Mapping[str, Any]
    facts: tuple[Fact, ...]


def open_session(
    application: Application,
    *,
    store: Store,
    clock: Clock | None = None,
    experiment_id: str | None = None,
    **described: Unpack[ExperimentDescription],
) -> Session:
    """Create a new experiment on an application, and return its session.

    Without ``experiment_id`` the identifier is made from the name.

    Raises:
        StrategyError: an unknown strategy or option, or a baseline outside the space.
        SettingsError: an exploitation level outside 0 to 1, or warnings by the forecast without a
            goal.
        StoreError: the identifier is taken, or the store cannot be written.
    """
    return open_from_event(
        build_opened_event(application, **described),
        store=store,
        clock=clock,
        experiment_id=experiment_id,
    )


def build_opened_event(
    application: Application,
    *,
    name: str = "",
    space: ParameterSpace | None = None,
    objective: Objective | None = None,
    sla: Sla | None = None,
    strategy: str = DEFAULT_STRATEGY,
    options: Mapping[str, Level] | None = None,
    exploitation: float | None = None,
    warning_policy: WarningPolicy | None = None,
    workers: int = 1,
    seed: int = 0,
    version: str = "",
    recipe: Mapping[str, Any] | None = None,
    facts: tuple[Fact, ...] = (),
) -> ExperimentOpened:
    """Return the opening event of a new experiment, before it has an identifier and a time.

    See `ExperimentDescription`. Raises as `open_session` does, except for the store.
    """
    steering = Steering(strategy, dict(options or {}), exploitation)
    space = space or application.space
    baseline = application.baseline
    opened = ExperimentOpened(
        at_s=0.0,
        experiment_id="",
        name=name or application.name,
        application=application.name,
        facts=(*application.facts, *facts),
        space=space,
        objective=objective or application.objective,
        sla=sla or Sla(),
        steering=steering,
        warning_policy=warning_policy or WarningPolicy(),
        workers=workers,
        seed=seed,
        baseline=None if baseline is None else space.from_values(baseline),
        version=version,
        recipe=dict(recipe or {}),
        # None if the application does not state it
        deterministic=getattr(application, "deterministic", None),
    )
    _check(opened)
    return opened


def open_from_event(
    described: ExperimentOpened,
    *,
    store: Store,
    clock: Clock | None = None,
    experiment_id: str | None = None,
) -> Session:
    """Create a new experiment from its `build_opened_event` event, and return its session."""
    _check(described)
    clock = clock or SystemClock()
    opened = replace(
        described,
        at_s=clock.now_s(),
        experiment_id=experiment_id or f"{_slug(described.name)}-{uuid4().hex[:8]}",
    )
    check_names(opened)
    store.append(opened.experiment_id, 0, [opened])
    return Session(Experiment(opened), store, clock)


def check_names(opened: ExperimentOpened) -> None:
    """Raise SettingsError for a name or an identifier that no experiment can have.

    An identifier is a part of URLs and of the names of files.
    """
    if "\0" in opened.name:
        raise SettingsError(f"the name {opened.name!r} of the experiment has a NUL; remove it")
    identifier = opened.experiment_id
    if identifier in (".", "..") or _NO_IDENTIFIER.search(identifier) or len(identifier) > MAX_NAME:
        raise SettingsError(
            f"an experiment cannot have the identifier {identifier!r}; use at most {MAX_NAME} "
            "characters, without slashes and control characters"
        )


def _check(described: ExperimentOpened) -> None:
    """Raise for a wrong description, before anything is stored."""
    check_names(described)
    steering = described.steering
    make_strategy(steering.strategy, **steering.options)
    described.space.check_not_empty()
    WORKERS.check("the number of runs at once", described.workers)
    SEED.check("the seed", described.seed)
    described.warning_policy.warns_by_forecast(described.sla)  # refuses a forecast without a goal
    if described.baseline is not None:
        described.space.check(described.baseline)


def load_session(store: Store, experiment_id: str, *, clock: Clock | None = None) -> Session:
    """Return the session of a stored experiment, or raise StoreError if unreadable."""
    with _long_lived():
        events = store.load(experiment_id)
        experiment = Experiment.replay(events)
    if len(events) >= MANY_EVENTS:
        gc.freeze()  # what was loaded stays, so that no collection goes through it again
    return Session(experiment, store, clock or SystemClock())


@contextmanager
def _long_lived() -> Iterator[None]:
    """Collect no garbage in a block that makes many objects, none of which is garbage."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_SLUG] or "experiment"
