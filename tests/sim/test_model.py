"""Values refuse what cannot be, in one sentence that says what is allowed."""

import pickle

import numpy as np
import pytest
from hypothesis import given

from sim import ClusterSpec, Partition, Scenario, SimError, Workload, simulate, summarise
from sim.api import check_scenario, describe, offered_load
from sim.model.admission import admit, route
from sim.model.errors import ClusterError, DurationError, ScenarioError, TraceError, WorkloadError
from sim.model.units import format_duration, parse_duration
from tests.draw.workloads import workloads

GOOD = {"submit_s": [0.0, 1.0], "runtime_s": [1.0, 2.0], "procs": [1, 2]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"runtime_s": [1.0, np.nan]},
            "runtime_s, row 1: nan; allowed are finite seconds, at least 0.",
        ),
        ({"runtime_s": [-1.0, 1.0]}, "runtime_s, row 0: -1; allowed are finite seconds"),
        ({"requested_s": [1.0, np.inf]}, "requested_s, row 1: inf; allowed are finite seconds"),
        (
            {"runtime_s": [1.0, 1e300]},
            "runtime_s, row 1: 1e+300; allowed are finite seconds, at least 0 and at most 2**53 (",
        ),
        (
            {"submit_s": [2.0, 1.0]},
            "submit_s, row 1: 1 comes after 2; submit times must not step back",
        ),
        ({"submit_s": [-5.0, 1.0]}, "submit_s, row 0: -5; allowed are finite seconds"),
        ({"procs": [1, 0]}, "procs, row 1: 0; allowed are whole numbers, at least 1."),
        ({"procs": [1.5, 1]}, "procs, row 0: 1.5; allowed are whole numbers, at least 1."),
        ({"user": [-2, 1]}, "user, row 0: -2; allowed are whole numbers, at least -1."),
        ({"job_id": [7, 7]}, "job_id, row 1: 7 occurs twice; job ids must be unique."),
        ({"runtime_s": [1.0]}, "runtime_s has 1 rows and submit_s has 2."),
        ({"runtime_s": ["a", "b"]}, "runtime_s must be a column of numbers"),
        ({"submit_s": []}, "a workload needs at least 1 job; 0 were given."),
        ({"submit_s": [[0.0, 1.0]]}, "submit_s has 2 dimensions; a column has 1."),
        ({"max_procs": 0}, "max_procs is 0; a machine has 1 processor or more."),
        (
            {"max_procs": 8.5},
            "max_procs is 8.5; a machine has 1 processor or more. Allowed are whole",
        ),
        ({"max_procs": True}, "max_procs is True; a machine has"),
        ({"max_procs": 2**53 + 1}, "max_procs is 9007199254740993; a machine has"),
        ({"max_procs": 10**5000}, "max_procs is a number of more than 30 digits; a machine has"),
        (
            {"procs": [1, 2**53 + 1]},
            "procs, row 1: 9007199254740992; allowed are whole numbers, at",
        ),
        ({"procs": [1, 2**60]}, "at least 1 and at most 2**53."),
        ({"procs": [1, 10**400]}, "procs must be a column of numbers"),
    ],
)
def test_bad_columns_are_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        Workload.from_arrays(**{**GOOD, **change})  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_a_workload_is_sorted_zeroed_and_read_only() -> None:
    workload = Workload.from_arrays(
        submit_s=[30, 10, 10],
        runtime_s=[1, 2, 3],
        procs=[1, 2, 3],
        job_id=[1, 9, 4],
        unsorted="sort",
    )
    assert workload.submit_s.tolist() == [0.0, 0.0, 20.0]
    assert workload.job_id.tolist() == [4, 9, 1]
    assert workload.procs.tolist() == [3, 2, 1]
    with pytest.raises(ValueError, match="read-only"):
        workload.submit_s[0] = 1.0
    assert workload.requested_is_runtime
    assert workload.notes[0].n_rows == 3
    assert "clairvoyant" in workload.notes[0].sentence


def test_the_given_array_stays_writable_and_apart() -> None:
    procs = np.array([1, 2])
    workload = Workload.from_arrays(**{**GOOD, "procs": procs})  # type: ignore[arg-type]
    procs[0] = 2
    assert workload.procs[0] == 1


def test_equality_is_by_columns() -> None:
    one, same = (Workload.from_arrays(**GOOD, name=name) for name in "ab")  # type: ignore[arg-type]
    other = Workload.from_arrays(**{**GOOD, "procs": [1, 3]})  # type: ignore[arg-type]
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


