"""Sweeps whose program asks for its runs itself: open, let it ask, show what comes, wait.

The store is served meanwhile; the service steers (`assistant.service.helm`), this process looks on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assistant.cli.console import ERR, say
from assistant.cli.live import SweepView
from assistant.client import RemoteSession
from assistant.door import needs_service
from assistant.errors import ExperimentError, SettingsError
from assistant.events import AdviceGiven, Event, ExperimentOpened
from assistant.ports import Result
from assistant.service.adapters import LIMIT_OF_A_RUN
from assistant.service.plain_text import lines_of
from assistant.service.private_file import replace
from assistant.settings import Sweep
from assistant.sla import Automatic
from strategies import Level

GRACE_S = 15.0
"""How long the end is told to a program that asks once more, before the service here ends."""
LOOK_S = 0.2


def refuse_elsewhere(built: Sweep) -> None:
    """Refuse what a sweep cannot have whose program makes its runs. Raises SettingsError."""
    if built.settings.executor is not None:
        raise SettingsError(
            "the program of this sweep asks for its runs and makes them itself; leave --executor "
            "and [executor] away"
        )
    if getattr(built.settings.application, "limit", None) is not None:
        raise SettingsError(LIMIT_OF_A_RUN)
    if built.settings.hooks.build().kinds:
        raise SettingsError(
            "a sweep whose program asks for its runs has no hooks on the command line; open it at "
            "a service: copperline serve --allow-programs, and POST /v1/adapters"
        )


def opened_for_program(path: Path, tables: Mapping[str, Any], name: str) -> RemoteSession:
    """Open the experiment at the service of a store, and write down how its program gets in.

    Args:
        path: of the store, which is served.
        tables: of the sweep file.
        name: of the experiment.
    """
    return _registered(path, tables, name, {"automatic": None})


def resumed_for_program(path: Path, opened: ExperimentOpened) -> RemoteSession:
    """Go on with an experiment, and write down how its program gets in.

    Raises:
        ExperimentError: a later one of its name is not finished either.
    """
    session = _registered(path, json.loads(opened.recipe), opened.name, {"resume": True})
    if session.id != opened.experiment_id:
        raise ExperimentError(
            f"the program would go on with '{session.id}', a later experiment of the name "
            f"'{opened.name}'; finish that one first"
        )
    return session


def steer_asking(
    session: RemoteSession,
    built: Sweep,
    own: Sequence[Mapping[str, Level]],
    results: Sequence[Result],
    path: Path,
) -> None:
    """Let the experiment steer itself and its program make the runs, until it is finished."""
    settings = built.settings
    experiment = session.experiment
    if results:
        session.import_results(results, replicates=True)
    is_new = experiment.automatic is None
    if is_new:
        session.submit_baseline()
    known = {run.configuration for run in experiment.runs}
    for values in own:
        if experiment.space.from_values(values) not in known:
            session.include(values)
    if is_new:
        session.hand_over(Automatic(settings.batch, settings.initial, settings.advice))
    session.start()
    try:
        with SweepView(session, ERR) as view:

            def on_event(event: Event) -> None:
                if isinstance(event, AdviceGiven):
                    view.on_advice(event.advice)
                run_id = getattr(event, "run_id", None)
                if run_id is not None:
                    view.on_change(session.experiment.run(run_id))

            session.follow(on_event, lambda: session.experiment.finished is not None)
            _linger(session)
    except KeyboardInterrupt:
        session.pause()
        n = len(session.experiment.runs)
        say(f"Stopped after {n} submitted runs; what was finished is kept in {path}.")
        say(f"Go on with: copperline resume {session.id} --store {path}")
        raise


def _linger(session: RemoteSession) -> None:
    """Stay until the program has asked after the end, and was told of it; not for ever."""
    ended = session.experiment.finished
    until_s = time.monotonic() + GRACE_S
    while ended is not None and time.monotonic() < until_s:
        heard_s = session.execution().heard_s
        if heard_s is not None and heard_s < session.now_s() - ended.at_s:
            return
        time.sleep(LOOK_S)


def _registered(
    path: Path, tables: Mapping[str, Any], name: str, more: Mapping[str, Any]
) -> RemoteSession:
    link = needs_service(path)
    settings = {
        key: value for key, value in tables.items() if key not in ("name", "results", "run")
    }
    told = link.change("POST", "/v1/adapters", {"name": name, "settings": settings, **more})
    file = path.absolute().with_name(f"{told['experiment']}.adapter")
    way_in = {"url": link.url, "experiment": told["experiment"], "token": told["token"]}
    replace(file, lines_of(way_in).encode())
    say(f"Its program asks for runs at {link.url}; the token for it is in '{file}'.")
    return RemoteSession(link, told["experiment"])
