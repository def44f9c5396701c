"""Whether the agreed goal is reached, and by which run. Pure.

As what is best goes by the mean of a configuration's runs, so does the goal: a single lucky run of
a noisy program reaches it only until a replicate shows that the configuration does not.
"""

from collections.abc import Iterable

from assistant.objective import Objective
from assistant.run import Outcome, Run
from assistant.standing import in_order_of_completion, standing_of
from strategies import Configuration


def reaches(outcome: Outcome, objective: Objective, goal: float) -> bool:
    """Return whether an outcome meets every constraint and is as good as the goal, or better."""
    value = outcome.value
    is_good = value <= goal if objective.goal == "minimise" else value >= goal
    return outcome.feasible and is_good


def first_to_reach(runs: Iterable[Run], objective: Objective, goal: float) -> Run | None:
    """Return the run by which the goal was reached first, in order of completion.

    It is the earliest run with which the mean of its configuration was as good as the goal, of the
    configurations whose mean still is; None if there is none.
    """
    ended = in_order_of_completion(runs)
    grouped: dict[Configuration, list[Run]] = {}
    first: dict[Configuration, Run] = {}
    for run in ended:
        own = grouped.setdefault(run.configuration, [])
        own.append(run)
        if reaches(standing_of(own).outcome, objective, goal):
            first.setdefault(run.configuration, run)
    kept = [
        run
        for configuration, run in first.items()
        if reaches(standing_of(grouped[configuration]).outcome, objective, goal)
    ]
    return kept[0] if kept else None
