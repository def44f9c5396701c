"""Kernel functions, their compiled twins, and the disk cache of machine code.

A kernel function is plain Python in the subset that Numba compiles, marked with `kernel`. Python
runs it over lists and objects (`sim.kernel.records.interpretable`); its twin is compiled from the
same text for arrays, so the two agree.

Numba's own cache checks the file of a function but not the files of its callees. Therefore the
cache folder is named after a digest of all kernel, policy and engine sources and of the versions of
Python, Numba and the processor. It lies in the user's cache folder; if that is not writable, this
process uses and later removes a temporary copy. Numba is imported with the first compiled function.
"""

import atexit
import hashlib
import os
import pickle
import platform
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard, TypeVar

import numpy as np

from sim.model.errors import DamagedCodeError, EngineError

_F = TypeVar("_F", bound=Callable[..., Any])

_texts: set[Any] = set()
_noinline: set[Any] = set()


def kernel(function: _F) -> _F:
    """Mark a function as compilable by Numba and return it unchanged."""
    _texts.add(function)
    return function


def noinline(function: _F) -> _F:
    """Mark a kernel function as not to be inlined and return it unchanged.

    Its machine code exists once instead of at every call, which takes less time to compile.
    """
    _noinline.add(function)
    return function


def is_noinline(function: object) -> bool:
    """Return whether a function is marked with `noinline`."""
    return function in _noinline


def is_kernel(value: object) -> TypeGuard[FunctionType]:
    """Return whether a value is a kernel function."""
    return isinstance(value, FunctionType) and value in _texts


def called_by(function: FunctionType) -> dict[str, FunctionType]:
    """Return the kernel functions that a kernel function calls, by their global names."""
    globals_used = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    return {name: value for name, value in globals_used if is_kernel(value)}


def bound(function: _F, variant: str, **names: Callable[..., Any]) -> _F:
    """Return a copy of a kernel function in which certain callees are replaced.

    `variant` becomes part of the new function's name, which also separates its machine code.
    """
    if not isinstance(function, FunctionType):
        raise TypeError("only kernel functions can be bound")
    unknown = set(names) - set(called_by(function))
    if unknown:
        raise TypeError(f"{function.__name__} calls no kernel function {sorted(unknown)}")
    name = f"{function.__name__}_{variant}"
    other = FunctionType(
        function.__code__, function.__globals__ | names, name, function.__defaults__
    )
    other.__qualname__ = name
    other.__module__, other.__doc__ = function.__module__, function.__doc__
    return kernel(other)  # type: ignore[return-value]


_LOADING_ERRORS = (
    pickle.PickleError, EOFError, OSError, AttributeError, ImportError, IndexError, KeyError,
    UnicodeError, ValueError,
)  # fmt: skip
"""Errors that Numba raises for incomplete files of its cache."""

_lock = threading.RLock()
_twins: dict[FunctionType, Any] = {}


def cache_root(environment: dict[str, str] | None = None) -> Path:
    """Return the user's cache folder: $COPPERLINE_CACHE_DIR or the XDG default.

    Raises:
        RuntimeError: there is no home folder.
    """
    variables = dict(os.environ) if environment is None else environment
    if variables.get("COPPERLINE_CACHE_DIR"):
        return Path(variables["COPPERLINE_CACHE_DIR"]).expanduser()
    base = variables.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "copperline"


def sources_digest(package: Path | None = None) -> str:
    """Return a digest of all sources and versions that affect the compiled functions."""
    sha = hashlib.sha256()
    for text in (platform.python_version(), numba_version() or "no numba", _processor()):
        sha.update(text.encode() + b"\0")
    for path in kernel_sources(package):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def kernel_sources(package: Path | None = None) -> list[Path]:
    """Return the paths of all source files that may contain kernel functions."""
    root = Path(__file__).resolve().parent.parent if package is None else package
    return sorted(
        path for room in ("kernel", "policies", "engines") for path in root.glob(f"{room}/**/*.py")
    )


@cache
def numba_version() -> str | None:
    """Return the installed Numba version without importing Numba, or None."""
    try:
        return version("numba")
    except PackageNotFoundError:
        return None


@cache
def _processor() -> str:
    """Return a text that distinguishes processors that cannot share machine code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    features = {
        line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
    }
    return platform.machine() + "".join(sorted(features))


def unavailable() -> str | None:
    """Return the reason why Numba cannot compile functions here, or None if it can."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT is set; unset it to compile"
    if numba_version() is None:
        return "Numba is not installed; install it with: pip install numba"
    return None


def cache_folder() -> Path:
    """Return the folder in which this process stores compiled machine code."""
    return _cache()[0]


def no_disk_cache_reason() -> str | None:
    """Return why machine code is not stored on disk, as a sentence, or None if it is."""
    return _cache()[1]


