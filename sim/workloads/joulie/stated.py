"""What a Joulie model states beforehand of the workloads that are drawn from it."""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sim.workloads.generator import Moment
from sim.workloads.joulie.arrivals import BURST_SHARE, HOUR_S, LEAST_MULTIPLIER
from sim.workloads.joulie.parameters import Family, JoulieParameters
from sim.workloads.joulie.pods import FEWEST_TRIALS
from sim.workloads.joulie.reading import parameters_of
from sim.workloads.model import Model

NORMAL = NormalDist()


def moments(model: Model) -> Mapping[str, Moment]:
    """Return jobs a day, the logarithm of the run time and the number of pods of a workload."""
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


def _mixed(weights: NDArray[np.float64], parts: NDArray[np.float64]) -> Moment:
    """Return the moment of a mixture of parts of which mean and mean square are known."""
    mean, square = (float(weights @ parts[:, column]) for column in (0, 1))
    return Moment(mean, math.sqrt(max(square - mean * mean, 0.0)))


def _kinds(p: JoulieParameters) -> Iterator[tuple[float, Family, int]]:
    """Yield the probability of each family with each number of GPUs."""
    for family in p.families.values():
        if not family.needs_gpus:
            yield (1.0 - p.gpu_ratio) * family.share, family, 0
            continue
        for gpus, share in zip(p.gpu_counts, p.gpu_count_probabilities, strict=True):
            yield p.gpu_ratio * family.share * share, family, gpus


def _log_runtime(p: JoulieParameters, family: Family, gpus: int) -> tuple[float, float]:
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


def _n_pods(p: JoulieParameters, family: Family, gpus: int) -> tuple[float, float]:
    """Return mean and mean square of the number of pods."""
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


def _jobs_per_day(p: JoulieParameters) -> Moment:
    """Return it in the long run, without the few that dips and bursts shift over their ends.

    An hour has its rate's number, but that its first arrival comes at the rate of the hour before.
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
    return Moment(mean, math.sqrt(mean + variance))
