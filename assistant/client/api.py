"""A connection to a service: requests that are repeated safely, refusals raised as our errors.

A store that another process keeps: journals through its service, so that one process writes.
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

from assistant.core import errors as assistant_errors
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import AccessDeniedError, AssistantError, ServiceError, StoreFullError
from assistant.core.events import Event
from assistant.core.ports import StoredExperiment
from sim.model import errors as sim_errors
from strategies.space import errors as strategy_errors

TIMEOUT_S = 60.0
TRIES = 6
"""Attempts of one request, about 3 s in all; a service that restarts is back by then."""
FIRST_PAUSE_S = 0.1
SILENT_S = 30.0
"""A stream of events from which so long nothing comes, not even a sign of life, has ended."""
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
    """Return the key of one request."""
    return secrets.token_hex(16)


class ApiClient:
    """Requests to one service.

    Every change is sent under a key of its own and repeated under the same key while no answer
    comes, so that it is done once however often it is sent.

    Args:
        url: of the service, such as ``http://127.0.0.1:8765``.
        token: sent as ``Authorization: Bearer``.
        find: says where the service is now, and the token; None if it does not run. Asked when no
            answer comes or the token is refused, for it may have been started anew.
        tries: how often a request is sent while no answer comes.
        transport: of httpx, for tests.
        pause: waits so many seconds between attempts.
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
        """Return what stands at a path.

        Raises:
            AssistantError, StrategyError, SimError: the service refuses, with the same error that
                a session would raise.
            ServiceError: it cannot be reached, or answers what it should not.
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
        """Send a change, once however often it has to be repeated; raises as `get` does.

        Args:
            method: POST or PATCH.
            path: of what is changed.
            body: as JSON; None sends none.
            version: that was looked at; the change is refused on another. None does not matter.
            key: of an earlier call that was not answered, to repeat it; None makes a new one.
            timeout_s: how long an answer may take before it is asked for again.
        """
        headers = {"Idempotency-Key": key or new_key()}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        return self._json(self._send(method, path, json=body, headers=headers, timeout=timeout_s))

    def stream(
        self, path: str, since: int = 0, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, Json]]:
        """Yield the events of a stream with their positions, each once and none left out.

        A connection that ends is made again, and goes on where the last one ended.

        Args:
            path: of the stream.
            since: position of the first event.
            stop: asked after every sign of life, which the service gives every few seconds.

        Raises:
            ServiceError: it cannot be reached any more; else as `get`.
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
        weakref.finalize(self, self._http.close)  # for whoever forgets to

    def _look_again(self) -> bool:
        """Connect to where the service is now; false if that is where it was."""
        there = None if self._find is None else self._find()
        if there is None or (there[0].rstrip("/"), there[1]) == (self.url, self._token):
            return False
        self._connect(*there)  # what other threads have under way on the old one may end
        return True

    def close(self) -> None:
        """End the connection."""
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
                    self._look_again()  # what is sent next goes to where it is by then
                    raise ServiceError(
                        f"the service at {self.url} does not answer: {error}; is it running?"
                    ) from error
            else:
                if answer.status_code == 401 and self._look_again():
                    continue  # started anew, with another token: that is no silence
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
                    f"what answers at {self.url} is not what a service answers: "
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
            raise AccessDeniedError(f"the service at {self.url} does not let us in: {detail}")
        if answer.status_code in NOT_ANSWERED:
            raise ServiceError(f"the service at {self.url} refuses: {detail}")
        raise AssistantError(detail)


def _events(lines: Iterable[str]) -> Iterator[tuple[int, Json]]:
    """Yield position and event of each whole message; (0, None) for a sign of life."""
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
    """The store of a service, for sessions that live in this process.

    Needs the token of the owner: whoever may read the store's own folder.

    Args:
        link: to the service.
    """

    def __init__(self, link: ApiClient) -> None:
        self._link = link

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """See `Store.append`. Raises ServiceError if the service does not answer."""
        body = {
            "position": position,
            "events": [json.loads(encode_event(event)) for event in events],
        }
        self._link.change("POST", f"/v1/experiments/{experiment_id}/journal", body)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """See `Store.load`. Raises ServiceError if the service does not answer."""
        events: list[Event] = []
        path = f"/v1/experiments/{experiment_id}/events"
        while True:
            page = self._link.get(path, since=since + len(events), limit=PAGE)
            events += [decode_event(json.dumps(event)) for event in page["events"]]
            if not page["more"]:
                return tuple(events)

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """See `Store.experiments`. Raises ServiceError if the service does not answer."""
        return tuple(
            StoredExperiment(entry["experiment"], entry["name"], entry["opened_s"], entry["events"])
            for entry in self._link.get("/v1/experiments")
        )

    def close(self) -> None:
        """End the connection."""
        self._link.close()
