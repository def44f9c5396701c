"""The brain: a small network that scores pairs of a task and a machine, and how it is trained.

A pair has a row of features. Its score is a linear part plus a network of two hidden layers, and
the policy takes a pair with the softmax of the scores of all pairs with room, as in DeepJS. The
network is so small that NumPy is enough: gradients are written out here, and Adam (Kingma and Ba,
ICLR 2015) follows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.policies.pair_network import FARTHEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LAYERS = ("direct", "into_1", "bias_1", "into_2", "bias_2", "out")
"""Names of the arrays of weights, in their order."""


@dataclass(frozen=True, eq=False)
class Brain:
    """Weights of a network that scores pairs by their features.

    Attributes:
        mean, deviation: float64 [n_features], by which features are standardised.
        weights: float64 arrays named `LAYERS`: the linear part [n_features], weights and biases of
            two layers with tanh, and the output [n_hidden]. A score has no bias, since the softmax
            would cancel it.
    """

    mean: Floats
    deviation: Floats
    weights: tuple[Floats, ...]

    @classmethod
    def untrained(cls, n_features: int, hidden: tuple[int, int], rng: np.random.Generator) -> Self:
        """Return a brain whose scores are nearly equal: all pairs are nearly as likely."""
        first, second = hidden
        return cls(
            np.zeros(n_features),
            np.ones(n_features),
            (
                np.zeros(n_features),
                rng.normal(0.0, n_features**-0.5, (n_features, first)),
                np.zeros(first),
                rng.normal(0.0, first**-0.5, (first, second)),
                np.zeros(second),
                rng.normal(0.0, 0.01, second),
            ),
        )

    def standardised_by(self, features: Floats) -> Self:
        """Return the brain with the mean and deviation of given features [n, n_features]."""
        deviation = features.std(axis=0)
        usual = np.where(deviation > 1e-6, deviation, 1.0)
        return replace(self, mean=features.mean(axis=0), deviation=usual)

    def inputs(self, features: Floats) -> Floats:
        """Return standardised features: float64 [n, n_features]."""
        scaled: Floats = np.clip((features - self.mean) / self.deviation, -FARTHEST, FARTHEST)
        return scaled

    def scores(self, features: Floats) -> Floats:
        """Return the score of each pair: float64 [n]."""
        return self._forward(self.inputs(features))[0]

    def _forward(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        direct, into_1, bias_1, into_2, bias_2, out = self.weights
        first = np.tanh(x @ into_1 + bias_1)
        second = np.tanh(first @ into_2 + bias_2)
        return x @ direct + second @ out, first, second

    def pulled(self, features: Floats, wanted: Floats) -> tuple[Floats, ...]:
        """Return the gradient of sum(wanted * scores) by each array of weights.

        Args:
            features: float64 [n, n_features].
            wanted: float64 [n].
        """
        _, _, _, into_2, _, out = self.weights
        x = self.inputs(features)
        _, first, second = self._forward(x)
        at_second = np.outer(wanted, out) * (1.0 - second**2)
        at_first = (at_second @ into_2.T) * (1.0 - first**2)
        return (
            wanted @ x, x.T @ at_first, at_first.sum(axis=0), first.T @ at_second,
            at_second.sum(axis=0), wanted @ second,
        )  # fmt: skip


def softmax(scores: Floats, begins: Ints) -> Floats:
    """Return the probability of each pair within its decision: float64 [n].

    Args:
        scores: float64 [n], of the pairs of all decisions, one decision after the other.
        begins: int64 [n_decisions], the first pair of each; each has a pair.
    """
    sizes = np.diff(np.append(begins, len(scores)))
    shifted = np.exp(scores - np.repeat(np.maximum.reduceat(scores, begins), sizes))
    shares: Floats = shifted / np.repeat(np.add.reduceat(shifted, begins), sizes)
    return shares


def policy_gradient(
    brain: Brain,
    features: Floats,
    begins: Ints,
    chosen: Ints,
    advantage: Floats,
    entropy_weight: float,
) -> tuple[tuple[Floats, ...], float]:
    """Return the gradient of REINFORCE (Williams 1992), to be climbed, and the mean entropy.

    It is that of the mean over decisions of advantage * log(probability of the chosen pair), plus
    entropy_weight * entropy of the decision.

    Args:
        brain: the present brain.
        features: float64 [n, n_features], of the pairs of all decisions.
        begins: int64 [n_decisions], the first pair of each decision.
        chosen: int64 [n_decisions], the chosen pair, a row of the features.
        advantage: float64 [n_decisions], how much better it went than expected.
        entropy_weight: weight of the entropy, from 0.
    """
    n = len(begins)
    sizes = np.diff(np.append(begins, len(features)))
    shares = softmax(brain.scores(features), begins)
    logs = np.log(np.maximum(shares, 1e-300))
    entropy = -np.add.reduceat(shares * logs, begins)
    wanted = -np.repeat(advantage, sizes) * shares
    wanted[chosen] += advantage
    wanted -= entropy_weight * shares * (logs + np.repeat(entropy, sizes))
    return brain.pulled(features, wanted / n), float(entropy.mean())


@dataclass(frozen=True, eq=False)
class Adam:
    """State of Adam: the step, and means of the gradient and of its square for each array."""

    step: int
    mean: tuple[Floats, ...]
    square: tuple[Floats, ...]

    @classmethod
    def at_rest(cls, weights: Sequence[Floats]) -> Self:
        """Return the state before the first step."""
        zeros = tuple(np.zeros_like(array) for array in weights)
        return cls(0, zeros, zeros)

    def climbed(
        self, brain: Brain, gradient: Sequence[Floats], rate: float, longest: float = 1.0
    ) -> tuple["Adam", Brain]:
        """Return state and brain after a step up a gradient, which is cut to a length."""
        length = float(np.sqrt(sum(float((array**2).sum()) for array in gradient)))
        cut = min(1.0, longest / length) if length > 0 else 1.0
        step, b1, b2 = self.step + 1, 0.9, 0.999
        pairs = list(zip(gradient, self.mean, self.square, strict=True))
        mean = tuple(b1 * m + (1 - b1) * cut * g for g, m, _ in pairs)
        square = tuple(b2 * s + (1 - b2) * (cut * g) ** 2 for g, _, s in pairs)
        moved = tuple(
            w + rate * (m / (1 - b1**step)) / (np.sqrt(s / (1 - b2**step)) + 1e-8)
            for w, m, s in zip(brain.weights, mean, square, strict=True)
        )
        return Adam(step, mean, square), replace(brain, weights=moved)
