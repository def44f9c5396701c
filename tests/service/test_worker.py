"""A worker beside a service that is away, refuses, forgets or was stopped: nothing is made up."""

import itertools
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant.client.api import ApiClient
from assistant.client.worker import (
    GONE_S,
    NOT_YET_S,
    HttpLeaseSource,
    Worker,
    run_leased,
)
from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    LeaseLostError,
    ServiceError,
    StoreFullError,
    UnknownLeaseError,
)
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionResult, RunLease
from assistant.executors.serial import SerialExecutor
from assistant.service.experiment_service import ExperimentService, SuspendAwareClock
from assistant.service.observability import ServiceLog
from assistant.session.execution_loop import REPORT_S, LeaseHeartbeat
from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from strategies import Level
from tests.assistant.examples import Bowl, Climb
from tests.queue.examples import HandClock, queue_of, with_runs

VALUES: Mapping[str, Level] = {"x": 2, "y": 0, "mode": "plain"}


class Told:
    """Claims that answer as a test says: one answer a call, the last one for ever."""

    def __init__(self, n: int = 1, **answers: list[Any]) -> None:
        self.left, self.answers = n, answers
        self.told: list[ExecutionResult] = []
        self.returned: list[str] = []
        self.asked: list[str] = []
        self.reports: list[tuple[str, Mapping[str, Measure]]] = []

    def _next(self, call: str) -> Any:
        self.asked.append(call)
        ready = self.answers.get(call, [None])
        answer = ready.pop(0) if len(ready) > 1 else ready[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait_s = 0.0

    def lease(self) -> RunLease | None:
        self._next("lease")
        if self.left == 0:
            return None
        self.left -= 1
        return RunLease("e", self.left + 1, f"token-{self.left}", 1, VALUES, 0, None, 30.0)

    def heartbeat(self, token: str) -> float:
        self._next("heartbeat")
        return 30.0

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        self._next("report")
        self.reports.append((token, measures))

    def complete(self, token: str, completion: ExecutionResult) -> None:
        self._next("complete")
        self.told.append(completion)

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        self._next("give_back")
        self.returned.append(token)


def worked(
    leases: Told, make: Callable[[RunLease], Any] = lambda _: SerialExecutor(Bowl()), **more: Any
) -> Told:
    """Let a worker work until nothing waits; its waits are counted, not slept."""
    clock, done = HandClock(), threading.Event()

    def idle(seconds: float) -> None:
        clock.wait(seconds)
        if leases.asked[-1] == "lease" and leases.left == 0:
            done.set()

    worker = Worker(leases, make, steady_s=clock.steady_s, **more)  # type: ignore[arg-type]
    worker.work(done.is_set, idle)
    return leases


def test_a_service_that_is_away_does_not_make_a_run_fail() -> None:
    answers: list[Any] = [ServiceError("away"), ServiceError("away"), None]

    def make(_lease: RunLease) -> SerialExecutor:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return SerialExecutor(Bowl())

    leases = worked(Told(3), make)
    assert [one.failure for one in leases.told] == [None]
    assert len(leases.returned) == 2


def test_a_run_that_is_lost_before_it_began_is_left_alone() -> None:
    def make(_lease: RunLease) -> SerialExecutor:
        raise LeaseLostError("run 1 is cancelled; stop it")

    leases = worked(Told(1), make)
    assert leases.told == []
    assert leases.returned == []


@pytest.mark.parametrize("error", [ServiceError("away"), StoreFullError("full")])
def test_a_result_is_told_until_it_is_taken(error: Exception) -> None:
    leases = worked(Told(complete=[error] * 20 + [None]))
    assert [one.measures is not None for one in leases.told] == [True]


def test_a_result_that_the_service_cannot_read_is_a_failed_run_not_a_lost_worker() -> None:
    leases = worked(Told(complete=[AssistantError("measures: too many of them"), None]))
    (told,) = leases.told
    assert told.measures is None
    assert told.failure is not None
    assert "too many of them" in told.failure


def test_a_long_failure_is_told_short() -> None:
    leases = HttpLeaseSource(
        ApiClient("http://service", "t", transport=_answering({"recorded": True}))
    )
    leases.complete("t", ExecutionResult(1, None, "x" * 100_000, 1.0))
    leases.complete("t", ExecutionResult(1, {"series": (1.0, float("nan"))}, None, 1.0))
    first, second = _SENT
    assert len(first["failure"]) <= 4000
    assert second["measures"] == {"series": None}


_SENT: list[Any] = []


def _answering(body: Any) -> httpx.MockTransport:
    import json

    _SENT.clear()

    def answer(request: httpx.Request) -> httpx.Response:
        _SENT.append(json.loads(request.content))
        return httpx.Response(200, json=body)

    return httpx.MockTransport(answer)


def test_a_worker_ends_when_the_service_has_gone_for_good() -> None:
    leases = Told(0, lease=[None, ServiceError("away")])
    clock = HandClock()
    worker = Worker(leases, lambda _: None, steady_s=clock.steady_s)  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match="away"):
        worker.work(lambda: False, clock.wait)
    assert GONE_S <= clock.steady - 500.0 <= GONE_S + 2


