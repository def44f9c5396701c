"""How well the workloads of a cloud are foreseen and generated, beside the paper's own figures.

``python -m benchmarks.cloud --azure DIR`` (the split of AzurePublicDatasetV1 that Bergsma et al.
published with their paper) fits the stages to the training window and measures them on the test
window. Their file of training lifetimes is not to be had, so lifetimes are learnt from the
development window, which is a fifth of theirs:

* arrivals: share of the periods whose number of batches lies in a 90 % interval (section 5.1);
* flavours: likelihood and error of the next flavour or end of batch (Table 2);
* lifetimes: likelihood and errors of bins (Table 3), the honest error and the paper's;
* survival: Survival-MSE over continuous time (Table 4). The files tell bins alone, so true
  lifetimes are spread evenly within theirs, and what needs seconds is left out;
* demand: the band that 90 % of generated windows keep the cores in (figure 7), and how far the
  distances of reuse are from the real ones (figure 9);
* speed: jobs generated per CPU second, one core; with all what-ifs beside.

``--trace FILE`` measures flavours, lifetimes and survival on any other log with users, or table of
virtual machines (.csv): learnt from the first 70 % of its jobs, as known by then, and scored on the
others. There seconds are known.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cloud_scores import (
    flavour_scores,
    lifetime_scores,
    survival_scores,
    trace_scores,
)
from benchmarks.harness import Record, guarded, parser, table
from sim.formats.vm_trace import read_bergsma, read_flavours
from sim.generators.cloud.arrivals import coverage, fit_arrivals
from sim.generators.cloud.batches import JobExamples
from sim.generators.cloud.capacity import band_of, cores_in_use
from sim.generators.cloud.model_parts import QUALITIES
from sim.generators.cloud.scores import (
    FlavourScore,
    LifetimeScore,
    reuse_distances,
    total_variation,
)
from sim.generators.cloud.three_stage import KNOBS, QUALITY, draw_batches, fit_batches
from sim.generators.generator import Model, RandomStreams
from sim.model.cloud_trace import CloudTrace

PARTS = ("arrivals", "flavours", "lifetimes", "survival", "demand", "speed")
GENERATORS = (
    "naive", "simple_batch", *(f"three_stage, {one}" for one in QUALITIES if one != "lstm")
)  # fmt: skip
"""The networks have a benchmark of their own, `benchmarks.cloud_lstm`."""

TILTED = "three_stage, tables, every what-if"
TILTS = {
    "end_odds": 0.8, "cores_tilt": 0.5, "memory_tilt": 0.2, "ending_rate": 0.7, "weekend_load": 1.5,
}  # fmt: skip
SEED = 2021
PUBLISHED = ", days as the authors' program counts them"
N_WINDOWS, QUICK_WINDOWS, QUICK_JOBS = 200, 2, 6000
QUICK_TO_DRAW = ("naive", "simple_batch", "three_stage, tables", "three_stage, dimensions")
"""Drawn three times, as long as the training window; the others once, as the development one."""

FEWER_WINDOWS = {"three_stage, mix": 40, "three_stage, trees": 40}
"""Of those that take long to draw."""


PAPER_FLAVOURS = {
    "Uniform": "2.83 / 93.9 %", "Multinomial": "1.58 / 54.7 %", "RepeatFlav": "- / 29.7 %",
    "mix": "0.65 / 25.7 % (LSTM)",
}  # fmt: skip
PAPER_LIFETIMES = {
    "CoinFlip": ".693 / 97.1 %", "Overall KM": ".277 / 73.8 %", "Per-flavour KM": ".270 / 71.5 %",
    "RepeatLifetime": "- / 43.4 %", "trees": ".127 / 27.8 % (LSTM)",
}  # fmt: skip
PAPER_SURVIVAL = {
    "KM, 47 bins, stepped": "1.12 %", "KM, 47 bins, CDI": "1.11 %",
    "KM, 495 bins, stepped": "1.11 %", "KM, 495 bins, CDI": "1.11 %",
    "KM, continuous, stepped": "1.09 %", "trees, 47 bins, stepped": "0.52 % (LSTM)",
    "trees, 47 bins, CDI": "0.47 % (LSTM)",
}  # fmt: skip
PAPER_DEMAND = {"naive": "0 %", "simple_batch": "88 %", "three_stage, tables": "83 % (LSTM)"}


def main() -> None:
    """Measure what was asked for and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--azure", type=Path, metavar="DIR", help="the split of Bergsma et al.")
    options.add_argument("--trace", type=Path, metavar="FILE", action="append", default=[])
    options.add_argument("--part", choices=PARTS, action="append", help="all of them if not given")
    options.add_argument("--generator", choices=GENERATORS, action="append", help="likewise")
    chosen = options.parse_args()
    if chosen.azure is None and not chosen.trace:
        options.error("give --azure DIR, --trace FILE, or both")
    record = Record("cloud", chosen, [SEED], free=("part", "generator", "trace"))
    generators = tuple(chosen.generator or GENERATORS)
    for path in chosen.trace:
        _trace(record, path, QUICK_JOBS if chosen.quick else None)
    if chosen.azure is None:
        record.write()
        return
    train, dev, test = _windows(chosen.azure)
    if chosen.quick:
        train, dev, test = (_head(trace, 300) for trace in (train, dev, test))
    for part in chosen.part or PARTS:
        if part == "arrivals":
            _arrivals(record, train, test)
        elif part == "flavours":
            _flavours(record, train, dev, test)
        elif part == "lifetimes":
            _lifetimes(record, dev, test)
        elif part == "survival":
            _survival(record, dev, test)
        elif part == "demand":
            n_windows = QUICK_WINDOWS if chosen.quick else N_WINDOWS
            _demand(record, train, dev, test, n_windows, generators)
        else:
            _speed(record, train, dev, generators)
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
            if with_history and back < 1:
                inside, width = coverage(
                    law, counts[1], test.first_period, test.period_s,
                    np.random.default_rng(SEED), as_published=True,
                )  # fmt: skip
                told[name + PUBLISHED] = {"inside": inside, "width": width}
        return told

    found = record.step("arrivals", measured)
    rows = []
    papers = {name: paper for name, paper, *_ in laws}
    for name, one in found.items():
        paper = papers.get(name, papers[name.removesuffix(PUBLISHED)])
        rows.append([name, f"{one['inside']:.1%}", f"{one['width']:.1f}", paper])
        record.figure(f"coverage, {name}", one["inside"])
    table(["arrivals in 90 % intervals", "inside", "mean width", "paper"], rows)


