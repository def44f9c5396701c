"""Remaining runs: simulations of how many more runs the SLA allows, and of when runs end.

A running run is a censored duration: it takes at least its elapsed time. Future runs take as long
as recent ones. Futures are drawn by a smoothed Bayesian bootstrap over the durations, so that few
runs give a wide answer; the same draws serve every budget.
References: Kaplan & Meier 1958 for the redistribution of censored durations to the right (in the
form of Efron 1967); Rubin 1981, The Bayesian bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from assistant.core.experiment import Experiment
from assistant.core.forecast import Interval, Term, TermForecast
from assistant.core.run import Run, RunState, random_stream
from assistant.core.sla import Sla, cost_of
from strategies import strategy_entry
from strategies.data.learning_sample import LEARNT_RUNS

Floats = NDArray[np.float64]


DRAWS = 200
HALF_LIFE = 15.0

PRIOR_SD = 0.5  # Prior standard deviation of the logarithm, for a single run

MOST_SD = 2.0
"""Largest width of the smoothing; beyond it the durations themselves carry the difference."""

LEAST_S = 1e-6  # Smallest duration in seconds, because a logarithm is taken


@dataclass(frozen=True, slots=True)
class DurationModel:
    """Weighted distribution of the durations (seconds) and costs of runs.

    Args:
        seconds: durations of the ended runs, oldest first, float64 [n], above 0.
        weights: weights, float64 [n], with the mass of running runs added to the longer ones; the
            sum is the effective number of runs.
        costs: costs of the same runs, float64 [n]; empty if none is known.
        spread: standard deviation of the smoothing, in logarithms.
    """

    seconds: Floats
    weights: Floats
    costs: Floats
    spread: float

    @classmethod
    def learn(
        cls,
        over: Sequence[float],
        going: Sequence[float],
        costs: Sequence[float] = (),
    ) -> DurationModel | None:
        """Fit the distribution to the times of ended and running runs; None if no run has ended.

        ``over`` are the seconds of the ended runs, oldest first, with ``costs`` in the same order
        (empty if unknown); ``going`` are the elapsed seconds of each running run. Of very many
        runs only the newest `LEARNT_RUNS` count: the weight of older ones is 0.
        """
        if not over:
            return None
        over, costs = over[-LEARNT_RUNS:], costs[-LEARNT_RUNS:]
        seconds = np.maximum(np.asarray(over, dtype=np.float64), LEAST_S)
        n = len(seconds)
        weights = 0.5 ** (np.arange(n)[::-1] / HALF_LIFE)
        for elapsed_s in sorted(going):  # the mass of a censored one goes to all longer ones
            longer = seconds > elapsed_s
            mass = weights[longer].sum()
            if mass > 0:
                weights[longer] *= (mass + 1.0) / mass
            else:
                weights[seconds == seconds.max()] += 1.0 / (seconds == seconds.max()).sum()
        logs = np.log(seconds)
        mean = np.average(logs, weights=weights)
        square = (weights * (logs - mean) ** 2).sum() + PRIOR_SD**2
        worth = weights.sum() ** 2 / (weights**2).sum()
        spread = min(math.sqrt(square / (weights.sum() + 1.0)) * worth**-0.2, MOST_SD)
        return cls(seconds, weights, np.asarray(costs, dtype=np.float64), spread)

    def draw(
        self, n: int, rng: np.random.Generator, limit_s: float | None = None
    ) -> tuple[Floats, Floats]:
        """Draw durations (s) and costs of ``n`` future runs, each float64 [DRAWS, n].

        Costs are 0 where none is known. With ``limit_s`` no run takes longer.
        """
        shares = rng.gamma(self.weights, size=(DRAWS, len(self.weights))) + 1e-300
        sums = shares.cumsum(axis=1)
        at = rng.random((DRAWS, n)) * sums[:, -1:]
        indices = np.array([np.searchsorted(s, a) for s, a in zip(sums, at, strict=True)])
        indices = np.minimum(indices, len(self.seconds) - 1)
        factor = np.exp(self.spread * rng.standard_normal((DRAWS, n)) - self.spread**2 / 2)
        seconds = self.seconds[indices] * factor
        if limit_s is not None:
            factor = np.where(seconds > limit_s, factor * limit_s / seconds, factor)
            seconds = np.minimum(seconds, limit_s)
        costs = self.costs[indices] * factor if len(self.costs) else np.zeros_like(seconds)
        return seconds, costs

    def to_go(
        self, elapsed_s: Sequence[float], rng: np.random.Generator, limit_s: float | None = None
    ) -> Floats:
        """Draw the remaining seconds of running runs, float64 [DRAWS, len(elapsed_s)].

        Each is drawn from the durations longer than its elapsed time; beyond the longest one, from
        an exponential tail of its size.
        """
        columns = []
        for taken_s in elapsed_s:
            longer = self.seconds > taken_s
            if longer.any():
                weights = self.weights[longer] / self.weights[longer].sum()
                left_s = rng.choice(self.seconds[longer] - taken_s, DRAWS, p=weights)
                left_s *= np.exp(self.spread * rng.standard_normal(DRAWS) - self.spread**2 / 2)
            else:
                left_s = rng.exponential(max(taken_s, LEAST_S), DRAWS)
            if limit_s is not None:
                left_s = np.minimum(left_s, max(limit_s - taken_s, 0.0))
            columns.append(left_s)
        return np.stack(columns, axis=1) if columns else np.zeros((DRAWS, 0))


def run_end_times(durations_s: Floats, going_s: Floats, workers: int, batch: int) -> Floats:
    """Return simulated end times of m running and n future runs, in s from now, [DRAWS, m + n].

    Args:
        durations_s: durations of the runs to come, float64 [DRAWS, n].
        going_s: remaining seconds of the running runs, float64 [DRAWS, m], m at most ``workers``.
        workers: runs at once.
        batch: runs chosen together: the next batch waits until all of them are over.
    """
    draws, n = durations_s.shape
    free_s = np.zeros((draws, workers))
    m = min(going_s.shape[1], workers)
    free_s[:, :m] = going_s[:, :m]
    rows = np.arange(draws)
    ends = np.empty((draws, n))
    for i in range(n):
        if batch > 1 and i % batch == 0 and i > 0:
            free_s[:] = free_s.max(axis=1, keepdims=True)
        first = free_s.argmin(axis=1)
        free_s[rows, first] += durations_s[:, i]
        ends[:, i] = free_s[rows, first]
    return np.sort(np.concatenate([going_s, ends], axis=1), axis=1)


MOST_DRAWN = 150  # Number of runs to come that are drawn; beyond them their rate goes on

OUTER = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class DrawnFutures:
    """Simulated end times and costs of future runs, independent of the SLA.

    Args:
        ends_s: ends in seconds from now, float64 [DRAWS, n], ascending; None while no run has
            ended.
        costs: costs, float64 [DRAWS, n]; None without a tariff or if unknown.
        spent: cost of the runs so far; None without a tariff or if unknown.
        over: ended runs that count against the budget.
    """

    ends_s: Floats | None
    costs: Floats | None
    duration_s: Interval | None
    spent: float | None
    over: int


@dataclass(frozen=True, slots=True)
class RemainingRuns:
    """Number of further runs that can end within all limits of the SLA.

    Args:
        runs: further runs that can end, float64 [DRAWS]; None without a limit or if unknown.
        binding: term that is the tightest most often, also for a finished experiment.
        unknown: reason why ``runs`` is None; empty otherwise.
    """

    terms: tuple[TermForecast, ...]
    runs: Floats | None
    binding: Term | None
    unknown: str

    @property
    def is_over(self) -> bool:
        """Whether no run is left in any simulated future; False if unknown."""
        return self.runs is not None and not (self.runs > 0).any()


def draw_futures(experiment: Experiment, now_s: float) -> DrawnFutures:
    """Simulate end times and costs of future runs, with the experiment's random seed."""
    rng = np.random.default_rng(random_stream(experiment.opened.seed, "forecast", 0))
    opened = experiment.opened
    charged_runs = [run for run in experiment.runs if run.is_charged]
    n_over = experiment.n_ended
    over = [run for run in charged_runs if run.duration_s is not None]
    going = [run for run in charged_runs if run.state is RunState.RUNNING]
    elapsed_s = [max(0.0, now_s - (run.started_s or now_s)) for run in going][: opened.workers]
    costs = _costs(experiment, over)
    durations = DurationModel.learn(
        [run.duration_s or 0.0 for run in over], elapsed_s, () if costs is None else costs
    )
    spent = experiment.cost
    if durations is None:
        return DrawnFutures(None, None, None, spent, n_over)
    limit_s = experiment.sla.run_limit_s
    seconds, drawn_costs = durations.draw(MOST_DRAWN, rng, limit_s)
    seconds *= _attempts(over)
    to_go_s = durations.to_go(elapsed_s, rng, limit_s)
    batch = max(strategy_entry(experiment.steering.strategy).batch, opened.workers)
    ends_s = run_end_times(seconds, to_go_s, opened.workers, batch)
    return DrawnFutures(
        ends_s=ends_s,
        costs=drawn_costs if costs else None,
        duration_s=interval(seconds[:, 0]),
        spent=spent,
        over=n_over,
    )


