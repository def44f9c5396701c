"""How well generated workloads of a cloud pack onto servers, beside the real ones (FFAR).

``python -m benchmarks.cloud_packing --azure DIR`` (see `benchmarks.cloud`) packs the real test
window and windows of each generator by the same scheduling tuples, as section 6.2 of Bergsma et al.
(Table 5, figure 10): jobs are put on empty servers until the first fits nowhere, and the share of
what is allocated then is told for the resource that limits. Variants: nobody leaves; nobody leaves
and ten times as many arrive. The tuples are in the JSON, and in a file with ``--tuples FILE``, from
which they are taken if it is there; 500 of the seed 2021 are the usual ones.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cloud import _fitted, _head, _windows
from benchmarks.harness import Record, guarded, parser, table
from sim.generators.cloud.lifetimes import draw_lifetimes, fit_lifetimes
from sim.generators.cloud.packing import (
    PACKING_RULES,
    PackingResults,
    PackingSummary,
    SchedulingTuple,
    draw_tuples,
    pack_jobs,
    read_tuples,
    requests_of_trace,
    write_tuples,
)
from sim.generators.cloud.three_stage import draw_batches
from sim.generators.generator import RandomStreams
from sim.model.cloud_trace import CloudTrace

SEED = 2021
N_TUPLES, QUICK_TUPLES = 500, 24
N_WINDOWS, QUICK_WINDOWS = 50, 2
GENERATORS = ("naive", "simple_batch", "three_stage")
VARIANTS = {"jobs leave": (True, 1.0), "nobody leaves": (False, 1.0), "ten times": (False, 10.0)}
PAPER = {
    "real": "94.5 / 47.2", "naive": "96.7 / 65.4", "simple_batch": "93.5 / 37.0",
    "three_stage": "95.4 / 53.5 (LSTM)",
}  # fmt: skip
"""Table 5, Azure: median and share above 95 %, with ranges of their own that are not published."""


def main() -> None:
    """Measure and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--azure", type=Path, required=True, metavar="DIR")
    options.add_argument("--tuples", type=Path, metavar="FILE", help="scheduling tuples, CSV")
    chosen = options.parse_args()
    record = Record("cloud_packing", chosen, [SEED])
    train, dev, test = _windows(chosen.azure)
    n_tuples, n_windows = N_TUPLES, N_WINDOWS
    if chosen.quick:
        train, dev, test = (_head(trace, 600) for trace in (train, dev, test))
        n_tuples, n_windows = QUICK_TUPLES, QUICK_WINDOWS
    tuples = _tuples(chosen.tuples, n_tuples)
    record.body["tuples"] = [asdict(one) for one in tuples]
    record.write()
    taught = _told(record.step("training window", lambda: _taught(train, dev, tuples)))
    found: dict[str, dict[str, PackingResults]] = {}
    for variant, (departures, demand) in VARIANTS.items():
        found[variant] = {}
        if demand == 1.0:  # nobody ever saw ten times the real demand
            found[variant]["real"] = _told(
                record.step(
                    f"real, {variant}",
                    lambda departures=departures: _packed(  # type: ignore[misc]
                        requests_of_trace(test, np.random.default_rng(SEED)), tuples, departures
                    ),
                )
            )
        for name in GENERATORS:
            found[variant][name] = _told(
                record.step(
                    f"{name}, {variant}",
                    lambda name=name, departures=departures, demand=demand: _generated(  # type: ignore[misc]
                        name, (train, dev, test), tuples, departures, demand, n_windows
                    ),
                )
            )
    found["jobs leave"]["training window"] = taught
    _tables(record, found)
    record.write()


def _tuples(path: Path | None, n: int) -> tuple[SchedulingTuple, ...]:
    if path is not None and path.exists():
        return read_tuples(path)
    drawn = draw_tuples(n, SEED)
    if path is not None:
        write_tuples(drawn, path)
    return drawn


def _packed(requests: Any, tuples: tuple[SchedulingTuple, ...], departures: bool) -> dict[str, Any]:
    told = pack_jobs(requests, tuples, departures=departures)
    return {
        "cpu": _known(told.cpu), "memory": _known(told.memory), "algorithm": list(told.algorithm),
    }  # fmt: skip


def _taught(
    train: CloudTrace, dev: CloudTrace, tuples: tuple[SchedulingTuple, ...]
) -> dict[str, Any]:
    """Pack the training window, on which the ranges rest, with lifetimes drawn as those of dev."""
    law, rng = fit_lifetimes(dev), np.random.default_rng(SEED)
    lived = draw_lifetimes(law, train.flavour, train.batch, len(train.flavours), rng)
    known = replace(train, lifetime=lived, censored=np.zeros_like(train.censored))
    return _packed(requests_of_trace(known, rng), tuples, True)


def _generated(
    name: str,
    traces: tuple[CloudTrace, CloudTrace, CloudTrace],
    tuples: tuple[SchedulingTuple, ...],
    departures: bool,
    demand: float,
    n_windows: int,
) -> dict[str, Any]:
    """Pack windows of a generator, which take turns with the tuples."""
    train, dev, test = traces
    model = _fitted(name, train, dev)
    n_windows = n_windows if demand == 1.0 else max(1, n_windows // 10)
    n_periods = test.n_periods if demand == 1.0 else max(12, test.n_periods // 5)
    whole: dict[str, list[Any]] = {
        "cpu": [None] * len(tuples), "memory": [None] * len(tuples),
        "algorithm": [one.algorithm for one in tuples],
    }  # fmt: skip
    for window in range(n_windows):
        streams = RandomStreams(SEED + window)
        drawn = draw_batches(model, test.first_period, n_periods, streams, demand)
        assert drawn is not None, "a window of a cloud has jobs"
        requests = requests_of_trace(drawn, streams.of("lifetime_s"), name)
        some = _packed(requests, tuples[window::n_windows], departures)
        for column in ("cpu", "memory"):
            whole[column][window::n_windows] = some[column]
    return whole


def _known(shares: Any) -> list[float | None]:
    return [None if np.isnan(one) else float(one) for one in shares]


def _told(detail: dict[str, Any]) -> PackingResults:
    cpu, memory = (
        np.array([np.nan if one is None else one for one in detail[name]], dtype=np.float64)
        for name in ("cpu", "memory")
    )
    return PackingResults(cpu, memory, tuple(detail["algorithm"]))


def _tables(record: Record, found: dict[str, dict[str, PackingResults]]) -> None:
    rows = []
    for variant, by_name in found.items():
        for name, told in by_name.items():
            every = told.of(None)
            paper = PAPER.get(name, "") if variant == "jobs leave" else ""
            rows.append([variant, name, *_cells(every), f"{every.n_failed}", paper])
            for what, value in (
                ("median", every.median), ("above .95", every.above),
                ("limited by cores", every.cpu_limited),
            ):  # fmt: skip
                record.figure(f"{name}, {variant}, {what}", value)
    table(
        ["first failure", "", "median", "above 95 %", "cores limit", "packings",
         "paper, median / above"],
        rows,
    )  # fmt: skip
    leave = found["jobs leave"]
    rows = [
        [rule.name, name, *_cells(told.of(rule.name)), f"{told.of(rule.name).n_failed}"]
        for rule in PACKING_RULES
        for name, told in leave.items()
    ]
    table(["by algorithm", "", "median", "above 95 %", "cores limit", "packings"], rows)


def _cells(one: PackingSummary) -> list[str]:
    shares = (one.median, one.above, one.cpu_limited)
    return ["-" if share is None else f"{share:.1%}" for share in shares]


if __name__ == "__main__":
    guarded(main)
