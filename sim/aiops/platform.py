"""The platform: its resources, queue disciplines and data store, and the graphs of pipelines.

Pipelines are graphs of typed tasks, with decisions and joins (section IV-A1 of the PipeSim paper).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from sim.model.errors import SetupError, UnknownNameError

TASKS = ("preprocess", "train", "evaluate", "compress", "harden", "deploy", "monitor")
"""Types of tasks. `monitor` trains and deploys the detector that watches the model."""

METRICS = ("performance", "clever", "size_bytes", "inference_ms")
"""Metrics of a built model: quality from 0 to 1, robustness (CLEVER), size, latency."""


@dataclass(frozen=True, slots=True)
class PipelineTask:
    """A task of a pipeline: its type, and its duration relative to the usual one."""

    kind: str
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in TASKS:
            raise UnknownNameError("type of task", self.kind, TASKS)
        if not self.share > 0:
            raise SetupError(f"the share of a task is {self.share!r}; allowed are numbers above 0.")


@dataclass(frozen=True, slots=True)
class MetricGate:
    """A decision in a pipeline: a model passes if its metrics are within all limits."""

    least: tuple[tuple[str, float], ...] = ()
    most: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for metric, _ in (*self.least, *self.most):
            if metric not in METRICS:
                raise UnknownNameError("metric of a model", metric, METRICS)

    def passes(self, metrics: Mapping[str, float]) -> bool:
        """Return whether a model with these metrics passes."""
        return all(metrics[name] >= limit for name, limit in self.least) and all(
            metrics[name] <= limit for name, limit in self.most
        )


@dataclass(frozen=True, slots=True)
class Join:
    """A pipeline node that waits for all of its incoming edges and takes no time."""


Node = PipelineTask | MetricGate | Join


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two pipeline nodes, taken when `source` ends with the result `label`."""

    source: str
    target: str
    label: str = "done"


