"""Named random streams of an episode, so that each decision consumes its own.

The seed sequence of a stream is ``SeedSequence(entropy, spawn_key=(replication, number))``: what
`numpy.random.SeedSequence.spawn` makes of ``entropy``, first once per replication, then once per
purpose. One generator is made of it per episode (`numpy.random.default_rng`: PCG64), and only its
``random()`` is called: a float64 in [0, 1).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Purpose = Literal["insight", "intuition", "advice", "session", "bootstrap"]

NUMBERS: dict[Purpose, int] = {
    "insight": 0,
    "intuition": 1,
    "advice": 2,
    "session": 3,
    "bootstrap": 4,
}


@dataclass(frozen=True, slots=True)
class Streams:
    """The random streams of one episode.

    Args:
        entropy: of the cell of a study: whole numbers from 0 on.
        replication: which of its independent repetitions, from 0 on.
    """

    entropy: tuple[int, ...]
    replication: int = 0

    def sequence(self, purpose: Purpose) -> np.random.SeedSequence:
        """Return the seed sequence of a purpose."""
        key = (self.replication, NUMBERS[purpose])
        return np.random.SeedSequence(self.entropy, spawn_key=key)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        """Return a generator at the beginning of a stream."""
        return np.random.default_rng(self.sequence(purpose))

    @property
    def session_seed(self) -> int:
        """The seed of the experiment: 63 bits from which the session makes its own streams."""
        return int(self.sequence("session").generate_state(1, np.uint64)[0] >> np.uint64(1))


def below(u: float, n: int) -> int:
    """Return the whole number from 0 to ``n`` - 1 that a draw from [0, 1) stands for.

    >>> below(0.0, 3), below(0.5, 3), below(1 - 2**-53, 3)
    (0, 1, 2)
    """
    return min(int(u * n), n - 1)
