"""Results of a study: Parquet files, atomic file writes, and bootstrap intervals.

Each cell is resampled once (Efron & Tibshirani 1994, chapter 6); numbers from several cells are
computed from each of their resamples, and the middle 95 % of them is the interval (chapter 13, the
percentile interval, which the paper cites for its 95 % intervals, section 4.2). So dependence
within a cell and independence between cells are both respected.

Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1994.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.analysts.scripted import FAULT
from agents.studies.study import Cell, Study
from assistant import AssistantError
from assistant.core.files import write_atomically

Real = NDArray[np.float64]


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file atomically, or raise `AssistantError`."""
    write_atomically(path, content, raises=AssistantError)


def make_folder(path: Path) -> None:
    """Create a folder unless it exists, or raise `AssistantError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AssistantError(f"cannot make the folder '{path}': {error.strerror}") from error


def copy_files(names: Sequence[str], source: Path, into: Path) -> bool:
    """Copy named files between folders; stop and return False at the first missing file.

    Raises `AssistantError` if one of them cannot be written.
    """
    for name in names:
        try:
            content = (source / name).read_bytes()
        except OSError:
            return False
        make_folder(into)
        write_whole(into / name, content)
    return True


RESAMPLES = 2_000
_AT_ONCE = 1_000_000  # Numbers that are drawn at once: 8 MB


def mean_interval(
    values: Sequence[float],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the ends of a bootstrap interval of the mean, or None for fewer than 2 values.

    Samples of the same size are drawn with replacement (the values are independent of each other);
    the interval holds the middle ``level`` of their means.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return None
    means = np.concatenate([batch.mean(1) for batch in bootstrap_samples(sample, rng, resamples)])
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def bootstrap_samples(
    sample: NDArray[np.float64], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Iterator[NDArray[np.float64]]:
    """Yield bootstrap samples, drawn with replacement, in arrays with one sample per row."""
    rows = max(1, _AT_ONCE // sample.size)
    for done in range(0, resamples, rows):
        yield sample[rng.integers(sample.size, size=(min(rows, resamples - done), sample.size))]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Number with bootstrap resamples, from which confidence intervals are derived.

    >>> a = Estimate(3.0, np.array([2.0, 3.0, 4.0]))
    >>> (a - a).low, (a - 1).value, (2 * a).high > 7
    (0.0, 2.0, True)
    """

    value: float  # number from all episodes
    draws: Real  # float64 [resamples]

    @property
    def low(self) -> float:
        """Lower end of the 95% bootstrap interval."""
        return float(np.quantile(self.draws, 0.025))

    @property
    def high(self) -> float:
        """Upper end of the 95% bootstrap interval."""
        return float(np.quantile(self.draws, 0.975))

    def within(self, level: float) -> tuple[float, float]:
        """Return the ends of the bootstrap interval of a given level, such as 0.99."""
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __add__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a * b)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Estimate":
        return self * -1.0

    def log(self) -> "Estimate":
        """Return the natural logarithm of the estimate, which must be positive."""
        return Estimate(math.log(self.value), np.log(self.draws))

    def expm1(self) -> "Estimate":
        """Return exp(x) - 1 of the estimate: a difference of logarithms as a relative change."""
        return Estimate(math.expm1(self.value), np.expm1(self.draws))

    def _with(self, other: "Estimate | float", reckon: Callable[[Real, Real], Real]) -> "Estimate":
        numbers = np.array([self.value, *self.draws])
        other_estimate = other if isinstance(other, Estimate) else None
        theirs = (
            np.array(other)
            if other_estimate is None
            else np.array([other_estimate.value, *other_estimate.draws])
        )
        both = reckon(numbers, theirs)
        return Estimate(float(both[0]), both[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Mean and spread of a cell's results with resamples, and the share that found the optimum."""

    n: int  # number of episodes
    mean: Estimate  # mean of the episodes
    spread: Estimate  # their standard deviation
    share_found: float = 1.0  # share of them that found the optimum

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        rng: np.random.Generator,
        share_found: float = 1.0,
        resamples: int = RESAMPLES,
    ) -> "Sample":
        """Build a sample by resampling the results of a cell's episodes."""
        sample = np.asarray(values, dtype=np.float64)
        means, spreads = np.empty(0), np.empty(0)
        for batch in bootstrap_samples(sample, rng, resamples):
            means = np.append(means, batch.mean(axis=1))
            spreads = np.append(spreads, batch.std(axis=1))
        return cls(
            sample.size,
            Estimate(float(sample.mean()), means),
            Estimate(float(sample.std()), spreads),
            share_found,
        )


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the unweighted mean of several estimates."""
    total = estimates[0]
    for estimate in estimates[1:]:
        total = total + estimate
    return total * (1.0 / len(estimates))


def slope(at: Sequence[float], estimates: Sequence[Estimate]) -> Estimate:
    """Return the slope of the least squares line through estimates, per unit of ``at``.

    Raises `ValueError` if all places are equal.
    """
    places = np.asarray(at, dtype=np.float64)
    apart = places - places.mean()
    if not apart.any():
        raise ValueError(f"a slope needs two different places, not {list(at)}")
    total = estimates[0] * 0.0
    for weight, estimate in zip((apart / (apart @ apart)).tolist(), estimates, strict=True):
        total = total + estimate * weight
    return total


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """Result of one episode of a study, as a row of the results file."""

    replication: int  # number in the cell, from 0 on
    seed: int  # seed of its experiment, which replays every suggestion
    runs: int  # executed runs
    suggested: int  # number of these that Copperline suggested
    runs_to_optimum: int | None  # number of the first run that found an optimum; None if none did
    censored: bool  # whether the search for the optimum ended before it was found
    best: float | None  # best measured value; None if every run failed
    # the paper's quality of the result (`Truth.ratio`): 0 if every run failed, None where it is
    # undefined
    ratio: float | None
    late: bool  # whether the deadline ended it
    ended: str  # reason of the end, for people
    met: bool | None = None  # whether the goal was reached; None without a goal


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
"""Name and Arrow type of each column; see `agents.studies.study.Cell` and `EpisodeResult`.
Unknown values are null. ``runs_allowed`` is the cell's budget, or the limit of the search.
"""

Episodes = Sequence[tuple[Cell, int, Sequence[EpisodeResult]]]
"""Cells with their allowed runs and their episodes, in the order of the grid."""


def write_parquet(episodes: Episodes, path: Path) -> None:
    """Write episode results atomically and reproducibly to a Parquet file."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(cell, allowed, result) for cell, allowed, played in episodes for result in played]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS])
    table = pa.Table.from_pylist(rows, schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_whole(path, buffer.getvalue())


def _row(cell: Cell, allowed: int, played: EpisodeResult) -> dict[str, Any]:
    about = asdict(cell) | asdict(played) | {"runs_allowed": allowed}
    about["strategy"] = cell.strategy.name
    about["options"] = ", ".join(f"{name}={value}" for name, value in cell.strategy.options)
    return about


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Read episode results from a Parquet file, or raise `AssistantError`."""
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
class MeanInterval:
    """Mean with a 95% bootstrap interval, None where there are too few values."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CellSummary:
    """Summary statistics over the episodes of one cell of a study."""

    cell: Cell  # cell of the grid
    episodes: int  # number of episodes
    # runs to the optimum, an episode without it counted with its allowed runs, so that the mean
    # is too low then; with a budget, executed runs
    runs: MeanInterval
    censored: float  # share of the episodes that did not find the optimum
    ratio: MeanInterval | None  # the paper's quality of the result, with a budget only
    late: float  # share of the episodes that the deadline ended
    # sentences of the episodes that a fault of a scripted analyst ended, each with their number
    faults: tuple[tuple[str, int], ...] = ()


def summarise(
    study: Study, cell: Cell, allowed: int, played: Sequence[EpisodeResult]
) -> CellSummary:
    """Compute the means and intervals over the episodes of a cell."""
    rng = cell.streams(study.seed, 0).generator("bootstrap")
    if cell.runs is None:
        runs = [
            allowed if result.runs_to_optimum is None else result.runs_to_optimum
            for result in played
        ]
    else:
        runs = [result.runs for result in played]
    ratios = [result.ratio for result in played if result.ratio is not None]
    n = len(played)
    return CellSummary(
        cell,
        n,
        _mean_with_interval(runs, rng),
        sum(result.runs_to_optimum is None for result in played) / n,
        None if cell.runs is None else _mean_with_interval(ratios, rng),
        sum(result.late for result in played) / n,
        tuple(Counter(r.ended for r in played if r.ended.startswith(FAULT)).items()),
    )


def _mean_with_interval(values: Sequence[float], rng: np.random.Generator) -> MeanInterval:
    ends = mean_interval(values, rng)
    mean = float(np.mean(values)) if values else None
    return MeanInterval(mean, *(ends or (None, None)))
