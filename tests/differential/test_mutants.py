"""Seeded mutants: each breaks one line of the shared text or of an engine, and must be seen.

A copy of the package is edited, and generated scenarios are run in a process of its own: the
interpreted loop and the SimPy engine against the naive reference, which shares no text with them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sim

# Neighbouring lines, where a line stands twice in its file.
BESIDE = "\n                if job_row.procs <= (free if in_time else min(free, extra)):"
BEYOND = (
    "                        extra -= job_row.procs\n                else:\n"
    "                    least_procs = min(least_procs, job_row.procs)\n                    "
)
EXTRA = (
    "    here.extra = extra\n"
    "    # A job that was not examined, for lack of processors, may be the narrowest of all.\n    "
)
UP = "\n            break\n        times_s[slot] = times_s[above]\n"

MUTANTS = {
    "the shadow time is excluded": (
        "policies/backfills.py",
        f"in_time = now_s + job_row.estimate_s <= shadow_s{BESIDE}",
        f"in_time = now_s + job_row.estimate_s < shadow_s{BESIDE}",
    ),
    "a job in time uses up extra processors too": (
        "policies/backfills.py",
        "                    if not in_time:\n                        extra -=",
        "                    if True:\n                        extra -=",
    ),
    "a late job does not use up extra processors": (
        "policies/backfills.py",
        "                    if not in_time:\n                        extra -=",
        "                    if False:\n                        extra -=",
    ),
    "the reservation is not computed anew when something ends": (
        "kernel/pool.py",
        "    here.look_from = here.head\n",
        "    here.look_from = here.head + 1\n",
    ),
    "only the first job that ends at the shadow time counts": (
        "kernel/pool.py",
        "if free >= procs and job.estimated_end_s != shadow_s:",
        "if free >= procs:",
    ),
    "a block's summary forgets its shortest job": (
        "policies/backfills.py",
        f"{BEYOND}least_s = min(least_s, job_row.estimate_s)",
        f"{BEYOND}least_s = max(0.0, job_row.estimate_s)",
    ),
    "the narrowest waiting job is forgotten when looking stops early": (
        "policies/backfills.py",
        f"{EXTRA}here.narrowest = narrowest if slot >= tail else 1",
        f"{EXTRA}here.narrowest = narrowest",
    ),
    "later arrivals of equal rank go first": (
        "kernel/pool.py",
        "if rank_at(pool, middle) < rank:",
        "if rank_at(pool, middle) > rank:",
    ),
    "the loop decides between two arrivals of one instant": (
        "engines/event_loop.py",
        "while coming < n_jobs and submit_s[coming] == now_s:",
        "if coming < n_jobs and submit_s[coming] == now_s:",
    ),
    "the loop lets one completion of an instant wait": (
        "engines/event_loop.py",
        "while n_running > 0 and ends_s[0] == now_s:",
        "if n_running > 0 and ends_s[0] == now_s:",
    ),
    "the heap loses its order": (
        "kernel/event_heap.py",
        f"if times_s[above] <= time_s:{UP}",
        f"if times_s[above] >= time_s:{UP}",
    ),
    "SimPy schedules arrivals by delay": (
        "engines/process.py",
        "yield calendar.at(submit_s[job])",
        "yield calendar.timeout(submit_s[job] - calendar.now)",
    ),
}

NODE_MUTANTS = {
    "a choosy job that overtakes in time leaves the reservation as it was": (
        "policies/backfills.py",
        "here.look_from = here.tail if n_choosy == 0 else here.head",
        "here.look_from = here.tail",
    ),
    "a job in time takes machines that nobody reserved first": (
        "policies/backfills.py",
        "start_on(nodes, k, job, now_s, n_started, in_time)",
        "start_on(nodes, k, job, now_s, n_started, False)",
    ),
    "processors beyond the need are not given back": (
        "kernel/nodes.py",
        "nodes.pool.partitions[k].free += claim.waste",
        "nodes.pool.partitions[k].free += 0",
    ),
    "memory is asked for as if all processors of a machine were used": (
        "kernel/nodes.py",
        "n_processes = min(nodes.kinds[kind].procs, nodes.pool.jobs[job].procs)",
        "n_processes = nodes.kinds[kind].procs",
    ),
    "idle machines are reserved though enough come free": (
        "kernel/nodes.py",
        "_keep(nodes, k, job, pool.jobs[job].procs - given_up)",
        "_keep(nodes, k, job, pool.jobs[job].procs)",
    ),
}

USER_MUTANTS = {
    "a job goes on using what it held": (
        "kernel/pool.py",
        "charge(pool.fair, job, -pool.jobs[job].procs, now_s)",
        "charge(pool.fair, job, 0, now_s)",
    ),
    "processors beyond the need are not used": (
        "kernel/nodes.py",
        "charge(nodes.pool.fair, job, claim.waste, now_s)",
        "charge(nodes.pool.fair, job, 0, now_s)",
    ),
    "a fair-share factor is never computed anew": (
        "kernel/fair_share.py",
        "if usage_row.fair_s != now_s:",
        "if usage_row.fair_s < 0.0:",
    ),
    "what was used until a start counts as if the job had run": (
        "kernel/fair_share.py",
        "_settle(users, user, now_s)\n    _settle(users, everybody, now_s)\n    users[user]",
        "_settle(users, everybody, now_s)\n    users[user]",
    ),
    "a user that is tied with an account is not tied with its best user": (
        "kernel/fair_share.py",
        "while nodes[above].depth > nodes[before].depth:",
        "if False:",
    ),
    "a node that nobody has used goes last": (
        "kernel/fair_share.py",
        "elif node.usage == 0.0:\n            node.level = math.inf",
        "elif node.usage == 0.0:\n            node.level = 0.0",
    ),
    "the usage of a parent is not shared among its children": (
        "kernel/fair_share.py",
        "node.effective += (above - actual) * node.level_shares",
        "node.effective += 0.0",
    ),
    "a tree is calculated when somebody asks, not at the period": (
        "kernel/fair_share.py",
        "at_s = min(now_s, n_periods * root.period_s)",
        "at_s = now_s",
    ),
    "what begins after a period counts at the period": (
        "kernel/fair_share.py",
        "fair.nodes[0].period_s > 0.0:\n        _calculate_if_due(fair, now_s)",
        "fair.nodes[0].period_s < 0.0:\n        _calculate_if_due(fair, now_s)",
    ),
    "ranks of tied users are given again": (
        "kernel/fair_share.py",
        "rank = n_users - place",
        "rank -= 1",
    ),
    "all users are due the same": (
        "model/accounts.py",
        "raw / raw.sum()",
        "np.full(len(raw), 1.0 / len(raw))",
    ),
    "age is never full": (
        "policies/orders.py",
        "min(waited_s / options[AGE_MAX_S], 1.0)",
        "waited_s / options[AGE_MAX_S]",
    ),
}

MOLDABLE_MUTANTS = {
    "a job starts on fewer processors though it ends no earlier": (
        "kernel/moldable.py",
        "end_s < first_end_s or (best",
        "end_s <= first_end_s or (best",
    ),
    "of equal ends the most processors are taken": (
        "kernel/moldable.py",
        "or (best >= 0 and end_s == first_end_s)",
        "or False",
    ),
    "the estimate does not grow": (
        "kernel/moldable.py",
        "job_row.estimate_s *= outside.sizes[best].stretch",
        "job_row.estimate_s *= 1.0",
    ),
    "waiting is taken to end when the processors are free": (
        "kernel/moldable.py",
        "first_end_s = here.shadow_s + job_row.estimate_s",
        "first_end_s = here.shadow_s",
    ),
    "the kept reservation of the first is lost": (
        "kernel/moldable.py",
        "here.shadow_s, here.extra = shadow_s, extra",
        "here.extra = extra",
    ),
    "jobs are moldable only when one fits": (
        "engines/job_setup.py",
        "rule.is_eager(options.values) or scenario.moldable is not None",
        "rule.is_eager(options.values)",
    ),
    "a run does not grow": (
        "engines/event_loop.py",
        "course.runtime_s[job] * stretch_of(pool, course.outside, job)",
        "course.runtime_s[job]",
    ),
    "SimPy prepares a decision twice": (
        "engines/process.py",
        "n_started = self.text.serve_prepared(k, now_s)",
        "n_started = self.text.serve(k, now_s)",
    ),
    "halves are rounded down": (
        "model/moldable.py",
        "procs = (procs + 1) // 2",
        "procs = np.maximum(procs // 2, 1)",
    ),
    "a low variance has no second part": (
        "model/moldable.py",
        "low = np.where(n <= a, below, np.where(n <= 2 * a - 1, beyond, a))",
        "low = np.where(n <= a, below, a)",
    ),
    "a high variance has no end": (
        "model/moldable.py",
        "high = np.where(n <= a + a * c - c, tail, a)",
        "high = tail",
    ),
}

TRY_MOLDABLE = """
import os
from sim import simulate
from tests.differential import naive
from tests.draw.moldable import moldable_scenario

