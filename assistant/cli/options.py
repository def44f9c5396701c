"""Options of the command line that override keys of a sweep file: one table, and their merging.

An option takes its type, choices, default and help from its field of the config models. What it
sets is checked there too, with the whole sweep.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from assistant.applications import APPLICATIONS
from assistant.applications.scheduling_parameters import COMPUTED
from assistant.applications.scheduling_presets import (
    DEFAULT_PRESET,
    LOG_PRESET,
    SLURM,
    preset_of_log,
    presets,
    presets_for,
)
from assistant.config.fields import SIZE, TIME, default_words, field_at, field_schema
from assistant.config.models import OF_SYSTEM
from assistant.config.sweep_file import (
    PRESETS,
    SweepSettings,
    check_settings,
    has_levels,
    read_settings,
)
from assistant.core.errors import SettingsError, hint
from assistant.core.files import is_file
from assistant.core.objective import Goal
from strategies import DEFAULT_STRATEGY, Level, OptionValue, StrategyEntry, strategy_entry
from strategies.space.parameter import parse_number

if TYPE_CHECKING:
    from assistant.applications.scheduling import ClusterPower
    from assistant.config.simulation import MoldableSettings, PowerSettings
    from sim.generators import Moldability

SWEEP_FILE = "sweep.toml"
"""Name of the file that ``copperline init`` writes unless another is named."""

SweepFile = Annotated[
    Path | None,
    typer.Argument(
        help="A sweep file (TOML), or flood, maze, ai_platform or placement.", show_default=False
    ),
]
BY_NAME = tuple(entry.name for entry in APPLICATIONS if not entry.needs_settings)
"""Applications that a command accepts by name if there is no file of that name."""

Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Path of the report; its ending chooses the form: .html, .md, .pdf or .zip.",
        show_default=False,
    ),
]

MlflowAddress = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        help="Write the runs to MLflow as they end: the address of a server or a database, such "
        "as sqlite:///mlflow.db (needs copperline[mlflow]).",
        show_default=False,
    ),
]

NONE: Final = "none"  # removes a term

Tables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SettingOption:
    """Option that overrides a key of a sweep file; what is left out comes from the key's field.

    Args:
        path: the key, such as ``cost.limit``.
        words: help of an option that has a form of its own, such as ``NAME=VALUE``.
        form: type of such an option.
        more: sentence after the meaning of the field.
        kind: application of the key.
        removable: whether the value ``none`` removes the key.
        merge: puts the value into settings tables; by default it replaces the key's value.
    """

    path: str
    words: str = ""
    form: Any = None
    metavar: str | None = None
    more: str = ""
    kind: str = ""
    removable: bool = False
    merge: Callable[[Tables, Any], None] | None = None

    def form_of(self) -> Any:
        """Return the type of the option's value: that of its field, or text if removable."""
        return self.form or (str if self.removable else _form(self._schema))

    def info(self, name: str, *, is_change: bool = False) -> Any:
        """Return what Typer needs to make the option; a change has no default."""
        flag = f"--{name.replace('_', '-')}"
        flags = f"{flag}/--no-{flag[2:]}" if self.form_of() is bool else flag
        metavar = self.metavar or _METAVARS.get(self._schema.get("format", ""))
        help_text = self.words or self._help(is_change)
        return typer.Option(flags, help=help_text, metavar=metavar, show_default=False)

    def replace_in(self, tables: Tables, name: str, value: Any) -> None:
        """Set the key to the value of the option ``name``, or remove it; raises SettingsError."""
        table, key = _table_of(tables, self.path), self.path.rpartition(".")[2]
        if self.removable and value.strip().lower() == NONE:
            table.pop(key, None)
        elif self.removable and _form(self._schema) in (int, float):
            table[key] = number_of(f"--{name.replace('_', '-')}", value)
        else:
            table[key] = value

    @property
    def _schema(self) -> Mapping[str, Any]:
        return field_schema(SweepSettings, self.path, self.kind)

    def _help(self, is_change: bool) -> str:
        schema = self._schema
        key = field_at(SweepSettings, self.path, self.kind)
        text = (key.description or "").replace("`", "")
        if choices := schema.get("enum"):
            text = f"{text.rstrip('.')}: {', '.join(choices[:-1])} or {choices[-1]}."
        if key.examples and schema.get("format") == TIME:
            text += f" For example {key.examples[0]}."
        default = "" if is_change else default_words(dict(schema))
        shown = f"  [default: {default}]" if default not in ("", "false") else ""
        return f"{text}{' ' if self.more else ''}{self.more}{shown}"


