"""Seconds of preprocessing by the size of the data: an exponential curve and a long tail."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.laws import Law
from sim.errors import SetupError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """f(x) = a b^x + c with x = ln(rows x columns), in seconds, plus a draw of a lognormal law.

    The floor c of the data holds the least of the noise as well: a fit gives both together, and
    `c` is where the noise begins.

    Attributes:
        a: seconds, above 0.
        b: above 0; above 1 if more data take longer.
        c: seconds, from 0.
        noise: lognormal, in seconds.

    Raises:
        SetupError: a number that cannot be, or a noise of another law.
    """

    a: float
    b: float
    c: float
    noise: Law

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in (self.a, self.b, self.c)):
            raise SetupError("a, b and c of a curve are finite numbers.")
        if self.a <= 0 or self.b <= 0 or self.c < 0:
            raise SetupError("a and b of a curve are above 0, c is from 0.")
        if self.noise.family != "lognorm":
            raise SetupError(f"the noise of a curve is 'lognorm', not '{self.noise.family}'.")

    def expected(self, cells: Floats) -> Floats:
        """Return f of data sets of so many cells (rows x columns), without the noise."""
        return np.asarray(self.a * self.b ** np.log(cells) + self.c)

    def sample(self, rng: np.random.Generator, cells: Floats) -> Floats:
        """Return seconds of preprocessing for each data set."""
        return self.expected(cells) + self.noise.sample(rng, len(cells))

    def told(self) -> dict[str, Any]:
        """Return the curve as JSON says it."""
        return {"a": self.a, "b": self.b, "c": self.c, "noise": self.noise.told()}

    @staticmethod
    def read(told: dict[str, Any]) -> "Curve":
        """Return the curve that `told` was made of.

        Raises:
            SetupError: it is no curve.
        """
        try:
            a, b, c = (float(told[name]) for name in "abc")
            return Curve(a, b, c, Law.read(told["noise"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SetupError(f"a curve needs a, b, c and noise ({error!r}).") from None
