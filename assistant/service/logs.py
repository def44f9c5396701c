"""What the service tells its operator: one line an event, as JSON or in plain words.

Texts that came from outside are escaped, so that no request can write a line of its own.
"""

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]
Field = str | int | float | bool | None

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
LONGEST = 2000
"""Characters of one text; a traceback may have four times as many."""

_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII without space, quote and equals sign


class Log:
    """Writes events to a stream. Calls may come from any thread; no fault of the stream is raised.

    Fields have the names ``request`` (its id), ``experiment``, ``run``, ``worker``,
    ``duration_s``, and what an event adds; None is left out.

    Args:
        stream: where lines go; standard error if None.
        shape: ``json``, one object a line; or ``text``, plain words.
        level: what is less is not written.
        clock: seconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        shape: Format = "json",
        level: Level = "info",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._shape = shape
        self._level = level
        self._clock = clock
        self._lock = threading.Lock()

    def debug(self, event: str, **fields: Field) -> None:
        """Tell what only a search for a fault needs."""
        self.write("debug", event, fields)

    def info(self, event: str, **fields: Field) -> None:
        """Tell what happened."""
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Tell what an operator may want to look at."""
        self.write("warning", event, fields)

    def error(self, event: str, error: BaseException | None = None, **fields: Field) -> None:
        """Tell a fault of ours, with where it came from."""
        self.write("error", event, {**fields, **_traceback(error)})

    def write(self, level: Level, event: str, fields: Mapping[str, Field]) -> None:
        """Write one line, if its level is wanted."""
        if LEVELS.index(level) < LEVELS.index(self._level):
            return
        line = format_line(self._shape, self._clock(), level, event, fields)
        with self._lock:
            try:
                stream = sys.stderr if self._stream is None else self._stream
                stream.write(f"{line}\n")
                stream.flush()
            except (OSError, ValueError):
                return  # a full disk or a closed pipe of the log harms no request


def format_line(
    shape: Format, at_s: float, level: Level, event: str, fields: Mapping[str, Field]
) -> str:
    """Return one line of printable ASCII.

    >>> format_line("text", 0.0, "info", "run started", {"run": 7, "worker": "a b", "x": None})
    '1970-01-01T00:00:00.000Z info "run started" run=7 worker="a b"'
    """
    moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    told = {
        name: _cut(value, 4 * LONGEST if name == "traceback" else LONGEST)
        for name, value in fields.items()
        if value is not None
    }
    moment = moment.replace("+00:00", "Z")
    if shape == "json":
        return json.dumps({"time": moment, "level": level, "event": _cut(event, LONGEST), **told})
    words = [moment, level, _word(_cut(event, LONGEST))]
    return " ".join(words + [f"{name}={_word(value)}" for name, value in told.items()])


def tell(scope: MutableMapping[str, Any], **fields: Field) -> None:
    """Add to the line of the log about a request: ``tell(request.scope, run=7, worker="a")``."""
    scope.setdefault("state", {}).setdefault("told", {}).update(fields)


def python_logger(log: Log) -> logging.Logger:
    """Return a logger of the standard library whose warnings and errors go to a log.

    It stands in no hierarchy: what is set up elsewhere for other loggers does not reach it.
    """
    logger = logging.Logger("copperline", logging.WARNING)
    logger.addHandler(Relay(log))
    return logger


class Relay(logging.Handler):
    """Passes records of the standard library on to a log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; everything below an error is a warning."""
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, Field] = {"message": record.getMessage().strip(), **_traceback(error)}
        self._log.write(level, "server", fields)


def _traceback(error: BaseException | None) -> dict[str, Field]:
    if error is None:
        return {}
    import traceback

    text = "".join(traceback.format_exception(error))
    return {"error": f"{type(error).__name__}: {error}", "traceback": text[-4 * LONGEST :]}


def _cut(value: Field, longest: int) -> Field:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}..."
    return value


def _word(value: Field) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value)
