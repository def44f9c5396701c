"""BLAS has one thread inside `single_blas_thread`, and as many as before after the last exit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from strategies.blas_threads import single_blas_thread


def n_threads() -> set[int]:
    blas = ThreadpoolController().select(user_api="blas")
    return {library.num_threads for library in blas.lib_controllers}


def test_one_thread_inside_and_as_before_afterwards() -> None:
    assert np.linalg.det(np.eye(2)) == 1.0  # BLAS is loaded
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        with single_blas_thread:
            with single_blas_thread:
                assert n_threads() == {1}
            assert n_threads() == {1}
        assert n_threads() == {2}


def test_another_thread_may_be_inside_at_the_same_time() -> None:
    with ThreadpoolController().limit(limits=2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        with single_blas_thread:
            assert pool.submit(single_blas_thread(n_threads)).result() == {1}
            assert n_threads() == {1}
        assert n_threads() == {2}


def test_an_error_inside_restores_too() -> None:
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        try:
            with single_blas_thread:
                raise ValueError
        except ValueError:
            pass
        assert n_threads() == {2}
