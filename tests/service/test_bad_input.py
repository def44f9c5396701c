"""Bad input over real sockets: who may come in (A), and what a request must look like (B).

The numbers are those of the list in the security notes; each has its answer, and after each the
service still answers.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from assistant.core.errors import ServiceError
from assistant.service.api_tokens import Role
from assistant.service.auth import read_tokens
from assistant.service.server import ConnectionLimits, bind
from tests.service.examples import (
    LIMITS,
    PATIENCE_S,
    TOKENS,
    Answer,
    Running,
    Wire,
    ask,
    eventually,
    running,
)

ECHO = "/v1/echo"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running() as found:
        yield found


@contextmanager
def hasty(**limits: float) -> Iterator[Running]:
    """Serve beside it, waiting for a head or a body for a short time only."""
    patience = ConnectionLimits(**limits)  # type: ignore[arg-type]
    with running(limits=replace(LIMITS, body_s=0.5), patience=patience) as found:
        yield found


Connect = Callable[[], Wire]


@pytest.fixture
def connect(service: Running) -> Iterator[Connect]:
    """Open connections that are closed when the test has ended."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(Wire(service.port)))


@pytest.fixture(autouse=True)
def _still_there(service: Running) -> Iterator[None]:
    yield
    assert ask(service, "GET", "/v1/health", role=None).status == 200


def refused(answer: Answer, status: int, *words: str) -> None:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert answer.json["status"] == status
    for word in words:
        assert word in answer.json["detail"], answer.json


def post(service: Running, body: bytes | object, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(service, "POST", ECHO, data, headers=named)


def test_a_good_request_is_answered(service: Running) -> None:
    answer = post(service, {"name": "a", "number": 1.5, "points": [{"x": 1}]})
    assert answer.status == 200
    assert answer.json["body"]["points"] == [{"x": 1}]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "server" not in answer.headers


# A. Who may come in


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("", id="A1 no token"),
        pytest.param("Bearer " + "f" * 72, id="A2 a wrong token of the same length"),
        pytest.param("Bearer ", id="A3 an empty token"),
        pytest.param("Basic dXNlcjpwYXNz", id="A3 another scheme"),
        pytest.param("Bearer caf\xe9\xff" + "0" * 60, id="A7 not ASCII"),
        pytest.param("Bearer a b", id="A7 a space"),
    ],
)
def test_nobody_comes_in_without_a_token(service: Running, authorization: str) -> None:
    headers = {"Authorization": authorization}
    answer = ask(service, "POST", ECHO, b"{}", role=None, headers=headers)
    refused(answer, 401, "token")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "hint" in answer.json


def test_a4_a_token_in_the_query_is_not_looked_at_and_not_logged(service: Running) -> None:
    token = TOKENS.by_role[Role.OWNER]
    for name in ("token", "access_token", "authorization"):
        refused(ask(service, "POST", f"{ECHO}?{name}={token}", b"{}", role=None), 401)
    assert token not in service.lines.getvalue()


def test_a5_a_viewer_decides_nothing(service: Running) -> None:
    answer = ask(service, "POST", ECHO, b"{}", role=Role.VIEWER)
    refused(answer, 403, "steerer", "viewer")
    assert ask(service, "POST", ECHO, b'{"unknown": 1}', role=Role.VIEWER).status == 403


def test_a6_a_worker_sees_no_more_than_its_own(service: Running) -> None:
    refused(ask(service, "GET", "/v1/metrics", role=Role.WORKER), 403, "viewer")
    refused(ask(service, "POST", ECHO, b"{}", role=Role.WORKER), 403, "steerer")
    refused(ask(service, "GET", "/v1/leases/x", role=Role.WORKER), 403, "another worker")
    refused(ask(service, "GET", "/v1/leases/x", role=Role.STEERER), 403, "worker")
    refused(ask(service, "GET", "/v1/experiments/x", role=Role.WORKER), 404, "'x'")


@pytest.mark.parametrize(
    ("value", "status"),
    [
        pytest.param(b"Bearer a\x00b", 400, id="A7 NUL"),
        pytest.param(b"Bearer a\rb", 400, id="A7 carriage return"),
        pytest.param(b'Bearer a\r\n {"level": "error"}', 401, id="A7 a folded line"),
        pytest.param(b'Bearer a\nX: {"level": "error"}', 401, id="A7 newline"),
    ],
)
def test_control_characters_in_a_token(
    service: Running, connect: Connect, value: bytes, status: int
) -> None:
    n_lines = len(service.log())
    wire = connect()
    host = b"Host: 127.0.0.1\r\n"
    wire.send(b"GET /v1/metrics HTTP/1.1\r\n" + host + b"Authorization: " + value + b"\r\n\r\n")
    refused(wire.answer(), status)
    for line in service.log()[n_lines:]:
        assert line["event"] in ("request", "server")


