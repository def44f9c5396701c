"""Whether generated weeks rank policies as real weeks do.

``python -m benchmarks.policy_ranking --logs DIR`` splits real logs with users (``--traces``, of
UniLu-Gaia, LLNL-Atlas and CEA-Curie) into weeks, holds the last third of them back, six at least,
fits every generator to the weeks before, and generates weeks. Each week, real or generated, is
brought to the same offered load by the same means (``--by gaps``: `scale_load`, which multiplies
the times between submissions; ``--by machine``: as many processors as make that load, jobs wider
than that clipped), begins on an empty machine and is simulated to the end of its last job, under
four orders with and without EASY. Nothing is cut off at the end of the week; jobs that outlive
their request run to their end.

What is told, for each generator, is Kendall's tau between the ranking of the eight policies by mean
bounded slowdown (10 s) in a generated and in a held-back week: the mean over all pairs, with an
interval that draws both weeks anew. The ceiling is the mean tau between two different weeks that
were held back; the weeks before, as they are, stand beside. The same with slowdowns within 10 % of
each other tied, with the first and last seventh of each week left out of the mean (the machine
fills, and empties), and how much worse the policy is that is best on the generated weeks than the
best in hindsight.

``--knob NAME=VALUE`` is for the fits of `three_stage`, `simple_batch` and `naive`; repeat it.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Record, guarded, parser, table
from benchmarks.rankings import Interval, among, between, differs, ranked, regret, tied_share
from sim import ClusterSpec, Scenario, SimulationResult, Workload
from sim.api import (
    ProfileWindow,
    ReadingRules,
    load_workload,
    offered_load,
    simulate_many,
    wait_for_compiler,
)
from sim.generators import Model, fit, generate, scale_load
from sim.generators.cloud.batches import batches_of
from sim.metrics import TAU_S
from sim.model.workload import UNKNOWN

Floats = NDArray[np.float64]

WEEK_S = 7 * 86_400.0
LEAST_HELD, HELD_SHARE = 6, 1 / 3
EDGE = 1 / 7
"""Part of a week that is left out of the mean at its begin, and at its end."""

TIED = 0.1
ORDERS, RULES = ("fcfs", "sjf", "wfp3", "f1"), ("none", "easy")
POLICIES = tuple(f"{order}, {rule}" for order, rule in product(ORDERS, RULES))
GENERATORS = ("three_stage", "simple_batch", "naive", "lublin", "resampling")
CLOUD = GENERATORS[:3]
BEFORE = "the weeks before, as they are"

DROPPED = ReadingRules(requested_missing="drop")
LOGS: dict[str, tuple[str, ReadingRules]] = {
    "gaia": ("UniLu-Gaia-2014-1.swf.gz", ReadingRules()),
    "atlas": ("LLNL-Atlas-2006-2.1-cln.swf.gz", DROPPED),
    "curie": ("CEA-Curie-2011-2.1-cln.swf.gz", DROPPED),
}


def n_weeks(log: Workload) -> int:
    """Return the whole weeks of a log."""
    return int(log.span_s // WEEK_S)


def week_of(log: Workload, week: int, n: int = 1) -> Workload:
    """Return weeks of a log; the first is number 0."""
    return ProfileWindow(from_s=week * WEEK_S, to_s=(week + n) * WEEK_S).of(log)


def held_back(weeks: int) -> int:
    """Return how many of the weeks of a log are held back."""
    return max(LEAST_HELD, int(weeks * HELD_SHARE))


def loaded(week: Workload, load: float, procs: int, by: str) -> tuple[Workload, int]:
    """Return a week at an offered load, and the processors of its machine.

    Args:
        week: real or generated.
        load: that is wanted.
        procs: of the machine of the log.
        by: ``gaps`` changes the times between submissions, ``machine`` the processors.
    """
    if by == "gaps":
        return scale_load(week, load=load, procs=procs), procs
    return week, max(1, round(procs * (offered_load(week, procs) or load) / load))


def slowdowns(scenario: Scenario, result: SimulationResult) -> tuple[float, float]:
    """Return the mean bounded slowdown of all jobs, and without those at the edges of the week."""
    submit_s = scenario.workload.submit_s
    runtime_s = result.end_s - result.start_s
    told = np.maximum((result.end_s - submit_s) / np.maximum(runtime_s, TAU_S), 1.0)
    edge_s = scenario.workload.span_s * EDGE
    inside = (submit_s >= edge_s) & (submit_s <= scenario.workload.span_s - edge_s)
    return float(told.mean()), float(told[inside if inside.any() else slice(None)].mean())


def simulated(week: Workload, options: argparse.Namespace, procs: int) -> dict[str, Any]:
    """Simulate a week under every policy; also tell what its queueing may come from."""
    cpu_s = time.process_time()
    jobs, machine = loaded(week, options.load, procs, options.by)
    scenarios = [
        Scenario(jobs, ClusterSpec.single(machine), order=order, backfill=rule, too_wide="clip")
        for order, rule in product(ORDERS, RULES)
    ]
    told = list(simulate_many(scenarios, each=slowdowns, engine="compiled", threads=1))
    return {
        "all": [one for one, _ in told],
        "inside": [one for _, one in told],
        "jobs": week.n_jobs,
        "load": offered_load(week, procs) or 0.0,
        "machine": machine,
        **shape(jobs, machine),
        "cpu_s": time.process_time() - cpu_s,
    }


def shape(week: Workload, procs: int) -> dict[str, float]:
    """Return what queueing comes from: bursts, batches, wide and long jobs.

    Returns:
        ``hourly_cv``: standard deviation over mean of the work that is submitted in each hour.
        ``batch``: jobs in the batch of the mean job (5 minutes of a user). ``wide``: share of the
        work of jobs that take an eighth of the machine or more. ``long``: share of the work in the
        longest hundredth of the jobs. ``known``: rank correlation of requests and run times.
    """
    work = week.procs * week.runtime_s
    hour = np.floor(week.submit_s / 3600.0).astype(np.int64)
    hourly = np.bincount(hour, work)
    known = (week.user != UNKNOWN).any()
    sizes = batches_of(week)[0].batch_sizes if known else np.ones(1)
    longest = np.argsort(-work)[: max(1, week.n_jobs // 100)]
    ranks = [np.argsort(np.argsort(x)) for x in (week.requested_s, week.runtime_s)]
    return {
        "hourly_cv": float(hourly.std() / hourly.mean()),
        "batch": float((sizes**2).sum() / sizes.sum()),
        "wide": float(work[week.procs >= procs / 8].sum() / work.sum()),
        "long": float(work[longest].sum() / work.sum()),
        "known": float(np.corrcoef(ranks)[0, 1]),
    }


def main() -> None:
    """Simulate, print the tables, write the JSON."""
    taken = parser(__doc__ or "")
    taken.add_argument("--logs", type=Path, required=True, help="folder of SWF logs")
    taken.add_argument("--traces", default="gaia,atlas", help=f"of {', '.join(LOGS)}, with commas")
    taken.add_argument("--generated", type=int, default=30, help="weeks of each generator")
    taken.add_argument("--load", type=float, default=0.85, help="of every week")
    taken.add_argument("--by", choices=("gaps", "machine"), default="gaps")
    taken.add_argument("--knob", action="append", default=[], help="NAME=VALUE, see above")
    options = taken.parse_args()
    names = options.traces.split(",")
    if not set(names) <= set(LOGS):
        taken.error(f"--traces is {options.traces}; known are {', '.join(LOGS)}")
    if options.quick:
        names, options.generated = names[:1], 2
    record = Record("policy_ranking", options, [*range(options.generated)], ("traces", "generated"))
    wait_for_compiler()
    for name in names:
        tell(record, name, *measured(record, name, options))
    record.write()


def measured(
    record: Record, name: str, options: argparse.Namespace
) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Simulate all weeks of a log; return those of each way, and those that were held back."""
    file, rules = LOGS[name]
    log = load_workload(options.logs / file, rules=rules)
    weeks = n_weeks(log)
    first = weeks - held_back(weeks)
    procs = log.max_procs or log.widest_procs

    @cache
    def model(generator: str) -> Model:
        told = dict(one.split("=", 1) for one in options.knob) if generator in CLOUD else {}
        knobs = {knob: float(value) for knob, value in told.items()}
        return fit(generator, week_of(log, 0, first), knobs)

    def step(what: str, made: Callable[[], Workload]) -> dict[str, Any]:
        return record.step(f"{name}, {what}", lambda: simulated(made(), options, procs))

    chosen = range(first, weeks)
    held = [step(f"week {week + 1}", lambda week=week: week_of(log, week)) for week in chosen]  # type: ignore[misc]
    ways = {
        BEFORE: [
            step(f"week {week + 1}", lambda week=week: week_of(log, week))  # type: ignore[misc]
            for week in range(first)
        ]
    }
    for generator in GENERATORS:
        ways[generator] = [
            step(
                f"{generator}, seed {seed}",
                lambda g=generator, s=seed: generate(model(g), duration_s=WEEK_S, seed=s),  # type: ignore[misc]
            )
            for seed in range(options.generated)
        ]
    return ways, held


