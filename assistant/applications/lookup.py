"""A measured table as an application: every run is a look-up (DESIGN: measured spaces)."""

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
    """A table of measured configurations; a run of a combination that is not in it fails.

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
        """Read a CSV file. Raises TableError with file, line and field if it is invalid."""
        return cls(MeasuredTable.read(path), Path(path).name)

    @classmethod
    def parse(cls, text: str, source: str = "a table") -> "Lookup":
        """Read CSV text. Raises TableError with line and field if it is invalid."""
        return cls(MeasuredTable.parse(text, source), source)

    @property
    def space(self) -> ParameterSpace:
        """Return the product of the levels that occur in the table."""
        return self.table.space

    @property
    def objective(self) -> Objective:
        """Minimise the column ``objective``."""
        return Objective(SingleMeasure("objective"), "minimise")

    @property
    def baseline(self) -> None:
        """Return None: a table has no current configuration."""
        return

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Return the source of the table and the number of its rows."""
        measured = f"{self.table.n_rows:,} of {self.space.size:,} combinations measured"
        return (Fact("Table", f"{self.source}: {measured}; a missing one is a failed run"),)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - no randomness
        """Return the measured row. Raises RunError if the combination was not measured."""
        measurement = self.table.lookup(self.space.from_values(values))
        if measurement is None:
            raise RunError("this combination is not in the table: it failed, or is not valid")
        return {"objective": measurement.objective, "duration_s": measurement.duration_s}
