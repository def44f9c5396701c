"""The analyst's decisions as events: pure functions of the experiment and of what she wants.

Each either returns what shall be recorded or refuses with one sentence; the session stores and
applies. Nothing here touches a clock, a store or an executor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assistant.errors import ExperimentError, ObjectiveError, SettingsError
from assistant.events import (
    AdviceAnswered,
    Answer,
    BatchSuggested,
    PlanSubmitted,
    RunCompleted,
    RunFailed,
    RunRated,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
)
from assistant.experiment import Experiment
from assistant.ports import Completion
from assistant.run import Outcome, RunState, Source
from assistant.sla import Steering
from strategies import Configuration, Exclusion, Level, make_strategy

_PURPOSES = {"suggest": 1, "run": 2, "advise": 3}


def stream(seed: int, purpose: str, number: int) -> np.random.SeedSequence:
    """Return the named random stream of one batch, run or advice, the same in every replay."""
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], number))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A configuration that somebody wants to run."""

    configuration: Configuration
    source: Source
    reason: str
    batch: int | None = None


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
        source: Source = "initial" if suggestion.kind == "initial" else "suggested"
        reason = suggestion.reason
        if edits.get(position):
            values = {**experiment.space.values(configuration), **edits[position]}
            edited = experiment.space.from_values(values)
            if edited != configuration:
                names = ", ".join(f"{name}={value}" for name, value in edits[position].items())
                configuration, source = edited, "edited"
                reason = f"suggestion {position + 1} of batch {batch.number}, changed to {names}"
        wanted.append(Wanted(configuration, source, reason, batch.number))
    return tuple(wanted)


def submission(
    experiment: Experiment, wanted: Sequence[Wanted], now_s: float
) -> tuple[RunSubmitted, ...]:
    """Return the submission of runs, all or none.

    Raises:
        ExperimentError: finished, over budget, or a configuration that was submitted before.
        StrategyError: a configuration that is not allowed (any more).
    """
    refuse_if_finished(experiment)
    charged = sum(one.source != "imported" for one in wanted)
    remaining = experiment.remaining_runs
    if remaining is not None and charged > remaining:
        raise ExperimentError(
            f"the budget of {experiment.sla.max_runs} runs leaves {remaining}, "
            f"and {charged} were submitted; submit fewer"
        )
    known = {run.configuration: run.id for run in experiment.runs}
    events = []
    for run_id, one in enumerate(wanted, len(experiment.runs) + 1):
        if one.configuration in known:
            values = _values_text(experiment.space.values(one.configuration))
            raise ExperimentError(
                f"{values} is run {known[one.configuration]} already; choose another configuration"
            )
        if one.source != "imported":
            experiment.space.check(one.configuration)
        known[one.configuration] = run_id
        sequence = stream(experiment.opened.seed, "run", run_id)
        seed = int(sequence.generate_state(1, np.uint32)[0])
        events.append(
            RunSubmitted(now_s, run_id, one.configuration, one.source, seed, one.reason, one.batch)
        )
    return tuple(events)


def judgement(
    experiment: Experiment, completion: Completion, now_s: float
) -> RunCompleted | RunFailed:
    """Return what the objective makes of a run that is over."""
    failure = completion.failure
    if completion.measures is not None and failure is None:
        try:
            assessment = experiment.opened.objective.assess(completion.measures)
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


def answer(
    experiment: Experiment, given: Answer, exploitation: float | None, now_s: float
) -> AdviceAnswered:
    """Return the answer to the open advice.

    Raises:
        ExperimentError: no advice is open, or ``changed`` comes without a level.
        SettingsError: a level outside 0 to 1.
    """
    advice = experiment.open_advice
    if advice is None:
        raise ExperimentError("there is no open advice to answer")
    present = experiment.steering.exploitation
    if given == "changed" and exploitation is None:
        raise ExperimentError("say which exploitation level the advice is changed to, 0 to 1")
    if given != "changed" and exploitation is not None:
        raise ExperimentError("only a changed advice names an exploitation level")
    level = {"accepted": advice.exploitation, "changed": exploitation, "ignored": present}[given]
    Steering(exploitation=level)  # refuses a level outside 0 to 1
    return AdviceAnswered(now_s, advice.number, given, level)


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
    return SteeringChanged(now_s, Steering(name, chosen, level))


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
