"""How well the workloads of a cloud are foreseen and generated, beside the paper's own figures.

``python -m benchmarks.cloud --azure DIR`` (the split of AzurePublicDatasetV1 that Bergsma et al.
published with their paper) fits the stages to the training window and measures them on the test
window. Their file of training lifetimes is not to be had, so lifetimes are learnt from the
development window, which is a fifth of theirs:

* arrivals: share of the periods whose number of batches lies in a 90 % interval (section 5.1);
* flavours: likelihood and error of the next flavour or end of batch (Table 2);
* lifetimes: likelihood and errors of bins (Table 3), the honest error and the paper's;
* demand: the band that 90 % of generated windows keep the cores in (figure 7), and how far the
  distances of reuse are from the real ones (figure 9);
* speed: jobs generated per CPU second, one core; with all what-ifs beside.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from sim.model.batches import CloudTrace
from sim.traces.bergsma import read_bergsma, read_flavours
from sim.workloads.cloud.arrivals import coverage, fit_arrivals
from sim.workloads.cloud.batching import Examples
from sim.workloads.cloud.demand import band_of, cores_in_use
from sim.workloads.cloud.flavours import fit_flavours, recency, tokens_of
from sim.workloads.cloud.lifetimes import fit_lifetimes
from sim.workloads.cloud.scores import (
    FlavourScore,
    LifetimeScore,
    baseline_flavours,
    repeat_lifetime_error,
    reuse_distances,
    score_coin_flip,
    score_flavours,
    score_lifetimes,
    total_variation,
)
from sim.workloads.cloud.three_stage import KNOBS, draw_batches, fit_batches
from sim.workloads.streams import Streams

PARTS = ("arrivals", "flavours", "lifetimes", "demand", "speed")
GENERATORS = ("naive", "simple_batch", "three_stage")
TILTED = "three_stage, every what-if"
TILTS = {
    "end_odds": 0.8, "cores_tilt": 0.5, "memory_tilt": 0.2, "ending_rate": 0.7, "weekend_load": 1.5,
}  # fmt: skip
SEED = 2021
HALF_LIFE_DAYS = 7.0
N_WINDOWS, QUICK_WINDOWS = 200, 5

PAPER_FLAVOURS = {
    "Uniform": "2.83 / 93.9 %", "Multinomial": "1.58 / 54.7 %", "RepeatFlav": "- / 29.7 %",
    "tables": "0.65 / 25.7 % (LSTM)",
}  # fmt: skip
PAPER_LIFETIMES = {
    "CoinFlip": ".693 / 97.1 %", "Overall KM": ".277 / 73.8 %", "Per-flavour KM": ".270 / 71.5 %",
    "RepeatLifetime": "- / 43.4 %", "tables": ".127 / 27.8 % (LSTM)",
}  # fmt: skip
PAPER_DEMAND = {"naive": "0 %", "simple_batch": "88 %", "three_stage": "83 % (LSTM)"}


def main() -> None:
    """Measure what was asked for and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--azure", type=Path, required=True, metavar="DIR")
    options.add_argument("--part", choices=PARTS, action="append", help="all of them if not given")
    chosen = options.parse_args()
    record = Record("cloud", chosen, [SEED], free=("part",))
    train, dev, test = _windows(chosen.azure)
    if chosen.quick:
        train, dev, test = (_head(trace, 600) for trace in (train, dev, test))
    for part in chosen.part or PARTS:
        if part == "arrivals":
            _arrivals(record, train, test)
        elif part == "flavours":
            _flavours(record, train, dev, test)
        elif part == "lifetimes":
            _lifetimes(record, dev, test)
        elif part == "demand":
            _demand(record, train, dev, test, QUICK_WINDOWS if chosen.quick else N_WINDOWS)
        else:
            _speed(record, train, dev)
    record.write()


def _windows(folder: Path) -> tuple[CloudTrace, CloudTrace, CloudTrace]:
    flavours = read_flavours(folder / "flav_map.txt")
    return (
        read_bergsma(folder / "v1.train.txt.gz", flavours),
        read_bergsma(folder / "v1.dev.txt.gz", flavours, folder / "v1.dev.c2100000.txt.gz"),
        read_bergsma(folder / "v1.test.txt.gz", flavours, folder / "v1.test.c2591400.txt.gz"),
    )


