"""What Joulie's logical workloads are: family, GPUs, duration, profile, intent.

Every stage draws from its own stream one number a workload, whether it is used or not; so no knob
of one stage shifts another, and a longer workload begins with the jobs of a shorter one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.pods import INTENTS, KINDS
from sim.model.tasks import SIGNALS
from sim.workloads.joulie.parameters import Family, JoulieParameters
from sim.workloads.streams import Streams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPUTE_BOUND = ("cpu.compute_bound", "gpu.compute_bound")
GENERAL, PERFORMANCE, ECO = (list(INTENTS).index(one) for one in ("general", "performance", "eco"))


@dataclass(frozen=True)
class Logical:
    """Logical workloads, one row each.

    Attributes:
        family: int64, index into `KINDS`.
        gpus: int64, 0 if it needs none.
        duration_s: float64, whole milliseconds.
        profile: float64 [n, 5], see `SIGNALS`; four digits.
        intent: int64, index into `INTENTS`.
        is_amd: bool.
    """

    family: Ints
    gpus: Ints
    duration_s: Floats
    profile: Floats
    intent: Ints
    is_amd: NDArray[np.bool_]


def logical(p: JoulieParameters, n: int, streams: Streams) -> Logical:
    """Draw `n` logical workloads, stage by stage in the page's order."""
    families = [p.families[name] for name in KINDS]
    needs_gpus = streams.of("gpu").random(n) < p.gpu_ratio
    family = _family(families, needs_gpus, streams.of("family").random(n))
    of_count = streams.of("gpu count").random(n)
    counts = np.array(p.gpu_counts, dtype=np.int64)
    gpus = np.where(needs_gpus, counts[_drawn(p.gpu_count_probabilities, of_count)], 0)
    return Logical(
        family=family,
        gpus=gpus,
        duration_s=_duration_s(p, families, family, gpus, streams.of("duration")),
        profile=_profile(p, families, family, gpus, streams.inside("profile")),
        intent=_intent(p, families, family, streams.of("intent").random(n)),
        is_amd=needs_gpus & (streams.of("vendor").random(n) < p.amd_ratio),
    )


def _drawn(probabilities: tuple[float, ...], uniform: Floats) -> NDArray[np.intp]:
    """Return which of the outcomes each uniform number falls into."""
    bounds = np.cumsum(probabilities)[:-1]
    return np.searchsorted(bounds, uniform, side="right")


def _family(families: list[Family], needs_gpus: NDArray[np.bool_], uniform: Floats) -> Ints:
    family = np.zeros(len(uniform), dtype=np.int64)
    for needed in (True, False):
        of_these = [i for i, one in enumerate(families) if one.needs_gpus == needed]
        outcome = _drawn(tuple(families[i].share for i in of_these), uniform)
        family = np.where(needs_gpus == needed, np.array(of_these)[outcome], family)
    return family


def _of_family(families: list[Family], name: str, family: Ints) -> Floats:
    """Return a number of the family of every row; ``a.b`` is the number b of its law a."""

    def found(one: Family) -> float:
        law, _, number = name.rpartition(".")
        return float(getattr(getattr(one, law) if law else one, number))

    values: Floats = np.array([found(one) for one in families], dtype=np.float64)[family]
    return values


def _duration_s(
    p: JoulieParameters, families: list[Family], family: Ints, gpus: Ints, rng: np.random.Generator
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
    families: list[Family], law: str, family: Ints, normal: Floats, is_clamped: bool = True
) -> Floats:
    """Return lognormal variables by a law of the family of each row, from standard normal ones."""
    drawn = _of_family(families, f"{law}.median", family) * np.exp(
        _of_family(families, f"{law}.sigma", family) * normal
    )
    if not is_clamped:
        return drawn
    least = _of_family(families, f"{law}.least", family)
    return np.clip(drawn, least, _of_family(families, f"{law}.most", family))


def mean_gpu_utilisation(p: JoulieParameters, gpus: Ints) -> Floats:
    """Return the mean for each number of GPUs: that of the next number of the table."""
    place = np.searchsorted(np.array(p.gpu_utilisation_counts), gpus, side="left")
    means = np.array(p.gpu_utilisation_means)
    return means[np.minimum(place, len(means) - 1)]


def _profile(
    p: JoulieParameters, families: list[Family], family: Ints, gpus: Ints, streams: Streams
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
            bounds = np.array([getattr(one, signal) for one in families])[family]
            profile[:, column] = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) * uniform
        if signal in ("gpu_utilisation", "cpu_feed_intensity"):
            profile[gpus == 0, column] = 0.0
    return np.round(profile, 4)


def _intent(p: JoulieParameters, families: list[Family], family: Ints, uniform: Floats) -> Ints:
    if p.no_affinity_only:
        return np.full(len(family), GENERAL, dtype=np.int64)
    is_compute_bound = np.array(
        [bool({one.cpu_class, one.gpu_class} & set(COMPUTE_BOUND)) for one in families]
    )[family]
    boost = np.where(is_compute_bound, p.compute_bound_boost, 1.0)
    performance = np.minimum(p.perf_ratio * boost, 1.0)
    intent = np.where(uniform < performance + p.eco_ratio, ECO, GENERAL)
    return np.where(uniform < performance, PERFORMANCE, intent).astype(np.int64)
