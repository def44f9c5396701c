"""Runs, tickets and leases of the workers in jobs of Slurm: no network, no Slurm."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from assistant import Measure
from assistant.core.errors import AccessDeniedError, LeaseLostError
from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.executors.slurm import dispatcher
from assistant.executors.slurm.dispatcher import PilotDispatcher
from tests.assistant.slurm.house import VALUES, WITHIN_S, Hand, result


class Desk(PilotDispatcher):
    """A dispatcher that keeps what it tells, with tickets ``a``, ``b`` and ``c``."""

    def __init__(self, about: Mapping[str, str] | None = None) -> None:
        self.told: list[ExecutionResult] = []
        self.reports: list[tuple[int, Mapping[str, Measure]]] = []
        self.clock = Hand()
        super().__init__(
            self.told.append, lambda run, measures: self.reports.append((run, measures)), about,
            self.clock,
        )  # fmt: skip
        for pilot in "abc":
            self.add(pilot, f"secret of {pilot}")

    def taken(self, pilot: str, session: str = "first") -> tuple[ExecutionRequest, str]:
        leased = self.lease(pilot, session)
        assert leased is not None
        return leased


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(dispatcher, "WAIT_S", 0.0)
    return Desk()


def run(run_id: int, **more: Any) -> ExecutionRequest:
    return ExecutionRequest(run_id, VALUES, 2**40, **more)


def test_the_oldest_run_goes_to_whoever_asks_and_its_result_is_told_once(desk: Desk) -> None:
    assert desk.lease("a", "first") is None
    desk.take(run(7, limit_s=1.5))
    desk.take(run(3))
    work, token = desk.taken("a")
    assert work == run(7, limit_s=1.5)
    assert desk.taken("a") == (work, token)  # as if the answer had been lost on its way
    assert desk.heartbeat("a", token) == dispatcher.LEASE_S
    desk.complete("a", token, result(run_id=99))
    with pytest.raises(LeaseLostError):
        desk.complete("a", token, result())
    assert desk.told == [result(run_id=7)]
    assert desk.taken("a")[0].run_id == 3
    assert desk.n_runs == 1


def test_who_waits_is_told_of_a_run_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "WAIT_S", WITHIN_S)
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(desk.taken("a")[0].run_id))
    asking.start()
    desk.take(run(4))
    asking.join(WITHIN_S / 2)
    assert found == [4]


def test_a_run_whose_job_is_silent_is_lost_and_the_late_result_is_thrown_away(desk: Desk) -> None:
    desk.take(run(1))
    _, old = desk.taken("a")
    desk.lease("b", "first")
    desk.clock.now_s += dispatcher.SILENT_S - 1
    desk.lease("b", "first")
    assert desk.expire() == []
    desk.clock.now_s += 2
    assert desk.expire() == ["a"]
    assert desk.told.pop().lost
    desk.take(run(1))
    _, new = desk.taken("b")
    with pytest.raises(LeaseLostError):
        desk.complete("a", old, result(measures={"height": 666.0}))
    desk.complete("b", new, result())
    assert [one.measures for one in desk.told] == [{"height": 2.0, "s": (1.0, 2.0)}]


def test_a_time_in_which_this_machine_slept_is_nobodys_fault(desk: Desk) -> None:
    desk.lease("a", "first")
    desk.clock.now_s += 3600.0
    desk.pardon(3600.0)
    assert desk.expire() == []
    assert desk.lease("a", "first") is None


def test_a_run_that_is_given_back_is_lost_for_the_reason_of_its_worker(desk: Desk) -> None:
    desk.take(run(1))
    desk.give_back("a", desk.taken("a")[1], dispatcher.ENDED)
    (told,) = desk.told
    assert (told.run_id, told.lost, told.measures) == (1, True, None)
    assert "walltime" in (told.failure or "")


def test_runs_are_stopped_where_they_wait_and_where_they_go_on(desk: Desk) -> None:
    for run_id in (1, 2, 3):
        desk.take(run(run_id))
    _, token = desk.taken("a")
    desk.stop(2)
    desk.stop(1)
    desk.stop(99)
    assert [(one.run_id, one.stopped) for one in desk.told] == [(2, True), (1, True)]
    with pytest.raises(LeaseLostError, match="stop it"):
        desk.heartbeat("a", token)
    assert desk.taken("a")[0].run_id == 3


def test_reports_are_told_of_the_run_that_goes_on_only(desk: Desk) -> None:
    desk.take(run(1))
    _, token = desk.taken("a")
    desk.report("a", token, {"height": 3.0})
    for pilot, wrong in (("a", "other"), ("b", token)):
        with pytest.raises(LeaseLostError):
            desk.report(pilot, wrong, {"height": 4.0})
    assert desk.reports == [(1, {"height": 3.0})]


def test_a_revoked_ticket_runs_nothing(desk: Desk) -> None:
    desk.take(run(1))
    _, token = desk.taken("a")
    assert desk.forget() == ["a"]
    for act in (
        lambda: desk.check("a", {}),
        lambda: desk.lease("a", "first"),
        lambda: desk.lease("a", "Slurm brought the job back from the dead"),
    ):
        with pytest.raises(AccessDeniedError, match="not valid any more"):
            act()
    with pytest.raises(LeaseLostError):
        desk.complete("a", token, result())
    assert desk.told == []
    desk.end()
    assert desk.pilot_states() == {}


def test_a_second_worker_of_a_ticket_fences_off_the_first(desk: Desk) -> None:
    desk.take(run(1))
    _, old = desk.taken("a")
    assert desk.lease("a", "second") is None
    assert desk.told.pop().lost
    desk.take(run(1))
    _, new = desk.taken("a", "second")
    with pytest.raises(LeaseLostError):
        desk.complete("a", old, result())
    with pytest.raises(AccessDeniedError, match="newer worker"):
        desk.lease("a", "first")
    assert desk.told == []
    desk.complete("a", new, result())
    assert len(desk.told) == 1


def test_a_ticket_that_slurm_starts_again_and_again_is_revoked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MOST_SESSIONS", 3)
    for n in range(3):
        desk.lease("a", f"worker {n}")
    with pytest.raises(AccessDeniedError, match="not valid any more"):
        desk.lease("a", "worker 3")


def test_a_worker_of_another_version_is_refused_and_said() -> None:
    desk = Desk({"protocol": "2", "version": "0.3"})
    desk.check("b", {"protocol": "2", "version": "0.3"})
    with pytest.raises(AccessDeniedError, match="install the same version on both"):
        desk.check("a", {"protocol": "1", "version": "0.3"})
    assert desk.broken == (
        "a job has protocol 1, this machine has 2; install the same version on both"
    )
    assert set(desk.pilot_states()) == {"b", "c"}


def test_a_secret_names_one_job(desk: Desk) -> None:
    assert desk.pilot_of("secret of b") == "b"
    assert desk.pilot_of("secret of d") is None
    assert desk.pilot_of("") is None
