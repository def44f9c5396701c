"""What a generator has learnt or is told: numbers by name and arrays, kept as JSON and npz."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError, WorkloadError

FORMAT = "copperline-workload-model"
VERSION = 1
MOST_JSON_BYTES = 2**24
MOST_ARRAY_BYTES = 2**31
"""Unpacked, of all arrays of a model together."""

KINDS = "bifU"
"""Of numpy, that arrays of a model may have: truth values, whole and other numbers, texts."""

Json = Any
"""What JSON can say; the generator of the model checks it."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model of workloads, of one generator.

    Attributes:
        generator: its name.
        parameters: numbers, texts, lists and tables by name, as in JSON.
        arrays: read-only, by name; numbers or texts.
        source: one sentence for people: what it was fitted on, or where it was published.
    """

    generator: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", _told(self.parameters))
        kept = {}
        for name, array in sorted(self.arrays.items()):
            if array.dtype.kind not in KINDS:
                raise WorkloadError(f"array '{name}' of a model holds {array.dtype}, not numbers.")
            kept[name] = array.copy()
            kept[name].setflags(write=False)
        object.__setattr__(self, "arrays", kept)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of generator, parameters and arrays; the same on every machine."""
        sha = hashlib.sha256(f"{self.generator}\n{_text(self.parameters)}\n".encode())
        for name, array in self.arrays.items():
            little = array.astype(array.dtype.newbyteorder("<"))
            sha.update(f"{name} {little.dtype.str} {array.shape}\n".encode())
            sha.update(np.ascontiguousarray(little).tobytes())
        return sha.hexdigest()

    def told(self, parameters: Mapping[str, Json]) -> "Model":
        """Return the model with other values of some of its parameters.

        Raises:
            WorkloadError: it has no parameter of that name.
        """
        for name in parameters:
            if name not in self.parameters:
                known = ", ".join(sorted(self.parameters)) or "none"
                raise WorkloadError(
                    f"a model of '{self.generator}' has no parameter '{name}'; it has: {known}."
                )
        return replace(self, parameters={**self.parameters, **parameters})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def arrays_beside(path: Path) -> Path:
    """Return where the arrays of the model of a JSON file are: beside it, with the ending npz."""
    return path.with_suffix(".npz")


def save_model(model: Model, path: Path) -> None:
    """Write a model: JSON into `path`, arrays, if it has any, into an npz file beside it.

    Each file is there whole or not at all; the JSON, which names the digest, comes last.

    Raises:
        WorkloadError: the name does not end in .json, or the file cannot be written.
    """
    if path.suffix != ".json":
        raise WorkloadError(f"{path}: a model is written to a file whose name ends in .json.")
    told = {
        "format": FORMAT,
        "version": VERSION,
        "generator": model.generator,
        "source": model.source,
        "digest": model.digest,
        "parameters": model.parameters,
        "arrays": sorted(model.arrays),
    }
    try:
        if model.arrays:
            packed = io.BytesIO()
            np.savez_compressed(packed, allow_pickle=False, **dict(model.arrays))
            write_whole(arrays_beside(path), packed.getvalue())
        write_whole(path, (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written ({error.strerror}).") from None


def load_model(path: Path) -> Model:
    """Read a model that `save_model` wrote. Nothing in it is executed.

    Raises:
        TraceError: no such file, not a model, another version, or arrays that are not its own.
    """
    told = read_told(path, "model", FORMAT, VERSION)
    try:
        names, digest = told["arrays"], told["digest"]
        generator, parameters, source = told["generator"], told["parameters"], told["source"]
    except KeyError as error:
        raise TraceError(path, expected=f"there is no {error} in it; it is no model.") from None
    is_whole = (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(parameters, dict)
        and isinstance(generator, str)
        and isinstance(source, str)
    )
    if not is_whole:
        raise TraceError(path, expected="its entries are not those of a model.")
    model = Model(generator, parameters, _read_arrays(path, names) if names else {}, source)
    if model.digest != digest:
        beside = f" or {arrays_beside(path).name}" if names else ""
        expected = f"the digest is not that of what is in it; it{beside} was changed. Fit it again."
        raise TraceError(path, expected=expected)
    return model


def read_told(
    path: Path,
    what: str,
    form: str,
    version: int,
    pairs: Callable[[list[tuple[str, Json]]], dict[str, Json]] = dict,
) -> dict[str, Any]:
    """Read a JSON table that says of which format and version it is.

    Args:
        path: of the file.
        what: it is, for people.
        form: the ``format`` that it must say.
        version: the ``version`` that it must say.
        pairs: makes a table of its entries, and may refuse some with a ValueError.

    Raises:
        TraceError: no such file, too much of one, no JSON, another format or version.
    """
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise TraceError(path, expected=f"a {what} has at most {MOST_JSON_BYTES:,} bytes.")
        told = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, expected=f"it is no JSON ({error}).") from None
    if not isinstance(told, dict) or told.get("format") != form:
        raise TraceError(path, expected=f'it is no {what}; one says "format": "{form}".')
    if told.get("version") != version:
        expected = f"the {what} is of version {told.get('version')!r}; {version} is read."
        raise TraceError(path, expected=expected)
    return told


def _read_arrays(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    beside = arrays_beside(path)
    try:
        with zipfile.ZipFile(beside) as packed:
            unpacked = sum(one.file_size for one in packed.infolist())
        if unpacked > MOST_ARRAY_BYTES:
            raise TraceError(beside, expected=f"arrays have at most {MOST_ARRAY_BYTES:,} bytes.")
        with np.load(beside, allow_pickle=False) as found:
            return {name: found[name] for name in names}
    except KeyError as error:
        raise TraceError(beside, expected=f"an array of the model is missing: {error}.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        expected = f"the arrays of {path.name} cannot be read from it ({error})."
        raise TraceError(beside, expected=expected) from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _text(parameters: Mapping[str, Json]) -> str:
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _told(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """Return parameters as JSON would give them back. Raises WorkloadError if it cannot."""
    try:
        back: dict[str, Json] = json.loads(_text(parameters))
    except (TypeError, ValueError) as error:
        raise WorkloadError(
            f"the parameters of a model must be what JSON can say; {error}."
        ) from None
    return back