def _head(trace: CloudTrace, n_periods: int) -> CloudTrace:
    return trace.part(trace.first_period, trace.first_period + n_periods)


def _arrivals(record: Record, train: CloudTrace, test: CloudTrace) -> None:
    laws = (
        ("batches, Poisson, the last day", "56.5 %", False, True, False, 1.0),
        ("batches, Poisson, days drawn", "82.5 %", False, True, False, 1 / 7),
        ("batches, negative binomial, days drawn", "", False, True, True, 1 / 7),
        ("jobs, Poisson, no days", "18 %", True, False, False, 1 / 7),
        ("jobs, Poisson, days drawn", "51.4 %", True, True, False, 1 / 7),
    )

    def measured() -> dict[str, Any]:
        told = {}
        for name, _, by_job, with_history, overdispersed, back in laws:
            counts = [
                t.jobs_by_period() if by_job else t.batches_by_period() for t in (train, test)
            ]
            law = fit_arrivals(
                counts[0], train.first_period, train.period_s, penalty=1e-3, back=back,
                with_history=with_history, overdispersed=overdispersed,
            )  # fmt: skip
            inside, width = coverage(
                law, counts[1], test.first_period, test.period_s, np.random.default_rng(SEED)
            )
            told[name] = {"inside": inside, "width": width}
        return told

    found = record.step("arrivals", measured)
    rows = []
    for name, paper, *_ in laws:
        one = found[name]
        rows.append([name, f"{one['inside']:.1%}", f"{one['width']:.1f}", paper])
        record.figure(f"coverage, {name}", one["inside"])
    table(["arrivals in 90 % intervals", "inside", "mean width", "paper"], rows)


def _flavours(record: Record, train: CloudTrace, dev: CloudTrace, test: CloudTrace) -> None:
    def measured() -> dict[str, Any]:
        taught, tokens = tokens_of(train), tokens_of(test)
        scores = baseline_flavours(taught, tokens)
        began = time.process_time()
        fitted = fit_flavours(tokens_of(train))
        fit_s = time.process_time() - began
        scores["tables"] = score_flavours(fitted, tokens)
        recent = fit_flavours(taught, recency(taught, train, HALF_LIFE_DAYS))
        scores["tables, a week counts half"] = score_flavours(recent, tokens)
        known = train.joined(dev)
        taught = tokens_of(known)
        both = fit_flavours(taught, recency(taught, known, HALF_LIFE_DAYS))
        scores["tables, a week counts half, train and dev"] = score_flavours(both, tokens)
        return {name: vars(one) for name, one in scores.items()} | {"fit_s": fit_s}

    found = record.step("flavours", measured)
    rows = []
    for name, one in found.items():
        if name == "fit_s":
            continue
        told = FlavourScore(**one)
        rows.append([name, _number(told.nll), f"{told.error:.2%}", PAPER_FLAVOURS.get(name, "")])
        record.figure(f"flavours, {name}, NLL", told.nll)
        record.figure(f"flavours, {name}, error", told.error)
    record.figure("flavours, fit (CPU s)", found["fit_s"])
    table(["next flavour", "NLL", "error", "paper, NLL / error"], rows)


def _lifetimes(record: Record, dev: CloudTrace, test: CloudTrace) -> None:
    def measured() -> dict[str, Any]:
        pooled = fit_lifetimes(dev, 0)
        began = time.process_time()
        full = fit_lifetimes(dev)
        fit_s = time.process_time() - began
        scores = {
            "CoinFlip": score_coin_flip(test),
            "Overall KM": score_lifetimes(pooled, test),
            "Per-flavour KM": score_lifetimes(fit_lifetimes(dev, 1), test),
            "tables": score_lifetimes(full, test),
        }
        told: dict[str, Any] = {name: vars(one) for name, one in scores.items()}
        return told | {"repeat": repeat_lifetime_error(pooled, test), "fit_s": fit_s}

    found = record.step("lifetimes", measured)
    rows = []
    for name in ("CoinFlip", "Overall KM", "Per-flavour KM", "RepeatLifetime", "tables"):
        paper = PAPER_LIFETIMES[name]
        if name == "RepeatLifetime":
            rows.append([name, "-", "-", f"{found['repeat']:.2%}", "-", paper])
            continue
        told = LifetimeScore(**found[name])
        rows.append(
            [name, f"{told.bce:.4f}", f"{told.nll:.3f}", f"{told.error:.2%}",
             f"{told.masked_error:.2%}", paper]
        )  # fmt: skip
        record.figure(f"lifetimes, {name}, BCE", told.bce)
        record.figure(f"lifetimes, {name}, honest error", told.error)
    record.figure("lifetimes, RepeatLifetime, error", found["repeat"])
    record.figure("lifetimes, fit (CPU s)", found["fit_s"])
    table(
        ["bin of the lifetime", "BCE", "NLL per job", "error", "error as the authors count it",
         "paper, BCE / error"],
        rows,
    )  # fmt: skip


