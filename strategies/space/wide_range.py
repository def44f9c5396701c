"""Wide ranges: levels that start coarse and become finer near the best, written as people do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from strategies.space.errors import SpaceError

Number: TypeAlias = int | float

COARSE = (5, 6, 7)  # Numbers of coarse levels, of which the one with the roundest levels is taken
ALL_UP_TO = 7  # Most whole numbers of a linear range that are all levels from the beginning
FINEST = 0.01  # Least distance of two levels, as a share of the range, that is divided again
ROUNDING = 1 / 6  # Most that rounding moves a level, as a share of the distance between levels
DIGITS = 17  # Significant digits that tell all floats apart


@dataclass(frozen=True, slots=True)
class WideRange:
    """Range without a step, both ends included; with ``log`` levels have a constant ratio.

    Levels are whole numbers if both ends are. Raises `SpaceError` unless the ends are finite, low
    is below high and, with ``log``, above 0.
    """

    low: Number
    high: Number
    log: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.low, bool) or isinstance(self.high, bool):
            raise SpaceError(f"a range has the ends {self.low!r} and {self.high!r}; give numbers.")
        try:
            is_finite = math.isfinite(float(self.high) - float(self.low))
        except OverflowError:
            is_finite = False
        if not is_finite or not self.low < self.high or (self.log and self.low <= 0):
            above = "0 < low < high" if self.log else "low < high"
            raise SpaceError(
                f"a {'logarithmic ' * self.log}range goes from {self.low} to {self.high}; it needs "
                f"finite ends with {above}."
            )

    @property
    def is_whole(self) -> bool:
        """Whether the levels are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def position(self, value: Number) -> float:
        """Return the place of a value on the scale of the range, 0 at low and 1 at high."""
        low, high = float(self.low), float(self.high)
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def coarse_levels(self) -> tuple[Number, ...]:
        """Return the first levels: both ends, and evenly spaced ones between, rounded.

        5 to 7 of them, as many as give the roundest numbers; all whole numbers of a short range.

        >>> WideRange(1e-5, 1.0, log=True).coarse_levels()
        (1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0)
        >>> WideRange(16, 512, log=True).coarse_levels()
        (16, 32, 64, 128, 256, 512)
        """
        low, high = self.low, self.high
        if isinstance(low, int) and isinstance(high, int) and high - low < ALL_UP_TO:
            return tuple(range(low, high + 1))
        return min((self._evenly(n) for n in COARSE), key=self._roughness)

    def _evenly(self, n: int) -> tuple[Number, ...]:
        inner = (self._written(i / (n - 1), ROUNDING / (n - 1)) for i in range(1, n - 1))
        return tuple(sorted({self.low, self.high, *(v for v in inner if v is not None)}))

    def _roughness(self, levels: tuple[Number, ...]) -> tuple[float, float]:
        """Return the mean number of digits of levels, then how unevenly they are spaced."""
        inner, n = levels[1:-1], len(levels)
        digits = sum(1 if self._is_power(v) else _n_digits(v) for v in inner) / max(len(inner), 1)
        places = enumerate(map(self.position, levels))
        return digits, max(abs(place * (n - 1) - i) for i, place in places)

    def between(self, low: Number, high: Number) -> Number | None:
        """Return the rounded middle of two levels; None if they are too close to be divided.

        >>> WideRange(1e-5, 1.0, log=True).between(0.0001, 0.001)
        0.0003
        """
        first, last = sorted((self.position(low), self.position(high)))
        if last - first < FINEST:
            return None
        middle = self._written((first + last) / 2, ROUNDING * (last - first))
        if middle is None or not first < self.position(middle) < last:
            return None
        return middle

    def _written(self, place: float, tolerance: float) -> Number | None:
        """Return the number with the fewest digits near a place; None if no whole one is."""
        low, high = float(self.low), float(self.high)
        exact = low * (high / low) ** place if self.log else low + place * (high - low)
        for number in self._candidates(exact):
            if self.low < number < self.high and abs(self.position(number) - place) <= tolerance:
                return number
        nearest = round(exact) if self.is_whole else exact
        return nearest if self.low < nearest < self.high else None

    def _candidates(self, exact: float) -> Iterator[Number]:
        if self._is_power(self.low) and self._is_power(self.high) and exact >= 1:
            yield 2 ** round(math.log2(exact))
        for digits in range(DIGITS):
            number = float(f"{exact:.{digits}e}")
            yield round(number) if self.is_whole else number

    def _is_power(self, value: Number) -> bool:
        """Return whether a value is a power of 2, as sizes in computing are."""
        return self.log and isinstance(value, int) and value & (value - 1) == 0


def _n_digits(value: Number) -> int:
    """Return the number of significant digits of a number as written."""
    mantissa = f"{value:.{DIGITS - 1}g}".split("e")[0]
    return len(mantissa.replace(".", "").lstrip("-0").rstrip("0")) or 1
