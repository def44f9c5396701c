"""The only importer of Numba among the agents: the machine code of the compiled episode loop.

Kernel text is plain Python in the subset that Numba compiles, marked with `kernel`. `compiled`
returns a twin of it, and of every kernel function that it calls, from a folder under the user's
cache folder. Numba's own cache does not see edits in other files, so that folder is named after a
digest of all sources of this package and of the versions of Python, Numba and the processor. Where
it cannot be written, machine code goes with the process.

The simulator compiles its kernel the same way (`sim.kernel.jit`), and `COPPERLINE_CACHE_DIR` names
the cache folder of both; agents do not import the simulator.

Importing this module is cheap; Numba comes with the first compiled function.
"""

import hashlib
import os
import platform
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

_lock = threading.RLock()
_texts: set[Any] = set()
_twins: dict[FunctionType, Any] = {}


def kernel(function: _F) -> _F:
    """Mark a function as kernel text; it comes back unchanged."""
    _texts.add(function)
    return function


def compiled(function: Callable[..., Any]) -> Any:
    """Return the compiled twin of a kernel function; each set of types is compiled once and kept.

    It runs without Python's lock, so threads run it side by side.
    """
    with _lock:
        return _twin(function)  # type: ignore[arg-type]


def is_available() -> bool:
    """Return whether anything can be compiled here; NUMBA_DISABLE_JIT forbids it."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def sources_digest(package: Path | None = None) -> str:
    """Return a digest of everything that decides what the compiled functions do.

    Args:
        package: the folder with the kernel text; None is this one.
    """
    import numba

    sha = hashlib.sha256()
    for told in (platform.python_version(), str(numba.__version__), _processor()):
        sha.update(told.encode() + b"\0")
    for path in sorted((package or Path(__file__).resolve().parent).glob("*.py")):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return where machine code is kept; None where nothing can be written."""
    told = os.environ.get("COPPERLINE_CACHE_DIR")
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = Path(told).expanduser() if told else Path(base).expanduser() / "copperline"
        folder = root / f"episodes-{sources_digest()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None


def _processor() -> str:
    """Return what tells processors apart that cannot share machine code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    names = ("model name", "flags", "Features", "CPU part")
    return platform.machine() + "".join(sorted({s for s in lines if s.startswith(names)}))


def _twin(function: FunctionType) -> Any:
    """Return the dispatcher of a kernel function, whose callees are twins too."""
    if function not in _twins:
        import numba
        from numba.core import config

        told: Any = config
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(other := names.get(name), FunctionType) and other in _texts:
                names[name] = _twin(other)
        twin = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        folder, before = cache_folder(), told.CACHE_DIR
        told.CACHE_DIR = str(folder or before)
        try:
            _twins[function] = numba.njit(cache=folder is not None, nogil=True)(twin)
        finally:
            told.CACHE_DIR = before
    return _twins[function]
