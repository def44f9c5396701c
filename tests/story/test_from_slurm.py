"""From sacct and slurm.conf to a sweep, as an administrator does it."""

import json
from pathlib import Path
from typing import Any

import pytest

from assistant.cli.main import run as command
from assistant.cli.options import Overrides, overridden_sweep
from assistant.config.snapshot import config_snapshot, open_sweep, rebuild
from assistant.config.sweep_file import build_sweep, check_settings, read_settings
from assistant.core.errors import ApplicationError, SettingsError
from assistant.store.event_store import MemoryStore
from sim.api import load_workload
from tests.sim.test_sacct import line

CONF = """
ClusterName=big
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=5000
PriorityWeightQOS=70
PriorityDecayHalfLife=14-0
SchedulerParameters=bf_window=2880,defer
PreemptMode=REQUEUE
NodeName=c[1-4] CPUs=16
NodeName=g1 CPUs=8 Gres=gpu:2
PartitionName=batch Nodes=c[1-4] MaxTime=2-0
PartitionName=long Nodes=c[3-4] MaxTime=INFINITE PriorityTier=2 AllowQos=high
PartitionName=gpu Nodes=g1
"""
QOS = "Name|Priority|GraceTime|MaxJobsPU|PreemptMode\nnormal|0|0||cluster\nhigh|50|0|3|cluster\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    part = {0: "batch", 1: "long", 2: "gpu", 3: "old"}
    rows = [
        line(jobid=str(n), partition=part[n % 4 if n < 20 else 0], user=f"u{n % 5}",
             qos="high" if n % 3 else "normal", timelimit="Partition_Limit" if n % 2 else "3:00:00")
        for n in range(1, 41)
    ]  # fmt: skip
    (tmp_path / "dump.txt").write_text("\n".join([*rows, line(jobid="7.0"), ""]))
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "qos.txt").write_text(QOS)
    return tmp_path


def run(*arguments: str) -> int:
    return command(["from-slurm", *arguments])


