"""Tools that use the simulator without a sweep: logs, generators, capacity, schedules, tables.

They are shared by the command line, the user interface and the service. They may import
`assistant.applications`, `assistant.core`, `assistant.presentation` and `sim.api`.
"""

from sim.api import PolicyOption as PolicyOption
from sim.api import ProfileWindow as ProfileWindow
from sim.api import Workload as Workload
from sim.api import write_workload as write_workload
from sim.generators import Generator as Generator
from sim.generators import Model as Model
from sim.generators import WorkloadComparison as WorkloadComparison
from sim.generators import compare_workloads as compare_workloads
from sim.generators import load_model as load_model
from sim.generators import published_model as published_model
from sim.generators import registered_generators as registered_generators
from sim.generators import save_model as save_model
from sim.generators.cloud import CAPACITY_DEFINITIONS as CAPACITY_DEFINITIONS
from sim.generators.cloud import CapacityPlan as CapacityPlan
from sim.metrics import WorkloadProfile as WorkloadProfile
