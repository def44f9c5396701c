"""Log and metrics of the service: one line per event (JSON or text) and Prometheus text.

Texts of clients are escaped, so that no request can forge a line of the log.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pythonjsonlogger.json import JsonFormatter

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]
Field = str | int | float | bool | None

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
LONGEST = 2000  # characters of one text; a traceback may have four times as many

_JSON_LINE = JsonFormatter([], json_ensure_ascii=True)  # the fields of a record, nothing else
_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII without space, quote and equals sign


class ServiceLog:
    """Thread-safe log that writes events to a stream and ignores errors of the stream.

    Fields have the names ``request`` (its id), ``experiment``, ``run``, ``worker``, ``duration_s``,
    and others by event; None is left out. ``shape`` is ``json`` (one object per line) or ``text``,
    ``level`` the lowest that is written, ``clock`` gives seconds since 1970-01-01 UTC.
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
        """Log an event that is needed only for debugging."""
        self.write("debug", event, fields)

    def info(self, event: str, **fields: Field) -> None:
        """Log a normal event."""
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Log an event that an operator should check."""
        self.write("warning", event, fields)

    def error(self, event: str, error: BaseException | None = None, **fields: Field) -> None:
        """Log an internal error with its traceback."""
        self.write("error", event, {**fields, **_traceback(error)})

    def write(self, level: Level, event: str, fields: Mapping[str, Field]) -> None:
        """Write one log line unless its level is below the level of the log."""
        if LEVELS.index(level) < LEVELS.index(self._level):
            return
        line = format_line(self._shape, self._clock(), level, event, fields)
        with self._lock:
            try:
                stream = sys.stderr if self._stream is None else self._stream
                stream.write(f"{line}\n")
                stream.flush()
            except (OSError, ValueError):
                return  # a full disk or a closed pipe of the log must not fail a request


def format_line(
    shape: Format, at_s: float, level: Level, event: str, fields: Mapping[str, Field]
) -> str:
    """Format a log event as one line of printable ASCII.

    >>> format_line("text", 0.0, "info", "run started", {"run": 7, "worker": "a b", "x": None})
    '1970-01-01T00:00:00.000Z info "run started" run=7 worker="a b"'
    """
    moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    texts = {
        name: _cut(value, 4 * LONGEST if name == "traceback" else LONGEST)
        for name, value in fields.items()
        if value is not None
    }
    moment = moment.replace("+00:00", "Z")
    if shape == "json":
        content = {"time": moment, "level": level, "event": _cut(event, LONGEST), **texts}
        return _JSON_LINE.jsonify_log_record(content)  # without a record: a third of the time
    words = [moment, level, _word(_cut(event, LONGEST))]
    return " ".join(words + [f"{name}={_word(value)}" for name, value in texts.items()])


def annotate_request(scope: MutableMapping[str, Any], **fields: Field) -> None:
    """Add fields to a request's log line: ``annotate_request(request.scope, run=7)``."""
    scope.setdefault("state", {}).setdefault("told", {}).update(fields)


def python_logger(log: ServiceLog) -> logging.Logger:
    """Return a standard-library logger that forwards warnings and errors to a service log.

    It is outside the hierarchy of loggers, so that their configuration does not affect it.
    """
    logger = logging.Logger("copperline", logging.WARNING)
    logger.addHandler(LogRelay(log))
    return logger


class LogRelay(logging.Handler):
    """Standard-library logging handler that forwards records to a service log."""

    def __init__(self, log: ServiceLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record to the service log, as an error or (below that level) as a warning."""
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


CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds (s) of the duration of a request."""


class MetricsRegistry(CollectorRegistry):
    """Registry of all metrics of one service, apart from those of other libraries."""

    def __init__(self) -> None:
        super().__init__(auto_describe=True)  # so that no name is registered twice

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics without the times at which their samples were created."""
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric

    def render(self) -> str:
        """Return all metrics as text in the Prometheus format (`CONTENT_TYPE`)."""
        return generate_latest(self).decode()


STATES = ("queued", "running", "completed", "failed", "cancelled")


class ServiceCounters(Collector):
    """Metrics of one service about leases, results, decisions and the run queue.

    ``depth`` returns the runs by state, ``lost`` the expired leases since the service started; both
    are called whenever the metrics are fetched.
    """

    def __init__(
        self,
        metrics: MetricsRegistry,
        depth: Callable[[], Mapping[str, int]],
        lost: Callable[[], float],
    ) -> None:
        self._depth, self._lost = depth, lost
        self._leases = Counter(
            "copperline_leases_total",
            "Requests for a run by outcome: given, again (repeated after a lost answer), "
            "none (no run could start).",
            ("outcome",),
            registry=metrics,
        )
        self._results = Counter(
            "copperline_results_total",
            "Results from workers: completed, failed, again (repeated), refused (too late).",
            ("kind",),
            registry=metrics,
        )
        self._decisions = Counter(
            "copperline_decisions_total",
            "Recorded decisions by their first event; 'none' if nothing changed.",
            ("event",),
            registry=metrics,
        )
        metrics.register(self)

    def describe(self) -> Iterator[Metric]:
        """Yield the followed metrics without samples."""
        yield CounterMetricFamily(
            "copperline_leases_lost_total", "Leases that workers did not renew in time."
        )
        yield GaugeMetricFamily("copperline_runs", "Runs by state.", labels=("state",))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are read when they are fetched."""
        lost, runs = self.describe()
        lost.add_sample("copperline_leases_lost_total", {}, self._lost())
        n_by_state = self._depth()
        for state in STATES:
            runs.add_sample("copperline_runs", {"state": state}, n_by_state.get(state, 0))
        yield lost
        yield runs

    def leased(self, outcome: str) -> None:
        """Count a lease request under its outcome: ``given``, ``again`` or ``none``."""
        self._leases.labels(outcome).inc()

    def resulted(self, kind: str) -> None:
        """Count a run result under its kind, such as ``completed`` or ``refused``."""
        self._results.labels(kind).inc()

    def decided(self, event: str | None) -> None:
        """Count a command under the type of its first event, or ``none`` without events."""
        self._decisions.labels(event or "none").inc()
