"""Numbers that a monitoring system fetches, in Prometheus's text format.

Reference: Prometheus, "Exposition formats", text format 0.0.4.
"""

import math
import re
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds for how long a request takes (s)."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class _Metric(ABC):
    kind = ""

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        for one in (name, *labels):
            if not _NAME.fullmatch(one):
                raise ValueError(f"'{one}' cannot name a metric or a label")
        self.name, self.labels = name, tuple(labels)
        self._text, self._lock = text, lock

    def head(self) -> list[str]:
        text = self._text.replace("\\", r"\\").replace("\n", r"\n")
        return [f"# HELP {self.name} {text}", f"# TYPE {self.name} {self.kind}"]

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the samples."""

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


class _Single(_Metric):
    """One number for each combination of labels, kept here or asked for when it is told."""

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        super().__init__(name, text, labels, lock)
        self._values: dict[tuple[str, ...], float] = {}
        self._read: Callable[[], float | Mapping[tuple[str, ...], float]] | None = None

    def follow(self, read: Callable[[], float | Mapping[tuple[str, ...], float]]) -> None:
        """Ask ``read`` whenever the metrics are fetched.

        Args:
            read: returns the number, or the numbers by the values of the labels.
        """
        self._read = read

    def refresh(self) -> None:
        """Ask what it follows, outside any lock of ours."""
        if self._read is None:
            return
        told = self._read()
        values = told if isinstance(told, Mapping) else {(): told}
        with self._lock:
            self._values = {self._key(labels): value for labels, value in values.items()}

    def lines(self) -> list[str]:
        """Return its samples."""
        return [self._line(labels, value) for labels, value in sorted(self._values.items())]


class Counter(_Single):
    """How often something has happened; only grows."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str], lock: threading.Lock) -> None:
        super().__init__(name, text, labels, lock)
        if not labels:
            self._values[()] = 0.0

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Add to the count for these values of its labels."""
        if not by >= 0:
            raise ValueError(f"'{self.name}' only grows, given {by}")
        with self._lock:
            key = self._key(labels)
            self._values[key] = self._values.get(key, 0.0) + by


class Gauge(_Single):
    """How much there is now."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        """Say how much there is for these values of its labels."""
        with self._lock:
            self._values[self._key(labels)] = value

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Add to it; ``by`` may be negative."""
        with self._lock:
            key = self._key(labels)
            self._values[key] = self._values.get(key, 0.0) + by


class Histogram(_Metric):
    """How values are spread: counts up to each bound, their sum and number."""

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
        """Count one value for these values of its labels."""
        with self._lock:
            key = self._key(labels)
            counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> list[str]:
        """Return its samples."""
        told: list[str] = []
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                total += count
                told.append(self._line(labels, total, "_bucket", _number(bound)))
            told.append(self._line(labels, self._sums[labels], "_sum"))
            told.append(self._line(labels, total, "_count"))
        return told


class Metrics:
    """The metrics of one service, passed to whoever counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, _Metric] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Return a new counter; its name ends in ``_total``."""
        if not name.endswith("_total"):
            raise ValueError(f"a counter's name ends in '_total', given '{name}'")
        metric = Counter(name, text, labels, self._lock)
        self._add(metric)
        return metric

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Return a new gauge."""
        metric = Gauge(name, text, labels, self._lock)
        self._add(metric)
        return metric

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS
    ) -> Histogram:
        """Return a new histogram with these upper bounds; infinity is added."""
        metric = Histogram(name, text, labels, self._lock, bounds)
        self._add(metric)
        return metric

    def _add(self, metric: _Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric '{metric.name}' already")
        self._metrics[metric.name] = metric

    def render(self) -> str:
        """Return all of them as text, of the type `CONTENT_TYPE`."""
        for metric in self._metrics.values():
            if isinstance(metric, _Single):
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
