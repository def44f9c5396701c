"""Calibration: fitted logistic models of the chance that an experiment reaches its goal.

With R runs left and the features of `forecast_features.features`::

    logit P(missed) = intercept - b ln R + sum(coefficient * feature) + offset(strategy)

so the run that reaches the goal is log-logistic, P(T <= R) = 1 / (1 + (tau / R)^b). Two models have
this form: of a goal that was agreed, and of the end of the budget, whose goal is unknown: within
5 % of the way from the best possible value to the median. The quantiles of the best value::

    ln(0.03 + steps) = intercept + b ln R + sum(coefficient * feature), with the best as the goal

All coefficients were fitted to simulated episodes by ``python -m benchmarks.forecast --fit``.
Signs are constrained: more runs never hurt, a harder goal never helps. Features are clipped to the
range of the fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from assistant.analysis.forecast_features import CLOSE, FEATURES, ForecastEvidence, features
from assistant.core.errors import CodecError
from assistant.core.forecast import MOST_LEFT

Floats = NDArray[np.float64]

TESTED_LEFT = 85
TESTED_USED = 90
TESTED_SIZE = (100, 57_000)
TESTED_GOAL = 10  # Largest tested number of ended runs when the goal was set

BAND = 1.6  # Logits by which single spaces differ from the mean: about three in four lie within

SHARES = (0.1, 0.5, 0.9)  # Quantiles of the best: shares of the futures that do at least as well

TERMS = ("left", *FEATURES)


@dataclass(frozen=True, slots=True)
class ModelCoefficients:
    """Intercept and named coefficients of one logistic or one quantile regression.

    Args:
        of: coefficient by name: ``left`` for ln R, the features, and more by model.
        ranges: least and greatest value of each feature in the fit.
    """

    intercept: float
    of: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]

    def at(self, numbers: Mapping[str, float]) -> float:
        """Return the linear predictor of features, without the term of the remaining runs."""
        return self.intercept + sum(
            self.of[name] * min(max(x, self.ranges[name][0]), self.ranges[name][1])
            for name, x in numbers.items()
        )


@dataclass(frozen=True, slots=True)
class MissModel:
    """Logistic model of the chance to miss, with what each strategy adds to its logit.

    Args:
        terms: coefficients of logit P(missed).
        offsets: additions by strategy; greater is worse.
        exploitation: additions to the offset by strategy and exploitation level: it helps GRASP
            and harms a strategy that weighs both parts itself.
        warn: probability of a miss from which a warning may be given, by strategy.
    """

    terms: ModelCoefficients
    offsets: Mapping[str, float]
    exploitation: Mapping[str, Mapping[float, float]]
    warn: Mapping[str, float]

    def offset(self, strategy: str, exploitation: float | None = None) -> float:
        """Return the amount that a strategy adds to the logit of the chance to miss."""
        tested_offset = self.offsets.get(strategy)
        base_offset = fmean(self.offsets.values()) if tested_offset is None else tested_offset
        if exploitation is None or not self.exploitation:
            return base_offset
        strategy_table = self.exploitation.get(strategy)
        tables = list(self.exploitation.values()) if strategy_table is None else [strategy_table]
        return base_offset + fmean(_between(table, exploitation) for table in tables)

    def hardness(self, evidence: ForecastEvidence, goal: float, offset: float) -> float:
        """Return the logit of P(missed) with one run left; ``goal`` is a loss to reach."""
        return self.terms.at(features(evidence, goal)) + offset

    def chance(self, hardness: float | Floats, left: Floats) -> Floats:
        """Return the probability that ``left`` further runs reach a goal of this ``hardness``.

        More than `MOST_LEFT` runs count as `MOST_LEFT`, the tested range. ``hardness`` and ``left``
        have any shapes that broadcast.
        """
        with np.errstate(divide="ignore"):
            logit = hardness + self.terms.of["left"] * np.log(np.minimum(left, MOST_LEFT))
        reached = 1.0 / (1.0 + np.exp(np.minimum(logit, 700.0)))
        return np.where(np.asarray(left) > 0, reached, 0.0)

    def runs_by(self, hardness: float, probability: Floats) -> Floats:
        """Return the number of runs that reach the goal with each given probability, in (0, 1)."""
        probabilities = np.asarray(probability, dtype=np.float64)
        logit = hardness + np.log(probabilities) - np.log1p(-probabilities)
        exponent = np.minimum(logit / -self.terms.of["left"], 700.0)
        return np.asarray(np.exp(exponent), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ForecastCalibration:
    """Fitted coefficients of the forecast models.

    Args:
        goal: model of a goal that was agreed.
        end: model of the end of the budget: that it leaves more than 5 % of the way from the best
            possible value to the median on the table.
        best: coefficients of ln(0.03 + steps of the best), by the share of the futures that get at
            least so far.
    """

    version: str
    fitted: str
    goal: MissModel
    end: MissModel
    best: Mapping[float, ModelCoefficients]

    def end_hardness(self, evidence: ForecastEvidence, offset: float) -> float:
        """Return the logit, with one run left, of leaving more than 5 % on the table."""
        return self.end.hardness(evidence, evidence.losses[0], offset)

    def best_after(
        self, evidence: ForecastEvidence, offset: float, left: float
    ) -> tuple[float, ...]:
        """Return the 10 %, 50 % and 90 % quantiles of the best loss after ``left`` more runs.

        More than `MOST_LEFT` runs count as `MOST_LEFT`. The evidence must be enough. Losses that
        are all positive stay above 0.
        """
        best = evidence.losses[0]
        if left <= 0:
            return (best,) * len(SHARES)
        numbers = features(evidence, best)
        mean = fmean(self.goal.offsets.values())
        logs = [
            terms.at(numbers)
            + terms.of["left"] * math.log(min(left, MOST_LEFT))
            + terms.of["offset"] * (offset - mean)
            for terms in (self.best[share] for share in SHARES)
        ]
        steps = sorted((max(math.exp(min(x, 50.0)) - CLOSE, 0.0) for x in logs), reverse=True)
        return tuple(evidence.after_steps(n_steps) for n_steps in steps)

    def cautions(
        self, evidence: ForecastEvidence, strategy: str, left: float | None
    ) -> tuple[str, ...]:
        """Return one sentence for each input that is outside the range of the calibration."""
        sentences = []
        if strategy not in self.goal.offsets:
            sentences.append(f"the forecast is not calibrated for the strategy {strategy}")
        least, most = TESTED_SIZE
        if not least <= evidence.size <= most:
            sentences.append(
                f"the forecast was tested on spaces of {least:,} to {most:,} "
                f"combinations; this one has {evidence.size:,}"
            )
        if evidence.used > TESTED_USED:
            sentences.append(f"the forecast was tested after at most {TESTED_USED} runs")
        if left is not None and left > TESTED_LEFT:
            sentences.append(f"the forecast was tested with at most {TESTED_LEFT} runs left")
        return tuple(sentences)


def _between(levels: Mapping[float, float], level: float) -> float:
    points = {0.0: 0.0, **levels}
    at = sorted(points)
    return float(np.interp(level, at, [points[x] for x in at]))


@cache
def load_calibration() -> ForecastCalibration:
    """Load the forecast coefficients that are shipped with this version."""
    return read_calibration(Path(__file__).with_name("calibration.json"))


def read_calibration(path: Path) -> ForecastCalibration:
    """Read forecast coefficients from JSON, or raise CodecError if the file is damaged."""
    try:
        text = path.read_text(encoding="utf-8")
        tables = json.loads(text, parse_constant=_refused)
        calibration: ForecastCalibration = TypeAdapter(ForecastCalibration).validate_python(tables)
        for terms in (calibration.goal.terms, calibration.end.terms, *calibration.best.values()):
            if not set(TERMS) <= set(terms.of) or not set(FEATURES) <= set(terms.ranges):
                raise ValueError("a coefficient is missing")
    except (OSError, ValueError, RecursionError) as error:
        raise CodecError(
            f"'{path}' is no calibration of the forecast; install Copperline again"
        ) from error
    return calibration


def _refused(number: str) -> float:
    raise ValueError(f"{number} is not finite")


def write_calibration(calibration: ForecastCalibration, path: Path) -> None:
    """Write forecast coefficients as JSON, one number per line for readable diffs."""
    tables = {
        "version": calibration.version,
        "fitted": calibration.fitted,
        "goal": _plain_model(calibration.goal),
        "end": _plain_model(calibration.end),
        "best": {
            f"{share:g}": _plain(coefficients)
            for share, coefficients in sorted(calibration.best.items())
        },
    }
    path.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")


def _plain_model(model: MissModel) -> dict[str, object]:
    return {
        "terms": _plain(model.terms),
        "offsets": _rounded(model.offsets),
        "exploitation": {
            name: _rounded({f"{level:g}": x for level, x in table.items()})
            for name, table in sorted(model.exploitation.items())
        },
        "warn": _rounded(model.warn),
    }


def _plain(terms: ModelCoefficients) -> dict[str, object]:
    ranges = {name: [round(x, 4) for x in ends] for name, ends in sorted(terms.ranges.items())}
    return {"intercept": round(terms.intercept, 4), "of": _rounded(terms.of), "ranges": ranges}


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(x), 4) for name, x in sorted(numbers.items())}
