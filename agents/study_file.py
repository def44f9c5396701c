"""A study as a TOML file: read strictly, refused with one sentence."""

import tomllib
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


class _StudyFile(_Strict):
    name: str = ""
    seed: int = 0
    replications: int = 500
    workers: int | None = Field(default=None, ge=1)
    tables: list[str]
    strategies: list[str | _Strategy] = [STRATEGY]
    kinds: list[str] = [KIND]
    insights: list[Kind] = list(INSIGHTS)
    confidences: list[int] = list(CONFIDENCES)
    learning: list[bool] = list(LEARNING)
    stop: _Stop = _Stop()
    insight: _Insight = _Insight()
    learner: _Learner = _Learner()
    analyst: _Analyst = _Analyst()


_TABLES: dict[str, type[BaseModel]] = {
    "stop": _Stop, "insight": _Insight, "learner": _Learner, "analyst": _Analyst,
}  # fmt: skip


def read_study(path: Path) -> tuple[Study, str, int | None]:
    """Return the study of a file, the text of it, and how many workers it wants.

    Paths of tables are relative to the file; a table's name is that of its file, without suffix.

    Raises:
        AssistantError: the first fault, in one sentence.
    """
    where = f"the study '{path}'"
    try:
        text = read_text(path, "the study")
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or built to hurt
        raise SettingsError(f"{where} is not TOML: {error}") from error
    read = _checked(tables, where)
    study = Study(
        name=read.name or path.stem,
        tables=tuple(Table(Path(one).stem, str(path.parent / one)) for one in read.tables),
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
    return study, text, read.workers


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
