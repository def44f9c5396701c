"""Tools that use the simulator without a sweep: logs, generators, capacity, schedules, tables.

They are shared by the command line, the user interface and the service. They may import
`assistant.applications`, `assistant.core`, `assistant.presentation` and `sim.api`.
"""

from sim.api import CAPACITY_DEFINITIONS as CAPACITY_DEFINITIONS
from sim.api import CapacityPlan as CapacityPlan
from sim.api import Generator as Generator
from sim.api import Model as Model
from sim.api import PolicyOption as PolicyOption
from sim.api import ProfileWindow as ProfileWindow
from sim.api import Workload as Workload
from sim.api import WorkloadComparison as WorkloadComparison
from sim.api import WorkloadProfile as WorkloadProfile
from sim.api import compare_workloads as compare_workloads
from sim.api import load_model as load_model
from sim.api import published_model as published_model
from sim.api import registered_generators as registered_generators
from sim.api import save_model as save_model
from sim.api import write_workload as write_workload
