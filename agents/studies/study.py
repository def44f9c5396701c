"""A study: a grid of cells, each played by many analysts with different random streams.

Values and pure functions; `agents.studies.study_runner` plays them. The two studies of the paper
are one grid each: figure 6 varies insight, confidence and learning and stops at the optimum
(section 4.2), figures 7 to 9 vary the budget of runs and the exploitation level (section 4.3).
Studies are read from and written to TOML files, strictly.
"""

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os.path import relpath
from pathlib import Path
from typing import Any, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.analysts.analyst import AGENTS, AnalystProfile, Trait, agent_entry
from agents.analysts.episode import Agent, ClusteringAdvice, EpisodeStreams
from agents.analysts.insight import Insight, Kind, Learning
from agents.analysts.scripted import McpAnalyst, Script, ScriptedAnalyst, ScriptLimits
from assistant import AssistantError
from assistant.core.errors import SettingsError, hint
from assistant.core.files import read_text

STRATEGY, KIND = "copper", "analyst"
INSIGHTS: tuple[Kind, ...] = ("bad", "good", "none")
CONFIDENCES = tuple(range(0, 101, 10))
LEARNING = (False, True)  # Default axes of a study: those of the paper's figure 6

Options = tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Name and file path of a measured table that a study uses."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """Strategy of a study: registered name and options."""

    name: str
    options: Options = ()

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options)
        return f"{self.name} ({options})" if options else self.name


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Rule for when the episodes of a study end: at a budget or at the optimum.

    Args:
        runs: budgets, each a column of cells; without any an episode ends at the optimum.
        exploitation: levels of the clustering advice (section 3.2), with budgets only; None is no
            advice.
        advised_from: share of the budget at which that advice comes; the paper's 0.7.
        censored_at: share of the space at which the search for the optimum is given up.
        deadline_s: simulated seconds until the deadline; None is no deadline.
        run_s: simulated seconds of a run without a duration in the table.
        goal: with budgets only: share of the measured configurations that reaches the goal; an
            episode ends with the round that reaches it, and the forecast warns. None is no goal.

    Raises:
        AssistantError: a field is out of range, or levels or a goal are given without budgets.
    """

    runs: tuple[int, ...] = ()
    exploitation: tuple[float | None, ...] = (None,)
    advised_from: float = 0.7
    censored_at: float = 0.5
    deadline_s: float | None = None
    run_s: float = 1.0
    goal: float | None = None

    def __post_init__(self) -> None:
        if any(type(runs) is not int or runs < 1 for runs in self.runs):
            raise AssistantError(f"budgets are whole numbers of runs from 1 on, not {self.runs}")
        if not self.exploitation:
            raise AssistantError("exploitation needs at least one level; leave it out for none")
        levels = [level for level in self.exploitation if level is not None]
        if levels and not self.runs:
            raise AssistantError("exploitation needs a budget; give runs, or leave it out")
        if self.goal is not None and not self.runs:
            raise AssistantError("a goal needs a budget; give runs, or leave it out")
        if self.goal is not None and not 0 < self.goal <= 1:
            raise AssistantError(
                f"goal is a share of the configurations above 0, up to 1, not {self.goal}"
            )
        for name, value in (("exploitation", levels), ("advised_from", [self.advised_from])):
            if not all(0 <= share <= 1 for share in value):
                raise AssistantError(f"{name} is a share from 0 to 1, not {value}")
        if not 0 < self.censored_at <= 1:
            raise AssistantError(
                f"censored_at is a share of the space above 0, up to 1, not {self.censored_at}"
            )
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise AssistantError(f"deadline_s is a number above 0, not {self.deadline_s}")
        if not 0 <= self.run_s < math.inf:
            raise AssistantError(f"run_s is a number from 0 on, not {self.run_s}")


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a study's grid: one combination of table, strategy and analyst traits."""

    table: str  # name of the table
    strategy: StrategyChoice  # strategy of the suggestions, with its options
    kind: str  # kind of analyst
    insight: Kind | None = None  # ``good``, ``bad`` or ``none``
    confidence: int | None = None  # in whole per cent
    learning: bool | None = None  # whether the analyst learns
    runs: int | None = None  # budget; None if the episode ends at the optimum
    exploitation: float | None = None  # level of the clustering advice

    def streams(self, seed: int, replication: int) -> EpisodeStreams:
        """Return the random streams of one episode, unique to the cell and replication.

        They follow from the cell's own fields, so a larger grid keeps its old episodes.
        """
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).digest()
        words = tuple(int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4))
        return EpisodeStreams((seed, *words), replication)


