"""Playbooks in a folder: what is played, that it goes on after a kill, what is written."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents import (
    FIGURE_NAMES,
    EvaluationRecipe,
    EvaluationSpace,
    Truth,
    read_study,
    reproduce,
    write_evaluation,
)
from agents.reproduction.evaluation_report import facts, shares, space_map
from agents.reproduction.recipe import (
    DEFAULT,
    FAITHFUL,
    GOAL,
    StrategyComparison,
    WarningComparison,
    advice_keeps_more,
    compare_studies,
    default_finds_more,
    goals_of,
    leading,
    runs_of,
    study_of,
)
from agents.studies.results import Sample, read_parquet
from agents.studies.study import study_text
from agents.studies.study_runner import identity
from assistant import AssistantError
from assistant.applications.lookup import Lookup
from strategies import DEFAULT_STRATEGY
from tests.agents.examples import TEXTS, truth


@pytest.fixture
def spaces(tmp_path: Path) -> tuple[EvaluationSpace, ...]:
    """Small tables under the names of the paper's applications."""
    made = []
    for name, text in zip(("flood", "maze"), ("rugged", "failing"), strict=True):
        path = tmp_path / f"{name}.csv"
        path.write_text(TEXTS[text])
        made.append(EvaluationSpace(name, path, f"a small {text} space"))
    return tuple(made)


@pytest.mark.slow
def test_a_recipe_goes_on_and_ends_with_the_same_bytes(
    spaces: tuple[EvaluationSpace, ...], tmp_path: Path
) -> None:
    recipe = EvaluationRecipe(("5", "6", "9"), spaces, 2, quick=True)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = reproduce(recipe, whole, workers=1)
    assert list(done.studies) == ["6", "9"]

    def stop(what: str, n: int, total: int) -> None:
        if what.startswith("Figure 9") and n > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(recipe, broken, 1, stop)
    assert (broken / "figure6" / "results.parquet").exists()
    assert not (broken / "figure9" / "results.parquet").exists()
    seen: list[tuple[str, int]] = []
    again = reproduce(recipe, broken, 1, lambda what, n, _total: seen.append((what, n)))
    assert seen[0][1] == 2 * 5 * 2 * 3 * 2, "all of figure 6 was kept"
    assert seen[1][1] > 0, "and a part of figure 9"
    assert again.verdicts == done.verdicts
    assert (whole / "figure9" / "summary.csv").read_text().count("\n") == 1 + 2 * 5
    for figure in ("6", "9"):
        files = [folder / f"figure{figure}" / "results.parquet" for folder in (whole, broken)]
        assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(AssistantError, match="holds another study"):
        reproduce(replace(recipe, seed=1), broken, workers=1)

    written = write_evaluation(done, whole)
    page, text, verdicts = (path.read_text() for path in written)
    assert page.index("Verdicts") < page.index("Figure 5") < page.index("Figure 6")
    assert page.count("<svg") == 2 + 6 + 1
    told = json.loads(verdicts)["verdicts"]
    assert len(told) == 9 * 2 + 3
    for one in told:
        assert one["evidence"] in text
        assert one["outcome"] in ("holds", "does not hold", "undecided")
    names = {path.name for path in (whole / "figures").iterdir()}
    assert {"figure5_maze.svg", "figure6_flood_bad.svg", "figure9_maze.svg"} <= names


def test_a_study_of_the_folder_is_played_alone_as_well(
    spaces: tuple[EvaluationSpace, ...], tmp_path: Path
) -> None:
    recipe = EvaluationRecipe(FIGURE_NAMES, spaces, 3)
    for figure in ("6", "7", "9"):
        study = study_of(recipe, figure)
        folder = tmp_path / figure
        folder.mkdir()
        (folder / "study.toml").write_text(study_text(study, folder))
        read, _, workers = read_study(folder / "study.toml")
        assert identity(read) == identity(study)
        assert workers is None


