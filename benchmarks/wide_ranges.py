"""What refinement of wide ranges and conditions find, beside fixed grids, flat spaces and Optuna.

``python -m benchmarks.wide_ranges`` prints a table of both parts; ``--part`` is for one of them.

``ranges`` minimises eight functions of two to four parameters with a budget of 60 runs: closed
forms, most with logarithmic ranges, and two small trainings of scikit-learn.

* ``refined`` has ranges without a step, whose coarse levels become finer near the best result.
* ``coarse`` keeps these first levels; ``fine`` has 41 levels, or all whole numbers up to 41.
* Optuna's samplers have their defaults, and the continuous range; they may be missing.

``regret`` is the median over seeds of (best value - optimum) as a share of (median of random
points - optimum); the optimum is the least value that is known, or that any search of this run
found. ``--resume`` keeps each function and search.

``conditional`` minimises over other spaces, whose parameters matter under a condition only, with
equal levels for every search: ``when`` is told the conditions, ``flat`` is not, and Optuna's TPE
asks for the active parameters alone (define-by-run). Printed are medians over seeds of the runs to
within 5 % of (median of random points - optimum), where a goal not reached counts as one run more
than the budget. The optimum is that of all points.
"""

import argparse
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import copperline as cl
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.search import parse_seeds
from strategies import Exclusion, Parameter, ParameterSpace
from strategies.space.wide_range import WideRange

RUNS = 60
QUICK_RUNS = 14
FINE = 41
N_RANDOM = 200
Values = Mapping[str, Any]
Function = Callable[[Values], float]


@dataclass(frozen=True, slots=True)
class Problem:
    """A function to minimise, the range of each argument, and its least value if known."""

    function: Function
    ranges: Mapping[str, WideRange]
    optimum: float | None = None


def _log(x: float) -> float:
    return math.log10(x)


def valley(v: Values) -> float:
    """Return a bowl over the logarithms of two parameters, and one more."""
    return float(
        _log(v["rate"] / 0.0047) ** 2
        + 0.3 * _log(v["decay"] / 3.3e-4) ** 2
        + 4 * (v["drop"] - 0.27) ** 2
    )


def curved(v: Values) -> float:
    """Return Rosenbrock's function of two logarithms."""
    x, y = _log(v["a"]) + 3.2, _log(v["b"]) + 4.0
    return float((1 - x) ** 2 + 20 * (y - x * x) ** 2)


def branin(v: Values) -> float:
    """Return Branin's function."""
    x, y = v["x"], v["y"]
    bowl = (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2
    return float(bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)


def hartmann(v: Values) -> float:
    """Return Hartmann's function of three parameters."""
    x = np.array([v["x"], v["y"], v["z"]])
    return -float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-(_A * (x - _P) ** 2).sum(axis=1)))


def ackley(v: Values) -> float:
    """Return Ackley's function of four parameters, with its centre off the middle."""
    x = np.array([v["a"] - 1.3, v["b"] + 2.1, v["c"] - 0.4, v["d"] - 3.7])
    root = math.sqrt(float((x**2).mean()))
    cosines = float(np.cos(2 * math.pi * x / 4).mean())
    return -20 * math.exp(-0.2 * root) - math.exp(cosines) + 20 + math.e


def tiles(v: Values) -> float:
    """Return a time by whole-number sizes: overheads of small and of large ones."""
    tile, threads, ahead = v["tile"], v["threads"], v["ahead"]
    work = 100 / threads + 0.9 * threads + 0.02 * threads * ahead / tile
    return float(work + 300 / tile + tile / 20 + 5 / ahead + 0.1 * ahead)


@cache
def _friedman() -> tuple[Any, Any]:
    points, values = make_friedman1(150, 6, noise=0.5, random_state=0)
    return points, values


def kernel_ridge(v: Values) -> float:
    """Return the mean square error of kernel ridge regression on Friedman's function."""
    points, values = _friedman()
    model = KernelRidge(alpha=v["alpha"], gamma=v["gamma"], kernel="rbf")
    scores = cross_val_score(model, points, values, cv=3, scoring="neg_mean_squared_error")
    return -float(scores.mean())


@cache
def _digits() -> tuple[Any, Any]:
    images, digits = load_digits(return_X_y=True)
    return images[:240] / 16, digits[:240]


def support_vectors(v: Values) -> float:
    """Return the error of a support vector machine on handwritten digits."""
    images, digits = _digits()
    model = SVC(C=v["cost"], gamma=v["gamma"])
    return 1 - float(cross_val_score(model, images, digits, cv=3).mean())


