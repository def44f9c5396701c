"""Measures of a run: numbers and series by name, read from the output of a program or a function.

A measure that the objective needs must be a finite number or a series of finite numbers, else
the run has failed. Other outputs are kept if they are numbers and left out if they are not.
Measures come from stdout or stderr (`JsonOutput`, `Patterns`) or from a file (`JsonFile`,
`MeasuredFile`); `MeasureFollower` reads the intermediate results of a running program.
"""

import json
import math
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Literal

import re2

from assistant.applications.benchmark_files import MOST_BYTES, FileFormat, benchmark_measures
from assistant.applications.child_process import KEPT_BYTES as MAX_BYTES
from assistant.applications.child_process import StreamTail
from assistant.core.errors import ApplicationError, RunError
from assistant.core.objective import Measure, Objective, finite
from assistant.core.ports import RunControl
from strategies.space.parameter import float_of, parse_number

WALL = "wall_s"  # Measure with the wall-clock seconds of a run; taken if the objective asks for it
RESULT = "result"  # Name of the one number that a program gives, where no name is required

MAX_MEASURES = 1_000
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """Measures that a program prints on its standard output.

    The whole output is JSON, or its last non-empty line is a number, JSON or ``NAME: NUMBER``.
    """

    part: Literal["whole", "last_line"] = "last_line"

    def __str__(self) -> str:
        return "JSON, all of stdout" if self.part == "whole" else "the last line of stdout"

    def of(self, stdout: StreamTail) -> object:
        """Return the value on standard output. Raises RunError if it cannot be read."""
        if self.part == "whole":
            if stdout.cut:
                raise RunError(
                    f"stdout is {stdout.total:,} bytes; at most {MAX_BYTES:,} are read as JSON; "
                    "print the measures alone or on the last line"
                )
            return from_json(stdout.text, "stdout")
        lines = [line for line in stdout.text.splitlines() if line.strip()]
        if not lines:
            raise RunError("the program printed nothing on stdout; print measures on its last line")
        if stdout.cut and len(lines) == 1:
            raise RunError(f"the last line of stdout is longer than {MAX_BYTES:,} bytes")
        return _from_line(lines[-1], "the last line of stdout")


_PAIR = re.compile(r"[\s,;|]*([A-Za-z_][\w./-]*)\s*[:=]\s*([^\s,;|]+)", re.ASCII)
_SPECIAL = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


def numbers_by_name(line: str) -> dict[str, float] | None:
    """Return the numbers of a line that is all ``NAME: NUMBER``; None for another line.

    ``=`` separates as ``:`` does; commas, semicolons and bars may stand between two. Raises
    RunError if a name occurs twice.

    >>> numbers_by_name("loss=0.31, accuracy: 9e-1"), numbers_by_name("loss: 0.31 of 2")
    ({'loss': 0.31, 'accuracy': 0.9}, None)
    """
    numbers: dict[str, float] = {}
    end = 0
    while end < len(line) and (match := _PAIR.match(line, end)):
        name, text = match[1], match[2]
        number = _SPECIAL.get(text.lower(), parse_number(text))
        if number is None:
            return None
        if name in numbers:
            raise RunError(f"the last line of stdout names '{name}' twice: {_shown(line)}")
        numbers[name] = number
        end = match.end()
    return numbers if numbers and not line[end:].strip(" \t\r,;|") else None


