"""Parameters of the Joulie generator: published values, checks, and profile bundles (JSON files).

Sources: Joulie's page "Workload Generation", and where the page gives no number the program behind
it (``workloadgen`` of the Joulie project). `HEAD` has the different rules of a later version of
the program. Names are the page's knobs in snake case.

Quirks of the program are switches here, off as on the page:

- `split_work`: the GPU work of a job is divided among its workers and trials, so that a job on 8
  GPUs is done 8 times sooner than its ``durationSec`` says. The page's formula and its example
  (14,400 s at utilisation 0.47: 6,800 units for each of 4 workers) do not do so.
- `least_workers`: distributed and parameter-server jobs are meant to have 2 workers or more, and
  have 1 if they have 1 GPU. The page has one worker per GPU; 2 gives the intended number.
- `cpu_per_gpu`: the cores of a pod are drawn once, for any number of GPUs.

One quirk is left out: the program seeds the intents of some pods with the length of their name.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from sim.generators.generator import Json, Model, checked_number, read_versioned_json, write_json
from sim.generators.joulie.phases import Phases, phases_of
from sim.model.errors import TraceError, WorkloadError, quoted_text
from sim.model.pods import EPOCH_UNIX_S

NAME = "joulie"
SOURCE = "Joulie's page 'Workload Generation': its built-in priors."
MOST_TRIALS = 64
MOST_GPUS = 1024

PAGE_HOURS: tuple[float, ...] = (
    *(0.70,) * 8, 0.95, *(1.20,) * 3, 0.85, *(1.15,) * 5, 0.85, 0.95, *(1.0,) * 3, 0.95,
)  # fmt: skip
HEAD_HOURS: tuple[float, ...] = (
    0.15, 0.12, 0.10, 0.10, 0.12, 0.20, 0.40, 0.65, 0.85, 1.0, 1.0, 0.95,
    0.80, 0.85, 1.0, 1.0, 0.95, 0.85, 0.65, 0.50, 0.40, 0.30, 0.22, 0.18,
)  # fmt: skip
HOURS = {"page": PAGE_HOURS, "head": HEAD_HOURS}

HEAD: Mapping[str, Json] = {
    "hourly_multipliers": "head",
    "dip_day_probability": 0.30,
    "compute_bound_boost": 3.5,
    "split_work": True,
    "emit_head_fields": True,
}
"""Rules of the later version of the program, for ``model.with_parameters(HEAD)``."""

Structure = Literal["single", "launcher", "parameter_server", "controller"]
Pair = tuple[float, float]


@dataclass(frozen=True)
class ClampedLognormal:
    """A lognormal distribution whose draws are clamped to a range.

    Attributes:
        median: above 0.
        sigma: standard deviation of the logarithm, from 0.
        least, most: clamps.
    """

    median: float
    sigma: float
    least: float
    most: float


@dataclass(frozen=True)
class WorkloadFamily:
    """A family of workloads, such as ``debug_eval``: its share and its distributions.

    Attributes:
        share: share of the workloads with GPUs, or of those without.
        duration_factor_many: factor on durations from `many_gpus` GPUs on, before the clamp.
        gpu_utilisation_shift: added to the mean for the number of GPUs.
        cpu_utilisation, memory_intensity, io_intensity, cpu_feed_intensity: bounds of uniform
            variables; the last is 0 without GPUs.
        cpu_class, gpu_class: class such as ``cpu.mixed``, or empty.
        structure: structure of pods: ``single`` (one pod with all GPUs), ``launcher`` (and a
            worker per GPU), ``parameter_server`` (one or two, and a worker per GPU),
            ``controller`` (and trials).
        memory_gib: memory of a pod, per GPU of it if it needs GPUs.
        memory_base_gib: added to that.
        work_share: share of the job's CPU work that the workers or trials divide evenly.
        cpu_sensitivity: sensitivity to throttling, from 0 to 1, of pods whose role has none.
        gpu_sensitivity: sensitivity of all pods.
    """

    share: float
    needs_gpus: bool
    duration_sec: ClampedLognormal
    cpu_utilisation: Pair
    memory_intensity: Pair
    cpu: ClampedLognormal
    memory_gib: ClampedLognormal
    cpu_class: str = "cpu.mixed"
    gpu_class: str = ""
    structure: Structure = "single"
    role: str = "worker"
    gang: bool = False
    duration_factor_many: float = 1.0
    gpu_utilisation_shift: float = 0.0
    io_intensity: Pair = (0.05, 0.25)
    cpu_feed_intensity: Pair = (0.0, 0.0)
    memory_base_gib: float = 2.0
    work_share: float = 1.0
    cpu_sensitivity: float = 0.65
    gpu_sensitivity: float = 1.0


@dataclass(frozen=True)
class HelperRole:
    """A role of pods without GPUs that support a workload's workers, and their resources.

    Attributes:
        cpu_share: share of a worker's cores, then clamped to `cpu_least` and `cpu_most`.
        memory_share: share of a worker's memory, then clamped; GiB.
        work_share: share of the job's CPU work, of all such pods of the job.
    """

    cpu_share: float
    cpu_least: float
    cpu_most: float
    memory_share: float
    memory_least: float
    memory_most: float
    work_share: float
    cpu_sensitivity: float


def _gpu_cpu(median: float) -> ClampedLognormal:
    return ClampedLognormal(median, 0.35, 1.0, 16.0)


def _per_gpu(median: float) -> ClampedLognormal:
    return ClampedLognormal(median, 0.35, 2.0, 32.0)


_HOUR, _DAY = 3600.0, 86400.0

FAMILIES: Mapping[str, WorkloadFamily] = {
    "debug_eval": WorkloadFamily(
        0.45, True, ClampedLognormal(206.0, 1.0, 30.0, 1000.0), (0.20, 0.40), (0.55, 0.85),
        _gpu_cpu(2.0), _per_gpu(4.0), gpu_class="gpu.memory_bound", gpu_utilisation_shift=-0.10,
        io_intensity=(0.05, 0.20), cpu_feed_intensity=(0.15, 0.35), gpu_sensitivity=0.55,
    ),
    "single_gpu_training": WorkloadFamily(
        0.25, True, ClampedLognormal(2 * _HOUR, 1.0, 900.0, 7 * _DAY), (0.20, 0.45), (0.30, 0.60),
        _gpu_cpu(4.0), _per_gpu(10.0), gpu_class="gpu.compute_bound",
        cpu_feed_intensity=(0.25, 0.55), gpu_sensitivity=0.85,
    ),
    "distributed_training": WorkloadFamily(
        0.14, True, ClampedLognormal(4 * _HOUR, 1.2, 1200.0, 14 * _DAY), (0.15, 0.35), (0.45, 0.75),
        _gpu_cpu(4.0), _per_gpu(12.0), gpu_class="gpu.compute_bound", structure="launcher",
        gang=True, duration_factor_many=1.2, gpu_utilisation_shift=-0.08,
        cpu_feed_intensity=(0.35, 0.70), work_share=0.90, gpu_sensitivity=0.90,
    ),
    "parameter_server_training": WorkloadFamily(
        0.07, True, ClampedLognormal(3 * _HOUR, 1.1, 900.0, 7 * _DAY), (0.20, 0.40), (0.70, 0.92),
        _gpu_cpu(5.0), _per_gpu(14.0), cpu_class="cpu.memory_bound",
        gpu_class="gpu.compute_bound", structure="parameter_server", gang=True,
        gpu_utilisation_shift=-0.10, cpu_feed_intensity=(0.40, 0.75), work_share=0.85,
        gpu_sensitivity=0.90,
    ),
    "hpo_experiment": WorkloadFamily(
        0.09, True, ClampedLognormal(2 * _HOUR, 1.0, 1200.0, 3 * _DAY), (0.15, 0.35), (0.35, 0.70),
        _gpu_cpu(2.0), _per_gpu(6.0), gpu_class="gpu.mixed", structure="controller", role="trial",
        gpu_utilisation_shift=-0.05, cpu_feed_intensity=(0.20, 0.45), work_share=0.90,
        gpu_sensitivity=0.65,
    ),
    "cpu_preprocess": WorkloadFamily(
        0.75, False, ClampedLognormal(900.0, 0.8, 120.0, 8 * _HOUR), (0.50, 0.75), (0.70, 0.92),
        ClampedLognormal(16.0, 0.45, 4.0, 64.0), ClampedLognormal(6.0, 0.45, 1.0, 64.0),
        cpu_class="cpu.memory_bound", role="preprocess", io_intensity=(0.10, 0.30),
        memory_base_gib=0.0, cpu_sensitivity=0.75,
    ),
    "cpu_analytics": WorkloadFamily(
        0.25, False, ClampedLognormal(1800.0, 0.9, 300.0, 24 * _HOUR), (0.75, 0.95), (0.20, 0.45),
        ClampedLognormal(32.0, 0.5, 8.0, 128.0), ClampedLognormal(10.0, 0.5, 2.0, 128.0),
        cpu_class="cpu.compute_bound", role="analytics", memory_base_gib=0.0, cpu_sensitivity=0.90,
    ),
}  # fmt: skip
"""All families of a model, in the order of their numbers: the group and queue of a job."""

HELPERS: Mapping[str, HelperRole] = {
    "launcher": HelperRole(0.5, 1.0, 4.0, 0.4, 1.0, 8.0, 0.25, 0.25),
    "ps": HelperRole(0.75, 1.0, 6.0, 1.0, 2.0, 16.0, 0.35, 0.45),
    "controller": HelperRole(0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.10, 0.25),
}


@dataclass(frozen=True)
class JoulieParameters:
    """All parameters of the Joulie generator, with the published values as defaults.

    Attributes:
        jobs: largest number of logical workloads; None is as many as arrive in the duration.
        mean_inter_arrival_sec: seconds, at multiplier 1.
        hourly_multipliers: factors on the rate of arrivals in each hour of the day; a model may
            also contain ``"page"`` or ``"head"``.
        burst_day_probability: probability that a day has a burst in one of the `burst_hours`: the
            multiplier is times `burst_multiplier` plus `burst_mean_jobs` / 16.
        dip_day_probability: probability that a day has a dip in one of the `dip_hours`: the
            multiplier is times `dip_multiplier`. 0 on the page.
        gpu_counts, gpu_count_probabilities: possible numbers of GPUs and their probabilities.
        gpu_utilisation_counts: growing numbers of GPUs; other numbers take the next larger one.
        gpu_utilisation_means: mean GPU utilisation of these.
        gpu_utilisation_spread, gpu_utilisation_spread_many: half the width of its uniform noise,
            below and from `many_gpus` GPUs on.
        least_utilisation: lower bound of utilisations in work units.
        perf_ratio: share of workloads that must not run on machines with the power profile eco.
        eco_ratio: share of workloads that must run on such machines.
        compute_bound_boost: factor on `perf_ratio`, up to 1 in all, for workloads that are
            compute-bound on CPU or GPU; 1 on the page, 3.5 later.
        amd_ratio: share of GPU workloads that request ``amd.com/gpu``; 0 on the page.
        cpu_work_rate_per_core, gpu_work_rate_per_gpu: units per core or GPU and second.
        split_work, least_workers: see the module.
        cpu_per_gpu: whether a pod's cores are multiplied by its GPUs (up to the clamp).
        two_servers_from: number of workers from which on there are two parameter servers.
        hpo_max_trials: largest number of trials of an experiment, drawn uniformly from 2.
        hpo_max_trials_many, hpo_max_trials_no_gpu: the same from `many_gpus` GPUs on, or without
            GPUs.
        emit_workload_records: whether files have a record per logical workload beside those of
            pods.
        emit_head_fields: whether files have ``intentClass`` and ``tags``, as in the later version.
        epoch_unix_s: Unix time of the midnight (in `time_zone`) from which submit times count.
        phases: phases of the work by family, see `sim.generators.joulie.phases`; none on the page.
        phase_concentration: concentration of each workload's shares around the given ones; 0 is
            equal.
    """

    jobs: int | None = None
    mean_inter_arrival_sec: float = 5.0
    hourly_multipliers: tuple[float, ...] = PAGE_HOURS
    burst_day_probability: float = 0.25
    burst_multiplier: float = 2.0
    burst_mean_jobs: float = 8.0
    burst_hours: tuple[int, ...] = (10, 11, 14, 15, 16)
    dip_day_probability: float = 0.0
    dip_multiplier: float = 0.08
    dip_hours: tuple[int, ...] = (3, 4, 5, 19, 20, 21)
    gpu_ratio: float = 0.80
    gpu_counts: tuple[int, ...] = (1, 2, 4, 8)
    gpu_count_probabilities: tuple[float, ...] = (0.80, 0.10, 0.07, 0.03)
    gpu_utilisation_counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    gpu_utilisation_means: tuple[float, ...] = (0.5238, 0.50, 0.4518, 0.5899, 0.4039)
    gpu_utilisation_spread: float = 0.12
    gpu_utilisation_spread_many: float = 0.16
    many_gpus: int = 4
    least_utilisation: float = 0.10
    perf_ratio: float = 0.30
    eco_ratio: float = 0.0
    compute_bound_boost: float = 1.0
    no_affinity_only: bool = False
    amd_ratio: float = 0.0
    cpu_work_rate_per_core: float = 1.0
    gpu_work_rate_per_gpu: float = 1.0
    split_work: bool = False
    least_workers: int = 1
    cpu_per_gpu: bool = False
    two_servers_from: int = 4
    hpo_max_trials: int = 4
    hpo_max_trials_many: int = 8
    hpo_max_trials_no_gpu: int = 6
    namespace: str = "default"
    emit_workload_records: bool = True
    emit_head_fields: bool = False
    epoch_unix_s: float = EPOCH_UNIX_S
    time_zone: str = "UTC"
    families: Mapping[str, WorkloadFamily] = field(default_factory=lambda: dict(FAMILIES))
    helpers: Mapping[str, HelperRole] = field(default_factory=lambda: dict(HELPERS))
    phases: Phases = field(default_factory=dict)
    phase_concentration: float = 0.0


def model_of(parameters: JoulieParameters, source: str = SOURCE) -> Model:
    """Convert Joulie parameters to a `Model`."""
    return Model(NAME, asdict(parameters), source=source)


def published_joulie() -> Model:
    """Return the model with the values from Joulie's documentation."""
    return model_of(JoulieParameters())


