"""A while of fuzzing for every reader. The seed is printed; COPPERLINE_FUZZ_SEED repeats it."""

import os
import random

import pytest

from tests.fuzz.fuzzing import case, fuzz
from tests.fuzz.readers import READERS

SECONDS = float(os.environ.get("COPPERLINE_FUZZ_SECONDS", "10"))
"""Two minutes are given by hand: ``python -m tests.fuzz all --seconds 120``."""


@pytest.mark.soak
@pytest.mark.fuzz
@pytest.mark.parametrize("reader", READERS)
def test_no_input_does_harm(reader: str) -> None:
    told = os.environ.get("COPPERLINE_FUZZ_SEED")
    seed = random.SystemRandom().randrange(10**9) if told is None else int(told)
    print(f"COPPERLINE_FUZZ_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    count, found = fuzz(reader, SECONDS, seed)
    assert not found, "\n".join(
        f"{reader}: seed {seed}, input {one.count} of {count}: {one.fault}\n{one.data[:400]!r}"
        for one in found
    )


@pytest.mark.parametrize("reader", READERS)
def test_a_seed_and_a_count_name_an_input(reader: str) -> None:
    inputs = [case(reader, 5, count) for count in range(20)]
    assert inputs == [case(reader, 5, count) for count in range(20)]
    assert len(set(inputs)) > 5
