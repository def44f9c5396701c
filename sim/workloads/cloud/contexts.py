"""Contexts in levels, from none to the most told, and which one applies to a row.

A table of contexts has a row for each context that was seen, at every level. Level 0 tells nothing
and has one row; each further level tells all that the one before it does, and more. A context that
was never seen is answered for by the deepest one above it that was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts of a table; rows count through all levels, level 0 first.

    Attributes:
        keys: of each level the contexts that were seen, as sorted unique int64.
        parent: int64 [n_rows], the row of the same context one level above; 0 for row 0.
    """

    keys: tuple[Ints, ...]
    parent: Ints

    @property
    def n_rows(self) -> int:
        """Rows of all levels."""
        return len(self.parent)

    def first_row(self, level: int) -> int:
        """Return the row of the first context of a level."""
        return sum(len(keys) for keys in self.keys[:level])

    def rows(self, told: Sequence[Ints]) -> Ints:
        """Return the deepest row that was seen of each context: int64 [n].

        Args:
            told: for each level but 0 the key of every row: int64 [n]; levels that the table does
                not have are not looked at.
        """
        found = np.zeros(len(told[0]), dtype=np.int64)
        left = np.arange(len(found))
        for level in range(min(len(told), len(self.keys) - 1), 0, -1):
            keys, wanted = self.keys[level], told[level - 1][left]
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[at] == wanted
            found[left[hit]] = self.first_row(level) + at[hit]
            left = left[~hit]
            if len(left) == 0:
                break
        return found


def seen(told: Sequence[Ints], least: int = 1) -> tuple[Contexts, tuple[Ints, ...]]:
    """Return the contexts of some rows, and to which row of each level they belong.

    Args:
        told: for each level but 0 the key of every row: int64 [n].
        least: contexts that were seen less often are left out, from level 2 on.

    Returns:
        the contexts; for each level int64 [n], the row of the table, -1 where it was left out.
    """
    n = len(told[0])
    keys: list[Ints] = [np.zeros(1, dtype=np.int64)]
    parents: list[Ints] = [np.zeros(1, dtype=np.int64)]
    of_level: list[Ints] = [np.zeros(n, dtype=np.int64)]
    first = 1
    for level, column in enumerate(told, start=1):
        kept, example, place, count = np.unique(
            column, return_index=True, return_inverse=True, return_counts=True
        )
        is_kept = count >= (least if level > 1 else 1)
        # A context is never seen more often than the one above it, so that is kept too.
        number = np.where(is_kept, first + np.cumsum(is_kept) - 1, -1)
        keys.append(kept[is_kept])
        parents.append(of_level[-1][example[is_kept]])
        of_level.append(number[place])
        first += int(is_kept.sum())
    return Contexts(tuple(keys), np.concatenate(parents)), tuple(of_level)
