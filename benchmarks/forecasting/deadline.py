"""F3: is the goal reached by a moment in time, with k workers whose runs differ in length?

The episodes chose one run at a time. With 4 workers the replay keeps that order of proposals: what
a strategy would have chosen while three other runs were under way was not recorded, so the runs
are somewhat better chosen there than in life. Deadlines beyond the end of an episode that was cut
are not asked, whether or not its goal was reached by then: hits alone would be known of them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.forecast_features import features
from assistant.analysis.remaining_runs import MOST_DRAWN, DurationModel, run_end_times
from assistant.core.forecast import MOST_LEFT
from benchmarks.forecasting import scores
from benchmarks.forecasting.goal import Held, fit_of
from benchmarks.forecasting.rows import USED, Episode, weights_of
from benchmarks.harness import Record, table
from benchmarks.spaces import Problem
from strategies import strategy_entry, strategy_names

Floats = NDArray[np.float64]

WORKERS = (1, 4)
SHARES = (0.6, 1.0, 1.6)
RUNS_UNTIL = (15, 40)
"""A deadline is so many runs away, at the mean duration so far, times each of the shares."""

SD = 0.6
"""Standard deviation of the logarithm where a space has no times of its own."""


def durations_of(problem: Problem) -> Floats:
    """Return the seconds of every combination's run, float64 [size], failed ones too."""
    rng = np.random.default_rng(zlib.crc32(problem.name.encode()))
    drawn = np.exp(SD * rng.standard_normal(problem.size))
    if problem.duration_s is not None:
        given = problem.duration_s
    elif problem.name.startswith("kt_"):
        given = problem.objective
    else:
        return np.asarray(drawn)
    usual = float(np.nanmedian(given))
    return np.where(np.isnan(given) | (given <= 0), usual * drawn, given)


Answer = tuple[str, str, int, float, float]
"""Space, driver, workers, P(missed), and 1.0 if it was."""


def ask(episode: Episode, held: Held) -> list[Answer]:
    """Return the answers for the deadlines of one episode."""
    return list(_asked(episode, durations_of(episode.problem), held))


def _asked(episode: Episode, seconds: Floats, held: Held) -> Iterator[Answer]:
    problem = episode.problem
    terms, offsets = fit_of(held, problem)
    offset = offsets.get(episode.driver, float(np.mean(list(offsets.values()))))
    taken_s = seconds[list(episode.proposals)]
    name = episode.driver.partition(":")[0]
    own = strategy_entry(name).batch if name in strategy_names() else 1
    for workers in WORKERS:
        batch = max(own, workers)
        starts, ends = _schedule(taken_s, workers, batch)
        by_end = np.argsort(ends, kind="stable")
        for used in USED:
            if used > len(by_end):
                continue
            now_s = float(ends[by_end[used - 1]])
            over = [int(i) for i in by_end if ends[i] <= now_s]
            evidence = episode.evidence(over)
            if evidence.silence or evidence.reach is None:
                continue
            going = [now_s - float(starts[i]) for i in by_end if starts[i] < now_s < ends[i]]
            known = DurationModel.learn([float(taken_s[i]) for i in over], going)
            if known is None:
                continue
            rng = np.random.default_rng([episode.seed, used, workers])
            drawn, _ = known.draw(MOST_DRAWN, rng)
            to_come = run_end_times(drawn, known.to_go(going[:workers], rng), workers, batch)
            mean_s = float(np.mean(taken_s[over]))
            for goal in episode.goals().values():
                if (episode.values[over] <= goal).any():
                    continue
                hits = ends[np.flatnonzero(episode.values <= goal)]
                reached_s = float(hits.min()) if hits.size else math.inf
                hardness = terms.at(features(evidence, goal)) + offset
                for runs in RUNS_UNTIL:
                    for share in SHARES:
                        limit_s = share * runs * mean_s / workers
                        if not _knows(episode, ends, now_s + limit_s):
                            continue
                        missed = reached_s > now_s + limit_s
                        left = (to_come <= limit_s).sum(axis=1).astype(np.float64)
                        left = np.minimum(left, MOST_LEFT)  # as the product does
                        with np.errstate(divide="ignore"):
                            logit = hardness + terms.of["left"] * np.log(left)
                        chance = 1.0 / (1.0 + np.exp(np.minimum(logit, 700.0)))
                        yield (
                            problem.name, episode.driver, workers,
                            1.0 - float(chance.mean()), float(missed),
                        )  # fmt: skip


def _knows(episode: Episode, ends: Floats, until_s: float) -> bool:
    """Whether the episode goes on until then, or ended since nothing better is there."""
    return bool(ends.max() >= until_s) or episode.is_over


def _schedule(taken_s: Floats, workers: int, batch: int) -> tuple[Floats, Floats]:
    """Return when each run starts and ends: in order, a batch after the one before."""
    free = np.zeros(workers)
    starts, ends = np.zeros(len(taken_s)), np.zeros(len(taken_s))
    for i, one_s in enumerate(taken_s):
        if i % batch == 0:
            free[:] = free.max()
        first = int(free.argmin())
        starts[i] = free[first]
        free[first] += one_s
        ends[i] = free[first]
    return starts, ends


def show(found: Sequence[Answer], drivers: Sequence[str], record: Record) -> None:
    """Print the table of F3 and note its figures."""
    space = np.array([one[0] for one in found])
    driver = np.array([one[1] for one in found])
    workers = np.array([one[2] for one in found])
    chance = np.array([one[3] for one in found])
    missed = np.array([one[4] for one in found])
    lines = []
    for name in drivers:
        for n in WORKERS:
            mask = (driver == name) & (workers == n)
            if not mask.any():
                continue
            weights = weights_of(space[mask])
            told = [
                score(chance[mask], missed[mask], weights)
                for score in (scores.brier, scores.auc, scores.calibration_error)
            ]
            for label, value in zip(("Brier", "AUC", "ECE"), told, strict=True):
                record.figure(f"F3, {name}, workers {n}: {label}", round(value, 4))
            share = np.average(missed[mask], weights=weights)
            row = [name, str(n), f"{mask.sum():,}", f"{share:.2f}", *(f"{x:.3f}" for x in told)]
            lines.append(row)
    table(["F3: method", "workers", "deadlines", "missed", "Brier", "AUC", "ECE"], lines)
