"""Alternatives: columns of 0 and 1 of a measured table that are one parameter with several levels.

Tables of programs with switches often have one column per choice ("one-hot"): ``quicksort``,
``mergesort``, ``heapsort``, of which one is on. As parameters of their own most combinations are no
row, and no search learns much. Columns of which every row has at most one 1 are therefore one
nominal parameter. Nothing is lost: a combination with two of them on has no row either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from strategies.data.measured_table import DURATION, OBJECTIVE, MeasuredTable
from strategies.space.parameter import Parameter, is_name
from strategies.space.parameter_space import Configuration, ParameterSpace

Ids = NDArray[np.int64]
NONE = "none"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One parameter in place of several columns of 0 and 1.

    Args:
        name: of the parameter: the column that is 1 where one of them is, else their common words.
        columns: of which every row has at most one 1, in the order of the table.
        implied: further columns of 0 and 1 whose value follows from the level.
        levels: values of all these columns by level.
    """

    name: str
    columns: tuple[str, ...]
    implied: tuple[str, ...]
    levels: Mapping[str, Mapping[str, int]]

    @property
    def description(self) -> str:
        """The columns that the parameter stands for, in one line."""
        implied = f"; {', '.join(self.implied)} by it" if self.implied else ""
        return f"one of {', '.join(self.columns)}{implied}"


def merge_alternatives(table: MeasuredTable) -> tuple[MeasuredTable, tuple[Alternatives, ...]]:
    """Return a table with one parameter in place of each set of alternatives, and these sets.

    The set with the most columns comes first, of equal ones that with fewer rows of only zeros. A
    column of 0 and 1 that is the same in all rows of each level goes into the set too. The table
    is returned as it is if it has no such columns.
    """
    found = find_alternatives(table)
    if not found:
        return table, ()
    at = {parameter.name: place for place, parameter in enumerate(table.space.parameters)}
    level_ids = np.array([row.level_ids for row in table.measurements], dtype=np.int64)
    by_column = {name: one for one in found for name in (*one.columns, *one.implied)}
    columns: dict[str, tuple[Parameter, Ids]] = {}
    for parameter in table.space.parameters:
        one = by_column.get(parameter.name)
        if one is None:
            columns[parameter.name] = parameter, level_ids[:, at[parameter.name]]
        elif one.name not in columns:
            merged = Parameter(one.name, tuple(one.levels), description=one.description)
            states = _states(level_ids[:, [at[name] for name in one.columns]])
            columns[one.name] = merged, np.where(states > 0, states, len(one.columns) + 1) - 1
    space = ParameterSpace(tuple(parameter for parameter, _ in columns.values()))
    rows = np.stack([ids for _, ids in columns.values()], axis=1).tolist()
    measurements = {
        Configuration(tuple(row), space.lineage): measurement
        for row, measurement in zip(rows, table.measurements.values(), strict=True)
    }
    return replace(table, space=space, measurements=measurements).limited(), found


def find_alternatives(table: MeasuredTable) -> tuple[Alternatives, ...]:
    """Return the sets of columns of a table that are alternatives; no column is in two of them."""
    parameters = table.space.parameters
    binary = [i for i, parameter in enumerate(parameters) if parameter.levels == (0, 1)]
    if len(binary) < 2:
        return ()
    names = [parameters[i].name for i in binary]
    rows = np.array([row.level_ids for row in table.measurements], dtype=np.int64)[:, binary]
    sets = list(_exclusive_sets(rows))
    in_sets = {column for columns in sets for column in columns}
    outside = [column for column in range(len(names)) if column not in in_sets]
    taken = {p.name for p in parameters} - {names[column] for column in in_sets}
    taken |= {OBJECTIVE, DURATION}
    left, found = outside, list[Alternatives]()
    for columns in sets:
        states = _states(rows[:, columns])
        implied = [column for column in left if _follows(states, rows[:, column])]
        left = [column for column in left if column not in implied]
        taken -= {names[column] for column in implied}
        parent = _parent(states, rows, [column for column in outside if column < columns[0]])
        members = [names[column] for column in columns]
        common, levels = _common_words(members)
        name = _free_name(["" if parent is None else names[parent], common], members, taken)
        taken.add(name)
        found.append(_alternatives(name, levels, rows, names, columns, implied))
    return tuple(found)


