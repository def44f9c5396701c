"""Reproduction of the Copper paper's evaluation: a study for each figure, then verdicts.

Beyond the paper it compares our default strategy with GRASP, and accepted with ignored warnings.
Playing in the same folder continues after an interruption.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agents.analysts.analyst import AnalystProfile
from agents.analysts.episode import Truth
from agents.analysts.insight import Kind
from agents.reproduction.claims import (
    BUDGET_FIGURES,
    LEVELS,
    BudgetQualities,
    ClaimVerdict,
    Outcome,
    RunsToOptimum,
    above_zero,
    join_with_and,
    judge_budgets,
    judge_confidence,
    with_interval,
)
from agents.studies.report import StudyPanel, render_csv
from agents.studies.results import (
    Estimate,
    MeanInterval,
    Sample,
    make_folder,
    mean_of,
    read_parquet,
    write_whole,
)
from agents.studies.study import (
    CONFIDENCES,
    Cell,
    StoppingRule,
    StrategyChoice,
    Study,
    Table,
    study_text,
)
from agents.studies.study_runner import PlayedStudy, play_study, truth_of
from assistant import AssistantError

COMPARISON_FIGURE = "compare"
FAITHFUL, DEFAULT = "copper", "grasp"
"""The paper's strategy and the product's default (`strategies.DEFAULT_STRATEGY`)."""

BUDGETS = {"flood": 100, "scheduling": 60, "maze": 15}
"""Runs of an episode: the second budget of each of the figures 7 to 9."""

COMPARED_CONFIDENCES = (0, 50, 100)
GOAL = 0.01  # Share of the configurations that reaches the goal

MOST_OF_STRATEGIES, MOST_OF_GOALS = 20, 100  # Most episodes per cell, because sessions are slow


@dataclass(frozen=True, slots=True, eq=False)
class StrategyComparison:
    """Ratios to the optimum that several strategies reach on one application."""

    table: str  # name of the application
    # ratio to the optimum by strategy, insight and confidence in per cent
    samples: Mapping[tuple[str, Kind, int], Sample]

    def over(self, strategy: str, confidence: int) -> Estimate:
        """Return a strategy's mean ratio to the optimum over all insights, at one confidence."""
        means = [
            sample.mean
            for (name, _, at), sample in self.samples.items()
            if (name, at) == (strategy, confidence)
        ]
        return mean_of(means)

    def share_found(self, strategy: str, confidence: int) -> float:
        """Return the share of a strategy's episodes that found the optimum, at one confidence."""
        shares = [
            sample.share_found
            for (name, _, at), sample in self.samples.items()
            if (name, at) == (strategy, confidence)
        ]
        return sum(shares) / len(shares)


@dataclass(frozen=True, slots=True, eq=False)
class WarningComparison:
    """Shares of SLA goals met on one application when warnings are ignored or accepted."""

    table: str  # name of the application
    strategy: str  # strategy of the suggestions
    ignored: Sample  # 1 for an SLA that was kept by an analyst who ignores warnings, else 0
    accepted: Sample  # likewise by one who accepts them
    gained: Sample  # the differences, episode by episode
    warned: float  # share of the episodes in which accepting changed the runs


def judge_compare(
    rows: Sequence[StrategyComparison], goals: Sequence[WarningComparison]
) -> list[ClaimVerdict]:
    """Return verdicts on this project's own claims about its default strategy and warnings."""
    verdicts = [default_finds_more(row, at) for row in rows for at in (100, 50)]
    return [*verdicts, *(advice_keeps_more(comparison) for comparison in goals)]


def default_finds_more(row: StrategyComparison, confidence: int) -> ClaimVerdict:
    """Judge the claim that the default strategy finds better results than GRASP in the budget."""
    default, theirs = (row.over(name, confidence) for name in (DEFAULT, FAITHFUL))
    outcome = above_zero(default - theirs)
    shares = [
        f"{name} finds the optimum in {row.share_found(name, confidence):.0%} of the episodes"
        for name in (DEFAULT, FAITHFUL)
    ]
    setting = "alone" if confidence == 100 else f"at a confidence of {confidence} %"
    return ClaimVerdict(
        f"default beyond copper, {confidence} %", COMPARISON_FIGURE, row.table,
        f"Ours: within {BUDGETS[row.table]} runs the default strategy ({DEFAULT}) {setting} finds "
        "better results than the paper's GRASP.",
        outcome,
        f"ratio to the optimum, over all insights: {with_interval(default, 3)} against "
        f"{with_interval(theirs, 3)}; the difference is {with_interval(default - theirs, 3)}.",
        "" if outcome != "does not hold" else f"{join_with_and(shares)}.",
    )  # fmt: skip


