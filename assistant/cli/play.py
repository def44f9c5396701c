"""``copperline play``: one run of a testbed or a platform, with a picture of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assistant.applications import AiPlatform, Flood, Maze, Placing
from assistant.applications.machine_kinds import usual_workload
from assistant.charts import Spec
from assistant.charts_placement import fleet_picture
from assistant.charts_platform import platform_picture
from assistant.charts_testbeds import flood_picture, maze_picture
from assistant.cli.console import OUT, Json, print_json, table_of
from assistant.cli.options import BY_NAME, pairs
from assistant.cli.text_drawing import (
    FLOOD_KEY,
    MAZE_KEY,
    day_text,
    flood_text,
    maze_text,
    series_text,
    steps_text,
)
from assistant.errors import SettingsError, hint
from assistant.objective import Measure
from assistant.report.picture import check_picture, write_picture
from assistant.report.words import number, quantity
from strategies import Level, ParameterSpace

QUICK: Mapping[str, Level] = {
    "movement": "memory", "velocity": 1.4, "footing": "careful", "enemies": "hide",
}  # fmt: skip
"""How a runner plays if nothing is said."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what was set, what came of it, and how it is drawn.

    ``picture`` is a Vega-Lite specification, ``lines`` the same in characters. ``whole`` is the
    objective of the configuration, which for a maze is the mean over its games.
    """

    title: str
    values: Mapping[str, Level]
    measures: Mapping[str, Measure]
    whole: str
    picture: Spec
    lines: tuple[str, ...]


def play(
    application: Annotated[
        str, typer.Argument(help="flood, maze, ai_platform or placement.", show_default=False)
    ],
    chosen: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A level of one parameter."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the catchment or the mazes.", min=0)] = 0,
    game: Annotated[int, typer.Option(help="Of maze: which game is shown.", min=1)] = 1,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw it into this file (.svg, .png or .html).", show_default=False),
    ] = None,
    day: Annotated[
        Path | None,
        typer.Option(
            help="Of ai_platform: draw its mean day, hour by hour, into this file.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Of ai_platform: write the whole trace there, as Parquet.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Run one configuration of flood, maze, ai_platform or placement and show what happened.

    Without --set flood runs with values of a handbook, and maze with a careful runner that
    remembers where it was.
    """
    if application not in BY_NAME:
        raise SettingsError(f"'{application}' cannot be played{hint(application, BY_NAME)}")
    for target in (picture, day):
        if target is not None:
            check_picture(target)
    if application != "ai_platform" and (day is not None or trace is not None):
        raise SettingsError(f"'{application}' has no day and no trace; leave out --day and --trace")
    texts = chosen or []
    if application == "ai_platform":
        played = _platform(seed, texts, day, trace)
    elif application == "placement":
        played = _fleet(seed, texts)
    else:
        played = _flood(seed, texts) if application == "flood" else _maze(seed, texts, game)
    written = None if picture is None else write_picture(played.picture, picture, played.title)
    if as_json:
        print_json(
            {
                "application": application, "seed": seed, "configuration": played.values,
                "measures": played.measures, "picture": None if written is None else str(written),
            }
        )  # fmt: skip
        return 0
    OUT.print(played.title, style="bold", soft_wrap=True)
    for line in played.lines:
        OUT.print(line, soft_wrap=True)
    table = table_of("measure", "value")
    for name, value in played.measures.items():
        table.add_row(name, number(value) if isinstance(value, int | float) else str(value))
    OUT.print(table)
    OUT.print(played.whole, soft_wrap=True)
    if written is not None:
        OUT.print(f"Picture: {written}", soft_wrap=True)
    return 0


def _flood(seed: int, texts: list[str]) -> Played:
    from assistant.applications.testbed_view import flood_drawing

    application = Flood(seed)
    values = _chosen(application.space, application.baseline, texts)
    drawn, measures = flood_drawing(application, values)
    lines = [*flood_text(drawn), FLOOD_KEY]
    for one in drawn.sensors:
        lines += ["", *series_text(one, drawn.sample_s)]
    fit = quantity(application.objective.assess(measures).value, application.objective.unit)
    whole = f"It differs from what the sensors measured by {fit} (root of the mean square)."
    return Played(drawn.title, values, measures, whole, flood_picture(drawn), (*lines, ""))


def _platform(seed: int, texts: list[str], day: Path | None, trace: Path | None) -> Played:
    from assistant.applications.platform_view import played

    application = AiPlatform(seed)
    values = _chosen(application.space, application.baseline, texts)
    board, measures = played(application, values, trace)
    drawn = board.over_time
    cost = quantity(application.objective.assess(measures).value, application.objective.unit)
    whole = f"Capacity, late models and waiting cost {cost}."
    lines = [line for panel in drawn.panels for line in day_text(panel)]
    if day is not None:
        write_picture(platform_picture(board.day), day, board.day.title)
    lines += ["", *board.words]
    return Played(drawn.title, values, measures, whole, platform_picture(drawn), tuple(lines))


def _fleet(seed: int, texts: list[str]) -> Played:
    from assistant.applications.placement_view import fleet_drawing

    application = Placing((usual_workload(seed),), seed=seed)
    values = _chosen(application.space, application.baseline, texts)
    drawn, measures = fleet_drawing(application, values)
    cost = quantity(application.objective.assess(measures).value, application.objective.unit)
    whole = f"Machines and waiting cost {cost}."
    lines = tuple(
        line
        for panel in drawn.panels
        for line in steps_text(panel.title, panel.series, drawn.step_h)
    )
    return Played(drawn.title, values, measures, whole, fleet_picture(drawn), lines)


def _maze(seed: int, texts: list[str], game: int) -> Played:
    from assistant.applications.testbed_view import maze_drawing

    application = Maze(seed)
    values = _chosen(application.space, QUICK, texts)
    drawn, measures = maze_drawing(application, values, game)
    mean = application.objective.assess(application.evaluate(values, 0)).value
    time = quantity(mean, application.objective.unit)
    whole = f"Over all {application.n_games} games of seed {seed} it takes {time} on average."
    lines = (*maze_text(drawn), MAZE_KEY, "")
    return Played(drawn.title, values, measures, whole, maze_picture(drawn), lines)


def _chosen(
    space: ParameterSpace, usual: Mapping[str, Level], texts: list[str]
) -> Mapping[str, Level]:
    """Return a configuration: the usual one, with what was said instead.

    Raises:
        SettingsError: not of the form name=value, or a name given twice.
        StrategyError: no such parameter or level.
    """
    example = f"{next(iter(usual))}={next(iter(usual.values()))}"
    given = {name: space.parse_value(name, value) for name, value in pairs(texts, "--set", example)}
    values = {**usual, **given}
    space.check(space.from_values(values))
    return values
