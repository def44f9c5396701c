"""The grid of a study, its random streams, one episode's row, and intervals."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from agents import (
    Analyst,
    AnalystProfile,
    Cell,
    Insight,
    OneAtATime,
    StoppingRule,
    StrategyChoice,
    Study,
    Table,
    TableRequest,
    play_episode,
    read_study,
)
from agents.analysts.episode import EPOCH_S
from agents.studies.results import mean_interval
from assistant import AssistantError, Sla
from assistant.core.events import WarningAnswered
from tests.agents.examples import indices, played, truth

RUGGED = (Table("rugged", "rugged.csv"),)
STUDY = Study("s", RUGGED, seed=4, replications=3)


def test_a_grid_is_the_product_of_what_a_kind_has() -> None:
    assert len(STUDY.cells()) == 3 * 11 * 2
    both = dataclasses.replace(STUDY, kinds=("analyst", "follower", "one_at_a_time"))
    assert len(both.cells()) == 3 * 11 * 2 + 1 + 11
    budgets = dataclasses.replace(
        both, kinds=("follower",), stop=StoppingRule(runs=(20, 30), exploitation=(0.0, 1.0))
    )
    assert [(c.runs, c.exploitation) for c in budgets.cells()] == [
        (20, 0.0), (20, 1.0), (30, 0.0), (30, 1.0),
    ]  # fmt: skip


def test_streams_are_independent_and_outlive_a_larger_grid() -> None:
    cells = STUDY.cells()
    seeds = {cell.streams(4, i).session_seed for cell in cells for i in range(50)}
    assert len(seeds) == len(cells) * 50
    names = ("insight", "intuition", "advice", "session", "bootstrap")
    firsts = {cells[0].streams(4, 0).generator(name).random() for name in names}
    assert len(firsts) == 5
    smaller = dataclasses.replace(STUDY, confidences=(40,), insights=("good",))
    for cell in smaller.cells():
        assert cell in cells, "and its streams follow from it alone"
    known = (
        Cell("t", StrategyChoice("copper"), "analyst", "good", 40, True).streams(0, 0).session_seed
    )
    assert known == 3369812732608868374, "a study of 0.2 can be played again"


def test_seed_sequences_are_those_that_spawn_makes() -> None:
    streams = STUDY.cells()[0].streams(4, 2)
    child = np.random.SeedSequence(streams.entropy).spawn(3)[2].spawn(2)[1]
    assert streams.generator("intuition").random() == np.random.default_rng(child).random()


def test_a_row_says_what_the_journal_says() -> None:
    known, cell = (
        truth("rugged"),
        Cell("rugged", StrategyChoice("copper"), "analyst", "none", 40, False),
    )
    study = dataclasses.replace(STUDY, stop=StoppingRule(censored_at=0.5))
    rows = [play_episode(study, cell, known, i) for i in range(12)]
    assert {row.censored for row in rows} == {True, False}, "seed 4 has both"
    for row in rows:
        if row.censored:
            assert row.runs_to_optimum is None
            assert row.runs == 30
            assert row.ratio is not None
            assert row.ratio < 1
        else:
            assert row.runs_to_optimum is not None
            assert row.runs - row.runs_to_optimum in range(5), "the round of the optimum is ended"
            assert (row.best, row.ratio) == (1.0, 1.0)
        assert row.suggested == (40 * row.runs + 50) // 100
        assert not row.late
    assert rows[3] == play_episode(study, cell, known, 3)


def test_who_reacts_slowly_misses_the_deadline() -> None:
    sla = Sla(max_runs=20, deadline_s=EPOCH_S + 100.0)
    quick, slow = (
        played(Analyst(reaction_s=s), truth("rugged"), sla=sla, run_s=1.0)[0] for s in (1.0, 60.0)
    )
    assert len(quick.experiment.runs) == 20
    assert not quick.is_overdue()
    assert len(slow.experiment.runs) == 5, "at 60 s the first five, at 125 s it is too late"
    assert slow.is_overdue()


@pytest.mark.parametrize(("acceptance", "answers"), [(0.0, {"ignored"}), (1.0, {"accepted"})])
def test_warnings_are_met_with_acceptance(acceptance: float, answers: set[str]) -> None:
    session, _ = played(
        Analyst(acceptance=acceptance), truth("rugged"), sla=Sla(max_runs=20), max_runs=20
    )
    given = [event.answer for event in session.events() if isinstance(event, WarningAnswered)]
    assert session.experiment.warnings, "20 runs in a space of 60 are warned of"
    assert len(given) == len(session.experiment.warnings)
    assert set(given) == answers
    assert len(session.experiment.runs) == 20


def test_an_acceptance_between_is_a_probability() -> None:
    answers = []
    for replication in range(15):
        session, _ = played(
            Analyst(acceptance=0.5), truth("rugged"), sla=Sla(max_runs=15), max_runs=15,
            replication=replication,
        )  # fmt: skip
        events = session.events()
        answers += [event.answer for event in events if isinstance(event, WarningAnswered)]
    share = answers.count("accepted") / len(answers)
    assert 0.25 < share < 0.75, (share, len(answers))


def test_one_at_a_time_walks_around_the_best() -> None:
    known = truth("rugged")
    session, _ = played(OneAtATime(batch=1), known, max_runs=30)
    own = indices(session)
    for n in range(1, 30):
        seen = own[:n]
        best = max(seen, key=lambda i: known.quality[i])
        differs = (known.level_ids[own[n]] != known.level_ids[best]).sum()
        beside = [
            i for i in range(known.size)
            if (known.level_ids[i] != known.level_ids[best]).sum() == 1 and i not in seen
        ]  # fmt: skip
        assert differs == 1 or not beside
        if differs == 1:
            ids = known.level_ids
            first = min(
                beside, key=lambda i: (int((ids[i] != ids[best]).argmax()), ids[i].tolist())
            )
            assert own[n] == first


def test_interval_of_known_cases() -> None:
    rng = np.random.default_rng(0)
    assert mean_interval([3.0], rng) is None
    assert mean_interval([2.0, 2.0, 2.0], rng) == (2.0, 2.0)
    values = np.random.default_rng(1).normal(10.0, 2.0, 400)
    low, high = mean_interval(values, rng) or (0.0, 0.0)
    half = 1.96 * values.std() / 20.0
    assert abs(low - (values.mean() - half)) < 0.03
    assert abs(high - (values.mean() + half)) < 0.03
    again = mean_interval(values, np.random.default_rng(0), level=0.5)
    assert again is not None
    assert low < again[0] < again[1] < high


@pytest.mark.statistical
@pytest.mark.parametrize("of", ["normal", "exponential"])
def test_the_interval_covers_the_mean_as_often_as_it_says(of: str) -> None:
    """1,000 samples of 60 (seed 11): 95 % +- 2.1 % by three standard errors; the bootstrap of a
    skewed mean is known to stay somewhat below."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(1000):
        sample = rng.normal(1.0, 1.0, 60) if of == "normal" else rng.exponential(1.0, 60)
        low, high = mean_interval(sample, rng, 1000) or (0.0, 0.0)
        inside += low <= 1.0 <= high
    assert (0.925 if of == "normal" else 0.90) < inside / 1000 < 0.97


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tables = [", "is not TOML"),
        ("", "'tables' "),
        ('tables = ["a.csv"]\nseeds = 3', "no setting 'seeds'; did you mean 'seed'"),
        ('tables = ["a.csv"]\nconfidences = [0.4]', "'confidences.0' .*not 0.4"),
        ('tables = ["a.csv"]\nconfidences = [140]', "from 0 to 100, not 140"),
        ('tables = ["a.csv"]\ninsights = ["best"]', "'insights.0' .*not 'best'"),
        ('tables = ["a.csv"]\nkinds = ["analist"]', "did you mean 'analyst'"),
        ('tables = ["a.csv", "b/a.csv"]', "tables of a study names a twice"),
        ('tables = ["a.csv"]\n[stop]\nexploitation = [0.5]', "exploitation needs a budget"),
        ('tables = ["a.csv"]\n[stop]\ngoal = 0.1', "a goal needs a budget"),
        ('tables = ["a.csv"]\n[stop]\nruns = 9\ngoal = 1.5', "goal is a share of the config"),
        ('tables = ["a.csv"]\n[analyst]\nacceptance = "often"', "analyst.acceptance"),
        ('tables = ["a.csv"]\n[learner]\nrat = 1', "no setting 'learner.rat'; did you mean 'rate'"),
        ('tables = ["a.csv"]\n[insight]\nmembers = 2.0', "members of an insight is a share"),
        ('applications = ["mace"]', "'applications.0' .*not 'mace'"),
        ('applications = ["maze"]', "measured by copperline agents run; in Python"),
        ('tables = ["a.csv"]\n[scheduling]\nlog = "x"', "'scheduling' among the applications"),
        ('applications = ["scheduling"]\n[scheduling]\nfirst = 9', "scheduling.first' needs a log"),
        ('applications = ["scheduling"]\n[scheduling]\nlgo = "x"', "did you mean 'log'"),
    ],
)
def test_a_file_is_refused_with_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(AssistantError, match=sentence):
        read_study(path)