def _costs(experiment: Experiment, over: Sequence[Run]) -> list[float] | None:
    """Return the cost of each ended run, with the mean of the others where it is unknown."""
    tariff = experiment.sla.tariff
    if tariff is None:
        return None
    costs = [cost_of(run, experiment.space.values, tariff) for run in over]
    known_costs = [cost for cost in costs if cost is not None]
    if not known_costs:
        return None
    return [fmean(known_costs) if cost is None else max(cost, 0.0) for cost in costs]


def _attempts(over: Sequence[Run]) -> float:
    """Return the time of a run with its lost attempts, as a multiple of an uninterrupted run.

    A lost attempt takes half of a run on average.
    """
    lost = sum(max(run.attempts - 1, 0) for run in over)
    return 1.0 + 0.5 * lost / len(over)


def count_remaining(
    experiment: Experiment, sla: Sla, course: DrawnFutures, now_s: float
) -> RemainingRuns:
    """Count the runs that can end within an SLA, in each simulated future."""
    terms: list[TermForecast] = []
    draws: dict[Term, Floats] = {}
    unknown = ""
    if sla.max_runs is not None:
        left = np.full(DRAWS, float(sla.remaining_runs(course.over) or 0))
        draws["max_runs"] = left
        terms.append(TermForecast("max_runs", sla.max_runs, course.over, interval(left)))
    if sla.deadline_s is not None:
        by_then = _until(course.ends_s, sla.deadline_s - now_s)
        if by_then is None:
            unknown = "no run has a known duration, so the runs until the deadline are unknown"
        else:
            draws["deadline"] = by_then
        terms.append(TermForecast("deadline", sla.deadline_s, now_s, interval(by_then)))
    if sla.max_cost is not None:
        sums = None if course.costs is None else course.costs.cumsum(axis=1)
        afford = None if course.spent is None else _until(sums, sla.max_cost - course.spent)
        if afford is None:
            unknown = "no run has a known cost, so the runs within the cost limit are unknown"
        else:
            draws["max_cost"] = afford
        terms.append(TermForecast("max_cost", sla.max_cost, course.spent, interval(afford)))
    if not terms:
        unknown = "the SLA has no budget of runs, no deadline and no cost limit"
    if any((left <= 0).all() for left in draws.values()):
        unknown = ""  # one used-up limit decides, even if the others are unknown
    if experiment.finished is not None:
        return RemainingRuns(tuple(terms), np.zeros(DRAWS), _tightest(draws), "")
    if unknown:
        return RemainingRuns(tuple(terms), None, None, unknown)
    least = np.minimum.reduce(list(draws.values()))
    binding = _tightest(draws)
    free = _free(experiment)
    if free is not None:
        least = np.minimum(least, free)
    return RemainingRuns(tuple(terms), least, binding, "")


