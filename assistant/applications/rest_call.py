"""One run of a program that speaks HTTP: asked for, watched and ended, whatever it answers.

The conversation has a thread of its own, so that the thread that executes the run looks at its
limit and at whoever watches ten times a second, whatever the program does: keeps silent, answers
byte by byte, or not at all. A request that was not answered is repeated under the same key.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

from assistant.applications.measuring import WALL, measures_of
from assistant.applications.rest_address import token, within
from assistant.applications.rest_request import (
    ANSWER_S,
    CONNECT_S,
    FIRST_PAUSE_S,
    Answer,
    Asking,
    Over,
    Told,
    retry_after_s,
)
from assistant.errors import RunError, StoppedError
from assistant.objective import Objective, Value, finite
from assistant.ports import Oversight
from sim.api import format_duration

LOOK_S = 0.1
"""Between two looks at whoever watches."""
END_S = 5.0
"""So long the end of a run is waited for, and no result comes any more."""
GROWTH, MOST_PAUSE_S = 1.5, 5.0
"""Between two questions whether a run is over: a little longer each time, up to so many seconds."""

_GONE = frozenset((404, 410))
_KEYS = frozenset(("measures", "failure", "state"))
_UNASKED = Objective(Value(WALL))


def call(
    url: str, values: Mapping[str, Any], seed: int, limit_s: float | None, oversight: Oversight
) -> object:
    """Have a program make one run and return what it gave as measures, as it gave them.

    Args:
        url: where runs are asked for; checked.
        values: of the parameters.
        seed: of the run.
        limit_s: wall-clock seconds from now; then the run is ended.
        oversight: told what the program has measured so far, and asked whether to go on.

    Raises:
        StoppedError: the oversight wanted the end of the run; the program was told if it could be.
        RunError: no answer, none that can be used, a failure, or the limit.
    """
    body = {"values": dict(values), "seed": seed, "limit_s": limit_s}
    run = _Run(url, json.dumps(body, allow_nan=False).encode(), token())
    until_s = None if limit_s is None else time.monotonic() + limit_s
    with _Talk(run) as talk:
        while True:
            told = talk.hear(LOOK_S)
            if isinstance(told, Over):
                return told.measures
            if isinstance(told, Exception):
                raise told
            if told is not None:
                oversight.report(told)
            if oversight.wants_end():
                raise StoppedError(f"stopped early{talk.end()}")
            if until_s is not None and time.monotonic() >= until_s:
                raise RunError(f"stopped at the limit of {format_duration(limit_s)}{talk.end()}")


def describe(url: str) -> dict[str, object]:
    """Return what a program says of itself at its address: one JSON object.

    Raises:
        RunError: no answer, or none that can be used.
    """
    with _Talk(_Description(url, token())) as talk:
        while True:
            told = talk.hear(ANSWER_S)
            if isinstance(told, Over) and isinstance(told.measures, dict):
                return told.measures
            if isinstance(told, Exception):
                raise told


class _Description(Asking):
    """The question what a program can set."""

    async def converse(self, client: Any, said: "SimpleQueue[Told]") -> Over:  # noqa: ARG002
        return Over(self.object_of(await self.ask(client, "GET", self.url)))


class _Run(Asking):
    """The request for a run, and for its end."""

    def __init__(self, url: str, body: bytes, secret: str | None) -> None:
        super().__init__(url, secret)
        self._body = body
        self._location: str | None = None
        self._is_over = False

    async def converse(self, client: Any, said: "SimpleQueue[Told]") -> Over:
        answer = await self.ask(client, "POST", self.url, self._body)
        if answer.status != 202:
            told = self._told(answer)
            if isinstance(told, Over):
                return told
            raise RunError(
                f"{self.who} answered that the run goes on, but not where; answer 202 with "
                "Location, or 200 once it is over"
            )
        named = answer.headers.get("location")
        if not named:
            raise RunError(
                f"{self.who} answered 202 without Location; name where the run is asked for"
            )
        self._location = within(self.url, named)
        pause_s = retry_after_s(answer, FIRST_PAUSE_S)
        grown_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            answer = await self.ask(client, "GET", self._location)
            self._is_over = answer.status in _GONE
            told = self._told(answer)
            if isinstance(told, Over):
                return told
            said.put(told)
            grown_s = min(grown_s * GROWTH, MOST_PAUSE_S)
            pause_s = retry_after_s(answer, grown_s)

    async def end(self, client: Any) -> str:
        if self._is_over:
            return ""
        if self._location is None:
            return "; its connection was closed"
        try:
            answer = await self.ask(client, "DELETE", self._location, tries=2)
        except RunError as error:
            return f"; it could not be told so: {error}"
        if answer.status < 300 or answer.status in _GONE:
            return "; the program was told so"
        return f"; the program did not take that ({answer.status}{self.words(answer)})"

    def _told(self, answer: Answer) -> Told:
        """Return what an answer says of the run. Raises RunError if it failed, or says nothing."""
        found = self.object_of(answer)
        strange = sorted(found.keys() - _KEYS)
        if strange:
            raise RunError(
                f"{self.who} answered with '{self.hidden(strange[0])}'; an answer holds measures "
                "or failure, or state"
            )
        failure, measures, state = (found.get(key) for key in ("failure", "measures", "state"))
        if failure is not None and (not isinstance(failure, str) or not failure.strip()):
            raise RunError(f"{self.who} answered with a failure that is no text; say why in words")
        self._is_over = state is None
        if isinstance(failure, str):
            raise RunError(f"the program says: {self.clipped(failure)}")
        if state is not None and state != "running":
            raise RunError(
                f"{self.who} answered with a state that is not 'running'; once a run is over, "
                "leave state away and give measures or failure"
            )
        if state is None and measures is None:
            raise RunError(
                f"{self.who} answered with neither measures nor failure, nor the state 'running'"
            )
        if state is None:
            return Over(measures)
        so_far = {} if measures is None else measures_of(measures, _UNASKED, "the program")
        return {name: finite(value) for name, value in so_far.items()}


class _Talk(threading.Thread):
    """The thread of one conversation."""

    def __init__(self, asking: Asking) -> None:
        super().__init__(name="copperline-rest", daemon=True)
        self._asking = asking
        self._said: SimpleQueue[Told] = SimpleQueue()
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._loop: Final = asyncio.new_event_loop()
        self._wish = asyncio.Event()

    def hear(self, wait_s: float) -> Told | None:
        """Return the next thing that is told, the last of which is what came of it."""
        try:
            return self._said.get(timeout=wait_s)
        except Empty:
            return None

    def end(self) -> str:
        """End the conversation; return what a sentence about it goes on with."""
        self._wish_end()
        try:
            return self._ended.get(timeout=2 * END_S)
        except Empty:
            return "; it does not answer"

    def run(self) -> None:
        """Talk."""
        asyncio.set_event_loop(self._loop)
        try:
            self._said.put(self._loop.run_until_complete(self._main()))
        except Exception as error:
            self._said.put(error)
        except BaseException as error:
            self._said.put(RunError(f"the conversation was broken off ({type(error).__name__})"))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._ended.put("")

    async def _main(self) -> Told:
        import httpx

        url = self._asking.url
        verify = ssl.create_default_context() if url.startswith("https:") else False
        async with httpx.AsyncClient(
            headers=self._asking.headers(),
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            follow_redirects=False,
            trust_env=False,
            verify=verify,
        ) as client:
            work = asyncio.create_task(self._asking.converse(client, self._said))
            wish = asyncio.create_task(self._wish.wait())
            await asyncio.wait((work, wish), return_when=asyncio.FIRST_COMPLETED)
            wish.cancel()
            if work.done() and work.exception() is None:
                return work.result()
            work.cancel()  # what is not over will not be waited for any more
            await asyncio.wait((work,))
            try:
                self._ended.put(await asyncio.wait_for(self._asking.end(client), END_S))
            except TimeoutError:
                self._ended.put("; it could not be told so: it does not answer")
            return Over(None) if work.cancelled() else work.result()

    def _wish_end(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wish.set)
        except RuntimeError:  # the loop is closed: it is over
            return

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wish_end()
        self.join(2 * END_S)
