"""The Joulie generator: logical workloads, their submissions and pods, and their moments."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import (
    MOST_JOBS,
    Generator,
    Horizon,
    Model,
    ModelMoment,
    RandomStreams,
    check_number_of_jobs,
    first_submit_s,
)
from sim.generators.joulie.model_fit import KNOBS, fit_joulie
from sim.generators.joulie.parameters import (
    NAME,
    HelperRole,
    JoulieParameters,
    WorkloadFamily,
    parameters_of,
    published_joulie,
)
from sim.generators.joulie.phases import with_phases
from sim.model.errors import WorkloadError
from sim.model.pods import (
    GIB,
    INTENTS,
    KINDS,
    NO_RECORD,
    USUAL_GPU,
    USUAL_NAMESPACE,
    encode_names,
    encode_terms,
    pods_workload,
)
from sim.model.tasks import SIGNALS, Tasks, TaskWork
from sim.model.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]


LEAST_MULTIPLIER = 0.05
HOUR_S = 3600.0
MOST_DAYS = 36_525
BURST_SHARE = 16.0  # divisor of `burst_mean_jobs` before it is added to the multiplier

_BLOCK = 65_536


def multipliers(p: JoulieParameters, n_days: int, streams: RandomStreams) -> NDArray[np.float64]:
    """Return the arrival-rate multiplier of every hour of every day: float64 [n_days, 24].

    A day has a burst with a probability, and a dip with another, each in one hour that is drawn
    evenly from the parameter's hours.
    """
    table = np.tile(np.array(p.hourly_multipliers), (n_days, 1))
    uniform = streams.of("burst").random((n_days, 2))
    days, hours = _one_hour(uniform, p.burst_day_probability, p.burst_hours)
    table[days, hours] = table[days, hours] * p.burst_multiplier + p.burst_mean_jobs / BURST_SHARE
    uniform = streams.of("dip").random((n_days, 2))
    days, hours = _one_hour(uniform, p.dip_day_probability, p.dip_hours)
    table[days, hours] *= p.dip_multiplier
    floored: NDArray[np.float64] = np.maximum(table, LEAST_MULTIPLIER)
    return floored


def _one_hour(
    uniform: NDArray[np.float64], probability: float, hours: tuple[int, ...]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    days = np.flatnonzero(uniform[:, 0] < probability)
    place = (uniform[days, 1] * len(hours)).astype(np.int64)
    return days, np.array(hours, dtype=np.int64)[place]


def arrivals(p: JoulieParameters, horizon: Horizon, streams: RandomStreams) -> NDArray[np.float64]:
    """Draw submit times in seconds from midnight, in whole milliseconds: float64 [n].

    By the page, the time to the next submission is exponential, with the mean over the multiplier
    of the hour in which it begins, also where it ends in a later hour. All submissions of an hour
    come from one sum of standard exponential variables.

    Raises:
        WorkloadError: no submissions within the duration, more than `MOST_JOBS`, or too many days.
    """
    check_number_of_jobs(_expected(p, horizon))
    n_days = math.ceil(horizon.duration_s / (24 * HOUR_S)) + 1
    if n_days > MOST_DAYS:
        raise WorkloadError(
            f"duration_s is {horizon.duration_s:g}; arrivals are drawn for up to {MOST_DAYS - 1} "
            "days."
        )
    rates = multipliers(p, n_days, streams).ravel() * (horizon.scale / p.mean_inter_arrival_sec)
    gaps = _Gaps(streams)
    most = MOST_JOBS + 1 if p.jobs is None else p.jobs
    parts: list[NDArray[np.float64]] = []
    now_s, paid, n = 0.0, 0.0, 0
    while n < most and now_s < horizon.duration_s:
        hour = int(now_s // HOUR_S)
        rate = float(rates[hour])
        ends = paid + ((hour + 1) * HOUR_S - now_s) * rate
        sums = gaps.upto(ends, n)
        parts.append(now_s + (sums - paid) / rate)
        n += len(sums)
        now_s, paid = float(parts[-1][-1]), float(sums[-1])
    times = np.concatenate(parts)[:most]
    times = times[times < horizon.duration_s]
    first_submit_s(times, horizon)
    check_number_of_jobs(len(times))
    return np.round(times, 3)


def _expected(p: JoulieParameters, horizon: Horizon) -> float:
    mean = float(np.mean(np.maximum(p.hourly_multipliers, LEAST_MULTIPLIER)))
    expected = horizon.duration_s * horizon.scale * mean / p.mean_inter_arrival_sec
    return expected if p.jobs is None else min(expected, p.jobs)


class _Gaps:
    def __init__(self, streams: RandomStreams) -> None:
        self._rng = streams.of("arrival")
        self._sums = np.cumsum(self._rng.standard_exponential(_BLOCK))
        self._first = 0

    def upto(self, value: float, first: int) -> NDArray[np.float64]:
        """Return the cumulative sums from index `first` to the first that reaches `value`."""
        while self._sums[-1] < value or first - self._first >= len(self._sums):
            more = self._sums[-1] + np.cumsum(self._rng.standard_exponential(_BLOCK))
            self._sums = np.concatenate([self._sums[first - self._first :], more])
            self._first = first
        last = int(np.searchsorted(self._sums, value, side="left"))
        return self._sums[first - self._first : max(last, first - self._first) + 1]


COMPUTE_BOUND = ("cpu.compute_bound", "gpu.compute_bound")
GENERAL, PERFORMANCE, ECO = (
    list(INTENTS).index(intent_name) for intent_name in ("general", "performance", "eco")
)


@dataclass(frozen=True)
class LogicalWorkloads:
    """Logical workloads (jobs of one or more pods), as columns with one row each.

    Attributes:
        family: int64, index into `KINDS`.
        gpus: int64, 0 without GPUs.
        duration_s: float64, whole milliseconds.
        profile: float64 [n, 5], see `SIGNALS`; four digits.
        intent: int64, index into `INTENTS`.
    """

    family: Ints
    gpus: Ints
    duration_s: Floats
    profile: Floats
    intent: Ints
    is_amd: NDArray[np.bool_]


def draw_workloads(p: JoulieParameters, n: int, streams: RandomStreams) -> LogicalWorkloads:
    """Draw `n` logical workloads, stage by stage in the order of Joulie's documentation."""
    families = [p.families[name] for name in KINDS]
    needs_gpus = streams.of("gpu").random(n) < p.gpu_ratio
    family = _family(families, needs_gpus, streams.of("family").random(n))
    of_count = streams.of("gpu count").random(n)
    counts = np.array(p.gpu_counts, dtype=np.int64)
    gpus = np.where(needs_gpus, counts[_draw_outcome(p.gpu_count_probabilities, of_count)], 0)
    return LogicalWorkloads(
        family=family,
        gpus=gpus,
        duration_s=_duration_s(p, families, family, gpus, streams.of("duration")),
        profile=_profile(p, families, family, gpus, streams.inside("profile")),
        intent=_intent(p, families, family, streams.of("intent").random(n)),
        is_amd=needs_gpus & (streams.of("vendor").random(n) < p.amd_ratio),
    )


