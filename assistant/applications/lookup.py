"""A measured table as an application: a run looks up the measures instead of measuring."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assistant.core.errors import RunError
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective, SingleMeasure
from strategies import Level, MeasuredTable, ParameterSpace


@dataclass(frozen=True)
class Lookup:
    """An application whose runs look up the measures in a table of measured configurations.

    Args:
        table: parameter columns, ``objective`` (minimised), optionally ``duration_s``.
    """

    table: MeasuredTable
    source: str = ""

    name = "lookup"
    measures = ("objective", "duration_s")
    deterministic = True

    @classmethod
    def read(cls, path: Path | str) -> "Lookup":
        """Read a measured table from a CSV file. Raises TableError if the file is invalid."""
        return cls(MeasuredTable.read(path), Path(path).name)

    @classmethod
    def parse(cls, text: str, source: str = "a table") -> "Lookup":
        """Parse a measured table from CSV text. Raises TableError if the text is invalid."""
        return cls(MeasuredTable.parse(text, source), source)

    @property
    def space(self) -> ParameterSpace:
        """The parameter space of all combinations of the levels that occur in the table."""
        return self.table.space

    @property
    def objective(self) -> Objective:
        """The objective: a minimal value in the column ``objective``."""
        return Objective(SingleMeasure("objective"), "minimise")

    @property
    def baseline(self) -> None:
        """None, because a table has no current configuration."""
        return

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """The source of the table and the number of its rows, for display."""
        measured = f"{self.table.n_rows:,} of {self.space.size:,} combinations measured"
        return (Fact("Table", f"{self.source}: {measured}; a missing combination is a failed run"),)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - no randomness
        """Return the measures in the table. Raises RunError if the row does not exist."""
        measurement = self.table.lookup(self.space.from_values(values))
        if measurement is None:
            raise RunError("this combination is not in the table: it failed, or is not valid")
        return {"objective": measurement.objective, "duration_s": measurement.duration_s}
