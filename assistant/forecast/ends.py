"""When the runs that go on will end, and when what waits will be over. Pure.

The same durations as the forecast's, so that the queue and the banner say the same of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assistant.decisions import stream
from assistant.experiment import Experiment
from assistant.forecast.durations import Durations, ends_of
from assistant.forecast.remaining import interval
from assistant.forecasts import Interval
from assistant.run import RunState

MOST_WAITING = 1_000
"""Beyond so many waiting runs nothing is drawn: what they take is not said."""


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """When runs end, in seconds from the moment asked about.

    Args:
        going: of each run that goes on, by its number; empty while no run has told its duration.
        over: of the last of those that go on or wait without being held; None if unknown, or if
            there is none.
    """

    going: Mapping[int, Interval]
    over: Interval | None


def queue_ends(experiment: Experiment, now_s: float) -> QueueEnds:
    """Return when the runs of a queue end; the experiment's seed decides the draws.

    Args:
        experiment: as far as it has come.
        now_s: seconds since 1970-01-01 UTC.
    """
    told = [r.duration_s for r in experiment.runs if r.is_charged and r.duration_s is not None]
    running = experiment.runs_in(RunState.RUNNING)
    elapsed_s = [max(0.0, now_s - r.started_s) for r in running if r.started_s is not None]
    known = Durations.learn(told, elapsed_s)
    n_waiting = len(experiment.waiting)
    if known is None or not (running or n_waiting):
        return QueueEnds({}, None)
    rng = np.random.default_rng(stream(experiment.opened.seed, "forecast", 1))
    limit_s = experiment.sla.run_limit_s
    to_go_s = known.to_go(elapsed_s, rng, limit_s)
    going = {
        run.id: found
        for i, run in enumerate(running)
        if (found := interval(to_go_s[:, i])) is not None
    }
    if n_waiting > MOST_WAITING:
        return QueueEnds(going, None)
    durations_s, _ = known.draw(n_waiting, rng, limit_s)
    workers = max(experiment.opened.workers, len(running))
    ends_s = ends_of(durations_s, to_go_s, workers, batch=1)
    return QueueEnds(going, interval(ends_s[:, -1]))
