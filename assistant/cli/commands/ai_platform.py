"""Commands ``copperline play`` and ``platform``: runs of a testbed, and traces of an AI platform.

Mazes, floods and series are drawn as characters, for a terminal.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.extensions.placement import FleetPlacement, usual_workload
from assistant.cli.commands.workload import model_dict
from assistant.cli.commands.workload_model import ToModel, check_model_file
from assistant.cli.console import OUT, Json, print_json, progress_spinner, table_of
from assistant.cli.options import pairs
from assistant.core.errors import SettingsError, hint
from assistant.core.objective import Measure
from assistant.presentation.charts.ai_platform import PlatformPanel, platform_picture
from assistant.presentation.charts.schedule import fleet_picture
from assistant.presentation.charts.testbeds import (
    FloodDrawing,
    MazeDrawing,
    Segment,
    SensorSeries,
    flood_picture,
    maze_picture,
)
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.html import (
    LIKENESS,
    check_picture,
    check_target,
    comparison_rows,
    write_comparison,
    write_dashboard,
    write_picture,
)
from assistant.presentation.text.number_format import number, quantity
from assistant.simtools.ai_platform import fit_platform
from sim.aiops import read_logs
from sim.generators import save_model
from strategies import Level, ParameterSpace

if TYPE_CHECKING:
    from assistant.simtools.ai_platform import PlatformDashboard


def fit(
    log: Annotated[
        Path,
        typer.Argument(
            help="Executed tasks, one per row (CSV or Parquet): task and seconds; if known also "
            "submitted or submit_s, framework, estimator, rows, columns, bytes, performance.",
            show_default=False,
        ),
    ],
    to: ToModel,
    components: Annotated[
        int, typer.Option(help="Maximum components of the mixture for data sets.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the starting points of the fits.")] = 0,
    as_json: Json = False,
) -> int:
    """Fit the statistics of an AI platform to its logs, for `statistics` of a sweep file."""
    check_model_file(to)
    with progress_spinner(f"Reading {log.name} …"):
        logs = read_logs(log)
    with progress_spinner(f"Fitting to {len(logs):,} executed tasks …"):
        fitted = fit_platform(logs, log.name, components=components, seed=seed)
    save_model(fitted.model, to)
    if as_json:
        report = {**model_dict(fitted.model), "file": str(to), "notes": list(fitted.sentences)}
        print_json(report)
        return 0
    OUT.print(f"{to}: statistics of a platform", soft_wrap=True)
    for sentence in fitted.sentences:
        OUT.print(f"  {sentence}", soft_wrap=True)
    OUT.print(
        f'  next: statistics = "{to}" under [application] of a sweep file '
        "(copperline init FILE --kind ai_platform)",
        soft_wrap=True,
    )
    return 0


WATER = ((120.0, "█"), (60.0, "▓"), (25.0, "▒"), (10.0, "░"))  # least depth (mm); less is ground

GROUND = ".:+^"  # from the lowest quarter to the highest

SIGNS = {"slipped": "s", "shook off": "x", "carried back": "C"}
_CORNERS = " ╵╷│╶└┌├╴┘┐┤─┴┬┼"  # bits: walls above 1, below 2, right 4, left 8

MAZE_KEY = (
    "· the runner's path   s slipped   x shook an enemy off   C carried back   "
    "M an enemy's start   ░ rubble"
)
FLOOD_KEY = "water from 10 ░  25 ▒  60 ▓  120 █ mm   ground .:+^ low to high   A B C sensors"


HEIGHTS = "▁▂▃▄▅▆▇█"


def maze_text(drawing: MazeDrawing) -> Iterator[str]:
    """Yield the lines of a maze in characters: three per room, with walls between rooms."""
    across, down = _unit_walls(drawing.walls)
    ways = {_passage(step) for step in drawing.way}
    signs = _room_signs(drawing)
    for row in range(drawing.rows + 1):
        yield "".join(_above(drawing, row, across, down, ways))
        if row < drawing.rows:
            yield "".join(_rooms(drawing, row, down, ways, signs))


def _unit_walls(
    walls: Sequence[Segment],
) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Return walls of length 1 by the (column, row) of their left or upper end: across and down."""
    across: set[tuple[int, int]] = set()
    down: set[tuple[int, int]] = set()
    for wall in walls:
        x, y, x2, y2 = (round(value) for value in (wall.x, wall.y, wall.x2, wall.y2))
        across.update((column, y) for column in range(x, x2))
        down.update((x, row) for row in range(y, y2))
    return frozenset(across), frozenset(down)


