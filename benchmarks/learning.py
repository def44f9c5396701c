"""How many runs an earlier sweep saves: the default strategy with and without ``--learn-from``.

``python -m benchmarks.learning --pairs DIR`` reads measured tables of the same program on different
machines (CSV; ``PROGRAM_MACHINE.csv``) and learns from each for each other one of its program;
``--halves DIR`` takes tables of two parts of a job log (``LOG_1.csv`` and ``LOG_2.csv``), which
``--logs DIR`` makes from real logs where they are not there yet.

* The earlier sweep is one of ours, with the same budget, and its runs are free. Its seed is
  another than that of the sweep that learns from it.
* ``alone`` is the same search without it, with the same seed.
* ``unrelated`` learns from a sweep of the same space whose results were dealt out at random,
  ``hostile`` from one whose ranking is the reverse.
* Printed are medians over the seeds of the runs to within 5 % and 1 % of (median - best), and the
  ratio of runs; not reached within the budget counts as one run more. The intervals are of a
  bootstrap over the pairs; those of one pair over its seeds.
* Beside them is what the source is worth without a model: its runs here, best first ("replay");
  its whole table, best first, as if all of it had been measured; and the better of replay and
  ``alone``, as if one knew in advance which.

Every episode is a step that ``--resume`` keeps.
"""

import argparse
import gzip
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from assistant import AssistantError
from benchmarks.episodes import Method, play
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.runs_to_goal import GOALS, Ratio, ratio_of_log_means, runs_to
from benchmarks.search import parse_seeds, table_problems
from benchmarks.spaces import Problem
from strategies import DEFAULT_STRATEGY, Failure, Observation
from strategies.data.earlier_sweep import EarlierSweep
from strategies.space.errors import SpaceError

SHOWN = ("5 %", "1 %")
ALONE, LEARNING = "alone", "learning"
REPLAY, WHOLE, BETTER = "replay", "replay of the whole table", "better of replay and alone"
LOGS = {
    "theta_2022": 4360, "theta_2023": 4389, "UniLu-Gaia-2014-1": 2004, "lublin_256": 256,
    "CEA-Curie-2011-2.1-cln": 93_312,
}  # fmt: skip
"""Job logs of the halves, with their processors; of others hardly a job waits."""
JOBS = 3_000  # Jobs of each part of a log
EARLIER_SEED = 1_000  # Added to the seed of a sweep for that of the one it learns from
FREE = ("seeds", "pairs", "halves", "logs", "unrelated", "hostile")


@dataclass(frozen=True)
class Pair:
    """An earlier space, and the one that is searched now."""

    source: Problem
    target: Problem

    def moved(self, indices: Sequence[int]) -> NDArray[np.float64]:
        """Return the target's objective of configurations of the source, NaN where it has none."""
        return np.array([self._moved(index) for index in indices])

    def _moved(self, index: int) -> float:
        try:
            values = self.source.space.values(self.source.configuration(index))
            place = self.target.index(self.target.space.from_values(values))
        except (SpaceError, KeyError):
            return math.nan
        return float(self.target.objective[place])

    @property
    def name(self) -> str:
        """Both names, such as "conv_a4000 -> conv_w6600"."""
        return f"{self.source.name} -> {self.target.name}"


def pairs_in(folder: Path) -> list[Pair]:
    """Return the pairs of tables whose names agree up to the last underscore, both directions.

    A table that cannot be searched is named on stderr and left out. Raises `AssistantError` if
    there is no pair.
    """
    paths = sorted(folder.glob("*.csv"))
    problems = [problem for path in paths for problem in table_problems(path, "keep")]
    pairs = [
        Pair(source, target)
        for source in problems
        for target in problems
        if source is not target and _program(source) == _program(target)
    ]
    if not pairs:
        raise AssistantError(
            f"'{folder}' holds no two tables of one program; name them PROGRAM_MACHINE.csv."
        )
    return pairs


def _program(problem: Problem) -> str:
    return problem.name.rpartition("_")[0]


def dealt_out(problem: Problem) -> Problem:
    """Return the problem with the results of its valid runs dealt out at random among them."""
    objective = problem.objective.copy()
    valid = np.flatnonzero(~np.isnan(objective))
    objective[valid] = np.random.default_rng(0).permutation(objective[valid])
    return replace(problem, name=f"{problem.name}, dealt out", objective=objective)


def reversed_ranking(problem: Problem) -> Problem:
    """Return the problem with the results of its valid runs dealt out so that the best is worst.

    >>> from strategies import Parameter, ParameterSpace
    >>> space = ParameterSpace([Parameter("x", (1, 2, 3, 4))])
    >>> problem = Problem("p", "generated", space, np.array([1.0, 5.0, np.nan, 3.0]))
    >>> reversed_ranking(problem).objective.tolist()
    [5.0, 1.0, nan, 3.0]
    """
    objective = problem.objective.copy()
    valid = np.flatnonzero(~np.isnan(objective))
    order = valid[np.argsort(objective[valid], kind="stable")]
    objective[order] = problem.objective[order[::-1]]
    return replace(problem, name=f"{problem.name}, reversed", objective=objective)