def _flavours(record: Record, train: CloudTrace, dev: CloudTrace, test: CloudTrace) -> None:
    found = record.step("flavours", lambda: flavour_scores(train, test, dev))
    _flavour_table(record, found, PAPER_FLAVOURS, "")


def _flavour_table(
    record: Record, found: dict[str, Any], papers: Mapping[str, str], of: str
) -> None:
    rows = []
    for name, one in found.items():
        if not isinstance(one, dict):
            record.figure(f"flavours{of}, {name} (CPU s)", one)
            continue
        told = FlavourScore(**one)
        rows.append([name, _number(told.nll), f"{told.error:.2%}", papers.get(name, "")])
        record.figure(f"flavours{of}, {name}, NLL", told.nll)
        record.figure(f"flavours{of}, {name}, error", told.error)
    table(["next flavour", "NLL", "error", "paper, NLL / error"], rows)


def _lifetimes(record: Record, dev: CloudTrace, test: CloudTrace) -> None:
    found = record.step("lifetimes", lambda: lifetime_scores(dev, test))
    _lifetime_table(record, found, PAPER_LIFETIMES, "")


def _lifetime_table(
    record: Record, found: dict[str, Any], papers: Mapping[str, str], of: str
) -> None:
    rows = []
    for name, one in found.items():
        if name == "repeat":
            paper = papers.get("RepeatLifetime", "")
            rows.append(["RepeatLifetime", "-", "-", f"{one:.2%}", "-", paper])
            record.figure(f"lifetimes{of}, RepeatLifetime, error", one)
            continue
        if not isinstance(one, dict):
            record.figure(f"lifetimes{of}, {name} (CPU s)", one)
            continue
        told = LifetimeScore(**one)
        rows.append(
            [name, f"{told.bce:.4f}", f"{told.nll:.3f}", f"{told.error:.2%}",
             f"{told.masked_error:.2%}", papers.get(name, "")]
        )  # fmt: skip
        record.figure(f"lifetimes{of}, {name}, BCE", told.bce)
        record.figure(f"lifetimes{of}, {name}, honest error", told.error)
    table(
        ["bin of the lifetime", "BCE", "NLL per job", "error", "error as the authors count it",
         "paper, BCE / error"],
        rows,
    )  # fmt: skip


def _survival(record: Record, dev: CloudTrace, test: CloudTrace) -> None:
    spread_s = test.bins.seconds(test.lifetime, np.random.default_rng(SEED))
    found = record.step("survival", lambda: survival_scores(dev, test, spread_s))
    _survival_table(record, found, PAPER_SURVIVAL, "")


def _survival_table(
    record: Record, found: dict[str, float], papers: Mapping[str, str], of: str
) -> None:
    rows = [[name, f"{one:.3%}", papers.get(name, "")] for name, one in found.items()]
    for name, one in found.items():
        record.figure(f"survival{of}, {name}", one)
    table(["Survival-MSE", "ours", "paper"], rows)


