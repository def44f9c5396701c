"""The forecast in words: known answers for each way it can stand; unknown is never a number."""

import re
from dataclasses import replace

import pytest
from hypothesis import given

from assistant.analysis.warning import warning_text
from assistant.core.forecast import (
    EndForecast,
    Forecast,
    GoalForecast,
    Interval,
    PaperForecast,
    TermForecast,
    WarningCheck,
    band_words,
    percent,
    share_phrase,
)
from assistant.presentation.text.forecast import (
    ForecastSubject,
    best_words,
    chance_words,
    end_chance_words,
    end_words,
    forecast_sentences,
    headline,
    paper_words,
    term_words,
    verdict_of,
)
from tests.draw.forecasts import NOW_S, forecasts, subjects

AT_13_46_S = 1_000_000.0
WAIT = ForecastSubject("mean_wait_s", "s", "EUR")
PAPER = PaperForecast(
    AT_13_46_S, "near", 22, 38, 38, None, 77, 39, (), None, None
)  # fmt: skip
GOAL = GoalForecast(
    goal=12_000.0,
    reached_by=None,
    chance=0.25,
    band=(0.11, 0.48),
    runs_needed=Interval(20.0, 61.2, None),
    seconds_needed=Interval(600.0, 7_800.0, None),
    steps_away=4.1,
    if_doubled=0.38,
)
SEEN = Forecast(
    at_s=AT_13_46_S,
    paper=PAPER,
    terms=(TermForecast("max_runs", 60, 22, Interval(38.0, 38.0, 38.0)),),
    remaining=Interval(38.0, 38.0, 38.0),
    binding="max_runs",
    goal=GOAL,
    duration_s=Interval(60.0, 70.0, 80.0),
    seconds_left=Interval(2_400.0, 2_700.0, 3_000.0),
    best=Interval(11_500.0, 12_500.0, 13_000.0),
    fan=(),
    silence="",
    cautions=(),
    calibration="example",
)
CHANCE = (
    "Chance to reach 3 h 20 min with the 38 runs left: 25 % (11 to 48 % depending on the space)."
)


def with_chance(chance: float) -> Forecast:
    return replace(SEEN, goal=replace(GOAL, chance=chance, band=(chance / 2, (1 + chance) / 2)))


def test_a_likely_miss_tells_how_often_the_chance_its_band_and_its_basis() -> None:
    told = f"Likely to miss: about 3 in 4 sweeps like this one missed their goal. {CHANCE}"
    assert headline(WAIT, SEEN) == told
    assert forecast_sentences(WAIT, SEEN) == (
        (
            "The goal is 4.1 steps beyond the best; with twice the runs left the chance is 38 % "
            "instead of 25 %. A step is the mean distance of the next three results from the best."
        ),
        "The goal is probably reached within 62 further runs, 2 h 10 min at the pace so far.",
        (
            "Best mean_wait_s expected after the 38 runs left: 3 h 28 min (3 h 12 min to "
            "3 h 37 min in 8 of 10 cases)."
        ),
        "The runs left end between 14:26 and 14:36 UTC, most likely about 14:31 UTC.",
    )
    assert term_words(WAIT, SEEN.terms[0], SEEN.at_s) == "runs: 22 of 60 ended, 38 left"


@pytest.mark.parametrize(
    ("chance", "verdict", "begins"),
    [
        (0.0999, "very_likely_miss", "Very likely to miss: about 9 in 10 sweeps"),
        (0.101, "likely_miss", "Likely to miss: about 9 in 10 sweeps"),
        (0.299, "likely_miss", "Likely to miss: about 7 in 10 sweeps"),
        (0.301, "open", "Chance to reach 3 h 20 min"),
        (0.699, "open", "Chance to reach 3 h 20 min"),
        (0.701, "on_track", "On track: about 7 in 10 sweeps like this one reached"),
        (0.995, "on_track", "On track: nearly all sweeps like this one reached"),
    ],
)
def test_verdicts_begin_at_their_bounds_and_between_there_is_none(
    chance: float, verdict: str, begins: str
) -> None:
    seen = with_chance(chance)
    assert verdict_of(seen) == verdict
    assert headline(WAIT, seen).startswith(begins)
    assert "will be" not in headline(WAIT, seen)


