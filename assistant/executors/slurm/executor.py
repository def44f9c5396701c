"""Runs in jobs of Slurm: pilots that ask for one run after another.

Nothing is kept in Slurm. Its controller may lose jobs, give their ids out again and bring cancelled
ones back; here a pilot is known by its ticket only, a run is given to the pilot that asks for one,
and only what a pilot with a ticket that counts says of its last attempt is told.
"""

import contextlib
import logging
import platform
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from assistant.errors import AssistantError, ExecutorError, SettingsError
from assistant.executors.place import BatchSystem
from assistant.executors.slurm import asking, commands, keeping
from assistant.executors.slurm.desk import Desk
from assistant.executors.slurm.folder import Folder, left_over, remove
from assistant.executors.slurm.gate import Gate
from assistant.executors.slurm.ticket import PREFIX, Ticket, new_id, pickled
from assistant.objective import Measure
from assistant.ports import Application, Completion, Environment, Reported, Work

CONNECT_S = 30.0
"""How long the controller may take to answer at first."""

COMES_BACK_S = 300.0
"""How long a controller may be gone while no pilot works."""

RECONCILE_S = 2.0
"""Between two looks at our jobs, while a pilot was asked for that was not heard of."""

MOST_BACK_OFF_S = 20.0
"""Between two tries of a command, while the controller is away; at first one second."""

TICK_S = 0.2
CLOSE_S = 20.0
"""How long the controller may take to cancel jobs at the end."""

T = TypeVar("T")

_log = logging.getLogger("copperline.slurm")