def _draw_outcome(probabilities: tuple[float, ...], uniform: Floats) -> NDArray[np.intp]:
    bounds = np.cumsum(probabilities)[:-1]
    return np.searchsorted(bounds, uniform, side="right")


def _family(families: list[WorkloadFamily], needs_gpus: NDArray[np.bool_], uniform: Floats) -> Ints:
    family = np.zeros(len(uniform), dtype=np.int64)
    for needed in (True, False):
        of_these = [i for i, candidate in enumerate(families) if candidate.needs_gpus == needed]
        outcome = _draw_outcome(tuple(families[i].share for i in of_these), uniform)
        family = np.where(needs_gpus == needed, np.array(of_these)[outcome], family)
    return family


def _of_family(families: list[WorkloadFamily], name: str, family: Ints) -> Floats:
    """Return a number of the family of every row; ``a.b`` is the number b of its distribution a."""

    def number_of(member: WorkloadFamily) -> float:
        law, _, number = name.rpartition(".")
        return float(getattr(getattr(member, law) if law else member, number))

    values: Floats = np.array([number_of(member) for member in families], dtype=np.float64)[family]
    return values


def _duration_s(
    p: JoulieParameters,
    families: list[WorkloadFamily],
    family: Ints,
    gpus: Ints,
    rng: np.random.Generator,
) -> Floats:
    duration_s = lognormal(
        families, "duration_sec", family, rng.standard_normal(len(family)), False
    )
    factor = _of_family(families, "duration_factor_many", family)
    duration_s = duration_s * np.where(gpus >= p.many_gpus, factor, 1.0)
    least = _of_family(families, "duration_sec.least", family)
    clamped = np.clip(duration_s, least, _of_family(families, "duration_sec.most", family))
    rounded: Floats = np.round(clamped, 3)
    return rounded


