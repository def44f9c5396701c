"""Loading compiled programs, and what to do when the disk has damaged ones."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sim.engine import preparation
from sim.engine.programs import compile_programs
from sim.errors import DamagedCodeError
from sim.model.scenario import Allocation

_T = TypeVar("_T")


def loaded(fetch: Callable[[], _T], allocation: Allocation) -> _T:
    """Return compiled functions; what is damaged on the disk is compiled anew, once.

    Args:
        fetch: loads them.
        allocation: which programs they belong to.

    Raises:
        EngineError: they cannot be had.
    """
    try:
        return fetch()
    except DamagedCodeError:
        preparation.discard()
        preparation.wait(allocation)
        return fetch()


def compile_now() -> None:
    """Wait until everything is compiled, and make sure that it can be loaded.

    Raises:
        EngineError: it cannot be had.
    """
    preparation.wait()
    for allocation in preparation.AHEAD:
        loaded(partial(compile_programs, allocation), allocation)
    preparation.wait()