def test_a7_a_path_writes_no_line_of_its_own(service: Running) -> None:
    ask(service, "GET", "/v1/a%0d%0a%7b%22level%22%3a%22error%22%7d%1b[31m", role=Role.VIEWER)
    lines = service.lines.getvalue().splitlines()
    assert all(json.loads(line)["level"] != "error" for line in lines)
    assert "\x1b" not in service.lines.getvalue()


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("evil.example", id="A8 a name of others"),
        pytest.param("127.0.0.1.evil.example", id="A8 a name that begins as ours"),
        pytest.param("localhost@evil.example", id="A8 with a user"),
        pytest.param("10.1.2.3", id="A8 another address"),
        pytest.param("localhost:1:2", id="A8 two ports"),
    ],
)
def test_names_of_others_are_refused(service: Running, host: str) -> None:
    refused(ask(service, "POST", ECHO, b"{}", headers={"Host": host}), 421, "host")


def test_a8_our_names_are_answered(service: Running, connect: Connect) -> None:
    for host in ("localhost", f"LOCALHOST:{service.port}", "[::1]:80", "127.0.0.1"):
        assert ask(service, "POST", ECHO, b"{}", headers={"Host": host}).status == 200
    wire = connect()
    wire.send(b"GET /v1/health HTTP/1.0\r\n\r\n")
    refused(wire.answer(), 421)


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param("http://evil.example", id="A9 another origin"),
        pytest.param("null", id="A9 an origin without a name"),
        pytest.param("http://127.0.0.1:1", id="A9 another port"),
        pytest.param("file://127.0.0.1", id="A9 another scheme"),
    ],
)
def test_pages_of_others_are_refused(service: Running, origin: str) -> None:
    refused(ask(service, "POST", ECHO, b"{}", headers={"Origin": origin}), 403, "origin")
    upgrade = {"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket"}
    refused(ask(service, "GET", "/v1/metrics", headers=upgrade), 403, "origin")


def test_a9_our_own_origin_is_answered(service: Running) -> None:
    own = {"Origin": f"http://127.0.0.1:{service.port}"}
    assert ask(service, "POST", ECHO, b"{}", headers=own).status == 200


def test_a10_a_preflight_gets_no_leave(service: Running) -> None:
    for origin in ("http://evil.example", f"http://127.0.0.1:{service.port}"):
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = ask(service, "OPTIONS", ECHO, role=None, headers=headers)
        assert answer.status in (401, 403)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a11_no_open_address_without_tokens(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ServiceError, match=r"service needs tokens.*start it once on 127"):
            bind(host, 0, tokens=tmp_path / "none")
    (tmp_path / "some").touch()
    bind("0.0.0.0", 0, tokens=tmp_path / "some").close()


