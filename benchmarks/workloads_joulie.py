"""The Joulie generator: its rules in one table, and the time that it takes."""

import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.drawn_checks import Check, holds
from benchmarks.harness import Record, table
from benchmarks.joulie_rules import rule_table
from sim.formats import read_joulie, write_joulie
from sim.generators import generate, published_model

SEED = 1
N_WORKLOADS, FEW = 100_000, 2_000
OF_RULES, FEW_OF_RULES = 200_000, 20_000
"""Workloads; no rule is so rare that the few do not have it."""

DURATION_S = 1000 * 86400.0


def rules(record: Record, options: Namespace) -> None:
    """Print the table of rules."""
    n_workloads = FEW_OF_RULES if options.quick else OF_RULES
    found = record.step("rules", lambda: {"rows": [vars(c) for c in rule_table(n_workloads, SEED)]})
    checks = [Check(**row) for row in found["rows"]]
    rows = [
        [
            check.rule,
            check.what,
            f"{check.expected:.5g}",
            f"{check.measured:.5g}",
            f"{check.low:.5g} .. {check.high:.5g}",
            "yes" if check.is_in_interval else "no",
            "yes" if holds(check, len(checks)) else "NO",
        ]
        for check in checks
    ]
    head = ["rule", "what", "expected", "measured", "95 % interval", "in it", "all hold at 95 %"]
    table(head, rows)
    random = [check for check in checks if check.low < check.high]
    record.figure("rules: checks", len(checks))
    record.figure("rules: that do not hold", sum(not holds(c, len(checks)) for c in checks))
    record.figure("rules: checks of random figures", len(random))
    record.figure(
        "rules: outside of their 95 % interval", sum(not c.is_in_interval for c in random)
    )


def joulie(record: Record, options: Namespace) -> None:
    """Measure drawing, writing and reading."""
    n_workloads = FEW if options.quick else N_WORKLOADS
    found = record.step(f"joulie, {n_workloads} workloads", lambda: _timed(n_workloads))
    names = ("draw_s", "write_s", "read_s", "megabytes", "pods")
    for name in names:
        record.figure(f"joulie, {n_workloads} workloads: {name}", found[name])
    head = ["workloads", "draw (CPU s)", "write (CPU s)", "read (CPU s)", "megabytes", "pods"]
    table(head, [[f"{n_workloads:,}", *(f"{found[name]:.2f}" for name in names)]])


def _timed(n_workloads: int) -> dict[str, Any]:
    model = published_model("joulie").with_parameters({"jobs": n_workloads})
    generate(model, duration_s=3600.0, seed=SEED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        began = time.process_time()
        workload = generate(model, duration_s=DURATION_S, seed=SEED)
        drawn = time.process_time()
        write_joulie(workload, path)
        written = time.process_time()
        back = read_joulie(path)
        read = time.process_time()
        megabytes = path.stat().st_size / 1e6
    if back != workload or workload.tasks is None:
        raise AssertionError("what was read is not what was written")
    return {
        "draw_s": drawn - began,
        "write_s": written - drawn,
        "read_s": read - written,
        "megabytes": megabytes,
        "pods": workload.tasks.n_tasks,
    }
