"""Errors of the strategies package: one sentence that says what, where and what is allowed.

StrategyError
├── SpaceError                a space, parameter or edit that cannot be
│   ├── UnknownParameterError a name that is no parameter of the space
│   ├── UnknownLevelError     a value that is no level of its parameter
│   ├── NotAllowedError       a configuration that is closed or excluded
│   └── ExclusionError        a condition that cannot be read or evaluated
├── ObservationError          a result that cannot be learnt from
├── OptionError               an option of a strategy, or a number of suggestions
├── AnalysisError             an analysis that is too large, or asks for what is not there
├── UnknownStrategyError      a name that is no strategy
└── TableError                a measured table that cannot be read
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_SENTENCE = 500


def one_line(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """Return a sentence fit for a terminal, a table and a log, whatever was put into it.

    What people gave may hold line ends, control characters and a million of anything: line ends
    become spaces, what cannot be printed is escaped, and the middle of what is too long left out.
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
    """Base of every error raised on purpose by this package."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class SpaceError(StrategyError):
    """A parameter space, or an edit of one, that cannot be."""


class UnknownParameterError(SpaceError):
    """A name that is no parameter of the space."""


class UnknownLevelError(SpaceError):
    """A value that is no level of its parameter."""


class NotAllowedError(SpaceError):
    """A configuration with a closed level, or one that an exclusion forbids."""


class ExclusionError(SpaceError):
    """A condition that cannot be read, or cannot be evaluated for a configuration."""


class ObservationError(StrategyError):
    """A result that strategies cannot learn from."""


class OptionError(StrategyError):
    """An option of a strategy that does not exist or is out of bounds."""


class AnalysisError(StrategyError):
    """An analysis that is too large, or asks for what is not there."""


class UnknownStrategyError(StrategyError):
    """A name that is no registered strategy."""


class TableError(StrategyError):
    """A measured table that cannot be read; names file, line, field and value."""


def hint(name: str, valid_names: Iterable[str]) -> str:
    """Return "; did you mean 'x'? Known: x, y." for the end of an unknown-name sentence."""
    names = sorted(valid_names)
    close = get_close_matches(name, names, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else ";"
    return f"{guess} Known: {', '.join(names) if names else 'none'}."
