"""The option values of the policies of a scenario."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.model.errors import ScenarioError, UnknownNameError
from sim.model.scenario import Scenario
from sim.policies.backfills import backfill_named
from sim.policies.orders import order_named
from sim.policies.placements import SCENARIO_OPTIONS as OF_INSTANCES
from sim.policies.placements import placement_named
from sim.policies.policy import ACTUAL_TIMES, Backfill, Floats, PolicyOption


@dataclass(frozen=True, eq=False)
class OptionValues:
    """Values of all policy options of a scenario.

    Attributes:
        order, backfill, placement: float64, values of the order, the backfilling rule and the
            placement rule, in declared order; the last is empty without instances.
        values: all values by name.
    """

    order: Floats
    backfill: Floats
    placement: Floats
    values: dict[str, float]

    def of(self, option: PolicyOption) -> float:
        """Return the value that the scenario has for a policy option."""
        return self.values[option.name]


def options_of(scenario: Scenario) -> OptionValues:
    """Return validated values for all options of a scenario's policies.

    Raises:
        UnknownNameError: no such order, rule or option.
        ScenarioError: a value is not allowed; or the rule does not support the option where
            machines are allocated or capacity changes; or the rule does not support preemption; or
            the scenario lacks input of the order.
    """
    order, rule = order_named(scenario.order), backfill_named(scenario.backfill)
    declared = (*order.options, *rule.options)
    placing: tuple[PolicyOption, ...] = ()
    if scenario.allocation == "instances":
        placing = placement_named(scenario.placement).options
        declared = (*declared, *OF_INSTANCES, *placing)
        if order.score_now is not None:
            raise ScenarioError(
                f"order '{order.name}' has scores that change while jobs wait, but allocation is "
                "'instances', which needs fixed scores, such as those of 'fcfs' and 'sjf'."
            )
    elif order.score_tasks is not None:
        raise ScenarioError(
            f"order '{order.name}' ranks tasks, but allocation is '{scenario.allocation}', where "
            "whole jobs wait; choose allocation='instances', or an order of jobs such as 'fcfs'."
        )
    by_name = {option.name: option for option in declared}
    place = f"order '{order.name}' and backfill '{rule.name}'"
    for name in scenario.options:
        if name not in by_name:
            raise UnknownNameError(f"option of {place}", name, by_name or ("none",))
    values = {
        option.name: option.checked(scenario.options.get(option.name, option.usual), place)
        for option in declared
    }
    order.check(scenario, values)
    if order.uses_submission and scenario.dependencies != "ignore":
        raise ScenarioError(
            f"order '{order.name}' scores the logged submission of a job, but dependencies is "
            f"'{scenario.dependencies}', with which a job may be submitted at another time; choose "
            "another order, or leave dependencies out."
        )
    if scenario.allocation != "processors" and rule.decide is not None:
        for option in rule.options:
            if values[option.name] != option.usual:
                raise ScenarioError(
                    f"option '{option.name}' of backfill '{rule.name}' is {values[option.name]:g} "
                    f"but allocation is '{scenario.allocation}', which has no such option; leave "
                    "it out, or choose allocation='processors'."
                )
    _check_capacity(scenario, rule, values)
    if scenario.moldable is not None and not rule.starts_head:
        raise ScenarioError(
            f"backfill '{rule.name}' plans starts or does not always start the first in the queue, "
            "so it cannot start moldable jobs; choose 'none', 'greedy' or 'easy', or rigid jobs."
        )
    return OptionValues(
        order=np.array(list(_of(order.options, values)), dtype=np.float64),
        backfill=np.array(list(_of(rule.options, values)), dtype=np.float64),
        placement=np.array(list(_of(placing, values)), dtype=np.float64),
        values=values,
    )


def _check_capacity(scenario: Scenario, rule: Backfill, values: dict[str, float]) -> None:
    """Raise an error if a rule does not support changing capacity or preemption."""
    if scenario.windows and rule.decide_by_plan is not None:
        for option in rule.options:
            if option != ACTUAL_TIMES and values[option.name] != option.usual:
                raise ScenarioError(
                    f"option '{option.name}' of backfill '{rule.name}' is {values[option.name]:g} "
                    "but does not work with the capacity windows of the scenario; leave out "
                    "either."
                )
    for part in scenario.cluster.partitions:
        if part.preemptible and rule.keeps_plan:
            raise ScenarioError(
                f"partition '{part.name}' is preemptible, but backfill '{rule.name}' keeps every "
                "reservation, which preemption breaks; choose another rule, or no preemption."
            )


def _of(options: tuple[PolicyOption, ...], values: dict[str, float]) -> Iterator[float]:
    return (values[option.name] for option in options)
