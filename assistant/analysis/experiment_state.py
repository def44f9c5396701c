"""State of an experiment: one of six words, its reason and the next step, derived in one place.

The list, every page, the terminal, the REST API and the report show what `experiment_state`
returns. A pure function of the experiment, the time and the execution status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from assistant.analysis.broken_program import broken_program
from assistant.analysis.recommendation import is_exhausted, passed_limit, reached_goal
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast, Interval
from assistant.core.run import RunState

CALL_S = 60.0
"""Seconds after the last request from which a worker or an external client counts as gone."""


@dataclass(frozen=True, slots=True)
class ExecutionStatus:
    """Who executes the runs of an experiment; without arguments nobody does.

    Args:
        active: whether workers may lease its runs.
        executes: whether the service starts workers for it.
        external: whether an external client takes its runs; then workers get none.
        last_call_s: seconds since the external client's last request; None if there was none.
        workers: number of other workers that may take its runs and called within `CALL_S`.
        in_process: whether a process, such as ``copperline sweep``, executes the runs itself.
    """

    active: bool = False
    executes: bool = False
    notes: tuple[str, ...] = ()
    external: bool = False
    last_call_s: float | None = None
    workers: int = 0
    in_process: bool = False

    @property
    def has_worker(self) -> bool:
        """Whether a worker, or the external client, is there to take the runs."""
        if self.external:
            return self.last_call_s is not None and self.last_call_s < CALL_S
        return self.executes or self.workers > 0


class StateName(StrEnum):
    """The six states of an experiment."""

    RUNNING = "running"
    NEEDS_YOU = "needs you"
    WAITING = "waiting for workers"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"


class NextStep(StrEnum):
    """The one next step of a person in a state, as a sentence."""

    NONE = "Nothing to do."
    ANSWER = "Answer the warning."
    DECIDE = "Decide on the suggestions."
    CHOOSE = "Choose the next runs."
    RELEASE = "Release the held runs."
    WORKER = "Start a worker."
    CLIENT = "Start the external client."
    START = "Start the runs."
    REPORT = "Read the report."
    CORRECT = "Correct the program, then resume."
    RESTORE = "Restore a backup."


ICONS: Mapping[StateName, str] = {
    StateName.RUNNING: "►",
    StateName.NEEDS_YOU: "◆",
    StateName.WAITING: "◔",
    StateName.PAUSED: "‖",
    StateName.FINISHED: "■",
    StateName.FAILED: "✗",
}

_COMMANDS: Mapping[NextStep, str] = {
    NextStep.ANSWER: "steer {id}",
    NextStep.DECIDE: "app",
    NextStep.CHOOSE: "suggest {id}",
    NextStep.RELEASE: "queue {id} --release RUN",
    NextStep.WORKER: "work",
    NextStep.START: "resume {id}",
    NextStep.REPORT: "report {id}",
    NextStep.CORRECT: "resume {id}",
}


@dataclass(frozen=True, slots=True)
class ExperimentState:
    """State of an experiment, as every page, command and route shows it.

    Args:
        reason: clause without full stop, such as "the budget of 40 runs is used up".
        next_step: what a person should do next.
        command: terminal command of the next step, without its store; empty if there is none.
    """

    name: StateName
    reason: str
    next_step: NextStep
    command: str = ""

    @property
    def icon(self) -> str:
        """Sign of the state, the same in terminal, browser and report."""
        return ICONS[self.name]

    @property
    def sentence(self) -> str:
        """The state and its reason as one sentence, such as "Paused: 3 runs wait."."""
        return f"{self.name.value.capitalize()}: {self.reason}."

    @property
    def is_running(self) -> bool:
        """Whether runs go on, so that an end can be expected."""
        return self.name is StateName.RUNNING

    @property
    def is_over(self) -> bool:
        """Whether the experiment is finished or failed, unless its SLA is changed."""
        return self.name in (StateName.FINISHED, StateName.FAILED)

    def as_json(self) -> dict[str, str]:
        """Return the fields for JSON, with the icon."""
        return {**{key: str(text) for key, text in asdict(self).items()}, "icon": self.icon}


def unreadable_state(reason: str) -> ExperimentState:
    """Return the state of an experiment whose event log is damaged; ``reason`` is a clause."""
    return ExperimentState(StateName.FAILED, reason, NextStep.RESTORE, "restore FILE")


def experiment_state(
    experiment: Experiment, now_s: float, execution: ExecutionStatus | None = None
) -> ExperimentState:
    """Return the state of an experiment: running, needs you, waiting for workers, paused ...

    Args:
        experiment: the experiment.
        now_s: present time, in seconds since 1970-01-01 UTC.
        execution: who executes its runs; None for nobody.
    """
    name, reason, step = _derive(experiment, now_s, execution or ExecutionStatus())
    opened = experiment.opened
    command = _COMMANDS.get(step, "").format(id=opened.experiment_id)
    if step in (NextStep.START, NextStep.CORRECT) and not opened.recipe:
        command = ""  # opened from Python, where it is continued
    return ExperimentState(
        name, reason.strip().rstrip("."), step, f"copperline {command}" if command else ""
    )


IDLE = "no run is running or waiting"

_Derived = tuple[StateName, str, NextStep]


def _derive(experiment: Experiment, now_s: float, execution: ExecutionStatus) -> _Derived:
    if experiment.finished is not None:
        is_broken = broken_program(experiment) is not None
        return _over(experiment.finished.reason, is_broken=is_broken)
    if execution.in_process:
        return StateName.RUNNING, _running_words(experiment), NextStep.NONE
    if experiment.n_in(RunState.RUNNING):
        return _with_running(experiment, execution)
    passed = passed_limit(experiment, now_s)
    if passed is not None:
        n = experiment.n_in(RunState.QUEUED)
        return _over(f"{passed}; {_runs(n)} did not start" if n else passed, is_broken=False)
    if experiment.n_in(RunState.QUEUED):
        return _with_queued(experiment, execution)
    return _idle(experiment, execution)


def _over(reason: str, *, is_broken: bool) -> _Derived:
    if is_broken:
        return StateName.FAILED, reason, NextStep.CORRECT
    return StateName.FINISHED, reason, NextStep.REPORT


def _with_running(experiment: Experiment, execution: ExecutionStatus) -> _Derived:
    running = experiment.runs_in(RunState.RUNNING)
    interrupted = sum(not run.token for run in running)
    if execution.active:
        return StateName.RUNNING, _running_words(experiment), NextStep.NONE
    if interrupted:
        reason = f"the process that executed {_runs(interrupted)} has ended"
    else:
        reason = f"{_runs(len(running))} still running, and no more start"
    return StateName.PAUSED, reason, NextStep.START


def _with_queued(experiment: Experiment, execution: ExecutionStatus) -> _Derived:
    if not experiment.waiting:
        return StateName.NEEDS_YOU, "every run of the queue is held", NextStep.RELEASE
    waiting = _waiting_words(len(experiment.waiting))
    if not execution.active:
        return StateName.PAUSED, waiting, NextStep.START
    if execution.has_worker:
        return StateName.RUNNING, waiting, NextStep.NONE
    if execution.external:
        return StateName.WAITING, f"{waiting} for an external client", NextStep.CLIENT
    return StateName.WAITING, f"{waiting}, and no worker takes runs", NextStep.WORKER


def _idle(experiment: Experiment, execution: ExecutionStatus) -> _Derived:
    """Return the state of an unfinished experiment in which no run is running or waiting."""
    steering, warning = experiment.auto_steering, experiment.open_warning
    if steering is None:
        broken = broken_program(experiment)
        ended = broken or _ended_by_itself(experiment)
        if ended is not None:
            return _over(ended, is_broken=broken is not None)
    if warning is not None and (steering is None or steering.warnings == "wait"):
        reason = f"warning {warning.number} waits for your answer"
        return StateName.NEEDS_YOU, reason, NextStep.ANSWER
    if steering is None and experiment.open_batch is not None:
        return _undecided(experiment)
    has_begun = steering is not None or any(run.is_charged for run in experiment.runs)
    if has_begun and not execution.active:
        left = experiment.runs_left
        reason = IDLE if left is None else f"{_runs(left)} left, and none is running or waiting"
        return StateName.PAUSED, reason, NextStep.START
    if steering is not None:
        return StateName.RUNNING, "auto-steering chooses the next runs", NextStep.NONE
    return _undecided(experiment)


def _undecided(experiment: Experiment) -> _Derived:
    batch, change = experiment.open_batch, experiment.auto_steering_change
    if batch is not None:
        n = len(batch.suggestions)
        reason = "1 suggestion waits" if n == 1 else f"{n} suggestions wait"
        return StateName.NEEDS_YOU, f"{reason} for your decision", NextStep.DECIDE
    off = "" if change is None or not change.reason else f"auto-steering is off ({change.reason}), "
    return StateName.NEEDS_YOU, f"{off}{IDLE}", NextStep.CHOOSE


def _ended_by_itself(experiment: Experiment) -> str | None:
    """Return why no run is left although nobody finished the experiment, otherwise None."""
    if experiment.remaining_runs == 0:
        return f"the budget of {_runs(experiment.n_charged)} is used up"
    if experiment.auto_steering_change is None:
        return None  # a person steers, and may go on at the goal
    if experiment.sla.at_goal == "stop" and experiment.goal_run is not None:
        return reached_goal(experiment)
    exhausted = "the space is exhausted: every allowed configuration has been run"
    return exhausted if is_exhausted(experiment) else None


def _running_words(experiment: Experiment) -> str:
    n_running, n_waiting = experiment.n_in(RunState.RUNNING), len(experiment.waiting)
    if n_running:
        return f"{_runs(n_running)} {'is' if n_running == 1 else 'are'} executing"
    return _waiting_words(n_waiting) if n_waiting else "the next runs are being chosen"


def _waiting_words(n: int) -> str:
    return f"{_runs(n)} {'waits' if n == 1 else 'wait'}"


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n:,} runs"


def refuse_if_executed(experiment: Experiment, execution: ExecutionStatus) -> None:
    """Raise SettingsError while a process or workers execute the experiment's runs."""
    if execution.in_process or (execution.active and experiment.finished is None):
        name = experiment.opened.experiment_id
        raise SettingsError(f"experiment '{name}' is being executed; pause or end that first")


def displayed_forecast(forecast: Forecast, state: ExperimentState, now_s: float) -> Forecast:
    """Return a forecast as people may read it at ``now_s``: no end while stopped, none in the past.

    Times count from ``now_s``, which may be later than the computation; without running runs they
    are None.
    """
    passed_s = max(0.0, now_s - forecast.at_s)

    def shifted(seconds: float | None) -> float | None:
        return None if seconds is None else max(0.0, seconds - passed_s)

    left = forecast.seconds_left if state.is_running else None
    return replace(
        forecast,
        at_s=forecast.at_s + passed_s,
        seconds_left=None
        if left is None
        else Interval(shifted(left.low), shifted(left.median), shifted(left.high)),
        fan=tuple(
            replace(point, seconds=shifted(point.seconds) if state.is_running else None)
            for point in forecast.fan
        ),
    )
