"""Numbers, units, durations and times as text for people."""

import datetime
import re
from collections.abc import Sequence

from strategies import Level

_NEGATIVE = re.compile(r"-\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII)
_NOTHING_MORE = re.compile(r" 00 (h|min|s)$")
_DIGITS = 4  # Digits of a computed number; one with at most `_TYPED_DIGITS` was typed by a person
_TYPED_DIGITS = 6
_DURATIONS = ((86_400.0, "d", 3_600.0, "h"), (3_600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s"))


def number(value: float | None) -> str:
    """Format a number with up to four significant digits, as an integer from 10,000 on.

    >>> number(12345.6), number(0.012346), number(3.0), number(None)
    ('12,346', '0.01235', '3', 'unknown')
    """
    if value is None:
        return "unknown"
    if abs(value) >= 10_000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def cell(text: str) -> str:
    """Escape a text for a CSV cell, so that no spreadsheet evaluates the text as a formula.

    >>> cell("=HYPERLINK(1)"), cell("-cmd"), cell("-1.5"), cell("fcfs")
    ("'=HYPERLINK(1)", "'-cmd", '-1.5', 'fcfs')
    """
    live = text.startswith(("=", "+", "-", "@", "\t", "\r"))
    line = "".join(c if c.isprintable() else " " for c in text)  # a cell stays one cell
    return f"'{line}" if live and not _NEGATIVE.fullmatch(text) else line


def quantity(value: float | None, unit: str) -> str:
    """Format a number with its unit, for seconds also in days, hours and minutes.

    >>> quantity(9000.0, "s"), quantity(3.5, "s"), quantity(0.5, "")
    ('9,000 s (2 h 30 min)', '3.5 s', '0.5')
    """
    if value is None:
        return "unknown"
    text = f"{number(value)} {unit}".strip()
    if unit != "s" or abs(value) < 120:
        return text
    for size, large, small_size, small in _DURATIONS:
        if abs(value) >= size:
            large_units, rest = divmod(round(abs(value) / small_size), round(size / small_size))
            sign = "-" if value < 0 else ""
            return f"{text} ({sign}{large_units} {large} {rest:02d} {small})"
    return text


def spoken(value: float | None, unit: str) -> str:
    """Format a number with its unit, long seconds as a duration only.

    >>> spoken(9000.0, "s"), spoken(3.5, "s"), spoken(0.30219, "")
    ('2 h 30 min', '3.5 s', '0.3022')
    """
    text, _, words = quantity(value, unit).partition(" (")
    return words.removesuffix(")") or text


def between(low: float, high: float, unit: str) -> str:
    """Format the ends of an interval, the unit once, long seconds as durations.

    An end that four digits of the other one cannot show is 0.

    >>> between(9000.0, 9600.0, "s"), between(2.5, 3.0, "s"), between(1.0, 2.5, "")
    ('2 h 30 min to 2 h 40 min', '2.5 to 3 s', '1 to 2.5')
    >>> between(7.6e-14, 51.18, "")
    '0 to 51.18'
    """
    finest = max(abs(low), abs(high)) / 10**_DIGITS
    low, high = (0.0 if abs(end) < finest else end for end in (low, high))
    first, last = spoken(low, unit), spoken(high, unit)
    if all(text.endswith(f" {unit}") and text.count(" ") == 1 for text in (first, last)):
        first = first.removesuffix(f" {unit}")
    return f"{first} to {last}"


def duration(seconds: float) -> str:
    """Format a duration in seconds for display, such as "2 h 30 min".

    >>> duration(9000.0), duration(3.5), duration(1e-05)
    ('2 h 30 min', '3.5 s', 'below 0.1 s')
    """
    if seconds < 0.1:
        return "below 0.1 s"
    return spoken(seconds, "s")


def lasting(seconds: float) -> str:
    """Format an approximate duration in seconds for display, such as "about 2 h 32 min".

    >>> lasting(0.2), lasting(87.3), lasting(9100.0)
    ('less than a second', 'about 87 s', 'about 2 h 32 min')
    """
    return "less than a second" if seconds < 1 else f"about {duration(round(seconds))}"


def unit_of(measure: str) -> str:
    """Return the unit that a measure name ends in: "s" for the suffix ``_s``, else an empty text.

    >>> unit_of("mean_wait_s"), unit_of("utilisation")
    ('s', '')
    """
    return "s" if measure.endswith("_s") else ""


_COUNTED = frozenset(
    ("cores", "jobs", "nodes", "processors", "procs", "runs", "servers", "threads")
)
"""Units that lose their last letter after 1."""

INACTIVE = "—"
"""Text in place of the level of an inactive parameter."""


def level(value: Level | None) -> str:
    """Format a level as text, with whole numbers without decimals; None is inactive.

    >>> level(3.0), level("easy"), level(0.5), level(None)
    ('3', 'easy', '0.5', '—')
    """
    if value is None:
        return INACTIVE
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def setting(value: Level | None, unit: str) -> str:
    """Format a level with its unit, for seconds exactly and also as a readable duration.

    >>> setting(432000, "s"), setting("easy", ""), setting(0.00316227766017, "")
    ('432000 s (5 d)', 'easy', '0.003162')
    """
    words = level_words(value, unit)
    if unit != "s" or value is None or isinstance(value, str | bool) or abs(value) < 120:
        return words
    return f"{level(value)} s ({words})"


def level_words(value: Level | None, unit: str) -> str:
    """Format a level for people: long seconds as a duration, long decimals with four digits.

    >>> level_words(32_400_000, "s"), level_words(0.000316227766017, ""), level_words(0.12345, "")
    ('375 d', '0.0003162', '0.12345')
    >>> level_words(129_600, "s"), level_words(16, "procs"), level_words(45, "s")
    ('1 d 12 h', '16 procs', '45 s')
    >>> level_words(1, "processors")
    '1 processor'
    """
    return INACTIVE if value is None else _level_words(value, unit, _DIGITS)


def level_texts(levels: Sequence[Level], unit: str) -> tuple[str, ...]:
    """Format the levels of a parameter for people, each differently, without a short unit.

    >>> level_texts((0.1, 0.000316227766017), ""), level_texts((3_600, 5_400), "s")
    (('0.1', '0.0003162'), ('1 h', '1 h 30 min'))
    >>> level_texts((1.00001234, 1.00002234), "")
    ('1.00001', '1.00002')
    """
    for digits in range(_DIGITS, 17):
        texts = tuple(_level_words(value, unit if unit == "s" else "", digits) for value in levels)
        if len(set(texts)) == len(texts):
            return texts
    return tuple(level(value) for value in levels)


def _level_words(value: Level, unit: str, digits: int) -> str:
    if isinstance(value, str | bool):
        return str(value)
    if unit == "s" and abs(value) >= 120:
        words = duration(value) if digits == _DIGITS else f"{value:,.{digits}g} s"
        return _NOTHING_MORE.sub("", words)
    text = level(value)
    if isinstance(value, float) and sum(c.isdigit() for c in text.lstrip("-0.")) > _TYPED_DIGITS:
        text = f"{value:.{digits}g}"
    return f"{text} {unit.removesuffix('s') if text == '1' and unit in _COUNTED else unit}".strip()


def moment(at_s: float) -> str:
    """Format a time in seconds since 1970-01-01 as a date and time in UTC.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%d %H:%M} UTC"
