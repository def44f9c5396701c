"""Blocks of a log in another order: what stays together, what is thinned, what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.generators.generator import Model, fit, generate, load_model, save_model
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks, Term
from sim.model.workload import Workload
from tests.draw.real_logs import read

DAY_S, WEEK_S, MONDAY = 86400.0, 604800.0, 1_704_067_200.0
WEEKS = 5


def a_log(*, tasks: bool = False, start: float | None = MONDAY + 2 * DAY_S) -> Workload:
    """Return five weeks from a Wednesday on, in which day d has d + 3 jobs of run time 100 + d.

    Users 1 and 2 submit by turns, a minute apart, so that every job tells where it came from.
    """
    days = np.arange(WEEKS * 7)
    day = np.repeat(days, days + 3)
    place = np.concatenate([np.arange(d + 3) for d in days])
    n_jobs = len(day)
    return Workload.from_arrays(
        submit_s=day * DAY_S + 60.0 * place + np.where(place == day + 2, DAY_S - 3600.0, 0.0),
        runtime_s=100.0 + day,
        procs=1 + place,
        requested_s=np.full(n_jobs, 600.0),
        user=1 + place % 2,
        start_unix_s=start,
        time_zone=None if start is None else "UTC",
        max_procs=64,
        unsorted="sort",
        tasks=Tasks.from_arrays(
            job=np.repeat(np.arange(n_jobs), 2),
            runtime_s=np.repeat(100.0 + day, 2),
            mcpu=np.tile([1000, 500], n_jobs),
            parents=[[] if i % 2 == 0 else [i - 1] for i in range(2 * n_jobs)],
            demand=np.tile([0, -1], n_jobs),
            affinities=[[Term("zone", "In", ("a",))]],
            texts={"name": [f"t{i}" for i in range(2 * n_jobs)]},
        )
        if tasks
        else None,
    )


def days_of(workload: Workload) -> list[np.ndarray]:
    """Return the rows of each day, by the model's calendar."""
    assert workload.start_unix_s is not None
    day = ((workload.submit_s + workload.start_unix_s - MONDAY) // DAY_S).astype(int)
    return [np.flatnonzero(day == d) for d in range(day.max() + 1)]


def test_every_day_is_a_whole_day_of_the_log_of_the_same_weekday() -> None:
    drawn = generate(fit("resampling", a_log()), duration_s=8 * WEEK_S, seed=1)
    sources = []
    for weekday, rows in enumerate(days_of(drawn)):
        came_from = set((drawn.runtime_s[rows] - 100).astype(int))
        assert len(came_from) == 1
        source = came_from.pop()
        sources.append(source)
        assert len(rows) == source + 3
        assert (source + 2) % 7 == weekday % 7, "the log begins on a Wednesday"
        assert sorted(drawn.procs[rows]) == list(range(1, source + 4))
        assert (drawn.user[rows] == 1 + (drawn.procs[rows] - 1) % 2).all()
    assert len(sources) == 56
    assert len(set(sources)) > 25
    assert drawn.max_procs == 64
    assert not drawn.requested_is_runtime


def test_any_day_may_follow_if_it_is_told_so() -> None:
    model = fit("resampling", a_log(), {"same_weekday": 0})
    drawn = generate(model, duration_s=20 * WEEK_S, seed=2)
    sources = [int(drawn.runtime_s[rows[0]]) - 100 for rows in days_of(drawn)]
    assert any((source + 2) % 7 != day % 7 for day, source in enumerate(sources))
    assert len(set(sources)) >= 30, "140 draws of 35 days"


def test_weeks_stay_whole() -> None:
    drawn = generate(fit("resampling", a_log(), {"block_s": WEEK_S}), duration_s=2 * WEEK_S, seed=3)
    sources = [int(drawn.runtime_s[rows[0]]) - 100 for rows in days_of(drawn)]
    assert np.diff(sources[:7]).tolist() == [1] * 6
    assert np.diff(sources[7:]).tolist() == [1] * 6
    assert sources[0] % 7 == 5, "the first whole week begins on the sixth day"


def test_blocks_laid_over_each_other_have_users_of_their_own_or_not() -> None:
    model = fit("resampling", a_log())
    drawn = generate(model, duration_s=WEEK_S, seed=4, scale=3.0)
    assert set(drawn.user.tolist()) == {1, 2, 4, 5, 7, 8}
    same = generate(
        model.with_parameters({"new_users": False}), duration_s=WEEK_S, seed=4, scale=3.0
    )
    assert set(same.user.tolist()) == {1, 2}
    assert np.array_equal(same.submit_s, drawn.submit_s)


def test_the_first_copy_is_what_a_scale_of_1_draws() -> None:
    model = fit("resampling", a_log())
    one = generate(model, duration_s=WEEK_S, seed=4)
    three = generate(model, duration_s=WEEK_S, seed=4, scale=3.0)
    first = np.isin(three.user, (1, 2))
    assert np.array_equal(three.runtime_s[first], one.runtime_s)


def test_thinning_takes_users_with_all_that_they_did_in_a_block() -> None:
    model = fit("resampling", a_log())
    drawn = generate(model, duration_s=60 * WEEK_S, seed=5, scale=0.5)
    whole = 0
    for rows in days_of(drawn):
        if len(rows) == 0:
            continue
        source = int(drawn.runtime_s[rows[0]]) - 100
        jobs_of = {1: (source + 4) // 2, 2: (source + 3) // 2}
        for user in set(drawn.user[rows].tolist()):
            assert (drawn.user[rows] == user).sum() == jobs_of[user]
            whole += 1
    assert abs(whole - 420) < 4 * np.sqrt(840 * 0.25), "840 users of a day, half of them stay"


def test_jobs_of_nobody_known_are_thinned_one_by_one() -> None:
    log = a_log()
    nobody = replace(log, user=np.full(log.n_jobs, -1))
    drawn = generate(fit("resampling", nobody), duration_s=60 * WEEK_S, seed=6, scale=0.5)
    partly = [len(rows) for rows in days_of(drawn) if len(rows) > 0]
    assert len(partly) > 400, "few days lose all of their jobs"
    assert set(drawn.user.tolist()) == {-1}


def test_tasks_come_with_their_jobs(tmp_path: Path) -> None:
    model = fit("resampling", a_log(tasks=True))
    save_model(model, tmp_path / "m.json")
    for one in (model, load_model(tmp_path / "m.json")):
        drawn = generate(one, duration_s=3 * WEEK_S, seed=7, scale=2.0)
        tasks = drawn.tasks
        assert tasks is not None
        assert tasks.n_tasks == 2 * drawn.n_jobs
        assert np.array_equal(tasks.runtime_s[::2], drawn.runtime_s)
        assert tasks.parent_task.tolist() == list(range(0, tasks.n_tasks, 2))
        assert tasks.affinities[0][0].values == ("a",)
        assert len(set(tasks.texts["name"])) < tasks.n_tasks, "days come twice"


def test_a_log_without_a_calendar_counts_days_from_its_first_job() -> None:
    drawn = generate(fit("resampling", a_log(start=None)), duration_s=WEEK_S, seed=8)
    sources = [int(drawn.runtime_s[rows[0]]) - 100 for rows in days_of(drawn)]
    assert [source % 7 for source in sources] == list(range(7))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"block_s": 5 * DAY_S}, "allowed are whole parts of a week"),
        ({"block_s": 7 * WEEK_S}, "has no block for 1 of the 1 kinds of blocks"),
    ],
)
def test_blocks_that_no_calendar_has(knobs: dict[str, float], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        fit("resampling", a_log(), knobs)


def test_a_log_that_is_too_short() -> None:
    with pytest.raises(WorkloadError, match=r"no block for 4 of the 7 kinds.*use shorter blocks"):
        fit("resampling", a_log().head(3 + 4 + 5 + 1))
    model = fit("resampling", a_log().head(3 + 4 + 5 + 1), {"same_weekday": 0})
    assert generate(model, duration_s=WEEK_S, seed=1).n_jobs > 7


def test_arrays_that_cannot_be() -> None:
    model = fit("resampling", a_log())
    for name in ("clock_s", "procs", "runtime_s"):
        for bad in (np.array(["a", "b"]), np.full(len(model.arrays["procs"]), -1.0), np.zeros(0)):
            spoiled = Model("resampling", model.parameters, {**model.arrays, name: bad})
            with pytest.raises(WorkloadError):
                generate(spoiled, duration_s=DAY_S, seed=1)


@pytest.mark.slow
def test_futures_of_a_real_log(shared_data: Path) -> None:
    log = read(shared_data, "UniLu-Gaia-2014-1")
    model = fit("resampling", log)
    drawn = generate(model, duration_s=13 * WEEK_S, seed=1)
    assert 0.7 < (drawn.n_jobs / 91) / (log.n_jobs / (log.span_s / DAY_S)) < 1.4
    assert set(drawn.user.tolist()) <= set(log.user.tolist())
    assert set(drawn.procs.tolist()) <= set(log.procs.tolist())