_Table = TypeVar("_Table", ClampedLognormal, WorkloadFamily, HelperRole)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
SLACK = 1e-6  # tolerance of the sum of probabilities

Range = tuple[float, float]

# fmt: off
RANGES: Mapping[str, Range] = {
    "mean_inter_arrival_sec": (1e-6, 1e9),
    "burst_multiplier": (0, 1e6), "burst_mean_jobs": (0, 1e6),
    "dip_multiplier": (0, 1e6), "compute_bound_boost": (0, 1e6),
    "cpu_work_rate_per_core": (0, 1e6), "gpu_work_rate_per_gpu": (0, 1e6),
    "epoch_unix_s": (0, 2**40), "jobs": (1, 20_000_000), "many_gpus": (1, MOST_GPUS),
    "least_workers": (1, MOST_GPUS), "two_servers_from": (1, MOST_GPUS),
    "hpo_max_trials": (2, MOST_TRIALS), "hpo_max_trials_many": (2, MOST_TRIALS),
    "hpo_max_trials_no_gpu": (2, MOST_TRIALS),
    "hourly_multipliers": (0, 1e6), "burst_hours": (0, 23), "dip_hours": (0, 23),
    "gpu_counts": (1, MOST_GPUS), "gpu_utilisation_counts": (1, MOST_GPUS),
    "median": (1e-9, 1e9), "sigma": (0, 10), "least": (0, 1e9), "most": (0, 1e9),
    "duration_factor_many": (0, 1e6), "gpu_utilisation_shift": (-1, 1),
    "memory_base_gib": (0, 1e6), "cpu_share": (0, 1e6), "cpu_least": (0.01, 1e6),
    "cpu_most": (0.01, 1e6), "memory_share": (0, 1e6), "memory_least": (0, 1e6),
    "memory_most": (0, 1e6), "work_share": (0, 1e6), "phase_concentration": (0, 1e6),
}
# fmt: on
"""Of numbers that are not from 0 to 1."""

