"""The analyst stays in charge: edits, ratings, closed levels, another strategy, another budget."""

import json
from collections.abc import Callable

import pytest

from assistant import Experiment, RunState, Session, Sla, Steering, WarningPolicy, open_session
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import ExperimentError, ObjectiveError, SettingsError
from assistant.core.events import SpaceChanged
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import Exclusion, StrategyError
from tests.assistant.examples import TODAY, Bowl, TickingClock


def opened(runs: int | None = 20, **more: object) -> tuple[Session, MemoryStore]:
    store = MemoryStore()
    session = open_session(
        Bowl(baseline=TODAY),
        store=store,
        sla=Sla(runs),
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )
    return session, store


def test_a_suggestion_is_edited_with_the_real_levels_only() -> None:
    session, store = opened()
    batch = session.suggest(3)
    with pytest.raises(StrategyError, match="99"):
        session.submit(batch, edits={1: {"x": 99}})
    assert session.experiment.runs == ()
    space = session.experiment.space
    free = next(
        {"x": x, "y": y, "mode": "odd"}
        for x in (0, 1, 2, 3)
        for y in (0, 1, 2)
        if space.from_values({"x": x, "y": y, "mode": "odd"})
        not in {s.configuration for s in batch.suggestions}
    )
    first, second = session.submit(batch, keep=[0], edits={1: free})
    assert first.source == "initial"
    assert second.source == "edited"
    assert space.values(second.configuration) == free
    assert "suggestion 2 of batch 1, changed to" in second.reason
    assert Experiment.replay(store.load(session.id)).runs == session.experiment.runs


def test_confidence_is_the_share_of_suggestions_taken() -> None:
    session, _ = opened()
    assert session.experiment.confidence is None
    batch = session.suggest(4)
    assert session.experiment.confidence is None
    session.submit(batch, keep=[0, 1, 2])
    session.include({"x": 2, "y": 0, "mode": "odd"})
    assert session.experiment.confidence == 0.75


def test_results_are_rated_and_only_results() -> None:
    session, store = opened()
    run = session.include({"x": 2, "y": 0, "mode": "plain"})
    with pytest.raises(ExperimentError, match="only a completed run can be rated"):
        session.rate(run.id, True)
    session.run_queued(SerialExecutor(Bowl()))
    session.rate(run.id, True)
    assert session.experiment.knowledge.observations[0].good is True
    session.rate(run.id, None)
    assert Experiment.replay(store.load(session.id)).run(run.id).good is None


