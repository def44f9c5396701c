"""Scores of flavour and lifetime models on a trace, with the baselines of Bergsma et al.

All scores are of the next step with the real history before it (Bergsma et al., sections 5.2 and
5.3). The authors' program counts the error of the likeliest bin among the bins up to the true one
only (`masked_error`), which no forecast can do; `error` is the honest one. Section 5.3 and Table
4: censored jobs are ignored, taken as ended when last seen, or counted while seen; time has few
bins, many, or none; within a bin jobs end evenly spread (CDI, section 2.4) or all at its end
(stepped).

Survival-MSE (Kvamme and Borgan, Lifetime Data Analysis 27, 2021) is the mean over the jobs that
ended, and over time up to a horizon, of the squared difference between the predicted survival
function S(t) and the true one, which is 1 until the job ends and 0 from there on.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Ints
from sim.generators.cloud.flavours import FlavourTokens
from sim.generators.cloud.lifetimes import LifetimeTable, lifetime_probabilities
from sim.generators.cloud.model_parts import Hazards, NextFlavour
from sim.model.cloud_trace import Bins, CloudTrace
from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]

Censoring = Literal["counted", "ignored", "ended"]
CENSORINGS: tuple[Censoring, ...] = ("counted", "ignored", "ended")


def treat_censored(trace: CloudTrace, how: Censoring) -> CloudTrace:
    """Return a trace with censored jobs left out, counted as ended, or unchanged.

    Args:
        trace: trace with lifetimes.
        how: ``counted`` leaves them as they are, ``ignored`` leaves them out, ``ended`` takes them
            as ended in the bin in which they were last seen.

    Raises:
        WorkloadError: no job ended, and the others are ignored.
    """
    if how == "counted":
        return trace
    if how == "ended":
        return replace(trace, censored=np.zeros_like(trace.censored))
    is_ended = trace.censored == 0
    if not is_ended.any():
        raise WorkloadError("no job of this trace ended, so censored jobs cannot be ignored.")
    columns = {name: getattr(trace, name)[is_ended] for name in ("period", "flavour", "lifetime")}
    batch = trace.batch[is_ended]
    return replace(
        trace,
        **columns,
        batch=np.cumsum(np.diff(batch, prepend=batch[0]) > 0),
        censored=np.zeros(int(is_ended.sum()), dtype=np.int64),
    )


def kaplan_meier(lifetime: Ints, censored: Ints, n_bins: int) -> Floats:
    """Return Kaplan-Meier hazards of bins: float64 [n_bins], 0 where no job was at risk.

    Args:
        lifetime: int64 [n], bin in which each job ended or was last seen.
        censored: int64 [n], 1 for the latter: it was at risk in the bins before only.
        n_bins: number of bins of lifetimes.
    """
    ended = np.bincount(lifetime[censored == 0], minlength=n_bins)
    last_seen = np.bincount(lifetime[censored == 1], minlength=n_bins)
    at_risk = np.cumsum((ended + last_seen)[::-1])[::-1] - last_seen
    return ended / np.maximum(at_risk, 1)


@dataclass(frozen=True, eq=False)
class SurvivalCurves:
    """Survival functions over continuous time in seconds, piecewise linear within bins.

    Attributes:
        edges_s: float64 [n_bins + 1], begins of the bins and end of the last, rising.
        begins: float64 [n, n_bins], S at the begin of each bin.
        ends: float64 [n, n_bins], S just before its end.
    """

    edges_s: Floats
    begins: Floats
    ends: Floats

    def mse(self, lived_s: Floats, row: Ints) -> float:
        """Return the mean squared error (Survival-MSE) of the curves over jobs and time."""
        edges = self.edges_s
        width = np.diff(edges)
        missed = _squares(1.0 - self.begins, 1.0 - self.ends, width)
        wrong = _squares(self.begins, self.ends, width)
        none = np.zeros((len(missed), 1))
        missed_until = np.concatenate([none, np.cumsum(missed, axis=1)], axis=1)
        wrong_until = np.concatenate([none, np.cumsum(wrong, axis=1)], axis=1)
        lived_s = np.minimum(lived_s, edges[-1])
        k = np.clip(np.searchsorted(edges, lived_s, side="left") - 1, 0, len(width) - 1)
        inside = lived_s - edges[k]
        begin, end = self.begins[row, k], self.ends[row, k]
        share = np.divide(inside, width[k], out=np.zeros_like(inside), where=width[k] > 0)
        there = begin + (end - begin) * share
        before = missed_until[row, k] + _squares(1.0 - begin, 1.0 - there, inside)
        after = wrong_until[row, -1] - wrong_until[row, k] - _squares(begin, there, inside)
        return float((before + after).mean() / edges[-1])


def _squares(begin: Floats, end: Floats, width: Floats) -> Floats:
    integral: Floats = width * (begin**2 + begin * end + end**2) / 3.0
    return integral


def survival_of(hazard: Floats, bins: Bins, *, stepped: bool) -> SurvivalCurves:
    """Convert hazards of bins to survival functions over continuous time.

    With `stepped`, all that end in a bin end at its end, else evenly spread.
    """
    after = np.cumprod(1.0 - hazard, axis=1).astype(np.float64)
    begins = np.concatenate([np.ones_like(after[:, :1]), after[:, :-1]], axis=1)
    after[:, -1] = 0.0
    return SurvivalCurves(bins.edges_s, begins, begins if stepped else after)


def survival_mse(
    hazard: Floats, row: Ints, bins: Bins, lived_s: Floats, *, stepped: bool, at_once: int = 100_000
) -> float:
    """Return the Survival-MSE of hazards over jobs and time, in chunks of `at_once` jobs."""
    total = 0.0
    for begin in range(0, len(row), at_once):
        some, curve_number = np.unique(row[begin : begin + at_once], return_inverse=True)
        curves = survival_of(hazard[some], bins, stepped=stepped)
        lived = lived_s[begin : begin + at_once]
        total += curves.mse(lived, curve_number) * len(lived)
    return total / len(row)


def exact_bins(lived_s: Floats, censored: Ints, longest_s: float) -> Bins:
    """Return bins with an edge at each observed job end, for a continuous Kaplan-Meier estimate.

    Raises:
        WorkloadError: no job ended before the horizon.
    """
    times_s = np.unique(lived_s[(censored == 0) & (lived_s > 0)])
    return Bins(tuple(times_s[times_s < longest_s].tolist()), longest_s)


AT_ONCE = 100_000
NOTHING = float("nan")


@dataclass(frozen=True)
class FlavourScore:
    """Scores of a next-token prediction, including ends of batches.

    Attributes:
        nll: mean negative log-likelihood in nats; NaN without probabilities.
        error: share of tokens that are not the likeliest.
    """

    nll: float
    error: float


@dataclass(frozen=True)
class LifetimeScore:
    """Scores of a prediction of lifetime bins.

    Attributes:
        bce: mean binary cross entropy over the known bins of a job; NaN without probabilities.
        nll: negative log-likelihood per job in nats.
        error: share of the jobs that ended whose bin is not the likeliest.
        masked_error: the error as the authors count it, see the module.
    """

    bce: float
    nll: float
    error: float
    masked_error: float


def score_flavours(flavours: NextFlavour, tokens: FlavourTokens) -> FlavourScore:
    """Score a flavour model's next-token predictions on a sequence of tokens."""
    probabilities = flavours.probabilities(tokens)
    likelihood = probabilities[np.arange(len(probabilities)), tokens.token]
    wrong = probabilities.argmax(axis=1) != tokens.token
    return FlavourScore(float(-np.log(likelihood).mean()), float(wrong.mean()))


