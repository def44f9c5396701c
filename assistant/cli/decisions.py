"""Options of a command line that are decisions: each has a flag, a text to read, and a command.

A new decision that takes one text becomes an option by one entry in a table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer

from assistant.cli.options import NONE, pair
from assistant.config.sweep_file import check_settings
from assistant.core.commands import (
    CancelRun,
    ChangeEarlyStopping,
    ChangeLevel,
    Command,
    ExcludeConfigurations,
    HoldRun,
    PrioritiseRun,
    ReleaseRun,
    StopRun,
    WeighRegion,
)
from assistant.core.errors import SettingsError
from assistant.session.session import Session
from strategies import ParameterSpace
from strategies.space.parameter import parse_number

EXAMPLE = "order=sjf"


@dataclass(frozen=True, slots=True)
class DecisionOption:
    """Repeatable option whose text is read as a command.

    ``command`` takes the parameter space, the text and the reason of the command line; it raises
    SettingsError or StrategyError for a text that is none.
    """

    flag: str
    metavar: str
    help: str
    command: Callable[[ParameterSpace, str, str], Command]

    @property
    def name(self) -> str:
        """Name of the parameter of a Python function, such as ``run_first``."""
        return self.flag.removeprefix("--").replace("-", "_")


Decision: TypeAlias = tuple[DecisionOption, str]


def with_decisions(
    options: Iterable[DecisionOption], before: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add options to a command of the command line, before its parameter ``before``.

    The function receives them as ``decisions``: options and texts, in the order of the table.
    """
    table = tuple(options)

    def decorated(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def called(**values: Any) -> int:
            texts = {option: values.pop(option.name) or () for option in table}
            decisions = [(option, text) for option in table for text in texts[option]]
            return function(decisions=decisions, **values)

        signature = inspect.signature(function, eval_str=True)
        parameters = [each for each in signature.parameters.values() if each.name != "decisions"]
        place = [each.name for each in parameters].index(before)
        parameters[place:place] = [_parameter(option) for option in table]
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    return decorated


def _parameter(option: DecisionOption) -> inspect.Parameter:
    described = typer.Option(option.flag, metavar=option.metavar, help=option.help)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[list[str] | None, described],
    )


def decide(session: Session, decisions: Iterable[Decision], reason: str = "") -> list[Command]:
    """Decide the texts of options one after another, and return the commands."""
    commands = []
    for option, text in decisions:
        command = option.command(session.experiment.space, text, reason)
        session.decide(command)
        commands.append(command)
    return commands


def _run(flag: str, text: str) -> int:
    number = parse_number(text.strip())
    if not isinstance(number, int):
        raise SettingsError(f"{flag} {text}: give the number of a run, for example {flag} 7")
    return number


def _priority(text: str) -> PrioritiseRun:
    run, _, priority = (part.strip() for part in text.partition("="))
    number, value = parse_number(run), parse_number(priority)
    if not isinstance(number, int) or value is None:
        raise SettingsError(
            f"--priority {text}: give a run and a number, for example --priority 7=2.5"
        )
    return PrioritiseRun(number, value)


def weight_of(text: str) -> tuple[int, float]:
    """Parse the number and the weight of a region, such as ``2=0.5``. Raises SettingsError."""
    name, value = pair(text, "--weigh", "2=0.5")
    region, weight = parse_number(name), parse_number(value)
    if not isinstance(region, int) or weight is None:
        raise SettingsError(f"--weigh '{text}' is not a region number and a weight, as in 2=0.5")
    return region, float(weight)


def _new_level(space: ParameterSpace, text: str) -> ChangeLevel:
    name, value = pair(text, "--add", EXAMPLE)
    return ChangeLevel("add", name, space.parameter(name).read(value))


def _level(space: ParameterSpace, flag: str, text: str) -> tuple[str, Any]:
    name, value = pair(text, flag, EXAMPLE)
    return name, space.parse_value(name, value)


def _early_stopping(text: str) -> ChangeEarlyStopping:
    if text.strip() == NONE:
        return ChangeEarlyStopping(None)
    step, *rest = text.split(",")
    pairs = (pair(each, "--stop-early", "rule=halving") for each in rest)
    values = {name: parse_number(value) or value for name, value in pairs}
    tables = {"early_stopping": {"step": step.strip(), **values}}
    early = check_settings(tables, "--stop-early").early_stopping
    return ChangeEarlyStopping(None if early is None else early.build())


STEER: tuple[DecisionOption, ...] = (
    DecisionOption(
        "--add", "NAME=LEVEL", "Add a level to a parameter.",
        lambda space, text, _: _new_level(space, text),
    ),
    DecisionOption(
        "--reopen", "NAME=LEVEL", "Suggest a closed level again.",
        lambda space, text, _: ChangeLevel("reopen", *_level(space, "--reopen", text)),
    ),
    DecisionOption(
        "--close", "NAME=LEVEL", "Stop suggesting this level.",
        lambda space, text, _: ChangeLevel("close", *_level(space, "--close", text)),
    ),
    DecisionOption(
        "--unprefer", "NAME=LEVEL", "Stop preferring this level.",
        lambda space, text, _: ChangeLevel("unprefer", *_level(space, "--unprefer", text)),
    ),
    DecisionOption(
        "--prefer", "NAME=LEVEL", "Use this level in half of the suggestions.",
        lambda space, text, _: ChangeLevel("prefer", *_level(space, "--prefer", text)),
    ),
    DecisionOption(
        "--exclude", "CONDITION", "Never suggest runs that meet this condition.",
        lambda _space, text, _: ExcludeConfigurations(text),
    ),
    DecisionOption(
        "--weigh", "REGION=WEIGHT", "Weight of a region; new regions have 1.",
        lambda _space, text, _: WeighRegion(*weight_of(text)),
    ),
    DecisionOption(
        "--stop-early", "STEP[,KEY=VALUE]",
        "Stop hopeless runs by this measure of their steps, such as epoch,rule=halving; none stops "
        "no more.",
        lambda _space, text, _: _early_stopping(text),
    ),
)  # fmt: skip
"""Options of ``copperline steer``, in the order in which they are applied."""

QUEUE: tuple[DecisionOption, ...] = (
    DecisionOption(
        "--first", "RUN", "Start it before all waiting runs; repeatable.",
        lambda _space, text, _: PrioritiseRun(_run("--first", text), "first"),
    ),
    DecisionOption(
        "--priority", "RUN=NUMBER", "Higher starts earlier; 0 is the default.",
        lambda _space, text, _: _priority(text),
    ),
    DecisionOption(
        "--hold", "RUN", "Keep it waiting until it is released.",
        lambda _space, text, _: HoldRun(_run("--hold", text)),
    ),
    DecisionOption(
        "--release", "RUN", "Release a held run.",
        lambda _space, text, _: ReleaseRun(_run("--release", text)),
    ),
    DecisionOption(
        "--cancel", "RUN", "Cancel it; a waiting run costs nothing.",
        lambda _space, text, reason: CancelRun(_run("--cancel", text), reason),
    ),
    DecisionOption(
        "--stop", "RUN", "Stop it; its last intermediate result counts.",
        lambda _space, text, reason: StopRun(_run("--stop", text), reason=reason),
    ),
)  # fmt: skip
"""Options of ``copperline queue``, in the order in which they are applied."""
