"""Generalised pattern search on a grid: polls around the best point, with ever finer steps.

As in Torczon 1997, the points one step up and one step down in every parameter are polled around
the incumbent. A better one becomes the incumbent and keeps the step; if a whole poll finds none,
the step is halved. As in Audet & Dennis 2001 for mixed variables, every other level of a nominal
parameter is a neighbour at every step. The poll is opportunistic: it ends with the first better
point, and the direction that led there is polled first around it (Audet & Dennis 2006).

Adaptations to a finite grid and parallel runs:

- A step is a whole number of open levels per parameter: at first the largest power of two that
  goes twice into its range, so that finer meshes hold the coarser ones.
- After a poll with steps of one level that found nothing better, the search starts again from
  random points; nothing is polled twice.
- Nothing is stored between calls. Incumbent and step are replayed from the completed runs in
  their order. Failed, running and pending runs, and points that are not allowed, count as polled
  without success.
- A batch larger than the rest of a poll continues as if that poll failed: with half the step
  around the same incumbent, and at last at random.

References: Torczon 1997, On the convergence of pattern search algorithms; Audet & Dennis 2001,
Pattern search algorithms for mixed variable programming; Audet & Dennis 2006, Mesh adaptive
direct search algorithms for constrained optimization (section on the order of polls).
"""

from __future__ import annotations

import bisect
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strategies.data.observation import Observation, rank_key
from strategies.doe.main_effects import Knowledge
from strategies.samplers.strategy import Batch, StrategyEntry, Suggestion, SuggestionKind
from strategies.space.parameter import show, show_values
from strategies.space.parameter_space import Configuration, ParameterSpace


