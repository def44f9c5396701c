"""The process beside a pilot in which runs are made, so that a run can be ended and can die."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection

from assistant.executors.attempt import Overseer, attempt
from assistant.executors.slurm.ticket import Ticket, load_application
from assistant.objective import Measure
from assistant.ports import Watchable, Work

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
                watched = Overseer(
                    lambda measures: pipe.send(("report", measures)),
                    _Words(pipe).want_end,
                    REPORT_S,
                )
                pipe.send(("result", attempt(application, told, watched)))


def _telling(pipe: Connection) -> Callable[[Mapping[str, Measure]], None]:
    return lambda measures: pipe.send(("report", measures))


class _Words:
    """What comes through the pipe while a run goes on: at most that it shall end."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._ends = pipe, False

    def want_end(self) -> bool:
        while not self._ends and self._pipe.poll(0):
            self._ends = self._pipe.recv() == "stop"
        return self._ends


def _die_with(pilot: int) -> None:
    """Lead a group, and be killed when the pilot is, in whatever way."""
    os.setpgid(0, 0)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != pilot:
        os._exit(1)
