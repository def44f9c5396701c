"""Fit of a Joulie model to the known columns of a log; other parameters stay as published.

A workload of Joulie's own has the family, pods and profiles of every job. In other logs these
rules decide:

- a job with GPUs that runs for less than `short_s` is ``debug_eval``; of the longer ones nothing
  distinguishes trainings and experiments, so they keep the published mix among themselves and the
  published ratios of their medians: level and spread are fitted to all of them together;
- a job without GPUs that takes `many_cores` or more is ``cpu_analytics``, another one
  ``cpu_preprocess`` (by `LONG_CPU_S` if its cores are unknown).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import Model
from sim.generators.joulie.estimates import (
    ParameterEstimate,
    fit_arrivals,
    fit_law,
    mean_of,
    share_of,
)
from sim.generators.joulie.parameters import (
    ClampedLognormal,
    JoulieParameters,
    WorkloadFamily,
    model_of,
    parameters_of,
)
from sim.metrics.wall_clock import WallClock
from sim.model.errors import WorkloadError
from sim.model.pods import GIB, INTENTS, KINDS, POWER_PROFILE
from sim.model.tasks import SIGNALS, Tasks, TaskWork
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]


SHORT_S = 900.0  # least duration of the published trainings

MANY_CORES = 22.6
"""Geometric mean of the published median cores of the two families without GPUs, 16 and 32."""

LONG_CPU_S = 1273.0  # geometric mean of their durations, 900 and 1,800 s

LEAST_PER_GPU_GIB = 0.25
LEAST_OF_SIGMA = 0.1  # least share of the common spread of families that each of them keeps

MILLI = 1000.0
TRAININGS = tuple(name for name in KINDS if name.endswith("_training") or name.startswith("hpo"))


@dataclass
class FamilyFit:
    """Accumulated results of fitting families, with notes on parameters left as published."""

    families: dict[str, WorkloadFamily]
    parameters: dict[str, Any] = field(default_factory=dict)
    learnt: list[ParameterEstimate] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    unchanged_notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobNeeds:
    """Resource requests of jobs and their pods: float64 [n_jobs], NaN where unknown.

    Attributes:
        gpus: whole GPUs of all pods together; a share of one counts as one.
        cores, mem_gib, pod_gpus: requests of a pod, with whole GPUs.
    """

    gpus: Floats
    cores: Floats
    mem_gib: Floats
    pod_gpus: Floats

    @classmethod
    def of(cls, workload: Workload) -> "JobNeeds":
        """Return the resource requests of a workload's jobs."""
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


def fit_by_rules(
    workload: Workload, prior: JoulieParameters, knobs: Mapping[str, float]
) -> FamilyFit:
    """Fit workload families to a log that lacks them; rules assign a family to each job.

    The knob `untold_gpu_ratio` is the share of jobs with GPUs if the log does not contain it.
    """
    family_fit = FamilyFit(dict(prior.families))
    needs, least_rows = JobNeeds.of(workload), int(knobs["least_rows"])
    runtime_s = workload.runtime_s
    if np.isnan(needs.gpus).all():
        has_gpus = np.zeros(workload.n_jobs, dtype=np.bool_)
        family_fit.parameters["gpu_ratio"] = knobs["untold_gpu_ratio"]
        family_fit.unchanged_notes.append(
            "the log has no GPU column, so all of its jobs count as jobs without GPUs, and the GPU "
            f"ratio is the given untold_gpu_ratio, {knobs['untold_gpu_ratio']:g}"
        )
    else:
        has_gpus = needs.gpus > 0
        learn_gpus(family_fit, prior, has_gpus, needs.gpus[has_gpus])
    if has_gpus.any():
        short = has_gpus & (runtime_s < knobs["short_s"])
        shares = {"debug_eval": int(short.sum())}
        _learn_shares(family_fit, prior, shares, int(has_gpus.sum()), remaining=TRAININGS)
        for names, rows in ((("debug_eval",), short), (TRAININGS, has_gpus & ~short)):
            _learn_laws(family_fit, names, rows, workload, needs, least_rows)
    plain = ~has_gpus
    if plain.any():
        wide = np.where(
            np.isnan(needs.cores), runtime_s >= LONG_CPU_S, needs.cores >= knobs["many_cores"]
        )
        counts = {"cpu_preprocess": int((plain & ~wide).sum())}
        counts["cpu_analytics"] = int((plain & wide).sum())
        _learn_shares(family_fit, prior, counts, int(plain.sum()), remaining=())
        for name, rows in (("cpu_preprocess", plain & ~wide), ("cpu_analytics", plain & wide)):
            _learn_laws(family_fit, (name,), rows, workload, needs, least_rows)
    family_fit.words.append("families by rule")
    family_fit.unchanged_notes.append(
        "utilisations, intensities and sensitivities are not in the log"
    )
    return family_fit


