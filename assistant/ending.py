"""Why nothing more shall be run: a limit of the agreement is used up, or its goal is reached. Pure.

How many runs are left is asked where they are submitted; what is asked here may come to pass while
runs are under way.
"""

from assistant.experiment import Experiment
from assistant.recommendation import KEPT_RUNS
from assistant.run import Run
from assistant.sla import figure


def is_overdue(experiment: Experiment, now_s: float) -> bool:
    """Return whether the deadline has passed; false without one."""
    deadline_s = experiment.sla.deadline_s
    return deadline_s is not None and now_s >= deadline_s


def passed_limit(experiment: Experiment, now_s: float) -> str | None:
    """Return which limit is used up, as part of a sentence; None if there still is something left.

    Args:
        experiment: as far as it has come.
        now_s: seconds since 1970-01-01 UTC.
    """
    if is_overdue(experiment, now_s):
        return "the deadline has passed"
    if experiment.sla.is_spent(experiment.cost):
        return f"the cost of {experiment.sla.cost_text} is used up"
    return None


def goal_text(experiment: Experiment) -> str:
    """Return the agreed goal with its unit, for people."""
    return f"{figure(experiment.sla.goal)} {experiment.opened.objective.unit}".rstrip()


def reached_goal(experiment: Experiment) -> str | None:
    """Return that the goal is reached, as part of a sentence; None if it is not."""
    run = experiment.goal_run
    return (
        None if run is None else f"the goal of {goal_text(experiment)} is reached by run {run.id}"
    )


def goal_to_confirm(experiment: Experiment) -> Run | None:
    """Return the run that reached the goal, if it should be repeated before that is believed.

    Where results vary, the first of many runs to reach a goal is mostly a lucky one: its
    configuration runs as often again as is kept for confirming a winner.
    """
    run = experiment.goal_run
    if run is None or not experiment.is_noisy or not experiment.space.is_allowed(run.configuration):
        return None
    n = sum(one.configuration == run.configuration for one in experiment.runs)
    return run if n <= KEPT_RUNS else None
