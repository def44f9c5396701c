"""Models of the settings table ``[application]`` of a sweep file.

Each model is strict and builds its application: command, function, REST, flood, maze, AI platform
and placement.

Models of ``[application]`` of kind ``scheduling``: a cluster over a log, or over futures.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assistant.applications.command import Command, Reading
from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.extensions.placement import (
    FleetPlacement,
    MachineKind,
    machine_kinds,
    usual_machines,
)
from assistant.applications.function import Function
from assistant.applications.measures import JsonFile, JsonOutput, Patterns
from assistant.applications.process_limits import LARGEST_BYTES, MOST_PROCESSES
from assistant.applications.rest import Rest
from assistant.applications.scheduling import DEFAULT_PRESET, CurrentPolicies, Scheduling
from assistant.applications.scheduling_futures import (
    FutureAggregate,
    WorkloadFutures,
    future_scheduling,
)
from assistant.core.bounds import (
    CORES,
    COST_PER_H,
    DURATION_S,
    FACTOR,
    GIBIBYTES,
    GPUS,
    LEVELS,
    MACHINE_COUNTS,
    MACHINES,
    PROCESSES,
    RUNS,
    SEED,
    VALUE,
)
from assistant.core.errors import SettingsError
from assistant.core.objective import Objective
from assistant.core.ports import Environment
from sim.aiops.platform_statistics import statistics_of
from sim.api import (
    Allocation,
    MachineSpec,
    Model,
    SizeError,
    Workload,
    fit,
    generate,
    load_model,
    load_workload,
    parse_duration,
    parse_size,
    published_model,
    read_machines,
    read_openb,
)
from sim.api import format_of as format_of_workload
from strategies import Level, Parameter, ParameterSpace

LevelValue = bool | int | float | str
Number = int | float
BoundedNumber = Annotated[Number, VALUE]


def _duration_s(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _words(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(
            "must be a list with one element per argument (no shell splits a text), such as "
            "['./program', '--size={size}']"
        )
    return value


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _size_bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except SizeError as error:
        raise ValueError(f"should be a size: {error}") from error


SizeBytes = Annotated[int, BeforeValidator(_size_bytes), Field(gt=0, le=LARGEST_BYTES)]
DurationS = Annotated[float, BeforeValidator(_duration_s), DURATION_S]


class StrictModel(BaseModel):
    """Base model of a settings table that rejects unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RangeSettings(StrictModel):
    """Settings ``range = {low, high, step}`` of evenly spaced levels, both ends included."""

    low: BoundedNumber
    high: BoundedNumber
    step: BoundedNumber


class LogarithmicSettings(StrictModel):
    """Settings ``logarithmic = {low, high, count, integer}`` of geometrically spaced levels."""

    low: BoundedNumber
    high: BoundedNumber
    count: Annotated[int, LEVELS]
    integer: bool = False


class ParameterSettings(StrictModel):
    """Settings ``[[parameters]]``: a name, and levels, a range or logarithmic levels."""

    name: str
    levels: list[LevelValue] | None = None
    range: RangeSettings | None = None
    logarithmic: LogarithmicSettings | None = None
    kind: Literal["ordinal", "nominal"] | None = None
    unit: str = ""
    description: str = ""

    @model_validator(mode="after")
    def _one(self) -> "ParameterSettings":
        alternatives = [self.levels, self.range, self.logarithmic]
        if sum(x is not None for x in alternatives) != 1:
            raise ValueError(
                f"for the parameter '{self.name}' give exactly one of levels = [...], "
                "range = {low, high, step} and logarithmic = {low, high, count}"
            )
        return self

    def build(self) -> Parameter:
        """Build the parameter, or raise SpaceError if it is invalid."""
        more: dict[str, Any] = {"unit": self.unit, "description": self.description}
        if self.kind is not None:
            more["kind"] = self.kind
        if self.range is not None:
            ends = self.range
            return Parameter.range(self.name, ends.low, ends.high, ends.step, **more)
        if self.logarithmic is not None:
            log = self.logarithmic
            return Parameter.logarithmic(
                self.name, log.low, log.high, log.count, log.integer, **more
            )
        return Parameter(self.name, tuple(self.levels or ()), **more)