PROBLEMS: Mapping[str, Problem] = {
    "valley": Problem(
        valley,
        {
            "rate": WideRange(1e-5, 1.0, log=True), "decay": WideRange(1e-6, 0.1, log=True),
            "drop": WideRange(0.0, 0.8),
        },
        0.0,
    ),
    "Rosenbrock of logarithms": Problem(
        curved, {"a": WideRange(1e-5, 0.1, log=True), "b": WideRange(1e-5, 1.0, log=True)}, 0.0
    ),
    "Branin": Problem(
        branin, {"x": WideRange(-5.0, 10.0), "y": WideRange(0.0, 15.0)}, 0.397887357729738
    ),
    "Hartmann 3": Problem(
        hartmann, dict.fromkeys(("x", "y", "z"), WideRange(0.0, 1.0)), -3.86277979
    ),
    "Ackley 4": Problem(ackley, dict.fromkeys(("a", "b", "c", "d"), WideRange(-5.0, 5.0)), 0.0),
    "tiles and threads": Problem(
        tiles,
        {
            "tile": WideRange(1, 1024, log=True), "threads": WideRange(1, 64, log=True),
            "ahead": WideRange(1, 100),
        },
    ),
    "kernel ridge": Problem(
        kernel_ridge,
        {"alpha": WideRange(1e-6, 10.0, log=True), "gamma": WideRange(1e-4, 10.0, log=True)},
    ),
    "support vectors": Problem(
        support_vectors,
        {"cost": WideRange(1e-3, 1000.0, log=True), "gamma": WideRange(1e-5, 10.0, log=True)},
    ),
}  # fmt: skip


def _table(ends: WideRange, fine: bool) -> dict[str, Any]:
    low, high = ends.low, ends.high
    if not fine:
        return {"range": {"low": low, "high": high, "log": ends.log}}
    if ends.is_whole:
        spaced = np.geomspace(low, high, FINE) if ends.log else np.linspace(low, high, FINE)
        return {"levels": sorted({round(float(value)) for value in spaced})}
    if ends.log:
        return {"logarithmic": {"low": low, "high": high, "count": FINE}}
    return {"levels": [float(f"{value:.9g}") for value in np.linspace(low, high, FINE)]}


def ours(problem: Problem, seed: int, runs: int, *, fine: bool = False, refine: bool) -> float:
    """Return the best value of a study with refined, coarse or fine levels."""
    space = {name: _table(ends, fine) for name, ends in problem.ranges.items()}
    study = cl.study(space, minimise="value", runs=runs, seed=seed, noisy=False, refine=refine)
    values = []
    while (run := study.ask()) is not None:
        values.append(problem.function(run.values))
        study.tell(run, values[-1])
    return min(values)


def optuna_search(problem: Problem, seed: int, runs: int, sampler: str) -> float:
    """Return the best value of a sampler of Optuna on the continuous range."""
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))

    def value(trial: Any) -> float:
        point = {}
        for name, ends in problem.ranges.items():
            suggest = trial.suggest_int if ends.is_whole else trial.suggest_float
            point[name] = suggest(name, ends.low, ends.high, log=ends.log)
        return problem.function(point)

    study.optimize(value, n_trials=runs)
    return float(study.best_value)


Search = Callable[[Problem, int, int], float]
SEARCHES: Mapping[str, Search] = {
    "refined": lambda problem, seed, runs: ours(problem, seed, runs, refine=True),
    "coarse": lambda problem, seed, runs: ours(problem, seed, runs, refine=False),
    "fine": lambda problem, seed, runs: ours(problem, seed, runs, fine=True, refine=False),
    "Optuna TPE": lambda problem, seed, runs: optuna_search(problem, seed, runs, "TPESampler"),
    "Optuna GPSampler": lambda problem, seed, runs: optuna_search(problem, seed, runs, "GPSampler"),
}


@dataclass(frozen=True, slots=True)
class ConditionalProblem:
    """A function of the active parameters, their levels, and conditions by name."""

    function: Function
    levels: Mapping[str, tuple[Any, ...]]
    when: Mapping[str, str]


def _step(value: float, best: float, width: float) -> float:
    return (_log(value / best) / width) ** 2


def optimiser(v: Values) -> float:
    """Return a loss of three optimisers, each with its own best step size and parameters."""
    smooth = 0.2 * _step(v["batch"], 48, 0.6)
    if v["optimizer"] == "sgd":
        cost = 0.45 + _step(v["sgd.lr"], 0.08, 1.0) + 3 * (v["sgd.momentum"] - 0.9) ** 2
        return cost - 0.15 * v.get("sgd.nesterov", False)
    if v["optimizer"] == "adam":
        cost = 0.2 + _step(v["adam.lr"], 0.0012, 0.8) + 4 * (v["adam.beta1"] - 0.85) ** 2
        return cost + smooth + 0.1 * _step(v["adam.eps"], 1e-7, 2.0)
    return 0.7 + _step(v["lbfgs.history"], 12, 0.8) + smooth / 2


