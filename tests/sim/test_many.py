"""Many scenarios at once, and results that are kept."""

import shutil
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sim import CapacityWindow, ClusterSpec, Partition, Scenario, simulate, summarise
from sim.api import (
    EngineError,
    ResultCache,
    ScenarioError,
    UnknownNameError,
    measures,
    simulate_many,
)
from sim.generators import default_workload
from sim.metrics.schedule_metrics import distribution
from tests.draw.workloads import scenarios

WORKLOAD = default_workload(seed=7, n_jobs=300)


def some_scenarios(n: int) -> list[Scenario]:
    return [
        Scenario(
            WORKLOAD,
            ClusterSpec((Partition("short", 8 + i, max_requested_s=3600.0), Partition("all", 96))),
            backfill="easy" if i % 2 else "none",
        )
        for i in range(n)
    ]


def test_results_are_the_same_and_in_order_whatever_the_number_of_threads() -> None:
    wanted = some_scenarios(40)
    one_by_one = [simulate(scenario) for scenario in wanted]
    assert len({result.start_s.tobytes() for result in one_by_one}) > 10, "they must differ"
    for threads in (1, 2, 5, None):
        assert list(simulate_many(wanted, threads=threads)) == one_by_one


def test_what_is_wanted_of_each_result_is_made_in_the_thread_that_simulated() -> None:
    wanted = some_scenarios(6)
    seen: set[str] = set()

    def waits(scenario: Scenario, result: object) -> dict[str, float]:
        seen.add(threading.current_thread().name)
        return measures(scenario, result)  # type: ignore[arg-type]

    found = list(simulate_many(wanted, each=waits, threads=2))
    assert found == [summarise(one, simulate(one)).flat() for one in wanted]
    assert all(name.startswith("simulate") for name in seen)


def test_progress_is_told_and_scenarios_are_not_taken_far_ahead() -> None:
    taken: list[int] = []

    def endless() -> object:
        for i in count():
            taken.append(i)
            yield some_scenarios(1)[0]

    done: list[int] = []
    results = simulate_many(endless(), threads=2, progress=done.append)  # type: ignore[arg-type]
    for _ in range(5):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert done == [1, 2, 3, 4, 5]
    assert len(taken) <= 5 + 2 * 8 + 1
    assert not [t for t in threading.enumerate() if t.name.startswith("simulate")]


def test_a_scenario_that_is_refused_is_refused_at_its_turn() -> None:
    wide = Scenario(WORKLOAD, ClusterSpec.single(1))
    for threads in (1, 3):
        results = simulate_many([*some_scenarios(2), wide, *some_scenarios(1)], threads=threads)
        assert next(results).scenario_digest == some_scenarios(2)[0].digest
        next(results)
        with pytest.raises(ScenarioError, match="the widest partition"):
            next(results)
    for threads in (0, -1, 2.5, "2", True):
        with pytest.raises(EngineError, match=r"threads is .*; allowed are whole numbers from 1"):
            simulate_many([], threads=threads)  # type: ignore[call-overload]
    with pytest.raises(UnknownNameError, match="no engine 'fast'"):
        simulate_many([], engine="fast")
    assert list(simulate_many([])) == []


@pytest.mark.parametrize("threads", [1, 4])
def test_what_taking_a_scenario_raises_comes_at_its_turn(threads: int) -> None:
    def broken() -> Iterator[Scenario]:
        yield from some_scenarios(3)
        raise RuntimeError("the file of scenarios ends here")

    results = simulate_many(broken(), threads=threads)
    assert [next(results).scenario_digest for _ in range(3)] == [
        one.digest for one in some_scenarios(3)
    ]
    with pytest.raises(RuntimeError, match="ends here"):
        next(results)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(EngineError, match=r"results cannot be kept in .*name a folder"):
        ResultCache(folder=blocked)
    with pytest.raises(EngineError, match="most_bytes is -1"):
        ResultCache(most_bytes=-1)
    cache = ResultCache(folder=tmp_path / "kept")
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "kept").write_text("")
    (wanted,) = some_scenarios(1)
    with pytest.raises(EngineError, match=r"cannot write .*another folder"):
        cache.put(simulate(wanted))
    assert cache.get(wanted.digest) == simulate(wanted), "memory keeps it"