def _demand(
    record: Record, train: CloudTrace, dev: CloudTrace, test: CloudTrace, n_windows: int
) -> None:
    real = cores_in_use(test, np.random.default_rng(SEED))
    distances = reuse_distances(test.flavour, len(test.flavours))

    def measured(name: str) -> dict[str, Any]:
        model = _fitted(name, train, dev)
        cores, reuse, jobs = [], np.zeros(len(test.flavours)), 0
        for seed in range(n_windows):
            streams = Streams(SEED + seed)
            drawn = draw_batches(model, test.first_period, test.n_periods, streams)
            assert drawn is not None, "a window of a cloud has jobs"
            cores.append(cores_in_use(drawn, streams.of("lifetime_s")))
            reuse += reuse_distances(drawn.flavour, len(test.flavours)) / n_windows
            jobs += drawn.n_jobs
        band = band_of(cores)
        return {
            "jobs": jobs / n_windows, "inside": band.covers(real), "width": band.mean_width,
            "score": band.interval_score(real), "reuse": total_variation(reuse, distances),
        }  # fmt: skip

    rows = [["real", f"{test.n_jobs:,}", "", "", "", "", ""]]
    for name in GENERATORS:
        one = record.step(f"demand of {name}", lambda name=name: measured(name))  # type: ignore[misc]
        rows.append(
            [name, f"{one['jobs']:,.0f}", f"{one['inside']:.1%}", f"{one['width']:,.0f}",
             f"{one['score']:,.0f}", f"{one['reuse']:.3f}", PAPER_DEMAND[name]]
        )  # fmt: skip
        record.figure(f"demand, {name}, inside", one["inside"])
        record.figure(f"demand, {name}, width (cores)", one["width"])
        record.figure(f"demand, {name}, interval score", one["score"])
        record.figure(f"reuse distance, {name}, total variation", one["reuse"])
    table(
        [f"cores in use, {n_windows} windows", "jobs", "inside the 90 % band", "mean width",
         "interval score", "reuse, total variation", "paper, inside"],
        rows,
    )  # fmt: skip


def _speed(record: Record, train: CloudTrace, dev: CloudTrace) -> None:
    def measured(name: str) -> dict[str, Any]:
        model = _fitted(name.split(",", maxsplit=1)[0], train, dev)
        if name == TILTED:
            model = model.told(TILTS)
        best = 0.0
        for seed in range(3):
            began = time.process_time()
            drawn = draw_batches(model, train.first_period, train.n_periods, Streams(seed))
            spent_s = time.process_time() - began
            best = max(best, 0.0 if drawn is None else drawn.n_jobs / spent_s)
        return {"jobs_per_s": best}

    rows = []
    for name in (*GENERATORS, TILTED):
        one = record.step(f"speed of {name}", lambda name=name: measured(name))  # type: ignore[misc]
        rows.append([name, f"{one['jobs_per_s']:,.0f}"])
        record.figure(f"speed of {name} (jobs per CPU s)", one["jobs_per_s"])
    table(["generator", "jobs per CPU second"], rows)


def _fitted(name: str, train: CloudTrace, dev: CloudTrace) -> Any:
    n = len(train.flavours)
    cores = np.array([max(one.mcpu // 1000, 1) for one in train.flavours])
    memory = np.array([one.mem_bytes for one in train.flavours])
    examples = Examples(np.arange(n + 1), cores, np.full(n, 2_592_000.0), memory // cores)
    knobs = {knob.name: knob.usual for knob in KNOBS}
    return fit_batches(name, train, examples, knobs, of="Azure, training window", lived=dev)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"


if __name__ == "__main__":
    guarded(main)