WHOLE = frozenset(
    {"burst_hours", "dip_hours", "gpu_counts", "gpu_utilisation_counts"}
)  # of lists; single numbers are whole where their default is
UNIT: Range = (0.0, 1.0)


def parameters_of(model: Model) -> JoulieParameters:
    """Return the checked Joulie parameters of a `Model`.

    Raises:
        WorkloadError: one is missing, unknown, or invalid.
    """
    entries = _table(JoulieParameters, model.parameters, "a model of 'joulie'")
    arguments = {
        name: _value(name, entries[name], f"parameter '{name}'")
        for name in entries
        if name not in ("families", "helpers", "phases")
    }
    arguments["families"] = _tables(WorkloadFamily, FAMILIES, entries["families"], "families")
    arguments["helpers"] = _tables(HelperRole, HELPERS, entries["helpers"], "helpers")
    arguments["phases"] = phases_of(entries["phases"], tuple(FAMILIES))
    parameters = JoulieParameters(**arguments)
    _check(parameters)
    return parameters


def _check(p: JoulieParameters) -> None:
    _lengths("hourly_multipliers", p.hourly_multipliers, 24)
    _lengths("gpu_count_probabilities", p.gpu_count_probabilities, len(p.gpu_counts))
    _lengths("gpu_utilisation_means", p.gpu_utilisation_means, len(p.gpu_utilisation_counts))
    _sums_to_1("gpu_count_probabilities", p.gpu_count_probabilities)
    for name in ("gpu_counts", "gpu_utilisation_counts"):
        counts = getattr(p, name)
        if any(a >= b for a, b in pairwise(counts)):
            raise WorkloadError(f"parameter '{name}' is {list(counts)}; numbers must rise.")
    if p.perf_ratio + p.eco_ratio > 1 + SLACK:
        raise WorkloadError(
            f"perf_ratio and eco_ratio are {p.perf_ratio:g} and {p.eco_ratio:g}; they are shares "
            "of the same workloads; their sum must not exceed 1."
        )
    for needed in (True, False):
        shares = [family.share for family in p.families.values() if family.needs_gpus == needed]
        kind = "with" if needed else "without"
        _sums_to_1(f"families' shares {kind} GPUs", shares)
    for name, family in p.families.items():
        if (family.structure in ("launcher", "parameter_server")) and not family.needs_gpus:
            raise WorkloadError(
                f"family '{name}' has the structure '{family.structure}', a worker per GPU, but "
                "needs no GPUs; allowed are 'single' and 'controller'."
            )


