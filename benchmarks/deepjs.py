"""Schedulers trained by policy gradient (DeepJS) beside every heuristic, on jobs held back.

``python -m benchmarks.deepjs`` trains one scheduler for each of the three objectives on 1,000
generated jobs of task graphs, and lets it place other jobs: ``--seeds`` draws of 100 jobs each, in
episodes of 10. Heuristics are every order of jobs and tasks with every placement rule (those for
GPUs, which are first fit here, left out), every rule of who is next with every placement and two
orders, HEFT, CPOP, and random pairs. Numbers are objectives over that of first fit, first come
first served, on the same episodes: the mean over draws, with 95 % intervals (draws resampled).
"Best" is the heuristic with the best mean on the very jobs of the test, chosen in hindsight, so the
bar is a little higher than any one rule could promise.

``--part law`` lets the same schedulers place jobs of other laws: deeper and wider graphs with more
varied run times, and (with ``--data``) jobs of CloudSimPy's file, on other machines. ``--part
trainings`` trains for each objective with ``--trainings`` seeds, and resamples seeds and draws; its
heuristics are those of `BEST`. ``--part features`` trains for completion with each set of features,
and ``--part speed`` times a network in Python and in machine code. ``--save DIR`` keeps the
schedulers; those found there are not trained again.
"""

import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import UnknownNameError, backfills_for, known_names
from sim.formats import read_cloudsimpy
from sim.generators import generate, published_model
from sim.model.errors import ScenarioError
from sim.placement import (
    FEATURES,
    REWARD_GIVERS,
    Cpop,
    FinishedJobs,
    Heft,
    LearnedPlacement,
    LearningPlan,
    RandomFit,
    hindsight_bound,
    learn,
    part_of,
    simulate_algorithm,
    simulate_learned,
)
from sim.placement.learned.brain import Brain
from sim.placement.learned.scheduler import TrainingRecord
from sim.placement.learned.training import HIDDEN

GIB = 2**30
N_JOBS, EPISODE, N_TEST = 1000, 10, 100
FIRST_TEST = 1000
"""Seed of the first draw of the test; the training draws with seed 1."""

MACHINES = MachineSpec("m", 8, count=3, mem_bytes=12 * GIB)
LAW: dict[str, Any] = {"jobs_per_day": 4000.0, "depth_high": 6, "width_high": 6}
OTHER_LAW = {"jobs_per_day": 4000.0, "depth_high": 10, "width_high": 10, "runtime_sigma": 1.5}
OBJECTIVES = {giver.name: giver for giver in REWARD_GIVERS}
IN_TURN, FIRST_FIT = "greedy", "fcfs, greedy, first_fit"
BEST = {
    "makespan": "critical_path, greedy, best_fit",
    "slowdown": "upward_rank, least_work, best_fit",
    "completion": "upward_rank, least_work, best_fit",
}
"""The best heuristics on the jobs held back, as `held_back` finds them."""

PASSED = ("fcfs", "upward_rank")
"""Orders that break ties of the rules which ask anew who is next."""

SPEED_JOBS, MOST_IN_PYTHON = (100, 300, 1000), 300
"""Jobs of timed simulations; more than the last number take too long in Python."""

FOR_GPUS = ("gpu_packing", "gpu_clustering", "fgd")
"""Rules that are first fit where nobody asks for a GPU."""


def jobs_of(seed: int, n_jobs: int, law: dict[str, Any]) -> Workload:
    """Draw jobs of task graphs."""
    model = published_model("graphs")
    model = replace(model, parameters={**model.parameters, **law})
    duration_s = 2 * 86_400 * n_jobs / law["jobs_per_day"]
    return generate(model, duration_s=duration_s, seed=seed).head(n_jobs)


def placed(workload: Workload, machines: MachineSpec = MACHINES, **told: Any) -> Scenario:
    """Return the scenario of jobs on machines."""
    cluster = ClusterSpec((Partition.of_machines("main", [machines]),))
    return Scenario(
        workload, cluster, **{"backfill": "greedy", "allocation": "instances"} | told
    )  # fmt: skip


def episodes_of(scenario: Scenario, n_jobs: int = EPISODE) -> Iterator[Scenario]:
    """Yield the parts of a scenario."""
    for first in range(0, scenario.workload.n_jobs - n_jobs + 1, n_jobs):
        yield part_of(scenario, first, n_jobs)


def by_rules(told: dict[str, str], engine: str, one: Scenario) -> Any:
    """Return the result of a scenario with other rules."""
    return simulate(replace(one, **told), engine=engine)  # type: ignore[arg-type]