def test_a_worker_that_was_never_let_in_says_so_at_once() -> None:
    leases = Told(0, lease=[AccessDeniedError("no valid token")])
    with pytest.raises(AccessDeniedError):
        worked(leases)
    assert leases.asked == ["lease"]


def test_an_idle_worker_asks_again_when_the_service_says() -> None:
    """Directly after a run it asks soon, because the next one often follows at once."""
    run = {
        "experiment": "e", "run": 1, "token": "t", "attempt": 1, "values": dict(VALUES), "seed": 0,
        "limit_s": None, "lease_s": 30.0,
    }  # fmt: skip
    says = iter(["4", "7", "run", "7", "3600", "soon", "-1", ""])
    waits: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/leases":
            return httpx.Response(204)
        said = next(says)
        if said == "run":
            return httpx.Response(200, json=run)
        return httpx.Response(204, headers={"Retry-After": said} if said else {})

    link = ApiClient("http://here", "t", transport=httpx.MockTransport(answer))
    worker = Worker(HttpLeaseSource(link, worker="w"), lambda _: SerialExecutor(Bowl()))
    worker.work(lambda: len(waits) == 7, waits.append)
    assert waits == [4.0, 7.0, 0.5, 60.0, 0.5, 0.5, 0.5]


def test_a_service_that_is_away_is_not_idle() -> None:
    """``work --until-idle`` ends when nothing waits, not when nobody answers."""
    leases, done, paused = Told(1, lease=[ServiceError("away")] * 3 + [None]), [False], []
    worker = Worker(leases, lambda _: SerialExecutor(Bowl()))  # type: ignore[arg-type]
    told = worker.work(lambda: done[0], lambda _: done.__setitem__(0, True), paused.append)
    assert (told, len(paused)) == (1, 3)


def test_a_worker_may_start_before_its_service() -> None:
    leases = Told(1, lease=[ServiceError("away")] * 20 + [None])
    assert len(worked(leases).told) == 1
    clock = HandClock()
    worker = Worker(Told(0, lease=[ServiceError("away")]), None, steady_s=clock.steady_s)  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match="away"):
        worker.work(lambda: False, clock.wait)
    assert clock.steady - 500.0 < NOT_YET_S + 2


def test_an_interrupted_worker_ends_as_interrupted_though_nobody_answers() -> None:
    class Interrupted(SerialExecutor):
        def collect(self) -> tuple[ExecutionResult, ...]:
            raise KeyboardInterrupt

    leases = Told(give_back=[ServiceError("away")])
    with pytest.raises(KeyboardInterrupt):
        worked(leases, lambda _: Interrupted(Bowl()))


def test_a_run_that_was_lost_is_stopped() -> None:
    """Its heartbeat is refused while it executes: the run is ended, and nothing of it is told.

    One signal may come before the thread waits, and not wake it; here the first is never sent.
    """
    started, n_told = threading.Event(), itertools.count()

    class Long(SerialExecutor):
        def collect(self) -> tuple[ExecutionResult, ...]:
            started.set()
            threading.Event().wait(200.0)  # until a signal comes
            return super().collect()

    class Quick(Told):
        def lease(self) -> RunLease | None:
            lease = super().lease()
            return lease and RunLease("e", lease.run_id, lease.token, 1, VALUES, 0, None, 0.06)

        def heartbeat(self, token: str) -> float:
            assert started.wait(120)
            raise LeaseLostError("run 1 is cancelled; stop it")

    leases = Quick()
    main = threading.get_ident()
    workers: list[Worker] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: workers[0].abandon())
    try:
        done = threading.Event()
        worker = Worker(
            leases,  # type: ignore[arg-type]
            lambda _: Long(Bowl()),
            lost=lambda: next(n_told) and signal.pthread_kill(main, signal.SIGUSR1),
        )
        workers.append(worker)
        began_s = time.monotonic()
        assert worker.work(done.is_set, lambda _: done.set()) == 0
        assert time.monotonic() - began_s < 150
        worker.abandon()  # nothing is executed now: nothing happens
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert leases.told == []


LONG: Mapping[str, Level] = {"x": 3, "y": 0, "mode": "plain"}


class LongRuns(Told):
    """Claims of runs that go on until somebody wants their end."""

    def lease(self) -> RunLease | None:
        lease = super().lease()
        return lease and replace(lease, values=LONG)


def test_what_a_run_reports_is_told_and_a_refusal_ends_it() -> None:
    for answer in (LeaseLostError("run 1 is completed; stop it"), UnknownLeaseError("unknown")):
        leases = LongRuns(1, report=[answer], heartbeat=[answer])
        worked(leases, lambda _: SerialExecutor(Climb()))
        assert "report" in leases.asked
        assert leases.told == []
        assert leases.returned == []
        again = LongRuns(2, report=[answer], heartbeat=[answer])
        assert leased(again, SerialExecutor(Climb())) == 0
        assert again.told == []


