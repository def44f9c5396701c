"""Lists of machines: a table of comma-separated values with a row per kind, or TOML.

Both know the same names, see `MACHINE_COLUMNS`; ``label:KEY`` is the label of that name (in TOML
also ``labels = {KEY = "..."}``). The node lists of Alibaba's openb (Weng et al., USENIX ATC 2023:
``sn,cpu_milli,memory_mib,gpu,model``) are read as they are.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ClusterError, TraceError
from sim.model.cluster import MachineSpec
from sim.traces.csv_table import read_csv
from sim.traces.lines import lines_of
from sim.traces.openb import GPU_MODEL
from sim.traces.swf_text import MOST, NUMBER

LABEL = "label:"
MACHINE_COLUMNS: Mapping[str, str] = {
    "name": "of the machine, or of the kind if there are several; sn is the same",
    "count": "how many there are, 1 if not told",
    "cores": "whole cores of each; cpu_milli is the same in thousandths",
    "mem_gib": "memory of each, no limit if not told; memory_mib is the same in MiB",
    "gpus": "GPUs of each, 0 if not told; gpu is the same",
    "gpu_resource": "name under which its GPUs are asked for",
    "disk_gib": "disk of each, no limit if not told",
    "cpu_throttle": "share of full speed of its processors, 1 if not told",
    "gpu_throttle": "share of full speed of its GPUs, 1 if not told",
    "model": f"of its GPUs, as the label {GPU_MODEL} that openb's pods demand",
}
"""What a list can tell of machines."""

_SAME = {"sn": "name", "cpu_milli": "cores", "memory_mib": "mem_gib", "gpu": "gpus"}
_TEXTS = ("name", "sn", "gpu_resource", "model")
_KNOWN = (*MACHINE_COLUMNS, *_SAME)
_GIBIBYTE, _MEBIBYTE, _MILLI = 2**30, 2**20, 1000

Refusal = Callable[[str, str, str], TraceError]
"""(name, value, what is allowed) to the error."""


@dataclass(frozen=True)
class _Row:
    """What a file tells of machines of one kind: texts by name, and how to refuse one of them."""

    told: Mapping[str, str]
    refuse: Refusal
    line: int | None

    def number(self, name: str, *, whole: bool) -> float | None:
        """Return a number from 0; None if it is not told."""
        text = self.told.get(name, "")
        if not text:
            return None
        value = float(text) if NUMBER.fullmatch(text) else np.nan
        if not 0 <= value <= MOST or (whole and value != np.floor(value)):
            kind = "whole numbers" if whole else "finite numbers"
            raise self.refuse(name, text, f"allowed are {kind} from 0 to 2**53.")
        return value

    def whole(self, name: str) -> int | None:
        """Return a whole number from 0; None if it is not told."""
        value = self.number(name, whole=True)
        return None if value is None else int(value)

    def size(self, name: str, unit: int) -> int | None:
        """Return a size in bytes; None if it is not told."""
        value = self.number(name, whole=False)
        return None if value is None else round(value * unit)


def read_machines(path: str | PathLike[str]) -> tuple[MachineSpec, ...]:
    """Read a list of machines, in its order: TOML if its name ends in .toml, else CSV (also .gz).

    Raises:
        TraceError: file, line, name, value and what is allowed.
    """
    file = Path(path)
    specs: list[MachineSpec] = []
    seen: set[str] = set()
    for row in _of_toml(file) if file.suffix.lower() == ".toml" else _of_csv(file):
        spec = _spec(file, row)
        if spec.name in seen:
            expected = f"two rows are called {spec.name!r}; names must be unique."
            raise TraceError(file, line=row.line, expected=expected)
        seen.add(spec.name)
        specs.append(spec)
    return tuple(specs)


def _spec(path: Path, row: _Row) -> MachineSpec:
    cores = row.whole("cores")
    milli = row.whole("cpu_milli")
    if milli is not None:
        if milli % _MILLI:
            expected = "machines have whole cores; allowed are multiples of 1000."
            raise row.refuse("cpu_milli", row.told["cpu_milli"], expected)
        cores = milli // _MILLI
    if cores is None:
        raise row.refuse("cores", "", "say how many cores the machine has (cores, or cpu_milli).")
    memory = row.size("memory_mib", _MEBIBYTE)
    labels = {
        key.removeprefix(LABEL): text
        for key, text in row.told.items()
        if key.startswith(LABEL) and text
    }
    if row.told.get("model"):
        labels[GPU_MODEL] = row.told["model"]
    more: dict[str, Any] = {
        "count": row.whole("count"),
        "gpus": row.whole("gpus") if row.told.get("gpus") else row.whole("gpu"),
        "gpu_resource": row.told.get("gpu_resource") or None,
        "cpu_throttle": row.number("cpu_throttle", whole=False),
        "gpu_throttle": row.number("gpu_throttle", whole=False),
    }
    try:
        return MachineSpec(
            row.told.get("name") or row.told.get("sn", ""),
            cores,
            mem_bytes=row.size("mem_gib", _GIBIBYTE) if memory is None else memory,
            disk_bytes=row.size("disk_gib", _GIBIBYTE),
            labels=labels,
            **{name: value for name, value in more.items() if value is not None},
        )
    except ClusterError as error:
        raise TraceError(path, line=row.line, expected=str(error)) from None


def _of_csv(path: Path) -> Iterator[_Row]:
    table = read_csv(path, {name: name for name in _KNOWN})
    _check_names(path, table.header, 1)
    for row, line in zip(table.rows, table.line_numbers, strict=True):
        told = {key: text.strip() for key, text in zip(table.header, row, strict=True)}

        def refuse(name: str, value: str, expected: str, line: int = line) -> TraceError:
            return TraceError(path, line=line, field=name, value=value, expected=expected)

        yield _Row(told, refuse, line)


def _of_toml(path: Path) -> Iterator[_Row]:
    try:
        text = b"".join(line for _, line in lines_of(path, "a list of machines")).decode("utf-8")
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise TraceError(path, expected=f"it is not UTF-8 ({error.reason}); convert it.") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, expected=f"it is not TOML: {error}.") from None
    machines = tables.get("machine")
    if set(tables) != {"machine"} or not isinstance(machines, list) or not machines:
        expected = "allowed are tables [[machine]], one or more, and nothing beside them."
        raise TraceError(path, expected=expected)
    for number, table in enumerate(machines, start=1):

        def refuse(name: str, value: str, expected: str, number: int = number) -> TraceError:
            field = f"machine {number}: {name}"
            return TraceError(path, field=field, value=value, expected=expected)

        if not isinstance(table, dict):
            raise refuse("it", repr(table), "allowed are tables [[machine]].")
        yield _Row(_texts(path, table, refuse), refuse, None)


def _texts(path: Path, table: Mapping[str, Any], refuse: Refusal) -> dict[str, str]:
    """Return the values of a table of TOML as texts."""
    flat = dict(table)
    labels = flat.pop("labels", {})
    if not isinstance(labels, dict):
        raise refuse("labels", repr(labels), 'allowed is a table, such as {zone = "a"}.')
    flat |= {f"{LABEL}{key}": value for key, value in labels.items()}
    _check_names(path, tuple(flat), None)
    told = {}
    for name, value in flat.items():
        is_text = name in _TEXTS or name.startswith(LABEL)
        if is_text and not isinstance(value, str):
            raise refuse(name, repr(value), "allowed are texts.")
        if not is_text and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise refuse(name, repr(value), "allowed are numbers.")
        told[name] = value.strip() if isinstance(value, str) else _shown(value)
    return told


def _shown(value: float) -> str:
    """Return a number as text; what is too large to be allowed as one that is refused."""
    return str(value) if abs(value) <= MOST else "inf"


def _check_names(path: Path, names: tuple[str, ...], line: int | None) -> None:
    """Refuse names that nobody knows, and two names for the same."""
    for name in names:
        if name not in _KNOWN and not (name.startswith(LABEL) and name != LABEL):
            expected = f"it is not known; allowed are {', '.join(_KNOWN)} and {LABEL}KEY."
            raise TraceError(path, line=line, field=f"'{name}'", expected=expected)
        if _SAME.get(name) in names:
            expected = f"it says the same as {_SAME[name]}; leave one of them out."
            raise TraceError(path, line=line, field=f"'{name}'", expected=expected)
    for first, second in (("name", "sn"), ("cores", "cpu_milli")):
        if first not in names and second not in names:
            expected = f"it tells no {first} of machines; it is called {first}, or {second}."
            raise TraceError(path, line=line, expected=expected)
