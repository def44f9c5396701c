"""Figure 3 of the paper through the public API, and what the session refuses."""

import pytest

from agents import Follower
from assistant import AssistantError, Experiment, Run, RunState, Session, Sla, open_session
from assistant.core.errors import ExperimentError
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import NotAllowedError, StrategyError, UnknownLevelError
from tests.assistant.examples import TODAY, Bowl, TickingClock


def session_on(bowl: Bowl, runs: int | None = None, **more: object) -> Session:
    return open_session(
        bowl,
        store=MemoryStore(),
        sla=Sla(runs),
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )


def test_the_loop_finds_the_known_best_and_says_why_it_stopped() -> None:
    bowl = Bowl(baseline=TODAY)
    session = session_on(bowl)
    reason = Follower(initial=4, batch=3, max_runs=24).steer(session, SerialExecutor(bowl))
    best = session.experiment.best
    assert best is not None
    assert best.outcome is not None
    assert bowl.space.values(best.configuration) == {"x": 2, "y": 0, "mode": "plain"}
    assert best.outcome.value == 1.0
    assert best.outcome.quality == -1.0
    assert "24" in reason


def test_a_space_smaller_than_the_budget_is_exhausted_and_says_so() -> None:
    bowl = Bowl()
    session = session_on(bowl, runs=100)
    reason = Follower(initial=4, batch=5).steer(session, SerialExecutor(bowl))
    assert "exhausted" in reason
    runs = session.experiment.runs
    assert len(runs) == 24
    assert len({run.configuration for run in runs}) == 24
    assert session.is_exhausted
    empty = session.suggest(3)
    assert empty.suggestions == ()
    assert empty.exhausted


def test_the_budget_counts_every_run_and_is_never_passed() -> None:
    bowl = Bowl(baseline=TODAY, fail_at_x=1)
    session = session_on(bowl, runs=10)
    Follower(initial=4, batch=4).steer(session, SerialExecutor(bowl))
    assert len(session.experiment.runs) == 10
    assert session.remaining_runs == 0
    with pytest.raises(ExperimentError, match="budget of 10 runs leaves 0"):
        session.include({"x": 3, "y": 2, "mode": "odd"})


def test_failed_runs_are_failures_and_their_configurations_are_not_proposed_again() -> None:
    bowl = Bowl(fail_at_x=1)
    session = session_on(bowl, runs=100)
    Follower(initial=4, batch=5).steer(session, SerialExecutor(bowl))
    failed = session.experiment.runs_in(RunState.FAILED)
    assert len(failed) == 6
    assert {run.failure for run in failed} == {"x = 1 does not work"}
    assert len(session.experiment.knowledge.observations) == 18


def test_the_analyst_takes_part_of_a_batch_and_adds_her_own() -> None:
    bowl = Bowl()
    session = session_on(bowl, runs=10)
    batch = session.suggest(4)
    kept = session.submit(batch, keep=[0, 2])
    own = session.include({"x": 2, "y": 0, "mode": "plain"}, "I know this application")
    assert [run.configuration for run in kept] == [
        batch.suggestions[0].configuration,
        batch.suggestions[2].configuration,
    ]
    assert own.source == "analyst"
    session.run_queued(SerialExecutor(bowl))
    assert session.experiment.best == session.experiment.run(own.id)
    proposed = {s.configuration for s in session.suggest(20).suggestions}
    dropped = {batch.suggestions[1].configuration, batch.suggestions[3].configuration}
    assert not proposed & dropped


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"x": 9, "y": 0, "mode": "plain"}, UnknownLevelError, "x"),
        ({"x": 1, "y": 0}, StrategyError, "mode"),
        ({"x": 1, "y": 0, "mode": "plain", "z": 1}, StrategyError, "z"),
    ],
)
def test_a_wrong_configuration_is_refused_and_nothing_is_stored(
    values: dict[str, object], error: type[Exception], words: str
) -> None:
    store = MemoryStore()
    session = open_session(Bowl(), store=store)
    with pytest.raises(error, match=words):
        session.include(values)  # type: ignore[arg-type]
    assert len(store.load(session.id)) == 1


