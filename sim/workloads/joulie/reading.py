"""A model's parameters, which may be anything that JSON can say, become those of the generator."""

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any, TypeVar, get_args

from sim.errors import WorkloadError
from sim.workloads.generator import checked_number
from sim.workloads.joulie.parameters import (
    FAMILIES,
    HELPERS,
    HOURS,
    MOST_GPUS,
    MOST_TRIALS,
    Family,
    Helper,
    JoulieParameters,
    Law,
    Structure,
)
from sim.workloads.joulie.phases import phases_of
from sim.workloads.model import Json, Model

_Table = TypeVar("_Table", Law, Family, Helper)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
SLACK = 1e-6
"""How far a sum of probabilities may be from 1."""

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
    """Return the parameters of a model.

    Raises:
        WorkloadError: one is missing, unknown, or has a value that cannot be.
    """
    told = _table(JoulieParameters, model.parameters, "a model of 'joulie'")
    made = {
        name: _value(name, told[name], f"parameter '{name}'")
        for name in told
        if name not in ("families", "helpers", "phases")
    }
    made["families"] = _tables(Family, FAMILIES, told["families"], "families")
    made["helpers"] = _tables(Helper, HELPERS, told["helpers"], "helpers")
    made["phases"] = phases_of(told["phases"], tuple(FAMILIES))
    parameters = JoulieParameters(**made)
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
            raise WorkloadError(f"parameter '{name}' is {list(counts)}; numbers must grow.")
    if p.perf_ratio + p.eco_ratio > 1 + SLACK:
        raise WorkloadError(
            f"perf_ratio and eco_ratio are {p.perf_ratio:g} and {p.eco_ratio:g}; they are shares "
            "of the same workloads, and must not exceed 1 together."
        )
    for needed in (True, False):
        shares = [one.share for one in p.families.values() if one.needs_gpus == needed]
        kind = "with" if needed else "without"
        _sums_to_1(f"families' shares {kind} GPUs", shares)
    for name, one in p.families.items():
        if (one.structure in ("launcher", "parameter_server")) and not one.needs_gpus:
            raise WorkloadError(
                f"family '{name}' has the structure '{one.structure}', a worker a GPU, but needs "
                "no GPUs; allowed are 'single' and 'controller'."
            )


def _lengths(name: str, values: tuple[float, ...], n: int) -> None:
    if len(values) != n:
        raise WorkloadError(f"parameter '{name}' has {len(values)} values; it needs {n}.")


def _sums_to_1(name: str, values: Any) -> None:
    if abs(math.fsum(values) - 1.0) > SLACK:
        raise WorkloadError(f"{name} sum to {math.fsum(values):g}; probabilities sum to 1.")


def _tables(
    kind: type[_Table], known: Mapping[str, _Table], told: Json, name: str
) -> dict[str, _Table]:
    if not isinstance(told, dict) or set(told) != set(known):
        raise WorkloadError(f"parameter '{name}' must have the entries: {', '.join(known)}.")
    return {one: _made(kind, told[one], f"{name}.{one}") for one in known}


def _made(kind: type[_Table], told: Json, where: str) -> _Table:
    values = _table(kind, told, where)
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("duration_sec", "cpu", "memory_gib"):
            made[name] = _made(Law, value, f"{where}.{name}")
        else:
            made[name] = _value(name, value, f"{where}.{name}", kind)
    found = kind(**made)
    for before in ("", "cpu_", "memory_"):
        least = getattr(found, f"{before}least", 0.0)
        most = getattr(found, f"{before}most", math.inf)
        if least > most:
            raise WorkloadError(
                f"{where}: {before}least is {least:g} and {before}most {most:g}; the least must "
                "not exceed the most."
            )
    return found


def _table(kind: type, told: Json, where: str) -> dict[str, Json]:
    names = [one.name for one in fields(kind)]
    if not isinstance(told, Mapping):
        raise WorkloadError(f"{where} is {told!r}; it must be a table of {', '.join(names)}.")
    for name in told:
        if name not in names:
            raise WorkloadError(f"{where} has no '{name}'; it has: {', '.join(names)}.")
    for name in names:
        if name not in told:
            raise WorkloadError(f"{where} needs '{name}'.")
    return {name: told[name] for name in names}


def _value(name: str, value: Json, what: str, kind: type = JoulieParameters) -> Any:
    """Return a plain value of a table, checked by the type of the field and by its range."""
    hint = next(one.type for one in fields(kind) if one.name == name)
    if hint is bool:
        if type(value) is not bool:
            raise WorkloadError(f"{what} is {value!r}; allowed are true and false.")
        return value
    if hint is str or hint is Structure:
        return _text(name, value, what)
    if str(hint).startswith("tuple"):
        return _numbers(name, value, what, kind)
    if value is None and name == "jobs":
        return None
    low, high = RANGES.get(name, UNIT)
    return _number(what, value, low, high, hint is int or name == "jobs")


def _numbers(name: str, value: Json, what: str, kind: type) -> tuple[float, ...]:
    if name == "hourly_multipliers" and isinstance(value, str):
        if value not in HOURS:
            raise WorkloadError(f"{what} is {value!r}; allowed are 24 numbers, 'page' or 'head'.")
        return HOURS[value]
    if not isinstance(value, list | tuple) or not value:
        raise WorkloadError(f"{what} is {value!r}; allowed are lists of numbers.")
    low, high = RANGES.get(name, UNIT)
    numbers = tuple(
        _number(f"{what}, number {i}", one, low, high, name in WHOLE) for i, one in enumerate(value)
    )
    if kind is Family and (len(numbers) != 2 or numbers[0] > numbers[1]):
        raise WorkloadError(f"{what} is {list(value)}; allowed are two numbers, from and to.")
    return numbers


def _number(what: str, value: Json, low: float, high: float, is_whole: bool) -> float:
    number = checked_number(what, value, low, high)
    if not is_whole:
        return number
    if number != int(number):
        raise WorkloadError(f"{what} is {value!r}; allowed are whole numbers.")
    return int(number)


def _text(name: str, value: Json, what: str) -> str:
    if name == "structure":
        if value not in get_args(Structure):
            allowed = ", ".join(get_args(Structure))
            raise WorkloadError(f"{what} is {value!r}; allowed are {allowed}.")
    elif not isinstance(value, str) or not (
        _NAME.fullmatch(value) or (value == "" and name.endswith("_class"))
    ):
        raise WorkloadError(
            f"{what} is {value!r}; allowed are names of letters, digits, '.', '_', '/' and '-'."
        )
    return str(value)
