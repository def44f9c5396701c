"""What is shown of experiments and runs: the bodies of answers, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from assistant.objective import Measure
from assistant.run import Run, RunState, Source
from assistant.service.house import House
from assistant.view import View
from strategies import Level

MeasuresOut = dict[str, float | list[float] | None]


class StoredOut(BaseModel):
    """An experiment in a list."""

    experiment: str
    name: str
    opened_s: float
    events: int


class RunOut(BaseModel):
    """One run as people read it: values by parameter, and what is known of it.

    ``value`` is what the objective makes of its measures, ``reported`` what a run that goes on has
    measured so far, and ``reported_s`` when; ``stopped`` is the reason, which may be empty, of one
    that was ended early with that as its result. Times are seconds since 1970-01-01 UTC.
    """

    run: int
    state: RunState
    held: bool
    priority: float
    values: dict[str, bool | int | float | str]
    source: Source
    reason: str
    attempts: int
    worker: str | None
    value: float | None
    feasible: bool | None
    measures: MeasuresOut | None
    reported: MeasuresOut | None
    reported_s: float | None
    stopped: str | None
    failure: str | None
    cancelled: str | None
    submitted_s: float
    started_s: float | None
    ended_s: float | None
    duration_s: float | None


class OverviewOut(BaseModel):
    """An experiment in a few numbers.

    ``version`` counts decisions, ``events`` the whole journal; ``active`` says whether workers may
    have its runs.
    """

    experiment: str
    name: str
    application: str
    opened_s: float
    version: int
    events: int
    active: bool
    finished: str | None
    passed_limit: str | None
    parameters: dict[str, list[bool | int | float | str]]
    runs: dict[RunState, int]
    remaining_runs: int | None
    strategy: str
    exploitation: float | None
    batch_size: int
    open_warning: str | None
    best: RunOut | None


class ExecutionOut(BaseModel):
    """Who executes: whether workers may have runs, and whether the service starts some itself.

    ``by_program`` says that its program asks for its runs itself, and gets them instead of workers;
    ``heard_s`` how long ago it was heard last, null if not since the service began.
    """

    active: bool
    executes: bool
    by_program: bool = False
    heard_s: float | None = None
    notes: list[str]


def execution(house: House, experiment_id: str) -> ExecutionOut:
    """Return who executes the runs of an experiment."""
    return ExecutionOut(
        active=house.queue.is_active(experiment_id),
        executes=house.executes,
        by_program=house.queue.is_outside(experiment_id),
        heard_s=house.hearing.ago_s(experiment_id),
        notes=list(house.notes(experiment_id)),
    )


def run_shown(view: View, run: Run) -> RunOut:
    """Return one run of an experiment."""
    values: Mapping[str, Level] = view.experiment.space.values(run.configuration)
    outcome = run.outcome
    return RunOut(
        run=run.id,
        state=run.state,
        held=run.held,
        priority=run.priority,
        values=dict(values),
        source=run.source,
        reason=run.reason,
        attempts=run.attempts,
        worker=run.worker or None,
        value=None if outcome is None else outcome.value,
        feasible=None if outcome is None else outcome.feasible,
        measures=_measures(None if outcome is None else outcome.measures),
        reported=_measures(run.reported),
        reported_s=run.reported_s,
        stopped=run.stopped,
        failure=run.failure,
        cancelled=run.cancelled,
        submitted_s=run.submitted_s,
        started_s=run.started_s,
        ended_s=run.ended_s,
        duration_s=run.duration_s,
    )


def overview(house: House, view: View) -> OverviewOut:
    """Return an experiment in a few numbers."""
    experiment = view.experiment
    best, advice = experiment.best, experiment.open_advice
    return OverviewOut(
        experiment=view.id,
        name=experiment.opened.name,
        application=experiment.opened.application,
        opened_s=experiment.opened.at_s,
        version=experiment.version,
        events=experiment.n_events,
        active=house.queue.is_active(view.id),
        finished=None if experiment.finished is None else experiment.finished.reason,
        passed_limit=view.passed_limit(),
        parameters={one.name: list(one.levels) for one in experiment.space.parameters},
        runs={state: len(experiment.runs_in(state)) for state in RunState},
        remaining_runs=view.remaining_runs,
        strategy=experiment.steering.strategy,
        exploitation=experiment.steering.exploitation,
        batch_size=view.batch_size,
        open_warning=None if advice is None else advice.text,
        best=None if best is None else run_shown(view, best),
    )


def in_short(told: OverviewOut) -> dict[str, object]:
    """Return of an experiment what a line each can say: how far it is, and what is best."""
    best = told.best
    ended = {"finished": told.finished, "passed_limit": told.passed_limit}
    return {
        "experiment": told.experiment,
        "version": told.version,
        "active": told.active,
        **{name: None if why is None else " ".join(why.split()) for name, why in ended.items()},
        "remaining_runs": told.remaining_runs,
        "runs": {str(state): n for state, n in told.runs.items()},
        "best": {}
        if best is None
        else {
            "run": best.run, "value": best.value, "values": best.values,
            "measures": best.measures or {},
        },
    }  # fmt: skip


def _measures(measures: Mapping[str, Measure] | None) -> MeasuresOut | None:
    if measures is None:
        return None
    return {name: list(x) if isinstance(x, tuple) else x for name, x in measures.items()}
