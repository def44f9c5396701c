"""The queue: order, leases, tokens; each answer of the protocol by hand."""

import sqlite3
from pathlib import Path

import pytest

from assistant import Experiment, RunState, Sla, load_session
from assistant.core.errors import AssistantError, ExperimentError, LeaseLostError, UnknownLeaseError
from assistant.core.events import ResultRefused, RunCompleted, RunReturned, RunStarted
from assistant.core.ports import RunLease
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from tests.assistant.examples import Hills
from tests.queue.examples import HandClock, queue_of, store_at, with_runs

LEASE_S = 30.0


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return store_at(tmp_path)


@pytest.fixture
def queue(store: SqliteStore, clock: HandClock) -> RunQueue:
    return queue_of(store, clock)


def taken(queue: RunQueue, worker: str = "w", only: str | None = None) -> RunLease:
    lease = queue.lease(worker, LEASE_S, only)
    assert lease is not None
    return lease


def done(queue: RunQueue, lease: RunLease) -> bool:
    return queue.complete(lease.token, Hills().evaluate(lease.values, lease.seed), None, 1.5)


def state(store: SqliteStore, name: str = "hills") -> Experiment:
    return Experiment.replay(store.load(name))


def test_runs_are_given_in_their_order_with_all_that_a_worker_needs(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 3)
    leases = [taken(queue) for _ in range(3)]
    assert [lease.run_id for lease in leases] == [1, 2, 3]
    assert queue.lease("w", LEASE_S) is None
    runs = session.experiment.runs
    for lease, run in zip(leases, runs, strict=True):
        assert lease.values == session.experiment.space.values(run.configuration)
        assert (lease.seed, lease.attempt, lease.limit_s) == (run.seed, 1, None)
    assert len({lease.token for lease in leases}) == 3


def test_a_result_is_recorded_once_and_seen_by_the_session(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock)
    lease = taken(queue)
    assert done(queue, lease)
    assert not done(queue, lease)  # told again: nothing new
    session.rate(1, True)  # catches up before it decides
    run = session.experiment.run(1)
    assert run.state is RunState.COMPLETED
    assert (run.worker, run.token, run.duration_s) == ("w", lease.token, 1.5)
    assert sum(isinstance(event, RunCompleted) for event in store.load("hills")) == 1


def test_another_result_under_the_same_token_is_refused_and_the_first_kept(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock)
    lease = taken(queue)
    done(queue, lease)
    for _ in range(2):
        with pytest.raises(LeaseLostError, match="another result was recorded"):
            queue.complete(lease.token, {"height": 1.0}, None, 1.0)
    refused = [event for event in store.load("hills") if isinstance(event, ResultRefused)]
    assert [event.measures for event in refused] == [{"height": 1.0}]  # kept once
    assert state(store).run(1).outcome is not None


def test_a_token_that_was_never_given_is_unknown(queue: RunQueue) -> None:
    for ask in (
        lambda: queue.heartbeat("x"),
        lambda: queue.complete("x", {}, None, 1.0),
        lambda: queue.give_back("x", ""),
        lambda: queue.report("x", {}),
    ):
        with pytest.raises(UnknownLeaseError, match="ever leased"):
            ask()


def test_a_lease_that_runs_out_gives_the_run_to_another_and_fences_the_first(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 1)
    first = taken(queue, "a")
    clock.wait(LEASE_S - 1)
    assert queue.heartbeat(first.token) == LEASE_S
    clock.wait(LEASE_S - 1)
    assert queue.lease("b", LEASE_S) is None  # renewed
    clock.wait(1)
    second = taken(queue, "b")
    assert (second.run_id, second.attempt) == (1, 2)
    with pytest.raises(LeaseLostError, match="given to another worker"):
        queue.heartbeat(first.token)
    with pytest.raises(LeaseLostError, match="given to another worker"):
        done(queue, first)
    with pytest.raises(LeaseLostError):
        queue.report(first.token, {"height": 3.0})
    assert done(queue, second)
    run = state(store).run(1)
    assert (run.worker, run.attempts) == ("b", 2)
    with pytest.raises(LeaseLostError, match="is completed"):
        done(queue, first)


