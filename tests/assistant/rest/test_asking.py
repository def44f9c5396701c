"""What a program over HTTP is asked, and the table of a sweep file that says so."""

import json
import time

import pytest

from assistant import Objective, SingleMeasure
from assistant.applications import rest_client
from assistant.applications.rest import Rest
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ApplicationError, AssistantError
from assistant.core.ports import ExecutionRequest, MonitoredApplication, StoppableApplication
from assistant.executors.serial import execute_run
from strategies import SpaceError
from tests.assistant.adapter import PATIENCE_S, Heard, Reply, program
from tests.assistant.rest.asked import (
    COST,
    DONE,
    SPACE,
    VALUES,
    Watching,
    failure,
    following,
    rest,
    running,
)


def test_a_run_is_one_request_with_values_seed_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # nobody is there
    monkeypatch.setenv("NO_PROXY", "")
    with program(lambda heard: DONE) as there:
        application = rest(there, limit_s=60.0)
        assert isinstance(application, StoppableApplication)
        assert isinstance(application, MonitoredApplication)
        assert application.evaluate(VALUES, 7) == {"cost": 3.5, "beside": 2.0}
        assert application.evaluate_within({"x": 2, "mode": "b"}, 2**63, 5.0)["cost"] == 3.5
        assert rest(there, limit_s=None).evaluate(VALUES, 7)["cost"] == 3.5
    first, second, third = there.heard
    assert [one.method for one in there.heard] == ["POST"] * 3
    assert first.path == "/runs"
    assert first.json == {"values": {"x": 1, "mode": "a"}, "seed": 7, "limit_s": 60.0}
    assert second.json == {"values": {"x": 2, "mode": "b"}, "seed": 2**63, "limit_s": 5.0}
    assert third.json["limit_s"] is None
    assert first.headers["content-type"] == "application/json"
    assert first.headers["accept"] == "application/json"
    assert first.headers["accept-encoding"] == "identity"
    assert "authorization" not in first.headers
    assert len({one.headers["idempotency-key"] for one in there.heard}) == 3


def test_the_time_of_a_run_is_a_measure_where_it_is_asked_for() -> None:
    with program(lambda heard: Reply({"measures": {}})) as there:
        measures = Rest(SPACE, Objective(SingleMeasure("wall_s")), there.url).evaluate(VALUES, 0)
    assert measures.keys() == {"wall_s"}
    assert 0 < measures["wall_s"] < PATIENCE_S  # type: ignore[operator]


def test_nested_measures_and_one_number_are_as_those_of_a_command() -> None:
    with program(lambda heard: Reply({"measures": {"cost": 1, "wait": {"mean": 2}}})) as there:
        assert rest(there).evaluate(VALUES, 0) == {"cost": 1.0, "wait.mean": 2.0}
    with program(lambda heard: Reply({"measures": 4})) as there:
        assert rest(there).evaluate(VALUES, 0) == {"cost": 4.0}


def test_a_name_that_nothing_can_keep_is_passed_over() -> None:
    told = b'{"measures": {"cost": 1, "\\ud800": 2, "\\ud83d\\ude00": 3, "a\\u0000": 4}}'
    with program(lambda heard: Reply(told)) as there:
        measures = rest(there).evaluate(VALUES, 0)
    assert measures == {"cost": 1.0, "\U0001f600": 3.0, "a\0": 4.0}


def test_a_run_that_goes_on_is_asked_for_where_the_program_says() -> None:
    answer = following(running(cost=9), running(cost=5, note="so so"), Reply({"state": "running"}),
                       DONE)  # fmt: skip
    watching = Watching()
    with program(answer) as there:
        measures = rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert measures == {"cost": 3.5, "beside": 2.0}
    assert watching.reports == [{"cost": 9.0}, {"cost": 5.0}, {}]
    assert there.methods() == ["POST", "GET", "GET", "GET", "GET"]
    assert {one.path for one in there.heard[1:]} == {"/runs/1"}
    assert all("idempotency-key" not in one.headers for one in there.heard[1:])


