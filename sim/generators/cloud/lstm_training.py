"""Training of the LSTM networks with PyTorch (extra ``neural``); drawing needs NumPy alone.

After Bergsma et al., sections 2.2, 2.3 and 4: two layers of 200 units, minibatches of long
sequences from a zero state, Adam with weight decay, the likelihood of next tokens, and for
lifetimes the binary cross-entropy of the hazards that a job was seen to pass (a mask leaves out the
others). Here the learning rate falls to a twentieth over the epochs, gradients are clipped, and the
output biases begin at the frequencies of the data, since a processor affords few epochs.

The last part of a trace is held out. The weights of the epoch that predicts it best are kept, and
training stops when it has not improved for some epochs.
"""

import hashlib
import io
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Ints
from sim.generators.cloud.flavour_models import split_validation
from sim.generators.cloud.flavours import days_of, fit_flavours, recency, tokens_of
from sim.generators.cloud.lifetimes import checked_lifetimes, fit_lifetimes
from sim.generators.cloud.lstm import (
    NO_SCORE,
    LstmFlavours,
    LstmLifetimes,
    LstmNetwork,
    LstmScore,
    Singles,
    calibrate_ends,
    flavour_codes,
    flavour_encoders,
    job_days,
    lifetime_codes,
    lifetime_encoders,
)
from sim.generators.generator import FitWatch
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import WorkloadError
from sim.model.files import write_atomically
from sim.policies.policy import PolicyOption

Floats = NDArray[np.float64]

LSTM_KNOBS: tuple[PolicyOption, ...] = (
    PolicyOption("lstm_layers", 2, "Layers of each network.", 1, 8, True, needs="quality"),
    PolicyOption("lstm_units", 200, "Units of each layer.", 1, 2000, True, needs="quality"),
    PolicyOption("lstm_epochs", 10, "Passes over the log at most.", 1, 10_000, True,
                 needs="quality"),
    PolicyOption("lstm_rate", 5e-3, "Learning rate at first.", 1e-7, 1.0, needs="quality"),
    PolicyOption("lstm_decay", 1e-6, "Weight decay.", 0.0, 1.0, needs="quality"),
    PolicyOption("lstm_sequence", 500, "Jobs of a sequence (the paper: 5000).", 2, 100_000, True,
                 needs="quality"),
    PolicyOption("lstm_minibatch", 20, "Sequences of a step (the paper: 50).", 1, 10_000, True,
                 needs="quality"),
    PolicyOption("lstm_patience", 3, "Epochs without gain before training stops.", 1, 10_000, True,
                 needs="quality"),
    PolicyOption("lstm_seed", 0, "Seed of weights and minibatches.", 0, 2**31 - 1, True,
                 needs="quality"),
)  # fmt: skip

