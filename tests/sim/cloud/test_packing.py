"""Packing: cases by hand, a naive packer beside the kernel, tuples in and out of files."""

from pathlib import Path

import numpy as np
import pytest

from sim.generators.cloud.packing import (
    GIB,
    PACKING_RULES,
    PackingRequests,
    PackingResults,
    SchedulingTuple,
    TupleRanges,
    draw_tuples,
    pack_jobs,
    read_tuples,
    requests_of,
    requests_of_trace,
    write_tuples,
)
from sim.model.cloud_trace import CloudTrace, Flavour
from sim.model.errors import TraceError, UnknownNameError, WorkloadError
from sim.model.tasks import Tasks
from sim.model.workload import Workload

NAMES = tuple(rule.name for rule in PACKING_RULES)


def requests(*jobs: tuple[float, float, int, int]) -> PackingRequests:
    """Return jobs of (start, end, cores, GiB)."""
    start, end, cores, memory = (np.array(column) for column in zip(*jobs, strict=True))
    return PackingRequests(
        start.astype(float), end.astype(float), cores * 1000, memory * GIB,
        begin_s=0.0, span_s=max(float(start[-1]), 1.0),
    )  # fmt: skip


def servers(algorithm: str, n: int = 2, cores: int = 10, memory: int = 10, seed: int = 0,
            start: float = 0.0) -> SchedulingTuple:  # fmt: skip
    return SchedulingTuple(start, n, cores * 1000, memory * GIB, algorithm, seed)


def naive(
    told: PackingRequests, one: SchedulingTuple, departures: bool = True
) -> tuple[float, float]:
    """Pack by the definitions, with lists and no heap: every server looks at who is still there."""
    rng = np.random.default_rng(one.seed)
    held: list[list[int]] = [[] for _ in range(one.servers)]
    whole = np.array([one.mcpu, one.mem_bytes], dtype=float)
    wanted = np.column_stack([told.mcpu, told.mem_bytes])
    for job in range(told.first_job(one.start), told.n_jobs):
        mark = rng.random()
        if departures:
            held = [[j for j in here if told.end_s[j] > told.start_s[job]] for here in held]
        used = [sum((wanted[j] for j in here), np.zeros(2, dtype=np.int64)) for here in held]
        if (wanted[job] > whole).any():
            continue
        room = [s for s in range(one.servers) if (used[s] + wanted[job] <= whole).all()]
        if not room:
            return tuple(np.sum(used, axis=0) / (whole * one.servers))  # type: ignore[return-value]
        ask = wanted[job] / whole

        def cost(server: int, used: list[np.ndarray] = used, ask: np.ndarray = ask) -> float:
            free = (whole - used[server]) / whole
            if one.algorithm == "busiest_fit":
                return float((free - ask).sum())
            if one.algorithm == "cosine":
                lengths = np.linalg.norm(free) * np.linalg.norm(ask)
                return -float(free @ ask) / lengths if lengths > 0 else 0.0
            before, after = used[server] / whole, used[server] / whole + ask
            return float(abs(after[0] - after[1]) - abs(before[0] - before[1]))

        if one.algorithm == "random":
            chosen = room[int(mark * len(room))]
        else:
            costs = [cost(s) for s in room]
            chosen = next(
                s for s, c in zip(room, costs, strict=True) if c <= min(costs) + 1e-12
            )  # what rounding tells apart is equal
        held[chosen].append(job)
    return np.nan, np.nan


