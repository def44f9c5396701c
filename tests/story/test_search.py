"""The search benchmark: its arithmetic, its generated spaces, and what peers are told.

None of this needs a peer itself: a package of the same name, made here, stands for Optuna.
"""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import AssistantError
from benchmarks import search
from benchmarks.episodes import Method, PeerChooser, play
from benchmarks.learning import Pair, best_first, pairs_in, ratio_over_seeds
from benchmarks.peers import PeerError, searches
from benchmarks.peers.search_child import OPTIONS, PACKAGES, Worst
from benchmarks.runs_to_goal import (
    GOALS,
    n_duplicates,
    ratio_of_log_means,
    ratio_of_medians,
    runs_to,
)
from benchmarks.spaces import (
    FAMILIES,
    LEAST_SIZE,
    MOST_SIZE,
    Problem,
    from_table,
    generated,
    one_hot,
)
from sim.formats import write_swf
from sim.generators import default_workload
from strategies import Parameter, ParameterSpace, StrategyError

NAN = math.nan
TABLE = "size,kind,flag,fixed,objective\n" + "".join(
    f"{size},{kind},{flag},1,{size + 10 * len(kind) + flag}\n"
    for size, kind, flag in itertools.product((4, 1, 2), ("b", "aa"), (0, 1))
    if (size, kind) != (4, "aa")  # two combinations of twelve fail
)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (tmp_path / "small.csv").write_text(TABLE)
    return from_table(tmp_path / "small.csv")


def test_a_table_of_switches_is_searched_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sorts.csv"
    path.write_text("quick,merge,n,objective\n1,0,1,4\n1,0,2,3\n0,1,1,2\n0,1,2,1\n")
    kept, merged = search.table_problems(path, "keep"), search.table_problems(path, "merge")
    assert [(one.name, one.space.size) for one in (*kept, *merged)] == [
        ("sorts", 8), ("sorts, merged", 4),
    ]  # fmt: skip
    assert [list(one.valid) for one in (*kept, *merged)] == [[1, 2, 3, 4]] * 2
    both = {one.name for one in search.table_problems(path, "both")}
    assert both == {"sorts", "sorts, merged"}
    path.write_text("quick,objective\n1,4\n1\n")
    assert search.table_problems(path, "keep") == []
    assert f"left out: {path}, line 3 has 1 fields" in capsys.readouterr().err


def test_a_sample_of_its_combinations_is_searched_by_its_rows(tmp_path: Path) -> None:
    head = "".join(f"x{i}," for i in range(12))
    rows = [f"{number:012b}" for number in (5, 9, 700, 4000)]
    text = "".join(f"{','.join(row)},{n}\n" for n, row in enumerate(rows))
    (tmp_path / "few.csv").write_text(f"{head}objective\n{text}")
    one = from_table(tmp_path / "few.csv")
    assert (one.size, one.n_failing, sorted(one.objective)) == (4, 0, [0, 1, 2, 3])
    for index in range(4):
        assert one.index(one.configuration(index)) == index
    told = play(one, Method.parse("random"), 0, 9, python="", to_optimum=False)
    assert sorted(told["proposals"].split()) == ["0", "1", "2", "3"]
    near = one.space.from_values({f"x{i}": int(d) for i, d in enumerate(rows[3])}).level_ids
    assert one.objective[one.nearest(near)] == 3
    other = tuple(1 - i if place == 11 else i for place, i in enumerate(near))
    assert one.objective[one.nearest(other)] == 3  # the row that differs in one level


@pytest.mark.parametrize(
    ("goal", "runs"), [(9.0, 1), (5.0, 3), (4.0, 5), (3.0, 8), (2.0, 8), (-1.0, 8)]
)
def test_runs_to_a_goal_by_hand(goal: float, runs: int) -> None:
    # the seventh run is the last that counts; not reached is one run more, reached late too
    values = np.array([8.0, NAN, 5.0, 5.0, 4.0, NAN, 6.0, 7.0, 2.0])
    assert runs_to(values, goal, budget=7) == runs


def test_an_episode_that_ends_early_did_not_arrive() -> None:
    assert runs_to(np.array([3.0, 2.0]), 1.0, budget=100) == 101
    assert runs_to(np.array([]), 1.0, budget=100) == 101


