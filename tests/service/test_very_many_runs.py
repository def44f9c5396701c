"""No request on an experiment of very many runs makes the service grow by more than 200 MB."""

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.service_big import big_store, one_by_one

N_RUNS = 20_000
MOST_BYTES = 200 * 2**20


@pytest.mark.soak
def test_every_request_is_answered_within_a_bound_on_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.db"
    big_store(path, N_RUNS).close()
    found = one_by_one(path, N_RUNS)
    memory = {name: times["rss_bytes"] or 0.0 for name, times in found.items()}
    growth = {after: memory[after] - memory[before] for before, after in pairwise(memory)}
    assert "suggest 8" in growth
    assert "forecast" in growth
    assert {name: n for name, n in growth.items() if n > MOST_BYTES} == {}
