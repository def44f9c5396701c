"""Job graphs: forms, edges, longest paths, and what a fit tells of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.generators.generator import fit, generate, published_model
from sim.generators.task_graphs import FORMS
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks, levels, longest_paths, widest_cores
from sim.model.workload import Workload

DAY_S = 86400.0


def drawn(days: float = 20, seed: int = 1, **told: object) -> tuple[Workload, Tasks]:
    workload = generate(
        published_model("graphs").with_parameters(told), duration_s=days * DAY_S, seed=seed
    )
    assert workload.tasks is not None
    return workload, workload.tasks


def parents_of(tasks: Tasks, row: int) -> list[int]:
    return tasks.parent_task[tasks.first_parent[row] : tasks.first_parent[row + 1]].tolist()


def layers_of(tasks: Tasks, job: int) -> list[list[int]]:
    """Return the rows of the tasks of a job by level, found by hand."""
    rows = np.flatnonzero(tasks.job == job).tolist()
    level: dict[int, int] = {}
    for row in rows:
        level[row] = 1 + max((level[parent] for parent in parents_of(tasks, row)), default=-1)
    return [[r for r in rows if level[r] == i] for i in range(max(level.values()) + 1)]


def test_every_form_is_what_it_is_called() -> None:
    _, tasks = drawn(days=1.0, width_low=2)
    seen = set()
    for job in range(tasks.n_jobs):
        layers = layers_of(tasks, job)
        sizes = [len(layer) for layer in layers]
        form = FORMS[tasks.role[layers[0][0]]]
        seen.add(form)
        full = all(
            sorted(parents_of(tasks, row)) == before
            for before, layer in pairwise(layers)
            for row in layer
        )
        if form == "chain":
            assert set(sizes) == {1}
            assert 2 <= len(sizes) <= 8
        elif form == "fork_join":
            assert set(sizes[::2]) == {1}
            assert len(set(sizes[1::2])) == 1
            assert len(sizes) in (3, 5, 7, 9)
        elif form == "map_reduce":
            assert len(sizes) == 2
            assert sizes[1] == max(sizes[0] // 4, 1)
        else:
            assert 2 <= len(sizes) <= 8
            assert all(2 <= size <= 10 for size in sizes)
        assert full or form == "layered"
    assert seen == set(FORMS)


def test_layered_edges_have_the_density_and_every_task_a_parent() -> None:
    workload, tasks = drawn(days=30, forms={"layered": 1.0}, density=0.25)
    level = levels(tasks)
    n_parents = np.diff(tasks.first_parent)
    assert (n_parents[level > 0] >= 1).all()
    child = np.repeat(np.arange(tasks.n_tasks), n_parents)
    assert (level[child] - level[tasks.parent_task] == 1).all(), "from the layer before, only"
    pairs = set(zip(child.tolist(), tasks.parent_task.tolist(), strict=True))
    assert len(pairs) == len(child), "no edge twice"
    n_levels = int(level.max()) + 1
    widths = np.bincount(tasks.job * n_levels + level, minlength=workload.n_jobs * n_levels)
    before = np.roll(widths, 1)[tasks.job * n_levels + level][level > 0]
    surplus, extra = (before - 1).sum(), (n_parents[level > 0] - 1).sum()
    assert abs(extra - 0.25 * surplus) < 4 * np.sqrt(surplus * 0.25 * 0.75)
    # The parent that a task has in any case is as likely any of the layer before.
    _, sparse = drawn(days=30, forms={"layered": 1.0}, density=0.0, width_low=4, width_high=4)
    assert (np.diff(sparse.first_parent) <= 1).all()
    place = np.bincount(sparse.parent_task % 4, minlength=4)
    assert np.ptp(place) < 8 * np.sqrt(len(sparse.parent_task) * 3 / 16)


def test_density_moves_edges_and_nothing_else() -> None:
    base, _ = drawn(days=2, density=0.1)
    other, _ = drawn(days=2, density=0.9)
    assert base.tasks is not None
    assert other.tasks is not None
    for name in ("job", "runtime_s", "mcpu", "role"):
        assert np.array_equal(getattr(base.tasks, name), getattr(other.tasks, name))
    assert len(base.tasks.parent_task) < len(other.tasks.parent_task)
    assert np.array_equal(base.submit_s, other.submit_s)


@st.composite
def graphs(draw: st.DrawFn) -> Tasks:
    """Draw tasks of a few jobs whose parents come in any order of rows."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    parents: list[list[int]] = []
    for size in sizes:
        begin = len(parents)
        place = draw(st.permutations(range(size)))
        mine: list[list[int]] = [[] for _ in range(size)]
        for i in range(1, size):
            before = draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3))
            mine[place[i]] = [begin + place[p] for p in before]
        parents += mine
    n_tasks = len(parents)
    column = st.lists(st.integers(1, 9), min_size=n_tasks, max_size=n_tasks)
    return Tasks.from_arrays(
        job=np.repeat(np.arange(len(sizes)), sizes),
        runtime_s=draw(column),
        mcpu=[400 * cores for cores in draw(column)],
        parents=parents,
    )


