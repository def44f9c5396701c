"""What `none` and `greedy` do where instances of tasks are placed on machines."""

from typing import Any

from sim.kernel.fleet import Fleet
from sim.kernel.placing import serve
from sim.kernel.text import kernel


@kernel
def place_in_turn(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Place the first task in the queue, and the next when all its instances are placed."""
    return serve(fleet, choose, now_s, False)


@kernel
def place_whoever_fits(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Go through the whole queue and place what has room."""
    return serve(fleet, choose, now_s, True)
