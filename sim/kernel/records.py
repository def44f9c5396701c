"""Rows with named fields, in the two forms on which kernel functions run.

Compiled functions work on NumPy structured arrays. Interpreted ones work on lists of objects, which
Python reads three times faster. A class with annotated ``int`` and ``float`` fields describes the
rows of both.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_State = TypeVar("_State", bound=tuple[Any, ...])

_TYPES = {int: "i8", float: "f8"}


_row_of: dict[np.dtype[Any], type] = {}


@cache
def row_type(row: type) -> np.dtype[Any]:
    """Return the record type of a class: int64 for ``int``, float64 for ``float``."""
    kind = np.dtype([(name, _TYPES[of]) for name, of in row.__annotations__.items()])
    _row_of[kind] = row
    return kind


def rows(row: type, n: int) -> NDArray[Any]:
    """Return n rows of zeros: a structured array of shape [n]."""
    return np.zeros(n, dtype=row_type(row))


def interpretable(state: _State) -> _State:
    """Return a state of arrays as the same state of lists, including nested states."""
    return type(state)(*map(_listed, state))


def _listed(part: Any) -> Any:
    if isinstance(part, tuple):
        return interpretable(part)
    if part.dtype.names is None:
        return part.tolist()
    return _objects(_row_of[part.dtype], part)


def _objects(row: type, part: NDArray[Any]) -> list[Any]:
    names = part.dtype.names or ()
    objects = [row() for _ in range(len(part))]
    for name in names:
        for instance, value in zip(objects, part[name].tolist(), strict=True):
            setattr(instance, name, value)
    return objects


def field(part: Any, name: str) -> list[Any]:
    """Return one field of all rows, in either form."""
    if isinstance(part, np.ndarray):
        values: list[Any] = part[name].tolist()
        return values
    return [getattr(row, name) for row in part]


def first_of(part: Any, n: int) -> list[int]:
    """Return the first n elements of a column, in either form."""
    head: Iterable[int] = part[:n]
    return head.tolist() if isinstance(head, np.ndarray) else list(head)


def value(part: Any, i: int, name: str) -> Any:
    """Return one field of one row, in either form."""
    return part[name][i] if isinstance(part, np.ndarray) else getattr(part[i], name)


def set_value(part: Any, i: int, name: str, new: Any) -> None:
    """Set one field of one row, in either form."""
    if isinstance(part, np.ndarray):
        part[name][i] = new
    else:
        setattr(part[i], name, new)
