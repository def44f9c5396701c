"""The report on windows that were foreseen, as one page: opens offline, needs no script."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from assistant import charts_clouds as charts
from assistant import charts_packing
from assistant.cli.clouds_words import headline, packing_words, tables
from assistant.report.pages import pages, svg
from assistant.starting import version
from sim.api import CLOUD_DEFINITIONS, CLOUD_FULL, CLOUD_LEVELS, CloudReport

MOST_MOMENTS = 500
"""Periods of a chart over time; of a longer window one of every so many is drawn."""

OUTLIERS = 0.005
"""Of the packings lie on the edge of their drawing, lest one of them make the others small."""

_COURSES = (
    ("batches-over-time", "batches", "Arrivals of batches", "batches in a period", "figure 4"),
    ("jobs-over-time", "jobs", "Arrivals of jobs", "jobs in a period", "figure 6"),
    ("demand", "cores", "Demand", "processors", "figure 7"),
)


def render_html(found: CloudReport) -> str:
    """Return the page. Charts are drawn here, into the page, as SVG."""
    names = [one.name for one in found.generators]
    return (
        pages("assistant.cli")
        .get_template("clouds.html.j2")
        .render(
            version=version(),
            train=found.train,
            test=found.test,
            headline=headline(found),
            notes=found.notes,
            period=f"{found.period_s / 60:g} minutes",
            pictures=_pictures(found),
            courses=[_course(found, *one) for one in _COURSES],
            lives=svg(
                charts.lives(
                    found.ends_s.tolist(),
                    found.survival.tolist(),
                    {
                        g.name: (
                            g.survival.low.tolist(),
                            g.survival.median.tolist(),
                            g.survival.high.tolist(),
                        )
                        for g in found.generators
                    },
                )
            ),
            reuse=svg(
                charts.reuse(
                    found.reuse.tolist(), {g.name: g.reuse.tolist() for g in found.generators}
                )
            ),
            quantiles=_quantiles(found, names),
            packing=packing_words(found),
            packings=_packings(found),
            tables=tables(found),
            definitions=CLOUD_DEFINITIONS,
        )
    )


def _pictures(found: CloudReport) -> list[tuple[str, Markup, str]]:
    every = [("real", found.picture), *((g.name, g.picture) for g in found.generators)]
    counts: dict[int, int] = {}
    for _, picture in every:
        for flavour in picture.flavour.tolist():
            counts[flavour] = counts.get(flavour, 0) + 1
    often = sorted(counts, key=lambda one: (-counts[one], one))
    named = [found.flavours[one] for one in often]
    blocks = {
        name: [
            charts.Block(row, batch, found.flavours[flavour], lifetime + 1)
            for row, batch, flavour, lifetime in zip(
                picture.period.tolist(), picture.batch.tolist(), picture.flavour.tolist(),
                picture.lifetime.tolist(), strict=True,
            )
        ]
        for name, picture in every
    }  # fmt: skip
    n_rows = {name: len(picture.left_out) for name, picture in every}
    most = max(charts.widest(blocks[name], n_rows[name]) for name, _ in every)
    drawn = []
    for name, picture in every:
        drawing = svg(charts.batches(blocks[name], named, n_rows[name], most))
        left_out = int(picture.left_out.sum())
        words = f"{left_out:,} further jobs of these periods are not shown." if left_out else ""
        drawn.append((name, drawing, words))
    return drawn


def _course(
    found: CloudReport, place: str, what: str, title: str, unit: str, figure: str
) -> tuple[str, str, str, list[tuple[str, Markup]]]:
    real = getattr(found, what)
    every = max(1, -(-len(real) // MOST_MOMENTS))
    thinned = "" if every == 1 else f" One period of every {every} is drawn."
    drawings = []
    for at, one in enumerate(found.generators):
        course = getattr(one, what)
        moments = [
            charts.Moment(
                i * found.period_s / 86_400.0, float(real[i]), float(course.band.low[i]),
                float(course.band.median[i]), float(course.band.high[i]),
            )
            for i in range(0, len(real), every)
        ]  # fmt: skip
        name = f"{one.name}: {course.inside:.1%} inside"
        spec = charts.course(moments, unit, charts.KINDS[at % len(charts.KINDS)])
        drawings.append((name, svg(spec)))
    words = (
        f"The real numbers and the band that holds 90 % of {found.n_windows} generated windows "
        f"({figure} of the paper).{thinned}"
    )
    return place, title, words, drawings


def _packings(found: CloudReport) -> list[tuple[str, Markup]]:
    told = found.packing
    names = [one.algorithm for one in told.tuples]
    points = {
        one.name: [
            charts_packing.Packed(memory, cpu, name)
            for memory, cpu, name in zip(one.memory, one.cpu, names, strict=True)
            if memory is not None and cpu is not None
        ]
        for one in told.windows
    }
    rules = list(told.windows[0].by_algorithm) if told.windows else []
    shares = sorted(min(p.memory, p.cpu) for of in points.values() for p in of)
    least = int(10 * shares[int(OUTLIERS * len(shares))]) / 10 if shares else 0.0
    drawn = []
    for one in told.windows:
        above = (
            "none failed"
            if one.every.above is None
            else f"{one.every.above:.1%} above {CLOUD_FULL:.0%}"
        )
        spec = charts_packing.packings(points[one.name], rules, least)
        drawn.append((f"{one.name}: {above}", svg(spec)))
    return drawn


def _quantiles(found: CloudReport, names: Sequence[str]) -> list[tuple[str, Markup]]:
    drawn = []
    columns: dict[str, dict[str, Any]] = {}
    for one in found.generators:
        for column in one.columns:
            pairs = [
                charts.Pair(*five)
                for five in zip(
                    CLOUD_LEVELS, column.real.tolist(), column.low.tolist(),
                    column.median.tolist(), column.high.tolist(), strict=True,
                )
            ]  # fmt: skip
            columns.setdefault(f"{column.column}|{column.unit}", {})[one.name] = pairs
    for told, made in columns.items():
        title, _, unit = told.partition("|")
        spec = charts.quantiles(made, title, seconds=unit == "s", order=names)
        drawn.append((f"{title[:1].upper()}{title[1:]}", svg(spec)))
    return drawn
