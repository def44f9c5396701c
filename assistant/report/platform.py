"""Pages about an AI platform that open offline: its dashboard, and how like a log it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

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


class Board(Protocol):
    """What is shown of a finished run of a platform."""

    @property
    def title(self) -> str:
        """What was simulated."""

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Name and value."""

    @property
    def words(self) -> tuple[str, ...]:
        """What stands out."""

    @property
    def tables(self) -> Mapping[str, Rows]:
        """Tasks and waits, by title."""

    @property
    def over_time(self) -> PlatformDrawing:
        """From the beginning to the end."""

    @property
    def day(self) -> PlatformDrawing:
        """Means by hour of the day."""


def render_dashboard(board: Board) -> str:
    """Return the page of a dashboard; it needs no script and no network."""
    drawn = [
        (heading, [(panel.title, svg(panel_chart(panel, one))) for panel in one.panels])
        for heading, one in (("Over time", board.over_time), ("A mean day", board.day))
    ]
    return _render("dashboard.html.j2", board=board, drawn=drawn)


def write_dashboard(board: Board, path: Path) -> Path:
    """Write the page of a dashboard and return its absolute path.

    Raises:
        StoreError: the file cannot be written.
    """
    return write_page(render_dashboard(board), path)


def _render(template: str, **told: Any) -> str:
    return pages().get_template(template).render(**told)
