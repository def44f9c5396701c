"""Do the intervals of expected results hold what they say? Measured, and fitted.

``python -m benchmarks.coverage --tables DIR --generated`` plays strategies on spaces of which every
run is known. At each suggestion the model of the runs so far predicts its result; at some numbers
of runs it also predicts untried configurations drawn at random, and one that was tried is run
again. Printed is how many results lay within the 80 and 95 % intervals.

* Kinds of spaces: measured tables; generated spaces of known families; small additive programs; and
  all of these with noise, of a standard deviation of ``--noise`` times (median - best).
* Every space counts the same; intervals are 95 % of a bootstrap over the spaces.
* ``--fit FILE`` first fits the coefficients that are shipped, `strategies/gp/run_interval.json`, to
  the generated spaces and programs of this call, never to tables. Coverage is then that of the
  fitted intervals: of generated spaces with their family left out, of tables as shipped. The
  shipped file is of the spaces 100 to 105 of each family:
  ``python -m benchmarks.coverage --generated --programs --spaces 100-105 --methods
  grasp,copper --noise 0,0.1,0.5 --fit strategies/gp/run_interval.json``
* Without ``--fit`` spaces 0 to 3 are played, which no coefficient has seen. ``--held FILE`` notes
  in the shipped file what the 95 % intervals held, by which pages call them. It is of
  ``python -m benchmarks.coverage --tables DIR --generated --spaces 0 --seeds 0 --methods
  grasp,copper,random,pattern_search,particle_swarm,latin_hypercube --held
  strategies/gp/run_interval.json``

Every episode is a step that ``--resume`` keeps; an interruption costs at most 20. What a strategy
proposes does not depend on the intervals, so kept episodes may be fitted and judged again.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.episodes import Method, OurChooser
from benchmarks.forecasting.scores import interval
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.search import parse_seeds
from benchmarks.spaces import FAMILIES, Problem, from_table, generated
from strategies import AnovaModel, Observation, Parameter, ParameterSpace
from strategies.gp.anova_model import Targets
from strategies.gp.run_interval import (
    FEATURES,
    LEAST_RUNS,
    LEVEL,
    PROBABILITIES,
    IntervalCoefficients,
    shipped,
)

Floats = NDArray[np.float64]

CHECKED = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Numbers of runs after which configurations that nobody chose are predicted too."""

UNTRIED = 20  # Configurations drawn at random at each of these
POINTS = ("chosen", "random", "again")
BINS = (LEAST_RUNS, 10, 20, 40, 70, 1_000)
WRITTEN_EVERY = 20  # Episodes between two writings of the result, which grows to many megabytes
FREE = (
    "tables",
    "generated",
    "programs",
    "spaces",
    "noise",
    "methods",
    "seeds",
    "jobs",
    "fit",
    "held",
)


def program(seed: int) -> Problem:
    """Draw a small additive program, such as a training script with a few settings."""
    rng = np.random.default_rng([seed, *b"program"])
    n_levels = rng.integers(2, 6, size=rng.integers(3, 7), endpoint=True)
    counts = [tuple(range(int(n))) for n in n_levels]
    named = [tuple(f"v{level}" for level in levels) for levels in counts]
    space = ParameterSpace(
        tuple(
            Parameter(f"p{i}", levels if rng.random() < 0.7 else names)
            for i, (levels, names) in enumerate(zip(counts, named, strict=True))
        )
    )
    total = np.full(tuple(n_levels), 0.3)
    for i, n in enumerate(n_levels):
        effect = rng.random(n) if rng.random() < 0.5 else np.abs(np.arange(n) - rng.integers(n))
        effect = (effect - effect.min()) / max(np.ptp(effect), 1e-9) * rng.gamma(1.0) * 0.3
        total += effect.reshape([-1 if j == i else 1 for j in range(len(n_levels))])
    return Problem(f"program {seed}", "generated", space, total.ravel())


