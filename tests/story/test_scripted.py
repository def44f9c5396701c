"""A function and an MCP client as analysts of a study: what they see, may do, and may not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agents import (
    AnalystView,
    ClusteringAdvice,
    Decision,
    Script,
    ScriptedAnalyst,
    ScriptLimits,
    StoppingRule,
    Study,
    Table,
    play_study,
    read_parquet,
    read_study,
)
from agents.studies.study import study_text
from assistant import AssistantError, Run, Sla, SqliteStore
from assistant.cli.main import run
from assistant.core.commands import (
    ChangeSla,
    DeleteExperiment,
    FinishExperiment,
    HoldRun,
    IncludeRun,
    PrioritiseRun,
    SubmitBatch,
)
from assistant.core.events import (
    RunCompleted,
    RunStarted,
    RunSubmitted,
    SteeringChanged,
    ToolCalled,
    WarningAnswered,
)
from assistant.session.commands import AnswerWarning, SuggestBatch
from tests.agents.examples import TEXTS, played, truth
from tests.docs.pages import pages

Answer = Iterable[Decision] | None


def played_by(
    call: Callable[[AnalystView], Any], limits: ScriptLimits | None = None, **more: Any
) -> tuple[Any, str]:
    analyst = ScriptedAnalyst("mine", call, limits or ScriptLimits())
    return played(analyst, truth("rugged"), **more)


def free(view: AnalystView) -> dict[str, Any]:
    """Return the first configuration without a run."""
    space = view.experiment.space
    return next(
        values
        for index in range(space.size)
        if not view.has_run(values := dict(space.values(space.configuration(index))))
    )


def first_free(view: AnalystView) -> Answer:
    return [Decision(IncludeRun(free(view)), "the next one")]


# -- what a callable may do ------------------------------------------------------------------------


def test_it_suggests_edits_reorders_and_submits_with_its_reasons() -> None:
    seen: list[AnalystView] = []

    def call(view: AnalystView) -> Answer:
        seen.append(view)
        if view.batch is None:
            return [Decision(SuggestBatch(3, "initial"), "I know nothing")]
        if len(view.runs) >= 3:
            return None
        levels = {"a": next(a for a in view.parameters["a"] if a != view.values(batch(view))["a"])}
        number = view.batch.number
        return [
            Decision(SubmitBatch(number, keep=(0, 2), edits={1: levels}), "b is worth a look"),
            Decision(PrioritiseRun(3, 9.0), "the last one first"),
        ]

    def batch(view: AnalystView) -> Any:
        assert view.batch is not None
        return view.batch.suggestions[1]

    session, ended = played_by(call)
    assert ended == "the analyst stopped"
    events = session.events()
    calls = [event for event in events if isinstance(event, ToolCalled)]
    assert [(c.tool, c.client, c.why) for c in calls] == [
        ("SuggestBatch", "mine", "I know nothing"),
        ("SubmitBatch", "mine", "b is worth a look"),
        ("PrioritiseRun", "mine", "the last one first"),
        ("SuggestBatch", "mine", "I know nothing"),
    ]
    started = [event.run_id for event in events if isinstance(event, RunStarted)]
    assert started[0] == 3
    sources = [event.source for event in events if isinstance(event, RunSubmitted)]
    assert sources == ["initial", "edited", "initial"]
    assert seen[2].best is not None
    assert seen[0].runs == ()
    assert [view.runs_left for view in seen] == [20, 20, 17, 17][: len(seen)]
    assert "3 runs have ended" in str(seen[2].forecast())


def test_it_answers_warnings_and_gets_the_advice() -> None:
    def call(view: AnalystView) -> Answer:
        if view.warning is not None:
            return [Decision(AnswerWarning("ignored"), "no")]
        if view.batch is None:
            return [Decision(SuggestBatch(4, "initial" if not view.runs else "next"), "more")]
        return [Decision(SubmitBatch(view.batch.number), "all")]

    session, ended = played_by(call, sla=Sla(20))
    assert ended == "the budget of 20 runs is used up"
    assert any(isinstance(event, WarningAnswered) for event in session.events())
    session, _ = played_by(call, clustering=ClusteringAdvice(8, 1.0))
    kinds = [type(e) for e in session.events() if isinstance(e, SteeringChanged | RunSubmitted)]
    assert kinds.index(SteeringChanged) == 8


def test_it_ends_at_the_budget_at_the_target_and_when_it_finishes() -> None:
    session, ended = played_by(first_free, max_runs=7)
    assert (len(session.experiment.runs), ended) == (7, "the budget of 7 runs is used up")

    def is_third(done: Run) -> bool:
        return done.id == 3

    session, ended = played_by(first_free, until=is_third)
    assert (len(session.experiment.runs), ended) == (3, "the target is reached")
    _, ended = played_by(lambda _v: [Decision(FinishExperiment("seen\nenough"), "bored")])
    assert ended == "the analyst stopped: seen enough"


def test_it_is_seeded_by_the_episode() -> None:
    def call(view: AnalystView) -> Answer:
        values = {name: view.rng.choice(levels) for name, levels in view.parameters.items()}
        values = {name: int(value) for name, value in values.items()}
        chosen = free(view) if view.has_run(values) else values
        return [Decision(IncludeRun(chosen), "by lot")]

    once, again, other = (played_by(call, replication=i)[0] for i in (1, 1, 2))
    assert once.events() == again.events()
    assert once.events() != other.events()


# -- what ends it early ----------------------------------------------------------------------------


def hangs(_view: AnalystView) -> Answer:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def fails(view: AnalystView) -> Answer:
    return first_free(view) if len(view.runs) < 4 else [view.parameters["none"]]  # type: ignore[list-item]


def leaves(view: AnalystView) -> Answer:
    return first_free(view) if len(view.runs) < 4 else exit(3)


def repeats(_view: AnalystView) -> Answer:
    return [Decision(IncludeRun({"a": 0, "b": 0, "c": 0}), "again")]


def hesitates(view: AnalystView) -> Answer:
    run_id = len(view.runs)
    return first_free(view) if run_id < 2 else [Decision(PrioritiseRun(99, 1.0), "which?")]


@pytest.mark.parametrize(
    ("call", "limits", "n_runs", "sentence"),
    [
        (hangs, ScriptLimits(seconds=0.05), 0, "it took more than its 0.05 s"),
        (fails, None, 4, "KeyError: 'none'"),
        (leaves, None, 4, "SystemExit: 3"),
        (repeats, None, 1, "it repeated itself, 3 calls changed nothing, last refused: "),
        (hesitates, None, 2, "last refused: there is no run 99"),
        (first_free, ScriptLimits(decisions=5), 5, "it made more than its 5 decisions"),
        (lambda _v: ["SuggestBatch"], None, 0, "something else than a list of Decision"),
        (lambda _v: 3, None, 0, "TypeError"),
    ],
)
def test_a_fault_is_one_sentence_and_counts_with_what_it_reached(
    call: Any, limits: ScriptLimits | None, n_runs: int, sentence: str
) -> None:
    session, ended = played_by(call, limits)
    assert ended.startswith("the analyst broke off: ")
    assert sentence in ended
    assert "\n" not in ended
    runs = session.experiment.runs
    assert len(runs) == n_runs
    assert all(done.ended_s is not None for done in runs)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (ChangeSla(Sla(99)), "ChangeSla is not among SuggestBatch, SubmitBatch"),
        (DeleteExperiment(), "DeleteExperiment is not among"),
        (HoldRun(1), "'why' must say why"),
        ("stop", "str is not among"),
    ],
)
def test_what_it_may_not_decide_is_refused(command: Any, sentence: str) -> None:
    refusals: list[str] = []

    def call(view: AnalystView) -> Answer:
        refusals.append(view.refusal)
        why = " \n" if isinstance(command, HoldRun) else "I may not"
        return [Decision(command, why), *(first_free(view) or ())]

    session, _ = played_by(call, max_runs=3)
    assert len(session.experiment.runs) == 3
    assert refusals[0] == ""
    assert all(sentence in refusal for refusal in refusals[1:])
    assert {c.tool for c in session.events() if isinstance(c, ToolCalled)} == {"IncludeRun"}


def test_more_runs_than_are_left_are_refused() -> None:
    def call(view: AnalystView) -> Answer:
        if view.batch is None:
            return [Decision(SuggestBatch(5, "initial"), "five")]
        keep = None if not view.refusal else range(3)
        return [Decision(SubmitBatch(view.batch.number, keep), "these")]

    session, ended = played_by(call, max_runs=3)
    assert ended == "the budget of 3 runs is used up"
    assert len(session.experiment.runs) == 3


# -- studies ---------------------------------------------------------------------------------------

STUDY = """
name = "Mine"
seed = 2
replications = 2
workers = 1
tables = ["rugged.csv"]
kinds = ["follower", {name = "neighbours", script = "neighbours.py:best_neighbour"}]

