"""Sweep file (TOML): reading and checking, building of the application, and writing.

Every key is checked before anything runs; an unknown one is an error. Paths are relative to the
file. The command line's options fill in the same settings.
The format: https://toml.io/en/v1.0.0. The writer puts scalars first, then tables, then arrays of
tables, so that reading the text gives the same tables again.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    ConfigDict,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from assistant.applications import APPLICATIONS
from assistant.applications.lookup import Lookup
from assistant.config.application import (
    CommandSettings,
    FunctionSettings,
    LookupSettings,
    ParameterSettings,
    RestSettings,
)
from assistant.config.fields import (
    DurationS,
    LevelValue,
    StrictModel,
    field_at,
    model_at,
    setting,
)
from assistant.config.models import (
    PATHS,
    CostSettings,
    EarlyStoppingSettings,
    EnvironmentSettings,
    ExecutorSettings,
    HookSettings,
    ObjectiveSettings,
    OrName,
    StrategySettings,
    WarningPolicySettings,
    check_measures,
    check_tariff,
    objective_of,
)
from assistant.config.simulation import (
    AiPlatformSettings,
    FloodSettings,
    MazeSettings,
    PlacementSettings,
    SchedulingSettings,
)
from assistant.core.bounds import (
    BATCH,
    INITIAL,
    RUNS,
    SEED,
    VALUE,
    WORKERS,
)
from assistant.core.errors import SettingsError, hint
from assistant.core.files import read_text
from assistant.core.objective import Objective, SingleMeasure
from assistant.core.ports import Application
from assistant.core.sla import AtGoal, Sla, WarningPolicy
from assistant.executors.spec import LOCAL, ExecutorSpec
from assistant.hooks.notices import resolve_hook_folder
from sim.api import Workload, load_workload
from sim.formats import rules_from_texts
from sim.generators import default_workload
from strategies import (
    Exclusion,
    MeasuredTable,
    ParameterSpace,
    RegionRule,
    make_strategy,
)

ApplicationSettings: TypeAlias = (
    SchedulingSettings
    | LookupSettings
    | CommandSettings
    | FunctionSettings
    | RestSettings
    | FloodSettings
    | MazeSettings
    | AiPlatformSettings
    | PlacementSettings
)


FILES_NAMED = ("log", "accounts", "table", "statistics", "trace", "model", "nodes")

OWN_PROGRAMS = tuple(entry.name for entry in APPLICATIONS if entry.is_users)
"""Kinds of ``[application]`` that take ``[[parameters]]`` and ``[objective]`` from the file."""

DEFAULT_RUNS = 60  # Default budget of runs, without runs, deadline or cost limit


class SweepSettings(StrictModel):
    """Validated settings of a sweep file, with all its settings tables."""

    name: str = setting(
        "Name of the experiment.", "", title="Name of the experiment", usual="the file's name"
    )
    preset: Literal["copper"] | None = setting(
        "`copper` is the paper's loop: strategy, blocks, warnings from 70 % on.", None
    )
    seed: Annotated[int, SEED] = setting(
        "Seed of all random choices of the sweep.", 0, title="Seed of all random choices"
    )
    runs: Annotated[int, RUNS] | None = setting(
        "Budget of runs.", None, title="Budget of runs",
        usual="60, unless a deadline or a cost limit is set",
    )  # fmt: skip
    initial: Annotated[int, INITIAL] = setting(
        "First runs, chosen without results.", 10, title="First runs"
    )
    batch: Annotated[int, BATCH] | None = setting(
        "Suggestions in a batch.", None, title="Suggestions per batch",
        usual="as many as run at once; for copper 5",
    )  # fmt: skip
    workers: Annotated[int, WORKERS] = setting("Runs at once.", 1, title="Runs at once")
    executor: ExecutorSettings | None = setting("Where runs execute.", None)
    environment: EnvironmentSettings = setting(
        "Cores and memory that each run needs.", EnvironmentSettings()
    )
    deadline: DurationS | None = setting(
        "Deadline of all runs, as time from the start of the command.", None,
        title="Deadline, from now", usual="none", example="30m",
    )  # fmt: skip
    goal: Annotated[float, VALUE] | None = setting(
        "Target value of the objective; reaching it ends the sweep.", None,
        title="Goal: value to reach", usual="none",
    )  # fmt: skip
    at_goal: AtGoal = setting(
        "What an auto-steered sweep does at the goal.", "stop", title="At the goal"
    )
    keep_going: bool = setting(
        "Go on although the current configuration, or each of the first 3 runs, fails.", False,
        title="Keep going although the current configuration, or each of the first 3 runs, fails",
    )  # fmt: skip
    run_limit: DurationS | None = setting(
        "Time limit of a single run; a longer run fails. A program of your own is stopped at the "
        "limit, another application is checked when it ends.", None, title="Run limit",
        usual="no limit", example="10m",
    )  # fmt: skip
    cost: CostSettings | None = setting("Price of a run, and the cost limit.", None)
    exploitation: float | None = setting(
        "Share of suggestions inside regions of good results, 0 to 1.", None, ge=0, le=1,
        title="Share inside regions (exploitation)", usual="no split",
    )  # fmt: skip
    refine: bool = setting(
        "Add levels near the best result to each `range` without a step.", True,
        title="Add levels to ranges near the best result",
    )  # fmt: skip
    warnings: Literal["accept", "ignore", "wait"] = setting(
        "What an auto-steered sweep does at a warning.", "ignore", title="At a warning"
    )
    results: list[str] = setting(
        "Earlier results (CSV: parameters, measures); they use no run.", []
    )
    learn_from: list[str] = setting(
        "Stored experiments (names or identifiers) whose results guide the search; they are no "
        "results of this sweep.", [], title="Learn from earlier experiments",
    )  # fmt: skip
    replicates: bool = setting("Import further results of a configuration as replicates.", False)
    plan: dict[str, list[LevelValue]] = setting(
        'Ranges of values by parameter, for `pending = "plan"`.', {}
    )
    warning_policy: WarningPolicySettings = setting(
        "Rules for regions and warnings.", WarningPolicySettings()
    )
    early_stopping: EarlyStoppingSettings | None = setting(
        "Rule that stops hopeless runs.", None, usual="none is stopped"
    )
    hooks: HookSettings = setting(
        "Programs started on warnings, at the end and on failures.", HookSettings()
    )
    application: ApplicationSettings = setting(
        "What a run executes.", SchedulingSettings(), discriminator="kind"
    )
    parameters: list[ParameterSettings] = setting("Parameters of a program of your own.", [])
    exclude: list[str] = setting(
        'Conditions on parameters, such as `"small_procs > 64"`, never proposed.', [],
        title="Exclude combinations that meet a condition (one per line)",
    )  # fmt: skip
    strategy: Annotated[StrategySettings, OrName()] = setting(
        "The strategy, with its options beside its name; also only its name.", StrategySettings()
    )
    objective: ObjectiveSettings | None = setting(
        "The objective.", None, usual="the application's own"
    )
    run: list[dict[str, LevelValue]] = setting(
        "Your own first configurations; what is left out is as in the current one.", []
    )

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, tables: Any) -> Any:
        """Expand ``strategy = "NAME"``, and a preset below what the tables say themselves."""
        if not isinstance(tables, Mapping):
            return tables
        return with_preset(with_strategy_table(tables))

    @property
    def max_runs(self) -> int | None:
        """Budget of runs; by default 60, or None if a deadline or cost limit is set."""
        max_cost = None if self.cost is None else self.cost.limit
        if self.runs is None and self.deadline is None and max_cost is None:
            return DEFAULT_RUNS
        return self.runs

    @property
    def place(self) -> ExecutorSpec:
        """Specification of the executor; raises SettingsError if it is invalid."""
        spec = LOCAL if self.executor is None else self.executor.build()
        return replace(spec, environment=self.environment.build())

    def sla(self, now_s: float) -> Sla:
        """Return the SLA, with the deadline counted from ``now_s``, or raise SettingsError."""
        return Sla(
            max_runs=self.max_runs,
            deadline_s=None if self.deadline is None else now_s + self.deadline,
            max_cost=None if self.cost is None else self.cost.limit,
            tariff=None if self.cost is None else self.cost.tariff,
            goal=self.goal,
            run_limit_s=self.run_limit,
            at_goal=self.at_goal,
            keep_going=self.keep_going,
        )

    def check_cost(self, application: Application, space: ParameterSpace) -> None:
        """Raise SettingsError if the price uses a missing or non-numeric measure or parameter."""
        if self.cost is not None:
            check_tariff(self.cost.tariff, space, application.measures, application.name)


def sla_tables(sla: Sla) -> dict[str, Any]:
    """Return the terms of an SLA, without its deadline, as settings tables."""
    tariff = {} if sla.tariff is None else asdict(sla.tariff)
    cost = {k: v for k, v in {**tariff, "limit": sla.max_cost}.items() if v not in (None, "")}
    terms = {
        "runs": sla.max_runs, "goal": sla.goal, "run_limit": sla.run_limit_s, "cost": cost or None,
        "at_goal": sla.at_goal, "keep_going": sla.keep_going,
    }  # fmt: skip
    return {name: value for name, value in terms.items() if value is not None}


PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "copper": {
        "strategy": {"name": "copper", "effects": "blocks"},
        "warning_policy": {"rule": "paper", "warn_from": 0.7},
    }
}
"""Tables of each preset. ``copper`` is the paper's loop: GRASP on full-factorial blocks, and its
warning from 70 % of the budget on (Silva et al., section 3)."""


def with_strategy_table(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings tables in which ``strategy = "NAME"`` is the table that it stands for."""
    strategy = tables.get("strategy")
    plain = {"strategy": {"name": strategy}} if isinstance(strategy, str) else {}
    return {**tables, **plain}