def _lengths(name: str, values: tuple[float, ...], n: int) -> None:
    if len(values) != n:
        raise WorkloadError(f"parameter '{name}' has {len(values)} values; it needs {n}.")


def _sums_to_1(name: str, values: Any) -> None:
    if abs(math.fsum(values) - 1.0) > SLACK:
        raise WorkloadError(f"{name} sum to {math.fsum(values):g}; probabilities must sum to 1.")


def _tables(
    kind: type[_Table], defaults: Mapping[str, _Table], entries: Json, name: str
) -> dict[str, _Table]:
    if not isinstance(entries, dict) or set(entries) != set(defaults):
        raise WorkloadError(f"parameter '{name}' must have the entries: {', '.join(defaults)}.")
    return {
        entry_name: _build_table(kind, entries[entry_name], f"{name}.{entry_name}")
        for entry_name in defaults
    }


def _build_table(kind: type[_Table], entries: Json, where: str) -> _Table:
    values = _table(kind, entries, where)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("duration_sec", "cpu", "memory_gib"):
            arguments[name] = _build_table(ClampedLognormal, value, f"{where}.{name}")
        else:
            arguments[name] = _value(name, value, f"{where}.{name}", kind)
    table = kind(**arguments)
    for before in ("", "cpu_", "memory_"):
        least = getattr(table, f"{before}least", 0.0)
        most = getattr(table, f"{before}most", math.inf)
        if least > most:
            raise WorkloadError(
                f"{where}: {before}least is {least:g} and {before}most {most:g}; the least must "
                "not exceed the most."
            )
    return table