def earlier_sweep(problem: Problem, proposals: Sequence[int]) -> EarlierSweep:
    """Return what a sweep over a problem leaves to learn from."""
    observations, failures = [], []
    for index in proposals:
        configuration, value = problem.configuration(index), float(problem.objective[index])
        if np.isnan(value):
            failures.append(Failure(configuration, "not in the table"))
        else:
            observations.append(Observation(configuration, -value))
    return EarlierSweep.of(problem.name, problem.space, observations, failures)


class Measurement:
    """Episodes of one record: played where they are missing."""

    def __init__(self, record: Record, budget: int) -> None:
        self._record, self._budget = record, budget
        self._method = Method.parse(DEFAULT_STRATEGY)

    def alone(self, problem: Problem, seed: int) -> list[int]:
        """Return the proposals of a search without an earlier sweep."""
        return self._proposals(f"{problem.name}, alone, seed {seed}", problem, seed)

    def learning(self, pair: Pair, seed: int) -> list[int]:
        """Return the proposals of a search that learns from a sweep over the source."""
        name = f"{pair.name}, seed {seed}"
        earlier: tuple[EarlierSweep, ...] = ()
        if name not in self._record.body["steps"]:
            source = self.alone(pair.source, seed + EARLIER_SEED)
            earlier = (earlier_sweep(pair.source, source),)
        return self._proposals(name, pair.target, seed, earlier)

    def _proposals(
        self, name: str, problem: Problem, seed: int, earlier: tuple[EarlierSweep, ...] = ()
    ) -> list[int]:
        played: dict[str, Any] = self._record.step(
            name,
            partial(
                play,
                problem,
                self._method,
                seed,
                self._budget,
                python=sys.executable,
                to_optimum=False,
                earlier=earlier,
            ),
        )
        return [int(index) for index in played["proposals"].split()]

    def limits(self, pair: Pair, seed: int) -> dict[str, NDArray[np.float64]]:
        """Return the target's results of what looks good by the source's alone, best first.

        A configuration that the target does not have is a failed run.
        """
        ways = {
            REPLAY: self.alone(pair.source, seed + EARLIER_SEED),
            WHOLE: range(pair.source.size),
        }
        return {way: pair.moved(best_first(pair.source, runs)) for way, runs in ways.items()}


def best_first(problem: Problem, indices: Sequence[int]) -> list[int]:
    """Return those of the indices whose runs do not fail, best first, of equals the earlier."""
    valid = [index for index in indices if not np.isnan(problem.objective[index])]
    return sorted(valid, key=problem.objective.__getitem__)


Runs = dict[str, dict[int, int]]
"""Runs to one goal: by pair, then by seed."""


ByWay = dict[str, Runs]
"""Runs to one goal: alone, learning, and by each of the limits."""


def measure(
    pairs: Sequence[Pair], seeds: Sequence[int], budget: int, record: Record
) -> Mapping[str, ByWay]:
    """Return the runs of searching alone, of learning and of the limits, by goal."""
    measurement = Measurement(record, budget)
    found: dict[str, ByWay] = {goal: {} for goal in SHOWN}
    for pair in pairs:
        for seed in seeds:
            values = {
                LEARNING: pair.target.objective[measurement.learning(pair, seed)],
                ALONE: pair.target.objective[measurement.alone(pair.target, seed)],
            } | measurement.limits(pair, seed)
            sys.stderr.write(f"{pair.name}, seed {seed}\n")
            for goal, ways in found.items():
                at = pair.target.goal(GOALS[goal])
                runs = {way: runs_to(results, at, budget) for way, results in values.items()}
                runs[BETTER] = min(runs[ALONE], runs[REPLAY])
                for way, n in runs.items():
                    ways.setdefault(way, {}).setdefault(pair.name, {})[seed] = n
    return found


def show(kind: str, found: Mapping[str, ByWay], record: Record) -> None:
    """Print one row per pair, one of them all, and one per limit; note the figures."""
    names = list(found[SHOWN[0]][ALONE])
    rows = []
    for name in names:
        row = [name]
        for goal, ways in found.items():
            alone, learning = ways[ALONE][name], ways[LEARNING][name]
            medians = [statistics.median(runs.values()) for runs in (alone, learning)]
            ratio = ratio_over_seeds(learning, alone)
            record.figure(f"{kind}, {name}: {goal}", _value(ratio))
            row.append(f"{medians[0]:g} -> {medians[1]:g} ({ratio})")
        rows.append(row)
    all_pairs = ["all, ratio of runs"]
    for goal, ways in found.items():
        ratio = ratio_of_log_means(ways[LEARNING], ways[ALONE])
        record.figure(f"{kind}: {goal}", _value(ratio))
        of_pairs = [ratio_over_seeds(ways[LEARNING][n], ways[ALONE][n]) for n in names]
        worst = max(_value(one) or 0.0 for one in of_pairs)
        record.figure(f"{kind}, worst pair: {goal}", worst)
        all_pairs.append(f"{ratio}; worst {worst:.2f}")
    rows.append(all_pairs)
    for way in (REPLAY, WHOLE, BETTER):
        row = [f"{way}, ratio of runs"]
        for goal, ways in found.items():
            ratio = ratio_of_log_means(ways[way], ways[ALONE])
            record.figure(f"{kind}, {way}: {goal}", _value(ratio))
            row.append(f"{ratio}")
        rows.append(row)
    table([kind, *(f"runs to {goal}: alone -> learning (ratio)" for goal in found)], rows)


