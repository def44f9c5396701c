"""Generated workloads: load and change models; write, read and compare workloads."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assistant.core.errors import SettingsError
from sim.api import (
    ReadingRules,
    SimError,
    Workload,
    WorkloadError,
    format_of,
    load_workload,
    write_workload,
)
from sim.formats import FORMATS, format_by_name, is_cloud_trace, read_cloud_trace, roundtrip_losses
from sim.generators import (
    DEFINITIONS,
    Distance,
    Model,
    Quantity,
    WorkloadComparison,
    load_model,
    published_model,
    registered_generators,
)
from sim.generators.cloud import CloudWindows, cloud_knobs, cloud_windows, cloud_windows_of_traces

_KEPT = ReadingRules(never_ran="keep_zero", partial_executions="keep")
"""Rules that keep every job when a file that was just written is read back."""

_COLUMNS = {
    "interarrival_s": "time between submissions",
    "runtime_s": "run time",
    "procs": "processors",
    "requested_s": "requested time",
}
_METRICS = {
    "ks": "KS distance",
    "wasserstein": "Wasserstein distance",
    "total_variation": "total variation",
}
_VERDICTS = {"alike": "alike", "differs": "differs", "unknown": "not judged"}
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One row of texts in the table that compares two workloads; an unknown cell is empty."""

    quantity: str
    one: str
    two: str
    value: str
    interval: str
    usual: str
    verdict: str


def model_of(source: str) -> Model:
    """Load a workload model from a file or by the name of its generator. Raises SimError."""
    if source in (generator.name for generator in registered_generators()):
        return published_model(source)
    if source.endswith(".json") or Path(source).exists():
        return load_model(Path(source))
    return published_model(source)  # raises an error that lists the generators


def with_parameters(model: Model, settings: Mapping[str, Any]) -> Model:
    """Return a copy of a workload model with changed values of the given parameters.

    Args:
        model: model to change.
        settings: values by name; ``batch.serial_prob`` is an entry of a table, ``hours.3`` of a
            list (counted from 0).

    Raises:
        SimError: the model has no parameter of that name.
        SettingsError: the parameter has no such entry.
    """
    for name, value in settings.items():
        first, *path = name.split(".")
        if first in model.parameters and path:
            nested = json.loads(json.dumps(model.parameters[first]))
            _put(nested, path, value, name)
            model = model.with_parameters({first: nested})
        else:
            model = model.with_parameters({name: value})
    return model


def setting_of(text: str, option: str) -> tuple[str, Any]:
    """Parse ``name=value`` into name and value, which is JSON or else plain text.

    >>> setting_of("scale=2", "--set"), setting_of("kind=both", "--set")
    (('scale', 2), ('kind', 'both'))

    Raises:
        SettingsError: the text does not have this form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"{option} '{text[:_LONGEST]}' is not of the form name=value")
    try:
        return name.strip(), json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return name.strip(), value.strip()


def settings_of(texts: Iterable[str], option: str) -> dict[str, Any]:
    """Parse ``name=value`` texts into settings. Raises SettingsError if bad or repeated."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, value = setting_of(text, option)
        if name in settings:
            raise SettingsError(f"{option} gives '{name}' twice; give it once")
        settings[name] = value
    return settings


def knobs_of(texts: Iterable[str], option: str = "--knob") -> dict[str, float | str]:
    """Parse ``name=value`` texts into settings of a model fit. Raises SettingsError."""
    settings = settings_of(texts, option)
    for name, value in settings.items():
        if not isinstance(value, int | float | str):
            raise SettingsError(f"{option} {name} is {value!r}; allowed are numbers and names")
    return {
        name: value if isinstance(value, str) else float(value) for name, value in settings.items()
    }


def has_rules(path: Path) -> bool:
    """Return whether reading rules apply to the format of a file. Raises SimError."""
    return format_of(path).has_rules


