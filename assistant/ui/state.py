"""State of an experiment for the pages: a snapshot to read, and a session to change it.

While the service is away, the last state stays on the screen. `seed` sets first values of fields.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import streamlit as st

from assistant.analysis.experiment_state import (
    ExecutionStatus,
    ExperimentState,
    StateName,
    displayed_forecast,
    experiment_state,
)
from assistant.analysis.forecast import forecast
from assistant.client.api import ApiClient, HttpStore
from assistant.client.remote_session import RemoteSession
from assistant.config.snapshot import rebuild
from assistant.core.errors import ServiceError
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast
from assistant.core.ports import Application, SystemClock
from assistant.service.store_connection import ServiceSupervisor
from assistant.session.session import Session

SteerableSession = Session | RemoteSession
"""Session that decides about an experiment, in this process or through a service."""

AGAIN_S = 0.4  # Seconds for which a read state is shared by all browsers


class ExperimentView(Protocol):
    """Interface through which pages read an experiment and carry out decisions."""

    @property
    def session(self) -> SteerableSession:
        """Session that carries out decisions on the experiment."""

    @property
    def experiment(self) -> Experiment:
        """Experiment at the start of the page, unchanged while the page is drawn."""

    @property
    def snapshot(self) -> "ExperimentSnapshot":
        """Last read state of the experiment and its execution."""


@dataclass(frozen=True, slots=True)
class ExperimentSnapshot:
    """Last read state of an experiment, with the reason if the service is unreachable."""

    experiment: Experiment
    execution: ExecutionStatus
    away: str | None = None

    @property
    def state(self) -> ExperimentState:
        """Present state of the experiment, as every page shows it."""
        return experiment_state(self.experiment, SystemClock().now_s(), self.execution)

    @property
    def is_live(self) -> bool:
        """Whether the experiment may change without a decision of the user."""
        return self.state.name in (StateName.RUNNING, StateName.WAITING)


SAME_S = 5.0  # Seconds for which a forecast of the same state is reused
SHARE = 0.05  # Share of a processor for forecasts while results come in


@dataclass(frozen=True, slots=True)
class _CachedForecast:
    forecast: Forecast
    n_events: int
    version: int
    created_s: float
    cost_s: float

    def is_good(self, experiment: Experiment, now_s: float) -> bool:
        """Return whether the cached forecast is recent enough for the experiment."""
        age_s = now_s - self.created_s
        if experiment.n_events == self.n_events:
            return age_s < max(SAME_S, self.cost_s / SHARE)
        return experiment.version == self.version and age_s < self.cost_s / SHARE


class ExperimentViewModel:
    """View of an experiment in a service, shared by all pages and browsers of this process.

    ``watch`` is a connection for reading with a short timeout, so that no reader waits for a
    decision. Raises AssistantError if the experiment does not exist or the service cannot be
    reached.
    """

    def __init__(
        self, watch: ApiClient, decide: ApiClient, experiment_id: str, store: Path
    ) -> None:
        self.store = store
        self._watched = RemoteSession(watch, experiment_id)
        self.session = RemoteSession(decide, experiment_id, known=self._watched.look())
        self._lock = threading.Lock()
        self._thinking = threading.Lock()
        self._thought: _CachedForecast | None = None
        self._read_s = 0.0
        self._seen = ExperimentSnapshot(self._watched.look(), self._watched.execution())

    @property
    def snapshot(self) -> ExperimentSnapshot:
        """Last read state, which `refresh` updates."""
        return self._seen

    @property
    def experiment(self) -> Experiment:
        """Experiment as last read from the service."""
        return self._seen.experiment

    def refresh(self, *, now: bool = False) -> ExperimentSnapshot:
        """Return the state; read it again from the service if it is old, or if ``now``."""
        with self._lock:
            if now or time.monotonic() >= self._read_s + AGAIN_S:
                self._seen = self._read()
                self._read_s = time.monotonic()
            return self._seen

    def forecast(self) -> Forecast:
        """Return the current forecast, computed once for all browsers; no end while stopped.

        While results come in, it is computed as often as `SHARE` of a processor permits.
        """
        with self._thinking:
            experiment, now_s = self._seen.experiment, time.monotonic()
            if self._thought is None or not self._thought.is_good(experiment, now_s):
                result, cost_s = (
                    forecast(experiment, SystemClock().now_s()),
                    time.monotonic() - now_s,
                )
                self._thought = _CachedForecast(
                    result, experiment.n_events, experiment.version, now_s, cost_s
                )
            return displayed_forecast(
                self._thought.forecast, self._seen.state, SystemClock().now_s()
            )

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
    """Connection of this process to the service of an experiment store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.companion = ServiceSupervisor(store)
        self._desks: dict[str, ExperimentViewModel] = {}
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._links: tuple[ApiClient, ApiClient] | None = None

    def http_store(self) -> HttpStore:
        """Return a client of the service for access to stored experiments."""
        return HttpStore(self._reached()[0])

    def view_model(self, experiment_id: str) -> ExperimentViewModel:
        """Return the shared view of an experiment, or raise AssistantError on failure."""
        view = self._desks.get(experiment_id)
        if view is None:
            with self._lock:
                opening = self._opening.setdefault(experiment_id, threading.Lock())
            with opening:  # a second caller waits for the view of the first
                view = self._desks.get(experiment_id)
                if view is None:
                    view = ExperimentViewModel(*self._reached(), experiment_id, self.store)
                    self._desks[experiment_id] = view
        return view

    def _reached(self) -> tuple[ApiClient, ApiClient]:
        with self._lock:
            if self._links is None:
                self._links = (self.companion.reach(tries=1), self.companion.reach())
                self.companion.keep()
            return self._links


@st.cache_resource(show_spinner="Starting the service …")
def service_connection(store: str) -> ServiceConnection:
    """Return the connection to a store's service, shared within this process."""
    return ServiceConnection(Path(store))


@st.cache_resource(show_spinner=False, max_entries=3)
def cached_application(
    key: tuple[str, Mapping[str, Any]],  # noqa: ARG001 - names the application
    _opened: ExperimentOpened,
) -> Application:
    """Return the application of an experiment; only the key is hashed: identifier and recipe."""
    return rebuild(_opened)


_UNHEARD = "seeding-unheard"


def seed(key: str, value: object) -> None:
    """Set the initial value of a field, and resend it until the browser has received it."""
    unheard: set[str] = st.session_state.setdefault(_UNHEARD, set())
    if key not in st.session_state:
        st.session_state[key] = value
        unheard.add(key)
    elif key in unheard:
        st.session_state[key] = st.session_state[key]


def seed_choice(key: str, value: object) -> None:
    """Set the initial value of a choice, and send the choice with every drawing of its field.

    A browser that draws a field of a few options anew begins with the first of them, and reports
    that as the choice of the user. For typed text this would overwrite what is being typed.
    """
    seed(key, value)
    st.session_state[key] = st.session_state[key]


def put(key: str, value: object) -> None:
    """Set the value of a field before it is drawn by `seed`, which resends it if need be."""
    st.session_state[key] = value
    st.session_state.setdefault(_UNHEARD, set()).add(key)


def mark_rendered() -> None:
    """Record that the page is completely drawn, so that initial values are not resent."""
    st.session_state.setdefault(_UNHEARD, set()).clear()