def test_a_dump_and_slurm_conf_become_a_sweep(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dump.txt", "--conf", "slurm.conf", "--qos", "qos.txt", "--tz", "UTC") == 0
    said = capsys.readouterr().out
    for sentence in (
        "Simulated is one queue on 64 CPUs of 4 nodes: batch, long, which did",
        "(--partition gpu takes that of it): gpu",
        "5 jobs left out: slurm.conf does not have the partition old",
        "Order: multifactor priority (age_weight 1000, size_weight 0, fairshare_weight 5000, half",
        "half_life 14 d 00 h, fair_tree 1, calc_period",
        "Backfilling: conservative",
        "1 row of job steps; left out",
        "request is the MaxTime of the partition",
        "SchedulerParameters defer: no effect here",
        "PriorityTier (batch 1, long 2): the partitions of the group wait in one queue",
        "PriorityWeightQOS=70: a sweep knows no priorities of QoS",
        "PreemptMode=REQUEUE: running jobs are not preempted",
        "allowqos of long",
        "QoS high: priority 50 (copperline simulate --qos 0=50), MaxJobsPU 3",
        "  copperline sweep sweep.toml",
    ):
        assert sentence in said, sentence
    backtest = said.partition("  copperline simulate ")[2].partition("\n")[0]
    assert command(["simulate", *backtest.split()]) == 0
    assert "the recorded one" in capsys.readouterr().out
    sweep = build_sweep(check_settings(read_settings(site / "sweep.toml"), "sweep.toml"))
    assert dict(sweep.application.baseline)["order"] == "multifactor"
    assert 'backfill = "conservative"' in (site / "sweep.toml").read_text()
    opened = {"order", "size_weight", "favor_small", "lane_max_requested_s", "lane_max_procs"}
    assert set(sweep.application.space.names) == opened
    log = load_workload(site / "sweep.swf.gz")
    assert log.max_procs == 64
    assert log.n_jobs == 4 + 5 + 21
    assert {"steps", "partition_limit"} < {note.rule for note in log.notes}


def test_another_group_and_no_slurm_conf(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dump.txt", "--conf", "slurm.conf", "--partition", "gpu", "--json",
               "--output", "gpu.toml", "--log", "gpu.swf") == 0  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert said["written"] == ["gpu.swf", "gpu.toml"]
    assert said["next"][1] == "copperline sweep gpu.toml"
    assert load_workload(site / "gpu.swf").n_jobs == 5
    assert run("dump.txt", "--output", "all.toml") == 0
    assert "as slurm.conf is not known" in capsys.readouterr().out
    assert load_workload(site / "all.swf.gz").n_jobs == 40


def test_a_log_of_slurm_is_asked_what_slurm_can_do(site: Path) -> None:
    """The dump, and what is written from it; another log is asked what any cluster can do."""
    assert run("dump.txt", "--log", "log.swf") == 0
    (site / "other.swf").write_text(
        (site / "log.swf").read_text().replace("Scheduler is slurm", "Scheduler is OAR")
    )
    asked = {"dump.txt": "slurm_lanes", "log.swf": "slurm_lanes", "other.swf": "lanes"}
    for name, preset in asked.items():
        tables, _ = overridden_sweep(None, Overrides({"log": Path(name)}))
        assert tables["application"]["preset"] == preset
    tables, _ = overridden_sweep(None, Overrides({"log": Path("dump.txt"), "preset": "policies"}))
    assert tables["application"]["preset"] == "policies"


def test_priorities_are_asked_beside_the_weights_of_the_site(site: Path) -> None:
    assert run("dump.txt", "--conf", "slurm.conf", "--preset", "slurm_priorities") == 0
    sweep = build_sweep(check_settings(read_settings(site / "sweep.toml"), "sweep.toml"))
    levels = {one.name: one.levels for one in sweep.application.space.parameters}
    assert levels["fairshare_weight"] == (0, 5_000, 50_000)
    assert levels["age_weight"] == (0, 1_000, 5_000)
    assert sweep.application.baseline["half_life_s"] == 14 * 86_400
    options = sweep.application.scenario(sweep.application.baseline).options
    assert (options["fair_tree"], options["calc_period_s"]) == (1, 300)
    assert sweep.application.is_checked


def test_the_classic_fair_share_and_its_period_are_read(site: Path) -> None:
    flags = "PriorityFlags=CALCULATE_RUNNING,NO_FAIR_TREE\nPriorityCalcPeriod=10\n"
    (site / "slurm.conf").write_text(f"{CONF}{flags}")
    assert run("dump.txt", "--conf", "slurm.conf") == 0
    options = read_settings(site / "sweep.toml")["application"]["options"]
    assert (options["fair_tree"], options["calc_period_s"]) == (0, 600)


def test_a_sweep_over_the_dump_has_its_accounts_by_name(site: Path) -> None:
    sweep: dict[str, Any] = {
        "name": "shares",
        "application": {
            "log": "dump.txt", "accounts": "accounts.txt", "preset": "policies",
            "baseline": {"order": "multifactor"},
            "levels": {"fairshare_weight": [0, 5000], "half_life_s": ["1d", "7d"]},
        },
    }  # fmt: skip
    (site / "accounts.txt").write_text("Account|User|Share|ParentName\nbio||2|root\n")
    built = build_sweep(check_settings(sweep, "sweep.toml"))
    scenario = built.application.scenario(built.application.baseline)
    assert scenario.accounts is not None
    (fact,) = [fact.text for fact in built.application.facts if fact.label == "Account tree"]
    assert fact.startswith("accounts: 1, listed users: 0, digest ")
    session = open_sweep(built, MemoryStore(), "shares", config_snapshot(sweep, ()))
    opened = session.experiment.opened
    assert rebuild(opened).scenario(built.application.baseline).digest == scenario.digest
    (site / "accounts.txt").write_text("Account|User|Share|ParentName\nbio||3|root\n")
    with pytest.raises(SettingsError, match="account tree of experiment 'shares-"):
        rebuild(opened)
    sweep["application"]["levels"] = {"age_weight": [0, 1000]}
    with pytest.raises(ApplicationError, match="no run has a fairshare_weight above 0"):
        build_sweep(check_settings(sweep, "sweep.toml"))


@pytest.mark.parametrize(
    ("conf", "allocation", "size"),
    [
        (CONF, "shared_nodes", 16),
        (CONF.replace("c[1-4] CPUs=16", "c[1-3] CPUs=16\nNodeName=c4 CPUs=24"), "shared_nodes", 8),
        (f"{CONF}SelectType=select/linear\n", "whole_nodes", 16),
        (CONF.replace("MaxTime=2-0", "OverSubscribe=EXCLUSIVE").replace(
            "MaxTime=INFINITE", "OverSubscribe=EXCLUSIVE"), "whole_nodes", 16),
    ],
)  # fmt: skip
def test_backfilling_is_asked_beside_the_parameters_and_nodes_of_the_site(
    site: Path, conf: str, allocation: str, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "slurm.conf").write_text(conf)
    assert run("dump.txt", "--conf", "slurm.conf", "--preset", "slurm_backfill") == 0
    said = capsys.readouterr().out
    assert "Backfilling: as Slurm plans (bf_window=2880, bf_resolution=60, bf_max_job" in said
    assert f"Nodes: machines of {size} CPUs" in said
    assert "bf_window=2880: plans" not in said
    assert "oversubscribe of" not in said
    sweep = build_sweep(check_settings(read_settings(site / "sweep.toml"), "sweep.toml"))
    application = sweep.application
    assert (application.allocation, application.machine_procs) == (allocation, size)
    assert application.scenario(application.baseline).backfill == "slurm"
    assert application.baseline["bf_window_s"] == 172_800
    assert set(application.space.names) == {
        "bf_max_job_test", "bf_window_s", "bf_resolution_s", "bf_reserve",
    }  # fmt: skip
    backtest = said.partition("  copperline simulate ")[2].partition("\n")[0]
    assert command(["simulate", *backtest.split()]) == 0


def test_backfilling_without_slurm_conf_is_as_usual(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dump.txt", "--preset", "slurm_backfill") == 0
    assert "Slurm's backfilling as it is usual" in capsys.readouterr().out
    sweep = build_sweep(check_settings(read_settings(site / "sweep.toml"), "sweep.toml"))
    assert sweep.application.scenario(sweep.application.baseline).backfill == "slurm"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("slurm.conf",), "is a log in the Standard Workload Format, not a dump of sacct"),
        (("dump.txt", "--conf", "slurm.conf", "--partition", "gpus"), "did you mean 'gpu'?"),
        (("dump.txt", "--partition", "x"), "the log has no partition 'x'"),
        (("dump.txt", "--qos", "slurm.conf"), "has no columns Name and Priority"),
        (("dump.txt", "--output", "slurm.conf"), "must end in .toml"),
        (("dump.txt", "--log", "dump.txt"), "allowed are .jsonl"),
        (("dump.txt", "--tz", "Mars"), "time zone 'Mars' is unknown"),
        (("dump.txt", "--reading", "unsorted=refuse"), "leave out unsorted"),
        (("dump.txt", "--preset", "lanes"), "'lanes' are no lines of slurm.conf; did you mean"),
    ],
)
def test_refusals_write_nothing(
    site: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in site.iterdir()}
    assert run(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert {path.name for path in site.iterdir()} == before


def test_nothing_is_overwritten(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "sweep.toml").write_text("mine")
    assert run("dump.txt") == 2
    assert (
        "already exists and is not changed; name another with --output" in capsys.readouterr().err
    )
    assert (site / "sweep.toml").read_text() == "mine"
    assert not (site / "sweep.swf.gz").exists()


def test_decisions_are_said_wherever_the_log_is_used(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that matters most comes first: of all jobs, the allocated CPUs count."""
    assert command(["simulate", "dump.txt", "--reading", "time_zone=UTC"]) == 0
    said = capsys.readouterr().err
    assert "note: reading the log: 40 jobs got other CPUs than requested" in said
    assert "5 more: copperline workload describe dump.txt --reading time_zone=UTC" in said
    assert run("dump.txt", "--conf", "slurm.conf", "--tz", "UTC") == 0
    assert command(["sweep", "sweep.toml", "--runs", "1", "--report", "r.html"]) == 0
    said = capsys.readouterr().err
    assert "reading the log:" in said
    assert "more: the report lists them" in said
    report = (site / "r.html").read_text()
    assert "with the limit of the partition" in report
    assert "of job steps; left out" in report
