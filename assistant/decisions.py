"""The analyst's decisions as events: pure functions of the experiment and of what she wants.

Each either returns what shall be recorded or refuses with one sentence; the session stores and
applies. Nothing here touches a clock, a store or an executor.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assistant.errors import ExperimentError, ObjectiveError, SettingsError
from assistant.events import (
    BatchSuggested,
    Event,
    PlanSubmitted,
    RunCompleted,
    RunFailed,
    RunRated,
    RunStarted,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
)
from assistant.experiment import Experiment
from assistant.objective import Measure, Objective, finite
from assistant.ports import Completion, Result
from assistant.run import Outcome, RunState, Source
from assistant.sla import Steering, figure
from strategies import Configuration, Exclusion, Knowledge, Level, make_strategy

_PURPOSES = {"suggest": 1, "run": 2, "advise": 3, "forecast": 4}


def stream(seed: int, purpose: str, number: int) -> np.random.SeedSequence:
    """Return the named random stream of one batch, run or advice, the same in every replay."""
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], number))


_SOURCES: Mapping[str, Source] = {"initial": "initial", "confirmation": "replicate"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A configuration that somebody wants to run."""

    configuration: Configuration
    source: Source
    reason: str
    batch: int | None = None


def before_results(knowledge: Knowledge) -> Knowledge:
    """Return what was known before anything ended: the first runs are chosen without results.

    Today's run may have ended by then, but one result is no guide.
    """
    return Knowledge(knowledge.space, pending=knowledge.taken)


