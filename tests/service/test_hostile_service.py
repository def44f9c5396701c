"""Malformed answers of a service to a worker and to a remote session: one sentence, no harm."""

import gzip
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from assistant.client.api import ApiClient, HttpStore
from assistant.client.remote_session import RemoteSession, open_settings
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.codec import encode_event
from assistant.core.errors import AssistantError, ServiceError
from assistant.core.events import ExperimentOpened
from assistant.core.ports import ExecutionRequest, RunLease
from assistant.executors.serial import SerialExecutor
from assistant.session.execution_loop import LeaseHeartbeat
from assistant.session.opening import build_opened_event
from sim.api import SimError
from tests.assistant.examples import Bowl
from tests.fuzz.watch import fault_of_sentence
from tests.queue.examples import HandClock
from tests.service.hostile import Answer, HostileService, Reply, hostile_service

MOST = 2**18


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse large answers early, so that the tests need not send so much."""
    monkeypatch.setattr("assistant.client.api.MOST_BYTES", MOST)
    monkeypatch.setattr("assistant.client.api.MOST_EVENT_BYTES", MOST)


LEASE: Mapping[str, Any] = {
    "experiment": "e", "run": 1, "token": "0123abcd", "attempt": 1,
    "values": {"x": 2, "y": 0, "mode": "plain"}, "seed": 0, "limit_s": None, "lease_s": 30.0,
}  # fmt: skip
DEEP = b'{"experiment":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BOMB = gzip.compress(b" " * (8 * 2**20))
SECRET_HOME = {"Location": "http://127.0.0.1:9/elsewhere"}


def reply(value: object, status: int = 200) -> Reply:
    return Reply(json.dumps(value).encode(), status)


MALFORMED: Mapping[str, Reply] = {
    "no JSON": Reply(b"<html>"),
    "no text": Reply(b"\xff\xfe\x00"),
    "half a character": Reply(b'{"experiment": "\\ud800"}'),
    "not a number": Reply(b'{"seed": NaN}'),
    "deep": Reply(DEEP),
    "a list": reply([1]),
    "a number": reply(7),
    "a gzip bomb": Reply(BOMB, headers={"Content-Encoding": "gzip"}),
    "another encoding": Reply(b"x", headers={"Content-Encoding": "br"}),
    "a huge body": Reply(b'"', endless=b"x" * 65_536),
    "a redirect": Reply(b"", 302, SECRET_HOME),
    "a problem of another kind": reply({"detail": ["x"], "fields": [7]}, 422),
    "a problem with a path": Reply(b"Traceback (most recent call last)\n" * 99, 500),
    "an error that needs more": reply({"detail": "x", "error": "UnknownNameError"}, 500),
    "an unknown status": Reply(b"{}", 299),
}


def of_lease(**changed: Any) -> Reply:
    return reply({**LEASE, **changed})


LEASES: Mapping[str, Reply] = {
    **MALFORMED,
    **{f"without {name}": reply({k: v for k, v in LEASE.items() if k != name}) for name in LEASE},
    "a token that climbs": of_lease(token="../../experiments/e/finish"),
    "a token with a line end": of_lease(token="a\r\nX-Evil: 1"),
    "an empty token": of_lease(token=""),
    "a token that is a number": of_lease(token=7),
    "an experiment that climbs": of_lease(experiment="../../etc/passwd"),
    "an experiment with a line end": of_lease(experiment="e\n\x1b[31mroot"),
    "an experiment that is none": of_lease(experiment=None),
    "a run that is text": of_lease(run="1"),
    "a run that is true": of_lease(run=True),
    "values that are a list": of_lease(values=[1]),
    "a level that is a list": of_lease(values={"x": [1]}),
    "a seed that is text": of_lease(seed="0"),
    "a limit below 0": of_lease(limit_s=-1),
    "a lease that never ends": of_lease(lease_s=1e300),
    "a lease of nothing": of_lease(lease_s=0),
    "a lease that is text": of_lease(lease_s="30"),
}


def is_sentence(error: BaseException | str) -> None:
    text = str(error)
    assert fault_of_sentence(text) is None, text
    assert len(text) <= 700
    assert "Traceback" not in text
    assert ".py" not in text


def link_to(service: HostileService) -> ApiClient:
    return ApiClient(service.url, "t", tries=1)


@pytest.mark.parametrize("answer", LEASES.values(), ids=LEASES)
def test_a_malformed_lease_is_one_sentence_and_no_other_request_follows(answer: Reply) -> None:
    with hostile_service(lambda method, path: answer) as service:
        leases = HttpLeaseSource(link_to(service), worker="w")
        with pytest.raises((AssistantError, SimError)) as caught:
            assert leases.lease() is None
        is_sentence(caught.value)
        assert set(service.requests) == {("POST", "/v1/leases")}


def good(method: str, path: str) -> Reply:
    if path == "/v1/leases":
        return reply(LEASE)
    return reply({"lease_s": 30.0, "recorded": True})


def worked(
    answer: Answer, make: Any = lambda _: SerialExecutor(Bowl()), n_idle: int = 1
) -> tuple[HostileService, list[str], int]:
    """Let a worker work until it has waited so often; return the service and what it said."""
    said: list[str] = []
    waits: list[float] = []
    clock = HandClock()

    def idle(seconds: float) -> None:
        clock.wait(seconds)
        waits.append(seconds)

    with hostile_service(answer) as service:
        worker = Worker(
            HttpLeaseSource(link_to(service), worker="w"), make, said.append,
            steady_s=clock.steady_s,
        )  # fmt: skip
        n_results = worker.work(lambda: len(waits) >= n_idle, idle)
    for sentence in said:
        is_sentence(sentence)
    return service, said, n_results


@pytest.mark.parametrize("answer", LEASES.values(), ids=LEASES)
def test_a_worker_stays_beside_malformed_leases_and_says_so_once(answer: Reply) -> None:
    """It waits them out as it does a service that restarts, and goes on after it."""
    asked: list[str] = []

    def service(method: str, path: str) -> Reply:
        asked.append(path)
        if path != "/v1/leases":
            return reply({"recorded": True, "lease_s": 30.0})
        n = asked.count(path)
        return answer if n < 3 else reply(LEASE) if n == 3 else reply(None)

    _, said, n_results = worked(service, n_idle=3)
    assert n_results == 1
    assert len(said) == 1


class Broken(SerialExecutor):
    """An executor that breaks where it starts a run, which is no failure of the program."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Bowl())
        self._error = error

    def submit(self, work: ExecutionRequest) -> None:
        raise self._error


