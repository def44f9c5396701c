"""Named streams of random numbers: what one stage draws never shifts another.

A stream is known by its seed and its name alone. A stage that draws more, less or not at all, or a
stage that is new, changes nothing in the others; so two models that differ in one stage give
futures that differ in that stage only.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from sim.errors import WorkloadError

_N_WORDS = 4


@dataclass(frozen=True)
class Streams:
    """The streams of one seed.

    Attributes:
        seed: a whole number from 0.
        within: names of the stages that this one is part of.

    Raises:
        WorkloadError: another seed.
    """

    seed: int
    within: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise WorkloadError(f"seed is {self.seed!r}; allowed are whole numbers from 0.")

    def of(self, name: str) -> np.random.Generator:
        """Return a new generator at the beginning of the stream of a stage."""
        return np.random.default_rng(self.sequence(name))

    def sequence(self, name: str) -> np.random.SeedSequence:
        """Return the seed of the stream of a stage, for who spawns streams of its own."""
        path = "/".join((*self.within, name)).encode()
        words = np.frombuffer(hashlib.sha256(path).digest()[: 4 * _N_WORDS], dtype="<u4")
        return np.random.SeedSequence(self.seed, spawn_key=tuple(int(word) for word in words))

    def inside(self, name: str) -> "Streams":
        """Return the streams of the parts of a stage."""
        return Streams(self.seed, (*self.within, name))
