"""Pages about an AI platform that open offline: its dashboard, and how like a log it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assistant.charts_platform import (
    Likeness,
    PlatformDrawing,
    Quantiles,
    Rows,
    length,
    panel_chart,
    qq_chart,
    week_chart,
)
from assistant.report.html import write_page
from assistant.report.pages import pages, svg


def likeness_rows(found: Likeness) -> list[tuple[str, ...]]:
    """Return a row for each comparison, under `LIKENESS`."""
    return [_row(one) for one in (*found.tasks, *found.gaps)]


LIKENESS = (
    "what", "log", "simulated", "median in the log", "simulated median", "KS", "by chance up to",
    "Wasserstein", "apart", "verdict",
)  # fmt: skip


def _row(one: Quantiles) -> tuple[str, ...]:
    middle = len(one.observed) // 2
    return (
        one.name, f"{one.n_observed:,}", f"{one.n_simulated:,}", length(one.observed[middle]),
        length(one.simulated[middle]), f"{one.ks:.3f}", f"{one.ks_critical:.3f}",
        length(one.wasserstein_s), f"{one.apart:.1%}",
        "alike" if one.is_alike else "differs by more than chance",
    )  # fmt: skip


def render_likeness(found: Likeness) -> str:
    """Return the page of Q-Q plots; it needs no script and no network."""
    return _render(
        "likeness.html.j2",
        found=found,
        header=LIKENESS,
        rows=likeness_rows(found),
        tasks=[(one, svg(qq_chart(one))) for one in found.tasks],
        gaps=[(one, svg(qq_chart(one))) for one in found.gaps],
        weeks=[(name, one, svg(week_chart(one))) for name, one in found.hours.items()],
    )


def write_likeness(found: Likeness, path: Path) -> Path:
    """Write the page of Q-Q plots and return its absolute path.

    Raises:
        StoreError: the file cannot be written.
    """
    return write_page(render_likeness(found), path)


def write_dashboard(
    path: Path,
    *,
    title: str,
    parameters: tuple[tuple[str, str], ...],
    sentences: tuple[str, ...],
    tables: Mapping[str, Rows],
    drawings: tuple[PlatformDrawing, ...],
) -> Path:
    """Write the page of a dashboard and return its absolute path.

    Args:
        path: of the page.
        title: what was simulated.
        parameters: name and value.
        sentences: what stands out.
        tables: header and rows by title.
        drawings: each with its panels.

    Raises:
        StoreError: the file cannot be written.
    """
    drawn = [
        (
            "A mean day" if one.is_day else "Over time",
            [(panel.title, svg(panel_chart(panel, one))) for panel in one.panels],
        )
        for one in drawings
    ]
    page = _render(
        "dashboard.html.j2", title=title, parameters=parameters, sentences=sentences,
        tables=tables, drawn=drawn,
    )  # fmt: skip
    return write_page(page, path)


def _render(template: str, **told: Any) -> str:
    return pages().get_template(template).render(**told)
