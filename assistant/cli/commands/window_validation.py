"""``workload validate --train A --test B``: how well generators foresee a window of a cloud.

The report on windows that were foreseen, as one page: opens offline, needs no script.

The report on windows that were foreseen, in words and tables: of the console and of the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from markupsafe import Markup
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, print_json, progress_spinner
from assistant.config.snapshot import version
from assistant.presentation.charts import capacity as charts
from assistant.presentation.report.html import check_target, page_environment, svg, write_page
from assistant.presentation.text.number_format import number
from assistant.simtools.workload_generation import read_windows
from sim.api import CLOUD_DEFINITIONS, CLOUD_FULL, CLOUD_LEVELS, CloudReport, ReadingRules
from sim.generators.cloud.report import REPORTED, chosen_generators, cloud_report

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Headings, and rows of as many cells."""


def headline(found: CloudReport) -> str:
    """Say what was foreseen from what, in one sentence."""
    return (
        f"{found.test} ({found.n_jobs[1]:,} jobs in {found.n_batches[1]:,} batches, "
        f"{found.days[1]:.1f} days) foreseen from {found.train} ({found.n_jobs[0]:,} jobs in "
        f"{found.n_batches[0]:,} batches, {found.days[0]:.1f} days); {found.n_windows} windows of "
        f"each generator, seed {found.seed}"
    )


def tables(found: CloudReport) -> dict[str, Table]:
    """Return the figures of a report as tables of texts, by their titles."""
    told: dict[str, Table] = {
        "Next flavour or end of batch": (
            ("", "NLL", "error"),
            tuple((r.name, _figure(r.nll), _share(r.error)) for r in found.next_flavour),
        ),
        "Bin of the lifetime": (
            (
                "",
                "BCE",
                "NLL per job",
                "error",
                "error as the paper counts it",
                "Survival-MSE, CDI",
                "stepped",
            ),
            tuple(
                (
                    r.name,
                    _figure(r.bce),
                    _figure(r.nll),
                    _share(r.error),
                    _share(r.masked_error),
                    _fine(r.survival_mse),
                    _fine(r.survival_mse_stepped),
                )
                for r in found.next_lifetime
            ),
        ),
    }
    for what, title in (
        ("batches", "Batches that begin in a period"), ("jobs", "Jobs that begin in a period"),
        ("cores", "Demand: processors in use if nobody waits"),
    ):  # fmt: skip
        courses = [(one.name, getattr(one, what)) for one in found.generators]
        told[title] = (
            ("", "inside the 90 % band", "mean width", "interval score"),
            tuple(
                (name, _share(c.inside), number(c.width), number(c.score)) for name, c in courses
            ),
        )
    told["Generated windows"] = (
        ("", "jobs in a window", "reuse distance, total variation", "survival, largest difference"),
        (
            ("real", f"{found.n_jobs[1]:,}", "", ""),
            *(
                (g.name, f"{g.n_jobs.mean:,.0f} ({g.n_jobs.low:,.0f} to {g.n_jobs.high:,.0f})",
                 f"{g.reuse_variation:.3f}", f"{g.survival_distance:.3f}")
                for g in found.generators
            ),
        ),
    )  # fmt: skip
    told |= _packed(found)
    columns = dict.fromkeys(one.column for g in found.generators for one in g.columns)
    for column in columns:
        rows = [
            (g.name, one) for g in found.generators for one in g.columns if one.column == column
        ]
        told[f"{column[:1].upper()}{column[1:]}"] = (
            ("", "KS", "90 % of the windows", f"Wasserstein [{rows[0][1].unit}]",
             "90 % of the windows"),
            tuple(
                (name, f"{one.ks.mean:.3f}", f"{one.ks.low:.3f} to {one.ks.high:.3f}",
                 number(one.wasserstein.mean),
                 f"{number(one.wasserstein.low)} to {number(one.wasserstein.high)}")
                for name, one in rows
            ),
        )  # fmt: skip
    return {title: table for title, table in told.items() if table[1]}


def packing_words(found: CloudReport) -> str:
    """Say on which servers windows were packed, or why none was."""
    told, ranges = found.packing, found.packing.ranges
    if told.skipped is not None or ranges is None:
        return told.skipped or ""
    low, high = ranges.gib_per_core
    servers, cores = (
        f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in (ranges.servers, ranges.cores)
    )
    missing = [
        f"{one.every.n_tuples - one.every.n_failed:,} of {one.name}"
        for one in told.windows
        if one.every.n_failed < one.every.n_tuples
    ]
    more = f" In some packings every job found room, and they tell nothing: {', '.join(missing)}."
    return (
        f"{len(told.tuples):,} packings of each, on {servers} server"
        f"{'' if servers == '1' else 's'} of {cores} cores with {low:.3g} to {high:.3g} GiB a "
        f"core.{more if missing else ''}"
    )


