"""Files of tasks: CloudSimPy's job files, and tables that keep which task waits for which."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.api import (
    Tasks,
    TraceError,
    Workload,
    WorkloadError,
    format_of,
    load_workload,
    write_workload,
)
from sim.formats import read_cloudsimpy, read_task_table, roundtrip_losses
from sim.formats.task_table import MACHINE_BYTES
from sim.generators import default_workload, generate, published_model

JOBS = (
    ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"
    "0,539,116.5,1.0,0.25,1,1,283,0\n"
    "1,7448,73.5,0.5,0.5,9,23,67,0.125\n"
    "2,7448,3.0,0.55,0.005404705821447985,9,24,1,0\n"
    "3,77,1.0,2.0,0.5,3,7,2,0\n"
)
TABLE = (
    "job_id,submit_s,task,parents,runtime_s,mcpu\n"
    "7,5,a,,10,1000\n7,5,b,a,20,500\n3,5,x,,1,250\n7,5,c,b a,5,2000\n"
)


def written(tmp_path: Path, text: str, name: str = "jobs.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_job_file_of_cloudsimpy(tmp_path: Path) -> None:
    made = load_workload(written(tmp_path, JOBS))
    assert made.name == "jobs"
    assert made.job_id.tolist() == [3, 1, 9], "by submission"
    assert made.submit_s.tolist() == [0, 539 - 77, 7448 - 77]
    assert made.runtime_s.tolist() == [1.0, 116.5, 73.5], "of the longest task"
    assert made.procs.tolist() == [4, 283, 35], "67 halves and 0.55, in whole cores"
    tasks = made.tasks
    assert tasks is not None
    assert tasks.job.tolist() == [0, 1, 2, 2]
    assert tasks.mcpu.tolist() == [2000, 1000, 500, 550]
    assert tasks.mem_bytes.tolist()[:3] == [2**39, 2**38, 2**39]
    assert tasks.mem_bytes[3] == round(0.005404705821447985 * 2**40)
    assert tasks.disk_bytes.tolist() == [0, 0, 2**37, 0]
    assert tasks.instances.tolist() == [2, 283, 67, 1]
    assert tasks.texts["task_id"] == ("7", "1", "23", "24")
    assert len(tasks.parent_task) == 0


def test_machines_of_another_size_and_columns_of_other_names(tmp_path: Path) -> None:
    path = written(tmp_path, JOBS.replace("cpu", "cores"))
    made = read_cloudsimpy(path, machine_bytes=1000, columns={"cores": "cores"})
    assert made.tasks is not None
    assert made.tasks.mem_bytes.tolist() == [500, 250, 500, 5]
    with pytest.raises(WorkloadError, match=r"machine_bytes is 0; allowed"):
        read_cloudsimpy(path, machine_bytes=0)


def test_the_last_row_of_a_job_says_when_it_is_submitted(tmp_path: Path) -> None:
    made = load_workload(written(tmp_path, JOBS.replace("1,7448", "1,500")))
    assert made.submit_s.tolist() == [0, 539 - 77, 7448 - 77]
    assert made.notes[0].sentence.startswith("1 jobs have rows with different submit times; their")
    rows = JOBS.splitlines()
    mixed = "\n".join([rows[0], rows[3], rows[1], rows[4], rows[2]])
    together = load_workload(written(tmp_path, mixed, "mixed.csv"))
    assert together.tasks is not None
    assert together.tasks.texts["task_id"] == ("7", "1", "24", "23"), "in the order of the file"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("283", "0", "line 2: instances_num is '0'; allowed are whole numbers from 1"),
        ("283", "100000001", "allowed is at most 100,000,000"),
        ("539", "soon", "line 2: submit_time is 'soon'"),
        ("0.25", "-0.25", "memory is '-0.25'"),
        ("0.25", "8193", "allowed is at most 8,192"),
        ("116.5", "nan", "duration is 'nan'"),
        ("1.0,0.25", "1e7,0.25", "cpu is '1e7'; allowed is at most 1,000,000"),
        ("0.25,1,1", "0.25,1.5,1", "job_id is '1.5'; allowed are whole numbers"),
        ("3.0,0.55", "3.0", "line 4: 8 fields where the header has 9"),
    ],
)
def test_job_files_that_cannot_be(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        load_workload(written(tmp_path, JOBS.replace(old, new, 1)))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.cloudsimpy.csv", "A.CloudSimPy.csv.gz"])
def test_job_files_are_written_and_read_again(tmp_path: Path, name: str) -> None:
    made = load_workload(written(tmp_path, JOBS))
    write_workload(made, tmp_path / name)
    assert format_of(tmp_path / name).name == "cloudsimpy"
    again = load_workload(tmp_path / name)
    assert again == made
    assert roundtrip_losses(made, again) == ()


def test_what_a_job_file_cannot_hold_is_said(tmp_path: Path) -> None:
    graphs = generate(published_model("graphs"), duration_s=43200.0, seed=5)
    write_workload(graphs, tmp_path / "a.cloudsimpy.csv")
    told = roundtrip_losses(graphs, load_workload(tmp_path / "a.cloudsimpy.csv"))
    assert "tasks: some values of the tasks are read back differently." in told
    rigid = default_workload(3, 50)
    write_workload(rigid, tmp_path / "b.cloudsimpy.csv")
    found = load_workload(tmp_path / "b.cloudsimpy.csv")
    assert found.procs.tolist() == rigid.procs.tolist()
    assert found.runtime_s.tolist() == rigid.runtime_s.tolist()


def test_the_whole_file_of_cloudsimpy(shared_data: Path) -> None:
    made = load_workload(shared_data / "cloudsimpy/cloudsimpy_jobs.csv.gz")
    assert made.tasks is not None
    assert (made.n_jobs, made.tasks.n_tasks, made.tasks.n_instances) == (5216, 31756, 2551075)
    assert made.span_s == 59829
    assert made.notes[0].n_rows == 78
    assert made.tasks.disk_bytes.sum() == 0
    assert sorted(set(made.tasks.mcpu.tolist())) == [
        400, 500, 550, 600, 650, 700, 750, 1000, 2000, 3000,
    ]  # fmt: skip
    assert made.tasks.mem_bytes.max() < MACHINE_BYTES / 10
    with gzip.open(shared_data / "cloudsimpy/cloudsimpy_jobs.csv.gz", "rt") as file:
        rows = [line.split(",") for line in file][1:]
    wanted = sorted((int(r[5]), int(r[6]), int(r[7]), float(r[2])) for r in rows)
    ids = made.job_id[made.tasks.job].tolist()
    names = map(int, made.tasks.texts["task_id"])
    columns = zip(
        ids, names, made.tasks.instances.tolist(), made.tasks.runtime_s.tolist(), strict=True
    )
    assert sorted(columns) == wanted


def test_a_table_of_tasks(tmp_path: Path) -> None:
    made = load_workload(written(tmp_path, TABLE, "graph.tasks.csv"))
    assert made.name == "graph"
    assert made.job_id.tolist() == [3, 7]
    assert made.runtime_s.tolist() == [1, 35], "the longest path: a, b, c"
    assert made.procs.tolist() == [1, 2]
    tasks = made.tasks
    assert tasks is not None
    assert tasks.texts["task_id"] == ("x", "a", "b", "c")
    assert tasks.first_parent.tolist() == [0, 0, 0, 1, 3]
    assert tasks.parent_task.tolist() == [1, 2, 1]
    assert tasks.mcpu.tolist() == [250, 1000, 500, 2000]
    assert tasks.instances.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("b a", "b z", "line 5: parents is 'b z'; its job has no task 'z'"),
        ("b,a", "b,x", "its job has no task 'x'"),
        ("a,,10", "a,c,10", "waits for itself"),
        ("b,a", "a,a", "line 3: task is 'a'; task names must be"),
        ("5,b", "6,b", "line 3: submit_s is '6'; all rows of a job must agree, but line 2"),
        ("10,1000", "10,0.5", "mcpu is '0.5'; allowed are whole numbers"),
        ("a,,10", "a b,,10", "task names must be unique"),
    ],
)
def test_tables_of_tasks_that_cannot_be(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_task_table(written(tmp_path, TABLE.replace(old, new, 1)))
    assert sentence in str(caught.value)


def test_what_is_known_of_jobs_is_kept(tmp_path: Path) -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1, 1], runtime_s=[5, 1.5, 3], instances=[2, 1, 4], mgpu=[0, 500, 2000],
        gang=[0, 1, 1], role=[-1, 1, 0], roles=["worker", "ps"], gpu_resource=[-1, 0, 0],
        gpu_resources=["amd.com/gpu"], disk_bytes=[7, 0, 0],
    )  # fmt: skip
    made = Workload.from_arrays(
        submit_s=[0, 2.5], runtime_s=[9, 9.5], procs=[3, 4], requested_s=[20, 30],
        logged_wait_s=[np.nan, 4], user=[5, -1], queue=[0, 1], status=[-1, 1],
        mem_bytes_per_proc=[-1, 100], tasks=tasks,
    )  # fmt: skip
    write_workload(made, tmp_path / "a.tasks.csv.gz")
    again = load_workload(tmp_path / "a.tasks.csv.gz")
    assert roundtrip_losses(made, again) == ()
    assert again.tasks is not None
    assert again.tasks.roles == ("ps", "worker"), "names are kept in alphabetical order"
    header = gzip.decompress((tmp_path / "a.tasks.csv.gz").read_bytes()).decode().splitlines()[0]
    assert "partition" not in header, "what is told of nobody has no column"


@given(st.data())
def test_graphs_come_back_as_they_were(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    job = [j for j, n in enumerate(counts) for _ in range(n)]
    first = [sum(counts[:j]) for j in job]
    parents = [
        data.draw(st.lists(st.sampled_from(range(first[t], t)), unique=True))
        if t > first[t] else []
        for t in range(len(job))
    ]  # fmt: skip
    n = len(job)
    seconds = st.floats(0, 1e6, allow_subnormal=False)
    tasks = Tasks.from_arrays(
        job=job,
        runtime_s=data.draw(st.lists(seconds, min_size=n, max_size=n)),
        instances=data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)),
        mcpu=data.draw(st.lists(st.integers(0, 9000), min_size=n, max_size=n)),
        parents=parents,
    )
    made = Workload.from_arrays(
        submit_s=sorted(data.draw(st.lists(seconds, min_size=len(counts), max_size=len(counts)))),
        runtime_s=[1.0] * len(counts),
        procs=[1] * len(counts),
        tasks=tasks,
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tasks.csv")
        write_workload(made, path)
        assert load_workload(path) == made
