"""Programs that speak HTTP: asked for every run, whatever they answer becomes one sentence."""

import asyncio
import gzip
import json
import pickle
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assistant import Objective, Value
from assistant.applications import Rest, rest_call, rest_request
from assistant.applications.rest_address import TOKEN, check_url, origin_of, within
from assistant.errors import ApplicationError, AssistantError, RunError, StoppedError
from assistant.executors.attempt import attempt
from assistant.objective import Measure
from assistant.ports import Endable, Watchable, Work
from assistant.settings import build_sweep, check_settings
from strategies import Parameter, ParameterSpace, SpaceError
from tests.assistant.adapter import PATIENCE_S, Answer, Heard, Program, Reply, program

SPACE = ParameterSpace((Parameter("x", (1, 2)), Parameter("mode", ("a", "b"))))
COST = Objective(Value("cost"))
VALUES = {"x": 1, "mode": "a"}
DONE = Reply({"measures": {"cost": 3.5, "beside": 2}})
SECRET = "s3cret-0123456789"


@pytest.fixture(autouse=True)
def _nothing_is_left_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr(rest_call, "FIRST_PAUSE_S", 0.02)
    yield
    for thread in threading.enumerate():
        if thread.name == "copperline-rest":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def rest(at: Program | str, limit_s: float | None = PATIENCE_S, **more: object) -> Rest:
    url = at if isinstance(at, str) else at.url
    return Rest(SPACE, COST, url, limit_s=limit_s, **more)  # type: ignore[arg-type]


def failure(of: Rest) -> str:
    with pytest.raises(RunError) as caught:
        of.evaluate(VALUES, 7)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 520
    return str(caught.value)


@dataclass
class Watching:
    """Whoever watches: wants the end once so much was reported, or so often looked."""

    after_reports: int | None = None
    after_looks: int | None = None
    reports: list[Mapping[str, Measure]] = field(default_factory=list)
    looks: int = 0
    meanwhile: Callable[[int], object] = lambda looks: None

    def report(self, measures: Mapping[str, Measure]) -> None:
        self.reports.append(measures)

    def wants_end(self) -> bool:
        self.looks += 1
        self.meanwhile(self.looks)
        enough = self.after_reports is not None and len(self.reports) >= self.after_reports
        return enough or (self.after_looks is not None and self.looks >= self.after_looks)


def following(*told: Reply, location: str = "/runs/1", end: Reply | None = None) -> Answer:
    """Answer 202, then at the Location one reply after the other, the last again and again."""
    waiting = list(told)

    def answer(heard: Heard) -> Reply:
        if heard.method == "POST":
            return Reply({}, 202, {"Location": location})
        if heard.method == "DELETE":
            return end or Reply(b"", 204)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return answer


def running(**measures: object) -> Reply:
    return Reply({"state": "running", "measures": measures})


# -- what is asked ---------------------------------------------------------------------------


def test_a_run_is_one_request_with_values_seed_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # nobody is there
    monkeypatch.setenv("NO_PROXY", "")
    with program(lambda heard: DONE) as there:
        application = rest(there, limit_s=60.0)
        assert isinstance(application, Endable)
        assert isinstance(application, Watchable)
        assert application.evaluate(VALUES, 7) == {"cost": 3.5, "beside": 2.0}
        assert application.evaluate_within({"x": 2, "mode": "b"}, 2**63, 5.0)["cost"] == 3.5
        assert rest(there, limit_s=None).evaluate(VALUES, 7)["cost"] == 3.5
    first, second, third = there.heard
    assert [one.method for one in there.heard] == ["POST"] * 3
    assert first.path == "/runs"
    assert first.json == {"values": {"x": 1, "mode": "a"}, "seed": 7, "limit_s": 60.0}
    assert second.json == {"values": {"x": 2, "mode": "b"}, "seed": 2**63, "limit_s": 5.0}
    assert third.json["limit_s"] is None
    assert first.headers["content-type"] == "application/json"
    assert first.headers["accept"] == "application/json"
    assert first.headers["accept-encoding"] == "identity"
    assert "authorization" not in first.headers
    assert len({one.headers["idempotency-key"] for one in there.heard}) == 3


