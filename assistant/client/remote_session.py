"""Remote session: the methods of `Session` for an experiment of a remote service, over HTTP.

Queries (`experiment`, `forecast`, `what_if` ...) use the events that the service sends; decisions
are made by the service.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Unpack

from pydantic import TypeAdapter

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.client.api import ApiClient, HttpStore, OpenedAnswer, ServiceAnswer, path_part
from assistant.client.worker import HttpLeaseSource, run_leased
from assistant.core.codec import decode_event_object, encode_event
from assistant.core.commands import Command
from assistant.core.errors import ExperimentError
from assistant.core.events import (
    Event,
    RunCancelled,
    RunStopped,
)
from assistant.core.experiment import Experiment
from assistant.core.ports import Application, Clock, Executor, SystemClock
from assistant.core.run import Run, RunOutput
from assistant.session.event_log import Listener
from assistant.session.opening import ExperimentDescription, build_opened_event
from assistant.session.session import ExperimentCommands


class DecisionAnswer(ServiceAnswer):
    """Answer of a service to a decision: the events, their position and the new version."""

    events: list[dict[str, Any]]
    first: int
    version: int


class RemoteSession(ExperimentCommands):
    """Session that steers one experiment of a remote service over HTTP.

    Calls may come from several threads; each is atomic. ``known`` is an earlier state of the
    experiment that is this session's own from now on, so that only later events are fetched.
    Raises StoreError: there is no such experiment; ServiceError: the service cannot be reached.
    """

    def __init__(
        self,
        link: ApiClient,
        experiment_id: str,
        clock: Clock | None = None,
        known: Experiment | None = None,
    ) -> None:
        self._link, self._clock = link, clock or SystemClock()
        self._kept, self._name = HttpStore(link), experiment_id
        self._path = f"/v1/experiments/{path_part(experiment_id)}"
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._expected: int | None = None
        if known is None:
            known = Experiment.replay(self._kept.load(self._name))
        self._experiment = known
        with link.reading():
            if self._experiment.opened.experiment_id != experiment_id:
                raise ValueError("the events of another experiment")

    @property
    def experiment(self) -> Experiment:
        """Current state of the experiment, computed from the received events."""
        return self._experiment

    def now_s(self) -> float:
        """Return the time of the local clock, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    def catch_up(self) -> None:
        """Fetch the experiment's new events from the service and apply them."""
        with self._lock:
            self._take(self._kept.load(self._name, self._experiment.n_events))

    def events(self) -> tuple[Event, ...]:
        """Return all events in the event log."""
        return self._kept.load(self._name)

    def output(self, run_id: int) -> RunOutput | None:
        """Return what the program of a run printed; None if nothing is stored.

        Raises ExperimentError if there is no such run, ServiceError if no reply comes.
        """
        return self._kept.output(self._name, self.experiment.run(run_id).id)

    def listen(self, listener: Listener) -> None:
        """Register a listener that is called with each event received from now on."""
        self._listeners.append(listener)

    def follow(
        self, on_event: Callable[[Event], None], stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Apply new events as they arrive and pass each to ``on_event``, until ``stop()``.

        Broken connections are made again: each event comes once, and none is left out. ``stop`` is
        called after every event, and every few seconds without one.
        Raises ServiceError if the service cannot be reached any more.
        """
        events = self._link.stream(f"{self._path}/events", self._experiment.n_events, stop)
        for position, record in events:
            with self._link.reading():
                event = decode_event_object(record)
            with self._lock:
                if position == self._experiment.n_events:
                    self._take((event,))
            on_event(event)

    # -- execution -----------------------------------------------------------------------------

    def run_queued(
        self,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Execute waiting runs in this process, in addition to the workers of the service."""
        self._link.change("POST", f"{self._path}/start")
        leases = HttpLeaseSource(self._link, only=self.id)

        def changed(run_id: int) -> None:
            self.catch_up()
            if on_change is not None:
                on_change(self._experiment.run(run_id))

        def hear(_experiment: Experiment, event: Event) -> None:
            if isinstance(event, RunCancelled | RunStopped):
                executor.stop(event.run_id)  # earlier than the next heartbeat

        self.listen(hear)
        try:
            run_leased(leases, executor, changed, stop)
        finally:
            self._listeners.remove(hear)

    def start(self) -> None:
        """Allow workers to lease the experiment's runs from now on."""
        self._link.change("POST", f"{self._path}/start")

    def pause(self) -> None:
        """Stop workers from leasing the experiment's runs; running runs go on."""
        self._link.change("POST", f"{self._path}/pause")

    def execution(self) -> ExecutionStatus:
        """Return the status of run execution at the service."""
        return self._kept.execution(self._name)

    def look(self) -> Experiment:
        """Return a copy of the experiment's current state."""
        with self._lock:
            self.catch_up()
            return self._experiment.supposing(())

    @contextmanager
    def only_on(self, version: int) -> Iterator[None]:
        """Make each decision in the block fail unless the experiment is at this version."""
        with self._lock:
            self._expected = version
            try:
                yield
            finally:
                self._expected = None

    # -- decisions -----------------------------------------------------------------------------

    def decide(self, command: Command) -> tuple[Event, ...]:
        """Let the service decide a command, apply the events, and return them.

        Raises what the command raises there, and ServiceError if no reply comes.
        """
        path, body = request_of(command)
        with self._lock:
            answer = self._link.change(
                command.route.method, self._path + path, body, version=self._expected
            )
            with self._link.reading():
                decision = DecisionAnswer.model_validate(answer)
                events = tuple(decode_event_object(event) for event in decision.events)
            if self._expected is not None:
                self._expected = decision.version
            if decision.first == self._experiment.n_events:
                self._take(events)
            else:
                self.catch_up()
            return events

    def _take(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._experiment.apply(event)
        for event in events:
            for listener in tuple(self._listeners):
                listener(self._experiment, event)


def request_of(command: Command) -> tuple[str, Any]:
    """Return the path and the body of a command's request, or raise ExperimentError."""
    try:
        fields = _adapter(type(command)).dump_python(command, mode="json", warnings=False)
        fields = json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ExperimentError(f"this cannot be sent to the service: {error}") from error
    route = command.route
    body = {name: value for name, value in fields.items() if f"{{{name}}}" not in route.path}
    return route.path.format(**fields), body if route.body is None else body[route.body]


@cache
def _adapter(kind: type[Command]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def open_remote(
    link: ApiClient,
    application: Application,
    clock: Clock | None = None,
    **described: Unpack[ExperimentDescription],
) -> RemoteSession:
    """Create an experiment at a service; this process executes its runs.

    The service has only the space and the objective of the application.
    """
    body = json.loads(encode_event(build_opened_event(application, **described)))
    answer = link.change("POST", "/v1/experiments", {"described": body})
    return RemoteSession(link, _opened(link, answer), clock)


def open_settings(link: ApiClient, tables: Mapping[str, Any], name: str = "") -> RemoteSession:
    """Create an experiment at a service from sweep settings, as in a sweep file."""
    answer = link.change("POST", "/v1/experiments", {"settings": dict(tables), "name": name})
    return RemoteSession(link, _opened(link, answer))


def _opened(link: ApiClient, answer: Any) -> str:
    with link.reading():
        return OpenedAnswer.model_validate(answer).experiment
