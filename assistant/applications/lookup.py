"""A measured table as an application: a run looks up the measures instead of measuring."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.errors import RunError
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective, SingleMeasure
from strategies import Level, MeasuredTable, ParameterSpace

if TYPE_CHECKING:
    from strategies.data.alternatives import Alternatives


@dataclass(frozen=True)
class Lookup:
    """An application whose runs look up the measures in a table of measured configurations.

    Args:
        table: parameter columns, ``objective`` (minimised), optionally ``duration_s``.
        source: of the table, for people.
        alternatives: parameters of the table that each stand for several of its columns.
    """

    table: MeasuredTable
    source: str = ""
    alternatives: "tuple[Alternatives, ...]" = ()

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

    @classmethod
    def merged(cls, table: MeasuredTable, source: str = "") -> "Lookup":
        """Return the application of a table, with one parameter for each set of alternatives.

        Those are columns of 0 and 1 of which every row has at most one 1
        (`strategies.data.alternatives`).
        """
        if sum(parameter.levels == (0, 1) for parameter in table.space.parameters) < 2:
            return cls(table, source)
        from strategies.data.alternatives import merge_alternatives  # only where there may be some

        table, alternatives = merge_alternatives(table)
        return cls(table, source, alternatives)

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
        """The source of the table, the number of its rows and what was merged, for display."""
        return tuple(self._facts())

    def _facts(self) -> Iterator[Fact]:
        measured = f"{self.table.n_rows:,} of {self.space.size:,} combinations measured"
        others = "no other is proposed" if self.space.rows else "a missing one is a failed run"
        yield Fact("Table", f"{self.source}: {measured}; {others}")
        n_repeated = self.table.n_repeated
        if n_repeated:
            counted = "configuration was" if n_repeated == 1 else "configurations were"
            text = f"{n_repeated:,} {counted} measured more than once; the mean is used"
            yield Fact("Repeated rows", text)
        if self.alternatives:
            merged = ". ".join(f"{one.name}: {one.description}" for one in self.alternatives)
            yield Fact("Columns that are one parameter", merged)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - no randomness
        """Return the measures in the table. Raises RunError if the row does not exist."""
        measurement = self.table.lookup(self.space.from_values(values))
        if measurement is None:
            raise RunError("this combination is not in the table: it failed, or is not valid")
        return {"objective": measurement.objective, "duration_s": measurement.duration_s}
