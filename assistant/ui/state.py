"""What a page is given of an experiment: its state, and who decides about it.

The work is done by the service. A page reads the state as it was when it began to draw, and decides
through the service; while that is away, the last state stays on the screen.

First values of fields, which the browser is sure to hear of.
"""

import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import streamlit as st

from assistant.analysis.forecast import forecast
from assistant.client.api import ApiClient, HttpStore
from assistant.client.remote_session import ExecutionStatus, RemoteSession
from assistant.core.errors import ServiceError
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast
from assistant.core.run import RunState
from assistant.service.store_connection import ServiceSupervisor
from assistant.session.session import Session

SteerableSession = Session | RemoteSession
"""Whoever takes decisions about an experiment: the same methods here and through a service."""

AGAIN_S = 0.4
"""So long what was read last is good enough for everybody who looks."""


class ExperimentView(Protocol):
    """An experiment on somebody's screen."""

    @property
    def session(self) -> SteerableSession:
        """Takes the decisions."""

    @property
    def experiment(self) -> Experiment:
        """The state when the page was begun; it does not change while the page is drawn."""

    @property
    def snapshot(self) -> "ExperimentSnapshot":
        """What was read last, with who executes it."""


class Activity(StrEnum):
    """Where the execution of an experiment stands."""

    FINISHED = "finished"
    PAUSED = "paused"
    ELSEWHERE = "elsewhere"
    RUNNING = "running"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class ExperimentSnapshot:
    """An experiment as it was read last.

    Args:
        experiment: a copy that nobody changes.
        execution: who executes it.
        away: why the service cannot be asked now, in a sentence; None while it can.
    """

    experiment: Experiment
    execution: ExecutionStatus
    away: str | None = None

    @property
    def activity(self) -> Activity:
        """Where its execution stands."""
        experiment = self.experiment
        if experiment.finished is not None:
            return Activity.FINISHED
        running = experiment.runs_in(RunState.RUNNING)
        if not self.execution.active:
            has_local_runs = any(not run.worker for run in running)
            return Activity.ELSEWHERE if has_local_runs else Activity.PAUSED
        if running or experiment.waiting:
            return Activity.RUNNING
        return Activity.READY

    @property
    def is_live(self) -> bool:
        """Whether something may happen without anybody deciding it."""
        return self.activity in (Activity.RUNNING, Activity.ELSEWHERE) or (
            self.execution.active and self.experiment.automatic is not None
        )


SAME_S = 5.0
"""So long a forecast of the same state is as good as a new one."""
SHARE = 0.05
"""Of a processor that may go into forecasts while results come in."""


@dataclass(frozen=True, slots=True)
class _CachedForecast:
    forecast: Forecast
    n_events: int
    version: int
    made_s: float
    cost_s: float

    def is_good(self, experiment: Experiment, now_s: float) -> bool:
        """Whether it need not be made anew: nothing was decided, and it is young for its cost."""
        age_s = now_s - self.made_s
        if experiment.n_events == self.n_events:
            return age_s < max(SAME_S, self.cost_s / SHARE)
        return experiment.version == self.version and age_s < self.cost_s / SHARE


class ExperimentViewModel:
    """One experiment of a service, for every page and browser of this process.

    Reading has a connection of its own, so that nobody waits for a decision of somebody else.

    Args:
        watch: connection for reading, which gives up soon.
        decide: connection for deciding.
        experiment_id: which.
        store: the file that it lies in.

    Raises:
        AssistantError: there is no such experiment, or the service cannot be reached.
    """

    def __init__(
        self, watch: ApiClient, decide: ApiClient, experiment_id: str, store: Path
    ) -> None:
        self.store = store
        self.session = RemoteSession(decide, experiment_id)
        self._watched = RemoteSession(watch, experiment_id)
        self._lock = threading.Lock()
        self._thinking = threading.Lock()
        self._thought: _CachedForecast | None = None
        self._read_s = 0.0
        self._seen = ExperimentSnapshot(self._watched.look(), self._watched.execution())

    @property
    def snapshot(self) -> ExperimentSnapshot:
        """What was read last; `refresh` reads again."""
        return self._seen

    @property
    def experiment(self) -> Experiment:
        """The state as it was read last."""
        return self._seen.experiment

    def refresh(self, *, now: bool = False) -> ExperimentSnapshot:
        """Read what has happened since, unless that was just done; ``now`` reads in any case."""
        with self._lock:
            if now or time.monotonic() >= self._read_s + AGAIN_S:
                self._seen = self._read()
                self._read_s = time.monotonic()
            return self._seen

    def forecast(self) -> Forecast:
        """Return what comes of it, made once for everybody who looks.

        While results come in, it is made as often as `SHARE` of a processor allows.
        """
        with self._thinking:
            experiment, now_s = self._seen.experiment, time.monotonic()
            if self._thought is None or not self._thought.is_good(experiment, now_s):
                result, cost_s = forecast(experiment, time.time()), time.monotonic() - now_s
                self._thought = _CachedForecast(
                    result, experiment.n_events, experiment.version, now_s, cost_s
                )
            return self._thought.forecast

    def _read(self) -> ExperimentSnapshot:
        snapshot = self._seen
        try:
            self._watched.catch_up()
            experiment = snapshot.experiment
            if self._watched.experiment.n_events != experiment.n_events:
                experiment = self._watched.experiment.supposing(())
            return ExperimentSnapshot(experiment, self._watched.execution())
        except ServiceError as error:
            return ExperimentSnapshot(snapshot.experiment, snapshot.execution, str(error))


class ServiceConnection:
    """The service of a store, as the pages of this process use it.

    Args:
        store: the file of journals; it need not exist.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.companion = ServiceSupervisor(store)
        self._desks: dict[str, ExperimentViewModel] = {}
        self._lock = threading.Lock()
        self._links: tuple[ApiClient, ApiClient] | None = None

    def http_store(self) -> HttpStore:
        """Return the stored experiments, by the service."""
        return HttpStore(self._reached()[0])

    def desk(self, experiment_id: str) -> ExperimentViewModel:
        """Return the desk of an experiment. Raises AssistantError if it cannot be opened."""
        with self._lock:
            view = self._desks.get(experiment_id)
        if view is None:
            view = ExperimentViewModel(*self._reached(), experiment_id, self.store)
            with self._lock:
                view = self._desks.setdefault(experiment_id, view)
        return view

    def _reached(self) -> tuple[ApiClient, ApiClient]:
        with self._lock:
            if self._links is None:
                self._links = (self.companion.reach(tries=1), self.companion.reach())
                self.companion.keep()
            return self._links


@st.cache_resource(show_spinner="Starting the service …")
def service_connection(store: str) -> ServiceConnection:
    """Return the one office of a store in this process."""
    return ServiceConnection(Path(store))


_UNHEARD = "seeding-unheard"


def seed(key: str, value: object) -> None:
    """Fill a field in before it is drawn for the first time."""
    unheard: set[str] = st.session_state.setdefault(_UNHEARD, set())
    if key not in st.session_state:
        st.session_state[key] = value
        unheard.add(key)
    elif key in unheard:
        st.session_state[key] = st.session_state[key]


def mark_rendered() -> None:
    """Note that a run of the script has come to its end: all that it drew is sent."""
    st.session_state.setdefault(_UNHEARD, set()).clear()
