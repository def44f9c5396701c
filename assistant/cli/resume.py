"""``copperline resume``: go on with a sweep that was interrupted, or with more of everything."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from assistant import Session, load_session
from assistant.cli.asking import resumed_for_program
from assistant.cli.console import (
    Json,
    StoreOption,
    store_path,
)
from assistant.cli.experiments import existing, session_in
from assistant.cli.options import (
    Include,
    further_runs,
    own_runs,
)
from assistant.cli.sweep import OnAdvice, Report, follow, wait_for_program
from assistant.cli.terms import (
    AtGoal,
    CostLimit,
    Deadline,
    Goal,
    RunLimit,
    Terms,
    agree,
)
from assistant.decisions import refuse_if_finished
from assistant.door import serving
from assistant.errors import SettingsError
from assistant.executors import check_room
from assistant.hooks import Hooks
from assistant.outside import asks_for_runs
from assistant.settings import check_settings
from assistant.starting import rebuilt, stored_hooks
from assistant.store import MemoryStore
from assistant.store.executing import Executing


def resume(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    runs: Annotated[
        int | None, typer.Option(help="Another budget of runs.", show_default=False)
    ] = None,
    deadline: Deadline = None,
    goal: Goal = None,
    at_goal: AtGoal = None,
    run_limit: RunLimit = None,
    cost_limit: CostLimit = None,
    include: Include = None,
    advice: OnAdvice = None,
    no_hooks: Annotated[
        bool, typer.Option("--no-hooks", help="Start none of the hooks of its sweep file.")
    ] = False,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Go on with a sweep that was interrupted, by Ctrl-C or by anything else.

    No completed run and no decision is lost; runs that were under way are run again. The end is
    the one that the unbroken sweep would have had. Configurations of one's own (--include) are run
    first.
    """
    with serving(existing(store)) as kept:
        session = session_in(kept, experiment)
        terms = Terms(
            None if runs is None else str(runs), deadline, goal, at_goal, run_limit, cost_limit
        )
        with Executing(store_path(store), session.id):
            return _resume(
                session, runs, terms, include or [], advice, no_hooks, store, report, as_json
            )


def _resume(
    session: Session,
    runs: int | None,
    terms: Terms,
    include: list[str],
    advice: str | None,
    no_hooks: bool,
    store: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    if not session.experiment.opened.recipe:
        raise SettingsError(
            f"experiment '{session.id}' was opened from Python; go on with it there (load_session)"
        )
    built = rebuilt(session.experiment.opened)
    check_room(built.settings.place, built.settings.workers)
    if advice is not None:
        own_advice = check_settings({"advice": advice}, "the options").advice
        settings = built.settings.model_copy(update={"advice": own_advice})
        built = replace(built, settings=settings)
    hooks = Hooks() if no_hooks else _own_hooks(session)
    mine = further_runs(session.experiment, include)
    _check_room(session, runs, len(mine))
    if terms.is_given:
        agree(_rehearsed(session), terms, time.time())  # refuse before anything is stored
        agree(session, terms, time.time())
    refuse_if_finished(session.experiment)
    if asks_for_runs(session.experiment.opened):
        remote = resumed_for_program(store_path(store), session.experiment.opened)
        return wait_for_program(remote, built, mine, (), store_path(store), report, as_json)
    session.recover()
    own = (*mine, *own_runs(built, []))
    return follow(session, built, own, store_path(store), report, as_json, hooks)


def _own_hooks(session: Session) -> Hooks:
    """Return the stored hooks, refused with the way out if one cannot be started here."""
    hooks = stored_hooks(session.experiment)
    try:
        hooks.check()
    except SettingsError as error:
        raise SettingsError(f"{error}; say --no-hooks to go on without") from error
    return hooks


def _rehearsed(session: Session) -> Session:
    """Return a copy of a stored session whose events are kept nowhere."""
    store = MemoryStore()
    store.append(session.id, 0, session.events())
    return load_session(store, session.id)


def _check_room(session: Session, runs: int | None, n_more: int) -> None:
    """Refuse configurations of one's own beyond the budget, before anything is stored."""
    budget = runs if runs is not None else session.experiment.sla.max_runs
    needed = session.experiment.n_charged + n_more
    if n_more and budget is not None and budget < needed:
        raise SettingsError(
            f"{n_more} included configurations need a budget of {needed} runs and it has {budget}; "
            f"say --runs {needed}"
        )
