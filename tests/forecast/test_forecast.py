"""The whole forecast: a pure function of journal and time, decided where it is decided, never NaN.

Numbers come from few runs of `Hills`' space with results that are told.
"""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assistant import Experiment, Sla, Tariff, open_session
from assistant.analysis.calibration import BAND
from assistant.analysis.forecast import forecast
from assistant.core.codec import decode_event, encode_event
from assistant.core.events import (
    BudgetChanged,
    ExperimentFinished,
    RunCompleted,
    RunReturned,
    RunStarted,
    SpaceChanged,
)
from assistant.core.forecast import EndForecast, Forecast, GoalForecast
from assistant.executors.serial import SerialExecutor
from assistant.presentation.text.forecast import ForecastSubject, forecast_sentences, headline
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl
from tests.forecast.examples import MADE, ended_s, told, told_events

FALLING = [100.0 - 3 * i + 7 * (i % 3) for i in range(20)]
SLA = Sla(60, goal=5.0)


def goal_of(seen: Forecast) -> GoalForecast:
    assert seen.goal is not None
    return seen.goal


def chance(experiment: Experiment, **other: object) -> float:
    found = goal_of(forecast(experiment, ended_s(experiment), **other)).chance  # type: ignore[arg-type]
    assert found is not None
    return found


def words(seen: Forecast) -> str:
    subject = ForecastSubject("height")
    return " ".join((headline(subject, seen), *forecast_sentences(subject, seen)))


def test_it_is_the_same_after_a_restart_and_changes_nothing() -> None:
    sla = Sla(60, deadline_s=1_010_000.0, goal=5.0)
    events = told_events(FALLING, sla, going=2, workers=2)
    experiment = Experiment.replay(events)
    now_s = ended_s(experiment) + 5.0
    first = forecast(experiment, now_s)
    lines = [json.dumps(encode_event(event)) for event in events]
    again = Experiment.replay([decode_event(json.loads(line)) for line in lines])
    assert forecast(again, now_s) == first
    assert forecast(experiment, now_s) == first
    assert forecast(experiment, now_s + 500.0) != first


@pytest.mark.parametrize("by", ["runs", "deadline", "cost"])
def test_more_budget_never_lowers_the_chance_on_the_same_draws(by: str) -> None:
    tariff = Tariff("EUR", per_hour=3_600.0)
    start = told(FALLING, Sla(60, goal=5.0, max_cost=2_000.0, tariff=tariff), workers=2)
    now_s = ended_s(start)
    chances = []
    for more in (0, 1, 2, 5, 10, 30, 100):
        sla = {
            "runs": Sla(20 + more, goal=5.0),
            "deadline": Sla(None, deadline_s=now_s + 60.0 * more + 1, goal=5.0),
            "cost": Sla(None, max_cost=1_201.0 + 60.0 * more, tariff=tariff, goal=5.0),
        }[by]
        chances.append(goal_of(forecast(start, now_s, sla=sla)).chance or 0.0)
    assert chances == sorted(chances)
    assert chances[0] < 0.05
    assert chances[-1] > chances[3] > chances[0]


@pytest.mark.soak
@given(st.floats(-50.0, 99.0), st.floats(0.0, 50.0))
def test_a_harder_goal_is_never_likelier(goal: float, harder: float) -> None:
    experiment = told(FALLING, SLA)
    easy, hard = (chance(experiment, sla=Sla(60, goal=x)) for x in (goal, goal - harder))
    assert hard <= easy


def test_nothing_left_is_no_chance_and_a_goal_already_met_is_certain() -> None:
    over = told(FALLING, Sla(20, goal=5.0))
    assert chance(over) == 0.0
    assert goal_of(forecast(over, ended_s(over))).band == (0.0, 0.0)
    met = told(FALLING, Sla(20, goal=60.0))
    seen = goal_of(forecast(met, ended_s(met)))
    assert seen.chance == 1.0
    assert seen.reached_by == next(i for i, x in enumerate(FALLING, 1) if x <= 60.0)
    assert seen.runs_needed is not None
    assert seen.runs_needed.high == 0.0
    assert forecast(met, ended_s(met)).silence == ""


