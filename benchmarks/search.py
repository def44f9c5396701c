"""How many runs a search needs: our strategies beside other packages, same spaces and seeds.

``python -m benchmarks.search --tables DIR --methods random,copper,tpe,gpsampler,smac,botorch``
measures every table of that folder (CSV, parameter columns and ``objective``); ``--generated`` adds
spaces of known families, ``--drawn`` of many laws, ``--one-hot`` samples of a program's builds,
``--scheduling DIR`` tables of simulated schedules, which ``--logs DIR`` makes from real logs where
they are not there yet. The kinds are told apart: the measured tables are the headline.

* A method is a registered strategy or a peer, with options as in ``copper:effects=least_squares``,
  ``copper:exploitation=0.7`` or ``tpe:failed=fail``. Peers: gpsampler and tpe (Optuna), smac,
  botorch, kernel-tuner-vndx, kernel-tuner-greywolf, nevergrad, nevergrad-discrete;
  ``--python-of smac=PATH`` names the interpreter that has one.
* ``--alternatives both`` searches a table with columns of 0 and 1 that exclude each other as it is,
  and with one parameter in place of each set of them ("NAME, merged").
* All search the full product of levels. Every proposal is a run, a repeated one too; a missing
  combination is a failed run. Of a table with less than one in a hundred of its combinations only
  the rows are searched: a peer that cannot be given them runs the row nearest to its proposal.
* Peers get ranks of numbers with three levels or more, categories otherwise, and are at their
  defaults, first runs included (`benchmarks.peers.search_child`).
* Printed are medians over the seeds of the runs to within 5 % and 1 % of (median - best), and to
  the optimum; not reached within the budget counts as one run more. How many of a space's rows
  would do stands beside it: where there are many, there is little to show.
* A last table has the ratios by trait of the spaces, of all kinds together: where runs fail, where
  none does, two levels each, few rows that would do, plateaus, noise.
* ``--noise 0.2`` adds noise to every run, of this share of (median - best). A method may repeat
  runs; ours repeat what they would recommend, and its rivals, in their last quarter as a sweep
  does, ``grasp:confirm=2`` in two. Runs to a goal are then by the true values, and a table has the
  true regret of what would be recommended, by one rule for all methods, `strategies.choose`.
* Ratios compare one method (``--against``) with each other one, over the seeds that both have,
  with 95 % intervals of a bootstrap over the spaces.
* Seconds per suggestion are CPU seconds of asking and telling, on one thread.

Every episode is a step that ``--resume`` keeps; ``--from FILE`` takes episodes from another
result too, and with ``--only-known`` none is played. ``--stop-at-optimum`` ends an episode there:
no runs to a goal change, but repeats, failures and seconds are then counted up to there.
"""

import argparse
import inspect
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from assistant import AssistantError
from assistant.session.opening import build_opened_event
from benchmarks.drawn_spaces import TEST_FUNCTIONS, drawn_space, test_space
from benchmarks.episodes import Method, play
from benchmarks.fresh_spaces import fresh_tables
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.peers.searches import NAMES as PEERS
from benchmarks.peers.searches import peer
from benchmarks.runs_to_goal import (
    GOALS,
    Ratio,
    mean_with_interval,
    n_duplicates,
    ratio_of_log_means,
    ratio_of_medians,
    runs_to,
)
from benchmarks.spaces import (
    FAMILIES,
    Kind,
    Problem,
    from_table,
    generated,
    merged_from_table,
    one_hot,
)
from strategies import STRATEGIES, StrategyError

SPACES_PER_FAMILY = 2
RULES = ("--order", "fcfs,sjf", "--backfill", "easy,none")
LOGS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "theta_2022": ("theta_2022", ("--first", "5000")),
    "gaia": ("UniLu-Gaia-2014-1", ("--first", "5000")),
    "hpc2n": ("alea-hpc2n-subset", ()),
    "theta_2022_rules": (
        "theta_2022",
        (
            "--first", "5000", *RULES,
            "--levels", "small_procs=0,24,73,121,194,267,340,413,461,510",
            "--levels", "small_max_requested_s=1800,3600,7200,14400,21600,28800,57600,86400",
            "--levels", "small_max_procs=128,183,313,537,1099,1880,2691,3850",
        ),
    ),
    "gaia_rules": (
        "UniLu-Gaia-2014-1",
        (
            "--first", "5000", *RULES,
            "--levels", "small_procs=0,86,258,430,601,859,1117,1374,1632,1804",
            "--levels", "small_max_requested_s=600,2700,10800,28800,43200,86400,259200,432000",
            "--levels", "small_max_procs=1,2,4,7,12,28,66,200",
        ),
    ),
}  # fmt: skip
"""Simulated tables: a log and the options of ``copperline tabulate``; the paper's 22 x 20 x 20
levels, and coarser ones with queue order and backfill beside them. LLNL-Atlas is none of them: so
little of it waits that a third of all combinations is within 5 %."""

