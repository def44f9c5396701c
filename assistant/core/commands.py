"""Commands: pure functions that turn a decision of the analyst into events of an experiment.

Each function returns the events to record, or raises an error with one sentence. The session
stores and applies the events. Nothing here touches a clock, a store or an executor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from assistant.core.bounds import BATCH, PRIORITY
from assistant.core.errors import (
    ExperimentError,
    ImpossibleValueError,
    ObjectiveError,
    SettingsError,
    VersionConflictError,
)
from assistant.core.events import (
    Alternative,
    Answer,
    AutoSteeringChanged,
    BatchSuggested,
    BudgetChanged,
    Event,
    ExperimentDeleted,
    ExperimentRenamed,
    ExperimentTagged,
    ExperimentUndeleted,
    PlanSubmitted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunRated,
    RunReleased,
    RunStarted,
    RunStopped,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
    WarningAnswered,
    WarningPolicyChanged,
)
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure, Objective, finite
from assistant.core.ports import ExecutionResult, Result
from assistant.core.run import Outcome, Run, RunState, Source
from assistant.core.sla import AutoSteering, Sla, Steering, WarningPolicy, number_text
from strategies import (
    Configuration,
    Exclusion,
    Knowledge,
    Level,
    make_strategy,
    region_index,
)

_PURPOSES = {"suggest": 1, "run": 2, "advise": 3, "forecast": 4}


def random_stream(seed: int, purpose: str, number: int) -> np.random.SeedSequence:
    """Return the seed sequence of one batch, run, warning or forecast, equal in every replay."""
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], number))


_SOURCES: Mapping[str, Source] = {"initial": "initial", "confirmation": "replicate"}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request to run one configuration, with its origin and reason."""

    configuration: Configuration
    source: Source
    reason: str
    batch: int | None = None


def knowledge_before_results(knowledge: Knowledge) -> Knowledge:
    """Return the knowledge without its results, the input for choosing the initial runs.

    The baseline run may have ended by then, but one result is not enough to learn from.
    """
    return Knowledge(knowledge.space, pending=knowledge.taken)


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
                reason = edited_reason(position, batch.number, edits[position])
        requests.append(RunRequest(configuration, source, reason, batch.number))
    return tuple(requests)


_EDITED = re.compile(r"suggestion (\d+) of batch (\d+), changed to ", re.ASCII)


def edited_reason(position: int, batch: int, edit: Mapping[str, Level]) -> str:
    """Return the reason text of a run whose suggestion was edited by the analyst."""
    return f"suggestion {position + 1} of batch {batch}, changed to {_values_text(edit)}"


def edited_from(reason: str) -> tuple[int, int] | None:
    """Parse a reason text into position (from 0) and batch of the suggestion, or return None.

    >>> edited_from(edited_reason(2, 5, {"x": 1})), edited_from("the analyst's own")
    ((2, 5), None)
    """
    match = _EDITED.match(reason)
    return None if match is None else (int(match[1]) - 1, int(match[2]))


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
    run_ids = {
        run.configuration: run.id
        for run in experiment.runs
        if run.state is not RunState.CANCELLED  # a cancelled configuration may be submitted again
    }
    events: list[RunSubmitted] = []
    for run_id, request in enumerate(requests, len(experiment.runs) + 1):
        if request.configuration in run_ids and request.source not in _REPEATED:
            values = _values_text(experiment.space.values(request.configuration))
            raise ExperimentError(
                f"{values} is run {run_ids[request.configuration]} already; "
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
            )
        )
    return tuple(events)


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
    experiment: Experiment, results: Iterable[Result], replicates: bool, now_s: float
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
    for values, raw_measures in results:
        configuration = experiment.space.from_values(values)
        measures = {name: finite(value) for name, value in raw_measures.items()}
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


Keep = Literal["keep"]
"""Value of an exploitation level that keeps the present one; None means no split."""


def change_steering(
    experiment: Experiment,
    strategy: str | None,
    options: Mapping[str, Level] | None,
    exploitation: float | Keep | None,
    now_s: float,
) -> SteeringChanged:
    """Return the event that changes strategy, options or exploitation level.

    A strategy or options that are None stay as they are; other options of another strategy are
    dropped.

    Raises:
        StrategyError: an unknown strategy or option.
        SettingsError: an exploitation level outside 0 to 1.
    """
    refuse_if_finished(experiment)
    present = experiment.steering
    name = strategy or present.strategy
    present_options = dict(present.options) if name == present.strategy else {}
    merged_options = {**present_options, **(options or {})}
    make_strategy(name, **merged_options)
    level = present.exploitation if exploitation == "keep" else exploitation
    return SteeringChanged(now_s, Steering(name, merged_options, level, present.weights))