_METAVARS = {TIME: "TIME", SIZE: "SIZE"}
_FORMS = {"integer": int, "number": float, "boolean": bool, "array": list[str]}


def _form(schema: Mapping[str, Any]) -> Any:
    return str if "format" in schema else _FORMS.get(schema.get("type", ""), str)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values of the options that a person has set, by their name in `OPTIONS`."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values)

    def lay_over(self, tables: Tables) -> None:
        """Merge the options into the settings tables of a sweep file, overriding them.

        Raises SettingsError if an option cannot be read, or two contradict each other.
        """
        if {"log", "table"} <= self.values.keys():
            raise SettingsError("give --log or --table, not both")
        if {"cost_per_hour", "cost_measure"} <= self.values.keys():
            raise SettingsError("give exactly one of --cost-per-hour and --cost-measure")
        if {"cost_resources", "cost_measure"} <= self.values.keys():
            raise SettingsError(
                "--cost-resources need a price per hour (--cost-per-hour), not --cost-measure"
            )
        for name, option in OPTIONS.items():
            if name not in self.values:
                continue
            value = self.values[name]
            if option.merge is not None:
                option.merge(tables, value)
            else:
                option.replace_in(tables, name, value)
        if "cost" in tables and not tables["cost"]:
            del tables["cost"]


NO_OVERRIDES = Overrides()


def setting_options(
    *names: str, is_change: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command these options of `OPTIONS` in place of its parameter ``overrides``.

    ``is_change`` is for an experiment that has the settings already, so that no default is shown.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(command, eval_str=True)
        parameters: dict[str, inspect.Parameter] = {}
        for parameter in signature.parameters.values():
            if parameter.name != "overrides":
                parameters[parameter.name] = parameter.replace(kind=parameter.KEYWORD_ONLY)
                continue
            for name in names:
                info = OPTIONS[name].info(name, is_change=is_change)
                info.rich_help_panel = _HEADINGS.get(name)
                annotated: Any = Annotated
                annotation = annotated[OPTIONS[name].form_of() | None, info]
                parameters[name] = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
                )

        @wraps(command)
        def wrapper(**arguments: Any) -> int:
            values = {name: arguments.pop(name, None) for name in names}
            overrides = {name: x for name, x in values.items() if x is not None and x != []}
            return command(overrides=Overrides(overrides), **arguments)

        wrapper.__annotations__ = {name: p.annotation for name, p in parameters.items()}
        wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=list(parameters.values())
        )
        return wrapper

    return decorate


def sweep_tables(file: Path | None) -> Tables:
    """Return the settings tables of a sweep file, or those of a testbed given by its name.

    Raises SettingsError if there is no such file, or it is not TOML.
    """
    if file is None:
        return {}
    if str(file) in BY_NAME and not is_file(file):
        return {"application": {"kind": str(file)}}
    return read_settings(file)


def overridden_sweep(file: Path | None, overrides: Overrides) -> tuple[Tables, SweepSettings]:
    """Return the tables and the settings of a sweep file with the options of a command.

    Raises SettingsError, which names the file if it is wrong by itself, else the options.
    """
    tables = sweep_tables(file)
    settings = check_settings(tables, str(file) if file is not None else "options")
    if not overrides:
        return tables, settings
    overrides.lay_over(tables)
    if file is None and "log" in overrides.values:
        application = _application(tables)
        if not application.get("levels", {}).keys() & {*COMPUTED}:
            application.setdefault("preset", preset_of_log(overrides.values["log"]))
    return tables, check_settings(tables, "the options")


def _table_of(tables: Tables, path: str) -> Tables:
    """Return the table that has the key of a path, made if there is none."""
    for name in path.split(".")[:-1]:
        tables[name] = tables = dict(tables.get(name, {}))
    return tables


