"""The wall clock of a log: the weekday and the hour at which jobs were submitted on its site."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import WorkloadError, quoted_text
from sim.model.workload import FloatColumn, Workload

DAY_S, WEEK_S = 86400.0, 604800.0
_WEEK_H = 7 * 24
MONDAY_S = 4 * DAY_S  # First Monday of a wall clock that counts from 1 January 1970, a Thursday

STEP_S = 900.0  # Since 1972 wall clocks everywhere change only on a quarter of an hour of UTC

LATEST_UNIX_S = 253_370_764_800.0  # 1 January 9999; Python's calendar ends soon after that

Basis = Literal["local", "utc", "unknown"]


@dataclass(frozen=True)
class WallClock:
    """Conversion of submission times to times of day.

    Attributes:
        basis: ``local`` if the time zone of the log is known, ``utc`` if only its start is known,
            ``unknown`` otherwise: then days count from the first submission.
        start_unix_s: Unix time of the first submission; None if the basis is ``unknown``.
        zone: name of the time zone; None if the basis is ``unknown``.
        sentence: the same as text for people.
    """

    basis: Basis
    start_unix_s: float | None
    zone: str | None
    sentence: str

    @classmethod
    def of(cls, workload: Workload, time_zone: str | None = None) -> "WallClock":
        """Return the wall clock for a workload log, from its start time and time zone.

        Args:
            workload: workload with its start and time zone, as far as known.
            time_zone: time zone from the analyst, such as ``Europe/Paris``; it overrides that of
                the log.

        Raises:
            WorkloadError: the analyst's time zone is unknown here. An unknown time zone of the log
                is reported in `sentence`, and UTC is used.
        """
        if time_zone is not None and _zone(time_zone) is None:
            raise WorkloadError(
                f"time zone {quoted_text(time_zone)} is unknown on this machine; give a name such "
                "as 'UTC' or 'Europe/Paris'."
            )
        start_s = workload.start_unix_s
        if start_s is None:
            sentence = "The start of the log is unknown: days count from the first submission."
            return cls("unknown", None, None, sentence)
        if not 0 <= start_s <= start_s + workload.span_s < LATEST_UNIX_S:
            sentence = "The dates of the log are in no calendar: days count from its first job."
            return cls("unknown", None, None, sentence)
        if time_zone is not None:
            return cls("local", start_s, time_zone, f"Times are those of {time_zone}, as given.")
        log_zone = workload.time_zone
        if log_zone is None:
            sentence = "The log does not name its time zone, so the hours are those of UTC."
            return cls("utc", start_s, "UTC", sentence)
        if _zone(log_zone) is None:
            sentence = (
                f"The log's time zone, {log_zone}, is not known on this machine, so the hours are "
                "those of UTC."
            )
            return cls("utc", start_s, "UTC", sentence)
        zone_in_log = all(note.rule != "time_zone" for note in workload.notes)
        source = "from the log" if zone_in_log else "as chosen; the log names no time zone"
        return cls("local", start_s, log_zone, f"Times are those of {log_zone}, {source}.")

    def local_s(self, submit_s: FloatColumn) -> FloatColumn:
        """Return local times, in seconds since 1 January 1970 local time: float64 [n_jobs].

        The result is `submit_s`, seconds since the first submission, if the basis is ``unknown``.
        """
        if self.start_unix_s is None or self.zone is None:
            return submit_s
        unix_s = submit_s + self.start_unix_s
        zone = ZoneInfo(self.zone)
        steps, which = np.unique(np.floor(unix_s / STEP_S), return_inverse=True)
        offsets_s = [_offset_s(float(step) * STEP_S, zone) for step in steps]
        return unix_s + np.array(offsets_s, dtype=np.float64)[which]

    def hours(self, submit_s: FloatColumn) -> NDArray[np.int64]:
        """Count submissions by weekday and hour: int64 [7, 24] from Monday, midnight.

        `submit_s` is float64 [n_jobs], seconds since the first submission. If the basis is
        ``unknown``, the first row is the day that begins with the first submission.
        """
        counts = np.bincount(self._hour_numbers(submit_s) % _WEEK_H, minlength=_WEEK_H)
        return counts.reshape(7, 24).astype(np.int64)

    def covered_hours(self, submit_s: FloatColumn) -> NDArray[np.bool_]:
        """Return which hours of the week lie between the first and the last submission.

        Returns:
            bool [7, 24], as in `hours`; all of them for a week or more.
        """
        numbers = self._hour_numbers(submit_s)
        covered = np.zeros(_WEEK_H, dtype=np.bool_)
        if len(numbers):
            first, last = int(numbers.min()), int(numbers.max())
            covered[np.arange(first, min(last, first + _WEEK_H - 1) + 1) % _WEEK_H] = True
        return covered.reshape(7, 24)

    def _hour_numbers(self, submit_s: FloatColumn) -> NDArray[np.int64]:
        """Return the hour of each submission, counted from a Monday, midnight: int64 [n_jobs]."""
        shown_s = self.local_s(submit_s)
        since_s = shown_s if self.basis == "unknown" else shown_s - MONDAY_S
        return np.floor(since_s / 3600.0).astype(np.int64)

    def submit_s_of(self, moment: datetime) -> float:
        """Convert a local time without zone to seconds since the first submission.

        Raises:
            WorkloadError: the basis is ``unknown``.
        """
        if self.start_unix_s is None or self.zone is None:
            raise WorkloadError(f"{moment} is not a time of this log. {self.sentence}")
        return moment.replace(tzinfo=ZoneInfo(self.zone)).timestamp() - self.start_unix_s


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # unknown, no name at all, or a folder of names
        return None


def _offset_s(unix_s: float, zone: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(unix_s, UTC).astimezone(zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
