"""Slurm executor: submits Slurm jobs (pilots) that request one run after another.

Slurm stores nothing: its controller may lose jobs, reuse their ids and restore cancelled ones.
A pilot is identified only by its ticket, and only valid tickets count. Also the pure decisions
how many pilots to submit and which jobs to give up.
"""

import contextlib
import logging
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from assistant.core.errors import AssistantError, ExecutorError, SettingsError
from assistant.core.interrupts import uninterrupted
from assistant.core.objective import Measure
from assistant.core.ports import (
    Application,
    Environment,
    ExecutionRequest,
    ExecutionResult,
    ReportListener,
)
from assistant.executors.dask_clusters import make_certificates
from assistant.executors.slurm import jobs
from assistant.executors.slurm.dispatcher import PilotDispatcher
from assistant.executors.slurm.jobs import (
    JobLogs,
    PilotFolder,
    SlurmJob,
    leftover_folders,
    remove_folder,
)
from assistant.executors.slurm.protocol import (
    PREFIX,
    PilotTicket,
    about,
    new_id,
    pickle_application,
)
from assistant.executors.slurm.server import WorkerServer
from assistant.executors.spec import BatchSystem

NEW_S = 3.0  # Age in seconds of a submission before it counts as unknown to the controller

MOST_MISSING = 2  # Checks in a row without the job after which it is lost

WAITS_S = 60.0  # Seconds that a job may wait before the reason is logged

FRUITLESS = 3  # Jobs in a row, beyond the capacity, that may end before their pilot connects


NEVER = frozenset(
    {
        "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig",
        "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
    }
)  # fmt: skip
"""Reasons of Slurm for which a job waits until a person changes the cluster or the job."""


@dataclass(frozen=True, slots=True)
class ExpectedPilot:
    """Pilot (worker job) that was submitted to Slurm but has not connected yet."""

    age_s: float
    missing: int = 0


@dataclass(frozen=True, slots=True)
class PilotReconciliation:
    """Result of comparing the expected pilots with the jobs in Slurm's queue.

    Attributes:
        lost: pilots without a job, whose tickets are revoked.
        on_hold: pilots whose jobs are also cancelled, because Slurm does not start them any more.
        waits: reason of a long wait; None if there is none.
        never: reason why a job will never start; None if there is none.
    """

    missing: Mapping[str, int]
    lost: tuple[str, ...]
    on_hold: tuple[str, ...]
    waits: str | None
    never: str | None


def reconcile_jobs(
    expected: Mapping[str, ExpectedPilot], queued_jobs: Mapping[str, list[SlurmJob]]
) -> PilotReconciliation:
    """Find the expected pilots whose Slurm jobs are lost, on hold or waiting, by job name."""
    missing: dict[str, int] = {}
    on_hold, waits, never = [], None, None
    for name, pilot in expected.items():
        jobs = queued_jobs.get(name, [])
        missing[name] = 0 if jobs or pilot.age_s < NEW_S else pilot.missing + 1
        if any(job.is_held for job in jobs):
            on_hold.append(name)
        elif jobs and jobs[0].state == "PENDING":
            reason = jobs[0].reason
            waits = waits or (reason if pilot.age_s > WAITS_S else None)
            never = never or (reason if reason in NEVER else None)
    lost = tuple(name for name, n in missing.items() if n >= MOST_MISSING)
    return PilotReconciliation(missing, lost, tuple(on_hold), waits, never)


def n_to_submit(capacity: int, n_runs: int, n_pilots: int) -> int:
    """Return how many pilots to submit so that ``n_runs`` runs have pilots, up to ``capacity``.

    >>> n_to_submit(4, 2, 1), n_to_submit(4, 9, 1), n_to_submit(4, 0, 1)
    (1, 3, 0)
    """
    return max(0, min(capacity, n_runs) - n_pilots)


CONNECT_S = 30.0

COMES_BACK_S = 300.0  # Seconds that the controller may be away while no pilot works

RECONCILE_S = 2.0

MOST_BACK_OFF_S = 20.0
"""Longest time in seconds between two tries of a command while the controller is away."""

TICK_S = 0.2
CLOSE_S = 20.0