def play(problem: Problem, noise: float, method: Method, seed: int, budget: int) -> dict[str, Any]:
    """Play one episode and return one row per judged configuration, ready for JSON.

    Of each: the runs before it, its kind, its target in deviations from the mean of the model (the
    residual), the features of its quantiles, and whether the shipped 95 and 80 % intervals, mapped
    back to values, hold its result.
    """
    chooser = OurChooser(method, problem, [seed, 0])
    draws = np.random.default_rng([seed, 1])
    noise_rng = np.random.default_rng([seed, 2])
    sd = noise * (float(np.median(problem.valid)) - float(problem.valid[0]))
    observations: list[Observation] = []
    rows: dict[str, list[Any]] = {
        name: [] for name in ("runs", "point", "residual", "features", "in_95", "in_80")
    }
    tried: list[int] = []

    def run(index: int) -> float | None:
        value = float(problem.objective[index])
        return None if np.isnan(value) else value + sd * float(noise_rng.standard_normal())

    def judge(points: Sequence[tuple[str, int, float]]) -> None:
        model = AnovaModel(problem.space, observations)
        if model.targets.knots.size < 2:
            return
        judged = judge_results(model, [(i, -value) for _, i, value in points], problem)
        for (point, _, _), row in zip(points, judged, strict=True):
            rows["runs"].append(len(observations))
            rows["point"].append(POINTS.index(point))
            for name, value in row.items():
                rows[name].append(value)

    while len(tried) < min(budget, problem.size):
        index = chooser.ask()
        if index is None:
            break
        value = run(index)
        points = [] if value is None else [("chosen", index, value)]
        if len(tried) in CHECKED:
            others = draws.permutation(problem.size)[: 4 * UNTRIED].tolist()
            untried = [
                (i, v) for i in others if i not in {*tried, index} and (v := run(i)) is not None
            ]
            points += [("random", i, v) for i, v in untried[:UNTRIED]]
            if sd > 0:
                again = draws.choice(tried, 3).tolist()
                points += [("again", i, v) for i in again if (v := run(i)) is not None]
        if points and len(observations) >= LEAST_RUNS:
            judge(points)
        tried.append(index)
        chooser.tell(index, value)
        if value is not None:
            observations.append(Observation(problem.configuration(index), -value))
    return rows


def judge_results(
    model: AnovaModel, results: Sequence[tuple[int, float]], problem: Problem
) -> list[dict[str, Any]]:
    """Return the residual, features and both verdicts for each index and response."""
    ids = model.ids_of([problem.configuration(i) for i, _ in results])
    response = np.array([y for _, y in results])
    mean, deviation, described = model.described(ids)
    residual = (targets_of(model.targets, response) - mean) / deviation
    ends = model.targets.responses_at(model.run_quantiles(ids))
    slack = 1e-9 * np.abs(response)
    inside = [
        (ends[:, low] - slack <= response) & (response <= ends[:, high] + slack)
        for low, high in ((0, 4), (1, 3))
    ]
    return [
        {
            "residual": round(float(np.clip(residual[i], -99, 99)), 4),
            "features": [round(float(x), 4) for x in described[i]],
            "in_95": int(inside[0][i]),
            "in_80": int(inside[1][i]),
        }
        for i in range(len(results))
    ]


def targets_of(targets: Targets, responses: Floats) -> Floats:
    """Return the targets of responses [m], by bisection of the transformation back."""
    low = np.full(responses.shape, targets.knots[0] - 99.0)
    high = np.full(responses.shape, targets.knots[-1] + 99.0)
    for _ in range(50):
        middle = (low + high) / 2
        below = targets.responses_at(middle) < responses
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


class Judged:
    """The rows of all episodes as columns; `quantiles` are those that the rows are judged by."""

    def __init__(self, names: Sequence[str], episodes: Sequence[Mapping[str, Any]]) -> None:
        sizes = [len(e["runs"]) for e in episodes]
        parts = [name.split(", ") for name in names]
        self.space = np.repeat([p[0] for p in parts], sizes)
        self.family = np.array([name.split()[0] for name in self.space.tolist()])
        self.noisy = np.repeat([p[1] != "noise 0" for p in parts], sizes)
        self.method = np.repeat([p[2] for p in parts], sizes)
        self.kind = np.repeat([e["kind"] for e in episodes], sizes)
        self.runs, self.residual = (
            np.concatenate([np.array(e[name], dtype=np.float64) for e in episodes])
            for name in ("runs", "residual")
        )
        self.point = np.array(POINTS)[np.concatenate([e["point"] for e in episodes]).astype(int)]
        self.features = np.concatenate([np.array(e["features"]) for e in episodes if e["runs"]])
        self.inside = {
            level: np.concatenate([e[f"in_{level}"] for e in episodes]).astype(np.bool_)
            for level in (80, 95)
        }

    def judge_by(self, quantiles: Floats) -> None:
        """Judge the rows by quantiles [m, 5] of their residuals instead of the shipped ones."""
        for level, low, high in ((95, 0, 4), (80, 1, 3)):
            r = self.residual
            self.inside[level] = (quantiles[:, low] <= r) & (r <= quantiles[:, high])

    def weights(self) -> Floats:
        """Return weights under which families, methods, noise, points and bins count the same."""
        bins = np.digitize(self.runs, BINS)
        keys = zip(self.family, self.method, self.noisy, self.point, bins, strict=True)
        _, which, counts = np.unique(
            np.array(["|".join(map(str, key)) for key in keys]),
            return_inverse=True,
            return_counts=True,
        )
        weights: Floats = 1.0 / counts[which] * np.where(self.point == "again", 0.3, 1.0)
        return weights / weights.mean()