def tell(
    record: Record,
    name: str,
    ways: Mapping[str, list[dict[str, Any]]],
    held: list[dict[str, Any]],
) -> None:
    """Print what came out of a log, and note the figures."""

    def means(weeks: list[dict[str, Any]], of: str = "all") -> Floats:
        return np.array([week[of] for week in weeks])

    def noted(way: str, what: str, value: float) -> None:
        record.figure(f"{name}, {way}: {what}", value)

    real, real_inside = means(held), means(held, "inside")
    ceiling = among(real)
    rows = [
        [
            f"{len(held)} held-back weeks, among each other", ceiling.shown(),
            among(real, TIED).shown(), among(real_inside).shown(), "", _kept_out(real), "",
        ]
    ]  # fmt: skip
    noted("ceiling", "tau", ceiling.mean)
    noted("ceiling", "tau, 10 % tied", among(real, TIED).mean)
    for way, weeks in ways.items():
        told = between(real, means(weeks))
        tied = between(real, means(weeks), TIED)
        inside = between(real_inside, means(weeks, "inside"))
        gap: Interval | None = None
        if way not in (BEFORE, "resampling"):
            gap = differs(real, means(weeks), means(ways["resampling"]))
            noted(way, "tau less that of resampling", gap.mean)
        rows.append(
            [
                way, told.shown(), tied.shown(), inside.shown(), gap.shown() if gap else "",
                f"{regret(real, means(weeks)):.2f}", ranked(POLICIES, means(weeks))[0],
            ]
        )  # fmt: skip
        for what, one in (("tau", told), ("tau, 10 % tied", tied), ("tau, inside", inside)):
            noted(way, what, one.mean)
        noted(way, "regret", regret(real, means(weeks)))
    table(
        [
            name, "tau with the held-back weeks", "10 % tied", "edges of weeks left out",
            "less that of resampling", "regret", "its best policy",
        ],
        rows,
    )  # fmt: skip
    _shapes(name, {"held back": held, **ways})
    best = ", ".join(ranked(POLICIES, real))
    print(
        f"\n{name}: policies by the held-back weeks, best first: {best}; within 10 % of each other "
        f"are {tied_share(real, TIED):.0%} of the pairs.\n"
    )