def baseline_flavours(taught: FlavourTokens, tokens: FlavourTokens) -> dict[str, FlavourScore]:
    """Score the baselines Uniform, Multinomial and RepeatFlav (Bergsma et al., section 5.2).

    Frequencies are counted in `taught`, and `tokens` are predicted.
    """
    width = tokens.end + 1
    counts = np.bincount(taught.token, minlength=width)
    share = (counts + 0.5) / (
        counts + 0.5
    ).sum()  # half a count, so that a new flavour has a finite loss
    often = int(counts[: tokens.end].argmax())
    repeated = np.where(tokens.before == tokens.end, often, tokens.before)
    nll = float(-np.log(share[tokens.token]).mean())
    return {
        "Uniform": FlavourScore(float(np.log(width)), 1.0 - 1.0 / width),
        "Multinomial": FlavourScore(nll, float((tokens.token != counts.argmax()).mean())),
        "RepeatFlav": FlavourScore(NOTHING, float((repeated != tokens.token).mean())),
    }


def score_lifetimes(lifetimes: Hazards, trace: CloudTrace) -> LifetimeScore:
    """Score a model of hazards by the lifetimes of a trace's jobs."""
    return score_hazards(*lifetimes.hazards(trace), trace)


def score_hazards(hazard: Floats, rows: Ints, trace: CloudTrace) -> LifetimeScore:
    """Score hazards [n, n_bins] by a trace's lifetimes; `rows` [n_jobs] maps jobs to hazards."""
    parts = [
        _summed(hazard[rows[i : i + AT_ONCE]], trace.lifetime[i : i + AT_ONCE],
                trace.censored[i : i + AT_ONCE])
        for i in range(0, trace.n_jobs, AT_ONCE)
    ]  # fmt: skip
    loss, n_bins, wrong, wrong_masked = np.sum(parts, axis=0)
    ended = int((trace.censored == 0).sum())
    return LifetimeScore(loss / n_bins, loss / trace.n_jobs, wrong / ended, wrong_masked / ended)


