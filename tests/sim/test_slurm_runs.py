"""Measured schedules of a real Slurm: their files, and what rules of ours make of their jobs."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import slurm_fidelity
from benchmarks.slurm_compare import (
    RIGHT,
    RULES,
    judge,
    judge_together,
    mean_lag_s,
    repeated,
    replay,
    right_rule,
)
from benchmarks.slurm_runs import SlurmRun, read_run
from sim.api import TraceError, check_scenario

# 6 of 10 CPUs are used until 10. EASY reserves 10 to 15 for job 2 (7), which leaves 3: job 3 (4)
# must wait for 15, job 4 (3) starts at 3. Measured are the same, with a lag of 1 s and of 2 s.
HAND = (
    {"id": 1, "part": "main", "n": 6, "lim": 10, "submit": 100, "start": 100, "end": 110},
    {"id": 2, "part": "main", "n": 7, "lim": 5, "submit": 101, "start": 111, "end": 116},
    {"id": 3, "part": "main", "n": 4, "lim": 20, "submit": 102, "start": 117, "end": 137},
    {"id": 4, "part": "main", "n": 3, "lim": 20, "submit": 103, "start": 103, "end": 123},
)


def written(folder: Path, name: str = "easy_10x1cpu_hand.json", **changes: object) -> Path:
    """Write the hand-made schedule, with some of its keys changed; None removes one."""
    body = {"jobs": [dict(job) for job in HAND]} | changes
    path = folder / name
    path.write_text(json.dumps({key: value for key, value in body.items() if value is not None}))
    return path


def hand(folder: Path) -> SlurmRun:
    return read_run(written(folder))


# -- files ----------------------------------------------------------------------------------------


def test_a_run_is_known_by_what_is_said_then_by_its_keys_then_by_its_name(tmp_path: Path) -> None:
    def shape(path: Path, **said: Any) -> tuple[str, int, int]:
        run = read_run(path, **said)
        return run.policy, run.nodes, run.cpus

    assert shape(written(tmp_path)) == ("easy", 10, 1)
    told = written(tmp_path, policy="default", nodes=5, cpus=2, cap=10)
    assert shape(told) == ("default", 5, 2)
    assert shape(told, policy="easy", nodes=1, cpus=10) == ("easy", 1, 10)
    bare = written(tmp_path, "foreign.json")
    assert shape(bare, policy="default", nodes=2, cpus=5) == ("default", 2, 5)


def test_jobs_stand_in_order_of_submission_and_ties_fall_to_the_smaller_id(tmp_path: Path) -> None:
    jobs = [{**HAND[0], "id": number, "n": 1} for number in (9, 3, 5)]
    jobs.append({**HAND[0], "id": 8, "n": 1, "submit": 99})
    run = read_run(written(tmp_path, jobs=jobs))
    assert [job.job_id for job in run.jobs] == [8, 3, 5, 9]
    assert run.scenario("main", {}).workload.job_id.tolist() == [8, 3, 5, 9]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"jobs": []}, "'jobs' must be a list of at least 1 job."),
        ({"jobs": "many"}, "'jobs' must be a list of at least 1 job."),
        ({"jobs": [3]}, "job 1 of 'jobs' must be an object."),
        ({"policy": "fifo"}, "policy is 'fifo'; allowed are 'easy' and 'default'."),
        ({"nodes": 0}, "nodes is '0'; allowed are whole numbers from 1"),
        ({"cpus": 1.5}, "cpus is '1.5'; allowed are whole numbers from 1"),
        ({"cap": 32}, "cap is '32'; 10 nodes of 1 CPUs in each partition have 10; say --nodes"),
        ({"nodes": 9}, "at 111 s partition 'main' uses 10 CPUs and has 9; say --nodes"),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TraceError, match=re.escape(sentence)):
        read_run(written(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"part": ""}, "job 2: part is ''; a partition has a name."),
        ({"n": 0}, "job 2: n is '0'; allowed are whole numbers from 1"),
        ({"n": True}, "job 2: n is 'True'; allowed are whole numbers from 1"),
        ({"id": 4}, "two jobs have the id 4; ids are unique."),
        ({"lim": -1}, "job 2: lim is '-1'; allowed is a finite number of seconds from 0."),
        ({"end": math.nan}, "job 2: end is 'nan'; allowed is a finite number of seconds from 0."),
        ({"start": "soon"}, "job 2: start is 'soon'; allowed is a finite number of seconds"),
        ({"start": 100}, "was submitted at 101, started at 100 and ended at 116; no time may"),
        ({"end": 110}, "was submitted at 101, started at 111 and ended at 110; no time may"),
        ({"state": "CANCELLED"}, "job 2: state is 'CANCELLED'; a job that did not run to its end"),
        ({"n": 8}, "at 111 s partition 'main' uses 11 CPUs and has 10; say --nodes and --cpus"),
        ({"n": 11, "end": 111}, "job 2 needs 11 CPUs and a partition has 10; say --nodes"),
    ],
)
def test_jobs_that_cannot_be(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    jobs = [dict(job) for job in HAND]
    jobs[1] |= changes
    with pytest.raises(TraceError, match=re.escape(sentence)):
        read_run(written(tmp_path, jobs=jobs))


@pytest.mark.parametrize("key", ["id", "part", "n", "lim", "submit", "start", "end"])
def test_a_job_without_a_field(tmp_path: Path, key: str) -> None:
    jobs = [{k: v for k, v in job.items() if k != key or job["id"] != 3} for job in HAND]
    with pytest.raises(TraceError, match=f"job 3 of 'jobs' lacks '{key}'"):
        read_run(written(tmp_path, jobs=jobs))


def test_what_nobody_tells_is_asked_for(tmp_path: Path) -> None:
    bare = written(tmp_path, "foreign.json")
    with pytest.raises(TraceError, match="say --policy easy or --policy default"):
        read_run(bare)
    with pytest.raises(TraceError, match="how many nodes each partition had; say --nodes N"):
        read_run(bare, policy="easy")
    with pytest.raises(TraceError, match="how many CPUs each node had; say --cpus N"):
        read_run(bare, policy="easy", nodes=10)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a measured schedule is a readable file"):
        read_run(tmp_path / "nowhere.json")
    path = tmp_path / "easy_10x1cpu.json"
    for text, sentence in (("{", "this is not JSON"), ("[1]", "JSON object with a list 'jobs'")):
        path.write_text(text)
        with pytest.raises(TraceError, match=sentence):
            read_run(path)


# -- comparison -----------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rules that count processors be the right ones, which are easier to work by hand."""
    rules = {"easy": "easy", "default": "depth 500"}
    right = {(policy, shape): rules[policy] for policy, shape in RIGHT}
    monkeypatch.setattr("benchmarks.slurm_compare.RIGHT", right)


