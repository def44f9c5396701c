"""When the forecast says that the agreement will be missed: the words and the change proposed."""

import numpy as np

from assistant.events import Advice
from assistant.experiment import Experiment
from assistant.forecast import paper_forecast
from assistant.forecasts import PaperForecast
from strategies import (
    Exploiting,
    Preferring,
    Scalarising,
    Strategy,
    Suggestion,
    make_strategy,
    strategy_entry,
)

REMIND_AFTER = 5
"""Runs after a warning that was ignored until it is given again."""


def current_strategy(experiment: Experiment) -> Strategy:
    """Return the strategy as it is steered now; see `strategy_at`."""
    return strategy_at(experiment, experiment.steering.exploitation)


def strategy_at(experiment: Experiment, exploitation: float | None) -> Strategy:
    """Return the strategy of an experiment at an exploitation level, None for no split.

    Of two measures, the weighing is innermost: it changes what the strategy takes for good, while
    regions, which the forecast counts and people read, stay those of the first measure. The
    person's preferred levels come outermost: like closed ones they hold for what is drawn inside
    the regions too.
    """
    steering, objective = experiment.steering, experiment.opened.objective
    strategy = make_strategy(steering.strategy, **steering.options)
    if objective.second is not None:
        labels = (str(objective.wrapper), str(objective.second.wrapper))
        strategy = Scalarising(strategy, labels)
    if exploitation is not None:
        strategy = Exploiting(strategy, exploitation, experiment.watch.regions)
    if experiment.space.preferred_part is not experiment.space:
        strategy = Preferring(strategy)
    return strategy


def initial_strategy(experiment: Experiment) -> Strategy:
    """Return what chooses the first runs: the strategy in force, or random search before it."""
    if strategy_entry(experiment.steering.strategy).starts:
        return strategy_at(experiment, None)
    strategy: Strategy = make_strategy("random")
    preferring = experiment.space.preferred_part is not experiment.space
    return Preferring(strategy) if preferring else strategy


def advise(experiment: Experiment, n: int, now_s: float, rng: np.random.Generator) -> Advice | None:
    """Return a warning with a proposal, or None if none is due.

    A warning is due when the forecast is a miss, the share of the budget named by
    `Watch.warn_from` is spent, and one that was ignored is 5 runs old. Where all runs go inside the
    regions already, it can only propose more runs or fewer levels.

    Args:
        experiment: as far as it has come, the new suggestions of this round included.
        n: suggestions to propose instead.
        now_s: seconds since 1970-01-01 UTC.
        rng: for the proposal.
    """
    watch, steering = experiment.watch, experiment.steering
    seen = paper_forecast(experiment, now_s)
    if not seen.is_miss or not _is_time(experiment, seen):
        return None
    exploitation = watch.advised
    if steering.exploitation is not None and steering.exploitation >= watch.advised:
        exploitation = 1.0
    proposal: tuple[Suggestion, ...] = ()
    if experiment.remaining_runs != 0:
        strategy = strategy_at(experiment, exploitation)
        proposal = strategy.suggest(n, experiment.knowledge, rng)
    return Advice(
        number=len(experiment.advice) + 1,
        forecast=seen,
        exploitation=exploitation,
        suggestions=proposal,
        text=words(seen, exploitation, steering.exploitation),
    )


def _is_time(experiment: Experiment, seen: PaperForecast) -> bool:
    limit = experiment.sla.max_runs
    if limit is not None and seen.executed < experiment.watch.warn_from * limit:
        return False
    last = experiment.advice[-1] if experiment.advice else None
    answer = None if last is None else experiment.answer_to(last)
    if last is None or answer is None or answer.answer != "ignored":
        return True
    return seen.executed >= last.forecast.executed + REMIND_AFTER


def words(seen: PaperForecast, exploitation: float, now: float | None) -> str:
    """Return the warning for people: what is missed, by how much, what is proposed."""
    one = seen.pending == 1
    configurations = "1 configuration" if one else f"{seen.pending} configurations"
    have = "has" if one else "have"
    counted = {
        "near": f"{configurations} close to the {_regions(seen)} {have} no run yet",
        "box": f"{configurations} inside the {_regions(seen)} {have} no run yet",
        "queued": f"{'1 run waits' if one else f'{seen.pending} runs wait'} inside the "
        f"{_regions(seen)}",
        "plan": f"{configurations} of your plan {have} no run yet",
    }[seen.basis]
    tighter = "the deadline" if seen.remaining == seen.remaining_by_deadline else "the budget"
    if seen.remaining_by_deadline is None:
        tighter = "the budget"
    change = "" if now is None else f" instead of {now:.0%}"
    left = "1 run" if seen.remaining == 1 else f"{seen.remaining} runs"
    missed = f"{counted}, and {tighter} leaves {left}: {seen.shortfall} too few. "
    if seen.remaining == 0:
        return f"{missed}Agree on {seen.shortfall} more or a later deadline."
    if now == exploitation:
        return (
            f"{missed}All remaining runs go inside the regions already: agree on "
            f"{seen.shortfall} more runs or a later deadline, or close levels."
        )
    if not seen.regions:
        return f"{missed}Agree on {seen.shortfall} more runs or a later deadline, or plan fewer."
    return (
        f"{missed}"
        f"Spend {exploitation:.0%} of the remaining runs inside the regions{change}, "
        "most where the mean quality is best."
    )


def _regions(seen: PaperForecast) -> str:
    n = len(seen.regions)
    return "region of good results" if n == 1 else f"{n} regions of good results"
