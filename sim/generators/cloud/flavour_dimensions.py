"""Which flavour comes next, foreseen dimension by dimension (quality ``dimensions``).

Bergsma et al., section 2.2.3: in the place of one softmax over flavours there may be one for the
cores, then one for the memory given the cores, and so on. Here first comes whether the batch ends,
then the cores, then the memory for each core, the GPUs, the time that is asked for, and last
which of the flavours that agree in all of these it is. Each is a table of contexts that tells what
the token before had in the same dimension first, then what was chosen of this one, and only then
the rest of what `flavours` remembers. So a batch that goes on with as much memory for each core is
told of wider machines what it has seen of narrow ones, and a request that never came in a context,
or never at all, has the chance that its dimensions have.

Each dimension is drawn among the values that some known flavour has together with those chosen
before. So the probability of a flavour is the product over its dimensions, adds up to one over all
flavours, and nothing is requested that nobody ever asked for.

A generated day leans on a day of the history as the mix does: what the table of that day says of a
token, over what the table of all days says, multiplies the product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Contexts
from sim.generators.cloud.flavours import (
    LONGEST_RUN,
    FlavourTable,
    FlavourTokens,
    fitted_chain,
    recency,
    run_class,
    tilted_shares,
    tokens_of,
)
from sim.model.cloud_trace import CloudTrace, Flavour

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MOST_CELLS = 4_000_000
"""Contexts times flavours that are worked out at once."""


@dataclass(frozen=True, eq=False)
class DimensionTable:
    """One step of the chain: probabilities of its values.

    Attributes:
        contexts: in levels, see `FlavourChain.keys`.
        probability: float64 [n_rows, values].
    """

    contexts: Contexts
    probability: Floats


@dataclass(frozen=True, eq=False)
class FlavourChain:
    """How flavours are parted: a tree whose leaves are flavours, a level for each dimension.

    Attributes:
        value: int64 [K, D], of each flavour the number of its value in each dimension, from 0.
        node: int64 [K, D + 1], of each flavour the number of its first d values together; the nodes
            of a level are numbered from 0, and no two flavours share the last.
    """

    value: Ints
    node: Ints

    @classmethod
    def of(cls, value: Ints) -> "FlavourChain":
        """Return the tree of some values, int64 [K, D]."""
        levels = [np.zeros(len(value), dtype=np.int64)]
        for d in range(value.shape[1]):
            pair = levels[-1] * (int(value.max()) + 1) + value[:, d]
            levels.append(np.unique(pair, return_inverse=True)[1])
        return cls(value, np.column_stack(levels))

    @property
    def n_dimensions(self) -> int:
        """Dimensions in which flavours differ."""
        return int(self.value.shape[1])

    @property
    def parts(self) -> bool:
        """Whether every flavour has values of its own."""
        return len(np.unique(self.node[:, -1])) == len(self.node)

    def width(self, d: int) -> int:
        """Return the values of a dimension."""
        return int(self.value[:, d].max()) + 1

    def n_levels(self, d: int) -> int:
        """Return the levels of contexts of a dimension but the first; see `keys`."""
        return 5 if d > 0 else 4

    def children(self, d: int) -> tuple[Ints, Ints]:
        """Return node above and value of each node of level d + 1, in order: int64 [n]."""
        first = np.unique(self.node[:, d + 1], return_index=True)[1]
        return self.node[first, d], self.value[first, d]

    def keys(self, d: int, before: Ints, run: Ints, earlier: Ints, parent: Ints) -> list[Ints]:
        """Return the keys of the levels of contexts of a dimension: int64 [n] each.

        Args:
            d: the dimension; -1 is whether the batch ends, told the cores before.
            before: flavour before; K at the begin of a batch.
            run: class of how often it has been repeated.
            earlier: flavour before that run; K if there is none.
            parent: node of level d, what was chosen of this flavour so far.
        """
        end, column = len(self.value), max(d, 0)
        had = np.append(self.value[:, column], self.width(column))[before]
        key = had * end + parent
        keys = [had, key] if d > 0 else [had]
        for fact, size in ((run, LONGEST_RUN + 1), (before, end + 1), (earlier, end + 1)):
            key = key * size + fact
            keys.append(key)
        return keys


def chain_of(flavours: Sequence[Flavour]) -> FlavourChain:
    """Return how flavours are parted: by cores, memory for each core, GPUs, time, and what else.

    A dimension in which all agree is left out; the last one counts flavours that agree in all
    others.
    """
    cores = np.array([flavour.mcpu for flavour in flavours], dtype=np.int64)
    memory = np.array([flavour.mem_bytes for flavour in flavours], dtype=np.int64)
    gpus = np.array([flavour.mgpu for flavour in flavours], dtype=np.int64)
    requested_s = np.array([flavour.requested_s for flavour in flavours], dtype=np.int64)
    share = np.where(memory < 0, -1.0, np.rint(memory * 1000.0 / np.maximum(cores, 1)))
    columns = [
        np.unique(flavour, return_inverse=True)[1] for flavour in (cores, share, gpus, requested_s)
    ]
    alike = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(alike, kind="stable")
    first = np.searchsorted(alike[order], alike[order], side="left")
    columns.append(np.empty(len(flavours), dtype=np.int64))
    columns[-1][order] = np.arange(len(order)) - first
    distinct_columns = [flavour for flavour in columns if flavour.max() > 0] or columns[:1]
    return FlavourChain.of(np.column_stack(distinct_columns))


@dataclass(frozen=True, eq=False)
class FlavourDimensions:
    """Probabilities of the next token, dimension by dimension.

    Attributes:
        table: of days, see the head of this module.
        chain: how flavours are parted.
        ends: whether the batch goes on (0) or ends (1).
        dimensions: the others, in order.
        odds: float64 [K + 1], factors on the odds of each token (what if).
        among: float64 [K], factors on the shares of flavours among each other (what if).
    """

    table: FlavourTable
    chain: FlavourChain
    ends: DimensionTable
    dimensions: tuple[DimensionTable, ...]
    odds: Floats
    among: Floats

    @property
    def end(self) -> int:
        """The token that ends a batch: the number of flavours."""
        return len(self.chain.value)

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, K + 1]."""
        of_context, place = self._of(tokens.before, run_class(tokens.run), tokens.earlier)
        probabilities: Floats = self._tilted(of_context)[place]
        return probabilities

    def tilted(self, odds: Floats, weight: Floats) -> "FlavourDimensions":
        """Return the model with other odds of tokens; see `flavours.tilted_shares`."""
        return replace(self, odds=self.odds * odds, among=self.among * weight)

    def draw(
        self,
        n_batches: int,
        rng: np.random.Generator,
        day: Ints | None,
        hour: Ints,  # noqa: ARG002 - as `qualities.NextFlavour`
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of some batches, none of them empty; the hour says nothing.

        Args:
            n_batches: that are drawn.
            rng: where the draws come from.
            day: int64 [n_batches], which day of the history each takes; None takes that of all.
            hour: int64 [n_batches], hour of the week at which each begins.

        Returns:
            flavours int64 [n_jobs] and their batches int64 [n_jobs], in order.
        """
        end = self.end
        before: Ints = np.full(n_batches, end, dtype=np.int64)
        run, earlier = np.zeros(n_batches, dtype=np.int64), before
        going: Ints = np.arange(n_batches)
        context_sums = _ContextCache(self)
        tokens: list[Ints] = []
        of_batch: list[Ints] = []
        while len(going):
            days = None if day is None else day[going]
            sums, row = context_sums.sums(before, run, earlier, days)
            most = sums[row, end - 1] if not tokens else sums[row, end]
            mark = rng.random(len(going)) * most
            token = np.minimum((sums[row] <= mark[:, None]).sum(axis=1), end)
            goes_on = token < end
            going, token, row = going[goes_on], token[goes_on], row[goes_on]
            before, run, earlier = before[goes_on], run[goes_on], earlier[goes_on]
            repeats = before == token
            earlier = np.where(repeats, earlier, before)
            run = np.where(repeats, run + 1, 1)
            before = token
            tokens.append(token)
            of_batch.append(going)
        flavour, batch = np.concatenate(tokens), np.concatenate(of_batch)
        order = np.argsort(batch, kind="stable")
        return flavour[order], batch[order]

    def _tilted(self, probabilities: Floats) -> Floats:
        if (self.odds == 1).all() and (self.among == 1).all():
            return probabilities
        return tilted_shares(probabilities, self.odds, self.among)

    def _of(self, before: Ints, run: Ints, earlier: Ints) -> tuple[Floats, Ints]:
        """Return probabilities of contexts, float64 [m, K + 1], and the row of each, int64 [n]."""
        width = self.end + 1
        key, place = np.unique(
            (before * (LONGEST_RUN + 1) + run) * width + earlier, return_inverse=True
        )
        probabilities = np.empty((len(key), width))
        step = max(1, MOST_CELLS // width)
        for begin in range(0, len(key), step):
            some = key[begin : begin + step]
            rest = some // width
            probabilities[begin : begin + step] = self._product(
                rest // (LONGEST_RUN + 1), rest % (LONGEST_RUN + 1), some % width
            )
        return probabilities, place.reshape(-1)

    def _product(self, before: Ints, run: Ints, earlier: Ints) -> Floats:
        n, chain = len(before), self.chain
        none = np.zeros(n, dtype=np.int64)
        ending = self.ends.contexts.rows(chain.keys(-1, before, run, earlier, none))
        goes_on, ends = self.ends.probability[ending].T
        share = goes_on[:, None]
        for d, dimension in enumerate(self.dimensions):
            above, value = chain.children(d)
            n_above = share.shape[1]
            each = np.repeat(np.arange(n), n_above)
            parent = np.tile(np.arange(n_above), n)
            keys = chain.keys(d, before[each], run[each], earlier[each], parent)
            row = dimension.contexts.rows(keys).reshape(n, n_above)
            raw = dimension.probability[row[:, above], value]
            parent_sum = raw @ (above[:, None] == np.arange(n_above))
            share = share[:, above] * (raw / parent_sum[:, above])
        return np.column_stack([share[:, chain.node[:, -1]], ends])


class _ContextCache:
    """Sums of probabilities in contexts and days, each worked out when it is first met."""

    def __init__(self, model: FlavourDimensions) -> None:
        self._model = model
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._rows: Ints = np.empty(0, dtype=np.int64)
        self._sums: Floats = np.empty((0, model.end + 1))

    def sums(self, before: Ints, run: Ints, earlier: Ints, day: Ints | None) -> tuple[Floats, Ints]:
        """Return sums of probabilities along tokens, float64 [m, K + 1], and rows of contexts."""
        model, width, runs = self._model, self._model.end + 1, run_class(run)
        key = (before * (LONGEST_RUN + 1) + runs) * width + earlier
        oldest = model.table.n_days - len(model.table.by_day)
        place = np.full(len(before), -1) if day is None else np.maximum(day - oldest, -1)
        if len(model.table.by_day) == 0:
            place[:] = -1
        key = key * (len(model.table.by_day) + 1) + place + 1
        unique_keys, example = np.unique(key, return_index=True)
        new = example[~np.isin(unique_keys, self._keys, assume_unique=True)]
        if len(new):
            probabilities, rows = model._of(before[new], runs[new], earlier[new])
            probabilities = probabilities[rows]
            some = place[new] >= 0
            with_day = new[some]
            table = model.table.rows(before[with_day], run[with_day], earlier[with_day])
            probabilities[some] *= (
                model.table.by_day[place[with_day], table] / model.table.probability[table]
            )
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            self._sums = np.concatenate(
                [self._sums, np.cumsum(model._tilted(probabilities), axis=1)]
            )
            keys = np.concatenate([self._keys, key[new]])
            numbers = np.arange(len(keys) - len(new), len(keys))
            order = np.argsort(keys, kind="stable")
            self._keys = keys[order]
            self._rows = np.concatenate([self._rows, numbers])[order]
        return self._sums, self._rows[np.searchsorted(self._keys, key)]


def fit_dimensions(
    trace: CloudTrace, table: FlavourTable, half_life_days: float
) -> FlavourDimensions:
    """Fit a table to each dimension of the flavours of a trace.

    Args:
        trace: what is learnt from.
        table: of its days.
        half_life_days: see `flavours.recency`; 0 counts all alike.
    """
    chain, tokens = chain_of(trace.flavours), tokens_of(trace)
    runs, weight = run_class(tokens.run), recency(tokens, trace, half_life_days)
    is_end = (tokens.token == tokens.end).astype(np.int64)

    def fitted(d: int, some: Ints, parent: Ints, value: Ints, width: int) -> DimensionTable:
        level_keys = chain.keys(d, tokens.before[some], runs[some], tokens.earlier[some], parent)
        counts = None if weight is None else weight[some]
        return DimensionTable(*fitted_chain(level_keys, value, width, counts)[:2])

    every = np.arange(len(is_end))
    jobs = np.flatnonzero(is_end == 0)
    flavour = tokens.token[jobs]
    return FlavourDimensions(
        table,
        chain,
        fitted(-1, every, np.zeros_like(every), is_end, 2),
        tuple(
            fitted(d, jobs, chain.node[flavour, d], chain.value[flavour, d], chain.width(d))
            for d in range(chain.n_dimensions)
        ),
        np.ones(tokens.end + 1),
        np.ones(tokens.end),
    )
