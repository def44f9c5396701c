"""HTTP client that asks an external program to execute a run, polls the run, and can end it.

A request without an answer is repeated with the same key, so that the program can recognise
repetitions. Answers have a bounded length; every other outcome is an error with one sentence.
The end of the module has a small server in a thread, for the example of `rest`.
"""

import asyncio
import json
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler
from queue import Empty, SimpleQueue
from secrets import token_hex
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, Final, Self

from assistant.applications.measures import WALL, from_json, last_lines, measures_of
from assistant.applications.rest_address import TOKEN, address_within, token
from assistant.core.errors import RunError, RunStoppedError
from assistant.core.objective import Measure, Objective, SingleMeasure, finite
from assistant.core.ports import RunControl
from sim.api import format_duration

MOST_BYTES = 1 << 20  # Largest answer in bytes; the rest is not read
CONNECT_S = 10.0
ANSWER_S = 30.0  # Longest time for an answer, in seconds; the request for a run has no such limit
TRIES = 6  # Attempts per request, about 3 s in all, in which a program can restart
FIRST_PAUSE_S = 0.1
MOST_RETRY_S = 60.0

_NOT_NOW = frozenset((429, 502, 503, 504))
_WORDS = ("failure", "detail", "error", "message")
_MOST_WORDS = 400


@dataclass(frozen=True, slots=True)
class FinalMessage:
    """The last message of an HTTP conversation with a program: the measures of the run."""

    measures: object


ProgramMessage = FinalMessage | Exception | dict[str, Measure]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    text: str