def test_what_is_reported_and_no_number_is_unknown() -> None:
    odd = Reply(
        b'{"state": "running", "measures": {"a": NaN, "b": [1, 2], "c": "text", "d": 1e999}}'
    )
    watching = Watching()
    with program(following(odd, DONE)) as there:
        rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert watching.reports == [{"a": None, "b": (1.0, 2.0), "d": None}]


def test_retry_after_is_kept_within_bounds() -> None:
    asked_s: list[float] = []

    def answer(heard: Heard) -> Reply:
        asked_s.append(time.monotonic())
        if heard.method == "POST":
            return Reply({}, 202, {"Location": "1", "Retry-After": "0.4"})
        return DONE

    with program(answer) as there:
        rest(there).evaluate(VALUES, 0)
    assert there.heard[1].path == "/1"
    assert asked_s[1] - asked_s[0] >= 0.4
    least_s = rest_client.FIRST_PAUSE_S
    for said, waited_s in (("0", least_s), ("-5", least_s), ("1e9", 60.0), ("inf", 60.0),
                               ("nan", least_s),
                           ("Fri, 31 Dec 1999 23:59:59 GMT", 2.0), ("", 2.0)):  # fmt: skip
        told = rest_client.HttpAnswer(202, {"retry-after": said}, "")
        assert rest_client.retry_after_s(told, 2.0) == waited_s, said


def test_without_a_url_nobody_here_makes_its_runs() -> None:
    pulling = Rest(SPACE, COST)
    assert "only the external client that registered this experiment" in failure(pulling)
    completion = execute_run(pulling, ExecutionRequest(1, VALUES, 7, limit_s=5.0))
    assert completion.failure is not None
    assert "takes them from the service" in completion.failure
    assert "takes its runs over HTTP" in str(pulling.facts)


def test_a_point_outside_of_the_space_is_no_today() -> None:
    with pytest.raises(SpaceError):
        Rest(SPACE, COST, baseline={"x": 3, "mode": "a"})
    with pytest.raises(ApplicationError, match="above 0 s"):
        Rest(SPACE, COST, limit_s=0.0)


TABLES = {
    "application": {
        "kind": "rest", "url": "http://127.0.0.1:9000/runs", "limit": "1m", "noisy": True,
        "baseline": {"x": 1},
    },
    "parameters": [{"name": "x", "levels": [1, 2]}],
    "objective": {"minimise": "cost"},
}  # fmt: skip


def test_the_table_of_a_sweep_file() -> None:
    application = build_sweep(check_settings(TABLES, "here")).application
    assert isinstance(application, Rest)
    assert (application.limit_s, application.deterministic) == (60.0, False)
    assert application.baseline == {"x": 1}
    implied = {**TABLES, "application": {"url": "http://127.0.0.1:9000/runs"}}
    assert isinstance(build_sweep(check_settings(implied, "here")).application, Rest)
    for wrong, words in (
        ({**TABLES, "parameters": []}, "at least one"),
        ({**TABLES, "objective": {}}, "needs an \\[objective\\]"),
        ({**TABLES, "application": {"kind": "rest", "adress": "x"}}, "no setting"),
        ({**TABLES, "application": {"kind": "rest", "url": 9000}}, "url"),
        (
            {**TABLES, "application": {"kind": "rest", "url": "http://evil.example"}},
            "not encrypted",
        ),
    ):
        with pytest.raises(AssistantError, match=words):
            build_sweep(check_settings(wrong, "here"))


def test_measures_are_json_of_at_most_a_megabyte() -> None:
    series = [0.5] * 100_000
    with program(lambda heard: Reply({"measures": {"cost": series}})) as there:
        assert len(json.dumps(series)) < rest_client.MOST_BYTES
        assert rest(there).evaluate(VALUES, 7)["cost"] == tuple(series)
