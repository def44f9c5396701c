"""Bin packing: jobs are placed on servers in order of arrival until one job fits nowhere.

Bergsma et al., section 6.2: the allocation at the first failure shows how well jobs can be packed.
Servers are alike and have cores and memory; a job lies on one server as a whole, and ended jobs
leave before arrivals of the same time. `choose` selects the server; `sim.generators.cloud.packing`
binds it to one of the rules below.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


NOWHERE = -1
ROUNDING = 1e-12


class Queue(NamedTuple):
    """Jobs to be packed onto servers, in order of arrival, as columns of [n_jobs].

    Attributes:
        start_s, end_s: float64, non-decreasing start; end, infinite if a job never leaves.
        mcpu, mem_bytes: int64, thousandths of a core, and bytes.
        mark: float64 from 0 up to 1, the random number that selects a server.
    """

    start_s: Floats
    end_s: Floats
    mcpu: Ints
    mem_bytes: Ints
    mark: Floats


class Rack(NamedTuple):
    """Identical servers, with a heap of the times at which jobs leave them.

    Attributes:
        mcpu: int64 [n_servers], free thousandths of cores; `mem_bytes` likewise.
        leaves_s, leaving: float64 and int64 [n_jobs], the heap of times at which jobs leave, and
            its jobs.
        server_of: int64 [n_jobs], server of each job.
        server_size: int64 [2], cores (in thousandths) and bytes of each server.
    """

    mcpu: Ints
    mem_bytes: Ints
    leaves_s: Floats
    leaving: Ints
    server_of: Ints
    server_size: Ints


@kernel
def pack(queue: Queue, rack: Rack, first: int) -> int:
    """Place jobs on servers from job `first` on and return the first that does not fit, or -1.

    A job that is larger than an empty server is skipped.
    """
    n_present = 0
    for job in range(first, len(queue.start_s)):
        while n_present > 0 and rack.leaves_s[0] <= queue.start_s[job]:
            gone = rack.leaving[0]
            server = rack.server_of[gone]
            rack.mcpu[server] += queue.mcpu[gone]
            rack.mem_bytes[server] += queue.mem_bytes[gone]
            n_present -= 1
            _sink(rack, n_present)
        if queue.mcpu[job] > rack.server_size[0] or queue.mem_bytes[job] > rack.server_size[1]:
            continue
        server = choose(queue, rack, job)
        if server == NOWHERE:
            return job
        rack.mcpu[server] -= queue.mcpu[job]
        rack.mem_bytes[server] -= queue.mem_bytes[job]
        rack.server_of[job] = server
        _rise(rack, n_present, job, queue.end_s[job])
        n_present += 1
    return NOWHERE


@kernel
def _rise(rack: Rack, slot: int, job: int, end_s: float) -> None:
    """Move the new job in the last slot of the heap up to its place."""
    while slot > 0:
        above = (slot - 1) >> 1
        if rack.leaves_s[above] <= end_s:
            break
        rack.leaves_s[slot] = rack.leaves_s[above]
        rack.leaving[slot] = rack.leaving[above]
        slot = above
    rack.leaves_s[slot] = end_s
    rack.leaving[slot] = job


@kernel
def _sink(rack: Rack, n: int) -> None:
    """Move the last entry of a heap without its top to the top, and down to its place."""
    if n == 0:
        return
    end_s, job = rack.leaves_s[n], rack.leaving[n]
    slot, below = 0, 1
    while below < n:
        if below + 1 < n and rack.leaves_s[below + 1] < rack.leaves_s[below]:
            below += 1
        if rack.leaves_s[below] >= end_s:
            break
        rack.leaves_s[slot] = rack.leaves_s[below]
        rack.leaving[slot] = rack.leaving[below]
        slot, below = below, 2 * below + 1
    rack.leaves_s[slot] = end_s
    rack.leaving[slot] = job


@kernel
def has_room(queue: Queue, rack: Rack, job: int, server: int) -> bool:
    """Return whether a server has room for a job."""
    if rack.mcpu[server] < queue.mcpu[job]:
        return False
    return bool(rack.mem_bytes[server] >= queue.mem_bytes[job])


@kernel
def at_random(queue: Queue, rack: Rack, job: int) -> int:
    """Return a server drawn uniformly among those with room for a job, or -1 if none has room."""
    n = 0
    for server in range(len(rack.mcpu)):
        if has_room(queue, rack, job, server):
            n += 1
    left = int(queue.mark[job] * n)
    for server in range(len(rack.mcpu)):
        if has_room(queue, rack, job, server):
            if left == 0:
                return server
            left -= 1
    return NOWHERE


@kernel
def choose(queue: Queue, rack: Rack, job: int) -> int:
    """Return the server with room for a job and the lowest `cost`, or the first of equal ones."""
    best, least = NOWHERE, 0.0
    mcpu, mem_bytes = (
        queue.mcpu[job] / rack.server_size[0],
        queue.mem_bytes[job] / rack.server_size[1],
    )
    for server in range(len(rack.mcpu)):
        if has_room(queue, rack, job, server):
            cpu_free = rack.mcpu[server] / rack.server_size[0]
            mem_free = rack.mem_bytes[server] / rack.server_size[1]
            server_cost = cost(mcpu, mem_bytes, cpu_free, mem_free)
            if best == NOWHERE or server_cost < least - ROUNDING:
                best, least = server, server_cost
    return best


@kernel
def cost(cpu: float, mem: float, cpu_free: float, mem_free: float) -> float:
    """Return the free share of a server after adding a job, the score of best fit.

    All arguments are shares of a whole server, also in the two costs below.
    """
    return (cpu_free - cpu) + (mem_free - mem)


@kernel
def angle(cpu: float, mem: float, cpu_free: float, mem_free: float) -> float:
    """Return minus the cosine of the angle between the request of a job and the free resources.

    It is 0 for a job that requests nothing, or a server that is full.
    """
    along = cpu * cpu_free + mem * mem_free
    lengths = (cpu * cpu + mem * mem) * (cpu_free * cpu_free + mem_free * mem_free)
    return -along / math.sqrt(lengths) if lengths > 0.0 else 0.0


@kernel
def off_diagonal(cpu: float, mem: float, cpu_free: float, mem_free: float) -> float:
    """Return how much a job would unbalance a server's use of cores and memory.

    The distance of (used cores, used memory) from the diagonal, without its factor 1 / sqrt(2),
    after the job minus before it.
    """
    return abs((mem_free - mem) - (cpu_free - cpu)) - abs(mem_free - cpu_free)