@pytest.mark.parametrize("error", [
    SimError("line 7 of 'jobs.swf' is no job"),
    OSError(13, "Permission denied", "jobs.swf"),
    KeyError("procs"),
    RecursionError("maximum recursion depth exceeded"),
    AssistantError("'jobs.swf' cannot be read"),
], ids=lambda error: type(error).__name__)  # fmt: skip
@pytest.mark.parametrize("at_start", [True, False], ids=["at the start", "in the executor"])
def test_a_file_that_cannot_be_read_fails_its_run_and_the_worker_stays(
    error: Exception, at_start: bool
) -> None:
    """A worker without the log of one experiment still executes those of the others."""
    leases = [
        {**LEASE, "experiment": name, "run": n + 1, "token": f"t{n}"}
        for n, name in enumerate(("broken", "sound"))
    ]
    waiting = list(leases)

    def service(method: str, path: str) -> Reply:
        if path == "/v1/leases":
            return reply(waiting.pop(0) if waiting else None)
        return reply({"recorded": True, "lease_s": 30.0})

    def make(lease: RunLease) -> SerialExecutor:
        if lease.experiment_id != "broken":
            return SerialExecutor(Bowl())
        if at_start:
            raise error
        return Broken(error)

    heard, said, n_results = worked(service, make)
    assert n_results == 2
    assert heard.asked("/result") == ["/v1/leases/t0/result", "/v1/leases/t1/result"]
    assert len(said) == 1
    assert "'broken'" in said[0]


@pytest.mark.parametrize("path", ["result", "return"])
@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_malformed_answers_to_what_a_worker_sends_do_not_end_it(path: str, answer: Reply) -> None:
    """A result is sent again until its answer can be read, or the service refuses it."""
    asked: list[str] = []

    def service(method: str, at: str) -> Reply:
        asked.append(at.rsplit("/", 1)[-1])
        if at == "/v1/leases":
            return reply(LEASE if asked.count("leases") == 1 else None)
        return answer if asked.count(path) < 3 else reply({"recorded": True})

    def make(lease: RunLease) -> SerialExecutor:
        if path == "return":
            raise ServiceError("away")
        return SerialExecutor(Bowl())

    worked(service, make, n_idle=4)
    assert asked.count(path) >= 1
    assert asked.count("leases") >= 2


@pytest.mark.parametrize("answer", [*MALFORMED.values(), reply({"lease_s": 1e300})])
def test_malformed_answers_to_heartbeats_do_not_end_them(answer: Reply) -> None:
    third = threading.Event()

    def service(method: str, path: str) -> Reply:
        if len(there.requests) > 2:
            third.set()
        return answer

    with hostile_service(service) as there:
        beats = LeaseHeartbeat(HttpLeaseSource(link_to(there), worker="w"))
        beats.hold("t", 0.06)
        assert third.wait(120)
        assert beats.lost == set()
        beats.end()


def opened(**changed: Any) -> ExperimentOpened:
    return replace(build_opened_event(Bowl()), experiment_id="e", at_s=1.0, **changed)


EVENTS = [json.loads(encode_event(opened()))]

PAGES: Mapping[str, Reply] = {
    **MALFORMED,
    "no events": reply({"events": [], "more": False}),
    "more of nothing for ever": reply({"events": [], "more": True}),
    "events that are a number": reply({"events": 7, "more": False}),
    "an event that is a number": reply({"events": [7], "more": False}),
    "without more": reply({"events": EVENTS}),
    "an event without its fields": reply({"events": [{"type": "RunStarted", "v": 2}], "more": 0}),
    "a deep event": Reply(b'{"more":false,"events":[' + b"[" * 900 + b"]" * 900 + b"]}"),
    "another experiment": reply({
        "events": [json.loads(encode_event(replace(opened(), experiment_id="../../x")))],
        "more": False,
    }),
}  # fmt: skip