LAST_RATE = 0.05  # learning rate at the end of the last epoch, as a share of the first
MOST_GRADIENT = 1.0
EVALUATED_TOGETHER = 200  # sequences
CHECKPOINT_S, PROGRESS_S = 60.0, 5.0


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of a training, see `LSTM_KNOBS`."""

    layers: int
    units: int
    epochs: int
    rate: float
    decay: float
    sequence: int
    minibatch: int
    patience: int
    seed: int

    @classmethod
    def of(cls, knobs: Mapping[str, float]) -> "TrainingPlan":
        """Return the plan of knobs by name, with default values for the others."""
        values = {
            knob.name.removeprefix("lstm_"): knobs.get(knob.name, knob.usual) for knob in LSTM_KNOBS
        }
        return cls(
            **{  # type: ignore[arg-type]
                name: value if name in ("rate", "decay") else int(value)
                for name, value in values.items()
            }
        )


@dataclass(frozen=True, eq=False)
class TrainingSeries:
    """Inputs and observed outcomes of a network, one row for each step.

    Attributes:
        codes: int64 [n, n_inputs].
        outcome: int64 [n], token, or bin of the lifetime.
        censored: int64 [n], 1 if a job was last seen in that bin; None for tokens.
    """

    codes: Ints
    outcome: Ints
    censored: Ints | None = None


def fit_lstm_flavours(
    trace: CloudTrace,
    plan: TrainingPlan,
    half_life_days: float,
    watch: FitWatch,
    validation: CloudTrace | None = None,
) -> LstmFlavours:
    """Train a flavour network on a trace and calibrate its batch sizes.

    Args:
        trace: training data.
        plan: settings of the training.
        half_life_days: half-life of the tables that the network is compared with.
        watch: progress and checkpoint.
        validation: held-out trace after it; None holds out the last part of `trace`.

    Raises:
        WorkloadError: PyTorch is missing, or the checkpoint belongs to another training.
    """
    taught, held = (trace, validation) if validation is not None else _parted(trace)
    tokens = tokens_of(taught)
    day = days_of(tokens, taught)
    n_days = int(day[-1]) + 1
    series = TrainingSeries(flavour_codes(tokens, day, n_days), tokens.token)
    held_series = None
    if held is not None:
        held_tokens = tokens_of(held)
        last = np.full(len(held_tokens.token), n_days - 1)
        held_series = TrainingSeries(flavour_codes(held_tokens, last, n_days), held_tokens.token)
    n_flavours = len(trace.flavours)
    counts = np.bincount(tokens.token, minlength=n_flavours + 1) + 0.5
    network = train(
        "flavours", flavour_encoders(n_flavours, n_days), np.log(counts / counts.sum()), series,
        held_series, plan, watch,
    )  # fmt: skip
    model = LstmFlavours(
        network, n_days, plan.sequence, len(tokens.token) / taught.n_batches, 0.0, NO_SCORE,
        np.ones(n_flavours + 1), np.ones(n_flavours),
    )  # fmt: skip
    watch.say("LSTM, flavours: calibrating batch sizes")
    model = calibrate_ends(model, taught)
    if held is None:
        return model
    table = fit_flavours(tokens, recency(tokens, taught, half_life_days))
    held_tokens = tokens_of(held)
    at = np.arange(len(held_tokens.token)), held_tokens.token
    ours, tables = (
        float(-np.log(one.probabilities(held_tokens)[at]).mean()) for one in (model, table)
    )
    return replace(model, score=LstmScore(ours, tables))


def fit_lstm_lifetimes(trace: CloudTrace, plan: TrainingPlan, watch: FitWatch) -> LstmLifetimes:
    """Train a lifetime network on a trace.

    Raises:
        WorkloadError: lifetimes are unknown, PyTorch is missing, or the checkpoint belongs to
            another training.
    """
    checked_lifetimes(trace)
    taught, held = _parted(trace)
    day = job_days(taught)
    n_days = int(day[-1]) + 1
    series = _lifetime_series(taught, day, n_days)
    held_series = None
    if held is not None:
        last = np.full(held.n_jobs, n_days - 1)
        held_series = _lifetime_series(held, last, n_days)
    n_flavours, n_bins = len(trace.flavours), trace.bins.n
    pooled = fit_lifetimes(taught, 0).hazard[0]
    network = train(
        "lifetimes", lifetime_encoders(n_flavours, n_days, n_bins),
        np.log(pooled) - np.log1p(-pooled), series, held_series, plan, watch,
    )  # fmt: skip
    model = LstmLifetimes(network, n_flavours, n_days, plan.sequence, NO_SCORE)
    if held is None:
        return model
    ours, tables = (hazard_nll(*one.hazards(held), held) for one in (model, fit_lifetimes(taught)))
    return replace(model, score=LstmScore(ours, tables))


def hazard_nll(hazard: Floats, row: Ints, trace: CloudTrace) -> float:
    """Return the negative log-likelihood per job of hazards: that of the bins it was seen in."""
    went_on = np.cumsum(np.log1p(-hazard), axis=1)
    survived = np.concatenate([np.zeros_like(went_on[:, :1]), went_on[:, :-1]], axis=1)
    logs = survived[row, trace.lifetime]
    logs += np.where(trace.censored == 1, 0.0, np.log(hazard)[row, trace.lifetime])
    return float(-logs.mean())


def _lifetime_series(trace: CloudTrace, day: Ints, n_days: int) -> TrainingSeries:
    return TrainingSeries(lifetime_codes(trace, day, n_days), trace.lifetime, trace.censored)


def _parted(trace: CloudTrace) -> tuple[CloudTrace, CloudTrace | None]:
    parted = split_validation(trace)
    return (trace, None) if parted is None else parted


def required_torch() -> Any:
    """Import PyTorch. Raises WorkloadError with what to install if it is missing."""
    try:
        import torch
    except ImportError:
        raise WorkloadError(
            "fitting with quality 'lstm' needs PyTorch: pip install 'copperline[neural]'; a fitted "
            "model draws without it."
        ) from None
    return torch


def train(
    name: str,
    encoders: tuple[Singles, ...],
    output_bias: Floats,
    series: TrainingSeries,
    held: TrainingSeries | None,
    plan: TrainingPlan,
    watch: FitWatch,
) -> LstmNetwork:
    """Train a network on a series and return the weights that predict the held-out one best.

    Args:
        name: name of the network, for progress and checkpoint.
        encoders: features of each input's codes.
        output_bias: biases of the scores at first: float64 [n_outputs].
        series: training data.
        held: held-out data; None keeps the weights of the last epoch.
        plan: settings of the training.
        watch: progress and checkpoint.

    Raises:
        WorkloadError: PyTorch is missing, or the checkpoint belongs to another training.
    """
    torch = required_torch()
    run = _Run(torch, name, encoders, output_bias, series, held, plan, watch)
    run.resume()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are too small to share; the sums are those of any machine
    try:
        run.go()
    finally:
        torch.set_num_threads(threads)
    return run.network(encoders)


class _Run:
    """One training with its state, which a checkpoint file keeps."""

    def __init__(
        self,
        torch: Any,
        name: str,
        encoders: tuple[Singles, ...],
        output_bias: Floats,
        series: TrainingSeries,
        held: TrainingSeries | None,
        plan: TrainingPlan,
        watch: FitWatch,
    ) -> None:
        self._torch, self._name, self._plan, self._watch = torch, name, plan, watch
        self._series, self._held = series, held
        self._encoders = [torch.from_numpy(encoder) for encoder in encoders]
        width = sum(encoder.shape[1] for encoder in encoders)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(plan.seed)
            self._module = _module(torch, width, plan, len(output_bias))
        with torch.no_grad():
            self._module["output"].bias.copy_(torch.from_numpy(output_bias))
        self._optimizer = torch.optim.Adam(
            self._module.parameters(), lr=plan.rate, weight_decay=plan.decay
        )
        self._length = min(plan.sequence, len(series.outcome))
        self._place = [0, 0]  # epoch, and step in it
        self._history: list[float] = []
        self._best: dict[str, Any] | None = None
        self._done = False
        sha = hashlib.sha256(repr((name, sorted(asdict(plan).items()))).encode())
        for one in (series, held):
            if one is not None:
                sha.update(one.codes.tobytes())
                sha.update(one.outcome.tobytes())
        self._fingerprint = sha.hexdigest()

    @property
    def _steps(self) -> int:
        """Number of steps of an epoch."""
        return max(1, -(-(len(self._series.outcome) // self._length) // self._plan.minibatch))

    def go(self) -> None:
        """Train until the last epoch, or until nothing has improved for some epochs."""
        began, kept_s, said_s = time.monotonic(), time.monotonic(), -PROGRESS_S
        first = self._place[0] * self._steps + self._place[1]
        total = self._plan.epochs * self._steps
        while not self._done:
            epoch, step = self._place
            starts = self._starts(epoch)
            self._step(starts[step :: self._steps], epoch * self._steps + step)
            self._place = [epoch, step + 1]
            now = time.monotonic()
            if now - said_s >= PROGRESS_S:
                taken = epoch * self._steps + step + 1
                left_s = (now - began) / max(1, taken - first) * (total - taken)
                self._watch.say(self._words(epoch, taken / total, left_s))
                said_s = now
            is_last = step + 1 == self._steps
            if is_last:
                self._end_epoch()
            if is_last or now - kept_s >= CHECKPOINT_S:
                self._keep()
                kept_s = now

    def _words(self, epoch: int, share: float, left_s: float) -> str:
        nll = f", held-out NLL {min(self._history):.4f}" if self._history else ""
        return (
            f"LSTM, {self._name}: epoch {epoch + 1} of {self._plan.epochs}, {share:.0%}{nll}, at "
            f"most {left_s / 60:.1f} min left"
        )

    def _starts(self, epoch: int) -> Ints:
        """Return the first rows of the sequences of an epoch, in random order."""
        rng = np.random.default_rng([self._plan.seed, epoch])
        n, length = len(self._series.outcome), self._length
        starts = rng.integers(0, n % length + 1) + np.arange(n // length) * length
        return rng.permutation(starts)

    def _step(self, starts: Ints, number: int) -> None:
        torch, plan = self._torch, self._plan
        share = number / max(1, plan.epochs * self._steps - 1)
        for group in self._optimizer.param_groups:
            group["lr"] = plan.rate * (1.0 - (1.0 - LAST_RATE) * share)
        rows = starts[:, None] + np.arange(self._length)
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._series, rows) / rows.size
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._module.parameters(), MOST_GRADIENT)
        self._optimizer.step()

    def _loss(self, series: TrainingSeries, rows: Ints) -> Any:
        """Return the negative log-likelihood of rows, int64 [n_sequences, length], as a sum."""
        torch = self._torch
        codes = torch.from_numpy(series.codes[rows])
        features = torch.cat(
            [encoder[codes[..., place]] for place, encoder in enumerate(self._encoders)], dim=-1
        )
        scores = self._module["output"](self._module["lstm"](features)[0])
        outcome = torch.from_numpy(series.outcome[rows])
        if series.censored is None:
            return torch.nn.functional.cross_entropy(
                scores.flatten(0, 1), outcome.flatten(), reduction="sum"
            )
        bins = torch.arange(scores.shape[-1])
        ended = torch.from_numpy(1 - series.censored[rows])[..., None]
        happened = (bins == outcome[..., None]) & (ended == 1)
        at_risk = (bins < outcome[..., None]) | happened
        return torch.nn.functional.binary_cross_entropy_with_logits(
            scores, happened.float(), weight=at_risk.float(), reduction="sum"
        )

    def _end_epoch(self) -> None:
        self._place = [self._place[0] + 1, 0]
        is_last = self._place[0] == self._plan.epochs
        if self._held is None:
            self._done = is_last
            return
        self._history.append(self._held_out_nll(self._held))
        best = int(np.argmin(self._history))
        if best == len(self._history) - 1:
            self._best = {
                name: weights.clone() for name, weights in self._module.state_dict().items()
            }
        self._done = is_last or len(self._history) - 1 - best >= self._plan.patience

    def _held_out_nll(self, held: TrainingSeries) -> float:
        n, length = len(held.outcome), min(self._length, len(held.outcome))
        total = 0.0
        with self._torch.no_grad():
            starts = np.arange(n // length) * length
            for begin in range(0, len(starts), EVALUATED_TOGETHER):
                rows = starts[begin : begin + EVALUATED_TOGETHER, None] + np.arange(length)
                total += float(self._loss(held, rows))
            if n % length:
                total += float(self._loss(held, np.arange(n - n % length, n)[None]))
        return total / n

    def network(self, encoders: tuple[Singles, ...]) -> LstmNetwork:
        """Return the best weights as a network for NumPy."""
        weights = self._module.state_dict() if self._best is None else self._best
        return network_of(weights, encoders, self._plan.layers)

    def _keep(self) -> None:
        path = self._watch.checkpoint
        if path is None:
            return
        kept = _kept_states(self._torch, path)
        kept[self._name] = {
            "fingerprint": self._fingerprint, "place": self._place, "history": self._history,
            "done": self._done, "module": self._module.state_dict(),
            "optimizer": self._optimizer.state_dict(), "best": self._best,
        }  # fmt: skip
        packed = io.BytesIO()
        self._torch.save(kept, packed)
        write_atomically(path, packed.getvalue(), raises=WorkloadError, parents=True)

    def resume(self) -> None:
        """Continue from the checkpoint file, if it has this training."""
        path = self._watch.checkpoint
        state = None if path is None else _kept_states(self._torch, path).get(self._name)
        if state is None:
            return
        if state["fingerprint"] != self._fingerprint:
            raise WorkloadError(
                f"{path}: this checkpoint belongs to another log or other knobs; give another file."
            )
        self._place, self._history = state["place"], state["history"]
        self._done, self._best = state["done"], state["best"]
        self._module.load_state_dict(state["module"])
        self._optimizer.load_state_dict(state["optimizer"])


def _module(torch: Any, width: int, plan: TrainingPlan, n_outputs: int) -> Any:
    lstm = torch.nn.LSTM(width, plan.units, plan.layers, batch_first=True)
    with torch.no_grad():  # a cell that forgets nothing at first learns long dependencies sooner
        for layer in range(plan.layers):
            getattr(lstm, f"bias_ih_l{layer}")[plan.units : 2 * plan.units] += 1.0
    return torch.nn.ModuleDict({"lstm": lstm, "output": torch.nn.Linear(plan.units, n_outputs)})


def network_of(
    weights: Mapping[str, Any], encoders: tuple[Singles, ...], n_layers: int
) -> LstmNetwork:
    """Convert the weights of a trained module to a network for NumPy."""
    arrays = {name: tensor.numpy().astype(np.float32) for name, tensor in weights.items()}
    layers = range(n_layers)
    return LstmNetwork(
        encoders=encoders,
        inputs=tuple(arrays[f"lstm.weight_ih_l{layer}"] for layer in layers),
        recurrent=tuple(arrays[f"lstm.weight_hh_l{layer}"] for layer in layers),
        biases=tuple(
            arrays[f"lstm.bias_ih_l{layer}"] + arrays[f"lstm.bias_hh_l{layer}"] for layer in layers
        ),
        output=arrays["output.weight"],
        output_bias=arrays["output.bias"],
    )


def _kept_states(torch: Any, path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the library raises many kinds for a file that is none of its own
        raise WorkloadError(
            f"{path}: this is not a checkpoint of a training ({type(error).__name__}); give "
            "another file."
        ) from None
    if not isinstance(kept, dict):
        raise WorkloadError(f"{path}: this is not a checkpoint of a training; give another file.")
    return kept
