"""Vega-Lite specifications of a space: the folded response map and parallel coordinates."""

from assistant.charts_space.axes import Axis, Nested
from assistant.charts_space.folded_map import (
    CELL,
    CellRegions,
    CellValues,
    Kind,
    Mark,
    response_map,
)
from assistant.charts_space.parallel import BRUSH, Line, Parallel, brushed, parallel
from assistant.charts_space.words import Dark

__all__ = [
    "BRUSH",
    "CELL",
    "Axis",
    "CellRegions",
    "CellValues",
    "Dark",
    "Kind",
    "Line",
    "Mark",
    "Nested",
    "Parallel",
    "brushed",
    "parallel",
    "response_map",
]
