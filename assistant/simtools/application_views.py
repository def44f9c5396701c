"""Drawings of an example application: a fleet of machines and its training, a maze, or a flood."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner, runner_of
from assistant.applications.extensions.placement import COUNT, FleetPlacement
from assistant.core.errors import RunError, SettingsError
from assistant.core.objective import Measure
from assistant.presentation.charts.schedule import FleetDrawing, FleetPanel
from assistant.presentation.charts.testbeds import (
    MARKS,
    FloodDrawing,
    MazeDrawing,
    MazeIncident,
    Segment,
    SensorSeries,
)
from assistant.presentation.charts.training import TrainingCurve
from sim.api import Scenario, SimulationResult
from sim.metrics import fragmentation
from sim.testbeds.flood import STEP_S, STEPS_PER_SAMPLE, soil_parameters
from sim.testbeds.maze import GameResult, play
from sim.testbeds.maze import MazePlan as Plan
from sim.testbeds.maze import measures as measures_of
from strategies import Level

if TYPE_CHECKING:
    from sim.placement import TrainingRecord

Floats = NDArray[np.float64]


N_STEPS = 96


def training_curve(name: str, record: "TrainingRecord") -> TrainingCurve:
    """Return the drawing of the training of a scheduler."""
    best = None if record.best_rule_ratio is None else (record.best_rule, record.best_rule_ratio)
    points = tuple((point.iteration, point.ratio) for point in record.curve)
    return TrainingCurve(name, record.objective, points, best, record.bound_ratio)


def training_curves(application: object) -> tuple[TrainingCurve, ...]:
    """Return the drawings of the trainings of an application's schedulers that know theirs."""
    learned = application.learned if isinstance(application, FleetPlacement) else {}
    return tuple(
        training_curve(name, scheduler.record)
        for name, scheduler in learned.items()
        if scheduler.record.curve
    )


def fleet_drawing(
    application: FleetPlacement, values: Mapping[str, Level]
) -> tuple[FleetDrawing, Mapping[str, Measure]]:
    """Return the drawing and the measures of one configuration on the first workload."""
    scenario, result = application.scenario(values), application.simulate(values)
    measures = application.measured(values, result)
    title = "Placement: " + ", ".join(f"{name} {value}" for name, value in values.items())
    span_s = float(np.nanmax(result.end_s)) - float(scenario.workload.submit_s[0])
    real = sum(
        kind.spec.procs * int(values.get(kind.spec.name + COUNT, kind.spec.count))
        for kind in application.kinds
    )
    drawing = FleetDrawing(title, panels(scenario, result, real), span_s / 3600 / N_STEPS)
    return drawing, measures


def panels(scenario: Scenario, result: SimulationResult, cores: int) -> tuple[FleetPanel, ...]:
    """Return drawing panels of resource use and waiting instances of a fleet over time."""
    tasks, instances = scenario.workload.tasks, result.instances
    if tasks is None or instances is None:
        raise RunError("no instance was placed, so there is nothing to draw")
    submit_s = scenario.workload.submit_s
    edges_s = np.linspace(submit_s[0], np.nanmax(result.end_s), N_STEPS + 1)
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
    ran = ~np.isnan(instances.start_s)
    task, start_s, end_s = task[ran], instances.start_s[ran], instances.end_s[ran]
    mcpu, mgpu = tasks.mcpu[task] / 1000, tasks.mgpu[task] / 1000
    shares = {"processors": mean_held(start_s, end_s, mcpu, edges_s) / cores}
    fragments = fragmentation(scenario, result)
    if fragments is not None:
        shares["GPUs"] = mean_held(start_s, end_s, mgpu, edges_s) / fragments.n_gpus
    fleet_panels = [FleetPanel("share held by instances", _told(shares))]
    if fragments is not None:
        parts = np.diff(fragments.fragmented, prepend=0.0)
        until = np.full(len(parts), np.inf)
        lost = mean_held(fragments.time_s, until, parts, edges_s) / fragments.n_gpus
        fleet_panels.append(
            FleetPanel("share of the GPUs in fragments", _told({"fragments": lost}))
        )
    waited = mean_held(submit_s[tasks.job[task]], start_s, np.ones(len(task)), edges_s)
    fleet_panels.append(FleetPanel("instances that wait", _told({"waiting": waited})))
    return tuple(fleet_panels)


def mean_held(start_s: Floats, end_s: Floats, amount: Floats, edges_s: Floats) -> Floats:
    """Return the mean amount in use in each interval between two edges: float64 [n_steps].

    Args:
        start_s: float64 [n], begin of each hold; `end_s` is its end.
        end_s: float64 [n].
        amount: float64 [n], amount held.
        edges_s: float64 [n_steps + 1], rising.
    """
    upto = np.array([(np.clip(at - start_s, 0, end_s - start_s) * amount).sum() for at in edges_s])
    return np.diff(upto) / np.diff(edges_s)


def _told(series: Mapping[str, Floats]) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(np.round(series_values, 6).tolist()) for name, series_values in series.items()
    }


STREAM_SHARE = 0.03  # A cell is part of a stream if this share of the catchment drains through it


