"""Looking at a job log: what is told of it, and the charts, which must compile."""

import csv
import datetime
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import vl_convert

from assistant.core.errors import ApplicationError
from assistant.presentation.charts import workload as specs
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.text.number_format import cell
from assistant.simtools.workload_log import (
    BUILT_IN_SEED,
    built_in,
    days_of,
    highlights,
    log_profile,
    percentiles,
    profile_csv,
    read_log,
    read_upload,
    reading_alternatives,
    reading_choices,
    share,
    size_classes,
    summary,
    time_classes,
    window_of_days,
)
from sim.api import SimError
from sim.metrics.workload_profile import ProfileWindow
from sim.model.workload import Workload

LOG = """; MaxProcs: 8
; UnixStartTime: 376200
; TimeZoneString: UTC
1 0 -1 3600 1 -1 -1 1 3600 -1 1 7 1 -1 1 -1 -1 -1
2 0 10 60 4 -1 -1 4 600 -1 1 7 1 -1 1 -1 -1 -1
3 1800 -1 1 3 -1 -1 3 60 -1 1 9 1 -1 1 -1 -1 -1
4 7200 -1 100 8 -1 -1 8 50 -1 1 -1 1 -1 1 -1 -1 -1
5 86400 -1 7200 2 -1 -1 2 14400 -1 1 9 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Workload:
    path = tmp_path / "tiny.swf"
    path.write_text(LOG)
    return read_log(path)


def test_what_stands_out(log: Workload) -> None:
    # Monday 5 January 1970, 8:30; the work is 3,600 + 240 + 3 + 800 + 14,400 processor-seconds.
    told = " | ".join(highlights(log_profile(log, ProfileWindow())))
    assert told == (
        "The jobs would keep 2.8 % of 8 processors busy (offered load 0.028); the busiest hour "
        "brought 0.5 times the capacity. | "
        "The busiest hour of the week is Monday from 8 to 9 (40 % of the jobs); weekends bring "
        "0 %. Times are those of UTC, from the log. | "
        "20 % of the jobs are serial and do 19 % of the work; 80 % take a power of two of "
        "processors. | "
        "Half of the jobs run for up to 1 min 40 s, one in a hundred for more than 1 h 58 min. | "
        "Half of the jobs request 2 times their run time or more; 20 % run longer than "
        "requested. | "
        "Times between submissions vary 1.5 times as much as those of a Poisson process; 25 % are "
        "0 s. | "
        "The user with the most work, of 2, did 79 % of it (Gini coefficient 0.29)."
    )


def test_what_is_unknown_is_said() -> None:
    jobs = Workload.from_arrays(submit_s=[0], runtime_s=[0], procs=[2])
    told = highlights(log_profile(jobs, ProfileWindow()))
    assert told[0] == "The log does not state its number of processors, so its load is unknown."
    assert "start of the log is unknown" in told[1]
    assert told[2] == "0 % of the jobs are serial; 100 % take a power of two of processors."
    assert "No requested times are known" in " ".join(told)
    assert told[-1] == "The log does not name users."
    assert "one instant" in highlights(log_profile(jobs, ProfileWindow(), procs=4))[0]
    assert summary(log_profile(jobs, ProfileWindow()))["offered load"] == "unknown"


def test_the_tables_of_a_log(log: Workload) -> None:
    seen = log_profile(log, ProfileWindow())
    rows = {row.name: row for row in percentiles(seen)}
    assert rows["work"].summary.most == 4.0
    assert rows["work"].unit == "processor-h"
    assert rows["logged wait"].summary.mean == 10.0
    assert time_classes(seen)[:4] == ("≤ 1 s", "≤ 10 s", "≤ 1 min", "≤ 10 min")
    assert time_classes(seen)[-2:] == ("≤ 4 d", "> 4 d")
    assert size_classes(seen) == ("1", "2", "≤ 4", "≤ 8")
    assert summary(seen)["jobs"] == "5"


def test_the_csv_holds_every_number_and_no_formula(log: Workload) -> None:
    named = replace(log, name="=HYPERLINK(1)")
    rows = list(csv.DictReader(io.StringIO(profile_csv(log_profile(named, ProfileWindow())))))
    told = {(row["part"], row["name"]): row["value"] for row in rows}
    assert len(told) == len(rows)
    assert told["log", "jobs"] == "5"
    assert told["log", "name"] == cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    hours = [int(v) for (part, name), v in told.items() if part == "arrivals" and " h" in name]
    assert (len(hours), sum(hours), told["arrivals", "Mon 08 h"]) == (25, 5, "2")
    assert told["load", "1970-01-05 08:00 offered"] == "3840.0"
    unknown = profile_csv(log_profile(Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1]),
                               ProfileWindow()))  # fmt: skip
    assert "log,processors,,\n" in unknown
    assert "arrivals,day 1 00 h,1,jobs\n" in unknown


def test_a_window_of_whole_days(log: Workload) -> None:
    monday, tuesday = datetime.date(1970, 1, 5), datetime.date(1970, 1, 6)
    assert days_of(log) == (monday, tuesday)
    assert log_profile(log, window_of_days(log, monday, monday)).described.n_jobs == 4
    assert log_profile(log, window_of_days(log, tuesday, tuesday)).described.n_jobs == 1
    assert log_profile(log, window_of_days(log, monday, tuesday)).described.n_jobs == 5
    sunday = datetime.date(1970, 1, 4)
    assert days_of(log, "Etc/GMT+12") == (sunday, monday)  # 12 hours behind UTC
    assert log_profile(log, window_of_days(log, sunday, sunday, "Etc/GMT+12")).described.n_jobs == 4
    undated = replace(log, start_unix_s=None)
    assert days_of(undated) is None
    with pytest.raises(ApplicationError, match="tiny has no dates"):
        window_of_days(undated, monday, monday)


def test_an_upload_is_read_under_its_own_name() -> None:
    assert read_upload("../my log.swf", LOG.encode()).name == "my_log"
    with pytest.raises(SimError, match=r"^x\.swf, line 2: ") as caught:
        read_upload("x.swf", b"; MaxProcs: 8\n1 2\n")
    assert reading_alternatives(caught.value) == ()


def test_a_refusal_names_its_ways_out() -> None:
    twice = 2 * "1 0 -1 3 1 -1 -1 1 3 -1 1 7 1 -1 1 -1 -1 -1\n"
    with pytest.raises(SimError) as caught:
        read_upload("x.swf", twice.encode())
    assert reading_alternatives(caught.value) == (("duplicate_ids", "renumber"),)
    assert read_upload("x.swf", twice.encode(), {"duplicate_ids": "renumber"}).n_jobs == 2
    assert ("duplicate_ids", "renumber") in reading_choices()
    assert reading_alternatives(ValueError("duplicate_ids='refuse' nothing='x'")) == ()


def test_the_built_in_log_is_that_of_a_sweep_with_its_seed() -> None:
    from assistant.config.sweep_file import build_sweep, check_settings

    tables = {"runs": 3, "seed": BUILT_IN_SEED, "application": {"kind": "scheduling"}}
    built = build_sweep(check_settings(tables, "test"))
    assert built.application.workload == built_in()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(994, 1000, "99.4 %"), (5, 1000, "0.5 %"), (9.94, 100, "9.9 %"), (9.96, 100, "10 %"),
     (1, 1, "100 %"), (0, 0, "unknown")],
)  # fmt: skip
def test_shares(part: float, whole: float, words: str) -> None:
    assert share(part, whole) == words


def svg(spec: Spec) -> str:
    return str(vl_convert.vegalite_to_svg(spec))


NAMES = ("≤ 1 s", "≤ 10 s", "> 10 s")
CLASSES = (
    specs.ClassShare("1", 0.5, 0.1, 0.5), specs.ClassShare("2", 0.0, 0.0, 0.0),
    specs.ClassShare("≤ 4", 0.5, 0.9, 0.25),
)  # fmt: skip
POINTS = (
    specs.LoadPoint(0.0, 3600.0, "first", 1, 2.5, 0.5),
    specs.LoadPoint(3600.0, 7200.0, "second", 0, 0.0, 0.25),
)
DRAWN: dict[str, tuple[Callable[[], Spec], tuple[str, ...]]] = {
    "hours": (
        lambda: specs.hours_of_the_week([[d * h for h in range(24)] for d in range(7)],
                                        [f"d{d}" for d in range(7)], "hour (UTC)"),
        ("d6", "hour (UTC)", "bright is many"),
    ),
    "load, dated": (
        lambda: specs.load_over_time(POINTS, dated=True, stretch="hour", unit="load", full=True),
        ("all processors busy", "submitted in the hour", "running, if no job had waited"),
    ),
    "load, undated": (
        lambda: specs.load_over_time(
            POINTS[:1], dated=False, stretch="day", unit="processors", full=False),
        ("days since the first job", "processors"),
    ),
    "sizes": (lambda: specs.classes(CLASSES, "processors"), ("share of the work", "≤ 4")),
    "times": (
        lambda: specs.classes([replace(c, jobs_at=None) for c in CLASSES], "run time"),
        ("run time",),
    ),
    "curves": (
        lambda: specs.curves(
            {"one": ([0.0, 60.0, 90000.0], [0.1, 0.5, 1.0]), "two": ([7.0], [1.0])}, "run time",
            seconds=True),
        ("1 min", "1 d", "one", "two"),
    ),
    "one curve": (
        lambda: specs.curves({"": ([1.0, 64.0], [0.5, 1.0])}, "processors", seconds=False),
        ("processors", "64"),
    ),
    "no curve": (lambda: specs.curves({}, "processors", seconds=False), ()),
    "requests": (
        lambda: specs.requests([[1, 0, 0], [5, 100, 0], [0, 0, 0]], NAMES), ("requested time",),
    ),
    "used": (lambda: specs.used_shares(NAMES, [1, 2, 3]), ("used of the requested time",)),
    "users": (lambda: specs.users(CLASSES), ("share of the jobs",)),
    "no users": (lambda: specs.users(()), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_charts_compile(name: str) -> None:
    draw, words = DRAWN[name]
    drawn = svg(draw())
    for word in words:
        assert word in drawn


def test_the_bars_of_a_class_are_its_shares() -> None:
    rows = specs.classes(CLASSES, "processors")["data"]["values"]
    jobs = [(r["from"], r["to"]) for r in rows if r["kind"] == "share of the jobs"]
    assert jobs == [(0.0, 0.5), (0.5, 0.5), (0.0, 0.0), (0.0, 0.0), (0.0, 0.25), (0.25, 0.5)]
    work = [r["to"] for r in rows if r["kind"] == "share of the work"]
    assert work == [0.1, 0.0, 0.9]


def test_empty_cells_of_requests_stay_empty() -> None:
    rows = specs.requests([[1, 0, 0], [5, 100, 0], [0, 0, 0]], NAMES)["data"]["values"]
    assert {(r["asked"], r["ran"]): r["jobs"] for r in rows if r["jobs"]} == {
        (NAMES[0], NAMES[0]): 1, (NAMES[1], NAMES[0]): 5, (NAMES[1], NAMES[1]): 100,
    }  # fmt: skip
