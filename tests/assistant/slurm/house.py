"""A server for workers of Slurm with its dispatcher, a clock set by hand, and workers of tests."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assistant import Measure
from assistant.client.job_worker import JobLeases, link_of
from assistant.core.ports import ExecutionResult
from assistant.executors.slurm.dispatcher import PilotDispatcher
from assistant.executors.slurm.protocol import PilotTicket, new_id
from assistant.executors.slurm.server import WorkerServer

WITHIN_S = 120.0
VALUES = {"x": 1, "y": 0, "mode": "plain"}


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class House:
    """A dispatcher with its server, and what was told."""

    over: list[ExecutionResult]
    reports: list[tuple[int, Mapping[str, Measure]]]
    clock: Hand
    dispatcher: PilotDispatcher
    server: WorkerServer
    certificate: Path

    def ticket(self, **changes: Any) -> PilotTicket:
        """Return a ticket that counts."""
        ticket = PilotTicket(
            new_id(), secrets.token_hex(32), "127.0.0.1", self.server.port,
            self.certificate.read_text(), "", "", gone_s=600.0,
        )  # fmt: skip
        self.dispatcher.add(ticket.pilot, ticket.secret)
        return replace(ticket, **changes)

    def leases(self, ticket: PilotTicket | None = None) -> JobLeases:
        """Return the leases of a worker that has a ticket."""
        ticket = ticket or self.ticket()
        return JobLeases(link_of(ticket), ticket)


def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end_s = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


def result(**changes: Any) -> ExecutionResult:
    return replace(ExecutionResult(1, {"height": 2.0, "s": (1.0, 2.0)}, None, 0.5), **changes)
