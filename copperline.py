"""Copperline in Python: ask for the next run, tell its result.

>>> import copperline as cl
>>> study = cl.study({"lr": [0.1, 0.01, 0.001], "layers": range(1, 5)}, minimise="loss", runs=8)
>>> while run := study.ask():
...     study.tell(run, abs(run["lr"] - 0.01) + 1 / run["layers"])
>>> study.best.values["layers"], study.finished
(4, 'the budget of 8 runs is used up')

A study is a `Session` of the assistant: with ``store=`` the browser, the command line and other
scripts see the same experiment. The first study imports the packages, not ``import copperline``.
"""

from __future__ import annotations

import html
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    import pandas as pd
    from optuna.storages import BaseStorage
    from optuna.study import Study as OptunaStudy

    from assistant import (
        AssistantError,
        Constraint,
        Forecast,
        MissWarning,
        Objective,
        Session,
        Store,
        WarningPolicy,
    )
    from assistant import Run as CoreRun
    from assistant.analysis.effects import ParameterRange
    from assistant.core.errors import StudyWarning
    from assistant.core.events import Fact
    from assistant.core.objective import Measure
    from assistant.core.sla import AutoSteering
    from assistant.integrations.notebook import NotebookView
    from strategies import EarlierSweep, Level, Parameter, ParameterSpace, StrategyError

Levels: TypeAlias = "Iterable[Level] | Mapping[str, Any] | Parameter"
"""Levels of a parameter: a list, tuple, range or array; a table as in a sweep file, such as
``{"range": {"low": 1, "high": 9, "step": 2}}``, ``{"range": {"low": 1e-5, "high": 1, "log":
True}}`` or ``{"logarithmic": {"low": 1e-4, "high": 0.1,
"count": 7}, "unit": "s"}``; or a `Parameter`."""

_REEXPORTED = {
    "AssistantError": "assistant",
    "Constraint": "assistant",
    "CopperlineSampler": "assistant.integrations.optuna_sampler",
    "ForecastCallback": "assistant.integrations.optuna_study",
    "Parameter": "strategies",
    "ParameterSpace": "strategies",
    "StrategyError": "strategies",
    "StudyWarning": "assistant.core.errors",
}


