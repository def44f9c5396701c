"""Engines: event loops that simulate a scenario; all give bit-identical results."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.model.errors import EngineError, UnknownNameError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario


@dataclass(frozen=True)
class Engine:
    """Registered simulation engine: an event loop with its name and capabilities.

    Attributes:
        name: name in `simulate`.
        summary: one line for people.
        run: (scenario, monitor) to result.
        watches: whether it can record queue lengths and processors in use over time.
    """

    name: str
    summary: str
    run: Callable[[Scenario, bool], SimulationResult]
    watches: bool = False


def _auto(scenario: Scenario, monitor: bool) -> SimulationResult:
    if monitor:
        return _process(scenario, monitor)
    if scenario.allocation == "instances":
        from sim.engines import compiled

        return compiled.run_instances_fastest(scenario)
    from sim.engines.compiled import run_fastest

    return run_fastest(scenario)


def _compiled(scenario: Scenario, _monitor: bool) -> SimulationResult:
    if scenario.allocation == "instances":
        from sim.engines import compiled

        return compiled.run_instances_compiled(scenario)
    from sim.engines.compiled import run_compiled

    return run_compiled(scenario)


def _interpreted(scenario: Scenario, _monitor: bool) -> SimulationResult:
    if scenario.allocation == "instances":
        from sim.engines import compiled

        return compiled.run_instances_interpreted(scenario)
    from sim.engines.compiled import run_interpreted

    return run_interpreted(scenario)


def _process(scenario: Scenario, monitor: bool) -> SimulationResult:
    if scenario.allocation == "instances":
        from sim.engines import process

        if monitor:
            raise EngineError(
                "a monitor needs queues of jobs, but allocation is 'instances'; leave it out."
            )
        return process.run_instances(scenario)
    from sim.engines.process import run

    return run(scenario, monitor=monitor)


ENGINES: tuple[Engine, ...] = (
    Engine(
        "auto",
        "compiled if it is ready, else interpreted while it compiles in the background; "
        "process with a monitor",
        _auto,
        watches=True,
    ),
    Engine("compiled", "the event loop in machine code; waits for the compiler", _compiled),
    Engine("interpreted", "the same loop in Python; needs no compiler", _interpreted),
    Engine(
        "process",
        "SimPy processes: broker, scheduler, monitor; the reference",
        _process,
        watches=True,
    ),
)


def engine_named(name: str) -> Engine:
    """Return the registered engine with a name, or raise `UnknownNameError`."""
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise UnknownNameError("engine", name, (engine.name for engine in ENGINES))


def run(scenario: Scenario, engine: str, *, monitor: bool) -> SimulationResult:
    """Simulate a scenario on the engine with the given name.

    Raises:
        UnknownNameError: no engine has that name.
        EngineError: the engine cannot do what is requested.
    """
    selected_engine = engine_named(engine)
    if monitor and not selected_engine.watches:
        able = ", ".join(f"'{other.name}'" for other in ENGINES if other.watches)
        raise EngineError(f"the engine '{engine}' has no monitor; use one that has: {able}.")
    return selected_engine.run(scenario, monitor)