def _table(kind: type, entries: Json, where: str) -> dict[str, Json]:
    names = [table_field.name for table_field in fields(kind)]
    if not isinstance(entries, Mapping):
        raise WorkloadError(f"{where} is {entries!r}; it must be a table of {', '.join(names)}.")
    for name in entries:
        if name not in names:
            raise WorkloadError(f"{where} has no '{name}'; it has: {', '.join(names)}.")
    for name in names:
        if name not in entries:
            raise WorkloadError(f"{where} needs '{name}'.")
    return {name: entries[name] for name in names}


def _value(name: str, value: Json, label: str, kind: type = JoulieParameters) -> Any:
    hint = next(table_field.type for table_field in fields(kind) if table_field.name == name)
    if hint is bool:
        if type(value) is not bool:
            raise WorkloadError(f"{label} is {value!r}; allowed are true and false.")
        return value
    if hint is str or hint is Structure:
        return _text(name, value, label)
    if str(hint).startswith("tuple"):
        return _numbers(name, value, label, kind)
    if value is None and name == "jobs":
        return None
    low, high = RANGES.get(name, UNIT)
    return _number(label, value, low, high, hint is int or name == "jobs")


def _numbers(name: str, value: Json, label: str, kind: type) -> tuple[float, ...]:
    if name == "hourly_multipliers" and isinstance(value, str):
        if value not in HOURS:
            raise WorkloadError(f"{label} is {value!r}; allowed are 24 numbers, 'page' or 'head'.")
        return HOURS[value]
    if not isinstance(value, list | tuple) or not value:
        raise WorkloadError(f"{label} is {value!r}; allowed are lists of numbers.")
    low, high = RANGES.get(name, UNIT)
    numbers = tuple(
        _number(f"{label}, number {i}", number, low, high, name in WHOLE)
        for i, number in enumerate(value)
    )
    if kind is WorkloadFamily and (len(numbers) != 2 or numbers[0] > numbers[1]):
        raise WorkloadError(f"{label} is {list(value)}; allowed are two rising numbers.")
    return numbers


