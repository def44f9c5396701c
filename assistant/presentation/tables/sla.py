"""The SLA term by term: limits, use, verdicts; and the regions and warnings of an experiment."""

from dataclasses import dataclass
from typing import Literal

from assistant.analysis.broken_program import broken_program
from assistant.analysis.paper_forecast import paper_forecast
from assistant.analysis.recommendation import goal_text
from assistant.analysis.warning import proposal
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.core.sla import Sla, Spending, cost_of, number_text
from assistant.presentation.text.number_format import level_words, moment, number, quantity
from strategies import ParameterSpace

AgreedTerm = Literal["runs", "deadline", "cost", "run_limit", "goal"]

TermVerdict = Literal["met", "missed", "open", "failed", "unlimited", "unknown"]
"""Verdict of a term: missed at once, met at the end, open until then. ``failed`` is a limit that
was kept, but for no result: the program failed. ``unlimited`` is a cost that is only counted,
``unknown`` a term without data at the end.
"""

TITLES: dict[AgreedTerm, str] = {
    "runs": "Runs",
    "deadline": "Deadline",
    "cost": "Cost",
    "run_limit": "Run limit",
    "goal": "Goal",
}


@dataclass(frozen=True, slots=True)
class TermUsage:
    """One term of the SLA, such as the deadline, with its limit and its use so far.

    Args:
        limit: runs, seconds since 1970-01-01 UTC, units of the cost, seconds of a run, or value of
            the first measure; None for a cost that is only counted.
        used: runs submitted, end of the last run, cost so far, longest run, or best value; None if
            unknown.
        over: amount by which the term is missed, else 0; for a goal the distance of the best, None
            without a feasible run.
        run: run that reached the goal; None for other terms, or if it is not reached.
        agreed: limit as text.
        used_text: amount used, as text.
    """

    term: AgreedTerm
    limit: float | None
    used: float | None
    over: float | None
    verdict: TermVerdict
    run: int | None
    agreed: str
    used_text: str

    @property
    def title(self) -> str:
        """The heading of the SLA term."""
        return TITLES[self.term]


def sla_terms(experiment: Experiment) -> tuple[TermUsage, ...]:
    """Return every term of the SLA with its use so far, or () without any term."""
    terms = (_runs, _deadline, _cost, _run_limit, _goal)
    return tuple(use for of in terms if (use := of(experiment)) is not None)


def sla_words(experiment: Experiment) -> tuple[str, ...]:
    """Return the terms of the SLA as text, without the amounts used so far."""
    return tuple(use.agreed for use in sla_terms(experiment))


def _runs(experiment: Experiment) -> TermUsage | None:
    limit, used = experiment.sla.max_runs, experiment.n_charged
    if limit is None:
        return None
    over = max(0, used - limit)
    waiting = experiment.n_in(RunState.QUEUED)
    outcome = f"{used - waiting:,} used" + (f", {waiting:,} waiting" if waiting else "")
    outcome += f", {over:,} too many" if over else ""
    agreed = "1 run" if limit == 1 else f"{limit:,} runs"
    return TermUsage("runs", limit, used, over, _kept(experiment, over), None, agreed, outcome)


def _deadline(experiment: Experiment) -> TermUsage | None:
    limit = experiment.sla.deadline_s
    if limit is None:
        return None
    ended = [run.ended_s for run in _executed(experiment) if run.ended_s is not None]
    last_s = max(ended, default=None)
    over = 0.0 if last_s is None else max(0.0, last_s - limit)
    outcome = "no run has ended"
    if last_s is not None:
        when = "after" if over else "before"
        outcome = f"the last run ended {quantity(_rounded(abs(last_s - limit)), 's')} {when} it"
    agreed = f"until {moment(limit)}"
    verdict = _kept(experiment, over)
    return TermUsage("deadline", limit, last_s, over, verdict, None, agreed, outcome)


