"""What simulated analysts cost: microseconds per run, compiled and through a session.

``python -m benchmarks.agents --part episode`` plays the same short episodes twice, on a space of
8,800 configurations (22 x 20 x 20; or on ``--table FILE``): through a `Session`, which explains
and keeps everything, and in the compiled loop (`agents.compiled`). It counts the episodes that
came out otherwise, which must be none. Beside them are whole episodes of the compiled loop, until
the optimum is found or half the space is run. ``--part shapes`` plays every cell of the paper's
figure 6 on generated spaces of its three shapes, on one core. CPU seconds of this process; what is
compiled, or loaded from the cache, once per process is not counted.

``--part scripted`` plays the analysts of `docs/howto/analysts.md` (a function, and an MCP client in
a process of its own) beside simulated ones, with the same budgets on flood, maze and two generated
spaces.

``--part figure6`` is all of figure 6 as a person waits for it: on the measured spaces of flood,
scheduling and maze (kept in ``--spaces FOLDER``), with processes, files, verdicts and report.
"""

import argparse
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from agents import (
    Cell,
    Script,
    StoppingRule,
    Study,
    Table,
    Truth,
    play_episode,
    play_study,
)
from agents.studies.results import MeanInterval
from agents.studies.study_runner import can_compile, play_compiled
from assistant import AssistantError
from assistant.applications.lookup import Lookup
from assistant.simtools.measured_tables import paper_table
from benchmarks import figure6 as whole
from benchmarks.harness import Record, guarded, parser, table

SEED = 10
SHAPES = {"6x6x6x6": (6, 6, 6, 6), "22x20x20": (22, 20, 20), "3x3x2x3": (3, 3, 2, 3)}
"""Figure 5 of the paper: IFM, SchedSim, Maze Runner."""

SHORT_RUNS = 200
CONFIDENCES = (0, 50, 100)


def landscape(shape: tuple[int, ...]) -> Truth:
    """Return a space of a shape."""
    return Truth.of(Lookup.parse(landscape_text(shape), "a generated space"))


def landscape_text(shape: tuple[int, ...]) -> str:
    """Return a table: a slope, interactions and noise, one run in fifty failing."""
    rng = np.random.default_rng(SEED)
    lines = [",".join([*(f"p{i}" for i in range(len(shape))), "objective"])]
    slopes, bends = rng.uniform(0.5, 2.0, len(shape)), rng.uniform(0.0, 1.0, len(shape))
    for ids in np.ndindex(*shape):
        at = np.array(ids) / (np.array(shape) - 1)
        crossed = sum(bends[i] * abs(at[i] - at[i - 1]) for i in range(len(shape)))
        value = 100 + 100 * float(slopes @ at**1.5) + 100 * float(crossed) + 5 * rng.normal()
        if not any(ids) or rng.random() >= 0.02:
            lines.append(",".join([*map(str, ids), repr(value)]))
    return "\n".join(lines) + "\n"


def measured(path: Path | None, shape: str) -> Truth:
    """Return a measured table, or a generated space."""
    return landscape(SHAPES[shape]) if path is None else Truth.of(Lookup.read(path))


def study(size: int, most_runs: int, **axes: Any) -> Study:
    """Return a study that gives up after so many runs."""
    stop = StoppingRule(censored_at=min(1.0, most_runs / size))
    return Study("benchmark", (Table("space", "-"),), seed=SEED, stop=stop, **axes)


def episode(
    truth: Truth, insight: str, confidence: int, learning: bool, short: int, whole: int
) -> dict[str, Any]:
    """Play one cell both ways; ``short`` episodes of each, and ``whole`` compiled ones."""
    axes: dict[str, Any] = {
        "insights": (insight,), "confidences": (confidence,), "learning": (learning,),
    }  # fmt: skip
    brief = study(truth.size, SHORT_RUNS, **axes)
    until_half = study(truth.size, math.floor(truth.size / 2), **axes)
    (cell,) = brief.cells()
    if not can_compile(brief, cell, truth):
        raise AssistantError("nothing can be compiled here; unset NUMBA_DISABLE_JIT")
    play_compiled(brief, cell, truth, 0)  # what is compiled once
    play_compiled(until_half, cell, truth, 0)
    return {
        **_both(brief, cell, truth, short),
        **_compiled(until_half, cell, truth, whole),
    }


