"""``copperline queue``: what waits, in its order; first, later, held, cancelled."""

from __future__ import annotations

from typing import Annotated

import typer

from assistant import Run, RunState, Session
from assistant.cli.console import OUT, Json, StoreOption, print_json, table_of
from assistant.cli.experiments import stored_session
from assistant.errors import SettingsError
from assistant.objective import Objective
from assistant.report.going_on import age_words, reported_words
from assistant.report.words import level

Runs = list[int] | None


def queue(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    first: Annotated[
        Runs, typer.Option(metavar="RUN", help="Start it before all that wait; repeat it.")
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN=NUMBER", help="Higher starts earlier; 0 to begin with."),
    ] = None,
    hold: Annotated[
        Runs, typer.Option(metavar="RUN", help="Let it wait until it is released.")
    ] = None,
    release: Annotated[Runs, typer.Option(metavar="RUN", help="Let it start in its turn.")] = None,
    cancel: Annotated[
        Runs, typer.Option(metavar="RUN", help="Give it up; before it starts it costs nothing.")
    ] = None,
    stop: Annotated[
        Runs, typer.Option(metavar="RUN", help="End it now; what it reported last is its result.")
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Why, kept with the runs that are cancelled or stopped.")
    ] = "",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Show what waits and what runs, the next one in front, and change its order.

    Another order holds from the next start on. What is cancelled or stopped while it runs ends
    soon, also where another process executes the experiment.
    """
    session = stored_session(experiment, store)
    wanted = [_priority(text) for text in priority or []]
    for run_id in (*(first or ()), *(hold or ()), *(release or ()), *(cancel or ()), *(stop or ())):
        session.experiment.run(run_id)  # refuse an unknown one before anything is changed
    for run_id in first or []:
        session.run_first(run_id)
    for run_id, number in wanted:
        session.reprioritise(run_id, number)
    for run_id in hold or []:
        session.hold(run_id)
    for run_id in release or []:
        session.release(run_id)
    for run_id in cancel or []:
        session.cancel(run_id, reason)
    for run_id in stop or []:
        session.stop(run_id, reason)
    if not as_json:
        for run_id in stop or []:
            run = session.experiment.run(run_id)
            kept = reported_words(run, session.experiment.opened.objective)
            OUT.print(f"Run {run_id} is stopped; its result is what it reported last: {kept}.")
    rows = [*session.experiment.runs_in(RunState.RUNNING), *session.experiment.waiting]
    rows += [run for run in session.experiment.runs_in(RunState.QUEUED) if run.held]
    if as_json:
        print_json({"experiment": session.id, "queue": [_row(session, run) for run in rows]})
        return 0
    if not rows:
        OUT.print("Nothing waits and nothing runs.")
        return 0
    objective, now_s = session.experiment.opened.objective, session.now_s()
    told = [_reported(run, objective, now_s) for run in rows]
    more = ("reported so far",) if any(told) else ()
    table = table_of("run", "state", "priority", *session.experiment.space.names, *more, left=2)
    for run, said in zip(rows, told, strict=True):
        values = session.experiment.space.values(run.configuration).values()
        cells = [*map(level, values), *([said] if more else [])]
        table.add_row(str(run.id), _state(run), f"{run.priority:g}", *cells)
    OUT.print(table)
    return 0


def _priority(text: str) -> tuple[int, float]:
    run_id, _, number = text.partition("=")
    try:
        return int(run_id), float(number)
    except ValueError:
        raise SettingsError(
            f"--priority {text}: say a run and a number, for example --priority 7=2.5"
        ) from None


def _state(run: Run) -> str:
    if run.held:
        return "held"
    return f"{run.state} ({run.worker})" if run.worker and run.started_s is not None else run.state


def _reported(run: Run, objective: Objective, now_s: float) -> str:
    if run.reported is None or run.state is not RunState.RUNNING:
        return ""
    return f"{reported_words(run, objective)} ({age_words(run, now_s)})"


def _row(session: Session, run: Run) -> dict[str, object]:
    return {
        "run": run.id,
        "state": str(run.state),
        "held": run.held,
        "priority": run.priority,
        "worker": run.worker or None,
        "values": dict(session.experiment.space.values(run.configuration)),
        "reason": run.reason,
        "reported": None if run.reported is None else dict(run.reported),
        "reported_s": run.reported_s,
    }
