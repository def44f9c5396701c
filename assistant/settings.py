"""A sweep as a TOML file: read strictly, refused with one sentence, built into an application.

Every key is checked before anything runs; an unknown one is an error, not a comment. Paths in a
file are relative to that file. The same settings are what the command line's options fill in.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assistant.applications import Command, Lookup, Scheduling, Today
from assistant.applications.schema import (
    CommandSettings,
    DurationS,
    FunctionSettings,
    LevelValue,
    LogarithmicSettings,
    MeasuresSettings,
    ParameterSettings,
    RangeSettings,
    Strict,
)
from assistant.errors import SettingsError
from assistant.objective import (
    Constraint,
    Goal,
    Objective,
    Rmse,
    Second,
    Value,
    WeightedSum,
    Wrapper,
)
from assistant.ports import Application
from assistant.sla import WarnRule, Watch
from sim.api import default_workload, load_workload, rules_from_texts
from strategies import (
    DEFAULT_STRATEGY,
    Exclusion,
    Level,
    ParameterSpace,
    RegionRule,
    make_strategy,
)


class TodaySettings(Strict):
    """How the cluster is run now."""

    order: str = "fcfs"
    backfill: str = "easy"


class SchedulingSettings(Strict):
    """``[application]`` with ``kind = "scheduling"``."""

    kind: Literal["scheduling"] = "scheduling"
    log: str | None = None
    first: int | None = Field(default=None, ge=1)
    procs: int | None = Field(default=None, ge=1, le=10**12)
    today: TodaySettings = TodaySettings()
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    reading: dict[str, str] = Field(default_factory=dict)
    small_job_below: DurationS = 3600.0
    small_job_wait: DurationS = 10800.0
    too_wide: Literal["reject", "clip"] = "reject"
    overrun: Literal["raise", "kill"] = "raise"


class LookupSettings(Strict):
    """``[application]`` with ``kind = "lookup"``."""

    kind: Literal["lookup"]
    table: str


class StrategySettings(BaseModel):
    """``[strategy]``: a name, and the options of that strategy beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = DEFAULT_STRATEGY

    @property
    def options(self) -> dict[str, Level]:
        """The strategy's own options."""
        return dict(self.model_extra or {})


class RmseSettings(Strict):
    """A series measure and what it should have been."""

    measure: str
    reference: list[float]


class ConstraintSettings(Strict):
    """``[[objective.constraints]]``: a bound on one measure."""

    measure: str
    at_most: float | None = None
    at_least: float | None = None
    label: str = ""


class ObjectiveSettings(Strict):
    """``[objective]``: exactly one of minimise, maximise, weighted and rmse; perhaps a second."""

    minimise: str | None = None
    maximise: str | None = None
    weighted: dict[str, float] | None = None
    rmse: RmseSettings | None = None
    unit: str | None = None
    second: str | None = None
    second_goal: Goal | None = None
    constraints: list[ConstraintSettings] = Field(default_factory=list)
    without: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one(self) -> "ObjectiveSettings":
        if self._n_named > 1:
            raise ValueError("name only one of minimise, maximise, weighted and rmse")
        if self.second_goal is not None and self.second is None:
            raise ValueError("'second_goal' is about a second measure; name it with 'second'")
        return self

    @property
    def _n_named(self) -> int:
        named = [self.minimise, self.maximise, self.weighted, self.rmse]
        return sum(x is not None for x in named)

    @property
    def names_one(self) -> bool:
        """Whether it says what is wanted, not only constraints or a unit."""
        return self._n_named == 1


class WatchSettings(Strict):
    """``[watch]``: which results are good, what is pending, and when to warn."""

    good: Literal["quantile", "threshold", "verdicts"] = "quantile"
    quantile: float = Field(default=0.3, gt=0, le=1)
    threshold: float | None = None
    eps: float | None = Field(default=None, gt=0)
    min_samples: int = Field(default=3, ge=1)
    pending: Literal["near", "queued", "box", "plan"] = "near"
    warn_from: float = Field(default=0.0, ge=0, le=1)
    advised: float = Field(default=0.7, ge=0, le=1)
    rule: WarnRule = "auto"
    warn_at: float | None = Field(default=None, gt=0, lt=1)


DEFAULT_RUNS = 60
"""The budget of runs where neither runs nor a deadline is said."""