def _number(label: str, value: Json, low: float, high: float, is_whole: bool) -> float:
    number = checked_number(label, value, low, high)
    if not is_whole:
        return number
    if number != int(number):
        raise WorkloadError(f"{label} is {value!r}; allowed are whole numbers.")
    return int(number)


def _text(name: str, value: Json, label: str) -> str:
    if name == "structure":
        if value not in get_args(Structure):
            allowed = ", ".join(get_args(Structure))
            raise WorkloadError(f"{label} is {value!r}; allowed are {allowed}.")
    elif not isinstance(value, str) or not (
        _NAME.fullmatch(value) or (value == "" and name.endswith("_class"))
    ):
        raise WorkloadError(
            f"{label} is {value!r}; allowed are names of letters, digits, '.', '_', '/' and '-'."
        )
    return str(value)


FORMAT = "copperline-joulie-profiles"
VERSION = 1
ENTRIES = ("format", "version", "name", "source", "notes", "parameters")
NEEDED = ("format", "version", "name", "parameters")
MOST_TEXT = 10_000
_BUNDLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")


def export_bundle(
    model: Model,
    path: str | PathLike[str],
    *,
    name: str | None = None,
    notes: str = "",
    only_changed: bool = False,
) -> None:
    """Write the parameters of a Joulie model as a profile bundle (JSON).

    The name is by default that of the file; `only_changed` leaves out published values.

    Raises:
        WorkloadError: another generator's model, invalid parameters or name, or the file cannot be
            written.
    """
    file = Path(path)
    if model.generator != NAME:
        raise WorkloadError(
            f"the model is of '{model.generator}'; a bundle needs a model of '{NAME}'."
        )
    if file.suffix != ".json":
        raise WorkloadError(f"{file}: the name of a bundle's file must end in .json.")
    called = file.stem if name is None else name
    if not _BUNDLE_NAME.fullmatch(called):
        raise WorkloadError(
            f"the name of a bundle is {quoted_text(called)}; allowed are up to 100 letters, "
            "digits, blanks, '.', '_' and '-'."
        )
    parameters = dict(model_of(parameters_of(model)).parameters)
    if only_changed:
        parameters = _changed(parameters, dict(model_of(JoulieParameters()).parameters))
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": called,
        "source": model.source,
        "notes": notes,
        "parameters": parameters,
    }
    write_json(file, content)