def test_what_is_decided_has_no_chance() -> None:
    reached = replace(SEEN, goal=replace(GOAL, reached_by=17, chance=1.0, band=(1.0, 1.0)))
    assert headline(WAIT, reached) == "The goal of 3 h 20 min is reached, by run 17."
    assert chance_words(reached) == "goal reached by run 17"
    nothing = Interval(0.0, 0.0, 0.0)
    over = replace(SEEN, remaining=nothing, goal=replace(GOAL, chance=1e-304), is_over=True)
    assert headline(WAIT, over) == "No run is left, and the goal of 3 h 20 min is not reached."
    finished = replace(WAIT, is_finished=True)
    assert headline(finished, over) == "The goal of 3 h 20 min was not reached."
    assert forecast_sentences(finished, over) == ()
    assert chance_words(over) == ""


def test_silence_says_its_reason() -> None:
    goal = replace(GOAL, chance=None, band=None, runs_needed=None, if_doubled=None)
    seen = replace(SEEN, goal=goal, best=None, silence="7 runs have ended, and a forecast needs 12")
    assert headline(WAIT, seen) == (
        "The chance to reach 3 h 20 min is not known yet: 7 runs have ended, and a forecast "
        "needs 12."
    )
    assert not any("%" in sentence for sentence in forecast_sentences(WAIT, seen))
    assert headline(WAIT, replace(seen, goal=None)) == (
        "No goal is set, and there is no forecast yet: 7 runs have ended, and a forecast needs 12."
    )


def test_without_a_goal_the_chance_that_the_budget_suffices_is_told() -> None:
    free = replace(SEEN, goal=None)
    assert headline(WAIT, free) == best_words(WAIT, free)  # of an old event log
    assert chance_words(free) == ""
    ends = replace(free, end=EndForecast(0.3, (0.14, 0.54), 0.2))
    told = (
        "Chance that the budget suffices: 70 % (46 to 86 % depending on the space). It suffices "
        "if it ends within 5 % of the way from the best possible value to the median."
    )
    assert end_chance_words(ends) == told
    assert headline(WAIT, ends) == f"{told} {best_words(WAIT, free)}"
    why = "it is not calibrated for the strategy my_own"
    silent = replace(free, end=EndForecast(None, None, None, why))
    assert end_chance_words(silent) == (
        f"How near the budget comes to the best value is unknown: {why}."
    )
    over = replace(ends, is_over=True)
    assert (headline(WAIT, over), end_chance_words(over)) == ("No goal is set.", "")


@pytest.mark.parametrize(("left", "verdict"), [(3.0, "nearly_used"), (5.0, "nearly_used"),
                                               (6.0, "likely_miss")])  # fmt: skip
def test_late_there_is_no_verdict(left: float, verdict: str) -> None:
    seen = replace(SEEN, remaining=Interval(left, left, left))  # 22 are executed
    assert verdict_of(seen) == verdict
    assert headline(WAIT, seen).startswith("The budget is nearly used. ") == (left < 6)


def test_no_single_number_of_runs_beyond_what_was_tested() -> None:
    far = replace(SEEN, goal=replace(GOAL, runs_needed=Interval(40.0, None, None)))
    told = forecast_sentences(WAIT, far)
    assert "The goal is probably not reached within 100 further runs." in told


def test_terms_and_the_tightest_of_them() -> None:
    waiting = TermForecast("max_runs", 60, 22, Interval(38.0, 38.0, 38.0))
    cost = TermForecast("max_cost", 20.0, 4.5, Interval(12.0, 15.0, 18.0))
    assert term_words(WAIT, cost, AT_13_46_S) == (
        "cost: 4.5 of 20 EUR spent, 12 to 18 more runs, 15 most likely"
    )
    unknown = replace(cost, used=None, remaining=None)
    assert term_words(WAIT, unknown, AT_13_46_S) == (
        "cost: an unknown part of 20 EUR spent, the number of runs left is unknown"
    )
    deadline = TermForecast("deadline", AT_13_46_S + 90_000.0, AT_13_46_S, None)
    assert term_words(WAIT, deadline, AT_13_46_S) == (
        "deadline: until 1970-01-13 14:46 UTC, the number of runs left is unknown"
    )
    passed = replace(deadline, limit=AT_13_46_S - 60.0, remaining=Interval(0.0, 0.0, 0.0))
    assert term_words(WAIT, passed, AT_13_46_S) == "deadline: 13:45 UTC has passed"
    both = replace(SEEN, terms=(waiting, cost), binding="max_cost", cautions=("of an example",))
    assert forecast_sentences(WAIT, both)[-2:] == (
        "The tightest term: cost.",
        "Caution: of an example.",
    )


