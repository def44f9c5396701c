"""The fold: any journal that a session writes replays to the same state; nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import Follower
from assistant import Experiment, Sla, open_session
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import CodecError, ExperimentError
from assistant.core.events import ExperimentFinished, RunCompleted, RunStarted
from assistant.core.experiment import once_per_result, once_per_state
from assistant.core.run import Outcome
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import TODAY, Bowl, TickingClock


def journal(seed: int, runs: int, fail_at_x: int | None = None):  # type: ignore[no-untyped-def]
    bowl = Bowl(baseline=TODAY, fail_at_x=fail_at_x)
    store = MemoryStore()
    session = open_session(bowl, store=store, sla=Sla(runs), seed=seed, clock=TickingClock())
    session.finish(Follower(initial=3, batch=2).steer(session, SerialExecutor(bowl)))
    return session, store.load(session.id)


@pytest.mark.soak
@given(st.integers(0, 10**9), st.integers(1, 26), st.sampled_from([None, 0, 1]))
def test_replay_gives_the_state_and_the_codec_loses_nothing(
    seed: int, runs: int, fail_at_x: int | None
) -> None:
    session, events = journal(seed, runs, fail_at_x)
    read_back = [decode_event(encode_event(event)) for event in events]
    assert tuple(read_back) == events
    replayed = Experiment.replay(read_back)
    assert replayed.runs == session.experiment.runs
    assert replayed.batches == session.experiment.batches
    assert replayed.finished == session.experiment.finished
    assert replayed.n_events == len(events)
    assert replayed.knowledge.taken == session.experiment.knowledge.taken


def test_best_so_far_never_gets_worse() -> None:
    session, _ = journal(seed=2, runs=20)
    qualities = [run.outcome.quality for run in session.experiment.best_so_far() if run.outcome]
    assert qualities == sorted(qualities)
    assert len(qualities) == 20


def test_events_that_make_no_sense_change_nothing() -> None:
    session, events = journal(seed=0, runs=5)
    experiment = session.experiment
    before = (experiment.runs, experiment.n_events)
    outcome = Outcome({"height": 1.0}, 1.0, -1.0, True, 0.0)
    for event in (
        RunStarted(0.0, 99),
        RunStarted(0.0, 1),
        RunCompleted(0.0, 1, outcome, 1.0),
        events[0],
    ):
        with pytest.raises(ExperimentError):
            experiment.apply(event)
    assert (experiment.runs, experiment.n_events) == before


def test_a_journal_begins_with_its_opening() -> None:
    with pytest.raises(ExperimentError, match="begin"):
        Experiment.replay([ExperimentFinished(0.0, "early")])
    with pytest.raises(ExperimentError, match="begin"):
        Experiment.replay([])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type": "RunStarted"}',
        '{"type": "NoSuchThing", "v": 1}',
        '{"type": "RunStarted", "v": 99, "at_s": 1.0, "run_id": 1}',
        '{"type": "RunStarted", "v": 1, "at_s": "soon", "run_id": 1}',
        '{"type": "RunStarted", "v": 1, "at_s": 1.0}',
    ],
)
def test_damaged_events_are_refused(text: str) -> None:
    with pytest.raises(CodecError):
        decode_event(text)


def test_what_is_derived_is_computed_once_for_each_state() -> None:
    computed: list[tuple[str, int]] = []

    @once_per_state
    def of_state(experiment: Experiment, add: int = 0) -> int:
        computed.append(("state", add))
        return len(experiment.runs) + add

    @once_per_result
    def of_results(experiment: Experiment) -> int:
        computed.append(("results", 0))
        return len(experiment.observations)

    bowl = Bowl(baseline=TODAY)
    session = open_session(bowl, store=MemoryStore(), sla=Sla(9), seed=0, clock=TickingClock())
    session.submit(session.initial_evaluation(3))
    for _ in range(2):
        assert (of_state(session.experiment), of_state(session.experiment, 4)) == (3, 7)
        assert of_results(session.experiment) == 0
    assert computed == [("state", 0), ("state", 4), ("results", 0)]
    supposed = session.experiment.supposing([RunStarted(0.0, 1)])
    assert (of_state(supposed), of_results(supposed)) == (3, 0)
    assert computed[3:] == [("state", 0)], "a start is no result"
    session.run_queued(SerialExecutor(bowl))
    assert (of_state(session.experiment), of_results(session.experiment)) == (3, 3)
    assert (of_state(supposed), of_results(supposed)) == (3, 0), "a copy has a state of its own"


def test_the_regions_are_those_of_the_events_so_far() -> None:
    _, events = journal(seed=1, runs=20)
    experiment, found = Experiment.replay(events[:1]), set()
    for n, event in enumerate(events[1:], start=2):
        experiment.apply(event)
        assert experiment.regions == Experiment.replay(events[:n]).regions
        found.add(len(experiment.regions))
    assert max(found) > 0
