"""LSTM networks for flavours and lifetimes, evaluated with NumPy alone (quality ``lstm``).

Bergsma et al., sections 2.2 and 2.3. The flavour network reads the token before (a flavour or the
end of a batch), the hour, the weekday and the day of the history, and gives the probabilities of
the next token. The lifetime network reads the flavour, the same times, the class of the batch size
and the lifetime of the job before, and gives the hazard of each lifetime bin. `lstm_training`
trains both with PyTorch.

The hidden state is zero at the begin of a sequence of about `sequence` tokens, in training, scoring
and drawing alike. So a draw is many sequences of whole batches, and all of them advance together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Ints, array_of
from sim.generators.cloud.flavours import FlavourTokens, hours_of, tilted_shares
from sim.generators.cloud.lifetimes import (
    ALMOST,
    SIZES,
    first_above,
    lifetime_probabilities,
    rescale_hazards,
    size_class,
    state_of,
)
from sim.generators.generator import MOST_JOBS, Json, Model, checked_number
from sim.model.cloud_trace import DAY_S, CloudTrace
from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

HOURS, WEEKDAYS = 24, 7
MOST_HISTORY_DAYS = 366  # last days with features of their own; earlier ones count as the first
N_GATES = 4


def _ramp(n: int) -> Singles:
    """Return the survival encoding of n codes: row k has ones up to column k (section 2.1.2)."""
    return np.tril(np.ones((n, n), dtype=np.float32))


def _time_encoders(n_days: int) -> tuple[Singles, Singles, Singles]:
    eye = np.eye(HOURS, dtype=np.float32)
    return eye, np.eye(WEEKDAYS, dtype=np.float32), _ramp(min(n_days, MOST_HISTORY_DAYS))


def flavour_encoders(n_flavours: int, n_days: int) -> tuple[Singles, ...]:
    """Return features of each code of the flavour inputs: float32 [n_codes, n_features] each.

    Inputs are the token before, hour, weekday and day of the history.
    """
    return np.eye(n_flavours + 1, dtype=np.float32), *_time_encoders(n_days)


def lifetime_encoders(n_flavours: int, n_days: int, n_bins: int) -> tuple[Singles, ...]:
    """Return features of each code of the lifetime inputs: float32 [n_codes, n_features] each.

    Inputs are flavour, hour, weekday, day of the history, class of the batch size, state of the job
    before (`lifetimes.state_of`; 2 * n_bins is none), and whether a batch begins. A state has two
    features a bin: whether the job before lived up to it, and whether it is known to have ended by
    then (section 2.3.3).
    """
    lived, none = _ramp(n_bins), np.zeros((1, 2 * n_bins), dtype=np.float32)
    ended = np.hstack([lived, lived.T])
    running = np.hstack([lived, np.zeros_like(lived)])
    return (
        np.eye(n_flavours, dtype=np.float32),
        *_time_encoders(n_days),
        np.eye(len(SIZES) + 1, dtype=np.float32),
        np.vstack([ended, running, none]),
        np.array([[0.0], [1.0]], dtype=np.float32),
    )


State = list[tuple[Singles, Singles]]  # output and cell of each layer, [n_sequences, n_units]


@dataclass(frozen=True, eq=False)
class LstmNetwork:
    """A stack of LSTM layers and a linear output layer.

    The gates of a layer are input, forget, cell and output, in this order.

    Attributes:
        encoders: features of each input's codes: float32 [n_codes, n_features].
        inputs: float32 [4 * units, width] for each layer, weights of what comes from below.
        recurrent: float32 [4 * units, units] for each layer, weights of its own output before.
        biases: float32 [4 * units] for each layer.
        output: float32 [n_outputs, units].
        output_bias: float32 [n_outputs].
    """

    encoders: tuple[Singles, ...]
    inputs: tuple[Singles, ...]
    recurrent: tuple[Singles, ...]
    biases: tuple[Singles, ...]
    output: Singles
    output_bias: Singles

    @property
    def n_units(self) -> int:
        """Number of units of each layer."""
        return int(self.output.shape[1])

    def start(self, n_sequences: int) -> State:
        """Return the state at the begin of sequences: zeros."""
        shape = (n_sequences, self.n_units)
        return [(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for _ in self.inputs]

    @cached_property
    def _gate_order(self) -> tuple[Ints, Singles]:
        """Order of gates with the three sigmoids first, and 1/2 for each of these.

        A sigmoid is (1 + tanh(x / 2)) / 2, so one tanh serves all gates.
        """
        each = np.arange(N_GATES * self.n_units).reshape(N_GATES, -1)
        order = each[[0, 1, 3, 2]].ravel()
        scale = np.repeat(np.array([0.5, 0.5, 0.5, 1.0], dtype=np.float32), self.n_units)
        return order, scale

    @cached_property
    def _lookups(self) -> list[Singles]:
        """Gates by code of each input, the first with the bias: float32 [n_codes, 4 * units]."""
        order, scale = self._gate_order
        lookups, column = [], 0
        for encoder in self.encoders:
            width = encoder.shape[1]
            weights = self.inputs[0][order, column : column + width].astype(np.float64)
            lookups.append(encoder.astype(np.float64) @ weights.T * scale)
            column += width
        lookups[0] += self.biases[0][order] * scale
        return [lookup.astype(np.float32) for lookup in lookups]

    @cached_property
    def _layers(self) -> list[tuple[Singles, Singles]]:
        """Weights and biases of each layer for the outputs below and its own, side by side."""
        order, scale = self._gate_order
        layers = []
        for place, (below, own, bias) in enumerate(
            zip(self.inputs, self.recurrent, self.biases, strict=True)
        ):
            both = own if place == 0 else np.hstack([below, own])
            weights = np.ascontiguousarray((both[order] * scale[:, None]).T)
            layers.append((weights, bias[order] * scale))
        return layers

    def step(self, codes: Sequence[Ints], state: State) -> Singles:
        """Advance sequences by one token and return the scores: float32 [n, n_outputs].

        Args:
            codes: int64 [n] of each input.
            state: state of each of the n sequences; replaced in place.
        """
        n = self.n_units
        gates: Singles = self._lookups[0][codes[0]]
        for lookup, code in zip(self._lookups[1:], codes[1:], strict=True):
            gates += lookup[code]
        top = state[0][0]
        for layer, (weights, bias) in enumerate(self._layers):
            own, cell = state[layer]
            if layer == 0:
                gates += own @ weights
            else:
                gates = np.concatenate([top, own], axis=1) @ weights
                gates += bias
            np.tanh(gates, out=gates)
            sigmoids = gates[:, : 3 * n]
            sigmoids *= np.float32(0.5)
            sigmoids += np.float32(0.5)
            cell = gates[:, n : 2 * n] * cell
            cell += gates[:, :n] * gates[:, 3 * n :]
            top = np.tanh(cell)
            top *= gates[:, 2 * n : 3 * n]
            state[layer] = (top, cell)
        scores: Singles = top @ self.output.T
        scores += self.output_bias
        return scores

    def scores(self, codes: Ints, sequence: int) -> Singles:
        """Return the scores at every row of a long series: float32 [n, n_outputs].

        Args:
            codes: int64 [n, n_inputs].
            sequence: rows after which the state is zero again.
        """
        n = len(codes)
        begins = np.arange(0, n, sequence)
        state = self.start(len(begins))
        scores = np.empty((n, len(self.output_bias)), dtype=np.float32)
        for place in range(min(sequence, n)):
            rows = begins + place
            if rows[-1] >= n:  # only the last sequence may be shorter
                rows, state = rows[:-1], [(own[:-1], cell[:-1]) for own, cell in state]
                begins = begins[:-1]
            scores[rows] = self.step(list(codes[rows].T), state)
        return scores


def _kept(state: State, some: NDArray[np.bool_]) -> State:
    return [(own[some], cell[some]) for own, cell in state]


def day_codes(day: Ints, n_days: int) -> Ints:
    """Return the code of each day of a history of `n_days` days, from 0; later ones are the last.

    A history of more than `MOST_HISTORY_DAYS` days has codes for its last days only.
    """
    n = min(n_days, MOST_HISTORY_DAYS)
    return np.clip(day - (n_days - n), 0, n - 1)


def flavour_codes(tokens: FlavourTokens, day: Ints, n_days: int) -> Ints:
    """Return the inputs of the flavour network for each token: int64 [n, 4]."""
    return np.column_stack([tokens.before, tokens.hour, tokens.weekday, day_codes(day, n_days)])


def lifetime_codes(trace: CloudTrace, day: Ints, n_days: int) -> Ints:
    """Return the inputs of the lifetime network for each job: int64 [n_jobs, 7].

    The job before is the one before in the trace, also across batches.
    """
    n_bins = trace.bins.n
    hour = hours_of(trace.period, trace.period_s)
    state = state_of(trace.lifetime, trace.censored, n_bins, n_bins)
    sizes = trace.batch_sizes[trace.batch - trace.batch[0]]
    return np.column_stack(
        [
            trace.flavour, hour % HOURS, hour // HOURS, day_codes(day, n_days), size_class(sizes),
            np.concatenate([[2 * n_bins], state[:-1]]), trace.first_in_batch.astype(np.int64),
        ]
    )  # fmt: skip


def job_days(trace: CloudTrace) -> Ints:
    """Return the day of the history of each job, counted from the first day of the trace."""
    day = np.floor(trace.period * (trace.period_s / DAY_S)).astype(np.int64)
    first = int(np.floor(trace.first_period * (trace.period_s / DAY_S)))
    since: Ints = day - first
    return since


@dataclass(frozen=True)
class LstmScore:
    """Negative log-likelihoods per token or job on the held-out part of the training data.

    Attributes:
        network: that of the network; None if nothing was held out.
        tables: that of the quality ``tables``, fitted to the same part as the network.
    """

    network: float | None
    tables: float | None

    @property
    def is_poor(self) -> bool:
        """Whether tables predict the held-out part better."""
        return self.network is not None and self.tables is not None and self.network > self.tables


NO_SCORE = LstmScore(None, None)


@dataclass(frozen=True, eq=False)
class LstmFlavours:
    """A model of the next token's probabilities by an LSTM network.

    Attributes:
        n_days: days of the history in training; later ones count as the last.
        sequence: tokens after which the state is zero again.
        tokens_per_batch: mean number of tokens of a batch, with its end.
        end_bias: added to the score of the end of a batch, see `calibrate_ends`.
        score: how well it predicts what was held out.
        odds: float64 [K + 1], factors on the odds of each token (what if).
        among: float64 [K], factors on the shares of flavours among each other (what if).
    """

    network: LstmNetwork
    n_days: int
    sequence: int
    tokens_per_batch: float
    end_bias: float
    score: LstmScore
    odds: Floats
    among: Floats

    @property
    def end(self) -> int:
        """Token number of the end of a batch, which equals the number of flavours."""
        return len(self.network.output_bias) - 1

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, n_flavours + 1].

        The day of the history is the last one.
        """
        last = np.full(len(tokens.token), self.n_days - 1)
        codes = flavour_codes(tokens, last, self.n_days)
        return self._shares(self.network.scores(codes, self.sequence))

    def tilted(self, odds: Floats, weight: Floats) -> "LstmFlavours":
        """Return a copy that multiplies token odds by `odds` and flavour shares by `weight`."""
        return replace(self, odds=self.odds * odds, among=self.among * weight)

    def draw(
        self, n_batches: int, rng: np.random.Generator, day: Ints | None, hour: Ints
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of the jobs of `n_batches` non-empty batches.

        The arguments and the result are those of `model_parts.NextFlavour.draw`; None as the day
        takes the last one.
        """
        per_sequence = max(1, round(self.sequence / self.tokens_per_batch))
        return self.draw_sequences(
            np.arange(0, n_batches, per_sequence), n_batches, rng, day, hour, MOST_JOBS
        )

    def draw_sequences(
        self,
        first: Ints,
        n_batches: int,
        rng: np.random.Generator,
        day: Ints | None,
        hour: Ints,
        most_jobs: int,
    ) -> tuple[Ints, Ints]:
        """Draw flavours of sequences that advance together, such as parts of a trace, or traces.

        Args:
            first: int64 [n_sequences], first batch of each; the state is zero there.
            n_batches: number of batches of all together.
            rng: random generator.
            day: int64 [n_batches], day of the history of each; None takes the last one.
            hour: int64 [n_batches], hour of the week at which each begins.
            most_jobs: largest number of jobs.

        Returns:
            flavours int64 [n_jobs] and their batches int64 [n_jobs], in order.

        Raises:
            WorkloadError: more than `most_jobs` jobs.
        """
        end, n_days = self.end, self.n_days
        days = np.full(n_batches, n_days - 1) if day is None else day
        days = day_codes(days, n_days)
        batch, stop = first.astype(np.int64), np.append(first[1:], n_batches)
        before: Ints = np.full(len(batch), end, dtype=np.int64)
        state = self.network.start(len(batch))
        tokens: list[Ints] = []
        of_batch: list[Ints] = []
        n_jobs = 0
        while len(batch):
            codes = (before, hour[batch] % HOURS, hour[batch] // HOURS, days[batch])
            shares = self._shares(self.network.step(codes, state))
            shares[before == end, end] = 0.0  # no batch is empty
            sums = np.cumsum(shares, axis=1)
            mark = rng.random(len(batch)) * sums[:, -1]
            before = np.minimum((sums <= mark[:, None]).sum(axis=1), end)
            is_job = before < end
            tokens.append(before[is_job])
            of_batch.append(batch[is_job])
            n_jobs += len(tokens[-1])
            if n_jobs > most_jobs:
                raise WorkloadError(
                    f"more than {most_jobs:,} jobs would be drawn; ask for a shorter duration or a "
                    "smaller scale."
                )
            batch = batch + (before == end)
            going = batch < stop
            if not going.all():
                batch, stop, before = batch[going], stop[going], before[going]
                state = _kept(state, going)
        flavour, number = np.concatenate(tokens), np.concatenate(of_batch)
        order = np.argsort(number, kind="stable")
        return flavour[order], number[order]

    def _shares(self, scores: Singles) -> Floats:
        logs = scores.astype(np.float64)
        logs[:, -1] += self.end_bias
        logs -= logs.max(axis=1, keepdims=True)
        shares: Floats = np.exp(logs, out=logs)
        shares *= self.odds
        shares /= shares.sum(axis=1, keepdims=True)
        shares = np.maximum(shares, ALMOST**2)
        if (self.among == 1).all():
            return shares
        return tilted_shares(shares, np.ones(self.end + 1), self.among)


CALIBRATION_SEQUENCES = 256
"""Sequences that are drawn to measure batch sizes; at the usual 500 tokens, 128,000 tokens."""

MOST_CALIBRATION_STEPS, CLOSE_ENOUGH = 12, 0.002
MOST_BIAS = 12.0


def calibrate_ends(model: LstmFlavours, trace: CloudTrace) -> LstmFlavours:
    """Return a copy whose drawn batches have the mean size of those of its training data.

    A network that foresees each next token well may still draw batches of a wrong mean size,
    because then it reads its own tokens. The bias of the end's score is found by drawing batches at
    the times of those of the trace, with the same random numbers at every step.

    Raises:
        WorkloadError: no bias brings the mean size near that of the trace.
    """
    begins = np.flatnonzero(trace.first_in_batch)
    n_all, mean_size = len(begins), float(trace.n_jobs / len(begins))
    per_sequence = min(n_all, max(1, round(model.sequence / model.tokens_per_batch)))
    n = max(1, min(CALIBRATION_SEQUENCES, 4 * n_all // per_sequence))
    firsts = np.linspace(0, n_all - per_sequence, n).astype(np.int64)
    batches = (firsts[:, None] + np.arange(per_sequence)).ravel()
    jobs = begins[batches]
    hour = hours_of(trace.period[jobs], trace.period_s)
    day, first = job_days(trace)[jobs], np.arange(n) * per_sequence
    most_jobs = int(20 * mean_size * len(batches)) + 1000

    def excess(bias: float) -> float:
        """Return the logarithm of the drawn mean size over that of the trace."""
        rng = np.random.default_rng(0)
        try:
            drawn, _ = replace(model, end_bias=bias).draw_sequences(
                first, len(batches), rng, day, hour, most_jobs
            )
        except WorkloadError:
            return float(np.log(20.0))
        return float(np.log(len(drawn) / (len(batches) * mean_size)))

    low, high = -np.inf, np.inf  # of biases with batches that are too large, and too small
    at = {-np.inf: np.nan, np.inf: np.nan}
    bias = model.end_bias
    for _ in range(MOST_CALIBRATION_STEPS):
        at[bias] = now = excess(bias)
        if abs(now) < CLOSE_ENOUGH:
            break
        low, high = (bias, high) if now > 0 else (low, bias)
        if np.isinf(low) or np.isinf(high):
            bias = bias + (max(1.5 * now, 0.05) if now > 0 else min(1.5 * now, -0.05))
        else:
            share = at[low] / (at[low] - at[high])
            bias = low + (high - low) * min(max(share, 0.1), 0.9)
        if abs(bias) > MOST_BIAS:
            break
    known = {one: abs(value) for one, value in at.items() if np.isfinite(one)}
    best = min(known, key=lambda one: known[one])
    if known[best] > 0.1:
        raise WorkloadError(
            "the network's batches cannot be brought to the mean size of those of the log; train "
            "it longer (lstm_epochs) or use quality 'tables'."
        )
    return replace(model, end_bias=best)


@dataclass(frozen=True, eq=False)
class LstmLifetimes:
    """A model of the hazards of lifetime bins by an LSTM network.

    Attributes:
        n_days: days of the history in training; later ones count as the last.
        sequence: jobs after which the state is zero again.
        score: how well it predicts what was held out.
        rate: factor on the rate at which jobs end (what if).
    """

    network: LstmNetwork
    n_flavours: int
    n_days: int
    sequence: int
    score: LstmScore
    rate: float = field(default=1.0)

    @property
    def n_bins(self) -> int:
        """Number of lifetime bins."""
        return len(self.network.output_bias)

    def ending(self, rate: float) -> "LstmLifetimes":
        """Return a model for jobs that end `rate` times as fast, with rescaled hazards."""
        return replace(self, rate=self.rate * rate)

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards of every job, float64 [n_jobs, n_bins], and each job's row, int64.

        The day of the history is the last one.
        """
        codes = lifetime_codes(trace, np.full(trace.n_jobs, self.n_days - 1), self.n_days)
        return self._hazards(self.network.scores(codes, self.sequence)), np.arange(trace.n_jobs)

    def draw(
        self,
        flavour: Ints,
        batch: Ints,
        n_flavours: int,  # noqa: ARG002 - signature of `Hazards`
        rng: np.random.Generator,
        day: Ints | None = None,
        hour: Ints | None = None,
    ) -> Ints:
        """Draw a lifetime bin for every job: int64 [n_jobs].

        The arguments are those of `model_parts.Hazards.draw`; None as the day takes the last one,
        as the hour the first one.
        """
        n, none = len(flavour), 2 * self.n_bins
        begins = np.concatenate([[True], np.diff(batch) > 0])
        place = np.cumsum(begins) - 1
        sizes = size_class(np.bincount(place)[place])
        days = np.full(n, self.n_days - 1) if day is None else day[batch]
        hours = np.zeros(n, dtype=np.int64) if hour is None else hour[batch]
        fixed = [flavour, hours % HOURS, hours // HOURS, day_codes(days, self.n_days), sizes]
        first_jobs = np.flatnonzero(begins)
        # A sequence begins with the first batch after every multiple of its length.
        first = first_jobs[np.searchsorted(first_jobs, np.arange(0, n, self.sequence), "left")
                           .clip(max=len(first_jobs) - 1)]  # fmt: skip
        first = np.unique(first)
        lengths = np.diff(np.append(first, n))
        order = np.argsort(-lengths, kind="stable")
        first, lengths = first[order], lengths[order]
        state, lifetime = self.network.start(len(first)), np.zeros(n, dtype=np.int64)
        last: Ints = np.full(len(first), none, dtype=np.int64)
        for step in range(int(lengths[0])):
            n_going = int(np.searchsorted(-lengths, -step, side="left"))
            if n_going < len(last):
                last = last[:n_going]
                state = [(own[:n_going], cell[:n_going]) for own, cell in state]
            jobs = first[:n_going] + step
            codes = [*(fact[jobs] for fact in fixed), last, begins[jobs].astype(np.int64)]
            hazards = self._hazards(self.network.step(codes, state))
            sums = np.cumsum(lifetime_probabilities(hazards), axis=1)
            last = first_above(sums, np.arange(n_going), rng.random(n_going))
            lifetime[jobs] = last
        return lifetime

    def _hazards(self, scores: Singles) -> Floats:
        hazards = 1.0 / (1.0 + np.exp(-scores.astype(np.float64)))
        hazards = np.clip(hazards, ALMOST, 1 - ALMOST)
        return hazards if self.rate == 1 else rescale_hazards(hazards, self.rate)


MOST_LAYERS, MOST_WEIGHT = 8, 1e6
FLAVOURS_NAME, LIFETIMES_NAME = "lstm_flavours", "lstm_lifetimes"
"""Names of the tables of parameters of the two networks, with which their arrays begin too."""

_SCORES = ("held_out_nll", "held_out_nll_of_tables")
_OF_FLAVOURS = ("end_bias", "tokens_per_batch", "n_days", "sequence", "n_layers", *_SCORES)
_OF_LIFETIMES = ("n_days", "sequence", "n_layers", *_SCORES)


def encode_network(name: str, network: LstmNetwork) -> dict[str, NDArray[Any]]:
    """Return the arrays that store a network in a model, with names that begin with `name`."""
    arrays: dict[str, NDArray[Any]] = {
        f"{name}_output": network.output, f"{name}_output_bias": network.output_bias,
    }  # fmt: skip
    for layer, (below, own, bias) in enumerate(
        zip(network.inputs, network.recurrent, network.biases, strict=True)
    ):
        arrays |= {
            f"{name}_{layer}_input": below, f"{name}_{layer}_recurrent": own,
            f"{name}_{layer}_bias": bias,
        }  # fmt: skip
    return arrays


def lstm_flavour_parameters(flavours: LstmFlavours) -> dict[str, Json]:
    """Return the parameters that store a flavour network in a model."""
    values = (
        flavours.end_bias, flavours.tokens_per_batch, flavours.n_days, flavours.sequence,
        len(flavours.network.inputs), flavours.score.network, flavours.score.tables,
    )  # fmt: skip
    return {FLAVOURS_NAME: dict(zip(_OF_FLAVOURS, values, strict=True))}


def lstm_lifetime_parameters(lifetimes: LstmLifetimes) -> dict[str, Json]:
    """Return the parameters that store a lifetime network in a model."""
    values = (
        lifetimes.n_days, lifetimes.sequence, len(lifetimes.network.inputs),
        lifetimes.score.network, lifetimes.score.tables,
    )  # fmt: skip
    return {LIFETIMES_NAME: dict(zip(_OF_LIFETIMES, values, strict=True))}


def lstm_flavours_of(model: Model, n_flavours: int) -> LstmFlavours:
    """Restore the flavour network of a model. Raises WorkloadError if it is invalid."""
    told = _entries(model, FLAVOURS_NAME, _OF_FLAVOURS)
    n_days = int(_number(model, FLAVOURS_NAME, told, "n_days", 1, 1e6))
    encoders = flavour_encoders(n_flavours, n_days)
    return LstmFlavours(
        network=_network_of(model, FLAVOURS_NAME, encoders, n_flavours + 1, told),
        n_days=n_days,
        sequence=int(_number(model, FLAVOURS_NAME, told, "sequence", 1, 1e9)),
        tokens_per_batch=_number(model, FLAVOURS_NAME, told, "tokens_per_batch", 1, 1e9),
        end_bias=_number(model, FLAVOURS_NAME, told, "end_bias", -1e3, 1e3),
        score=_score(model, FLAVOURS_NAME, told),
        odds=np.ones(n_flavours + 1),
        among=np.ones(n_flavours),
    )


def lstm_lifetimes_of(model: Model, n_bins: int, n_flavours: int) -> LstmLifetimes:
    """Restore the lifetime network of a model. Raises WorkloadError if it is invalid."""
    told = _entries(model, LIFETIMES_NAME, _OF_LIFETIMES)
    n_days = int(_number(model, LIFETIMES_NAME, told, "n_days", 1, 1e6))
    encoders = lifetime_encoders(n_flavours, n_days, n_bins)
    return LstmLifetimes(
        network=_network_of(model, LIFETIMES_NAME, encoders, n_bins, told),
        n_flavours=n_flavours,
        n_days=n_days,
        sequence=int(_number(model, LIFETIMES_NAME, told, "sequence", 1, 1e9)),
        score=_score(model, LIFETIMES_NAME, told),
    )


def _entries(model: Model, name: str, allowed: tuple[str, ...]) -> Mapping[str, Json]:
    told = model.parameters.get(name)
    if not isinstance(told, dict) or sorted(told) != sorted(allowed):
        raise WorkloadError(
            f"parameter '{name}' of '{model.generator}' must have exactly the entries "
            f"{', '.join(sorted(allowed))}."
        )
    return told


def _number(
    model: Model, name: str, told: Mapping[str, Json], entry: str, lowest: float, highest: float
) -> float:
    where = f"'{entry}' of parameter '{name}' of '{model.generator}'"
    return checked_number(where, told[entry], lowest, highest)


def _score(model: Model, name: str, told: Mapping[str, Json]) -> LstmScore:
    known = [
        None if told[entry] is None else _number(model, name, told, entry, 0.0, 1e12)
        for entry in _SCORES
    ]
    return LstmScore(*known)


def _network_of(
    model: Model, name: str, encoders: tuple[Singles, ...], n_outputs: int, told: Mapping[str, Json]
) -> LstmNetwork:
    n_layers = int(_number(model, name, told, "n_layers", 1, MOST_LAYERS))

    def single(of: str, *shape: int | None) -> Singles:
        array = array_of(model, f"{name}_{of}", shape, -MOST_WEIGHT, MOST_WEIGHT)
        return array.astype(np.float32)

    output = single("output", n_outputs, None)
    units = output.shape[1]
    widths = [sum(encoder.shape[1] for encoder in encoders), *[units] * (n_layers - 1)]
    return LstmNetwork(
        encoders=encoders,
        inputs=tuple(
            single(f"{layer}_input", N_GATES * units, width) for layer, width in enumerate(widths)
        ),
        recurrent=tuple(
            single(f"{layer}_recurrent", N_GATES * units, units) for layer in range(n_layers)
        ),
        biases=tuple(single(f"{layer}_bias", N_GATES * units) for layer in range(n_layers)),
        output=output,
        output_bias=single("output_bias", n_outputs),
    )
