"""Full and fractional factorial designs as strategies.

The full factorial runs in random order, so that a drift during the experiment does not look like
an effect (Montgomery, section 1.3), or in standard order, the last parameter moving fastest.

The fractional factorial starts with two levels of every parameter:

1. the fraction of fewest runs that has the chosen resolution (`strategies.doe.two_level`);
2. a centre point: ordinal parameters with a level in between at the middle one, the others low;
3. the fold-over: the fraction with all signs reversed, which frees main effects from two-factor
   interactions; if those are the same runs, with the sign of the first parameter reversed, which
   frees its interactions (Montgomery, section 8.6);
4. the rest of the full factorial of these two levels;
5. all other configurations, by balanced batches of levels (`strategies.samplers.latin_hypercube`).

References: Montgomery, Design and Analysis of Experiments, 8th ed., sections 1.3 and 5.3, chapters
6 and 8; Box, Hunter & Hunter 2005, Statistics for Experimenters, 2nd ed., chapter 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from strategies.doe.main_effects import Knowledge
from strategies.doe.two_level import (
    RESOLUTIONS,
    RegularFraction,
    Signs,
    TwoLevelDesign,
    two_level_design,
)
from strategies.samplers.latin_hypercube import balanced_design
from strategies.samplers.strategy import Batch, StrategyEntry, StrategyOption, Suggestion
from strategies.space.enumeration import below, permuted
from strategies.space.errors import OptionError
from strategies.space.parameter_space import Configuration, ParameterSpace

RunOrder: TypeAlias = Literal["random", "standard"]
RUN_ORDERS: tuple[RunOrder, ...] = get_args(RunOrder)


@dataclass(frozen=True, slots=True)
class FullFactorial:
    """Strategy that proposes every allowed configuration once.

    Args:
        order: ``random``, or ``standard`` with the last parameter moving fastest and levels in
            their given order.
    Raises `OptionError` for another order.
    """

    order: RunOrder = "random"

    def __post_init__(self) -> None:
        if self.order not in RUN_ORDERS:
            raise OptionError(
                f"full_factorial has order={self.order!r}; allowed are {', '.join(RUN_ORDERS)}."
            )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "full_factorial"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose the next ``n`` configurations of the full factorial."""
        batch = Batch(self.name, n, knowledge, rng)
        total = _total(knowledge.space)
        if self.order == "standard":
            _add_in_standard_order(batch, knowledge.space, total)
            return batch.suggestions
        number = sum(map(knowledge.space.is_allowed, knowledge.taken))
        while batch.missing:
            number += 1
            reason = f"Run {number}{total} of the full factorial, in random order."
            if not batch.add_random("design", reason):
                break
        return batch.suggestions


def _add_in_standard_order(batch: Batch, space: ParameterSpace, total: str) -> None:
    for place, configuration in enumerate(space.configurations(), start=1):
        if batch.missing == 0:
            return
        if configuration not in batch.unavailable:
            reason = f"Place {place}{total} in the standard order of the full factorial."
            batch.add(configuration, "design", reason)


def _total(space: ParameterSpace) -> str:
    n_allowed = space.count_allowed()
    return "" if n_allowed is None else f" of {n_allowed:,}"


DEFAULT_RESOLUTION = 3
CORNERS = 1 << 16  # Most combinations of two levels that are enumerated; of more, as many are drawn

COUNTED = 1 << 12  # Largest design whose excluded runs are counted for the reason


