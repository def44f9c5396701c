"""NumPy's random streams in kernel text: SeedSequence, PCG64 and two draws, bit for bit.

A generator per batch is what the session makes (`assistant.decisions.stream`); NumPy takes some
20 microseconds for one, which is more than a whole run may cost here. Every function says which
call of NumPy it equals; the tests compare them over many seeds.

State of a generator: uint64 [6], the 128 bits of the state and of the increment, high half first,
then whether half a draw is left over (`Generator.integers` takes 32 bits at a time), and that half.

References: O'Neill 2014, PCG: a family of simple fast space-efficient statistically good
algorithms, HMC-CS-2014-0905 (XSL-RR 128/64); O'Neill 2015, Developing a seed_seq alternative;
Lemire 2019, Fast random integer generation in an interval, ACM TOMACS 29(1); NumPy's documentation
of `SeedSequence` and `PCG64` for how the words are laid out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.episodes.jit import kernel

Words = NDArray[np.uint64]

N_STATE = 6
N_POOL = 5
"""Four words of 32 bits of entropy, and the constant that the next one is mixed with."""

ZERO, ONE = np.uint64(0), np.uint64(1)
MASK = np.uint64(0xFFFFFFFF)
HALF, SHIFT = np.uint64(32), np.uint64(16)
INIT_A, MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
INIT_B, MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
MIX_LEFT, MIX_RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
STEP_HIGH, STEP_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
TO_TOP, TOP_BIT, WIDTH = np.uint64(58), np.uint64(63), np.uint64(64)
TO_53 = np.uint64(11)
ONE_IN_2_53 = 1.0 / 9007199254740992.0


def words_of(number: int) -> Words:
    """Return a whole number from 0 on as words of 32 bits, the lowest first, at least one."""
    found = [number & 0xFFFFFFFF]
    while number := number >> 32:
        found.append(number & 0xFFFFFFFF)
    return np.array(found, dtype=np.uint64)


def state_of(sequence: np.random.SeedSequence) -> Words:
    """Return the state of ``np.random.default_rng(sequence)``."""
    told: Any = np.random.PCG64(sequence).state["state"]
    pairs = (divmod(told[name], 2**64) for name in ("state", "inc"))
    return np.array([*(word for pair in pairs for word in pair), 0, 0], dtype=np.uint64)


@kernel
def hashed(word: np.uint64, pool: Words) -> Any:
    """Mix a word with the constant of the pool, which moves on."""
    value = word ^ pool[4]
    pool[4] = (pool[4] * MULT_A) & MASK
    value = (value * pool[4]) & MASK
    return value ^ (value >> SHIFT)


@kernel
def stir(pool: Words, at: int, word: np.uint64) -> None:
    """Mix a word into one word of the pool."""
    value = (MIX_LEFT * pool[at] - MIX_RIGHT * hashed(word, pool)) & MASK
    pool[at] = value ^ (value >> SHIFT)


@kernel
def pool_of(seed: Words, pool: Words) -> None:
    """Make the pool of ``SeedSequence(seed, spawn_key=...)`` before its spawn key is mixed in.

    Args:
        seed: words of the seed, see `words_of`.
        pool: uint64 [5], overwritten.
    """
    pool[4] = INIT_A
    for i in range(4):
        pool[i] = hashed(seed[i] if i < len(seed) else ZERO, pool)
    for source in range(4):
        for i in range(4):
            if i != source:
                stir(pool, i, pool[source])
    for more in range(4, len(seed)):
        for i in range(4):
            stir(pool, i, seed[more])


@kernel
def start(state: Words, seed_pool: Words, first: int, second: int, pool: Words) -> None:
    """Make ``default_rng(SeedSequence(seed, spawn_key=(first, second)))``.

    Args:
        state: uint64 [6], overwritten.
        seed_pool: see `pool_of`.
        first: of the spawn key, below 2^32, as is ``second``.
        second: of the spawn key.
        pool: uint64 [5], overwritten.
    """
    pool[:] = seed_pool
    for i in range(4):
        stir(pool, i, np.uint64(first))
    for i in range(4):
        stir(pool, i, np.uint64(second))
    constant = INIT_B
    for i in range(4):
        state[i] = ZERO
    for i in range(8):  # the words of generate_state(4, uint64), the low half first
        value = pool[i % 4] ^ constant
        constant = (constant * MULT_B) & MASK
        value = (value * constant) & MASK
        value ^= value >> SHIFT
        state[i // 2] |= value << (HALF if i % 2 else ZERO)
    first_high, first_low = state[0], state[1]
    state[2] = (state[2] << ONE) | (state[3] >> TOP_BIT)
    state[3] = (state[3] << ONE) | ONE
    low = state[3] + first_low  # one step from 0 gives the increment
    state[0] = state[2] + first_high + (ONE if low < first_low else ZERO)
    state[1] = low
    advance(state)
    state[4] = ZERO
    state[5] = ZERO


@kernel
def advance(state: Words) -> None:
    """Take one step of the 128-bit linear congruential generator."""
    low = state[1]
    a, b = low & MASK, low >> HALF
    c, d = STEP_LOW & MASK, STEP_LOW >> HALF
    ac, ad, bc = a * c, a * d, b * c
    middle = (ac >> HALF) + (ad & MASK) + (bc & MASK)
    high = b * d + (ad >> HALF) + (bc >> HALF) + (middle >> HALF)
    high += state[0] * STEP_LOW + low * STEP_HIGH
    low = low * STEP_LOW + state[3]
    state[0] = high + state[2] + (ONE if low < state[3] else ZERO)
    state[1] = low


@kernel
def next64(state: Words) -> Any:
    """Return the next 64 bits: a step, then XSL-RR."""
    advance(state)
    folded = state[0] ^ state[1]
    turn = state[0] >> TO_TOP
    return (folded >> turn) | (folded << ((WIDTH - turn) & TOP_BIT))


@kernel
def next32(state: Words) -> Any:
    """Return the next 32 bits: the low half of a draw first, the high half next time."""
    if state[4] != ZERO:
        state[4] = ZERO
        return state[5]
    drawn = next64(state)
    state[4] = ONE
    state[5] = drawn >> HALF
    return drawn & MASK


@kernel
def uniform(state: Words) -> Any:
    """Draw what ``rng.random()`` draws."""
    return (next64(state) >> TO_53) * ONE_IN_2_53


@kernel
def below(state: Words, n: int) -> Any:
    """Draw what ``rng.integers(n)`` draws, for n from 1 to 2^32 - 1; nothing is drawn for 1."""
    if n == 1:
        return np.int64(0)
    width = np.uint64(n)
    product = next32(state) * width
    if (product & MASK) < width:
        least = ((MASK + ONE) - width) % width
        while (product & MASK) < least:
            product = next32(state) * width
    return np.int64(product >> HALF)
