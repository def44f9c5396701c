"""Prediction of the next job's flavour, or of the batch's end, by a table of contexts.

Bergsma et al., section 2.2: a token is a flavour or the end of a batch (EOB), and depends on those
before. Here the context is three facts: the token before, its number of repetitions, and the
flavour before it in the batch. Each is a level of contexts; a level borrows from the one above as
much as it has seen different tokens (Witten and Bell, IEEE Transactions on Information Theory
37(4), 1991). Days differ, and a table of all days would make every generated day like their mean,
so there may be a table for each of the last days; a generated day takes its flavours from the same
day of the history as the number of its batches, a day of the same weekday.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Contexts, observed_contexts
from sim.model.cloud_trace import DAY_S, HOUR_S, CloudTrace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


EXACT_RUNS, LONGEST_RUN = 8, 31
MOST_DAYS = 42  # number of last days with their own tables; others use the table of all days

DAY_LEANS = 10_000.0
"""Tokens of the table of all days that are added to those of a day in a context. With fewer,
days differ more, and the band of their demand is wider."""


@dataclass(frozen=True, eq=False)
class FlavourTokens:
    """A trace as a sequence of tokens, which are flavours of jobs and ends of batches.

    Attributes:
        token: int64 [n], a flavour, or `end`.
        before: int64 [n], the token before; `end` at the begin of a batch.
        run: int64 [n], repetitions of `before`; 0 at the begin of a batch.
        earlier: int64 [n], the flavour before that run; `end` if there is none in the batch.
        job: int64 [n], row of the job, or of the last job before the end of the batch.
        end: number of flavours.
        hour: int64 [n], hour of the day of its period, from 0.
        weekday: int64 [n], from 0, the first day of the clock.
    """

    token: Ints
    before: Ints
    run: Ints
    earlier: Ints
    job: Ints
    end: int
    hour: Ints
    weekday: Ints


def tokens_of(trace: CloudTrace) -> FlavourTokens:
    """Convert a trace to tokens, each with the preceding tokens as context."""
    end, n_jobs = len(trace.flavours), trace.n_jobs
    is_last = np.append(trace.first_in_batch[1:], True)
    place = np.arange(n_jobs) + np.cumsum(is_last) - is_last
    token = np.full(n_jobs + trace.n_batches, end, dtype=np.int64)
    token[place] = trace.flavour
    before = np.concatenate([[end], token[:-1]])
    begins = before == end
    changed = begins | (before != np.concatenate([[-1], before[:-1]]))
    at = np.arange(len(token))
    since = np.maximum.accumulate(np.where(changed, at, 0))
    run = np.where(begins, 0, at - since + 1)
    earlier = np.where(begins, end, before[np.maximum(since - 1, 0)])
    job = np.searchsorted(place, at, side="right") - 1
    hours = hours_of(trace.period, trace.period_s)[job]
    return FlavourTokens(token, before, run, earlier, job, end, hours % 24, hours // 24)


def hours_of(period: Ints, period_s: float) -> Ints:
    """Return the hour of the week of each period, 0 to 167, from the clock's first midnight."""
    hours: Ints = np.floor(period * (period_s / HOUR_S)).astype(np.int64) % (7 * 24)
    return hours


def keys_of(before: Ints, run: Ints, earlier: Ints, end: int) -> tuple[Ints, Ints, Ints]:
    """Return the integer keys of contexts at the three levels: int64 [n] each."""
    with_run = before * (LONGEST_RUN + 1) + run_class(run)
    return before, with_run, with_run * (end + 1) + earlier


def run_class(run: Ints) -> Ints:
    """Return the class of each repetition count: exact up to 8, then logarithmic, at most 31."""
    above = np.maximum(run, EXACT_RUNS) / EXACT_RUNS
    classes = EXACT_RUNS + np.ceil(2 * np.log2(above)).astype(np.int64)
    return np.where(run <= EXACT_RUNS, run, np.minimum(classes, LONGEST_RUN))


