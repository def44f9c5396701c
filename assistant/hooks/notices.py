"""Notices for hooks: their content, and when to send them, decided from the event log alone.

The command line, the browser and scripts therefore send the same notices for the same events. Also
the hook commands of a sweep file.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from assistant.analysis.experiment_state import StateName, experiment_state
from assistant.analysis.forecast import forecast
from assistant.applications.program import why_missing
from assistant.core.errors import SettingsError
from assistant.core.events import (
    AlternativeKind,
    Event,
    ExperimentFinished,
    MissWarning,
    RunFailed,
    WarningIssued,
)
from assistant.core.experiment import Experiment
from assistant.core.files import is_folder
from assistant.core.run import Run, RunState
from assistant.presentation.text.number_format import quantity
from strategies import Level

VERSION = 1  # Version of the JSON object; it grows when a field changes its meaning or is removed

FAILURES_EVERY_S = 60.0

MAX_VARIABLE = 2_000
"""Largest length of an environment variable; the JSON object has the whole text."""

Kind = Literal["warning", "finish", "failure"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Numbers of executed, failed and remaining runs, without imported results.

    Args:
        executed: ended runs, failed ones included.
        remaining: runs left of the budget; None without a limit.
    """

    executed: int
    failed: int
    remaining: int | None


@dataclass(frozen=True, slots=True)
class BestConfiguration:
    """Best configuration so far: its first run, and the mean value of all its runs."""

    run: int
    value: float
    unit: str
    feasible: bool
    values: Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class NoticeAlternative:
    """Change that a warning proposes; ``number`` counts from 1, as in `steer --accept`."""

    number: int
    kind: AlternativeKind
    text: str
    chance: float | None


@dataclass(frozen=True, slots=True)
class WarningDetails:
    """Fields of a notice on a warning; see `MissWarning` for its ``basis``.

    Args:
        basis: rule that gave it.
        exploitation: proposed share inside regions; None proposes no change.
        pending: pending runs by the paper's rule; None with the forecast, as the next two.
        remaining: runs that can still be executed.
        shortfall: number of runs too few.
        goal: goal value; None without one, as the next two.
        alternatives: proposed changes, the best chance first; empty with the paper's rule.
    """

    number: int
    basis: Literal["paper", "forecast", "end", "nothing_feasible", "silent"]
    exploitation: float | None
    pending: int | None = None
    remaining: int | None = None
    shortfall: int | None = None
    goal: float | None = None
    chance: float | None = None
    band: tuple[float, float] | None = None
    alternatives: tuple[NoticeAlternative, ...] = ()


