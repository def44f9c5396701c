"""Arrays of a fitted model, checked: numbers of a shape within a range, shares, contexts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.workloads.cloud.contexts import Contexts
from sim.workloads.model import Model


def packed_contexts(name: str, contexts: Contexts) -> dict[str, NDArray[Any]]:
    """Return the arrays of some contexts."""
    keys = {f"{name}_keys_{level}": keys for level, keys in enumerate(contexts.keys)}
    return {**keys, f"{name}_parent": contexts.parent}


def contexts_of(model: Model, name: str) -> Contexts:
    """Return the contexts of a name. Raises WorkloadError if they cannot be."""
    keys: list[NDArray[np.int64]] = []
    while (key := f"{name}_keys_{len(keys)}") in model.arrays:
        keys.append(whole_of(model, key, (None,), 0))
        if len(keys[-1]) == 0 or (np.diff(keys[-1]) <= 0).any():
            raise WorkloadError(f"array '{key}' of '{model.generator}' must rise.")
    n_rows = sum(map(len, keys))
    parent = whole_of(model, f"{name}_parent", (n_rows,), 0, max(n_rows - 1, 0))
    if not keys or len(keys[0]) != 1 or (parent[1:] >= np.arange(1, n_rows)).any():
        raise WorkloadError(f"the contexts '{name}' of '{model.generator}' are no tree.")
    return Contexts(tuple(keys), parent)


def shares_of(model: Model, name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return an array of probabilities that add up to 1 along its last axis."""
    found = array_of(model, name, shape, 0.0, 1.0)
    if np.abs(found.sum(axis=-1) - 1.0).max() > 1e-6:
        raise WorkloadError(f"array '{name}' of '{model.generator}' holds shares that are not 1.")
    return found


def array_of(
    model: Model,
    name: str,
    shape: tuple[int | None, ...],
    lowest: float,
    highest: float,
) -> NDArray[np.float64]:
    """Return an array of numbers as float64.

    Args:
        model: that has it.
        name: of the array.
        shape: None is any length from 1.
        lowest: that is allowed.
        highest: that is allowed.

    Raises:
        WorkloadError: it is missing, of another shape, or out of range.
    """
    found = model.arrays.get(name)
    if found is None:
        raise WorkloadError(f"a model of '{model.generator}' needs the array '{name}'.")
    is_shape = found.ndim == len(shape) and all(
        n == want if want is not None else n > 0 for n, want in zip(found.shape, shape, strict=True)
    )
    if not is_shape or found.dtype.kind not in "iuf":
        raise WorkloadError(
            f"array '{name}' of '{model.generator}' has shape {found.shape}; numbers of shape "
            f"{tuple('any' if n is None else n for n in shape)} are expected."
        )
    if not ((found >= lowest) & (found <= highest)).all():
        raise WorkloadError(
            f"array '{name}' of '{model.generator}' has values outside {lowest:g} to {highest:g}."
        )
    return found.astype(np.float64)


def whole_of(
    model: Model,
    name: str,
    shape: tuple[int | None, ...],
    lowest: int,
    highest: int = 2**62,
) -> NDArray[np.int64]:
    """Return an array of whole numbers as int64; see `array_of`."""
    array_of(model, name, shape, float(lowest), float(highest))
    found = model.arrays[name]
    if found.dtype.kind == "f" and (found % 1 != 0).any():
        raise WorkloadError(f"array '{name}' of '{model.generator}' must hold whole numbers.")
    return found.astype(np.int64)