Passage = frozenset[tuple[int, int]]
Walls = frozenset[tuple[int, int]]


def _passage(step: Segment) -> Passage:
    return frozenset(((int(step.x), int(step.y)), (int(step.x2), int(step.y2))))


def _room_signs(drawing: MazeDrawing) -> dict[tuple[int, int], str]:
    """Return the sign of each room that has one; the most important sign wins."""
    signs = dict.fromkeys(drawing.rubble, "░")
    signs.update({(int(x), int(y)): "M" for x, y in drawing.starts})
    for step in drawing.way:
        signs[int(step.x2), int(step.y2)] = "·"
    for kind, sign in SIGNS.items():
        signs.update({(int(m.x), int(m.y)): sign for m in drawing.marks if m.kind == kind})
    return {**signs, (0, 0): "S", (drawing.columns - 1, drawing.rows - 1): "E"}


def _above(
    drawing: MazeDrawing, row: int, across: Walls, down: Walls, ways: set[Passage]
) -> Iterator[str]:
    for column in range(drawing.columns + 1):
        meet = (
            ((column, row - 1) in down)
            + 2 * ((column, row) in down)
            + 4 * ((column, row) in across)
            + 8 * ((column - 1, row) in across)
        )
        yield _CORNERS[meet]
        if column < drawing.columns:
            gone = frozenset(((column, row - 1), (column, row))) in ways
            yield "───" if (column, row) in across else " · " if gone else "   "


def _rooms(
    drawing: MazeDrawing, row: int, down: Walls, ways: set[Passage],
    signs: dict[tuple[int, int], str],
) -> Iterator[str]:  # fmt: skip
    for column in range(drawing.columns + 1):
        left = frozenset(((column - 1, row), (column, row))) in ways
        yield "│" if (column, row) in down else "·" if left else " "
        if column < drawing.columns:
            yield f" {signs.get((column, row), ' ')} "


