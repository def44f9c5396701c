"""The queue beside a model of it in dictionaries: any order of calls gives the same answers.

The model knows the words of the protocol and nothing of tables or journals. After every call the
tables must be what it says; at the end the checker reads the file as well.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assistant import Experiment, Session, Sla, load_session
from assistant.core.errors import AssistantError, ExperimentError, LeaseLostError, UnknownLeaseError
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from tests.assistant.examples import Hills
from tests.faults.checker import check, hills
from tests.faults.history import opening
from tests.faults.model import Run, Sweep, Told
from tests.queue.examples import HandClock

NAMES = ("hills", "more")
MAX_ATTEMPTS = 3
OPERATIONS: Counter[str] = Counter()

WHICH = st.integers(0, 9)
REGULATION = ("pause", "finish", "late", "in time", "go on", "go on", "go on", "go on")
DEADLINES = {"late": -10.0, "in time": 1000.0}
LEASE_S = st.sampled_from([5.0, 30.0])
NAME = st.sampled_from(NAMES)
SESSION = st.integers(0, 1)


class Queue(RuleBasedStateMachine):
    """Rules are what workers, people and time may do; each says what must come of it."""

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm"
        at = memory if os.access(memory, os.W_OK) else None
        self.folder = tempfile.TemporaryDirectory(dir=at)
        self.path = Path(self.folder.name) / "store.db"
        self.clock = HandClock()
        self.sweeps = {name: Sweep() for name in NAMES}
        self.tokens: list[Told] = []
        self.leases: dict[str, tuple[float, float]] = {}
        self.n_tokens = 0
        self.n_runs = 0
        self.open()
        for name in NAMES:
            self.store.append(name, 0, [opening(name)])
        self.load()

    def open(self) -> None:
        self.store = SqliteStore(self.path)
        self.queue = RunQueue(self.store, self.clock, self.clock.steady_s, token=self.token)

    def load(self) -> None:
        self.sessions: dict[str, list[Session]] = {
            name: [load_session(self.store, name, clock=self.clock) for _ in range(2)]
            for name in NAMES
        }

    def token(self) -> str:
        self.n_tokens += 1
        return f"token-{self.n_tokens}"

    # -- what the model does -------------------------------------------------------------------

    def wait_again(self, run: Run, state: str = "queued") -> None:
        run.state = state
        self.leases.pop(run.token, None)
        self.sweeps[run.name].n_events += 1

    def lose(self, run: Run) -> None:
        if run.lost + 1 >= MAX_ATTEMPTS:
            self.wait_again(run, "failed")
        else:
            run.lost += 1
            self.wait_again(run)

    def expired(self) -> int:
        over = [t for t, (_, until_s) in self.leases.items() if until_s <= self.clock.steady]
        for told in self.tokens:
            if told.token in over:
                self.lose(told.run)
        return len(over)

    def next(self, only: str | None) -> Run | None:
        ready = [
            run
            for name, sweep in self.sweeps.items()
            if only in (None, name) and sweep.active and not sweep.finished
            and (sweep.deadline_s is None or sweep.deadline_s > self.clock.wall_s)
            for run in sweep.runs
            if run.state == "queued" and not run.held
        ]  # fmt: skip
        return min(ready, key=lambda run: (-run.priority, run.seq), default=None)

    def told(self, which: int) -> Told | None:
        """The tokens given last are asked for most; one in ten was never given."""
        if which == 9 or not self.tokens:
            return None
        return self.tokens[-1 - which % len(self.tokens)]

    def refused(self, kind: type[AssistantError], call: Callable[[], object]) -> None:
        try:
            call()
        except AssistantError as error:
            if type(error) is not kind:
                raise
            return
        raise AssertionError(f"a {kind.__name__} should have been raised")

    # -- workers -------------------------------------------------------------------------------

    def count(self, name: str) -> None:
        OPERATIONS[name] += 1

    @rule(worker=st.sampled_from("abc"), n=st.integers(1, 3), lease_s=LEASE_S)
    def claim_some(self, worker: str, n: int, lease_s: float) -> None:
        for _ in range(n):
            self.lease(worker, lease_s, None)

    @rule(worker=st.sampled_from("abc"), lease_s=LEASE_S, only=NAME | st.none())
    def lease(self, worker: str, lease_s: float, only: str | None) -> None:
        self.count("claim")
        self.expired()
        run = self.next(only)
        lease = self.queue.lease(worker, lease_s, only)
        if run is None:
            assert lease is None
            return
        assert lease is not None
        run.state, run.attempts, run.token = "running", run.attempts + 1, lease.token
        self.tokens.append(Told(run, token=lease.token))
        self.leases[lease.token] = (lease_s, self.clock.steady + lease_s)
        self.sweeps[run.name].n_events += 1
        given = (lease.experiment_id, lease.run_id, lease.attempt, dict(lease.values))
        assert given == (run.name, run.id, run.attempts, run.values)
        assert lease.lease_s == lease_s

    @rule(which=WHICH)
    def heartbeat(self, which: int) -> None:
        self.count("heartbeat")
        told = self.told(which)
        if told is None:
            self.refused(UnknownLeaseError, lambda: self.queue.heartbeat("never"))
        elif not told.goes_on:
            self.refused(LeaseLostError, lambda: self.queue.heartbeat(told.token))
        elif self.leases[told.token][1] <= self.clock.steady:
            self.refused(LeaseLostError, lambda: self.queue.heartbeat(told.token))
            self.lose(told.run)
        else:
            lease_s = self.leases[told.token][0]
            assert self.queue.heartbeat(told.token) == lease_s
            self.leases[told.token] = (lease_s, self.clock.steady + lease_s)

    @rule(which=WHICH)
    def report(self, which: int) -> None:
        self.count("report")
        told = self.told(which)
        if told is None:
            self.refused(UnknownLeaseError, lambda: self.queue.report("never", {"height": 1.0}))
        elif not told.goes_on:
            self.refused(LeaseLostError, lambda: self.queue.report(told.token, {"height": 1.0}))
        else:
            self.queue.report(told.token, {"height": 1.0})
            self.sweeps[told.run.name].n_events += 1

    @rule(which=WHICH, kind=st.sampled_from(["right", "right", "failure", "unknown", "other"]))
    def complete(self, which: int, kind: str) -> None:
        self.count("complete")
        told = self.told(which)
        if told is None:
            call = lambda: self.queue.complete("never", {"height": 1.0}, None, 1.0)  # noqa: E731
            self.refused(UnknownLeaseError, call)
            return
        if kind == "other" and told.goes_on:
            kind = "right"  # the checker knows what it should be
        measures = {
            "right": hills(told.run.values),
            "failure": None,
            "unknown": {"height": None},
            "other": {"height": 1.5},
        }[kind]
        said = (None if measures is None else sorted(measures.items()), kind == "failure")
        failure = "exit code 1" if kind == "failure" else None

        def call() -> bool:
            return self.queue.complete(told.token, measures, failure, 1.0)

        if told.result == said:
            assert call() is False
        elif told.goes_on:
            assert call() is True
            told.result = said
            self.wait_again(told.run, "completed" if kind == "right" else "failed")
        else:
            self.refused(LeaseLostError, call)
            if told.refused != said:
                told.refused = said
                self.sweeps[told.run.name].n_events += 1

    @rule(which=WHICH)
    def give_back(self, which: int) -> None:
        self.count("give back")
        told = self.told(which)
        if told is None:
            self.refused(UnknownLeaseError, lambda: self.queue.give_back("never", ""))
            return
        self.queue.give_back(told.token, "going home")
        if told.goes_on:
            self.wait_again(told.run)

    @rule(lease_s=LEASE_S)
    def give_back_twice_and_lose(self, lease_s: float) -> None:
        """A run that was given back has lost no worker: it waits again after the first loss."""
        for _ in range(2):
            self.lease("a", lease_s, None)
            self.give_back(0)
        self.lease("b", lease_s, None)
        self.wait(31.0, 0.0)
        self.expire()

    # -- time, and what may happen to the process ----------------------------------------------

    @rule(
        seconds=st.sampled_from([1.0, 4.0, 5.0, 31.0]),
        jump_s=st.sampled_from([0.0, 0.0, -3e3, 3e3]),
    )
    def wait(self, seconds: float, jump_s: float) -> None:
        self.count("time passes" if jump_s == 0.0 else "the time of day jumps")
        self.clock.wait(seconds)
        self.clock.wall_s += jump_s

    @rule()
    def expire(self) -> None:
        self.count("expire")
        assert self.queue.expire() == self.expired()

    @rule(boots=st.booleans())
    def start_again(self, boots: bool) -> None:
        self.count("start again")
        self.store.close()
        if boots:
            self.clock.steady = 3.0
        self.open()
        self.load()
        if boots:
            assert self.queue.rearm() == len(self.leases)
            self.leases = {t: (lease_s, 3.0 + lease_s) for t, (lease_s, _) in self.leases.items()}

    # -- people --------------------------------------------------------------------------------

    @initialize(n=st.integers(1, 4))
    def begin(self, n: int) -> None:
        for _ in range(n):
            for name in NAMES:
                self.include(name, 0)
        for name in NAMES:
            self.set_active(name, True)

    @rule(name=NAME, session=SESSION)
    def include(self, name: str, session: int) -> None:
        self.count("submit")
        n = self.n_runs
        values = {p: n // 4**i % 4 for i, p in enumerate("abcde")} | {"mode": "good"}
        sweep, call = self.sweeps[name], lambda: self.sessions[name][session].include(values)
        if sweep.finished:
            self.refused(ExperimentError, call)
            return
        run = call()
        assert run.id == len(sweep.runs) + 1
        sweep.runs.append(Run(name, run.id, n, values))
        sweep.n_events += 1
        self.n_runs += 1

    def decide(
        self, name: str, which: int, states: tuple[str, ...], call: Callable[[int], object]
    ) -> Run | None:
        """Decide about a run; return it if it may be decided, and something changes."""
        runs = self.sweeps[name].runs
        run = runs[which % len(runs)]
        if which == 9 or run.state not in states:
            self.refused(ExperimentError, lambda: call(999 if which == 9 else run.id))
            return None
        call(run.id)
        return run

    @rule(name=NAME, session=SESSION, which=WHICH, priority=st.sampled_from([-1.0, 0.0, 1.0, 5.0]))
    def prioritise(self, name: str, session: int, which: int, priority: float) -> None:
        self.count("prioritise")
        here = self.sessions[name][session]
        run = self.decide(name, which, ("queued",), lambda i: here.reprioritise(i, priority))
        if run is not None:
            run.priority = priority
            self.sweeps[name].n_events += 1

    @rule(name=NAME, session=SESSION, which=WHICH, held=st.sampled_from([True, False, False]))
    def hold_or_release(self, name: str, session: int, which: int, held: bool) -> None:
        self.count("hold" if held else "release")
        here = self.sessions[name][session]
        run = self.decide(name, which, ("queued",), here.hold if held else here.release)
        if run is not None and run.held is not held:
            run.held = held
            self.sweeps[name].n_events += 1

    @rule(name=NAME, session=SESSION, which=WHICH)
    def cancel(self, name: str, session: int, which: int) -> None:
        self.count("cancel")
        states = ("queued", "running", "cancelled")
        run = self.decide(name, which, states, self.sessions[name][session].cancel)
        if run is not None and run.state != "cancelled":
            self.wait_again(run, "cancelled")

    @rule(name=NAME, session=SESSION, what=st.sampled_from(REGULATION))
    def regulate(self, name: str, session: int, what: str) -> None:
        """Pause, finish or bound an experiment; most of the time it goes on soon after."""
        sweep = self.sweeps[name]
        if what == "pause":
            self.set_active(name, False)
        elif what == "finish":
            self.finish_or_reopen(name, session)
        elif what in DEADLINES:
            self.budget(name, session, DEADLINES[what])
        else:
            self.set_active(name, True)
            if sweep.finished:
                self.finish_or_reopen(name, session)
            if sweep.deadline_s is not None:
                self.budget(name, session, None)

    def set_active(self, name: str, active: bool) -> None:
        self.count("pause or go on")
        self.queue.set_active(name, active)
        self.sweeps[name].active = active
        assert self.queue.is_active(name) is active

    def finish_or_reopen(self, name: str, session: int) -> None:
        self.count("finish or reopen")
        sweep, here = self.sweeps[name], self.sessions[name][session]
        if sweep.finished:
            here.reopen()
        else:
            self.refused(ExperimentError, here.reopen)
            here.finish("enough")
        sweep.finished = not sweep.finished
        sweep.n_events += 1

    def budget(self, name: str, session: int, in_s: float | None) -> None:
        self.count("change the budget")
        sweep = self.sweeps[name]
        deadline_s = None if in_s is None else self.clock.wall_s + in_s
        sla, here = Sla(500, deadline_s=deadline_s), self.sessions[name][session]
        if sweep.finished:
            self.refused(ExperimentError, lambda: here.change_budget(sla))
            return
        here.change_budget(sla)
        sweep.deadline_s = deadline_s
        sweep.n_events += 1

    @rule(name=NAME, session=SESSION)
    def suggest(self, name: str, session: int) -> None:
        self.count("suggest")
        with suppress(ExperimentError):  # it is finished
            self.sessions[name][session].suggest(2)
        self.sweeps[name].n_events = self.store.length(name)

    @rule(name=NAME, session=SESSION)
    def run_here(self, name: str, session: int) -> None:
        """Execute one run in the session's own process, whatever workers do."""
        self.count("run here")
        waiting = [r for r in self.sweeps[name].runs if r.state == "queued" and not r.held]
        run = min(waiting, key=lambda r: (-r.priority, r.seq), default=None)
        asked = iter([False])
        self.sessions[name][session].run_queued(
            SerialExecutor(Hills()), stop=lambda: next(asked, True)
        )
        if run is not None:
            run.state, run.token, run.attempts = "completed", "", run.attempts + 1
            self.sweeps[name].n_events += 2

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def the_tables_are_as_the_model(self) -> None:
        do = self.store.connection.execute
        columns = "experiment_id, run_id, state, priority, held, attempts, lost, token"
        there = do(f"SELECT {columns} FROM run ORDER BY experiment_id, run_id").fetchall()
        expected = [
            (r.name, r.id, r.state, r.priority, int(r.held), r.attempts, r.lost, r.token)
            for sweep in self.sweeps.values()
            for r in sweep.runs
        ]
        assert there == expected
        leases = {t: (lease_s, until_s) for t, lease_s, until_s in do("SELECT * FROM lease")}
        assert leases == self.leases
        lengths = dict(do("SELECT id, n_events FROM experiment"))
        assert lengths == {name: sweep.n_events for name, sweep in self.sweeps.items()}

    def teardown(self) -> None:
        try:
            for name, sweep in self.sweeps.items():
                told = Experiment.replay(self.store.load(name))
                assert [
                    (r.id, r.state, r.priority, r.held, r.attempts, r.lost, r.token)
                    for r in told.runs
                ] == [
                    (r.id, r.state, r.priority, r.held, r.attempts, r.lost, r.token)
                    for r in sweep.runs
                ]
            self.store.close()
            assert check(self.path) == []
        finally:
            self.folder.cleanup()
