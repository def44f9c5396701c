"""Runs, tickets and sessions of Slurm's pilots: a real gate and real lines, no Slurm."""

import os
import threading
from dataclasses import replace

import pytest

from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.executors.slurm import dispatcher, protocol
from assistant.executors.slurm.dispatcher import PilotDispatcher
from assistant.executors.slurm.protocol import DispatcherUnreachableError, FrameHeader, new_id
from tests.assistant.slurm.house import VALUES, WITHIN_S, House, result, until


def test_the_oldest_run_goes_to_whoever_asks_and_its_result_is_told_once(service: House) -> None:
    line = service.line()
    assert line.ask("next") == {"do": "wait"}
    for run_id in (7, 3):
        service.desk.take(ExecutionRequest(run_id, VALUES, 2**40, 1.5))
    told = line.ask("next")
    assert protocol.work_of(told["work"]) == ExecutionRequest(7, VALUES, 2**40, 1.5)
    assert line.ask("next") == told  # as if the answer had been lost on its way
    assert line.ask("heartbeat", {"attempt": told["attempt"]}) == {"do": "go"}
    assert line.ask("result", result(told["attempt"], 99)) == {"do": "go"}
    assert line.ask("result", result(told["attempt"])) == {"do": "drop"}
    assert service.over == [ExecutionResult(7, {"height": 2.0, "s": (1.0, 2.0)}, None, 0.5)]
    assert line.ask("next")["work"]["run_id"] == 3
    assert service.desk.n_runs == 1


def test_who_waits_is_told_of_a_run_at_once(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "WAIT_S", WITHIN_S)
    line, found = service.line(), []
    asking = threading.Thread(target=lambda: found.append(line.ask("next")["work"]["run_id"]))
    asking.start()
    service.desk.take(ExecutionRequest(4, VALUES, 0))
    asking.join(WITHIN_S / 2)
    assert found == [4]


def test_a_run_whose_pilot_is_silent_is_made_elsewhere_and_the_late_result_is_thrown_away(
    service: House,
) -> None:
    first, second = service.ticket(), service.ticket()
    lost, line = service.line(first), service.line(second)
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    old = lost.ask("next")["attempt"]
    service.clock.now_s += dispatcher.LEASE_S - 1
    line.ask("next")
    assert service.desk.expire() == []
    service.clock.now_s += 2
    assert service.desk.expire() == [first.pilot]
    assert service.over.pop().lost
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    new = line.ask("next")["attempt"]
    assert new != old
    assert lost.ask("result", result(old, measures={"height": 666.0}))["do"] == "end"
    line.ask("result", result(new))
    assert [one.measures for one in service.over] == [{"height": 2.0, "s": (1.0, 2.0)}]


def test_a_broken_connection_is_noticed_before_the_lease_ends(service: House) -> None:
    ticket = service.ticket()
    line = service.line(ticket)
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    line.ask("next")
    line.close()
    until(lambda: service.desk._pilots[ticket.pilot].unplugged_s is not None)
    service.clock.now_s += dispatcher.UNPLUGGED_S + 0.1
    assert service.desk.expire() == [ticket.pilot]
    # One that comes back is as if nothing had been.
    line = service.line()
    line.ask("next")
    line.close()
    line.ask("heartbeat")
    service.clock.now_s += dispatcher.UNPLUGGED_S + 0.1
    line.ask("heartbeat")
    assert service.desk.expire() == []


def test_a_time_in_which_this_machine_slept_is_nobodys_fault(service: House) -> None:
    line = service.line()
    service.clock.now_s += 3600.0
    service.desk.pardon(3600.0)
    assert service.desk.expire() == []
    assert line.ask("next")["do"] == "wait"


@pytest.mark.parametrize(("why", "said"), [("died", "process died"), ("ended", "walltime")])
def test_a_run_that_loses_its_pilot_is_lost_with_the_reason(
    service: House, why: str, said: str
) -> None:
    line = service.line()
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    line.ask("lost", {"attempt": line.ask("next")["attempt"], "why": why})
    (told,) = service.over
    assert told.lost
    assert told.measures is None
    assert said in (told.failure or "")
    assert line.ask("next") == {"do": "wait"}


def test_runs_are_stopped_where_they_wait_and_where_they_go_on(service: House) -> None:
    line = service.line()
    for run_id in (1, 2, 3):
        service.desk.take(ExecutionRequest(run_id, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    service.desk.stop(2)
    service.desk.stop(1)
    service.desk.stop(99)
    assert [(one.run_id, one.stopped) for one in service.over] == [(2, True)]
    assert line.ask("heartbeat", {"attempt": attempt}) == {"do": "stop"}
    line.ask("lost", {"attempt": attempt, "why": "died"})
    assert [(one.run_id, one.stopped) for one in service.over] == [(2, True), (1, True)]
    assert line.ask("next")["work"]["run_id"] == 3


def test_reports_are_told_of_the_run_that_goes_on_only(service: House) -> None:
    line = service.line()
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    line.ask("report", {"attempt": attempt, "measures": {"height": 3.0, "s": [1.0], "n": None}})
    line.ask("report", {"attempt": attempt + 1, "measures": {"height": 4.0}})
    assert service.reports == [(1, {"height": 3.0, "s": (1.0,), "n": None})]


def test_a_revoked_ticket_runs_nothing(service: House) -> None:
    ticket = service.ticket()
    line = service.line(ticket)
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    assert service.desk.forget() == [ticket.pilot]
    for kind in ("heartbeat", "result", "next", "bye"):
        assert line.ask(kind, result(attempt))["do"] == "end"
    assert (
        service.silent(ticket).hello({})["do"] == "end"
    )  # Slurm brought the job back from the dead
    assert service.over == []


def test_a_second_session_of_a_ticket_fences_off_the_first(service: House) -> None:
    ticket = service.ticket()
    first = service.line(ticket)
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    old = first.ask("next")["attempt"]
    second = service.line(ticket)
    assert service.over.pop().lost
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    new = second.ask("next")["attempt"]
    told = first.ask("result", result(old))
    assert told["do"] == "end"
    assert "newer session" in told["why"]
    assert service.over == []
    second.ask("result", result(new))
    assert len(service.over) == 1


def test_an_unknown_ticket_and_a_wrong_secret_get_no_answer(service: House) -> None:
    known = service.ticket()
    for wrong in (replace(known, secret=os.urandom(32)), replace(known, pilot=new_id())):
        with pytest.raises(DispatcherUnreachableError, match="does not answer"):
            service.silent(wrong).ask("hello", {}, 0.1)
    assert service.line(known).ask("next") == {"do": "wait"}


def test_a_pilot_of_another_version_is_refused_in_words() -> None:
    over: list[ExecutionResult] = []
    kept = PilotDispatcher(over.append, lambda *_: None, {"version": "2.0"})
    kept.add("ab", b"s")
    told = kept.answer(FrameHeader("ab", "cd", 1, "hello", 0, ""), {"version": "1.0"}, "ef")
    assert told == {"do": "end"}
    assert kept.broken is not None
    assert "version 1.0, this machine has 2.0" in kept.broken


def test_hellos_of_one_ticket_come_to_an_end(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MOST_HELLOS", 3)
    ticket = service.ticket()
    assert [service.silent(ticket).hello({})["do"] for _ in range(4)] == ["go", "go", "go", "end"]
