"""Parameters and their levels (factors and levels in design of experiments).

A level id is a position in ``Parameter.levels``. Ids are append-only, so a configuration
recorded before an edit of the space still means the same values after it.
"""

from __future__ import annotations

import keyword
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, TypeAlias

from strategies.space.errors import SpaceError, UnknownLevelError
from strategies.space.wide_range import WideRange

Level: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["ordinal", "nominal"]
Family: TypeAlias = Literal["number", "text", "truth"]

KINDS: tuple[Kind, ...] = ("ordinal", "nominal")
MAX_LEVELS = 10_000
_NAME = re.compile(r"\w+(?:[-.]\w+)*")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LISTED_LEVELS = 8


def family_of(value: Level) -> Family:
    """Return the type family (number, text or truth value) of a level."""
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def show(value: Level) -> str:
    """Return a level as text for display, in quotes if it is a string."""
    return f"'{value}'" if isinstance(value, str) else str(value)


def show_values(values: Mapping[str, Level]) -> str:
    """Return values as text, such as "procs=16, order='sjf'"."""
    return ", ".join(f"{name}={show(value)}" for name, value in values.items())


def parse_number(text: str) -> int | float | None:
    """Parse a text as a finite int or float, or return None if it is no number."""
    if len(text) > 400 or NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else number


def float_of(number: int | float) -> float:
    """Return a number as a float, or raise ValueError for an integer that would be rounded.

    >>> float_of(2**53)
    9007199254740992.0
    """
    converted = float(number)
    if converted != number:
        raise ValueError(
            f"{number} would be rounded to {converted:.0f}; give a number of at most 15 digits, or "
            "one with a decimal point"
        )
    return converted


