"""What-if: pure, repeatable, the same as the change itself; weights through the session."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assistant import Session, Sla, Tariff, WarningPolicy, load_session, open_session
from assistant.analysis.forecast import evidence_of
from assistant.analysis.forecast_features import features
from assistant.analysis.what_if import RegionRuns, WhatIf
from assistant.core.commands import close_levels
from assistant.core.errors import AssistantError, ExperimentError, SettingsError
from assistant.core.events import Event
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import RegionRule, SpaceError, StrategyError, find_regions
from tests.assistant.examples import Hills, TickingClock
from tests.forecast.examples import MADE, calibrated


@pytest.fixture(autouse=True, scope="module")
def made() -> Iterator[None]:
    """The forecast of these tests, whatever the shipped coefficients are."""
    with calibrated():
        yield


@pytest.fixture(scope="module")
def ran(made: None) -> tuple[Event, ...]:
    """Twenty results of a budget of 50, with a goal that nothing reaches."""
    session = open_session(
        Hills(), store=MemoryStore(), sla=Sla(50, goal=0.0), clock=TickingClock(),
        strategy="copper", experiment_id="hills",
    )  # fmt: skip
    session.submit(session.initial_evaluation(12))
    session.run_queued(SerialExecutor(Hills()))
    session.submit(session.suggest(8))
    session.run_queued(SerialExecutor(Hills()))
    return session.events()


@pytest.fixture
def session(ran: tuple[Event, ...]) -> Session:
    store = MemoryStore()
    store.append("hills", 0, ran)
    return load_session(store, "hills", clock=TickingClock())


CHANGES: tuple[dict[str, object], ...] = (
    {},
    {"exploitation": 0.7},
    {"exploitation": None},
    {"max_runs": 80},
    {"goal": 4.0},
    {"deadline_s": 2_000_000.0},
    {"strategy": "random"},
    {"strategy": "grasp", "options": {"caution": 0.0}},
    {"close": [("mode", "bad"), ("a", 4)]},
    {"exploitation": 1.0, "weights": [(1, 0.0)]},
    {"exploitation": 0.5, "max_runs": 60, "strategy": "pattern_search", "close": [("b", 0)]},
)


@pytest.mark.parametrize("change", CHANGES)
def test_it_changes_and_records_nothing(session: Session, change: dict[str, object]) -> None:
    experiment, events = session.experiment, session.events()
    state = dict(vars(experiment))
    copies = {name: value.copy() for name, value in state.items() if hasattr(value, "copy")}
    first = session.what_if(**change)  # type: ignore[arg-type]
    assert session.events() == events
    assert {name: value for name, value in vars(experiment).items() if name in state} == state
    assert {name: vars(experiment)[name] for name in copies} == copies
    assert isinstance(first, WhatIf)
    second = session.what_if(**change)  # type: ignore[arg-type]
    assert (first.suggestions, first.inside, first.outside) == (
        second.suggestions,
        second.inside,
        second.outside,
    )
    assert "None" not in first.sentence
    assert "nan" not in first.sentence


def test_the_suggestions_are_those_that_would_come(session: Session) -> None:
    thought = session.what_if(strategy="random", close=[("mode", "bad")], exploitation=0.5)
    session.change_strategy("random", exploitation=0.5)
    session.close_level("mode", "bad")
    assert session.suggest(session.batch_size).suggestions == thought.suggestions


@pytest.mark.parametrize("strategy", ["grasp", "copper", "random"])
def test_they_are_as_many_as_a_sweep_would_take_next(session: Session, strategy: str) -> None:
    thought = session.what_if(strategy=strategy)
    session.change_strategy(strategy)
    assert len(thought.suggestions) == session.batch_size
    assert session.suggest(session.batch_size).suggestions == thought.suggestions


def test_the_forecast_is_that_after_the_change(session: Session) -> None:
    thought = session.what_if(max_runs=80, strategy="grasp")
    session.change_budget(Sla(80, goal=0.0))
    session.change_strategy("grasp")
    told = session.forecast().goal
    assert told is not None
    assert thought.after.goal is not None
    assert thought.before.goal is not None
    assert thought.after.goal.chance == pytest.approx(told.chance)
    was, now = thought.before.goal.chance, thought.after.goal.chance
    assert was is not None
    assert now is not None
    assert was < now
    assert thought.sentence.startswith(
        f"The chance to reach the goal would rise from {100 * was:.0f} % to {100 * now:.0f} % ("
    )


def test_fewer_levels_are_a_smaller_space_in_the_formula(session: Session) -> None:
    thought = session.what_if(close=[("mode", "bad")])  # 6,250 combinations become 3,125
    assert thought.before.goal is not None
    assert thought.after.goal is not None
    was, now = thought.before.goal.chance, thought.after.goal.chance
    assert was is not None
    assert now is not None
    assert thought.before.remaining == thought.after.remaining
    closed = session.experiment.supposing(
        close_levels(session.experiment, [("mode", "bad")], 2_000_000.0)
    )
    before, after = evidence_of(session.experiment), evidence_of(closed)
    assert (before.size, after.size) == (6250, 3125)
    terms = MADE.goal.terms
    moved = terms.at(features(before, 0.0)) - terms.at(features(after, 0.0))
    told = math.log(now / (1 - now)) - math.log(was / (1 - was))
    assert told == pytest.approx(moved)
    assert moved != 0


def test_what_is_left_is_divided_whole(session: Session) -> None:
    thought = session.what_if(exploitation=0.7)
    assert thought.outside == 9  # 70 % of 30
    assert sum(one.runs for one in thought.inside) == 21
    assert [one.region for one in thought.inside] == list(range(1, len(thought.inside) + 1))
    assert "and 9 outside." in thought.sentence
    none = session.what_if(exploitation=None)
    assert (none.inside, none.outside) == ((), 30)
    assert "none would be kept for regions" in none.sentence


def test_no_more_is_suggested_than_may_run(session: Session) -> None:
    assert len(session.what_if(max_runs=23).suggestions) == 3  # of the 5 that suit copper
    assert session.what_if(max_runs=20).suggestions == ()


def test_a_finished_experiment_is_thought_of_as_reopened(session: Session) -> None:
    session.finish("enough")
    n = len(session.events())
    thought = session.what_if(max_runs=80)
    assert thought.outside == 60
    assert thought.before.goal is not None
    assert thought.before.goal.chance is not None
    assert thought.before.goal.chance > 0  # with the 30 that were left when it was finished
    assert thought.before.remaining is not None
    assert thought.before.remaining.median == 30
    assert len(session.events()) == n
    assert session.experiment.finished is not None


def test_no_run_left_is_said_and_no_chance(session: Session) -> None:
    said = session.what_if(max_runs=20).sentence
    assert said.startswith("No run would be left, and the goal would not be reached. Allow")
    assert "chance" not in said
    reached = session.what_if(max_runs=20, goal=1e6).sentence
    assert reached.startswith("Run 1 reached this goal already. ")


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"max_runs": 19}, ExperimentError, "20 runs are used already"),
        (
            {"max_runs": "a"},
            SettingsError,
            "the budget of runs must be a whole number from 1 to 1,000,000,000, not 'a'",
        ),
        ({"goal": "low"}, SettingsError, "the goal must be a number from"),
        ({"exploitation": 1.5}, SettingsError, "share from 0 to 1"),
        ({"max_cost": 5.0}, SettingsError, "needs a tariff"),
        ({"strategy": "grap"}, StrategyError, "did you mean 'grasp'"),
        ({"options": {"gamma": 2}}, StrategyError, "gamma"),
        ({"close": [("mode", "odd")]}, StrategyError, "odd"),
        ({"close": [("mode", "bad"), ("mode", "good")]}, SpaceError, "mode"),
        ({"weights": [(1, 2.0)]}, ExperimentError, "set an exploitation level first"),
        ({"exploitation": 0.5, "weights": [(99, 2.0)]}, ExperimentError, "no region 99"),
        ({"exploitation": 0.5, "weights": [(1, -1.0)]}, SettingsError, "from 0 to"),
    ],
)
def test_what_would_be_refused_is_refused(
    session: Session, change: dict[str, object], error: type[AssistantError], said: str
) -> None:
    with pytest.raises(error, match=said):
        session.what_if(**change)  # type: ignore[arg-type]


def test_a_goal_is_thought_away(session: Session) -> None:
    thought = session.what_if(goal="none")
    assert thought.before.goal is not None
    assert thought.after.goal is None
    assert session.experiment.sla.goal == 0.0


def test_money_is_a_term_as_the_others(session: Session) -> None:
    session.change_budget(Sla(50, goal=0.0, max_cost=40.0, tariff=Tariff("EUR", per_hour=3600.0)))
    thought = session.what_if(max_cost=400.0)
    assert thought.before.remaining is not None
    assert thought.after.remaining is not None
    assert (thought.before.remaining.median or 0) <= (thought.after.remaining.median or 0)


def test_silence_is_told_with_its_reason() -> None:
    session = open_session(Hills(), store=MemoryStore(), sla=Sla(50, goal=0.0))
    said = session.what_if(max_runs=60).sentence
    assert said.startswith("The chance is unknown: 0 runs have ended")
    session = open_session(Hills(), store=MemoryStore())
    said = session.what_if(strategy="random").sentence
    assert said.startswith("No goal is set, and whether the budget suffices is unknown: ")
    assert said.endswith(". The number of runs left is unknown.")


RULE = RegionRule("quantile", quantile=0.5, min_samples=2)


def test_a_weight_stays_with_its_region_when_numbers_change(session: Session) -> None:
    session.change_warning_policy(_watching(session))
    with pytest.raises(ExperimentError, match="set an exploitation level first"):
        session.weigh_region(1, 2.0)
    session.change_strategy(exploitation=1.0)
    regions = find_regions(session.experiment.knowledge, RULE)
    assert len(regions) >= 2
    best = regions[1].best.configuration
    session.weigh_region(2, 0.0)
    assert session.experiment.steering.weights == ((best, 0.0),)
    thought = session.what_if()
    assert [one.weight for one in thought.inside][:2] == [1.0, 0.0]
    assert RegionRuns(2, 0, 0.0) in thought.inside
    session.add_level("a", 5)  # numbers of levels are appended: the configuration stays
    session.change_strategy("random")
    assert session.experiment.steering.weights == ((best, 0.0),)
    again = load_again(session)
    assert again.experiment.steering == session.experiment.steering
    assert again.what_if().inside == session.what_if().inside
    session.weigh_region(2, 3.0)
    assert session.experiment.steering.weights == ((best, 3.0),)
    session.weigh_region(2, 1)
    assert session.experiment.steering.weights == ()
    with pytest.raises(ExperimentError, match="no region 77"):
        session.weigh_region(77, 2.0)


def _watching(session: Session) -> WarningPolicy:
    return replace(session.experiment.warning_policy, regions=RULE)


def load_again(session: Session) -> Session:
    store = MemoryStore()
    store.append("hills", 0, session.events())
    return load_session(store, "hills", clock=TickingClock())


def test_nothing_goes_into_a_region_of_weight_0(session: Session) -> None:
    session.change_warning_policy(_watching(session))
    session.change_strategy(exploitation=1.0)
    session.weigh_region(1, 0)
    suggestions = session.suggest(6).suggestions
    assert suggestions
    assert all(one.region != 1 for one in suggestions)
