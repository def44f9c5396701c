"""A gain on one half of a log, and what is left of it on the other."""

from dataclasses import replace

import numpy as np
import pytest

from assistant.core.errors import ApplicationError
from assistant.simtools.out_of_sample import out_of_sample, wait_ratio
from sim import CapacityWindow, ClusterSpec, Scenario, Workload, simulate
from sim.generators import default_workload

N = 200


def log(procs: np.ndarray, pause_s: float = 0.0, later_runtime_s: float = 600.0) -> Scenario:
    """A crowded machine of 8 processors; jobs of `procs` processors in order of submission."""
    later = np.arange(2 * N) >= N
    workload = Workload.from_arrays(
        submit_s=300.0 * np.arange(2 * N) + pause_s * later,
        runtime_s=np.where(later, later_runtime_s, 600.0),
        procs=procs, user=np.arange(2 * N) % 5, max_procs=8,
    )  # fmt: skip
    return Scenario(workload, ClusterSpec.single(8), backfill="none")


MIXED = np.tile([8, 1, 1, 8], N // 2)
EQUAL = np.full(N, 8)


def test_equal_configurations_have_no_gain() -> None:
    scenario = log(MIXED)
    transfer = out_of_sample(scenario, scenario, n_futures=2)
    for ratio in (transfer.tuned, transfer.tested, *transfer.variants):
        assert ratio.ratio == 1.0
        assert (ratio.low, ratio.high) == (1.0, 1.0)
    assert transfer.verdict == "does not exist"
    assert "no gain on the first half" in transfer.sentence


def test_a_gain_that_carries_over_is_the_one_that_simulations_give() -> None:
    current = log(MIXED)
    tuned = replace(current, order="saf")
    transfer = out_of_sample(tuned, current, n_futures=2)
    first = current.workload.part(0, N)
    waits = [
        simulate(replace(each, workload=first)).start_s - first.submit_s
        for each in (tuned, current)
    ]
    assert transfer.tuned.ratio == waits[0].sum() / waits[1].sum() < 1
    whole = [simulate(each).start_s[N:] - each.workload.submit_s[N:] for each in (tuned, current)]
    assert transfer.tested.ratio == whole[0].sum() / whole[1].sum()
    assert transfer.verdict == "carries over"
    assert transfer.sentence.count("the gain carries over.") == 1


def test_a_gain_that_does_not_carry_over_is_said_so() -> None:
    # The queue of the first half is empty before the jobs of the second, which are all alike.
    current = log(np.concatenate([MIXED[:N], EQUAL]), pause_s=1e6)
    transfer = out_of_sample(replace(current, order="saf"), current, n_futures=2)
    assert transfer.tuned.verdict == "carries over"
    assert transfer.tested.ratio == 1.0
    assert transfer.verdict == "does not carry over"
    current = log(MIXED, pause_s=1e6, later_runtime_s=1.0)
    transfer = out_of_sample(replace(current, order="saf"), current, n_futures=2)
    assert transfer.verdict == "cannot be judged"
    assert "jobs hardly wait there" in transfer.sentence


def test_the_interval_is_paired() -> None:
    random = np.random.default_rng(1)
    current = [random.exponential(1e4, size=50) for _ in range(10)]
    halved = [block / 2 for block in current]
    ratio = wait_ratio("halved", current, halved, random)
    assert ratio.ratio == ratio.low == ratio.high == 0.5  # blocks vary, their ratio does not
    assert ratio.n_jobs == 500


def test_the_interval_covers_the_truth() -> None:
    held = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        current = [random.exponential(100.0, size=20) for _ in range(20)]
        tuned = [block * random.uniform(0.4, 1.2, size=20) for block in current]
        ratio = wait_ratio("drawn", current, tuned, random)
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= 0.8 <= ratio.high
    assert 170 <= held <= 199  # nominally 190; a bootstrap over few blocks covers less


def test_a_job_that_does_not_run_counts_in_neither() -> None:
    waits = [np.array([100.0, np.nan]), np.array([300.0])]
    ratio = wait_ratio("gaps", waits, waits, np.random.default_rng(0))
    assert (ratio.n_jobs, ratio.current_s) == (2, 200.0)


def test_what_cannot_be_compared_is_refused() -> None:
    scenario = log(MIXED)
    other = replace(scenario, workload=default_workload(seed=1, n_jobs=60))
    with pytest.raises(ApplicationError, match="different jobs"):
        out_of_sample(scenario, other)
    short = replace(scenario, workload=scenario.workload.head(39))
    with pytest.raises(ApplicationError, match="39 jobs; halves in 10 blocks need 40"):
        out_of_sample(short, short)
    closed = replace(scenario, windows=(CapacityWindow("main", 4, 0.0, 60.0),))
    with pytest.raises(ApplicationError, match="windows belong to dates"):
        out_of_sample(closed, closed)
