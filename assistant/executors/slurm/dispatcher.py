"""Dispatcher that assigns runs to pilots (worker jobs of Slurm), and its TCP server.

Runs are bound late: to the pilot that asks, not to a job that Slurm may start some day. A
message counts only in the newest session of a valid ticket, and a result only under the latest
attempt of its run. The server has one thread, signed frames, and a limit for everything.
"""

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.executors.serial import WORKER_DIED
from assistant.executors.slurm.protocol import (
    MOST_HEADER,
    FrameError,
    FrameHeader,
    completion_of,
    decode_body,
    decode_header,
    encode,
    measures_of,
    work_as_json,
)

MOST_HELLOS = 64
"""Largest number of sessions of one ticket: Slurm may requeue a job, but not for ever."""

LEASE_S = 15.0  # Seconds without a message after which a pilot is lost

UNPLUGGED_S = 5.0  # Seconds without a connection after which a connected pilot is lost

STOPPED = "the run was stopped early on request"

Answer = dict[str, Any]

END: Mapping[str, Any] = {"do": "end"}

Why = Literal["died", "ended"]

_WHYS = {
    "died": WORKER_DIED,
    "ended": "its Slurm job ended during the run; is the walltime long enough for a run?",
}


class ReplayError(FrameError):
    """Error: a pilot's request repeats a sequence number, as in a replay attack."""


@dataclass
class _Assignment:
    work: ExecutionRequest
    attempt: int
    place: int
    stop: bool = False


@dataclass
class _PilotRecord:
    secret: bytes
    session: str = ""
    counter: int = 0
    hellos: set[str] = field(default_factory=set)
    seen_s: float | None = None
    unplugged_s: float | None = None
    assignment: _Assignment | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class PilotState:
    """State of a pilot (worker job) with a valid ticket: whether it has connected and has a run."""

    has_reported: bool
    busy: bool