def import_bundle(path: str | PathLike[str]) -> Model:
    """Read a Joulie model from a profile bundle; missing parameters get published values.

    Returns:
        A model whose source names the bundle and its source.

    Raises:
        TraceError: no such file, no bundle, another version, an unknown entry, or an invalid
            parameter, with what is allowed.
    """
    file = Path(path)
    bundle = _read(file)
    try:
        parameters = _merged(
            asdict(JoulieParameters()), bundle["parameters"], "a bundle's parameters"
        )
        source = f"Profile bundle '{bundle['name']}'."
        if bundle.get("source"):
            source = f"Profile bundle '{bundle['name']}': {bundle['source']}"
        return model_of(parameters_of(Model(NAME, parameters)), source)
    except WorkloadError as error:
        raise TraceError(file, expected=str(error)) from None


def _read(file: Path) -> dict[str, Any]:
    bundle = read_versioned_json(file, "bundle", FORMAT, VERSION, _unique)
    for entry in bundle:
        if entry not in ENTRIES:
            expected = f"a bundle has no entry {quoted_text(entry)}; it has {', '.join(ENTRIES)}."
            raise TraceError(file, expected=expected)
    for entry in NEEDED:
        if entry not in bundle:
            raise TraceError(file, expected=f"a bundle needs the entry '{entry}'.")
    for entry in ("name", "source", "notes"):
        text = bundle.get(entry, "")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            expected = f"the entry '{entry}' must be a text of at most {MOST_TEXT:,} characters."
            raise TraceError(file, expected=expected)
    if not _BUNDLE_NAME.fullmatch(bundle["name"]):
        expected = "the entry 'name' may have letters, digits, blanks, '.', '_' and '-'."
        raise TraceError(file, expected=expected)
    return bundle


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {quoted_text(twice)} occurs twice")
    return entries


def _merged(usual: Json, changes: Json, where: str) -> Json:
    if not isinstance(changes, Mapping):
        raise WorkloadError(f"{where} are {quoted_text(repr(changes))}; they must be a table.")
    merged = dict(usual)
    for name, value in changes.items():
        if name not in usual:
            allowed = ", ".join(list(usual)[:80])
            raise WorkloadError(f"{where} have no {quoted_text(name)}; known: {allowed}.")
        deeper = isinstance(usual[name], Mapping) and name != "phases"
        merged[name] = _merged(usual[name], value, f"{where}.{name}") if deeper else value
    return merged


def _changed(after: Mapping[str, Json], before: Mapping[str, Json]) -> dict[str, Json]:
    changes: dict[str, Json] = {}
    for name, value in after.items():
        if value == before[name]:
            continue
        deeper = isinstance(value, Mapping) and name != "phases"
        changes[name] = _changed(value, before[name]) if deeper else value
    return changes
