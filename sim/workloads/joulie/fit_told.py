"""What a workload of Joulie's own tells, whose jobs have families, pods and profiles."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.pods import GIB, INTENTS, KINDS, POWER_PROFILE
from sim.model.tasks import SIGNALS, Tasks, Work
from sim.model.workload import Workload
from sim.workloads.joulie.fit_families import Found, learn_gpus, learn_law
from sim.workloads.joulie.learning import Learnt, fit_law, mean_of, share_of
from sim.workloads.joulie.parameters import Family, JoulieParameters

Floats = NDArray[np.float64]
MILLI = 1000.0


def has_families(workload: Workload) -> bool:
    """Tell whether the groups of jobs are Joulie's families: their pods have work units."""
    tasks = workload.tasks
    is_joulies = tasks is not None and tasks.work is not None
    return is_joulies and bool(((workload.group >= 0) & (workload.group < len(KINDS))).all())


def _pods_with_work(workload: Workload) -> tuple[Tasks, Work]:
    tasks = workload.tasks
    if tasks is None or tasks.work is None:
        raise WorkloadError(f"{workload.name} has no pods with work units, as Joulie's have.")
    return tasks, tasks.work


def fit_told(workload: Workload, prior: JoulieParameters, knobs: Mapping[str, float]) -> Found:
    """Learn all that such a workload tells.

    The number of GPUs is that of all pods of a job; that of an experiment (HPO) is not told by its
    trials. Ranges of uniform signals are the smallest and the largest that were seen.
    """
    tasks, work = _pods_with_work(workload)
    found = Found(dict(prior.families))
    needed = np.array([prior.families[name].needs_gpus for name in KINDS])[workload.group]
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    gpus = np.add.reduceat(tasks.mgpu * tasks.instances, first) / MILLI
    controlled = [KINDS.index(n) for n, f in prior.families.items() if f.structure == "controller"]
    is_counted = needed & ~np.isin(workload.group, controlled) & (gpus > 0)
    learn_gpus(found, prior, needed, gpus[is_counted])
    for name, family in prior.families.items():
        rows = workload.group == KINDS.index(name)
        n_alike = int((needed == family.needs_gpus).sum())
        if n_alike:
            row = share_of(f"families.{name}.share", family.share, int(rows.sum()), n_alike)
            found.families[name] = replace(found.families[name], share=row.after)
            found.learnt.append(row)
        _learn_laws(
            found, name, rows, (workload, tasks), gpus, prior.many_gpus, int(knobs["least_rows"])
        )
        _learn_signals(found, name, rows[tasks.job], tasks.job, work, int(knobs["least_rows"]))
    _learn_gpu_utilisation(found, prior, workload, gpus, is_counted, int(knobs["least_rows"]))
    _learn_intents(found, prior, workload)
    found.words += ["families", "profiles", "intents"]
    return found


def _learn_laws(
    found: Found,
    name: str,
    rows: NDArray[np.bool_],
    seen: tuple[Workload, Tasks],
    gpus: Floats,
    many_gpus: int,
    least_rows: int,
) -> None:
    family, (workload, tasks) = found.families[name], seen
    factor = np.where(gpus >= many_gpus, family.duration_factor_many, 1.0)[rows]
    duration_s = workload.runtime_s[rows]
    learn_law(
        found, (name,), "duration_sec", lambda law: fit_law(duration_s, law, factor=factor),
        duration_s, least_rows,
    )  # fmt: skip
    pods = _pods(tasks, family, rows)
    cores = tasks.mcpu[pods] / MILLI
    learn_law(found, (name,), "cpu", lambda law: fit_law(cores, law), cores, least_rows)
    per = np.maximum(tasks.mgpu[pods] / MILLI, 1.0)
    memory = (tasks.mem_bytes[pods] / GIB - family.memory_base_gib) / per
    some = memory > 0.5 / per
    learn_law(
        found, (name,), "memory_gib",
        lambda law: fit_law(memory[some], law, half=0.5 / per[some]),
        memory[some], least_rows,
    )  # fmt: skip


def _pods(tasks: Tasks, family: Family, rows: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return pods that do the work: one of each job if they are alike, all trials."""
    if family.role not in tasks.roles:
        return np.zeros(0, dtype=np.intp)
    pods = np.flatnonzero((tasks.role == tasks.roles.index(family.role)) & rows[tasks.job])
    if family.structure == "controller":
        return pods
    _, first = np.unique(tasks.job[pods], return_index=True)
    return pods[first]


def _learn_signals(
    found: Found,
    name: str,
    rows: NDArray[np.bool_],
    job: NDArray[np.int64],
    work: Work,
    least_rows: int,
) -> None:
    family = found.families[name]
    if len(np.unique(job[rows])) < least_rows:
        return
    for column, signal in enumerate(SIGNALS):
        if signal == "gpu_utilisation" or (
            signal == "cpu_feed_intensity" and not family.needs_gpus
        ):
            continue
        before = getattr(family, signal)
        seen = work.profile[rows, column]
        after = (float(seen.min()), float(seen.max()))
        changed: dict[str, Any] = {signal: after}
        family = replace(family, **changed)
        for place, end in enumerate(("from", "to")):
            parameter = f"families.{name}.{signal}.{end}"
            found.learnt.append(
                Learnt(parameter, before[place], after[place], None, None, int(rows.sum()))
            )
    found.families[name] = family


def _learn_gpu_utilisation(
    found: Found,
    prior: JoulieParameters,
    workload: Workload,
    gpus: Floats,
    is_counted: NDArray[np.bool_],
    least_rows: int,
) -> None:
    tasks, work = _pods_with_work(workload)
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    shift = np.array([prior.families[name].gpu_utilisation_shift for name in KINDS])
    mean = work.profile[first, 1] - shift[workload.group]
    place = np.searchsorted(np.array(prior.gpu_utilisation_counts), gpus, side="left")
    place = np.minimum(place, len(prior.gpu_utilisation_counts) - 1)
    means = list(prior.gpu_utilisation_means)
    for i, count in enumerate(prior.gpu_utilisation_counts):
        values = mean[is_counted & (place == i)]
        if len(values) >= least_rows:
            row = mean_of(f"gpu_utilisation_means[{count} GPUs]", means[i], values)
            means[i] = min(max(row.after, 0.0), 1.0)
            found.learnt.append(row)
    found.told["gpu_utilisation_means"] = means


def _learn_intents(found: Found, prior: JoulieParameters, workload: Workload) -> None:
    """Learn the shares of intents from what pods demand of the power profile of machines."""
    tasks, _ = _pods_with_work(workload)
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    demand = tasks.demand[first]
    for name, intent in (("perf_ratio", "performance"), ("eco_ratio", "eco")):
        wanted = next(term for term in INTENTS[intent] if term.key == POWER_PROFILE)
        which = [i for i, terms in enumerate(tasks.affinities) if wanted in terms]
        hits = int(np.isin(demand, which).sum())
        row = share_of(name, getattr(prior, name), hits, workload.n_jobs)
        found.told[name] = row.after
        found.learnt.append(row)
    found.told["compute_bound_boost"] = 1.0
