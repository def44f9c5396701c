"""Measured tables and analysts, drawn so that every branch of an episode is met often."""

import math
from dataclasses import dataclass

import numpy as np

from agents import Analyst, EpisodeStreams, Insight, Learning, Truth
from assistant.applications.lookup import Lookup


@dataclass(frozen=True)
class Drawn:
    """An episode to be played: on what, by whom, until when."""

    truth: Truth
    analyst: Analyst
    streams: EpisodeStreams
    max_runs: int
    goal: float | None
    options: dict[str, float | int]


def table(
    rng: np.random.Generator, n_levels: list[int], failing: float, ties: bool, words: float = 0.3
) -> Lookup:
    """A table of these numbers of levels; some parameters are nominal, some runs fail."""
    nominal = [rng.random() < words for _ in n_levels]
    slopes = rng.normal(size=len(n_levels)) * 30
    lines = [",".join([*(f"p{i}" for i in range(len(n_levels))), "objective"])]
    for number, ids in enumerate(np.ndindex(*n_levels)):
        if number and rng.random() < failing:
            continue
        value = float(slopes @ (np.array(ids) / n_levels)) + 10 * rng.normal()
        cells = [f"v{x}" if word else str(3 * x) for x, word in zip(ids, nominal, strict=True)]
        lines.append(",".join([*cells, repr(round(value / 10) / 10 if ties else value)]))
    return Lookup.parse("\n".join(lines) + "\n")


def episode(seed: int, most_levels: int = 6, most_size: int = 300) -> Drawn:
    """An episode by a number, the same for ever."""
    rng = np.random.default_rng(seed)
    n_levels = [1]
    while not 1 < math.prod(n_levels) <= most_size:
        n_levels = [int(n) for n in rng.integers(1, most_levels + 1, rng.integers(1, 5))]
    failing = float(rng.choice([0.0, 0.2, 0.6]))
    truth = Truth.of(table(rng, n_levels, failing, bool(rng.random() < 0.4)))
    options: dict[str, float | int] = {
        "beta": float(rng.choice([0.0, 0.3, 0.7, 1.0])),
        "neighbours": int(rng.integers(0, 7)),
    }
    insight = Insight(
        rng.choice(["good", "bad", "none"] if np.unique(truth.quality).size > 4 else ["none"]),
        members=float(rng.choice([0.05, 0.5, 1.0])),
        best=float(rng.choice([0.1, 0.5])),
        worst=0.9,
        least=int(rng.integers(1, 6)),
    )
    learning = Learning(
        rate=float(rng.choice([0.2, 1.0, 3.0])),
        mass=float(rng.choice([0.0, 0.1, 1.0])),
        bound=float(rng.choice([2.0, 20.0])),
        trust=float(rng.choice([0.0, 0.8, 1.0])),
    )
    confidence = int(rng.choice([0, 10, 33, 50, 90, 100]))
    learns, batch = rng.random() < 0.6, int(rng.integers(1, 9))
    return Drawn(
        truth,
        Analyst(insight, confidence, learning if learns else None, batch),
        EpisodeStreams((seed, *rng.integers(2**32, size=4).tolist()), int(rng.integers(500))),
        truth.size + 2 if rng.random() < 0.4 else int(rng.integers(1, truth.size + 1)),
        truth.optimum if rng.random() < 0.5 else None,
        options if rng.random() < 0.7 else {},
    )