def learn_gpus(
    family_fit: FamilyFit, prior: JoulieParameters, has_gpus: Rows, gpus: Floats
) -> None:
    """Fit the share of jobs with GPUs, and the probability of each number of GPUs."""
    row = share_of("gpu_ratio", prior.gpu_ratio, int(has_gpus.sum()), len(has_gpus))
    family_fit.parameters["gpu_ratio"] = row.after
    family_fit.learnt.append(row)
    family_fit.words.append("GPU ratio")
    if not len(gpus):
        return
    counts, n_jobs = np.unique(gpus.astype(np.int64), return_counts=True)
    before = dict(zip(prior.gpu_counts, prior.gpu_count_probabilities, strict=True))
    for count, n in zip(counts.tolist(), n_jobs.tolist(), strict=True):
        name = f"gpu_count_probabilities[{count} GPUs]"
        family_fit.learnt.append(share_of(name, before.get(count, 0.0), n, len(gpus)))
    family_fit.parameters["gpu_counts"] = counts.tolist()
    family_fit.parameters["gpu_count_probabilities"] = (n_jobs / n_jobs.sum()).tolist()
    family_fit.words.append("GPU counts")


def _learn_shares(
    family_fit: FamilyFit,
    prior: JoulieParameters,
    counts: Mapping[str, int],
    n: int,
    remaining: tuple[str, ...],
) -> None:
    rest = n - sum(counts.values())
    usual = sum(prior.families[name].share for name in remaining)
    for name, count in counts.items():
        row = share_of(f"families.{name}.share", prior.families[name].share, count, n)
        family_fit.families[name] = replace(family_fit.families[name], share=row.after)
        family_fit.learnt.append(row)
    for name in remaining:
        of_rest = prior.families[name].share / usual
        row = share_of(f"families.{name}.share", prior.families[name].share, rest, n)
        after, low, high = ((share or 0.0) * of_rest for share in (row.after, row.low, row.high))
        family_fit.families[name] = replace(family_fit.families[name], share=after)
        family_fit.learnt.append(replace(row, after=after, low=low, high=high))


def _learn_laws(
    family_fit: FamilyFit,
    names: tuple[str, ...],
    rows: Rows,
    workload: Workload,
    needs: JobNeeds,
    least_rows: int,
) -> None:
    of_gpus = family_fit.families[names[0]].needs_gpus
    base = family_fit.families[names[0]].memory_base_gib
    per = np.maximum(needs.pod_gpus, 1) if of_gpus else 1.0
    memory = np.maximum((needs.mem_gib - base) / per, LEAST_PER_GPU_GIB)
    for law, values in (
        ("duration_sec", workload.runtime_s), ("cpu", needs.cores), ("memory_gib", memory),
    ):  # fmt: skip
        positive = values[rows & (values > 0)]  # unknown values are not above 0
        learn_law(family_fit, names, law, partial(fit_law, positive), positive, least_rows)


