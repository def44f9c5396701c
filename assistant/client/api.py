"""HTTP client of a service, which repeats requests safely and raises the service's errors.

Also the store of a service, whose process is the only one that writes.
"""

from __future__ import annotations

import json
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import httpx

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.core import errors as assistant_errors
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import AccessDeniedError, AssistantError, ServiceError, StoreFullError
from assistant.core.events import Event
from assistant.core.ports import StoredExperiment
from sim.model import errors as sim_errors
from strategies.space import errors as strategy_errors

TIMEOUT_S = 60.0
TRIES = 6  # Attempts of one request, about 3 s in all; a restarting service is back by then
FIRST_PAUSE_S = 0.1
SILENT_S = 30.0  # Seconds without a message after which a stream of events counts as ended
NOT_ANSWERED = frozenset((502, 503, 504))
FULL = 507

Json = Any
_ERRORS: Mapping[str, type[Exception]] = {
    name: kind
    for module in (sim_errors, strategy_errors, assistant_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def new_key() -> str:
    """Return a new random idempotency key for a request."""
    return secrets.token_hex(16)


class ApiClient:
    """HTTP client of one assistant service, with retries and idempotency keys.

    Every change has an idempotency key and is repeated under it until an answer comes, so that it
    is made once.

    Args:
        url: address of the service, such as ``http://127.0.0.1:8765``.
        find: function that returns the present address and token of the service, None if it does
            not run; called when no answer comes or the token is refused, because of a restart.
        pause: function that waits so many seconds between attempts.
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
    ) -> None:
        self._find, self._tries, self._pause = find, tries, pause
        self._transport = transport
        self._connect(url, token)

    def get(self, path: str, **query: str | int | None) -> Json:
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
                            answer.read()
                            self._json(answer)
                        for position, event in _events(answer.iter_lines()):
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
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            transport=self._transport,
            trust_env=False,
        )
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

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        if more.get("json") is None:
            more.pop("json", None)
        pause_s = FIRST_PAUSE_S
        for attempt in count(1):
            is_last = attempt >= self._tries
            try:
                answer = self._http.request(method, path, **more)
            except httpx.TransportError as error:
                if is_last:
                    self._look_again()  # the next request goes to the new address
                    raise ServiceError(
                        f"the service at {self.url} does not answer: {error}; is it running?"
                    ) from error
            else:
                if answer.status_code == 401 and self._look_again():
                    continue  # restarted with another token
                if is_last or answer.status_code not in NOT_ANSWERED:
                    return answer
            self._pause(pause_s)
            pause_s *= 2
            self._look_again()
        raise AssertionError("the last attempt returns or raises")

    def _json(self, answer: httpx.Response) -> Json:
        if answer.is_success:
            try:
                return None if answer.status_code == 204 else answer.json()
            except ValueError as error:
                raise ServiceError(
                    f"the answer at {self.url} is not that of a Copperline service: "
                    f"'{answer.text[:60]}'; is another program there?"
                ) from error
        try:
            body = answer.json()
            detail, name = str(body["detail"]), str(body.get("error", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            detail, name = answer.text[:200], ""
        for fault in body.get("fields", []) if isinstance(body, dict) else []:
            detail += f"; {fault['field']}: {fault['message']}"
        kind = _ERRORS.get(name)
        if kind is not None:
            raise kind(detail)
        if answer.status_code == FULL:
            raise StoreFullError(detail)
        if answer.status_code in (401, 403):
            raise AccessDeniedError(f"the service at {self.url} refuses access: {detail}")
        if answer.status_code in NOT_ANSWERED:
            raise ServiceError(f"the service at {self.url} refuses: {detail}")
        raise AssistantError(detail)


def _events(lines: Iterable[str]) -> Iterator[tuple[int, Json]]:
    """Yield position and event of each message; (0, None) for a keep-alive."""
    position, data = 0, ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            position = int(value)
        elif name == "data":
            data = value
        elif not line and data:
            yield position, json.loads(data)
            data = ""
        elif not name:
            yield 0, None


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
        self._link.change("POST", f"/v1/experiments/{experiment_id}/events", body)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from position ``since`` on; raise ServiceError if no reply comes."""
        events: list[Event] = []
        path = f"/v1/experiments/{experiment_id}/events"
        while True:
            page = self._link.get(path, since=since + len(events), limit=PAGE)
            events += [decode_event(json.dumps(event)) for event in page["events"]]
            if not page["more"]:
                return tuple(events)

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, newest first; raise ServiceError if no reply comes."""
        asked = {"deleted": "true"} if deleted else {}
        return tuple(
            StoredExperiment(
                entry["experiment"], entry["name"], entry["opened_s"], entry["events"],
                tuple(entry["tags"]),
            )
            for entry in self._link.get("/v1/experiments", **asked)
        )  # fmt: skip

    def execution(self, experiment_id: str) -> ExecutionStatus:
        """Return who executes an experiment's runs; raise ServiceError if no reply comes."""
        reply = self._link.get(f"/v1/experiments/{experiment_id}/execution")
        return ExecutionStatus(
            active=reply["active"],
            executes=reply["executes"],
            notes=tuple(reply["notes"]),
            external=reply["external"],
            last_call_s=reply["last_call_s"],
            workers=reply["workers"],
            in_process=reply["in_process"],
        )

    def close(self) -> None:
        """Close the HTTP connection."""
        self._link.close()
