"""Options of the command line laid over the tables of a sweep file."""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from assistant import Experiment, Session
from assistant.applications import DEFAULT_PRESET, presets
from assistant.errors import ObjectiveError, SettingsError
from assistant.files import is_file
from assistant.objective import Goal
from assistant.ports import Result
from assistant.settings import Sweep, read_settings
from assistant.settings_executor import OF_SYSTEM
from strategies import (
    DEFAULT_STRATEGY,
    Level,
    OptionValue,
    ParameterSpace,
    StrategyEntry,
    StrategyError,
    strategy_entry,
)
from strategies.parameter import parse_number

SweepFile = Annotated[
    Path | None,
    typer.Argument(
        help="A sweep file (TOML), or flood, maze, ai_platform or placement.", show_default=False
    ),
]
BY_NAME = ("flood", "maze", "ai_platform", "placement")
"""Applications that can be played, or named in place of a sweep file if no file has the name."""
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
    typer.Option(help="Today's queue order; a list (today's first) makes it a parameter."),
]
Backfill = Annotated[
    str | None,
    typer.Option(help="Today's backfill; a list (today's first) makes it a parameter."),
]
PresetName = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help=f"Parameters to open: {', '.join(preset.name for preset in presets())}."
        f"  [default: {DEFAULT_PRESET}]",
    ),
]
PolicyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--policy-option",
        metavar="NAME=VALUE",
        help="What order or backfill is told in every run, e.g. depth=8.",
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
    typer.Option(metavar="CONDITION", help="Never propose what meets this condition."),
]


def sweep_tables(file: Path | None) -> dict[str, Any]:
    """Return the tables of a sweep file, or those that the name of a testbed stands for.

    Raises:
        SettingsError: no such file, or not TOML.
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
    """Put the options that were given into ``tables``, where they overrule the file.

    Raises:
        SettingsError: an option that cannot be read, or two that contradict each other.
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
    plain = {"preset": preset, "first": first, "too_wide": too_wide}
    application.update({name: value for name, value in plain.items() if value is not None})
    _lists(application, procs=procs, order=order, backfill=backfill)
    for name, values in pairs(levels, "--levels", "small_procs=0,16,32"):
        application.setdefault("levels", {})[name] = _values(values)
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
        told = {"second": measure.strip(), "second_goal": goal}
        tables["objective"] = {**tables.get("objective", {}), **told}
    chosen = tables.setdefault("strategy", {})
    if strategy is not None:
        chosen["name"] = strategy
    if options:
        entry = strategy_entry(chosen.get("name", DEFAULT_STRATEGY))
        chosen.update(strategy_options(entry, options))


def strategy_options(entry: StrategyEntry, texts: list[str]) -> dict[str, OptionValue]:
    """Return options as their types want them; what does not fit is refused by the strategy.

    Raises:
        SettingsError: not of the form name=value, or a name given twice.
    """
    given = pairs(texts, "--option", "beta=0.9")
    return {name: _option(entry, name, value) for name, value in given}


def _option(entry: StrategyEntry, name: str, value: str) -> OptionValue:
    kind = next((one.type for one in entry.options if one.name == name), str)
    if kind is bool:
        return {"true": True, "false": False}.get(value.lower(), value)
    number = None if kind is str else parse_number(value)
    return value if number is None else number


def _lists(
    application: dict[str, Any], *, procs: str | None, order: str | None, backfill: str | None
) -> None:
    """One value says how it is today; several say that it is a parameter, today's first."""
    if procs is not None:
        sizes = _values(procs)
        if not sizes or not all(type(size) is int for size in sizes):
            raise SettingsError(f"--procs is a whole number or a list of them, not '{procs}'")
        application["procs"] = sizes[0]
        if len(sizes) > 1:
            application.setdefault("levels", {})["procs"] = sizes
    for name, text in (("order", order), ("backfill", backfill)):
        if text is None:
            continue
        choices = _values(text)
        if not choices:
            raise SettingsError(f"--{name} names none; give one or several, separated by commas")
        application["today"] = {**application.get("today", {}), name: choices[0]}
        if len(choices) > 1:
            application.setdefault("levels", {})[name] = choices


