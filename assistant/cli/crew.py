"""Workers in processes of their own, started as they are needed; one that dies is replaced."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from assistant.service.house import House

TOKEN = "COPPERLINE_TOKEN"  # noqa: S105 - the name of an environment variable
LOOK_S = 0.25
IDLE_S = 120.0
"""How long a worker of an experiment waits for another run of it."""
MOST_WORKERS = 64

AGAIN_S = 5.0
"""How long nothing is started after a worker that ended by an error."""

Wanted = Mapping[str, int]
"""How many workers there shall be, by experiment; the empty name is any experiment."""


def wanted_workers(house: House) -> Wanted:
    """Return how many workers each experiment needs now: as many at once as it says.

    Experiments that were opened from Python have none: only that Python can run their program. Nor
    have those whose program asks for its runs itself.
    """
    wanted: dict[str, int] = {}
    for experiment_id, runs in house.queue.demand().items():
        opened = house.store.opened(experiment_id)
        if opened.recipe and not house.queue.is_outside(experiment_id):
            wanted[experiment_id] = min(opened.workers, runs)
    return wanted


@contextlib.contextmanager
def crew(wanted: Callable[[], Wanted], url: str, token: str) -> Iterator[list[str]]:
    """Keep workers at work while the block lasts. Yields their names, also of those that ended.

    If this process dies, they end after the run that they execute.

    Args:
        wanted: says how many there shall be; asked every `LOOK_S`.
        url: of the service.
        token: of a worker.
    """
    ended = threading.Event()
    kept = _Crew(url, token)

    def keep() -> None:
        while not ended.wait(LOOK_S):
            kept.reach(wanted())
        kept.end()

    keeper = threading.Thread(target=keep, name="copperline-workers", daemon=True)
    keeper.start()
    try:
        yield kept.names
    finally:
        ended.set()
        keeper.join()


@dataclass
class _Crew:
    url: str
    token: str
    names: list[str] = field(default_factory=list)
    running: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)
    not_before_s: float = 0.0

    def reach(self, wanted: Wanted) -> None:
        """Start the workers that are missing. Those too many end by themselves once idle."""
        if any((one.poll() or 0) > 0 for _, one in self.running):  # not those that were killed
            self.not_before_s = time.monotonic() + AGAIN_S
        self.running = [one for one in self.running if one[1].poll() is None]
        if time.monotonic() < self.not_before_s:
            return
        there = Counter(experiment_id for experiment_id, _ in self.running)
        for experiment_id, n in wanted.items():
            missing = min(n - there[experiment_id], MOST_WORKERS - len(self.running))
            for _ in range(missing):
                self.running.append((experiment_id, self._started(experiment_id)))

    def end(self) -> None:
        """End them, giving their runs a little time."""
        for _, one in self.running:
            one.terminate()
        for _, one in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(timeout=5)
            one.kill()

    def _started(self, experiment_id: str) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        self.names.append(f"{socket.gethostname()}-{parent}-{len(self.names) + 1}")
        command = [sys.executable, "-m", "assistant.cli", "work", "--url", self.url]
        command += ["--parent", str(parent), "--name", self.names[-1]]
        command += ["--allow-programs"]  # what stands in this store was allowed when it was opened
        if experiment_id:
            command += ["--experiment", experiment_id, "--idle", str(IDLE_S)]
        environment = {**os.environ, TOKEN: self.token}
        return subprocess.Popen(  # noqa: S603 - our own
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
