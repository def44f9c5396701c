"""Families of the jobs of a log, and what their durations, requests and profiles say.

A workload of Joulie's tells the family of every job. Other logs do not, and these rules stand in:

- a job with GPUs that runs for less than `short_s` is ``debug_eval``; of the longer ones nothing
  tells trainings and experiments apart, so they keep the published mix among themselves, and their
  medians the published ratios: the level and the spread are learnt from all of them together;
- a job without GPUs that takes `many_cores` or more is ``cpu_analytics``, another one
  ``cpu_preprocess`` (by `LONG_CPU_S` if its cores are unknown).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.model.pods import GIB, KINDS
from sim.model.workload import Workload
from sim.workloads.joulie.learning import Learnt, fit_law, share_of
from sim.workloads.joulie.parameters import Family, JoulieParameters, Law

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]

SHORT_S = 900.0
"""The published trainings run for no less."""

MANY_CORES = 22.6
"""The geometric mean of the published medians of the two families without GPUs, 16 and 32."""

LONG_CPU_S = 1273.0
"""The same of their durations, 900 and 1,800 s."""

LEAST_PER_GPU_GIB = 0.25
LEAST_OF_SIGMA = 0.1
"""Of the spread of families together, that is left to each of them."""

MILLI = 1000.0
TRAININGS = tuple(name for name in KINDS if name.endswith("_training") or name.startswith("hpo"))


@dataclass
class Found:
    """What has been learnt so far.

    Attributes:
        families: as they are now.
        told: values of other parameters.
        learnt: rows of the table.
        words: what was learnt, for people.
        kept: sentences about what stays as published, and why.
    """

    families: dict[str, Family]
    told: dict[str, Any] = field(default_factory=dict)
    learnt: list[Learnt] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobNeeds:
    """What a log tells of the pods of its jobs: float64 [n_jobs], NaN where unknown.

    Attributes:
        gpus: whole GPUs of all pods together; a share of one counts as one.
        cores: of a pod.
        mem_gib: of a pod.
        pod_gpus: whole GPUs of a pod.
    """

    gpus: Floats
    cores: Floats
    mem_gib: Floats
    pod_gpus: Floats

    @classmethod
    def of(cls, workload: Workload) -> "JobNeeds":
        """Return what a log tells of its jobs."""
        tasks = workload.tasks
        if tasks is None:
            unknown = np.full(workload.n_jobs, np.nan)
            memory = workload.mem_bytes_per_proc * workload.procs / GIB
            memory[workload.mem_bytes_per_proc <= 0] = np.nan
            return cls(unknown, workload.procs.astype(np.float64), memory, unknown)
        first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
        pod_gpus = np.ceil(tasks.mgpu / MILLI)
        largest = np.maximum.reduceat
        cores, memory = tasks.mcpu / MILLI, tasks.mem_bytes / GIB
        return cls(
            np.add.reduceat(pod_gpus * tasks.instances, first),
            largest(np.where(cores > 0, cores, np.nan), first),
            largest(np.where(memory > 0, memory, np.nan), first),
            largest(pod_gpus, first),
        )


def fit_by_rules(workload: Workload, prior: JoulieParameters, knobs: Mapping[str, float]) -> Found:
    """Learn families of a log that does not tell them; see the module.

    Args:
        workload: the log.
        prior: what stays where nothing is learnt.
        knobs: `short_s`, `many_cores`, `least_rows`, and `untold_gpu_ratio`: the share of jobs with
            GPUs if the log tells of none.
    """
    found = Found(dict(prior.families))
    needs, least_rows = JobNeeds.of(workload), int(knobs["least_rows"])
    runtime_s = workload.runtime_s
    if np.isnan(needs.gpus).all():
        has_gpus = np.zeros(workload.n_jobs, dtype=np.bool_)
        found.told["gpu_ratio"] = knobs["untold_gpu_ratio"]
        found.kept.append(
            "the log does not tell of GPUs, so all of its jobs count as without, and the GPU ratio "
            f"is {knobs['untold_gpu_ratio']:g} as told (untold_gpu_ratio)"
        )
    else:
        has_gpus = needs.gpus > 0
        learn_gpus(found, prior, has_gpus, needs.gpus[has_gpus])
    if has_gpus.any():
        short = has_gpus & (runtime_s < knobs["short_s"])
        shares = {"debug_eval": int(short.sum())}
        _learn_shares(found, prior, shares, int(has_gpus.sum()), others=TRAININGS)
        for names, rows in ((("debug_eval",), short), (TRAININGS, has_gpus & ~short)):
            _learn_laws(found, names, rows, workload, needs, least_rows)
    plain = ~has_gpus
    if plain.any():
        wide = np.where(
            np.isnan(needs.cores), runtime_s >= LONG_CPU_S, needs.cores >= knobs["many_cores"]
        )
        counts = {"cpu_preprocess": int((plain & ~wide).sum())}
        counts["cpu_analytics"] = int((plain & wide).sum())
        _learn_shares(found, prior, counts, int(plain.sum()), others=())
        for name, rows in (("cpu_preprocess", plain & ~wide), ("cpu_analytics", plain & wide)):
            _learn_laws(found, (name,), rows, workload, needs, least_rows)
    found.words.append("families by rule")
    found.kept.append("utilisations, intensities and sensitivities are not in the log")
    return found


def learn_gpus(found: Found, prior: JoulieParameters, has_gpus: Rows, gpus: Floats) -> None:
    """Learn the share of jobs with GPUs, and of each number of them.

    Args:
        found: is changed.
        prior: says what it was.
        has_gpus: bool [n_jobs].
        gpus: of some jobs with GPUs, whose number is known.
    """
    row = share_of("gpu_ratio", prior.gpu_ratio, int(has_gpus.sum()), len(has_gpus))
    found.told["gpu_ratio"] = row.after
    found.learnt.append(row)
    found.words.append("GPU ratio")
    if not len(gpus):
        return
    counts, n_jobs = np.unique(gpus.astype(np.int64), return_counts=True)
    before = dict(zip(prior.gpu_counts, prior.gpu_count_probabilities, strict=True))
    for count, n in zip(counts.tolist(), n_jobs.tolist(), strict=True):
        name = f"gpu_count_probabilities[{count} GPUs]"
        found.learnt.append(share_of(name, before.get(count, 0.0), n, len(gpus)))
    found.told["gpu_counts"] = counts.tolist()
    found.told["gpu_count_probabilities"] = (n_jobs / n_jobs.sum()).tolist()
    found.words.append("GPU counts")


def _learn_shares(
    found: Found,
    prior: JoulieParameters,
    counts: Mapping[str, int],
    n: int,
    others: tuple[str, ...],
) -> None:
    """Learn shares of families; those of `others` share what is left as they did before."""
    rest = n - sum(counts.values())
    usual = sum(prior.families[name].share for name in others)
    for name, count in counts.items():
        row = share_of(f"families.{name}.share", prior.families[name].share, count, n)
        found.families[name] = replace(found.families[name], share=row.after)
        found.learnt.append(row)
    for name in others:
        of_rest = prior.families[name].share / usual
        row = share_of(f"families.{name}.share", prior.families[name].share, rest, n)
        after, low, high = ((one or 0.0) * of_rest for one in (row.after, row.low, row.high))
        found.families[name] = replace(found.families[name], share=after)
        found.learnt.append(replace(row, after=after, low=low, high=high))


def _learn_laws(
    found: Found,
    names: tuple[str, ...],
    rows: Rows,
    workload: Workload,
    needs: JobNeeds,
    least_rows: int,
) -> None:
    of_gpus = found.families[names[0]].needs_gpus
    base = found.families[names[0]].memory_base_gib
    per = np.maximum(needs.pod_gpus, 1) if of_gpus else 1.0
    memory = np.maximum((needs.mem_gib - base) / per, LEAST_PER_GPU_GIB)
    for law, values in (
        ("duration_sec", workload.runtime_s), ("cpu", needs.cores), ("memory_gib", memory),
    ):  # fmt: skip
        known = values[rows & (values > 0)]  # of unknown ones nothing is above 0
        learn_law(found, names, law, partial(fit_law, known), known, least_rows)


def learn_law(
    found: Found,
    names: tuple[str, ...],
    law: str,
    fitted: Callable[[Law], Any],
    values: Floats,
    least_rows: int,
) -> None:
    """Learn one law of one family, or of several that stay to each other as they were.

    The logarithms of several lognormal families in fixed ratios spread by the square of their own
    sigma plus the variance of their medians' logarithms; the latter is known and taken off.
    """
    laws: list[Law] = [getattr(found.families[name], law) for name in names]
    shares = np.array([found.families[name].share for name in names])
    weights = shares / shares.sum() if shares.sum() > 0 else np.full(len(names), 1 / len(names))
    logs = np.log([one.median for one in laws])
    middle = float(weights @ logs)
    between = float(weights @ (logs - middle) ** 2)
    prior = Law(
        math.exp(middle), float(weights @ [one.sigma for one in laws]),
        min(one.least for one in laws), max(one.most for one in laws),
    )  # fmt: skip
    fit = fitted(prior) if len(values) >= least_rows else None
    if fit is None:
        if len(values):
            why = "are too few" if len(values) < least_rows else "tell no spread"
            found.kept.append(f"{law} of {' and '.join(names)}: {len(values)} rows {why}")
        return
    sigma = fit.law.sigma
    if between > 0:
        sigma = math.sqrt(max(sigma**2 - between, (sigma * LEAST_OF_SIGMA) ** 2))
    for name, one in zip(names, laws, strict=True):
        ratio = one.median / prior.median
        made = replace(fit.law, median=fit.law.median * ratio, sigma=sigma)
        found.families[name] = replace(found.families[name], **{law: made})
        scaled = replace(
            fit,
            law=made,
            median_low=fit.median_low * ratio,
            median_high=fit.median_high * ratio,
            sigma_low=fit.sigma_low * sigma / fit.law.sigma,
            sigma_high=fit.sigma_high * sigma / fit.law.sigma,
        )
        found.learnt.extend(scaled.learnt(f"families.{name}.{law}", one))
    word = {"duration_sec": "durations", "cpu": "cores", "memory_gib": "memory"}[law]
    if word not in found.words:
        found.words.append(word)