def task_words(workload: Workload) -> tuple[str, ...]:
    """Return sentences on the tasks of a workload, or () if its jobs have no tasks."""
    tasks = workload.tasks
    if tasks is None:
        return ()
    with_gpus = np.unique(tasks.job[tasks.mgpu > 0])
    gpus = float((tasks.instances * tasks.mgpu).sum()) / 1000.0
    gangs = np.unique(tasks.job[tasks.gang > 0])
    first = (
        f"The jobs consist of {tasks.n_tasks:,} tasks with {int(tasks.instances.sum()):,} instances"
    )
    if not len(with_gpus):
        return (f"{first}; none takes a GPU.",)
    share = len(with_gpus) / workload.n_jobs
    take = f"{share:.0%} of the jobs take {gpus:,.0f} GPUs together"
    return (f"{first}; {take}, and {len(gangs):,} compute only with all instances at once.",)


def omitted_parts(workload: Workload, path: Path) -> tuple[str, ...]:
    """Return sentences on the parts of a workload that a file format cannot store."""
    if workload.tasks is None:
        return ()
    written = format_by_name(path)
    if written.holds != "jobs":
        n_parents = len(workload.tasks.parent_task)
        if not n_parents or written.holds == "dependencies":
            return ()
        return (f"The {n_parents:,} dependencies between tasks are not in the file.",)
    sentence = (
        f"The {workload.tasks.n_tasks:,} tasks of the jobs are not in the file (machines, GPUs, "
        "work): {written.title} cannot store them; write .jsonl instead."
    )
    return (sentence,)


def write_and_compare(workload: Workload, path: Path) -> tuple[str, ...]:
    """Write a workload, read the file back, and return what was lost. Raises SimError."""
    write_workload(workload, path)
    try:
        return roundtrip_losses(workload, read_drawn(path))
    except SimError as error:
        return (f"The file was written, but cannot be read back: {error}",)


def writable_endings() -> tuple[str, ...]:
    """Return one file ending for each format in which a workload can be written."""
    return tuple(log_format.endings[0] for log_format in FORMATS if log_format.write is not None)


def with_ending(workload: Workload, path: Path) -> Path:
    """Add a file ending that suits the workload to a path without an ending.

    JSONL if the jobs have tasks, which SWF cannot store; else SWF, because JSONL cannot store users
    and requests.
    """
    if path.suffix:
        return path
    return path.with_name(f"{path.name}{'.swf' if workload.tasks is None else '.jsonl'}")


def read_drawn(path: Path) -> Workload:
    """Read all jobs back from a just written workload file. Raises SimError on failure."""
    return load_workload(path, rules=_KEPT if has_rules(path) else None)


def as_bytes(workload: Workload, ending: str, folder: Path) -> bytes:
    """Return a workload in the file format of an ending such as ``.swf``. Raises SimError."""
    path = folder / f"workload{ending}"
    write_workload(workload, path)
    return path.read_bytes()


