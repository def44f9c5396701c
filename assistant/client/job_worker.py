"""Worker in a job of Slurm: ``python -m assistant.client.job_worker TICKET``.

It leases one run after another from the executor that has submitted the job, and executes them in a
child process, so that a run can be ended and can crash. It ends when its ticket is revoked, no run
comes for a while, its walltime is nearly over, or the executor does not answer.
"""

from __future__ import annotations

import os
import platform
import secrets
import signal
import ssl
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from assistant.client.api import ApiClient
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    LeaseLostError,
    ServiceError,
)
from assistant.core.ports import Application, ExecutionResult, RunLease
from assistant.executors import make_executor
from assistant.executors.slurm.dispatcher import ENDED
from assistant.executors.slurm.protocol import (
    PilotTicket,
    about_as_header,
    load_application,
    read_ticket,
)
from assistant.executors.spec import ExecutorSpec
from assistant.session.execution_loop import Patience, ProcessEndedError

MARGIN_S = 30.0
"""Seconds before the end of its walltime at which a worker ends; at most a tenth of it."""

TRIES = 3  # Attempts of one request; the loop repeats it for longer


class JobLeases(HttpLeaseSource):
    """Source of leases for a job, which loses its lease when the executor is away for too long."""

    def __init__(self, link: ApiClient, ticket: PilotTicket) -> None:
        name = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
        super().__init__(link, only="slurm", worker=name)
        self._gone_s = ticket.gone_s
        self._began_s, self._heard_s = time.monotonic(), time.monotonic()
        self._leased_s = self._began_s
        self._longest_s = 0.0
        self._walltime_s = ticket.walltime_s

    @property
    def left_s(self) -> float:
        """Seconds left of the walltime, less a margin; infinite without one."""
        if self._walltime_s is None:
            return float("inf")
        end_s = self._began_s + self._walltime_s - min(MARGIN_S, self._walltime_s / 10)
        return end_s - time.monotonic()

    @property
    def is_nearly_over(self) -> bool:
        """Whether a run as long as the longest so far would not end within the walltime."""
        return self.left_s < self._longest_s

    def lease(self) -> RunLease | None:
        """Lease the next run and return it, or None if no run may start."""
        lease = super().lease()
        self._leased_s = self._heard_s = time.monotonic()
        if lease is not None:
            sys.stderr.write(f"worker: run {lease.run_id} begins\n")
        return lease

    def heartbeat(self, token: str) -> float:
        """Renew a lease, or raise LeaseLostError if it is lost or nobody answers."""
        try:
            lease_s = super().heartbeat(token)
        except AccessDeniedError:
            raise
        except ServiceError as error:
            if time.monotonic() - self._heard_s > self._gone_s:
                raise LeaseLostError(str(error)) from error
            raise
        self._heard_s = time.monotonic()
        return lease_s

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Send the result of a leased run, or raise LeaseLostError if it is refused."""
        super().complete(token, completion)
        self._longest_s = max(self._longest_s, time.monotonic() - self._leased_s)


def link_of(ticket: PilotTicket) -> ApiClient:
    """Return the client of the executor's server, whose certificate alone is accepted."""
    tls = ssl.create_default_context(cadata=ticket.certificate)
    tls.check_hostname = False  # there is one certificate, whatever the host is called
    host = f"[{ticket.host}]" if ":" in ticket.host else ticket.host
    return ApiClient(
        f"https://{host}:{ticket.port}", ticket.secret, tries=TRIES, tls=tls,
        headers=about_as_header(),
    )  # fmt: skip


def work(ticket: PilotTicket) -> str:
    """Execute runs until none is left or the job must end; return the reason for the end."""
    os.environ["PYTHONUNBUFFERED"] = "1"  # what a run prints is in the log, also if it crashes
    link = link_of(ticket)
    application = _application(ticket, link)
    leases = JobLeases(link, ticket)
    main = threading.get_ident()
    worker = Worker(
        leases,
        lambda _lease: make_executor(application, 1, ExecutorSpec("process_pool")),
        say=lambda sentence: sys.stderr.write(f"worker: {sentence}\n"),
        lost=lambda: signal.pthread_kill(main, signal.SIGUSR1),
        patience=Patience(ticket.gone_s, ticket.gone_s),
    )
    signal.signal(signal.SIGUSR1, lambda _number, _frame: worker.abandon())
    if ticket.walltime_s is not None:
        timer = threading.Timer(max(0.0, leases.left_s), os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    try:
        worker.work(lambda: leases.is_nearly_over, time.sleep, idle_s=ticket.idle_s)
    except AccessDeniedError as error:
        return str(error)
    return "the walltime is nearly over" if leases.is_nearly_over else "nothing to do"


def _application(ticket: PilotTicket, link: ApiClient) -> Application:
    """Return the application of a ticket; tell the executor why it cannot be loaded here."""
    sys.path.extend(folder for folder in ticket.path if folder not in sys.path)
    try:
        return load_application(ticket)
    except Exception as error:
        reason = (
            f"the application cannot be loaded on {platform.node()}: "
            f"{type(error).__name__}: {error}"
        )
        link.change("POST", "/v1/broken", {"reason": reason[:4000]})
        raise AssistantError(reason) from error


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise ProcessEndedError(ENDED)


def main(arguments: list[str]) -> int:
    """Read the ticket file named in the arguments, execute runs, and return the exit code."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        why = work(read_ticket(Path(arguments[0])))
    except ProcessEndedError:
        sys.stderr.write("worker: the job was ended\n")
        return 0
    except AssistantError as error:
        sys.stderr.write(f"worker: {error}\n")
        return 1
    sys.stderr.write(f"worker: {why}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
