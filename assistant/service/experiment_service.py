"""Experiment service: the experiments of one store, their run queue and the commands on them.

Also the clock of the leases, and the policy for programs and files in requests.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assistant.analysis.experiment_state import CALL_S, ExecutionStatus
from assistant.applications import APPLICATIONS
from assistant.applications.rest_address import origin_of
from assistant.config.application import RestSettings
from assistant.config.snapshot import (
    config_snapshot,
    import_past_runs,
    initial_configurations,
    open_sweep,
    past_results,
)
from assistant.config.sweep_file import FILES_NAMED, build_sweep, check_settings
from assistant.core.commands import Command, refuse_other_version
from assistant.core.errors import (
    AssistantError,
    ExperimentError,
    IdempotencyKeyReusedError,
    NameTakenError,
    SettingsError,
)
from assistant.core.events import Event, ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.ports import Clock, SystemClock
from assistant.core.run import RunState
from assistant.core.submission import assess_report
from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.service.observability import MetricsRegistry, ServiceCounters, ServiceLog
from assistant.service.shared_views import SharedViews
from assistant.session.execution import is_executed
from assistant.session.opening import check_names, load_session, open_from_event
from assistant.session.session import ExperimentQueries, Session
from assistant.store.event_store import PendingRequest, SqliteStore, StoredReply, check_position
from assistant.store.queue import RunQueue


class SuspendAwareClock:
    """Monotonic clock in seconds that advances by at most ``step_s`` between two readings.

    Time in which the process is stopped (SIGSTOP, a debugger, a suspended machine) does not count,
    because the service can receive no heartbeat then: no lease runs out for that reason.
    """

    def __init__(self, step_s: float, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._step_s, self._steady_s = step_s, steady_s
        self._lock = threading.Lock()
        self._seen_s = self._now_s = steady_s()

    def __call__(self) -> float:
        """Return the time in seconds; it never decreases."""
        with self._lock:
            seen_s = self._steady_s()
            self._now_s += min(seen_s - self._seen_s, self._step_s)
            self._seen_s = seen_s
            return self._now_s


class ClientLiveness:
    """Record of when each experiment's external client sent its last request."""

    def __init__(self, is_external: Callable[[str], bool], steady_s: Callable[[], float]) -> None:
        self._is_external, self._steady_s = is_external, steady_s
        self._heard_s: dict[str, float] = {}

    def note(self, experiment_id: str) -> None:
        """Record the time of a request if the experiment has an external client."""
        if self._is_external(experiment_id):
            self._heard_s[experiment_id] = self._steady_s()

    def ago_s(self, experiment_id: str) -> float | None:
        """Return the seconds since the external client's last request, or None without any."""
        at_s = self._heard_s.get(experiment_id)
        return None if at_s is None else max(0.0, self._steady_s() - at_s)


