"""Time in which this process runs: what passes while it is stopped does not count.

Leases are counted by it. A service that was stopped (SIGSTOP, a debugger, a suspended machine)
could hear nobody meanwhile, so that nobody was silent.
"""

import threading
import time
from collections.abc import Callable


class AwakeTime:
    """A steady time that goes on by at most one step between two looks at it.

    Args:
        step_s: the longest step; somebody must look more often than that.
        steady_s: the time that passes.
    """

    def __init__(self, step_s: float, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._step_s, self._steady_s = step_s, steady_s
        self._lock = threading.Lock()
        self._seen_s = self._now_s = steady_s()

    def __call__(self) -> float:
        """Return the time in seconds; it never goes back."""
        with self._lock:
            seen_s = self._steady_s()
            self._now_s += min(seen_s - self._seen_s, self._step_s)
            self._seen_s = seen_s
            return self._now_s
