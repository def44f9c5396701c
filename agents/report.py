"""The report of a study: one page, one text, one table; each follows from the results alone."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.charts_study import drawings, level, percent
from agents.files import write_whole
from agents.results import CellSummary, Figure
from agents.running import Finished
from agents.study import Study
from assistant.report.pages import pages, svg
from assistant.report.words import cell as csv_cell
from assistant.report.words import number
from assistant.starting import version

COLUMNS = (
    "table", "strategy", "kind", "insight", "confidence", "learning", "runs_allowed",
    "exploitation", "episodes", "runs", "runs_low", "runs_high", "not_found", "ratio",
    "ratio_low", "ratio_high", "late",
)  # fmt: skip


def write_report(finished: Finished, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md`` and ``summary.csv``; return their paths.

    Raises:
        AssistantError: one of them cannot be written.
    """
    made = {
        "report.html": render_html(finished),
        "report.md": render_markdown(finished),
        "summary.csv": render_csv(finished.summaries),
    }
    for name, text in made.items():
        write_whole(folder / name, text)
    return tuple(folder / name for name in made)


def render_html(finished: Finished) -> str:
    """Return the page; it opens offline and needs no script."""
    return (
        pages("agents")
        .get_template("study.html.j2")
        .render(
            study=finished.study,
            version=version(),
            headline=headline(finished),
            notes=notes(finished),
            drawings=[svg(spec) for spec in drawings(finished.summaries)],
            header=header(finished.study),
            rows=[row(summary) for summary in finished.summaries],
            facts=facts(finished),
        )
    )


def render_markdown(finished: Finished) -> str:
    """Return the same as Markdown, without the charts."""
    names = header(finished.study)
    lines = [f"# {finished.study.name}", "", headline(finished), ""]
    lines += [f"- {name}: {text}" for name, text in facts(finished).items()]
    lines += ["", *(f"{note}\n" for note in notes(finished))]
    lines += [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(row(summary))} |" for summary in finished.summaries]
    return "\n".join([*lines, ""])


def render_csv(summaries: Sequence[CellSummary]) -> str:
    """Return a row per cell with all digits; what is unknown is empty."""
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
    """Return a cell's summary by the names of `COLUMNS`."""
    cell, runs, ratio = summary.cell, summary.runs, summary.ratio or Figure(None, None, None)
    values = (
        cell.table, str(cell.strategy), cell.kind, cell.insight, cell.confidence, cell.learning,
        cell.runs, cell.exploitation, summary.episodes, runs.mean, runs.low, runs.high,
        summary.censored, ratio.mean, ratio.low, ratio.high, summary.late,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def study_as_json(finished: Finished, folder: Path) -> dict[str, object]:
    """Return the figures of a study for programs; what is unknown is None."""
    return {
        "name": finished.study.name,
        "results": str(folder / "results.parquet"),
        "episodes": len(finished.summaries) * finished.study.replications,
        "cells": [dict(as_json(summary)) for summary in finished.summaries],
    }


def study_rows(finished: Finished) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the table of the cells for people: its header and its rows.

    An axis that has one value only is left out.
    """
    names, rows = header(finished.study), [row(summary) for summary in finished.summaries]
    axes = set(_AXES) | {"runs allowed", "exploitation"}
    kept = [
        i for i, name in enumerate(names) if name not in axes or len({one[i] for one in rows}) > 1
    ]
    return tuple(names[i] for i in kept), [tuple(one[i] for i in kept) for one in rows]


def headline(finished: Finished) -> str:
    """Return what was played, in one sentence."""
    n_cells, n = len(finished.summaries), finished.study.replications
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    episodes = "1 episode each" if n == 1 else f"{n:,} episodes each"
    return f"{cells}, {episodes}: {n_cells * n:,} episodes by simulated analysts."


def facts(finished: Finished) -> dict[str, str]:
    """Return what a reader should know of the study."""
    study = finished.study
    learner, insight, manner, stop = study.learner, study.insight, study.manner, study.stop
    ends = "at the optimum, given up after " + (
        ", ".join(
            f"{max(1, int(stop.censored_at * size)):,} runs of {name} ({size:,} configurations)"
            for name, size in finished.sizes.items()
        )
        or f"{stop.censored_at:.0%} of the space"  # of tables that are not there any more
    )
    if stop.runs:
        ends = f"after {', '.join(map(str, stop.runs))} runs"
        if any(one is not None for one in stop.exploitation):
            ends += f", with the clustering advice at {stop.advised_from:.0%} of them"
    if stop.deadline_s is not None:
        ends += f", or {number(stop.deadline_s)} simulated seconds"
    told = {
        "Seed": str(study.seed),
        "Episodes end": ends,
        "Analysts": f"{manner.batch} runs at a time, an advice is accepted with probability "
        f"{manner.acceptance:g}, {number(manner.reaction_s)} s to react",
    }
    if "analyst" in study.kinds:
        told["Insight"] = (
            f"{insight.members:.1%} of the space ({insight.least} configurations at least): good "
            f"ones from the best {insight.best:.0%}, the optimum among them, bad ones from the "
            f"worst {insight.worst:.0%}"
        )
    if "analyst" in study.kinds and True in study.learning:
        told["Learning"] = (
            f"rate {learner.rate:g}, mass {learner.mass:g}, bound {learner.bound:g}, "
            f"trust {learner.trust:g}"
        )
    return told


def notes(finished: Finished) -> tuple[str, ...]:
    """Return how the figures are to be read."""
    told = ["Means, with 95 % intervals by the bootstrap over the episodes of a cell."]
    if finished.study.stop.runs:
        told.append(
            "Ratio: the best value found beside the optimum, 1 if it is one (section 4.3 of the "
            "paper)."
        )
    elif any(summary.censored for summary in finished.summaries):
        told.append(
            "An episode that did not find the optimum counts with the runs after which it was "
            "given up: where there are such, the mean is too low."
        )
    return tuple(told)


def header(study: Study) -> tuple[str, ...]:
    """Return the names of the columns for people."""
    if study.stop.runs:
        return (*_AXES, "runs allowed", "exploitation", "ratio", "95 %", "optimum not found")
    return (*_AXES, "runs to the optimum", "95 %", "not found")


_YES_NO = {None: "-", True: "yes", False: "no"}
_AXES = ("table", "strategy", "analyst", "insight", "confidence", "learning")


def row(summary: CellSummary) -> tuple[str, ...]:
    """Return a cell's figures for people, one for each of `header`."""
    cell = summary.cell
    axes: tuple[str, ...] = (
        cell.table, str(cell.strategy), cell.kind, cell.insight or "-",
        percent(cell.confidence), _YES_NO[cell.learning],
    )  # fmt: skip
    if cell.runs is not None and summary.ratio is not None:
        axes = (*axes, str(cell.runs), level(cell.exploitation))
    told = summary.ratio or summary.runs
    ends = "-" if told.low is None else f"{number(told.low)} to {number(told.high)}"
    return (*axes, number(told.mean), ends, f"{summary.censored:.0%}")
