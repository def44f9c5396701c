"""The forecast in charts and in the report, of real sweeps: what was foretold, and what came."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import vl_convert

from agents import Follower
from assistant import Experiment, Objective, Session, SingleMeasure, Sla, open_session
from assistant.analysis.experiment_state import ExecutionStatus, experiment_state
from assistant.analysis.forecast import forecast
from assistant.applications.function import Function
from assistant.core.events import BatchSuggested, Event, MissWarning, WarningAnswered, WarningIssued
from assistant.core.forecast import FanPoint
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.forecast import (
    ChanceMark,
    best_over_time,
    best_with_fan,
    chance_bar,
    chance_over_runs,
    goes_on,
)
from assistant.presentation.charts.vega_lite import RunPoint, Spec
from assistant.presentation.report.data import ReportData, collect
from assistant.presentation.report.html import render_html
from assistant.presentation.tables.forecast_backtest import (
    ChancePoint,
    chance_history,
    forecast_section,
    review_sentences,
)
from assistant.presentation.text.forecast import ForecastSubject
from assistant.store.event_store import MemoryStore
from strategies import Parameter, ParameterSpace
from tests.assistant.examples import TickingClock
from tests.forecast.examples import MADE, calibrated

SPACE = ParameterSpace((Parameter.range("x", 0, 19, 1), Parameter.range("y", 0, 19, 1)))


def height(x: int, y: int) -> float:
    return float((x - 7) ** 2 + (y - 4) ** 2 + 3)


def swept(goal: float | None, runs: int = 26, stop: int | None = None) -> Session:
    application = Function(height, SPACE, Objective(SingleMeasure("height")))
    session = open_session(
        application,
        store=MemoryStore(),
        sla=Sla(runs, goal=goal),
        strategy="random",
        clock=TickingClock(),
    )
    Follower(batch=2, max_runs=stop).steer(session, SerialExecutor(application))
    return session


@cache
def journal(goal: float, runs: int = 26) -> tuple[Event, ...]:
    """The best of the 26 runs of this seed is above 4, so that 3 is missed and 60 reached."""
    return swept(goal, runs).events()


# -- charts ------------------------------------------------------------------------------------

POINTS = tuple(
    RunPoint(i, i, v, b, feasible=True, source="suggested", at_s=1e9 + 60.0 * i)
    for i, (v, b) in enumerate([(90.0, 90.0), (80.0, 80.0), (85.0, 80.0)], 1)
)
FAN = (
    FanPoint(0, 0.0, 80.0, 80.0, 80.0),
    FanPoint(5, 300.0, 70.0, 78.0, 80.0),
    FanPoint(10, 600.0, -400.0, 76.0, 80.0),
)


def rows(spec: Spec, field: str) -> list[dict[str, Any]]:
    """The rows of the first layer that draws a field of its own data."""
    return next(
        list(layer["data"]["values"])
        for layer in spec["layer"]
        if "data" in layer and layer["data"]["values"] and field in layer["data"]["values"][0]
    )


def test_the_fan_goes_on_from_the_last_run_and_does_not_hide_the_rest() -> None:
    spec = best_with_fan(POINTS, FAN, baseline=None, goal=72.0, end=10.0, title="height")
    drawn = rows(spec, "median")
    assert [(row["run"], row["median"]) for row in drawn] == [(3, 80.0), (8, 78.0), (13, 76.0)]
    assert drawn[-1]["to"] == -400.0  # told in the tooltip, drawn no farther than half the height
    assert drawn[-1]["low"] == 72.0 - (90.0 - 72.0) / 2
    assert goes_on(POINTS, FAN, 72.0)
    assert not goes_on(POINTS, FAN[:2], 72.0)
    assert rows(spec, "goal") == [{"goal": 72.0, "label": "goal"}]
    assert {"run": 13.0, "label": "budget ends"} in [
        row for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])
    ]


def test_time_runs_on_the_clock_until_the_deadline() -> None:
    spec = best_over_time(
        POINTS, FAN, now_s=1e9 + 200.0, goal=None, deadline_s=1e9 + 900.0, title="height"
    )
    assert [row["at"] for row in rows(spec, "median")] == [1e12 + t for t in (2e5, 5e5, 8e5)]
    assert [row["at"] for row in spec["data"]["values"]] == [1e12 + t for t in (6e4, 12e4, 18e4)]
    assert spec["layer"][-1]["data"]["values"] == [{"at": 1e12 + 9e5, "label": "deadline"}]


MARKS = [ChanceMark(12, 0.4, 0.2, 0.6), ChanceMark(20, 0.1, 0.04, 0.3)]


@pytest.mark.parametrize(
    "spec",
    [
        best_with_fan(POINTS, FAN, baseline=91.0, goal=72.0, end=10.0, title="height [m]"),
        best_with_fan(POINTS, (), baseline=None, goal=None, end=None, title="height"),
        best_with_fan(
            [RunPoint(1, 1, 1e6, 1e6, True, "suggested"), RunPoint(2, 2, 3.0, 3.0, True, "s")],
            FAN[1:],
            baseline=None,
            goal=0.5,
            end=10.0,
            title="wide",
        ),
        best_over_time(POINTS, FAN, now_s=1e9, goal=7.0, deadline_s=1e9 + 9e5, title="height"),
        chance_bar(0.25, (0.11, 0.48)),
        chance_over_runs(MARKS, None, None),
        chance_over_runs(MARKS, 26, reached=False),
        chance_over_runs(MARKS, 23, reached=True),
    ],
)
def test_every_chart_is_drawn(spec: Spec) -> None:
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg.startswith("<svg")
    assert "NaN" not in svg


# -- how it went -------------------------------------------------------------------------------


def replayed(events: Sequence[Event]) -> Experiment:
    return Experiment.replay(events)


def test_what_was_foretold_is_recomputed_from_what_was_known_then() -> None:
    events = journal(3.0)
    course = chance_history(events)
    assert course
    assert course[0].runs >= 12
    assert all(a.runs < b.runs for a, b in pairwise(course))
    for point in (course[0], course[-1]):
        end = next(
            i
            for i, event in enumerate(events, 1)
            if isinstance(event, BatchSuggested)
            and sum(run.ended_s is not None for run in replayed(events[:i]).runs) == point.runs
        )
        seen = forecast(replayed(events[:end]), events[end - 1].at_s)
        assert seen.goal is not None
        assert (point.chance, point.band) == (seen.goal.chance, seen.goal.band)
        assert seen.remaining is not None
        assert point.left == seen.remaining.median


def test_the_course_ends_where_the_goal_is_reached_and_is_thinned_evenly() -> None:
    events = journal(3.0)
    whole = chance_history(events)
    few = chance_history(events, most=3)
    assert (few[0], few[-1], len(few)) == (whole[0], whole[-1], 3)
    assert chance_history(journal(60.0)) == ()  # reached before there is enough to speak
    assert chance_history(()) == ()
    assert chance_history(swept(None, 16).events()) == ()


@pytest.fixture
def unwarned() -> Iterator[None]:
    """A forecast that gives no warning by itself."""
    never = replace(MADE.goal, warn=dict.fromkeys(MADE.goal.warn, 0.999))
    with calibrated(replace(MADE, goal=never)):
        yield


@pytest.mark.usefixtures("unwarned")
def test_an_answer_that_changes_the_steering_is_a_point_and_the_course_ends_now() -> None:
    """Without it a report after `steer --change` ends with the chance before the change."""
    session = swept(3.0, 60, stop=24)
    before = chance_history(session.events())
    now_s = session.now_s()
    batch = session.suggest(2)  # what the warning comes with
    seen = session.forecast()
    warning = MissWarning(1, seen.paper, None, (), "Likely to miss", "forecast", seen)
    events = [
        *session.events(),
        WarningIssued(now_s, warning),
        WarningAnswered(now_s, 1, "changed", 0.7),
    ]
    experiment = Experiment.replay(events)
    course = chance_history(events)
    assert len(course) == len(before) + 2
    assert course[-1].runs == course[-2].runs == 24
    assert course[-1].chance != course[-2].chance
    told = forecast_section(experiment, events, now_s)
    assert told is not None
    assert batch.suggestions
    assert told.course[-1].is_now
    assert told.course[-1].chance == told.chance == pytest.approx(course[-1].chance)
    assert "now, after 24;" in told.went[0]
    ignored = [*events[:-1], WarningAnswered(now_s, 1, "ignored", None)]
    assert len(chance_history(ignored)) == len(before) + 1


def course_of(*verdicts: tuple[float, Any]) -> list[ChancePoint]:
    return [
        ChancePoint(12 + 2 * i, 20.0, 3.0, chance, (chance / 2, chance), verdict)
        for i, (chance, verdict) in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("goal", "verdict", "chance", "said"),
    [
        (3.0, "likely_miss", 0.2, "'likely to miss' was given once, after 12 runs; it was right"),
        (3.0, "on_track", 0.9, "'on track' was given once, after 12 runs; it was wrong"),
        (3.0, "open", 0.5, "The forecast gave no verdict"),
        (
            60.0,
            "very_likely_miss",
            0.05,
            "'likely to miss' was given once, after 12 runs; it was wrong",
        ),
        (60.0, "on_track", 0.9, "'on track' was given once, after 12 runs; it was right"),
    ],
)
def test_a_verdict_is_called_right_or_wrong_as_it_came(
    goal: float, verdict: Any, chance: float, said: str
) -> None:
    experiment = replayed(journal(goal))
    seen = forecast(experiment, 1_000_500.0)
    course = [
        ChancePoint(12, 14.0, goal, chance, (chance / 2, chance), verdict),
        ChancePoint(14, 12.0, goal, 0.5, (0.3, 0.7), "open"),
    ]
    told = " ".join(review_sentences(ForecastSubject.of(experiment), course, seen))
    assert said in told


def test_another_goal_on_the_way_is_said_and_nothing_is_judged() -> None:
    experiment = replayed(journal(3.0))
    seen = forecast(experiment, 1_000_500.0)
    told = review_sentences(ForecastSubject.of(experiment), course_of((0.2, "likely_miss")), seen)
    assert "it was right" in told[-1]
    other = ChancePoint(14, 9.0, 5.0, 0.4, (0.2, 0.6), "open")
    told = review_sentences(
        ForecastSubject.of(experiment), [*course_of((0.2, "likely_miss")), other], seen
    )
    assert "The goal changed during the sweep (3, 5)" in told[-1]


# -- the report --------------------------------------------------------------------------------


def section(page: str) -> str:
    found = re.search(r'<section id="forecast">(.*?)</section>', page, re.DOTALL)
    assert found is not None
    return found[1]


def reported(session: Session, execution: ExecutionStatus | None = None) -> ReportData:
    state = experiment_state(session.experiment, 1_000_100.0, execution)
    return collect(session.experiment, session.events(), state=state)


def test_a_report_on_the_way_tells_the_chance_the_fan_and_the_terms() -> None:
    session = swept(3.0, 60, stop=24)
    data = reported(session)
    assert data.forecast is not None
    text = section(render_html(data))
    assert data.forecast.headline in text
    assert "runs: 24 of 60 ended, 36 left" in text
    assert "Copper&#39;s rule (not calibrated)" in text
    assert text.count("<svg") == 3  # the chance, the fan, the chance over runs; no deadline
    assert "; it was" not in text
    session.change_budget(Sla(60, deadline_s=1_000_000.0 + 5_000.0, goal=3.0))
    going = section(render_html(reported(session, ExecutionStatus(in_process=True))))
    assert going.count("<svg") == 4
    assert "deadline: " in going
    assert "The runs left end" in going
    stopped = section(render_html(reported(session)))
    assert stopped.count("<svg") == 3, "no end in time while nobody executes runs"
    assert "The runs left end" not in stopped


def test_a_finished_report_tells_what_became_of_it() -> None:
    session = swept(3.0)
    session.finish("used up")
    text = section(render_html(reported(session)))
    assert "The goal of 3 was not reached." in text
    assert "Past forecasts" in text
    assert re.search(r"it was (right|wrong)|The forecast gave no verdict", text)
    reached = swept(60.0)
    reached.finish("used up")
    text = section(render_html(reported(reached)))
    assert "is reached, by run" in text


def test_without_goal_and_without_anything_to_come_there_is_no_section() -> None:
    session = swept(None, 16)
    session.finish("used up")
    data = reported(session)
    assert data.forecast is None
    assert 'id="forecast"' not in render_html(data)