@pytest.mark.soak
def test_each_rule_by_hand_on_two_servers() -> None:
    """Servers of 10 cores and 10 GiB; the third job tells who took the second, the fourth fails."""
    # Busiest: (1, 1) joins (6, 2), which leaves 3 cores there and 10 on the other; (10, 10) fits.
    found = pack_jobs(requests((0, 9, 6, 2), (1, 9, 1, 1), (2, 9, 10, 10), (3, 9, 4, 1)),
                 [servers("busiest_fit")])  # fmt: skip
    assert (found.cpu[0], found.memory[0]) == pytest.approx((17 / 20, 13 / 20))
    # Cosine: after (6, 2) the first server has (4, 8) free, at 18 degrees from the diagonal, on
    # which (1, 1) and the empty server lie. So (1, 1) goes there, and (10, 10) fits nowhere.
    found = pack_jobs(requests((0, 9, 6, 2), (1, 9, 1, 1), (2, 9, 10, 10)), [servers("cosine")])
    assert (found.cpu[0], found.memory[0]) == pytest.approx((7 / 20, 3 / 20))
    # Delta perp-distance: (2, 4) on the first takes (6, 2) to (8, 6), two nearer the diagonal, and
    # on an empty server two away from it.
    found = pack_jobs(requests((0, 9, 6, 2), (1, 9, 2, 4), (2, 9, 10, 10), (3, 9, 3, 1)),
                 [servers("delta_perp_distance")])  # fmt: skip
    assert (found.cpu[0], found.memory[0]) == pytest.approx((18 / 20, 16 / 20))
    # (1, 3) after (2, 6): the first server has (8, 4) free, 45 degrees from what (1, 3) asks for,
    # the empty one less than 27; the distance from the diagonal grows by 2 on either.
    for name, shares in (("delta_perp_distance", (13, 19)), ("cosine", (3, 9))):
        told = requests((0, 9, 2, 6), (1, 9, 1, 3), (2, 9, 10, 10), (3, 9, 8, 2))
        found = pack_jobs(told, [servers(name)])
        assert (found.cpu[0] * 20, found.memory[0] * 20) == pytest.approx(shares), name


def test_random_takes_every_server_with_room_as_often() -> None:
    told = requests((0, 9, 1, 1), (1, 9, 3, 3))
    where = [pack_jobs(told, [servers("random", 2, 3, 3, seed)]).cpu[0] for seed in range(5)]
    assert np.isnan(where).all()  # there is always another server
    told = requests((0, 9, 1, 1), (1, 9, 1, 1), (2, 9, 3, 3))
    failed = [
        not np.isnan(pack_jobs(told, [servers("random", 2, 3, 3, s)]).cpu[0]) for s in range(80)
    ]
    assert 0.3 < np.mean(failed) < 0.7  # both on one server, or not


def test_who_ends_makes_room_at_that_very_time() -> None:
    told = requests((0, 5, 10, 1), (1, 9, 10, 1), (5, 9, 10, 1), (6, 9, 1, 1))
    one = servers("busiest_fit")
    found = pack_jobs(told, [one])
    assert (found.cpu[0], found.memory[0]) == pytest.approx((1.0, 0.1))  # fails at the fourth
    stay = pack_jobs(told, [one], departures=False)
    assert stay.cpu[0] == pytest.approx(1.0)  # fails at the third
    late = requests((0, 5, 10, 1), (1, 9, 10, 1), (5, 9, 10, 1), (9, 12, 1, 1))
    assert np.isnan(pack_jobs(late, [one]).cpu[0])


def test_a_job_that_no_empty_server_takes_is_passed_over() -> None:
    told = requests((0, 9, 11, 1), (1, 9, 1, 11), (2, 9, 10, 10), (3, 9, 10, 10), (4, 9, 1, 1))
    found = pack_jobs(told, [servers("busiest_fit")])
    assert (found.cpu[0], found.memory[0]) == (1.0, 1.0)


def drawn(seed: int, n: int = 400) -> PackingRequests:
    rng = np.random.default_rng(seed)
    start_s = np.sort(rng.integers(0, 300, n)).astype(float)
    return PackingRequests(
        start_s, start_s + rng.integers(0, 120, n), rng.choice([1000, 2000, 4000, 8000], n),
        rng.choice([1, 2, 7, 14, 28], n) * GIB, begin_s=0.0, span_s=300.0,
    )  # fmt: skip


