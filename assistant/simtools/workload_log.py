"""Job logs before anything is simulated: read one, look at it, say what stands out.

The shells come to the profile of a workload through here, so that all of them tell the same.
"""

import csv
import datetime
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from assistant.core.errors import ApplicationError
from sim.api import (
    ColumnSummary,
    ProfileWindow,
    SimError,
    WallClock,
    Workload,
    WorkloadError,
    WorkloadProfile,
    default_workload,
    format_duration,
    load_workload,
    profile,
    rule_choices,
    rules_from_texts,
)

BUILT_IN_SEED = 3
"""The one that a new experiment starts with, so that both show the same jobs."""

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAYS_LONG = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_WAY_OUT = re.compile(r"(\w+)='(\w+)'")
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PercentileRow:
    """One row of the table of percentiles; values are in ``unit``."""

    name: str
    unit: str
    summary: ColumnSummary


@dataclass(frozen=True, slots=True)
class ProfileFigure:
    """One number of a profile, as a line of its CSV file; None is unknown."""

    part: str
    name: str
    value: float | str | None
    unit: str


def read_log(path: str | Path, reading: Mapping[str, str] | None = None) -> Workload:
    """Read a job log.

    Args:
        path: of the file.
        reading: rules other than the defaults, such as ``{"unsorted": "sort"}``.

    Raises:
        SimError: the reader's own sentence: file, line, field, value and what is allowed.
    """
    return load_workload(Path(path), rules=rules_from_texts(dict(reading or {})))


def read_upload(name: str, data: bytes, reading: Mapping[str, str] | None = None) -> Workload:
    """Read a job log that is no file here, under the name that it had elsewhere.

    Raises:
        SimError: as in `read_log`, with the name alone.
    """
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        path = Path(folder) / file_name(name)
        path.write_bytes(data)
        try:
            return read_log(path, reading)
        except SimError as error:
            raise WorkloadError(str(error).replace(f"{folder}/", "")) from error


def file_name(name: str) -> str:
    """Return a name that a file can have here, from one that it has elsewhere.

    >>> file_name("../my log.swf.gz"), file_name("..")
    ('my_log.swf.gz', 'log')
    """
    return re.sub(r"[^\w.+-]", "_", Path(name).name)[-100:].lstrip(".") or "log"


def built_in() -> Workload:
    """Return the workload of the built-in example."""
    return default_workload(BUILT_IN_SEED)


def reading_choices() -> tuple[tuple[str, str], ...]:
    """Return every reading rule with each choice that is not its default."""
    return tuple((rule, one) for rule, known in rule_choices().items() for one in known[1:])


def reading_alternatives(refused: Exception) -> tuple[tuple[str, str], ...]:
    """Return the rules that a reader's refusal names, each with the choice that lets it pass."""
    known = set(reading_choices())
    found = dict.fromkeys(_WAY_OUT.findall(str(refused)))
    return tuple((rule, choice) for rule, choice in found if (rule, choice) in known)


def log_profile(
    log: Workload, window: ProfileWindow, procs: int | None = None, time_zone: str | None = None
) -> WorkloadProfile:
    """Return the profile of the jobs of a log that are in a window; see `sim.api.profile`."""
    return profile(window.of(log), procs=procs, time_zone=time_zone)


def window_of_days(
    log: Workload, first: datetime.date, last: datetime.date, time_zone: str | None = None
) -> ProfileWindow:
    """Return the window of whole days by the log's own calendar, the last one included.

    Raises:
        ApplicationError: the log does not say when it starts.
    """
    clock, day = WallClock.of(log, time_zone), datetime.timedelta(days=1)
    if clock.zone is None:
        raise ApplicationError(f"{log.name} has no dates. {clock.sentence}")
    midnight = datetime.time()
    from_s = clock.submit_s_of(datetime.datetime.combine(first, midnight))
    to_s = clock.submit_s_of(datetime.datetime.combine(last + day, midnight))
    return ProfileWindow(from_s=max(from_s, 0.0), to_s=to_s)


def days_of(
    log: Workload, time_zone: str | None = None
) -> tuple[datetime.date, datetime.date] | None:
    """Return the days of the first and of the last submission; None if they are unknown."""
    clock = WallClock.of(log, time_zone)
    if clock.zone is None:
        return None
    first_s, last_s = clock.local_s(log.submit_s[[0, -1]]).tolist()
    return local_datetime(first_s).date(), local_datetime(last_s).date()


