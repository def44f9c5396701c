"""Embedded simulators of clusters, useful without the rest of Copperline.

>>> from sim import ClusterSpec, Scenario, default_workload, simulate, summarise
>>> scenario = Scenario(default_workload(seed=1, n_jobs=50), ClusterSpec.single(160))
>>> summarise(scenario, simulate(scenario)).n_rejected
0
"""

from sim.api import default_workload, load_workload, simulate
from sim.errors import SimError
from sim.model.capacity import CapacityWindow
from sim.model.cluster import ClusterSpec, MachineSpec, Partition
from sim.model.metrics import Metrics, summarise
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.workload import Workload

__all__ = [
    "CapacityWindow",
    "ClusterSpec",
    "MachineSpec",
    "Metrics",
    "Partition",
    "Scenario",
    "SimError",
    "SimulationResult",
    "Workload",
    "default_workload",
    "load_workload",
    "simulate",
    "summarise",
]
