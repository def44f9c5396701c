"""Orders of tasks: by hand, against ranks from their definition, and on every engine."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim import MachineSpec, Scenario, simulate
from sim.api import (
    ScenarioError,
    Tasks,
    UnknownNameError,
    check_policies,
    check_scenario,
    known_names,
)
from sim.model.tasks import downward_ranks, upward_ranks
from sim.placement import FirstFit, simulate_algorithm
from sim.placement.heft import Graph, rank_d, rank_u
from tests.sim import naive_fleet
from tests.sim.test_objects import as_columns, drawn_jobs, scenario

ENGINES = ("interpreted", "process", "compiled")
GRAPH = Tasks.from_arrays(
    job=[0, 0, 0, 1, 1],
    runtime_s=[5, 2, 9, 1, 7],
    mcpu=[1000] * 5,
    parents=[[], [], [1], [], [3]],
)
"""Ways to the end are 5, 11, 9, 8 and 7; ways through are 5, 11, 11, 8 and 8."""


def starts(one: Scenario) -> list[float]:
    results = [simulate(one, engine=engine) for engine in ENGINES]
    assert results[0] == results[1] == results[2]
    return as_columns(results[0])[1]


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("fcfs", [0, 5, 7, 16, 17]),
        ("critical_path", [19, 0, 2, 11, 12]),
        ("upward_rank", [19, 0, 2, 11, 12]),
        ("cpop_rank", [19, 0, 2, 11, 12]),
    ],
)
def test_the_longest_way_goes_first(order: str, wanted: list[float]) -> None:
    one = scenario(GRAPH, MachineSpec("a", 1), order=order, backfill="none")
    assert starts(one) == wanted


def test_ways_through_count_what_is_behind() -> None:
    # At 10 s task 1 ends, and one machine is free: task 2 is 7 s from the end and task 3 is 6 s,
    # but the way through 2 is 1 + 7 s, and through 3, which comes after 1, 10 + 6 s.
    tasks = Tasks.from_arrays(
        job=[0, 0, 0, 0], runtime_s=[1, 10, 7, 6], mcpu=[1000] * 4, parents=[[], [], [0], [1]]
    )
    two = (MachineSpec("a", 1), MachineSpec("b", 1))
    blocked = Tasks.from_arrays(
        job=[0, 0, 0, 0, 1], runtime_s=[1, 10, 7, 6, 10], mcpu=[1000] * 4 + [1000],
        parents=[[], [], [0], [1], []],
    )  # fmt: skip
    assert starts(scenario(tasks, *two, order="cpop_rank")) == [0, 0, 1, 10]
    at_ten = scenario(blocked, *two, submit_s=[0, 1], order="cpop_rank")
    assert starts(at_ten)[2:] == [11, 10, 1], "the other job's 10 is before 8, and 16 is before 8"
    assert starts(replace(at_ten, order="critical_path"))[2:] == [10, 11, 1]


def test_mean_times_are_over_machines_that_can_hold_a_task() -> None:
    # Task 1 is shorter at full speed, but fits on the slow machine alone, where it takes 12 s.
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[8, 3], mcpu=[1000, 1000], mem_bytes=[1, 5])
    slow = MachineSpec("slow", 1, mem_bytes=5, cpu_throttle=0.25)
    fast = MachineSpec("fast", 1, count=3, mem_bytes=4)
    one = scenario(tasks, slow, fast, order="critical_path")
    assert as_columns(simulate(one))[0] == [0, 0]
    assert starts(one) == [0, 32], "the first in line takes the slow machine"
    # Means: 32 and 3 times 8 are 14 for task 0, and 12 for task 1.
    assert starts(replace(one, order="upward_rank")) == [0, 32]
    tasks = replace(tasks, runtime_s=np.array([6.5, 3]))
    one = scenario(tasks, slow, fast, order="upward_rank")
    assert starts(one) == [0, 0], "11.375 is less than 12: task 1 is first on the slow machine"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("order", ["critical_path", "upward_rank", "cpop_rank"])
def test_engines_and_object_order_tasks_as_the_naive_reference(order: str, seed: int) -> None:
    one = drawn_jobs(seed, order=order)
    below: dict[int, float] = {}
    above: dict[int, float] = {}
    naive = naive_fleet.tasks_of(one)

    def up(t: naive_fleet.NaiveTask) -> float:
        children = [c for c in naive if any(p.number == t.number for p in c.parents)]
        if t.number not in below:
            below[t.number] = t.runtime_s + max(map(up, children), default=0.0)
        return below[t.number]

    def down(t: naive_fleet.NaiveTask) -> float:
        if t.number not in above:
            above[t.number] = max((down(p) + p.runtime_s for p in t.parents), default=0.0)
        return above[t.number]

    for task in naive:
        up(task)
        down(task)
    ways = {n: below[n] + (above[n] if order == "cpop_rank" else 0.0) for n in below}
    wanted = naive_fleet.columns(naive_fleet.simulate(one, key=lambda t: (-ways[t.number], t.job)))
    for engine in ("interpreted", "process"):
        assert as_columns(simulate(one, engine=engine)) == wanted
    assert as_columns(simulate_algorithm(one, FirstFit()).result) == wanted
    fcfs = as_columns(simulate(replace(one, order="fcfs"), engine="interpreted"))
    assert fcfs != wanted, "the order makes no difference here"


@pytest.mark.parametrize("seed", range(10))
def test_ranks_are_those_of_heft_without_communication(seed: int) -> None:
    tasks = drawn_jobs(seed).workload.tasks
    assert tasks is not None
    child = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    edges = np.column_stack([tasks.parent_task, child])
    graph = Graph(tasks.runtime_s[:, None], edges, np.zeros(len(edges)))
    assert upward_ranks(tasks, tasks.runtime_s).tolist() == rank_u(graph).tolist()
    assert downward_ranks(tasks, tasks.runtime_s).tolist() == rank_d(graph).tolist()


@pytest.mark.parametrize(
    ("order", "wanted"),
    [("sjf", [3, 1, 15, 0, 8]), ("ljf", [0, 5, 7, 16, 17]), ("saf", [3, 1, 15, 0, 8])],
)
def test_orders_of_jobs_can_rank_tasks(order: str, wanted: list[float]) -> None:
    one = scenario(GRAPH, MachineSpec("a", 1), order=order, backfill="none")
    assert starts(one) == [0, 5, 7, 16, 17], "jobs are alike, and go as they came"
    assert starts(replace(one, options={"by_task": 1})) == wanted


def test_cores_of_tasks_count_in_their_areas() -> None:
    tasks = Tasks.from_arrays(job=[0, 0], runtime_s=[3, 4], mcpu=[1500, 1000])
    told: dict[str, Any] = {"order": "saf", "backfill": "none"}
    one = scenario(tasks, MachineSpec("a", 2), **told, options={"by_task": 1})
    assert starts(one) == [4, 0], "3 s of 2 cores are more than 4 s of 1"


def test_orders_of_tasks_are_known_and_refused_where_there_are_none() -> None:
    assert known_names()["task_order"] == ("critical_path", "upward_rank", "cpop_rank")
    one = scenario(GRAPH, MachineSpec("a", 1), order="critical_path")
    check_scenario(one)
    rigid = replace(one, allocation="processors", backfill="easy")
    for refuse in (simulate, check_policies):
        with pytest.raises(ScenarioError, match=r"order 'critical_path' ranks tasks, but alloc"):
            refuse(rigid)
    with pytest.raises(UnknownNameError, match="did you mean 'upward_rank'"):
        check_scenario(replace(one, order="upwards_rank"))
