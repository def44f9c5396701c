"""What is shipped: coefficients fitted to all that was played, with each strategy's offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from assistant.analysis.calibration import ForecastCalibration, MissModel, ModelCoefficients
from benchmarks.forecasting.fit import fit_best, fit_missed, fit_offset, logits
from benchmarks.forecasting.rows import END, Bests, Rows, fit_weights
from benchmarks.forecasting.warning import Watched, threshold_of
from strategies import strategy_names

EXPLOITATION = ":exploitation="


def plain(rows: Rows) -> Rows:
    """Return the rows of goals, of methods as they are by default: no exploitation level."""
    return rows.at((np.char.find(rows.driver, EXPLOITATION) < 0) & (rows.goal != END))


def at_end(rows: Rows) -> Rows:
    """Return the rows of the end of the budget of the same methods."""
    return rows.at((np.char.find(rows.driver, EXPLOITATION) < 0) & (rows.goal == END))


def plain_bests(bests: Bests) -> Bests:
    """Return the same of `Bests`."""
    return bests.at(np.char.find(bests.driver, EXPLOITATION) < 0)


def ship(
    rows: Rows, bests: Bests, watched: Sequence[Watched], names: Sequence[str]
) -> ForecastCalibration:
    """Fit everything to every space that is not fresh.

    Args:
        rows: of all methods.
        bests: of the same.
        watched: goals with their checks, for the thresholds of alarms.
        names: of all methods without an exploitation level.
    """
    rows, bests = rows.at(rows.kind != "fresh"), bests.at(bests.kind != "fresh")
    main = plain(rows)
    goal = _model(rows.at(rows.goal != END), [w for w in watched if w.goal != END], names)
    end = _model(rows.at(rows.goal == END), [w for w in watched if w.goal == END], names)
    told = np.unique(main.space)
    kinds = {kind: len(np.unique(main.space[main.kind == kind])) for kind in np.unique(main.kind)}
    return ForecastCalibration(
        version=f"{datetime.now(UTC):%Y-%m-%d}",
        fitted=(
            f"{len(main):,} questions on {len(told)} spaces ("
            + ", ".join(f"{n} {kind}" for kind, n in kinds.items())
            + f") under {len(names)} methods"
        ),
        goal=goal,
        end=end,
        best=fit_best(plain_bests(bests), goal.offsets),
    )


def _model(rows: Rows, watched: Sequence[Watched], names: Sequence[str]) -> MissModel:
    main = rows.at(np.char.find(rows.driver, EXPLOITATION) < 0)
    terms, offsets = fit_missed(main, names)
    return MissModel(
        terms=terms,
        offsets={name: x for name, x in offsets.items() if name in strategy_names()},
        exploitation=_exploitation(rows, terms, offsets),
        warn={
            name: threshold_of(own)
            for name in strategy_names()
            if (own := [one for one in watched if one.driver == name])
        },
    )


def _exploitation(
    rows: Rows, terms: ModelCoefficients, offsets: Mapping[str, float]
) -> dict[str, dict[float, float]]:
    """Return what each exploitation level adds to a strategy's offset, by strategy and level."""
    found: dict[str, dict[float, float]] = {}
    for name in np.unique(rows.driver):
        base, _, level = str(name).partition(EXPLOITATION)
        if not level:
            continue
        own = rows.at(rows.driver == name)
        logit = logits(own, terms, {str(name): offsets[base]})
        found.setdefault(base, {})[float(level)] = fit_offset(
            logit, own.missed, fit_weights(own.space, own.kind)
        )
    return found
