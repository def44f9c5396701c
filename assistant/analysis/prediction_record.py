"""Prediction record: comparison of the predictions of suggestions with the measured values.

A suggestion predicts the expected value and the 95 % interval of one run. Those of old logs
predict responses, which equal qualities only where every constraint is met, so infeasible runs are
not judged. Confirmations are not judged either, because their interval is that of a mean.
Reference: Wilson 1927, Probable inference, the law of succession, and statistical inference,
Journal of the American Statistical Association 22.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scipy.special import ndtri, stdtrit

from assistant.core.events import BatchSuggested
from assistant.core.experiment import Experiment
from assistant.core.objective import Goal
from assistant.core.run import Run, RunState, Source, in_order_of_completion
from strategies import Configuration, Suggestion
from strategies.steering.confirmation import mean

Group: TypeAlias = Literal[
    "suggested", "edited", "left out", "own", "initial", "baseline", "repeated", "from before"
]

_GROUPS: Mapping[Source, Group] = {
    "suggested": "suggested",
    "edited": "edited",
    "analyst": "own",
    "initial": "initial",
    "baseline": "baseline",
    "replicate": "repeated",
    "imported": "from before",
}
GROUPS: tuple[Group, ...] = (
    "suggested", "edited", "left out", "own", "initial", "baseline", "repeated", "from before",
)  # fmt: skip
"""Groups of runs by origin; *left out* are suggestions without a run of their batch."""

CONFIDENCE = 0.95

ROUNDING = 1e-7  # Relative tolerance, because a stated interval of no width has eight digits


@dataclass(frozen=True, slots=True)
class PredictionRecord:
    """Prediction for one suggestion and its later measured value.

    Args:
        run_id: the run; for a left-out suggestion a later run of the same configuration.
        low: lower end of the stated interval; None without one.
        inside: whether it lies in the interval; None without one.
    """

    run_id: int
    group: Group
    batch: int
    expected: float
    low: float | None
    high: float | None
    came: float
    inside: bool | None


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """Count of prediction intervals that hold the measured value; 95 % interval of the share."""

    n: int
    inside: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Share of the prediction intervals that contain the measured value, 0 to 1."""
        return self.inside / self.n