def test_a_deadline_that_has_passed_leaves_nothing() -> None:
    experiment = told(FALLING, Sla(60, deadline_s=1_000_500.0, goal=5.0))
    seen = forecast(experiment, ended_s(experiment))
    assert goal_of(seen).chance == 0.0
    assert seen.binding == "deadline"


def test_one_exhausted_term_is_enough_whatever_is_unknown_of_another() -> None:
    """A cost that no run has told does not keep a deadline that has passed open."""
    priced = Tariff("J", measure="energy_j")  # which the runs do not give
    experiment = told(FALLING, Sla(60, 1_000_500.0, 9.0, priced, goal=5.0))
    seen = forecast(experiment, ended_s(experiment))
    assert goal_of(seen).chance == 0.0
    assert seen.silence == ""
    assert seen.binding == "deadline"
    assert seen.remaining is not None
    assert seen.remaining.high == 0.0
    open_still = forecast(
        experiment, ended_s(experiment), sla=replace(experiment.sla, deadline_s=2e6)
    )
    assert goal_of(open_still).chance is None
    assert "known cost" in open_still.silence


def test_a_finished_experiment_has_no_chance_left() -> None:
    experiment = told(FALLING, SLA)
    at_s = ended_s(experiment)
    experiment.apply(ExperimentFinished(at_s, "the analyst stopped"))
    assert goal_of(forecast(experiment, at_s)).chance == 0.0


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_too_few_runs_are_said_and_give_no_number(n: int) -> None:
    experiment = told(FALLING[:n], SLA)
    seen = forecast(experiment, ended_s(experiment))
    assert goal_of(seen).chance is None
    assert seen.miss is None
    assert seen.best is None
    assert seen.fan == ()
    assert f"{n} run" in seen.silence
    assert seen.silence in words(seen)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([None] * 20, "0 configurations have a result"),
        ([7.5] * 20, "all results are equal"),
        ([None] * 13 + [1.0 + i for i in range(7)], "7 configurations have a result"),
    ],
)
def test_results_that_show_nothing_are_said(results: list[float | None], said: str) -> None:
    experiment = told(results, Sla(60, goal=0.5))
    seen = forecast(experiment, ended_s(experiment))
    assert seen.silence.startswith(said)
    assert goal_of(seen).chance is None
    assert seen.silence in words(seen)


def test_a_clock_that_steps_back_gives_the_same_as_no_time_gone_by() -> None:
    experiment = told(FALLING, Sla(60, deadline_s=1_010_000.0, goal=5.0), going=1)
    now_s = ended_s(experiment)
    back = forecast(experiment, now_s - 5_000.0)
    assert goal_of(back).chance is not None
    assert (goal_of(back).chance or 0.0) >= (goal_of(forecast(experiment, now_s)).chance or 0.0)
    negative = told(FALLING, SLA, durations_s=[0.0] * 20)  # a clock that stood still
    assert 0.0 < chance(negative) < 1.0


def numbers(value: object) -> list[float]:
    """Every number in a forecast."""
    if isinstance(value, float):
        return [value]
    if isinstance(value, tuple):
        return [x for one in value for x in numbers(one)]
    if hasattr(value, "__slots__"):
        return [x for name in value.__slots__ for x in numbers(getattr(value, name))]
    return []


odd = st.sampled_from([0.0, 1e-12, 1.0, 60.0, 1e7, 1e9, 1e300, math.inf, math.nan, -5.0])


@given(
    results=st.lists(st.none() | st.floats(-1e12, 1e12), min_size=0, max_size=25),
    durations=st.lists(odd, min_size=25, max_size=25),
    going=st.integers(0, 3),
    later=st.sampled_from([-1e6, 0.0, 1.0, 1e6, 1e9]),
    goal=st.none() | st.floats(-1e12, 1e12),
    limits=st.tuples(
        st.none() | st.integers(30, 10**6),
        st.none() | st.floats(1.0, 1e11),
        st.none() | st.floats(0.01, 1e15),
    ),
)
@example([100.0] * 12 + [1.0] * 10, [math.inf] * 25, 2, 0.0, 0.0, (30, 1e11, 1.0))
def test_any_journal_gives_numbers_or_a_sentence(
    results: list[float | None],
    durations: list[float],
    going: int,
    later: float,
    goal: float | None,
    limits: tuple[int | None, float | None, float | None],
) -> None:
    runs, deadline_s, cost = limits
    tariff = None if cost is None else Tariff("EUR", per_hour=36.0)
    sla = Sla(runs, deadline_s, cost, tariff, goal=goal)
    experiment = told(
        results, sla, durations_s=durations[: len(results)], going=going, workers=3,
        strategy="copper",
    )  # fmt: skip
    seen = forecast(experiment, ended_s(experiment) + later)
    assert not any(math.isnan(x) for x in numbers(seen))
    if seen.goal is not None:
        assert seen.goal.chance is not None or seen.silence
        assert seen.goal.chance is None or 0.0 <= seen.goal.chance <= 1.0
    if seen.remaining is not None and seen.remaining.low is not None:
        assert seen.remaining.low >= 0
    told_in_words = words(seen)
    assert "nan" not in told_in_words.lower().split()
    assert "inf" not in told_in_words.lower().split()