def local_datetime(shown_s: float) -> datetime.datetime:
    """Return what a wall clock shows, without a zone, from its seconds since 1 January 1970."""
    return _EPOCH + datetime.timedelta(seconds=shown_s)


def time_classes(seen: WorkloadProfile) -> tuple[str, ...]:
    """Name the classes of times by their ends; a class begins where the one before it ends."""
    ends = [_round_time(one.most_s) for one in seen.times if one.most_s is not None]
    return (*(f"≤ {end}" for end in ends), f"> {ends[-1]}")


def _round_time(seconds: float) -> str:
    size, unit = next(one for one in _UNITS if seconds >= one[0])
    return f"{seconds / size:g} {unit}"


def size_classes(seen: WorkloadProfile) -> tuple[str, ...]:
    """Name the classes of sizes by their ends; a class begins where the one before it ends."""
    return tuple(f"{'≤ ' if one.most > 2 else ''}{one.most:,}" for one in seen.sizes)


def percentiles(seen: WorkloadProfile) -> tuple[PercentileRow, ...]:
    """Return the rows of the table of percentiles, as far as they are known."""
    told = seen.described
    rows = (
        ("processors", "", told.procs),
        ("run time", "s", told.runtime_s),
        ("requested time", "s", told.requested_s),
        ("requested / run time", "", None if seen.requests is None else seen.requests.factor),
        ("between submissions", "s", told.interarrival_s),
        ("work", "processor-h", _in_hours(seen.work_of_jobs)),
        ("logged wait", "s", seen.logged_wait_s),
    )
    return tuple(PercentileRow(name, unit, one) for name, unit, one in rows if one is not None)


def _in_hours(told: ColumnSummary) -> ColumnSummary:
    quantiles = {q: value / 3600.0 for q, value in told.quantiles.items()}
    return ColumnSummary(told.mean / 3600.0, told.least / 3600.0, told.most / 3600.0, quantiles)


def highlights(seen: WorkloadProfile) -> tuple[str, ...]:
    """Say what stands out, a sentence each: load, hours, sizes, times, requests, users."""
    return tuple(sentence for sentence in _sentences(seen) if sentence)


def _sentences(seen: WorkloadProfile) -> Iterator[str]:
    told, n_jobs = seen.described, seen.described.n_jobs
    yield _load_words(seen)
    yield _hour_words(seen)
    part = f" and do {share(seen.serial_work_proc_s, seen.work_proc_s)} of the work"
    yield (
        f"{share(seen.n_serial, n_jobs)} of the jobs are serial{part if seen.work_proc_s else ''}; "
        f"{share(seen.n_power_of_two, n_jobs)} take a power of two of processors."
    )
    median, most = told.runtime_s.quantiles["0.5"], told.runtime_s.quantiles["0.99"]
    yield (
        f"Half of the jobs run for up to {format_duration(median)}, one in a hundred for more than "
        f"{format_duration(most)}."
    )
    if seen.requests is None:
        yield "No requested times are known, so nothing is known of how good they would be."
    else:
        factor = seen.requests.factor.quantiles["0.5"]
        yield (
            f"Half of the jobs ask for {factor:,.2g} times their run time or more; "
            f"{share(seen.requests.n_exceeded, seen.requests.n_jobs)} run longer than requested."
        )
    if seen.interarrival_cv is not None:
        yield (
            f"Times between submissions vary {seen.interarrival_cv:.2g} times as much as those of "
            f"a Poisson process; {share(seen.n_together, n_jobs - 1)} are 0 s."
        )
    yield _user_words(seen)


def _load_words(seen: WorkloadProfile) -> str:
    if seen.procs is None:
        return "The log does not say how many processors it ran on, so its load is unknown."
    if seen.offered_load is None:
        return "All jobs are submitted at one instant, so there is no load to tell."
    room = seen.procs * seen.load.width_s
    most = max(seen.load.bins, key=lambda one: one.offered_proc_s)
    n_above = sum(one.offered_proc_s > room for one in seen.load.bins)
    stretch = bin_word(seen.load.width_s)
    busiest = f"the busiest {stretch} brought {most.offered_proc_s / room:.2g} times what fits"
    above = f"; {n_above} of {len(seen.load.bins)} {stretch}s brought more than fits"
    return (
        f"The jobs would keep {share(seen.offered_load, 1.0)} of {seen.procs:,} processors busy "
        f"(offered load {seen.offered_load:.3f}); {busiest}{above if n_above else ''}."
    )