def _application(tables: Tables) -> Tables:
    return _table_of(tables, "application.")


def _set_table(tables: Tables, path: Path) -> None:
    tables["application"] = {"kind": "lookup", "table": str(path)}


def _set_log(tables: Tables, path: Path) -> None:
    _application(tables)["log"] = str(path)


def _set_procs(tables: Tables, text: str) -> None:
    sizes = values_of(text)
    if not sizes or not all(type(size) is int for size in sizes):
        raise SettingsError(f"--procs must be a whole number or a list of them, not '{text}'")
    application = _application(tables)
    application["procs"] = sizes[0]
    if len(sizes) > 1:
        application["levels"] = {**application.get("levels", {}), "procs": sizes}


def _policies(name: str) -> Callable[[Tables, str], None]:
    """Return the merging of current policies: several are levels, the current one first."""

    def merge(tables: Tables, text: str) -> None:
        choices = values_of(text)
        if not choices:
            raise SettingsError(f"--{name} is empty; give one name or several, separated by commas")
        application = _application(tables)
        application["baseline"] = {**application.get("baseline", {}), name: choices[0]}
        if len(choices) > 1:
            application["levels"] = {**application.get("levels", {}), name: choices}

    return merge


def _set_preset(tables: Tables, name: str) -> None:
    if name not in PRESETS:
        _application(tables)["preset"] = name
        return
    tables["preset"] = name
    for table in ("strategy", "warning_policy"):  # an option overrides the file
        tables.pop(table, None)


def _set_levels(tables: Tables, texts: list[str]) -> None:
    """Set levels of parameters of the application, or replace those of ``[[parameters]]``.

    Raises SettingsError if a program of the user has no such parameter.
    """
    for name, text in pairs(texts, "--levels", "small_procs=0,16,32"):
        application = _application(tables)
        if has_levels(application):
            application["levels"] = {**application.get("levels", {}), name: values_of(text)}
        else:
            _replace_levels(tables, name, values_of(text))


def _replace_levels(tables: Tables, name: str, values: list[Level]) -> None:
    parameters = [dict(entry) for entry in tables.get("parameters", []) if isinstance(entry, dict)]
    names = [str(entry.get("name")) for entry in parameters]
    if name not in names:
        where = hint(name, names) if names else "; this sweep has no [[parameters]] of its own"
        raise SettingsError(f"--levels {name}: there is no parameter '{name}'{where}")
    entry = parameters[names.index(name)]
    for form in ("range", "logarithmic"):
        entry.pop(form, None)
    entry["levels"] = values
    tables["parameters"] = parameters


def _pairs_into(path: str, flag: str, example: str) -> Callable[[Tables, list[str]], None]:
    """Return the merging of ``NAME=VALUE`` texts into the table at a path."""

    def merge(tables: Tables, texts: list[str]) -> None:
        table = _table_of(tables, f"{path}.")
        read = str if path.endswith("reading") else _value
        table.update({name: read(value) for name, value in pairs(texts, flag, example)})

    return merge


def _extend_exclude(tables: Tables, conditions: list[str]) -> None:
    tables["exclude"] = [*tables.get("exclude", []), *conditions]


def _set_second(tables: Tables, text: str) -> None:
    goal, _, measure = text.strip().partition(" ")
    if goal not in get_args(Goal) or not measure.strip():
        raise SettingsError(
            f"--also '{text}' is not of the form 'minimise MEASURE' or 'maximise MEASURE'"
        )
    _table_of(tables, "objective.").update(second=measure.strip(), second_goal=goal)


def _set_strategy_options(tables: Tables, texts: list[str]) -> None:
    table = _table_of(tables, "strategy.")
    entry = strategy_entry(table.get("name", DEFAULT_STRATEGY))
    table.update(strategy_options(entry, texts))


def _set_executor(tables: Tables, text: str) -> None:
    tables["executor"] = executor_table(tables.get("executor"), text)


