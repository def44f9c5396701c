"""Who speaks to the service in the soak: workers and a human, each noting what it was told."""

import contextlib
import itertools
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from assistant import RunState
from assistant.cli.commands.service import TOKEN, executor_of
from assistant.cli.main import run as command_line
from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.errors import AssistantError, ServiceError
from assistant.core.ports import ExecutionResult, RunLease
from strategies import StrategyError
from tests.faults.soak.app import BAD, LEVELS
from tests.faults.soak.board import Board

AGAIN = "once more, number"
"""How the reasons of repeated runs begin; each number is asked for once."""


class Notes:
    """What one process was told, a line each; a line is written after the answer has come."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, told: str, experiment: str, run: int, **more: Any) -> None:
        line = {"at": time.monotonic(), "told": told, "experiment": experiment, "run": run, **more}
        os.write(self._file, f"{json.dumps(line)}\n".encode())


class NotedClaims(HttpLeaseSource):
    """Claims whose answers are noted."""

    def __init__(
        self, link: ApiClient, name: str, lease_s: float, notes: Notes, board: Board, slot: int
    ):
        super().__init__(link, worker=name, lease_s=lease_s)
        self._name, self._notes, self._board, self._slot = name, notes, board, slot
        self._lease: RunLease | None = None

    def lease(self) -> RunLease | None:
        self._board.enter(self._slot, b"c")
        lease = super().lease()
        self._board.enter(self._slot, b"i" if lease is None else b"r")
        if lease is not None:
            self._lease = lease
            self._notes.write(
                "claimed", lease.experiment_id, lease.run_id,
                token=lease.token, worker=self._name, attempt=lease.attempt,
            )  # fmt: skip
        return lease

    def complete(self, token: str, completion: ExecutionResult) -> None:
        self._board.enter(self._slot, b"t")
        super().complete(token, completion)
        lease, measures = self._lease, completion.measures
        assert lease is not None
        assert lease.token == token
        if lease.values["behaviour"] == "good" and measures is not None:
            told = {"measures": dict(measures)}
            self._notes.write("completed", lease.experiment_id, lease.run_id, **told)
        else:
            self._notes.write("failed", lease.experiment_id, lease.run_id)


def worker(
    url: str, token: str, name: str, lease_s: float, notes: Path, board: Board, slot: int
) -> None:
    """Work until ended, as ``copperline work`` does, and note what was told."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    link = ApiClient(url, token)
    leases = NotedClaims(link, name, lease_s, Notes(notes), board, slot)
    main = threading.get_ident()
    one = Worker(
        leases,
        lambda lease: executor_of(link, lease),
        lost=lambda: signal.pthread_kill(main, signal.SIGUSR1),
    )
    signal.signal(signal.SIGUSR1, lambda *_: one.abandon())
    one.work(ended.is_set, ended.wait)


def command_line_worker(url: str, token: str, name: str, lease_s: float) -> None:
    """Be ``copperline work``."""
    os.environ[TOKEN] = token
    code = command_line(
        ["work", "--url", url, "--lease", str(lease_s), "--name", name, "--allow-programs"]
    )
    if code != 0:
        raise SystemExit(code)


class Human:
    """Submits runs and changes its mind about them, and notes what was acknowledged.

    Args:
        kind: of the application.
        session: on its experiment.
        notes: where that is noted.
        board: says when to end.
        seed: of what it does.
        bad: share of the runs that go wrong.
        waiting: runs that it keeps waiting.
    """

    def __init__(
        self,
        kind: str,
        session: RemoteSession,
        notes: Notes,
        board: Board,
        seed: int,
        bad: float = 0.06,
        waiting: int = 8,
    ) -> None:
        self._kind, self._session, self._notes, self._board = kind, session, notes, board
        self._rng, self._bad, self._waiting = random.Random(seed), bad, waiting
        self._numbers = itertools.count(1)
        self._used: set[tuple[int, ...]] = set()

    def live(self) -> None:
        """Act until told to end, then release what is held."""
        while not self._board.ended:
            with contextlib.suppress(AssistantError, StrategyError):
                self._act(self._session)
            time.sleep(self._rng.uniform(0, 0.05 if self._kind == "function" else 0.2))
        self._let_go(self._session)

    def _act(self, session: RemoteSession) -> None:
        experiment = session.experiment
        waiting = [run.id for run in experiment.waiting]
        if len(waiting) < self._waiting:
            self._include(session)
            return
        queued = [run.id for run in experiment.runs_in(RunState.QUEUED)]
        held = [run_id for run_id in queued if experiment.run(run_id).held]
        running = [run.id for run in experiment.runs_in(RunState.RUNNING)]
        over = [run.id for run in experiment.runs_in(RunState.COMPLETED)]
        name, one = session.id, self._rng.choice(waiting)
        match self._rng.randrange(9):
            case 0 | 1:
                priority = float(self._rng.randint(-3, 3))
                session.reprioritise(one, priority)
                self._notes.write("prioritised", name, one, priority=priority)
            case 2:
                session.run_first(one)
                priority = session.experiment.run(one).priority
                self._notes.write("prioritised", name, one, priority=priority)
            case 3:
                session.hold(one)
                self._notes.write("held", name, one)
            case 4 if held:
                one = self._rng.choice(held)
                session.release(one)
                self._notes.write("released", name, one)
            case 5 if self._rng.random() < 0.4:
                one = self._rng.choice([*waiting, *running])
                reason = f"reason {self._rng.randrange(10**6)}"
                session.cancel(one, reason)
                self._notes.write("cancelled", name, one, reason=reason)
            case 6 if over:
                one, good = self._rng.choice(over), self._rng.random() < 0.5
                session.rate(one, good)
                self._notes.write("rated", name, one, good=good)
            case 7 if over and self._rng.random() < 0.5:
                reason = f"{AGAIN} {next(self._numbers)}"
                (run,) = session.replicate(self._rng.choice(over), 1, reason)
                self._notes.write("submitted", name, run.id, seed=run.seed)
            case _:
                session.catch_up()

    def _include(self, session: RemoteSession) -> None:
        values: dict[str, Any] = {n: self._rng.randrange(k) for n, k in LEVELS.items()}
        key = tuple(values.values())
        if key in self._used:
            return
        self._used.add(key)
        bad = self._rng.random() < self._bad * (1 if self._kind == "function" else 3)
        values["behaviour"] = self._rng.choice(BAD[self._kind]) if bad else "good"
        run = session.include(values)
        self._notes.write("submitted", session.id, run.id, seed=run.seed)

    def _let_go(self, session: RemoteSession) -> None:
        """Release what is held, so that all can end; the faults are over by then."""
        until_s = time.monotonic() + 600
        while time.monotonic() < until_s:
            try:
                session.catch_up()
                held = [r.id for r in session.experiment.runs_in(RunState.QUEUED) if r.held]
                if not held:
                    return
                session.release(held[0])
                self._notes.write("released", session.id, held[0])
            except ServiceError:
                time.sleep(0.2)
            except AssistantError:
                continue