def test_runs_that_go_on_are_left_to_end() -> None:
    still = told(FALLING, SLA, going=3, workers=3)
    seen = forecast(still, ended_s(still))
    assert seen.remaining is not None
    assert seen.remaining.median == 40.0  # 60 less the 20 that are over
    assert (seen.terms[0].used, seen.under_way) == (20, 3)  # both columns count what is over


def test_it_is_over_only_where_no_future_has_a_run_left() -> None:
    short = [20.0 if i == 9 else 60.0 for i in range(20)]
    still = told(FALLING, Sla(21, goal=5.0), going=1, durations_s=short)
    now_s = ended_s(still)
    near = replace(still.sla, deadline_s=now_s + 30.0)  # one run in twenty is as short
    seen = forecast(still, now_s, sla=near)
    assert seen.remaining is not None
    assert seen.remaining.median == 0.0
    assert (seen.is_over, seen.under_way) == (False, 1)
    assert "1 run is running" in words(seen)
    assert "No run is left" not in words(seen)
    passed = forecast(still, now_s, sla=replace(near, deadline_s=now_s))
    assert passed.is_over
    assert "No run is left" not in words(passed)
    assert forecast(told(FALLING, Sla(20, goal=5.0)), now_s).is_over


def test_with_thousands_of_runs_left_only_the_next_hundred_are_told() -> None:
    experiment = told(FALLING, SLA)
    now_s = ended_s(experiment)
    hundred, far = (forecast(experiment, now_s, sla=Sla(n, goal=5.0)) for n in (120, 7_680))
    assert goal_of(far).chance == goal_of(hundred).chance
    assert (far.best, far.fan) == (hundred.best, hundred.fan)
    assert (goal_of(far).if_doubled, goal_of(hundred).if_doubled) == (None, None)
    assert (far.miss, hundred.miss) == (None, pytest.approx(1.0 - (goal_of(far).chance or 0.0)))
    assert "within the next 100 of the" in words(far)
    assert "expected after the next 100 runs" in words(far)
    assert "within the next" not in words(hundred)
    slow = told(FALLING, SLA, strategy="copper")
    assert "ikely to miss" not in words(forecast(slow, now_s, sla=Sla(7_680, goal=-1e6)))
    assert "ikely to miss" in words(forecast(slow, now_s, sla=Sla(120, goal=-1e6)))


def test_a_deadline_counts_workers_and_their_batches() -> None:
    def left(workers: int) -> float:
        experiment = told(FALLING, SLA, workers=workers, strategy="random")
        now_s = ended_s(experiment)
        seen = forecast(experiment, now_s, sla=Sla(None, deadline_s=now_s + 1_205.0, goal=5.0))
        assert seen.remaining is not None
        assert seen.remaining.median is not None
        return seen.remaining.median

    assert left(1) == pytest.approx(20, abs=2)
    assert left(4) == pytest.approx(80, abs=12)
    assert left(4) > 3 * left(1)


def test_a_run_that_hangs_delays_what_is_left() -> None:
    experiment = told(FALLING, SLA, going=1)
    now_s = ended_s(experiment)
    sla = Sla(None, deadline_s=now_s + 3_600.0, goal=5.0)
    fresh = forecast(experiment, now_s, sla=sla).remaining
    sla = Sla(None, deadline_s=now_s + 2_000.0 + 3_600.0, goal=5.0)
    hanging = forecast(experiment, now_s + 2_000.0, sla=sla).remaining
    assert fresh is not None
    assert hanging is not None
    assert (hanging.median or 0) < (fresh.median or 0) - 5


