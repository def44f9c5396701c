"""In this process, one run at a time, in order: deterministic, debuggable, the default in tests."""

from collections import deque
from types import TracebackType
from typing import Self

from assistant.executors.attempt import attempt
from assistant.ports import Application, Completion, Reported, Work


class SerialExecutor:
    """Executes inside `collect`."""

    capacity = 1

    def __init__(self, application: Application) -> None:
        self._application = application
        self._taken: deque[Work] = deque()

    def submit(self, work: Work) -> None:
        """Take one run."""
        self._taken.append(work)

    def collect(self) -> tuple[Completion, ...]:
        """Execute the oldest taken run and return it."""
        if not self._taken:
            return ()
        completion = attempt(self._application, self._taken[0])
        self._taken.popleft()
        return (completion,)

    def listen(self, reported: Reported) -> None:
        """Tell what runs that go on have measured so far."""

    def stop(self, run_id: int) -> None:
        """End one run that goes on."""

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
