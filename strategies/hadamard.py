"""Hadamard matrices: square, of -1 and +1, with orthogonal columns.

Built by doubling (Sylvester 1867) and by Paley's two constructions over prime fields.

Reference: Paley 1933, On orthogonal matrices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strategies.errors import OptionError


def hadamard_order(at_least: int) -> int:
    """Return the least order from ``at_least`` on whose Hadamard matrix can be built here.

    Sylvester's doubling and Paley's two constructions over primes reach every multiple of 4 up
    to 48; of those up to 100, 52, 92 and 100 are missing.
    """
    order = max(4, -(-at_least // 4) * 4)
    while not _can_build(order):
        order += 4
    return order


def hadamard(order: int) -> NDArray[np.int8]:
    """Return a Hadamard matrix, int8 [order, order] of -1 and +1, first column +1.

    Its columns are orthogonal: H'H is order times the unit matrix.
    Raises `OptionError` for an order that cannot be built here; see `hadamard_order`.
    """
    if type(order) is not int or order < 1 or not _can_build(order):
        raise OptionError(
            f"a Hadamard matrix of order {order!r} cannot be built; ask hadamard_order for one."
        )
    if order <= 2:
        built = np.array([[1, 1], [1, -1]], dtype=np.int8)[:order, :order]
    elif _is_prime(order - 1):
        built = _paley(order - 1)
    elif order % 4 == 0 and _is_paley_two(order):
        built = _paley_two(order // 2 - 1)
    else:
        built = np.kron(hadamard(2), hadamard(order // 2)).astype(np.int8)
    normal: NDArray[np.int8] = built * built[:, :1]
    return normal


def _can_build(order: int) -> bool:
    if order <= 2:
        return True
    if order % 4:
        return False
    return _is_prime(order - 1) or _is_paley_two(order) or _can_build(order // 2)


def _is_paley_two(order: int) -> bool:
    q = order // 2 - 1
    return q % 4 == 1 and _is_prime(q)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % i for i in range(2, int(number**0.5) + 1))


def _jacobsthal(q: int) -> NDArray[np.int8]:
    """Return whether i - j is a square modulo the prime q, as 0, +1, -1."""
    character = np.full(q, -1, dtype=np.int8)
    character[[i * i % q for i in range(1, q)]] = 1
    character[0] = 0
    differences = np.subtract.outer(np.arange(q), np.arange(q)) % q
    matrix: NDArray[np.int8] = character[differences]
    return matrix


def _paley(q: int) -> NDArray[np.int8]:
    """Paley's first construction, of order q + 1 for a prime q with remainder 3 modulo 4."""
    skew = np.ones((q + 1, q + 1), dtype=np.int8)
    skew[0, 0] = 0
    skew[1:, 0] = -1
    skew[1:, 1:] = _jacobsthal(q)
    return skew + np.eye(q + 1, dtype=np.int8)


def _paley_two(q: int) -> NDArray[np.int8]:
    """Paley's second construction, of order 2 (q + 1) for a prime q with remainder 1 modulo 4."""
    conference = np.ones((q + 1, q + 1), dtype=np.int8)
    conference[0, 0] = 0
    conference[1:, 1:] = _jacobsthal(q)
    plus = np.array([[1, 1], [1, -1]], dtype=np.int8)
    minus = np.array([[1, -1], [-1, -1]], dtype=np.int8)
    built: NDArray[np.int8] = np.kron(conference, plus) + np.kron(
        np.eye(q + 1, dtype=np.int8), minus
    )
    return built
