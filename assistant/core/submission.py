"""Submission: which runs a decision asks for, and the events that submit, import or assess them.

Pure functions; nothing here touches a clock, a store or an executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assistant.core.bounds import BATCH, LevelValues
from assistant.core.early_stopping import StopRule
from assistant.core.errors import ExperimentError, ObjectiveError
from assistant.core.events import (
    BatchSuggested,
    Event,
    RunCompleted,
    RunFailed,
    RunReturned,
    RunStarted,
    RunStopped,
    RunSubmitted,
)
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure, Objective, finite
from assistant.core.ports import ExecutionResult
from assistant.core.run import Outcome, Run, RunState, Source, random_stream
from assistant.core.sla import number_text
from strategies import Configuration, Knowledge, Level

_SOURCES: Mapping[str, Source] = {"initial": "initial", "confirmation": "replicate"}


@dataclass(frozen=True, slots=True)
class PastResult:
    """Earlier result to import: parameter values and measures."""

    values: LevelValues
    measures: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request to run one configuration, with its origin and reason.

    ``batch`` and ``position`` (from 0) name the suggestion that it comes from.
    """

    configuration: Configuration
    source: Source
    reason: str
    batch: int | None = None
    position: int | None = None


def knowledge_before_results(knowledge: Knowledge) -> Knowledge:
    """Return the knowledge without its results, the input for choosing the initial runs.

    The baseline run may have ended by then, but one result is not enough to learn from.
    """
    return Knowledge(knowledge.space, pending=knowledge.taken, earlier=knowledge.earlier)


def requests_from_batch(
    experiment: Experiment,
    batch: BatchSuggested,
    keep: Iterable[int] | None,
    edits: Mapping[int, Mapping[str, Level]],
) -> tuple[RunRequest, ...]:
    """Return run requests for the suggestions of a batch at positions ``keep`` (None for all).

    ``edits`` has changed levels by position; an edited position is always included.

    Raises:
        ExperimentError: a position that the batch does not have.
        StrategyError: an edit outside the space, or an excluded combination.
    """
    positions = set(range(len(batch.suggestions)) if keep is None else keep) | set(edits)
    for position in positions:
        if type(position) is not int:
            raise ExperimentError(f"a position in a batch is a whole number, not {position!r}")
    for position in sorted(positions):
        if not 0 <= position < len(batch.suggestions):
            raise ExperimentError(
                f"batch {batch.number} has no suggestion at position {position}; "
                f"it has {len(batch.suggestions)}, counted from 0"
            )
    requests = []
    for position in sorted(positions):
        suggestion = batch.suggestions[position]
        configuration = suggestion.configuration
        source = _SOURCES.get(suggestion.kind, "suggested")
        reason = suggestion.reason
        if edits.get(position):
            values = {**experiment.space.values(configuration), **edits[position]}
            edited = experiment.space.from_values(values)
            if edited != configuration:
                configuration, source = edited, "edited"
                changed = _values_text(edits[position])
                reason = f"suggestion {position + 1} of batch {batch.number}, changed to {changed}"
        requests.append(RunRequest(configuration, source, reason, batch.number, position))
    return tuple(requests)


def submit_runs(
    experiment: Experiment, requests: Sequence[RunRequest], now_s: float
) -> tuple[RunSubmitted, ...]:
    """Return the events that submit all requested runs, or raise if any of them is refused.

    Raises:
        ExperimentError: the experiment is finished, over budget or over its cost limit, or a
            configuration has a run already and is no replicate.
        StrategyError: a configuration that is not allowed (any more).
    """
    refuse_if_finished(experiment)
    charged = sum(request.source != "imported" for request in requests)
    if charged and experiment.sla.is_spent(experiment.cost):
        raise ExperimentError(cost_is_spent(experiment))
    remaining = experiment.remaining_runs
    if remaining is not None and charged > remaining:
        raise ExperimentError(
            f"the budget of {experiment.sla.max_runs} runs leaves {remaining}, "
            f"and {charged} were submitted; submit fewer"
        )
    run_ids: dict[Configuration, int] = {}  # of those submitted here
    events: list[RunSubmitted] = []
    for run_id, request in enumerate(requests, len(experiment.runs) + 1):
        if request.source not in _REPEATED:
            same = _run_of(experiment, request.configuration) or run_ids.get(request.configuration)
            if same is not None:
                values = _values_text(experiment.space.values(request.configuration))
                raise ExperimentError(
                    f"{values} is run {same} already; "
                    "choose another configuration, or repeat that run"
                )
        if request.source != "imported":
            experiment.space.check(request.configuration)
        run_ids.setdefault(request.configuration, run_id)
        sequence = random_stream(experiment.opened.seed, "run", run_id)
        seed = int(sequence.generate_state(1, np.uint32)[0])
        events.append(
            RunSubmitted(
                now_s,
                run_id,
                request.configuration,
                request.source,
                seed,
                request.reason,
                request.batch,
                request.position,
            )
        )
    return tuple(events)


