"""How well LSTM networks foresee and generate a cloud's workload, beside tables, mix and trees.

``python -m benchmarks.cloud_lstm --azure DIR --model FILE`` (see `benchmarks.cloud` for the data)
trains both networks of Bergsma et al. (SOSP 2021) with PyTorch (extra ``neural``), keeps them in
FILE (.json), and measures them on the test window beside the other qualities of `three_stage` and
the paper's figures. Flavours are learnt from the training window, with the development window held
out for early stopping; lifetimes from the development window, whose last part is held out.

The usual size (2 layers of 100 units, few epochs) is one for a processor; ``--units 200
--sequence 5000 --minibatch 50`` and more epochs are the paper's, for whoever has the time. Training
resumes from a checkpoint beside FILE. Without ``--model`` nothing is kept. ``--quick`` trains next
to nothing, and without PyTorch draws the weights at random, to show that the rest runs.
"""

import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cloud import _fitted, _head, _windows, demand_of
from benchmarks.cloud_packing import _cells, _packed, _told
from benchmarks.harness import Record, guarded, parser, table
from sim.generators.cloud.flavour_models import fit_mix, split_validation
from sim.generators.cloud.flavours import fit_flavours, hours_of, recency, tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes, fit_trees
from sim.generators.cloud.lstm import (
    NO_SCORE,
    LstmFlavours,
    LstmLifetimes,
    LstmNetwork,
    calibrate_ends,
    flavour_encoders,
    lifetime_encoders,
)
from sim.generators.cloud.lstm_training import (
    TrainingPlan,
    fit_lstm_flavours,
    fit_lstm_lifetimes,
)
from sim.generators.cloud.model_parts import (
    encode_flavours,
    encode_parts,
    model_parts_of,
    next_flavour_of,
)
from sim.generators.cloud.packing import draw_tuples, requests_of_trace
from sim.generators.cloud.scores import score_flavours, score_lifetimes
from sim.generators.cloud.three_stage import FOR_ALL, FOR_BATCHES, draw_batches
from sim.generators.generator import FitWatch, Model, RandomStreams, load_model, save_model
from sim.model.cloud_trace import CloudTrace

SEED, HALF_LIFE_DAYS = 2021, 7.0
N_WINDOWS, N_TUPLES, N_PACKED_WINDOWS = 20, 500, 10
PAPER_FLAVOURS = "0.65 / 25.7 %"
PAPER_LIFETIMES = ".127 / 27.8 %"
PAPER_DEMAND, PAPER_PACKING = "83 %", "95.4 / 53.5"
ENDS = {"to 30 min": (0, 6), "to 4 h": (6, 15), "to 24 h": (15, 35), "longer": (35, 47)}
SURVIVED = {1: 11, 4: 14}
"""Bins of lifetimes by what they end at: half an hour, hours."""

N_DRIFT = 60_000
SPEEDS = {"one trace": (1, 3000), "256 traces": (256, 128_000)}
"""Sequences that advance together, and tokens of all of them."""


