"""Warning that the goal or budget will be missed: when it is due, its text, and its suggestions.

With a goal the calibrated forecast warns, or the lack of one: nothing feasible, or no chance.
Without a goal the chance warns that the end of the budget leaves much on the table. The Copper
paper's rule warns where it is chosen, and under strategies that its change was measured to help.
The words describe how studies like this one ended; they never predict an effect.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Literal, TypeAlias

import numpy as np

from assistant.analysis.alternatives import (
    AlternativeSearch,
    events_of_alternative,
    find_alternatives,
)
from assistant.analysis.calibration import ForecastCalibration, MissModel, load_calibration
from assistant.analysis.forecast import (
    Chances,
    chances_under,
    forecast_inputs,
    forecast_under,
)
from assistant.analysis.forecast_features import LEAST_RUNS
from assistant.analysis.paper_forecast import executed_runs, paper_forecast
from assistant.analysis.recommendation import current_strategy, strategy_at_exploitation
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
    SUFFICES,
    VERY_LIKELY,
    Forecast,
    GoalForecast,
    PaperForecast,
    PastWarning,
    WarningCheck,
    band_words,
    is_late,
    is_warning_due,
    percent,
    share_phrase,
)
from assistant.core.objective import Constraint, Measure
from assistant.core.run import RunState, random_stream
from strategies import Suggestion

Basis: TypeAlias = Literal["paper", "forecast", "end", "nothing_feasible", "silent"]


def verdict(miss: float, band: tuple[float, float]) -> str:
    """Return one sentence on ``miss``, the probability to miss the goal, and its range ``band``.

    >>> verdict(0.74, (0.52, 0.89))
    'Likely to miss: about 3 in 4 sweeps like this one missed (52 to 89 % depending on
    the space).'
    >>> verdict(0.5, (0.27, 0.73))
    'Of sweeps like this one 50 % missed (27 to 73 % depending on the space).'
    """
    spread = f"({band_words(band)} depending on the space)"
    if ON_TRACK < miss < LIKELY:
        return f"Of sweeps like this one {percent(miss)} missed {spread}."
    words = "On track" if miss <= ON_TRACK else "Likely to miss"
    if miss >= VERY_LIKELY:
        words = "Very likely to miss"
    return f"{words}: {share_phrase(miss)} sweeps like this one missed {spread}."


def warning_text(forecast: Forecast) -> str:
    """Return the text of a warning: miss probability, and distance to the goal.

    Raises ValueError if the forecast has no chance.
    """
    goal = forecast.goal
    if goal is None or goal.chance is None or goal.band is None:
        raise ValueError("a forecast that is silent gives no warning")
    low, high = goal.band
    sentences = [verdict(1.0 - goal.chance, (1.0 - high, 1.0 - low))]
    if goal.steps_away is not None:
        sentences.append(f"The goal is {_steps(goal.steps_away)} beyond your best.")
    sentences.append(_left_sentence(forecast, goal.chance, goal.if_doubled))
    return " ".join([*sentences, *map(_sentence, forecast.cautions)])


def _left_sentence(forecast: Forecast, chance: float, if_doubled: float | None) -> str:
    text = _left_words(forecast)
    if if_doubled is not None and forecast.remaining is not None:
        now, then = percent(chance), percent(if_doubled)
        change = f"raises the chance from {now} to {then}"
        text += f"; doubling them {f'leaves the chance at {now}' if now == then else change}"
    return _sentence(text)


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def proposal(change: Alternative) -> str:
    """Return an alternative as text, with the chance of reaching the goal after the change.

    >>> proposal(Alternative("more_runs", "run 20 more, 80 in all", 0.38))
    'run 20 more, 80 in all: the chance would be 38 %'
    """
    if change.chance is None:
        return change.text
    return f"{change.text}: the chance would be {percent(change.chance)}"


def _steps(steps: float) -> str:
    rounded = float(f"{steps:.2g}")
    number = f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"  # never 1.1e+02
    return "1 step" if number == "1" else f"{number} steps"


REMIND_AFTER = 5  # Runs after a warning by the paper's rule until it may be repeated

UNTESTED_WARN = 0.8
"""Miss probability that warns under a strategy without a threshold: of one threshold for all
strategies 0.80 to 0.825 were measured best (``python -m benchmarks.forecast``)."""


LEAST_SHARE = 0.4  # Share of a small budget from which "nothing feasible" is a warning

RELAX = (
    "Relax a constraint in a new sweep that takes over these results, open other levels, or allow "
    "more runs."
)

SILENT_FROM = 0.5  # Share of the budget from which a goal without a forecast is a warning


def build_warning(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> tuple[Event, ...]:
    """Return the events to log with a new batch of suggestions: forecast check and due warning.

    Where the forecast warns, its check comes first, due or not, because it decides later warnings.
    The experiment includes the new suggestions; ``n`` others are proposed instead.
    """
    policy, coefficients = experiment.warning_policy, load_calibration()
    helps = not policy.warns_by_forecast(experiment.sla) and (
        paper_rule_helps(experiment, coefficients) and not _is_infeasible(experiment)
    )
    if policy.rule == "paper" or helps:
        warning = _advise_by_paper(experiment, n, now_s, rng)
        return () if warning is None else (WarningIssued(now_s, warning),)
    return _advise_by_forecast(experiment, n, now_s, rng, coefficients)


def paper_rule_helps(experiment: Experiment, coefficients: ForecastCalibration) -> bool:
    """Return whether the change of the paper's rule was measured to help the present strategy."""
    steering, level = experiment.steering, experiment.warning_policy.advised
    if level not in coefficients.goal.exploitation.get(steering.strategy, {}):
        return False
    with_regions = coefficients.goal.offset(steering.strategy, level)
    return with_regions < coefficients.goal.offset(steering.strategy)


