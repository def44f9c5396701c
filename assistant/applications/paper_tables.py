"""The three search spaces of the Copper paper's evaluation, measured whole (section 4.1, figure 5).

``flood`` stands for IFM (6 x 6 x 6 x 6 = 1,296 combinations), ``scheduling`` for SchedSim (22 x 20
x 20 = 8,800) and ``maze`` for Maze Runner (3 x 3 x 2 x 3 = 54). A table is kept with what it is
about, and is measured again only if that changed; what was interrupted goes on.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from assistant.applications.flood import Flood
from assistant.applications.maze import Maze
from assistant.applications.scheduling import Scheduling
from assistant.applications.tabulating import Progress, Question, tabulate
from assistant.errors import SettingsError, hint
from assistant.ports import Application
from sim.api import Workload, default_workload, load_workload
from strategies import MeasuredTable, ParameterSpace

Name = Literal["flood", "scheduling", "maze"]
NAMES: tuple[Name, ...] = get_args(Name)
"""In the order of the rows of the paper's figure 6."""

BUILT_IN = "the built-in workload"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A measured space.

    Args:
        name: of the application.
        path: of the table (CSV): parameters and ``objective``, which is minimised.
        shape: levels per parameter.
        feasible: combinations that meet every constraint.
        about: what was measured, for people.
    """

    name: str
    path: Path
    shape: tuple[int, ...]
    feasible: int
    about: str

    @property
    def told(self) -> str:
        """What was measured, and how much of it keeps the agreement, for people."""
        kept = f"{self.feasible:,} of {self.size:,} meet every constraint"
        if not self.feasible:
            kept = "none meets every constraint, so a value is by how far they are missed"
        return f"{self.about}; {kept}"

    @property
    def size(self) -> int:
        """Combinations in all."""
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
    """Return one of the spaces, measured where it is not there yet.

    In the table of scheduling what violates the agreement (small jobs wait too long, a job finds no
    partition) is no failed run: it has a value beyond the worst feasible one, by how far it misses
    the agreement (`tabulate`, penalised). That is the wrapper function of section 2.2, as the
    product's strategies have it. Where there is no small partition the thresholds mean nothing, so
    those combinations are equal; they are all in the table, or it would not be a product of levels.

    Args:
        name: one of `NAMES`.
        folder: of the tables; made if there is none.
        log: job log of scheduling; the built-in workload if None.
        first: use only the first jobs of the log.
        threads: how many work side by side.
        progress: called with the number of combinations done.

    Raises:
        SettingsError: no such space, or a file cannot be written.
        AssistantError, SimError: the log cannot be read, or the application refuses.
    """
    application = _application(name, log, first)
    space = ParameterSpace(application.space.parameters)
    question = Question(application, space, application.objective)
    path, mark = folder / f"{name}.csv", folder / f"{name}.json"
    about = _about(application, log)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot make the folder '{folder}': {error.strerror}") from error
    found = _kept(path, mark, question.fingerprint)
    if found is None or not _is_so(question, found):
        made = tabulate(question, path, penalised=True, threads=threads, progress=progress)
        shape = tuple(parameter.n_levels for parameter in space.parameters)
        found = PaperTable(name, path, shape, made.feasible, about)
        told = {**asdict(found), "path": path.name, "fingerprint": question.fingerprint}
        _write(mark, json.dumps(told, indent=1))
    return found


def _application(name: str, log: Path | None, first: int | None) -> Application:
    if name == "flood":
        return Flood()
    if name == "maze":
        return Maze()
    if name != "scheduling":
        raise SettingsError(f"the paper has no application '{name}'{hint(name, NAMES)}")
    return Scheduling(_workload(log, first))


def _workload(log: Path | None, first: int | None) -> Workload:
    if log is not None:
        return load_workload(log, first=first)
    if first is not None:
        raise SettingsError("--first is about a log; name it with --log")
    return default_workload(0)


def _about(application: Application, log: Path | None) -> str:
    facts = {fact.label: fact.text for fact in application.facts}
    if not isinstance(application, Scheduling):
        return "; ".join(facts.values())
    source = BUILT_IN if log is None else "a log"
    return f"{source}: {facts['Workload']}; {facts['Cluster']}; {facts['Today']}"


def _kept(path: Path, mark: Path, fingerprint: str) -> PaperTable | None:
    """Return a table that was made before of the same question."""
    if not path.is_file():
        return None
    try:
        told: Mapping[str, object] = json.loads(mark.read_text(encoding="utf-8"))
        if told["fingerprint"] != fingerprint:
            return None
        shape, feasible = told["shape"], told["feasible"]
        if not isinstance(shape, list) or not isinstance(feasible, int):
            return None
        return PaperTable(str(told["name"]), path, tuple(shape), feasible, str(told["about"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_so(question: Question, table: PaperTable) -> bool:
    """Measure the best row again: another version of the program may give another result."""
    read = MeasuredTable.read(table.path)
    best = min(read.measurements, key=lambda one: read.measurements[one].objective)
    asked = question.space.from_values(read.space.values(best))
    row = next(question.measured([asked], 1, None), None)
    known = read.measurements[best].objective
    return row is not None and known in (row.value, row.violation)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error
