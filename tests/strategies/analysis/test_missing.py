"""Missing runs, blocks to complete and coverage: hand-worked cases and brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    Exclusion,
    Failure,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
)
from strategies.doe.coverage import (
    BlockCompletion,
    EstimationTarget,
    LevelCoverage,
    MissingRuns,
    complete_block,
    measure_coverage,
    missing_runs,
)
from strategies.doe.factorial_block import FactorialBlock
from strategies.doe.factorial_model import FactorialModel
from strategies.space.errors import AnalysisError, UnknownParameterError
from tests.draw.spaces import grid, histories, observe_all, spaces


def ids(found: MissingRuns | BlockCompletion) -> list[tuple[int, ...]]:
    return [configuration.level_ids for configuration in found.configurations]


def test_one_run_per_missing_level_beside_the_best_run() -> None:
    space = grid(3, 2)
    history = observe_all(space, [(0, 0), (0, 1), (1, 1)], [1, 9, 2])
    found = missing_runs(Knowledge(space, history), EstimationTarget(("p0",)))
    assert (found.lacking, found.left, found.is_smallest) == (1, 0, True)
    assert ids(found) == [(2, 1)]  # (2, 0) would do as well, but (0, 1) is the best
    assert found.looked_at_all
    level = missing_runs(Knowledge(space, history), EstimationTarget(("p0",), 2))
    assert ids(level) == [(2, 1)]
    assert ids(missing_runs(Knowledge(space, history), EstimationTarget(("p1",)))) == []


def test_two_levels_that_were_only_run_together_need_one_run_to_part_them() -> None:
    space = grid(2, 2)
    history = observe_all(space, [(0, 0), (1, 1)], [1, 2])
    for target in (EstimationTarget(), EstimationTarget(("p0",)), EstimationTarget(("p1",), 0)):
        found = missing_runs(Knowledge(space, history), target)
        # one dimension even for all: how both change together is known already
        assert (found.lacking, len(ids(found)), found.is_smallest) == (1, 1, True)


def test_an_interaction_needs_all_its_combinations() -> None:
    space = grid(3, 2, 2)
    history = observe_all(space, [(0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 0, 0)], [1, 2, 3, 4])
    found = missing_runs(Knowledge(space, history), EstimationTarget(("p1", "p0")))
    assert (found.lacking, found.left, found.is_smallest) == (2, 0, True)
    assert sorted(ids(found)) == [(1, 1, 0), (2, 1, 0)]


def test_runs_that_cancel_what_is_confounded_are_chosen_together() -> None:
    """Of p0 by p1 two cells are there, at p2=1 and p2=0: the others must differ in p2 as well."""
    space = grid(2, 2, 2)
    history = observe_all(space, [(0, 1, 1), (1, 0, 0)], [1, 2])
    found = missing_runs(Knowledge(space, history), EstimationTarget(("p0", "p1")))
    assert (found.lacking, found.left, found.is_smallest) == (1, 0, False)
    assert {cell[:2] for cell in ids(found)} == {(0, 0), (1, 1)}
    assert sum(cell[2] for cell in ids(found)) == 1


def test_without_runs_the_first_one_is_among_them() -> None:
    space = grid(3, 2)
    found = missing_runs(Knowledge(space), EstimationTarget(("p0",)))
    assert (found.lacking, len(ids(found))) == (2, 3)
    assert {cell[0] for cell in ids(found)} == {0, 1, 2}
    assert len({cell[1] for cell in ids(found)}) == 1


def test_what_exclusions_forbid_is_said_and_the_rest_is_still_closed() -> None:
    space = ParameterSpace(
        (Parameter("a", (0, 1, 2)), Parameter("b", (0, 1))), (Exclusion("a == 2 and b == 1"),)
    )
    history = tuple(Observation(space.configuration(i), float(i)) for i in (0, 1))
    pair = missing_runs(Knowledge(space, history), EstimationTarget(("a", "b")))
    assert (pair.lacking, pair.left, pair.looked_at_all) == (2, 1, True)
    assert sorted(ids(pair)) == [(1, 0), (1, 1)]
    gone = ParameterSpace((Parameter("a", (0, 1)), Parameter("b", (0, 1))), (Exclusion("a == 1"),))
    found = missing_runs(Knowledge(gone, ()), EstimationTarget(("a",)))
    assert (found.lacking, found.left, ids(found)) == (1, 1, [])


def test_failed_runs_are_not_offered_and_waiting_ones_count_as_run() -> None:
    space = grid(2, 2)
    history = observe_all(space, [(0, 0)], [1])
    failed = Failure(Configuration((1, 0), space.lineage), "no")
    found = missing_runs(Knowledge(space, history, (failed,)), EstimationTarget(("p0",)))
    assert len(ids(found)) == 2  # by way of p1
    assert (1, 0) not in ids(found)
    waits = frozenset({Configuration((1, 0), space.lineage)})
    queued = missing_runs(Knowledge(space, history, pending=waits), EstimationTarget(("p0",)))
    assert (queued.lacking, queued.n_waiting, ids(queued)) == (0, 1, [])


def test_closed_levels_are_not_offered() -> None:
    space = grid(3, 2).closing("p0", 2)
    history = observe_all(space, [(0, 0)], [1])
    assert ids(missing_runs(Knowledge(space, history), EstimationTarget(("p0",)))) == [(1, 0)]
    with pytest.raises(AnalysisError, match="level 2 of parameter 'p0' is closed"):
        missing_runs(Knowledge(space, history), EstimationTarget(("p0",), 2))


def test_targets_that_cannot_be() -> None:
    with pytest.raises(AnalysisError, match="name one parameter"):
        EstimationTarget(("a", "b", "c"))
    with pytest.raises(AnalysisError, match="two different ones"):
        EstimationTarget(("a", "a"))
    with pytest.raises(AnalysisError, match="name only its parameter"):
        EstimationTarget(("a", "b"), 1)
    with pytest.raises(UnknownParameterError):
        missing_runs(Knowledge(grid(2)), EstimationTarget(("q",)))


def test_a_large_space_is_not_walked() -> None:
    space = grid(*([10] * 12))
    history = observe_all(space, [(0,) * 12, (1,) * 12], [1, 2])
    found = missing_runs(Knowledge(space, history), EstimationTarget(("p3",)))
    assert (found.left, found.looked_at_all, found.is_smallest) == (0, False, True)
    assert {cell[3] for cell in ids(found)} >= set(range(2, 10))
    assert measure_coverage(space, history).n_allowed == 10**12


def rank(rows: list[list[float]]) -> int:
    return int(np.linalg.matrix_rank(np.array(rows), tol=1e-8)) if rows else 0


def one_hot(space: ParameterSpace, cell: tuple[int, ...], pair: tuple[int, ...]) -> list[float]:
    row = [1.0]
    for i, parameter in enumerate(space.parameters):
        row += [float(cell[i] == k) for k in range(parameter.n_levels)]
    if len(pair) == 2:
        sizes = [space.parameters[i].n_levels for i in pair]
        row += [
            float((cell[pair[0]], cell[pair[1]]) == both)
            for both in itertools.product(*(range(n) for n in sizes))
        ]
    return row


def unknown(space: ParameterSpace, cells: set[tuple[int, ...]], names: tuple[str, ...]) -> int:
    """Dimensions of the contrasts of open levels outside the row space, with indicators."""
    positions = tuple(space.names.index(name) for name in names)
    rows = [one_hot(space, cell, positions) for cell in cells]
    width = len(one_hot(space, (0,) * len(space.parameters), positions))
    starts = np.cumsum([1, *(p.n_levels for p in space.parameters)]).tolist()
    contrasts = []
    for i in positions if len(positions) < 2 and positions else range(len(space.parameters)):
        if len(positions) == 2:
            break
        for level in space.open_ids[i][1:]:
            contrast = [0.0] * width
            contrast[starts[i] + level] += 1
            contrast[starts[i] + space.open_ids[i][0]] -= 1
            contrasts.append(contrast)
    if len(positions) == 2:
        a, b = (space.open_ids[i] for i in positions)
        n = space.parameters[positions[1]].n_levels
        for k, m in itertools.product(a[1:], b[1:]):
            contrast = [0.0] * width
            for level, other, sign in ((k, m, 1), (a[0], m, -1), (k, b[0], -1), (a[0], b[0], 1)):
                contrast[starts[-1] + level * n + other] += sign
            contrasts.append(contrast)
    return rank([*rows, *contrasts]) - rank(rows)


@given(st.data())
def test_the_runs_make_known_what_can_be_and_no_set_that_is_called_smallest_can_be_beaten(
    data: st.DataObject,
) -> None:
    space = data.draw(spaces(max_parameters=3, max_levels=3))
    history = data.draw(histories(space, max_size=6))
    names = data.draw(
        st.sampled_from([(), *((n,) for n in space.names),
                         *itertools.combinations(space.names, 2)])
    )  # fmt: skip
    knowledge = Knowledge(space, history)
    found = missing_runs(knowledge, EstimationTarget(names))
    run = {o.configuration.level_ids for o in history}
    assert found.lacking == unknown(space, run, names)
    assert found.left == unknown(space, run | set(ids(found)), names)
    assert found.looked_at_all
    free = [c.level_ids for c in space.configurations() if c.level_ids not in run]
    assert set(ids(found)) <= set(free)
    assert found.left == unknown(space, run | set(free), names)  # exclusions alone forbid more
    for dropped in ids(found):
        assert unknown(space, run | (set(ids(found)) - {dropped}), names) > found.left
    fewer = len(ids(found)) - 1
    if fewer >= 0 and math.comb(len(free), fewer) <= 120:
        can = any(
            unknown(space, run | set(some), names) == found.left
            for some in itertools.combinations(free, fewer)
        )
        assert not (can and found.is_smallest)


@pytest.mark.soak
@given(st.data())
def test_the_model_knows_an_effect_once_its_missing_runs_are_there(data: st.DataObject) -> None:
    space = data.draw(spaces(max_parameters=3, max_levels=3, exclusions=False))
    history = data.draw(histories(space, max_size=6))
    name = data.draw(st.sampled_from(space.names))
    found = missing_runs(Knowledge(space, history), EstimationTarget((name,)))
    more = tuple(Observation(c, 1.5) for c in found.configurations)
    if len(history) + len(more) == 0:
        return
    model = FactorialModel.fit(space, (*history, *more))
    position = space.names.index(name)
    effects = {c.level_ids[0]: c.effect for c in model.levels(name)}
    if len(space.open_ids[position]) > 1:
        assert all(effects[i] is not None for i in space.open_ids[position])


def test_the_nearest_block_is_completed_round_the_best_run() -> None:
    space = grid(3, 3, 2)
    cells = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 2, 1)]
    history = observe_all(space, cells, [1, 2, 3, 9])
    one = complete_block(Knowledge(space, history), ("p0",))
    assert one == BlockCompletion(
        FactorialBlock(((0, 1, 2), (0,), (0,))), (Configuration((2, 0, 0), space.lineage),)
    )
    # all of p0 by p1 round p2=0 lacks 9 - 3; round p2=1 it would lack 8
    both = complete_block(Knowledge(space, history), ("p0", "p1"))
    assert both is not None
    assert both.block == FactorialBlock(((0, 1, 2), (0, 1, 2), (0,)))
    assert len(both.configurations) == 6
    grown = complete_block(Knowledge(space, history))
    assert grown is not None
    assert grown.block == FactorialBlock(
        ((0, 1), (0, 1), (0,))
    )  # as few as a line of 3, and larger
    assert ids(grown) == [(1, 1, 0)]


def test_a_complete_block_lacks_nothing_and_an_excluded_one_is_none() -> None:
    space = grid(2, 2)
    history = observe_all(space, [(0, 0), (1, 0)], [1, 2])
    complete = complete_block(Knowledge(space, history), ("p0",))
    assert complete is not None
    assert complete.configurations == ()
    excluded = space.excluding(Exclusion("p0 == 1 and p1 == 1"))
    assert complete_block(Knowledge(excluded, history), ("p0", "p1")) is None
    assert complete_block(Knowledge(space), ("p0",)) is None
    failed = Failure(Configuration((1, 1), space.lineage), "no")
    assert complete_block(Knowledge(space, history, (failed,)), ("p0", "p1")) is None
    wide = grid(200, 200)
    with pytest.raises(AnalysisError, match="40,000 combinations of open levels"):
        complete_block(Knowledge(wide), wide.names)


def test_coverage_by_hand() -> None:
    space = ParameterSpace(
        (Parameter("a", (0, 1, 2)), Parameter("b", (0, 1))), (Exclusion("a == 2 and b == 1"),)
    )
    history = observe_all(space, [(0, 0), (0, 0), (0, 1), (2, 0), (2, 1)])  # the last one excluded
    told = measure_coverage(space, history)
    assert told.parameters == (LevelCoverage(("a",), 2, 3, 0, 3), LevelCoverage(("b",), 2, 2, 1, 3))
    assert told.pairs == (LevelCoverage(("a", "b"), 3, 5, 0, 2),)
    assert (told.n_seen, told.n_allowed, told.share) == (3, 5, 0.6)
    assert measure_coverage(space, ()).share == 0.0


@given(st.data())
def test_coverage_by_brute_force(data: st.DataObject) -> None:
    space = data.draw(spaces())
    history = data.draw(histories(space))
    allowed = [c.level_ids for c in space.configurations()]
    run = [o.configuration.level_ids for o in history if space.is_allowed(o.configuration)]
    told = measure_coverage(space, history)
    for covered in (*told.parameters, *told.pairs):
        at = [space.names.index(name) for name in covered.parameters]
        possible = {tuple(cell[i] for i in at) for cell in allowed}
        seen = [tuple(cell[i] for i in at) for cell in run]
        counts = [seen.count(part) for part in possible]
        assert covered.n_allowed == len(possible)
        assert covered.n_seen == sum(count > 0 for count in counts)
        assert (covered.least, covered.most) == (min(counts, default=0), max(counts, default=0))
        told_parts = space.allowed_combinations(covered.parameters)
        assert told_parts is not None
        product = itertools.product(*(range(space.parameters[i].n_levels) for i in at))
        assert {part for part in product if part in told_parts} == possible
    assert told.n_seen == len(set(run))
