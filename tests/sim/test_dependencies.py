"""Jobs that are submitted after the end of another one: worked by hand, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import ClusterSpec, Partition, Scenario, ScenarioError, SimError, Workload, simulate
from sim.api import measures
from sim.formats.swf import read_swf, write_swf
from sim.model.dependencies import dependencies_of

ENGINES = ("compiled", "interpreted", "process")
NAN = float("nan")


def jobs(**columns: list[float]) -> Workload:
    return Workload.from_arrays(**columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_comes_a_think_time_after_the_end_of_its_preceding_job(engine: str) -> None:
    """On 2 processors, job 1 runs until 10 and job 3 thinks 4 s; job 2 goes first, until 15."""
    workload = jobs(
        submit_s=[0, 1, 2, 5], runtime_s=[10, 5, 3, 2], requested_s=[10, 5, 3, 2],
        procs=[2, 2, 1, 1], preceding_job=[-1, -1, 1, 3], think_s=[NAN, NAN, 4, NAN],
    )  # fmt: skip
    scenario = Scenario(workload, ClusterSpec.single(2), dependencies="logged")
    result = simulate(scenario, engine=engine)
    assert result.submissions_s(workload).tolist() == [0, 1, 14, 18]
    assert result.start_s.tolist() == [0, 10, 15, 18]
    assert result.note == "2 of 4 jobs are submitted after the end of another one"
    assert measures(scenario, result)["mean_wait_s"] == (0 + 9 + 1 + 0) / 4
    assert simulate(replace(scenario, dependencies="ignore")).start_s.tolist() == [0, 10, 15, 15]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_think_time_a_job_comes_as_logged_but_not_before_that_end(engine: str) -> None:
    workload = jobs(
        submit_s=[0, 4, 30], runtime_s=[10, 1, 1], requested_s=[10, 1, 1], procs=[1, 1, 1],
        preceding_job=[-1, 1, 1],
    )  # fmt: skip
    result = simulate(
        Scenario(workload, ClusterSpec.single(9), dependencies="logged"), engine=engine
    )
    assert result.start_s.tolist() == [0, 10, 30]


@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_that_come_at_one_instant_go_in_the_order_of_the_log(engine: str) -> None:
    """Job 2 waits from the end of job 1 at 10, with job 3 of that time; job 4 came at 9."""
    workload = jobs(
        submit_s=[0, 3, 9, 10], runtime_s=[10, 1, 1, 1], requested_s=[10, 1, 1, 1],
        procs=[1, 1, 1, 1], job_id=[1, 2, 4, 3], preceding_job=[-1, 1, -1, -1],
        think_s=[NAN, 0, NAN, NAN],
    )  # fmt: skip
    result = simulate(
        Scenario(workload, ClusterSpec.single(1), dependencies="logged"), engine=engine
    )
    assert result.start_s.tolist() == [0, 11, 10, 12]


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_scores_go_by_the_simulated_submission(engine: str) -> None:
    """Shortest first: job 2 waits since 1, and job 4, as short, comes at 10; both before job 3."""
    workload = jobs(
        submit_s=[0, 1, 2, 3], runtime_s=[10, 5, 9, 5], requested_s=[10, 5, 9, 5],
        procs=[1, 1, 1, 1], preceding_job=[-1, -1, -1, 1], think_s=[NAN, NAN, NAN, 0],
    )  # fmt: skip
    scenario = Scenario(workload, ClusterSpec.single(1), "sjf", dependencies="logged")
    assert simulate(scenario, engine=engine).start_s.tolist() == [0, 10, 20, 15]


@pytest.mark.parametrize("engine", ENGINES)
def test_who_follows_a_rejected_job_comes_as_logged(engine: str) -> None:
    workload = jobs(
        submit_s=[0, 1, 5], runtime_s=[1, 10, 1], requested_s=[1, 10, 1], procs=[1, 3, 1],
        preceding_job=[-1, -1, 2], think_s=[NAN, NAN, 100],
    )  # fmt: skip
    scenario = Scenario(workload, ClusterSpec.single(2), too_wide="reject", dependencies="logged")
    result = simulate(scenario, engine=engine)
    assert result.submissions_s(workload).tolist() == [0, 1, 5]
    assert result.start_s[[0, 2]].tolist() == [0, 5]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_that_was_killed_for_another_one_ends_only_once(engine: str) -> None:
    """The preemptible job of 10 s begins again at 2 + 5, so its follower comes at 17 + 1."""
    parts = (
        Partition("low", 1, preemptible=True, max_requested_s=10.0),
        Partition("high", on="low", tier=1),
    )
    workload = jobs(
        submit_s=[0, 2, 3], runtime_s=[10, 5, 1], requested_s=[10, 20, 1], procs=[1, 1, 1],
        preceding_job=[-1, -1, 1], think_s=[NAN, NAN, 1],
    )  # fmt: skip
    scenario = Scenario(workload, ClusterSpec(parts), dependencies="logged")
    result = simulate(scenario, engine=engine)
    assert result.restarts is not None
    assert result.restarts.n.tolist() == [1, 0, 0]
    assert result.start_s.tolist() == [7, 2, 18]


@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_follow_on_whole_nodes_too(engine: str) -> None:
    workload = jobs(
        submit_s=[0, 1], runtime_s=[10, 5], requested_s=[10, 5], procs=[1, 1],
        preceding_job=[-1, 1], think_s=[NAN, 2],
    )  # fmt: skip
    cluster = ClusterSpec.single(8).in_machines_of(4)
    scenario = Scenario(workload, cluster, allocation="whole_nodes", dependencies="logged")
    assert simulate(scenario, engine=engine).start_s.tolist() == [0, 12]


def test_sessions_are_batches_with_think_times_of_up_to_20_minutes() -> None:
    """User 7: batch {1, 2} ends at 100; 3 comes 50 s later, 5 during it; 6 comes 1,201 s after."""
    workload = jobs(
        submit_s=[0, 10, 150, 155, 160, 1421], runtime_s=[20, 85, 60, 9, 20, 1],
        procs=[1] * 6, logged_wait_s=[5, 5, 10, 0, 0, 0], user=[7, 7, 7, 8, 7, 7],
    )  # fmt: skip
    found = dependencies_of(workload, "sessions")
    assert found is not None
    assert found.preceding.tolist() == [-1, -1, 1, -1, 1, -1]
    assert found.think_s[[2, 4]].tolist() == [50, 60]
    earlier = replace(workload, submit_s=np.array([0.0, 10, 150, 155, 160, 1420]))
    found = dependencies_of(earlier, "sessions")
    assert found is not None
    assert found.preceding[-1] == 2
    assert found.think_s[-1] == 1200


def test_a_replay_of_sessions_on_the_schedule_of_the_log_is_the_log() -> None:
    """If nothing waits in the log and in the simulation, everybody comes when they came."""
    rng = np.random.default_rng(5)
    workload = jobs(
        submit_s=np.sort(rng.integers(0, 9000, 80)), runtime_s=rng.integers(0, 500, 80),
        procs=[1] * 80, logged_wait_s=[0] * 80, user=rng.integers(1, 5, 80),
    )  # type: ignore[arg-type]  # fmt: skip
    result = simulate(Scenario(workload, ClusterSpec.single(80), dependencies="sessions"))
    assert result.submissions_s(workload).tolist() == workload.submit_s.tolist()
    found = dependencies_of(workload, "sessions")
    assert found is not None
    assert found.n_followers > 20


PLAIN = jobs(submit_s=[0, 1], runtime_s=[1, 1], procs=[1, 1])
FOLLOWING = jobs(
    submit_s=[0, 1], runtime_s=[1, 1], procs=[1, 1], preceding_job=[-1, 1], user=[1, 1]
)


@pytest.mark.parametrize(
    ("workload", "changes", "message"),
    [
        (PLAIN, {"dependencies": "logged"}, "no job of 'workload' has a preceding job"),
        (PLAIN, {"dependencies": "sessions"}, "no known users"),
        (FOLLOWING, {"dependencies": "sessions"}, "2 of the 2 jobs .* no recorded wait"),
        (FOLLOWING, {"dependencies": "afterok"}, "no source of dependencies 'afterok'"),
        (FOLLOWING, {"dependencies": "logged", "order": "f1"}, "order 'f1' scores the logged"),
        (
            FOLLOWING,
            {
                "dependencies": "logged",
                "cluster": ClusterSpec((Partition("all", 2, running_per_user=1),)),
            },
            "limit of running jobs per user",
        ),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    workload: Workload, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SimError, match=message):
        simulate(replace(Scenario(workload, ClusterSpec.single(2)), **changes))  # type: ignore[arg-type]


def test_what_explains_a_start_refuses_dependencies() -> None:
    from sim.counterfactuals import changed_starts
    from sim.explain import explain_start

    scenario = Scenario(FOLLOWING, ClusterSpec.single(2), dependencies="logged")
    with pytest.raises(SimError, match="leave dependencies out"):
        explain_start(scenario, 2)
    with pytest.raises(ScenarioError, match="leave out the dependencies"):
        changed_starts(scenario, 2)


def test_dependencies_count_for_the_digests_only_where_there_are_any() -> None:
    assert PLAIN.digest != FOLLOWING.digest
    ignoring = Scenario(FOLLOWING, ClusterSpec.single(2))
    assert ignoring.digest != replace(ignoring, dependencies="logged").digest


ROWS = """; MaxProcs: 8
1 0 5 10 1 -1 -1 1 20 -1 1 7 -1 -1 -1 1 -1 -1
2 20 0 10 1 -1 -1 1 20 -1 1 7 -1 -1 -1 1 1 5
3 25 10 10 1 -1 -1 1 20 -1 1 7 -1 -1 -1 1 2 -1
4 26 0 10 1 -1 -1 1 20 -1 1 7 -1 -1 -1 1 99 5
"""


def test_fields_17_and_18_are_read_counted_and_written(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(ROWS)
    workload = read_swf(path)
    assert workload.preceding_job.tolist() == [-1, 1, 2, -1]  # 99 is not in the log
    assert workload.think_s[1] == 5
    assert np.isnan(workload.think_s[[0, 2, 3]]).all()
    (note,) = [note for note in workload.notes if note.rule == "dependencies"]
    assert note.sentence.startswith("2 of 4 jobs are submitted after the end of another one")
    write_swf(workload, tmp_path / "again.swf")
    assert read_swf(tmp_path / "again.swf") == workload


def test_fields_17_and_18_that_contradict_the_recorded_times_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(ROWS.replace(" 1 5\n", " 1 6.5\n").replace("3 25 10", "3 25 0"))
    workload = read_swf(path)
    assert (workload.preceding_job == -1).all()
    (note,) = [note for note in workload.notes if note.rule == "preceding_job"]
    assert "2 of them were not submitted so long after" in note.sentence
