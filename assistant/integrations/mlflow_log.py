"""Runs of an experiment in MLflow, live: one run for the sweep, and a nested run for each of ours.

`logged_run` says what MLflow gets of a run. `MlflowLog` sends it from a thread of its own, so that
a slow server never delays the sweep. What is in MLflow already, found by its tags, is continued.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Self

from assistant.core.errors import SettingsError
from assistant.core.events import Event, ExperimentFinished
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.run import Run, RunState
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import write_report
from assistant.presentation.tables.runs import run_rows, write_runs_csv

# isort: split
try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.entities import Run as MlflowRun
    from mlflow.exceptions import MlflowException
except ImportError as error:
    raise SettingsError(
        f"to write to MLflow, {error}; install what it needs: pip install 'copperline[mlflow]'"
    ) from error

if TYPE_CHECKING:
    from assistant.session.session import Session

EXPERIMENT, RUN = "copperline.experiment", "copperline.run"
"""Tags of the identifier of the experiment, and of the number of a run; the sweep has number 0."""

PARENT, NOTE = "mlflow.parentRunId", "mlflow.note.content"
LONGEST_VALUE, LONGEST_TAG = 6000, 5000  # Characters that MLflow takes
MOST_METRICS, MOST_PARAMS = 1000, 100  # In one request of MLflow; as many tags as params
SWEEP = 0
_STATUS = {
    RunState.RUNNING: "RUNNING",
    RunState.COMPLETED: "FINISHED",
    RunState.FAILED: "FAILED",
    RunState.CANCELLED: "KILLED",
}


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """What MLflow gets of a run; times in milliseconds since 1970-01-01 UTC.

    Args:
        metrics: series of numbers by name; a single number is a series of one.
        end_ms: None while the run goes on.
    """

    name: str
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, tuple[float, ...]]
    tags: Mapping[str, str]
    start_ms: int
    end_ms: int | None


def logged_run(experiment: Experiment, run: Run) -> LoggedRun | None:
    """Return what MLflow gets of a run; None if it never started."""
    begun = run.started_s is not None or run.outcome is not None
    if run.state not in _STATUS or not begun:
        return None
    reached = run.reported if run.outcome is None else run.outcome.measures
    values = experiment.space.values(run.configuration)
    tags = {RUN: str(run.id), "source": run.source, "seed": str(run.seed), NOTE: run.reason}
    if run.outcome is not None:
        tags["feasible"] = str(run.outcome.feasible)
    for name, words in (("failure", run.failure), ("stopped", run.stopped)):
        if words is not None:
            tags[name] = words
    start_s = run.submitted_s if run.started_s is None else run.started_s
    return LoggedRun(
        f"run {run.id}",
        _STATUS[run.state],
        {name: str(value)[:LONGEST_VALUE] for name, value in values.items()},
        _metrics(reached or {}),
        {name: text[:LONGEST_TAG] for name, text in tags.items()},
        _ms(start_s),
        None if run.ended_s is None else _ms(run.ended_s),
    )


def _metrics(measures: Mapping[str, Measure]) -> dict[str, tuple[float, ...]]:
    """Return the finite numbers of measures, by names that MLflow takes.

    >>> _metrics({"gzip <1>": 2.0, "unknown": None, "series": (1.0, 2.0)})
    {'gzip _1_': (2.0,), 'series': (1.0, 2.0)}
    """
    series = {name: m if isinstance(m, tuple) else (m,) for name, m in measures.items()}
    return {
        re.sub(r"[^\w.\-/ :]", "_", name, flags=re.ASCII): tuple(x for x in xs if x is not None)
        for name, xs in series.items()
        if all(x is not None and math.isfinite(x) for x in xs)
    }


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


def logged_sweep(experiment: Experiment) -> LoggedRun:
    """Return what MLflow gets of the experiment as a whole."""
    opened = experiment.opened
    params = {
        "objective": str(opened.objective),
        "strategy": experiment.steering.strategy,
        "runs": str(experiment.sla.max_runs),
        "seed": str(opened.seed),
        "application": opened.application,
        "version": opened.version,
    }
    tags = {RUN: str(SWEEP)}
    return LoggedRun(opened.name, "RUNNING", params, {}, tags, _ms(opened.at_s), None)


def logged_best(experiment: Experiment) -> tuple[Mapping[str, tuple[float, ...]], dict[str, str]]:
    """Return the best value as a metric, and its run and values as tags; empty without one."""
    best = experiment.best
    summary = None if best is None else experiment.summary(best)
    if best is None or summary is None:
        return {}, {}
    values = experiment.space.values(best.configuration)
    tags = {"best.run": str(best.id)} | {f"best.{n}": str(v) for n, v in values.items()}
    return _metrics({"best": summary.outcome.value}), tags


def check_server(tracking_uri: str) -> None:
    """Raise SettingsError if MLflow cannot be reached at an address."""
    try:
        MlflowClient(tracking_uri).search_experiments(max_results=1)
    except (MlflowException, ImportError, OSError) as error:
        raise SettingsError(f"nothing can be written to MLflow: {error}") from error


class MlflowLog:
    """Context manager that writes an experiment to MLflow while it goes on.

    Args:
        session: its runs until now are written, too, unless they are in MLflow already.
        tracking_uri: server or database, such as ``sqlite:///mlflow.db``; None for the variable
            ``MLFLOW_TRACKING_URI`` or MLflow's default.
        experiment: experiment of MLflow; None for the name of ours.
        say: callback for a fault, once, from the caller's thread; nothing is written after it.

    Raises:
        SettingsError: MLflow cannot be reached, or refuses the experiment.
    """

    def __init__(
        self,
        session: Session,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._session, self._say = session, say
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._fault, self._is_said, self._is_over = "", False, False
        self._steps: dict[int, int] = {}
        with session.deciding():
            present = session.experiment
            try:
                self._client = MlflowClient(tracking_uri)
                self._mlflow_id = self._experiment(experiment or present.opened.name)
                known = self._known(session.id)
                self._ids = {number: run.info.run_id for number, run in known.items()}
                if SWEEP in known:
                    self._client.update_run(self._ids[SWEEP], status="RUNNING")
                else:
                    self._create(SWEEP, logged_sweep(present), {})
            except (MlflowException, ImportError, OSError) as error:
                raise SettingsError(f"nothing can be written to MLflow: {error}") from error
            for run in present.runs:
                if run.id not in known or known[run.id].info.status == "RUNNING":
                    self._hear_run(present, run)
            if present.finished is not None:
                self._end(present)
            session.listen(self._hear)
        self._thread = Thread(target=self._write_all, name="mlflow", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait until everything is written. A sweep that is not finished counts as killed."""
        if self._thread.is_alive():
            if not self._is_over:
                self._end(self._session.look())
            self._tasks.put(None)
            self._thread.join()
        self._tell()

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)

    def _known(self, experiment_id: str) -> dict[int, MlflowRun]:
        """Return the runs that MLflow has of an experiment, by our numbers."""
        known: dict[int, MlflowRun] = {}
        wanted, token = f"tags.`{EXPERIMENT}` = '{experiment_id}'", None
        while True:
            page = self._client.search_runs([self._mlflow_id], wanted, page_token=token)
            known |= {int(run.data.tags[RUN]): run for run in page}
            token = page.token
            if not token:
                return known

    def _hear(self, experiment: Experiment, event: Event) -> None:
        """Queue what an event changed; the session waits, so nothing is sent here."""
        self._tell()
        if self._fault:
            return
        run_id = getattr(event, "run_id", None)
        if run_id is not None:
            self._hear_run(experiment, experiment.run(run_id))
        elif isinstance(event, ExperimentFinished):
            self._end(experiment.supposing(()))

    def _hear_run(self, experiment: Experiment, run: Run) -> None:
        logged = logged_run(experiment, run)
        if logged is None:
            return
        self._tasks.put(lambda: self._write(run.id, logged))
        if run.outcome is not None and logged.end_ms is not None:
            metrics, tags = logged_best(experiment)
            points = list(_points(metrics, logged.end_ms, experiment.n_ended))
            self._tasks.put(lambda: self._send(SWEEP, points, tags))

    def _end(self, experiment: Experiment) -> None:
        """Queue the report and the table of all runs, and the end of the sweep."""
        events = self._session.events()
        self._is_over = experiment.finished is not None
        status = "FINISHED" if self._is_over else "KILLED"

        def write() -> None:
            with TemporaryDirectory(prefix="copperline-") as folder:
                report, table = Path(folder, "report.html"), Path(folder, "runs.csv")
                write_report(collect(experiment, events), report)
                write_runs_csv(run_rows(experiment), table)
                self._client.log_artifacts(self._ids[SWEEP], folder)
            self._client.set_terminated(self._ids[SWEEP], status)

        self._tasks.put(write)

    def _write_all(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:  # of any server, database or disk
                self._fault = " ".join(str(error).split()) or type(error).__name__
                return

    def _tell(self) -> None:
        if self._fault and not self._is_said:
            self._is_said = True
            self._say(f"nothing more is written to MLflow; the sweep goes on: {self._fault[:500]}")

    def _write(self, number: int, logged: LoggedRun) -> None:
        if number not in self._ids:
            self._create(number, logged, {PARENT: self._ids[SWEEP]})
        at_ms = logged.start_ms if logged.end_ms is None else logged.end_ms
        step = self._steps.get(number, 0)
        points = list(_points(logged.metrics, at_ms, step))
        self._steps[number] = step + bool(points)
        self._send(number, points, logged.tags)
        if logged.end_ms is not None:
            self._client.set_terminated(self._ids[number], logged.status, logged.end_ms)

    def _create(self, number: int, logged: LoggedRun, tags: Mapping[str, str]) -> None:
        created = self._client.create_run(
            self._mlflow_id,
            logged.start_ms,
            {EXPERIMENT: self._session.id, **logged.tags, **tags},
            logged.name,
        )
        self._ids[number] = created.info.run_id
        params = [Param(name, value) for name, value in logged.params.items()]
        for start in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(self._ids[number], params=params[start : start + MOST_PARAMS])

    def _send(self, number: int, points: Sequence[Metric], tags: Mapping[str, str]) -> None:
        """Send points of metrics and tags, as many in one request as MLflow takes."""
        for start in range(0, len(points), MOST_METRICS):
            self._client.log_batch(self._ids[number], points[start : start + MOST_METRICS])
        labels = [RunTag(name, text) for name, text in tags.items()]
        for start in range(0, len(labels), MOST_PARAMS):
            self._client.log_batch(self._ids[number], tags=labels[start : start + MOST_PARAMS])


def _points(metrics: Mapping[str, tuple[float, ...]], at_ms: int, step: int) -> Iterator[Metric]:
    for name, series in metrics.items():
        for offset, value in enumerate(series):
            yield Metric(name, value, at_ms, step + offset)