def test_lost_attempts_make_runs_longer() -> None:
    journal = told_events(FALLING, SLA)
    plain, events = Experiment.replay(journal), list(journal)
    started = [i for i, event in enumerate(events) if isinstance(event, RunStarted)]
    for i in reversed(started):
        one = events[i]
        assert isinstance(one, RunStarted)
        events[i + 1 : i + 1] = [
            RunReturned(one.at_s, one.run_id),
            RunStarted(one.at_s, one.run_id),
        ]
    lost = Experiment.replay(events)
    now_s = ended_s(plain)
    sla = Sla(None, deadline_s=now_s + 3_600.0, goal=5.0)
    once, twice = (forecast(one, now_s, sla=sla).remaining for one in (plain, lost))
    assert once is not None
    assert twice is not None
    assert twice.median == pytest.approx((once.median or 0) / 1.5, abs=1.5)


def test_two_terms_leave_the_lesser() -> None:
    experiment = told(FALLING, SLA)
    now_s = ended_s(experiment)
    tight = replace(SLA, deadline_s=now_s + 600.0)
    seen = forecast(experiment, now_s, sla=tight)
    assert seen.binding == "deadline"
    assert seen.remaining is not None
    assert (seen.remaining.median or 0) == pytest.approx(10, abs=2)
    assert forecast(experiment, now_s, sla=replace(SLA, deadline_s=now_s + 1e6)).binding == (
        "max_runs"
    )


def test_a_finished_experiment_names_the_term_that_was_the_tightest() -> None:
    experiment = told(FALLING, replace(SLA, deadline_s=1_001_810.0))
    at_s = ended_s(experiment)
    assert forecast(experiment, at_s).binding == "deadline"
    experiment.apply(ExperimentFinished(at_s, "the analyst stopped"))
    seen = forecast(experiment, at_s)
    assert (seen.binding, seen.is_over) == ("deadline", True)


def test_an_unknown_cost_is_not_0() -> None:
    priced = Tariff("J", measure="energy_j")
    experiment = told(FALLING, Sla(60, None, 9.0, priced, goal=5.0))
    term = forecast(experiment, ended_s(experiment)).terms[1]
    assert (term.used, term.remaining) == (None, None)
    assert forecast(told([], experiment.sla), 1_000_000.0).terms[1].used == 0.0


def test_what_is_unlike_the_tests_is_said_once_and_only_where_it_is_true() -> None:
    experiment = told(FALLING, SLA)
    at_s = ended_s(experiment)
    assert forecast(experiment, at_s).cautions == ()
    cut = experiment.space.closing("mode", "bad")
    closed = experiment.supposing([SpaceChanged(at_s, cut, "mode=bad closed")])
    assert forecast(closed, at_s).cautions == (
        "closed levels cut the space; the forecast was tested on whole spaces",
    )
    late = experiment.supposing([BudgetChanged(at_s, replace(SLA, goal=4.0))])
    assert forecast(late, at_s).cautions == (
        "the goal was set after 20 runs; the forecast was tested with goals set after at most 10",
    )
    same = experiment.supposing([BudgetChanged(at_s, replace(SLA, max_runs=70))])
    assert forecast(same, at_s).cautions == ()
    opened = replace(experiment.opened, deterministic=False)
    noisy = Experiment.replay([opened, *told_events(FALLING, SLA)[1:]])
    assert forecast(noisy, at_s).cautions == (
        "results vary from run to run; the forecast was tested on equal ones",
    )
    events = [
        replace(event, outcome=replace(event.outcome, feasible=False, violation=1.0))
        if isinstance(event, RunCompleted) and event.run_id == 3
        else event
        for event in told_events(FALLING, SLA)
    ]
    assert forecast(Experiment.replay(events), at_s).cautions == (
        "constraints cut the space; the forecast was tested on whole spaces",
    )


def test_without_a_limit_no_chance_is_told_and_that_is_said() -> None:
    experiment = told(FALLING, SLA)
    seen = forecast(experiment, ended_s(experiment), sla=Sla(None, goal=5.0))
    assert goal_of(seen).chance is None
    assert seen.silence == "the SLA has no budget of runs, no deadline and no cost limit"
    assert goal_of(seen).runs_needed is not None


