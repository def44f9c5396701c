"""The types of policies: queue orders, backfilling rules and their options."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import UsageTerms
from sim.kernel.fleet import Fleet
from sim.kernel.nodes import Nodes
from sim.kernel.pool import Pool
from sim.model.cluster import ClusterSpec
from sim.model.errors import ScenarioError, UnknownNameError
from sim.model.scenario import Scenario
from sim.model.tasks import Tasks

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PolicyOption:
    """Numeric option of a scheduling policy, with default and bounds.

    Attributes:
        name: name in a scenario; unique among policies of the same kind.
        usual: default value.
        summary: one line for people.
        lowest, highest: smallest and largest allowed value.
        is_whole: whether only whole numbers are allowed.
        unit: unit for people; empty for counts and switches.
        needs: another option of the same policy; while that is 0, this one has no effect.
        names: names of the values 0, 1, ... if they are kinds; a scenario may use either.
    """

    name: str
    usual: float
    summary: str
    lowest: float = 0.0
    highest: float = math.inf
    is_whole: bool = False
    unit: str = ""
    needs: str = ""
    names: tuple[str, ...] = ()

    def checked(self, value: object, of: str) -> float:
        """Return a value as a float, or raise `ScenarioError` if it is out of bounds."""
        if isinstance(value, str) and value in self.names:
            return float(self.names.index(value))
        number = float(value) if isinstance(value, int | float) else math.nan
        is_kind = number == int(number) if self.is_whole and math.isfinite(number) else True
        if not (math.isfinite(number) and self.lowest <= number <= self.highest and is_kind):
            kind = "whole numbers" if self.is_whole else "numbers"
            upto = "" if math.isinf(self.highest) else f" to {self.highest:g}"
            allowed = ", ".join(self.names) or f"{kind} from {self.lowest:g}{upto}"
            raise ScenarioError(
                f"option '{self.name}' of {of} is {value!r}; allowed are {allowed}."
            )
        return number


def knob_values(
    knobs: Iterable[PolicyOption], settings: Mapping[str, float | str], of: str
) -> dict[str, float]:
    """Return the values of all knobs: the given settings, and the usual values of the others.

    Args:
        knobs: options of what is done.
        settings: given values by name.
        of: what is done, for messages, such as ``fitting 'lublin'``.

    Raises:
        UnknownNameError: there is no such knob.
        ScenarioError: a value out of bounds.
    """
    by_name = {knob.name: knob for knob in knobs}
    for name in settings:
        if name not in by_name:
            raise UnknownNameError(f"knob of {of}", name, by_name)
    return {
        name: knob.checked(settings.get(name, knob.usual), of) for name, knob in by_name.items()
    }


def switch(name: str, usual: bool, summary: str) -> PolicyOption:
    """Return a policy option that is either 0 (off) or 1 (on)."""
    return PolicyOption(name, float(usual), summary, 0.0, 1.0, is_whole=True)


ACTUAL_TIMES = switch("actual_times", False, "plan with the actual run times of jobs")
"""Option of a rule that can plan with actual run times, as CQSim does."""


@dataclass(frozen=True, eq=False)
class JobFacts:
    """Job properties that a queue order may use, as columns of [n_jobs].

    Attributes:
        submit_s, requested_s, procs: float64, float64 and int64; `submit_s` is in seconds since the
            first submission.
        partition: int64, index into those of the cluster; -1 for a rejected job.
        queue: int64, as logged; -1 where unknown.
        cluster: cluster of the jobs.
        qos_priority: priorities of queues by number; see `Scenario`.
        options: option values of the order, by name.
    """

    submit_s: Floats
    requested_s: Floats
    procs: NDArray[np.int64]
    partition: NDArray[np.int64]
    queue: NDArray[np.int64]
    cluster: ClusterSpec
    qos_priority: Mapping[int, float]
    options: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class TaskFacts:
    """Task properties that a queue order may use, as columns of [n_tasks].

    Attributes:
        tasks: tasks with the graph of each job.
        full_s: float64, seconds of an instance at full speed.
        mean_s: float64, mean seconds of an instance on the machines that can hold it, at their
            usual speeds; as at full speed if none can.
    """

    tasks: Tasks
    full_s: Floats
    mean_s: Floats


def _no_usage(_values: Mapping[str, float]) -> None:
    return None


def _nothing_missing(_scenario: Scenario, _values: Mapping[str, float]) -> None:
    pass


@dataclass(frozen=True)
class Order:
    """Queue order: rule by which waiting jobs or tasks are ranked.

    One of `score`, `score_now` and `score_tasks` is set. Ties go to the earlier submission, then to
    the smaller job id, then to the task that is listed first.

    Attributes:
        name, summary: name in a scenario, and one line for people with the source.
        score: facts to float64 [n]; the smallest goes first, always.
        factor: facts to float64 [n], input of `score_now` for each job.
        score_now: (waited_s, procs, factor, fair_share, options) to the score at this moment, as a
            kernel function; the smallest goes first. The queue is sorted again before every
            decision.
        is_stepwise: `score_now` changes in steps, and never rises while a job waits.
        score_tasks: facts to float64 [n_tasks]; the smallest waiting task goes first. Used only
            where instances of tasks are placed.
        options: its options.
        usage: option values to how it counts the usage of users; None if it does not use the
            `fair_share` of a job's user, which is 1 then.
        uses_submission: `score` uses the logged submission, beside other facts.
        check: raises `ScenarioError` if a scenario lacks input of the order, from the option
            values.
    """

    name: str
    summary: str
    score: Callable[[JobFacts], Floats] | None = None
    factor: Callable[[JobFacts], Floats] | None = None
    score_now: Callable[[float, int, float, float, list[float]], float] | None = None
    is_stepwise: bool = False
    score_tasks: Callable[[TaskFacts], Floats] | None = None
    options: tuple[PolicyOption, ...] = ()
    usage: Callable[[Mapping[str, float]], UsageTerms | None] = _no_usage
    uses_submission: bool = False
    check: Callable[[Scenario, Mapping[str, float]], None] = _nothing_missing


def _never(_values: Mapping[str, float]) -> bool:
    return False


@dataclass(frozen=True)
class Backfill:
    """A backfilling rule: which waiting jobs may overtake the head of the queue.

    A rule is one decision for one partition that has waiting jobs, at one instant, after all
    arrivals and completions of that instant. It starts jobs through the transitions of the state,
    lists them in ``pool.started`` and returns how many there are.

    Attributes:
        name, summary: name in a scenario, and one line for people with the source.
        decide: (pool, partition, now_s) to the number of jobs started; None if the rule needs named
            machines.
        decide_nodes: the same over named machines, (nodes, partition, now_s), of which a job takes
            whole ones; None if the rule cannot.
        decide_shared: the same where several jobs may share a machine; None if the rule cannot.
        options: its options; the rule finds the values in ``pool.options``, in this order.
        is_eager: option values to whether it must decide whenever something arrives or ends, even
            if no job can start.
        plans, keeps_plan: whether it needs a plan (`sim.kernel.plan`), and keeps it from decision
            to decision.
        wakes: whether it may decide at a time without arrival or end
            (`sim.kernel.pool.PartitionState.wake_s`).
        n_bookings: option values to the maximum of reservations of machines in one decision
            (`sim.kernel.nodes.Reservations`); None if it makes none.
        decide_by_plan: the same by a plan, which knows the capacity windows; None if `decide` uses
            one. It ignores options except `ACTUAL_TIMES`.
        decide_instances: (fleet, choose, now_s) to the number of instances begun, where instances
            of tasks are placed (`sim.kernel.instances`); None if the rule cannot.
        counts_holders: whether it uses the resources that each user holds, or each job if no user
            is known.
        overtakes: whether a job may start before one that is ahead of it.
        reserves_for_head: whether a job overtakes, with usual options, exactly if it fits and does
            not delay the reservation that the first in the queue has (`sim.kernel.pool.reserve`).
        starts_head: whether it starts the first in the queue whenever that fits, without a plan,
            and examines all others again if `PartitionState.look_from` is moved to the head.
    """

    name: str
    summary: str
    decide: Callable[[Pool, int, float], int] | None = None
    decide_nodes: Callable[[Nodes, int, float], int] | None = None
    decide_shared: Callable[[Nodes, int, float], int] | None = None
    options: tuple[PolicyOption, ...] = ()
    is_eager: Callable[[Mapping[str, float]], bool] = _never
    plans: bool = False
    keeps_plan: bool = False
    wakes: bool = False
    n_bookings: Callable[[Mapping[str, float]], int] | None = None
    decide_by_plan: Callable[[Pool, int, float], int] | None = None
    decide_instances: Callable[[Fleet, Any, float], int] | None = None
    counts_holders: bool = False
    overtakes: bool = True
    reserves_for_head: bool = False
    starts_head: bool = False
