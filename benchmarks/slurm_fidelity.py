"""How near the simulator is to a real Slurm: predicted schedules beside measured ones.

``python -m benchmarks.slurm_fidelity`` starts a real Slurm (22.05 or so; ``apt-get install
slurm-wlm munge``, root) by the scripts in ``--slurm``, with two partitions that share no node, lets
it schedule 50 drawn jobs of each seed, 3 to 5 minutes a seed, and writes each schedule to a file in
``--to`` when it is there; a seed whose file is there is not measured again. With ``--run FILE``
(or a folder; repeat it) it replays what was measured before, here or elsewhere, and needs no
Slurm. ``--quick`` replays ``../shared/data/slurm_runs``.

The same jobs, with their measured run times, are simulated under every rule, the right one and
wrong ones, each partition by itself:

* tau: Kendall's tau-b of the starts, which is about their order;
* errors of the starts, mean waits and makespans in seconds.

Then it says which targets are met. The mean wait is that of all jobs of a run. Where two runs are
of the same jobs, such as a seed measured into two folders, the second is set beside the first in
the same way: what Slurm does not repeat itself cannot be predicted.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path

from benchmarks.harness import Record, guarded, parser, table
from benchmarks.slurm_compare import (
    RULES,
    Fit,
    Verdict,
    judge,
    judge_together,
    repeated,
    replay,
    right_rule,
    whole_wait_s,
)
from benchmarks.slurm_measure import Plan, measure
from benchmarks.slurm_runs import SlurmRun, read_run
from sim.api import TraceError

SHARED_RUNS = Path("../shared/data/slurm_runs")
SEEDS = (11, 12, 13)
FREE = ("check", "cpus", "nodes", "policy", "port", "run", "seed", "slurm", "to")
"""Steps are called by the digest of what they replay."""

HEADER = [
    "run", "partition", "jobs", "rule", "tau", "error of starts: median, mean, max s",
    "mean wait: predicted, measured s", "off", "makespan: predicted, measured s",
]  # fmt: skip


def main() -> None:
    """Measure or find the schedules, replay them, print the tables and the verdicts."""
    chosen = _options().parse_args()
    is_measuring = not chosen.run and not chosen.quick
    seeds = list(dict.fromkeys(chosen.seed or SEEDS)) if is_measuring else []
    record = Record("slurm_fidelity", chosen, seeds, free=FREE)
    if is_measuring:
        plan = Plan(
            chosen.slurm, chosen.to, chosen.policy or "easy", chosen.nodes or 32, chosen.cpus or 1,
            chosen.jobs, chosen.span, chosen.port,
        )  # fmt: skip
        files = measure(plan, seeds)
    elif not chosen.run and not SHARED_RUNS.is_dir():
        sys.stdout.write(f"skipped: there is no folder {SHARED_RUNS}; say --run FILE.\n")
        record.write()
        return
    else:
        files = _files(chosen.run or [SHARED_RUNS])
    said = {key: getattr(chosen, key) for key in ("policy", "nodes", "cpus")}
    runs = _told_apart([read_run(path, **said) for path in files])
    verdicts = _compare(record, runs)
    _repeat(record, runs)
    record.write()
    if chosen.check and any(verdict.is_met is False for verdict in verdicts):
        sys.exit(1)


def _options() -> argparse.ArgumentParser:
    options = parser(__doc__ or "")
    options.add_argument(
        "--run", type=Path, action="append", metavar="FILE",
        help="replay this schedule, or all *.json in this folder, instead of measuring; repeat it",
    )  # fmt: skip
    options.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    options.add_argument(
        "--policy", choices=("easy", "default"),
        help="of the Slurm that is measured (easy), or of files that do not tell",
    )  # fmt: skip
    for name, what in (("nodes", "nodes of each partition (32)"), ("cpus", "CPUs of a node (1)")):
        options.add_argument(
            f"--{name}", type=_from(1), help=f"{what}, or of files that do not tell"
        )
    options.add_argument("--seed", type=_from(0), action="append", help="measure this; repeat it")
    options.add_argument("--jobs", type=_from(1), default=50, help="jobs of each seed")
    options.add_argument("--span", type=_from(1), default=40, help="seconds in which they arrive")
    options.add_argument(
        "--to", type=Path, default=Path("copperline-out/slurm_runs"), help="folder of schedules"
    )
    options.add_argument(
        "--slurm", type=Path, default=Path("../shared/slurm"),
        help="folder with gen_conf.py, start.sh and stop.sh",
    )  # fmt: skip
    options.add_argument(
        "--port", type=_from(1024, 60_000), default=17_000, help="first port of the loopback"
    )
    return options


def _from(least: int, most: int = 2**31) -> Callable[[str], int]:
    def whole(text: str) -> int:
        number = int(text) if text.isdecimal() else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is given and whole numbers from {least} to {most} are allowed"
            )
        return number

    return whole


def _files(given: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise TraceError(path, expected="there is no schedule (*.json) in this folder.")
        found += files
    return list(dict.fromkeys(found))


def _compare(record: Record, runs: list[SlurmRun]) -> list[Verdict]:
    """Replay all runs under all rules; print and note what comes of it."""
    fits: dict[str, dict[str, list[Fit]]] = {}
    verdicts: list[Verdict] = []
    rows = []
    for run in runs:
        told = fits[run.name] = {}
        for rule in RULES:
            detail = record.step(
                f"{run.name}, {rule}, {_digest(run)}",
                lambda run=run, rule=rule: {"fits": [asdict(fit) for fit in replay(run, rule)]},  # type: ignore[misc]
            )
            told[rule] = [Fit(**fit) for fit in detail["fits"]]
            shown = f"**{rule}**" if rule == right_rule(run) else rule
            rows += [_row(run.name, shown, fit) for fit in told[rule]]
        _figures(record, run, told[right_rule(run)])
        verdicts += judge(run, told)
    verdicts += judge_together(runs, fits)
    table(HEADER, rows)
    for verdict in verdicts:
        is_met = None if verdict.is_met is None else float(verdict.is_met)
        record.figure(f"{verdict.subject}, {verdict.target}: met", is_met)
    sys.stdout.write(
        "\n" + "".join(f"{_word(v)} {v.subject}, {v.target}: {v.why}\n" for v in verdicts)
    )
    return verdicts


def _told_apart(runs: list[SlurmRun]) -> list[SlurmRun]:
    """Number runs whose files have the same name."""
    seen: Counter[str] = Counter()
    found = []
    for run in runs:
        seen[run.name] += 1
        n = seen[run.name]
        found.append(run if n == 1 else replace(run, name=f"{run.name} ({n})"))
    return found


def _repeat(record: Record, runs: list[SlurmRun]) -> None:
    """Print and note how far two measurements of the same jobs agree."""
    rows = []
    for run, again in combinations(runs, 2):
        for fit in repeated(run, again) or ():
            record.figure(f"{run.name} and {again.name}, {fit.partition}: tau", fit.tau)
            rows.append(_row(f"{run.name}, {again.name}", "Slurm again", fit))
    if rows:
        table(
            [*HEADER[:-3], "mean wait: second, first s", "off", "makespan: second, first s"], rows
        )


def _digest(run: SlurmRun) -> str:
    return hashlib.sha256(repr(run).encode()).hexdigest()[:12]


def _row(name: str, rule: str, fit: Fit) -> list[str]:
    errors_s = (fit.median_error_s, fit.mean_error_s, fit.max_error_s)
    return [
        name,
        fit.partition,
        str(fit.n_jobs),
        rule,
        "unknown" if fit.tau is None else f"{fit.tau:.3f}",
        ", ".join(f"{error_s:.0f}" for error_s in errors_s),
        f"{fit.mean_wait_s:.1f}, {fit.measured_wait_s:.1f}",
        "unknown" if fit.off is None else f"{fit.off:+.1%}",
        f"{fit.makespan_s:.0f}, {fit.measured_makespan_s:.0f}",
    ]


def _figures(record: Record, run: SlurmRun, right: list[Fit]) -> None:
    for fit in right:
        record.figure(f"{run.name}, {fit.partition}: tau of {right_rule(run)}", fit.tau)
    predicted_s, measured_s = whole_wait_s(right)
    record.figure(f"{run.name}: mean wait predicted (s)", predicted_s)
    record.figure(f"{run.name}: mean wait measured (s)", measured_s)


def _word(verdict: Verdict) -> str:
    words = {True: ("met    ", "32"), False: ("missed ", "31"), None: ("unknown", "33")}
    word, colour = words[verdict.is_met]
    return f"\x1b[{colour}m{word}\x1b[0m" if sys.stdout.isatty() else word


if __name__ == "__main__":
    guarded(main)
