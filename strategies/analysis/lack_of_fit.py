"""Whether a model leaves more over than noise, and how well it predicts a run that it has not seen.

With replicates the residual sum of squares splits into pure error and lack of fit, and their ratio
is tested. Without them there is no measure of noise; what can be had is the prediction of each run
by the model fitted to the others (PRESS).

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 10.7 (PRESS) and 10.8
(lack of fit); Allen 1974, The relationship between variable selection and data augmentation and a
method for prediction, Technometrics 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from strategies.analysis.factorial import FactorialModel

ALONE = 1 - 1e-9
"""Leverage from which on a run alone determines an effect, so that nothing predicts it."""


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """The F test of lack of fit against pure error.

    Args:
        df: degrees of freedom of lack of fit, distinct configurations less effects.
        sum_squares: its sum of squares, None if no test can be made.
        pure_df: degrees of freedom of pure error.
        pure_squares: its sum of squares.
        f: the ratio of the mean squares, None if no test can be made.
        p: probability of so great an F if the model were right.
        reason: what is missing for a test, None if there is one.
    """

    df: int
    sum_squares: float | None
    pure_df: int
    pure_squares: float
    f: float | None
    p: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Leave-one-out prediction.

    Args:
        r_squared: 1 - PRESS / sum of squares about the mean, over the runs that the others can
            predict; below 0 if their mean would predict better. None with ``reason``.
        press: sum of squared prediction errors, in the squared unit of the response.
        n_predicted: runs that the others can predict.
        n_alone: runs that alone determine an effect, such as the only one with a level.
        reason: why there is no number.
    """

    r_squared: float | None
    press: float | None
    n_predicted: int
    n_alone: int
    reason: str | None = None


def lack_of_fit(model: FactorialModel) -> LackOfFit:
    """Test whether the model leaves more over than replicates differ."""
    pure_df, pure_squares = model.pure_error
    df = max(model.residual_df - pure_df, 0)
    reason = None
    if not model.n:
        reason = "There is no run yet."
    elif not pure_df:
        reason = (
            "Lack of fit cannot be tested: no configuration was run twice, so the noise of a run "
            "is unknown; replicates are missing."
        )
    elif not df:
        reason = (
            "Lack of fit cannot be tested: there are as many effects as different configurations."
        )
    elif not pure_squares:
        reason = (
            "Lack of fit needs no test: replicates agree exactly, so whatever the model leaves "
            "over is lack of fit."
        )
    squares = model.solution.residual_squares - pure_squares if model.solution else 0.0
    squares = max(squares, 0.0)
    if reason is not None:
        known = squares if model.n and pure_df else None
        return LackOfFit(df, known, pure_df, pure_squares, None, None, reason)
    f = squares / df / (pure_squares / pure_df)
    p = float(fdtrc(df, pure_df, f))
    return LackOfFit(df, squares, pure_df, pure_squares, f, p, None)


def prediction(model: FactorialModel) -> Prediction:
    """Predict every run from the others, by leverages instead of as many fits."""
    if model.solution is None:
        return Prediction(None, None, 0, 0, "There is no run yet.")
    free = model.solution.leverage < ALONE
    n = int(free.sum())
    if n < 2:
        return Prediction(
            None, None, n, model.n - n,
            "Leave-one-out prediction is unknown: every run alone determines an effect.",
        )  # fmt: skip
    errors = model.solution.residuals[free] / (1 - model.solution.leverage[free])
    response = model.relative[free]
    press = float(errors @ errors)
    total = float(np.sum((response - response.mean()) ** 2))
    if not total:
        return Prediction(
            None, press, n, model.n - n,
            "Leave-one-out R² is unknown: all responses are equal.",
        )  # fmt: skip
    return Prediction(1 - press / total, press, n, model.n - n)