def _exclusive_sets(rows: Ids) -> Iterator[list[int]]:
    """Yield sets of columns that are never 1 together, the largest first.

    Largest sets of pairwise exclusive columns are cliques of a graph. Each is grown from every
    column in the order of the table, which finds all of them where they do not overlap.
    """
    ones = rows.astype(np.float64)
    exclusive = (ones.T @ ones) == 0
    n_ones = rows.sum(axis=0)
    left = list(range(rows.shape[1]))
    while True:
        best: list[int] = []
        for first in left:
            columns, fits = [first], exclusive[first].copy()
            for other in left:
                if fits[other]:
                    columns.append(other)
                    fits &= exclusive[other]
            if (len(columns), n_ones[columns].sum()) > (len(best), n_ones[best].sum()):
                best = sorted(columns)
        if len(best) < 2:
            return
        yield best
        left = [column for column in left if column not in best]


def _states(switches: Ids) -> Ids:
    """Return which column of a set is 1 in each row, from 1 on; 0 where none is. int64 [rows]."""
    return switches @ np.arange(1, switches.shape[1] + 1)


def _follows(states: Ids, column: Ids) -> bool:
    """Return whether a column of 0 and 1 is the same in all rows of each state."""
    n_ones = np.bincount(states, weights=column)
    return bool(((n_ones == 0) | (n_ones == np.bincount(states))).all())


def _parent(states: Ids, rows: Ids, before: Sequence[int]) -> int | None:
    """Return the last of some columns that is 1 just where one of a set is, or None."""
    on = states > 0
    return max((column for column in before if np.array_equal(rows[:, column], on)), default=None)


_WORDS = re.compile(r"(?<=_)|(?<=[a-z0-9])(?=[A-Z])")


def _common_words(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the words that names begin or end with, and the rest of each name.

    The text is empty, and the names are whole, where they have none or the rests are no names.

    >>> _common_words(["crypt_aes", "crypt_blowfish"])
    ('crypt', ['aes', 'blowfish'])
    >>> _common_words(["standardPageSize", "lowerPageSize"])
    ('PageSize', ['standard', 'lower'])
    """
    words = [_WORDS.split(name) for name in names]
    least = min(map(len, words))
    n_first = next((n for n in range(least) if len({w[n] for w in words}) > 1), least)
    n_last = next((n for n in range(least) if len({w[-n - 1] for w in words}) > 1), least)
    if n_first:
        common, rests = words[0][:n_first], [w[n_first:] for w in words]
    else:
        common, rests = words[0][len(words[0]) - n_last :], [w[: len(w) - n_last] for w in words]
    texts = ["".join(rest).strip("_") for rest in rests]
    if not common or not all(texts) or len(set(texts)) < len(texts):
        return "", list(names)
    return "".join(common).strip("_"), texts


def _free_name(first_choice: Sequence[str], members: Sequence[str], taken: Collection[str]) -> str:
    """Return the first valid name that no other parameter has."""
    shown = [*members[:2], f"{len(members) - 2}_others"] if len(members) > 3 else members
    joined = "_or_".join(shown)
    longer = (joined + "_" * n for n in range(len(taken) + 1))
    return next(name for name in (*first_choice, *longer) if is_name(name) and name not in taken)


def _alternatives(
    name: str,
    levels: Sequence[str],
    rows: Ids,
    names: Sequence[str],
    columns: Sequence[int],
    implied: Sequence[int],
) -> Alternatives:
    places = [*columns, *implied]
    states, first = np.unique(_states(rows[:, columns]), return_index=True)
    cells = {
        int(state): {names[place]: int(rows[row, place]) for place in places}
        for state, row in zip(states, first, strict=True)
    }
    by_level = {level: cells[state] for state, level in enumerate(levels, 1)}
    if 0 in cells:
        on = [names[place] for place in implied if cells[0][names[place]]]
        neither = on[0] if len(on) == 1 and on[0] not in by_level else NONE
        while neither in by_level:
            neither = f"no_{neither}"
        by_level[neither] = cells[0]
    return Alternatives(
        name, tuple(names[c] for c in columns), tuple(names[c] for c in implied), by_level
    )
