"""Prediction of the next flavour dimension by dimension (quality ``dimensions``).

After Bergsma et al., section 2.2.3: first whether the batch ends, then the cores, the memory per
core, the GPUs, the requested time, and last the flavour among those that agree in all of these.
Each step is a table of contexts: first the previous token in the same dimension, then the values
chosen for this one, then all other facts of `flavours`. So rare and new requests have the
probability of their dimensions. A dimension is drawn among values that some known flavour has
together with those chosen before, so the probability of a flavour is the product over its
dimensions, sums to one, and only real requests are generated. On a generated day the product is
multiplied by the ratio of the tables of its day of the history and of all days, as in the mix.
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


MOST_CELLS = 4_000_000  # contexts times flavours that are computed together


@dataclass(frozen=True, eq=False)
class DimensionTable:
    """Probabilities of the values of one dimension by context: float64 [n_rows, values]."""

    contexts: Contexts
    probability: Floats


@dataclass(frozen=True, eq=False)
class FlavourChain:
    """A tree whose leaves are flavours, with a level for each dimension.

    Attributes:
        value: int64 [K, D], number of each flavour's value in each dimension, from 0.
        node: int64 [K, D + 1], number of each flavour's first d values together; nodes of a level
            are numbered from 0, and no two flavours share the last.
    """

    value: Ints
    node: Ints

    @classmethod
    def of(cls, value: Ints) -> "FlavourChain":
        """Return the tree of values, int64 [K, D]."""
        levels = [np.zeros(len(value), dtype=np.int64)]
        for d in range(value.shape[1]):
            pair = levels[-1] * (int(value.max()) + 1) + value[:, d]
            levels.append(np.unique(pair, return_inverse=True)[1])
        return cls(value, np.column_stack(levels))

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions in which flavours differ."""
        return int(self.value.shape[1])

    @property
    def parts(self) -> bool:
        """Whether all flavours have different values."""
        return len(np.unique(self.node[:, -1])) == len(self.node)

    def width(self, d: int) -> int:
        """Return the number of values of a dimension."""
        return int(self.value[:, d].max()) + 1

    def n_levels(self, d: int) -> int:
        """Return the number of context levels of a dimension after the first; see `keys`."""
        return 5 if d > 0 else 4

    def children(self, d: int) -> tuple[Ints, Ints]:
        """Return parent node and value of each node of level d + 1, in order: int64 [n]."""
        first = np.unique(self.node[:, d + 1], return_index=True)[1]
        return self.node[first, d], self.value[first, d]

    def keys(self, d: int, before: Ints, run: Ints, earlier: Ints, parent: Ints) -> list[Ints]:
        """Return the keys of the context levels of a dimension: int64 [n] each.

        Args:
            d: dimension; -1 is whether the batch ends, which depends on the cores before.
            before: flavour before; K at the begin of a batch.
            run: class of its number of repetitions.
            earlier: flavour before that run; K if there is none.
            parent: node of level d, the values chosen so far.
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
    """Return the tree of flavours by cores, memory per core, GPUs, time and a rest.

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
        ends: whether the batch goes on (0) or ends (1).
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
        """Token that ends a batch: the number of flavours."""
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
        hour: Ints,  # noqa: ARG002 - signature of `NextFlavour`
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of non-empty batches; the distribution does not depend on the hour.

        The arguments and the result are those of `model_parts.NextFlavour.draw`.
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
    def __init__(self, model: FlavourDimensions) -> None:
        self._model = model
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._rows: Ints = np.empty(0, dtype=np.int64)
        self._sums: Floats = np.empty((0, model.end + 1))

    def sums(self, before: Ints, run: Ints, earlier: Ints, day: Ints | None) -> tuple[Floats, Ints]:
        """Return cumulative probabilities of tokens, float64 [m, K + 1], and rows of contexts."""
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
    """Fit a table to each dimension of the flavours of a trace."""
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