class WorkerLiveness:
    """Record of when each worker last called, and of the experiments that it may execute."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s = steady_s
        self._calls: dict[str, tuple[float, str | None, frozenset[str]]] = {}

    def note(self, worker: str, only: str | None, without: Collection[str]) -> None:
        """Record a request for a run: of one experiment, or of any but those in ``without``."""
        self._prune()
        self._calls[worker] = (self._steady_s(), only, frozenset(without))

    @property
    def n_workers(self) -> int:
        """Number of workers that called within `CALL_S`."""
        return len(self._calls)

    def note_again(self, worker: str) -> None:
        """Record another request of a worker, such as the heartbeat of a run."""
        if worker in self._calls:
            _, only, without = self._calls[worker]
            self._calls[worker] = (self._steady_s(), only, without)

    def count(self, experiment_id: str) -> int:
        """Return how many workers that may execute an experiment called within `CALL_S`."""
        since_s = self._steady_s() - CALL_S
        calls = list(self._calls.values())
        return sum(
            at_s > since_s and only in (None, experiment_id) and experiment_id not in without
            for at_s, only, without in calls
        )

    def _prune(self) -> None:
        since_s = self._steady_s() - CALL_S
        for worker, (at_s, _, _) in list(self._calls.items()):
            if at_s <= since_s:
                self._calls.pop(worker, None)


SAFE_APPLICATIONS = tuple(entry.name for entry in APPLICATIONS if not entry.is_users)
"""Applications that start no programs; every other kind is treated as one that does."""


def apply_request_policy(
    tables: Mapping[str, Any],
    *,
    programs: bool,
    files: Path | None,
    adapters: Collection[str] = (),
) -> dict[str, Any]:
    """Return a request's sweep settings with absolute paths; refuse forbidden programs and files.

    Args:
        tables: tables of a sweep file in the request.
        programs: whether they may name programs to start.
        files: folder of the allowed files; None means none, or any if programs are allowed.
        adapters: origins of programs over HTTP that are allowed anyway; see `origin_of`.

    Raises:
        SettingsError: the tables are wrong, or name a program or file that is not allowed.
    """
    settings = check_settings(tables, "the request")  # the kind may be implied by what is given
    application_settings = settings.application
    if isinstance(application_settings, RestSettings):
        if (
            not programs
            and application_settings.url is not None
            and origin_of(application_settings.url) not in adapters
        ):
            raise SettingsError(
                f"this service calls no program at {origin_of(application_settings.url)}; its "
                "operator can allow it with --adapter (or any program with --allow-programs)"
            )
    elif not programs and application_settings.kind not in SAFE_APPLICATIONS:
        raise SettingsError(_starts(f"an application of kind '{application_settings.kind}'"))
    if not programs and settings.hooks.build().kinds:
        raise SettingsError(_starts("hooks"))
    if settings.executor is not None:
        raise SettingsError(
            "a service gives runs to its workers, not to the executor of a sweep file; remove "
            "[executor]"
        )
    placed_tables = dict(tables)
    if files is None and programs:
        return placed_tables
    application = dict(placed_tables.get("application", {}))
    for key in FILES_NAMED:
        if application.get(key) is not None:
            application[key] = _placed(application[key], files)
    futures = application.get("futures")
    if futures and futures.get("model") is not None:
        application["futures"] = {**futures, "model": _placed(futures["model"], files)}
    if application:
        placed_tables["application"] = application
    if placed_tables.get("results"):
        placed_tables["results"] = [_placed(path, files) for path in placed_tables["results"]]
    return placed_tables


def _starts(subject: str) -> str:
    return (
        f"{subject} would start programs on this machine, which this service does not allow; its "
        "operator can allow it with --allow-programs"
    )


def _placed(file_name: str, files: Path | None) -> str:
    """Return the absolute path of a file in the folder; raise SettingsError if it is outside."""
    if files is None:
        raise SettingsError(
            f"this service reads no files named in requests, such as '{file_name}'; its operator "
            "can allow a folder with --files"
        )
    if "\0" in file_name:
        raise SettingsError(f"no file can have the name {file_name!r}")
    path = (files / file_name).resolve()
    if not path.is_relative_to(files.resolve()):
        raise SettingsError(
            f"the file '{file_name}' is outside the folder that this service may read"
        )
    return str(path)


LOOK_AFTER_S = 0.5  # interval of the housekeeping
NOTES_KEPT = 5  # per experiment
REPLIES_KEPT_S = 7 * 86_400.0
_REUSED = "this Idempotency-Key was used for another request; use a new key for each request"


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """Identity of a request, by which the service recognises a repeated request.

    ``digest`` covers method, path and body. ``key`` is the Idempotency-Key, or None. ``version`` is
    the version of the experiment that the client has read; None allows any.
    """

    key: str | None = None
    digest: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command: the events appended to the event log, as JSON lines.

    ``version`` is that after the command; ``again`` marks the answer to a repeated request.
    """

    experiment_id: str
    version: int
    first: int
    lines: Sequence[str]
    again: bool = False


class ReadOnlyQueries(ExperimentQueries):
    """Read-only queries on a state of an experiment that readers share, at a fixed time."""

    def __init__(self, experiment: Experiment, at_s: float) -> None:
        self._experiment, self._at_s = experiment, at_s

    @property
    def experiment(self) -> Experiment:
        """State of the experiment, which must not be changed."""
        return self._experiment

    def now_s(self) -> float:
        """Return the fixed time in seconds since 1970-01-01 UTC."""
        return self._at_s