def test_a_comparison_worked_by_hand(tmp_path: Path) -> None:
    # Starts 0, 10, 15, 3 against 0, 11, 17, 3. Waits 0, 9, 13, 0 against 0, 10, 15, 0.
    (fit,) = replay(hand(tmp_path), "easy")
    assert (fit.partition, fit.n_jobs, fit.tau) == ("main", 4, pytest.approx(1.0))
    assert (fit.mean_error_s, fit.median_error_s, fit.max_error_s) == (0.75, 0.5, 2.0)
    assert (fit.mean_wait_s, fit.measured_wait_s) == (5.5, 6.25)
    assert fit.off == pytest.approx(-0.12)
    assert (fit.makespan_s, fit.measured_makespan_s) == (35.0, 37.0)
    # Without backfilling 0, 10, 15, 15: of 6 pairs 4 agree, 1 is turned round, and 1 is a tie of
    # one side: tau-b is (4 - 1) / sqrt(6 * 5).
    (fit,) = replay(hand(tmp_path), "fcfs")
    assert fit.tau == pytest.approx(3 / math.sqrt(30))


def test_a_job_that_comes_in_the_second_of_an_end_is_no_sooner_there(tmp_path: Path) -> None:
    # Job 3 waits for all 10 CPUs until job 1 is over. In the second of 10 job 2 ends, and job 5
    # comes: the pass at 11 sees both and starts job 4 (7), behind which job 5 (2) has no room.
    rows = [(2, 300, 0, 0, 30), (6, 60, 0, 0, 10), (10, 60, 1, 30, 35), (7, 60, 2, 11, 16)]
    rows.append((2, 60, 10, 16, 20))
    names = ("n", "lim", "submit", "start", "end")
    jobs = [
        {"id": number, "part": "main", **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rows, 1)
    ]
    (fit,) = replay(read_run(written(tmp_path, jobs=jobs)), "slurm, easy")
    assert fit.tau == pytest.approx(1.0)
    assert fit.max_error_s <= 1.0


def test_two_measurements_of_the_same_jobs_are_compared_by_the_ids_of_jobs(tmp_path: Path) -> None:
    jobs = [dict(job) for job in HAND]
    jobs[3] |= {"submit": 102, "start": 118, "end": 138}  # it stands before job 3 by its second
    again = read_run(written(tmp_path, "easy_10x1cpu_again.json", jobs=jobs[::-1]))
    fits = repeated(hand(tmp_path), again)
    assert fits is not None
    assert (fits[0].max_error_s, fits[0].mean_wait_s, fits[0].measured_wait_s) == (15, 10.25, 6.25)
    assert fits[0].tau == pytest.approx(2 / 6)  # 4 pairs agree, 2 are turned round
    jobs[0] |= {"lim": 11}
    other = read_run(written(tmp_path, "easy_10x1cpu_other.json", jobs=jobs))
    assert repeated(hand(tmp_path), other) is None


def test_the_lag_is_counted_from_what_last_came_or_went(tmp_path: Path) -> None:
    assert mean_lag_s(hand(tmp_path)) == (0 + 1 + 1 + 0) / 4


