"""Phases of a workload: parts of its work, each with its own resource profile.

Joulie's page plans this: its profiles are averages over a whole workload. Here a family may have
phases, each a share of the work and, for every signal, a factor on the shared profile. The phases
always average to the profile, so that simulations without phases do not change: the factors are
divided by their mean, and where a phase would leave the range from 0 to 1, all phases of that
signal move evenly towards the profile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import checked_number
from sim.model.columns import read_only_copy
from sim.model.errors import WorkloadError, quoted_text
from sim.model.tasks import SIGNALS
from sim.model.workload import Workload

Floats = NDArray[np.float64]


MOST_PHASES = 16
MOST_FACTOR = 1000.0
SLACK = 1e-6


@dataclass(frozen=True)
class WorkloadPhase:
    """A phase of a workload: its share of the work, and factors on its resource signals."""

    name: str
    share: float
    cpu_utilisation: float = 1.0
    gpu_utilisation: float = 1.0
    memory_intensity: float = 1.0
    io_intensity: float = 1.0
    cpu_feed_intensity: float = 1.0

    @property
    def factors(self) -> tuple[float, ...]:
        """Factors on the profile's signals, in the order of `SIGNALS`."""
        return tuple(getattr(self, name) for name in SIGNALS)


Phases = Mapping[str, Sequence[WorkloadPhase]]  # by family; a missing family has no phases

_TRAINING = (
    WorkloadPhase("load", 0.05, 1.5, 0.1, 1.2, 3.0, 1.5),
    WorkloadPhase("train", 0.85, 1.0, 1.15, 1.0, 0.8, 1.0),
    WorkloadPhase("checkpoint", 0.10, 0.8, 0.3, 0.9, 2.0, 0.6),
)
USUAL_PHASES: Phases = {
    "single_gpu_training": _TRAINING,
    "distributed_training": _TRAINING,
    "parameter_server_training": _TRAINING,
    "cpu_preprocess": (
        WorkloadPhase("read", 0.20, 0.6, 1.0, 0.9, 2.5, 1.0),
        WorkloadPhase("transform", 0.65, 1.2, 1.0, 1.1, 0.4, 1.0),
        WorkloadPhase("write", 0.15, 0.7, 1.0, 0.8, 1.8, 1.0),
    ),
}
"""Example values of ours; no source has numbers. A model has phases only if it names them."""


def phases_of(entries: Any, families: Sequence[str]) -> dict[str, tuple[WorkloadPhase, ...]]:
    """Parse and check JSON values as the phases of each family.

    Raises:
        WorkloadError: an unknown family or entry, an invalid number, or shares that do not sum to
            1.
    """
    if not isinstance(entries, Mapping):
        raise WorkloadError(f"parameter 'phases' is {entries!r}; allowed are lists by family.")
    phases: dict[str, tuple[WorkloadPhase, ...]] = {}
    for family, parts in entries.items():
        where = f"phases of {quoted_text(str(family))}"
        if family not in families:
            raise WorkloadError(f"{where}: no such family; known: {', '.join(families)}.")
        if not isinstance(parts, list | tuple) or not 1 <= len(parts) <= MOST_PHASES:
            raise WorkloadError(f"{where}: allowed are lists of 1 to {MOST_PHASES} phases.")
        phases[family] = tuple(_phase(part, f"{where}, number {i}") for i, part in enumerate(parts))
        _check(phases[family], where)
    return phases


