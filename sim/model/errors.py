"""The errors that `sim` raises on purpose.

::

    SimError
    ├── UnknownNameError      a policy, engine or rule that is not registered
    ├── DurationError         a text that is not a duration
    ├── SizeError             a text that is not a size of memory
    ├── EngineError           an engine that cannot do what is requested
    │   └── DamagedCodeError  compiled code on the disk that cannot be loaded
    ├── WorkloadError         columns that cannot be a workload
    │   └── TraceError        a log that cannot be read: file, line, field, value, expected
    ├── ScenarioError         a workload and a cluster that do not fit together
    │   └── ClusterError      a cluster that cannot exist
    └── SetupError            a testbed that cannot be set up

A message is one or two sentences: what was given, where, and what is allowed. All errors survive
pickling.
"""

import difflib
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Protocol, TypeVar

LONGEST_SENTENCE = 500


def one_line(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """Return a text as one line that is safe to print in terminals, tables and logs.

    Line ends become spaces, unprintable characters are escaped, and the middle of a text that is
    too long is left out.
    """
    cut = _without_middle(text, longest)
    words = cut if cut.isprintable() else " ".join(cut.splitlines())
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)
    return _without_middle(escaped, longest)


def _without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3]} ... {text[-(longest // 4) :]}"


class SimError(Exception):
    """Base class of the errors that the simulator raises deliberately."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class UnknownNameError(SimError):
    """Error for a name of a policy, engine or rule that is not registered.

    Attributes:
        kind: kind of thing that was looked up, for example ``order``.
        name: the given name.
        allowed_names: every allowed name.
    """

    def __init__(self, kind: str, name: str, allowed_names: Iterable[str]) -> None:
        self.kind, self.name, self.allowed_names = kind, name, tuple(allowed_names)
        super().__init__(kind, name, self.allowed_names)

    def __str__(self) -> str:
        near = difflib.get_close_matches(str(self.name), self.allowed_names, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        return one_line(
            f"no {self.kind} '{self.name}'{hint} Known: {', '.join(self.allowed_names)}."
        )


class Named(Protocol):
    """Entry of a registry."""

    @property
    def name(self) -> str:
        """Name of the entry."""


_Entry = TypeVar("_Entry", bound=Named)


def entry_named(kind: str, name: str, entries: Sequence[_Entry]) -> _Entry:
    """Return the entry of a registry with a name, or raise `UnknownNameError`."""
    for entry in entries:
        if entry.name == name:
            return entry
    raise UnknownNameError(kind, name, (entry.name for entry in entries))


class EngineError(SimError):
    """Error for a request that a simulation engine cannot fulfil."""


class DamagedCodeError(EngineError):
    """Error for compiled code on disk that cannot be loaded and must be compiled again."""


class DurationError(SimError):
    """Error for a text that cannot be read as a duration."""


class SizeError(SimError):
    """Error for a text that cannot be read as a size of memory or of a file."""


class WorkloadError(SimError):
    """Error for columns that do not form a valid workload."""


class TraceError(WorkloadError):
    """Error for a workload log that cannot be read.

    Attributes:
        path: file.
        line: 1-based line, or None if the error concerns the whole file.
        field: name of the field, or None.
        value: the offending text, or None.
        expected: what is allowed, and the rule that would accept the row, if one exists.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        expected: str,
        line: int | None = None,
        field: str | None = None,
        value: str | None = None,
    ) -> None:
        self.path, self.line, self.field = str(path), line, field
        self.value, self.expected = value, expected
        super().__init__(self.path, line, field, value, expected)

    def __str__(self) -> str:
        path = path_text(self.path)
        place = path if self.line is None else f"{path}, line {self.line}"
        value_text = "" if self.value is None else f" is {quoted_text(self.value)}"
        subject = f"{self.field}{value_text}; " if self.field else ""
        return one_line(f"{place}: {subject}{self.expected}")

    def __reduce__(self) -> tuple[object, ...]:
        return _trace_error, (self.path, self.line, self.field, self.value, self.expected)


class ScenarioError(SimError):
    """Error for a scenario that cannot be simulated, such as a job that fits nowhere."""


class ClusterError(ScenarioError):
    """Error for an invalid cluster specification."""


class SetupError(SimError):
    """Error for a testbed that cannot be set up."""


def _trace_error(
    path: str, line: int | None, field: str | None, value: str | None, expected: str
) -> TraceError:
    return TraceError(path, line=line, field=field, value=value, expected=expected)


def path_text(path: str, longest: int = 200) -> str:
    """Shorten a path to one line for a message, keeping the end of a long one."""
    line = "".join(c if c.isprintable() else "?" for c in path)
    return line if len(line) <= longest else f"...{line[-longest:]}"


def quoted_text(value: str, longest: int = 60) -> str:
    """Quote and shorten untrusted text for a message and remove control characters."""
    return repr(value if len(value) <= longest else value[:longest] + "...")
