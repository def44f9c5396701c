"""What a schedule of instances on machines was like.

Notation: an instance is placed at b, begins to compute at g and ends at e; its job was submitted at
s. The machines have C of a resource, an instance is given c of it.

========================  ==================================================================
wait                      of an instance: b - s; of a job: that of its first instance
response                  of a job: the end of its last instance - s
gang wait                 g - b, over instances of gangs
makespan                  max(e) - min(s)
allocation                sum(c (e - b)) / (C makespan), for each resource that is limited
utilisation               units done / (units that all processors, or GPUs, can do in the
                          makespan at full speed); None without units
stretch                   (e - g) over the time that the instance takes where nothing is throttled
                          or shared; those that take no time are left out
========================  ==================================================================
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import UNLIMITED
from sim.model.metrics import Distribution, distribution
from sim.model.needs import Pace, capacity_of, tasks_of
from sim.model.result import JobState, SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS

_NAMES = {"mcpu": "cpu", "mem_bytes": "memory", "disk_bytes": "disk", "mgpu": "gpu"}


@dataclass(frozen=True)
class InstanceMetrics:
    """Summary of a simulation of instances; see the head of this module for the formulas.

    Attributes:
        wait: of jobs, seconds; `response` likewise.
        instance_wait: of instances, seconds.
        gang_wait: of instances of gangs, seconds.
        stretch: a ratio.
        makespan_s: None if every job was rejected.
        allocation: share of what there was, by resource: cpu, memory, disk, gpu. A resource is
            missing if a machine has it without limit, or none has any, or the makespan is 0.
        utilisation: share of the units that could be done, of cpu and gpu; missing likewise.
        n_jobs: jobs of the workload; `n_instances` likewise.
        n_rejected: jobs that have an instance for which no machine is large enough.
    """

    wait: Distribution
    response: Distribution
    instance_wait: Distribution
    gang_wait: Distribution
    stretch: Distribution
    makespan_s: float | None
    allocation: dict[str, float]
    utilisation: dict[str, float]
    n_jobs: int
    n_instances: int
    n_rejected: int

    def flat(self) -> dict[str, float]:
        """Return the measures by name: ``mean_wait_s``, ``gpu_allocation``, ``makespan_s``...

        What is unknown is not among the keys.
        """
        told: dict[str, float | None] = {}
        for name, part in (
            ("wait_s", self.wait),
            ("response_s", self.response),
            ("instance_wait_s", self.instance_wait),
            ("gang_wait_s", self.gang_wait),
            ("stretch", self.stretch),
        ):
            for statistic in ("mean", "median", "p95", "max"):
                told[f"{statistic}_{name}"] = getattr(part, statistic)
        told |= {f"{name}_allocation": share for name, share in self.allocation.items()}
        told |= {f"{name}_utilisation": share for name, share in self.utilisation.items()}
        told |= {
            "makespan_s": self.makespan_s,
            "n_jobs": self.n_jobs,
            "n_instances": self.n_instances,
            "n_rejected": self.n_rejected,
        }
        return {name: float(value) for name, value in told.items() if value is not None}


def instance_metrics(scenario: Scenario, result: SimulationResult, pace: Pace) -> InstanceMetrics:
    """Measure a result.

    Args:
        scenario: what was simulated, with allocation ``instances``.
        result: what `simulate` returned for it.
        pace: work and speed of its tasks.

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, found = tasks_of(scenario), result.instances
    if found is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    ran, job_ran = ~np.isnan(found.start_s), ~np.isnan(result.start_s)
    submit_s = scenario.workload.submit_s
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[ran]
    start_s, begin_s, end_s = found.start_s[ran], found.begin_s[ran], found.end_s[ran]
    makespan_s = None
    if job_ran.any():
        makespan_s = float(result.end_s[job_ran].max()) - float(submit_s[job_ran].min())
    ideal_s = np.maximum(pace.cpu_work / pace.cpu_rate, pace.gpu_work / pace.gpu_rate)[task]
    some = ideal_s > 0
    in_gang = tasks.gang[task] == 1
    return InstanceMetrics(
        wait=distribution((result.start_s - submit_s)[job_ran]),
        response=distribution((result.end_s - submit_s)[job_ran]),
        instance_wait=distribution(start_s - submit_s[tasks.job[task]]),
        gang_wait=distribution((begin_s - start_s)[in_gang]),
        stretch=distribution(((end_s - begin_s)[some]) / ideal_s[some]),
        makespan_s=makespan_s,
        allocation=_allocation(scenario, task, end_s - start_s, makespan_s),
        utilisation=_utilisation(scenario, pace, task, makespan_s),
        n_jobs=scenario.workload.n_jobs,
        n_instances=tasks.n_instances,
        n_rejected=int((result.state == JobState.REJECTED).sum()),
    )


def _allocation(
    scenario: Scenario, task: NDArray[np.intp], held_s: NDArray[np.float64], span_s: float | None
) -> dict[str, float]:
    capacity, demands = capacity_of(scenario.cluster), tasks_of(scenario).demands
    shares = {}
    for r, name in enumerate(DEMANDS):
        column = capacity[:, r]
        if span_s and column.any() and (column < UNLIMITED).all():
            held = float((demands[task, r] * held_s).sum())
            shares[_NAMES[name]] = held / (float(column.sum()) * span_s)
    return shares


def _utilisation(
    scenario: Scenario, pace: Pace, task: NDArray[np.intp], span_s: float | None
) -> dict[str, float]:
    if tasks_of(scenario).work is None or not span_s:
        return {}
    capacity = capacity_of(scenario.cluster).sum(axis=0) / 1000.0
    can_do = {"cpu": capacity[0] * pace.cpu_unit_rate, "gpu": capacity[3] * pace.gpu_unit_rate}
    done = {"cpu": pace.cpu_work[task].sum(), "gpu": pace.gpu_work[task].sum()}
    return {
        name: float(done[name]) / (float(most) * span_s) for name, most in can_do.items() if most
    }
