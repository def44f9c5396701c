"""Kernel functions: plain Python in the subset that Numba compiles, marked so that they are found.

A kernel function is what it looks like. Python runs it as it stands, over lists and objects
(`sim.kernel.records.interpretable`); `sim.kernel.jit` compiles a twin of it, and of every kernel
function that it calls, for arrays. There is one text, so the two cannot drift.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeGuard, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

_texts: set[Any] = set()
_apart: set[Any] = set()


def kernel(function: _F) -> _F:
    """Mark a function as kernel text; it comes back unchanged."""
    _texts.add(function)
    return function


def apart(function: _F) -> _F:
    """Mark a kernel function that is long and seldom called; it comes back unchanged.

    Machine code has it once, and not wherever it is called, which takes less time to compile.
    """
    _apart.add(function)
    return function


def is_apart(function: object) -> bool:
    """Tell whether a function is marked so."""
    return function in _apart


def is_kernel(value: object) -> TypeGuard[FunctionType]:
    """Tell whether a value is a marked function."""
    return isinstance(value, FunctionType) and value in _texts


def called_by(function: FunctionType) -> dict[str, FunctionType]:
    """Return the kernel functions that a kernel function names, by the name it uses."""
    named = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    return {name: value for name, value in named if is_kernel(value)}


def bound(function: _F, variant: str, **names: Callable[..., Any]) -> _F:
    """Return the same text with other functions behind some of the names that it calls.

    Args:
        function: a kernel function.
        variant: part of the new function's name, which also keeps its machine code apart.
        names: kernel functions by the name that the text uses.
    """
    if not isinstance(function, FunctionType):
        raise TypeError("only kernel functions can be bound")
    unknown = set(names) - set(called_by(function))
    if unknown:
        raise TypeError(f"{function.__name__} calls no kernel function {sorted(unknown)}")
    name = f"{function.__name__}_{variant}"
    other = FunctionType(
        function.__code__, function.__globals__ | names, name, function.__defaults__
    )
    other.__qualname__ = name
    other.__module__, other.__doc__ = function.__module__, function.__doc__
    return kernel(other)  # type: ignore[return-value]
