"""Nodes that are switched off when idle and boot when needed, for counted processors.

Nodes of a partition are numbered; as few as can hold the processors in use are held, always the
first ones. So the node that became idle last is taken first, and the last node taken was idle for
the longest time. The rules are those of `sim.model.power`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.jit import kernel, noinline
from sim.kernel.records import rows


class PartitionPower:
    """Nodes of one partition.

    Attributes:
        first: slot of its first node in `NodeStates.idle_since_s`.
        node_procs: processors of a node.
        used: processors in use.
        off_after_s, boot_s: when an idle node is off, and how long it boots.
        ready_s: when all nodes have booted that have begun to.
        holes: processors of booting nodes until then for which no job waits.
    """

    __slots__ = ("boot_s", "first", "holes", "node_procs", "off_after_s", "ready_s", "used")
    first: int
    node_procs: int
    used: int
    off_after_s: float
    boot_s: float
    ready_s: float
    holes: int


class NodeStates(NamedTuple):
    """Idle times of nodes, and when jobs held them; empty where no node is switched off.

    Attributes:
        partitions: rows of `PartitionPower`.
        idle_since_s: float64 [n_nodes], for each idle node since when.
        procs: int64 [n_jobs].
        from_s: float64 [n_jobs], when the job took its nodes; NaN until then.
    """

    partitions: Sequence[PartitionPower]
    idle_since_s: list[float]
    procs: list[int]
    from_s: list[float]


def no_node_states() -> NodeStates:
    """Return the states of a simulation in which no node is switched off."""
    parts: list[Any] = [
        rows(PartitionPower, 0), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0),
    ]  # fmt: skip
    return NodeStates(*parts)


def idle_nodes(
    partition_procs: NDArray[np.int64],
    procs: NDArray[np.int64],
    node_procs: int,
    off_after_s: float,
    boot_s: float,
    since_s: float,
) -> NodeStates:
    """Return the states of nodes that are all idle since a time.

    `partition_procs` is int64 [m], processors of each partition, and `procs` int64 [n_jobs].
    """
    partitions = rows(PartitionPower, len(partition_procs))
    n_nodes = partition_procs // node_procs
    partitions["first"] = np.cumsum(n_nodes) - n_nodes
    partitions["node_procs"] = node_procs
    partitions["off_after_s"], partitions["boot_s"] = off_after_s, boot_s
    partitions["ready_s"] = -math.inf
    parts: list[Any] = [
        partitions,
        np.full(int(n_nodes.sum()), since_s),
        procs.copy(),
        np.full(len(procs), np.nan),
    ]
    return NodeStates(*parts)


@noinline
@kernel
def hold_nodes(states: NodeStates, k: int, job: int, runtime_s: float, now_s: float) -> float:
    """Give a job its nodes in partition k, and return the seconds until they have booted."""
    states.from_s[job] = now_s
    if now_s + runtime_s == now_s:
        return 0.0  # it needs no node
    here = states.partitions[k]
    n_held = -(-here.used // here.node_procs)
    procs = states.procs[job]
    here.used += procs
    n_needed = -(-here.used // here.node_procs)
    if now_s >= here.ready_s:
        here.holes = 0
    n_off = 0
    for node in range(n_held, n_needed):
        if states.idle_since_s[here.first + node] + here.off_after_s < now_s:
            n_off += 1
    if n_off > 0:
        here.holes += max(0, n_off * here.node_procs - procs)
        here.ready_s = now_s + here.boot_s
        return here.boot_s
    if here.used > n_needed * here.node_procs - here.holes:
        here.holes -= min(procs, here.holes)
        return min(here.boot_s, here.ready_s - now_s)
    return 0.0


@noinline
@kernel
def free_nodes(states: NodeStates, k: int, job: int, now_s: float) -> None:
    """Free the nodes of an ended job in partition k."""
    if states.from_s[job] == now_s:
        return
    here = states.partitions[k]
    n_held = -(-here.used // here.node_procs)
    here.used -= states.procs[job]
    for node in range(-(-here.used // here.node_procs), n_held):
        states.idle_since_s[here.first + node] = now_s