def _tightest(draws: Mapping[Term, Floats]) -> Term | None:
    """Return the term that leaves the fewest runs in most futures; None if none is known."""
    if not draws:
        return None
    least = np.minimum.reduce(list(draws.values()))
    return max(draws, key=lambda name: float((draws[name] <= least).sum()))


def _free(experiment: Experiment) -> int | None:
    """Return how many allowed configurations have no result yet; None if too many to count."""
    allowed = experiment.space.count_allowed()
    if allowed is None:
        return None
    over = {run.configuration for run in experiment.runs if run.ended_s is not None}
    return max(0, allowed - experiment.space.count_allowed_of(over))


def _until(sums: Floats | None, limit: float) -> Floats | None:
    """Return how many values of each row stay within a limit, float64 [DRAWS]; None if unknown.

    ``sums`` is ascending in each row, float64 [DRAWS, n]. A limit of 0 or less gives 0.
    """
    if limit <= 0:
        return np.zeros(DRAWS)
    if sums is None:
        return None
    within: Floats = (sums <= limit).sum(axis=1).astype(np.float64)
    all_within = within == sums.shape[1]
    if all_within.any():  # the rate goes on
        last = sums[all_within, -1]
        rate = np.where(last > 0, sums.shape[1] / np.maximum(last, 1e-300), np.inf)
        with np.errstate(over="ignore"):  # an overflow is beyond 1e9 too
            within[all_within] = np.minimum(np.floor(rate * limit), 1e9)
    return within