@cache
def _kernels(kernel: str, own: tuple[tuple[str, Any], ...]) -> float:
    images, digits = _digits()
    return 1 - float(cross_val_score(SVC(kernel=kernel, **dict(own)), images, digits, cv=3).mean())


def kernels(v: Values) -> float:
    """Return the error of a support vector machine with the kernel's own parameters."""
    return _kernels(v["kernel"], tuple(sorted((n, x) for n, x in v.items() if n != "kernel")))


_RATES = tuple(float(f"{x:.2g}") for x in np.geomspace(1e-4, 1.0, 9))
CONDITIONAL: Mapping[str, ConditionalProblem] = {
    "optimiser": ConditionalProblem(
        optimiser,
        {
            "optimizer": ("lbfgs", "sgd", "adam"), "batch": (8, 16, 32, 64, 128, 256),
            "sgd.lr": _RATES, "sgd.momentum": (0.0, 0.5, 0.8, 0.9, 0.95, 0.99),
            "sgd.nesterov": (False, True), "adam.lr": _RATES,
            "adam.beta1": (0.0, 0.5, 0.8, 0.9, 0.95), "adam.eps": (1e-9, 1e-8, 1e-7, 1e-6, 1e-5),
            "lbfgs.history": (2, 5, 10, 20, 50),
        },
        {
            "sgd.lr": "optimizer == 'sgd'", "sgd.momentum": "optimizer == 'sgd'",
            "sgd.nesterov": "`sgd.momentum` > 0", "adam.lr": "optimizer == 'adam'",
            "adam.beta1": "optimizer == 'adam'", "adam.eps": "optimizer == 'adam'",
            "lbfgs.history": "optimizer == 'lbfgs'",
        },
    ),
    "kernels of support vectors": ConditionalProblem(
        kernels,
        {
            "kernel": ("linear", "poly", "rbf", "sigmoid"),
            "C": (0.01, 0.1, 1.0, 10.0, 100.0), "gamma": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
            "degree": (2, 3, 4, 5), "coef0": (0.0, 0.3, 1.0, 3.0),
        },
        {
            "gamma": "kernel != 'linear'", "degree": "kernel == 'poly'",
            "coef0": "kernel in ['poly', 'sigmoid']",
        },
    ),
}  # fmt: skip


def conditional_space(problem: ConditionalProblem) -> ParameterSpace:
    """Return the parameter space of a problem, with its conditions."""
    return ParameterSpace(
        tuple(
            Parameter(name, levels, when=problem.when.get(name, ""))
            for name, levels in problem.levels.items()
        )
    )


def _values_of_study(
    problem: ConditionalProblem, space: ParameterSpace, seed: int, runs: int, told: ParameterSpace
) -> list[float]:
    """Return the values of a study's runs, in order; ``told`` is the space that it knows."""
    study = cl.study(told, minimise="value", runs=runs, seed=seed, noisy=False)
    values = []
    while (run := study.ask()) is not None:
        active = space.values(space.from_values(run.values))
        values.append(problem.function(active))
        study.tell(run, values[-1])
    return values


def _conditional_tpe(
    problem: ConditionalProblem, space: ParameterSpace, seed: int, runs: int
) -> list[float]:
    """Return the values of Optuna's TPE, which gets ranks of numbers and asks as it goes."""
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    values: list[float] = []

    def value(trial: Any) -> float:
        point: dict[str, Any] = {}
        while missing := [n for n in space.names if n not in point and _is_known(space, n, point)]:
            for name in missing:
                levels = problem.levels[name]
                if isinstance(levels[0], str | bool):
                    point[name] = trial.suggest_categorical(name, levels)
                else:
                    point[name] = levels[trial.suggest_int(name, 0, len(levels) - 1)]
        values.append(problem.function(point))
        return values[-1]

    study.optimize(value, n_trials=runs)
    return values


def _is_known(space: ParameterSpace, name: str, point: Values) -> bool:
    """Return whether a parameter is active, as far as the values of others show."""
    when = space.parameter(name).when
    if not when:
        return True
    return Exclusion(when).excludes({n: point.get(n) for n in space.names})


def _runs_to(values: Sequence[float], goal: float, runs: int) -> int:
    return next((i for i, value in enumerate(values, 1) if value <= goal), runs + 1)


