"""Executing what waits: the loop between a journal and an executor."""

from collections.abc import Callable, Iterable

from assistant import decisions
from assistant.events import ResultRefused, RunCompleted, RunFailed, RunReturned, RunStarted
from assistant.experiment import Experiment
from assistant.journal import Journal
from assistant.lookout import Lookout
from assistant.ports import Completion, Executor, Work
from assistant.run import Run, RunState


def run_queued(
    journal: Journal,
    executor: Executor,
    on_change: Callable[[Run], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Execute everything that waits, in its order, recording each result as it comes.

    What runs report is recorded meanwhile, the latest of each run at most every `LOOK_S`; a run
    that is cancelled or stopped, by whomever, is ended. Interrupting it loses no result: what is
    under way goes back to the queue.

    Args:
        journal: of the experiment.
        executor: where the runs execute.
        on_change: told of each run that started or ended.
        stop: asked before each start; once true, nothing more is started.
    """
    tell = on_change or (lambda _run: None)
    halted = stop or (lambda: False)
    lookout = Lookout(journal, executor)
    try:
        while True:
            while len(lookout.under_way) < executor.capacity and not halted():
                run = _start_next(journal)
                if run is None:
                    break
                lookout.under_way.add(run.id)
                executor.submit(_work(journal, run))
                tell(run)
            if not lookout.under_way:
                return
            for completion in lookout.collect():
                journal.decide(_end, completion)
                lookout.under_way.discard(completion.run_id)
                tell(journal.experiment.run(completion.run_id))
    except BaseException:
        executor.cancel()
        under_way = lookout.under_way
        with journal.deciding():
            _return(journal, [run for run in _ours(journal) if run.id in under_way], "interrupted")
        raise
    finally:
        lookout.end()


def _end(
    experiment: Experiment, completion: Completion, now_s: float
) -> RunCompleted | RunFailed | ResultRefused | None:
    """Return how a run ended; a result that nobody waits for any more is refused."""
    run = experiment.run(completion.run_id)
    if run.state is RunState.RUNNING and not run.token:
        return decisions.judgement(experiment, completion, now_s)
    if completion.stopped:
        return None  # it was told to end, and has ended
    why = f"the run is {run.state}"
    return ResultRefused(now_s, run.id, run.worker, "", why, completion.measures)


def recover(journal: Journal) -> int:
    """Return runs to the queue that a process which is gone had started; say how many."""
    with journal.deciding():
        lost = _ours(journal)
        _return(journal, lost, "the process that executed it is gone")
        return len(lost)


def _ours(journal: Journal) -> list[Run]:
    """Return the runs that go on in the session's own process; workers hold the others."""
    return [run for run in journal.experiment.runs_in(RunState.RUNNING) if not run.token]


def _return(journal: Journal, runs: Iterable[Run], reason: str) -> None:
    now_s = journal.now_s()
    journal.record(*(RunReturned(now_s, run.id, reason) for run in runs))


def _start_next(journal: Journal) -> Run | None:
    with journal.deciding():
        waiting = journal.experiment.waiting
        if not waiting:
            return None
        journal.record(RunStarted(journal.now_s(), waiting[0].id))
        return journal.experiment.run(waiting[0].id)


def _work(journal: Journal, run: Run) -> Work:
    experiment = journal.experiment
    values = experiment.space.values(run.configuration)
    return Work(run.id, values, run.seed, experiment.sla.run_limit_s)
