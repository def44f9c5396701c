"""The results of a study: one row per episode, as Parquet, and the table of its cells."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agents.bootstrap import mean_interval
from agents.files import write_whole
from agents.playing import Played
from agents.study import Cell, Study
from assistant import AssistantError

COLUMNS: tuple[tuple[str, str], ...] = (
    ("table", "string"),
    ("strategy", "string"),
    ("options", "string"),
    ("kind", "string"),
    ("insight", "string"),
    ("confidence", "int64"),
    ("learning", "bool"),
    ("runs_allowed", "int64"),
    ("exploitation", "double"),
    ("replication", "int64"),
    ("seed", "int64"),
    ("runs", "int64"),
    ("suggested", "int64"),
    ("runs_to_optimum", "int64"),
    ("censored", "bool"),
    ("best", "double"),
    ("ratio", "double"),
    ("late", "bool"),
    ("ended", "string"),
    ("met", "bool"),
)
"""Name and Arrow type of each column; see `agents.study.Cell` and `agents.playing.Played`. What is
unknown is null. ``runs_allowed`` is the cell's budget, or where the search is given up."""

Episodes = Sequence[tuple[Cell, int, Sequence[Played]]]
"""Cells with the runs that are allowed and their episodes, in the order of the grid."""


def write_parquet(episodes: Episodes, path: Path) -> None:
    """Write one row per episode, whole or not at all; the same rows give the same bytes."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(cell, allowed, one) for cell, allowed, played in episodes for one in played]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS])
    table = pa.Table.from_pylist(rows, schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_whole(path, buffer.getvalue())


def _row(cell: Cell, allowed: int, played: Played) -> dict[str, Any]:
    about = asdict(cell) | asdict(played) | {"runs_allowed": allowed}
    about["strategy"] = cell.strategy.name
    about["options"] = ", ".join(f"{name}={value}" for name, value in cell.strategy.options)
    return about


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of results.

    Raises:
        AssistantError: it cannot be read, or has other columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise AssistantError(f"cannot read the results '{path}': {error}") from error
    if [field.name for field in table.schema] != [name for name, _ in COLUMNS]:
        raise AssistantError(f"'{path}' holds no results of a study: it has other columns")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean with its bootstrap 95 % interval; None where there is nothing, or one number only."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CellSummary:
    """What the episodes of a cell come to.

    Args:
        cell: of the grid.
        episodes: how many were played.
        runs: runs to the optimum, an episode that did not find it counted with the runs that were
            allowed, so that its mean is too low where there is one; of a budget, runs executed.
        censored: share of the episodes that did not find the optimum; of a budget, likewise.
        ratio: the paper's quality of the result, of a budget only.
        late: share of the episodes that the deadline ended.
    """

    cell: Cell
    episodes: int
    runs: Figure
    censored: float
    ratio: Figure | None
    late: float


def summarise(study: Study, cell: Cell, allowed: int, played: Sequence[Played]) -> CellSummary:
    """Return means and intervals of a cell. The resamples have a stream of their own."""
    rng = cell.streams(study.seed, 0).generator("bootstrap")
    if cell.runs is None:
        runs = [allowed if one.runs_to_optimum is None else one.runs_to_optimum for one in played]
    else:
        runs = [one.runs for one in played]
    ratios = [one.ratio for one in played if one.ratio is not None]
    n = len(played)
    return CellSummary(
        cell,
        n,
        _figure(runs, rng),
        sum(one.runs_to_optimum is None for one in played) / n,
        None if cell.runs is None else _figure(ratios, rng),
        sum(one.late for one in played) / n,
    )


def _figure(values: Sequence[float], rng: np.random.Generator) -> Figure:
    ends = mean_interval(values, rng)
    mean = float(np.mean(values)) if values else None
    return Figure(mean, *(ends or (None, None)))