def test_applications_are_measured_and_stand_before_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'applications = ["scheduling", "maze"]\ntables = ["a.csv"]\n'
        '[scheduling]\nlog = "x.swf"\nfirst = 9\n'
    )
    asked: list[TableRequest] = []

    def measure(one: TableRequest) -> Path:
        asked.append(one)
        return tmp_path / "made" / f"{one.name}.csv"

    study, _, _ = read_study(path, measure)
    assert asked == [TableRequest("scheduling", tmp_path / "x.swf", 9), TableRequest("maze")]
    assert [table.name for table in study.tables] == ["scheduling", "maze", "a"]
    assert study.tables[0].path == str(tmp_path / "made" / "scheduling.csv")
    path.write_text('applications = ["maze"]\ntables = ["maze.csv"]\n')
    with pytest.raises(AssistantError, match="names maze twice"):
        read_study(path, measure)


def test_a_file_says_all_that_python_can(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "N"\nseed = 3\nreplications = 7\nworkers = 2\ntables = ["a.csv"]\n'
        'strategies = ["grasp", {name = "copper", neighbours = 2, beta = 0.9}]\n'
        'kinds = ["analyst", "follower"]\ninsights = ["good"]\nconfidences = [20]\n'
        "learning = [true]\n[stop]\nruns = 30\nexploitation = [0.0, 'none']\nadvised_from = 0.6\n"
        "deadline_s = 50\nrun_s = 2\ngoal = 0.05\n[insight]\nmembers = 0.1\nleast = 3\n"
        "[learner]\nrate = 0.4\n"
        '[analyst]\nbatch = 4\nacceptance = "never"\nreaction_s = 2.5\n'
    )
    study, text, workers = read_study(path)
    assert (text, workers) == (path.read_text(), 2)
    assert study == Study(
        "N", (Table("a", str(tmp_path / "a.csv")),), 3, 7,
        (StrategyChoice("grasp"), StrategyChoice("copper", (("beta", 0.9), ("neighbours", 2)))),
        ("analyst", "follower"), ("good",), (20,), (True,),
        StoppingRule((30,), (0.0, None), 0.6, deadline_s=50.0, run_s=2.0, goal=0.05),
        Insight("none", members=0.1, least=3),
        dataclasses.replace(study.learner, rate=0.4), AnalystProfile(100, 4, 0.0, 2.5),
    )  # fmt: skip


