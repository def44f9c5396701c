"""Tuned on one log against tuned on generated futures, both tested on weeks that were held back.

``python -m benchmarks.futures --logs DIR`` takes UniLu-Gaia of that folder (or ``--log FILE``): the
first weeks are there to be tuned on, each later one is a test, simulated from an empty cluster. A
sweep of the default strategy, ``--runs`` long, looks for the least mean bounded slowdown in a space
of orders, backfilling and a part kept for small jobs,

- on the training weeks as they are, one log from end to end,
- on the training weeks one by one, judged by their mean (what averaging alone brings),
- on futures resampled from the training weeks, and on futures of a Lublin-Feitelson model that is
  fitted to them, judged by their mean,

with every seed of ``--seeds``, which is of the search and of the futures. On the test weeks all
configurations of the space are simulated, so that the best in hindsight is known. Gaia kept half
of its processors idle, where any policy will do; the cluster here is as much smaller as the
training weeks need to load it by ``--load``.

What is told is the ratio to today's configuration (FCFS with EASY, nothing kept for small jobs),
week by week; its geometric mean over weeks and seeds, and a 95 % interval that resamples both.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agents import Follower
from assistant import Objective, Sla, Value, open_session
from assistant.applications import Foreseen, Futures, Scheduling, foreseen
from assistant.executors import SerialExecutor
from assistant.store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from sim.api import Window, Workload, fit, load_workload, offered_load
from strategies import Level

WEEK_S = 7 * 86_400.0
LOG = "UniLu-Gaia-2014-1.swf.gz"
SLOWDOWN, WAIT = "mean_bounded_slowdown", "mean_wait_s"
N_RESAMPLES = 10_000

ON_LOG, ON_WEEKS, ON_RESAMPLED, ON_LUBLIN = (
    "the training log", "its weeks, one by one", "futures, resampled", "futures, Lublin fitted",
)  # fmt: skip
WAYS = (ON_LOG, ON_WEEKS, ON_RESAMPLED, ON_LUBLIN)

POLICIES: dict[str, tuple[Level, ...]] = {
    "order": ("fcfs", "sjf", "saf", "wfp3", "f1"),
    "backfill": ("none", "easy"),
    "small_max_requested_s": (3_600, 14_400, 43_200),
    "small_max_procs": (1, 12, 48),
}
KEPT = (0.0, 0.05, 0.13, 0.26)
"""Shares of the processors that are kept for small jobs."""


@dataclass(frozen=True)
class Weeks(Futures):
    """Weeks of a log in place of futures that are drawn."""

    weeks: tuple[Workload, ...] = ()

    def drawn(self, of_run: int | None = None) -> tuple[Workload, ...]:
        """Return the weeks."""
        return self.weeks


@dataclass(frozen=True)
class Setting:
    """What is tuned on, tested on, and within what.

    Attributes:
        training: the first weeks.
        weeks: the same, one by one.
        held_back: later weeks.
        procs: of the cluster.
        levels: of the space.
        n_futures: of each tuning.
    """

    training: Workload
    weeks: tuple[Workload, ...]
    held_back: tuple[Workload, ...]
    procs: int
    levels: Mapping[str, tuple[Level, ...]]
    n_futures: int

    @property
    def told(self) -> dict[str, Any]:
        """What every application here is told."""
        return {"procs": self.procs, "levels": self.levels, "too_wide": "clip"}

    def application(self, way: str, seed: int) -> Scheduling:
        """Return what is tuned on."""
        if way == ON_LOG:
            return Scheduling(self.training, **self.told)
        generator: Literal["lublin", "resampling"] = "lublin" if way == ON_LUBLIN else "resampling"
        model = fit(generator, self.training)
        if way == ON_WEEKS:
            weeks = Weeks(model, len(self.weeks), WEEK_S, weeks=self.weeks)
            return foreseen(weeks, threads=1, **self.told)
        futures = Futures(model, self.n_futures, WEEK_S, seed=seed)
        return foreseen(futures, threads=1, **self.told)


def setting(log: Workload, options: argparse.Namespace) -> Setting:
    """Cut the log and size the cluster."""
    n_training, n_test = options.training, options.test
    weeks = [
        Window(from_s=i * WEEK_S, to_s=(i + 1) * WEEK_S).of(log) for i in range(n_training + n_test)
    ]
    training = Window(to_s=n_training * WEEK_S).of(log)
    work = float((training.runtime_s * training.procs).sum())
    procs = round(work / (n_training * WEEK_S * options.load))
    levels = {**POLICIES, "small_procs": tuple(round(share * procs) for share in KEPT)}
    if options.quick:
        levels |= {"order": ("fcfs", "sjf"), "small_procs": (0, round(0.13 * procs))}
    return Setting(
        training,
        tuple(weeks[:n_training]),
        tuple(weeks[n_training:]),
        procs,
        levels,
        2 if options.quick else options.futures,
    )


def tuned(found: Setting, way: str, seed: int, runs: int) -> dict[str, Any]:
    """Steer one sweep; return what it chose and what it believed of it."""
    cpu_s = time.process_time()
    application = found.application(way, seed)
    objective = Objective(Value(SLOWDOWN))
    session = open_session(
        application, store=MemoryStore(), objective=objective, sla=Sla(max_runs=runs), seed=seed,
        name=way,
    )  # fmt: skip
    session.finish(Follower().steer(session, SerialExecutor(application)))
    best, today = session.experiment.best, session.experiment.baseline
    if best is None or best.outcome is None or today is None or today.outcome is None:
        raise AssertionError("a simulated sweep has results")
    jobs = application.workloads if isinstance(application, Foreseen) else (found.training,)
    loads = [offered_load(one, found.procs) or 0.0 for one in jobs]
    return {
        "chosen": application.space.values(best.configuration),
        "promised": math.log(best.outcome.value / today.outcome.value),
        "load": statistics.fmean(loads),
        "jobs": sum(one.n_jobs for one in jobs),
        "cpu_s": time.process_time() - cpu_s,
    }


def tested(found: Setting, week: int) -> dict[str, Any]:
    """Simulate every configuration on one held-back week."""
    cpu_s = time.process_time()
    application = Scheduling(found.held_back[week], **found.told)
    space = application.space
    wanted = [space.values(one) for one in space.configurations()]
    measured = {
        _key(values): [measures[SLOWDOWN], measures[WAIT]]
        for values, measures in application.evaluate_many(wanted, threads=1)
    }
    jobs = found.held_back[week]
    return {
        "measured": measured,
        "today": _key(application.baseline),
        "load": offered_load(jobs, found.procs),
        "jobs": jobs.n_jobs,
        "cpu_s": time.process_time() - cpu_s,
    }


def _key(values: Mapping[str, Level]) -> str:
    """Return a configuration as text; without a small part its thresholds mean nothing."""
    kept = values["small_procs"] != 0
    told = {n: v for n, v in sorted(values.items()) if kept or not n.startswith("small_max")}
    return ", ".join(f"{name}={value}" for name, value in told.items())


def interval(ratios: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """Return the mean of log ratios [seed, week] as a ratio, with its 95 % interval.

    The interval resamples weeks and seeds (percentile bootstrap; 10,000 times, seed 0).
    """
    rng = np.random.default_rng(0)
    n_seeds, n_weeks = ratios.shape
    seeds = rng.integers(n_seeds, size=(N_RESAMPLES, n_seeds, 1))
    weeks = rng.integers(n_weeks, size=(N_RESAMPLES, 1, n_weeks))
    means = ratios[seeds, weeks].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return tuple(math.exp(x) for x in (ratios.mean(), low, high))  # type: ignore[return-value]


@dataclass(frozen=True)
class Tests:
    """What every configuration came to on the held-back weeks.

    Attributes:
        weeks: as `tested` tells them.
    """

    weeks: Sequence[Mapping[str, Any]]

    def ratios(self, keys: Sequence[str], measure: int = 0) -> np.ndarray[Any, Any]:
        """Return log ratios to today's configuration, [configuration, week]; waits count +1 s."""
        return np.array(
            [[self._log(week, key, measure) for week in self.weeks] for key in keys], dtype=float
        )

    def _log(self, week: Mapping[str, Any], key: str, measure: int) -> float:
        add = 1.0 if measure else 0.0
        told, now = week["measured"][key][measure], week["measured"][week["today"]][measure]
        return math.log((told + add) / (now + add))

    def mean(self, keys: Sequence[str], measure: int) -> float:
        """Return the mean of a measure over configurations and weeks."""
        return statistics.fmean(
            week["measured"][key][measure] for key in keys for week in self.weeks
        )

    @property
    def today(self) -> str:
        """Today's configuration."""
        return str(self.weeks[0]["today"])

    @property
    def every(self) -> list[str]:
        """All configurations."""
        return list(self.weeks[0]["measured"])

    @property
    def best(self) -> str:
        """The configuration of the least geometric mean of ratios over all weeks."""
        every = self.every
        return every[int(self.ratios(every).mean(axis=1).argmin())]