def ratio_over_seeds(ours: Mapping[int, int], theirs: Mapping[int, int]) -> Ratio | None:
    """Return the ratio of a single pair, with an interval over its seeds."""
    return ratio_of_log_means(
        *({f"{seed}": {seed: n} for seed, n in runs.items()} for runs in (ours, theirs))
    )


def _value(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.value


def kinds_of(options: argparse.Namespace) -> Iterator[tuple[str, list[Pair]]]:
    """Yield the kinds of pairs that were asked for."""
    if options.pairs is not None:
        pairs = pairs_in(options.pairs)
        pairs = pairs[:1] if options.quick else pairs
        yield "machines", pairs
        targets = {pair.target.name: pair.target for pair in pairs}.values()
        if options.unrelated:
            yield "unrelated", [Pair(dealt_out(problem), problem) for problem in targets]
        if options.hostile:
            yield "hostile", [Pair(reversed_ranking(problem), problem) for problem in targets]
    if options.halves is not None:
        if options.logs is not None:
            tabulate_halves(options.logs, options.halves)
        yield "halves of logs", pairs_in(options.halves)


def tabulate_halves(logs: Path, folder: Path) -> None:
    """Write tables of schedules of the first and the next `JOBS` jobs of each log of `LOGS`.

    Those that are there already stay. Raises `AssistantError` if a log cannot be tabulated.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for log, procs in LOGS.items():
        for number, part in enumerate(parts_of(logs / f"{log}.swf.gz"), 1):
            out = folder / f"{log}_{number}.csv"
            if out.exists():
                continue
            swf = out.with_suffix(".swf")
            swf.write_text(part)
            done = subprocess.run(
                [
                    sys.executable, "-m", "assistant.cli", "tabulate", "--log", str(swf),
                    "--procs", str(procs), "--out", str(out), "--preset", "paper",
                    "--reading", "unsorted=sort",
                    "--threads", "1", *levels_on(procs),
                ],
                capture_output=True,
                text=True,
                check=False,
            )  # fmt: skip
            swf.unlink()
            if done.returncode != 0:
                raise AssistantError(f"{out.stem} could not be tabulated: {done.stderr.strip()}")
            sys.stderr.write(f"{out.stem} is tabulated\n")


def parts_of(log: Path) -> tuple[str, str]:
    """Return the first and the next `JOBS` jobs of a log (SWF, gzip), as text."""
    with gzip.open(log, "rt") as lines:
        jobs = [line for line in lines if line.strip() and not line.startswith(";")]
    return "".join(jobs[:JOBS]), "".join(jobs[JOBS : 2 * JOBS])


def levels_on(procs: int) -> list[str]:
    """Return the options of the parameters to vary on a cluster of so many processors."""
    small = ",".join(str(procs * share // 32) for share in (0, 1, 2, 4, 8, 12))
    widths = ",".join(str(max(procs // part, 1)) for part in (64, 16, 8, 4, 2))
    return [
        "--order", "fcfs,sjf,saf,lxf", "--backfill", "easy,none",
        "--levels", f"small_procs={small}",
        "--levels", "small_max_requested_s=900,1800,3600,7200,14400,28800",
        "--levels", f"small_max_procs={widths}",
    ]  # fmt: skip


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    add = options_parser.add_argument
    add("--pairs", type=Path, help="folder of tables of programs on several machines (CSV)")
    add("--unrelated", action="store_true", help="learn from results dealt out at random, too")
    add("--hostile", action="store_true", help="learn from results of reversed ranking, too")
    add("--halves", type=Path, help="folder of tables of two parts of job logs")
    add("--logs", type=Path, help="folder of job logs; makes the tables of --halves")
    add("--budget", type=int, default=60, help="runs per episode")
    add("--seeds", default="0-4", help="such as 0-9 or 0,3,7")
    options = options_parser.parse_args()
    if options.quick:
        options.budget, options.seeds = 9, "0"
    seeds = parse_seeds(options.seeds)
    record = Record("learning", options, seeds, FREE)
    for kind, pairs in kinds_of(options):
        show(kind, measure(pairs, seeds, options.budget, record), record)
    record.write()


if __name__ == "__main__":
    guarded(main)