__all__ = [
    "AssistantError", "Constraint", "Effects", "Parameter", "ParameterSpace", "Run",
    "StrategyError", "Study", "StudyBest", "StudyForecast", "StudyWarning", "load_study", "study",
    "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from assistant.core.version import version

        return version()
    if name in _REEXPORTED:
        from importlib import import_module

        return getattr(import_module(_REEXPORTED[name]), name)
    raise AttributeError(f"module 'copperline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study: parameter values by name, and the reason why they were chosen.

    ``run["lr"]`` is the value of a parameter, and ``train(**run)`` passes all of them by name.

    Args:
        id: number of the run in the study, from 1 on.
        values: level of each parameter.
        seed: seed for a random program, different for each run.
        source: origin: baseline, initial, suggested, replicate, analyst ...
    """

    id: int
    values: Mapping[str, Level]
    reason: str
    seed: int
    source: str

    def __getitem__(self, name: str) -> Level:
        """Return the value of a parameter."""
        if name not in self.values:
            raise KeyError(f"no parameter '{name}'; the parameters are {', '.join(self.values)}")
        return self.values[name]

    def keys(self) -> tuple[str, ...]:
        """Return the names of the parameters, so that ``function(**run)`` works."""
        return tuple(self.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"run {self.id}: {values} ({self.reason.rstrip('.')})"

    def _repr_html_(self) -> str:
        return _table(("parameter", "value"), self.values.items(), f"Run {self.id}: {self.reason}")


@dataclass(frozen=True, slots=True)
class StudyBest:
    """The best configuration so far: feasible ones first, then by the mean of its runs.

    Args:
        run: number of its first run.
        value: value of the objective, the mean of ``n_runs`` runs.
        feasible: whether it meets every constraint.
        sentence: recommendation with its uncertainty; empty without a feasible result.
    """

    run: int
    values: Mapping[str, Level]
    value: float
    measures: Mapping[str, Measure]
    feasible: bool
    n_runs: int
    sentence: str

    def __str__(self) -> str:
        from strategies.space.parameter import show_values

        return f"{show_values(self.values)}: {self.value:.6g} (run {self.run})"

    def _repr_html_(self) -> str:
        caption = f"Run {self.run}: {self.value:.6g}. {self.sentence}"
        return _table(("parameter", "value"), self.values.items(), caption)


@dataclass(frozen=True, slots=True)
class Effects:
    """What matters: the parameters by the range of their main effect, largest first.

    Args:
        sentence: what matters most, in words.
        value_name: measured value, in ``unit``.
        parameters: range of each parameter with its 95 % interval.
    """

    sentence: str
    value_name: str
    unit: str
    parameters: tuple[ParameterRange, ...]

    def __str__(self) -> str:
        return self.sentence

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per parameter: its range and the 95 % interval of that range."""
        import pandas as pd

        rows = [(p.parameter, p.value, p.low, p.high, p.n_runs) for p in self.parameters]
        return pd.DataFrame(rows, columns=["parameter", "range", "low", "high", "runs"])

    def _repr_html_(self) -> str:
        from assistant.presentation.tables.effects import amount, interval_text

        rows = [
            (p.parameter, amount(p.value, self.unit), interval_text(p, self.unit))
            for p in self.parameters
        ]
        return _table(("parameter", f"range in {self.value_name}", "95 %"), rows, self.sentence)


@dataclass(frozen=True, slots=True)
class StudyForecast:
    """Forecast of a study: the chance of its goal, or without a goal, that the budget suffices.

    Args:
        chance: probability from 0 to 1; None while it is unknown.
        sentences: the forecast in words.
        details: all numbers.
    """

    chance: float | None
    sentences: tuple[str, ...]
    details: Forecast

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class _AskedProgram:
    """The program of a study: the caller runs it, so Copperline only describes it."""

    space: ParameterSpace
    objective: Objective
    baseline: Mapping[str, Level] | None
    deterministic: bool | None

    name = "python"
    measures = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the report says about the program."""
        from assistant.core.events import Fact

        return (Fact("Program", "asked and told from Python"),)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Refuse: only the caller can run the program."""
        from assistant.core.errors import RunError

        raise RunError(f"only the script of the study can run {dict(values)} (seed {seed})")


def study(
    space: Mapping[str, Levels] | ParameterSpace,
    *,
    minimise: str | None = None,
    maximise: str | None = None,
    also: str | None = None,
    constraints: Iterable[Constraint] = (),
    unit: str | None = None,
    goal: float | None = None,
    runs: int | None = 60,
    baseline: Mapping[str, Level] | None = None,
    exclude: Iterable[str] = (),
    noisy: bool | None = None,
    seed: int = 0,
    preset: Literal["copper"] | None = None,
    strategy: str | None = None,
    options: Mapping[str, Level] | None = None,
    exploitation: float | None = None,
    refine: bool = True,
    initial: int = 10,
    batch: int | None = None,
    workers: int = 1,
    keep_going: bool = False,
    warnings: Literal["accept", "ignore"] = "ignore",
    learn_from: Iterable[str | Study] = (),
    name: str = "study",
    store: str | os.PathLike[str] | None = None,
) -> Study:
    """Open a new study: a search for the best values of a program's parameters.

    Args:
        space: levels of each parameter by name, or a `ParameterSpace`.
        minimise: measure to make small; or ``maximise``.
        maximise: measure to make large.
        also: second measure with its direction, such as ``"maximise accuracy"``.
        constraints: such as ``Constraint("memory_gb", at_most=16)``.
        unit: unit of the measure, such as ``"s"``.
        goal: value of the measure at which the study ends.
        runs: budget of runs; None for no limit.
        baseline: current configuration, which runs first and is compared with the best.
        exclude: conditions that no run may meet, such as ``"batch > 64 and lr > 0.1"``.
        noisy: whether equal values give different results; None if unknown.
        seed: of all random choices; the same seed and results give the same runs.
        preset: ``"copper"`` is the paper's loop: its strategy, its blocks and its warning.
        strategy: name of a strategy; None for the default, or that of the preset.
        options: options of the strategy.
        exploitation: share of the suggestions inside regions of good results, 0 to 1.
        refine: add levels near the best result to each range without a step.
        initial: first runs, chosen without results.
        batch: suggestions at once; None lets the strategy decide.
        workers: runs that the caller executes at once, for forecasts.
        keep_going: go on if the baseline, or each of the first three runs, fails.
        warnings: answer to warnings; each is also a Python warning, a `StudyWarning`.
        learn_from: earlier studies, or names or identifiers of experiments in ``store``, whose
            results guide the search: of other data, another machine or version, also with other
            levels. They are no results of this study.
        name: name of the experiment.
        store: file of experiments, as of ``copperline app --store``; None keeps it in memory.

    Raises:
        AssistantError, StrategyError: an argument is wrong; the message says which and why.
    """
    from assistant import MemoryStore, Sla, open_session
    from assistant.core.sla import AutoSteering
    from strategies import DEFAULT_STRATEGY, Exclusion

    built = _space(space)
    for condition in exclude:
        built = built.excluding(Exclusion(condition))
    program = _AskedProgram(
        built, _objective(minimise, maximise, also, tuple(constraints), unit), baseline,
        None if noisy is None else not noisy,
    )  # fmt: skip
    steering = AutoSteering(batch, initial, _answer(warnings))
    strategy, options, policy = _preset(preset, strategy, options)
    earlier = _earlier(learn_from, program.objective, store)

    def opened(target: Store) -> Session:
        from assistant.core.version import version

        return open_session(
            program, store=target, name=name, workers=workers,
            sla=Sla(max_runs=runs, goal=goal, keep_going=keep_going),
            strategy=strategy or DEFAULT_STRATEGY, options=options, exploitation=exploitation,
            refine=refine, warning_policy=policy, seed=seed, version=version(), earlier=earlier,
        )  # fmt: skip

    session = opened(MemoryStore())  # refuses wrong arguments before a file is made
    if store is None:
        return Study(session, steering, ExitStack())
    with ExitStack() as stack:
        session = opened(_opened_store(Path(store), stack))
        _lock(Path(store), session.id, stack)
        return Study(session, steering, stack.pop_all())


def _earlier(
    learn_from: Iterable[str | Study], objective: Objective, store: str | os.PathLike[str] | None
) -> tuple[EarlierSweep, ...]:
    from assistant.core.errors import SettingsError
    from assistant.session.opening import earlier_sweep, earlier_sweeps

    if isinstance(learn_from, str | Study):
        learn_from = (learn_from,)
    earlier: list[EarlierSweep] = []
    for source in learn_from:
        if isinstance(source, Study):
            earlier.append(earlier_sweep(source.session.experiment, objective))
            continue
        if store is None:
            raise SettingsError(
                f"learn_from names '{source}', but without store= no experiment is stored; give "
                "the study itself, or the store"
            )
        with ExitStack() as stack:
            opened = _opened_store(Path(store), stack)
            earlier += earlier_sweeps(opened, [source], objective)
    return tuple(earlier)


def load_study(
    store: str | os.PathLike[str],
    experiment: str = "latest",
    *,
    warnings: Literal["accept", "ignore"] = "ignore",
) -> Study:
    """Continue a stored study; runs that were asked for and not told wait again.

    Args:
        store: file of experiments.
        experiment: its identifier, or ``latest``.
        warnings: answer to warnings, as of `study`.

    Raises:
        StoreError: there is no such store or experiment.
        ExperimentError: another process executes its runs.
    """
    from assistant.core.errors import StoreError
    from assistant.core.sla import AutoSteering
    from assistant.session.opening import load_session

    path = Path(store)
    if not path.exists():
        raise StoreError(f"there is no store '{path}'; open a new study with store='{path}'")
    with ExitStack() as stack:
        opened = _opened_store(path, stack)
        stored = opened.experiments()
        if experiment == "latest" and not stored:
            raise StoreError(f"the store '{path}' holds no experiment; open a new study")
        session = load_session(opened, stored[0].id if experiment == "latest" else experiment)
        _lock(path, session.id, stack)
        session.recover()
        return Study(session, AutoSteering(warnings=_answer(warnings)), stack.pop_all())


def watch(
    store: str | os.PathLike[str],
    experiment: str = "latest",
    *,
    token: str = "",
    every_s: float = 1.0,
) -> None:
    """Show a stored experiment below this cell of a notebook, until it is finished.

    It only reads: whatever executes the experiment goes on.

    Args:
        store: file of experiments, or the address of a service, such as ``http://host:8765``.
        experiment: its identifier, or ``latest``.
        token: access token of the service; that of a viewer is enough.
        every_s: seconds between two looks.

    Raises:
        StoreError: there is no such store or experiment. ServiceError: the service does not answer.
        SettingsError: this is no notebook, or ``every_s`` is not above 0.
    """
    from threading import Thread

    from assistant.core.errors import SettingsError, StoreError
    from assistant.core.sla import AutoSteering
    from assistant.integrations.notebook import NotebookView
    from assistant.session.opening import session_in

    if not every_s > 0:
        raise SettingsError(f"every_s is a number of seconds above 0, not {every_s!r}")
    opened: Store
    if str(store).startswith(("http://", "https://")):
        from assistant.client.api import ApiClient, HttpStore

        opened = HttpStore(ApiClient(str(store), token))
    else:
        from assistant.service.store_connection import open_store

        if not Path(store).exists():
            raise StoreError(f"there is no store '{store}'")
        opened = open_store(Path(store), take_key=False)
    study = Study(session_in(opened, experiment), AutoSteering(), ExitStack())
    view = NotebookView(study._repr_html_)
    view.show()
    Thread(
        target=_follow, args=(study, view, every_s), name="copperline-watch", daemon=True
    ).start()


def _follow(study: Study, view: NotebookView, every_s: float) -> None:
    """Redraw a view after each look that saw something new, until the study is finished."""
    from threading import Event

    pause = Event()
    while study.finished is None:
        pause.wait(every_s)
        n_events = study.session.experiment.n_events
        try:
            study.session.catch_up()
        except Exception as error:
            _warn_of(f"study '{study.id}' is no longer watched: {error}")
            return
        if study.session.experiment.n_events > n_events:
            view.redraw()


class Study:
    """A study: `ask` for runs and `tell` their results; made by `study` and `load_study`.

    Several runs may be open at once, and calls may come from several threads. ``session`` is the
    assistant's session, with everything else: close levels, change the budget, exclude, rate ...
    """

    def __init__(self, session: Session, steering: AutoSteering, resources: ExitStack) -> None:
        self.session = session
        self._steering = steering
        self._resources = resources
        self._finalizer = weakref.finalize(self, resources.close)
        self._view: NotebookView | None = None

    @property
    def id(self) -> str:
        """Identifier of the experiment in its store."""
        return self.session.id

    @property
    def space(self) -> ParameterSpace:
        """Parameter space, with closed levels and exclusions."""
        return self.session.experiment.space

    @property
    def finished(self) -> str | None:
        """Reason why the study is finished; None while it goes on."""
        finished = self.session.experiment.finished
        return None if finished is None else finished.reason

    @property
    def runs_left(self) -> int | None:
        """Runs left of the budget; None without a limit."""
        return self.session.experiment.runs_left

    def ask(self) -> Run | None:
        """Return the next run to execute, or None if there is none now.

        None while other runs are open means: tell them, then ask again. Otherwise the study is
        over, and `finished` has the reason.
        """
        from assistant.session.auto_steering import auto_steer_step, may_start_runs

        session = self.session
        with session.deciding():
            if session.experiment.finished is not None:
                return None
            started = session.start_next() if may_start_runs(session) else None
            while started is None:
                reason = auto_steer_step(session, self._steering, on_warning=_warn)
                if reason is not None:
                    if not session.experiment.runs_in(_running()):
                        session.finish(reason)
                    return None
                started = session.start_next()
            return self._run(started)

    def tell(
        self,
        run: Run | int | None,
        result: object = None,
        *,
        failed: str | None = None,
        duration_s: float | None = None,
    ) -> None:
        """Record the result of a run, or with ``failed`` the reason why it has none.

        Args:
            run: a run of `ask`, or its number.
            result: the measure that the objective needs, or all measures by name.
            failed: reason of a failure, in words.
            duration_s: seconds that it took; None for the time since `ask`.

        Raises:
            ExperimentError: no run, an unknown one, or one that was told already.
            RunError: a measure is missing, or is no finite number; nothing is recorded then.
        """
        from assistant.core.errors import ExperimentError
        from assistant.core.ports import ExecutionResult

        if run is None:
            raise ExperimentError("there is no run to tell, because ask returned None")
        session, run_id = self.session, run if isinstance(run, int) else run.id
        with session.deciding():
            core = session.experiment.run(run_id)
            if core.outcome is not None or core.failure is not None:
                raise ExperimentError(f"run {run_id} was told already, as {core.state}")
            measures = None
            if failed is None:
                measures = self._measures(run_id, result)
            elif result is not None:
                raise ExperimentError(f"run {run_id} has a result and failed; tell only one")
            elif not _is_text(failed):
                raise ExperimentError(f"failed={failed!r} of run {run_id} is no reason in words")
            if duration_s is None:
                duration_s = session.now_s() - (core.started_s or session.now_s())
            session.record_result(ExecutionResult(run_id, measures, failed, duration_s))

    def _measures(self, run_id: int, result: object) -> Mapping[str, Measure]:
        from assistant.applications.measures import measures_of
        from assistant.core.errors import RunError

        objective = self.session.experiment.opened.objective
        try:
            measures = measures_of(result, objective, "you")
            objective.assess(measures)
        except RunError as error:
            raise RunError(f"run {run_id}: {error}; a run without one is told failed='...'") from (
                None
            )
        return measures

    def optimise(self, function: Callable[..., object]) -> StudyBest | None:
        """Call a function with the values of each run by name until the study is over.

        It returns the measure, or measures by name; an exception is a failed run.
        """
        while run := self.ask():
            try:
                result = function(**run)
            except Exception as error:
                words = " ".join(str(error).split())[:300]
                self.tell(run, failed=f"{type(error).__name__}{': ' if words else ''}{words}")
            else:
                self.tell(run, result)
        return self.best

    def include(
        self,
        configurations: pd.DataFrame | Mapping[str, Level] | Iterable[Mapping[str, Level]],
        reason: str = "",
    ) -> tuple[Run, ...]:
        """Queue configurations of your choice before all others, and return their runs.

        Args:
            configurations: rows of a data frame, whose other columns are ignored, or the value of
                each parameter by name; what has a run already is left out.
            reason: why, for the report.

        Raises:
            StrategyError: a value is missing, is no level or is excluded; then none is queued.
            ExperimentError: the study is over, or its budget leaves fewer runs.
        """
        from assistant import RunState
        from assistant.core.errors import ExperimentError
        from assistant.presentation.tables.runs import configuration_rows

        session = self.session
        with session.deciding():
            experiment = session.experiment
            rows = {
                experiment.space.from_values(values): values
                for values in configuration_rows(configurations, experiment.space)
            }
            for configuration in rows:
                experiment.space.check(configuration)
            new = [
                values
                for configuration, values in rows.items()
                if all(r.state is RunState.CANCELLED for r in experiment.runs_of(configuration))
            ]
            left = experiment.remaining_runs
            if left is not None and len(new) > left:
                raise ExperimentError(
                    f"{len(new)} configurations are new and {left} runs are left that are not "
                    "queued; include fewer, or raise the budget with study.session.change_budget"
                )
            included = [session.include(values, reason) for values in new]
            for run in reversed(included):
                session.run_first(run.id)
            return tuple(map(self._run, included))

    @property
    def best(self) -> StudyBest | None:
        """The best configuration so far; None without a result."""
        experiment = self.session.experiment
        run = experiment.best
        summary = None if run is None else experiment.summary(run)
        if run is None or summary is None:
            return None
        recommended, outcome = self.session.recommendation(), summary.outcome
        return StudyBest(
            run.id, _values(experiment.space, run), outcome.value, outcome.measures,
            outcome.feasible, summary.n, "" if recommended is None else recommended.sentence,
        )  # fmt: skip

    def effects(self) -> Effects:
        """Return what matters: the parameters by the range of their main effect."""
        from assistant.presentation.tables.effects import effects_ranking

        ranking = effects_ranking(self.session.experiment)
        return Effects(ranking.sentence, ranking.value_name, ranking.unit, ranking.parameters)

    def forecast(self) -> StudyForecast:
        """Return the forecast: the chance of the goal, the best to expect, and what is left."""
        from assistant.presentation.text.forecast import (
            ForecastSubject,
            forecast_sentences,
            headline,
        )

        forecast = self.session.forecast()
        subject = ForecastSubject.of(self.session.experiment)
        chance = None
        if forecast.goal is not None:
            chance = forecast.goal.chance
        elif forecast.end is not None and forecast.end.miss is not None:
            chance = 1.0 - forecast.end.miss
        words = (headline(subject, forecast), *forecast_sentences(subject, forecast))
        return StudyForecast(chance, words, forecast)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per run: state, values, measures, times and reason."""
        from assistant.presentation.tables.runs import run_rows, runs_frame

        return runs_frame(run_rows(self.session.experiment))

    def to_optuna(self, storage: str | BaseStorage | None = None) -> OptunaStudy:
        """Return the ended runs as a study of Optuna, in a storage such as ``sqlite:///a.db``.

        Raises SettingsError for a study of two measures, or if it is in the storage already.
        """
        from assistant.integrations.optuna_study import export_study

        return export_study(self.session.experiment, storage)

    def log_to_mlflow(self, tracking_uri: str | None = None, experiment: str | None = None) -> None:
        """Write all runs to MLflow, those until now and those to come; `close` waits for the last.

        Args:
            tracking_uri: server or database, such as ``sqlite:///mlflow.db``; None for the
                variable ``MLFLOW_TRACKING_URI``, or MLflow's default.
            experiment: experiment of MLflow; None for the name of the study.

        Raises:
            SettingsError: MLflow cannot be reached, or refuses the experiment.
        """
        from assistant.integrations.mlflow_log import MlflowLog

        log = MlflowLog(self.session, tracking_uri, experiment, say=_warn_of)
        self._resources.callback(log.close)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report and return its path; the ending of the file chooses its form.

        ``.html`` is one page, ``.md`` Markdown with a folder of charts, ``.pdf`` needs the extra
        ``copperline[pdf]``, and ``.zip`` has all data, for ``copperline import``. Raises
        SettingsError for another ending, or a form that cannot be written here.
        """
        from assistant.config.snapshot import report_content
        from assistant.presentation.report.forms import form_of, write_form

        form_of(Path(path))
        return write_form(
            report_content(self.session.experiment, self.session.events()), Path(path)
        )

    def close(self) -> None:
        """Release the store, so that other processes may continue the study."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        experiment = self.session.experiment
        n, budget = experiment.n_ended, experiment.sla.max_runs
        done = f"{n} runs" if budget is None else f"{n} of {budget} runs"
        best = self.best
        text = "" if best is None else f", best {best}"
        return f"<Study '{self.id}': {experiment.opened.objective}, {done}{text}>"

    def watch(self) -> None:
        """Show the study below this cell of a notebook; the output is redrawn as runs end.

        Raises SettingsError if this is no notebook.
        """
        from assistant.integrations.notebook import NotebookView

        if self._view is None:
            self._view = NotebookView(self._repr_html_)
            self.session.listen(self._view.redraw)
        self._view.show()

    def _repr_html_(self) -> str:
        experiment, best = self.session.experiment, self.best
        budget, warned = experiment.sla.max_runs, experiment.warnings
        rows: list[tuple[str, object]] = [
            ("objective", experiment.opened.objective),
            ("runs", f"{experiment.n_ended} of {'any number' if budget is None else budget}"),
            ("finished", self.finished or "no"),
        ]
        if warned:
            rows.append(("warning", f"{warned[-1].heading}. {warned[-1].text}"))
        if best is not None:
            rows += [(f"best {name}", value) for name, value in best.values.items()]
            rows += [("best value", f"{best.value:.6g}"), ("recommendation", best.sentence)]
        return _table(("study", self.id), rows, "") + self._latest_html()

    def _latest_html(self) -> str:
        """Return the latest runs, newest first, as an HTML table; empty before the first run."""
        experiment = self.session.experiment
        started = [run for run in experiment.runs if run.started_s is not None]
        if not started:
            return ""
        rows = [
            (
                run.id,
                *experiment.space.all_values(run.configuration).values(),
                run.failure or run.state if run.outcome is None else f"{run.outcome.value:.6g}",
            )
            for run in started[: -_N_LATEST - 1 : -1]
        ]
        head = ("run", *experiment.space.names, str(experiment.opened.objective.wrapper))
        return _table(head, rows, "Latest runs")

    def _run(self, run: CoreRun) -> Run:
        values = _values(self.session.experiment.space, run)
        return Run(run.id, values, run.reason, run.seed, run.source)


_N_LATEST = 8


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _running() -> Any:
    from assistant import RunState

    return RunState.RUNNING


def _values(space: ParameterSpace, run: CoreRun) -> Mapping[str, Level]:
    return MappingProxyType(dict(space.values(run.configuration)))


def _warn(warning: MissWarning) -> None:
    from assistant.core.errors import StudyWarning

    warnings.warn(f"{warning.heading}. {warning.text}", StudyWarning, stacklevel=6)


def _warn_of(sentence: str) -> None:
    from assistant.core.errors import StudyWarning

    warnings.warn(sentence, StudyWarning, stacklevel=2)


def _preset(
    preset: str | None, strategy: str | None, options: Mapping[str, Level] | None
) -> tuple[str | None, Mapping[str, Level] | None, WarningPolicy | None]:
    """Return strategy, options and warning policy of a preset, below what the caller says."""
    if preset is None:
        return strategy, options, None
    from assistant import WarningPolicy
    from assistant.config.sweep_file import PRESETS
    from assistant.core.errors import SettingsError

    if preset not in PRESETS:
        raise SettingsError(f"there is no preset '{preset}'; choose from {', '.join(PRESETS)}")
    tables = PRESETS[preset]
    own = dict(tables["strategy"])
    name = own.pop("name")
    if strategy in (None, name):
        strategy, options = name, {**own, **(options or {})}
    return strategy, options, WarningPolicy(**tables["warning_policy"])


def _answer(answer: str) -> Literal["accept", "ignore"]:
    from assistant.core.errors import SettingsError

    if answer == "accept":
        return "accept"
    if answer == "ignore":
        return "ignore"
    raise SettingsError(f"warnings must be accept or ignore, not '{answer}'")


def _space(space: Mapping[str, Levels] | ParameterSpace) -> ParameterSpace:
    """Return a parameter space from levels by name. Raises StrategyError or SettingsError."""
    from assistant.core.errors import SettingsError
    from strategies import ParameterSpace

    if isinstance(space, ParameterSpace):
        return space
    if not isinstance(space, Mapping):
        raise SettingsError(
            "a space is levels by parameter name, such as {'lr': [0.1, 0.01]}, or a "
            f"ParameterSpace, not a {type(space).__name__}"
        )
    return ParameterSpace(tuple(_parameter(name, levels) for name, levels in space.items()))


def _parameter(name: str, levels: Levels) -> Parameter:
    from strategies import Parameter

    if isinstance(levels, Parameter):
        return levels
    if not isinstance(levels, Mapping):
        return Parameter(name, levels)  # type: ignore[arg-type] # it takes any iterable
    from pydantic import ValidationError

    from assistant.config.application import ParameterSettings
    from assistant.core.errors import SettingsError

    try:
        return ParameterSettings.model_validate({"name": name, **levels}).build()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise SettingsError(
            f"the levels of parameter '{name}' are wrong{f' at {where}' if where else ''}: {what}"
        ) from None


def _objective(
    minimise: str | None,
    maximise: str | None,
    also: str | None,
    constraints: Sequence[Constraint],
    unit: str | None,
) -> Objective:
    from assistant import Objective, SecondObjective, SingleMeasure
    from assistant.core.errors import SettingsError

    if (minimise is None) == (maximise is None):
        raise SettingsError(
            "name one measure: minimise='loss' or maximise='accuracy'; also= takes a second one"
        )
    second = None
    if also is not None:
        direction, _, measure = also.strip().partition(" ")
        if direction not in ("minimise", "maximise") or not measure.strip():
            raise SettingsError(f"also='{also}' is not of the form 'maximise accuracy'")
        second = SecondObjective(
            SingleMeasure(measure.strip()), "minimise" if direction == "minimise" else "maximise"
        )
    name = minimise if minimise is not None else str(maximise)
    unit = ("s" if name.endswith("_s") else "") if unit is None else unit
    goal: Literal["minimise", "maximise"] = "maximise" if minimise is None else "minimise"
    return Objective(SingleMeasure(name), goal, tuple(constraints), unit, second)


def _opened_store(path: Path, stack: ExitStack) -> Store:
    """Open a store, and serve it to the browser and other commands while the study is open."""
    from assistant.service.store_connection import embedded_service

    return stack.enter_context(embedded_service(path))


def _lock(path: Path, experiment_id: str, stack: ExitStack) -> None:
    from assistant.session.execution import ExecutionLock

    stack.enter_context(ExecutionLock(path, experiment_id))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """Return an HTML table with escaped texts."""
    cells = [f"<th>{html.escape(name)}</th>" for name in head]
    lines = [f"<tr>{''.join(cells)}</tr>"]
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>")
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{''.join(lines)}</table>"
