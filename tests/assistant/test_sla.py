"""The paper's rule: pending in the regions against what remains, and the warning that it makes."""

import pytest

from agents import Follower
from assistant import Experiment, MissWarning, Session, Sla, Tariff, WarningPolicy, open_session
from assistant.core.errors import ExperimentError, SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import RegionRule
from tests.assistant.examples import Bowl, TickingClock

# good: a height of at most 3 in mode plain, which is x in 1..3 (y by height): one region
RULE = RegionRule(good="threshold", threshold=-3.0, eps=1.5, min_samples=2)


def session_with(runs: int, **watch: object) -> tuple[Session, MemoryStore]:
    store = MemoryStore()
    session = open_session(
        Bowl(),
        store=store,
        sla=Sla(runs),
        clock=TickingClock(),
        warning_policy=WarningPolicy(regions=RULE, rule="paper", **watch),  # type: ignore[arg-type]
    )
    for x, y in ((2, 0), (2, 1), (1, 0)):
        session.include({"x": x, "y": y, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    return session, store


def test_pending_is_compared_with_what_remains() -> None:
    session, _ = session_with(runs=5, pending="box")
    seen = session.forecast().paper
    assert len(seen.regions) == 1
    assert seen.regions[0].members == 3
    assert seen.pending == 1  # the box is x in 1..2, y in 0..1, plain: four, three evaluated
    assert seen.remaining == 2
    assert seen.shortfall == -1
    assert seen.is_miss is False
    session.change_budget(Sla(3))
    assert session.forecast().paper.shortfall == 1
    assert session.forecast().paper.is_miss is True


def test_queued_runs_count_only_where_they_are_in_a_region() -> None:
    session, _ = session_with(runs=20, pending="queued")
    assert session.forecast().paper.pending == 0
    session.include({"x": 1, "y": 1, "mode": "plain"})
    session.include({"x": 0, "y": 2, "mode": "odd"})
    assert session.forecast().paper.pending == 1


def test_before_any_region_nothing_is_known() -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(5), clock=TickingClock())
    seen = session.forecast().paper
    assert (seen.pending, seen.shortfall, seen.is_miss) == (None, None, None)
    assert seen.remaining == 5
    assert seen.mean_duration_s is None


def test_a_deadline_counts_by_the_mean_duration_and_the_workers() -> None:
    sla = Sla(max_runs=100, deadline_s=1000.0)
    assert sla.runs_until_deadline(900.0, 10.0, workers=3) == 30
    assert sla.runs_until_deadline(1000.0, 10.0, workers=3) == 0
    assert sla.runs_until_deadline(900.0, None, workers=3) is None
    assert Sla(max_runs=5).runs_until_deadline(900.0, 10.0, workers=1) is None
    for wrong in (float("nan"), float("inf"), -1.0):
        with pytest.raises(SettingsError):
            Sla(deadline_s=wrong)


def test_the_warning_comes_with_the_suggestions_and_proposes_a_change() -> None:
    session, store = session_with(runs=4, pending="near")
    batch = session.suggest(1)
    warning = session.experiment.open_warning
    assert warning is not None
    assert warning.forecast.is_miss
    assert warning.exploitation == 0.7
    assert "too few" in warning.text
    assert "70%" in warning.text
    assert Experiment.replay(store.load(session.id)).open_warning == warning
    assert len(batch.suggestions) == 1


def test_accepting_changes_the_exploitation_and_takes_its_suggestions() -> None:
    session, _ = session_with(runs=4)
    session.suggest(1)
    warning = session.experiment.open_warning
    assert warning is not None
    batch = session.answer_warning("accepted")
    assert session.experiment.steering.exploitation == 0.7
    assert batch is not None
    assert batch.suggestions == warning.suggestions
    assert session.experiment.open_warning is None
    (run,) = session.submit(batch)
    assert run.configuration == warning.suggestions[0].configuration
    given = session.experiment.answer_to(warning)
    assert given is not None
    assert given.answer == "accepted"


def test_changing_and_ignoring_are_journalled() -> None:
    session, store = session_with(runs=4)
    session.suggest(1)
    with pytest.raises(ExperimentError, match="name the exploitation level"):
        session.answer_warning("changed")
    with pytest.raises(ExperimentError, match="only the answer 'changed'"):
        session.answer_warning("ignored", 0.3)
    assert session.answer_warning("changed", 0.33) is None
    assert session.experiment.steering.exploitation == 0.33
    with pytest.raises(ExperimentError, match="no open warning"):
        session.answer_warning("ignored")
    session.change_budget(Sla(3))  # something changed, so it warns again
    session.suggest(1)
    session.answer_warning("ignored")
    assert session.experiment.steering.exploitation == 0.33
    kinds = [type(event).__name__ for event in store.load(session.id)]
    assert kinds.count("WarningIssued") == 2
    assert kinds.count("WarningAnswered") == 2


def test_no_warning_when_the_budget_suffices_or_it_is_too_early() -> None:
    session, _ = session_with(runs=100)
    session.suggest(1)
    assert session.experiment.open_warning is None
    session, _ = session_with(runs=5, warn_from=0.7)
    session.suggest(1)
    assert session.experiment.open_warning is None  # 3 of 5 runs is 60 %
    session.include({"x": 0, "y": 2, "mode": "odd"})
    session.run_queued(SerialExecutor(Bowl()))
    session.suggest(1)
    assert session.experiment.open_warning is not None


@pytest.mark.parametrize("answer", ["accept", "ignore"])
def test_the_follower_tells_and_answers_warnings(answer: str) -> None:
    session, _ = session_with(runs=9)
    told: list[MissWarning] = []
    agent = Follower(initial=0, batch=2, warnings=answer)  # type: ignore[arg-type]
    agent.steer(session, SerialExecutor(Bowl()), on_warning=told.append)
    assert told
    assert len(session.experiment.runs) == 9
    expected = "accepted" if answer == "accept" else "ignored"
    given = [session.experiment.answer_to(warning) for warning in told]
    assert {one.answer for one in given if one is not None} == {expected}


def test_the_follower_waits_for_an_answer_and_goes_on_once_it_is_there() -> None:
    session, _ = session_with(runs=9)
    agent = Follower(initial=0, batch=2, warnings="wait")
    assert agent.steer(session, SerialExecutor(Bowl())) == "warning 1 waits for an answer"
    n = len(session.experiment.runs)
    assert n < 9
    assert agent.steer(session, SerialExecutor(Bowl())) == "warning 1 waits for an answer"
    assert len(session.experiment.runs) == n
    session.answer_warning("ignored")
    agent.steer(session, SerialExecutor(Bowl()))
    assert len(session.experiment.runs) > n


def test_a_limit_of_cost_warns_without_a_goal() -> None:
    """The paper's rule has runs and a deadline; at the mean cost so far money is runs as well."""
    session, _ = session_with(runs=100, pending="box")
    hour = Tariff("EUR", per_hour=3_600.0)  # 1 EUR a second
    took_s = [run.duration_s for run in session.experiment.runs]
    spent = sum(one or 0.0 for one in took_s)
    session.change_budget(Sla(None, None, 1.2 * spent, hour))  # three runs are over
    seen = session.forecast().paper
    assert (seen.remaining, seen.remaining_by_cost, seen.pending) == (0, 0, 1)
    session.suggest(1)
    warning = session.experiment.open_warning
    assert warning is not None
    assert "the cost limit leaves 0 runs: 1 too few" in warning.text
    assert "Allow 1 more or a higher cost limit." in warning.text
    session.change_budget(Sla(None, None, 3.5 * spent, hour))
    assert session.forecast().paper.remaining_by_cost == 7  # 2.5 times what 3 runs cost
    assert session.forecast().paper.is_miss is False


def test_a_deadline_ends_a_sweep() -> None:
    clock = TickingClock()
    session = open_session(
        Bowl(), store=MemoryStore(), sla=Sla(deadline_s=1_000_030.0), clock=clock
    )
    reason = Follower(initial=4, batch=2).steer(session, SerialExecutor(Bowl()))
    assert "deadline" in reason
    assert 0 < len(session.experiment.runs) < 24


def test_only_what_waits_is_queued() -> None:
    session, _ = session_with(runs=20, pending="queued")
    batch = session.suggest(10)
    assert session.forecast().paper.pending == 0
    session.submit(batch, keep=[0])
    assert (session.forecast().paper.pending or 0) <= 1


def test_an_advice_lapses_when_the_budget_changes_or_a_later_batch_comes() -> None:
    session, store = session_with(runs=4)
    session.suggest(1)
    assert session.experiment.open_warning is not None
    session.change_budget(Sla(1000))
    assert session.experiment.open_warning is None
    with pytest.raises(ExperimentError, match="no open warning"):
        session.answer_warning("accepted")
    assert Experiment.replay(store.load(session.id)).open_warning is None


def test_accepting_never_offers_what_has_run() -> None:
    session, _ = session_with(runs=6)
    session.suggest(1)
    warning = session.experiment.open_warning
    assert warning is not None
    first = warning.suggestions[0].configuration
    session.include(session.experiment.space.values(first))
    batch = session.answer_warning("accepted")
    assert batch is None or first not in {s.configuration for s in batch.suggestions}


def test_with_every_run_inside_the_regions_the_warning_asks_for_more() -> None:
    session, _ = session_with(runs=4)
    session.change_strategy(exploitation=1.0)
    session.suggest(1)
    warning = session.experiment.open_warning
    assert warning is not None
    assert "more runs" in warning.text


def test_an_ignored_warning_is_repeated_only_where_something_has_changed() -> None:
    """It once came with every batch, in the same words."""
    session, _ = session_with(runs=9)
    session.change_budget(Sla(4))
    session.suggest(1)
    first = session.experiment.open_warning
    assert first is not None
    assert first.title == "The budget is too small for the regions of good results"
    session.answer_warning("ignored")
    session.suggest(1)
    session.suggest(1)
    assert session.experiment.warnings == (first,)
    session.change_budget(Sla(5))
    session.suggest(1)
    repeated = session.experiment.open_warning
    assert repeated is not None
    assert repeated.number == 2
