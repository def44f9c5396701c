"""Whether a store kept its promises: a program that shares no code with the queue.

It imports nothing of Copperline. It reads the file with the SQLite of Python, tells the life of
every run anew from the journal, and compares that with the tables and with what clients were
told. ``python -m tests.faults.checker STORE [--log FILE] [--ended]`` prints what is wrong, a line
each, and ends with 1 if anything is.

Each finding names the promise that it breaks:

- I1 a run ends once (and has ended, where ``--ended`` asks for it);
- I2 one recorded result per completed run, the known function of its levels, under its token; of
  one that was stopped what it had reported last;
- I3 what was acknowledged is there, in its order;
- I4 the tables are the fold of the journal;
- I5 one lease at most per run, held by the attempt that goes on; refused results change nothing;
- I6 no run loses more workers than are allowed, and none has failed of losses before;
- I7 no claim passed over a waiting run of higher priority;
- I8 the last change of a priority stands, through losses and repetitions;
- I10 the file is whole.

I9, liveness, needs a clock and I11, I12 need the processes: they are no question to a file.

A log of what was acknowledged holds one JSON object a line: ``{"told": KIND, "experiment": ID,
"run": NUMBER, ...}``, of one run in the order of its answers. `ACKNOWLEDGED` lists the kinds.
"""

import argparse
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Known = Callable[[Mapping[str, Any]], Mapping[str, float]]

OVER = ("completed", "failed", "cancelled")

ACKNOWLEDGED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "submitted": ("RunSubmitted", ("seed",)),
    "claimed": ("RunStarted", ("token", "worker")),
    "reported": ("RunReported", ("measures",)),
    "returned": ("RunReturned", ()),
    "prioritised": ("RunPrioritised", ("priority",)),
    "held": ("RunHeld", ()),
    "released": ("RunReleased", ()),
    "cancelled": ("RunCancelled", ("reason",)),
    "rated": ("RunRated", ("good",)),
    "completed": ("RunCompleted", ("measures",)),
    "stopped": ("RunStopped", ("measures",)),
    "failed": ("RunFailed", ()),
    "refused": ("ResultRefused", ("token",)),
}
"""What a client may say it was told: the event that must be there, and what must agree in it.

``measures`` of a completed run are those of its outcome. Whether an experiment is active has no
event: ``{"told": "active", "experiment": ID, "active": BOOL}`` says it was acknowledged, and
``"asked"`` in the place of ``"active"`` that it may be on its way.
"""


def hills(values: Mapping[str, Any]) -> Mapping[str, float]:
    """Return what the tests' application ``hills`` measures, written a second time."""
    a, b, c, d, e = (values[name] for name in "abcde")
    height = 5 + a * a + (b - 1) ** 2 + (c - 2) ** 2 + (d - 3) ** 2 + e * e
    height += 3 * ((7 * a + 5 * b + 3 * c) % 4)
    return {"height": float(height + 30 * (values["mode"] == "bad"))}


KNOWN: Mapping[str, Known] = {"hills": hills}
"""Functions by the name of the application: a result that was swapped or made up is seen."""


@dataclass
class Life:
    """One run, as its events tell it."""

    levels: list[int]
    seed: int
    state: str = "queued"
    priority: float = 0.0
    held: bool = False
    attempts: int = 0
    lost: int = 0
    token: str = ""
    worker: str = ""
    measures: Any = None
    n_ends: int = 0
    reported: Any = None
    stopped: bool = False