def with_preset(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings tables with those of their preset, which the tables themselves override.

    Another strategy than that of the preset gets none of its options.
    """
    preset = tables.get("preset")
    merged = dict(tables)
    for name, defaults in PRESETS.get(preset if isinstance(preset, str) else "", {}).items():
        table = tables.get(name, {})
        if isinstance(table, Mapping) and table.get("name", defaults.get("name")) == defaults.get(
            "name"
        ):
            merged[name] = {**defaults, **table}
    return merged


@dataclass(frozen=True, slots=True)
class BuiltSweep:
    """Sweep built from settings: its application, space, objective and warning policy."""

    settings: SweepSettings
    application: Application
    space: ParameterSpace
    objective: Objective
    warning_policy: WarningPolicy


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings tables of a sweep file, with absolute paths, or raise SettingsError."""
    try:
        text = read_text(path, "the sweep file")
    except ValueError as error:
        raise SettingsError(f"the sweep file '{path}' is not TOML: {error}") from error
    return parse_settings(text, f"the sweep file '{path}'", path.parent, path.stem)


def parse_settings(text: str, label: str, folder: Path, name: str) -> dict[str, Any]:
    """Parse the text of a sweep file and return its settings tables, with absolute paths.

    ``label`` names it in messages, such as ``the sweep file 'a.toml'``; ``folder`` is the base of
    its paths; ``name`` is the default name of a sweep over one's own program.
    Raises SettingsError if it is not TOML; the sentence names the line.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or nested too deeply
        raise SettingsError(f"{label} is not TOML: {error}") from error
    tables = with_strategy_table(tables)
    application = tables.get("application")
    if isinstance(application, dict):
        kind = kind_of(application)
        if kind in OWN_PROGRAMS:
            tables.setdefault("name", name)
        place = {"command": "cwd", "function": "folder"}.get(kind)
        if place is not None and isinstance(application.setdefault(place, "."), str):
            application[place] = str((folder / application[place]).absolute())
        for key in FILES_NAMED:
            if isinstance(application.get(key), str):
                application[key] = str(folder / application[key])
        learned = application.get("learned")
        if isinstance(learned, dict):
            application["learned"] = {
                name: str(folder / file) if isinstance(file, str) else file
                for name, file in learned.items()
            }
        futures = application.get("futures")
        if isinstance(futures, dict) and isinstance(futures.get("model"), str):
            futures["model"] = str(folder / futures["model"])
    executor = tables.get("executor")
    for key in PATHS:
        if isinstance(executor, dict) and isinstance(executor.get(key), str):
            executor[key] = str((folder / executor[key]).absolute())
    return resolve_hook_folder(tables, folder)


def check_settings(tables: Mapping[str, Any], where: str) -> SweepSettings:
    """Validate the settings tables of a sweep file, or raise SettingsError at the first fault."""
    tables = dict(tables)
    application = tables.get("application")
    if isinstance(application, Mapping) and "kind" not in application:
        tables["application"] = {"kind": kind_of(application), **application}
    try:
        return SweepSettings.model_validate(tables)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error)}") from error
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise SettingsError(
            f"{where}: a text contains half a character ({half}); leave it out"
        ) from error


def check_value(path: str, value: Any, where: str, kind: str = "") -> None:
    """Validate the value of one key, such as ``cost.limit``, or raise SettingsError.

    ``kind`` selects the application of a key of ``[application]``.
    """
    try:
        _value_adapter(path, kind).validate_python(value)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error, tuple(path.split('.')))}") from error


@cache
def _value_adapter(path: str, kind: str) -> TypeAdapter[Any]:
    field = field_at(SweepSettings, path, kind)
    annotated: Any = Annotated
    return TypeAdapter(annotated[field.annotation, field], config=ConfigDict(strict=True))


IMPLIED_KINDS = {"table": "lookup", "command": "command", "function": "function", "url": "rest"}
"""Kind of the application by a key that implies it."""


def kind_of(application: Mapping[str, Any]) -> str:
    """Return an application's kind from its settings table, inferred from other keys if unset."""
    implied = (kind for key, kind in IMPLIED_KINDS.items() if key in application)
    return str(application.get("kind", next(implied, "scheduling")))


def has_levels(application: Mapping[str, Any]) -> bool:
    """Return whether an application's settings table takes the levels of its parameters."""
    kind = kind_of(application)
    return any(
        "levels" in model.model_fields
        for model in get_args(ApplicationSettings)
        if kind in get_args(model.model_fields["kind"].annotation)
    )


SweepSource: TypeAlias = Workload | MeasuredTable


def build_sweep(settings: SweepSettings, source: SweepSource | None = None) -> BuiltSweep:
    """Build the application, space, objective and warning policy of a sweep.

    Raises AssistantError, SimError or StrategyError with the first fault, in one sentence.
    """
    make_strategy(settings.strategy.name, **settings.strategy.options)
    settings.place.check(settings.workers)
    application = _application(settings, source)
    space = application.space
    if isinstance(application, Lookup) and application.alternatives:
        _check_columns(settings, application)
    for text in settings.exclude:
        space = space.excluding(Exclusion.parse(text))
    if settings.exclude:
        space.check_not_empty()
    objective = objective_of(settings.objective, application.objective)
    check_measures(objective, application)
    settings.check_cost(application, space)
    return BuiltSweep(
        settings, application, space, objective, _warning_policy(settings.warning_policy, objective)
    )


def _check_columns(settings: SweepSettings, application: Lookup) -> None:
    """Raise SettingsError if a condition or a first run names a column that is merged."""
    names = {name for text in settings.exclude for name in Exclusion.parse(text).names}
    names |= {name for values in settings.run for name in values}
    for one in application.alternatives:
        for column in (*one.columns, *one.implied):
            if column in names and column not in application.space.names:
                levels = ", ".join(f"'{level}'" for level in one.levels)
                raise SettingsError(
                    f"'{column}' is a column of the parameter '{one.name}', whose levels are "
                    f"{levels}; name a level, or set alternatives = 'keep' in [application]"
                )


def _warning_policy(settings: WarningPolicySettings, objective: Objective) -> WarningPolicy:
    """Return the warning policy; a threshold is set as a measured value."""
    threshold = settings.threshold
    if threshold is not None and objective.goal == "minimise":
        threshold = -threshold
    rule = RegionRule(
        good=settings.good,
        threshold=threshold,
        quantile=settings.quantile,
        eps=settings.eps,
        min_samples=settings.min_samples,
    )
    return WarningPolicy(
        rule,
        settings.pending,
        settings.warn_from,
        settings.advised,
        settings.rule,
        settings.warn_at,
    )


def read_source(settings: SweepSettings) -> SweepSource | None:
    """Read the job log or lookup table that the application of a sweep needs, or return None."""
    application_settings = settings.application
    if isinstance(application_settings, LookupSettings):
        return MeasuredTable.read(application_settings.table)
    if not isinstance(application_settings, SchedulingSettings):
        return None
    if application_settings.log is None:
        if application_settings.first is not None or application_settings.reading:
            raise SettingsError("'first' and 'reading' are for a log; name it with log")
        return default_workload(settings.seed)
    rules = rules_from_texts(application_settings.reading)
    return load_workload(
        Path(application_settings.log), rules=rules, first=application_settings.first
    )


def _application(settings: SweepSettings, source: SweepSource | None) -> Application:
    application_settings = settings.application
    if isinstance(application_settings, CommandSettings | FunctionSettings | RestSettings):
        return _own_program(settings, application_settings)
    if settings.parameters:
        raise SettingsError(
            "[[parameters]] are for a program of your own, with kind 'command', 'function' or "
            f"'rest'; kind '{application_settings.kind}' has its own parameters"
            + (
                "; set their levels in [application.levels]"
                * ("levels" in type(application_settings).model_fields)
            )
        )
    if isinstance(
        application_settings, FloodSettings | MazeSettings | AiPlatformSettings | PlacementSettings
    ):
        return application_settings.build()
    if source is None:
        source = read_source(settings)
    if isinstance(application_settings, LookupSettings) and isinstance(source, MeasuredTable):
        lookup = Lookup if application_settings.alternatives == "keep" else Lookup.merged
        return lookup(source, Path(application_settings.table).name)
    if not isinstance(application_settings, SchedulingSettings) or not isinstance(source, Workload):
        raise AssertionError("what was read is not what the application is about")
    return application_settings.build(source, settings.workers)


def _own_program(
    settings: SweepSettings, application_settings: CommandSettings | FunctionSettings | RestSettings
) -> Application:
    objective_settings = settings.objective
    if objective_settings is None or not objective_settings.names_one:
        raise SettingsError(
            "a program of your own needs an [objective]: set minimise or maximise to the name "
            "of a measure, such as minimise = 'wall_s' for the time of a run"
        )
    if not settings.parameters:
        raise SettingsError(
            "a program of your own needs at least one [[parameters]] with a name and levels"
        )
    objective = objective_of(objective_settings, Objective(SingleMeasure("")))
    if not isinstance(application_settings, CommandSettings):
        return application_settings.build(settings.parameters, objective)
    application = application_settings.build(
        settings.parameters, objective, settings.environment.build()
    )
    if settings.workers > 1 and not application.apart:
        raise SettingsError(
            "with several workers two runs would write the same file of measures; put {scratch} "
            "or {seed} into its name"
        )
    return application


_LEVEL_TYPES = ("bool", "int", "float", "str")


def _sentence(error: ValidationError, key: tuple[str, ...] = ()) -> str:
    """Return pydantic's first finding as one sentence with place, value and allowed values.

    ``key`` is the path of the key that was checked by itself.
    """
    faults = error.errors()
    first = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    location = first["loc"]
    if location[:1] == ("application",):  # pydantic adds the kind of the application
        location = (location[0], *location[2:])
    location = (*key, *location)
    input_value = first["input"]
    if location and location[-1] in _LEVEL_TYPES:
        place = ".".join(map(str, location[:-1]))
        return f"'{place}' should be a number, a text or a truth value, not {input_value!r}"
    place = ".".join(map(str, location))
    if first["type"] == "extra_forbidden":
        keys = list(model_at(SweepSettings, first["loc"]).model_fields)
        return f"there is no setting '{place}'{hint(place.rsplit('.')[-1], keys)}"
    more = len(faults) - 1
    tail = f" (and {more} more)" if more else ""
    rejected = f", not {input_value!r}" if isinstance(input_value, bool | int | float | str) else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    quoted = re.escape(repr(input_value))
    if rejected and re.search(rf"(?<![\w.,]){quoted}(?![\w,])", message):  # our own sentence has it
        rejected = ""
    return f"'{place}' {message}{rejected}{tail}" if place else f"{message}{tail}"


_WIDTH = 96


def toml_text(tables: Mapping[str, Any]) -> str:
    """Format settings tables as the text of a TOML document.

    Args:
        tables: texts, truth values, numbers, sequences and mappings of them; keys are texts.

    Raises TypeError: a value that TOML cannot represent, such as None.

    >>> print(toml_text({"runs": 3, "application": {"kind": "lookup", "table": "a.csv"}}), end="")
    runs = 3
    <BLANKLINE>
    [application]
    kind = "lookup"
    table = "a.csv"
    """
    import tomlkit  # only where a file is written

    document = tomlkit.item(dict(tables))
    _wrap_long_arrays(document)
    text: str = document.as_string()
    return text


def _wrap_long_arrays(table: Mapping[str, Any]) -> None:
    """Write arrays that are too long for a line with one value on each line."""
    from tomlkit.items import Array

    for value in table.values():
        if isinstance(value, Array) and len(value.as_string()) > _WIDTH:
            value.multiline(True)
        elif isinstance(value, Mapping):
            _wrap_long_arrays(value)


def toml_value(value: Any) -> str:
    """Format one value as TOML on one line. Raises TypeError for one that TOML cannot represent."""
    import tomlkit
    from tomlkit.items import InlineTable, Item

    item: Item = tomlkit.inline_table() if isinstance(value, Mapping) else tomlkit.item(value)
    if isinstance(item, InlineTable):
        item.update(value)
    return item.as_string()
