"""Prediction of a batch's next flavour by a weighted product of tables, or by dimensions.

A dozen tables of contexts use different facts: length of runs, place in the batch, the last five
flavours, the hour, recent days. Each gives probabilities p_i of the next token; the mix is

p(token) ~ product over i of p_i(token) ** w_i,

Hinton's product of experts (Neural Computation 14(8), 2002) with weights. They maximise the
likelihood of a held-out last part of the log, with one set for each class of repetitions of the
last flavour, by Newton's method (the problem is convex). Then the tables are fitted again to the
whole log. On a generated day the mix is multiplied by the ratio of the tables of its day of the
history and of all days.

Prediction of the next flavour dimension by dimension (quality ``dimensions``).

After Bergsma et al., section 2.2.3: first whether the batch ends, then the cores, the memory per
core, the GPUs, the requested time, and last the flavour among those that agree in all of these.
Each step is a table of contexts: first the previous token in the same dimension, then the values
chosen for this one, then all other facts of `flavours`. So rare and new requests have the
probability of their dimensions. A dimension is drawn among values that some known flavour has
together with those chosen before, so the probability of a flavour is the product over its
dimensions, sums to one, and only real requests are generated. On a generated day the product is
multiplied by the ratio of the tables of its day of the history and of all days, as in the mix.
"""

from collections.abc import Mapping, Sequence
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
from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


HELD_SHARE = 0.15  # last share of the jobs, for the fit of the weights

RUN_CLASSES = (0, 1, 2, 4, 8, 14, 20)
"""Ends of the classes of runs (`run_class`) with their own weights; the last is open."""

LEAN = 30.0
"""Precision of a normal prior on each weight, around equal shares, because a class may have too
few tokens in a small log."""

MOST_CELLS = 2_000_000
"""Tokens times kinds of tokens in the fit of weights; of more, an even sample."""

MOST_STEPS, ENOUGH = 30, 1e-7
HOURS, WEEKDAYS = 24, 7
_PAST = ("second", "third", "fourth", "fifth")
Facts = Mapping[str, Ints]  # facts before each token, by name: see `facts_of`


@dataclass(frozen=True)
class ExpertContext:
    """Context variables of one table of the mix per level, and its data's relative half-life."""

    levels: tuple[tuple[str, ...], ...]
    half_life: float = 1.0


MEMORIES: tuple[ExpertContext, ...] = (
    ExpertContext((("before",), ("run",), ("earlier",))),
    ExpertContext((("before",), ("run",), ("earlier",)), half_life=1 / 7),
    ExpertContext((("before",), ("run",), ("earlier",)), half_life=0.0),
    ExpertContext((("before",), ("run",), ("earlier",), ("place",))),
    ExpertContext((("before",), ("run",), ("earlier",), ("run_before",))),
    ExpertContext(
        (("before",), ("run",), ("earlier",), ("run_before",), ("place",)), half_life=0.0
    ),
    ExpertContext((("before",), ("second",), ("third",))),
    ExpertContext((("before",), ("second",), ("third",), ("fourth",), ("fifth",))),
    ExpertContext((("before",), ("second",), ("third",), ("fourth",), ("fifth",)), half_life=0.0),
    ExpertContext((("before",), ("place",), ("second",))),
    ExpertContext((("before",), ("run",), ("hour",))),
    ExpertContext((("before",), ("run",), ("hour", "weekday"))),
)


def facts_of(tokens: FlavourTokens) -> dict[str, Ints]:
    """Return the context variables of each token by name, such as the hour: int64 [n] each.

    ``before``, ``run`` (its class), ``earlier`` as in `FlavourTokens`; ``run_before``, class of
    the run of `earlier`, 0 if there is none; ``place`` in the batch, in the same classes;
    ``second`` to ``fifth``, the tokens so many steps before, `end` outside the batch; ``hour`` and
    ``weekday``.
    """
    at = np.arange(len(tokens.token))
    begins = tokens.before == tokens.end
    place = at - np.maximum.accumulate(np.where(begins, at, 0))
    runs = run_class(tokens.run)
    # One token before the begin of this run is the end of the run before it.
    ends_at = np.maximum(at - tokens.run, 0)
    run_before = np.where(tokens.earlier == tokens.end, 0, runs[ends_at])
    facts = {
        "before": tokens.before, "run": runs, "earlier": tokens.earlier, "run_before": run_before,
        "place": run_class(place), "hour": tokens.hour, "weekday": tokens.weekday,
    }  # fmt: skip
    for steps, name in enumerate(_PAST, start=2):
        past = np.full(len(at), tokens.end, dtype=np.int64)
        past[steps:] = tokens.token[:-steps]
        facts[name] = np.where(place >= steps, past, tokens.end)
    return facts