def _packed(found: CloudReport) -> dict[str, Table]:
    told = found.packing.windows
    rules = list(told[0].by_algorithm) if told else []
    return {
        "First failure on servers: the resource that limits": (
            ("", "packings", "median", f"above {100 * CLOUD_FULL:g} %", "limited by cores"),
            tuple(
                (w.name, f"{w.every.n_failed:,}", _share(w.every.median), _share(w.every.above),
                 _share(w.every.cpu_limited))
                for w in told
            ),
        ),
        f"First failure by algorithm: median, and share above {100 * CLOUD_FULL:g} %": (
            ("", *rules),
            tuple(
                (w.name, *(
                    f"{_share(one.median)}, {_share(one.above)}"
                    for one in (w.by_algorithm[rule] for rule in rules)
                ))
                for w in told
            ),
        ),
    }  # fmt: skip


def _fine(value: float | None) -> str:
    return "-" if value is None else f"{value:.3%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


Train = Annotated[
    Path | None, typer.Option(help="Learn from this log, and foresee --test.", show_default=False)
]
Test = Annotated[
    Path | None, typer.Option(help="A later log, which is foreseen.", show_default=False)
]
Lifetimes = Annotated[
    Path | None,
    typer.Option(
        help="Learn lifetimes from this file of Bergsma et al., if --train has none.",
        show_default=False,
    ),
]
WhichGenerator = Annotated[str, typer.Option(help=f"With --train: {', '.join(REPORTED)}, or all.")]
HowMany = Annotated[
    int, typer.Option(help="With --train: windows that each generator draws.", min=2)
]
HowManyPackings = Annotated[
    int,
    typer.Option(help="With --train: packings of each onto servers; 0 leaves them out.", min=0),
]
Knob = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="With --train: how it is fitted; see the guide."),
]
Page = Annotated[
    Path | None,
    typer.Option(help="With --train: write a report with pictures here.", show_default=False),
]


@dataclass(frozen=True, slots=True)
class WindowValidation:
    """What is foreseen from what, and how; see the options above."""

    train: Path
    test: Path
    lifetimes: Path | None
    generator: str
    windows: int
    seed: int
    html: Path | None
    packings: int
    knobs: Mapping[str, float | str]


def validate_windows(asked: WindowValidation, rules: ReadingRules, *, as_json: bool) -> int:
    """Fit, draw, score, and say it. Nothing is written before all of it is there."""
    generators = chosen_generators(asked.generator)
    if asked.html is not None:
        check_target(asked.html)
    with progress_spinner(f"Reading {asked.train.name} and {asked.test.name} …"):
        windows = read_windows(asked.train, asked.test, asked.lifetimes, rules, asked.knobs)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as shown:
        task = shown.add_task("")

        def told(what: str, done: int, of: int) -> None:
            shown.update(task, description=what, completed=done, total=of)

        found = cloud_report(
            windows, generators=generators, n_windows=asked.windows, seed=asked.seed,
            knobs=asked.knobs, n_packings=asked.packings, told=told,
        )  # fmt: skip
    if asked.html is not None:
        with progress_spinner("Drawing …"):
            page = render_html(found)
        write_page(page, asked.html)
    if as_json:
        told_file = {} if asked.html is None else {"html": str(asked.html)}
        print_json({**found.to_dict(), **told_file})
        return 0
    OUT.print(headline(found), style="bold", soft_wrap=True)
    for note in found.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    for title, (heads, rows) in tables(found).items():
        OUT.print(f"{title}", style="bold", soft_wrap=True)
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for line in (heads, *rows):
            cells = [
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            OUT.print(f"  {'  '.join(cells)}".rstrip(), soft_wrap=True)
    OUT.print(packing_words(found), soft_wrap=True)
    for name, meaning in CLOUD_DEFINITIONS.items():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    if asked.html is not None:
        OUT.print(f"report: {asked.html}", soft_wrap=True)
    return 0


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
        page_environment("assistant.cli")
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
            charts.FlavourBlock(row, batch, found.flavours[flavour], lifetime + 1)
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
            charts.CourseBand(
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
            charts.PackingPoint(memory, cpu, name)
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
        spec = charts.packings(points[one.name], rules, least)
        drawn.append((f"{one.name}: {above}", svg(spec)))
    return drawn


def _quantiles(found: CloudReport, names: Sequence[str]) -> list[tuple[str, Markup]]:
    drawn = []
    columns: dict[str, dict[str, Any]] = {}
    for one in found.generators:
        for column in one.columns:
            pairs = [
                charts.QuantilePair(*five)
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
