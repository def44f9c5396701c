"""Ahead-of-time compilation of event loops in a separate process, and their loading.

The machine code lies in the disk cache (`sim.kernel.jit`), beside a small file that marks it as
complete. If that file is missing, `begin_to_compile` starts `main` in a separate process; another
file with the number of that process prevents a second one. The process outlives its parent because
all later processes use its result, and ends by itself. Damaged programs are compiled again.
"""

import atexit
import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args

from sim.engines.event_loop import compile_programs
from sim.kernel import jit
from sim.model.errors import DamagedCodeError, EngineError
from sim.model.files import write_atomically
from sim.model.scenario import Allocation

AHEAD: tuple[Allocation, ...] = tuple(kind for kind in get_args(Allocation) if kind != "instances")
"""Allocations that are compiled ahead; programs for instances are compiled at first use."""

_MOST_TRIES = 3

LONGEST_S = 300.0  # Age in seconds up to which a process on another host counts as compiling

_CLOCK_S = 5.0  # Largest error in seconds of the start time of a process

_LOOK_EVERY_S = 0.05


class Readiness(StrEnum):
    """State of the compiled programs, such as ready or being compiled."""

    READY = "ready"
    PREPARING = "being compiled"
    ABSENT = "not compiled yet"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class Compilation:
    """State, location and size of the compiled programs.

    Attributes:
        readiness: their readiness.
        folder: their folder; None if nothing can be compiled.
        size_bytes: size of that folder.
        took_s: seconds of the compilation; None if unknown.
        reason: why they are unavailable, failed or will not be stored, as the end of a sentence;
            else None.
    """

    readiness: Readiness
    folder: Path | None
    size_bytes: int = 0
    took_s: float | None = None
    reason: str | None = None


@cache
def _stamp() -> str:
    """Return what distinguishes copies of the sources in Numba's cache: path, size and time."""
    stamps = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in jit.kernel_sources()]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]


def _ready_file(allocation: Allocation) -> Path:
    return jit.cache_folder() / f"ready-{allocation}-{_stamp()}.json"


def _busy_file() -> Path:
    return jit.cache_folder() / f"compiling-{_stamp()}.json"


class _Compiler(subprocess.Popen[bytes]):
    """A compiler process that may outlive this one on purpose, without a warning."""

    def __del__(self) -> None:
        pass


_known_ready: set[Path] = set()
_started: list[_Compiler] = []


def is_ready(allocation: Allocation = "processors") -> bool:
    """Return whether the compiled programs for an allocation can be loaded immediately.

    This requires that every file exists with its original length.
    """
    if jit.unavailable() is not None:
        return False
    path = _ready_file(allocation)
    if path not in _known_ready and _is_whole(path):
        _known_ready.add(path)
    return path in _known_ready


def _is_whole(ready: Path) -> bool:
    files = _read(ready).get("files")
    if not files:
        return False
    return all(_size_of(ready.parent / name) == size for name, size in files.items())


def begin_to_compile() -> None:
    """Start compiling the programs in a background process, unless ready or in progress.

    If they could not be stored nothing is started, because a short process would not benefit.
    """
    if jit.unavailable() is None and jit.no_disk_cache_reason() is None:
        _begin()


def _begin() -> None:
    if _look() is Readiness.ABSENT:
        _started.append(_spawn())


def wait(allocation: Allocation | None = None) -> None:
    """Wait for the compiled programs of an allocation, starting the compilation if needed.

    None waits for all of them. A failed compilation is tried again.

    Raises:
        EngineError: they cannot be compiled.
    """
    reason = jit.unavailable()
    if reason is not None:
        raise EngineError(f"the compiled engine is not available: {reason}.")
    if _look() is Readiness.FAILED:
        _started.clear()
    if allocation == "instances":
        _compile_here(allocation)
        return
    allocations = AHEAD if allocation is None else (allocation,)
    while not all(map(is_ready, allocations)):  # on a busy machine for many minutes
        _begin()
        if _look() is Readiness.FAILED:
            raise EngineError(f"the compiled engine is not available: {_failure()}.")
        time.sleep(_LOOK_EVERY_S)


def discard() -> None:
    """Delete compiled code that cannot be loaded, so that a later compilation replaces it."""
    jit.forget()
    _known_ready.clear()
    _started.clear()
    _empty()


