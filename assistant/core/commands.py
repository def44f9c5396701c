"""Commands: one frozen value for each decision of a person, an agent or a client.

`Command.decide` turns the command into the events to record, or raises an error with one sentence.
It is a pure function: the session stores and applies the events. The fields of a command are the
body of its request (`Command.route`), so a session, the service and its clients need no code of
their own for it. Commands that also need an analysis are in `assistant.session.commands`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from assistant.core.bounds import (
    PRIORITY,
    REGION_WEIGHT,
    Count,
    LevelValue,
    LevelValues,
    Name,
    Position,
    PositiveNumber,
    Priority,
    Share,
    Text,
)
from assistant.core.early_stopping import EarlyStopping
from assistant.core.errors import (
    ExperimentError,
    ImpossibleValueError,
    SettingsError,
    VersionConflictError,
)
from assistant.core.events import (
    AutoSteeringChanged,
    BudgetChanged,
    EarlyStoppingChanged,
    Event,
    ExperimentDeleted,
    ExperimentFinished,
    ExperimentRenamed,
    ExperimentReopened,
    ExperimentTagged,
    ExperimentUndeleted,
    PlanSubmitted,
    RunCancelled,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunRated,
    RunReleased,
    RunReturned,
    SpaceChanged,
    SteeringChanged,
    WarningPolicyChanged,
)
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.core.sla import AutoSteering, Sla, Steering, WarningPolicy
from assistant.core.submission import (
    PastResult,
    RunRequest,
    assess_stop,
    import_results,
    refuse_if_finished,
    replicate_requests,
    requests_from_batch,
    submit_runs,
)
from strategies import Exclusion, Level, make_strategy, region_index


@dataclass(frozen=True, slots=True)
class Route:
    """Request of a command, under the path of the experiment; ``{name}`` in it is a field.

    The other fields are the body; with ``body`` that field alone is the whole body.
    """

    path: str
    method: Literal["POST", "PATCH"] = "POST"
    body: str | None = None


class Command(ABC):
    """Decision on an experiment: its fields, its events and its request."""

    __slots__ = ()
    route: ClassVar[Route]

    @abstractmethod
    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the events of the decision; none if it changes nothing.

        ``now_s`` is in seconds since 1970-01-01 UTC. Raises AssistantError, StrategyError: the
        decision is refused.
        """


# -- submission ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitBatch(Command):
    """Submit all or some suggestions of a batch as runs, with edits; this rejects the others.

    ``keep`` are positions from 0 (None for all); ``edits`` has changed levels by position, which
    include the suggestion.
    """

    number: PositiveNumber
    keep: Annotated[Sequence[Position], Field(max_length=1000)] | None = None
    edits: Mapping[int, LevelValues] = field(default_factory=dict)

    route = Route("/batches/{number}/submission")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the events that submit the runs."""
        batches = experiment.batches
        if not 1 <= self.number <= len(batches):
            raise ExperimentError(f"there is no batch {self.number}; the latest is {len(batches)}")
        batch = batches[self.number - 1]
        requests = requests_from_batch(experiment, batch, self.keep, self.edits)
        return submit_runs(experiment, requests, now_s)


@dataclass(frozen=True, slots=True)
class IncludeRun(Command):
    """Submit one run of a configuration that the user has chosen."""

    values: LevelValues
    reason: Text = ""

    route = Route("/runs")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that submits the run."""
        configuration = experiment.space.from_values(self.values)
        experiment.space.check(configuration)
        return submit_runs(experiment, [RunRequest(configuration, "analyst", self.reason)], now_s)


@dataclass(frozen=True, slots=True)
class ReplicateRun(Command):
    """Submit replicates (repeat runs) of a configuration that already has a run.

    ``of`` is the number of a run, or values by parameter.
    """

    of: PositiveNumber | LevelValues
    n: Count = 1
    reason: Text = ""

    route = Route("/replicates")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the events that submit the replicates."""
        requests = replicate_requests(experiment, self.of, self.n, self.reason)
        return submit_runs(experiment, requests, now_s)


@dataclass(frozen=True, slots=True)
class SubmitBaseline(Command):
    """Submit a run of the baseline configuration, unless it already has one."""

    route = Route("/baseline")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that submits the baseline; none without a baseline."""
        baseline = experiment.opened.baseline
        if baseline is None or experiment.baseline is not None:
            return ()
        request = RunRequest(baseline, "baseline", "the current configuration")
        return submit_runs(experiment, [request], now_s)


