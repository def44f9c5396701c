"""The SWF reader: every rule, every refusal, every real log."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Workload, load_workload
from sim.api import ReadingRules
from sim.errors import TraceError, UnknownNameError, WorkloadError
from sim.traces.rules import rule_choices, rules_from_texts
from sim.traces.swf import read_swf, write_swf
from tests.draw.workloads import workloads

HEADER = "; Version: 2.2\n;\tMaxProcs:  64\n;   UnixStartTime: 1000\n; Note: a\n; Note: b\n"


def row(
    job: object = 1, submit: object = 0, run: object = 10, alloc: object = 4, procs: object = 4,
    asked: object = 20, status: object = 1, wait: object = 5,
) -> str:  # fmt: skip
    return (
        f"{job} {submit} {wait} {run} {alloc} -1 -1 {procs} {asked} -1 {status} 7 8 -1 1 2 -1 -1\n"
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
        read_swf(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_steps_back_in_time_are_refused_then_sorted(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1, 50), row(2, 40), row(3, 60))
    with pytest.raises(TraceError) as caught:
        read_swf(path)
    assert str(caught.value) == (
        f"{path}, line 7: submit time is '40'; the line before has 50, and submit times must not "
        "step back (they do 1 times); sort them with unsorted='sort'."
    )
    workload = read_swf(path, ReadingRules(unsorted="sort"))
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


def test_extra_columns(log) -> None:  # type: ignore[no-untyped-def]
    rows = [row(1), row(2).replace("\n", " {1,1} q_2w 1:ppn=2\n")]
    workload = read_swf(log(*rows), ReadingRules(extra_columns="drop"))
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


def test_jobs_wider_than_the_machine(log) -> None:  # type: ignore[no-untyped-def]
    path = log(row(1), row(2, procs=65))
    assert noted(read_swf(path)) == {"procs": 1, "wider_than_machine": 1}
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
    assert refused("empty.swf", b"").startswith(": there is no job in it")
    assert refused("header.swf", HEADER.encode()).startswith(": there is no job in it")
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


@given(workloads(), st.booleans())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload, small: bool
) -> None:
    path = tmp_path_factory.mktemp("round") / ("one.swf.gz" if small else "one.swf")
    positive = Workload.from_arrays(
        submit_s=workload.submit_s,
        runtime_s=workload.runtime_s,
        requested_s=np.maximum(workload.requested_s, 0.1),
        procs=workload.procs,
        job_id=workload.job_id,
        user=workload.procs,
        max_procs=99,
        start_unix_s=12.0,
    )
    write_swf(positive, path)
    back = read_swf(path, ReadingRules(never_ran="keep_zero"))
    assert back == positive
    assert (back.max_procs, back.start_unix_s) == (99, 12.0)


def test_clairvoyant_requests_are_flagged_again_after_a_round_trip(tmp_path: Path) -> None:
    workload = Workload.from_arrays(submit_s=[0, 1], runtime_s=[3, 4], procs=[1, 1])
    write_swf(workload, tmp_path / "c.swf")
    back = read_swf(tmp_path / "c.swf")
    assert back == workload
    assert back.requested_is_runtime


SORT, WAGAP = ReadingRules(unsorted="sort"), ReadingRules(extra_columns="drop", negative="unknown")
NODES = ReadingRules(machine_size="max_nodes")
PLAIN = ReadingRules()
REAL = {
    "CEA-Curie-2011-2.1-cln": (PLAIN, 295540, 93312, {"never_ran": 17286, "procs": 19904}),
    "LLNL-Atlas-2006-2.1-cln": (PLAIN, 36600, 9216, {"never_ran": 7178, "procs": 19}),
    "NASA-iPSC-1993-3.1-cln": (PLAIN, 18066, 128, {"never_ran": 173}),
    "UniLu-Gaia-2014-1": (PLAIN, 51859, 2004, {"requested_below_runtime": 1500}),
    "alea-hpc2n-subset": (PLAIN, 3145, 240, {"never_ran": 25, "procs": 213}),
    "lublin_256": (NODES, 10000, 256, {"requested_missing": 10000, "machine_size": 1}),
    "theta_2022": (PLAIN, 23911, 4360, {"requested_below_runtime": 6264}),
    "theta_2023": (SORT, 8401, 4360, {"unsorted": 2726, "wider_than_machine": 8}),
    "wagap-2013": (WAGAP, 17898, None, {"extra_columns": 17900, "negative": 2, "never_ran": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_logs(shared_data: Path, name: str) -> None:
    rules, n_jobs, max_procs, counts = REAL[name]
    workload = load_workload(shared_data / "swf" / f"{name}.swf.gz", rules=rules)
    assert (workload.n_jobs, workload.max_procs) == (n_jobs, max_procs)
    assert workload.submit_s[0] == 0.0
    assert counts.items() <= noted(workload).items()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("theta_2023", "line 9: submit time is '1693590951'; the line before has 1693606566"),
        ("wagap-2013", "line 1: 21 fields where SWF has 18"),
    ],
)
def test_real_logs_that_need_a_rule(shared_data: Path, name: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        load_workload(shared_data / "swf" / f"{name}.swf.gz")
    assert sentence in str(caught.value)


def test_a_year_of_theta_starts_in_2022(shared_data: Path) -> None:
    workload = load_workload(shared_data / "swf" / "theta_2022.swf.gz", first=10)
    assert workload.start_unix_s == 1641021254.0