@dataclass(frozen=True, slots=True)
class EndDetails:
    """Fields of a notice on the end of a sweep: the reason and the state of the goal.

    Args:
        finished: False if only auto-steering has ended, so that the experiment can go on.
        reached_by: the run that reached it first; None if none has.
        chance: probability of reaching it, 1 or 0 once that is decided; None if unknown.
    """

    reason: str
    finished: bool
    goal: float | None = None
    reached_by: int | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class FailureDetails:
    """Fields of a notice on a failed run, or on a failed sweep (``run`` is None then).

    ``count`` is the number of failed runs since the last notice, this one included; ``text`` is
    about the latest of them.
    """

    of: Literal["run", "sweep"]
    run: int | None
    values: Mapping[str, Level] | None
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Notice that is sent to one hook, on a warning, the end of a sweep or a failure.

    Args:
        test: whether this is only a test of the hook.
        at: time, ISO 8601 in UTC.
        sentence: summary in one line.
        best: best configuration; None before the first result.
    """

    kind: Kind
    test: bool
    experiment: str
    name: str
    at: str
    sentence: str
    objective: str
    runs: RunCounts
    best: BestConfiguration | None
    warning: WarningDetails | None = None
    finish: EndDetails | None = None
    failure: FailureDetails | None = None
    version: int = VERSION

    def as_json(self) -> str:
        """Return the notice as one line of JSON, for the standard input of a hook."""
        return json.dumps(asdict(self), allow_nan=False) + "\n"

    @property
    def variables(self) -> Mapping[str, str]:
        """Main fields as environment variables for a hook; unknown values are empty."""
        best, left = self.best, self.runs.remaining
        texts = {
            "KIND": self.kind,
            "EXPERIMENT": self.experiment,
            "NAME": self.name,
            "AT": self.at,
            "SENTENCE": self.sentence,
            "EXECUTED": str(self.runs.executed),
            "FAILED": str(self.runs.failed),
            "REMAINING": "" if left is None else str(left),
            "BEST": "" if best is None else repr(best.value),
            "UNIT": "" if best is None else best.unit,
        }
        return {f"COPPERLINE_{name}": _plain(text) for name, text in texts.items()}


def _plain(text: str) -> str:
    """Return text for an environment variable: no NUL, valid characters, limited length."""
    characters = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return (
        characters if len(characters) <= MAX_VARIABLE else f"{characters[: MAX_VARIABLE - 4]} ..."
    )


def iso(at_s: float) -> str:
    """Return a time (seconds since 1970-01-01 UTC) as ISO 8601 text in UTC.

    >>> iso(0.0)
    '1970-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def of_warning(experiment: Experiment, warning: MissWarning, at_s: float) -> Notice:
    """Build the notice on a warning of an experiment."""
    return replace(
        _notice(experiment, "warning", at_s, f"{warning.heading}. {warning.text}"),
        warning=_warning_details(warning),
    )


def _warning_details(warning: MissWarning) -> WarningDetails:
    if warning.basis == "paper":
        forecast = warning.forecast
        return WarningDetails(
            warning.number, warning.basis, warning.exploitation, forecast.pending,
            forecast.remaining,
            forecast.shortfall,
        )  # fmt: skip
    goal = None if warning.outlook is None else warning.outlook.goal
    return WarningDetails(
        warning.number, warning.basis, warning.exploitation,
        goal=None if goal is None else goal.goal,
        chance=None if goal is None else goal.chance,
        band=None if goal is None else goal.band,
        alternatives=tuple(
            NoticeAlternative(number, alternative.kind, alternative.text, alternative.chance)
            for number, alternative in enumerate(warning.alternatives, 1)
        ),
    )  # fmt: skip


def of_finish(experiment: Experiment, reason: str, at_s: float) -> Notice:
    """Build the notice on the end of an experiment, or only of auto-steering."""
    ended = _ending(experiment, reason, at_s, finished=experiment.finished is not None)
    state = experiment_state(experiment, at_s)
    verb = {StateName.NEEDS_YOU: "", StateName.FAILED: "has "}.get(state.name, "is ")
    stand = f"{verb}{state.name}"
    sentence = f"{experiment.opened.name} {stand}: {reason}. {_leader(experiment)}"
    return replace(_notice(experiment, "finish", at_s, sentence), finish=ended)


def _ending(experiment: Experiment, reason: str, at_s: float, *, finished: bool) -> EndDetails:
    if experiment.sla.goal is None:
        return EndDetails(reason, finished)
    goal = forecast(experiment, at_s).goal
    if goal is None:
        return EndDetails(reason, finished, experiment.sla.goal)
    return EndDetails(reason, finished, goal.goal, goal.reached_by, goal.chance)


def of_failed_run(experiment: Experiment, run: Run, count: int, at_s: float) -> Notice:
    """Build the notice on a failed run; ``count`` runs have failed since the last notice."""
    text = run.failure or ""
    further = "" if count < 2 else f" ({count} runs have failed since the last notice)"
    values = experiment.space.values(run.configuration)
    notice = _notice(experiment, "failure", at_s, f"run {run.id} failed: {text}{further}")
    return replace(notice, failure=FailureDetails("run", run.id, values, text, count))


