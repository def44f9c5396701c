"""Two measures at once, told by the command line, the browser and a script: the same front."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents import Follower
from assistant import (
    Constraint,
    Measure,
    Objective,
    SecondObjective,
    SingleMeasure,
    Sla,
    load_session,
    open_session,
)
from assistant.applications.function import Function
from assistant.applications.scheduling import Scheduling
from assistant.cli.main import run
from assistant.core.errors import ObjectiveError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.pages import overview, report
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from strategies import Parameter, ParameterSpace, hypervolume
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

SPACE = ParameterSpace((Parameter("x", tuple(range(8))), Parameter("y", tuple(range(8)))))
BOTH = Objective(SingleMeasure("wait_s"), second=SecondObjective(SingleMeasure("cost"), "minimise"))


def two(x: int, y: int) -> dict[str, float]:
    """Waits are low for a large x, costs for a small one; y = 3 is best for both."""
    return {"wait_s": (7 - x) ** 2 + (y - 3) ** 2, "cost": float(x**2 + (y - 3) ** 2)}


def dominated(one: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    return any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in others)


def is_weighed(reason: str, first: str = "wait_s") -> bool:
    return re.search(rf"\bBy \S+ {first} to \S+ \w+: ", reason) is not None


def test_a_script_finds_the_front_and_the_report_tells_it() -> None:
    application = Function(two, SPACE, BOTH, {"x": 0, "y": 0})
    session = open_session(application, store=MemoryStore(), sla=Sla(60))
    Follower(initial=10, batch=5).steer(session, SerialExecutor(application))
    experiment = session.experiment
    told = {
        run.id: (run.outcome.value, run.outcome.second_value)
        for run in experiment.runs
        if run.outcome is not None and run.outcome.second_value is not None
    }
    assert len(told) == 60
    wanted = {i for i, pair in told.items() if not dominated(pair, list(told.values()))}
    assert {run.id for run in experiment.front} == wanted
    found = [(-a, -b) for a, b in told.values()]
    truth = [(-float((7 - x) ** 2), -float(x**2)) for x in range(8)]
    share = hypervolume(found, (-60.0, -60.0)) / hypervolume(truth, (-60.0, -60.0))
    assert share > 0.95
    assert experiment.best is not None
    assert experiment.best.id == experiment.front[0].id

    suggested = [run for run in experiment.runs if run.source == "suggested"]
    assert all(is_weighed(run.reason) for run in suggested)
    data = collect(experiment)
    (said,) = [s for s in data.answer.sentences if "first of two measures" in s]
    assert "It is the best by wait_s" in said
    assert f"{len(wanted)} configurations are on the Pareto front" in said
    page = render_html(data)
    assert "Pareto front: wait_s against cost" in page
    assert {row.run_id for row in data.front} == wanted
    assert sum(not point.on_front for point in data.trade) == 60 - len(wanted)


@pytest.mark.soak
def test_trade_offs_of_a_real_log(shared_data: Path) -> None:
    """Mean wait against the size of the cluster: the constraint of the log's own sweep is off."""
    from sim import load_workload

    log = load_workload(shared_data / "swf" / "alea-hpc2n-subset.swf.gz", first=1000)
    application = Scheduling(log, levels={"procs": (240, 200, 320, 400), "order": ("fcfs", "sjf")})
    objective = Objective(
        SingleMeasure("mean_wait_s"),
        constraints=(Constraint("n_rejected", at_most=0.0),),
        unit="s",
        second=SecondObjective(SingleMeasure("procs")),
    )
    session = open_session(application, store=MemoryStore(), objective=objective, sla=Sla(40))
    Follower(initial=12, batch=4).steer(session, SerialExecutor(application))
    experiment = session.experiment
    feasible = [
        (run.outcome.value, run.outcome.measures["procs"])
        for run in experiment.runs
        if run.outcome is not None and run.outcome.feasible
    ]
    front = experiment.front
    assert 2 <= len(front) <= 8  # at most one wait for each size, but for ties
    for one in front:
        assert one.outcome is not None
        assert one.outcome.feasible
        assert not dominated((one.outcome.value, one.outcome.measures["procs"]), feasible)  # type: ignore[arg-type]
    waits = [one.outcome.value for one in front if one.outcome]
    assert waits == sorted(waits)
    assert any(is_weighed(run.reason, "mean_wait_s") for run in experiment.runs)


def test_weights_regions_and_preferred_levels_compose() -> None:
    """Regions are those of the first measure; only what the strategy draws outside is weighed."""
    application = Function(two, SPACE, BOTH)
    session = open_session(application, store=MemoryStore(), sla=Sla(60), exploitation=0.5)
    session.submit(session.initial_evaluation(30))
    session.run_queued(SerialExecutor(application))
    session.prefer_level("x", 6)
    session.prefer_level("x", 7)
    reasons = [s.reason for s in session.suggest(12).suggestions]
    assert all(reason.endswith("is preferred.") for reason in reasons[:6])
    assert not any("preferred" in reason for reason in reasons[6:])
    inside = [reason for reason in reasons if "in region " in reason]
    assert len(inside) == 6
    assert sum(is_weighed(reason) for reason in reasons) == 6
    assert not any(is_weighed(reason) for reason in inside)


