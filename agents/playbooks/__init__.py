"""Playbooks: the paper's evaluation played again, and what becomes of each of its claims."""

from agents.playbooks.budgets import FIGURES as BUDGET_FIGURES
from agents.playbooks.budgets import Qualities, judge_budgets
from agents.playbooks.confidence import Runs, judge_confidence
from agents.playbooks.page import evaluation_as_json, tally, write_evaluation
from agents.playbooks.recipe import FIGURE_NAMES, Recipe, Space
from agents.playbooks.reproducing import Reproduced, reproduce
from agents.playbooks.resampled import Estimate, Sample
from agents.playbooks.verdicts import Verdict

__all__ = [
    "BUDGET_FIGURES",
    "FIGURE_NAMES",
    "Estimate",
    "Qualities",
    "Recipe",
    "Reproduced",
    "Runs",
    "Sample",
    "Space",
    "Verdict",
    "evaluation_as_json",
    "judge_budgets",
    "judge_confidence",
    "reproduce",
    "tally",
    "write_evaluation",
]
