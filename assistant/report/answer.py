"""The answer first: is there something better than today, by how much, and how sure can one be."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from assistant.experiment import Experiment
from assistant.report.words import quantity
from assistant.run import Outcome, Run, RunState
from assistant.standing import Standing

LONGEST_FAILURE = 300
"""Characters of a failure that are told with the answer."""

Verdict = Literal["improved", "today_is_best", "no_today", "nothing_feasible", "no_runs"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The finding in one headline and a few sentences.

    Args:
        verdict: what was found, for programs.
        headline: what was found, for people.
        sentences: what must be known beside it.
        improvement: change of the value from today to best as a share of today's, positive when
            better; None when there is nothing to compare.
        best_run_id: the best run's number; None if nothing completed.
    """

    verdict: Verdict
    headline: str
    sentences: tuple[str, ...]
    improvement: float | None
    best_run_id: int | None


def answer(experiment: Experiment) -> Answer:
    """Return the finding of an experiment so far."""
    best = None if experiment.best is None else experiment.standing(experiment.best)
    if best is None:
        failed = len(experiment.runs)
        text = f"None of {failed} runs gave a result." if failed else "Nothing has been run yet."
        return Answer("no_runs", text, _why_failed(experiment), None, None)
    today_run = experiment.baseline
    today = None if today_run is None else experiment.standing(today_run)
    found = _found(experiment, best, today, today_run)
    more = (*_traded(experiment, best), _spent(experiment), *_why_failed(experiment))
    return replace(found, sentences=(*found.sentences, *more))


def _found(
    experiment: Experiment, best: Standing, today: Standing | None, today_run: Run | None
) -> Answer:
    """Return the finding, without what was spent on it."""
    if not best.outcome.feasible:
        return _nothing_feasible(experiment, best, today)
    if today is None:
        why = "It did not complete." if today_run else "The application names none."
        return Answer(
            "no_today",
            f"Best found: {_value(experiment, best.outcome)} ({_named(best)}).",
            (f"There is no today's configuration to compare with. {why}",),
            None,
            best.run.id,
        )
    return _against_today(experiment, best, today)


def _nothing_feasible(experiment: Experiment, best: Standing, today: Standing | None) -> Answer:
    new = best.outcome
    headline = "No configuration tried meets every constraint"
    closest = f"it violates them by {new.violation:.0%} and gives {_value(experiment, new)}"
    if today is not None and today.configuration == best.configuration:
        headline, sentence = (
            f"{headline}; today's comes closest.",
            f"{closest[0].upper()}{closest[1:]}.",
        )
    elif today is None:
        headline, sentence = (
            f"{headline}; {_named(best)} comes closest.",
            f"{closest[0].upper()}{closest[1:]}.",
        )
    else:
        old = today.outcome
        headline = f"{headline}; {_named(best)} comes closer than today."
        sentence = (
            f"It violates them by {new.violation:.0%} instead of {old.violation:.0%}, and gives "
            f"{_value(experiment, new)} against today's {_value(experiment, old)}."
        )
    more = "A later sweep may find one that does: try more runs, other levels, or a looser bound."
    return Answer("nothing_feasible", headline, (sentence, more), None, best.run.id)


def _against_today(experiment: Experiment, best: Standing, today: Standing) -> Answer:
    new, old = best.outcome, today.outcome
    if best.rank <= today.rank:
        return Answer(
            "today_is_best",
            "Today's configuration is the best of those tried.",
            (f"It gives {_value(experiment, old)}; no other run was better.",),
            0.0,
            best.run.id,
        )
    improvement = (new.quality - old.quality) / abs(old.quality) if old.quality else None
    values = f"{_value(experiment, new)} against today's {_value(experiment, old)}"
    name = _named(best)
    name = f"{name[0].upper()}{name[1:]}"
    if not old.feasible:
        return Answer(
            "improved",
            f"{name} meets every constraint, today's configuration does not.",
            (f"It gives {values}.",),
            improvement,
            best.run.id,
        )
    better = "lower" if experiment.opened.objective.goal == "minimise" else "higher"
    if old.value > 0 and new.value >= 0:
        share = f"{abs(new.value - old.value) / old.value:.1%} {better}"
    else:  # a percentage of nothing, or across 0, says nothing
        unit = experiment.opened.objective.unit
        share = f"{quantity(abs(new.value - old.value), unit)} {better}"
    return Answer(
        "improved",
        f"{name} is {share} than today.",
        (f"It gives {values}, and meets every constraint.",),
        improvement,
        best.run.id,
    )


def _named(best: Standing) -> str:
    """Return ``run 7``, or ``run 7 (mean of 3 runs)`` where it was repeated."""
    return f"run {best.run.id}" + (f" (mean of {best.n} runs)" if best.n > 1 else "")


def _traded(experiment: Experiment, best: Standing) -> tuple[str, ...]:
    """Say by which of two measures it is best, and how many trade-offs there are."""
    objective = experiment.opened.objective
    second = objective.second
    if second is None:
        return ()
    also = f"{second.wrapper} = {quantity(best.outcome.second_value, second.unit)}"
    n = len(experiment.front)
    front = (
        f"{n} configurations are on the front, on which neither gets better without the other "
        "getting worse"
        if n > 1
        else "nothing tried is better in either"
    )
    return (f"It is the best by {objective.wrapper}, the first of two measures; {also}; {front}.",)


def _value(experiment: Experiment, outcome: Outcome) -> str:
    objective = experiment.opened.objective
    return f"{objective.wrapper} = {quantity(outcome.value, objective.unit)}"


def _why_failed(experiment: Experiment) -> tuple[str, ...]:
    """Return what failed runs said most often, in a sentence; nothing if none failed."""
    failures = Counter(run.failure for run in experiment.runs if run.failure is not None)
    if not failures:
        return ()
    ((failure, n),) = failures.most_common(1)
    told = failure if len(failure) <= LONGEST_FAILURE else f"{failure[:LONGEST_FAILURE]} ..."
    total = failures.total()
    who = "The failed run says" if total == 1 else f"Of {total} failed runs {n} say"
    return (f"{who}: {told.rstrip('.')}.",)


def _spent(experiment: Experiment) -> str:
    space, n_runs = experiment.space, len(experiment.runs)
    allowed = space.count_allowed()
    n, n_gone = experiment.tried
    if allowed is None:  # all combinations are counted then, closed ones too
        n, n_gone = n + n_gone, 0
    total = allowed if allowed is not None else space.size
    share = f" ({n / total:.2%})" if n < total else ", all of them"
    word = "allowed configurations" if allowed is not None else "combinations"
    why = "that are closed or excluded" if space.exclusions else "with levels that are closed"
    gone = f"; {n_gone} more {why} now" if n_gone else ""
    failed = len(experiment.runs_in(RunState.FAILED))
    repeated = f", in {n_runs} runs" if n_runs > n + n_gone else ""
    words = f" {failed} of the runs failed." if failed else ""
    waiting = len(experiment.runs_in(RunState.QUEUED))
    if waiting and experiment.finished is not None:
        words += f" {waiting} of the runs {'was' if waiting == 1 else 'were'} not started."
    return f"{n} of {total:,} {word} were tried{share}{gone}{repeated}.{words}"
