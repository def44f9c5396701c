"""Machines as an application: its measures add up, every parameter reaches the scenario."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assistant.applications.extensions.placement import (
    MEASURES,
    FleetPlacement,
    MachineKind,
    machine_kinds,
    usual_machines,
    usual_workload,
    without_sharing,
)
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.core.errors import ApplicationError, RunError, SettingsError
from assistant.presentation.charts.schedule import fleet_picture
from assistant.service.experiment_service import apply_request_policy
from assistant.simtools.application_views import fleet_drawing, mean_held
from sim.api import MachineSpec, Tasks, Workload, known_names
from strategies import StrategyError

SMALL = FleetPlacement((usual_workload(seed=1, days=0.2),))
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "a,1000,100,1,500,,LS,Succeeded,0,100,0\nb,1000,100,1,500,,LS,Succeeded,0,100,0\n"
    "c,2000,100,1,1000,,BE,Succeeded,10,60,\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,4000,1000,1,T4\nn2,4000,1000,1,T4\nn3,8000,1000,0,\n"


def tiny(*, kinds: tuple[MachineKind, ...], **told: Any) -> FleetPlacement:
    """Three jobs of one instance: 2 cores for 3,600 s at 0, 2 at 0, 1 at 1,800 s."""
    tasks = Tasks.from_arrays(job=[0, 1, 2], runtime_s=[3600.0] * 3, mcpu=[2000, 2000, 1000])
    workload = Workload.from_arrays(
        submit_s=[0.0, 0.0, 1800.0], runtime_s=[3600.0] * 3, procs=[2, 2, 1], tasks=tasks
    )
    return FleetPlacement((workload,), kinds, **told)


ONE = MachineKind(MachineSpec("m", 2), price_per_h=3.0, counts=(1, 2, 3))


def test_costs_by_hand() -> None:
    application = tiny(kinds=(ONE,), wait_cost_per_h=5.0)
    one = application.evaluate(application.baseline, 0)
    assert set(one) == set(MEASURES)
    # One machine: the second waits 1 h, the third 1.5 h; the last ends after 3 h.
    assert (one["makespan_s"], one["machine_h"], one["machine_cost"]) == (10_800.0, 3.0, 9.0)
    assert one["wait_h"] == pytest.approx(2.5)
    assert one["cost"] == pytest.approx(9.0 + 12.5)
    two = application.evaluate({**application.baseline, "m_machines": 2}, 0)
    assert (two["wait_h"], two["machine_cost"]) == (0.5, 12.0)
    # Promising twice the processors on one machine is as two in time; a half is beyond.
    over = application.evaluate({**application.baseline, "cpu_overcommit": 2.0}, 0)
    assert (over["wait_h"], over["machine_cost"]) == (0.5, 6.0)
    assert over["cpu_beyond"] == pytest.approx(2 / 5)
    assert over["cpu_allocation"] == pytest.approx(2 * 5 / 8)
    assert not application.objective.assess(over).feasible
    assert application.objective.assess(one).feasible


def test_every_parameter_reaches_the_scenario() -> None:
    values = {
        "gpu8_machines": 12, "gpu4_machines": 0, "cpu_machines": 2, "placement": "fgd",
        "order": "saf", "backfill": "none", "cpu_overcommit": 1.25,
    }  # fmt: skip
    found = SMALL.scenario(values)
    machines = found.cluster.partitions[0].machines
    assert [(m.name, m.count, m.procs) for m in machines] == [("gpu8", 12, 160), ("cpu", 2, 160)]
    assert (found.placement, found.order, found.backfill) == ("fgd", "saf", "none")
    assert found.options == {"all_or_nothing": 1.0}
    assert set(known_names()["placement"]) == set(SMALL.space.parameter("placement").levels)


def test_an_option_of_a_rule_is_varied_where_it_means_something() -> None:
    application = replace(SMALL, levels={"typical_share": [0.5, 0.95], "order": ["fcfs"]})
    space = application.space
    values = {**application.baseline, "placement": "fgd", "typical_share": 0.5}
    space.check(space.from_values(values))
    assert application.scenario(values).options["typical_share"] == 0.5
    with pytest.raises(StrategyError):
        space.check(space.from_values({**values, "placement": "best_fit"}))
    assert "typical_share" not in application.scenario(application.baseline).options


def test_a_fleet_without_machines_is_left_out() -> None:
    kinds = tuple(MachineKind(MachineSpec(n, 2), counts=(0, 1)) for n in ("a", "b"))
    space = tiny(kinds=kinds).space
    assert space.count_allowed() == space.size * 3 // 4


def test_what_cannot_run_is_a_failed_run_and_a_rejected_job_is_infeasible() -> None:
    kinds = (
        MachineKind(MachineSpec("a", 2), counts=(0, 1)),
        MachineKind(MachineSpec("b", 1), counts=(0, 1)),
    )
    application = tiny(kinds=kinds)
    only_b = application.evaluate({**application.baseline, "a_machines": 0}, 0)
    assert only_b["n_rejected"] == 2
    assert not application.objective.assess(only_b).feasible
    tasks = Tasks.from_arrays(job=[0, 0], runtime_s=[1, 1], mcpu=[2000] * 2, gang=[1, 1])
    workload = Workload.from_arrays(submit_s=[0.0], runtime_s=[1.0], procs=[4], tasks=tasks)
    with pytest.raises(RunError, match="gang"):
        FleetPlacement((workload,), (ONE,)).evaluate({"m_machines": 1, **TODAY_OF_ONE}, 0)


TODAY_OF_ONE = {
    "placement": "first_fit", "order": "fcfs", "backfill": "greedy", "cpu_overcommit": 1.0,
}  # fmt: skip


def test_jobs_without_tasks_are_machines_of_their_own() -> None:
    workload = Workload.from_arrays(
        submit_s=[0.0, 0.0], runtime_s=[10.0, 10.0], procs=[2, 1], mem_bytes_per_proc=[5, 7]
    )
    tasks = FleetPlacement((workload,), (ONE,)).workloads[0].tasks
    assert tasks is not None
    assert tasks.mcpu.tolist() == [2000, 1000]
    assert tasks.mem_bytes.tolist() == [10, 7]


def test_several_workloads_are_judged_by_the_mean() -> None:
    each = [replace(SMALL, workloads=(usual_workload(seed, days=0.1),)) for seed in (1, 2)]
    both = replace(SMALL, workloads=tuple(one.workloads[0] for one in each))
    found = [one.evaluate(one.baseline, 0)["cost"] for one in each]
    assert both.evaluate(both.baseline, 0)["cost"] == pytest.approx(np.mean(found))  # type: ignore[arg-type]


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "nodes.csv").write_text(NODES)
    return tmp_path


def from_files(pods: Path, **told: Any) -> FleetPlacement:
    application = {
        "kind": "placement", "trace": str(pods / "pods.csv"), "nodes": str(pods / "nodes.csv"),
        **told,
    }  # fmt: skip
    built = build_sweep(check_settings({"application": application}, "x")).application
    assert isinstance(built, FleetPlacement)
    return built


def test_a_trace_on_a_list_of_machines(pods: Path) -> None:
    application = from_files(
        pods, prices={"T4x1_4": 2.0}, levels={"T4x1_4_machines": [1, 2], "order": []}
    )
    assert [(k.spec.name, k.spec.count, k.price_per_h) for k in application.kinds] == [
        ("T4x1_4", 2, 2.0), ("cpu_8", 1, 1.0),
    ]  # fmt: skip
    assert "order" not in application.space.names
    shared = application.evaluate(application.baseline, 0)
    # Two halves share a GPU, the other is whole; nobody waits.
    assert (shared["mean_wait_s"], shared["gpu_placed"]) == (0.0, 1.0)
    alone = application.evaluate({**application.baseline, "gpu_sharing": "off"}, 0)
    assert alone["mean_wait_s"] == pytest.approx(90 / 3)
    assert alone["gpu_placed"] == pytest.approx(250 / 340)


def test_whole_gpus_take_as_long(pods: Path) -> None:
    workload = from_files(pods).workloads[0]
    whole = without_sharing(workload).tasks
    assert whole is not None
    assert workload.tasks is not None
    assert whole.mgpu.tolist() == [1000, 1000, 1000]
    assert whole.runtime_s.tolist() == workload.tasks.runtime_s.tolist()
    assert without_sharing(SMALL.workloads[0]) is SMALL.workloads[0]


def test_machines_of_one_name_that_differ_are_told_apart() -> None:
    machines = [MachineSpec(f"n{i}", 4, gpus=1, mem_bytes=i % 2 + 1) for i in range(5)]
    found = [(kind.spec.name, kind.spec.count) for kind in machine_kinds(machines, {})]
    assert found == [("gpux1_4", 3), ("gpux1_4_2", 2)]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"levels": {"gpu8_machines": [8]}}, "current gpu8_machines, 16, is not among its levels"),
        ({"levels": {"speed": [1]}}, "no parameter 'speed'"),
        ({"levels": {"placement": ["first"]}}, "placement has the level 'first'"),
        ({"levels": {"backfill": ["easy"]}}, "backfill has the level 'easy'"),
        ({"baseline": {"gpu_sharing": "no"}}, "allowed are 'on' and 'off'"),
        ({"baseline": {"cpu_overcommit": 0.5}}, "allowed are numbers from 1 to 100"),
        ({"trace": "a.csv", "generator": "joulie"}, "give only one of trace"),
        ({"trace": "a.csv", "scale": 2.0}, "'scale' is for drawn workloads"),
        ({"first": 5}, "'first' is for a trace"),
        ({"prices": {"a": 1.0}}, "'prices' are for a list of machines"),
        ({"machines": [{"name": "a", "cores": 2, "count": 1, "counts": [2]}]}, "current count, 1"),
        ({"machines": [{"name": "a", "cores": 2, "count": 1, "gpu": 1}]}, "there is no setting"),
    ],
)
def test_settings_refuse_in_words(told: dict[str, Any], sentence: str) -> None:
    tables = {"application": {"kind": "placement", "duration": "2h", **told}}
    if "trace" in told:
        del tables["application"]["duration"]
    with pytest.raises((SettingsError, ApplicationError)) as caught:
        build_sweep(check_settings(tables, "the sweep"))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("key", ["trace", "model", "nodes"])
def test_a_request_names_files_of_the_services_folder_only(key: str, tmp_path: Path) -> None:
    tables = {"application": {"kind": "placement", key: "a.csv"}}
    with pytest.raises(SettingsError, match="reads no files"):
        apply_request_policy(tables, programs=False, files=None)
    found = apply_request_policy(tables, programs=False, files=tmp_path)
    assert found["application"][key] == str(tmp_path.resolve() / "a.csv")


def test_paths_in_a_sweep_file_are_relative_to_it(tmp_path: Path) -> None:
    text = '[application]\nkind = "placement"\ntrace = "p.csv"\nnodes = "n.csv"\n'
    told = parse_settings(text, "x", tmp_path, "x")["application"]
    assert (told["trace"], told["nodes"]) == (str(tmp_path / "p.csv"), str(tmp_path / "n.csv"))


def test_prices_of_unknown_kinds_are_refused(pods: Path) -> None:
    with pytest.raises(ApplicationError, match="did you mean 'cpu_8'"):
        from_files(pods, prices={"cpu_9": 2.0})


def test_the_drawing_adds_up() -> None:
    import vl_convert

    drawn, measures = fleet_drawing(SMALL, SMALL.baseline)
    assert measures["cost"] == SMALL.evaluate(SMALL.baseline, 0)["cost"]
    held, lost, waiting = drawn.panels
    assert np.mean(held.series["GPUs"]) == pytest.approx(measures["gpu_allocation"], abs=1e-5)
    assert np.mean(held.series["processors"]) == pytest.approx(measures["cpu_allocation"], abs=1e-5)
    assert np.mean(lost.series["fragments"]) == pytest.approx(measures["gpu_fragmented"], abs=1e-5)
    assert len(waiting.series["waiting"]) == 96
    assert "GPUs in fragments" in vl_convert.vegalite_to_svg(fleet_picture(drawn))


def test_means_over_steps_by_hand() -> None:
    found = mean_held(
        np.array([0.0, 5.0]), np.array([10.0, np.inf]), np.array([2.0, 1.0]), np.array([0, 4, 20.0])
    )
    assert found == pytest.approx([2.0, (2 * 6 + 15) / 16])


def test_the_template_is_what_is_played() -> None:
    """`copperline init --kind placement` writes out what is usual."""
    import tomllib
    from importlib.resources import files

    template = files("assistant.cli") / "templates" / "placement.toml"
    application = check_settings(tomllib.loads(template.read_text("utf-8")), "x").application
    built = application.build()  # type: ignore[union-attr, call-arg]
    assert isinstance(built, FleetPlacement)
    assert built.kinds == usual_machines()
    assert built == FleetPlacement()