RIDGE = 1e-3
SMOOTH = 0.05  # Half width of the parabola that replaces the corner of the quantile loss
EMPHASIS = np.array([3.0, 1.5, 1.0, 1.5, 3.0])
ROUNDS = 3
ROUNDED = 4


def fit(features: Floats, residual: Floats, weights: Floats) -> Floats:
    """Return coefficients [5, features] that minimise the weighted quantile loss.

    Each row's loss is divided by the width of its interval, as the round before had it: else the
    widest intervals alone would be calibrated.
    """
    found = _fit(features, residual, weights)
    for _ in range(ROUNDS):
        quantiles = IntervalCoefficients("", found, {}).quantiles(features)
        found = _fit(features, residual, weights / (quantiles[:, 3] - quantiles[:, 1]))
    return np.round(found, ROUNDED)


def _fit(features: Floats, residual: Floats, weights: Floats) -> Floats:
    """Minimise the loss of all five quantiles, smoothed, with a ridge but on the constants."""
    weights = weights / weights.mean()
    clipped = np.clip(residual, -40.0, 40.0)
    probability = np.array(PROBABILITIES)
    n = features.shape[1]

    def loss(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(5, n)
        steps = np.exp(np.clip(features @ w[1:].T, -6.0, 6.0))
        median = features @ w[0]
        below, above = median - steps[:, 0], median + steps[:, 2]
        quantiles = np.stack(
            [below - steps[:, 1], below, median, above, above + steps[:, 3]], axis=1
        )
        error = clipped[:, None] - quantiles
        size = np.sqrt(error * error + SMOOTH * SMOOTH)
        scale = weights[:, None] * EMPHASIS / len(clipped)
        slope = -(0.5 * error / size + (probability - 0.5)) * scale
        of_steps = np.stack(
            [-slope[:, 0] - slope[:, 1], -slope[:, 0], slope[:, 3] + slope[:, 4], slope[:, 4]]
        )
        gradient = np.concatenate([slope.sum(axis=1)[None], of_steps * steps.T]) @ features
        penalised = np.where(np.arange(n) == 0, 0.0, w)
        value = ((0.5 * size + (probability - 0.5) * error) * scale).sum()
        return (
            float(value + RIDGE * (penalised**2).sum()),
            (gradient + 2 * RIDGE * penalised).ravel(),
        )

    found = minimize(loss, np.zeros(5 * n), jac=True, method="L-BFGS-B", options={"maxiter": 600})
    return found.x.reshape(5, n)


def refit(judged: Judged) -> IntervalCoefficients:
    """Fit to generated spaces, and judge each family by a fit without it."""
    weights, generated_rows = judged.weights(), judged.kind == "generated"

    def fitted(rows: NDArray[np.bool_]) -> IntervalCoefficients:
        w = fit(judged.features[rows], judged.residual[rows], weights[rows])
        return IntervalCoefficients("", w, {})

    everything = fitted(generated_rows)
    quantiles = everything.quantiles(judged.features)
    for family in np.unique(judged.family[generated_rows]):
        own = judged.family == family
        quantiles[own] = fitted(generated_rows & ~own).quantiles(judged.features[own])
    judged.judge_by(quantiles)
    spaces = len(np.unique(judged.space[generated_rows]))
    words = f"{int(generated_rows.sum()):,} results on {spaces} generated spaces and programs"
    return IntervalCoefficients(words, everything.weights, {})


def held_by(judged: Judged, method: str) -> dict[str, float]:
    """Return the coverage at 95 % by kind of point: the lesser of the kinds of spaces."""
    held = {}
    for point in POINTS[:2]:
        shares = []
        for kind in np.unique(judged.kind):
            mine = (judged.method == method) & (judged.kind == kind) & (judged.point == point)
            spaces = [
                judged.inside[95][mine & (judged.space == s)] for s in np.unique(judged.space[mine])
            ]
            shares += [float(np.mean([space.mean() for space in spaces]))] if spaces else []
        held[f"{method}, {point}"] = min(shares, default=np.nan)
    return held


def write(path: Path, coefficients: IntervalCoefficients, held: Mapping[str, float]) -> None:
    """Write the coefficients with the measured coverage, as `shipped` reads them."""
    columns = coefficients.weights.T.tolist()
    body = {
        "fitted": coefficients.fitted,
        "command": "python -m benchmarks.coverage --fit, then --held, as its help says",
        "held": {name: round(share, 3) for name, share in held.items()},
        "weights": dict(zip(FEATURES, columns, strict=True)),
    }
    path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


def kind_names(judged: Judged) -> NDArray[np.str_]:
    """Return the name of each row's kind of space: tables, generated or programs, noisy or not."""
    names = np.where(judged.kind == "measured", "tables", "generated")
    names = np.where(judged.family == "program", "programs", names)
    return np.where(judged.noisy, np.char.add(names, ", noisy"), names)


def print_coverage(judged: Judged, method: str, record: Record) -> None:
    """Print the table of one method."""
    kinds = kind_names(judged)
    rows = []
    for kind in np.unique(kinds):
        for point in POINTS:
            mine = (judged.method == method) & (kinds == kind) & (judged.point == point)
            if not mine.any():
                continue
            row = [str(kind), point, str(len(np.unique(judged.space[mine]))), f"{mine.sum():,}"]
            for level in (80, 95):
                inside, space = judged.inside[level][mine], judged.space[mine]

                def share(i: NDArray[np.int64], w: Floats, inside: Any = inside) -> float:
                    return float(np.average(inside[i], weights=w))

                each = [inside[space == name].mean() for name in np.unique(space)]
                low, high = interval(share, space)
                row.append(f"{np.mean(each):.1%} ({low:.1%}-{high:.1%})")
                record.figure(f"{method}, {kind}, {point}, {level} %", float(np.mean(each)))
                bins = np.digitize(judged.runs[mine], BINS)
                shares = [inside[bins == b] for b in range(1, len(BINS))]
                row.append(" / ".join(f"{s.mean():.0%}" if s.size else "-" for s in shares))
            rows.append(row)
    names = [f"{a}-{b - 1}" for a, b in pairwise(BINS)]
    by_runs = "after " + " / ".join([*names[:-1], f"{BINS[-2]}-"]) + " runs"
    header = ["points", "spaces", "results", "80 %", by_runs, "95 %", by_runs]
    table([f"{method}: spaces", *header], rows)


def problems_of(options: argparse.Namespace) -> list[tuple[Problem, list[int]]]:
    """Return every space that was asked for, with the seeds that it is played with."""
    seeds, spaces = parse_seeds(options.seeds), parse_seeds(options.spaces)
    paths = [] if options.tables is None else sorted(options.tables.glob("*.csv"))
    played = [(from_table(path), seeds) for path in (paths[:1] if options.quick else paths)]
    if options.generated or options.quick:
        families = list(FAMILIES)[:2] if options.quick else list(FAMILIES)
        played += [(generated(family, seed), [seed]) for family in families for seed in spaces]
    if options.programs or options.quick:
        played += [(program(seed), [seed]) for seed in spaces]
    return played


def main() -> None:
    """Play, fit where that is asked for, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    add = options_parser.add_argument
    add("--tables", type=Path, help="folder of measured tables (CSV)")
    add("--generated", action="store_true", help="spaces of known families")
    add("--programs", action="store_true", help="small additive programs")
    add("--spaces", default="0-3", help="numbers of the generated spaces and programs")
    add("--noise", default="0,0.2", help="noise, as shares of (median - best)")
    add("--methods", default="grasp", help="comma list of strategies")
    add("--budget", type=int, default=101, help="runs per episode")
    add("--seeds", default="0-3", help="seeds of the episodes on tables, such as 0-9 or 0,3,7")
    add("--jobs", type=int, default=1, help="episodes at once")
    add("--fit", type=Path, help="fit the coefficients first, and write them here")
    add("--held", type=Path, help="write the shipped coefficients here, with this coverage")
    options = options_parser.parse_args()
    if options.quick:
        options.budget, options.seeds, options.spaces = 26, "0", "0"
    methods = [Method.parse(text.strip()) for text in options.methods.split(",")]
    record = Record("coverage", options, parse_seeds(options.seeds), FREE)
    played = problems_of(options)
    if not played:
        options_parser.error("no space: name --tables DIR, --generated or --programs")
    episodes = {
        f"{problem.name}, noise {noise:g}, {method.text}, seed {seed}": (
            problem.kind,
            partial(play, problem, noise, method, seed, options.budget),
        )
        for method in methods
        for problem, seeds in played
        for noise in map(float, options.noise.split(","))
        for seed in seeds
    }
    steps = record.body["steps"]
    missing = {name: task for name, (_, task) in episodes.items() if name not in steps}
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(task): name for name, task in missing.items()}
        for number, future in enumerate(as_completed(futures), 1):
            steps[futures[future]] = future.result()
            sys.stderr.write(f"{futures[future]}\n")
            if number % WRITTEN_EVERY == 0:
                record.write()
    record.write()
    rows = [steps[name] | {"kind": kind} for name, (kind, _) in episodes.items()]
    judged = Judged(list(episodes), rows)
    coefficients = shipped() if options.fit is None else refit(judged)
    held: dict[str, float] = {}
    for method in methods:
        print_coverage(judged, method.text, record)
        held |= held_by(judged, method.text)
    if options.fit is not None:
        write(options.fit, coefficients, {})
    if options.held is not None:
        write(options.held, shipped(), held)
    record.figure("nominal level", LEVEL)
    record.write()


if __name__ == "__main__":
    guarded(main)