def test_a_heartbeat_after_the_end_of_a_lease_is_refused(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    clock.wait(LEASE_S)
    with pytest.raises(LeaseLostError, match="has expired"):
        queue.heartbeat(lease.token)
    assert state(store).run(1).state is RunState.QUEUED


def test_a_run_that_loses_three_workers_has_failed(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 1)
    for _ in range(3):
        taken(queue)
        clock.wait(LEASE_S)
    assert queue.expire() == 1
    assert queue.lease("w", LEASE_S) is None
    run = state(store).run(1)
    assert run.state is RunState.FAILED
    assert run.failure is not None
    assert run.failure.startswith("3 workers were lost")
    assert run.duration_s is None


def test_what_was_given_back_was_not_lost(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 1)
    for _ in range(3):
        queue.give_back(taken(queue).token, "the node is drained")
    for n_lost in (1, 2):
        taken(queue)
        clock.wait(LEASE_S)
        assert queue.expire() == 1
        assert state(store).run(1).state is RunState.QUEUED
        assert (state(store).run(1).lost, state(store).run(1).attempts) == (n_lost, 3 + n_lost)
    taken(queue)
    clock.wait(LEASE_S)
    assert queue.expire() == 1
    failure = state(store).run(1).failure
    assert failure is not None
    assert failure.startswith("3 workers were lost")


def test_the_time_of_day_may_jump(store: SqliteStore, clock: HandClock, queue: RunQueue) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    for jump in (-3600.0, 7200.0):
        clock.wall_s += jump
        assert queue.lease("b", LEASE_S) is None
        assert queue.heartbeat(lease.token) == LEASE_S
    assert done(queue, lease)


def test_after_an_outage_every_lease_begins_anew(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 2)
    lease = taken(queue)
    again = queue_of(store, HandClock(clock.wall_s + 600.0, 3.0))  # another boot: time began anew
    assert again.rearm() == 1
    assert again.heartbeat(lease.token) == LEASE_S


def test_a_change_of_priority_holds_from_the_next_claim_on(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 5)
    assert taken(queue).run_id == 1
    session.reprioritise(4, 2.5)
    session.run_first(5)
    session.hold(2)
    assert [taken(queue).run_id for _ in range(3)] == [5, 4, 3]
    assert queue.lease("w", LEASE_S) is None
    session.release(2)
    assert taken(queue).run_id == 2
    with pytest.raises(ExperimentError, match="run 1 is running; only a waiting run can be given"):
        session.reprioritise(1, 1.0)
    with pytest.raises(ExperimentError, match="a priority must be a number from"):
        session.reprioritise(2, float("nan"))


def test_a_cancelled_run_is_over_and_its_result_is_refused(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 2)
    lease = taken(queue)
    before = session.experiment.n_charged
    session.cancel(1, "not wanted")
    session.cancel(1)
    session.cancel(2)
    assert session.experiment.n_charged == before - 1  # the second never started
    with pytest.raises(LeaseLostError, match="is cancelled"):
        queue.heartbeat(lease.token)
    with pytest.raises(LeaseLostError, match="is cancelled"):
        done(queue, lease)
    assert queue.lease("w", LEASE_S) is None
    assert [run.state for run in state(store).runs] == [RunState.CANCELLED] * 2
    values = session.experiment.space.values(session.experiment.run(2).configuration)
    again = session.include(values)
    assert again.id == 3


def test_experiments_share_workers_by_priority_then_age(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 2, "old")
    young = with_runs(store, clock, 2, "young")
    young.reprioritise(2, 1.0)
    order = [(taken(queue).experiment_id) for _ in range(4)]
    assert order == ["young", "old", "old", "young"]


def test_paused_finished_and_late_experiments_give_nothing(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 3)
    queue.set_active("hills", False)
    assert queue.lease("w", LEASE_S) is None
    assert queue.lease("w", LEASE_S, "hills") is None
    queue.set_active("hills", True)
    assert taken(queue, only="hills").run_id == 1
    session.change_budget(Sla(100, deadline_s=clock.now_s() - 1))
    assert queue.lease("w", LEASE_S) is None
    session.change_budget(Sla(100))
    session.finish("enough")
    assert queue.lease("w", LEASE_S) is None
    session.reopen()
    assert taken(queue).run_id == 2
    with pytest.raises(AssistantError, match="no experiment 'nothing'"):
        queue.set_active("nothing", True)


def test_what_a_run_measures_on_the_way_is_kept(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    queue.report(lease.token, {"height": 9.0})
    queue.report(lease.token, {"height": 8.0})
    assert state(store).run(1).reported == {"height": 8.0}
    queue.give_back(lease.token, "going home")
    queue.give_back(lease.token, "going home")
    assert state(store).run(1).state is RunState.QUEUED
    assert sum(isinstance(event, RunReturned) for event in store.load("hills")) == 1


@pytest.mark.parametrize("lease_s", [0.0, -1.0, 1e12, float("nan"), float("inf")])
def test_a_lease_is_of_a_sensible_length(queue: RunQueue, lease_s: float) -> None:
    with pytest.raises(AssistantError, match="a lease lasts"):
        queue.lease("w", lease_s)


@pytest.mark.parametrize("duration_s", [-1.0, float("inf"), float("nan")])
def test_a_duration_that_cannot_be_is_a_failure(
    store: SqliteStore, clock: HandClock, queue: RunQueue, duration_s: float
) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    assert queue.complete(lease.token, {"height": 1.0}, None, duration_s)
    assert state(store).run(1).state is RunState.FAILED


@pytest.mark.parametrize(
    "measures", [{}, {"other": 1.0}, {"height": None}, {"height": float("nan")}]
)
def test_a_result_without_what_is_wanted_is_a_failed_run(
    store: SqliteStore, clock: HandClock, queue: RunQueue, measures: dict[str, float | None]
) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    assert queue.complete(lease.token, measures, None, 1.0)
    run = state(store).run(1)
    assert run.state is RunState.FAILED
    assert run.failure is not None
    assert "height" in run.failure


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), (1.0, float("nan"))])
def test_a_number_that_json_has_no_word_for_is_unknown(
    store: SqliteStore, clock: HandClock, queue: RunQueue, odd: float | tuple[float, ...]
) -> None:
    with_runs(store, clock, 1)
    lease = taken(queue)
    queue.report(lease.token, {"height": 9.0, "other": odd})
    assert state(store).run(1).reported == {"height": 9.0, "other": None}
    told = {"height": 1.0, "other": odd}
    assert queue.complete(lease.token, told, None, 1.0)
    assert not queue.complete(lease.token, told, None, 1.0)
    outcome = state(store).run(1).outcome
    assert outcome is not None
    assert outcome.measures == {"height": 1.0, "other": None}
    with pytest.raises(LeaseLostError, match="another result"):
        queue.complete(lease.token, {"height": odd}, None, 1.0)
    refused = store.load("hills")[-1]
    assert isinstance(refused, ResultRefused)
    assert refused.measures == {"height": None}


