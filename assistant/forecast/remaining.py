"""What the terms of the agreement leave: further runs that can end, in many drawn futures.

Runs, deadline and cost map to the same thing, so the tightest of them is the least in each future.
The draws do not depend on the terms: with the same journal more budget never leaves fewer runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from assistant.decisions import stream
from assistant.experiment import Experiment
from assistant.forecast.durations import DRAWS, Durations, Floats, ends_of
from assistant.forecasts import Interval, Term, TermForecast
from assistant.run import Run, RunState
from assistant.sla import Sla
from assistant.spending import cost_of
from strategies import strategy_entry

MOST_DRAWN = 150
"""Runs to come that are drawn; the rate of these goes on beyond them."""

OUTER = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Course:
    """Futures of the runs to come, whatever the terms.

    Args:
        ends_s: when they end, seconds from now, float64 [DRAWS, n], ascending; None while no run
            has ended.
        costs: what they cost, float64 [DRAWS, n]; None if nothing is paid or the cost is unknown.
        duration_s: of one of them.
        spent: cost of the runs so far; None if nothing is paid or the cost is unknown.
        over: runs that are over and count against the budget.
    """

    ends_s: Floats | None
    costs: Floats | None
    duration_s: Interval | None
    spent: float | None
    over: int


@dataclass(frozen=True, slots=True)
class Remaining:
    """What the terms leave together.

    Args:
        terms: what each of them leaves.
        runs: further runs that can end, float64 [DRAWS]; None without a limit or if unknown.
        binding: the term that is the tightest most often; of a finished experiment the one that
            would be.
        unknown: the sentence that says what is missing; empty if nothing is.
    """

    terms: tuple[TermForecast, ...]
    runs: Floats | None
    binding: Term | None
    unknown: str

    @property
    def is_over(self) -> bool:
        """Whether no run is left in any of the futures; not while that is unknown."""
        return self.runs is not None and not (self.runs > 0).any()


def course(experiment: Experiment, now_s: float) -> Course:
    """Draw what comes, from the durations and costs so far. Pure: the experiment's seed decides."""
    rng = np.random.default_rng(stream(experiment.opened.seed, "forecast", 0))
    opened = experiment.opened
    own = [run for run in experiment.runs if run.is_charged]
    n_over = sum(run.ended_s is not None for run in own)
    over = [run for run in own if run.duration_s is not None]
    going = [run for run in own if run.state is RunState.RUNNING]
    elapsed_s = [max(0.0, now_s - (run.started_s or now_s)) for run in going][: opened.workers]
    costs = _costs(experiment, over)
    known = Durations.learn(
        [run.duration_s or 0.0 for run in over], elapsed_s, () if costs is None else costs
    )
    spent = experiment.cost
    if known is None:
        return Course(None, None, None, spent, n_over)
    limit_s = experiment.sla.run_limit_s
    seconds, drawn_costs = known.draw(MOST_DRAWN, rng, limit_s)
    seconds *= _attempts(over)
    to_go_s = known.to_go(elapsed_s, rng, limit_s)
    batch = max(strategy_entry(experiment.steering.strategy).batch, opened.workers)
    ends_s = ends_of(seconds, to_go_s, opened.workers, batch)
    return Course(
        ends_s=ends_s,
        costs=drawn_costs if costs else None,
        duration_s=interval(seconds[:, 0]),
        spent=spent,
        over=n_over,
    )


def _costs(experiment: Experiment, over: Sequence[Run]) -> list[float] | None:
    """Return what each run that is over cost, the mean of the others where it is unknown."""
    tariff = experiment.sla.tariff
    if tariff is None:
        return None
    told = [cost_of(run, experiment.space.values, tariff) for run in over]
    known = [cost for cost in told if cost is not None]
    if not known:
        return None
    return [fmean(known) if cost is None else max(cost, 0.0) for cost in told]


def _attempts(over: Sequence[Run]) -> float:
    """Return what a run takes in all for one that is not interrupted.

    An attempt that came to nothing has taken half of a run on average.
    """
    lost = sum(max(run.attempts - 1, 0) for run in over)
    return 1.0 + 0.5 * lost / len(over)


def remaining(experiment: Experiment, sla: Sla, known: Course, now_s: float) -> Remaining:
    """Return what an agreement leaves of a course, now.

    Args:
        experiment: as far as it has come.
        sla: the experiment's, or one that might be agreed on.
        known: of the experiment.
        now_s: seconds since 1970-01-01 UTC.
    """
    terms: list[TermForecast] = []
    draws: dict[Term, Floats] = {}
    unknown = ""
    if sla.max_runs is not None:
        left = np.full(DRAWS, float(max(0, sla.max_runs - known.over)))
        draws["max_runs"] = left
        terms.append(TermForecast("max_runs", sla.max_runs, known.over, interval(left)))
    if sla.deadline_s is not None:
        by_then = _until(known.ends_s, sla.deadline_s - now_s)
        if by_then is None:
            unknown = (
                "no run has told how long it took, so that it is unknown how many fit before the "
                "deadline"
            )
        else:
            draws["deadline"] = by_then
        terms.append(TermForecast("deadline", sla.deadline_s, now_s, interval(by_then)))
    if sla.max_cost is not None:
        sums = None if known.costs is None else known.costs.cumsum(axis=1)
        afford = None if known.spent is None else _until(sums, sla.max_cost - known.spent)
        if afford is None:
            unknown = "no run has a known cost, so that it is unknown how many can be afforded"
        else:
            draws["max_cost"] = afford
        terms.append(TermForecast("max_cost", sla.max_cost, known.spent, interval(afford)))
    if not terms:
        unknown = "neither a number of runs, nor a deadline, nor a cost is agreed"
    if any((left <= 0).all() for left in draws.values()):
        unknown = ""  # one that is used up is enough, whatever is unknown of the others
    if experiment.finished is not None:
        return Remaining(tuple(terms), np.zeros(DRAWS), _tightest(draws), "")
    if unknown:
        return Remaining(tuple(terms), None, None, unknown)
    least = np.minimum.reduce(list(draws.values()))
    binding = _tightest(draws)
    free = _free(experiment)
    if free is not None:
        least = np.minimum(least, free)
    return Remaining(tuple(terms), least, binding, "")


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
    return max(0, allowed - sum(map(experiment.space.is_allowed, over)))


def _until(sums: Floats | None, limit: float) -> Floats | None:
    """Return how many in a row stay within a limit, float64 [DRAWS]; 0 below 0, None if unknown.

    Args:
        sums: ascending in each row, float64 [DRAWS, n].
        limit: of the same unit.
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
        with np.errstate(over="ignore"):  # what is beyond any number is beyond 1e9 too
            within[all_within] = np.minimum(np.floor(rate * limit), 1e9)
    return within


def interval(draws: Floats | None) -> Interval | None:
    """Return the 80 % interval of draws; a quantile that is infinite is None."""
    if draws is None:
        return None
    low, median, high = (
        None if not np.isfinite(x) else float(x)
        for x in np.quantile(draws, OUTER, method="inverted_cdf")
    )
    return Interval(low, median, high)