for seed in range(600):
    scenario = moldable_scenario(seed)
    expected = [(job.start, job.end, job.procs) for job in naive.simulated(scenario)]
    for engine in ("interpreted", "process"):
        found = simulate(scenario, engine=engine)
        if list(zip(found.start_s, found.end_s, found.procs)) != expected:
            os._exit(3)
"""

TRY = """
import os
from hypothesis import HealthCheck, given, seed, settings, strategies as st
import numpy as np
from sim import simulate
from tests.differential import naive
from tests.draw.workloads import plain_scenarios, scenarios

@seed(int(os.environ["SEED"]))
@settings(
    max_examples=int(os.environ["MOST"]), deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.one_of(scenarios(most_jobs=40), plain_scenarios(most_jobs=40)))
def same(scenario):
    expected = np.array(naive.starts(scenario))
    for engine in ("interpreted", "process"):
        if (simulate(scenario, engine=engine).start_s != expected).any():
            os._exit(3)  # at once: there is nothing to shrink

same()
"""

TRY_NODES = """
import os
import numpy as np
from sim import simulate
from tests.differential import naive_nodes
from tests.draw.workloads import crowded_nodes

for seed in range(int(os.environ["MOST"])):
    scenario = crowded_nodes(seed)
    starts = [job.start for job in naive_nodes.schedule(scenario)]
    expected = np.array([np.nan if start is None else start for start in starts])
    found = simulate(scenario, engine="interpreted").start_s
    if not np.array_equal(found, expected, equal_nan=True):
        os._exit(3)
