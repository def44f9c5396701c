"""Studies of Optuna as experiments: import, export, and the forecast as a callback.

A completed trial is a completed run, a failed one a failed run, and a pruned one a run that was
cancelled while it ran: it used a run of the budget and has no result. Parameters that not every
finished trial has alike are left out; trials that differ only in these are replicates.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from assistant.analysis.forecast import forecast
from assistant.analysis.warning import build_warning, proposal
from assistant.core.errors import SettingsError, StudyWarning
from assistant.core.events import (
    Event,
    ExperimentOpened,
    Fact,
    MissWarning,
    RunCancelled,
    RunStarted,
    RunSubmitted,
    WarningAnswered,
)
from assistant.core.experiment import Experiment
from assistant.core.objective import Constraint, Measure, Objective, SingleMeasure
from assistant.core.ports import ExecutionResult
from assistant.core.run import Run, RunState, Source, random_stream
from assistant.core.sla import Sla, Steering, WarningPolicy
from assistant.core.submission import assess_measures
from assistant.core.version import version
from assistant.integrations.optuna_sampler import N_LEVELS, REASON
from assistant.integrations.optuna_space import StudySpace, failure_of, violation_of
from assistant.presentation.text.forecast import ForecastSubject, forecast_sentences, headline
from strategies import DEFAULT_STRATEGY, Configuration, Parameter
from strategies.data.observation import LIMIT

# isort: split
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
SUMMED = "violation"
"""Measure of a run: sum of the violated constraints of its trial."""


@dataclass(frozen=True, slots=True)
class ImportedStudy:
    """A study as the event log of an experiment.

    Args:
        opened: the opening.
        events: the opening, then the events of every run in the order of time.
        n_runs: number of runs.
        left_out: number of trials without a value for every parameter, or that have not ended.
    """

    opened: ExperimentOpened
    events: tuple[Event, ...]
    n_runs: int
    left_out: int


def import_study(study: Study, levels: int = N_LEVELS) -> ImportedStudy:
    """Return a study as the event log of an experiment, which has the name of the study.

    ``levels`` are those of a continuous parameter, as in `CopperlineSampler`. Raises SettingsError
    for a study of several objectives, or one whose trials share no parameter.
    """
    space = _space_of(study, levels)
    if space is None:
        raise SettingsError(
            f"the study '{study.study_name}' of Optuna has no finished trial, or its trials share "
            "no parameter; there is nothing to import"
        )
    trials = study.get_trials(deepcopy=False)
    described = _opened(study, space, Sla())
    ended = sorted((t for t in trials if t.state in ENDED), key=_start_s)
    runs = [(trial, configuration) for trial in ended if (configuration := space.of_trial(trial))]
    timed: list[Event] = []
    known: set[Configuration] = set()
    for run_id, (trial, configuration) in enumerate(runs, 1):
        timed += _events_of(trial, run_id, configuration, configuration in known, described)
        known.add(configuration)
    timed.sort(key=lambda event: event.at_s)
    return ImportedStudy(described, (described, *timed), len(runs), len(trials) - len(runs))


def stored_studies(storage: str) -> tuple[Study, ...]:
    """Return the studies of a storage, such as ``sqlite:///study.db``.

    Raises SettingsError if it cannot be read or has none.
    """
    try:
        names = optuna.get_all_study_names(storage)
        studies = tuple(optuna.load_study(study_name=name, storage=storage) for name in names)
    except Exception as error:  # of SQLAlchemy, of a driver, of a server
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(
            f"the storage '{storage}' of Optuna cannot be read: {reason}"
        ) from error
    if not studies:
        raise SettingsError(f"the storage '{storage}' of Optuna holds no study")
    return studies


class ForecastCallback:
    """Callback of ``study.optimize``: warns when the trials left will miss the goal.

    After each trial the forecast is made as in a sweep. A warning is a Python warning of the class
    `StudyWarning`, in the words of the terminal, with what to change. The forecast is that of the
    sampler's strategy for a `CopperlineSampler`, and of the default strategy for any other one.

    Args:
        runs: trials that the study may have in all, earlier ones and those of other workers too.
        goal: value of the objective to reach; None warns where the end leaves much on the table.
        levels: as of `CopperlineSampler`.

    Raises:
        SettingsError: a number of runs or a goal that is none.
    """

    def __init__(self, *, runs: int, goal: float | None = None, levels: int = N_LEVELS) -> None:
        self._sla = Sla(max_runs=runs, goal=goal)
        self._runs, self._levels = runs, levels
        self._lock = threading.Lock()
        self._space: StudySpace | None = None
        self._experiment: Experiment | None = None
        self._taken: set[int] = set()

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """Take over what has ended, and warn if a warning is due."""
        del trial
        with self._lock:
            experiment = self._caught_up(study)
            if experiment is None or experiment.n_ended >= self._runs:
                return
            issued = self._due(experiment)
        if issued is not None:
            warnings.warn(warning_words(issued), StudyWarning, stacklevel=2)

    def sentences(self) -> tuple[str, ...]:
        """Return the forecast in words, the chance first; none before the first trial."""
        with self._lock:
            if self._experiment is None:
                return ()
            subject = ForecastSubject.of(self._experiment)
            found = forecast(self._experiment, _now_s())
            return (headline(subject, found), *forecast_sentences(subject, found))

    def _due(self, experiment: Experiment) -> MissWarning | None:
        before = len(experiment.warnings)
        number = experiment.n_ended
        rng = np.random.default_rng(random_stream(experiment.opened.seed, "advise", number))
        for event in build_warning(experiment, 1, _now_s(), rng):
            experiment.apply(event)
        if len(experiment.warnings) == before:
            return None
        issued = experiment.warnings[-1]
        level = experiment.steering.exploitation
        experiment.apply(WarningAnswered(_now_s(), issued.number, "ignored", level))
        return issued

    def _caught_up(self, study: Study) -> Experiment | None:
        space = _space_of(study, self._levels)
        if space is None:
            return None
        if self._space is None or space.distributions != self._space.distributions:
            self._space, self._taken = space, set()
            self._experiment = Experiment(_opened(study, space, self._sla))
        experiment = self._experiment
        if experiment is None:
            return None
        for trial in study.get_trials(deepcopy=False, states=ENDED):
            if trial.number in self._taken:
                continue
            self._taken.add(trial.number)
            configuration = self._space.of_trial(trial)
            if configuration is None:
                continue
            run_id, is_repeat = len(experiment.runs) + 1, bool(experiment.runs_of(configuration))
            opened = experiment.opened
            for event in _events_of(trial, run_id, configuration, is_repeat, opened):
                experiment.apply(event)
        return experiment


def warning_words(warning: MissWarning) -> str:
    """Return a warning with what to change, as one text."""
    lines = [f"{warning.heading}. {warning.text}"]
    lines += [
        f"  - {proposal(change)}"
        for change in warning.alternatives
        if change.kind != "exploitation"  # which no sampler has
    ]
    return "\n".join(lines)


def export_study(experiment: Experiment, storage: str | BaseStorage | None = None) -> Study:
    """Return the ended runs of an experiment as a study of Optuna, in a storage or in memory.

    Evenly spaced whole numbers are an int, other levels are categories. Measures are attributes of
    the trial. A cancelled run that had started is a pruned trial. Raises SettingsError if the
    experiment has two objectives, or the storage has a study of that name or cannot be written.
    """
    opened = experiment.opened
    if opened.objective.second is not None:
        raise SettingsError("an experiment with two objectives cannot be exported to Optuna")
    is_max = opened.objective.goal == "maximise"
    try:
        study = optuna.create_study(
            study_name=opened.experiment_id,
            storage=storage,
            direction=StudyDirection.MAXIMIZE if is_max else StudyDirection.MINIMIZE,
        )
    except optuna.exceptions.DuplicatedStudyError as error:
        raise SettingsError(
            f"the storage has a study '{opened.experiment_id}' already; name another storage"
        ) from error
    except Exception as error:  # of SQLAlchemy, of a driver, of a server
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(
            f"the storage '{storage}' of Optuna cannot be written: {reason}"
        ) from error
    distributions = {p.name: _distribution(p) for p in experiment.space.parameters}
    for run in experiment.runs:
        trial = _trial_of(run, experiment, distributions)
        if trial is not None:
            study.add_trial(trial)
    return study


def _space_of(study: Study, levels: int) -> StudySpace | None:
    if len(study.directions) > 1:
        raise SettingsError(
            f"the study '{study.study_name}' of Optuna has {len(study.directions)} objectives; "
            "one is possible"
        )
    shared = intersection_search_space(study.get_trials(deepcopy=False), include_pruned=True)
    return StudySpace(shared, levels) if shared else None


def _opened(study: Study, space: StudySpace, sla: Sla) -> ExperimentOpened:
    trials = study.get_trials(deepcopy=False)
    first_s = min((_start_s(trial) for trial in trials if trial.state in ENDED), default=_now_s())
    name = "value"
    if study.metric_names:
        name = re.sub(r"\W", "_", study.metric_names[0], flags=re.ASCII)
    bounds: tuple[Constraint, ...] = ()
    if any(trial.constraints for trial in trials):
        bounds = (Constraint(SUMMED, at_most=0.0),)
    maximise = study.direction is StudyDirection.MAXIMIZE
    strategy = getattr(study.sampler, "strategy", DEFAULT_STRATEGY)
    return ExperimentOpened(
        at_s=first_s,
        experiment_id=re.sub(r"[/\\\x00-\x1f\x7f-\x9f]", "_", study.study_name)[:200],
        name=study.study_name[:200],
        application="optuna",
        facts=(Fact("Program", "run by Optuna"),),
        space=space.space,
        objective=Objective(
            SingleMeasure(name), "maximise" if maximise else "minimise", bounds, "", None
        ),
        sla=sla,
        steering=Steering(strategy, dict(getattr(study.sampler, "options", {})), None),
        warning_policy=WarningPolicy(),
        workers=1,
        seed=0,
        baseline=None,
        version=version(),
    )


def _events_of(
    trial: FrozenTrial,
    run_id: int,
    configuration: Configuration,
    is_repeat: bool,
    opened: ExperimentOpened,
) -> tuple[Event, ...]:
    """Return the events of one ended trial as a run."""
    start_s = _start_s(trial)
    end_s = max(start_s, _seconds(trial.datetime_complete, start_s))
    reason = str(trial.system_attrs.get(REASON) or f"trial {trial.number} of Optuna")
    source: Source = "replicate" if is_repeat else "suggested"
    begun = (
        RunSubmitted(start_s, run_id, configuration, source, run_id, reason, None),
        RunStarted(start_s, run_id),
    )
    if trial.state is TrialState.PRUNED:
        step = "" if trial.last_step is None else f" at step {trial.last_step}"
        return (*begun, RunCancelled(end_s, run_id, f"pruned by Optuna{step}"))
    failure = None
    measures: dict[str, Measure] | None = None
    if trial.state is TrialState.FAIL or not abs(trial.values[0]) <= LIMIT:
        failure = failure_of(trial)
    else:
        measures = {opened.objective.measures[0]: float(trial.values[0])}
        if opened.objective.constraints:
            measures[SUMMED] = violation_of(trial)
    result = ExecutionResult(run_id, measures, failure, end_s - start_s)
    return (*begun, assess_measures(opened.objective, None, result, end_s))


def _start_s(trial: FrozenTrial) -> float:
    return _seconds(trial.datetime_start or trial.datetime_complete, 0.0)


def _seconds(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.timestamp()


def _now_s() -> float:
    return datetime.now().timestamp()  # Optuna's trials carry local times, too


def _distribution(parameter: Parameter) -> BaseDistribution:
    levels = sorted(parameter.levels) if parameter.family == "number" else parameter.levels
    if len(levels) > 1 and all(type(level) is int for level in levels):
        whole = [int(level) for level in levels]
        step = whole[1] - whole[0]
        if whole == list(range(whole[0], whole[-1] + 1, step)):
            return IntDistribution(whole[0], whole[-1], step=step)
    return CategoricalDistribution(tuple(levels))


def _trial_of(
    run: Run, experiment: Experiment, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial | None:
    states = {
        RunState.COMPLETED: TrialState.COMPLETE,
        RunState.FAILED: TrialState.FAIL,
        RunState.CANCELLED: TrialState.PRUNED,
    }
    if run.state not in states or (not run.is_charged and run.source != "imported"):
        return None
    outcome, objective = run.outcome, experiment.opened.objective
    constraints: dict[str, float] = {}
    if outcome is not None:
        for i, one in enumerate(objective.constraints):
            value = one.violation(outcome.measures)
            constraints[f"{i}: {one}"] = value
    attributes: dict[str, Any] = {"reason": run.reason, "seed": run.seed}
    if outcome is not None:
        attributes |= {name: _plain(value) for name, value in outcome.measures.items()}
    trial = optuna.create_trial(
        state=states[run.state],
        value=None if outcome is None else outcome.value,
        params=experiment.space.values(run.configuration),
        distributions=dict(distributions),
        user_attrs=attributes,
        system_attrs={} if run.failure is None else {"fail_reason": run.failure},
        constraints=constraints or None,
    )
    if run.started_s is not None and run.ended_s is not None:
        trial.datetime_start = datetime.fromtimestamp(run.started_s)
        trial.datetime_complete = datetime.fromtimestamp(run.ended_s)
    return trial


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