def advice_keeps_more(comparison: WarningComparison) -> ClaimVerdict:
    """Judge the claim that analysts who accept forecast warnings meet more SLAs."""
    outcome = above_zero(comparison.gained.mean)
    return ClaimVerdict(
        f"warnings: more SLAs met, {comparison.strategy}", COMPARISON_FIGURE, comparison.table,
        f"Ours: with {comparison.strategy}, analysts who accept warnings of the forecast meet more "
        f"SLAs ({BUDGETS[comparison.table]} runs to reach the best {GOAL:.0%}) than analysts who "
        "ignore them.",
        outcome,
        f"met: {with_interval(comparison.accepted.mean * 100.0, 0)} % accepting, "
        f"{with_interval(comparison.ignored.mean * 100.0, 0)} % ignoring; the difference, episode "
        f"by episode, is {with_interval(comparison.gained.mean * 100.0, 1)} points; in "
        f"{comparison.warned:.0%} of {comparison.gained.n} episodes accepting changed the "
        "runs.",
        _why_not(comparison, outcome),
    )  # fmt: skip


def _why_not(comparison: WarningComparison, outcome: Outcome) -> str:
    if not comparison.warned:
        return "no warning proposed a change that an analyst may make alone."
    if outcome != "does not hold":
        return ""
    return "the changes that the warnings propose give worse results here than no change."


def strategy_panels(row: StrategyComparison) -> Iterator[tuple[str, StudyPanel]]:
    """Yield, per kind of insight, a file name and a chart that compares the strategies."""
    names = {"bad": "bad insight", "good": "good insight", "none": "no insight"}
    for insight in dict.fromkeys(sample_insight for _, sample_insight, _ in row.samples):
        bars = [
            (str(at), name, bar_interval(sample.mean))
            for (name, sample_insight, at), sample in row.samples.items()
            if sample_insight == insight
        ]
        title = f"{row.table}, {names[insight]}, {BUDGETS[row.table]} runs"
        labels = ("confidence [%]", "strategy", "ratio to the optimum")
        yield f"{row.table}_{insight}", StudyPanel(title, *labels, tuple(bars), row.table)


def goal_panels(goals: Sequence[WarningComparison]) -> Iterator[tuple[str, StudyPanel]]:
    """Yield, per application, a file name and a chart of the shares of SLA goals met."""
    for table in dict.fromkeys(comparison.table for comparison in goals):
        bars = [
            (comparison.strategy, word, bar_interval(sample.mean))
            for comparison in goals
            for word, sample in (
                ("ignoring", comparison.ignored),
                ("accepting", comparison.accepted),
            )
            if comparison.table == table
        ]
        title = f"{table}, SLAs met: the best {GOAL:.0%} within {BUDGETS[table]} runs"
        labels = ("strategy", "warnings of the forecast", "share met")
        yield f"{table}_agreements", StudyPanel(title, *labels, tuple(bars), table)


def bar_interval(estimate: Estimate) -> MeanInterval:
    """Convert an estimate to the mean and the 95% interval of a chart bar."""
    return MeanInterval(estimate.value, estimate.low, estimate.high)


Rows = Sequence[Mapping[str, Any]]
"""Rows of `agents.studies.results.COLUMNS`, in the order of the grid."""


def by_cell(study: Study, rows: Rows) -> Iterator[tuple[Cell, Rows]]:
    """Yield each cell of a study with the results of its episodes."""
    n = study.replications
    for i, cell in enumerate(study.cells()):
        yield cell, rows[i * n : (i + 1) * n]