def test_a_configuration_is_submitted_once() -> None:
    session = session_on(Bowl())
    session.include({"x": 1, "y": 0, "mode": "plain"})
    with pytest.raises(ExperimentError, match="is run 1 already"):
        session.include({"x": 1, "y": 0, "mode": "plain"})
    assert len(session.experiment.runs) == 1


def test_more_than_the_budget_leaves_is_refused_whole() -> None:
    session = session_on(Bowl(), runs=3)
    batch = session.suggest(5)
    with pytest.raises(ExperimentError, match="leaves 3, and 5 were submitted"):
        session.submit(batch)
    assert session.experiment.runs == ()


def test_an_unknown_strategy_or_option_opens_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(StrategyError, match="did you mean 'grasp'"):
        open_session(Bowl(), store=store, strategy="grsp")
    with pytest.raises(StrategyError, match="beta"):
        open_session(Bowl(), store=store, options={"beta": 2.0})
    assert store.experiments() == ()


def test_an_excluded_configuration_is_refused_with_the_condition() -> None:
    from strategies import Exclusion

    space = Bowl.space.excluding(Exclusion.parse("x == 3 and mode == 'odd'"))
    session = session_on(Bowl(), space=space)
    with pytest.raises(NotAllowedError, match="x == 3"):
        session.include({"x": 3, "y": 0, "mode": "odd"})


def test_a_finished_experiment_takes_nothing_more() -> None:
    session = session_on(Bowl())
    session.finish("satisfied")
    with pytest.raises(ExperimentError, match="finished"):
        session.suggest(1)


def test_a_sweep_without_any_limit_is_refused() -> None:
    bowl = Bowl()
    with pytest.raises(AssistantError, match="without a budget"):
        Follower().steer(session_on(bowl), SerialExecutor(bowl))


class _Interrupting(SerialExecutor):
    """Delivers two results, then the person presses Ctrl-C."""

    n = 0

    def collect(self):  # type: ignore[no-untyped-def]
        self.n += 1
        if self.n == 3:
            raise KeyboardInterrupt
        return super().collect()


def test_an_interruption_keeps_results_and_returns_what_was_under_way_to_the_queue() -> None:
    bowl = Bowl()
    store = MemoryStore()
    session = open_session(bowl, store=store, sla=Sla(10), clock=TickingClock())
    session.submit(session.suggest(5))
    with pytest.raises(KeyboardInterrupt):
        session.run_queued(_Interrupting(bowl))
    replayed = Experiment.replay(store.load(session.id))
    assert len(replayed.runs_in(RunState.COMPLETED)) == 2
    assert len(replayed.runs_in(RunState.QUEUED)) == 3
    session.run_queued(SerialExecutor(bowl))
    assert len(session.experiment.runs_in(RunState.COMPLETED)) == 5


def test_the_same_seed_gives_the_same_runs_and_another_seed_others() -> None:
    def configurations(seed: int) -> list[object]:
        bowl = Bowl(baseline=TODAY)
        session = session_on(bowl, runs=15, seed=seed)
        Follower(initial=5, batch=3).steer(session, SerialExecutor(bowl))
        return [(run.configuration, run.seed) for run in session.experiment.runs]

    assert configurations(4) == configurations(4)
    assert configurations(4) != configurations(5)


def test_changes_are_told_as_they_happen() -> None:
    bowl = Bowl()
    session = session_on(bowl)
    seen: list[tuple[int, RunState]] = []

    def note(run: Run) -> None:
        seen.append((run.id, run.state))

    session.submit(session.suggest(2))
    session.run_queued(SerialExecutor(bowl), note)
    assert seen == [
        (1, RunState.RUNNING),
        (1, RunState.COMPLETED),
        (2, RunState.RUNNING),
        (2, RunState.COMPLETED),
    ]