def _both(brief: Study, cell: Cell, truth: Truth, n: int) -> dict[str, Any]:
    started_s = time.process_time()
    ours = [play_compiled(brief, cell, truth, i) for i in range(n)]
    compiled_s = time.process_time() - started_s
    started_s = time.process_time()
    theirs = [play_episode(brief, cell, truth, i) for i in range(n)]
    session_s = time.process_time() - started_s
    runs = sum(one.runs for one in ours)
    return {
        "short_episodes": n,
        "short_runs": runs,
        "short_us": compiled_s / runs * 1e6,
        "session_us": session_s / runs * 1e6,
        "differing": sum(a != b for a, b in zip(ours, theirs, strict=True)),
    }


def _compiled(asked: Study, cell: Cell, truth: Truth, n: int) -> dict[str, Any]:
    started_s = time.process_time()
    played = [play_compiled(asked, cell, truth, i) for i in range(n)]
    seconds = time.process_time() - started_s
    runs = [one.runs for one in played]
    return {
        "episodes": n,
        "mean_runs": float(np.mean(runs)),
        "censored": sum(one.censored for one in played),
        "compiled_us": seconds / sum(runs) * 1e6,
    }


def figure6(shape: str, replications: int) -> dict[str, Any]:
    """Play every cell of figure 6 on a generated space of a shape."""
    truth = landscape(SHAPES[shape])
    asked = study(truth.size, math.floor(truth.size / 2), replications=replications)
    cells = asked.cells()
    for cell in cells[:: len(cells) - 1]:
        play_compiled(asked, cell, truth, 0)
    started_s, runs = time.process_time(), 0
    for cell in cells:
        runs += sum(play_compiled(asked, cell, truth, i).runs for i in range(replications))
    seconds = time.process_time() - started_s
    return {
        "cells": len(cells),
        "episodes": len(cells) * replications,
        "runs": runs,
        "cpu_s": seconds,
        "us_per_run": seconds / runs * 1e6,
    }


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options_parser.add_argument(
        "--part", choices=("episode", "shapes", "scripted", "figure6", "all"), default="all"
    )
    options_parser.add_argument("--table", type=Path, help="a measured table, for episodes")
    options_parser.add_argument("--replications", type=int, default=500, help="of figure 6")
    options_parser.add_argument("--workers", type=int, default=os.cpu_count(), help="of figure 6")
    options_parser.add_argument("--seeds", type=int, default=10, help="of scripted analysts")
    options_parser.add_argument("--spaces", type=Path, help="folder of the measured spaces")
    options = options_parser.parse_args()
    record = Record("agents", options, [SEED])
    if options.part in ("episode", "all"):
        _episodes(record, options)
    if options.part in ("shapes", "all"):
        _shapes(record, options)
    if options.part in ("scripted", "all"):
        _scripted(record, options)
    if options.part in ("figure6", "all"):
        _figure6(record, options)
    record.write()


def _episodes(record: Record, options: argparse.Namespace) -> None:
    truth = measured(options.table, "3x3x2x3" if options.quick else "22x20x20")
    short, whole = (1, 2) if options.quick else (3, 100)
    confidences = (50,) if options.quick else CONFIDENCES
    rows = []
    for insight in ("bad", "good", "none"):
        for learning in (False, True):
            for confidence in confidences:
                name = f"{insight} insight, {'learning, ' if learning else ''}{confidence} %"
                cell = (insight, confidence, learning, short, whole)
                found = record.step(name, lambda c=cell: episode(truth, *c))
                rows.append([name, *(_shown(found[column]) for column in COLUMNS)])
                record.figure(f"{name}: compiled us", found["compiled_us"])
                record.figure(f"{name}: session us", found["session_us"])
    steps = record.body["steps"].values()
    told = [step for step in steps if "session_us" in step]
    record.figure("compiled us per run, greatest", max(step["compiled_us"] for step in told))
    record.figure("episodes that differ", sum(step["differing"] for step in told))
    table(
        [
            f"{truth.size:,} configurations, an analyst with",
            "runs until found or half",
            "us per run, compiled",
            f"compiled, first {SHORT_RUNS}",
            f"session, first {SHORT_RUNS}",
            "episodes that differ",
        ],
        rows,
    )


PAGE = Path(__file__).parents[1] / "docs" / "howto" / "analysts.md"
SPACES = {"slope (22x20x20)": "22x20x20", "slope (6x6x6x6)": "6x6x6x6"}
ANALYSTS = {
    ("follower", None): "follower",
    ("analyst", 50): "analyst without insight, 50 %",
    ("one_at_a_time", 0): "one at a time, 0 %",
    ("neighbours", None): "best neighbour (function)",
    ("client", None): "MCP client, takes all",
}