def of_failed_sweep(experiment: Experiment, text: str, count: int, at_s: float) -> Notice:
    """Build the notice on a sweep that ended with an error, after ``count`` unreported failures."""
    name = experiment.opened.name
    notice = _notice(experiment, "failure", at_s, f"{name} ended with an error: {text}")
    return replace(notice, failure=FailureDetails("sweep", None, None, text, count))


def of_test(experiment: Experiment, kind: Kind, at_s: float) -> Notice:
    """Build a sample notice that tests a hook, with real experiment data and a made-up event."""
    text = f"a test of the hook on_{kind}; nothing has happened"
    notice = replace(_notice(experiment, kind, at_s, text), test=True)
    match kind:
        case "warning":
            return replace(notice, warning=_sample(experiment))
        case "finish":
            return replace(notice, finish=_ending(experiment, text, at_s, finished=False))
        case "failure":
            return replace(notice, failure=FailureDetails("sweep", None, None, text, 0))


def _sample(experiment: Experiment) -> WarningDetails:
    """Return a made-up warning with the keys that a real one of this experiment would have."""
    advised = experiment.warning_policy.advised
    if experiment.warning_policy.rule == "paper":
        return WarningDetails(1, "paper", advised, 0, experiment.remaining_runs, 0)
    proposed = NoticeAlternative(1, "more_runs", "an example: run 10 more", 0.5)
    return WarningDetails(
        1, "end" if experiment.sla.goal is None else "forecast", experiment.steering.exploitation,
        goal=experiment.sla.goal, chance=0.1, band=(0.04, 0.23), alternatives=(proposed,),
    )  # fmt: skip


def _notice(experiment: Experiment, kind: Kind, at_s: float, sentence: str) -> Notice:
    opened = experiment.opened
    executed = [run for run in experiment.runs if run.source != "imported"]
    n_failed = sum(run.state is RunState.FAILED for run in executed)
    n_completed = sum(run.state is RunState.COMPLETED for run in executed)
    return Notice(
        kind=kind,
        test=False,
        experiment=opened.experiment_id,
        name=opened.name,
        at=iso(at_s),
        sentence=" ".join(sentence.split()),
        objective=str(opened.objective),
        runs=RunCounts(n_completed + n_failed, n_failed, experiment.runs_left),
        best=_best(experiment),
    )


def _best(experiment: Experiment) -> BestConfiguration | None:
    run = experiment.best
    summary = None if run is None else experiment.summary(run)
    if run is None or summary is None:
        return None
    outcome, unit = summary.outcome, experiment.opened.objective.unit
    values = experiment.space.values(run.configuration)
    return BestConfiguration(run.id, outcome.value, unit, outcome.feasible, values)


def _leader(experiment: Experiment) -> str:
    best = _best(experiment)
    if best is None:
        return "No run has a result."
    wrapper = experiment.opened.objective.wrapper
    but = "" if best.feasible else ", which violates a constraint"
    return f"Best so far: {wrapper} {quantity(best.value, best.unit)} in run {best.run}{but}."


@dataclass(frozen=True, slots=True)
class NoticeState:
    """State from which notices are decided: failures not reported yet, last reported end.

    Args:
        told_s: time of the last notice on failures; None before the first.
        latest: latest failed run without a notice; None if there is none.
        count: failed runs without a notice.
        ended: reason and number of runs at the last noticed end of auto-steering.
    """

    told_s: float | None = None
    latest: int | None = None
    count: int = 0
    ended: tuple[str, int] | None = None

    def may_tell(self, at_s: float) -> bool:
        """Return whether enough time has passed for another notice on failures."""
        return self.told_s is None or not 0 <= at_s - self.told_s < FAILURES_EVERY_S


