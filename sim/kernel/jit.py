"""The only importer of Numba: one decorator, and a disk cache that never goes stale.

Numba's own cache looks at the file of a function and not at the files of what it calls. So the
folder of the cache is named after a digest of all kernel and policy sources, the versions of
Python, Numba and the processor, and the name is fixed before the first function is decorated.

With ``NUMBA_DISABLE_JIT=1`` the decorator returns the plain function. Where the cache folder
cannot be written the functions are compiled in every process; nothing else changes.
"""

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from llvmlite import binding as llvm  # type: ignore[import-untyped]
from numba.core import config as numba_config

_P = ParamSpec("_P")
_R = TypeVar("_R")

_config: Any = numba_config
_kernels: list[Any] = []


def cache_root(environment: dict[str, str] | None = None) -> Path:
    """Return the user's cache folder: $COPPERLINE_CACHE_DIR, or `copperline` under the XDG one."""
    told = dict(os.environ) if environment is None else environment
    if told.get("COPPERLINE_CACHE_DIR"):
        return Path(told["COPPERLINE_CACHE_DIR"])
    base = told.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "copperline"


def sources_digest(package: Path | None = None) -> str:
    """Return a digest of everything that decides what the compiled functions do.

    Args:
        package: the folder of `sim`; None is this one.
    """
    root = Path(__file__).resolve().parent.parent if package is None else package
    sha = hashlib.sha256()
    for told in (platform.python_version(), numba.__version__, llvm.get_host_cpu_name()):
        sha.update(told.encode() + b"\0")
    for path in sorted([*root.glob("kernel/*.py"), *root.glob("policies/*.py")]):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


ENABLED: bool = not _config.DISABLE_JIT
"""False when NUMBA_DISABLE_JIT asks for interpreted kernels."""


def _choose_cache_folder() -> Path | None:
    if not ENABLED:
        return None
    try:
        folder = cache_root() / f"kernel-{sources_digest()}"
    except (OSError, RuntimeError):  # no home folder, or sources inside an archive
        return None
    return folder if _writable(folder) else None


CACHE_FOLDER: Path | None = _choose_cache_folder()
"""Where compiled kernels are kept; None when they are not kept."""


def jit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a kernel function on its first call, and keep the machine code on disk."""
    if not ENABLED:
        return function
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(CACHE_FOLDER or before)
    try:
        compiled = numba.njit(cache=CACHE_FOLDER is not None)(function)
    finally:
        _config.CACHE_DIR = before
    _kernels.append(compiled)
    kernel: Callable[_P, _R] = compiled
    return kernel


def interpreted(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the plain Python text of a kernel function (what it calls may still be compiled)."""
    plain: Callable[_P, _R] = getattr(function, "py_func", function)
    return plain


def compile_needed() -> bool:
    """Tell whether a kernel function is neither in memory nor in the disk cache.

    What has been decorated so far is looked at one by one; before the policies are imported, an
    empty disk cache is the sign.
    """
    if not ENABLED:
        return False
    if not _kernels:
        return CACHE_FOLDER is None or not any(CACHE_FOLDER.glob("*/*.nbi"))
    return any(not kernel.signatures and not _on_disk(kernel) for kernel in _kernels)


def _on_disk(kernel: Any) -> bool:
    if CACHE_FOLDER is None:
        return False
    function = kernel.py_func
    stem = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}-"
    return any(path.name.startswith(stem) for path in CACHE_FOLDER.glob("*/*.nbi"))
