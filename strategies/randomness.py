"""Small draws on a passed generator that plain NumPy calls do not cover."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_INT64_END = 2**63


def below(rng: np.random.Generator, n: int) -> int:
    """Draw a uniform integer from 0 to n - 1, also where n does not fit 64 bits."""
    if n < _INT64_END:
        return int(rng.integers(n))
    n_bits = n.bit_length()
    while True:
        draw = int.from_bytes(rng.bytes((n_bits + 7) // 8)) >> (-n_bits % 8)
        if draw < n:
            return draw


def permuted(rng: np.random.Generator, n: int) -> Iterator[int]:
    """Yield 0 to n - 1 in uniformly random order, one draw and one entry of memory at a time.

    Fisher-Yates on a sparse array (Knuth, The Art of Computer Programming, vol. 2, 3.4.2 P).
    """
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + below(rng, n - i)
        here = moved.pop(i, i)
        if j == i:
            yield here
        else:
            yield moved.get(j, j)
            moved[j] = here
