"""HTTP client of a service, which repeats requests safely and raises the service's errors.

Also the store of a service, whose process is the only one that writes.
"""

from __future__ import annotations

import json
import re
import secrets
import ssl
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.core import errors as assistant_errors
from assistant.core.codec import decode_event_object, decode_json, encode_event
from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    ServiceError,
    StoreFullError,
    UnknownExperimentError,
)
from assistant.core.events import Event
from assistant.core.ports import StoredExperiment
from assistant.core.run import RunOutput
from sim.model import errors as sim_errors
from strategies.space import errors as strategy_errors

MOST_BYTES = 2**26
"""Largest answer in bytes; the rest is not read. A compressed answer is refused, so that a small
one cannot become a large one."""
MOST_EVENT_BYTES = 2**24  # Largest message of a stream of events
MOST_EVENTS = 10_000_000  # Largest event log that is fetched
TIMEOUT_S = 60.0
WHOLE_S = 600.0  # Seconds within which an answer has arrived whole
TRIES = 6  # Attempts of one request, about 3 s in all; a restarting service is back by then
FIRST_PAUSE_S = 0.1
SILENT_S = 30.0  # Seconds without a message after which a stream of events counts as ended
NOT_ANSWERED = frozenset((502, 503, 504))
FULL = 507

Json = Any

REMOTE_ERRORS = (AssistantError, sim_errors.SimError, strategy_errors.StrategyError)
"""Errors that a call of a service may raise: its own, and those that a session would raise."""


def _is_of_one_sentence(kind: object) -> bool:
    """Return whether a class of errors is made of its sentence alone."""
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return False
    try:
        return bool(kind("a sentence"))
    except TypeError:
        return False


_ERRORS: Mapping[str, type[Exception]] = {
    name: kind
    for module in (sim_errors, strategy_errors, assistant_errors)
    for name, kind in vars(module).items()
    if _is_of_one_sentence(kind)
}


def new_key() -> str:
    """Return a new random idempotency key for a request."""
    return secrets.token_hex(16)


def path_part(experiment_id: str) -> str:
    """Return an experiment's identifier as one part of a URL path.

    Raises UnknownExperimentError for one that no experiment has, such as ``..``.
    """
    if experiment_id in ("", ".", "..") or not experiment_id.isprintable():
        raise UnknownExperimentError(f"no experiment can be named {experiment_id!r}")
    return quote(experiment_id, safe="")


def _identifier(text: str) -> str:
    if not text or text in (".", "..") or set(text) & set("/\\") or not text.isprintable():
        raise ValueError("it is not one part of a path on one line")
    return text


Identifier = Annotated[str, Field(max_length=200), AfterValidator(_identifier)]
"""Identifier of an experiment as a service may send it: one part of a path, on one line."""


class ServiceAnswer(BaseModel):
    """Base class of the shapes of answers: strict types, further fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class EventPage(ServiceAnswer):
    """Answer with a page of an event log."""

    events: list[dict[str, Any]]
    more: bool


class StoredExperimentAnswer(ServiceAnswer):
    """Entry of the answer with all experiments of a service."""

    experiment: Identifier
    name: str
    opened_s: float
    events: Annotated[int, Field(ge=0)]
    tags: list[str] = Field(default_factory=list)


class RunOutputAnswer(ServiceAnswer):
    """Answer with the stored output of a run."""

    is_stored: bool
    stdout: str = ""
    stderr: str = ""


class ExecutionAnswer(ServiceAnswer):
    """Answer with the state of the execution of an experiment's runs."""

    active: bool
    executes: bool
    notes: list[str]
    external: bool
    last_call_s: float | None
    workers: int
    in_process: bool


class OpenedAnswer(ServiceAnswer):
    """Answer with the identifier of a new experiment."""

    experiment: Identifier


MOST_RETRY_S = 60.0  # Longest wait that a service can ask for
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_ENTRIES = TypeAdapter(list[StoredExperimentAnswer])


