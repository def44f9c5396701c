"""Metrics of a schedule for its users and its machine.

Notation: a job is submitted at s, starts at b, runs for p seconds on n processors and ends at b +
p; the machine has N processors. Run times and processors are the simulated ones, after killing and
clipping; rejected jobs are in no distribution. If jobs are moldable, slowdowns are divided by the
run time on the requested processors, so that a job does not gain by running longer.

========================  ==================================================================
wait                      w = b - s
response                  w + p (turnaround)
slowdown                  (w + p) / p; jobs with p = 0 are left out and are not in n
bounded slowdown          max(1, (w + p) / max(p, tau)), tau = 10 s
makespan                  max(b + p) - min(s)
utilisation               sum(n p) / (N makespan)
... of a partition        sum(n p) over its jobs / (N_k makespan), N_k its processors and the
                          makespan that of the whole schedule, so that the mean over partitions,
                          weighted by N_k, is the utilisation of the machine
... of a queue            the same with N_k the processors it shares: the shares of all queues on
                          the same processors add up to the utilisation of these
makespan of a partition   max(b + p) - min(s) over its jobs
utilisation at arrival    processor-seconds spent from min(s) to max(s) / (N (max(s) - min(s))),
                          free of the drain after the last submission
========================  ==================================================================

Sources: Feitelson, Rudolph, Schwiegelshohn, Sevcik, Wong, JSSPP 1997; Feitelson, "Metrics for
parallel job scheduling and their convergence", JSSPP 2001.

With instances on machines: an instance is placed at b, begins to compute at g and ends at e, and
its job was submitted at s. The machines have C of a resource, and an instance gets c of it.

========================  ==================================================================
wait                      of an instance: b - s; of a job: that of its first instance
response                  of a job: the end of its last instance - s
gang wait                 g - b, over instances of gangs
makespan                  max(e) - min(s)
allocation                sum(c (e - b)) / (C makespan), for each resource that is limited
utilisation               units done / (units that all processors, or GPUs, can do in the
                          makespan at full speed); None without units
stretch                   (e - g) over the time of the instance without throttling or sharing;
                          instances that take no time are left out
========================  ==================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim.model.admission import (
    NOWHERE,
    Admission,
    Pace,
    admit,
    admit_as_ran,
    capacity_of,
    tasks_of,
)
from sim.model.cluster import UNLIMITED
from sim.model.errors import ScenarioError
from sim.model.result import JobState, SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS

if TYPE_CHECKING:
    from sim.metrics.energy import EnergyMetrics

TAU_S = 10.0

SIZE_CLASSES: tuple[tuple[str, int, int], ...] = (
    ("1", 1, 1),
    ("2-8", 2, 8),
    ("9-64", 9, 64),
    ("65-512", 65, 512),
    (">512", 513, 2**62),
)
"""Name, fewest and most processors (as submitted) of each class."""

_HIGH = 0.95

MEASURES: tuple[str, ...] = ("wait_s", "response_s", "slowdown", "bounded_slowdown")


@dataclass(frozen=True)
class Distribution:
    """Summary statistics of one measure over jobs, such as mean and 95th percentile.

    Attributes:
        n: number of jobs that count.
        median: midpoint of the two middle values when n is even.
        p95: 95th percentile with linear interpolation between order statistics (NumPy's
            ``linear``, Hyndman and Fan's type 7).
    """

    n: int
    mean: float | None
    median: float | None
    p95: float | None
    max: float | None


@dataclass(frozen=True)
class GroupMetrics:
    """Metrics of the jobs of one partition, queue or size class.

    Attributes:
        n_jobs: jobs of the group that were not rejected.
        wait: seconds; `response` likewise.
        slowdown: ratio; jobs without run time are left out.
        utilisation: share of the partition's processor-seconds over the makespan of the whole
            schedule, 0 if it ran no job. None if that makespan is 0 or unknown, and for a size
            class, which has no processors of its own.
        makespan_s: seconds from the first submission to the last end among the partition's jobs.
            None if it ran no job, and for a size class.
    """

    n_jobs: int
    wait: Distribution
    response: Distribution
    slowdown: Distribution
    bounded_slowdown: Distribution
    utilisation: float | None = None
    makespan_s: float | None = None


@dataclass(frozen=True)
class ScheduleMetrics:
    """Metrics of a simulated schedule: waits, slowdowns, utilisation and makespan.

    Attributes:
        wait: seconds; `response`, `slowdown`, `bounded_slowdown` likewise as in `GroupMetrics`.
        makespan_s: None if every job was rejected.
        utilisation: share of the processor-seconds of the makespan; None if that is 0.
        utilisation_at_arrival: the same from the first to the last submission; None if that is 0.
        n_rejected: jobs that no partition admits.
        n_killed: jobs cut at their request.
        n_restarts: how often jobs were killed and queued again; None if no job can be.
        lost_proc_s: processor-seconds of the lost runs; None likewise. They count in no
            utilisation.
        by_partition: name to metrics, in the cluster's order.
        by_size_class: name to metrics, only classes that have jobs, narrow ones first.
        tau_s: bound of the bounded slowdown.
        energy: energy and power; None if the scenario has no power of nodes.
    """

    wait: Distribution
    response: Distribution
    slowdown: Distribution
    bounded_slowdown: Distribution
    makespan_s: float | None
    utilisation: float | None
    utilisation_at_arrival: float | None
    n_jobs: int
    n_rejected: int
    n_killed: int
    by_partition: dict[str, GroupMetrics]
    by_size_class: dict[str, GroupMetrics]
    tau_s: float = TAU_S
    n_restarts: int | None = None
    lost_proc_s: float | None = None
    energy: "EnergyMetrics | None" = None

    def flat(self) -> dict[str, float]:
        """Return the metrics as a flat mapping by name, such as ``mean_wait_s``.

        If the cluster has more than one partition, each has its ``utilisation_<partition>`` too (a
        partition called ``at_arrival`` is replaced by the measure of that name). Unknown measures
        (without a job) have no key.
        """
        by_partition = {name: group.utilisation for name, group in self.by_partition.items()}
        return _flat(
            self,
            {
                "makespan_s": self.makespan_s,
                "utilisation": self.utilisation,
                "utilisation_at_arrival": self.utilisation_at_arrival,
                "n_jobs": self.n_jobs,
                "n_rejected": self.n_rejected,
                "n_killed": self.n_killed,
                "n_restarts": self.n_restarts,
                "lost_proc_s": self.lost_proc_s,
                **(vars(self.energy) if self.energy else {}),
            },
            by_partition,
        )


def _flat(
    overall: ScheduleMetrics | GroupMetrics,
    totals: Mapping[str, float | None],
    utilisation: Mapping[str, float | None],
) -> dict[str, float]:
    """Return measures by name; unknown ones are left out, and later names win."""
    flat_measures: dict[str, float | None] = {}
    if len(utilisation) > 1:
        flat_measures |= {f"utilisation_{name}": share for name, share in utilisation.items()}
    parts = (overall.wait, overall.response, overall.slowdown, overall.bounded_slowdown)
    for name, part in zip(MEASURES, parts, strict=True):
        for statistic in ("mean", "median", "p95", "max"):
            flat_measures[f"{statistic}_{name}"] = getattr(part, statistic)
    flat_measures |= totals
    return {name: float(value) for name, value in flat_measures.items() if value is not None}


def measures(scenario: Scenario, result: SimulationResult) -> dict[str, float]:
    """Return the same metrics as ``summarise(scenario, result).flat()``, in less time.

    This takes a fraction of the time, for sweeps of thousands of schedules.
    """
    admission = admit_as_ran(scenario, result)
    ran = admission.partition != NOWHERE
    makespan_s = _makespan_s(scenario, result, ran)
    n_restarts, lost_proc_s = _restarts(admission, result)
    energy = _energy(scenario, result)
    total, partitions = scenario.cluster.total_procs, scenario.cluster.partitions
    return _flat(
        _group(scenario, admission, result, ran),
        {
            "makespan_s": makespan_s,
            "utilisation": _utilisation(admission, ran, total, makespan_s),
            "utilisation_at_arrival": _utilisation_at_arrival(scenario, admission, result, ran),
            "n_jobs": scenario.workload.n_jobs,
            "n_rejected": int((result.state == JobState.REJECTED).sum()),
            "n_killed": int((result.state == JobState.KILLED).sum()),
            "n_restarts": n_restarts,
            "lost_proc_s": lost_proc_s,
            **(vars(energy) if energy else {}),
        },
        {
            part.name: _utilisation(
                admission, admission.partition == k, scenario.cluster.host(part).procs, makespan_s
            )
            for k, part in enumerate(partitions)
        }
        if len(partitions) > 1
        else {},
    )


def summarise(scenario: Scenario, result: SimulationResult) -> ScheduleMetrics:
    """Compute the metrics of a simulated schedule of jobs."""
    admission = admit_as_ran(scenario, result)
    ran = admission.partition != NOWHERE
    overall = _group(scenario, admission, result, ran)
    makespan_s = _makespan_s(scenario, result, ran)
    n_restarts, lost_proc_s = _restarts(admission, result)
    submitted = scenario.workload.procs
    classes = {
        name: _group(scenario, admission, result, ran & (submitted >= least) & (submitted <= most))
        for name, least, most in SIZE_CLASSES
        if ((submitted >= least) & (submitted <= most)).any()
    }
    return ScheduleMetrics(
        wait=overall.wait,
        response=overall.response,
        slowdown=overall.slowdown,
        bounded_slowdown=overall.bounded_slowdown,
        makespan_s=makespan_s,
        utilisation=_utilisation(admission, ran, scenario.cluster.total_procs, makespan_s),
        utilisation_at_arrival=_utilisation_at_arrival(scenario, admission, result, ran),
        n_jobs=scenario.workload.n_jobs,
        n_rejected=int((result.state == JobState.REJECTED).sum()),
        n_killed=int((result.state == JobState.KILLED).sum()),
        by_partition={
            part.name: _partition(scenario, admission, result, index, makespan_s)
            for index, part in enumerate(scenario.cluster.partitions)
        },
        by_size_class=classes,
        n_restarts=n_restarts,
        lost_proc_s=lost_proc_s,
        energy=_energy(scenario, result),
    )


def _restarts(
    admission: Admission, result: SimulationResult
) -> tuple[int, float] | tuple[None, None]:
    """Return the number of restarts and the processor-seconds that they lost."""
    if result.restarts is None:
        return None, None
    lost_proc_s = float((admission.procs * result.restarts.lost_s).sum())
    return int(result.restarts.n.sum()), lost_proc_s


def _energy(scenario: Scenario, result: SimulationResult) -> "EnergyMetrics | None":
    if scenario.power is None:
        return None
    from sim.metrics.energy import energy_metrics

    return energy_metrics(scenario, result)


def max_wait_s(
    scenario: Scenario, result: SimulationResult, requested_below_s: float
) -> float | None:
    """Return the longest wait in seconds of jobs that request less than `requested_below_s`.

    The limit in seconds is on the logged request, exclusive.
    """
    short_requests = (scenario.workload.requested_s < requested_below_s) & ~np.isnan(result.start_s)
    if not short_requests.any():
        return None
    return float((result.start_s - result.submissions_s(scenario.workload))[short_requests].max())


def _makespan_s(
    scenario: Scenario, result: SimulationResult, rows: NDArray[np.bool_]
) -> float | None:
    if not rows.any():
        return None
    return float(result.end_s[rows].max()) - float(
        result.submissions_s(scenario.workload)[rows].min()
    )


def _utilisation(
    admission: Admission, rows: NDArray[np.bool_], procs: int, makespan_s: float | None
) -> float | None:
    capacity = procs * (makespan_s or 0.0)
    work = float((admission.procs[rows] * admission.runtime_s[rows]).sum())
    return work / capacity if capacity else None


def _partition(
    scenario: Scenario,
    admission: Admission,
    result: SimulationResult,
    index: int,
    makespan_s: float | None,
) -> GroupMetrics:
    rows = admission.partition == index
    procs = scenario.cluster.host(scenario.cluster.partitions[index]).procs
    return replace(
        _group(scenario, admission, result, rows),
        utilisation=_utilisation(admission, rows, procs, makespan_s),
        makespan_s=_makespan_s(scenario, result, rows),
    )


def _group(
    scenario: Scenario, admission: Admission, result: SimulationResult, rows: NDArray[np.bool_]
) -> GroupMetrics:
    start_s, submit_s = result.start_s, result.submissions_s(scenario.workload)
    runtime_s = ideal_s = admission.runtime_s
    if result.procs is not None:
        ideal_s = admit(scenario).runtime_s
    if not rows.all():
        start_s, submit_s, runtime_s = start_s[rows], submit_s[rows], runtime_s[rows]
        ideal_s = ideal_s[rows]
    wait_s = start_s - submit_s
    response_s = wait_s + runtime_s
    some = ideal_s > 0
    bounded = np.maximum(1.0, response_s / np.maximum(ideal_s, TAU_S))
    return GroupMetrics(
        n_jobs=len(wait_s),
        wait=distribution(wait_s),
        response=distribution(response_s),
        slowdown=distribution(
            response_s / ideal_s if some.all() else response_s[some] / ideal_s[some]
        ),
        bounded_slowdown=distribution(bounded),
    )


def distribution(values: NDArray[np.float64]) -> Distribution:
    """Return the mean, median, 95th percentile and maximum of values, float64 [n]."""
    n = len(values)
    if n == 0:
        return Distribution(0, None, None, None, None)
    middle, below = n // 2, int(np.floor((n - 1) * _HIGH))
    above = min(below + 1, n - 1)
    parts = np.partition(values, sorted({max(middle - 1, 0), middle, below, above}))
    upper = float(parts[middle])
    return Distribution(
        n=n,
        mean=float(values.mean()),
        median=upper if n % 2 else (float(parts[middle - 1]) + upper) / 2.0,
        p95=_between(float(parts[below]), float(parts[above]), (n - 1) * _HIGH - below),
        max=float(values.max()),
    )


def _between(low: float, high: float, share: float) -> float:
    """Return the value at a share of the interval, from the nearer end, as NumPy interpolates."""
    if share < 0.5:
        return low + (high - low) * share
    return high - (high - low) * (1.0 - share)


def _utilisation_at_arrival(
    scenario: Scenario, admission: Admission, result: SimulationResult, ran: NDArray[np.bool_]
) -> float | None:
    submit_s = result.submissions_s(scenario.workload)[ran]
    if len(submit_s) == 0 or submit_s.max() == submit_s.min():
        return None
    first_s, last_s = submit_s.min(), submit_s.max()
    inside_s = np.minimum(result.end_s[ran], last_s) - np.minimum(result.start_s[ran], last_s)
    capacity = scenario.cluster.total_procs * (last_s - first_s)
    return float((inside_s * admission.procs[ran]).sum() / capacity)


_INSTANCE_RESOURCE_NAMES = {
    "mcpu": "cpu",
    "mem_bytes": "memory",
    "disk_bytes": "disk",
    "mgpu": "gpu",
}


@dataclass(frozen=True)
class InstanceMetrics:
    """Metrics of a simulated schedule of task instances.

    Attributes:
        wait: of jobs, seconds; `response` likewise.
        instance_wait: of instances, seconds.
        gang_wait: of instances of gangs, seconds.
        stretch: ratio.
        makespan_s: None if every job was rejected.
        allocation: allocated share by resource: cpu, memory, disk, gpu. A resource is missing if a
            machine has it without limit, or none has any, or the makespan is 0.
        utilisation: share of the possible units that were done, of cpu and gpu; missing likewise.
        n_jobs: jobs of the workload; `n_instances` likewise.
        n_rejected: jobs with an instance that is too large for every machine.
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
        """Return the metrics as a flat mapping by name, such as ``gpu_allocation``.

        Unknown measures have no key.
        """
        measures: dict[str, float | None] = {}
        for name, part in (
            ("wait_s", self.wait),
            ("response_s", self.response),
            ("instance_wait_s", self.instance_wait),
            ("gang_wait_s", self.gang_wait),
            ("stretch", self.stretch),
        ):
            for statistic in ("mean", "median", "p95", "max"):
                measures[f"{statistic}_{name}"] = getattr(part, statistic)
        measures |= {f"{name}_allocation": share for name, share in self.allocation.items()}
        measures |= {f"{name}_utilisation": share for name, share in self.utilisation.items()}
        measures |= {
            "makespan_s": self.makespan_s,
            "n_jobs": self.n_jobs,
            "n_instances": self.n_instances,
            "n_rejected": self.n_rejected,
        }
        return {name: float(value) for name, value in measures.items() if value is not None}


def instance_metrics(scenario: Scenario, result: SimulationResult, pace: Pace) -> InstanceMetrics:
    """Compute the metrics of a simulated schedule of task instances.

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, instances = tasks_of(scenario), result.instances
    if instances is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    ran, job_ran = ~np.isnan(instances.start_s), ~np.isnan(result.start_s)
    submit_s = scenario.workload.submit_s
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[ran]
    start_s, begin_s, end_s = instances.start_s[ran], instances.begin_s[ran], instances.end_s[ran]
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
        utilisation=_instance_utilisation(scenario, pace, task, makespan_s),
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
            held_amount_s = float((demands[task, r] * held_s).sum())
            shares[_INSTANCE_RESOURCE_NAMES[name]] = held_amount_s / (float(column.sum()) * span_s)
    return shares


def _instance_utilisation(
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
