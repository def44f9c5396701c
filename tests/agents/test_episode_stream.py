"""Kernel text makes NumPy's own bits: seeds, generators, and both draws."""

import numpy as np
import pytest

from agents.compiled.jit import (
    N_POOL,
    N_STATE,
    Words,
    below,
    compiled,
    pool_of,
    start,
    state_of,
    uniform,
    words_of,
)

SEEDS = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**64, 2**128 - 1, 2**128, 3**200]


def started(seed: int, first: int, second: int) -> Words:
    seed_pool, pool = np.empty((2, N_POOL), dtype=np.uint64)
    state = np.empty(N_STATE, dtype=np.uint64)
    compiled(pool_of)(words_of(seed), seed_pool)
    compiled(start)(state, seed_pool, first, second, pool)
    return state


@pytest.mark.parametrize("drawn", [0, 1])
def test_a_generator_is_made_as_numpy_makes_it(drawn: int) -> None:
    rng = np.random.default_rng(drawn)
    seeds = SEEDS + [int(n) for n in rng.integers(2**63, size=1000)]
    for seed in seeds:
        key = [0, 2**32 - 1] if rng.random() < 0.1 else rng.integers(2**32, size=2).tolist()
        sequence = np.random.SeedSequence(seed, spawn_key=key)
        found = started(seed, *key)
        assert found.tolist() == state_of(sequence).tolist(), (seed, key)
        told = np.random.default_rng(sequence).bit_generator.state["state"]
        assert [int(found[0]) << 64 | int(found[1]), int(found[2]) << 64 | int(found[3])] == [
            told["state"],
            told["inc"],
        ]


def test_draws_in_any_order_are_those_of_numpy() -> None:
    ours, theirs = (
        started(7, 1, 1),
        np.random.default_rng(np.random.SeedSequence(7, spawn_key=(1, 1))),
    )
    order, draw_below, draw = np.random.default_rng(2), compiled(below), compiled(uniform)
    widths = [
        1,
        2,
        3,
        2**31,
        2**31 + 1,
        3 * 2**30,
        2**32 - 1,
    ]  # the last ones are drawn again often
    for _ in range(20_000):
        if order.random() < 0.3:
            assert draw(ours) == theirs.random()
        else:
            n = int(order.choice(widths)) if order.random() < 0.5 else int(order.integers(1, 300))
            assert draw_below(ours, n) == theirs.integers(n), n