@dataclass(frozen=True, slots=True)
class ImportResults(Command):
    """Import earlier results, all or none; they do not count against the budget.

    ``replicates`` says whether other measures of a configuration that has a run are a replicate; a
    result with a new measure ``seed`` always is one.
    """

    results: Sequence[PastResult]
    replicates: bool = False

    route = Route("/import")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the events of the results that are new."""
        return import_results(experiment, self.results, self.replicates, now_s)


# -- the queue -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrioritiseRun(Command):
    """Set the priority of a waiting run; it applies from the next lease on.

    The default is 0, higher starts earlier; ``first`` starts it before all others.
    """

    run: PositiveNumber
    priority: Priority | Literal["first"]

    route = Route("/runs/{run}", "PATCH")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that sets the priority."""
        priority = self.priority
        if priority == "first":
            others = (run.priority for run in experiment.waiting if run.id != self.run)
            priority = math.floor(max(others, default=0.0)) + 1.0
        if priority not in PRIORITY:
            raise ImpossibleValueError(f"a priority must be {PRIORITY}, not {priority}")
        _waiting(experiment, self.run, "be given another priority")
        return (RunPrioritised(now_s, self.run, float(priority)),)


@dataclass(frozen=True, slots=True)
class HoldRun(Command):
    """Put a waiting run on hold until it is released."""

    run: PositiveNumber

    route = Route("/runs/{run}/hold")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that holds the run; none if it is held already."""
        run = _waiting(experiment, self.run, "be held")
        return () if run.held else (RunHeld(now_s, run.id),)


@dataclass(frozen=True, slots=True)
class ReleaseRun(Command):
    """Release a run on hold, so that it may start again."""

    run: PositiveNumber

    route = Route("/runs/{run}/release")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that releases the run; none if it is not held."""
        run = _waiting(experiment, self.run, "be released")
        return (RunReleased(now_s, run.id),) if run.held else ()


@dataclass(frozen=True, slots=True)
class CancelRun(Command):
    """Cancel a waiting or running run; one that never started uses none of the budget."""

    run: PositiveNumber
    reason: Text = ""

    route = Route("/runs/{run}/cancel")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that cancels the run; none if it is cancelled already."""
        run = experiment.run(self.run)
        if run.state is RunState.CANCELLED:
            return ()
        if run.state in OVER:
            raise ExperimentError(f"run {run.id} has {run.state} already; it cannot be cancelled")
        return (RunCancelled(now_s, run.id, self.reason or "the analyst cancelled it"),)


@dataclass(frozen=True, slots=True)
class StopRun(Command):
    """Stop a running run; with ``keep``, its last intermediate result becomes its result.

    Without ``keep`` it is cancelled.
    """

    run: PositiveNumber
    keep: bool = True
    reason: Text = ""

    route = Route("/runs/{run}/stop")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that ends the run; none if it is stopped already.

        Raises ExperimentError: it is not running, or it has no intermediate result that can be
        assessed.
        """
        if not self.keep:
            return CancelRun(self.run, self.reason).decide(experiment, now_s)
        run = experiment.run(self.run)
        if run.stopped is not None:
            return ()
        if run.state is not RunState.RUNNING or run.started_s is None:
            raise ExperimentError(
                f"run {run.id} is {run.state}; only a running run can be stopped with its result"
            )
        if run.reported is None:
            raise ExperimentError(
                f"run {run.id} has no intermediate result yet, so there is nothing to keep; cancel "
                "it, or wait for an intermediate result"
            )
        ended = assess_stop(experiment, run, self.reason, now_s)
        if isinstance(ended, RunFailed):
            raise ExperimentError(
                f"the intermediate result of run {run.id} is invalid: {ended.failure}; cancel it, "
                "or let it continue"
            )
        return (ended,)


