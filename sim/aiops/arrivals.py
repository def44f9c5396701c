"""When pipelines arrive: at random, by hour and weekday, or as they did once.

Times are seconds since the beginning of the simulation, which lies at an hour of a week. `random`
and `realistic` are section V-A3 of the PipeSim paper. There a gap is drawn whole from the cell in
which it begins, so that a long gap of a quiet night reaches into the morning and the quick hours
lose arrivals. `calendar` is ours: at every border of an hour what is left of the gap is stretched
to the means of the next cell, so that each hour gets what it should.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.aiops.laws import Law
from sim.errors import SetupError, UnknownNameError
from sim.workloads.streams import Streams

Floats = NDArray[np.float64]

HOUR_S = 3600.0
CELLS = 168
"""Hours of a week, counted from Monday midnight."""

PROFILES = ("random", "realistic", "calendar", "replay")

BLOCK = 4096
_DRAWN = 512


@dataclass(frozen=True)
class Arrivals:
    """Laws of inter-arrival times in seconds.

    Attributes:
        everywhere: one law over all gaps, for `random`.
        cells: a law per hour of the week from Monday midnight, for `realistic` and `calendar`;
            empty if there are none.
        recorded: times of arrival in seconds from the beginning of a record, for `replay`; rising.

    Raises:
        SetupError: a number of cells other than 0 or 168, or a record that does not rise from 0.
    """

    everywhere: Law
    cells: tuple[Law, ...] = ()
    recorded: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if len(self.cells) not in (0, CELLS):
            raise SetupError(f"there are {len(self.cells)} laws of hours; allowed are 0 and 168.")
        times = np.asarray(self.recorded, dtype=float)
        if len(times) and not (times[0] >= 0 and np.all(np.diff(times) >= 0)):
            raise SetupError("recorded arrivals rise, from 0 s.")

    def hourly(self) -> Floats:
        """Return the expected arrivals in each hour of the week, float64 [168]."""
        laws = self.cells or (self.everywhere,) * CELLS
        return np.array([HOUR_S / law.mean for law in laws])


def arrival_blocks(
    arrivals: Arrivals,
    streams: Streams,
    *,
    profile: str = "realistic",
    factor: float = 1.0,
    start_s: float = 0.0,
    until_s: float = math.inf,
) -> Iterator[Floats]:
    """Yield times of arrival in rising blocks, until the end.

    Args:
        arrivals: the laws.
        streams: of this stage; every cell draws from one of its own.
        profile: one of `PROFILES`.
        factor: on every gap: 2 makes arrivals half as many.
        start_s: seconds since Monday midnight at which time 0 lies.
        until_s: no arrival at or after it.

    Raises:
        UnknownNameError: no such profile.
        SetupError: a factor that is not above 0, or a profile without its laws.
    """
    if profile not in PROFILES:
        raise UnknownNameError("arrival profile", profile, PROFILES)
    if not (math.isfinite(factor) and factor > 0):
        raise SetupError(f"the interarrival factor is {factor!r}; allowed are numbers above 0.")
    if profile in ("realistic", "calendar") and not arrivals.cells:
        raise SetupError(
            f"profile '{profile}' needs laws by hour; there is one law only: 'random'."
        )
    if profile == "replay" and not arrivals.recorded:
        raise SetupError("profile 'replay' needs recorded arrivals; there are none.")
    times = _times(arrivals, streams, profile, factor, start_s, until_s)
    block: list[float] = []
    for time in times:
        if time >= until_s:
            break
        block.append(time)
        if len(block) == BLOCK:
            yield np.array(block)
            block = []
    if block:
        yield np.array(block)


def _times(
    arrivals: Arrivals,
    streams: Streams,
    profile: str,
    factor: float,
    start_s: float,
    until_s: float,
) -> Iterator[float]:
    if profile == "replay":
        return (time * factor for time in arrivals.recorded)
    if profile == "random":
        return _renewal(_Draws(arrivals.everywhere, streams.of("gaps")), factor)
    draws = [_Draws(law, streams.of(f"hour {cell}")) for cell, law in enumerate(arrivals.cells)]
    if profile == "realistic":
        return _realistic(draws, factor, start_s)
    means = [law.mean for law in arrivals.cells]
    if not all(map(math.isfinite, means)):
        raise SetupError("profile 'calendar' needs laws with a mean in every hour.")
    return _calendar(draws, means, factor, start_s, until_s)


class _Draws:
    """Draws of a law one by one, made in blocks."""

    def __init__(self, law: Law, rng: np.random.Generator) -> None:
        self._law, self._rng = law, rng
        self._left: list[float] = []

    def __call__(self) -> float:
        if not self._left:
            self._left = self._law.sample(self._rng, _DRAWN).tolist()
        return self._left.pop()


def _renewal(draw: _Draws, factor: float) -> Iterator[float]:
    time = 0.0
    while True:
        time += draw() * factor
        yield time


def _realistic(draws: Sequence[_Draws], factor: float, start_s: float) -> Iterator[float]:
    time = 0.0
    while True:
        time += draws[int((time + start_s) // HOUR_S) % CELLS]() * factor
        yield time


def _calendar(
    draws: Sequence[_Draws],
    means: Sequence[float],
    factor: float,
    start_s: float,
    until_s: float,
) -> Iterator[float]:
    hour, within = divmod(start_s, HOUR_S)
    time, cell, border = 0.0, int(hour) % CELLS, HOUR_S - within
    while time < until_s:
        left = draws[cell]() * factor
        while time + left >= border:
            following = (cell + 1) % CELLS
            left = (time + left - border) * means[following] / means[cell]
            time, cell, border = border, following, border + HOUR_S
            if time >= until_s:
                return
        time += left
        yield time
