"""Summaries of an experiment: comparison with the baseline, one list row, and Pareto front."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from assistant.analysis.broken_program import broken_program
from assistant.analysis.experiment_state import ExperimentState
from assistant.core.early_stopping import STOP_RULES
from assistant.core.experiment import Experiment, once_per_result
from assistant.core.forecast import percent
from assistant.core.run import ConfigurationSummary, Outcome, Run, RunState
from assistant.presentation.charts.vega_lite import TradePoint
from assistant.presentation.text.comparison import compare, compare_best, violated_words
from assistant.presentation.text.later_jobs import later_jobs
from assistant.presentation.text.number_format import duration, lasting, level, quantity
from strategies import EarlierSweep, borrowed_shares, strategy_entry

LONGEST_FAILURE = 300

FindingVerdict = Literal[
    "improved", "baseline_is_best", "no_baseline", "nothing_feasible", "no_runs"
]


@dataclass(frozen=True, slots=True)
class BaselineFinding:
    """The comparison of the best run with the baseline, as a headline and sentences.

    Args:
        verdict: kind of the finding, for programs.
        improvement: change of the value from the current to the best configuration as a share of
            the former, positive if better; None where a percentage has no meaning.
        best_run_id: number of the best run; None if none completed.
    """

    verdict: FindingVerdict
    headline: str
    sentences: tuple[str, ...]
    improvement: float | None
    best_run_id: int | None


def baseline_finding(experiment: Experiment) -> BaselineFinding:
    """Return how the best configuration so far compares with the baseline."""
    best = None if experiment.best is None else experiment.summary(experiment.best)
    if best is None:
        over = experiment.n_in(RunState.COMPLETED, RunState.FAILED)
        text = f"None of {over} runs gave a result." if over else "There are no runs yet."
        if over == 1:
            text = "The only run gave no result."
        if not over and experiment.runs:
            text = "No run has ended yet."
        return BaselineFinding("no_runs", text, _why_failed(experiment), None, None)
    baseline_run = experiment.baseline
    baseline = None if baseline_run is None else experiment.summary(baseline_run)
    finding = _found(experiment, best, baseline, baseline_run)
    more = (
        *_traded(experiment, best),
        *later_jobs(experiment),
        *learnt(experiment),
        _spent(experiment),
        *_refined(experiment),
        *_stopped_early(experiment),
        *_why_failed(experiment),
    )
    return replace(finding, sentences=(*finding.sentences, *more))


LITTLE = 0.1  # Share of the model up to which an earlier experiment has hardly helped


@once_per_result
def learnt(experiment: Experiment) -> tuple[str, ...]:
    """Return how much the search has borrowed from each earlier experiment; empty without any."""
    earlier, strategy = experiment.opened.earlier, experiment.steering.strategy
    if earlier and not strategy_entry(strategy).learns:
        return (f"The strategy '{strategy}' does not learn from earlier experiments.",)
    shares = borrowed_shares(experiment.knowledge) if earlier else None
    if shares is None:
        return ()
    sentences = []
    for sweep, share in zip(earlier, shares, strict=True):
        source = borrowed_from(experiment, sweep)
        subject = f"{100 * share:.0f} % of the search's model is borrowed from {source}"
        why = "; it agrees little with the runs here" if share < LITTLE else ""
        sentences.append(f"{subject}{why}.")
    return tuple(sentences)


def borrowed_from(experiment: Experiment, sweep: EarlierSweep) -> str:
    """Return an earlier experiment in words: "'conv' (60 runs, 7 of 7 parameters)"."""
    n_runs = len(sweep.responses) + len(sweep.failed)
    n = len(sweep.shared(experiment.space))
    of = sum(parameter.n_levels > 1 for parameter in experiment.space.parameters)
    runs = "1 run" if n_runs == 1 else f"{n_runs} runs"
    return f"'{sweep.experiment_id}' ({runs}, {n} of {of} parameters)"


def _found(
    experiment: Experiment,
    best: ConfigurationSummary,
    baseline: ConfigurationSummary | None,
    baseline_run: Run | None,
) -> BaselineFinding:
    if not best.outcome.feasible:
        return _nothing_feasible(experiment, best, baseline)
    if baseline is None:
        why = (
            "There is no current configuration to compare with: the application names no baseline."
            if baseline_run is None
            else "The run of the current configuration did not complete, so nothing is compared."
        )
        return BaselineFinding(
            "no_baseline",
            f"Best found: {_value(experiment, best.outcome)}, by {_named(best)}.",
            (why,),
            None,
            best.run.id,
        )
    return _against_baseline(experiment, best, baseline)


def _nothing_feasible(
    experiment: Experiment, best: ConfigurationSummary, baseline: ConfigurationSummary | None
) -> BaselineFinding:
    new, objective = best.outcome, experiment.opened.objective
    headline = "No tried configuration meets every constraint"
    sentence = f"It violates {violated_words(objective, new)} and gives {_value(experiment, new)}."
    if baseline is not None and baseline.configuration == best.configuration:
        headline = f"{headline}; the current one comes closest."
    elif baseline is None:
        headline = f"{headline}; {_named(best)} comes closest."
    else:
        old = baseline.outcome
        headline = f"{headline}; {_named(best)} comes closer than the current one."
        sentence = (
            f"{sentence} The current one violates {violated_words(objective, old)} and gives "
            f"{_value(experiment, old)}."
        )
    more = "Try more runs, other levels, or a looser bound."
    return BaselineFinding("nothing_feasible", headline, (sentence, more), None, best.run.id)


def _against_baseline(
    experiment: Experiment, best: ConfigurationSummary, baseline: ConfigurationSummary
) -> BaselineFinding:
    new, old = best.outcome, baseline.outcome
    if best.rank <= baseline.rank:
        return BaselineFinding(
            "baseline_is_best",
            "The current configuration is the best so far.",
            (f"It gives {_value(experiment, old)}; no other run was better.",),
            0.0,
            best.run.id,
        )
    found = compare(experiment.opened.objective, new, old, _named(best))
    also = ", and meets every constraint" if experiment.opened.objective.constraints else ""
    return BaselineFinding(
        "improved",
        f"{found.text[0].upper()}{found.text[1:]}.",
        (f"It gives {_value(experiment, new)} instead of {_value(experiment, old)}{also}.",),
        found.share,
        best.run.id,
    )


def _named(best: ConfigurationSummary) -> str:
    return f"run {best.run.id}" + (f" (mean of {best.n} runs)" if best.n > 1 else "")


def _traded(experiment: Experiment, best: ConfigurationSummary) -> tuple[str, ...]:
    objective = experiment.opened.objective
    second = objective.second
    if second is None:
        return ()
    also = f"{second.wrapper} = {quantity(best.outcome.second_value, second.unit)}"
    n = len(experiment.front)
    front = (
        f"{n} configurations are on the Pareto front"
        if n > 1
        else "no tried configuration is better in either"
    )
    return (f"It is the best by {objective.wrapper}, the first of two measures; {also}; {front}.",)


def _value(experiment: Experiment, outcome: Outcome) -> str:
    objective = experiment.opened.objective
    return f"{objective.wrapper} = {quantity(outcome.value, objective.unit)}"


def _why_failed(experiment: Experiment) -> tuple[str, ...]:
    if experiment.finished is not None and broken_program(experiment) is not None:
        return ()  # it is the reason of the end
    failures = Counter(run.failure for run in experiment.runs if run.failure is not None)
    if not failures:
        return ()
    ((failure, n),) = failures.most_common(1)
    shortened = failure if len(failure) <= LONGEST_FAILURE else f"{failure[:LONGEST_FAILURE]} ..."
    total = failures.total()
    subject = "Error of the failed run" if total == 1 else f"Error of {n} of {total} failed runs"
    return (f"{subject}: {shortened.rstrip('.')}.",)


def _small_share(share: float) -> str:
    """Return a share below 1 in percent: 'under 0.01 %', '0.25 %', '8.3 %', '99.9 %'."""
    if share < 1e-4:
        return "under 0.01 %"
    return f"{100 * share:.2f} %" if share < 0.01 else f"{math.floor(1000 * share) / 10:.1f} %"


def _refined(experiment: Experiment) -> tuple[str, ...]:
    """Return how many levels were added to each range without a step, if there are any."""
    grown = [p for p in experiment.space.parameters if p.added]
    if not grown:
        return ()
    counts = ", ".join(
        f"{p.name} has {p.n_levels} instead of {p.n_levels - len(p.added)}" for p in grown
    )
    return (f"Levels were added beside the best results: {counts}.",)


def _stopped_early(experiment: Experiment) -> tuple[str, ...]:
    """Return how many runs a rule stopped, and how far they had come, if there are any."""
    curves = experiment.curves
    stopped = [run for run in experiment.runs if run.stopped_by is not None]
    if not stopped:
        return ()
    rules = " and ".join(dict.fromkeys(STOP_RULES[r.stopped_by] for r in stopped if r.stopped_by))
    were = "was" if len(stopped) == 1 else "were"
    text = f"{len(stopped)} of {len(experiment.runs)} runs {were} stopped early ({rules})"
    if curves is None:  # the rule was turned off, and the steps are forgotten
        return (f"{text}.",)
    ended = [run for run in experiment.runs_in(RunState.COMPLETED) if run.stopped is None]
    whole = max((curves.step_of(run.id) or 0.0 for run in ended), default=0.0)
    if whole > 0:
        share = fmean(curves.step_of(run.id) or 0.0 for run in stopped) / whole
        part = "all" if share >= 1 else f"{percent(share)} of"
        text += f", on average after {part} the steps of a whole run"
    return (f"{text}.",)


def _started(experiment: Experiment) -> tuple[int, int]:
    """Return the numbers of configurations with a started run, as `Experiment.tried` does."""
    waits = {run.configuration for run in experiment.runs_in(RunState.QUEUED)}
    unstarted = [
        configuration
        for configuration in waits
        if all(run.started_s is None for run in experiment.runs_of(configuration))
    ]
    n_allowed = experiment.space.count_allowed_of(unstarted)
    n, n_gone = experiment.tried
    return n - n_allowed, n_gone - (len(unstarted) - n_allowed)


def _spent(experiment: Experiment) -> str:
    space = experiment.space
    allowed = space.count_allowed()
    n, n_gone = _started(experiment)
    if allowed is None:  # then all combinations are counted, closed ones too
        n, n_gone = n + n_gone, 0
    total = allowed if allowed is not None else space.n_combinations
    share = f" ({_small_share(n / total)})" if n < total else ", all of them"
    word = "allowed configurations" if allowed is not None else "combinations"
    why = "that are closed or excluded" if space.exclusions else "with levels that are closed"
    gone = f"; {n_gone} more {why} now" if n_gone else ""
    failed = experiment.n_in(RunState.FAILED)
    waiting = experiment.n_in(RunState.QUEUED)
    n_runs = len(experiment.runs) - waiting
    repeated = f", in {n_runs} runs" if n_runs > n + n_gone else ""
    words = f" {failed} of the runs failed." if failed else ""
    if waiting and experiment.finished is not None:
        words += f" {waiting} of the runs {'was' if waiting == 1 else 'were'} not started."
    return f"{n} of {total:,} {word} were tried{share}{gone}{repeated}.{words}"


_RECENT = 15  # Number of last runs whose mean duration predicts that of the next ones


@dataclass(frozen=True, slots=True)
class ExperimentSummary:
    """A summary of one experiment, as a row of a list of experiments.

    Args:
        opened_s: time of opening, seconds since 1970-01-01 UTC.
        best: value of the best configuration; None before the first result.
        gain: comparison with the current configuration as text; empty without one.
        done: completed and failed runs of the budget.
        budget: largest number of runs; None without a limit.
        deadline_s: deadline, seconds since 1970-01-01 UTC; None without one.
        left_s: seconds for the rest of the budget at the pace of the last runs; None if unknown, or
            if nothing is left.
        warning: warning without an answer; empty if there is none.
        run_s: mean duration of the last runs, in seconds; None before the first one.
    """

    id: str
    name: str
    opened_s: float
    objective: str
    best: float | None
    unit: str
    gain: str
    done: int
    budget: int | None
    failed: int
    deadline_s: float | None
    left_s: float | None
    warning: str
    run_s: float | None

    @property
    def share(self) -> float | None:
        """The used share of the budget from 0 to 1, or None without a limit of runs."""
        return None if self.budget is None else min(1.0, self.done / max(self.budget, 1))

    def time_left(self, now_s: float, state: ExperimentState) -> str:
        """Return the time to the deadline, or the expected time for the runs left, as text.

        It is empty once the experiment is over; only running runs have an expected time.
        """
        if state.is_over:
            return ""
        if self.deadline_s is not None:
            to_go_s = self.deadline_s - now_s
            return f"{duration(to_go_s)} to the deadline" if to_go_s > 0 else "deadline has passed"
        left_s = self.left_s if state.is_running else None
        return "" if left_s is None else f"{lasting(left_s)} of runs"


def summarise_experiment(experiment: Experiment) -> ExperimentSummary:
    """Return the summary of an experiment for a list, without computing a forecast."""
    opened, sla = experiment.opened, experiment.sla
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    executed = [run for run in over if run.source != "imported"]
    lasted = [run.duration_s for run in executed[-_RECENT:] if run.duration_s is not None]
    run_s = sum(lasted) / len(lasted) if lasted else None
    leader = None if experiment.best is None else experiment.summary(experiment.best)
    warning = experiment.open_warning
    to_come = experiment.runs_left if experiment.finished is None else None
    return ExperimentSummary(
        id=opened.experiment_id,
        name=opened.name,
        opened_s=opened.at_s,
        objective=str(opened.objective),
        best=None if leader is None else leader.outcome.value,
        unit=opened.objective.unit,
        gain=gain_words(experiment),
        done=len(executed),
        budget=sla.max_runs,
        failed=sum(run.state is RunState.FAILED for run in over),
        deadline_s=sla.deadline_s,
        left_s=-(-to_come // opened.workers) * run_s if to_come and run_s is not None else None,
        warning="" if warning is None or experiment.finished is not None else warning.text,
        run_s=run_s,
    )


def gain_words(experiment: Experiment) -> str:
    """Return the comparison of the best configuration with the baseline in a few words."""
    best = None if experiment.best is None else experiment.summary(experiment.best)
    if best is None:
        return ""
    compared = compare_best(experiment)
    if compared is not None:
        return compared.short
    return "" if best.outcome.feasible else "violates a constraint"


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One configuration on the Pareto front, with the means of two measures over its runs."""

    run_id: int
    values: Mapping[str, str]
    value: float
    second_value: float
    n_runs: int
    feasible: bool
    is_baseline: bool


def front_rows(experiment: Experiment) -> tuple[FrontRow, ...]:
    """Return the Pareto front sorted by the first measure, or () without a second measure."""
    rows = []
    for run in experiment.front:
        summary = experiment.summaries[run.configuration]
        outcome = summary.outcome
        if outcome.second_value is None:
            continue
        values = experiment.space.all_values(run.configuration)
        rows.append(
            FrontRow(
                run_id=run.id,
                values={name: level(value) for name, value in values.items()},
                value=outcome.value,
                second_value=outcome.second_value,
                n_runs=summary.n,
                feasible=outcome.feasible,
                is_baseline=run.configuration == experiment.opened.baseline,
            )
        )
    return tuple(rows)


def trade_points(experiment: Experiment) -> tuple[TradePoint, ...]:
    """Return a point for every configuration with two measured values."""
    front = {run.configuration for run in experiment.front}
    return tuple(
        TradePoint(
            run_id=summary.run.id,
            value=summary.outcome.value,
            second=summary.outcome.second_value,
            on_front=configuration in front,
            feasible=summary.outcome.feasible,
            is_baseline=configuration == experiment.opened.baseline,
        )
        for configuration, summary in experiment.summaries.items()
        if summary.outcome.second_value is not None
    )