def lognormal(
    families: list[WorkloadFamily], law: str, family: Ints, normal: Floats, is_clamped: bool = True
) -> Floats:
    """Scale standard normal variables to the lognormal distributions of the rows' families."""
    values = _of_family(families, f"{law}.median", family) * np.exp(
        _of_family(families, f"{law}.sigma", family) * normal
    )
    if not is_clamped:
        return values
    least = _of_family(families, f"{law}.least", family)
    return np.clip(values, least, _of_family(families, f"{law}.most", family))


def mean_gpu_utilisation(p: JoulieParameters, gpus: Ints) -> Floats:
    """Return each job's mean GPU utilisation, from the table's next larger number of GPUs."""
    place = np.searchsorted(np.array(p.gpu_utilisation_counts), gpus, side="left")
    means = np.array(p.gpu_utilisation_means)
    return means[np.minimum(place, len(means) - 1)]


def _profile(
    p: JoulieParameters,
    families: list[WorkloadFamily],
    family: Ints,
    gpus: Ints,
    streams: RandomStreams,
) -> Floats:
    n = len(family)
    profile = np.empty((n, len(SIGNALS)))
    for column, signal in enumerate(SIGNALS):
        uniform = streams.of(signal).random(n)
        if signal == "gpu_utilisation":
            shift = _of_family(families, "gpu_utilisation_shift", family)
            mean = np.clip(mean_gpu_utilisation(p, gpus) + shift, 0.0, 1.0)
            many = gpus >= p.many_gpus
            spread = np.where(many, p.gpu_utilisation_spread_many, p.gpu_utilisation_spread)
            profile[:, column] = np.clip(mean + (2.0 * uniform - 1.0) * spread, 0.0, 1.0)
        else:
            bounds = np.array([getattr(member, signal) for member in families])[family]
            profile[:, column] = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) * uniform
        if signal in ("gpu_utilisation", "cpu_feed_intensity"):
            profile[gpus == 0, column] = 0.0
    return np.round(profile, 4)


def _intent(
    p: JoulieParameters, families: list[WorkloadFamily], family: Ints, uniform: Floats
) -> Ints:
    if p.no_affinity_only:
        return np.full(len(family), GENERAL, dtype=np.int64)
    is_compute_bound = np.array(
        [bool({member.cpu_class, member.gpu_class} & set(COMPUTE_BOUND)) for member in families]
    )[family]
    boost = np.where(is_compute_bound, p.compute_bound_boost, 1.0)
    performance = np.minimum(p.perf_ratio * boost, 1.0)
    intent = np.where(uniform < performance + p.eco_ratio, ECO, GENERAL)
    return np.where(uniform < performance, PERFORMANCE, intent).astype(np.int64)


STRUCTURES: tuple[str, ...] = ("single", "launcher", "parameter_server", "controller")
SINGLE, LAUNCHER, PARAMETER_SERVER, CONTROLLER = range(4)
HELPER_OF = {LAUNCHER: "launcher", PARAMETER_SERVER: "ps", CONTROLLER: "controller"}
GPU_RESOURCES = (USUAL_GPU, "amd.com/gpu")
FEWEST_TRIALS = 2


