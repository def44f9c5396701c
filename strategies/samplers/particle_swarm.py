"""Particle swarm optimisation on a grid, with the completed runs as its only state.

Kennedy & Eberhart's particles move with inertia, drawn to the best position each has seen and to
the best of the swarm, with the weights of Clerc & Kennedy (rounded):

    v <- inertia v + cognitive r1 (own best - x) + social r2 (swarm's best - x),   x <- x + v

with r1 and r2 uniform in [0, 1] per parameter. Adaptations to a finite grid and stateless calls:

- Positions are ranks. A move ends at the nearest open level; the ends of the range stop it, and
  no move is longer than half the range (Eberhart & Shi 2000).
- A nominal parameter has no velocity: it keeps its level, takes its own best's or takes the
  swarm's, with probabilities in proportion to inertia, cognitive r1 and social r2 (like the
  probabilities of Kennedy & Eberhart's binary swarm of 1997).
- Completed runs are assigned to the particles in turn. A particle's last run is its position, its
  last move its velocity. The first positions are a balanced design
  (`strategies.samplers.latin_hypercube`).
- A particle on a taken or excluded configuration moves to the nearest free neighbour.

References: Kennedy & Eberhart 1995, Particle swarm optimization; Shi & Eberhart 1998, A modified
particle swarm optimizer; Eberhart & Shi 2000, Comparing inertia weights and constriction factors in
particle swarm optimization; Clerc & Kennedy 2002, The particle swarm: explosion, stability, and
convergence in a multidimensional complex space.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.data.observation import Observation, best
from strategies.doe.main_effects import Knowledge
from strategies.samplers.latin_hypercube import balanced_design
from strategies.samplers.strategy import Batch, StrategyEntry, StrategyOption, Suggestion
from strategies.space.errors import OptionError
from strategies.space.parameter import Parameter, show_values
from strategies.space.parameter_space import Configuration, ParameterSpace

DEFAULT_PARTICLES = 10
DEFAULT_INERTIA = 0.73
DEFAULT_PULL = 1.5
MAX_PULL = 4.0
LONGEST_MOVE = 0.5
SEARCH_BOUND = 200  # Nearest combinations that are examined where a particle cannot stay


@dataclass(frozen=True, slots=True)
class ParticleSwarm:
    """Strategy that moves a swarm of particles over the grid.

    Args:
        particles: number of particles, from 1 on.
        inertia: share of the last move that continues, 0 to 1.
        cognitive: pull to a particle's own best run, 0 to 4.
        social: pull to the swarm's best run, 0 to 4.
    Raises `OptionError` for values out of bounds.
    """

    particles: int = DEFAULT_PARTICLES
    inertia: float = DEFAULT_INERTIA
    cognitive: float = DEFAULT_PULL
    social: float = DEFAULT_PULL

    def __post_init__(self) -> None:
        if type(self.particles) is not int or self.particles < 1:
            raise OptionError(
                f"particle_swarm has particles={self.particles!r}; it must be a whole number from "
                "1 on."
            )
        for name, value, high in (
            ("inertia", self.inertia, 1),
            ("cognitive", self.cognitive, MAX_PULL),
            ("social", self.social, MAX_PULL),
        ):
            if type(value) not in (int, float) or not 0 <= value <= high:
                raise OptionError(
                    f"particle_swarm has {name}={value!r}; it must be from 0 to {high:g}."
                )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "particle_swarm"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations as the next positions of particles."""
        batch = Batch(self.name, n, knowledge, rng)
        going = len(knowledge.pending.union(knowledge.running))
        turn = len(knowledge.observations) + going
        turn += self._add_first_positions(batch, knowledge, turn, rng)
        swarm_best = best(knowledge.observations)
        histories = self.deal(knowledge.observations)
        while batch.missing:
            which = turn % self.particles
            turn += 1
            history = histories[which]
            added = swarm_best is not None and bool(history)
            if swarm_best is not None and history:
                added = self._add_move(batch, knowledge.space, which, history, swarm_best, rng)
            if not added and not self._add_random(batch, which):
                break
        return batch.suggestions

    def deal(self, observations: Sequence[Observation]) -> tuple[tuple[Observation, ...], ...]:
        """Assign the completed runs to the particles in turn, oldest first."""
        return tuple(tuple(observations[k :: self.particles]) for k in range(self.particles))

    def moved(
        self,
        space: ParameterSpace,
        history: Sequence[Observation],
        swarm_best: Observation,
        rng: np.random.Generator,
    ) -> Configuration:
        """Return the next position of a particle from its past runs and the swarm's best."""
        own_best = best(history) or history[0]
        here = history[-1].configuration.level_ids
        before = history[-2].configuration.level_ids if len(history) > 1 else here
        level_ids = []
        for position, (parameter, by_rank) in enumerate(
            zip(space.parameters, space.open_by_rank, strict=True)
        ):
            particle_level = own_best.configuration.level_ids[position]
            swarm = swarm_best.configuration.level_ids[position]
            weights = (
                self.inertia,
                self.cognitive * float(rng.random()),
                self.social * float(rng.random()),
            )
            if parameter.kind == "nominal":
                next_level = _choose_level((here[position], particle_level, swarm), weights, rng)
                if next_level not in by_rank:
                    next_level = by_rank[int(rng.integers(len(by_rank)))]
            else:
                x, x_before, x_own, x_swarm = (
                    parameter.ranks[i]
                    for i in (here[position], before[position], particle_level, swarm)
                )
                pulls = (x - x_before, x_own - x, x_swarm - x)
                velocity = math.fsum(w * pull for w, pull in zip(weights, pulls, strict=True))
                longest = LONGEST_MOVE * (parameter.n_levels - 1)
                next_level = _nearest(parameter, by_rank, x + min(max(velocity, -longest), longest))
            level_ids.append(next_level)
        return space.canonical(tuple(level_ids))

    def _add_first_positions(
        self, batch: Batch, knowledge: Knowledge, turn: int, rng: np.random.Generator
    ) -> int:
        """Add first positions of particles without a run; return their number."""
        n_positions = min(batch.missing, max(self.particles - turn, 0))
        first = balanced_design(
            knowledge.space, n_positions, rng, batch.unavailable, sorted(knowledge.taken)
        )
        for particle, configuration in enumerate(first, start=turn + 1):
            reason = (
                f"First position of particle {particle} of {self.particles}, with levels spread "
                "evenly over the swarm."
            )
            batch.add(configuration, "particle" if knowledge.observations else "initial", reason)
        return len(first)

    def _add_move(
        self,
        batch: Batch,
        space: ParameterSpace,
        which: int,
        history: Sequence[Observation],
        swarm_best: Observation,
        rng: np.random.Generator,
    ) -> bool:
        """Add the next position of a particle; return False if nothing near it is free."""
        target = self.moved(space, history, swarm_best, rng)
        landed, where = target, ""
        if not batch.is_free(target):
            near = itertools.islice(space.open_by_distance(target, rng), SEARCH_BOUND)
            free = next(filter(batch.is_free, near), None)
            if free is None:
                return False
            why = "is taken" if target in batch.unavailable else "is excluded"
            landed, where = free, f"; its target {why}, so this is the nearest free one"
        here = history[-1].configuration
        particle_text, swarms = (
            _open_level_ids(space, observation) for observation in (best(history), swarm_best)
        )
        reason = (
            f"Particle {which + 1} of {self.particles} moves from "
            f"{show_values(space.values(here))}, drawn to its own best ({particle_text}) "
            f"and the swarm's best ({swarms}){where}."
        )
        batch.add(landed, "particle", reason, here)
        return True

    def _add_random(self, batch: Batch, which: int) -> bool:
        reason = (
            f"Drawn at random for particle {which + 1} of {self.particles}: it has no run to move "
            "from, or no free configuration near its target."
        )
        return batch.add_random("random", reason)


