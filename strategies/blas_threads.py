"""Limit of BLAS to one thread while a model with a few hundred runs is fitted or predicts.

Matrices of a few hundred rows gain nothing from more threads. Beside the runs of a sweep, which
use the same cores, threads that wait for one another cost many times the work itself. With one
thread the sums are also the same on machines with different numbers of cores.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import local
from typing import Any


@cache
def _blas() -> Any:
    """Return the controller of the BLAS libraries of NumPy and SciPy."""
    import scipy.linalg  # noqa: F401 - loads its BLAS, which is not NumPy's
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


class _SingleBlasThread(ContextDecorator, local):
    """Context, and decorator; each thread may enter it again before it leaves.

    Of several threads that enter it at once, the first sets the limit for all (threadpoolctl).
    """

    def __init__(self) -> None:
        self._depth = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        if self._depth == 0:
            self._limit = _blas().limit(limits=1)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._limit.restore_original_limits()


single_blas_thread = _SingleBlasThread()
"""Limits the BLAS of this process to one thread; the limit before returns with the exit."""


def limit_blas_of_process() -> None:
    """Limit BLAS to one thread until the process ends; for processes that execute no runs."""
    _blas().limit(limits=1)
