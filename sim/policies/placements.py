"""Placement rules: the choice of a machine with room for an instance.

Rules are first, best, worst and busiest fit, and random; rules for GPUs: packing, clustering, and
fragmentation gradient descent; rules by the shape of the request and of the free resources:
angles and products of vectors; and the scores of kube-scheduler. Most are made of a score.

The choice among machines that have room: by lowest score, or at random.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.kernel.fleet import (
    AMOUNTS,
    DECISION,
    DRAW_A,
    DRAW_B,
    FROM,
    GPU,
    N_CLASSES,
    N_FREED,
    N_KINDS,
    N_PILE,
    NONE,
    PICKED,
    PILE_AT,
    PILE_DECISION,
    PILE_NEED,
    WHOLE,
    Fleet,
)
from sim.kernel.instances import has_room
from sim.kernel.jit import bound, is_kernel, kernel, noinline
from sim.model.errors import ScenarioError, entry_named
from sim.policies.policy import PolicyOption, switch


@kernel
def score_of(_fleet: Fleet, _need: int, _machine: int) -> float:
    """Serve as a placeholder for the score of a machine that has room, lowest chosen."""
    return 0.0


@kernel
def device_of(_fleet: Fleet, _need: int, _machine: int) -> int:
    """Serve as a placeholder for the choice of a GPU to share: -1, the first with room."""
    return NONE


@kernel
def choose_least(fleet: Fleet, need: int, start: int) -> int:
    """Return the machine with room and the lowest score, or -1 if none has room."""
    score, pile, n = fleet.gauges.score, fleet.gauges.pile, 0
    goes_on, is_stuck = is_piled(fleet, need), fleet.needs[need].is_stuck == 1
    i, behind = start, len(fleet.hosts)
    if goes_on:
        i, behind, n = 0, 1, fleet.cursor[N_PILE] - 1
    elif is_stuck:
        i, behind = 0, fleet.cursor[N_FREED]
    while i < behind:
        machine = pile[0] if goes_on else fleet.freed[i] if is_stuck else i
        if has_room(fleet, need, machine):
            score[machine] = score_of(fleet, need, machine)
            pile[0 if goes_on else n] = machine
            n += 1
        i += 1
    if goes_on and n < fleet.cursor[N_PILE]:
        pile[0] = pile[n]
    _heap(score, pile, n, goes_on)
    note_pile(fleet, need, n, 0)
    if n == 0:
        return NONE
    fleet.cursor[PICKED] = device_of(fleet, need, pile[0])
    return pile[0]


@kernel
def choose_by_lot(fleet: Fleet, need: int, start: int) -> int:
    """Return a machine drawn uniformly among those with room, or -1 if none has room."""
    pile, n = fleet.gauges.pile, 0
    goes_on, is_stuck = is_piled(fleet, need), fleet.needs[need].is_stuck == 1
    i, behind = start, len(fleet.hosts)
    if goes_on:
        i, n = fleet.cursor[PILE_AT], fleet.cursor[N_PILE]
        behind = i + 1
    while i < behind:
        machine = pile[i] if goes_on else i
        may_have = (
            goes_on or not is_stuck or fleet.hosts[machine].freed_at == fleet.cursor[DECISION]
        )
        has = may_have and has_room(fleet, need, machine)
        if has and not goes_on:
            pile[n] = machine
            n += 1
        elif goes_on and not has:
            n -= 1
            for slot in range(i, n):
                pile[slot] = pile[slot + 1]
        i += 1
    if n == 0:
        note_pile(fleet, need, 0, 0)
        return NONE
    at = draw_below(fleet, n)
    note_pile(fleet, need, n, at)
    return pile[at]


@kernel
def is_piled(fleet: Fleet, need: int) -> bool:
    """Return whether the cached heap of machines is valid for a request in this decision.

    The chosen machine has been given to an instance. A gang releases machines only after a choice
    that found none, which invalidates the pile.
    """
    cursor = fleet.cursor
    return cursor[PILE_NEED] == need and cursor[PILE_DECISION] == cursor[DECISION]


@kernel
def note_pile(fleet: Fleet, need: int, n: int, at: int) -> None:
    """Record the request, length and last chosen slot of the cached heap of machines."""
    cursor = fleet.cursor
    cursor[PILE_NEED], cursor[PILE_DECISION], cursor[N_PILE] = need, cursor[DECISION], n
    if n == 0:
        cursor[PILE_NEED] = NONE
    cursor[PILE_AT] = at


@kernel
def draw_below(fleet: Fleet, n: int) -> int:
    """Return a random whole number from 0 up to n - 1, with n at most 2**20.

    L'Ecuyer's combined generator (Communications of the ACM 31(6), 1988), which 64-bit integers can
    follow exactly. Its 2,147,483,562 values are divided among n as evenly as possible.
    """
    a = 40014 * fleet.cursor[DRAW_A] % 2147483563
    b = 40692 * fleet.cursor[DRAW_B] % 2147483399
    fleet.cursor[DRAW_A], fleet.cursor[DRAW_B] = a, b
    value = a - b
    if value < 1:
        value += 2147483562
    return (value - 1) * n // 2147483562


@kernel
def tightest_device(fleet: Fleet, need: int, machine: int) -> int:
    """Return the GPU with the least free share that still has room for part of a GPU, or -1."""
    part = fleet.demand[need * AMOUNTS + GPU]
    best = NONE
    if 0 < part < WHOLE:
        host = fleet.hosts[machine]
        for device in range(host.first_device, host.behind_device):
            if fleet.devices[device] >= part and (
                best == NONE or fleet.devices[device] < fleet.devices[best]
            ):
                best = device
    return best


@kernel
def loosest_device(fleet: Fleet, need: int, machine: int) -> int:
    """Return the GPU with the largest free share that has room for part of a GPU, or -1."""
    part = fleet.demand[need * AMOUNTS + GPU]
    best = NONE
    if 0 < part < WHOLE:
        host = fleet.hosts[machine]
        for device in range(host.first_device, host.behind_device):
            if fleet.devices[device] >= part and (
                best == NONE or fleet.devices[device] > fleet.devices[best]
            ):
                best = device
    return best


@noinline
@kernel
def _heap(score: list[float], pile: list[int], n: int, only_top: bool) -> None:
    """Make a heap of the n machines in the pile; with `only_top`, only the top is out of place.

    The lowest score is on top, and the smallest machine number among equal ones.
    """
    first = 0 if only_top else (n >> 1) - 1
    for top in range(first, -1, -1):
        machine, slot = pile[top], top
        mine, below = score[machine], 2 * slot + 1
        while below < n:
            other = pile[below]
            if below + 1 < n:
                next_one = pile[below + 1]
                if score[next_one] < score[other] or (
                    score[next_one] == score[other] and next_one < other
                ):
                    below += 1
                    other = next_one
            if mine < score[other] or (mine == score[other] and machine < other):
                break
            pile[slot] = other
            slot, below = below, 2 * below + 1
        pile[slot] = machine


ChooseMachine = Callable[[Fleet, int, int], int]


@dataclass(frozen=True)
class PlacementRule:
    """Placement rule: chooses a machine for the next instance of a task.

    Attributes:
        name, summary: name in a scenario, and one line for people with the source.
        choose: kernel function, (fleet, need, start) to a machine that has room for the need, or -1
            if none has. No machine before `start` has room.
        options: its options; it finds the values in ``fleet.gauges.options``, in this order.
        counts_classes: whether it uses the number of instances of each class of GPUs on a machine.
        has_typical: whether it uses the needs for which room should be kept; the last option is for
            them.
    """

    name: str
    summary: str
    choose: ChooseMachine
    options: tuple[PolicyOption, ...] = ()
    counts_classes: bool = False
    has_typical: bool = False


def placement_by_score(
    name: str,
    summary: str,
    score: Callable[[Fleet, int, int], float],
    device: Callable[[Fleet, int, int], int] = device_of,
    **more: Any,
) -> PlacementRule:
    """Return the rule that chooses the machine with the lowest score.

    Args:
        name: name of the rule.
        summary: summary of the rule.
        score: kernel function, (fleet, need, machine) to the score of a machine that has room. It
            may use that machine and constant values only.
        device: kernel function, (fleet, need, machine) to the GPU of which an instance gets a part,
            or -1 for the first.
        more: other fields of the rule.
    """
    text = bound(choose_least, name, score_of=kernel(score), device_of=kernel(device))
    return PlacementRule(name, summary, text, **more)


WEIGHTS: tuple[PolicyOption, ...] = tuple(
    PolicyOption(f"{short}_weight", 1.0, f"weight of {resource} in the score", 0.0, 1e9)
    for short, resource in (
        ("cpu", "cores"),
        ("mem", "memory"),
        ("disk", "disk"),
        ("gpu", "GPUs"),
    )
)
"""One option for each resource of a machine, in their order."""


@kernel
def first_fit(fleet: Fleet, need: int, start: int) -> int:
    """Return the first machine with room for a request, from machine `start` on, or -1."""
    for machine in range(start, len(fleet.hosts)):
        if has_room(fleet, need, machine):
            fleet.cursor[FROM] = machine
            return machine
    return NONE


@kernel
def left_over(fleet: Fleet, need: int, machine: int) -> float:
    """Return a machine's weighted free resources after adding an instance (best fit).

    max_r is the largest amount of any machine. Weng et al., USENIX ATC 2023, section 6: best fit.
    Unlimited resources are left out.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    total = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            left = fleet.free[at + r] - fleet.demand[wants + r]
            total += gauges.options[r] * (float(left) / gauges.largest[r])
    return total


