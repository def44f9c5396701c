"""Report of a study as HTML, Markdown and CSV, with charts, and findings as sentences.

Two means differ if the 95 % interval of their difference excludes 0, not if the intervals of two
bars do not overlap (`agents.studies.results`). The findings compare the ends of each axis of the
grid, averaged over the others; confidence and learning separately for each insight, on which their
effect depends (section 4.2 of the paper).
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.analysts.analyst import AGENTS
from agents.studies.results import (
    CellSummary,
    EpisodeResult,
    Episodes,
    Estimate,
    MeanInterval,
    Sample,
    mean_of,
    write_whole,
)
from agents.studies.study import Cell, Study
from agents.studies.study_runner import PlayedStudy
from assistant.config.snapshot import version
from assistant.presentation.charts.palette import ACCENT, INK, MUTED, TEXT
from assistant.presentation.charts.vega_lite import CONFIG, SCHEMA, Spec
from assistant.presentation.report.html import page_environment, svg
from assistant.presentation.text.number_format import cell as csv_cell
from assistant.presentation.text.number_format import number

PALETTE = (MUTED, ACCENT, "#3d6b8e", "#6b8f4e", "#8a5a83", "#c9a227")
WIDTH, HEIGHT = 420, 220


@dataclass(frozen=True, slots=True)
class StudyPanel:
    """One bar chart of a study's results."""

    title: str  # common values of its cells, for people
    x: str  # label of the axis
    colour: str  # label of the colours within a group of bars
    y: str  # label of the bars' height
    # (place along the axis, colour, figure); places and colours in their order
    bars: tuple[tuple[str, str, MeanInterval], ...]
    table: str  # name of the table; its panels have one scale

    @property
    def top(self) -> float:
        """Largest mean or interval end in the bar chart."""
        ends = [
            number for _, _, f in self.bars for number in (f.mean, f.high) if number is not None
        ]
        return max(ends, default=0.0)


def panels(summaries: Sequence[CellSummary]) -> tuple[StudyPanel, ...]:
    """Return the bar charts of a study, in the order of the cells of its grid.

    Without budgets they are those of figure 6: runs to the optimum over confidence, learning in
    colour, a panel for each table, strategy, kind and insight. With budgets those of figures 7 to
    9: the ratio to the optimum over the budget, the exploitation level in colour.
    """
    grouped: dict[str, list[CellSummary]] = {}
    for summary in summaries:
        grouped.setdefault(_title(summary), []).append(summary)
    return tuple(_panel(title, group) for title, group in grouped.items())


def _panel(title: str, group: Sequence[CellSummary]) -> StudyPanel:
    table = group[0].cell.table
    if group[0].cell.runs is None:
        bars = [(percent(s.cell.confidence), learns(s.cell.learning), s.runs) for s in group]
        return StudyPanel(
            title, "confidence [%]", "learning", "runs to the optimum", tuple(bars), table
        )
    bars = [(str(s.cell.runs), level(s.cell.exploitation), s.ratio or s.runs) for s in group]
    return StudyPanel(
        title, "runs allowed", "exploitation", "ratio to the optimum", tuple(bars), table
    )


def _title(summary: CellSummary) -> str:
    cell = summary.cell
    parts = [cell.table, str(cell.strategy)]
    if cell.kind != AGENTS[0].name:
        parts.append(cell.kind)
    if cell.insight is not None:
        parts.append("no insight" if cell.insight == "none" else f"{cell.insight} insight")
    if cell.runs is not None:
        if cell.confidence is not None:
            parts.append(f"confidence {cell.confidence} %")
        if cell.learning is not None:
            parts.append(learns(cell.learning))
    return ", ".join(parts)


def percent(confidence: int | None) -> str:
    """Format a confidence in percent as text, or a dash if None."""
    return "-" if confidence is None else str(confidence)


def learns(learning: bool | None) -> str:
    """Return ``learning`` or ``not learning`` as text, or a dash if None."""
    return {None: "-", True: "learning", False: "not learning"}[learning]