@dataclass(frozen=True, slots=True)
class Study:
    """Grid of cells, each played in many replicated episodes, with common settings.

    Args:
        name: title for people.
        tables: measured spaces.
        seed: seed of all random streams.
        replications: episodes per cell.
        strategies: strategies of the suggestions.
        kinds: kinds of analyst (`agents.analysts.analyst`).
        insights: insights of the analysts that have one.
        confidences: confidences in whole per cent.
        learning: whether the analysts learn.
        stop: end of the episodes.
        insight: sizes and ranks of the subsets; its own kind is ignored.
        learner: parameters of the learning.
        manner: batch, acceptance and reaction; its own confidence is ignored.
        scripts: scripted analysts, which ``kinds`` names too.
        limits: of each scripted analyst in an episode.

    Raises:
        AssistantError: an axis is empty or repeats itself, or a number is out of range.
    """

    name: str
    tables: tuple[Table, ...]
    seed: int = 0
    replications: int = 500
    strategies: tuple[StrategyChoice, ...] = (StrategyChoice(STRATEGY),)
    kinds: tuple[str, ...] = (KIND,)
    insights: tuple[Kind, ...] = INSIGHTS
    confidences: tuple[int, ...] = CONFIDENCES
    learning: tuple[bool, ...] = LEARNING
    stop: StoppingRule = field(default_factory=StoppingRule)
    insight: Insight = field(default_factory=Insight)
    learner: Learning = field(default_factory=Learning)
    manner: AnalystProfile = field(default_factory=AnalystProfile)
    scripts: tuple[Script, ...] = ()
    limits: ScriptLimits = field(default_factory=ScriptLimits)

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise AssistantError(
                f"the seed of a study is a whole number from 0 on, not {self.seed}"
            )
        if type(self.replications) is not int or self.replications < 1:
            raise AssistantError(
                f"replications is a whole number from 1 on, not {self.replications}"
            )
        axes: dict[str, tuple[Any, ...]] = {
            "tables": tuple(table.name for table in self.tables),
            "strategies": self.strategies,
            "kinds": self.kinds,
            "insights": self.insights,
            "confidences": self.confidences,
            "learning": self.learning,
            "runs": self.stop.runs or (None,),
            "exploitation": self.stop.exploitation,
        }
        for name, values in axes.items():
            if not values:
                raise AssistantError(f"a study needs at least one of {name}")
            repeated = next((v for v in values if values.count(v) > 1), None)
            if repeated is not None:
                raise AssistantError(f"{name} of a study names {repeated} twice; name it once")
        registered = {entry.name for entry in AGENTS}
        taken = next((each.name for each in self.scripts if each.name in registered), None)
        if taken is not None:
            raise AssistantError(
                f"'{taken}' is a kind of analyst; give the scripted one another name"
            )
        if any(each.kind == "mcp" for each in self.scripts) and self.stop.deadline_s is not None:
            raise AssistantError(
                "deadline_s counts simulated seconds, which an MCP client does not have; leave it "
                "out, or limit the client with [scripts] seconds"
            )
        for cell in self.cells():
            if self.script(cell.kind) is None:
                self.agent(cell)

    def script(self, kind: str) -> Script | None:
        """Return the scripted analyst with this name, or None for a registered kind."""
        return next((each for each in self.scripts if each.name == kind), None)

    def takes(self, kind: str) -> tuple[Trait, ...]:
        """Return the traits of a kind of analyst; scripted ones have none."""
        return agent_entry(kind).takes if self.script(kind) is None else ()

    def cells(self) -> tuple[Cell, ...]:
        """Return all cells of the grid, with the last axis varying fastest."""
        return tuple(dict.fromkeys(self._product()))

    def _product(self) -> Iterator[Cell]:
        budgets: tuple[int | None, ...] = self.stop.runs or (None,)
        for table, strategy, kind in itertools.product(self.tables, self.strategies, self.kinds):
            takes = self.takes(kind)
            for insight, confidence, learning, runs, exploitation in itertools.product(
                self.insights if "insight" in takes else (None,),
                self.confidences if "confidence" in takes else (None,),
                self.learning if "learning" in takes else (None,),
                budgets,
                self.stop.exploitation,
            ):
                yield Cell(
                    table.name, strategy, kind, insight, confidence, learning, runs, exploitation
                )

    def agent(self, cell: Cell, store: Path | None = None) -> Agent:
        """Return the analyst that plays the episodes of a cell.

        ``store`` is the file of the episode, which an MCP client needs. Raises AssistantError if a
        callable cannot be imported.
        """
        script = self.script(cell.kind)
        if script is not None and script.kind == "script":
            return ScriptedAnalyst(script.name, script.load(), self.limits)
        if script is not None:
            if store is None:
                raise AssistantError(f"the MCP client '{script.name}' needs a file for its episode")
            return McpAnalyst(script.name, script, store, self.limits)
        detail, manner = self.insight, self.manner
        insight = Insight(
            cell.insight or "none", detail.members, detail.best, detail.worst, detail.least
        )
        return agent_entry(cell.kind).build(
            insight=insight,
            confidence=100 if cell.confidence is None else cell.confidence,
            learning=self.learner if cell.learning else None,
            batch=manner.batch,
            acceptance=manner.acceptance,
            reaction_s=manner.reaction_s,
        )

    def max_runs(self, cell: Cell, size: int) -> int:
        """Return the maximum number of runs of an episode in a space of ``size`` configurations."""
        return cell.runs or max(1, math.floor(self.stop.censored_at * size))

    def clustering(self, cell: Cell) -> ClusteringAdvice | None:
        """Return the settings of the clustering advice for a cell, or None without advice."""
        if cell.exploitation is None or cell.runs is None:
            return None
        return ClusteringAdvice(math.ceil(self.stop.advised_from * cell.runs), cell.exploitation)


