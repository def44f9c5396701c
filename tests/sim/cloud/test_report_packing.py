"""Packings and Survival-MSE of the report: the same tuples for all, suited servers, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sim.generators.cloud.batches import (
    CloudWindows,
    batches_of,
    cloud_windows,
    cloud_windows_of_traces,
)
from sim.generators.cloud.lifetimes import fit_lifetimes
from sim.generators.cloud.packing import (
    PACKING_RULES,
    PackingRequests,
    TupleRanges,
    draw_tuples,
    pack_jobs,
    requests_of,
)
from sim.generators.cloud.report import cloud_report, lifetime_rows
from sim.generators.cloud.report_values import (
    HALF,
    PROBES,
    CloudReport,
    WindowPacker,
    packing_plan,
    requests_of_jobs,
    suited_ranges,
)
from sim.generators.cloud.scores import exact_bins, kaplan_meier, survival_mse, survival_of
from sim.model.cloud_trace import Bins
from sim.model.errors import WorkloadError
from sim.model.workload import Workload
from tests.sim.cloud.logs import log_of
from tests.sim.cloud.test_stages import trace_of

MIB = 2**20


def with_memory(log: Workload, seed: int) -> Workload:
    """Return the log with 1 to 7 GiB a processor, the less the more of them a job asks for."""
    rng = np.random.default_rng(seed)
    per_proc = np.where(log.procs > 2, 1024, rng.choice([2048, 7168], log.n_jobs)) * MIB
    return replace(log, mem_bytes_per_proc=per_proc.astype(np.int64))


@pytest.fixture(scope="module")
def logs() -> tuple[Workload, Workload]:
    early, late = log_of(5, 1, name="a"), log_of(2, 2, begin_day=5, name="b")
    return with_memory(early, 1), with_memory(late, 2)


@pytest.fixture(scope="module")
def windows(logs: tuple[Workload, Workload]) -> CloudWindows:
    return cloud_windows(*logs)


@pytest.fixture(scope="module")
def report(windows: CloudWindows) -> CloudReport:
    return cloud_report(windows, n_windows=5, seed=3, n_packings=60)


def test_all_are_packed_by_the_same_tuples(report: CloudReport) -> None:
    told = report.packing
    assert told.skipped is None
    assert told.ranges is not None
    assert told.tuples == draw_tuples(60, 3, told.ranges)
    assert [one.name for one in told.windows] == ["real", "three_stage", "simple_batch", "naive"]
    for one in told.windows:
        assert (one.every.n_tuples, len(one.cpu), len(one.memory)) == (60, 60, 60)
        assert one.every.n_failed >= 30, "servers are such that they fill"
        assert list(one.by_algorithm) == [rule.name for rule in PACKING_RULES]
        assert sum(s.n_failed for s in one.by_algorithm.values()) == one.every.n_failed
        failed = np.array([one.cpu, one.memory], dtype=np.float64)
        limiting = failed.max(axis=0)[~np.isnan(failed[0])]
        assert one.every.median == pytest.approx(np.median(limiting))
        assert one.every.above == pytest.approx((limiting > 0.95).mean())


def test_the_real_window_is_packed_as_the_log_itself(
    logs: tuple[Workload, Workload], windows: CloudWindows, report: CloudReport
) -> None:
    jobs = requests_of_jobs(windows.jobs, windows.test.n_periods * windows.test.period_s)
    own = requests_of(logs[1])
    assert jobs.mcpu.tolist() == own.mcpu.tolist()
    assert jobs.mem_bytes.tolist() == own.mem_bytes.tolist()
    shift = jobs.start_s - own.start_s
    assert np.ptp(shift) < 1e-6
    assert jobs.end_s - own.end_s == pytest.approx(shift)
    told = pack_jobs(jobs, report.packing.tuples)
    real = report.packing.windows[0]
    assert [None if np.isnan(v) else v for v in told.cpu] == list(real.cpu)


def test_windows_take_turns_with_the_tuples(windows: CloudWindows, report: CloudReport) -> None:
    plan = report.packing
    span_s = windows.test.n_periods * windows.test.period_s
    packer = WindowPacker.of("x", plan, 3)
    for place in range(3):
        packer.add(place, windows.jobs, span_s)
    told = packer.packed()
    assert told is not None
    assert told.cpu == plan.windows[0].cpu, "the same window each time is the window"
    part = WindowPacker.of("x", plan, 3)
    part.add(1, windows.jobs, span_s)
    found = part.packed()
    assert found is not None
    assert found.cpu[1::3] == told.cpu[1::3]
    assert found.cpu[0::3] == (None,) * 20


def test_servers_suit_the_log(windows: CloudWindows) -> None:
    n = 4000
    rng = np.random.default_rng(5)
    start_s = np.sort(rng.uniform(0.0, 1e5, n))
    small = PackingRequests(
        start_s, start_s + 4000.0, np.full(n, 1000), rng.choice([1, 3], n) * 2**30, 0.0, 1e5
    )
    ranges = suited_ranges(small)
    assert ranges is not None
    assert ranges.cores == (2, 6), "2 to 6 times the widest job"
    assert ranges.servers[1] * 2 * ranges.cores[0] <= 0.5 * 1.5 * 160, "half of the peak, at most"
    told = pack_jobs(small, draw_tuples(PROBES, 0, ranges)).of(None)
    assert told.n_failed >= 0.9 * PROBES
    assert told.cpu_limited is not None
    assert HALF[0] <= told.cpu_limited <= HALF[1]


def test_the_usual_servers_are_kept_where_they_suit() -> None:
    n = 40_000
    rng = np.random.default_rng(6)
    start_s = np.sort(rng.uniform(0.0, 1e5, n))
    mcpu = rng.choice([1000, 2000, 8000], n)
    memory = (mcpu * rng.choice([1.5, 3.0, 5.5], n) * 2**30 / 1000).astype(np.int64)
    large = PackingRequests(start_s, start_s + 1e5, mcpu, memory, 0.0, 1e5)
    assert suited_ranges(large) == TupleRanges()


def test_what_is_not_packed_says_why(
    logs: tuple[Workload, Workload], windows: CloudWindows
) -> None:
    early, late = logs
    assert packing_plan(windows, 0, 0).skipped == "No packing: the number of packings is 0."
    unknown = replace(late, mem_bytes_per_proc=np.append(late.mem_bytes_per_proc[:-1], -1))
    told = packing_plan(cloud_windows(early, unknown), 9, 0)
    assert told.skipped is not None
    assert "b does not give the memory request of every job" in told.skipped
    assert (told.ranges, told.tuples, told.windows) == (None, (), ())
    short = replace(early, runtime_s=np.full(early.n_jobs, 1e-3))
    nothing = packing_plan(cloud_windows(short, late), 9, 0)
    assert nothing.skipped is not None
    assert "even one server is almost never too small" in nothing.skipped
    brief = replace(late, runtime_s=np.full(late.n_jobs, 1e-3))
    never = packing_plan(cloud_windows(early, brief), 9, 0)
    assert never.skipped is not None
    assert "every job of b finds room" in never.skipped
    with pytest.raises(WorkloadError, match="n_packings is -1"):
        cloud_report(windows, n_windows=2, n_packings=-1)


def test_a_report_is_json_where_packings_never_fail(report: CloudReport) -> None:
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert len(told["packing"]["tuples"]) == 60
    assert set(told["packing"]["windows"][0]["by_algorithm"]) == {r.name for r in PACKING_RULES}
    assert {"Survival-MSE", "first failure"} <= set(told["definitions"])


def test_survival_mse_of_rows_is_that_of_the_curves(
    windows: CloudWindows, report: CloudReport
) -> None:
    rows = {one.name: one for one in report.next_lifetime}
    law = fit_lifetimes(windows.lived)
    hazard, row = law.hazards(windows.test)
    for stepped in (False, True):
        curve = survival_of(hazard, windows.test.bins, stepped=stepped)
        told = rows["three_stage"]
        found = told.survival_mse_stepped if stepped else told.survival_mse
        assert found == pytest.approx(curve.mse(windows.lived_s, row))
    pooled, best = rows["Overall KM"].survival_mse, rows["three_stage"].survival_mse
    flipped = rows["CoinFlip"].survival_mse
    assert best is not None
    assert pooled is not None
    assert flipped is not None
    assert best < 0.8 * pooled < 0.8 * flipped
    exact = rows["Overall KM, continuous"]
    assert exact.survival_mse_stepped == pytest.approx(pooled, rel=0.05)
    assert (exact.survival_mse, exact.error, exact.bce) == (None, None, None)
    assert rows["RepeatLifetime"].survival_mse is None


def test_lives_belong_to_their_jobs(windows: CloudWindows) -> None:
    assert windows.test.bins.of(windows.lived_s).tolist() == windows.test.lifetime.tolist()
    assert windows.lived_s.tolist() != windows.jobs.lived_s.tolist(), "batches are told together"


def test_survival_mse_is_taken_some_jobs_at_a_time() -> None:
    rng = np.random.default_rng(9)
    bins = Bins((1.0, 5.0, 20.0), 50.0)
    hazard, row = rng.random((6, bins.n)), rng.integers(0, 6, 101)
    lived_s = rng.uniform(0.0, 50.0, 101)
    whole = survival_of(hazard, bins, stepped=False).mse(lived_s, row)
    for at_once in (1, 7, 101, 500):
        parts = survival_mse(hazard, row, bins, lived_s, stepped=False, at_once=at_once)
        assert parts == pytest.approx(whole)


def test_the_continuous_estimate_by_hand() -> None:
    lived_s, censored = np.array([1.0, 2.0, 2.0, 4.0]), np.zeros(4, dtype=np.int64)
    bins = exact_bins(lived_s, censored, 10.0)
    assert bins.ends_s == (1.0, 2.0, 4.0)
    hazard = kaplan_meier(bins.of(lived_s), censored, bins.n)[None]
    # S is 1 up to 1 s, 3/4 up to 2 s, 1/4 up to 4 s, 0 from there; the job lives for 2 s.
    found = survival_mse(hazard, np.zeros(1, dtype=np.int64), bins, np.array([2.0]), stepped=True)
    assert found == pytest.approx((0.25**2 * 1 + 0.25**2 * 2) / 10)


def test_the_forms_of_kaplan_and_meier_come_with_censored_jobs() -> None:
    train = trace_of([[0, 1], [0]] * 30, [3, 3, 7] * 30, censored=(4, 5, 40))
    test = trace_of([[0, 1]] * 20, [3, 7] * 20)
    rows = lifetime_rows(cloud_windows_of_traces(train, test), {})
    names = [one.name for one in rows]
    assert names == [
        "CoinFlip", "Overall KM", "Per-flavour KM", "Overall KM, censored ignored",
        "Per-flavour KM, censored ignored", "Overall KM, censored ended",
        "Per-flavour KM, censored ended", "RepeatLifetime",
    ]  # fmt: skip
    by_name = {one.name: one for one in rows}
    assert by_name["Overall KM"].bce != by_name["Overall KM, censored ended"].bce
    plain = lifetime_rows(cloud_windows_of_traces(test, test), {})
    assert [one.name for one in plain][1:3] == ["Overall KM", "Per-flavour KM"]
    assert len(plain) == 4


def test_the_authors_form_knows_whole_cores_and_memory() -> None:
    log = with_memory(log_of(3, 4), 4)
    trace, _ = batches_of(log)
    windows = cloud_windows_of_traces(trace, trace)
    flavours = windows.test.flavours
    memory = np.array([one.mem_bytes for one in flavours])[windows.test.flavour]
    assert windows.jobs.mem_bytes == pytest.approx(memory)
    assert packing_plan(windows, 12, 0).skipped is None


@pytest.mark.parametrize("quality", ["mix", "trees"])
@pytest.mark.slow
def test_other_qualities_are_reported_on(windows: CloudWindows, quality: str) -> None:
    told = {
        name: cloud_report(
            windows, generators=("three_stage",), n_windows=2, knobs={"quality": name}, n_packings=8
        )
        for name in ("tables", quality)
    }
    flavours = [told[name].next_flavour[-1] for name in ("tables", quality)]
    assert [one.name for one in flavours] == ["three_stage"] * 2
    assert flavours[0].nll != flavours[1].nll, "the mix is another model"
    lives = [told[name].next_lifetime[-1] for name in ("tables", quality)]
    assert (lives[0] != lives[1]) == (quality == "trees"), "the mix has the lives of the tables"
    assert told[quality].packing.windows[1].every.n_failed > 0
