"""Batches of jobs, the authors' text files, bins of lifetimes, and workloads made batches."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from sim.formats.vm_trace import read_bergsma, read_flavours
from sim.generators.cloud.batches import batches_of, workload_of
from sim.generators.generator import RandomStreams
from sim.model.cloud_trace import DAY_S, PAPER, Bins, CloudTrace, Flavour
from sim.model.errors import TraceError, WorkloadError
from sim.model.workload import Workload
from tests.draw.bergsma import write_bergsma

MAP = "1,1.75 b\n4,7 k\n8,14 m\n"
FLAVOURS = "300 b,|,k,k,|\n900 m,|\n1200 b,b,b,|,m,k,|\n"
LIFETIMES = "300 U0,|,U3,C40,|\n900 U46,|\n1200 U1,U1,U1,|,U13,U2,|\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    told = (("map", MAP), ("flavours", FLAVOURS), ("lifetimes", LIFETIMES))
    for name, text in told:
        (tmp_path / name).write_text(text)
    return tmp_path / "map", tmp_path / "flavours", tmp_path / "lifetimes"


def test_the_authors_files_are_read(files: tuple[Path, Path, Path]) -> None:
    flavours = read_flavours(files[0])
    assert flavours[0] == Flavour("b", 1000, 1_879_048_192)
    trace = read_bergsma(files[1], flavours, files[2])
    assert trace.period.tolist() == [1, 1, 1, 3, 4, 4, 4, 4, 4]
    assert trace.batch.tolist() == [0, 1, 1, 2, 3, 3, 3, 4, 4]
    assert trace.flavour.tolist() == [0, 1, 1, 2, 0, 0, 0, 2, 1]
    assert trace.lifetime.tolist() == [0, 3, 40, 46, 1, 1, 1, 13, 2]
    assert trace.censored.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert trace.batches_by_period().tolist() == [2, 0, 1, 2]
    assert trace.jobs_by_period().tolist() == [3, 0, 1, 5]
    assert trace.batch_sizes.tolist() == [1, 2, 1, 3, 2]
    later = trace.part(3, 5)
    assert (later.n_jobs, later.n_batches, later.n_periods) == (6, 3, 2)
    assert trace.part(1, 3).joined(later).batch_sizes.tolist() == trace.batch_sizes.tolist()


def test_what_is_written_is_what_was_read(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    trace = read_bergsma(files[1], read_flavours(files[0]), files[2])
    again = tmp_path / "again", tmp_path / "lives.gz"
    write_bergsma(trace, *again)
    assert again[0].read_text() == FLAVOURS
    assert gzip.decompress(again[1].read_bytes()).decode() == LIFETIMES


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("flavours", "300 b,|,z,|\n", "line 1: flavour is 'z'; known flavours are b, k, m."),
        ("flavours", "301 b,|\n", "a line must be seconds (a multiple of 300)"),
        ("flavours", "300 b,,k,|\n", "tokens separated by commas"),
        ("flavours", "600 b,|\n300 b,|\n", "line 2: period is '300'; periods must rise"),
        ("flavours", "\n", "there are no jobs in it"),
        ("lifetimes", LIFETIMES.replace("U46", "U47"), "a bin from 0 to 46"),
        ("lifetimes", LIFETIMES.replace("U46", "X1"), "lifetime is 'X1'"),
        ("lifetimes", LIFETIMES.replace("U0,|,U3", "U0,U3"), "differ from those of the flavours"),
        ("map", "1,1 b\n2,2 b\n", "line 2"),
        ("map", "one b\n", "a line must be 'cores,gigabytes name'"),
    ],
)
def test_files_that_are_none(
    name: str, text: str, said: str, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TraceError) as refused:
        read_bergsma(files[1], read_flavours(files[0]), files[2])
    assert said in str(refused.value)


@pytest.mark.slow
def test_azure_comes_back_to_the_letter(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "azure_v1"
    lives = folder / "v1.test.c2591400.txt.gz"
    trace = read_bergsma(folder / "v1.test.txt.gz", read_flavours(folder / "flav_map.txt"), lives)
    assert (trace.n_jobs, trace.n_batches) == (410_276, 82_946)
    write_bergsma(trace, tmp_path / "f", tmp_path / "l")
    for written, given in (("f", folder / "v1.test.txt.gz"), ("l", lives)):
        with gzip.open(given, "rt") as file:
            assert (tmp_path / written).read_text() == file.read()


def test_bins_are_those_of_the_authors_map() -> None:
    given = [
        0,
        300,
        3300,
        3600,
        3601,
        7200,
        7500,
        DAY_S,
        DAY_S + 1,
        10 * DAY_S,
        864_300,
        20 * DAY_S,
    ]
    assert PAPER.n == 47
    assert PAPER.of(np.array(given, dtype=float)).tolist() == [
        0, 1, 11, 12, 13, 13, 14, 35, 36, 44, 45, 45,
    ]  # fmt: skip
    assert PAPER.of(np.array([20 * DAY_S + 1])).tolist() == [46]
    bins = np.arange(1, 47).repeat(50)
    drawn = PAPER.seconds(bins, np.random.default_rng(1))
    assert (PAPER.of(drawn) == bins).all()
    with pytest.raises(WorkloadError, match="rise"):
        Bins((10.0, 10.0), 20.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"period": [1, 0]}, "in order"),
        ({"batch": [0, 2]}, "in order"),
        ({"batch": [0, 0]}, "each within one period"),
        ({"flavour": [0, 1]}, "is out of range"),
        ({"lifetime": [0, 47]}, "is out of range"),
        ({"period": [1, 5]}, "is out of range"),
        ({"flavour": [0]}, "columns of one length"),
    ],
)
def test_traces_that_cannot_be(changed: dict[str, list[int]], said: str) -> None:
    columns = {
        "period": [1, 2], "batch": [0, 1], "flavour": [0, 0], "lifetime": [0, 0], "censored": [0, 0]
    }  # fmt: skip
    arrays = {name: np.array(column) for name, column in (columns | changed).items()}
    with pytest.raises(WorkloadError, match=said):
        CloudTrace(**arrays, flavours=(Flavour("a", 1),), first_period=1, n_periods=3)


def small_log() -> Workload:
    return Workload.from_arrays(
        submit_s=[0, 10, 20, 30, 310, 320],
        runtime_s=[5, 100, 7, 3000, 50, 60],
        procs=[1, 4, 1, 4, 4, 7],
        requested_s=[60, 600, 60, 600, 600, 90],
        user=[7, 8, 7, 8, 8, -1],
        name="six jobs",
        start_unix_s=0.0,
        time_zone="UTC",
    )


def test_a_batch_is_a_user_within_a_period() -> None:
    trace, examples = batches_of(small_log(), most_flavours=2)
    assert trace.period.tolist() == [0, 0, 0, 0, 1, 1]
    assert trace.batch.tolist() == [0, 0, 1, 1, 2, 3], "by their first arrival"
    assert [trace.flavours[i].name for i in trace.flavour] == [
        "1x60s", "1x60s", "4x600s", "4x600s", "4x600s", "others up to 8",
    ]  # fmt: skip
    assert examples.procs.tolist() == [1, 1, 4, 4, 4, 7]
    assert trace.bins.of(np.array([5.0, 7.0])).tolist() == trace.lifetime[:2].tolist()


def test_batches_become_a_workload_again() -> None:
    trace, examples = batches_of(small_log(), most_flavours=2)
    made = workload_of(trace, examples, RandomStreams(1), name="again")
    assert made.submit_s.tolist() == [0, 75, 150, 225, 300, 450]
    assert made.procs.tolist() == [1, 1, 4, 4, 4, 7]
    assert (made.runtime_s <= made.requested_s).all()
    assert len(set(made.user.tolist())) == 4
    again, _ = batches_of(made, most_flavours=2)
    assert again.batch.tolist() == trace.batch.tolist()


def test_without_users_there_are_no_batches() -> None:
    bare = Workload.from_arrays(submit_s=[0, 1], runtime_s=[1, 1], procs=[1, 1], name="bare")
    with pytest.raises(WorkloadError, match="bare: no job has a known user"):
        batches_of(bare)
