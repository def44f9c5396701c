"""Tools for job logs: reading, statistical profile, and sentences on notable properties."""

import csv
import datetime
import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assistant.core.errors import ApplicationError
from sim.api import (
    ProfileWindow,
    SimError,
    Workload,
    WorkloadError,
    format_duration,
    load_workload,
    profile,
)
from sim.formats import rule_choices, rules_from_texts
from sim.generators import default_workload
from sim.metrics import ColumnSummary, WallClock, WorkloadProfile

BUILT_IN_SEED = 3  # Seed of the built-in workload, the same as in a new experiment

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAYS_LONG = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_WAY_OUT = re.compile(r"(\w+)='(\w+)'")
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PercentileRow:
    """One row of a table of percentiles, with values in ``unit``."""

    name: str
    unit: str
    summary: ColumnSummary


@dataclass(frozen=True, slots=True)
class ProfileFigure:
    """One statistic of a workload profile, as a row of its CSV file (None if unknown)."""

    part: str
    name: str
    value: float | str | None
    unit: str


def read_log(path: str | Path, reading: Mapping[str, str] | None = None) -> Workload:
    """Read a job log from a file.

    Args:
        path: file of the log.
        reading: reading rules that differ from the defaults, such as ``{"never_ran": "refuse"}``.

    Raises:
        SimError: the log is invalid; the message has file, line, field, value and what is allowed.
    """
    return load_workload(Path(path), rules=rules_from_texts(dict(reading or {})))


def reading_line(sentences: Sequence[str], where: str) -> str | None:
    """Return the first of the decisions on reading a log, and `where` the others are; None if none.

    >>> reading_line(["3 jobs never ran; dropped.", "a", "b"], "copperline workload describe LOG")
    'reading the log: 3 jobs never ran; dropped. (2 more: copperline workload describe LOG)'
    """
    if not sentences:
        return None
    more = f" ({len(sentences) - 1} more: {where})" if len(sentences) > 1 else ""
    return f"reading the log: {sentences[0]}{more}"


def read_upload(name: str, data: bytes, reading: Mapping[str, str] | None = None) -> Workload:
    """Read a job log from uploaded bytes under its original name. Raises SimError."""
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        path = Path(folder) / file_name(name)
        path.write_bytes(data)
        try:
            return read_log(path, reading)
        except SimError as error:
            raise WorkloadError(str(error).replace(f"{folder}/", "")) from error


def file_name(name: str) -> str:
    """Convert the name of an uploaded file to a safe file name.

    >>> file_name("../my log.swf.gz"), file_name("..")
    ('my_log.swf.gz', 'log')
    """
    return re.sub(r"[^\w.+-]", "_", Path(name).name)[-100:].lstrip(".") or "log"


def built_in() -> Workload:
    """Return the workload of the built-in example log."""
    return default_workload(BUILT_IN_SEED)


def reading_choices() -> tuple[tuple[str, str], ...]:
    """Return pairs (rule, choice): all choices of log reading rules except the defaults."""
    return tuple(
        (rule, choice) for rule, choices in rule_choices().items() for choice in choices[1:]
    )


def reading_alternatives(refused: Exception) -> tuple[tuple[str, str], ...]:
    """Return the pairs (rule, choice) that the text of a reading error suggests as remedy."""
    available = set(reading_choices())
    mentioned = dict.fromkeys(_WAY_OUT.findall(str(refused)))
    return tuple((rule, choice) for rule, choice in mentioned if (rule, choice) in available)


def log_profile(
    log: Workload, window: ProfileWindow, procs: int | None = None, time_zone: str | None = None
) -> WorkloadProfile:
    """Compute the workload profile of the jobs of a log in a window."""
    return profile(window.of(log), procs=procs, time_zone=time_zone)


def window_of_days(
    log: Workload, first: datetime.date, last: datetime.date, time_zone: str | None = None
) -> ProfileWindow:
    """Return the time window from one local day through another. Raises ApplicationError."""
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
    """Return the local days of the first and the last submission, or None if unknown."""
    clock = WallClock.of(log, time_zone)
    if clock.zone is None:
        return None
    first_s, last_s = clock.local_s(log.submit_s[[0, -1]]).tolist()
    return local_datetime(first_s).date(), local_datetime(last_s).date()