def keys_of(memory: ExpertContext, facts: Facts, end: int) -> list[Ints]:
    """Return a table's contexts at each level as integer keys: int64 [n] each."""
    sizes = {"hour": HOURS, "weekday": WEEKDAYS}
    sizes |= dict.fromkeys(("run", "run_before", "place"), LONGEST_RUN + 1)
    key: Ints = np.zeros(len(facts["before"]), dtype=np.int64)
    keys = []
    for level in memory.levels:
        for name in level:
            key = key * sizes.get(name, end + 1) + facts[name]
        keys.append(key)
    return keys


def class_of(run: Ints) -> Ints:
    """Return the class of mix weights for each run-length class: int64 [n], from 0."""
    return np.searchsorted(RUN_CLASSES, run, side="left").astype(np.int64)


@dataclass(frozen=True, eq=False)
class FlavourExpert:
    """One table of the mix: float64 [n_rows, n_flavours + 1], probabilities of the next token."""

    contexts: Contexts
    probability: Floats


@dataclass(frozen=True, eq=False)
class FlavourMix:
    """A log-linear mix of tables that gives the probabilities of the next token.

    Attributes:
        experts: one for each of `MEMORIES`.
        weight: float64 [classes of runs, experts].
        odds: float64 [K + 1], factors on the odds of each token (what if).
        among: float64 [K], factors on the shares of flavours among each other (what if).
    """

    table: FlavourTable
    experts: tuple[FlavourExpert, ...]
    weight: Floats
    odds: Floats
    among: Floats

    @property
    def end(self) -> int:
        """Token number of the end of a batch, which equals the number of flavours."""
        return self.table.end

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, n_flavours + 1]."""
        return self._shares(self._logs(facts_of(tokens)))

    def tilted(self, odds: Floats, weight: Floats) -> "FlavourMix":
        """Return a copy that multiplies token odds by `odds` and flavour shares by `weight`."""
        return replace(self, odds=self.odds * odds, among=self.among * weight)

    def _shares(self, logs: Floats) -> Floats:
        shares = _shares(logs)
        if (self.among == 1).all():
            return shares
        return tilted_shares(shares, np.ones(self.end + 1), self.among)

    def draw(
        self, n_batches: int, rng: np.random.Generator, day: Ints | None, hour: Ints
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of the jobs of `n_batches` non-empty batches.

        The arguments and the result are those of `model_parts.NextFlavour.draw`.
        """
        end = self.end
        none: Ints = np.full(n_batches, end, dtype=np.int64)
        zero: Ints = np.zeros(n_batches, dtype=np.int64)
        past = [none] * 5  # the last five tokens, the last one first
        run, earlier, run_before = zero, none, zero
        going: Ints = np.arange(n_batches)
        tokens: list[Ints] = []
        of_batch: list[Ints] = []
        while len(going):
            place: Ints = np.full(len(going), len(tokens), dtype=np.int64)
            facts = {
                "before": past[0], "run": run_class(run), "earlier": earlier,
                "run_before": run_class(run_before), "place": run_class(place),
                "hour": hour[going] % HOURS, "weekday": hour[going] // HOURS,
                **dict(zip(_PAST, past[1:], strict=True)),
            }  # fmt: skip
            logs = self._logs(facts)
            if day is not None and len(self.table.by_day):
                logs += self._of_day(day[going], past[0], run, earlier)
            if not tokens:
                logs[:, end] = -np.inf  # no batch is empty
            sums = np.cumsum(self._shares(logs), axis=1)
            mark = rng.random(len(going)) * sums[:, -1]
            token = np.minimum((sums <= mark[:, None]).sum(axis=1), end)
            goes_on = token < end
            going, token = going[goes_on], token[goes_on]
            past = [fact[goes_on] for fact in past]
            repeats = past[0] == token
            run_before = np.where(repeats, run_before[goes_on], run[goes_on])
            earlier = np.where(repeats, earlier[goes_on], past[0])
            run = np.where(repeats, run[goes_on] + 1, 1)
            past = [token, *past[:-1]]
            tokens.append(token)
            of_batch.append(going)
        flavour, batch = np.concatenate(tokens), np.concatenate(of_batch)
        order = np.argsort(batch, kind="stable")
        return flavour[order], batch[order]

    def _logs(self, facts: Facts) -> Floats:
        weight = self.weight[class_of(facts["run"])]
        log_shares: Floats = np.broadcast_to(np.log(self.odds), (len(weight), self.end + 1)).copy()
        for place, expert_logs in enumerate(_expert_logs(self.experts, facts, self.end)):
            log_shares += weight[:, place, None] * expert_logs
        return log_shares

    def _of_day(self, day: Ints, before: Ints, run: Ints, earlier: Ints) -> Floats:
        rows = self.table.rows(before, run, earlier)
        place = day - (self.table.n_days - len(self.table.by_day))
        has_day = place >= 0
        log_ratio = np.zeros((len(day), self.end + 1))
        here = self.table.by_day[place[has_day], rows[has_day]]
        log_ratio[has_day] = np.log(here / self.table.probability[rows[has_day]])
        return log_ratio


