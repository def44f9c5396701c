"""Which addresses are asked, and where the token goes."""

import pickle
import subprocess
from pathlib import Path

import pytest

from assistant.applications.rest import Rest
from assistant.applications.rest_address import TOKEN, address_within, check_url, origin_of
from assistant.core.errors import ApplicationError, RunError, RunStoppedError
from tests.assistant.adapter import Reply, program
from tests.assistant.rest.asked import (
    COST,
    DONE,
    SECRET,
    SPACE,
    VALUES,
    Watching,
    failure,
    following,
    rest,
    running,
)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9000/runs", "http://127.8.9.10/", "http://[::1]:9/x", "http://localhost:1",
     "https://tuner.example/runs", "https://10.0.0.7:8443/a/b", "HTTP://LOCALHOST/x"],
)  # fmt: skip
def test_these_are_addresses_of_programs(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [("", "an address"), ("runs", "an address"), ("/runs", "an address"), ("http://", "an address"),
     ("ftp://127.0.0.1/x", "an address"), ("file:///etc/passwd", "an address"),
     ("http+unix://x/y", "an address"), ("https://x:99999/", "an address"),
     ("https://x:0/", "an address"), ("https://a b/", "an address"), ("https://x/\r\nA: b", "no"),
     ("https://x/\0", "an address"), ("https://ex\u00e4mple.org/", "in ASCII"),
     ("https://[::1/", "an address"), ("https://x\\@y/", "no"), ("https://" + "x" * 2000, "no"),
     ("https://u:hunter2@x/", "a user name"), ("https://hunter2@x/", "a user name"),
     ("https://x/?token=hunter2", "a query"), ("https://x/#hunter2", "a fragment"),
     ("http://tuner.example/runs", "not encrypted"), ("http://10.0.0.7/", "not encrypted"),
     ("http://127.1/", "not encrypted"), ("http://2130706433/", "not encrypted"),
     ("http://0.0.0.0/", "not encrypted"), ("http://localhost.evil.example/", "not encrypted"),
     ("http://127.0.0.1.evil.example/", "not encrypted")],
)  # fmt: skip
def test_these_are_none(url: str, words: str) -> None:
    with pytest.raises(ApplicationError, match=words) as caught:
        Rest(SPACE, COST, url)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_origin_is_written_in_one_way() -> None:
    assert origin_of("https://Tuner.example") == origin_of("HTTPS://tuner.example:443/a/b")
    assert origin_of("https://tuner.example") != origin_of("https://tuner.example:8443")
    assert origin_of("http://[::1]/x") == "http://[::1]:80"
    assert address_within("https://a.example/runs", "7?x=1") == "https://a.example/7?x=1"
    assert address_within("https://a.example/runs", "https://A.example:443/7").endswith("/7")
    for evil in (
        "http://a.example/7", "https://b@a.example/7", "https://a.example.evil/7", "\\\\b/7",
        "https://a.example:444/7", "//b/7", "7#x", " /7", "/7\r\nA: b",
    ):  # fmt: skip
        with pytest.raises(RunError, match="not within"):
            address_within("https://a.example/runs", evil)


def test_the_token_goes_with_every_request_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    with program(following(running(cost=1))) as there:
        application = rest(there)
        with pytest.raises(RunStoppedError):
            application.evaluate_watched(VALUES, 7, None, Watching(after_reports=2))
    assert {one.method for one in there.heard} == {"POST", "GET", "DELETE"}
    assert {one.headers["authorization"] for one in there.heard} == {f"Bearer {SECRET}"}
    told = repr(application) + repr(application.facts) + repr(pickle.dumps(application))
    assert SECRET not in told
    escaped = SECRET.replace("s", "\\u0073")
    for reply in (
        Reply(f"who is {SECRET}?".encode(), 403, kind="text/plain"),
        Reply({"detail": f"who is {SECRET}?"}, 403),
        Reply(f'{{"failure": "who is {escaped}?"}}'.encode()),
        Reply(f"cost {SECRET}".encode()),
        Reply({SECRET: 1}),
        Reply({"measures": {SECRET: 1}}),
        Reply({"measures": {"cost": SECRET}}),
        Reply({}, 202, {"Location": f"http://evil.example/{SECRET}"}),
        Reply(b"", kind=f"text/{SECRET}"),
    ):
        with program(lambda heard, reply=reply: reply) as there:  # type: ignore[misc]
            assert SECRET not in failure(rest(there))


@pytest.mark.parametrize("secret", ["two words", "line\nX-Evil: 1", "\u00e9", "x" * 5000])
def test_what_is_no_token_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv(TOKEN, secret)
    with program(lambda heard: DONE) as there:
        words = failure(rest(there))
    assert f"${TOKEN} is not a token" in words
    assert secret not in words
    assert there.heard == []


def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    certificate, key = tmp_path / "program.pem", tmp_path / "program.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=program",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    with program(lambda heard: DONE, listening=False) as there:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        there.server.socket = context.wrap_socket(
            there.server.socket, server_side=True, do_handshake_on_connect=False
        )
        there.listen()
        url = there.url.replace("http:", "https:")
        assert "is not trusted" in failure(rest(url))
        assert there.heard == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert rest(url).evaluate(VALUES, 7)["cost"] == 3.5