def test_repeats_are_counted_beyond_the_first() -> None:
    assert n_duplicates([4, 4, 4, 2, 2, 9]) == 3
    assert n_duplicates([]) == 0


def test_the_goal_is_a_share_of_the_way_from_best_to_median() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(8))),))
    objective = np.array([NAN, 10.0, 10.4, 14.0, 20.0, 10.5, 500.0, 900.0])
    one = Problem("by hand", "measured", space, objective)
    assert one.goal(0.0) == 10.0
    assert one.goal(0.1) == pytest.approx(10.4)  # the median of the seven is 14
    assert [one.n_within(share) for share in (0.0, 0.11, 0.125, 1.0)] == [1, 2, 3, 4]


def test_ratios_by_hand() -> None:
    ours = {"x": {0: 10, 1: 30, 2: 20}, "y": {0: 50, 1: 50}, "only ours": {0: 1}}
    theirs = {"x": {0: 80, 1: 40, 2: 40, 3: 1}, "y": {1: 100, 0: 25}, "only theirs": {0: 1}}
    # x: 20 / 40; y: 50 / 62.5
    medians = ratio_of_medians(ours, theirs)
    assert medians is not None
    assert medians.value == pytest.approx(math.sqrt(0.5 * 0.8))
    assert (medians.low, medians.high) == (pytest.approx(0.5), pytest.approx(0.8))
    # x: (10 30 20 / (80 40 40))^(1/3); y: (50 50 / (100 25))^(1/2) = 1
    logs = ratio_of_log_means(ours, theirs)
    assert logs is not None
    assert logs.value == pytest.approx(((6000 / 128000) ** (1 / 3)) ** 0.5)
    assert str(medians) == "0.63 [0.50, 0.80]"


def test_one_space_has_no_interval_and_none_no_ratio() -> None:
    alone = ratio_of_medians({"x": {0: 10}}, {"x": {0: 20}})
    assert alone is not None
    assert (str(alone), alone.low) == ("0.50", None)
    assert ratio_of_medians({"x": {0: 10}}, {"x": {1: 20}}) is None


