"""A sweep started from built settings, the same for the command line and the browser."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from assistant.applications import FUTURES_DIGEST, STATISTICS_DIGEST
from assistant.errors import SettingsError
from assistant.events import ExperimentOpened, Fact
from assistant.experiment import Experiment
from assistant.hooks import Hooks, anchored
from assistant.opening import open_session
from assistant.ports import Application, Result, Store
from assistant.results import read_results
from assistant.session import Session
from assistant.settings import FILES_NAMED, Sweep, build_sweep, check_settings
from assistant.settings_environment import computing_facts
from strategies import Level


def open_sweep(built: Sweep, store: Store, name: str, made_from: str) -> Session:
    """Open an experiment as the settings say.

    Args:
        built: the settings, made real.
        store: keeps the journal; a deadline counts from now.
        name: for people, where the settings give none.
        made_from: its `recipe`, for resuming; empty if it shall not be resumed.

    Raises:
        AssistantError, StrategyError: what cannot be; nothing is stored then.
    """
    settings = built.settings
    settings.hooks.build().check()
    session = open_session(
        built.application,
        store=store,
        name=settings.name or name,
        space=built.space,
        objective=built.objective,
        sla=settings.agreement(time.time()),
        strategy=settings.strategy.name,
        options=settings.strategy.options,
        exploitation=settings.exploitation,
        watch=built.watch,
        workers=settings.workers,
        seed=settings.seed,
        version=version(),
        recipe=made_from,
        facts=computing_facts(settings.place, settings.workers),
    )
    if settings.plan:
        session.plan(settings.plan)
    return session


def recipe(tables: Mapping[str, Any], own: Sequence[Mapping[str, Level]]) -> str:
    """Return what is needed to build the sweep again from anywhere: paths made absolute."""
    application = dict(tables.get("application", {}))
    for key in (*FILES_NAMED, "cwd", "folder"):
        if isinstance(application.get(key), str):
            application[key] = str(Path(application[key]).absolute())
    futures = application.get("futures")
    if isinstance(futures, Mapping) and isinstance(futures.get("model"), str):
        model = str(Path(futures["model"]).absolute())
        application["futures"] = {**futures, "model": model}
    results = [str(Path(path).absolute()) for path in tables.get("results", [])]
    kept = {
        **anchored(tables, Path()),
        "run": list(own),
        "application": application,
        "results": results,
    }
    return json.dumps(kept, allow_nan=False)


def past_results(built: Sweep) -> tuple[Result, ...]:
    """Return the results from before that the settings name.

    Raises:
        SettingsError: a file cannot be read.
        ObjectiveError: a measure that the objective needs is missing or not finite.
    """
    results = tuple(
        result
        for path in built.settings.results
        for result in read_results(Path(path), built.space)
    )
    for _, measures in results:
        built.objective.assess(measures)
    return results


def own_configurations(built: Sweep) -> tuple[dict[str, Level], ...]:
    """Return the analyst's own first configurations, as the settings name them.

    A parameter that is not named takes today's value.

    Raises:
        StrategyError: one that the space does not have.
    """
    today = dict(built.application.baseline or {})
    own = tuple({**today, **values} for values in built.settings.run)
    for values in own:
        built.space.check(built.space.from_values(values))
    return own


def take_over(
    session: Session,
    built: Sweep,
    past: Sequence[Result],
    own: Sequence[Mapping[str, Level]],
    *,
    today: bool,
) -> None:
    """Take in results from before, and submit the analyst's own configurations behind today's.

    Without any of them today's is submitted only if ``today`` says so.
    """
    session.import_results(past, replicates=built.settings.replicates)
    if today or own:
        session.submit_baseline()
    for values in own:
        known = {run.configuration for run in session.experiment.runs}
        if session.experiment.space.from_values(values) not in known:
            session.include(values)


def rebuild(opened: ExperimentOpened) -> Application:
    """Build the application of a stored experiment again.

    Raises:
        SettingsError: it was opened from Python, or its log or table is not what it was.
        AssistantError: a file of it cannot be read.
    """
    if not opened.recipe:
        raise SettingsError(
            f"experiment '{opened.experiment_id}' was opened from Python, which alone can run its "
            "program (load_session); here it can be looked at and steered"
        )
    return rebuilt(opened).application


def rebuilt(opened: ExperimentOpened) -> Sweep:
    """Build the sweep of a stored experiment again. Raises as `rebuild`; it has a recipe."""
    built = build_sweep(check_settings(json.loads(opened.recipe), opened.experiment_id))
    if built.space.lineage != opened.space.lineage:
        raise SettingsError(
            f"the log, table or program of experiment '{opened.experiment_id}' is not what it was; "
            "its parameters have changed, so start a new experiment"
        )
    if _drawn_from(built.application.facts) != _drawn_from(opened.facts):
        raise SettingsError(
            f"the model of experiment '{opened.experiment_id}' is not what it was; what is "
            "drawn from it has changed and results could not be compared, so start a new experiment"
        )
    return built


def _drawn_from(facts: Iterable[Fact]) -> str | None:
    """Return the digest of the model that an experiment draws from; None if it has none."""
    told = (FUTURES_DIGEST, STATISTICS_DIGEST)
    return next((fact.text for fact in facts if fact.label in told), None)


def job_log(opened: ExperimentOpened) -> str | None:
    """Return the path of the job log that an experiment simulates; None if it simulates none."""
    if not opened.recipe:
        return None
    log = json.loads(opened.recipe).get("application", {}).get("log")
    return log if isinstance(log, str) else None


def stored_hooks(experiment: Experiment) -> Hooks:
    """Return the hooks of the sweep file that an experiment was opened with.

    There are none if it was opened from Python. Whether they can be started here is another
    question: `Hooks.check`.
    """
    opened = experiment.opened
    if not opened.recipe:
        return Hooks()
    return check_settings(json.loads(opened.recipe), opened.experiment_id).hooks.build()


def version() -> str:
    """Return the installed version, or ``unknown`` in a bare checkout."""
    try:
        return installed_version("copperline")
    except PackageNotFoundError:
        return "unknown"