def test_placements_are_kept_on_disk_too(tmp_path: Path) -> None:
    cluster = ClusterSpec.single(96).in_machines_of(8)
    wanted = Scenario(WORKLOAD, cluster, allocation="whole_nodes")
    (first,) = simulate_many([wanted], cache=ResultCache(folder=tmp_path))
    found = ResultCache(folder=tmp_path).get(wanted.digest)
    assert found == first
    assert found is not None
    assert found.placement is not None


def test_restarts_are_kept_on_disk_too(tmp_path: Path) -> None:
    failure = CapacityWindow("main", 96, 40_000, 50_000, "failure")
    wanted = Scenario(WORKLOAD, ClusterSpec.single(96), windows=(failure,))
    (first,) = simulate_many([wanted], cache=ResultCache(folder=tmp_path))
    found = ResultCache(folder=tmp_path).get(wanted.digest)
    assert found == first
    assert found is not None
    assert found.restarts is not None
    assert found.restarts.n.any()


def test_kept_results_are_found_by_digest_in_memory_and_on_disk(tmp_path: Path) -> None:
    wanted = some_scenarios(5)
    cache = ResultCache(folder=tmp_path)
    first = list(simulate_many(wanted, cache=cache))
    assert (cache.counts.n_hits, cache.counts.n_misses) == (0, 5)
    assert list(simulate_many(wanted, cache=cache)) == first
    assert (cache.counts.n_hits, cache.counts.n_misses) == (5, 5)
    other = ResultCache(folder=tmp_path)
    assert list(simulate_many(wanted, cache=other)) == first
    assert (other.counts.n_hits, other.counts.n_misses) == (5, 0)
    with pytest.raises(ValueError, match="read-only"):
        next(simulate_many(wanted, cache=other)).start_s[0] = 1.0


def test_a_damaged_file_counts_as_missing_and_is_written_anew(tmp_path: Path) -> None:
    (wanted,) = some_scenarios(1)
    next(simulate_many([wanted], cache=ResultCache(folder=tmp_path)))
    (path,) = tmp_path.rglob("*.npz")
    whole = path.read_bytes()
    for damaged in (b"", b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        cache = ResultCache(folder=tmp_path)
        assert next(simulate_many([wanted], cache=cache)) == simulate(wanted)
        assert (cache.counts.n_misses, cache.counts.n_damaged) == (1, 1)
        assert path.read_bytes() == whole
    assert list(tmp_path.rglob(".part-*")) == []


def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    wanted = some_scenarios(3)
    results = [simulate(one) for one in wanted]
    size = sum(getattr(results[0], n).nbytes for n in ("start_s", "end_s", "partition", "state"))
    cache = ResultCache(most_bytes=2 * size)
    cache.put(results[0])
    cache.put(results[1])
    assert cache.get(wanted[0].digest) is not None
    cache.put(results[2])
    assert cache.get(wanted[1].digest) is None
    assert cache.get(wanted[0].digest) == results[0]
    none = ResultCache(most_bytes=0)
    none.put(results[0])
    assert none.get(wanted[0].digest) is None


@given(scenarios())
def test_measures_are_the_summary_bit_by_bit(scenario: Scenario) -> None:
    result = simulate(scenario, engine="interpreted")
    assert measures(scenario, result) == summarise(scenario, result).flat()


@pytest.mark.parametrize("n", [*range(1, 45), 1000, 4999])
def test_a_distribution_is_numpys_bit_by_bit(n: int) -> None:
    values = np.random.default_rng(n).lognormal(5, 3, n)
    found = distribution(values)
    assert found.median == np.median(values)
    assert found.p95 == np.quantile(values, 0.95)
    assert (found.n, found.mean, found.max) == (n, values.mean(), values.max())
