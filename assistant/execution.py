"""Executing what waits: the loop between a journal and an executor."""

from collections.abc import Callable

from assistant import decisions
from assistant.events import RunReturned, RunStarted
from assistant.journal import Journal
from assistant.ports import Executor, Work
from assistant.run import Run, RunState


def run_queued(
    journal: Journal,
    executor: Executor,
    on_change: Callable[[Run], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Execute everything that waits, oldest first, recording each result as it comes.

    Interrupting it loses no result: what is under way goes back to the queue.

    Args:
        journal: of the experiment.
        executor: where the runs execute.
        on_change: told of each run that started or ended.
        stop: asked before each start; once true, nothing more is started.
    """
    tell = on_change or (lambda _run: None)
    halted = stop or (lambda: False)
    under_way: set[int] = set()
    try:
        while True:
            while len(under_way) < executor.capacity and not halted():
                run = _start_next(journal)
                if run is None:
                    break
                under_way.add(run.id)
                executor.submit(_work(journal, run))
                tell(run)
            if not under_way:
                return
            for completion in executor.collect():
                journal.decide(decisions.judgement, completion)
                under_way.discard(completion.run_id)
                tell(journal.experiment.run(completion.run_id))
    except BaseException:
        executor.cancel()
        with journal.lock:
            now_s = journal.now_s()
            journal.record(*(RunReturned(now_s, run_id) for run_id in sorted(under_way)))
        raise


def recover(journal: Journal) -> int:
    """Return runs to the queue that a process which is gone had started; say how many."""
    with journal.lock:
        lost = journal.experiment.runs_in(RunState.RUNNING)
        journal.record(*(RunReturned(journal.now_s(), run.id) for run in lost))
        return len(lost)


def _start_next(journal: Journal) -> Run | None:
    with journal.lock:
        queued = journal.experiment.runs_in(RunState.QUEUED)
        if not queued:
            return None
        journal.record(RunStarted(journal.now_s(), queued[0].id))
        return journal.experiment.run(queued[0].id)


def _work(journal: Journal, run: Run) -> Work:
    experiment = journal.experiment
    values = experiment.space.values(run.configuration)
    return Work(run.id, values, run.seed, experiment.sla.run_limit_s)
