"""Opening of sessions: create a new experiment on an application, or load a stored one."""

import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from assistant.core.bounds import SEED, WORKERS
from assistant.core.early_stopping import EarlyStopping
from assistant.core.errors import (
    ObjectiveError,
    SettingsError,
    StoreError,
    UnknownExperimentError,
)
from assistant.core.events import ExperimentOpened, Fact
from assistant.core.experiment import Experiment
from assistant.core.objective import Objective
from assistant.core.ports import Application, Clock, Store, StoredExperiment, SystemClock
from assistant.core.sla import Sla, Steering, WarningPolicy
from assistant.session.session import Session
from strategies import (
    DEFAULT_STRATEGY,
    EarlierSweep,
    Level,
    Observation,
    ParameterSpace,
    make_strategy,
    strategy_entry,
    strategy_names,
)

MAX_SLUG = 48
MAX_NAME = 200
_NO_IDENTIFIER = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]")
FEW_EVENTS = 30  # Length of the event log of about ten runs
MOST_COMPARED = 5  # Experiments that `similar_experiment` looks at
MANY_EVENTS = 20_000  # Event logs of this length or more are left out of garbage collections


class ExperimentDescription(TypedDict, total=False):
    """Keyword arguments of `open_session` that describe a new experiment; all are optional.

    Args:
        space: space of the sweep; the application's own if None.
        objective: objective; the application's own if None.
        sla: SLA; no limit if None.
        options: options of the strategy; its defaults if None.
        exploitation: share of suggestions inside regions (section 3.2); None does not split.
        refine: whether levels are added to ranges without a step near the best result.
        warning_policy: warning policy; defaults if None.
        workers: runs executed at once, for the forecast of a deadline.
        seed: seed of every random stream of the experiment.
        recipe: settings tables from which any program can build the application again.
        facts: facts for the report beside the application's own.
        earlier: earlier sweeps to learn from, see `earlier_sweep`.
        early_stopping: rule that stops hopeless runs; None stops none.
    """

    name: str
    space: ParameterSpace | None
    objective: Objective | None
    sla: Sla | None
    strategy: str
    options: Mapping[str, Level] | None
    exploitation: float | None
    refine: bool
    warning_policy: WarningPolicy | None
    workers: int
    seed: int
    version: str
    recipe: Mapping[str, Any]
    facts: tuple[Fact, ...]
    earlier: tuple[EarlierSweep, ...]
    early_stopping: EarlyStopping | None


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
        SettingsError: an exploitation level outside 0 to 1, warnings by the forecast without a
            goal, or an earlier sweep that nothing can be learnt from.
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
    refine: bool = True,
    warning_policy: WarningPolicy | None = None,
    workers: int = 1,
    seed: int = 0,
    version: str = "",
    recipe: Mapping[str, Any] | None = None,
    facts: tuple[Fact, ...] = (),
    earlier: tuple[EarlierSweep, ...] = (),
    early_stopping: EarlyStopping | None = None,
) -> ExperimentOpened:
    """Return the opening event of a new experiment, before it has an identifier and a time.

    See `ExperimentDescription`. Raises as `open_session` does, except for the store.
    """
    steering = Steering(strategy, dict(options or {}), exploitation, refine=refine)
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
        earlier=earlier,
        early_stopping=early_stopping,
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
    _check_earlier(described)


def _check_earlier(described: ExperimentOpened) -> None:
    """Raise SettingsError for an earlier sweep that nothing can be learnt from."""
    strategy = described.steering.strategy
    if described.earlier and not strategy_entry(strategy).learns:
        able = ", ".join(name for name in strategy_names() if strategy_entry(name).learns)
        raise SettingsError(
            f"the strategy '{strategy}' cannot learn from earlier experiments; take {able}, or "
            "import results that hold for this sweep too"
        )
    identifiers = [sweep.experiment_id for sweep in described.earlier]
    for sweep in described.earlier:
        if identifiers.count(sweep.experiment_id) > 1:
            raise SettingsError(f"experiment '{sweep.experiment_id}' is named twice to learn from")
        if not sweep.shared(described.space):
            raise SettingsError(
                f"nothing can be learnt from experiment '{sweep.experiment_id}': it shares no "
                "parameter with this sweep whose levels can be compared; parameters are matched "
                "by name"
            )


def earlier_sweep(experiment: Experiment, objective: Objective) -> EarlierSweep:
    """Return what a new sweep with an objective learns from an experiment: a copy of its results.

    Completed runs are judged by that objective and its constraints, and failed runs count as
    failed. Of very many runs it is a sample, see `EarlierSweep.of`.
    Raises SettingsError if no run has the measures of the objective.
    """
    identifier, observations = experiment.opened.experiment_id, []
    for run in experiment.runs:
        if run.outcome is None:
            continue
        with suppress(ObjectiveError):
            outcome = objective.assess(run.outcome.measures)
            observations.append(
                Observation(run.configuration, outcome.quality, outcome.feasible, outcome.violation)
            )
    if not observations:
        raise SettingsError(
            f"nothing can be learnt from experiment '{identifier}': none of its runs has a result "
            f"with {' and '.join(objective.measures)}"
        )
    return EarlierSweep.of(identifier, experiment.space, observations, experiment.failures)


def earlier_sweeps(
    store: Store, experiments: Iterable[str], objective: Objective
) -> tuple[EarlierSweep, ...]:
    """Return what a new sweep learns from stored experiments, see `earlier_sweep`.

    Raises:
        StoreError: there is no such experiment.
        SettingsError: several have the name, or nothing can be learnt from one.
    """
    return tuple(
        earlier_sweep(session_in(store, experiment).experiment, objective)
        for experiment in experiments
    )


def load_session(store: Store, experiment_id: str, *, clock: Clock | None = None) -> Session:
    """Return the session of a stored experiment, or raise StoreError if unreadable."""
    with _long_lived():
        events = store.load(experiment_id)
        experiment = Experiment.replay(events)
    if len(events) >= MANY_EVENTS:
        gc.freeze()  # what was loaded stays, so that no collection goes through it again
    return Session(experiment, store, clock or SystemClock())


def similar_experiment(store: Store, space: ParameterSpace) -> StoredExperiment | None:
    """Return the latest stored experiment whose parameters have the names of those of a space.

    Only the latest few are compared, and of these only those with some runs that load quickly.
    """
    likely = [e for e in store.experiments() if FEW_EVENTS <= e.n_events <= MANY_EVENTS]
    for stored in likely[:MOST_COMPARED]:
        opened = store.load(stored.id)[0]
        if isinstance(opened, ExperimentOpened) and set(opened.space.names) == set(space.names):
            return stored
    return None


def session_in(opened: Store, experiment: str) -> Session:
    """Return the session of an experiment in a store, where ``latest`` is the one opened last.

    It may be named by its identifier, or by a name that no other listed experiment has.

    Raises:
        StoreError: there is no such experiment.
        SettingsError: several have the name.
    """
    if experiment == "latest":
        stored = opened.experiments()
        if not stored:
            raise StoreError("the store holds no experiment yet; run a sweep first")
        experiment = stored[0].id
    try:
        return load_session(opened, experiment)
    except UnknownExperimentError:
        named = [stored.id for stored in opened.experiments() if stored.name == experiment]
        if not named:
            raise
    if len(named) > 1:
        raise SettingsError(
            f"{len(named)} experiments are named '{experiment}'; name one by its identifier: "
            f"{', '.join(named[:10])}"
        )
    return load_session(opened, named[0])


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
