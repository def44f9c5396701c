"""What chooses the next suggestions of an experiment, as it is steered. Pure."""

from assistant.experiment import Experiment
from strategies import (
    Exploiting,
    Preferring,
    Scalarising,
    Strategy,
    make_strategy,
    strategy_entry,
)


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
        rule, weights = experiment.watch.regions, steering.weights
        strategy = Exploiting(strategy, exploitation, rule, weights, objective.value_of)
    if experiment.space.preferred_part is not experiment.space:
        strategy = Preferring(strategy)
    return strategy


def batch_size(experiment: Experiment) -> int:
    """Return how many suggestions at a time suit the strategy and the runs that execute at once."""
    entry = strategy_entry(experiment.steering.strategy)
    return max(entry.batch, experiment.opened.workers)


def initial_strategy(experiment: Experiment) -> Strategy:
    """Return what chooses the first runs: the strategy in force, or random search before it."""
    if strategy_entry(experiment.steering.strategy).starts:
        return strategy_at(experiment, None)
    strategy: Strategy = make_strategy("random")
    preferring = experiment.space.preferred_part is not experiment.space
    return Preferring(strategy) if preferring else strategy
