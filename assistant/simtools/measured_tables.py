"""Measured tables of applications: every allowed configuration is measured once and stored on disk.

Rows are appended to a part file beside the table, so that an interrupted tabulation continues.
The part file begins with a fingerprint of the task, and its first row is measured again before
use, so that another seed, log or version of the program starts from the beginning. `paper_table`
measures the three search spaces of the Copper paper's evaluation (section 4.1, figure 5).
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.scheduling import Scheduling
from assistant.core.errors import ApplicationError, RunError, SettingsError, hint
from assistant.core.files import atomic_file, is_folder
from assistant.core.objective import Measure, Objective
from assistant.core.ports import Application
from sim.api import Workload, load_workload
from sim.generators import default_workload
from strategies import Configuration, Level, MeasuredTable, Observation, ParameterSpace
from strategies.data.observation import responses

OBJECTIVE = "objective"
FEASIBLE, VIOLATION = "feasible", "violation"
MOST_COMBINATIONS = 1_000_000

Progress = Callable[[int], None]


@runtime_checkable
class BatchEvaluator(Protocol):
    """An application that measures a batch of configurations faster than one by one."""

    def evaluate_many(
        self,
        configurations: Iterable[Mapping[str, Level]],
        *,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        """Measure configurations; yield each with its measures, in order, but skip failed runs."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One measured configuration: its value (smaller is better) and its feasibility.

    ``violation`` is the distance to feasibility (`Objective.assess`), 0 if feasible.
    """

    values: Mapping[str, Level]
    value: float
    feasible: bool
    violation: float = 0.0


@dataclass(frozen=True, slots=True)
class TabulationResult:
    """The result of measuring every configuration: row counts and the best row.

    Attributes:
        taken_up: rows reused from an interrupted tabulation.
    """

    rows: int
    feasible: int
    taken_up: int
    best: MeasuredRow | None


@dataclass(frozen=True)
class TabulationTask:
    """A task to measure every configuration of an application and store the results in a table.

    Raises:
        ApplicationError: results vary from run to run, or it is unknown whether they do.
        SettingsError: more than a million combinations.
    """

    application: Application
    space: ParameterSpace
    objective: Objective

    def __post_init__(self) -> None:
        if self.application.deterministic is not True:
            raise ApplicationError(
                f"the results of '{self.application.name}' may vary from run to run, but a table "
                "holds one result each; use copperline sweep"
            )
        if self.space.size > MOST_COMBINATIONS:
            raise SettingsError(
                f"{self.space.size:,} combinations are more than {MOST_COMBINATIONS:,}; name fewer "
                "levels"
            )

    @classmethod
    def of(cls, application: Application) -> "TabulationTask":
        """Return the task for an application with its own space and objective."""
        return cls(application, application.space, application.objective)

    @property
    def fingerprint(self) -> str:
        """The digest of the application's facts, the objective and all configurations."""
        facts = [f"{fact.label}: {fact.text}" for fact in self.application.facts]
        allowed = [str(configuration) for configuration in self.space.configurations()]
        parts = [self.application.name, repr(self.objective), *facts, *allowed]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def header(self) -> list[str]:
        """The column names of the table: the parameters and the objective."""
        return [*self.space.names, OBJECTIVE]

    def measured(
        self,
        configurations: Sequence[Configuration],
        threads: int | None,
        progress: Progress | None,
    ) -> Generator[MeasuredRow, None, None]:
        """Measure configurations and yield their table rows, in order, but skip failed runs."""
        rows = [self.space.values(configuration) for configuration in configurations]
        for values, measures in self._evaluated(rows, threads, progress):
            assessment = self.objective.assess(measures)
            value = assessment.value if self.objective.goal == "minimise" else -assessment.value
            yield MeasuredRow(values, value, assessment.feasible, assessment.violation)

    def _evaluated(
        self,
        rows: Sequence[Mapping[str, Level]],
        threads: int | None,
        progress: Progress | None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        if isinstance(self.application, BatchEvaluator):
            yield from self.application.evaluate_many(rows, threads=threads, progress=progress)
            return
        for done, values in enumerate(rows, start=1):
            try:
                yield values, self.application.evaluate(values, 0)
            except RunError:
                continue
            finally:
                if progress is not None:
                    progress(done)


def tabulate(
    question: TabulationTask,
    path: Path,
    *,
    feasible_only: bool = False,
    penalised: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> TabulationResult:
    """Measure every allowed configuration and write the table (CSV).

    Args:
        question: task to tabulate.
        path: file of the table, complete when it exists; ``PATH.part`` is used until then.
        feasible_only: whether to leave out rows that violate a constraint.
        penalised: whether a row that violates a constraint gets a value beyond the worst feasible
            one, by its violation: `strategies.data.observation.responses`, Deb's rule.
        threads: number of parallel evaluations, if the application supports them.
        progress: function called with the number of configurations done.

    Raises:
        SettingsError: the file cannot be written.
        AssistantError: the application refuses.
    """
    if is_folder(path) or not is_folder(path.absolute().parent):
        raise SettingsError(f"'{path}' cannot be written: its folder is missing, or it is a folder")
    part = path.with_name(f"{path.name}.part")
    configurations = list(question.space.configurations())
    try:
        finished_rows, next_one = _left_over(question, part, configurations)
        with part.open("a" if finished_rows else "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if not finished_rows:
                _begin(file, question)
            rest = question.measured(
                configurations[next_one:], threads,
                None if progress is None else lambda done: progress(next_one + done),
            )  # fmt: skip
            with closing(rest):
                for row in rest:
                    outcome = (repr(row.value), repr(row.violation), int(row.feasible))
                    writer.writerow([*row.values.values(), *outcome])
                    file.flush()
        return _finish(question, part, path, len(finished_rows), feasible_only, penalised)
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error


def table_of(
    application: Application,
    path: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MeasuredTable:
    """Return the measured table of an application; measure it if missing or outdated.

    A file is up to date if it has the application's space, and if its first, middle and last rows
    have the same values when measured again.

    Raises:
        SettingsError: the file cannot be written.
        AssistantError, StrategyError: the application refuses.
    """
    question = TabulationTask.of(application)
    table = _read(path)
    if table is None or not _agrees(question, table):
        tabulate(question, path, threads=threads, progress=progress)
    return MeasuredTable.read(path)


def _begin(file: TextIO, question: TabulationTask) -> None:
    file.write(f"# {question.fingerprint}\n")
    csv.writer(file).writerow([*question.header, VIOLATION, FEASIBLE])


def _left_over(
    question: TabulationTask, part: Path, configurations: Sequence[Configuration]
) -> tuple[list[MeasuredRow], int]:
    """Return the rows of an interrupted tabulation, and the index of the first one to measure.

    A half line at the end is cut off. A part file of another task is ignored.
    """
    if not part.is_file():
        return [], 0
    text = part.read_text(encoding="utf-8", errors="replace")
    complete = text[: text.rfind("\n") + 1]
    begin = io.StringIO()
    _begin(begin, question)
    header = begin.getvalue().replace("\r\n", "\n")
    if not complete.replace("\r\n", "\n").startswith(header):
        return [], 0
    rows = list(_rows(question, complete))
    if not rows:
        return [], 0
    first = next(question.measured([question.space.from_values(rows[0].values)], 1, None), None)
    if first != rows[0]:
        return [], 0
    if complete != text:
        os.truncate(part, len(complete.encode("utf-8")))
    last = question.space.from_values(rows[-1].values)
    return rows, configurations.index(last) + 1


def _rows(question: TabulationTask, text: str) -> Iterator[MeasuredRow]:
    names = question.space.names
    for cells in islice(csv.reader(io.StringIO(text, newline="")), 2, None):
        level_cells = cells[: len(names)]
        values = {
            name: question.space.parse_value(name, cell)
            for name, cell in zip(names, level_cells, strict=True)
        }
        value, violation = map(float, cells[-3:-1])
        yield MeasuredRow(values, value, cells[-1] == "1", violation)


def _finish(
    question: TabulationTask,
    part: Path,
    path: Path,
    taken_up: int,
    feasible_only: bool,
    penalised: bool,
) -> TabulationResult:
    n_rows = n_feasible = 0
    best: MeasuredRow | None = None
    with part.open(newline="", encoding="utf-8") as file:
        rows = list(_rows(question, file.read()))
    with (
        atomic_file(path, raises=SettingsError) as draft,
        draft.open("w", newline="", encoding="utf-8") as table,
    ):
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
    part.unlink()
    return TabulationResult(n_rows, n_feasible, taken_up, best)


def _penalised(space: ParameterSpace, rows: Sequence[MeasuredRow]) -> list[MeasuredRow]:
    """Return the rows with the values that a strategy would learn from after seeing all of them."""
    observed = [
        Observation(
            space.from_values(row.values), -row.value,
            feasible=row.feasible, violation=row.violation,
        )
        for row in rows
    ]  # fmt: skip
    learnt = responses(observed).tolist() if rows else []
    return [replace(row, value=-response) for row, response in zip(rows, learnt, strict=True)]


def _read(path: Path) -> MeasuredTable | None:
    from strategies import StrategyError

    try:
        return MeasuredTable.read(path) if path.is_file() else None
    except StrategyError:
        return None


def _agrees(question: TabulationTask, table: MeasuredTable) -> bool:
    levels = {parameter.name: set(parameter.levels) for parameter in question.space.parameters}
    if {parameter.name: set(parameter.levels) for parameter in table.space.parameters} != levels:
        return False
    configurations = list(question.space.configurations())
    if table.n_rows > len(configurations):
        return False
    some = [configurations[0], configurations[len(configurations) // 2], configurations[-1]]
    for row in question.measured(some, 1, None):
        measurement = table.lookup(table.space.from_values(row.values))
        if measurement is None or measurement.objective != row.value:
            return False
    return True


BUILT_IN = "the built-in workload"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A fully measured search space of the Copper paper, stored as a table.

    Args:
        path: file of the table (CSV): parameters and ``objective``, which is minimised.
        shape: levels per parameter.
        feasible: combinations that meet every constraint.
    """

    name: str
    path: Path
    shape: tuple[int, ...]
    feasible: int
    about: str

    @property
    def description(self) -> str:
        """A description of the search space and of its feasible part, for display."""
        sentence = f"{self.feasible:,} of {self.size:,} meet every constraint"
        if not self.feasible:
            sentence = "none meets every constraint, so each value is the violation"
        return f"{self.about}; {sentence}"

    @property
    def size(self) -> int:
        """The number of configurations in the search space."""
        n = 1
        for levels in self.shape:
            n *= levels
        return n


def paper_table(
    name: str,
    folder: Path,
    *,
    log: Path | None = None,
    first: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> PaperTable:
    """Return a search space of the Copper paper, measured first if its table is missing.

    In the table of scheduling, a combination that violates a constraint is not a failed run: it has
    a value beyond the worst feasible one, by its violation (`tabulate`, penalised). That is the
    wrapper function of section 2.2. Without a small partition the thresholds have no effect, so
    those combinations are equal; all are in the table, because it must be a product of levels.

    Args:
        name: one of `NAMES`.
        folder: folder of the tables; created if missing.
        log: job log for scheduling; the built-in workload if None.
        first: number of jobs of the log to use, from the first on.
        threads: number of parallel evaluations.
        progress: function called with the number of combinations done.

    Raises:
        SettingsError: the name is unknown, or a file cannot be written.
        AssistantError, SimError: the log cannot be read, or the application refuses.
    """
    application = _application(name, log, first)
    space = ParameterSpace(application.space.parameters)
    question = TabulationTask(application, space, application.objective)
    path, mark = folder / f"{name}.csv", folder / f"{name}.json"
    about = _about(application, log)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot make the folder '{folder}': {error.strerror}") from error
    table = _kept(path, mark, question.fingerprint)
    if table is None or not _is_so(question, table):
        result = tabulate(question, path, penalised=True, threads=threads, progress=progress)
        shape = tuple(parameter.n_levels for parameter in space.parameters)
        table = PaperTable(name, path, shape, result.feasible, about)
        record = {**asdict(table), "path": path.name, "fingerprint": question.fingerprint}
        _write(mark, json.dumps(record, indent=1))
    return table


def _application(name: str, log: Path | None, first: int | None) -> Application:
    build = _PAPER_APPLICATIONS.get(name)
    if build is None:
        raise SettingsError(f"the paper has no application '{name}'{hint(name, NAMES)}")
    return build(log, first)


def _workload(log: Path | None, first: int | None) -> Workload:
    if log is not None:
        return load_workload(log, first=first)
    if first is not None:
        raise SettingsError("--first is for a log; name it with --log")
    return default_workload(0)


_PAPER_APPLICATIONS: Mapping[str, Callable[[Path | None, int | None], Application]] = {
    "flood": lambda _log, _first: Flood(),
    "scheduling": lambda log, first: Scheduling(_workload(log, first)),
    "maze": lambda _log, _first: MazeRunner(),
}

NAMES = tuple(_PAPER_APPLICATIONS)
"""Names of the tables, in the order of the rows of the paper's figure 6."""


def _about(application: Application, log: Path | None) -> str:
    facts = {fact.label: fact.text for fact in application.facts}
    if not isinstance(application, Scheduling):
        return "; ".join(facts.values())
    source = BUILT_IN if log is None else "a log"
    return f"{source}: {facts['Workload']}; {facts['Cluster']}; {facts['Current configuration']}"


def _kept(path: Path, mark: Path, fingerprint: str) -> PaperTable | None:
    if not path.is_file():
        return None
    try:
        record: Mapping[str, object] = json.loads(mark.read_text(encoding="utf-8"))
        if record["fingerprint"] != fingerprint:
            return None
        shape, feasible = record["shape"], record["feasible"]
        if not isinstance(shape, list) or not isinstance(feasible, int):
            return None
        return PaperTable(str(record["name"]), path, tuple(shape), feasible, str(record["about"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_so(question: TabulationTask, table: PaperTable) -> bool:
    """Measure the best row again, because another version of the program may differ."""
    read = MeasuredTable.read(table.path)
    best = min(
        read.measurements, key=lambda configuration: read.measurements[configuration].objective
    )
    checked = question.space.from_values(read.space.values(best))
    row = next(question.measured([checked], 1, None), None)
    best_value = read.measurements[best].objective
    return row is not None and best_value in (row.value, row.violation)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error