def pods_of(p: JoulieParameters, workloads: LogicalWorkloads, streams: RandomStreams) -> Tasks:
    """Draw the pods of logical workloads, one row each: helpers, then workers or trials."""
    families = [p.families[name] for name in KINDS]
    n_jobs = len(workloads.family)
    structure = np.array([STRUCTURES.index(member.structure) for member in families])[
        workloads.family
    ]
    n_workers = _n_workers(p, workloads, structure, streams)
    n_helpers = np.where(structure == SINGLE, 0, 1)
    two = (structure == PARAMETER_SERVER) & (n_workers >= p.two_servers_from)
    n_helpers = np.where(two, 2, n_helpers)

    n_pods = n_helpers + n_workers
    job = np.repeat(np.arange(n_jobs), n_pods)
    place = np.arange(len(job)) - np.repeat(np.cumsum(n_pods) - n_pods, n_pods)
    is_helper = place < n_helpers[job]
    family, of_structure = workloads.family[job], structure[job]
    gpus = np.where(of_structure == SINGLE, workloads.gpus[job], np.minimum(workloads.gpus[job], 1))
    gpus[is_helper] = 0

    trial = np.where(of_structure == CONTROLLER, place - n_helpers[job], -1)
    cores, memory_gib = _requests(p, families, family, gpus, trial, job, n_jobs, streams)
    share = np.array([member.work_share for member in families])[family] / n_workers[job]
    cpu_sensitivity = np.array([member.cpu_sensitivity for member in families])[family]
    for which, helps in HELPER_OF.items():
        rows = is_helper & (of_structure == which)
        helper = p.helpers[helps]
        cores[rows], memory_gib[rows] = _clamped(helper, cores[rows], memory_gib[rows])
        share[rows] = helper.work_share / n_helpers[job[rows]]
        cpu_sensitivity[rows] = helper.cpu_sensitivity

    hundredths = np.maximum(np.rint(cores * 100.0), 1.0).astype(np.int64)
    work = _work(p, families, workloads, job, hundredths / 100.0, gpus, share, n_workers)
    work = replace(work, cpu_sensitivity=cpu_sensitivity)
    role, roles = _roles(families, family, of_structure, is_helper)
    demand, affinities = encode_terms(list(INTENTS.values()), workloads.intent[job])
    gpu_resource, gpu_resources = encode_names(
        GPU_RESOURCES, np.where(gpus > 0, workloads.is_amd[job].astype(np.int64), -1)
    )
    return Tasks.from_arrays(
        job=job,
        runtime_s=workloads.duration_s[job],
        mcpu=hundredths * 10,
        mem_bytes=np.maximum(np.rint(memory_gib), 1.0) * GIB,
        mgpu=gpus * 1000,
        gang=np.array([member.gang for member in families], dtype=np.int64)[family],
        role=role,
        demand=demand,
        gpu_resource=gpu_resource,
        roles=roles,
        affinities=affinities,
        gpu_resources=gpu_resources,
        work=work,
        texts=_texts(p, workloads, job),
    )


def _n_workers(
    p: JoulieParameters, workloads: LogicalWorkloads, structure: Ints, streams: RandomStreams
) -> Ints:
    """Return the number of pods that share the work: one, a worker per GPU, or trials."""
    workers = np.where(structure == SINGLE, 1, np.maximum(workloads.gpus, p.least_workers))
    most = np.where(workloads.gpus >= p.many_gpus, p.hpo_max_trials_many, p.hpo_max_trials)
    most = np.where(workloads.gpus == 0, p.hpo_max_trials_no_gpu, most)
    uniform = streams.of("trials").random(len(structure))
    trials = FEWEST_TRIALS + (uniform * (most - FEWEST_TRIALS + 1)).astype(np.int64)
    return np.where(structure == CONTROLLER, trials, workers)


def _requests(
    p: JoulieParameters,
    families: list[WorkloadFamily],
    family: Ints,
    gpus: Ints,
    trial: Ints,
    job: Ints,
    n_jobs: int,
    streams: RandomStreams,
) -> tuple[Floats, Floats]:
    """Return cores and GiB of workers (of a helper: of its workers).

    The workers of a job are equal, its trials are not: trial k of every job has a stream.
    """
    normals = []
    for resource in ("cpu", "memory"):
        normal = streams.of(resource).standard_normal(n_jobs)[job]
        for k in range(int(trial.max(initial=-1)) + 1):
            rows = trial == k
            of_trial = streams.inside(f"trial {k}").of(resource).standard_normal(n_jobs)
            normal[rows] = of_trial[job[rows]]
        normals.append(normal)
    cores = lognormal(families, "cpu", family, normals[0])
    if p.cpu_per_gpu:
        most = np.array([member.cpu.most for member in families])[family]
        cores = np.minimum(cores * np.maximum(gpus, 1), most)
    base = np.array([member.memory_base_gib for member in families])[family]
    per_gpu = lognormal(families, "memory_gib", family, normals[1])
    return cores, base + np.maximum(gpus, 1) * per_gpu


def _clamped(helper: HelperRole, cores: Floats, memory_gib: Floats) -> tuple[Floats, Floats]:
    return (
        np.clip(helper.cpu_share * cores, helper.cpu_least, helper.cpu_most),
        np.clip(helper.memory_share * memory_gib, helper.memory_least, helper.memory_most),
    )