def heuristics(is_quick: bool) -> dict[str, Callable[[Scenario], Any]]:
    """Return every heuristic by name: a function of a scenario to its result."""
    names = known_names()
    orders = (*names["order"], *names["task_order"])
    rules = [rule for rule in backfills_for("instances") if rule not in ("none", IN_TURN)]
    placements = tuple(name for name in names["placement"] if name not in FOR_GPUS)
    if is_quick:
        orders, rules, placements = PASSED, rules[:1], placements[:2]
    pairs = [(order, IN_TURN) for order in orders]
    pairs += [(order, rule) for rule in rules for order in PASSED]
    found: dict[str, Callable[[Scenario], Any]] = {}
    for order, rule in pairs:
        for placement in placements:
            told = {"order": order, "backfill": rule, "placement": placement}
            found[f"{order}, {rule}, {placement}"] = partial(
                by_rules, told, "interpreted" if is_quick else "compiled"
            )
    found["HEFT"] = lambda one: simulate_algorithm(one, Heft()).result
    found["CPOP"] = lambda one: simulate_algorithm(one, Cpop()).result
    found["random pairs"] = lambda one: simulate_algorithm(one, RandomFit(0)).result
    return found


def measured(
    episodes: list[Scenario], rule: Callable[[Scenario], Any]
) -> dict[str, list[float]] | None:
    """Return the objectives of every episode under a rule; None if it refuses the jobs."""
    found: dict[str, list[float]] = {name: [] for name in OBJECTIVES}
    for one in episodes:
        try:
            jobs = FinishedJobs.of(one, rule(one))
        except (ScenarioError, UnknownNameError):
            return None
        for name, giver in OBJECTIVES.items():
            found[name].append(giver.objective(jobs))
    return found


def trained(
    record: Record, told: Namespace, objective: str, features: str, seed: int | None = None
) -> LearnedPlacement:
    """Return a scheduler, trained now or kept from before; None is the usual seed."""
    seed = told.seed if seed is None else seed
    name = f"deepjs-{objective}-{features}-{seed}.npz"
    path = None if told.save is None else told.save / name
    if path is not None and path.exists():
        return LearnedPlacement.load(path)
    plan = LearningPlan(
        objective, features, iterations=2 if told.quick else told.iterations,
        jobs=EPISODE, parts=1 if told.quick else 4, episodes=2 if told.quick else 8,
        rate=0.03, seed=seed,
    )  # fmt: skip
    began = time.process_time()
    scheduler = learn(
        placed(jobs_of(1, 40 if told.quick else N_JOBS, LAW)), plan,
        progress=lambda p: print(objective, p, flush=True) if told.loud else None,
    )  # fmt: skip
    spent_s = time.process_time() - began
    detail = record.step(
        f"training for {objective} with {features}, seed {seed}",
        lambda: {"cpu_s": spent_s, "curve": [asdict(p) for p in scheduler.record.curve]},
    )
    record.figure(f"training_{objective}_{features}_{seed}_cpu_s", detail["cpu_s"])
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        scheduler.save(path)
    return scheduler