class MeasuresSettings(StrictModel):
    """Settings ``measures``: how to read a run's measures: from output, a file or by patterns."""

    stdout: Literal["json", "last_line"] | None = None
    file: str | None = None
    pattern: Annotated[list[str] | None, BeforeValidator(_several)] = None
    stream: Literal["stdout", "stderr"] | None = None

    @model_validator(mode="after")
    def _one(self) -> "MeasuresSettings":
        alternatives = [self.stdout, self.file, self.pattern]
        if sum(x is not None for x in alternatives) != 1:
            raise ValueError(
                "for the measures give exactly one of stdout = 'json' or 'last_line', file and "
                "pattern"
            )
        if self.stream is not None and self.pattern is None:
            raise ValueError("stream is for a pattern; give a pattern too, or leave out stream")
        return self

    def build(self) -> Reading:
        """Build the reader of the measures, or raise ApplicationError if invalid."""
        if self.pattern is not None:
            return Patterns(tuple(self.pattern), self.stream or "stdout")
        if self.file is not None:
            return JsonFile(self.file)
        return JsonOutput("whole" if self.stdout == "json" else "last_line")


class CommandSettings(StrictModel):
    """Settings ``[application]`` of kind ``command``: a program started for each run."""

    kind: Literal["command"]
    command: Annotated[list[str], BeforeValidator(_words)]
    cwd: str = "."
    env: dict[str, str] = Field(default_factory=dict)
    stdin: str = ""
    inherit: list[str] = Field(default_factory=list)
    limit: DurationS | None = None
    processes: Annotated[int, PROCESSES] = MOST_PROCESSES
    file_size: SizeBytes | None = None
    unused: bool = False
    measures: MeasuresSettings | None = None
    noisy: bool | None = None
    baseline: dict[str, LevelValue] | None = None

    def build(
        self,
        parameters: Sequence[ParameterSettings],
        objective: Objective,
        environment: Environment,
    ) -> Command:
        """Build the command application, or raise ApplicationError or SpaceError."""
        return Command(
            tuple(self.command),
            _space(parameters),
            objective,
            reading=None if self.measures is None else self.measures.build(),
            baseline=_baseline(self.baseline),
            cwd=self.cwd,
            env=self.env,
            inherit=self.inherit,
            stdin=self.stdin,
            limit_s=self.limit,
            processes=self.processes,
            file_bytes=self.file_size,
            environment=environment,
            unused=self.unused,
            noisy=self.noisy,
        )


class FunctionSettings(StrictModel):
    """Settings ``[application]`` of kind ``function``: a Python function called for each run."""

    kind: Literal["function"]
    function: str
    folder: str = ""
    noisy: bool | None = None
    baseline: dict[str, LevelValue] | None = None

    def build(self, parameters: Sequence[ParameterSettings], objective: Objective) -> Function:
        """Build the function application, or raise ApplicationError or SpaceError."""
        return Function.load(
            self.function,
            _space(parameters),
            objective,
            baseline=_baseline(self.baseline),
            folder=self.folder,
            noisy=self.noisy,
        )


class RestSettings(StrictModel):
    """Settings ``[application]`` of kind ``rest``: an HTTP server or client performs the runs."""

    kind: Literal["rest"]
    url: str | None = None
    limit: DurationS | None = None
    noisy: bool | None = None
    baseline: dict[str, LevelValue] | None = None

    def build(self, parameters: Sequence[ParameterSettings], objective: Objective) -> Rest:
        """Build the REST application, or raise ApplicationError or SpaceError."""
        return Rest(
            _space(parameters),
            objective,
            url=self.url,
            baseline=_baseline(self.baseline),
            limit_s=self.limit,
            noisy=self.noisy,
        )


class FloodSettings(StrictModel):
    """Settings ``[application]`` of kind ``flood``: the built-in flood model."""

    kind: Literal["flood"]
    seed: Annotated[int, SEED] = 0

    def build(self) -> Flood:
        """Build the flood application."""
        return Flood(self.seed)


class MazeSettings(StrictModel):
    """Settings ``[application]`` of kind ``maze``: the built-in maze game."""

    kind: Literal["maze"]
    seed: Annotated[int, SEED] = 0
    games: int = Field(default=12, ge=1, le=1000)
    enemies: int = Field(default=5, ge=0, le=100)
    limit: DurationS = 300.0

    def build(self) -> MazeRunner:
        """Build the maze application."""
        return MazeRunner(self.seed, self.games, self.enemies, self.limit)


