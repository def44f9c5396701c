"""Lines of slurm.conf: known answers, refusals with what comes nearest, and a real Slurm's view."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assistant import Sla, open_session
from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.ports import Store
from assistant.executors.serial import SerialExecutor
from assistant.simtools.slurm_conf import slurm_conf
from assistant.store.event_store import MemoryStore
from sim.generators import default_workload
from strategies import Level
from tests.assistant.examples import Bowl, TickingClock
from tests.slurm_cluster import SlurmCluster


def scheduling(levels: Mapping[str, tuple[Level, ...]], **more: Any) -> Scheduling:
    """Return a small cluster with a queue, on which some parameters vary."""
    workload = default_workload(seed=1, n_jobs=80)
    return Scheduling(workload, procs=48, levels=levels, split=False, **more)


def swept(
    application: Scheduling, *values: Mapping[str, Level], store: Store | None = None
) -> Experiment:
    """Return an experiment with runs of the current configuration and of others."""
    session = open_session(
        application, store=store or MemoryStore(), sla=Sla(len(values) + 1), clock=TickingClock()
    )
    session.submit_baseline()
    for other in values:
        session.include({**(application.baseline or {}), **other})
    session.run_queued(SerialExecutor(application))
    return session.experiment


def settings(text: str) -> list[str]:
    """Return the lines that Slurm reads."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


LANE = {"lane_max_requested_s": (0, 3600), "lane_max_procs": (12, 48)}
SHORT = {"lane_max_requested_s": 3600, "lane_max_procs": 12}
WEIGHTS: Mapping[str, tuple[Level, ...]] = {
    "order": ("fcfs", "multifactor"), "age_weight": (1000, 4000), "favor_small": (0, 1),
}  # fmt: skip
SLURM: Mapping[str, tuple[Level, ...]] = {
    "backfill": ("easy", "slurm"), "bf_window_s": (86_400, 172_830), "bf_resolution_s": (60, 300),
}  # fmt: skip


def test_a_lane_is_a_partition_whose_jobs_go_first() -> None:
    machines = scheduling(LANE, machine_procs=4)
    text = slurm_conf(machines, swept(machines, SHORT), run_id=2)
    assert settings(text) == [
        "PartitionName=express Nodes=ALL MaxTime=0-01:00:00 PriorityTier=10 State=UP MaxNodes=3"
    ]
    assert "# Expected effect, simulated:" in text
    assert "Not modelled" in text


def test_without_machines_the_width_of_a_lane_is_a_sentence_and_no_line() -> None:
    application = scheduling(LANE)
    text = slurm_conf(application, swept(application, SHORT), run_id=2)
    assert settings(text) == [
        "PartitionName=express Nodes=ALL MaxTime=0-01:00:00 PriorityTier=10 State=UP"
    ]
    assert "MaxTRESPerJob=cpu=12" in text


def test_only_what_changes_is_written_and_every_weight_of_the_order() -> None:
    application = scheduling(WEIGHTS)
    changed = {"order": "multifactor", "age_weight": 4000, "favor_small": 1}
    assert settings(slurm_conf(application, swept(application, changed), run_id=2)) == [
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=4000",
        "PriorityWeightJobSize=1000",
        "PriorityWeightPartition=0",
        "PriorityWeightQOS=0",
        "PriorityWeightFairshare=0",
        "PriorityMaxAge=7-00:00:00",
        "PriorityFavorSmall=YES",
    ]


def test_the_window_is_in_whole_minutes_and_a_resolution_in_seconds() -> None:
    application = scheduling(SLURM, allocation="whole_nodes", machine_procs=1)
    changed = {"backfill": "slurm", "bf_window_s": 172_830, "bf_resolution_s": 300}
    lines = settings(slurm_conf(application, swept(application, changed), run_id=2))
    assert lines == [
        "SchedulerType=sched/backfill",
        (
            "SchedulerParameters=bf_interval=30,bf_max_job_test=500,bf_window=2881,bf_resolution=300,"
            "bf_job_part_count_reserve=0"
        ),
    ]


@pytest.mark.parametrize(
    ("backfill", "lines"),
    [
        ("none", ["SchedulerType=sched/builtin"]),
        (
            "depth",
            ["SchedulerType=sched/backfill", "SchedulerParameters=bf_job_part_count_reserve=4"],
        ),
        (
            "conservative",
            ["SchedulerType=sched/backfill", "SchedulerParameters=bf_job_part_count_reserve=0"],
        ),
    ],
)
def test_a_backfilling_rule_has_its_type(backfill: str, lines: list[str]) -> None:
    application = scheduling({"backfill": ("easy", backfill)})
    changed = {"backfill": backfill}
    assert settings(slurm_conf(application, swept(application, changed), run_id=2)) == lines