def _set_price(tables: Tables, text: str) -> None:
    """Set a price of runs in place of a measure that is the cost."""
    cost = _table_of(tables, "cost.")
    cost.pop("measure", None)
    cost["per_hour"] = number_of("--cost-per-hour", text)


def _set_cost_measure(tables: Tables, name: str) -> None:
    """Set a measure that is the cost in place of a price."""
    cost = _table_of(tables, "cost.")
    for key in ("per_hour", "resources"):
        cost.pop(key, None)
    cost["measure"] = name


def _hook(name: str) -> Callable[[Tables, str], None]:
    def merge(tables: Tables, text: str) -> None:
        _table_of(tables, "hooks.")[name] = _argv(text, f"--{name.replace('_', '-')}")

    return merge


def _set_results(tables: Tables, paths: list[Path]) -> None:
    tables["results"] = [str(path) for path in paths]


OPTIONS: Mapping[str, SettingOption] = {
    "log": SettingOption("application.log", form=Path, merge=_set_log),
    "table": SettingOption("application.table", form=Path, kind="lookup", merge=_set_table),
    "first": SettingOption("application.first"),
    "procs": SettingOption(
        "application.procs", form=str, more="A list makes them a parameter.", merge=_set_procs
    ),
    "order": SettingOption(
        "application.baseline.order",
        more="A list (current first) makes it a parameter.", merge=_policies("order"),
    ),
    "backfill": SettingOption(
        "application.baseline.backfill",
        more="A list (current first) makes it a parameter.", merge=_policies("backfill"),
    ),
    "preset": SettingOption(
        "application.preset",
        words=f"Parameters to vary: {', '.join(preset.name for preset in presets())}"
        f"  [default: for a log {LOG_PRESET}, if Slurm's {presets_for(SLURM)[0].name}; else "
        f"{DEFAULT_PRESET}]; kube_scheduler for a sweep of placement; or copper: the paper's loop.",
        merge=_set_preset,
    ),
    "levels": SettingOption(
        "application.levels", words="Levels of one parameter.", form=list[str],
        metavar="NAME=V,V,...", merge=_set_levels,
    ),
    "policy_option": SettingOption(
        "application.options", form=list[str], metavar="NAME=VALUE",
        words="Option of the order or the backfill in every run, e.g. depth=8.",
        merge=_pairs_into("application.options", "--policy-option", "depth=8"),
    ),
    "reading": SettingOption(
        "application.reading", form=list[str], metavar="RULE=CHOICE",
        words="A rule for reading the log, e.g. never_ran=keep_zero.",
        merge=_pairs_into("application.reading", "--reading", "never_ran=keep_zero"),
    ),
    "too_wide": SettingOption("application.too_wide"),
    "power": SettingOption(
        "application.power", form=list[str], metavar="NAME=VALUE",
        words="Watts of a node by state, for energy: busy_w, idle_w, boot, off_after, ...",
        merge=_pairs_into("application.power", "--power", "busy_w=350"),
    ),
    "moldable": SettingOption(
        "application.moldable", form=list[str], metavar="NAME=VALUE",
        words="Let jobs start on fewer processors: halvings, parallelism, variance.",
        merge=_pairs_into("application.moldable", "--moldable", "halvings=2"),
    ),
    "exclude": SettingOption(
        "exclude", words="Never suggest runs that meet this condition.", metavar="CONDITION",
        merge=_extend_exclude,
    ),
    "runs": SettingOption("runs", metavar="N", removable=True),
    "initial": SettingOption("initial"),
    "batch": SettingOption("batch"),
    "strategy": SettingOption("strategy.name"),
    "option": SettingOption(
        "strategy", words="An option of the strategy, e.g. beta=0.9.", form=list[str],
        metavar="NAME=VALUE", merge=_set_strategy_options,
    ),
    "also": SettingOption("objective.second", metavar="'minimise MEASURE'", merge=_set_second),
    "seed": SettingOption("seed"),
    "workers": SettingOption("workers"),
    "executor": SettingOption(
        "executor", metavar="NAME[=WHERE]", form=str,
        words="Where to execute runs: serial, process_pool, slurm (cluster jobs), dask (its own "
        "workers), dask=tcp://HOST:PORT (workers of a scheduler) or dask=slurm (dask workers "
        "in cluster jobs).",
        merge=_set_executor,
    ),
    "cores": SettingOption("environment.cores"),
    "memory": SettingOption("environment.memory"),
    "deadline": SettingOption("deadline", removable=True),
    "goal": SettingOption("goal", metavar="VALUE", removable=True),
    "at_goal": SettingOption("at_goal"),
    "keep_going": SettingOption("keep_going"),
    "run_limit": SettingOption("run_limit", removable=True),
    "cost_limit": SettingOption("cost.limit", metavar="COST", removable=True),
    "cost_per_hour": SettingOption("cost.per_hour", metavar="COST", form=str, merge=_set_price),
    "cost_resources": SettingOption("cost.resources", metavar="NAME", removable=True),
    "cost_measure": SettingOption("cost.measure", metavar="NAME", merge=_set_cost_measure),
    "cost_unit": SettingOption("cost.unit", metavar="UNIT"),
    "exploitation": SettingOption("exploitation"),
    "refine": SettingOption("refine"),
    "warnings": SettingOption("warnings"),
    "results": SettingOption("results", form=list[Path], merge=_set_results),
    "learn_from": SettingOption(
        "learn_from", metavar="EXPERIMENT", form=list[str],
        words="Let the results of a stored experiment guide the search: of another workload, "
        "machine or version, also with other levels. They are no results of this sweep (for that: "
        "--from).",
    ),
    "replicates": SettingOption("replicates"),
    "name": SettingOption("name"),
    "on_warning": SettingOption(
        "hooks.on_warning", form=str, metavar="COMMAND", merge=_hook("on_warning")
    ),
    "on_finish": SettingOption(
        "hooks.on_finish", form=str, metavar="COMMAND", merge=_hook("on_finish")
    ),
    "on_failure": SettingOption(
        "hooks.on_failure", form=str, metavar="COMMAND", merge=_hook("on_failure")
    ),
    "hook_timeout": SettingOption("hooks.timeout"),
}  # fmt: skip
"""Options by name, in the order in which they are merged."""

