"""When a forecast of a miss becomes a warning: a rule over a sequence of checks, with hysteresis.

Pure, and without an experiment in it: the benchmark that measured the rule calls the same function
(``python -m benchmarks.forecast``). What is measured are checks every 4 runs, so checks that come
closer together, as batches of one run make them, do not count as more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

CONSECUTIVE = 2
"""Checks in a row at the threshold that raise the alarm: one alone is often chance."""

APART = 4
"""Runs between checks that count."""

RELEASE = 0.1
"""The alarm stays on until the miss probability falls by this below the threshold."""

LAST_SHARE = 0.2
LEAST_LEFT = 4
"""No alarm in the last share of the budget, or with fewer runs left: it would come too late."""

REMIND_AFTER = 5
"""Runs after a warning until it is given again."""

WORSE = 0.05
"""By how much the miss probability must have risen for a reminder."""

_ROUNDING = 1e-9


def is_late(used: float, left: float) -> bool:
    """Return whether the budget is nearly used: a warning, or a verdict, would come too late.

    >>> is_late(16, 4.0), is_late(15, 4.0), is_late(2, 3.0)
    (True, False, True)
    """
    return left < LEAST_LEFT or left <= (LAST_SHARE + _ROUNDING) * (used + left)


@dataclass(frozen=True, slots=True)
class Check:
    """What a forecast said at one moment.

    Args:
        used: runs of the budget that were over.
        left: further runs that could still end (the median), at least 0; None if unknown.
        miss: probability that the goal is missed; None where the forecast was silent.
    """

    used: int
    left: float | None
    miss: float | None

    @property
    def may_warn(self) -> bool:
        """Whether a warning can still help: enough runs are left, and the forecast speaks."""
        return self.miss is not None and self.left is not None and not is_late(self.used, self.left)


@dataclass(frozen=True, slots=True)
class Given:
    """A warning that was given: after ``used`` runs, at this miss probability."""

    used: int
    miss: float


def alarm(checks: Sequence[Check], threshold: float) -> bool:
    """Return whether the alarm is on after a sequence of checks, the oldest first.

    It goes on after 2 checks in a row at the threshold or above, off below the threshold less 0.1,
    and is never on in the last 20 % of the budget, with fewer than 4 runs left, or while the
    forecast is silent.

    >>> seen = [Check(12, 48.0, 0.85), Check(16, 44.0, 0.82), Check(20, 40.0, 0.75)]
    >>> [alarm(seen[:n], 0.8) for n in (1, 2, 3)]
    [False, True, True]
    """
    return bool(checks) and alarms(checks, threshold)[-1]


def alarms(checks: Sequence[Check], threshold: float) -> tuple[bool, ...]:
    """Return whether the alarm is on after each of the checks; see `alarm`."""
    told, in_a_row, is_on = list[bool](), 0, False
    counted: int | None = None
    for check in checks:
        if not check.may_warn or check.miss is None:
            in_a_row, is_on, counted = 0, False, None
        elif counted is None or check.used >= counted + APART:
            counted = check.used
            in_a_row = in_a_row + 1 if check.miss >= threshold - _ROUNDING else 0
            is_on = in_a_row >= CONSECUTIVE or (
                is_on and check.miss >= threshold - RELEASE - _ROUNDING
            )
        told.append(is_on)
    return tuple(told)


def is_due(checks: Sequence[Check], threshold: float, last: Given | None) -> bool:
    """Return whether a warning is to be given at the latest of the checks.

    The first one as soon as the alarm is on. Another only 5 runs after the last one, and only if
    the miss has become more probable by 0.05 since, or the alarm has been off in between: a warning
    that says the same again is not read.
    """
    states = alarms(checks, threshold)
    if not states or not states[-1]:
        return False
    if last is None:
        return True
    now = checks[-1]
    if now.miss is None or now.used < last.used + REMIND_AFTER:
        return False
    since = [on for check, on in zip(checks, states, strict=True) if check.used > last.used]
    return now.miss >= last.miss + WORSE - _ROUNDING or not all(since)