@pytest.mark.parametrize("departures", [True, False])
@pytest.mark.parametrize("algorithm", NAMES)
def test_the_kernel_packs_as_lists_do(algorithm: str, departures: bool) -> None:
    ranges = TupleRanges((2, 9), (9, 24), (1.5, 4.0), 0.5)
    for seed in range(6):
        told = drawn(seed)
        tuples = draw_tuples(4, seed, ranges, (algorithm,))
        found = pack_jobs(told, tuples, departures=departures)
        twin = pack_jobs(told, tuples, departures=departures, interpreted=True)
        assert np.array_equal(found.cpu, twin.cpu, equal_nan=True)
        assert np.array_equal(found.memory, twin.memory, equal_nan=True)
        wanted = np.array([naive(told, one, departures) for one in tuples])
        np.testing.assert_allclose(found.cpu, wanted[:, 0], atol=1e-12)
        np.testing.assert_allclose(found.memory, wanted[:, 1], atol=1e-12)


def test_the_ratio_is_between_nothing_and_all_and_grows_without_departures() -> None:
    for seed in range(4):
        told = drawn(seed)
        tuples = draw_tuples(20, seed, TupleRanges((2, 9), (9, 24), (1.5, 4.0), 0.3))
        found = pack_jobs(told, tuples)
        seen = ~np.isnan(found.cpu)
        assert seen.any()
        for shares in (found.cpu[seen], found.memory[seen]):
            assert ((shares >= 0) & (shares <= 1)).all()
        assert not np.isnan(
            pack_jobs(told, tuples, departures=False).cpu[seen]
        ).any()  # fails earlier


def test_a_summary_leaves_out_what_never_failed() -> None:
    told = PackingResults(
        np.array([0.9, 0.97, np.nan, 0.5]), np.array([0.8, 0.99, np.nan, 0.6]),
        ("random", "random", "cosine", "cosine"),
    )  # fmt: skip
    every = told.of(None)
    assert (every.n_tuples, every.n_failed) == (4, 3)
    assert (every.median, every.above) == pytest.approx((0.9, 1 / 3))
    assert every.cpu_limited == pytest.approx(1 / 3)
    assert told.of("cosine").median == pytest.approx(0.6)
    assert told.of("busiest_fit").median is None


def test_tuples_are_drawn_from_their_ranges_and_the_first_ones_stay() -> None:
    ranges = TupleRanges((3, 5), (8, 16), (2.0, 2.5), 0.25)
    many = draw_tuples(300, 7, ranges)
    assert many[:20] == draw_tuples(20, 7, ranges)
    assert many != draw_tuples(300, 8, ranges)
    assert {one.servers for one in many} == {3, 4, 5}
    assert {one.mcpu for one in many} == {1000 * n for n in range(8, 17)}
    per_core = np.array([one.mem_bytes / one.mcpu * 1000 / GIB for one in many])
    assert 2.0 <= per_core.min() < 2.03 < 2.47 < per_core.max() <= 2.5
    assert max(one.start for one in many) <= 0.25
    assert {one.algorithm for one in many} == set(NAMES)
    assert {one.algorithm for one in draw_tuples(9, 1, ranges, ("cosine",))} == {"cosine"}


def test_tuples_go_to_a_file_and_back(tmp_path: Path) -> None:
    path, told = tmp_path / "tuples.csv", draw_tuples(40, 3)
    write_tuples(told, path)
    assert read_tuples(path) == told
    first, *rest = path.read_text().splitlines()
    assert first == "start,servers,mcpu,mem_bytes,algorithm,seed"
    assert len(rest) == 40


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("0.1,2,1000,100,best,1", "best"),
        ("0.1,0,1000,100,random,1", "above 0"),
        ("1.0,2,1000,100,random,1", "from 0 up to 1"),
        ("nan,2,1000,100,random,1", "from 0 up to 1"),
        ("x,2,1000,100,random,1", "start is 'x'"),
        ("0.1,2.5,1000,100,random,1", "servers is '2.5'"),
        ("0.1,2,1000,100,random", "6 fields"),
    ],
)
def test_a_line_that_is_no_tuple_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "tuples.csv"
    path.write_text(f"start,servers,mcpu,mem_bytes,algorithm,seed\n0,1,1,1,random,0\n{line}\n")
    with pytest.raises(TraceError, match="line 3") as seen:
        read_tuples(path)
    assert told in str(seen.value)


