"""Backfilling: which waiting jobs may overtake the head of the queue. One rule a file."""

from collections.abc import Callable
from typing import Any, get_args

from sim.errors import ScenarioError, UnknownNameError
from sim.model.scenario import Allocation
from sim.policies.backfills.conservative import CONSERVATIVE
from sim.policies.backfills.depth import DEPTH_K
from sim.policies.backfills.easy import EASY, NONE
from sim.policies.backfills.greedy import GREEDY
from sim.policies.backfills.slurm import SLURM
from sim.policies.backfills.urgent import DRF, LEAST_WORK, MAX_WEIGHT
from sim.policies.kinds import Backfill

BACKFILLS: tuple[Backfill, ...] = (
    NONE, GREEDY, EASY, DEPTH_K, CONSERVATIVE, SLURM, DRF, MAX_WEIGHT, LEAST_WORK,
)  # fmt: skip


def backfill_named(name: str) -> Backfill:
    """Return a registered backfilling rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for backfill in BACKFILLS:
        if backfill.name == name:
            return backfill
    raise UnknownNameError("backfill", name, (backfill.name for backfill in BACKFILLS))


def decision_of(
    backfill: Backfill, allocation: Allocation, by_plan: bool = False
) -> Callable[..., Any]:
    """Return the decision of a rule over the state that an allocation needs, as kernel text.

    Args:
        backfill: the rule.
        allocation: what jobs are given.
        by_plan: decide by a plan, as is needed where capacity changes.

    Raises:
        ScenarioError: the rule cannot decide over it.
    """
    found = _decides(backfill, allocation, by_plan)
    if found is None:
        rules = ", ".join(f"'{rule.name}'" for rule in rules_for(allocation))
        others = (other for other in get_args(Allocation) if _decides(backfill, other))
        able = " or ".join(f"allocation='{other}'" for other in others)
        raise ScenarioError(
            f"backfill '{backfill.name}' cannot decide with allocation='{allocation}'; choose one "
            f"that can ({rules}) or {able}."
        )
    return found


def rules_for(allocation: Allocation) -> tuple[Backfill, ...]:
    """Return the rules that can decide with an allocation."""
    return tuple(rule for rule in BACKFILLS if _decides(rule, allocation))


def _decides(
    rule: Backfill, allocation: Allocation, by_plan: bool = False
) -> Callable[..., Any] | None:
    if allocation == "processors" and by_plan and rule.decide_by_plan is not None:
        return rule.decide_by_plan
    return {
        "processors": rule.decide,
        "whole_nodes": rule.decide_nodes,
        "shared_nodes": rule.decide_shared,
        "instances": rule.decide_instances,
    }[allocation]