FREE = (
    "tables", "alternatives", "generated", "drawn", "one_hot", "columns", "test_spaces",
    "fresh", "scheduling", "logs", "methods", "against", "seeds", "jobs",
    "stop_at_optimum", "python_of", "taken", "only_known", "noise",
)  # fmt: skip
"""Options that may change between resumed calls: an episode's name says what it is of."""


@dataclass(frozen=True)
class Played:
    """What one method did on one space.

    Args:
        problem: the space.
        episodes: the detail of every episode, by seed.
        budget: runs that each could have.
    """

    problem: Problem
    episodes: Mapping[int, Mapping[str, Any]]
    budget: int

    def proposals(self, seed: int) -> list[int]:
        """Return the indices of the runs in order."""
        return [int(index) for index in self.episodes[seed]["proposals"].split()]

    def runs(self, goal: str) -> dict[int, int]:
        """Return the runs to a goal, by seed."""
        at = self.problem.goal(GOALS[goal])
        return {
            seed: runs_to(self.problem.objective[self.proposals(seed)], at, self.budget)
            for seed in self.episodes
        }

    def regrets(self) -> dict[int, float]:
        """Return the true regret of what is recommended, by seed; 1 where nothing is."""
        places = {seed: told.get("recommended") for seed, told in self.episodes.items()}
        return {s: 1.0 if i is None else self.problem.regret(i) for s, i in places.items()}

    def told(self, goal: str) -> str:
        """Return the median, or ">100"."""
        median = statistics.median(self.runs(goal).values())
        return f"{median:g}" if median <= self.budget else f">{self.budget}"


Results = dict[str, dict[str, Played]]
"""By method, then by space."""


def step_name(problem: Problem, method: Method, seed: int) -> str:
    """Return the name of an episode in the result."""
    return f"{problem.name}, {method.text}, seed {seed}"


