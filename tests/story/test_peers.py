"""The peers of the simulator benchmark compute the same schedules, and are asked for them rightly.

None of this needs AccaSim itself.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import accasim, plain_simpy
from sim import ClusterSpec, Scenario, Workload, load_workload, simulate
from sim.generators import default_workload

STATISTICS = """\
Simulation time: 1.25 secs
Dispathing method: FirstInFirstOut-FIFO-FirstFit
Total jobs: 3
Makespan: 70
Avg. waiting times: 12.50
Avg. slowdown: 1.75
"""


def assert_equal_schedules(workload: Workload, procs: int) -> None:
    for backfill, peer in (("none", plain_simpy.fcfs), ("easy", plain_simpy.easy)):
        ours = simulate(Scenario(workload, ClusterSpec.single(procs), backfill=backfill))
        assert ours.start_s.tolist() == peer(workload, procs), backfill


@pytest.mark.parametrize("seed", range(5))
def test_plain_simpy_on_the_built_in_workload(seed: int) -> None:
    assert_equal_schedules(default_workload(seed, n_jobs=300), 40)


@pytest.mark.parametrize("seed", range(20))
def test_plain_simpy_where_everything_happens_at_once(seed: int) -> None:
    draw = np.random.default_rng(seed)
    workload = Workload.from_arrays(
        submit_s=np.sort(draw.integers(0, 20, 60)),
        runtime_s=draw.integers(0, 8, 60),
        requested_s=draw.integers(0, 12, 60),
        procs=draw.integers(1, 7, 60),
    )
    assert_equal_schedules(workload, 7)


@pytest.mark.parametrize(("name", "procs"), [("theta_2022", 4360), ("UniLu-Gaia-2014-1", 2004)])
def test_plain_simpy_on_a_log(name: str, procs: int, shared_data: Path) -> None:
    workload = load_workload(shared_data / "swf" / f"{name}.swf.gz", first=500)
    assert_equal_schedules(workload, procs)


def test_easy_by_hand() -> None:
    # 4 processors; job 0 holds 3 until 10; job 1 wants 3, so it starts at 10 and leaves 1 extra.
    # Job 2 takes the extra one and outlasts the reservation; job 3 has to wait for it.
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2, 3], runtime_s=[10, 10, 30, 5], procs=[3, 3, 1, 1]
    )
    assert plain_simpy.easy(workload, 4) == [0.0, 10.0, 2.0, 20.0]
    assert plain_simpy.fcfs(workload, 4) == [0.0, 10.0, 10.0, 20.0]


@pytest.mark.parametrize(
    ("procs", "layout"),
    [
        (2004, [(167, 12)]),
        (4360, [(40, 109)]),
        (256, [(4, 64)]),
        (1024, [(8, 128)]),
        (97, [(1, 64), (1, 33)]),
        (64, [(4, 16)]),
        (1, [(1, 1)]),
    ],
)
def test_node_layout(procs: int, layout: list[tuple[int, int]]) -> None:
    found = accasim.node_layout(procs)
    assert [(group.n_nodes, group.n_cores) for group in found] == layout


def test_every_machine_has_all_its_cores() -> None:
    for procs in range(1, 3000):
        groups = accasim.node_layout(procs)
        assert sum(group.n_nodes * group.n_cores for group in groups) == procs
        assert all(group.n_nodes > 0 and 0 < group.n_cores <= 128 for group in groups)


def test_input_of_accasim(tmp_path: Path) -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 5, 5], runtime_s=[30, 20, 10], requested_s=[20, 40, 10], procs=[1, 2, 97]
    )
    accasim.write_input(workload, 97, tmp_path)
    read = load_workload(tmp_path / "workload.swf")
    assert read.submit_s.tolist() == [0, 5, 5]
    assert read.procs.tolist() == [1, 2, 97]
    assert read.requested_s.tolist() == [30, 40, 10]
    system = json.loads((tmp_path / "system.json").read_text())
    assert system["groups"] == {"group_0": {"core": 64}, "group_1": {"core": 33}}
    assert system["resources"] == {"group_0": 1, "group_1": 1}


def test_clairvoyant_requests_reach_accasim(tmp_path: Path) -> None:
    accasim.write_input(Workload.from_arrays(submit_s=[0], runtime_s=[7], procs=[1]), 8, tmp_path)
    last = (tmp_path / "workload.swf").read_text().splitlines()[-1].split()
    assert last[8] == "7"


def test_accasim_reads_no_fractions(tmp_path: Path) -> None:
    workload = Workload.from_arrays(submit_s=[0, 0.5], runtime_s=[1, 1], procs=[1, 1])
    with pytest.raises(accasim.PeerError, match="whole seconds"):
        accasim.write_input(workload, 8, tmp_path)


def test_output_of_accasim() -> None:
    assert accasim.parse_mean_wait_s(STATISTICS) == 12.5
    assert accasim.parse_mean_wait_s(STATISTICS.replace("12.50", "NA")) is None


def test_accasim_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(accasim, "version", lambda: None)
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[7], procs=[1])
    with pytest.raises(accasim.PeerError, match=r"pip install 'copperline\[bench\]'"):
        accasim.run(workload, 8, "fifo", tmp_path, 1.0)
