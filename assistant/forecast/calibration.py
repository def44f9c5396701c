"""How likely a goal is reached: a logistic in the logarithm of the runs that are left.

With R runs left, n used, N combinations, and the goal q steps beyond the best (`Evidence`)::

    logit P(missed) = a - b ln R + c ln n + d ln N + e ln(0.03 + q) + offset(strategy)

so the run that reaches it is log-logistic, P(T <= R) = 1 / (1 + (tau / R)^b), and the best value
after R runs has a whole distribution: that of the q which is reached with each probability.

The coefficients were fitted to simulated episodes by ``python -m benchmarks.forecast --fit`` and
are shipped; no measured row is. Signs are constrained: more runs never hurt, a harder goal never
helps.
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

from assistant.forecast.evidence import Evidence

Floats = NDArray[np.float64]

NEAR = 0.03
"""Added to the steps away, so that a goal at the best has a logarithm."""

MOST_LEFT = 100
"""Runs beyond which nothing is told: no episode had more left than 85."""

TESTED_LEFT = 85
TESTED_USED = (12, 90)
TESTED_SIZE = (190, 57_000)
TESTED_STEPS = (math.log(NEAR), 6.3)
"""Ranges that the fit has seen; inputs are taken into them, and the forecast says so."""

SPREAD = 1.0
"""Logits by which single spaces differ from their kind: about three in four lie within."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The coefficients, as they are shipped.

    Args:
        version: of the fit.
        fitted: what it was fitted to, for people.
        intercept: a.
        left: b, above 0.
        used: c.
        size: d, at least 0.
        steps: e, above 0.
        offsets: by strategy; greater is worse.
        exploitation: offset by exploitation level, beside the strategy's; 0 where there is none.
        warn: miss probability from which an alarm may be given, by strategy.
    """

    version: str
    fitted: str
    intercept: float
    left: float
    used: float
    size: float
    steps: float
    offsets: Mapping[str, float]
    exploitation: Mapping[float, float]
    warn: Mapping[str, float]

    def offset(self, strategy: str, exploitation: float | None = None) -> float:
        """Return what a strategy adds; the mean of all known ones for one that is not known."""
        own = self.offsets.get(strategy)
        known = fmean(self.offsets.values()) if own is None else own
        if exploitation is None or not self.exploitation:
            return known
        levels = {0.0: 0.0, **self.exploitation}
        at = sorted(levels)
        return known + float(np.interp(exploitation, at, [levels[level] for level in at]))

    def hardness(self, evidence: Evidence, goal: float, offset: float) -> float:
        """Return logit P(missed) with a single run left.

        Args:
            evidence: enough of it (`Evidence.silence` is empty).
            goal: a loss that is not reached yet.
            offset: of the strategy; see `offset`.
        """
        return self._base(evidence, offset) + self.steps * _log_steps(evidence.steps_to(goal))

    def _base(self, evidence: Evidence, offset: float) -> float:
        used = math.log(min(max(evidence.used, TESTED_USED[0]), TESTED_USED[1]))
        size = math.log(min(max(evidence.size, TESTED_SIZE[0]), TESTED_SIZE[1]))
        return self.intercept + self.used * used + self.size * size + offset

    def chance(self, hardness: float | Floats, left: Floats) -> Floats:
        """Return the probability of reaching the goal within ``left`` runs, 0 with none.

        Args:
            hardness: as `hardness` gives it, any shape that broadcasts with ``left``.
            left: float64, any shape, at least 0.
        """
        with np.errstate(divide="ignore"):
            logit = hardness - self.left * np.log(np.asarray(left, dtype=np.float64))
        return np.asarray(1.0 / (1.0 + np.exp(np.minimum(logit, 700.0))), dtype=np.float64)

    def runs_by(self, hardness: float, probability: Floats) -> Floats:
        """Return the runs within which the goal is reached with each probability in (0, 1)."""
        told = np.asarray(probability, dtype=np.float64)
        logit = hardness + np.log(told) - np.log1p(-told)
        return np.asarray(np.exp(np.minimum(logit / self.left, 700.0)), dtype=np.float64)

    def best_after(self, evidence: Evidence, offset: float, left: Floats, share: Floats) -> Floats:
        """Return quantiles of the best loss after runs to come.

        Args:
            evidence: enough of it.
            offset: of the strategy.
            left: draws of the number of runs, float64 [n].
            share: of the futures that do at least as well, float64 [m], in (0, 1).

        Returns:
            The losses, float64 [m]; today's best where no improvement is that likely.
        """
        log_steps = np.linspace(*TESTED_STEPS, 256)
        base = self._base(evidence, offset)
        hardness = base + self.steps * log_steps
        reached = self.chance(hardness[:, None], left).mean(axis=1)  # falls with the steps
        wanted = np.interp(-np.asarray(share), -reached, log_steps)
        steps = np.maximum(np.exp(wanted) - NEAR, 0.0)
        return np.asarray(evidence.losses[0] - steps * evidence.step, dtype=np.float64)

    def cautions(self, evidence: Evidence, strategy: str, left: float | None) -> tuple[str, ...]:
        """Say what lies outside of what was tested."""
        told = []
        if strategy not in self.offsets:
            told.append(f"the strategy {strategy} was not tested: uncalibrated")
        if not TESTED_SIZE[0] <= evidence.size <= TESTED_SIZE[1]:
            told.append(
                f"tested on spaces of {TESTED_SIZE[0]} to {TESTED_SIZE[1]:,} combinations, and "
                f"this one has {evidence.size:,}"
            )
        if evidence.used > TESTED_USED[1]:
            told.append(f"tested after at most {TESTED_USED[1]} runs")
        if left is not None and left > TESTED_LEFT:
            told.append(f"tested with at most {TESTED_LEFT} runs left")
        return tuple(told)


def _log_steps(steps: float) -> float:
    low, high = TESTED_STEPS
    if math.isinf(steps):
        return high
    return min(max(math.log(NEAR + max(steps, 0.0)), low), high)


@cache
def shipped() -> Calibration:
    """Return the coefficients that come with this version."""
    return read_calibration(Path(__file__).with_name("calibration.json"))


def read_calibration(path: Path) -> Calibration:
    """Read coefficients; see `write_calibration`."""
    told = json.loads(path.read_text(encoding="utf-8"))
    told["exploitation"] = {float(level): x for level, x in told["exploitation"].items()}
    return Calibration(**told)


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write coefficients as JSON, one number a line: a refit is a readable difference."""
    told = {name: _plain(getattr(calibration, name)) for name in Calibration.__dataclass_fields__}
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in sorted(value.items())}
    return round(value, 4) if isinstance(value, float) else value