def test_a_closed_level_is_proposed_no_more_and_history_stays() -> None:
    session, store = opened(runs=None)
    run = session.include({"x": 3, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    session.close_level("x", 3)
    session.close_level("mode", "odd")
    batch = session.suggest(30)
    values = [session.experiment.space.values(s.configuration) for s in batch.suggestions]
    assert len(values) == 9
    assert batch.exhausted
    assert all(v["x"] != 3 and v["mode"] == "plain" for v in values)
    with pytest.raises(StrategyError):
        session.include({"x": 3, "y": 1, "mode": "plain"})
    assert session.experiment.run(run.id).state is RunState.COMPLETED
    session.reopen_level("x", 3)
    assert len(session.suggest(30).suggestions) == 2
    replayed = Experiment.replay(store.load(session.id))
    assert replayed.space == session.experiment.space


def test_an_added_level_is_proposed() -> None:
    session, _ = opened(runs=None)
    session.add_level("x", 9)
    proposed = session.suggest(100).suggestions
    assert len(proposed) == 30
    session.exclude("x == 9 and y > 0")
    with pytest.raises(StrategyError, match="x == 9"):
        session.include({"x": 9, "y": 1, "mode": "plain"})


def test_strategy_options_and_budget_change_while_it_runs() -> None:
    session, store = opened(runs=3, strategy="copper")
    session.change_strategy(options={"beta": 0.2})
    session.change_strategy(options={"neighbours": 1})
    assert dict(session.experiment.steering.options) == {"beta": 0.2, "neighbours": 1}
    session.change_strategy("random", exploitation=0.5)
    assert dict(session.experiment.steering.options) == {}
    with pytest.raises(StrategyError, match="did you mean 'grasp'"):
        session.change_strategy("grap")
    with pytest.raises(SettingsError, match="0 to 1"):
        session.change_strategy(exploitation=1.5)
    session.submit(session.suggest(3))
    with pytest.raises(ExperimentError, match="leaves 0"):
        session.include({"x": 3, "y": 2, "mode": "odd"})
    session.change_budget(Sla(10))
    assert session.remaining_runs == 7
    replayed = Experiment.replay(store.load(session.id))
    assert replayed.steering == session.experiment.steering
    assert replayed.sla == Sla(10)


def test_results_from_before_cost_nothing_and_count_as_knowledge() -> None:
    session, _ = opened(runs=2)
    results = [({"x": x, "y": 0, "mode": "plain"}, {"height": float(x)}) for x in (0, 1, 2)]
    assert session.import_results(results) == 3
    assert session.import_results(results) == 0
    assert session.remaining_runs == 2
    assert len(session.experiment.knowledge.observations) == 3
    assert session.experiment.best is not None
    assert session.experiment.best.outcome is not None
    assert session.experiment.best.outcome.value == 0.0
    with pytest.raises(ObjectiveError, match="height"):
        session.import_results(
            [
                ({"x": 3, "y": 0, "mode": "plain"}, {"height": 3.0}),
                ({"x": 3, "y": 1, "mode": "plain"}, {"other": 3.0}),
            ]
        )
    assert len(session.experiment.runs) == 3


def test_a_run_that_a_dead_process_had_started_waits_again() -> None:
    from assistant import load_session
    from assistant.core.events import RunStarted

    session, store = opened()
    session.submit(session.suggest(2))
    store.append(session.id, session.experiment.n_events, [RunStarted(1.0, 1)])
    taken_over = load_session(store, session.id)
    assert taken_over.recover() == 1
    assert [r.state for r in taken_over.experiment.runs] == [RunState.QUEUED] * 2


def test_a_plan_names_levels_of_the_space() -> None:
    session, _ = opened()
    session.change_warning_policy(WarningPolicy(pending="plan"))
    assert session.forecast().paper.pending is None
    session.plan({"x": (0, 1), "mode": ("plain",)})
    assert session.forecast().paper.pending == 6
    session.include({"x": 0, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    assert session.forecast().paper.pending == 5
    with pytest.raises(StrategyError, match="7"):
        session.plan({"x": (7,)})
    with pytest.raises(SettingsError, match="at least one"):
        session.plan({"x": ()})


def test_what_could_not_be_read_back_is_refused_and_nothing_is_stored() -> None:
    session, store = opened()
    run = session.include({"x": 2, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    before = store.load(session.id)
    wrong: list[Callable[[], object]] = [
        lambda: session.change_budget("x"),  # type: ignore[arg-type]
        lambda: session.change_budget(Sla(max_runs=2.5)),  # type: ignore[arg-type]
        lambda: session.change_warning_policy("x"),  # type: ignore[arg-type]
        lambda: session.finish(3),  # type: ignore[arg-type]
        lambda: session.include({"x": 1, "y": 0, "mode": "plain"}, 3),  # type: ignore[arg-type]
        lambda: session.rate(run.id, "yes"),  # type: ignore[arg-type]
        lambda: session.change_strategy(exploitation=True),
        lambda: session.change_strategy(exploitation="0.5"),  # type: ignore[arg-type]
        lambda: session.submit(session.suggest(1), keep=["a"]),  # type: ignore[list-item]
    ]
    for call in wrong:
        with pytest.raises((ExperimentError, SettingsError)):
            call()
    kept = [e for e in store.load(session.id) if type(e).__name__ != "BatchSuggested"]
    assert kept == list(before)


def test_a_condition_that_cannot_be_evaluated_somewhere_is_refused_at_once() -> None:
    session, store = opened()
    with pytest.raises(StrategyError):
        session.exclude("y / x > 1")  # x is 0 somewhere
    assert len(store.load(session.id)) == 1
    assert session.suggest(2).suggestions


def test_a_plan_whose_levels_were_closed_leaves_nothing_pending() -> None:
    session, _ = opened(warning_policy=WarningPolicy(pending="plan"))
    session.plan({"x": (1,)})
    session.close_level("x", 1)
    assert session.forecast().paper.pending == 0
    assert session.suggest(2).suggestions


def test_numbers_that_are_not_finite_are_unknown_in_results_from_before() -> None:
    session, store = opened()
    measures = {"height": 1.0, "other": float("nan"), "series": (1.0, float("inf"))}
    assert session.import_results([({"x": 2, "y": 0, "mode": "plain"}, measures)]) == 1
    outcome = Experiment.replay(store.load(session.id)).run(1).outcome
    assert outcome is not None
    assert outcome.measures["other"] is None


def test_a_preferred_level_draws_half_of_the_suggestions_and_is_journalled() -> None:
    session, store = opened(runs=None)
    session.prefer_level("mode", "odd")
    batch = session.suggest(8)
    said = [s for s in batch.suggestions if s.reason.endswith("; mode='odd' is preferred.")]
    assert len(said) == 4
    space = session.experiment.space
    assert all(space.values(s.configuration)["mode"] == "odd" for s in said)
    assert Experiment.replay(store.load(session.id)).space == space
    session.unprefer_level("mode", "odd")
    assert not any("preferred" in s.reason for s in session.suggest(4).suggestions)
    texts = [e.text for e in store.load(session.id) if isinstance(e, SpaceChanged)]
    assert texts == ["mode=odd preferred", "mode=odd no longer preferred"]
    with pytest.raises(StrategyError, match="is not preferred"):
        session.unprefer_level("x", 1)


def test_a_journal_from_before_there_were_preferences_is_read() -> None:
    session, store = opened()
    session.close_level("x", 3)
    lines = [json.loads(encode_event(event)) for event in store.load(session.id)]
    for line in lines:
        assert line["space"].pop("preferred") == []
    read = Experiment.replay(decode_event(json.dumps(line)) for line in lines)
    assert read.space == session.experiment.space


def test_the_split_by_regions_can_be_taken_back() -> None:
    session, _ = opened(strategy="copper", exploitation=0.5)
    session.change_strategy(options={"beta": 0.3})
    assert session.experiment.steering.exploitation == 0.5
    session.change_strategy(exploitation=None)
    assert session.experiment.steering == Steering("copper", {"beta": 0.3})


EMPTYING: dict[str, Callable[[Session], object]] = {
    "an exclusion of everything": lambda session: session.exclude("x >= 0"),
    "the last level that an exclusion leaves": lambda session: session.close_level("x", 0),
    "a draft of closed levels": lambda session: session.what_if(close=[("x", 0)]),
}


@pytest.mark.parametrize("empty", EMPTYING.values(), ids=EMPTYING)
def test_a_decision_that_leaves_no_configuration_is_refused_and_not_stored(
    empty: Callable[[Session], object],
) -> None:
    session, store = opened()
    session.exclude("x > 0")
    stored = store.load(session.id)
    with pytest.raises(StrategyError, match="leave no configuration to run"):
        empty(session)
    assert store.load(session.id) == stored
    assert session.experiment.space.count_allowed() != 0


def test_an_experiment_without_a_configuration_is_not_opened() -> None:
    store = MemoryStore()
    space = Bowl().space.excluding(Exclusion("x >= 0"))
    with pytest.raises(StrategyError, match="the exclusions 'x >= 0' leave no configuration"):
        open_session(Bowl(), store=store, space=space)
    assert not store.experiments()