def _from_line(line: str, where: str) -> object:
    """Return the value of a line. Raises RunError if it is neither JSON nor ``NAME: NUMBER``."""
    numbers = numbers_by_name(line)
    if numbers is not None:
        return numbers
    try:
        return from_json(line, where)
    except RunError as error:
        is_json = line.lstrip().startswith(("{", "["))
        if is_json or not isinstance(error.__cause__, json.JSONDecodeError):
            raise
        raise RunError(
            f"{where} is neither a number nor JSON nor NAME: NUMBER: {_shown(line)}"
        ) from error.__cause__


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file, with optional placeholders in its path, to which a program writes measures.

    Args:
        format: what the file holds; the file of a benchmark tool gives times in seconds.
    """

    path: str
    format: FileFormat = "json"

    def __str__(self) -> str:
        return f"{'JSON' if self.format == 'json' else self.format}, the file {self.path}"


MATCH_S = 60.0  # Longest time for matching the output of a run without a time limit

LEAST_MATCH_S = 1.0  # Time for matching the output of a run that ended just before its limit

MOST_STEPS = 2_000
"""Largest program of a compiled pattern; the time of a search grows with it."""


@dataclass(frozen=True)
class Patterns:
    """Regular expressions whose named groups give measures, from the last match in the output.

    ``^`` and ``$`` match at every line. Every pattern must match. The syntax is Python's without
    what needs backtracking (lookaround, backreferences): a search takes time in proportion to the
    output, whatever the pattern (RE2, https://github.com/google/re2/wiki/Syntax).

    Raises:
        ApplicationError: no pattern, one that cannot be compiled, no named group, or a name twice.
    """

    patterns: tuple[str, ...]
    stream: Literal["stdout", "stderr"] = "stdout"

    def __post_init__(self) -> None:
        if not self.patterns:
            raise ApplicationError("give at least one pattern for the measures")
        all_names: set[str] = set()
        for pattern in self.patterns:
            names = set(_compiled(pattern).groupindex)
            if not names:
                raise ApplicationError(
                    f"the pattern '{pattern}' names no measure; write (?P<name>...) around a number"
                )
            if names & all_names:
                raise ApplicationError(
                    f"two patterns name the measure '{min(names & all_names)}'; use only one"
                )
            all_names |= names

    @property
    def names(self) -> frozenset[str]:
        """The names of the measures."""
        return frozenset(name for p in self.patterns for name in _compiled(p).groupindex)

    def __str__(self) -> str:
        return f"in {self.stream}: " + ", ".join(self.patterns)

    def of(self, text: str, limit_s: float = MATCH_S) -> dict[str, float | None]:
        """Return the measures in each pattern's last match.

        Raises RunError without a match, or if matching takes longer than ``limit_s``.
        """
        until_s = time.monotonic() + limit_s
        output = text.encode("utf-8", "replace")
        measures: dict[str, float | None] = {}
        for pattern in self.patterns:
            last = None
            for last in _compiled(pattern).finditer(output):  # noqa: B007 - the last one
                if time.monotonic() > until_s:
                    raise RunError(
                        f"matching '{pattern}' in {len(output):,} bytes of {self.stream} was "
                        "stopped at the limit of the run; print less, or a pattern that ends on "
                        "the same line"
                    )
            if last is None:
                raise RunError(f"nothing in {self.stream} matches '{pattern}'{_ending(text)}")
            for name, group in _groups_of(last).items():
                number = None if group is None else parse_number(group.strip())
                if group is not None and number is None:
                    raise RunError(
                        f"the measure '{name}' is {_shown(group)} in {self.stream}; a measure is "
                        "a finite number with a decimal point and without thousands separators"
                    )
                try:
                    measures[name] = None if number is None else float_of(number)
                except ValueError as error:
                    raise RunError(f"the measure '{name}' is {error}") from None
        return measures

    def matches(self, text: str, limit_s: float) -> dict[str, float]:
        """Return the last number of each measure in an intermediate output.

        Matching ends after ``limit_s`` seconds, with the numbers until there.
        """
        until_s = time.monotonic() + limit_s
        output = text.encode("utf-8", "replace")
        numbers: dict[str, float] = {}
        for pattern in self.patterns:
            for match in _compiled(pattern).finditer(output):
                for name, group in _groups_of(match).items():
                    number = None if group is None else parse_number(group.strip())
                    if number is not None and float(number) == number:  # else the end says why
                        numbers[name] = float(number)
                if time.monotonic() > until_s:
                    return numbers
        return numbers


def _groups_of(match: re2._Match) -> dict[str, str | None]:
    """Return the texts of the named groups of a match in bytes; None for one without a part."""
    return {
        name: None if group is None else group.decode("utf-8", "replace")
        for name, group in match.groupdict().items()
    }


@lru_cache(1000)
def _compiled(pattern: str) -> re2._Regexp:
    """Compile a pattern, or raise ApplicationError.

    Python's compiler checks the syntax, so that a pattern means the same in both; RE2 matches.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that "[[" may once mean another thing
            re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise ApplicationError(
            f"the pattern '{pattern}' is not a regular expression: {error}"
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(f"(?m){pattern}", options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ApplicationError(
            f"the pattern '{pattern}' cannot be matched in bounded time ({reason}): RE2 has no "
            "lookaround, backreferences or possessive repeats; write the text around the number "
            "outside of (?P<name>...)"
        ) from error
    if compiled.programsize > MOST_STEPS:
        raise ApplicationError(
            f"the pattern '{pattern}' has {compiled.programsize:,} steps when compiled; at most "
            f"{MOST_STEPS:,} are allowed, use smaller repeats"
        )
    return compiled


def from_json(text: str, where: str) -> object:
    """Return the value that a JSON text contains. Raises RunError if the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise RunError(f"{where} is not JSON ({error}): {_shown(text)}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} cannot be read as JSON: {_one_line(str(error))}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for name, value in pairs:
        if name in mapping:
            raise ValueError(f"the key '{name}' occurs twice")
        mapping[name] = value
    return mapping


def measures_of(output: object, objective: Objective, giver: str) -> dict[str, Measure]:
    """Return the measures in the output of a program: a mapping, or the only required measure.

    A number is called `RESULT` if no measure but `WALL` is required.

    Names in nested mappings are joined by a point: ``{"wait": {"mean": 1}}`` is ``wait.mean``.

    Args:
        output: a number, a series of numbers, or a mapping of such.
        objective: objective whose measures are required, except `WALL`.
        giver: source of the output in error messages, such as ``the program``.

    Raises:
        RunError: a required measure is missing, or is not a number or a series.
    """
    required = [name for name in objective.measures if name != WALL]
    plain = _plain(output)
    if not isinstance(plain, Mapping):
        if not required and _number(plain) is not None:
            return {RESULT: _measure(RESULT, plain, giver)}
        if len(required) != 1:
            raise RunError(
                f"{giver} gave {_described(plain)}; the objective uses "
                f"{' and '.join(required) or WALL}; return a mapping of measure names to "
                "numbers"
            )
        return {required[0]: _measure(required[0], plain, giver)}
    try:
        flat = dict(_flat(plain, ""))
    except RecursionError as error:
        raise RunError(f"{giver} gave measures that are nested too deeply") from error
    if len(flat) > MAX_MEASURES:
        raise RunError(f"{giver} gave {len(flat):,} measures; at most {MAX_MEASURES:,} are kept")
    missing = [name for name in required if name not in flat]
    if missing:
        available = ", ".join(sorted(flat)[:12]) or "none"
        raise RunError(f"{giver} gave no measure '{missing[0]}'; it gave: {available}")
    measures: dict[str, Measure] = {}
    for name, value in flat.items():
        if name in required:
            measures[name] = _measure(name, value, giver)
        elif _is_measure(value) and _is_text(name):
            measures[name] = _lenient(value)
    return measures


def intermediate_measures(output: object, objective: Objective) -> dict[str, Measure]:
    """Return the valid measures in an intermediate result, without ever raising an error.

    Numbers that are not finite become None (unknown). With more than `MAX_MEASURES`, none is read.
    """
    plain = _plain(output)
    mapping: Mapping[object, object] = plain if isinstance(plain, Mapping) else {}
    required = [name for name in objective.measures if name != WALL]
    if not isinstance(plain, Mapping) and len(required) == 1:
        mapping = {required[0]: plain}
    try:
        flat = dict(_flat(mapping, ""))
    except RecursionError:
        return {}
    if len(flat) > MAX_MEASURES:
        return {}
    return {name: finite(_lenient(value)) for name, value in flat.items() if _is_measure(value)}


def _flat(mapping: Mapping[object, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        plain = _plain(value)
        if isinstance(plain, Mapping):
            yield from _flat(plain, f"{name}.")
        else:
            yield name, plain


def _plain(value: object) -> object:
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def _measure(name: str, value: object, giver: str) -> Measure:
    """Return one required measure. Raises RunError if it is not a number or a series."""
    _refuse_rounding(name, value, giver)
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
    """Return whether a name can be stored: JSON allows lone surrogates, UTF-8 does not."""
    return name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name)


def _lenient(value: object) -> Measure:
    if isinstance(value, Sequence):
        numbers = [_number(_plain(part)) for part in value]
        return tuple(number for number in numbers if number is not None)
    return _number(value)


def _number(value: object) -> float | None:
    """Return a value as a float; None if it is no number, or an integer that would be rounded."""
    if isinstance(value, bool) or not isinstance(value, int | Real | Decimal):
        return None
    try:
        return float_of(value) if isinstance(value, int) else float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


def _refuse_rounding(name: str, value: object, giver: str) -> None:
    """Raise RunError for an integer that would be rounded, also in a series."""
    for number in value if isinstance(value, list | tuple) else (value,):
        plain = _plain(number)
        if isinstance(plain, int):
            try:
                float_of(plain)
            except OverflowError:
                return  # it is refused as infinite
            except ValueError as error:
                raise RunError(f"{giver} gave the measure '{name}' as {error}") from None


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
    """Return the last non-empty lines of a text, joined into one line."""
    lines = [_one_line(line) for line in text[-MAX_BYTES:].splitlines()[-200:]]
    return " | ".join(line[-width:] for line in [line for line in lines if line][-count:])


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _shown(text: str) -> str:
    line = _one_line(text[:1000])
    return f"'{line[:_SHOWN]}...'" if len(line) > _SHOWN else f"'{line}'"


_Mark = tuple[int, int, int, int]


class MeasuredFile:
    """A file to which a run must write its measures; a file from before the run is ignored.

    Its modification time is set back before the run, so that even an equal file, rewritten in the
    same instant, is recognised as new.
    """

    def __init__(self, path: Path, file_format: FileFormat = "json") -> None:
        self._path, self._format = path, file_format
        with suppress(OSError):
            if stat.S_ISREG(path.stat().st_mode):
                os.utime(path, ns=(0, 0))
        self._before = self._seen = self._mark()

    def _mark(self) -> _Mark | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def news(self) -> object | None:
        """Return the JSON value if the file is valid and new since the last call, or None."""
        mark = self._mark()
        if mark is None or mark in (self._before, self._seen):
            return None
        self._seen = mark
        try:
            return self.value()
        except RunError:
            return None

    def value(self) -> object:
        """Return the JSON value of the file. Raises RunError if the run wrote no valid file."""
        where = f"the file '{self._path}'"
        try:
            status = self._path.stat()
            if self._mark() == self._before:
                raise RunError(f"{where} was not written by this run; it is older")
            if not stat.S_ISREG(status.st_mode):
                raise RunError(f"{where} is not a regular file")
            most = MAX_BYTES if self._format == "json" else MOST_BYTES
            if status.st_size > most:
                raise RunError(
                    f"{where} is {status.st_size:,} bytes; at most {most:,} are read as JSON"
                )
            text = self._path.read_bytes().decode("utf-8-sig", "replace")
        except FileNotFoundError as error:
            raise RunError(f"the program did not write {where}") from error
        except (OSError, ValueError) as error:
            raise RunError(f"{where} cannot be read: {error}") from error
        return benchmark_measures(from_json(text, where), self._format, where)


REPORT_S = 0.25

KEPT_BYTES = 1 << 16  # Number of bytes kept of the output since the last intermediate result


class MeasureFollower:
    """An observer that reports the intermediate results of a running program to a run control.

    Args:
        reading: where the measures are; ignored if there is a ``file``.
        oversight: receiver of the intermediate results; decides whether the run must end.
    """

    def __init__(
        self,
        reading: object,
        objective: Objective,
        oversight: RunControl,
        file: MeasuredFile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objective, self._oversight, self._file, self._clock = (
            objective, oversight, file, clock,
        )  # fmt: skip
        self._patterns = reading if isinstance(reading, Patterns) else None
        lines = isinstance(reading, JsonOutput) and reading.part == "last_line"
        stream = self._patterns.stream if self._patterns is not None else "stdout"
        self._stream = stream if lines or self._patterns is not None else ""
        self._fresh = bytearray()
        self._matched: dict[str, Measure] = {}
        self._told: Mapping[str, Measure] = {}
        self._next_s = clock()

    def on_output(self, stream: str, data: bytes) -> None:
        """Store output of the program that may contain an intermediate result."""
        if stream == self._stream:
            self._fresh += data
            if len(self._fresh) > 2 * KEPT_BYTES:
                del self._fresh[:-KEPT_BYTES]

    def wants_end(self) -> bool:
        """Report new measures, a few times a second, and return whether the run must end."""
        now_s = self._clock()
        if now_s >= self._next_s:
            measures = self._measured()
            if measures and measures != self._told:
                self._told = measures
                self._next_s = now_s + REPORT_S
                self._oversight.report(measures)
        return self._oversight.wants_end()

    def _measured(self) -> Mapping[str, Measure]:
        if self._file is not None:
            news = self._file.news()
            return {} if news is None else intermediate_measures(news, self._objective)
        if not self._fresh:
            return {}
        lines, line_end, rest = bytes(self._fresh).rpartition(b"\n")
        if not line_end:
            return {}
        self._fresh = bytearray(rest)
        text = lines.decode("utf-8", "replace")
        return self._last_object(text) if self._patterns is None else self._last_matches(text)

    def _last_object(self, text: str) -> Mapping[str, Measure]:
        """Return the measures on the last line that has some.

        A line of names and numbers is one only if it has a measure of the objective.
        """
        for line in reversed(text.splitlines()):
            with suppress(RunError):
                if line.lstrip().startswith("{"):
                    return intermediate_measures(from_json(line, "a line"), self._objective)
                numbers = numbers_by_name(line)
                if numbers is not None and not numbers.keys().isdisjoint(self._objective.measures):
                    return intermediate_measures(numbers, self._objective)
        return {}

    def _last_matches(self, text: str) -> Mapping[str, Measure]:
        if self._patterns is not None:
            self._matched.update(self._patterns.matches(text, REPORT_S))
        return dict(self._matched)