def _is_infeasible(experiment: Experiment) -> bool:
    """Return whether there are results, and none of them meets every constraint."""
    summaries = experiment.summaries.values()
    return bool(summaries) and not any(summary.outcome.feasible for summary in summaries)


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
    experiment: Experiment,
    n: int,
    now_s: float,
    rng: np.random.Generator,
    coefficients: ForecastCalibration,
) -> tuple[Event, ...]:
    inputs, terms = forecast_inputs(experiment, now_s), (experiment.sla, experiment.steering)
    chances = chances_under(experiment, inputs, now_s, *terms, coefficients)
    check, before = warning_check(experiment, chances), experiment.checks
    if before and check.used <= before[-1].used:
        return ()  # nothing has ended since, so this is no new check
    events: tuple[Event, ...] = ()
    if check.miss is not None or (before and before[-1].miss is not None):
        events = (ForecastChecked(now_s, check),)
    basis = _due_basis(experiment, chances.goal, coefficients, (*before, check))
    if basis is None:
        return events  # the details of a forecast take longer than its chances
    current = forecast_under(experiment, inputs, now_s, *terms, coefficients, chances)
    title, text = _words(experiment, current, basis)
    proposed = find_alternatives(AlternativeSearch(experiment, current, now_s, coefficients))
    if not proposed and basis in ("forecast", "end"):
        easier = "Choose an easier goal, or open" if basis == "forecast" else "Open"
        text += f" No examined change raises the chance. {easier} other levels."
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
        forecast=current.paper,
        exploitation=exploitation,
        suggestions=proposal,
        text=text,
        basis=basis,
        outlook=current,
        alternatives=proposed,
        title=title,
    )
    return (*events, WarningIssued(now_s, warning))


def _due_basis(
    experiment: Experiment,
    goal: GoalForecast | None,
    coefficients: ForecastCalibration,
    checks: Sequence[WarningCheck],
) -> Basis | None:
    """Return the basis of the warning that is due now; None if none is."""
    check = checks[-1]
    total = check.used + (check.left or 0.0)
    is_early = check.left is None or not is_late(check.used, check.left)
    if _is_infeasible(experiment):
        least = LEAST_RUNS if check.left is None else min(LEAST_RUNS, LEAST_SHARE * total)
        is_due = is_early and check.used >= least
        return "nothing_feasible" if is_due and _is_new(experiment, "nothing_feasible") else None
    if goal is not None and goal.chance is None:
        is_due = check.left is not None and is_early
        is_due = is_due and check.used >= max(LEAST_RUNS, SILENT_FROM * total)
        return "silent" if is_due and _is_new(experiment, "silent") else None
    model = coefficients.end if goal is None else coefficients.goal
    basis: Basis = "end" if goal is None else "forecast"
    last = _last(experiment, basis)
    if check.miss is None or not is_warning_due(checks, _threshold(experiment, model), last):
        return None
    return basis


