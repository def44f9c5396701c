"""One round of the soak: faults at random moments, then peace, then every promise is looked at."""

import contextlib
import heapq
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession, open_settings
from assistant.core.errors import AssistantError
from benchmarks.browsing import free_port
from tests.faults.soak import processes
from tests.faults.soak.app import MARK, tables
from tests.faults.soak.board import Board
from tests.faults.soak.looks import bad_runs, listening, n_open
from tests.faults.soak.people import Human, Notes, command_line_worker, worker
from tests.faults.soak.proxy import Proxy
from tests.faults.soak.verdict import verdict

WEIGHTS = {
    "F1 worker killed": 60,
    "F2 service killed": 8,
    "F3 worker stopped": 12,
    "F4 service stopped": 5,
    "F7 no room": 6,
    "F8 time of day": 3,
}
LEASE_S = 1.5
RUNS = 100_000
DISK_MIB = 96
READY_S = 600.0
DRAINED_S = 900.0
WAIT_S = 0.02
PHASES = ("idle", "claiming", "running", "telling")


@dataclass
class Round:
    """What came of one round.

    Args:
        seed: of everything drawn in it.
        faults: by kind.
        wrong: promises broken, a sentence each.
        notes: counts that are no faults: runs, restarts, losses, times.
    """

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