def abbreviated_value(value: Any, longest: int = _LONGEST) -> str:
    """Return a parameter value as one line of text, cut if too long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest - 2]} …"


def distance_rows(comparison: WorkloadComparison) -> tuple[ComparisonRow, ...]:
    """Return the table rows of the distances between the distributions of two workloads."""
    return tuple(_distance(distance) for distance in comparison.distances)


def quantity_rows(comparison: WorkloadComparison) -> tuple[ComparisonRow, ...]:
    """Return the table rows of the statistics that both compared workloads have."""
    return tuple(_quantity(quantity) for quantity in comparison.quantities)


def verdict(comparison: WorkloadComparison) -> tuple[str, ...]:
    """Return sentences on how many statistics differ, and how many would differ by chance."""
    if not comparison.judged:
        return ("No figure is judged: too few days to separate chance from difference.",)
    by_chance = 0.05 * comparison.judged
    n_judged, n_differ = comparison.judged, comparison.differ
    first = (
        f"{n_differ} of {n_judged} figures differ by more than the days of {comparison.one} differ "
        f"among themselves; about {by_chance:.0f} of {n_judged} would by chance alone."
    )
    names = [_named(distance) for distance in comparison.distances if distance.verdict == "differs"]
    if not names:
        return (first, "No distance exceeds the variation between the days of the log.")
    return (first, f"Distances above this variation: {', '.join(dict.fromkeys(names))}.")


def definitions() -> tuple[tuple[str, str], ...]:
    """Return the name and the meaning of each statistic in a comparison of workloads."""
    return tuple(DEFINITIONS.items())


def _named(distance: Distance) -> str:
    return f"{_COLUMNS.get(distance.column, distance.column)} ({_METRICS[distance.metric]})"


def _distance(distance: Distance) -> ComparisonRow:
    unit = f" [{distance.unit}]" if distance.unit else ""
    return ComparisonRow(
        f"{_COLUMNS.get(distance.column, distance.column)}: {_METRICS[distance.metric]}{unit}",
        "", "", _cell(distance.value), _interval(distance.low, distance.high),
        _cell(distance.usual), _VERDICTS[distance.verdict],
    )  # fmt: skip


def _quantity(quantity: Quantity) -> ComparisonRow:
    column, _, which = quantity.name.rpartition(" ")
    name = f"{_COLUMNS[column]} {which}" if column in _COLUMNS else quantity.name
    unit = f" [{quantity.unit}]" if quantity.unit else ""
    return ComparisonRow(
        f"{name}{unit}", _cell(quantity.one), _cell(quantity.two), _cell(quantity.ratio),
        _interval(quantity.low, quantity.high), "", _VERDICTS[quantity.verdict],
    )  # fmt: skip


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    is_whole = abs(value) >= 1_000 or value == int(value)
    return f"{value:,.0f}" if is_whole else f"{value:.3g}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_cell(low)} to {_cell(high)}"


def _put(into: Any, path: list[str], value: Any, name: str) -> None:
    for at, key in enumerate(path):
        last = at == len(path) - 1
        place: Any = key
        if isinstance(into, list) and key.isdecimal() and int(key) < len(into):
            place = int(key)
        elif not (isinstance(into, dict) and key in into):
            entries = ", ".join(into) if isinstance(into, dict) else "no entries of that name"
            if isinstance(into, list):
                entries = f"0 to {len(into) - 1}"
            raise SettingsError(f"parameter '{name}' has no entry '{key}'; it has: {entries}")
        if last:
            into[place] = value
        else:
            into = into[place]


def _no_constant(name: str) -> None:
    raise ValueError(name)


def read_windows(
    train: Path,
    test: Path,
    lifetimes: Path | None = None,
    rules: ReadingRules | None = None,
    knobs: Mapping[str, float | str] | None = None,
) -> CloudWindows:
    """Read a training and a test window from job logs or from traces of Bergsma et al.

    Args:
        train: file to learn from.
        test: file to forecast.
        lifetimes: file to learn lifetimes from, if `train` has none; only for the authors' files.
        rules: reading rules for files in the Standard Workload Format.
        knobs: settings of the fit; periods and flavours are used.

    Raises:
        SimError: a file cannot be read, has no users, is too short, or has nothing in common with
            the other.
    """
    settings = cloud_knobs(knobs or {})
    kinds = {is_cloud_trace(path) for path in (train, test, *([lifetimes] if lifetimes else []))}
    if kinds == {True}:
        lived = None if lifetimes is None else read_cloud_trace(lifetimes)
        names = (train.name, test.name)
        return cloud_windows_of_traces(
            read_cloud_trace(train), read_cloud_trace(test), lived, names
        )
    if True in kinds:
        raise WorkloadError(
            f"{train.name} and {test.name} are of different kinds; both must be batches of "
            "flavours, or both workloads."
        )
    if lifetimes is not None:
        raise WorkloadError(
            f"{train.name} contains the lifetimes of its jobs; a further file of them is "
            "only for the authors' batches of flavours."
        )
    logs = [load_workload(p, rules=rules if has_rules(p) else None) for p in (train, test)]
    return cloud_windows(
        *logs, period_s=settings["period_s"], most_flavours=int(settings["flavours"])
    )