def test_a_session_decides_while_workers_go_on(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 2)
    lease = taken(queue)
    batch = session.suggest(2)
    done(queue, lease)  # between the decision and the next
    session.submit(batch)
    assert session.experiment.run(1).state is RunState.COMPLETED
    assert len(session.experiment.runs) == 4
    assert load_session(store, "hills").experiment.runs == session.experiment.runs


def test_runs_of_workers_are_not_recovered_by_a_session(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 2)
    lease = taken(queue)
    store.append("hills", store.length("hills"), [RunStarted(clock.now_s(), 2)])  # our own, killed
    assert session.recover() == 1
    assert session.experiment.run(1).state is RunState.RUNNING
    session.run_queued(SerialExecutor(Hills()))
    assert session.experiment.run(2).state is RunState.COMPLETED
    assert done(queue, lease)


def test_who_takes_over_a_store_lets_lost_runs_wait_again(
    store: SqliteStore, clock: HandClock, queue: RunQueue
) -> None:
    session = with_runs(store, clock, 3)
    lease = taken(queue)
    store.append("hills", store.length("hills"), [RunStarted(clock.now_s(), 2)])  # our own, killed
    assert queue.recover() == 1
    assert queue.recover() == 0
    session.catch_up()
    states = [run.state for run in session.experiment.runs]
    assert states == [RunState.RUNNING, RunState.QUEUED, RunState.QUEUED]
    assert done(queue, lease)


def test_an_older_store_is_brought_up_with_a_backup(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    session = with_runs(store, clock, 3)
    lease = taken(queue_of(store, clock))
    done(queue_of(store, clock), lease)
    session.catch_up()
    before = store.load("hills")
    store.close()
    old = sqlite3.connect(path)
    for table in ("output", "reply", "lease", "attempt", "run", "experiment"):
        old.execute(f"DROP TABLE {table}")
    old.execute("ALTER TABLE event DROP COLUMN digest")
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    again = SqliteStore(path)
    assert again.load("hills") == before
    assert [path.name for path in tmp_path.glob("*.backup")] == ["store.db.schema1.backup"]
    kept = sqlite3.connect(tmp_path / "store.db.schema1.backup")
    assert kept.execute("PRAGMA user_version").fetchone() == (1,)
    assert kept.execute("SELECT count(*) FROM event").fetchone() == (len(before),)
    queue = RunQueue(again, clock, clock.steady_s)
    queue.set_active("hills", True)
    assert [taken(queue).run_id for _ in range(2)] == [2, 3]
