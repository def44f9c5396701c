"""Registry of the applications; the contract tests cover every entry of `APPLICATIONS`.

An application evaluates configurations: a simulated cluster, a program, a function, a table.
It may import `assistant.core`, `strategies` and `sim.api`, and nothing above them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.extensions.placement import FleetPlacement, usual_workload
from assistant.applications.function import Function
from assistant.applications.lookup import Lookup
from assistant.applications.program import Program
from assistant.applications.rest import Rest
from assistant.applications.scheduling import Scheduling
from assistant.core.objective import Objective, SingleMeasure
from assistant.core.ports import Application
from sim.generators import registered_generators
from strategies import Parameter, ParameterSpace


@dataclass(frozen=True, slots=True)
class ApplicationEntry:
    """A registered application.

    Attributes:
        example: function that returns a small one, which runs in well under a second.
        is_users: whether it runs a program or code of the user, or sends requests to the user's
            address.
        loads_code: whether code of the user runs when it is built, before any run.
        needs_settings: whether a sweep must say more than its name.
        compiles: whether it uses the compiled simulator.
        advice: what to do if a run of it ends in an error; empty for the general advice.
    """

    name: str
    summary: str
    example: Callable[[], Application]
    is_users: bool = False
    loads_code: bool = False
    needs_settings: bool = True
    compiles: bool = False
    advice: str = ""


def _scheduling_example() -> Scheduling:
    from sim.generators import default_workload

    return Scheduling(default_workload(seed=1, n_jobs=60))


def _lookup_example() -> Lookup:
    return Lookup.parse("size,mode,objective\n1,a,3\n2,a,2\n1,b,5\n")


_EXAMPLE_SPACE = ParameterSpace((Parameter("x", (1, 2, 3)), Parameter("mode", ("a b", "-c; d"))))


def _command_example() -> Program:
    script = 'echo "$2" >&2; echo $((($1 - 2) * ($1 - 2)))'
    return Program(
        ("/bin/sh", "-c", script, "sh", "{x}", "{mode}"),
        _EXAMPLE_SPACE,
        Objective(SingleMeasure("height")),
        baseline={"x": 1, "mode": "a b"},
    )


def _bowl(x: int, mode: str, seed: int) -> dict[str, float]:
    return {"height": float((x - 2) ** 2 + len(mode)), "luck": seed % 7}


def _function_example() -> Function:
    return Function(
        _bowl, _EXAMPLE_SPACE, Objective(SingleMeasure("height")), {"x": 1, "mode": "a b"}
    )


def _rest_example() -> Rest:
    from assistant.applications.rest_client import sample_url

    return Rest(
        _EXAMPLE_SPACE, Objective(SingleMeasure("height")), sample_url(), {"x": 1, "mode": "a b"}
    )


def _flood_example() -> Flood:
    return Flood(seed=1)


def _maze_example() -> MazeRunner:
    return MazeRunner(seed=1, n_games=2)


def _ai_platform_example() -> AiPlatform:
    return AiPlatform(seed=1, days=0.5, models=4)


def _placement_example() -> FleetPlacement:
    return FleetPlacement((usual_workload(seed=1, days=0.2),))


APPLICATIONS: tuple[ApplicationEntry, ...] = (
    ApplicationEntry(
        "scheduling",
        "partitions and policies of a cluster over a job log, simulated",
        _scheduling_example,
        compiles=True,
    ),
    ApplicationEntry(
        "lookup",
        "a fully measured table of configurations",
        _lookup_example,
        advice="Take a row of the table (--include NAME=VALUE,...), or exclude the combinations "
        "that were not measured.",
    ),
    ApplicationEntry(
        "command", "any program, run with values as arguments", _command_example, is_users=True
    ),
    ApplicationEntry(
        "function",
        "a Python function",
        _function_example,
        is_users=True,
        loads_code=True,
        advice="Call the function by hand with this configuration, and fix its exception.",
    ),
    ApplicationEntry(
        "rest", "any program that answers HTTP requests for runs", _rest_example, is_users=True
    ),
    ApplicationEntry(
        "flood", "a flood model, calibrated against sensors", _flood_example, needs_settings=False
    ),
    ApplicationEntry(
        "maze", "a runner in mazes: the time to the exit", _maze_example, needs_settings=False
    ),
    ApplicationEntry(
        "ai_platform",
        "a platform for AI pipelines: its clusters, its scheduler, the retraining of its models",
        _ai_platform_example,
        needs_settings=False,
    ),
    ApplicationEntry(
        "placement",
        "a fleet of machines: counts by kind, placement and overcommitment",
        _placement_example,
        needs_settings=False,
    ),
)


def application_entry(name: str) -> ApplicationEntry | None:
    """Return the registered application with a name, or None for an application of a user."""
    return next((entry for entry in APPLICATIONS if entry.name == name), None)


def generators(*, fitted: bool) -> Mapping[str, str]:
    """Return generator summaries by name: all if ``fitted``, else those with published models."""
    entries = (
        generator
        for generator in registered_generators()
        if fitted or generator.published is not None
    )
    return {generator.name: generator.summary for generator in entries}


def policy_names() -> Mapping[str, tuple[str, ...]]:
    """Return the names of all queue orders and backfill policies that the simulator knows."""
    from sim.api import known_names

    names = known_names()
    return {name: names[name] for name in ("order", "backfill")}
