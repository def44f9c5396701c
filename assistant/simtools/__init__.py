"""Tools over the simulator without a sweep: logs, generators, capacity, schedules, tables.

They are shared by the command line, the user interface and the service. They may import
`assistant.applications`, `assistant.core`, `assistant.presentation` and `sim.api`.
"""

from sim.api import (
    CAPACITY_DEFINITIONS,
    GENERATORS,
    CapacityPlan,
    Generator,
    Model,
    PolicyOption,
    ProfileWindow,
    Workload,
    WorkloadComparison,
    WorkloadProfile,
    compare_workloads,
    load_model,
    published_model,
    save_model,
    write_workload,
)

__all__ = [
    "CAPACITY_DEFINITIONS",
    "GENERATORS",
    "CapacityPlan",
    "Generator",
    "Model",
    "PolicyOption",
    "ProfileWindow",
    "Workload",
    "WorkloadComparison",
    "WorkloadProfile",
    "compare_workloads",
    "load_model",
    "published_model",
    "save_model",
    "write_workload",
]
