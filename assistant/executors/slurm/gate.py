"""The gate that pilots come to: one thread, signed frames over TCP, everything bounded.

Whoever has no ticket is not read beyond 1 KiB and not for longer than five seconds, and of such
connections there are only so many at once. Pilots keep theirs, so that a flood of strangers does
not reach those that are there.
"""

import asyncio
import contextlib
import secrets
import socket
import threading
from typing import Any

from assistant.errors import ExecutorError, SettingsError
from assistant.executors.slurm.desk import Desk
from assistant.executors.slurm.frames import (
    MOST_HEADER,
    FrameError,
    Header,
    decode_body,
    decode_header,
    encode,
)

WAIT_S = 5.0
"""How long a pilot with nothing to do is kept waiting for an answer."""

STRANGER_S = 5.0
"""How long the first header of a connection may take."""

IDLE_S = 120.0
"""How long a pilot may say nothing on its connection."""

BODY_S = 30.0
"""How long a body may take, and an answer to be taken."""

MOST_STRANGERS = 64
"""Connections at once that have not shown a ticket."""


class Gate:
    """Listens for pilots until it is closed.

    Args:
        desk: answers what they ask.
        host: address of this machine to listen at.

    Raises:
        SettingsError: this machine has no such address.
    """

    def __init__(self, desk: Desk, host: str) -> None:
        self._desk = desk
        try:
            family, *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server((host, 0), family=family, backlog=256)
        except OSError as error:
            raise SettingsError(
                f"cannot listen at '{host}' ({error.strerror or error}); host of [executor] is an "
                "address of this machine that the nodes of the cluster reach"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._strangers = 0
        self._plugged: dict[str, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slurm gate", daemon=True)
        self._thread.start()
        if not self._ready.wait(30.0):
            raise ExecutorError("the gate for Slurm's pilots did not start within 30 s")
        desk.on_change = self._changed

    def close(self) -> None:
        """Listen no more, and end every connection."""
        self._desk.on_change = lambda: None
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
        """Let everybody who waits look again; from any thread."""
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
            pass  # nothing that a pilot does: it is not answered, and comes again if it was one
        except asyncio.CancelledError:
            pass  # the gate closes
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._strangers += 1
        try:
            async with asyncio.timeout(STRANGER_S):
                header, secret = await self._header(reader)
                is_newest = self._desk.admit(header)
        finally:
            self._strangers -= 1
        name, session = header.pilot, header.session
        if is_newest:  # of a session that is fenced off, what was said may be said again
            before, self._plugged[name] = self._plugged.get(name), writer
            if before is not None:
                before.close()
        try:
            while True:
                async with asyncio.timeout(BODY_S):
                    body = decode_body(header, await reader.readexactly(header.length))
                told = await self._answer(header, body, reader)
                session = str(told.get("session", session))
                about = (header.pilot, header.session, header.counter, header.kind)
                writer.write(encode(secret, "answer", about, told))
                async with asyncio.timeout(BODY_S):
                    await writer.drain()
                async with asyncio.timeout(IDLE_S):
                    header, secret = await self._header(reader)
                if header.pilot != name:
                    return
                self._desk.admit(header)
        finally:
            if self._plugged.get(name) is writer:
                del self._plugged[name]
                self._desk.plugged(name, session, there=False)

    async def _header(self, reader: asyncio.StreamReader) -> tuple[Header, bytes]:
        """Return the next header and the secret that it is signed with.

        Raises:
            FrameError: it is none, or signed with no secret of a ticket.
        """
        try:
            header = decode_header((await reader.readuntil(b"\n"))[:-1])
        except asyncio.LimitOverrunError as error:
            raise FrameError("no header of a frame") from error
        secret = self._desk.secret(header.pilot)
        if secret is None or not header.is_signed(secret, "ask"):
            raise FrameError("nobody's signature")
        return header, secret

    async def _answer(
        self, header: Header, body: dict[str, Any], reader: asyncio.StreamReader
    ) -> dict[str, Any]:
        """Return the answer; one that says wait only after a while in which nothing came."""
        until_s = self._loop.time() + WAIT_S
        session = secrets.token_hex(16)
        while True:
            change = self._change
            told = self._desk.answer(header, body, session)
            left_s = until_s - self._loop.time()
            if told["do"] != "wait" or left_s <= 0:
                return told
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await change.wait()
            if reader.at_eof():
                raise FrameError("it has gone")