def with_phases(
    workload: Workload,
    phases: Phases,
    families: Sequence[str],
    draws: np.random.Generator,
    concentration: float = 0.0,
) -> Workload:
    """Return the workload with the phases of each family added to the family's tasks.

    Args:
        workload: workload whose groups are indices of `families` and whose tasks have profiles.
        phases: phases by family; a workload of another family has one phase, the profile itself.
        families: names of families.
        draws: random generator.
        concentration: concentration of the Dirichlet distribution of each workload's shares around
            the given ones; 0 takes the given ones for all.

    Raises:
        WorkloadError: the workload has no profiles.
    """
    tasks = workload.tasks
    if tasks is None or tasks.work is None:
        raise WorkloadError(f"{workload.name} has no profiles, so it can have no phases.")
    present = [phases.get(families[i], ()) for i in np.unique(workload.group) if i >= 0]
    n_phases = max(map(len, present), default=0)
    if n_phases == 0:
        return workload
    shares = np.zeros((workload.n_jobs, n_phases))
    factors = np.ones((workload.n_jobs, n_phases, len(SIGNALS)))
    shares[:, 0] = 1.0
    noise = draws.random((workload.n_jobs, n_phases)) if concentration else None
    for place, family in enumerate(families):
        rows = np.flatnonzero(workload.group == place)
        parts = phases.get(family, ())
        if len(rows) and parts:
            base_shares = np.array([part.share for part in parts])
            shares[rows, : len(parts)] = (
                base_shares
                if noise is None
                else _dirichlet(base_shares, concentration, noise[rows])
            )
            factors[rows, : len(parts)] = [part.factors for part in parts]
    phase_profiles = profiles_of_phases(tasks.work.profile, shares[tasks.job], factors[tasks.job])
    return replace(
        workload,
        tasks=replace(tasks, work=replace(tasks.work, phases=read_only_copy(phase_profiles))),
    )


def profiles_of_phases(profile: Floats, shares: Floats, factors: Floats) -> Floats:
    """Return the share and signals of each phase, which average to the given profile.

    Args:
        profile: float64 [n, 5], from 0 to 1.
        shares: float64 [n, n_phases]; each row sums to 1.
        factors: float64 [n, n_phases, 5], from 0; the mean over the shares is above 0 for each
            signal.

    Returns:
        float64 [n, n_phases, 6]: shares and signals; phases of share 0 are all 0.
    """
    mean = np.einsum("np,nps->ns", shares, factors)
    there = (shares > 0)[:, :, None]
    deviation = np.where(there, factors / mean[:, None, :] - 1.0, 0.0)
    reach, room = profile * deviation.max(axis=1), 1.0 - profile
    damping = np.divide(room, reach, out=np.ones_like(profile), where=reach > room)
    signals = profile[:, None, :] * (1.0 + damping[:, None, :] * deviation)
    signals = np.where(there, np.clip(signals, 0.0, 1.0), 0.0)
    return np.concatenate([shares[:, :, None], signals], axis=2)


def _dirichlet(expected: Floats, concentration: float, uniform: Floats) -> Floats:
    """Draw shares around the expected ones from one uniform number each (gamma quantiles)."""
    from scipy.special import gammaincinv

    weights = np.zeros((len(uniform), len(expected)))
    for i, share in enumerate(expected.tolist()):
        if share > 0:
            weights[:, i] = gammaincinv(concentration * share, uniform[:, i])
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), expected)


def _phase(entry: Any, where: str) -> WorkloadPhase:
    names = [phase_field.name for phase_field in fields(WorkloadPhase)]
    if isinstance(entry, WorkloadPhase):
        entry = {name: getattr(entry, name) for name in names}
    if not isinstance(entry, Mapping) or not {"name", "share"} <= set(entry) <= set(names):
        raise WorkloadError(
            f"{where}: it must be a table with name and share, and may have "
            f"{', '.join(SIGNALS)} (factors)."
        )
    if not isinstance(entry["name"], str):
        raise WorkloadError(f"{where}: name is {entry['name']!r}; allowed are texts.")
    factors = {
        name: checked_number(f"{where}: {name}", entry[name], 0.0, MOST_FACTOR)
        for name in SIGNALS
        if name in entry
    }
    return WorkloadPhase(
        entry["name"], checked_number(f"{where}: share", entry["share"], 0, 1), **factors
    )


def _check(parts: tuple[WorkloadPhase, ...], where: str) -> None:
    total = sum(part.share for part in parts)
    if abs(total - 1.0) > SLACK:
        raise WorkloadError(f"{where}: the shares sum to {total:g}; they must sum to 1.")
    for signal in SIGNALS:
        if not any(part.share > 0 and getattr(part, signal) > 0 for part in parts):
            raise WorkloadError(
                f"{where}: {signal} is 0 in every phase with a share; one must be above 0 to "
                "average to a profile."
            )
