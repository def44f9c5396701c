"""Boosted trees as plain arrays: grown by scikit-learn, kept as numbers, evaluated by NumPy.

A model that is kept holds no program, so the library's own form (pickle) is out of question. Its
trees are turned into arrays of nodes once, after growing; what they say is the library's own
prediction (tested), and whoever draws from a model needs no scikit-learn.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 8192
"""Rows that are sent down the trees together: their places stay in the processor's cache."""

LEAN = 1.0
"""What the curvature of a leaf is added to: leaves of few jobs say little. Their rows cannot be
counted instead, since a row may stand for thousands of jobs."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees whose values add up. Nodes of all trees stand one tree after another.

    Attributes:
        first: int64 [n_trees + 1], the root of each tree, and where the last one ends.
        feature: int64 [n_nodes], column that a node asks for; 0 at leaves.
        threshold: float64 [n_nodes], up to which a row goes to the left; infinite at leaves.
        left: int64 [n_nodes], node of those; a leaf names itself, another node a later one.
        right: int64 [n_nodes], node of all others; a leaf names itself.
        value: float64 [n_nodes], what a leaf adds.
        baseline: what is added to.
    """

    first: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    baseline: float

    @property
    def depths(self) -> Ints:
        """Steps from the root of each tree to its deepest leaf: int64 [n_trees]."""
        depth = np.zeros(len(self.feature), dtype=np.int64)
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            if left != node:
                depth[[left, right]] = depth[node] + 1
        return np.maximum.reduceat(depth, self.first[:-1])

    def sums(self, columns: Floats) -> Floats:
        """Return what the trees say of some rows: float64 [n].

        Args:
            columns: float64 [n_features, n], one row of the array for each feature.
        """
        depths = self.depths.tolist()
        found = np.full(columns.shape[1], self.baseline)
        for begin in range(0, len(found), AT_ONCE):
            some = np.ascontiguousarray(columns[:, begin : begin + AT_ONCE])
            n = some.shape[1]
            flat, at = some.ravel(), np.arange(n)
            for root, depth in zip(self.first[:-1].tolist(), depths, strict=True):
                node: Ints = np.full(n, root, dtype=np.int64)
                for _ in range(depth):
                    told = flat[self.feature[node] * n + at]
                    node = np.where(told <= self.threshold[node], self.left[node], self.right[node])
                found[begin : begin + n] += self.value[node]
        return found


def grown(
    rows: Floats, ended: Ints, weight: Floats, *, rounds: int, rate: float, leaves: int, depth: int
) -> Boosted:
    """Grow trees for the logit of a probability (gradient boosting over histograms).

    Args:
        rows: float64 [n, n_features].
        ended: int64 [n], 1 where it happened.
        weight: float64 [n], how often such a row was seen.
        rounds: trees at most.
        rate: what each tree is shrunk to.
        leaves: of a tree at most.
        depth: of a tree at most.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    library = HistGradientBoostingClassifier(
        max_iter=rounds, learning_rate=rate, max_leaf_nodes=leaves, max_depth=depth,
        l2_regularization=LEAN, min_samples_leaf=1, early_stopping=False, random_state=0,
    )  # fmt: skip
    return exported(library.fit(rows, ended, sample_weight=weight))


def exported(library: Any) -> Boosted:
    """Return the trees of a fitted binary classifier of scikit-learn (histogram boosting)."""
    trees = [stage[0].nodes for stage in library._predictors]
    first = np.concatenate([[0], np.cumsum([len(tree) for tree in trees])]).astype(np.int64)
    nodes = np.concatenate(trees)
    own = np.arange(len(nodes))
    root = np.repeat(first[:-1], np.diff(first))
    is_leaf = nodes["is_leaf"].astype(bool)
    return Boosted(
        first=first,
        feature=np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64),
        threshold=np.where(is_leaf, np.inf, nodes["num_threshold"]),
        left=np.where(is_leaf, own, root + nodes["left"]).astype(np.int64),
        right=np.where(is_leaf, own, root + nodes["right"]).astype(np.int64),
        value=np.where(is_leaf, nodes["value"], 0.0),
        baseline=float(np.ravel(library._baseline_prediction)[0]),
    )