class SweepSettings(Strict):
    """The whole file."""

    name: str = ""
    seed: int = Field(default=0, ge=0)
    runs: int | None = Field(default=None, ge=1)
    initial: int = Field(default=10, ge=0)
    batch: int | None = Field(default=None, ge=1)
    workers: int = Field(default=1, ge=1)
    deadline: DurationS | None = None
    exploitation: float | None = Field(default=None, ge=0, le=1)
    advice: Literal["accept", "ignore"] = "ignore"
    results: list[str] = Field(default_factory=list)
    replicates: bool = False
    plan: dict[str, list[LevelValue]] = Field(default_factory=dict)
    watch: WatchSettings = WatchSettings()
    application: SchedulingSettings | LookupSettings | CommandSettings | FunctionSettings = Field(
        default_factory=SchedulingSettings, discriminator="kind"
    )
    parameters: list[ParameterSettings] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    strategy: StrategySettings = StrategySettings()
    objective: ObjectiveSettings | None = None
    run: list[dict[str, LevelValue]] = Field(default_factory=list)

    @property
    def max_runs(self) -> int | None:
        """The budget of runs: as said, else 60 unless a deadline is the only limit."""
        if self.runs is None and self.deadline is None:
            return DEFAULT_RUNS
        return self.runs


@dataclass(frozen=True, slots=True)
class Sweep:
    """Settings made real: what a session is opened with."""

    settings: SweepSettings
    application: Application
    space: ParameterSpace
    objective: Objective
    watch: Watch