def notices_of_event(
    experiment: Experiment, event: Event, state: NoticeState
) -> tuple[NoticeState, tuple[Notice, ...]]:
    """Return the new notice state, and the notices to send for an event.

    The first failed run gives a notice at once; then there is at most one per `FAILURES_EVERY_S`,
    with the number of failures since. A delayed one comes with the first event after that time, and
    before the end.
    """
    at_s = event.at_s
    if isinstance(event, RunFailed):
        state = replace(state, latest=event.run_id, count=state.count + 1)
    notices: tuple[Notice, ...] = ()
    if state.count and (state.may_tell(at_s) or isinstance(event, ExperimentFinished)):
        state, notices = pending_notices(experiment, state, at_s)
    if isinstance(event, WarningIssued):
        notices = (*notices, of_warning(experiment, event.warning, at_s))
    if isinstance(event, ExperimentFinished):
        notices = (*notices, of_finish(experiment, event.reason, at_s))
    return state, notices


def pending_notices(
    experiment: Experiment, state: NoticeState, at_s: float
) -> tuple[NoticeState, tuple[Notice, ...]]:
    """Return the new notice state, and the delayed notice on failed runs, if any."""
    if state.latest is None:
        return state, ()
    run = experiment.run(state.latest)
    notice = of_failed_run(experiment, run, state.count, at_s)
    return replace(state, told_s=at_s, latest=None, count=0), (notice,)


def notices_of_end(
    experiment: Experiment, reason: str, state: NoticeState, at_s: float
) -> tuple[NoticeState, tuple[Notice, ...]]:
    """Return the new notice state and, if not sent yet, the notices on auto-steering's end."""
    ended = (reason, len(experiment.runs))
    if state.ended == ended:
        return state, ()
    state, notices = pending_notices(experiment, state, at_s)
    return replace(state, ended=ended), (*notices, of_finish(experiment, reason, at_s))


TIMEOUT_S = 30.0
LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class HookCommands:
    """Hook commands for warnings, the end of a sweep and failures; empty means no hook.

    Args:
        on_warning: program and arguments, started without a shell.
        timeout_s: time limit of a hook and all that it started, in seconds.

    Raises SettingsError for an empty program name, or a timeout that is out of range.
    """

    on_warning: tuple[str, ...] = ()
    on_finish: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    cwd: str = "."

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= LONGEST_S:
            raise SettingsError(
                f"the timeout of hooks must be above 0 s, at most a day, not {self.timeout_s:g} s"
            )
        for kind in self.kinds:
            argv = self.argv(kind)
            if not argv[0] or any("\0" in text for text in argv):
                raise SettingsError(
                    f"the hook on_{kind} must be a program and its arguments, without NUL "
                    f"characters, not {json.dumps(argv)}"
                )

    def check(self) -> None:
        """Raise SettingsError if the program of a hook cannot be started here."""
        if self.kinds and not is_folder(Path(self.cwd)):
            raise SettingsError(f"the working folder of the hooks, '{self.cwd}', is missing")
        search = os.environ.get("PATH", os.defpath)
        for kind in self.kinds:
            reason = why_missing(self.argv(kind)[0], self.cwd, search)
            if reason is not None:
                raise SettingsError(f"the hook on_{kind} cannot be started: {reason}")

    def argv(self, kind: Kind) -> tuple[str, ...]:
        """Return the program and arguments of the hook for a kind of notice; empty if none."""
        return {
            "warning": self.on_warning,
            "finish": self.on_finish,
            "failure": self.on_failure,
        }[kind]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of notices for which a hook is set."""
        return tuple(kind for kind in KINDS if self.argv(kind))

    def __str__(self) -> str:
        return "\n".join(f"  on_{kind}: {json.dumps(self.argv(kind))}" for kind in self.kinds)


def resolve_hook_folder(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return sweep file tables in which the working folder of the hooks is absolute."""
    hooks = tables.get("hooks")
    if not isinstance(hooks, dict) or not isinstance(hooks.get("cwd", "."), str):
        return dict(tables)
    return {**tables, "hooks": {**hooks, "cwd": str((folder / hooks.get("cwd", ".")).absolute())}}