def test_the_time_of_a_run_is_a_measure_where_it_is_asked_for() -> None:
    with program(lambda heard: Reply({"measures": {}})) as there:
        measures = Rest(SPACE, Objective(Value("wall_s")), there.url).evaluate(VALUES, 0)
    assert measures.keys() == {"wall_s"}
    assert 0 < measures["wall_s"] < PATIENCE_S  # type: ignore[operator]


def test_nested_measures_and_one_number_are_as_those_of_a_command() -> None:
    with program(lambda heard: Reply({"measures": {"cost": 1, "wait": {"mean": 2}}})) as there:
        assert rest(there).evaluate(VALUES, 0) == {"cost": 1.0, "wait.mean": 2.0}
    with program(lambda heard: Reply({"measures": 4})) as there:
        assert rest(there).evaluate(VALUES, 0) == {"cost": 4.0}


def test_a_name_that_nothing_can_keep_is_passed_over() -> None:
    told = b'{"measures": {"cost": 1, "\\ud800": 2, "\\ud83d\\ude00": 3, "a\\u0000": 4}}'
    with program(lambda heard: Reply(told)) as there:
        measures = rest(there).evaluate(VALUES, 0)
    assert measures == {"cost": 1.0, "\U0001f600": 3.0, "a\0": 4.0}


def test_a_run_that_goes_on_is_asked_for_where_the_program_says() -> None:
    answer = following(running(cost=9), running(cost=5, note="so so"), Reply({"state": "running"}),
                       DONE)  # fmt: skip
    watching = Watching()
    with program(answer) as there:
        measures = rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert measures == {"cost": 3.5, "beside": 2.0}
    assert watching.reports == [{"cost": 9.0}, {"cost": 5.0}, {}]
    assert there.methods() == ["POST", "GET", "GET", "GET", "GET"]
    assert {one.path for one in there.heard[1:]} == {"/runs/1"}
    assert all("idempotency-key" not in one.headers for one in there.heard[1:])


def test_what_is_reported_and_no_number_is_unknown() -> None:
    odd = Reply(
        b'{"state": "running", "measures": {"a": NaN, "b": [1, 2], "c": "text", "d": 1e999}}'
    )
    watching = Watching()
    with program(following(odd, DONE)) as there:
        rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert watching.reports == [{"a": None, "b": (1.0, 2.0), "d": None}]


def test_retry_after_is_kept_within_bounds() -> None:
    asked_s: list[float] = []

    def answer(heard: Heard) -> Reply:
        asked_s.append(time.monotonic())
        if heard.method == "POST":
            return Reply({}, 202, {"Location": "1", "Retry-After": "0.4"})
        return DONE

    with program(answer) as there:
        rest(there).evaluate(VALUES, 0)
    assert there.heard[1].path == "/1"
    assert asked_s[1] - asked_s[0] >= 0.4
    for said, waited_s in (("0", 0.1), ("-5", 0.1), ("1e9", 60.0), ("inf", 60.0), ("nan", 0.1),
                           ("Fri, 31 Dec 1999 23:59:59 GMT", 2.0), ("", 2.0)):  # fmt: skip
        told = rest_request.Answer(202, {"retry-after": said}, "")
        assert rest_request.retry_after_s(told, 2.0) == waited_s, said


# -- what does not come, or comes twice --------------------------------------------------------


def test_a_request_that_was_not_answered_is_repeated_under_its_key() -> None:
    replies = [Reply(raw=b""), Reply(b"later", 503, kind="text/plain"),
               Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), DONE]  # fmt: skip
    with program(lambda heard: replies.pop(0)) as there:
        assert rest(there).evaluate(VALUES, 7)["cost"] == 3.5
    assert there.methods() == ["POST"] * 4
    assert len({one.headers["idempotency-key"] for one in there.heard}) == 1


def test_a_program_that_restarts_is_waited_for() -> None:
    with program(lambda heard: DONE, listening=False) as there:
        watching = Watching(meanwhile=lambda looks: there.listen() if looks == 3 else None)
        assert rest(there).evaluate_watched(VALUES, 7, None, watching)["cost"] == 3.5
    assert watching.looks >= 3


def test_a_program_that_is_not_there_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_request, "TRIES", 2)
    with program(lambda heard: DONE, listening=False) as there:
        words = failure(rest(there))
    assert f"the program at {there.url} is not reached" in words
    assert "is it running?" in words
    assert "not reached" in failure(rest("https://no-such-host.invalid/runs"))


