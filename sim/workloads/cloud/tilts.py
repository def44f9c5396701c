"""What if: a model told to draw something else than it has learnt.

Bergsma et al., section 7 and its note 5: probabilities are tilted after they were learnt. Each tilt
is a parameter of a model, and nothing is changed where it is as usual:

- ``end_odds`` (1): factor on the odds that a batch is over, `three_stage` alone; 0.1 makes batches
  larger. ``flavour_odds`` (none): factors on the odds of flavours by name.
- ``cores_tilt``, ``memory_tilt`` (0): exponents; the share of a flavour among those that may come
  next is multiplied by its cores, or its memory, to this power. 1 doubles the odds of a flavour of
  twice the cores. Batches are as large as before. A flavour of unknown memory counts as the least.
- ``ending_rate`` (1): factor on the rate at which jobs end at any age: survival to any age is taken
  to this power, so that 0.5 makes the lives of jobs that end at a constant rate twice as long. What
  a batch goes on with is learnt from the lives before, so that these shift, too.
- ``weekend_load`` (1): factor on the arrivals of Saturdays and Sundays.

The rate of all arrivals is the `scale` of a horizon; ten times the arrivals is the paper's 10X.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import Flavour
from sim.workloads.cloud.arrivals import Arrivals
from sim.workloads.cloud.parts import Ground
from sim.workloads.cloud.qualities import NextFlavour
from sim.workloads.generator import checked_number
from sim.workloads.model import Json, Model

Floats = NDArray[np.float64]

MOST_ODDS = 1e6
MOST_TILT = 10.0
WEEKEND = (2, 3)
"""Saturday and Sunday by the clock of a model, whose day 0 is 1 January 1970, a Thursday."""

FOR_ALL: dict[str, Json] = {
    "flavour_odds": {}, "cores_tilt": 0.0, "memory_tilt": 0.0, "ending_rate": 1.0,
    "weekend_load": 1.0,
}  # fmt: skip
"""Parameters of every model of clouds, as usual; a model that lacks one is drawn with it."""

FOR_BATCHES: dict[str, Json] = {"end_odds": 1.0}
"""And of those whose batches end by their tables."""


@dataclass(frozen=True, eq=False)
class Tilts:
    """What a model is told to do otherwise.

    Attributes:
        end_odds: factor on the odds of the end of a batch.
        flavour_odds: float64 [K], factors on the odds of flavours, batches getting larger or
            smaller with them.
        weight: float64 [K], factors on the shares of flavours among each other, at most 1.
        ending_rate: factor on the rate at which jobs end.
        weekend_load: factor on the arrivals of Saturdays and Sundays.
    """

    end_odds: float
    flavour_odds: Floats
    weight: Floats
    ending_rate: float
    weekend_load: float

    def ground(self, ground: Ground) -> Ground:
        """Return the parts of a model with other arrivals and lifetimes."""
        return replace(
            ground,
            arrivals=self.arrivals(ground.arrivals),
            lifetimes=ground.lifetimes.ending(self.ending_rate),
        )

    def arrivals(self, law: Arrivals) -> Arrivals:
        """Return the law of arrivals with other weekends."""
        if self.weekend_load == 1:
            return law
        of_day = law.of_day.copy()
        of_day[list(WEEKEND)] += np.log(self.weekend_load)
        return replace(law, of_day=of_day)

    def next_flavour(self, flavours: NextFlavour) -> NextFlavour:
        """Return the model with other odds of flavours and of the end of a batch."""
        odds = np.append(self.flavour_odds, self.end_odds)
        if (odds == 1).all() and (self.weight == 1).all():
            return flavours
        return flavours.tilted(odds, self.weight)

    def shares(self, share: Floats) -> Floats:
        """Return other shares of flavours that are drawn independently: float64 [K]."""
        found = share * self.flavour_odds * self.weight
        other: Floats = found / found.sum()
        return other


def tilts_of(model: Model, flavours: Sequence[Flavour]) -> Tilts:
    """Return what a model is told to do otherwise.

    Raises:
        WorkloadError: a value is not allowed, or a flavour or its memory is not known.
    """

    def number(name: str, lowest: float, highest: float) -> float:
        told = {**FOR_ALL, **FOR_BATCHES, **model.parameters}[name]
        return checked_number(f"parameter '{name}' of '{model.generator}'", told, lowest, highest)

    weight = np.zeros(len(flavours))
    for name, column in (
        ("cores_tilt", [one.mcpu for one in flavours]),
        ("memory_tilt", [one.mem_bytes for one in flavours]),
    ):
        tilt = number(name, -MOST_TILT, MOST_TILT)
        if tilt != 0:
            weight += tilt * _logs(model, name, column)
    return Tilts(
        end_odds=number("end_odds", 1 / MOST_ODDS, MOST_ODDS),
        flavour_odds=_odds(model, [one.name for one in flavours]),
        weight=np.exp(weight - weight.max()),
        ending_rate=number("ending_rate", 1 / MOST_ODDS, MOST_ODDS),
        weekend_load=number("weekend_load", 1 / MOST_ODDS, MOST_ODDS),
    )


def _logs(model: Model, name: str, column: Sequence[int]) -> Floats:
    told = np.array(column, dtype=np.float64)
    if (told <= 0).all():
        raise WorkloadError(
            f"parameter '{name}' of '{model.generator}' must be 0: no flavour tells its memory."
        )
    logs: Floats = np.log(np.where(told > 0, told, told[told > 0].min()))
    return logs


def _odds(model: Model, names: Sequence[str]) -> Floats:
    told = model.parameters.get("flavour_odds", {})
    if not isinstance(told, dict):
        raise WorkloadError(
            f"parameter 'flavour_odds' of '{model.generator}' is {told!r}; it is a table of "
            "numbers by flavour, and empty if nothing is tilted."
        )
    odds = np.ones(len(names))
    for name, factor in told.items():
        if name not in names:
            raise WorkloadError(
                f"parameter 'flavour_odds' of '{model.generator}' names '{name}'; its "
                f"flavours are {', '.join(names[:20])}."
            )
        what = f"flavour_odds of '{name}' of '{model.generator}'"
        odds[names.index(name)] = checked_number(what, factor, 1 / MOST_ODDS, MOST_ODDS)
    return odds
