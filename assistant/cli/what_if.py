"""``copperline what-if``: what a change would come to, before it is made."""

import time
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from assistant import Session
from assistant.chances import percent
from assistant.cli.console import OUT, Json, StoreOption, print_json, table_of
from assistant.cli.experiments import stored_session
from assistant.cli.options import pair, strategy_options
from assistant.cli.steer import EXAMPLE, share_of, weight_of
from assistant.cli.terms import NONE, CostLimit, number_of
from assistant.decisions import Keep
from assistant.errors import SettingsError
from assistant.forecasts import Forecast
from assistant.report.words import level
from assistant.settings import check_settings
from assistant.what_if import WhatIf
from strategies import Level, OptionValue, ParameterSpace, strategy_entry


def what_if(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    exploitation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Share of suggestions inside regions, 0 to 1; none for no split."
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs in all.", show_default=False)] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time from now, such as 30m.")
    ] = None,
    cost_limit: CostLimit = None,
    goal: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Value to reach; none for no goal.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Choose like this.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the strategy.")
    ] = None,
    close: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Without this level.")
    ] = None,
    weigh: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION=WEIGHT", help="How much a region counts; 1 as it is found."),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Say what a change would come to: the chance, where runs would go, what would come next.

    Nothing is changed and nothing recorded; copperline steer makes the change.
    """
    session = stored_session(experiment, store)
    asked = (exploitation, runs, deadline, cost_limit, goal, strategy, option, close, weigh)
    if all(one is None or one == [] for one in asked):
        raise SettingsError(
            "nothing was said to change; say what, for example --runs 80 or --exploitation 0.7 "
            "(copperline what-if --help has all)"
        )
    known = session.experiment
    options: dict[str, OptionValue] = {}
    if option:
        options = strategy_options(strategy_entry(strategy or known.steering.strategy), option)
    share: float | Keep | None = "keep" if exploitation is None else share_of(exploitation)
    found = session.what_if(
        exploitation=share,
        max_runs=runs,
        deadline_s=None if deadline is None else _moment_s(deadline),
        max_cost=None if cost_limit is None else number_of("--cost-limit", cost_limit),
        goal=_goal(goal),
        strategy=strategy,
        options=options,
        close=[_level(known.space, text) for text in close or []],
        weights=[weight_of(text) for text in weigh or []],
    )
    if as_json:
        print_json({"experiment": session.id, **_plain(session, found)})
    else:
        _tell(session, found)
    return 0


def _goal(text: str | None) -> float | Literal["none"] | None:
    if text is None:
        return None
    return NONE if text.strip().lower() == NONE else number_of("--goal", text)


def _moment_s(text: str) -> float:
    seconds = check_settings({"deadline": text.strip()}, "--deadline").deadline
    if seconds is None:
        raise SettingsError(f"--deadline '{text}' is no time from now, such as 90s, 30m or 2h")
    return time.time() + seconds


def _level(space: ParameterSpace, text: str) -> tuple[str, Level]:
    name, value = pair(text, "--close", EXAMPLE)
    return name, ParameterSpace.parse_value(space, name, value)


def _plain(session: Session, found: WhatIf) -> dict[str, object]:
    space = session.experiment.space
    return {
        "sentence": found.sentence,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "inside": [asdict(one) for one in found.inside],
        "outside": found.outside,
        "suggestions": [
            {"values": space.values(one.configuration), "reason": one.reason}
            for one in found.suggestions
        ],
    }


def _tell(session: Session, found: WhatIf) -> None:
    OUT.print(found.sentence, soft_wrap=True)
    table = table_of("", "now", "then")
    for name, before, after in zip(
        ("chance to reach the goal", "runs that are left", "best at the end"),
        _cells(found.before), _cells(found.after), strict=True,
    ):  # fmt: skip
        table.add_row(name, before, after)
    OUT.print(table)
    space = session.experiment.space
    if not found.suggestions:
        OUT.print("Nothing would be suggested: no run is left.")
        return
    OUT.print("What would come next:")
    following = table_of(*space.names, left=len(space.names))
    for one in found.suggestions:
        following.add_row(*map(level, space.values(one.configuration).values()))
    OUT.print(following)


def _cells(seen: Forecast) -> tuple[str, str, str]:
    goal, left, best = seen.goal, seen.remaining, seen.best
    chance = "unknown" if goal is None or goal.chance is None else percent(goal.chance)
    runs = "unknown" if left is None or left.median is None else f"{left.median:.0f}"
    value = "unknown" if best is None or best.median is None else f"{best.median:.4g}"
    return chance, runs, value
