"""A recipe played in a folder: a study per figure, going on after a kill, then one report.

``figure6/`` to ``figure9/`` are folders of studies (`agents.running`), each with its own results (a
row per episode, and ``summary.csv`` with one per cell) and the TOML file that plays it alone;
``compare/`` holds those of the comparison.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agents.files import make_folder, write_whole
from agents.playbooks.answers import goals_of, qualities_of, runs_of, strategies_of
from agents.playbooks.budgets import FIGURES, judge_budgets
from agents.playbooks.compare import Goals, Strategies, judge_compare
from agents.playbooks.confidence import judge_confidence
from agents.playbooks.recipe import Recipe, compare_studies, study_of
from agents.playbooks.study_text import study_text
from agents.playbooks.verdicts import Verdict
from agents.report import render_csv
from agents.results import read_parquet
from agents.running import Finished, play_study, truth_of
from agents.study import Study
from agents.truth import Truth

Tell = Callable[[str, int, int], None]
"""Told what is played, how many episodes there are by now, and how many there will be."""


@dataclass(frozen=True, slots=True, eq=False)
class Reproduced:
    """What a recipe came to.

    Args:
        recipe: as it was asked for.
        truths: the measured spaces by name.
        studies: by figure.
        verdicts: in the order of the figures.
        strategies: of the comparison, by application.
        goals: of the comparison, by application and strategy.
    """

    recipe: Recipe
    truths: dict[str, Truth]
    studies: dict[str, Finished] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    strategies: tuple[Strategies, ...] = ()
    goals: tuple[Goals, ...] = ()


def reproduce(
    recipe: Recipe, folder: Path, workers: int | None = None, tell: Tell | None = None
) -> Reproduced:
    """Play what of a recipe was not played in this folder yet, and judge the claims.

    Args:
        recipe: what to play.
        folder: of the results; made if there is none.
        workers: processes; as many as there are cores if None.
        tell: told of the progress.

    Raises:
        AssistantError: the folder holds another recipe's studies, or a file cannot be read or
            written.
        StrategyError: a table cannot be read.
    """
    make_folder(folder)
    truths = {space.name: truth_of(str(space.path)) for space in recipe.spaces}
    studies: dict[str, Finished] = {}
    verdicts: list[Verdict] = []
    for figure in recipe.wanted:
        if figure != "6" and figure not in FIGURES:
            continue
        into = folder / f"figure{figure}"
        finished = _played(study_of(recipe, figure), into, workers, tell)
        studies[figure] = finished
        rows = read_parquet(into / "results.parquet")
        if figure == "6":
            verdicts += judge_confidence(runs_of(finished.study, rows, truths))
        else:
            verdicts += judge_budgets(figure, qualities_of(finished.study, rows))
    if "compare" not in recipe.wanted:
        return Reproduced(recipe, truths, studies, tuple(verdicts))
    strategies, goals = _compared(recipe, folder / "compare", workers, tell)
    verdicts += judge_compare(strategies, goals)
    return Reproduced(recipe, truths, studies, tuple(verdicts), tuple(strategies), tuple(goals))


def _compared(
    recipe: Recipe, folder: Path, workers: int | None, tell: Tell | None
) -> tuple[list[Strategies], list[Goals]]:
    make_folder(folder)
    studies = compare_studies(recipe)
    rows = {}
    for name, study in studies.items():
        _played(study, folder / name, workers, tell)
        rows[name] = read_parquet(folder / name / "results.parquet")
    strategies, goals = [], []
    for space in recipe.spaces:
        name, ignored, accepted = (
            f"{word}_{space.name}" for word in ("strategies", "ignored", "accepted")
        )
        strategies.append(strategies_of(studies[name], rows[name]))
        goals += goals_of(studies[ignored], rows[ignored], rows[accepted])
    return strategies, goals


def _played(study: Study, into: Path, workers: int | None, tell: Tell | None) -> Finished:
    def told(done: int, total: int) -> None:
        if tell is not None:
            tell(study.name, done, total)

    finished = play_study(study, into, study_text(study, into), workers, told)
    write_whole(into / "summary.csv", render_csv(finished.summaries))
    return finished
