"""Orders of the tasks of task graphs: who is before the most work goes first.

With the ranks of HEFT and CPOP (Topcuoglu, Hariri, Wu 2002; `sim.model.task_graphs`), without
communication, since nothing is sent between machines here. Only tasks whose parents have ended
wait, so an order says which of these goes first, of all jobs that are there. `sim.policies.heft`
has the two algorithms whole: there the plan also says on which machine.
"""

from sim.model.task_graphs import downward_ranks, upward_ranks
from sim.policies.kinds import Floats, Order, TaskFacts


def _critical_path(facts: TaskFacts) -> Floats:
    return -upward_ranks(facts.tasks, facts.full_s)


def _upward(facts: TaskFacts) -> Floats:
    return -upward_ranks(facts.tasks, facts.mean_s)


def _through(facts: TaskFacts) -> Floats:
    up, down = (ranks(facts.tasks, facts.mean_s) for ranks in (upward_ranks, downward_ranks))
    return -(up + down)


CRITICAL_PATH = Order(
    "critical_path",
    "the longest way to the end of its job first, at full speed",
    score_tasks=_critical_path,
)

UPWARD_RANK = Order(
    "upward_rank",
    "the same by mean times on the machines, HEFT's rank (Topcuoglu, Hariri, Wu 2002)",
    score_tasks=_upward,
)

CPOP_RANK = Order(
    "cpop_rank",
    "the longest way through it first, from begin to end of its job, CPOP's priority (the same)",
    score_tasks=_through,
)
