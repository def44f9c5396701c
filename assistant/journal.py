"""The journal of one session: what is recorded is stored first, then applied, one decision a time.

Effects are thin here: a lock, a store and a clock around the pure fold of `Experiment`.
"""

import threading
from collections.abc import Callable

from assistant.codec import decode_event, encode_event
from assistant.errors import CodecError, ExperimentError
from assistant.events import Event
from assistant.experiment import Experiment
from assistant.ports import Clock, Store

Listener = Callable[[Experiment, Event], None]
"""Told of an event that is stored and applied; it returns at once, and raises nothing."""


class Journal:
    """An experiment with the store that keeps its events and the clock that dates them.

    Calls may come from several threads; whoever decides holds ``lock`` from looking to recording.
    """

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self.experiment = experiment
        self.lock = threading.RLock()
        self._store = store
        self._clock = clock
        self._listeners: list[Listener] = []

    def now_s(self) -> float:
        """Return the time of the clock, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    def decide(self, decision: Callable[..., Event], *wanted: object) -> None:
        """Record what a function of `decisions` makes of the experiment and of what is wanted."""
        with self.lock:
            self.record(decision(self.experiment, *wanted, self.now_s()))

    def record(self, *events: Event) -> None:
        """Store, then apply: what is applied has been stored, and can be read back.

        Raises:
            ExperimentError: an event that would not be read back as it is.
            StoreError: it could not be stored. Nothing is applied then.
        """
        if not events:
            return
        for event in events:
            _refuse_unreadable(event)
        self._store.append(self.experiment.opened.experiment_id, self.experiment.n_events, events)
        for event in events:
            self.experiment.apply(event)
        for event in events:
            for listener in self._listeners:
                listener(self.experiment, event)

    def listen(self, listener: Listener) -> None:
        """Tell this listener of every event from now on."""
        self._listeners.append(listener)

    def events(self) -> tuple[Event, ...]:
        """Return all that was stored so far."""
        return self._store.load(self.experiment.opened.experiment_id)


def _refuse_unreadable(event: Event) -> None:
    """Raise ExperimentError for an event that would not be read back as it is."""
    try:
        if decode_event(encode_event(event)) == event:
            return
        reason = "a value of another type was given"
    except CodecError as error:
        reason = str(error)
    raise ExperimentError(f"a {type(event).__name__} of this kind cannot be kept: {reason}")
