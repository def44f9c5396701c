"""Times as accounting systems write them: local and Unix times, durations, and time zones.

Columns are parsed at once. Texts that are no times are marked, not refused: a dump of a million
rows has a few, and its reader counts them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_columns import TextColumn

FloatColumn = NDArray[np.float64]
Rows = NDArray[np.bool_]

UNKNOWN_TIMES = frozenset({b"", b"unknown", b"none", b"n/a", b"invalid", b"nan"})
"""Texts for a time that is unknown or has not come, in lower case."""

_WIDTH = 20  # of 2024-03-31T02:30:00, and one more byte that shows longer texts
_SEPARATORS = ((4, b"-"), (7, b"-"), (13, b":"), (16, b":"))
_DIGITS = (0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18)
_ZERO, _T, _BLANK = np.uint8(ord("0")), ord("T"), ord(" ")
_CLOCK_WIDTH, _CLOCK_DIGITS = 8, (0, 1, 3, 4, 6, 7)  # of 02:03:04
_CLOCK_SECONDS = np.array([36_000.0, 3600.0, 600.0, 60.0, 10.0, 1.0])
_MONTH_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int32)
_LATEST_UNIX_S = 253_370_764_800  # 1 January 9999, as in `sim.metrics.wall_clock`

QUARTER_S = 900  # Since 1972 wall clocks change only on a quarter of an hour of UTC

_ELAPSED = re.compile(rb"(?:(\d{1,6})-)?(?:(\d{1,7}):)?(\d{1,7}):(\d{1,2})(?:\.\d{1,9})?")
_DAYS_HOURS = re.compile(rb"(\d{1,6})-(\d{1,2})")


class Moments(NamedTuple):
    """A column of times.

    Attributes:
        seconds: float64 [n], since 1970 UTC, or since 1970 local time; NaN where unknown.
        is_local: bool [n], whether the time is local, without an offset.
        is_bad: bool [n], whether the text is no time; `seconds` is NaN there.
    """

    seconds: FloatColumn
    is_local: Rows
    is_bad: Rows


def unknown_moments(n: int) -> Moments:
    """Return a column of unknown times."""
    return Moments(np.full(n, np.nan), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_))


def parse_moments(texts: Sequence[bytes] | TextColumn) -> Moments:
    """Parse a column of times.

    Allowed are ISO 8601 with or without an offset (``2024-03-31T02:30:00``; a blank may stand for
    the T), Unix times in whole seconds, and the texts of `UNKNOWN_TIMES`. 0 is unknown, too.
    """
    n = len(texts)
    seconds, is_local, is_bad = unknown_moments(n)
    if not n:
        return Moments(seconds, is_local, is_bad)
    if isinstance(texts, TextColumn):
        chars = texts.chars(_WIDTH)
    else:
        chars = np.array(texts, dtype=f"S{_WIDTH}").view(np.uint8).reshape(n, _WIDTH)
    is_iso = ((chars[:, 10] == _T) | (chars[:, 10] == _BLANK)) & (chars[:, 19] == 0)
    for at, separator in _SEPARATORS:
        is_iso &= chars[:, at] == ord(separator)
    digits = chars[:, _DIGITS] - _ZERO  # of uint8: what comes before 0 becomes large
    is_iso &= (digits <= 9).all(axis=1)
    if is_iso.any():
        seconds[is_iso] = _civil_seconds(digits[is_iso])
        is_local |= is_iso
        is_bad |= is_iso & np.isnan(seconds)
    for row in np.flatnonzero(~is_iso).tolist():
        seconds[row], is_local[row], is_bad[row] = _other_moment(texts[row])
    seconds[seconds == 0] = np.nan
    return Moments(seconds, is_local & ~np.isnan(seconds), is_bad)


def _civil_seconds(texts: NDArray[np.uint8]) -> FloatColumn:
    """Return seconds since 1970 for the digits of dates and times, uint8 [n, 14]; else NaN."""
    digits = texts.astype(np.int32)
    year = digits[:, 0] * 1000 + digits[:, 1] * 100 + digits[:, 2] * 10 + digits[:, 3]
    month, day, hour, minute, second = (
        digits[:, at] * 10 + digits[:, at + 1] for at in (4, 6, 8, 10, 12)
    )
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    in_range = (year >= 1970) & (year < 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    days_of_month = _MONTH_DAYS[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    in_range &= (day <= days_of_month) & (hour < 24) & (minute < 60) & (second <= 60)
    # Days since 1970 as in H. Hinnant, "chrono-compatible low-level date algorithms"
    shifted = year - (month <= 2)
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    seconds = days.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second
    return np.where(in_range, seconds.astype(np.float64), np.nan)


def _other_moment(text: bytes) -> tuple[float, bool, bool]:
    """Return seconds, whether they are local, and whether the text is no time."""
    stripped = text.strip()
    if stripped.isdigit() and len(stripped) <= 12:
        seconds = int(stripped)
        return (float(seconds), False, False) if seconds < _LATEST_UNIX_S else (np.nan, False, True)
    if stripped.lower() in UNKNOWN_TIMES:
        return np.nan, False, False
    try:
        moment = datetime.fromisoformat(stripped.decode("ascii"))
        is_local = moment.tzinfo is None
        since = moment - _EPOCH if is_local else moment - _EPOCH.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return np.nan, False, True
    seconds_since = since.total_seconds()
    is_bad = not 0 <= seconds_since < _LATEST_UNIX_S or len(stripped) < len("2024-03-31T02:30")
    return (np.nan, False, True) if is_bad else (seconds_since, is_local, False)


_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class UnixTimes:
    """Unix times of a column; two where the wall clock showed the same time twice.

    Attributes:
        early_s, late_s: float64 [n], equal except in the hour in which summer time ends.
        n_skipped: times in the hour that is skipped when summer time begins.
    """

    early_s: FloatColumn
    late_s: FloatColumn
    n_skipped: int

    @classmethod
    def of(cls, moments: Moments, zone: ZoneInfo | None) -> Self:
        """Convert local times of a zone to Unix times; without a zone they stay as they are."""
        local = np.flatnonzero(moments.is_local)
        if zone is None or not len(local):
            return cls(moments.seconds, moments.seconds, 0)
        early_s, late_s = moments.seconds.copy(), moments.seconds.copy()
        local_s = moments.seconds[local]
        steps, which = np.unique(np.floor(local_s / QUARTER_S), return_inverse=True)
        offsets = np.array([_offsets_s(step * QUARTER_S, zone) for step in steps.tolist()])[which]
        is_skipped = offsets[:, 0] < offsets[:, 1]
        early_s[local] = local_s - offsets[:, 0]
        late_s[local] = local_s - np.where(is_skipped, offsets[:, 0], offsets[:, 1])
        return cls(early_s, late_s, int(is_skipped.sum()))

    @property
    def is_ambiguous(self) -> Rows:
        """Return where the wall clock showed the same time twice, bool [n]."""
        return self.late_s > self.early_s

    def from_(self, least_s: FloatColumn) -> FloatColumn:
        """Return the earlier times, but the later ones where the earlier come before `least_s`."""
        return np.where(self.early_s < least_s, self.late_s, self.early_s)


def _offsets_s(local_s: float, zone: ZoneInfo) -> tuple[float, float]:
    """Return the offsets from UTC of a local time, before and after a change of the clock."""
    moment = (_EPOCH + timedelta(seconds=local_s)).replace(tzinfo=zone)
    both = (moment.utcoffset(), moment.replace(fold=1).utcoffset())
    first, second = (0.0 if offset is None else offset.total_seconds() for offset in both)
    return first, second


def clock_durations_s(column: TextColumn) -> FloatColumn:
    """Parse a column of durations ``hours:minutes:seconds`` of two digits each; NaN for others."""
    chars = column.chars(_CLOCK_WIDTH)
    digits = chars[:, _CLOCK_DIGITS] - _ZERO
    is_clock = (column.lengths == _CLOCK_WIDTH) & (digits <= 9).all(axis=1)
    is_clock &= (chars[:, 2] == ord(":")) & (chars[:, 5] == ord(":"))
    seconds = digits.astype(np.float64) @ _CLOCK_SECONDS
    return np.where(is_clock, seconds, np.nan)


def duration_s(text: bytes) -> float:
    """Parse ``[days-][hours:]minutes:seconds`` or ``days-hours[:minutes]``; else NaN.

    >>> duration_s(b"1-02:03:04"), duration_s(b"03:04"), duration_s(b"1-12"), duration_s(b"soon")
    (93784.0, 184.0, 129600.0, nan)
    """
    match = _ELAPSED.fullmatch(text)
    if match is None:
        match = _DAYS_HOURS.fullmatch(text)
        return np.nan if match is None else int(match[1]) * 86_400.0 + int(match[2]) * 3600.0
    if match[1] and not match[2]:
        return int(match[1]) * 86_400.0 + int(match[3]) * 3600.0 + int(match[4]) * 60.0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds
