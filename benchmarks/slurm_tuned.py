"""Whether a gain that the simulator predicts is there on a real Slurm, before and after its lines.

``python -m benchmarks.slurm_tuned`` draws 60 jobs of each seed for one partition, asks what Slurm
can do about their waits (preset ``slurm_lanes``, every configuration, lanes of one and two
minutes), and lets a real Slurm schedule them twice: as it is (first come, first served, EASY), and
with the lines that ``report --slurm-conf`` writes for the shortest mean wait. Jobs within the
limits of the lane are submitted to its partition, as the lines say. Printed is the mean wait of
each, simulated and measured, and their ratios. Each schedule is kept in ``--json`` when it is
there; with ``--resume`` it is not measured again. About six minutes a schedule. ``--quick``
predicts alone, and needs no Slurm.
"""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from assistant import Sla, open_session
from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.executors.serial import SerialExecutor
from assistant.simtools.slurm_conf import slurm_conf
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.slurm_draw import DrawnJob, draw
from benchmarks.slurm_measure import Plan, check, cluster, schedule
from sim import Workload
from strategies import Level

SEEDS = (21, 22, 23)
N_JOBS, SPAN_S = 60, 60
NODES, CPUS = 4, 8  # of each of the two partitions; jobs go to the first alone
LANES_S = (0, 60, 120)
MAIN, LANE = "main", "express"


def drawn_jobs(seed: int, n_jobs: int, span_s: int) -> tuple[DrawnJob, ...]:
    """Draw jobs as `benchmarks.slurm_draw` does, all for one partition."""
    return tuple(replace(job, partition=MAIN) for job in draw(seed, n_jobs, span_s, NODES * CPUS))


def tuned(jobs: tuple[DrawnJob, ...]) -> dict[str, Any]:
    """Return the best configuration for jobs, its lines, and the simulated waits, as JSON."""
    workload = Workload.from_arrays(
        submit_s=[job.arrival_s for job in jobs], runtime_s=[job.run_s for job in jobs],
        requested_s=[60 * job.limit_min for job in jobs], procs=[job.procs for job in jobs],
        max_procs=NODES * CPUS, name="drawn",
    )  # fmt: skip
    application = Scheduling(
        workload, procs=NODES * CPUS, preset="slurm_lanes", train_share=1.0,
        levels={"lane_max_requested_s": LANES_S}, current_policies=CurrentPolicies("fcfs", "easy"),
    )  # fmt: skip
    space, baseline = application.space, application.baseline
    every = [space.values(configuration) for configuration in space.configurations()]
    session = open_session(application, store=MemoryStore(), sla=Sla(len(every)))
    session.submit_baseline()
    for values in every:
        if values != baseline:
            session.include(values)
    session.run_queued(SerialExecutor(application))
    experiment = session.experiment
    runs = [run for run in experiment.runs if run.outcome is not None]
    waits_s = {run.id: float(run.outcome.measures["mean_wait_s"]) for run in runs if run.outcome}  # type: ignore[arg-type]
    best = min(waits_s, key=lambda run_id: waits_s[run_id])
    now_s, then_s = waits_s[1], waits_s[best]
    values = space.values(experiment.run(best).configuration)
    lines = slurm_conf(application, experiment, run_id=best) if best != 1 else ""
    return {"values": dict(values), "lines": lines, "simulated_s": [now_s, then_s]}


def routed(jobs: tuple[DrawnJob, ...], values: dict[str, Level]) -> tuple[DrawnJob, ...]:
    """Return the jobs with those in the partition of the lane that are within its limits."""
    longest_s, widest = float(values["lane_max_requested_s"]), int(values["lane_max_procs"])
    return tuple(
        replace(job, partition=LANE)
        if 60 * job.limit_min <= longest_s and job.procs <= widest
        else job
        for job in jobs
    )


def measured_s(plan: Plan, seed: int, jobs: tuple[DrawnJob, ...], lines: str) -> dict[str, Any]:
    """Let a real Slurm schedule jobs; return their mean wait in seconds, as JSON."""
    nodes = f"Nodes=n[0-{NODES - 1}]"  # those of the jobs' partition, where the lines say all
    with cluster(plan, lines.replace("Nodes=ALL", nodes)) as environment:
        told = schedule(plan, seed, jobs, environment, _say)
    waits_s = [job["start"] - job["submit"] for job in told["jobs"]]
    failed = sorted({job["state"] for job in told["jobs"]} - {"COMPLETED"})
    return {"mean_wait_s": sum(waits_s) / len(waits_s), "slurm": told["slurm"], "failed": failed}


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{text:60}\r")


def main() -> None:
    """Tune, measure, print the table, write the JSON."""
    options = parser(__doc__ or "")
    options.add_argument("--slurm", type=Path, default=Path("../shared/slurm"))
    options.add_argument("--port", type=int, default=18_500, help="first port of the loopback")
    options.add_argument("--seed", type=int, action="append", help="of the jobs; repeat it")
    run(options.parse_args())


def run(options: argparse.Namespace) -> None:
    """Tune and measure each seed, and print a row for each."""
    seeds = options.seed or SEEDS
    record = Record("slurm_tuned", options, list(seeds), free=("seed", "port", "slurm"))
    plan = Plan(options.slurm, Path(), "easy", NODES, CPUS, N_JOBS, SPAN_S, options.port)
    if not options.quick:
        check(plan)
    rows = []
    for seed in seeds:
        jobs = drawn_jobs(seed, N_JOBS, SPAN_S)
        found = record.step(f"{seed}: tuned", partial(tuned, jobs))
        simulated = found["simulated_s"]
        record.figure(f"{seed}: simulated ratio", simulated[1] / simulated[0])
        rows.append([str(seed), ", ".join(map(str, found["values"].values())), *_waits(simulated)])
        if options.quick:
            continue
        there, lines = routed(jobs, found["values"]), found["lines"]
        now = record.step(f"{seed}: as it is", partial(measured_s, plan, seed, jobs, ""))
        then = record.step(f"{seed}: with the lines", partial(measured_s, plan, seed, there, lines))
        measured = [now["mean_wait_s"], then["mean_wait_s"]]
        record.figure(f"{seed}: measured ratio", measured[1] / measured[0])
        ends = ", ".join({*now["failed"], *then["failed"]}) or "none"
        rows[-1] += [*_waits(measured), ends]
    record.write()
    names = ["seed", "configuration", "mean wait, simulated, s", "simulated ratio"]
    more = [] if options.quick else ["measured, s", "measured ratio", "other ends"]
    table([*names, *more], rows)


def _waits(pair: list[float]) -> list[str]:
    return [f"{pair[0]:.1f} -> {pair[1]:.1f}", f"{pair[1] / pair[0]:.2f}"]


if __name__ == "__main__":
    guarded(main)
