"""The folded map: every configuration has one cell, and a cell says what lies there."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import Follower
from assistant import Session, Sla, open_session
from assistant.analysis.response_map import (
    ANY,
    MOST_CELLS,
    CellAdmission,
    Fold,
    admitted,
    arrange_axes,
    build_grid,
    fix_levels,
    from_key,
    key_of,
    measure_cells,
    regions_of,
)
from assistant.core.errors import ExperimentError
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import (
    Configuration,
    Exclusion,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
    RegionRule,
    StrategyError,
    find_regions,
)
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.draw.spaces import configurations, spaces

SPACE = ParameterSpace(
    (Parameter("a", (4, 1, 2)), Parameter("b", ("x", "y")), Parameter("c", (0, 1)))
)


def all_of(space: ParameterSpace) -> list[Configuration]:
    return [space.configuration(i) for i in range(space.size)]


# -- folding -----------------------------------------------------------------------------------


def test_the_first_parameter_moves_slowest_and_levels_go_by_rank() -> None:
    grid = build_grid(SPACE, Fold(("a", "b"), ("c",)))
    assert (grid.columns, grid.rows) == (6, 2)
    values = [SPACE.values(Configuration(tuple(ids), SPACE.lineage)) for ids in grid.level_ids]
    assert [(v["a"], v["b"]) for v in values[:6]] == [
        (1, "x"), (1, "y"), (2, "x"), (2, "y"), (4, "x"), (4, "y"),
    ]  # fmt: skip
    assert [v["c"] for v in values] == [0] * 6 + [1] * 6


@given(st.data())
@settings(max_examples=40)
def test_every_configuration_has_its_own_cell(data: st.DataObject) -> None:
    space = data.draw(spaces())
    names = data.draw(st.permutations(space.names))
    cut = data.draw(st.integers(0, len(names)))
    grid = build_grid(space, Fold(tuple(names[:cut]), tuple(names[cut:])))
    places = {grid.place(c) for c in all_of(space)}
    assert len(places) == grid.columns * grid.rows == space.size
    for configuration in all_of(space):
        place = grid.place(configuration)
        assert place is not None
        assert tuple(grid.level_ids[grid.cell(place)]) == configuration.level_ids


def test_a_cell_of_an_inactive_level_is_another_one_and_not_excluded() -> None:
    kernel = Parameter("kernel", ("linear", "rbf"))
    gamma = Parameter("gamma", (0.1, 1), when="kernel == 'rbf'")
    space = ParameterSpace((kernel, gamma))
    states, _ = admitted(build_grid(space, Fold(("kernel", "gamma"))))
    assert states.tolist() == [0, CellAdmission.INACTIVE, 0, 0]


def test_what_is_held_is_the_same_in_every_cell_and_what_is_not_falls_together() -> None:
    grid = build_grid(SPACE, Fold(("a",), (), {"b": "y"}))
    assert grid.over == (2,)
    assert {tuple(ids[1:]) for ids in grid.level_ids.tolist()} == {(1, ANY)}
    assert grid.place(SPACE.from_values({"a": 4, "b": "x", "c": 0})) is None
    for c in (0, 1):
        assert grid.place(SPACE.from_values({"a": 4, "b": "y", "c": c})) == (2, 0)


@given(st.data())
@settings(max_examples=40)
def test_a_fold_that_is_held_at_a_configuration_goes_through_it(data: st.DataObject) -> None:
    space = data.draw(spaces())
    names = data.draw(st.lists(st.sampled_from(space.names), unique=True))
    configuration = data.draw(configurations(space))
    grid = build_grid(space, fix_levels(space, Fold(tuple(names)), configuration))
    place = grid.place(configuration)
    assert grid.over == ()
    assert place is not None
    assert tuple(grid.level_ids[grid.cell(place)]) == configuration.level_ids


@pytest.mark.parametrize(
    ("fold", "told"),
    [
        (Fold(("a",), ("a",)), "'a' is on the map twice"),
        (Fold(("a",), (), {"a": 1}), "'a' is on the map twice"),
    ],
)
def test_a_parameter_lies_in_one_place(fold: Fold, told: str) -> None:
    with pytest.raises(ExperimentError, match=told):
        build_grid(SPACE, fold)


def test_what_cannot_be_folded_is_refused_in_words() -> None:
    with pytest.raises(StrategyError, match="no parameter 'd'"):
        build_grid(SPACE, Fold(("d",)))
    with pytest.raises(StrategyError, match="has no level 3"):
        build_grid(SPACE, Fold(("b",), (), {"a": 3}))
    wide = ParameterSpace((Parameter("n", tuple(range(200))), Parameter("m", tuple(range(200)))))
    with pytest.raises(ExperimentError, match="200 x 200 cells; a map has at most 20,000"):
        build_grid(wide, Fold(("n",), ("m",)))
    long = ParameterSpace((Parameter("n", tuple(range(1_001))),))
    with pytest.raises(ExperimentError, match="1,000 along an axis"):
        build_grid(long, Fold(("n",)))


# -- the arrangement ---------------------------------------------------------------------------


def sides(space: ParameterSpace, fold: Fold) -> tuple[int, int]:
    across, down = (
        math.prod(space.parameter(name).n_levels for name in axis)
        for axis in (fold.across, fold.down)
    )
    return across, down


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [((6, 6, 6, 6), (36, 36)), ((3, 3, 2, 3), (9, 6)), ((22, 20, 20), (400, 22)), ((7,), (7, 1))],
)
def test_the_papers_spaces_are_nearly_square(
    levels: tuple[int, ...], wanted: tuple[int, int]
) -> None:
    space = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(n))) for i, n in enumerate(levels)))
    assert sides(space, arrange_axes(space, {})) == wanted


def test_what_matters_most_is_outermost() -> None:
    space = ParameterSpace(tuple(Parameter(name, (0, 1, 2)) for name in "abcd"))
    fold = arrange_axes(space, {"c": 0.6, "d": 0.3, "b": 0.1})
    rank = "cdba".index
    assert {*fold.across, *fold.down} == {*"abcd"}
    for axis in (fold.across, fold.down):
        assert list(axis) == sorted(axis, key=rank)
    assert "c" in (fold.across[0], fold.down[0])


def test_a_great_space_shows_what_matters_and_stays_lazy() -> None:
    space = ParameterSpace(tuple(Parameter(f"k{i}", tuple(range(10))) for i in range(12)))
    fold = arrange_axes(space, {"k7": 0.5, "k11": 0.3, "k2": 0.1, "k9": 0.05})
    assert {*fold.axes} == {"k7", "k11", "k2", "k9"}
    best = space.configuration(123_456_789_012)
    grid = build_grid(space, fix_levels(space, fold, best))
    states, is_known = admitted(grid)
    assert len(grid.level_ids) == 10_000 <= MOST_CELLS
    assert grid.place(best) is not None
    assert is_known
    assert not states.any()


@given(spaces(max_parameters=4))
@settings(max_examples=30)
def test_no_split_is_nearer_to_a_square(space: ParameterSpace) -> None:
    fold = arrange_axes(space, {})
    varied = [p for p in space.parameters if p.n_levels > 1]
    assert {*fold.axes} == {p.name for p in varied}
    across, down = sides(space, fold)
    best = min(
        abs(math.log(across * down) - 2 * math.log(math.prod(p.n_levels for p in part)))
        for n in range(len(varied) + 1)
        for part in itertools.combinations(varied, n)
    )
    assert abs(math.log(across / down)) == pytest.approx(best)
    assert across >= down


# -- what lies there ---------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=40)
def test_a_cell_is_open_if_one_of_its_configurations_is(data: st.DataObject) -> None:
    space = data.draw(spaces())
    shown = data.draw(st.lists(st.sampled_from(space.names), unique=True))
    grid = build_grid(space, Fold(tuple(shown)))
    states, is_known = admitted(grid)
    assert is_known
    wanted = np.zeros(len(states), dtype=np.bool_)
    for configuration in space.configurations():
        place = grid.place(configuration)
        assert place is not None
        wanted[grid.cell(place)] = True
    assert ((states == CellAdmission.OPEN) == wanted).all()


def test_closed_and_excluded_are_told_apart() -> None:
    space = SPACE.closing("a", 2).excluding(Exclusion("a == 4 and b == 'x'"))
    states, _ = admitted(build_grid(space, Fold(("a", "b"), ("c",))))
    row = [
        CellAdmission.OPEN,
        CellAdmission.OPEN,
        CellAdmission.CLOSED,
        CellAdmission.CLOSED,
        CellAdmission.EXCLUDED,
        CellAdmission.OPEN,
    ]
    assert states.tolist() == row * 2


def test_exclusions_over_too_much_are_said_to_be_unknown() -> None:
    space = ParameterSpace(
        tuple(Parameter(name, tuple(range(100))) for name in "abc"),
        (Exclusion("a + b + c < 10"),),
    ).closing("a", 3)
    states, is_known = admitted(build_grid(space, Fold(("a",))))
    assert not is_known
    assert np.flatnonzero(states).tolist() == [3]


def swept(runs: int = 12) -> Session:
    bowl = Bowl(baseline=TODAY, fail_at_x=3)
    session = open_session(bowl, store=MemoryStore(), sla=Sla(runs), clock=TickingClock())
    Follower(initial=4).steer(session, SerialExecutor(bowl))
    return session


def test_measured_cells_hold_the_runs_and_nothing_else() -> None:
    experiment = swept().experiment
    grid = build_grid(experiment.space, Fold(("x", "mode"), ("y",)))
    cells = measure_cells(grid, experiment.runs)
    for cell, ids in enumerate(grid.level_ids.tolist()):
        stand = experiment.summaries.get(Configuration(tuple(ids), experiment.space.lineage))
        if stand is None:
            assert np.isnan(cells.values[cell])
            assert cells.n_runs[cell] == 0
        else:
            assert (cells.values[cell], cells.n_runs[cell]) == (stand.outcome.value, stand.n)
    assert cells.outside == 0


def test_configurations_that_fall_together_show_the_best() -> None:
    experiment = swept().experiment
    cells = measure_cells(build_grid(experiment.space, Fold(("x",))), experiment.runs)
    for x in range(4):
        own = [
            run.outcome.value
            for run in experiment.runs
            if run.outcome is not None and run.configuration.level_ids[0] == x
        ]
        assert cells.n_runs[x] == len(own)
        assert (min(own) == cells.values[x]) if own else np.isnan(cells.values[x])
    held = measure_cells(
        build_grid(experiment.space, Fold(("x",), (), {"mode": "odd"})), experiment.runs
    )
    assert held.outside + held.n_runs.sum() == cells.n_runs.sum()
    assert held.outside > 0


@given(st.data())
@settings(max_examples=40)
def test_regions_are_those_that_contain_the_cell(data: st.DataObject) -> None:
    space = data.draw(spaces(exclusions=False))
    some = data.draw(st.lists(configurations(space), min_size=1, max_size=8, unique=True))
    seen = tuple(Observation(c, float(i % 3)) for i, c in enumerate(some))
    rule = RegionRule(quantile=0.6, min_samples=1, eps=data.draw(st.sampled_from((0.5, 1.0, 1.5))))
    regions = find_regions(Knowledge(space, seen), rule)
    grid = build_grid(space, Fold(space.names))
    found = regions_of(grid, regions, rule.radius)
    for configuration in all_of(space):
        place = grid.place(configuration)
        assert place is not None
        homes = [r.id for r in regions if r.contains(space, configuration, rule.radius)]
        assert found[grid.cell(place)] == min(homes, default=0)
    part = build_grid(space, Fold(space.names[:1]))
    together = regions_of(part, regions, rule.radius)
    for cell in range(len(together)):
        inside = [
            found[grid.cell(place)]
            for c in all_of(space)
            if part.place(c) == (cell, 0) and (place := grid.place(c)) is not None
        ]
        assert together[cell] == min((i for i in inside if i), default=0)


# -- keys --------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=40)
def test_a_key_leads_back_whatever_its_order(data: st.DataObject) -> None:
    space = data.draw(spaces())
    configuration = data.draw(configurations(space))
    parts = key_of(configuration.level_ids).split()
    key = " ".join(data.draw(st.permutations(parts)))
    other = space.values(data.draw(configurations(space)))
    assert from_key(space, key, other) == configuration
    assert from_key(space, "", other) == space.from_values(other)


@pytest.mark.parametrize("key", ["nonsense", "0:9", "7:0", "0:-1", "-1:0", "0"])
def test_a_key_of_nothing_is_refused(key: str) -> None:
    with pytest.raises(ExperimentError, match="is no cell of this map"):
        from_key(SPACE, key, {"a": 1, "b": "x", "c": 0})
