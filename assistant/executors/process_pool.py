"""Several processes on this machine. A worker that dies is a failed run, not a lost sweep."""

import multiprocessing
import signal
from collections.abc import Mapping
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Self

from assistant.errors import SettingsError
from assistant.executors.attempt import attempt
from assistant.executors.lines import Ends, Line, Lines
from assistant.objective import Measure
from assistant.ports import Application, Completion, Reported, Work

_kept: tuple[Application, Line] | None = None


def _adopt(application: Application, ends: Ends) -> None:
    """Keep the application in this worker, sent once; leave Ctrl-C to the parent."""
    global _kept  # noqa: PLW0603 - one per worker process, by design of initializers
    _kept = application, Line(ends)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _attempt(work: Work) -> Completion:
    if _kept is None:
        raise AssertionError("the worker was started without its application")
    application, line = _kept
    return attempt(application, work, line.oversight(work.run_id))


class ProcessPoolExecutor:
    """A pool of ``workers`` processes, each holding the application.

    Raises:
        SettingsError: ``workers`` is below 1.
    """

    def __init__(self, application: Application, workers: int) -> None:
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        self.capacity = workers
        self._application = application
        self._under_way: dict[futures.Future[Completion], Work] = {}
        self._reported: Reported | None = None
        self._pool = self._new_pool()

    def _new_pool(self) -> futures.ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        self._lines = Lines(context, self.capacity, self._tell)
        return futures.ProcessPoolExecutor(
            self.capacity,
            mp_context=context,
            initializer=_adopt,
            initargs=(self._application, self._lines.ends),
        )

    def submit(self, work: Work) -> None:
        """Take one run; a pool that broke in the meantime is replaced first."""
        try:
            future = self._pool.submit(_attempt, work)
        except BrokenProcessPool:
            self._replace_pool()
            future = self._pool.submit(_attempt, work)
        self._under_way[future] = work

    def collect(self) -> tuple[Completion, ...]:
        """Wait for at least one run, and return those that are over."""
        if not self._under_way:
            return ()
        done, _ = futures.wait(self._under_way, return_when=futures.FIRST_COMPLETED)
        over = sorted(done, key=lambda future: self._under_way[future].run_id)
        return tuple(self._completion(future, self._under_way.pop(future)) for future in over)

    def _completion(self, future: futures.Future[Completion], work: Work) -> Completion:
        self._lines.over(work.run_id)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, BrokenProcessPool):
            reason = "a worker process died while this run was under way (killed, or out of memory)"
        else:
            reason = f"{type(error).__name__}: {error}"
        return Completion(work.run_id, None, reason, 0.0)

    def _replace_pool(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._lines.close()
        self._pool = self._new_pool()

    def listen(self, reported: Reported) -> None:
        """Tell what runs that go on have measured so far."""
        self._reported = reported

    def _tell(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        if self._reported is not None:
            self._reported(run_id, measures)

    def stop(self, run_id: int) -> None:
        """End one run that goes on; any thread may ask."""
        if any(work.run_id == run_id for work in tuple(self._under_way.values())):
            self._lines.stop(run_id)

    def cancel(self) -> None:
        """Stop the workers and forget what was under way."""
        self._under_way.clear()
        workers = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        self._lines.close()
        self._pool = self._new_pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.cancel()
        self._pool.shutdown()
        self._lines.close()
