"""Tables of Philly's jobs and of openb's pods: read row by row, refused in words."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from sim.formats.gpu_clusters import GPU_MODEL, machines_for, read_openb, read_philly
from sim.metrics.wall_clock import WallClock
from sim.model.errors import TraceError
from sim.model.workload import Workload

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:00:10,66.5,1,66.5,b\n"
    "2017-10-09 07:00:00,100,16,1600,a\n"
    "2017-10-09 08:00:00,0,4,0,a\n"
    "2017-10-09 09:00:00,30,0,0,a\n"
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p0,12000,16384,1,460,,LS,Running,100,400,150\n"
    "p1,500,1024,0,0,,BE,Failed,120,121,120\n"
    "p2,8000,1024,8,1000,V100M16|V100M32,BE,Pending,130,190,\n"
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def note(workload: Workload, rule: str) -> str:
    return next(one.sentence for one in workload.notes if one.rule == rule)


def test_a_philly_table(tmp_path: Path) -> None:
    made = read_philly(written(tmp_path, PHILLY), time_zone="America/Los_Angeles")
    assert made.submit_s.tolist() == [0, 10, 7200]
    assert made.runtime_s.tolist() == [100, 66.5, 30]
    assert made.procs.tolist() == [16, 1, 1]
    assert made.queue.tolist() == [0, 1, 0]
    assert made.start_unix_s == 1507557600.0  # 14:00 UTC: 7 hours behind in October
    assert made.time_zone == "America/Los_Angeles"
    assert WallClock.of(made).sentence.endswith("as chosen; the log names no time zone.")
    assert made.tasks is not None
    assert made.tasks.instances.tolist() == [2, 1, 1]
    assert made.tasks.mgpu.tolist() == [8000, 1000, 0]
    assert made.tasks.gang.tolist() == [1, 0, 0]
    assert made.tasks.texts["queue"] == ("a", "b", "a")
    assert note(made, "never_ran") == "1 jobs never ran (run time 0); dropped."
    assert note(made, "unsorted").startswith("submit times step back 1 times")


def test_jobs_are_split_into_equal_tasks() -> None:
    gpus = np.array([0, 1, 8, 9, 12, 11, 32, 128])
    instances, of_each = machines_for(gpus, 8)
    assert instances.tolist() == [1, 1, 1, 3, 2, 11, 4, 16]
    assert (instances * of_each).tolist() == gpus.tolist()


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    text = PHILLY.replace("\n", "\n\n").replace("100,16", "soon,16")
    with pytest.raises(TraceError, match="line 5: duration is 'soon'"):
        read_philly(written(tmp_path, text))


def test_columns_of_other_names(tmp_path: Path) -> None:
    text = PHILLY.replace("num_gpus", "gpus").replace("cluster", "vc")
    made = read_philly(written(tmp_path, text), columns={"gpus": "gpus", "queue": "vc"})
    assert made.queue.tolist() == [0, 1, 0]
    without = read_philly(written(tmp_path, text), columns={"gpus": "gpus"})
    assert (without.queue == -1).all()


def test_an_openb_table(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv.gz"
    path.write_bytes(gzip.compress(OPENB.encode()))
    made = read_openb(path)
    assert made.name == "pods"
    assert made.submit_s.tolist() == [0, 20]
    assert made.runtime_s.tolist() == [250, 1]
    assert made.logged_wait_s.tolist() == [50, 0]
    assert made.procs.tolist() == [12, 1]
    assert made.tasks is not None
    assert made.tasks.mcpu.tolist() == [12000, 500]
    assert made.tasks.mem_bytes.tolist() == [2**34, 2**30]
    assert made.tasks.mgpu.tolist() == [460, 0]
    assert made.tasks.texts["name"] == ("p0", "p1")
    assert note(made, "pending") == "1 pods were never scheduled; dropped."
    kept = read_openb(path, pending="keep")
    assert kept.runtime_s.tolist() == [250, 1, 60]
    assert kept.tasks is not None
    assert kept.tasks.mgpu.tolist() == [460, 0, 8000]
    (term,) = kept.tasks.affinities[kept.tasks.demand[2]]
    assert (term.key, term.values) == (GPU_MODEL, ("V100M16", "V100M32"))
    assert kept.tasks.demand.tolist() == [-1, -1, 0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("66.5,1,", "soon,1,", "line 2: duration is 'soon'; allowed are finite numbers from 0"),
        ("66.5,1,", "66.5,1.5,", "line 2: num_gpus is '1.5'; allowed are whole numbers"),
        ("66.5,1,", "66.5,-1,", "line 2: num_gpus is '-1'"),
        ("66.5,1,", "nan,1,", "line 2: duration is 'nan'"),
        ("66.5,1,", "66.5,1_0,", "line 2: num_gpus is '1_0'"),
        ("66.5,1,", "66.5,1000000,", "at most 100,000 GPUs"),
        ("2017-10-09 07:00:10", "9 Oct", "line 2: timestamp is '9 Oct'; allowed are dates"),
        ("66.5,b", "66.5", "line 2: 4 fields where the header has 5"),
        ("num_gpus", "GPUs", "there is no column 'num_gpus' (gpus); its columns are timestamp"),
        ("gpu_time", "duration", "the header needs different names"),
        ("66.5,1", '"66.5,1', "it is not CSV"),
        ("\n", "\r", "line 1: it is not CSV"),  # a line end of old Macs
    ],
)
def test_bad_rows_are_refused_in_words(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        read_philly(written(tmp_path, PHILLY.replace(old, new, 1)))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("100,400,150", "100,400,90", "line 2: scheduled_time is '90'; the pod was created later"),
        ("100,400,150", "100,140,150", "line 2: deletion_time is '140'; the pod was scheduled"),
        ("1,460", "1,1460", "line 2: gpu_milli is '1460'; allowed are thousandths"),
        ("8,1000", "8,500", "line 4: gpu_milli is '500'"),
        ("1,460", "1,0", "line 2: gpu_milli is '0'"),
        ("12000,", ",", "line 2: cpu_milli is ''"),
    ],
)
def test_bad_pods_are_refused_in_words(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        read_openb(written(tmp_path, OPENB.replace(old, new, 1)))
    assert said in str(refused.value)


def test_what_is_no_table_at_all(tmp_path: Path) -> None:
    for text, said in (("", "no rows below"), ("a,b\n", "no rows below"), ("a\n\xff", "timestamp")):
        with pytest.raises(TraceError, match=said):
            read_philly(written(tmp_path, text))
    path = tmp_path / "latin.csv"
    path.write_bytes(b"a,b\n\xff,1\n")
    with pytest.raises(TraceError, match="not UTF-8"):
        read_philly(path)
    with pytest.raises(TraceError, match="time zone 'Mars' is unknown"):
        read_philly(written(tmp_path, PHILLY), time_zone="Mars")
    with pytest.raises(TraceError, match="no column is needed for 'gpu'"):
        read_philly(written(tmp_path, PHILLY), columns={"gpu": "x"})
    with pytest.raises(TraceError, match="there is no such file"):
        read_openb(tmp_path / "none.csv")


@pytest.mark.slow
def test_the_real_tables(shared_data: Path) -> None:
    jobs = read_philly(shared_data / "philly" / "philly.csv.gz")
    assert jobs.n_jobs == 82247
    assert jobs.tasks is not None
    assert int((jobs.tasks.instances * jobs.tasks.mgpu).sum()) == int(jobs.procs.sum()) * 1000
    pods = read_openb(shared_data / "openb" / "openb_pod_list_default.csv.gz")
    assert pods.n_jobs == 7255
    kept = read_openb(shared_data / "openb" / "openb_pod_list_default.csv.gz", pending="keep")
    assert kept.n_jobs == 8152
