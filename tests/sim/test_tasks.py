"""Tasks of jobs: checked rows, cutting, ordering, digests."""

import numpy as np
import pytest

from sim.model.errors import WorkloadError
from sim.model.tasks import SIGNALS, Tasks, TaskWork, Term
from sim.model.workload import Workload


def three_jobs() -> Tasks:
    return Tasks.from_arrays(
        job=[0, 0, 1, 2, 2, 2],
        runtime_s=[5, 6, 7, 8, 9, 10],
        mcpu=[100, 200, 300, 400, 500, 600],
        parents=[[], [0], [], [], [3], [3, 4]],
        role=[0, 1, 0, 0, 1, 1],
        roles=["worker", "ps"],
        texts={"name": list("abcdef")},
        work=TaskWork(
            cpu_units=np.arange(6.0),
            gpu_units=np.arange(6.0),
            cpu_sensitivity=np.full(6, 0.5),
            gpu_sensitivity=np.full(6, 0.5),
            cpu_class=np.zeros(6, dtype=np.int64),
            gpu_class=np.full(6, -1, dtype=np.int64),
            profile=np.full((6, len(SIGNALS)), 0.25),
            classes=("cpu.mixed",),
        ),
    )


def parents_of(tasks: Tasks, row: int) -> list[int]:
    return tasks.parent_task[tasks.first_parent[row] : tasks.first_parent[row + 1]].tolist()


def test_jobs_are_cut_out_with_their_tasks() -> None:
    cut = three_jobs().of_jobs(2, 3)
    assert cut.job.tolist() == [0, 0, 0]
    assert cut.runtime_s.tolist() == [8, 9, 10]
    assert [parents_of(cut, row) for row in range(3)] == [[], [0], [0, 1]]
    assert cut.texts["name"] == ("d", "e", "f")
    assert cut.work is not None
    assert cut.work.cpu_units.tolist() == [3, 4, 5]
    assert not cut.runtime_s.flags.writeable


def test_a_job_that_is_asked_for_twice_has_its_tasks_twice() -> None:
    twice = three_jobs().ordered(np.array([2, 0, 2]))
    assert twice.job.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert twice.runtime_s.tolist() == [8, 9, 10, 5, 6, 8, 9, 10]
    assert [parents_of(twice, row) for row in range(8)] == [
        [], [0], [0, 1], [], [3], [], [5], [5, 6],
    ]  # fmt: skip


def test_a_workload_orders_the_tasks_with_its_jobs() -> None:
    made = Workload.from_arrays(
        submit_s=[20, 0, 10], runtime_s=[1, 2, 3], procs=[1, 1, 1], tasks=three_jobs(),
        unsorted="sort",
    )  # fmt: skip
    assert made.tasks is not None
    assert made.tasks.job.tolist() == [0, 1, 1, 1, 2, 2]
    assert made.tasks.runtime_s.tolist() == [7, 8, 9, 10, 5, 6]
    assert [parents_of(made.tasks, row) for row in range(6)] == [[], [], [1], [1, 2], [], [4]]
    head = made.head(1).tasks
    assert head is not None
    assert head.runtime_s.tolist() == [7]


def test_the_digest_knows_the_tasks() -> None:
    columns = {"submit_s": [0, 1, 2], "runtime_s": [1, 2, 3], "procs": [1, 1, 1]}
    bare, with_tasks = (Workload.from_arrays(**columns, tasks=t) for t in (None, three_jobs()))
    assert bare.digest != with_tasks.digest
    assert with_tasks == Workload.from_arrays(**columns, tasks=three_jobs())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"job": [0, 2]}, "every job needs one"),
        ({"job": [1, 1]}, "every job needs one"),
        ({"instances": [0, 1]}, "task instances, row 0: 0; allowed are whole numbers, at least 1"),
        ({"mcpu": [1, -5]}, "task mcpu, row 1: -5"),
        ({"role": [0, 0]}, "task role, row 0: 0; allowed are numbers below 0"),
        ({"parents": [[1], [0]]}, "task 0 waits for itself"),
        ({"parents": [[], [7]]}, "a parent must be a task (row) of the same job"),
        ({"job": [0, 1], "parents": [[], [0]]}, "a parent must be a task (row) of the same job"),
        ({"edges": ([0, 0], [])}, "task first_parent has 2 rows"),
        ({"edges": ([0, 1, 1], [])}, "end with the number of edges"),
        ({"edges": ([0, 1, 0], [0])}, "never fall"),
        ({"edges": ([0, 1, 2], [1, 0])}, "task 0 waits for itself"),
        ({"texts": {"name": ["a"]}}, "task name has 1 rows, not 2"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], told: str) -> None:
    columns = {"job": [0, 0], "runtime_s": [1.0, 2.0]} | given
    with pytest.raises(WorkloadError) as refused:
        Tasks.from_arrays(**columns)  # type: ignore[arg-type]
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("term", "allowed"),
    [
        (Term("zone", "In", ("a", "b")), (True, False, False)),
        (Term("zone", "NotIn", ("a",)), (False, True, True)),
        (Term("zone", "Exists"), (True, True, False)),
        (Term("zone", "DoesNotExist"), (False, False, True)),
    ],
)
def test_terms_are_those_of_kubernetes(term: Term, allowed: tuple[bool, ...]) -> None:
    labels: tuple[dict[str, str], ...] = ({"zone": "a"}, {"zone": "c"}, {})
    assert tuple(term.allows(one) for one in labels) == allowed


def test_terms_that_make_no_sense() -> None:
    with pytest.raises(WorkloadError, match="values with In and NotIn only"):
        Term("zone", "In")
    with pytest.raises(WorkloadError, match="operator is 'Gt'"):
        Term("zone", "Gt", ("1",))  # type: ignore[arg-type]