@dataclass(frozen=True, slots=True)
class PatternSearch:
    """Strategy that tries neighbours of the best configuration and halves the step on failure."""

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "pattern_search"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations that the pattern search would poll next."""
        batch = Batch(self.name, n, knowledge, rng)
        state = replay(knowledge)
        if state.incumbent is not None:
            _add_polls(batch, knowledge.space, state, rng)
        kind, reason = _random_start(knowledge, state)
        while batch.missing and batch.add_random(kind, reason):
            pass
        return batch.suggestions


@dataclass(frozen=True, slots=True)
class PatternSearchState:
    """State of a pattern search: best run, step halvings and number of starts."""

    # best run since the last start of the search, None before its first run
    incumbent: Observation | None = None
    halvings: int = 0  # number of halvings of the step since then
    previous: Configuration | None = None  # incumbent before, None for the first
    starts: int = 0  # number of restarts


def replay(knowledge: Knowledge) -> PatternSearchState:
    """Reconstruct the state of a pattern search from the completed runs in order."""
    space = knowledge.space
    last = halvings_until_one(space)
    observed = {observation.configuration for observation in knowledge.observations}
    polled = {*(knowledge.taken - observed), *(f.configuration for f in knowledge.failures)}
    state, going = PatternSearchState(), _Poll(space)
    for observation in knowledge.observations:
        polled.add(observation.configuration)
        incumbent = state.incumbent
        if incumbent is None or rank_key(observation) > rank_key(incumbent):
            previous = incumbent.configuration if incumbent else None
            state = replace(state, incumbent=observation, previous=previous)
            going = _Poll(space, state)
        while state.incumbent is not None and going.is_over(polled):
            if state.halvings == last:
                state = PatternSearchState(starts=state.starts + 1)
            else:
                state = replace(state, halvings=state.halvings + 1)
                going = _Poll(space, state)
    return state


class _Poll:
    """A poll and its next point without a run."""

    def __init__(self, space: ParameterSpace, state: PatternSearchState | None = None) -> None:
        self._space = space
        self._left: Iterator[Configuration] = iter(())
        if state is not None and state.incumbent is not None:
            self._left = poll(space, state.incumbent.configuration, state.halvings)
        self._waiting = next(self._left, None)

    def is_over(self, polled: Container[Configuration]) -> bool:
        """Return whether all points of the poll have been polled or are not allowed."""
        while self._waiting is not None:
            if self._waiting not in polled and self._space.is_allowed(self._waiting):
                return False
            self._waiting = next(self._left, None)
        return True


def poll(space: ParameterSpace, incumbent: Configuration, halvings: int) -> Iterator[Configuration]:
    """Yield the neighbours of the incumbent in one parameter, the step halved `halvings` times.

    Levels are open, combinations may be excluded. From a closed level, steps lead to the open
    ones below and above it as if it were open.
    """
    ids = incumbent.level_ids
    for position, (parameter, by_rank) in enumerate(
        zip(space.parameters, space.open_by_rank, strict=True)
    ):
        centre_level = ids[position]
        if parameter.kind == "nominal":
            reached = iter([level_id for level_id in by_rank if level_id != centre_level])
        else:
            step = max(first_step(len(by_rank)) >> halvings, 1)
            reached = _up_and_down(parameter.ranks, by_rank, centre_level, step)
        for level_id in reached:
            level_ids = (*ids[:position], level_id, *ids[position + 1 :])
            yield _activated(space, ids, level_ids)


def _activated(
    space: ParameterSpace, before: Sequence[int], level_ids: tuple[int, ...]
) -> Configuration:
    """Return a changed configuration, with the middle level of parameters that are now active."""
    ids = list(level_ids)
    for position in space.conditions.inactive(before) if space.conditions else ():
        by_rank = space.open_by_rank[position]
        ids[position] = by_rank[len(by_rank) // 2]
    return space.canonical(tuple(ids))


def first_step(n_levels: int) -> int:
    """Return the initial step in levels: the largest power of 2 up to half the range, or 1."""
    return 1 << max(((n_levels - 1) // 2).bit_length() - 1, 0)


def halvings_until_one(space: ParameterSpace) -> int:
    """Return how many halvings reduce the steps of all parameters to one level."""
    return max(
        (
            first_step(len(ids)).bit_length() - 1
            for parameter, ids in zip(space.parameters, space.open_by_rank, strict=True)
            if parameter.kind == "ordinal"
        ),
        default=0,
    )


def _up_and_down(
    ranks: Sequence[int], by_rank: Sequence[int], centre_level: int, step: int
) -> Iterator[int]:
    """Yield the open levels ``step`` below and above a level that may be closed."""
    below = bisect.bisect_left(by_rank, ranks[centre_level], key=ranks.__getitem__)
    is_open = below < len(by_rank) and by_rank[below] == centre_level
    for place in (below - step, below + step - (not is_open)):
        if 0 <= place < len(by_rank):
            yield by_rank[place]


def _add_polls(
    batch: Batch, space: ParameterSpace, state: PatternSearchState, rng: np.random.Generator
) -> None:
    """Add the rest of the poll, then the polls that follow if it fails."""
    incumbent = state.incumbent
    if incumbent is None:
        return
    centre = incumbent.configuration
    around = show_values(space.values(centre)) + ("" if incumbent.feasible else " (infeasible)")
    for halvings in range(state.halvings, halvings_until_one(space) + 1):
        left = [point for point in poll(space, centre, halvings) if batch.is_free(point)]
        left = [left[i] for i in rng.permutation(len(left))]
        left.sort(key=lambda point: not _goes_on(space, state, point))
        head = f"Poll around {around}"
        if halvings > state.halvings:
            head = f"Finer poll, if the coarser one fails, around {around}"
        for point in left[: batch.missing]:
            batch.add(point, "poll", f"{head}: {_move(space, centre, point)}.", centre)


def _goes_on(space: ParameterSpace, state: PatternSearchState, point: Configuration) -> bool:
    """Return whether a point lies in the direction that led to the incumbent."""
    if state.incumbent is None or state.previous is None:
        return False
    incumbent_ids = state.incumbent.configuration.level_ids
    led = _direction(space, state.previous.level_ids, incumbent_ids)
    return led is not None and led == _direction(space, incumbent_ids, point.level_ids)


def _direction(
    space: ParameterSpace, first: Sequence[int], second: Sequence[int]
) -> tuple[int, bool] | None:
    """Return the only ordinal parameter that moved, and whether up; None otherwise."""
    moved = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    if len(moved) != 1 or space.parameters[moved[0]].kind == "nominal":
        return None
    ranks = space.parameters[moved[0]].ranks
    return moved[0], ranks[second[moved[0]]] > ranks[first[moved[0]]]


def _move(space: ParameterSpace, centre: Configuration, point: Configuration) -> str:
    """Describe the parameter that a poll point moves, its direction and its distance."""
    for parameter, by_rank, a, b in zip(
        space.parameters, space.open_by_rank, centre.level_ids, point.level_ids, strict=True
    ):
        if a != b and parameter.kind == "nominal":
            return f"{parameter.name} changed to {show(parameter.levels[b])}"
        if a != b:
            ranks = parameter.ranks
            low, high = sorted((ranks[a], ranks[b]))
            between = bisect.bisect_left(by_rank, high, key=ranks.__getitem__)
            between -= bisect.bisect_right(by_rank, low, key=ranks.__getitem__)
            steps = "1 level" if between == 0 else f"{between + 1} levels"
            return f"{parameter.name} {steps} {'up' if ranks[b] > ranks[a] else 'down'}"
    raise AssertionError("a poll point differs from the incumbent")


def _random_start(knowledge: Knowledge, state: PatternSearchState) -> tuple[SuggestionKind, str]:
    if not knowledge.observations:
        return "initial", "Drawn at random, since there is no completed run to poll around yet."
    if state.incumbent is None:
        return "random", (
            "Drawn at random to start the search again, since the poll with steps of one level "
            "found nothing better."
        )
    return "random", "Drawn at random, in case every poll around the incumbent fails."


PATTERN_SEARCH = StrategyEntry(
    "pattern_search",
    "Polls around the best configuration, with steps that are halved when none is better.",
    PatternSearch,
    starts=True,
)
