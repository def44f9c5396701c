"""Parallel simulation of many scenarios, and the cache of results by scenario digest.

Threads run the compiled loop, which holds no Python lock. Results are the same for any number of
threads, and come in the order of the scenarios. A digest covers everything in a scenario that
decides the outcome. On disk the folder is named after a digest of the sources that decide it too:
model, kernel, policies and engines.
"""

import hashlib
import os
import threading
import zipfile
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, overload

import numpy as np

from sim.engines import engine_named, run
from sim.model.errors import EngineError
from sim.model.files import atomic_file
from sim.model.result import Holds, Instances, Placement, Restarts, SimulationResult
from sim.model.scenario import Scenario

_COLUMNS = {"start_s": "float64", "end_s": "float64", "partition": "int64", "state": "int8"}
_PLACEMENT = ("placement_first", "placement_machine")
_RESTARTS = ("n_restarts", "lost_s")
_HOLDS = ("hold_from_s", "hold_until_s")
_BESIDE = ("submit_s", "procs")
_INSTANCES = tuple(f"instance_{instance_field.name}" for instance_field in fields(Instances))
_DAMAGES = (
    OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors that NumPy and zipfile raise for damaged files."""


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Numbers of hits, misses and damaged files of a result cache.

    Attributes:
        n_hits: results found, in memory or on disk.
        n_misses: results that were not found.
        n_damaged: unreadable files; they count as misses and are written again.
    """

    n_hits: int = 0
    n_misses: int = 0
    n_damaged: int = 0


class ResultCache:
    """Thread-safe cache of simulation results, keyed by scenario digest.

    Args:
        most_bytes: bytes of memory for results; the least recently used ones are dropped. 0 is
            none.
        folder: folder that stores every result too, without a limit; None is none. Programs may
            share it.

    Raises:
        EngineError: the folder is not writable, or fewer than 0 bytes.
    """

    def __init__(self, most_bytes: int = 256 * 2**20, folder: str | Path | None = None) -> None:
        if most_bytes < 0:
            raise EngineError(f"most_bytes is {most_bytes}; allowed are whole numbers from 0.")
        self._most_bytes = most_bytes
        self._folder = None if folder is None else _writable(Path(folder))
        self._kept: OrderedDict[str, SimulationResult] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()
        self.counts = CacheCounts()

    def get(self, digest: str) -> SimulationResult | None:
        """Return the stored result of a scenario digest, or None."""
        with self._lock:
            cached = self._kept.get(digest)
            if cached is not None:
                self._kept.move_to_end(digest)
                self.counts = replace(self.counts, n_hits=self.counts.n_hits + 1)
                return cached
        read, is_damaged = self._read(digest)
        with self._lock:
            if read is None:
                self.counts = replace(
                    self.counts,
                    n_misses=self.counts.n_misses + 1,
                    n_damaged=self.counts.n_damaged + is_damaged,
                )
            else:
                self.counts = replace(self.counts, n_hits=self.counts.n_hits + 1)
                self._keep(digest, read)
        return read

    def put(self, result: SimulationResult) -> None:
        """Store a result under its scenario digest, without the monitor's series.

        Raises:
            EngineError: the folder is not writable (any more); memory holds the result all the
                same.
        """
        bare = replace(result, series=None, note=None)
        with self._lock:
            self._keep(result.scenario_digest, bare)
        self._write(bare)

    def _keep(self, digest: str, result: SimulationResult) -> None:
        if digest in self._kept or _size(result) > self._most_bytes:
            return
        self._kept[digest] = result
        self._n_bytes += _size(result)
        while self._n_bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._n_bytes -= _size(oldest)

    def _path(self, digest: str) -> Path | None:
        return None if self._folder is None else self._folder / digest[:2] / f"{digest}.npz"

    def _read(self, digest: str) -> tuple[SimulationResult | None, bool]:
        path = self._path(digest)
        if path is None or not path.exists():
            return None, False
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                columns = {name: stored[name] for name in _COLUMNS}
                parts = [stored[name] for name in _PLACEMENT if name in stored]
                times = [stored[name] for name in _RESTARTS if name in stored]
                holds = [stored[name] for name in _HOLDS if name in stored]
                beside = {name: stored[name] for name in _BESIDE if name in stored}
                those = [stored[name] for name in _INSTANCES if name in stored]
                engine = str(stored["engine"])
            _check_columns(columns)
        except _DAMAGES:
            return None, True
        placement = Placement(*parts) if parts else None
        return SimulationResult(
            **columns,
            scenario_digest=digest,
            engine=engine,
            placement=placement,
            restarts=Restarts(*times) if times else None,
            holds=Holds(*holds) if holds else None,
            instances=Instances(*those) if those else None,
            **beside,
        ), False

    def _write(self, result: SimulationResult) -> None:
        path = self._path(result.scenario_digest)
        if path is None:
            return
        columns: dict[str, Any] = dict(result.columns())
        with (
            atomic_file(path, raises=_not_stored, parents=True, sync=False) as draft,
            draft.open("wb") as file,  # not synced: a damaged file counts as missing
        ):
            np.savez(file, engine=np.array(result.engine), **columns)


def _not_stored(sentence: str) -> EngineError:
    return EngineError(f"{sentence}; free some space, or name another folder for the results.")


def _check_columns(columns: dict[str, Any]) -> None:
    """Raise ValueError unless the columns have equal lengths and the types that we write."""
    for name, column in columns.items():
        if column.dtype != _COLUMNS[name] or column.shape != (len(columns["start_s"]),):
            raise ValueError(f"{name} is {column.dtype} of shape {column.shape}")


def _writable(folder: Path) -> Path:
    """Return the folder of this version's results within a folder, created if necessary."""
    version_folder = folder / f"results-{_sources_digest()}"
    try:
        version_folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=version_folder):
            return version_folder
    except OSError as error:
        raise EngineError(
            f"results cannot be kept in '{folder}' ({error.strerror}); name a folder that can be "
            "written, or None."
        ) from error