FAILING: dict[str, tuple[Reply, str]] = {
    "its own word": (Reply({"failure": "no\nconverg\x1b[31mence"}), "says: no | converg [31mence"),
    "an error in words": (Reply(b"out of memory", 500, kind="text/plain"), "500; it says: out of"),
    "an error in JSON": (Reply({"detail": "x is odd"}, 422), "with 422; it says: x is odd"),
    "an error of a page": (Reply(b"<b>" + b"y" * 9000, 500, kind="text/html"), "500; it says: y"),
    "an error without words": (Reply(b"", 404), "with 404; it said nothing"),
    "an error that is no text": (Reply(b"\xff\x00\xfe", 500), "with 500"),
    "a redirect": (Reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), "sends on to another"),
    "nothing": (Reply(b"", 204), "answered with 204, where 200 or 202"),
    "no JSON": (Reply(b"cost 3"), "is not JSON"),
    "half of JSON": (Reply(b'{"measures": {'), "is not JSON"),
    "an empty answer": (Reply(b""), "is not JSON"),
    "JSON with a mark": (Reply(b'\xef\xbb\xbf{"measures": {"cost": 1}}'), "JSON"),
    "keys twice": (Reply(b'{"measures": {"cost": 1, "cost": 2}}'), "'cost' occurs twice"),
    "JSON that is deep": (Reply(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "cannot be read as"),
    "a number of 5000 digits": (Reply(b'{"measures": {"cost": ' + b"9" * 5000 + b"}}"), "JSON"),
    "a list": (Reply([1]), "JSON that is no object"),
    "another type": (Reply(b"<html>", kind="text/html"), "answered with text/html"),
    "no type": (Reply({"measures": {"cost": 1}}, kind=""), "answered with no content type"),
    "a word unknown": (Reply({"measure": {"cost": 1}}), "answered with 'measure'; an answer holds"),
    "both": (Reply({"measures": {"cost": 1}, "failure": "no"}), "says: no"),
    "a failure that is no text": (Reply({"failure": {"code": 1}}), "failure that is no text"),
    "neither": (Reply({}), "neither measures nor failure"),
    "going on, but where": (running(cost=1), "the run goes on, but not where"),
    "a state unknown": (Reply({"state": "done", "measures": {"cost": 1}}), "not 'running'"),
    "no number": (Reply({"measures": {"cost": "1,5"}}), "the text '1,5' as the measure 'cost'"),
    "NaN": (Reply(b'{"measures": {"cost": NaN}}'), "nan as the measure 'cost'"),
    "infinity": (Reply(b'{"measures": {"cost": 1e999}}'), "inf as the measure 'cost'"),
    "true": (Reply({"measures": {"cost": True}}), "as the measure 'cost'"),
    "another measure": (Reply({"measures": {"price": 1}}), "no measure 'cost'; it gave: price"),
    "no UTF-8": (Reply(b'{"failure": "\xff"}'), "not UTF-8, at byte 14"),
    "no HTTP": (Reply(raw=b"220 smtp.example ESMTP\r\n\r\n"), "speaks no HTTP"),
    "compressed": (Reply(gzip.compress(b"0" * 10**6), headers={"Content-Encoding": "gzip"}),
                   "answers compressed"),
    "too long": (Reply(b" " * (rest_request.MOST_BYTES + 1)), "more than 1,048,576 bytes"),
    "without end": (Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n", drip=b" " * 65536), "more than 1,048,"),
    "202 without Location": (Reply({}, 202), "202 without Location"),
    "Location of another": (Reply({}, 202, {"Location": "http://169.254.169.254/latest"}),
                            "'http://169.254.169.254/latest', which is not within"),
    "Location of another port": (Reply({}, 202, {"Location": "http://127.0.0.1:1/"}), "not within"),
    "Location without a scheme": (Reply({}, 202, {"Location": "//evil.example/x"}), "not within"),
    "Location of another kind": (Reply({}, 202, {"Location": "file:///etc/passwd"}), "not within"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "words"), FAILING.values(), ids=FAILING)
def test_what_cannot_be_used_is_a_failed_run(reply: Reply, words: str) -> None:
    with program(lambda heard: reply) as there:
        assert words in failure(rest(there))
    assert there.methods() == ["POST"]


@pytest.mark.parametrize("status", [404, 410])
def test_a_run_that_the_program_has_forgotten_has_failed(status: int) -> None:
    with program(following(running(), Reply({"detail": "no such run"}, status))) as there:
        assert f"{status}; it says: no such run" in failure(rest(there))
    assert "DELETE" not in there.methods()


def test_a_run_that_is_given_up_is_ended() -> None:
    with program(following(running(), Reply(b"oh"))) as there:
        assert "is not JSON" in failure(rest(there))
    assert there.methods()[-1] == "DELETE"


# -- the limit and early stops ---------------------------------------------------------------

SLOW: dict[str, Reply | None] = {
    "says nothing": None,
    "headers byte by byte": Reply(raw=b"HTTP/1.1 200 OK\r\n", drip=b"X: y\r\n"),
    "the answer byte by byte": Reply(
        raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", drip=b" "
    ),
}


@pytest.mark.parametrize("reply", SLOW.values(), ids=SLOW)
def test_the_limit_holds_however_slowly_it_answers(reply: Reply | None) -> None:
    with program(lambda heard: reply) as there:
        started_s = time.monotonic()
        words = failure(rest(there, limit_s=0.3))
        assert 0.3 <= time.monotonic() - started_s < PATIENCE_S
        assert there.gone.wait(PATIENCE_S)
    assert words == "stopped at the limit of 0.3 s; its connection was closed"


def test_a_run_that_goes_on_is_ended_at_the_limit() -> None:
    with program(following(running())) as there:
        words = failure(rest(there, limit_s=0.3))
    assert words == "stopped at the limit of 0.3 s; the program was told so"
    assert there.methods()[-1] == "DELETE"
    assert there.heard[-1].path == "/runs/1"


def test_the_tighter_limit_holds() -> None:
    with program(lambda heard: None) as there:
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=60.0).evaluate_within(VALUES, 0, 0.2)
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=0.2).evaluate_within(VALUES, 0, 60.0)
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=None).evaluate_watched(VALUES, 0, 0.2, Watching())


