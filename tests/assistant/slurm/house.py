"""A gate with its desk, a clock set by hand, and pilots that the tests play."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assistant import Measure
from assistant.core.ports import ExecutionResult
from assistant.executors.slurm import protocol
from assistant.executors.slurm.dispatcher import PilotDispatcher, PilotServer
from assistant.executors.slurm.protocol import PilotConnection, PilotTicket, new_id

WITHIN_S = 30.0
VALUES = {"x": 1, "y": 0, "mode": "plain"}


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class House:
    """A desk with its gate, and what was told."""

    over: list[ExecutionResult]
    reports: list[tuple[int, Mapping[str, Measure]]]
    clock: Hand
    desk: PilotDispatcher
    gate: PilotServer
    lines: list[PilotConnection] = field(default_factory=list)

    def ticket(self, **changes: Any) -> PilotTicket:
        """Return a ticket that counts."""
        ticket = PilotTicket(
            new_id(), os.urandom(32), "127.0.0.1", self.gate.port, "", "", gone_s=1.0
        )
        self.desk.add(ticket.pilot, ticket.secret)
        return replace(ticket, **changes)

    def silent(self, ticket: PilotTicket) -> PilotConnection:
        """Return a line on which nothing was said yet."""
        self.lines.append(PilotConnection(ticket))
        return self.lines[-1]

    def line(self, ticket: PilotTicket | None = None) -> PilotConnection:
        """Return a line on which hello was said."""
        line = self.silent(ticket or self.ticket())
        assert line.hello({})["do"] == "go"
        return line


def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end_s = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


def result(attempt: int, run_id: int = 1, **changes: Any) -> dict[str, Any]:
    done = replace(ExecutionResult(run_id, {"height": 2.0, "s": (1.0, 2.0)}, None, 0.5), **changes)
    return {"attempt": attempt, "completion": protocol.completion_as_json(done)}