[stop]
runs = [10]

[scripts]
seconds = 30.0
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    page = next(p for p in pages(repository) if p.name == "docs/howto/analysts.md")
    for name, code in zip(("neighbours.py", "client.py"), page.blocks("python"), strict=False):
        (tmp_path / name).write_text(code)
    (tmp_path / "rugged.csv").write_text(TEXTS["rugged"])
    (tmp_path / "maze.csv").write_text(TEXTS["small"])
    return tmp_path


@pytest.mark.soak
def test_the_function_of_the_page_is_in_the_report_and_in_event_logs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("study.toml").write_text(STUDY)
    Path("slow.py").write_text("def analyst(view):\n    return [] if view.runs else [1]\n")
    command = ["agents", "run", "study.toml", "--to", "out", "--analyst", "slow.py"]
    assert run(command) == 0
    capsys.readouterr()
    rows = read_parquet(Path("out/results.parquet"))
    assert [row["kind"] for row in rows[::2]] == ["follower", "neighbours", "slow"]
    assert {row["ended"] for row in rows[2:4]} == {"the budget of 10 runs is used up"}
    report = Path("out/report.md").read_text()
    assert "6 episodes by simulated and scripted analysts" in report
    assert (
        "slow on rugged: 2 of 2 episodes ended early and count with what they reached, since the "
        "analyst broke off: it returned something else than a list of Decision." in report
    )
    stores = sorted(Path("out/episodes").glob("*.db"))
    assert [path.name for path in stores][:2] == ["0002-0000.db", "0002-0001.db"]
    events = SqliteStore(stores[0]).load("episode")
    assert sum(isinstance(event, RunCompleted) for event in events) == 10
    assert {e.client for e in events if isinstance(e, ToolCalled)} == {"neighbours"}
    assert run(["events", "--kind", "ToolCalled", "--json", "--store", str(stores[0])]) == 0
    assert "is best, and" in capsys.readouterr().out

    written = Path("out/results.parquet").read_bytes()
    copy, text, _ = read_study(Path("out/study.toml"))  # has the analysts of the options, too
    play_study(copy, Path("again"), text, workers=2)
    assert Path("again/results.parquet").read_bytes() == written

    capsys.readouterr()
    Path("neighbours.py").write_text("def best_neighbour(view):\n    return []\n")
    assert run(command) == 2
    assert "holds another study" in capsys.readouterr().err


