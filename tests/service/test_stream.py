"""Streams of events: none is left out, none comes twice, and one slow reader harms nobody."""

from __future__ import annotations

import importlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession
from assistant.core.errors import ServiceError, UnknownExperimentError
from assistant.core.events import Event, RunCompleted
from assistant.service.api_tokens import Role
from benchmarks.browsing import free_port
from tests.service.examples import eventually
from tests.service.real import (
    AT,
    NAME,
    TOKENS,
    Real,
    event_log,
    leased,
    refused,
    result,
    serving,
    with_runs,
)

reading = importlib.import_module("assistant.service.routes.experiments")  # not its router
STREAM = {"Accept": "text/event-stream"}
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOOK_S", 0.01)
    monkeypatch.setattr(reading, "ALIVE_S", 0.05)
    monkeypatch.setattr(reading, "PAGE", 3)  # a stream goes on from page to page


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        with_runs(found)
        yield found


def link_to(real: Real, **more: Any) -> ApiClient:
    return ApiClient(real.url, TOKENS.by_role[Role.VIEWER], **more)


def read(client: httpx.Client, n: int, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the first events of a stream."""
    found: list[tuple[int, dict[str, Any]]] = []
    told = STREAM | {name.replace("_", "-"): value for name, value in headers.items()}
    with client.stream("GET", f"{AT}/events", headers=told) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        position = -1
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                position = int(value)
            if name == "data":
                found.append((position, json.loads(value)))
                if len(found) == n:
                    break
    return found


def test_a_stream_is_the_journal_with_its_positions(real: Real) -> None:
    client = real.client(Role.VIEWER)
    stored = event_log(client)
    assert read(client, len(stored)) == list(enumerate(stored))
    assert read(client, 3, Last_Event_ID="1") == list(enumerate(stored))[2:5]


def test_what_comes_is_told_as_it_comes(real: Real) -> None:
    owner = real.client()
    n = len(event_log(owner))
    told: list[tuple[int, dict[str, Any]]] = []
    follower = threading.Thread(
        target=lambda: told.extend(read(real.client(), 2, Last_Event_ID=str(n - 1)))
    )
    follower.start()
    token = leased(owner)["token"]
    result(owner, token)
    follower.join(PATIENCE_S)
    assert [(at, one["type"]) for at, one in told] == [(n, "RunStarted"), (n + 1, "RunCompleted")]


def test_signs_of_life(real: Real) -> None:
    client = real.client()
    with client.stream("GET", f"{AT}/events", headers=STREAM, params={"since": 999}) as answer:
        lines = answer.iter_lines()
        assert [next(lines), next(lines), next(lines)] == [": alive", "", ": alive"]


def test_a_stream_of_nothing_is_refused_before_it_begins(real: Real) -> None:
    client = real.client()
    refused(client.get("/v1/experiments/nothing/events", headers=STREAM), 404, "'nothing'")
    refused(client.get(f"{AT}/events", headers={**STREAM, "Last-Event-ID": "-1"}), 422)
    refused(client.get(f"{AT}/events", headers={**STREAM, "Last-Event-ID": "x"}), 422)
    refused(client.get(f"{AT}/events", params={"since": -1}), 422, "since")
    link = link_to(real)
    with pytest.raises(UnknownExperimentError):
        next(link.stream("/v1/experiments/nothing/events"))
    link.close()


def test_a_session_follows_across_restarts_and_misses_nothing(tmp_path: Path) -> None:
    heard: list[Event] = []
    done = threading.Event()
    port = free_port()
    with serving(tmp_path, port=port) as real:
        with_runs(real)
        link = link_to(real, tries=60)
        remote = RemoteSession(link, NAME)
        first = remote.experiment.n_events
        follower = threading.Thread(target=lambda: remote.follow(heard.append, done.is_set))
        follower.start()
        client = real.client()
        result(client, leased(client)["token"])
        assert eventually(lambda: len(heard) == 2)
    for n in (4, 6):  # twice ended and begun again, at the same address
        with serving(tmp_path, port=port) as real:
            client = real.client()
            result(client, leased(client)["token"])
            assert eventually(lambda n=n: len(heard) == n)
            if n == 6:
                stored = real.service.store.load(NAME)
                done.set()
                follower.join(PATIENCE_S)
    assert not follower.is_alive()
    assert tuple(heard) == stored[first:]
    assert sum(isinstance(event, RunCompleted) for event in heard) == 3
    assert remote.experiment.n_events == len(stored)
    link.close()


def test_a_session_that_decides_while_it_follows_hears_each_event_once(real: Real) -> None:
    link = ApiClient(real.url, TOKENS.by_role[Role.OWNER])
    remote = RemoteSession(link, NAME)
    done, heard, listened = threading.Event(), list[Event](), list[Event]()
    remote.listen(lambda _experiment, event: listened.append(event))
    first = remote.experiment.n_events
    follower = threading.Thread(target=lambda: remote.follow(heard.append, done.is_set))
    follower.start()
    for run in (2, 3, 4, 5):
        remote.run_first(run)
        remote.hold(run)
    assert eventually(lambda: len(heard) == 8)
    done.set()
    follower.join(PATIENCE_S)
    stored = remote.events()[first:]
    assert tuple(heard) == stored
    assert tuple(listened) == stored
    link.close()


def test_a_service_that_does_not_come_back_is_said(tmp_path: Path) -> None:
    with serving(tmp_path) as real:
        with_runs(real)
        link = link_to(real, tries=3, pause=lambda _s: None)
        events = link.stream(f"{AT}/events")
        next(events)
    with pytest.raises(ServiceError, match="not answer any more"):
        list(events)
    link.close()


def test_streams_end_when_the_service_does(tmp_path: Path) -> None:
    ended = threading.Event()
    with serving(tmp_path) as real:
        with_runs(real)
        client = real.client()

        def follow() -> None:
            with client.stream("GET", f"{AT}/events", headers=STREAM) as answer:
                for _ in answer.iter_lines():
                    reading_now.set()
            ended.set()  # the end was an orderly one, or iterating would have raised

        reading_now = threading.Event()
        threading.Thread(target=follow, daemon=True).start()
        assert reading_now.wait(PATIENCE_S)
    assert ended.wait(PATIENCE_S)


@pytest.mark.soak
def test_a_reader_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    with serving(tmp_path) as real:
        session = with_runs(real)
        for _ in range(40):
            session.finish("x" * 100_000)
            session.reopen()
        owner = real.client()
        size = len(owner.get(f"{AT}/export").content)
        assert size > 2_000_000  # more than sockets hold between the two
        with closing(socket.create_connection(("127.0.0.1", real.port))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(
                f"GET {AT}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                f"Authorization: Bearer {TOKENS.by_role[Role.OWNER]}\r\n\r\n".encode()
            )
            assert slow.recv(1)
            stored = event_log(owner)
            assert read(owner, len(stored)) == list(enumerate(stored))
            assert result(owner, leased(owner)["token"]).status_code == 200
            real.server.stop()
    assert not [line for line in real.log() if line["event"] == "not ended"]
