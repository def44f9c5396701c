"""F2: how many further runs, and how good the best gets: do 80 % intervals hold 80 %?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.calibration import SHARES
from assistant.analysis.forecast_features import CLOSE
from benchmarks.forecasting.fit import fit_best, steps_at
from benchmarks.forecasting.goal import FRESH, Held
from benchmarks.forecasting.rows import BUDGETS, Bests, Rows, weights_of
from benchmarks.harness import Record, table

Floats = NDArray[np.float64]


def covered(rows: Rows, held: Held) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return for each question (once, not for every budget) how much of it the interval holds.

    A run that reached the goal is inside or not, by the middle of its step of the distribution; of
    one that was cut the share of the interval in what is still possible counts.

    Returns:
        Share inside float64 [m]; the rows that were asked, bool [n]; |ln(median / runs)| of the
        reached ones, float64 [r].
    """
    once = np.zeros(len(rows), dtype=np.bool_)
    keys = np.array(
        [
            "|".join(map(str, key))
            for key in zip(rows.space, rows.driver, rows.seed, rows.used, rows.goal, strict=True)
        ]
    )
    _, first = np.unique(keys, return_index=True)
    once[first] = True
    asked = rows.at(once)
    slopes = np.array(
        [
            held.fits[FRESH if kind == FRESH else family][0].of["left"]
            for family, kind in zip(asked.family, asked.kind, strict=True)
        ]
    )
    hardness = held.logit[once] - slopes * np.log(asked.left)

    def reached_by(runs: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logit = hardness + slopes * np.log(runs)
        return np.asarray(1.0 / (1.0 + np.exp(np.minimum(logit, 700.0))))

    horizon = np.minimum(asked.known, float(max(BUDGETS)) - asked.used)
    was_reached = asked.further <= horizon
    runs = np.where(was_reached, asked.further, horizon)
    middle = (reached_by(runs) + reached_by(runs - 1.0)) / 2.0
    cut = reached_by(horizon)
    still = (np.maximum(0.9 - np.maximum(cut, 0.1), 0.0)) / np.maximum(1.0 - cut, 1e-9)
    inside = np.where(was_reached, ((middle >= 0.1) & (middle <= 0.9)).astype(np.float64), still)
    median = np.exp(hardness / -slopes)
    errors = np.abs(np.log(np.maximum(median, 0.5) / runs))[was_reached]
    return inside, once, errors


def best_inside(bests: Bests, held: Held) -> tuple[Floats, Floats]:
    """Return whether the best ended within its 80 % interval, and below its median, per row."""
    inside, below = np.zeros(len(bests.steps)), np.zeros(len(bests.steps))
    floor = np.log(CLOSE)
    fresh = bests.kind == FRESH
    for family in np.unique(np.where(fresh, FRESH, bests.family)):
        mask = fresh if family == FRESH else (bests.family == family) & ~fresh
        _, offsets = held.fits[str(family)]
        fits = fit_best(bests.at(~mask & ~fresh), offsets)
        told = np.sort(
            [np.maximum(steps_at(bests.at(mask), fits[share], offsets), floor) for share in SHARES],
            axis=0,
        )
        steps, slack = bests.steps[mask], 1e-9
        inside[mask] = (steps >= told[0] - slack) & (steps <= told[2] + slack)
        below[mask] = steps <= told[1] + slack
    return inside, below


def show(
    rows: Rows, bests: Bests, held: Held, drivers: Sequence[str], record: Record
) -> Mapping[str, float]:
    """Print the tables of F2 and note their figures."""
    inside, once, _ = covered(rows, held)
    asked = rows.at(once)
    found_best, below = best_inside(bests, held)
    lines, figures = [], {}
    for driver in ("all", *drivers):
        mask = (asked.driver == driver) | (driver == "all")
        best_mask = (bests.driver == driver) | (driver == "all")
        if not mask.any():
            continue
        share = float(np.average(inside[mask], weights=weights_of(asked.space[mask])))
        weights = weights_of(bests.space[best_mask])
        best_share = float(np.average(found_best[best_mask], weights=weights))
        half = float(np.average(below[best_mask], weights=weights))
        _, _, errors = covered(
            rows.at((rows.driver == driver) | (driver == "all")), _of(held, rows, driver)
        )
        figures[driver] = share
        record.figure(f"F2, {driver}: coverage of runs needed", round(share, 4))
        record.figure(
            f"F2, {driver}: median |ln error| of the reached", round(float(np.median(errors)), 4)
        )
        record.figure(f"F2, {driver}: coverage of the best at the end", round(best_share, 4))
        lines.append(
            [driver, f"{share:.3f}", f"{np.median(errors):.2f}", f"{best_share:.3f}", f"{half:.2f}"]
        )
    header = ["80 % interval of runs needed holds", "median |ln error|, reached"]
    header += ["80 % interval of the best at the end holds", "at or below its median"]
    table(["F2", *header], lines)
    return figures


def _of(held: Held, rows: Rows, driver: str) -> Held:
    mask = (rows.driver == driver) | (driver == "all")
    return Held(
        held.logit[mask], held.chance[mask], held.plain[mask], held.by_left[mask], held.fits
    )
