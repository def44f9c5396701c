"""HEFT and CPOP: the example of the paper, rules that every plan keeps, and small cases by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.model.errors import ScenarioError
from sim.placement.heft import Graph, Plan, cpop, critical_path, heft, rank_d, rank_u

COSTS = [
    [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
    [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
]  # fmt: skip
EDGES = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip


def published() -> Graph:
    """The graph of ten tasks on three processors of the paper's figure 1."""
    return Graph(np.array(COSTS), np.array([*EDGES]) - 1, np.array([*EDGES.values()]))


def check_plan(graph: Graph, plan: Plan) -> list[str]:
    """Return descriptions of all constraints that a plan violates, empty if none."""
    faults = []
    for (parent, child), cost in zip(graph.edges.tolist(), graph.c.tolist(), strict=True):
        sent = 0.0 if plan.processor[parent] == plan.processor[child] else cost
        if plan.start_s[child] < plan.finish_s[parent] + sent:
            faults.append(f"task {child} starts before the data of task {parent} arrive")
    for p in range(graph.w.shape[1]):
        mine = np.flatnonzero((plan.processor == p) & (plan.finish_s > plan.start_s))
        mine = mine[np.argsort(plan.start_s[mine], kind="stable")]
        for task, other in zip(mine[:-1].tolist(), mine[1:].tolist(), strict=True):
            if plan.finish_s[task] > plan.start_s[other]:
                faults.append(f"processor {p} runs tasks {task} and {other} at the same time")
    return faults


def test_upward_ranks_are_those_published() -> None:
    wanted = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert rank_u(published()) == pytest.approx(wanted, abs=6e-4)


def test_downward_ranks_are_those_published() -> None:
    wanted = [0, 31, 25, 22, 24, 27, 62.333, 66.667, 63.667, 93.333]
    assert rank_d(published()) == pytest.approx(wanted, abs=6e-4)


def test_heft_plans_the_published_schedule() -> None:
    plan = heft(published())
    assert plan.makespan_s == 80
    assert [task + 1 for task in plan.order] == [1, 3, 4, 2, 5, 6, 9, 7, 8, 10]
    assert (plan.processor + 1).tolist() == [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]
    assert plan.start_s.tolist() == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert check_plan(published(), plan) == []


def test_cpop_plans_the_published_schedule() -> None:
    plan = cpop(published())
    assert [task + 1 for task in critical_path(published())] == [1, 2, 9, 10]
    assert plan.makespan_s == 86
    assert (plan.processor[[0, 1, 8, 9]] == 1).all(), "the path is on the second processor"
    assert check_plan(published(), plan) == []


def test_gaps_are_filled() -> None:
    # 4 s fit exactly between 2 and 6; 1 s comes behind 7, because its data is there at 6 + 3.
    graph = Graph([[4.0], [1.0], [3.0]], [[0, 1]], [3.0])
    booked = [[(0.0, 2.0), (6.0, 7.0)]]
    plan = heft(graph, 0.0, booked)
    assert plan.order == (0, 2, 1), "ranks 8, 1 and 3"
    assert plan.start_s.tolist() == [2.0, 10.0, 7.0]
    assert booked == [[(0, 2), (2, 6), (6, 7), (7, 10), (10, 11)]]
    alone = Graph([[1.0]], np.zeros((0, 2)), [])
    assert heft(alone, 100.0, booked).start_s.tolist() == [100.0]
    assert cpop(alone, 8.0, booked).start_s.tolist() == [11.0]


def test_who_can_run_nowhere_else_goes_where_it_can() -> None:
    inf = np.inf
    graph = Graph([[1.0, inf], [inf, 2.0], [inf, 3.0]], [[0, 1], [1, 2]], [4.0, 4.0])
    for plan in (heft(graph), cpop(graph)):
        assert plan.processor.tolist() == [0, 1, 1]
        assert plan.start_s.tolist() == [0.0, 5.0, 7.0]
    with pytest.raises(ScenarioError, match="every task must fit some processor"):
        Graph([[inf, inf]], np.zeros((0, 2)), [])


@pytest.mark.parametrize(
    ("w", "edges", "c", "sentence"),
    [
        ([[1.0], [1.0]], [[0, 1], [1, 0]], [0, 0], "task 0 of a task graph waits for itself"),
        ([[1.0]], [[0, 1]], [0], "edges must join tasks by their numbers, from 0 to 0"),
        ([[1.0]], [], [1], "0 edges and 1 communication costs"),
        ([[-1.0]], [], [], "seconds from 0"),
        ([[1.0], [1.0]], [[0, 1]], [np.nan], "finite seconds from 0"),
    ],
)
def test_graphs_that_cannot_be(w: list, edges: list, c: list, sentence: str) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        heft(Graph(w, edges, c))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    cost = st.integers(0, 9).map(float)
    w = draw(st.lists(st.lists(cost, min_size=m, max_size=m), min_size=n, max_size=n))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    c = draw(st.lists(cost, min_size=len(edges), max_size=len(edges)))
    return Graph(w, np.array(edges).reshape(-1, 2), c)


@given(graphs())
def test_every_plan_keeps_the_rules(graph: Graph) -> None:
    least = graph.w.min(axis=1)
    for plan in (heft(graph), cpop(graph)):
        assert check_plan(graph, plan) == []
        assert sorted(plan.order) == list(range(graph.n_tasks))
        lasts = plan.finish_s - plan.start_s
        assert lasts.tolist() == [graph.w[i, p] for i, p in enumerate(plan.processor)]
        assert plan.makespan_s <= graph.w.max(axis=1).sum() + graph.c.sum()
        for path in (critical_path(graph),):
            assert plan.makespan_s >= sum(least[i] for i in path)


@given(graphs())
def test_ranks_are_longest_paths(graph: Graph) -> None:
    """Against all paths, one by one."""
    mean = graph.w.mean(axis=1)
    cost = {tuple(edge): c for edge, c in zip(graph.edges.tolist(), graph.c, strict=True)}
    after: dict[int, list[int]] = {i: [] for i in range(graph.n_tasks)}
    for i, j in cost:
        after[i].append(j)

    def paths(i: int) -> list[list[int]]:
        return [[i]] + [[i, *rest] for j in after[i] for rest in paths(j)]

    every = [path for i in range(graph.n_tasks) for path in paths(i)]

    def length(path: list[int]) -> float:
        return sum(mean[i] for i in path) + sum(cost[pair] for pair in pairwise(path))

    up, down = rank_u(graph), rank_d(graph)
    for i in range(graph.n_tasks):
        assert up[i] == pytest.approx(max(length(p) for p in every if p[0] == i))
        assert down[i] == pytest.approx(max(length(p) - mean[i] for p in every if p[-1] == i))