def maze_drawing(
    application: MazeRunner, values: Mapping[str, Level], game: int = 1
) -> tuple[MazeDrawing, Mapping[str, Measure]]:
    """Play one game and return its drawing and measures. Raises SettingsError."""
    if not 1 <= game <= application.n_games:
        raise SettingsError(f"game {game}: allowed are 1 to {application.n_games}")
    played = application.games[game - 1]
    plan, episode = played.maze, play(played, runner_of(values), application.rules)
    outcome = "out after" if episode.escaped else "not out after"
    setting = ", ".join(f"{name} {value}" for name, value in values.items())
    back = {
        (event.at_s, plan.way_in) for event in episode.happenings if event.kind == "carried back"
    }
    steps = [
        (_segment(plan, room, to, at_s), (at_s, to) in back)
        for (_, room), (at_s, to) in pairwise(episode.path)
    ]
    drawing = MazeDrawing(
        columns=plan.columns,
        rows=plan.rows,
        walls=_walls(plan),
        rubble=tuple(plan.place(room) for room in sorted(plan.rubble)),
        way=tuple(step for step, carried in steps if not carried),
        carried=tuple(step for step, carried in steps if carried),
        marks=_marks(plan, episode),
        beats=tuple(
            tuple(_segment(plan, room, to, 0.0) for room, to in sorted(set(pairwise(path))))
            for path in episode.enemy_paths
        ),
        starts=tuple(_middle(plan, path[0]) for path in episode.enemy_paths),
        title=f"Maze Runner, game {game}: {setting}: {outcome} {episode.time_s:g} s",
    )
    return drawing, measures_of([episode])


def flood_drawing(
    application: Flood, values: Mapping[str, Level]
) -> tuple[FloodDrawing, Mapping[str, Measure]]:
    """Simulate one configuration and return a drawing of the flood with the measures."""
    calibration = application.calibration
    terrain, columns = calibration.terrain, calibration.terrain.columns
    numbers = {name: float(level) for name, level in values.items()}
    flows = calibration.run(soil_parameters([numbers]), deepest=True)
    deepest_m = flows.deepest_m
    if deepest_m is None:
        raise AssertionError("depths were asked for")
    measures = calibration.compared(flows, 0)
    rain = calibration.rain_mmh.reshape(-1, STEPS_PER_SAMPLE).mean(axis=1) * numbers["rain_factor"]
    least = STREAM_SHARE * terrain.n_cells
    streams = [
        Segment(*_centre(cell, columns), *_centre(int(terrain.downstream[cell]), columns))
        for cell in range(terrain.n_cells)
        if terrain.drained_cells[cell] >= least and terrain.downstream[cell] >= 0
    ]
    names = ("A, outlet", "B, stream", "C, stream")
    setting = ", ".join(f"{name} {value:g}" for name, value in numbers.items())
    drawing = FloodDrawing(
        columns=columns,
        elevation_m=tuple(terrain.elevation_m.tolist()),
        deepest_mm=tuple((1000.0 * deepest_m[0]).tolist()),
        streams=tuple(streams),
        sensors=tuple(
            SensorSeries(
                name,
                *_centre(cell, columns),
                tuple(flows.discharge_m3s[0, i].tolist()),
                tuple(calibration.observed_m3s[i].tolist()),
            )
            for i, (name, cell) in enumerate(zip(names, terrain.sensors, strict=False))
        ),
        rain_mmh=tuple(rain.tolist()),
        sample_s=STEP_S * STEPS_PER_SAMPLE,
        title=f"Flood: {setting}: RMSE {measures['rmse_m3s']:.4g} m3/s",
    )
    return drawing, measures


def _centre(cell: int, columns: int) -> tuple[float, float]:
    return cell % columns + 0.5, cell // columns + 0.5


def _middle(plan: Plan, room: int) -> tuple[float, float]:
    column, row = plan.place(room)
    return column + 0.5, row + 0.5


def _segment(plan: Plan, room: int, to: int, at_s: float) -> Segment:
    return Segment(*_middle(plan, room), *_middle(plan, to), at_s)


def _walls(plan: Plan) -> tuple[Segment, ...]:
    across = [(row, _runs(_closed_above(plan, row))) for row in range(plan.rows + 1)]
    down = [(column, _runs(_closed_left(plan, column))) for column in range(plan.columns + 1)]
    return (
        *(Segment(a, row, b, row) for row, runs in across for a, b in runs),
        *(Segment(column, a, column, b) for column, runs in down for a, b in runs),
    )


def _closed_above(plan: Plan, row: int) -> list[bool]:
    if row in (0, plan.rows):
        return [True] * plan.columns
    rooms = [row * plan.columns + column for column in range(plan.columns)]
    return [room - plan.columns not in plan.beside[room] for room in rooms]


def _closed_left(plan: Plan, column: int) -> list[bool]:
    if column in (0, plan.columns):
        return [True] * plan.rows
    rooms = [row * plan.columns + column for row in range(plan.rows)]
    return [room - 1 not in plan.beside[room] for room in rooms]


def _runs(closed: Sequence[bool]) -> list[tuple[int, int]]:
    """Return begin and end of each run of true values.

    >>> _runs([True, True, False, True])
    [(0, 2), (3, 4)]
    """
    ranges: list[tuple[int, int]] = []
    for i, is_closed in enumerate(closed):
        if is_closed and ranges and ranges[-1][1] == i:
            ranges[-1] = (ranges[-1][0], i + 1)
        elif is_closed:
            ranges.append((i, i + 1))
    return ranges


def _marks(plan: Plan, episode: GameResult) -> tuple[MazeIncident, ...]:
    return tuple(
        MazeIncident(*_middle(plan, event.room), event.kind, event.at_s)
        for event in episode.happenings
        if event.kind in MARKS
    )
