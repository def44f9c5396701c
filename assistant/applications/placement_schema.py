"""``[application]`` of kind ``placement``: machines over a trace or over drawn workloads."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from assistant.applications.machine_kinds import MachineKind, grouped, usual_machines
from assistant.applications.placement import Placing
from assistant.applications.schema import DurationS, LevelValue, Number, Strict
from sim.api import (
    MachineSpec,
    Workload,
    generate,
    load_model,
    load_workload,
    published_model,
    read_machines,
    read_openb,
)
from sim.api import format_of as format_of_workload

GIB = 2**30


class MachineSettings(Strict):
    """``[[application.machines]]``: a kind of machines."""

    name: str
    cores: int = Field(ge=1)
    count: int = Field(ge=1)
    counts: list[int] = Field(default_factory=list)
    price_per_h: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    mem_gib: float | None = Field(default=None, gt=0)
    disk_gib: float | None = Field(default=None, gt=0)
    gpus: int = Field(default=0, ge=0)
    gpu_model: str = ""
    labels: dict[str, str] = Field(default_factory=dict)

    def build(self) -> MachineKind:
        """Return the kind. Raises SimError or ApplicationError in one sentence."""
        labels = dict(self.labels)
        if self.gpu_model:
            labels["gpu.model"] = self.gpu_model
        spec = MachineSpec(
            self.name,
            self.cores,
            self.count,
            mem_bytes=None if self.mem_gib is None else round(self.mem_gib * GIB),
            disk_bytes=None if self.disk_gib is None else round(self.disk_gib * GIB),
            gpus=self.gpus,
            labels=labels,
        )
        return MachineKind(spec, self.price_per_h, tuple(self.counts))


class PlacementSettings(Strict):
    """``[application]`` with ``kind = "placement"``."""

    kind: Literal["placement"]
    trace: str | None = None
    first: int | None = Field(default=None, ge=1)
    model: str | None = None
    generator: str | None = None
    duration: DurationS = 86_400.0
    scale: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    count: int = Field(default=1, ge=1, le=100)
    seed: int = Field(default=0, ge=0)
    nodes: str | None = None
    prices: dict[str, float] = Field(default_factory=dict)
    machines: list[MachineSettings] = Field(default_factory=list)
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    today: dict[str, LevelValue] = Field(default_factory=dict)
    options: dict[str, Number] = Field(default_factory=dict)
    wait_cost_per_h: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    beyond_at_most: float = Field(default=0.05, ge=0, le=1)
    wait_at_most: DurationS | None = None

    @model_validator(mode="after")
    def _one(self) -> "PlacementSettings":
        if sum(x is not None for x in (self.trace, self.model, self.generator)) > 1:
            raise ValueError(
                "give one of trace, the file of a workload, model, the file of a fitted "
                "generator, and generator, the name of a published one"
            )
        drawn = {"duration", "scale", "count"} & self.model_fields_set
        if self.trace is not None and drawn:
            raise ValueError(
                f"'{min(drawn)}' is about workloads that are drawn; leave it out, or trace"
            )
        if self.first is not None and self.trace is None:
            raise ValueError("'first' is about a trace; name it with trace")
        if self.nodes is not None and self.machines:
            raise ValueError("give nodes, the file of a list of machines, or [[machines]]")
        if self.prices and self.nodes is None:
            raise ValueError(
                "'prices' are of the kinds of machines of a list; name it with nodes, or say "
                "price_per_h in [[machines]]"
            )
        return self

    def build(self) -> Placing:
        """Read or draw the workloads and return the application.

        Raises:
            ApplicationError, SimError: the first thing that is wrong, in one sentence.
        """
        return Placing(
            workloads=self._workloads(),
            kinds=self._kinds(),
            levels=self.levels,
            today=self.today,
            options={name: float(value) for name, value in self.options.items()},
            wait_cost_per_h=self.wait_cost_per_h,
            beyond_at_most=self.beyond_at_most,
            wait_at_most_s=self.wait_at_most,
            seed=self.seed,
        )

    def _workloads(self) -> tuple[Workload, ...]:
        if self.trace is not None:
            path = Path(self.trace)
            if format_of_workload(path).name == "openb":
                pods = read_openb(path, pending="keep")
                return (pods if self.first is None else pods.head(self.first),)
            return (load_workload(path, first=self.first),)
        if self.model is not None:
            model = load_model(Path(self.model))
        else:
            model = published_model(self.generator or "joulie")
        return tuple(
            generate(model, duration_s=self.duration, seed=self.seed + number, scale=self.scale)
            for number in range(self.count)
        )

    def _kinds(self) -> tuple[MachineKind, ...]:
        if self.nodes is not None:
            found = grouped(read_machines(self.nodes), self.prices)
            counts = {name.removesuffix("_machines"): name for name in self.levels}
            return tuple(
                MachineKind(one.spec, one.price_per_h, self._counts(counts.get(one.spec.name)))
                for one in found
            )
        if self.machines:
            return tuple(one.build() for one in self.machines)
        return usual_machines()

    def _counts(self, name: str | None) -> tuple[int, ...]:
        """Return the counts that levels open of a kind of a list of machines."""
        return tuple(n for n in self.levels.get(name or "", []) if type(n) is int)