@dataclass
class Told:
    """One journal, as it is read from the front."""

    name: str
    opened: Row
    space: Row
    space_at: int = 0
    sla_at: int = 0
    deadline_s: float | None = None
    finished: bool = False
    n_events: int = 1
    runs: dict[int, Life] = field(default_factory=dict)
    leases: dict[str, tuple[int, str]] = field(default_factory=dict)
    by_run: dict[int, list[Row]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def say(self, promise: str, run_id: int | None, text: str) -> None:
        where = f"experiment '{self.name}'" + ("" if run_id is None else f", run {run_id}")
        self.wrong.append(f"{promise} {where}: {text}")


FROM: Mapping[str, tuple[str, ...]] = {
    "RunStarted": ("queued",),
    "RunReturned": ("running",),
    "RunPrioritised": ("queued",),
    "RunHeld": ("queued",),
    "RunReleased": ("queued",),
    "RunCancelled": ("queued", "running"),
    "RunReported": ("running",),
    "RunCompleted": ("running",),
    "RunStopped": ("running",),
    "RunFailed": ("running",),
    "RunRated": ("completed",),
}
"""The states in which a run may be when an event comes to it."""

TO = {
    "RunStarted": "running",
    "RunReturned": "queued",
    "RunCancelled": "cancelled",
    "RunCompleted": "completed",
    "RunStopped": "completed",
    "RunFailed": "failed",
}


def tell(name: str, events: list[Row], max_attempts: int) -> Told:
    """Read one journal from the front."""
    opened = events[0]
    told = Told(name, opened, opened.get("space", {}))
    if opened["type"] != "ExperimentOpened" or opened["experiment_id"] != name:
        told.say("I4", None, "its journal does not begin with its opening")
        return told
    told.deadline_s = opened["sla"]["deadline_s"]
    for position, event in enumerate(events[1:], 1):
        kind = event["type"]
        told.n_events += 1
        if kind == "SpaceChanged":
            told.space, told.space_at = event["space"], position
        elif kind == "BudgetChanged":
            told.sla_at, told.deadline_s = position, event["sla"]["deadline_s"]
        elif kind in ("ExperimentFinished", "ExperimentReopened"):
            told.finished = kind == "ExperimentFinished"
        elif kind == "ExperimentOpened":
            told.say("I4", None, "it was opened twice")
        elif kind == "RunSubmitted":
            if event["run_id"] != len(told.runs) + 1:
                told.say("I1", event["run_id"], f"it follows run {len(told.runs)}")
            told.runs[event["run_id"]] = Life(event["configuration"]["level_ids"], event["seed"])
            told.by_run[event["run_id"]] = [event]
        elif kind in FROM or kind == "ResultRefused":
            if event["run_id"] not in told.runs:
                told.say("I1", event["run_id"], f"{kind} of a run that was never submitted")
                continue
            told.by_run[event["run_id"]].append(event)
            _live(told, event, max_attempts)
    return told


def _live(told: Told, event: Row, max_attempts: int) -> None:
    kind, run_id = event["type"], event["run_id"]
    run = told.runs[run_id]
    if kind == "ResultRefused":
        _refused(told, run, event)
        return
    if run.state not in FROM[kind]:
        told.say("I1", run_id, f"{kind} while it is {run.state}")
        if kind in ("RunCompleted", "RunStopped", "RunFailed"):
            told.say("I2", run_id, f"{kind} though it has ended, or nobody executes it")
    if kind == "RunStarted":
        _started(told, run, event, max_attempts)
    elif kind == "RunReturned":
        run.lost += event.get("lost", False)
        if run.lost >= max_attempts:
            told.say("I6", run_id, f"it waits again after {run.lost} lost workers")
    elif kind == "RunPrioritised":
        run.priority = event["priority"]
    elif kind in ("RunHeld", "RunReleased"):
        run.held = kind == "RunHeld"
    elif kind in ("RunCompleted", "RunStopped"):
        run.measures = event["outcome"]["measures"]
        run.stopped = kind == "RunStopped"
        if run.stopped and run.measures != run.reported:
            told.say("I2", run_id, f"it was stopped with {run.measures}, and said {run.reported}")
    elif kind == "RunReported":
        run.reported = event["measures"]
    elif kind == "RunFailed" and "not tried again" in event["failure"]:
        run.lost += 1
        if run.lost != max_attempts:
            told.say("I6", run_id, f"it has failed of {run.lost} lost workers")
        run.lost -= 1  # as the journal counts: workers after which it waited again
    run.state = TO.get(kind, run.state)
    run.n_ends += kind in ("RunCancelled", "RunCompleted", "RunStopped", "RunFailed")


def _started(told: Told, run: Life, event: Row, max_attempts: int) -> None:
    run_id, token = event["run_id"], event["token"]
    if run.lost >= max_attempts:
        told.say("I6", run_id, f"it starts again after {run.lost} lost workers")
    if token:
        if token in told.leases:
            told.say("I5", run_id, "its token was given before")
        told.leases[token] = (run_id, event["worker"])
        if run.held:
            told.say("I7", run_id, "it was claimed while it was held")
        for other, one in told.runs.items():
            ready = one.state == "queued" and not one.held and other != run_id
            if ready and (-one.priority, other) < (-run.priority, run_id):
                told.say(
                    "I7", run_id,
                    f"claimed at priority {run.priority:g}, passing over run {other} at "
                    f"{one.priority:g}",
                )  # fmt: skip
                break
    run.attempts += 1
    run.reported = None
    run.token, run.worker = token, event["worker"]


def _refused(told: Told, run: Life, event: Row) -> None:
    """A result may be refused only if it came under a token that does not go on."""
    token = event["token"]
    if token and told.leases.get(token, (None,))[0] != event["run_id"]:
        told.say("I5", event["run_id"], "a result was refused under a token that was not its own")
    if token and run.state == "running" and run.token == token:
        told.say("I5", event["run_id"], "a result was refused though its attempt went on")


def check(
    path: Path | str,
    acknowledged: Iterable[Row] = (),
    *,
    max_attempts: int = 3,
    ended: bool = False,
    known: Mapping[str, Known] = KNOWN,
) -> list[str]:
    """Return what is wrong with a store, a sentence each.

    Args:
        path: of the file; it is only read, and may be in use.
        acknowledged: what clients were told; see `ACKNOWLEDGED`.
        max_attempts: workers that a run may lose.
        ended: whether every run must be over.
        known: what applications measure, by their names.
    """
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("BEGIN")  # one moment of a file that others may write
        wrong = _whole(connection)
        if wrong:
            return wrong
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'run'").fetchone():
            told = list(acknowledged)  # whoever made the file had not come to its tables
            return [f"I3 {len(told)} answers were acknowledged, and no table is there"] * bool(told)
        return _compared(connection, acknowledged, max_attempts, ended, known)
    except sqlite3.DatabaseError as error:
        return [f"I10 the file cannot be read: {error}"]
    finally:
        connection.close()


def _whole(connection: sqlite3.Connection) -> list[str]:
    wrong = [f"I10 {text}" for (text,) in connection.execute("PRAGMA integrity_check")]
    wrong = [text for text in wrong if text != "I10 ok"]
    return wrong + [
        f"I10 a row of '{row[0]}' points to a row of '{row[2]}' that is not there"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]


def _rows(connection: sqlite3.Connection, statement: str) -> list[Row]:
    return [dict(row) for row in connection.execute(statement)]


def _compared(
    connection: sqlite3.Connection,
    acknowledged: Iterable[Row],
    max_attempts: int,
    ended: bool,
    known: Mapping[str, Known],
) -> list[str]:
    wrong: list[str] = []
    journals: dict[str, list[Row]] = {}
    for row in connection.execute("SELECT * FROM event ORDER BY experiment_id, position"):
        journal = journals.setdefault(row["experiment_id"], [])
        if row["position"] != len(journal):
            wrong.append(f"I4 experiment '{row['experiment_id']}' has no event {len(journal)}")
            return wrong
        journal.append(json.loads(row["body"]))
    tellings = {name: tell(name, events, max_attempts) for name, events in journals.items()}
    _compare_tables(connection, tellings, wrong)
    _compare_claims(connection, tellings, wrong)
    for told in tellings.values():
        _compare_results(told, known.get(told.opened["application"]), ended)
        wrong += told.wrong
    _compare_acknowledged(connection, tellings, list(acknowledged), wrong)
    return wrong


def _compare_tables(
    connection: sqlite3.Connection, tellings: Mapping[str, Told], wrong: list[str]
) -> None:
    found = {row["id"]: row for row in _rows(connection, "SELECT * FROM experiment")}
    if set(found) != set(tellings):
        wrong.append(f"I4 experiments {sorted(found)} in the table, {sorted(tellings)} in journals")
    runs: dict[str, dict[int, Row]] = {name: {} for name in tellings}
    for row in _rows(connection, "SELECT * FROM run ORDER BY seq"):
        runs.setdefault(row["experiment_id"], {})[row["run_id"]] = row
    for name, told in tellings.items():
        expected = {
            "n_events": told.n_events,
            "name": told.opened["name"],
            "opened_s": told.opened["at_s"],
            "space_at": told.space_at,
            "sla_at": told.sla_at,
            "deadline_s": told.deadline_s,
            "finished": int(told.finished),
        }
        _differ(told, None, expected, found.get(name, {}))
        if list(runs[name]) != list(told.runs):
            told.say("I4", None, f"{len(runs[name])} runs in the table, {len(told.runs)} told")
        for run_id, run in told.runs.items():
            expected = {
                "levels": run.levels,
                "seed": run.seed,
                "state": run.state,
                "priority": run.priority,
                "held": int(run.held),
                "attempts": run.attempts,
                "lost": run.lost,
                "token": run.token,
            }
            row = runs[name].get(run_id, {})
            if row:
                row["levels"] = json.loads(row["levels"])
            _differ(told, run_id, expected, row)


def _differ(told: Told, run_id: int | None, expected: Row, row: Row) -> None:
    for column, value in expected.items():
        if row.get(column) != value:
            promise = "I8" if column == "priority" else "I4"
            there = row.get(column)
            told.say(promise, run_id, f"{column} is {there} in the table, {value} in the journal")


def _compare_claims(
    connection: sqlite3.Connection, tellings: Mapping[str, Told], wrong: list[str]
) -> None:
    attempts = {row["token"]: row for row in _rows(connection, "SELECT * FROM attempt")}
    expected = {
        token: (name, run_id, worker)
        for name, told in tellings.items()
        for token, (run_id, worker) in told.leases.items()
    }
    there = {
        token: (row["experiment_id"], row["run_id"], row["worker"])
        for token, row in attempts.items()
    }
    if there != expected:
        odd = sorted(dict(set(there.items()) ^ set(expected.items())))
        wrong.append(f"I4 the attempts of the table are not those of the journal: {odd[:5]}")
        return
    leases = {row["token"] for row in _rows(connection, "SELECT token FROM lease")}
    for name, told in tellings.items():
        going_on = {run.token for run in told.runs.values() if run.state == "running"} - {""}
        for token, (run_id, _worker) in told.leases.items():
            if (token in leases) != (token in going_on):
                held = "has" if token in leases else "lacks"
                told.say("I5", run_id, f"it is {told.runs[run_id].state}; attempt {held} a lease")
            run, result = told.runs[run_id], attempts[token]["result"]
            ended_by = "" if run.stopped else run.token
            by_worker = run.state in ("completed", "failed") and ended_by == token
            if result is not None and not by_worker:
                told.say("I2", run_id, "a result is noted under an attempt that did not end it")
            if result is None and by_worker and run.state == "completed":
                told.say("I2", run_id, "it is completed, and no result is noted under its attempt")
        refused = Counter(
            event["token"]
            for events in told.by_run.values()
            for event in events
            if event["type"] == "ResultRefused" and event["token"]
        )
        for token, row in attempts.items():
            if row["experiment_id"] == name and (row["refused"] is None) != (refused[token] == 0):
                told.say("I5", row["run_id"], "the note of a refused result is not in the journal")
    for token in leases - set(attempts):
        wrong.append(f"I5 a lease of no attempt: {token}")


def _compare_results(told: Told, known: Known | None, ended: bool) -> None:
    for run_id, run in told.runs.items():
        if run.n_ends != (run.state in OVER):
            told.say("I1", run_id, f"it has ended {run.n_ends} times")
        if ended and run.state not in OVER:
            told.say("I1", run_id, f"it is {run.state}, and should be over")
        if known is None or run.state != "completed" or run.stopped:
            continue
        parameters = told.space["parameters"]
        values = {
            parameter["name"]: parameter["levels"][level]
            for parameter, level in zip(parameters, run.levels, strict=True)
        }
        expected = known(values)
        given = {name: run.measures.get(name) for name in expected}
        if given != expected:
            told.say("I2", run_id, f"its result is {given}, and should be {expected}")


def _compare_acknowledged(
    connection: sqlite3.Connection,
    tellings: Mapping[str, Told],
    acknowledged: list[Row],
    wrong: list[str],
) -> None:
    active = {
        row["id"]: bool(row["active"])
        for row in _rows(connection, "SELECT id, active FROM experiment")
    }
    wanted: dict[str, set[bool]] = {}
    for ack in acknowledged:
        if ack["told"] == "active":
            wanted[ack["experiment"]] = {ack["active"]}
        elif ack["told"] == "asked":
            wanted.setdefault(ack["experiment"], {False}).add(ack["active"])
    wrong += [
        f"I3 experiment '{name}' was told to be {'paused' if active.get(name) else 'active'}"
        for name, allowed in wanted.items()
        if name in active and active[name] not in allowed
    ]
    reached: Counter[tuple[str, int, str]] = Counter()
    for ack in acknowledged:
        if ack["told"] in ("active", "asked"):
            continue
        name, run_id = ack["experiment"], ack["run"]
        kind, agreeing = ACKNOWLEDGED[ack["told"]]
        events = tellings[name].by_run.get(run_id, []) if name in tellings else []
        key = (name, run_id, kind)
        while reached[key] < len(events):  # in their order: each is looked for behind the last
            event = events[reached[key]]
            reached[key] += 1
            if event["type"] == kind and all(_said(event, k) == ack.get(k) for k in agreeing):
                break
        else:
            promise = "I8" if kind == "RunPrioritised" else "I3"
            wrong.append(
                f"{promise} experiment '{name}', run {run_id}: '{ack['told']}' was acknowledged, "
                f"and is not in the journal: {json.dumps(ack)[:200]}"
            )


def _said(event: Row, name: str) -> Any:
    if event["type"] in ("RunCompleted", "RunStopped"):
        return event["outcome"]["measures"]
    return event[name]


def main() -> int:
    """Check one store; print what is wrong."""
    options = argparse.ArgumentParser(description="whether a store kept its promises")
    options.add_argument("store", type=Path)
    options.add_argument("--log", type=Path, help="what clients were told, a JSON object a line")
    options.add_argument("--max-attempts", type=int, default=3)
    options.add_argument("--ended", action="store_true", help="every run must be over")
    asked = options.parse_args()
    acknowledged: list[Row] = []
    if asked.log is not None:
        lines = asked.log.read_text().splitlines(keepends=True)
        # the client that was killed while it wrote a line had not finished saying it
        acknowledged = [json.loads(line) for line in lines if line.endswith("\n")]
    wrong = check(asked.store, acknowledged, max_attempts=asked.max_attempts, ended=asked.ended)
    sys.stdout.write("".join(f"{line}\n" for line in wrong) or "all promises kept\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
