"""Time in which this process runs: what passes while it is stopped does not count.

Leases are counted by it. A service that was stopped (SIGSTOP, a debugger, a suspended machine)
could hear nobody meanwhile, so that nobody was silent.

When the programs were heard that ask for their runs themselves.

What the settings of a request may name: programs and files, if the operator says so.

The house behind the service: one store, its experiments, and the queue. One process, one house.
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
from assistant.core.commands import refuse_other_version
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
from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.service.observability import MetricsRegistry, ServiceCounters, ServiceLog
from assistant.session.opening import load_session, open_from_event
from assistant.session.session import ExperimentQueries, Session
from assistant.store.event_store import PendingRequest, SqliteStore, StoredReply, check_position
from assistant.store.queue import RunQueue


class SuspendAwareClock:
    """A steady time that goes on by at most one step between two looks at it.

    Args:
        step_s: the longest step; somebody must look more often than that.
        steady_s: the time that passes.
    """

    def __init__(self, step_s: float, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._step_s, self._steady_s = step_s, steady_s
        self._lock = threading.Lock()
        self._seen_s = self._now_s = steady_s()

    def __call__(self) -> float:
        """Return the time in seconds; it never goes back."""
        with self._lock:
            seen_s = self._steady_s()
            self._now_s += min(seen_s - self._seen_s, self._step_s)
            self._seen_s = seen_s
            return self._now_s


class ClientLiveness:
    """Keeps when the program of each experiment has spoken last, for people who look on.

    Args:
        is_outside: whether the program of an experiment asks for its runs itself.
        steady_s: passes.
    """

    def __init__(self, is_outside: Callable[[str], bool], steady_s: Callable[[], float]) -> None:
        self._is_outside, self._steady_s = is_outside, steady_s
        self._heard_s: dict[str, float] = {}

    def note(self, experiment_id: str) -> None:
        """Keep that a program has spoken; of other experiments nothing is kept."""
        if self._is_outside(experiment_id):
            self._heard_s[experiment_id] = self._steady_s()

    def ago_s(self, experiment_id: str) -> float | None:
        """Return how long ago (s) a program was heard; None if not since the service began."""
        at_s = self._heard_s.get(experiment_id)
        return None if at_s is None else max(0.0, self._steady_s() - at_s)


SAFE_APPLICATIONS = ("scheduling", "lookup", "flood", "maze", "ai_platform", "placement")
"""Applications that start nothing; every other kind is taken for one that does."""


def apply_request_policy(
    tables: Mapping[str, Any],
    *,
    programs: bool,
    files: Path | None,
    adapters: Collection[str] = (),
) -> dict[str, Any]:
    """Return the tables of a request with the files that they name where they may be.

    Args:
        tables: of a sweep file, as they came.
        programs: whether they may name programs to start.
        files: folder that they may name files of, relative to it; None is no file, or any file
            where programs may be named.
        adapters: origins of programs over HTTP that they may name where they may name no others;
            see `origin_of`.

    Raises:
        SettingsError: they are wrong, or name what they may not.
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
                f"this service asks no program at {origin_of(application_settings.url)} for runs; its operator "
                "can name it with --adapter (or any, with --allow-programs)"
            )
    elif not programs and application_settings.kind not in SAFE_APPLICATIONS:
        raise SettingsError(_starts(f"an application of kind '{application_settings.kind}'"))
    if not programs and settings.hooks.build().kinds:
        raise SettingsError(_starts("hooks"))
    if settings.executor is not None:
        raise SettingsError(
            "a service gives runs to its workers, and to no executor of a sweep file; leave "
            "[executor] away"
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
        "operator can with --allow-programs"
    )


def _placed(file_name: str, files: Path | None) -> str:
    """Return the absolute path of a file within the folder."""
    if files is None:
        raise SettingsError(
            f"this service reads no files that requests name, such as '{file_name}'; its operator can "
            "name a folder of them with --files"
        )
    path = (files / file_name).resolve()
    if not path.is_relative_to(files.resolve()):
        raise SettingsError(
            f"the file '{file_name}' lies outside of the folder that this service may read"
        )
    return str(path)


LOOK_AFTER_S = 0.5
"""How often a house is looked after."""
NOTES_KEPT = 5
"""Of an experiment."""
REPLIES_KEPT_S = 7 * 86_400.0
_REUSED = "this Idempotency-Key was used for another request; make a new one for each"


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request as the house sees it.

    Args:
        key: that the client made for this request alone; None if it made none.
        digest: of method, path and body.
        version: of the experiment that the client has looked at; None if it does not matter.
    """

    key: str | None = None
    digest: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of a request: events ``first`` to ``first + len(lines)`` of a journal.

    Args:
        experiment_id: of the journal.
        version: of the experiment now.
        first: position of the first event.
        lines: the events as lines of JSON.
        again: whether the same request had been answered before.
    """

    experiment_id: str
    version: int
    first: int
    lines: Sequence[str]
    again: bool = False