def sample(study: Study, cell: Cell, rows: Rows) -> Sample:
    """Return the runs to the optimum, or ratios to it, of a cell, with bootstrap resamples.

    The resamples of runs are those of the intervals in the study's own report.
    """
    rng = cell.streams(study.seed, 0).generator("bootstrap")
    share_found = sum(row["runs_to_optimum"] is not None for row in rows) / len(rows)
    if cell.runs is None:
        runs = [row["runs_to_optimum"] for row in rows]
        allowed = [row["runs_allowed"] for row in rows]
        counted = [a if r is None else r for r, a in zip(runs, allowed, strict=True)]
        return Sample.of(counted, rng, share_found)
    return Sample.of([row["ratio"] for row in rows], rng, share_found)


def runs_of(study: Study, rows: Rows, truths: Mapping[str, Truth]) -> list[RunsToOptimum]:
    """Return a study's results for the Copper paper's figure 6, one entry per application."""
    samples: dict[str, dict[tuple[Kind, int, bool], Sample]] = {}
    for cell, cell_rows in by_cell(study, rows):
        if cell.insight is None or cell.confidence is None or cell.learning is None:
            raise AssertionError("figure 6 is about analysts with insight and confidence")
        key = (cell.insight, cell.confidence, cell.learning)
        samples.setdefault(cell.table, {})[key] = sample(study, cell, cell_rows)
    return [
        RunsToOptimum(name, table_samples, leading(truths[name]))
        for name, table_samples in samples.items()
    ]


def qualities_of(study: Study, rows: Rows) -> BudgetQualities:
    """Return a study's results for one of the Copper paper's figures 7 to 9."""
    samples = {
        (cell.runs or 0, cell.exploitation): sample(study, cell, cell_rows)
        for cell, cell_rows in by_cell(study, rows)
    }
    return BudgetQualities(study.tables[0].name, samples)


def strategies_of(study: Study, rows: Rows) -> StrategyComparison:
    """Return a study's results of the compared strategies on one application."""
    samples: dict[tuple[str, Kind, int], Sample] = {}
    for cell, cell_rows in by_cell(study, rows):
        if cell.insight is None or cell.confidence is None:
            raise AssertionError("strategies are compared under analysts with insight")
        samples[cell.strategy.name, cell.insight, cell.confidence] = sample(study, cell, cell_rows)
    return StrategyComparison(study.tables[0].name, samples)


def goals_of(study: Study, ignored: Rows, accepted: Rows) -> list[WarningComparison]:
    """Compare, per strategy, how often SLA goals were met with warnings ignored and accepted."""
    comparisons = []
    pairs = zip(by_cell(study, ignored), by_cell(study, accepted), strict=True)
    for (cell, without), (_, with_it) in pairs:
        if [row["seed"] for row in without] != [row["seed"] for row in with_it]:
            raise AssertionError("the episodes that are compared have other seeds")
        met = [[float(bool(row["met"])) for row in cell_rows] for cell_rows in (without, with_it)]
        gained = [b - a for a, b in zip(*met, strict=True)]
        rng = cell.streams(study.seed, 0).generator("bootstrap")
        apart = [_outcome_key(a) != _outcome_key(b) for a, b in zip(without, with_it, strict=True)]
        ignoring, accepting, change = (Sample.of(values, rng) for values in (*met, gained))
        changed = sum(apart) / len(apart)
        strategy = cell.strategy.name
        comparisons.append(
            WarningComparison(cell.table, strategy, ignoring, accepting, change, changed)
        )
    return comparisons


def _outcome_key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["runs"], row["best"], row["runs_to_optimum"], row["ended"]


def leading(truth: Truth) -> tuple[int, int]:
    """Count the parameters whose level in the optimum has the best mean, and all parameters.

    GRASP and learners follow the means of levels; where those lead elsewhere, both fail.
    """
    best = truth.ranked[0]
    n = 0
    for parameter, levels in enumerate(truth.n_levels):
        ids = truth.level_ids[:, parameter]
        means = [float(np.nanmean(truth.quality[ids == level])) for level in range(levels)]
        n += int(truth.level_ids[best, parameter]) == int(np.argmax(means))
    return n, len(truth.n_levels)


