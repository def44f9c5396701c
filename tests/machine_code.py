"""Machine code that a session of tests compiles from nothing once, and simulations in processes."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SIMULATE = """
import json
from sim import ClusterSpec, Scenario, simulate
from sim.generators import default_workload
from sim.api import wait_for_compiler
from sim.engines.compilation import compilation_state
scenario = Scenario(default_workload(3, 200), ClusterSpec.single(128))
first = simulate(scenario)
wait_for_compiler()
second = simulate(scenario)
told = compilation_state()
print(json.dumps([first.engine, second.engine, first == second, str(told.folder), first.note,
                  told.readiness]))
"""
"""Simulates, waits until everything is compiled, and simulates again."""

ASK_TWICE = """
import json
from sim import ClusterSpec, Scenario, simulate
from sim.generators import default_workload
from sim.engines.compilation import compilation_state
from sim.engines import compilation
scenario = Scenario(default_workload(3, 200), ClusterSpec.single(128))
first = simulate(scenario)
second = simulate(scenario, engine="compiled")
print(json.dumps([first.engine, second.engine, first == second, str(compilation_state().folder),
                  first.note]))
for compiler in compilation._started:
    compiler.kill()
"""
"""The same, waiting only for what this simulation needs: half of what there is to compile."""


@dataclass(frozen=True)
class ColdStart:
    """A simulation on a machine that had compiled nothing.

    Args:
        cache: the folder it was told to keep machine code in; full, and not to be changed.
        printed: what `SIMULATE` said.
    """

    cache: Path
    printed: str

    def copied(self, target: Path) -> Path:
        """Return a copy of the cache, in a folder, that a test may change."""
        return Path(shutil.copytree(self.cache, target / "cache"))


def started_cold(shared: Path, repository: Path) -> ColdStart:
    """Simulate on a cold machine, unless another process of the session has.

    Args:
        shared: a folder that all of them know.
        repository: root of the checkout.
    """
    cache, told = shared / "cold-cache", shared / "cold-start.json"
    with (shared / "cold-start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            told.write_text(run_python(SIMULATE, repository, COPPERLINE_CACHE_DIR=str(cache)))
    return ColdStart(cache, told.read_text())


def run_python(code: str, repository: Path, **environment: str) -> str:
    """Run code in a new process. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repository,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def in_new_process(cache: Path, repository: Path) -> list[str | bool | None]:
    """Return what `SIMULATE` says over a cache."""
    told: list[str | bool | None] = json.loads(
        run_python(SIMULATE, repository, COPPERLINE_CACHE_DIR=str(cache))
    )
    return told
