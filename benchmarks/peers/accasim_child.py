"""AccaSim in a process of its own.

``python -m benchmarks.peers.accasim_child FOLDER POLICY LIMIT_S``. AccaSim starts threads and forks
writers; they live and die here. This is the only file of ours that imports it. What it prints and
writes goes to the folder; ours is one JSON object in `REPORT`.
"""

import collections
import collections.abc
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

WORKLOAD = "workload.swf"
SYSTEM = "system.json"
RESULTS = "results"
REPORT = "report.json"
DISPATCHERS = {"fifo": "FirstInFirstOut", "easy": "EASYBackfilling"}


class LimitReached(BaseException):
    """The wall-clock limit; not an `Exception`, since AccaSim catches those."""


def simulator(folder: Path, policy: str) -> Any:
    """Return an AccaSim simulator, all settings but the paths as they come."""
    # AccaSim 1.1.3 imports a name that Python 3.10 moved.
    vars(collections).setdefault("Mapping", collections.abc.Mapping)
    allocator = import_module("accasim.base.allocator_class").FirstFit()
    dispatchers = import_module("accasim.base.scheduler_class")
    (folder / RESULTS).mkdir(exist_ok=True)
    return import_module("accasim.base.simulator_class").Simulator(
        str(folder / WORKLOAD),
        str(folder / SYSTEM),
        getattr(dispatchers, DISPATCHERS[policy])(allocator),
        RESULTS_FOLDER_PATH=str(folder / RESULTS),
    )


def children_cpu_s() -> float:
    """Return the CPU seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Simulate until done or until the limit, then say what it took; imports do not count."""
    folder, policy, limit_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    run = simulator(folder, policy)
    signal.signal(signal.SIGALRM, _stop)
    finished = True
    before_s, before_children_s = time.process_time(), children_cpu_s()
    began_s = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        run.start_simulation()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except LimitReached:
        finished = False
        for writer in multiprocessing.active_children():  # what they took counts once they ended
            writer.kill()
            writer.join()
    wall_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - before_s
    report = {
        "n_jobs": run.mapper.finished,
        "cpu_s": cpu_s,
        "all_cpu_s": cpu_s + children_cpu_s() - before_children_s,
        "wall_s": wall_s,
        "finished": finished,
    }
    (folder / REPORT).write_text(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # writer threads of a stopped simulation would wait for ever


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise LimitReached


if __name__ == "__main__":
    main()
