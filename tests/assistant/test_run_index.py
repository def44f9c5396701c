"""The index of runs against the plain scans that it replaces, after every decision of a session."""

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import pytest

from assistant import MemoryStore, Session, Sla, open_session
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.run import RunState, best_of, configuration_summaries, observation_of
from assistant.executors.serial import SerialExecutor
from strategies import Level, StrategyError
from tests.assistant.examples import SPACE, TODAY, Bowl, TickingClock


@dataclass(frozen=True)
class NoisyBowl(Bowl):
    """A bowl with noise of two sizes, so that the best configuration changes with replicates."""

    deterministic = False

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Return the height, higher by 4 for every other seed."""
        exact = super().evaluate(values, seed)
        height = exact["height"]
        assert isinstance(height, float)
        return {**exact, "height": height + 4 * (seed % 2)}


def check(experiment: Experiment) -> None:
    """Compare what the index says with a pass over all runs."""
    runs, summaries = experiment.runs, configuration_summaries(experiment.runs)
    assert {s: experiment.n_in(s) for s in RunState} == {
        s: sum(run.state is s for run in runs) for s in RunState
    }
    for states in ((RunState.QUEUED,), (RunState.RUNNING, RunState.QUEUED), (RunState.FAILED,)):
        assert experiment.runs_in(*states) == tuple(run for run in runs if run.state in states)
    assert experiment.n_charged == sum(run.is_charged for run in runs)
    assert experiment.n_ended == sum(run.is_charged and run.ended_s is not None for run in runs)
    configurations = {run.configuration for run in runs}
    assert experiment.n_configurations == len(configurations)
    for configuration in configurations:
        same = tuple(run for run in runs if run.configuration == configuration)
        assert experiment.runs_of(configuration) == same
    assert dict(experiment.summaries) == dict(summaries)
    assert list(experiment.summaries) == list(summaries)
    leader = best_of(summaries.values())
    assert (experiment.best is None) == (leader is None)
    if leader is not None:
        assert experiment.best == leader.run
    observations = [observation_of(run) for run in runs]
    assert list(experiment.observations) == [o for o in observations if o is not None]
    completed = Counter(run.configuration for run in runs if run.state is RunState.COMPLETED)
    failed = [run for run in runs if run.state is RunState.FAILED]
    assert {f.configuration for f in experiment.failures} <= {run.configuration for run in failed}
    assert all(
        f.configuration in {x.configuration for x in experiment.failures}
        for f in failed
        if not completed[f.configuration]
    )


def step(session: Session, rng: random.Random) -> None:
    """Take one decision at random; what is refused changes nothing."""
    experiment = session.experiment
    ids = [run.id for run in experiment.runs]
    executor = SerialExecutor(NoisyBowl(TODAY, fail_at_x=3))
    run_id = rng.choice(ids) if ids else 1
    decisions = (
        lambda: session.include(SPACE.values(SPACE.configuration(rng.randrange(SPACE.size)))),
        lambda: session.replicate(run_id, rng.randint(1, 3)),
        lambda: session.submit(session.suggest(rng.randint(1, 3))),
        lambda: session.run_queued(executor),
        session.start_next,
        session.recover,
        lambda: session.cancel(run_id),
        lambda: session.rate(run_id, rng.choice([True, False, None])),
        lambda: session.reprioritise(run_id, rng.randint(-2, 2)),
        lambda: session.hold(run_id),
        lambda: session.close_level("y", rng.randrange(3)),
        lambda: session.reopen_level("y", rng.randrange(3)),
    )
    with suppress(AssistantError, StrategyError):
        rng.choices(decisions, (4, 2, 2, 6, 1, 2, 1, 2, 1, 1, 1, 2))[0]()


@pytest.mark.parametrize("seed", range(6))
def test_totals_groups_and_the_best_are_those_of_all_runs(seed: int) -> None:
    rng = random.Random(seed)
    session = open_session(
        NoisyBowl(TODAY), store=MemoryStore(), sla=Sla(60), clock=TickingClock(), strategy="random"
    )
    for _ in range(60):
        step(session, rng)
        check(session.experiment)
    assert session.experiment.n_in(RunState.COMPLETED) > 5, "the walk went somewhere"
    copied = session.look()
    before = (copied.n_in(RunState.QUEUED), copied.n_configurations, copied.best)
    session.submit(session.suggest(1))
    assert (copied.n_in(RunState.QUEUED), copied.n_configurations, copied.best) == before
    check(copied)
    check(Experiment.replay(session.events()))


def test_a_copy_may_be_made_while_another_thread_computes_what_is_derived() -> None:
    """A reader computes a derived value, which is kept, in the middle of the copying."""
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(5))
    experiment = session.experiment

    class Interrupted(list[object]):
        def __copy__(self) -> list[object]:
            experiment.__dict__.pop("summaries", None)
            assert experiment.summaries == {}
            return list(self)

    experiment.__dict__["_interrupted"] = Interrupted()
    other = experiment.supposing(())
    assert other.n_events == experiment.n_events
