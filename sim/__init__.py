"""Simulators of computer clusters, usable without the rest of Copperline.

>>> from sim import ClusterSpec, Scenario, default_workload, simulate, summarise
>>> scenario = Scenario(default_workload(seed=1, n_jobs=50), ClusterSpec.single(160))
>>> summarise(scenario, simulate(scenario)).n_rejected
0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.api import load_workload, simulate
    from sim.generators.lublin_generator import default_workload
    from sim.metrics.schedule_metrics import ScheduleMetrics, summarise
    from sim.model.cluster import CapacityWindow, ClusterSpec, MachineSpec, Partition
    from sim.model.errors import SimError
    from sim.model.result import SimulationResult
    from sim.model.scenario import Scenario
    from sim.model.workload import Workload

__all__ = [
    "CapacityWindow",
    "ClusterSpec",
    "MachineSpec",
    "Partition",
    "Scenario",
    "ScheduleMetrics",
    "SimError",
    "SimulationResult",
    "Workload",
    "default_workload",
    "load_workload",
    "simulate",
    "summarise",
]

_MODULES = {
    "CapacityWindow": "sim.model.cluster",
    "ClusterSpec": "sim.model.cluster",
    "MachineSpec": "sim.model.cluster",
    "Partition": "sim.model.cluster",
    "Scenario": "sim.model.scenario",
    "ScheduleMetrics": "sim.metrics.schedule_metrics",
    "SimError": "sim.model.errors",
    "SimulationResult": "sim.model.result",
    "Workload": "sim.model.workload",
    "default_workload": "sim.generators.lublin_generator",
    "load_workload": "sim.api",
    "simulate": "sim.api",
    "summarise": "sim.metrics.schedule_metrics",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
