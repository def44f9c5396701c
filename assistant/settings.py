"""A sweep as a TOML file: read strictly, refused with one sentence, built into an application.

Every key is checked before anything runs; an unknown one is an error, not a comment. Paths in a
file are relative to that file. The same settings are what the command line's options fill in.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from assistant.applications import Lookup, Scheduling, Today
from assistant.errors import SettingsError
from assistant.objective import Constraint, Objective, Rmse, Value, WeightedSum, Wrapper
from assistant.ports import Application
from sim import default_workload, load_workload
from sim.traces.rules import rules_from_texts
from sim.units import parse_duration
from strategies import Exclusion, Level, ParameterSpace, make_strategy

LevelValue = bool | int | float | str


def _duration_s(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


DurationS = Annotated[float, BeforeValidator(_duration_s), Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TodaySettings(_Strict):
    """How the cluster is run now."""

    order: str = "fcfs"
    backfill: str = "easy"


class SchedulingSettings(_Strict):
    """``[application]`` with ``kind = "scheduling"``."""

    kind: Literal["scheduling"] = "scheduling"
    log: str | None = None
    first: int | None = Field(default=None, ge=1)
    procs: int | None = Field(default=None, ge=1)
    today: TodaySettings = TodaySettings()
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    reading: dict[str, str] = Field(default_factory=dict)
    small_job_below: DurationS = 3600.0
    small_job_wait: DurationS = 10800.0
    too_wide: Literal["reject", "clip"] = "reject"
    overrun: Literal["raise", "kill"] = "raise"


class LookupSettings(_Strict):
    """``[application]`` with ``kind = "lookup"``."""

    kind: Literal["lookup"]
    table: str


class StrategySettings(BaseModel):
    """``[strategy]``: a name, and the options of that strategy beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "grasp"

    @property
    def options(self) -> dict[str, Level]:
        """The strategy's own options."""
        return dict(self.model_extra or {})


class RmseSettings(_Strict):
    """A series measure and what it should have been."""

    measure: str
    reference: list[float]


class ConstraintSettings(_Strict):
    """``[[objective.constraints]]``: a bound on one measure."""

    measure: str
    at_most: float | None = None
    at_least: float | None = None
    label: str = ""


class ObjectiveSettings(_Strict):
    """``[objective]``: exactly one of minimise, maximise, weighted and rmse."""

    minimise: str | None = None
    maximise: str | None = None
    weighted: dict[str, float] | None = None
    rmse: RmseSettings | None = None
    unit: str | None = None
    constraints: list[ConstraintSettings] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ObjectiveSettings":
        named = [self.minimise, self.maximise, self.weighted, self.rmse]
        if sum(x is not None for x in named) > 1:
            raise ValueError("name only one of minimise, maximise, weighted and rmse")
        return self


class SweepSettings(_Strict):
    """The whole file."""

    name: str = ""
    seed: int = Field(default=0, ge=0)
    runs: int = Field(default=60, ge=1)
    initial: int = Field(default=10, ge=0)
    batch: int = Field(default=5, ge=1)
    workers: int = Field(default=1, ge=1)
    application: SchedulingSettings | LookupSettings = Field(
        default_factory=SchedulingSettings, discriminator="kind"
    )
    exclude: list[str] = Field(default_factory=list)
    strategy: StrategySettings = StrategySettings()
    objective: ObjectiveSettings | None = None
    run: list[dict[str, LevelValue]] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Settings made real: what a session is opened with."""

    settings: SweepSettings
    application: Application
    space: ParameterSpace
    objective: Objective


def read_settings(path: Path) -> dict[str, Any]:
    """Return the tables of a sweep file, paths in it made absolute.

    Raises:
        SettingsError: no such file, or not TOML; the sentence says the line.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the sweep file '{path}': {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the sweep file '{path}' is not TOML: {error}") from error
    application = tables.get("application")
    if isinstance(application, dict):
        for key in ("log", "table"):
            if isinstance(application.get(key), str):
                application[key] = str(path.parent / application[key])
    return tables


def check_settings(tables: Mapping[str, Any], where: str) -> SweepSettings:
    """Return validated settings. Raises SettingsError with one sentence for the first fault."""
    tables = dict(tables)
    application = tables.get("application")
    if isinstance(application, Mapping) and "kind" not in application:
        kind = "lookup" if "table" in application else "scheduling"
        tables["application"] = {"kind": kind, **application}
    try:
        return SweepSettings.model_validate(tables)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error)}") from error


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
    objective = _objective(settings.objective, application.objective)
    return Sweep(settings, application, space, objective)


def _application(settings: SweepSettings) -> Application:
    chosen = settings.application
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


def _objective(chosen: ObjectiveSettings | None, default: Objective) -> Objective:
    if chosen is None:
        return default
    constraints = default.constraints
    if chosen.constraints is not None:
        constraints = tuple(Constraint(**c.model_dump()) for c in chosen.constraints)
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
        same = wrapper == default.wrapper
        seconds = isinstance(wrapper, Value) and wrapper.measure.endswith("_s")
        unit = default.unit if same else "s" if seconds else ""
    return Objective(wrapper, goal, constraints, unit)


def _sentence(error: ValidationError) -> str:
    """Return pydantic's first finding as one sentence: what, where, what is allowed."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("scheduling", "lookup"))
    given = first["input"]
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"])
        return f"there is no setting '{place}'{_hint(place.rsplit('.')[-1], known)}"
    more = len(error.errors()) - 1
    tail = f" (and {more} more)" if more else ""
    shown = f", not {given!r}" if isinstance(given, bool | int | float | str) else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"'{place}' {message}{shown}{tail}" if place else f"{message}{tail}"


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {
        "scheduling": SchedulingSettings,
        "lookup": LookupSettings,
        "today": TodaySettings,
        "objective": ObjectiveSettings,
        "constraints": ConstraintSettings,
        "rmse": RmseSettings,
    }
    owner = [models[part] for part in location[:-1] if isinstance(part, str) and part in models]
    return list((owner[-1] if owner else SweepSettings).model_fields)


def _hint(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    meant = f"; did you mean '{close[0]}'?" if close else "."
    return f"{meant} Known: {', '.join(sorted(known))}."