def main() -> None:
    """Train, measure, and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--azure", type=Path, required=True, metavar="DIR")
    options.add_argument("--model", type=Path, metavar="FILE", help="where the networks are kept")
    options.add_argument("--units", type=int, default=100)
    options.add_argument("--sequence", type=int, default=500)
    options.add_argument("--minibatch", type=int, default=20)
    options.add_argument("--rate", type=float, default=5e-3)
    options.add_argument("--flavour-epochs", type=int, default=4)
    options.add_argument("--lifetime-epochs", type=int, default=12)
    options.add_argument("--windows", type=int, default=N_WINDOWS)
    chosen = options.parse_args()
    record = Record("cloud_lstm", chosen, [SEED], free=("model",))
    train, dev, test = _windows(chosen.azure)
    if chosen.quick:
        train, dev, test = (_head(trace, 300) for trace in (train, dev, test))
        chosen.units, chosen.flavour_epochs, chosen.lifetime_epochs, chosen.windows = 8, 1, 1, 2
    model = _trained(record, chosen, train, dev)
    _flavours(record, model, train, dev, test)
    _lifetimes(record, model, dev, test)
    _drift(record, model, dev, test)
    _demand(record, model, chosen.windows, (train, dev, test))
    _packing(record, model, chosen.quick, (train, dev, test))
    _speed(record, model)
    record.write()


def _trained(record: Record, chosen: Any, train: CloudTrace, dev: CloudTrace) -> Model:
    """Return the model of both networks, trained now or kept from before."""
    path: Path | None = chosen.model
    if path is not None and path.exists() and "training" in record.body["steps"]:
        return load_model(path)
    checkpoint = None if path is None else path.with_suffix(".checkpoint")
    watch = FitWatch(lambda words: print(words, file=sys.stderr, flush=True), checkpoint)
    plan = TrainingPlan(
        layers=2, units=chosen.units, epochs=chosen.flavour_epochs, rate=chosen.rate, decay=1e-6,
        sequence=chosen.sequence, minibatch=chosen.minibatch, patience=3, seed=SEED,
    )  # fmt: skip
    began = time.process_time()
    if chosen.quick and find_spec("torch") is None:
        flavours, lifetimes = _untrained(train, dev)
        flavours_s = 0.0
    else:
        flavours = fit_lstm_flavours(train, plan, HALF_LIFE_DAYS, watch, validation=dev)
        flavours_s = time.process_time() - began
        lifetimes = fit_lstm_lifetimes(dev, replace(plan, epochs=chosen.lifetime_epochs), watch)
    base = _fitted("three_stage, tables", train, dev)
    parameters, arrays = encode_parts(replace(model_parts_of(base), lifetimes=lifetimes))
    of_flavours, more = encode_flavours(flavours)
    parameters |= {"quality": "lstm", **FOR_ALL, **FOR_BATCHES, **of_flavours}
    model = Model("three_stage", parameters, arrays | more, "Azure, training window, LSTM")
    if path is not None:
        save_model(model, path)
    spent_s = time.process_time() - began
    told = record.step(
        "training",
        lambda: {"flavours_s": flavours_s, "lifetimes_s": spent_s - flavours_s,
                 **{f"flavours, {k}": v for k, v in vars(flavours.score).items()},
                 **{f"lifetimes, {k}": v for k, v in vars(lifetimes.score).items()},
                 "end_bias": flavours.end_bias},
    )  # fmt: skip
    record.figure("training, flavours (CPU s)", told["flavours_s"])
    record.figure("training, lifetimes (CPU s)", told["lifetimes_s"])
    record.figure("bias of the end of a batch", told["end_bias"])
    return model


def _untrained(train: CloudTrace, dev: CloudTrace) -> tuple[LstmFlavours, LstmLifetimes]:
    n, n_bins = len(train.flavours), dev.bins.n
    flavours = LstmFlavours(
        random_network(flavour_encoders(n, 2), 8, n + 1), 2, 500, 6.0, 0.0, NO_SCORE,
        np.ones(n + 1), np.ones(n),
    )  # fmt: skip
    lifetimes = LstmLifetimes(
        random_network(lifetime_encoders(n, 2, n_bins), 8, n_bins), n, 2, 500, NO_SCORE
    )
    return calibrate_ends(flavours, train), lifetimes


def random_network(encoders: Any, units: int, n_outputs: int) -> LstmNetwork:
    """Return a network of two layers with small random weights."""
    rng = np.random.default_rng(SEED)

    def weights(*shape: int) -> Any:
        return rng.normal(0.0, 0.1, shape).astype(np.float32)

    widths = (sum(encoder.shape[1] for encoder in encoders), units)
    return LstmNetwork(
        encoders, tuple(weights(4 * units, width) for width in widths),
        tuple(weights(4 * units, units) for _ in widths), tuple(weights(4 * units) for _ in widths),
        weights(n_outputs, units), weights(n_outputs),
    )  # fmt: skip


def _flavours_of(model: Model) -> LstmFlavours:
    ground = model_parts_of(model)
    made = next_flavour_of(model, len(ground.flavours), ground.arrivals.n_days)
    assert isinstance(made, LstmFlavours)
    return made


def _flavours(
    record: Record, model: Model, train: CloudTrace, dev: CloudTrace, test: CloudTrace
) -> None:
    tokens, taught = tokens_of(test), tokens_of(train)
    recent = fit_flavours(taught, recency(taught, train, HALF_LIFE_DAYS))
    lstm = _flavours_of(model)
    models = {
        "tables, a week counts half": lambda: recent,
        "mix": lambda: fit_mix(train, recent, HALF_LIFE_DAYS, dev),
        "lstm": lambda: lstm,
        "lstm, ends not calibrated": lambda: replace(lstm, end_bias=0.0),
    }
    rows = []
    for name, made in models.items():
        one = record.step(
            f"flavours, {name}", lambda made=made: _plain(vars(score_flavours(made(), tokens)))
        )  # type: ignore[misc]
        paper = PAPER_FLAVOURS if name == "lstm" else ""
        rows.append([name, f"{one['nll']:.4f}", f"{one['error']:.2%}", paper])
        record.figure(f"flavours, {name}, NLL", one["nll"])
    table(["next flavour, networks", "NLL", "error", "paper, NLL / error"], rows)


def _lifetimes(record: Record, model: Model, dev: CloudTrace, test: CloudTrace) -> None:
    models = {
        "tables": lambda: fit_lifetimes(dev),
        "trees": lambda: fit_trees(dev),
        "lstm": lambda: model_parts_of(model).lifetimes,
    }
    rows = []
    for name, made in models.items():
        one = record.step(
            f"lifetimes, {name}", lambda made=made: _plain(vars(score_lifetimes(made(), test)))
        )  # type: ignore[misc]
        paper = PAPER_LIFETIMES if name == "lstm" else ""
        rows.append(
            [name, f"{one['bce']:.4f}", f"{one['nll']:.3f}", f"{one['error']:.2%}",
             f"{one['masked_error']:.2%}", paper]
        )  # fmt: skip
        record.figure(f"lifetimes, {name}, BCE", one["bce"])
    table(
        ["bin of the lifetime, networks", "BCE", "NLL per job", "error",
         "error as the authors count it", "paper, BCE / error"],
        rows,
    )  # fmt: skip


def _drift(record: Record, model: Model, dev: CloudTrace, test: CloudTrace) -> None:
    """Compare ends that the lifetime network expects with those observed, and what it draws.

    Expected ends are sums of hazards, given the real history, over the bins that jobs were seen in.
    """
    network = model_parts_of(model).lifetimes
    assert isinstance(network, LstmLifetimes)
    parted = split_validation(dev)
    assert parted is not None, "the development window has periods to hold out"
    held = parted[1]
    rows = []
    for name, trace in {"held out of dev": held, "test": _first_jobs(test, N_DRIFT)}.items():
        told = record.step(f"ends of lifetimes, {name}", lambda t=trace: _ends(network, t))  # type: ignore[misc]
        rows += [
            [name, which, *(f"{told[f'{which}, {band}']:.2f}" for band in ENDS)]
            for which in ("first", "later")
        ]
    table(["expected over observed ends, networks", "job of its batch", *ENDS], rows)
    rows = []
    told = record.step("survival of lifetimes", lambda: _survival_drawn(network, held))
    for name in ("Kaplan and Meier", "real history", "own history"):
        rows.append([name, *(f"{told[f'{name}, {hours} h']:.3f}" for hours in SURVIVED)])
        record.figure(f"survival, {name}, 1 h", told[f"{name}, 1 h"])
    table(["alive after, networks", *(f"{hours} h" for hours in SURVIVED)], rows)


def _first_jobs(trace: CloudTrace, n: int) -> CloudTrace:
    """Return the periods of a trace with about its first `n` jobs."""
    last = trace.period[min(n, trace.n_jobs) - 1]
    return _head(trace, int(last - trace.first_period) + 1)


def _at_risk(trace: CloudTrace) -> tuple[Any, Any]:
    """Return in which bins jobs were seen, and in which they ended: bool [n_jobs, n_bins]."""
    bins, lifetime = np.arange(trace.bins.n), trace.lifetime[:, None]
    ended = (bins == lifetime) & (trace.censored == 0)[:, None]
    return (bins < lifetime) | ended, ended


def _ends(network: LstmLifetimes, trace: CloudTrace) -> dict[str, float]:
    hazard, _ = network.hazards(trace)
    at_risk, ended = _at_risk(trace)
    first, found = trace.first_in_batch, {}
    for which, rows in (("first", first), ("later", ~first)):
        for band, (low, high) in ENDS.items():
            expected = float((hazard * at_risk)[rows, low:high].sum())
            found[f"{which}, {band}"] = expected / max(int(ended[rows, low:high].sum()), 1)
    return found


def _survival_drawn(network: LstmLifetimes, trace: CloudTrace) -> dict[str, float]:
    at_risk, ended = _at_risk(trace)
    n_at_risk = np.maximum(at_risk.sum(axis=0), 1)
    hazard, _ = network.hazards(trace)
    hour = hours_of(trace.period[trace.first_in_batch], trace.period_s)
    drawn = network.draw(
        trace.flavour, trace.batch - trace.batch[0], len(trace.flavours),
        np.random.default_rng(SEED), None, hour,
    )  # fmt: skip
    shares = np.bincount(drawn, minlength=trace.bins.n) / len(drawn)
    alive = {
        "Kaplan and Meier": np.cumprod(1.0 - ended.sum(axis=0) / n_at_risk),
        "real history": np.cumprod(1.0 - hazard, axis=1).mean(axis=0),
        "own history": 1.0 - np.cumsum(shares),
    }
    return {
        f"{name}, {hours} h": float(of[bin_])
        for name, of in alive.items() for hours, bin_ in SURVIVED.items()
    }  # fmt: skip


Windows = tuple[CloudTrace, CloudTrace, CloudTrace]


def _demand(record: Record, model: Model, n_windows: int, traces: Windows) -> None:
    train, dev, test = traces
    rows = [["real", "", f"{test.n_jobs:,}", "", "", "", "", ""]]
    for name in ("tables", "lstm"):
        one = record.step(
            f"demand of {name}",
            lambda name=name: demand_of(  # type: ignore[misc]
                model if name == "lstm" else _fitted("three_stage, tables", train, dev),
                test, n_windows,
            ),
        )  # fmt: skip
        rows.append(
            [name, f"{one['windows']}", f"{one['jobs']:,.0f}", f"{one['inside']:.1%}",
             f"{one['width']:,.0f}", f"{one['score']:,.0f}", f"{one['reuse']:.3f}",
             PAPER_DEMAND if name == "lstm" else ""]
        )  # fmt: skip
        record.figure(f"demand, {name}, inside", one["inside"])
    table(
        ["cores in use, networks", "windows", "jobs", "inside the 90 % band", "mean width",
         "interval score", "reuse, total variation", "paper, inside"],
        rows,
    )  # fmt: skip


def _packing(record: Record, model: Model, quick: bool, traces: Windows) -> None:
    train, dev, test = traces
    tuples = draw_tuples(24 if quick else N_TUPLES, SEED)
    n_windows = 2 if quick else N_PACKED_WINDOWS

    def drawn(made: Model) -> dict[str, Any]:
        whole: dict[str, list[Any]] = {
            "cpu": [None] * len(tuples), "memory": [None] * len(tuples),
            "algorithm": [one.algorithm for one in tuples],
        }  # fmt: skip
        for window in range(n_windows):
            streams = RandomStreams(SEED + window)
            trace = draw_batches(made, test.first_period, test.n_periods, streams)
            assert trace is not None, "a window of a cloud has jobs"
            requests = requests_of_trace(trace, streams.of("lifetime_s"), "window")
            some = _packed(requests, tuples[window::n_windows], True)
            for column in ("cpu", "memory"):
                whole[column][window::n_windows] = some[column]
        return whole

    real = requests_of_trace(test, np.random.default_rng(SEED))
    measured = {
        "real": lambda: _packed(real, tuples, True),
        "tables": lambda: drawn(_fitted("three_stage, tables", train, dev)),
        "lstm": lambda: drawn(model),
    }
    rows = []
    for name, packed in measured.items():
        told = _told(record.step(f"packing of {name}", packed)).of(None)
        paper = PAPER_PACKING if name == "lstm" else ""
        rows.append([name, *_cells(told), f"{told.n_failed}", paper])
    table(
        ["first failure, networks", "median", "above 95 %", "cores limit", "packings",
         "paper, median / above"],
        rows,
    )  # fmt: skip


def _speed(record: Record, model: Model) -> None:
    trained = _flavours_of(model)
    n = trained.end
    network = random_network(flavour_encoders(n, trained.n_days), 200, n + 1)
    paper = replace(trained, network=network, tokens_per_batch=float(n), end_bias=0.0)
    rows = []
    for name, one in {"as trained": trained, "2 layers of 200 units": paper}.items():
        cells = [name]
        for how, (n_sequences, n_tokens) in SPEEDS.items():
            told = record.step(
                f"speed, {name}, {how}",
                lambda one=one, n=n_sequences, most=n_tokens: _tokens_per_s(one, n, most),  # type: ignore[misc]
            )
            cells.append(f"{told['tokens_per_s']:,.0f}")
            record.figure(f"speed, {name}, {how} (tokens per CPU s)", told["tokens_per_s"])
        rows.append(cells)
    table(["tokens per CPU second", *SPEEDS], rows)


def _tokens_per_s(model: LstmFlavours, n_sequences: int, n_tokens: int) -> dict[str, float]:
    """Return the speed of drawing flavours, ends of batches counted; the better of two."""
    n_batches = max(n_sequences, int(n_tokens / model.tokens_per_batch))
    first = np.arange(n_sequences) * (n_batches // n_sequences)
    hour, best = np.zeros(n_batches, dtype=np.int64), 0.0
    for _ in range(2):
        began = time.process_time()
        flavour, _ = model.draw_sequences(
            first, n_batches, np.random.default_rng(SEED), None, hour, 10 * n_tokens + 10_000
        )
        spent_s = time.process_time() - began
        best = max(best, (len(flavour) + n_batches) / spent_s)
    return {"tokens_per_s": best}


def _plain(told: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in told.items()}


if __name__ == "__main__":
    guarded(main)