def local_datetime(shown_s: float) -> datetime.datetime:
    """Convert local seconds since 1970-01-01 to a datetime without a time zone."""
    return _EPOCH + datetime.timedelta(seconds=shown_s)


def time_classes(profile: WorkloadProfile) -> tuple[str, ...]:
    """Return the names of the classes of durations, such as "<= 1 h"."""
    ends = [
        _round_time(time_class.most_s)
        for time_class in profile.times
        if time_class.most_s is not None
    ]
    return (*(f"≤ {end}" for end in ends), f"> {ends[-1]}")


def _round_time(seconds: float) -> str:
    size, unit = next(unit_entry for unit_entry in _UNITS if seconds >= unit_entry[0])
    return f"{seconds / size:g} {unit}"


def size_classes(profile: WorkloadProfile) -> tuple[str, ...]:
    """Return the names of the classes of job sizes by their largest number of processors."""
    return tuple(
        f"{'≤ ' if size_class.most > 2 else ''}{size_class.most:,}" for size_class in profile.sizes
    )


def percentiles(profile: WorkloadProfile) -> tuple[PercentileRow, ...]:
    """Return the percentile table of a profile, without rows whose values are unknown."""
    description = profile.described
    rows = (
        ("processors", "", description.procs),
        ("run time", "s", description.runtime_s),
        ("requested time", "s", description.requested_s),
        ("requested / run time", "", None if profile.requests is None else profile.requests.factor),
        ("between submissions", "s", description.interarrival_s),
        ("work", "processor-h", _in_hours(profile.work_of_jobs)),
        ("logged wait", "s", profile.logged_wait_s),
    )
    return tuple(
        PercentileRow(name, unit, summary) for name, unit, summary in rows if summary is not None
    )


def _in_hours(column: ColumnSummary) -> ColumnSummary:
    quantiles = {q: value / 3600.0 for q, value in column.quantiles.items()}
    return ColumnSummary(
        column.mean / 3600.0, column.least / 3600.0, column.most / 3600.0, quantiles
    )


def highlights(profile: WorkloadProfile) -> tuple[str, ...]:
    """Return sentences on notable load, hours, sizes, times, requests and users of a log."""
    return tuple(sentence for sentence in _sentences(profile) if sentence)


def _sentences(profile: WorkloadProfile) -> Iterator[str]:
    description, n_jobs = profile.described, profile.described.n_jobs
    yield _load_words(profile)
    yield _hour_words(profile)
    part = f" and do {share(profile.serial_work_proc_s, profile.work_proc_s)} of the work"
    yield (
        f"{share(profile.n_serial, n_jobs)} of the jobs are serial"
        f"{part if profile.work_proc_s else ''}; "
        f"{share(profile.n_power_of_two, n_jobs)} take a power of two of processors."
    )
    median, most = description.runtime_s.quantiles["0.5"], description.runtime_s.quantiles["0.99"]
    yield (
        f"Half of the jobs run for up to {format_duration(median)}, one in a hundred for more than "
        f"{format_duration(most)}."
    )
    if profile.requests is None:
        yield "No requested times are known, so their accuracy is unknown."
    else:
        factor = profile.requests.factor.quantiles["0.5"]
        yield (
            f"Half of the jobs request {factor:,.2g} times their run time or more; "
            f"{share(profile.requests.n_exceeded, profile.requests.n_jobs)} run longer than "
            "requested."
        )
    if profile.interarrival_cv is not None:
        yield (
            f"Times between submissions vary {profile.interarrival_cv:.2g} times as much as those "
            f"of a Poisson process; {share(profile.n_together, n_jobs - 1)} are 0 s."
        )
    yield _user_words(profile)


def _load_words(profile: WorkloadProfile) -> str:
    if profile.procs is None:
        return "The log does not state its number of processors, so its load is unknown."
    if profile.offered_load is None:
        return "All jobs are submitted at one instant, so the load is undefined."
    room = profile.procs * profile.load.width_s
    most = max(profile.load.bins, key=lambda load_bin: load_bin.offered_proc_s)
    n_above = sum(load_bin.offered_proc_s > room for load_bin in profile.load.bins)
    stretch = bin_word(profile.load.width_s)
    busiest = f"the busiest {stretch} brought {most.offered_proc_s / room:.2g} times the capacity"
    above = f"; {n_above} of {len(profile.load.bins)} {stretch}s exceeded it"
    return (
        f"The jobs would keep {share(profile.offered_load, 1.0)} of {profile.procs:,} processors "
        f"busy (offered load {profile.offered_load:.3f}); {busiest}{above if n_above else ''}."
    )