@dataclass(frozen=True, slots=True)
class RateRun(Command):
    """Rate the result of a run as good or bad, or withdraw the rating."""

    run: PositiveNumber
    good: bool | None

    route = Route("/runs/{run}/rating")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that rates the run, or raise ExperimentError if it is not completed."""
        run = experiment.run(self.run)
        if run.state is not RunState.COMPLETED:
            raise ExperimentError(f"run {run.id} is {run.state}; only a completed run can be rated")
        return (RunRated(now_s, run.id, self.good),)


@dataclass(frozen=True, slots=True)
class RecoverRuns(Command):
    """Return running runs without a lease, whose process has ended, to the queue."""

    route = Route("/recovery")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the events that return the runs of the session's own process."""
        lost = [run for run in experiment.runs_in(RunState.RUNNING) if not run.token]
        why = "the process that executed it has ended"
        return tuple(RunReturned(now_s, run.id, why) for run in lost)


# -- steering --------------------------------------------------------------------------------------

Keep = Literal["keep"]
"""Value of an exploitation level that keeps the present one; None means no split."""


@dataclass(frozen=True, slots=True)
class ChangeSteering(Command):
    """Change the strategy, its options, the exploitation level, or whether levels are added.

    What is None stays as it is; other options of another strategy are dropped. ``refine`` says
    whether levels are added to ranges without a step near the best result.
    """

    strategy: Name | None = None
    options: LevelValues | None = None
    exploitation: Share | Keep | None = "keep"
    refine: bool | None = None

    route = Route("/steering")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[SteeringChanged]:
        """Return the event that changes the steering.

        Raises:
            StrategyError: an unknown strategy or option.
            SettingsError: an exploitation level outside 0 to 1.
        """
        refuse_if_finished(experiment)
        present = experiment.steering
        name = self.strategy or present.strategy
        present_options = dict(present.options) if name == present.strategy else {}
        merged_options = {**present_options, **(self.options or {})}
        make_strategy(name, **merged_options)
        level = present.exploitation if self.exploitation == "keep" else self.exploitation
        refine = present.refine if self.refine is None else self.refine
        changed = Steering(name, merged_options, level, present.weights, refine)
        return (SteeringChanged(now_s, changed),)


@dataclass(frozen=True, slots=True)
class WeighRegion(Command):
    """Set the weight (default 1) of a region of good results in exploiting suggestions."""

    region: PositiveNumber
    weight: Annotated[float, REGION_WEIGHT]

    route = Route("/weights")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[SteeringChanged]:
        """Return the event that sets the weight.

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
        matches = [region for region in regions if region.id == self.region]
        if not matches:
            there = f"regions are numbered 1 to {len(regions)}" if regions else "there is none yet"
            raise ExperimentError(f"there is no region {self.region}; {there}")
        space = experiment.space
        other_weights = tuple(
            (at, region_weight)
            for at, region_weight in present.weights
            if region_index(at, regions, space, rule.radius) != regions.index(matches[0])
        )
        weighted = ((matches[0].best.configuration, self.weight),) if self.weight != 1 else ()
        return (SteeringChanged(now_s, replace(present, weights=(*other_weights, *weighted))),)


@dataclass(frozen=True, slots=True)
class ChangeSla(Command):
    """Replace the whole SLA: limits on runs, time and cost, and the goal."""

    sla: Sla

    route = Route("/sla", body="sla")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[BudgetChanged]:
        """Return the event that replaces the SLA.

        Raises SettingsError: not an Sla, or its goal is missing although warnings use the forecast.
        """
        refuse_if_finished(experiment)
        if not isinstance(self.sla, Sla):
            raise SettingsError(f"the SLA must be an Sla, not {self.sla!r}")
        experiment.warning_policy.warns_by_forecast(self.sla)
        return (BudgetChanged(now_s, self.sla),)


@dataclass(frozen=True, slots=True)
class ChangeWarningPolicy(Command):
    """Replace the warning policy: the rules for warnings, regions and pending runs."""

    warning_policy: WarningPolicy

    route = Route("/warning-policy")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that replaces the warning policy.

        Raises SettingsError: not a WarningPolicy, or the forecast shall warn and there is no goal.
        """
        refuse_if_finished(experiment)
        if not isinstance(self.warning_policy, WarningPolicy):
            raise SettingsError(f"a warning policy is a WarningPolicy, not {self.warning_policy!r}")
        self.warning_policy.warns_by_forecast(experiment.sla)
        return (WarningPolicyChanged(now_s, self.warning_policy),)


