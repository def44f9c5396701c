"""Table I of the PipeSim paper as a model: what pruning does to accuracy, size and latency.

The paper's simulator leaves the metrics of a compressed model as they were; here the relative
changes of the two networks that it measured are applied, interpolated between the five levels.
"""

import numpy as np
from numpy.typing import NDArray

from sim.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]

PRUNED = (0.0, 0.2, 0.4, 0.6, 0.8)
ACCURACY = {"GoogleNet": (80.7, 80.9, 80.0, 77.7, 69.8), "ResNet50": (81.3, 80.9, 80.8, 79.5, 69.8)}
SIZE_MB = {"GoogleNet": (42.5, 28.7, 20.9, 14.6, 8.5), "ResNet50": (91.1, 83.5, 65.2, 41.9, 8.5)}
INFERENCE_MS = {"GoogleNet": (128, 117, 100, 84, 71), "ResNet50": (223, 200, 169, 141, 72)}
"""On Food101 with Caffe; percent, megabytes, milliseconds, at each level of `PRUNED`."""

NETWORKS = ("GoogleNet", "ResNet50", "mean")


def compressed(pruned: Floats, network: str = "mean") -> tuple[Floats, Floats, Floats]:
    """Return the factors on accuracy, size and inference time.

    Args:
        pruned: shares of the weights that are taken away, 0 to 0.8.
        network: whose changes; `mean` is the mean of both.

    Raises:
        UnknownNameError: no such network.
        SetupError: a share out of range.
    """
    if network not in NETWORKS:
        raise UnknownNameError("measured network", network, NETWORKS)
    if len(pruned) and not (np.min(pruned) >= 0 and np.max(pruned) <= PRUNED[-1]):
        raise SetupError("the pruned share of a network is from 0 to 0.8, as it was measured.")
    names = NETWORKS[:2] if network == "mean" else (network,)
    accuracy, size, inference = (
        np.mean([np.interp(pruned, PRUNED, np.array(told[n]) / told[n][0]) for n in names], axis=0)
        for told in (ACCURACY, SIZE_MB, INFERENCE_MS)
    )
    return accuracy, size, inference