def test_an_order_that_slurm_lacks_is_refused_with_the_nearest_and_the_best_that_it_has() -> None:
    application = scheduling(
        {"order": ("fcfs", "saf")}, current_policies=CurrentPolicies(backfill="none")
    )
    with pytest.raises(SettingsError, match=r"saf, which Slurm does not have.*not measured"):
        slurm_conf(application, swept(application, {"order": "saf"}), run_id=2)

    both = scheduling(
        {"order": ("fcfs", "saf"), "backfill": ("none", "easy")},
        current_policies=CurrentPolicies(backfill="none"),
    )
    tried = swept(both, {"order": "saf"}, {"backfill": "easy"})
    with pytest.raises(SettingsError, match=r"Slurm can express is run 3 .* add --run 3"):
        slurm_conf(both, tried, run_id=2)


def test_backfilling_without_a_reservation_is_not_that_of_slurm_with_0() -> None:
    application = scheduling({"backfill": ("easy", "depth"), "depth": (0, 4)})
    tried = swept(application, {"backfill": "depth", "depth": 0})
    with pytest.raises(SettingsError, match="without any reservation"):
        slurm_conf(application, tried, run_id=2)


@pytest.mark.parametrize(
    ("preset", "order", "backfill", "n", "n_lines"),
    [
        ("slurm_lanes", "fcfs", "conservative", 64, 19),
        ("slurm_lanes", "multifactor", "conservative", 64, 19),
        ("slurm_priorities", "fcfs", "conservative", 50, 50),
        ("slurm_priorities", "multifactor", "slurm", 49, 49),
        ("slurm_backfill", "multifactor", "slurm", 53, 53),
    ],
)
def test_every_answer_to_a_question_for_slurm_has_lines(
    preset: str, order: str, backfill: str, n: int, n_lines: int
) -> None:
    workload = default_workload(seed=1, n_jobs=80)
    application = Scheduling(
        replace(workload, user=np.arange(80) % 5), procs=48, preset=preset,
        current_policies=CurrentPolicies(order, backfill),
        allocation="shared_nodes" if backfill == "slurm" else "processors",
        machine_procs=16 if backfill == "slurm" else None,
    )  # fmt: skip
    space = application.space
    every = [space.values(configuration) for configuration in space.configurations()]
    others = [values for values in every if values != application.baseline]
    experiment = swept(application, *others)
    written = {slurm_conf(application, experiment, run_id=2 + i) for i in range(len(others))}
    lines = {tuple(settings(text)) for text in written}
    assert len(written) == len(others) == n
    assert len(lines) == n_lines  # without machines a note has the width of a lane
    assert all(settings(text) for text in written)


def test_what_is_no_scheduler_or_no_change_is_refused() -> None:
    bowl = Bowl()
    session = open_session(bowl, store=MemoryStore(), sla=Sla(2), clock=TickingClock())
    with pytest.raises(SettingsError, match=r"which slurm\.conf does not"):
        slurm_conf(bowl, session.experiment)
    application = scheduling(LANE)
    with pytest.raises(SettingsError, match=r"no line of slurm\.conf to change"):
        slurm_conf(application, swept(application), run_id=1)


@pytest.mark.slurm
def test_a_real_slurm_starts_with_the_lines(scripts: Path) -> None:
    machines = scheduling({**LANE, **WEIGHTS}, machine_procs=4)
    changed = {**SHORT, "order": "multifactor", "age_weight": 4000, "favor_small": 1}
    policies = slurm_conf(machines, swept(machines, changed), run_id=2)
    backfilled = scheduling(SLURM, allocation="whole_nodes", machine_procs=1)
    window = {"backfill": "slurm", "bf_window_s": 172_830, "bf_resolution_s": 300}
    rule = slurm_conf(backfilled, swept(backfilled, window), run_id=2)
    with SlurmCluster(scripts, more=f"\n{policies}\n{rule}") as cluster:
        lane = cluster.ask("scontrol", "show", "partition", "express")
        conf = cluster.ask("scontrol", "show", "config")
    for words in ("MaxTime=01:00:00", "MaxNodes=3", "PriorityTier=10", "Nodes=n[0-1]"):
        assert words in lane
    have = dict(line.split("=", 1) for line in conf.splitlines() if "=" in line)
    have = {name.strip(): value.strip() for name, value in have.items()}
    assert have["PriorityType"] == "priority/multifactor"
    assert have["PriorityWeightAge"] == "4000"
    assert have["PriorityFavorSmall"] == "Yes"
    assert "bf_window=2881" in have["SchedulerParameters"]
