"""The choice among machines that have room: by lowest score, or at random.

The machines with room for a need lie in a pile. While instances of that need are placed one after
the other, only the last chosen machine changes, so the pile need not be rebuilt: the next choice
costs the logarithm of the number of machines. A score depends only on the need and on its machine.
"""

from sim.kernel.fleet import (
    AMOUNTS,
    DECISION,
    DRAW_A,
    DRAW_B,
    GPU,
    N_FREED,
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
from sim.kernel.jit import kernel, noinline


@kernel
def score_of(_fleet: Fleet, _need: int, _machine: int) -> float:
    """Stand in for the score of a machine that has room; the lowest score is chosen."""
    return 0.0


@kernel
def device_of(_fleet: Fleet, _need: int, _machine: int) -> int:
    """Stand in for the choice of the GPU of which an instance gets a part: -1, the first."""
    return NONE


@kernel
def choose_least(fleet: Fleet, need: int, start: int) -> int:
    """Return the first machine with room and the lowest score; -1 if none has room."""
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
    """Return a random machine with room, all equally likely; -1 if none has room."""
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
    """Return whether the pile is that of a need, with no change except at its last choice.

    The chosen machine has been given to an instance. A gang releases machines only after a choice
    that found none, which invalidates the pile.
    """
    cursor = fleet.cursor
    return cursor[PILE_NEED] == need and cursor[PILE_DECISION] == cursor[DECISION]


@kernel
def note_pile(fleet: Fleet, need: int, n: int, at: int) -> None:
    """Record the need of the pile, its number of machines, and the slot of the choice."""
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
    """Return the GPU with the least left that has room for a part of one; -1 if none is needed."""
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
    """Return the GPU with the most left, if a part of one is needed; else -1."""
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
