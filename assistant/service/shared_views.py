"""Views of experiments that all readers share, and the answers that are computed once for them.

A reader never waits for a decision: its view is advanced from the store, beside the session. What
is costly is computed once for each change, however many ask for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from assistant.core.experiment import Experiment
from assistant.store.event_store import SqliteStore

T = TypeVar("T")

FRESH_S = 1.0  # Longest time for which an answer that depends on the time is shared
MOST_ANSWERS = 256  # Answers that are kept, the latest


class SharedViews:
    """Views of the experiments in a store: private copies of their state, advanced with the log."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._views: dict[str, Experiment] = {}
        self._lock = threading.Lock()

    def of(self, experiment_id: str, copied: Callable[[], Experiment]) -> Experiment:
        """Return the current state of an experiment, which its readers must not change.

        ``copied`` returns a private copy to begin with.
        """
        first = None if experiment_id in self._views else copied()  # it may wait for a decision
        with self._lock:
            view = self._views.get(experiment_id, first)
            if view is None:
                raise AssertionError("a view that is there stays")
            events = self._store.load(experiment_id, since=view.n_events)
            if events:
                view = view.supposing(events)
            self._views[experiment_id] = view
            return view


@dataclass(frozen=True, slots=True)
class _SharedAnswer(Generic[T]):
    value: T
    n_events: int
    ended_s: float


class SharedAnswers:
    """Answers that were computed from views, each of them once for all who wait for it.

    Args:
        threads: threads of the computations; more of them wait.
        steady_s: monotonic clock, in seconds.
    """

    def __init__(self, threads: int, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._limiter = CapacityLimiter(threads)
        self._steady_s = steady_s
        self._answers: dict[tuple[str, str], _SharedAnswer[object]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def get(
        self,
        kind: str,
        view: Experiment,
        compute: Callable[[], T],
        fresh_s: float | None = None,
    ) -> T:
        """Return the answer of one kind for a view, computed in a thread if there is none yet.

        An answer for a later state than that of the view is as good. ``fresh_s`` is the time for
        which it may be shared, in seconds since it was computed; None if it does not depend on the
        time.
        """
        key = (view.opened.experiment_id, kind)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            answer = self._answers.get(key)
            if answer is None or not self._holds(answer, view, fresh_s):
                value = await to_thread.run_sync(compute, limiter=self._limiter)
                answer = _SharedAnswer(value, view.n_events, self._steady_s())
                self._keep(key, answer)
        return answer.value  # type: ignore[return-value]

    def _holds(
        self, answer: _SharedAnswer[object], view: Experiment, fresh_s: float | None
    ) -> bool:
        is_fresh = fresh_s is None or self._steady_s() - answer.ended_s <= fresh_s
        return answer.n_events >= view.n_events and is_fresh

    def _keep(self, key: tuple[str, str], answer: _SharedAnswer[object]) -> None:
        self._answers.pop(key, None)
        self._answers[key] = answer
        while len(self._answers) > MOST_ANSWERS:
            oldest = next(iter(self._answers))
            del self._answers[oldest]
            self._locks.pop(oldest, None)
