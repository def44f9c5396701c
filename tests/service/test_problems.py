"""What every error becomes: status, shape, and no more than a client should know."""

import errno
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.core.errors import (
    AssistantError,
    CodecError,
    ExperimentError,
    IdempotencyKeyReusedError,
    ImpossibleValueError,
    NameTakenError,
    ObjectiveError,
    RunError,
    ServiceError,
    SettingsError,
    StoreError,
    UnknownExperimentError,
    VersionConflictError,
)
from assistant.core.events import ExperimentFinished
from assistant.service.api_tokens import Role
from assistant.service.problems import Problem, of_invalid, problem_of, refusal
from assistant.service.strict_json import RefusedJsonError
from assistant.store.event_store import MemoryStore, SqliteStore
from sim.model.errors import DamagedCodeError, SimError, TraceError, UnknownNameError
from strategies.space.errors import OptionError, StrategyError, UnknownLevelError
from tests.service.examples import Running, ask, eventually, running


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownExperimentError("no"), 404),
        (NameTakenError("no"), 409),
        (VersionConflictError("no"), 409),
        (ExperimentError("no"), 409),
        (IdempotencyKeyReusedError("no"), 409),
        (ImpossibleValueError("no"), 422),
        (SettingsError("no"), 422),
        (ObjectiveError("no"), 422),
        (OptionError("no"), 422),
        (UnknownLevelError("no"), 422),
        (TraceError("x.swf", expected="a number"), 422),
        (UnknownNameError("order", "fcfc", ["fcfs"]), 422),
        (StoreError("no"), 503),
        (ServiceError("no"), 503),
        (CodecError("no"), 500),
        (RunError("no"), 500),
        (DamagedCodeError("no"), 500),
        (RefusedJsonError(413, "no"), 413),
        (refusal(418, "no"), 418),
        (OSError(errno.ENOSPC, "No space left on device"), 507),
        (OSError(errno.EACCES, "/home/secret"), 500),
        (KeyError("secret"), 500),
    ],
)
def test_statuses(error: Exception, status: int) -> None:
    problem = problem_of(error)
    assert problem.status == status
    assert "secret" not in problem.detail
    if status == 422:
        assert problem.detail == str(error)


def test_every_error_of_ours_has_a_status_that_is_no_accident() -> None:
    def leaves(kind: type[Exception]) -> Iterator[type[Exception]]:
        yield kind
        for below in kind.__subclasses__():
            yield from leaves(below)

    for root in (AssistantError, SimError, StrategyError):
        for kind in leaves(root):
            error = kind.__new__(kind)
            error.status = 400  # type: ignore[attr-defined] - RefusedJsonError carries its own
            error.args = (400, "x")
            if kind.__module__.startswith("tests"):
                continue
            try:
                str(error)
            except AttributeError:
                continue  # its words need what only its constructor knows
            assert problem_of(error).status in (400, 404, 409, 422, 500, 503)


def test_a_stores_own_words_become_404_409_and_412() -> None:
    store = MemoryStore()
    with pytest.raises(UnknownExperimentError) as unknown:
        store.load("x")
    assert problem_of(unknown.value).status == 404
    event = ExperimentFinished(0.0, "done")
    store.append("x", 0, [event])
    with pytest.raises(NameTakenError):
        store.append("x", 0, [event])
    with pytest.raises(VersionConflictError) as gone:
        store.append("x", 5, [event])
    assert problem_of(gone.value).status == 409
    assert problem_of(gone.value, conditional=True).status == 412


def test_a_full_disk_is_told_from_a_broken_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    store.connection.execute("PRAGMA max_page_count = 20")
    event = ExperimentFinished(0.0, "x" * 100_000)
    with pytest.raises(StoreError) as full:
        store.append("x", 0, [event])
    assert isinstance(full.value.__cause__, sqlite3.Error)
    assert problem_of(full.value).status == 507
    assert str(tmp_path) not in problem_of(full.value).detail
    store.close()
    with pytest.raises(StoreError) as closed:
        store.load("x")
    problem = problem_of(closed.value)
    assert problem.status == 503
    assert ("Retry-After", "1") in problem.all_headers()


def test_a_body_is_as_rfc_9457_says() -> None:
    body = json.loads(Problem(409, "run 7 is done", hint="look at it").body("abc"))
    assert body == {
        "type": "urn:copperline:problem:conflict-with-the-current-state",
        "title": "conflict with the current state",
        "status": 409,
        "detail": "run 7 is done",
        "instance": "urn:copperline:request:abc",
        "hint": "look at it",
    }
    assert json.loads(Problem(418, "x").body())["title"] == "i'm a teapot"


def test_wrong_fields_are_named() -> None:
    problem = of_invalid(
        [
            {"loc": ("body", "runs"), "type": "greater_than", "input": -1,
             "msg": "Input should be greater than 0"},
            {"loc": ("query", "since"), "type": "missing", "msg": "Field required"},
            {"loc": ("body", "a", 0, "b"), "type": "extra_forbidden", "msg": "no", "input": 1},
            {"loc": ("body",), "type": "x", "msg": "Value error, Bad", "input": "y" * 10**6},
        ]
    )  # fmt: skip
    assert problem.detail == "'runs' should be greater than 0, given -1 (and 3 more)"
    assert [(f.field, f.message) for f in problem.fields[1:3]] == [
        ("since", "is missing"),
        ("a.0.b", "is not a field of this request"),
    ]
    assert problem.fields[3].message.startswith("bad, given 'yyy")
    assert len(problem.fields[3].message) < 100
    many = [{"loc": ("body", str(i)), "type": "missing", "msg": ""} for i in range(99)]
    assert len(of_invalid(many).fields) == 10


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/nothing", 404, "nothing at /v1/nothing"),
        ("GET", "/v1/experiments/x", 404, "no experiment 'x'"),
        ("PUT", "/v1/echo", 405, "PUT is not possible at /v1/echo; use POST"),
        ("GET", "/v1/store", 503, "the store cannot be used"),
        ("POST", "/v1/echo", 422, "the body is missing"),
    ],
)
def test_routes_answer_in_the_same_shape(
    service: Running, method: str, path: str, status: int, words: str
) -> None:
    answer = ask(service, method, path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json["detail"]
    assert answer.json["instance"].endswith(answer.headers["x-request-id"])
    if status == 405:
        assert answer.headers["allow"] == "POST"


def test_a_fault_of_ours_says_nothing_but_its_id(service: Running) -> None:
    answer = ask(service, "GET", "/v1/fault", role=Role.VIEWER)
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert eventually(lambda: any(line["event"] == "fault" for line in service.log()))
    (told,) = [line for line in service.log() if line["event"] == "fault"]
    assert told["request"] == answer.headers["x-request-id"]
    assert "KeyError: 'a secret of the house'" in told["error"]
    assert "Traceback" in told["traceback"]
