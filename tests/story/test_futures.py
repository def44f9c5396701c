"""A sweep over generated futures from the command line: the same story as by script."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from assistant import load_session
from assistant.applications.scheduling_futures import FutureScheduling
from assistant.cli.main import run
from assistant.config.simulation import SchedulingSettings
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.store.event_store import SqliteStore
from strategies import MeasuredTable

SWEEP = """
name = "over futures"
runs = 4
seed = 2

[application]
split = false
levels = {order = ["fcfs", "sjf"], backfill = ["easy", "none"]}

[application.futures]
generator = "lublin"
count = 3
duration = "12h"
aggregate = "worst"

[objective]
minimise = "mean_bounded_slowdown"
without = ["small_jobs_max_wait_s"]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)


def by_script() -> FutureScheduling:
    """Return the application of the file, built in a script."""
    built = build_sweep(check_settings(parse_settings(SWEEP, "x", Path(), "x"), "x")).application
    assert isinstance(built, FutureScheduling)
    return built


def test_command_line_and_script_tell_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "sweep.toml", "--store", "s.db", "--report", "r.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    application = by_script()
    experiment = load_session(SqliteStore(tmp_path / "s.db"), told["experiment"]).experiment
    assert len(experiment.runs) == 4
    for one in experiment.runs:
        assert one.outcome is not None
        values = experiment.space.values(one.configuration)
        assert dict(one.outcome.measures) == application.evaluate(values, one.seed)
    report = (tmp_path / "r.html").read_text()
    assert "3 of 12 h 00 min, drawn from a model of" in report


def test_a_table_over_futures_is_the_worst_of_each(tmp_path: Path) -> None:
    assert run(["tabulate", "sweep.toml", "--out", "t.csv", "--threads", "1"]) == 0
    application = by_script()
    table = MeasuredTable.read(tmp_path / "t.csv")
    assert len(table.measurements) == 4
    for one, measured in table.measurements.items():
        each = application.each(table.space.values(one))
        worst = max(found["mean_bounded_slowdown"] for found in each)  # type: ignore[type-var]
        assert measured.objective == pytest.approx(worst)


def test_one_run_is_tried_and_a_wrong_setting_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["try", "sweep.toml", "--json"]) == 0
    assert "mean_wait_s.spread" in capsys.readouterr().out
    (tmp_path / "wrong.toml").write_text(SWEEP.replace('"worst"', '"best"'))
    assert run(["sweep", "wrong.toml"]) == 2
    said = capsys.readouterr().err
    assert "application.futures.aggregate" in said
    assert "'mean', 'quantile' or 'worst'" in said


def test_the_template_says_how(tmp_path: Path) -> None:
    assert run(["init", "new.toml", "--kind", "scheduling"]) == 0
    text = (tmp_path / "new.toml").read_text()
    start = text.index("# [application.futures]")
    tables = tomllib.loads(text[start:].split("\n\n")[0].replace("# ", "", 1).replace("\n# ", "\n"))
    assert set(tables["application"]["futures"]) == {"generator", "count", "duration", "aggregate"}
    assert build_sweep(check_settings(tables, "x")).application.name == "scheduling"


def test_the_page_shows_settings_and_a_script_that_are_right(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (repository / "docs/howto/futures.md").read_text()
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL))
    chosen = check_settings(tomllib.loads(blocks["toml"]), "the page").application
    assert isinstance(chosen, SchedulingSettings)
    assert chosen.futures is not None
    assert (chosen.futures.aggregate, chosen.futures.quantile) == ("quantile", 0.9)
    exec(blocks["python"], {})
    judged, each = capsys.readouterr().out.splitlines()
    assert float(judged) == max(json.loads(each))
