"""How well lifetimes are foreseen: the rows of the report, Kaplan and Meier's variants too."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sim.workloads.cloud.contexts import Ints
from sim.workloads.cloud.lifetimes import Floats, fit_lifetimes
from sim.workloads.cloud.qualities import Hazards
from sim.workloads.cloud.report_values import LifetimeRow
from sim.workloads.cloud.report_windows import Windows
from sim.workloads.cloud.scores import (
    LifetimeScore,
    repeat_lifetime_error,
    score_coin_flip,
    score_hazards,
)
from sim.workloads.cloud.survival import (
    CENSORINGS,
    exact_bins,
    kaplan_meier,
    survival_mse,
    with_censored,
)

MOST_TIMES = 50_000
"""Different lifetimes that the continuous estimate is made of; of more it is not made."""


def lifetime_rows(windows: Windows, models: Mapping[str, Hazards]) -> tuple[LifetimeRow, ...]:
    """Score baselines and models on the lifetimes of the window that is foreseen.

    Where jobs that lifetimes are learnt from had not ended, Kaplan and Meier's estimates come in
    all forms (section 5.3); where seconds are known, the overall one in continuous time too.

    Args:
        windows: both.
        models: of lifetimes, by the names of their generators.

    Returns:
        nothing if no job of that window ended.
    """
    test = windows.test
    ended = test.censored == 0
    if not ended.any():
        return ()
    some = bool((windows.lived.censored != 0).any())
    forms = [one for one in CENSORINGS if one == "counted" or some]
    learnt = {one: with_censored(windows.lived, one) for one in forms}
    pooled = fit_lifetimes(windows.lived, 0)
    rows = [_coin_flip(windows, ended)]
    for form, lived in learnt.items():
        more = "" if form == "counted" else f", censored {form}"
        rows += [
            _row(f"Overall KM{more}", fit_lifetimes(lived, 0), windows, ended),
            _row(f"Per-flavour KM{more}", fit_lifetimes(lived, 1), windows, ended),
        ]
    rows += _continuous(windows, ended)
    rows.append(
        LifetimeRow("RepeatLifetime", None, None, repeat_lifetime_error(pooled, test), None)
    )
    rows += [_row(name, one, windows, ended) for name, one in models.items()]
    return tuple(rows)


def _row(name: str, model: Hazards, windows: Windows, ended: NDArray[np.bool_]) -> LifetimeRow:
    hazard, row = model.hazards(windows.test)
    return _scored(name, score_hazards(hazard, row, windows.test), hazard, row, windows, ended)


def _coin_flip(windows: Windows, ended: NDArray[np.bool_]) -> LifetimeRow:
    test = windows.test
    hazard, row = np.full((1, test.bins.n), 0.5), np.zeros(test.n_jobs, dtype=np.int64)
    return _scored("CoinFlip", score_coin_flip(test), hazard, row, windows, ended)


def _scored(
    name: str, one: LifetimeScore, hazard: Floats, row: Ints, windows: Windows,
    ended: NDArray[np.bool_],
) -> LifetimeRow:  # fmt: skip
    bins, lived_s = windows.test.bins, windows.lived_s[ended]
    spread, stepped = (
        survival_mse(hazard, row[ended], bins, lived_s, stepped=how) for how in (False, True)
    )
    return LifetimeRow(
        name, float(one.bce), float(one.nll), float(one.error), float(one.masked_error), spread,
        stepped,
    )  # fmt: skip


def _continuous(windows: Windows, ended: NDArray[np.bool_]) -> list[LifetimeRow]:
    taught_s, longest_s = windows.taught_s, windows.test.bins.longest_s
    if taught_s is None:
        return []
    n_times = len(np.unique(taught_s[(taught_s > 0) & (taught_s < longest_s)]))
    if not 0 < n_times <= MOST_TIMES:
        return []
    none = np.zeros(len(taught_s), dtype=np.int64)
    bins = exact_bins(taught_s, none, longest_s)
    hazard = kaplan_meier(bins.of(taught_s), none, bins.n)[None]
    lived_s = windows.lived_s[ended]
    found = survival_mse(
        hazard, np.zeros(len(lived_s), dtype=np.int64), bins, lived_s, stepped=True
    )
    return [LifetimeRow("Overall KM, continuous", None, None, None, None, None, found)]
