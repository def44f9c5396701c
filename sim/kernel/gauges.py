"""What placement rules and orders go by beside the machines of a fleet: shares, classes, scores.

They are parts of the state `fleet`. Columns that no rule of a scenario asks for are empty, and
transitions keep those up that are there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_CLASS = -1

SHARE = 0
"""The class of GPUs of a need that takes a part of one; k whole ones are a class each."""


class Gauges(NamedTuple):
    """What scores are made of.

    Attributes:
        told: float64 [...], values of the options of the placement rule, as it declares them.
        capacity: int64 [n_machines * AMOUNTS], 0 for what a machine has not, or without limit.
        largest: float64 [AMOUNTS], the largest of these of any machine.
        total: float64 [AMOUNTS], what all machines have of these.
        class_of: int64 [n_needs], the class of GPUs that a need asks for; -1 is none. Empty if
            nobody asks.
        n_of_class: int64 [n_machines * n_classes], instances on a machine by class.
        typical: int64 [n_typical], needs for whose instances room is to be kept.
        popular: int64 [n_typical], how many such instances there are.
        kept: float64 [n_needs * n_machines], scores as they were; empty if nobody keeps them.
        kept_at: int64 [n_needs * n_machines], the `Host.version` that each was reckoned for; -1.
        score: float64 [n_machines], of the pile below.
        pile: int64 [n_machines], machines that have room for the need in hand.
        group_of: int64 [n_jobs], the user or job to whom what it holds is counted; empty if nobody
            asks.
        held: int64 [n_groups * AMOUNTS], what each of them holds.
        runtime_s: float64 [n_tasks], seconds that an instance takes at full speed.
    """

    told: list[float]
    capacity: list[int]
    largest: list[float]
    total: list[float]
    class_of: list[int]
    n_of_class: list[int]
    typical: list[int]
    popular: list[int]
    kept: list[float]
    kept_at: list[int]
    score: list[float]
    pile: list[int]
    group_of: list[int]
    held: list[int]
    runtime_s: list[float]


class Asked(NamedTuple):
    """What is to be known of a fleet, as arrays.

    Attributes:
        told: float64 [...], see `Gauges`.
        limited: bool [n_machines, AMOUNTS], whether what a machine has is a limit.
        classes: whether instances are counted by class of GPUs.
        typical: int64 [n_typical], see `Gauges`; `popular` likewise.
        keeps: whether scores are kept.
        group_of: int64 [n_jobs] or [0], see `Gauges`.
        runtime_s: float64 [n_tasks].
        draws: two int64 from 1, from which random numbers are drawn.
    """

    told: NDArray[np.float64]
    limited: NDArray[np.bool_]
    classes: bool
    typical: NDArray[np.int64]
    popular: NDArray[np.int64]
    keeps: bool
    group_of: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    draws: tuple[int, int]


def gpu_classes(mgpu: NDArray[np.int64], whole: int) -> tuple[NDArray[np.int64], int]:
    """Return the class of GPUs of each need: int64 [n_needs], and how many classes there are."""
    amount = np.where(mgpu < whole, SHARE, mgpu // whole)
    found, of_need = np.unique(np.concatenate([[SHARE], amount]), return_inverse=True)
    return np.where(mgpu == 0, NO_CLASS, of_need[1:]).astype(np.int64), len(found)


def new_gauges(
    asked: Asked, capacity: NDArray[np.int64], demand: NDArray[np.int64], whole: int
) -> tuple[Gauges, int]:
    """Return gauges, made of arrays, before anything has happened, and how many classes there are.

    Args:
        asked: what is to be known.
        capacity: int64 [n_machines, AMOUNTS].
        demand: int64 [n_needs, AMOUNTS].
        whole: thousandths of a GPU.
    """
    n_machines, n_needs, n_amounts = len(capacity), len(demand), capacity.shape[1]
    limits = np.where(asked.limited, capacity, 0)
    none = np.zeros(0, dtype=np.int64)
    class_of, n_classes = gpu_classes(demand[:, -1], whole)
    n_kept = n_needs * n_machines if asked.keeps else 0
    n_groups = int(asked.group_of.max()) + 1 if len(asked.group_of) else 0
    columns: list[Any] = [
        asked.told,
        limits.flatten(),
        limits.max(axis=0).astype(np.float64),
        limits.sum(axis=0).astype(np.float64),
        class_of if asked.classes else none,
        np.zeros(n_machines * n_classes if asked.classes else 0, dtype=np.int64),
        asked.typical,
        asked.popular,
        np.zeros(n_kept),
        np.full(n_kept, -1),
        np.zeros(n_machines),
        np.zeros(n_machines, dtype=np.int64),
        asked.group_of,
        np.zeros(n_groups * n_amounts, dtype=np.int64),
        asked.runtime_s,
    ]
    return Gauges(*columns), n_classes
