"""A whole workload inside a model: its columns and tasks as arrays and what JSON can say."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.tasks import Tasks, Term, Work
from sim.model.workload import Workload
from sim.workloads.model import Json, Model

Arrays = dict[str, NDArray[Any]]

COLUMNS: tuple[str, ...] = (
    "runtime_s", "requested_s", "procs", "user", "group", "queue", "partition", "status",
    "mem_bytes_per_proc",
)  # fmt: skip
"""Of jobs, that are kept. Submit times are kept by who packs, on a clock of their own."""


def packed(workload: Workload) -> tuple[dict[str, Json], Arrays]:
    """Return what is needed to give the jobs back: parameters and arrays."""
    arrays: Arrays = {name: getattr(workload, name) for name in COLUMNS}
    told: dict[str, Json] = {
        "max_procs": workload.max_procs,
        "requested_is_runtime": workload.requested_is_runtime,
    }
    if workload.tasks is None:
        return told, arrays
    more, of_tasks = packed_tasks(workload.tasks)
    return told | more, arrays | of_tasks


def packed_tasks(tasks: Tasks) -> tuple[dict[str, Json], Arrays]:
    """Return what `tasks_of` needs to give tasks back: parameters and arrays."""
    arrays: Arrays = {}
    for prefix, holder in (("task ", tasks), ("work ", tasks.work)):
        for one in () if holder is None else fields(holder):
            if isinstance(value := getattr(holder, one.name), np.ndarray):
                arrays[prefix + one.name] = value
    arrays |= {f"text {name}": np.array(column, dtype=str) for name, column in tasks.texts.items()}
    told: Json = {
        "roles": list(tasks.roles),
        "gpu_resources": list(tasks.gpu_resources),
        "affinities": [
            [[term.key, term.operator, list(term.values)] for term in terms]
            for terms in tasks.affinities
        ],
        "classes": None if tasks.work is None else list(tasks.work.classes),
    }
    return {"tasks": told}, arrays


def columns_of(model: Model) -> Mapping[str, NDArray[Any]]:
    """Return the columns of jobs that `packed` kept.

    Raises:
        WorkloadError: one is missing or of another length.
    """
    rows = model.arrays.get(COLUMNS[0], np.zeros(0)).shape
    for name in COLUMNS:
        column = model.arrays.get(name, np.zeros(0))
        if not rows[0] or column.shape != rows or column.dtype.kind not in "if":
            raise WorkloadError(
                f"a model of '{model.generator}' needs the array '{name}', a number per job."
            )
    return {name: model.arrays[name] for name in COLUMNS}


def tasks_of(model: Model) -> Tasks | None:
    """Return the tasks of the jobs that `packed` kept; None if they had none.

    Raises:
        WorkloadError: they cannot be tasks.
    """
    told = model.parameters.get("tasks")
    if told is None:
        return None
    try:
        rows: dict[str, Any] = {
            name.removeprefix("task "): array
            for name, array in model.arrays.items()
            if name.startswith("task ")
        }
        work = {
            name.removeprefix("work "): array.copy()
            for name, array in model.arrays.items()
            if name.startswith("work ")
        }
        flat, first = rows.pop("parent_task"), rows.pop("first_parent")
        return Tasks.from_arrays(
            **rows,
            edges=(first, flat),
            roles=told["roles"],
            gpu_resources=told["gpu_resources"],
            affinities=[
                [Term(key, operator, tuple(values)) for key, operator, values in terms]
                for terms in told["affinities"]
            ],
            work=None if told["classes"] is None else Work(**work, classes=tuple(told["classes"])),
            texts={
                name.removeprefix("text "): array.tolist()
                for name, array in model.arrays.items()
                if name.startswith("text ")
            },
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise WorkloadError(
            f"parameter 'tasks' of '{model.generator}' is not what tasks are kept as ({error})."
        ) from None
