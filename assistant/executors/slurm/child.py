"""The process beside a pilot in which runs are made, so that a run can be ended and can die."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from assistant.errors import StoppedError
from assistant.executors.attempt import attempt
from assistant.executors.slurm.ticket import Ticket, load_application
from assistant.objective import Measure, finite
from assistant.ports import Application, Oversight, Watchable, Work

REPORT_S = 0.5
"""Between two reports of one run; what comes sooner is kept until then."""

_PR_SET_PDEATHSIG = 1


def work(pipe: Connection, ticket: Ticket, pilot: int) -> None:
    """Make the runs that come through a pipe, until the pilot goes.

    It says ``("ready", whether a run can be told to end)`` or ``("broken", sentence)`` first, then
    ``("report", measures)`` now and then, and ``("result", completion)`` at the end of each run.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(pilot)
    try:
        sys.path.extend(one for one in ticket.path if one not in sys.path)
        application = load_application(ticket)
    except Exception as error:
        pipe.send(("broken", f"{type(error).__name__}: {error}"))
        return
    pipe.send(("ready", isinstance(application, Watchable)))
    with suppress(EOFError, OSError):
        while True:
            told = pipe.recv()
            if isinstance(told, Work):  # else a word to a run that is over
                pipe.send(("result", _made(application, told, pipe)))


def _made(application: Application, told: Work, pipe: Connection) -> Any:
    if not isinstance(application, Watchable):
        return attempt(application, told)
    watched = _Watched(application, _Overseer(pipe))
    return replace(attempt(watched, told), stopped=watched.stopped)


class _Overseer:
    """Tells the pilot what a run has measured so far, and hears whether it shall end."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._kept: Mapping[str, Measure] | None = None
        self._told_s = -REPORT_S
        self._ends = False

    def report(self, measures: Mapping[str, Measure]) -> None:
        self._kept = {name: finite(value) for name, value in measures.items()}
        self._tell()

    def wants_end(self) -> bool:
        self._tell()
        while not self._ends and self._pipe.poll(0):
            self._ends = self._pipe.recv() == "stop"
        return self._ends

    def _tell(self) -> None:
        if self._kept is not None and time.monotonic() - self._told_s >= REPORT_S:
            self._pipe.send(("report", self._kept))
            self._kept, self._told_s = None, time.monotonic()


class _Watched:
    """A watchable application with its oversight, as one whose runs can only be limited."""

    def __init__(self, application: Watchable, oversight: Oversight) -> None:
        self._application, self._oversight = application, oversight
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._application, name)

    def evaluate(self, values: Mapping[str, Any], seed: int) -> Mapping[str, Measure]:
        return self._evaluate(values, seed, None)

    def evaluate_within(
        self, values: Mapping[str, Any], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        return self._evaluate(values, seed, limit_s)

    def _evaluate(
        self, values: Mapping[str, Any], seed: int, limit_s: float | None
    ) -> Mapping[str, Measure]:
        try:
            return self._application.evaluate_watched(values, seed, limit_s, self._oversight)
        except StoppedError:
            self.stopped = True
            raise


def _die_with(pilot: int) -> None:
    """Lead a group, and be killed when the pilot is, in whatever way."""
    os.setpgid(0, 0)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != pilot:
        os._exit(1)
