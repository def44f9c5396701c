"""F1: is the goal reached with what is left? Fitted without the family that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from assistant.analysis.calibration import BAND, TERMS, ModelCoefficients
from benchmarks.forecasting import scores
from benchmarks.forecasting.baselines import bounded
from benchmarks.forecasting.baselines import names as readings
from benchmarks.forecasting.fit import fit_missed, logits
from benchmarks.forecasting.rows import Rows, family_of, weights_of
from benchmarks.harness import Record, table
from benchmarks.spaces import Problem

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

DRAWN_KIND = "drawn"
FRESH = "fresh"  # Name of the fit to everything but fresh spaces


@dataclass(frozen=True, slots=True)
class Held:
    """P(missed) of every row, by fits that have not seen its family of spaces.

    Args:
        logit: of our forecast.
        chance: the same, as a probability.
        plain: the base rate of the other spaces.
        by_left: a logistic in ln R alone.
        fits: the coefficients by the family that was left out; see `fit_of`.
    """

    logit: Floats
    chance: Floats
    plain: Floats
    by_left: Floats
    fits: Mapping[str, tuple[ModelCoefficients, Mapping[str, float]]]


def hold_out(rows: Rows, names: Sequence[str]) -> Held:
    """Fit without each family of spaces in turn, and forecast its rows.

    Fresh spaces are in no fit: they are forecast by the fit to all others, the one that is shipped.
    """
    logit, plain, by_left = (np.zeros(len(rows)) for _ in range(3))
    fits = {}
    fresh = rows.kind == "fresh"
    for one in np.unique(np.where(fresh, FRESH, rows.family)):
        inside = fresh if one == FRESH else (rows.family == one) & ~fresh
        rest = rows.at(~inside & ~fresh)
        terms, offsets = fit_missed(rest, names)
        fits[str(one)] = (terms, offsets)
        logit[inside] = logits(rows.at(inside), terms, offsets)
        plain[inside] = np.average(rest.missed, weights=rest.weights)
        by_left[inside] = _by_left(rest, rows.left[inside])
    return Held(logit, expit(logit), plain, by_left, fits)


def fit_of(held: Held, problem: Problem) -> tuple[ModelCoefficients, Mapping[str, float]]:
    """Return the fit that has not seen a space."""
    return held.fits[FRESH if problem.kind == "fresh" else family_of(problem.name)]


def _by_left(rest: Rows, left: Floats) -> Floats:
    from scipy.optimize import minimize

    logs, weights = np.log(rest.left), rest.weights

    def loss(b: Floats) -> float:
        logit = b[0] + b[1] * logs
        return float(weights @ (np.logaddexp(0.0, logit) - rest.missed * logit))

    b = minimize(loss, np.zeros(2), method="BFGS").x
    return np.asarray(expit(b[0] + b[1] * np.log(left)))


def show(rows: Rows, held: Held, default: str, record: Record, part: str) -> None:
    """Print the tables of F1, or of the end of the budget, and note their figures."""
    own = rows.driver == default
    cuts: list[tuple[str, Mask]] = [
        (f"{default}, {kind}", own & (rows.kind == kind)) for kind in np.unique(rows.kind)
    ]
    cuts.append((f"{default}, all but fresh", own & (rows.kind != FRESH)))
    drivers = [str(one) for one in np.unique(rows.driver) if one != default]
    cuts += [(driver, (rows.driver == driver) & (rows.kind != FRESH)) for driver in drivers]
    lines = [
        _line(name, rows.at(mask), _at(held, mask), record, part)
        for name, mask in cuts
        if mask.any()
    ]
    header = ["rows", "missed", "Brier", "skill, plain", "skill, ln R", "AUC", "ECE"]
    table([f"{part}, families left out", *header], lines)
    _show_reliability(rows.at(own), _at(held, own), f"{part}, {default}")
    if part == "F1":
        known = own & (rows.kind != DRAWN_KIND)
        _show_baselines(rows.at(known), _at(held, known), default, record)
        _show_goals(rows.at(own), _at(held, own), default, record)


def _show_goals(rows: Rows, held: Held, default: str, record: Record) -> None:
    """Print by kind of goal what was forecast and what came, and how much spaces differ."""
    lines = []
    for goal in np.unique(rows.goal):
        mask = rows.goal == goal
        weights = weights_of(rows.space[mask])
        told, came = (np.average(x[mask], weights=weights) for x in (held.chance, rows.missed))
        record.figure(f"F1, {default}, {goal}: bias", round(float(told - came), 3))
        lines.append([str(goal), f"{told:.2f}", f"{came:.2f}", f"{told - came:+.2f}"])
    table([f"{default}: goal", "P(missed)", "missed", "bias"], lines)
    header, cells = ["half-width of the band, logits"], ["spaces whose share of misses is in it"]
    for half in (BAND, 1.0, 1.5, 2.0, 2.5):
        inside = []
        for space in np.unique(rows.space):
            mask = rows.space == space
            came = float(rows.missed[mask].mean())
            low, high = (float(expit(held.logit[mask] + x).mean()) for x in (-half, half))
            inside.append(low <= came <= high)
        share = float(np.mean(inside))
        header.append(f"{half:g}")
        cells.append(f"{share:.2f}")
        record.figure(f"F1, {default}: spaces within {half:g} logits", round(share, 3))
    table(header, [cells])


def _at(held: Held, mask: Mask) -> Held:
    return Held(
        held.logit[mask], held.chance[mask], held.plain[mask], held.by_left[mask], held.fits
    )


def _line(name: str, rows: Rows, held: Held, record: Record, part: str) -> list[str]:
    weights, missed = rows.weights, rows.missed
    told: list[tuple[str, Callable[[NDArray[np.int64], Floats], float]]] = [
        ("Brier", lambda i, w: scores.brier(held.chance[i], missed[i], w)),
        (
            "skill over the base rate",
            lambda i, w: scores.skill(held.chance[i], held.plain[i], missed[i], w),
        ),
        (
            "skill over the base rate by ln R",
            lambda i, w: scores.skill(held.chance[i], held.by_left[i], missed[i], w),
        ),
        ("AUC", lambda i, w: scores.auc(held.chance[i], missed[i], w)),
        ("ECE", lambda i, w: scores.calibration_error(held.chance[i], missed[i], w)),
    ]
    cells = [name, f"{len(rows):,}", f"{np.average(missed, weights=weights):.2f}"]
    everything = np.arange(len(rows))
    for label, score in told:
        value = score(everything, weights)
        low, high = scores.interval(score, rows.space)
        record.figure(f"{part}, {name}: {label}", round(value, 4))
        record.figure(f"{part}, {name}: {label}, low", round(low, 4))
        record.figure(f"{part}, {name}: {label}, high", round(high, 4))
        cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return cells


def paper_chances(shares: Floats) -> tuple[Floats, Floats]:
    """Return P(missed) by the paper's rule, hard and soft; an even chance where it says nothing.

    Args:
        shares: as in `Rows.paper`, float64 [n].
    """
    silent = np.isnan(shares)
    hard = np.where(silent, 0.5, (shares > 0).astype(np.float64))
    return hard, np.where(silent, 0.5, shares)


def _show_baselines(rows: Rows, held: Held, default: str, record: Record) -> None:
    """Print what else says whether the goal is missed, on the same rows."""
    others: dict[str, Floats] = {
        "this forecast": held.chance,
        "base rate": held.plain,
        "base rate by ln R": held.by_left,
        "regret bound, hard": bounded(rows.x[:, TERMS.index("reach")]),
        "best-so-far line, hard": rows.line,
    }
    for i, reading in enumerate(readings()):
        hard, soft = paper_chances(rows.paper[:, i])
        others[f"paper's rule, {reading}, hard"] = hard
        others[f"paper's rule, {reading}, soft"] = soft
    weights, missed = weights_of(rows.space), rows.missed
    lines = []
    for name, chance in others.items():
        found = [
            score(chance, missed, weights)
            for score in (scores.brier, scores.auc, scores.calibration_error)
        ]
        warns = chance > 0.5
        hit = np.average(warns[missed == 1], weights=weights[missed == 1])
        false = np.average(warns[missed == 0], weights=weights[missed == 0])
        for label, value in zip(("Brier", "AUC", "ECE"), found, strict=True):
            record.figure(f"F1, {default}, {name}: {label}", round(value, 4))
        lines.append([name, *(f"{x:.3f}" for x in found), f"{hit:.2f} / {false:.2f}"])
    table([f"{default}: P(missed) by", "Brier", "AUC", "ECE", "P > 0.5: detects / false"], lines)


def _show_reliability(rows: Rows, held: Held, default: str) -> None:
    pairs = scores.reliability(held.chance, rows.missed, rows.weights)
    table(
        [f"{default}: predicted", *(f"{a:.2f}" for a, _ in pairs)],
        [["missed", *(f"{b:.2f}" for _, b in pairs)]],
    )