def taken_from(
    experiment: Experiment,
    batch: BatchSuggested,
    keep: Iterable[int] | None,
    edits: Mapping[int, Mapping[str, Level]],
) -> tuple[Wanted, ...]:
    """Return what is wanted of a batch: the kept suggestions, some with other levels.

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
    wanted = []
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
        wanted.append(Wanted(configuration, source, reason, batch.number))
    return tuple(wanted)


_EDITED = re.compile(r"suggestion (\d+) of batch (\d+), changed to ", re.ASCII)


def edited_reason(position: int, batch: int, edit: Mapping[str, Level]) -> str:
    """Return the reason of a run that was suggested otherwise; `edited_from` reads it."""
    return f"suggestion {position + 1} of batch {batch}, changed to {_values_text(edit)}"


def edited_from(reason: str) -> tuple[int, int] | None:
    """Return position (from 0) and batch of the suggestion that a run was edited from, if told.

    >>> edited_from(edited_reason(2, 5, {"x": 1})), edited_from("the analyst's own")
    ((2, 5), None)
    """
    found = _EDITED.match(reason)
    return None if found is None else (int(found[1]) - 1, int(found[2]))


def submission(
    experiment: Experiment, wanted: Sequence[Wanted], now_s: float
) -> tuple[RunSubmitted, ...]:
    """Return the submission of runs, all or none.

    Raises:
        ExperimentError: finished, over budget, the cost used up, or a configuration that was
            submitted before and is no replicate.
        StrategyError: a configuration that is not allowed (any more).
    """
    refuse_if_finished(experiment)
    charged = sum(one.source != "imported" for one in wanted)
    if charged and experiment.sla.is_spent(experiment.cost):
        raise ExperimentError(cost_is_spent(experiment))
    remaining = experiment.remaining_runs
    if remaining is not None and charged > remaining:
        raise ExperimentError(
            f"the budget of {experiment.sla.max_runs} runs leaves {remaining}, "
            f"and {charged} were submitted; submit fewer"
        )
    known = {
        run.configuration: run.id
        for run in experiment.runs
        if run.state is not RunState.CANCELLED  # who cancelled it may want it after all
    }
    events: list[RunSubmitted] = []
    for run_id, one in enumerate(wanted, len(experiment.runs) + 1):
        if one.configuration in known and one.source not in _REPEATED:
            values = _values_text(experiment.space.values(one.configuration))
            raise ExperimentError(
                f"{values} is run {known[one.configuration]} already; choose another configuration,"
                " or repeat that run"
            )
        if one.source != "imported":
            experiment.space.check(one.configuration)
        known.setdefault(one.configuration, run_id)
        sequence = stream(experiment.opened.seed, "run", run_id)
        seed = int(sequence.generate_state(1, np.uint32)[0])
        events.append(
            RunSubmitted(now_s, run_id, one.configuration, one.source, seed, one.reason, one.batch)
        )
    return tuple(events)


def cost_is_spent(experiment: Experiment) -> str:
    """Return why nothing more may be submitted, where the limit of cost is used up."""
    sla, spent = experiment.sla, experiment.cost
    used = "" if sla.tariff is None else f" ({sla.tariff.amount(spent)} so far)"
    return f"the cost of {sla.cost_text} is used up{used}; agree on a higher limit to go on"


_REPEATED = ("replicate", "imported")
"""Sources whose configuration may have a run already."""


def replication(
    experiment: Experiment, of: int | Mapping[str, Level], n: int, reason: str
) -> tuple[Wanted, ...]:
    """Return ``n`` more runs of a run's configuration, or of values that have a run.

    Raises:
        ExperimentError: there is no such run, ``n`` is below 1, or results do not vary.
        StrategyError: a value outside the space.
    """
    if type(n) is not int or n < 1:
        raise ExperimentError(f"a run is repeated a whole number of times from 1 on, not {n!r}")
    refuse_if_deterministic(experiment)
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
    reason = reason or f"run {first.id} again"
    return (Wanted(first.configuration, "replicate", reason),) * n


def refuse_if_deterministic(experiment: Experiment) -> None:
    """Raise ExperimentError if a replicate would only give the same result again."""
    if experiment.opened.deterministic:
        raise ExperimentError(
            f"the application '{experiment.opened.application}' gives the same result for the same "
            "configuration every time; a replicate would cost a run and tell nothing"
        )


def imported(
    experiment: Experiment, results: Iterable[Result], replicates: bool, now_s: float
) -> tuple[Event, ...]:
    """Return results from before as runs that are over.

    A result that is there already, with the same measures, is left out; so is another one of a
    configuration that has a run, unless it is a replicate: ``replicates`` says that such are, or
    its measure ``seed`` differs from those of all others.

    Raises:
        StrategyError: a value outside the space.
        ObjectiveError: a measure that the objective needs is missing.
    """
    known: dict[Configuration, list[Mapping[str, Measure]]] = {}
    for run in experiment.runs:
        measures = {} if run.outcome is None else run.outcome.measures
        known.setdefault(run.configuration, []).append(measures)
    wanted, measured = [], []
    for values, given in results:
        configuration = experiment.space.from_values(values)
        measures = {name: finite(value) for name, value in given.items()}
        experiment.opened.objective.assess(measures)
        earlier = known.setdefault(configuration, [])
        if measures in earlier or (
            earlier and not replicates and not _is_other_seed(measures, earlier)
        ):
            continue
        earlier.append(measures)
        wanted.append(Wanted(configuration, "imported", "a result from before"))
        measured.append(measures)
    events: list[Event] = []
    for submitted, measures in zip(submission(experiment, wanted, now_s), measured, strict=True):
        completion = Completion(submitted.run_id, measures, None, 0.0)
        judged = judgement(experiment, completion, now_s)
        events += [submitted, RunStarted(now_s, submitted.run_id), judged]
    return tuple(events)


def _is_other_seed(
    measures: Mapping[str, Measure], earlier: Sequence[Mapping[str, Measure]]
) -> bool:
    seeds = [other.get("seed") for other in earlier]
    return measures.get("seed") is not None and measures["seed"] not in seeds and None not in seeds


def judgement(
    experiment: Experiment, completion: Completion, now_s: float
) -> RunCompleted | RunFailed:
    """Return what the agreement and the objective make of a run that is over; see `judge`."""
    return judge(experiment.opened.objective, experiment.sla.run_limit_s, completion, now_s)


def judge(
    objective: Objective, limit_s: float | None, completion: Completion, now_s: float
) -> RunCompleted | RunFailed:
    """Return what an objective makes of a run that is over.

    One that took longer than ``limit_s`` seconds has failed, whatever it gave.
    """
    failure = completion.failure
    if failure is None and limit_s is not None and completion.duration_s > limit_s:
        failure = (
            f"it took {figure(round(completion.duration_s, 3))} s, and the agreement allows "
            f"{figure(limit_s)} s per run"
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
"""Of an exploitation level: it stays as it is, where None means no split."""


def steering(
    experiment: Experiment,
    strategy: str | None,
    options: Mapping[str, Level] | None,
    exploitation: float | Keep | None,
    now_s: float,
) -> SteeringChanged:
    """Return another steering. Options belong to their strategy.

    A strategy or options that are None stay; so does the exploitation level on ``"keep"``.

    Raises:
        StrategyError: an unknown strategy or option.
        SettingsError: an exploitation level outside 0 to 1.
    """
    refuse_if_finished(experiment)
    present = experiment.steering
    name = strategy or present.strategy
    kept = dict(present.options) if name == present.strategy else {}
    chosen = {**kept, **(options or {})}
    make_strategy(name, **chosen)
    level = present.exploitation if exploitation == "keep" else exploitation
    return SteeringChanged(now_s, Steering(name, chosen, level, present.weights))


def rating(experiment: Experiment, run_id: int, good: bool | None, now_s: float) -> RunRated:
    """Return the analyst's verdict on a result. Raises ExperimentError if there is no result."""
    run = experiment.run(run_id)
    if run.state is not RunState.COMPLETED:
        raise ExperimentError(f"run {run_id} is {run.state}; only a result can be rated")
    return RunRated(now_s, run_id, good)


