"""Tuned on one log against tuned on generated futures, both tested on weeks that were held back.

``python -m benchmarks.futures --logs DIR`` takes UniLu-Gaia of that folder (or ``--log FILE``):
``--training`` weeks are there to be tuned on, each of the next ``--test`` weeks is a test,
simulated from an empty cluster; with ``--step N`` the same again N weeks later, as long as the log
has whole weeks. A sweep of the default strategy, ``--runs`` long, looks for the least mean bounded
slowdown in a space of orders, backfilling and a part kept for small jobs,

- on the training weeks as they are, one log from end to end,
- on the training weeks one by one, judged by their mean (what averaging alone brings),
- on futures resampled from the training weeks, judged by their mean or by their median, and on
  futures of a Lublin-Feitelson model that is fitted to them, judged by their mean,

with every seed of ``--seeds``, which is of the search and of the futures. On the test weeks all
configurations of the space are simulated, so that the best in hindsight is known. Gaia kept half
of its processors idle, where any policy will do; the cluster here is as much smaller as the first
six weeks need to load it by ``--load``.

Printed is the ratio to the current configuration (FCFS with EASY, nothing kept for small jobs),
week by week; its geometric mean over weeks and seeds (and places), and a 95 % interval that
resamples them all.
"""

import argparse
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents import Follower
from assistant import Objective, SingleMeasure, Sla, open_session
from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_futures import (
    FutureAggregate,
    FutureScheduling,
    WorkloadFutures,
    future_scheduling,
)
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from sim.api import ProfileWindow, Workload, load_workload, offered_load
from sim.generators import fit
from strategies import Level

Floats = NDArray[np.float64]

WEEK_S = 7 * 86_400.0
SIZED_BY = 6
LOG = "UniLu-Gaia-2014-1.swf.gz"
SLOWDOWN, WAIT = "mean_bounded_slowdown", "mean_wait_s"
N_RESAMPLES = 10_000

ON_LOG, ON_WEEKS, ON_RESAMPLED, ON_MEDIAN, ON_LUBLIN = (
    "the training log", "its weeks, one by one", "futures, resampled",
    "futures, resampled, by the median", "futures, Lublin fitted",
)  # fmt: skip
WAYS = (ON_LOG, ON_WEEKS, ON_RESAMPLED, ON_MEDIAN, ON_LUBLIN)

POLICIES: dict[str, tuple[Level, ...]] = {
    "order": ("fcfs", "sjf", "saf", "wfp3", "f1"),
    "backfill": ("none", "easy"),
    "small_max_requested_s": (3_600, 14_400, 43_200),
    "small_max_procs": (1, 12, 48),
}
KEPT = (0.0, 0.05, 0.13, 0.26)
"""Shares of the processors that are kept for small jobs."""


@dataclass(frozen=True)
class Weeks(WorkloadFutures):
    """Weeks of a log in place of futures that are drawn."""

    weeks: tuple[Workload, ...] = ()

    def drawn(self, of_run: int | None = None) -> tuple[Workload, ...]:  # noqa: ARG002
        """Return the weeks."""
        return self.weeks


@dataclass(frozen=True)
class Setting:
    """What is tuned on, and within what.

    Attributes:
        training: some weeks.
        weeks: the same, one by one.
        space: that is searched.
        n_futures: of each tuning.
    """

    training: Workload
    weeks: tuple[Workload, ...]
    space: Mapping[str, Any]
    n_futures: int

    def application(self, way: str, seed: int) -> Scheduling:
        """Return what is tuned on."""
        if way == ON_LOG:
            return Scheduling(self.training, **self.space)
        model = fit("lublin" if way == ON_LUBLIN else "resampling", self.training)
        if way == ON_WEEKS:
            weeks = Weeks(model, len(self.weeks), WEEK_S, weeks=self.weeks)
            return future_scheduling(weeks, threads=1, **self.space)
        aggregate: FutureAggregate = "quantile" if way == ON_MEDIAN else "mean"
        futures = WorkloadFutures(
            model, self.n_futures, WEEK_S, seed=seed, aggregate=aggregate, quantile=0.5
        )
        return future_scheduling(futures, threads=1, **self.space)


def week_of(log: Workload, week: int, n_weeks: int = 1) -> Workload:
    """Return weeks of a log; the first is number 0."""
    return ProfileWindow(from_s=week * WEEK_S, to_s=(week + n_weeks) * WEEK_S).of(log)


