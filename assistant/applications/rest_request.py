"""Requests to a program that speaks HTTP: repeated while no answer comes, and answers read whole.

Whatever a program answers becomes an answer of bounded length, or one sentence. A request that
was not answered is repeated under the same key, so that a program can do once what came twice.
"""

import asyncio
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from secrets import token_hex
from typing import Any

from assistant.applications.measuring import from_json, last_lines
from assistant.applications.rest_address import TOKEN
from assistant.errors import RunError
from assistant.objective import Measure

MOST_BYTES = 1 << 20
"""Of one answer; what is longer is not read on."""
CONNECT_S = 10.0
ANSWER_S = 30.0
"""An answer may take so long, but for that to the request for a run, which may be the run."""
TRIES = 6
"""Attempts of one request, about 3 s in all; a program that restarts is back by then."""
FIRST_PAUSE_S = 0.1
MOST_RETRY_S = 60.0
"""Of ``Retry-After``, however long a program says."""

_NOT_NOW = frozenset((429, 502, 503, 504))
_WORDS = ("failure", "detail", "error", "message")
_MOST_WORDS = 400


@dataclass(frozen=True, slots=True)
class Over:
    """The last thing that is heard: what came of it."""

    measures: object


Told = Over | Exception | dict[str, Measure]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    text: str


class Asking(ABC):
    """Requests to one program, each repeated while no answer comes."""

    def __init__(self, url: str, secret: str | None) -> None:
        self.url, self._secret = url, secret
        self._key = token_hex(16)

    @abstractmethod
    async def converse(self, client: Any, said: "SimpleQueue[Told]") -> Over:
        """Say what there is to say, and return what came of it."""

    async def end(self, client: Any) -> str:  # noqa: ARG002 - nothing has begun
        """Have the program end what it does; return what a sentence goes on with."""
        return ""

    def headers(self) -> dict[str, str]:
        """Return what goes with every request."""
        told = {
            "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "copperline",
        }  # fmt: skip
        return told if self._secret is None else {**told, "Authorization": f"Bearer {self._secret}"}

    async def ask(
        self,
        client: Any,
        method: str,
        url: str,
        body: bytes | None = None,
        tries: int | None = None,
    ) -> Answer:
        """Return the answer to a request. Raises RunError if there is none."""
        tries = TRIES if tries is None else tries
        for attempt in range(1, tries + 1):
            pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1)
            try:
                answer = await self._once(client, method, url, body)
            except _NoAnswerError as error:
                if attempt == tries or not error.again:
                    raise RunError(str(error)) from error
            else:
                if attempt == tries or answer.status not in _NOT_NOW:
                    return answer
                pause_s = retry_after_s(answer, pause_s)
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, client: Any, method: str, url: str, body: bytes | None) -> Answer:
        import httpx

        more = {} if body is None else {
            "Content-Type": "application/json", "Idempotency-Key": self._key,
        }  # fmt: skip
        try:
            async with asyncio.timeout(ANSWER_S if body is None else None):
                request = client.build_request(method, url, content=body, headers=more)
                return await self._read(await client.send(request, stream=True))
        except TimeoutError as error:
            raise _NoAnswerError(f"{self.who} did not answer within {ANSWER_S:g} s") from error
        except httpx.ConnectTimeout as error:
            raise _NoAnswerError(f"{self.who} is not reached within {CONNECT_S:g} s") from error
        except httpx.ConnectError as error:
            raise _unreached(self.who, error) from error
        except httpx.RemoteProtocolError as error:
            silent = "without sending" in str(error) or "incomplete" in str(error)
            how = "closed the connection without a whole answer" if silent else "speaks no HTTP"
            raise _NoAnswerError(f"{self.who} {how} ({error})", again=silent) from error
        except httpx.TransportError as error:
            raise _NoAnswerError(f"{self.who} closed the connection") from error

    @property
    def who(self) -> str:
        """Return what it is called in a sentence."""
        return f"the program at {self.url}"

    async def _read(self, response: Any) -> Answer:
        """Return the whole of an answer. Raises RunError if it is compressed or too long."""
        try:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise RunError(
                    f"{self.who} answers compressed, which it was not asked for; leave "
                    "Content-Encoding away"
                )
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise RunError(
                        f"{self.who} answers with more than {MOST_BYTES:,} bytes; measures are "
                        "numbers by name, and longer answers are not read"
                    )
        finally:
            await response.aclose()
        strict = "strict" if response.status_code < 300 else "replace"
        try:
            text = bytes(body).decode("utf-8", strict)
        except UnicodeDecodeError as error:
            raise RunError(
                f"{self.who} answers with what is not UTF-8, at byte {error.start + 1}"
            ) from error
        headers = {name: self.hidden(value) for name, value in response.headers.items()}
        return Answer(response.status_code, headers, self.hidden(text))

    def hidden(self, text: str) -> str:
        """Return a text without the token, should a program say it again."""
        return text if self._secret is None else text.replace(self._secret, f"${TOKEN}")

    def clipped(self, text: str) -> str:
        """Return the last words of a text, in one line fit for a terminal and a table."""
        return last_lines(self.hidden(text))[:_MOST_WORDS]

    def object_of(self, answer: Answer) -> dict[str, object]:
        """Return the JSON object of an answer. Raises RunError for everything else."""
        if answer.status >= 400:
            raise RunError(f"{self.who} answered with {answer.status}{self.words(answer)}")
        if 300 <= answer.status < 400:
            raise RunError(
                f"{self.who} sends on to another address ({answer.status}), which is not "
                "followed; write the address that it has now"
            )
        if answer.status not in (200, 202):
            raise RunError(f"{self.who} answered with {answer.status}, where 200 or 202 is usual")
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise RunError(
                f"{self.who} answered with {kind or 'no content type'}; its Content-Type is "
                "application/json"
            )
        found = from_json(answer.text, f"the answer of {self.who}")
        if not isinstance(found, dict):
            raise RunError(f"{self.who} answered with JSON that is no object; write {{...}}")
        return found

    def words(self, answer: Answer) -> str:
        """Return the program's own words, in one line fit for a terminal and a table."""
        text = answer.text
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            told = (found.get(name) for name in _WORDS)
            text = next((one for one in told if isinstance(one, str) and one), text)
        words = self.clipped(text)
        return f"; it says: {words}" if words else "; it said nothing"


class _NoAnswerError(Exception):
    """A request came to nothing; ``again`` if another attempt may help."""

    def __init__(self, sentence: str, again: bool = True) -> None:
        super().__init__(sentence)
        self.again = again


def _unreached(who: str, error: Exception) -> _NoAnswerError:
    """Return why nothing was reached, by what the system said of it."""
    cause: BaseException | None = error
    reason = str(error)
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return _NoAnswerError(
                f"{who} is not trusted: {cause.reason or cause}; its certificate must be of an "
                "authority that this machine knows",
                again=False,
            )
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return _NoAnswerError(f"{who} is not reached ({reason}); is it running?")


def retry_after_s(answer: Answer, usual_s: float) -> float:
    """Return how long to wait before the next request, in seconds, within bounds."""
    try:
        wished_s = float(answer.headers.get("retry-after", ""))
    except ValueError:  # not said, or as a date
        return usual_s
    return min(max(FIRST_PAUSE_S, wished_s), MOST_RETRY_S)
