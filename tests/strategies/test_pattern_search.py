"""Pattern search against hand-worked searches."""

from collections.abc import Callable

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
    PatternSearch,
)
from strategies.samplers.pattern_search import first_step, halvings_until_one, poll, replay
from tests.draw.spaces import grid, histories, observe_all, spaces

LINE = grid(17)


def hill(x: int) -> float:
    return -float((x - 11) ** 2)


def on_the_line(*xs: int, quality: Callable[[int], float] = hill) -> tuple[Observation, ...]:
    return observe_all(LINE, [(x,) for x in xs], [quality(x) for x in xs])


@pytest.mark.parametrize(
    ("n_levels", "step"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 4), (17, 8), (22, 8)]
)
def test_the_first_step_goes_twice_into_the_range(n_levels: int, step: int) -> None:
    assert first_step(n_levels) == step


@pytest.mark.parametrize(
    ("runs", "incumbent", "step", "poll_left"),
    [
        # worked by hand for -(x - 11)^2: from 8 both ends fail, 12 succeeds with step 4, its poll
        # (8, 16) is known, so the step is 2; 10 ties and 14 fails; 11 succeeds with step 1
        ((8,), 8, 8, {0, 16}),
        ((8, 0), 8, 8, {16}),
        ((8, 0, 16), 8, 4, {4, 12}),
        ((8, 0, 16, 12), 12, 2, {10, 14}),
        ((8, 0, 16, 12, 10), 12, 2, {14}),
        ((8, 0, 16, 12, 10, 14), 12, 1, {11, 13}),
        ((8, 0, 16, 12, 10, 14, 11), None, 8, set(range(17)) - {8, 0, 16, 12, 10, 14, 11}),
    ],
)
def test_a_search_on_a_line_by_hand(
    runs: tuple[int, ...], incumbent: int | None, step: int, poll_left: set[int]
) -> None:
    knowledge = Knowledge(LINE, on_the_line(*runs))
    state = replay(knowledge)
    found = state.incumbent.configuration.level_ids[0] if state.incumbent else None
    assert found == incumbent
    assert 8 >> state.halvings == step
    suggestions = PatternSearch().suggest(len(poll_left), knowledge, np.random.default_rng(1))
    assert {s.configuration.level_ids[0] for s in suggestions} == poll_left


def test_after_a_failed_finest_poll_the_next_run_is_a_new_start() -> None:
    knowledge = Knowledge(LINE, on_the_line(8, 0, 16, 12, 10, 14, 11, 3))
    state = replay(knowledge)
    assert state.incumbent is not None
    # 3 is worse than 11, but it is where the search started again; 11 = 3 + 8 was run
    assert (state.incumbent.configuration.level_ids, state.starts) == ((3,), 1)
    assert state.halvings == 1
    (suggestion,) = PatternSearch().suggest(1, knowledge, np.random.default_rng(1))
    assert suggestion.configuration.level_ids == (7,)


def test_failures_pending_runs_and_exclusions_count_as_polled() -> None:
    space = ParameterSpace(LINE.parameters, (Exclusion("p0 == 12"),))
    at = {x: Configuration((x,), space.lineage) for x in range(17)}
    knowledge = Knowledge(
        space,
        (Observation(at[8], hill(8)),),
        (Failure(at[0], "no"),),
        frozenset({at[16]}),
        (at[4],),
    )
    assert replay(knowledge).halvings == 2
    suggestions = PatternSearch().suggest(2, knowledge, np.random.default_rng(1))
    assert {s.configuration for s in suggestions} == {at[6], at[10]}


def test_a_batch_goes_on_with_finer_polls_and_says_so() -> None:
    knowledge = Knowledge(LINE, on_the_line(8))
    suggestions = PatternSearch().suggest(9, knowledge, np.random.default_rng(2))
    xs = [s.configuration.level_ids[0] for s in suggestions]
    assert [set(xs[i : i + 2]) for i in (0, 2, 4, 6)] == [{0, 16}, {4, 12}, {6, 10}, {7, 9}]
    assert [s.kind for s in suggestions] == ["poll"] * 8 + ["random"]
    assert {s.near for s in suggestions[:8]} == {knowledge.observations[0].configuration}
    reasons = {s.configuration.level_ids[0]: s.reason for s in suggestions}
    assert reasons[0] == "Poll around p0=8: p0 8 levels down."
    assert reasons[7] == ("Finer poll, if the coarser one fails, around p0=8: p0 1 level down.")


def test_every_other_level_of_a_nominal_parameter_is_polled_at_every_step() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(9))), Parameter("b", ("x", "y", "z"))))
    centre = Configuration((4, 1), space.lineage)
    points = {halvings: [p.level_ids for p in poll(space, centre, halvings)] for halvings in (0, 2)}
    assert points == {
        0: [(0, 1), (8, 1), (4, 0), (4, 2)],
        2: [(3, 1), (5, 1), (4, 0), (4, 2)],
    }
    assert halvings_until_one(space) == 2


def test_steps_are_of_open_levels_in_the_order_of_values() -> None:
    space = ParameterSpace(
        (Parameter("a", (50, 10, 30, 20, 40)),), closed=frozenset({("a", 2), ("a", 0)})
    )
    by_value = {
        value: Configuration((i,), space.lineage)
        for i, value in enumerate(space.parameters[0].levels)
    }
    reached = {
        value: [space.values(p)["a"] for p in poll(space, by_value[value], 0)]
        for value in (10, 20, 30, 40, 50)
    }
    # open are 10, 20 and 40; 30 and 50 are closed and lie between and above
    assert reached == {10: [20], 20: [10, 40], 30: [20, 40], 40: [20], 50: [40]}


def test_the_direction_of_the_last_success_is_polled_first() -> None:
    space = grid(33, 33)
    history = observe_all(space, [(8, 16), (16, 16)], [0.0, 1.0])
    for seed in range(10):
        first, *_ = PatternSearch().suggest(
            4, Knowledge(space, history), np.random.default_rng(seed)
        )
        assert first.configuration.level_ids == (32, 16)


def test_the_incumbent_is_feasible_if_any_run_is() -> None:
    infeasible = Observation(Configuration((4,), LINE.lineage), 99.0, feasible=False, violation=1.0)
    history = (infeasible, *on_the_line(8), infeasible)
    state = replay(Knowledge(LINE, history))
    assert state.incumbent is history[1]


@given(st.data())
def test_the_incumbent_is_the_best_until_the_search_starts_again(data: st.DataObject) -> None:
    space = data.draw(spaces(max_levels=5))
    history = data.draw(histories(space))
    state = replay(Knowledge(space, history))
    assert state == replay(Knowledge(space, history))
    if state.incumbent is not None and state.starts == 0:
        keys = [(o.feasible, o.quality if o.feasible else -o.violation) for o in history]
        assert state.incumbent is history[keys.index(max(keys))]
    assert 0 <= state.halvings <= halvings_until_one(space)


def test_a_quadratic_in_four_parameters_is_climbed_to_its_top() -> None:
    space = grid(*[20] * 4)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        history: list[Observation] = []
        while len(history) < 120:
            for s in PatternSearch().suggest(4, Knowledge(space, tuple(history)), rng):
                ids = s.configuration.level_ids
                history.append(Observation(s.configuration, -float(sum((i - 6) ** 2 for i in ids))))
        assert max(o.quality for o in history) == 0.0