def _summed(hazard: Floats, lifetime: Ints, censored: Ints) -> NDArray[np.float64]:
    """Return the log loss, the bins that count, and errors of either kind, of some jobs."""
    bins = np.arange(hazard.shape[1])
    ended = censored == 0
    outlived = bins < lifetime[:, None]
    loss = -(np.log1p(-hazard) * outlived).sum() - np.log(hazard[ended, lifetime[ended]]).sum()
    probabilities = lifetime_probabilities(hazard)
    likeliest = probabilities.argmax(axis=1)
    masked = np.where(bins <= lifetime[:, None], probabilities, -1.0).argmax(axis=1)
    return np.array(
        [
            loss,
            outlived.sum() + ended.sum(),
            (likeliest != lifetime)[ended].sum(),
            (masked != lifetime)[ended].sum(),
        ],
        dtype=np.float64,
    )


def score_coin_flip(trace: CloudTrace) -> LifetimeScore:
    """Score the baseline with hazard one half in every bin (Bergsma et al., section 5.3)."""
    ended = trace.censored == 0
    bins = trace.lifetime + ended
    wrong = float((trace.lifetime[ended] != 0).mean())
    loss = float(np.log(2.0))
    return LifetimeScore(loss, loss * float(bins.mean()), wrong, wrong)


def repeat_lifetime_error(pooled: LifetimeTable, trace: CloudTrace) -> float:
    """Return the error rate if each job is predicted to live as long as the one before it.

    The first of a batch is predicted to have the likeliest lifetime of all jobs.
    """
    usual = int(lifetime_probabilities(pooled.hazard[:1])[0].argmax())
    before = np.concatenate([[usual], trace.lifetime[:-1]])
    foreseen = np.where(trace.first_in_batch, usual, before)
    return float((foreseen != trace.lifetime)[trace.censored == 0].mean())


def reuse_distances(flavour: Ints, n_flavours: int) -> NDArray[np.float64]:
    """Return the share of each reuse distance: the number of other flavours since the last use.

    Hadary et al. (Protean, OSDI 2020), as in section 6.2. First requests of a flavour do not
    count.

    Returns:
        float64 [n_flavours]: the share of requests at distance 0, 1, ...
    """
    changes = np.flatnonzero(np.concatenate([[True], flavour[1:] != flavour[:-1]]))
    counts = np.zeros(n_flavours, dtype=np.int64)
    counts[0] = len(flavour) - len(changes)  # a repeated flavour has distance 0
    recent: list[int] = []
    for used_flavour in flavour[changes].tolist():
        if used_flavour in recent:
            place = recent.index(used_flavour)
            counts[place] += 1
            recent.pop(place)
        recent.insert(0, used_flavour)
    shares: NDArray[np.float64] = counts / max(int(counts.sum()), 1)
    return shares


def total_variation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the total variation distance between two discrete distributions."""
    return float(np.abs(first - second).sum() / 2.0)