class PilotDispatcher:
    """Thread-safe dispatcher that assigns runs to pilots (worker jobs of Slurm)."""

    def __init__(
        self,
        over: Callable[[ExecutionResult], None],
        reported: Callable[[int, Mapping[str, Measure]], None],
        about: Mapping[str, str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._over, self._reported, self._now_s = over, reported, now_s
        self._about_us = dict(about or {})
        self._lock = threading.RLock()
        self._pilots: dict[str, _PilotRecord] = {}
        self._waiting: dict[int, ExecutionRequest] = {}
        self._n_taken, self._n_given = 0, 0
        self.on_change: Callable[[], None] = lambda: None
        self.n_heard = 0
        self.broken: str | None = None
        """Reason why no pilot can work; None if there is none."""

    # Called by the executor

    def add(self, pilot: str, secret: bytes) -> None:
        """Register the ticket of a new pilot, given by its id and secret."""
        with self._lock:
            self._pilots[pilot] = _PilotRecord(secret)

    def take(self, work: ExecutionRequest) -> None:
        """Queue a run; the next free pilot gets the run that has waited longest."""
        with self._lock:
            self._waiting[self._n_taken] = work
            self._n_taken += 1
        self.on_change()

    def stop(self, run_id: int) -> None:
        """End a waiting or running run early."""
        with self._lock:
            for pilot in self._pilots.values():
                if pilot.assignment is not None and pilot.assignment.work.run_id == run_id:
                    pilot.assignment.stop = True
            for place, work in list(self._waiting.items()):
                if work.run_id == run_id:
                    del self._waiting[place]
                    self._over(ExecutionResult(run_id, None, STOPPED, 0.0, stopped=True))

    def forget(self) -> list[str]:
        """Drop all runs, revoke the tickets of busy pilots, and return the ids of these pilots."""
        with self._lock:
            self._waiting.clear()
            busy = [name for name, pilot in self._pilots.items() if pilot.assignment is not None]
            for name in busy:
                self._pilots[name].assignment = None
                self._pilots[name].over = True
        self.on_change()
        return busy

    def end(self) -> None:
        """Drop all runs and revoke the tickets of all pilots."""
        with self._lock:
            self.forget()
            for pilot in self._pilots.values():
                pilot.over = True
        self.on_change()

    def revoke(self, name: str) -> None:
        """Revoke the ticket of a pilot; the run that the pilot executes is lost."""
        with self._lock:
            pilot = self._pilots[name]
            pilot.over = True
            self._put_back(pilot, "died")
        self.on_change()

    def expire(self) -> list[str]:
        """Revoke the tickets of pilots that are silent for too long, and return their ids."""
        with self._lock:
            now_s = self._now_s()
            silent = [name for name, entry in self._pilots.items() if _is_silent(entry, now_s)]
            for name in silent:
                self.revoke(name)
            return silent

    def pardon(self, slept_s: float) -> None:
        """Extend all pilot timeouts by the seconds in which this machine was suspended."""
        with self._lock:
            for pilot in self._pilots.values():
                if pilot.seen_s is not None:
                    pilot.seen_s += slept_s
                if pilot.unplugged_s is not None:
                    pilot.unplugged_s += slept_s

    def pilot_states(self) -> dict[str, PilotState]:
        """Return the state of each pilot with a valid ticket."""
        with self._lock:
            return {
                name: PilotState(bool(pilot.session), pilot.assignment is not None)
                for name, pilot in self._pilots.items()
                if not pilot.over
            }

    @property
    def n_runs(self) -> int:
        """Number of waiting and running runs."""
        with self._lock:
            n_assigned = sum(pilot.assignment is not None for pilot in self._pilots.values())
            return len(self._waiting) + n_assigned

    # Called by the server

    def secret(self, pilot: str) -> bytes | None:
        """Return the secret of a pilot's ticket, valid or revoked; None if unknown."""
        with self._lock:
            entry = self._pilots.get(pilot)
            return None if entry is None else entry.secret

    def admit(self, header: FrameHeader) -> bool:
        """Return whether a request is of the pilot's newest session; ReplayError if repeated."""
        with self._lock:
            pilot = self._pilots[header.pilot]
            if header.kind == "hello":
                if header.session in pilot.hellos:
                    raise ReplayError("this hello was sent before")
                pilot.hellos.add(header.session)
                if len(pilot.hellos) > MOST_HELLOS:
                    self.revoke(header.pilot)
            elif header.session == pilot.session:
                if header.counter <= pilot.counter:
                    raise ReplayError(f"question {header.counter} was asked before")
                pilot.counter = header.counter
            return header.kind == "hello" or header.session == pilot.session

    def answer(self, header: FrameHeader, body: Mapping[str, Any], session: str) -> Answer:
        """Return the reply to an admitted request, or raise FrameError if invalid."""
        with self._lock:
            pilot = self._pilots[header.pilot]
            if pilot.over:
                return dict(END)
            if header.kind == "hello":
                return self._begin(pilot, session, body)
            if header.session != pilot.session:
                return {**END, "why": "a newer session of the same ticket began"}
            pilot.seen_s, pilot.unplugged_s = self._now_s(), None
            if header.kind == "next":
                return self._next(pilot)
            if header.kind == "bye":
                return self._end(pilot, body)
            return self._about(pilot, header.kind, body)

    def plugged(self, name: str, session: str, *, there: bool) -> None:
        """Record whether the connection of a pilot's session is open."""
        with self._lock:
            pilot = self._pilots.get(name)
            if pilot is not None and pilot.session == session:
                pilot.unplugged_s = None if there else self._now_s()

    # Inside

    def _begin(self, pilot: _PilotRecord, session: str, body: Mapping[str, Any]) -> Answer:
        for name, expected in self._about_us.items():
            if body.get(name) != expected:
                self.broken = (
                    f"a pilot has {name} {str(body.get(name))[:60]}, this machine has {expected}; "
                    "install the same version on both"
                )
                return self._end(pilot, {})
        self._put_back(pilot, "died")  # fences off the session before
        pilot.session, pilot.counter = session, 0
        pilot.seen_s, pilot.unplugged_s = self._now_s(), None
        self.n_heard += 1
        return {"do": "go", "session": session}

    def _end(self, pilot: _PilotRecord, body: Mapping[str, Any]) -> Answer:
        if isinstance(body.get("broken"), str):
            self.broken = body["broken"]
        pilot.over = True
        self._put_back(pilot, "ended")
        return dict(END)

    def _next(self, pilot: _PilotRecord) -> Answer:
        if pilot.assignment is None:  # otherwise the answer was lost on its way
            if not self._waiting:
                return {"do": "wait"}
            place = min(self._waiting)
            self._n_given += 1
            pilot.assignment = _Assignment(self._waiting.pop(place), self._n_given, place)
        return {
            "do": "run", "attempt": pilot.assignment.attempt,
            "work": work_as_json(pilot.assignment.work),
        }  # fmt: skip

    def _about(self, pilot: _PilotRecord, kind: str, body: Mapping[str, Any]) -> Answer:
        assignment = pilot.assignment
        if assignment is None or body.get("attempt") != assignment.attempt:
            return {"do": "drop"}  # the run is not this pilot's any more
        if kind == "result":
            completion = completion_of(body.get("completion") or {})
            pilot.assignment = None
            self._over(replace(completion, run_id=assignment.work.run_id))
            return {"do": "go"}
        if kind == "lost":
            self._put_back(pilot, "ended" if body.get("why") == "ended" else "died")
            return {"do": "go"}
        if kind == "report" and not assignment.stop:
            self._reported(assignment.work.run_id, measures_of(body.get("measures")))
        return {"do": "stop" if assignment.stop else "go"}

    def _put_back(self, pilot: _PilotRecord, why: Why) -> None:
        assignment, pilot.assignment = pilot.assignment, None
        if assignment is None:
            return
        run_id = assignment.work.run_id
        if assignment.stop:
            self._over(ExecutionResult(run_id, None, STOPPED, 0.0, stopped=True))
        else:
            self._over(ExecutionResult(run_id, None, _WHYS[why], 0.0, lost=True))


def _is_silent(pilot: _PilotRecord, now_s: float) -> bool:
    if pilot.over or pilot.seen_s is None:
        return False
    unplugged_s = 0.0 if pilot.unplugged_s is None else now_s - pilot.unplugged_s
    return now_s - pilot.seen_s > LEASE_S or unplugged_s > UNPLUGGED_S


WAIT_S = 5.0

STRANGER_S = 5.0  # Seconds for the first header of a connection

IDLE_S = 120.0

BODY_S = 30.0  # Seconds for a body, and for sending an answer

MOST_STRANGERS = 64  # Largest number of connections that have not authenticated


class PilotServer:
    """TCP server for pilots (worker jobs) in its own thread; SettingsError if it cannot listen."""

    def __init__(self, desk: PilotDispatcher, host: str) -> None:
        self._dispatcher = desk
        try:
            family, *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server((host, 0), family=family, backlog=256)
        except OSError as error:
            raise SettingsError(
                f"cannot listen at '{host}' ({error.strerror or error}); set host in [executor] to "
                "an address of this machine that the nodes of the cluster can reach"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._strangers = 0
        self._plugged: dict[str, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slurm gate", daemon=True)
        self._thread.start()
        if not self._ready.wait(30.0):
            raise ExecutorError("the server for Slurm pilots did not start within 30 s")
        desk.on_change = self._changed

    def close(self) -> None:
        """Stop listening and close all connections."""
        self._dispatcher.on_change = lambda: None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(30.0)

    # In the thread

    def _run(self) -> None:
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing, self._change = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._come, sock=self._socket, limit=MOST_HEADER)
        self._ready.set()
        await self._closing.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _changed(self) -> None:
        """Wake the waiting connections; callable from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is over
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self._strangers >= MOST_STRANGERS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (FrameError, OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            pass  # no valid pilot: not answered, and a real one comes again
        except asyncio.CancelledError:
            pass  # the server closes
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._strangers += 1
        try:
            async with asyncio.timeout(STRANGER_S):
                header, secret = await self._header(reader)
                is_newest = self._dispatcher.admit(header)
        finally:
            self._strangers -= 1
        name, session = header.pilot, header.session
        if is_newest:  # an old session may repeat its message without effect
            before, self._plugged[name] = self._plugged.get(name), writer
            if before is not None:
                before.close()
        try:
            while True:
                async with asyncio.timeout(BODY_S):
                    body = decode_body(header, await reader.readexactly(header.length))
                answer = await self._answer(header, body, reader)
                session = str(answer.get("session", session))
                about = (header.pilot, header.session, header.counter, header.kind)
                writer.write(encode(secret, "answer", about, answer))
                async with asyncio.timeout(BODY_S):
                    await writer.drain()
                async with asyncio.timeout(IDLE_S):
                    header, secret = await self._header(reader)
                if header.pilot != name:
                    return
                self._dispatcher.admit(header)
        finally:
            if self._plugged.get(name) is writer:
                del self._plugged[name]
                self._dispatcher.plugged(name, session, there=False)

    async def _header(self, reader: asyncio.StreamReader) -> tuple[FrameHeader, bytes]:
        """Return the next header and the secret of its signature. Raises FrameError if invalid."""
        try:
            header = decode_header((await reader.readuntil(b"\n"))[:-1])
        except asyncio.LimitOverrunError as error:
            raise FrameError("the message header is not valid") from error
        secret = self._dispatcher.secret(header.pilot)
        if secret is None or not header.is_signed(secret, "ask"):
            raise FrameError("the signature is not valid")
        return header, secret

    async def _answer(
        self, header: FrameHeader, body: dict[str, Any], reader: asyncio.StreamReader
    ) -> dict[str, Any]:
        """Return the answer; delay a "wait" until something changes or `WAIT_S` is over."""
        until_s = self._loop.time() + WAIT_S
        session = secrets.token_hex(16)
        while True:
            change = self._change
            answer = self._dispatcher.answer(header, body, session)
            left_s = until_s - self._loop.time()
            if answer["do"] != "wait" or left_s <= 0:
                return answer
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await change.wait()
            if reader.at_eof():
                raise FrameError("the pilot has disconnected")
