"""Results kept by scenario digest: in memory, and on disk when asked.

A digest names everything in a scenario that decides the outcome. On disk the folder is named after
a digest of the sources that decide it too: model, kernel, policies and engines.

Many scenarios on all cores: threads around the compiled loop, which holds no Python lock.
"""

import contextlib
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
from uuid import uuid4

import numpy as np

from sim.engines import engine_named, run
from sim.model.errors import EngineError
from sim.model.result import Instances, Placement, Restarts, SimulationResult
from sim.model.scenario import Scenario

_COLUMNS = {"start_s": "float64", "end_s": "float64", "partition": "int64", "state": "int8"}
_PLACEMENT = ("placement_first", "placement_machine")
_RESTARTS = ("n_restarts", "lost_s")
_INSTANCES = tuple(f"instance_{instance_field.name}" for instance_field in fields(Instances))
_DAMAGES = (
    OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy and zipfile raise for files that are not as we wrote them."""


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What a cache was asked for.

    Attributes:
        n_hits: results found, in memory or on disk.
        n_misses: results that were not there.
        n_damaged: files that could not be read; they count as misses and are written anew.
    """

    n_hits: int = 0
    n_misses: int = 0
    n_damaged: int = 0


class ResultCache:
    """Keeps results of simulations by scenario digest. Threads may share it.

    Args:
        most_bytes: memory for kept results; the least recently used go first. 0 keeps none there.
        folder: keep every result in this folder too, without a limit; None keeps none on disk.
            Programs may share it.

    Raises:
        EngineError: the folder cannot be written, or fewer than 0 bytes.
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
        """Return the kept result of a scenario digest, or None."""
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
        """Keep a result under the digest of its scenario. A monitor's series is not kept.

        Raises:
            EngineError: the folder cannot be written (any more); memory keeps it all the same.
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
            instances=Instances(*those) if those else None,
        ), False

    def _write(self, result: SimulationResult) -> None:
        path = self._path(result.scenario_digest)
        if path is None:
            return
        columns: dict[str, Any] = dict(result.columns())
        part = path.with_name(f"{path.stem}-{uuid4().hex}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                np.savez(file, engine=np.array(result.engine), **columns)
            part.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise EngineError(
                f"the result cannot be kept in '{path.parent}' ({error.strerror}); free some "
                "space, or name another folder."
            ) from error


def _check_columns(columns: dict[str, Any]) -> None:
    """Raise ValueError unless these are columns of one length, of the types that we write."""
    for name, column in columns.items():
        if column.dtype != _COLUMNS[name] or column.shape != (len(columns["start_s"]),):
            raise ValueError(f"{name} is {column.dtype} of shape {column.shape}")


def _writable(folder: Path) -> Path:
    """Return where results of this simulator are kept in a folder, which is made if need be."""
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
    """Return a digest of the sources that decide a result; processors and compilers do not."""
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