def own_runs(built: Sweep, texts: list[str]) -> tuple[dict[str, Level], ...]:
    """Return the analyst's own first configurations, from the file and from ``--include``.

    A parameter that is not named takes today's value, if there is a today. One that is today's is
    left out: it is run anyway.

    Raises:
        SettingsError: not of the form name=value,...
        StrategyError: a value outside the space.
    """
    today = dict(built.application.baseline or {})
    own = [{**today, **values} for values in built.settings.run]
    own += [{**today, **_included(built.space, text)} for text in texts]
    baseline = built.application.baseline
    seen = {} if baseline is None else {built.space.from_values(baseline): "today's"}
    kept = []
    for values in own:
        configuration = built.space.from_values(values)
        built.space.check(configuration)
        if seen.get(configuration) == "yours":
            text = ", ".join(f"{name}={value}" for name, value in values.items())
            raise SettingsError(f"{text} is included twice; name a configuration once")
        if configuration not in seen:
            kept.append(values)
        seen.setdefault(configuration, "yours")
    needed = len(kept) + (baseline is not None)
    budget = built.settings.max_runs
    if budget is not None and needed > budget:
        raise SettingsError(
            f"today's and your own configurations need {needed} runs and the budget has "
            f"{budget}; raise --runs or include fewer"
        )
    return tuple(kept)


def further_runs(experiment: Experiment, texts: list[str]) -> tuple[dict[str, Level], ...]:
    """Return configurations of one's own for an experiment that goes on, from ``--include``.

    A parameter that is not named takes today's value, if there is a today.

    Raises:
        SettingsError: not of the form name=value,..., or submitted before.
        StrategyError: a value outside the space, a closed level or an excluded combination.
    """
    space, today = experiment.space, experiment.opened.baseline
    known = {run.configuration: run.id for run in experiment.runs}
    found = []
    for text in texts:
        values = {**(space.values(today) if today else {}), **_included(space, text)}
        configuration = space.from_values(values)
        space.check(configuration)
        if configuration in known:
            raise SettingsError(
                f"--include '{text}' is run {known[configuration]} already; leave it out"
            )
        known[configuration] = len(known) + 1
        found.append(values)
    return tuple(found)


def _included(space: ParameterSpace, text: str) -> dict[str, Level]:
    given: dict[str, Level] = {}
    for part in text.split(","):
        name, value = pair(part, "--include", "small_procs=16,small_max_procs=8")
        given[name] = space.parse_value(name, value)
    return given


def results_of(session: Session, built: Sweep) -> list[Result]:
    """Return the results of another experiment that have a place in this sweep's space.

    Raises:
        SettingsError: none of them has; the parameters or levels are others.
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
            "measures are others"
        )
    return results


def pair(text: str, option: str, example: str) -> tuple[str, str]:
    """Return name and value of ``name=value``. Raises SettingsError with an example."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise SettingsError(f"{option} '{text}' is not of the form {example}")
    return name.strip(), value.strip()


def pairs(texts: list[str], option: str, example: str) -> list[tuple[str, str]]:
    """Return what `pair` makes of each. Raises SettingsError too for a name given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, value = pair(text, option, example)
        if name in found:
            raise SettingsError(
                f"{option} gives '{name}' twice, as {found[name]} and as {value}; give it once"
            )
        found[name] = value
    return list(found.items())


def by_number(texts: list[str], flag: str, example: str) -> dict[int, float]:
    """Return what was told of queues or users, which are known by their numbers in the log.

    Raises:
        SettingsError: it is none of these, or told twice.
    """
    found = {}
    for number, value in pairs(texts, flag, example):
        try:
            found[int(number)] = float(value)
        except ValueError:
            raise SettingsError(
                f"{flag} '{number}={value}': both are numbers, the first as it stands in the log, "
                f"for example {example}"
            ) from None
    return found


def _values(text: str) -> list[Level]:
    return [_value(part.strip()) for part in text.split(",") if part.strip()]


def _value(text: str) -> Level:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def policy_options(texts: list[str]) -> dict[str, float]:
    """Return options of policies, which are numbers.

    Raises:
        SettingsError: not of the form, given twice, or no number.
    """
    found = {}
    for name, value in pairs(texts, "--option", "depth=8"):
        try:
            found[name] = float(value)
        except ValueError:
            raise SettingsError(
                f"--option '{name}={value}': options of order and backfill are numbers"
            ) from None
    return found


def executor_table(told: dict[str, Any] | None, chosen: str) -> dict[str, Any]:
    """Return ``[executor]`` with ``NAME``, ``NAME=ADDRESS`` or ``NAME=SYSTEM`` over the file."""
    name, _, where = chosen.partition("=")
    kept = dict(told) if told is not None and told.get("kind") == name else {}
    if not where:
        return {**kept, "kind": name}
    replaced, key = (("address",), "system") if where == "slurm" else (OF_SYSTEM, "address")
    return {**{k: kept[k] for k in kept if k not in replaced}, "kind": name, key: where}


def environment_table(
    told: dict[str, Any] | None, cores: int | None, memory: str | None
) -> dict[str, Any]:
    """Return ``[environment]`` with the options laid over what the file says."""
    given = {"cores": cores, "memory": memory}
    return {**(told or {}), **{name: value for name, value in given.items() if value is not None}}
