"""The wall clock of a log: its header, weekdays and hours, against Python's own datetime."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Workload
from sim.formats.swf import read_swf, write_swf
from sim.metrics.wall_clock import WallClock
from sim.model.errors import WorkloadError
from tests.draw import real_logs

ROW = "{0} {1} -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n"
ZONES = (
    "Europe/Paris", "US/Pacific", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC",
    "Africa/Casablanca", "Pacific/Apia",
)  # fmt: skip


def jobs(
    submit_s: list[float], start_unix_s: float | None = 0.0, zone: str | None = None
) -> Workload:
    n_jobs = len(submit_s)
    return Workload.from_arrays(
        submit_s=submit_s, runtime_s=[1] * n_jobs, procs=[1] * n_jobs,
        start_unix_s=start_unix_s, time_zone=zone, name="log",
    )  # fmt: skip


@given(
    st.integers(315532800, 4102444800),
    st.lists(st.integers(0, 400 * 86400), min_size=1, max_size=40),
    st.sampled_from(ZONES),
)
def test_weekdays_and_hours_are_those_of_datetime(
    start_s: int, later_s: list[int], zone: str
) -> None:
    workload = jobs(sorted(later_s), start_s, zone)
    clock = WallClock.of(workload)
    told = clock.hours(workload.submit_s)
    moments = [datetime.fromtimestamp(start_s + s, ZoneInfo(zone)) for s in workload.submit_s]
    expected = Counter((m.weekday(), m.hour) for m in moments)
    assert {(d, h): int(told[d, h]) for d, h in np.argwhere(told)} == expected
    shown = [m.replace(tzinfo=UTC).timestamp() for m in moments]
    assert clock.local_s(workload.submit_s).tolist() == shown


def test_a_change_to_summer_time_is_seen_to_the_second() -> None:
    # Europe/Paris went from 02:00 to 03:00 on Sunday 27 March 2011, at 01:00 UTC.
    before = datetime(2011, 3, 27, 0, 59, 59, tzinfo=UTC).timestamp()
    workload = jobs([0.0, 0.75, 1.0], before, "Europe/Paris")
    told = WallClock.of(workload).hours(workload.submit_s)
    assert (told[6, 1], told[6, 2], told[6, 3]) == (2, 0, 1)


def test_without_a_zone_the_hours_are_utc_and_it_is_said() -> None:
    clock = WallClock.of(jobs([0.0], 1296571124.0))
    assert (clock.basis, clock.zone) == ("utc", "UTC")
    assert clock.sentence == "The log does not name its time zone, so the hours are those of UTC."
    assert clock.hours(np.zeros(1))[1, 14] == 1  # Tuesday, 1 February 2011, 14:38:44 UTC


def test_a_zone_that_is_unknown_here_is_told_and_utc_taken() -> None:
    clock = WallClock.of(jobs([0.0], 0.0, "Mars/Olympus"))
    assert (clock.basis, clock.zone) == ("utc", "UTC")
    assert "Mars/Olympus, is not known on this machine" in clock.sentence


def test_without_a_start_days_count_from_the_first_submission() -> None:
    workload = jobs([0.0, 3599.0, 3600.0, 86400.0, 7 * 86400.0], None, "Europe/Paris")
    clock = WallClock.of(workload)
    assert (clock.basis, clock.zone) == ("unknown", None)
    told = clock.hours(workload.submit_s)
    assert (told[0, 0], told[0, 1], told[1, 0]) == (3, 1, 1)
    with pytest.raises(WorkloadError, match="The start of the log is unknown"):
        clock.submit_s_of(datetime(2020, 1, 1))


@pytest.mark.parametrize("start_s", [-1.0, 1e13, float("nan")])
def test_a_log_outside_of_the_calendar_has_no_hours(start_s: float) -> None:
    assert WallClock.of(jobs([0.0], start_s)).basis == "unknown"


def test_an_analyst_knows_better_than_the_log() -> None:
    workload = jobs([0.0], 0.0, "Europe/Paris")
    assert WallClock.of(workload, "UTC").hours(np.zeros(1))[3, 0] == 1
    for name in ("Mars", "", "../etc/passwd", "Europe", "a\0b"):
        with pytest.raises(WorkloadError, match="is unknown on this machine; give a name such as"):
            WallClock.of(workload, name)


def test_a_time_of_day_is_found_on_the_clock_again() -> None:
    clock = WallClock.of(jobs([0.0], 1296571124.0, "Europe/Paris"))
    assert clock.submit_s_of(datetime(2011, 2, 1, 15, 38, 44)) == 0.0
    assert clock.submit_s_of(datetime(2011, 7, 1)) - clock.submit_s_of(datetime(2011, 2, 1)) == (
        150 * 86400 - 3600
    )


@pytest.mark.parametrize(
    ("header", "zone", "noted"),
    [
        ("; TimeZoneString: Europe/Paris\n", "Europe/Paris", ""),
        ("; TimeZone: 3600\n", None, ""),
        ("; TimeZoneString: -1\n", None, ""),
        ("; TimeZoneString:\n", None, "the header's TimeZoneString is unclear ('')"),
        ("; TimeZoneString: ../../etc\n", None, "the header's TimeZoneString is unclear"),
        ("; TimeZoneString: UTC\n; TimeZoneString: EST\n", None, "('EST', 'UTC')"),
    ],
)
def test_the_header_names_the_zone(
    tmp_path: Path, header: str, zone: str | None, noted: str
) -> None:
    path = tmp_path / "one.swf"
    path.write_text(f"; MaxProcs: 4\n{header}{ROW.format(1, 0)}")
    workload = read_swf(path)
    assert workload.time_zone == zone
    sentences = [note.sentence for note in workload.notes]
    assert any(noted in sentence for sentence in sentences) if noted else not sentences


def test_a_zone_survives_writing(tmp_path: Path) -> None:
    write_swf(jobs([0.0], 12.0, "Asia/Tokyo"), tmp_path / "one.swf")
    assert read_swf(tmp_path / "one.swf").time_zone == "Asia/Tokyo"


# Each header says twice when its log starts: as Unix time, and in words by a clock on the wall.
STARTS = {
    "LLNL-Atlas-2006-2.1-cln": ("US/Pacific", 1163199901, "Fri Nov 10 15:05:01 2006"),
    "NASA-iPSC-1993-3.1-cln": ("US/Pacific", 749458803, "Fri Oct 01 00:00:03 1993"),
    "alea-hpc2n-subset": ("Europe/Stockholm", 1027839845, "Sun Jul 28 09:04:05 2002"),
}


@pytest.mark.parametrize("name", STARTS)
def test_real_logs_begin_when_their_headers_say(shared_data: Path, name: str) -> None:
    zone, unix_s, start = STARTS[name]
    workload = real_logs.read(shared_data, name)
    assert workload.time_zone == zone
    clock = WallClock.of(workload)
    assert clock.start_unix_s is not None
    since_first_s = clock.submit_s_of(datetime.strptime(start, "%a %b %d %H:%M:%S %Y"))
    assert clock.start_unix_s + since_first_s == unix_s
