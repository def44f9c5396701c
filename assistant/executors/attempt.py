"""One attempt at one run, the same text for every executor."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping

from assistant.errors import RunError, StoppedError
from assistant.objective import Measure, finite
from assistant.ports import Application, Completion, Endable, Oversight, Watchable, Work

EVERY_S = 0.25
"""Least time between two reports of one run that leave the process in which it goes on."""

NOT_BEGUN = "it was stopped before it began"


class Overseer:
    """Oversight of one run: tells the latest of what it reports, and not too often.

    What came too early for a report is told when the application next asks whether to end.

    Args:
        tell: of what the run has measured so far.
        wanted: whether the run shall end.
        every_s: least time from one telling to the next, in seconds.
        steady_s: passes.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, Measure]], None],
        wanted: Callable[[], bool],
        every_s: float = EVERY_S,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._wanted = tell, wanted
        self._every_s, self._steady_s = every_s, steady_s
        self._told_s: float | None = None
        self._latest: Mapping[str, Measure] | None = None
        self._one = threading.Lock()

    def report(self, measures: Mapping[str, Measure]) -> None:
        """See `Oversight.report`. Numbers that are not finite are unknown (None)."""
        with self._one:
            self._latest = {name: finite(value) for name, value in measures.items()}
            self._tell_if_due()

    def wants_end(self) -> bool:
        """See `Oversight.wants_end`."""
        with self._one:
            self._tell_if_due()
        return self._wanted()

    def _tell_if_due(self) -> None:
        now_s = self._steady_s()
        if self._latest is None:
            return
        if self._told_s is None or now_s - self._told_s >= self._every_s:
            latest, self._latest, self._told_s = self._latest, None, now_s
            self._tell(latest)


def attempt(application: Application, work: Work, oversight: Oversight | None = None) -> Completion:
    """Evaluate once and say what came of it; an exception becomes a failure with its sentence.

    An application that is not `Watchable` knows nothing of the oversight: it reports nothing, and
    a wish to end its run takes effect when it is over.
    Numbers that are not finite are unknown (None). KeyboardInterrupt and SystemExit pass through.
    """
    started_s = time.perf_counter()
    measures: Mapping[str, Measure] | None = None
    failure: str | None = None
    stopped = False
    try:
        measures = {k: finite(v) for k, v in _evaluate(application, work, oversight).items()}
    except RunError as error:
        failure, stopped = str(error), isinstance(error, StoppedError)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return Completion(work.run_id, measures, failure, time.perf_counter() - started_s, stopped)


def not_begun(work: Work) -> Completion:
    """Return what comes back of a run that was stopped before anything of it was done."""
    return Completion(work.run_id, None, NOT_BEGUN, 0.0, stopped=True)


def _evaluate(
    application: Application, work: Work, oversight: Oversight | None
) -> Mapping[str, Measure]:
    if oversight is not None and isinstance(application, Watchable):
        return application.evaluate_watched(work.values, work.seed, work.limit_s, oversight)
    if work.limit_s is not None and isinstance(application, Endable):
        return application.evaluate_within(work.values, work.seed, work.limit_s)
    return application.evaluate(work.values, work.seed)
