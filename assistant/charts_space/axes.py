"""The axes of a folded map: parameters nested in each other, with borders and texts."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from assistant.charts import MUTED, TEXT, Spec

_LETTER, _LINE = 6.4, 14


@dataclass(frozen=True, slots=True)
class Nested:
    """A parameter on an axis of a map.

    Args:
        title: its name with its unit.
        levels: texts of its levels, in their order.
        keys: what the key of a cell says of each level; see `response_map.key_of`.
    """

    title: str
    levels: tuple[str, ...]
    keys: tuple[str, ...]


Axis = Sequence[Nested]
"""The parameters on an axis, the slowest first."""


def size(axis: Axis) -> int:
    """Count the cells along an axis."""
    return math.prod(len(one.levels) for one in axis)


def combinations(axis: Axis, what: Literal["levels", "keys"]) -> Iterator[tuple[str, ...]]:
    """Yield what each cell along an axis has of every parameter, by the order of the cells."""
    return itertools.product(*(getattr(one, what) for one in axis))


def spoken(axis: Axis, levels: tuple[str, ...]) -> str:
    """Return levels with the names of their parameters."""
    return ", ".join(f"{one.title} {text}" for one, text in zip(axis, levels, strict=True))


def borders(
    across: Axis, down: Axis, columns: int, rows: int, step_x: int, step_y: int, x: Spec, y: Spec
) -> list[Spec]:
    """Return lines between the levels of all parameters but the innermost."""
    lines: list[Spec] = []
    for axis, n, step, mine, other in (
        (across, columns, step_x, x, "x"), (down, rows, step_y, y, "y"),
    ):  # fmt: skip
        group = n
        for depth, one in enumerate(axis[:-1]):
            group //= len(one.levels)
            if group * step < 12:
                break
            lines.append(
                {
                    "data": {"values": [{other: at} for at in range(group, n, group)]},
                    "mark": {"type": "rule", "color": "white", "opacity": 0.9,
                             "strokeWidth": 2 if depth == 0 and step > 4 else 1},
                    "encoding": {other: mine},
                }
            )  # fmt: skip
    return lines


def labels(axis: Axis, step: int, extent: int, place: Spec, *, is_across: bool) -> list[Spec]:
    """Return the texts beside an axis: levels, the innermost nearest to it, then the names.

    Args:
        axis: what is written on.
        step: pixels of a cell along it.
        extent: pixels of the map across it, where texts below the map begin.
        place: encoding along the axis, of a field of its own name.
        is_across: whether it is the horizontal one.
    """
    along, beside = ("x", "y") if is_across else ("y", "x")
    n, off, group = size(axis), 4.0, 1
    layers: list[Spec] = []
    for one in reversed(axis):
        longest = max(map(len, one.levels))
        need = _LETTER * longest + 6 if is_across else _LINE - 2
        every = math.ceil(need / (group * step))
        if every < len(one.levels) or len(one.levels) == 1:
            rows = [
                {along: (i + 0.5) * group, "text": one.levels[i % len(one.levels)]}
                for i in range(n // group)
                if i % len(one.levels) % every == 0
            ]
            at = extent + off + _LINE / 2 if is_across else -off
            look = {"align": "center" if is_across else "right", "color": MUTED, "fontSize": 11}
            layers.append(
                {
                    "data": {"values": rows},
                    "mark": {"type": "text", "baseline": "middle", **look},
                    "encoding": {
                        along: place, beside: {"value": at}, "text": {"field": "text"},
                    },
                }
            )  # fmt: skip
            off += _LINE if is_across else _LETTER * longest + 8
        group *= len(one.levels)
    name = ", within it ".join(one.title for one in axis)
    if name:
        at = extent + off + 12 if is_across else -off - 10
        layers.append(
            {
                "data": {"values": [{along: n / 2}]},
                "mark": {"type": "text", "baseline": "middle", "align": "center", "color": TEXT,
                         "text": name, "fontSize": 12, "angle": 0 if is_across else 270},
                "encoding": {along: place, beside: {"value": at}},
            }
        )  # fmt: skip
    return layers
