"""Compiled simulations return to Python about five times a second, and go on where they were."""

import numpy as np
import pytest

from sim import ClusterSpec, Scenario, simulate
from sim.engines import compiled
from sim.generators import default_workload
from sim.kernel import jit


@pytest.mark.parametrize(("instants", "took_s", "following"), [
    (2_000, 0.2, 2_000),
    (2_000, 0.0, 8_000),
    (2_000, 0.01, 8_000),
    (2_000, 20.0, 20),
    (3, 60.0, 1),
    (1_500_000, 0.1, 2_000_000),
])  # fmt: skip
def test_the_next_slice_takes_a_fifth_of_a_second(
    instants: int, took_s: float, following: int
) -> None:
    assert compiled.next_slice(instants, took_s) == following


def test_slices_shrink_while_an_instant_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, slices = 0.0, []

    def step(n_instants: int) -> bool:
        nonlocal now_s
        now_s += n_instants * (1e-7 if len(slices) < 4 else 1e-3)
        slices.append(n_instants)
        return len(slices) == 9

    monkeypatch.setattr("sim.engines.compiled.time.perf_counter", lambda: now_s)
    compiled.advance(step)
    assert slices[:5] == [2_000, 8_000, 32_000, 128_000, 512_000]
    assert slices[5:] == [200, 200, 200, 200]


@pytest.mark.skipif(jit.unavailable() is not None, reason="needs a compiler")
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_slices_change_no_start(backfill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(default_workload(3, 400), ClusterSpec.single(128), backfill=backfill)
    whole = simulate(scenario, engine="compiled")
    monkeypatch.setattr(compiled, "FIRST_SLICE", 1)
    monkeypatch.setattr(compiled, "next_slice", lambda n_instants, _took_s: n_instants % 5 + 1)
    np.testing.assert_array_equal(simulate(scenario, engine="compiled").start_s, whole.start_s)
