"""Projection of the event logs: tables, written in the same transaction as the events.

They list runs and experiments without a replay, and contain nothing that the log does not.
Leases and replies are no part of them.
"""

import json
import sqlite3

from assistant.core.events import (
    BudgetChanged,
    Event,
    ExperimentFinished,
    ExperimentOpened,
    ExperimentReopened,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunReleased,
    RunReturned,
    RunStarted,
    RunStopped,
    RunSubmitted,
    SpaceChanged,
)


def project(  # noqa: PLR0912 - a case for each event
    connection: sqlite3.Connection, experiment_id: str, position: int, event: Event
) -> None:
    """Update the tables for one event."""
    do = connection.execute
    match event:
        case ExperimentOpened(at_s=at_s, name=name, sla=sla):
            do(
                "INSERT INTO experiment"
                " (id, name, opened_s, n_events, space_at, sla_at, deadline_s)"
                " VALUES (?, ?, ?, 0, 0, 0, ?)",
                (experiment_id, name, at_s, sla.deadline_s),
            )
        case RunSubmitted(run_id=run_id, configuration=configuration, seed=seed):
            do(
                "INSERT INTO run (experiment_id, run_id, levels, seed, state)"
                " VALUES (?, ?, ?, ?, 'queued')",
                (experiment_id, run_id, json.dumps(configuration.level_ids), seed),
            )
        case RunStarted():
            _start(connection, experiment_id, event)
        case RunReturned(run_id=run_id, lost=lost):
            _end(connection, experiment_id, run_id, "queued")
            if lost:
                do(
                    "UPDATE run SET lost = lost + 1 WHERE experiment_id = ? AND run_id = ?",
                    (experiment_id, run_id),
                )
        case RunCompleted(run_id=run_id) | RunStopped(run_id=run_id):
            _end(connection, experiment_id, run_id, "completed")
        case RunFailed(run_id=run_id):
            _end(connection, experiment_id, run_id, "failed")
        case RunCancelled(run_id=run_id):
            _end(connection, experiment_id, run_id, "cancelled")
        case RunPrioritised(run_id=run_id, priority=priority):
            do(
                "UPDATE run SET priority = ? WHERE experiment_id = ? AND run_id = ?",
                (priority, experiment_id, run_id),
            )
        case RunHeld(run_id=run_id) | RunReleased(run_id=run_id):
            do(
                "UPDATE run SET held = ? WHERE experiment_id = ? AND run_id = ?",
                (isinstance(event, RunHeld), experiment_id, run_id),
            )
        case SpaceChanged():
            do("UPDATE experiment SET space_at = ? WHERE id = ?", (position, experiment_id))
        case BudgetChanged(sla=sla):
            do(
                "UPDATE experiment SET sla_at = ?, deadline_s = ? WHERE id = ?",
                (position, sla.deadline_s, experiment_id),
            )
        case ExperimentFinished() | ExperimentReopened():
            do(
                "UPDATE experiment SET finished = ? WHERE id = ?",
                (isinstance(event, ExperimentFinished), experiment_id),
            )
        case _:
            pass  # changes no run, space or SLA
    do("UPDATE experiment SET n_events = ? WHERE id = ?", (position + 1, experiment_id))


def _start(connection: sqlite3.Connection, experiment_id: str, event: RunStarted) -> None:
    connection.execute(
        "UPDATE run SET state = 'running', attempts = attempts + 1, token = ?"
        " WHERE experiment_id = ? AND run_id = ?",
        (event.token, experiment_id, event.run_id),
    )
    if event.token:
        connection.execute(
            "INSERT INTO attempt (token, experiment_id, run_id, worker) VALUES (?, ?, ?, ?)",
            (event.token, experiment_id, event.run_id, event.worker),
        )


def _end(connection: sqlite3.Connection, experiment_id: str, run_id: int, state: str) -> None:
    connection.execute(
        "DELETE FROM lease WHERE token ="
        " (SELECT token FROM run WHERE experiment_id = ? AND run_id = ?)",
        (experiment_id, run_id),
    )
    connection.execute(
        "UPDATE run SET state = ? WHERE experiment_id = ? AND run_id = ?",
        (state, experiment_id, run_id),
    )
