"""How many servers suffice: exact on constant demand, monotone, and beside a placement by hand."""

import numpy as np
import pytest

from sim.generators import generate, published_model
from sim.generators.cloud import first_fit_servers, plan_capacity
from sim.generators.cloud.capacity import (
    ServerRequirement,
    ServerSize,
    fluid_servers,
    missing_share,
    peak,
    placement_units,
)
from sim.model.errors import WorkloadError
from sim.model.workload import Workload


def jobs(rows: list[tuple[float, float, int]], **columns: object) -> Workload:
    """Return a workload of (submitted, run time, processors)."""
    submit, run, procs = zip(*rows, strict=True)
    return Workload.from_arrays(submit_s=submit, runtime_s=run, procs=procs, **columns)  # type: ignore[arg-type]


def by_hand(workload: Workload, cores: int, begin_s: float, end_s: float) -> int:
    """Place by first fit, one job after another on lists; share no code with what is tested."""
    held: list[list[tuple[float, int]]] = []
    used = 0
    for submit, run, wide in zip(
        workload.submit_s.tolist(), workload.runtime_s.tolist(), workload.procs.tolist(),
        strict=True,
    ):  # fmt: skip
        if run == 0 or submit >= end_s:
            continue
        for piece in [cores] * (wide // cores) + [wide % cores] * (wide % cores > 0):
            place = 0
            while True:
                if place == len(held):
                    held.append([])
                held[place] = [one for one in held[place] if one[0] > submit]
                if sum(of for _, of in held[place]) + piece <= cores:
                    break
                place += 1
            held[place].append((submit + run, piece))
            if submit + run > begin_s:
                used = max(used, place + 1)
    return used


@pytest.mark.parametrize(("n", "procs", "cores", "servers"), [(10, 4, 16, 3), (7, 3, 8, 4)])
def test_constant_demand_is_exact(n: int, procs: int, cores: int, servers: int) -> None:
    steady = jobs([(0.0, 1e6, procs)] * n)
    assert first_fit_servers(steady, ServerSize(cores), 100.0, 1000.0) == servers
    fluid = fluid_servers(steady, ServerSize(cores), 100.0, 1000.0)
    assert fluid == -(-n * procs // cores) <= servers
    assert ServerRequirement.of([servers] * 50, 0.95).servers == servers
    assert ServerRequirement.of([servers] * 50, 0.95).low == servers


def test_who_ends_makes_room_for_who_begins() -> None:
    chain = jobs([(0.0, 10.0, 8), (10.0, 10.0, 8), (20.0, 10.0, 8)])
    assert fluid_servers(chain, ServerSize(8), 0.0, 30.0) == 1
    assert first_fit_servers(chain, ServerSize(8), 0.0, 30.0) == 1
    assert peak(np.array([0.0]), np.array([5.0]), np.array([3]), 5.0, 9.0) == 0


def test_only_the_days_that_count_do() -> None:
    told = jobs([(0.0, 10.0, 64), (20.0, 10.0, 8), (50.0, 10.0, 64)])
    assert fluid_servers(told, ServerSize(8), 15.0, 40.0) == 1
    assert first_fit_servers(told, ServerSize(8), 15.0, 40.0) == 1
    assert first_fit_servers(told, ServerSize(8), 0.0, 60.0) == 8


def test_placing_needs_more_than_water() -> None:
    apart = jobs([(0.0, 10.0, 5)] * 3)
    assert fluid_servers(apart, ServerSize(8), 0.0, 9.0) == 2
    assert first_fit_servers(apart, ServerSize(8), 0.0, 9.0) == 3


@pytest.mark.parametrize("seed", range(12))
def test_first_fit_is_what_lists_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 70
    drawn = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 100, n)),
        runtime_s=rng.integers(0, 40, n),
        procs=rng.integers(1, 20, n),
    )
    for cores in (4, 8, 31):
        found = first_fit_servers(drawn, ServerSize(cores), 30.0, 90.0)
        begin, end = 30.0 - 0.0, 90.0
        assert found == by_hand(drawn, cores, begin, end)
        assert found >= fluid_servers(drawn, ServerSize(cores), begin, end)


def test_wide_jobs_take_whole_servers_and_a_rest() -> None:
    told = jobs([(0.0, 1.0, 20), (0.0, 1.0, 8), (0.0, 1.0, 3)])
    job, alike, cores, memory = placement_units(told, ServerSize(8))
    assert list(zip(job, alike, cores, strict=True)) == [(0, 2, 8), (0, 1, 4), (1, 1, 8), (2, 1, 3)]
    assert memory.tolist() == [0, 0, 0, 0]


def test_memory_may_be_what_is_short() -> None:
    told = jobs([(0.0, 10.0, 2)] * 6, mem_bytes_per_proc=[8] * 6)
    assert first_fit_servers(told, ServerSize(12), 0.0, 9.0) == 1
    assert first_fit_servers(told, ServerSize(12, 32), 0.0, 9.0) == 3
    assert fluid_servers(told, ServerSize(12, 32), 0.0, 9.0) == 3
    narrow = placement_units(jobs([(0.0, 1.0, 6)], mem_bytes_per_proc=[10]), ServerSize(12, 25))
    assert [column.tolist() for column in narrow] == [[0], [3], [2], [20]]


