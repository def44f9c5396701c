"""Particle swarm: moves worked by hand, dealing, and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    Exclusion,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    ParticleSwarm,
)
from strategies.space.parameter import show_values
from tests.draw.spaces import grid, observe_all, spaces

LINE = grid(101)


def seen(x: int, quality: float = 0.0, space: ParameterSpace = LINE) -> Observation:
    return Observation(Configuration((x,), space.lineage), quality)


def test_inertia_alone_repeats_the_last_move_and_the_end_stops_it() -> None:
    swarm = ParticleSwarm(inertia=1.0, cognitive=0.0, social=0.0)
    rng = np.random.default_rng(1)
    for before, here, there in ((10, 30, 50), (30, 10, 0), (20, 20, 20), (60, 90, 100)):
        history = (seen(before), seen(here))
        assert swarm.moved(LINE, history, history[0], rng).level_ids == (there,)
    # no move is longer than half the range
    assert swarm.moved(LINE, (seen(0), seen(80)), seen(0), rng).level_ids == (100,)
    assert swarm.moved(LINE, (seen(100), seen(30)), seen(0), rng).level_ids == (0,)
    assert swarm.moved(LINE, (seen(0), seen(40)), seen(0), rng).level_ids == (80,)
    half = ParticleSwarm(inertia=0.5, cognitive=0.0, social=0.0)
    assert half.moved(LINE, (seen(10), seen(30)), seen(0), rng).level_ids == (40,)


def test_the_pulls_are_those_of_the_equation() -> None:
    """Beside the same two draws per parameter."""
    swarm = ParticleSwarm(inertia=0.5, cognitive=1.0, social=2.0)
    history = (seen(20, 5.0), seen(40, 1.0))  # own best at 20, moving up by 20
    for seed in range(30):
        r1, r2 = np.random.default_rng(seed).random(2)
        velocity = 0.5 * 20 + 1.0 * r1 * (20 - 40) + 2.0 * r2 * (60 - 40)
        x = min(max(40 + min(max(velocity, -50), 50), 0), 100)
        (found,) = swarm.moved(LINE, history, seen(60, 9.0), np.random.default_rng(seed)).level_ids
        assert abs(found - x) <= 0.5


def test_a_nominal_parameter_keeps_its_level_or_takes_one_of_the_two_bests() -> None:
    space = ParameterSpace((Parameter("b", tuple("stuvwxyz")),))
    history = (seen(1, 5.0, space), seen(2, 1.0, space))
    swarm_best = seen(3, 9.0, space)
    rng = np.random.default_rng(1)

    def reached(**options: float) -> set[int]:
        swarm = ParticleSwarm(**options)  # type: ignore[arg-type]
        moves = (swarm.moved(space, history, swarm_best, rng) for _ in range(200))
        return {move.level_ids[0] for move in moves}

    assert reached() == {1, 2, 3}
    assert reached(inertia=0.0) == {1, 3}
    assert reached(inertia=0.0, cognitive=0.0) == {3}
    assert reached(cognitive=0.0, social=0.0) == {2}
    assert reached(inertia=0.0, cognitive=0.0, social=0.0) == {2}


def test_runs_are_dealt_in_turn() -> None:
    history = tuple(seen(x, float(x)) for x in range(7))
    dealt = ParticleSwarm(particles=3).deal(history)
    assert [[o.configuration.level_ids[0] for o in own] for own in dealt] == [
        [0, 3, 6], [1, 4], [2, 5],
    ]  # fmt: skip


def test_the_first_positions_are_balanced_and_later_runs_move_the_particles_in_turn() -> None:
    space = grid(4, 8)
    swarm = ParticleSwarm(particles=8)
    rng = np.random.default_rng(3)
    first = swarm.suggest(8, Knowledge(space), rng)
    assert sorted(s.configuration.level_ids[1] for s in first) == list(range(8))
    assert first[2].reason == (
        "First position of particle 3 of 8, with levels spread evenly over the swarm."
    )
    assert {s.kind for s in first} == {"initial"}
    history = tuple(Observation(s.configuration, float(i)) for i, s in enumerate(first))
    more = swarm.suggest(3, Knowledge(space, history), rng)
    assert [s.near for s in more] == [s.configuration for s in first[:3]]
    assert {s.kind for s in more} == {"particle"}
    # runs that go on have had their turn
    going = tuple(s.configuration for s in more)
    after = swarm.suggest(1, Knowledge(space, history, running=going), rng)
    assert after[0].near == first[3].configuration
    assert after[0].reason.startswith("Particle 4 of 8 moves from p0=")
    own, best = (show_values(space.values(first[i].configuration)) for i in (3, 7))
    assert f"drawn to its own best ({own}) and the swarm's best ({best})" in after[0].reason


def test_a_particle_that_cannot_land_goes_next_to_where_it_would() -> None:
    swarm = ParticleSwarm(particles=1, inertia=1.0, cognitive=0.0, social=0.0)
    history = tuple(seen(x) for x in (50, 10, 30))  # it would land at 50
    (suggestion,) = swarm.suggest(1, Knowledge(LINE, history), np.random.default_rng(1))
    assert suggestion.configuration.level_ids[0] in (49, 51)
    assert suggestion.reason.endswith("; its target is taken, so this is the nearest free one.")
    space = ParameterSpace(LINE.parameters, (Exclusion("p0 == 50"),))
    history = tuple(seen(x, 0.0, space) for x in (10, 30))
    (suggestion,) = swarm.suggest(1, Knowledge(space, history), np.random.default_rng(1))
    assert "its target is excluded" in suggestion.reason


@given(st.data())
def test_a_move_ends_at_open_levels(data: st.DataObject) -> None:
    space = data.draw(spaces(exclusions=False))
    index = st.integers(0, space.size - 1)
    drawn = data.draw(st.lists(index, min_size=1, max_size=4))
    history = observe_all(
        space, [space.configuration(i).level_ids for i in drawn], [float(i % 3) for i in drawn]
    )
    target = ParticleSwarm().moved(space, history, history[0], np.random.default_rng(1))
    assert all(i in ids for i, ids in zip(target.level_ids, space.open_ids, strict=True))


def test_a_quadratic_is_approached() -> None:
    space = grid(*[20] * 4)
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        history: list[Observation] = []
        while len(history) < 120:
            for s in ParticleSwarm().suggest(5, Knowledge(space, tuple(history)), rng):
                ids = s.configuration.level_ids
                history.append(Observation(s.configuration, -float(sum((i - 6) ** 2 for i in ids))))
        found.append(max(o.quality for o in history))
    assert np.mean(found) >= -6  # random search: about -30


@pytest.mark.parametrize(
    "options",
    [
        {"particles": 0}, {"particles": 2.0}, {"particles": True}, {"inertia": 1.1},
        {"inertia": -0.1}, {"cognitive": 4.5}, {"social": float("nan")}, {"social": "much"},
    ],
)  # fmt: skip
def test_options_are_refused_in_a_sentence(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(OptionError, match=rf"{name}=.* must be "):
        ParticleSwarm(**options)  # type: ignore[arg-type]