class ReadOnlyQueries(ExperimentQueries):
    """An experiment at one moment, for whoever only looks; nobody changes it.

    Args:
        experiment: a copy of its own.
        at_s: the moment.
    """

    def __init__(self, experiment: Experiment, at_s: float) -> None:
        self._experiment, self._at_s = experiment, at_s

    @property
    def experiment(self) -> Experiment:
        """The state."""
        return self._experiment

    def now_s(self) -> float:
        """Return the moment, in seconds since 1970-01-01 UTC."""
        return self._at_s


class ExperimentService:
    """Experiments of a store that this process alone writes.

    Args:
        store: with the journals.
        log: told of what happens without a request.
        book: of the tokens with names; one in memory if None.
        clock: dates the events.
        programs: whether settings that come in a request may name programs to start: commands,
            functions, hooks. Only where whoever may send requests may start programs anyway.
        files: folder of the job logs and tables that requests may name; None is none, or any where
            programs are allowed.
        adapters: origins of programs over HTTP that requests may name all the same.
        steady_s: passes; leases are counted by it, without the time in which this process was
            stopped. It must be looked after, every `LOOK_AFTER_S`.
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
        self._loading = threading.Lock()
        self._opening = threading.Lock()
        self._notes: dict[str, tuple[str, ...]] = {}
        self.hearing = ClientLiveness(self.queue.is_outside, steady_s)
        self.executes = False
        """Whether workers are started here for the experiments that are active."""
        self.count_in(MetricsRegistry())

    def count_in(self, metrics: MetricsRegistry) -> None:
        """Count what happens here from now on."""
        self.counts = ServiceCounters(metrics, self.queue.depth, lambda: self.queue.lost)

    def note(self, experiment_id: str, sentence: str) -> None:
        """Keep what people who watch an experiment should know of its execution."""
        sentences = self._notes.get(experiment_id, ())
        if sentence not in sentences:
            self._notes[experiment_id] = (*sentences, sentence)[-NOTES_KEPT:]
            self.log.warning("noted", experiment=experiment_id, note=sentence)

    def notes(self, experiment_id: str) -> tuple[str, ...]:
        """Return what was noted of an experiment since the service began."""
        return self._notes.get(experiment_id, ())

    # -- experiments ---------------------------------------------------------------------------

    def session(self, experiment_id: str) -> Session:
        """Return the session of an experiment, loaded once. Raises StoreError if there is none."""
        with self._loading:
            if experiment_id not in self._sessions:
                self._sessions[experiment_id] = load_session(
                    self.store, experiment_id, clock=self.clock
                )
            return self._sessions[experiment_id]

    def look(self, experiment_id: str) -> ReadOnlyQueries:
        """Return an experiment as it stands now, workers' results included."""
        session = self.session(experiment_id)
        with session.deciding():
            return ReadOnlyQueries(session.experiment.supposing(()), session.now_s())

    def loaded(self) -> tuple[Session, ...]:
        """Return the sessions that have been asked for."""
        with self._loading:
            return tuple(self._sessions.values())

    def open_described(
        self, described: ExperimentOpened, request: IdempotentRequest
    ) -> CommandResult:
        """Open an experiment whose runs somebody else will execute.

        Raises:
            SettingsError: it names a recipe, which only settings may make.
            StrategyError: see `opening.describe`.
        """
        if described.recipe:
            raise SettingsError(
                "a described experiment has no recipe; send the settings themselves instead"
            )
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
        """Return the tables of a request with the files that they name where they are here.

        Raises:
            SettingsError: they are wrong, or name programs or files that are not allowed here.
        """
        return apply_request_policy(
            tables, programs=self.programs, files=self._files, adapters=self._adapters
        )

    def open_settings(
        self, tables: Mapping[str, Any], name: str, request: IdempotentRequest
    ) -> CommandResult:
        """Open an experiment as the tables of a sweep file say.

        Raises:
            SettingsError: they are wrong, or name programs or files that are not allowed here.
        """
        placed = self.placed(tables)

        def opened() -> Session:
            built = build_sweep(check_settings(placed, "the request"))
            past, configurations = past_results(built), initial_configurations(built)
            session = open_sweep(
                built, self.store, name or "sweep", config_snapshot(placed, configurations)
            )
            import_past_runs(session, built, past, configurations, today=False)
            return session

        decided = self._opened(request, opened)
        self.queue.set_active(decided.experiment_id, True)  # whoever works here may have its runs
        return decided

    def _opened(self, request: IdempotentRequest, make: Callable[[], Session]) -> CommandResult:
        with self._opening:  # one at a time, or a repeated request could open a second one
            earlier = self._answered(request)
            if earlier is not None:
                return earlier
            with self._asking(request):
                session = make()
            with self._loading:
                self._sessions[session.id] = session
        return self._decided(session, 0, session.experiment.n_events)

    # -- decisions -----------------------------------------------------------------------------

    def decide(
        self, experiment_id: str, request: IdempotentRequest, act: Callable[[Session], object]
    ) -> CommandResult:
        """Let a session decide, once for each key, and only on the version that was looked at.

        Raises:
            GoneOnError: the experiment has another version than was looked at.
            KeyReusedError: the key was used for another request.
            AssistantError, StrategyError: what the session refuses; nothing is stored then.
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
        """Store events that a session elsewhere has decided. All or none.

        Raises:
            GoneOnError: the journal is not at that position.
            ExperimentError: they do not follow it.
        """
        first = events[0]
        if position == 0 and isinstance(first, ExperimentOpened):
            if first.experiment_id != experiment_id:
                raise ExperimentError(
                    f"the events open '{first.experiment_id}', and the path says '{experiment_id}'"
                )
            Experiment.replay(events)

            def opened() -> Session:
                self.store.append(experiment_id, 0, events)
                return load_session(self.store, experiment_id, clock=self.clock)

            return self._opened(request, opened)

        def act(session: Session) -> None:
            check_position(experiment_id, position, session.experiment.n_events)
            session.take(events)

        return self.decide(experiment_id, request, act)

    def activate(self, experiment_id: str, active: bool, request: IdempotentRequest) -> None:
        """Let workers have runs of an experiment, or no more of them; raises as `decide` does."""

        def act(session: Session) -> None:
            self.queue.set_active(session.id, active)

        self.decide(experiment_id, request, act)

    def _nothing(self, request: IdempotentRequest, session: Session) -> StoredReply:
        """Keep that a request was answered, though it left no event."""
        reply = StoredReply(request.digest, session.id, session.experiment.n_events, 0)
        if request.key is not None:
            with self.store.transaction():
                self.store.remember(request.key, reply, self.clock.now_s())
        return reply

    def answered(self, request: IdempotentRequest) -> CommandResult | None:
        """Return what came of a request that was answered before; None if it was not.

        Raises KeyReusedError if its key was used for another one.
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

    # -- tokens with names ---------------------------------------------------------------------

    def issue_token(
        self,
        name: str,
        role: Role,
        *,
        experiment_id: str | None = None,
        expires_s: float | None = None,
        made_by: str | None = None,
        again: bool = False,
    ) -> str:
        """Make a token with a name; see `ApiTokenStore.issue`, which it raises as.

        Raises:
            UnknownExperimentError: there is no such experiment.
            TakenNameError: a worker that has no such token calls itself so.
        """
        if experiment_id is not None:
            self.store.opened(experiment_id)
        if self.book.get(name) is None and self.queue.has_worker(name):
            raise NameTakenError(
                f"a worker calls itself '{name}' now and would take its runs for those of the "
                "token; name the token otherwise"
            )
        token = self.book.issue(
            name, role, experiment_id=experiment_id, expires_s=expires_s, made_by=made_by,
            again=again,
        )  # fmt: skip
        self.queue.give_back_of(name, "the token of its worker was made anew")
        return token

    def revoke_token(self, name: str) -> None:
        """Let nobody in by a token any more; the runs that were held under it wait again."""
        self.book.revoke(name)
        self.queue.give_back_of(name, "the token of its worker was revoked")

    def once(self, request: IdempotentRequest) -> bool:
        """Return whether a request that leaves no event was answered. Raises KeyReusedError."""
        reply = None if request.key is None else self.store.reply(request.key)
        if reply is not None and reply.request != request.digest:
            raise IdempotencyKeyReusedError(_REUSED)
        return reply is not None

    def remember(self, request: IdempotentRequest) -> None:
        """Keep that a request was answered that leaves no event."""
        if request.key is not None:
            with self.store.transaction():
                self.store.remember(
                    request.key, StoredReply(request.digest, "", 0, 0), self.clock.now_s()
                )

    # -- looking after it ----------------------------------------------------------------------

    def take_over(self, *, alone: bool = True) -> None:
        """Go on where a process that is gone has ended: every lease has its full length again.

        Args:
            alone: whether nothing else executes runs of the store by now, so that those which go
                on without a lease wait again.
        """
        leases, runs = self.queue.rearm(), self.queue.recover() if alone else 0
        if leases or runs:
            self.log.info("taken over", leases=leases, runs_wait_again=runs)

    def look_after(self) -> None:
        """Take runs from silent workers, take in what workers recorded, end what is used up."""
        lost = self.queue.expire()
        if lost:
            self.log.warning("workers not heard of", runs=lost)
        for session in self.loaded():
            try:
                session.catch_up()
                self._pause_if_over(session)
            except AssistantError as error:
                self.log.error(
                    "experiment cannot be looked after", error=error, experiment=session.id
                )

    def forget(self) -> None:
        """Forget what came of requests of long ago."""
        self.store.forget_replies(self.clock.now_s() - REPLIES_KEPT_S)

    def _pause_if_over(self, session: Session) -> None:
        passed = session.passed_limit()
        if passed is None:
            return
        if self.queue.is_active(session.id):
            self.queue.set_active(session.id, False)
            if session.experiment.automatic is not None:
                session.hand_over(None, passed)
            self.log.warning("paused", experiment=session.id, reason=passed)
        if self.queue.is_outside(session.id):
            self._finish_outside(session, passed)

    def _finish_outside(self, session: Session, passed: str) -> None:
        """Finish what is used up once nothing of it goes on: so its program learns of the end."""
        experiment = session.experiment
        if experiment.finished is None and not experiment.runs_in(RunState.RUNNING):
            session.finish(passed)