def _work(
    p: JoulieParameters,
    families: list[WorkloadFamily],
    workloads: LogicalWorkloads,
    job: Ints,
    cores: Floats,
    gpus: Ints,
    share: Floats,
    n_workers: Ints,
) -> TaskWork:
    """Return work units: duration * request * utilisation * rate * share of the role."""
    family, profile, duration_s = (
        workloads.family[job],
        workloads.profile[job],
        workloads.duration_s[job],
    )
    used = np.maximum(profile[:, :2], p.least_utilisation)
    cpu_units = duration_s * cores * used[:, 0] * p.cpu_work_rate_per_core * share
    gpu_units = duration_s * gpus * used[:, 1] * p.gpu_work_rate_per_gpu
    if p.split_work:
        gpu_units = gpu_units / n_workers[job]
    names = [member.cpu_class for member in families] + [member.gpu_class for member in families]
    both, classes = encode_names(names, np.concatenate([family, family + len(families)]))
    return TaskWork(
        cpu_units=np.round(cpu_units, 3),
        gpu_units=np.round(gpu_units, 3),
        cpu_sensitivity=np.zeros(len(job)),
        gpu_sensitivity=np.array([member.gpu_sensitivity for member in families])[family],
        cpu_class=both[: len(job)],
        gpu_class=both[len(job) :],
        profile=profile,
        classes=classes,
    )


def _roles(
    families: list[WorkloadFamily], family: Ints, of_structure: Ints, is_helper: Rows
) -> tuple[Ints, tuple[str, ...]]:
    names = [member.role for member in families] + list(HELPER_OF.values())
    of_helper = np.full(len(STRUCTURES), -1, dtype=np.int64)
    for place, which in enumerate(HELPER_OF):
        of_helper[which] = len(families) + place
    return encode_names(names, np.where(is_helper, of_helper[of_structure], family))


def _texts(p: JoulieParameters, workloads: LogicalWorkloads, job: Ints) -> dict[str, Sequence[str]]:
    texts: dict[str, Sequence[str]] = {}
    if p.namespace != USUAL_NAMESPACE:
        texts["namespace"] = [p.namespace] * len(job)
    if not p.emit_workload_records:
        texts["workloadRecord"] = [NO_RECORD] * len(job)
    if p.emit_head_fields:
        intents = list(INTENTS)
        texts["intentClass"] = [intents[i] for i in workloads.intent[job]]
        tags = {
            key: json.dumps(_tags(*key), separators=(",", ":"))
            for key in set(zip(workloads.family.tolist(), workloads.gpus.tolist(), strict=True))
        }
        keys = zip(workloads.family[job].tolist(), workloads.gpus[job].tolist(), strict=True)
        texts["tags"] = [tags[key] for key in keys]
    return texts


def _tags(family: int, gpus: int) -> list[str]:
    return ["ai", KINDS[family].replace("_", "-"), f"gpus-{gpus}" if gpus else "cpu-only"]


NORMAL = NormalDist()


def moments(model: Model) -> Mapping[str, ModelMoment]:
    """Return a model's expected moments of jobs per day, log run time and pods per workload."""
    p = parameters_of(model)
    kinds = list(_kinds(p))
    weights = np.array([weight for weight, _, _ in kinds])
    logs = np.array([_log_runtime(p, family, gpus) for _, family, gpus in kinds])
    pods = np.array([_n_pods(p, family, gpus) for _, family, gpus in kinds])
    return {
        "jobs_per_day": _jobs_per_day(p),
        "log_runtime": _mixed(weights, logs),
        "n_tasks": _mixed(weights, pods),
    }


def _mixed(weights: NDArray[np.float64], parts: NDArray[np.float64]) -> ModelMoment:
    mean, square = (float(weights @ parts[:, column]) for column in (0, 1))
    return ModelMoment(mean, math.sqrt(max(square - mean * mean, 0.0)))


def _kinds(p: JoulieParameters) -> Iterator[tuple[float, WorkloadFamily, int]]:
    for family in p.families.values():
        if not family.needs_gpus:
            yield (1.0 - p.gpu_ratio) * family.share, family, 0
            continue
        for gpus, share in zip(p.gpu_counts, p.gpu_count_probabilities, strict=True):
            yield p.gpu_ratio * family.share * share, family, gpus


