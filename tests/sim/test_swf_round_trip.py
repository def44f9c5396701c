"""Workload to SWF to workload, and SWF to workload to SWF: what comes back, and what cannot."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api import ReadingRules
from sim.formats.swf import read_swf, write_swf
from sim.model.tasks import Tasks
from sim.model.workload import Workload
from tests.draw.real_logs import read

EVERYTHING = ReadingRules(never_ran="keep_zero", partial_executions="keep")
"""The rules that drop nothing of what `write_swf` writes."""

LOGS = (
    "UniLu-Gaia-2014-1", "theta_2022", "theta_2023", "LLNL-Atlas-2006-2.1-cln",
    "NASA-iPSC-1993-3.1-cln", "alea-hpc2n-subset", "CEA-Curie-2011-2.1-cln", "wagap-2013",
    "lublin_256",
)  # fmt: skip

TIMES = st.one_of(
    st.integers(0, 2**40).map(float), st.floats(0, 1e9), st.sampled_from([0.0, 0.1 + 0.2, 1e-300])
)
LABELS = st.one_of(st.just(-1), st.integers(0, 5), st.integers(0, 2**53))


@st.composite
def whole_workloads(draw: st.DrawFn) -> Workload:
    """Draw workloads with every column and every entry of the header that SWF has."""
    n_jobs = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[Any], *, unique: bool = False) -> list[Any]:
        return draw(st.lists(values, min_size=n_jobs, max_size=n_jobs, unique=unique))

    clairvoyant = draw(st.booleans())
    runtime_s = column(TIMES)
    return Workload.from_arrays(
        submit_s=column(TIMES),
        runtime_s=runtime_s,
        requested_s=None if clairvoyant else column(TIMES.filter(lambda value: value > 0)),
        logged_wait_s=column(st.one_of(st.just(float("nan")), TIMES)),
        procs=column(st.integers(1, 2**53)),
        job_id=column(st.integers(0, 2**53), unique=True),
        user=column(LABELS),
        group=column(LABELS),
        queue=column(LABELS),
        partition=column(LABELS),
        status=column(st.integers(-1, 6)),
        mem_bytes_per_proc=column(st.one_of(st.just(-1), st.integers(0, 2**53 - 1024))),
        name=draw(st.text(max_size=20)),
        max_procs=draw(st.one_of(st.none(), st.integers(1, 2**53))),
        start_unix_s=draw(st.one_of(st.none(), st.floats(0.25, 4e9))),
        time_zone=draw(st.sampled_from([None, "UTC", "Europe/Paris"])),
        unsorted="sort",
    )


def header_of(workload: Workload) -> tuple[object, ...]:
    told = (workload.max_procs, workload.start_unix_s, workload.time_zone)
    return (*told, workload.requested_is_runtime)


@settings(max_examples=25)
@given(workload=whole_workloads(), ending=st.sampled_from(["swf", "swf.gz"]))
def test_every_column_comes_back(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload, ending: str
) -> None:
    folder = tmp_path_factory.mktemp("round")
    first, second = (folder / f"{name}.{ending}" for name in ("one", "two"))
    write_swf(workload, first)
    back = read_swf(first, EVERYTHING)
    assert back == workload
    assert header_of(back) == header_of(workload)
    write_swf(replace(back, name="one"), second)
    write_swf(replace(read_swf(second, EVERYTHING), name="one"), first)
    assert first.read_bytes() == second.read_bytes(), "what we wrote, we write again"


def test_a_name_with_control_characters_leaves_the_file_readable(tmp_path: Path) -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1], name="a\0b\x1b")
    write_swf(workload, tmp_path / "a.swf")
    assert "; Note: a?b?\n" in (tmp_path / "a.swf").read_text()
    assert read_swf(tmp_path / "a.swf") == workload


def test_what_cannot_come_back(tmp_path: Path) -> None:
    """Requests of 0, some of them stand-ins, a start at the epoch, tasks, notes and the name."""
    workload = Workload.from_arrays(
        submit_s=[0, 5, 9],
        runtime_s=[1, 2, 3],
        procs=[1, 1, 1],
        requested_s=[0, 2, 30],
        requested_is_runtime=True,
        start_unix_s=0.0,
        name="a name",
        tasks=Tasks.from_arrays(job=[0, 1, 2], runtime_s=[1, 2, 3]),
    )
    write_swf(workload, tmp_path / "w.swf")
    back = read_swf(tmp_path / "w.swf")
    assert back.requested_s.tolist() == [1, 2, 30], "a request of 0 is read as none"
    assert back.requested_is_runtime, "and that is said"
    assert (back.start_unix_s, back.tasks, back.name) == (None, None, "w")
    more = replace(workload, requested_s=np.array([1.0, 2.0, 30.0]))
    write_swf(more, tmp_path / "w.swf")
    assert not read_swf(tmp_path / "w.swf").requested_is_runtime, "that some stand in is forgotten"


def raw(path: Path) -> np.ndarray:
    """Return the rows of a log by job number, read as anyone would: float64 [n, 18]."""
    told = gzip.decompress(path.read_bytes()).decode("latin-1")
    rows = [line.split()[:18] for line in told.splitlines() if line.strip() and ";" not in line]
    table = np.array(rows, dtype=np.float64)
    return table[np.argsort(table[:, 0])]


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_real_logs_come_back_and_are_written_as_they_were(
    name: str, shared_data: Path, tmp_path: Path
) -> None:
    workload = read(shared_data, name)
    path = tmp_path / f"{name}.swf.gz"
    write_swf(workload, path)
    back = read_swf(path, EVERYTHING)
    assert back == workload
    assert header_of(back)[:3] == header_of(workload)[:3]
    then, now = raw(shared_data / "swf" / f"{name}.swf.gz"), raw(path)
    then[then < 0] = -1.0
    assert set(now[:, 0]) == set(workload.job_id.tolist()) <= set(then[:, 0])
    then = then[np.searchsorted(then[:, 0], now[:, 0])]
    assert np.array_equal(now[:, 1], then[:, 1] - then[:, 1].min())
    for field in (
        0,
        2,
        3,
        9,
        10,
        11,
        12,
        14,
        15,
    ):  # what workloads keep
        assert np.array_equal(now[:, field], then[:, field]), field
    procs = np.where(then[:, 7] > 0, then[:, 7], then[:, 4])
    assert np.array_equal(now[:, 7], procs)
    assert np.array_equal(now[:, 4], procs)
    asked = np.where(then[:, 8] > 0, then[:, 8], then[:, 3])
    if (asked == then[:, 3]).all():
        asked = np.full(len(asked), -1.0)  # clairvoyant, and told so
    assert np.array_equal(now[:, 8], asked)
    assert set(now[:, (5, 6, 13, 16, 17)].ravel()) == {-1.0}, "what no workload has"