def test_an_episode_ends_at_its_goal() -> None:
    """The goal is what a share of the configurations reaches; its round is the last one."""
    known = truth("rugged")
    stop = StoppingRule(runs=(40,), goal=0.1)
    study = dataclasses.replace(
        STUDY, insights=("none",), confidences=(100,), learning=(False,), stop=stop
    )
    (cell,) = study.cells()
    goal = -known.reached_by(0.1)
    assert sum(value <= goal for value in -known.quality) >= 6, "a tenth of 60"
    assert known.reached_by(1e-9) == known.optimum
    for replication in range(3):
        one = play_episode(study, cell, known, replication)
        assert one.met is True
        assert one.best is not None
        assert one.best <= goal
        assert one.runs < 40
        assert one.ended == "the target is reached"
    never = dataclasses.replace(study, stop=StoppingRule(runs=(15,), goal=1e-9))
    missed = [play_episode(never, never.cells()[0], known, i) for i in range(9)]
    assert [one.met for one in missed] == [one.runs_to_optimum is not None for one in missed]
    assert {one.met for one in missed} == {False, True}, "or the test shows less than it should"
    assert all((one.ended == "the target is reached") == one.met for one in missed)
    without = dataclasses.replace(never, stop=StoppingRule(runs=(5,)))
    assert play_episode(without, without.cells()[0], known, 0).met is None
