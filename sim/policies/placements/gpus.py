"""Rules for GPUs: packing, clustering, and fragmentation gradient descent."""

from sim.kernel.choosing import tightest_device
from sim.kernel.fleet import AMOUNTS, GPU, N_CLASSES, N_KINDS, NONE, WHOLE, Fleet
from sim.kernel.text import apart, kernel
from sim.policies.kinds import Option
from sim.policies.placements.kinds import by_score

TIER = 2**40
"""More than any machine has of thousandths of GPUs."""

TYPICAL = Option(
    "typical_share", 0.95, "share of the instances that the typical needs make up, commonest first",
    lowest=0.0, highest=1.0,
)  # fmt: skip


@kernel
def packed(fleet: Fleet, need: int, machine: int) -> float:
    """Return GpuPacking's score: GPUs in use first, then machines in use, then idle ones.

    Weng et al., NSDI 2022 and ATC 2023: the part of a GPU goes to the fullest GPU in use that has
    room, else who asks for GPUs goes to a machine of which some are held, else to the idle one of
    the fewest GPUs. To who asks for none all are the same.
    """
    part = fleet.demand[need * AMOUNTS + GPU]
    if part == 0:
        return 0.0
    host = fleet.hosts[machine]
    n_gpus = host.behind_device - host.first_device
    if host.n_whole == n_gpus:
        return 2.0 * TIER + n_gpus
    if part < WHOLE:
        least = fleet.devices[tightest_device(fleet, need, machine)]
        if least < WHOLE:
            return 1.0 * least
    return 1.0 * TIER


@kernel
def clustered(fleet: Fleet, need: int, machine: int) -> float:
    """Return GpuClustering's score: those of a kind together (Gandiva, OSDI 2018; ATC 2023).

    First machines that have only instances that ask for GPUs as this does, then those that have
    such ones too, then those without any, then others; among these the one with the least left of
    its GPUs. A part of a GPU is one kind, each number of whole ones is one. To who asks for none
    all are the same.
    """
    gauges = fleet.gauges
    mine = gauges.class_of[need]
    if mine == NONE:
        return 0.0
    n_mine = n_others = 0
    for k in range(fleet.cursor[N_CLASSES]):
        n = gauges.n_of_class[machine * fleet.cursor[N_CLASSES] + k]
        if k == mine:
            n_mine = n
        else:
            n_others += n
    tier = 3
    if n_mine > 0:
        tier = 0 if n_others == 0 else 1
    elif n_others == 0:
        tier = 2
    return tier * float(TIER) + fleet.free[machine * AMOUNTS + GPU]


@apart
@kernel
def fragments(fleet: Fleet, machine: int, need: int, device: int) -> int:
    """Return thousandths of GPUs of a machine that typical needs cannot use, all of them together.

    F(m) of Weng et al. (ATC 2023), section 3, times the instances of the typical need m, summed:
    all that is left of the GPUs if m has no room or asks for none; else what is left of those
    GPUs that have less left than m takes of one.

    Args:
        fleet: the state.
        machine: which.
        need: what an instance more takes that is thought to be there; -1 is none.
        device: of which GPU it takes a part; -1 if of none.
    """
    gauges, host, at = fleet.gauges, fleet.hosts[machine], machine * AMOUNTS
    left, n_whole, part = fleet.free[at + GPU], host.n_whole, 0
    cpu, mem, disk = fleet.free[at], fleet.free[at + 1], fleet.free[at + 2]
    if need != NONE:
        wants = need * AMOUNTS
        cpu -= fleet.demand[wants]
        mem -= fleet.demand[wants + 1]
        disk -= fleet.demand[wants + 2]
        part = fleet.demand[wants + GPU]
        left -= part
        if part >= WHOLE:
            n_whole -= part // WHOLE
        elif part > 0 and fleet.devices[device] == WHOLE:
            n_whole -= 1
    total, seen, small, most = 0, NONE, 0, 0
    for i in range(len(gauges.typical)):
        m = gauges.typical[i]
        asks = fleet.demand[m * AMOUNTS + GPU]
        can = (
            asks > 0
            and cpu >= fleet.demand[m * AMOUNTS]
            and mem >= fleet.demand[m * AMOUNTS + 1]
            and disk >= fleet.demand[m * AMOUNTS + 2]
            and fleet.suits[m * fleet.cursor[N_KINDS] + host.kind] == 1
        )
        lost = left
        if can and asks >= WHOLE:
            if n_whole * WHOLE >= asks:
                lost = left - n_whole * WHOLE
        elif can:
            if asks != seen:
                seen, (small, most) = asks, _parts(fleet, machine, device, part, asks)
            if n_whole > 0 or most >= asks:
                lost = small
        total += gauges.popular[i] * lost
    return total


@kernel
def _parts(fleet: Fleet, machine: int, device: int, part: int, asks: int) -> tuple[int, int]:
    """Return what is left of GPUs that have less than is asked for, and the most of any in use.

    Args:
        fleet: the state.
        machine: whose GPUs.
        device: the one of which a part more is thought to be held; -1 is none.
        part: how much.
        asks: so many thousandths of one are asked for.
    """
    host, small, most = fleet.hosts[machine], 0, 0
    for d in range(host.first_device, host.behind_device):
        free = fleet.devices[d]
        if d == device:
            free -= part
        if free < WHOLE:
            most = max(most, free)
            if free < asks:
                small += free
    return small, most


@apart
@kernel
def best_device(fleet: Fleet, need: int, machine: int) -> int:
    """Return the GPU of which a part leaves the fewest fragments, the first of equal ones; or -1.

    GPUs with as much left are the same, so only the first of them is looked at.
    """
    part = fleet.demand[need * AMOUNTS + GPU]
    best = NONE
    if 0 < part < WHOLE:
        host, least = fleet.hosts[machine], 0
        for device in range(host.first_device, host.behind_device):
            is_new = fleet.devices[device] >= part
            for other in range(host.first_device, device):
                if fleet.devices[other] == fleet.devices[device]:
                    is_new = False
            if is_new:
                lost = fragments(fleet, machine, need, device)
                if best == NONE or lost < least:
                    best, least = device, lost
    return best


@kernel
def gradient(fleet: Fleet, need: int, machine: int) -> float:
    """Return by how much an instance makes the fragments of a machine grow, at its best GPU.

    Scores are kept until something changes on the machine.
    """
    gauges, version = fleet.gauges, fleet.hosts[machine].version
    at = need * len(fleet.hosts) + machine
    if len(gauges.kept) > 0 and gauges.kept_at[at] == version:
        return gauges.kept[at]
    device = best_device(fleet, need, machine)
    grown = fragments(fleet, machine, need, device) - fragments(fleet, machine, NONE, NONE)
    if len(gauges.kept) > 0:
        gauges.kept[at], gauges.kept_at[at] = float(grown), version
    return float(grown)


GPU_PACKING = by_score(
    "gpu_packing",
    "GPUs in use first, then machines in use, then idle ones (GpuPacking, Weng et al. 2022)",
    packed,
    tightest_device,
)
GPU_CLUSTERING = by_score(
    "gpu_clustering",
    "together with those that ask for GPUs as it does (GpuClustering, as Gandiva)",
    clustered,
    tightest_device,
    counts_classes=True,
)
FGD = by_score(
    "fgd",
    "where fewest GPUs become useless for typical needs (fragmentation gradient descent, Weng et "
    "al. 2023)",
    gradient,
    best_device,
    options=(TYPICAL,),
    has_typical=True,
)
