"""Workers of Dask that Copperline starts itself, and how they end."""

import contextlib
import os
import signal
from typing import Any, Protocol

STOP_S = 10.0
"""How long a cluster of our own may take to stop."""

NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Settings of Dask: its web servers, which cannot be left out, show nothing."""


class OwnCluster(Protocol):
    """A scheduler of Dask in this process with workers of its own, which end with it.

    Attributes:
        cluster: what a client of Dask connects to.
        place: where the workers are, to be told.
        starts_at_once: whether workers are there when it is; those of a batch system wait.
    """

    cluster: Any
    place: str
    starts_at_once: bool

    def restart(self, client: Any) -> None:
        """End what its workers do, and start them again."""

    def progressed(self) -> None:
        """Be told that a run has come back."""

    def look(self, nobody_s: float) -> None:
        """Be told for how long there has been no worker, in seconds.

        Raises ExecutorError if none is to be expected.
        """

    def close(self) -> None:
        """Stop it, and whichever of its processes does not stop in time."""


class LocalWorkers:
    """Processes of this machine, reached on loopback only, each making one run at a time."""

    place = "on this machine"
    starts_at_once = True

    def __init__(self, workers: int) -> None:
        import dask
        from distributed import LocalCluster

        with dask.config.set(NO_PAGES):
            self.cluster: Any = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                silence_logs=50,
                scheduler_kwargs=scheduler_options("127.0.0.1"),
            )

    def restart(self, client: Any) -> None:
        """End what its workers do, and start them again."""
        client.restart(timeout=30)

    def progressed(self) -> None:
        """Be told that a run has come back."""

    def look(self, nobody_s: float) -> None:
        """Expect workers in any case: Dask starts them again, and we start another cluster."""

    def close(self) -> None:
        """Stop it, and whichever of its processes does not stop in time."""
        held = [getattr(one.process, "process", None) for one in self.cluster.workers.values()]
        with contextlib.suppress(Exception):
            self.cluster.close(timeout=STOP_S)
        for process in held:
            if process is not None and process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


def scheduler_options(host: str) -> dict[str, Any]:
    """Return what every scheduler of our own is told: where to listen, and to show nothing."""
    return {
        "host": host,
        "dashboard": False,
        "dashboard_address": (host, 0),
        "allowed_failures": 0,  # we count deaths ourselves
    }