@dataclass(frozen=True, eq=False)
class FlavourTable:
    """Probabilities of the next token by the preceding tokens of the batch.

    Attributes:
        probability: float64 [n_rows, K + 1]; the last column is the end of the batch.
        by_day: float64 [n, n_rows, K + 1], on each of the last n days of the history; n is 0 if
            days do not differ.
    """

    contexts: Contexts
    probability: Floats
    by_day: Floats
    n_days: int

    @property
    def end(self) -> int:
        """Token number of the end of a batch, which equals the number of flavours."""
        return int(self.probability.shape[1]) - 1

    def rows(self, before: Ints, run: Ints, earlier: Ints) -> Ints:
        """Return the table row of each context: int64 [n]."""
        return self.contexts.rows(keys_of(before, run, earlier, self.end))

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, n_flavours + 1]."""
        probabilities: Floats = self.probability[
            self.rows(tokens.before, tokens.run, tokens.earlier)
        ]
        return probabilities

    def tilted(self, odds: Floats, weight: Floats) -> "FlavourTable":
        """Return a copy that multiplies token odds by `odds` and flavour shares by `weight`."""
        return replace(
            self,
            probability=tilted_shares(self.probability, odds, weight),
            by_day=tilted_shares(self.by_day, odds, weight),
        )

    def draw(
        self,
        n_batches: int,
        rng: np.random.Generator,
        day: Ints | None,
        hour: Ints,  # noqa: ARG002 - signature of `NextFlavour`
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of `n_batches` non-empty batches; `hour` has no effect."""
        return draw_flavours(self, n_batches, rng, day)


def tilted_shares(probabilities: Floats, odds: Floats, weight: Floats) -> Floats:
    """Return token probabilities with scaled odds; the last token is the end of a batch.

    Args:
        probabilities: float64 [..., K + 1].
        odds: float64 [K + 1], factors on the odds of each token.
        weight: float64 [K], factors on the shares of flavours among each other; the end keeps its
            share.
    """
    tilted = probabilities * odds
    if (weight != 1).any():
        before_weighting = tilted[..., :-1].sum(axis=-1, keepdims=True)
        tilted[..., :-1] *= weight
        left = tilted[..., :-1].sum(axis=-1, keepdims=True)
        tilted[..., :-1] *= np.divide(
            before_weighting, left, out=np.zeros_like(before_weighting), where=left > 0
        )
    shares: Floats = tilted / tilted.sum(axis=-1, keepdims=True)
    return shares


def fit_flavours(
    tokens: FlavourTokens, weight: Floats | None = None, day: Ints | None = None
) -> FlavourTable:
    """Fit a table of next-token probabilities to a sequence of tokens.

    Args:
        tokens: tokens of a trace.
        weight: float64 [n], weight of each; None weights all equally.
        day: int64 [n], day of the history of each, from 0 and never falling, if days differ.
    """
    level_keys = keys_of(tokens.before, tokens.run, tokens.earlier, tokens.end)
    width = tokens.end + 1
    contexts, probability, deepest = fitted_chain(level_keys, tokens.token, width, weight)
    n_days = 1 if day is None else int(day[-1]) + 1
    recent_days = range(
        0 if day is None else max(0, n_days - MOST_DAYS), n_days if day is not None else 0
    )
    by_day = np.empty((len(recent_days), *probability.shape))
    for place, recent_day in enumerate(recent_days):
        some = day == recent_day
        there = np.bincount(deepest[some] * width + tokens.token[some], minlength=probability.size)
        there = there.reshape(-1, width)
        by_day[place] = (there + DAY_LEANS * probability) / (
            there.sum(axis=1, keepdims=True) + DAY_LEANS
        )
    return FlavourTable(contexts, probability, by_day, n_days)


