"""Levels that promise nothing: which are found, and which are never closed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import Follower
from assistant import Sla, open_session
from assistant.analysis.alternatives import hopeless_levels
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import AnovaModel
from tests.assistant.examples import Bowl, Hills, TickingClock


def test_levels_that_promise_nothing_are_found_and_good_ones_are_kept() -> None:
    bowl, session = Bowl(), open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    for x in range(4):
        for y in range(3):
            session.include({"x": x, "y": y, "mode": "plain"})
    for x, y in ((0, 0), (2, 0), (2, 1), (3, 2)):
        session.include({"x": x, "y": y, "mode": "odd"})
    session.run_queued(SerialExecutor(bowl))
    found = hopeless_levels(session.experiment, -0.5)
    assert ("mode", "odd") in found
    assert ("mode", "plain") not in found
    assert ("x", 2) not in found
    assert ("y", 0) not in found
    session.prefer_level("mode", "odd")
    assert ("mode", "odd") not in hopeless_levels(session.experiment, -0.5)
    assert hopeless_levels(open_session(bowl, store=MemoryStore()).experiment, 0.0) == ()


@pytest.mark.parametrize("n", [20, 40])
def test_a_level_is_closed_only_if_good_company_does_not_help_it(n: int) -> None:
    n_close = 0
    for seed in range(3):
        session = open_session(
            Hills(),
            store=MemoryStore(),
            clock=TickingClock(),
            sla=Sla(60),
            strategy="copper",
            seed=seed,
        )
        Follower(12, 4, max_runs=n).steer(session, SerialExecutor(Hills()))
        experiment = session.experiment
        model, best = AnovaModel.of(experiment.knowledge), experiment.best
        assert model is not None
        assert best is not None
        assert best.outcome is not None
        ranked = sorted(experiment.summaries.values(), key=lambda one: -one.outcome.quality)
        for name, value in hopeless_levels(experiment, 20.0):
            n_close += 1
            for one in ranked[:5]:
                values = {**experiment.space.values(one.run.configuration), name: value}
                ids = model.ids_of([experiment.space.from_values(values)])
                mean, sd = model.posterior.predict(ids)
                half = 1.96 * model.doubt * np.hypot(sd, np.sqrt(model.hyperparameters.noise))
                assert model.targets.response(float((mean + half)[0])) < best.outcome.quality
    assert n_close


@settings(max_examples=15, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1))
def test_closing_leaves_half_of_every_parameter_and_the_best(
    chosen: set[tuple[int, int, bool]],
) -> None:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    for x, y, odd in sorted(chosen):
        session.include({"x": x, "y": y, "mode": "odd" if odd else "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    found = hopeless_levels(session.experiment, 0.0)
    best = session.experiment.best
    assert best is not None
    values = session.experiment.space.values(best.configuration)
    assert len(found) <= 3
    for name, value in found:
        session.close_level(name, value)
        assert values[name] != value
    open_ids, parameters = session.experiment.space.open_ids, session.experiment.space.parameters
    assert all(2 * len(ids) >= p.n_levels for ids, p in zip(open_ids, parameters, strict=True))