@dataclass(frozen=True)
class PipelineGraph:
    """A pipeline as a directed acyclic graph.

    Attributes:
        parallel: whether branches run at the same time.

    Raises:
        SetupError: an edge to an unknown node, a label that its source never emits, no single
            start, a cycle, a join with one edge into it, or a task that needs a model without a
            training before it.
    """

    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...] = ()
    parallel: bool = field(default=False, compare=True)

    def __post_init__(self) -> None:
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    raise SetupError(f"an edge of a pipeline ends at '{end}', which is not a node.")
            emitted = (
                ("pass", "fail") if isinstance(self.nodes[edge.source], MetricGate) else ("done",)
            )
            if edge.label not in emitted:
                allowed = ", ".join(emitted)
                raise SetupError(
                    f"'{edge.source}' never emits '{edge.label}'; allowed on its edges: {allowed}."
                )
        ways_in = {name: sum(e.target == name for e in self.edges) for name in self.nodes}
        begins = [name for name, ways in ways_in.items() if not ways]
        if len(begins) != 1:
            raise SetupError(f"a pipeline must begin at one node; this one has {len(begins)}.")
        for name, node in self.nodes.items():
            if isinstance(node, Join) and ways_in[name] < 2:
                raise SetupError(f"join '{name}' has {ways_in[name]} incoming edges; it needs two.")
        self.order  # noqa: B018 - refuses a way back now
        self._check_training()

    @property
    def start(self) -> str:
        """Name of the first node to run."""
        targets = {edge.target for edge in self.edges}
        return next(name for name in self.nodes if name not in targets)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the nodes in topological order."""
        left = {name: sum(e.target == name for e in self.edges) for name in self.nodes}
        free = deque(name for name, ways in left.items() if not ways)
        ordered = []
        while free:
            name = free.popleft()
            ordered.append(name)
            for edge in self.edges:
                if edge.source == name:
                    left[edge.target] -= 1
                    if not left[edge.target]:
                        free.append(edge.target)
        if len(ordered) != len(self.nodes):
            around = ", ".join(name for name in self.nodes if name not in ordered)
            raise SetupError(f"a pipeline must not have a cycle; these nodes form one: {around}.")
        return tuple(ordered)

    def targets(self, name: str, label: str) -> tuple[str, ...]:
        """Return the successors of a node along edges with this label, in order."""
        return tuple(e.target for e in self.edges if e.source == name and e.label == label)

    def ways_in(self, name: str) -> int:
        """Return the number of incoming edges of a node."""
        return sum(edge.target == name for edge in self.edges)

    def _check_training(self) -> None:
        trained: dict[str, bool] = {}
        for name in self.order:
            node = self.nodes[name]
            before = [trained[edge.source] for edge in self.edges if edge.target == name]
            has_model = any(before) if isinstance(node, Join) else bool(before) and all(before)
            needs = isinstance(node, MetricGate) or (
                isinstance(node, PipelineTask) and node.kind not in ("preprocess", "train")
            )
            if needs and not has_model:
                raise SetupError(f"'{name}' needs a model, but no training comes before it.")
            trained[name] = has_model or (isinstance(node, PipelineTask) and node.kind == "train")

    @cached_property
    def line(self) -> tuple[PipelineTask | MetricGate, ...] | None:
        """Nodes in order if the graph is a chain without branches for failed gates, else None."""
        row: list[PipelineTask | MetricGate] = []
        name: str | None = self.start
        while name is not None:
            node = self.nodes[name]
            if isinstance(node, Join) or self.targets(name, "fail"):
                return None
            row.append(node)
            after = self.targets(name, "pass" if isinstance(node, MetricGate) else "done")
            if len(after) > 1:
                return None
            name = after[0] if after else None
        return tuple(row) if len(row) == len(self.nodes) else None

    def walk(self) -> Generator[tuple[str, Node], str, None]:
        """Yield each node in execution order; the caller sends back the node's result label.

        The caller sends the label that the node emitted.
        """
        taken: dict[str, int] = {}
        ready = deque([self.start])
        while ready:
            name = ready.popleft()
            label = yield name, self.nodes[name]
            for target in self.targets(name, label):
                taken[target] = taken.get(target, 0) + 1
                is_join = isinstance(self.nodes[target], Join)
                if not is_join or taken[target] == self.ways_in(target):
                    ready.append(target)


def line_of(*nodes: PipelineTask | MetricGate) -> PipelineGraph:
    """Return a pipeline that runs the nodes in sequence and stops at a failed gate."""
    names: list[str] = []
    for node in nodes:
        plain = node.kind if isinstance(node, PipelineTask) else "gate"
        taken = sum(name.split(" ")[0] == plain for name in names)
        names.append(plain if not taken else f"{plain} {taken + 1}")
    edges = tuple(
        Edge(source, target, "pass" if isinstance(node, MetricGate) else "done")
        for source, target, node in zip(names, names[1:], nodes, strict=False)
    )
    return PipelineGraph(dict(zip(names, nodes, strict=True)), edges)


PATIENCE_S = 4 * 3600.0
"""Wait that counts, for `potential`, as much as a model that lost all its performance."""


@dataclass(frozen=True, slots=True, eq=False)
class ResourceRequest:
    """A queued task that waits for a free slot of a resource.

    Attributes:
        priority: priority of the pipeline; higher is sooner.
        seconds: expected computing time.
        potential: function of time to the expected gain of the model, 0 to 1.
    """

    asked_s: float
    user: int
    priority: float
    seconds: float
    potential: Callable[[float], float]
    weight: float
    ticket: Any


class QueueDiscipline(Protocol):
    """A queue of requests for one resource, which decides on their order."""

    def push(self, request: ResourceRequest) -> None:
        """Add a request to the queue."""

    def pop(self, now_s: float) -> ResourceRequest:
        """Remove and return the next request; the queue must not be empty."""

    def served(self, user: int, seconds: float) -> None:
        """Record the computing seconds that a task of this user took."""

    def __len__(self) -> int: ...


class FifoDiscipline:
    """A queue in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[ResourceRequest] = deque()

    def push(self, request: ResourceRequest) -> None:
        """Add a request at the end of the queue."""
        self._waiting.append(request)

    def pop(self, now_s: float) -> ResourceRequest:  # noqa: ARG002 - independent of time
        """Remove and return the oldest request."""
        return self._waiting.popleft()

    def served(self, user: int, seconds: float) -> None:
        """Do nothing, because this discipline ignores computing time."""

    def __len__(self) -> int:
        return len(self._waiting)


