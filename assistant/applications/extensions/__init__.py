"""Applications that evaluate configurations in batches, in this process or in several.

The modules of this package are ready-made applications: simulated testbeds and fleets.
"""

import multiprocessing
import signal
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import ClassVar

from assistant.core.errors import SettingsError
from assistant.core.objective import Measure
from strategies import Level

Values = Mapping[str, Level]
Measures = Mapping[str, Measure]
BatchEvaluation = Callable[[Sequence[Values]], Sequence[Measures]]
"""Function that measures several configurations; with several processes it must be picklable."""


class BatchApplication(ABC):
    """An application that measures several configurations in one call."""

    at_once: ClassVar[int]
    """Best number of configurations for `evaluate_several`."""

    @abstractmethod
    def evaluate_several(self, configurations: Sequence[Values]) -> Sequence[Measures]:
        """Measure several configurations with results bitwise equal to those of `evaluate`."""

    def evaluate_many(
        self,
        configurations: Iterable[Values],
        *,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[Values, Measures]]:
        """Measure configurations and yield each with its measures, in order."""
        return evaluate_batches(
            self.evaluate_several, configurations, at_once=self.at_once, processes=threads or 1,
            progress=progress,
        )  # fmt: skip


def evaluate_batches(
    several: BatchEvaluation,
    configurations: Iterable[Values],
    *,
    at_once: int,
    processes: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[Values, Measures]]:
    """Measure configurations in batches, and yield each with its measures, in order.

    Args:
        several: function that measures up to ``at_once`` configurations.
        configurations: values of the parameters; taken one by one, not far ahead.
        at_once: size of a batch, at least 1.
        processes: number of processes; 1 is this one.
        progress: function called with the number of configurations done.

    Raises:
        SettingsError: the number of processes is below 1.
    """
    if processes < 1:
        raise SettingsError(f"the number of processes must be at least 1, not {processes}")
    chunks = _chunks(iter(configurations), at_once)
    done = 0
    for chunk, results in (
        _alone(several, chunks) if processes == 1 else _beside(several, chunks, processes)
    ):
        yield from zip(chunk, results, strict=True)
        done += len(chunk)
        if progress is not None:
            progress(done)


def _chunks(configurations: Iterator[Values], at_once: int) -> Iterator[list[Values]]:
    while chunk := list(islice(configurations, at_once)):
        yield chunk


Chunk = tuple[list[Values], Sequence[Measures]]


def _alone(several: BatchEvaluation, chunks: Iterator[list[Values]]) -> Iterator[Chunk]:
    for chunk in chunks:
        yield chunk, several(chunk)


def _beside(
    several: BatchEvaluation, chunks: Iterator[list[Values]], processes: int
) -> Iterator[Chunk]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_interrupts)
    under_way: deque[tuple[list[Values], Future[Sequence[Measures]]]] = deque()
    try:
        for chunk in chunks:
            under_way.append((chunk, pool.submit(several, chunk)))
            if len(under_way) >= 2 * processes:
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in a child process; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