@cache
def _cache() -> tuple[Path, str | None]:
    name = f"kernel-{sources_digest()}"
    try:
        folder = cache_root() / name
        if _writable(folder):
            return folder, None
        because = f"'{folder.parent}' cannot be written, so compiled code is not stored"
    except RuntimeError:
        folder, because = Path(os.devnull), "there is no home folder to store compiled code"
    temporary = Path(tempfile.mkdtemp(prefix="copperline-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    if folder.is_dir():
        shutil.copytree(folder, temporary / name)
    else:
        (temporary / name).mkdir()
    return temporary / name, f"{because}; name another folder with COPPERLINE_CACHE_DIR"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def compiled(function: Callable[..., Any], *examples: Any, returns: Any = None) -> Any:
    """Compile a kernel function for the types of the example arguments, or load it.

    It is loaded from the disk cache, or compiled now and stored there. It runs without Python's
    lock, so threads run it in parallel.

    Args:
        function: a kernel function.
        examples: one argument for each parameter. A `Compiled` decision stands for every decision
            of the same signature, so that one loop serves all policies (an ordinary argument would
            be compiled into the loop, and no process could use the machine code of another).
        returns: example of the return value, if the function is passed as an argument.

    Raises:
        EngineError: there is no compiler.
        DamagedCodeError: the disk cache holds something that cannot be loaded.
    """
    reason = unavailable()
    if reason is not None:
        raise EngineError(f"nothing can be compiled: {reason}.")
    with _lock:
        twin = _twin(function)  # type: ignore[arg-type]
        types = tuple(map(_type_of, examples))
        if types not in twin.signatures:
            _compile(twin, types if returns is None else _type_of(returns)(*types))
        return twin


def _compile(twin: Any, signature: Any) -> None:
    """Compile a dispatcher for a signature, or load its machine code.

    From here on its calls use the existing code. Otherwise Numba would compile a loop for each
    policy argument, and could not find that one on disk again.
    """
    twin.disable_compile(False)
    try:
        twin.compile(signature)
    except _LOADING_ERRORS as error:
        raise DamagedCodeError(
            f"the compiled code in {cache_folder()} cannot be loaded "
            f"({type(error).__name__}); run copperline doctor --compile."
        ) from error
    twin.disable_compile()


def first_class(twin: Any) -> Any:
    """Return the Numba type of a compiled function, for passing it as an argument."""
    import numba

    return numba.types.FunctionType(twin.nopython_signatures[0])


class NativeArguments:
    """Leading arguments of compiled functions, converted once for many calls.

    Numba converts every argument at every call: it takes 4 us for a pool, and 40 us for a function,
    whose address is looked up. Here the arguments lie in memory in the form that machine code uses,
    and a call gets their address. That is safe because compiled functions count no references
    (`_HOW`): arrays in memory hold none.

    Args:
        layout: types of the arguments.
        values: one value for each type of the layout. They must not be replaced later, but arrays
            among them may change. Other native arguments stand for their address, an integer.

    Attributes:
        address: where they lie, while this object exists.
    """

    def __init__(self, layout: "NativeLayout", values: tuple[Any, ...]) -> None:
        self._values = values  # the memory refers to their arrays
        self._memory = np.zeros(layout.n_bytes, dtype=np.uint8)
        self.address: int = self._memory.ctypes.data
        parts = (v.address if isinstance(v, NativeArguments) else v for v in values)
        layout.store(self.address, tuple(parts))

    def bind(self, twin: Any) -> Callable[..., Any]:
        """Return a function of `NativeLayout.compiled` with its leading arguments filled in."""
        function: Any = partial(twin, self.address)
        function.arguments = self  # so that the memory lives as long
        return function  # type: ignore[no-any-return]


class NativeLayout:
    """Types of leading arguments that lie in memory; see `NativeArguments`.

    Args:
        name: part of the names of the functions, which separates their machine code.
        examples: one example or Numba type of each argument.
    """

    def __init__(self, name: str, *examples: Any) -> None:
        import numba

        self._name, self._kinds = name, tuple(map(_type_of, examples))
        numba_types: Any = numba.types
        self._whole = numba_types.Tuple(self._kinds)
        self.store = _explicit(
            _stored, f"store_{name}", (numba.types.int64, self._whole), _put=_putter()
        )

    @cached_property
    def n_bytes(self) -> int:
        """Return the size of the arguments in memory, for which LLVM takes 0.1 ms."""
        from numba.core.registry import cpu_target

        context: Any = cpu_target.target_context
        size: int = context.get_abi_sizeof(context.get_value_type(self._whole))
        return size

    def compiled(
        self,
        function: Callable[..., Any],
        leading: tuple[int, ...],
        *examples: Any,
        returns: Any = None,
    ) -> Any:
        """Compile a kernel function that finds its leading arguments in memory, or load it.

        Args:
            function: a kernel function.
            leading: positions of its leading arguments in the layout.
            examples: one example for each of the other arguments, 1 to 3 of them.
            returns: example of the return value, if the function is passed as an argument.

        Returns:
            A compiled function whose first argument is the address of the leading ones.

        Raises:
            EngineError: there is no compiler.
            DamagedCodeError: the disk cache holds something that cannot be loaded.
        """
        import numba

        twin = compiled(function, *(self._kinds[i] for i in leading), *examples, returns=returns)
        text = (_with_one, _with_two, _with_three)[len(examples) - 1]
        types = (numba.types.int64, *map(_type_of, examples))
        name = f"{function.__name__}_at_{self._name}"
        is_cached = _is_of_package(function)  # type: ignore[arg-type]
        names = {"_call": twin, "_found": self._finder(leading)}
        return _explicit(text, name, types, returns, is_cached=is_cached, **names)

    def _finder(self, leading: tuple[int, ...]) -> Any:
        """Return the Numba function from an address to a tuple of arguments stored there."""
        import numba
        from numba.extending import intrinsic

        types: Any = numba.types
        whole, part = self._whole, types.Tuple([self._kinds[i] for i in leading])

        def found(_typing: Any, _address: Any) -> Any:
            def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                pointer = context.get_value_type(whole).as_pointer()
                values = builder.load(builder.inttoptr(arguments[0], pointer))
                picked = [builder.extract_value(values, i) for i in leading]
                return context.make_tuple(builder, part, picked)

            return part(types.int64), code

        return intrinsic(found)


def _putter() -> Any:
    """Return the Numba function that stores a value at an address."""
    from numba import types
    from numba.extending import intrinsic

    def put(_typing: Any, _address: Any, value: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, stored = arguments
            builder.store(stored, builder.inttoptr(address, stored.type.as_pointer()))

        return types.void(types.int64, value), code

    return intrinsic(put)


def _put(_address: int, _values: Any) -> None:
    """Serve as a placeholder for the function that stores values at an address."""


def _found(_address: int) -> tuple[Any, ...]:
    """Serve as a placeholder for the function that reads leading arguments at an address."""
    return ()


def _call(*_arguments: Any) -> Any:
    """Serve as a placeholder for the function that is called."""


def _stored(address: int, values: Any) -> None:
    _put(address, values)


def _with_one(address: int, a: Any) -> Any:
    return _call(*(_found(address) + (a,)))  # noqa: RUF005 - Numba adds tuples


def _with_two(address: int, a: Any, b: Any) -> Any:
    return _call(*(_found(address) + (a, b)))  # noqa: RUF005


def _with_three(address: int, a: Any, b: Any, c: Any) -> Any:
    return _call(*(_found(address) + (a, b, c)))  # noqa: RUF005


def _explicit(
    text: Callable[..., Any], name: str, types: tuple[Any, ...], returns: Any = None, *,
    is_cached: bool = True, **names: Any,
) -> Any:  # fmt: skip
    """Compile a copy of a text, in which names are replaced, for the given types, or load it."""
    with _lock:
        twin = _dispatcher(text, name, names, cache=is_cached, forceinline=False)  # type: ignore[arg-type]
        _compile(twin, types if returns is None else _type_of(returns)(*types))
        return twin


def forget() -> None:
    """Drop this process's compiled functions, so that they are loaded again."""
    with _lock:
        _twins.clear()


def _type_of(example: Any) -> Any:
    import numba

    numba_module: Any = numba
    return example if isinstance(example, numba_module.types.Type) else numba_module.typeof(example)


_HOW: dict[str, Any] = {"nogil": True, "_nrt": False}
"""Options of Numba.

Kernel functions allocate nothing and the caller holds their arguments, so no reference counts are
needed; counting them took two thirds of the time."""


def _is_of_package(function: FunctionType) -> bool:
    """Return whether a kernel function and all its callees belong to this package.

    The name of the cache folder does not cover other sources, so the machine code of a user's own
    rule would be stale after an edit: it is compiled in every process.
    """
    root = Path(__file__).resolve().parent.parent
    is_here = Path(function.__code__.co_filename).resolve().is_relative_to(root)
    return is_here and all(map(_is_of_package, called_by(function).values()))


def _twin(function: FunctionType) -> Any:
    """Return the dispatcher of a kernel function, whose callees are twins too."""
    if function not in _twins:
        callees = {name: _twin(other) for name, other in called_by(function).items()}
        _twins[function] = _dispatcher(
            function,
            function.__qualname__,
            callees,
            cache=_is_of_package(function),
            forceinline=not is_noinline(function),
        )
    return _twins[function]


def _dispatcher(
    function: FunctionType, name: str, replaced: dict[str, Any], **options: bool
) -> Any:
    """Return the Numba dispatcher of a copy of a function with other global names."""
    import numba
    from numba.core import config

    settings: Any = config
    njit: Any = numba.njit
    names = function.__globals__ | replaced
    twin = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    twin.__qualname__, twin.__module__ = name, function.__module__
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_folder())
    try:
        return njit(**_HOW, **options)(twin)
    finally:
        settings.CACHE_DIR = before
