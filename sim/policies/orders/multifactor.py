"""Slurm's multifactor priority: age, size, partition, quality of service and fair share, weighted.

https://slurm.schedmd.com/priority_multifactor.html. Every factor is from 0 to 1:

    age         the wait over `age_max_s`, 1 at most
    size        the job's processors over those of the cluster; with `favor_small` 1 minus that
    partition   the priority of its partition over the largest of the cluster
    qos         the priority of its queue over the largest that was told
    fair share  2^(-usage/share), with the user's part of what all have used lately, halved with
                every half-life (`sim.kernel.usage`), and the user's part of all shares

The priority is the sum of weight times factor, without its fraction: Slurm's are whole numbers, and
equal ones fall to the earlier submission. What is less than a millionth below a whole number counts
as that number, so that rounding errors decide nothing.

Beside Slurm: users are all siblings, so that no usage is handed up a tree of accounts (and it is
the classic formula, which Slurm computes with NO_FAIR_TREE); size is by processors alone, where
Slurm takes the mean of that and of nodes; association, site, nice and TRES have no factor.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.errors import ScenarioError
from sim.kernel.text import kernel
from sim.model.scenario import Scenario
from sim.model.workload import UNKNOWN
from sim.policies.kinds import Facts, Floats, Option, Order, switch

MOST_WEIGHT = 2.0**32 - 1.0
"""As in Slurm."""

WEEK_S = 7 * 86400.0

AGE_WEIGHT, AGE_MAX_S, FAIRSHARE_WEIGHT = 0, 1, 5
"""Where the options are that are asked for while jobs wait."""

SLACK = 1e-6
"""So far below a whole number a priority counts as it."""


def _weight(name: str, usual: float, of: str) -> Option:
    return Option(name, usual, f"points of priority for {of}", highest=MOST_WEIGHT)


OPTIONS = (
    _weight("age_weight", 1000, "having waited age_max_s (PriorityWeightAge)"),
    Option(
        "age_max_s",
        WEEK_S,
        "after waiting so long a job gets no more points for it (PriorityMaxAge)",
        lowest=1.0,
        unit="s",
        needs="age_weight",
    ),
    _weight("size_weight", 1000, "a job as wide as the cluster (PriorityWeightJobSize)"),
    _weight("partition_weight", 0, "the partition of most priority (PriorityWeightPartition)"),
    _weight("qos_weight", 0, "the queue of most priority (PriorityWeightQOS)"),
    _weight("fairshare_weight", 0, "a user who has used nothing (PriorityWeightFairshare)"),
    Option(
        "half_life_s",
        WEEK_S,
        "what a user has used counts half after so long (PriorityDecayHalfLife); 0 is for ever",
        unit="s",
        needs="fairshare_weight",
    ),
    replace(
        switch("favor_small", False, "points for size go to narrow jobs (PriorityFavorSmall)"),
        needs="size_weight",
    ),
)


def _standing(facts: Facts) -> Floats:
    """Return the points that a job has all the time: for size, partition and queue."""
    told = facts.options
    size = facts.procs / facts.cluster.total_procs
    points = told["size_weight"] * (1.0 - size if told["favor_small"] == 1.0 else size)
    if told["partition_weight"] > 0:
        of = np.array([part.priority for part in facts.cluster.partitions], dtype=np.float64)
        points += told["partition_weight"] * (of / max(1.0, of.max()))[facts.partition]
    if told["qos_weight"] > 0:
        most = max(facts.qos_priority.values())
        for queue, priority in facts.qos_priority.items():
            if priority > 0:
                points[facts.queue == queue] += told["qos_weight"] * (priority / most)
    return np.asarray(points)


@kernel
def _score(
    waited_s: float, _procs: int, standing: float, fair_share: float, options: list[float]
) -> float:
    points = options[AGE_WEIGHT] * min(waited_s / options[AGE_MAX_S], 1.0) + standing
    points += options[FAIRSHARE_WEIGHT] * fair_share
    return -float(math.floor(points + SLACK))


def _half_life_s(values: Mapping[str, float]) -> float | None:
    return values["half_life_s"] if values["fairshare_weight"] > 0 else None


def _check(scenario: Scenario, values: Mapping[str, float]) -> None:
    jobs = scenario.workload
    if values["fairshare_weight"] > 0 and (jobs.user == UNKNOWN).all():
        raise ScenarioError(
            f"fairshare_weight is {values['fairshare_weight']:g} and '{jobs.name}' does not tell "
            "the user of any job; take a log that does (SWF field 12), or leave it at 0."
        )
    if values["qos_weight"] == 0:
        return
    if not scenario.qos_priority:
        raise ScenarioError(
            f"qos_weight is {values['qos_weight']:g} and no queue has a priority; tell some with "
            "qos_priority (copperline simulate --qos QUEUE=PRIORITY), or leave it at 0."
        )
    if (jobs.queue == UNKNOWN).all():
        raise ScenarioError(
            f"qos_weight is {values['qos_weight']:g} and '{jobs.name}' does not tell the queue of "
            "any job; take a log that does (SWF field 15), or leave it at 0."
        )


MULTIFACTOR = Order(
    "multifactor",
    "Slurm's priority: age, size, partition, quality of service and fair share, weighted",
    factor=_standing,
    score_now=_score,
    options=OPTIONS,
    half_life_s=_half_life_s,
    check=_check,
)
