"""What does not come, comes twice or cannot be used: one sentence each."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.applications import rest_client
from assistant.applications.measures import measures_of
from assistant.core.errors import RunError
from assistant.core.objective import finite
from tests.assistant.adapter import Reply, program
from tests.assistant.rest.asked import (
    COST,
    DONE,
    VALUES,
    Watching,
    failure,
    following,
    rest,
    running,
)


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
    monkeypatch.setattr(rest_client, "TRIES", 2)
    with program(lambda heard: DONE, listening=False) as there:
        words = failure(rest(there))
    assert f"the program at {there.url} cannot be reached" in words
    assert "is it running?" in words
    assert "cannot be reached" in failure(rest("https://no-such-host.invalid/runs"))


FAILING: dict[str, tuple[Reply, str]] = {
    "its word": (Reply({"failure": "no\nconverg\x1b[31mence"}), "reported: no | converg [31mence"),
    "an error in words": (Reply(b"out of memory", 500, kind="text/plain"), "500; message: out of"),
    "an error in JSON": (Reply({"detail": "x is odd"}, 422), "with 422; message: x is odd"),
    "an error of a page": (Reply(b"<b>" + b"y" * 9000, 500, kind="text/html"), "500; message: y"),
    "an error without words": (Reply(b"", 404), "with 404; it sent no message"),
    "an error that is no text": (Reply(b"\xff\x00\xfe", 500), "with 500"),
    "a redirect": (Reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), "redirects to another"),
    "nothing": (Reply(b"", 204), "answered with 204 instead of 200 or 202"),
    "no JSON": (Reply(b"cost 3"), "is not JSON"),
    "half of JSON": (Reply(b'{"measures": {'), "is not JSON"),
    "an empty answer": (Reply(b""), "is not JSON"),
    "JSON with a mark": (Reply(b'\xef\xbb\xbf{"measures": {"cost": 1}}'), "JSON"),
    "keys twice": (Reply(b'{"measures": {"cost": 1, "cost": 2}}'), "'cost' occurs twice"),
    "JSON that is deep": (Reply(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "cannot be read as"),
    "a number of 5000 digits": (Reply(b'{"measures": {"cost": ' + b"9" * 5000 + b"}}"), "JSON"),
    "a list": (Reply([1]), "JSON that is not an object"),
    "another type": (Reply(b"<html>", kind="text/html"), "answered with text/html"),
    "no type": (Reply({"measures": {"cost": 1}}, kind=""), "answered with no content type"),
    "a word unknown": (Reply({"measure": {"cost": 1}}), "answered with 'measure'; an answer"),
    "both": (Reply({"measures": {"cost": 1}, "failure": "no"}), "reported: no"),
    "a failure that is no text": (Reply({"failure": {"code": 1}}), "failure that is not text"),
    "neither": (Reply({}), "neither measures nor failure"),
    "going on, but where": (running(cost=1), "the run is running, without its address"),
    "a state unknown": (Reply({"state": "done", "measures": {"cost": 1}}), "not 'running'"),
    "no number": (Reply({"measures": {"cost": "1,5"}}), "the text '1,5' as the measure 'cost'"),
    "NaN": (Reply(b'{"measures": {"cost": NaN}}'), "nan as the measure 'cost'"),
    "infinity": (Reply(b'{"measures": {"cost": 1e999}}'), "inf as the measure 'cost'"),
    "true": (Reply({"measures": {"cost": True}}), "as the measure 'cost'"),
    "another measure": (Reply({"measures": {"price": 1}}), "no measure 'cost'; it gave: price"),
    "no UTF-8": (Reply(b'{"failure": "\xff"}'), "not UTF-8, at byte 14"),
    "no HTTP": (Reply(raw=b"220 smtp.example ESMTP\r\n\r\n"), "does not answer in HTTP"),
    "compressed": (Reply(gzip.compress(b"0" * 10**6), headers={"Content-Encoding": "gzip"}),
                   "sent a compressed answer"),
    "too long": (Reply(b" " * (rest_client.MOST_BYTES + 1)), "more than 1,048,576 bytes"),
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


_TEXTS = st.sampled_from(["", "x", "cost", "running", "no\nway\x1b[31m", "\ud800", "y" * 2000])
_NUMBERS = st.integers() | st.floats() | st.just(10**400)
_KEYS = st.sampled_from(["measures", "failure", "state", "cost", "\ud800"])
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(_JSON | st.dictionaries(_KEYS, _JSON, max_size=3))
def test_whatever_an_answer_holds_it_is_measures_or_one_sentence(told: object) -> None:
    run = rest_client._RunRequest("http://127.0.0.1:9000/runs", b"", None)
    answer = rest_client.HttpAnswer(200, {"content-type": "application/json"}, json.dumps(told))
    sentence = ""
    try:
        found = run._told(answer)
        if isinstance(found, rest_client.FinalMessage):
            measures = measures_of(found.measures, COST, "the program")
            assert finite(measures["cost"]) is not None
    except RunError as error:
        sentence = str(error)
    assert sentence.isprintable()
    assert len(sentence) <= 520


@pytest.mark.parametrize("status", [404, 410])
def test_a_run_that_the_program_has_forgotten_has_failed(status: int) -> None:
    with program(following(running(), Reply({"detail": "no such run"}, status))) as there:
        assert f"{status}; message: no such run" in failure(rest(there))
    assert "DELETE" not in there.methods()


def test_a_run_that_is_given_up_is_ended() -> None:
    with program(following(running(), Reply(b"oh"))) as there:
        assert "is not JSON" in failure(rest(there))
    assert there.methods()[-1] == "DELETE"