def rate_run(experiment: Experiment, run_id: int, good: bool | None, now_s: float) -> RunRated:
    """Return the event that rates a completed run; raise ExperimentError for any other run."""
    run = experiment.run(run_id)
    if run.state is not RunState.COMPLETED:
        raise ExperimentError(f"run {run_id} is {run.state}; only a completed run can be rated")
    return RunRated(now_s, run_id, good)


def close_level(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Return the event that closes a parameter level, so that no new suggestion uses it."""
    refuse_if_finished(experiment)
    space = experiment.space.closing(parameter, value)
    space.check_not_empty()
    return SpaceChanged(now_s, space, f"{parameter}={value} closed")


def reopen_level(
    experiment: Experiment, parameter: str, value: Level, now_s: float
) -> SpaceChanged:
    """Return the event that reopens a closed parameter level for new suggestions."""
    refuse_if_finished(experiment)
    space = experiment.space.reopening(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} reopened")


def add_level(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Return the event that adds a level to a parameter."""
    refuse_if_finished(experiment)
    space = experiment.space.with_level(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} added")


def prefer_level(
    experiment: Experiment, parameter: str, value: Level, now_s: float
) -> SpaceChanged:
    """Return the event that marks a level as preferred, to be used in more suggestions."""
    refuse_if_finished(experiment)
    space = experiment.space.preferring(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} preferred")


def unprefer_level(
    experiment: Experiment, parameter: str, value: Level, now_s: float
) -> SpaceChanged:
    """Return the event that removes the preferred mark from a level."""
    refuse_if_finished(experiment)
    space = experiment.space.unpreferring(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} no longer preferred")


def exclude_combinations(experiment: Experiment, condition: str, now_s: float) -> SpaceChanged:
    """Return the event that excludes all parameter combinations that meet a condition."""
    refuse_if_finished(experiment)
    space = experiment.space.excluding(Exclusion.parse(condition))
    space.check_not_empty()
    return SpaceChanged(now_s, space, f"excluded: {condition}")


def submit_plan(
    experiment: Experiment, levels: Mapping[str, Sequence[Level]], now_s: float
) -> PlanSubmitted:
    """Return the event that records which levels of each parameter the analyst plans to try.

    Raises:
        StrategyError: an unknown parameter or level.
        SettingsError: a parameter without a level.
    """
    refuse_if_finished(experiment)
    planned_levels: dict[str, tuple[Level, ...]] = {}
    for name, values in levels.items():
        parameter = experiment.space.parameter(name)
        if not values:
            raise SettingsError(f"the plan names no level of '{name}'; name at least one")
        planned_levels[name] = tuple(
            parameter.levels[parameter.level_id(value)] for value in values
        )
    return PlanSubmitted(now_s, planned_levels)


MOST_CHARACTERS = 200  # of the name of an experiment, or of one tag
MOST_TAGS = 50


def rename_experiment(experiment: Experiment, name: str, now_s: float) -> ExperimentRenamed | None:
    """Return the event that gives another name; None if it has that name."""
    name = _label("the name of an experiment", name)
    return None if name == experiment.opened.name else ExperimentRenamed(now_s, name)


def tag_experiment(
    experiment: Experiment, add: Sequence[str], remove: Sequence[str], now_s: float
) -> ExperimentTagged | None:
    """Return the event that adds and removes tags; None if that changes nothing.

    Raises ExperimentError: a tag that is empty or too long, or one to remove that is not there.
    """
    for tag in remove:
        if tag not in experiment.tags:
            present = ", ".join(experiment.tags) or "none"
            raise ExperimentError(f"there is no tag '{tag}' to remove; the tags are: {present}")
    tags = dict.fromkeys(tag for tag in experiment.tags if tag not in remove)
    tags |= dict.fromkeys(_label("a tag", tag) for tag in add)
    if len(tags) > MOST_TAGS:
        raise ExperimentError(f"an experiment has at most {MOST_TAGS} tags; remove some")
    return None if tuple(tags) == experiment.tags else ExperimentTagged(now_s, tuple(tags))


def _label(subject: str, text: str) -> str:
    stripped = text.strip()
    if not stripped or len(stripped) > MOST_CHARACTERS or not stripped.isprintable():
        raise ExperimentError(
            f"{subject} has 1 to {MOST_CHARACTERS} printable characters, not {text[:40]!r}"
        )
    return stripped


def delete_experiment(experiment: Experiment, now_s: float) -> ExperimentDeleted:
    """Return the event that deletes an experiment, so that lists leave it out.

    Raises ExperimentError: it is deleted already, or runs are running.
    """
    name = experiment.opened.experiment_id
    if experiment.is_deleted:
        raise ExperimentError(f"experiment '{name}' is deleted already")
    n = len(experiment.runs_in(RunState.RUNNING))
    if n:
        raise ExperimentError(
            f"{'1 run is' if n == 1 else f'{n} runs are'} running in experiment '{name}'; wait, or "
            "cancel with copperline queue --cancel, then delete it"
        )
    return ExperimentDeleted(now_s)


def undelete_experiment(experiment: Experiment, now_s: float) -> ExperimentUndeleted:
    """Return the event that undoes a deletion, or raise ExperimentError if there is none."""
    if not experiment.is_deleted:
        raise ExperimentError(f"experiment '{experiment.opened.experiment_id}' is not deleted")
    return ExperimentUndeleted(now_s)


def refuse_if_finished(experiment: Experiment) -> None:
    """Raise ExperimentError if the experiment is finished."""
    if experiment.finished is not None:
        raise ExperimentError(
            f"experiment '{experiment.opened.experiment_id}' is finished "
            f"({experiment.finished.reason}); open a new one"
        )


def _values_text(values: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def answer_warning(
    experiment: Experiment,
    reply: Answer,
    exploitation: float | None,
    alternative: int | None,
    now_s: float,
) -> tuple[WarningAnswered, Alternative | None]:
    """Return the event that answers the open warning, and the accepted alternative or None.

    A warning by the paper's rule proposes an exploitation level. A warning by the forecast proposes
    alternatives; accepting without a number takes the first.

    Raises:
        ExperimentError: no warning is open, or the arguments contradict each other.
        SettingsError: a level outside 0 to 1.
    """
    warning = experiment.open_warning
    if warning is None:
        raise ExperimentError("there is no open warning to answer")
    if reply == "changed" and exploitation is None:
        raise ExperimentError("name the exploitation level to change to, 0 to 1")
    if reply != "changed" and exploitation is not None:
        raise ExperimentError("only the answer 'changed' takes an exploitation level")
    if reply != "accepted" and alternative is not None:
        raise ExperimentError("only the answer 'accepted' takes an alternative")
    level = exploitation if reply == "changed" else experiment.steering.exploitation
    Steering(exploitation=level)  # refuses a level outside 0 to 1
    if reply != "accepted":
        return WarningAnswered(now_s, warning.number, reply, level), None
    if warning.basis == "paper" and alternative is None:
        return WarningAnswered(now_s, warning.number, reply, warning.exploitation), None
    proposed = warning.alternatives
    if not proposed:
        raise ExperimentError(
            f"warning {warning.number} proposes no alternative that can be accepted; ignore it, or "
            "change it to an exploitation level"
        )
    which = alternative or 0
    if type(which) is not int or not 0 <= which < len(proposed):
        raise ExperimentError(
            f"warning {warning.number} has no alternative at position {alternative}; it has "
            f"{len(proposed)}, counted from 0"
        )
    accepted = proposed[which]
    if accepted.kind == "exploitation" and accepted.steering is not None:
        level = accepted.steering.exploitation
    return WarningAnswered(now_s, warning.number, reply, level, which), accepted


def weigh_region(
    experiment: Experiment, region_id: int, weight: float, now_s: float
) -> SteeringChanged:
    """Return the event that sets the weight of a region (default 1) in exploiting suggestions.

    Raises:
        ExperimentError: there is no such region, or no exploitation level is set.
        SettingsError: the weight is not a number from 0 on.
    """
    refuse_if_finished(experiment)
    present, rule = experiment.steering, experiment.warning_policy.regions
    if present.exploitation is None:
        raise ExperimentError(
            "no exploitation level is set, so weights of regions have no effect; set an "
            "exploitation level first"
        )
    regions = experiment.regions
    matches = [region for region in regions if region.id == region_id]
    if not matches:
        there = f"regions are numbered 1 to {len(regions)}" if regions else "there is none yet"
        raise ExperimentError(f"there is no region {region_id}; {there}")
    space = experiment.space
    other_weights = tuple(
        (at, region_weight)
        for at, region_weight in present.weights
        if region_index(at, regions, space, rule.radius) != regions.index(matches[0])
    )
    region_weight = ((matches[0].best.configuration, weight),) if weight != 1 else ()
    return SteeringChanged(now_s, replace(present, weights=(*other_weights, *region_weight)))


def change_sla(experiment: Experiment, sla: Sla, now_s: float) -> BudgetChanged:
    """Return the event that changes the SLA.

    Raises SettingsError: not an Sla, or its goal is missing although warnings use the forecast.
    """
    refuse_if_finished(experiment)
    if not isinstance(sla, Sla):
        raise SettingsError(f"the SLA must be an Sla, not {sla!r}")
    experiment.warning_policy.warns_by_forecast(sla)
    return BudgetChanged(now_s, sla)


def change_warning_policy(
    experiment: Experiment, policy: WarningPolicy, now_s: float
) -> WarningPolicyChanged:
    """Return the event that changes the warning policy.

    Raises SettingsError: not a WarningPolicy, or the forecast shall warn and the SLA has no goal.
    """
    refuse_if_finished(experiment)
    if not isinstance(policy, WarningPolicy):
        raise SettingsError(f"a warning policy is a WarningPolicy, not {policy!r}")
    policy.warns_by_forecast(experiment.sla)
    return WarningPolicyChanged(now_s, policy)


def change_auto_steering(
    experiment: Experiment, auto_steering: AutoSteering | None, reason: str, now_s: float
) -> AutoSteeringChanged | None:
    """Return the event that starts auto-steering or (if None) ends it; None if it was off already.

    Raises:
        ExperimentError: the experiment is finished, or its SLA has no limit to end it.
        SettingsError: ``auto_steering`` is not an AutoSteering.
    """
    refuse_if_finished(experiment)
    if auto_steering is None and experiment.auto_steering is None:
        return None
    if auto_steering is not None and not isinstance(auto_steering, AutoSteering):
        raise SettingsError(f"auto-steering must be an AutoSteering, not {auto_steering!r}")
    if auto_steering is not None and not experiment.sla.is_limited:
        raise ExperimentError(
            "a sweep without a budget of runs, a deadline or a cost limit would not end by "
            "itself; set one first"
        )
    return AutoSteeringChanged(now_s, auto_steering, reason)


def close_levels(
    experiment: Experiment, levels: Iterable[tuple[str, Level]], now_s: float
) -> tuple[SpaceChanged, ...]:
    """Return the events that close several levels, one after another."""
    refuse_if_finished(experiment)
    space, events = experiment.space, list[SpaceChanged]()
    for name, value in levels:
        space = space.closing(name, value)
        events.append(SpaceChanged(now_s, space, f"{name}={value} closed"))
    space.check_not_empty()
    return tuple(events)


OVER = (RunState.COMPLETED, RunState.FAILED)


def prioritise_run(
    experiment: Experiment, run_id: int, priority: float, now_s: float
) -> RunPrioritised:
    """Return the event that sets the priority of a waiting run.

    Raises:
        ImpossibleValueError: the priority is not finite or out of range.
        ExperimentError: the run does not wait.
    """
    if priority not in PRIORITY:
        raise ImpossibleValueError(f"a priority must be {PRIORITY}, not {priority}")
    _waiting(experiment, run_id, "be given another priority")
    return RunPrioritised(now_s, run_id, float(priority))


def prioritise_first(experiment: Experiment, run_id: int, now_s: float) -> RunPrioritised:
    """Return the event that gives a waiting run the highest priority of all waiting runs."""
    highest = max((run.priority for run in experiment.waiting if run.id != run_id), default=0.0)
    return prioritise_run(experiment, run_id, math.floor(highest) + 1.0, now_s)


def priorities_ahead(experiment: Experiment, run_ids: Collection[int]) -> Mapping[int, float]:
    """Return priorities by run number that move waiting runs ahead of all others, in their order.

    Empty if they are first already.
    Raises ExperimentError: one of the numbers is no run, or the run does not wait.
    """
    moved, rest = _parted(experiment, run_ids)
    if not rest or max(map(_turn, moved)) < min(map(_turn, rest)):
        return {}
    front = math.floor(max(run.priority for run in rest)) + 1.0
    ranks = sorted({run.priority for run in moved})
    return {run.id: front + ranks.index(run.priority) for run in sorted(moved, key=_turn)}


def priorities_behind(experiment: Experiment, run_ids: Collection[int]) -> Mapping[int, float]:
    """Return priorities by run number that move waiting runs behind all others, in order."""
    moved, rest = _parted(experiment, run_ids)
    if not rest or min(map(_turn, moved)) > max(map(_turn, rest)):
        return {}
    end = math.ceil(min(run.priority for run in rest)) - 1.0
    ranks = sorted({run.priority for run in moved}, reverse=True)
    return {run.id: end - ranks.index(run.priority) for run in sorted(moved, key=_turn)}


def _turn(run: Run) -> tuple[float, int]:
    return -run.priority, run.id


def _parted(experiment: Experiment, run_ids: Collection[int]) -> tuple[list[Run], list[Run]]:
    moved = [_waiting(experiment, run_id, "be moved in the queue") for run_id in run_ids]
    if not moved:
        raise ExperimentError("no run is named; name the runs to move in the queue")
    return moved, [run for run in experiment.waiting if run.id not in run_ids]


def changes_since(earlier_runs: Iterable[Run], experiment: Experiment) -> tuple[str, ...]:
    """Return one sentence for each run that has changed since ``earlier_runs`` were displayed.

    A decision holds for the run as the analyst saw it, so callers refuse a stale one with these
    texts.
    """
    pairs = ((run, experiment.run(run.id)) for run in earlier_runs)
    return tuple(f"run {now.id} {_became(then, now)}" for then, now in pairs if _became(then, now))


def _became(then: Run, now: Run) -> str:
    if now.state is not then.state:
        return _BECAME[now.state]
    if now.held is not then.held:
        return "was held" if now.held else "was released"
    return f"was given priority {now.priority:g}" if now.priority != then.priority else ""


_BECAME = {
    RunState.QUEUED: "waits again",
    RunState.RUNNING: "has started",
    RunState.COMPLETED: "has completed",
    RunState.FAILED: "has failed",
    RunState.CANCELLED: "was cancelled",
}


def hold_run(experiment: Experiment, run_id: int, now_s: float) -> RunHeld | None:
    """Return the event that puts a waiting run on hold, or None if the run is held already."""
    return None if _waiting(experiment, run_id, "be held").held else RunHeld(now_s, run_id)


def release_run(experiment: Experiment, run_id: int, now_s: float) -> RunReleased | None:
    """Return the event that releases a held run, or None if the run is not held."""
    run = _waiting(experiment, run_id, "be released")
    return RunReleased(now_s, run_id) if run.held else None


def cancel_run(
    experiment: Experiment, run_id: int, reason: str, now_s: float
) -> RunCancelled | None:
    """Return the event that cancels an open run, or None if the run is cancelled already."""
    run = experiment.run(run_id)
    if run.state is RunState.CANCELLED:
        return None
    if run.state in OVER:
        raise ExperimentError(f"run {run_id} has {run.state} already; it cannot be cancelled")
    return RunCancelled(now_s, run_id, reason or "the analyst cancelled it")


def stop_run(experiment: Experiment, run_id: int, reason: str, now_s: float) -> RunStopped | None:
    """Return the event that ends a run with its last intermediate result; None if already stopped.

    Raises ExperimentError: it is not running, or it has no intermediate result that can be
    assessed.
    """
    run = experiment.run(run_id)
    if run.stopped is not None:
        return None
    if run.state is not RunState.RUNNING or run.started_s is None:
        raise ExperimentError(
            f"run {run_id} is {run.state}; only a running run can be stopped with its result"
        )
    if run.reported is None:
        raise ExperimentError(
            f"run {run_id} has no intermediate result yet, so there is nothing to keep; cancel it, "
            "or wait for an intermediate result"
        )
    lasted_s = max(0.0, now_s - run.started_s)
    judged = assess_completion(
        experiment, ExecutionResult(run_id, run.reported, None, lasted_s), now_s
    )
    if isinstance(judged, RunFailed):
        raise ExperimentError(
            f"the intermediate result of run {run_id} is invalid: {judged.failure}; cancel it, or "
            "let it continue"
        )
    return RunStopped(now_s, run_id, judged.outcome, lasted_s, reason)


def _waiting(experiment: Experiment, run_id: int, action: str) -> Run:
    run = experiment.run(run_id)
    if run.state is not RunState.QUEUED:
        raise ExperimentError(f"run {run_id} is {run.state}; only a waiting run can {action}")
    return run


def refuse_other_version(experiment: Experiment, version: int) -> None:
    """Raise VersionConflictError if the experiment has changed since version ``version``."""
    if experiment.version != version:
        raise VersionConflictError(
            f"experiment '{experiment.opened.experiment_id}' is at version {experiment.version}, "
            f"and the decision was made at {version}; load it again"
        )
