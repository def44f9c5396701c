"""Pilot, the program in each Slurm job: ``python -m assistant.executors.slurm.pilot TICKET``.

It asks for one run after another and executes them in a child process, so that a run can be ended
and can crash. It ends when its ticket is revoked, no run comes for a while, its walltime is nearly
over, or the server is unreachable.
"""

import ctypes
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType
from typing import Any

from assistant.core.errors import AssistantError
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionRequest, ExecutionResult, MonitoredApplication
from assistant.executors.serial import RunReporter, execute_run
from assistant.executors.slurm.dispatcher import STOPPED
from assistant.executors.slurm.protocol import (
    FrameError,
    PilotConnection,
    PilotTicket,
    completion_as_json,
    load_application,
    read_ticket,
    work_of,
)

REPORT_S = 0.5  # Seconds between two intermediate results of one run; earlier ones wait

_PR_SET_PDEATHSIG = 1


def serve_runs(pipe: Connection, ticket: PilotTicket, pilot: int) -> None:
    """Execute the runs received through a pipe until the parent process (id ``pilot``) ends.

    It first sends ``("ready", whether a run can be ended)`` or ``("broken", sentence)``, then
    ``("report", measures)`` now and then, and ``("result", completion)`` at the end of each run.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(pilot)
    try:
        sys.path.extend(folder for folder in ticket.path if folder not in sys.path)
        application = load_application(ticket)
    except Exception as error:
        pipe.send(("broken", f"{type(error).__name__}: {error}"))
        return
    pipe.send(("ready", isinstance(application, MonitoredApplication)))
    with suppress(EOFError, OSError):
        while True:
            message = pipe.recv()
            if isinstance(message, ExecutionRequest):  # otherwise a message about an ended run
                watched = RunReporter(
                    lambda measures: pipe.send(("report", measures)),
                    _StopSignal(pipe).want_end,
                    REPORT_S,
                )
                pipe.send(("result", execute_run(application, message, watched)))


def _telling(pipe: Connection) -> Callable[[Mapping[str, Measure]], None]:
    return lambda measures: pipe.send(("report", measures))


class _StopSignal:
    """Signal through the pipe that the running run shall end."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._ends = pipe, False

    def want_end(self) -> bool:
        while not self._ends and self._pipe.poll(0):
            self._ends = self._pipe.recv() == "stop"
        return self._ends


def _die_with(pilot: int) -> None:
    """Lead a process group, and be killed when the pilot dies."""
    os.setpgid(0, 0)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != pilot:
        os._exit(1)


HEARTBEAT_S = 1.0

STOP_S = 10.0  # Seconds that a run may take to end on request, before its process is killed

LAST_WORDS_S = 3.0

START_S = 120.0  # Seconds that the child process may take to load the application

MARGIN_S = 30.0
"""Seconds before the end of its walltime at which a pilot ends; at most a tenth of it."""


class _TerminatedError(Exception):
    """Slurm has sent SIGTERM to this job."""


class _PilotFinishedError(Exception):
    """The pilot has finished, for the given reason."""


class ApplicationLoadError(AssistantError):
    """Error: the application cannot be loaded on the node."""


class RunnerProcess:
    """Child process of a pilot that executes runs, restarted after a crash."""

    def __init__(self, ticket: PilotTicket) -> None:
        self._ticket = ticket
        self._process: ForkProcess | None = None

    def start(self) -> None:
        """Start the child process unless it is running, or raise ApplicationLoadError."""
        if self._process is not None and self._process.is_alive():
            return
        self.kill()
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve_runs, args=(theirs, self._ticket, os.getpid()))
        self._process.start()
        theirs.close()
        try:
            status, about = self.pipe.recv() if self.pipe.poll(START_S) else ("broken", "too slow")
        except EOFError:
            status, about = "broken", "its process died"
        if status != "ready":
            raise ApplicationLoadError(
                f"the application cannot be loaded on {platform.node()}: {about}"
            )
        self.is_watchable = bool(about)

    def receive(self, within_s: float) -> tuple[str, Any] | None:
        """Return the next message, ``("died", None)`` after a crash, or None on a timeout."""
        if self._process is None:
            return "died", None
        if not wait([self.pipe, self._process.sentinel], max(0.0, within_s)):
            return None
        try:
            message: tuple[str, Any] = self.pipe.recv() if self.pipe.poll(0) else ("died", None)
        except (EOFError, OSError):
            return "died", None
        return message

    def kill(self) -> None:
        """Kill the child process and its process group."""
        if self._process is None or self._process.pid is None:
            return
        for killed in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                killed(self._process.pid, signal.SIGKILL)
        self._process.join()
        self.pipe.close()
        self._process = None


