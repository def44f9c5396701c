"""What *Overview* says of the goal and of what may come, and one story told three times."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from agents import Follower
from assistant import Forecast, Session, Sla
from assistant.analysis.forecast import forecast
from assistant.cli.main import run
from assistant.core.forecast import percent
from assistant.executors.serial import SerialExecutor
from assistant.presentation.text.forecast import ForecastSubject, headline, verdict_of
from assistant.ui.pages import overview
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from tests.ui.stage import staged


def swept(store: Path, goal: float | None, stop: int, runs: int = 60) -> Session:
    table = store.parent / "bowl.csv"
    cells = [(x, y) for x in range(20) for y in range(20)]
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + (y - 4) ** 2 + 3}\n" for x, y in cells)
    table.write_text(f"x,y,objective\n{rows}")
    opened = open_from(Form("table", str(table), runs=runs, seed=1, strategy="random"), store)
    opened.session.change_budget(Sla(runs, goal=goal))
    Follower(batch=4, max_runs=stop).steer(opened.session, SerialExecutor(opened.application))
    return opened.session


def shown(session: Session) -> AppTest:
    return staged(overview.page, session)  # type: ignore[arg-type]


def lines(page: AppTest) -> list[str]:
    return [block.value.replace("**", "") for block in page.markdown]


def tiles(page: AppTest) -> dict[str, tuple[str, str]]:
    return {metric.label: (metric.value, metric.delta) for metric in page.metric}


@pytest.mark.parametrize(
    ("goal", "stop", "runs", "verdict", "icon"),
    [
        (3.0, 5, 60, "silent", "hourglass_top"),
        (100.0, 16, 60, "reached", "flag"),
        (3.0, 20, 22, "nearly_used", "hourglass_bottom"),
        (3.0, 20, 20, "missed", "block"),
    ],
)
def test_one_line_says_how_the_goal_stands(
    store: Path, goal: float, stop: int, runs: int, verdict: str, icon: str
) -> None:
    session = swept(store, goal, stop, runs)
    seen = session.forecast()
    assert verdict_of(seen) == verdict
    text = headline(ForecastSubject.of(session.experiment), seen)
    page = shown(session)
    (line,) = [line for line in lines(page) if text in line]
    assert icon in line
    done = session.experiment.n_ended
    assert tiles(page)["Runs used"][0] == f"{done} of {runs}"
    if verdict == "missed":
        assert tiles(page)["Time used"] == ("below 1 s", "")
    else:
        assert tiles(page)["Time left"] == ("about 1 s", f"{runs - done} runs left")


@pytest.mark.parametrize(
    ("chance", "icon", "begins"),
    [
        (0.05, "error", "Very likely to miss:"),
        (0.2, "warning", "Likely to miss:"),
        (0.5, "balance", "Chance to reach 3 "),
        (0.8, "trending_up", "On track:"),
    ],
)
def test_every_verdict_has_its_words_and_its_icon(
    store: Path, monkeypatch: pytest.MonkeyPatch, chance: float, icon: str, begins: str
) -> None:
    session = swept(store, 3.0, 20)

    def as_foretold(self: Session) -> Forecast:
        seen = forecast(self.experiment, self.now_s())
        assert seen.goal is not None
        return replace(seen, goal=replace(seen.goal, chance=chance, band=(chance / 2, 0.9)))

    monkeypatch.setattr(Session, "forecast", as_foretold)
    (line,) = [line for line in lines(shown(session)) if "Chance to reach" in line]
    assert f":material/{icon}:" in line
    assert begins in line
    assert percent(chance) in line


def test_without_a_goal_no_chance_is_told_outside_of_the_diagnostics(store: Path) -> None:
    session = swept(store, None, 16)
    page = shown(session)
    text = " ".join(lines(page))
    assert "hance" not in text
    assert "rule" not in text
    assert len(page.metric) == 3
    page.session_state[f"diagnostics-{session.id}"] = True
    page.run()
    assert not page.exception
    text = " ".join((*lines(page), *(caption.value for caption in page.caption)))
    assert "Chance that the budget suffices: " in text
    assert "Copper's rule (not calibrated)" in text
    table = next(f.value for f in page.dataframe if "further runs" in f.value)
    assert list(table["further runs"])[-1] == 44


def test_it_draws_what_may_come_until_the_end(store: Path) -> None:
    session = swept(store, 3.0, 20)
    page = shown(session)
    assert "Best so far, and what may come" in lines(page)
    finished = swept(store, 3.0, 20, 20)
    finished.finish("used up")
    page = shown(finished)
    assert "Best so far" in lines(page)
    assert any("The goal of 3 was not reached." in line for line in lines(page))


def test_browser_command_line_and_script_tell_the_same_number(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = swept(store, 3.0, 20)
    seen = session.forecast().goal
    assert seen is not None
    assert seen.chance is not None
    capsys.readouterr()
    assert run(["forecast", session.id, "--store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["goal"]["chance"] == seen.chance
    assert told["headline"] in " ".join(lines(shown(session)))
    assert re.search(re.escape(percent(seen.chance)), told["headline"])