TABLE = "x,y,objective,duration_s\n" + "".join(
    f"{x},{y},{two(x, y)['wait_s']},{two(x, y)['cost'] + 1}\n" for x in range(6) for y in range(5)
)
SWEEP = """runs = 20
initial = 6
seed = 5

[application]
table = "table.csv"

[objective]
minimise = "objective"
second = "duration_s"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "store.db"))
    monkeypatch.setattr("sys.argv", ["streamlit_app.py"])
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Mapping[str, Any]:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    told: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.soak
def test_the_file_the_option_and_a_script_end_in_the_same_front(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_file = printed(capsys, "sweep", "sweep.toml")
    options = ["--runs", "20", "--initial", "6", "--seed", "5", "--also", "minimise duration_s"]
    by_option = printed(capsys, "sweep", "--table", "table.csv", *options)
    assert by_file["front"] == by_option["front"]
    assert by_file["objective"] == "minimise objective and minimise duration_s"
    assert by_file["best"] == by_file["front"][0]

    opened = open_from(Form("file", "sweep.toml"), folder / "other.db")
    session = opened.session
    Follower(initial=6).steer(session, SerialExecutor(opened.application))
    assert [one["run"] for one in by_file["front"]] == [r.id for r in session.experiment.front]

    assert run(["report", "latest"]) == 0
    shown = capsys.readouterr().out
    assert "Pareto front of objective and duration_s:" in shown
    (line,) = [s for s in shown.splitlines() if "first of two measures" in s]
    assert f"{len(by_file['front'])} configurations are on the Pareto front" in line


def test_the_browser_shows_the_front_of_the_command_lines_sweep(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, "sweep", "sweep.toml")
    session = load_session(SqliteStore(folder / "store.db"), told["experiment"])
    for draw in (report.page, overview.page):
        page = staged(draw, session)  # type: ignore[arg-type]
        tables = [t.value for t in page.dataframe if "duration_s" in t.value.columns]
        (front,) = [t for t in tables if "runs" in t.columns]
        assert front["run"].tolist() == [one["run"] for one in told["front"]]
    runs = next(t.value for t in page.dataframe if "verdict" in t.value.columns)
    assert runs["duration_s"].notna().all()


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ('second = "duration"', "did you mean 'duration_s'"),
        ('second_goal = "maximise"', "name it with 'second'"),
        ('second = "duration_s"\nsecond_goal = "least"', "second_goal"),
        ('second = "objective"', "is the first one already"),
    ],
)
def test_a_second_measure_that_cannot_be_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], objective: str, said: str
) -> None:
    text = SWEEP.replace('second = "duration_s"', objective)
    (folder / "sweep.toml").write_text(text)
    assert run(["sweep", "sweep.toml"]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "store.db").exists()


@pytest.mark.parametrize("also", ["duration_s", "least duration_s", "minimise", "minimise nothing"])
def test_an_option_that_cannot_be_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], also: str
) -> None:
    assert run(["sweep", "--table", "table.csv", "--also", also]) == 2
    assert "minimise" in capsys.readouterr().err or also == "minimise nothing"


def test_a_run_without_the_second_measure_has_failed() -> None:
    def half(x: int, y: int) -> dict[str, Measure]:
        return {"wait_s": 1.0, "cost": None if x > 3 else 2.0}

    application = Function(half, SPACE, BOTH)
    session = open_session(application, store=MemoryStore(), sla=Sla(4))
    session.include({"x": 5, "y": 0})
    session.include({"x": 1, "y": 0})
    session.run_queued(SerialExecutor(application))
    failed, fine = session.experiment.runs
    assert "cost" in (failed.failure or "")
    assert fine.outcome is not None
    assert (fine.outcome.second_value, fine.outcome.second) == (2.0, -2.0)
    with pytest.raises(ObjectiveError, match="cost"):
        session.import_results([({"x": 2, "y": 0}, {"wait_s": 1.0})])


def test_a_journal_of_one_measure_is_read_as_it_was(folder: Path) -> None:
    from assistant import Experiment
    from assistant.core.codec import decode_event, encode_event

    assert run(["sweep", "--table", "table.csv", "--runs", "6", "--json"]) == 0
    store = SqliteStore(folder / "store.db")
    events = store.load(store.experiments()[0].id)
    lines = [json.loads(encode_event(event)) for event in events]
    for line in lines:
        if line["type"] == "ExperimentOpened":
            assert line["objective"].pop("second") is None
        if line["type"] == "RunCompleted":
            assert [line["outcome"].pop(name) for name in ("second", "second_value")] == [None] * 2
    read = Experiment.replay(decode_event(json.dumps(line)) for line in lines)
    assert read.runs == Experiment.replay(events).runs
    assert read.front == ()
