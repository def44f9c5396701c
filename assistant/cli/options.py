"""Command-line options that override settings of a sweep file or terms of an SLA."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from assistant.analysis.recommendation import passed_limit, reached_goal
from assistant.applications import APPLICATIONS
from assistant.applications.scheduling import DEFAULT_PRESET, presets
from assistant.config.models import OF_SYSTEM, check_tariff
from assistant.config.sweep_file import (
    PRESETS,
    BuiltSweep,
    check_settings,
    kind_of,
    read_settings,
)
from assistant.core.errors import ObjectiveError, SettingsError, hint
from assistant.core.experiment import Experiment
from assistant.core.files import is_file
from assistant.core.objective import Goal
from assistant.core.ports import Result
from assistant.core.sla import Sla, Tariff
from assistant.session.session import Session
from strategies import (
    DEFAULT_STRATEGY,
    Level,
    OptionValue,
    ParameterSpace,
    StrategyEntry,
    StrategyError,
    strategy_entry,
)
from strategies.space.parameter import parse_number

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
JobLog = Annotated[
    Path | None, typer.Option(help="Job log (SWF, also .gz) to simulate.", show_default=False)
]
FirstJobs = Annotated[
    int | None, typer.Option(help="Use only the first N jobs.", show_default=False)
]
Procs = Annotated[
    str | None, typer.Option(help="Processors of the cluster; a list makes them a parameter.")
]
Order = Annotated[
    str | None,
    typer.Option(help="Current queue order; a list (current first) makes it a parameter."),
]
Backfill = Annotated[
    str | None,
    typer.Option(help="Current backfill; a list (current first) makes it a parameter."),
]
PresetName = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help=f"Parameters to vary: {', '.join(preset.name for preset in presets())}"
        f"  [default: {DEFAULT_PRESET}]; or copper: the paper's loop.",
    ),
]
PolicyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--policy-option",
        metavar="NAME=VALUE",
        help="Option of the order or the backfill in every run, e.g. depth=8.",
    ),
]
Cores = Annotated[int | None, typer.Option(help="Cores that each run needs.", show_default=False)]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of each run, all its processes together, such as '4 GiB'.",
        show_default=False,
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option("--levels", metavar="NAME=V,V,...", help="Levels of one parameter."),
]
ReadingRule = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE=CHOICE", help="A rule for reading the log, e.g. unsorted=sort."),
]
TooWide = Annotated[str | None, typer.Option(help="Jobs that fit no partition: reject or clip.")]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="NAME=V,...", help="Run this configuration of your own."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(metavar="CONDITION", help="Never suggest runs that meet this condition."),
]


WarningAnswer = Annotated[
    str | None, typer.Option(help="Answer to warnings: accept, ignore or wait.  [default: ignore]")
]

Report = Annotated[
    Path | None,
    typer.Option("--report", help="Path of the HTML report.", show_default=False),
]


def sweep_tables(file: Path | None) -> dict[str, Any]:
    """Return the settings tables of a sweep file, or those of a testbed given by its name.

    Raises SettingsError if there is no such file, or it is not TOML.
    """
    if file is None:
        return {}
    if str(file) in BY_NAME and not is_file(file):
        return {"application": {"kind": str(file)}}
    return read_settings(file)


def merge_options(
    tables: dict[str, Any],
    *,
    log: Path | None,
    table: Path | None,
    first: int | None,
    procs: str | None,
    order: str | None,
    backfill: str | None,
    levels: list[str],
    preset: str | None,
    policy_options: list[str],
    reading: list[str],
    too_wide: str | None,
    exclude: list[str],
    strategy: str | None,
    options: list[str] | None = None,
    also: str | None = None,
    **top: Any,
) -> None:
    """Merge command-line options into the settings tables of a sweep file, overriding them.

    Raises SettingsError if an option cannot be read, or two contradict each other.
    """
    tables.update({name: value for name, value in top.items() if value is not None})
    tables.setdefault("exclude", [])
    tables["exclude"] = [*tables["exclude"], *exclude]
    if log is not None and table is not None:
        raise SettingsError("give --log or --table, not both")
    application = tables.setdefault("application", {})
    if table is not None:
        tables["application"] = application = {"kind": "lookup", "table": str(table)}
    if log is not None:
        application["log"] = str(log)
    if preset in PRESETS:
        tables["preset"], preset = preset, None
        for name in ("strategy", "warning_policy"):  # an option overrides the file
            tables.pop(name, None)
    plain = {"preset": preset, "first": first, "too_wide": too_wide}
    application.update({name: value for name, value in plain.items() if value is not None})
    _lists(application, procs=procs, order=order, backfill=backfill)
    for name, values in pairs(levels, "--levels", "small_procs=0,16,32"):
        _set_levels(tables, application, name, values_of(values))
    for name, value in pairs(policy_options, "--policy-option", "depth=8"):
        application.setdefault("options", {})[name] = _value(value)
    for rule, choice in pairs(reading, "--reading", "unsorted=sort"):
        application.setdefault("reading", {})[rule] = choice
    if also is not None:
        goal, _, measure = also.strip().partition(" ")
        if goal not in get_args(Goal) or not measure.strip():
            raise SettingsError(
                f"--also '{also}' is not of the form 'minimise MEASURE' or 'maximise MEASURE'"
            )
        second_table = {"second": measure.strip(), "second_goal": goal}
        tables["objective"] = {**tables.get("objective", {}), **second_table}
    strategy_table = tables.setdefault("strategy", {})
    if strategy is not None:
        strategy_table["name"] = strategy
    if options:
        entry = strategy_entry(strategy_table.get("name", DEFAULT_STRATEGY))
        strategy_table.update(strategy_options(entry, options))


HAVE_LEVELS = ("scheduling", "ai_platform", "placement")  # Kinds with a table application.levels


def _set_levels(
    tables: dict[str, Any], application: dict[str, Any], name: str, values: list[Level]
) -> None:
    """Set the levels of a parameter of the application, or replace those of ``[[parameters]]``.

    Raises SettingsError if a program of the user has no such parameter.
    """
    if kind_of(application) in HAVE_LEVELS:
        application.setdefault("levels", {})[name] = values
        return
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


def _lists(
    application: dict[str, Any], *, procs: str | None, order: str | None, backfill: str | None
) -> None:
    """Put fixed values or parameters into the table: several values are levels, baseline first."""
    if procs is not None:
        sizes = values_of(procs)
        if not sizes or not all(type(size) is int for size in sizes):
            raise SettingsError(f"--procs must be a whole number or a list of them, not '{procs}'")
        application["procs"] = sizes[0]
        if len(sizes) > 1:
            application.setdefault("levels", {})["procs"] = sizes
    for name, text in (("order", order), ("backfill", backfill)):
        if text is None:
            continue
        choices = values_of(text)
        if not choices:
            raise SettingsError(f"--{name} is empty; give one name or several, separated by commas")
        application["baseline"] = {**application.get("baseline", {}), name: choices[0]}
        if len(choices) > 1:
            application.setdefault("levels", {})[name] = choices


def first_configurations(built: BuiltSweep, texts: list[str]) -> tuple[dict[str, Level], ...]:
    """Return the user's first configurations from the sweep file and from ``--include``.

    A parameter without a value takes that of the baseline, if there is one. The baseline itself
    is left out, because it runs anyway.

    Raises:
        SettingsError: not of the form name=value,...
        StrategyError: a value outside the space.
    """
    defaults = dict(built.application.baseline or {})
    requested = [{**defaults, **values} for values in built.settings.run]
    requested += [{**defaults, **_included(built.space, text)} for text in texts]
    baseline = built.application.baseline
    origins = {} if baseline is None else {built.space.from_values(baseline): "current"}
    first_runs = []
    for values in requested:
        configuration = built.space.from_values(values)
        built.space.check(configuration)
        if origins.get(configuration) == "yours":
            text = ", ".join(f"{name}={value}" for name, value in values.items())
            raise SettingsError(f"{text} is included twice; include each configuration once")
        if configuration not in origins:
            first_runs.append(values)
        origins.setdefault(configuration, "yours")
    needed = len(first_runs) + (baseline is not None)
    budget = built.settings.max_runs
    if budget is not None and needed > budget:
        raise SettingsError(
            f"the current and your own configurations need {needed} runs, but the budget is "
            f"{budget}; raise --runs or include fewer"
        )
    return tuple(first_runs)


def further_configurations(
    experiment: Experiment, texts: list[str]
) -> tuple[dict[str, Level], ...]:
    """Return the user's ``--include`` configurations for a running experiment.

    A parameter without a value takes that of the baseline, if there is one.

    Raises:
        SettingsError: not of the form name=value,..., or submitted before.
        StrategyError: a value outside the space, a closed level or an excluded combination.
    """
    space, baseline = experiment.space, experiment.opened.baseline
    run_ids = {run.configuration: run.id for run in experiment.runs}
    new_runs = []
    for text in texts:
        values = {**(space.values(baseline) if baseline else {}), **_included(space, text)}
        configuration = space.from_values(values)
        space.check(configuration)
        if configuration in run_ids:
            raise SettingsError(
                f"--include '{text}' is already run {run_ids[configuration]}; leave it out"
            )
        run_ids[configuration] = len(run_ids) + 1
        new_runs.append(values)
    return tuple(new_runs)


def _included(space: ParameterSpace, text: str) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for part in text.split(","):
        name, value = pair(part, "--include", "small_procs=16,small_max_procs=8")
        levels[name] = space.parse_value(name, value)
    return levels


def results_of(session: Session, built: BuiltSweep) -> list[Result]:
    """Return the results of another experiment whose values fit into a sweep's space.

    Raises SettingsError if none fits, because parameters or levels differ.
    """
    experiment = session.experiment
    results: list[Result] = []
    for run in experiment.runs:
        if run.outcome is None:
            continue
        values = experiment.space.values(run.configuration)
        try:
            built.space.from_values(values)
            built.objective.assess(run.outcome.measures)
        except (StrategyError, ObjectiveError):
            continue
        results.append((values, run.outcome.measures))
    if not results:
        raise SettingsError(
            f"no result of experiment '{session.id}' fits this sweep: its parameters, levels or "
            "measures differ"
        )
    return results


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


def executor_table(table: dict[str, Any] | None, text: str) -> dict[str, Any]:
    """Return the ``[executor]`` settings table, changed by the ``--executor`` option."""
    name, _, where = text.partition("=")
    base = dict(table) if table is not None and table.get("kind") == name else {}
    if not where:
        return {**base, "kind": name}
    replaced, key = (("address",), "system") if where == "slurm" else (OF_SYSTEM, "address")
    return {**{k: base[k] for k in base if k not in replaced}, "kind": name, key: where}


def environment_table(
    table: dict[str, Any] | None, cores: int | None, memory: str | None
) -> dict[str, Any]:
    """Return the ``[environment]`` settings table with ``cores`` and ``memory`` merged in."""
    options = {"cores": cores, "memory": memory}
    return {
        **(table or {}),
        **{name: value for name, value in options.items() if value is not None},
    }


NONE: Final = "none"  # removes a term

Deadline = Annotated[
    str | None,
    typer.Option(help="Deadline of all runs, as time from now, e.g. 30m.", metavar="TIME"),
]
GoalOption = Annotated[
    str | None,
    typer.Option(
        help="Target value of the objective; reaching it ends the sweep.", metavar="VALUE"
    ),
]
AtGoal = Annotated[str | None, typer.Option(help="At the goal: stop or go_on.  [default: stop]")]
KeepGoing = Annotated[
    bool | None,
    typer.Option(
        "--keep-going/--no-keep-going",
        help="Go on although the current configuration, or each of the first 3 runs, fails.",
        show_default=False,
    ),
]
RunLimit = Annotated[
    str | None,
    typer.Option(help="Time limit of a single run, e.g. 10m; a longer run fails.", metavar="TIME"),
]
CostLimit = Annotated[str | None, typer.Option(help="Maximum cost of all runs.", metavar="COST")]
CostPerHour = Annotated[str | None, typer.Option(help="Price of an hour of a run.", metavar="COST")]
CostResources = Annotated[
    str | None,
    typer.Option(help="Parameter or measure that multiplies the price of an hour.", metavar="NAME"),
]
CostMeasure = Annotated[
    str | None,
    typer.Option(help="Measure to use as the cost of a run, instead of a price.", metavar="NAME"),
]
CostUnit = Annotated[str | None, typer.Option(help="Unit of the cost, e.g. EUR.", metavar="UNIT")]


@dataclass(frozen=True, slots=True)
class SlaOptions:
    """Texts of the command-line options for the SLA; None for an option that is not given."""

    runs: str | None = None
    deadline: str | None = None
    goal: str | None = None
    at_goal: str | None = None
    run_limit: str | None = None
    cost_limit: str | None = None
    cost_per_hour: str | None = None
    cost_resources: str | None = None
    cost_measure: str | None = None
    cost_unit: str | None = None
    keep_going: bool | None = None

    @property
    def is_given(self) -> bool:
        """Whether any SLA option is given."""
        return self != SlaOptions()

    def tables(self) -> dict[str, Any]:
        """Return the options as settings tables, without the terms that ``none`` removes.

        Raises SettingsError for an invalid number.
        """
        top = {
            "runs": _number("--runs", self.runs),
            "deadline": _unless_none(self.deadline),
            "goal": _number("--goal", self.goal),
            "at_goal": self.at_goal,
            "keep_going": self.keep_going,
            "run_limit": _unless_none(self.run_limit),
        }
        cost = {
            "limit": _number("--cost-limit", self.cost_limit),
            "per_hour": _number("--cost-per-hour", self.cost_per_hour),
            "resources": _unless_none(self.cost_resources),
            "measure": self.cost_measure,
            "unit": self.cost_unit,
        }
        file_tables: dict[str, Any] = {
            name: value for name, value in top.items() if value is not None
        }
        if any(value is not None for value in cost.values()):
            file_tables["cost"] = {name: value for name, value in cost.items() if value is not None}
        return file_tables

    def laid_over(self, tables: dict[str, Any]) -> None:
        """Merge the options into the settings tables of a sweep file, overriding them.

        A cost measure replaces a price, and vice versa. Raises SettingsError for an invalid number.
        """
        options = self.tables()
        cost = options.pop("cost", {})
        tables.update(options)
        for name in ("deadline", "goal", "run_limit"):
            if _is_none(getattr(self, name)):
                tables.pop(name, None)
        present = dict(tables.get("cost", {}))
        for name in ("limit", "resources"):
            if _is_none(getattr(self, f"cost_{name}")):
                present.pop(name, None)
        if not cost and not present:
            return
        if "measure" in cost:
            present = {k: v for k, v in present.items() if k not in ("per_hour", "resources")}
        if "per_hour" in cost:
            present.pop("measure", None)
        tables["cost"] = {**present, **cost}

    def changed(self, sla: Sla, now_s: float) -> Sla:
        """Return an SLA changed by the options, where the value ``none`` removes a term.

        Raises SettingsError for an invalid term, or terms that contradict each other.
        """
        settings = check_settings(self.tables(), "the options")
        terms: dict[str, Any] = {}
        if self.runs is not None:
            terms["max_runs"] = settings.runs
        if self.deadline is not None:
            terms["deadline_s"] = None if settings.deadline is None else now_s + settings.deadline
        if self.goal is not None:
            terms["goal"] = settings.goal
        if self.at_goal is not None:
            terms["at_goal"] = settings.at_goal
        if self.keep_going is not None:
            terms["keep_going"] = settings.keep_going
        if self.run_limit is not None:
            terms["run_limit_s"] = settings.run_limit
        if self.cost_limit is not None:
            terms["max_cost"] = None if settings.cost is None else settings.cost.limit
        return replace(sla, **terms, tariff=self._tariff(sla.tariff))

    def _tariff(self, present: Tariff | None) -> Tariff | None:
        price = _number("--cost-per-hour", self.cost_per_hour)
        resources, measure = self.cost_resources, self.cost_measure
        if (price, resources, measure, self.cost_unit) == (None, None, None, None):
            return present
        unit = self.cost_unit if self.cost_unit is not None else present.unit if present else ""
        if measure is not None or present is None:
            return Tariff(unit, price, _unless_none(resources), measure)
        if price is None and resources is None:
            return replace(present, unit=unit)
        per_hour = present.per_hour if price is None else price
        by = present.resources if resources is None else _unless_none(resources)
        return Tariff(unit, per_hour, by, None)


def apply_sla(session: Session, terms: SlaOptions, now_s: float) -> None:
    """Change the SLA of an experiment, and reopen the experiment if it is finished.

    A refused change may have modified the session: try it on a copy first. Raises SettingsError
    for an invalid term, or an SLA that leaves no run.
    """
    experiment = session.experiment
    sla = terms.changed(experiment.sla, now_s)
    if sla.tariff is not None:
        check_tariff(
            sla.tariff, experiment.space, experiment.known_measures, experiment.opened.application
        )
    used = experiment.n_charged
    if sla.max_runs is not None and sla.max_runs <= used:
        if terms.runs is not None:
            raise SettingsError(
                f"experiment '{session.id}' has used {used} runs; a budget of {sla.max_runs} "
                "leaves none"
            )
        if experiment.finished is not None:
            raise SettingsError(
                f"experiment '{session.id}' is finished and has used its {used} runs; to continue, "
                f"give it more, for example --runs {used + 10}"
            )
    was_finished = experiment.finished is not None
    if was_finished:
        session.reopen()
    session.change_budget(sla)
    reached = reached_goal(experiment)
    if was_finished and reached is not None and sla.at_goal == "stop":
        raise SettingsError(
            f"{reached} of experiment '{session.id}' already; set a better goal (--goal), or "
            "continue beyond it (--at-goal go_on)"
        )
    over = passed_limit(experiment, now_s)
    if over is not None:
        raise SettingsError(
            f"with this SLA, experiment '{session.id}' has no run left: {over}; set a higher limit"
        )


def _is_none(text: str | None) -> bool:
    return text is not None and text.strip().lower() == NONE


def _unless_none(text: str | None) -> str | None:
    return None if _is_none(text) else text


def _number(option: str, text: str | None) -> float | None:
    number_text = _unless_none(text)
    return None if number_text is None else number_of(option, number_text)


def number_of(option: str, text: str) -> float:
    """Parse the number given to an option. Raises SettingsError if it is invalid."""
    number = parse_number(text.strip())
    if number is None:
        raise SettingsError(f"{option} '{text}' is not a number; use a point for decimals")
    return number


OnWarning = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND", help="Program to start when a warning is given.", show_default=False
    ),
]
OnFinish = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Program to start when a sweep ends.", show_default=False),
]
OnFailure = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Program to start when runs or the sweep fail.",
        show_default=False,
    ),
]
HookTimeout = Annotated[str | None, typer.Option(help="Time limit of a hook.  [default: 30s]")]


def hook_tables(
    tables: dict[str, Any],
    on_warning: str | None,
    on_finish: str | None,
    on_failure: str | None,
    timeout: str | None,
) -> dict[str, Any] | None:
    """Return the settings table of hooks with the options merged in, or None without hooks.

    A program path in an option is relative to the current folder. Raises SettingsError if an
    option cannot be split into a program and its arguments.
    """
    texts = {"on_warning": on_warning, "on_finish": on_finish, "on_failure": on_failure}
    options: dict[str, Any] = {
        name: _argv(text, f"--{name.replace('_', '-')}")
        for name, text in texts.items()
        if text is not None
    }
    if timeout is not None:
        options["timeout"] = timeout
    return {**tables.get("hooks", {}), **options} if options else None


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
