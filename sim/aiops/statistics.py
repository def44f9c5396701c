"""All that a simulated platform is told of the real one: laws of data, tasks, models, arrivals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import Arrivals
from sim.aiops.curve import Curve
from sim.aiops.laws import Law
from sim.aiops.mixture import Mixture
from sim.errors import SetupError
from sim.workloads.model import Json, Model

Floats = NDArray[np.float64]

GENERATOR = "ai-platform"
"""What a model of statistics names as its generator."""

GRID = tuple(float(u) for u in np.linspace(0.0, 1.0, 101))
"""Probabilities at which the performance of an estimator is known."""

_MIXTURE = ("weights", "means", "covariances", "lowest", "highest")


@dataclass(frozen=True, eq=False)
class Statistics:
    """Laws of a platform.

    Attributes:
        assets: of rows, columns and bytes of a data set.
        preprocess: seconds by rows x columns.
        train: seconds, by framework.
        seconds: of the other tasks whose time does not depend on training: `evaluate`, `deploy`,
            `monitor`.
        mix: share of the training jobs, by framework; sums to 1.
        like_training: of tasks that take about as long as training (`compress`, `harden`):
            standard deviation of the Gaussian noise, as a share of the training time.
        estimators: by framework the share of each estimator type; each sums to 1.
        performance: by estimator type its quantiles at `GRID`, from 0 to 1, rising.
        arrivals: laws of inter-arrival times.
        source: one sentence for people.

    Raises:
        SetupError: shares that do not sum to 1, a framework or an estimator without its laws, or
            quantiles that do not rise within 0 and 1.
    """

    assets: Mixture
    preprocess: Curve
    train: Mapping[str, Mixture]
    seconds: Mapping[str, Mixture]
    mix: Mapping[str, float]
    like_training: Mapping[str, float]
    estimators: Mapping[str, Mapping[str, float]]
    performance: Mapping[str, Floats]
    arrivals: Arrivals
    source: str = ""

    def __post_init__(self) -> None:
        if self.assets.dimensions != 3:
            raise SetupError("data sets have rows, columns and bytes: a mixture of 3 numbers.")
        checked_shares("frameworks", self.mix)
        for framework, shares in {name: self.estimators.get(name, {}) for name in self.mix}.items():
            if framework not in self.train:
                raise SetupError(f"framework '{framework}' has no law of training.")
            checked_shares(f"estimators of '{framework}'", shares)
            for estimator in shares:
                if estimator not in self.performance:
                    raise SetupError(f"estimator '{estimator}' has no law of performance.")
        for estimator, quantiles in self.performance.items():
            inside = len(quantiles) == len(GRID) and quantiles[0] >= 0 and quantiles[-1] <= 1
            if not (inside and np.all(np.diff(quantiles) >= 0)):
                raise SetupError(f"quantiles of '{estimator}' are 101, rising, within 0 and 1.")

    def model(self) -> Model:
        """Return the statistics as a model, which is kept as JSON and npz."""
        mixtures = {"assets": self.assets}
        mixtures |= {f"train {name}": one for name, one in self.train.items()}
        mixtures |= {f"seconds {name}": one for name, one in self.seconds.items()}
        arrays: dict[str, NDArray[Any]] = {
            f"{name}|{part}": getattr(one, part)
            for name, one in mixtures.items()
            for part in _MIXTURE
        }
        arrays |= {f"performance {name}": q for name, q in self.performance.items()}
        arrays["recorded"] = np.asarray(self.arrivals.recorded, dtype=float)
        parameters: dict[str, Json] = {
            "preprocess": self.preprocess.told(),
            "train": sorted(self.train),
            "seconds": sorted(self.seconds),
            "mix": dict(self.mix),
            "like_training": dict(self.like_training),
            "estimators": {name: dict(shares) for name, shares in self.estimators.items()},
            "performance": sorted(self.performance),
            "everywhere": self.arrivals.everywhere.told(),
            "cells": [law.told() for law in self.arrivals.cells],
        }
        return Model(GENERATOR, parameters, arrays, self.source)


def statistics_of(model: Model) -> Statistics:
    """Return the statistics that a model was made of.

    Raises:
        SetupError: it is a model of something else, or a part is missing.
    """
    if model.generator != GENERATOR:
        raise SetupError(f"the model is one of '{model.generator}'; allowed is '{GENERATOR}'.")
    told, arrays = model.parameters, model.arrays
    try:
        return Statistics(
            _mixture(model, "assets"),
            Curve.read(told["preprocess"]),
            {name: _mixture(model, f"train {name}") for name in told["train"]},
            {name: _mixture(model, f"seconds {name}") for name in told["seconds"]},
            told["mix"],
            told["like_training"],
            told["estimators"],
            {name: arrays[f"performance {name}"] for name in told["performance"]},
            Arrivals(
                Law.read(told["everywhere"]),
                tuple(Law.read(law) for law in told["cells"]),
                tuple(arrays["recorded"].tolist()),
            ),
            model.source,
        )
    except (KeyError, TypeError) as error:
        raise SetupError(f"the model of the platform lacks a part: {error}.") from None


def _mixture(model: Model, name: str) -> Mixture:
    return Mixture(*(model.arrays[f"{name}|{part}"] for part in _MIXTURE))


def checked_shares(what: str, shares: Mapping[str, float]) -> None:
    """Raise `SetupError` unless shares are from 0 and sum to 1."""
    if not shares or min(shares.values()) < 0 or abs(sum(shares.values()) - 1) > 1e-6:
        told = ", ".join(f"{name} {share:g}" for name, share in shares.items()) or "none"
        raise SetupError(f"the shares of {what} are {told}; allowed are shares that sum to 1.")
