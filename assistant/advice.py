"""When the agreement will be missed: the warning, the changes proposed, and the next batch. Pure.

Where a goal is agreed the calibrated forecast warns (`assistant.alarm` says when, and
`assistant.alternatives` what could be done); where none is, the paper's rule does. `Watch.rule`
chooses otherwise.
"""

from collections.abc import Sequence

import numpy as np

from assistant.alarm import Check, Given, is_due
from assistant.alternatives import Prospects, alternatives, changes
from assistant.choosing import current_strategy, strategy_at
from assistant.decisions import stream
from assistant.events import (
    Advice,
    AdviceAnswered,
    AdviceGiven,
    Alternative,
    BatchSuggested,
    Event,
    Forecasted,
)
from assistant.experiment import Experiment
from assistant.forecast import executed_runs, forecast, paper_forecast
from assistant.forecast.calibration import Calibration, shipped
from assistant.forecasts import Forecast, PaperForecast
from assistant.run import RunState
from assistant.warning_words import warning
from strategies import Suggestion

REMIND_AFTER = 5
"""Runs after a warning by the paper's rule that was ignored until it is given again."""

UNTESTED_WARN = 0.8
"""Miss probability that warns under a strategy without a threshold: of one threshold for all
strategies 0.80 to 0.825 were measured best (``python -m benchmarks.forecast``)."""