def level(exploitation: float | None) -> str:
    """Format an exploitation level as text, ``no level`` if None."""
    return "no level" if exploitation is None else f"{exploitation:g}"


def panel_specs(summaries: Sequence[CellSummary]) -> tuple[Spec, ...]:
    """Draw the bar charts of a study, with one scale for all charts of a measured table."""
    study_panels = panels(summaries)
    tops: dict[str, float] = {}
    for panel in study_panels:
        tops[panel.table] = max(tops.get(panel.table, 0.0), panel.top)
    return tuple(bars(panel, tops[panel.table]) for panel in study_panels)


def bars(panel: StudyPanel, top: float) -> Spec:
    """Return the specification of a bar chart with intervals, on a scale from 0 to ``top``."""
    rows = [
        {"x": x, "colour": colour, "mean": f.mean, "low": f.low, "high": f.high}
        for x, colour, f in panel.bars
    ]
    places = list(dict.fromkeys(x for x, _, _ in panel.bars))
    colours = list(dict.fromkeys(colour for _, colour, _ in panel.bars))
    x: Spec = {
        "field": "x",
        "type": "ordinal",
        "title": panel.x,
        "sort": places,
        "axis": {"labelAngle": 0, "grid": False},
    }
    offset: Spec = {"field": "colour", "type": "nominal", "sort": colours}
    fill: Spec = {
        "field": "colour",
        "type": "nominal",
        "sort": colours,
        "scale": {
            "domain": colours,
            "range": [PALETTE[i % len(PALETTE)] for i in range(len(colours))],
        },
        "legend": None if colours == ["-"] else _legend(panel.colour),
    }
    scale = {"domain": [0, top], "nice": True}
    y: Spec = {"type": "quantitative", "title": panel.y, "scale": scale}
    return {
        "$schema": SCHEMA,
        "config": CONFIG,
        "width": WIDTH,
        "height": HEIGHT,
        "title": {"text": panel.title, "color": TEXT, "fontSize": 12, "anchor": "start"},
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "x": x,
                    "xOffset": offset,
                    "y": {"field": "mean", **y},
                    "color": fill,
                    "tooltip": [{"field": "mean"}, {"field": "low"}, {"field": "high"}],
                },
            },
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.2},
                "encoding": {
                    "x": x,
                    "xOffset": offset,
                    "y": {"field": "low", **y},
                    "y2": {"field": "high"},
                },
            },
        ],
    }


def _legend(colour: str) -> Spec:
    """Return a legend; that of learning needs no title."""
    title = None if colour == "learning" else colour
    return {"title": title, "titleColor": TEXT, "titleFontWeight": "normal"}


RESAMPLES = 1_000
_INSIGHTS = {
    "good": "with good insight", "bad": "with bad insight", "none": "without insight", None: "",
}  # fmt: skip
Means = dict[Cell, Estimate]


@dataclass(frozen=True, slots=True)
class StudyFinding:
    """Conclusion from a study, as a sentence."""

    text: str  # the sentence
    sure: bool  # whether the 95 % interval of the difference excludes 0
    weight: float  # the difference in half widths of its interval


def findings(study: Study, episodes: Episodes) -> tuple[StudyFinding, ...]:
    """Derive conclusions from the episodes of a study, the most certain first."""
    is_ratio = bool(study.stop.runs)
    means = {
        cell: Sample.of(
            [_value(entry, None if is_ratio else allowed) for entry in played],
            cell.streams(study.seed, 0).generator("bootstrap"),
            resamples=RESAMPLES,
        ).mean
        for cell, allowed, played in episodes
    }
    sentences = []
    for table in study.tables:
        where = f"on {table.name}" if len(study.tables) > 1 else ""
        of_table = {cell: mean for cell, mean in means.items() if cell.table == table.name}
        sentences += [
            _sentence(where, entry, is_ratio=is_ratio) for entry in _contrasts(study, of_table)
        ]
    return tuple(sorted(sentences, key=lambda entry: (not entry.sure, -entry.weight)))


