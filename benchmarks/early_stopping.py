"""What early stopping saves: the median rule and successive halving beside Optuna's pruners.

``python -m benchmarks.early_stopping`` trains three kinds of models of scikit-learn with 40
settings each, and keeps the error on held-back data after each epoch or tree. Then each rule is
played on these curves: 40 runs in random order on four workers, of which each does one step at a
time and reports it.

* ``steps`` is the share of all steps that was done.
* ``regret`` is the error, after all steps, of the setting whose best error so far is the least,
  less that of the best setting, as a share of (median - best) of all settings: 0 if the rule kept
  the best one.
* Optuna's pruners have their defaults, but the same factor of 3; Optuna may be missing.

The curves of a task are a step that ``--resume`` keeps.
"""

import os
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from typing import Any, Protocol

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from assistant import Objective, SingleMeasure
from assistant.core.early_stopping import EarlyStopping, LearningCurves
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.search import parse_seeds

WORKERS = 4
FACTOR = 3.0
Curve = Sequence[float]
"""Error after each step."""


class Rule(Protocol):
    """A rule that is told of every step of every run."""

    def stops(self, run: int, step: int, error: float) -> bool:
        """Return whether a run shall be stopped after this step."""
        ...


class Ours:
    """A rule of Copperline."""

    def __init__(self, settings: EarlyStopping) -> None:
        self._curves = LearningCurves(settings, Objective(SingleMeasure("error"), "minimise"))

    def stops(self, run: int, step: int, error: float) -> bool:
        """Return whether a run shall be stopped after this step."""
        self._curves.add(run, {"step": step, "error": error})
        return self._curves.hopeless(run) is not None


class Pruner:
    """A pruner of Optuna in a study of its own."""

    def __init__(self, optuna: Any, pruner: Any, n_steps: int) -> None:
        self._optuna, self._n_steps = optuna, n_steps
        self._study = optuna.create_study(pruner=pruner)
        self._trials: dict[int, Any] = {}

    def stops(self, run: int, step: int, error: float) -> bool:
        """Return whether a run shall be stopped after this step."""
        trial = self._trials.setdefault(run, None) or self._study.ask()
        self._trials[run] = trial
        trial.report(error, step)
        if step < self._n_steps and trial.should_prune():
            self._study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)
            return True
        if step == self._n_steps:
            self._study.tell(trial, error)
        return False


def rules(n_steps: int) -> Mapping[str, Callable[[], Rule] | None]:
    """Return how to make each rule; None for one whose package is missing."""
    made: dict[str, Callable[[], Rule] | None] = {
        "median": lambda: Ours(EarlyStopping("step")),
        "halving": lambda: Ours(EarlyStopping("step", "halving", factor=FACTOR)),
        "Optuna MedianPruner": None,
        "Optuna SuccessiveHalvingPruner": None,
    }
    try:
        optuna = import_module("optuna")
    except ImportError:
        return made
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruners = optuna.pruners
    made["Optuna MedianPruner"] = lambda: Pruner(optuna, pruners.MedianPruner(), n_steps)
    made["Optuna SuccessiveHalvingPruner"] = lambda: Pruner(
        optuna, pruners.SuccessiveHalvingPruner(reduction_factor=int(FACTOR)), n_steps
    )
    return made


def played(curves: Sequence[Curve], rule: Rule, seed: int) -> tuple[float, float]:
    """Play all runs in random order under a rule; return the shares of steps and of regret."""
    waiting = iter(np.random.default_rng(seed).permutation(len(curves)).tolist())
    active: list[list[int]] = [[run, 0] for run in _next(waiting, WORKERS)]
    best_so_far = dict.fromkeys(range(len(curves)), float("inf"))
    n_done = 0
    while active:
        for place in list(active):
            run, done = place
            place[1] += 1
            n_done += 1
            error = curves[run][done]
            best_so_far[run] = min(best_so_far[run], error)
            is_whole = place[1] == len(curves[run])
            if rule.stops(run, place[1], error) or is_whole:
                active.remove(place)
                active += [[following, 0] for following in _next(waiting, 1)]
    chosen = min(best_so_far, key=best_so_far.__getitem__)
    ends = [min(curve) for curve in curves]
    scale = statistics.median(ends) - min(ends)
    return n_done / sum(map(len, curves)), (ends[chosen] - min(ends)) / scale


