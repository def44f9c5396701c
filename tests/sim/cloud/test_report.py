"""Windows that are foreseen: the same flavours on one clock, scores, bands, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.api import load_workload
from sim.formats import is_cloud_trace, read_cloud_trace
from sim.generators.cloud.batches import (
    CloudWindows,
    cloud_windows,
    cloud_windows_of_traces,
    cores_by_period,
)
from sim.generators.cloud.capacity import cores_in_use
from sim.generators.cloud.flavours import fit_flavours, recency, tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes
from sim.generators.cloud.report import chosen_generators, cloud_report, picture_of, survival_of
from sim.generators.cloud.report_values import CloudReport, PredictionBand
from sim.generators.cloud.scores import score_flavours, score_lifetimes
from sim.model.cloud_trace import PAPER
from sim.model.errors import TraceError, UnknownNameError, WorkloadError
from sim.model.workload import Workload
from tests.sim.cloud.logs import log_of
from tests.sim.cloud.test_stages import trace_of


@pytest.fixture(scope="module")
def windows() -> CloudWindows:
    return cloud_windows(log_of(6, 1, name="a"), log_of(2, 2, begin_day=6, name="b"))


@pytest.fixture(scope="module")
def report(windows: CloudWindows) -> CloudReport:
    return cloud_report(windows, n_windows=20, seed=3)


def test_requests_have_the_flavours_that_were_learnt(windows: CloudWindows) -> None:
    test = log_of(2, 2, begin_day=6)
    assert windows.test.flavours == windows.train.flavours
    assert windows.notes == ()
    cores = np.array([one.mcpu // 1000 for one in windows.test.flavours])
    assert np.bincount(cores[windows.test.flavour]).tolist() == np.bincount(test.procs).tolist()
    assert windows.test.first_period >= windows.train.first_period + windows.train.n_periods


def test_requests_that_nobody_made_are_counted() -> None:
    test = log_of(2, 2, begin_day=6, name="b")
    procs = test.procs.copy()
    procs[:7] = 64
    found = cloud_windows(log_of(6, 1, name="a"), replace(test, procs=procs))
    nearest = found.test.flavours[int(np.array([f.mcpu for f in found.test.flavours]).argmax())]
    assert nearest.mcpu == 8000
    (note,) = found.notes
    assert note.startswith(f"7 of {test.n_jobs:,} jobs of b have requests that no job of a has")
    few = cloud_windows(log_of(6, 1, name="a"), test, most_flavours=2)
    assert {one.name for one in few.test.flavours} >= {"others up to 4", "others up to 8"}
    assert few.notes == (), "the others have a flavour too"


def test_dates_that_are_unknown_or_overlap_are_told() -> None:
    a, b = log_of(6, 1, name="a"), log_of(2, 2, begin_day=3, name="b")
    overlapping = cloud_windows(a, b)
    assert "b begins 71.9 h before a ends" in overlapping.notes[0]
    undated = cloud_windows(a, replace(b, start_unix_s=None))
    assert "dates of b are unknown" in undated.notes[0]
    assert undated.test.first_period >= undated.train.first_period + undated.train.n_periods
    assert undated.test.first_period % 288 == 0, "midnight stays midnight"


def test_what_cannot_be_foreseen_is_one_sentence() -> None:
    a, b = log_of(6, 1, name="a"), log_of(2, 2, begin_day=6, name="b")
    nobody = np.full(b.n_jobs, -1)
    with pytest.raises(WorkloadError, match="no job has a known user"):
        cloud_windows(a, replace(b, user=nobody))
    with pytest.raises(WorkloadError, match=r"a spans 1\.0 days; fitting needs 2 or more"):
        cloud_windows(log_of(1, 1, name="a"), b)
    with pytest.raises(WorkloadError, match="periods of 300 s; a test needs 12 or more"):
        cloud_windows(a, b.head(3))
    with pytest.raises(WorkloadError, match="no flavour can be predicted"):
        cloud_windows(a, replace(b, procs=np.full(b.n_jobs, 999)))
    with pytest.raises(UnknownNameError, match="no generator of clouds 'lublin'"):
        chosen_generators("lublin")
    with pytest.raises(WorkloadError, match="1 windows give no band"):
        cloud_report(cloud_windows(a, b), n_windows=1)


def test_scores_are_those_of_the_stages(windows: CloudWindows, report: CloudReport) -> None:
    tokens = tokens_of(windows.train)
    table = fit_flavours(tokens, recency(tokens, windows.train, 7.0))
    score = score_flavours(table, tokens_of(windows.test))
    row = {one.name: one for one in report.next_flavour}["three_stage"]
    assert (row.nll, row.error) == (pytest.approx(score.nll), pytest.approx(score.error))
    lives = score_lifetimes(fit_lifetimes(windows.train), windows.test)
    told = {one.name: one for one in report.next_lifetime}["three_stage"]
    assert told.bce == pytest.approx(lives.bce)
    assert told.masked_error == pytest.approx(lives.masked_error)
    assert told.masked_error is not None
    assert told.error is not None
    assert told.masked_error <= told.error, "it knows a part of the answer"
    names = [one.name for one in report.next_lifetime]
    assert names == [
        "CoinFlip", "Overall KM", "Per-flavour KM", "Overall KM, continuous", "RepeatLifetime",
        "three_stage",
    ]  # fmt: skip


def test_a_steady_log_is_foreseen(report: CloudReport) -> None:
    by_name = {one.name: one for one in report.generators}
    ours, naive = by_name["three_stage"], by_name["naive"]
    assert 0.85 < ours.batches.inside <= 1.0
    assert 0.7 < ours.cores.inside <= 1.0
    assert ours.reuse_variation < 0.05 < naive.reuse_variation
    assert ours.survival_distance < 0.08
    ks = {one.column: one.ks for one in ours.columns}
    assert ks["processors of a job"].mean < 0.1 < naive.columns[0].ks.mean
    assert ks["jobs of a batch"].low <= ks["jobs of a batch"].mean <= ks["jobs of a batch"].high
    assert ours.n_jobs.mean == pytest.approx(report.n_jobs[1], rel=0.1)
    assert naive.jobs.inside < ours.jobs.inside - 0.2, "batches are what it does not know"


def test_the_same_seed_gives_the_same_report(windows: CloudWindows) -> None:
    one, again, other = (
        cloud_report(windows, generators=("simple_batch",), n_windows=2, seed=seed).to_dict()
        for seed in (5, 5, 6)
    )
    assert json.loads(json.dumps(one)) == json.loads(json.dumps(again))
    assert one["generators"][0]["n_jobs"] != other["generators"][0]["n_jobs"]
    assert [row["name"] for row in one["next_flavour"]] == ["Uniform", "Multinomial", "RepeatFlav"]


def test_it_says_how_far_it_is_and_can_be_ended(windows: CloudWindows) -> None:
    said = []

    def told(what: str, done: int, of: int) -> None:
        said.append((what, done, of))
        if what.startswith("Drawing") and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cloud_report(windows, n_windows=50, progress=told)
    assert said[-1] == ("Drawing windows of three_stage", 2, 50)


def test_demand_is_that_of_the_trace() -> None:
    rng = np.random.default_rng(8)
    trace = trace_of([[0, 1], [2]] * 40, rng.integers(0, 30, 120).tolist(), censored=(3, 50))
    trace = replace(
        trace, period=np.sort(rng.integers(0, 90, 120) // 3 * 3), batch=np.arange(120),
        n_periods=100, bins=PAPER,
    )  # fmt: skip
    found = cloud_windows_of_traces(trace, trace)
    told = cores_by_period(found.jobs, trace.n_periods, trace.period_s)
    assert told.tolist() == cores_in_use(trace, np.random.default_rng(0)).tolist()


def test_survival_by_hand() -> None:
    trace = trace_of([[0], [0], [0], [0]], [0, 1, 1, 3], censored=(1,))
    # 4 at risk in bin 0, one ends; of bin 1 are 2, one ends; the last lives through bin 2.
    assert survival_of(trace)[:4].tolist() == pytest.approx([0.75, 0.375, 0.375, 0.0])


def test_a_course_is_held_against_what_came() -> None:
    drawn = np.tile(np.arange(101.0)[:, None], (1, 4))
    course = PredictionBand.of(drawn, np.array([5.0, 95.0, 96.0, 50.0]))
    assert (course.inside, course.width) == (0.75, pytest.approx(90.0))
    assert course.score == pytest.approx(90.0 + 20.0 / 4)


def test_the_picture_tells_what_it_leaves_out() -> None:
    found = picture_of(trace_of([[0] * 100, [1]], [3] * 101))
    assert found.left_out.tolist() == [41]
    assert len(found.flavour) == 60


def test_the_authors_files_are_found_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "v1.dev.txt").write_text("300 b,|,k,k,|\n900 k,|\n")
    assert is_cloud_trace(tmp_path / "v1.dev.txt")
    with pytest.raises(TraceError, match=r"flav_map\.txt, must be in its folder"):
        read_cloud_trace(tmp_path / "v1.dev.txt")
    (tmp_path / "flav_map.txt").write_text("1,1.75 b\n4,7 k\n")
    assert not read_cloud_trace(tmp_path / "v1.dev.txt").knows_lifetimes
    (tmp_path / "v1.dev.c900.txt").write_text("300 U0,|,U3,C40,|\n900 U46,|\n")
    assert read_cloud_trace(tmp_path / "v1.dev.txt").lifetime.tolist() == [0, 3, 40, 46]
    unknown = trace_of([[0]])
    with pytest.raises(WorkloadError, match="lifetimes of train are unknown"):
        cloud_windows_of_traces(unknown, trace_of([[0]], [1]))
    (tmp_path / "log.swf").write_text("; a log\n1 0 -1 5 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 -1 -1\n")
    assert not is_cloud_trace(tmp_path / "log.swf")


def test_the_authors_files_are_a_workload(tmp_path: Path) -> None:
    """The folders are those of the authors' repository."""
    traces, maps = tmp_path / "traces", tmp_path / "maps"
    traces.mkdir()
    maps.mkdir()
    (maps / "flav_map.txt").write_text("1,1.75 b\n4,7 k\n")
    path, lives = traces / "v1.dev.txt", traces / "v1.dev.c1500.txt"
    path.write_text("300 b,|,k,k,|\n900 k,|\n")
    with pytest.raises(TraceError, match=r"v1\.dev\.cSECONDS\.txt must be in its folder"):
        load_workload(path)
    lives.write_text("300 U0,|,U13,C2,|\n900 U46,|\n")
    found = load_workload(path)
    assert found.submit_s == pytest.approx([0, 100, 200, 600])
    assert found.runtime_s == pytest.approx([150, 5400, 1000, 25 * 86_400])
    assert (found.procs.tolist(), found.queue.tolist()) == ([1, 4, 4, 4], [0, 1, 1, 1])
    assert found.user.tolist() == [0, 1, 1, 2]
    assert set(found.mem_bytes_per_proc.tolist()) == {int(1.75 * 2**30)}
    assert any(note.rule == "end_of_log" and note.n_rows == 1 for note in found.notes)
    with pytest.raises(TraceError, match=r"give the file of their flavours, v1\.dev\.txt"):
        load_workload(lives)
    lives.rename(traces / "v1.dev.c450.txt")
    with pytest.raises(TraceError, match="must begin before"):
        load_workload(path)


def test_workloads_without_dates_or_with_one_user_are_read() -> None:
    log = log_of(3, 4)
    one_user = Workload.from_arrays(
        submit_s=log.submit_s, runtime_s=log.runtime_s, procs=log.procs, user=np.ones(log.n_jobs)
    )
    found = cloud_windows(one_user, one_user)
    assert found.test.n_jobs == log.n_jobs
    assert found.test.period.min() >= found.train.first_period + found.train.n_periods