def test_the_fan_begins_today_and_ends_with_the_best() -> None:
    experiment = told(FALLING, SLA)
    seen = forecast(experiment, ended_s(experiment))
    first, last = seen.fan[0], seen.fan[-1]
    assert (first.runs, first.low, first.median, first.high) == (0, 46.0, 46.0, 46.0)
    assert last.runs == 40
    assert seen.best is not None
    assert (last.low, last.median, last.high) == (seen.best.low, seen.best.median, seen.best.high)
    assert all(b.low <= a.low for a, b in zip(seen.fan, seen.fan[1:], strict=False))
    assert all(one.low <= one.median <= one.high for one in seen.fan)


@pytest.mark.parametrize("steps", [1.0, 100.0, 1e18])
def test_the_fan_of_what_is_above_0_stays_above_it(steps: float) -> None:
    """A duration of less than 0 was once expected of a sweep of durations."""
    best = {
        share: replace(terms, intercept=math.log(steps) - share)
        for share, terms in MADE.best.items()
    }
    experiment = told(FALLING, SLA)
    seen = forecast(experiment, ended_s(experiment), calibration=replace(MADE, best=best))
    assert min(FALLING) > 0
    assert seen.best is not None
    assert seen.best.low is not None
    assert all(point.low > 0 for point in seen.fan)
    assert 0 < seen.best.low < seen.fan[0].low


def test_the_end_of_the_budget_by_hand_and_whatever_the_goal() -> None:
    experiment = told(FALLING, Sla(60))
    at_s = ended_s(experiment)
    end = forecast(experiment, at_s, calibration=MADE).end
    assert end is not None
    stale = (20 - FALLING.index(min(FALLING))) / 20

    def miss(left: float, shift: float = 0.0) -> float:
        return 1.0 / (1.0 + math.exp(math.log(left) - 4.0 - stale - shift))

    assert end.miss == pytest.approx(miss(40.0))
    assert end.band == pytest.approx((miss(40.0, -BAND), miss(40.0, BAND)))
    assert end.if_doubled == pytest.approx(miss(80.0))
    assert end.silence == ""
    with_goal = forecast(experiment, at_s, sla=SLA, calibration=MADE)
    assert with_goal.end == end
    half = forecast(experiment, at_s, sla=Sla(90), calibration=MADE).end
    assert half is not None
    assert half.miss == pytest.approx(miss(70.0))
    assert half.if_doubled is None  # 140 runs are more than were tested


@pytest.mark.parametrize(
    ("results", "sla", "said"),
    [
        (FALLING[:5], Sla(60), "5 runs have ended, and a forecast needs 12"),
        ([7.5] * 20, Sla(60), "all results are equal, so the size of a change is unknown"),
        (FALLING, Sla(7_680), "more than 100 runs are left"),
        (FALLING, Sla(), "the SLA has no budget of runs, no deadline and no cost limit"),
    ],
)
def test_an_end_that_is_unknown_says_why(results: list[float], sla: Sla, said: str) -> None:
    experiment = told(results, sla)
    seen = forecast(experiment, ended_s(experiment), calibration=MADE)
    assert seen.end == EndForecast(None, None, None, said)
    assert said in words(seen)


def test_the_end_under_a_strategy_that_was_not_measured_is_unknown() -> None:
    rest = {name: x for name, x in MADE.end.offsets.items() if name != "random"}
    partly = replace(MADE, end=replace(MADE.end, offsets=rest))
    experiment = told(FALLING, SLA, strategy="random")
    seen = forecast(experiment, ended_s(experiment), calibration=partly)
    assert seen.end == EndForecast(None, None, None, "it is not calibrated for the strategy random")
    assert goal_of(seen).chance is not None


def test_a_limit_of_cost_that_nothing_comes_near() -> None:
    bowl = Bowl()
    sla = Sla(max_cost=1e15, tariff=Tariff("EUR", per_hour=1e-9))
    session = open_session(bowl, store=MemoryStore(), sla=sla, strategy="random")
    session.submit(session.suggest(3))
    session.run_queued(SerialExecutor(bowl))
    remaining = session.forecast().remaining
    assert remaining is not None
    assert remaining.median == 21  # what the space has left