class ProgramRequest(ABC):
    """An HTTP conversation with one program, in which failed requests are repeated."""

    def __init__(self, url: str, secret: str | None) -> None:
        self.url, self._secret = url, secret
        self._key = token_hex(16)

    @abstractmethod
    async def converse(self, client: Any, messages: "SimpleQueue[ProgramMessage]") -> FinalMessage:
        """Send the HTTP requests of the conversation and return the final message."""

    async def end(self, client: Any) -> str:  # noqa: ARG002 - nothing has begun
        """Ask the program to end its run, and return the outcome as part of an error message."""
        return ""

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of every request."""
        headers = {
            "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "copperline",
        }  # fmt: skip
        return (
            headers
            if self._secret is None
            else {**headers, "Authorization": f"Bearer {self._secret}"}
        )

    async def ask(
        self,
        client: Any,
        method: str,
        url: str,
        body: bytes | None = None,
        tries: int | None = None,
    ) -> HttpAnswer:
        """Send a request and return the response. Raises RunError if there is none."""
        tries = TRIES if tries is None else tries
        for attempt in range(1, tries + 1):
            pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1)
            try:
                answer = await self._once(client, method, url, body)
            except _UnreachableError as error:
                if attempt == tries or not error.again:
                    raise RunError(str(error)) from error
            else:
                if attempt == tries or answer.status not in _NOT_NOW:
                    return answer
                pause_s = retry_after_s(answer, pause_s)
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, client: Any, method: str, url: str, body: bytes | None) -> HttpAnswer:
        import httpx

        more = {} if body is None else {
            "Content-Type": "application/json", "Idempotency-Key": self._key,
        }  # fmt: skip
        try:
            async with asyncio.timeout(ANSWER_S if body is None else None):
                request = client.build_request(method, url, content=body, headers=more)
                return await self._read(await client.send(request, stream=True))
        except TimeoutError as error:
            raise _UnreachableError(
                f"{self.program} did not answer within {ANSWER_S:g} s"
            ) from error
        except httpx.ConnectTimeout as error:
            raise _UnreachableError(
                f"{self.program} cannot be reached within {CONNECT_S:g} s"
            ) from error
        except httpx.ConnectError as error:
            raise _unreached(self.program, error) from error
        except httpx.RemoteProtocolError as error:
            silent = "without sending" in str(error) or "incomplete" in str(error)
            how = "closed the connection too early" if silent else "does not answer in HTTP"
            raise _UnreachableError(f"{self.program} {how} ({error})", again=silent) from error
        except httpx.TransportError as error:
            raise _UnreachableError(f"{self.program} closed the connection") from error

    @property
    def program(self) -> str:
        """The name of the program in error messages."""
        return f"the program at {self.url}"

    async def _read(self, response: Any) -> HttpAnswer:
        """Return a complete answer. Raises RunError if it is compressed or too long."""
        try:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise RunError(
                    f"{self.program} sent a compressed answer, which is not supported; send no "
                    "Content-Encoding"
                )
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise RunError(
                        f"{self.program} sent an answer of more than {MOST_BYTES:,} bytes; send "
                        "only the measures, as numbers by name"
                    )
        finally:
            await response.aclose()
        strict = "strict" if response.status_code < 300 else "replace"
        try:
            text = bytes(body).decode("utf-8", strict)
        except UnicodeDecodeError as error:
            raise RunError(
                f"{self.program} sent an answer that is not UTF-8, at byte {error.start + 1}"
            ) from error
        headers = {name: self.hidden(value) for name, value in response.headers.items()}
        return HttpAnswer(response.status_code, headers, self.hidden(text))

    def hidden(self, text: str) -> str:
        """Return a text with the secret token masked, in case the program repeats the token."""
        return text if self._secret is None else text.replace(self._secret, f"${TOKEN}")

    def clipped(self, text: str) -> str:
        """Return the last lines of a text without the token, joined into one short line."""
        return last_lines(self.hidden(text))[:_MOST_WORDS]

    def object_of(self, answer: HttpAnswer) -> dict[str, object]:
        """Return the JSON object in a response. Raises RunError for any other content."""
        if answer.status >= 400:
            raise RunError(f"{self.program} answered with {answer.status}{self.words(answer)}")
        if 300 <= answer.status < 400:
            raise RunError(
                f"{self.program} redirects to another address ({answer.status}), which is not "
                "followed; write its current address"
            )
        if answer.status not in (200, 202):
            raise RunError(f"{self.program} answered with {answer.status} instead of 200 or 202")
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise RunError(
                f"{self.program} answered with {kind or 'no content type'}; its Content-Type must "
                "be application/json"
            )
        body = from_json(answer.text, f"the answer of {self.program}")
        if not isinstance(body, dict):
            raise RunError(f"{self.program} answered JSON that is not an object; write {{...}}")
        return body

    def words(self, answer: HttpAnswer) -> str:
        """Return the error message in a response as one line that can end an error message."""
        text = answer.text
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            candidates = (body.get(name) for name in _WORDS)
            text = next(
                (candidate for candidate in candidates if isinstance(candidate, str) and candidate),
                text,
            )
        words = self.clipped(text)
        return f"; message: {words}" if words else "; it sent no message"


class _UnreachableError(Exception):
    """A request without an answer; ``again`` if another attempt may help."""

    def __init__(self, sentence: str, again: bool = True) -> None:
        super().__init__(sentence)
        self.again = again


def _unreached(program: str, error: Exception) -> _UnreachableError:
    cause: BaseException | None = error
    reason = str(error)
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return _UnreachableError(
                f"{program} is not trusted: {cause.reason or cause}; its certificate must be of an "
                "authority that this machine trusts",
                again=False,
            )
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return _UnreachableError(f"{program} cannot be reached ({reason}); is it running?")


def retry_after_s(answer: HttpAnswer, usual_s: float) -> float:
    """Return the pause (s) that Retry-After asks for, within bounds, or ``usual_s`` without it."""
    try:
        wished_s = float(answer.headers.get("retry-after", ""))
    except ValueError:  # absent, or a date
        return usual_s
    return min(max(FIRST_PAUSE_S, wished_s), MOST_RETRY_S)


LOOK_S = 0.1  # Seconds between two checks of the run control
END_S = 5.0  # Longest wait for the end of a run, in seconds; a result is not expected any more
GROWTH, MOST_PAUSE_S = 1.5, 5.0
"""Pause between two polls of a run: it grows by this factor, up to so many seconds."""

_GONE = frozenset((404, 410))
_KEYS = frozenset(("measures", "failure", "state"))
_UNASKED = Objective(SingleMeasure(WALL))


def request_run(
    url: str, values: Mapping[str, Any], seed: int, limit_s: float | None, oversight: RunControl
) -> object:
    """Request one run from a program over HTTP and return its measures unchanged.

    Raises:
        StoppedError: the run control ended the run; the program was informed if possible.
        RunError: no usable answer, a failure, or the time limit.
    """
    body = {"values": dict(values), "seed": seed, "limit_s": limit_s}
    run = _RunRequest(url, json.dumps(body, allow_nan=False).encode(), token())
    until_s = None if limit_s is None else time.monotonic() + limit_s
    with _RequestThread(run) as talk:
        while True:
            message = talk.hear(LOOK_S)
            if isinstance(message, FinalMessage):
                return message.measures
            if isinstance(message, Exception):
                raise message
            if message is not None:
                oversight.report(message)
            if oversight.wants_end():
                raise RunStoppedError(f"stopped early{talk.end()}")
            if until_s is not None and time.monotonic() >= until_s:
                raise RunError(f"stopped at the limit of {format_duration(limit_s)}{talk.end()}")


def request_description(url: str) -> dict[str, object]:
    """Fetch a program's JSON description of itself. Raises RunError without a usable one."""
    with _RequestThread(_DescriptionRequest(url, token())) as talk:
        while True:
            message = talk.hear(ANSWER_S)
            if isinstance(message, FinalMessage) and isinstance(message.measures, dict):
                return message.measures
            if isinstance(message, Exception):
                raise message


class _DescriptionRequest(ProgramRequest):
    async def converse(self, client: Any, messages: "SimpleQueue[ProgramMessage]") -> FinalMessage:  # noqa: ARG002
        return FinalMessage(self.object_of(await self.ask(client, "GET", self.url)))


