"""Power of the nodes of a cluster: watts by state, switching off when idle, and a power cap.

A node is busy, idle, off or booting. A busy node needs the watts of an idle one and, for each of
its processors that works, an equal share of the difference to a fully busy one (the linear model of
Fan, Weber and Barroso, ISCA 2007). Nodes are alike, and jobs are packed on as few of them as can
hold their processors: with several processors per node, energy is a lower bound.

A job takes the nodes that were idle last. A node idle for longer than `off_after_s` is off until
a job takes it, and then boots for `boot_s`. The job holds all its nodes meanwhile and starts when
they have booted; a job that needs the rest of a booting node waits for it, too. The scheduler plans
with the boot time for every job, so it never plans an end too early for that. A job without run
time needs no node. In the beginning all nodes are idle.
"""

import sys
from dataclasses import dataclass, fields

from sim.model.cluster import CapacityWindow, ClusterSpec
from sim.model.columns import MOST_SECONDS
from sim.model.errors import ScenarioError

MOST_WATTS = 1e9
MOST_NODES = 2**24
DAY_S = 86_400.0


@dataclass(frozen=True)
class NodePower:
    """Watts of one node by state, and when idle nodes are switched off.

    Attributes:
        busy_w, idle_w, off_w: watts when all processors work, when none does, and when it is off.
        boot_w: watts when it boots; None is `busy_w`.
        node_procs: processors of a node.
        off_after_s: idle seconds after which a node is off; None is never.
        boot_s: seconds from off to ready.
        price_per_kwh: price of a kilowatt hour.
    """

    busy_w: float
    idle_w: float
    off_w: float = 0.0
    boot_w: float | None = None
    node_procs: int = 1
    off_after_s: float | None = None
    boot_s: float = 0.0
    price_per_kwh: float = 0.0

    def __post_init__(self) -> None:
        for name in ("busy_w", "idle_w", "off_w", "boot_w"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= MOST_WATTS:
                raise ScenarioError(
                    f"power of a node: {name} is {value!r}; allowed are 0 to {MOST_WATTS:g} watts."
                )
        if not self.off_w <= self.idle_w <= self.busy_w:
            raise ScenarioError(
                f"power of a node: off {self.off_w:g} W, idle {self.idle_w:g} W, busy "
                f"{self.busy_w:g} W; allowed is off <= idle <= busy."
            )
        if type(self.node_procs) is not int or not 1 <= self.node_procs <= MOST_NODES:
            raise ScenarioError(
                f"power of a node: node_procs is {self.node_procs!r}; allowed are whole numbers "
                f"from 1 to {MOST_NODES:,}."
            )
        for name in ("off_after_s", "boot_s"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= MOST_SECONDS:
                raise ScenarioError(
                    f"power of a node: {name} is {value!r}; allowed are 0 to {MOST_SECONDS:g} "
                    "seconds."
                )
        if not 0.0 <= self.price_per_kwh <= sys.float_info.max:
            raise ScenarioError(
                f"power of a node: price_per_kwh is {self.price_per_kwh!r}; allowed are finite "
                "numbers from 0."
            )
        if self.node_procs > 1 and self.off_after_s is not None and self.off_after_s < self.boot_s:
            raise ScenarioError(
                f"power of a node: it is off after {self.off_after_s:g} s and boots for "
                f"{self.boot_s:g} s; with several processors per node, allowed is an off_after_s "
                "from boot_s."
            )

    @property
    def booting_w(self) -> float:
        """Return the watts of a booting node."""
        return self.busy_w if self.boot_w is None else self.boot_w

    @property
    def proc_w(self) -> float:
        """Return the watts that each working processor adds to its node."""
        return (self.busy_w - self.idle_w) / self.node_procs

    def values(self) -> dict[str, float | None]:
        """Return the settings by name, as plain values for a digest."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    def check(self, cluster: ClusterSpec) -> None:
        """Raise `ScenarioError` if the cluster cannot be divided into such nodes."""
        for part in cluster.partitions:
            if part.on is None and part.procs % self.node_procs:
                raise ScenarioError(
                    f"partition '{part.name}' has {part.procs} processors, which is not a whole "
                    f"number of nodes of {self.node_procs}; change either."
                )
        n_nodes = cluster.total_procs // self.node_procs
        if n_nodes > MOST_NODES:
            raise ScenarioError(
                f"the cluster has {n_nodes:,} nodes; with node power allowed are {MOST_NODES:,}, "
                "so set node_procs."
            )


@dataclass(frozen=True)
class PowerCap:
    """Limit on the power of the nodes of a cluster, every day between two times.

    Attributes:
        watts: limit on all nodes together. All are counted as if none was off or booting.
        from_s, until_s: when it begins and ends, in seconds since midnight, from 0 to 86,400. If it
            ends before it begins it lasts over midnight.
    """

    watts: float
    from_s: float = 0.0
    until_s: float = DAY_S

    def __post_init__(self) -> None:
        if not 0.0 < self.watts <= MOST_WATTS * MOST_NODES:
            raise ScenarioError(
                f"power cap: watts is {self.watts!r}; allowed are numbers above 0 to "
                f"{MOST_WATTS * MOST_NODES:g}."
            )
        if not (0.0 <= self.from_s < DAY_S and 0.0 < self.until_s <= DAY_S):
            raise ScenarioError(
                f"power cap: it is from {self.from_s!r} to {self.until_s!r} s of a day; allowed "
                "are times from 0 to 86,400, with the beginning before midnight."
            )
        if self.from_s == self.until_s:
            raise ScenarioError(
                f"power cap: it begins and ends at {self.from_s:g} s; allowed are different times."
            )

    def most_procs(self, cluster: ClusterSpec, power: NodePower) -> int:
        """Return how many processors may work at once under the cap.

        Raises:
            ScenarioError: the idle nodes alone need more.
        """
        idle_w = cluster.total_procs // power.node_procs * power.idle_w
        if self.watts < idle_w:
            raise ScenarioError(
                f"power cap: {self.watts:g} W is below the {idle_w:g} W that all nodes need when "
                "idle; raise it."
            )
        if power.proc_w == 0.0:
            return cluster.total_procs
        return min(cluster.total_procs, int((self.watts - idle_w) / power.proc_w * (1 + 1e-12)))

    def windows(
        self, cluster: ClusterSpec, power: NodePower, span_s: float, midnight_s: float = 0.0
    ) -> tuple[CapacityWindow, ...]:
        """Return the cap as planned capacity windows of the largest partition.

        The windows take away the processors that may not work. A running job continues, and starts
        are planned so that estimates keep the cap.

        Args:
            cluster: cluster with one partition of its own processors.
            power: its nodes.
            span_s: seconds since the first submission until which windows begin.
            midnight_s: seconds from the first submission to a midnight, at most 0 or above.

        Raises:
            ScenarioError: several partitions have processors, or the cap is below idle power.
        """
        hosts = [part for part in cluster.partitions if part.on is None]
        if len(hosts) > 1:
            raise ScenarioError(
                f"a power cap needs one partition with processors; the cluster has {len(hosts)}."
            )
        away = cluster.total_procs - self.most_procs(cluster, power)
        if away == 0:
            return ()
        name = hosts[0].name
        if self.until_s - self.from_s == DAY_S:
            return (CapacityWindow(name, away, 0.0, span_s + DAY_S, name="power cap"),)
        length_s = (self.until_s - self.from_s) % DAY_S
        first_s = (midnight_s + self.from_s) % DAY_S - DAY_S
        windows = []
        for day in range(int((span_s - first_s) // DAY_S) + 1):
            from_s = first_s + day * DAY_S
            if from_s + length_s > 0.0:
                windows.append(
                    CapacityWindow(
                        name, away, max(0.0, from_s), from_s + length_s, name="power cap"
                    )
                )
        return tuple(windows)