def _is_new(experiment: Experiment, basis: Basis) -> bool:
    """Return whether the last warning of a basis is older than a change of the settings."""
    last = next((w for w in reversed(experiment.warnings) if w.basis == basis), None)
    return last is None or last.forecast.at_s < experiment.settings_changed_s


def _words(experiment: Experiment, current: Forecast, basis: Basis) -> tuple[str, str]:
    """Return the title and the text of a warning by the forecast."""
    if basis == "nothing_feasible":
        return "Nothing feasible yet", nothing_feasible_text(experiment, current)
    if basis == "silent":
        title = "The goal is not reached, and no chance can be given"
        return title, silent_text(experiment, current)
    if basis == "end":
        return "The budget will probably end too early", end_text(current)
    return "The goal will probably be missed", warning_text(current)


def nothing_feasible_text(experiment: Experiment, forecast: Forecast) -> str:
    """Return the text of a warning that no run met every constraint, with what to change."""
    n = experiment.n_in(RunState.COMPLETED)
    none = "The 1 completed run violates" if n == 1 else f"All {n} completed runs violate"
    return " ".join(
        (
            f"{none} a constraint; {_left_words(forecast)}.",
            *relaxations(experiment),
            RELAX,
        )
    )


def relaxations(experiment: Experiment) -> tuple[str, ...]:
    """Return one sentence per constraint: the least relaxation that makes a run feasible.

    Only runs count that violate no other constraint. Without such a run it is one sentence, with
    the bounds that the run of least violation needs; none if no run violates a constraint.
    """
    constraints = experiment.opened.objective.constraints
    violations = [
        (run.outcome.violation, run.id, run.outcome.measures, violated)
        for run in experiment.runs
        if run.outcome is not None
        and (violated := [c for c in constraints if c.violation(run.outcome.measures) > 0])
    ]
    violations.sort(key=lambda entry: entry[:2])
    nearest = {
        constraint: next(entry for entry in violations if entry[3] == [constraint])
        for constraint in constraints
        if any(violated == [constraint] for *_, violated in violations)
    }
    return tuple(
        f"Run {run_id} would be feasible with "
        f"{' and '.join(_bound(constraint, measures) for constraint in violated)}."
        for _, run_id, measures, violated in nearest.values() or violations[:1]
    )


def _bound(constraint: Constraint, measures: Mapping[str, Measure]) -> str:
    """Return the bound, rounded to 5 digits away from the old one, that a run's measures meet."""
    name, value, most = constraint.measure, measures[constraint.measure], constraint.at_most
    if not isinstance(value, int | float):
        raise ValueError(f"the measure '{name}' is no number")
    is_above = most is not None and value > most
    digits = Context(prec=5, rounding=ROUND_CEILING if is_above else ROUND_FLOOR)
    bound = float(digits.create_decimal_from_float(value))
    side, old = ("most", most) if is_above else ("least", constraint.at_least)
    return f"'{name}' at {side} {_number(bound)} (now {_number(old or 0.0)})"


def _number(value: float) -> str:
    return f"{value:,}".removesuffix(".0")


def silent_text(experiment: Experiment, forecast: Forecast) -> str:
    """Return the text of a warning that a goal is not reached and has no forecast.

    Raises ValueError without a goal.
    """
    goal, best, unit = experiment.sla.goal, experiment.best, experiment.opened.objective.unit
    if goal is None:
        raise ValueError("a warning about a goal needs a goal")
    unit = f" {unit}" if unit else ""
    value = None if best is None or best.outcome is None else best.outcome.value
    so_far = "" if value is None else f"; the best so far is {value:,.6g}{unit}"
    return " ".join(
        (
            f"No run has reached {goal:,.6g}{unit}{so_far}.",
            _sentence(f"no chance can be given: {forecast.silence}"),
            _sentence(_left_words(forecast)),
            *relaxations(experiment),
            "Allow more runs, choose an easier goal, or open other levels.",
        )
    )