def read_settings(path: Path) -> dict[str, Any]:
    """Return the tables of a sweep file, paths in it made absolute.

    Raises:
        SettingsError: no such file, or not TOML; the sentence says the line.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the sweep file '{path}': {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or built to hurt
        raise SettingsError(f"the sweep file '{path}' is not TOML: {error}") from error
    application = tables.get("application")
    if isinstance(application, dict):
        place = {"command": "cwd", "function": "folder"}.get(_kind(application))
        if place is not None:
            tables.setdefault("name", path.stem)
            if isinstance(application.setdefault(place, "."), str):
                application[place] = str((path.parent / application[place]).absolute())
        for key in ("log", "table"):
            if isinstance(application.get(key), str):
                application[key] = str(path.parent / application[key])
    return tables


def check_settings(tables: Mapping[str, Any], where: str) -> SweepSettings:
    """Return validated settings. Raises SettingsError with one sentence for the first fault."""
    tables = dict(tables)
    application = tables.get("application")
    if isinstance(application, Mapping) and "kind" not in application:
        tables["application"] = {"kind": _kind(application), **application}
    try:
        return SweepSettings.model_validate(tables)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error)}") from error


def _kind(application: Mapping[str, Any]) -> str:
    """Return the kind of an application, from what is given if it is not said."""
    told = {"table": "lookup", "command": "command", "function": "function"}
    implied = next((kind for key, kind in told.items() if key in application), "scheduling")
    return str(application.get("kind", implied))


def build_sweep(settings: SweepSettings) -> Sweep:
    """Read the log or table, build the application and its objective.

    Raises:
        AssistantError, SimError, StrategyError: the first thing that is wrong, in one sentence.
    """
    make_strategy(settings.strategy.name, **settings.strategy.options)
    application = _application(settings)
    space = application.space
    for text in settings.exclude:
        space = space.excluding(Exclusion.parse(text))
    if settings.exclude:
        space.count_allowed()  # a condition that cannot be evaluated somewhere is refused now
    objective = _objective(settings.objective, application.objective)
    _check_measures(objective, application)
    return Sweep(settings, application, space, objective, _watch(settings.watch, objective))


def _watch(chosen: WatchSettings, objective: Objective) -> Watch:
    """Return how the budget is watched; a threshold is given as a measured value."""
    threshold = chosen.threshold
    if threshold is not None and objective.goal == "minimise":
        threshold = -threshold
    rule = RegionRule(
        good=chosen.good,
        threshold=threshold,
        quantile=chosen.quantile,
        eps=chosen.eps,
        min_samples=chosen.min_samples,
    )
    return Watch(
        rule, chosen.pending, chosen.warn_from, chosen.advised, chosen.rule, chosen.warn_at
    )


def _application(settings: SweepSettings) -> Application:
    chosen = settings.application
    if isinstance(chosen, CommandSettings | FunctionSettings):
        return _own_program(settings, chosen)
    if settings.parameters:
        raise SettingsError(
            "[[parameters]] describe a program of your own, with kind 'command' or 'function'; "
            f"those of kind '{chosen.kind}' are given"
            + (", levels for them stand in [application.levels]" * (chosen.kind == "scheduling"))
        )
    if isinstance(chosen, LookupSettings):
        return Lookup.read(chosen.table)
    if chosen.log is None:
        if chosen.first is not None or chosen.reading:
            raise SettingsError("'first' and 'reading' are about a log; name it with log")
        workload = default_workload(settings.seed)
    else:
        rules = rules_from_texts(chosen.reading)
        workload = load_workload(Path(chosen.log), rules=rules, first=chosen.first)
    return Scheduling(
        workload,
        procs=chosen.procs,
        today=Today(chosen.today.order, chosen.today.backfill),
        levels={name: tuple(levels) for name, levels in chosen.levels.items()},
        small_job_below_s=chosen.small_job_below,
        small_job_wait_s=chosen.small_job_wait,
        too_wide=chosen.too_wide,
        overrun=chosen.overrun,
    )


def _own_program(
    settings: SweepSettings, chosen: CommandSettings | FunctionSettings
) -> Application:
    wanted = settings.objective
    if wanted is None or not wanted.names_one:
        raise SettingsError(
            "a program of your own needs an [objective]: say minimise or maximise with the name "
            "of a measure, such as minimise = 'wall_s' for the time of a run"
        )
    if not settings.parameters:
        raise SettingsError(
            "a program of your own needs at least one [[parameters]] with a name and levels"
        )
    objective = _objective(wanted, Objective(Value("")))
    application = chosen.build(settings.parameters, objective)
    if isinstance(application, Command) and settings.workers > 1 and not application.apart:
        raise SettingsError(
            "with several workers two runs would write the same file of measures; put {scratch} "
            "or {seed} into its name"
        )
    return application


def _objective(chosen: ObjectiveSettings | None, default: Objective) -> Objective:
    if chosen is None:
        return default
    constraints = _constraints(chosen, default.constraints)
    wrapper: Wrapper = default.wrapper
    goal = default.goal
    if chosen.minimise is not None:
        wrapper, goal = Value(chosen.minimise), "minimise"
    elif chosen.maximise is not None:
        wrapper, goal = Value(chosen.maximise), "maximise"
    elif chosen.weighted is not None:
        wrapper, goal = WeightedSum(tuple(chosen.weighted.items())), "minimise"
    elif chosen.rmse is not None:
        wrapper, goal = Rmse(chosen.rmse.measure, tuple(chosen.rmse.reference)), "minimise"
    unit = chosen.unit
    if unit is None:
        unit = default.unit if wrapper == default.wrapper else _unit_of(wrapper)
    second = default.second
    if chosen.second is not None:
        also = Value(chosen.second)
        second = Second(also, chosen.second_goal or "minimise", _unit_of(also))
    return Objective(wrapper, goal, constraints, unit, second)


def _unit_of(wrapper: Wrapper) -> str:
    return "s" if isinstance(wrapper, Value) and wrapper.measure.endswith("_s") else ""


_LEVEL_TYPES = ("bool", "int", "float", "str")


def _constraints(chosen: ObjectiveSettings, own: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """Return the application's constraints and the analyst's.

    Hers replace those on the same measure; others go only if ``without`` names them.
    """
    hers = tuple(Constraint(**c.model_dump()) for c in chosen.constraints)
    measures = [constraint.measure for constraint in own]
    for name in chosen.without:
        if name not in measures:
            raise SettingsError(
                f"'without' names '{name}', on which the application has no constraint"
                f"{_hint(name, measures)}"
            )
    replaced = {constraint.measure for constraint in hers} | set(chosen.without)
    return (*(c for c in own if c.measure not in replaced), *hers)


def _check_measures(objective: Objective, application: Application) -> None:
    """Refuse a measure that the application is known not to give."""
    known = application.measures
    for name in objective.measures:
        if known is not None and name not in known:
            raise SettingsError(
                f"the {application.name} application has no measure '{name}'"
                f"{_hint(name, list(known))}"
            )


def _sentence(error: ValidationError) -> str:
    """Return pydantic's first finding as one sentence: what, where, what is allowed."""
    faults = error.errors()
    first = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    location = first["loc"]
    if location[:1] == ("application",):  # the kind that pydantic puts behind it is ours
        location = (location[0], *location[2:])
    given = first["input"]
    if location and location[-1] in _LEVEL_TYPES:
        place = ".".join(map(str, location[:-1]))
        return f"'{place}' should be a number, a text or a truth value, not {given!r}"
    place = ".".join(map(str, location))
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"])
        return f"there is no setting '{place}'{_hint(place.rsplit('.')[-1], known)}"
    more = len(faults) - 1
    tail = f" (and {more} more)" if more else ""
    shown = f", not {given!r}" if isinstance(given, bool | int | float | str) else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"'{place}' {message}{shown}{tail}" if place else f"{message}{tail}"


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {
        "scheduling": SchedulingSettings,
        "lookup": LookupSettings,
        "command": CommandSettings,
        "function": FunctionSettings,
        "measures": MeasuresSettings,
        "parameters": ParameterSettings,
        "range": RangeSettings,
        "logarithmic": LogarithmicSettings,
        "today": TodaySettings,
        "objective": ObjectiveSettings,
        "watch": WatchSettings,
        "constraints": ConstraintSettings,
        "rmse": RmseSettings,
    }
    owner = [models[part] for part in location[:-1] if isinstance(part, str) and part in models]
    return list((owner[-1] if owner else SweepSettings).model_fields)


def _hint(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    meant = f"; did you mean '{close[0]}'?" if close else "."
    return f"{meant} Known: {', '.join(sorted(known))}."