class AiPlatformSettings(StrictModel):
    """Settings ``[application]`` of kind ``ai_platform``: a simulated AI platform."""

    kind: Literal["ai_platform"]
    seed: Annotated[int, SEED] = 0
    days: float = Field(default=10.0, gt=0, le=400)
    models: int = Field(default=60, ge=1, le=10_000)
    interarrival_factor: Annotated[float, FACTOR] = 6.0
    late_cost_per_h: Annotated[float, COST_PER_H] = 4.0
    wait_cost_per_h: Annotated[float, COST_PER_H] = 0.5
    statistics: str | None = None

    def build(self) -> AiPlatform:
        """Build the AI platform application, or raise SimError."""
        return AiPlatform(
            self.seed,
            self.days,
            self.models,
            self.interarrival_factor,
            self.late_cost_per_h,
            self.wait_cost_per_h,
            None if self.statistics is None else statistics_of(load_model(Path(self.statistics))),
        )


def _space(parameters: Sequence[ParameterSettings]) -> ParameterSpace:
    return ParameterSpace(tuple(parameter.build() for parameter in parameters))


def _baseline(levels: dict[str, LevelValue] | None) -> dict[str, Level] | None:
    return None if levels is None else dict(levels)


GIB = 2**30


class MachineSettings(StrictModel):
    """Settings ``[[application.machines]]``: type, count and price of machines."""

    name: str
    cores: Annotated[int, CORES]
    count: Annotated[int, MACHINES]
    counts: list[Annotated[int, MACHINE_COUNTS]] = Field(default_factory=list)
    price_per_h: Annotated[float, COST_PER_H] = 1.0
    mem_gib: Annotated[float, GIBIBYTES] | None = None
    disk_gib: Annotated[float, GIBIBYTES] | None = None
    gpus: Annotated[int, GPUS] = 0
    gpu_model: str = ""
    labels: dict[str, str] = Field(default_factory=dict)

    def build(self) -> MachineKind:
        """Build the machine type, or raise SimError or ApplicationError."""
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


