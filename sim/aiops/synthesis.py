"""Synthetic pipelines and assets, drawn in blocks, and the scenario of a platform simulation.

Section IV-B of the PipeSim paper, with its three prototypes (figure 1): simple, extended with more
steps, hierarchical with transfer learning. The steps of a pipeline depend on each other: a model
is trained before it is validated, only networks are compressed or hardened, only deployed models
are monitored. Each quantity has its own random stream. Table I of the paper gives the effect of
pruning.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sim.aiops.fleet import FleetPlan
from sim.aiops.platform import TASKS, MetricGate, PipelineGraph, PipelineTask, Platform, line_of
from sim.aiops.platform_statistics import (
    GRID,
    PROFILES,
    PlatformStatistics,
    check_shares,
    published_statistics,
)
from sim.generators.generator import RandomStreams
from sim.model.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


PRUNED = (0.0, 0.2, 0.4, 0.6, 0.8)
ACCURACY = {"GoogleNet": (80.7, 80.9, 80.0, 77.7, 69.8), "ResNet50": (81.3, 80.9, 80.8, 79.5, 69.8)}
SIZE_MB = {"GoogleNet": (42.5, 28.7, 20.9, 14.6, 8.5), "ResNet50": (91.1, 83.5, 65.2, 41.9, 8.5)}
INFERENCE_MS = {"GoogleNet": (128, 117, 100, 84, 71), "ResNet50": (223, 200, 169, 141, 72)}
"""Measured on Food101 with Caffe: percent, megabytes, milliseconds, at each level of `PRUNED`."""

NETWORKS = ("GoogleNet", "ResNet50", "mean")


def compression_factors(pruned: Floats, network: str = "mean") -> tuple[Floats, Floats, Floats]:
    """Return the factors by which pruning changes accuracy, size and inference time.

    Args:
        pruned: removed shares of the weights, 0 to 0.8.
        network: measured network; `mean` is the mean of both.

    Raises:
        UnknownNameError: no such network.
        SetupError: a share out of range.
    """
    if network not in NETWORKS:
        raise UnknownNameError("measured network", network, NETWORKS)
    if len(pruned) and not (np.min(pruned) >= 0 and np.max(pruned) <= PRUNED[-1]):
        raise SetupError("the pruned share of a network must be from 0 to 0.8, as measured.")
    names = NETWORKS[:2] if network == "mean" else (network,)
    accuracy, size, inference = (
        np.mean(
            [np.interp(pruned, PRUNED, np.array(measured[n]) / measured[n][0]) for n in names],
            axis=0,
        )
        for measured in (ACCURACY, SIZE_MB, INFERENCE_MS)
    )
    return accuracy, size, inference


PROTOTYPES = ("simple", "extended", "hierarchical")
PREDICTIONS = {"binary": 0.5, "multiclass": 0.3, "regression": 0.2}
YEAR_S = 365 * 86_400.0

PREPROCESS, TRAIN, EVALUATE, COMPRESS, HARDEN, DEPLOY, MONITOR = range(len(TASKS))

FINE_TUNING = 0.25  # share of a training that the adaptation of a base model takes (ours)

VALIDATION_SHARE = 0.2  # share of the data that an evaluation reads, and a detector as well (ours)

_PRUNED = (0.2, 0.4, 0.6, 0.8)
_SIZE_BYTES = {
    "linear": (2e4, 1.0),
    "forest": (2e6, 1.2),
    "boosting": (1e6, 1.0),
    "network": (4e7, 1.0),
}
_INFERENCE_MS = {
    "linear": (0.5, 0.4),
    "forest": (4.0, 0.5),
    "boosting": (2.0, 0.5),
    "network": (60.0, 0.6),
}
"""Median and spread of the logarithm, by estimator type (ours); other types count as networks."""


@dataclass(frozen=True)
class SynthesisSettings:
    """Settings of synthetic pipelines; the defaults are not from the PipeSim paper.

    Attributes:
        prototypes: shares of `PROTOTYPES`.
        preprocess: probability that data are prepared first.
        compress: probability that a network is compressed, by prototype.
        harden: probability that an evaluated network is hardened, in extended pipelines.
        pareto: exponent of pipelines per user; 1.16 gives 80 percent to 20 percent of the users.
        trend: factor per year on the share of a framework; 1.5 grows by half.
        gate: limits on a model after its evaluation; None lets all pass.

    Raises:
        SetupError: a value that is no probability, shares that do not sum to 1, or no user.
    """

    prototypes: Mapping[str, float] = field(
        default_factory=lambda: {"simple": 0.6, "extended": 0.3, "hierarchical": 0.1}
    )
    preprocess: float = 0.75
    evaluate: float = 0.9
    compress: Mapping[str, float] = field(
        default_factory=lambda: {"simple": 0.0, "extended": 0.5, "hierarchical": 0.1}
    )
    harden: float = 0.4
    deploy: float = 0.8
    monitor: float = 0.5
    n_users: int = 200
    pareto: float = 1.16
    trend: Mapping[str, float] = field(default_factory=dict)
    gate: MetricGate | None = None

    def __post_init__(self) -> None:
        check_shares("prototypes", self.prototypes)
        chances = {
            "preprocess": self.preprocess, "evaluate": self.evaluate, "harden": self.harden,
            "deploy": self.deploy, "monitor": self.monitor,
            **{f"compress of '{name}'": chance for name, chance in self.compress.items()},
        }  # fmt: skip
        for name, chance in chances.items():
            if not 0 <= chance <= 1:
                raise SetupError(f"the probability of {name} is {chance!r}; allowed is 0 to 1.")
        for name in (*self.prototypes, *self.compress):
            if name not in PROTOTYPES:
                raise SetupError(f"'{name}' is not a prototype; known: {', '.join(PROTOTYPES)}.")
        if self.n_users < 1 or not self.pareto > 0:
            raise SetupError("pipelines need at least one user and a Pareto exponent above 0.")
        for name, factor in self.trend.items():
            if not (math.isfinite(factor) and factor > 0):
                raise SetupError(f"the trend of '{name}' is {factor!r}; it must be above 0.")


@dataclass(frozen=True, eq=False)
class Plans:
    """A block of n synthetic pipelines with all drawn properties, before they run.

    Attributes:
        arrived_s, priority: float64 [n].
        user, framework, estimator, prediction, prototype: int64 [n], indices of the names.
        graph: int64 [n], indices of `Synthesiser.graphs`.
        sizes: float64 [n, 3], rows, columns, bytes of the data.
        layers: int64 [n], of networks; 0 for other models.
        pruned: float64 [n], share of the weights that compression would remove.
        metrics: float64 [n, 4], performance, CLEVER score, size, inference time after training.
        compressed, hardened: float64 [n, 4], factors on the metrics.
        seconds: float64 [n, 7], computing time by type of task.
        read_bytes, write_bytes: float64 [n, 7], by type of task.
    """

    first: int
    arrived_s: Floats
    user: Ints
    framework: Ints
    estimator: Ints
    prediction: Ints
    prototype: Ints
    priority: Floats
    graph: Ints
    sizes: Floats
    layers: Ints
    pruned: Floats
    metrics: Floats
    compressed: Floats
    hardened: Floats
    seconds: Floats
    read_bytes: Floats
    write_bytes: Floats

    def __len__(self) -> int:
        return len(self.arrived_s)


class Synthesiser:
    """Random generator of synthetic pipelines, in blocks."""

    def __init__(
        self, statistics: PlatformStatistics, recipe: SynthesisSettings, streams: RandomStreams
    ) -> None:
        self.statistics, self.recipe = statistics, recipe
        self.frameworks = tuple(statistics.mix)
        self.estimators = tuple(statistics.performance)
        self.graphs: list[PipelineGraph] = []
        self._graph_ids: dict[tuple[int, ...], int] = {}
        self._streams = streams
        self._rngs: dict[str, np.random.Generator] = {}
        weights = 1 / np.arange(1, recipe.n_users + 1) ** (1 / recipe.pareto)
        self._users_until = np.cumsum(weights) / weights.sum()

    def _rng(self, name: str) -> np.random.Generator:
        if name not in self._rngs:
            self._rngs[name] = self._streams.of(name)
        return self._rngs[name]

    def _uniform(self, name: str, n: int) -> Floats:
        return self._rng(name).random(n)

    def plan(self, first: int, arrived_s: Floats) -> Plans:
        """Draw one pipeline for each arrival time; the pipelines are numbered from `first`."""
        n, recipe = len(arrived_s), self.recipe
        framework = self._framework(arrived_s)
        estimator = self._estimator(framework)
        is_network = np.array([name == "network" for name in self.estimators])[estimator]
        shares = [recipe.prototypes.get(name, 0.0) for name in PROTOTYPES]
        prototype = _choose(self._uniform("prototype", n), shares)
        chances = np.array([recipe.compress.get(name, 0.0) for name in PROTOTYPES])
        has = np.ones((n, len(TASKS)), dtype=bool)
        has[:, PREPROCESS] = self._uniform("preprocess", n) < recipe.preprocess
        has[:, EVALUATE] = self._uniform("evaluate", n) < recipe.evaluate
        has[:, COMPRESS] = is_network & (self._uniform("compress", n) < chances[prototype])
        has[:, HARDEN] = (
            is_network & has[:, EVALUATE] & (prototype == PROTOTYPES.index("extended"))
            & (self._uniform("harden", n) < recipe.harden)
        )  # fmt: skip
        has[:, DEPLOY] = has[:, EVALUATE] & (self._uniform("deploy", n) < recipe.deploy)
        has[:, MONITOR] = has[:, DEPLOY] & (self._uniform("monitor", n) < recipe.monitor)
        sizes = self.statistics.assets.sample(self._rng("assets"), n)
        sizes[:, :2] = np.floor(sizes[:, :2])
        metrics = self.metrics(estimator, is_network)
        pruned = np.array(_PRUNED)[self._rng("pruned").integers(len(_PRUNED), size=n)]
        accuracy, size, inference = compression_factors(pruned)
        ones = np.ones(n)
        layers = np.where(is_network, 2 + self._rng("layers").poisson(10.0, n), 0)
        read, write = _bytes(sizes[:, 2], metrics[:, 2])
        return Plans(
            first, arrived_s, np.searchsorted(self._users_until, self._uniform("user", n)),
            framework, estimator,
            _choose(self._uniform("prediction", n), list(PREDICTIONS.values())), prototype,
            np.floor(3 * self._uniform("priority", n)), self._graph_places(prototype, has), sizes,
            layers, pruned, metrics, np.column_stack([accuracy, ones, size, inference]),
            np.column_stack([0.99 * ones, 1.5 * ones, ones, ones]),
            self.seconds(framework, sizes), read, write,
        )  # fmt: skip

    def _framework(self, arrived_s: Floats) -> Ints:
        shares = np.array(list(self.statistics.mix.values()))
        u = self._uniform("framework", len(arrived_s))
        if not self.recipe.trend:
            return _choose(u, shares.tolist())
        growth = np.log([self.recipe.trend.get(name, 1.0) for name in self.frameworks])
        weights = shares * np.exp(growth * (arrived_s / YEAR_S)[:, None])
        until = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
        return _place(u, until)

    def _estimator(self, framework: Ints) -> Ints:
        shares = np.array(
            [
                [
                    self.statistics.estimators[name].get(estimator, 0.0)
                    for estimator in self.estimators
                ]
                for name in self.frameworks
            ]
        )
        until = np.cumsum(shares, axis=1)[framework]
        u = self._uniform("estimator", len(framework)) * until[:, -1]
        return _place(u, until)

    def metrics(self, estimator: Ints, is_network: NDArray[np.bool_]) -> Floats:
        """Draw performance, CLEVER score, size and inference time of models: float64 [n, 4]."""
        n = len(estimator)
        u, performance = self._uniform("performance", n), np.empty(n)
        for place, name in enumerate(self.estimators):
            which = estimator == place
            performance[which] = np.interp(u[which], GRID, self.statistics.performance[name])
        clever = np.where(
            is_network, 0.4 * np.exp(0.5 * self._rng("clever").standard_normal(n)), 1.0
        )
        columns = []
        for stream, table in (("size", _SIZE_BYTES), ("inference", _INFERENCE_MS)):
            law_parameters = np.array(
                [table.get(name, table["network"]) for name in self.estimators]
            )
            spread = self._rng(stream).standard_normal(n) * law_parameters[estimator, 1]
            columns.append(law_parameters[estimator, 0] * np.exp(spread))
        return np.column_stack([performance, clever, *columns])

    def seconds(self, framework: Ints, sizes: Floats) -> Floats:
        """Draw the computing seconds of each pipeline by task type, float64 [n, 7]."""
        n, statistics = len(framework), self.statistics
        durations = np.empty((n, len(TASKS)))
        durations[:, PREPROCESS] = statistics.preprocess.sample(
            self._rng("preprocess seconds"), sizes[:, 0] * sizes[:, 1]
        )
        for place, name in enumerate(self.frameworks):
            which = np.flatnonzero(framework == place)
            samples = statistics.train[name].sample(self._rng(f"train {name}"), len(which))
            durations[which, TRAIN] = samples[:, 0]
        for kind in (EVALUATE, DEPLOY, MONITOR):
            law = statistics.seconds[TASKS[kind]]
            durations[:, kind] = law.sample(self._rng(f"{TASKS[kind]} seconds"), n)[:, 0]
        for kind in (COMPRESS, HARDEN):
            noise = self._rng(f"{TASKS[kind]} noise").standard_normal(n)
            factor = np.maximum(1 + statistics.like_training[TASKS[kind]] * noise, 0.05)
            durations[:, kind] = durations[:, TRAIN] * factor
        return durations

    def _graph_places(self, prototype: Ints, has: NDArray[np.bool_]) -> Ints:
        codes = prototype * 2 ** len(TASKS) + has @ (2 ** np.arange(len(TASKS)))
        unique, inverse = np.unique(codes, return_inverse=True)
        places = []
        for code in unique.tolist():
            key = (code,)
            if key not in self._graph_ids:
                kinds = tuple(k for k in range(len(TASKS)) if code >> k & 1)
                self._graph_ids[key] = len(self.graphs)
                name = PROTOTYPES[code >> len(TASKS)]
                self.graphs.append(prototype_graph(name, kinds, self.recipe.gate))
            places.append(self._graph_ids[key])
        return np.array(places, dtype=np.int64)[inverse]


@cache
def prototype_graph(
    prototype: str, kinds: tuple[int, ...], gate: MetricGate | None
) -> PipelineGraph:
    """Return the pipeline graph of a prototype that contains only these types of tasks.

    Args:
        prototype: one of `PROTOTYPES`; a hierarchical one trains a base model and adapts it.
        kinds: indices of `TASKS`; training is always included.
        gate: gate after every evaluation, or None.
    """
    nodes: list[PipelineTask | MetricGate] = []
    present_kinds = set(kinds) | {TRAIN}
    check: list[PipelineTask | MetricGate] = (
        [PipelineTask("evaluate")] if EVALUATE in present_kinds else []
    )
    if check and gate is not None:
        check.append(gate)
    if PREPROCESS in present_kinds:
        nodes.append(PipelineTask("preprocess"))
    nodes.append(PipelineTask("train"))
    if prototype == "hierarchical":
        nodes.append(PipelineTask("train", FINE_TUNING))
    if HARDEN in present_kinds:
        nodes.append(PipelineTask("harden"))
    if COMPRESS in present_kinds:
        nodes.append(PipelineTask("compress"))
    nodes += check
    nodes += [PipelineTask(TASKS[kind]) for kind in (DEPLOY, MONITOR) if kind in present_kinds]
    return line_of(*nodes)


def _choose(u: Floats, shares: list[float]) -> Ints:
    until = np.cumsum(shares) / np.sum(shares)
    return np.minimum(np.searchsorted(until, u, side="right"), len(shares) - 1)


def _place(u: Floats, until: Floats) -> Ints:
    return np.asarray(np.minimum((u[:, None] >= until).sum(axis=1), until.shape[1] - 1))


def _bytes(data: Floats, model: Floats) -> tuple[Floats, Floats]:
    none, part = np.zeros(len(data)), VALIDATION_SHARE * data
    read = [data, data, model + part, model, model + data, model, part]
    write = [data, model, none, model, model, none, none]
    return np.column_stack(read), np.column_stack(write)


def delays_s(platform: Platform, plans: Plans) -> tuple[Floats, Floats]:
    """Return the seconds of reading and of writing data by task type, two float64 [n, 7] arrays.

    An operation takes the latency plus bytes by bandwidth; without bytes it takes no time.
    """
    store = platform.store
    read = np.where(plans.read_bytes > 0, store.latency_s, 0.0)
    write = np.where(plans.write_bytes > 0, store.latency_s, 0.0)
    return (
        read + plans.read_bytes / store.read_bytes_per_s,
        write + plans.write_bytes / store.write_bytes_per_s,
    )


@dataclass(frozen=True)
class PipelineSubmission:
    """A user-defined pipeline with its submission time."""

    at_s: float
    graph: PipelineGraph
    user: int = 0


@dataclass(frozen=True)
class PlatformScenario:
    """All settings of one platform simulation.

    Attributes:
        profile: arrival profile, one of `sim.aiops.platform_statistics.PROFILES`, or `none` for no
            random arrivals.
        duration_s: end of all arrivals and, without `drain`, of the simulation.
        drain: whether the simulation goes on until all arrived pipelines have ended.
    """

    platform: Platform = field(default_factory=Platform)
    statistics: PlatformStatistics = field(default_factory=published_statistics)
    recipe: SynthesisSettings = field(default_factory=SynthesisSettings)
    profile: str = "realistic"
    interarrival_factor: float = 1.0
    start_s: float = 0.0
    duration_s: float = 7 * 86_400.0
    drain: bool = False
    fleet: FleetPlan = field(default_factory=FleetPlan)
    submissions: tuple[PipelineSubmission, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.profile not in (*PROFILES, "none"):
            raise UnknownNameError("arrival profile", self.profile, (*PROFILES, "none"))
        for name, value in (
            ("interarrival_factor", self.interarrival_factor),
            ("duration_s", self.duration_s),
        ):
            if not (math.isfinite(value) and value > 0):
                raise SetupError(f"{name} is {value!r}; allowed are numbers above 0.")
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise SetupError(f"start_s is {self.start_s!r}; allowed are seconds from 0.")
        if type(self.seed) is not int or self.seed < 0:
            raise SetupError(f"the seed is {self.seed!r}; allowed are whole numbers from 0.")
        if self.drain and self.fleet.n_models:
            raise SetupError("a platform that watches models never ends; leave out drain.")
        for submission in self.submissions:
            if not 0 <= submission.at_s < self.duration_s:
                raise SetupError(
                    f"a submission at {submission.at_s!r} s is not within the simulated time."
                )
