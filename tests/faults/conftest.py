"""What the tests of faults share."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: these tests ask what is in files, not on a disk."""
    memory = Path("/dev/shm")
    at = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=at) as name:
        yield Path(name)
