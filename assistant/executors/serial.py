"""In this process, one run at a time, in order: deterministic, debuggable, the default in tests."""

import threading
from collections import deque
from types import TracebackType
from typing import Self

from assistant.executors.attempt import Overseer, attempt, not_begun
from assistant.ports import Application, Completion, Reported, Work


class SerialExecutor:
    """Executes inside `collect`."""

    capacity = 1

    def __init__(self, application: Application) -> None:
        self._application = application
        self._taken: deque[Work] = deque()
        self._stopped: set[int] = set()
        self._one = threading.RLock()
        self._reported: Reported | None = None

    def submit(self, work: Work) -> None:
        """Take one run."""
        with self._one:
            self._taken.append(work)

    def collect(self) -> tuple[Completion, ...]:
        """Execute the oldest taken run and return it."""
        if not self._taken:
            return ()
        work = self._taken[0]
        completion = self._completion(work)
        with self._one:
            self._taken.popleft()
            self._stopped.discard(work.run_id)
        return (completion,)

    def _completion(self, work: Work) -> Completion:
        run_id, reported = work.run_id, self._reported
        if run_id in self._stopped:
            return not_begun(work)
        oversight = Overseer(
            lambda measures: None if reported is None else reported(run_id, measures),
            lambda: run_id in self._stopped,
        )
        return attempt(self._application, work, oversight)

    def listen(self, reported: Reported) -> None:
        """Tell what runs that go on have measured so far; of those that begin from now on."""
        self._reported = reported

    def stop(self, run_id: int) -> None:
        """End one run that goes on; any thread may ask."""
        with self._one:
            if any(work.run_id == run_id for work in self._taken):
                self._stopped.add(run_id)

    def cancel(self) -> None:
        """Forget what was taken."""
        with self._one:
            self._taken.clear()
            self._stopped.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()