def learn_law(
    family_fit: FamilyFit,
    names: tuple[str, ...],
    law: str,
    fitted: Callable[[ClampedLognormal], Any],
    values: Floats,
    least_rows: int,
) -> None:
    """Fit a clamped lognormal distribution to one family, or to several with fixed median ratios.

    The variance of the logarithms of several lognormal families is the square of their sigma plus
    the variance of their medians' logarithms; the latter is known and subtracted.
    """
    laws: list[ClampedLognormal] = [getattr(family_fit.families[name], law) for name in names]
    shares = np.array([family_fit.families[name].share for name in names])
    weights = shares / shares.sum() if shares.sum() > 0 else np.full(len(names), 1 / len(names))
    logs = np.log([family_law.median for family_law in laws])
    middle = float(weights @ logs)
    between = float(weights @ (logs - middle) ** 2)
    prior = ClampedLognormal(
        math.exp(middle), float(weights @ [family_law.sigma for family_law in laws]),
        min(family_law.least for family_law in laws), max(family_law.most for family_law in laws),
    )  # fmt: skip
    fit = fitted(prior) if len(values) >= least_rows else None
    if fit is None:
        if len(values):
            why = "are too few" if len(values) < least_rows else "have no spread"
            family_fit.unchanged_notes.append(
                f"{law} of {' and '.join(names)}: {len(values)} rows {why}"
            )
        return
    sigma = fit.law.sigma
    if between > 0:
        sigma = math.sqrt(max(sigma**2 - between, (sigma * LEAST_OF_SIGMA) ** 2))
    for name, family_law in zip(names, laws, strict=True):
        ratio = family_law.median / prior.median
        scaled_law = replace(fit.law, median=fit.law.median * ratio, sigma=sigma)
        family_fit.families[name] = replace(family_fit.families[name], **{law: scaled_law})
        scaled = replace(
            fit,
            law=scaled_law,
            median_low=fit.median_low * ratio,
            median_high=fit.median_high * ratio,
            sigma_low=fit.sigma_low * sigma / fit.law.sigma,
            sigma_high=fit.sigma_high * sigma / fit.law.sigma,
        )
        family_fit.learnt.extend(scaled.learnt(f"families.{name}.{law}", family_law))
    word = {"duration_sec": "durations", "cpu": "cores", "memory_gib": "memory"}[law]
    if word not in family_fit.words:
        family_fit.words.append(word)


def has_families(workload: Workload) -> bool:
    """Return whether a workload's job groups are Joulie's families, with pods and work units."""
    tasks = workload.tasks
    is_joulies = tasks is not None and tasks.work is not None
    return is_joulies and bool(((workload.group >= 0) & (workload.group < len(KINDS))).all())


def _pods_with_work(workload: Workload) -> tuple[Tasks, TaskWork]:
    tasks = workload.tasks
    if tasks is None or tasks.work is None:
        raise WorkloadError(f"{workload.name} has no pods with work units, as Joulie's have.")
    return tasks, tasks.work


def fit_by_pods(
    workload: Workload, prior: JoulieParameters, knobs: Mapping[str, float]
) -> FamilyFit:
    """Fit all parameters to a workload that has Joulie's families, pods and profiles.

    The number of GPUs is that of all pods of a job; an experiment (HPO) has an unknown number.
    Ranges of uniform signals are the smallest and the largest observed values.
    """
    tasks, work = _pods_with_work(workload)
    family_fit = FamilyFit(dict(prior.families))
    needed = np.array([prior.families[name].needs_gpus for name in KINDS])[workload.group]
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    gpus = np.add.reduceat(tasks.mgpu * tasks.instances, first) / MILLI
    controlled = [KINDS.index(n) for n, f in prior.families.items() if f.structure == "controller"]
    is_counted = needed & ~np.isin(workload.group, controlled) & (gpus > 0)
    learn_gpus(family_fit, prior, needed, gpus[is_counted])
    for name, family in prior.families.items():
        rows = workload.group == KINDS.index(name)
        n_alike = int((needed == family.needs_gpus).sum())
        if n_alike:
            row = share_of(f"families.{name}.share", family.share, int(rows.sum()), n_alike)
            family_fit.families[name] = replace(family_fit.families[name], share=row.after)
            family_fit.learnt.append(row)
        _learn_pod_laws(
            family_fit,
            name,
            rows,
            (workload, tasks),
            gpus,
            prior.many_gpus,
            int(knobs["least_rows"]),
        )
        _learn_signals(family_fit, name, rows[tasks.job], tasks.job, work, int(knobs["least_rows"]))
    _learn_gpu_utilisation(family_fit, prior, workload, gpus, is_counted, int(knobs["least_rows"]))
    _learn_intents(family_fit, prior, workload)
    family_fit.words += ["families", "profiles", "intents"]
    return family_fit


