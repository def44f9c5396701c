"""The event loop for a fleet, as kernel text."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.agenda import drop_first, put
from sim.kernel.fleet import Fleet
from sim.kernel.placing import end, submit
from sim.kernel.progress import settle, throttle
from sim.kernel.text import kernel
from sim.model.throttle import Turns

NEXT, N_COMPUTING, TURNING = 0, 1, 2
"""Where `Timetable.cursor` holds the next job, the number of future ends and the next turn."""


class Timetable(NamedTuple):
    """What happens from outside, and the ends to come.

    Attributes:
        submit_s: float64 [n_jobs], in rising order.
        takes_part: int64 [n_jobs], 0 if it is rejected.
        turns_s: float64 [n_turns], when machines change their speed, in rising order.
        turning: int64 [n_turns], which machines.
        cpu: float64 [n_turns], share of full speed from then on; `gpu` likewise.
        ends_s: float64 [n_instances], heap of future ends.
        ending: int64 [n_instances], whose they are.
        slot_of: int64 [n_instances], where each is in the heap; -1 if it is not.
        cursor: int64 [3], see `NEXT`.
    """

    submit_s: list[float]
    takes_part: list[int]
    turns_s: list[float]
    turning: list[int]
    cpu: list[float]
    gpu: list[float]
    ends_s: list[float]
    ending: list[int]
    slot_of: list[int]
    cursor: list[int]


def new_timetable(
    submit_s: NDArray[np.float64], takes_part: NDArray[np.bool_], turns: Turns, n_instances: int
) -> Timetable:
    """Return a timetable, made of arrays, before its first event."""
    parts: list[Any] = [
        submit_s.copy(),
        takes_part.astype(np.int64),
        turns.time_s,
        turns.machine,
        turns.cpu,
        turns.gpu,
        np.empty(n_instances),
        np.empty(n_instances, dtype=np.int64),
        np.full(n_instances, -1),
        np.zeros(3, dtype=np.int64),
    ]
    return Timetable(*parts)


@kernel
def run_fleet(fleet: Fleet, decide: Any, choose: Any, table: Timetable, n_instants: int) -> bool:
    """Go through some instants: apply what ends, turns and arrives, then place and settle.

    Args:
        fleet: the state.
        decide: the backfilling rule, (fleet, choose, now_s).
        choose: the placement rule.
        table: arrivals and turns, and the ends to come.
        n_instants: stop after so many; a later call goes on.

    Returns:
        True when no more can happen.
    """
    ends_s, ending, slot_of = table.ends_s, table.ending, table.slot_of
    coming, n, turning = table.cursor[NEXT], table.cursor[N_COMPUTING], table.cursor[TURNING]
    n_jobs, n_turns = len(table.submit_s), len(table.turns_s)
    is_over = False
    while n_instants > 0:
        n_instants -= 1
        now_s = math.inf
        if n > 0:
            now_s = ends_s[0]
        if coming < n_jobs:
            now_s = min(now_s, table.submit_s[coming])
        if turning < n_turns:
            now_s = min(now_s, table.turns_s[turning])
        if now_s == math.inf:
            is_over = True
            break
        while n > 0 and ends_s[0] == now_s:
            instance = ending[0]
            n = drop_first(ends_s, ending, slot_of, n)
            end(fleet, instance)
        while turning < n_turns and table.turns_s[turning] == now_s:
            throttle(fleet, table.turning[turning], table.cpu[turning], table.gpu[turning])
            turning += 1
        while coming < n_jobs and table.submit_s[coming] == now_s:
            if table.takes_part[coming] == 1:
                submit(fleet, coming)
            coming += 1
        decide(fleet, choose, now_s)
        for i in range(settle(fleet, now_s)):
            instance = fleet.changed[i]
            n = put(ends_s, ending, slot_of, n, instance, fleet.end_s[instance])
    table.cursor[NEXT], table.cursor[N_COMPUTING], table.cursor[TURNING] = coming, n, turning
    return is_over
