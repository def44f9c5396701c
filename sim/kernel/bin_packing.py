"""Jobs are put on empty servers in the order of their arrival until one fits nowhere.

Bergsma et al., section 6.2: what is allocated at the first failure tells how well jobs can be
packed. Servers are alike and have cores and memory; a job lies on one server as a whole, and what
ends has left before what arrives then. Which of the servers with room a job gets is up to `choose`,
which `sim.generators.cloud.packing` binds to one of the rules below.
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
"""Costs, which are shares of a server, are equal if they differ by no more."""


class Queue(NamedTuple):
    """Jobs in the order of arrival; each column has shape [n_jobs].

    Attributes:
        start_s: float64, never falling.
        end_s: float64, infinite if a job never leaves.
        mcpu: int64, thousandths of a core.
        mem_bytes: int64.
        mark: float64 from 0 up to 1, which server a random rule takes.
    """

    start_s: Floats
    end_s: Floats
    mcpu: Ints
    mem_bytes: Ints
    mark: Floats


class Rack(NamedTuple):
    """Servers that are alike, and a heap of who leaves them next.

    Attributes:
        mcpu: int64 [n_servers], what is free; `mem_bytes` likewise.
        leaves_s: float64 [n_jobs], the heap: when each leaves.
        leaving: int64 [n_jobs], the job.
        server_of: int64 [n_jobs], where it lies.
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
    """Put jobs on servers from a job on. Return the first that fits nowhere, or -1.

    A job that is wider than an empty server is none that anybody would send there; it is passed
    over.
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
    """Find the place of a job that is new in the heap, from its last slot on upwards."""
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
    """Put the last of a heap, which has n without its top, in the place of the top."""
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
    """Tell whether a server can take a job."""
    if rack.mcpu[server] < queue.mcpu[job]:
        return False
    return bool(rack.mem_bytes[server] >= queue.mem_bytes[job])


@kernel
def at_random(queue: Queue, rack: Rack, job: int) -> int:
    """Return one of the servers with room, each as likely as any other."""
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
    """Return the server with room of the least `cost`, of equal ones the first."""
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
    """Return what is left free of a server with the job on it: the busiest server costs least.

    All are shares of a whole server, as in the two costs below.
    """
    return (cpu_free - cpu) + (mem_free - mem)


@kernel
def angle(cpu: float, mem: float, cpu_free: float, mem_free: float) -> float:
    """Return minus the cosine of the angle between what a job asks for and what is free.

    Of a job that asks for nothing, or a server that is full, it is 0.
    """
    along = cpu * cpu_free + mem * mem_free
    lengths = (cpu * cpu + mem * mem) * (cpu_free * cpu_free + mem_free * mem_free)
    return -along / math.sqrt(lengths) if lengths > 0.0 else 0.0


@kernel
def off_diagonal(cpu: float, mem: float, cpu_free: float, mem_free: float) -> float:
    """Return by how much a job takes a server away from using as much of both resources.

    The distance of (used cores, used memory) from the diagonal, without its factor 1 / sqrt(2),
    after the job less before it.
    """
    return abs((mem_free - mem) - (cpu_free - cpu)) - abs(mem_free - cpu_free)