def advise(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> tuple[Event, ...]:
    """Return what is recorded with a batch: a warning with its proposal, if one is due.

    Where the forecast warns, what it said stands before it, due or not: it decides later ones.

    Args:
        experiment: as far as it has come, the new suggestions of this round included.
        n: suggestions to propose instead.
        now_s: seconds since 1970-01-01 UTC.
        rng: for the proposal.
    """
    if experiment.watch.warns_by_forecast(experiment.sla):
        return _advise_by_forecast(experiment, n, now_s, rng)
    advice = _advise_by_paper(experiment, n, now_s, rng)
    return () if advice is None else (AdviceGiven(now_s, advice),)


def next_batch(
    experiment: Experiment,
    answered: AdviceAnswered,
    accepted: Alternative | None,
    more: Sequence[Event],
) -> BatchSuggested | None:
    """Return what is suggested after an answer; None if the batch that is open stays.

    Accepting takes the suggestions that came with the advice, as far as they have no run yet. Where
    another change was accepted than they were made for, or they are used up, the changed steering
    makes new ones, as many as were open.

    Args:
        experiment: before the answer.
        answered: to its open advice.
        accepted: the alternative accepted; None without one.
        more: the other events of the answer.
    """
    advice = experiment.open_advice
    if answered.answer != "accepted" or advice is None:
        return None
    number = len(experiment.batches) + 1
    if accepted is None or answered.alternative == 0:
        known = {run.configuration for run in experiment.runs}
        free = tuple(one for one in advice.suggestions if one.configuration not in known)
        if free or accepted is None:
            return BatchSuggested(answered.at_s, number, free, exhausted=False) if free else None
    after = experiment.supposing((answered, *more))
    open_batch = experiment.open_batch
    n = 0 if open_batch is None else len(open_batch.suggestions)
    n = n if after.remaining_runs is None else min(n, after.remaining_runs)
    if n == 0:
        return None
    rng = np.random.default_rng(stream(after.opened.seed, "suggest", number))
    suggestions = current_strategy(after).suggest(n, after.knowledge, rng)
    return BatchSuggested(answered.at_s, number, suggestions, exhausted=len(suggestions) < n)


def _advise_by_forecast(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> tuple[Event, ...]:
    """Return the check of this round, and the warning if the alarm says that one is due."""
    coefficients = shipped()
    seen = forecast(experiment, now_s, calibration=coefficients)
    check, before = check_of(experiment, seen), experiment.checks
    events: tuple[Event, ...] = ()
    if before and check.used <= before[-1].used:
        return ()  # nothing has ended since: another look is no other check
    if check.miss is None and (not before or before[-1].miss is None):
        return ()  # still silent
    events = (Forecasted(now_s, check),)
    if not is_due((*before, check), _threshold(experiment, coefficients), _last(experiment)):
        return events
    proposed = alternatives(Prospects(experiment, seen, now_s, coefficients))
    proposal: tuple[Suggestion, ...] = ()
    first = proposed[0] if proposed else None
    if first is not None and experiment.remaining_runs != 0:
        after = experiment.supposing(changes(experiment, first, now_s))
        proposal = current_strategy(after).suggest(n, after.knowledge, rng)
    exploitation = experiment.steering.exploitation
    if first is not None and first.kind == "exploitation" and first.steering is not None:
        exploitation = first.steering.exploitation
    advice = Advice(
        number=len(experiment.advice) + 1,
        forecast=seen.paper,
        exploitation=exploitation,
        suggestions=proposal,
        text=warning(seen),
        basis="forecast",
        outlook=seen,
        alternatives=proposed,
    )
    return (*events, AdviceGiven(now_s, advice))


def check_of(experiment: Experiment, seen: Forecast) -> Check:
    """Return what a forecast says to the alarm."""
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    used = sum(run.source != "imported" for run in over)
    left = None if seen.remaining is None else seen.remaining.median
    return Check(used, left, seen.miss)


def _threshold(experiment: Experiment, coefficients: Calibration) -> float:
    own = experiment.watch.warn_at
    return (
        coefficients.warn.get(experiment.steering.strategy, UNTESTED_WARN) if own is None else own
    )


def _last(experiment: Experiment) -> Given | None:
    """Return the last warning by the forecast; None if there was none."""
    for advice in reversed(experiment.advice):
        miss = None if advice.outlook is None else advice.outlook.miss
        if advice.basis == "forecast" and miss is not None:
            return Given(advice.forecast.executed, miss)
    return None


def _advise_by_paper(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> Advice | None:
    """Return a warning by the paper's rule with a proposal, or None if none is due.

    It is due when the forecast is a miss, the share of the budget named by
    `Watch.warn_from` is spent, and one that was ignored is 5 runs old. Where all runs go inside the
    regions already, it can only propose more runs or fewer levels.
    """
    watch, steering = experiment.watch, experiment.steering
    if not experiment.sla.is_limited or not _is_late(experiment):
        return None  # regions are not looked for in vain
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


def _is_late(experiment: Experiment) -> bool:
    """Return whether the share of the budget is spent from which warnings begin."""
    limit = experiment.sla.max_runs
    return limit is None or executed_runs(experiment) >= experiment.watch.warn_from * limit


def _is_time(experiment: Experiment, seen: PaperForecast) -> bool:
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
    tighter = "the budget"
    if seen.remaining_by_deadline is not None and seen.remaining == seen.remaining_by_deadline:
        tighter = "the deadline"
    elif seen.remaining_by_cost is not None and seen.remaining == seen.remaining_by_cost:
        tighter = "the limit of cost"
    more = "a greater limit of cost" if tighter == "the limit of cost" else "a later deadline"
    change = "" if now is None else f" instead of {now:.0%}"
    left = "1 run" if seen.remaining == 1 else f"{seen.remaining} runs"
    missed = f"{counted}, and {tighter} leaves {left}: {seen.shortfall} too few. "
    if seen.remaining == 0:
        return f"{missed}Agree on {seen.shortfall} more or {more}."
    if now == exploitation:
        return (
            f"{missed}All remaining runs go inside the regions already: agree on "
            f"{seen.shortfall} more runs or {more}, or close levels."
        )
    if not seen.regions:
        return f"{missed}Agree on {seen.shortfall} more runs or {more}, or plan fewer."
    return (
        f"{missed}"
        f"Spend {exploitation:.0%} of the remaining runs inside the regions{change}, "
        "most where the mean quality is best."
    )


def _regions(seen: PaperForecast) -> str:
    n = len(seen.regions)
    return "region of good results" if n == 1 else f"{n} regions of good results"