_INSIGHT, _LEARNER, _MANNER, _STOP = Insight(), Learning(), AnalystProfile(), StoppingRule()
_LIMITS = ScriptLimits()
ACCEPTANCE = {"never": 0.0, "always": 1.0}

Application = Literal["flood", "scheduling", "maze"]
"""Applications that a study can name instead of a table; they are measured before it starts."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Request for the measured table of an application that a study needs."""

    name: Application  # name of the application
    log: Path | None = None  # job log of scheduling; None is the built-in workload
    first: int | None = None  # number of jobs of the log, from its beginning; None is all


Measure = Callable[[TableRequest], Path]
"""Function that returns the measured table of an application, and makes it if necessary."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Strategy(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str


class _Script(_Strict):
    name: str = ""
    script: str | None = None
    mcp: str | None = None


class _Limits(_Strict):
    decisions: int | None = _LIMITS.decisions
    seconds: float = _LIMITS.seconds


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
    kinds: list[str | _Script] = [KIND]
    insights: list[Kind] = list(INSIGHTS)
    confidences: list[int] = list(CONFIDENCES)
    learning: list[bool] = list(LEARNING)
    stop: _Stop = _Stop()
    insight: _Insight = _Insight()
    learner: _Learner = _Learner()
    analyst: _Analyst = _Analyst()
    scripts: _Limits = _Limits()
    scheduling: _Scheduling = _Scheduling()


_TABLES: dict[str, type[BaseModel]] = {
    "stop": _Stop, "insight": _Insight, "learner": _Learner, "analyst": _Analyst,
    "scripts": _Limits, "scheduling": _Scheduling,
}  # fmt: skip


def read_study(path: Path, measure: Measure | None = None) -> tuple[Study, str, int | None]:
    """Read a study from a TOML file, and return it with its text and number of workers.

    Paths are relative to the file; a table's name is that of its file, without suffix. ``measure``
    makes the tables of the named applications. Raises `AssistantError` with the first fault, in one
    sentence.
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
    """Parse a study from TOML text, and return it with its number of workers.

    ``where`` names the text in messages, and paths are relative to ``folder``; see `read_study`.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or maliciously nested
        raise SettingsError(f"{where} is not TOML: {error}") from error
    read = _checked(tables, where)
    scripts = tuple(_script(each, where, folder) for each in read.kinds if _is_script(each))
    names = iter(scripts)
    study = Study(
        name=read.name or name,
        tables=_tables(read, where, folder, measure),
        seed=read.seed,
        replications=read.replications,
        strategies=tuple(map(_strategy_choice, read.strategies)),
        kinds=tuple(next(names).name if _is_script(each) else str(each) for each in read.kinds),
        insights=tuple(read.insights),
        confidences=tuple(read.confidences),
        learning=tuple(read.learning),
        stop=_stop(read.stop),
        insight=Insight("none", **dict(read.insight)),
        learner=Learning(**dict(read.learner)),
        manner=_manner(read.analyst),
        scripts=scripts,
        limits=ScriptLimits(**dict(read.scripts)),
    )
    return study, read.workers


def with_scripts(study: Study, scripts: Sequence[Script]) -> Study:
    """Return a study that plays more scripted analysts beside its own kinds."""
    return replace(
        study,
        kinds=(*study.kinds, *(script.name for script in scripts)),
        scripts=(*study.scripts, *scripts),
    )


def _is_script(kind: str | _Script) -> TypeGuard[_Script]:
    return isinstance(kind, _Script)


def _script(setting: _Script, where: str, folder: Path) -> Script:
    if (setting.script is None) == (setting.mcp is None):
        raise SettingsError(
            f"{where}: a scripted analyst of 'kinds' needs either script (module:function or "
            "file.py:function) or mcp (the command of a client)"
        )
    kind: Literal["script", "mcp"] = "mcp" if setting.script is None else "script"
    target = setting.script or setting.mcp or ""
    if not setting.name:
        return Script.named(kind, target, str(folder))
    return Script(setting.name, kind, target, str(folder))


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
            f"{where}: [scheduling] needs 'scheduling' among the applications; add it there"
        )
    if about.first is not None and about.log is None:
        raise SettingsError(f"{where}: 'scheduling.first' needs a log; name it with 'log'")
    if read.applications and measure is None:
        raise SettingsError(
            f"{where} names applications, which are measured by copperline agents run; in Python "
            "give read_study a function that makes their tables (measure)"
        )
    log = None if about.log is None else folder / about.log
    requests = {"scheduling": TableRequest("scheduling", log, about.first)}
    tables = []
    for name in read.applications:
        request = requests.get(name, TableRequest(name))
        tables.append(Table(name, str(measure(request)) if measure is not None else ""))
    return (*tables, *(Table(Path(path).stem, str(folder / path)) for path in read.tables))


def _checked(tables: dict[str, Any], where: str) -> _StudyFile:
    try:
        return _StudyFile.model_validate(tables)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error)}") from error


def _strategy_choice(setting: str | _Strategy) -> StrategyChoice:
    if isinstance(setting, str):
        return StrategyChoice(setting)
    return StrategyChoice(setting.name, tuple(sorted((setting.model_extra or {}).items())))


def _stop(settings: _Stop) -> StoppingRule:
    runs = [settings.runs] if isinstance(settings.runs, int) else settings.runs
    return StoppingRule(
        tuple(runs),
        tuple(None if level == "none" else level for level in settings.exploitation) or (None,),
        settings.advised_from,
        settings.censored_at,
        settings.deadline_s,
        settings.run_s,
        settings.goal,
    )


def _manner(settings: _Analyst) -> AnalystProfile:
    acceptance = settings.acceptance
    if isinstance(acceptance, str):
        acceptance = ACCEPTANCE[acceptance]
    return AnalystProfile(_MANNER.confidence, settings.batch, acceptance, settings.reaction_s)


def _sentence(error: ValidationError) -> str:
    """Return pydantic's first finding as one sentence: problem, place and allowed values."""
    faults = error.errors()
    first = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        model = _TABLES.get(str(first["loc"][0]), _StudyFile)
        return f"there is no setting '{place}'{hint(str(first['loc'][-1]), model.model_fields)}"
    value = first["input"]
    value_text = f", not {value!r}" if isinstance(value, bool | int | float | str) else ""
    return f"'{place}' {first['msg'].removeprefix('Input ')}{value_text}"


