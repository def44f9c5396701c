"""The field ``phases`` of Joulie's JSONL: an extension of ours, which other readers need not know.

A pod's record, and that of its logical workload, may have a list of tables: ``share`` of the work,
and the five signals of ``workloadProfile`` while it is done. They average to that profile.
"""

import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.model.tasks import PHASE_SLACK
from sim.traces.joulie_text import PROFILE, FieldError

PHASES = "phases"
MOST_PHASES = 64

PhaseRows = tuple[tuple[float, ...], ...]
"""Share and signals of each phase, in order of time."""


def phases_text(phases: NDArray[np.float64] | None, n_tasks: int) -> list[str]:
    """Return the field of each task with its key and a comma before it; nothing without phases.

    Args:
        phases: see `sim.model.tasks.Work`.
        n_tasks: how many there are.
    """
    if phases is None:
        return [""] * n_tasks
    texts: dict[bytes, str] = {}
    made = []
    for rows in phases:
        key = rows.tobytes()
        if key not in texts:
            texts[key] = _text(rows.tolist())
        made.append(texts[key])
    return made


def _text(rows: list[list[float]]) -> str:
    while rows and rows[-1][0] == 0:
        rows = rows[:-1]
    if len(rows) <= 1:  # the profile itself
        return ""
    told = [dict(zip(("share", *PROFILE), row, strict=True)) for row in rows]
    return f',"{PHASES}":{json.dumps(told, separators=(",", ":"))}'


def read_phases(told: object, profile: Sequence[float]) -> PhaseRows:
    """Return phases that a record tells.

    Args:
        told: the value of the field.
        profile: the signals that they must average to.

    Raises:
        FieldError: no such list, a number that cannot be, or another average.
    """
    if not isinstance(told, list) or not 1 <= len(told) <= MOST_PHASES:
        raise FieldError(PHASES, told, f"it must be a list of 1 to {MOST_PHASES} phases.")
    names = ("share", *PROFILE)
    rows = []
    for i, one in enumerate(told):
        if not isinstance(one, dict) or set(one) != set(names):
            expected = f"it must be a table of {', '.join(names)}."
            raise FieldError(f"{PHASES}[{i}]", one, expected)
        for name in names:
            value = one[name]
            is_number = type(value) is float or type(value) is int
            if not (is_number and 0.0 <= value <= 1.0):
                raise FieldError(f"{PHASES}[{i}].{name}", value, "allowed are numbers from 0 to 1.")
        rows.append(tuple(float(one[name]) for name in names))
    if abs(math.fsum(row[0] for row in rows) - 1.0) > PHASE_SLACK:
        raise FieldError(PHASES, told, "the shares must sum to 1.")
    for column, name in enumerate(PROFILE, start=1):
        mean = math.fsum(row[0] * row[column] for row in rows)
        if abs(mean - profile[column - 1]) > PHASE_SLACK:
            expected = (
                f"{name} averages to {mean:.6g} over the phases, and is {profile[column - 1]:.6g} "
                "in the profile."
            )
            raise FieldError(PHASES, told, expected)
    return tuple(rows)


def phases_column(
    phases: Sequence[PhaseRows], profile: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the phases of all tasks as `Work` has them; None if no task has any.

    Args:
        phases: of each task; empty is none.
        profile: float64 [n_tasks, 5], which is the only phase of a task without.
    """
    longest = max(map(len, phases), default=0)
    if longest == 0:
        return None
    made = np.zeros((len(phases), longest, 1 + len(PROFILE)))
    made[:, 0, 0], made[:, 0, 1:] = 1.0, profile
    for row, told in enumerate(phases):
        if told:
            made[row, : len(told)] = told
    return made
