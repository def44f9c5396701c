"""Which policy, and what it is told: asked by settings, a script and the browser's form."""

import json
from pathlib import Path

import pytest

from agents import Follower
from assistant import Session, Sla, open_session
from assistant.applications.scheduling import Scheduling
from assistant.cli.main import run
from assistant.config.snapshot import rebuild
from assistant.core.events import Event, ExperimentOpened, RunCompleted, RunSubmitted
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.pages.new_form import ClusterFields, Form
from assistant.ui.pages.new_preview import open_from
from assistant.ui.pages.new_sweep_file import form_of_experiment
from sim import load_workload

LOG = "; MaxProcs: 8\n" + "".join(
    f"{i} {7 * i} -1 {20 + 37 * i % 101} {1 + 5 * i % 8} -1 -1 {1 + 5 * i % 8} "
    f"{40 + 37 * i % 101} -1 1 {i % 3} 1 -1 1 -1 -1 -1\n"
    for i in range(1, 40)
)
FILE = """
seed = 3
runs = 20
[application]
preset = "policies"
log = "tiny.swf"
options = {reserve_anew = 0}
[application.levels]
order = ["fcfs", "sjf", "wfp3"]
depth = [1, 4, 16]
"""
LEVELS = {"order": ("fcfs", "sjf", "wfp3"), "depth": (1, 4, 16)}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.swf").write_text(LOG)


def told(events: tuple[Event, ...]) -> list[object]:
    lines: list[object] = []
    for event in events:
        match event:
            case ExperimentOpened():
                lines.append((event.space, event.objective, event.baseline, event.facts))
            case RunSubmitted():
                lines.append((event.configuration, event.seed, event.reason))
            case RunCompleted():
                lines.append((event.run_id, event.outcome.measures))
    return lines


def steered(session: Session, application: Scheduling) -> list[object]:
    Follower().steer(session, SerialExecutor(application))
    return told(session.events())


def test_settings_a_script_and_the_form_open_and_steer_the_same_experiment() -> None:
    Path("sweep.toml").write_text(FILE)
    assert run(["sweep", "sweep.toml", "--store", "kept.db", "--json"]) in (0, 3)
    store = SqliteStore(Path("kept.db"))
    by_settings = told(store.load(store.experiments()[0].id))

    application = Scheduling(
        load_workload("tiny.swf"), preset="policies", levels=LEVELS, options={"reserve_anew": 0}
    )
    assert application.space.size == 3 * 5 * 3
    assert application.space.count_allowed() == 3 * (4 + 3), "a depth means nothing to four rules"
    session = open_session(application, store=MemoryStore(), sla=Sla(max_runs=20), seed=3)
    assert steered(session, application) == by_settings

    texts = {name: tuple(map(str, levels)) for name, levels in LEVELS.items()}
    cluster = ClusterFields(preset="policies", levels=texts, options={"reserve_anew": "0"})
    form = Form("log", path="tiny.swf", runs=20, seed=3, cluster=cluster)
    opened = open_from(form, Path("form.db"))
    assert isinstance(opened.application, Scheduling)
    assert steered(opened.session, opened.application) == by_settings
    assert sum(isinstance(line[1], dict) for line in by_settings if len(line) == 2) == 20  # type: ignore[arg-type,index]

    first = opened.session.experiment.opened
    assert form_of_experiment(first, form.full_name).cluster == cluster
    again = rebuild(opened.session.experiment.opened)
    assert again.space.lineage == application.space.lineage


def test_options_of_the_command_line_are_those_of_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("sweep.toml").write_text(FILE)
    options = ["--preset", "policies", "--order", "fcfs,sjf,wfp3", "--levels", "depth=1,4,16"]
    options += ["--log", "tiny.swf", "--policy-option", "reserve_anew=0"]
    tables = []
    for arguments in (["sweep.toml"], options):
        assert run(["tabulate", *arguments, "--out", "all.csv", "--json"]) == 0
        tables.append(Path("all.csv").read_text())
        assert json.loads(capsys.readouterr().out)["rows"] == 21
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "paprika"], "no preset 'paprika'"),
        (["--preset", "policies", "--policy-option", "depth"], "not of the form depth=8"),
        (["--policy-option", "depth=8"], "option of backfill 'depth', which no run uses"),
        (["--preset", "policies", "--policy-option", "depth=-1"], "is -1; allowed are whole"),
        (["--preset", "policies", "--levels", "small_procs=0,1"], "only one partition"),
        (["--preset", "policies", "--table", "t.csv"], "no setting 'application.preset'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not Path("copperline-out").exists()
