"""Colours of all charts: one colour for one meaning, readable on light and dark ground.

The series are the colours of Okabe and Ito, which people with colour blindness can tell apart, and
more of the same lightness. Reference: Okabe & Ito 2008, Color Universal Design.
"""

INK = "#1f2933"
"""Outline of marks that are filled with white."""
MUTED = "#7b8794"
"""Rules, grids, the current configuration, and everything that is not in focus."""
TEXT = "#6b7785"
"""Titles, legends and dots of runs."""
ACCENT = "#b4632d"
"""The best so far, its forecast, and what is selected."""
WARN = "#c0392b"
"""Violated constraints, failures, and limits that were passed."""

SERIES = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#bba600", "#7b52ab",
    "#8c564b", "#1f9e9e",
)  # fmt: skip
"""Colours of things of equal rank in their order: levels, regions, experiments, queues, users."""
OTHERS = "#9aa5b1"
"""Everything beyond the series, and what is of no kind."""

RAISES, LOWERS = SERIES[5], SERIES[0]
"""An effect that raises or lowers the value, a change that lengthens or shortens a wait."""
DOMINATED = "#b8c0c8"
VALUE_SCHEME = "viridis"
"""Scheme of values; its dark end is the better one."""
LEGEND_COLUMNS: dict[str, str] = {"expr": "width < 400 ? 1 : width < 600 ? 2 : 0"}
"""Columns of a legend of few entries above a chart: all in one row (0) where they fit."""

GROUND: dict[str, str] = {"name": "ground", "value": "#ffffff"}
"""Parameter of a chart: the page behind it, for the halo of texts. A dark page sets its value."""


def series(n: int) -> tuple[str, ...]:
    """Return the colours of ``n`` things of equal rank; those beyond the series are grey.

    >>> series(2), series(12)[-1]
    (('#0072b2', '#e69f00'), '#9aa5b1')
    """
    return tuple(SERIES[i] if i < len(SERIES) else OTHERS for i in range(n))
