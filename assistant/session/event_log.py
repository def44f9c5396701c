"""Event log of a session: events are stored first, then applied, one decision at a time.

A lock, a store and a clock around the pure fold of `Experiment`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import CodecError, ExperimentError, VersionConflictError
from assistant.core.events import Event, RunEvent
from assistant.core.experiment import Experiment
from assistant.core.ports import Clock, Store
from assistant.core.run import RunOutput

Listener = Callable[[Experiment, Event], None]
"""Callback for stored and applied events; it must return at once and raise nothing."""

OF_RUNS = get_args(RunEvent)


class EventLog:
    """Event log of one experiment in a store, with the current state and a lock.

    Calls may come from several threads; decisions are made within `deciding`. Workers go on
    meanwhile: events that the queue stored in between are applied first, and a decision is stored
    after them if it still follows.
    """

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self.experiment = experiment
        self._lock = threading.RLock()
        self._store = store
        self._clock = clock
        self._listeners: list[Listener] = []

    def now_s(self) -> float:
        """Return the current time of the clock, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Hold the lock during a block, after applying events that other processes stored."""
        with self._lock:
            self.catch_up()
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, so that no other thread records or applies events."""
        with self._lock:
            yield

    def catch_up(self) -> tuple[Event, ...]:
        """Apply and return the events that other processes have stored in the meantime."""
        with self._lock:
            events = self._store.load(self._id, since=self.experiment.n_events)
            self._apply(events)
            return events

    def decide(self, decision: Callable[..., Event | None], *arguments: object) -> None:
        """Call a function of `assistant.core.commands` and record the event it returns."""
        with self.deciding():
            event = decision(self.experiment, *arguments, self.now_s())
            if event is not None:
                self.record(event)

    def record(self, *events: Event) -> None:
        """Append events to the store, then apply them to the experiment.

        Raises:
            ExperimentError: an event that cannot be decoded again, or that does not follow what was
                stored meanwhile.
            StoreError: it could not be stored. Nothing is applied then.
        """
        if not events:
            return
        for event in events:
            _refuse_unreadable(event)
        while True:
            try:
                self._store.append(self._id, self.experiment.n_events, events)
                break
            except VersionConflictError:
                foreign_events = self.catch_up()
                if not foreign_events or not (_of_runs(events) or _of_runs(foreign_events)):
                    raise  # two decisions at once
                self.experiment.supposing(events)  # raises if they do not follow any more
        self._apply(events)

    def save_output(self, run_id: int, output: RunOutput) -> None:
        """Store the output of a run beside the events, or raise StoreError."""
        self._store.save_output(self._id, run_id, output)

    def output(self, run_id: int) -> RunOutput | None:
        """Return the stored output of a run; None if none is stored."""
        return self._store.output(self._id, run_id)

    def listen(self, listener: Listener) -> None:
        """Register a listener that is called with every event from now on."""
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        """Remove a listener of events."""
        self._listeners.remove(listener)

    def events(self) -> tuple[Event, ...]:
        """Return all stored events of the experiment."""
        return self._store.load(self._id)

    @property
    def _id(self) -> str:
        return self.experiment.opened.experiment_id

    def _apply(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self.experiment.apply(event)
        for event in events:
            for listener in tuple(self._listeners):
                listener(self.experiment, event)


def _of_runs(events: tuple[Event, ...]) -> bool:
    return all(isinstance(event, OF_RUNS) for event in events)


def _refuse_unreadable(event: Event) -> None:
    """Raise ExperimentError for an event that would be decoded to another one."""
    try:
        if decode_event(encode_event(event)) == event:
            return
        reason = "a value has the wrong type"
    except CodecError as error:
        reason = str(error)
    raise ExperimentError(f"a {type(event).__name__} cannot be stored: {reason}")