def test_the_digest_is_stable_between_versions() -> None:
    # If this changes, every cached result of every user is lost: say so in the changelog.
    workload = Workload.from_arrays(**GOOD)  # type: ignore[arg-type]
    assert workload.digest[:16] == DIGEST


DIGEST = "f02513d9edf54b77"


@given(workloads())
def test_head_keeps_the_first_jobs(workload: Workload) -> None:
    head = workload.head(2)
    assert head.n_jobs == min(2, workload.n_jobs)
    assert head.submit_s[0] == 0.0
    assert (head.job_id == workload.job_id[:2]).all()
    assert workload.head(10**6) == workload


def test_head_of_nothing_is_refused() -> None:
    with pytest.raises(WorkloadError, match="head of 0 jobs; ask for 1 or more"):
        Workload.from_arrays(**GOOD).head(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partitions", "sentence"),
    [
        ((), "a cluster needs at least 1 partition; 0 were given."),
        (("a", 1), "two partitions are called 'a'; names must be unique."),
    ],
)
def test_impossible_clusters(partitions: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(ClusterError) as caught:
        ClusterSpec((Partition("a", 1), Partition("a", 2)) if partitions else ())
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (("a", 0), "partition 'a': procs is 0; allowed are whole numbers from 1 to 2**53."),
        (("a", 1.5), "partition 'a': procs is 1.5; allowed are whole numbers from 1 to 2**53."),
        (("a", True), "partition 'a': procs is True; allowed are whole numbers from 1 to 2**53."),
        (("a", 4, -1.0), "partition 'a': max_requested_s is -1.0; allowed is a finite"),
        (("a", 4, float("nan")), "partition 'a': max_requested_s is nan; allowed is a finite"),
        (("a", 4, None, 0), "partition 'a': max_procs is 0; allowed are whole numbers from 1 to"),
        (("a", 2**53 + 1), "procs is 9007199254740993; allowed are whole numbers from 1 to 2**53."),
        (("a", 10**5000), "procs is a number of more than 30 digits; allowed are whole numbers"),
        (("a", 4, None, 2**60), "max_procs is 1152921504606846976; allowed are whole numbers"),
        (("a", 4, 10**5000), "max_requested_s is a number of more than 30 digits; allowed is a"),
        (("", 4), "a partition has an empty name; give it one."),
    ],
)
def test_impossible_partitions(values: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(ClusterError) as caught:
        Partition(*values)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_a_cluster_has_no_more_processors_than_a_float_can_count() -> None:
    with pytest.raises(ClusterError) as caught:
        ClusterSpec((Partition("a", 2**53), Partition("b", 1)))
    assert str(caught.value) == (
        "the 2 partitions have 9007199254740993 processors; allowed are at most 2**53."
    )


@pytest.mark.parametrize("too_wide", ["refuse", "reject", "clip"])
def test_the_largest_numbers_of_processors_are_simulated(too_wide: str) -> None:
    most = 2**53
    workload = Workload.from_arrays(
        submit_s=[0, 0, 5], runtime_s=[10, 10, 10], procs=[most, 1, most - 1], max_procs=most
    )
    scenario = Scenario(workload, ClusterSpec.single(most), too_wide=too_wide)  # type: ignore[arg-type]
    check_scenario(scenario)
    assert route(workload, scenario.cluster).tolist() == [0, 0, 0]
    assert simulate(scenario).start_s.tolist() == [0.0, 10.0, 10.0]
    assert summarise(scenario, simulate(scenario)).utilisation == pytest.approx(1.0)
    told = describe(workload)
    assert (told.widest_procs, told.max_procs, told.size_classes[">512"]) == (most, most, 2)
    assert told.offered_load == pytest.approx(4.0)


@pytest.mark.parametrize("procs", [0, 2**53 + 1, 10**400])
def test_a_load_on_an_impossible_machine_is_refused(procs: int) -> None:
    with pytest.raises(WorkloadError, match=r"a machine has 1 processor or more\."):
        offered_load(Workload.from_arrays(**GOOD), procs)  # type: ignore[arg-type]


def test_a_huge_job_on_a_small_cluster_is_clipped_or_named() -> None:
    workload = jobs([2**53], [8.0])
    with pytest.raises(ScenarioError, match="needs 9007199254740992 processors and the widest"):
        check_scenario(Scenario(workload, ClusterSpec.single(4)))
    clipped = admit(Scenario(workload, ClusterSpec.single(4), too_wide="clip"))
    assert (clipped.procs[0], clipped.runtime_s[0]) == (4, 2.0**54)


def jobs(
    procs: list[int], requested_s: list[float], runtime_s: list[float] | None = None
) -> Workload:
    return Workload.from_arrays(
        submit_s=range(len(procs)),
        runtime_s=runtime_s or requested_s,
        procs=procs,
        requested_s=requested_s,
        job_id=range(11, 11 + len(procs)),
        name="few",
    )


TWO = ClusterSpec((Partition("short", 8, 3600.0, 4), Partition("long", 16, 86400.0)))


def test_a_job_goes_to_the_first_partition_that_admits_it() -> None:
    workload = jobs([4, 5, 4, 16, 17, 1], [3600, 3600, 3601, 60, 60, 86401])
    assert route(workload, TWO).tolist() == [0, 1, 1, 1, -1, -1]


def test_a_job_that_is_too_wide_is_named() -> None:
    with pytest.raises(ScenarioError) as caught:
        simulate(Scenario(jobs([1, 17, 18], [60, 60, 60]), TWO))
    assert str(caught.value) == (
        "job 12 of 'few' needs 17 processors and the widest partition, 'long', gives a job 16 "
        "(and 1 more jobs fit nowhere); make that partition wider, or choose too_wide='reject' "
        "or too_wide='clip'."
    )


def test_a_job_that_asks_for_too_long_is_named() -> None:
    with pytest.raises(ScenarioError) as caught:
        simulate(Scenario(jobs([8], [90000.0]), TWO))
    assert str(caught.value) == (
        "job 11 of 'few' (8 processors) requests 25 h 00 min, above the time limit of every "
        "partition that is wide enough ('long': 24 h 00 min); raise max_requested_s there, or "
        "choose too_wide='reject'."
    )


def test_clipping_keeps_processor_seconds() -> None:
    scenario = Scenario(jobs([32, 2], [100, 50], [80, 40]), TWO, too_wide="clip")
    admission = admit(scenario)
    assert admission.procs.tolist() == [16, 2]
    assert admission.runtime_s.tolist() == [160.0, 40.0]
    assert admission.requested_s.tolist() == [200.0, 50.0]
    assert simulate(scenario).end_s.tolist() == [160.0, 41.0]


def test_clipping_does_not_stretch_beyond_a_time_limit_in_silence() -> None:
    with pytest.raises(ScenarioError, match="above the time limit of every partition"):
        simulate(Scenario(jobs([32], [50000.0]), TWO, too_wide="clip"))


def test_the_digest_of_a_scenario_tells_everything_apart() -> None:
    workload = jobs([1], [60])
    base = Scenario(workload, TWO)
    others = [
        Scenario(workload.head(1), ClusterSpec.single(16)),
        Scenario(workload, TWO, order="sjf"),
        Scenario(workload, TWO, backfill="none"),
        Scenario(workload, TWO, overrun="kill"),
        Scenario(workload, TWO, too_wide="clip"),
        Scenario(workload, TWO, seed=1),
        Scenario(jobs([2], [60]), TWO),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert Scenario(jobs([1], [60]), TWO).digest == base.digest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("90m", 5400), ("3h", 10800), ("2d", 172800), ("1h 30m", 5400), ("1h30m", 5400),
        ("1:30:00", 5400), ("1:30", 5400), ("2-12:00:00", 216000), ("1.5 h", 5400),
        (7, 7), (0.5, 0.5),
    ],
)  # fmt: skip
def test_durations_are_read(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "3 fortnights", "-3h", "1h30", "nan", -1, float("inf"), True]
)
def test_other_texts_are_no_durations(text: str | float) -> None:
    with pytest.raises(DurationError, match="is not a duration; write a number of seconds"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (59.96, "1 min"), (61, "1 min 01 s"), (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (90000, "25 h 00 min"), (200000, "2 d 08 h"), (-60, "-1 min"), (None, "unknown"),
        (float("nan"), "unknown"), (float("inf"), "unlimited"),
    ],
)  # fmt: skip
def test_durations_are_written(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_errors_survive_pickling() -> None:
    error = TraceError("a.swf", line=3, field="status", value="x", expected="a number.")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, SimError)
    assert str(copy) == str(error) == "a.swf, line 3: status is 'x'; a number."
