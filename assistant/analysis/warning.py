"""Warning that the goal or budget will be missed: when it is due, its text, and its suggestions.

The words describe how studies like this one ended; they never predict an effect.
"""

from collections.abc import Sequence

import numpy as np

from assistant.analysis.alternatives import (
    AlternativeSearch,
    events_of_alternative,
    find_alternatives,
)
from assistant.analysis.calibration import ForecastCalibration, load_calibration
from assistant.analysis.forecast import forecast
from assistant.analysis.paper_forecast import executed_runs, paper_forecast
from assistant.analysis.recommendation import current_strategy, strategy_at_exploitation
from assistant.core.commands import random_stream
from assistant.core.events import (
    Alternative,
    BatchSuggested,
    Event,
    ForecastChecked,
    MissWarning,
    WarningAnswered,
    WarningIssued,
)
from assistant.core.experiment import Experiment
from assistant.core.forecast import (
    LIKELY,
    ON_TRACK,
    VERY_LIKELY,
    Forecast,
    PaperForecast,
    PastWarning,
    WarningCheck,
    band_words,
    is_warning_due,
    percent,
    share_phrase,
)
from assistant.core.run import RunState
from strategies import Suggestion


def verdict(miss: float, band: tuple[float, float]) -> str:
    """Return one sentence on ``miss``, the probability to miss the goal, and its range ``band``.

    >>> verdict(0.74, (0.52, 0.89))
    'Likely to miss: about 3 in 4 studies that looked like this missed (52 to 89 % depending on
    the space).'
    >>> verdict(0.5, (0.27, 0.73))
    'Of studies that looked like this 50 % missed (27 to 73 % depending on the space).'
    """
    spread = f"({band_words(band)} depending on the space)"
    if ON_TRACK < miss < LIKELY:
        return f"Of studies that looked like this {percent(miss)} missed {spread}."
    words = "On track" if miss <= ON_TRACK else "Likely to miss"
    if miss >= VERY_LIKELY:
        words = "Very likely to miss"
    return f"{words}: {share_phrase(miss)} studies that looked like this missed {spread}."


def warning_text(forecast: Forecast) -> str:
    """Return the text of a warning: miss probability, distance to the goal, Copper paper's rule.

    Raises ValueError if the forecast has no chance.
    """
    goal = forecast.goal
    if goal is None or goal.chance is None or goal.band is None:
        raise ValueError("a forecast that is silent gives no warning")
    low, high = goal.band
    sentences = [verdict(1.0 - goal.chance, (1.0 - high, 1.0 - low))]
    facts = []
    if goal.steps_away is not None:
        facts.append(f"the goal is {_steps(goal.steps_away)} beyond your best")
    left = None if forecast.remaining is None else forecast.remaining.median
    if left is not None:
        facts.append("1 run is left" if round(left) == 1 else f"{left:.0f} runs are left")
    if goal.if_doubled is not None and left is not None:
        facts.append(
            f"doubling them raises the chance from {percent(goal.chance)} to "
            f"{percent(goal.if_doubled)}"
        )
    if facts:
        text = "; ".join(facts)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
    sentences += [f"{caution[0].upper()}{caution[1:]}." for caution in forecast.cautions]
    return " ".join([*sentences, paper_words(forecast)])


def proposal(change: Alternative) -> str:
    """Return an alternative as text, with the chance of reaching the goal after the change.

    >>> proposal(Alternative("more_runs", "run 20 more, 80 in all", 0.38))
    'run 20 more, 80 in all: the chance would be 38 %'
    """
    if change.chance is None:
        return change.text
    return f"{change.text}: the chance would be {percent(change.chance)}"


def paper_words(forecast: Forecast) -> str:
    """Return one sentence with the forecast by the Copper paper's rule (section 3.2)."""
    result = {
        True: "predicts a miss",
        False: "predicts no miss",
        None: "has no result, since the pending runs or the runs left cannot be counted",
    }[forecast.paper.is_miss]
    return f"The paper's rule (uncalibrated) {result}."


def _steps(steps: float) -> str:
    rounded = float(f"{steps:.2g}")
    number = f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"  # never 1.1e+02
    return "1 step" if number == "1" else f"{number} steps"


REMIND_AFTER = 5  # Runs after an ignored warning by the paper's rule until it is repeated

