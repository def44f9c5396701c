"""Engines: event loops that simulate a scenario; all give bit-identical results."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from sim.model.errors import EngineError, entry_named
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario


@dataclass(frozen=True)
class Engine:
    """Registered simulation engine: an event loop with its name and capabilities.

    Functions are given as ``module:function``, because the module is imported when it is needed.

    Attributes:
        name: name in `simulate`.
        summary: one line for people.
        jobs: function of a scenario of jobs to its result.
        instances: the same where instances of tasks are placed.
        watching: function of a scenario of jobs and ``monitor=True`` that also records queue
            lengths and processors in use over time; None if the engine cannot.
    """

    name: str
    summary: str
    jobs: str
    instances: str
    watching: str | None = None


ENGINES: tuple[Engine, ...] = (
    Engine(
        "auto",
        "compiled if it is ready, else interpreted while it compiles in the background; "
        "process with a monitor",
        "sim.engines.compiled:run_fastest",
        "sim.engines.compiled:run_instances_fastest",
        "sim.engines.process:run",
    ),
    Engine(
        "compiled",
        "the event loop in machine code; waits for the compiler",
        "sim.engines.compiled:run_compiled",
        "sim.engines.compiled:run_instances_compiled",
    ),
    Engine(
        "interpreted",
        "the same loop in Python; needs no compiler",
        "sim.engines.compiled:run_interpreted",
        "sim.engines.compiled:run_instances_interpreted",
    ),
    Engine(
        "process",
        "SimPy processes: broker, scheduler, monitor; the reference",
        "sim.engines.process:run",
        "sim.engines.process:run_instances",
        "sim.engines.process:run",
    ),
)


def engine_named(name: str) -> Engine:
    """Return the registered engine with a name, or raise `UnknownNameError`."""
    return entry_named("engine", name, ENGINES)


def run(scenario: Scenario, engine: str, *, monitor: bool) -> SimulationResult:
    """Simulate a scenario on the engine with the given name.

    Raises:
        UnknownNameError: no engine has that name.
        EngineError: the engine cannot do what is requested.
    """
    selected = engine_named(engine)
    is_of_instances = scenario.allocation == "instances"
    if not monitor:
        return _function(selected.instances if is_of_instances else selected.jobs)(scenario)
    if selected.watching is None:
        able = ", ".join(f"'{other.name}'" for other in ENGINES if other.watching is not None)
        raise EngineError(f"the engine '{engine}' has no monitor; use one that has: {able}.")
    if is_of_instances:
        raise EngineError(
            "a monitor needs queues of jobs, but allocation is 'instances'; leave it out."
        )
    return _function(selected.watching)(scenario, monitor=True)


def _function(target: str) -> Callable[..., SimulationResult]:
    module, name = target.split(":")
    function: Callable[..., SimulationResult] = getattr(import_module(module), name)
    return function