def test_a12_ten_thousand_failures_are_slowed_and_fill_no_memory(
    service: Running, connect: Connect
) -> None:
    wire = connect()
    request = b"GET /v1/metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    n, statuses = 2_000, []  # the table itself is filled 10,000 times in test_auth
    for burst in range(n // 50):
        feigned = b"X-Forwarded-For: 10.0.0.%d\r\nForwarded: for=10.0.0.%d\r\n\r\n"
        wire.send((request + feigned % (burst, burst)) * 50)
        with wire.socket.makefile("rb") as file:
            for _ in range(50):
                statuses.append(int(file.readline().split()[1]))
                length = 0
                while line := file.readline().strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                    if statuses[-1] == 429 and line.lower().startswith(b"retry-after:"):
                        assert int(line.split(b":")[1]) >= 1
                file.read(length)
    assert set(statuses) <= {401, 429}
    assert statuses.count(401) <= 25
    assert len(service.failures) == 1
    assert post(service, {}).status == 200  # nobody else is locked out


def test_a13_a_file_of_tokens_that_others_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tokens"
    path.write_text("{}")
    path.chmod(0o644)
    with pytest.raises(ServiceError, match=r"0644.*chmod 600"):
        read_tokens(path)


# B. What a request looks like


def test_b14_a_huge_body_is_refused_before_it_is_read(service: Running, connect: Connect) -> None:
    wire = connect()
    token = TOKENS.by_role[Role.STEERER]
    wire.send(
        f"POST {ECHO} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {2**30}\r\n\r\n".encode()
    )
    answer = wire.answer()
    refused(answer, 413, "1048576")
    assert answer.headers["connection"] == "close"
    assert wire.is_closed_within(PATIENCE_S)


def test_b14_what_may_be_larger_is(service: Running) -> None:
    body = json.dumps({str(i): "x" * 100 for i in range(20_000)}).encode()
    assert len(body) > 2 * 1024 * 1024
    assert ask(service, "POST", "/v1/import", body).json == {"keys": 20_000}
    refused(ask(service, "POST", ECHO, body), 413)


def _head(service: Running, *headers: str) -> bytes:
    token = TOKENS.by_role[Role.STEERER]
    lines = [
        f"POST {ECHO} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def test_b15_a_body_that_does_not_come_is_not_waited_for() -> None:
    with hasty() as service, closing(Wire(service.port)) as wire:
        wire.send(_head(service, "Content-Length: 100") + b'{"name": ')
        refused(wire.answer(), 408, "0.5 s")
        assert wire.is_closed_within(PATIENCE_S)


def test_b15_what_comes_beyond_its_length_is_no_request(service: Running, connect: Connect) -> None:
    wire = connect()
    wire.send(_head(service, "Content-Length: 2") + b"{}garbage\r\n\r\n")
    assert wire.answer().status == 200


def test_b15_endless_chunks_end(service: Running, connect: Connect) -> None:
    wire = connect()
    wire.send(_head(service, "Transfer-Encoding: chunked"))
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(64):
            wire.send(chunk)
    refused(wire.answer(), 413)


def test_b15_a_chunk_that_is_none(service: Running, connect: Connect) -> None:
    wire = connect()
    wire.send(_head(service, "Transfer-Encoding: chunked") + b"zz\r\n")
    refused(wire.answer(), 400)
    assert wire.is_closed_within(PATIENCE_S)


@pytest.mark.parametrize("sent", [b"", b"GET /v1/health HTTP/1.1\r\nHost: local"])
def test_b16_a_slow_head_is_cut_off(sent: bytes) -> None:
    with hasty(head_s=0.5) as service, closing(Wire(service.port)) as wire:
        wire.send(sent)
        refused(wire.answer(), 408, "head")
        assert wire.is_closed_within(PATIENCE_S)


def test_b16_a_slow_head_of_a_later_request_is_cut_off() -> None:
    limits = ConnectionLimits(head_s=PATIENCE_S)
    with running(patience=limits) as service, closing(Wire(service.port)) as wire:
        wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.answer().status == 200
        object.__setattr__(limits, "head_s", 0.1)
        wire.send(b"GET /v1/heal")
        refused(wire.answer(), 408, "head")
        assert wire.is_closed_within(PATIENCE_S)


def test_b16_a_head_is_timed_from_its_first_byte() -> None:
    with hasty(head_s=0.5) as service, closing(Wire(service.port)) as wire:
        for byte in b"GET / HTTP/1.1\r\nX: " + b"x" * 1000:
            wire.send(bytes([byte]))
            if wire.has_answer_within(0.02):
                break
        refused(wire.answer(), 408, "head")
        assert wire.is_closed_within(PATIENCE_S)


def test_b17_a_compressed_body_is_refused(service: Running) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    refused(post(service, bomb, Content_Encoding="gzip"), 415, "gzip")
    refused(post(service, bomb), 400, "UTF-8")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
             "application/json; charset=utf-16", "application/jsonx"]
)  # fmt: skip
def test_b18_another_type_of_content(service: Running, kind: str) -> None:
    refused(post(service, {}, Content_Type=kind), 415)


def test_b18_json_with_its_charset_is_taken(service: Running) -> None:
    assert post(service, {}, Content_Type="application/JSON; charset=UTF-8").status == 200


