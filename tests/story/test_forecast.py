"""``copperline forecast``: the same words and numbers as in a script, and bad input refused."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from agents import Follower
from assistant import Session, Sla
from assistant.cli.experiment_view import LiveView
from assistant.core.forecast import percent
from assistant.executors.serial import SerialExecutor
from assistant.presentation.text.forecast import ForecastSubject, headline
from assistant.store.event_store import SqliteStore
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from

pytestmark = pytest.mark.slow

Cli = Callable[..., tuple[int, str, str]]

CELLS = [(x, y, z) for x in range(10) for y in range(10) for z in range(4)]
TABLE = "x,y,z,objective\n" + "".join(
    f"{x},{y},{z},{(x - 7) ** 2 + (y - 4) ** 2 + abs(z - 2) * x + 3}\n" for x, y, z in CELLS
)


@pytest.fixture
def cli(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("COLUMNS", "120")
    return cli


def swept(folder: Path, goal: float | None, stop: int = 20, runs: int = 60) -> Session:
    (folder / "table.csv").write_text(TABLE)
    form = Form("table", str(folder / "table.csv"), runs=runs, seed=1, strategy="random")
    opened = open_from(form, folder / "store.db")
    opened.session.change_budget(Sla(runs, goal=goal))
    Follower(batch=2, max_runs=stop).steer(opened.session, SerialExecutor(opened.application))
    return opened.session


def test_it_says_the_headline_the_terms_the_fan_and_the_papers_rule(
    cli: Cli, tmp_path: Path
) -> None:
    session = swept(tmp_path, goal=3.0)
    code, out, err = cli("forecast")
    assert (code, err) == (0, "")
    seen = session.forecast()
    assert headline(ForecastSubject.of(session.experiment), seen) in out
    assert re.search(r"runs +20 of 60 ended +40", out)
    assert "after 40 more" in out
    assert "1 in 10 better than" in out
    assert "Copper's rule (not calibrated)" in out


def test_the_object_has_every_number_and_the_chart(cli: Cli, tmp_path: Path) -> None:
    session = swept(tmp_path, goal=3.0)
    n_events = session.experiment.n_events
    code, out, _ = cli("forecast", session.id, "--json")
    told = json.loads(out)
    seen = session.forecast()
    assert code == 0
    assert seen.goal is not None
    assert told["experiment"] == session.id
    assert told["goal"]["chance"] == seen.goal.chance
    assert told["miss"] == seen.miss
    assert told["headline"] == headline(ForecastSubject.of(session.experiment), seen)
    for name in ("verdict", "terms", "remaining", "binding", "duration_s", "seconds_left", "best",
                 "fan", "silence", "cautions", "calibration", "paper"):  # fmt: skip
        assert name in told
    assert told["charts"]["fan"]["layer"]
    assert SqliteStore(tmp_path / "store.db").experiments()[0].n_events == n_events


def test_too_little_is_silence_and_bad_input_is_a_sentence(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("forecast")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    swept(tmp_path, goal=3.0, stop=5)
    code, out, _ = cli("forecast")
    assert code == 0
    silence = "5 runs have ended, and a forecast needs 12."
    assert f"The chance to reach 3 is not known yet: {silence}" in out
    assert "after" not in out
    code, _, err = cli("forecast", "no-such")
    assert code == 2
    assert "no-such" in err
    session = swept(tmp_path, goal=None)
    assert "Chance that the budget suffices: " in cli("forecast", session.id)[1]


def test_the_line_of_a_sweep_has_the_chance_once_there_is_one(tmp_path: Path) -> None:
    def line(session: Session) -> str:
        console = Console(file=io.StringIO(), width=200)
        return str(LiveView(session, console)._headline())

    session = swept(tmp_path, goal=3.0)
    seen = session.forecast()
    assert seen.goal is not None
    assert seen.goal.chance is not None
    assert f"chance of the goal {percent(seen.goal.chance)}" in line(session)
    assert "chance" not in line(swept(tmp_path, goal=3.0, stop=5))
    assert "chance" not in line(swept(tmp_path, goal=None))


@pytest.mark.soak
def test_the_page_prints_what_it_says(tmp_path: Path, repository: Path) -> None:
    page = (repository / "docs/howto/forecast.md").read_text()
    found = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "forecast.py").write_text(found[1])
    done = subprocess.run(
        [sys.executable, "forecast.py"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(repository), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout == found[2]
