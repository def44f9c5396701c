"""What hooks are told and when: known answers, and a rate that no burst of failures breaks."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import Experiment, Sla, open_session
from assistant.analysis.forecast import forecast
from assistant.core.events import (
    Alternative,
    Event,
    ExperimentFinished,
    MissWarning,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunSubmitted,
    WarningIssued,
)
from assistant.core.forecast import PaperForecast
from assistant.core.run import Outcome
from assistant.hooks.notices import (
    FAILURES_EVERY_S,
    KINDS,
    MAX_VARIABLE,
    Notice,
    NoticeState,
    notices_of_end,
    notices_of_event,
    of_failed_sweep,
    of_test,
)
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import SPACE, Bowl
from tests.forecast.examples import ended_s, told

NOON_S = 1_767_268_800.0  # 2026-01-01 12:00 UTC


def opened(max_runs: int | None = 24) -> Experiment:
    """An experiment with the whole space submitted and under way."""
    session = open_session(
        Bowl(), store=MemoryStore(), name="winter", sla=Sla(max_runs), experiment_id="winter-1"
    )
    experiment = session.experiment
    for n, configuration in enumerate(SPACE.configurations(), 1):
        experiment.apply(RunSubmitted(0.0, n, configuration, "analyst", 0, "", None))
        experiment.apply(RunStarted(0.0, n))
    return experiment


def happen(
    experiment: Experiment, heard: NoticeState, *events: Event
) -> tuple[NoticeState, list[Notice]]:
    notices: list[Notice] = []
    for event in events:
        experiment.apply(event)
        heard, told = notices_of_event(experiment, event, heard)
        notices += told
    return heard, notices


def completed(run_id: int, value: float, at_s: float = 0.0) -> RunCompleted:
    return RunCompleted(at_s, run_id, Outcome({"height": value}, value, -value, True, 0.0), 1.0)


def failed(run_id: int, at_s: float) -> RunFailed:
    return RunFailed(at_s, run_id, f"fault {run_id}", 1.0)


def test_a_failed_run_is_told_whole() -> None:
    experiment = opened()
    _, (notice,) = happen(
        experiment, NoticeState(), completed(1, 7.5), completed(2, 6.25), failed(3, NOON_S)
    )
    assert json.loads(notice.as_json()) == {
        "version": 1,
        "kind": "failure",
        "test": False,
        "experiment": "winter-1",
        "name": "winter",
        "at": "2026-01-01T12:00:00Z",
        "sentence": "run 3 failed: fault 3",
        "objective": "minimise height",
        "runs": {"executed": 3, "failed": 1, "remaining": 21},
        "best": {
            "run": 2,
            "value": 6.25,
            "unit": "",
            "feasible": True,
            "values": dict(SPACE.values(experiment.run(2).configuration)),
        },
        "warning": None,
        "finish": None,
        "failure": {
            "of": "run",
            "run": 3,
            "values": dict(SPACE.values(experiment.run(3).configuration)),
            "text": "fault 3",
            "count": 1,
        },
    }
    assert notice.variables == {
        "COPPERLINE_KIND": "failure",
        "COPPERLINE_EXPERIMENT": "winter-1",
        "COPPERLINE_NAME": "winter",
        "COPPERLINE_AT": "2026-01-01T12:00:00Z",
        "COPPERLINE_SENTENCE": "run 3 failed: fault 3",
        "COPPERLINE_EXECUTED": "3",
        "COPPERLINE_FAILED": "1",
        "COPPERLINE_REMAINING": "21",
        "COPPERLINE_BEST": "6.25",
        "COPPERLINE_UNIT": "",
    }


def test_what_is_unknown_is_null_and_an_empty_variable() -> None:
    _, (notice,) = happen(opened(None), NoticeState(), failed(1, NOON_S))
    told = json.loads(notice.as_json())
    assert told["best"] is None
    assert told["runs"]["remaining"] is None
    assert notice.variables["COPPERLINE_REMAINING"] == notice.variables["COPPERLINE_BEST"] == ""


def test_a_warning_and_the_end_have_their_own_parts() -> None:
    forecast = PaperForecast(NOON_S, "near", 20, 4, 4, None, 9, 5, (), 1.0, None)
    warning = MissWarning(1, forecast, 0.7, (), "9 are pending, 4 remain")
    experiment = opened()
    _, (warning, finish) = happen(
        experiment, NoticeState(), completed(1, 3.0), WarningIssued(NOON_S, warning),
        ExperimentFinished(NOON_S + 1, "the budget of 24 runs is used up"),
    )  # fmt: skip
    told = json.loads(warning.as_json())
    assert told["sentence"] == ("The budget is too small for the regions. 9 are pending, 4 remain")
    assert told["warning"] == {
        "number": 1, "basis": "paper", "exploitation": 0.7,
        "pending": 9, "remaining": 4, "shortfall": 5,
        "goal": None, "chance": None, "band": None, "alternatives": [],
    }  # fmt: skip
    assert told["finish"] is told["failure"] is None
    told = json.loads(finish.as_json())
    assert told["finish"] == {
        "reason": "the budget of 24 runs is used up", "finished": True,
        "goal": None, "reached_by": None, "chance": None,
    }  # fmt: skip
    assert told["sentence"] == (
        "winter is finished: the budget of 24 runs is used up. Best so far: height 3 in run 1."
    )


def test_a_warning_by_the_forecast_tells_its_chance_and_the_numbers_to_accept() -> None:
    """The paper's numbers, which did not warn, are not told as if they had."""
    results = [100.0 - 3 * i + 7 * (i % 3) for i in range(20)]
    experiment = told(results, Sla(60, goal=5.0))
    now_s = ended_s(experiment)
    seen = forecast(experiment, now_s)
    assert seen.goal is not None
    changes = (
        Alternative("more_runs", "run 9 more", 0.5, sla=Sla(69, goal=5.0)),
        Alternative("close", "close mode=bad", 0.4, close=(("mode", "bad"),)),
    )
    warning = MissWarning(1, seen.paper, None, (), "Likely to miss", "forecast", seen, changes)
    _, (warning, finish) = happen(
        experiment,
        NoticeState(),
        WarningIssued(now_s, warning),
        ExperimentFinished(now_s, "enough"),
    )
    assert json.loads(warning.as_json())["warning"] == {
        "number": 1, "basis": "forecast", "exploitation": None,
        "pending": None, "remaining": None, "shortfall": None,
        "goal": 5.0, "chance": seen.goal.chance, "band": list(seen.goal.band or ()),
        "alternatives": [
            {"number": 1, "kind": "more_runs", "text": "run 9 more", "chance": 0.5},
            {"number": 2, "kind": "close", "text": "close mode=bad", "chance": 0.4},
        ],
    }  # fmt: skip
    ended = json.loads(finish.as_json())["finish"]
    assert (ended["goal"], ended["reached_by"], ended["chance"]) == (5.0, None, 0.0)
    sample = json.loads(of_test(experiment, "warning", now_s).as_json())["warning"]
    assert sample["basis"] == "forecast"
    assert set(sample["alternatives"][0]) == {"number", "kind", "text", "chance"}


