"""The platform: resources with capacity, a data store, and which task runs where."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sim.aiops.disciplines import DISCIPLINES
from sim.aiops.graph import TASKS
from sim.errors import SetupError, UnknownNameError

SEGMENT_BYTES, HEADER_BYTES = 1460, 40
"""What a TCP segment carries, and its headers (TCP and IPv4 without options, on Ethernet)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A cluster that runs so many tasks at once.

    Attributes:
        name: how tasks are sent to it.
        capacity: tasks at once.
        discipline: who of those that wait is next; one of `DISCIPLINES`.
        cost_per_h: of one unit of capacity, whether used or not.
    """

    name: str
    capacity: int
    discipline: str = "fifo"
    cost_per_h: float = 1.0

    def __post_init__(self) -> None:
        if type(self.capacity) is not int or self.capacity < 1:
            raise SetupError(
                f"the capacity of '{self.name}' is {self.capacity!r}; allowed are whole numbers "
                "from 1."
            )
        if self.discipline not in DISCIPLINES:
            raise UnknownNameError("queueing discipline", self.discipline, DISCIPLINES)
        if not (math.isfinite(self.cost_per_h) and self.cost_per_h >= 0):
            raise SetupError(f"the cost of '{self.name}' must be a number from 0.")


@dataclass(frozen=True, slots=True)
class DataStore:
    """Where assets are read from and written to; everybody has the full bandwidth.

    Attributes:
        latency_s: of every operation.
        read_bytes_per_s: bandwidth downwards.
        write_bytes_per_s: bandwidth upwards.
    """

    latency_s: float = 0.05
    read_bytes_per_s: float = 1e8
    write_bytes_per_s: float = 5e7

    def __post_init__(self) -> None:
        if not (self.latency_s >= 0 and self.read_bytes_per_s > 0 and self.write_bytes_per_s > 0):
            raise SetupError("a data store has a latency from 0 and bandwidths above 0.")


def traffic_bytes(payload_bytes: float) -> float:
    """Return what goes over the network for a payload, with TCP's headers."""
    return payload_bytes + math.ceil(payload_bytes / SEGMENT_BYTES) * HEADER_BYTES


@dataclass(frozen=True)
class Platform:
    """A platform.

    Attributes:
        resources: at least one.
        places: the resource of each type of task.
        infrastructure: the resource of training by framework, where it is another one.
        store: where assets lie.

    Raises:
        SetupError: two resources of one name, or a type of task without a place.
        UnknownNameError: a place that is no resource, or a type of task that is none.
    """

    resources: tuple[Resource, ...] = (
        Resource("training", 24, cost_per_h=2.5),
        Resource("compute", 4, cost_per_h=0.8),
    )
    places: Mapping[str, str] = field(
        default_factory=lambda: {
            kind: "training" if kind in ("train", "compress", "harden") else "compute"
            for kind in TASKS
        }
    )
    infrastructure: Mapping[str, str] = field(default_factory=dict)
    store: DataStore = DataStore()

    def __post_init__(self) -> None:
        names = [resource.name for resource in self.resources]
        if len(set(names)) != len(names) or not names:
            raise SetupError("a platform has resources, each of a name of its own.")
        for kind in TASKS:
            if kind not in self.places:
                raise SetupError(f"tasks of type '{kind}' have no resource to run on.")
        for kind in self.places:
            if kind not in TASKS:
                raise UnknownNameError("type of task", kind, TASKS)
        for place in (*self.places.values(), *self.infrastructure.values()):
            if place not in names:
                raise UnknownNameError("resource", place, names)

    def resource(self, name: str) -> Resource:
        """Return a resource by name."""
        for resource in self.resources:
            if resource.name == name:
                return resource
        raise UnknownNameError("resource", name, (one.name for one in self.resources))

    def having(
        self, name: str, *, capacity: int | None = None, discipline: str | None = None
    ) -> "Platform":
        """Return the platform with another capacity or discipline of one resource."""
        before = self.resource(name)
        after = replace(
            before,
            capacity=before.capacity if capacity is None else capacity,
            discipline=before.discipline if discipline is None else discipline,
        )
        return replace(
            self, resources=tuple(after if one.name == name else one for one in self.resources)
        )

    def place_of(self, kind: str, framework: str) -> str:
        """Return the resource that a task runs on."""
        if kind == "train" and framework in self.infrastructure:
            return self.infrastructure[framework]
        return self.places[kind]

    @property
    def cost_per_h(self) -> float:
        """What the platform costs, whether used or not."""
        return sum(one.capacity * one.cost_per_h for one in self.resources)