ENDS: dict[str, tuple[Reply, str]] = {
    "takes it": (Reply(b"", 204), "stopped early; the program was told so"),
    "was there before": (Reply({}, 404), "stopped early; the program was told so"),
    "does not know how": (Reply({"error": "no"}, 405), "did not take that (405; it says: no)"),
    "breaks off": (Reply(raw=b""), "it could not be told so"),
}


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS)
def test_an_early_stop_is_told_to_the_program(end: Reply, words: str) -> None:
    watching = Watching(after_reports=2)
    answer = following(running(cost=4), end=end)
    with program(answer) as there, pytest.raises(StoppedError) as caught:
        rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert words in str(caught.value)
    assert watching.reports == [{"cost": 4.0}, {"cost": 4.0}]
    assert "DELETE" in there.methods()


def test_an_early_stop_does_not_wait_for_an_answer() -> None:
    with program(lambda heard: None) as there:
        with pytest.raises(StoppedError, match="its connection was closed"):
            rest(there).evaluate_watched(VALUES, 7, None, Watching(after_looks=2))
        assert there.gone.wait(PATIENCE_S)


def test_an_end_that_is_not_answered_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_call, "END_S", 0.2)
    go_on = following(running())

    def silent(heard: Heard) -> Reply | None:
        return None if heard.method == "DELETE" else go_on(heard)

    with program(silent) as there, pytest.raises(StoppedError, match="it does not answer"):
        rest(there).evaluate_watched(VALUES, 7, None, Watching(after_reports=1))


def test_what_interrupts_copperline_ends_the_run() -> None:
    def interrupt(looks: int) -> None:
        if looks > 1 and "GET" in there.methods():
            raise KeyboardInterrupt

    with program(following(running())) as there:
        with pytest.raises(KeyboardInterrupt):
            rest(there).evaluate_watched(VALUES, 7, None, Watching(meanwhile=interrupt))
        there.wait_for("DELETE")


def test_it_is_asked_from_within_a_loop_of_events_too() -> None:
    async def notebook() -> Mapping[str, Measure]:
        return rest(there).evaluate(VALUES, 7)

    with program(lambda heard: DONE) as there:
        assert asyncio.run(notebook())["cost"] == 3.5