def test_the_paper_s_grids_are_asked(spaces: tuple[EvaluationSpace, ...]) -> None:
    recipe = EvaluationRecipe(FIGURE_NAMES, (*spaces, replace(spaces[0], name="scheduling")))
    cells = study_of(recipe, "6").cells()
    assert len(cells) == 3 * 3 * 11 * 2
    assert study_of(recipe, "6").replications == 500
    for figure in ("7", "8", "9"):
        study = study_of(recipe, figure)
        assert len(study.cells()) == 4 * 5
        assert {cell.confidence for cell in study.cells()} == {100}
        assert study.stop.advised_from == 0.7
    assert replace(recipe, quick=True).episodes == 20
    assert len(study_of(replace(recipe, quick=True), "8").cells()) == 2 * 5


def test_figures_without_their_space_are_left_out(spaces: tuple[EvaluationSpace, ...]) -> None:
    assert "8" not in EvaluationRecipe(FIGURE_NAMES, spaces).playable_figures
    with pytest.raises(AssistantError, match="nothing to reproduce for figure 8"):
        EvaluationRecipe(("8",), spaces)
    with pytest.raises(AssistantError, match="no figure '4' to reproduce; allowed are 5, 6,"):
        EvaluationRecipe(("4", "6"), spaces)


def test_runs_count_until_the_optimum_or_until_given_up(
    spaces: tuple[EvaluationSpace, ...], tmp_path: Path
) -> None:
    reproduce(EvaluationRecipe(("6",), spaces[:1], 4, quick=True), tmp_path / "to", workers=1)
    rows = read_parquet(tmp_path / "to" / "figure6" / "results.parquet")
    study = study_of(EvaluationRecipe(("6",), spaces[:1], 4, quick=True), "6")
    (row,) = runs_of(study, rows, {"flood": truth("rugged")})
    given_up = [one for one in rows if one["runs_to_optimum"] is None]
    assert given_up, "or the test shows less than it should"
    for insight, at, learning in itertools.product(("bad", "good"), (0, 100), (False, True)):
        own = [
            one["runs_to_optimum"]
            for one in rows
            if (one["insight"], one["confidence"], one["learning"]) == (insight, at, learning)
        ]
        cell = row.samples[insight, at, learning]  # type: ignore[index]
        assert cell.mean.value == pytest.approx(sum(one or 30 for one in own) / 4)
        assert cell.share_found == 1 - own.count(None) / 4


def test_where_levels_lead_and_how_much_they_explain() -> None:
    slope = Truth.of(Lookup.parse("a,b,objective\n0,0,1\n0,1,2\n1,0,3\n1,1,4\n"))
    assert leading(slope) == (2, 2)
    astray = Truth.of(Lookup.parse("a,b,objective\n0,0,1\n0,1,9\n1,0,3\n1,1,2\n"))
    assert leading(astray) == (1, 2), (
        "b = 0 is best on average, a = 1 too, and the optimum is (0, 0)"
    )
    assert shares(slope) == pytest.approx({"a": 0.8, "b": 0.2})
    assert "one configuration is optimal (1)" in facts(slope)
    assert "2 are optimal" in facts(Truth.of(Lookup.parse("a,objective\n0,1\n1,1\n2,5\n")))


def test_the_map_shows_every_value_and_the_optimum() -> None:
    known = truth("rugged")
    spec = space_map(known, "the title")
    lists = {one["name"]: one["value"] for one in spec["params"]}
    assert sorted(lists["V"]) == sorted((-known.quality).tolist())
    stars = [
        row
        for layer in spec["layer"]
        for row in layer.get("data", {}).get("values", [])
        if isinstance(row, dict) and row.get("kind") == "best"
    ]
    assert len(stars) == 1
    columns = len(lists["KX"])
    place = int(stars[0]["x"]) + columns * int(stars[0]["y"])
    assert lists["V"][place] == min(lists["V"])