@dataclass(frozen=True, slots=True)
class MeanError:
    """Mean prediction error (measured minus expected), with a 95 % t interval."""

    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Prediction accuracy and results of one group of suggestions or runs.

    Args:
        n: runs; for *left out*, suggestions.
        completed: completed runs; for *left out*, suggestions whose configuration ran later.
        violated: completed runs that violate a constraint.
        improved: runs that made their configuration the new best; None for *left out*.
        gain: mean improvement over the baseline, more is better; None without a baseline value.
        coverage: coverage of the stated intervals; None if none can be judged.
    """

    group: Group
    n: int
    completed: int
    failed: int
    violated: int
    mean: float | None
    best: float | None
    improved: int | None
    gain: float | None
    coverage: IntervalCoverage | None
    error: MeanError | None


@dataclass(frozen=True, slots=True)
class PredictionScoreboard:
    """Accuracy of the predictions in an experiment, for each group of suggestions or runs.

    Args:
        scores: scores of non-empty groups, in the order of `GROUPS`.
        promises: records of all suggestions that can be judged, by the end of their runs.
        coverage: coverage over the suggestions that were run unchanged.
        unanswered: suggestions of batches that were replaced before any was submitted.
        baseline: value of the baseline; None if it is unknown or violates a constraint.
    """

    value_name: str
    unit: str
    goal: Goal
    scores: tuple[GroupScore, ...]
    promises: tuple[PredictionRecord, ...]
    coverage: IntervalCoverage | None
    error: MeanError | None
    unanswered: int
    baseline: float | None


def prediction_scoreboard(experiment: Experiment) -> PredictionScoreboard:
    """Compare the predictions in an experiment with the measured values."""
    objective = experiment.opened.objective
    taken, left_out, unanswered = _fates(experiment)
    runs: dict[Group, list[Run]] = {group: [] for group in GROUPS}
    for run in experiment.runs:
        runs[_GROUPS[run.source]].append(run)
    promises = [
        promise
        for run in in_order_of_completion(experiment.runs)
        if run.id in taken
        and (promise := _promise(experiment, run, _GROUPS[run.source], *taken[run.id])) is not None
    ]
    late, late_promises = _later(experiment, left_out)
    improving = _improving(experiment)
    baseline = _baseline(experiment)
    scores = []
    for group in GROUPS:
        group_runs = late if group == "left out" else runs[group]
        n = len(left_out) if group == "left out" else len(group_runs)
        group_promises = (
            late_promises if group == "left out" else [p for p in promises if p.group == group]
        )
        if n:
            improved = None
            if group != "left out":
                improved = sum(run.id in improving for run in group_runs)
            scores.append(
                _score(experiment, group, n, group_runs, improved, baseline, group_promises)
            )
    return PredictionScoreboard(
        value_name=str(objective.wrapper),
        unit=objective.unit,
        goal=objective.goal,
        scores=tuple(scores),
        promises=(*promises, *late_promises),
        coverage=coverage_of(promises),
        error=error_of(promises),
        unanswered=unanswered,
        baseline=None if baseline is None else objective.value_of(baseline),
    )


def wilson(inside: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the proportion ``inside / n`` (n at least 1).

    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    z = float(ndtri(0.5 + CONFIDENCE / 2))
    share, square = inside / n, z * z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if inside == 0 else max(centre - half, 0.0)
    return low, 1.0 if inside == n else min(centre + half, 1.0)


def coverage_of(promises: Sequence[PredictionRecord]) -> IntervalCoverage | None:
    """Return how many prediction intervals hold the measured value; None without intervals."""
    judged = [promise.inside for promise in promises if promise.inside is not None]
    if not judged:
        return None
    return IntervalCoverage(len(judged), sum(judged), *wilson(sum(judged), len(judged)))


def error_of(promises: Sequence[PredictionRecord]) -> MeanError | None:
    """Return the mean prediction error (measured minus expected); None without a record."""
    errors = [promise.came - promise.expected for promise in promises]
    if not errors:
        return None
    n, value = len(errors), mean(errors)
    if n == 1:
        return MeanError(1, value, None, None)
    variance = math.fsum((error - value) ** 2 for error in errors) / (n - 1)
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * math.sqrt(variance / n)
    return MeanError(n, value, value - half, value + half)


_Offer: TypeAlias = tuple[BatchSuggested, Suggestion]


def _fates(experiment: Experiment) -> tuple[dict[int, _Offer], list[_Offer], int]:
    """Return the suggestion that each run took, those left out, and the number unanswered."""
    of_batch: dict[int, list[Run]] = {}
    for run in experiment.runs:
        if run.batch is not None:
            of_batch.setdefault(run.batch, []).append(run)
    taken: dict[int, _Offer] = {}
    left_out: list[_Offer] = []
    unanswered = 0
    for batch in experiment.batches:
        batch_runs = of_batch.get(batch.number, [])
        if not batch_runs:
            is_open = experiment.open_batch is not None and batch is experiment.open_batch
            unanswered += 0 if is_open else len(batch.suggestions)
            continue
        places: dict[Configuration, list[int]] = {}
        for i, suggestion in enumerate(batch.suggestions):
            places.setdefault(suggestion.configuration, []).append(i)
        gone: set[int] = set()
        for run in batch_runs:
            position = _position(places.get(run.configuration, []), run, gone)
            if position is not None and position < len(batch.suggestions):
                gone.add(position)
                if run.source != "edited":
                    taken[run.id] = batch, batch.suggestions[position]
        left_out += [
            (batch, suggestion) for i, suggestion in enumerate(batch.suggestions) if i not in gone
        ]
    return taken, left_out, unanswered


def _position(same: Sequence[int], run: Run, gone: set[int]) -> int | None:
    """Return the position of the suggestion behind a run, preferring one that is not taken.

    ``same`` are the positions of its configuration in the batch.
    """
    if run.position is not None or run.source == "edited":
        return run.position  # unknown of an edited one in an older log
    return next((i for i in same if i not in gone), same[0] if same else None)


def _promise(
    experiment: Experiment, run: Run, group: Group, batch: BatchSuggested, suggestion: Suggestion
) -> PredictionRecord | None:
    """Return the record of a suggestion and its run; None if it cannot be judged."""
    outcome = run.outcome
    if suggestion.kind == "confirmation" or suggestion.expected is None or outcome is None:
        return None
    if not outcome.feasible:
        return None
    value_of = experiment.opened.objective.value_of
    if suggestion.interval is None:
        low = high = inside = None
    else:
        low, high = sorted(map(value_of, suggestion.interval))
        slack = ROUNDING * max(abs(low), abs(high))
        inside = low - slack <= outcome.value <= high + slack
    return PredictionRecord(
        run.id, group, batch.number, value_of(suggestion.expected), low, high, outcome.value, inside
    )


def _later(
    experiment: Experiment, left_out: Sequence[_Offer]
) -> tuple[list[Run], list[PredictionRecord]]:
    """Return the later runs and the records of left-out suggestions."""
    over: dict[Configuration, list[Run]] = {}
    for run in experiment.runs_in(RunState.COMPLETED, RunState.FAILED):
        over.setdefault(run.configuration, []).append(run)
    later_runs, promises = [], []
    for batch, suggestion in left_out:
        later = [
            run
            for run in over.get(suggestion.configuration, ())
            if run.batch != batch.number and run.submitted_s >= batch.at_s
        ]
        if later:
            run = next(
                (candidate for candidate in later if candidate.outcome is not None), later[0]
            )
            later_runs.append(run)
            promise = _promise(experiment, run, "left out", batch, suggestion)
            if promise is not None:
                promises.append(promise)
    return later_runs, promises


def _improving(experiment: Experiment) -> set[int]:
    """Return the runs that made their configuration the new best; the first does not count."""
    leaders = experiment.best_so_far()
    ended = in_order_of_completion(experiment.runs)
    return {
        run.id
        for run, before, after in zip(ended[1:], leaders, leaders[1:], strict=False)
        if after.configuration == run.configuration != before.configuration
    }


def _baseline(experiment: Experiment) -> float | None:
    """Return the mean quality of the baseline; None if it is unknown or infeasible."""
    run = experiment.baseline
    summary = None if run is None else experiment.summary(run)
    if summary is None or not summary.outcome.feasible:
        return None
    return summary.outcome.quality


def _score(
    experiment: Experiment,
    group: Group,
    n: int,
    runs: Sequence[Run],
    improved: int | None,
    baseline: float | None,
    promises: Sequence[PredictionRecord],
) -> GroupScore:
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    qualities = [outcome.quality for outcome in outcomes if outcome.feasible]
    value_of = experiment.opened.objective.value_of
    gain = None if baseline is None or not qualities else mean(qualities) - baseline
    return GroupScore(
        group=group,
        n=n,
        completed=len(outcomes),
        failed=sum(run.state is RunState.FAILED for run in runs),
        violated=len(outcomes) - len(qualities),
        mean=value_of(mean(qualities)) if qualities else None,
        best=value_of(max(qualities)) if qualities else None,
        improved=improved,
        gain=None if gain is None else gain + 0.0,
        coverage=coverage_of(promises),
        error=error_of(promises),
    )