def _value(played: EpisodeResult, allowed: int | None) -> float:
    """Return the number of an episode that is averaged in a bar; its ratio without runs."""
    if allowed is None:
        return played.ratio or 0.0
    return float(allowed if played.runs_to_optimum is None else played.runs_to_optimum)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """Cells with one value of an axis, compared with those with another."""

    context: str
    subject: str
    before: Estimate
    after: Estimate


def _contrasts(study: Study, means: Means) -> Iterator[_Contrast]:
    for insight in dict.fromkeys(cell.insight for cell in means):
        insight_means = {cell: mean for cell, mean in means.items() if cell.insight == insight}
        context = _INSIGHTS[insight]
        yield from _ends(
            insight_means, context, lambda c: c.confidence, "confidence {1} % instead of {0} %"
        )
        yield from _ends(insight_means, context, lambda c: c.learning, "learning")
    yield from _ends(means, "", lambda c: c.runs, "a budget of {1} runs instead of {0}")
    if len(study.stop.exploitation) > 1:
        yield from _beside(means, lambda c: level(c.exploitation), "exploitation {1} against {0}")
    yield from _beside(means, lambda c: str(c.strategy), "{1} instead of {0}")
    yield from _beside(means, lambda c: c.kind, "the analyst {1} instead of {0}")


def _ends(
    means: Means, context: str, of: Callable[[Cell], int | None], subject: str
) -> Iterator[_Contrast]:
    """Compare the greatest value of an axis with the least one; cells without one are left out."""
    values = sorted({value for cell in means if (value := of(cell)) is not None})
    if len(values) > 1:
        first, last = values[0], values[-1]
        yield _Contrast(
            context, subject.format(first, last), _mean(means, of, first), _mean(means, of, last)
        )


def _beside(means: Means, of: Callable[[Cell], str], subject: str) -> Iterator[_Contrast]:
    """Compare every other value of an axis with the first one."""
    first, *alternatives = dict.fromkeys(map(of, means))
    for other in alternatives:
        yield _Contrast(
            "", subject.format(first, other), _mean(means, of, first), _mean(means, of, other)
        )


def _mean(means: Means, of: Callable[[Cell], object], value: object) -> Estimate:
    return mean_of([mean for cell, mean in means.items() if of(cell) == value])


def _sentence(where: str, contrast: _Contrast, *, is_ratio: bool) -> StudyFinding:
    change = contrast.after - contrast.before
    low, high = change.low, change.high
    sure = low > 0 or high < 0
    weight = abs(change.value) / max((high - low) / 2, 1e-12)
    opening = ", ".join([*filter(None, (where, contrast.context)), contrast.subject])
    opening = f"{opening[:1].upper()}{opening[1:]}"
    before, after = _short(contrast.before.value), _short(contrast.after.value)
    if not sure:
        unit = "in the ratio to the optimum" if is_ratio else "runs"
        return StudyFinding(
            f"{opening}: these episodes show no difference ({_short(low)} to {_short(high)} "
            f"{unit}).",
            sure, weight,
        )  # fmt: skip
    ends = sorted((abs(low), abs(high)))
    by = f"{_short(abs(change.value))} ({_short(ends[0])} to {_short(ends[1])})"
    if is_ratio:
        verb = "raises" if change.value > 0 else "lowers"
        text = f"{opening} {verb} the ratio to the optimum by {by}: {after} instead of {before}."
    else:
        verb = "costs" if change.value > 0 else "saves"
        text = f"{opening} {verb} {by} runs to the optimum: {after} instead of {before}."
    return StudyFinding(text, sure, weight)


