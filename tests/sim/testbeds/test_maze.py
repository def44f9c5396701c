"""Maze Runner: mazes that are mazes, rules that are kept, games that repeat themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.model.errors import SetupError, UnknownNameError
from sim.testbeds.maze import (
    LEVELS,
    MEASURES,
    WALKERS,
    Game,
    GameResult,
    MazePlan,
    Rules,
    Runner,
    games,
    make_maze,
    measures,
    play,
)

PEACE = Rules(n_enemies=0)
EVERY = [Runner(*levels) for levels in itertools.product(*LEVELS.values())]  # type: ignore[arg-type]
a_seed = st.integers(0, 10_000)


def corridor(n_rooms: int, rubble: frozenset[int] = frozenset()) -> MazePlan:
    beside = tuple(
        tuple(near for near in (room - 1, room + 1) if 0 <= near < n_rooms)
        for room in range(n_rooms)
    )
    return MazePlan(n_rooms, 1, beside, rubble)


def played(runner: Runner, maze: MazePlan, rules: Rules = PEACE, seed: int = 0) -> GameResult:
    return play(Game(maze, (seed,)), runner, rules)


# --- the maze


@settings(max_examples=20)
@given(a_seed, st.integers(3, 12), st.integers(3, 12))
def test_every_room_is_reached_and_passages_lead_both_ways(
    seed: int, columns: int, rows: int
) -> None:
    maze = make_maze(np.random.SeedSequence(seed), columns, rows)
    assert min(maze.steps[maze.way_in]) == 0, "-1 would be out of reach"
    for room, beside in enumerate(maze.beside):
        for near in beside:
            assert room in maze.beside[near]
            (column, row), (other, down) = maze.place(room), maze.place(near)
            assert abs(column - other) + abs(row - down) == 1
    n_passages = sum(map(len, maze.beside)) / 2
    assert n_passages >= maze.n_rooms - 1
    assert not maze.rubble & {maze.way_in, maze.way_out}


def test_a_tree_has_one_way_and_half_of_its_dead_ends_are_opened() -> None:
    ways = [sum(map(len, make_maze(np.random.SeedSequence(s)).beside)) / 2 for s in range(5)]
    assert all(160 + 15 < found < 220 for found in ways), "16 x 11 rooms: a tree has 175"


def test_one_sees_along_corridors_only() -> None:
    assert corridor(9).visible[2] == frozenset(range(8))
    # +--+--+
    # |  .  |   rooms 0 1 / 2 3, open 0-1 and 1-3
    # +--+  +
    bent = MazePlan(2, 2, ((1,), (0, 3), (), (1,)), frozenset())
    assert bent.visible[0] == {0, 1}
    assert bent.visible[1] == {0, 1, 3}


# --- who walks


@pytest.mark.parametrize("movement", WALKERS)
def test_without_enemies_the_time_is_the_way_by_the_velocity(movement: str) -> None:
    found = played(Runner(movement, 2.0, "careful", "ignore"), corridor(11))
    assert found.escaped
    assert found.time_s == pytest.approx(10 * 0.5)
    assert [room for _, room in found.path] == list(range(11))


@settings(max_examples=15)
@given(a_seed)
def test_a_hand_on_the_wall_and_a_memory_always_find_out(seed: int) -> None:
    maze = make_maze(np.random.SeedSequence(seed), 8, 8)
    rules = Rules(n_enemies=0, limit_s=2000.0)
    for movement in ("wall", "memory"):
        found = played(Runner(movement, 2.0, "careful", "ignore"), maze, rules)
        assert found.escaped
        rooms = [room for _, room in found.path]
        assert all(b in maze.beside[a] for a, b in itertools.pairwise(rooms))
        assert len(rooms) - 1 >= maze.steps[maze.way_in][maze.way_out]


def test_the_right_hand_stays_on_the_wall() -> None:
    # rooms 0 1 2 / 3 4 5 / 6 7 8: a dead end at 3 to the right of who goes on from 0
    beside = ((1, 3), (0, 2), (1, 5), (0,), (), (2, 8), (), (), (5,))
    found = played(Runner("wall", 1.0, "careful", "ignore"), MazePlan(3, 3, beside, frozenset()))
    assert [room for _, room in found.path] == [0, 3, 0, 1, 2, 5, 8]


def test_a_memory_goes_the_shortest_way_in_sight_and_does_not_enter_what_it_sees_is_blind() -> None:
    # 0 1 2      0-3-6-7-8 leads out, and 0-1-2 is a dead end, which from the way in is in sight;
    # 3 4 5      with a way from 2 down to 5 it would be as short, and 1 is the lower number
    # 6 7 8
    beside = ((1, 3), (0, 2), (1,), (0, 6), (), (), (3, 7), (6, 8), (7,))
    found = played(Runner("memory", 1.0, "careful", "ignore"), MazePlan(3, 3, beside, frozenset()))
    assert [room for _, room in found.path] == [0, 3, 6, 7, 8]


@settings(max_examples=20)
@given(a_seed)
def test_a_memory_never_thinks_the_way_longer_than_it_is(seed: int) -> None:
    maze = make_maze(np.random.SeedSequence(seed), 8, 8)
    walker = WALKERS["memory"](maze, lambda _: 0)
    room, left = maze.way_in, []
    while room != maze.way_out:
        near = walker.next_room(room)
        left.append(walker._left[near] + 1)  # type: ignore[attr-defined]
        assert left[-1] <= maze.steps[room][maze.way_out]
        known: set[int] = walker._known  # type: ignore[attr-defined]
        perhaps = tuple(
            tuple(
                other
                for other in maze.around[one]
                if other in maze.beside[one] or not known & {one, other}
            )
            for one in range(maze.n_rooms)
        )
        thought = MazePlan(maze.columns, maze.rows, perhaps, frozenset())._steps_from(maze.way_out)
        assert tuple(walker._left) == thought  # type: ignore[attr-defined]
        walker.moved(room, near)
        room = near
        assert len(left) < 4 * maze.n_rooms


# --- slips and enemies


@pytest.mark.parametrize(
    ("footing", "velocity", "expected"),
    [("careful", 1.0, 0.05), ("careful", 2.0, 0.2), ("hasty", 1.0, 0.2), ("hasty", 2.0, 0.8)],
)
def test_the_chance_of_a_slip_grows_with_the_square_of_the_velocity(
    footing: str, velocity: float, expected: float
) -> None:
    n = 600
    maze = corridor(n + 2, frozenset(range(1, n + 1)))
    runner = Runner("wall", velocity, footing, "ignore")
    found = played(runner, maze, Rules(n_enemies=0, limit_s=1e5))
    slips = found.count("slipped")
    assert slips / n == pytest.approx(expected, abs=4 * (0.25 / n) ** 0.5)
    each = (2 if footing == "careful" else 1) * round(10 / velocity)
    down = round(15 * velocity) * slips
    assert found.time_s * 10 == pytest.approx(n * each + down + round(10 / velocity))


def test_who_lies_is_carried_back_and_who_stands_shakes_it_off() -> None:
    fallen, stood = 0, 0
    maze, rules = games(0, 1, Rules())[0].maze, Rules(n_enemies=12)
    runner = Runner("memory", 2.0, "hasty", "ignore")
    for seed in range(8):
        found = played(runner, maze, rules, seed)
        at = {one.at_s: one for one in found.happenings if one.kind == "slipped"}
        for one in found.happenings:
            if one.kind == "carried back":
                fallen += 1
                down_at = max(s for s in at if s <= one.at_s)
                assert one.at_s - down_at < 1.5 * 2.0
                assert (one.at_s, maze.way_in) in found.path
            stood += one.kind == "shook off"
    assert fallen > 5
    assert stood > 5


def test_hiding_keeps_enemies_off_and_costs_time() -> None:
    rules = Rules()
    shaken = {}
    for answer in ("ignore", "hide"):
        won = [
            play(game, Runner("wander", 1.0, "careful", answer), rules)
            for game in games(0, 20, rules)
        ]
        seconds = sum(one.path[-1][0] for one in won)
        shaken[answer] = sum(one.count("shook off", "carried back") for one in won) / seconds
    assert shaken["hide"] < 0.8 * shaken["ignore"]


@settings(max_examples=10)
@given(a_seed, st.sampled_from(EVERY))
def test_a_game_keeps_its_rules(seed: int, runner: Runner) -> None:
    rules = Rules(columns=8, rows=6, limit_s=60.0)
    maze = make_maze(np.random.SeedSequence(seed), rules.columns, rules.rows)
    found = played(runner, maze, rules, seed)
    again = played(runner, maze, rules, seed)
    assert (found.time_s, found.path, found.happenings) == (
        again.time_s, again.path, again.happenings,
    )  # fmt: skip
    assert found.escaped == (found.path[-1][1] == maze.way_out)
    assert found.time_s <= 60.0
    assert found.escaped or found.time_s == 60.0
    times = [at for at, _ in found.path]
    assert times == sorted(times)
    back = {one.at_s for one in found.happenings if one.kind == "carried back"}
    for (_, a), (at, b) in itertools.pairwise(found.path):
        assert b in maze.beside[a] or (b == maze.way_in and at in back)
    for path in found.enemy_paths:
        assert all(b in maze.beside[a] for a, b in itertools.pairwise(path))
    least = maze.steps[maze.way_in][maze.way_out]
    assert not found.escaped or len(found.path) > least


def test_enemies_begin_where_they_begin_whatever_the_runner_does() -> None:
    maze = games(1, 1, Rules())[0].maze
    starts = {
        tuple(path[0] for path in played(runner, maze, Rules(), 5).enemy_paths)
        for runner in EVERY[::11]
    }
    assert len(starts) == 1
    assert all(maze.steps[maze.way_in][room] >= 8 for room in next(iter(starts)))


def test_measures_are_means_and_a_lost_game_counts_with_its_limit() -> None:
    won = GameResult(10.0, True, ((0.0, 0), (1.0, 1)), (), ())
    lost = GameResult(60.0, False, ((0.0, 0),), (), ())
    found = measures([won, lost])
    assert tuple(found) == MEASURES
    assert (found["time_s"], found["escaped_pct"], found["rooms"]) == (35.0, 50.0, 0.5)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(UnknownNameError, match="no movement 'wal'; did you mean 'wall'"):
        Runner("wal", 1.0, "careful", "ignore")
    with pytest.raises(SetupError, match=r"velocity is 0.0; allowed are 0.1 to 10"):
        Runner("wall", 0.0, "careful", "ignore")
    with pytest.raises(SetupError, match="a maze of 2 x 5 rooms"):
        make_maze(np.random.SeedSequence(0), 2, 5)
    for seed, n_games in ((-3, 1), (0, 0)):
        with pytest.raises(SetupError, match=rf"seed {seed} and {n_games} games; allowed are"):
            games(seed, n_games, Rules())
    with pytest.raises(SetupError, match="-1 enemies"):
        Rules(n_enemies=-1)