def test_files_that_hold_no_tuples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuples.csv"
    with pytest.raises(TraceError, match="cannot be read"):
        read_tuples(path)
    path.write_text("a,b\n")
    with pytest.raises(TraceError, match="first line must be"):
        read_tuples(path)
    path.write_text("start,servers,mcpu,mem_bytes,algorithm,seed\n")
    with pytest.raises(TraceError, match="no scheduling tuples"):
        read_tuples(path)


def test_ranges_and_names_that_cannot_be_are_refused() -> None:
    with pytest.raises(WorkloadError, match="cores from 9 to 8"):
        TupleRanges(cores=(9, 8))
    with pytest.raises(WorkloadError, match="latest_start"):
        TupleRanges(latest_start=1.0)
    with pytest.raises(UnknownNameError, match="busiest_fit"):
        draw_tuples(1, 1, None, ("busiest",))
    with pytest.raises(WorkloadError, match="1 or more"):
        draw_tuples(0, 1)


def test_what_a_trace_of_batches_asks_for() -> None:
    trace = CloudTrace(
        period=np.array([4, 4, 6]), batch=np.array([0, 0, 1]), flavour=np.array([0, 1, 0]),
        lifetime=np.array([1, 0, 2]), censored=np.array([0, 0, 1]),
        flavours=(Flavour("a", 1000, GIB), Flavour("b", 4000, 7 * GIB)),
        first_period=4, n_periods=4,
    )  # fmt: skip
    told = requests_of_trace(trace, np.random.default_rng(1))
    assert told.start_s.tolist() == [1200.0, 1350.0, 1800.0]
    assert 1200 < told.end_s[0] <= 1500
    assert told.end_s[1:].tolist() == [1350.0, np.inf]
    assert (told.mcpu.tolist(), told.mem_bytes[1]) == ([1000, 4000, 1000], 7 * GIB)
    assert [told.first_job(share) for share in (0.0, 0.1, 0.2, 0.5)] == [0, 1, 2, 2]


def test_what_a_workload_asks_for() -> None:
    columns = {"submit_s": [0, 10], "runtime_s": [5, 7], "procs": [2, 3]}
    told = requests_of(Workload.from_arrays(**columns, mem_bytes_per_proc=[GIB, 2 * GIB]))
    assert (told.mcpu.tolist(), told.mem_bytes.tolist()) == ([2000, 3000], [2 * GIB, 6 * GIB])
    assert told.end_s.tolist() == [5.0, 17.0]
    plain = requests_of(Workload.from_arrays(**columns))
    assert not plain.knows_memory
    with pytest.raises(WorkloadError, match="memory of some jobs is unknown"):
        pack_jobs(plain, [servers("random")])
    with pytest.raises(WorkloadError, match="cores and memory together"):
        pack_jobs(plain, [servers("cosine")], by_memory=False)
    assert np.isnan(pack_jobs(plain, [servers("random", cores=5)], by_memory=False).cpu[0])
    assert (
        pack_jobs(plain, [servers("random", 1, 4)], by_memory=False, departures=False).cpu[0] == 0.5
    )


def test_instances_of_tasks_are_packed_one_by_one() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1], instances=[3, 1], runtime_s=[4.0, 6.0], mcpu=[500, 2000],
        mem_bytes=[GIB, 2 * GIB],
    )  # fmt: skip
    told = requests_of(
        Workload.from_arrays(submit_s=[0, 10], runtime_s=[4, 6], procs=[2, 2], tasks=tasks)
    )
    assert told.mcpu.tolist() == [500, 500, 500, 2000]
    assert told.end_s.tolist() == [4.0, 4.0, 4.0, 16.0]
    assert told.knows_memory