class Driver:
    """The parent of all processes of a round; it has one thread, and forks.

    Args:
        folder: for the store and for what was told.
        seed: of the round.
        workers: how many there are at any time.
        every_s: mean time between two faults that it makes itself.
    """

    def __init__(self, folder: Path, seed: int, workers: int, every_s: float) -> None:
        self.round = Round(seed)
        self._folder, self._n, self._every_s = folder, workers, every_s
        self._rng, self._board = random.Random(seed), Board()
        self._disk = folder / "disk"
        self._disk.mkdir()
        self._small = processes.small_disk(self._disk, DISK_MIB)
        self._store = self._disk / "store.db"
        self._port, self._listening = free_port(), listening()
        self._url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._service = self._proxy = 0
        self._humans: set[int] = set()
        self._by_pid: dict[int, tuple[int, str]] = {}
        self._stopped: set[int] = set()
        self._killed: set[int] = set()
        self._service_busy = self._ending = False
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._touched: set[str] = set()
        self._unseen = self._rng.sample(list(WEIGHTS), len(WEIGHTS))  # each comes once at least

    # -- the course of a round -----------------------------------------------------------------

    def play(self, faults: int, seconds: float) -> Round:
        """Make so many faults, in at most so many seconds, then end all and look at it."""
        self._serve()
        self._wait_ready(self._port)
        self._tokens = json.loads((self._disk / "store.db.tokens").read_text())
        proxy = Proxy(
            self._listening, self._port, self._folder / "wire.log", self._board, self.round.seed
        )
        self._proxy = processes.forked(proxy.serve, self._folder / "proxy.out")
        link = ApiClient(self._url, self._tokens["steerer"])
        sessions = {
            kind: open_settings(link, tables(kind, self._folder, RUNS), kind)
            for kind in ("function", "command")
        }
        link.close()
        names = {kind: session.id for kind, session in sessions.items()}
        self._humans = {
            processes.forked(lambda k=k: self._live(k, names[k]), self._folder / "human.out")  # type: ignore[misc]
            for k in names
        }
        for slot in range(self._n):
            self._work(slot)
        self._board.faulty = True
        began_s = time.monotonic()
        first_kib = processes.memory_kib(self._service)
        next_s = began_s
        while time.monotonic() < began_s + seconds and self._n_faults() < faults:
            self._turn()
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + self._rng.expovariate(1 / self._every_s)
                self._fault()
        self.round.notes["seconds of faults"] = round(time.monotonic() - began_s, 1)
        self._peace()
        self._drain()
        self.round.notes["memory of the service"] = [
            first_kib,
            processes.memory_kib(self._service),
        ]
        self._forecast_again(names)
        self._end()
        self._n_faults()
        verdict(self.round, self._folder, self._store, self._touched)
        return self.round

    def _live(self, kind: str, name: str) -> None:
        link = ApiClient(self._url, self._tokens["steerer"])
        session: RemoteSession | None = None
        while session is None:
            with contextlib.suppress(AssistantError):
                session = RemoteSession(link, name)
        notes = Notes(self._folder / f"{kind}.told")
        Human(kind, session, notes, self._board, self.round.seed).live()

    def _serve(self) -> None:
        self._service = processes.forked(
            lambda: processes.serve(self._store, self._port, self._board),
            self._folder / "service.out",
        )

    def _work(self, slot: int) -> None:
        number = next(self._numbers)
        name = f"worker-{number}"
        told, token = self._folder / f"{name}.told", self._tokens["worker"]
        self._board.enter(slot, b"?" if number % 5 == 0 else b"\0")

        def lean() -> None:
            worker(self._url, token, name, LEASE_S, told, self._board, slot)

        def full() -> None:
            command_line_worker(self._url, token, name, LEASE_S)

        pid = processes.forked(full if number % 5 == 0 else lean, self._folder / "workers.out")
        self._by_pid[pid] = (slot, name)

    def _turn(self) -> None:
        """Do what is due, and see who has ended."""
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._ended(pid, os.waitstatus_to_exitcode(status))
        time.sleep(WAIT_S)

    def _ended(self, pid: int, code: int) -> None:
        if pid in self._by_pid:
            slot, name = self._by_pid.pop(pid)
            self._stopped.discard(pid)
            if pid not in self._killed and code != -signal.SIGKILL and not self._ending:
                self.round.wrong.append(f"I9 {name} ended by itself with {code}")
            if not self._ending:
                self._work(slot)
        elif pid in self._humans and code == 0:
            self._humans.discard(pid)
        elif pid == self._service and pid not in self._killed:
            self.round.wrong.append(f"I9 the service ended by itself with {code}")
            self._serve()
        elif pid in (self._proxy, *self._humans) and code != 0 and pid not in self._killed:
            self.round.wrong.append(f"the soak itself is broken: process {pid} ended with {code}")

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), act))

    # -- faults --------------------------------------------------------------------------------

    def _n_faults(self) -> int:
        """Count what the wire did, and the bad runs that were executed, with our own."""
        wire = self._folder / "wire.log"
        lines = wire.read_text().splitlines() if wire.exists() else []
        for kind in [k for k in self.round.faults if k[:2] in ("F5", "F6")]:
            del self.round.faults[kind]
        for line in lines:
            self.round.faults[f"F5 {json.loads(line)['kind']}"] += 1
        self.round.faults.update(bad_runs(self._store))
        return self.round.faults.total()

    def _fault(self) -> None:
        drawn = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        kind = self._unseen[-1] if self._unseen else drawn
        act: dict[str, Callable[[], str | None]] = {
            "F1": self._kill_worker,
            "F2": self._kill_service,
            "F3": self._stop_worker,
            "F4": self._stop_service,
            "F7": self._take_room,
            "F8": self._jump,
        }
        done = act[kind[:2]]()
        if done is not None:
            self.round.faults[f"{kind}{done}"] += 1
            self._unseen = [one for one in self._unseen if one != kind]

    def _kill_worker(self) -> str | None:
        wanted, until_s = self._rng.choice(PHASES), time.monotonic() + 0.3
        alive = [pid for pid in self._by_pid if pid not in self._stopped | self._killed]
        if not alive:
            return None
        while True:
            found = [p for p in alive if self._board.phase(self._by_pid[p][0]) == wanted]
            if found or time.monotonic() > until_s:
                break
        pid = self._rng.choice(found or alive)
        phase = self._board.phase(self._by_pid[pid][0])
        self._killed.add(pid)
        self._touched.add(self._by_pid[pid][1])
        processes.told_to(pid, signal.SIGKILL)
        return f", {phase}"

    def _kill_service(self) -> str | None:
        if self._service_busy:
            return None
        self._killed.add(self._service)
        processes.told_to(self._service, signal.SIGKILL)
        os.waitpid(self._service, 0)
        self._service_busy = True
        self._after(self._rng.choice([0.0, 0.5, 2.0]), self._serve)
        self._after(5.0, self._unbusy)
        return ""

    def _stop_worker(self) -> str | None:
        alive = [pid for pid in self._by_pid if pid not in self._stopped | self._killed]
        if len(alive) <= self._n // 2:
            return None
        at_work = [pid for pid in alive if self._board.phase(self._by_pid[pid][0]) == "running"]
        pid = self._rng.choice(at_work or alive)
        self._stopped.add(pid)
        self._touched.add(self._by_pid[pid][1])
        processes.told_to(pid, signal.SIGSTOP)

        def go_on() -> None:
            if pid in self._by_pid:
                processes.told_to(pid, signal.SIGCONT)
                self._stopped.discard(pid)

        self._after(2.5 * LEASE_S, go_on)
        return ""

    def _stop_service(self) -> str | None:
        if self._service_busy:
            return None
        pid, self._service_busy = self._service, True
        processes.told_to(pid, signal.SIGSTOP)

        def go_on() -> None:
            processes.told_to(pid, signal.SIGCONT)

        self._after(2 * LEASE_S, go_on)
        self._after(2 * LEASE_S + 2, self._unbusy)
        return ""

    def _take_room(self) -> str | None:
        """Refuse the service what it writes, from the n-th call on."""
        if self._service_busy:
            return None
        self._service_busy, pid = True, self._service
        self._after(2.0, self._unbusy)
        if self._small and self._rng.random() < 0.5:
            balloon = processes.fill(self._disk)
            self._after(self._rng.uniform(0.2, 1.5), balloon.unlink)
            return ", disk full"
        log = self._store.with_name("store.db-wal")
        size = log.stat().st_size if log.exists() else 0
        processes.refuse_growth(pid, self._rng.randrange(size + 8192))
        self._after(self._rng.uniform(0.2, 1.5), lambda: processes.allow_growth(pid))
        return ", write refused"

    def _jump(self) -> str:
        self._board.jump_s = self._rng.choice([-3600.0, 0.0, 3600.0])
        return ""

    def _unbusy(self) -> None:
        self._service_busy = False

    # -- the end -------------------------------------------------------------------------------

    def abandon(self) -> None:
        """End whatever is still there, by number, if a round broke off."""
        for pid in (*self._by_pid, self._service, self._proxy, *self._humans):
            if pid:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG)[0] == 0:
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)

    def _peace(self) -> None:
        self._board.faulty = False
        while self._later:
            self._turn()
        self._wait_ready(self._port)

    def _wait_ready(self, port: int) -> None:
        until_s = time.monotonic() + READY_S
        while time.monotonic() < until_s:
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                if answer.status_code == 200:
                    return
            time.sleep(0.05)
        raise TimeoutError("the service does not start; its words are in service.out")

    def _drain(self) -> None:
        """Wait until the humans have ended and every run is over."""
        began_s = time.monotonic()
        self._board.ended = True
        while self._humans and time.monotonic() < began_s + DRAINED_S:
            self._turn()
        while n_open(self._store) and time.monotonic() < began_s + DRAINED_S:
            self._turn()
        left = n_open(self._store)
        self.round.notes["seconds to drain"] = round(time.monotonic() - began_s, 1)
        if left:
            self.round.wrong.append(f"I9 {left} runs are not over after {DRAINED_S:g} s of peace")

    def _forecast_again(self, names: dict[str, str]) -> None:
        """Ask for a forecast, kill the service, ask again: nothing of it may be lost."""
        self._board.jump_s = 0.0
        before = self._forecast(names["function"])
        self._killed.add(self._service)
        os.kill(self._service, signal.SIGKILL)
        os.waitpid(self._service, 0)
        began_s = time.monotonic()
        self._serve()
        self._wait_ready(self._port)
        self.round.notes["seconds to restart"] = round(time.monotonic() - began_s, 2)
        after = self._forecast(names["function"])
        if after != before:
            self.round.wrong.append(
                f"I12 the forecast after a restart is {after}, and was {before}"
            )

    def _forecast(self, name: str) -> Any:
        link = ApiClient(f"http://127.0.0.1:{self._port}", self._tokens["viewer"])
        try:
            told = link.get(f"/v1/experiments/{name}/forecast")
        finally:
            link.close()
        for part in (told, told["paper"]):  # times of day go on
            part.pop("at_s"), part.pop("predicted_end_s", None)
        return told

    def _end(self) -> None:
        """End everybody as an operator would, and see that nobody and nothing is left."""
        self._ending = True
        for pid in list(self._by_pid):
            processes.told_to(pid, signal.SIGTERM)
        until_s = time.monotonic() + READY_S
        while self._by_pid and time.monotonic() < until_s:
            self._turn()
        self._killed.add(self._service)
        os.kill(self._service, signal.SIGTERM)
        _, status = os.waitpid(self._service, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            self.round.wrong.append(
                f"I11 the service ended with {os.waitstatus_to_exitcode(status)}"
            )
        self._killed.add(self._proxy)
        os.kill(self._proxy, signal.SIGKILL)
        os.waitpid(self._proxy, 0)
        for pid, (_, name) in self._by_pid.items():
            self.round.wrong.append(f"I11 {name} did not end when it was told to")
            processes.told_to(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        mark = f"{MARK}={os.environ[MARK]}"
        until_s = time.monotonic() + READY_S
        while (left := list(processes.marked(mark))) and time.monotonic() < until_s:
            time.sleep(0.2)
        self.round.wrong += [f"I11 process {pid} is left: {words}" for pid, words in left]
        for pid, _ in left:
            processes.told_to(pid, signal.SIGKILL)
        expected = {"store.db", "store.db.key", "store.db.tokens"}
        found = {path.name for path in self._disk.iterdir()}
        if found != expected:
            self.round.wrong.append(f"I11 beside the store lie {sorted(found ^ expected)}")
        scratch = list(Path(tempfile.gettempdir()).iterdir())
        if scratch:
            self.round.wrong.append(f"I11 left in the folder for scratch files: {scratch[:5]}")


def play(seed: int, faults: int, seconds: float, workers: int, every_s: float) -> Round:
    """Play one round in a folder of its own, which is kept if anything is wrong."""
    memory = Path("/dev/shm")
    at = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="copperline-soak-", dir=at))
    scratch = folder / "scratch"
    scratch.mkdir()
    before = tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    driver = Driver(folder, seed, workers, every_s)
    try:
        played = driver.play(faults, seconds)
    finally:
        tempfile.tempdir = before
        driver.abandon()
        if sys.exc_info()[0] is not None or driver.round.wrong:
            shutil.copytree(folder / "disk", folder / "kept")
        processes.give_back_disk(folder / "disk")
    if played.wrong:
        played.notes["kept"] = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return played
