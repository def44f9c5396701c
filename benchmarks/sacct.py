"""Reading of dumps of Slurm's sacct: seconds and memory for a drawn dump.

``python -m benchmarks.sacct`` draws a dump of 450,000 jobs with the fields that Open XDMoD asks for
(arrays, requeues, jobs that never started, CPUs and GPUs as trackable resources), reads it in a
process of its own, and prints how long that takes and how much memory the process had.
``--keep FILE`` leaves the dump there.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.harness import Record, guarded, parser, table

SEED = 5
STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1017", "OUT_OF_MEMORY", "NODE_FAIL")
READ = """
import resource, sys, time
from sim.formats.slurm_jobs import read_sacct
begin = time.perf_counter()
read = read_sacct(sys.argv[1])
seconds = time.perf_counter() - begin
print(read.n_jobs, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def write_dump(path: Path, n_jobs: int, seed: int = SEED) -> None:
    """Write a drawn dump of `n_jobs` executions, a few of them of requeued jobs."""
    rng = np.random.default_rng(seed)
    submit = 1_704_067_200 + np.sort(rng.integers(0, 365 * 86_400, n_jobs))
    eligible = submit + np.where(rng.random(n_jobs) < 0.1, rng.integers(1, 40_000, n_jobs), 0)
    start = eligible + rng.exponential(3000, n_jobs).astype(np.int64)
    runtime = 1 + rng.lognormal(7, 2, n_jobs).astype(np.int64) % 172_800
    columns = [np.datetime_as_string(c.astype("M8[s]")).tolist()
               for c in (submit, eligible, start, start + runtime)]  # fmt: skip
    nodes = 2 ** rng.integers(0, 6, n_jobs)
    state, user, part = (rng.integers(0, n, n_jobs).tolist() for n in (len(STATES), 600, 5))
    never, again = (rng.random(n_jobs) < p for p in (0.03, 0.01))
    limit = rng.choice([600, 3600, 14_400, 86_400, 172_800, 0], n_jobs)
    job = np.arange(n_jobs) + 100_000 - again
    with path.open("w") as file:
        for i in range(n_jobs):
            cpus = int(nodes[i]) * 48
            array = f"{job[i] - job[i] % 50}_{job[i] % 50}" if part[i] == 1 else job[i]
            times = (columns[0][i], columns[1][i], columns[2][i], columns[3][i])
            name, elapsed = STATES[state[i]], _elapsed(int(runtime[i]))
            if never[i]:
                times = (*times[:2], "None", times[3])
                name, elapsed = STATES[3], "00:00:00"
            tres = f"billing={cpus},cpu={cpus},mem={cpus * 4}G,node={nodes[i]}"
            gpus = f",gres/gpu:a100={nodes[i]},gres/gpu={nodes[i]}" if part[i] == 4 else ""
            file.write(
                f"{array}|{job[i]}|cluster|p{part[i]}|normal|acc{user[i] % 60}|grp{user[i] % 60}|"
                f"{5000 + user[i] % 60}|user{user[i]}|{1000 + user[i]}|{'|'.join(times)}|{elapsed}|"
                f"0:0|{name}|{nodes[i]}|{cpus}|{cpus // 2}|4Gc|{tres}{gpus}|{tres}{gpus}|"
                f"{_elapsed(int(limit[i])) if limit[i] else 'UNLIMITED'}|n[{i % 900}-{i % 900 + 3}]"
                f"|run {i % 977}.sh\n"
            )


def _elapsed(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def main() -> None:
    """Draw a dump, read it in a process of its own, and print what that took."""
    options = parser(__doc__ or "")
    options.add_argument("--jobs", type=int, default=450_000)
    options.add_argument("--keep", type=Path, help="leave the dump in this file")
    told = options.parse_args()
    n_jobs = 5000 if told.quick else told.jobs
    record = Record("sacct", told, seeds=[SEED])
    with tempfile.TemporaryDirectory() as folder:
        path = told.keep or Path(folder) / "dump.txt"
        write_dump(path, n_jobs)

        def measured() -> dict[str, float]:
            done = subprocess.run(
                [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
            )
            jobs, seconds, memory = map(float, done.stdout.split())
            size = float(path.stat().st_size)
            return {"jobs": jobs, "seconds": seconds, "mem_bytes": memory, "bytes": size}

        found = record.step(f"{n_jobs} jobs", measured)
    for name, value in found.items():
        record.figure(name, value)
    cells = [f"{n_jobs:,}", f"{found['jobs']:,.0f}", f"{found['bytes'] / 1e6:,.0f}",
             f"{found['seconds']:.2f}", f"{found['mem_bytes'] / 1e6:,.0f}"]  # fmt: skip
    table(["rows", "jobs that ran", "MB of text", "s", "MB of memory"], [cells])
    record.write()


if __name__ == "__main__":
    guarded(main)
