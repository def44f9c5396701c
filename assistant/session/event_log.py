"""The journal of one session: what is recorded is stored first, then applied, one decision a time.

Effects are thin here: a lock, a store and a clock around the pure fold of `Experiment`.
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

Listener = Callable[[Experiment, Event], None]
"""Told of an event that is stored and applied; it returns at once, and raises nothing."""

OF_RUNS = get_args(RunEvent)


class EventLog:
    """An experiment with the store that keeps its events and the clock that dates them.

    Calls may come from several threads; whoever decides does so within `deciding`. Workers go on
    meanwhile: what the queue of the store records in between is caught up with, and what was
    decided is stored behind it if it still follows.
    """

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self.experiment = experiment
        self._lock = threading.RLock()
        self._store = store
        self._clock = clock
        self._listeners: list[Listener] = []

    def now_s(self) -> float:
        """Return the time of the clock, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Look at the latest state and record what follows, one decision at a time."""
        with self._lock:
            self.catch_up()
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Have nobody else of this process decide or catch up meanwhile."""
        with self._lock:
            yield

    def catch_up(self) -> tuple[Event, ...]:
        """Take in what was stored by others since, and return it."""
        with self._lock:
            events = self._store.load(self._id, since=self.experiment.n_events)
            self._apply(events)
            return events

    def decide(self, decision: Callable[..., Event | None], *arguments: object) -> None:
        """Record what a function of `decisions` makes of the experiment and of what is wanted.

        None is what changes nothing.
        """
        with self.deciding():
            event = decision(self.experiment, *arguments, self.now_s())
            if event is not None:
                self.record(event)

    def record(self, *events: Event) -> None:
        """Store, then apply: what is applied has been stored, and can be read back.

        Raises:
            ExperimentError: an event that would not be read back as it is, or that does not follow
                what was stored meanwhile.
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
                    raise  # somebody else has decided something, and so has this session
                self.experiment.supposing(events)  # raises where it does not follow any more
        self._apply(events)

    def listen(self, listener: Listener) -> None:
        """Tell this listener of every event from now on."""
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        """Tell this listener of nothing more."""
        self._listeners.remove(listener)

    def events(self) -> tuple[Event, ...]:
        """Return all that was stored so far."""
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
    """Raise ExperimentError for an event that would not be read back as it is."""
    try:
        if decode_event(encode_event(event)) == event:
            return
        reason = "a value of another type was given"
    except CodecError as error:
        reason = str(error)
    raise ExperimentError(f"a {type(event).__name__} of this kind cannot be kept: {reason}")
