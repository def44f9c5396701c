"""Errors of the strategies package: each message is one sentence with the problem and its place.

StrategyError
├── SpaceError                an invalid space, parameter or edit
│   ├── UnknownParameterError a name that is no parameter of the space
│   ├── UnknownLevelError     a value that is no level of its parameter
│   ├── NotAllowedError       a configuration that is closed or excluded
│   └── ExclusionError        a condition that cannot be read or evaluated
├── ObservationError          an invalid result
├── OptionError               an option of a strategy, or a number of suggestions
├── AnalysisError             an analysis that is too large or impossible
├── UnknownStrategyError      a name that is no strategy
└── TableError                a measured table that cannot be read
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_SENTENCE = 500


def one_line(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """Return a text as one printable line of limited length, for terminals, tables and logs.

    Line ends become spaces, unprintable characters are escaped, and the middle of a long text is
    left out.
    """
    cut = _without_middle(text, longest)
    words = cut if cut.isprintable() else " ".join(cut.splitlines())
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)
    return _without_middle(escaped, longest)


def _without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3]} ... {text[-(longest // 4) :]}"


class StrategyError(Exception):
    """Base class of the errors that the strategies package raises deliberately."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class SpaceError(StrategyError):
    """Error for an invalid parameter space or an invalid change to a space."""


class UnknownParameterError(SpaceError):
    """Error for a name that is not a parameter of the space."""


class UnknownLevelError(SpaceError):
    """Error for a value that is not a level of its parameter."""


class NotAllowedError(SpaceError):
    """Error for a configuration that has a closed level or is excluded."""


class ExclusionError(SpaceError):
    """Error for an exclusion condition that cannot be parsed or evaluated."""


class ObservationError(StrategyError):
    """Error for an invalid result, from which strategies cannot learn."""


class OptionError(StrategyError):
    """Error for an option of a strategy that does not exist or is out of bounds."""


class AnalysisError(StrategyError):
    """Error for an analysis that is too large or impossible with the available runs."""


class UnknownStrategyError(StrategyError):
    """Error for a name that no registered strategy has."""


class TableError(StrategyError):
    """Error for an unreadable measured table, citing file, line, field and value."""


def hint(name: str, valid_names: Iterable[str]) -> str:
    """Return the end of an error message: the valid name nearest to ``name``, and all names."""
    names = sorted(valid_names)
    close = get_close_matches(name, names, n=1)
    guess = f"; did you mean '{close[0]}'? Known" if close else "; known"
    return f"{guess}: {', '.join(names) if names else 'none'}."
