"""Queue orders: which waiting job, or which waiting task of a task graph, goes first.

The smallest score goes first; ties go to the earlier submission, then to the smaller job id. With w
the wait until now, r the requested time (at least 1 s), n the processors and s the submission (at
least 1 s, since the first submission); an *area* is n r:

    LXF     -(w + r) / r             the largest expansion factor
    WFP3    -(w / r)^3 n             W. Tang, Z. Lan, N. Desai, D. Buettner, Fault-aware,
    UNICEF  -w / (log2(n) r)         utility-based job scheduling on Blue Gene/P systems, 2009
    F1      log10(r) n + 870 log10(s)          D. Carastan-Santos and R. Y. de Camargo,
    F2      sqrt(r) n + 25,600 log10(s)        Obtaining dynamic scheduling policies
    F3      r n + 6,860,000 log10(s)           with simulation and machine learning,
    F4      r sqrt(n) + 530,000 log10(s)       SC 2017

UNICEF takes log2(n + 1e-15), as in RLScheduler, so that a waiting serial job goes before wider
ones.

Multifactor (https://slurm.schedmd.com/priority_multifactor.html) is the sum of weight times factor,
without its fraction as in Slurm. Every factor is from 0 to 1:

    age         the wait over `age_max_s`, 1 at most
    size        the job's processors over those of the cluster; with `favor_small` 1 minus that
    partition   the priority of its partition over the largest of the cluster
    qos         the priority of its queue over the largest given one
    fair share  of the user, classic or by Fair Tree (`sim.kernel.fair_share`)

Size is by processors alone, and association, site, nice and TRES have no factor.

Orders of tasks use the ranks of HEFT and CPOP (Topcuoglu, Hariri, Wu 2002; `sim.model.tasks`)
without communication. They order the tasks of all jobs whose parents have ended;
`sim.placement.heft` has the two complete algorithms, which also select machines.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import UsageTerms
from sim.kernel.jit import kernel
from sim.model.accounts import share_nodes
from sim.model.errors import ScenarioError, entry_named
from sim.model.scenario import Scenario
from sim.model.tasks import downward_ranks, upward_ranks
from sim.model.workload import UNKNOWN
from sim.policies.policy import Floats, JobFacts, Order, PolicyOption, TaskFacts, switch

FCFS = Order("fcfs", "first come, first served", lambda facts: facts.submit_s)

SJF = Order("sjf", "shortest request first", lambda facts: facts.requested_s)

LJF = Order("ljf", "longest request first", lambda facts: -facts.requested_s)

SAF = Order("saf", "smallest area first", lambda facts: facts.requested_s * facts.procs)

LAF = Order("laf", "largest area first", lambda facts: -(facts.requested_s * facts.procs))


def _request(facts: JobFacts) -> Floats:
    return np.asarray(np.maximum(facts.requested_s, 1.0))


def _unicef_weight(facts: JobFacts) -> Floats:
    return np.asarray(np.log2(facts.procs + 1e-15) * _request(facts))


@kernel
def _lxf(
    waited_s: float, _procs: int, request_s: float, _fair_share: float, _options: list[float]
) -> float:
    return -((waited_s + request_s) / request_s)


@kernel
def _wfp3(
    waited_s: float, procs: int, request_s: float, _fair_share: float, _options: list[float]
) -> float:
    share = waited_s / request_s
    return -(share * share * share * procs)


@kernel
def _unicef(
    waited_s: float, _procs: int, weight_s: float, _fair_share: float, _options: list[float]
) -> float:
    return -(waited_s / weight_s)


LXF = Order("lxf", "largest expansion factor first, (w + r) / r", factor=_request, score_now=_lxf)
WFP3 = Order(
    "wfp3",
    "(w / r)^3 n, the largest first (Tang et al. 2009)",
    factor=_request,
    score_now=_wfp3,
)
UNICEF = Order(
    "unicef",
    "w / (log2(n) r), the largest first (Tang et al. 2009)",
    factor=_unicef_weight,
    score_now=_unicef,
)


def _log10_submit(facts: JobFacts) -> Floats:
    return np.asarray(np.log10(np.maximum(facts.submit_s, 1.0)))


def _f1(facts: JobFacts) -> Floats:
    request = np.log10(np.maximum(facts.requested_s, 1.0))
    return np.asarray(request * facts.procs + 870.0 * _log10_submit(facts))


def _f2(facts: JobFacts) -> Floats:
    return np.asarray(
        np.sqrt(np.maximum(facts.requested_s, 1.0)) * facts.procs + 25_600.0 * _log10_submit(facts)
    )


def _f3(facts: JobFacts) -> Floats:
    area = np.maximum(facts.requested_s, 1.0) * facts.procs
    return np.asarray(area + 6_860_000.0 * _log10_submit(facts))


def _f4(facts: JobFacts) -> Floats:
    request = np.maximum(facts.requested_s, 1.0)
    return np.asarray(request * np.sqrt(facts.procs) + 530_000.0 * _log10_submit(facts))


_SOURCE = "learned from simulations (Carastan-Santos & de Camargo 2017)"

F1 = Order("f1", f"log10(r) n + 870 log10(s), {_SOURCE}", _f1, uses_submission=True)
F2 = Order("f2", f"sqrt(r) n + 25,600 log10(s), {_SOURCE}", _f2, uses_submission=True)
F3 = Order("f3", f"r n + 6,860,000 log10(s), {_SOURCE}", _f3, uses_submission=True)
F4 = Order("f4", f"r sqrt(n) + 530,000 log10(s), {_SOURCE}", _f4, uses_submission=True)

MOST_WEIGHT = 2.0**32 - 1.0

WEEK_S = 7 * 86400.0

AGE_WEIGHT, AGE_MAX_S, FAIRSHARE_WEIGHT = 0, 1, 5
"""Positions of the options that are read while jobs wait."""

PRIORITY_SLACK = 1e-6  # A priority this little below a whole number counts as that number


def _weight_option(name: str, usual: float, of: str) -> PolicyOption:
    return PolicyOption(name, usual, f"points of priority for {of}", highest=MOST_WEIGHT)


MULTIFACTOR_OPTIONS = (
    _weight_option("age_weight", 1000, "a wait of age_max_s (PriorityWeightAge)"),
    PolicyOption(
        "age_max_s",
        WEEK_S,
        "wait after which the points for age stop rising (PriorityMaxAge)",
        lowest=1.0,
        unit="s",
        needs="age_weight",
    ),
    _weight_option("size_weight", 1000, "a job as wide as the cluster (PriorityWeightJobSize)"),
    _weight_option(
        "partition_weight", 0, "the partition with the highest priority (PriorityWeightPartition)"
    ),
    _weight_option("qos_weight", 0, "the queue with the highest priority (PriorityWeightQOS)"),
    _weight_option("fairshare_weight", 0, "a user without usage (PriorityWeightFairshare)"),
    PolicyOption(
        "half_life_s",
        WEEK_S,
        "half-life of the usage of users (PriorityDecayHalfLife); 0 is no decay",
        unit="s",
        needs="fairshare_weight",
    ),
    PolicyOption(
        "calc_period_s",
        0.0,
        "time between two calculations of fair shares (PriorityCalcPeriod); 0 is every decision",
        unit="s",
        needs="fairshare_weight",
    ),
    replace(
        switch(
            "fair_tree",
            False,
            "fair shares are ranks of Fair Tree; off is PriorityFlags=NO_FAIR_TREE",
        ),
        needs="fairshare_weight",
    ),
    replace(
        switch("favor_small", False, "narrow jobs get the points for size (PriorityFavorSmall)"),
        needs="size_weight",
    ),
)


def _constant_points(facts: JobFacts) -> Floats:
    """Return the constant points of a job: for size, partition and queue."""
    options = facts.options
    size = facts.procs / facts.cluster.total_procs
    points = options["size_weight"] * (1.0 - size if options["favor_small"] == 1.0 else size)
    if options["partition_weight"] > 0:
        of = np.array([part.priority for part in facts.cluster.partitions], dtype=np.float64)
        points += options["partition_weight"] * (of / max(1.0, of.max()))[facts.partition]
    if options["qos_weight"] > 0:
        most = max(facts.qos_priority.values())
        for queue, priority in facts.qos_priority.items():
            if priority > 0:
                points[facts.queue == queue] += options["qos_weight"] * (priority / most)
    return np.asarray(points)


@kernel
def _multifactor_score(
    waited_s: float, _procs: int, standing: float, fair_share: float, options: list[float]
) -> float:
    points = options[AGE_WEIGHT] * min(waited_s / options[AGE_MAX_S], 1.0) + standing
    points += options[FAIRSHARE_WEIGHT] * fair_share
    return -float(math.floor(points + PRIORITY_SLACK))


def _multifactor_usage(values: Mapping[str, float]) -> UsageTerms | None:
    if values["fairshare_weight"] == 0:
        return None
    return UsageTerms(values["half_life_s"], values["calc_period_s"], values["fair_tree"] == 1.0)


def _check_multifactor(scenario: Scenario, values: Mapping[str, float]) -> None:
    jobs = scenario.workload
    if values["fairshare_weight"] > 0 and scenario.accounts is not None:
        share_nodes(scenario.accounts, jobs)
    elif values["fairshare_weight"] > 0 and (jobs.user == UNKNOWN).all():
        raise ScenarioError(
            f"fairshare_weight is {values['fairshare_weight']:g} but '{jobs.name}' has no known "
            "users; use a log with users (SWF field 12), or leave it at 0."
        )
    if values["qos_weight"] == 0:
        return
    if not scenario.qos_priority:
        raise ScenarioError(
            f"qos_weight is {values['qos_weight']:g} but no queue has a priority; set some with "
            "qos_priority (copperline simulate --qos QUEUE=PRIORITY), or leave it at 0."
        )
    if (jobs.queue == UNKNOWN).all():
        raise ScenarioError(
            f"qos_weight is {values['qos_weight']:g} but '{jobs.name}' has no known queues; "
            "use a log with queues (SWF field 15), or leave it at 0."
        )


MULTIFACTOR = Order(
    "multifactor",
    "Slurm's priority: age, size, partition, quality of service and fair share, weighted",
    factor=_constant_points,
    score_now=_multifactor_score,
    is_stepwise=True,
    options=MULTIFACTOR_OPTIONS,
    usage=_multifactor_usage,
    check=_check_multifactor,
)


def _critical_path(facts: TaskFacts) -> Floats:
    return -upward_ranks(facts.tasks, facts.full_s)


def _upward(facts: TaskFacts) -> Floats:
    return -upward_ranks(facts.tasks, facts.mean_s)


def _through(facts: TaskFacts) -> Floats:
    up, down = (ranks(facts.tasks, facts.mean_s) for ranks in (upward_ranks, downward_ranks))
    return -(up + down)


CRITICAL_PATH = Order(
    "critical_path",
    "the longest path to the end of its job first, at full speed",
    score_tasks=_critical_path,
)

UPWARD_RANK = Order(
    "upward_rank",
    "the same by mean times on the machines, HEFT's rank (Topcuoglu, Hariri, Wu 2002)",
    score_tasks=_upward,
)

CPOP_RANK = Order(
    "cpop_rank",
    "the longest path through it first, from start to end of its job, CPOP's priority (the same)",
    score_tasks=_through,
)

ORDERS: tuple[Order, ...] = (
    FCFS, SJF, LJF, SAF, LAF, LXF, WFP3, UNICEF, F1, F2, F3, F4, MULTIFACTOR,
)  # fmt: skip

TASK_ORDERS: tuple[Order, ...] = (CRITICAL_PATH, UPWARD_RANK, CPOP_RANK)


def order_named(name: str) -> Order:
    """Return the registered queue order with a name, or raise `UnknownNameError`."""
    return entry_named("order", name, (*ORDERS, *TASK_ORDERS))


def ranks(order: Order, facts: JobFacts) -> NDArray[np.int64]:
    """Return the place of every job in an order: int64 [n], a permutation of 0..n-1.

    For an order with changing scores this is the place by submission, which decides ties. The rows
    must be in the order of a workload, by submit time and then by job id: a stable sort then leaves
    ties in that order.
    """
    rank = np.arange(len(facts.submit_s), dtype=np.int64)
    if order.score is not None:
        score = order.score(facts)
        if score is not facts.submit_s:
            rank[np.argsort(score, kind="stable")] = np.arange(len(score))
    return rank


def factors(order: Order, facts: JobFacts) -> NDArray[np.float64]:
    """Return each job's input for the time-dependent scores of an order: float64 [n]."""
    return np.zeros(len(facts.submit_s)) if order.factor is None else order.factor(facts)
