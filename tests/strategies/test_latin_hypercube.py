"""Latin hypercube sampling: balance over batches, and the criteria as defined."""

import itertools
from collections import Counter

import numpy as np
import pytest

from strategies import (
    Configuration,
    Knowledge,
    LatinHypercube,
    Observation,
    OptionError,
    ParameterSpace,
    balanced_design,
)
from strategies.samplers.latin_hypercube import (
    CRITERIA,
    Criterion,
    greatest_correlation,
    least_distance,
)
from tests.draw.spaces import grid


@pytest.mark.parametrize("criterion", CRITERIA)
def test_batches_together_are_balanced(criterion: Criterion) -> None:
    space = grid(4, 6, 10)
    rng = np.random.default_rng(1)
    history: tuple[Observation, ...] = ()
    for n in (5, 3, 7, 5, 4):
        suggestions = LatinHypercube(criterion).suggest(n, Knowledge(space, history), rng)
        history += tuple(Observation(s.configuration, 0.0) for s in suggestions)
        for position, ids in enumerate(space.open_ids):
            used = Counter(o.configuration.level_ids[position] for o in history)
            counts = [used[level_id] for level_id in ids]
            assert max(counts) - min(counts) <= 1


def test_the_least_distance_by_hand() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert least_distance(points, np.empty((0, 2))) == 1.0
    assert least_distance(points, np.array([[1.0, 0.25], [0.5, 0.5]])) == 0.25
    # two runs near each other are no fault of the design
    assert least_distance(points[:1], np.array([[1.0, 0.0], [1.0, 0.01]])) == 1.0
    assert least_distance(points[:1], np.empty((0, 2))) == float("inf")


def test_the_greatest_correlation_by_hand() -> None:
    assert greatest_correlation(np.array([[0, 0], [1, 1], [2, 2]], dtype=float)) == 1.0
    assert greatest_correlation(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)) == 0.0
    assert greatest_correlation(np.array([[0, 2], [1, 0], [2, 1]], dtype=float)) == 0.5
    assert greatest_correlation(np.array([[0, 7], [1, 7]], dtype=float)) == 0.0
    assert greatest_correlation(np.empty((0, 2))) == 0.0


def merits(space: ParameterSpace, design: tuple[Configuration, ...]) -> tuple[float, float]:
    """Both criteria, re-derived by brute force."""
    points = space.coordinates(design)
    distance = min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(points, 2))
    correlations = np.corrcoef(points, rowvar=False)
    d = len(space.names)
    return distance, max(abs(correlations[i, j]) for i, j in itertools.combinations(range(d), 2))


def test_each_criterion_beats_chance_at_what_it_asks_for() -> None:
    space = grid(10, 10, 10)
    found: dict[str, list[tuple[float, float]]] = {"maximin": [], "correlation": [], "none": []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        for criterion in CRITERIA:
            suggestions = LatinHypercube(criterion).suggest(10, Knowledge(space), rng)
            design = tuple(s.configuration for s in suggestions)
            found[criterion].append(merits(space, design))
        found["none"].append(merits(space, balanced_design(space, 10, rng)))
    distance = {name: np.mean([m[0] for m in own]) for name, own in found.items()}
    correlation = {name: np.mean([m[1] for m in own]) for name, own in found.items()}
    assert distance["maximin"] > 1.3 * distance["none"]
    assert correlation["correlation"] < 0.5 * correlation["none"]


def test_a_reason_says_by_what_the_design_was_chosen_if_it_was() -> None:
    space = grid(4, 4)
    suggestions = LatinHypercube().suggest(4, Knowledge(space), np.random.default_rng(1))
    assert suggestions[1].reason == (
        "Point 2 of 4 of a Latin hypercube that evens out how often each level is run, the "
        "farthest apart of 20 pairings."
    )
    everything = list(space.configurations())
    knowledge = Knowledge(space, tuple(Observation(c, 0.0) for c in everything[:-1]))
    (last,) = LatinHypercube().suggest(4, knowledge, np.random.default_rng(1))
    assert last.reason.endswith("level is run.")


def test_a_criterion_that_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="allowed are maximin, correlation"):
        LatinHypercube("discrepancy")  # type: ignore[arg-type]