def _run_of(experiment: Experiment, configuration: Configuration) -> int | None:
    """Return the last run of a configuration; a cancelled one may be submitted again."""
    runs = experiment.runs_of(configuration)
    return next((run.id for run in reversed(runs) if run.state is not RunState.CANCELLED), None)


def cost_is_spent(experiment: Experiment) -> str:
    """Return the error message for an experiment whose cost limit is used up."""
    sla, spent = experiment.sla, experiment.cost
    used = "" if sla.tariff is None else f" ({sla.tariff.amount(spent)} so far)"
    return f"the cost limit of {sla.cost_text} is used up{used}; set a higher limit to continue"


_REPEATED = ("replicate", "imported")


def replicate_requests(
    experiment: Experiment, of: int | Mapping[str, Level], n: int, reason: str
) -> tuple[RunRequest, ...]:
    """Return ``n`` requests that repeat a run, given by its number or its values.

    Raises:
        ExperimentError: there is no such run, ``n`` is below 1, or results are deterministic and
            one is there already.
        StrategyError: a value outside the space.
    """
    if type(n) is not int or n < 1:
        raise ExperimentError(f"a run is repeated a whole number of times from 1 on, not {n!r}")
    BATCH.check("the number of replicates", n)
    if isinstance(of, Mapping):
        configuration = experiment.space.from_values(of)
        runs = [run for run in experiment.runs if run.configuration == configuration]
        if not runs:
            raise ExperimentError(
                f"{_values_text(of)} has no run that could be repeated; include it first"
            )
        first = runs[0]
    else:
        first = experiment.run(of)
    if first.failure is None or experiment.summary(first) is not None:
        refuse_if_deterministic(experiment)
    reason = reason or f"run {first.id} again"
    return (RunRequest(first.configuration, "replicate", reason),) * n


def refuse_if_deterministic(experiment: Experiment) -> None:
    """Raise ExperimentError if the application is deterministic, as replicates are useless."""
    if experiment.opened.deterministic:
        raise ExperimentError(
            f"the application '{experiment.opened.application}' returns the same result for the "
            "same configuration every time; a replicate would add no information"
        )


def import_results(
    experiment: Experiment, results: Iterable[PastResult], replicates: bool, now_s: float
) -> tuple[Event, ...]:
    """Return the events that import earlier results as completed runs.

    A result with the same measures as a stored run is skipped. So is another result of a
    configuration that has a run, unless ``replicates`` is true or its measure ``seed`` is new.

    Raises:
        StrategyError: a value outside the space.
        ObjectiveError: a measure that the objective needs is missing.
    """
    measures_of: dict[Configuration, list[Mapping[str, Measure]]] = {}
    for run in experiment.runs:
        measures = {} if run.outcome is None else run.outcome.measures
        measures_of.setdefault(run.configuration, []).append(measures)
    requests, measured = [], []
    for result in results:
        configuration = experiment.space.from_values(result.values)
        measures = {name: finite(value) for name, value in result.measures.items()}
        experiment.opened.objective.assess(measures)
        earlier = measures_of.setdefault(configuration, [])
        if measures in earlier or (
            earlier and not replicates and not _is_other_seed(measures, earlier)
        ):
            continue
        earlier.append(measures)
        requests.append(RunRequest(configuration, "imported", "an earlier result"))
        measured.append(measures)
    events: list[Event] = []
    for submitted, measures in zip(submit_runs(experiment, requests, now_s), measured, strict=True):
        completion = ExecutionResult(submitted.run_id, measures, None, 0.0)
        judged = assess_completion(experiment, completion, now_s)
        events += [submitted, RunStarted(now_s, submitted.run_id), judged]
    return tuple(events)