@pytest.mark.usefixtures("counted")
def test_targets_worked_by_hand(tmp_path: Path) -> None:
    run = hand(tmp_path)
    fits = {rule: replay(run, rule) for rule in RULES}
    found = {one.target: one.is_met for one in judge(run, fits)}
    assert found == {"tau": True, "no worse": True, "wait": False}
    found = {one.target: one.is_met for one in judge_together([run], {run.name: fits})}
    assert found == {
        "better than fcfs": True,
        "better than easy": None,  # it is the right one here
        "better than conservative": None,  # a second reservation changes nothing
        "better than depth 500": None,
    }
    # Had Slurm not backfilled, what would be right under EASY is worse than FCFS.
    jobs = [dict(job) for job in HAND]
    jobs[3] |= {"start": 118, "end": 138}
    run = read_run(written(tmp_path, jobs=jobs))
    fits = {rule: replay(run, rule) for rule in RULES}
    verdicts = {one.target: one for one in judge(run, fits)}
    assert verdicts["no worse"].is_met is False
    assert "fcfs has 0.913 in main and easy 0.333" in verdicts["no worse"].why
    assert verdicts["tau"].is_met is False


@pytest.mark.usefixtures("counted")
def test_what_one_job_cannot_tell_is_unknown(tmp_path: Path) -> None:
    run = read_run(written(tmp_path, jobs=[HAND[0]]))
    fits = {rule: replay(run, rule) for rule in RULES}
    assert [one.is_met for one in judge(run, fits)] == [None, None, None]
    assert not any(one.is_met for one in judge_together([run], {run.name: fits}))


def test_partitions_do_not_touch_each_other(tmp_path: Path) -> None:
    elsewhere = [{**job, "id": int(job["id"]) + 10, "part": "small"} for job in HAND]  # type: ignore[call-overload]
    run = read_run(written(tmp_path, jobs=[*elsewhere, *HAND]))
    assert run.partitions == ("main", "small")
    for rule in RULES:
        main, small = replay(run, rule)
        (alone,) = replay(hand(tmp_path), rule)
        assert main == alone
        assert small.tau == alone.tau


def test_every_rule_can_be_simulated_and_the_right_ones_are_among_them(tmp_path: Path) -> None:
    run = read_run(written(tmp_path), nodes=5, cpus=2)
    assert set(RIGHT.values()) <= set(RULES)
    assert "fcfs" in RULES
    for told in RULES.values():
        scenario = run.scenario("main", told)
        check_scenario(scenario)
        assert scenario.cluster.partitions[0].n_machines == 5


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("counted")
def test_the_command_replays_a_file_and_says_what_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "result.out"
    command = ["slurm_fidelity", "--run", str(written(tmp_path)), "--json", str(target)]
    monkeypatch.setattr("sys.argv", command)
    slurm_fidelity.main()
    told = capsys.readouterr().out
    assert "| **easy** | 1.000 | 0, 1, 2 | 5.5, 6.2 | -12.0% | 35, 37 |" in told
    assert "missed  easy_10x1cpu_hand, wait: 5.5 s in the mean, measured 6.2 s: -12.0%" in told
    figures = json.loads(target.read_text())["figures"]
    assert figures["easy_10x1cpu_hand, main: tau of easy"] == pytest.approx(1.0)
    assert figures["easy_10x1cpu_hand, wait: met"] == 0.0
    monkeypatch.setattr("sys.argv", [*command, "--check"])
    with pytest.raises(SystemExit) as exit_info:
        slurm_fidelity.main()
    assert exit_info.value.code == 1


def test_a_folder_is_all_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["slurm_fidelity", "--run", str(tmp_path)])
    with pytest.raises(TraceError, match="there is no schedule"):
        slurm_fidelity.main()
    for number in (1, 2):
        written(tmp_path, f"easy_10x1cpu_seed{number}.json")
    slurm_fidelity.main()
    told = capsys.readouterr().out
    assert "easy_10x1cpu_seed1, tau" in told
    assert "easy_10x1cpu_seed2, tau" in told
    assert "better than fcfs: 2 of 2 partitions" in told


def test_quick_without_the_shared_schedules_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["slurm_fidelity", "--quick"])
    slurm_fidelity.main()
    assert capsys.readouterr().out.startswith("skipped: there is no folder")


# -- what a real Slurm did ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["default_32x1cpu_seed1", "easy_1x32cpu_seed1", "easy_32x1cpu_seed1"]
)
def test_a_real_slurm(name: str, shared_data: Path) -> None:
    run = read_run(shared_data / "slurm_runs" / f"{name}.json")
    fits = {rule: replay(run, rule) for rule in RULES}
    for verdict in judge(run, fits):
        assert verdict.is_met, verdict
    for verdict in judge_together([run], {name: fits}):
        assert verdict.is_met, verdict
    for fit in fits[right_rule(run)]:
        assert fit.tau is not None
        assert fit.tau > 0.95
