"""How well models of flavours and lifetimes foresee a trace, beside the paper's baselines.

Every figure is of the next step, given what really came before it (Bergsma et al., sections 5.2 and
5.3). Two of the paper's figures are not what they seem, and both are told here (facts 6 of the
notes on workloads): the error of the likeliest bin as the authors' program counts it looks for the
likeliest among the bins up to the true one only (`masked_error`), which no forecast can do; it is
comparable with nothing else, not with RepeatLifetime either. `error` is the honest one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.batches import CloudTrace
from sim.workloads.cloud.contexts import Ints
from sim.workloads.cloud.flavours import Tokens
from sim.workloads.cloud.lifetimes import Floats, LifetimeTable, mass
from sim.workloads.cloud.qualities import Hazards, NextFlavour

AT_ONCE = 100_000
NOTHING = float("nan")


@dataclass(frozen=True)
class FlavourScore:
    """Of the next token, ends of batches included.

    Attributes:
        nll: mean negative log-likelihood in nats; NaN if the model gives no probabilities.
        error: share of tokens that are not the likeliest.
    """

    nll: float
    error: float


@dataclass(frozen=True)
class LifetimeScore:
    """Of the bins of lifetimes.

    Attributes:
        bce: mean binary cross entropy over the bins that a job tells of; NaN without probabilities.
        nll: negative log-likelihood per job in nats.
        error: share of the jobs that ended whose bin is not the likeliest.
        masked_error: the same as the authors count it, see the head of this module.
    """

    bce: float
    nll: float
    error: float
    masked_error: float


def score_flavours(flavours: NextFlavour, tokens: Tokens) -> FlavourScore:
    """Score a model of flavours on a sequence of tokens."""
    told = flavours.probabilities(tokens)
    likelihood = told[np.arange(len(told)), tokens.token]
    wrong = told.argmax(axis=1) != tokens.token
    return FlavourScore(float(-np.log(likelihood).mean()), float(wrong.mean()))


def baseline_flavours(taught: Tokens, tokens: Tokens) -> dict[str, FlavourScore]:
    """Score Uniform, Multinomial and RepeatFlav (section 5.2), by these names.

    Args:
        taught: what frequencies are counted in.
        tokens: what is foreseen.
    """
    width = tokens.end + 1
    counts = np.bincount(taught.token, minlength=width)
    share = (counts + 0.5) / (counts + 0.5).sum()  # half a count, lest a new flavour cost infinity
    often = int(counts[: tokens.end].argmax())
    repeated = np.where(tokens.before == tokens.end, often, tokens.before)
    nll = float(-np.log(share[tokens.token]).mean())
    return {
        "Uniform": FlavourScore(float(np.log(width)), 1.0 - 1.0 / width),
        "Multinomial": FlavourScore(nll, float((tokens.token != counts.argmax()).mean())),
        "RepeatFlav": FlavourScore(NOTHING, float((repeated != tokens.token).mean())),
    }


def score_lifetimes(lifetimes: Hazards, trace: CloudTrace) -> LifetimeScore:
    """Score a model of hazards on the lifetimes of a trace."""
    return score_hazards(*lifetimes.hazards(trace), trace)


def score_hazards(hazard: Floats, rows: Ints, trace: CloudTrace) -> LifetimeScore:
    """Score hazards [n, n_bins] on the lifetimes of a trace; `rows` [n_jobs] has that of each."""
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
    found = mass(hazard)
    likeliest = found.argmax(axis=1)
    masked = np.where(bins <= lifetime[:, None], found, -1.0).argmax(axis=1)
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
    """Score a hazard of one half in every bin (section 5.3)."""
    ended = trace.censored == 0
    bins = trace.lifetime + ended
    wrong = float((trace.lifetime[ended] != 0).mean())
    loss = float(np.log(2.0))
    return LifetimeScore(loss, loss * float(bins.mean()), wrong, wrong)


def repeat_lifetime_error(pooled: LifetimeTable, trace: CloudTrace) -> float:
    """Return how often a job does not live as long as the one before it in its batch.

    The first of a batch is foreseen to live as long as is likeliest of all jobs.
    """
    usual = int(mass(pooled.hazard[:1])[0].argmax())
    before = np.concatenate([[usual], trace.lifetime[:-1]])
    foreseen = np.where(trace.first_in_batch, usual, before)
    return float((foreseen != trace.lifetime)[trace.censored == 0].mean())


def reuse_distances(flavour: Ints, n_flavours: int) -> NDArray[np.float64]:
    """Return how many other flavours were asked for since each was asked for last: shares.

    Hadary et al. (Protean, OSDI 2020), as in section 6.2. First requests of a flavour do not count.

    Returns:
        float64 [n_flavours]: the share of requests at distance 0, 1, ...
    """
    changes = np.flatnonzero(np.concatenate([[True], flavour[1:] != flavour[:-1]]))
    counts = np.zeros(n_flavours, dtype=np.int64)
    counts[0] = len(flavour) - len(changes)  # a repeated flavour has distance 0
    recent: list[int] = []
    for one in flavour[changes].tolist():
        if one in recent:
            place = recent.index(one)
            counts[place] += 1
            recent.pop(place)
        recent.insert(0, one)
    shares: NDArray[np.float64] = counts / max(int(counts.sum()), 1)
    return shares


def total_variation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return half of the sum of the differences of two distributions."""
    return float(np.abs(first - second).sum() / 2.0)
