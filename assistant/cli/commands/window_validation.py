"""Command ``workload validate --train A --test B``: how well generators predict a cloud window.

The report is words and tables, or one HTML page that works offline, without scripts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from markupsafe import Markup
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, print_json, progress_spinner
from assistant.core.version import version
from assistant.presentation.charts import capacity as charts
from assistant.presentation.report.html import check_target, page_environment, svg, write_page
from assistant.presentation.text.number_format import number
from assistant.simtools.workload_generation import read_windows
from sim.api import ReadingRules
from sim.generators.cloud import (
    CLOUD_DEFINITIONS,
    CLOUD_FULL,
    CLOUD_LEVELS,
    CloudReport,
    chosen_generators,
    cloud_report,
)
from sim.generators.cloud import CLOUD_GENERATORS as REPORTED

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]  # headings, rows


def headline(report: CloudReport) -> str:
    """Return a sentence on which training and test windows were compared."""
    return (
        f"{report.test} ({report.n_jobs[1]:,} jobs in {report.n_batches[1]:,} batches, "
        f"{report.days[1]:.1f} days) predicted from {report.train} ({report.n_jobs[0]:,} jobs in "
        f"{report.n_batches[0]:,} batches, {report.days[0]:.1f} days); {report.n_windows} windows "
        f"of each generator, seed {report.seed}"
    )


def tables(report: CloudReport) -> dict[str, Table]:
    """Return the figures of a validation report as tables of texts, by title."""
    texts: dict[str, Table] = {
        "Next flavour or end of batch": (
            ("", "NLL", "error"),
            tuple((r.name, _figure(r.nll), _share(r.error)) for r in report.next_flavour),
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
                for r in report.next_lifetime
            ),
        ),
    }
    for attribute, title in (
        ("batches", "Batches that begin in a period"), ("jobs", "Jobs that begin in a period"),
        ("cores", "Demand: processors in use if no job waits"),
    ):  # fmt: skip
        courses = [
            (generated.name, getattr(generated, attribute)) for generated in report.generators
        ]
        texts[title] = (
            ("", "inside the 90 % band", "mean width", "interval score"),
            tuple(
                (name, _share(c.inside), number(c.width), number(c.score)) for name, c in courses
            ),
        )
    texts["Generated windows"] = (
        ("", "jobs in a window", "reuse distance, total variation", "survival, largest difference"),
        (
            ("real", f"{report.n_jobs[1]:,}", "", ""),
            *(
                (g.name, f"{g.n_jobs.mean:,.0f} ({g.n_jobs.low:,.0f} to {g.n_jobs.high:,.0f})",
                 f"{g.reuse_variation:.3f}", f"{g.survival_distance:.3f}")
                for g in report.generators
            ),
        ),
    )  # fmt: skip
    texts |= _packed(report)
    columns = dict.fromkeys(generated.column for g in report.generators for generated in g.columns)
    for column in columns:
        rows = [
            (g.name, generated)
            for g in report.generators
            for generated in g.columns
            if generated.column == column
        ]
        texts[f"{column[:1].upper()}{column[1:]}"] = (
            ("", "KS", "90 % of the windows", f"Wasserstein [{rows[0][1].unit}]",
             "90 % of the windows"),
            tuple(
                (name, f"{generated.ks.mean:.3f}",
                 f"{generated.ks.low:.3f} to {generated.ks.high:.3f}",
                 number(generated.wasserstein.mean),
                 f"{number(generated.wasserstein.low)} to {number(generated.wasserstein.high)}")
                for name, generated in rows
            ),
        )  # fmt: skip
    return {title: table for title, table in texts.items() if table[1]}


def packing_words(report: CloudReport) -> str:
    """Return a sentence on the servers for packing windows, or on why none was packed."""
    packing, ranges = report.packing, report.packing.ranges
    if packing.skipped is not None or ranges is None:
        return packing.skipped or ""
    low, high = ranges.gib_per_core
    servers, cores = (
        f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in (ranges.servers, ranges.cores)
    )
    missing = [
        f"{window.every.n_tuples - window.every.n_failed:,} of {window.name}"
        for window in packing.windows
        if window.every.n_failed < window.every.n_tuples
    ]
    more = f" In some packings every job fits, so they give no result: {', '.join(missing)}."
    return (
        f"{len(packing.tuples):,} packings of each, on {servers} server"
        f"{'' if servers == '1' else 's'} of {cores} cores with {low:.3g} to {high:.3g} GiB a "
        f"core.{more if missing else ''}"
    )


def _packed(report: CloudReport) -> dict[str, Table]:
    windows = report.packing.windows
    rules = list(windows[0].by_algorithm) if windows else []
    return {
        "First failure on servers: the resource that limits": (
            ("", "packings", "median", f"above {100 * CLOUD_FULL:g} %", "limited by cores"),
            tuple(
                (w.name, f"{w.every.n_failed:,}", _share(w.every.median), _share(w.every.above),
                 _share(w.every.cpu_limited))
                for w in windows
            ),
        ),
        f"First failure by algorithm: median, and share above {100 * CLOUD_FULL:g} %": (
            ("", *rules),
            tuple(
                (w.name, *(
                    f"{_share(fill.median)}, {_share(fill.above)}"
                    for fill in (w.by_algorithm[rule] for rule in rules)
                ))
                for w in windows
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
    Path | None, typer.Option(help="Log that the generators are fitted to.", show_default=False)
]
Test = Annotated[
    Path | None, typer.Option(help="A later log, to be predicted.", show_default=False)
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
    typer.Option(help="With --train: packings of each onto servers; 0 for none.", min=0),
]
Knob = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="With --train: option of the fit; see the documentation."
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(help="With --train: write a report with pictures here.", show_default=False),
]


@dataclass(frozen=True, slots=True)
class WindowValidation:
    """Request to validate workload generators on a training window and a test window."""

    train: Path
    test: Path
    lifetimes: Path | None
    generator: str
    windows: int
    seed: int
    html: Path | None
    packings: int
    knobs: Mapping[str, float | str]


def validate_windows(request: WindowValidation, rules: ReadingRules, *, as_json: bool) -> int:
    """Validate workload generators on two windows, print the report and return the exit code."""
    generators = chosen_generators(request.generator)
    if request.html is not None:
        check_target(request.html)
    with progress_spinner(f"Reading {request.train.name} and {request.test.name} …"):
        windows = read_windows(request.train, request.test, request.lifetimes, rules, request.knobs)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as progress:
        task = progress.add_task("")

        def report_progress(description: str, done: int, of: int) -> None:
            progress.update(task, description=description, completed=done, total=of)

        report = cloud_report(
            windows, generators=generators, n_windows=request.windows, seed=request.seed,
            knobs=request.knobs, n_packings=request.packings, progress=report_progress,
        )  # fmt: skip
    if request.html is not None:
        with progress_spinner("Drawing …"):
            page = render_html(report)
        write_page(page, request.html)
    if as_json:
        told_file = {} if request.html is None else {"html": str(request.html)}
        print_json({**report.to_dict(), **told_file})
        return 0
    OUT.print(headline(report), style="bold", soft_wrap=True)
    for note in report.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    for title, (heads, rows) in tables(report).items():
        OUT.print(f"{title}", style="bold", soft_wrap=True)
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for line in (heads, *rows):
            cells = [
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            OUT.print(f"  {'  '.join(cells)}".rstrip(), soft_wrap=True)
    OUT.print(packing_words(report), soft_wrap=True)
    for name, meaning in CLOUD_DEFINITIONS.items():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    if request.html is not None:
        OUT.print(f"report: {request.html}", soft_wrap=True)
    return 0


MOST_MOMENTS = 500  # periods of a chart over time; longer windows are thinned out

OUTLIERS = 0.005
"""Share of the packings drawn at the edge of the axes, so that outliers do not shrink others."""

_COURSES = (
    ("batches-over-time", "batches", "Arrivals of batches", "batches in a period", "figure 4"),
    ("jobs-over-time", "jobs", "Arrivals of jobs", "jobs in a period", "figure 6"),
    ("demand", "cores", "Demand", "processors", "figure 7"),
)


def render_html(report: CloudReport) -> str:
    """Render a validation report as an HTML page with its charts as inline SVG."""
    names = [generator.name for generator in report.generators]
    return (
        page_environment("assistant.cli")
        .get_template("clouds.html.j2")
        .render(
            version=version(),
            train=report.train,
            test=report.test,
            headline=headline(report),
            notes=report.notes,
            period=f"{report.period_s / 60:g} minutes",
            pictures=_pictures(report),
            courses=[_course(report, *generator) for generator in _COURSES],
            lives=svg(
                charts.lives(
                    report.ends_s.tolist(),
                    report.survival.tolist(),
                    {
                        g.name: (
                            g.survival.low.tolist(),
                            g.survival.median.tolist(),
                            g.survival.high.tolist(),
                        )
                        for g in report.generators
                    },
                )
            ),
            reuse=svg(
                charts.reuse(
                    report.reuse.tolist(), {g.name: g.reuse.tolist() for g in report.generators}
                )
            ),
            quantiles=_quantiles(report, names),
            packing=packing_words(report),
            packings=_packings(report),
            tables=tables(report),
            definitions=CLOUD_DEFINITIONS,
        )
    )


def _pictures(report: CloudReport) -> list[tuple[str, Markup, str]]:
    every = [("real", report.picture), *((g.name, g.picture) for g in report.generators)]
    counts: dict[int, int] = {}
    for _, picture in every:
        for flavour in picture.flavour.tolist():
            counts[flavour] = counts.get(flavour, 0) + 1
    often = sorted(counts, key=lambda flavour_index: (-counts[flavour_index], flavour_index))
    common_flavours = [report.flavours[flavour_index] for flavour_index in often]
    blocks = {
        name: [
            charts.FlavourBlock(row, batch, report.flavours[flavour], lifetime + 1)
            for row, batch, flavour, lifetime in zip(
                picture.period.tolist(), picture.batch.tolist(), picture.flavour.tolist(),
                picture.lifetime.tolist(), strict=True,
            )
        ]
        for name, picture in every
    }  # fmt: skip
    n_rows = {name: len(picture.left_out) for name, picture in every}
    most = max(charts.widest(blocks[name], n_rows[name]) for name, _ in every)
    rows = []
    for name, picture in every:
        drawing = svg(charts.batches(blocks[name], common_flavours, n_rows[name], most))
        left_out = int(picture.left_out.sum())
        words = f"{left_out:,} further jobs of these periods are not shown." if left_out else ""
        rows.append((name, drawing, words))
    return rows


def _course(
    report: CloudReport, place: str, attribute: str, title: str, unit: str, figure: str
) -> tuple[str, str, str, list[tuple[str, Markup]]]:
    real = getattr(report, attribute)
    every = max(1, -(-len(real) // MOST_MOMENTS))
    thinned = "" if every == 1 else f" The chart shows one period in {every}."
    drawings = []
    for at, generator in enumerate(report.generators):
        course = getattr(generator, attribute)
        moments = [
            charts.CourseBand(
                i * report.period_s / 86_400.0, float(real[i]), float(course.band.low[i]),
                float(course.band.median[i]), float(course.band.high[i]),
            )
            for i in range(0, len(real), every)
        ]  # fmt: skip
        name = f"{generator.name}: {course.inside:.1%} inside"
        spec = charts.course(moments, unit, charts.KINDS[at % len(charts.KINDS)])
        drawings.append((name, svg(spec)))
    words = (
        f"The real numbers and the band that holds 90 % of {report.n_windows} generated windows "
        f"({figure} of the paper).{thinned}"
    )
    return place, title, words, drawings


def _packings(report: CloudReport) -> list[tuple[str, Markup]]:
    packing = report.packing
    names = [window.algorithm for window in packing.tuples]
    points = {
        window.name: [
            charts.PackingPoint(memory, cpu, name)
            for memory, cpu, name in zip(window.memory, window.cpu, names, strict=True)
            if memory is not None and cpu is not None
        ]
        for window in packing.windows
    }
    rules = list(packing.windows[0].by_algorithm) if packing.windows else []
    shares = sorted(min(p.memory, p.cpu) for of in points.values() for p in of)
    least = int(10 * shares[int(OUTLIERS * len(shares))]) / 10 if shares else 0.0
    rows = []
    for window in packing.windows:
        above = (
            "none failed"
            if window.every.above is None
            else f"{window.every.above:.1%} above {CLOUD_FULL:.0%}"
        )
        spec = charts.packings(points[window.name], rules, least)
        rows.append((f"{window.name}: {above}", svg(spec)))
    return rows


def _quantiles(report: CloudReport, names: Sequence[str]) -> list[tuple[str, Markup]]:
    rows = []
    columns: dict[str, dict[str, Any]] = {}
    for generator in report.generators:
        for column in generator.columns:
            pairs = [
                charts.QuantilePair(*five)
                for five in zip(
                    CLOUD_LEVELS, column.real.tolist(), column.low.tolist(),
                    column.median.tolist(), column.high.tolist(), strict=True,
                )
            ]  # fmt: skip
            columns.setdefault(f"{column.column}|{column.unit}", {})[generator.name] = pairs
    for key, pairs_by_generator in columns.items():
        title, _, unit = key.partition("|")
        spec = charts.quantiles(pairs_by_generator, title, seconds=unit == "s", order=names)
        rows.append((f"{title[:1].upper()}{title[1:]}", svg(spec)))
    return rows