APPLICATION_OPTIONS = (
    *(name for name, option in OPTIONS.items() if option.path.startswith("application.")),
    "exclude",
)
SLA_OPTIONS = (
    "runs", "deadline", "goal", "at_goal", "keep_going", "run_limit", "cost_limit",
    "cost_per_hour", "cost_resources", "cost_measure", "cost_unit",
)  # fmt: skip

_HEADINGS: Mapping[str, str] = {
    name: heading
    for heading, names in {
        "What to tune": (*APPLICATION_OPTIONS, "also"),
        "Budget and goal": SLA_OPTIONS,
        "Search": (
            "initial", "batch", "strategy", "option", "seed", "exploitation", "refine", "warnings",
            "results", "learn_from", "replicates",
        ),
        "Execution": ("workers", "executor", "cores", "memory"),
        "Notices": ("on_warning", "on_finish", "on_failure", "hook_timeout"),
    }.items()
    for name in names
}  # fmt: skip

Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="NAME=V,...", help="Run this configuration of your own."),
]
Levels = Annotated[list[str] | None, OPTIONS["levels"].info("levels")]
FirstJobs = Annotated[int | None, OPTIONS["first"].info("first")]
Power = Annotated[list[str] | None, OPTIONS["power"].info("power")]
Moldable = Annotated[list[str] | None, OPTIONS["moldable"].info("moldable")]
ReadingRule = Annotated[list[str] | None, OPTIONS["reading"].info("reading")]


def strategy_options(entry: StrategyEntry, texts: list[str]) -> dict[str, OptionValue]:
    """Parse ``name=value`` texts into typed options of a strategy.

    Raises SettingsError if one is not of the form name=value, or a name is given twice.
    """
    named_texts = pairs(texts, "--option", "beta=0.9")
    return {name: _option(entry, name, value) for name, value in named_texts}


def _option(entry: StrategyEntry, name: str, value: str) -> OptionValue:
    kind = next((option.type for option in entry.options if option.name == name), str)
    if kind is bool:
        return {"true": True, "false": False}.get(value.lower(), value)
    number = None if kind is str else parse_number(value)
    return value if number is None else number


