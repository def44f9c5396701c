"""What `benchmarks.cloud` measures of next flavours and of lifetimes, on windows of any trace."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.api import load_workload
from sim.formats.vm_trace import read_vm_table
from sim.generators.cloud.batches import LIVES, observed_of
from sim.generators.cloud.flavour_models import fit_dimensions, fit_experts, fit_mix
from sim.generators.cloud.flavours import fit_flavours, recency, tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes, fit_trees
from sim.generators.cloud.model_parts import Hazards
from sim.generators.cloud.scores import (
    CENSORINGS,
    baseline_flavours,
    kaplan_meier,
    repeat_lifetime_error,
    score_coin_flip,
    score_flavours,
    score_lifetimes,
    survival_of,
    treat_censored,
)
from sim.model.cloud_trace import DAY_S, Bins, CloudTrace, ObservedJobs

HALF_LIFE_DAYS = 7.0
PERIOD_S = 300.0
TAUGHT_SHARE = 0.7
"""Of the jobs of a trace that nobody has split, the first ones."""

MANY = Bins((*np.round(np.geomspace(10.0, 20 * DAY_S, 494), 3).tolist(),), LIVES.longest_s)
"""495 bins as the usual 47 are: even in their logarithms."""


def observed(path: Path) -> ObservedJobs:
    """Return the jobs of a table of virtual machines (.csv, .csv.gz) or of any other log."""
    if path.name.removesuffix(".gz").endswith(".csv"):
        return read_vm_table(path)
    return observed_of(load_workload(path))


def halves(jobs: ObservedJobs) -> tuple[ObservedJobs, ObservedJobs]:
    """Return what is learnt from, as it was known at its end, and what is foreseen."""
    split_s = float(np.quantile(jobs.begin_s, TAUGHT_SHARE))
    return jobs.window(float(jobs.begin_s.min()), split_s), jobs.window(split_s, np.inf)


def flavour_scores(
    train: CloudTrace, test: CloudTrace, dev: CloudTrace | None = None
) -> dict[str, Any]:
    """Score baselines, tables, dimensions and the mix.

    Args:
        train: what is learnt from.
        test: what is foreseen.
        dev: a window between them: the weights of the mix are fitted to it, and a second row of
            each model learns from it too. None fits the weights to the last part of `train`.
    """
    taught, tokens = tokens_of(train), tokens_of(test)
    scores = baseline_flavours(taught, tokens)
    plain, fit_s = _timed(lambda: fit_flavours(tokens_of(train)))
    scores["tables"] = score_flavours(plain, tokens)
    recent = fit_flavours(taught, recency(taught, train, HALF_LIFE_DAYS))
    scores["tables, a week counts half"] = score_flavours(recent, tokens)
    parted, parted_s = _timed(lambda: fit_dimensions(train, recent, HALF_LIFE_DAYS))
    scores["dimensions"] = score_flavours(parted, tokens)
    mixed, mix_s = _timed(lambda: fit_mix(train, recent, HALF_LIFE_DAYS, dev))
    scores["mix"] = score_flavours(mixed, tokens)
    if dev is not None:
        known = train.joined(dev)
        taught = tokens_of(known)
        both = fit_flavours(taught, recency(taught, known, HALF_LIFE_DAYS))
        scores["tables, a week counts half, train and dev"] = score_flavours(both, tokens)
        scores["dimensions, train and dev"] = score_flavours(
            fit_dimensions(known, both, HALF_LIFE_DAYS), tokens
        )
        learnt = replace(mixed, experts=fit_experts(known, HALF_LIFE_DAYS))
        scores["mix, train and dev"] = score_flavours(learnt, tokens)
    told: dict[str, Any] = {name: vars(one) for name, one in scores.items()}
    return told | {"fit_s": fit_s, "dimensions_fit_s": parted_s, "mix_fit_s": mix_s}


def lifetime_scores(train: CloudTrace, test: CloudTrace) -> dict[str, Any]:
    """Score baselines, tables and trees on bins of lifetimes."""
    pooled = fit_lifetimes(train, 0)
    full, fit_s = _timed(lambda: fit_lifetimes(train))
    trees, trees_s = _timed(lambda: fit_trees(train))
    scores = {"CoinFlip": score_coin_flip(test)}
    for how in CENSORINGS:
        known = treat_censored(train, how)
        more = "" if how == "counted" else f", censored {how}"
        scores[f"Overall KM{more}"] = score_lifetimes(fit_lifetimes(known, 0), test)
        scores[f"Per-flavour KM{more}"] = score_lifetimes(fit_lifetimes(known, 1), test)
    scores["tables"] = score_lifetimes(full, test)
    scores["trees"] = score_lifetimes(trees, test)
    told: dict[str, Any] = {name: _plain(vars(one)) for name, one in scores.items()}
    return told | {
        "repeat": repeat_lifetime_error(pooled, test), "fit_s": fit_s, "trees_fit_s": trees_s
    }  # fmt: skip


def survival_scores(
    train: CloudTrace, test: CloudTrace, test_s: np.ndarray, train_s: np.ndarray | None = None
) -> dict[str, float]:
    """Return the Survival-MSE of Kaplan and Meier's estimates, tables and trees, by name.

    Args:
        train: what is learnt from.
        test: what is foreseen; only its jobs that ended count.
        test_s: float64 [n_jobs], their lifetimes.
        train_s: of `train`; None, where only bins are known, leaves out what needs more.
    """
    ended = test.censored == 0
    lived_s, none = test_s[ended], np.zeros(int(ended.sum()), dtype=np.int64)
    found: dict[str, float] = {}

    def pooled(name: str, bins: Bins, lifetime: np.ndarray, kinds: tuple[bool, ...]) -> None:
        hazard = kaplan_meier(lifetime, train.censored, bins.n)[None]
        for stepped in kinds:
            how = "stepped" if stepped else "CDI"
            curve = survival_of(hazard, bins, stepped=stepped)
            found[f"KM, {name}, {how}"] = curve.mse(lived_s, none)

    pooled(f"{train.bins.n} bins", train.bins, train.lifetime, (True, False))
    if train_s is not None:
        pooled("495 bins", MANY, MANY.of(train_s), (True, False))
        times_s = np.unique(train_s[(train.censored == 0) & (train_s > 0)])
        exact = Bins(tuple(times_s[times_s < train.bins.longest_s].tolist()), train.bins.longest_s)
        pooled("continuous", exact, exact.of(train_s), (True,))
    models: dict[str, Callable[[CloudTrace], Hazards]] = {
        "tables": fit_lifetimes, "trees": fit_trees,
    }  # fmt: skip
    for name, fit in models.items():
        hazard, row = fit(train).hazards(test)
        for stepped in (True, False):
            how = "stepped" if stepped else "CDI"
            curve = survival_of(hazard, train.bins, stepped=stepped)
            found[f"{name}, {train.bins.n} bins, {how}"] = curve.mse(lived_s, row[ended])
    return found


def trace_scores(path: Path, most_jobs: int | None = None) -> dict[str, Any]:
    """Score everything on the last part of a trace, learnt from the first."""
    jobs = observed(path)
    if most_jobs is not None and jobs.n_jobs > most_jobs:
        jobs = jobs.window(0.0, float(np.sort(jobs.begin_s)[most_jobs]))
    early, late = halves(jobs)
    (train, rows), (test, test_rows) = (one.batches(PERIOD_S, LIVES) for one in (early, late))
    return {
        "jobs": [train.n_jobs, test.n_jobs],
        "batches": [train.n_batches, test.n_batches],
        "users": len(np.unique(jobs.user)),
        "flavour kinds": len(jobs.flavours),
        "censored": [float(train.censored.mean()), float(test.censored.mean())],
        "flavours": flavour_scores(train, test),
        "lifetimes": lifetime_scores(train, test),
        "survival": survival_scores(
            train, test, late.lived_s[test_rows], early.lived_s[rows]
        ),
    }  # fmt: skip


def _timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    made = fit()
    return made, time.process_time() - began


def _plain(told: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in told.items()}