@dataclass(frozen=True, slots=True)
class _Reply:
    """Status and body of an answer that was read whole."""

    status: int
    body: bytes
    retry_after_s: float = 0.0

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class ApiClient:
    """HTTP client of one assistant service, with retries and idempotency keys.

    Every change has an idempotency key and is repeated under it until an answer comes, so that it
    is made once.

    Args:
        url: address of the service, such as ``http://127.0.0.1:8765``.
        find: function that returns the present address and token of the service, None if it does
            not run; called when no answer comes or the token is refused, because of a restart.
        pause: function that waits so many seconds between attempts.
        tls: context for an address with https; by default the public authorities are trusted.
        headers: further headers of every request.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        find: Callable[[], tuple[str, str] | None] | None = None,
        tries: int = TRIES,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._tls, self._headers = tls, dict(headers or {})
        self._find, self._tries, self._pause = find, tries, pause
        self._transport = transport
        self._connect(url, token)

    def get(self, path: str, **query: str | int | list[str] | None) -> Json:
        """Send a GET request and return the decoded JSON reply.

        Raises:
            AssistantError, StrategyError, SimError: the service refuses, with the same error that a
                session would raise.
            ServiceError: it cannot be reached, or its answer is invalid.
        """
        params = {name: value for name, value in query.items() if value is not None}
        return self._json(self._send("GET", path, params=params))

    def change(
        self,
        method: str,
        path: str,
        body: Json = None,
        version: int | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Json:
        """Send a request that makes a change, only once even if repeated; return the reply.

        A change for another ``version`` than the present one is refused; None accepts any. ``key``
        is the idempotency key of an earlier call without an answer. ``timeout_s`` is per attempt.
        """
        headers = {"Idempotency-Key": key or new_key()}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        return self._json(self._send(method, path, json=body, headers=headers, timeout=timeout_s))

    def poll(self, path: str, body: Json, key: str) -> tuple[Json, float]:
        """Send a POST request as `change`; return the reply and the seconds until the next one.

        The seconds are those of Retry-After, at most `MOST_RETRY_S`; 0 if the service says none.
        """
        reply = self._send("POST", path, json=body, headers={"Idempotency-Key": key})
        return self._json(reply), reply.retry_after_s

    def stream(
        self, path: str, since: int = 0, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, Json]]:
        """Yield (position, event) pairs of an event stream from position ``since``, without gaps.

        A broken connection is made again and continues where it ended. ``stop`` is called after
        every message; the service sends one every few seconds. Raises ServiceError if it cannot be
        reached any more; else as `get`.
        """
        at, failed, pause_s = since, 0, FIRST_PAUSE_S
        while not stop():
            try:
                with self._http.stream(
                    "GET",
                    path,
                    headers={"Accept": "text/event-stream"},
                    params={"since": at},
                    timeout=httpx.Timeout(TIMEOUT_S, read=SILENT_S),
                ) as answer:
                    if answer.status_code not in NOT_ANSWERED:
                        if not answer.is_success:
                            self._json(self._read(answer))
                        self._refuse_encoding(answer)
                        for position, event in self._events(_lines(answer.iter_bytes())):
                            failed, pause_s = 0, FIRST_PAUSE_S
                            if event is not None and position >= at:
                                at = position + 1
                                yield position, event
                            if stop():
                                return
            except httpx.TransportError as error:
                if failed == self._tries:
                    raise ServiceError(
                        f"the service at {self.url} does not answer any more: {error}; is it "
                        "running?"
                    ) from error
            else:
                if failed == self._tries:
                    raise ServiceError(f"the service at {self.url} ends every stream of events")
            failed += 1
            self._pause(pause_s)
            pause_s *= 2
            self._look_again()

    def _connect(self, url: str, token: str) -> None:
        self.url, self._token = url.rstrip("/"), token
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={
                    **self._headers,
                    "Authorization": f"Bearer {token}",
                    "Accept-Encoding": "identity",
                },
                timeout=TIMEOUT_S,
                transport=self._transport,
                trust_env=False,
                follow_redirects=False,
                # loading certificates takes long
                verify=self._tls or self.url.startswith("https:"),
            )
        except httpx.InvalidURL as error:
            raise ServiceError(f"'{url}' is no address of a service: {error}") from error
        weakref.finalize(self, self._http.close)  # in case no caller closes it

    def _look_again(self) -> bool:
        """Connect to the present address of the service; return False if it is unchanged."""
        there = None if self._find is None else self._find()
        if there is None or (there[0].rstrip("/"), there[1]) == (self.url, self._token):
            return False
        self._connect(*there)  # requests of other threads on the old one may end
        return True

    def close(self) -> None:
        """Close the HTTP connection."""
        self._http.close()

    def _send(self, method: str, path: str, **more: Any) -> _Reply:
        if more.get("json") is None:
            more.pop("json", None)
        pause_s = FIRST_PAUSE_S
        for attempt in count(1):
            is_last = attempt >= self._tries
            try:
                with self._http.stream(method, path, **more) as answer:
                    reply = self._read(answer)
            except httpx.TransportError as error:
                if is_last:
                    self._look_again()  # the next request goes to the new address
                    raise ServiceError(
                        f"the service at {self.url} does not answer: {error}; is it running?"
                    ) from error
            else:
                if reply.status == 401 and self._look_again():
                    continue  # restarted with another token
                if is_last or reply.status not in NOT_ANSWERED:
                    return reply
            self._pause(pause_s)
            pause_s *= 2
            self._look_again()
        raise AssertionError("the last attempt returns or raises")

    def _read(self, answer: httpx.Response) -> _Reply:
        """Read an answer whole, or raise ServiceError if it is compressed, too long or too slow."""
        self._refuse_encoding(answer)
        body, until_s = bytearray(), time.monotonic() + WHOLE_S
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise ServiceError(
                    f"the service at {self.url} sent an answer of more than {MOST_BYTES:,} bytes; "
                    "is another program there?"
                )
            if time.monotonic() > until_s:
                raise ServiceError(
                    f"an answer of the service at {self.url} did not end within {WHOLE_S:g} s"
                )
        seconds = answer.headers.get("Retry-After", "")
        wait_s = min(float(seconds), MOST_RETRY_S) if _SECONDS.fullmatch(seconds) else 0.0
        return _Reply(answer.status_code, bytes(body), wait_s)

    def _refuse_encoding(self, answer: httpx.Response) -> None:
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ServiceError(
                f"the service at {self.url} sent a compressed answer, which was not asked for; is "
                "another program or a proxy there?"
            )

    def _json(self, reply: _Reply) -> Json:
        if reply.is_success:
            try:
                return None if reply.status == 204 else decode_json(reply.body.decode())
            except (ValueError, RecursionError) as error:
                raise self._strange() from error
        if 300 <= reply.status < 400:
            raise ServiceError(
                f"the service at {self.url} redirects to another address ({reply.status}), which "
                "is not followed; give its own address"
            )
        detail, name = _problem(reply.body)
        if detail is None:
            raise ServiceError(
                f"the service at {self.url} answered with status {reply.status} and nothing that "
                "explains it; is another program there?"
            )
        kind = _ERRORS.get(name)
        if kind is not None:
            raise kind(detail)
        if reply.status == FULL:
            raise StoreFullError(detail)
        if reply.status in (401, 403):
            raise AccessDeniedError(f"the service at {self.url} refuses access: {detail}")
        if reply.status >= 500:
            raise ServiceError(f"the service at {self.url} refuses: {detail}")
        raise AssistantError(detail)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise ServiceError if a block finds an answer of another shape than expected."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise self._strange() from error

    def _strange(self) -> ServiceError:
        return ServiceError(
            f"the answer at {self.url} is not that of a Copperline service; is another program or "
            "version there?"
        )

    def _events(self, lines: Iterable[str]) -> Iterator[tuple[int, Json]]:
        """Yield position and event of each message; (0, None) for a keep-alive."""
        position, data = 0, ""
        while True:
            with self.reading():  # not around the caller's code
                for line in lines:
                    name, _, value = line.partition(": ")
                    if name == "id":
                        position = int(value)
                    elif name == "data":
                        data = value
                    elif not line and data:
                        message, data = (position, decode_json(data)), ""
                        break
                    elif not name:
                        message = (0, None)
                        break
                else:
                    return
            yield message


def _problem(body: bytes) -> tuple[str | None, str]:
    """Return the sentence and the name of the error in a problem; None if it is none."""
    try:
        problem = decode_json(body.decode())
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(problem, dict) or not isinstance(problem.get("detail"), str):
        return None, ""
    detail, name = problem["detail"].strip() or "it gives no reason", problem.get("error")
    faults = problem.get("fields")
    for fault in faults if isinstance(faults, list) else []:
        if isinstance(fault, dict):
            detail += f"; {fault.get('field')}: {fault.get('message')}"
    return detail, name if isinstance(name, str) else ""


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream; raise ValueError for one of over `MOST_EVENT_BYTES`."""
    parts: list[bytes] = []
    n_bytes = 0
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*parts, end]).decode().rstrip("\r")
            parts, n_bytes = [], 0
        parts.append(rest)
        n_bytes += len(rest)
        if n_bytes > MOST_EVENT_BYTES:
            raise ValueError(f"a message of more than {MOST_EVENT_BYTES:,} bytes")


