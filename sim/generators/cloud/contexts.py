"""Contexts of probability tables, from general to specific levels, and checks of model arrays.

A table has a row for each observed context at every level. Level 0 contains no facts and has one
row; each further level contains the facts of the one before, and more. An unobserved context uses
its deepest observed ancestor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import Model
from sim.model.errors import WorkloadError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contexts:
    """Observed contexts of a probability table as its rows, on levels from general to specific.

    Attributes:
        keys: observed contexts of each level, as sorted unique int64.
        parent: int64 [n_rows], row of the same context one level above; 0 for row 0.
    """

    keys: tuple[Ints, ...]
    parent: Ints

    @property
    def n_rows(self) -> int:
        """Number of table rows over all levels."""
        return len(self.parent)

    def first_row(self, level: int) -> int:
        """Return the table row of the first context of a level."""
        return sum(len(keys) for keys in self.keys[:level])

    def rows(self, level_keys: Sequence[Ints]) -> Ints:
        """Return the table row of each context, or of its deepest observed ancestor: int64 [n].

        The keys of each level except 0 are int64 [n]; levels beyond the table are ignored.
        """
        deepest_row = np.zeros(len(level_keys[0]), dtype=np.int64)
        left = np.arange(len(deepest_row))
        for level in range(min(len(level_keys), len(self.keys) - 1), 0, -1):
            keys, row_keys = self.keys[level], level_keys[level - 1][left]
            at = np.minimum(np.searchsorted(keys, row_keys), len(keys) - 1)
            hit = keys[at] == row_keys
            deepest_row[left[hit]] = self.first_row(level) + at[hit]
            left = left[~hit]
            if len(left) == 0:
                break
        return deepest_row


def observed_contexts(
    level_keys: Sequence[Ints], least: int = 1
) -> tuple[Contexts, tuple[Ints, ...]]:
    """Return the contexts that occur in data rows, and each row's context at every level.

    Contexts from level 2 on that are rarer than `least` are left out.

    Returns:
        the contexts; for each level int64 [n], the row of the table, -1 where it was left out.
    """
    n = len(level_keys[0])
    keys: list[Ints] = [np.zeros(1, dtype=np.int64)]
    parents: list[Ints] = [np.zeros(1, dtype=np.int64)]
    of_level: list[Ints] = [np.zeros(n, dtype=np.int64)]
    first = 1
    for level, column in enumerate(level_keys, start=1):
        unique_keys, example, place, count = np.unique(
            column, return_index=True, return_inverse=True, return_counts=True
        )
        is_kept = count >= (least if level > 1 else 1)
        # A context is never more frequent than its parent, so that is kept too.
        number = np.where(is_kept, first + np.cumsum(is_kept) - 1, -1)
        keys.append(unique_keys[is_kept])
        parents.append(of_level[-1][example[is_kept]])
        of_level.append(number[place])
        first += int(is_kept.sum())
    return Contexts(tuple(keys), np.concatenate(parents)), tuple(of_level)


def encode_contexts(name: str, contexts: Contexts) -> dict[str, NDArray[Any]]:
    """Return the arrays that store contexts in a model, with names that begin with `name`."""
    keys = {f"{name}_keys_{level}": keys for level, keys in enumerate(contexts.keys)}
    return {**keys, f"{name}_parent": contexts.parent}


def contexts_of(model: Model, name: str) -> Contexts:
    """Return the contexts stored in a model. Raises WorkloadError if they are invalid."""
    keys: list[NDArray[np.int64]] = []
    while (key := f"{name}_keys_{len(keys)}") in model.arrays:
        keys.append(integers_of(model, key, (None,), 0))
        if len(keys[-1]) == 0 or (np.diff(keys[-1]) <= 0).any():
            raise WorkloadError(f"array '{key}' of '{model.generator}' must rise.")
    n_rows = sum(map(len, keys))
    parent = integers_of(model, f"{name}_parent", (n_rows,), 0, max(n_rows - 1, 0))
    if not keys or len(keys[0]) != 1 or (parent[1:] >= np.arange(1, n_rows)).any():
        raise WorkloadError(f"the contexts '{name}' of '{model.generator}' are not a tree.")
    return Contexts(tuple(keys), parent)


def shares_of(model: Model, name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return a checked model array of probabilities that sum to 1 along the last axis."""
    shares = array_of(model, name, shape, 0.0, 1.0)
    if np.abs(shares.sum(axis=-1) - 1.0).max() > 1e-6:
        raise WorkloadError(f"array '{name}' of '{model.generator}' needs shares that sum to 1.")
    return shares


def array_of(
    model: Model,
    name: str,
    shape: tuple[int | None, ...],
    lowest: float,
    highest: float,
) -> NDArray[np.float64]:
    """Return a model array as float64, after checks of its shape and range.

    None in the shape is any length from 1.

    Raises:
        WorkloadError: it is missing, of another shape, or out of range.
    """
    array = model.arrays.get(name)
    if array is None:
        raise WorkloadError(f"a model of '{model.generator}' needs the array '{name}'.")
    is_shape = array.ndim == len(shape) and all(
        n == want if want is not None else n > 0 for n, want in zip(array.shape, shape, strict=True)
    )
    if not is_shape or array.dtype.kind not in "iuf":
        raise WorkloadError(
            f"array '{name}' of '{model.generator}' has shape {array.shape}; numbers of shape "
            f"{tuple('any' if n is None else n for n in shape)} are expected."
        )
    if not ((array >= lowest) & (array <= highest)).all():
        raise WorkloadError(
            f"array '{name}' of '{model.generator}' has values not from {lowest:g} to {highest:g}."
        )
    return array.astype(np.float64)


def integers_of(
    model: Model,
    name: str,
    shape: tuple[int | None, ...],
    lowest: int,
    highest: int = 2**62,
) -> NDArray[np.int64]:
    """Return a model array as int64, after checks of its shape, range and whole numbers."""
    array_of(model, name, shape, float(lowest), float(highest))
    array = model.arrays[name]
    if array.dtype.kind == "f" and (array % 1 != 0).any():
        raise WorkloadError(f"array '{name}' of '{model.generator}' must hold whole numbers.")
    return array.astype(np.int64)