def _cost(experiment: Experiment) -> TermUsage | None:
    sla, spent = experiment.sla, experiment.spending
    if sla.tariff is None or spent is None:
        return None
    limit, used = sla.max_cost, spent.total
    outcome = _cost_told(sla, spent)
    if limit is None:
        agreed = f"cost without a limit ({sla.tariff})"
        return TermUsage("cost", None, used, 0.0, "unlimited", None, agreed, outcome)
    over = 0.0 if used is None else max(0.0, used - limit)
    if over:
        outcome = f"{outcome}; {number(over)} too much"
    agreed = f"a cost of {sla.cost_text} ({sla.tariff})"
    verdict = _kept(experiment, over)
    if used is None and verdict == "met":
        verdict = "unknown"
    return TermUsage("cost", limit, used, over, verdict, None, agreed, outcome)


def unknown_cost(experiment: Experiment, run: Run) -> str:
    """Return why the cost of a completed run is unknown, or an empty text if it is known."""
    sla = experiment.sla
    tariff, outcome = sla.tariff, run.outcome
    if tariff is None or outcome is None:
        return ""
    if cost_of(run, experiment.space.values, tariff) is not None:
        return ""
    name = tariff.measure or tariff.resources
    lacks = f"it returned no number '{name}'"
    if run.duration_s is None:
        lacks = "its duration is unknown"
    limit = ""
    if sla.max_cost is not None and experiment.cost is None:
        limit = f"; the cost limit of {sla.cost_text} has no effect until a cost is known"
    return f"the cost of run {run.id} is unknown, since {lacks}{limit}"


def _cost_told(sla: Sla, spent: Spending) -> str:
    unit = "" if sla.tariff is None else sla.tariff.unit
    if spent.total is None:
        return f"unknown: the cost of {_counted(spent.n_unknown)} is not known"
    text = f"{quantity(spent.total, unit)} used"
    if spent.n_unknown:
        text += f"; {_counted(spent.n_unknown)} of unknown cost counted at the mean of the others"
    return text


def _run_limit(experiment: Experiment) -> TermUsage | None:
    limit = experiment.sla.run_limit_s
    if limit is None:
        return None
    timed = [run for run in _executed(experiment) if run.duration_s is not None]
    longest = max((run.duration_s for run in timed if run.duration_s is not None), default=None)
    longer = [run for run in timed if run.duration_s is not None and run.duration_s > limit]
    over = 0.0 if longest is None else max(0.0, longest - limit)
    outcome = "no run took longer"
    if longer:
        failed = all(run.state is RunState.FAILED for run in longer)
        outcome = f"{_counted(len(longer))} took longer{', and failed' if failed else ''}"
    agreed = f"{number_text(limit)} s per run"
    verdict = _kept(experiment, over)
    return TermUsage("run_limit", limit, longest, over, verdict, None, agreed, outcome)


def _goal(experiment: Experiment) -> TermUsage | None:
    objective, limit = experiment.opened.objective, experiment.sla.goal
    if limit is None:
        return None
    best = None if experiment.best is None else experiment.summary(experiment.best)
    best_outcome = None if best is None or not best.outcome.feasible else best.outcome
    used = None if best_outcome is None else best_outcome.value
    bound = "at most" if objective.goal == "minimise" else "at least"
    agreed = f"{objective.wrapper} {bound} {goal_text(experiment)}"
    run = experiment.goal_run
    if run is not None:
        return TermUsage(
            "goal", limit, used, 0.0, "met", run.id, agreed, f"reached by run {run.id}"
        )
    verdict: TermVerdict = "open" if experiment.finished is None else "missed"
    if best_outcome is None:
        outcome = "not reached; no run has a result"
        if best is not None:
            outcome = "not reached; no result meets every constraint"
        return TermUsage("goal", limit, None, None, verdict, None, agreed, outcome)
    over = abs(best_outcome.value - limit)
    unit = objective.unit
    outcome = (
        f"not reached; the best is {quantity(best_outcome.value, unit)}, "
        f"{quantity(over, unit)} away"
    )
    return TermUsage("goal", limit, used, over, verdict, None, agreed, outcome)