def test_more_share_is_never_fewer_servers() -> None:
    each = np.random.default_rng(2).poisson(50.0, 200).tolist()
    shares = np.linspace(0.01, 1.0, 60).tolist()
    found = [ServerRequirement.of(each, share) for share in shares]
    assert [one.servers for one in found] == sorted(one.servers for one in found)
    for one, share in zip(found, shares, strict=True):
        assert np.mean(np.array(each) <= one.servers) >= share - 1e-12
        assert np.mean(np.array(each) < one.servers) < share
        assert one.low <= one.servers <= (one.high or max(each))
    assert found[-1].servers == max(each)


def test_the_interval_is_that_of_order_statistics() -> None:
    # Of 100 values the median lies between the 40th and the 61st with 96.5 % (David and Nagaraja).
    found = ServerRequirement.of(list(range(1, 101)), 0.5)
    assert (found.servers, found.low, found.high) == (50, 40, 61)
    assert ServerRequirement.of(list(range(20)), 0.95).high is None, "20 futures tell no upper end"


def test_the_interval_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        found = ServerRequirement.of((rng.random(200) * 10_000).astype(int).tolist(), 0.95)
        held += found.low <= 9_500 and (found.high is None or found.high >= 9_500)
    assert held / 400 > 0.93


def test_what_is_missing_after_a_warm_up() -> None:
    told = jobs([(0.0, 100.0, 1), (0.0, 300.0, 1)])
    assert missing_share(told, 0.0) == 1.0
    assert missing_share(told, 100.0) == pytest.approx(200 / 400)
    assert missing_share(told, 300.0) == 0.0


def test_a_plan_rises_with_the_scale_and_tells_both_answers() -> None:
    model = published_model("lublin")
    plan = plan_capacity(
        model, ServerSize(16), days=1.0, futures=5, scales=(1.0, 4.0, 8.0), warm_up_days=0.5, seed=4
    )
    fluid = [one.fluid.servers for one in plan.cases]
    assert fluid == sorted(fluid)
    assert fluid[0] < fluid[-1]
    for one in plan.cases:
        assert one.packed is not None
        assert all(a <= b for a, b in zip(one.fluid.each, one.packed.each, strict=True))
    names = [one.name for one in plan.cases]
    assert names == ["as it is", *(f"as it is, {n} times the arrivals" for n in (4, 8))]
    drawn = generate(model, duration_s=1.5 * 86_400.0, seed=4)
    begin = 0.5 * 86_400.0 - (drawn.start_unix_s or 0.0) % 86_400.0
    assert plan.cases[0].fluid.each[0] == fluid_servers(
        drawn, ServerSize(16), begin, begin + 86_400.0
    )


def test_a_warm_up_is_chosen_by_the_lives_of_jobs() -> None:
    plan = plan_capacity(
        published_model("lublin"), ServerSize(16), days=2.0, futures=2, packed=False
    )
    assert plan.warm_up_days in range(1, 8)
    assert plan.cases[0].packed is None
    assert plan.cases[0].missing < 0.05
    none = plan_capacity(
        published_model("lublin"),
        ServerSize(16),
        days=2.0,
        futures=2,
        packed=False,
        warm_up_days=0.0,
    )
    assert none.cases[0].missing == 1.0


def test_what_cannot_be_planned_is_one_sentence() -> None:
    model = published_model("lublin")
    with pytest.raises(WorkloadError, match="cores of a server is 0"):
        ServerSize(0)
    with pytest.raises(WorkloadError, match="mem_bytes of a server is 0"):
        ServerSize(1, 0)
    with pytest.raises(WorkloadError, match="have no known memory"):
        plan_capacity(model, ServerSize(4, 10), days=1.0, futures=1)
    with pytest.raises(WorkloadError, match="consist of tasks"):
        plan_capacity(published_model("joulie"), ServerSize(4), days=0.01, futures=1)
    for days, futures, share in ((0.0, 1, 0.5), (float("nan"), 1, 0.5), (1.0, 0, 0.5)):
        with pytest.raises(WorkloadError, match="futures of"):
            plan_capacity(model, ServerSize(4), days=days, futures=futures, share=share)
    with pytest.raises(WorkloadError, match=r"share is 1\.5"):
        plan_capacity(model, ServerSize(4), days=1.0, futures=1, share=1.5)
    with pytest.raises(WorkloadError, match="the warm-up is -1"):
        plan_capacity(model, ServerSize(4), days=1.0, futures=1, warm_up_days=-1.0)
    with pytest.raises(WorkloadError, match="there is no scale"):
        plan_capacity(model, ServerSize(4), days=1.0, futures=1, scales=())
