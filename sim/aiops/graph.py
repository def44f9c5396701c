"""Pipelines as typed task graphs, with decisions and joins (section IV-A1 of the PipeSim paper).

A task that is over emits `done`; a decision emits `pass` or `fail`. An edge carries the label that
makes it taken. Several edges with one label fork; a join begins when all edges into it were taken.
Without parallel execution, which is the paper's assumption, one task runs at a time.
"""

from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sim.errors import SetupError, UnknownNameError

TASKS = ("preprocess", "train", "evaluate", "compress", "harden", "deploy", "monitor")
"""Types of tasks. `monitor` trains and deploys the detector that watches the model."""

METRICS = ("performance", "clever", "size_bytes", "inference_ms")
"""What is known of a model when it was built: quality from 0 to 1, robustness, size, latency."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a type.

    Attributes:
        kind: one of `TASKS`.
        share: of the time that a task of this type takes: fine-tuning takes a part of a training.
    """

    kind: str
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in TASKS:
            raise UnknownNameError("type of task", self.kind, TASKS)
        if not self.share > 0:
            raise SetupError(f"the share of a task is {self.share!r}; allowed is what is above 0.")


@dataclass(frozen=True, slots=True)
class Gate:
    """A decision about a model: pass if every limit is kept.

    Attributes:
        least: smallest allowed value, by metric.
        most: largest allowed value, by metric.
    """

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
    """Waits until every edge into it was taken; takes no time."""


Node = Task | Gate | Join


@dataclass(frozen=True, slots=True)
class Edge:
    """From one node to another, taken when `source` emits `label`."""

    source: str
    target: str
    label: str = "done"


@dataclass(frozen=True)
class PipelineGraph:
    """A pipeline.

    Attributes:
        nodes: by name, at least one.
        edges: between them, without a way back.
        parallel: what follows a fork runs side by side.

    Raises:
        SetupError: an edge to nowhere, a label that its source never emits, no single beginning, a
            way back, a join with one way in, or no training before what needs a model.
    """

    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...] = ()
    parallel: bool = field(default=False, compare=True)

    def __post_init__(self) -> None:
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    raise SetupError(f"an edge of the pipeline ends at '{end}', which is no node.")
            emitted = ("pass", "fail") if isinstance(self.nodes[edge.source], Gate) else ("done",)
            if edge.label not in emitted:
                allowed = ", ".join(emitted)
                raise SetupError(
                    f"'{edge.source}' never emits '{edge.label}'; allowed on its edges: {allowed}."
                )
        ways_in = {name: sum(e.target == name for e in self.edges) for name in self.nodes}
        begins = [name for name, ways in ways_in.items() if not ways]
        if len(begins) != 1:
            raise SetupError(f"a pipeline begins at one node; this one at {len(begins)}.")
        for name, node in self.nodes.items():
            if isinstance(node, Join) and ways_in[name] < 2:
                raise SetupError(f"join '{name}' has {ways_in[name]} ways in; it needs two.")
        self.order  # noqa: B018 - refuses a way back now
        self._check_training()

    @property
    def start(self) -> str:
        """Where it begins."""
        targets = {edge.target for edge in self.edges}
        return next(name for name in self.nodes if name not in targets)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The nodes, each behind all that lead to it."""
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
            raise SetupError(f"a pipeline has no way back; these nodes lead in a circle: {around}.")
        return tuple(ordered)

    def targets(self, name: str, label: str) -> tuple[str, ...]:
        """Return where the edges of a node with a label lead, in order."""
        return tuple(e.target for e in self.edges if e.source == name and e.label == label)

    def ways_in(self, name: str) -> int:
        """Return how many edges lead to a node."""
        return sum(edge.target == name for edge in self.edges)

    def _check_training(self) -> None:
        trained: dict[str, bool] = {}
        for name in self.order:
            node = self.nodes[name]
            before = [trained[edge.source] for edge in self.edges if edge.target == name]
            known = any(before) if isinstance(node, Join) else bool(before) and all(before)
            needs = isinstance(node, Gate) or (
                isinstance(node, Task) and node.kind not in ("preprocess", "train")
            )
            if needs and not known:
                raise SetupError(f"'{name}' needs a model, and no training is before it.")
            trained[name] = known or (isinstance(node, Task) and node.kind == "train")

    @cached_property
    def line(self) -> tuple[Task | Gate, ...] | None:
        """The nodes in a row, if it is a line on which a failed gate ends it; else None."""
        row: list[Task | Gate] = []
        name: str | None = self.start
        while name is not None:
            node = self.nodes[name]
            if isinstance(node, Join) or self.targets(name, "fail"):
                return None
            row.append(node)
            after = self.targets(name, "pass" if isinstance(node, Gate) else "done")
            if len(after) > 1:
                return None
            name = after[0] if after else None
        return tuple(row) if len(row) == len(self.nodes) else None

    def walk(self) -> Generator[tuple[str, Node], str, None]:
        """Yield the nodes in the order in which they run one at a time.

        Who walks sends the label that a node emitted.
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


def line_of(*nodes: Task | Gate) -> PipelineGraph:
    """Return the pipeline that runs nodes one after the other and ends at a failed gate."""
    names: list[str] = []
    for node in nodes:
        plain = node.kind if isinstance(node, Task) else "gate"
        taken = sum(name.split(" ")[0] == plain for name in names)
        names.append(plain if not taken else f"{plain} {taken + 1}")
    edges = tuple(
        Edge(source, target, "pass" if isinstance(node, Gate) else "done")
        for source, target, node in zip(names, names[1:], nodes, strict=False)
    )
    return PipelineGraph(dict(zip(names, nodes, strict=True)), edges)