def conditional(options: argparse.Namespace, seeds: Sequence[int], record: Record) -> None:
    """Measure the searches of spaces with conditions, and print the table."""
    runs = QUICK_RUNS if options.quick else RUNS
    problems = {"optimiser": CONDITIONAL["optimiser"]} if options.quick else CONDITIONAL
    rows = []
    for title, problem in problems.items():
        space = conditional_space(problem)
        flat = ParameterSpace(tuple(Parameter(n, levels) for n, levels in problem.levels.items()))
        every = record.step(
            f"{title}, all points",
            lambda p=problem, s=space: {  # type: ignore[misc]
                "values": [p.function(s.values(c)) for c in s.configurations()]
            },
        )["values"]
        rng = np.random.default_rng(0)
        drawn = [space.sample(rng) for _ in range(N_RANDOM)]
        median = statistics.median(problem.function(space.values(c)) for c in drawn if c)
        goal = min(every) + 0.05 * (median - min(every))
        searches: Mapping[str, Callable[[int], list[float]]] = {
            "when": lambda seed, p=problem, s=space: _values_of_study(p, s, seed, runs, s),  # type: ignore[misc]
            "flat": lambda seed, p=problem, s=space, f=flat: _values_of_study(p, s, seed, runs, f),  # type: ignore[misc]
            "Optuna TPE": lambda seed, p=problem, s=space: _conditional_tpe(p, s, seed, runs),  # type: ignore[misc]
        }
        row = [title, f"{space.count_allowed()} of {space.size}"]
        for name, search in searches.items():

            def measured(search: Callable[[int], list[float]] = search) -> dict[str, Any]:
                try:
                    return {"values": [search(seed) for seed in seeds]}
                except ImportError:
                    return {"values": []}

            each = record.step(f"{title}, {name}", measured)["values"]
            if not each:
                row.append("missing")
                continue
            needed = statistics.median(_runs_to(values, goal, runs) for values in each)
            record.figure(f"{title}, {name}: median runs to 5 %", needed)
            row.append(f"{needed:g}")
        rows.append(row)
    table(["function", "configurations", "when", "flat", "Optuna TPE"], rows)


def random_median(problem: Problem) -> float:
    """Return the median value of random points of the ranges."""
    rng, values = np.random.default_rng(0), []
    for _ in range(N_RANDOM):
        point: dict[str, Any] = {}
        for name, ends in problem.ranges.items():
            place = float(rng.random())
            low, high = float(ends.low), float(ends.high)
            exact = low * (high / low) ** place if ends.log else low + place * (high - low)
            point[name] = round(exact) if ends.is_whole else exact
        values.append(problem.function(point))
    return statistics.median(values)


def ranges(options: argparse.Namespace, seeds: Sequence[int], record: Record) -> None:
    """Measure the searches of wide ranges, and print the table."""
    names, runs, problems = options.searches.split(","), RUNS, PROBLEMS
    if options.quick:
        runs = QUICK_RUNS
        names = [name for name in names if name != "Optuna GPSampler"]
        problems = {name: PROBLEMS[name] for name in ("valley", "tiles and threads")}
    rows, ratios = [], dict[str, list[float]]()
    for title, problem in problems.items():
        best: dict[str, list[float]] = {}
        for name in names:

            def measured(search: Search = SEARCHES[name], p: Problem = problem) -> dict[str, Any]:
                try:
                    return {"best": [search(p, seed, runs) for seed in seeds]}
                except ImportError:
                    return {"best": []}

            best[name] = record.step(f"{title}, {name}", measured)["best"]
        found = [value for values in best.values() for value in values]
        optimum = min(found) if problem.optimum is None else problem.optimum
        scale = random_median(problem) - optimum
        row = [title]
        for name in names:
            if not best[name]:
                row.append("missing")
                continue
            regret = (statistics.median(best[name]) - optimum) / scale
            record.figure(f"{title}, {name}: regret", regret)
            ratios.setdefault(name, []).append(max(regret, 1e-5))
            row.append(f"{regret:.5f}")
        rows.append(row)
    means = [f"{statistics.geometric_mean(ratios[n]):.5f}" if n in ratios else "" for n in names]
    table(["function", *names], [*rows, ["geometric mean (each at least 0.00001)", *means]])


PARTS = {"ranges": ranges, "conditional": conditional}


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--seeds", default="0-9", help="such as 0-9 or 0,3,7")
    options_parser.add_argument(
        "--searches", default=",".join(SEARCHES), help="of ranges: names, by commas"
    )
    options_parser.add_argument("--part", choices=PARTS, help="only this part")
    options = options_parser.parse_args()
    seeds = parse_seeds("0" if options.quick else options.seeds)
    record = Record("wide_ranges", options, seeds, ("seeds", "searches", "part"))
    for name in (options.part,) if options.part else PARTS:
        PARTS[name](options, seeds, record)
        record.write()


if __name__ == "__main__":
    guarded(main)