UNTESTED_WARN = 0.8
"""Miss probability that warns under a strategy without a threshold: of one threshold for all
strategies 0.80 to 0.825 were measured best (``python -m benchmarks.forecast``)."""


def build_warning(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> tuple[Event, ...]:
    """Return the events to log with a new batch of suggestions: forecast check and due warning.

    Where the forecast warns, its check comes first, due or not, because it decides later warnings.
    The experiment includes the new suggestions; ``n`` others are proposed instead.
    """
    if experiment.warning_policy.warns_by_forecast(experiment.sla):
        return _advise_by_forecast(experiment, n, now_s, rng)
    warning = _advise_by_paper(experiment, n, now_s, rng)
    return () if warning is None else (WarningIssued(now_s, warning),)


def next_batch(
    experiment: Experiment,
    answered: WarningAnswered,
    accepted: Alternative | None,
    more: Sequence[Event],
) -> BatchSuggested | None:
    """Return the batch of suggestions after an answer to a warning; None if the open one stays.

    Accepting takes the suggestions of the warning that have no run yet. If they are used up, or
    belong to another alternative, the changed steering makes as many as were open. ``experiment``
    is the state before the answer, ``more`` the other events of the answer.
    """
    warning = experiment.open_warning
    if answered.answer != "accepted" or warning is None:
        return None
    number = len(experiment.batches) + 1
    if accepted is None or answered.alternative == 0:
        configurations = {run.configuration for run in experiment.runs}
        free = tuple(
            suggestion
            for suggestion in warning.suggestions
            if suggestion.configuration not in configurations
        )
        if free or accepted is None:
            return BatchSuggested(answered.at_s, number, free, exhausted=False) if free else None
    after = experiment.supposing((answered, *more))
    open_batch = experiment.open_batch
    n = 0 if open_batch is None else len(open_batch.suggestions)
    n = n if after.remaining_runs is None else min(n, after.remaining_runs)
    if n == 0:
        return None
    rng = np.random.default_rng(random_stream(after.opened.seed, "suggest", number))
    suggestions = current_strategy(after).suggest(n, after.knowledge, rng)
    return BatchSuggested(answered.at_s, number, suggestions, exhausted=len(suggestions) < n)


def _advise_by_forecast(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> tuple[Event, ...]:
    coefficients = load_calibration()
    current_forecast = forecast(experiment, now_s, calibration=coefficients)
    check, before = warning_check(experiment, current_forecast), experiment.checks
    events: tuple[Event, ...] = ()
    if before and check.used <= before[-1].used:
        return ()  # nothing has ended since, so this is no new check
    if check.miss is None and (not before or before[-1].miss is None):
        return ()  # still without a chance
    events = (ForecastChecked(now_s, check),)
    if not is_warning_due(
        (*before, check), _threshold(experiment, coefficients), _last(experiment)
    ):
        return events
    proposed = find_alternatives(
        AlternativeSearch(experiment, current_forecast, now_s, coefficients)
    )
    proposal: tuple[Suggestion, ...] = ()
    first = proposed[0] if proposed else None
    if first is not None and experiment.remaining_runs != 0:
        after = experiment.supposing(events_of_alternative(experiment, first, now_s))
        proposal = current_strategy(after).suggest(n, after.knowledge, rng)
    exploitation = experiment.steering.exploitation
    if first is not None and first.kind == "exploitation" and first.steering is not None:
        exploitation = first.steering.exploitation
    warning = MissWarning(
        number=len(experiment.warnings) + 1,
        forecast=current_forecast.paper,
        exploitation=exploitation,
        suggestions=proposal,
        text=warning_text(current_forecast),
        basis="forecast",
        outlook=current_forecast,
        alternatives=proposed,
    )
    return (*events, WarningIssued(now_s, warning))


def warning_check(experiment: Experiment, forecast: Forecast) -> WarningCheck:
    """Return a `WarningCheck`: runs used, runs left, and the miss probability of a forecast."""
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    used = sum(run.source != "imported" for run in over)
    left = None if forecast.remaining is None else forecast.remaining.median
    return WarningCheck(used, left, forecast.miss)


def _threshold(experiment: Experiment, coefficients: ForecastCalibration) -> float:
    warn_at = experiment.warning_policy.warn_at
    return (
        coefficients.warn.get(experiment.steering.strategy, UNTESTED_WARN)
        if warn_at is None
        else warn_at
    )


def _last(experiment: Experiment) -> PastWarning | None:
    for warning in reversed(experiment.warnings):
        miss = None if warning.outlook is None else warning.outlook.miss
        if warning.basis == "forecast" and miss is not None:
            return PastWarning(warning.forecast.executed, miss)
    return None


def _advise_by_paper(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> MissWarning | None:
    """Return a warning by the paper's rule with a proposal; None if none is due.

    It is due when the forecast is a miss, the share `WarningPolicy.warn_from` of the budget is
    spent, and an ignored warning is 5 runs old. Where all runs go inside the regions already, it
    can only propose more runs or fewer levels.
    """
    policy, steering = experiment.warning_policy, experiment.steering
    if not experiment.sla.is_limited or not _is_late(experiment):
        return None  # saves the search of regions
    paper = paper_forecast(experiment, now_s)
    if not paper.is_miss or not _is_time(experiment, paper):
        return None
    exploitation = policy.advised
    if steering.exploitation is not None and steering.exploitation >= policy.advised:
        exploitation = 1.0
    proposal: tuple[Suggestion, ...] = ()
    if experiment.remaining_runs != 0:
        strategy = strategy_at_exploitation(experiment, exploitation)
        proposal = strategy.suggest(n, experiment.knowledge, rng)
    return MissWarning(
        number=len(experiment.warnings) + 1,
        forecast=paper,
        exploitation=exploitation,
        suggestions=proposal,
        text=paper_warning_text(paper, exploitation, steering.exploitation),
    )


def _is_late(experiment: Experiment) -> bool:
    limit = experiment.sla.max_runs
    return limit is None or executed_runs(experiment) >= experiment.warning_policy.warn_from * limit


def _is_time(experiment: Experiment, paper: PaperForecast) -> bool:
    last = experiment.warnings[-1] if experiment.warnings else None
    answer = None if last is None else experiment.answer_to(last)
    if last is None or answer is None or answer.answer != "ignored":
        return True
    return paper.executed >= last.forecast.executed + REMIND_AFTER


def paper_warning_text(paper: PaperForecast, exploitation: float, now: float | None) -> str:
    """Return a warning text by the Copper paper's rule (section 3.2): missing runs and proposal."""
    is_single = paper.pending == 1
    configurations = "1 configuration" if is_single else f"{paper.pending} configurations"
    have = "has" if is_single else "have"
    counted = {
        "near": f"{configurations} close to the {_regions(paper)} {have} no run yet",
        "box": f"{configurations} inside the {_regions(paper)} {have} no run yet",
        "queued": f"{'1 run waits' if is_single else f'{paper.pending} runs wait'} inside the "
        f"{_regions(paper)}",
        "plan": f"{configurations} of your plan {have} no run yet",
    }[paper.basis]
    tighter = "the budget"
    if paper.remaining_by_deadline is not None and paper.remaining == paper.remaining_by_deadline:
        tighter = "the deadline"
    elif paper.remaining_by_cost is not None and paper.remaining == paper.remaining_by_cost:
        tighter = "the cost limit"
    more = "a higher cost limit" if tighter == "the cost limit" else "a later deadline"
    change = "" if now is None else f" instead of {now:.0%}"
    left = "1 run" if paper.remaining == 1 else f"{paper.remaining} runs"
    missed = f"{counted}, and {tighter} leaves {left}: {paper.shortfall} too few. "
    if paper.remaining == 0:
        return f"{missed}Allow {paper.shortfall} more or {more}."
    if now == exploitation:
        return (
            f"{missed}All remaining runs go inside the regions already: allow "
            f"{paper.shortfall} more runs or {more}, or close levels."
        )
    if not paper.regions:
        return f"{missed}Allow {paper.shortfall} more runs or {more}, or plan fewer."
    return (
        f"{missed}"
        f"Spend {exploitation:.0%} of the remaining runs inside the regions{change}, "
        "most of them where the mean quality is best."
    )


def _regions(paper: PaperForecast) -> str:
    n = len(paper.regions)
    return "region of good results" if n == 1 else f"{n} regions of good results"
