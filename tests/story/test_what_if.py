"""``copperline what-if``, and warnings answered with ``copperline steer``."""

import json
from pathlib import Path

import pytest

from assistant import load_session
from assistant.cli.main import run
from assistant.core.events import Event
from assistant.core.forecast import percent
from assistant.store.event_store import SqliteStore
from strategies import strategy_entry
from tests.assistant.warned import journal_with_a_warning

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def warned_events() -> tuple[Event, ...]:
    return journal_with_a_warning()


@pytest.fixture
def store(
    warned_events: tuple[Event, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SqliteStore:
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    monkeypatch.setenv("COLUMNS", "200")
    stored = SqliteStore(tmp_path / "experiments.db")
    stored.append("hills", 0, warned_events)
    return stored


def test_what_if_tells_and_records_nothing(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    before = store.load("hills")
    words = ["--exploitation", "0.5", "--runs", "80", "--close", "mode=bad", "--strategy", "grasp"]
    assert run(["what-if", *words]) == 0
    told = capsys.readouterr().out
    assert told.startswith("The chance to reach the goal would rise from ")
    assert "Next suggestions:" in told
    assert run(["what-if", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    thought = load_session(store, "hills").what_if(
        exploitation=0.5, max_runs=80, close=[("mode", "bad")], strategy="grasp"
    )
    assert found["sentence"] == thought.sentence == told.splitlines()[0]
    assert thought.after.goal is not None
    assert found["after"]["goal"]["chance"] == thought.after.goal.chance
    assert len(found["suggestions"]) == strategy_entry("grasp").batch
    assert all(one["values"]["mode"] == "good" for one in found["suggestions"])
    assert sum(one["runs"] for one in found["inside"]) + found["outside"] == 80 - len(
        load_session(store, "hills").experiment.runs
    )
    assert run(["what-if", "--deadline", "2h", "--goal", "4", "--exploitation", "none"]) == 0
    assert run(["what-if", "--goal", "none"]) == 0
    assert "The chance that the budget suffices would be " in capsys.readouterr().out
    assert store.load("hills") == before


def test_regions_are_told_as_measured(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Heights are minimised: a region's quality is its negative, which is nobody's business."""
    assert run(["forecast", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["paper"]["regions"]
    heights = [
        one.outcome.value
        for one in load_session(store, "hills").experiment.runs
        if one.outcome is not None
    ]
    assert told
    assert min(one["best"] for one in told) == min(heights)
    assert all(min(heights) <= one["mean"] <= max(heights) for one in told)


def test_a_wrong_option_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text('[application]\ntable = "table.csv"\n')
    assert run(["sweep", "sweep.toml", "--deadline", "0s"]) == 2
    assert capsys.readouterr().err.startswith("copperline: the options: 'deadline'")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["what-if"], "no change was given"),
        (["what-if", "--runs", "3"], "runs are used already"),
        (["what-if", "--close", "mode"], "--close 'mode' is not of the form"),
        (["what-if", "--close", "mode=odd"], "odd"),
        (["what-if", "--deadline", "soon"], "is not a duration"),
        (["what-if", "--strategy", "grap"], "did you mean 'grasp'"),
        (["what-if", "--cost-limit", "5"], "tariff"),
        (["what-if", "--cost-limit", "much"], "--cost-limit 'much' is not a number"),
        (["what-if", "--goal", "low"], "--goal 'low' is not a number"),
        (["what-if", "--weigh", "first=2"], "is not a region number and a weight"),
        (["what-if", "--exploitation", "0.5", "--weigh", "99=2"], "no region 99"),
        (["steer", "--accept", "9"], "numbered from 1"),
        (["steer", "--accept", "0"], "numbered from 1"),
        (["steer", "--accept", "1", "--ignore"], "a warning has one answer"),
        (["steer", "--change", "1.5"], "0 to 1"),
        (["steer", "--weigh", "1=2"], "set an exploitation level first"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    store: SqliteStore, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    before = store.load("hills")
    assert run(words) == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
    assert store.load("hills") == before


def test_a_warning_is_accepted_on_the_command_line(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = load_session(store, "hills").experiment.open_warning
    assert warning is not None
    which = [one.kind for one in warning.alternatives].index("strategy")
    chosen = warning.alternatives[which]
    assert run(["steer", "--accept", str(which + 1), "--exploitation", "0.5"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"Warning 1 is accepted: {chosen.text}."
    experiment = load_session(store, "hills").experiment
    assert experiment.open_warning is None
    assert chosen.steering is not None
    assert experiment.steering.strategy == chosen.steering.strategy
    assert experiment.steering.exploitation == 0.5
    assert experiment.open_batch is not None
    assert run(["steer", "--ignore"]) == 2
    assert "no open warning" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"), [(["--ignore"], "ignored"), (["--change", "0.4"], "changed")]
)
def test_a_warning_is_ignored_or_changed(
    store: SqliteStore, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    was = load_session(store, "hills").experiment.open_warning
    assert was is not None
    assert was.outlook is not None
    assert was.outlook.goal is not None
    assert run(["steer", *words]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"Warning 1 is {said}")
    now = load_session(store, "hills").forecast().goal
    assert now is not None
    chances = [percent(chance or 0.0) for chance in (was.outlook.goal.chance, now.chance)]
    assert told[-3] == f"Chance to reach the goal: {chances[0]} before, {chances[1]} now."


def test_suggest_lists_what_could_be_done(
    warned_events: tuple[Event, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "other.db"))
    stored = SqliteStore(tmp_path / "other.db")
    stored.append("hills", 0, warned_events[:-3])  # without the last batch, its check and warning
    assert run(["suggest", "-n", "4"]) == 0
    told = capsys.readouterr().out
    warning = load_session(stored, "hills").experiment.open_warning
    assert warning is not None
    assert f"warning: {warning.heading}. {warning.text}" in told
    first = warning.alternatives[0]
    assert first.chance is not None
    assert f"  1. {first.text}: the chance would be {100 * first.chance:.0f} %" in told
    assert "copperline steer hills --accept 1 (or --ignore)" in told


def test_looking_again_does_not_lapse_a_warning(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    before = store.load("hills")
    known = load_session(store, "hills").experiment
    warning, batch = known.open_warning, known.open_batch
    assert warning is not None
    assert batch is not None
    assert run(["suggest", "--json", "-n", "9"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["batch"], told["recorded"]) == (batch.number, False)
    assert len(told["suggestions"]) == len(batch.suggestions)
    assert told["warning"] == warning.text
    assert [one["number"] for one in told["alternatives"]] == list(
        range(1, len(warning.alternatives) + 1)
    )
    assert run(["suggest"]) == 0
    assert "its batch is shown again" in capsys.readouterr().out
    for command in ("forecast", "steer"):
        assert run([command]) == 0
        told_in_words = capsys.readouterr().out
        for number, one in enumerate(warning.alternatives, 1):
            assert f"  {number}. {one.text}: the chance would be" in told_in_words
        assert run([command, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)["warning"]
        assert said["alternatives"] == told["alternatives"]
    assert store.load("hills") == before


@pytest.mark.soak
def test_a_sweep_waits_at_a_warning_until_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "waiting.db"))
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + y}\n" for x in range(20) for y in range(20))
    (tmp_path / "table.csv").write_text(f"x,y,objective\n{rows}")
    words = ["--table", "table.csv", "--goal", "-50", "--strategy", "copper", "--runs", "50"]
    assert run(["sweep", *words, "--warnings", "wait", "--name", "waits"]) == 0
    told = capsys.readouterr().out
    assert "warning: " in told
    assert "--ignore)" in told
    assert "Needs you: warning 1 waits for your answer." in told
    assert "Answer the warning with: copperline steer" in told

    def state() -> tuple[int, bool]:
        store = SqliteStore(tmp_path / "waiting.db")
        experiment = load_session(store, store.experiments()[0].id).experiment
        return len(experiment.runs), experiment.finished is not None

    n, finished = state()
    assert n < 50
    assert not finished
    assert run(["resume"]) == 0
    assert state() == (n, False)
    assert run(["steer", "--ignore"]) == 0
    assert run(["resume", "--warnings", "ignore"]) == 0
    assert state() == (50, True)


def test_the_report_says_what_was_proposed_and_answered(
    store: SqliteStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = load_session(store, "hills")
    warning = session.experiment.open_warning
    assert warning is not None
    session.answer_warning("accepted", alternative=0)
    assert run(["report", "--out", str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text()
    for one in warning.alternatives:
        assert f"{one.text}: the chance would be" in text
    assert f"accepted: {warning.alternatives[0].text}" in text
    assert "if the goal, or without one the best possible value, will probably be missed" in text