def _is_other_seed(
    measures: Mapping[str, Measure], earlier: Sequence[Mapping[str, Measure]]
) -> bool:
    seeds = [other.get("seed") for other in earlier]
    return measures.get("seed") is not None and measures["seed"] not in seeds and None not in seeds


def assess_completion(
    experiment: Experiment, completion: ExecutionResult, now_s: float
) -> RunCompleted | RunFailed:
    """Return the event that ends a run: RunCompleted if its result is valid, else RunFailed."""
    return assess_measures(
        experiment.opened.objective, experiment.sla.run_limit_s, completion, now_s
    )


def assess_stop(
    experiment: Experiment, run: Run, reason: str, now_s: float, rule: StopRule | None = None
) -> RunStopped | RunFailed:
    """Return the event that ends a running run with its last intermediate result.

    RunFailed if that result is invalid.
    """
    lasted_s = max(0.0, now_s - (run.started_s or now_s))
    result = ExecutionResult(run.id, run.reported, None, lasted_s)
    judged = assess_completion(experiment, result, now_s)
    if isinstance(judged, RunFailed):
        return judged
    return RunStopped(now_s, run.id, judged.outcome, lasted_s, reason, rule)


def assess_report(experiment: Experiment, run_id: int, now_s: float) -> RunStopped | None:
    """Return the event that stops a run early after its latest intermediate result, or None."""
    settings, curves = experiment.early_stopping, experiment.curves
    run = experiment.run(run_id)
    if settings is None or curves is None or run.state is not RunState.RUNNING:
        return None
    why = curves.hopeless(run_id)
    if why is None or run.reported is None:
        return None
    ended = assess_stop(experiment, run, why, now_s, settings.rule)
    return ended if isinstance(ended, RunStopped) else None


MAX_ATTEMPTS = 3  # Lost workers after which a run has failed, because it may be what kills them


def assess_loss(
    run_id: int, n_lost: int, reason: str, now_s: float, max_attempts: int = MAX_ATTEMPTS
) -> RunReturned | RunFailed:
    """Return the event that follows when the process that executed a run has died.

    ``n_lost`` counts this loss and the earlier ones of the run: it waits again, or has failed after
    ``max_attempts`` losses.
    """
    if n_lost < max_attempts:
        return RunReturned(now_s, run_id, reason, lost=True)
    return RunFailed(
        now_s, run_id,
        f"{n_lost} workers were lost while they executed it, the last one because {reason}; it is "
        "not tried again",
        None,
    )  # fmt: skip


def assess_measures(
    objective: Objective, limit_s: float | None, completion: ExecutionResult, now_s: float
) -> RunCompleted | RunFailed:
    """Return RunCompleted for a finished run with valid measures, otherwise RunFailed.

    A run that took longer than ``limit_s`` seconds has failed, whatever it measured.
    """
    failure = completion.failure
    if failure is None and limit_s is not None and completion.duration_s > limit_s:
        failure = (
            f"it took {number_text(round(completion.duration_s, 3))} s, and the run limit is "
            f"{number_text(limit_s)} s"
        )
    if completion.measures is not None and failure is None:
        try:
            assessment = objective.assess(completion.measures)
        except ObjectiveError as error:
            failure = str(error)
        else:
            outcome = Outcome(
                completion.measures,
                assessment.value,
                assessment.quality,
                assessment.feasible,
                assessment.violation,
                assessment.second_value,
                assessment.second,
            )
            return RunCompleted(now_s, completion.run_id, outcome, completion.duration_s)
    return RunFailed(
        now_s, completion.run_id, failure or "the run gave no measures", completion.duration_s
    )


def refuse_if_finished(experiment: Experiment) -> None:
    """Raise ExperimentError if the experiment is finished."""
    if experiment.finished is not None:
        raise ExperimentError(
            f"experiment '{experiment.opened.experiment_id}' is finished "
            f"({experiment.finished.reason}); open a new one"
        )


def _values_text(values: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
