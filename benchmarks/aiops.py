"""How long a simulated year of an AI platform takes, and what it needs (PipeSim, section VI-C).

The paper: 365 days, a pipeline every 44 s on average, about 720,000 pipelines, 517 s and 850 MB on
one core, its database full past 100,000. Here every size runs in a process of its own, with the
whole trace written to Parquet; CPU seconds and the peak of resident memory are of that process,
imports included. `--sizes 10000,100000,720000,2000000` is the paper's experiment and beyond.

`--part fit` fits the statistics of a platform to a CSV of executed tasks drawn from the published
laws, with a mixture of 50 components for data sets, and tells how far the fits are from those laws.
"""

import argparse
import cProfile
import itertools
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Record, guarded, parser, table

SEED = 0
PROFILED = 20_000
PAPER = {"s": 517.0, "mb": 850.0}
YEAR = 720_000


def main() -> None:
    """Measure every size, one after the other."""
    options = parser(__doc__ or "")
    options.add_argument("--sizes", default="10000,50000,200000,720000", help="pipelines, by comma")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--part", choices=("year", "fit"), default="year")
    options.add_argument("--rows", type=int, default=200_000, help="of the log that is fitted to")
    told = options.parse_args()
    if told.one is not None:
        sys.stdout.write(json.dumps(_one(told.one, told.folder)))
        return
    if told.part == "fit":
        del told.one, told.folder
        _fit(told)
        return
    sizes = [1_000, 3_000] if told.quick else [int(size) for size in told.sizes.split(",")]
    del told.one, told.folder
    record = Record("aiops", told, [SEED], free=("sizes",))
    rows = []
    for size in sizes:
        found = record.step(f"{size} pipelines", lambda size=size: _measured(size))
        rows.append(_row(found))
        record.figure(f"cpu_s {size}", found["cpu_s"])
        record.figure(f"peak_mb {size}", found["peak_mb"])
        record.figure(f"us_per_pipeline {size}", found["run_s"] / found["pipelines"] * 1e6)
        record.write()
    head = ["pipelines", "days", "CPU s", "us per pipeline", "peak MB", "trace MB", "task rows"]
    table(head, rows)
    profile = record.step("profile", lambda: _profile(2_000 if told.quick else PROFILED))
    lines = [[name, f"{share:.0%}"] for name, share in profile["shares"].items()]
    sys.stdout.write("\n")
    table([f"function, {profile['pipelines']:,} pipelines", "share of the time"], lines)
    if YEAR in sizes:
        sys.stdout.write(f"\nThe paper's year: {PAPER['s']:.0f} s, {PAPER['mb']:.0f} MB.\n")


def _fit(told: argparse.Namespace) -> None:
    from sim.aiops import compare, fit_statistics, published_statistics, read_logs

    n = 4_000 if told.quick else told.rows
    record = Record("aiops_fit", told, [SEED])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        _write_log(path, n)
        begun = time.process_time()
        logs = read_logs(path)
        read_s = time.process_time() - begun
        found = fit_statistics(logs)
        fit_s = time.process_time() - begun - read_s
    record.figure("read_s", read_s)
    record.figure("fit_s", fit_s)
    rng, usual = np.random.default_rng(SEED + 1), published_statistics()
    sys.stdout.write(f"{n:,} tasks: read in {read_s:.1f} s, fitted in {fit_s:.1f} s (CPU).\n\n")
    rows = []
    laws = {f"train {name}": (usual.train[name], found.train[name]) for name in usual.train}
    laws["evaluate"] = (usual.seconds["evaluate"], found.seconds["evaluate"])
    for name, (known, fitted) in laws.items():
        one = compare(name, known.sample(rng, 20_000)[:, 0], fitted.sample(rng, 20_000)[:, 0])
        rows.append([name, f"{one.ks:.3f}", f"{one.log_wasserstein:.3f}"])
        record.figure(f"ks {name}", one.ks)
    for k, name in enumerate(("rows", "columns", "bytes")):
        one = compare(
            name, usual.assets.sample(rng, 20_000)[:, k], found.assets.sample(rng, 20_000)[:, k]
        )
        rows.append([name, f"{one.ks:.3f}", f"{one.log_wasserstein:.3f}"])
        record.figure(f"ks {name}", one.ks)
    expected, fitted_rates = usual.arrivals.hourly(), found.arrivals.hourly()
    off = float(np.abs(fitted_rates / expected - 1).mean())
    record.figure("arrivals by hour, mean error", off)
    table(["known law against the fitted one", "KS", "Wasserstein of ln"], rows)
    sys.stdout.write(f"\nArrivals by hour of the week: {off:.1%} off on average.\n")
    record.write()


