"""Spaces measured here: real programs, run once for every combination of their parameters.

``python -m benchmarks.measured_spaces --out DIR`` writes one table (CSV) for each program of
`benchmarks.measured_programs`, for ``python -m benchmarks.search --tables DIR``.

* What is minimised stands in the first line of each program; times are CPU seconds, the median of
  three, of one thread. A combination that the program refuses, or that does not arrive, has no row.
* Combinations run in random order, so that a busy hour slows down all levels alike.
* Every run is kept in NAME.part as it ends: another call goes on there. ``--minutes`` ends a call.
* Printed are the rows within 5 % and 1 % of (median - best). A table in which more than one row in
  twenty reaches 1 % has nothing to search for; it goes to the folder ``easy`` in DIR.
* Programs that need ``gcc`` are left out where it is missing.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from assistant import AssistantError
from benchmarks.fresh_spaces import write
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.measured_programs import PROGRAMS, SEED, ProgramSpace
from benchmarks.spaces import Problem

EASY_SHARE = 0.05
QUICK_RUNS = 6
WRITTEN_EVERY = 200  # Runs between two lines of progress


def measured(
    name: str, program: ProgramSpace, folder: Path, deadline_s: float, most: int | None = None
) -> tuple[Problem, int]:
    """Run every combination that NAME.part does not have yet.

    Args:
        name: of the table.
        program: to run.
        folder: of NAME.part.
        deadline_s: of `time.monotonic`, after which no run starts.
        most: number of combinations to run; None for all.

    Returns: the space with NaN for what failed or did not run, and the number of runs.

    Raises:
        AssistantError: NAME.part is of other levels.
    """
    space, path = program.space, folder / f"{name}.part"
    results = _read(path, json.dumps({n: list(ls) for n, ls in program.levels.items()}))
    order = np.random.default_rng(SEED).permutation(space.size)[:most]
    with path.open("a") as file:
        for index in order.tolist():
            if index in results:
                continue
            if time.monotonic() > deadline_s:
                break
            values = space.values(space.configuration(index))
            results[index] = program.result(values)
            file.write(f"{index} {results[index]!r}\n")
            file.flush()
            if len(results) % WRITTEN_EVERY == 0:
                sys.stderr.write(f"{name}: {len(results):,} of {len(order):,} runs\n")
    objective = np.full(space.size, np.nan)
    objective[list(results)] = list(results.values())
    return Problem(name, "measured", space, objective), len(results)


def _read(path: Path, levels: str) -> dict[int, float]:
    """Return the runs of a .part file by index, begun here if it is not there.

    A line that was cut off is taken away. Raises `AssistantError` for other levels.
    """
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")] or [f"{levels}\n"]
    if whole[0] != f"{levels}\n":
        raise AssistantError(
            f"{path} was begun with other levels of its parameters; remove it, and its runs are "
            "measured again."
        )
    path.write_text("".join(whole))
    return {int(line.split()[0]): float(line.split()[1]) for line in whole[1:]}


def finished(problem: Problem, folder: Path) -> Path:
    """Write the table of a space of which every combination ran, in ``easy`` if it is that."""
    is_easy = problem.n_within(0.01) > EASY_SHARE * len(problem.valid)
    target = (folder / "easy" if is_easy else folder) / f"{problem.name}.csv"
    target.parent.mkdir(exist_ok=True)
    write(problem, target)
    return target


def chosen_programs(text: str | None) -> list[str]:
    """Return the names of ``--only``, or all; raises `AssistantError` for another name."""
    names = list(PROGRAMS) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PROGRAMS:
            raise AssistantError(f"--only '{name}' is no program; there are {', '.join(PROGRAMS)}.")
    return names


def main() -> None:
    """Measure, print one row per space, write the tables and the JSON."""
    options_parser = parser(__doc__ or "")
    add = options_parser.add_argument
    add("--out", type=Path, help="folder of the tables; begun ones go on")
    add("--only", help="comma list of programs; all if not given")
    add("--minutes", type=float, default=60.0, help="start no run after so long")
    options = options_parser.parse_args()
    if options.out is None and not options.quick:
        options_parser.error("--out: name the folder that the tables go to")
    if options.out is not None and options.out.is_file():
        options_parser.error(f"--out '{options.out}' is a file; name a folder")
    names, most = chosen_programs(options.only), QUICK_RUNS if options.quick else None
    deadline_s = time.monotonic() + 60 * options.minutes
    record, rows = Record("measured_spaces", options, [SEED]), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name.startswith("gcc") and shutil.which("gcc") is None:
                rows.append([name, "", "", "", "left out: no gcc here"])
                continue
            problem, n_runs = measured(name, PROGRAMS[name](), folder, deadline_s, most)
            is_whole = n_runs == problem.size
            rows.append(_row(problem, n_runs, finished(problem, folder) if is_whole else None))
            record.figure(f"{name}: rows", len(problem.valid))
            record.figure(f"{name}: failed runs", n_runs - len(problem.valid))
    table(["space", "runs", "failed", "rows within 5 % / 1 %", "table"], rows)
    record.write()


def _row(problem: Problem, n_runs: int, path: Path | None) -> list[str]:
    n = len(problem.valid)
    shares = (problem.n_within(share) / n for share in (0.05, 0.01)) if n else ()
    done = f"not yet: {n_runs:,} of {problem.size:,} ran" if path is None else str(path)
    within = " / ".join(f"{share:.1%}" for share in shares)
    return [problem.name, f"{n_runs:,}", f"{n_runs - n:,}", within, done]


if __name__ == "__main__":
    guarded(main)
