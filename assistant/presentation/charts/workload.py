"""Charts of a workload: hours of the week, load over time, classes, distributions, requests.

The caller makes the numbers and the names of classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assistant.presentation.charts.palette import ACCENT, LEGEND_COLUMNS, MUTED, SERIES, TEXT, WARN
from assistant.presentation.charts.vega_lite import Spec, frame, nominal

SECOND = SERIES[0]
"""The blue of Okabe and Ito, distinct from copper also for colour-blind readers."""

COLOURS = (ACCENT, SECOND, SERIES[2], SERIES[3])
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
SHADES: Spec = {"scheme": "viridis"}  # Bright is many, on light and dark ground; the legend says so

SECONDS_TICKS = (0, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000)
COUNT_TICKS = tuple(2**k for k in range(0, 54, 2))
_SECONDS_WORDS = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? datum.value / 60 + ' min' : "
    "datum.value < 86400 ? datum.value / 3600 + ' h' : datum.value / 86400 + ' d'"
)


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """The loads in one bin of time, per processor of the machine (None if unknown).

    Attributes:
        at: begin, in seconds since the first submission, or since 1970 in local time of the log.
        until: end, in the same seconds.
        offered: load of the jobs submitted in it.
        demand: load if every job had started at once.
    """

    at: float
    until: float
    name: str
    n_jobs: int
    offered: float
    demand: float


@dataclass(frozen=True, slots=True)
class ClassShare:
    """A class of jobs with its share of the jobs and of the work, each from 0 to 1.

    ``jobs_at`` is the part of the share of jobs with a power of two, None to leave it out.
    """

    name: str
    jobs: float
    work: float
    jobs_at: float | None = None


def hours_of_the_week(
    counts: Sequence[Sequence[int | None]], days: Sequence[str], title: str
) -> Spec:
    """Draw a heat map of the numbers of jobs by day (rows) and hour (columns); None is blank."""
    rows = [
        {"day": days[day], "hour": hour, "jobs": n_jobs}
        for day, of_day in enumerate(counts)
        for hour, n_jobs in enumerate(of_day)
        if n_jobs is not None
    ]
    n_days = len({row["day"] for row in rows})
    ticks = {"values": list(range(0, 24, 3)), "labelAngle": 0, "ticks": False, "domain": False}
    return {
        **frame(26 * 24, 24 * max(n_days, 1)),
        "data": {"values": rows},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "hour", "type": "ordinal", "title": title, "axis": ticks},
            "y": {
                "field": "day", "type": "ordinal", "sort": list(days), "title": None,
                "axis": {"ticks": False, "domain": False},
            },
            "color": _shade("jobs", "jobs, bright is many"),
            "tooltip": [{"field": name} for name in ("day", "hour", "jobs")],
        },
    }  # fmt: skip


def load_over_time(
    points: Sequence[LoadPoint], *, dated: bool, stretch: str, unit: str, full: bool
) -> Spec:
    """Draw offered load as bars, demand as a line, and the capacity as a rule."""
    scale = 1000.0 if dated else 1.0 / 86400.0
    rows = [
        {
            "at": p.at * scale, "until": p.until * scale, "middle": (p.at + p.until) / 2 * scale,
            "name": p.name, "jobs": p.n_jobs, "offered": p.offered, "demand": p.demand,
        }
        for p in points
    ]  # fmt: skip
    x: dict[str, Any] = {"field": "at", "type": "quantitative", "title": "days since the first job"}
    if dated:
        x = {"field": "at", "type": "temporal", "scale": {"type": "utc"}, "title": None}
    x["axis"] = {"grid": False}
    y = {"type": "quantitative", "title": unit}
    kinds = [
        f"submitted in the {stretch}",
        "running, if no job had waited",
        "all processors busy (dashed)",
    ]
    n_kinds = 3 if full else 2
    colour = {
        "type": "nominal",
        "scale": {"domain": kinds[:n_kinds], "range": [MUTED, ACCENT, SECOND][:n_kinds]},
        "legend": {"title": None, "orient": "top", "symbolOpacity": 1, "columns": LEGEND_COLUMNS},
    }
    tooltip = [
        {"field": "name", "title": "from"},
        {"field": "jobs"},
        {"field": "offered", "title": "submitted", "format": ".3~g"},
        {"field": "demand", "title": "running", "format": ".3~g"},
    ]
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "opacity": 0.55},
            "encoding": {
                "x": x,
                "x2": {"field": "until"},
                "y": {**y, "field": "offered"},
                "y2": {"datum": 0},
                "color": {**colour, "datum": kinds[0]},
                "tooltip": tooltip,
            },
        },
        {
            "mark": {"type": "line", "strokeWidth": 2, "point": len(points) == 1},
            "encoding": {
                "x": {**x, "field": "middle"},
                "y": {**y, "field": "demand"},
                "color": {**colour, "datum": kinds[1]},
            },
        },
    ]
    if full:
        layers.append(
            {
                "data": {"values": [{}]},  # one rule, not one per bar
                "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
                "encoding": {"y": {**y, "datum": 1}, "color": {**colour, "datum": kinds[2]}},
            }
        )
    return {**frame(640, 230), "data": {"values": rows}, "layer": layers}


def classes(shares: Sequence[ClassShare], title: str) -> Spec:
    """Draw the shares of jobs and of work by class; full colour marks power-of-two sizes."""
    halved = any(share.jobs_at is not None for share in shares)
    jobs, work = "share of the jobs", "share of the work"
    rows: list[dict[str, object]] = []
    for share in shares:
        at = share.jobs if share.jobs_at is None else share.jobs_at
        fields = {"class": share.name, "all": share.jobs, "at": share.jobs_at}
        rows.append({**fields, "kind": jobs, "from": 0.0, "to": at, "part": "full"})
        if halved:
            rows.append({**fields, "kind": jobs, "from": at, "to": share.jobs, "part": "faint"})
        rows.append({**fields, "kind": work, "from": 0.0, "to": share.work, "all": share.work,
                     "part": "full"})  # fmt: skip
    names = [share.name for share in shares]
    tooltip: list[Spec] = [
        {"field": "class", "title": title},
        {"field": "kind", "title": "of"},
        {"field": "all", "title": "share", "format": ".1%"},
    ]
    if halved:
        tooltip.append({"field": "at", "title": "jobs on a power of two", "format": ".1%"})
    return {
        **frame(320, 220),
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "class", "type": "ordinal", "sort": names, "title": title,
                "axis": {"labelAngle": -60, "labelOverlap": False},
            },
            "xOffset": {"field": "kind", "sort": [jobs, work]},
            "y": {
                "field": "from", "type": "quantitative", "title": "share",
                "axis": {"format": "%"}, "stack": None,
            },
            "y2": {"field": "to"},
            "color": _jobs_and_work(jobs, work),
            "opacity": {
                "field": "part",
                "type": "ordinal",
                "sort": ["full", "faint"],
                "scale": {"domain": ["full", "faint"], "range": [1.0, 0.4]},
                "legend": None,
            },
            "tooltip": tooltip,
        },
    }  # fmt: skip


def curves(
    distributions: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    *,
    seconds: bool,
) -> Spec:
    """Draw several empirical distribution functions, each with its own dash pattern.

    Args:
        distributions: values and the shares of all that are at most so large, by name.
        title: title of the values.
        seconds: whether values are seconds; else they are numbers of processors.
    """
    rows = [
        {"line": name, "value": value, "share": share}
        for name, (values, shares) in distributions.items()
        for value, share in _from_zero(values, shares)
    ]
    most = max((max(values) for values, _ in distributions.values() if values), default=1.0)
    ticks = [tick for tick in (SECONDS_TICKS if seconds else COUNT_TICKS) if tick <= most]
    axis: dict[str, Any] = {"values": ticks, "labelOverlap": "greedy"}
    if seconds:
        axis["labelExpr"] = _SECONDS_WORDS
    names = list(distributions)
    scale = {"type": "symlog", "constant": 1} if seconds else {"type": "log", "base": 2}
    key = {"title": None, "orient": "top", "symbolStrokeWidth": 2} if len(names) > 1 else None
    return {
        **frame(320, 220),
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {
            "x": {
                "field": "value", "type": "quantitative", "title": title, "scale": scale,
                "axis": axis,
            },
            "y": {
                "field": "share", "type": "quantitative", "title": "share of the jobs",
                "axis": {"format": "%"}, "scale": {"domain": [0, 1]},
            },
            "color": nominal("line", names, COLOURS[: len(names)], legend=key),
            "strokeDash": nominal("line", names, DASHES[: len(names)], legend=key),
        },
    }  # fmt: skip


def hours_of_the_day(hour_shares: Mapping[str, Sequence[float]]) -> Spec:
    """Draw the shares of jobs by hour of the day, as one line per workload."""
    rows = [
        {"line": name, "hour": hour, "share": share}
        for name, shares in hour_shares.items()
        for hour, share in enumerate(shares)
    ]
    names = list(hour_shares)
    key = {"title": None, "orient": "top", "symbolStrokeWidth": 2}
    return {
        **frame(640, 200),
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "monotone", "strokeWidth": 2, "point": True},
        "encoding": {
            "x": {
                "field": "hour", "type": "quantitative", "title": "hour of the day",
                "scale": {"domain": [0, 23]}, "axis": {"values": list(range(0, 24, 3))},
            },
            "y": {
                "field": "share", "type": "quantitative", "title": "share of the jobs",
                "axis": {"format": "%"},
            },
            "color": nominal("line", names, COLOURS[: len(names)], legend=key),
            "strokeDash": nominal("line", names, DASHES[: len(names)], legend=key),
            "tooltip": [
                {"field": "line"}, {"field": "hour"},
                {"field": "share", "format": ".1%"},
            ],
        },
    }  # fmt: skip


def requests(grid: Sequence[Sequence[int]], names: Sequence[str]) -> Spec:
    """Draw a heat map of numbers of jobs by run time (y) and requested time (x) classes.

    Cells on the diagonal have a rim: there a request is as long as the run. Empty cells stay empty.
    """
    rows = [
        {
            "asked": names[requested],
            "ran": names[ran],
            "jobs": int(n_jobs),
            "same": requested == ran,
        }
        for requested, of_class in enumerate(grid)
        for ran, n_jobs in enumerate(of_class)
        if n_jobs or requested == ran
    ]
    x = {
        "field": "asked", "type": "ordinal", "title": "requested time",
        "axis": {"labelAngle": -60, "labelOverlap": False}, "scale": {"domain": list(names)},
    }  # fmt: skip
    y = {
        "field": "ran", "type": "ordinal", "title": "run time",
        "scale": {"domain": list(reversed(names))}, "axis": {"labelOverlap": False},
    }  # fmt: skip
    shade = _shade("jobs", "jobs, bright is many")
    shade["scale"] = {**shade["scale"], "type": "log"}
    return {
        **frame(320, 280),
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "datum.jobs > 0"}],
                "mark": {"type": "rect"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": shade,
                    "tooltip": [
                        {"field": "asked", "title": "requested"},
                        {"field": "ran"},
                        {"field": "jobs"},
                    ],
                },
            },
            {
                "transform": [{"filter": "datum.same"}],
                "mark": {"type": "rect", "filled": False, "stroke": TEXT, "strokeWidth": 1},
                "encoding": {"x": x, "y": y},
            },
        ],
    }


def used_shares(names: Sequence[str], counts: Sequence[int]) -> Spec:
    """Draw numbers of jobs by used share of the requested time, with overruns in the last bar."""
    rows = [
        {"used": name, "jobs": int(n_jobs), "kind": "over" if name == names[-1] else "within"}
        for name, n_jobs in zip(names, counts, strict=True)
    ]
    return {
        **frame(320, 280),
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "used", "type": "ordinal", "sort": list(names),
                "title": "used of the requested time",
                "axis": {"labelAngle": -60, "labelOverlap": False},
            },
            "y": {"field": "jobs", "type": "quantitative", "title": "jobs"},
            "color": nominal("kind", ["within", "over"], [ACCENT, WARN], legend=None),
            "tooltip": [{"field": "used"}, {"field": "jobs"}],
        },
    }  # fmt: skip


def users(shares: Sequence[ClassShare]) -> Spec:
    """Draw the shares of jobs and of work of the given users as bars, in order."""
    jobs, work = "share of the jobs", "share of the work"
    rows = [
        {"user": user.name, "kind": kind, "share": share}
        for user in shares
        for kind, share in ((jobs, user.jobs), (work, user.work))
    ]
    names = [user.name for user in shares]
    return {
        **frame(320, 26 * max(len(names), 1)),
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "user", "type": "nominal", "sort": names, "title": "user"},
            "yOffset": {"field": "kind", "sort": [jobs, work]},
            "x": {
                "field": "share", "type": "quantitative", "title": "share",
                "axis": {"format": "%", "tickCount": 6},
            },
            "color": _jobs_and_work(jobs, work),
            "tooltip": [
                {"field": "user"}, {"field": "kind", "title": "of"},
                {"field": "share", "format": ".1%"},
            ],
        },
    }  # fmt: skip


def _jobs_and_work(jobs: str, work: str) -> Spec:
    scale = {"domain": [jobs, work], "range": [ACCENT, SECOND]}
    return {"field": "kind", "type": "nominal", "scale": scale}


def _from_zero(values: Sequence[float], shares: Sequence[float]) -> list[tuple[float, float]]:
    return [(values[0], 0.0), *zip(values, shares, strict=True)] if values else []


def _shade(field: str, title: str) -> dict[str, Any]:
    legend = {"title": title, "orient": "top", "gradientLength": 160}
    return {"field": field, "type": "quantitative", "scale": dict(SHADES), "legend": legend}
