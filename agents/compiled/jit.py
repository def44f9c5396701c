"""Compilation of functions with Numba, and NumPy's random streams for compiled functions.

Kernel text is plain Python in the subset that Numba compiles, marked with `kernel`. `compiled`
returns a twin of it, and of every kernel function that it calls, from a folder under the user's
cache folder (`COPPERLINE_CACHE_DIR`, as for `sim.kernel.jit`). Numba's own cache does not see edits
in other files, so that folder is named after a digest of all sources of this package and of the
versions of Python, Numba and the processor. Where it cannot be written, nothing is cached. Numba is
imported with the first compiled function. SeedSequence, PCG64 and two draws are equal to NumPy's
bit for bit.

References: O'Neill 2014, PCG: a family of simple fast space-efficient statistically good
algorithms, HMC-CS-2014-0905 (XSL-RR 128/64); O'Neill 2015, Developing a seed_seq alternative;
Lemire 2019, Fast random integer generation in an interval, ACM TOMACS 29(1); NumPy's documentation
of `SeedSequence` and `PCG64` (layout of the words).
"""

import hashlib
import os
import platform
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


_F = TypeVar("_F", bound=Callable[..., Any])

_lock = threading.RLock()
_texts: set[Any] = set()
_twins: dict[FunctionType, Any] = {}


def kernel(function: _F) -> _F:
    """Mark a function as compilable by Numba and return it unchanged."""
    _texts.add(function)
    return function


def compiled(function: Callable[..., Any]) -> Any:
    """Return the Numba-compiled version of a kernel function, compiling it when needed.

    It runs without Python's lock, so threads can run it in parallel.
    """
    with _lock:
        return _twin(function)  # type: ignore[arg-type]


def is_available() -> bool:
    """Return whether Numba may compile functions, which NUMBA_DISABLE_JIT=1 forbids."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def sources_digest(package: Path | None = None) -> str:
    """Return a digest of all sources and versions that affect the compiled functions.

    ``package`` is the folder with the kernel text, by default this one.
    """
    import numba

    sha = hashlib.sha256()
    for part in (platform.python_version(), str(numba.__version__), _processor()):
        sha.update(part.encode() + b"\0")
    for path in sorted((package or Path(__file__).resolve().parent).glob("*.py")):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return the folder for compiled machine code, or None if no folder is writable."""
    configured = os.environ.get("COPPERLINE_CACHE_DIR")
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = (
            Path(configured).expanduser() if configured else Path(base).expanduser() / "copperline"
        )
        folder = root / f"episodes-{sources_digest()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None


def _processor() -> str:
    """Return text that identifies the processors that can share machine code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    names = ("model name", "flags", "Features", "CPU part")
    return platform.machine() + "".join(sorted({s for s in lines if s.startswith(names)}))


def _twin(function: FunctionType) -> Any:
    """Return the dispatcher of a kernel function, whose callees are twins too."""
    if function not in _twins:
        import numba
        from numba.core import config

        numba_config: Any = config
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(other := names.get(name), FunctionType) and other in _texts:
                names[name] = _twin(other)
        twin = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        folder, before = cache_folder(), numba_config.CACHE_DIR
        numba_config.CACHE_DIR = str(folder or before)
        try:
            _twins[function] = numba.njit(cache=folder is not None, nogil=True)(twin)
        finally:
            numba_config.CACHE_DIR = before
    return _twins[function]


N_STATE = 6
N_POOL = 5  # Four words of 32 bits of entropy, and the constant for mixing the next one

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
    """Split a non-negative integer into 32-bit words, the least significant first."""
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return np.array(words, dtype=np.uint64)


def state_of(sequence: np.random.SeedSequence) -> Words:
    """Return the PCG64 state of ``np.random.default_rng(sequence)`` as an array."""
    generator_state: Any = np.random.PCG64(sequence).state["state"]
    pairs = (divmod(generator_state[name], 2**64) for name in ("state", "inc"))
    return np.array([*(word for pair in pairs for word in pair), 0, 0], dtype=np.uint64)


@kernel
def hash_word(word: np.uint64, pool: Words) -> Any:
    """Return the hash of a 32-bit word as NumPy's SeedSequence does; change the hash constant."""
    value = word ^ pool[4]
    pool[4] = (pool[4] * MULT_A) & MASK
    value = (value * pool[4]) & MASK
    return value ^ (value >> SHIFT)


@kernel
def stir(pool: Words, at: int, word: np.uint64) -> None:
    """Mix a 32-bit word into entry `at` of the entropy pool, as NumPy's SeedSequence does."""
    value = (MIX_LEFT * pool[at] - MIX_RIGHT * hash_word(word, pool)) & MASK
    pool[at] = value ^ (value >> SHIFT)


@kernel
def pool_of(seed: Words, pool: Words) -> None:
    """Fill ``pool``, uint64 [5], with the entropy pool of a SeedSequence without spawn key."""
    pool[4] = INIT_A
    for i in range(4):
        pool[i] = hash_word(seed[i] if i < len(seed) else ZERO, pool)
    for source in range(4):
        for i in range(4):
            if i != source:
                stir(pool, i, pool[source])
    for more in range(4, len(seed)):
        for i in range(4):
            stir(pool, i, seed[more])


@kernel
def start(state: Words, seed_pool: Words, first: int, second: int, pool: Words) -> None:
    """Compute the state, uint64 [6], of a generator with spawn key ``(first, second)``.

    It is that of ``default_rng(SeedSequence(seed, spawn_key=...))``, with ``seed_pool`` from
    `pool_of`; both numbers of the key are below 2^32, and ``pool`` is scratch.
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
    """Advance the 128-bit linear congruential generator of PCG64 by one step."""
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
    """Return the next 64 random bits of PCG64 (XSL-RR output)."""
    advance(state)
    folded = state[0] ^ state[1]
    turn = state[0] >> TO_TOP
    return (folded >> turn) | (folded << ((WIDTH - turn) & TOP_BIT))


@kernel
def next32(state: Words) -> Any:
    """Return the next 32 random bits of PCG64; two calls share one 64-bit draw."""
    if state[4] != ZERO:
        state[4] = ZERO
        return state[5]
    bits = next64(state)
    state[4] = ONE
    state[5] = bits >> HALF
    return bits & MASK


@kernel
def uniform(state: Words) -> Any:
    """Draw a float in [0, 1), the same number as NumPy's ``rng.random()``."""
    return (next64(state) >> TO_53) * ONE_IN_2_53


@kernel
def below(state: Words, n: int) -> Any:
    """Draw an integer in [0, n), the same number as NumPy's ``rng.integers(n)``."""
    if n == 1:
        return np.int64(0)
    width = np.uint64(n)
    product = next32(state) * width
    if (product & MASK) < width:
        least = ((MASK + ONE) - width) % width
        while (product & MASK) < least:
            product = next32(state) * width
    return np.int64(product >> HALF)