def _short(value: float) -> str:
    """Return a number with at most three significant digits below 1,000.

    >>> _short(15.463), _short(-0.05), _short(1234.5)
    ('15.5', '-0.05', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


COLUMNS = (
    "table", "strategy", "kind", "insight", "confidence", "learning", "runs_allowed",
    "exploitation", "episodes", "runs", "runs_low", "runs_high", "not_found", "ratio",
    "ratio_low", "ratio_high", "late",
)  # fmt: skip


def write_report(finished: PlayedStudy, folder: Path) -> tuple[Path, ...]:
    """Write a study's report (HTML, Markdown) and summary (CSV) and return the paths.

    Raises `AssistantError` if one of them cannot be written.
    """
    files = {
        "report.html": render_html(finished),
        "report.md": render_markdown(finished),
        "summary.csv": render_csv(finished.summaries),
    }
    for name, text in files.items():
        write_whole(folder / name, text)
    return tuple(folder / name for name in files)


def render_html(finished: PlayedStudy) -> str:
    """Render the report of a study as a self-contained HTML page."""
    return (
        page_environment("agents.reproduction")
        .get_template("study.html.j2")
        .render(
            study=finished.study,
            version=version(),
            headline=headline(finished),
            notes=notes(finished),
            drawings=[svg(spec) for spec in panel_specs(finished.summaries)],
            header=header(finished.study),
            rows=[row(summary) for summary in finished.summaries],
            facts=facts(finished),
        )
    )


def render_markdown(finished: PlayedStudy) -> str:
    """Render the report of a study as Markdown, without the charts."""
    names = header(finished.study)
    lines = [f"# {finished.study.name}", "", headline(finished), ""]
    lines += [f"- {name}: {text}" for name, text in facts(finished).items()]
    lines += ["", *(f"{note}\n" for note in notes(finished))]
    lines += [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(row(summary))} |" for summary in finished.summaries]
    return "\n".join([*lines, ""])


def render_csv(summaries: Sequence[CellSummary]) -> str:
    """Render the summaries of all cells as CSV, in full precision."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for summary in summaries:
        values = as_json(summary).values()
        writer.writerow(
            [csv_cell(v) if isinstance(v, str) else "" if v is None else v for v in values]
        )
    return buffer.getvalue()