def flood_text(drawing: FloodDrawing) -> Iterator[str]:
    """Yield the lines of a catchment in characters: two per cell."""
    low, high = min(drawing.elevation_m), max(drawing.elevation_m)
    at = {(int(sensor.x), int(sensor.y)): sensor.name[0] for sensor in drawing.sensors}
    cells = list(zip(drawing.elevation_m, drawing.deepest_mm, strict=True))
    for row in range(len(cells) // drawing.columns):
        line = ""
        for column in range(drawing.columns):
            height, water = cells[row * drawing.columns + column]
            share = (height - low) / (high - low) if high > low else 0.0
            ground = GROUND[min(int(4 * share), 3)] + " "
            sign = next((2 * sign for least, sign in WATER if water >= least), ground)
            line += f"{at[column, row]} " if (column, row) in at else sign
        yield line.rstrip()


def series_text(sensor: SensorSeries, sample_s: float, height: int = 6) -> Iterator[str]:
    """Yield the lines of a sensor's chart in characters, simulated ``*`` and observed ``o``."""
    most = max([*sensor.simulated, *sensor.observed, 1e-9])
    canvas = [[" "] * len(sensor.observed) for _ in range(height)]
    for series, sign in ((sensor.observed, "o"), (sensor.simulated, "*")):
        for i, value in enumerate(series):
            line = canvas[height - 1 - min(int(height * value / most), height - 1)]
            line[i] = "@" if line[i] not in (" ", sign) else sign
    yield f"{sensor.name}, m3/s: * simulated  o observed  @ both"
    for i, line in enumerate(canvas):
        label = f"{most:6.2f}" if i == 0 else f"{0:6.2f}" if i == height - 1 else " " * 6
        yield f"{label} │{''.join(line)}".rstrip()
    hours = len(sensor.observed) * sample_s / 3600
    yield f"{' ' * 7}└{'─' * len(sensor.observed)} {hours:g} h"


def day_text(panel: PlatformPanel) -> Iterator[str]:
    """Yield one line per series with a bar for each hour's mean and the peak of the day."""
    yield f"{panel.title}, by hour of the day"
    for name, series in panel.series.items():
        by_hour = [[value for value in series[hour::24] if value is not None] for hour in range(24)]
        means = [sum(values) / len(values) if values else 0.0 for values in by_hour]
        most = max(means)
        heights = "".join(HEIGHTS[min(int(8 * mean / (most or 1.0)), 7)] for mean in means)
        yield f"  {heights} {name}, {most:.3g} at {means.index(most):02d}:00"


def steps_text(title: str, series: Mapping[str, tuple[float, ...]], step_h: float) -> Iterator[str]:
    """Yield one line per series with a bar for each time step and the maximum."""
    n = max((len(values) for values in series.values()), default=0)
    yield f"{title}, over {n * step_h:.3g} h"
    for name, values in series.items():
        most = max(values, default=0.0)
        heights = "".join(HEIGHTS[min(int(8 * max(v, 0.0) / (most or 1.0)), 7)] for v in values)
        yield f"  {heights} {name}, {most:.3g} at most"


QUICK: Mapping[str, Level] = {
    "movement": "memory", "velocity": 1.4, "footing": "careful", "enemies": "hide",
}  # fmt: skip
"""Default levels of a maze runner."""


@dataclass(frozen=True, slots=True)
class PlayResult:
    """The result of one run of a testbed: configuration, measures and picture.

    ``picture`` is a Vega-Lite specification, ``lines`` the same in characters. ``summary`` is the
    objective of the configuration, which for a maze is the mean over its games.
    """

    title: str
    values: Mapping[str, Level]
    measures: Mapping[str, Measure]
    summary: str
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
    seed: Annotated[int, typer.Option(help="Seed of the catchment or the mazes.", min=0)] = 0,
    game: Annotated[int, typer.Option(help="Game to show, for maze.", min=1)] = 1,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the run into this file (.svg, .png, .html).", show_default=False),
    ] = None,
    day: Annotated[
        Path | None,
        typer.Option(
            help="For ai_platform: draw the mean day, hour by hour, into this file.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="For ai_platform: write the whole trace there, as Parquet.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Run one configuration of flood, maze, ai_platform or placement and show what happened.

    Without --set flood runs with values of a handbook, and maze with a careful runner that
    remembers where it was.
    """
    if application not in _PLAYERS:
        raise SettingsError(f"'{application}' cannot be played{hint(application, _PLAYERS)}")
    player, takes = _PLAYERS[application]
    for target in (picture, day):
        if target is not None:
            check_picture(target)
    if "day" not in takes and (day is not None or trace is not None):
        raise SettingsError(f"'{application}' has no day and no trace; leave out --day and --trace")
    options = {"game": game, "day": day, "trace": trace}
    played = player(seed, chosen or [], **{name: options[name] for name in takes})
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
    OUT.print(played.summary, soft_wrap=True)
    if written is not None:
        OUT.print(f"Picture: {written}", soft_wrap=True)
    return 0


def _flood(seed: int, texts: list[str]) -> PlayResult:
    from assistant.simtools.application_views import flood_drawing

    application = Flood(seed)
    values = _configuration(application.space, application.baseline, texts)
    drawing, measures = flood_drawing(application, values)
    lines = [*flood_text(drawing), FLOOD_KEY]
    for sensor in drawing.sensors:
        lines += ["", *series_text(sensor, drawing.sample_s)]
    fit = quantity(application.objective.assess(measures).value, application.objective.unit)
    summary = f"It differs from the measurements of the sensors by {fit} (root mean square)."
    return PlayResult(
        drawing.title, values, measures, summary, flood_picture(drawing), (*lines, "")
    )


def _platform(seed: int, texts: list[str], day: Path | None, trace: Path | None) -> PlayResult:
    from assistant.simtools.ai_platform import simulated_dashboard

    application = AiPlatform(seed)
    values = _configuration(application.space, application.baseline, texts)
    board, measures = simulated_dashboard(application, values, trace)
    drawing = board.over_time
    cost = quantity(application.objective.assess(measures).value, application.objective.unit)
    summary = f"Capacity, late models and waiting cost {cost}."
    lines = [line for panel in drawing.panels for line in day_text(panel)]
    if day is not None:
        write_picture(platform_picture(board.day), day, board.day.title)
    lines += ["", *board.words]
    return PlayResult(
        drawing.title, values, measures, summary, platform_picture(drawing), tuple(lines)
    )


def _fleet(seed: int, texts: list[str]) -> PlayResult:
    from assistant.simtools.application_views import fleet_drawing

    application = FleetPlacement((usual_workload(seed),), seed=seed)
    values = _configuration(application.space, application.baseline, texts)
    drawing, measures = fleet_drawing(application, values)
    cost = quantity(application.objective.assess(measures).value, application.objective.unit)
    summary = f"Machines and waiting cost {cost}."
    lines = tuple(
        line
        for panel in drawing.panels
        for line in steps_text(panel.title, panel.series, drawing.step_h)
    )
    return PlayResult(drawing.title, values, measures, summary, fleet_picture(drawing), lines)


def _maze(seed: int, texts: list[str], game: int) -> PlayResult:
    from assistant.simtools.application_views import maze_drawing

    application = MazeRunner(seed)
    values = _configuration(application.space, QUICK, texts)
    drawing, measures = maze_drawing(application, values, game)
    mean = application.objective.assess(application.evaluate(values, 0)).value
    time = quantity(mean, application.objective.unit)
    summary = f"Over all {application.n_games} games of seed {seed} the mean time is {time}."
    lines = (*maze_text(drawing), MAZE_KEY, "")
    return PlayResult(drawing.title, values, measures, summary, maze_picture(drawing), lines)


_PLAYERS: Mapping[str, tuple[Callable[..., PlayResult], tuple[str, ...]]] = {
    "flood": (_flood, ()),
    "maze": (_maze, ("game",)),
    "ai_platform": (_platform, ("day", "trace")),
    "placement": (_fleet, ()),
}
"""Functions that play an application by its name, each with the options that it takes."""


def _configuration(
    space: ParameterSpace, usual: Mapping[str, Level], texts: list[str]
) -> Mapping[str, Level]:
    """Return the usual configuration with the levels of the options.

    Raises:
        SettingsError: not of the form name=value, or a name given twice.
        StrategyError: no such parameter or level.
    """
    example = f"{next(iter(usual))}={next(iter(usual.values()))}"
    changes = {
        name: space.parse_value(name, value) for name, value in pairs(texts, "--set", example)
    }
    values = {**usual, **changes}
    space.check(space.from_values(values))
    return values


def describe(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A trace, as `play ai_platform --trace` writes it.",
            show_default=False,
        ),
    ],
    report: Annotated[
        Path | None, typer.Option(help="Write a report page (HTML).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Describe a trace of an AI platform: tasks, waits, use, arrivals and models over time."""
    from assistant.simtools.ai_platform import trace_dashboard

    if report is not None:
        check_target(report)
    with progress_spinner(f"Reading {folder} …"):
        board = trace_dashboard(folder)
    written = None if report is None else write_dashboard(board, report)
    if as_json:
        print_json({**as_table(board), "report": None if written is None else str(written)})
        return 0
    OUT.print(board.title, style="bold", soft_wrap=True)
    for name, value in board.parameters:
        OUT.print(f"  {name}: {value}", soft_wrap=True)
    for sentence in board.words:
        OUT.print(sentence, soft_wrap=True)
    for panel in board.day.panels:
        for line in day_text(panel):
            OUT.print(line, soft_wrap=True)
    for title, (header, rows) in board.tables.items():
        OUT.print(f"{title}", style="bold")
        _print_rows(header, rows)
    if written is not None:
        OUT.print(f"Report: {written}", soft_wrap=True)
    return 0


def validate(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG]",
            help="Executed tasks, CSV or Parquet (default: a built-in example).",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Statistics from an earlier fit (default: fit them to the log now).",
            show_default=False,
        ),
    ] = None,
    weeks: Annotated[int, typer.Option(help="Weeks to simulate.", min=1, max=520)] = 4,
    seed: Annotated[
        int, typer.Option(help="Seed of the simulation and of a fit.", min=0, max=2**32 - 1)
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Write the Q-Q plots as a page (HTML).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare a log of an AI platform with its simulation: Q-Q, KS, Wasserstein, hours."""
    from assistant.simtools.ai_platform import as_table as told
    from assistant.simtools.ai_platform import likeness

    if report is not None:
        check_target(report)
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"the report '{report}' must end in .html")
    doing = "Fitting and simulating" if model is None else "Simulating"
    with progress_spinner(f"{doing} …"):
        comparison = likeness(log, model, weeks=weeks, seed=seed)
    written = None if report is None else write_comparison(comparison, report)
    if as_json:
        print_json({**told(comparison), "report": None if written is None else str(written)})
        return 0
    OUT.print(
        f"{comparison.log}: {comparison.n_observed:,} executed tasks against "
        f"{comparison.n_simulated:,} simulated pipelines of {comparison.weeks} weeks "
        f"(seed {comparison.seed}; statistics {comparison.source})",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    OUT.print(comparison.headline, soft_wrap=True)
    _print_rows(LIKENESS, comparison_rows(comparison))
    for name, bands in comparison.hours.items():
        OUT.print(
            f"Arrivals by hour of the week, {name}: {bands.within:.0%} of the hours lie within the "
            "bands.",
            soft_wrap=True,
        )
    if not comparison.hours:
        OUT.print("Hours of the week are compared only if both have two whole weeks.")
    if written is not None:
        OUT.print(f"Report: {written}", soft_wrap=True)
    return 0


def _print_rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in (header, *rows):
        cells = [
            cell.rjust(width) if 0 < i < len(line) - 1 or cell[:1].isdigit() else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(cells)}".rstrip(), soft_wrap=True)


def as_table(board: "PlatformDashboard") -> dict[str, object]:
    """Return the dashboard of an AI platform as a JSON object."""
    summary = board.summary
    return {
        "title": board.title,
        "parameters": dict(board.parameters),
        "pipelines": summary.n_pipelines,
        "started_by": dict(summary.started_by),
        "outcomes": dict(summary.outcomes),
        "pipeline_wait": asdict(summary.pipeline_wait),
        "tasks": [asdict(summary_row) for summary_row in summary.tasks],
        "waits": {name: asdict(summary_row) for name, summary_row in summary.waits.items()},
        "over_time": {
            "start_h": board.over_time.start_h,
            "step_h": board.over_time.step_h,
            "panels": [asdict(panel) for panel in board.over_time.panels],
        },
        "day": [asdict(panel) for panel in board.day.panels],
        "sentences": board.words,
    }