def _hour_words(seen: WorkloadProfile) -> str:
    counts, n_jobs = seen.arrivals.counts, seen.described.n_jobs
    day, hour = max(
        ((day, hour) for day in range(7) for hour in range(24)),
        key=lambda at: counts[at[0]][at[1]],
    )
    if seen.arrivals.basis == "unknown":
        return seen.arrivals.sentence
    weekend = sum(counts[5]) + sum(counts[6])
    return (
        f"The busiest hour of the week is {DAYS_LONG[day]} from {hour} to {hour + 1} "
        f"({share(counts[day][hour], n_jobs)} of the jobs); weekends bring "
        f"{share(weekend, n_jobs)}. "
        f"{seen.arrivals.sentence}"
    )


def _user_words(seen: WorkloadProfile) -> str:
    users = seen.users
    if users is None:
        return "The log does not tell users."
    if users.n_users == 1:
        return "All jobs are of one user."
    if users.tenth_share is None or users.gini is None:
        return ""
    n_top = -(-users.n_users // 10)
    who = "The user" if n_top == 1 else f"The {n_top:,} users"
    return (
        f"{who} with the most work, of {users.n_users:,}, did {share(users.tenth_share, 1.0)} of "
        f"it (Gini coefficient {users.gini:.2f})."
    )


def bin_word(width_s: float) -> str:
    """Name a width of the load over time: hour, day, week, or stretch of so many weeks."""
    names = {3600.0: "hour", 86400.0: "day", 604800.0: "week"}
    return names.get(width_s) or f"stretch of {width_s / 604800.0:,.0f} weeks"


def share(part: float, whole: float) -> str:
    """Return a share in per cent.

    >>> share(1, 8), share(1, 1000), share(0, 5), share(5, 0), share(999, 1000), share(1, 10**5)
    ('12 %', '0.1 %', '0 %', 'unknown', '99.9 %', 'below 0.1 %')
    """
    if not whole:
        return "unknown"
    percent = 100.0 * part / whole
    if 0 < percent < 0.05:
        return "below 0.1 %"
    near_an_end = 0 < percent < 9.95 or 99 < percent < 100
    return f"{percent:.1f} %".replace(".0 %", " %") if near_an_end else f"{percent:,.0f} %"


def summary(seen: WorkloadProfile) -> dict[str, str]:
    """Return the figures by which two logs are compared first, as words, by their names."""
    told, requests, users = seen.described, seen.requests, seen.users
    factor = None if requests is None else requests.factor.quantiles["0.5"]
    tenth = None if users is None else users.tenth_share
    unknown = "unknown"
    return {
        "jobs": f"{told.n_jobs:,}",
        "users": unknown if told.n_users is None else f"{told.n_users:,}",
        "span": format_duration(told.span_s),
        "processors": unknown if seen.procs is None else f"{seen.procs:,}",
        "offered load": unknown if seen.offered_load is None else f"{seen.offered_load:.3f}",
        "widest job": f"{told.widest_procs:,} processors",
        "serial jobs": share(seen.n_serial, told.n_jobs),
        "jobs of a power of two": share(seen.n_power_of_two, told.n_jobs),
        "median run time": format_duration(told.runtime_s.quantiles["0.5"]),
        "99 % run for up to": format_duration(told.runtime_s.quantiles["0.99"]),
        "median of requested / run time": unknown if factor is None else f"{factor:,.2g}",
        "work of the top tenth of users": unknown if tenth is None else share(tenth, 1.0),
    }


def figures(seen: WorkloadProfile) -> Iterator[ProfileFigure]:
    """Yield every number of a profile, a line each."""
    told = seen.described
    yield ProfileFigure("log", "name", told.name, "")
    yield ProfileFigure("log", "digest", told.digest, "")
    for name, value, unit in (
        ("jobs", told.n_jobs, ""), ("users", told.n_users, ""), ("span", told.span_s, "s"),
        ("processors", seen.procs, ""), ("widest job", told.widest_procs, "processors"),
        ("work", seen.work_proc_s, "processor-s"), ("offered load", seen.offered_load, ""),
        ("serial jobs", seen.n_serial, ""),
        ("work of serial jobs", seen.serial_work_proc_s, "processor-s"),
        ("jobs of a power of two", seen.n_power_of_two, ""),
        ("jobs submitted with the one before", seen.n_together, ""),
        ("variation between submissions", seen.interarrival_cv, ""),
    ):  # fmt: skip
        yield ProfileFigure("log", name, value, unit)
    for row in percentiles(seen):
        for name, value in _named(row.summary):
            yield ProfileFigure(row.name, name, value, row.unit)
    yield ProfileFigure("arrivals", "hours are those of", seen.arrivals.zone or "no calendar", "")
    dated = seen.arrivals.basis != "unknown"
    for day, counts in enumerate(seen.arrivals.counts):
        named = DAYS[day] if dated else f"day {day + 1}"
        for hour, n_jobs in enumerate(counts):
            yield ProfileFigure("arrivals", f"{named} {hour:02d} h", n_jobs, "jobs")
    for one in seen.load.bins:
        at = bin_begin(seen, one.start_s)
        yield ProfileFigure("load", f"{at} jobs", one.n_jobs, "jobs")
        yield ProfileFigure("load", f"{at} offered", one.offered_proc_s, "processor-s")
        yield ProfileFigure("load", f"{at} demand", one.demand_proc_s, "processor-s")
    for size in seen.sizes:
        yield ProfileFigure("sizes", f"up to {size.most}", size.n_jobs, "jobs")
        yield ProfileFigure("sizes", f"exactly {size.most}", size.n_at_most, "jobs")
        yield ProfileFigure("sizes", f"work up to {size.most}", size.work_proc_s, "processor-s")
    for name, time in zip(time_classes(seen), seen.times, strict=True):
        yield ProfileFigure("run times", name, time.n_jobs, "jobs")
        yield ProfileFigure("run times", f"work {name}", time.work_proc_s, "processor-s")
    yield from _request_figures(seen)
    if seen.users is not None:
        yield ProfileFigure("users", "share of the top tenth", seen.users.tenth_share, "")
        yield ProfileFigure("users", "Gini coefficient", seen.users.gini, "")
        for user in seen.users.top:
            yield ProfileFigure("users", f"jobs of user {user.user}", user.n_jobs, "jobs")
            yield ProfileFigure(
                "users", f"work of user {user.user}", user.work_proc_s, "processor-s"
            )


def _request_figures(seen: WorkloadProfile) -> Iterator[ProfileFigure]:
    if seen.requests is None:
        return
    yield ProfileFigure("requests", "compared", seen.requests.n_jobs, "jobs")
    yield ProfileFigure("requests", "not compared", seen.requests.n_left_out, "jobs")
    yield ProfileFigure("requests", "ran longer", seen.requests.n_exceeded, "jobs")
    for tenth, n_jobs in enumerate(seen.requests.used, 1):
        yield ProfileFigure("requests", f"used up to {10 * tenth} %", n_jobs, "jobs")


def _named(summary: ColumnSummary) -> Iterator[tuple[str, float]]:
    yield "mean", summary.mean
    yield "least", summary.least
    for quantile, value in summary.quantiles.items():
        yield f"p{100 * float(quantile):g}", value
    yield "most", summary.most


def bin_begin(seen: WorkloadProfile, start_s: float) -> str:
    """Name the begin of a bin: a date and time, or what has passed since the first submission."""
    if seen.load.first_local_s is None:
        return f"{start_s / 3600.0:,.0f} h"
    return f"{local_datetime(seen.load.first_local_s + start_s):%Y-%m-%d %H:%M}"


def profile_csv(seen: WorkloadProfile) -> str:
    """Return a profile as CSV: part, name, value, unit; a cell that is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["part", "name", "value", "unit"])
    for one in figures(seen):
        value = "" if one.value is None else one.value
        # a name of a file could be taken for a formula by a spreadsheet
        safe = (
            f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
        )
        writer.writerow([one.part, one.name, safe, one.unit])
    return text.getvalue()