# -- addresses and secrets -------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9000/runs", "http://127.8.9.10/", "http://[::1]:9/x", "http://localhost:1",
     "https://tuner.example/runs", "https://10.0.0.7:8443/a/b", "HTTP://LOCALHOST/x"],
)  # fmt: skip
def test_these_are_addresses_of_programs(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [("", "no address"), ("runs", "no address"), ("/runs", "no address"), ("http://", "no address"),
     ("ftp://127.0.0.1/x", "no address"), ("file:///etc/passwd", "no address"),
     ("http+unix://x/y", "no address"), ("https://x:99999/", "no address"),
     ("https://x:0/", "no address"), ("https://a b/", "no address"), ("https://x/\r\nA: b", "no"),
     ("https://x/\0", "no address"), ("https://ex\u00e4mple.org/", "in ASCII"),
     ("https://[::1/", "no address"), ("https://x\\@y/", "no"), ("https://" + "x" * 2000, "no"),
     ("https://u:hunter2@x/", "holds a name"), ("https://hunter2@x/", "holds a name"),
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
    assert within("https://a.example/runs", "7?x=1") == "https://a.example/7?x=1"
    assert within("https://a.example/runs", "https://A.example:443/7").endswith("/7")
    for evil in (
        "http://a.example/7", "https://b@a.example/7", "https://a.example.evil/7", "\\\\b/7",
        "https://a.example:444/7", "//b/7", "7#x", " /7", "/7\r\nA: b",
    ):  # fmt: skip
        with pytest.raises(RunError, match="not within"):
            within("https://a.example/runs", evil)


def test_the_token_goes_with_every_request_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    with program(following(running(cost=1))) as there:
        application = rest(there)
        with pytest.raises(StoppedError):
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
    assert f"${TOKEN} is no token" in words
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


# -- as an application -----------------------------------------------------------------------


def test_without_a_url_nobody_here_makes_its_runs() -> None:
    pulling = Rest(SPACE, COST)
    assert "made by the program that registered it" in failure(pulling)
    completion = attempt(pulling, Work(1, VALUES, 7, limit_s=5.0))
    assert completion.failure is not None
    assert "asks the service for them" in completion.failure
    assert "asks for its runs itself" in str(pulling.facts)


def test_a_point_outside_of_the_space_is_no_today() -> None:
    with pytest.raises(SpaceError):
        Rest(SPACE, COST, baseline={"x": 3, "mode": "a"})
    with pytest.raises(ApplicationError, match="above 0 s"):
        Rest(SPACE, COST, limit_s=0.0)


TABLES = {
    "application": {
        "kind": "rest", "url": "http://127.0.0.1:9000/runs", "limit": "1m", "noisy": True,
        "today": {"x": 1},
    },
    "parameters": [{"name": "x", "levels": [1, 2]}],
    "objective": {"minimise": "cost"},
}  # fmt: skip


def test_the_table_of_a_sweep_file() -> None:
    application = build_sweep(check_settings(TABLES, "here")).application
    assert isinstance(application, Rest)
    assert (application.limit_s, application.deterministic) == (60.0, False)
    assert application.baseline == {"x": 1}
    implied = {**TABLES, "application": {"url": "http://127.0.0.1:9000/runs"}}
    assert isinstance(build_sweep(check_settings(implied, "here")).application, Rest)
    for wrong, words in (
        ({**TABLES, "parameters": []}, "at least one"),
        ({**TABLES, "objective": {}}, "needs an \\[objective\\]"),
        ({**TABLES, "application": {"kind": "rest", "adress": "x"}}, "no setting"),
        ({**TABLES, "application": {"kind": "rest", "url": 9000}}, "url"),
        (
            {**TABLES, "application": {"kind": "rest", "url": "http://evil.example"}},
            "not encrypted",
        ),
    ):
        with pytest.raises(AssistantError, match=words):
            build_sweep(check_settings(wrong, "here"))


def test_measures_are_json_of_at_most_a_megabyte() -> None:
    series = [0.5] * 100_000
    with program(lambda heard: Reply({"measures": {"cost": series}})) as there:
        assert len(json.dumps(series)) < rest_request.MOST_BYTES
        assert rest(there).evaluate(VALUES, 7)["cost"] == tuple(series)
