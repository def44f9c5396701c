"""Moldable jobs: starts worked by hand, measures, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import (
    CapacityWindow,
    ClusterSpec,
    EngineError,
    NodePower,
    Partition,
    ResultCache,
    Scenario,
    ScenarioError,
    SimError,
    Workload,
    measures,
    simulate,
    summarise,
)
from sim.explain import explain_start
from sim.generators import Moldability
from sim.metrics import energy_metrics
from sim.model.admission import admit_as_ran

ENGINES = ("compiled", "interpreted", "process")
LINEAR = Moldability(2, variance=0.0)


def scenario(
    *jobs: tuple[float, float, float, int], moldable: Moldability = LINEAR, backfill: str = "easy"
) -> Scenario:
    """Return jobs of (submission, run time, request, processors) on 8 processors."""
    submit_s, runtime_s, requested_s, procs = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, requested_s=requested_s, procs=procs
    )
    return Scenario(workload, ClusterSpec.single(8), backfill=backfill, moldable=moldable)


FIRST = (0.0, 100.0, 100.0, 6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("backfill", ["none", "greedy", "easy"])
def test_the_first_in_the_queue_starts_on_fewer_processors_if_it_ends_earlier(
    engine: str, backfill: str
) -> None:
    """It would wait until 100 and end by 160; on 2 processors it ends by 1 + 2 x 60 = 121."""
    found = simulate(scenario(FIRST, (1.0, 50.0, 60.0, 4), backfill=backfill), engine=engine)
    assert found.procs is not None
    assert (found.start_s.tolist(), found.end_s.tolist()) == ([0, 1], [100, 101])
    assert found.procs.tolist() == [6, 2]
    assert found.note == "1 of 2 jobs ran on fewer processors than they requested"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("requested_s", [100.0, 300.0])
def test_it_waits_if_it_would_end_no_earlier_by_its_estimate(
    engine: str, requested_s: float
) -> None:
    """By waiting from 0 it ends at 100 + r, and on half of its processors at 2 r."""
    found = simulate(scenario(FIRST, (0.0, 1.0, requested_s, 4)), engine=engine)
    assert found.start_s.tolist() == [0, 100]
    assert found.procs is not None
    assert found.procs.tolist() == [6, 4]


@pytest.mark.parametrize("engine", ENGINES)
def test_run_time_and_estimate_grow_by_downeys_speedup(engine: str) -> None:
    """A = 4, sigma = 1: S(4) = 16 / 5.5 and S(2) = 8 / 4.5, so times grow by 18 / 11."""
    found = simulate(
        scenario(FIRST, (0.0, 55.0, 55.0, 4), moldable=Moldability(1, variance=1.0)), engine=engine
    )
    assert found.start_s.tolist() == [0, 0]
    assert found.end_s[1] == pytest.approx(90.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_of_equal_ends_the_fewest_processors_are_taken(engine: str) -> None:
    """Where A is 1, no processor beyond the first helps."""
    flat = Moldability(3, parallelism=0.125, variance=0.0)
    found = simulate(scenario((0.0, 9.0, 9.0, 4), (0.0, 5.0, 5.0, 8), moldable=flat), engine=engine)
    assert found.procs is not None
    assert found.procs.tolist() == [4, 1]
    assert found.end_s.tolist() == [9, 5]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_next_in_the_queue_follows_in_the_same_decision(engine: str) -> None:
    """The second takes 2 of 5 processors left, the third halves 7 to 4 and again to 2."""
    found = simulate(
        scenario((0.0, 100.0, 100.0, 3), (0.0, 9.0, 9.0, 6), (0.0, 9.0, 9.0, 7)), engine=engine
    )
    assert found.start_s.tolist() == [0, 0, 0]
    assert found.procs is not None
    assert found.procs.tolist() == [3, 3, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_first_in_the_queue_takes_fewer(engine: str) -> None:
    """The second waits for 8 processors, so the third could only overtake on its 4."""
    found = simulate(scenario(FIRST, (0.0, 500.0, 500.0, 8), (0.0, 20.0, 20.0, 4)), engine=engine)
    assert found.start_s.tolist() == [0, 100, 600]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kept_reservation_is_forgotten_with_its_job(engine: str) -> None:
    """Without `reserve_anew` the reservation of job 4 stays at 100, so job 6 overtakes at 10.

    That delays job 4 to 100, and at 12 it starts on 3 processors, where it ends at 132. Job 5 of 9
    processors is first then: job 7 would fit beside job 4 at 100, and may not delay job 5 at 132.
    """
    one = scenario(
        (0, 50, 50, 1), (0, 100, 100, 3), (0, 10, 100, 5), (0, 60, 60, 6), (1, 100, 100, 9),
        (2, 90, 90, 1), (12, 500, 500, 1), moldable=Moldability(1, variance=0.0),
    )  # fmt: skip
    one = replace(one, cluster=ClusterSpec.single(9), options={"reserve_anew": 0.0})
    assert simulate(one, engine=engine).start_s.tolist() == [0, 0, 0, 12, 132, 10, 232]


def test_slowdowns_are_by_the_run_time_on_the_requested_processors() -> None:
    one = scenario(FIRST, (1.0, 50.0, 60.0, 4))
    result = simulate(one, engine="interpreted")
    summary = summarise(one, result)
    assert summary.slowdown.max == 100 / 50
    assert summary.response.max == 100
    assert summary.utilisation == (6 * 100 + 2 * 100) / (8 * 101)
    assert measures(one, result) == summary.flat()
    ran = admit_as_ran(one, result)
    assert (ran.procs.tolist(), ran.runtime_s.tolist()) == ([6, 2], [100, 100])
    assert (ran.estimate_s.tolist(), ran.requested_s.tolist()) == ([100, 120], [100, 120])


def test_energy_is_that_of_the_processors_on_which_jobs_ran() -> None:
    one = scenario(FIRST, (1.0, 55.0, 60.0, 4), moldable=Moldability(1, variance=1.0))
    one = replace(one, power=NodePower(2.0, 1.0))
    energy = energy_metrics(one, simulate(one, engine="interpreted"))
    assert energy.energy_kwh == pytest.approx((8 * 100 + 6 * 100 + 2 * 90) / 3.6e6)


def test_no_halvings_are_rigid_jobs() -> None:
    rigid = scenario(FIRST, (1.0, 50.0, 60.0, 4), moldable=Moldability(0))
    assert rigid == replace(rigid, moldable=None)
    assert rigid.digest == replace(rigid, moldable=None).digest
    assert simulate(rigid, engine="interpreted").procs is None
    others = (LINEAR, Moldability(1, variance=0.0), Moldability(2), Moldability(2, 2.0, 0.0))
    assert len({replace(rigid, moldable=other).digest for other in others}) == 4


@pytest.mark.parametrize("of", ["moldable", "dependent"])
def test_the_cache_on_disk_keeps_processors_and_submissions(tmp_path: Path, of: str) -> None:
    one = scenario(FIRST, (1.0, 50.0, 60.0, 4))
    if of == "dependent":
        jobs = replace(
            one.workload, preceding_job=np.array([-1, 1]), think_s=np.array([np.nan, 5.0])
        )
        one = Scenario(jobs, one.cluster, dependencies="logged")
    result = simulate(one, engine="interpreted")
    ResultCache(folder=tmp_path).put(result)
    assert ResultCache(folder=tmp_path).get(one.digest) == result


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1,), "halvings is -1; allowed are whole numbers from 0 to 20"),
        ((21,), "halvings is 21"),
        ((1.5,), "halvings is 1.5"),
        ((1, 0.0), "parallelism is 0.0; allowed are numbers above 0"),
        ((1, float("nan")), "parallelism is nan"),
        ((1, 1.0, -0.1), "variance is -0.1; allowed are numbers from 0"),
    ],
)
def test_impossible_settings_are_refused(arguments: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        Moldability(*arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"backfill": "conservative"}, "choose 'none', 'greedy' or 'easy', or rigid jobs"),
        ({"backfill": "depth"}, "'depth' plans starts"),
        ({"backfill": "slurm"}, "does not always start the first"),
        ({"cleanup_s": 5.0}, "moldable jobs and cleanup_s 5; leave either out"),
        ({"windows": (CapacityWindow("main", 1, 0.0, 9.0),)}, "moldable jobs and capacity windows"),
        ({"power": NodePower(2.0, 1.0, off_after_s=9.0)}, "nodes that are switched off"),
        (
            {"cluster": ClusterSpec((Partition("main", 8, preemptible=True),))},
            "moldable jobs and a preemptible partition",
        ),
        (
            {"cluster": ClusterSpec.single(8).in_machines_of(4), "allocation": "whole_nodes"},
            "moldable jobs and allocation 'whole_nodes'",
        ),
    ],
)
def test_what_does_not_go_with_moldable_jobs_is_refused(
    changes: dict[str, object], sentence: str
) -> None:
    one = scenario(FIRST, (1.0, 50.0, 60.0, 4))
    with pytest.raises(SimError, match=sentence):
        simulate(replace(one, **changes), engine="interpreted")  # type: ignore[arg-type]


def test_a_start_of_moldable_jobs_is_not_explained() -> None:
    with pytest.raises(EngineError, match="jobs are moldable"):
        explain_start(scenario(FIRST), 1)