def _choose_level(
    choices: Sequence[int], weights: Sequence[float], rng: np.random.Generator
) -> int:
    """Draw a level with probabilities in proportion to weights; the first if all are 0."""
    place = float(rng.random()) * math.fsum(weights)
    for choice, end in zip(choices, itertools.accumulate(weights), strict=True):
        if place < end:
            return choice
    return choices[0]


def _nearest(parameter: Parameter, by_rank: Sequence[int], target: float) -> int:
    """Return the open level whose rank is nearest, the lower of two."""
    place = bisect.bisect_left(by_rank, target, key=parameter.ranks.__getitem__)
    around = by_rank[max(place - 1, 0) : place + 1]
    return min(around, key=lambda level_id: abs(parameter.ranks[level_id] - target))


def _open_level_ids(space: ParameterSpace, observation: Observation | None) -> str:
    if observation is None:
        return "none yet"
    values = show_values(space.values(observation.configuration))
    return values if observation.feasible else f"{values}, infeasible"


PARTICLE_SWARM = StrategyEntry(
    "particle_swarm",
    "Particles that move over the grid, drawn to their own best run and the swarm's.",
    ParticleSwarm,
    (
        StrategyOption("particles", int, DEFAULT_PARTICLES, 1.0, None, "number of particles"),
        StrategyOption(
            "inertia", float, DEFAULT_INERTIA, 0.0, 1.0,
            "share of its last move that a particle keeps",
        ),
        StrategyOption(
            "cognitive", float, DEFAULT_PULL, 0.0, MAX_PULL,
            "pull to the particle's own best run",
        ),
        StrategyOption(
            "social", float, DEFAULT_PULL, 0.0, MAX_PULL, "pull to the swarm's best run"
        ),
    ),
    starts=True,
)  # fmt: skip