@dataclass(frozen=True, eq=False)
class Parameter:
    """Parameter of an experiment with a finite list of levels.

    Args:
        name: letters, digits and underscores, and dashes and dots between them, such as
            ``small_procs`` or ``optimizer.lr``; exclusions refer to it.
        levels: distinct values of one family: numbers, texts or truth values. The position
            of a value is its level id.
        kind: ``ordinal`` (distances count steps) or ``nominal`` (all levels equally far).
            Inferred by default: numbers are ordinal, everything else is nominal. Ordinal numbers
            are ordered by value whatever their ids; ordinal texts and truth values as given.
        unit: unit for people, such as ``s`` or ``procs``.
        description: one line for people.
        wide: range in which levels may be added near the best (`strategies.steering.refinement`).
        when: condition on other parameters under which the parameter matters, such as
            ``kernel == 'rbf'``; always if empty. See `strategies.space.condition`.
    Raises `SpaceError` for an invalid name, level or kind.

    Not slotted: lookups are cached on first use.
    """

    name: str
    levels: tuple[Level, ...]
    kind: Kind | Literal["inferred"] = "inferred"
    unit: str = ""
    description: str = ""
    wide: WideRange | None = None
    when: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        levels = tuple(_plain(self.name, value) for value in _sequence(self.name, self.levels))
        object.__setattr__(self, "levels", levels)
        _check_levels(self.name, levels)
        if self.kind == "inferred":
            inferred: Kind = "ordinal" if family_of(levels[0]) == "number" else "nominal"
            object.__setattr__(self, "kind", inferred)
        if self.kind not in KINDS:
            raise SpaceError(
                f"parameter '{self.name}' has kind {self.kind!r}; allowed are ordinal and nominal."
            )
        if self.wide is not None and (self.family, self.kind) != ("number", "ordinal"):
            raise SpaceError(
                f"parameter '{self.name}' has a range; its levels must be ordinal numbers."
            )

    @classmethod
    def range(
        cls,
        name: str,
        low: int | float | str,
        high: int | float | str,
        step: int | float | str,
        **more: Any,
    ) -> Parameter:
        """Build the levels low, low + step, ..., high, in exact decimal arithmetic.

        Whole numbers when ``low`` and ``step`` are written as such, floats otherwise.
        Raises `SpaceError` if ``high`` cannot be reached in whole steps.
        """
        first, last, width = (_decimal(name, value) for value in (low, high, step))
        if width <= 0 or last < first:
            raise SpaceError(
                f"parameter '{name}' goes from {low} to {high} in steps of {step}; "
                "the step must be above 0 and high must not be below low."
            )
        n_steps = int((last - first) / width)
        if n_steps + 1 > MAX_LEVELS:
            raise SpaceError(
                f"parameter '{name}' would have {n_steps + 1:,} levels; at most {MAX_LEVELS:,} are "
                "allowed, use a larger step."
            )
        if first + n_steps * width != last:
            raise SpaceError(
                f"parameter '{name}' does not reach {high} from {low} in steps of {step}; "
                f"use {first + n_steps * width} or {first + (n_steps + 1) * width} as its end."
            )
        values = [first + i * width for i in range(n_steps + 1)]
        integral = all(_is_whole(value) for value in (low, step))
        return cls(name, tuple(int(v) if integral else float(v) for v in values), **more)

    @classmethod
    def wide_range(
        cls, name: str, low: int | float, high: int | float, log: bool = False, **more: Any
    ) -> Parameter:
        """Build a parameter with coarse levels from low to high, between which others may come.

        Whole numbers when both ends are. Raises `SpaceError` if the ends are invalid.

        >>> Parameter.wide_range("rate", 1e-4, 0.1, log=True).levels
        (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
        """
        try:
            wide = WideRange(low, high, log)
        except SpaceError as error:
            raise SpaceError(f"parameter '{name}': {error}") from error
        return cls(name, wide.coarse_levels(), wide=wide, **more)

    @classmethod
    def logarithmic(
        cls, name: str, low: float, high: float, count: int, integer: bool = False, **more: Any
    ) -> Parameter:
        """Build a parameter with ``count`` levels from low to high at a constant ratio.

        Floats are rounded to 12 significant digits, whole numbers to the nearest.
        Raises `SpaceError` unless 0 < low < high and 2 <= count, or if rounding to whole
        numbers would merge levels.
        """
        if not (0 < low < high <= sys.float_info.max and 2 <= count <= MAX_LEVELS):
            raise SpaceError(
                f"parameter '{name}' has low={low}, high={high}, count={count}; a logarithmic "
                f"range needs 0 < low < high and between 2 and {MAX_LEVELS:,} levels."
            )
        ratio = high / low
        inner = [low * ratio ** (i / (count - 1)) for i in range(1, count - 1)]
        values: list[Level] = [low, *(float(f"{value:.12g}") for value in inner), high]
        if integer:
            values = [round(float(value)) for value in values]
        n_distinct = len(set(values))
        if n_distinct < count:
            raise SpaceError(
                f"parameter '{name}' has only {n_distinct} distinct levels between {low} and "
                f"{high}, not {count}; ask for fewer levels."
            )
        return cls(name, tuple(values), **more)

    @property
    def family(self) -> Family:
        """Type family (number, text or truth value) of all levels."""
        return family_of(self.levels[0])

    @property
    def n_levels(self) -> int:
        """Number of levels, including closed ones."""
        return len(self.levels)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Rank of every level id (0 is lowest): by value for ordinal numbers, else as given."""
        if self.kind == "nominal" or self.family != "number":
            return tuple(range(self.n_levels))
        ranks = [0] * self.n_levels
        for rank, level_id in enumerate(sorted(range(self.n_levels), key=self.levels.__getitem__)):
            ranks[level_id] = rank
        return tuple(ranks)

    @cached_property
    def _ids(self) -> dict[Level, int]:
        return {value: level_id for level_id, value in enumerate(self.levels)}

    def level_id(self, value: Level) -> int:
        """Return the id of the level with a value, where 4 equals 4.0 but True is not 1.

        Raises `UnknownLevelError`, with the nearest level.
        """
        plain = _unwrapped(value)
        if isinstance(plain, str | int | float) and family_of(plain) == self.family:
            level_id = self._ids.get(plain)
            if level_id is not None:
                return level_id
        raise UnknownLevelError(
            f"parameter '{self.name}' has no level {value!r}{self._nearest(plain)}; "
            f"its levels are {self.listed}."
        )

    def parse(self, text: str) -> Level:
        """Return the existing level that a text from the command line denotes.

        Raises `UnknownLevelError` if it is no level (truth values are written true and false).
        """
        value: Level | None = text
        if self.family == "number":
            value = parse_number(text.strip())
        elif self.family == "truth":
            value = {"true": True, "false": False}.get(text.strip().lower())
        return self.levels[self.level_id(text if value is None else value)]

    def read(self, text: str) -> Level:
        """Parse a text as a value of the parameter's type, which need not be a level.

        Raises `SpaceError` if it is not of the type of the levels.
        """
        value: Level | None = text.strip()
        if self.family == "number":
            value = parse_number(text.strip())
        elif self.family == "truth":
            value = {"true": True, "false": False}.get(text.strip().lower())
        if value is None:
            expected = "numbers" if self.family == "number" else "true and false"
            raise SpaceError(
                f"'{text}' cannot be a level of parameter '{self.name}', whose levels are "
                f"{expected}."
            )
        return value

    def with_level(self, value: Level) -> Parameter:
        """Return a copy of the parameter with one more level."""
        return replace(self, levels=(*self.levels, value))

    @property
    def added(self) -> tuple[Level, ...]:
        """Levels that were added to the coarse ones of a range without a step, oldest first."""
        return () if self.wide is None else self.levels[len(self.wide.coarse_levels()) :]

    @property
    def listed(self) -> str:
        """The levels as text by rank, such as "1, 2, 4"; of many levels the first and the last."""
        ordered = sorted(range(self.n_levels), key=self.ranks.__getitem__)
        texts = [show(self.levels[i]) for i in ordered[:_LISTED_LEVELS]]
        if self.n_levels > _LISTED_LEVELS:
            texts[-1:] = ["...", f"{show(self.levels[ordered[-1]])} ({self.n_levels} levels)"]
        return ", ".join(texts)

    def _nearest(self, value: object) -> str:
        if isinstance(value, str):
            close = get_close_matches(value, [str(level) for level in self.levels], n=1)
            return f", did you mean '{close[0]}'?" if close else ""
        if self.family != "number" or isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        if isinstance(value, float) and not math.isfinite(value):
            return ""
        numbers = [n for n in self.levels if isinstance(n, int | float)]
        try:
            nearest = min(numbers, key=lambda n: abs(n - value))
        except OverflowError:  # a whole number too large for a float
            return ""
        return f" (nearest: {show(nearest)})"

    def _identity(self) -> tuple[object, ...]:
        return (
            self.name, self.family, self.levels, self.kind, self.unit, self.description, self.wide,
            self.when,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Compare all fields; the levels (0, 1) and (False, True) are different."""
        if not isinstance(other, Parameter):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a parameter.

    >>> [is_name(text) for text in ("size", "learning-rate", "optimizer.lr", "-lr", "a b", "in")]
    [True, True, True, False, False, False]
    """
    return (
        _NAME.fullmatch(text) is not None
        and text.partition("-")[0].partition(".")[0].isidentifier()
        and not keyword.iskeyword(text)
        and unicodedata.normalize("NFKC", text) == text
    )


def argument_name(name: str) -> str:
    """Return a parameter's name as a Python identifier, its dashes and dots as underscores."""
    return name.replace("-", "_").replace(".", "_")


