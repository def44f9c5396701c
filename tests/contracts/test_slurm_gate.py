"""Tickets, sessions, signatures and runs of Slurm's pilots: real gates and lines, no Slurm."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from assistant import Measure
from assistant.errors import AssistantError, ExecutorError, SettingsError, StoppedError
from assistant.executors.slurm import commands, desk, folder, frames, gate, keeping
from assistant.executors.slurm.desk import Desk
from assistant.executors.slurm.frames import FrameError, Header
from assistant.executors.slurm.gate import Gate
from assistant.executors.slurm.line import Line, NoAnswerError
from assistant.executors.slurm.ticket import (
    Ticket,
    load_application,
    new_id,
    pickled,
    read_ticket,
    write_private,
)
from assistant.ports import Application, Completion, Oversight, Work
from strategies import Level
from tests.assistant.examples import Bowl

WITHIN_S = 30.0
VALUES = {"x": 1, "y": 0, "mode": "plain"}


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class House:
    """A desk with its gate, and what was told."""

    over: list[Completion]
    reports: list[tuple[int, Mapping[str, Measure]]]
    clock: Hand
    desk: Desk
    gate: Gate
    lines: list[Line] = field(default_factory=list)

    def ticket(self, **changes: Any) -> Ticket:
        """Return a ticket that counts."""
        ticket = Ticket(new_id(), os.urandom(32), "127.0.0.1", self.gate.port, "", "", gone_s=1.0)
        self.desk.add(ticket.pilot, ticket.secret)
        return replace(ticket, **changes)

    def silent(self, ticket: Ticket) -> Line:
        """Return a line on which nothing was said yet."""
        self.lines.append(Line(ticket))
        return self.lines[-1]

    def line(self, ticket: Ticket | None = None) -> Line:
        """Return a line on which hello was said."""
        line = self.silent(ticket or self.ticket())
        assert line.hello({})["do"] == "go"
        return line


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(gate, "WAIT_S", 0.05)
    over: list[Completion] = []
    reports: list[tuple[int, Mapping[str, Measure]]] = []
    clock = Hand()
    kept = Desk(over.append, lambda run, told: reports.append((run, told)), now_s=clock)
    opened = Gate(kept, "127.0.0.1")
    made = House(over, reports, clock, kept, opened)
    try:
        yield made
    finally:
        for line in made.lines:
            line.close()
        opened.close()


def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end_s = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


def result(attempt: int, run_id: int = 1, **changes: Any) -> dict[str, Any]:
    done = replace(Completion(run_id, {"height": 2.0, "s": (1.0, 2.0)}, None, 0.5), **changes)
    return {"attempt": attempt, "completion": frames.completion_as_json(done)}


# -- runs -----------------------------------------------------------------------------------------


def test_the_oldest_run_goes_to_whoever_asks_and_its_result_is_told_once(house: House) -> None:
    line = house.line()
    assert line.ask("next") == {"do": "wait"}
    for run_id in (7, 3):
        house.desk.take(Work(run_id, VALUES, 2**40, 1.5))
    told = line.ask("next")
    assert frames.work_of(told["work"]) == Work(7, VALUES, 2**40, 1.5)
    assert line.ask("next") == told  # as if the answer had been lost on its way
    assert line.ask("heartbeat", {"attempt": told["attempt"]}) == {"do": "go"}
    assert line.ask("result", result(told["attempt"], 99)) == {"do": "go"}
    assert line.ask("result", result(told["attempt"])) == {"do": "drop"}
    assert house.over == [Completion(7, {"height": 2.0, "s": (1.0, 2.0)}, None, 0.5)]
    assert line.ask("next")["work"]["run_id"] == 3
    assert house.desk.n_runs == 1


def test_who_waits_is_told_of_a_run_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "WAIT_S", WITHIN_S)
    line, found = house.line(), []
    asking = threading.Thread(target=lambda: found.append(line.ask("next")["work"]["run_id"]))
    asking.start()
    house.desk.take(Work(4, VALUES, 0))
    asking.join(WITHIN_S / 2)
    assert found == [4]


def test_a_run_whose_pilot_is_silent_is_made_elsewhere_and_the_late_result_is_thrown_away(
    house: House,
) -> None:
    first, second = house.ticket(), house.ticket()
    lost, line = house.line(first), house.line(second)
    house.desk.take(Work(1, VALUES, 0))
    old = lost.ask("next")["attempt"]
    house.clock.now_s += desk.LEASE_S - 1
    line.ask("next")
    assert house.desk.expire() == []
    house.clock.now_s += 2
    assert house.desk.expire() == [first.pilot]
    new = line.ask("next")["attempt"]
    assert new != old
    assert lost.ask("result", result(old, measures={"height": 666.0}))["do"] == "end"
    line.ask("result", result(new))
    assert [one.measures for one in house.over] == [{"height": 2.0, "s": (1.0, 2.0)}]


def test_a_broken_connection_is_noticed_before_the_lease_ends(house: House) -> None:
    ticket = house.ticket()
    line = house.line(ticket)
    house.desk.take(Work(1, VALUES, 0))
    line.ask("next")
    line.close()
    until(lambda: house.desk._pilots[ticket.pilot].unplugged_s is not None)
    house.clock.now_s += desk.UNPLUGGED_S + 0.1
    assert house.desk.expire() == [ticket.pilot]
    # One that comes back is as if nothing had been.
    line = house.line()
    line.ask("next")
    line.close()
    line.ask("heartbeat")
    house.clock.now_s += desk.UNPLUGGED_S + 0.1
    line.ask("heartbeat")
    assert house.desk.expire() == []


def test_a_time_in_which_this_machine_slept_is_nobodys_fault(house: House) -> None:
    line = house.line()
    house.clock.now_s += 3600.0
    house.desk.pardon(3600.0)
    assert house.desk.expire() == []
    assert line.ask("next")["do"] == "wait"


@pytest.mark.parametrize(("why", "said"), [("died", "processes died"), ("ended", "walltime")])
def test_a_run_that_loses_its_pilot_again_and_again_is_given_up(
    house: House, why: str, said: str
) -> None:
    line = house.line()
    house.desk.take(Work(1, VALUES, 0))
    for _ in range(desk.MOST_DEATHS):
        assert house.over == []
        line.ask("lost", {"attempt": line.ask("next")["attempt"], "why": why})
    (told,) = house.over
    assert told.measures is None
    assert said in (told.failure or "")
    assert line.ask("next") == {"do": "wait"}


def test_runs_are_stopped_where_they_wait_and_where_they_go_on(house: House) -> None:
    line = house.line()
    for run_id in (1, 2, 3):
        house.desk.take(Work(run_id, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    house.desk.stop(2)
    house.desk.stop(1)
    house.desk.stop(99)
    assert [(one.run_id, one.stopped) for one in house.over] == [(2, True)]
    assert line.ask("heartbeat", {"attempt": attempt}) == {"do": "stop"}
    line.ask("lost", {"attempt": attempt, "why": "died"})
    assert [(one.run_id, one.stopped) for one in house.over] == [(2, True), (1, True)]
    assert line.ask("next")["work"]["run_id"] == 3


def test_reports_are_told_of_the_run_that_goes_on_only(house: House) -> None:
    line = house.line()
    house.desk.take(Work(1, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    line.ask("report", {"attempt": attempt, "measures": {"height": 3.0, "s": [1.0], "n": None}})
    line.ask("report", {"attempt": attempt + 1, "measures": {"height": 4.0}})
    assert house.reports == [(1, {"height": 3.0, "s": (1.0,), "n": None})]


# -- tickets and sessions -------------------------------------------------------------------------


def test_a_revoked_ticket_runs_nothing(house: House) -> None:
    ticket = house.ticket()
    line = house.line(ticket)
    house.desk.take(Work(1, VALUES, 0))
    attempt = line.ask("next")["attempt"]
    assert house.desk.forget() == [ticket.pilot]
    for kind in ("heartbeat", "result", "next", "bye"):
        assert line.ask(kind, result(attempt))["do"] == "end"
    assert house.silent(ticket).hello({})["do"] == "end"  # Slurm brought the job back from the dead
    assert house.over == []


def test_a_second_session_of_a_ticket_fences_off_the_first(house: House) -> None:
    ticket = house.ticket()
    first = house.line(ticket)
    house.desk.take(Work(1, VALUES, 0))
    old = first.ask("next")["attempt"]
    second = house.line(ticket)
    new = second.ask("next")["attempt"]
    told = first.ask("result", result(old))
    assert told["do"] == "end"
    assert "newer session" in told["why"]
    assert house.over == []
    second.ask("result", result(new))
    assert len(house.over) == 1


def test_an_unknown_ticket_and_a_wrong_secret_get_no_answer(house: House) -> None:
    known = house.ticket()
    for wrong in (replace(known, secret=os.urandom(32)), replace(known, pilot=new_id())):
        with pytest.raises(NoAnswerError, match="does not answer"):
            house.silent(wrong).ask("hello", {}, 0.1)
    assert house.line(known).ask("next") == {"do": "wait"}


def test_a_pilot_of_another_version_is_refused_in_words() -> None:
    over: list[Completion] = []
    kept = Desk(over.append, lambda *_: None, {"version": "2.0"})
    kept.add("ab", b"s")
    told = kept.answer(Header("ab", "cd", 1, "hello", 0, ""), {"version": "1.0"}, "ef")
    assert told == {"do": "end"}
    assert kept.broken is not None
    assert "version 1.0, and here is 2.0" in kept.broken


def test_hellos_of_one_ticket_come_to_an_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "MOST_HELLOS", 3)
    ticket = house.ticket()
    assert [house.silent(ticket).hello({})["do"] for _ in range(4)] == ["go", "go", "go", "end"]


# -- the wire -------------------------------------------------------------------------------------


def said(house: House, *parts: bytes) -> bytes:
    """Return what the gate answers to bytes; empty if it just closes."""
    with socket.create_connection(("127.0.0.1", house.gate.port), timeout=WITHIN_S) as raw:
        try:
            for part in parts:
                raw.sendall(part)
            raw.shutdown(socket.SHUT_WR)
            return raw.recv(1 << 16)
        except OSError:  # it was closed on the way
            return b""


def test_what_was_said_before_is_not_heard_again(house: House) -> None:
    ticket = house.ticket()
    hello = frames.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {})
    first = said(house, hello)
    session = json.loads(first.partition(b"\n")[2])["session"]
    assert said(house, hello) == b""
    house.desk.take(Work(1, VALUES, 0))
    asked = frames.encode(ticket.secret, "ask", (ticket.pilot, session, 5, "next"), {})
    assert b'"run"' in said(house, asked)
    assert said(house, asked) == b""
    older = frames.encode(ticket.secret, "ask", (ticket.pilot, session, 4, "next"), {})
    assert said(house, older) == b""
    newer = frames.encode(ticket.secret, "ask", (ticket.pilot, session, 6, "next"), {})
    assert b'"run"' in said(house, newer)


def test_a_fenced_session_said_again_does_not_disturb_the_pilot_that_is_there(
    house: House,
) -> None:
    ticket = house.ticket()
    hello = frames.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {})
    session = json.loads(said(house, hello).partition(b"\n")[2])["session"]
    old = frames.encode(ticket.secret, "ask", (ticket.pilot, session, 1, "next"), {})
    line = house.line(ticket)
    connection = line._socket
    assert b"newer session" in said(house, old)
    assert line.ask("next") == {"do": "wait"}
    assert line._socket is connection


def test_nothing_of_a_frame_can_be_changed(house: House) -> None:
    ticket = house.ticket()
    frame = frames.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {"a": "b"})
    line, _, body = frame.partition(b"\n")
    header = json.loads(line)
    for name, value in (
        ("pilot", house.ticket().pilot), ("session", "ab"), ("counter", 2), ("kind", "bye"),
        ("length", len(body) - 1), ("digest", "0" * 64), ("signature", "0" * 64),
    ):  # fmt: skip
        changed = json.dumps({**header, name: value}).encode()
        assert said(house, changed, b"\n", body) == b"", name
    assert said(house, line, b"\n", body.replace(b"b", b"c")) == b""
    answer = frames.encode(ticket.secret, "answer", (ticket.pilot, "aa", 1, "hello"), {"a": "b"})
    assert said(house, answer) == b""
    fresh = house.ticket()  # the body that was changed has used the hello up
    frame = frames.encode(fresh.secret, "ask", (fresh.pilot, "aa", 1, "hello"), {"a": "b"})
    assert b'"go"' in said(house, frame)


HEADER = (
    b'{"pilot":"aa","session":"aa","counter":%s,"kind":"next","length":%s,"digest":"aa",'
    b'"signature":"aa"}\n'
)


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n", b"\n", b"\0" * 5000, b"[" * 900 + b"\n", b"null\n",
        b'{"pilot":1,"session":1,"counter":1,"kind":1,"length":1,"digest":1,"signature":1}\n',
        HEADER % (b"true", b"0"), HEADER % (b"-1", b"0"), HEADER % (b"1", b"9999999"),
        b"\xff\xfe{}\n", b"1" * 900 + b"\n", b"x" * 2_000_000,
    ],
)  # fmt: skip
def test_junk_is_not_answered_and_hurts_nobody(house: House, junk: bytes) -> None:
    line = house.line()
    assert said(house, junk) == b""
    assert line.ask("next") == {"do": "wait"}


def test_a_flood_of_strangers_is_bounded_and_pilots_do_not_notice(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "MOST_STRANGERS", 8)
    line = house.line()
    address = ("127.0.0.1", house.gate.port)
    crowd = [socket.create_connection(address, timeout=WITHIN_S) for _ in range(40)]
    try:
        closed = [one for one in crowd if _is_closed(one)]
        assert len(closed) == 32
        assert house.gate._strangers == 8
        assert line.ask("next") == {"do": "wait"}
    finally:
        for one in crowd:
            one.close()
    until(lambda: house.gate._strangers == 0)
    house.line()


def _is_closed(one: socket.socket) -> bool:
    one.settimeout(0.05)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False


def test_a_stranger_who_says_nothing_is_sent_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "STRANGER_S", 0.05)
    with socket.create_connection(("127.0.0.1", house.gate.port), timeout=WITHIN_S) as raw:
        raw.sendall(b'{"pilot": ')
        assert raw.recv(1) == b""


def test_what_is_too_long_or_has_no_word_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    about = ("ab", "cd", 1, "next")
    monkeypatch.setattr(frames, "MOST_BODY", 100)
    with pytest.raises(FrameError, match="too many to send; at most 100"):
        frames.encode(b"s", "ask", about, {"a": "x" * 100})
    with pytest.raises(FrameError, match="cannot be sent"):
        frames.encode(b"s", "ask", about, {"a": float("nan")})
    frames.encode(b"s", "ask", ("ab", "cd", 1, "result"), {"a": "x" * 100})


def test_an_answer_that_is_not_the_gates_is_not_believed(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as liar:
        ticket = house.ticket(port=liar.getsockname()[1])

        def lie() -> None:
            other, _ = liar.accept()
            with other:
                other.recv(1 << 16)
                about = (ticket.pilot, "aa", 1, "hello")
                other.sendall(frames.encode(os.urandom(32), "answer", about, {"do": "go"}))

        lying = threading.Thread(target=lie)
        lying.start()
        with pytest.raises(NoAnswerError, match="not the gate's"):
            house.silent(ticket).ask("hello", {}, 0.0)
        lying.join(WITHIN_S)


# -- files ----------------------------------------------------------------------------------------


def test_a_ticket_and_an_application_are_read_from_files_of_ones_own_only(tmp_path: Path) -> None:
    path, digest = pickled(Bowl(fail_at_x=2), tmp_path)
    ticket = Ticket("ab", b"\1" * 32, "h", 1, str(path), digest, ("a", "b"), 60.0)
    ticket.write(tmp_path / "ticket")
    assert read_ticket(tmp_path / "ticket") == ticket
    assert load_application(ticket) == Bowl(fail_at_x=2)
    (tmp_path / "link").symlink_to(tmp_path / "ticket")
    (tmp_path / "ticket").chmod(0o640)
    path.chmod(0o660)
    write_private(tmp_path / "junk", b"{}")
    (tmp_path / "other").write_bytes(path.read_bytes() + b" ")
    for read, why in (
        (lambda: read_ticket(tmp_path / "ticket"), r"open to others \(mode 0640\)"),
        (lambda: read_ticket(tmp_path / "link"), "cannot read"),
        (lambda: read_ticket(tmp_path / "junk"), "is no ticket"),
        (lambda: read_ticket(tmp_path / "nothing"), "No such file"),
        (lambda: load_application(ticket), r"open to others \(mode 0660\)"),
        (
            lambda: load_application(replace(ticket, application=str(tmp_path / "other"))),
            "not the application of the ticket",
        ),
    ):
        with pytest.raises(ExecutorError, match=why):
            read()
    unnamed = type("Unnamed", (Bowl,), {"__module__": "__main__"})
    for unsendable in (Unsendable(), unnamed()):
        with pytest.raises(SettingsError, match="cannot be sent to other processes"):
            pickled(unsendable, tmp_path)


@dataclass(frozen=True)
class Unsendable(Bowl):
    def __reduce__(self) -> str:
        raise TypeError("it holds a lock")


def test_a_folder_that_was_left_is_found_and_one_in_use_is_not(tmp_path: Path) -> None:
    base = tmp_path / "deep" / "down"
    ours, left = folder.Folder(base), folder.Folder(base)
    assert ours.path.stat().st_mode & 0o777 == 0o700
    write_private(left.ticket("abc"), b"")
    assert folder.left_over(base) == {}
    left.release(tidy=False)
    assert folder.left_over(base) == {left.path: {"abc"}}
    folder.remove(left.path)
    ours.release(tidy=True)
    assert list(base.iterdir()) == []
    base.chmod(0o777)
    with pytest.raises(SettingsError, match="others may write into"):
        folder.Folder(base)


# -- decisions and words --------------------------------------------------------------------------


def test_jobs_that_slurm_lost_or_holds_are_given_up() -> None:
    waiting = commands.Job("b", "PENDING", "Resources")
    held = commands.Job("c", "PENDING", "launch failed requeued held")
    asked = {
        "a": keeping.Expected(10.0), "b": keeping.Expected(90.0, 1), "c": keeping.Expected(10.0),
        "d": keeping.Expected(10.0, 1), "e": keeping.Expected(1.0, 0),
    }  # fmt: skip
    told = keeping.judge(asked, {"b": [waiting], "c": [held]})
    assert told.missing == {"a": 1, "b": 0, "c": 0, "d": 2, "e": 0}
    assert told.lost == ("d",)
    assert told.held == ("c",)
    assert (told.waits, told.never) == ("Resources", None)
    greedy = commands.Job("e", "PENDING", "PartitionConfig")
    assert keeping.judge(asked, {"e": [greedy]}).never == "PartitionConfig"
    assert commands.Job("c", "PENDING", "launch_failed_requeued_held").is_held
    assert not commands.Job("c", "PENDING", "JobHeldUser").is_held


@pytest.mark.parametrize(
    "option",
    [
        "main",
        "-Jx",
        "--wrap=rm",
        "--job-name",
        "-o/etc/x",
        "--array=1-9",
        "--arra=1",
        "--a\nb",
        "-",
    ],
)
def test_options_that_a_pilot_cannot_have_are_refused(option: str) -> None:
    with pytest.raises(SettingsError, match="option"):
        commands.check_options(["--constraint=fast", option])
    commands.check_options(["--constraint=fast", "-qnormal", "--gres=gpu:1"])


def test_what_slurm_says_is_its_last_word_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for text, kind in (
        ("sbatch: error: Unable to contact slurm controller (connect failure)", "Away"),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv", "Away"),
        ("sbatch: error: invalid partition specified: nix", "Refused"),
    ):
        program = tmp_path / "sbatch"
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
        program.chmod(0o755)
        wanted = commands.AwayError if kind == "Away" else commands.RefusedError
        with pytest.raises(wanted, match=text.rpartition(":")[2].split("(")[0].strip()[:20]):
            commands.submit([])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="no 'squeue' on this machine"):
        commands.check_commands()


# -- a pilot by hand ------------------------------------------------------------------------------


@dataclass
class Job:
    """The job script, started by hand."""

    house: House
    kept: folder.Folder
    ticket: Ticket

    def start(self) -> "subprocess.Popen[str]":
        command = ["/bin/sh", str(self.kept.script), sys.executable]
        command.append(str(self.kept.ticket(self.ticket.pilot)))
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def flies(self) -> str:
        """Start it, and return what it says at its end."""
        return ended(self.start())


def ended(started: "subprocess.Popen[str]") -> str:
    try:
        return (started.communicate(timeout=4 * WITHIN_S)[1] or "").strip()
    finally:
        started.kill()


@pytest.fixture
def job(house: House, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    kept = folder.Folder(tmp_path)

    def made(application: Application, **changes: Any) -> Job:
        path, digest = pickled(application, kept.path)
        told = {"application": str(path), "digest": digest, "path": tuple(sys.path)}
        ticket = house.ticket(**told | changes)
        ticket.write(kept.ticket(ticket.pilot))
        return Job(house, kept, ticket)

    yield made
    kept.release(tidy=True)


@pytest.mark.slow
def test_a_pilot_whose_ticket_was_revoked_runs_nothing(
    house: House, job: Callable[..., Job]
) -> None:
    begun = job(Bowl())
    house.desk.take(Work(1, VALUES, 0))
    first = begun.start()
    until(lambda: len(house.over) == 1)
    house.desk.end()
    assert ended(first) == "pilot: no more runs"
    house.desk.take(Work(2, VALUES, 0))
    assert begun.flies() == "pilot: its ticket does not count any more"
    begun.kept.ticket(begun.ticket.pilot).unlink()
    assert "No such file" in begun.flies()
    assert [one.run_id for one in house.over] == [1]
    assert house.over[0].measures == Bowl().evaluate(VALUES, 0) | {"unknown": None}


@dataclass(frozen=True)
class Patient(Bowl):
    """Its runs write down their process, report, and go on until they are told to end."""

    pids: str = ""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        with Path(self.pids).open("a") as file:
            file.write(f"{os.getpid()}\n")
        threading.Event().wait()
        raise AssertionError


@dataclass(frozen=True)
class Watched(Patient):
    """As above, and it can be told."""

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: Oversight,
    ) -> Mapping[str, Measure]:
        oversight.report({"height": 1.0, "nan": float("nan")})
        oversight.report({"height": 2.0})
        while not oversight.wants_end():
            threading.Event().wait(0.01)
        raise StoppedError("told to end")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Patient, Watched])
def test_a_run_is_ended_whether_it_can_be_told_or_not_and_the_pilot_goes_on(
    house: House, job: Callable[..., Job], tmp_path: Path, kind: type[Patient]
) -> None:
    pids = tmp_path / "pids"
    started = job(kind(pids=str(pids))).start()
    for run_id in (1, 2):
        house.desk.take(Work(run_id, VALUES, 0))
        if kind is Watched:
            until(lambda run_id=run_id: (run_id, {"height": 2.0}) in house.reports)  # type: ignore[misc]
        else:
            until(lambda n=run_id: pids.exists() and len(pids.read_text().split()) == n)  # type: ignore[misc]
        house.desk.stop(run_id)
        until(lambda n=run_id: len(house.over) == n)  # type: ignore[misc]
    assert [(one.run_id, one.stopped, one.measures) for one in house.over] == [
        (1, True, None), (2, True, None),
    ]  # fmt: skip
    if kind is Watched:
        assert (1, {"height": 1.0, "nan": None}) in house.reports
        assert house.over[0].failure == "told to end"
    house.desk.end()
    assert ended(started) == "pilot: no more runs"


@pytest.mark.slow
def test_a_pilot_without_a_gate_kills_its_run_and_ends(
    house: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    started = job(Patient(pids=str(pids))).start()
    house.desk.take(Work(1, VALUES, 0))
    until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    house.gate.close()
    assert "does not answer" in ended(started)
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


@pytest.mark.slow
def test_a_killed_pilot_takes_its_run_with_it_and_slurms_word_ends_one_politely(
    house: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    begun = job(Patient(pids=str(pids)))
    house.desk.take(Work(1, VALUES, 0))
    for n, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        started = begun.start()
        until(lambda n=n: pids.exists() and len(pids.read_text().split()) == n)  # type: ignore[misc]
        started.send_signal(number)
        said_last = ended(started)
        pid = pids.read_text().split()[-1]
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
    assert said_last == "pilot: Slurm ended the job"
    assert house.desk.seen() == {}
    assert (house.over, house.desk.n_runs) == ([], 1)  # it waits for another pilot


@pytest.mark.slow
def test_a_run_longer_than_the_walltime_waits_again_and_is_given_up_at_last(
    house: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    house.desk.take(Work(1, VALUES, 0))
    for left in (2, 1, 0):
        begun = job(Patient(pids=str(tmp_path / "pids")), walltime_s=3.0)
        assert begun.flies() == "pilot: the walltime is over"
        begun.kept.ticket(begun.ticket.pilot).unlink()
        Path(begun.ticket.application).unlink()
        assert house.desk.n_runs == (left > 0)
    (told,) = house.over
    assert "does a run fit into their walltime?" in (told.failure or "")


@pytest.mark.slow
def test_an_application_that_cannot_be_loaded_is_said(
    house: House, job: Callable[..., Job]
) -> None:
    house.desk.take(Work(1, VALUES, 0))
    assert "is not the application of the ticket" in job(Bowl(), digest="00").flies()
    assert "is not the application of the ticket" in (house.desk.broken or "")
    assert house.desk.n_runs == 1


def test_the_gate_listens_at_an_address_of_this_machine_only() -> None:
    with pytest.raises(SettingsError, match=r"cannot listen at '192\.0\.2\.1'"):
        Gate(Desk(lambda _: None, lambda *_: None), "192.0.2.1")
    assert issubclass(FrameError, AssistantError)