def executor_table(table: dict[str, Any] | None, text: str) -> dict[str, Any]:
    """Return the ``[executor]`` settings table, changed by the ``--executor`` option."""
    name, _, where = text.partition("=")
    base = dict(table) if table is not None and table.get("kind") == name else {}
    if not where:
        return {**base, "kind": name}
    replaced, key = (("address",), "system") if where == "slurm" else (OF_SYSTEM, "address")
    return {**{k: base[k] for k in base if k not in replaced}, "kind": name, key: where}


def pair(text: str, option: str, example: str) -> tuple[str, str]:
    """Parse ``name=value`` into name and value. Raises SettingsError with an example."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise SettingsError(f"{option} '{text}' is not of the form {example}")
    return name.strip(), value.strip()


def pairs(texts: list[str], option: str, example: str) -> list[tuple[str, str]]:
    """Parse ``name=value`` texts. Raises SettingsError for a bad text or a repeated name."""
    values: dict[str, str] = {}
    for text in texts:
        name, value = pair(text, option, example)
        if name in values:
            raise SettingsError(
                f"{option} gives '{name}' twice, as {values[name]} and as {value}; give it once"
            )
        values[name] = value
    return list(values.items())


def by_number(texts: list[str], flag: str, example: str) -> dict[int, float]:
    """Parse ``number=value`` texts, where the number is a queue or user id in the log.

    Raises SettingsError if a number or value is no number, or a number is repeated.
    """
    numbers = {}
    for number, value in pairs(texts, flag, example):
        try:
            numbers[int(number)] = float(value)
        except ValueError:
            raise SettingsError(
                f"{flag} '{number}={value}': both must be numbers, the first one as in the log, "
                f"for example {example}"
            ) from None
    return numbers


def values_of(text: str) -> list[Level]:
    """Return the numbers and texts in a list that commas separate."""
    return [_value(part.strip()) for part in text.split(",") if part.strip()]


def _value(text: str) -> Level:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def power_of(texts: list[str]) -> ClusterPower | None:
    """Parse ``name=value`` texts into the power of nodes; None if there are none.

    Raises SettingsError for a bad text, and SimError for watts that make no sense.
    """
    power: PowerSettings | None = _application_part("power", texts, "busy_w=350")
    return None if power is None else power.build()


def moldability_of(texts: list[str]) -> Moldability | None:
    """Parse ``name=value`` texts into the moldability of jobs; None if there are none.

    Raises SettingsError for a bad text.
    """
    moldable: MoldableSettings | None = _application_part("moldable", texts, "halvings=2")
    return None if moldable is None else moldable.build()


def _application_part(name: str, texts: list[str], example: str) -> Any:
    """Return a table of the application from the ``name=value`` texts of its option."""
    if not texts:
        return None
    tables: Tables = {}
    _pairs_into(f"application.{name}", f"--{name}", example)(tables, texts)
    return getattr(check_settings(tables, f"--{name}").application, name, None)


def policy_options(texts: list[str]) -> dict[str, float]:
    """Parse ``name=value`` texts into numeric options of scheduling policies.

    Raises SettingsError for the wrong form, a repeated name, or no number.
    """
    options = {}
    for name, value in pairs(texts, "--option", "depth=8"):
        try:
            options[name] = float(value)
        except ValueError:
            raise SettingsError(
                f"--option '{name}={value}': options of order and backfill must be numbers"
            ) from None
    return options


def number_of(option: str, text: str) -> float:
    """Parse the number given to an option. Raises SettingsError if it is invalid."""
    number = parse_number(text.strip())
    if number is None:
        raise SettingsError(f"{option} '{text}' is not a number; use a point for decimals")
    return number


def _argv(text: str, option: str) -> list[str]:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise SettingsError(
            f"{option} '{text}' cannot be split into a program and its arguments: {error}"
        ) from error
    if not argv:
        raise SettingsError(f"{option} names no program; leave it out for no hook")
    return [str(Path(argv[0]).absolute()) if "/" in argv[0] else argv[0], *argv[1:]]
