"""Two-level designs: regular fractions of the 2^k factorial, and Plackett-Burman designs.

Factors are lettered A, B, C, ... without I, which stands for the mean. A regular fraction of k
factors in 2^(k-p) runs takes k - p basic factors and sets each of the p others equal to a product
of them (its generator). Products that equal the mean are the words of the defining relation; the
shortest has as many letters as the resolution. For up to 11 factors the generators are searched
for: the fewest runs that reach a resolution, then the highest resolution, then minimum aberration
(Fries & Hunter 1980: fewest words of the shortest length, then of the next). Beyond 11 factors:
Plackett-Burman designs for resolution III, each followed by its negative for IV; for V, columns
taken one by one so that no four of them multiply to the mean.

References: Box, Hunter & Hunter 2005, Statistics for Experimenters, 2nd ed., chapter 6; Montgomery,
Design and Analysis of Experiments, 8th ed., chapter 8; Plackett & Burman 1946, The design of
optimum multifactorial experiments; Fries & Hunter 1980, Minimum aberration 2^(k-p) designs; Paley
1933, On orthogonal matrices (Hadamard matrices).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.space.errors import OptionError


def hadamard_order(at_least: int) -> int:
    """Return the smallest order >= ``at_least`` of a Hadamard matrix that `hadamard` can build.

    Sylvester's doubling and Paley's two constructions over primes reach every multiple of 4 up
    to 48; of those up to 100, 52, 92 and 100 are missing.
    """
    order = max(4, -(-at_least // 4) * 4)
    while not _can_build(order):
        order += 4
    return order


def hadamard(order: int) -> NDArray[np.int8]:
    """Return a Hadamard matrix H, int8 [order, order] of -1 and +1, first column +1.

    Its columns are orthogonal: H'H is order times the unit matrix. Raises `OptionError` for an
    order that cannot be built; see `hadamard_order`.
    """
    if type(order) is not int or order < 1 or not _can_build(order):
        raise OptionError(
            f"a Hadamard matrix of order {order!r} cannot be built; use one of hadamard_order."
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
    """Return the quadratic character of i - j modulo the prime q: 0, +1 or -1."""
    character = np.full(q, -1, dtype=np.int8)
    character[[i * i % q for i in range(1, q)]] = 1
    character[0] = 0
    differences = np.subtract.outer(np.arange(q), np.arange(q)) % q
    matrix: NDArray[np.int8] = character[differences]
    return matrix


def _paley(q: int) -> NDArray[np.int8]:
    """Build Paley's first matrix, of order q + 1 for a prime q with remainder 3 modulo 4."""
    skew = np.ones((q + 1, q + 1), dtype=np.int8)
    skew[0, 0] = 0
    skew[1:, 0] = -1
    skew[1:, 1:] = _jacobsthal(q)
    return skew + np.eye(q + 1, dtype=np.int8)


def _paley_two(q: int) -> NDArray[np.int8]:
    """Build Paley's second matrix, of order 2 (q + 1) for a prime q with remainder 1 modulo 4."""
    conference = np.ones((q + 1, q + 1), dtype=np.int8)
    conference[0, 0] = 0
    conference[1:, 1:] = _jacobsthal(q)
    plus = np.array([[1, 1], [1, -1]], dtype=np.int8)
    minus = np.array([[1, -1], [-1, -1]], dtype=np.int8)
    built: NDArray[np.int8] = np.kron(conference, plus) + np.kron(
        np.eye(q + 1, dtype=np.int8), minus
    )
    return built


SEARCHED = 11  # Most factors whose generators are searched for

RESOLUTIONS = (3, 4, 5)
MAX_WORDS_FROM = 16  # Most generators for which the 2^p - 1 words are listed

_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
_ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX", 10: "X", 11: "XI"}

Signs: TypeAlias = tuple[int, ...]


def letter(factor: int) -> str:
    """Return the letter of a factor, counted from 0: A to Z without I, then A1, B1, ..."""
    rounds, place = divmod(factor, len(_LETTERS))
    return _LETTERS[place] + (str(rounds) if rounds else "")


def roman(resolution: int) -> str:
    """Return a resolution in Roman numerals, such as "IV"."""
    return _ROMAN.get(resolution, str(resolution))