def main() -> None:
    """Tune, test, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--logs", type=Path, help=f"folder that holds {LOG}")
    options_parser.add_argument("--log", type=Path, help="another log of whole weeks")
    options_parser.add_argument("--training", type=int, default=6, help="weeks to tune on")
    options_parser.add_argument("--test", type=int, default=6, help="weeks held back")
    options_parser.add_argument("--load", type=float, default=0.85, help="of the training weeks")
    options_parser.add_argument("--futures", type=int, default=10)
    options_parser.add_argument("--runs", type=int, default=30)
    options_parser.add_argument("--seeds", type=int, default=5)
    options = options_parser.parse_args()
    path = options.log or (None if options.logs is None else options.logs / LOG)
    if path is None:
        options_parser.error("name the data: --logs DIR or --log FILE")
    if options.quick:
        options.training, options.test, options.runs, options.seeds = 1, 2, 4, 1
    record = Record("futures", options, list(range(options.seeds)), free=("seeds",))
    found = setting(load_workload(path), options)
    weeks = [
        record.step(f"held back {week + 1}", lambda week=week: tested(found, week))
        for week in range(len(found.held_back))
    ]
    sweeps = {
        way: [
            record.step(
                f"{way}, seed {seed}",
                lambda way=way, seed=seed: tuned(found, way, seed, options.runs),
            )
            for seed in range(options.seeds)
        ]
        for way in WAYS
    }
    _tell(record, found, Tests(weeks), sweeps)
    record.write()


def _tell(
    record: Record, found: Setting, tests: Tests, sweeps: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    chosen = {way: [_key(one["chosen"]) for one in told] for way, told in sweeps.items()}
    rows = []

    def row(name: str, keys: Sequence[str], promised: str, load: str) -> None:
        ratio, low, high = interval(tests.ratios(keys))
        waits = interval(tests.ratios(keys, 1))
        values = f"{tests.mean(keys, 0):.2f}", f"{tests.mean(keys, 1):,.0f} s"
        told = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        waited = f"{waits[0]:.3f} [{waits[1]:.3f}, {waits[2]:.3f}]"
        rows.append([name, load, promised, told, waited, *values, str(len(set(keys)))])
        record.figure(f"{name}: ratio of bounded slowdown", ratio)
        record.figure(f"{name}: ratio of wait", waits[0])

    row("today: fcfs, easy, no split", [tests.today], "", "")
    for way, keys in chosen.items():
        promised = math.exp(statistics.fmean(one["promised"] for one in sweeps[way]))
        load = statistics.fmean(one["load"] for one in sweeps[way])
        row(f"tuned on {way}", keys, f"{promised:.3f}", f"{load:.2f}")
    row("any configuration", tests.every, "", "")
    row("best in hindsight", [tests.best], "", "")
    header = [
        "", "load tuned on", "promised ratio", "bounded slowdown, ratio to today", "wait, ratio",
        "mean bounded slowdown", "mean wait", "different choices",
    ]  # fmt: skip
    table(header, rows)
    pairs = [(way, ON_LOG) for way in WAYS[1:]]
    against: Callable[[str], np.ndarray[Any, Any]] = lambda way: tests.ratios(chosen[way])  # noqa: E731
    lines = []
    for way, other in pairs:
        ratio, low, high = interval(against(way) - against(other))
        lines.append([f"{way} / {other}", f"{ratio:.3f} [{low:.3f}, {high:.3f}]"])
        record.figure(f"{way} over {other}", ratio)
    table(["bounded slowdown on held-back weeks", "ratio"], lines)
    loads = ", ".join(f"{week['load']:.2f}" for week in tests.weeks)
    print(
        f"\n{found.procs:,} processors, {len(tests.every)} configurations; held back: load {loads}"
    )
    print(f"best in hindsight: {tests.best}")
    for way, keys in chosen.items():
        print(f"{way}: " + " | ".join(keys))


if __name__ == "__main__":
    guarded(main)