def test_a_report_that_is_not_taken_does_not_end_the_run() -> None:
    class Later(LongRuns):
        def report(self, token: str, measures: Mapping[str, Measure]) -> None:
            super().report(token, measures)
            raise ServiceError("away")

        def lease(self) -> RunLease | None:
            lease = Told.lease(self)
            return lease and replace(lease, values=VALUES)

    leases = worked(Later(1), lambda _: SerialExecutor(Climb()))
    assert [one.failure for one in leases.told] == [None]


def test_of_many_reports_few_are_told_and_the_latest_of_them() -> None:
    begun, told = threading.Event(), threading.Event()

    class Slow(Told):
        def report(self, token: str, measures: Mapping[str, Measure]) -> None:
            super().report(token, measures)
            begun.set()
            if measures == {"height": 999.0}:
                told.set()

    leases = Slow(0)
    beats, began_s = LeaseHeartbeat(leases), time.monotonic()
    beats.report("other", {"height": 1.0})  # nobody holds it: nothing is told
    beats.hold("a", 30.0)
    for n in range(1000):
        beats.report("a", {"height": float(n)})
        assert begun.wait(120)
    assert told.wait(120)
    beats.end()
    assert 2 <= len(leases.reports) <= 1 + (time.monotonic() - began_s) / REPORT_S
    assert leases.reports[-1] == ("a", {"height": 999.0})


def test_an_answer_that_is_no_json_is_an_unreachable_service() -> None:
    """A proxy that says '200 <html>...' is no service; a thread must not die of it."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match="not that of a Copperline service"):
        ApiClient("http://service", "t", transport=transport).get("/v1/experiments")


# -- the service was stopped ------------------------------------------------------------------


def test_time_in_which_a_process_is_stopped_does_not_count() -> None:
    clock = HandClock()
    awake = SuspendAwareClock(0.5, clock.steady_s)
    began_s = awake()
    clock.steady += 0.3
    assert awake() == pytest.approx(began_s + 0.3)
    clock.steady += 3600
    assert awake() == pytest.approx(began_s + 0.8)
    clock.steady += 0.1
    assert awake() == pytest.approx(began_s + 0.9)


def test_a_service_that_was_stopped_takes_no_run_from_a_worker_that_lives(tmp_path: Path) -> None:
    clock = HandClock()
    store = SqliteStore(tmp_path / "store.db")
    with_runs(store, clock, 1)
    service = ExperimentService(
        store, ServiceLog(level="error"), clock=clock, steady_s=clock.steady_s
    )
    lease = service.queue.lease("worker", 2.0)
    assert lease is not None
    clock.wait(0.4)
    service.look_after()
    clock.wait(600)  # SIGSTOP, SIGCONT
    service.look_after()
    assert service.queue.heartbeat(lease.token) == 2.0
    for _ in range(5):  # and one that is silent while the service listens
        clock.wait(0.5)
        service.look_after()
    with pytest.raises(LeaseLostError):
        service.queue.heartbeat(lease.token)


def test_a_service_that_ends_gives_back_what_its_workers_hold(tmp_path: Path) -> None:
    clock = HandClock()
    store = SqliteStore(tmp_path / "store.db")
    session = with_runs(store, clock, 3)
    queue: RunQueue = queue_of(store, clock)
    leases = [queue.lease(name, 30.0) for name in ("ours", "ours", "theirs")]
    assert queue.give_back_of("ours", "the service ended") == 2
    session.catch_up()
    assert [str(run.state) for run in session.experiment.runs] == ["queued", "queued", "running"]
    assert [run.lost for run in session.experiment.runs] == [0, 0, 0]
    assert all(leases)


# -- a session's own process -------------------------------------------------------------------


class Both(SerialExecutor):
    """Takes two runs at once, and gives back what it took in that order."""

    capacity = 2


def leased(leases: Told, executor: SerialExecutor) -> int:
    return run_leased(leases, executor, pause=lambda _: None)


def test_a_session_waits_for_its_service_too() -> None:
    away: list[Any] = [ServiceError("away")] * 3
    leases = Told(2, lease=[*away, None], complete=[*away, None])
    assert leased(leases, SerialExecutor(Bowl())) == 2
    assert [one.failure for one in leases.told] == [None, None]


def test_a_session_does_not_wait_for_ever() -> None:
    clock = HandClock()
    leases = Told(1, complete=[ServiceError("away")])
    with pytest.raises(ServiceError, match="away"):
        run_leased(leases, SerialExecutor(Bowl()), pause=clock.wait, steady_s=clock.steady_s)
    assert NOT_YET_S <= clock.steady - 500.0 < NOT_YET_S + 2


def test_a_run_that_comes_back_to_the_process_that_lost_it_is_told_once() -> None:
    """Its lease ran out while it went on here, and it was claimed again here."""

    class Twice(Told):
        def lease(self) -> RunLease | None:
            lease = super().lease()
            return lease and replace(lease, run_id=2 if self.left == 0 else 1)

    leases = Twice(3)
    assert leased(leases, Both(Bowl())) == 2
    assert [one.run_id for one in leases.told] == [1, 2]
