"""Regions on planted data, what is pending in them, and brute force."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    PENDING_RULES,
    Configuration,
    Exclusion,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    RegionRule,
    find_regions,
    pending_in_region,
)
from strategies.steering.regions import (
    by_steps,
    good_configurations,
    squared_radius,
    squared_steps,
    step_coordinates,
)
from tests.draw.spaces import configurations, grid, histories, observe_all, spaces

SPACE = grid(20, 20)
NEAR_LOW = list(itertools.product((2, 3, 4), (2, 3)))  # mean 10
NEAR_HIGH = [(15, 15), (15, 16), (16, 16), (17, 17)]  # mean 20
POOR = [(0, 19), (10, 10), (19, 0), (4, 5)]  # 0; the last two steps away from a member
LONELY = (9, 1)  # good, but alone
HISTORY = (
    *observe_all(SPACE, NEAR_LOW, [10.0] * 6),
    *observe_all(SPACE, NEAR_HIGH, [18.0, 19.0, 22.0, 21.0]),
    *observe_all(SPACE, POOR, [0.0] * 4),
    *observe_all(SPACE, [LONELY], [50.0]),
)


def at(*level_ids: int) -> Configuration:
    return Configuration(level_ids, SPACE.lineage)


def test_planted_regions_are_found_and_described() -> None:
    knowledge = Knowledge(
        SPACE, HISTORY, pending=frozenset({at(16, 17), at(14, 14), at(5, 5)}), running=(at(3, 4),)
    )
    high, low = find_regions(knowledge, RegionRule("threshold", threshold=10.0))
    assert (high.id, low.id) == (1, 2)
    assert [c.level_ids for c in high.members] == [(16, 16), (17, 17), (15, 16), (15, 15)]
    assert {c.level_ids for c in low.members} == set(NEAR_LOW)
    assert (high.evaluated, low.evaluated) == (4, 6)
    assert (high.mean_quality, low.mean_quality) == (20.0, 10.0)
    assert high.best.quality == 22.0
    assert high.box == ((15, 16, 17), (15, 16, 17))
    assert low.box == ((2, 3, 4), (2, 3))
    assert high.pending == (at(14, 14), at(16, 17))  # one step off both ways, and in the box
    assert low.pending == (at(3, 4),)  # running counts; (5, 5) is two steps from (4, 3)


def test_a_poor_run_in_the_box_lowers_the_mean_quality() -> None:
    history = (*HISTORY, *observe_all(SPACE, [(17, 15)], [0.0]))
    high = find_regions(Knowledge(SPACE, history), RegionRule("threshold", threshold=10.0))[0]
    assert high.evaluated == 5
    assert high.mean_quality == 16.0
    assert high.best.quality == 22.0


def test_eps_is_in_level_steps_whatever_the_number_of_levels() -> None:
    """Members two steps apart: with eps 1.5 there is none, with 2 there is one region."""
    for n in (7, 300):
        space = grid(n)
        history = observe_all(space, [(0,), (2,), (4,)], [1.0] * 3)
        knowledge = Knowledge(space, history)
        assert find_regions(knowledge, RegionRule(quantile=1.0)) == ()
        assert len(find_regions(knowledge, RegionRule(quantile=1.0, eps=2.0))) == 1
    # and sqrt(2) is exactly one step in two parameters, nominal or not
    for kind in ("ordinal", "nominal"):
        space = grid(3, 3, kind=kind)
        history = observe_all(space, [(0, 0), (1, 1), (2, 2)], [1.0] * 3)
        knowledge = Knowledge(space, history)
        assert len(find_regions(knowledge, RegionRule(quantile=1.0, eps=math.sqrt(2)))) == 1
        assert find_regions(knowledge, RegionRule(quantile=1.0, eps=1.4)) == ()


def test_ranks_not_ids_span_the_box_of_an_ordinal_parameter() -> None:
    space = ParameterSpace((Parameter("a", (50, 10, 40, 20)), Parameter("b", ("x", "y", "z"))))
    history = observe_all(space, [(1, 0), (3, 0), (2, 2)], [1.0] * 3)
    (region,) = find_regions(Knowledge(space, history), RegionRule(quantile=1.0))
    assert region.box == ((1, 2, 3), (0, 2))


def test_verdicts_are_the_analysts_last_ones() -> None:
    space = grid(9)
    runs = [(0, None), (1, True), (2, True), (3, False), (3, True), (4, True), (4, False)]
    history = tuple(
        Observation(Configuration((i,), space.lineage), -5.0 - i, good=good) for i, good in runs
    )
    (region,) = find_regions(Knowledge(space, history), RegionRule("verdicts"))
    assert [c.level_ids[0] for c in region.members] == [1, 2, 3]
    assert find_regions(Knowledge(space, history[:1]), RegionRule("verdicts")) == ()


def test_good_ones_by_quantile_take_ties_and_by_threshold_are_feasible() -> None:
    space = grid(10)
    history = observe_all(space, [(i,) for i in range(10)], [9, 8, 7, 7, 7, 5, 4, 3, 2, 1])
    good = good_configurations(history, RegionRule(quantile=0.3))
    assert [c.level_ids[0] for c in good] == [0, 1, 2, 3, 4]
    good = good_configurations(history, RegionRule(quantile=0.2))
    assert [c.level_ids[0] for c in good] == [0, 1]
    infeasible = Observation(history[0].configuration, 99.0, feasible=False, violation=1.0)
    good = good_configurations((infeasible, *history[1:]), RegionRule("threshold", threshold=7))
    assert [c.level_ids[0] for c in good] == [1, 2, 3, 4]


def test_replicates_are_one_configuration_with_the_mean_of_their_responses() -> None:
    space = grid(9)
    once = observe_all(space, [(0,), (8,)], [5.0, 1.0])
    assert find_regions(Knowledge(space, once * 3), RegionRule(quantile=0.5)) == ()
    history = observe_all(space, [(0,), (0,), (1,)], [10.0, 0.0, 6.0])
    assert good_configurations(history, RegionRule(quantile=0.5))[0].level_ids == (1,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"good": "best"}, "allowed are threshold, quantile, verdicts"),
        ({"good": "threshold"}, "must be a finite quality"),
        ({"good": "threshold", "threshold": float("nan")}, "must be a finite quality"),
        ({"threshold": 3.0}, "use a threshold only with good='threshold'"),
        ({"quantile": 0}, "above 0 and at most 1"),
        ({"quantile": 1.1}, "above 0 and at most 1"),
        ({"quantile": None}, "above 0 and at most 1"),
        ({"eps": 0}, "a number of level steps above 0"),
        ({"eps": float("inf")}, "a number of level steps above 0"),
        ({"eps": True}, "a number of level steps above 0"),
        ({"min_samples": 0}, "whole number from 1 on"),
        ({"min_samples": 2.0}, "whole number from 1 on"),
    ],
)
def test_rules_that_cannot_be_are_refused_in_a_sentence(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        RegionRule(**options)  # type: ignore[arg-type]


def test_pending_by_hand() -> None:
    knowledge = Knowledge(
        SPACE, HISTORY, pending=frozenset({at(16, 17), at(0, 0)}), running=(at(15, 17),)
    )
    rule = RegionRule("threshold", threshold=10.0)
    high, low = find_regions(knowledge, rule)
    queued = pending_in_region(SPACE, high, knowledge, "queued", 1.5)
    assert (queued.count, queued.configurations) == (2, (at(15, 17), at(16, 17)))
    box = pending_in_region(SPACE, high, knowledge, "box", 1.5)
    assert box.count == 5  # 9 - 4 evaluated; queued and running ones are to be run yet
    assert set(box.configurations) == {at(15, 17), at(16, 15), at(16, 17), at(17, 15), at(17, 16)}
    near = pending_in_region(SPACE, low, knowledge, "near", 1.0)
    assert near.count == 10  # around a full 3x2: two sides of 3, two of 2
    assert set(near.configurations) == {
        *(at(a, b) for a in (2, 3, 4) for b in (1, 4)),
        *(at(a, b) for a in (1, 5) for b in (2, 3)),
    }
    with pytest.raises(OptionError, match="allowed are queued, near, box"):
        pending_in_region(SPACE, low, knowledge, "all", 1.0)  # type: ignore[arg-type]


def test_closed_levels_exclusions_and_failures_are_not_pending() -> None:
    knowledge = Knowledge(SPACE, HISTORY)
    rule = RegionRule("threshold", threshold=10.0)
    high = find_regions(knowledge, rule)[0]
    space = SPACE.closing("p0", 17).excluding(Exclusion("p0 == 16 and p1 == 15"))
    after = Knowledge(space, HISTORY)
    box = pending_in_region(space, high, after, "box", 1.5)
    assert (box.count, set(box.configurations)) == (2, {at(15, 17), at(16, 17)})
    for level in (15, 16):
        space = space.closing("p0", level)
    assert pending_in_region(space, high, Knowledge(space, HISTORY), "box", 1.5).count == 0


@pytest.mark.soak
def test_a_box_of_10_to_the_12_is_counted_without_being_built() -> None:
    space = grid(*[12] * 12)
    # a staircase in the last parameters, its steps within eps, its box the inner 10 of each
    path = [(1,) * 12]
    for _ in range(9):
        for i in range(12):
            path.append((*path[-1][:i], path[-1][i] + 1, *path[-1][i + 1 :]))
    knowledge = Knowledge(space, observe_all(space, path, [1.0] * len(path)))
    (region,) = find_regions(knowledge, RegionRule(quantile=1.0))
    assert {len(ids) for ids in region.box} == {10}
    box = pending_in_region(space, region, knowledge, "box", 1.5)
    assert box.count == 10**12 - len(path)
    assert len(box.configurations) == 1000
    near = pending_in_region(space, region, knowledge, "near", 50.0)
    assert (near.count, len(near.configurations)) == (None, 1000)


def test_steps_come_nearest_first_and_each_once() -> None:
    space = ParameterSpace((Parameter("a", (3, 1, 2, 9)), Parameter("b", ("x", "y", "z"))))
    found = list(by_steps(space.parameters, space.open_ids, (2, 0)))
    assert [distance for distance, _ in found] == sorted(distance for distance, _ in found)
    assert {ids for _, ids in found} == set(itertools.product(range(4), range(3)))
    assert len(found) == 12
    for distance, ids in found:
        assert distance == squared_steps(space.parameters, (2, 0), ids)
    assert [d for d, _ in by_steps(space.parameters, space.open_ids, (2, 0), 2)] == [
        *[0, 1, 1, 1, 1],
        *[2] * 4,
    ]


@given(st.data())
def test_a_walk_by_steps_is_in_the_order_of_distance_then_of_sorted_levels(
    data: st.DataObject,
) -> None:
    space = data.draw(spaces())
    centre = data.draw(configurations(space)).level_ids
    radius = data.draw(st.none() | st.integers(0, 6))
    ranked = [
        sorted(ids, key=lambda i, p=parameter, at=at: (squared_steps((p,), (at,), (i,)), i))
        for parameter, ids, at in zip(space.parameters, space.open_ids, centre, strict=True)
    ]
    cells = [
        (squared_steps(space.parameters, centre, cell), places, cell)
        for places in itertools.product(*(range(len(ids)) for ids in ranked))
        for cell in [tuple(ids[i] for ids, i in zip(ranked, places, strict=True))]
    ]
    expected = [(d, cell) for d, _, cell in sorted(cells) if radius is None or d <= radius]
    assert list(by_steps(space.parameters, space.open_ids, centre, radius)) == expected


def test_a_walk_over_100_parameters_keeps_little() -> None:
    words = tuple("abcdefghijkl")
    many = [Parameter(f"p{i}", words) for i in range(100)]
    tracemalloc.start()
    try:
        walk = by_steps(many, [range(12)] * 100, (5,) * 100)
        assert [d for d, _ in itertools.islice(walk, 20_000)] == [0] + [1] * 1100 + [2] * 18_899
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@given(st.data())
def test_step_coordinates_have_the_distances_of_steps(data: st.DataObject) -> None:
    space = data.draw(spaces())
    some = data.draw(st.lists(configurations(space), min_size=1, max_size=6))
    points = step_coordinates(space, some)
    for (i, a), (j, b) in itertools.combinations(enumerate(some), 2):
        squared = squared_steps(space.parameters, a.level_ids, b.level_ids)
        assert np.sum((points[i] - points[j]) ** 2) == pytest.approx(squared)


@given(st.data())
def test_regions_and_their_pending_by_brute_force(data: st.DataObject) -> None:
    space = data.draw(spaces())
    history = data.draw(histories(space, max_size=20))
    waiting = frozenset(data.draw(st.lists(configurations(space), max_size=4)))
    knowledge = Knowledge(space, history, pending=waiting)
    eps = data.draw(st.sampled_from([1.0, 1.5, 2.0]))
    rule = RegionRule(quantile=data.draw(st.sampled_from([0.3, 1.0])), eps=eps, min_samples=2)
    regions = find_regions(knowledge, rule)
    good = set(good_configurations(history, rule))
    everything = [space.configuration(i) for i in range(space.size)]
    done = {o.configuration for o in history}
    members = [m for region in regions for m in region.members]
    assert len(set(members)) == len(members)
    assert set(members) <= good
    for alone in good - set(members):  # label -1: nothing dense within eps
        near = [
            g for g in good
            if squared_steps(space.parameters, g.level_ids, alone.level_ids) <= squared_radius(eps)
        ]  # fmt: skip
        assert near == [alone]
    assert [r.id for r in regions] == list(range(1, len(regions) + 1))
    qualities = [r.mean_quality for r in regions]
    assert qualities == sorted(qualities, reverse=True)
    for region in regions:
        inside = {c for c in everything if region.contains(space, c, eps)}
        assert set(region.members) <= inside
        assert region.evaluated == sum(o.configuration in inside for o in history)
        assert set(region.pending) == waiting & inside
        assert all(region.is_in_box(m) for m in region.members)
        open_and_new = {c for c in everything if space.is_allowed(c) and c not in done}
        wanted = {
            "queued": set(region.pending),
            "box": {c for c in open_and_new if region.is_in_box(c)},
            "near": {
                c for c in open_and_new
                if any(
                    squared_steps(space.parameters, c.level_ids, m.level_ids)
                    <= squared_radius(eps)
                    for m in region.members
                )
            },
        }  # fmt: skip
        for pending in PENDING_RULES:
            found = pending_in_region(space, region, knowledge, pending, eps)
            assert set(found.configurations) == wanted[pending]
            assert found.count == len(wanted[pending]) == len(found.configurations)


def test_no_observations_no_regions() -> None:
    for rule in (RegionRule(), RegionRule("threshold", threshold=1), RegionRule("verdicts")):
        assert find_regions(Knowledge(SPACE), rule) == ()