@dataclass(frozen=True, slots=True)
class RegularFraction:
    """Regular two-level fractional factorial, or the full factorial without generators."""

    n_basic: int  # basic factors; there are 2^n_basic runs
    # per factor, the basic factors whose product it is, as bits; the basic ones first
    columns: tuple[int, ...]
    # letters in the shortest word of the defining relation, None for a factorial
    resolution: int | None

    @property
    def n_factors(self) -> int:
        """Number of factors, k in 2^(k-p)."""
        return len(self.columns)

    @property
    def n_generators(self) -> int:
        """Number of generators, p in 2^(k-p)."""
        return self.n_factors - self.n_basic

    @property
    def n_runs(self) -> int:
        """Number of runs, 2^(k-p)."""
        return 1 << self.n_basic

    @property
    def name(self) -> str:
        """Name of the design, such as "2^(5-2) fraction" or "2^3 factorial"."""
        if not self.n_generators:
            return f"2^{self.n_factors} factorial"
        return f"2^({self.n_factors}-{self.n_generators}) fraction"

    @property
    def details(self) -> str:
        """Resolution and generators, such as "resolution III, D=AB, E=AC"; empty if full."""
        if self.resolution is None:
            return ""
        return ", ".join((f"resolution {roman(self.resolution)}", *self.generators))

    @property
    def generators(self) -> tuple[str, ...]:
        """Generators as text, such as ("D=AB", "E=AC")."""
        added = enumerate(self.columns[self.n_basic :], start=self.n_basic)
        return tuple(f"{letter(factor)}={_word(column)}" for factor, column in added)

    @property
    def defining_relation(self) -> tuple[str, ...]:
        """Words of the defining relation, shortest first, such as ("ABD", "ACE").

        Raises `OptionError` with more than 16 generators, since there are 2^p - 1 words.
        """
        if self.n_generators > MAX_WORDS_FROM:
            raise OptionError(
                f"the defining relation of {self.n_generators} generators has "
                f"2^{self.n_generators} - 1 words; at most {MAX_WORDS_FROM} generators are allowed."
            )
        words = _words(self.n_basic, self.columns[self.n_basic :])
        return tuple(sorted(map(_word, words), key=lambda word: (len(word), word)))

    @property
    def aliases(self) -> tuple[tuple[str, ...], ...]:
        """Groups of main effects and two-factor interactions that are confounded.

        Such as (("A", "BD", "CE"), ("B", "AD"), ...): each group is estimated as one sum. An
        effect without an alias of at most two factors is a group of its own.
        """
        groups: dict[int, list[str]] = {}
        for order in (1, 2):
            for factors in itertools.combinations(range(self.n_factors), order):
                product = 0
                for factor in factors:
                    product ^= self.columns[factor]
                groups.setdefault(product, []).append("".join(map(letter, factors)))
        return tuple(map(tuple, groups.values()))

    @property
    def is_own_fold(self) -> bool:
        """Whether the fold-over (all signs reversed) consists of the same runs."""
        return all(column.bit_count() % 2 for column in self.columns)

    def signs(self, run: int) -> Signs:
        """Return the sign (-1 or +1) of each factor in a run, numbered from 0 in standard order."""
        return tuple(-1 if (column & ~run).bit_count() % 2 else 1 for column in self.columns)

    @property
    def matrix(self) -> NDArray[np.int8]:
        """The design matrix, int8 [n_runs, n_factors] of -1 and +1, in standard order."""
        return np.array([self.signs(run) for run in range(self.n_runs)], dtype=np.int8)


@dataclass(frozen=True, slots=True)
class PlackettBurman:
    """Plackett-Burman design of resolution III, or IV if folded over.

    Main effects are orthogonal. At resolution III they are aliased with interactions of two other
    factors, in general each partly with many, so there are no words to list; at IV they are not.
    """

    n_factors: int  # number of factors, below the order, or at most the order if folded
    order: int  # order of the Hadamard matrix
    folded: bool = False  # whether the negative follows

    @property
    def resolution(self) -> int:
        """Resolution of the design: 3, or 4 if folded over."""
        return 4 if self.folded else 3

    @property
    def n_runs(self) -> int:
        """Number of runs of the design."""
        return self.order * (2 if self.folded else 1)

    @property
    def name(self) -> str:
        """Name of the design, such as "Plackett-Burman design"."""
        return f"{'folded ' if self.folded else ''}Plackett-Burman design"

    @property
    def details(self) -> str:
        """Resolution as text, such as "resolution III"."""
        return f"resolution {roman(self.resolution)}"

    @property
    def is_own_fold(self) -> bool:
        """Whether the fold-over (all signs reversed) consists of the same runs."""
        return self.folded

    def signs(self, run: int) -> Signs:
        """Return the sign (-1 or +1) of each factor in a run, numbered from 0."""
        half, row = divmod(run, self.order)
        sign = -1 if half else 1
        first = 0 if self.folded else 1  # unfolded, the column of ones is the mean
        entries = _hadamard_of(self.order)[row, first : first + self.n_factors]
        return tuple(sign * int(entry) for entry in entries)

    @property
    def matrix(self) -> NDArray[np.int8]:
        """Design matrix of -1 and +1, int8 [n_runs, n_factors]."""
        return np.array([self.signs(run) for run in range(self.n_runs)], dtype=np.int8)


TwoLevelDesign: TypeAlias = RegularFraction | PlackettBurman


