"""Lines to the processes of a pool: what runs report comes up, the wish to end one goes down.

Each process has a line of its own, so that one that dies breaks no other. Runs are told by their
numbers; a process says which it has begun.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any

from assistant.executors.attempt import Overseer
from assistant.objective import Measure
from assistant.ports import Reported

Ends = tuple[tuple[Connection, ...], Any]
"""What processes are given when they start: the lower ends, and a count of those that are taken."""


class Lines:
    """The upper ends, and who reads them.

    Args:
        context: that starts the processes.
        n: of processes.
        reported: told of what comes, in a thread of its own.
    """

    def __init__(self, context: SpawnContext, n: int, reported: Reported) -> None:
        pairs = [context.Pipe() for _ in range(n)]
        self._upper = tuple(upper for upper, _ in pairs)
        self._wake, self._waker = context.Pipe(duplex=False)
        self.ends: Ends = tuple(lower for _, lower in pairs), context.Value("i", 0)
        self._told = reported
        self._begun: dict[Connection, int] = {}
        self._stopped: set[int] = set()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="copperline-lines", daemon=True)
        self._thread.start()

    def stop(self, run_id: int) -> None:
        """Have a run ended, also if it begins only later."""
        with self._one:
            self._stopped.add(run_id)
            for end, begun in self._begun.items():
                if begun == run_id:
                    self._pass_on(end, run_id)

    def over(self, run_id: int) -> None:
        """Forget a run."""
        with self._one:
            self._stopped.discard(run_id)

    def close(self) -> None:
        """Read no more, and close all ends. The processes have ended, or are about to."""
        for end in self.ends[0]:  # or a message that was begun by one that died is waited for
            end.close()
        self._waker.send(None)
        self._thread.join()
        for end in (*self._upper, self._wake, self._waker):
            end.close()

    def _pass_on(self, end: Connection, run_id: int) -> None:
        with suppress(OSError):  # the process has died, and its run with it
            end.send(run_id)

    def _read(self) -> None:
        open_ends = set(self._upper)
        while True:
            for end in wait([self._wake, *open_ends]):
                if end is self._wake:
                    return
                if not isinstance(end, Connection):
                    raise AssertionError("only lines are waited for")
                try:
                    run_id, measures = end.recv()
                except (EOFError, OSError):
                    open_ends.discard(end)
                    continue
                if measures is None:
                    self._begins(end, run_id)
                else:
                    self._told(run_id, measures)

    def _begins(self, end: Connection, run_id: int) -> None:
        with self._one:
            self._begun[end] = run_id
            if run_id in self._stopped:
                self._pass_on(end, run_id)


class Line:
    """The lower end, in a process of the pool, which makes one run at a time."""

    def __init__(self, ends: Ends) -> None:
        lower, n_taken = ends
        with n_taken.get_lock():
            own = n_taken.value
            n_taken.value += 1
        self._end = lower[own]
        for other in lower:
            if other is not self._end:
                other.close()
        self._stopped: set[int] = set()
        self._one = threading.Lock()

    def oversight(self, run_id: int) -> Overseer:
        """Say that a run begins, and return what watches over it."""
        self._stopped.clear()
        self._tell(run_id, None)
        return Overseer(lambda measures: self._tell(run_id, measures), self._asker(run_id))

    def _tell(self, run_id: int, measures: Mapping[str, Measure] | None) -> None:
        with suppress(OSError), self._one:  # nobody listens any more: this process will be ended
            self._end.send((run_id, measures))

    def _asker(self, run_id: int) -> Callable[[], bool]:
        def wanted() -> bool:
            with self._one:
                try:
                    while self._end.poll():
                        self._stopped.add(self._end.recv())
                except (EOFError, OSError):
                    return True
            return run_id in self._stopped

        return wanted
