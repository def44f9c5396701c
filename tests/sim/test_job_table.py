"""Tables of jobs whose columns are named by the user, worked by hand."""

from pathlib import Path

import pytest

from sim.api import ReadingRules
from sim.formats import read_job_table
from sim.model.errors import TraceError

LSF = """\
JOBID;USER;STAT;QUEUE;SUBMIT_TIME;START_TIME;FINISH_TIME;SLOTS;RUNTIMELIMIT;MEM;NAME
101;ann;DONE;short;2024-03-01T10:00:00;2024-03-01T10:00:30;2024-03-01T10:10:30;8;3600;16 G;a,b
102[1];bob;EXIT;long;2024-03-01T10:01:00;2024-03-01T10:06:00;2024-03-01T11:06:00;4;02:00:00;-;c
103;bob;PEND;long;2024-03-01T10:02:00;-;-;4;02:00:00;-;d
104;bob;RUN;long;2024-03-01T10:02:00;2024-03-01T10:07:00;-;4;02:00:00;-;e
"""
COLUMNS = {
    "job": "JOBID", "user": "USER", "state": "STAT", "queue": "QUEUE", "submit": "SUBMIT_TIME",
    "start": "START_TIME", "end": "FINISH_TIME", "procs": "SLOTS", "requested": "RUNTIMELIMIT",
    "memory": "MEM",
}  # fmt: skip


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.txt"
    path.write_text(text)
    return path


def test_columns_are_those_that_are_named(tmp_path: Path) -> None:
    workload = read_job_table(written(tmp_path, LSF), COLUMNS, ReadingRules(time_zone="UTC"))
    assert workload.job_id.tolist() == [101, 105]
    assert workload.start_unix_s == 1_709_287_200
    assert workload.submit_s.tolist() == [0, 60]
    assert workload.logged_wait_s.tolist() == [30, 300]
    assert workload.runtime_s.tolist() == [600, 3600]
    assert workload.requested_s.tolist() == [3600, 7200]
    assert workload.procs.tolist() == [8, 4]
    assert workload.status.tolist() == [1, 0]
    assert workload.user.tolist() == [0, 1]
    assert workload.mem_bytes_per_proc.tolist() == [2 * 2**30, -1]
    counts = {note.rule: note.n_rows for note in workload.notes}
    assert (counts["never_ran"], counts["running"]) == (1, 1)


@pytest.mark.parametrize("separator", [",", "\t", "|"])
def test_quantities_have_the_columns_of_their_names(tmp_path: Path, separator: str) -> None:
    rows = ("submit,start,runtime,procs", "100,110,0:01:30,2", "50,50,12.5,1")
    text = "\n".join(row.replace(",", separator) for row in rows) + "\n"
    workload = read_job_table(written(tmp_path, text))
    assert workload.start_unix_s == 50
    assert workload.submit_s.tolist() == [0, 50]
    assert workload.runtime_s.tolist() == [12.5, 90]
    assert workload.requested_is_runtime
    assert workload.job_id.tolist() == [2, 1]  # by their place in the table


@pytest.mark.parametrize(("change", "columns", "words"), [
    (("", ""), {**COLUMNS, "submit": "WHEN"}, "line 1: there is no column 'WHEN' for submit; the"),
    (("", ""), {**COLUMNS, "size": "SLOTS"}, "no column is needed for 'size'"),
    (("", ""), {}, "no column for submit (when it was submitted) or eligible"),
    (("10:00:30", "soon"), COLUMNS, "line 2: START_TIME is '2024-03-01Tsoon'; allowed are times"),
    ((";8;", ";eight;"), COLUMNS, "line 2: SLOTS is 'eight'; allowed are whole numbers"),
    (("02:00:00", "2 h"), COLUMNS, "line 3: RUNTIMELIMIT is '2 h'; allowed are seconds"),
    (("16 G", "16 houses"), COLUMNS, "line 2: MEM is '16 houses'; allowed are bytes"),
])  # fmt: skip
def test_what_is_wrong_is_said(
    tmp_path: Path, change: tuple[str, str], columns: dict[str, str], words: str
) -> None:
    path = written(tmp_path, LSF.replace(*change) if change[0] else LSF)
    with pytest.raises(TraceError) as error:
        read_job_table(path, columns)
    assert words in str(error.value)
