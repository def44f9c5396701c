"""The built-in workload: what the demo and the tests use when nobody brings a log."""

from dataclasses import replace

import numpy as np

from sim.errors import WorkloadError
from sim.model.describe import offered_load
from sim.model.workload import ReadingNote, Workload
from sim.workloads.estimates import f_model, round_up
from sim.workloads.lublin import BOTH_TYPES, LublinParameters, lublin

MACHINE_PROCS = 128
"""Widest job 32, so that a split of the machine still has room for it."""

NARROWER = 2.0
"""Taken off the log2 of all processor counts of the model: jobs of up to 32 processors, not 128."""

OFFERED_LOAD = 0.65
FACTOR = 4.0


def default_workload(seed: int = 0, n_jobs: int = 1500) -> Workload:
    """Draw the built-in workload.

    Lublin-Feitelson jobs of both types, up to 32 processors (the model's ULow, UMed and UHi less
    2, as for a machine a quarter of the size). Submit times are multiplied by one factor so that
    the offered load on 128 processors is 0.65. Requests are the run times by the f-model with
    f = 4, rounded up to round values (1 min ... 96 h).

    Args:
        seed: one stream for the jobs, another for the requests.
        n_jobs: at least 2, since a load needs a span of time.

    Raises:
        WorkloadError: fewer than 2 jobs, or a negative seed.
    """
    if n_jobs < 2:
        raise WorkloadError(f"{n_jobs} jobs; the built-in workload needs 2 or more.")
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; allowed are whole numbers from 0.")
    of_jobs, of_requests = np.random.SeedSequence(seed).spawn(2)
    drawn = lublin(n_jobs, of_jobs, types=tuple(_narrower(p) for p in BOTH_TYPES))
    load = offered_load(drawn, MACHINE_PROCS)
    scale = 1.0 if load is None else load / OFFERED_LOAD
    runtime_s = np.maximum(drawn.runtime_s, 1.0)
    rng = np.random.default_rng(of_requests)
    sentence = (
        f"{n_jobs} requests come from a model: run time * (1 + U(0, {FACTOR:g})), rounded up to "
        "round values."
    )
    return Workload.from_arrays(
        submit_s=np.round(drawn.submit_s * scale),
        runtime_s=runtime_s,
        procs=drawn.procs,
        requested_s=round_up(f_model(runtime_s, FACTOR, rng)),
        queue=drawn.queue,
        name="lublin-feitelson (built in)",
        max_procs=MACHINE_PROCS,
        notes=(ReadingNote("estimate_model", n_jobs, sentence),),
    )


def _narrower(p: LublinParameters) -> LublinParameters:
    low, middle, high = (max(u - NARROWER, 0.0) for u in (p.u_low, p.u_med, p.u_hi))
    return replace(p, u_low=low, u_med=middle, u_hi=high)