@cache
def _sources_digest() -> str:
    """Return a digest of the sources that decide a result, without processor and compiler."""
    root = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256()
    for room in ("model", "kernel", "policies", "engines"):
        for path in sorted(root.glob(f"{room}/**/*.py")):
            name = path.relative_to(root).as_posix()
            sha.update(name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def _size(result: SimulationResult) -> int:
    return sum(column.nbytes for column in result.columns().values())


_T = TypeVar("_T")

AHEAD = 8  # Scenarios in progress or in the queue, per thread; it bounds the memory


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
    """Simulate scenarios in parallel threads and yield the results in order.

    Closing the iterator, or an interruption, ends it after the simulations in progress.

    Args:
        scenarios: scenarios, taken one by one, `AHEAD` per thread before the first result is
            yielded, so none may depend on a result. An error of the iterable is raised at its turn.
        each: (scenario, result) to the yielded value, for example `measures`; called in the
            simulating thread, so that results need not stay in memory. None yields the results.
        engine: engine as in `simulate`.
        threads: number of threads; None is one per core.
        cache: cache to read before and to fill after a simulation.
        progress: called with the number of scenarios done, from the thread that iterates.

    Raises:
        EngineError: fewer than 1 thread.
        SimError: any error of `simulate` for a scenario, at its turn.
    """
    n_threads = (os.cpu_count() or 1) if threads is None else threads
    if type(n_threads) is not int or n_threads < 1:
        raise EngineError(f"threads is {threads!r}; allowed are whole numbers from 1.")
    engine_named(engine)
    measure = _itself if each is None else each
    return _in_order(iter(scenarios), measure, engine, n_threads, cache, progress)


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
            output = work(scenario)
            n_done += 1
            if progress is not None:
                progress(n_done)
            yield output
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
            output = waiting.popleft().result()
            n_done += 1
            take_one()
            if progress is not None:
                progress(n_done)
            yield output
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _simulate(scenario: Scenario, engine: str, cache: ResultCache | None) -> SimulationResult:
    cached = None if cache is None else cache.get(scenario.digest)
    if cached is not None:
        return cached
    result = run(scenario, engine, monitor=False)
    if cache is not None:
        cache.put(result)
    return result