def interval(draws: Floats | None) -> Interval | None:
    """Return the 10 %, 50 % and 90 % quantiles of simulated values; infinite ones are None."""
    if draws is None:
        return None
    low, median, high = (
        None if not np.isfinite(x) else float(x)
        for x in np.quantile(draws, OUTER, method="inverted_cdf")
    )
    return Interval(low, median, high)


MOST_WAITING = 1_000  # Largest number of waiting runs whose ends are drawn


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Forecast end times of running and waiting runs, in seconds from now.

    Args:
        going: end of each running run, by its number; empty while no duration is known.
        over: end of the last running or waiting run, held ones excluded; None if unknown or none.
    """

    going: Mapping[int, Interval]
    over: Interval | None


def queue_ends(experiment: Experiment, now_s: float) -> QueueEnds:
    """Forecast when the running and waiting runs of an experiment end."""
    past_durations_s = [
        r.duration_s for r in experiment.runs if r.is_charged and r.duration_s is not None
    ]
    running = experiment.runs_in(RunState.RUNNING)
    elapsed_s = [max(0.0, now_s - r.started_s) for r in running if r.started_s is not None]
    durations = DurationModel.learn(past_durations_s, elapsed_s)
    n_waiting = len(experiment.waiting)
    if durations is None or not (running or n_waiting):
        return QueueEnds({}, None)
    rng = np.random.default_rng(random_stream(experiment.opened.seed, "forecast", 1))
    limit_s = experiment.sla.run_limit_s
    to_go_s = durations.to_go(elapsed_s, rng, limit_s)
    going = {
        run.id: end_s
        for i, run in enumerate(running)
        if (end_s := interval(to_go_s[:, i])) is not None
    }
    if n_waiting > MOST_WAITING:
        return QueueEnds(going, None)
    durations_s, _ = durations.draw(n_waiting, rng, limit_s)
    workers = max(experiment.opened.workers, len(running))
    ends_s = run_end_times(durations_s, to_go_s, workers, batch=1)
    return QueueEnds(going, interval(ends_s[:, -1]))