runs_of_spaces = st.lists(
    st.lists(st.tuples(st.integers(1, 101), st.integers(1, 101)), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


@given(runs_of_spaces)
def test_the_ratio_turned_round_is_its_inverse(told: list[list[tuple[int, int]]]) -> None:
    ours, theirs = (
        {str(i): {s: pair[k] for s, pair in enumerate(pairs)} for i, pairs in enumerate(told)}
        for k in (0, 1)
    )
    for compare in (ratio_of_medians, ratio_of_log_means):
        one, other = compare(ours, theirs), compare(theirs, ours)
        assert one is not None
        assert other is not None
        assert one.value * other.value == pytest.approx(1)
        if one.low is not None and one.high is not None:
            assert one.low <= one.value * (1 + 1e-9)
            assert one.value <= one.high * (1 + 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_a_generated_space_is_the_one_it_says(family: str, seed: int) -> None:
    one = generated(family, seed)
    assert LEAST_SIZE <= one.space.size == len(one.objective) <= MOST_SIZE
    assert 6 <= len(one.space.parameters) <= 8
    assert one.optimum is not None
    assert one.objective[one.optimum] == np.nanmin(one.objective)
    assert np.nanmin(one.objective) > 0, "some searches model the logarithm"
    again, other = generated(family, seed), generated(family, seed + 100)
    np.testing.assert_array_equal(again.objective, one.objective)
    assert len(other.objective) != len(one.objective) or (other.objective != one.objective).any()


@pytest.mark.parametrize("seed", range(4))
def test_generated_spaces_are_what_their_names_say(seed: int) -> None:
    assert all(np.isfinite(generated(f, seed).objective).all() for f in FAMILIES if f != "gaps")
    gaps = generated("gaps", seed)
    assert 0.05 < np.isnan(gaps.objective).mean() < 0.95
    flat = generated("plateau", seed)
    assert len(np.unique(flat.objective)) <= 15
    nominal = [p.kind == "nominal" for p in generated("categorical", seed).space.parameters]
    assert sum(nominal) >= len(nominal) / 2


@pytest.mark.parametrize(("seed", "n_columns"), [(0, 0), (1, 0), (2, 125)])
def test_builds_are_rows_of_switches_with_alternatives(seed: int, n_columns: int) -> None:
    one = one_hot(seed, n_columns)
    rows = np.array(one.space.rows)
    assert rows.shape[1] in ([n_columns] if n_columns else range(20, 61))
    assert 1_000 < len(rows) == len(set(one.space.rows)) == one.size == len(one.valid)
    assert (rows[:, :5].sum(axis=1) >= 1).all(), "one of the first set of alternatives"
    assert one.noise == (0.0, 0.05, 0.2)[seed]
    assert [search.TRAITS[trait](one) for trait in ("no run fails", "two levels each")] == [
        True
    ] * 2
    assert search.TRAITS["noise by construction"](one) == (seed > 0)
    again = one_hot(seed, n_columns)
    np.testing.assert_array_equal(again.objective, one.objective)


def test_what_a_source_is_worth_without_a_model() -> None:
    here = ParameterSpace((Parameter("a", (2, 3, 4)), Parameter("b", ("x", "y"))))
    there = ParameterSpace((Parameter("b", ("y", "x")), Parameter("a", (1, 2, 3))))
    source = Problem("there", "measured", there, np.array([5.0, 3.0, NAN, 1.0, 2.0, 3.0]))
    target = Problem("here", "measured", here, np.array([10.0, 11.0, 12.0, 13.0, 14.0, NAN]))
    ranked = best_first(source, range(6))
    assert ranked == [3, 4, 1, 5, 0], "what failed is left out, equals are in their order"
    moved = Pair(source, target).moved(ranked)  # x 1, x 2, y 2, x 3, y 1
    np.testing.assert_array_equal(moved, [NAN, 10.0, 11.0, 12.0, NAN])
    ratio = ratio_over_seeds({0: 10, 1: 20}, {0: 20, 1: 40})
    assert ratio is not None
    assert str(ratio) == "0.50 [0.50, 0.50]"


def test_traits_follow_from_the_results() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(2_000))), Parameter("b", (0, 1))))
    rough = Problem("rough", "generated", space, np.arange(4_000.0) ** 2 + 5_000_000)
    flat = Problem("flat", "generated", space, np.append(NAN, np.arange(3_999.0) // 2))
    few = Problem("few", "generated", space, np.append(0.0, np.full(3_999, 1.0)))
    traits = {
        one.name: {trait for trait, has in search.TRAITS.items() if has(one)}
        for one in (rough, flat, few)
    }
    repeated = "half of the results are repeated"
    assert traits == {
        "rough": {"no run fails"},
        "flat": {"some runs fail"},
        "few": {"no run fails", "at most 0.1 % within 5 %", repeated},
    }


def test_an_additive_space_has_no_interactions() -> None:
    one = generated("additive", 1)
    shape = tuple(p.n_levels for p in one.space.parameters)
    values = one.objective.reshape(shape)
    mixed = values[1:, 1:] - values[:-1, 1:] - values[1:, :-1] + values[:-1, :-1]
    assert np.abs(mixed).max() < 1e-9
    askew = generated("interacting", 1).objective
    shape = tuple(p.n_levels for p in generated("interacting", 1).space.parameters)
    values = askew.reshape(shape)
    mixed = values[1:, 1:] - values[:-1, 1:] - values[1:, :-1] + values[:-1, :-1]
    assert np.abs(mixed).max() > 1e-3


def test_ours_never_repeat_and_end_when_nothing_is_left(problem: Problem) -> None:
    for text in ("random", "copper", "copper:effects=least_squares", "copper:exploitation=0.7"):
        told = play(problem, Method.parse(text), 3, 50, python="", to_optimum=False)
        proposals = [int(index) for index in told["proposals"].split()]
        assert sorted(proposals) == list(range(problem.space.size)), text
        assert told["by"] == "copperline"


def test_an_episode_may_end_with_the_optimum(problem: Problem) -> None:
    whole, some = (
        play(problem, Method.parse("random"), 0, 12, python="", to_optimum=stop)["proposals"]
        for stop in (False, True)
    )
    assert whole.startswith(some)
    assert problem.objective[int(some.split()[-1])] == problem.goal(GOALS["optimum"])


class Scripted:
    """A peer that proposes what it was given, and keeps what it was told."""

    version = "scripted 1"

    def __init__(self, proposals: list[list[int] | None]) -> None:
        self._proposals = proposals
        self.heard: list[dict[str, object]] = []

    def ask(self, question: dict[str, object]) -> dict[str, object]:
        self.heard.append(question)
        levels = {"levels": self._proposals.pop(0)} if "ask" in question else {}
        return levels | {"cpu_s": 0.25}


def test_what_a_peer_is_told(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    # ranks of size 1, 2, 4; kinds b, aa; flags 0, 1; what is fixed is not told of
    peer = Scripted([[0, 0, 1], [2, 1, 0], [0, 0, 1], [2, 0, 0], None])
    monkeypatch.setattr(searches, "peer", lambda name, python: peer)
    told = play(problem, Method.parse("tpe"), 7, 10, python="", to_optimum=False)
    assert peer.heard[0] == {
        "start": {
            "parameters": [("ordinal", 3), ("categorical", 2), ("categorical", 2)],
            "seed": 7,
            "budget": 10,
            "options": {},
        }
    }
    answers = [question["tell"] for question in peer.heard if "tell" in question]
    assert answers == [12.0, None, 12.0, 14.0], "a failure is None, a repeat is a run"
    proposals = [int(index) for index in told["proposals"].split()]
    assert n_duplicates(proposals) == 1
    values = [problem.space.values(problem.space.configuration(index)) for index in proposals]
    assert values[0] == {"size": 1, "kind": "b", "flag": 1, "fixed": 1}
    assert values[1] == {"size": 4, "kind": "aa", "flag": 0, "fixed": 1}
    assert told["cpu_s"] == 0.25 * 10
    assert told["by"] == "scripted 1"


def test_a_peer_runs_the_row_nearest_to_its_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ParameterSpace(
        (Parameter("a", (30, 10, 20)), Parameter("fixed", (1,)), Parameter("b", (0, 1))),
        rows=((0, 0, 1), (1, 0, 0)),
    )
    problem = Problem("rows", "generated", space, np.array([7.0, 8.0]))
    peer = Scripted([[2, 1], [1, 0], None])  # ranks: a row, and one level from the other row
    monkeypatch.setattr(searches, "peer", lambda name, python: peer)
    told = play(problem, Method.parse("tpe"), 7, 10, python="", to_optimum=False)
    assert peer.heard[0]["start"]["rows"] == [[2, 1], [0, 0]]
    assert told["proposals"] == "0 1"
    assert [question["tell"] for question in peer.heard if "tell" in question] == [7.0, 8.0]


def test_ranks_are_those_of_the_values_whatever_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ParameterSpace((Parameter("a", (30, 10, 20)), Parameter("b", ("x", "y", "z"))))
    monkeypatch.setattr(searches, "peer", lambda name, python: Scripted([[0, 2]]))
    index = PeerChooser(
        Method.parse("tpe"), Problem("ranks", "generated", space, np.zeros(9)), 0, 5, ""
    ).ask()
    assert index is not None
    assert space.values(space.configuration(index)) == {"a": 10, "b": "z"}


def test_failures_become_the_worst_value_so_far() -> None:
    worst = Worst()
    assert worst.told("a", None) == []
    assert worst.told("b", 5.0) == [("b", 5.0, False), ("a", 5.0, True)]
    assert worst.told("c", 9.0) == [("c", 9.0, False)]
    assert worst.told("d", 1.0) == [("d", 1.0, False)]
    assert worst.told("e", None) == [("e", 9.0, True)]


FAKE_OPTUNA = """
import random
class trial:
    class TrialState:
        PRUNED, FAIL = "pruned", "fail"
class logging:
    ERROR = 0
    def set_verbosity(level): pass
class samplers:
    def TPESampler(seed): return random.Random(seed)
class distributions:
    def IntDistribution(low, high): return list(range(low, high + 1))
    def CategoricalDistribution(choices): return choices
class Trial: pass
class create_study:
    def __init__(self, sampler): self.rng, self.told = sampler, []
    def ask(self, domains):
        if len(self.told) == 3: raise RuntimeError("told: %r" % self.told)
        print("a package that prints")
        trial = Trial()
        trial.params = {name: self.rng.choice(domain) for name, domain in domains.items()}
        return trial
    def tell(self, trial, value=None, state=None): self.told.append(value or state)
"""


@pytest.fixture
def optuna_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "optuna.py").write_text(FAKE_OPTUNA)
    (tmp_path / "optuna-9.9.dist-info").mkdir()
    (tmp_path / "optuna-9.9.dist-info" / "METADATA").write_text("Name: optuna\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("optuna_stands_in")
def test_the_child_speaks_for_a_package_until_it_ends() -> None:
    child = searches.PeerProcess("tpe", sys.executable)
    assert child.version == "optuna 9.9"
    options = {"failed": "pruned"}
    start = {"parameters": [("ordinal", 3), ("categorical", 2)], "seed": 1, "budget": 9}
    for _ in range(2):  # a new episode forgets the last one
        child.ask({"start": start | {"options": options}})
        for value in (4.0, None, 6.0):
            levels = child.ask({"ask": True})["levels"]
            assert len(levels) == 2
            assert child.ask({"tell": value})["cpu_s"] >= 0
    with pytest.raises(PeerError, match=r"last words: .*told: \[4.0, 'pruned', 6.0\]"):
        child.ask({"ask": True})


def test_a_forked_process_has_a_peer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "PeerProcess", lambda _name, _python: object())
    here = searches.peer("tpe", "a stand-in")
    assert searches.peer("tpe", "a stand-in") is here
    monkeypatch.setattr(searches.os, "getpid", lambda: 0)
    assert searches.peer("tpe", "a stand-in") is not here


def test_a_peer_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "optuna.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PeerError, match=r"\(not here\): install 'copperline\[bench\]' there"):
        searches.PeerProcess("tpe", sys.executable)
    with pytest.raises(PeerError, match=r"interpreter 'nowhere' .* --python-of tpe=PATH"):
        searches.PeerProcess("tpe", "nowhere")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("grasps", "no method 'grasps'; there are the strategies"),
        ("tpe:seed=1", "the peer 'tpe' has no option 'seed'; it has failed"),
        ("smac:failed=fail", "it has none"),
        ("copper:beta", "option 'beta' without a value"),
        ("copper:beta=2", "must be a number from 0 to 1"),
        ("copper:confirm=-1", "confirms with a number of runs"),
    ],
)
def test_methods_that_cannot_be(text: str, sentence: str) -> None:
    with pytest.raises((StrategyError, PeerError), match=sentence):
        Method.parse(text)