def scripts(folder: Path) -> tuple[Script, ...]:
    """Write the function and the client of the page into a folder, and return them."""
    function, client = PAGE.read_text(encoding="utf-8").split("```python\n")[1:3]
    (folder / "neighbours.py").write_text(function.split("```")[0], encoding="utf-8")
    (folder / "client.py").write_text(client.split("```")[0], encoding="utf-8")
    here = str(folder)
    return (
        Script("neighbours", "script", "neighbours.py:best_neighbour", here),
        Script("client", "mcp", "python client.py {server}", here),
    )


def spaces(folder: Path, *, quick: bool) -> tuple[Table, ...]:
    """Return measured tables: flood, maze and generated spaces; with ``quick`` maze alone."""
    names: tuple[Literal["flood", "maze"], ...] = ("maze",) if quick else ("flood", "maze")
    tables = [Table(name, str(paper_table(name, folder).path)) for name in names]
    for name, shape in {} if quick else SPACES.items():
        path = folder / f"{shape}.csv"
        path.write_text(landscape_text(SHAPES[shape]), encoding="utf-8")
        tables.append(Table(name, str(path)))
    return tuple(tables)


def _scripted(record: Record, options: argparse.Namespace) -> None:
    budgets, n = ((10,), 1) if options.quick else ((20, 40), options.seeds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        asked = Study(
            "scripted", spaces(options.spaces or folder, quick=options.quick), seed=SEED,
            replications=n, kinds=tuple(kind for kind, _ in ANALYSTS), insights=("none",),
            confidences=(0, 50),
            learning=(False,), stop=StoppingRule(runs=budgets), scripts=scripts(folder),
        )  # fmt: skip
        found = record.step("scripted analysts", lambda: _compared(asked, folder / "study"))
    table(["space", "runs", *ANALYSTS.values()], found["rows"])
    for sentence in found["faults"]:
        print(sentence)
    for name, mean in found["means"].items():
        record.figure(f"ratio to the optimum: {name}", mean)


def _compared(asked: Study, folder: Path) -> dict[str, Any]:
    """Play a study in this process, and return its means with 95 % intervals."""
    played = play_study(asked, folder, "", workers=1)
    means = {
        (s.cell.table, s.cell.runs, (s.cell.kind, s.cell.confidence)): s.ratio
        for s in played.summaries
        if (s.cell.kind, s.cell.confidence) in ANALYSTS
    }
    rows = [
        [space.name, str(runs), *(_interval(means[space.name, runs, who]) for who in ANALYSTS)]
        for space in asked.tables
        for runs in asked.stop.runs
    ]
    return {
        "rows": rows,
        "faults": [f"{s.cell}: {why} ({n})" for s in played.summaries for why, n in s.faults],
        "means": {
            f"{space}, {runs} runs, {ANALYSTS[who]}": ratio.mean
            for (space, runs, who), ratio in means.items()
            if ratio is not None
        },
    }


def _interval(ratio: MeanInterval | None) -> str:
    if ratio is None or ratio.mean is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.mean:.3f}"
    return f"{ratio.mean:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


COLUMNS = ("mean_runs", "compiled_us", "short_us", "session_us", "differing")


def _figure6(record: Record, options: argparse.Namespace) -> None:
    n = 2 if options.quick else options.replications
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.spaces or Path(scratch)
        found = record.step(
            f"figure 6 whole, {n} episodes per cell",
            lambda: whole.whole(folder, n, options.workers, quick=options.quick),
        )
    record.figure("figure 6 whole: seconds", found["wall_s"])
    record.figure("figure 6 whole: CPU seconds", found["cpu_s"])
    record.figure("figure 6 whole: episodes", found["episodes"])
    table(whole.HEADER, [[f"{n} episodes per cell", *whole.shown(found)]])


def _shapes(record: Record, options: argparse.Namespace) -> None:
    shapes = ("3x3x2x3",) if options.quick else tuple(SHAPES)
    n = 2 if options.quick else options.replications
    rows = []
    for shape in shapes:
        found = record.step(f"figure 6, {shape}", lambda s=shape: figure6(s, n))
        record.figure(f"figure 6, {shape}: cpu_s", found["cpu_s"])
        record.figure(f"figure 6, {shape}: us per run", found["us_per_run"])
        columns = ("cells", "episodes", "runs", "cpu_s", "us_per_run")
        rows.append([shape, *(_shown(found[column]) for column in columns)])
    table(["figure 6", "cells", "episodes", "runs", "CPU s on one core", "us per run"], rows)


def _shown(value: float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    guarded(main)
