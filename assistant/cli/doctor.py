"""``copperline doctor``: what is installed, where things are kept, and whether they work."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.cli.console import OUT, Json, StoreOption, print_json, say, store_path
from assistant.errors import AssistantError
from assistant.files import is_file
from assistant.service.auth import read_tokens, tokens_path
from assistant.service.endpoint import find
from assistant.service.token_book import TokenBook, book_path
from assistant.starting import version
from assistant.store.copies import examine
from assistant.store.place import refuse_network_file_system
from sim.api import (
    Compilation,
    Readiness,
    compilation,
    other_caches,
    remove_other_caches,
    wait_for_compiler,
)

PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "simpy", "streamlit")

_SLOWER = (Readiness.FAILED, Readiness.UNAVAILABLE)

_WAYS_OUT = {
    Readiness.ABSENT: "the first simulation starts it; copperline doctor --compile does it now",
    Readiness.PREPARING: "simulations take the slower way meanwhile and give the same",
    Readiness.FAILED: "simulations take the slower way and give the same; "
    "copperline doctor --compile tries again",
    Readiness.UNAVAILABLE: "simulations take the slower way and give the same",
}


def doctor(
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the simulator now, and wait for it.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove compiled code of other versions.")
    ] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Say what is installed, where compiled code and experiments are kept, and what is wrong.

    The exit code is 0 if all is well or will be by itself, and 1 if the simulator cannot be
    compiled here, what is compiled cannot be kept, or the store or its tokens are damaged.
    """
    if compile_now:
        if not as_json and compilation().readiness is not Readiness.READY:
            say("compiling the simulator ...")
        wait_for_compiler()
    n_removed_bytes = remove_other_caches() if clean else 0
    told = compilation()
    others = other_caches()
    kept = store_path(store)
    found = _store(kept)
    is_well = told.reason is None and not found["faults"]
    if as_json:
        print_json(
            {
                "copperline": version(),
                "python": platform.python_version(),
                "packages": _packages(),
                "cores": os.cpu_count(),
                "compiled_code": _described(told),
                "other_versions": {str(path): size for path, size in others.items()},
                "removed_bytes": n_removed_bytes,
                "store": {"path": str(kept.absolute()), "size_bytes": _size(kept), **found},
            }
        )
        return 0 if is_well else 1
    _line("Copperline", f"{version()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    _line("Packages", ", ".join(f"{name} {told or '-'}" for name, told in _packages().items()))
    _line("Compiled code", _sentence(told))
    if told.folder is not None:
        _line("", f"{told.folder}, {_mb(told.size_bytes)}")
    if clean:
        _line("Other versions", f"{_mb(n_removed_bytes)} of compiled code removed")
    elif others:
        size = _mb(sum(others.values()))
        _line("Other versions", f"{size} of compiled code; copperline doctor --clean removes it")
    size_bytes = _size(kept)
    state = "not there yet" if size_bytes is None else _mb(size_bytes)
    _line("Experiments", f"{kept.absolute()}, {state}")
    if found["experiments"] is not None:
        _line("", f"{found['experiments']} experiments, {found['events']} events")
    for fault in found["faults"]:
        _line("", f"wrong: {fault}")
    _line("Service", found["service"] or "none runs; copperline serve starts one")
    if found["tokens"] is not None:
        _line("Tokens", _tokens(found["tokens"]))
    return 0 if is_well else 1


def _store(path: Path) -> dict[str, Any]:
    """Return what a look at the store, its tokens and its service found."""
    told: dict[str, Any] = {
        "experiments": None, "events": None, "faults": [], "service": None, "tokens": None,
    }  # fmt: skip
    try:
        refuse_network_file_system(path)
        if path.is_file():
            health = examine(path)
            told["experiments"], told["events"] = health.experiments, health.events
            told["faults"] += health.faults
        book = TokenBook(book_path(path))
        over = [one.name for one in book.holders() if one.is_over(book.now_s())]
        told["tokens"] = {"names": [one.name for one in book.holders()], "over": over}
        read_tokens(tokens_path(path))
        endpoint = find(path) if path.exists() else None
        if endpoint is not None:
            told["service"] = f"{endpoint.url}, process {endpoint.pid}"
    except AssistantError as error:
        told["faults"].append(str(error))
    return told


def _tokens(told: Mapping[str, list[str]]) -> str:
    names, over = told["names"], told["over"]
    if not names:
        return "none has a name; copperline token make NAME hands one out"
    end = f", {len(over)} over; copperline token revoke clears them away" if over else ""
    return f"{len(names)} with names{end}"


def _line(label: str, text: str) -> None:
    OUT.print(f"{label:<15}{text}", soft_wrap=True)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _packages() -> dict[str, str | None]:
    return {name: _installed(name) for name in PACKAGES}


def _installed(name: str) -> str | None:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return None


def _size(path: Path) -> int | None:
    return path.stat().st_size if is_file(path) else None


def _sentence(told: Compilation) -> str:
    parts = [str(told.readiness)]
    if told.took_s is not None:
        parts.append(f"took {told.took_s:.1f} s once")
    if told.reason is not None:
        parts.append(told.reason)
    if told.readiness in _WAYS_OUT and (told.reason is None or told.readiness in _SLOWER):
        parts.append(_WAYS_OUT[told.readiness])
    return "; ".join(parts)


def _described(told: Compilation) -> dict[str, Any]:
    return {
        "readiness": str(told.readiness),
        "folder": None if told.folder is None else str(told.folder),
        "size_bytes": told.size_bytes,
        "took_s": told.took_s,
        "reason": told.reason,
    }