def _hour_words(profile: WorkloadProfile) -> str:
    counts, n_jobs = profile.arrivals.counts, profile.described.n_jobs
    day, hour = max(
        ((day, hour) for day in range(7) for hour in range(24)),
        key=lambda at: counts[at[0]][at[1]] or 0,
    )
    if profile.arrivals.basis == "unknown":
        return profile.arrivals.sentence
    weekend = sum(n or 0 for n in (*counts[5], *counts[6]))
    return (
        f"The busiest hour of the week is {DAYS_LONG[day]} from {hour} to {hour + 1} "
        f"({share(counts[day][hour] or 0, n_jobs)} of the jobs); weekends bring "
        f"{share(weekend, n_jobs)}. "
        f"{profile.arrivals.sentence}"
    )


def _user_words(profile: WorkloadProfile) -> str:
    users = profile.users
    if users is None:
        return "The log does not name users."
    if users.n_users == 1:
        return "All jobs are of one user."
    if users.tenth_share is None or users.gini is None:
        return ""
    n_top = -(-users.n_users // 10)
    subject = "The user" if n_top == 1 else f"The {n_top:,} users"
    return (
        f"{subject} with the most work, of {users.n_users:,}, did {share(users.tenth_share, 1.0)} "
        f"of it (Gini coefficient {users.gini:.2f})."
    )


def bin_word(width_s: float) -> str:
    """Return a word for a bin width in seconds: hour, day, week, or stretch of several weeks."""
    names = {3600.0: "hour", 86400.0: "day", 604800.0: "week"}
    return names.get(width_s) or f"stretch of {width_s / 604800.0:,.0f} weeks"


def share(part: float, total: float) -> str:
    """Format a part of a total as a percentage.

    >>> share(1, 8), share(1, 1000), share(0, 5), share(5, 0), share(999, 1000), share(1, 10**5)
    ('12 %', '0.1 %', '0 %', 'unknown', '99.9 %', 'below 0.1 %')
    """
    if not total:
        return "unknown"
    percent = 100.0 * part / total
    if 0 < percent < 0.05:
        return "below 0.1 %"
    near_an_end = 0 < percent < 9.95 or 99 < percent < 100
    return f"{percent:.1f} %".replace(".0 %", " %") if near_an_end else f"{percent:,.0f} %"


def summary(profile: WorkloadProfile) -> dict[str, str]:
    """Return the main statistics of a log as texts by name, for comparing logs."""
    description, requests, users = profile.described, profile.requests, profile.users
    factor = None if requests is None else requests.factor.quantiles["0.5"]
    tenth = None if users is None else users.tenth_share
    unknown = "unknown"
    return {
        "jobs": f"{description.n_jobs:,}",
        "users": unknown if description.n_users is None else f"{description.n_users:,}",
        "span": format_duration(description.span_s),
        "processors": unknown if profile.procs is None else f"{profile.procs:,}",
        "offered load": unknown if profile.offered_load is None else f"{profile.offered_load:.3f}",
        "widest job": f"{description.widest_procs:,} processors",
        "serial jobs": share(profile.n_serial, description.n_jobs),
        "jobs of a power of two": share(profile.n_power_of_two, description.n_jobs),
        "median run time": format_duration(description.runtime_s.quantiles["0.5"]),
        "99 % run for up to": format_duration(description.runtime_s.quantiles["0.99"]),
        "median of requested / run time": unknown if factor is None else f"{factor:,.2g}",
        "work of the top tenth of users": unknown if tenth is None else share(tenth, 1.0),
    }


def figures(profile: WorkloadProfile) -> Iterator[ProfileFigure]:
    """Yield every statistic of a workload profile, for its CSV file."""
    description = profile.described
    yield ProfileFigure("log", "name", description.name, "")
    yield ProfileFigure("log", "digest", description.digest, "")
    for name, value, unit in (
        ("jobs", description.n_jobs, ""), ("users", description.n_users, ""),
        ("span", description.span_s, "s"),
        ("processors", profile.procs, ""), ("widest job", description.widest_procs, "processors"),
        ("work", profile.work_proc_s, "processor-s"), ("offered load", profile.offered_load, ""),
        ("serial jobs", profile.n_serial, ""),
        ("work of serial jobs", profile.serial_work_proc_s, "processor-s"),
        ("jobs of a power of two", profile.n_power_of_two, ""),
        ("jobs submitted with the one before", profile.n_together, ""),
        ("variation between submissions", profile.interarrival_cv, ""),
    ):  # fmt: skip
        yield ProfileFigure("log", name, value, unit)
    for row in percentiles(profile):
        for name, value in _named(row.summary):
            yield ProfileFigure(row.name, name, value, row.unit)
    yield ProfileFigure(
        "arrivals", "hours are those of", profile.arrivals.zone or "no calendar", ""
    )
    dated = profile.arrivals.basis != "unknown"
    for day, counts in enumerate(profile.arrivals.counts):
        day_name = DAYS[day] if dated else f"day {day + 1}"
        for hour, n_jobs in enumerate(counts):
            if n_jobs is not None:
                yield ProfileFigure("arrivals", f"{day_name} {hour:02d} h", n_jobs, "jobs")
    for load_bin in profile.load.bins:
        at = bin_begin(profile, load_bin.start_s)
        yield ProfileFigure("load", f"{at} jobs", load_bin.n_jobs, "jobs")
        yield ProfileFigure("load", f"{at} offered", load_bin.offered_proc_s, "processor-s")
        yield ProfileFigure("load", f"{at} demand", load_bin.demand_proc_s, "processor-s")
    for size in profile.sizes:
        yield ProfileFigure("sizes", f"up to {size.most}", size.n_jobs, "jobs")
        yield ProfileFigure("sizes", f"exactly {size.most}", size.n_at_most, "jobs")
        yield ProfileFigure("sizes", f"work up to {size.most}", size.work_proc_s, "processor-s")
    for name, time in zip(time_classes(profile), profile.times, strict=True):
        yield ProfileFigure("run times", name, time.n_jobs, "jobs")
        yield ProfileFigure("run times", f"work {name}", time.work_proc_s, "processor-s")
    yield from _request_figures(profile)
    if profile.users is not None:
        yield ProfileFigure("users", "share of the top tenth", profile.users.tenth_share, "")
        yield ProfileFigure("users", "Gini coefficient", profile.users.gini, "")
        for user in profile.users.top:
            yield ProfileFigure("users", f"jobs of user {user.user}", user.n_jobs, "jobs")
            yield ProfileFigure(
                "users", f"work of user {user.user}", user.work_proc_s, "processor-s"
            )


def _request_figures(profile: WorkloadProfile) -> Iterator[ProfileFigure]:
    if profile.requests is None:
        return
    yield ProfileFigure("requests", "compared", profile.requests.n_jobs, "jobs")
    yield ProfileFigure("requests", "not compared", profile.requests.n_left_out, "jobs")
    yield ProfileFigure("requests", "ran longer", profile.requests.n_exceeded, "jobs")
    for tenth, n_jobs in enumerate(profile.requests.used, 1):
        yield ProfileFigure("requests", f"used up to {10 * tenth} %", n_jobs, "jobs")


def _named(summary: ColumnSummary) -> Iterator[tuple[str, float]]:
    yield "mean", summary.mean
    yield "least", summary.least
    for quantile, value in summary.quantiles.items():
        yield f"p{100 * float(quantile):g}", value
    yield "most", summary.most


def bin_begin(profile: WorkloadProfile, start_s: float) -> str:
    """Return the start of a time bin as date and time, or as hours since the first submission."""
    if profile.load.first_local_s is None:
        return f"{start_s / 3600.0:,.0f} h"
    return f"{local_datetime(profile.load.first_local_s + start_s):%Y-%m-%d %H:%M}"


def profile_csv(profile: WorkloadProfile) -> str:
    """Return a workload profile as CSV text: part, name, value (empty if unknown) and unit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["part", "name", "value", "unit"])
    for figure in figures(profile):
        value = "" if figure.value is None else figure.value
        # a spreadsheet could take a file name for a formula
        safe = (
            f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
        )
        writer.writerow([figure.part, figure.name, safe, figure.unit])
    return text.getvalue()
