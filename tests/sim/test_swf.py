"""The SWF reader: every rule, every refusal, every real log."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from sim import Workload, load_workload
from sim.api import ReadingRules
from sim.formats.swf import read_swf, rule_choices, rules_from_texts
from sim.model.errors import TraceError, UnknownNameError, WorkloadError

HEADER = "; Version: 2.2\n;\tMaxProcs:  64\n;   UnixStartTime: 1000\n; Note: a\n; Note: b\n"


STRICT = ReadingRules(unsorted="refuse", negative="refuse", extra_columns="refuse")


def row(
    job: object = 1, submit: object = 0, run: object = 10, alloc: object = 4, procs: object = 4,
    asked: object = 20, status: object = 1, wait: object = 5, cpu: object = -1,
) -> str:  # fmt: skip
    return (
        f"{job} {submit} {wait} {run} {alloc} {cpu} -1 {procs} {asked} -1 {status} 7 8 -1 1 2 -1 "
        "-1\n"
    )


@pytest.fixture
def log(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "few.swf"
        path.write_text(header + "".join(rows))
        return path

    return write


def noted(workload: Workload) -> dict[str, int]:
    return {note.rule: note.n_rows for note in workload.notes}


def test_a_clean_log(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(3, 100), "\n", row(4, 130.5, wait=-1), "; a remark\n"))
    assert workload.submit_s.tolist() == [0.0, 30.5]
    assert workload.job_id.tolist() == [3, 4]
    assert (workload.max_procs, workload.start_unix_s) == (64, 1100.0)
    assert workload.logged_wait_s[0] == 5.0
    assert np.isnan(workload.logged_wait_s[1])
    assert [c[0] for c in (workload.user, workload.group, workload.queue, workload.partition)] == [
        7,
        8,
        1,
        2,
    ]
    assert workload.name == "few"
    assert workload.notes == ()
    assert not workload.requested_is_runtime


@pytest.mark.parametrize(
    ("bad", "line", "parts"),
    [
        (row(run="nan"), 7, ["run time is 'nan'; allowed are finite numbers, and -1 for unknown."]),
        (row(2, run="x1"), 7, ["run time is 'x1'"]),
        (row(2, run="1_0"), 7, ["run time is '1_0'"]),
        (row(2, run="inf"), 7, ["run time is 'inf'"]),
        (row(2, run=-7), 7, ["run time is '-7'", "negative='unknown'"]),
        (row(2, run=-0.5), 7, ["run time is '-0.5'"]),
        (row(2, asked="1e300"), 7, ["requested time is '1e300'", "up to 2**53"]),
        (row(2, procs=1.5), 7, ["requested processors is '1.5'; allowed are whole numbers"]),
        (row(2, submit=-1), 7, ["submit time is '-1'; a job needs a submit time"]),
        (row(2).replace(" -1\n", "\n"), 7, ["17 fields where SWF has 18; complete the line"]),
        (row(2).replace("\n", " 9\n"), 7, ["19 fields where SWF has 18", "extra_columns='drop'"]),
        (row(1), 7, ["job number is '1'; job numbers must be known", "duplicate_ids='renumber'"]),
        (row(-1), 7, ["job number is '-1'"]),
        (row(2, alloc=0, procs=-1), 7, ["requested processors is '-1'", "procs_missing='drop'"]),
        ("2 3\n", 7, ["2 fields where SWF has 18"]),
    ],
)  # fmt: skip
def test_bad_rows_are_named(log, bad: str, line: int, parts: list[str]) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), bad, row(3, 9))
    with pytest.raises(TraceError) as caught:
        read_swf(path, STRICT)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_steps_back_in_time_are_sorted_or_refused(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1, 50), row(2, 40), row(3, 60))
    with pytest.raises(TraceError) as caught:
        read_swf(path, STRICT)
    assert str(caught.value) == (
        f"{path}, line 7: submit time is '40'; the line before has 50, and submit times must not "
        "step back (they do 1 times); sort them with unsorted='sort'."
    )
    workload = read_swf(path)
    assert workload.job_id.tolist() == [2, 1, 3]
    assert noted(workload) == {"unsorted": 1}


def test_jobs_that_never_ran(log) -> None:  # type: ignore[no-untyped-def]
    path = log(
        row(1),
        row(2, run=0),
        row(3, run=-1),
        row(4, run=0, alloc=-1, procs=-1),
        row(5, 3, status=5),
    )
    dropped = read_swf(path)
    assert dropped.job_id.tolist() == [1, 5]
    assert noted(dropped) == {"never_ran": 3}
    kept = read_swf(path, ReadingRules(never_ran="keep_zero"))
    assert kept.job_id.tolist() == [1, 2, 5]
    assert noted(kept) == {"never_ran": 2}
    with pytest.raises(TraceError, match="line 7: run time is '0'; this job never ran"):
        read_swf(path, ReadingRules(never_ran="refuse"))
    assert load_workload(path, first=2).job_id.tolist() == [1, 5]
    with pytest.raises(WorkloadError, match="head of 0 jobs"):
        load_workload(path, first=0)


def test_the_clock_starts_with_the_first_job_that_ran(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1, 10, run=-1), row(2, 25), row(3, 30)))
    assert workload.submit_s.tolist() == [0.0, 5.0]
    assert workload.start_unix_s == 1025.0


def test_missing_requests(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1, run=33, asked=-1), row(2, asked=0), row(3))
    workload = read_swf(path)
    assert workload.requested_s.tolist() == [33.0, 10.0, 20.0]
    assert workload.requested_is_runtime
    assert noted(workload) == {"requested_missing": 2}
    dropped = read_swf(path, ReadingRules(requested_missing="drop"))
    assert dropped.job_id.tolist() == [3]
    assert not dropped.requested_is_runtime
    with pytest.raises(TraceError, match="line 6: requested time is '-1'; there is no requested"):
        read_swf(path, ReadingRules(requested_missing="refuse"))


def test_which_processors_count(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1, alloc=8, procs=4), row(2, alloc=8, procs=-1), row(3, alloc=-1, procs=4))
    first = read_swf(path)
    assert first.procs.tolist() == [4, 8, 4]
    assert noted(first) == {"procs": 1}
    second = read_swf(path, ReadingRules(procs="allocated_else_requested"))
    assert second.procs.tolist() == [8, 8, 4]


def test_processors_missing(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), row(2, alloc=-1, procs=0))
    workload = read_swf(path, ReadingRules(procs_missing="drop"))
    assert workload.job_id.tolist() == [1]
    assert noted(workload) == {"procs_missing": 1}


def test_negative_numbers_as_unknown(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1), row(2, run=-99)), ReadingRules(negative="unknown"))
    assert workload.job_id.tolist() == [1]
    assert noted(workload) == {"negative": 1, "never_ran": 1}


def test_repeated_job_numbers(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(5), row(5), row(-1))
    workload = read_swf(path, ReadingRules(duplicate_ids="renumber"))
    assert workload.job_id.tolist() == [1, 2, 3]
    assert noted(workload) == {"duplicate_ids": 2}


def swapped() -> tuple[str, ...]:
    """SWF 2.2: a summary line, then the parts, of which only the first has a submit time."""
    parts = (row(7, 0, 10, status=2), row(7, -1, 15, status=2), row(7, -1, 5, status=3))
    return row(1, 0), row(7, 0, 30), *parts, row(8, 9), row(9, 9, status=4)


def test_partial_executions_are_refused_with_two_ways_out(log) -> None:  # type: ignore[no-untyped-def]
    path = log(*swapped())
    with pytest.raises(TraceError) as caught:
        read_swf(path)
    assert str(caught.value) == (
        f"{path}, line 8: status is '2'; this is a partial execution (status 2 to 4; there are 4 "
        "such rows, and 3 of them belong to jobs with a summary line); drop them with "
        "partial_executions='drop', or keep them as separate jobs with partial_executions='keep'."
    )


def test_summary_lines_alone(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(*swapped()), ReadingRules(partial_executions="drop"))
    assert workload.job_id.tolist() == [1, 7, 8]
    assert workload.runtime_s.tolist() == [10.0, 30.0, 10.0]
    (note,) = (n for n in workload.notes if n.rule == "partial_executions")
    assert note.n_rows == 4
    assert note.sentence == (
        "4 rows are partial executions (status 2 to 4); 3 of them belong to jobs with a summary "
        "line; all were dropped."
    )
    both = ReadingRules(partial_executions="drop", duplicate_ids="renumber")
    # No job number is repeated once the parts are gone, so none is changed.
    assert read_swf(log(*swapped()), both).job_id.tolist() == [1, 7, 8]
    repeated = read_swf(log(*swapped(), row(8, 9)), both)
    assert repeated.job_id.tolist() == [1, 2, 3, 4]
    assert noted(repeated)["duplicate_ids"] == 1
    with pytest.raises(TraceError, match="line 13: job number is '8'; job numbers must be known"):
        read_swf(log(*swapped(), row(8, 9)), ReadingRules(partial_executions="drop"))


def test_parts_as_jobs_of_their_own(log) -> None:  # type: ignore[no-untyped-def]
    parts = (row(7, 0, 10, status=2), row(7, 20, 5, status=3))
    keep = ReadingRules(partial_executions="keep")
    with pytest.raises(TraceError, match="line 7: job number is '7'; job numbers must be known"):
        read_swf(log(*parts), keep)
    both = ReadingRules(partial_executions="keep", duplicate_ids="renumber")
    workload = read_swf(log(*parts, row(9, 30, status=4)), both)
    assert (workload.job_id.tolist(), workload.status.tolist()) == ([1, 2, 3], [2, 3, 4])
    assert noted(workload) == {"partial_executions": 3, "duplicate_ids": 1}
    assert "kept as separate jobs" in workload.notes[0].sentence


def test_parts_that_never_ran_are_left_to_that_rule(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), row(2, run=-1, status=2), row(3, run=0, status=4))
    workload = read_swf(path)
    assert workload.job_id.tolist() == [1]
    assert noted(workload) == {"partial_executions": 2, "never_ran": 2}
    with pytest.raises(TraceError, match="line 8: status is '4'; this is a partial execution"):
        read_swf(path, ReadingRules(never_ran="keep_zero"))  # it may have run for half a second


def test_a_log_of_nothing_but_parts(log) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TraceError, match="all of its 1 rows are partial executions"):
        read_swf(log(row(1, status=2)), ReadingRules(partial_executions="drop"))


def test_requests_in_field_6(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1, asked=-1, cpu=1800), row(2, asked=-1, cpu=3600), row(3, asked=-1, cpu=60))
    workload = read_swf(path)
    assert workload.requested_s.tolist() == [10.0, 10.0, 10.0]
    assert noted(workload) == {"requested_time": 3, "requested_missing": 3}
    assert workload.notes[0].sentence == (
        "no row has a requested time in field 9, and field 6 looks like one; read it with "
        "requested_time='field_6'."
    )
    found = read_swf(path, ReadingRules(requested_time="field_6"))
    assert found.requested_s.tolist() == [1800.0, 3600.0, 60.0]
    assert not found.requested_is_runtime
    assert noted(found) == {"requested_time": 3}
    assert found.notes[0].sentence == "3 jobs: the requested time was taken from field 6."
    for choice in ("refuse", "drop"):
        with pytest.raises(TraceError, match="field 6 looks like one; read it with requested_time"):
            read_swf(path, ReadingRules(requested_missing=choice))


def test_requests_that_are_not_in_the_chosen_field_are_said_to_be_in_the_other(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), row(2), row(3, asked=-1), row(4, cpu=60))
    found = read_swf(path, ReadingRules(requested_time="field_6"))
    assert found.requested_s.tolist() == [10.0, 10.0, 10.0, 60.0]
    (note,) = [note for note in found.notes if note.rule == "requested_missing"]
    assert note.sentence == (
        "3 jobs: no requested time in field 6; the run time replaces it (clairvoyant), though 2 of "
        "them have a requested time in field 9: read it with requested_time='field_9'."
    )


def sites(log, wait: int, widest: int, other: int = 20, n_times: int = 50):  # type: ignore[no-untyped-def]
    """Two partitions, with one job each of `widest` and `other` of 64 processors, many times."""
    rows = []
    for n in range(n_times):
        rows.append(row(2 * n + 1, submit=100 * n, wait=0, alloc=widest, procs=widest))
        second = row(2 * n + 2, submit=100 * n, wait=wait, alloc=other, procs=other)
        rows.append(second.replace(" 1 2 -1 -1", " 1 3 -1 -1"))
    return read_swf(log(*rows))


def test_a_log_that_is_the_sum_of_several_machines_is_warned_of(log) -> None:  # type: ignore[no-untyped-def]
    (note,) = [note for note in sites(log, 0, 42).notes if note.rule == "sites"]
    assert (
        "2 partitions, none of which ever used more than 42 of the 64 processors" in note.sentence
    )
    assert "sites" not in noted(sites(log, 0, 43))  # more than two thirds: a main partition
    assert "sites" not in noted(sites(log, 20, 42, 42))  # 42 and then 42 of 64: shared
    assert "sites" not in noted(sites(log, 0, 42, n_times=49))  # too few jobs to tell
    assert "sites" not in noted(read_swf(log(*map(row, range(1, 101)))))  # one partition


@pytest.mark.parametrize(
    "rows",
    [
        (row(1, asked=20, cpu=1800), row(2, asked=-1, cpu=3600)),  # field 9 is there
        (row(1, asked=-1, run=100, cpu=99.2), row(2, asked=-1, run=70, cpu=71)),  # CPU times
        (row(1, asked=-1, run=600, cpu=60), row(2, asked=-1, run=900, cpu=120)),  # too short
        (row(1, asked=-1), row(2, asked=-1)),  # nothing in field 6, as in NASA's log
    ],
)
def test_field_6_is_not_taken_for_a_request_lightly(log, rows: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    assert "requested_time" not in noted(read_swf(log(*rows)))


def test_what_the_rules_dropped_is_said_when_nothing_is_left(log) -> None:  # type: ignore[no-untyped-def]
    rules = ReadingRules(requested_time="field_6", requested_missing="drop")
    with pytest.raises(TraceError) as caught:
        read_swf(log(row(1), row(2)), rules)
    assert str(caught.value).endswith(
        ": none of its 2 jobs is left: 2 jobs without a requested time; dropped. The requested "
        "time was read from field 6."
    )


def test_extra_columns(log) -> None:  # type: ignore[no-untyped-def]
    rows = [row(1), row(2).replace("\n", " {1,1} q_2w 1:ppn=2\n")]
    workload = read_swf(log(*rows))
    assert workload.n_jobs == 2
    assert noted(workload) == {"extra_columns": 1}


def test_machine_size(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), header="; MaxNodes: 16\n")
    workload = read_swf(path)
    assert workload.max_procs is None
    assert workload.start_unix_s is None
    assert "machine_size='max_nodes'" in workload.notes[0].sentence
    assert read_swf(path, ReadingRules(machine_size="max_nodes")).max_procs == 16


def test_unclear_header_values_are_unknown_and_said(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1), header="; MaxProcs: 64\n; MaxProcs: 128\n"))
    assert workload.max_procs is None
    assert "MaxProcs is unclear ('128', '64')" in workload.notes[0].sentence
    workload = read_swf(log(row(1), header="; MaxProcs: many\n"))
    assert "MaxProcs is unclear ('many')" in workload.notes[0].sentence


@pytest.mark.parametrize("value", ["8.5", "-5", "0", "nan", "inf", "1e300", "1_0", "-1.5"])
def test_a_header_number_that_counts_nothing_is_unclear(log, value: str) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1), header=f"; MaxProcs: {value}\n"))
    assert workload.max_procs is None
    assert noted(workload) == {"header": 1, "machine_size": 0}
    assert [note.sentence for note in workload.notes] == [
        f"the header's MaxProcs is unclear ('{value}'); taken as unknown.",
        "the header has no usable MaxProcs; the machine's size is unknown.",
    ]
    nodes = read_swf(
        log(row(1), header=f"; MaxProcs: 64\n; MaxProcs: {value}\n; MaxNodes: {value}\n"),
        ReadingRules(machine_size="max_nodes"),
    )
    assert nodes.max_procs is None
    assert noted(nodes)["machine_size"] == 0


def test_clear_header_numbers(log) -> None:  # type: ignore[no-untyped-def]
    assert read_swf(log(row(1), header="; MaxProcs: 64.0\n; MaxProcs: 64\n")).max_procs == 64
    unknown = read_swf(log(row(1), header="; MaxProcs: -1\n; UnixStartTime: -1\n"))
    assert (unknown.max_procs, unknown.start_unix_s) == (None, None)
    assert noted(unknown) == {"machine_size": 0}


def test_a_unix_start_of_0_is_unknown(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1, 5), header="; MaxProcs: 4\n; UnixStartTime: 0\n"))
    assert workload.start_unix_s is None
    assert [note.sentence for note in workload.notes] == [
        "the header's UnixStartTime is 0; taken as unknown."
    ]
    assert read_swf(log(row(1, 5), header="; UnixStartTime: -60\n")).start_unix_s is None


def test_a_unix_start_of_0_is_right_where_submit_times_are_unix_times(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1, 1641021254), header="; MaxProcs: 4\n; UnixStartTime: 0\n"))
    assert workload.start_unix_s == 1641021254.0
    assert [note.sentence for note in workload.notes] == [
        "the header's UnixStartTime is 0; submit times are Unix times."
    ]


def test_jobs_wider_than_the_machine(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), row(2, procs=65))
    assert noted(read_swf(path)) == {"procs": 1, "wider_than_machine": 1}
    assert read_swf(path).max_procs == 65
    assert read_swf(path, ReadingRules(wider_than_machine="note")).max_procs == 64
    much_wider = read_swf(log(row(1), row(2, procs=71)))
    assert (much_wider.max_procs, noted(much_wider)["wider_than_machine"]) == (64, 1)
    path = log(row(1), row(2, procs=65))
    with pytest.raises(TraceError, match=r"line 7: .* is '65'; the job is wider than the machine"):
        read_swf(path, ReadingRules(wider_than_machine="refuse"))


def test_requests_below_the_run_time_and_endless_ones_are_counted(log) -> None:  # type: ignore[no-untyped-def]
    workload = read_swf(log(row(1, run=30), row(2, asked=2**31 - 1)))
    assert workload.requested_s.tolist() == [20.0, 2.0**31 - 1]
    assert noted(workload) == {"requested_below_runtime": 1, "requested_is_long": 1}


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    def refused(name: str, data: bytes | None) -> str:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(TraceError) as caught:
            read_swf(path)
        return str(caught.value).removeprefix(str(path))

    whole = gzip.compress((HEADER + row()).encode())
    assert refused("none.swf", None) == ": there is no such file; give the path of an SWF log."
    assert refused("empty.swf", b"").startswith(": it contains no jobs")
    assert refused("header.swf", HEADER.encode()).startswith(": it contains no jobs")
    assert (
        refused("never.swf", row(run=-1).encode()) == ": none of its 1 jobs ran; nothing is left."
    )
    assert refused("cut.swf.gz", whole[:-12]).startswith(": the compressed file is broken")
    assert refused("bent.swf.gz", whole[:20] + b"zzzz" + whole[24:]).startswith(
        ": the compressed file"
    )
    assert refused("plain.swf.gz", row().encode()).startswith(
        ": the name ends in .gz but this is not"
    )
    assert refused("binary.swf", b"\x7fELF\0\0\0") == ": this is a binary file; an SWF log is text."
    assert refused("latin.swf", b"; Caf\xe9\n" + row().encode()).startswith(
        ", line 1: this line is not"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    assert refused("folder", None).startswith(": this is a folder")


def test_other_encodings_line_ends_and_compression(tmp_path: Path) -> None:
    path = tmp_path / "latin.swf"
    path.write_bytes(b"; Computer: Caf\xe9\r\n" + row().replace("\n", "\r\n").encode())
    assert read_swf(path, ReadingRules(encoding="latin-1")).n_jobs == 1
    path.write_bytes(gzip.compress(("\ufeff" + HEADER + row()).encode()))
    assert read_swf(path).max_procs == 64


def test_rules_from_texts() -> None:
    assert rules_from_texts({"unsorted": "sort"}) == ReadingRules(unsorted="sort")
    with pytest.raises(
        UnknownNameError, match="no reading rule 'unsortd'; did you mean 'unsorted'"
    ):
        rules_from_texts({"unsortd": "sort"})
    with pytest.raises(
        UnknownNameError, match="no choice for rule 'unsorted' 'sorted'; did you mean"
    ):
        rules_from_texts({"unsorted": "sorted"})
    assert rule_choices()["never_ran"] == ("drop", "keep_zero", "refuse")