def _trace(record: Record, path: Path, most_jobs: int | None) -> None:
    found = record.step(f"trace {path.name}", lambda: trace_scores(path, most_jobs))
    rows = [
        [path.name, f"{found['jobs'][0]:,} / {found['jobs'][1]:,}",
         f"{found['batches'][0]:,} / {found['batches'][1]:,}", f"{found['users']:,}",
         f"{found['flavour kinds']}",
         " / ".join(f"{share:.1%}" for share in found["censored"])]
    ]  # fmt: skip
    table(
        ["learnt / foreseen", "jobs", "batches", "users", "flavours", "censored"], rows
    )  # fmt: skip
    of = f" of {path.name}"
    _flavour_table(record, found["flavours"], {}, of)
    _lifetime_table(record, found["lifetimes"], {}, of)
    _survival_table(record, found["survival"], {}, of)


def demand_of(model: Model, test: CloudTrace, n: int) -> dict[str, Any]:
    """Compare `n` drawn windows with the real one: cores in use, jobs and distances of reuse."""
    real = cores_in_use(test, np.random.default_rng(SEED))
    distances = reuse_distances(test.flavour, len(test.flavours))
    cores, reuse, jobs = [], np.zeros(len(test.flavours)), 0
    for seed in range(n):
        streams = RandomStreams(SEED + seed)
        drawn = draw_batches(model, test.first_period, test.n_periods, streams)
        assert drawn is not None, "a window of a cloud has jobs"
        cores.append(cores_in_use(drawn, streams.of("lifetime_s")))
        reuse += reuse_distances(drawn.flavour, len(test.flavours)) / n
        jobs += drawn.n_jobs
    band = band_of(cores)
    return {
        "jobs": jobs / n, "windows": n, "inside": band.covers(real), "width": band.mean_width,
        "score": band.interval_score(real), "reuse": total_variation(reuse, distances),
    }  # fmt: skip


def _demand(
    record: Record,
    train: CloudTrace,
    dev: CloudTrace,
    test: CloudTrace,
    n_windows: int,
    generators: tuple[str, ...],
) -> None:

    def measured(name: str) -> dict[str, Any]:
        n = min(n_windows, FEWER_WINDOWS.get(name, n_windows))
        return demand_of(_fitted(name, train, dev), test, n)

    rows = [["real", "", f"{test.n_jobs:,}", "", "", "", "", ""]]
    for name in generators:
        one = record.step(f"demand of {name}", lambda name=name: measured(name))  # type: ignore[misc]
        rows.append(
            [name, f"{one['windows']}", f"{one['jobs']:,.0f}", f"{one['inside']:.1%}",
             f"{one['width']:,.0f}", f"{one['score']:,.0f}", f"{one['reuse']:.3f}",
             PAPER_DEMAND.get(name, "")]
        )  # fmt: skip
        record.figure(f"demand, {name}, inside", one["inside"])
        record.figure(f"demand, {name}, width (cores)", one["width"])
        record.figure(f"demand, {name}, interval score", one["score"])
        record.figure(f"reuse distance, {name}, total variation", one["reuse"])
    table(
        ["cores in use", "windows", "jobs", "inside the 90 % band", "mean width",
         "interval score", "reuse, total variation", "paper, inside"],
        rows,
    )  # fmt: skip


def _speed(record: Record, train: CloudTrace, dev: CloudTrace, generators: tuple[str, ...]) -> None:
    def measured(name: str) -> dict[str, Any]:
        plain = name.removesuffix(", every what-if")
        model = _fitted(plain, train, dev)
        if name == TILTED:
            model = model.with_parameters(TILTS)
        quick = plain in QUICK_TO_DRAW
        window, n_draws = (train, 3) if quick else (dev, 1)
        best = 0.0
        for seed in range(n_draws):
            began = time.process_time()
            drawn = draw_batches(model, window.first_period, window.n_periods, RandomStreams(seed))
            spent_s = time.process_time() - began
            best = max(best, 0.0 if drawn is None else drawn.n_jobs / spent_s)
        return {"jobs_per_s": best}

    rows = []
    tilted = [TILTED] * (TILTED.rpartition(",")[0] in generators)
    for name in (*generators, *tilted):
        one = record.step(f"speed of {name}", lambda name=name: measured(name))  # type: ignore[misc]
        rows.append([name, f"{one['jobs_per_s']:,.0f}"])
        record.figure(f"speed of {name} (jobs per CPU s)", one["jobs_per_s"])
    table(["generator", "jobs per CPU second"], rows)


def _fitted(name: str, train: CloudTrace, dev: CloudTrace) -> Any:
    n = len(train.flavours)
    cores = np.array([max(one.mcpu // 1000, 1) for one in train.flavours])
    memory = np.array([one.mem_bytes for one in train.flavours])
    examples = JobExamples(np.arange(n + 1), cores, np.full(n, 2_592_000.0), memory // cores)
    knobs = {knob.name: knob.usual for knob in KNOBS}
    name, _, quality = name.partition(", ")
    if quality:
        knobs[QUALITY.name] = float(QUALITIES.index(quality))
    return fit_batches(name, train, examples, knobs, of="Azure, training window", lived=dev)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"


if __name__ == "__main__":
    guarded(main)
