"""Notifier: starts hooks while a sweep runs; slow or failed hooks do not affect its runs.

Each kind of hook has a thread, which starts its program with one notice after the other and ends
it, with its child processes, after the timeout. A fault is reported once.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from assistant.applications.child_process import run_child
from assistant.applications.program import why_failed, why_not_started
from assistant.core.events import Event
from assistant.core.experiment import Experiment
from assistant.hooks.notices import (
    HookCommands,
    Kind,
    Notice,
    NoticeState,
    notices_of_end,
    notices_of_event,
    of_failed_sweep,
    pending_notices,
)
from assistant.session.session import Session
from sim.api import format_duration

GRACE_S = 2.0
SILENT_S = 1.0


@dataclass(frozen=True, slots=True)
class HookResult:
    """Result of one executed hook; ``fault`` is an error sentence, or None on success."""

    kind: Kind
    code: int | None
    wall_s: float
    output: str
    fault: str | None


def start_hook(hooks: HookCommands, notice: Notice) -> HookResult:
    """Execute the hook for a notice, wait until it ends, and return its result."""
    kind, argv = notice.kind, hooks.argv(notice.kind)
    started_s = time.monotonic()
    try:
        ended = run_child(
            argv,
            cwd=hooks.cwd,
            env={**os.environ, **notice.variables},
            stdin=notice.as_json().encode(),
            limit_s=hooks.timeout_s,
            grace_s=GRACE_S,
            patient=True,  # mail programs deliver in the background
        )
    except (OSError, ValueError) as error:
        fault = why_not_started(argv[0], error)
        return HookResult(kind, None, time.monotonic() - started_s, "", fault)
    output = ended.stdout.text + ended.stderr.text
    return HookResult(kind, ended.code, ended.wall_s, output, why_failed(ended, hooks.timeout_s))


class Notifier:
    """Context manager that sends notices to hooks for the events of a session.

    At the end of the block hooks get up to their timeout to end; after Ctrl-C a second. An error
    that ends the block is sent as a failure of the sweep. ::

        with Notifier(HookCommands(on_finish=("mail", "-s", "done", "me")), print) as notifier:
            notifier.follow(session)

    Args:
        say: callback for faults, once for each kind of hook; called from any thread.

    Raises SettingsError: a hook that cannot be started on this machine.
    """

    def __init__(self, hooks: HookCommands, say: Callable[[str], None]) -> None:
        hooks.check()
        self._hooks = hooks
        self._say = say
        self._lanes = {kind: _HookThread(hooks, kind, self._complain) for kind in hooks.kinds}
        self._complained: set[str] = set()
        self._heard = NoticeState()
        self._session: Session | None = None
        self._lock = Lock()

    def follow(self, session: Session) -> None:
        """Start to send notices for the events of a session."""
        self._session = session
        if self._lanes:
            session.listen(self._hear)

    def _hear(self, experiment: Experiment, event: Event) -> None:
        self._guarded(lambda state: notices_of_event(experiment, event, state))

    def steering_ended(self, reason: str) -> None:
        """Send the notice that auto-steering has ended, unless it was sent already."""
        session = self._session
        if session is not None:
            self._guarded(lambda h: notices_of_end(session.experiment, reason, h, session.now_s()))

    def sweep_failed(self, sentence: str) -> None:
        """Send the notice that the sweep ended by the error in ``sentence``."""
        session = self._session
        if session is None:
            return

        def decide(state: NoticeState) -> tuple[NoticeState, tuple[Notice, ...]]:
            now_s = session.now_s()
            notice = of_failed_sweep(session.experiment, sentence, state.count, now_s)
            return replace(state, told_s=now_s, latest=None, count=0), (notice,)

        self._guarded(decide)

    def _rest(self) -> None:
        session = self._session
        if session is not None:
            self._guarded(lambda h: pending_notices(session.experiment, h, session.now_s()))

    def _guarded(
        self, decide: Callable[[NoticeState], tuple[NoticeState, tuple[Notice, ...]]]
    ) -> None:
        """Decide on notices and hand them over; an error is reported and spares the sweep."""
        if not self._lanes:
            return
        try:
            with self._lock:
                self._heard, notices = decide(self._heard)
                for notice in notices:
                    if notice.kind in self._lanes:
                        self._lanes[notice.kind].put(notice)
        except Exception as error:
            self._complain("", f"no hook was started: {type(error).__name__}: {error}")

    def _complain(self, subject: str, sentence: str) -> None:
        with self._lock:
            is_new = subject not in self._complained
            self._complained.add(subject)
        if is_new:
            self._say(sentence)

    def end(self) -> None:
        """Send delayed notices, then wait for running hooks up to their timeout."""
        self._rest()
        self.close()

    def close(self, wait_s: float | None = None) -> None:
        """Wait for hooks up to their timeout, or ``wait_s`` seconds, then send nothing more."""
        wait_s = self._hooks.timeout_s + 2 * GRACE_S if wait_s is None else wait_s
        until_s = time.monotonic() + wait_s
        for lane in self._lanes.values():
            lane.close()
        try:
            self._wait(min(until_s, time.monotonic() + SILENT_S))
            at_work = [f"on_{kind}" for kind, lane in self._lanes.items() if lane.is_at_work]
            if at_work and wait_s > SILENT_S:
                limit = format_duration(self._hooks.timeout_s)
                self._say(f"Waiting for {' and '.join(at_work)}, at most {limit}.")
                self._wait(until_s)
        finally:  # also after Ctrl-C
            for kind, lane in self._lanes.items():
                n_left = lane.give_up()
                if n_left:
                    self._complain(f"left {kind}", f"notices not sent to on_{kind}: {n_left}")

    def _wait(self, until_s: float) -> None:
        for lane in self._lanes.values():
            lane.wait(until_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self.sweep_failed(str(error) or type(error).__name__)
        elif error is not None:
            self.close(SILENT_S)
            return
        self.end()


class _HookThread:
    """Thread that sends the notices of one hook, one after the other."""

    def __init__(
        self, hooks: HookCommands, kind: Kind, complain: Callable[[str, str], None]
    ) -> None:
        self._hooks, self._kind, self._complain = hooks, kind, complain
        self._notices: SimpleQueue[Notice | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._closed = False

    def put(self, notice: Notice) -> None:
        """Queue a notice, and start the thread for the first notice."""
        if self._closed:
            return
        self._notices.put(notice)
        if self._thread is None:
            name = f"copperline-on-{self._kind}"
            self._thread = Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (notice := self._notices.get()) is not None:
            fault = start_hook(self._hooks, notice).fault
            if fault is not None:
                self._complain(self._kind, f"the hook on_{self._kind} failed: {fault}")

    def close(self) -> None:
        """Accept no more notices, so that the thread ends after the queued ones."""
        self._closed = True
        self._notices.put(None)

    @property
    def is_at_work(self) -> bool:
        """Whether the thread is still running."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, until_s: float) -> None:
        """Wait until the thread ends, at most until ``until_s`` of the monotonic clock."""
        if self._thread is not None:
            self._thread.join(max(0.0, until_s - time.monotonic()))

    def give_up(self) -> int:
        """Discard the queued notices, and return their number."""
        n_left = 0
        while True:
            try:
                n_left += self._notices.get_nowait() is not None
            except Empty:
                self._notices.put(None)
                return n_left
