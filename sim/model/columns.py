"""Checks of single columns, with error messages of one sentence."""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.model.errors import WorkloadError

MOST_SECONDS = float(2**53)  # Above this a float64 cannot distinguish one second from the next

MOST_COUNT = 2**53

_LONGEST_SHOWN = 10**30

_Column = TypeVar("_Column", NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_])


def read_only_copy(column: _Column) -> _Column:
    """Return a read-only array that shares no memory with the given column."""
    copy = column.copy()
    copy.setflags(write=False)
    return copy


def read_only_view(column: _Column) -> _Column:
    """Return a read-only array with the memory of the given column, which stays as it is."""
    view = column.view()
    view.setflags(write=False)
    return view


def count_text(value: object) -> str:
    """Return a number as text for messages, even if it is too long for Python to print."""
    if isinstance(value, int) and abs(value) > _LONGEST_SHOWN:
        return "a number of more than 30 digits"
    return repr(value)


def checked_times(
    name: str,
    values: ArrayLike,
    n_jobs: int | None,
    *,
    unknown_allowed: bool = False,
) -> NDArray[np.float64]:
    """Validate a column of times in seconds and return it as float64 [n_jobs].

    Raises:
        WorkloadError: not numbers, another length, NaN (unless unknown is allowed), negative,
            infinite, or too large for a float64 to distinguish seconds.
    """
    column = _numbers(name, values, n_jobs)
    present = ~np.isnan(column) if unknown_allowed else np.ones(len(column), dtype=bool)
    bad = present & ~((column >= 0.0) & (column <= MOST_SECONDS))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        most = " and at most 2**53 (about 9e+15)" if MOST_SECONDS < column[row] < np.inf else ""
        raise WorkloadError(
            f"{name}, row {row}: {column[row]:.15g}; allowed are finite seconds, at least 0{most}."
        )
    return column


def checked_counts(name: str, values: ArrayLike, n_jobs: int, *, least: int) -> NDArray[np.int64]:
    """Validate a column of whole numbers and return it as int64 [n_jobs].

    Raises:
        WorkloadError: not whole numbers, another length, less than `least`, or above 2**53.
    """
    column = _numbers(name, values, n_jobs)
    too_many = _exceeds(values, column)
    bad = ~((column >= least) & (column == np.floor(column))) | too_many
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        most = " and at most 2**53" if too_many[row] else ""
        raise WorkloadError(
            f"{name}, row {row}: {column[row]:.16g}; allowed are whole numbers, at least "
            f"{least}{most}."
        )
    return column.astype(np.int64)


def checked_ids(values: ArrayLike | None, n_jobs: int) -> NDArray[np.int64]:
    """Validate job ids and return them as int64 [n_jobs], or number jobs from 1 if None.

    Raises:
        WorkloadError: as `checked_counts`, or an id that occurs twice.
    """
    if values is None:
        return np.arange(1, n_jobs + 1, dtype=np.int64)
    ids = checked_counts("job_id", values, n_jobs, least=0)
    unique, first_row = np.unique(ids, return_index=True)
    if len(unique) < n_jobs:
        row = int(np.setdiff1d(np.arange(n_jobs), first_row)[0])
        raise WorkloadError(f"job_id, row {row}: {ids[row]} occurs twice; job ids must be unique.")
    return ids


def checked_machine(procs: object) -> int:
    """Validate a processor count of 1 to 2**53 and return it as an int."""
    is_integer = isinstance(procs, int | np.integer) and not isinstance(procs, bool)
    if isinstance(procs, int | np.integer) and is_integer and 1 <= procs <= MOST_COUNT:
        return int(procs)
    raise WorkloadError(
        f"max_procs is {count_text(procs)}; a machine has 1 processor or more. "
        "Allowed are whole numbers up to 2**53."
    )


def _exceeds(values: ArrayLike, column: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which counts are above 2**53, compared before rounding if they are whole numbers."""
    raw_values = np.asarray(values)
    return raw_values > MOST_COUNT if raw_values.dtype.kind in "iu" else column > MOST_COUNT


def _numbers(name: str, values: ArrayLike, n_jobs: int | None) -> NDArray[np.float64]:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise WorkloadError(f"{name} must be a column of numbers; {error}.") from None
    if column.ndim != 1:
        raise WorkloadError(f"{name} has {column.ndim} dimensions; a column has 1.")
    if n_jobs is not None and len(column) != n_jobs:
        raise WorkloadError(f"{name} has {len(column)} rows and submit_s has {n_jobs}.")
    return column
