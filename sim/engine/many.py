"""Many scenarios on all cores: threads around the compiled loop, which holds no Python lock.

The workload is shared, not copied, and every simulation stands alone, so the results are the same
bit by bit whatever the number of threads. They come in the order of the scenarios.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, overload

from sim.engine import engine_named, run
from sim.engine.cache import ResultCache
from sim.errors import EngineError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario

_T = TypeVar("_T")

AHEAD = 8
"""Scenarios under way or waiting for their turn, per thread; bounds the memory."""


@overload
def simulate_many(
    scenarios: Iterable[Scenario],
    *,
    engine: str = ...,
    threads: int | None = ...,
    cache: ResultCache | None = ...,
    progress: Callable[[int], None] | None = ...,
) -> Iterator[SimulationResult]: ...


@overload
def simulate_many(
    scenarios: Iterable[Scenario],
    *,
    each: Callable[[Scenario, SimulationResult], _T],
    engine: str = ...,
    threads: int | None = ...,
    cache: ResultCache | None = ...,
    progress: Callable[[int], None] | None = ...,
) -> Iterator[_T]: ...


def simulate_many(
    scenarios: Iterable[Scenario],
    *,
    each: Callable[[Scenario, SimulationResult], Any] | None = None,
    engine: str = "auto",
    threads: int | None = None,
    cache: ResultCache | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    """Simulate scenarios and yield each result, or what is made of it, in order, as it comes.

    Closing the iterator, or an interruption, ends it after what is under way.

    Args:
        scenarios: taken one by one, `AHEAD` per thread before the first result is yielded, so
            none may depend on a result. What taking one raises is raised at its turn.
        each: (scenario, result) to what is wanted of it, for example `measures`; called in the
            thread that simulated, so that no result is kept that is not wanted. None yields the
            results themselves.
        engine: as for `simulate`.
        threads: how many work side by side; None is one per core.
        cache: looked into before, filled after.
        progress: called with the number of scenarios done, from the thread that iterates.

    Raises:
        EngineError: fewer than 1 thread.
        SimError: whatever `simulate` raises for a scenario, at its turn.
    """
    n_threads = (os.cpu_count() or 1) if threads is None else threads
    if type(n_threads) is not int or n_threads < 1:
        raise EngineError(f"threads is {threads!r}; allowed are whole numbers from 1.")
    engine_named(engine)
    wanted = _itself if each is None else each
    return _in_order(iter(scenarios), wanted, engine, n_threads, cache, progress)


def _itself(_scenario: Scenario, result: SimulationResult) -> SimulationResult:
    return result


def _in_order(
    scenarios: Iterator[Scenario],
    each: Callable[[Scenario, SimulationResult], _T],
    engine: str,
    n_threads: int,
    cache: ResultCache | None,
    progress: Callable[[int], None] | None,
) -> Iterator[_T]:
    def work(scenario: Scenario) -> _T:
        return each(scenario, _simulate(scenario, engine, cache))

    n_done = 0
    if n_threads == 1:
        for scenario in scenarios:
            made = work(scenario)
            n_done += 1
            if progress is not None:
                progress(n_done)
            yield made
        return
    executor = ThreadPoolExecutor(n_threads, thread_name_prefix="simulate")
    try:
        waiting: deque[Future[_T]] = deque()

        def take_one() -> None:
            try:
                waiting.append(executor.submit(work, next(scenarios)))
            except StopIteration:
                return
            except Exception as error:
                refused: Future[_T] = Future()
                refused.set_exception(error)
                waiting.append(refused)

        for _ in range(n_threads * AHEAD):
            take_one()
        while waiting:
            made = waiting.popleft().result()
            n_done += 1
            take_one()
            if progress is not None:
                progress(n_done)
            yield made
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _simulate(scenario: Scenario, engine: str, cache: ResultCache | None) -> SimulationResult:
    found = None if cache is None else cache.get(scenario.digest)
    if found is not None:
        return found
    result = run(scenario, engine, monitor=False)
    if cache is not None:
        cache.put(result)
    return result