class ExperimentService:
    """Service for the experiments of one store, which only this process writes.

    Args:
        store: store of the event logs.
        log: log for events that no request causes.
        book: named tokens; None keeps them in memory.
        clock: clock that dates the events.
        programs: whether settings in a request may name programs to start (commands, functions,
            hooks); only safe if every permitted caller may start programs here anyway.
        files: folder of the files that requests may name; see `apply_request_policy`.
        adapters: origins of programs over HTTP that requests may always name.
        steady_s: clock of the leases; call `look_after` every `LOOK_AFTER_S`.
    """

    def __init__(
        self,
        store: SqliteStore,
        log: ServiceLog,
        *,
        book: ApiTokenStore | None = None,
        clock: Clock | None = None,
        programs: bool = False,
        files: Path | None = None,
        adapters: Collection[str] = (),
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.book = ApiTokenStore(clock=clock) if book is None else book
        self.clock = clock or SystemClock()
        self.queue = RunQueue(store, self.clock, SuspendAwareClock(LOOK_AFTER_S, steady_s))
        self.log = log
        self.programs, self._files, self._adapters = programs, files, adapters
        self._sessions: dict[str, Session] = {}
        self._views = SharedViews(store)
        self._loading = threading.Lock()
        self._loads: dict[str, threading.Lock] = {}
        self._opening = threading.Lock()
        self._notes: dict[str, tuple[str, ...]] = {}
        self.client_liveness = ClientLiveness(self.queue.is_external, steady_s)
        self.worker_liveness = WorkerLiveness(steady_s)
        self.executes = False  # whether this service starts workers
        self.count_in(MetricsRegistry())

    def count_in(self, metrics: MetricsRegistry) -> None:
        """Count commands, leases and results in a metrics registry from now on."""
        self.counts = ServiceCounters(metrics, self.queue.depth, lambda: self.queue.lost)

    def note(self, experiment_id: str, sentence: str) -> None:
        """Record a note about the execution of an experiment, to be shown to users."""
        sentences = self._notes.get(experiment_id, ())
        if sentence not in sentences:
            self._notes[experiment_id] = (*sentences, sentence)[-NOTES_KEPT:]
            self.log.warning("noted", experiment=experiment_id, note=sentence)

    def notes(self, experiment_id: str) -> tuple[str, ...]:
        """Return the latest notes on an experiment since the service started."""
        return self._notes.get(experiment_id, ())

    def execution(self, experiment_id: str) -> ExecutionStatus:
        """Return who executes the runs of an experiment, with the notes on its execution."""
        path = self.store.path
        return ExecutionStatus(
            active=self.queue.is_active(experiment_id),
            executes=self.executes,
            notes=self.notes(experiment_id),
            external=self.queue.is_external(experiment_id),
            last_call_s=self.client_liveness.ago_s(experiment_id),
            workers=self.worker_liveness.count(experiment_id),
            in_process=path is not None and is_executed(path, experiment_id),
        )

    # -- experiments ---------------------------------------------------------------------------

    def session(self, experiment_id: str) -> Session:
        """Return the session of an experiment, loaded at first use, or raise StoreError."""
        with self._loading:
            session = self._sessions.get(experiment_id)
            if session is not None:
                return session
            load = self._loads.setdefault(experiment_id, threading.Lock())
        with load:  # a long event log is loaded once, and nobody else waits for it
            try:
                if experiment_id not in self._sessions:
                    session = load_session(self.store, experiment_id, clock=self.clock)
                    return self._known(session)
                return self._sessions[experiment_id]
            finally:
                self._loads.pop(experiment_id, None)

    def _known(self, session: Session) -> Session:
        """Return the one session of an experiment: this one, unless there is one already."""
        with self._loading:
            return self._sessions.setdefault(session.id, session)

    def look(self, experiment_id: str) -> ReadOnlyQueries:
        """Return read-only queries on the current state of an experiment.

        All readers of a state share it, and none of them waits for a decision.
        """
        session = self.session(experiment_id)
        view = self._views.of(experiment_id, session.look)
        return ReadOnlyQueries(view, session.now_s())

    def loaded(self) -> tuple[Session, ...]:
        """Return the sessions of all experiments loaded into memory."""
        with self._loading:
            return tuple(self._sessions.values())

    def open_described(
        self, described: ExperimentOpened, request: IdempotentRequest
    ) -> CommandResult:
        """Open an experiment whose runs are executed by another program.

        Raises SettingsError for a recipe, which only settings may have, and as `opening.describe`.
        """
        if described.recipe:
            raise SettingsError("a described experiment has no recipe; send the settings instead")
        return self._opened(
            request,
            lambda: open_from_event(
                described,
                store=self.store,
                clock=self.clock,
                experiment_id=described.experiment_id or None,
            ),
        )

    def placed(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return sweep settings with absolute paths, or raise SettingsError if not allowed."""
        return apply_request_policy(
            tables, programs=self.programs, files=self._files, adapters=self._adapters
        )

    def open_settings(
        self, tables: Mapping[str, Any], name: str, request: IdempotentRequest
    ) -> CommandResult:
        """Open an experiment from sweep settings, or raise SettingsError if not allowed."""
        placed = self.placed(tables)

        def opened() -> Session:
            built = build_sweep(check_settings(placed, "the request"))
            past, configurations = past_results(built), initial_configurations(built)
            session = open_sweep(
                built, self.store, name or "sweep", config_snapshot(placed, configurations)
            )
            import_past_runs(session, built, past, configurations, baseline=False)
            return session

        decided = self._opened(request, opened)
        self.queue.set_active(decided.experiment_id, True)  # any worker may lease its runs
        return decided

    def _opened(self, request: IdempotentRequest, make: Callable[[], Session]) -> CommandResult:
        with self._opening:  # one at a time, or a repeated request could open a second one
            earlier = self._answered(request)
            if earlier is not None:
                return earlier
            with self._asking(request):
                session = make()
            session = self._known(session)
        return self._decided(session, 0, session.experiment.n_events)

    # -- decisions -----------------------------------------------------------------------------

    def decide(
        self, experiment_id: str, request: IdempotentRequest, command: Command
    ) -> CommandResult:
        """Decide a command once per idempotency key, and only at the expected version.

        Raises VersionConflictError, IdempotencyKeyReusedError, and what `Session.decide` raises.
        """
        return self._once(experiment_id, request, lambda session: session.decide(command))

    def _once(
        self, experiment_id: str, request: IdempotentRequest, act: Callable[[Session], object]
    ) -> CommandResult:
        """Change an experiment once per idempotency key, and only at the expected version.

        Raises:
            VersionConflictError: the experiment has another version.
            IdempotencyKeyReusedError: the key was used for another request.
            AssistantError, StrategyError: the session refuses the command and stores nothing.
        """
        session = self.session(experiment_id)
        with session.deciding():
            earlier = self._answered(request)
            if earlier is not None:
                return earlier
            if request.version is not None:
                refuse_other_version(session.experiment, request.version)
            with self._asking(request) as asking:
                act(session)
            outcome = asking.reply or self._nothing(request, session)
            return self._decided(session, outcome.first, outcome.n)

    def append(
        self, experiment_id: str, position: int, events: Sequence[Event], request: IdempotentRequest
    ) -> CommandResult:
        """Store all or none of the events that a session in another process has produced.

        Raises VersionConflictError if the event log is not at that position, and ExperimentError if
        the events do not follow it.
        """
        first = events[0]
        if position == 0 and isinstance(first, ExperimentOpened):
            if first.experiment_id != experiment_id:
                raise ExperimentError(
                    f"the events open '{first.experiment_id}', but the path names '{experiment_id}'"
                )
            Experiment.replay(events)
            check_names(first)

            def opened() -> Session:
                self.store.append(experiment_id, 0, events)
                return load_session(self.store, experiment_id, clock=self.clock)

            return self._opened(request, opened)

        def act(session: Session) -> None:
            check_position(experiment_id, position, session.experiment.n_events)
            session.take(events)

        return self._once(experiment_id, request, act)

    def activate(self, experiment_id: str, active: bool, request: IdempotentRequest) -> None:
        """Allow or forbid workers to lease an experiment's runs, with the errors of `decide`."""

        def act(session: Session) -> None:
            self.queue.set_active(session.id, active)

        self._once(experiment_id, request, act)

    def _nothing(self, request: IdempotentRequest, session: Session) -> StoredReply:
        """Remember a request that left no event."""
        reply = StoredReply(request.digest, session.id, session.experiment.n_events, 0)
        if request.key is not None:
            with self.store.transaction():
                self.store.remember(request.key, reply, self.clock.now_s())
        return reply

    def answered(self, request: IdempotentRequest) -> CommandResult | None:
        """Return the stored result of a repeated request, or None for a new request.

        Raises IdempotencyKeyReusedError if the key was used for another request.
        """
        return self._answered(request)

    def _asking(self, request: IdempotentRequest) -> AbstractContextManager[PendingRequest]:
        return self.store.asking(request.key, request.digest)

    def _answered(self, request: IdempotentRequest) -> CommandResult | None:
        reply = None if request.key is None else self.store.reply(request.key)
        if reply is None:
            return None
        if reply.request != request.digest:
            raise IdempotencyKeyReusedError(_REUSED)
        session = self.session(reply.experiment_id)
        session.catch_up()
        return self._decided(session, reply.first, reply.n, again=True)

    def _decided(
        self, session: Session, first: int, n: int, *, again: bool = False
    ) -> CommandResult:
        lines = self.store.lines(session.id, first, n) if n else []
        if not again:
            self.counts.decided(str(json.loads(lines[0])["type"]) if lines else None)
        return CommandResult(session.id, session.experiment.version, first, lines, again)

    def stop_hopeless(self, experiment_id: str, run_id: int) -> None:
        """Stop a run early if the experiment's rule finds its latest result hopeless."""
        session = self.session(experiment_id)
        if session.experiment.curves is None:
            return
        with session.deciding():
            stopped = assess_report(session.experiment, run_id, session.now_s())
            if stopped is not None:
                session.take([stopped])

    # -- named tokens ----------------------------------------------------------------------------

    def issue_token(
        self,
        name: str,
        role: Role,
        *,
        experiment_id: str | None = None,
        expires_s: float | None = None,
        created_by: str | None = None,
        again: bool = False,
    ) -> str:
        """Create a named token and return its secret, with the errors of `ApiTokenStore.issue`.

        Raises UnknownExperimentError if there is no such experiment, and NameTakenError if a worker
        without that token uses the name.
        """
        if experiment_id is not None:
            self.store.opened(experiment_id)
        if self.book.get(name) is None and self.queue.has_worker(name):
            raise NameTakenError(
                f"a worker without this token has the name '{name}' now; choose another name "
                "for the token"
            )
        token = self.book.issue(
            name, role, experiment_id=experiment_id, expires_s=expires_s, created_by=created_by,
            again=again,
        )  # fmt: skip
        self.queue.give_back_of(name, "the token of its worker was replaced")
        return token

    def revoke_token(self, name: str) -> None:
        """Revoke a named token and return the runs leased under it to the queue."""
        self.book.revoke(name)
        self.queue.give_back_of(name, "the token of its worker was revoked")

    def once(self, request: IdempotentRequest) -> bool:
        """Return whether a request that stores no events is a repeat, or raise as `answered`."""
        reply = None if request.key is None else self.store.reply(request.key)
        if reply is not None and reply.request != request.digest:
            raise IdempotencyKeyReusedError(_REUSED)
        return reply is not None

    def remember(self, request: IdempotentRequest) -> None:
        """Record that a request that stores no events was answered."""
        if request.key is not None:
            with self.store.transaction():
                self.store.remember(
                    request.key, StoredReply(request.digest, "", 0, 0), self.clock.now_s()
                )

    # -- housekeeping ----------------------------------------------------------------------------

    def take_over(self, *, alone: bool = True) -> None:
        """Restart every lease at full length after the previous service process has ended.

        With ``alone`` no other process executes runs: running runs without a lease wait again.
        """
        leases, runs = self.queue.rearm(), self.queue.recover() if alone else 0
        if leases or runs:
            self.log.info("taken over", leases=leases, runs_wait_again=runs)

    def look_after(self) -> None:
        """Expire leases, load new events, and pause experiments past a deadline or cost limit."""
        lost = self.queue.expire()
        if lost:
            self.log.warning("leases expired", runs=lost)
        for session in self.loaded():
            try:
                session.catch_up()
                self._pause_if_over(session)
            except AssistantError as error:
                self.log.error(
                    "housekeeping of an experiment failed", error=error, experiment=session.id
                )

    def forget(self) -> None:
        """Delete the stored answers to requests past their retention time."""
        self.store.forget_replies(self.clock.now_s() - REPLIES_KEPT_S)

    def _pause_if_over(self, session: Session) -> None:
        passed = session.passed_limit()
        if passed is None:
            return
        if self.queue.is_active(session.id):
            self.queue.set_active(session.id, False)
            if session.experiment.auto_steering is not None:
                session.set_auto_steering(None, passed)
            self.log.warning("paused", experiment=session.id, reason=passed)
        if self.queue.is_external(session.id):
            self._finish_external(session, passed)

    def _finish_external(self, session: Session, passed: str) -> None:
        """Finish an exhausted experiment with no running run, so that its client learns of it."""
        experiment = session.experiment
        if experiment.finished is None and not experiment.n_in(RunState.RUNNING):
            session.finish(passed)