def _kept_out(real: Floats) -> str:
    """Return the mean regret of a policy that is chosen on all other held-back weeks."""
    others = [np.delete(real, week, axis=0) for week in range(len(real))]
    told = [regret(real[week : week + 1], rest) for week, rest in enumerate(others)]
    return f"{np.exp(np.log(told).mean()):.2f}"


def _shapes(name: str, ways: Mapping[str, list[dict[str, Any]]]) -> None:
    names = ("jobs", "load", "hourly_cv", "batch", "wide", "long", "known")
    spread = [np.log([week["all"][0] for week in weeks]).std() for weeks in ways.values()]
    rows = []
    for (way, weeks), one in zip(ways.items(), spread, strict=True):
        told = [float(np.median([week[what] for week in weeks])) for what in names]
        slow = [float(np.median([week["all"][i] for week in weeks])) for i in (0, 1)]
        rows.append(
            [way, f"{told[0]:,.0f}", *(f"{value:.2f}" for value in told[1:3]), f"{told[3]:.0f}"]
            + [f"{value:.2f}" for value in told[4:]]
            + [*(f"{value:,.1f}" for value in slow), f"{one:.2f}"]
        )
    table(
        [
            f"{name}, median week", "jobs", "load before scaling", "hourly work, sd / mean",
            "jobs in a job's batch", "work of wide jobs", "work of the longest 1 %",
            "requests and run times, rank correlation", "FCFS slowdown", "with EASY",
            "sd of the log of the first",
        ],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    guarded(main)
