"""What is played for each figure of the paper: studies on measured spaces."""

from dataclasses import dataclass
from pathlib import Path

from agents.playbooks import compare
from agents.playbooks.budgets import FIGURES, LEVELS
from agents.rounds import Manner
from agents.study import CONFIDENCES, Chosen, Stop, Study, Table
from assistant import AssistantError

FIGURE_NAMES = ("5", "6", *FIGURES, "compare")
"""What can be reproduced, in the order of the report."""

REPLICATIONS, QUICK_REPLICATIONS = 500, 20
QUICK_CONFIDENCES = (0, 10, 50, 90, 100)
SEED = 2016


@dataclass(frozen=True, slots=True)
class Space:
    """A measured space of the evaluation.

    Args:
        name: of its application: ``flood``, ``scheduling`` or ``maze``.
        path: of its table.
        about: what was measured, for people.
    """

    name: str
    path: Path
    about: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is reproduced.

    Args:
        figures: of `FIGURE_NAMES`.
        spaces: those that there are; a figure about another one is left out.
        replications: episodes per cell; None is the paper's 500, or 20 if it shall be quick.
        quick: fewer confidences and only the least and the greatest budget.
        seed: of everything that is random.

    Raises:
        AssistantError: no such figure, or nothing that could be played.
    """

    figures: tuple[str, ...]
    spaces: tuple[Space, ...]
    replications: int | None = None
    quick: bool = False
    seed: int = SEED

    def __post_init__(self) -> None:
        unknown = next((one for one in self.figures if one not in FIGURE_NAMES), None)
        if unknown is not None:
            raise AssistantError(
                f"there is no figure '{unknown}' to reproduce; there are {', '.join(FIGURE_NAMES)}"
            )
        if not self.spaces or not self.wanted:
            named = ", ".join(space.name for space in self.spaces) or "no application"
            raise AssistantError(
                f"nothing is left to reproduce of figure {', '.join(self.figures)} with {named}"
            )

    @property
    def episodes(self) -> int:
        """Episodes per cell."""
        usual = QUICK_REPLICATIONS if self.quick else REPLICATIONS
        return usual if self.replications is None else self.replications

    @property
    def wanted(self) -> tuple[str, ...]:
        """The figures that the spaces allow, in the order of the report."""
        there = {space.name for space in self.spaces}
        return tuple(
            one
            for one in FIGURE_NAMES
            if one in self.figures and (one not in FIGURES or FIGURES[one][0] in there)
        )

    def space(self, name: str) -> Space:
        """Return a space by the name of its application."""
        return next(space for space in self.spaces if space.name == name)


def study_of(recipe: Recipe, figure: str) -> Study:
    """Return the study that a figure is drawn from, 6 to 9."""
    if figure == "6":
        return Study(
            "Figure 6: runs to the optimum",
            tuple(_table(space) for space in recipe.spaces),
            seed=recipe.seed,
            replications=recipe.episodes,
            confidences=QUICK_CONFIDENCES if recipe.quick else CONFIDENCES,
        )
    name, budgets = FIGURES[figure]
    return Study(
        f"Figure {figure}: the best of a budget, {name}",
        (_table(recipe.space(name)),),
        seed=recipe.seed,
        replications=recipe.episodes,
        insights=("none",),
        confidences=(100,),
        learning=(False,),
        stop=Stop((budgets[0], budgets[-1]) if recipe.quick else budgets, (None, *LEVELS)),
    )


def compare_studies(recipe: Recipe) -> dict[str, Study]:
    """Return the studies of `agents.playbooks.compare`, by the names of their folders.

    There are three per space: ``strategies``, ``ignored`` and ``accepted``; the last two share
    their random streams.
    """
    found = {}
    for space in recipe.spaces:
        budget = compare.BUDGETS[space.name]
        strategies = (Chosen(compare.FAITHFUL), Chosen(compare.DEFAULT))
        found[f"strategies_{space.name}"] = Study(
            f"Strategies compared, {space.name}",
            (_table(space),),
            seed=recipe.seed,
            replications=min(recipe.episodes, compare.MOST_OF_STRATEGIES),
            strategies=strategies,
            confidences=compare.CONFIDENCES,
            learning=(False,),
            stop=Stop((budget,)),
        )
        for word, acceptance in (("ignored", 0.0), ("accepted", 1.0)):
            found[f"{word}_{space.name}"] = Study(
                f"Agreements kept, warnings {word}, {space.name}",
                (_table(space),),
                seed=recipe.seed,
                replications=min(recipe.episodes, compare.MOST_OF_GOALS),
                strategies=strategies,
                insights=("none",),
                confidences=(100,),
                learning=(False,),
                stop=Stop((budget,), goal=compare.GOAL),
                manner=Manner(acceptance=acceptance),
            )
    return found


def _table(space: Space) -> Table:
    return Table(space.name, str(space.path))