def test_ends_without_an_end() -> None:
    assert end_words(replace(SEEN, seconds_left=None)) == "The end of the runs left is unknown."
    assert end_words(replace(SEEN, seconds_left=Interval(2_400.0, None, None))) == (
        "The runs left end at 14:26 UTC or later."
    )
    assert "more than 10 years" in end_words(replace(SEEN, seconds_left=Interval(1.0, 2e9, 1e18)))


def test_the_papers_rule_is_marked_and_promises_nothing() -> None:
    assert paper_words(PAPER) == (
        "Copper's rule (not calibrated): unknown, since there is no region of good results yet."
    )
    planned = replace(PAPER, basis="plan")
    assert paper_words(planned) == (
        "Copper's rule (not calibrated): 77 planned configurations untested, 38 runs left: "
        "39 too few."
    )
    fits = replace(planned, pending=30, shortfall=-8)
    assert paper_words(fits) == (
        "Copper's rule (not calibrated): 30 planned configurations untested, 38 runs left: enough."
    )
    nothing = replace(PAPER, remaining=None, remaining_by_runs=None)
    assert "no budget of runs, deadline or cost limit is set" in paper_words(nothing)


@given(subjects, forecasts)
def test_whatever_is_foreseen_unknown_is_never_a_number(
    subject: ForecastSubject, seen: Forecast
) -> None:
    told = [
        headline(subject, seen),
        *forecast_sentences(subject, seen),
        *(term_words(subject, term, NOW_S) for term in seen.terms),
        paper_words(seen.paper),
        chance_words(seen),
    ]
    for text in told:
        assert not re.search(r"\b(nan|none|inf)\b", text, re.IGNORECASE), text
        assert "  " not in text
        assert "will be met" not in text
    assert headline(subject, seen).endswith(".")
    assert all(text.endswith(".") for text in forecast_sentences(subject, seen))


@given(subjects, forecasts)
def test_a_chance_is_told_only_where_there_is_one(subject: ForecastSubject, seen: Forecast) -> None:
    known = seen.goal is not None and seen.goal.chance is not None
    decided = verdict_of(seen) in ("reached", "missed", "no_goal")
    assert ("Chance to reach" in headline(subject, seen)) == (known and not decided)


def test_nothing_is_over_while_a_run_may_still_end() -> None:
    """The upper end of an 80 % interval is no end: a tenth of the futures lie beyond it."""
    rare = replace(SEEN, remaining=Interval(0.0, 0.0, 0.0), under_way=1)
    assert verdict_of(rare) == "nearly_used"
    assert "runs left (most likely 0): 25 %" in headline(WAIT, rare)
    assert "1 run is running and counted as left." in forecast_sentences(WAIT, rare)
    late = replace(rare, is_over=True, goal=replace(GOAL, chance=0.0), under_way=2)
    assert headline(WAIT, late) == (
        "2 runs are running, but no run can end within the SLA; the goal of "
        "3 h 20 min is not reached."
    )


@pytest.mark.parametrize("miss", [0.001, 0.05, 0.2, 0.3, 0.5, 0.7, 0.74, 0.83, 0.9, 0.97, 0.999])
def test_warnings_and_the_forecast_use_the_same_words(miss: float) -> None:
    """The same chance has one verdict, one share and one figure, wherever it is told."""
    seen = with_chance(1.0 - miss)
    assert seen.goal is not None
    assert seen.goal.band is not None
    warned = warning_text(seen)
    told = headline(WAIT, seen)
    missed = tuple(1.0 - x for x in reversed(seen.goal.band))
    assert f"({band_words(missed)} depending on the space)" in warned  # type: ignore[arg-type]
    for verdict in ("On track", "Very likely to miss", "Likely to miss"):
        assert warned.startswith(verdict) == told.startswith(verdict)
    if miss >= 0.7:
        assert share_phrase(miss) in warned
        assert share_phrase(miss) in told
    if seen.goal.if_doubled is not None:
        assert f"from {percent(seen.goal.chance or 0.0)} to " in warned


@pytest.mark.parametrize("left", [3.0, 4.0, 5.0, 5.5, 6.0, 30.0])
def test_a_budget_is_nearly_used_where_no_warning_is_given_any_more(left: float) -> None:
    seen = replace(SEEN, remaining=Interval(left, left, left))
    check = WarningCheck(22, left, 0.75)
    assert (verdict_of(seen) == "nearly_used") == (not check.may_warn)