def _learn_pod_laws(
    family_fit: FamilyFit,
    name: str,
    rows: NDArray[np.bool_],
    observed: tuple[Workload, Tasks],
    gpus: Floats,
    many_gpus: int,
    least_rows: int,
) -> None:
    family, (workload, tasks) = family_fit.families[name], observed
    factor = np.where(gpus >= many_gpus, family.duration_factor_many, 1.0)[rows]
    duration_s = workload.runtime_s[rows]
    learn_law(
        family_fit, (name,), "duration_sec", lambda law: fit_law(duration_s, law, factor=factor),
        duration_s, least_rows,
    )  # fmt: skip
    pods = _pods(tasks, family, rows)
    cores = tasks.mcpu[pods] / MILLI
    learn_law(family_fit, (name,), "cpu", lambda law: fit_law(cores, law), cores, least_rows)
    per = np.maximum(tasks.mgpu[pods] / MILLI, 1.0)
    memory = (tasks.mem_bytes[pods] / GIB - family.memory_base_gib) / per
    some = memory > 0.5 / per
    learn_law(
        family_fit, (name,), "memory_gib",
        lambda law: fit_law(memory[some], law, half=0.5 / per[some]),
        memory[some], least_rows,
    )  # fmt: skip


def _pods(tasks: Tasks, family: WorkloadFamily, rows: NDArray[np.bool_]) -> NDArray[np.intp]:
    if family.role not in tasks.roles:
        return np.zeros(0, dtype=np.intp)
    pods = np.flatnonzero((tasks.role == tasks.roles.index(family.role)) & rows[tasks.job])
    if family.structure == "controller":
        return pods
    _, first = np.unique(tasks.job[pods], return_index=True)
    return pods[first]


def _learn_signals(
    family_fit: FamilyFit,
    name: str,
    rows: NDArray[np.bool_],
    job: NDArray[np.int64],
    work: TaskWork,
    least_rows: int,
) -> None:
    family = family_fit.families[name]
    if len(np.unique(job[rows])) < least_rows:
        return
    for column, signal in enumerate(SIGNALS):
        if signal == "gpu_utilisation" or (
            signal == "cpu_feed_intensity" and not family.needs_gpus
        ):
            continue
        before = getattr(family, signal)
        profile_values = work.profile[rows, column]
        after = (float(profile_values.min()), float(profile_values.max()))
        changed: dict[str, Any] = {signal: after}
        family = replace(family, **changed)
        for place, end in enumerate(("from", "to")):
            parameter = f"families.{name}.{signal}.{end}"
            family_fit.learnt.append(
                ParameterEstimate(
                    parameter, before[place], after[place], None, None, int(rows.sum())
                )
            )
    family_fit.families[name] = family