class SlurmExecutor:
    """Pilots in jobs of Slurm, each with one run at a time.

    Args:
        application: has to be importable where the pilots are.
        workers: pilots at most.
        batch: what Slurm is told of the jobs.
        environment: what each run needs, and therefore each job.

    Raises:
        SettingsError: Slurm's commands are not installed, or something that was said cannot be.
        ExecutorError: Slurm's controller does not answer.
    """

    def __init__(
        self,
        application: Application,
        workers: int,
        batch: BatchSystem | None = None,
        environment: Environment | None = None,
    ) -> None:
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        commands.check_commands()
        self._batch, self._environment = batch or BatchSystem(), environment or Environment()
        commands.check_options(self._batch.options)
        self.capacity = workers
        self._over: queue.SimpleQueue[Completion] = queue.SimpleQueue()
        self._reports: dict[int, Mapping[str, Measure]] = {}
        self._reported: Reported | None = None
        self._n_under_way = 0
        self._error: AssistantError | None = None
        about = {"version": version("copperline"), "python": platform.python_version()}
        self._desk = Desk(self._completed, self._report, about)
        self._expected: dict[str, tuple[float, int]] = {}
        self._to_cancel: set[str] = set()
        self._away_since_s: float | None = None
        self._back_off_s, self._again_s, self._reconciled_s = 1.0, 0.0, 0.0
        self._n_heard, self._fruitless, self._last_lost = 0, 0, ""
        self._said_why = False
        self._closing, self._work_to_do = threading.Event(), threading.Event()
        base = self._batch.folder or asking.FOLDER
        with asking.told_as_is():
            self._tidy(base)
        self._folder = Folder(base)
        try:
            with asking.told_as_is():
                host = _answered(self._beginning, CONNECT_S)
            self._file, self._digest = pickled(application, self._folder.path)
            self._gate = Gate(self._desk, host)
        except BaseException:
            self._folder.release(tidy=True)
            raise
        self._threads = [
            threading.Thread(target=self._keep, name="slurm pilots", daemon=True),
            threading.Thread(target=self._relay, name="slurm reports", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # Beginning

    def _beginning(self) -> str:
        """Ask Slurm whether it would take such jobs, and return where the gate listens."""
        commands.submit(["--test-only", *self._options("test"), str(self._folder.script)])
        return asking.host_of(self._batch)

    def _tidy(self, base: Path) -> None:
        """Cancel the jobs of executors that are gone, and remove their folders."""
        for path, pilots in left_over(base).items():
            names = [PREFIX + pilot for pilot in pilots]
            _answered(lambda names=names: commands.cancel(names), CONNECT_S)  # type: ignore[misc]
            remove(path)

    # Runs

    def submit(self, work: Work) -> None:
        """Take one run."""
        if self._closing.is_set():
            raise ExecutorError("the executor is closed")
        self._n_under_way += 1
        self._desk.take(work)
        self._work_to_do.set()

    def collect(self) -> tuple[Completion, ...]:
        """Wait for at least one run, and return those that are over."""
        over: list[Completion] = []
        while self._n_under_way and not over:
            if self._error is not None:
                raise self._error
            with contextlib.suppress(queue.Empty):
                over.append(self._over.get(timeout=TICK_S))
                while True:
                    over.append(self._over.get_nowait())
        self._n_under_way -= len(over)
        return tuple(sorted(over, key=lambda one: one.run_id))

    def listen(self, reported: Reported) -> None:
        """Tell what runs that go on have measured so far, in a thread of its own."""
        self._reported = reported

    def stop(self, run_id: int) -> None:
        """End one run that goes on, or waits for a pilot."""
        self._desk.stop(run_id)

    def cancel(self) -> None:
        """Forget what is under way, and cancel the jobs of the pilots that had a run."""
        busy = self._desk.forget()
        while True:
            try:
                self._over.get_nowait()
            except queue.Empty:
                break
        self._n_under_way = 0
        self._to_cancel.update(busy)
        self._work_to_do.set()

    def _completed(self, completion: Completion) -> None:
        self._over.put(completion)

    def _report(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        self._reports[run_id] = measures

    def _relay(self) -> None:
        """Tell what was reported, so that whoever listens does not hold up the gate."""
        while not self._closing.wait(TICK_S):
            while self._reports:
                run_id = next(iter(self._reports))
                measures = self._reports.pop(run_id)
                try:
                    if self._reported is not None:
                        self._reported(run_id, measures)
                except Exception as error:
                    _log.warning("whoever listens to reports failed: %s", error)

    # Pilots; in a thread

    def _keep(self) -> None:
        before_s = time.monotonic()
        while not self._closing.is_set():
            self._work_to_do.wait(TICK_S)
            self._work_to_do.clear()
            now_s = time.monotonic()
            if now_s - before_s > 5 * TICK_S + 1.0:
                self._desk.pardon(now_s - before_s)
            try:
                self._look()
            except AssistantError as error:
                self._error = error
                return
            except Exception as error:
                self._error = ExecutorError(f"{type(error).__name__}: {error}")
                raise
            before_s = time.monotonic()

    def _look(self) -> None:
        """See who is there, and do what can be done about who is not."""
        if self._desk.broken is not None:
            raise ExecutorError(f"no pilot can work: {self._desk.broken}")
        self._to_cancel.update(self._desk.expire())
        seen = self._desk.seen()
        for name in list(self._expected):
            if name not in seen or seen[name].heard:
                del self._expected[name]
        if self._desk.n_heard != self._n_heard:
            self._n_heard, self._fruitless, self._said_why = self._desk.n_heard, 0, False
        now_s = time.monotonic()
        if now_s < self._again_s:
            return
        try:
            self._command(now_s, len(seen))
        except commands.AwayError as error:
            self._is_away(error, now_s, nobody=not any(one.heard for one in seen.values()))
        else:
            self._away_since_s, self._back_off_s = None, 1.0

    def _command(self, now_s: float, n_pilots: int) -> None:
        """Do what has to be asked of Slurm."""
        if self._to_cancel:
            names = sorted(self._to_cancel)
            commands.cancel(PREFIX + name for name in names)
            self._to_cancel.difference_update(names)
        if self._expected and now_s - self._reconciled_s > RECONCILE_S:
            self._reconciled_s = now_s
            n_pilots -= self._reconcile(now_s)
        for _ in range(keeping.to_submit(self.capacity, self._desk.n_runs, n_pilots)):
            if self._closing.is_set():
                return
            self._send_pilot()

    def _reconcile(self, now_s: float) -> int:
        """Give up jobs that Slurm has lost or does not start any more; return how many."""
        known = commands.jobs(PREFIX + name for name in self._expected)
        verdict = keeping.judge(
            {
                name: keeping.Expected(now_s - since_s, missing)
                for name, (since_s, missing) in self._expected.items()
            },
            {name.removeprefix(PREFIX): jobs for name, jobs in known.items()},
        )
        if verdict.never is not None:
            raise ExecutorError(
                f"Slurm never starts the jobs of this sweep; its reason is {verdict.never}: see "
                "[executor] and what a run needs"
            )
        for name, missing in verdict.missing.items():
            self._expected[name] = self._expected[name][0], missing
        for name in {*verdict.lost, *verdict.held}:
            if not self._desk.seen()[name].heard:  # it may have come just now
                self._desk.revoke(name)
                self._to_cancel.add(name)
                self._fruitless += 1
                self._last_lost = self._folder.last_words(name) or self._last_lost
        if verdict.waits is not None and not self._said_why:
            self._said_why = True
            _log.warning("a job of this sweep waits in Slurm; its reason is %s", verdict.waits)
        if self._fruitless >= keeping.FRUITLESS + self.capacity:
            told = f"; the last one said: {self._last_lost}" if self._last_lost else ""
            raise ExecutorError(
                f"{self._fruitless} jobs of Slurm in a row ended before their pilot came to "
                f"{self._gate.host}:{self._gate.port}{told}. What was finished is kept; go on "
                "with: copperline resume"
            )
        return len({*verdict.lost, *verdict.held})

    def _send_pilot(self) -> None:
        """Submit one job. If it is unknown whether Slurm took it, we look by its name later."""
        pilot = new_id()
        ticket = Ticket(
            pilot, secrets.token_bytes(32), self._gate.host, self._gate.port, str(self._file),
            self._digest, tuple(one or str(Path.cwd()) for one in sys.path), self._batch.walltime_s,
        )  # fmt: skip
        path = self._folder.ticket(pilot)
        ticket.write(path)
        self._desk.add(pilot, ticket.secret)
        self._expected[pilot] = time.monotonic(), 0
        try:
            commands.submit(
                [*self._options(pilot), str(self._folder.script), sys.executable, str(path)]
            )
        except commands.RefusedError as error:
            self._desk.revoke(pilot)
            del self._expected[pilot]
            if not self._desk.seen():
                raise ExecutorError(
                    f"Slurm takes no job of this sweep ({error}); see [executor]"
                ) from error
            _log.warning("Slurm takes no further job of this sweep: %s", error)
            self._again_s = time.monotonic() + MOST_BACK_OFF_S

    def _options(self, pilot: str) -> list[str]:
        return asking.options(
            PREFIX + pilot, self._folder.output(pilot), self._batch, self._environment,
            requeue=True,
        )  # fmt: skip

    def _is_away(self, error: AssistantError, now_s: float, *, nobody: bool) -> None:
        """Wait longer before the next command; give up if nobody has worked for long."""
        if self._away_since_s is None:
            self._away_since_s = now_s
        if not nobody:
            self._away_since_s = now_s
        elif now_s - self._away_since_s > COMES_BACK_S and self._desk.n_runs:
            raise ExecutorError(
                f"Slurm's controller has not answered for {COMES_BACK_S:.0f} s ({error}). What was "
                "finished is kept; go on with: copperline resume"
            )
        self._again_s = time.monotonic() + self._back_off_s
        self._back_off_s = min(2 * self._back_off_s, MOST_BACK_OFF_S)

    # End

    def close(self) -> None:
        """Revoke every ticket, cancel the jobs and remove the folder. It may be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._work_to_do.set()
        self._desk.end()
        for thread in self._threads:
            thread.join(2 * commands.COMMAND_S)
        mine = self._folder.pilots()
        is_tidy = False
        with contextlib.suppress(commands.AwayError, commands.RefusedError):
            _answered(lambda: self._cancel_all(mine), CLOSE_S)
            is_tidy = True
        self._gate.close()
        self._folder.release(tidy=is_tidy)

    def _cancel_all(self, pilots: set[str]) -> None:
        """Cancel the jobs of pilots that Slurm still knows."""
        if pilots:
            commands.cancel(commands.jobs(PREFIX + pilot for pilot in pilots))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _answered(ask: Callable[[], T], within_s: float) -> T:
    """Return what Slurm answers, asking again while its controller is away.

    Raises:
        AwayError: it was so all the time.
        RefusedError: Slurm refused it.
    """
    until_s = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except commands.AwayError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.5)
