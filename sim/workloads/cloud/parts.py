"""The parts of a fitted model, in the form of a `Model` and back, with everything checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import Flavour
from sim.model.bins import Bins
from sim.workloads.cloud.arrays import array_of, whole_of
from sim.workloads.cloud.arrivals import DAYS, HOURS, Arrivals
from sim.workloads.cloud.batching import Examples
from sim.workloads.cloud.qualities import Hazards, hazards_of, packed_hazards
from sim.workloads.generator import checked_number, number_of
from sim.workloads.model import Json, Model
from sim.workloads.packed import packed_tasks, tasks_of

MOST_DAYS = 100_000
_FURTHER = ("mgpu", "requested_s")
_EXAMPLES = ("procs", "requested_s", "mem_bytes_per_proc")


@dataclass(frozen=True, eq=False)
class Ground:
    """What all models of clouds have.

    Attributes:
        period_s: length of a period.
        bins: of lifetimes.
        flavours: all of them.
        examples: jobs of each flavour.
        arrivals: of batches, or of jobs.
        lifetimes: hazards, by context or by trees.
        jobs_per_arrival: mean size of what arrives.
    """

    period_s: float
    bins: Bins
    flavours: tuple[Flavour, ...]
    examples: Examples
    arrivals: Arrivals
    lifetimes: Hazards
    jobs_per_arrival: float


def packed(ground: Ground) -> tuple[dict[str, Json], dict[str, NDArray[Any]]]:
    """Return parameters and arrays of a model."""
    law = ground.arrivals
    parameters = {
        "period_s": ground.period_s,
        "bin_ends_s": list(ground.bins.ends_s),
        "longest_s": ground.bins.longest_s,
        "flavours": [_told(one) for one in ground.flavours],
        "arrivals": {
            "intercept": law.intercept,
            "dispersion": law.dispersion,
            "first_day": law.first_day,
            "back": law.back,
        },
        "jobs_per_arrival": ground.jobs_per_arrival,
    }
    arrays = {
        "arrivals_of_hour": law.of_hour,
        "arrivals_of_day": law.of_day,
        "arrivals_of_history": law.of_history,
        "examples_first": ground.examples.first,
        **{f"examples_{name}": getattr(ground.examples, name) for name in _EXAMPLES},
    }
    told, more = packed_hazards(ground.lifetimes)
    examples = ground.examples
    if examples.tasks is not None and examples.runtime_s is not None:
        of_tasks, arrays_of_tasks = packed_tasks(examples.tasks)
        told |= of_tasks
        more |= arrays_of_tasks | {"examples_runtime_s": examples.runtime_s}
    return parameters | told, arrays | more


def ground_of(model: Model) -> Ground:
    """Return the parts of a model.

    Raises:
        WorkloadError: one is missing or cannot be.
    """
    flavours = _flavours(model)
    bins = Bins(tuple(_numbers(model, "bin_ends_s")), number_of(model, "longest_s", 1e-6))
    told = model.parameters.get("arrivals")
    wanted = ["back", "dispersion", "first_day", "intercept"]
    if not isinstance(told, dict) or sorted(told) != wanted:
        raise WorkloadError(
            f"parameter 'arrivals' of '{model.generator}' must have exactly the entries "
            f"{', '.join(wanted)}."
        )

    def of(name: str, lowest: float, highest: float) -> float:
        where = f"parameter '{name}' of 'arrivals' of '{model.generator}'"
        return checked_number(where, told[name], lowest, highest)

    history = array_of(model, "arrivals_of_history", (None,), -50.0, 50.0)
    arrivals = Arrivals(
        intercept=of("intercept", -50.0, 50.0),
        of_hour=array_of(model, "arrivals_of_hour", (HOURS,), -50.0, 50.0),
        of_day=array_of(model, "arrivals_of_day", (DAYS,), -50.0, 50.0),
        of_history=history,
        dispersion=of("dispersion", 0.0, 1e3),
        first_day=int(of("first_day", 0, MOST_DAYS)),
        back=of("back", 1e-6, 1.0),
    )
    return Ground(
        period_s=number_of(model, "period_s", 1e-3, 86_400.0),
        bins=bins,
        flavours=flavours,
        examples=_examples(model, len(flavours)),
        arrivals=arrivals,
        lifetimes=hazards_of(model, bins.n, len(flavours)),
        jobs_per_arrival=number_of(model, "jobs_per_arrival", 1e-6, 1e6),
    )


def _flavours(model: Model) -> tuple[Flavour, ...]:
    told = model.parameters.get("flavours")
    if not isinstance(told, list) or not told:
        raise WorkloadError(
            f"parameter 'flavours' of '{model.generator}' must be a list of tables."
        )
    return tuple(_flavour(model, one) for one in told)


def _told(flavour: Flavour) -> dict[str, Json]:
    further = {name: getattr(flavour, name) for name in _FURTHER}
    known = {name: value for name, value in further.items() if value >= 0}
    return {
        "name": flavour.name, "mcpu": flavour.mcpu, "mem_bytes": flavour.mem_bytes, **known
    }  # fmt: skip


def _flavour(model: Model, told: Json) -> Flavour:
    entries: Mapping[str, Json] = told if isinstance(told, dict) else {}
    where = f"of a flavour of '{model.generator}'"
    needed = {"mcpu", "mem_bytes", "name"}
    are_known = needed <= set(entries) <= {*needed, *_FURTHER}
    if not are_known or not isinstance(entries["name"], str):
        raise WorkloadError(
            f"the entries {where} are name, mcpu and mem_bytes, and mgpu and requested_s if known."
        )
    return Flavour(
        entries["name"],
        int(checked_number(f"mcpu {where}", entries["mcpu"], 1, 2.0**53)),
        int(checked_number(f"mem_bytes {where}", entries["mem_bytes"], -1, 2.0**53)),
        *(
            int(checked_number(f"{name} {where}", entries.get(name, -1), -1, 2.0**53))
            for name in _FURTHER
        ),
    )


def _numbers(model: Model, name: str) -> list[float]:
    told = model.parameters.get(name)
    if not isinstance(told, list) or not told:
        raise WorkloadError(f"parameter '{name}' of '{model.generator}' must be a list of numbers.")
    where = f"an entry of parameter '{name}' of '{model.generator}'"
    return [checked_number(where, one, 0.0, 1e12) for one in told]


def _examples(model: Model, n_flavours: int) -> Examples:
    first = whole_of(model, "examples_first", (n_flavours + 1,), 0)
    if first[0] != 0 or (np.diff(first) < 1).any():
        raise WorkloadError(f"every flavour of '{model.generator}' needs an example.")
    n = int(first[-1])
    tasks, runtime_s = tasks_of(model), None
    if tasks is not None:
        runtime_s = array_of(model, "examples_runtime_s", (n,), 0.0, 2.0**53)
        inside = np.repeat(np.arange(n_flavours), np.diff(first))
        falls = (np.diff(runtime_s) < 0) & (np.diff(inside) == 0)
        if falls.any() or tasks.n_jobs != n:
            raise WorkloadError(
                f"the tasks of '{model.generator}' are those of its examples, whose run times rise "
                "within each flavour."
            )
    return Examples(
        first,
        whole_of(model, "examples_procs", (n,), 1, 2**53),
        array_of(model, "examples_requested_s", (n,), 0.0, 2.0**53),
        whole_of(model, "examples_mem_bytes_per_proc", (n,), -1, 2**53),
        runtime_s,
        tasks,
    )