@pytest.mark.soak
@pytest.mark.slow
def test_agreements_are_compared_episode_by_episode(
    spaces: tuple[EvaluationSpace, ...], tmp_path: Path
) -> None:
    """Who accepts and who ignores have the same streams, so a gain is one of the same episode."""
    recipe = EvaluationRecipe(("compare",), spaces[1:], 3)
    done = reproduce(recipe, tmp_path / "to", workers=1)
    studies = compare_studies(recipe)
    rows = {
        name: read_parquet(tmp_path / "to" / "compare" / name / "results.parquet")
        for name in studies
    }
    ignored, accepted = rows["ignored_maze"], rows["accepted_maze"]
    assert [row["seed"] for row in ignored] == [row["seed"] for row in accepted]
    goal = -truth("failing").reached_by(GOAL)
    for row in (*ignored, *accepted):
        assert row["met"] == (row["best"] <= goal)
    for i, one in enumerate(done.goals):
        own = [rows[i * 3 : i * 3 + 3] for rows in (ignored, accepted)]
        kept = [sum(row["met"] for row in each) / 3 for each in own]
        assert [one.ignored.mean.value, one.accepted.mean.value] == pytest.approx(kept)
        assert one.gained.mean.value == pytest.approx(kept[1] - kept[0])
    assert (
        {one.strategy for one in done.goals} == {FAITHFUL, DEFAULT} == {"copper", DEFAULT_STRATEGY}
    )
    (row,) = done.strategies
    assert set(row.samples) == {
        (name, insight, at)
        for name in (FAITHFUL, DEFAULT)
        for insight in ("bad", "good", "none")
        for at in (0, 50, 100)
    }
    assert [one.claim for one in done.verdicts] == [
        "default beyond copper, 100 %",
        "default beyond copper, 50 %",
        "warnings: more SLAs met, copper",
        "warnings: more SLAs met, grasp",
    ]
    page = write_evaluation(done, tmp_path / "to")[0].read_text()
    assert page.count("<svg") == 3 + 1


def test_a_gain_is_what_accepting_adds(spaces: tuple[EvaluationSpace, ...]) -> None:
    study = compare_studies(EvaluationRecipe(("compare",), spaces[1:], 4))["ignored_maze"]
    same = {"runs": 15, "best": 1.0, "runs_to_optimum": None, "ended": ""}
    rows = [{"seed": i, "met": i % 4 == 0, **same} for i in range(8)]
    better = [{**row, "met": True, "runs": 9} if row["seed"] in (1, 2) else row for row in rows]
    first, second = goals_of(study, rows, better)
    assert (first.ignored.mean.value, first.accepted.mean.value) == (0.25, 0.75)
    assert first.gained.mean.value == 0.5
    assert first.warned == 0.5, "of the episodes differ"
    assert second.gained.mean.value == second.warned == 0.0
    assert goals_of(study, better, rows)[0].gained.mean.value == -0.5


def compared(ours: float, theirs: float, spread: float = 0.01) -> StrategyComparison:
    keys = itertools.product((DEFAULT, FAITHFUL), ("bad", "good", "none"), (50, 100))
    means = {DEFAULT: ours, FAITHFUL: theirs}
    return StrategyComparison(
        "maze", {key: near(means[key[0]], spread, i) for i, key in enumerate(keys)}
    )  # type: ignore[misc]


def near(mean: float, spread: float, seed: int) -> Sample:
    values = [mean + spread * (i - 9.5) / 10 for i in range(20)]
    return Sample.of(values, np.random.default_rng(seed), 0.5, resamples=200)


@pytest.mark.parametrize(("ours", "theirs", "spread", "outcome"), [
    (0.9, 0.8, 0.01, "holds"), (0.8, 0.9, 0.01, "does not hold"), (0.9, 0.8, 3.0, "undecided"),
])  # fmt: skip
def test_a_claim_of_ours_is_judged_like_one_of_the_paper(
    ours: float, theirs: float, spread: float, outcome: str
) -> None:
    told = default_finds_more(compared(ours, theirs, spread), 100)
    assert told.outcome == outcome
    assert bool(told.why) == (outcome == "does not hold")
    samples = (near(theirs, spread, 1), near(ours, spread, 2), near(ours - theirs, spread, 3))
    advised = advice_keeps_more(WarningComparison("maze", "copper", *samples, 0.5))
    assert advised.outcome == outcome
    assert "in 50% of 20 episodes" in advised.evidence
    assert (
        "no warning proposed a change"
        in advice_keeps_more(WarningComparison("maze", "copper", *samples, 0.0)).why
    )