@dataclass(frozen=True, slots=True)
class ChangeEarlyStopping(Command):
    """Change the rule that stops hopeless runs, or turn it off (null); stopped runs stay stopped.

    It holds from the next intermediate result on.
    """

    early_stopping: EarlyStopping | None

    route = Route("/early-stopping")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that changes the rule; none if it is that already."""
        refuse_if_finished(experiment)
        if self.early_stopping == experiment.early_stopping:
            return ()
        return (EarlyStoppingChanged(now_s, self.early_stopping),)


@dataclass(frozen=True, slots=True)
class ChangeAutoSteering(Command):
    """Turn auto-steering on with these settings, or off (null); it acts only on an active queue."""

    auto_steering: AutoSteering | None
    reason: Text = ""

    route = Route("/auto-steering")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that turns auto-steering on or off; none if it is off already.

        Raises:
            ExperimentError: the experiment is finished, or its SLA has no limit to end it.
            SettingsError: ``auto_steering`` is not an AutoSteering.
        """
        refuse_if_finished(experiment)
        settings = self.auto_steering
        if settings is None and experiment.auto_steering is None:
            return ()
        if settings is not None and not isinstance(settings, AutoSteering):
            raise SettingsError(f"auto-steering must be an AutoSteering, not {settings!r}")
        if settings is not None and not experiment.sla.is_limited:
            raise ExperimentError(
                "a sweep without a budget of runs, a deadline or a cost limit would not end by "
                "itself; set one first"
            )
        return (AutoSteeringChanged(now_s, settings, self.reason),)


# -- the space -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeLevel(Command):
    """Close, reopen, add, prefer or unprefer one level of a parameter.

    New suggestions use no closed level, and use preferred levels more often; past runs stay.
    """

    change: Literal["close", "reopen", "add", "prefer", "unprefer"]
    parameter: Name
    value: LevelValue

    route = Route("/levels")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that changes the space."""
        refuse_if_finished(experiment)
        space = experiment.space
        change, words = {
            "close": (space.closing, "closed"),
            "reopen": (space.reopening, "reopened"),
            "add": (space.with_level, "added"),
            "prefer": (space.preferring, "preferred"),
            "unprefer": (space.unpreferring, "no longer preferred"),
        }[self.change]
        changed = change(self.parameter, self.value)
        if self.change == "close":
            changed.check_not_empty()
        return (SpaceChanged(now_s, changed, f"{self.parameter}={self.value} {words}"),)


@dataclass(frozen=True, slots=True)
class ExcludeConfigurations(Command):
    """Exclude all configurations that meet a condition from further suggestions.

    The condition is such as ``nodes > 4 and mode == 'fast'``.
    """

    condition: Annotated[str, Field(min_length=1, max_length=4000)]

    route = Route("/exclusions")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that changes the space."""
        refuse_if_finished(experiment)
        space = experiment.space.excluding(Exclusion.parse(self.condition))
        space.check_not_empty()
        return (SpaceChanged(now_s, space, f"excluded: {self.condition}"),)


@dataclass(frozen=True, slots=True)
class SubmitPlan(Command):
    """Set the levels that the user plans to try (Copper paper, 2.2); none withdraws the plan."""

    levels: Annotated[
        Mapping[Name, Annotated[Sequence[LevelValue], Field(max_length=10_000)]],
        Field(max_length=1000),
    ]

    route = Route("/plan")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that sets the plan.

        Raises:
            StrategyError: an unknown parameter or level.
            SettingsError: a parameter without a level.
        """
        refuse_if_finished(experiment)
        planned_levels: dict[str, tuple[Level, ...]] = {}
        for name, values in self.levels.items():
            parameter = experiment.space.parameter(name)
            if not values:
                raise SettingsError(f"the plan names no level of '{name}'; name at least one")
            planned_levels[name] = tuple(
                parameter.levels[parameter.level_id(value)] for value in values
            )
        return (PlanSubmitted(now_s, planned_levels),)


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


# -- the experiment itself -------------------------------------------------------------------------

MOST_CHARACTERS = 200  # of the name of an experiment, or of one tag
MOST_TAGS = 50


@dataclass(frozen=True, slots=True)
class FinishExperiment(Command):
    """Mark the experiment as finished, for the given reason."""

    reason: Text = ""

    route = Route("/finish")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that finishes the experiment."""
        refuse_if_finished(experiment)
        return (ExperimentFinished(now_s, self.reason),)