def as_json(summary: CellSummary) -> Mapping[str, str | int | float | bool | None]:
    """Return a cell's summary as JSON-compatible values, by column name."""
    cell, runs, ratio = summary.cell, summary.runs, summary.ratio or MeanInterval(None, None, None)
    values = (
        cell.table, str(cell.strategy), cell.kind, cell.insight, cell.confidence, cell.learning,
        cell.runs, cell.exploitation, summary.episodes, runs.mean, runs.low, runs.high,
        summary.censored, ratio.mean, ratio.low, ratio.high, summary.late,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def study_as_json(finished: PlayedStudy, folder: Path) -> dict[str, object]:
    """Return a study's results as JSON-compatible values, with None for unknown ones."""
    return {
        "name": finished.study.name,
        "results": str(folder / "results.parquet"),
        "episodes": len(finished.summaries) * finished.study.replications,
        "cells": [dict(as_json(summary)) for summary in finished.summaries],
    }


def study_rows(finished: PlayedStudy) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of a readable table of a study's cells.

    An axis with a single value is left out.
    """
    names, rows = header(finished.study), [row(summary) for summary in finished.summaries]
    axes = set(_AXES) | {"runs allowed", "exploitation"}
    columns = [
        i
        for i, name in enumerate(names)
        if name not in axes or len({cells[i] for cells in rows}) > 1
    ]
    return tuple(names[i] for i in columns), [tuple(cells[i] for i in columns) for cells in rows]


def headline(finished: PlayedStudy) -> str:
    """Return a sentence with the numbers of cells and episodes of a study."""
    n_cells, n = len(finished.summaries), finished.study.replications
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    episodes = "1 episode each" if n == 1 else f"{n:,} episodes each"
    whose = "simulated and scripted" if finished.study.scripts else "simulated"
    return f"{cells}, {episodes}: {n_cells * n:,} episodes by {whose} analysts."


def facts(finished: PlayedStudy) -> dict[str, str]:
    """Return the settings of the study, as texts by their names."""
    study = finished.study
    learner, insight, manner, stop = study.learner, study.insight, study.manner, study.stop
    ends = "at the optimum, or given up after " + (
        ", ".join(
            f"{max(1, int(stop.censored_at * size)):,} runs of {name} ({size:,} configurations)"
            for name, size in finished.sizes.items()
        )
        or f"{stop.censored_at:.0%} of the space"  # where the tables do not exist any more
    )
    if stop.runs:
        ends = f"after {', '.join(map(str, stop.runs))} runs"
        if any(exploitation is not None for exploitation in stop.exploitation):
            ends += f", with the exploitation level set at {stop.advised_from:.0%} of them"
    if stop.deadline_s is not None:
        ends += f", or {number(stop.deadline_s)} simulated seconds"
    facts_by_name = {
        "Seed": str(study.seed),
        "Episodes end": ends,
        "Analysts": f"{manner.batch} runs at a time, warnings are accepted with probability "
        f"{manner.acceptance:g}, {number(manner.reaction_s)} s to react",
    }
    traits = {trait for kind in study.kinds for trait in study.takes(kind)}
    for script in study.scripts:
        what = "a Python function" if script.kind == "script" else "an MCP client"
        facts_by_name[script.name] = f"{what}, {script.target}"
    if "insight" in traits:
        facts_by_name["Insight"] = (
            f"{insight.members:.1%} of the space (at least {insight.least} configurations): good "
            f"ones from the best {insight.best:.0%}, the optimum among them, bad ones from the "
            f"worst {insight.worst:.0%}"
        )
    if "learning" in traits and True in study.learning:
        facts_by_name["Learning"] = (
            f"rate {learner.rate:g}, mass {learner.mass:g}, bound {learner.bound:g}, "
            f"trust {learner.trust:g}"
        )
    return facts_by_name


def notes(finished: PlayedStudy) -> tuple[str, ...]:
    """Return sentences that explain how to read the results of a study."""
    sentences = ["Means, with 95 % intervals by the bootstrap over the episodes of a cell."]
    if finished.study.stop.runs:
        sentences.append(
            "Ratio: the best value found relative to the optimum; 1 is optimal (section 4.3 of "
            "the paper)."
        )
    elif any(summary.censored for summary in finished.summaries):
        sentences.append(
            "An episode that did not find the optimum counts with the runs after which it was "
            "given up, so the mean is too low."
        )
    for summary in finished.summaries:
        for sentence, n in summary.faults:
            sentences.append(
                f"{summary.cell.kind} on {summary.cell.table}: {n} of {summary.episodes} episodes "
                f"ended early and count with what they reached, since {sentence}."
            )
    return tuple(sentences)


def header(study: Study) -> tuple[str, ...]:
    """Return the column titles of the readable table of a study's cells."""
    if study.stop.runs:
        return (*_AXES, "runs allowed", "exploitation", "ratio", "95 %", "optimum not found")
    return (*_AXES, "runs to the optimum", "95 %", "not found")


_YES_NO = {None: "-", True: "yes", False: "no"}
_AXES = ("table", "strategy", "analyst", "insight", "confidence", "learning")


def row(summary: CellSummary) -> tuple[str, ...]:
    """Return a cell's results as texts, one per column of the readable table."""
    cell = summary.cell
    axes: tuple[str, ...] = (
        cell.table, str(cell.strategy), cell.kind, cell.insight or "-",
        percent(cell.confidence), _YES_NO[cell.learning],
    )  # fmt: skip
    if cell.runs is not None and summary.ratio is not None:
        axes = (*axes, str(cell.runs), level(cell.exploitation))
    interval = summary.ratio or summary.runs
    ends = "-" if interval.low is None else f"{number(interval.low)} to {number(interval.high)}"
    return (*axes, number(interval.mean), ends, f"{summary.censored:.0%}")
