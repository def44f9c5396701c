"""Small pictures of the best value over the runs, as image tags that need no script."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape

ACCENT = "#b4632d"
_MUTED = "#7b8794"
MOST_POINTS = 60  # Points of a line; more are thinned out


def sparkline(best: Sequence[float], name: str, width: int = 120, height: int = 28) -> str:
    """Return a step line of the best value after each run; empty without two values.

    Args:
        best: the best value after each completed run; better is down if it falls.
        name: text for people who do not see it.
        width: of the picture, in pixels.
        height: of the picture, in pixels.
    """
    return _picture((), best, None, name, width, height) if len(best) > 1 else ""


def course(
    values: Sequence[float], best: Sequence[float], current: float, name: str, size: tuple[int, int]
) -> str:
    """Return a picture of a whole experiment: runs as dots, the best as a line, the current value.

    Args:
        values: of the completed runs, in order.
        best: the best value after each of them.
        current: value of the current configuration, drawn dashed.
        name: text for people who do not see it.
        size: width and height of the picture, in pixels.
    """
    return _picture(values, best, current, name, *size)


def _picture(
    values: Sequence[float],
    best: Sequence[float],
    current: float | None,
    name: str,
    width: int,
    height: int,
) -> str:
    edge = 3.0
    values = [*best, *([] if current is None else [current])]
    low, high = min(values), max(values)
    span = high - low or 1.0
    if values:  # room for results around the line; those far away are left out
        low, high = low - 0.25 * span, high + 0.25 * span
        span = high - low

    def x(i: int) -> float:
        return edge + i * (width - 2 * edge) / max(len(best) - 1, 1)

    def y(value: float) -> float:
        return edge + (high - value) * (height - 2 * edge) / span

    dots = "".join(
        f'<circle cx="{x(i):.1f}" cy="{y(value):.1f}" r="2" fill="none" stroke="{_MUTED}"/>'
        for i, value in enumerate(values)
        if low <= value <= high
    )
    step = max(1, -(-len(best) // MOST_POINTS))
    indices = sorted({*range(0, len(best), step), len(best) - 1})
    path = f"M{x(indices[0]):.1f},{y(best[indices[0]]):.1f}" + "".join(
        f"H{x(i):.1f}V{y(best[i]):.1f}" for i in indices[1:]
    )
    rule = "" if current is None else _rule(y(current), edge, width)
    if current is not None:
        rule += _text(y(current) - 5, width, "current") + _text(y(best[-1]) + 12, width, "best")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{dots}{rule}'
        f'<path d="{path}" fill="none" stroke="{ACCENT}" stroke-width="2"/></svg>'
    )
    data = b64encode(svg.encode()).decode()  # tags of SVG would be removed from the page
    return (
        f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}" '
        'style="max-width:100%;display:block">'
    )


def _rule(at: float, edge: float, width: int) -> str:
    return (
        f'<line x1="{edge}" x2="{width - edge}" y1="{at:.1f}" y2="{at:.1f}" stroke="{_MUTED}" '
        'stroke-dasharray="4 3"/>'
    )


def _text(at: float, width: int, text: str) -> str:
    return (
        f'<text x="{width - 4}" y="{at:.1f}" fill="{_MUTED}" font-size="11" text-anchor="end" '
        f'font-family="system-ui, sans-serif">{text}</text>'
    )