def test_the_sentence_is_one_line_and_variables_hold_any_text() -> None:
    text = "first\nsecond\0 \ud800" + "x" * 10_000
    notice = of_failed_sweep(opened(), text, 0, NOON_S)
    assert "\n" not in notice.sentence
    assert notice.as_json().count("\n") == 1
    assert json.loads(notice.as_json())["failure"]["text"] == text
    said = notice.variables["COPPERLINE_SENTENCE"]
    assert len(said) == MAX_VARIABLE
    assert "\0" not in said
    said.encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_test_of_a_hook_has_every_field_of_its_kind(kind: str) -> None:
    told = json.loads(of_test(opened(), kind, NOON_S).as_json())  # type: ignore[arg-type]
    assert told["test"] is True
    assert [part for part in KINDS if told[part] is not None] == [kind]


def test_failures_are_told_at_once_then_once_a_minute_with_their_number() -> None:
    experiment, heard, told = opened(), NoticeState(), []
    for run_id, at_s in ((1, 0.0), (2, 1.0), (3, 59.9), (4, 60.0), (5, 61.0), (6, 200.0)):
        heard, notices = happen(experiment, heard, failed(run_id, NOON_S + at_s))
        told += notices
    assert [(n.failure.run, n.failure.count) for n in told if n.failure] == [(1, 1), (4, 3), (6, 2)]
    assert "(3 runs have failed since the last notice)" in told[1].sentence


def test_what_was_held_back_is_told_by_the_next_event_after_a_minute_and_before_the_end() -> None:
    experiment = opened()
    heard, told = happen(
        experiment, NoticeState(), failed(1, NOON_S), failed(2, NOON_S + 1),
        completed(3, 1.0, NOON_S + 59), completed(4, 1.0, NOON_S + 61),
        completed(5, 1.0, NOON_S + 200),
    )  # fmt: skip
    assert [(n.at[-9:], n.failure.run) for n in told if n.failure] == [
        ("12:00:00Z", 1), ("12:01:01Z", 2),
    ]  # fmt: skip
    _, told = happen(
        experiment, heard, failed(6, NOON_S + 62), ExperimentFinished(NOON_S + 63, "enough")
    )
    assert [n.kind for n in told] == ["failure", "finish"]


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    experiment = opened()
    _, told = happen(experiment, NoticeState(), failed(1, NOON_S), failed(2, NOON_S - 86_400))
    assert len(told) == 2


@given(st.lists(st.floats(0, 100), min_size=1, max_size=23))
def test_no_burst_breaks_the_rate_and_no_failure_is_lost(gaps: list[float]) -> None:
    experiment, heard, at_s = opened(), NoticeState(), NOON_S
    counts, calls_s = [], []
    for run_id, gap_s in enumerate(gaps, 1):
        at_s += gap_s
        heard, told = happen(experiment, heard, failed(run_id, at_s))
        counts += [n.failure.count for n in told if n.failure]
        calls_s += [at_s] * len(told)
    assert sum(counts) + heard.count == len(gaps)
    assert counts[0] == 1
    assert all(later - at >= FAILURES_EVERY_S for at, later in pairwise(calls_s))


def test_the_end_of_automatic_steering_is_told_once_and_is_no_end_of_the_experiment() -> None:
    experiment = opened()
    heard, (notice,) = notices_of_end(experiment, "the deadline has passed", NoticeState(), NOON_S)
    assert notice.finish is not None
    assert notice.finish.finished is False
    assert "is paused: the deadline has passed" in notice.sentence
    assert notices_of_end(experiment, "the deadline has passed", heard, NOON_S + 9) == (heard, ())
    assert notices_of_end(experiment, "another reason", heard, NOON_S + 9)[1]