def test_a_method_is_read_as_written() -> None:
    method = Method.parse("copper:beta=0.9:effects=blocks")
    assert (method.name, method.options) == ("copper", {"beta": 0.9, "effects": "blocks"})
    assert not method.is_peer
    assert all(Method.parse(name).is_peer for name in PACKAGES)
    assert set(OPTIONS) <= set(PACKAGES)


def test_seeds() -> None:
    assert search.parse_seeds("0-3") == [0, 1, 2, 3]
    assert search.parse_seeds("5,0-1") == [5, 0, 1]


def test_results_are_put_together(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def run(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["search", "--tables", str(tmp_path), *options])
        search.main()
        return str(capsys.readouterr().out)

    files = [tmp_path / "random.json", tmp_path / "copper.json", tmp_path / "both.json"]
    run("--methods", "random", "--budget", "6", "--seeds", "0-2", "--json", str(files[0]))
    run("--methods", "copper", "--budget", "6", "--seeds", "0", "--json", str(files[1]))
    more = run("--methods", "copper", "--budget", "6", "--seeds", "0-1", "--resume", "--jobs", "2",
               "--json", str(files[1]))  # fmt: skip
    assert "| copper | copperline | 2 |" in more
    told = run(
        "--methods", "random,copper", "--budget", "6", "--seeds", "0-9", "--against", "copper",
        "--only-known", "--from", str(files[0]), "--from", str(files[1]), "--json", str(files[2]),
    )  # fmt: skip
    assert "| random | copperline | 3 |" in told
    assert "| measured: runs of copper / runs of |" in told
    steps = [json.loads(path.read_text())["steps"] for path in files]
    assert steps[2] == steps[0] | steps[1]
    assert len(steps[2]) == 5


@pytest.mark.soak
def test_tables_of_simulated_schedules_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_swf(default_workload(seed=0, n_jobs=40), tmp_path / "small.swf.gz")
    levels = ("--levels", "small_procs=0,16", "--levels", "small_max_procs=2,8")
    more = ("--procs", "128", *levels, "--levels", "small_max_requested_s=1h,4h")
    monkeypatch.setattr(search, "LOGS", {"one": ("small", more)})
    folder = tmp_path / "tables"
    assert search.tabulated(tmp_path, folder) == [folder / "one.csv"]
    simulated = from_table(folder / "one.csv", "simulated")
    assert (simulated.space.size, len(simulated.valid)) == (8, 5)
    monkeypatch.setattr(search, "LOGS", {"one": ("gone", ()), "two": ("gone", ())})
    with pytest.raises(AssistantError, match=r"two could not be tabulated: .*gone"):
        search.tabulated(tmp_path, folder)
    assert search.tabulated(None, folder) == [folder / "one.csv"]


def test_learning_goes_on_beside_an_unreadable_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"a_old": "x,objective\n1,4\n2,1\n", "a_new": "x,objective\n1,3\n2,2\n",
                       "a_torn": "x,objective\n1,4\n2\n"}.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    assert {pair.name for pair in pairs_in(tmp_path)} == {"a_old -> a_new", "a_new -> a_old"}
    told = capsys.readouterr().err
    assert "left out: " in told
    assert "a_torn.csv, line 3 has 1 fields" in told
    (tmp_path / "a_new.csv").unlink()
    with pytest.raises(AssistantError, match="no two tables of one program"):
        pairs_in(tmp_path)