@dataclass(frozen=True, slots=True)
class FractionalFactorial:
    """Strategy that proposes a two-level fraction, then its centre point, then its fold-over.

    Args:
        resolution: 3 separates main effects from each other, 4 also from two-factor
            interactions, 5 also those from each other.
    Raises `OptionError` for another resolution.
    """

    resolution: int = DEFAULT_RESOLUTION

    def __post_init__(self) -> None:
        if type(self.resolution) is not int or self.resolution not in RESOLUTIONS:
            raise OptionError(
                f"fractional_factorial has resolution={self.resolution!r}; allowed are 3, 4 and 5."
            )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "fractional_factorial"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose the next ``n`` configurations of the fractional factorial."""
        batch = Batch(self.name, n, knowledge, rng)
        corners = Corners(knowledge.space)
        for configuration, reason in _planned(corners, self.resolution, rng):
            if batch.missing == 0:
                return batch.suggestions
            if batch.is_free(configuration):
                batch.add(configuration, "design", reason)
        rest = balanced_design(
            knowledge.space, batch.missing, rng, batch.unavailable, batch.unavailable
        )
        for configuration in rest:
            reason = (
                "Balances how often each level is run, since no free combination of lowest and "
                "highest levels was found."
            )
            batch.add(configuration, "design", reason)
        return batch.suggestions


class Corners:
    """Corners of a space: configurations of only the lowest and highest open levels."""

    def __init__(self, space: ParameterSpace) -> None:
        self._space = space
        self._levels = space.open_by_rank
        self.varying = tuple(i for i, ids in enumerate(self._levels) if len(ids) > 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters with two or more open levels, as factors A, B, C, ..."""
        return tuple(self._space.names[i] for i in self.varying)

    def at(self, signs: Signs) -> Configuration:
        """Return the corner configuration for a sign (-1 lowest, +1 highest) per factor."""
        level_ids = [ids[0] for ids in self._levels]
        for position, sign in zip(self.varying, signs, strict=True):
            level_ids[position] = self._levels[position][0 if sign < 0 else -1]
        return self._space.canonical(tuple(level_ids))

    def centre(self) -> Configuration | None:
        """Return the centre point, or None if no ordinal parameter has a middle level."""
        level_ids = [ids[0] for ids in self._levels]
        for position in self.varying:
            ids = self._levels[position]
            if self._space.parameters[position].kind == "ordinal" and len(ids) > 2:
                level_ids[position] = ids[len(ids) // 2]
        centre = self._space.canonical(tuple(level_ids))
        return None if centre == self.at((-1,) * len(self.varying)) else centre

    def is_excluded(self, configuration: Configuration) -> bool:
        """Return whether an exclusion forbids a corner configuration."""
        return not self._space.is_allowed(configuration)


def _planned(
    corners: Corners, resolution: int, rng: np.random.Generator
) -> Iterator[tuple[Configuration, str]]:
    """Yield the runs of steps 1 to 4 with their reasons, free or not, some of them twice."""
    k = len(corners.varying)
    if k == 0:
        return
    design = two_level_design(k, resolution)
    place = f"of {design.n_runs} of the {design.name}"
    details = f" ({design.details}; factors in the parameters' order)" if design.details else ""
    missing = _missing(corners, design)
    for run in permuted(rng, design.n_runs):
        yield corners.at(design.signs(run)), f"Run {run + 1} {place}{details}{missing}."
    centre = corners.centre()
    if centre is not None:
        yield centre, f"Centre point of the {design.name}: the middle levels, to see curvature."
    if isinstance(design, RegularFraction) and not design.n_generators:
        return
    flips, fold_text, why = _fold(corners, own_fold=design.is_own_fold)
    for run in permuted(rng, design.n_runs):
        signs = tuple(s * flip for s, flip in zip(design.signs(run), flips, strict=True))
        yield corners.at(signs), f"Run {run + 1} {place} folded over ({fold_text}), {why}."
    n_corners = 1 << k
    reason = f"Completes the 2^{k} factorial of lowest and highest levels."
    few = n_corners <= CORNERS
    order = permuted(rng, n_corners) if few else (below(rng, n_corners) for _ in range(CORNERS))
    for number in order:
        yield corners.at(tuple(1 if number >> i & 1 else -1 for i in range(k))), reason


def _fold(corners: Corners, *, own_fold: bool) -> tuple[Signs, str, str]:
    """Return the sign changes of the fold-over, their description and their purpose."""
    k = len(corners.varying)
    if not own_fold:
        return (
            (-1,) * k,
            "all signs reversed",
            "which separates main effects from two-factor interactions",
        )
    first = corners.names[0]
    return (
        (-1, *(1,) * (k - 1)),
        f"the sign of {first} reversed",
        f"which separates the interactions of {first} from the others",
    )


def _missing(corners: Corners, design: TwoLevelDesign) -> str:
    """Describe how many runs of the design are excluded, if any."""
    if design.n_runs > COUNTED:
        return ""
    runs = (corners.at(design.signs(run)) for run in range(design.n_runs))
    n_excluded = sum(map(corners.is_excluded, runs))
    return f", {n_excluded} of which the exclusions forbid" if n_excluded else ""


FULL_FACTORIAL = StrategyEntry(
    "full_factorial",
    "Every allowed configuration, in random or in standard order.",
    FullFactorial,
    (
        StrategyOption(
            "order", str, "random",
            summary="order of the runs; in standard order the last parameter changes fastest",
            choices=RUN_ORDERS,
        ),
    ),
    starts=True,
)  # fmt: skip

FRACTIONAL_FACTORIAL = StrategyEntry(
    "fractional_factorial",
    "Lowest and highest levels in a regular fraction, its fold-over and their factorial, then "
    "all levels.",
    FractionalFactorial,
    (
        StrategyOption(
            "resolution", int, DEFAULT_RESOLUTION, 3.0, 5.0,
            "3 separates main effects, 4 also from two-factor interactions, 5 also these",
        ),
    ),
    starts=True,
)  # fmt: skip
