"""How the world moves away from what a model has learnt (figure 2 of the PipeSim paper).

The world has a place on a line per pattern. A model loses as much performance as the world has
moved since its training data were taken, so that a training sets the loss to 0, and a world that
comes back brings the performance back.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]

PATTERNS = ("sudden", "gradual", "incremental", "recurring", "adversarial")

_SLOTS = 32
"""Of the transition of a gradual drift, in which old and new world take turns."""

_ATTACK_LENGTHS = 8.0
"""From one attack to the next, in lengths."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One movement of the world.

    Attributes:
        pattern: one of `PATTERNS`. `sudden` moves at once; `gradual` takes turns between old and
            new world, the new one ever more often, for `length_s`; `incremental` moves evenly for
            `length_s`; `recurring` goes and comes back, `length_s` each; `adversarial` erodes with
            the half-life `length_s`, and again with every attack, eight lengths apart.
        at_s: when it begins, in seconds of the simulation.
        size: loss of performance when it is complete, 0 to 1.
        length_s: see above; above 0.
    """

    pattern: str
    at_s: float
    size: float
    length_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownNameError("pattern of drift", self.pattern, PATTERNS)
        if not (0 <= self.size <= 1 and self.length_s > 0):
            raise SetupError("a drift has a size from 0 to 1 and a length above 0 s.")

    def place(self, times_s: Floats) -> Floats:
        """Return where the world is at times, in units of performance."""
        since = np.asarray(times_s, dtype=float) - self.at_s
        begun = since >= 0
        lengths = np.where(begun, since, 0.0) / self.length_s
        if self.pattern == "sudden":
            moved = np.ones_like(lengths)
        elif self.pattern == "incremental":
            moved = np.minimum(lengths, 1.0)
        elif self.pattern == "gradual":
            moved = np.where(lengths >= 1, 1.0, _turns(lengths))
        elif self.pattern == "recurring":
            moved = (np.floor(lengths) % 2 == 0).astype(float)
        else:
            attack = np.floor(lengths / _ATTACK_LENGTHS)
            moved = attack + 1 - 0.5 ** (lengths - attack * _ATTACK_LENGTHS)
        return np.where(begun, self.size * moved, 0.0)

    def loss(self, times_s: Floats, learnt_s: float | Floats) -> Floats:
        """Return the performance lost at times by a model whose data were taken at `learnt_s`."""
        apart = np.abs(self.place(times_s) - self.place(np.asarray(learnt_s, dtype=float)))
        return np.asarray(np.minimum(apart, self.size))


def _turns(lengths: Floats) -> Floats:
    """Return 1 in the slots of the new world: slot k is new if its bits, reversed, are below k.

    Of the slots that read alike both ways the odd ones are new, so that half of all are.
    """
    slot = np.minimum((lengths * _SLOTS).astype(int), _SLOTS - 1)
    turned = np.array([int(f"{k:05b}"[::-1], 2) for k in range(_SLOTS)])
    is_new = (turned < np.arange(_SLOTS)) | ((turned == np.arange(_SLOTS)) & (turned % 2 == 1))
    return np.asarray(is_new[slot].astype(float))
