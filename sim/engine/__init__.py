"""Engines: the event loops that run a scenario. They must agree bit by bit."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import UnknownNameError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario


@dataclass(frozen=True)
class Engine:
    """An event loop.

    Attributes:
        name: how `simulate` calls it.
        summary: one line for people.
        run: (scenario, monitor) to result.
    """

    name: str
    summary: str
    run: Callable[[Scenario, bool], SimulationResult]


def _process(scenario: Scenario, monitor: bool) -> SimulationResult:
    from sim.engine.process import run

    return run(scenario, monitor=monitor)


ENGINES: tuple[Engine, ...] = (
    Engine("process", "SimPy processes: broker, scheduler, monitor; the reference", _process),
)


def engine_named(name: str) -> Engine:
    """Return a registered engine.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise UnknownNameError("engine", name, (engine.name for engine in ENGINES))
