"""Axes of values: units as people read them, few grid lines, logarithmic ticks at 1, 2 and 5."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from assistant.presentation.text.number_format import unit_of

Spec = dict[str, Any]

LOG_FROM_RATIO = 10.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""
_TICKS = 4
_LOG_ROOM = 0.04
"""Room beyond each end of a logarithmic axis, as a share of its length."""
_SPOKEN_S = 120.0  # Seconds from which on an axis is labelled in minutes, hours and days
_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_STEPS_S = (
    1, 2, 5, 10, 20, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 20 * _MINUTE,
    30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY,
)  # fmt: skip
_LOG_S = (
    1, 2, 5, 10, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR,
    2 * _HOUR, 5 * _HOUR, 10 * _HOUR, _DAY, 2 * _DAY, 5 * _DAY,
)  # fmt: skip


def _whole_and_rest(divisor_s: int, unit: str, rest_s: int, rest_unit: str) -> str:
    """Return the Vega expression of a duration in two units, such as "1 h 20 min"."""
    rest = f"round((abs(datum.value) % {divisor_s}) / {rest_s})"
    quotient = f"format((datum.value - datum.value % {divisor_s}) / {divisor_s}, ',') + ' {unit}'"
    return f"{quotient} + ({rest} > 0 ? ' ' + {rest} + ' {rest_unit}' : '')"


_TIME_LABEL = (
    "datum.value === 0 ? '0' : "
    f"abs(datum.value) >= 86400 ? {_whole_and_rest(86_400, 'd', 3_600, 'h')} : "
    f"abs(datum.value) >= 3600 ? {_whole_and_rest(3_600, 'h', 60, 'min')} : "
    f"abs(datum.value) >= 60 ? {_whole_and_rest(60, 'min', 1, 's')} : "
    "format(datum.value, '.4~r') + ' s'"
)


def unit_in(title: str) -> str:
    """Return the unit at the end of a title, or an empty text.

    >>> unit_in("wait [h]"), unit_in("mean_wait_s"), unit_in("loss")
    ('h', 's', '')
    """
    return title.rpartition("[")[2].removesuffix("]") if title.endswith("]") else unit_of(title)


def is_logarithmic(values: Iterable[float]) -> bool:
    """Return whether values span more than a factor of 10, all above 0."""
    least, most = _ends(values)
    return least > 0 and most > LOG_FROM_RATIO * least


def value_axis(
    values: Sequence[float], title: str, *, includes_zero: bool = False, n_ticks: int = _TICKS
) -> Spec:
    """Return the encoding of a quantitative axis without a data field.

    The axis is logarithmic if the values span more than a factor of 10. A title with
    seconds gives labels in minutes, hours or days if the values are long.

    Args:
        values: everything that is drawn along the axis.
        title: name of the value with its unit.
        includes_zero: whether the axis starts at 0; it is linear then.
        n_ticks: most ticks of a linear axis, about.
    """
    finite = [value for value in values if math.isfinite(value)]
    is_time = is_spoken(finite, title)
    axis: Spec = {}
    least, most = _ends([*finite, 0.0] if includes_zero else finite)
    scale: Spec = {"zero": includes_zero}
    if least < most:
        scale = {"domain": [least, most], "nice": n_ticks, "zero": includes_zero}
    if is_time:
        title, axis["labelExpr"] = title.removesuffix("[s]").rstrip(), _TIME_LABEL
    if not includes_zero and is_logarithmic(finite):
        ticks = log_ticks(least, most, _LOG_S if is_time else ())
        room = (most / least) ** _LOG_ROOM  # no mark lies on the edge
        scale = {"type": "log", "domain": [least / room, most * room], "nice": False}
        axis["values"] = ticks
    elif is_time:
        ticks = time_ticks(least, most, n_ticks + 1)
        scale, axis["values"] = {"domain": [ticks[0], ticks[-1]], "nice": False}, ticks
    if "values" not in axis:  # Vega would drop some of the values to keep the count
        axis["tickCount"] = n_ticks
    return {"type": "quantitative", "title": title or None, "scale": scale, "axis": axis}


def is_spoken(values: Iterable[float], title: str) -> bool:
    """Return whether values under a title are seconds that people read as minutes or more."""
    return unit_in(title) == "s" and max(map(abs, _ends(values))) >= _SPOKEN_S


def log_ticks(least: float, most: float, nice: Sequence[float] = ()) -> list[float]:
    """Return the ticks of a logarithmic axis: 1, 2 and 5 in each decade, or decades if many.

    ``nice`` replaces them up to its last number. Both ends are above 0.

    >>> log_ticks(0.3, 40), log_ticks(1e-6, 1e3)
    ([0.5, 1, 2, 5, 10, 20], [1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000])
    """
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    factors = (1, 2, 5) if last - first <= 4 else (1,)
    ticks = [float(f"{factor}e{decade}") for decade in range(first, last + 1) for factor in factors]
    if nice and least >= nice[0]:
        days = [_DAY * factor * 10**power for power in range(1, 6) for factor in (1, 2, 5)]
        ticks = [float(tick) for tick in (*nice, *days)]
        if most > 1_000 * least:
            ticks = ticks[::2]
    inside = [tick for tick in ticks if least <= tick * 1.000001 and tick <= most * 1.000001]
    return [int(tick) if tick.is_integer() else tick for tick in inside]


def time_ticks(least_s: float, most_s: float, n_ticks: int = 5) -> list[float]:
    """Return the ticks of a linear axis of seconds, which enclose both ends.

    >>> [tick / 3600 for tick in time_ticks(0, 9 * 3600)]
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    extent = max(most_s - least_s, 1.0)
    days = (_DAY * factor * 10**power for power in range(8) for factor in (1, 2, 5))
    steps = (*_STEPS_S, *(step for step in days if step > _STEPS_S[-1]))
    step = next((s for s in steps if extent / s <= n_ticks), steps[-1])
    first, last = math.floor(least_s / step), math.ceil(most_s / step)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _ends(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)
