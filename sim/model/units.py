"""Units: conversion of durations and sizes between texts and numbers.

Inside the simulator every time is a float64 number of seconds and its name ends in ``_s``. Sizes of
memory are whole bytes, and their names end in ``_bytes``.
"""

import math
import re

from sim.model.errors import DurationError, SizeError, quoted_text

SECONDS_PER: dict[str, float] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_ALIASES = {
    "sec": "s",
    "min": "m",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
    "week": "w",
    "mins": "m",
    "secs": "s",
}
_SIZES = ("KiB", "MiB", "GiB", "TiB")
_BYTES_PER: dict[str, int] = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    unit.lower(): 1 << 10 * power for power, unit in enumerate(_SIZES, 1)
}
_SIZE = re.compile(r"(\d{1,30}(?:\.\d{0,30})?)\s*([a-z]+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d*)?))?", re.ASCII)
_ALLOWED = "write a number of seconds, parts such as '90m', '3h', '2d' or '1h 30m', or h:mm:ss"


def parse_duration(value: str | float) -> float:
    """Parse a duration and return it in seconds.

    Args:
        value: seconds as a number, or a text: ``"90"``, ``"90m"``, ``"1h 30m"``, ``"2d"``,
            ``"1:30:00"`` (h:mm:ss), ``"1:30"`` (h:mm) or Slurm's ``"2-12:00:00"`` (d-h:mm:ss).

    Returns:
        Seconds, finite and at least 0.

    Raises:
        DurationError: anything else.

    >>> parse_duration("1h 30m"), parse_duration("1:30:00"), parse_duration(90)
    (5400.0, 5400.0, 90.0)
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise DurationError(f"{value!r} is not a duration; {_ALLOWED}.")
    return float(value)


def _parse_text(text: str) -> float:
    cleaned = text.strip().lower()
    clock = _CLOCK.fullmatch(cleaned)
    if clock is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return _finite(days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds, text)
    position, total_s = 0, 0.0
    while position < len(cleaned):
        part = _PART.match(cleaned, position)
        unit = _unit_of(part, alone=part is not None and part.end() - position == len(cleaned))
        if part is None or unit is None:
            position = -1
            break
        total_s += float(part.group(1)) * SECONDS_PER[unit]
        position = part.end()
    return _finite(total_s if position > 0 else math.nan, text)


def _finite(total_s: float, text: str) -> float:
    if not math.isfinite(total_s):
        raise DurationError(f"{quoted_text(text)} is not a duration; {_ALLOWED}.")
    return total_s


def _unit_of(part: re.Match[str] | None, *, alone: bool) -> str | None:
    """Return the unit of a part; a bare number means seconds only when it is the whole text."""
    if part is None:
        return None
    unit = part.group(2) or ("s" if alone else "")
    unit = _ALIASES.get(unit, unit)
    return unit if unit in SECONDS_PER else None


def format_duration(seconds: float | None) -> str:
    """Format a duration in seconds as readable text with at most two units.

    >>> format_duration(7500), format_duration(90), format_duration(0.25), format_duration(None)
    ('2 h 05 min', '1 min 30 s', '0.25 s', 'unknown')
    """
    if seconds is None or not math.isfinite(seconds):
        return "unlimited" if seconds == math.inf else "unknown"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest_s:02d} s" if rest_s else "")
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours:02d} h"


def parse_size(value: str | int) -> int:
    """Parse a memory or file size and return it in whole bytes.

    Args:
        value: bytes as a whole number, or a text such as ``"4 GiB"`` (1,024 three times) or
            ``"500 MB"`` (1,000 twice).

    Raises:
        SizeError: anything else.

    >>> parse_size("1.5 KiB"), parse_size("2GB"), parse_size(7)
    (1536, 2000000000, 7)
    """
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip().lower())
        unit = None if match is None else _BYTES_PER.get(match.group(2))
        if match is not None and unit is not None:
            return math.floor(float(match.group(1)) * unit)
    elif not isinstance(value, bool) and value >= 0:
        return value
    value_text = quoted_text(value) if isinstance(value, str) else repr(value)
    raise SizeError(
        f"{value_text} is not a size; write a number and a unit, such as '512 MiB' or '4 GiB', or "
        "bytes as a whole number."
    )


def format_size(n_bytes: int) -> str:
    """Format a size in bytes as readable text in powers of 1,024.

    >>> format_size(838860800), format_size(1536), format_size(2**53), format_size(1)
    ('800 MiB', '1.5 KiB', '8192 TiB', '1 byte')
    """
    if n_bytes < 1024:
        return f"{n_bytes} byte" + ("" if n_bytes == 1 else "s")
    power = min((n_bytes.bit_length() - 1) // 10, len(_SIZES))
    return f"{n_bytes / 1024**power:.4g} {_SIZES[power - 1]}"
