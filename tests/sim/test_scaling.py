"""Another load from the same jobs, and the same load shaken."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.generators.load_scaling import Unit, scale_load, shake, units
from sim.generators.lublin_generator import default_workload
from sim.metrics.workload_profile import offered_load
from sim.model.errors import UnknownNameError, WorkloadError
from sim.model.tasks import Tasks
from sim.model.workload import Workload
from tests.draw.workloads import workloads


def by_id(workload: Workload) -> np.ndarray:
    return np.argsort(workload.job_id)


@given(workloads(), st.floats(0.01, 100.0))
def test_scaling_multiplies_the_gaps_and_leaves_the_jobs(workload: Workload, factor: float) -> None:
    scaled = scale_load(workload, factor)
    whole = (workload.submit_s % 1 == 0).all()
    wanted = workload.submit_s * factor
    assert np.abs(scaled.submit_s[by_id(scaled)] - wanted[by_id(workload)]).max() <= 0.5 * whole
    for name in ("runtime_s", "requested_s", "procs", "job_id"):
        columns = [getattr(w, name)[by_id(w)] for w in (workload, scaled)]
        assert np.array_equal(*columns), name


@pytest.mark.parametrize("load", [0.2, 0.65, 0.9, 1.7])
def test_the_wanted_load_is_met(load: float) -> None:
    workload = default_workload(2)
    scaled = scale_load(workload, load=load)
    assert offered_load(scaled, 128) == pytest.approx(load, rel=1e-3)
    on_64 = scale_load(workload, load=load, procs=64)
    assert offered_load(on_64, 64) == pytest.approx(load, rel=1e-3)
    assert scale_load(scaled, load=0.65).submit_s == pytest.approx(
        scale_load(workload, load=0.65).submit_s, abs=3
    )


def sessions_by_hand(workload: Workload, gap_s: float) -> list[list[int]]:
    found: dict[int, list[list[int]]] = {}
    alone = []
    for row in range(workload.n_jobs):
        user = int(workload.user[row])
        if user == -1:
            alone.append([row])
            continue
        mine = found.setdefault(user, [])
        if mine and workload.submit_s[row] - workload.submit_s[mine[-1][-1]] <= gap_s:
            mine[-1].append(row)
        else:
            mine.append([row])
    return sorted([*alone, *(one for many in found.values() for one in many)])


@given(workloads(), st.data())
def test_sessions_are_those_found_by_hand(workload: Workload, data: st.DataObject) -> None:
    users = data.draw(
        st.lists(st.integers(-1, 3), min_size=workload.n_jobs, max_size=workload.n_jobs)
    )
    gap_s = data.draw(st.sampled_from([0.0, 0.3, 2.0, 100.0]))
    told = Workload.from_arrays(
        submit_s=workload.submit_s, runtime_s=workload.runtime_s, procs=workload.procs, user=users
    )
    numbers = units(told, "sessions", gap_s)
    found = [np.flatnonzero(numbers == i).tolist() for i in range(numbers.max() + 1)]
    assert sorted(found) == sessions_by_hand(told, gap_s)


@pytest.mark.parametrize("by", ["jobs", "sessions", "users"])
def test_shaken_jobs_stay_near_and_units_stay_whole(by: Unit) -> None:
    plain = default_workload(3, 600)
    workload = Workload.from_arrays(
        submit_s=plain.submit_s, runtime_s=plain.runtime_s, procs=plain.procs,
        user=np.random.default_rng(1).integers(-1, 5, 600), start_unix_s=1e9,
    )  # fmt: skip
    shaken = shake(workload, 7, spread_s=240.0, by=by)
    assert shaken != workload
    assert shaken == shake(workload, 7, spread_s=240.0, by=by)
    assert shaken != shake(workload, 8, spread_s=240.0, by=by)
    assert shaken.start_unix_s is not None
    unix = [w.submit_s[by_id(w)] + (w.start_unix_s or 0.0) for w in (workload, shaken)]
    shift_s = unix[1] - unix[0]
    assert 200 < np.abs(shift_s).max() <= 240
    numbers = units(workload, by, 1200.0)[by_id(workload)]
    for unit in range(numbers.max() + 1):
        assert np.ptp(shift_s[numbers == unit]) == 0
    assert len(set(shift_s.tolist())) > (4 if by == "users" else 50)
    assert shaken.runtime_s[by_id(shaken)].tolist() == workload.runtime_s[by_id(workload)].tolist()
    assert np.isnan(shaken.logged_wait_s).all()
    assert "shifted by up to 240 s" in shaken.notes[-1].sentence


def test_no_shaking_changes_nothing_and_tasks_follow_their_jobs() -> None:
    n_jobs = 40
    workload = Workload.from_arrays(
        submit_s=np.arange(n_jobs) * 10.0,
        runtime_s=np.arange(n_jobs) + 1.0,
        procs=np.ones(n_jobs),
        tasks=Tasks.from_arrays(job=np.arange(n_jobs), runtime_s=np.arange(n_jobs) + 1.0),
    )
    assert shake(workload, 1, spread_s=0.0) == workload
    shaken = shake(workload, 1, spread_s=60.0)
    assert shaken.tasks is not None
    assert shaken.tasks.runtime_s.tolist() == shaken.runtime_s.tolist()
    assert shaken.job_id.tolist() != workload.job_id.tolist()


def test_what_cannot_be_is_refused() -> None:
    workload = default_workload(0, 20)
    with pytest.raises(WorkloadError, match="either a factor"):
        scale_load(workload)
    with pytest.raises(WorkloadError, match="either a factor"):
        scale_load(workload, 2.0, load=0.5)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(WorkloadError, match=r"(factor|load) is .*allowed are"):
            scale_load(workload, bad)
        with pytest.raises(WorkloadError, match=r"(factor|load) is .*allowed are"):
            scale_load(workload, load=bad)
    with pytest.raises(WorkloadError, match="come all at once"):
        scale_load(workload.head(1), load=0.5)
    with pytest.raises(UnknownNameError, match="unit of shaking 'weeks'"):
        shake(workload, 1, by="weeks")  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="spread_s is -1"):
        shake(workload, 1, spread_s=-1)
    with pytest.raises(WorkloadError, match="seed is -1"):
        shake(workload, -1)
    bare = Workload.from_arrays(submit_s=[0, 1], runtime_s=[1, 1], procs=[1, 1])
    with pytest.raises(WorkloadError, match="give its processors"):
        scale_load(bare, load=0.5)
