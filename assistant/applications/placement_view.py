"""One run of a fleet of machines as it is drawn: how full it was, what was lost, who waited."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from assistant.applications.placement import COUNT, Placing
from assistant.charts_placement import FleetDrawing, FleetPanel
from assistant.errors import RunError
from assistant.objective import Measure
from sim.api import Scenario, SimulationResult, fragmentation
from strategies import Level

N_STEPS = 96
Floats = NDArray[np.float64]


def fleet_drawing(
    application: Placing, values: Mapping[str, Level]
) -> tuple[FleetDrawing, Mapping[str, Measure]]:
    """Simulate one configuration and return how it went with the first workload, with its measures.

    Raises:
        RunError: it cannot be simulated, or no job found a machine.
    """
    scenario, result = application.scenario(values), application.simulate(values)
    measures = application.measured(values, result)
    title = "Placement: " + ", ".join(f"{name} {value}" for name, value in values.items())
    span_s = float(np.nanmax(result.end_s)) - float(scenario.workload.submit_s[0])
    real = sum(
        kind.spec.procs * int(values.get(kind.spec.name + COUNT, kind.spec.count))
        for kind in application.kinds
    )
    drawn = FleetDrawing(title, panels(scenario, result, real), span_s / 3600 / N_STEPS)
    return drawn, measures


def panels(scenario: Scenario, result: SimulationResult, cores: int) -> tuple[FleetPanel, ...]:
    """Return what is shown of a simulation.

    Args:
        scenario: what was simulated, with allocation ``instances``.
        result: what came of it.
        cores: that the machines really have.
    """
    tasks, found = scenario.workload.tasks, result.instances
    if tasks is None or found is None:
        raise RunError("nothing was placed, so there is nothing to draw")
    submit_s = scenario.workload.submit_s
    edges_s = np.linspace(submit_s[0], np.nanmax(result.end_s), N_STEPS + 1)
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
    ran = ~np.isnan(found.start_s)
    task, start_s, end_s = task[ran], found.start_s[ran], found.end_s[ran]
    mcpu, mgpu = tasks.mcpu[task] / 1000, tasks.mgpu[task] / 1000
    told = {"processors": mean_held(start_s, end_s, mcpu, edges_s) / cores}
    fragments = fragmentation(scenario, result)
    if fragments is not None:
        told["GPUs"] = mean_held(start_s, end_s, mgpu, edges_s) / fragments.n_gpus
    shown = [FleetPanel("share held by instances", _told(told))]
    if fragments is not None:
        parts = np.diff(fragments.fragmented, prepend=0.0)
        until = np.full(len(parts), np.inf)
        lost = mean_held(fragments.time_s, until, parts, edges_s) / fragments.n_gpus
        shown.append(FleetPanel("share of the GPUs in fragments", _told({"fragments": lost})))
    waited = mean_held(submit_s[tasks.job[task]], start_s, np.ones(len(task)), edges_s)
    shown.append(FleetPanel("instances that wait", _told({"waiting": waited})))
    return tuple(shown)


def mean_held(start_s: Floats, end_s: Floats, amount: Floats, edges_s: Floats) -> Floats:
    """Return how much is held between each two edges, on average over time.

    Args:
        start_s: float64 [n], since when each is held; `end_s` until when.
        end_s: float64 [n].
        amount: float64 [n], how much.
        edges_s: float64 [n_steps + 1], rising.
    """
    upto = np.array([(np.clip(at - start_s, 0, end_s - start_s) * amount).sum() for at in edges_s])
    return np.diff(upto) / np.diff(edges_s)


def _told(series: Mapping[str, Floats]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(np.round(one, 6).tolist()) for name, one in series.items()}