def interval(numbers: list[float] | list[list[float]]) -> tuple[float, float]:
    """Return the 95 % interval of the mean by resampling; of rows, both rows and columns."""
    rng = np.random.default_rng(0)
    array = np.atleast_2d(np.array(numbers))
    rows, columns = (rng.integers(0, n, (10_000, n)) for n in array.shape)
    means = array[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def compared(
    record: Record, told: Namespace, title: str, draws: list[list[Scenario]],
    schedulers: dict[str, LearnedPlacement],
) -> None:  # fmt: skip
    """Print the schedulers beside the heuristics on some draws of episodes."""

    def every() -> dict[str, Any]:
        rules = heuristics(told.quick) | {
            f"trained for {name}": lambda one, it=it: simulate_learned(one, it)
            for name, it in schedulers.items()
        }  # fmt: skip
        found: dict[str, Any] = {}
        for name, rule in rules.items():
            by_draw = [measured(draw, rule) for draw in draws]
            if None not in by_draw:
                found[name] = by_draw
        found["bound"] = [
            {name: [hindsight_bound(one, name) for one in draw] for name in OBJECTIVES}
            for draw in draws
        ]
        return found

    found = record.step(title, every)
    rows = []
    for objective in OBJECTIVES:
        ratios = {
            name: [
                float(np.mean(np.array(mine[objective]) / np.array(usual[objective])))
                for mine, usual in zip(by_draw, found[FIRST_FIT], strict=True)
            ]
            for name, by_draw in found.items()
        }
        rules = [n for n in ratios if n != "bound" and not n.startswith("trained")]
        best = min(rules, key=lambda name: np.mean(ratios[name]))
        ours = ratios[f"trained for {objective}"]
        over = [a / b for a, b in zip(ours, ratios[best], strict=True)]
        low, high = interval(over)
        low_ours, high_ours = interval(ours)
        better = sum(np.mean(ratios[name]) > np.mean(ours) for name in rules)
        record.figure(f"{title}_{objective}_ratio", float(np.mean(ours)))
        record.figure(f"{title}_{objective}_over_best", float(np.mean(over)))
        record.figure(f"{title}_{objective}_better_than", better / len(rules))
        rows.append(
            [objective, f"{np.mean(ours):.3f} ({low_ours:.3f} to {high_ours:.3f})", best,
             f"{np.mean(ratios[best]):.3f}", f"{np.mean(over):.3f} ({low:.3f} to {high:.3f})",
             f"{better} of {len(rules)}", f"{np.mean(ratios['random pairs']):.3f}",
             f"{np.mean(ratios['bound']):.3f}"]
        )  # fmt: skip
    header = [title, "trained", "best heuristic", "its value", "trained over best"]
    table([*header, "better than", "random pairs", "no schedule below"], rows)


def held_back(record: Record, told: Namespace) -> None:
    """Compare on other jobs of the law of the training."""
    schedulers = {name: trained(record, told, name, "jobs") for name in OBJECTIVES}
    draws = [list(episodes_of(placed(jobs_of(seed, told.test, LAW)))) for seed in told.draws]
    compared(record, told, "jobs held back", draws, schedulers)


def trainings(record: Record, told: Namespace) -> None:
    """Compare schedulers of several training seeds on other jobs of the law of the training."""
    draws = [list(episodes_of(placed(jobs_of(seed, told.test, LAW)))) for seed in told.draws]

    def on_draws(rule: Callable[[Scenario], Any]) -> dict[str, Any]:
        return {"draws": [measured(draw, rule) for draw in draws]}

    def ratio(mine: dict[str, list[float]], usual: dict[str, list[float]], name: str) -> float:
        return float(np.mean(np.array(mine[name]) / np.array(usual[name])))

    rules = {}
    for name in (FIRST_FIT, *BEST.values()):
        texts = dict(zip(("order", "backfill", "placement"), name.split(", "), strict=True))
        rule = partial(by_rules, texts, "interpreted")
        rules[name] = record.step(f"trainings, {name}", lambda rule=rule: on_draws(rule))["draws"]
    rows = []
    for objective, best in BEST.items():
        usual, to_first, to_best = rules[FIRST_FIT], [], []
        bars = [ratio(b, u, objective) for b, u in zip(rules[best], usual, strict=True)]
        for seed in range(1, (2 if told.quick else told.trainings) + 1):
            one = trained(record, told, objective, "jobs", seed)
            found = record.step(
                f"trainings, {objective}, seed {seed}",
                lambda one=one: on_draws(lambda scenario: simulate_learned(scenario, one)),
            )["draws"]
            mine = [ratio(m, u, objective) for m, u in zip(found, usual, strict=True)]
            to_first.append(mine)
            to_best.append([a / b for a, b in zip(mine, bars, strict=True)])
        cells = []
        for numbers in (to_first, to_best):
            low, high = interval(numbers)
            cells.append(f"{np.mean(numbers):.3f} ({low:.3f} to {high:.3f})")
        means = np.mean(to_best, axis=1)
        record.figure(f"trainings_{objective}_over_best", float(means.mean()))
        n_better = f"{int((means < 1).sum())} of {len(means)}"
        spread = f"{means.min():.3f} to {means.max():.3f}"
        rows.append([objective, *cells, spread, n_better])
    header = ["training seeds", "trained", "trained over best", "by seed", "seeds that beat it"]
    table(header, rows)


def law(record: Record, told: Namespace) -> None:
    """Compare on jobs of other laws than those of the training."""
    schedulers = {name: trained(record, told, name, "jobs") for name in OBJECTIVES}
    draws = [list(episodes_of(placed(jobs_of(seed, told.test, OTHER_LAW)))) for seed in told.draws]
    compared(record, told, "larger graphs", draws, schedulers)
    if told.data is None:
        return
    file = told.data / "cloudsimpy" / "cloudsimpy_jobs.csv.gz"
    workload = read_cloudsimpy(file, machine_bytes=2**40)
    machines = MachineSpec("m", 64, count=3, mem_bytes=2**40)
    rng = np.random.default_rng(0)
    firsts = rng.choice(workload.n_jobs // EPISODE, len(told.draws), replace=False) * EPISODE
    draws = [[part_of(placed(workload, machines), int(first), EPISODE)] for first in firsts]
    compared(record, told, "CloudSimPy's jobs", draws, schedulers)


def features(record: Record, told: Namespace) -> None:
    """Compare the sets of features, trained for completion."""
    draws = [list(episodes_of(placed(jobs_of(seed, told.test, LAW)))) for seed in told.draws]
    rows = []
    for kind in FEATURES:
        scheduler = trained(record, told, "completion", kind)

        def on_draws(scheduler: LearnedPlacement = scheduler) -> dict[str, Any]:
            found = []
            for draw in draws:
                usual = [measured([one], heuristics(True)[FIRST_FIT]) for one in draw]
                mine = [
                    measured([one], lambda one: simulate_learned(one, scheduler)) for one in draw
                ]
                pairs = zip(mine, usual, strict=True)
                ratios = [m["completion"][0] / u["completion"][0] for m, u in pairs if m and u]
                found.append(float(np.mean(ratios)))
            return {"ratio": found}

        found = record.step(f"features {kind}", on_draws)["ratio"]
        low, high = interval(found)
        record.figure(f"features_{kind}_ratio", float(np.mean(found)))
        told_of = f"{np.mean(found):.3f} ({low:.3f} to {high:.3f})"
        rows.append([kind, str(len(FEATURES[kind])), told_of])
    table(["features", "number", "completion over first fit"], rows)


def speed(record: Record, told: Namespace) -> None:
    """Compare the CPU time of a network in Python and in machine code on overloaded machines."""
    rng = np.random.default_rng(0)
    brain = Brain.untrained(len(FEATURES["jobs"]), HIDDEN, rng)
    scheduler = LearnedPlacement(brain, TrainingRecord("completion", "jobs", 100.0, 0))
    every = placed(jobs_of(1, max(SPEED_JOBS), LAW))
    simulate_learned(part_of(every, 0, EPISODE), scheduler, compiled=True)  # compiles it
    rows = []
    for n_jobs in (EPISODE,) if told.quick else SPEED_JOBS:
        one = part_of(every, 0, n_jobs)

        def timed(one: Scenario = one, n_jobs: int = n_jobs) -> dict[str, Any]:
            found: dict[str, Any] = {"instances": instances_of(one)}
            for engine in ("compiled", "process") if n_jobs <= MOST_IN_PYTHON else ("compiled",):
                began = time.process_time()
                ends_s = simulate_learned(one, scheduler, compiled=engine == "compiled").end_s
                found[engine] = time.process_time() - began
                found[f"{engine}, makespan"] = float(np.nanmax(ends_s))
            return found

        found = record.step(f"speed of {n_jobs} jobs", timed)
        python_s = found.get("process")
        record.figure(f"speed_{n_jobs}_compiled_cpu_s", found["compiled"])
        rows.append(
            [f"{n_jobs:,}", f"{found['instances']:,}", f"{found['compiled']:.2f}",
             "" if python_s is None else f"{python_s:.2f}"]
        )  # fmt: skip
    table(["jobs at once", "instances", "machine code, CPU s", "Python, CPU s"], rows)


def instances_of(scenario: Scenario) -> int:
    """Return the number of task instances of a scenario."""
    tasks = scenario.workload.tasks
    return 0 if tasks is None else tasks.n_instances


PARTS: dict[str, Callable[[Record, Namespace], None]] = {
    "held": held_back, "trainings": trainings, "law": law, "features": features, "speed": speed,
}  # fmt: skip


def main() -> None:
    """Train, compare and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--part", choices=(*PARTS, "all"), default="held")
    options.add_argument("--iterations", type=int, default=100)
    options.add_argument("--seed", type=int, default=1, help="of the training")
    options.add_argument("--trainings", type=int, default=3, help="seeds of --part trainings")
    options.add_argument("--seeds", type=int, default=10, help="draws of the test")
    options.add_argument("--save", type=Path, metavar="DIR")
    options.add_argument("--data", type=Path, help="folder with cloudsimpy")
    options.add_argument("--loud", action="store_true", help="print the progress of the training")
    told = options.parse_args()
    told.draws = list(range(FIRST_TEST, FIRST_TEST + (2 if told.quick else told.seeds)))
    told.test = 2 * EPISODE if told.quick else N_TEST
    record = Record(
        "deepjs", told, [told.seed, *told.draws], free=("part", "trainings", "loud", "save", "data")
    )
    for name, part in PARTS.items():
        if told.part in (name, "all"):
            part(record, told)
    record.write()


if __name__ == "__main__":
    guarded(main)
