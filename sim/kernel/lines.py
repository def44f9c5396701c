"""Lines of tasks that wait: binary heaps in a column, the task of the smallest rank on top."""

from sim.kernel.fleet import Fleet
from sim.kernel.text import kernel


@kernel
def insert(fleet: Fleet, line: list[int], first: int, n: int, task: int) -> None:
    """Put a task into a heap of n that begins at a slot; it holds n + 1 then."""
    rank, slot = fleet.tasks[task].rank, n
    while slot > 0:
        above = (slot - 1) >> 1
        if fleet.tasks[line[first + above]].rank < rank:
            break
        line[first + slot] = line[first + above]
        slot = above
    line[first + slot] = task


@kernel
def remove_first(fleet: Fleet, line: list[int], first: int, n: int) -> None:
    """Take the top off a heap of n + 1 that begins at a slot; it holds n then."""
    task, slot, below = line[first + n], 0, 1
    rank = fleet.tasks[task].rank
    while below < n:
        if below + 1 < n and (
            fleet.tasks[line[first + below + 1]].rank < fleet.tasks[line[first + below]].rank
        ):
            below += 1
        if fleet.tasks[line[first + below]].rank > rank:
            break
        line[first + slot] = line[first + below]
        slot, below = below, 2 * below + 1
    line[first + slot] = task