def closing(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Close a level: it is proposed no more, what was run with it stays."""
    refuse_if_finished(experiment)
    space = experiment.space.closing(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} closed")


def reopening(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Open a closed level again."""
    refuse_if_finished(experiment)
    space = experiment.space.reopening(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} reopened")


def adding(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Add a level to a parameter."""
    refuse_if_finished(experiment)
    space = experiment.space.with_level(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} added")


def preferring(experiment: Experiment, parameter: str, value: Level, now_s: float) -> SpaceChanged:
    """Prefer a level: a share of the suggestions keeps to the preferred ones."""
    refuse_if_finished(experiment)
    space = experiment.space.preferring(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} preferred")


def unpreferring(
    experiment: Experiment, parameter: str, value: Level, now_s: float
) -> SpaceChanged:
    """Prefer a level no more."""
    refuse_if_finished(experiment)
    space = experiment.space.unpreferring(parameter, value)
    return SpaceChanged(now_s, space, f"{parameter}={value} preferred no more")


def excluding(experiment: Experiment, condition: str, now_s: float) -> SpaceChanged:
    """Forbid the combinations that meet a condition."""
    refuse_if_finished(experiment)
    space = experiment.space.excluding(Exclusion.parse(condition))
    space.count_allowed()  # a condition that cannot be evaluated somewhere is refused now
    return SpaceChanged(now_s, space, f"excluded: {condition}")


def plan(
    experiment: Experiment, levels: Mapping[str, Sequence[Level]], now_s: float
) -> PlanSubmitted:
    """Return a range of values as the pending strategy; parameters not named keep all levels.

    Raises:
        StrategyError: an unknown parameter or level.
        SettingsError: a parameter without a level.
    """
    refuse_if_finished(experiment)
    chosen: dict[str, tuple[Level, ...]] = {}
    for name, values in levels.items():
        parameter = experiment.space.parameter(name)
        if not values:
            raise SettingsError(f"the plan names no level of '{name}'; name at least one")
        chosen[name] = tuple(parameter.levels[parameter.level_id(value)] for value in values)
    return PlanSubmitted(now_s, chosen)


def refuse_if_finished(experiment: Experiment) -> None:
    """Raise ExperimentError if the experiment is finished."""
    if experiment.finished is not None:
        raise ExperimentError(
            f"experiment '{experiment.opened.experiment_id}' is finished "
            f"({experiment.finished.reason}); open a new one"
        )


def _values_text(values: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
