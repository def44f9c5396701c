"""Figure 6 of the paper, whole: every cell on every application, as `copperline agents reproduce`.

What is timed is what a person waits for: processes that start, episodes, files, the bootstrap of
every claim and the report. Measuring the spaces is a step of its own.
"""

import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from agents import EvaluationRecipe, EvaluationSpace, reproduce, write_evaluation
from assistant.simtools.measured_tables import NAMES, paper_table


def whole(spaces: Path, replications: int, workers: int, *, quick: bool) -> dict[str, Any]:
    """Play figure 6 and judge its claims in a folder that is thrown away.

    Args:
        spaces: folder of the three measured spaces, which are made where they are missing.
        replications: episodes per cell.
        workers: processes.
        quick: the maze only, at fewer confidences.
    """
    started_s, cpu_s = time.perf_counter(), _cpu_s()
    made = [paper_table(name, spaces) for name in (NAMES[-1:] if quick else NAMES)]
    tables = {"tables_s": time.perf_counter() - started_s, "tables_cpu_s": _cpu_s() - cpu_s}
    recipe = EvaluationRecipe(
        ("6",), tuple(EvaluationSpace(one.name, one.path) for one in made), replications, quick
    )
    with tempfile.TemporaryDirectory() as folder:
        started_s, cpu_s = time.perf_counter(), _cpu_s()
        done = reproduce(recipe, Path(folder), workers)
        played_s = time.perf_counter() - started_s
        write_evaluation(done, Path(folder))
    finished = done.studies["6"]
    mean_runs = {
        space.name: sum(
            one.runs.mean or 0.0 for one in finished.summaries if one.cell.table == space.name
        )
        for space in recipe.spaces
    }
    return {
        **tables,
        "cells": len(finished.summaries),
        "episodes": len(finished.summaries) * replications,
        "counted_runs": round(sum(mean_runs.values()) * replications),
        "workers": workers,
        "cores": os.cpu_count(),
        "played_s": played_s,
        "wall_s": time.perf_counter() - started_s,
        "cpu_s": _cpu_s() - cpu_s,
        "holds": sum(one.outcome == "holds" for one in done.verdicts),
        "verdicts": len(done.verdicts),
    }


def shown(found: dict[str, Any]) -> list[str]:
    """Return a row for people."""
    return [
        f"{found['cells']:,}", f"{found['episodes']:,}", f"{found['counted_runs']:,}",
        str(found["workers"]), f"{found['wall_s']:,.0f}", f"{found['cpu_s']:,.0f}",
    ]  # fmt: skip


HEADER = ["figure 6 whole", "cells", "episodes", "runs", "processes", "seconds", "CPU seconds"]


def _cpu_s() -> float:
    """Return CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
