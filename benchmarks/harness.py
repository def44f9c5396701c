"""What every benchmark shares: options, steps that resume, and the one JSON object at the end."""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assistant import AssistantError
from sim import SimError
from strategies import StrategyError

PACKAGES = ("numpy", "scipy", "numba", "simpy", "scikit-learn")


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks take."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="a small size that shows it runs")
    options.add_argument("--resume", action="store_true", help="keep the steps already in --json")
    options.add_argument("--json", type=Path, help="write the result here, after every step")
    return options


class Record:
    """The result as it grows; written after every step, so that an interruption costs one.

    Args:
        subject: the benchmark's name.
        options: the parsed options; all of them are kept in the result.
        seeds: every seed used.
        free: options that a resumed benchmark may change, since no step depends on them or the
            step's name says them.
    """

    def __init__(
        self,
        subject: str,
        options: argparse.Namespace,
        seeds: list[int],
        free: Collection[str] = (),
    ) -> None:
        self._path: Path | None = options.json
        told = {k: str(v) for k, v in vars(options).items() if k not in ("json", "resume")}
        self.body: dict[str, Any] = {
            "subject": subject,
            "options": told,
            "commit": _commit(),
            "seeds": seeds,
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in PACKAGES},
            "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.system()},
            "figures": {},
            "steps": {},
        }
        if options.resume and self._path is not None and self._path.exists():
            before = json.loads(self._path.read_text())
            bound = [
                {k: v for k, v in o.items() if k not in free} for o in (before["options"], told)
            ]
            if before["subject"] == subject and bound[0] == bound[1]:
                self.body["steps"] = before["steps"]
                self.body["figures"] = before["figures"]

    def step(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the step's detail, measured now or kept from before."""
        if name not in self.body["steps"]:
            self.body["steps"][name] = measure()
            self.write()
        detail: dict[str, Any] = self.body["steps"][name]
        return detail

    def figure(self, name: str, value: float | None) -> None:
        """Note one number of the result; None, and what is not a number, is unknown."""
        self.body["figures"][name] = None if value is None or math.isnan(value) else value

    def write(self) -> None:
        """Write the object, whole or not at all."""
        if self._path is None:
            return
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.body, indent=2) + "\n")
        part.replace(self._path)


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that one call takes."""
    before_s = time.process_time()
    work()
    return time.process_time() - before_s


def interleaved_cpu_s(
    works: Mapping[str, Callable[[], object]], rounds: int, least_s: float = 0.0
) -> dict[str, list[float]]:
    """Return the CPU seconds of each work in each round.

    Every round does every work once, so that a busy machine slows down all of them alike.

    Args:
        works: by name.
        rounds: number of rounds.
        least_s: a shorter work is repeated in its round until it took this long, and its mean
            counts.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            spent_s, n = cpu_s(work), 1
            while spent_s < least_s:
                spent_s += cpu_s(work)
                n += 1
            found[name].append(spent_s / n)
    return found


def median_ratio(times_s: Mapping[str, Sequence[float]], one: str, other: str) -> float:
    """Return the median over rounds of how many times as long one work takes as another."""
    pairs = zip(times_s[one], times_s[other], strict=True)
    return statistics.median(first / second for first, second in pairs)


def guarded(main: Callable[[], None]) -> None:
    """Run a benchmark; bad input is one sentence and exit code 2, as everywhere."""
    try:
        main()
    except (AssistantError, SimError, StrategyError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table, ready for the README."""
    lines = [header, ["---"] * len(header), *rows]
    sys.stdout.write("".join("| " + " | ".join(line) + " |\n" for line in lines))


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