@lru_cache(maxsize=64, typed=True)  # typed, because True and 3.0 are not valid arguments
def two_level_design(n_factors: int, resolution: int) -> TwoLevelDesign:
    """Return the two-level design of fewest runs for k factors with at least a given resolution.

    Raises `OptionError` unless k is at least 1 and the resolution is 3, 4 or 5.
    """
    if type(n_factors) is not int or n_factors < 1:
        raise OptionError(f"a design has {n_factors!r} factors; it needs 1 or more.")
    if resolution not in RESOLUTIONS:
        raise OptionError(f"a two-level design has resolution {resolution!r}; allowed are 3, 4, 5.")
    if n_factors > SEARCHED and resolution == 3:
        return PlackettBurman(n_factors, hadamard_order(n_factors + 1))
    if n_factors > SEARCHED and resolution == 4:
        return PlackettBurman(n_factors, hadamard_order(n_factors), folded=True)
    n_basic = min(n_factors, resolution - 1)
    while True:
        fraction = _best_columns(n_factors, n_basic, resolution)
        if fraction is not None:
            return RegularFraction(n_basic, *fraction)
        n_basic += 1


def _best_columns(
    n_factors: int, n_basic: int, at_least: int
) -> tuple[tuple[int, ...], int | None] | None:
    """Return columns and resolution of the best fraction with 2^n_basic runs, None without any."""
    basic = tuple(1 << i for i in range(n_basic))
    if n_factors == n_basic:
        return basic, None
    if n_factors > SEARCHED:
        return _greedy_columns(n_factors, n_basic)
    for resolution in range(n_basic + 1, at_least - 1, -1):
        # a generator of w letters makes a word of w + 1
        candidates = [c for c in _products(n_basic) if c.bit_count() >= resolution - 1]
        generators = _least_aberration(candidates, n_basic, n_factors - n_basic, resolution)
        if generators is not None:
            return (*basic, *generators), resolution
    return None


def _least_aberration(
    candidates: Sequence[int], n_basic: int, n_generators: int, resolution: int
) -> tuple[int, ...] | None:
    """Return the generators of least aberration, by branch and bound: word lengths only add up."""
    n_lengths = n_basic + n_generators + 1
    best: tuple[int, ...] | None = None
    least: tuple[int, ...] | None = None

    def descend(start: int, generators: tuple[int, ...], words: Sequence[int]) -> None:
        nonlocal best, least
        lengths = [0] * n_lengths
        for word in words:
            lengths[word.bit_count()] += 1
        pattern = tuple(lengths)
        if any(pattern[:resolution]) or (least is not None and pattern >= least):
            return
        if len(generators) == n_generators:
            best, least = generators, pattern
            return
        for i in range(start, len(candidates)):
            if not generators and i and candidates[i].bit_count() == candidates[i - 1].bit_count():
                continue  # relettering the basic factors makes it the first of its length
            defining_word = candidates[i] | 1 << (n_basic + len(generators))
            longer = [*words, defining_word, *(defining_word ^ word for word in words)]
            descend(i + 1, (*generators, candidates[i]), longer)

    descend(0, (), ())
    return best


def _greedy_columns(n_factors: int, n_basic: int) -> tuple[tuple[int, ...], int] | None:
    """Return resolution V columns taken in the order of their bits, None if there are too few.

    A column fits if it is no product of up to three before it, as in a lexicographic code.
    """
    columns: list[int] = []
    pairs: set[int] = set()
    barred = {0}
    for column in range(1, 1 << n_basic):
        if column in barred:
            continue
        barred.add(column)
        barred.update(column ^ pair for pair in pairs)
        barred.update(column ^ other for other in columns)
        pairs.update(column ^ other for other in columns)
        columns.append(column)
        if len(columns) == n_factors:
            return _settled(columns, n_basic)
    return None


def _settled(selection: Sequence[int], n_basic: int) -> tuple[tuple[int, ...], int] | None:
    """Put the basic columns first and find the resolution."""
    basic = tuple(1 << i for i in range(n_basic))
    if not set(basic) <= set(selection):
        return None  # a bit without its own column is not needed: fewer runs would suffice
    columns = (*basic, *(column for column in selection if column not in basic))
    triples = {a ^ b ^ c for a, b, c in itertools.combinations(columns, 3)}
    five = any(a ^ b in triples for a, b in itertools.combinations(columns, 2))
    return columns, 5 if five else 6


def _products(n_basic: int) -> Iterator[int]:
    """Yield products of two or more basic factors as bits: AB, AC, BC, ..., ABC, ..."""
    for order in range(2, n_basic + 1):
        for factors in itertools.combinations(range(n_basic), order):
            yield sum(1 << factor for factor in factors)


def _words(n_basic: int, generators: Sequence[int]) -> list[int]:
    """Return all products of the generators' words as bits of factors."""
    words: list[int] = []
    for place, column in enumerate(generators, start=n_basic):
        defining_word = column | 1 << place
        words += [defining_word, *(defining_word ^ word for word in words)]
    return words


def _word(factors: int) -> str:
    return "".join(letter(i) for i in range(factors.bit_length()) if factors >> i & 1)


@lru_cache(maxsize=8)
def _hadamard_of(order: int) -> NDArray[np.int8]:
    matrix = hadamard(order)
    matrix.flags.writeable = False
    return matrix
