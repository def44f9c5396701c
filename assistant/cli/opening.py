"""A session opened from built settings, the same for every command."""

import time
from pathlib import Path

from assistant import Session, Sla, Store, open_session
from assistant.cli.console import version
from assistant.settings import Sweep, SweepSettings


def open_sweep(built: Sweep, store: Store, made_from: str) -> Session:
    """Open an experiment as the settings say. ``made_from`` is its recipe, for resuming."""
    settings = built.settings
    session = open_session(
        built.application,
        store=store,
        name=settings.name or _name(built),
        space=built.space,
        objective=built.objective,
        sla=_sla(settings),
        strategy=settings.strategy.name,
        options=settings.strategy.options,
        exploitation=settings.exploitation,
        watch=built.watch,
        workers=settings.workers,
        seed=settings.seed,
        version=version(),
        recipe=made_from,
    )
    if settings.plan:
        session.plan(settings.plan)
    return session


def _sla(settings: SweepSettings) -> Sla:
    deadline_s = None if settings.deadline is None else time.time() + settings.deadline
    return Sla(max_runs=settings.max_runs, deadline_s=deadline_s)


def _name(built: Sweep) -> str:
    chosen = built.settings.application
    source = getattr(chosen, "log", None) or getattr(chosen, "table", None)
    return Path(source).name.split(".")[0] if source else "built-in workload"