def end_text(forecast: Forecast) -> str:
    """Return the text of a warning that the budget ends too early, without a goal.

    Raises ValueError if the forecast has no such chance.
    """
    end = forecast.end
    if end is None or end.miss is None or end.band is None:
        raise ValueError("a forecast that is silent gives no warning")
    band = band_words((1.0 - end.band[1], 1.0 - end.band[0]))
    if_doubled = None if end.if_doubled is None else 1.0 - end.if_doubled
    return " ".join(
        (
            f"The chance that the budget suffices is {percent(1.0 - end.miss)}",
            f"({band} depending on the space).",
            SUFFICES,
            _left_sentence(forecast, 1.0 - end.miss, if_doubled),
            *map(_sentence, forecast.cautions),
        )
    )


def _left_words(forecast: Forecast) -> str:
    left = None if forecast.remaining is None else forecast.remaining.median
    if left is None:
        return "the number of runs left is unknown"
    return "1 run is left" if round(left) == 1 else f"{left:.0f} runs are left"


def warning_check(experiment: Experiment, chances: Chances) -> WarningCheck:
    """Return a `WarningCheck`: runs used, runs left, and the miss probability of a forecast.

    Without a goal it is the probability that the end of the budget leaves much on the table.
    """
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    used = sum(run.source != "imported" for run in over)
    left = None if chances.remaining is None else chances.remaining.median
    return WarningCheck(used, left, chances.miss)


def _miss(forecast: Forecast) -> float | None:
    if forecast.goal is not None:
        return forecast.miss
    return None if forecast.end is None else forecast.end.miss


def _threshold(experiment: Experiment, model: MissModel) -> float:
    warn_at = experiment.warning_policy.warn_at
    return (
        model.warn.get(experiment.steering.strategy, UNTESTED_WARN) if warn_at is None else warn_at
    )


def _last(experiment: Experiment, basis: Basis) -> PastWarning | None:
    for warning in reversed(experiment.warnings):
        miss = None if warning.outlook is None else _miss(warning.outlook)
        if warning.basis == basis and miss is not None:
            return PastWarning(warning.forecast.executed, miss)
    return None


def _advise_by_paper(
    experiment: Experiment, n: int, now_s: float, rng: np.random.Generator
) -> MissWarning | None:
    """Return a warning by the paper's rule with a proposal; None if none is due.

    It is due when the forecast is a miss and the share `WarningPolicy.warn_from` of the budget is
    spent. It is repeated only when more runs are missing or the settings changed, and not once all
    runs go inside the regions on its advice: it has nothing else to propose.
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
        title=paper_warning_title(paper),
    )


def _is_late(experiment: Experiment) -> bool:
    limit = experiment.sla.max_runs
    return limit is None or executed_runs(experiment) >= experiment.warning_policy.warn_from * limit


def _is_time(experiment: Experiment, paper: PaperForecast) -> bool:
    """Return whether the warning is the first, or something changed since the last one."""
    last = next((one for one in reversed(experiment.warnings) if one.basis == "paper"), None)
    if last is None:
        return True
    if last.exploitation == 1.0 and experiment.steering.exploitation == 1.0:
        return False
    if last.forecast.at_s < experiment.settings_changed_s:
        return True
    is_worse = (paper.shortfall or 0) > (last.forecast.shortfall or 0)
    return is_worse and paper.executed >= last.forecast.executed + REMIND_AFTER


def _tightest(paper: PaperForecast) -> str:
    if paper.remaining_by_deadline is not None and paper.remaining == paper.remaining_by_deadline:
        return "deadline"
    if paper.remaining_by_cost is not None and paper.remaining == paper.remaining_by_cost:
        return "cost limit"
    return "budget"


def paper_warning_title(paper: PaperForecast) -> str:
    """Return what the Copper paper's rule (section 3.2) predicts to be missed, as a clause."""
    small = {"deadline": "early", "cost limit": "low", "budget": "small"}[_tightest(paper)]
    planned = "your plan" if paper.basis == "plan" else "the regions of good results"
    return f"The {_tightest(paper)} is too {small} for {planned}"


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
    tighter = f"the {_tightest(paper)}"
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
