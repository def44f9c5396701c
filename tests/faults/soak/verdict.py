"""Whether a round kept its promises: the checker's word on it, and what everybody was told."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.checker import check
from tests.faults.soak.app import BAD, height
from tests.faults.soak.people import AGAIN

if TYPE_CHECKING:
    from tests.faults.soak.driver import Round

import sqlite3


def verdict(played: "Round", folder: Path, store: Path, touched: set[str]) -> None:
    """Add to a round what is wrong with its store, and what happened in numbers."""
    told = _told(folder)
    known = {"function": height, "command": height}
    played.wrong += check(store, told, ended=True, known=known)
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    journals: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, body in connection.execute(
        "SELECT experiment_id, body FROM event ORDER BY experiment_id, position"
    ):
        journals[name].append(json.loads(body))
    (replies,) = connection.execute("SELECT count(*) FROM reply").fetchone()
    connection.close()
    counts: Counter[str] = Counter()
    for events in journals.values():
        _look(played, events, counts, touched)
    counts["answers checked"] = len(told)
    counts["requests kept with their answer"] = replies
    played.notes.update(counts)


def _told(folder: Path) -> list[dict[str, Any]]:
    """Return what everybody was told: claims of a run in their order, all else by time.

    A claim may be read long after it was made, by a worker that was stopped meanwhile.
    """
    lines = []
    for path in sorted(folder.glob("*.told")):
        whole = [x for x in path.read_text().splitlines(keepends=True) if x.endswith("\n")]
        lines += [json.loads(line) for line in whole]
    leases = [line for line in lines if line["told"] == "claimed"]
    others = [line for line in lines if line["told"] != "claimed"]
    return sorted(leases, key=lambda x: x["attempt"]) + sorted(others, key=lambda x: x["at"])


def _look(
    played: "Round", events: list[dict[str, Any]], counts: Counter[str], touched: set[str]
) -> None:
    kind = events[0]["application"]
    behaviours = ("good", *BAD[kind])
    asked: set[str] = set()
    good: dict[int, str] = {}
    starts: dict[int, str] = {}
    for event in events:
        run_id = event.get("run_id")
        match event["type"]:
            case "RunSubmitted":
                good[run_id] = behaviours[event["configuration"]["level_ids"][4]]
                counts["runs"] += 1
                if event["reason"].startswith(AGAIN) and event["reason"] in asked:
                    played.wrong.append(f"I3 duplicated: run {run_id} of {kind}, {event['reason']}")
                asked.add(event["reason"])
            case "RunStarted":
                starts[run_id] = event["worker"]
                counts["claims"] += 1
            case "RunReturned" if event.get("lost"):
                counts["claims taken back"] += 1
                if good[run_id] != "poison" and starts[run_id] not in touched:
                    counts["of them from workers that lived on, unheard"] += 1
            case "ResultRefused":
                counts["late results refused"] += 1
            case "RunCompleted":
                counts["completed"] += 1
                if good[run_id] != "good":
                    played.wrong.append(f"I2 run {run_id} of {kind} completed: {good[run_id]}")
            case "RunCancelled":
                counts["cancelled"] += 1
            case "RunFailed":
                counts["failed"] += 1
                _failed(played, event, good[run_id], kind, counts)


def _failed(
    played: "Round", event: dict[str, Any], behaviour: str, kind: str, counts: Counter[str]
) -> None:
    """A run fails of what it does, or of three lost workers; nothing else may be said of it."""
    words = {
        "raise": "ArithmeticError", "nan": "nan", "exit": "exit code 1", "crash": "",
        "hang": "", "garbage": "JSON",
    }  # fmt: skip
    failure = event["failure"]
    if "not tried again" in failure:
        counts["given up after three lost workers" + (", good" if behaviour == "good" else "")] += 1
        return
    if behaviour in ("good", "poison") or words[behaviour] not in failure:
        played.wrong.append(
            f"I2 run {event['run_id']} of {kind} ({behaviour}) failed of: {failure}"
        )
