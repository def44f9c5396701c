"""Fuzz one reader for a while; a seed and a count name every input again."""

import random
import re
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.mutate import mutated
from tests.fuzz.readers import READERS


@dataclass(frozen=True)
class Finding:
    """An input that a reader did not take as it should, and why."""

    reader: str
    seed: int
    count: int
    data: bytes
    fault: str


def case(reader: str, seed: int, count: int) -> bytes:
    """Return the input number ``count`` of a seed."""
    chosen = READERS[reader]
    rng = random.Random(f"{reader}/{seed}/{count}")
    return chosen.mutate(rng, chosen.seeds(), chosen.words)


def fuzz(reader: str, seconds: float, seed: int, most: int = 20) -> tuple[int, list[Finding]]:
    """Return how many inputs were tried, and the first finding of each kind.

    Args:
        reader: one of `READERS`.
        seconds: wall-clock time; at least every valid file and one mutation are tried.
        seed: of the mutations.
        most: kinds of findings to stop at.
    """
    chosen, end_s = READERS[reader], time.monotonic() + seconds
    found: dict[str, Finding] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.mutate is mutated:
            for valid in chosen.seeds():
                chosen.fault(valid, folder)  # also imports what is imported on first use
        count = 0
        while count == 0 or (time.monotonic() < end_s and len(found) < most):
            data = case(reader, seed, count)
            fault = chosen.fault(data, folder)
            if fault is not None:
                kind = re.sub(r"'.*'|\d+", "", fault)[-300:]
                found.setdefault(kind, Finding(reader, seed, count, data, fault))
            count += 1
    return count, list(found.values())