def _next(waiting: Iterator[int], n: int) -> list[int]:
    return [run for _, run in zip(range(n), waiting, strict=False)]


def perceptron_curves(n: int, n_steps: int) -> list[Curve]:
    """Return the error of perceptrons on handwritten digits after each epoch."""
    images, digits = load_digits(return_X_y=True)
    train, test, train_y, test_y = train_test_split(images / 16, digits, random_state=0)
    grid = product((3, 10, 30, 60), (1e-4, 1e-3, 3e-3, 1e-2, 5e-2), (1e-4, 1.0))
    curves: list[Curve] = []
    for width, rate, penalty in list(grid)[:n]:
        model = MLPClassifier((width,), alpha=penalty, learning_rate_init=rate, random_state=0)
        curve = []
        for _ in range(n_steps):
            model.partial_fit(train, train_y, classes=np.arange(10))
            curve.append(1 - float(model.score(test, test_y)))
        curves.append(curve)
    return curves


def linear_curves(n: int, n_steps: int) -> list[Curve]:
    """Return the error of linear classifiers by stochastic gradient descent after each epoch."""
    points, labels = make_classification(
        3_000, 30, n_informative=10, n_classes=3, flip_y=0.1, random_state=0
    )
    train, test, train_y, test_y = train_test_split(points, labels, random_state=0)
    grid = product(("log_loss", "hinge"), (1e-5, 1e-4, 1e-3, 1e-2), (1e-3, 3e-3, 1e-2, 0.1, 1.0))
    curves: list[Curve] = []
    for loss, penalty, rate in list(grid)[:n]:
        model = SGDClassifier(
            loss=loss, alpha=penalty, learning_rate="constant", eta0=rate, random_state=0
        )
        curve = []
        for _ in range(n_steps):
            model.partial_fit(train, train_y, classes=np.arange(3))
            curve.append(1 - float(model.score(test, test_y)))
        curves.append(curve)
    return curves


def boosting_curves(n: int, n_steps: int) -> list[Curve]:
    """Return the mean square error of boosted trees on Friedman's function after each tree."""
    points, values = make_friedman1(800, 10, noise=1.0, random_state=0)
    train, test, train_y, test_y = train_test_split(points, values, random_state=0)
    grid = product((1, 2, 4, 6), (0.01, 0.03, 0.1, 0.3, 0.8), (0.5, 1.0))
    curves: list[Curve] = []
    for depth, rate, share in list(grid)[:n]:
        model = GradientBoostingRegressor(
            n_estimators=n_steps, max_depth=depth, learning_rate=rate, subsample=share,
            random_state=0,
        ).fit(train, train_y)  # fmt: skip
        curves.append(
            [float(np.mean((found - test_y) ** 2)) for found in model.staged_predict(test)]
        )
    return curves


TASKS: Mapping[str, tuple[Callable[[int, int], list[Curve]], int]] = {
    "perceptron, digits": (perceptron_curves, 27),
    "linear model, 3 classes": (linear_curves, 27),
    "boosted trees, Friedman 1": (boosting_curves, 81),
}
"""How to make the curves of a task, and its steps."""


def main() -> None:
    """Measure, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--seeds", default="0-19", help="such as 0-9 or 0,3,7")
    options = options_parser.parse_args()
    if options.quick:
        options.seeds = "0,1"
    seeds, n = parse_seeds(options.seeds), 12 if options.quick else 40
    record = Record("early_stopping", options, seeds, ("seeds",))
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for task, (make, whole_steps) in TASKS.items():
        n_steps = 9 if options.quick else whole_steps
        curves = record.step(task, lambda m=make, k=n_steps: {"curves": m(n, k)})["curves"]  # type: ignore[misc]
        for name, rule in rules(n_steps).items():
            if rule is None:
                rows.append([task, name, "missing", ""])
                continue
            found = [played(curves, rule(), seed) for seed in seeds]
            steps, regret = (statistics.fmean(column) for column in zip(*found, strict=True))
            record.figure(f"{task}, {name}: steps", steps)
            record.figure(f"{task}, {name}: regret", regret)
            rows.append([task, name, f"{steps:.2f}", f"{regret:.3f}"])
    table(["task", "rule", "steps", "regret"], rows)
    record.write()


if __name__ == "__main__":
    guarded(main)
