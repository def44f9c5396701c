"""How a session comes to be: a new experiment on an application, or a stored one."""

import re
from collections.abc import Mapping
from uuid import uuid4

from assistant.events import ExperimentOpened
from assistant.experiment import Experiment
from assistant.objective import Objective
from assistant.ports import Application, Clock, Store, SystemClock
from assistant.session import Session
from assistant.sla import Sla, Steering, Watch
from strategies import DEFAULT_STRATEGY, Level, ParameterSpace, make_strategy

MAX_SLUG = 48


def open_session(
    application: Application,
    *,
    store: Store,
    name: str = "",
    space: ParameterSpace | None = None,
    objective: Objective | None = None,
    sla: Sla | None = None,
    strategy: str = DEFAULT_STRATEGY,
    options: Mapping[str, Level] | None = None,
    exploitation: float | None = None,
    watch: Watch | None = None,
    workers: int = 1,
    seed: int = 0,
    clock: Clock | None = None,
    experiment_id: str | None = None,
    version: str = "",
    recipe: str = "",
) -> Session:
    """Open a new experiment on an application.

    Args:
        application: what is run, with its space and today's configuration.
        store: keeps the journal.
        name: for people; the application's name if empty.
        space: what may be proposed; the application's own if None.
        objective: what is wanted; the application's own if None.
        sla: the budget; no limit if None.
        strategy: a registered strategy's name, with its ``options``.
        options: of the strategy; its defaults if None.
        exploitation: share of suggestions inside regions (section 3.2); None does not split.
        watch: how regions and pending runs are counted; defaults if None.
        workers: runs that will be executed at once, for the forecast of a deadline.
        seed: of every random stream of the experiment.
        clock: the system's if None.
        experiment_id: chosen by the caller, or made from the name.
        version: of the program, for the record.
        recipe: what a command line needs to build the application again.

    Raises:
        StrategyError: an unknown strategy or option, or a baseline outside the space.
        SettingsError: an exploitation level outside 0 to 1, or warnings by the forecast without a
            goal.
        StoreError: the identifier is taken, or the store cannot be written.
    """
    clock = clock or SystemClock()
    steering = Steering(strategy, dict(options or {}), exploitation)
    make_strategy(strategy, **steering.options)  # refuse a wrong one before anything is stored
    sla, watch = sla or Sla(), watch or Watch()
    watch.warns_by_forecast(sla)  # refuses a forecast without a goal
    today = application.baseline
    space = space or application.space
    baseline = None if today is None else space.from_values(today)
    if baseline is not None:
        space.check(baseline)
    name = name or application.name
    opened = ExperimentOpened(
        at_s=clock.now_s(),
        experiment_id=experiment_id or f"{_slug(name)}-{uuid4().hex[:8]}",
        name=name,
        application=application.name,
        facts=application.facts,
        space=space,
        objective=objective or application.objective,
        sla=sla,
        steering=steering,
        watch=watch,
        workers=workers,
        seed=seed,
        baseline=baseline,
        version=version,
        recipe=recipe,
        # an application that does not say is one that does not know
        deterministic=getattr(application, "deterministic", None),
    )
    store.append(opened.experiment_id, 0, [opened])
    return Session(Experiment(opened), store, clock)


def load_session(store: Store, experiment_id: str, *, clock: Clock | None = None) -> Session:
    """Return the session of a stored experiment: the fold over its journal.

    Raises:
        StoreError: no such experiment, or the store cannot be read.
    """
    experiment = Experiment.replay(store.load(experiment_id))
    return Session(experiment, store, clock or SystemClock())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_SLUG] or "experiment"