def _log_runtime(p: JoulieParameters, family: WorkloadFamily, gpus: int) -> tuple[float, float]:
    """Return mean and mean square of the logarithm of a clamped lognormal variable."""
    law = family.duration_sec
    mu = math.log(law.median * (family.duration_factor_many if gpus >= p.many_gpus else 1.0))
    low, high = math.log(max(law.least, 1.0)), math.log(max(law.most, 1.0))
    if law.sigma == 0.0:
        value = min(max(mu, low), high)
        return value, value * value
    a, b = (low - mu) / law.sigma, (high - mu) / law.sigma
    below, above = NORMAL.cdf(a), 1.0 - NORMAL.cdf(b)
    inside = 1.0 - below - above
    first = NORMAL.pdf(a) - NORMAL.pdf(b)
    second = inside + a * NORMAL.pdf(a) - b * NORMAL.pdf(b)
    mean = mu * inside + law.sigma * first + low * below + high * above
    square = mu * mu * inside + 2.0 * mu * law.sigma * first + law.sigma**2 * second
    return mean, square + low * low * below + high * high * above


def _n_pods(p: JoulieParameters, family: WorkloadFamily, gpus: int) -> tuple[float, float]:
    workers = max(gpus, p.least_workers)
    counts = [1]
    if family.structure == "launcher":
        counts = [workers + 1]
    elif family.structure == "parameter_server":
        counts = [workers + (2 if workers >= p.two_servers_from else 1)]
    elif family.structure == "controller":
        most = p.hpo_max_trials_many if gpus >= p.many_gpus else p.hpo_max_trials
        most = p.hpo_max_trials_no_gpu if gpus == 0 else most
        counts = [1 + trials for trials in range(FEWEST_TRIALS, most + 1)]
    return float(np.mean(counts)), float(np.mean(np.square(counts)))


def _jobs_per_day(p: JoulieParameters) -> ModelMoment:
    """Return jobs per day in the long run, without shifts at the ends of dips and bursts.

    An hour has the number of its rate, except that its first arrival has the rate of the hour
    before.
    """
    usual = np.maximum(np.array(p.hourly_multipliers), LEAST_MULTIPLIER)
    in_an_hour = HOUR_S / p.mean_inter_arrival_sec
    mean = float(usual.sum()) * in_an_hour + float((1.0 - usual / np.roll(usual, 1)).sum())
    variance = 0.0
    burst = usual * p.burst_multiplier + p.burst_mean_jobs / BURST_SHARE
    for probability, hours, other in (
        (p.burst_day_probability, p.burst_hours, burst),
        (p.dip_day_probability, p.dip_hours, usual * p.dip_multiplier),
    ):
        where = list(hours)
        more = (np.maximum(other, LEAST_MULTIPLIER) - usual)[where] * in_an_hour
        mean += probability * float(more.mean())
        variance += probability * float((more**2).mean()) - (probability * float(more.mean())) ** 2
    return ModelMoment(mean, math.sqrt(mean + variance))


def draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    """Draw a workload whose jobs are logical workloads and whose tasks are their pods.

    Group and queue of a job are the index of its family in `sim.model.pods.KINDS`; its request is
    its duration.

    Raises:
        WorkloadError: invalid parameters, or no or too many workloads.
    """
    p = parameters_of(model)
    offset_s = arrivals(p, horizon, streams.inside("arrivals"))
    workloads = draw_workloads(p, len(offset_s), streams)
    workload = pods_workload(
        pods_of(p, workloads, streams.inside("pods")),
        offset_s=offset_s,
        kind=workloads.family,
        job_id=np.arange(1, len(offset_s) + 1),
        name=NAME,
        epoch_unix_s=p.epoch_unix_s,
        time_zone=p.time_zone,
    )
    return with_phases(workload, p.phases, KINDS, streams.of("phases"), p.phase_concentration)


def check(model: Model) -> None:
    """Raise `WorkloadError` for an invalid parameter, stating the allowed values."""
    parameters_of(model)


def fit(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit a Joulie model to a workload by the rules of `sim.generators.joulie.model_fit`."""
    return fit_joulie(workload, knobs)


JOULIE = Generator(
    name=NAME,
    summary="AI workloads of pods with GPUs, families, profiles and work units (Joulie's page).",
    check=check,
    draw=draw,
    fit=fit,
    published=published_joulie,
    knobs=KNOBS,
    moments=moments,
    extends=True,
)