ENDING_S = 8.0  # Seconds in which jobs end by themselves, so that Slurm counts them as completed

T = TypeVar("T")

_log = logging.getLogger("copperline.slurm")


class SlurmExecutor:
    """Executor that executes runs in Slurm jobs (pilots), one run at a time in each.

    Args:
        application: application; the nodes must be able to import it.

    Raises:
        SettingsError: Slurm's commands are not installed, or a setting is invalid.
        ExecutorError: Slurm's controller does not respond.
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
        jobs.check_commands()
        self._batch, self._environment = batch or BatchSystem(), environment or Environment()
        jobs.check_options(self._batch.options)
        self.capacity = workers
        self._over: queue.SimpleQueue[ExecutionResult] = queue.SimpleQueue()
        self._reports: dict[int, Mapping[str, Measure]] = {}
        self._reported: ReportListener | None = None
        self._n_under_way = 0
        self._error: AssistantError | None = None
        self._dispatcher = PilotDispatcher(
            self._completed, self._report, about(), leased=self._leased
        )
        self._expected: dict[str, tuple[float, int]] = {}
        self._to_cancel: set[str] = set()
        self._away_since_s: float | None = None
        self._back_off_s, self._again_s, self._reconciled_s = 1.0, 0.0, 0.0
        self._n_heard, self._fruitless, self._last_lost = 0, 0, ""
        self._said_why = False
        self._closing, self._work_to_do = threading.Event(), threading.Event()
        base = self._batch.folder or jobs.FOLDER
        with jobs.slurm_errors_translated():
            self._tidy(base)
        self._folder = PilotFolder(base, self._batch.setup)
        self._logs = JobLogs(base)
        try:
            with jobs.slurm_errors_translated():
                host = _answered(self._beginning, CONNECT_S)
            self._file, self._digest = pickle_application(application, self._folder.path)
            certificates = make_certificates(self._folder.path)
            self._certificate = certificates.certificate.read_text()
            self._server = WorkerServer(
                self._dispatcher, host, certificates.certificate, certificates.key
            )
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
        """Check that Slurm accepts such jobs, and return the address to listen at."""
        jobs.submit_job(["--test-only", *self._options("test"), str(self._folder.script)])
        return jobs.host_of(self._batch)

    def _tidy(self, base: Path) -> None:
        for path, pilots in leftover_folders(base).items():
            names = [PREFIX + pilot for pilot in pilots]
            _answered(lambda names=names: jobs.cancel_jobs(names), CONNECT_S)  # type: ignore[misc]
            remove_folder(path)

    # Runs

    def submit(self, work: ExecutionRequest) -> None:
        """Queue one run for the next free pilot (worker job)."""
        if self._closing.is_set():
            raise ExecutorError("the executor is closed")
        self._n_under_way += 1
        self._dispatcher.take(work)
        self._work_to_do.set()

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one run has ended, and return all new results."""
        over: list[ExecutionResult] = []
        while self._n_under_way and not over:
            if self._error is not None:
                raise self._error
            with contextlib.suppress(queue.Empty):
                over.append(self._over.get(timeout=TICK_S))
                while True:
                    over.append(self._over.get_nowait())
        self._n_under_way -= len(over)
        return tuple(sorted(over, key=lambda completion: completion.run_id))

    def listen(self, reported: ReportListener) -> None:
        """Set the listener of intermediate results, called in a separate thread."""
        self._reported = reported

    def stop(self, run_id: int) -> None:
        """End one waiting or running run early."""
        self._dispatcher.stop(run_id)

    def cancel(self) -> None:
        """Abort all submitted runs, and cancel the Slurm jobs of their pilots."""
        busy = self._dispatcher.forget()
        while True:
            try:
                self._over.get_nowait()
            except queue.Empty:
                break
        self._n_under_way = 0
        self._to_cancel.update(busy)
        self._work_to_do.set()

    def _completed(self, completion: ExecutionResult) -> None:
        self._over.put(completion)

    def _leased(self, pilot: str, work: ExecutionRequest) -> None:
        self._logs.note(pilot, work.experiment_id, work.run_id)

    def _report(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        self._reports[run_id] = measures

    def _relay(self) -> None:
        """Pass on intermediate results, so that a slow listener does not block the server."""
        while not self._closing.wait(TICK_S):
            while self._reports:
                run_id = next(iter(self._reports))
                measures = self._reports.pop(run_id)
                try:
                    if self._reported is not None:
                        self._reported(run_id, measures)
                except Exception as error:
                    _log.warning("the listener of intermediate results failed: %s", error)

    # Pilots; in a thread

    def _keep(self) -> None:
        before_s = time.monotonic()
        while not self._closing.is_set():
            self._work_to_do.wait(TICK_S)
            self._work_to_do.clear()
            now_s = time.monotonic()
            if now_s - before_s > 5 * TICK_S + 1.0:
                self._dispatcher.pardon(now_s - before_s)
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
        if self._dispatcher.broken is not None:
            raise ExecutorError(f"no pilot can work: {self._dispatcher.broken}")
        for name in self._dispatcher.expire():
            _log.warning(
                "the job %s of Slurm does not answer any more; its run waits again%s",
                PREFIX + name, self._output_words(name),
            )  # fmt: skip
            self._to_cancel.add(name)
        pilots = self._dispatcher.pilot_states()
        for name in list(self._expected):
            if name not in pilots or pilots[name].has_reported:
                del self._expected[name]
        if self._dispatcher.n_heard != self._n_heard:
            self._n_heard, self._fruitless, self._said_why = self._dispatcher.n_heard, 0, False
        now_s = time.monotonic()
        if now_s < self._again_s:
            return
        try:
            self._command(now_s, len(pilots))
        except jobs.SlurmUnavailableError as error:
            self._is_away(
                error, now_s, nobody=not any(pilot.has_reported for pilot in pilots.values())
            )
        else:
            self._away_since_s, self._back_off_s = None, 1.0

    def _command(self, now_s: float, n_pilots: int) -> None:
        if self._to_cancel:
            names = sorted(self._to_cancel)
            jobs.cancel_jobs(PREFIX + name for name in names)
            self._to_cancel.difference_update(names)
        if self._expected and now_s - self._reconciled_s > RECONCILE_S:
            self._reconciled_s = now_s
            n_pilots -= self._reconcile(now_s)
        for _ in range(n_to_submit(self.capacity, self._dispatcher.n_runs, n_pilots)):
            if self._closing.is_set():
                return
            self._send_pilot()

    def _reconcile(self, now_s: float) -> int:
        """Give up jobs that Slurm has lost or does not start; return their number."""
        queued_jobs = jobs.jobs_by_name(PREFIX + name for name in self._expected)
        verdict = reconcile_jobs(
            {
                name: ExpectedPilot(now_s - since_s, missing)
                for name, (since_s, missing) in self._expected.items()
            },
            {name.removeprefix(PREFIX): jobs for name, jobs in queued_jobs.items()},
        )
        if verdict.never is not None:
            raise ExecutorError(
                f"Slurm never starts the jobs of this sweep; its reason is {verdict.never}; see "
                "[executor] and [environment]"
            )
        for name, missing in verdict.missing.items():
            self._expected[name] = self._expected[name][0], missing
        for name in {*verdict.lost, *verdict.on_hold}:
            if not self._dispatcher.pilot_states()[
                name
            ].has_reported:  # it may have connected just now
                self._dispatcher.revoke(name)
                self._to_cancel.add(name)
                self._fruitless += 1
                self._last_lost = self._logs.last_line(name) or self._last_lost
        if verdict.waits is not None and not self._said_why:
            self._said_why = True
            _log.warning("a job of this sweep waits in Slurm; its reason is %s", verdict.waits)
        if self._fruitless >= FRUITLESS + self.capacity:
            last_message = f"; the last output is: {self._last_lost}" if self._last_lost else ""
            raise ExecutorError(
                f"{self._fruitless} jobs of Slurm in a row ended before their pilot connected to "
                f"{self._server.host}:{self._server.port}{last_message}. Finished runs are stored; "
                "continue with: copperline resume"
            )
        return len({*verdict.lost, *verdict.on_hold})

    def _output_words(self, pilot: str) -> str:
        """Return the last line of a job's output for a message; empty without output."""
        last = self._logs.last_line(pilot)
        return f"; the last line of '{self._logs.path(pilot)}' is: {last}" if last else ""

    def _send_pilot(self) -> None:
        """Submit one job; if Slurm's answer is lost, its name is looked up later."""
        pilot = new_id()
        ticket = PilotTicket(
            pilot, secrets.token_hex(32), self._server.host, self._server.port, self._certificate,
            str(self._file), self._digest, tuple(folder or str(Path.cwd()) for folder in sys.path),
            self._batch.walltime_s,
        )  # fmt: skip
        path = self._folder.ticket(pilot)
        ticket.write(path)
        self._dispatcher.add(pilot, ticket.secret)
        self._expected[pilot] = time.monotonic(), 0
        try:
            jobs.submit_job(
                [*self._options(pilot), str(self._folder.script), sys.executable, str(path)]
            )
        except jobs.SlurmRefusedError as error:
            self._dispatcher.revoke(pilot)
            del self._expected[pilot]
            if not self._dispatcher.pilot_states():
                raise ExecutorError(
                    f"Slurm refuses the jobs of this sweep ({error}); see [executor]"
                ) from error
            _log.warning("Slurm refuses further jobs of this sweep: %s", error)
            self._again_s = time.monotonic() + MOST_BACK_OFF_S

    def _options(self, pilot: str) -> list[str]:
        return jobs.job_options(
            PREFIX + pilot, self._logs.path(pilot), self._batch, self._environment,
            requeue=True,
        )  # fmt: skip

    def _is_away(self, error: AssistantError, now_s: float, *, nobody: bool) -> None:
        """Delay the next command; raise ExecutorError if no pilot has worked for long."""
        if self._away_since_s is None:
            self._away_since_s = now_s
            _log.warning("Slurm does not answer (%s); this sweep tries again", error)
        if not nobody:
            self._away_since_s = now_s
        elif now_s - self._away_since_s > COMES_BACK_S and self._dispatcher.n_runs:
            raise ExecutorError(
                f"Slurm's controller has not answered for {COMES_BACK_S:.0f} s ({error}). Finished "
                "runs are stored; continue with: copperline resume"
            )
        self._again_s = time.monotonic() + self._back_off_s
        self._back_off_s = min(2 * self._back_off_s, MOST_BACK_OFF_S)

    # End

    def close(self) -> None:
        """Revoke all tickets, which ends the Slurm jobs, and remove the shared folder."""
        with uninterrupted():
            if not self._closing.is_set():
                self._close()

    def _close(self) -> None:
        self._closing.set()
        self._work_to_do.set()
        self._dispatcher.end()
        for thread in self._threads:
            thread.join(2 * jobs.COMMAND_S)
        mine = self._folder.pilots()
        is_tidy = False
        with contextlib.suppress(jobs.SlurmUnavailableError, jobs.SlurmRefusedError):
            until_s = time.monotonic() + ENDING_S
            _answered(lambda: self._end_all(mine, until_s), CLOSE_S)
            is_tidy = True
        if not is_tidy:
            _log.warning(jobs.NOT_CANCELLED)
        self._server.close()
        self._folder.release(tidy=is_tidy)

    def _end_all(self, pilots: set[str], until_s: float) -> None:
        """Cancel the jobs that have not started, and the others that do not end by themselves."""
        names = [PREFIX + pilot for pilot in pilots]
        by_name = jobs.jobs_by_name(names) if names else {}
        jobs.cancel_jobs(name for name, them in by_name.items() if them[0].state == "PENDING")
        while any(job.state == "RUNNING" for them in by_name.values() for job in them):
            if time.monotonic() > until_s:
                break
            time.sleep(TICK_S)
            by_name = jobs.jobs_by_name(names)
        jobs.cancel_jobs(by_name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answered(ask: Callable[[], T], within_s: float) -> T:
    """Return the answer of Slurm, with retries while its controller is away.

    Raises:
        SlurmUnavailableError: it was away all the time.
        SlurmRefusedError: Slurm refused it.
    """
    until_s = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except jobs.SlurmUnavailableError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.5)