class _RunRequest(ProgramRequest):
    """The request for a run, the polls of its state, and the request to end it."""

    def __init__(self, url: str, body: bytes, secret: str | None) -> None:
        super().__init__(url, secret)
        self._body = body
        self._location: str | None = None
        self._is_over = False

    async def converse(self, client: Any, messages: "SimpleQueue[ProgramMessage]") -> FinalMessage:
        answer = await self.ask(client, "POST", self.url, self._body)
        if answer.status != 202:
            message = self._told(answer)
            if isinstance(message, FinalMessage):
                return message
            raise RunError(
                f"{self.program} answered that the run is running, without its address; answer "
                "202 with Location, or 200 at the end of the run"
            )
        location = answer.headers.get("location")
        if not location:
            raise RunError(
                f"{self.program} answered 202 without Location; send the address of the run in it"
            )
        self._location = address_within(self.url, location)
        pause_s = retry_after_s(answer, FIRST_PAUSE_S)
        grown_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            answer = await self.ask(client, "GET", self._location)
            self._is_over = answer.status in _GONE
            message = self._told(answer)
            if isinstance(message, FinalMessage):
                return message
            messages.put(message)
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
            return f"; the program could not be informed: {error}"
        if answer.status < 300 or answer.status in _GONE:
            return "; the program was informed"
        return f"; the program did not end it ({answer.status}{self.words(answer)})"

    def _told(self, answer: HttpAnswer) -> ProgramMessage:
        """Return the message in an answer. Raises RunError for a failure or an invalid one."""
        body = self.object_of(answer)
        strange = sorted(body.keys() - _KEYS)
        if strange:
            raise RunError(
                f"{self.program} answered with '{self.hidden(strange[0])}'; an answer contains "
                "measures, failure or state"
            )
        failure, measures, state = (body.get(key) for key in ("failure", "measures", "state"))
        if failure is not None and (not isinstance(failure, str) or not failure.strip()):
            raise RunError(
                f"{self.program} answered with a failure that is not text; send the reason as text"
            )
        self._is_over = state is None
        if isinstance(failure, str):
            raise RunError(f"the program reported: {self.clipped(failure)}")
        if state is not None and state != "running":
            raise RunError(
                f"{self.program} answered with a state that is not 'running'; at the end of a "
                "run, send no state, but measures or failure"
            )
        if state is None and measures is None:
            raise RunError(
                f"{self.program} answered with neither measures nor failure, nor the state "
                "'running'"
            )
        if state is None:
            return FinalMessage(measures)
        so_far = {} if measures is None else measures_of(measures, _UNASKED, "the program")
        return {name: finite(value) for name, value in so_far.items()}


class _RequestThread(threading.Thread):
    def __init__(self, asking: ProgramRequest) -> None:
        super().__init__(name="copperline-rest", daemon=True)
        self._asking = asking
        self._said: SimpleQueue[ProgramMessage] = SimpleQueue()
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._loop: Final = asyncio.new_event_loop()
        self._wish = asyncio.Event()

    def hear(self, wait_s: float) -> ProgramMessage | None:
        """Return the next message of the conversation, or None after ``wait_s`` seconds."""
        try:
            return self._said.get(timeout=wait_s)
        except Empty:
            return None

    def end(self) -> str:
        """End the conversation and return a clause for the error message."""
        self._wish_end()
        try:
            return self._ended.get(timeout=2 * END_S)
        except Empty:
            return "; the program does not answer"

    def run(self) -> None:
        """Run the conversation in an event loop of this thread."""
        asyncio.set_event_loop(self._loop)
        try:
            self._said.put(self._loop.run_until_complete(self._main()))
        except Exception as error:
            self._said.put(error)
        except BaseException as error:
            self._said.put(RunError(f"the connection was interrupted ({type(error).__name__})"))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._ended.put("")

    async def _main(self) -> ProgramMessage:
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
            work.cancel()  # no caller waits for it any more
            await asyncio.wait((work,))
            try:
                self._ended.put(await asyncio.wait_for(self._asking.end(client), END_S))
            except TimeoutError:
                self._ended.put("; the program could not be informed: it does not answer")
            return FinalMessage(None) if work.cancelled() else work.result()

    def _wish_end(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wish.set)
        except RuntimeError:  # the loop is closed: the conversation is over
            return

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wish_end()
        self.join(2 * END_S)


@cache
def sample_url() -> str:
    """Start the sample program, a local HTTP server, and return its URL."""
    server = _SampleServer(("127.0.0.1", 0), _SampleHandler)
    Thread(target=server.serve_forever, name="copperline-sample", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/runs"


class _SampleServer(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


class _SampleHandler(BaseHTTPRequestHandler):
    """A known function of x and mode; x = 3 is a failure."""

    def do_POST(self) -> None:
        """Answer an HTTP request for a run with sample measures."""
        request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        x, mode = request_body["values"]["x"], request_body["values"]["mode"]
        reply: dict[str, object] = {"failure": "three is too many"}
        if x != 3:
            reply = {
                "measures": {"height": (x - 2) ** 2 + len(mode), "luck": request_body["seed"] % 7}
            }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is named there
        """Ignore a log message."""
