"""Lines of the log: one an event, whatever is in it."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.service.observability import (
    LONGEST,
    Format,
    ServiceLog,
    annotate_request,
    format_line,
    python_logger,
)

texts = st.text(max_size=20)
anything = texts | st.integers() | st.booleans() | st.floats(allow_nan=False)


@given(texts, st.dictionaries(st.sampled_from(["run", "worker", "path"]), anything))
def test_no_text_writes_a_line_of_its_own(event: str, fields: dict[str, str]) -> None:
    for shape in ("json", "text"):
        line = format_line(shape, 1e9, "info", event, fields)  # type: ignore[arg-type]
        assert line.isascii()
        assert line.isprintable()
        assert len(line.splitlines()) == 1
    told = json.loads(format_line("json", 1e9, "info", event, fields))
    assert told.pop("time") == "2001-09-09T01:46:40.000Z"
    assert told == {"level": "info", "event": event, **fields}


def test_a_value_in_words_cannot_look_like_another_field() -> None:
    line = format_line("text", 0.0, "info", "request", {"path": "/x run=7", "worker": 'a"b=c'})
    assert line.endswith(r'request path="/x run=7" worker="a\"b=c"')


@pytest.mark.parametrize("shape", ["json", "text"])
def test_levels_below_the_wanted_are_left_out(shape: Format) -> None:
    stream = io.StringIO()
    log = ServiceLog(stream, shape=shape, level="warning", clock=lambda: 0.0)
    log.debug("a")
    log.info("b")
    log.warning("c", run=7, worker=None)
    log.error("d", ValueError("e"))  # noqa: PLE1205 - not a logger of the library
    first, second = stream.getvalue().splitlines()
    assert "c" in first
    assert "worker" not in first
    assert "ValueError: e" in second
    assert "Traceback" not in first


def test_long_texts_are_cut() -> None:
    line = format_line("json", 0.0, "info", "x", {"path": "p" * 10**6})
    assert len(line) < LONGEST + 200


def test_a_log_that_cannot_be_written_harms_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    ServiceLog(stream).info("x")

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    ServiceLog(Full()).info("x")


def test_warnings_of_libraries_come_out_as_lines() -> None:
    stream = io.StringIO()
    logger = python_logger(ServiceLog(stream))
    logger.info("not told")
    logger.warning("Invalid %s\r\n", "request")
    try:
        raise KeyError("k")
    except KeyError:
        logger.exception("Exception in ASGI application\n")
    warning, error = map(json.loads, stream.getvalue().splitlines())
    assert (warning["level"], warning["message"]) == ("warning", "Invalid request")
    assert (error["level"], error["error"]) == ("error", "KeyError: 'k'")


def test_routes_add_to_the_line_of_their_request() -> None:
    scope: dict[str, object] = {}
    annotate_request(scope, run=7)
    annotate_request(scope, worker="a")
    assert scope == {"state": {"told": {"run": 7, "worker": "a"}}}