@dataclass(frozen=True, slots=True)
class ReopenExperiment(Command):
    """Reopen a finished experiment."""

    route = Route("/reopen")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that reopens it, or raise ExperimentError if it is not finished."""
        if experiment.finished is None:
            name = experiment.opened.experiment_id
            raise ExperimentError(f"experiment '{name}' is not finished, so it cannot be reopened")
        return (ExperimentReopened(now_s),)


@dataclass(frozen=True, slots=True)
class RenameExperiment(Command):
    """Give the experiment another name; its identifier stays."""

    name: Name

    route = Route("/name")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that renames it; none if it has that name."""
        name = _label("the name of an experiment", self.name)
        return () if name == experiment.opened.name else (ExperimentRenamed(now_s, name),)


@dataclass(frozen=True, slots=True)
class TagExperiment(Command):
    """Add and remove tags of an experiment."""

    add: Annotated[Sequence[Name], Field(max_length=MOST_TAGS)] = ()
    remove: Annotated[Sequence[Name], Field(max_length=MOST_TAGS)] = ()

    route = Route("/tags")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that changes the tags; none if that changes nothing.

        Raises ExperimentError: a tag is empty or too long, or one to remove is not there.
        """
        for tag in self.remove:
            if tag not in experiment.tags:
                present = ", ".join(experiment.tags) or "none"
                raise ExperimentError(f"there is no tag '{tag}' to remove; the tags are: {present}")
        tags = dict.fromkeys(tag for tag in experiment.tags if tag not in self.remove)
        tags |= dict.fromkeys(_label("a tag", tag) for tag in self.add)
        if len(tags) > MOST_TAGS:
            raise ExperimentError(f"an experiment has at most {MOST_TAGS} tags; remove some")
        return () if tuple(tags) == experiment.tags else (ExperimentTagged(now_s, tuple(tags)),)


@dataclass(frozen=True, slots=True)
class DeleteExperiment(Command):
    """Leave the experiment out of lists, until it is undeleted; nothing of it is lost."""

    route = Route("/delete")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event, or raise ExperimentError: deleted already, or runs are running."""
        name = experiment.opened.experiment_id
        if experiment.is_deleted:
            raise ExperimentError(f"experiment '{name}' is deleted already")
        n = experiment.n_in(RunState.RUNNING)
        if n:
            raise ExperimentError(
                f"{'1 run is' if n == 1 else f'{n} runs are'} running in experiment '{name}'; "
                "wait, or cancel with copperline queue --cancel, then delete it"
            )
        return (ExperimentDeleted(now_s),)


@dataclass(frozen=True, slots=True)
class UndeleteExperiment(Command):
    """Undo the deletion of an experiment."""

    route = Route("/undelete")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the event that undoes it, or raise ExperimentError if it is not deleted."""
        if not experiment.is_deleted:
            raise ExperimentError(f"experiment '{experiment.opened.experiment_id}' is not deleted")
        return (ExperimentUndeleted(now_s),)


CORE_COMMANDS: tuple[type[Command], ...] = (
    SubmitBatch, IncludeRun, ReplicateRun, SubmitBaseline, ImportResults,
    PrioritiseRun, HoldRun, ReleaseRun, CancelRun, StopRun, RateRun, RecoverRuns,
    ChangeSteering, WeighRegion, ChangeSla, ChangeWarningPolicy, ChangeEarlyStopping,
    ChangeAutoSteering,    ChangeLevel, ExcludeConfigurations, SubmitPlan,
    FinishExperiment, ReopenExperiment, RenameExperiment, TagExperiment, DeleteExperiment,
    UndeleteExperiment,
)  # fmt: skip
"""The commands of this module, in the order of the reference pages."""


def _label(subject: str, text: str) -> str:
    stripped = text.strip()
    if not stripped or len(stripped) > MOST_CHARACTERS or not stripped.isprintable():
        raise ExperimentError(
            f"{subject} has 1 to {MOST_CHARACTERS} printable characters, not {text[:40]!r}"
        )
    return stripped


# -- the order of the queue ------------------------------------------------------------------------

OVER = (RunState.COMPLETED, RunState.FAILED)


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