def _learn_gpu_utilisation(
    family_fit: FamilyFit,
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
            family_fit.learnt.append(row)
    family_fit.parameters["gpu_utilisation_means"] = means


def _learn_intents(family_fit: FamilyFit, prior: JoulieParameters, workload: Workload) -> None:
    tasks, _ = _pods_with_work(workload)
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    demand = tasks.demand[first]
    for name, intent in (("perf_ratio", "performance"), ("eco_ratio", "eco")):
        required_term = next(term for term in INTENTS[intent] if term.key == POWER_PROFILE)
        which = [i for i, terms in enumerate(tasks.affinities) if required_term in terms]
        hits = int(np.isin(demand, which).sum())
        row = share_of(name, getattr(prior, name), hits, workload.n_jobs)
        family_fit.parameters[name] = row.after
        family_fit.learnt.append(row)
    family_fit.parameters["compute_bound_boost"] = 1.0


FEWEST_JOBS = 50

KNOBS: tuple[PolicyOption, ...] = (
    PolicyOption(
        "least_rows", 30, "minimum number of rows to fit a law; with fewer it stays as published",
        lowest=2, highest=1e9, is_whole=True,
    ),
    PolicyOption(
        "short_s", SHORT_S, "shorter GPU jobs are debug_eval if the log has no families",
        lowest=0, highest=1e9, unit="s",
    ),
    PolicyOption(
        "many_cores", MANY_CORES, "jobs without GPUs with so many are cpu_analytics, likewise",
        lowest=0, highest=1e9,
    ),
    PolicyOption(
        "untold_gpu_ratio", 0.0, "share of jobs with GPUs for a log without GPU numbers",
        lowest=0, highest=1,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class JoulieFit:
    """A fitted Joulie model with the estimates of its parameters.

    Attributes:
        unchanged_notes: sentences on parameters that stay as published, with reasons.
        dispersion: dispersion of hourly submissions, 1 is Poisson; NaN where hours are unknown.
    """

    model: Model
    learnt: tuple[ParameterEstimate, ...]
    unchanged_notes: tuple[str, ...]
    dispersion: float


def fit_joulie(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit a Joulie model to a workload.

    Raises:
        WorkloadError: fewer than `FEWEST_JOBS` jobs, or all submitted at once.
    """
    return learn_joulie(workload, knobs).model


def learn_joulie(workload: Workload, knobs: Mapping[str, float] | None = None) -> JoulieFit:
    """Fit a Joulie model to a workload and return it with the parameter estimates.

    Raises:
        WorkloadError: fewer than `FEWEST_JOBS` jobs, or all submitted at once.
    """
    if workload.n_jobs < FEWEST_JOBS or workload.span_s <= 0:
        raise WorkloadError(
            f"{workload.name} has {workload.n_jobs} jobs over {workload.span_s:g} s; the Joulie "
            f"generator needs {FEWEST_JOBS} or more, not all submitted at once."
        )
    knob_values = {knob.name: knob.usual for knob in KNOBS} | dict(knobs or {})
    prior = JoulieParameters()
    arrivals = fit_arrivals(workload, prior)
    family_fit = (fit_by_pods if has_families(workload) else fit_by_rules)(
        workload, prior, knob_values
    )
    zone = WallClock.of(workload).zone or prior.time_zone
    values = asdict(
        replace(
            prior,
            families=family_fit.families,
            time_zone=zone,
            epoch_unix_s=datetime(2024, 1, 1, tzinfo=ZoneInfo(zone)).timestamp(),
        )
    )
    words = ["arrivals", *family_fit.words]
    notes = (*arrivals.unchanged_notes, *family_fit.unchanged_notes)
    sentence = (
        f"Fitted to {workload.name} ({workload.n_jobs:,} jobs): {', '.join(words)}; the rest as "
        f"published. Note: {'; '.join(notes)}."
        if notes
        else f"Fitted to {workload.name} ({workload.n_jobs:,} jobs): {', '.join(words)}."
    )
    draft = model_of(prior, sentence).with_parameters(
        values | arrivals.parameters | family_fit.parameters
    )
    model = model_of(parameters_of(draft), sentence)
    return JoulieFit(model, (*arrivals.learnt, *family_fit.learnt), notes, arrivals.dispersion)
