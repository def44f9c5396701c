"""Futures: workloads drawn from a model, over all of which a configuration is judged.

A sweep over one log learns that log by heart. Over k futures it asks what a configuration does to
workloads of the same kind. All configurations meet the same futures (common random numbers: Law,
Simulation Modeling and Analysis, 5th edition, section 11.2), so that what differs between two
configurations is what the configurations do.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean, stdev
from typing import Any, Literal, get_args

import numpy as np

from assistant.errors import ApplicationError
from assistant.objective import Measure
from sim.api import Model, Streams, Workload, format_duration, generate

Judge = Literal["mean", "quantile", "worst"]

MOST_FUTURES = 1_000
WEEK_S = 7 * 86_400.0

STATISTICS = ("mean", "worst", "spread")
"""Told of every measure beside the number that judges: ``mean_wait_s.worst`` and so on."""

SAME = ("procs",)
"""Measures that no future changes."""

_MORE_IS_BETTER = "utilisation"
_KEPT_DRAWS = 2


@dataclass(frozen=True, slots=True)
class Futures:
    """Which futures, and how they judge.

    Attributes:
        model: that they are drawn from.
        count: how many, 1 to 1,000.
        duration_s: jobs are submitted within so many seconds of each.
        scale: factor on the rate of arrivals.
        seed: of the futures; the seed of a sweep or of a run has no part in it. More futures of
            the same seed begin with those that there were.
        judge: what the value of a measure is: its ``mean`` over the futures, a ``quantile``, or
            that of the ``worst`` future.
        quantile: of the futures that are no worse, above 0 and up to 1; 0.9 of 10 futures is the
            second worst.
        anew: every run draws futures of its own, from its seed. Then results vary from run to run
            and nothing is common to two configurations.

    Raises:
        ApplicationError: a number out of range.
    """

    model: Model
    count: int = 10
    duration_s: float = WEEK_S
    scale: float = 1.0
    seed: int = 0
    judge: Judge = "mean"
    quantile: float = 0.9
    anew: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_FUTURES:
            raise ApplicationError(
                f"the number of futures is {self.count}; allowed are 1 to {MOST_FUTURES:,}"
            )
        if self.judge not in get_args(Judge):
            raise ApplicationError(
                f"futures judge by 'mean', 'quantile' or 'worst', not by '{self.judge}'"
            )
        if not 0 < self.quantile <= 1:
            raise ApplicationError(
                f"the quantile of the futures is {self.quantile}; allowed are numbers above 0 and "
                "up to 1, such as 0.9"
            )

    def drawn(self, of_run: int | None = None) -> tuple[Workload, ...]:
        """Return the futures; those of one run's own if they are drawn anew.

        Raises:
            SimError: the model cannot be, or nothing falls into the duration.
        """
        own = of_run if self.anew else None
        return _drawn(self.model, self.count, self.duration_s, self.scale, self.seed, own)

    @property
    def digest(self) -> str:
        """SHA-256 of what is in the futures, as hexadecimal text; the same on every machine."""
        told = "\n".join(one.digest for one in self.drawn())
        return hashlib.sha256(told.encode()).hexdigest()

    def judged(self, each: Sequence[Mapping[str, Measure]]) -> dict[str, Measure]:
        """Return one run's measures from those of every future.

        A future that a measure is unknown of, such as the wait of small jobs where there are none,
        has no say in it. The worst is the lowest of a utilisation and the highest of all else; a
        quantile counts from the same side.
        """
        names = dict.fromkeys(name for one in each for name in one)
        found: dict[str, Measure] = {}
        for name in names:
            known = [value for one in each if isinstance(value := one.get(name), float)]
            if name in SAME:
                found[name] = known[0] if known else None
                continue
            told = self._told(name, known)
            found[name] = told[self.judge]
            found |= {f"{name}.{statistic}": told[statistic] for statistic in STATISTICS}
        return found

    def _told(self, name: str, known: Sequence[float]) -> dict[str, float | None]:
        if not known:
            return dict.fromkeys(("quantile", *STATISTICS))
        from_best = sorted(known, reverse=name.startswith(_MORE_IS_BETTER))
        rank = math.ceil(self.quantile * len(known) - 1e-9)
        return {
            "mean": fmean(known),
            "quantile": from_best[rank - 1],
            "worst": from_best[-1],
            "spread": stdev(known) if len(known) > 1 else None,
        }

    def __str__(self) -> str:
        by = f"quantile {self.quantile:g}" if self.judge == "quantile" else self.judge
        faster = "" if self.scale == 1.0 else f" at {self.scale:g} times the arrivals"
        shared = "each run draws its own" if self.anew else "the same for every configuration"
        return (
            f"{self.count:,} of {format_duration(self.duration_s)}{faster}, drawn from a model of "
            f"'{self.model.generator}' with seed {self.seed}, {shared}; a measure is its {by} over "
            "them"
        )


def measured_over_futures(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the measures over futures, from those of one simulation."""
    more = (f"{name}.{s}" for name in names if name not in SAME for s in STATISTICS)
    return (*names, *more)


@lru_cache(maxsize=_KEPT_DRAWS)
def _drawn(
    model: Model, count: int, duration_s: float, scale: float, seed: int, of_run: int | None
) -> tuple[Workload, ...]:
    """Draw; a model is known by its digest, so that the last draws need not be made again."""
    streams = Streams(seed).inside("futures")
    if of_run is not None:
        streams = streams.inside(f"run {of_run}")
    return tuple(
        generate(model, duration_s=duration_s, scale=scale, seed=streams.inside(str(number)))
        for number in range(count)
    )


_COLUMNS = (
    "submit_s", "runtime_s", "requested_s", "procs", "user", "group", "queue", "partition",
    "mem_bytes_per_proc",
)  # fmt: skip


def together(workloads: Sequence[Workload], name: str) -> Workload:
    """Return the jobs of several workloads as one, to see what is in them; not to be simulated."""
    first = workloads[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in workloads]) for name in _COLUMNS
    }
    return Workload.from_arrays(
        **columns,
        name=name,
        max_procs=first.max_procs,
        start_unix_s=first.start_unix_s,
        time_zone=first.time_zone,
        notes=[replace(one, sentence=f"in the first future {one.sentence}") for one in first.notes],
        requested_is_runtime=any(one.requested_is_runtime for one in workloads),
        unsorted="sort",
    )
