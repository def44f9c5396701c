"""The charts of a study: bars with their bootstrap intervals, as the paper draws them."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.results import CellSummary, Figure
from assistant.charts import ACCENT, CONFIG, INK, MUTED, SCHEMA, TEXT, Spec

PALETTE = (MUTED, ACCENT, "#3d6b8e", "#6b8f4e", "#8a5a83", "#c9a227")
WIDTH, HEIGHT = 420, 220


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars side by side: one panel of a figure.

    Args:
        title: what its cells share, for people.
        x: what varies along the axis.
        colour: what varies within a group of bars.
        y: what the bars show.
        bars: (place along the axis, colour, figure); places and colours in their order.
        table: whose panels are drawn to one scale.
    """

    title: str
    x: str
    colour: str
    y: str
    bars: tuple[tuple[str, str, Figure], ...]
    table: str

    @property
    def top(self) -> float:
        """The greatest number that is drawn."""
        ends = [one for _, _, f in self.bars for one in (f.mean, f.high) if one is not None]
        return max(ends, default=0.0)


def panels(summaries: Sequence[CellSummary]) -> tuple[Panel, ...]:
    """Return the panels of a study, in the order of its grid.

    Without budgets they are those of figure 6: runs to the optimum over confidence, learning in
    colour, a panel for each table, strategy, kind and insight. With budgets those of figures 7 to
    9: the ratio to the optimum over the budget, the exploitation level in colour.
    """
    grouped: dict[str, list[CellSummary]] = {}
    for summary in summaries:
        grouped.setdefault(_title(summary), []).append(summary)
    return tuple(_panel(title, group) for title, group in grouped.items())


def _panel(title: str, group: Sequence[CellSummary]) -> Panel:
    table = group[0].cell.table
    if group[0].cell.runs is None:
        bars = [(percent(s.cell.confidence), learns(s.cell.learning), s.runs) for s in group]
        return Panel(title, "confidence [%]", "learning", "runs to the optimum", tuple(bars), table)
    bars = [(str(s.cell.runs), level(s.cell.exploitation), s.ratio or s.runs) for s in group]
    return Panel(title, "runs allowed", "exploitation", "ratio to the optimum", tuple(bars), table)


def _title(summary: CellSummary) -> str:
    cell = summary.cell
    parts = [cell.table, str(cell.strategy)]
    if cell.kind != "analyst":
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
    """Return a confidence for people; one that is not varied is a dash."""
    return "-" if confidence is None else str(confidence)


def learns(learning: bool | None) -> str:
    """Return for people whether an analyst learns."""
    return {None: "-", True: "learning", False: "not learning"}[learning]


def level(exploitation: float | None) -> str:
    """Return an exploitation level for people."""
    return "no advice" if exploitation is None else f"{exploitation:g}"


def drawings(summaries: Sequence[CellSummary]) -> tuple[Spec, ...]:
    """Draw the panels of a study, those of one table to one scale."""
    drawn = panels(summaries)
    tops: dict[str, float] = {}
    for panel in drawn:
        tops[panel.table] = max(tops.get(panel.table, 0.0), panel.top)
    return tuple(bars(panel, tops[panel.table]) for panel in drawn)


def bars(panel: Panel, top: float) -> Spec:
    """Draw a panel: bars from zero up to ``top`` at most, with the ends of their intervals."""
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
    """Return a legend; the words of learning say what they are about themselves."""
    title = None if colour == "learning" else colour
    return {"title": title, "titleColor": TEXT, "titleFontWeight": "normal"}
