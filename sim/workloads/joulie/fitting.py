"""A Joulie model of a workload: what its columns tell is learnt, all else stays as published.

Learnt are the arrivals (multiplier of every hour of the day and mean time between submissions), the
share and number of GPUs if the jobs have tasks, the mix of families if the workload has Joulie's
families, and the median and spread of durations, by family if they are known and else of all alike.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.hours import WallClock
from sim.model.pods import KINDS
from sim.model.workload import Workload
from sim.workloads.joulie.parameters import MOST_GPUS, Family, JoulieParameters, model_of
from sim.workloads.model import Model

FEWEST_JOBS = 50
HOUR_S, DAY_S = 3600.0, 86400.0


def fit_joulie(workload: Workload, _knobs: Mapping[str, float]) -> Model:
    """Fit a model; see the module.

    Raises:
        WorkloadError: fewer than `FEWEST_JOBS` jobs, or all submitted at once.
    """
    if workload.n_jobs < FEWEST_JOBS or workload.span_s <= 0:
        raise WorkloadError(
            f"{workload.name} has {workload.n_jobs} jobs over {workload.span_s:g} s; the Joulie "
            f"generator is fitted to {FEWEST_JOBS} or more, not all submitted at once."
        )
    learnt = ["arrivals", "durations"]
    p = _arrivals(workload, JoulieParameters())
    gpus = _gpus(workload)
    if gpus is not None:
        p = _footprints(p, gpus)
        learnt.append("GPUs")
    has_families = _has_families(workload)
    if has_families:
        learnt.append("families")
    p = replace(p, families=_families(workload, p, has_families))
    sentence = f"Fitted to {workload.name} ({workload.n_jobs} jobs): {', '.join(learnt)}; the rest "
    return model_of(p, f"{sentence}as published.")


def _arrivals(workload: Workload, p: JoulieParameters) -> JoulieParameters:
    clock = WallClock.of(workload)
    shown_s = clock.local_s(workload.submit_s)
    counts = np.bincount((shown_s % DAY_S // HOUR_S).astype(np.int64), minlength=24)[:24]
    exposed_s = _exposure_s(float(shown_s[0]), float(shown_s[-1]))
    mean_s = workload.span_s / (workload.n_jobs - 1)
    rates = np.divide(counts, exposed_s, out=np.full(24, 1.0 / mean_s), where=exposed_s > 0)
    return replace(
        p,
        mean_inter_arrival_sec=mean_s,
        hourly_multipliers=tuple((rates * mean_s).tolist()),
        burst_day_probability=0.0,
        time_zone=clock.zone or p.time_zone,
    )


def _exposure_s(first_s: float, last_s: float) -> NDArray[np.float64]:
    """Return for how long each hour of the day was observed: float64 [24]."""
    hours = np.arange(first_s // HOUR_S, last_s // HOUR_S + 1)
    seen_s = np.minimum((hours + 1) * HOUR_S, last_s) - np.maximum(hours * HOUR_S, first_s)
    return np.bincount((hours % 24).astype(np.int64), weights=seen_s, minlength=24)


def _gpus(workload: Workload) -> NDArray[np.int64] | None:
    """Return the whole GPUs of each job; None if the workload does not tell of any."""
    tasks = workload.tasks
    if tasks is None or not tasks.mgpu.any():
        return None
    mgpu = np.bincount(tasks.job, weights=(tasks.mgpu * tasks.instances).astype(np.float64))
    return np.ceil(mgpu / 1000.0).astype(np.int64)


def _footprints(p: JoulieParameters, gpus: NDArray[np.int64]) -> JoulieParameters:
    some = np.minimum(gpus[gpus > 0], MOST_GPUS)
    counts, n_jobs = np.unique(some, return_counts=True)
    return replace(
        p,
        gpu_ratio=len(some) / len(gpus),
        gpu_counts=tuple(counts.tolist()),
        gpu_count_probabilities=tuple((n_jobs / n_jobs.sum()).tolist()),
    )


def _has_families(workload: Workload) -> bool:
    """Tell whether groups are families: the workload is one of pods with work units."""
    is_joulies = workload.tasks is not None and workload.tasks.work is not None
    return is_joulies and bool(((workload.group >= 0) & (workload.group < len(KINDS))).all())


def _families(workload: Workload, p: JoulieParameters, is_told: bool) -> dict[str, Family]:
    families = dict(p.families)
    for needs_gpus in (True, False):
        names = [name for name, one in families.items() if one.needs_gpus == needs_gpus]
        counts = np.array([(workload.group == KINDS.index(name)).sum() for name in names])
        for name, count in zip(names, counts.tolist(), strict=True):
            rows = workload.group == KINDS.index(name) if is_told else workload.runtime_s >= 0
            family = _of_duration(
                families[name], workload.runtime_s[rows & (workload.runtime_s > 0)]
            )
            if is_told and counts.sum():
                family = replace(family, share=count / int(counts.sum()))
            families[name] = family
    return families


def _of_duration(family: Family, runtime_s: NDArray[np.float64]) -> Family:
    if len(runtime_s) < FEWEST_JOBS:
        return family
    law = replace(
        family.duration_sec,
        median=float(np.median(runtime_s)),
        sigma=float(np.log(runtime_s).std()),
        least=float(runtime_s.min()),
        most=float(runtime_s.max()),
    )
    return replace(family, duration_sec=law, duration_factor_many=1.0)
