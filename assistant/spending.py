"""What the runs of an experiment have cost, by the agreed tariff. Pure.

Only what was executed costs: a result from before is free, a failed run is not. Where the cost of
a run is unknown, the mean of the known ones stands for it, and it is said for how many.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from assistant.run import Run
from assistant.sla import Tariff
from strategies import Configuration, Level


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of the runs that are over.

    Args:
        known: sum over the runs whose cost is known, in units of the tariff.
        n_known: how many these are.
        n_unknown: runs that cost something that is not known.
    """

    known: float = 0.0
    n_known: int = 0
    n_unknown: int = 0

    @property
    def total(self) -> float | None:
        """The cost so far, unknown ones at the mean of the known; None if none is known.

        >>> Spending(6.0, 3, 1).total, Spending().total, Spending(0.0, 0, 1).total
        (8.0, 0.0, None)
        """
        if not self.n_unknown:
            return self.known
        if not self.n_known:
            return None
        return self.known * (self.n_known + self.n_unknown) / self.n_known

    @property
    def mean(self) -> float | None:
        """What a run cost on average; None if that is known of none."""
        return self.known / self.n_known if self.n_known else None


def cost_of(
    run: Run, values_of: Callable[[Configuration], Mapping[str, Level]], tariff: Tariff
) -> float | None:
    """Return what a run that is over cost; None if that is unknown, 0 of a result from before.

    A failed run has no measures, so it costs by its duration or is unknown.
    """
    if run.source == "imported":
        return 0.0
    measures = {} if run.outcome is None else run.outcome.measures
    return tariff.cost(values_of(run.configuration), measures, run.duration_s)


def spending(
    runs: Iterable[Run],
    values_of: Callable[[Configuration], Mapping[str, Level]],
    tariff: Tariff,
) -> Spending:
    """Return what the runs that are over have cost together.

    Args:
        runs: of an experiment; those that wait or are under way cost nothing yet.
        values_of: the levels behind a configuration (`ParameterSpace.values`).
        tariff: what a run costs.
    """
    costs = [
        cost_of(run, values_of, tariff)
        for run in runs
        if run.ended_s is not None and run.source != "imported"
    ]
    known = [cost for cost in costs if cost is not None]
    return Spending(math.fsum(known), len(known), len(costs) - len(known))