def _write_log(path: Path, n: int) -> None:
    """Write executed tasks of known laws: a third each of preprocess, train, evaluate."""
    import pyarrow as pa
    from pyarrow import csv

    from sim.aiops import arrival_blocks, published_statistics
    from sim.generators.generator import RandomStreams

    rng, told, third = np.random.default_rng(SEED), published_statistics(), n // 3
    blocks = arrival_blocks(told.arrivals, RandomStreams(SEED), profile="calendar")
    arrived = np.concatenate(list(itertools.islice(blocks, third // 1_000 + 1)))
    while len(arrived) < third:
        arrived = np.concatenate([arrived, next(blocks)])
    names = np.array(sorted(told.mix))
    framework = rng.choice(names, third, p=[told.mix[name] for name in names])
    sizes = told.assets.sample(rng, third)
    train = np.empty(third)
    for name in names:
        which = framework == name
        train[which] = told.train[name].sample(rng, int(which.sum()))[:, 0]
    seconds = [
        told.preprocess.sample(rng, sizes[:, 0] * sizes[:, 1]),
        train,
        told.seconds["evaluate"].sample(rng, third)[:, 0],
    ]
    columns = {
        "task": np.repeat(["preprocess", "train", "evaluate"], third),
        "seconds": np.concatenate(seconds),
        "submit_s": np.tile(arrived[:third], 3),
        "framework": np.tile(framework, 3),
        **{name: np.tile(sizes[:, k], 3) for k, name in enumerate(("rows", "columns", "bytes"))},
    }
    csv.write_csv(pa.table(columns), path)


def _measured(size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.aiops", "--one", str(size), "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _one(size: int, folder: Path) -> dict[str, Any]:
    from sim.aiops import run_platform

    begun, clock = time.process_time(), time.perf_counter()
    result = run_platform(_scenario(size), folder)
    run_s, wall_s = time.process_time() - begun, time.perf_counter() - clock
    return {
        "pipelines": result.n_pipelines,
        "days": size * 44 / 86_400,
        "run_s": run_s,
        "wall_s": wall_s,
        "cpu_s": time.process_time(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "trace_mb": sum(path.stat().st_size for path in folder.glob("*.parquet")) / 1e6,
        "rows": dict(result.n_rows),
        "outcomes": dict(result.outcomes),
        "wait_s": result.wait_s,
        "utilisation": dict(result.utilisation),
    }


def _scenario(size: int) -> Any:
    from sim.aiops import PlatformScenario

    return PlatformScenario(duration_s=size * 44.0, drain=True, seed=SEED)


def _profile(size: int) -> dict[str, Any]:
    from sim.aiops import run_platform

    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        profile.enable()
        run_platform(_scenario(size), Path(folder))
        profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    own = {f"{Path(file).name}:{name}": times[2] for (file, _, name), times in stats.items()}
    total = sum(own.values())
    most = sorted(own, key=lambda name: -own[name])[:12]
    return {"pipelines": size, "shares": {name: own[name] / total for name in most}}


def _row(found: dict[str, Any]) -> list[str]:
    return [
        f"{found['pipelines']:,}",
        f"{found['days']:.0f}",
        f"{found['cpu_s']:.1f}",
        f"{found['run_s'] / found['pipelines'] * 1e6:.0f}",
        f"{found['peak_mb']:.0f}",
        f"{found['trace_mb']:.0f}",
        f"{found['rows']['tasks']:,}",
    ]


if __name__ == "__main__":
    guarded(main)
