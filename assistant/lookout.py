"""What is done while runs are executed: reports are recorded, and runs are ended that shall end.

One thread beside the one that waits for results. It acts only while that one waits, so that
whoever executes finds the experiment as it was left, but for what waiting brought.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress

from assistant.errors import AssistantError, StoreError
from assistant.events import Event, RunCancelled, RunReported, RunStopped
from assistant.experiment import Experiment
from assistant.journal import Journal
from assistant.objective import Measure
from assistant.ports import Completion, Executor
from assistant.run import RunState

LOOK_S = 1.0
"""How often reports are recorded, and it is looked what others have decided."""


class Lookout:
    """Looks after the runs that are under way in an executor.

    Args:
        journal: of their experiment.
        executor: where they execute; it is told which of them shall end.
    """

    def __init__(self, journal: Journal, executor: Executor) -> None:
        self.under_way: set[int] = set()
        """Numbers of the runs; whoever executes says so."""
        self._journal, self._executor = journal, executor
        self._latest: dict[int, Mapping[str, Measure]] = {}
        self._news, self._ended = threading.Event(), threading.Event()
        self._acting = threading.Lock()
        self._waiting = False
        self._thread: threading.Thread | None = None
        journal.listen(self._hear)
        executor.listen(self._reported)

    def collect(self) -> tuple[Completion, ...]:
        """Return what `Executor.collect` does, and look out meanwhile."""
        for run_id in tuple(self.under_way):  # it may have been given up while it was submitted
            if self._journal.experiment.run(run_id).state is not RunState.RUNNING:
                self._executor.stop(run_id)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._loop, name="copperline-lookout", daemon=True
            )
            self._thread.start()
        with self._acting:
            self._waiting = True
        try:
            return self._executor.collect()
        finally:
            with self._acting:  # once what is being recorded is recorded
                self._waiting = False

    def end(self) -> None:
        """Look out no more. The thread ends soon; it does nothing any more."""
        self._journal.unlisten(self._hear)
        self._executor.listen(lambda _run_id, _measures: None)
        with self._acting:
            self._ended.set()
        self._news.set()

    def _reported(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        self._latest[run_id] = measures
        self._news.set()

    def _hear(self, _experiment: Experiment, event: Event) -> None:
        """Have a run ended that shall end; it is heard in whichever thread decides."""
        if isinstance(event, RunCancelled | RunStopped) and event.run_id in self.under_way:
            self._executor.stop(event.run_id)

    def _loop(self) -> None:
        while not self._ended.is_set():
            if self._news.wait(LOOK_S):
                self._news.clear()
            reported = bool(self._latest)
            with suppress(AssistantError):  # whoever executes meets it, too
                self._look()
            if reported:  # the first report is recorded at once, and the next ones wait
                self._ended.wait(LOOK_S)

    def _look(self) -> None:
        """Take in what others have decided, and record what was reported since."""
        # while somebody decides, whoever executes does not wait for this
        with self._journal.locked(), self._acting:
            if self._ended.is_set() or not self._waiting:
                return
            self._journal.catch_up()
            for run_id in tuple(self._latest):
                self._record(run_id, self._latest.pop(run_id))

    def _record(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        run = self._journal.experiment.run(run_id)
        if run.state is not RunState.RUNNING or run.token or run_id not in self.under_way:
            return
        try:
            self._journal.record(RunReported(self._journal.now_s(), run_id, measures))
        except StoreError:
            self._latest.setdefault(run_id, measures)  # unless it has reported again
            raise
        except AssistantError:  # it has told what no journal can keep
            return