def _empty() -> None:
    folder = jit.cache_folder()
    for pattern in ("ready-*.json", "*/*.nbi", "*/*.nbc"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def _failure() -> str:
    return (
        "the compiler stopped, or the sources were edited since this program started; its "
        f"output is in {_log_file()}"
    )


def compilation_state() -> Compilation:
    """Return state, location and size of the compiled programs."""
    reason = jit.unavailable()
    if reason is not None:
        return Compilation(Readiness.UNAVAILABLE, None, reason=reason)
    folder = jit.cache_folder()
    readiness = _look()
    took_s = None
    if readiness is Readiness.READY:
        took_s = sum(_read(_ready_file(allocation)).get("took_s", 0.0) for allocation in AHEAD)
    elif readiness is Readiness.FAILED:
        reason = _failure()
    else:
        reason = jit.no_disk_cache_reason()
    return Compilation(readiness, folder, _size_bytes(folder), took_s, reason)


def other_caches() -> dict[Path, int]:
    """Return the folders of machine code of other versions, with their sizes in bytes."""
    if jit.unavailable() is not None:
        return {}
    here = jit.cache_folder()
    folders = (path for path in here.parent.glob("kernel-*") if path.is_dir() and path != here)
    return {folder: _size_bytes(folder) for folder in folders}


def remove_other_caches() -> int:
    """Delete the machine code of other versions and return the freed bytes.

    A version that is in use compiles its code again when necessary.
    """
    caches = other_caches()
    for folder in caches:
        shutil.rmtree(folder, ignore_errors=True)
    return sum(caches.values()) - sum(other_caches().values())


def _size_bytes(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process may be at it
            size += path.stat().st_size if path.is_file() else 0
    return size


def _look() -> Readiness:
    if _all_ready():
        return Readiness.READY
    ended = _started[-1].poll() if _started else None  # which also buries it
    if _started and ended is None:
        return Readiness.PREPARING
    if _is_alive(_busy_file()):
        return Readiness.PREPARING
    if ended is None:
        return Readiness.ABSENT
    if _all_ready():  # it came to its end between the two looks
        return Readiness.READY
    # Killed from outside: try again. Otherwise the compiler stopped by itself, or the sources have
    # been edited since this process read them, so that it compiled other ones.
    return Readiness.ABSENT if ended < 0 and len(_started) < _MOST_TRIES else Readiness.FAILED


def _all_ready() -> bool:
    return all(map(is_ready, AHEAD))


def _log_file() -> Path:
    return jit.cache_folder() / "compiling.log"


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        return content
    except (OSError, ValueError):
        return {}


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _is_alive(busy: Path) -> bool:
    """Return whether the process of a busy file lives.

    A young file counts if that is unknown: it is of another host, or was not written completely.
    """
    claim = _read(busy)
    if claim.get("host") == platform.node():
        return _is_running(claim)
    try:
        return time.time() - busy.stat().st_mtime < LONGEST_S
    except OSError:
        return False


def _is_running(claim: dict[str, Any]) -> bool:
    """Return whether the process of a claim on this host lives, and is no later one with its id."""
    import psutil  # only where another process compiles

    try:  # one that has ended but was not reaped yet compiles nothing
        process = psutil.Process(claim["process"])
        is_it = process.create_time() < claim["since_unix_s"] + _CLOCK_S
        return is_it and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _spawn() -> _Compiler:
    package = Path(__file__).resolve().parent.parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    variables = {"PYTHONPATH": path, "COPPERLINE_CACHE_DIR": str(jit.cache_folder().parent)}
    with _log_file().open("wb") as log:
        compiler = _Compiler(
            [sys.executable, "-c", "from sim.engines.compilation import main; main()"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, **variables},
            start_new_session=True,
        )
    if jit.no_disk_cache_reason() is not None:  # its work goes with this process, so it goes too
        atexit.register(_end, compiler)
    return compiler


def _end(compiler: _Compiler) -> None:
    """Kill a compiler, and return when it no longer writes."""
    compiler.kill()
    compiler.wait()


def main() -> None:
    """Compile all programs, unless another process does so, and mark them as complete."""
    busy = _busy_file()
    while not _claim(busy):
        if _all_ready() or _look() is Readiness.PREPARING:
            return
        busy.unlink(missing_ok=True)
    try:
        if any(_ready_file(kind).exists() and not is_ready(kind) for kind in AHEAD):
            _empty()
        for allocation in AHEAD:  # the first can be used while the others are compiled
            _prepare(allocation)
    finally:
        busy.unlink(missing_ok=True)


def _compile_here(allocation: Allocation) -> None:
    """Compile in this process what is not compiled ahead, or wait while another process does."""
    busy = jit.cache_folder() / f"busy-{allocation}.json"
    while not is_ready(allocation):
        if _claim(busy):
            try:
                _prepare(allocation)
            finally:
                busy.unlink(missing_ok=True)
        elif _is_alive(busy):
            time.sleep(_LOOK_EVERY_S)
        else:
            busy.unlink(missing_ok=True)


def _claim(busy: Path) -> bool:
    """Write the busy file of this process; return whether no other process had one."""
    try:
        with busy.open("x") as file:
            claim = {"process": os.getpid(), "host": platform.node()}
            json.dump({**claim, "since_unix_s": time.time()}, file)
    except FileExistsError:
        return False
    except OSError:  # the disk is full
        busy.unlink(missing_ok=True)
        raise
    return True


def _prepare(allocation: Allocation) -> None:
    from sim.engines.event_loop import compile_fleets, compile_programs

    before_s = time.perf_counter()
    if allocation == "instances":
        compile_fleets()
    else:
        compile_programs(allocation)
    took_s = time.perf_counter() - before_s
    ready = _ready_file(allocation)
    code = ready.parent.glob("*/*.nbc")
    files = {str(path.relative_to(ready.parent)): path.stat().st_size for path in code}
    content = {"took_s": took_s, "numba": jit.numba_version(), "files": files}
    write_atomically(ready, json.dumps(content), raises=OSError, sync=False)


_T = TypeVar("_T")


def load_or_recompile(fetch: Callable[[], _T], allocation: Allocation) -> _T:
    """Load compiled code with `fetch`; if the code on disk is damaged, recompile it once.

    Raises:
        EngineError: it cannot be compiled or loaded.
    """
    try:
        return fetch()
    except DamagedCodeError:
        discard()
        wait(allocation)
        return fetch()


def compile_now() -> None:
    """Compile all programs and check that they can be loaded, or raise `EngineError`."""
    wait()
    for allocation in AHEAD:
        load_or_recompile(partial(compile_programs, allocation), allocation)
    wait()
