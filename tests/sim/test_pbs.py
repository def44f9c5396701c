"""Accounting files of PBS Professional and of Torque, worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from sim import Workload
from sim.api import ReadingRules, load_workload
from sim.formats.registry import format_of
from sim.model.errors import TraceError

PRO = """\
04/01/2024 00:00:00;L;license;floating license hour:0 day:0 month:0 max:0
04/01/2024 00:00:00;Q;11.head;queue=workq
04/01/2024 00:00:40;S;11.head;user=ann group=x account="proj a" queue=workq ctime=1711929600 \
qtime=1711929600 etime=1711929600 start=1711929640 exec_host=n1/0*8+n2/0*8
04/01/2024 00:10:40;E;11.head;user=ann group=x account="proj a" project=_pbs_project_default \
jobname=a=b queue=workq ctime=1711929600 qtime=1711929600 etime=1711929600 start=1711929640 \
exec_host=n1/0*8+n2/0*8 exec_vnode=(n1:ncpus=8:mem=4gb)+(n2:ncpus=8:mem=4gb) \
Resource_List.mem=8gb Resource_List.ncpus=12 Resource_List.ngpus=2 Resource_List.walltime=01:00:00 \
session=7 end=1711930240 Exit_status=0 resources_used.walltime=00:09:58 run_count=1
04/01/2024 00:20:00;E;12[3].head;user=bob group=y queue=long ctime=1711929700 etime=1711930000 \
start=1711930100 end=1711930800 exec_host=n1/0*4 Resource_List.ncpus=4 Exit_status=271
04/01/2024 00:20:01;E;12[].head;user=bob group=y queue=long ctime=1711929700 etime=1711930000
04/01/2024 00:30:00;S;13.head;user=bob group=y queue=long ctime=1711929800 etime=1711929800 \
start=1711931400 exec_host=n2/0*4 Resource_List.ncpus=4
04/01/2024 00:30:00;Q;14.head;queue=long
04/01/2024 00:31:00;D;14.head;requestor=bob@head
"""
TORQUE = """\
08/26/2014 17:08:04;E;923.napali;user=dan group=c jobname=x queue=batch ctime=1409094464 \
qtime=1409094464 etime=1409094464 start=1409094470 exec_host=napali/0-5,8+other/0+other/1 \
Resource_List.nodes=2:ppn=6 Resource_List.walltime=5400 Resource_List.pmem=512mb end=1409094484 \
Exit_status=1
"""
RERUN = """\
04/01/2024 00:05:00;R;5.h;user=u queue=q ctime=1711929600 etime=1711929600 start=1711929610 \
end=1711929900 exec_host=n/0*2 Resource_List.ncpus=2
04/01/2024 00:20:00;E;5.h;user=u queue=q ctime=1711929600 etime=1711929600 start=1711930000 \
end=1711930800 exec_host=n/0*2 Resource_List.ncpus=2 Exit_status=0 run_count=2
"""


def read(folder: Path, text: str, **rules: str) -> Workload:
    path = folder / "20240401"
    path.write_text(text)
    assert format_of(path).name == "pbs"
    return load_workload(path, rules=ReadingRules(**rules))  # type: ignore[arg-type]


def counts(workload: Workload) -> dict[str, int]:
    return {note.rule: note.n_rows for note in workload.notes}


def test_records_of_pbs_professional(tmp_path: Path) -> None:
    workload = read(tmp_path, PRO)
    assert workload.job_id.tolist() == [11, 15]  # a task of an array is numbered after all others
    assert workload.start_unix_s == 1_711_929_600
    assert workload.submit_s.tolist() == [0, 400]  # task 3 was held for 300 s
    assert workload.logged_wait_s.tolist() == [40, 100]
    assert workload.runtime_s.tolist() == [600, 700]
    assert workload.requested_s.tolist() == [3600, 700]  # the second has no walltime
    assert workload.procs.tolist() == [16, 4]
    assert workload.status.tolist() == [1, 5]
    assert workload.mem_bytes_per_proc.tolist() == [8 * 2**30 / 16, -1]
    found = counts(workload)
    assert (found["running"], found["never_ran"], found["slurm_cpus"]) == (1, 1, 1)
    assert (found["requested_missing"], found["wait_from"], found["gpus"]) == (1, 1, 1)
    sentences = " ".join(note.sentence for note in workload.notes)
    assert "0 long, 1 workq" in sentences


def test_rules_choose_otherwise(tmp_path: Path) -> None:
    workload = read(tmp_path, PRO, wait_from="submit", slurm_cpus="requested",
                    requested_missing="drop")  # fmt: skip
    assert (workload.procs.tolist(), workload.submit_s.tolist()) == ([12], [0])
    assert workload.max_procs == 16  # of those that ran at once: 12, and 4 that had no request


def test_records_of_torque(tmp_path: Path) -> None:
    workload = read(tmp_path, TORQUE)
    assert workload.procs.tolist() == [9]
    assert workload.requested_s.tolist() == [5400]
    assert workload.runtime_s.tolist() == [14]
    assert workload.status.tolist() == [0]
    expected = 512 * 2**20 * 12 / 9  # of the 12 processors that were requested
    np.testing.assert_allclose(workload.mem_bytes_per_proc, expected, rtol=1e-8)


def test_each_execution_of_a_rerun_job_is_a_job(tmp_path: Path) -> None:
    workload = read(tmp_path, RERUN)
    assert workload.logged_wait_s.tolist() == [10, 100]
    assert workload.runtime_s.tolist() == [290, 800]
    assert counts(workload)["requeues"] == 1
    assert read(tmp_path, RERUN, requeues="last").runtime_s.tolist() == [800]


def test_a_few_lines_that_are_no_records_are_left_out_and_counted(tmp_path: Path) -> None:
    workload = read(tmp_path, TORQUE * 12 + "what is this?\n")
    assert (workload.n_jobs, counts(workload)["broken"]) == (1, 1)
    (sentence,) = [note.sentence for note in workload.notes if note.rule == "broken"]
    assert "1 row unlike those of PBS" in sentence
    assert "line 13" in sentence


@pytest.mark.parametrize(("text", "words"), [
    (PRO.replace("start=1711929640", "start=soon"), "line 3: start is 'soon'; it is seconds"),
    (TORQUE + "and\nmany\nothers\n", "line 2: record is 'and'; it is MM/DD/YYYY"),
    (PRO.partition("\n")[0] + "\n", "no records of jobs"),
    (TORQUE.replace("end=1409094484", ""), "none of its 1 rows is a job that ran"),
])  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError) as error:
        read(tmp_path, text)
    assert words in str(error.value)