def _kept(experiment: Experiment, over: float) -> TermVerdict:
    if over > 0:
        return "missed"
    if experiment.finished is None:
        return "open"
    runs = [run for run in _executed(experiment) if run.ended_s is not None]
    has_failed = bool(runs) and all(run.outcome is None for run in runs)
    return "failed" if has_failed or broken_program(experiment) is not None else "met"


def _executed(experiment: Experiment) -> list[Run]:
    return [run for run in experiment.runs if run.source != "imported"]


def _rounded(seconds: float) -> float:
    return round(seconds, 1) if seconds < 120 else round(seconds)


def _counted(n: int) -> str:
    return "1 run" if n == 1 else f"{n:,} runs"


@dataclass(frozen=True, slots=True)
class RegionRow:
    """One region of good results as a table row; ``pending`` is None if it cannot be counted."""

    id: int
    members: int
    evaluated: int
    pending: int | None
    mean: float
    best: float
    ranges: str


@dataclass(frozen=True, slots=True)
class WarningRow:
    """One warning as a table row: run counts at that time, its text, and the answer.

    ``by_forecast`` is false for a warning by the paper's rule; then ``proposed``, the alternatives
    with their chances, is empty.
    """

    number: int
    executed: int
    remaining: int | None
    shortfall: int | None
    text: str
    by_forecast: bool
    proposed: tuple[str, ...]
    answer: str


def box_words(space: ParameterSpace, box: tuple[tuple[int, ...], ...]) -> str:
    """Describe a region by its levels (``box``), omitting parameters of which it has all levels."""
    parts = []
    for parameter, ids in zip(space.parameters, box, strict=True):
        if len(ids) == parameter.n_levels:
            continue
        ordered = sorted(ids, key=parameter.ranks.__getitem__)
        names = [level_words(parameter.levels[i], parameter.unit) for i in ordered]
        if len(names) > 2 and parameter.kind != "nominal":
            names = [f"{names[0]} to {names[-1]}"]
        parts.append(f"{parameter.name} {' or '.join(names)}")
    return ", ".join(parts) or "everywhere"


def region_rows(experiment: Experiment, now_s: float) -> tuple[RegionRow, ...]:
    """Return the current regions as table rows, sorted by mean quality with the best first."""
    space, value_of = experiment.space, experiment.opened.objective.value_of
    counted = {region.id: region for region in paper_forecast(experiment, now_s).regions}
    rows = []
    for region in experiment.regions:
        rows.append(
            RegionRow(
                id=region.id,
                members=len(region.members),
                evaluated=region.evaluated,
                pending=counted[region.id].pending,
                mean=value_of(counted[region.id].mean),
                best=value_of(counted[region.id].best),
                ranges=box_words(space, region.box),
            )
        )
    return tuple(rows)


def warning_rows(experiment: Experiment) -> tuple[WarningRow, ...]:
    """Return every warning with the analyst's answer."""
    rows = []
    for warning in experiment.warnings:
        reply = experiment.answer_to(warning)
        answer = "not answered" if experiment.open_warning == warning else "replaced, not answered"
        if reply is not None:
            level = reply.exploitation
            answer = reply.answer + (f" to {level:.0%}" if reply.answer == "changed" else "")
            if reply.alternative is not None:
                answer += f": {warning.alternatives[reply.alternative].text}"
        forecast = warning.forecast
        rows.append(
            WarningRow(
                warning.number,
                forecast.executed,
                forecast.remaining,
                forecast.shortfall,
                f"{warning.heading}. {warning.text}",
                warning.basis != "paper",
                tuple(map(proposal, warning.alternatives)),
                answer,
            )
        )
    return tuple(rows)