FIGURE_NAMES = ("5", "6", *BUDGET_FIGURES, "compare")
"""Figures that can be reproduced, in the order of the report."""

REPLICATIONS, QUICK_REPLICATIONS = 500, 20
QUICK_CONFIDENCES = (0, 10, 50, 90, 100)
SEED = 2016


@dataclass(frozen=True, slots=True)
class EvaluationSpace:
    """Measured table of one application in the evaluation.

    Args:
        name: name of its application: ``flood``, ``scheduling`` or ``maze``.
        path: path of its table.
        about: description of the measurement, for people.
    """

    name: str
    path: Path
    about: str = ""


@dataclass(frozen=True, slots=True)
class EvaluationRecipe:
    """Settings for reproducing the Copper paper's evaluation: figures, spaces and episodes.

    Args:
        figures: names from `FIGURE_NAMES`.
        spaces: available spaces; figures about other ones are left out.
        replications: episodes per cell; None is the paper's 500, or 20 with ``quick``.
        quick: fewer confidences and only the least and the greatest budget.
        seed: seed of all random streams.

    Raises:
        AssistantError: there is no such figure, or none can be played.
    """

    figures: tuple[str, ...]
    spaces: tuple[EvaluationSpace, ...]
    replications: int | None = None
    quick: bool = False
    seed: int = SEED

    def __post_init__(self) -> None:
        unknown = next((figure for figure in self.figures if figure not in FIGURE_NAMES), None)
        if unknown is not None:
            raise AssistantError(
                f"no figure '{unknown}' to reproduce; allowed are {', '.join(FIGURE_NAMES)}"
            )
        if not self.spaces or not self.playable_figures:
            space_names = ", ".join(space.name for space in self.spaces) or "no application"
            raise AssistantError(
                f"there is nothing to reproduce for figure {', '.join(self.figures)} with "
                f"{space_names}"
            )

    @property
    def episodes(self) -> int:
        """Number of episodes per cell of a study's grid."""
        usual = QUICK_REPLICATIONS if self.quick else REPLICATIONS
        return usual if self.replications is None else self.replications

    @property
    def playable_figures(self) -> tuple[str, ...]:
        """Requested figures for which a measured space is given, in the order of the report."""
        there = {space.name for space in self.spaces}
        return tuple(
            figure
            for figure in FIGURE_NAMES
            if figure in self.figures
            and (figure not in BUDGET_FIGURES or BUDGET_FIGURES[figure][0] in there)
        )

    def space(self, name: str) -> EvaluationSpace:
        """Return the measured space of the application with a name."""
        return next(space for space in self.spaces if space.name == name)


def study_of(recipe: EvaluationRecipe, figure: str) -> Study:
    """Return the study whose results the given figure (6 to 9) of the Copper paper shows."""
    if figure == "6":
        return Study(
            "Figure 6: runs to the optimum",
            tuple(_table(space) for space in recipe.spaces),
            seed=recipe.seed,
            replications=recipe.episodes,
            confidences=QUICK_CONFIDENCES if recipe.quick else CONFIDENCES,
        )
    name, budgets = BUDGET_FIGURES[figure]
    return Study(
        f"Figure {figure}: the best of a budget, {name}",
        (_table(recipe.space(name)),),
        seed=recipe.seed,
        replications=recipe.episodes,
        insights=("none",),
        confidences=(100,),
        learning=(False,),
        stop=StoppingRule((budgets[0], budgets[-1]) if recipe.quick else budgets, (None, *LEVELS)),
    )


def compare_studies(recipe: EvaluationRecipe) -> dict[str, Study]:
    """Return the studies that compare strategies and warnings, by folder name.

    There are three per space: ``strategies``, ``ignored`` and ``accepted``; the last two share
    their random streams.
    """
    studies = {}
    for space in recipe.spaces:
        budget = BUDGETS[space.name]
        strategies = (StrategyChoice(FAITHFUL), StrategyChoice(DEFAULT))
        studies[f"strategies_{space.name}"] = Study(
            f"Strategies compared, {space.name}",
            (_table(space),),
            seed=recipe.seed,
            replications=min(recipe.episodes, MOST_OF_STRATEGIES),
            strategies=strategies,
            confidences=COMPARED_CONFIDENCES,
            learning=(False,),
            stop=StoppingRule((budget,)),
        )
        for word, acceptance in (("ignored", 0.0), ("accepted", 1.0)):
            studies[f"{word}_{space.name}"] = Study(
                f"SLAs met, warnings {word}, {space.name}",
                (_table(space),),
                seed=recipe.seed,
                replications=min(recipe.episodes, MOST_OF_GOALS),
                strategies=strategies,
                insights=("none",),
                confidences=(100,),
                learning=(False,),
                stop=StoppingRule((budget,), goal=GOAL),
                manner=AnalystProfile(acceptance=acceptance),
            )
    return studies


