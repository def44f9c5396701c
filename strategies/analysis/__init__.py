"""The analysis of an experiment: effects and their tests, what stands out, what is missing.

Pure functions of a space and observations. Effects are on the scale of the responses (see
`strategies.observation`), of which more is better.

>>> from strategies import Configuration, Observation, Parameter, ParameterSpace
>>> space = ParameterSpace((Parameter("procs", (1, 2)), Parameter("order", ("fcfs", "sjf"))))
>>> runs = [Observation(space.configuration(i), q) for i, q in enumerate((1.0, 2.0, 5.0, 6.0))]
>>> model = FactorialModel.fit(space, runs)
>>> [(contrast.name, contrast.effect) for contrast in model.contrasts]
[('procs', 4.0), ('order', 1.0)]
"""

from strategies.analysis.coding import MOST_COLUMNS, Coding, Term
from strategies.analysis.completing import Completion, complete_block
from strategies.analysis.coverage import Coverage, Covered, coverage
from strategies.analysis.factorial import (
    Change,
    ErrorEstimate,
    FactorialModel,
    TermTest,
    all_pairs,
)
from strategies.analysis.lack_of_fit import LackOfFit, Prediction, lack_of_fit, prediction
from strategies.analysis.missing import MissingRuns, Target, missing_runs
from strategies.analysis.pareto import (
    Contrast,
    HalfNormalPoint,
    Margins,
    half_normal,
    lenth_margins,
)

__all__ = [
    "MOST_COLUMNS",
    "Change",
    "Coding",
    "Completion",
    "Contrast",
    "Coverage",
    "Covered",
    "ErrorEstimate",
    "FactorialModel",
    "HalfNormalPoint",
    "LackOfFit",
    "Margins",
    "MissingRuns",
    "Prediction",
    "Target",
    "Term",
    "TermTest",
    "all_pairs",
    "complete_block",
    "coverage",
    "half_normal",
    "lack_of_fit",
    "lenth_margins",
    "missing_runs",
    "prediction",
]
