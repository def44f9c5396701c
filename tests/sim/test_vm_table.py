"""Tables of virtual machines: users, censoring, other columns, and refusals in words."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from sim.formats.vm_trace import read_vm_table
from sim.model.cloud_trace import PAPER
from sim.model.errors import TraceError, WorkloadError

HEADER = "instance_sn,app_name,cpu_request,gpu_request,memory_request,creation_time,deletion_time\n"
ROWS = (
    "i0,app_1,4,1,16.5,,500\n"  # there before the table began
    "i1,app_1,4,1,16.5,700,900\n"
    "i2,app_0,8,0,32,100,\n"  # never deleted
    "i3,app_1,4,1,16.5,100,400\n"
    "i4,app_1,4,1,16.5,200,200\n"
)


def written(folder: Path, text: str, name: str = "vms.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["vms.csv", "vms.csv.gz"])
def test_a_table_of_machines(name: str, tmp_path: Path) -> None:
    jobs = read_vm_table(written(tmp_path, HEADER + ROWS, name))
    assert jobs.begin_s.tolist() == [100, 100, 200, 700]
    assert jobs.lived_s.tolist() == [800, 300, 0, 200], "the table ends at 900"
    assert jobs.censored.tolist() == [1, 0, 0, 0]
    assert jobs.user.tolist() == [0, 1, 1, 1]
    assert [jobs.flavours[i].mcpu for i in jobs.flavour] == [8000, 4000, 4000, 4000]
    assert jobs.flavours[0].mem_bytes == int(16.5 * 2**30)
    assert jobs.name == "vms"


def test_its_batches_and_windows(tmp_path: Path) -> None:
    jobs = read_vm_table(written(tmp_path, HEADER + ROWS))
    trace, order = jobs.batches(300.0, PAPER)
    assert trace.batch.tolist() == [0, 1, 1, 2]
    assert order.tolist() == [0, 1, 2, 3]
    assert trace.censored.tolist() == [1, 0, 0, 0]
    early = jobs.window(0.0, 350.0)
    assert early.lived_s.tolist() == [250, 250, 0]
    assert early.censored.tolist() == [1, 1, 0], "what ends later is not known yet"
    with pytest.raises(WorkloadError, match="vms: no job begins from 1000 s to 2000 s"):
        jobs.window(1000.0, 2000.0)


def test_other_names_of_columns_and_another_end(tmp_path: Path) -> None:
    text = HEADER.replace("app_name", "tenant").replace("gpu_request", "x") + ROWS
    jobs = read_vm_table(
        written(tmp_path, text), columns={"user": "tenant"}, until_s=350.0, most_flavours=1
    )
    assert jobs.censored.tolist() == [1, 1, 0]
    assert jobs.lived_s.tolist() == [250, 250, 0]
    assert [one.name for one in jobs.flavours] == [
        "4 cores, 0 GPUs, 16.5 GiB",
        "others up to 8 cores",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + ROWS.replace("700,900", "700,600"), "line 3: deletion_time is '600'"),
        (HEADER + ROWS.replace("700,900", "soon,900"), "line 3: creation_time is 'soon'"),
        (HEADER.replace("app_name", "who") + ROWS, "there is no column 'app_name' (user)"),
        (HEADER + "i0,app_1,4,1,16.5,,500\n", "no row has a creation time"),
    ],
)
def test_tables_that_are_none(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        read_vm_table(written(tmp_path, text))
    assert said in str(refused.value)


def test_the_trace_of_recommendation_models(shared_data: Path) -> None:
    jobs = read_vm_table(shared_data / "dlrm" / "disaggregated_DLRM_trace.csv.gz")
    assert jobs.n_jobs == 16_591
    assert np.bincount(jobs.user).astype(bool).sum() > 100
    assert 0.2 < jobs.censored.mean() < 0.3
