"""A study as a TOML file: read strictly, refused with one sentence."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.insight import Insight, Kind
from agents.learning import Learning
from agents.rounds import Manner
from agents.study import CONFIDENCES, INSIGHTS, KIND, LEARNING, STRATEGY, Chosen, Stop, Study, Table
from assistant.errors import SettingsError, hint
from assistant.files import read_text

_INSIGHT, _LEARNER, _MANNER, _STOP = Insight(), Learning(), Manner(), Stop()
ACCEPTANCE = {"never": 0.0, "always": 1.0}

Application = Literal["flood", "scheduling", "maze"]
"""What a study can name instead of a table: it is measured whole before the first episode."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An application whose table a study asks for.

    Args:
        name: of the application.
        log: job log of scheduling; None is the built-in workload.
        first: use only the first jobs of the log.
    """

    name: Application
    log: Path | None = None
    first: int | None = None


Measure = Callable[[Asked], Path]
"""Returns the measured table of an application, made where there is none yet."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Strategy(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str


class _Insight(_Strict):
    members: float = _INSIGHT.members
    best: float = _INSIGHT.best
    worst: float = _INSIGHT.worst
    least: int = _INSIGHT.least


class _Learner(_Strict):
    rate: float = _LEARNER.rate
    mass: float = _LEARNER.mass
    bound: float = _LEARNER.bound
    trust: float = _LEARNER.trust


class _Analyst(_Strict):
    batch: int = _MANNER.batch
    acceptance: Literal["never", "always"] | float = "always"
    reaction_s: float = _MANNER.reaction_s


class _Stop(_Strict):
    runs: int | list[int] = Field(default_factory=list)
    exploitation: list[float | Literal["none"]] = Field(default_factory=list)
    advised_from: float = _STOP.advised_from
    censored_at: float = _STOP.censored_at
    deadline_s: float | None = None
    run_s: float = _STOP.run_s
    goal: float | None = None


class _Scheduling(_Strict):
    log: str | None = None
    first: int | None = Field(default=None, ge=1)


class _StudyFile(_Strict):
    name: str = ""
    seed: int = 0
    replications: int = 500
    workers: int | None = Field(default=None, ge=1)
    applications: list[Application] = []
    tables: list[str] = []
    strategies: list[str | _Strategy] = [STRATEGY]
    kinds: list[str] = [KIND]
    insights: list[Kind] = list(INSIGHTS)
    confidences: list[int] = list(CONFIDENCES)
    learning: list[bool] = list(LEARNING)
    stop: _Stop = _Stop()
    insight: _Insight = _Insight()
    learner: _Learner = _Learner()
    analyst: _Analyst = _Analyst()
    scheduling: _Scheduling = _Scheduling()


_TABLES: dict[str, type[BaseModel]] = {
    "stop": _Stop, "insight": _Insight, "learner": _Learner, "analyst": _Analyst,
    "scheduling": _Scheduling,
}  # fmt: skip


def read_study(path: Path, measure: Measure | None = None) -> tuple[Study, str, int | None]:
    """Return the study of a file, the text of it, and how many workers it wants.

    Paths are relative to the file; a table's name is that of its file, without suffix.

    Args:
        path: of the file.
        measure: makes the tables of the applications that the study names.

    Raises:
        AssistantError: the first fault, in one sentence.
    """
    where = f"the study '{path}'"
    try:
        text = read_text(path, "the study")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where} is not TOML: {error}") from error
    study, workers = parse_study(text, where, path.parent, measure, path.stem)
    return study, text, workers


def parse_study(
    text: str, where: str, folder: Path, measure: Measure | None = None, name: str = "study"
) -> tuple[Study, int | None]:
    """Return the study of a text, and how many workers it wants.

    Args:
        text: TOML.
        where: names it in sentences.
        folder: that its paths are relative to.
        measure: makes the tables of the applications that it names.
        name: of the study, if it says none.

    Raises:
        AssistantError: the first fault, in one sentence.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or built to hurt
        raise SettingsError(f"{where} is not TOML: {error}") from error
    read = _checked(tables, where)
    study = Study(
        name=read.name or name,
        tables=_tables(read, where, folder, measure),
        seed=read.seed,
        replications=read.replications,
        strategies=tuple(map(_chosen, read.strategies)),
        kinds=tuple(read.kinds),
        insights=tuple(read.insights),
        confidences=tuple(read.confidences),
        learning=tuple(read.learning),
        stop=_stop(read.stop),
        insight=Insight("none", **dict(read.insight)),
        learner=Learning(**dict(read.learner)),
        manner=_manner(read.analyst),
    )
    return study, read.workers


def _tables(
    read: _StudyFile, where: str, folder: Path, measure: Measure | None
) -> tuple[Table, ...]:
    if not read.applications and not read.tables:
        raise SettingsError(
            f"{where}: 'tables' and 'applications' are both empty; name a measured table, or one "
            "of flood, scheduling and maze"
        )
    about = read.scheduling
    if about != _Scheduling() and "scheduling" not in read.applications:
        raise SettingsError(
            f"{where}: [scheduling] is about 'scheduling' among the applications; name it there"
        )
    if about.first is not None and about.log is None:
        raise SettingsError(f"{where}: 'scheduling.first' is about a log; name it with 'log'")
    if read.applications and measure is None:
        raise SettingsError(
            f"{where} names applications, which are measured by copperline agents run; in Python "
            "give read_study what makes their tables (measure)"
        )
    made = []
    for name in read.applications:
        asked = Asked(name)
        if name == "scheduling":
            log = None if about.log is None else folder / about.log
            asked = Asked(name, log, about.first)
        made.append(Table(name, str(measure(asked)) if measure is not None else ""))
    return (*made, *(Table(Path(one).stem, str(folder / one)) for one in read.tables))


def _checked(tables: dict[str, Any], where: str) -> _StudyFile:
    try:
        return _StudyFile.model_validate(tables)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error)}") from error


def _chosen(given: str | _Strategy) -> Chosen:
    if isinstance(given, str):
        return Chosen(given)
    return Chosen(given.name, tuple(sorted((given.model_extra or {}).items())))


def _stop(given: _Stop) -> Stop:
    runs = [given.runs] if isinstance(given.runs, int) else given.runs
    return Stop(
        tuple(runs),
        tuple(None if one == "none" else one for one in given.exploitation) or (None,),
        given.advised_from,
        given.censored_at,
        given.deadline_s,
        given.run_s,
        given.goal,
    )


def _manner(given: _Analyst) -> Manner:
    acceptance = given.acceptance
    if isinstance(acceptance, str):
        acceptance = ACCEPTANCE[acceptance]
    return Manner(_MANNER.confidence, given.batch, acceptance, given.reaction_s)


def _sentence(error: ValidationError) -> str:
    """Return pydantic's first finding as one sentence: what, where, what is allowed."""
    faults = error.errors()
    first = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        model = _TABLES.get(str(first["loc"][0]), _StudyFile)
        return f"there is no setting '{place}'{hint(str(first['loc'][-1]), model.model_fields)}"
    given = first["input"]
    shown = f", not {given!r}" if isinstance(given, bool | int | float | str) else ""
    return f"'{place}' {first['msg'].removeprefix('Input ')}{shown}"
