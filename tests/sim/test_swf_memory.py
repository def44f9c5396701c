"""Requested memory in the Standard Workload Format: field 10, kilobytes per processor."""

from pathlib import Path

import numpy as np
import pytest

from sim import Workload, load_workload
from sim.api import ReadingRules
from sim.formats import write_swf
from sim.model.errors import TraceError


def log(folder: Path, *memory: object) -> Path:
    path = folder / "few.swf"
    rows = [f"{i} {i} -1 10 4 -1 -1 4 20 {m} 1 7 8 -1 1 2 -1 -1" for i, m in enumerate(memory)]
    path.write_text("; MaxProcs: 64\n" + "\n".join(rows) + "\n")
    return path


def test_kilobytes_become_bytes_and_unknown_stays_unknown(tmp_path: Path) -> None:
    workload = load_workload(log(tmp_path, 2, -1, 0, 0.5))
    assert workload.mem_bytes_per_proc.tolist() == [2048, -1, 0, 512]


def test_a_log_without_memory_has_the_digest_that_it_always_had(tmp_path: Path) -> None:
    digest = load_workload(log(tmp_path, -1, -1)).digest
    assert digest[:16] == "241c4b0a6642e6d4"
    known = load_workload(log(tmp_path, -1, 1))
    assert known.digest != digest


def test_memory_survives_the_round_trip(tmp_path: Path) -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2, 3],
        runtime_s=[1, 1, 1, 1],
        requested_s=[2, 2, 2, 2],
        procs=[1, 1, 1, 1],
        mem_bytes_per_proc=[-1, 0, 1, 2**40 + 3],
    )
    path = tmp_path / "again.swf"
    write_swf(workload, path)
    assert load_workload(path) == workload


def test_too_much_memory_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"line 3: requested memory is '1e14'; allowed are kilo"):
        load_workload(log(tmp_path, 1, "1e14"))


def test_a_log_that_seems_to_count_bytes_gets_a_note(shared_data: Path) -> None:
    rules = ReadingRules(
        negative="unknown", extra_columns="drop", requested_time="field_6", unsorted="sort"
    )
    workload = load_workload(shared_data / "swf" / "wagap-2013.swf.gz", rules=rules)
    (note,) = [note for note in workload.notes if note.rule == "requested_memory"]
    assert "this log may count bytes" in note.sentence
    assert note.n_rows == workload.n_jobs
    alea = load_workload(shared_data / "swf" / "alea-hpc2n-subset.swf.gz")
    assert np.flatnonzero(alea.mem_bytes_per_proc >= 0).size > 0
    assert not [note for note in alea.notes if note.rule == "requested_memory"]
