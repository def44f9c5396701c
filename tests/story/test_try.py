"""`copperline try`: one run before a sweep, and what it says of the rest; nothing is stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from assistant import Sla
from assistant.cli.commands.dry_run import LAST_LINES, DryRunReport, failure_hint
from assistant.cli.main import run
from assistant.config.snapshot import open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ProgramError
from assistant.core.events import RunSubmitted
from assistant.store.event_store import MemoryStore, SqliteStore

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sweep_file(script: str, **more: Any) -> Path:
    """A sweep over a shell script with one parameter, `size`, whose today is 2."""
    Path("program.sh").write_text(script)
    top = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    path = Path("sweep.toml")
    path.write_text(
        f"{top}[application]\ncommand = ['sh', 'program.sh', '{{size}}', '{{seed}}']\n"
        "baseline = {size = 2}\n"
        "[objective]\nminimise = 'time_ms'\nunit = 'ms'\n"
        "constraints = [{measure = 'memory_mb', at_most = 600.0}]\n"
        "[[parameters]]\nname = 'size'\nlevels = [1, 2, 4]\n"
    )
    return path


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


GOOD = 'echo "{\\"time_ms\\": $1, \\"memory_mb\\": 512, \\"seed\\": $2}"\n'


def test_todays_configuration_is_run_once_and_nothing_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sweep_file(f"echo x >> ran\n{GOOD}", runs=7)
    assert run(["try", str(path), "--json"]) == 0
    said = told(capsys)
    assert (said["ok"], said["baseline"], said["configuration"]) == (True, True, {"size": 2})
    assert (said["value"], said["unit"], said["feasible"]) == (2.0, "ms", True)
    assert said["constraints"] == [
        {"text": "memory_mb at most 600", "measure": "memory_mb", "value": 512.0, "met": True}
    ]
    assert said["space"]["size"] == 3
    assert said["space"]["parameters"][0]["levels"] == [1, 2, 4]
    assert said["expected_s"] == pytest.approx(7 * said["duration_s"])
    assert said["failure"] is None
    assert (tmp_path / "ran").read_text() == "x\n", "once"
    assert not [*tmp_path.rglob("*.db")]


def test_the_run_has_the_seed_of_the_sweeps_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    path = sweep_file(GOOD, seed=11, runs=3)
    assert run(["try", str(path), "--json"]) == 0
    seed = told(capsys)["measures"]["seed"]
    assert run(["sweep", str(path), "--store", "kept.db", "--json"]) == 0
    store = SqliteStore(Path("kept.db"))
    events = store.load(store.experiments()[0].id)
    assert next(e.seed for e in events if isinstance(e, RunSubmitted)) == seed


def test_a_constraint_that_is_violated_is_told_and_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = sweep_file(GOOD.replace("512", "700"))
    assert run(["try", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "violated: memory_mb at most 600 (memory_mb is 700)" in out
    assert "60 runs take" in out
    assert "Nothing was stored." in out


def test_a_failure_shows_the_command_the_code_the_last_lines_and_what_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "i=1\nwhile [ $i -le 90 ]; do echo line$i; i=$((i+1)); done\necho why >&2\nexit 3\n"
    path = sweep_file(script)
    assert run(["try", str(path), "--json"]) == 4
    failure = told(capsys)["failure"]
    assert failure["command"][:3] == ["sh", "program.sh", "2"]
    assert failure["folder"] == str(tmp_path)
    assert failure["exit_code"] == 3
    assert failure["stdout"] == [f"line{i}" for i in range(91 - LAST_LINES, 91)]
    assert failure["stderr"] == ["why"]
    assert "exit code 0" in failure["hint"]
    assert run(["try", str(path)]) == 4
    out = capsys.readouterr().out
    for part in ("exit code: 3", "line90", "why", "What to change: ", "command: sh program.sh 2"):
        assert part in out
    assert "line50\n" not in out
    assert not [*tmp_path.rglob("*.db")]


@pytest.mark.parametrize(
    ("script", "more", "reason", "warning"),
    [
        ("echo hello\n", {}, "JSON", "as in cost: 12.5"),
        ("echo 'time = 3 s'; echo bye\n", {}, "JSON", "names these numbers: time. Take one"),
        ("echo '{\"time\": 1}'\n", {}, "it gave: time", "as the last line"),
        ("exec nothing-of-that-name\n", {}, "exit code 127", "was not found"),
        ("kill -9 $$\n", {}, "SIGKILL", "memory"),
        ("sleep 60\n", {"run_limit": "0.2s"}, "stopped at the limit", "more time"),
    ],
)
def test_each_failure_says_what_to_change(
    script: str,
    more: dict[str, Any],
    reason: str,
    warning: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["try", str(sweep_file(script, **more)), "--json"]) == 4
    failure = told(capsys)["failure"]
    assert reason in failure["reason"]
    assert warning in failure["hint"]


def test_a_program_that_was_not_started_is_named() -> None:
    assert "chmod +x" in failure_hint(ProgramError("no", ("./p",)))


def test_a_program_that_took_too_much_may_be_allowed_more() -> None:
    assert "Raise the limit" in failure_hint(ProgramError("no", ("./p",), -9, limited=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs = = 3", "is not TOML"),
        ("budgets = 3", "there is no setting 'budgets'"),
        ("[application]\ntable = 'nowhere.csv'", "nowhere.csv"),
        ("runs = 0", "a whole number from 1 to"),
        ("[strategy]\nname = 'graps'", "did you mean 'grasp'?"),
        ("exclude = ['small_procs >= 0']", "no configuration to run"),
        ("exclude = ['x > 0']\n[application]\ntable = 'm.csv'", "no configuration to run"),
    ],
)
def test_a_sweep_that_is_wrong_is_refused_as_bad_input(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.toml").write_text(text)
    Path("m.csv").write_text("x,objective\n1,2\n")
    assert run(["try", "bad.toml"]) == 2
    assert said in capsys.readouterr().err


def test_a_table_begins_with_a_row_that_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.csv").write_text("x,y,objective\n1,2,4\n2,1,3\n")
    assert run(["try", "--table", "m.csv", "--json"]) == 0
    assert told(capsys)["configuration"] == {"x": 1, "y": 2}
    assert run(["try", "--table", "m.csv", "--include", "x=2,y=2", "--json"]) == 4
    assert "--include" in told(capsys)["failure"]["hint"]
    assert run(["try", "--table", "m.csv", "--include", "x=2,y=9", "--json"]) == 2


def test_the_built_in_example_is_tried_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["try", "--runs", "10", "--json"]) == 0
    said = told(capsys)
    assert said["baseline"]
    assert said["configuration"]["small_procs"] == 0
    assert said["feasible"] is False, "today violates the wait of small jobs"


def trial(sla: Sla, workers: int, duration_s: float) -> DryRunReport:
    tables = {
        "application": {"kind": "scheduling"}, "workers": workers,
        "runs": sla.max_runs or 1, "deadline": "100s",
    }  # fmt: skip
    session = open_sweep(build_sweep(check_settings(tables, "x")), MemoryStore(), "x")
    opened_s = session.experiment.opened.at_s
    if sla.deadline_s is not None:
        sla = Sla(sla.max_runs, opened_s + sla.deadline_s)
    session.change_budget(sla)
    return DryRunReport(session.experiment, {}, True, 0, duration_s, None, None)


@pytest.mark.parametrize(
    ("sla", "workers", "seconds", "expected", "words"),
    [
        (Sla(7), 2, 10.0, 40.0, "7 runs take about 40 s with 2 at once"),
        (Sla(7), 1, 0.01, 0.07, "7 runs take less than a second"),
        (Sla(7, 35.0), 1, 10.0, 70.0, "7 runs take about 70 s, but about 3 runs fit"),
        (Sla(3, 35.0), 1, 10.0, 30.0, "and they fit before the deadline"),
        (Sla(None, 35.0), 1, 10.0, None, "about 3 runs fit before the deadline"),
        (Sla(None), 1, 10.0, None, "there is no limit"),
    ],
)
def test_the_budget_is_what_runs_and_workers_make_of_one_duration(
    sla: Sla, workers: int, seconds: float, expected: float | None, words: str
) -> None:
    tried = trial(sla, workers, seconds)
    assert tried.expected_s == (None if expected is None else pytest.approx(expected))
    assert words in tried.budget_words


def test_a_series_is_told_by_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    script = 'echo "{\\"time_ms\\": 1, \\"memory_mb\\": 1, \\"level\\": [1, 2, 3]}"\n'
    assert run(["try", str(sweep_file(script))]) == 0
    out = capsys.readouterr().out
    assert "a series of 3 numbers, from 1 to 3" in out