class PriorityDiscipline:
    """A queue by priority, with first come, first served among equal priorities."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, ResourceRequest]] = []
        self._came = 0

    def push(self, request: ResourceRequest) -> None:
        """Insert a request according to its priority."""
        self._came += 1
        heapq.heappush(self._waiting, (-request.priority, self._came, request))

    def pop(self, now_s: float) -> ResourceRequest:  # noqa: ARG002 - independent of time
        """Remove and return the request with the highest priority."""
        return heapq.heappop(self._waiting)[2]

    def served(self, user: int, seconds: float) -> None:
        """Do nothing, because this discipline ignores computing time."""

    def __len__(self) -> int:
        return len(self._waiting)


class PotentialDiscipline:
    """A queue by expected performance gain per computing hour, plus a bonus for waiting.

    Section III-B of the PipeSim paper leaves the rule open. Ours: potential of the model now,
    times its weight, divided by the expected seconds (Smith's rule), plus the waited share of
    `PATIENCE_S`, so that no request starves.
    """

    def __init__(self) -> None:
        self._waiting: list[ResourceRequest] = []

    def push(self, request: ResourceRequest) -> None:
        """Add a request without sorting, since `pop` computes the scores."""
        self._waiting.append(request)

    def pop(self, now_s: float) -> ResourceRequest:
        """Remove and return the request with the highest score, the oldest among equals."""
        waiting = self._waiting
        best, best_place = -1.0, 0
        for place, request in enumerate(waiting):
            score = potential_score(request, now_s)
            if score > best:
                best, best_place = score, place
        return waiting.pop(best_place)

    def served(self, user: int, seconds: float) -> None:
        """Do nothing, because this discipline ignores computing time."""

    def __len__(self) -> int:
        return len(self._waiting)


def potential_score(request: ResourceRequest, now_s: float) -> float:
    """Return a request's gain per computing hour plus its waiting bonus."""
    hours = max(request.seconds, 60.0) / 3600.0
    gain = request.potential(now_s) * request.weight / hours
    return gain + (now_s - request.asked_s) / PATIENCE_S


class FairDiscipline:
    """A queue that serves the user with the least computing time so far."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[ResourceRequest]] = {}
        self._served: dict[int, float] = {}
        self._n = 0

    def push(self, request: ResourceRequest) -> None:
        """Add a request to the queue of its user."""
        self._waiting.setdefault(request.user, deque()).append(request)
        self._n += 1

    def pop(self, now_s: float) -> ResourceRequest:  # noqa: ARG002 - independent of time
        """Remove and return the first request of the user with the least computing time."""
        user = min(
            self._waiting,
            key=lambda candidate: (
                self._served.get(candidate, 0.0),
                self._waiting[candidate][0].asked_s,
            ),
        )
        request = self._waiting[user].popleft()
        if not self._waiting[user]:
            del self._waiting[user]
        self._n -= 1
        return request

    def served(self, user: int, seconds: float) -> None:
        """Add the computing seconds of a task to the total of its user."""
        self._served[user] = self._served.get(user, 0.0) + seconds

    def __len__(self) -> int:
        return self._n


DISCIPLINES: dict[str, Callable[[], QueueDiscipline]] = {
    "fifo": FifoDiscipline,
    "priority": PriorityDiscipline,
    "potential": PotentialDiscipline,
    "fair": FairDiscipline,
}


def discipline_named(name: str) -> QueueDiscipline:
    """Return an empty queue of the discipline with this name, or raise `UnknownNameError`."""
    if name not in DISCIPLINES:
        raise UnknownNameError("queueing discipline", name, DISCIPLINES)
    return DISCIPLINES[name]()


SEGMENT_BYTES, HEADER_BYTES = 1460, 40
"""Payload and headers of a TCP segment (TCP and IPv4 without options, on Ethernet)."""


@dataclass(frozen=True, slots=True)
class PlatformResource:
    """A cluster that runs up to `capacity` tasks at a time and is paid for even when idle."""

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
    """Data store of all assets; each task gets its full bandwidth, even beside other tasks."""

    latency_s: float = 0.05
    read_bytes_per_s: float = 1e8
    write_bytes_per_s: float = 5e7

    def __post_init__(self) -> None:
        if not (self.latency_s >= 0 and self.read_bytes_per_s > 0 and self.write_bytes_per_s > 0):
            raise SetupError("a data store needs a latency from 0 and bandwidths above 0.")


def traffic_bytes(payload_bytes: float) -> float:
    """Return the network traffic in bytes of a payload, including TCP headers."""
    return payload_bytes + math.ceil(payload_bytes / SEGMENT_BYTES) * HEADER_BYTES


@dataclass(frozen=True)
class Platform:
    """The resources of a platform, with the assignment of task types to them.

    Attributes:
        places: name of the resource, by type of task.
        infrastructure: name of the resource for training, by framework, where it differs.

    Raises:
        SetupError: two resources with one name, or a type of task without a resource.
        UnknownNameError: an unknown resource or type of task.
    """

    resources: tuple[PlatformResource, ...] = (
        PlatformResource("training", 24, cost_per_h=2.5),
        PlatformResource("compute", 4, cost_per_h=0.8),
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
            raise SetupError("a platform needs resources with unique names.")
        for kind in TASKS:
            if kind not in self.places:
                raise SetupError(f"tasks of type '{kind}' have no resource to run on.")
        for kind in self.places:
            if kind not in TASKS:
                raise UnknownNameError("type of task", kind, TASKS)
        for place in (*self.places.values(), *self.infrastructure.values()):
            if place not in names:
                raise UnknownNameError("resource", place, names)

    def resource(self, name: str) -> PlatformResource:
        """Return the resource with this name."""
        for resource in self.resources:
            if resource.name == name:
                return resource
        raise UnknownNameError("resource", name, (candidate.name for candidate in self.resources))

    def having(
        self, name: str, *, capacity: int | None = None, discipline: str | None = None
    ) -> "Platform":
        """Return a copy in which the resource `name` has another capacity or discipline."""
        before = self.resource(name)
        after = replace(
            before,
            capacity=before.capacity if capacity is None else capacity,
            discipline=before.discipline if discipline is None else discipline,
        )
        return replace(
            self,
            resources=tuple(
                after if resource.name == name else resource for resource in self.resources
            ),
        )

    def place_of(self, kind: str, framework: str) -> str:
        """Return the name of the resource that runs tasks of this type and framework."""
        if kind == "train" and framework in self.infrastructure:
            return self.infrastructure[framework]
        return self.places[kind]

    @property
    def cost_per_h(self) -> float:
        """Cost per hour of the capacity of all resources, used or idle."""
        return sum(resource.capacity * resource.cost_per_h for resource in self.resources)
