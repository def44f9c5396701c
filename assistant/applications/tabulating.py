"""The whole measured table of an application: every allowed configuration, once, on disk.

Rows are kept in a file beside the table as they come, so that what was interrupted goes on where it
stopped. That file begins with a fingerprint of what is measured, and its first row is measured
again before it is believed: another seed, log or version of the program starts anew.
"""

import csv
import hashlib
import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from assistant.errors import ApplicationError, RunError, SettingsError
from assistant.files import is_folder
from assistant.objective import Measure, Objective
from assistant.ports import Application
from strategies import Configuration, Level, MeasuredTable, Observation, ParameterSpace
from strategies.observation import responses

OBJECTIVE = "objective"
FEASIBLE, VIOLATION = "feasible", "violation"
MOST_COMBINATIONS = 1_000_000

Progress = Callable[[int], None]


@runtime_checkable
class Sweepable(Protocol):
    """An application that measures many configurations better than one after the other."""

    def evaluate_many(
        self,
        configurations: Iterable[Mapping[str, Level]],
        *,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        """Yield each with its measures, in order; a configuration that failed is left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured configuration: its value, to be minimised, and if it meets every constraint.

    ``violation`` says how far it misses them (`Objective.assess`), 0 if it does not.
    """

    values: Mapping[str, Level]
    value: float
    feasible: bool
    violation: float = 0.0


@dataclass(frozen=True, slots=True)
class Tabulated:
    """What was written.

    Attributes:
        rows: in the table.
        feasible: configurations that meet every constraint.
        taken_up: rows that an interrupted tabulation had left.
        best: the best row of the table, None if it has none.
    """

    rows: int
    feasible: int
    taken_up: int
    best: Row | None


@dataclass(frozen=True)
class Question:
    """What is tabulated: an application over a space, judged by an objective.

    Raises:
        ApplicationError: its results vary from run to run, or nobody knows whether they do.
        SettingsError: more than a million combinations.
    """

    application: Application
    space: ParameterSpace
    objective: Objective

    def __post_init__(self) -> None:
        if self.application.deterministic is not True:
            raise ApplicationError(
                f"the results of '{self.application.name}' may vary from run to run, and a table "
                "holds one of each; use copperline sweep"
            )
        if self.space.size > MOST_COMBINATIONS:
            raise SettingsError(
                f"{self.space.size:,} combinations are more than {MOST_COMBINATIONS:,}; name fewer "
                "levels"
            )

    @classmethod
    def of(cls, application: Application) -> "Question":
        """Return the question that an application asks by itself."""
        return cls(application, application.space, application.objective)

    @property
    def fingerprint(self) -> str:
        """A digest of all that is known of the question before it is asked."""
        facts = [f"{fact.label}: {fact.text}" for fact in self.application.facts]
        allowed = [str(one) for one in self.space.configurations()]
        told = [self.application.name, repr(self.objective), *facts, *allowed]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    @property
    def header(self) -> list[str]:
        """Columns of the table."""
        return [*self.space.names, OBJECTIVE]

    def measured(
        self,
        configurations: Sequence[Configuration],
        threads: int | None,
        progress: Progress | None,
    ) -> Generator[Row, None, None]:
        """Yield what configurations come to, in order; those that fail are left out."""
        wanted = [self.space.values(one) for one in configurations]
        for values, measures in self._evaluated(wanted, threads, progress):
            found = self.objective.assess(measures)
            value = found.value if self.objective.goal == "minimise" else -found.value
            yield Row(values, value, found.feasible, found.violation)

    def _evaluated(
        self,
        wanted: Sequence[Mapping[str, Level]],
        threads: int | None,
        progress: Progress | None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        if isinstance(self.application, Sweepable):
            yield from self.application.evaluate_many(wanted, threads=threads, progress=progress)
            return
        for done, values in enumerate(wanted, start=1):
            try:
                yield values, self.application.evaluate(values, 0)
            except RunError:
                continue
            finally:
                if progress is not None:
                    progress(done)


def tabulate(
    question: Question,
    path: Path,
    *,
    feasible_only: bool = False,
    penalised: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tabulated:
    """Measure every allowed configuration and write the table (CSV).

    Args:
        question: what is measured.
        path: of the table; it is there when all of it is, and ``PATH.part`` until then.
        feasible_only: leave out what violates a constraint.
        penalised: write beside what violates one not its value but one beyond the worst feasible
            value, by how far it misses it: `strategies.observation.responses`, Deb's rule.
        threads: how many work side by side, as the application has it.
        progress: called with the number of configurations done.

    Raises:
        SettingsError: the file cannot be written.
        AssistantError: the application refuses.
    """
    if is_folder(path) or not is_folder(path.absolute().parent):
        raise SettingsError(f"'{path}' cannot be written: its folder is missing, or it is one")
    part = path.with_name(f"{path.name}.part")
    wanted = list(question.space.configurations())
    try:
        kept, next_one = _left_over(question, part, wanted)
        with part.open("a" if kept else "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if not kept:
                _begin(file, question)
            rest = question.measured(
                wanted[next_one:], threads,
                None if progress is None else lambda done: progress(next_one + done),
            )  # fmt: skip
            with closing(rest):
                for row in rest:
                    told = (repr(row.value), repr(row.violation), int(row.feasible))
                    writer.writerow([*row.values.values(), *told])
                    file.flush()
        return _finish(question, part, path, len(kept), feasible_only, penalised)
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error


def table_of(
    application: Application,
    path: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MeasuredTable:
    """Return the measured table of an application, made where it is not there yet.

    A file that is there is believed if its space is the application's and its first, middle and
    last rows are measured again and found the same; otherwise it is made anew.

    Raises:
        SettingsError: the file cannot be written.
        AssistantError, StrategyError: the application refuses.
    """
    question = Question.of(application)
    found = _read(path)
    if found is None or not _agrees(question, found):
        tabulate(question, path, threads=threads, progress=progress)
    return MeasuredTable.read(path)


def _begin(file: TextIO, question: Question) -> None:
    file.write(f"# {question.fingerprint}\n")
    csv.writer(file).writerow([*question.header, VIOLATION, FEASIBLE])


def _left_over(
    question: Question, part: Path, wanted: Sequence[Configuration]
) -> tuple[list[Row], int]:
    """Return the rows of an interrupted tabulation, and the place of the first one to measure.

    A half line at the end is cut off. Nothing is left over if it is about something else.
    """
    if not part.is_file():
        return [], 0
    text = part.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    begin = io.StringIO()
    _begin(begin, question)
    begun = begin.getvalue().replace("\r\n", "\n")
    if not whole.replace("\r\n", "\n").startswith(begun):
        return [], 0
    rows = list(_rows(question, whole))
    if not rows:
        return [], 0
    first = next(question.measured([question.space.from_values(rows[0].values)], 1, None), None)
    if first != rows[0]:
        return [], 0
    if whole != text:
        os.truncate(part, len(whole.encode("utf-8")))
    last = question.space.from_values(rows[-1].values)
    return rows, wanted.index(last) + 1


def _rows(question: Question, text: str) -> Iterator[Row]:
    """Yield the rows of a part file; the first two lines are its head."""
    names = question.space.names
    for cells in islice(csv.reader(io.StringIO(text, newline="")), 2, None):
        told = cells[: len(names)]
        values = {
            name: question.space.parse_value(name, cell)
            for name, cell in zip(names, told, strict=True)
        }
        value, violation = map(float, cells[-3:-1])
        yield Row(values, value, cells[-1] == "1", violation)


def _finish(
    question: Question,
    part: Path,
    path: Path,
    taken_up: int,
    feasible_only: bool,
    penalised: bool,
) -> Tabulated:
    """Turn the rows into the table, and the part file into nothing."""
    n_rows = n_feasible = 0
    best: Row | None = None
    draft = path.with_name(f"{path.name}.draft")
    with part.open(newline="", encoding="utf-8") as file:
        rows = list(_rows(question, file.read()))
    with draft.open("w", newline="", encoding="utf-8") as table:
        writer = csv.writer(table)
        writer.writerow(question.header)
        for row in _penalised(question.space, rows) if penalised else rows:
            n_feasible += row.feasible
            if feasible_only and not row.feasible:
                continue
            writer.writerow([*row.values.values(), repr(row.value)])
            n_rows += 1
            if best is None or row.value < best.value:
                best = row
    draft.replace(path)
    part.unlink()
    return Tabulated(n_rows, n_feasible, taken_up, best)


def _penalised(space: ParameterSpace, rows: Sequence[Row]) -> list[Row]:
    """Return rows with the values that a strategy would learn from, had it seen all of them."""
    observed = [
        Observation(
            space.from_values(row.values), -row.value,
            feasible=row.feasible, violation=row.violation,
        )
        for row in rows
    ]  # fmt: skip
    learnt = responses(observed).tolist() if rows else []
    return [replace(row, value=-one) for row, one in zip(rows, learnt, strict=True)]


def _read(path: Path) -> MeasuredTable | None:
    from strategies import StrategyError

    try:
        return MeasuredTable.read(path) if path.is_file() else None
    except StrategyError:
        return None


def _agrees(question: Question, table: MeasuredTable) -> bool:
    levels = {one.name: set(one.levels) for one in question.space.parameters}
    if {one.name: set(one.levels) for one in table.space.parameters} != levels:
        return False
    asked = list(question.space.configurations())
    if table.n_rows > len(asked):
        return False
    some = [asked[0], asked[len(asked) // 2], asked[-1]]
    for row in question.measured(some, 1, None):
        known = table.lookup(table.space.from_values(row.values))
        if known is None or known.objective != row.value:
            return False
    return True
