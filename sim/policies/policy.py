"""What an order and a backfilling rule are, and what either can be told: options."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fleet import Fleet
from sim.kernel.nodes import Nodes
from sim.kernel.pool import Pool
from sim.model.cluster import ClusterSpec
from sim.model.errors import ScenarioError
from sim.model.scenario import Scenario
from sim.model.tasks import Tasks

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PolicyOption:
    """A number that a policy can be told.

    Attributes:
        name: how a scenario calls it; no other policy of the same kind has the same.
        usual: what it is if nothing is told.
        summary: one line for people.
        lowest: the least that is allowed.
        highest: the most that is allowed.
        is_whole: only whole numbers are allowed.
        unit: for people; empty if it counts or switches.
        needs: another option of the same policy; while that is 0 this one changes nothing.
        names: what 0, 1, ... are called, if they are kinds of something; either may be told.
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
        """Return a value as a float.

        Raises:
            ScenarioError: it is not allowed.
        """
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


def switch(name: str, usual: bool, summary: str) -> PolicyOption:
    """Return an option that is 0 or 1."""
    return PolicyOption(name, float(usual), summary, 0.0, 1.0, is_whole=True)


ACTUAL_TIMES = switch("actual_times", False, "it plans with the time that each job will really run")
"""For a rule that can be told the truth, as CQSim is."""


@dataclass(frozen=True, eq=False)
class JobFacts:
    """What an order may know of the jobs before the simulation. Columns have shape [n_jobs].

    Attributes:
        submit_s: float64, since the first submission.
        requested_s: float64.
        procs: int64.
        partition: int64, index into those of the cluster; -1 for a rejected job.
        queue: int64, as logged; -1 where unknown.
        cluster: where they run.
        qos_priority: of queues, by number; see `Scenario`.
        options: what the order was told, by name.
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
    """What an order of tasks may know before the simulation. Columns have shape [n_tasks].

    Attributes:
        tasks: with the graph of each job.
        full_s: float64, seconds that an instance takes at full speed.
        mean_s: float64, the mean of what it takes on the machines that can hold it, at their usual
            speeds; as at full speed if none can.
    """

    tasks: Tasks
    full_s: Floats
    mean_s: Floats


def _no_half_life(_values: Mapping[str, float]) -> None:
    return None


def _nothing_missing(_scenario: Scenario, _values: Mapping[str, float]) -> None:
    pass


@dataclass(frozen=True)
class Order:
    """A queue order: which waiting job goes first.

    One of `score`, `score_now` and `score_tasks` is given. Ties fall to the earlier submission,
    then to the smaller job id, then to the task that is listed first.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people, with the source.
        score: facts to float64 [n]; the smallest goes first, always.
        factor: facts to float64 [n], what `score_now` is given of each job.
        score_now: (waited_s, procs, factor, fair_share, options) to the score at this moment, as
            kernel text; the smallest goes first. The queue is ranked anew before every decision.
        score_tasks: facts to float64 [n_tasks]; the smallest goes first, of those who wait. Only
            where instances of tasks are placed are there tasks.
        options: what it can be told.
        half_life_s: values of the options to the half-life of what users have used, 0 for no decay;
            None if it does not ask for the `fair_share` of a job's user, which is 1 then.
        check: raises `ScenarioError` if a scenario does not tell what the order needs, given the
            values of the options.
    """

    name: str
    summary: str
    score: Callable[[JobFacts], Floats] | None = None
    factor: Callable[[JobFacts], Floats] | None = None
    score_now: Callable[[float, int, float, float, list[float]], float] | None = None
    score_tasks: Callable[[TaskFacts], Floats] | None = None
    options: tuple[PolicyOption, ...] = ()
    half_life_s: Callable[[Mapping[str, float]], float | None] = _no_half_life
    check: Callable[[Scenario, Mapping[str, float]], None] = _nothing_missing


def _never(_values: Mapping[str, float]) -> bool:
    return False


@dataclass(frozen=True)
class Backfill:
    """A backfilling rule: which waiting jobs may overtake the head of the queue.

    A rule is one decision over one partition that has waiting jobs, at one instant, after all
    arrivals and completions of that instant have been applied. It starts jobs through the
    transitions of the state, lists them in ``pool.started`` and returns how many there are.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people, with the source.
        decide: (pool, partition, now_s) to the number of jobs started; None if the rule needs to
            know machines.
        decide_nodes: the same over named machines, (nodes, partition, now_s), of which a job takes
            whole ones; None if the rule cannot.
        decide_shared: the same where several jobs may share a machine; None if the rule cannot.
        options: what it can be told; the rule finds them in ``pool.options``, in this order.
        is_eager: values of the options to whether it must decide whenever something arrives or
            ends, also if nobody can start.
        plans: it needs a plan (`sim.kernel.plan`).
        keeps_plan: it keeps the plan from decision to decision.
        wakes: it may want to decide at a time at which nothing arrives or ends
            (`sim.kernel.pool.PartitionState.wake_s`).
        n_bookings: values of the options to how many bookings of machines it makes at most in one
            decision (`sim.kernel.booking`); None if it makes none.
        decide_by_plan: the same by a plan, which knows when processors are not for jobs; None
            if `decide` goes by one. No option beside `ACTUAL_TIMES` is known to it then.
        decide_instances: (fleet, choose, now_s) to the number of instances begun: what it does
            where instances of tasks are placed (`sim.kernel.instances`); None if the rule cannot.
        counts_holders: it asks what the users of the instances hold, or the jobs if no user is
            known.
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
