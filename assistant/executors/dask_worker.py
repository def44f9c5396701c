"""What is done within a worker of Dask: it holds the application, and makes one run at a time."""

import threading
from typing import Any

from assistant.executors.attempt import Overseer, attempt, not_begun
from assistant.ports import Application, Completion, Work

_one_at_a_time = threading.Lock()


def plugin(token: str, application: Application) -> Any:
    """Return what makes every worker, now and later, hold the application."""
    from distributed import WorkerPlugin

    class Holder(WorkerPlugin):  # type: ignore[misc]
        name = token

        def __init__(self) -> None:
            self.application = application
            self.ended: frozenset[str] = frozenset()

    return Holder()


def evaluate(token: str, key: str, work: Work) -> Completion:
    """Make one run; in a worker."""
    from distributed import get_worker

    worker = get_worker()
    holder = worker.plugins[token]
    oversight = Overseer(
        lambda measures: worker.log_event(token, [work.run_id, dict(measures)]),
        lambda: key in holder.ended,
    )
    with _one_at_a_time:
        if oversight.wants_end():
            return not_begun(work)
        return attempt(holder.application, work, oversight)


def end(token: str, keys: frozenset[str], dask_worker: Any) -> None:
    """Have these runs ended, and no others, as soon as they are here; in a worker."""
    dask_worker.plugins[token].ended = keys