def fitted_chain(
    level_keys: Sequence[Ints], token: Ints, width: int, weight: Floats | None = None
) -> tuple[Contexts, Floats, Ints]:
    """Fit token probabilities at each context level, smoothed with those of the level above.

    Args:
        level_keys: key of every row for each level except 0: int64 [n].
        token: int64 [n].
        width: number of kinds of tokens.
        weight: float64 [n], weight of each; None weights all equally.

    Returns:
        the contexts; probabilities float64 [n_rows, width]; the deepest row of each token.
    """
    contexts, of_level = observed_contexts(level_keys)
    counts = np.zeros((contexts.n_rows, width))
    for rows in of_level:
        counts += np.bincount(rows * width + token, weight, counts.size).reshape(-1, width)
    probability = np.full((contexts.n_rows, width), 1.0 / width)
    for level in range(len(contexts.keys)):
        first, stop = contexts.first_row(level), contexts.first_row(level + 1)
        here = counts[first:stop]
        above = probability[contexts.parent[first:stop]]
        borrowed = (here > 0).sum(axis=1, keepdims=True)
        probability[first:stop] = (here + borrowed * above) / (
            here.sum(axis=1, keepdims=True) + borrowed
        )
    return contexts, probability, of_level[-1]


def days_of(tokens: FlavourTokens, trace: CloudTrace) -> Ints:
    """Return the day of each token, counted from 0 on the first day of the trace."""
    day = np.floor(trace.period * (trace.period_s / DAY_S)).astype(np.int64)
    first = int(np.floor(trace.first_period * (trace.period_s / DAY_S)))
    since: Ints = day[tokens.job] - first
    return since


def recency(tokens: FlavourTokens, trace: CloudTrace, half_life_days: float) -> Floats | None:
    """Return a weight per token that halves with every `half_life_days` of its age, or None.

    A half-life of 0 weights all equally, and returns None.
    """
    if half_life_days == 0:
        return None
    last = trace.first_period + trace.n_periods
    age_days = (last - trace.period[tokens.job]) * trace.period_s / DAY_S
    weight: Floats = np.exp2(-age_days / half_life_days).astype(np.float64)
    return weight


def draw_flavours(
    table: FlavourTable, n_batches: int, rng: np.random.Generator, day: Ints | None = None
) -> tuple[Ints, Ints]:
    """Draw the flavours of `n_batches` non-empty batches from a table.

    All batches are drawn together, one job of each after another, because contexts do not cross
    batches.

    `day` is int64 [n_batches], the day of the history of each batch; None takes all days.

    Returns:
        flavours int64 [n_jobs] and their batches int64 [n_jobs], in order.
    """
    end = table.end
    every = np.concatenate([table.probability[None], table.by_day])
    sums = np.cumsum(every, axis=2).reshape(-1, end + 1)
    oldest = table.n_days - len(table.by_day)
    first_row = np.zeros(n_batches, dtype=np.int64)
    if day is not None:
        first_row = np.maximum(day - oldest + 1, 0) * table.contexts.n_rows
    before = np.full(n_batches, end, dtype=np.int64)
    run, earlier = np.zeros(n_batches, dtype=np.int64), before.copy()
    going = np.arange(n_batches)
    tokens: list[Ints] = []
    of_batch: list[Ints] = []
    while len(going):
        rows = first_row[going] + table.rows(before[going], run[going], earlier[going])
        most = sums[rows, end - 1] if not tokens else sums[rows, end]
        mark = rng.random(len(going)) * most
        token = np.minimum((sums[rows] <= mark[:, None]).sum(axis=1), end)
        goes_on = token < end
        going, token = going[goes_on], token[goes_on]
        repeats = before[going] == token
        earlier[going] = np.where(repeats, earlier[going], before[going])
        run[going] = np.where(repeats, run[going] + 1, 1)
        before[going] = token
        tokens.append(token)
        of_batch.append(going.copy())
    flavour, batch = np.concatenate(tokens), np.concatenate(of_batch)
    order = np.argsort(batch, kind="stable")
    return flavour[order], batch[order]