def _expert_logs(experts: Sequence[FlavourExpert], facts: Facts, end: int) -> list[Floats]:
    return [
        np.log(expert.probability)[expert.contexts.rows(keys_of(memory, facts, end))]
        for memory, expert in zip(MEMORIES, experts, strict=True)
    ]


def _shares(logs: Floats) -> Floats:
    exponentials = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares


def fit_mix(
    trace: CloudTrace,
    table: FlavourTable,
    half_life_days: float,
    validation: CloudTrace | None = None,
) -> FlavourMix:
    """Fit the tables of a mix and their weights to a trace.

    The weights are fitted to `validation`; None holds out the last part of `trace`.
    """
    if validation is None:
        parted = split_validation(trace)
        taught, validation = parted if parted is not None else (trace, None)
    else:
        taught = trace
    even = np.full((len(RUN_CLASSES) + 1, len(MEMORIES)), 1.0 / len(MEMORIES))
    weight = even
    if validation is not None:
        tokens = tokens_of(validation)
        n = len(tokens.token)
        some = np.arange(0, n, max(1, -(-n * (tokens.end + 1) // MOST_CELLS)))
        facts = {name: fact[some] for name, fact in facts_of(tokens).items()}
        expert_logs = np.array(
            _expert_logs(fit_experts(taught, half_life_days), facts, tokens.end), dtype=np.float32
        )
        weight = fit_weights(expert_logs, tokens.token[some], class_of(facts["run"]), even)
    experts = fit_experts(trace, half_life_days)
    return FlavourMix(table, experts, weight, np.ones(table.end + 1), np.ones(table.end))


def split_validation(trace: CloudTrace) -> tuple[CloudTrace, CloudTrace] | None:
    """Return a trace without its last part, and that part; None if all is of one period."""
    at = int(trace.period[int((1.0 - HELD_SHARE) * trace.n_jobs)])
    if at == trace.period[0]:
        return None
    stop = trace.first_period + trace.n_periods
    return trace.part(trace.first_period, at), trace.part(at, stop)


def fit_experts(trace: CloudTrace, half_life_days: float) -> tuple[FlavourExpert, ...]:
    """Fit all tables of the mix to a trace, without their weights."""
    tokens = tokens_of(trace)
    facts = facts_of(tokens)
    return tuple(
        FlavourExpert(
            *fitted_chain(
                keys_of(memory, facts, tokens.end),
                tokens.token,
                tokens.end + 1,
                recency(tokens, trace, half_life_days * memory.half_life),
            )[:2]
        )
        for memory in MEMORIES
    )


def fit_weights(expert_logs: Singles, token: Ints, of_class: Ints, prior: Floats) -> Floats:
    """Return the most probable weights of the mix's tables: float64 in the shape of `prior`.

    Args:
        expert_logs: float32 [experts, n, K + 1], logarithms of probabilities.
        token: int64 [n], observed tokens.
        of_class: int64 [n], class of weights.
        prior: float64 [classes, experts], means of the prior; its precision is `LEAN`.

    Raises:
        WorkloadError: the iteration does not converge.
    """
    weight = prior.copy()
    for class_number in np.unique(of_class).tolist():
        some = np.flatnonzero(of_class == class_number)
        weight[class_number] = _newton(expert_logs[:, some], token[some], prior[class_number])
    return weight


def _newton(expert_logs: Singles, token: Ints, prior: Floats) -> Floats:
    n = np.arange(len(token))
    weight, loss = prior, _loss(expert_logs, token, prior, prior)
    for _ in range(MOST_STEPS):
        share = _shares(np.tensordot(weight, expert_logs, axes=1)).astype(np.float32)
        mean = (share * expert_logs).sum(axis=2)
        slope = (mean - expert_logs[:, n, token]).sum(axis=1) + LEAN * (weight - prior)
        apart = ((expert_logs - mean[:, :, None]) * np.sqrt(share)).reshape(len(expert_logs), -1)
        curve = (apart @ apart.T).astype(np.float64) + LEAN * np.eye(len(weight))
        step, size = np.linalg.solve(curve, slope), 1.0
        while (
            now := _loss(expert_logs, token, weight - size * step, prior)
        ) > loss and size > ENOUGH:
            size /= 2.0
        if size <= ENOUGH or loss - now < ENOUGH * max(abs(loss), 1.0):
            return weight if now > loss else weight - size * step
        weight, loss = weight - size * step, now
    raise WorkloadError("the weights of the mix could not be fitted; use quality 'tables' instead.")


def _loss(expert_logs: Singles, token: Ints, weight: Floats, prior: Floats) -> float:
    logs = np.tensordot(weight, expert_logs, axes=1)
    most = logs.max(axis=1)
    total = np.log(np.exp(logs - most[:, None]).sum(axis=1)) + most
    prized = LEAN / 2.0 * ((weight - prior) ** 2).sum()
    return float((total - logs[np.arange(len(token)), token]).sum() + prized)


FLAVOUR_DIMENSIONS_MOST_CELLS = 4_000_000  # contexts times flavours that are computed together


@dataclass(frozen=True, eq=False)
class DimensionTable:
    """Probabilities of one flavour dimension's values by context: float64 [n_rows, n_values]."""

    contexts: Contexts
    probability: Floats


@dataclass(frozen=True, eq=False)
class FlavourChain:
    """A tree with flavours as leaves and one level per dimension, such as cores or memory.

    Attributes:
        value: int64 [K, D], number of each flavour's value in each dimension, from 0.
        node: int64 [K, D + 1], number of each flavour's first d values together; nodes of a level
            are numbered from 0, and no two flavours share the last.
    """

    value: Ints
    node: Ints

    @classmethod
    def of(cls, value: Ints) -> "FlavourChain":
        """Build the tree from the flavours' values, int64 [n_flavours, n_dimensions]."""
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
        """Whether the dimensions distinguish all flavours."""
        return len(np.unique(self.node[:, -1])) == len(self.node)

    def width(self, d: int) -> int:
        """Return the number of different values of dimension `d`."""
        return int(self.value[:, d].max()) + 1

    def n_levels(self, d: int) -> int:
        """Return the number of context levels of dimension `d`, without level 0."""
        return 5 if d > 0 else 4

    def children(self, d: int) -> tuple[Ints, Ints]:
        """Return parent node and value of each node of level d + 1: int64 [n] each."""
        first = np.unique(self.node[:, d + 1], return_index=True)[1]
        return self.node[first, d], self.value[first, d]

    def keys(self, d: int, before: Ints, run: Ints, earlier: Ints, parent: Ints) -> list[Ints]:
        """Return the contexts of dimension `d` as integer keys for each level except 0.

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
    """Return the flavour tree by cores, memory per core, GPUs, time limit and a tie-break number.

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
    """A model of the next token's probabilities as a product over the flavour's dimensions.

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
        """Token number of the end of a batch, which equals the number of flavours."""
        return len(self.chain.value)

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, n_flavours + 1]."""
        of_context, place = self._of(tokens.before, run_class(tokens.run), tokens.earlier)
        probabilities: Floats = self._tilted(of_context)[place]
        return probabilities

    def tilted(self, odds: Floats, weight: Floats) -> "FlavourDimensions":
        """Return a copy that multiplies token odds by `odds` and flavour shares by `weight`."""
        return replace(self, odds=self.odds * odds, among=self.among * weight)

    def draw(
        self,
        n_batches: int,
        rng: np.random.Generator,
        day: Ints | None,
        hour: Ints,  # noqa: ARG002 - signature of `NextFlavour`
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of `n_batches` non-empty batches; `hour` has no effect.

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
        step = max(1, FLAVOUR_DIMENSIONS_MOST_CELLS // width)
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
        """Return cumulative token probabilities per cached context, and each row's context."""
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
    """Fit a probability table to each dimension of a trace's flavours."""
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