@kernel
def taken_before(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus a machine's weighted free resources after adding an instance (worst fit)."""
    return -left_over(fleet, need, machine)


@kernel
def idle_share(fleet: Fleet, _need: int, machine: int) -> float:
    """Return the mean free share of a machine's resources, before the instance."""
    gauges, at = fleet.gauges, machine * AMOUNTS
    total, n = 0.0, 0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            total += float(fleet.free[at + r]) / float(gauges.capacity[at + r])
            n += 1
    return total / n if n > 0 else 0.0


FIRST_FIT = PlacementRule(
    "first_fit", "the first machine with room, in the order of the cluster", first_fit
)
BEST_FIT = placement_by_score(
    "best_fit",
    "the machine with the least left after it, in shares of the largest one (Weng et al. 2023)",
    left_over,
    tightest_device,
    options=WEIGHTS,
)
WORST_FIT = placement_by_score(
    "worst_fit", "the machine with the most left after it", taken_before, loosest_device,
    options=WEIGHTS,
)  # fmt: skip
RANDOM = PlacementRule(
    "random", "a random machine with room, equally likely; by the scenario's seed", choose_by_lot
)
BUSIEST_FIT = placement_by_score(
    "busiest_fit",
    "the machine with the largest share in use (Bergsma et al. 2021)",
    idle_share,
)

BALANCE = AMOUNTS  # Position of the option after one weight for each resource
MOST_SCORE = 100  # MaxNodeScore of kube-scheduler


@kernel
def _fit_score(fleet: Fleet, need: int, machine: int, is_most: bool) -> float:
    """Return the score of kube-scheduler's NodeResourcesFit and NodeResourcesBalancedAllocation.

    Of each resource with a limit the whole percentage that is requested (MostAllocated) or left
    (LeastAllocated) once the instance is there; their weighted mean, rounded down; plus the option
    `balance_weight` times (1 - |c - m| / 2) x 100, rounded down, with the requested shares c of
    cores and m of memory. GPUs count for instances that request some, as extended resources do.

    Source: kubernetes, pkg/scheduler/framework/plugins/noderesources, whose arithmetic is of
    whole numbers; those up to 2**53 x 100 have room in 64 bits.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    total, weights, cpu, mem, n_shares = 0.0, 0.0, 0.0, 0.0, 0
    for r in range(AMOUNTS):
        whole = gauges.capacity[at + r]
        if whole > 0 and (r != GPU or fleet.demand[wants + r] > 0):
            left = fleet.free[at + r] - fleet.demand[wants + r]
            amount = whole - left if is_most else left
            total += gauges.options[r] * (amount * MOST_SCORE // whole)
            weights += gauges.options[r]
            if r < 2:
                share = float(whole - left) / float(whole)
                cpu, mem = (share, mem) if r == 0 else (cpu, share)
                n_shares += 1
    score = math.floor(total / weights) if weights > 0.0 else 0
    spread = abs(cpu - mem) / 2.0 if n_shares == 2 else 0.0
    return score + gauges.options[BALANCE] * math.floor((1.0 - spread) * MOST_SCORE)


@kernel
def least_allocated(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the score of a machine with the scoring strategy LeastAllocated."""
    return -_fit_score(fleet, need, machine, False)


@kernel
def most_allocated(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the score of a machine with the scoring strategy MostAllocated."""
    return -_fit_score(fleet, need, machine, True)


KUBE_WEIGHTS = (
    *WEIGHTS,
    PolicyOption(
        "balance_weight", 1.0, "weight of NodeResourcesBalancedAllocation", 0.0, 100.0
    ),
)  # fmt: skip
LEAST_ALLOCATED = placement_by_score(
    "least_allocated",
    "the machine with the most left, in shares of its own (kube-scheduler's LeastAllocated)",
    least_allocated,
    options=KUBE_WEIGHTS,
)
MOST_ALLOCATED = placement_by_score(
    "most_allocated",
    "the machine with the least left, in shares of its own (kube-scheduler's MostAllocated)",
    most_allocated,
    options=KUBE_WEIGHTS,
)

TIER = 2**40

TYPICAL = PolicyOption(
    "typical_share", 0.95, "share of the instances that the typical needs cover, most common first",
    lowest=0.0, highest=1.0,
)  # fmt: skip


@kernel
def gpu_packing(fleet: Fleet, need: int, machine: int) -> float:
    """Return the GpuPacking score: GPUs in use first, then machines in use, then idle machines.

    Weng et al., NSDI 2022 and ATC 2023: a part of a GPU goes to the fullest GPU in use that has
    room; else a request for GPUs goes to a machine with GPUs in use, else to the idle one with the
    fewest GPUs. Without a request for GPUs all machines are equal.
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
def gpu_clustering(fleet: Fleet, need: int, machine: int) -> float:
    """Return the GpuClustering score, which groups instances of equal GPU requests.

    First come machines with only instances of the same GPU request, then those that also have
    others, then those without any, then the rest; ties go to the least GPUs left. A part of a GPU
    is one kind, and each number of whole ones is one. Without a request for GPUs all machines are
    equal.
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


@noinline
@kernel
def fragments(fleet: Fleet, machine: int, need: int, device: int) -> int:
    """Return GPU thousandths of a machine unusable for typical requests, weighted by frequency.

    F(m) of Weng et al. (ATC 2023), section 3, times the instances of the typical need m, summed:
    all that is left of the GPUs if m has no room or requests none; else the rest of those GPUs that
    have less left than m takes of one.
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
    total, last_asks, small, most = 0, NONE, 0, 0
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
            if asks != last_asks:
                last_asks, (small, most) = asks, _parts(fleet, machine, device, part, asks)
            if n_whole > 0 or most >= asks:
                lost = small
        total += gauges.popular[i] * lost
    return total


@kernel
def _parts(fleet: Fleet, machine: int, device: int, part: int, asks: int) -> tuple[int, int]:
    """Return the rest of GPUs with less than a request, and the largest rest of any GPU in use.

    One more `part` of `device` (-1 is none) is assumed to be in use; `asks` is the requested
    thousandths of one GPU.
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


@noinline
@kernel
def best_device(fleet: Fleet, need: int, machine: int) -> int:
    """Return the first GPU on which a partial allocation leaves the fewest fragments, or -1.

    GPUs with the same rest are equal, so only the first of them is examined.
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
    """Return how much an instance would increase GPU fragmentation on a machine.

    Scores are cached until something changes on the machine.
    """
    gauges, version = fleet.gauges, fleet.hosts[machine].version
    at = need * len(fleet.hosts) + machine
    if len(gauges.cached_scores) > 0 and gauges.kept_at[at] == version:
        return gauges.cached_scores[at]
    device = best_device(fleet, need, machine)
    grown = fragments(fleet, machine, need, device) - fragments(fleet, machine, NONE, NONE)
    if len(gauges.cached_scores) > 0:
        gauges.cached_scores[at], gauges.kept_at[at] = float(grown), version
    return float(grown)


GPU_PACKING = placement_by_score(
    "gpu_packing",
    "GPUs in use first, then machines in use, then idle ones (GpuPacking, Weng et al. 2022)",
    gpu_packing,
    tightest_device,
)
GPU_CLUSTERING = placement_by_score(
    "gpu_clustering",
    "machines with instances of the same GPU request first (GpuClustering, as Gandiva)",
    gpu_clustering,
    tightest_device,
    counts_classes=True,
)
FGD = placement_by_score(
    "fgd",
    "the machine where fewest GPUs become useless for typical needs (fragmentation gradient "
    "descent, Weng et al. 2023)",
    gradient,
    best_device,
    options=(TYPICAL,),
    has_typical=True,
)


@kernel
def away_from(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the cosine of the angle between the request and the free resources.

    -(sum d_r f_r) / (|d| |f|), d_r and f_r being shares of the machine; 0 if either has no length.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = asked_square = free = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            capacity = float(gauges.capacity[at + r])
            d, f = float(fleet.demand[wants + r]) / capacity, float(fleet.free[at + r]) / capacity
            along += d * f
            asked_square += d * d
            free += f * f
    lengths = asked_square * free
    return -(along / math.sqrt(lengths)) if lengths > 0.0 else 0.0


@kernel
def off_diagonal(fleet: Fleet, machine: int, need: int, times: float) -> float:
    """Return how far the used shares of a machine's resources are from being equal.

    The distance of the vector u from the diagonal, sqrt(sum (u_r - mean u)^2), with `times` more
    instances of a need.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    total, n = 0.0, 0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            more = times * float(fleet.demand[wants + r])
            total += (float(fleet.free[at + r]) - more) / float(gauges.capacity[at + r])
            n += 1
    if n == 0:
        return 0.0
    mean, squares = total / n, 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            more = times * float(fleet.demand[wants + r])
            off = (float(fleet.free[at + r]) - more) / float(gauges.capacity[at + r]) - mean
            squares += off * off
    return math.sqrt(squares)


@kernel
def further_off(fleet: Fleet, need: int, machine: int) -> float:
    """Return how much an instance would unbalance a machine's use of its resources."""
    return off_diagonal(fleet, machine, need, 1.0) - off_diagonal(fleet, machine, need, 0.0)


@kernel
def against(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the dot product of request and free shares (the alignment of Tetris)."""
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            capacity = float(gauges.capacity[at + r])
            along += (float(fleet.demand[wants + r]) / capacity) * (
                float(fleet.free[at + r]) / capacity
            )
    return -along


@kernel
def product(fleet: Fleet, need: int, machine: int) -> float:
    """Return the dot product of request and free resources, scaled by the largest machine."""
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            most = gauges.largest[r]
            along += (float(fleet.demand[wants + r]) / most) * (float(fleet.free[at + r]) / most)
    return along


COSINE = placement_by_score(
    "cosine_similarity",
    "the machine whose free resources are most like the request (as in Bergsma et al. 2021)",
    away_from,
)
PERP_DISTANCE = placement_by_score(
    "perp_distance",
    "the machine whose use of resources becomes least uneven (delta perp-distance, "
    "as in Bergsma et al. 2021)",
    further_off,
)
TETRIS = placement_by_score(
    "tetris",
    "the machine with the largest product of request and free resources (Grandl et al. 2014)",
    against,
)
DOT_PRODUCT = placement_by_score(
    "dot_product",
    "the machine with the smallest such product (DotProd of Weng et al. 2023)",
    product,
    tightest_device,
)

ALL_OR_NOTHING = switch("all_or_nothing", False, "a gang is placed as a whole or not at all")
BY_UTILISATION = switch(
    "by_utilisation", True, "units run at the rate of the utilisation; 0 is that of the request"
)
EVEN_SHARES = switch(
    "even_shares", False, "k instances on a machine each do CPU units at 1/k of their speed"
)
CPU_UNIT_RATE = PolicyOption(
    "cpu_unit_rate", 1.0, "CPU units per second and core", lowest=1e-9, highest=1e9, unit="1/s"
)
GPU_UNIT_RATE = PolicyOption(
    "gpu_unit_rate", 1.0, "GPU units per second and GPU", lowest=1e-9, highest=1e9, unit="1/s"
)
BY_TASK = switch("by_task", False, "orders of jobs rank each task by its own run time and cores")

SCENARIO_OPTIONS: tuple[PolicyOption, ...] = (
    ALL_OR_NOTHING, BY_TASK, BY_UTILISATION, EVEN_SHARES, CPU_UNIT_RATE, GPU_UNIT_RATE,
)  # fmt: skip
"""Options of every scenario that places instances."""


PLACEMENTS: tuple[PlacementRule, ...] = (
    FIRST_FIT, BEST_FIT, WORST_FIT, RANDOM, BUSIEST_FIT, COSINE, PERP_DISTANCE, TETRIS, DOT_PRODUCT,
    GPU_PACKING, GPU_CLUSTERING, FGD, LEAST_ALLOCATED, MOST_ALLOCATED,
)  # fmt: skip

_others: dict[str, PlacementRule] = {}


def register_placement(rule: PlacementRule) -> None:
    """Register a user-defined placement rule in this process for all engines.

    Its choice is one function marked with `sim.kernel.jit.kernel` that calls only kernel functions
    of Copperline; every process that simulates with it must register it.

    Raises:
        ScenarioError: the name exists already, or the choice is not marked.
    """
    if rule.name in {builtin.name for builtin in PLACEMENTS}:
        raise ScenarioError(f"placement '{rule.name}' is built in; use another name.")
    if not is_kernel(rule.choose):
        raise ScenarioError(
            f"the choice of placement '{rule.name}' is not a kernel function; mark it with @kernel."
        )
    _others[rule.name] = rule


def placement_named(name: str) -> PlacementRule:
    """Return the registered placement rule with a name, or raise `UnknownNameError`."""
    return entry_named("placement", name, (*PLACEMENTS, *_others.values()))
