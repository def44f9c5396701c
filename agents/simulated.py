"""Time that passes because somebody says so: a clock, and an executor that moves it."""

from collections import deque
from types import TracebackType
from typing import Self

from assistant import Application
from assistant.errors import RunError
from assistant.ports import Completion, Reported, Work

EPOCH_S = 1_000_000_000.0
"""When a simulated clock begins, in seconds since 1970-01-01 UTC: some moment, always the same."""


class SimulatedClock:
    """A clock that stands still until somebody waits. Thousands of hours take no time.

    >>> clock = SimulatedClock()
    >>> clock.wait(3600.0)
    >>> clock.now_s() - EPOCH_S
    3600.0
    """

    def __init__(self) -> None:
        self._now_s = EPOCH_S

    def now_s(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        return self._now_s

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds


class SimulatedExecutor:
    """One run at a time; it takes its measure ``duration_s``, or ``run_s`` where that is unknown.

    Args:
        application: what is run.
        clock: moved on by every run.
        run_s: seconds of a run whose duration is unknown; a failed one is.
    """

    capacity = 1

    def __init__(self, application: Application, clock: SimulatedClock, run_s: float = 0.0) -> None:
        self._application, self._clock, self._run_s = application, clock, run_s
        self._taken: deque[Work] = deque()

    def submit(self, work: Work) -> None:
        """Take one run."""
        self._taken.append(work)

    def collect(self) -> tuple[Completion, ...]:
        """Execute the oldest taken run and return it."""
        if not self._taken:
            return ()
        work = self._taken.popleft()
        measures, failure, duration_s = None, None, self._run_s
        try:
            measures = self._application.evaluate(work.values, work.seed)
        except RunError as error:
            failure = str(error)
        else:
            measured_s = measures.get("duration_s")
            if isinstance(measured_s, int | float):
                duration_s = float(measured_s)
        self._clock.wait(duration_s)
        return (Completion(work.run_id, measures, failure, duration_s),)

    def listen(self, reported: Reported) -> None:
        """Nothing is told of a run before it is over: it takes no time."""

    def stop(self, run_id: int) -> None:
        """Nothing goes on that could be ended: a run takes no time."""

    def cancel(self) -> None:
        """Forget what was taken."""
        self._taken.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()