@pytest.mark.parametrize("answer", PAGES.values(), ids=PAGES)
def test_a_remote_session_refuses_malformed_events_in_one_sentence(answer: Reply) -> None:
    with hostile_service(lambda method, path: answer) as service:
        with pytest.raises((AssistantError, SimError)) as caught:
            RemoteSession(link_to(service), "e")
        is_sentence(caught.value)
        assert len(service.requests) <= 2


DECISIONS: Mapping[str, Reply] = {
    **MALFORMED,
    "without events": reply({"first": 1, "version": 2}),
    "without first": reply({"events": EVENTS, "version": 2}),
    "nothing suggested": reply({"events": [], "first": 1, "version": 2}),
}


@pytest.mark.parametrize("answer", DECISIONS.values(), ids=DECISIONS)
def test_a_remote_session_refuses_malformed_decisions_in_one_sentence(answer: Reply) -> None:
    def service(method: str, path: str) -> Reply:
        return reply({"events": EVENTS, "more": False}) if method == "GET" else answer

    with hostile_service(service) as there:
        session = RemoteSession(link_to(there), "e")
        for decide in (lambda: session.suggest(1), lambda: session.include({"x": 1})):
            with pytest.raises((AssistantError, SimError)) as caught:
                decide()
            is_sentence(caught.value)


LISTS: Mapping[str, Reply] = {
    **MALFORMED,
    "an entry that is a number": reply([7]),
    "an entry without a name": reply([{"experiment": "e", "opened_s": 1.0, "events": 1}]),
    "a time that is text": reply([
        {"experiment": "e", "name": "e", "opened_s": "1", "events": 1}
    ]),
    "an experiment that climbs": reply([
        {"experiment": "../../e", "name": "e", "opened_s": 1.0, "events": 1}
    ]),
}  # fmt: skip


@pytest.mark.parametrize("answer", LISTS.values(), ids=LISTS)
def test_lists_and_states_that_are_none_are_refused(answer: Reply) -> None:
    with hostile_service(lambda method, path: answer) as service:
        store = HttpStore(link_to(service))
        with pytest.raises((AssistantError, SimError)) as caught:
            store.experiments()
        is_sentence(caught.value)
        with pytest.raises((AssistantError, SimError)) as caught:
            store.execution("e")
        is_sentence(caught.value)
        with pytest.raises((AssistantError, SimError)) as caught:
            open_settings(link_to(service), {})
        is_sentence(caught.value)


STREAMS: Mapping[str, Reply] = {
    "a position that is text": Reply(b"id: x\ndata: {}\n\n"),
    "no JSON": Reply(b"id: 0\ndata: {\n\n"),
    "deep": Reply(b"id: 1\ndata: " + DEEP + b"\n\n"),
    "an endless line": Reply(b"data: ", endless=b"x" * 65_536),
    "a gzip bomb": Reply(BOMB, headers={"Content-Encoding": "gzip"}),
    "a redirect": Reply(b"", 302, SECRET_HOME),
    "an event of another type": Reply(b'id: 1\ndata: {"type": 7}\n\n'),
}


@pytest.mark.parametrize("answer", STREAMS.values(), ids=STREAMS)
def test_a_malformed_stream_of_events_is_one_sentence(answer: Reply) -> None:
    def service(method: str, path: str) -> Reply:
        answer_now = reply({"events": EVENTS, "more": False})
        return answer_now if len(there.requests) == 1 else answer

    with hostile_service(service) as there:
        session = RemoteSession(ApiClient(there.url, "t", tries=2, pause=lambda _: None), "e")
        with pytest.raises((AssistantError, SimError)) as caught:
            session.follow(lambda event: None)
        is_sentence(caught.value)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\nb", "a?b=c", "a%2e%2e", "\x00"])
def test_a_name_that_a_person_gives_stays_one_part_of_the_path(name: str) -> None:
    """What is typed as the name of an experiment reaches no other route of the service."""
    with hostile_service(lambda method, path: reply({"detail": "none"}, 404)) as service:
        with pytest.raises(AssistantError) as caught:
            RemoteSession(link_to(service), name)
        is_sentence(caught.value)
        for _, path in service.requests:
            assert path.count("/") == 4
            assert ".." not in path.split("/")


def test_a_body_as_large_as_is_allowed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assistant.client.api.MOST_BYTES", 1000)
    for n, fits in ((998, True), (999, False)):
        with hostile_service(lambda method, path, n=n: Reply(b'"' + b"x" * n + b'"')) as service:
            if fits:
                assert len(link_to(service).get("/v1/x")) == n
            else:
                with pytest.raises(ServiceError, match="more than 1,000 bytes"):
                    link_to(service).get("/v1/x")
