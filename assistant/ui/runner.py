"""Who executes: one background thread per experiment, which outlives any page and any browser.

The script never runs anything itself. It reads the journal (`Runner.experiment`, a state of its
own that nobody changes under its hands), decides through `Runner.session`, and wakes the runner.
"""

import threading
from enum import StrEnum
from pathlib import Path
from typing import Literal

import streamlit as st

from assistant import (
    Application,
    BatchSuggested,
    Executor,
    Experiment,
    Session,
    load_session,
)
from assistant.door import open_store
from assistant.ending import goal_to_confirm, reached_goal
from assistant.executors import make_executor
from assistant.notify import Notifier
from assistant.recommendation import is_confirmation_due, search_room
from assistant.run import RunState
from assistant.starting import rebuild, stored_hooks
from assistant.store.executing import Executing
from assistant.ui.intents import sentence

OnAdvice = Literal["ask", "accept", "ignore"]


class RunnerState(StrEnum):
    """Where a runner stands."""

    VIEWING = "viewing"
    RUNNING = "running"
    PAUSED = "paused"
    IDLE = "idle"


class Runner:
    """Owns the session of one experiment and executes its queued runs.

    It begins by looking only: another program may be executing the experiment. `start` takes it
    over, which returns runs that were under way to the queue.

    Args:
        store: the file of journals.
        experiment_id: a stored experiment.

    Raises:
        AssistantError: the store or the experiment cannot be read.
    """

    def __init__(self, store: Path, experiment_id: str) -> None:
        self._path = store
        self._store = open_store(store, take_key=False)
        self._id = experiment_id
        self.session: Session = load_session(self._store, experiment_id)
        self._seen = Experiment.replay(self._store.load(experiment_id))
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._executor: Executor | None = None
        self._executing: Executing | None = None
        self._woken = self._busy = self._paused = self._closing = False
        self._automatic: int | None = None
        self._on_advice: OnAdvice = "ask"
        self.error: str | None = None
        self.note = ""
        self.hook_notes: tuple[str, ...] = ()
        self._notifier: Notifier | None = None

    # -- reading -------------------------------------------------------------------------------

    @property
    def experiment(self) -> Experiment:
        """The state after everything that is stored; it does not change once it is returned."""
        if self._seen.n_events != self.session.experiment.n_events:
            self._seen = Experiment.replay(self._store.load(self._id))
        return self._seen

    @property
    def state(self) -> RunnerState:
        """Viewing until it is started, then running, paused or idle."""
        if self._thread is None:
            return RunnerState.VIEWING
        if self._busy:
            return RunnerState.RUNNING
        return RunnerState.PAUSED if self._paused else RunnerState.IDLE

    @property
    def is_busy(self) -> bool:
        """Whether something is executed, or about to be."""
        return self._busy

    @property
    def is_pausing(self) -> bool:
        """Whether it ends what is under way and starts nothing more."""
        return self._paused and self._busy

    @property
    def automatic(self) -> int | None:
        """Suggestions taken at a time by themselves; None while a person decides."""
        return self._automatic

    def refresh(self) -> None:
        """Load the session again if another program has gone on with the experiment."""
        with self._changed:
            if self._busy:
                return
            stored = {one.id: one.n_events for one in self._store.experiments()}
            if stored.get(self._id) != self.session.experiment.n_events:
                self.session = load_session(self._store, self._id)
                if self._notifier is not None:
                    self._notifier.follow(self.session)

    # -- deciding ------------------------------------------------------------------------------

    def start(self, application: Application | None = None) -> int:
        """Execute what waits, from now on.

        Args:
            application: what is run; built again from the experiment's recipe if None.

        Returns:
            How many runs that were under way went back to the queue.

        Raises:
            AssistantError: the application cannot be built again, or is not what it was, or
                another process executes the experiment.
        """
        returned = 0
        with self._changed:
            if self._thread is None:
                application = application or rebuild(self.session.experiment.opened)
                notifier = Notifier(stored_hooks(self.session.experiment), self._tell_of_hook)
                self._executing = Executing(self._path, self._id)
                self._executor = make_executor(application, self.session.experiment.opened.workers)
                self._notifier = notifier
                notifier.follow(self.session)
                returned = self.session.recover()
                name = f"copperline-{self._id}"
                self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
                self._thread.start()
            self._paused, self.error = False, None
        self.wake()
        return returned

    def _tell_of_hook(self, sentence: str) -> None:
        self.hook_notes = (*self.hook_notes, sentence)

    def pause(self) -> None:
        """End what is under way and start nothing more."""
        self._paused = True

    def wake(self) -> None:
        """Look for work: something was submitted, answered or changed."""
        with self._changed:
            if self._thread is None or self._paused:
                return
            self._woken = self._busy = True
            self.note = ""
            self._changed.notify_all()

    def steer_by_itself(self, batch: int | None, on_advice: OnAdvice = "ask") -> None:
        """Take ``batch`` suggestions at a time without asking; None hands back to the person."""
        self._on_advice = on_advice
        self._automatic = batch
        self.wake()

    def close(self) -> None:
        """End what is under way, then the thread, and close the store."""
        with self._changed:
            self._closing = self._woken = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._notifier is not None:
            self._notifier.end()
        if self._executing is not None:
            self._executing.release()
        self._store.close()

    # -- the thread ----------------------------------------------------------------------------

    def _loop(self) -> None:
        executor = self._executor
        if executor is None:
            raise AssertionError("the thread was started without its executor")
        with executor:
            while True:
                with self._changed:
                    while not self._woken:
                        self._busy = False
                        self._changed.wait()
                    self._woken = False
                    if self._closing:
                        self._busy = False
                        return
                try:
                    self._work(executor)
                except Exception as error:
                    self.error = sentence(error)
                    self._paused = True
                    if self._notifier is not None:
                        self._notifier.sweep_failed(self.error)

    def _work(self, executor: Executor) -> None:
        while not self._must_halt():
            self.session.run_queued(executor, stop=self._must_halt)
            if self._must_halt() or not self._submit_by_itself():
                break
        if self._automatic is not None and self.session.is_overdue():
            self._steering_ended("the deadline has passed")

    def _steering_ended(self, reason: str) -> None:
        if self._notifier is not None:
            self._notifier.steering_ended(reason)

    def _must_halt(self) -> bool:
        passed = self.session.passed_limit()
        if passed is not None:
            self.note = f"{passed[0].upper()}{passed[1:]}; nothing more is started."
            return True
        return self._paused or self._closing or self.session.experiment.finished is not None

    def _submit_by_itself(self) -> bool:
        """Take the next batch if it may; say in `note` why it stopped."""
        size, experiment = self._automatic, self.experiment
        if size is None:
            return False
        if experiment.sla.at_goal == "stop" and experiment.goal_run is not None:
            return self._confirm_goal(experiment)
        limit, left = experiment.sla.max_runs, experiment.remaining_runs
        room = search_room(experiment, limit, left)
        n = size if room is None else min(size, room)
        if experiment.open_advice is None and not self._on_offer(n)[1]:
            suggest = (
                self.session.suggest if experiment.batches else self.session.initial_evaluation
            )
            if not n or not suggest(n).suggestions:
                if not is_confirmation_due(self.experiment, limit, left):
                    self._automatic = None
                    why = f"the budget of {limit} runs is used up"
                    why = "every allowed configuration has been run" if n else why
                    self.note = f"Automatic steering ended: {why}."
                    self._steering_ended(why)
                    return False
                self.session.confirm(1)
        advice = self.experiment.open_advice
        if advice is not None:
            if self._on_advice == "ask":
                self.note = "Automatic steering waits for your answer to the warning."
                return False
            accepts = self._on_advice == "accept"
            answer, which = advice.unattended if accepts else ("ignored", None)
            self.session.answer_advice(answer, alternative=which)
        batch, keep = self._on_offer(n)
        if batch is None or not keep:  # an answer took the batch away, or nothing may be searched
            return self._submit_by_itself()
        return bool(self.session.submit(batch, keep=keep))

    def _confirm_goal(self, experiment: Experiment) -> bool:
        """Repeat what reached the goal where results vary, else end automatic steering."""
        doubted = goal_to_confirm(experiment)
        if doubted is not None and experiment.remaining_runs != 0:
            reason = f"the goal is reached by run {doubted.id}: again"
            self.session.replicate(doubted.id, reason=reason)
            return True
        self._automatic = None
        self.note = f"Automatic steering ended: {reached_goal(experiment)}."
        return False

    def _on_offer(self, n: int) -> tuple[BatchSuggested | None, list[int]]:
        """Return the open batch and the positions to take: up to n new ones, or confirmations."""
        batch = self.experiment.open_batch
        if batch is None:
            return None, []
        free = self.experiment.free_in(batch)
        if any(one.kind == "confirmation" for one in batch.suggestions):
            return batch, free[: self.experiment.remaining_runs]
        return batch, free[:n]


def lost_runs(runner: Runner) -> int:
    """Count runs that are under way elsewhere, or whose program is gone."""
    if runner.state is not RunnerState.VIEWING:
        return 0
    return len(runner.experiment.runs_in(RunState.RUNNING))


@st.cache_resource(show_spinner=False)
def runner_of(store: str, experiment_id: str) -> Runner:
    """Return the one runner of an experiment in this process, for every page and browser."""
    return Runner(Path(store), experiment_id)