def ladder(run_noise: float) -> Problem:
    """Return a space of 40 steps, each a little worse than the one before."""
    space = ParameterSpace((Parameter("step", tuple(range(40))),))
    values = np.arange(40.0)
    return Problem("ladder", "generated", space, values, run_noise=run_noise)


def test_every_run_draws_its_noise_and_the_last_ones_repeat_the_winner() -> None:
    def proposals(text: str, run_noise: float) -> list[int]:
        told = play(ladder(run_noise), Method.parse(text), 1, 14, python="", to_optimum=False)
        assert ("recommended" in told) == (run_noise > 0)
        return [int(index) for index in told["proposals"].split()]

    assert n_duplicates(proposals("random", 0.0)) == 0
    assert n_duplicates(proposals("random", 0.3)) == 3
    assert n_duplicates(proposals("random:confirm=2", 0.3)) == 2
    assert n_duplicates(proposals("random:confirm=5", 0.3)) == 5
    assert n_duplicates(proposals("random:confirm=0", 0.3)) == 0
    assert proposals("random", 0.3)[:11] == proposals("random", 0.0)[:11]
    assert set(proposals("random", 0.3)[11:]) < set(proposals("random", 0.3)[:11])


def test_what_is_recommended_is_judged_by_its_true_value() -> None:
    # with noise of 100 times its range the recommended step is a matter of luck; 100th, of none
    def regret(run_noise: float, seed: int) -> float:
        one = ladder(run_noise)
        told = play(one, Method.parse("random"), seed, 40, python="", to_optimum=False)
        return search.Played(one, {seed: told}, 40).regrets()[seed]

    assert [ladder(0.1).regret(index) for index in (0, 39)] == [0, 2]
    assert np.mean([regret(1e-4, seed) for seed in range(5)]) < 0.2
    lucky = [regret(100.0, seed) for seed in range(30)]
    assert 0.7 < np.mean(lucky) < 1.3
    whole = search.Played(ladder(0.1), {0: {"proposals": ""}}, 1)
    assert whole.regrets() == {0: 1.0}


def test_the_regrets_of_methods_are_set_side_by_side(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    options = ["--tables", str(tmp_path), "--methods", "random,random:confirm=0", "--budget", "8"]
    given = [*options, "--seeds", "0-1", "--against", "random", "--noise", "0.2"]
    monkeypatch.setattr(sys, "argv", ["search", *given, "--json", str(tmp_path / "r.json")])
    search.main()
    printed = capsys.readouterr().out
    assert "| measured: method | true regret of the recommended | within 5 % |" in printed
    assert "| noise by construction | 1 |" in printed
    result = json.loads((tmp_path / "r.json").read_text())
    assert {name.split(", seed")[0] for name in result["steps"]} == {
        "small, noise 0.2, random", "small, noise 0.2, random:confirm=0",
    }  # fmt: skip
    told = result["figures"]["measured, random: true regret of the recommended"]
    assert f"| random | {told:.3f} |" in printed
