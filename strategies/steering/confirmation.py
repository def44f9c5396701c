"""Recommendation from noisy results: noise estimate, best configuration, confirming runs.

The best of many single runs is mostly a lucky one (the winner's curse). So configurations are
ranked by means that are shrunk towards the mean of all, the more the fewer runs they rest on, and a
winner counts as confirmed only once it was repeated, or leads by more than the noise explains.

References: Efron & Morris 1975, Data analysis using Stein's estimator and its generalizations;
Bechhofer, Santner & Goldsman 1995, Design and Analysis of Experiments for Statistical Selection;
Karnin, Koren & Somekh 2013, Almost optimal exploration in multi-armed bandits.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scipy.special import chdtri, stdtrit

from strategies.data.observation import Observation
from strategies.samplers.strategy import Suggestion, require_count
from strategies.space.parameter_space import Configuration, ParameterSpace

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Noise:
    """Pooled variance of the quality among replicates of the same configuration."""

    # sum of squared deviations within configurations over the degrees of freedom, in squared
    # units of the quality
    variance: float
    df: int  # degrees of freedom, the number of replicates beyond the first of each configuration
    # 95% chi-square interval of the variance, for normal errors of equal variance
    interval: tuple[float, float]

    @property
    def sd(self) -> float:
        """Standard deviation of the quality of a single run."""
        return math.sqrt(self.variance)

    def half_width(self, n: float) -> float:
        """Return half the width of the 95% t interval of a mean over ``n`` runs.

        For the difference of two means of a and b runs it is that of n = 1 / (1/a + 1/b).
        """
        return float(stdtrit(self.df, 0.5 + CONFIDENCE / 2)) * math.sqrt(self.variance / n)


def replicates(
    observations: Iterable[Observation],
) -> dict[Configuration, tuple[Observation, ...]]:
    """Group observations by configuration, in order of first occurrence."""
    runs: dict[Configuration, list[Observation]] = {}
    for observation in observations:
        runs.setdefault(observation.configuration, []).append(observation)
    return {configuration: tuple(group) for configuration, group in runs.items()}


def mean(numbers: Sequence[float]) -> float:
    """Return the arithmetic mean of one or more numbers, exact if all are equal.

    >>> mean([0.1, 0.1, 0.1])
    0.1
    """
    first = numbers[0]
    return first + math.fsum(number - first for number in numbers) / len(numbers)


def mean_of(runs: Sequence[Observation]) -> Observation:
    """Combine the runs of one configuration into a single observation of mean quality.

    It is feasible if all of them are. Measures, duration and seed are left empty.
    """
    violation = mean([run.violation for run in runs])
    seconds = [run.second for run in runs if run.second is not None]
    return Observation(
        runs[0].configuration,
        mean([run.quality for run in runs]),
        violation == 0,
        violation,
        second=mean(seconds) if len(seconds) == len(runs) else None,
    )


def estimate_noise(observations: Iterable[Observation]) -> Noise | None:
    """Estimate the run-to-run variance from replicates, or return None without any."""
    return _noise_in(replicates(observations).values())


def _noise_in(groups: Iterable[Sequence[Observation]]) -> Noise | None:
    squares, df = 0.0, 0
    for group in groups:
        if len(group) == 1:
            continue  # one run adds nothing, and most configurations have one
        centre = mean([run.quality for run in group])
        squares += math.fsum((run.quality - centre) ** 2 for run in group)
        df += len(group) - 1
    if df == 0:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = squares / float(chdtri(df, tail)), squares / float(chdtri(df, 1 - tail))
    return Noise(squares / df, df, (low, high))


Basis: TypeAlias = Literal["deterministic", "replicates", "gap", "repeated", "failed", "unknown"]
"""Reason why a winner is confirmed or, for the last three, is not."""

CONFIRMED_RUNS = 2  # Runs that confirm a winner without rivals within the noise


@dataclass(frozen=True, slots=True)
class Candidate:
    """Feasible configuration with its run count, mean quality and shrinkage estimate of it.

    ``estimate`` is the mean where the noise is unknown or none.
    """

    configuration: Configuration
    n: int
    mean: float
    estimate: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Recommended configuration, with the rivals that may be better."""

    # candidate with the best estimate; where noise explains all differences, so that all
    # estimates are equal, the one that leads if it explained a little less
    winner: Candidate
    contenders: tuple[Candidate, ...]  # all others, the better first
    # contenders whose means do not differ from the winner's beyond the noise; empty where the noise
    # is unknown or none
    rivals: tuple[Candidate, ...]
    noise: Noise | None  # noise of the replicates, None without any
    # 95% interval of the winner's mean quality, of no width where results do not vary, None where
    # the noise is unknown
    interval: tuple[float, float] | None
    basis: Basis  # reason why the winner is confirmed or not

    @property
    def confirmed(self) -> bool:
        """Whether the recommendation needs no further runs."""
        return self.basis in ("deterministic", "replicates", "gap")


