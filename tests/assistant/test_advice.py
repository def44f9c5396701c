"""Warnings by the forecast: when they come, what they propose, and what an answer makes of it."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import Follower
from assistant import (
    Experiment,
    MissWarning,
    Session,
    Sla,
    WarningPolicy,
    load_session,
    open_session,
)
from assistant.analysis.alternatives import (
    AlternativeSearch,
    events_of_alternative,
    find_alternatives,
)
from assistant.analysis.forecast import evidence_of, forecast
from assistant.analysis.warning import verdict
from assistant.core.codec import decode_event, encode_event
from assistant.core.commands import ChangeSla
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.events import (
    Alternative,
    BatchSuggested,
    BudgetChanged,
    Event,
    ForecastChecked,
    SpaceChanged,
    SteeringChanged,
    WarningAnswered,
    WarningIssued,
)
from assistant.core.forecast import is_alarm_on, percent
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import SpaceError
from tests.assistant.examples import Hills, TickingClock
from tests.forecast.examples import MADE, calibrated, made_model

GOAL = -20.0
"""Below 5, so that nothing reaches it."""


def opened(store: MemoryStore, **more: object) -> Session:
    given: dict[str, object] = {"sla": Sla(50, goal=GOAL), "strategy": "copper", **more}
    return open_session(
        Hills(), store=store, clock=TickingClock(), experiment_id="hills", **given  # type: ignore[arg-type]
    )  # fmt: skip


def run_batch(session: Session, n: int = 2) -> None:
    session.submit(session.suggest(n), keep=range(n))
    session.run_queued(SerialExecutor(Hills()))


@pytest.fixture(autouse=True, scope="module")
def made() -> Iterator[None]:
    """The forecast of these tests, whatever the shipped coefficients are."""
    with calibrated():
        yield


@pytest.fixture(scope="module")
def warned_journal(made: None) -> tuple[Event, ...]:
    """Runs by batches of 2 until the first warning is open."""
    session = opened(MemoryStore())
    session.submit(session.initial_evaluation(12))
    session.run_queued(SerialExecutor(Hills()))
    while session.experiment.open_warning is None:
        run_batch_or_stop(session)
    return session.events()


def run_batch_or_stop(session: Session) -> None:
    batch = session.suggest(2)
    if session.experiment.open_warning is None:
        session.submit(batch)
        session.run_queued(SerialExecutor(Hills()))


@pytest.fixture
def warned(warned_journal: tuple[Event, ...]) -> Session:
    store = MemoryStore()
    store.append("hills", 0, warned_journal)
    return load_session(store, "hills", clock=TickingClock())


def open_warning(session: Session) -> MissWarning:
    warning = session.experiment.open_warning
    assert warning is not None
    return warning


def position_of(warning: MissWarning, kind: str) -> int:
    return [one.kind for one in warning.alternatives].index(kind)


def test_a_warning_comes_as_the_alarm_says_and_once(warned: Session) -> None:
    warning, checks = open_warning(warned), warned.experiment.checks
    threshold = MADE.goal.warn["copper"]
    assert is_alarm_on(checks, threshold)
    assert not is_alarm_on(checks[:-1], threshold)
    assert warning.basis == "forecast"
    assert warning.outlook is not None
    assert warning.outlook.miss == checks[-1].miss
    assert warning.title == "The goal will probably be missed"
    for _ in range(2):
        run_batch(warned)
        assert warned.experiment.warnings == (warning,)  # on still, and just told


def test_checks_are_journalled_and_follow_after_a_restart(warned: Session) -> None:
    again = Experiment.replay(warned.events())
    assert again.checks == warned.experiment.checks
    assert [c.used for c in again.checks] == list(range(12, 12 + 2 * len(again.checks), 2))
    n = len(warned.events())
    warned.suggest(1)  # nothing has ended since: no other check, no other warning
    assert [type(event) for event in warned.events()[n:]] == [BatchSuggested]


def test_another_agreement_or_steering_begins_the_checks_anew(warned: Session) -> None:
    assert warned.experiment.checks
    warned.change_strategy("random")
    assert warned.experiment.checks == ()
    run_batch(warned)
    run_batch(warned)
    assert warned.experiment.checks
    warned.change_budget(Sla(90, goal=GOAL))
    assert warned.experiment.checks == ()
    assert warned.experiment.open_warning is None


def test_alternatives_help_and_the_best_chance_comes_first(warned: Session) -> None:
    warning = open_warning(warned)
    assert warning.outlook is not None
    assert warning.outlook.goal is not None
    now = warning.outlook.goal.chance
    assert now is not None
    chances = [one.chance or 0.0 for one in warning.alternatives]
    assert chances == sorted(chances, reverse=True)
    assert min(chances) >= now + 0.01
    kinds = {one.kind for one in warning.alternatives}
    assert {"strategy", "more_runs", "close", "easier"} <= kinds


def test_an_easier_goal_is_the_hardest_one_with_an_even_chance(warned: Session) -> None:
    at_s = open_warning(warned).forecast.at_s
    larger = ChangeSla(Sla(110, goal=GOAL))
    much = warned.experiment.supposing(larger.decide(warned.experiment, at_s))
    found = find_alternatives(AlternativeSearch(much, forecast(much, at_s), at_s, MADE))
    easier = next(one for one in found if one.kind == "easier")
    assert easier.sla is not None
    assert easier.sla.goal is not None
    assert GOAL < easier.sla.goal < evidence_of(much).losses[0]
    assert easier.chance == pytest.approx(0.5, abs=0.02)
    harsh = replace(MADE, goal=made_model(20.0, covered=-4.0))  # no improvement is likely
    current = forecast(much, at_s, calibration=harsh)
    found = find_alternatives(AlternativeSearch(much, current, at_s, harsh))
    assert "easier" not in {one.kind for one in found}


def test_the_chance_of_an_alternative_is_the_forecast_after_it(warned: Session) -> None:
    warning, before = open_warning(warned), warned.experiment
    for one in warning.alternatives:
        at_s = warning.forecast.at_s
        after = before.supposing(events_of_alternative(before, one, at_s))
        seen = forecast(after, at_s)
        assert seen.goal is not None
        assert seen.goal.chance == one.chance
        if not one.close:
            told = forecast(before, at_s, sla=after.sla, steering=after.steering).goal
            assert told is not None
            assert told.chance == pytest.approx(one.chance)


def test_more_runs_double_what_is_left_at_most(warned: Session) -> None:
    warning = open_warning(warned)
    one = warning.alternatives[position_of(warning, "more_runs")]
    left = 50 - warned.experiment.n_charged
    assert one.sla == Sla(50 + left, goal=GOAL)
    assert one.text == (
        f"run {left} more, {50 + left} in all (100 runs do not give a chance of 50 %)"
    )


def test_the_words_tell_the_numbers_and_promise_nothing(warned: Session) -> None:
    warning = open_warning(warned)
    assert warning.outlook is not None
    goal = warning.outlook.goal
    assert goal is not None
    assert goal.chance is not None
    assert goal.if_doubled is not None
    assert warning.text.startswith(("Likely to miss: about ", "Very likely to miss: about "))
    assert f"from {percent(goal.chance)} to {percent(goal.if_doubled)}." in warning.text
    assert "paper" not in warning.text  # a rule that was not asked for is no part of it
    assert "will be met" not in warning.text


@given(st.floats(0.001, 0.999))
def test_words_go_with_the_probability(miss: float) -> None:
    text = verdict(miss, (miss / 2, (1 + miss) / 2))
    words = ("On track", "Of sweeps", "Likely", "Very likely")
    expected = words[(miss > 0.3) + (miss >= 0.7) + (miss >= 0.9)]
    assert text.startswith(expected)


@pytest.mark.parametrize(
    ("kind", "change"),
    [("strategy", SteeringChanged), ("more_runs", BudgetChanged), ("close", SpaceChanged)],
)
def test_accepting_records_the_answer_the_change_and_the_batch_together(
    warned: Session, kind: str, change: type[Event]
) -> None:
    warning = open_warning(warned)
    which = position_of(warning, kind)
    n = len(warned.events())
    batch = warned.answer_warning("accepted", alternative=which)
    added = warned.events()[n:]
    assert [type(event) for event in added] == [WarningAnswered, change, BatchSuggested]
    assert len({event.at_s for event in added}) == 1
    assert batch is not None
    experiment, chosen = warned.experiment, warning.alternatives[which]
    assert experiment.open_warning is None
    assert experiment.open_batch == batch
    if chosen.sla is not None:
        assert experiment.sla == chosen.sla
    if chosen.steering is not None:
        assert experiment.steering == chosen.steering
        assert {one.strategy for one in batch.suggestions} == {chosen.steering.strategy}
    again = Experiment.replay(warned.events())
    assert (again.sla, again.steering, again.open_batch) == (
        experiment.sla,
        experiment.steering,
        batch,
    )
    given = again.answer_to(warning)
    assert given is not None
    assert (given.answer, given.alternative) == ("accepted", which)
    warned.submit(batch)


def test_the_first_alternative_is_meant_unless_one_is_named(warned: Session) -> None:
    warning = open_warning(warned)
    batch = warned.answer_warning("accepted")
    given = warned.experiment.answer_to(warning)
    assert given is not None
    assert given.alternative == 0
    assert batch is not None
    assert batch.suggestions == warning.suggestions


def test_changing_and_ignoring_leave_the_open_batch(warned: Session) -> None:
    batch = warned.experiment.open_batch
    assert warned.answer_warning("changed", 0.4) is None
    assert warned.experiment.steering.exploitation == 0.4
    assert warned.experiment.open_batch == batch


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"answer": "accepted", "alternative": 9}, "no alternative at position 9"),
        ({"answer": "accepted", "alternative": -1}, "no alternative at position -1"),
        ({"answer": "ignored", "alternative": 0}, "only the answer 'accepted' takes"),
        (
            {"answer": "changed", "exploitation": 0.4, "alternative": 0},
            "only the answer 'accepted'",
        ),
        ({"answer": "changed"}, "name the exploitation level"),
        ({"answer": "accepted", "exploitation": 0.4}, "only the answer 'changed'"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_nothing_is_stored(
    warned: Session, answer: dict[str, object], said: str
) -> None:
    before = warned.events()
    with pytest.raises(ExperimentError, match=said):
        warned.answer_warning(**answer)  # type: ignore[arg-type]
    assert warned.events() == before
    assert warned.experiment.open_warning is not None


def with_alternatives(session: Session, *proposed: Alternative) -> Session:
    """Return the session as if its open advice had proposed something else."""
    events = [
        WarningIssued(e.at_s, replace(e.warning, alternatives=proposed))
        if isinstance(e, WarningIssued)
        else e
        for e in session.events()
    ]
    store = MemoryStore()
    store.append("hills", 0, events)
    return load_session(store, "hills", clock=TickingClock())


def test_closing_levels_is_one_answer_and_refused_where_it_is_too_late(warned: Session) -> None:
    close = Alternative("close", "close mode=bad", 0.3, close=(("mode", "bad"), ("a", 4)))
    session = with_alternatives(warned, close)
    n = len(session.events())
    batch = session.answer_warning("accepted", alternative=0)
    kinds = [type(event) for event in session.events()[n:]]
    assert kinds == [WarningAnswered, SpaceChanged, SpaceChanged, BatchSuggested]
    assert session.experiment.space.closed == {("mode", 1), ("a", 4)}
    assert batch is not None
    session = with_alternatives(warned, close)
    session.close_level("a", 4)
    before = session.events()
    with pytest.raises(SpaceError, match="closed already"):
        session.answer_warning("accepted", alternative=0)
    assert session.events() == before


def test_a_warning_that_proposes_nothing_can_only_be_ignored_or_changed(warned: Session) -> None:
    session = with_alternatives(warned)
    with pytest.raises(ExperimentError, match="proposes no alternative"):
        session.answer_warning("accepted")
    session.answer_warning("ignored")


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["easier", "more_runs"], ("ignored", None)),
        (["easier", "close", "strategy"], ("accepted", 1)),
        ([], ("ignored", None)),
    ],
)
def test_what_a_sweep_accepts_by_itself(
    warned: Session, kinds: list[str], told: tuple[str, int | None]
) -> None:
    proposed = tuple(Alternative(kind, kind) for kind in kinds)  # type: ignore[arg-type]
    assert replace(open_warning(warned), alternatives=proposed).unattended == told


def test_the_follower_never_changes_the_agreement() -> None:
    session, told = opened(MemoryStore()), list[MissWarning]()
    Follower(12, 4, warnings="accept").steer(
        session, SerialExecutor(Hills()), on_warning=told.append
    )
    assert told
    assert session.experiment.sla == Sla(50, goal=GOAL)
    assert session.experiment.steering.strategy != "copper"
    assert len(session.experiment.runs) == 50


def test_no_warning_without_a_goal_by_the_forecast_or_after_it_is_reached() -> None:
    with pytest.raises(SettingsError, match="needs a goal"):
        opened(MemoryStore(), sla=Sla(50), warning_policy=WarningPolicy(rule="forecast"))
    session = opened(MemoryStore(), sla=Sla(50, goal=100.0))
    Follower(12, 4).steer(session, SerialExecutor(Hills()))
    assert not session.experiment.warnings
    with pytest.raises(SettingsError, match="needs a goal"):
        opened(MemoryStore(), sla=Sla(5)).change_warning_policy(WarningPolicy(rule="forecast"))
    session = opened(MemoryStore(), warning_policy=WarningPolicy(rule="forecast"))
    before = session.events()
    with pytest.raises(SettingsError, match="needs a goal"):
        session.change_budget(Sla(60))
    assert session.events() == before


def test_the_paper_warns_where_it_shall() -> None:
    session = opened(MemoryStore(), warning_policy=WarningPolicy(rule="paper"))
    Follower(12, 4).steer(session, SerialExecutor(Hills()))
    kinds = {type(event) for event in session.events()}
    assert ForecastChecked not in kinds
    assert {warning.basis for warning in session.experiment.warnings} == {"paper"}


@pytest.mark.parametrize(
    "wrong",
    [{"rule": "mine"}, {"warn_at": 1.0}, {"warn_at": True}, {"rule": "paper", "warn_at": 0.5}],
)
def test_a_watch_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        WarningPolicy(**wrong)  # type: ignore[arg-type]


def test_another_threshold_warns_sooner_or_not(warned_journal: tuple[Event, ...]) -> None:
    for warn_at, warns in ((0.3, True), (0.99, False)):
        store = MemoryStore()
        session = opened(store, warning_policy=WarningPolicy(warn_at=warn_at))
        session.submit(session.initial_evaluation(12))
        session.run_queued(SerialExecutor(Hills()))
        for _ in range(3):
            run_batch_or_stop(session)
        assert bool(session.experiment.warnings) is warns


def test_supposing_changes_nothing(warned: Session) -> None:
    experiment, before = warned.experiment, warned.events()
    state = (experiment.n_events, experiment.checks, experiment.steering, experiment.knowledge)
    other = experiment.supposing(
        [BudgetChanged(1.0, Sla(99)), BatchSuggested(1.0, len(experiment.batches) + 1, (), False)]
    )
    assert other.sla == Sla(99)
    assert len(other.batches) == len(experiment.batches) + 1
    assert state == (
        experiment.n_events,
        experiment.checks,
        experiment.steering,
        experiment.knowledge,
    )
    assert Experiment.replay(before).open_warning == experiment.open_warning


OLD = {
    "type": "AdviceGiven",
    "v": 1,
    "at_s": 5.0,
    "advice": {
        "number": 1,
        "forecast": {
            "at_s": 5.0, "basis": "near", "executed": 3, "remaining": 1, "remaining_by_runs": 1,
            "remaining_by_deadline": None, "pending": 4, "shortfall": 3, "regions": [],
            "mean_duration_s": 0.1, "predicted_end_s": 5.4,
        },
        "exploitation": 0.7,
        "suggestions": [],
        "text": "4 configurations have no run yet",
    },
}  # fmt: skip


def test_a_journal_from_before_is_read_as_it_was_meant() -> None:
    event = decode_event(json.dumps(OLD))
    assert isinstance(event, WarningIssued)
    assert (event.warning.basis, event.warning.alternatives) == ("paper", ())
    assert event.warning.unattended == ("accepted", None)
    body = {"type": "AdviceAnswered", "v": 1, "at_s": 6.0, "number": 1, "answer": "ignored"}
    answered = decode_event(json.dumps({**body, "exploitation": None}))
    assert answered == WarningAnswered(6.0, 1, "ignored", None)
    steered = {"strategy": "copper", "options": {}, "exploitation": 0.5}
    changed = decode_event(
        json.dumps({"type": "SteeringChanged", "v": 1, "at_s": 6.0, "steering": steered})
    )
    assert isinstance(changed, SteeringChanged)
    assert changed.steering.weights == ()
    watch = json.loads(encode_event(opened(MemoryStore()).events()[0]))
    del watch["watch"]["rule"], watch["watch"]["warn_at"], watch["steering"]["weights"]
    assert decode_event(json.dumps(watch)).warning_policy == WarningPolicy()  # type: ignore[union-attr]
