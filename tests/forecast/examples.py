"""Experiments told by their events: any results, any durations, runs that go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from assistant import Experiment, Outcome, Sla, open_session
from assistant.analysis import calibration
from assistant.analysis.calibration import (
    SHARES,
    TERMS,
    ForecastCalibration,
    MissModel,
    ModelCoefficients,
    load_calibration,
)
from assistant.analysis.forecast_features import FEATURES
from assistant.core.events import Event, RunCompleted, RunFailed, RunStarted, RunSubmitted
from assistant.store.event_store import MemoryStore
from strategies import strategy_names
from tests.assistant.examples import Hills, TickingClock

START_S = 1_000_000.0
SPACE = Hills().space


def told(results: Sequence[float | None], sla: Sla, **more: Any) -> Experiment:
    """Return the experiment of `told_events`."""
    return Experiment.replay(told_events(results, sla, **more))


def told_events(
    results: Sequence[float | None],
    sla: Sla,
    *,
    durations_s: Sequence[float] | float = 60.0,
    going: int = 0,
    strategy: str = "grasp",
    workers: int = 1,
    seed: int = 3,
) -> list[Event]:
    """Return an experiment on `Hills`' space with the results given, one run after another.

    Args:
        results: the value of each run in order; None of one that failed.
        sla: the agreement.
        durations_s: of the runs.
        going: further runs that have been started when the last one ended.
        strategy: by name.
        workers: runs at once.
        seed: of the experiment.
    """
    session = open_session(
        Hills(), store=MemoryStore(), sla=sla, clock=TickingClock(), strategy=strategy, seed=seed,
        workers=workers, experiment_id="told",
    )  # fmt: skip
    return [*session.events(), *_runs(results, durations_s, going)]


def _runs(
    results: Sequence[float | None], durations_s: Sequence[float] | float, going: int
) -> list[Event]:
    events: list[Event] = []
    now_s = START_S + 10.0
    n = len(results)
    for i in range(n + going):
        configuration = SPACE.configuration((i * 977) % SPACE.size)
        events.append(RunSubmitted(now_s, i + 1, configuration, "suggested", 1, "told", None))
    for i, value in enumerate(results):
        taken_s = durations_s if isinstance(durations_s, float) else durations_s[i]
        events.append(RunStarted(now_s, i + 1))
        now_s += taken_s if 0 <= taken_s <= 1e9 else 60.0  # what is told is not what went by
        if value is None:
            events.append(RunFailed(now_s, i + 1, "it broke", taken_s))
        else:
            outcome = Outcome({"height": value}, value, -value, True, 0.0)
            events.append(RunCompleted(now_s, i + 1, outcome, taken_s))
    events += [RunStarted(now_s, n + i + 1) for i in range(going)]
    return events


def ended_s(experiment: Experiment) -> float:
    """Return when the last event happened."""
    times_s = [time_s for run in experiment.runs for time_s in (run.started_s, run.ended_s)]
    return max((time_s for time_s in times_s if time_s is not None), default=START_S)


def made_model(intercept: float, warn: float = 0.6, **terms: float) -> MissModel:
    """Return a model of round coefficients, for every strategy that is shipped."""
    of = dict.fromkeys(TERMS, 0.0) | {"left": -1.0} | terms
    return MissModel(
        ModelCoefficients(intercept, of, dict.fromkeys(FEATURES, (-1000.0, 1000.0))),
        offsets={name: 0.0 if name == "grasp" else 1.0 for name in strategy_names()},
        exploitation={"grasp": {0.7: 0.7}, "copper": {0.3: 0.05, 0.7: -0.4, 1.0: -0.26}},
        warn=dict.fromkeys(strategy_names(), warn),
    )


def made_best(intercept: float) -> ModelCoefficients:
    """Return coefficients of one quantile of the best."""
    of = dict.fromkeys(TERMS, 0.0) | {"left": 0.3, "offset": -0.2, "doubt": 0.5}
    return ModelCoefficients(intercept, of, dict.fromkeys(FEATURES, (-1000.0, 1000.0)))


MADE = ForecastCalibration(
    version="made up",
    fitted="by hand",
    goal=made_model(3.0, covered=-4.0, reach=-0.1, levels=2.0),
    end=made_model(4.0, stale=1.0),
    best={share: made_best(1.0 - 2.0 * share) for share in SHARES},
)
"""A calibration that stays as it is when the shipped one is fitted anew."""


@contextmanager
def calibrated(coefficients: ForecastCalibration = MADE) -> Iterator[None]:
    """Let every forecast use these coefficients."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibration, "read_calibration", lambda _: coefficients)
        load_calibration.cache_clear()
        yield
    load_calibration.cache_clear()