class Pilot:
    """Worker process in one Slurm job, which executes runs until none is left."""

    def __init__(self, ticket: PilotTicket) -> None:
        self._ticket = ticket
        self._line = PilotConnection(ticket)
        self._beside = RunnerProcess(ticket)
        self._began_s = time.monotonic()
        self._longest_s = 0.0
        self._attempt: int | None = None

    def fly(self) -> str:
        """Execute runs until none is left or the pilot must end; return the reason for the end."""
        try:
            about = {"version": version("copperline"), "python": platform.python_version()}
            if self._line.hello(about)["do"] != "go":
                return "its ticket is not valid any more"
            self._beside.start()
            return self._serve()
        except ApplicationLoadError as error:
            self._line.ask("bye", {"broken": str(error)})
            raise
        except _PilotFinishedError as error:
            return str(error)
        except _TerminatedError:
            self._last_words("ended")
            return "Slurm ended the job"
        finally:
            self._beside.kill()
            self._line.close()

    def _serve(self) -> str:
        idle_since_s = time.monotonic()
        while True:
            if self._left_s < self._longest_s:
                self._line.ask("bye")
                return "the walltime is nearly over"
            answer = self._line.ask("next")
            if answer["do"] == "end":
                return "no more runs"
            if answer["do"] == "run":
                self._make(int(answer["attempt"]), work_of(answer["work"]))
                idle_since_s = time.monotonic()
            elif time.monotonic() - idle_since_s > self._ticket.idle_s:
                self._line.ask("bye")
                return "nothing to do"

    @property
    def _left_s(self) -> float:
        """Seconds left of the walltime, less a margin."""
        told_s = self._ticket.walltime_s
        if told_s is None:
            return float("inf")
        return self._began_s + told_s - min(MARGIN_S, told_s / 10) - time.monotonic()

    def _make(self, attempt: int, work: ExecutionRequest) -> None:
        self._beside.start()
        self._attempt = attempt
        began_s = time.monotonic()
        self._beside.pipe.send(work)
        kill_at_s: float | None = None
        beat_s = began_s + HEARTBEAT_S
        while True:
            message = self._beside.receive(beat_s - time.monotonic())
            answer = None
            if message is None:
                answer = self._say("heartbeat")
                beat_s = time.monotonic() + HEARTBEAT_S
            elif message[0] == "report":
                answer = self._say("report", measures=message[1])
            elif message[0] == "result":
                self._deliver(message[1])
                break
            elif message[0] == "died":
                self._beside.kill()
                self._say("lost", why="died")
                break
            if answer is not None and answer["do"] == "drop":
                self._beside.kill()
                break
            if answer is not None and answer["do"] == "stop" and kill_at_s is None:
                kill_at_s = time.monotonic() + (STOP_S if self._beside.is_watchable else 0.0)
                if self._beside.is_watchable:
                    self._beside.pipe.send("stop")
            if kill_at_s is not None and time.monotonic() >= kill_at_s:
                self._beside.kill()
                took_s = time.monotonic() - began_s
                self._deliver(ExecutionResult(work.run_id, None, STOPPED, took_s, stopped=True))
                break
            if self._left_s < 0:
                self._beside.kill()
                self._say("lost", why="ended")
                self._line.ask("bye")
                raise _PilotFinishedError("the walltime is over")
        self._attempt = None
        self._longest_s = max(self._longest_s, time.monotonic() - began_s)

    def _deliver(self, completion: ExecutionResult) -> None:
        try:
            self._say("result", completion=completion_as_json(completion))
        except FrameError as error:
            failed = ExecutionResult(completion.run_id, None, str(error), completion.duration_s)
            self._say("result", completion=completion_as_json(failed))

    def _say(self, kind: str, **more: Any) -> dict[str, Any]:
        """Send a message on the current run; raise if the ticket is not valid any more."""
        answer = self._line.ask(kind, {"attempt": self._attempt, **more})
        if answer["do"] == "end":
            raise _PilotFinishedError(str(answer.get("why", "its ticket is not valid any more")))
        return answer

    def _last_words(self, why: str) -> None:
        self._beside.kill()
        with suppress(AssistantError):
            if self._attempt is not None:
                self._line.ask("lost", {"attempt": self._attempt, "why": why}, LAST_WORDS_S)
            self._line.ask("bye", None, LAST_WORDS_S)


def _told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def main(arguments: list[str]) -> int:
    """Read the ticket file named in the arguments, execute runs, and return the exit code."""
    signal.signal(signal.SIGTERM, _told)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        why = Pilot(read_ticket(Path(arguments[0]))).fly()
    except _TerminatedError:
        return 0
    except AssistantError as error:
        sys.stderr.write(f"pilot: {error}\n")
        return 1
    sys.stderr.write(f"pilot: {why}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
