"""What a study shows in sentences: known differences are told, and none where there is none."""

from pathlib import Path

import numpy as np
import pytest

from agents.studies.report import findings
from agents.studies.results import EpisodeResult, Episodes
from agents.studies.study import Cell, StoppingRule, StrategyChoice, Study, Table

TABLES = (Table("maze", "maze.csv"),)


def episode(number: int, runs: int | None, ratio: float | None = None) -> EpisodeResult:
    return EpisodeResult(
        replication=number, seed=number, runs=50, suggested=0, runs_to_optimum=runs,
        censored=runs is None, best=1.0, ratio=ratio, late=False, ended="",
    )  # fmt: skip


def made(study: Study, mean: dict[object, float], of: str, n: int = 40) -> Episodes:
    """Return episodes whose means are as wanted along one axis."""
    rng = np.random.default_rng(7)
    episodes = []
    for cell in study.cells():
        numbers = rng.normal(mean.get(_value(cell, of), 20.0), 2.0, n)
        played = [episode(i, max(1, round(x)), ratio=x / 100) for i, x in enumerate(numbers)]
        episodes.append((cell, 50, played))
    return episodes


def _value(cell: Cell, of: str) -> object:
    value = getattr(cell, of)
    return str(value) if of == "strategy" else value


def test_confidence_is_told_for_each_insight_the_surest_first() -> None:
    study = Study("s", TABLES, insights=("bad", "good"), confidences=(0, 50, 100))
    told = findings(study, made(study, {0: 30.0, 100: 15.0}, "confidence"))
    assert [one.sure for one in told] == [True, True, False, False]
    assert {one.text.split(" saves ")[0] for one in told[:2]} == {
        "With bad insight, confidence 100 % instead of 0 %",
        "With good insight, confidence 100 % instead of 0 %",
    }
    assert "runs to the optimum: 1" in told[0].text
    assert " instead of 30" in told[0].text or " instead of 29" in told[0].text
    assert told[0].weight >= told[1].weight > 1
    assert all("learning: these episodes show no difference (" in one.text for one in told[2:])


@pytest.mark.parametrize(
    ("of", "mean", "text"),
    [
        ("learning", {True: 30.0}, "Without insight, learning costs 1"),
        ("strategy", {"random": 30.0}, "Random instead of copper costs 10"),
        ("strategy", {"random": 10.0}, "Random instead of copper saves 10"),
    ],
)
def test_every_axis_is_compared(of: str, mean: dict[object, float], text: str) -> None:
    study = Study(
        "s", TABLES, insights=("none",), confidences=(50,),
        strategies=(StrategyChoice("copper"), StrategyChoice("random")),
    )  # fmt: skip
    told = [one for one in findings(study, made(study, mean, of)) if one.sure]
    assert len(told) == 1
    assert told[0].text.startswith(text.rstrip("0123456789"))


def test_with_budgets_the_ratio_is_told() -> None:
    study = Study(
        "s", (*TABLES, Table("flood", "flood.csv")), kinds=("follower",),
        stop=StoppingRule((10, 25), (None, 0.5)),
    )  # fmt: skip
    told = findings(study, made(study, {25: 60.0}, "runs"))
    sure = [one.text for one in told if one.sure]
    assert len(sure) == 2
    assert all("a budget of 25 runs instead of 10 raises the ratio" in one for one in sure)
    assert {one.split(",")[0] for one in sure} == {"On maze", "On flood"}
    open_ = [one.text for one in told if not one.sure]
    assert any("exploitation 0.5 against no level: these episodes" in one for one in open_)


def test_an_episode_that_was_given_up_counts_with_what_was_allowed() -> None:
    study = Study("s", TABLES, insights=("none",), confidences=(0, 100), learning=(False,))
    lost, found = ([episode(i, runs) for i in range(9)] for runs in (None, 10))
    cells = study.cells()
    (only,) = findings(study, [(cells[0], 50, lost), (cells[1], 50, found)])
    assert only.sure
    assert only.text == (
        "Without insight, confidence 100 % instead of 0 % saves 40 (40 to 40) runs to the "
        "optimum: 10 instead of 50."
    )


def test_one_cell_is_no_comparison() -> None:
    study = Study("s", TABLES, insights=("none",), confidences=(0,), learning=(False,))
    assert findings(study, [(study.cells()[0], 50, [episode(0, 3)])]) == ()


def test_most_intervals_hold_nothing_where_nothing_is() -> None:
    study = Study("s", TABLES, insights=("none",), confidences=(0, 100), learning=(False,))
    rng = np.random.default_rng(3)
    sure = 0
    for _ in range(60):
        episodes = [
            (cell, 50, [episode(i, int(x)) for i, x in enumerate(rng.integers(1, 50, 30))])
            for cell in study.cells()
        ]
        sure += findings(study, episodes)[0].sure
    assert sure <= 9, "one in twenty is what 95 % leaves"
    assert Path(TABLES[0].path).name == "maze.csv"