def study_text(study: Study, folder: Path) -> str:
    """Return a study as TOML text, with table paths relative to a folder."""
    stop = study.stop
    top = {
        "name": study.name,
        "seed": study.seed,
        "replications": study.replications,
        "tables": [Path(relpath(table.path, folder)).as_posix() for table in study.tables],
        "strategies": [_strategy(entry) for entry in study.strategies],
        "kinds": [_kind(study.script(kind) or kind, folder) for kind in study.kinds],
        "insights": list(study.insights),
        "confidences": list(study.confidences),
        "learning": list(study.learning),
    }
    ends: dict[str, object] = {
        "runs": list(stop.runs),
        "advised_from": stop.advised_from,
        "censored_at": stop.censored_at,
        "run_s": stop.run_s,
    }
    if stop.exploitation != (None,):
        ends["exploitation"] = ["none" if entry is None else entry for entry in stop.exploitation]
    for name in ("deadline_s", "goal"):
        value = getattr(stop, name, None)
        if value is not None:
            ends[name] = value
    insight = {name: value for name, value in asdict(study.insight).items() if name != "kind"}
    manner = {name: value for name, value in asdict(study.manner).items() if name != "confidence"}
    parts = {"stop": ends, "insight": insight, "learner": asdict(study.learner), "analyst": manner}
    limits = {n: value for n, value in asdict(study.limits).items() if value is not None}
    if study.scripts:
        parts["scripts"] = limits
    text = _lines(top)
    for name, table in parts.items():
        text += f"\n[{name}]\n{_lines(table)}"
    return text


def _kind(kind: Script | str, folder: Path) -> object:
    if isinstance(kind, str):
        return kind
    return {"name": kind.name, kind.kind: kind.target_from(folder)}


def _strategy(choice: StrategyChoice) -> object:
    return {"name": choice.name, **dict(choice.options)} if choice.options else choice.name


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in table.items())


def _value(value: object) -> str:
    """Return a value as TOML; texts, numbers and truth values as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(entry)}" for name, entry in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
