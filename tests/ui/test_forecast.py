"""The banner of every page, in each way that a goal can stand, and one story told three times."""

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


def banner(page: AppTest, kind: str) -> list[str]:
    return [box.value.replace("**", "") for box in getattr(page, kind)]


def tiles(page: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in page.metric}


@pytest.mark.parametrize(
    ("goal", "stop", "runs", "verdict", "kind"),
    [
        (3.0, 5, 60, "silent", "info"),
        (100.0, 16, 60, "reached", "success"),
        (3.0, 20, 22, "nearly_used", "warning"),
        (3.0, 20, 20, "missed", "error"),
    ],
)
def test_the_banner_says_how_the_goal_stands(
    store: Path, goal: float, stop: int, runs: int, verdict: str, kind: str
) -> None:
    session = swept(store, goal, stop, runs)
    seen = session.forecast()
    assert verdict_of(seen) == verdict
    text = headline(ForecastSubject.of(session.experiment), seen)
    page = shown(session)
    assert text in banner(page, kind)
    assert any("Copper's rule (not calibrated)" in caption.value for caption in page.caption)
    assert ("Runs left" in tiles(page)) == (verdict != "missed")
    assert ("Chance of the goal" in tiles(page)) == (verdict not in ("missed", "reached"))
    if verdict == "silent":
        assert tiles(page)["Chance of the goal"] == "unknown"
        assert tiles(page)["Best expected at the end"] == "unknown"


@pytest.mark.parametrize(
    ("chance", "kind", "begins"),
    [
        (0.05, "error", "Very likely to miss:"),
        (0.2, "warning", "Likely to miss:"),
        (0.5, "info", "Chance to reach 3 "),
        (0.8, "success", "On track:"),
    ],
)
def test_every_verdict_has_its_words_and_its_box(
    store: Path, monkeypatch: pytest.MonkeyPatch, chance: float, kind: str, begins: str
) -> None:
    session = swept(store, 3.0, 20)

    def as_foretold(self: Session) -> Forecast:
        seen = forecast(self.experiment, self.now_s())
        assert seen.goal is not None
        return replace(seen, goal=replace(seen.goal, chance=chance, band=(chance / 2, 0.9)))

    monkeypatch.setattr(Session, "forecast", as_foretold)
    page = shown(session)
    told = [text for text in banner(page, kind) if "Chance to reach" in text]
    assert len(told) == 1
    assert told[0].startswith(begins)
    assert tiles(page)["Chance of the goal"] == percent(chance)


def test_without_a_goal_there_is_a_line_and_no_box(store: Path) -> None:
    session = swept(store, None, 16)
    page = shown(session)
    assert any("Chance that the budget suffices: " in m.value for m in page.markdown)
    assert "Chance of the goal" not in tiles(page)
    assert tiles(page)["Runs left"] == "44"


def test_it_draws_what_may_come_and_has_it_as_a_table(store: Path) -> None:
    session = swept(store, 3.0, 20)
    page = shown(session)
    assert any(s.value == "Best so far, and forecast" for s in page.subheader)
    table = next(f.value for f in page.dataframe if "further runs" in f.value)
    assert list(table["further runs"])[-1] == 40
    finished = swept(store, 3.0, 20, 20)
    finished.finish("used up")
    page = shown(finished)
    assert not any("further runs" in f.value for f in page.dataframe)
    assert "The goal of 3 was not reached." in banner(page, "error")


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
    page = shown(session)
    assert tiles(page)["Chance of the goal"] == percent(seen.chance)
    everything = " ".join(
        text for kind in ("info", "success", "warning", "error") for text in banner(page, kind)
    )
    assert told["headline"] in everything
    assert re.search(re.escape(percent(seen.chance)), told["headline"])