def test_an_interrupted_episode_is_played_anew(here: Path) -> None:
    Path("study.toml").write_text(STUDY)
    study, text, _ = read_study(Path("study.toml"))
    play_study(study, Path("whole"), text, workers=1)
    whole = SqliteStore(Path("whole/episodes/0002-0000.db")).load("episode")
    Path("out/episodes").mkdir(parents=True)
    SqliteStore(Path("out/episodes/0002-0000.db")).append("episode", 0, whole[:5])
    play_study(study, Path("out"), text, workers=1)
    assert SqliteStore(Path("out/episodes/0002-0000.db")).load("episode") == whole


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        ('{script = "none.py:f"}', "there is no file"),
        ('{script = "neighbours.py:worst"}', "has no function 'worst'"),
        ('{script = "neighbours"}', "needs a function, module:function or file.py:function"),
        ('{script = "no_such_module:f"}', "No module named 'no_such_module'"),
        ('{mcp = "python client.py"}', "needs the argument {server}"),
        ('{mcp = "python \'client.py {server}"}', "needs the argument {server}"),
        ('{name = "x"}', "needs either script"),
        ('{script = "a:b", mcp = "c {server}"}', "needs either script"),
        ('{name = "follower", script = "neighbours.py:best_neighbour"}', "is a kind of analyst"),
        ('{scrip = "a:b"}', "kinds"),
    ],
)
def test_a_bad_analyst_is_one_sentence(
    here: Path, kinds: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("study.toml").write_text(f'tables = ["rugged.csv"]\nkinds = [{kinds}]\n')
    assert run(["agents", "run", "study.toml", "--to", "out"]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_study_with_scripts_is_written_as_text_and_read_again(here: Path) -> None:
    client = '{mcp = "python client.py {server} {seed}"}'
    text = STUDY.replace("]\n\n[stop]", f", {client}]\n\n[stop]")
    Path("study.toml").write_text(text)
    study = read_study(Path("study.toml"))[0]
    assert study.kinds == ("follower", "neighbours", "client")
    (here / "sub").mkdir()
    Path("sub/study.toml").write_text(study_text(study, here / "sub"))
    again = read_study(Path("sub/study.toml"))[0]
    assert again.kinds == study.kinds
    assert again.limits == ScriptLimits(seconds=30.0)
    assert again.scripts[0].target == "../neighbours.py:best_neighbour"
    assert again.scripts[1].arguments == ["python", "../client.py", "{server}", "{seed}"]
    assert again.cells() == study.cells()
    with pytest.raises(AssistantError, match="deadline_s counts simulated seconds"):
        read_study(_with_deadline(here))


def _with_deadline(folder: Path) -> Path:
    path = folder / "late.toml"
    stop = "[stop]\nruns = [5]\ndeadline_s = 9.0\n"
    path.write_text(f'tables = ["rugged.csv"]\nkinds = [{{mcp = "x {{server}}"}}]\n{stop}')
    return path


# -- MCP clients -----------------------------------------------------------------------------------


@pytest.mark.soak  # three processes
def test_the_client_of_the_page_plays_and_its_decisions_are_stored(here: Path) -> None:
    study = 'tables = ["rugged.csv"]\nreplications = 1\nseed = 3\nkinds = ["follower"]\n'
    Path("study.toml").write_text(f"{study}[stop]\nruns = [12]\n")
    client = ["--mcp-client", "python client.py {server}"]
    assert run(["agents", "run", "study.toml", "--to", "out", "--workers", "1", *client]) == 0
    follower, row = read_parquet(Path("out/results.parquet"))
    assert row["kind"] == "client"
    assert (row["runs"], row["ended"]) == (12, "the budget of 12 runs is used up")
    assert follower["runs"] == 12
    events = SqliteStore(Path("out/episodes/0002-0000.db")).load("episode")
    calls = [e for e in events if isinstance(e, ToolCalled)]
    assert {(e.client, e.why) for e in calls if e.tool == "submit"} == {
        ("taker", "the model likes them")
    }
    assert json.loads(Path("out/study.json").read_text())["scripts"][0][:2] == ["client", "mcp"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; print('no key', file=sys.stderr); sys.exit(7)", "exit code 7: no key"),
        ("import time; time.sleep(600)", "it took more than its 0.5 s"),
    ],
)
def test_a_client_that_fails_or_hangs_counts_with_what_it_reached(
    here: Path, code: str, sentence: str
) -> None:
    Path("bad.py").write_text(code)
    Path("study.toml").write_text(
        'tables = ["rugged.csv"]\nreplications = 1\nkinds = [{mcp = "python bad.py {server}"}]\n'
        "[stop]\nruns = [5]\n[scripts]\nseconds = 0.5\n".replace(
            "0.5", "0.5" if "sleep" in code else "60.0"
        )
    )
    study, text, _ = read_study(Path("study.toml"))
    play_study(study, Path("out"), text, workers=1)
    (row,) = read_parquet(Path("out/results.parquet"))
    assert row["ended"].startswith("the analyst broke off: ")
    assert sentence in row["ended"]
    assert (row["runs"], row["ratio"]) == (0, 0.0)


def test_a_command_that_is_no_program_is_a_fault(here: Path) -> None:
    script = Script.named("mcp", "no-such-program {server}", str(here))
    assert script.name == "no-such-program"
    table = Table("rugged", "rugged.csv")
    study = Study(
        "s", (table,), replications=1, kinds=("no-such-program",), stop=StoppingRule((5,)),
        scripts=(script,),
    )  # fmt: skip
    play_study(study, Path("out"), "", workers=1)
    (row,) = read_parquet(Path("out/results.parquet"))
    assert "its command cannot be started: FileNotFoundError" in row["ended"]
