"""Log and metrics of the service: one line per event (JSON or text) and Prometheus text.

Texts of clients are escaped, so that no request can forge a line of the log.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]
Field = str | int | float | bool | None

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
LONGEST = 2000  # characters of one text; a traceback may have four times as many

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
        return json.dumps({"time": moment, "level": level, "event": _cut(event, LONGEST), **texts})
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


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds (s) of the duration of a request."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class _Metric(ABC):
    kind = ""

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        for identifier in (name, *labels):
            if not _NAME.fullmatch(identifier):
                raise ValueError(f"'{identifier}' cannot name a metric or a label")
        self.name, self.labels = name, tuple(labels)
        self._text, self._lock = text, lock

    def head(self) -> list[str]:
        text = self._text.replace("\\", r"\\").replace("\n", r"\n")
        return [f"# HELP {self.name} {text}", f"# TYPE {self.name} {self.kind}"]

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the samples as lines of the Prometheus text format."""

    def _key(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(labels) != len(self.labels):
            raise ValueError(f"'{self.name}' has the labels {self.labels}, given {labels}")
        return labels

    def _line(self, labels: tuple[str, ...], value: float, suffix: str = "", le: str = "") -> str:
        pairs = [f'{n}="{_escaped(v)}"' for n, v in zip(self.labels, labels, strict=True)]
        if le:
            pairs.append(f'le="{le}"')
        braces = f"{{{','.join(pairs)}}}" if pairs else ""
        return f"{self.name}{suffix}{braces} {_number(value)}"


class _LabelledNumber(_Metric):
    """Number for each combination of labels, stored here or read when it is fetched."""

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        super().__init__(name, text, labels, lock)
        self._values: dict[tuple[str, ...], float] = {}
        self._read: Callable[[], float | Mapping[tuple[str, ...], float]] | None = None

    def follow(self, read: Callable[[], float | Mapping[tuple[str, ...], float]]) -> None:
        """Take the values from a function that is called at every fetch of the metrics."""
        self._read = read

    def refresh(self) -> None:
        """Update the values from the followed function, outside the lock of the registry."""
        if self._read is None:
            return
        reading = self._read()
        values = reading if isinstance(reading, Mapping) else {(): reading}
        with self._lock:
            self._values = {self._key(labels): value for labels, value in values.items()}

    def lines(self) -> list[str]:
        """Return the samples as lines of the Prometheus text format."""
        return [self._line(labels, value) for labels, value in sorted(self._values.items())]


class Counter(_LabelledNumber):
    """Metric that counts the occurrences of an event and never decreases."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        super().__init__(name, text, labels, lock)
        if not labels:
            self._values[()] = 0.0

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Increase the count for the given label values."""
        if not by >= 0:
            raise ValueError(f"'{self.name}' only grows, given {by}")
        with self._lock:
            key = self._key(labels)
            self._values[key] = self._values.get(key, 0.0) + by


class Gauge(_LabelledNumber):
    """Metric that holds the current value of a quantity."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        """Set the value for the given label values."""
        with self._lock:
            self._values[self._key(labels)] = value

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Add an amount, which may be negative, to the value for the given label values."""
        with self._lock:
            key = self._key(labels)
            self._values[key] = self._values.get(key, 0.0) + by


class Histogram(_Metric):
    """Metric for a distribution of values: counts up to each bound, sum and total count."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        lock: threading.Lock,
        bounds: Sequence[float],
    ) -> None:
        super().__init__(name, text, labels, lock)
        if "le" in labels or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"'{name}': bounds must grow, and no label may be called 'le'")
        self._bounds = tuple(bounds)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Record one value for the given label values."""
        with self._lock:
            key = self._key(labels)
            counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> list[str]:
        """Return the samples as lines of the Prometheus text format."""
        text_lines: list[str] = []
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                total += count
                text_lines.append(self._line(labels, total, "_bucket", _number(bound)))
            text_lines.append(self._line(labels, self._sums[labels], "_sum"))
            text_lines.append(self._line(labels, total, "_count"))
        return text_lines


class MetricsRegistry:
    """Registry of all metrics of one service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, _Metric] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Register and return a new counter with a name that ends in ``_total``."""
        if not name.endswith("_total"):
            raise ValueError(f"a counter's name ends in '_total', given '{name}'")
        metric = Counter(name, text, labels, self._lock)
        self._add(metric)
        return metric

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Register and return a new gauge."""
        metric = Gauge(name, text, labels, self._lock)
        self._add(metric)
        return metric

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS
    ) -> Histogram:
        """Register and return a new histogram whose buckets end at ``bounds`` and infinity."""
        metric = Histogram(name, text, labels, self._lock, bounds)
        self._add(metric)
        return metric

    def _add(self, metric: _Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric '{metric.name}' already")
        self._metrics[metric.name] = metric

    def render(self) -> str:
        """Return all metrics as text in the Prometheus format (`CONTENT_TYPE`)."""
        for metric in self._metrics.values():
            if isinstance(metric, _LabelledNumber):
                metric.refresh()
        with self._lock:
            lines = [line for m in self._metrics.values() for line in (*m.head(), *m.lines())]
        return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


STATES = ("queued", "running", "completed", "failed", "cancelled")


class ServiceCounters:
    """Metrics of one service about leases, results, decisions and the run queue.

    ``depth`` returns the runs by state, ``lost`` the expired leases since the service started.
    """

    def __init__(
        self,
        metrics: MetricsRegistry,
        depth: Callable[[], Mapping[str, int]],
        lost: Callable[[], float],
    ) -> None:
        self._leases = metrics.counter(
            "copperline_leases_total",
            "Requests for a run by outcome: given, again (repeated after a lost answer), "
            "none (no run could start).",
            ("outcome",),
        )
        self._results = metrics.counter(
            "copperline_results_total",
            "Results from workers: completed, failed, again (repeated), refused (too late).",
            ("kind",),
        )
        self._decisions = metrics.counter(
            "copperline_decisions_total",
            "Recorded decisions by their first event; 'none' if nothing changed.",
            ("event",),
        )
        metrics.counter(
            "copperline_leases_lost_total", "Leases that workers did not renew in time."
        ).follow(lost)
        runs = metrics.gauge("copperline_runs", "Runs by state.", ("state",))

        def by_state() -> Mapping[tuple[str, ...], float]:
            n_by_state = depth()
            return {(state,): n_by_state.get(state, 0) for state in STATES}

        runs.follow(by_state)

    def leased(self, outcome: str) -> None:
        """Count a lease request under its outcome: ``given``, ``again`` or ``none``."""
        self._leases.inc(outcome)

    def resulted(self, kind: str) -> None:
        """Count a run result under its kind, such as ``completed`` or ``refused``."""
        self._results.inc(kind)

    def decided(self, event: str | None) -> None:
        """Count a command under the type of its first event, or ``none`` without events."""
        self._decisions.inc(event or "none")
