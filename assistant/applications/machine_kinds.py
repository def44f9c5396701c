"""Kinds of machines with their prices, and workloads as machines are given them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assistant.errors import ApplicationError, hint
from sim.api import MachineSpec, Tasks, Workload, generate, published_model

GIB, WHOLE = 2**30, 1000


@dataclass(frozen=True)
class MachineKind:
    """Machines that are alike.

    Attributes:
        spec: one of them; its count is how many there are today.
        price_per_h: of each, for every hour that it is there.
        counts: how many there may be; empty leaves it at today's.
    """

    spec: MachineSpec
    price_per_h: float = 1.0
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        name = self.spec.name
        if not 0 <= self.price_per_h < float("inf"):
            raise ApplicationError(
                f"machine '{name}': price_per_h is {self.price_per_h}; allowed are numbers from 0"
            )
        if any(type(n) is not int or n < 0 for n in self.counts):
            raise ApplicationError(
                f"machine '{name}': counts are {list(self.counts)}; allowed are whole numbers "
                "from 0"
            )
        if self.counts and self.spec.count not in self.counts:
            raise ApplicationError(
                f"machine '{name}': today's count, {self.spec.count}, is not among its counts "
                f"({', '.join(map(str, self.counts))}); add it, so that there is something to "
                "compare with"
            )


def usual_machines() -> tuple[MachineKind, ...]:
    """Return three kinds, with prices of ours, for the workload of `usual_workload`."""

    def kind(
        name: str, procs: int, mem_gib: int, gpus: int, count: int, price: float, *counts: int
    ) -> MachineKind:
        spec = MachineSpec(name, procs, count, mem_bytes=mem_gib * GIB, gpus=gpus)
        return MachineKind(spec, price, counts)

    return (
        kind("gpu8", 128, 1024, 8, 16, 20.0, 8, 12, 16, 20, 24),
        kind("gpu4", 64, 512, 4, 8, 11.0, 0, 4, 8, 12),
        kind("cpu", 128, 512, 0, 4, 3.0, 0, 2, 4, 6),
    )


def usual_workload(seed: int = 0, days: float = 1.0, scale: float = 0.05) -> Workload:
    """Return pods of AI workloads, drawn from Joulie's published model."""
    return generate(published_model("joulie"), duration_s=days * 86_400.0, seed=seed, scale=scale)


def without_sharing(workload: Workload) -> Workload:
    """Return a workload whose instances take whole GPUs, and take as long as they did."""
    tasks = workload.tasks
    if tasks is None or not shares_gpus(workload):
        return workload
    parts = (tasks.mgpu > 0) & (tasks.mgpu < WHOLE)
    work = tasks.work
    if work is not None:
        factor = np.where(parts, WHOLE / np.maximum(tasks.mgpu, 1), 1.0)
        work = replace(work, gpu_units=work.gpu_units * factor)
    return replace(
        workload, tasks=replace(tasks, mgpu=np.where(parts, WHOLE, tasks.mgpu), work=work)
    )


def grouped(machines: Sequence[MachineSpec], prices: Mapping[str, float]) -> list[MachineKind]:
    """Return the kinds of a list of machines, each named after its GPUs and cores.

    Args:
        machines: such as `sim.api.read_machines` gives.
        prices: of an hour, by the names of kinds; those that are not told cost 1.

    Raises:
        ApplicationError: a price of a kind that there is not.
    """
    counts: dict[tuple[MachineSpec, str], int] = {}
    for one in machines:
        labels = " ".join(f"{key}={text}" for key, text in sorted(one.labels.items()))
        key = (replace(one, name="kind", count=1), labels)
        counts[key] = counts.get(key, 0) + one.count
    kinds: dict[str, MachineKind] = {}
    for (spec, _), count in counts.items():
        model = "".join(c if c.isalnum() else "_" for c in spec.labels.get("gpu.model", "gpu"))
        stem = f"{model}x{spec.gpus}_{spec.procs}" if spec.gpus else f"cpu_{spec.procs}"
        name, n = stem, 2
        while name in kinds:
            name, n = f"{stem}_{n}", n + 1
        kinds[name] = MachineKind(replace(spec, name=name, count=count), prices.get(name, 1.0))
    for name in prices:
        if name not in kinds:
            raise ApplicationError(
                f"prices name a kind of machines '{name}'{hint(name, tuple(kinds))}"
            )
    return list(kinds.values())


def shares_gpus(workload: Workload) -> bool:
    """Tell whether some of its instances take a part of a GPU."""
    tasks = workload.tasks
    return tasks is not None and bool(((tasks.mgpu > 0) & (tasks.mgpu < WHOLE)).any())


def with_tasks(workload: Workload) -> Workload:
    """Return a workload with tasks: one instance a job, if there are none."""
    if workload.tasks is not None:
        return workload
    memory = np.maximum(workload.mem_bytes_per_proc, 0) * workload.procs
    return replace(
        workload,
        tasks=Tasks.from_arrays(
            job=np.arange(workload.n_jobs),
            runtime_s=workload.runtime_s,
            mcpu=workload.procs * 1000,
            mem_bytes=memory.astype(np.int64),
        ),
    )