def space_of(log: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Size the cluster and return what every application here is told."""
    n_weeks = 1 if options.quick else SIZED_BY
    first = week_of(log, 0, n_weeks)
    work = float((first.runtime_s * first.procs).sum())
    procs = round(work / (n_weeks * WEEK_S * options.load))
    levels = {**POLICIES, "small_procs": tuple(round(share * procs) for share in KEPT)}
    if options.quick:
        levels |= {"order": ("fcfs", "sjf"), "small_procs": (0, round(0.13 * procs))}
    return {"procs": procs, "levels": levels, "too_wide": "clip"}


def tuned(found: Setting, way: str, seed: int, runs: int) -> dict[str, Any]:
    """Steer one sweep; return what it chose and what it believed of it."""
    cpu_s = time.process_time()
    application = found.application(way, seed)
    session = open_session(
        application, store=MemoryStore(), objective=Objective(SingleMeasure(SLOWDOWN)),
        sla=Sla(max_runs=runs), seed=seed, name=way,
    )  # fmt: skip
    session.finish(Follower().steer(session, SerialExecutor(application)))
    best, baseline = session.experiment.best, session.experiment.baseline
    if best is None or best.outcome is None or baseline is None or baseline.outcome is None:
        raise AssertionError("a simulated sweep has results")
    jobs = application.workloads if isinstance(application, FutureScheduling) else (found.training,)
    loads = [offered_load(one, application.cluster_procs) or 0.0 for one in jobs]
    return {
        "chosen": application.space.values(best.configuration),
        "promised": math.log(best.outcome.value / baseline.outcome.value),
        "load": statistics.fmean(loads),
        "jobs": sum(one.n_jobs for one in jobs),
        "cpu_s": time.process_time() - cpu_s,
    }


def tested(jobs: Workload, space: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate every configuration on one held-back week."""
    cpu_s = time.process_time()
    application = Scheduling(jobs, **space)
    wanted = [application.space.values(one) for one in application.space.configurations()]
    measured = {
        key_of(values): [measures[SLOWDOWN], measures[WAIT]]
        for values, measures in application.evaluate_many(wanted, threads=1)
    }
    return {
        "measured": measured,
        "baseline": key_of(application.baseline),
        "load": offered_load(jobs, application.cluster_procs),
        "jobs": jobs.n_jobs,
        "cpu_s": time.process_time() - cpu_s,
    }


def key_of(values: Mapping[str, Level]) -> str:
    """Return a configuration as text; without a small part its thresholds mean nothing."""
    kept = values["small_procs"] != 0
    told = {n: v for n, v in sorted(values.items()) if kept or not n.startswith("small_max")}
    return ", ".join(f"{name}={value}" for name, value in told.items())


def interval(ratios: Floats) -> tuple[float, float, float]:
    """Return the mean of log ratios as a ratio, with its 95 % interval.

    Args:
        ratios: [place, seed, week]. The interval resamples all three (percentile bootstrap, 10,000
            times, seed 0).
    """
    rng = np.random.default_rng(0)
    shapes = ((-1, 1, 1), (1, -1, 1), (1, 1, -1))
    picked = tuple(
        rng.integers(n, size=(N_RESAMPLES, n)).reshape(N_RESAMPLES, *shape)
        for n, shape in zip(ratios.shape, shapes, strict=True)
    )
    means = ratios[picked].mean(axis=(1, 2, 3))
    low, high = np.quantile(means, [0.025, 0.975])
    return math.exp(ratios.mean()), math.exp(low), math.exp(high)


@dataclass(frozen=True)
class Tests:
    """What every configuration came to on every week.

    Attributes:
        weeks: as `tested` tells them, by number.
        places: the held-back weeks of each place.
    """

    weeks: Mapping[int, Mapping[str, Any]]
    places: Sequence[Sequence[int]]

    def ratios(self, keys: Sequence[Sequence[str]], measure: int = 0) -> Floats:
        """Return log ratios to the current configuration, [place, seed, week]; waits count + 1 s.

        Args:
            keys: of the configurations that were chosen, [place, seed].
            measure: 0 bounded slowdown, 1 wait.
        """
        return np.array(
            [
                [[self._log(week, key, measure) for week in weeks] for key in at_place]
                for weeks, at_place in zip(self.places, keys, strict=True)
            ]
        )

    def _log(self, number: int, key: str, measure: int) -> float:
        week, add = self.weeks[number], float(measure)
        told, now = week["measured"][key][measure], week["measured"][week["baseline"]][measure]
        return math.log((told + add) / (now + add))

    def mean(self, keys: Sequence[Sequence[str]], measure: int) -> float:
        """Return the mean of a measure over everything."""
        return statistics.fmean(
            self.weeks[week]["measured"][key][measure]
            for weeks, at_place in zip(self.places, keys, strict=True)
            for week in weeks
            for key in at_place
        )

    @property
    def baseline(self) -> str:
        """Today's configuration."""
        return str(next(iter(self.weeks.values()))["baseline"])

    @property
    def every(self) -> list[str]:
        """All configurations."""
        return list(next(iter(self.weeks.values()))["measured"])

    def best(self) -> list[str]:
        """Return the configuration of the least mean of log ratios, by place."""
        every = self.every
        means = self.ratios([every] * len(self.places)).mean(axis=2)
        return [every[int(row.argmin())] for row in means]


def main() -> None:
    """Tune, test, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--logs", type=Path, help=f"folder that holds {LOG}")
    options_parser.add_argument("--log", type=Path, help="another log of whole weeks")
    options_parser.add_argument("--training", type=int, default=6, help="weeks to tune on")
    options_parser.add_argument("--test", type=int, default=6, help="weeks held back")
    options_parser.add_argument("--step", type=int, help="weeks to the next place; one place only")
    options_parser.add_argument("--load", type=float, default=0.85, help="of the first six weeks")
    options_parser.add_argument("--futures", type=int, default=10)
    options_parser.add_argument("--runs", type=int, default=30)
    options_parser.add_argument("--seeds", type=int, default=10)
    options = options_parser.parse_args()
    path = options.log or (None if options.logs is None else options.logs / LOG)
    if path is None:
        options_parser.error("name the data: --logs DIR or --log FILE")
    if options.quick:
        options.training, options.test, options.runs, options.seeds = 2, 2, 4, 1
        options.futures = 2
    log, free = load_workload(path), ("seeds", "training", "test", "step")
    record = Record("futures", options, list(range(options.seeds)), free=free)
    space, n_training = space_of(log, options), options.training
    room = int(log.span_s // WEEK_S) - n_training - options.test
    starts = range(0, room + 1, options.step) if options.step else (0,)
    places = [[*range(at + n_training, at + n_training + options.test)] for at in starts]
    weeks = {
        week: record.step(
            f"week {week + 1}", lambda week=week: tested(week_of(log, week), space)
        )
        for week in sorted({week for place in places for week in place})
    }  # fmt: skip
    sweeps: dict[str, list[list[dict[str, Any]]]] = {way: [] for way in WAYS}
    for at in starts:
        each = tuple(week_of(log, at + i) for i in range(n_training))
        found = Setting(week_of(log, at, n_training), each, space, options.futures)
        for way in WAYS:
            of_place = f"{way}, weeks {at + 1} to {at + n_training}"
            sweeps[way].append([
                record.step(
                    f"{of_place}, seed {seed}",
                    lambda found=found, way=way, seed=seed: tuned(found, way, seed, options.runs),
                )
                for seed in range(options.seeds)
            ])  # fmt: skip
    _tell(record, Tests(weeks, places), sweeps)
    record.write()
    loads = ", ".join(f"{one['load']:.2f}" for one in weeks.values())
    print(f"\n{space['procs']:,} processors; load of the held-back weeks: {loads}")


def _tell(
    record: Record, tests: Tests, sweeps: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
) -> None:
    chosen = {
        way: [[key_of(one["chosen"]) for one in at_place] for at_place in told]
        for way, told in sweeps.items()
    }
    rows, n_places = [], len(tests.places)

    def row(name: str, keys: Sequence[Sequence[str]], promised: str = "", load: str = "") -> None:
        both = [tests.ratios(keys, measure) for measure in (0, 1)]
        if keys[0] == tests.every:  # all there are, not a sample of them
            both = [one.mean(axis=1, keepdims=True) for one in both]
        ratio, waited = map(interval, both)
        values = f"{tests.mean(keys, 0):.1f}", f"{tests.mean(keys, 1):,.0f} s"
        different = statistics.fmean(len(set(at_place)) for at_place in keys)
        rows.append(
            [name, load, promised, _shown(ratio), _shown(waited), *values, f"{different:.3g}"]
        )
        record.figure(f"{name}: ratio of bounded slowdown", ratio[0])
        record.figure(f"{name}: ratio of wait", waited[0])

    row("current: fcfs, easy, no split", [[tests.baseline]] * n_places)
    for way, keys in chosen.items():
        every = [one for at_place in sweeps[way] for one in at_place]
        promised = math.exp(statistics.fmean(one["promised"] for one in every))
        load = statistics.fmean(one["load"] for one in every)
        row(f"tuned on {way}", keys, f"{promised:.2f}", f"{load:.2f}")
    row("any of the configurations", [tests.every] * n_places)
    row("best in hindsight", [[one] for one in tests.best()])
    header = [
        "", "load tuned on", "promised", "bounded slowdown ratio", "wait ratio",
        "mean bounded slowdown", "mean wait", "different choices",
    ]  # fmt: skip
    table(header, rows)
    lines = []
    for way in WAYS[1:]:
        ratio = interval(tests.ratios(chosen[way]) - tests.ratios(chosen[ON_LOG]))
        lines.append([f"tuned on {way} / on {ON_LOG}", _shown(ratio)])
        record.figure(f"{way} over {ON_LOG}", ratio[0])
    table(["bounded slowdown on held-back weeks", "ratio"], lines)
    for way, keys in chosen.items():
        record.body.setdefault("chosen", {})[way] = keys


def _shown(ratio: tuple[float, float, float]) -> str:
    middle, low, high = ratio
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    guarded(main)