def _table(space: EvaluationSpace) -> Table:
    return Table(space.name, str(space.path))


TellStudy = Callable[[str, int, int], None]
"""Callback with the study's name, the played episodes and all episodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """Results of reproducing the Copper paper's evaluation, with verdicts on its claims."""

    recipe: EvaluationRecipe  # settings of the reproduction
    truths: dict[str, Truth]  # measured spaces by name
    studies: dict[str, PlayedStudy] = field(default_factory=dict)  # played studies by figure
    verdicts: tuple[ClaimVerdict, ...] = ()  # verdicts in the order of the figures
    strategies: tuple[StrategyComparison, ...] = ()  # comparison of strategies, by application
    goals: tuple[WarningComparison, ...] = ()  # comparison of warnings, by application and strategy


def reproduce(
    recipe: EvaluationRecipe,
    folder: Path,
    workers: int | None = None,
    tell: TellStudy | None = None,
) -> Reproduction:
    """Play all episodes of an evaluation that a folder does not hold yet, and judge the claims.

    The folder is made if it does not exist; ``workers`` are processes, as many as cores if None.

    Raises:
        AssistantError: the folder holds another recipe's studies, or a file cannot be read or
            written.
        StrategyError: a table cannot be read.
    """
    make_folder(folder)
    truths = {space.name: truth_of(str(space.path)) for space in recipe.spaces}
    studies: dict[str, PlayedStudy] = {}
    verdicts: list[ClaimVerdict] = []
    for figure in recipe.playable_figures:
        if figure != "6" and figure not in BUDGET_FIGURES:
            continue
        into = folder / f"figure{figure}"
        finished = _play_into(study_of(recipe, figure), into, workers, tell)
        studies[figure] = finished
        rows = read_parquet(into / "results.parquet")
        if figure == "6":
            verdicts += judge_confidence(runs_of(finished.study, rows, truths))
        else:
            verdicts += judge_budgets(figure, qualities_of(finished.study, rows))
    if "compare" not in recipe.playable_figures:
        return Reproduction(recipe, truths, studies, tuple(verdicts))
    strategies, goals = _play_comparison(recipe, folder / "compare", workers, tell)
    verdicts += judge_compare(strategies, goals)
    return Reproduction(recipe, truths, studies, tuple(verdicts), tuple(strategies), tuple(goals))


def _play_comparison(
    recipe: EvaluationRecipe, folder: Path, workers: int | None, tell: TellStudy | None
) -> tuple[list[StrategyComparison], list[WarningComparison]]:
    make_folder(folder)
    studies = compare_studies(recipe)
    rows = {}
    for name, study in studies.items():
        _play_into(study, folder / name, workers, tell)
        rows[name] = read_parquet(folder / name / "results.parquet")
    strategies, goals = [], []
    for space in recipe.spaces:
        name, ignored, accepted = (
            f"{word}_{space.name}" for word in ("strategies", "ignored", "accepted")
        )
        strategies.append(strategies_of(studies[name], rows[name]))
        goals += goals_of(studies[ignored], rows[ignored], rows[accepted])
    return strategies, goals


def _play_into(
    study: Study, into: Path, workers: int | None, tell: TellStudy | None
) -> PlayedStudy:
    def tell_progress(done: int, total: int) -> None:
        if tell is not None:
            tell(study.name, done, total)

    finished = play_study(study, into, study_text(study, into), workers, tell_progress)
    write_whole(into / "summary.csv", render_csv(finished.summaries))
    return finished
