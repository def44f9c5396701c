"""From what a program or a function gave back to measures: numbers and series, by name.

What the objective looks at must be a finite number (or a series of them); a run whose word on it
is anything else has failed, with a sentence. Other things that a program says beside are kept if
they are numbers, and left out if they are not.
"""

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Literal

from assistant.applications.child import KEPT_BYTES, Tail
from assistant.errors import ApplicationError, RunError
from assistant.objective import Measure, Objective, finite
from strategies.parameter import parse_number

WALL = "wall_s"
"""How long a run took; a measure of every own program whose objective asks for it."""

MAX_MEASURES = 1_000
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """Standard output is JSON: the ``whole`` of it, or its ``last_line`` that is not empty."""

    part: Literal["whole", "last_line"] = "last_line"

    def __str__(self) -> str:
        return "JSON, " + ("all of stdout" if self.part == "whole" else "the last line of stdout")

    def of(self, stdout: Tail) -> object:
        """Return the value that was printed. Raises RunError if it is none."""
        if self.part == "whole":
            if stdout.cut:
                raise RunError(
                    f"stdout is {stdout.total:,} bytes; at most {KEPT_BYTES:,} are read as JSON, "
                    "print the measures alone or on the last line"
                )
            return from_json(stdout.text, "stdout")
        lines = [line for line in stdout.text.splitlines() if line.strip()]
        if not lines:
            raise RunError("the program printed nothing on stdout; its last line has the measures")
        if stdout.cut and len(lines) == 1:
            raise RunError(f"the last line of stdout is longer than {KEPT_BYTES:,} bytes")
        return from_json(lines[-1], "the last line of stdout")


@dataclass(frozen=True, slots=True)
class JsonFile:
    """The program writes its measures as JSON into a file; ``path`` may hold placeholders."""

    path: str

    def __str__(self) -> str:
        return f"JSON, the file {self.path}"


@dataclass(frozen=True)
class Patterns:
    """Regular expressions with named groups, one measure each; of several matches the last counts.

    ``^`` and ``$`` match at every line. Every pattern must match.

    Raises:
        ApplicationError: no pattern, one that cannot be compiled, names no group, or a name twice.
    """

    patterns: tuple[str, ...]
    stream: Literal["stdout", "stderr"] = "stdout"

    def __post_init__(self) -> None:
        if not self.patterns:
            raise ApplicationError("give at least one pattern for the measures")
        seen: set[str] = set()
        for pattern in self.patterns:
            try:
                names = set(_compiled(pattern).groupindex)
            except (re.error, RecursionError, OverflowError) as error:
                raise ApplicationError(
                    f"the pattern '{pattern}' is no regular expression: {error}"
                ) from error
            if not names:
                raise ApplicationError(
                    f"the pattern '{pattern}' names no measure; write (?P<name>...) around a number"
                )
            if names & seen:
                raise ApplicationError(
                    f"two patterns name the measure '{min(names & seen)}'; one must do"
                )
            seen |= names

    @property
    def names(self) -> frozenset[str]:
        """The measures."""
        return frozenset(name for p in self.patterns for name in _compiled(p).groupindex)

    def __str__(self) -> str:
        return f"in {self.stream}: " + ", ".join(self.patterns)

    def of(self, text: str) -> dict[str, float | None]:
        """Return the last match's numbers; a group that took no part is unknown.

        Raises:
            RunError: a pattern without a match, or a group that holds no finite number.
        """
        found: dict[str, float | None] = {}
        for pattern in self.patterns:
            last = None
            for last in _compiled(pattern).finditer(text):  # noqa: B007 - the last one
                pass
            if last is None:
                raise RunError(f"nothing in {self.stream} matches '{pattern}'{_ending(text)}")
            for name, given in last.groupdict().items():
                number = None if given is None else parse_number(given.strip())
                if given is not None and number is None:
                    raise RunError(
                        f"the measure '{name}' is {_shown(given)} in {self.stream}; a measure is "
                        "a finite number, with a point for decimals and without thousands signs"
                    )
                found[name] = None if number is None else float(number)
        return found


