"""Energy of a schedule, from the times at which jobs held nodes and the watts of a node by state.

Energy is the integral of the power of all nodes from the first submission to the last end, both of
jobs that ran. Nothing here decides: the states of nodes follow from the schedule
(`sim.model.power`). A cleanup counts as work.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.metrics.wall_clock import WallClock
from sim.model.admission import NOWHERE, admit_as_ran
from sim.model.errors import ScenarioError
from sim.model.power import DAY_S, NodePower, PowerCap
from sim.model.result import Holds, SimulationResult
from sim.model.scenario import Scenario

J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class EnergyMetrics:
    """Energy and power of all nodes of a schedule.

    Attributes:
        energy_kwh: kilowatt hours from the first submission to the last end.
        energy_cost: the same times the price.
        mean_power_kw, peak_power_kw: kilowatts; None if that time is 0.
        n_boots: how often a node was switched on.
    """

    energy_kwh: float
    energy_cost: float
    mean_power_kw: float | None
    peak_power_kw: float | None
    n_boots: int


class NodeUse(NamedTuple):
    """States of nodes as step functions of time, over all partitions.

    Attributes:
        time_s: float64 [n + 1], when each step begins, and the end of the last.
        working: int64 [n], processors that work.
        off, booting: int64 [n], nodes; all others are on.
        n_nodes: nodes of the cluster.
        n_boots: how often a node was switched on.
    """

    time_s: NDArray[np.float64]
    working: NDArray[np.int64]
    off: NDArray[np.int64]
    booting: NDArray[np.int64]
    n_nodes: int
    n_boots: int

    def watts(self, power: NodePower) -> NDArray[np.float64]:
        """Return the power of all nodes in each step: float64 [n]."""
        on = self.n_nodes - self.off - self.booting
        watts: NDArray[np.float64] = (
            on * power.idle_w
            + self.off * power.off_w
            + self.booting * power.booting_w
            + self.working * power.proc_w
        )
        return watts


def energy_metrics(scenario: Scenario, result: SimulationResult) -> EnergyMetrics:
    """Return energy and power of a simulated schedule.

    Raises:
        ScenarioError: the scenario has no power of nodes.
    """
    power, use = _power_of(scenario), node_use(scenario, result)
    watts, length_s = use.watts(power), np.diff(use.time_s)
    energy_kwh = float((watts * length_s).sum()) / J_PER_KWH
    span_s = float(use.time_s[-1] - use.time_s[0])
    return EnergyMetrics(
        energy_kwh=energy_kwh,
        energy_cost=energy_kwh * power.price_per_kwh,
        mean_power_kw=energy_kwh * J_PER_KWH / span_s / 1e3 if span_s else None,
        peak_power_kw=float(watts.max()) / 1e3 if span_s else None,
        n_boots=use.n_boots,
    )


def with_power_cap(scenario: Scenario, cap: PowerCap) -> Scenario:
    """Return the scenario with a daily power cap as capacity windows, in the local time of the log.

    The difference of local time to UTC is that of the first submission, all along. Days count from
    the first submission if its time is unknown. Windows begin until all work would be done under
    the cap twice over.

    Raises:
        ScenarioError: the scenario has no power of nodes, or cannot have the cap.
    """
    power, workload = _power_of(scenario), scenario.workload
    begin_s = float(WallClock.of(workload).local_s(np.zeros(1))[0])
    work = float((workload.procs * workload.runtime_s).sum())
    most_procs = max(1, cap.most_procs(scenario.cluster, power))
    span_s = workload.span_s + float(workload.runtime_s.max()) + 2.0 * work / most_procs
    windows = cap.windows(scenario.cluster, power, span_s, -(begin_s % DAY_S))
    return replace(scenario, windows=(*scenario.windows, *windows))


def node_use(scenario: Scenario, result: SimulationResult) -> NodeUse:
    """Return the states of the nodes of a simulated schedule.

    Raises:
        ScenarioError: the scenario has no power of nodes.
    """
    power, admission = _power_of(scenario), admit_as_ran(scenario, result)
    n_nodes = scenario.cluster.total_procs // power.node_procs
    ran = admission.partition != NOWHERE
    if not ran.any():
        none = np.zeros(0, dtype=np.int64)
        return NodeUse(np.zeros(1), none, none, none, n_nodes, 0)
    from_s, until_s = float(scenario.workload.submit_s[ran].min()), float(result.end_s[ran].max())
    holds = result.holds or Holds(result.start_s, result.start_s + admission.runtime_s)
    gaps = [np.zeros((0, 3))]
    if power.off_after_s is not None:
        gaps += [
            _off_gaps(admission.procs[rows], holds.from_s[rows], holds.until_s[rows], part.procs,
                      power, from_s)
            for k, part in enumerate(scenario.cluster.partitions) if part.on is None
            for rows in [(admission.place == k) & (holds.until_s > holds.from_s)]
        ]  # fmt: skip
    nodes, off_s, taken_s = np.concatenate(gaps).T
    is_taken = taken_s < np.inf
    boots, boot_at_s = nodes[is_taken], taken_s[is_taken]
    procs, begin_s, end_s = admission.procs[ran], result.start_s[ran], holds.until_s[ran]
    steps = [
        (0, begin_s, procs), (0, end_s, -procs), (1, off_s, nodes), (1, taken_s, -nodes),
        (2, boot_at_s, boots), (2, boot_at_s + power.boot_s, -boots),
    ]  # fmt: skip
    times_s = np.unique(np.concatenate([[from_s, until_s], *(time_s for _, time_s, _ in steps)]))
    change = np.zeros((3, len(times_s)), dtype=np.int64)
    for row, time_s, amount in steps:
        np.add.at(change[row], np.searchsorted(times_s, time_s), amount.astype(np.int64))
    working, off, booting = np.cumsum(change, axis=1)
    inside = (times_s >= from_s) & (times_s < until_s)
    time_s = np.append(times_s[inside], until_s)
    n_boots = int(boots.sum())
    return NodeUse(time_s, working[inside], off[inside], booting[inside], n_nodes, n_boots)


def _power_of(scenario: Scenario) -> NodePower:
    if scenario.power is None:
        raise ScenarioError("the scenario has no power of nodes; give it power=NodePower(...).")
    return scenario.power


def _off_gaps(
    procs: NDArray[np.int64],
    hold_from_s: NDArray[np.float64],
    hold_until_s: NDArray[np.float64],
    part_procs: int,
    power: NodePower,
    since_s: float,
) -> NDArray[np.float64]:
    """Return for each group of nodes that is off together: nodes, since when, until when.

    The times of jobs are float64 [n], and all nodes of the partition are idle from `since_s` on.
    The result is float64 [n_gaps, 3]; infinity is the end of a group that stays off.
    """
    times_s, step = np.unique(np.concatenate([hold_from_s, hold_until_s]), return_inverse=True)
    change = np.zeros(len(times_s), dtype=np.int64)
    np.add.at(change, step, np.concatenate([procs, -procs]))
    held = -(-np.cumsum(change) // power.node_procs)
    off_after_s = power.off_after_s or 0.0
    idle = [(part_procs // power.node_procs, since_s)]  # groups of nodes, the last idle one on top
    gaps: list[tuple[float, float, float]] = []
    for now_s, more in zip(times_s.tolist(), np.diff(held, prepend=0).tolist(), strict=True):
        if more < 0:
            idle.append((-more, now_s))
        wanted = more
        while wanted > 0:
            nodes, idle_since_s = idle.pop()
            taken = min(wanted, nodes)
            if taken < nodes:
                idle.append((nodes - taken, idle_since_s))
            if idle_since_s + off_after_s < now_s:
                gaps.append((taken, idle_since_s + off_after_s, now_s))
            wanted -= taken
    gaps += [(nodes, idle_since_s + off_after_s, np.inf) for nodes, idle_since_s in idle]
    return np.array(gaps, dtype=np.float64).reshape(-1, 3)