"""


TRY_USERS = """
import os
import numpy as np
from sim import ClusterSpec, Partition, Scenario, simulate
from sim.generators import default_workload
from tests.differential import naive, naive_nodes
from tests.draw.accounts import shared_scenario
from tests.draw.workloads import contended, crowded_nodes

for seed in range(60):
    scenario = shared_scenario(seed)
    expected = np.array(naive.starts(scenario))
    for engine in ("interpreted", "process"):
        if (simulate(scenario, engine=engine).start_s != expected).any():
            os._exit(3)

for seed in range(40):
    jobs = default_workload(seed=seed, n_jobs=60)
    parts = (Partition("short", 16, 3600.0), Partition("all", jobs.widest_procs))
    counted = contended(Scenario(jobs, ClusterSpec(parts)), seed)
    whole = contended(crowded_nodes(seed), seed)
    for scenario, starts in (
        (counted, naive.starts(counted)),
        (whole, [job.start for job in naive_nodes.schedule(whole)]),
    ):
        expected = np.array([np.nan if start is None else start for start in starts])
        for engine in ("interpreted", "process"):
            found = simulate(scenario, engine=engine).start_s
            if not np.array_equal(found, expected, equal_nan=True):
                os._exit(3)
"""


SEEDS = {
    "SimPy schedules arrivals by delay": 2,
    "only the first job that ends at the shadow time counts": 5,
}
"""Seeds with which a mutant is seen early; the first one does so for the rest."""


def outcome(
    folder: Path, repository: Path, tried: str = TRY, seed: int = 1, most: int = 600
) -> int:
    """Try so many scenarios; return the code: 0 where nothing was seen, 3 where starts differ."""
    done = subprocess.run(
        [sys.executable, "-c", tried],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(repository)]),
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONHASHSEED": "0",  # sets are drawn from in the same order every time
            "SEED": str(seed),
            "MOST": str(most),
        },
        capture_output=True,
        timeout=1800,
        check=False,
    )
    return done.returncode


def copied(tmp_path: Path) -> Path:
    source = Path(sim.__file__).parent
    shutil.copytree(source, tmp_path / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def mutated(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """Return a folder with a copy of the simulator in which one line is broken."""
    folder = copied(tmp_path)
    path = folder / "sim" / file
    text = path.read_text()
    assert text.count(old) == 1, "the text has changed: mend the mutant"
    path.write_text(text.replace(old, new))
    return folder


@pytest.mark.soak
@pytest.mark.slow
def test_the_unbroken_text_passes(tmp_path: Path, repository: Path) -> None:
    folder = copied(tmp_path)
    assert outcome(folder, repository, most=60) == 0
    assert outcome(folder, repository, TRY_NODES, most=60) == 0
    assert outcome(folder, repository, TRY_USERS) == 0
    assert outcome(folder, repository, TRY_MOLDABLE) == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", MOLDABLE_MUTANTS)
def test_the_mutant_of_moldable_jobs_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    assert outcome(mutated(tmp_path, *MOLDABLE_MUTANTS[name]), repository, TRY_MOLDABLE) == 3


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    seed = SEEDS.get(name, 1)
    assert outcome(mutated(tmp_path, *MUTANTS[name]), repository, seed=seed) == 3


@pytest.mark.soak
@pytest.mark.parametrize("name", NODE_MUTANTS)
def test_the_mutant_of_named_machines_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    assert outcome(mutated(tmp_path, *NODE_MUTANTS[name]), repository, TRY_NODES) == 3


@pytest.mark.soak
@pytest.mark.parametrize("name", USER_MUTANTS)
def test_the_mutant_of_users_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    assert outcome(mutated(tmp_path, *USER_MUTANTS[name]), repository, TRY_USERS) == 3