def choose(
    observations: Sequence[Observation],
    deterministic: bool | None = None,
    failed: Container[Configuration] = frozenset(),
) -> Choice | None:
    """Choose the configuration to recommend, or None if no observation is feasible.

    A configuration is feasible if all its runs are. The winner is confirmed if results do not vary
    (``deterministic``; None if unknown), or if all others are further behind than half the 95%
    interval of the difference; alone by at least two runs. It is not if one of its runs failed
    (``failed`` are configurations of which a run failed).
    """
    groups = replicates(observations).values()
    means = ((len(group), group[0] if len(group) == 1 else mean_of(group)) for group in groups)
    feasible = [(n, run) for n, run in means if run.feasible]
    if not feasible:
        return None
    noise = None if deterministic else _noise_in(groups)
    winner, *contenders = _ranked(feasible, noise)
    rivals = () if noise is None else _rivals(winner, contenders, noise)
    interval = None
    if deterministic:
        interval = (winner.mean, winner.mean)
    elif noise is not None:
        half = noise.half_width(winner.n)
        interval = (winner.mean - half, winner.mean + half)
    basis: Basis = "unknown"
    if winner.configuration in failed:
        basis = "failed"
    elif deterministic:
        basis = "deterministic"
    elif winner.n >= CONFIRMED_RUNS:
        # ties do not count where replicates agree exactly: no run would separate them
        contested = rivals and noise is not None and noise.variance > 0
        basis = "repeated" if contested else "replicates"
    elif noise is not None and contenders and not rivals:
        basis = "gap"
    return Choice(winner, tuple(contenders), rivals, noise, interval, basis)


def confirmations(choice: Choice, n: int, space: ParameterSpace) -> tuple[Suggestion, ...]:
    """Return up to ``n`` suggested replicates that would confirm the recommendation.

    They are divided among the best ``n`` of the winner and its rivals (of all, where the noise is
    unknown), at least two: the winner first, until it has two runs; then the one with the fewest
    runs, the better first. So rounds of half the runs that are left are sequential halving (Karnin,
    Koren & Somekh 2013). A configuration that is closed or excluded now is not run again, so there
    may be fewer, or none.
    Raises `OptionError` unless ``n`` is a whole number of at least 1.
    """
    require_count(n)
    rivals = choice.contenders if choice.noise is None else choice.rivals
    allowed = [c for c in (choice.winner, *rivals) if space.is_allowed(c.configuration)]
    contest = allowed[: max(n, 2)]
    runs = {c.configuration: c.n for c in contest}
    suggestions: list[Suggestion] = []
    while contest and len(suggestions) < n:
        first = contest[0]
        leads = first is choice.winner and runs[first.configuration] < CONFIRMED_RUNS
        candidate = first if leads else min(contest, key=lambda c: runs[c.configuration])
        runs[candidate.configuration] += 1
        suggestions.append(_suggestion(candidate, choice))
    return tuple(suggestions)


def _suggestion(candidate: Candidate, choice: Choice) -> Suggestion:
    times = "once" if candidate.n == 1 else f"{candidate.n} times"
    if candidate is choice.winner:
        reason = f"Run again to confirm the winner, which ran {times}."
    else:
        reason = f"Run again to compare it with the winner; it ran {times}."
    interval = choice.interval if candidate is choice.winner else None
    if interval is not None:  # of the mean, so it may not contain the estimate
        interval = (min(interval[0], candidate.estimate), max(interval[1], candidate.estimate))
    return Suggestion(
        candidate.configuration,
        "confirmation",
        reason,
        "confirmation",
        candidate.estimate,
        interval,
    )


def _ranked(feasible: Sequence[tuple[int, Observation]], noise: Noise | None) -> list[Candidate]:
    """Return the candidates, the best first: means shrunk towards their grand mean.

    Each loses the share of its deviation that noise has in the variance of such means. The
    variance between configurations is estimated by moments: that of the means less what noise adds
    to it on average.
    """
    means = [run.quality for _, run in feasible]
    grand = mean(means)
    variance = 0.0 if noise is None else noise.variance
    between = 0.0
    if len(means) > 1:
        spread = math.fsum((quality - grand) ** 2 for quality in means) / (len(means) - 1)
        added = variance * math.fsum(1 / n for n, _ in feasible) / len(feasible)
        between = max(0.0, spread - added)
    candidates = []
    for n, run in feasible:
        shrinkage = 1.0 if variance == 0 else between / (between + variance / n)
        estimate = run.quality if shrinkage == 1.0 else grand + shrinkage * (run.quality - grand)
        candidates.append(Candidate(run.configuration, n, run.quality, estimate))
    # as `between` goes to 0, estimates leave the grand mean in proportion to n (mean - grand)
    return sorted(candidates, key=lambda c: (-c.estimate, -c.n * (c.mean - grand)))


def _rivals(
    winner: Candidate, contenders: Sequence[Candidate], noise: Noise
) -> tuple[Candidate, ...]:
    """Return the contenders whose means do not differ from the winner's beyond the noise."""
    halves = {
        n: noise.half_width(1 / (1 / winner.n + 1 / n)) for n in {other.n for other in contenders}
    }
    return tuple(c for c in contenders if not winner.mean - c.mean > halves[c.n])