PAGE = 10_000


class HttpStore:
    """Store of event logs in a remote service; requires the owner's API token."""

    def __init__(self, link: ApiClient) -> None:
        self._link = link

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events to an event log at ``position``; raise ServiceError if no reply comes."""
        body = {
            "position": position,
            "events": [json.loads(encode_event(event)) for event in events],
        }
        self._link.change("POST", f"/v1/experiments/{path_part(experiment_id)}/events", body)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from position ``since`` on; raise ServiceError if no reply comes."""
        events: list[Event] = []
        path = f"/v1/experiments/{path_part(experiment_id)}/events"
        while True:
            reply = self._link.get(path, since=since + len(events), limit=PAGE)
            with self._link.reading():
                page = EventPage.model_validate(reply)
                events += [decode_event_object(event) for event in page.events]
                if page.more and (not page.events or len(events) > MOST_EVENTS):
                    raise ValueError("an event log without an end")
            if not page.more:
                return tuple(events)

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, newest first; raise ServiceError if no reply comes."""
        query = {"deleted": "true"} if deleted else {}
        reply = self._link.get("/v1/experiments", **query)
        with self._link.reading():
            entries = _ENTRIES.validate_python(reply)
        return tuple(
            StoredExperiment(
                entry.experiment, entry.name, entry.opened_s, entry.events, tuple(entry.tags)
            )
            for entry in entries
        )

    def save_output(self, experiment_id: str, run_id: int, output: RunOutput) -> None:
        """Store the output of a run; raise ServiceError if no reply comes."""
        path = f"/v1/experiments/{path_part(experiment_id)}/runs/{run_id}/output"
        self._link.change("PUT", path, asdict(output))

    def output(self, experiment_id: str, run_id: int) -> RunOutput | None:
        """Return the stored output of a run; None if none is stored."""
        path = f"/v1/experiments/{path_part(experiment_id)}/runs/{run_id}/output"
        reply = self._link.get(path)
        with self._link.reading():
            answer = RunOutputAnswer.model_validate(reply)
        return RunOutput(answer.stdout, answer.stderr) if answer.is_stored else None

    def execution(self, experiment_id: str) -> ExecutionStatus:
        """Return who executes an experiment's runs; raise ServiceError if no reply comes."""
        reply = self._link.get(f"/v1/experiments/{path_part(experiment_id)}/execution")
        with self._link.reading():
            answer = ExecutionAnswer.model_validate(reply)
        return ExecutionStatus(
            active=answer.active,
            executes=answer.executes,
            notes=tuple(answer.notes),
            external=answer.external,
            last_call_s=answer.last_call_s,
            workers=answer.workers,
            in_process=answer.in_process,
        )

    def close(self) -> None:
        """Close the HTTP connection."""
        self._link.close()