@given(graphs())
def test_levels_and_longest_paths_are_those_found_by_hand(tasks: Tasks) -> None:
    def end(row: int) -> float:
        return tasks.runtime_s[row] + max((end(p) for p in parents_of(tasks, row)), default=0.0)

    def depth(row: int) -> int:
        return 1 + max((depth(p) for p in parents_of(tasks, row)), default=-1)

    rows = range(tasks.n_tasks)
    assert levels(tasks).tolist() == [depth(row) for row in rows]
    wanted = [max(end(r) for r in rows if tasks.job[r] == job) for job in range(tasks.n_jobs)]
    assert longest_paths(tasks).tolist() == wanted
    for job, cores in enumerate(widest_cores(tasks).tolist()):
        mine = [row for row in rows if tasks.job[row] == job]
        taken = [sum(int(tasks.mcpu[r]) for r in mine if depth(r) == d) for d in range(len(mine))]
        assert cores == -(-max(taken) // 1000)


def test_a_fit_tells_the_forms_from_the_graphs_alone() -> None:
    shares = {"layered": 0.5, "chain": 0.1, "fork_join": 0.1, "map_reduce": 0.3}
    workload, _ = drawn(days=60, seed=3, forms=shares, width_low=3, density=0.4, runtime_sigma=0.7)
    learnt = fit("graphs", workload).parameters
    assert learnt["forms"] == pytest.approx(shares, abs=0.025)
    assert learnt["density"] == pytest.approx(0.4, abs=0.02)
    assert (learnt["depth_low"], learnt["depth_high"]) == (2, 8)
    assert (learnt["width_low"], learnt["width_high"]) == (3, 10)
    assert learnt["maps_per_reduce"] == pytest.approx(4, abs=1)
    assert learnt["runtime_median_s"] == pytest.approx(120.0, rel=0.03)
    assert learnt["runtime_sigma"] == pytest.approx(0.7, rel=0.03)
    assert learnt["mcpu"] == [500, 1000, 2000, 4000]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"forms": {"star": 1.0}}, "'forms' of 'graphs' must give shares of layered, chain"),
        ({"forms": {"chain": 0.0}}, "are all 0"),
        ({"depth_low": 9}, "'depth_low' of 'graphs' is above 'depth_high'"),
        ({"width_high": 2.5}, "'width_high' of 'graphs' must be a whole number"),
        ({"density": 1.2}, "'density' of 'graphs' is 1.2; allowed are numbers from 0 to 1"),
        ({"mcpu": []}, "allowed is a list of thousandths"),
        ({"mcpu": [0]}, "'mcpu' of 'graphs' is 0"),
    ],
)
def test_what_cannot_be_is_refused(told: dict[str, object], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        drawn(1.0, 1, **told)


def test_rigid_jobs_have_no_graphs_to_fit() -> None:
    rigid = generate(published_model("downey"), duration_s=DAY_S, seed=1)
    with pytest.raises(WorkloadError, match="needs 20 jobs or more with tasks"):
        fit("graphs", rigid)
