"""The generators against published figures."""

from collections.abc import Callable

import numpy as np
import pytest

from sim import ClusterSpec, Scenario, simulate, summarise
from sim.generators import default_workload
from sim.generators.lublin import (
    BATCH,
    INTERACTIVE,
    ROUND_VALUES_S,
    TYPELESS,
    bucket_weights,
    f_model,
    lublin,
    processors,
    round_up,
    run_times,
)
from sim.generators.lublin_generator import MACHINE_PROCS, OFFERED_LOAD
from sim.metrics.workload_profile import offered_load
from sim.model.errors import WorkloadError

# One run of the authors' C program: 20,000 jobs, of which 16,534 interactive and 3,466 batch.
# Gaps between arrivals are heavy-tailed, so the number of batch jobs varies by about 320 from run
# to run and carries the run times with it. So run times and processors are drawn at the program's
# own mix of types, and gaps and the mix are compared over whole runs. Allowed are 3 standard
# deviations of a single run, measured over the seeds, and 1 s for values in whole seconds.
N_INTERACTIVE, N_BATCH = 16_534, 3_466
QUANTILES = (10, 25, 50, 75, 90, 99)
GAPS = {
    "mean": 576, "q10": 7, "q25": 17, "q50": 53, "q75": 187, "q90": 685, "q99": 9132,
    "n_batch": N_BATCH,
}  # fmt: skip
JOBS = {
    "mean": 1867, "q10": 3, "q25": 6, "q50": 20, "q75": 102, "q90": 1456, "q99": 33487,
    "procs": 8.99, "serial": 0.179, "power_of_two": 0.865,
}  # fmt: skip


def quantiles(values: np.ndarray) -> dict[str, float]:
    told = {f"q{q}": float(np.percentile(values, q)) for q in QUANTILES}
    return {"mean": float(values.mean()), **told}


def jobs_at_the_programs_mix(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    parts = [
        (p, processors(p, n, rng)) for p, n in ((INTERACTIVE, N_INTERACTIVE), (BATCH, N_BATCH))
    ]
    runtime_s = np.concatenate([run_times(p, procs, rng) for p, procs in parts])
    procs = np.concatenate([procs for _, procs in parts]).astype(np.int64)
    power_of_two = float(((procs & (procs - 1)) == 0).mean())
    told = {"procs": float(procs.mean()), "serial": float((procs == 1).mean())}
    return quantiles(runtime_s) | told | {"power_of_two": power_of_two}


def gaps_of_a_run(seed: int) -> dict[str, float]:
    workload = lublin(N_INTERACTIVE + N_BATCH, seed)
    n_batch = float((workload.queue == 1).sum())
    return quantiles(np.diff(workload.submit_s)) | {"n_batch": n_batch}


@pytest.mark.soak
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("figures", "reference"), [(jobs_at_the_programs_mix, JOBS), (gaps_of_a_run, GAPS)]
)
def test_lublin_agrees_with_the_authors_program(
    figures: Callable[[int], dict[str, float]], reference: dict[str, float]
) -> None:
    runs = [figures(seed) for seed in range(40)]
    for key, expected in reference.items():
        ours = np.array([run[key] for run in runs])
        whole_seconds = 1.0 if key.startswith("q") else 0.0
        allowed = 3 * ours.std(ddof=1) + whole_seconds
        assert abs(ours.mean() - expected) <= allowed, (key, expected, ours.mean(), allowed)


def test_lublin_shares_are_those_of_the_parameters() -> None:
    # 20,000 draws: the standard deviation of a share is at most 0.0035; four of them are allowed.
    workload = lublin(20_000, 1)
    for queue, p in enumerate((INTERACTIVE, BATCH)):
        procs = workload.procs[workload.queue == queue]
        allowed = 4 * np.sqrt(0.25 / len(procs))
        assert abs((procs == 1).mean() - p.serial_prob) < allowed
        assert procs.max() <= 2**p.u_hi + 1
    assert workload.runtime_s.max() <= np.exp(12)
    assert (workload.runtime_s == np.floor(workload.runtime_s)).all()


def test_a_longer_workload_begins_with_the_shorter_one() -> None:
    short, long = lublin(200, 7), lublin(500, 7)
    assert long.head(200) == short
    assert lublin(200, 8) != short


def test_the_day_is_cyclic_and_busiest_in_the_afternoon() -> None:
    for p in (INTERACTIVE, BATCH, TYPELESS):
        weights = bucket_weights(p)
        assert weights.mean() == pytest.approx(1.0)
        assert 20 <= weights.argmax() <= 32  # half hours: 10 to 16 o'clock
        assert weights[:12].max() < 1.0


def test_typeless_jobs() -> None:
    workload = lublin(2_000, 3, types=(TYPELESS,))
    assert set(workload.queue.tolist()) == {0}
    assert workload.widest_procs <= 128
    assert workload.requested_is_runtime


def test_the_built_in_workload() -> None:
    workload = default_workload(seed=0)
    assert (workload.n_jobs, workload.max_procs) == (1500, MACHINE_PROCS)
    assert workload.name == "lublin-feitelson (built in)"
    assert 2 * workload.widest_procs <= MACHINE_PROCS, "a split must leave room for the widest job"
    assert offered_load(workload, MACHINE_PROCS) == pytest.approx(OFFERED_LOAD, abs=0.01)
    assert (workload.requested_s >= workload.runtime_s).all()
    assert not workload.requested_is_runtime
    assert "come from a model" in workload.notes[0].sentence
    assert default_workload(seed=0) == workload
    assert default_workload(seed=1) != workload


@pytest.mark.parametrize("seed", range(4))
def test_the_built_in_workload_waits_on_a_machine_that_is_busy(seed: int) -> None:
    busy = ClusterSpec.single(round(MACHINE_PROCS * OFFERED_LOAD / 0.9))
    scenario = Scenario(default_workload(seed), busy)
    mean_s = summarise(scenario, simulate(scenario)).wait.mean
    assert mean_s is not None
    assert 60 < mean_s < 24 * 3600


def test_impossible_numbers_of_jobs() -> None:
    with pytest.raises(WorkloadError, match="0 jobs; ask for 1 or more"):
        lublin(0)
    with pytest.raises(WorkloadError, match="1 jobs; the built-in workload needs 2 or more"):
        default_workload(n_jobs=1)
    with pytest.raises(WorkloadError, match="seed is -1"):
        default_workload(seed=-1)


def test_requests_are_rounded_up() -> None:
    asked = round_up(np.array([1.0, 60.0, 61.0, 3600.1, 96 * 3600.0, 97 * 3600.0]))
    assert asked.tolist() == [60.0, 60.0, 120.0, 5400.0, 96 * 3600.0, 5 * 86400.0]
    assert list(ROUND_VALUES_S) == sorted(ROUND_VALUES_S)
    runtime_s = np.full(1000, 100.0)
    requested_s = f_model(runtime_s, 3.0, np.random.default_rng(0))
    assert requested_s.min() >= 100.0
    assert requested_s.max() <= 400.0
    assert f_model(runtime_s, 0.0, np.random.default_rng(0)).tolist() == runtime_s.tolist()