class PlacementSettings(StrictModel):
    """Settings ``[application]`` of kind ``placement``: simulated workloads placed on machines."""

    kind: Literal["placement"]
    trace: str | None = None
    first: Annotated[int, RUNS] | None = None
    model: str | None = None
    generator: str | None = None
    duration: DurationS = 86_400.0
    scale: Annotated[float, FACTOR] = 0.05
    count: int = Field(default=1, ge=1, le=100)
    seed: Annotated[int, SEED] = 0
    nodes: str | None = None
    prices: dict[str, Annotated[float, COST_PER_H]] = Field(default_factory=dict)
    machines: list[MachineSettings] = Field(default_factory=list)
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    baseline: dict[str, LevelValue] = Field(default_factory=dict)
    options: dict[str, BoundedNumber] = Field(default_factory=dict)
    wait_cost_per_h: Annotated[float, COST_PER_H] = 10.0
    beyond_at_most: float = Field(default=0.05, ge=0, le=1)
    wait_at_most: DurationS | None = None

    @model_validator(mode="after")
    def _one(self) -> "PlacementSettings":
        if sum(x is not None for x in (self.trace, self.model, self.generator)) > 1:
            raise ValueError(
                "give only one of trace (file of a workload), model (file of a fitted generator) "
                "and generator (name of a published one)"
            )
        generation_keys = {"duration", "scale", "count"} & self.model_fields_set
        if self.trace is not None and generation_keys:
            raise ValueError(
                f"'{min(generation_keys)}' is for drawn workloads; leave it out, or leave out trace"
            )
        if self.first is not None and self.trace is None:
            raise ValueError("'first' is for a trace; name it with trace")
        if self.nodes is not None and self.machines:
            raise ValueError("give nodes, the file of a list of machines, or [[machines]]")
        if self.prices and self.nodes is None:
            raise ValueError(
                "'prices' are for a list of machines; name the list with nodes, or set "
                "price_per_h in [[machines]]"
            )
        return self

    def build(self) -> FleetPlacement:
        """Build the placement application, or raise ApplicationError or SimError."""
        return FleetPlacement(
            workloads=self._workloads(),
            kinds=self._kinds(),
            levels=self.levels,
            current=self.baseline,
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
            kinds = machine_kinds(read_machines(self.nodes), self.prices)
            counts = {name.removesuffix("_machines"): name for name in self.levels}
            return tuple(
                MachineKind(kind.spec, kind.price_per_h, self._counts(counts.get(kind.spec.name)))
                for kind in kinds
            )
        if self.machines:
            return tuple(kind.build() for kind in self.machines)
        return usual_machines()

    def _counts(self, name: str | None) -> tuple[int, ...]:
        """Return the counts that levels allow for a kind of machine."""
        return tuple(n for n in self.levels.get(name or "", []) if type(n) is int)


_KEPT_FITS = 4


class BaselineSettings(StrictModel):
    """Settings ``[application.baseline]``: current scheduling policies of the cluster."""

    order: str = "fcfs"
    backfill: str = "easy"


class FuturesSettings(StrictModel):
    """Settings ``[application.futures]``: generated workloads on which each run is evaluated."""

    model: str | None = None
    generator: str | None = None
    knobs: dict[str, BoundedNumber | str] = Field(default_factory=dict)
    count: int = Field(default=10, ge=1, le=1000)
    duration: DurationS = 7 * 86_400.0
    scale: Annotated[float, FACTOR] = 1.0
    seed: Annotated[int, SEED] = 0
    aggregate: FutureAggregate = "mean"
    quantile: float | None = Field(default=None, gt=0, le=1)
    anew: bool = False

    @model_validator(mode="after")
    def _one(self) -> "FuturesSettings":
        if (self.model is None) == (self.generator is None):
            raise ValueError(
                "give exactly one of model (file of a fitted model) and generator (name of the "
                "generator to fit to the log)"
            )
        if self.knobs and self.generator is None:
            raise ValueError("'knobs' are for a fit; name what to fit with generator")
        if self.quantile is not None and self.aggregate != "quantile":
            raise ValueError("'quantile' needs aggregate = 'quantile'; set both, or leave it out")
        return self

    def build(self, log: Workload | None) -> WorkloadFutures:
        """Build the generated future workloads, with a generator fitted to ``log`` if given.

        Raises:
            SettingsError: a log beside a fitted model, or knobs without a log.
            SimError: no such file or generator, or nothing that can be fitted.
        """
        return WorkloadFutures(
            self._model(log),
            count=self.count,
            duration_s=self.duration,
            scale=self.scale,
            seed=self.seed,
            aggregate=self.aggregate,
            quantile=0.9 if self.quantile is None else self.quantile,
            anew=self.anew,
        )

    def _model(self, log: Workload | None) -> Model:
        if self.model is not None:
            if log is not None:
                raise SettingsError(
                    "the futures come from a model that is fitted already, so the log has no "
                    "effect; leave out log, or name a generator instead of the model"
                )
            return load_model(Path(self.model))
        if self.generator is None:
            raise AssertionError("one of model and generator is checked to be there")
        if log is not None:
            return _fitted(self.generator, log, tuple(sorted(self.knobs.items())))
        if self.knobs:
            raise SettingsError("'knobs' are for a fit to a log; name the log with log")
        return published_model(self.generator)


@lru_cache(maxsize=_KEPT_FITS)
def _fitted(generator: str, log: Workload, knobs: tuple[tuple[str, float | str], ...]) -> Model:
    """Fit once; a log is identified by its digest."""
    return fit(generator, log, dict(knobs))


class SchedulingSettings(StrictModel):
    """Settings ``[application]`` of kind ``scheduling``: a simulated cluster scheduler."""

    kind: Literal["scheduling"] = "scheduling"
    preset: str = DEFAULT_PRESET
    log: str | None = None
    first: Annotated[int, RUNS] | None = None
    procs: int | None = Field(default=None, ge=1, le=10**12)
    baseline: BaselineSettings = BaselineSettings()
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    reading: dict[str, str] = Field(default_factory=dict)
    small_job_below: DurationS = 3600.0
    small_job_wait: DurationS = 10800.0
    too_wide: Literal["reject", "clip"] = "reject"
    overrun: Literal["raise", "kill", "extend"] = "raise"
    grace: DurationS | None = None
    split: bool | None = None
    options: dict[str, LevelValue] = Field(default_factory=dict)
    allocation: Allocation | None = None
    machine_procs: int | None = Field(default=None, ge=1, le=10**12)
    futures: FuturesSettings | None = None

    def build(self, workload: Workload, workers: int) -> Scheduling:
        """Build the scheduling application, or raise AssistantError or SimError."""
        arguments: dict[str, Any] = {
            "procs": self.procs,
            "current_policies": CurrentPolicies(self.baseline.order, self.baseline.backfill),
            "levels": {name: tuple(levels) for name, levels in self.levels.items()},
            "small_job_below_s": self.small_job_below,
            "small_job_wait_s": self.small_job_wait,
            "too_wide": self.too_wide,
            "overrun": self.overrun,
            "preset": self.preset,
            "split": self.split,
            "options": self.options,
            "grace_s": self.grace or 0.0,
            "allocation": self.allocation,
            "machine_procs": self.machine_procs,
        }
        if self.futures is None:
            return Scheduling(workload, **arguments)
        futures = self.futures.build(None if self.log is None else workload)
        return future_scheduling(futures, threads=None if workers == 1 else 1, **arguments)