def measure(
    problems: Sequence[Problem],
    methods: Sequence[Method],
    seeds: Sequence[int],
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Play every episode that the record does not have yet."""
    pythons = pythons_of(options)
    episodes = {
        step_name(problem, method, seed): partial(
            play,
            problem,
            method,
            seed,
            options.budget,
            python=pythons.get(method.name, sys.executable),
            to_optimum=options.stop_at_optimum,
        )
        for method in methods
        for problem in problems
        for seed in seeds
        if step_name(problem, method, seed) not in record.body["steps"]
    }
    for method in methods:  # what is not there is said before anything is measured
        if method.is_peer and episodes:
            peer(method.name, pythons.get(method.name, sys.executable))
    for name, told in _in_turn(episodes, options.jobs):
        record.step(name, partial(_given, told))
        sys.stderr.write(f"{name}: {told['cpu_s']:.1f} s\n")


def collect(
    problems: Sequence[Problem], methods: Sequence[Method], seeds: Sequence[int], record: Record
) -> Results:
    """Return what the record has of the episodes that were asked for."""
    steps, budget = record.body["steps"], record.body["budget"]
    results: Results = {}
    for method in methods:
        for problem in problems:
            names = {seed: step_name(problem, method, seed) for seed in seeds}
            found = {seed: steps[name] for seed, name in names.items() if name in steps}
            if found:
                played = Played(problem, found, budget)
                results.setdefault(method.text, {})[problem.name] = played
    return results


def _given(told: dict[str, Any]) -> dict[str, Any]:
    return told


def _in_turn(
    episodes: Mapping[str, partial[dict[str, Any]]], jobs: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    if jobs == 1:
        for name, episode in episodes.items():
            yield name, episode()
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(episode): name for name, episode in episodes.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def tabulated(logs: Path | None, folder: Path) -> list[Path]:
    """Return the tables of simulated schedules in a folder, made first where a log is given.

    Raises `AssistantError` if a log cannot be tabulated.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, (log, more) in LOGS.items() if logs is not None else ():
        out = folder / f"{name}.csv"
        if out.exists():
            continue
        command = [sys.executable, "-m", "assistant.cli", "tabulate", "--out", str(out), *more]
        done = subprocess.run(
            [*command, "--log", f"{logs}/{log}.swf.gz"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssistantError(f"{name} could not be tabulated: {done.stderr.strip()}")
    return sorted(folder.glob("*.csv"))


def print_spaces(kind: Kind, results: Results) -> None:
    """Print one row per space: the medians of every method."""
    goals = " / ".join(GOALS)
    rows = []
    found = {name: one.problem for by_space in results.values() for name, one in by_space.items()}
    for name, problem in found.items():
        within = " / ".join(f"{problem.n_within(share):,}" for share in GOALS.values())
        played = [by_space.get(name) for by_space in results.values()]
        cells = [
            "-" if one is None else " / ".join(one.told(goal) for goal in GOALS) for one in played
        ]
        rows.append([name, f"{within} of {len(problem.valid):,}", *cells])
    table([f"{kind} space", f"rows within {goals}", *results], rows)


def print_methods(kind: Kind, results: Results, record: Record) -> None:
    """Print one row per method: how often it arrived, what it wasted, what it took."""
    rows = []
    for method, by_space in results.items():
        told = [
            (played, seed, played.proposals(seed))
            for played in by_space.values()
            for seed in played.episodes
        ]
        n_runs = sum(len(proposals) for _, _, proposals in told)
        repeats = sum(n_duplicates(proposals) for _, _, proposals in told)
        failed = sum(
            int(np.isnan(played.problem.objective[proposals]).sum())
            for played, _, proposals in told
        )
        cpu_s = sum(played.episodes[seed]["cpu_s"] for played, seed, _ in told)
        slowest_s = max(played.episodes[seed]["slowest_s"] for played, seed, _ in told)
        reached = []
        for goal in GOALS:
            runs = [n for played in by_space.values() for n in played.runs(goal).values()]
            reached.append(sum(n <= record.body["budget"] for n in runs) / len(runs))
            record.figure(f"{kind}, {method}: reached {goal}", reached[-1])
        record.figure(f"{kind}, {method}: CPU s per suggestion", cpu_s / n_runs)
        record.figure(f"{kind}, {method}: repeats per run", repeats / n_runs)
        programs = sorted({played.episodes[seed]["by"] for played, seed, _ in told})
        rows.append(
            [
                method, ", ".join(programs), f"{len(told)}",
                " / ".join(f"{share:.0%}" for share in reached),
                f"{repeats / n_runs:.1%}", f"{failed / n_runs:.1%}",
                f"{cpu_s / n_runs:.4f}", f"{slowest_s:.3f}",
            ]
        )  # fmt: skip
    header = ["program", "episodes", f"reached {' / '.join(GOALS)}", "repeats", "failed runs"]
    table([f"{kind}: method", *header, "CPU s a suggestion", "slowest"], rows)


def print_ratios(kind: Kind, against: str, results: Results, record: Record) -> None:
    """Print how many times the runs of each other method the one in question needs."""
    rows = []
    for method in results:
        if method == against:
            continue
        cells = []
        for goal in GOALS:
            ours, theirs = (
                {space: played.runs(goal) for space, played in results[one].items()}
                for one in (against, method)
            )
            for name, compare in (("medians", ratio_of_medians), ("logs", ratio_of_log_means)):
                found: Ratio | None = compare(ours, theirs)
                cells.append("-" if found is None else str(found))
                record.figure(
                    f"{kind}, {against} against {method}: {goal}, {name}",
                    None if found is None else found.value,
                )
        rows.append([method, *cells])
    header = [f"{goal}, {name}" for goal in GOALS for name in ("medians", "mean logs")]
    if rows:
        table([f"{kind}: runs of {against} / runs of", *header], rows)


def print_recommended(kind: Kind, against: str, results: Results, record: Record) -> None:
    """Print the true regret of what each method recommends; without any result it is of 1."""
    regrets = {
        method: {name: played.regrets() for name, played in found.items()}
        for method, found in results.items()
    }
    rows = []
    for method, by_space in regrets.items():
        mean = statistics.fmean(statistics.fmean(seeds.values()) for seeds in by_space.values())
        reached = [one <= GOALS["5 %"] for seeds in by_space.values() for one in seeds.values()]
        less = [
            statistics.fmean(ours[seed] - by_space[name][seed] for seed in both)
            for name, ours in regrets[against].items()
            if (both := ours.keys() & by_space.get(name, {}).keys())
        ]
        difference = mean_with_interval(less) if less and method != against else "-"
        record.figure(f"{kind}, {method}: true regret of the recommended", mean)
        rows.append([method, f"{mean:.3f}", f"{statistics.fmean(reached):.0%}", difference])
    head = ["true regret of the recommended", "within 5 %", f"regret of {against} less this"]
    table([f"{kind}: method", *head], rows)


TRAITS: Mapping[str, Callable[[Problem], bool]] = {
    "some runs fail": lambda problem: problem.n_failing > 0,
    "no run fails": lambda problem: problem.n_failing == 0,
    "two levels each": lambda problem: all(p.n_levels <= 2 for p in problem.space.parameters),
    "at most 0.1 % within 5 %": lambda problem: (
        problem.n_within(GOALS["5 %"]) <= FEW_TARGETS * problem.size
    ),
    "half of the results are repeated": lambda problem: (
        2 * len(np.unique(problem.valid)) <= len(problem.valid)
    ),
    "noise by construction": lambda problem: bool(problem.noise or problem.run_noise),
}
"""What spaces are compared by: each trait follows from the results of all configurations, but for
the noise, which only the author of a space knows."""
FEW_TARGETS = 0.001


def print_by_trait(against: str, results: Results, record: Record) -> None:
    """Print the ratios of `print_ratios`, of logarithms, over the spaces that share a trait."""
    rows = []
    for trait, has in TRAITS.items():
        names = {name for name, played in results[against].items() if has(played.problem)}
        row = [trait, f"{len(names)}"]
        for method in results:
            for goal in ("5 %", "1 %") if method != against else ():
                ours, theirs = (
                    {n: played.runs(goal) for n, played in results[one].items() if n in names}
                    for one in (against, method)
                )
                ratio = ratio_of_log_means(ours, theirs)
                row.append("-" if ratio is None else str(ratio))
                value = None if ratio is None else ratio.value
                record.figure(f"{trait}, {against} against {method}: {goal}", value)
        rows.append(row)
    others = [method for method in results if method != against]
    if others:
        head = [f"{method}, {goal}" for method in others for goal in ("5 %", "1 %")]
        table([f"spaces by trait: runs of {against} / runs of", "spaces", *head], rows)


def table_problems(path: Path, alternatives: str) -> list[Problem]:
    """Return the spaces of a measured table: as it is, with alternatives merged, or both.

    A space that cannot be searched is named on stderr and left out.
    """
    problems = []
    try:
        merged = None if alternatives == "keep" else merged_from_table(path)
        problems += [] if merged is None else [merged]
        if merged is None or alternatives == "both":
            problems += [from_table(path)]
    except (AssistantError, StrategyError) as error:
        sys.stderr.write(f"left out: {error}\n")
    return problems


def problems_of(options: argparse.Namespace) -> list[Problem]:
    """Return every space that was asked for."""
    paths = [] if options.tables is None else sorted(options.tables.glob("*.csv"))
    problems = [
        problem
        for path in (paths[:2] if options.quick else paths)
        for problem in table_problems(path, options.alternatives)
    ]
    named = ("tables", "scheduling", "drawn", "one_hot", "test_spaces", "fresh")
    unnamed = not any(getattr(options, name) for name in named)
    if options.generated or (options.quick and unnamed):
        seeds = range(1 if options.quick else SPACES_PER_FAMILY)
        problems += [generated(family, seed) for family in FAMILIES for seed in seeds]
    if options.drawn:
        problems += [drawn_space(number) for number in parse_seeds(options.drawn)]
    if options.one_hot:
        problems += [one_hot(seed, options.columns) for seed in parse_seeds(options.one_hot)]
    if options.test_spaces:
        drawn = parse_seeds(options.test_spaces)
        problems += [test_space(name, seed) for name in TEST_FUNCTIONS for seed in drawn]
    if options.fresh is not None:
        problems += [from_table(path, "fresh") for path in fresh_tables(options.fresh)]
    if options.scheduling is not None:
        problems += [
            from_table(path, "simulated") for path in tabulated(options.logs, options.scheduling)
        ]
    return [noisy(problem, options.noise) for problem in problems]


def noisy(problem: Problem, share: float) -> Problem:
    """Return the problem with noise in every run; as it is if the share is 0."""
    if not share:
        return problem
    return replace(problem, name=f"{problem.name}, noise {share:g}", run_noise=share)


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    add_options(options_parser, seeds="0-9")
    options_parser.add_argument("--against", help="the method of the ratios; default: ours")
    options = options_parser.parse_args()
    if options.quick:
        options.budget, options.seeds = 12, "0"
    problems, methods = asked_for(options, options_parser)
    default = inspect.signature(build_opened_event).parameters["strategy"].default
    against = options.against or default
    if options.against and against not in [method.text for method in methods]:
        options_parser.error(f"--against '{against}' is none of the methods")
    os.environ["OMP_NUM_THREADS"] = "1"
    seeds = parse_seeds(options.seeds)
    record = Record("search", options, seeds, FREE)
    record.body["budget"] = options.budget
    record.body["steps"] |= episodes_elsewhere(options)
    if not options.only_known:
        measure(problems, methods, seeds, options, record)
    results = collect(problems, methods, seeds, record)
    if not results:
        options_parser.error("--only-known, but none of these episodes is known")
    for kind in get_args(Kind):
        of_kind = {
            method: {name: one for name, one in found.items() if one.problem.kind == kind}
            for method, found in results.items()
        }
        of_kind = {method: found for method, found in of_kind.items() if found}
        if not of_kind:
            continue
        print_spaces(kind, of_kind)
        print_methods(kind, of_kind, record)
        if against in of_kind:
            print_ratios(kind, against, of_kind, record)
            if options.noise:
                print_recommended(kind, against, of_kind, record)
    if against in results:
        print_by_trait(against, results, record)
    record.write()


def add_options(options_parser: argparse.ArgumentParser, seeds: str) -> None:
    """Add the options that say which episodes there are."""
    add = options_parser.add_argument
    add("--tables", type=Path, help="folder of measured tables (CSV)")
    add(
        "--alternatives",
        choices=["merge", "keep", "both"],
        default="merge",
        help="columns of 0 and 1 that exclude each other: one parameter, each one, or both ways",
    )
    add("--generated", action="store_true", help="spaces of known families, too")
    add("--drawn", help="numbers of drawn spaces of many laws, such as 0-299")
    add("--one-hot", help="seeds of samples of builds, a column per feature, such as 0-11")
    add("--columns", type=int, default=0, help="columns of --one-hot; 20 to 60, drawn, if 0")
    add("--test-spaces", help="published test functions, grids drawn by seed, such as 0-1")
    add("--fresh", type=Path, help="folder of tables to judge a forecast on; made if not there")
    add("--scheduling", type=Path, help="folder of tables of simulated schedules")
    add("--logs", type=Path, help="folder of job logs; makes the tables of --scheduling")
    add("--methods", help="comma list; every registered strategy if not given")
    add("--budget", type=int, default=100, help="runs per episode")
    add("--seeds", default=seeds, help="such as 0-9 or 0,3,7")
    add("--jobs", type=int, default=1, help="episodes at once")
    add("--noise", type=float, default=0.0, help="of every run, as a share of (median - best)")
    add("--stop-at-optimum", action="store_true", help="end an episode that found the optimum")
    add("--python-of", action="append", default=[], metavar="PEER=PATH", help="its interpreter")
    add("--from", dest="taken", type=Path, action="append", default=[], help="another result")
    add("--only-known", action="store_true", help="play nothing, show what is there")


def asked_for(
    options: argparse.Namespace, options_parser: argparse.ArgumentParser
) -> tuple[list[Problem], list[Method]]:
    """Return the spaces and the methods; ends the program where there is none."""
    if not 0 <= options.noise < math.inf:
        options_parser.error("--noise is a share of (median - best), 0 or more")
    if options.logs is not None and options.scheduling is None:
        options_parser.error("--logs makes tables: name the folder they go to with --scheduling")
    problems = problems_of(options)
    if not problems:
        options_parser.error(
            "no space: name --tables DIR, --scheduling DIR, --fresh DIR, --generated, --drawn, "
            "--one-hot or --test-spaces"
        )
    texts = (options.methods or ",".join(STRATEGIES)).split(",")
    return problems, [Method.parse(text.strip()) for text in texts]


def pythons_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the interpreters of ``--python-of``; raises `AssistantError` for another form."""
    pythons = {}
    for text in options.python_of:
        name, equals, path = text.partition("=")
        if not equals or name not in PEERS:
            raise AssistantError(
                f"--python-of '{text}' names no interpreter; write PEER=PATH with one of "
                f"{', '.join(PEERS)}."
            )
        pythons[name] = path
    return pythons


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of "0-9" or "0,3,7"; raises `AssistantError` for other texts."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise AssistantError(f"--seeds '{text}' are no seeds; write 0-9 or 0,3,7.") from None
    return seeds


def episodes_elsewhere(options: argparse.Namespace) -> dict[str, Any]:
    """Return the episodes of the results named with ``--from``.

    Raises `AssistantError` for a result of another benchmark or another budget.
    """
    known: dict[str, Any] = {}
    for path in options.taken:
        try:
            body = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise AssistantError(f"--from '{path}' cannot be read: {error}.") from None
        if body.get("subject") != "search" or body.get("budget") != options.budget:
            raise AssistantError(
                f"--from '{path}' is no result of this benchmark with {options.budget} runs."
            )
        known |= body["steps"]
    return known


if __name__ == "__main__":
    guarded(main)