@lru_cache(1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # that "[[" may once mean something else
        return re.compile(pattern, re.MULTILINE)


def from_json(text: str, where: str) -> object:
    """Return the value of a JSON text. Raises RunError, in one sentence, if it is none."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise RunError(f"{where} is not JSON ({error}): {_shown(text)}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} cannot be read as JSON: {_one_line(str(error))}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key '{name}' occurs twice")
        found[name] = value
    return found


def measures_of(given: object, objective: Objective, giver: str) -> dict[str, Measure]:
    """Return the measures in what was given: a mapping, or one value if the objective names one.

    Names inside a mapping of mappings are joined by a point: ``{"wait": {"mean": 1}}`` is
    ``wait.mean``.

    Args:
        given: a number, a series of numbers, or a mapping of such.
        objective: what must be there; `WALL` is not asked of the giver.
        giver: for sentences, such as ``the program``.

    Raises:
        RunError: nothing, or something that is no measure, where the objective looks.
    """
    wanted = [name for name in objective.measures if name != WALL]
    plain = _plain(given)
    if not isinstance(plain, Mapping):
        if len(wanted) != 1:
            raise RunError(
                f"{giver} gave {_described(plain)}; the objective looks at "
                f"{' and '.join(wanted) or WALL}, so name the measures: a mapping of names to "
                "numbers"
            )
        return {wanted[0]: _measure(wanted[0], plain, giver)}
    try:
        flat = dict(_flat(plain, ""))
    except RecursionError as error:
        raise RunError(f"{giver} gave measures that are nested too deeply") from error
    if len(flat) > MAX_MEASURES:
        raise RunError(f"{giver} gave {len(flat):,} measures; at most {MAX_MEASURES:,} are kept")
    missing = [name for name in wanted if name not in flat]
    if missing:
        known = ", ".join(sorted(flat)[:12]) or "none"
        raise RunError(f"{giver} gave no measure '{missing[0]}'; it gave: {known}")
    found: dict[str, Measure] = {}
    for name, value in flat.items():
        if name in wanted:
            found[name] = _measure(name, value, giver)
        elif _is_measure(value) and _is_text(name):
            found[name] = _lenient(value)
    return found


def so_far(given: object, objective: Objective) -> dict[str, Measure]:
    """Return what can be read of measures that are not final; nothing is refused.

    Numbers that are not finite are unknown (None). More than `MAX_MEASURES` are not read at all.
    """
    plain = _plain(given)
    named: Mapping[object, object] = plain if isinstance(plain, Mapping) else {}
    wanted = [name for name in objective.measures if name != WALL]
    if not isinstance(plain, Mapping) and len(wanted) == 1:
        named = {wanted[0]: plain}
    try:
        flat = dict(_flat(named, ""))
    except RecursionError:
        return {}
    if len(flat) > MAX_MEASURES:
        return {}
    return {name: finite(_lenient(value)) for name, value in flat.items() if _is_measure(value)}


def _flat(given: Mapping[object, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in given.items():
        name = f"{prefix}{key}"
        plain = _plain(value)
        if isinstance(plain, Mapping):
            yield from _flat(plain, f"{name}.")
        else:
            yield name, plain


def _plain(value: object) -> object:
    """Turn NumPy scalars, arrays and the like into plain Python."""
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def _measure(name: str, value: object, giver: str) -> Measure:
    """Return one measure that the objective looks at. Raises RunError if it is none."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        numbers = [_number(_plain(part)) for part in value]
        if all(number is not None and math.isfinite(number) for number in numbers) and numbers:
            return tuple(number for number in numbers if number is not None)
    number = _number(value)
    if number is not None and math.isfinite(number):
        return number
    raise RunError(
        f"{giver} gave {_described(value)} as the measure '{name}'; a measure is a finite number, "
        "or a series of them"
    )


def _is_measure(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return bool(value) and all(_number(_plain(part)) is not None for part in value)
    return value is None or _number(value) is not None


def _is_text(name: str) -> bool:
    """Whether a name can be written; JSON can name half a character, which nothing can keep."""
    return name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name)


def _lenient(value: object) -> Measure:
    if isinstance(value, Sequence):
        numbers = [_number(_plain(part)) for part in value]
        return tuple(number for number in numbers if number is not None)
    return _number(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _described(value: object) -> str:
    if value is None:
        return "nothing (None)"
    if isinstance(value, str):
        return f"the text {_shown(value)}"
    number = _number(value)
    if number is not None:
        return f"{number:g}"
    return f"{_shown(str(value))} ({type(value).__name__})"


def _ending(text: str) -> str:
    lines = last_lines(text)
    return f"; it ends with: {lines}" if lines else ", which is empty"


def last_lines(text: str, count: int = 4, width: int = 160) -> str:
    """Return the last lines that say something, in one line fit for a terminal and a table."""
    lines = [_one_line(line) for line in text[-KEPT_BYTES:].splitlines()[-200:]]
    return " | ".join(line[-width:] for line in [line for line in lines if line][-count:])


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _shown(text: str) -> str:
    line = _one_line(text[:1000])
    return f"'{line[:_SHOWN]}...'" if len(line) > _SHOWN else f"'{line}'"