def _check_name(name: str) -> None:
    if not is_name(str(name)):
        plain = re.sub(r"[^\w.-]+", "_", str(name), flags=re.ASCII).strip("_.-")
        other = f"; write '{plain}'" if is_name(plain) else ""
        raise SpaceError(
            f"a parameter is named {name!r}; a name starts with a letter or underscore, "
            "continues with letters, digits and underscores, with single dashes and dots between "
            f"them, and is not a Python word such as 'in'{other}."
        )


def _sequence(name: str, levels: Iterable[Level]) -> Iterable[Level]:
    if isinstance(levels, str | bytes) or not isinstance(levels, Iterable):
        raise SpaceError(f"parameter '{name}' has levels {levels!r}; give a list of values.")
    return levels


def _unwrapped(value: object) -> object:
    """Return the plain Python value of a NumPy scalar, any other value unchanged."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def _plain(name: str, value: object) -> Level:
    plain = _unwrapped(value)
    if not isinstance(plain, str | int | float):
        raise SpaceError(
            f"parameter '{name}' has the level {value!r}; a level is a number, a text or a truth "
            "value."
        )
    if isinstance(plain, float) and not math.isfinite(plain):
        raise SpaceError(f"parameter '{name}' has the level {plain}; levels must be finite.")
    if isinstance(plain, str) and (plain.strip() != plain or not plain.isprintable() or not plain):
        raise SpaceError(
            f"parameter '{name}' has the level {plain!r}; a text level is not empty, has no space "
            "at its ends and no control characters."
        )
    return 0.0 if plain == 0 and isinstance(plain, float) else plain


def _check_levels(name: str, levels: tuple[Level, ...]) -> None:
    if not levels:
        raise SpaceError(f"parameter '{name}' has no levels; give at least one.")
    if len(levels) > MAX_LEVELS:
        raise SpaceError(f"parameter '{name}' has {len(levels):,} levels; at most {MAX_LEVELS:,}.")
    odd = next((v for v in levels if family_of(v) != family_of(levels[0])), None)
    if odd is not None:
        raise SpaceError(
            f"parameter '{name}' mixes {show(levels[0])} and {show(odd)}; all levels must be "
            "numbers, or all texts, or all truth values."
        )
    distinct: set[Level] = set()
    for value in levels:
        if value in distinct:
            raise SpaceError(
                f"parameter '{name}' has the level {show(value)} twice; levels must be distinct "
                "(1 and 1.0 are the same number)."
            )
        distinct.add(value)


def _is_whole(value: int | float | str) -> bool:
    return isinstance(parse_number(value) if isinstance(value, str) else _unwrapped(value), int)


def _decimal(name: str, value: int | float | str) -> Decimal:
    plain = _unwrapped(value)
    if isinstance(plain, bool) or parse_number(str(plain)) is None:
        raise SpaceError(f"parameter '{name}' has a range with {value!r}; give finite numbers.")
    return Decimal(str(plain))
