"""What is said between pilots and the gate: signatures, replays, junk and floods."""

import json
import os
import socket
import threading

import pytest

from assistant.core.errors import AssistantError, SettingsError
from assistant.core.ports import ExecutionRequest
from assistant.executors.slurm import dispatcher, protocol
from assistant.executors.slurm.dispatcher import PilotDispatcher, PilotServer
from assistant.executors.slurm.protocol import DispatcherUnreachableError, FrameError
from tests.assistant.slurm.house import VALUES, WITHIN_S, House, until


def said(service: House, *parts: bytes) -> bytes:
    """Return what the gate answers to bytes; empty if it just closes."""
    with socket.create_connection(("127.0.0.1", service.gate.port), timeout=WITHIN_S) as raw:
        try:
            for part in parts:
                raw.sendall(part)
            raw.shutdown(socket.SHUT_WR)
            return raw.recv(1 << 16)
        except OSError:  # it was closed on the way
            return b""


def test_what_was_said_before_is_not_heard_again(service: House) -> None:
    ticket = service.ticket()
    hello = protocol.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {})
    first = said(service, hello)
    session = json.loads(first.partition(b"\n")[2])["session"]
    assert said(service, hello) == b""
    service.desk.take(ExecutionRequest(1, VALUES, 0))
    asked = protocol.encode(ticket.secret, "ask", (ticket.pilot, session, 5, "next"), {})
    assert b'"run"' in said(service, asked)
    assert said(service, asked) == b""
    older = protocol.encode(ticket.secret, "ask", (ticket.pilot, session, 4, "next"), {})
    assert said(service, older) == b""
    newer = protocol.encode(ticket.secret, "ask", (ticket.pilot, session, 6, "next"), {})
    assert b'"run"' in said(service, newer)


def test_a_fenced_session_said_again_does_not_disturb_the_pilot_that_is_there(
    service: House,
) -> None:
    ticket = service.ticket()
    hello = protocol.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {})
    session = json.loads(said(service, hello).partition(b"\n")[2])["session"]
    old = protocol.encode(ticket.secret, "ask", (ticket.pilot, session, 1, "next"), {})
    line = service.line(ticket)
    connection = line._socket
    assert b"newer session" in said(service, old)
    assert line.ask("next") == {"do": "wait"}
    assert line._socket is connection


def test_nothing_of_a_frame_can_be_changed(service: House) -> None:
    ticket = service.ticket()
    frame = protocol.encode(ticket.secret, "ask", (ticket.pilot, "aa", 1, "hello"), {"a": "b"})
    line, _, body = frame.partition(b"\n")
    header = json.loads(line)
    for name, value in (
        ("pilot", service.ticket().pilot), ("session", "ab"), ("counter", 2), ("kind", "bye"),
        ("length", len(body) - 1), ("digest", "0" * 64), ("signature", "0" * 64),
    ):  # fmt: skip
        changed = json.dumps({**header, name: value}).encode()
        assert said(service, changed, b"\n", body) == b"", name
    assert said(service, line, b"\n", body.replace(b"b", b"c")) == b""
    answer = protocol.encode(ticket.secret, "answer", (ticket.pilot, "aa", 1, "hello"), {"a": "b"})
    assert said(service, answer) == b""
    fresh = service.ticket()  # the body that was changed has used the hello up
    frame = protocol.encode(fresh.secret, "ask", (fresh.pilot, "aa", 1, "hello"), {"a": "b"})
    assert b'"go"' in said(service, frame)


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
def test_junk_is_not_answered_and_hurts_nobody(service: House, junk: bytes) -> None:
    line = service.line()
    assert said(service, junk) == b""
    assert line.ask("next") == {"do": "wait"}


def test_a_flood_of_strangers_is_bounded_and_pilots_do_not_notice(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MOST_STRANGERS", 8)
    line = service.line()
    address = ("127.0.0.1", service.gate.port)
    crowd = [socket.create_connection(address, timeout=WITHIN_S) for _ in range(40)]
    try:
        closed = [one for one in crowd if _is_closed(one)]
        assert len(closed) == 32
        assert service.gate._strangers == 8
        assert line.ask("next") == {"do": "wait"}
    finally:
        for one in crowd:
            one.close()
    until(lambda: service.gate._strangers == 0)
    service.line()


def _is_closed(one: socket.socket) -> bool:
    one.settimeout(0.05)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False


def test_a_stranger_who_says_nothing_is_sent_away(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "STRANGER_S", 0.05)
    with socket.create_connection(("127.0.0.1", service.gate.port), timeout=WITHIN_S) as raw:
        raw.sendall(b'{"pilot": ')
        assert raw.recv(1) == b""


def test_what_is_too_long_or_has_no_word_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    about = ("ab", "cd", 1, "next")
    monkeypatch.setattr(protocol, "MOST_BODY", 100)
    with pytest.raises(FrameError, match="too many to send; the limit is 100"):
        protocol.encode(b"s", "ask", about, {"a": "x" * 100})
    with pytest.raises(FrameError, match="cannot be sent"):
        protocol.encode(b"s", "ask", about, {"a": float("nan")})
    protocol.encode(b"s", "ask", ("ab", "cd", 1, "result"), {"a": "x" * 100})


def test_an_answer_that_is_not_the_gates_is_not_believed(service: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as liar:
        ticket = service.ticket(port=liar.getsockname()[1])

        def lie() -> None:
            other, _ = liar.accept()
            with other:
                other.recv(1 << 16)
                about = (ticket.pilot, "aa", 1, "hello")
                other.sendall(protocol.encode(os.urandom(32), "answer", about, {"do": "go"}))

        lying = threading.Thread(target=lie)
        lying.start()
        with pytest.raises(DispatcherUnreachableError, match="does not match the request"):
            service.silent(ticket).ask("hello", {}, 0.0)
        lying.join(WITHIN_S)


def test_the_gate_listens_at_an_address_of_this_machine_only() -> None:
    with pytest.raises(SettingsError, match=r"cannot listen at '192\.0\.2\.1'"):
        PilotServer(PilotDispatcher(lambda _: None, lambda *_: None), "192.0.2.1")
    assert issubclass(FrameError, AssistantError)
