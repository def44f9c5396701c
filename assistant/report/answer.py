"""The answer first: is there something better than today, by how much, and how sure can one be."""

from dataclasses import dataclass
from typing import Literal

from assistant.experiment import Experiment, run_rank
from assistant.report.words import quantity
from assistant.run import Outcome, Run, RunState

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
    best, today = experiment.best, experiment.baseline
    if best is None or best.outcome is None:
        failed = len(experiment.runs)
        text = f"None of {failed} runs gave a result." if failed else "Nothing has been run yet."
        return Answer("no_runs", text, (), None, None)
    spent = _spent(experiment)
    if not best.outcome.feasible:
        return _nothing_feasible(experiment, best, best.outcome, today, spent)
    if today is None or today.outcome is None:
        why = "It did not complete." if today else "The application names none."
        return Answer(
            "no_today",
            f"Best found: {_value(experiment, best.outcome)} (run {best.id}).",
            (f"There is no today's configuration to compare with. {why}", spent),
            None,
            best.id,
        )
    return _against_today(experiment, best, best.outcome, today, today.outcome, spent)


def _nothing_feasible(
    experiment: Experiment, best: Run, new: Outcome, today: Run | None, spent: str
) -> Answer:
    headline = "No configuration tried meets every constraint"
    closest = f"it violates them by {new.violation:.0%} and gives {_value(experiment, new)}"
    if today is not None and today.id == best.id:
        headline, sentence = (
            f"{headline}; today's comes closest.",
            f"{closest[0].upper()}{closest[1:]}.",
        )
    elif today is None or today.outcome is None:
        headline, sentence = (
            f"{headline}; run {best.id} comes closest.",
            f"{closest[0].upper()}{closest[1:]}.",
        )
    else:
        old = today.outcome
        headline = f"{headline}; run {best.id} comes closer than today."
        sentence = (
            f"It violates them by {new.violation:.0%} instead of {old.violation:.0%}, and gives "
            f"{_value(experiment, new)} against today's {_value(experiment, old)}."
        )
    more = "A later sweep may find one that does: try more runs, other levels, or a looser bound."
    return Answer("nothing_feasible", headline, (sentence, more, spent), None, best.id)


def _against_today(
    experiment: Experiment, best: Run, new: Outcome, today: Run, old: Outcome, spent: str
) -> Answer:
    if run_rank(best) <= run_rank(today):
        return Answer(
            "today_is_best",
            "Today's configuration is the best of those tried.",
            (f"It gives {_value(experiment, old)}; no other run was better.", spent),
            0.0,
            best.id,
        )
    improvement = (new.quality - old.quality) / abs(old.quality) if old.quality else None
    values = f"{_value(experiment, new)} against today's {_value(experiment, old)}"
    if not old.feasible:
        return Answer(
            "improved",
            f"Run {best.id} meets every constraint, today's configuration does not.",
            (f"It gives {values}.", spent),
            improvement,
            best.id,
        )
    better = "lower" if experiment.opened.objective.goal == "minimise" else "higher"
    share = f"{abs(improvement):.1%} {better}" if improvement is not None else "better"
    return Answer(
        "improved",
        f"Run {best.id} is {share} than today.",
        (f"It gives {values}, and meets every constraint.", spent),
        improvement,
        best.id,
    )


def _value(experiment: Experiment, outcome: Outcome) -> str:
    objective = experiment.opened.objective
    return f"{objective.wrapper} = {quantity(outcome.value, objective.unit)}"


def _spent(experiment: Experiment) -> str:
    space, n = experiment.space, len(experiment.runs)
    allowed = space.count_allowed()
    total = allowed if allowed is not None else space.size
    share = f" ({n / total:.2%})" if n < total else ", all of them"
    word = "allowed configurations" if allowed is not None else "combinations"
    failed = len(experiment.runs_in(RunState.FAILED))
    words = f" {failed} of the runs failed." if failed else ""
    return f"{n} of {total:,} {word} were tried{share}.{words}"