def sent(body: str | bytes, status: int, *words: str, id: str) -> object:  # noqa: A002
    return pytest.param(body if isinstance(body, bytes) else body.encode(), status, words, id=id)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        sent(b'{"name": "\xff"}', 400, "byte 11", "UTF-8", id="B19 invalid UTF-8"),
        sent(b"\xef\xbb\xbf{}", 400, id="B19 byte-order mark"),
        sent(b'{"name": "\xed\xa0\x80"}', 400, id="B19 a surrogate in UTF-8"),
        sent('{"name": "a', 400, "line 1", id="B20 truncated"),
        sent("   ", 400, "empty", id="B20 nothing but space"),
        sent("{'name': 1}", 400, id="B20 Python, no JSON"),
        sent('{"name": "a\nb"}', 400, id="B20 a raw newline in a text"),
        sent("{} {}", 400, id="B20 two values"),
        sent('{"name": ' + "[" * 100_000 + "]" * 100_000 + "}", 400, "64", id="B21 nested"),
        sent('{"a":' * 65 + "1" + "}" * 65, 400, "64", id="B21 nested by one too many"),
        sent('{"number": NaN}', 422, "NaN", id="B22 NaN"),
        sent('{"number": -Infinity}', 422, "Infinity", id="B22 Infinity"),
        sent('{"number": 1e999}', 422, "64-bit", id="B23 1e999"),
        sent('{"number": -1e999}', 422, id="B23 -1e999"),
        sent('{"count": ' + "9" * 5000 + "}", 400, "5000", id="B24 5,000 digits"),
        sent('{"count": 9223372036854775808}', 422, "64-bit", id="B25 2^63"),
        sent('{"count": -9223372036854775809}', 422, id="B25 below -2^63"),
        sent('{"name": "a", "name": "b"}', 400, "'name'", "twice", id="B26 a key twice"),
        sent('{"points": [{"x": 1, "\\u0078": 2}]}', 400, "'x'", id="B26 a key twice, escaped"),
        sent("[]", 422, id="B27 a list"),
        sent("null", 422, id="B27 null"),
        sent('"text"', 422, id="B27 a text"),
        sent("7", 422, id="B27 a number"),
        sent('{"nmae": "a"}', 422, "'nmae'", "did you mean 'name'?", id="B28 an unknown field"),
        sent('{"points": [{"x": 1, "y": 2}]}', 422, "'points.0.y'", id="B28 unknown, deep"),
        sent('{"name": "\\ud800"}', 422, "surrogate", id="B29 a lone surrogate"),
        sent('{"\\uDC00": 1}', 422, "surrogate", id="B29 a lone surrogate in a key"),
        sent('{"name": "\\ud800\\ud800\\udc00"}', 422, id="B29 a surrogate too many"),
        sent('{"number": true}', 422, "'number'", id="B30 true for a number"),
        sent('{"count": "7"}', 422, "'count'", id="B30 a text for a number"),
        sent('{"count": 1.5}', 422, "'count'", id="B30 a fraction for an integer"),
        sent('{"points": [' + ",".join(['{"x":1}'] * 10**6) + "]}", 413, id="B31 10^6 objects"),
        sent('{"points": [' + ",".join(['{"x":1}'] * 10**5) + "]}", 422, "1000", id="B31 10^5"),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be(
    service: Running, body: bytes, status: int, words: tuple[str, ...]
) -> None:
    refused(post(service, body), status, *words)


@pytest.mark.parametrize(
    "text",
    [
        '{"count": 9223372036854775807}',
        '{"count": -9223372036854775808}',
        '{"number": 1.7976931348623157e308}',
        '{"name": "\\ud83d\\ude00 \\u0000 \\\\ud800"}',
        '{"name": "' + "[" * 200 + '"}',
    ],
)
def test_what_is_just_within_bounds_is_taken(service: Running, text: str) -> None:
    answer = post(service, text.encode())
    assert answer.status == 200
    for name, value in json.loads(text).items():
        assert answer.json["body"][name] == value


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param(("Content-Length: 2", "Transfer-Encoding: chunked"), 400, id="B32 both"),
        pytest.param(("Transfer-Encoding: chunked", "Content-Length: 2"), 400, id="B32 turned"),
        pytest.param(("Content-Length: 2", "Content-Length: 3"), 400, id="B32 two lengths"),
        pytest.param(("Content-Length: +2",), 400, id="B32 a signed length"),
        pytest.param(("Content-Length : 2",), 400, id="B32 a space before the colon"),
        pytest.param(("Transfer-Encoding: xchunked",), 501, id="B32 an unknown coding"),
        pytest.param(
            ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), 501, id="B32 two codings"
        ),
    ],
)
def test_bodies_that_two_readers_would_cut_differently(
    service: Running, connect: Connect, headers: tuple[str, ...], status: int
) -> None:
    wire = connect()
    smuggled = b"GET /v1/fault HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wire.send(_head(service, *headers) + b"0\r\n\r\n" + smuggled)
    refused(wire.answer(), status)
    assert wire.is_closed_within(PATIENCE_S)


def test_a_head_that_is_too_large_is_refused(service: Running, connect: Connect) -> None:
    answer = ask(service, "GET", "/v1/health", headers={"X": "x" * 20_000})
    refused(answer, 431)
    wire = connect()
    wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"x" * 20_000)
    refused(wire.answer(), 431)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\r\n" * 5 + b"?", b"\x00" * 99]
)
def test_what_is_no_http_is_closed(service: Running, connect: Connect, garbage: bytes) -> None:
    wire = connect()
    wire.send(garbage + b"\r\n\r\n")
    refused(wire.answer(), 400)
    assert wire.is_closed_within(PATIENCE_S)


def test_no_token_ever_comes_into_the_log(service: Running) -> None:
    post(service, {"name": "seen"})
    assert eventually(lambda: '"experiment": "seen"' in service.lines.getvalue())
    for token in TOKENS.by_role.values():
        assert not re.search(token, service.lines.getvalue())
