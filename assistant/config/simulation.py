"""Models of ``[application]`` that the simulator executes, and of the testbeds.

Each model is strict and builds its application: a cluster over a log or over futures, machines
under workloads, an AI platform, flood and maze.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import model_validator

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.extensions.placement import (
    FleetPlacement,
    MachineKind,
    machine_kinds,
    usual_machines,
)
from assistant.applications.scheduling import ClusterPower, CurrentPolicies, Scheduling
from assistant.applications.scheduling_futures import (
    FutureAggregate,
    WorkloadFutures,
    future_scheduling,
)
from assistant.applications.scheduling_parameters import HALVINGS, MOST_HALVINGS, POWER_CAP
from assistant.applications.scheduling_presets import DEFAULT_PRESET, preset_named
from assistant.config.fields import (
    BoundedNumber,
    DurationS,
    LevelValue,
    StrictModel,
    setting,
)
from assistant.core.bounds import (
    CORES,
    COST_PER_H,
    FACTOR,
    GIBIBYTES,
    GPUS,
    HOUR_OF_DAY,
    MACHINE_COUNTS,
    MACHINES,
    PRICE,
    RUNS,
    SEED,
    WATTS,
)
from assistant.core.errors import SettingsError
from sim.aiops import statistics_of
from sim.api import Allocation, MachineSpec, NodePower, Workload, load_workload, read_machines
from sim.generators import Model, fit, generate, load_model, published_model

if TYPE_CHECKING:
    from sim.formats import AccountTree
    from sim.generators import Moldability


class FloodSettings(StrictModel):
    """Settings ``[application]`` of kind ``flood``: the built-in flood model."""

    kind: Literal["flood"] = setting("What a run executes.")
    seed: Annotated[int, SEED] = setting(
        "Seed of the simulation's random choices, the same for all configurations.", 0
    )

    def build(self) -> Flood:
        """Build the flood application."""
        return Flood(self.seed)


class MazeSettings(StrictModel):
    """Settings ``[application]`` of kind ``maze``: the built-in maze game."""

    kind: Literal["maze"] = setting("What a run executes.")
    seed: Annotated[int, SEED] = setting(
        "Seed of the simulation's random choices, the same for all configurations.", 0
    )
    games: int = setting("Number of games, each in a maze of its own.", 12, ge=1, le=1000)
    enemies: int = setting("Number of enemies in each maze.", 5, ge=0, le=100)
    limit: DurationS = setting("A game that is not won by then counts with it.", 300.0)

    def build(self) -> MazeRunner:
        """Build the maze application."""
        return MazeRunner(self.seed, self.games, self.enemies, self.limit)


class AiPlatformSettings(StrictModel):
    """Settings ``[application]`` of kind ``ai_platform``: a simulated AI platform."""

    kind: Literal["ai_platform"] = setting("What a run executes.")
    seed: Annotated[int, SEED] = setting(
        "Seed of the simulation's random choices, the same for all configurations.", 0
    )
    days: float = setting("Simulated days.", 10.0, gt=0, le=400)
    models: int = setting("Number of deployed models, watched and retrained.", 60, ge=1, le=10_000)
    interarrival_factor: Annotated[float, FACTOR] = setting(
        "Factor on the published gaps between other pipelines.", 6.0
    )
    late_cost_per_h: Annotated[float, COST_PER_H] = setting(
        "Cost of a model that lost more performance than its SLA allows.", 4.0
    )
    wait_cost_per_h: Annotated[float, COST_PER_H] = setting("Cost of a pipeline that waits.", 0.5)
    statistics: str | None = setting(
        "File of statistics fitted to your logs.", None, usual="published ones"
    )

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


GIB = 2**30


class MachineSettings(StrictModel):
    """Settings ``[[application.machines]]``: type, count and price of machines."""

    name: str = setting("Name of the kind of machine.")
    cores: Annotated[int, CORES] = setting("Cores of each machine.")
    count: Annotated[int, MACHINES] = setting("Number of machines now.")
    counts: list[Annotated[int, MACHINE_COUNTS]] = setting(
        "Levels of the number.", [], usual="it stays fixed"
    )
    price_per_h: Annotated[float, COST_PER_H] = setting("Price of each machine.", 1.0)
    mem_gib: Annotated[float, GIBIBYTES] | None = setting(
        "Memory of each machine.", None, usual="no limit"
    )
    disk_gib: Annotated[float, GIBIBYTES] | None = setting(
        "Disk of each machine.", None, usual="no limit"
    )
    gpus: Annotated[int, GPUS] = setting("GPUs of each machine.", 0)
    gpu_model: str = setting("The label that pods may demand.", "")
    labels: dict[str, str] = setting("Further labels.", {})

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

    kind: Literal["placement"] = setting("What a run executes.")
    preset: Literal["kube_scheduler"] | None = setting(
        "The question, which opens parameters.", None, usual="every policy"
    )
    trace: str | None = setting("File of the workload.", None)
    first: Annotated[int, RUNS] | None = setting("Use only the first jobs of the trace.", None)
    model: str | None = setting("File of a model that draws the workload.", None)
    generator: str | None = setting("Name of a generator that draws the workload.", None)
    duration: DurationS = setting("Length of a generated workload.", 86_400.0)
    scale: Annotated[float, FACTOR] = setting("Factor on the rate of arrivals.", 0.05)
    count: int = setting(
        "Number of generated workloads; the result of a run is the mean over them.", 1, ge=1, le=100
    )
    seed: Annotated[int, SEED] = setting(
        "Seed of the simulation's random choices, the same for all configurations.", 0
    )
    nodes: str | None = setting("File with a list of machines, in place of `machines`.", None)
    prices: dict[str, Annotated[float, COST_PER_H]] = setting(
        "Price per hour by kind of machine, with `nodes`.", {}
    )
    machines: list[MachineSettings] = setting("Kinds of machines.", [])
    levels: dict[str, list[LevelValue]] = setting(
        "Levels of your own by parameter; an empty list closes a parameter.", {}
    )
    baseline: dict[str, LevelValue] = setting("What else is current: policies by name.", {})
    options: dict[str, BoundedNumber] = setting("Options of policies, by name.", {})
    learned: dict[str, str] = setting(
        "Files of trained schedulers (.npz), by their names as levels of `placement`.", {}
    )
    wait_cost_per_h: Annotated[float, COST_PER_H] = setting("Cost of a job that waits.", 10.0)
    beyond_at_most: float = setting(
        "Share of held processors that may exceed the existing ones.", 0.05, ge=0, le=1
    )
    wait_at_most: DurationS | None = setting(
        "Bound on the wait of 95 % of the jobs.", None, usual="no bound"
    )

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
        learned = {}
        if self.learned:
            from sim.placement import LearnedPlacement

            learned = {name: LearnedPlacement.load(file) for name, file in self.learned.items()}
        return FleetPlacement(
            workloads=self._workloads(),
            kinds=self._kinds(),
            levels=self.levels,
            current=self.baseline,
            options={name: float(value) for name, value in self.options.items()},
            learned=learned,
            wait_cost_per_h=self.wait_cost_per_h,
            beyond_at_most=self.beyond_at_most,
            wait_at_most_s=self.wait_at_most,
            seed=self.seed,
            preset=self.preset,
        )

    def _workloads(self) -> tuple[Workload, ...]:
        if self.trace is not None:
            return (load_workload(self.trace, first=self.first, pending=True),)
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

    order: str = setting("Current queue order.", "fcfs", title="Order of waiting jobs")
    backfill: str = setting("Current backfilling rule.", "easy", title="Backfill")

    def build(self, preset: str) -> CurrentPolicies:
        """Return the current policies; what is not set is as usual for a preset."""
        unset = "backfill" not in self.model_fields_set
        backfill = preset_named(preset).usual_backfill if unset else self.backfill
        return CurrentPolicies(self.order, backfill)


class FuturesSettings(StrictModel):
    """Settings ``[application.futures]``: generated workloads on which each run is evaluated."""

    model: str | None = setting("File of a model, in place of a generator.", None)
    generator: str | None = setting(
        "Name of a generator of workloads, fitted to `log` or as published.", None
    )
    knobs: dict[str, BoundedNumber | str] = setting("Options of the fit.", {})
    count: int = setting("Number of futures.", 10, ge=1, le=1000, title="Number")
    duration: DurationS = setting(
        "Length of each future, in which its jobs are submitted.", 7 * 86_400.0,
        title="Length of each", example="7d",
    )  # fmt: skip
    scale: Annotated[float, FACTOR] = setting("Factor on the rate of arrivals.", 1.0)
    seed: Annotated[int, SEED] = setting(
        "Seed of the futures; more futures of a seed begin with those there were.", 0
    )
    aggregate: FutureAggregate = setting(
        "How a measure is aggregated over the futures.", "mean", title="Result of a run"
    )
    quantile: float | None = setting(
        "With `quantile`: so large a share of the futures is no worse.", None, gt=0, le=1,
        title="Share of futures no worse", example="0.9", usual="0.9",
    )  # fmt: skip
    anew: bool = setting("Every run draws futures of its own.", False)

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


class PowerSettings(StrictModel):
    """Settings ``[application.power]``: watts of a node by state, switching off, and a cap."""

    busy_w: Annotated[float, WATTS] = setting("Watts of a node when all its processors work.")
    idle_w: Annotated[float, WATTS] = setting("Watts of a node when none works.")
    off_w: Annotated[float, WATTS] = setting("Watts of a node that is off.", 0.0)
    boot_w: Annotated[float, WATTS] | None = setting(
        "Watts of a booting node.", None, usual="`busy_w`"
    )
    node_procs: Annotated[int, CORES] = setting("Processors of a node.", 1)
    off_after: DurationS | None = setting(
        "Idle time after which a node is off.", None, usual="never"
    )
    boot: DurationS | None = setting("Time from off to ready.", None, usual="no time")
    price_per_kwh: Annotated[float, PRICE] = setting("Price of a kilowatt hour.", 0.0)
    cap_w: Annotated[float, WATTS] | None = setting(
        "Limit on the watts of all nodes together.", None, usual="no limit"
    )
    cap_from: Annotated[float, HOUR_OF_DAY] = setting(
        "Hour of the day at which the limit begins.", 0.0
    )
    cap_until: Annotated[float, HOUR_OF_DAY] = setting(
        "Hour of the day at which the limit ends; before `cap_from`, it lasts over midnight.", 24.0
    )

    def build(self, *, cap_varies: bool = False) -> ClusterPower:
        """Build the power of a cluster; ``cap_varies`` says that the cap is a parameter.

        Raises SettingsError for hours without a cap, and SimError for watts that make no sense.
        """
        hours_set = sorted({"cap_from", "cap_until"} & self.model_fields_set)
        if hours_set and self.cap_w is None and not cap_varies:
            raise SettingsError(
                f"{' and '.join(hours_set)} without a limit has no effect; add cap_w, or levels of "
                "power_cap_w"
            )
        nodes = NodePower(
            self.busy_w,
            self.idle_w,
            self.off_w,
            self.boot_w,
            node_procs=self.node_procs,
            off_after_s=self.off_after,
            boot_s=self.boot or 0.0,
            price_per_kwh=self.price_per_kwh,
        )
        hours = self.cap_from, self.cap_until
        return ClusterPower(nodes, self.cap_w or 0.0, *(3_600.0 * hour for hour in hours))


class MoldableSettings(StrictModel):
    """Settings ``[application.moldable]``: jobs that may start on fewer processors."""

    halvings: int = setting(
        "How often the first in the queue may halve its processors to end earlier; 0 is never.", 0,
        ge=0, le=MOST_HALVINGS,
    )  # fmt: skip
    parallelism: float = setting(
        "Average parallelism of a job per processor that it requests (Downey's A).", 1.0, gt=0,
        le=1e6,
    )  # fmt: skip
    variance: float = setting(
        "Variance of the parallelism (Downey's sigma); 0 is a linear speedup.", 1.0, ge=0, le=1e3
    )

    def build(self, *, varies: bool = False) -> "Moldability":
        """Build the moldability of jobs; ``varies`` says that the halvings are a parameter.

        Raises SettingsError for a speedup without halvings.
        """
        from sim.generators import Moldability

        if self.halvings == 0 and not varies:
            raise SettingsError(
                "moldable jobs without halvings are rigid; set halvings, or levels of "
                f"{HALVINGS}, or leave moldable out"
            )
        return Moldability(self.halvings, self.parallelism, self.variance)


class SchedulingSettings(StrictModel):
    """Settings ``[application]`` of kind ``scheduling``: a simulated cluster scheduler."""

    kind: Literal["scheduling"] = setting("What a run executes.", "scheduling")
    preset: str = setting("The question, which opens parameters.", DEFAULT_PRESET, title="Question")
    log: str | None = setting(
        "Job log to simulate (SWF or sacct, also .gz).", None, title="Path of the log",
        example="logs/your.swf.gz", usual="the built-in one",
    )  # fmt: skip
    first: Annotated[int, RUNS] | None = setting(
        "Use only the first N jobs.", None, title="Number of jobs to read"
    )
    procs: int | None = setting(
        "Processors of the cluster, if the log does not contain them.", None, ge=1, le=10**12,
        title="Processors of the cluster",
    )  # fmt: skip
    baseline: BaselineSettings = setting("Current policies of the cluster.", BaselineSettings())
    levels: dict[str, list[LevelValue]] = setting(
        "Levels of your own by parameter; an empty list closes a parameter.", {}
    )
    reading: dict[str, str] = setting("Rules for reading the log, by name.", {})
    small_job_below: DurationS = setting(
        "Requested time below which a job is small.", 3600.0, title="Small jobs request less than",
        example="1h",
    )  # fmt: skip
    small_job_wait: DurationS = setting(
        "How long a small job may wait.", 10800.0, title="Longest wait of a small job", example="3h"
    )
    too_wide: Literal["reject", "clip"] = setting(
        "What becomes of a job that fits no partition.", "reject",
        title="A job that fits no partition",
    )  # fmt: skip
    overrun: Literal["raise", "kill", "extend", "extend_at_events"] = setting(
        "What becomes of a job that outlives its request.", "raise",
        title="A job that exceeds its request",
    )  # fmt: skip
    dependencies: Literal["ignore", "logged", "sessions"] = setting(
        "Whether jobs are submitted after the end of another one, and from where that is known.",
        "ignore", title="Jobs that follow others",
    )  # fmt: skip
    accounts: str | None = setting(
        "Account tree with the shares of users, for fair shares (sshare -alP, sacctmgr).", None,
        usual="none",
    )  # fmt: skip
    grace: DurationS | None = setting(
        "With `kill`: time after its request at which a job is killed.", None
    )
    split: bool | None = setting(
        "Open the paper's partition for small jobs.", None, usual="as the preset has it"
    )
    options: dict[str, LevelValue] = setting("Options of policies, by name.", {})
    allocation: Allocation | None = setting("What a job is given.", None, usual="processors")
    machine_procs: int | None = setting("Processors of each machine.", None, ge=1, le=10**12)
    train_share: float | None = setting(
        "Share of the jobs, the first ones, that runs simulate; the others check the answer.", None,
        gt=0, le=1, usual="as the preset has it",
    )  # fmt: skip
    power: PowerSettings | None = setting(
        "Power of the nodes, for measures of energy.", None, usual="unknown"
    )
    moldable: MoldableSettings | None = setting(
        "Jobs that may start on fewer processors.", None, usual="none"
    )
    futures: FuturesSettings | None = setting(
        "Generated workloads on which each run is evaluated.", None
    )

    def _account_tree(self) -> "AccountTree | None":
        if self.accounts is None:
            return None
        from sim.formats import read_accounts

        return read_accounts(Path(self.accounts))

    def build(self, workload: Workload, workers: int) -> Scheduling:
        """Build the scheduling application, or raise AssistantError or SimError."""
        arguments: dict[str, Any] = {
            "procs": self.procs,
            "current_policies": self.baseline.build(self.preset),
            "levels": {name: tuple(levels) for name, levels in self.levels.items()},
            "small_job_below_s": self.small_job_below,
            "small_job_wait_s": self.small_job_wait,
            "too_wide": self.too_wide,
            "overrun": self.overrun,
            "dependencies": self.dependencies,
            "accounts": self._account_tree(),
            "preset": self.preset,
            "split": self.split,
            "options": self.options,
            "grace_s": self.grace or 0.0,
            "allocation": self.allocation,
            "machine_procs": self.machine_procs,
            "train_share": self.train_share,
            "power": None
            if self.power is None
            else self.power.build(cap_varies=POWER_CAP in self.levels),
            "moldable": None
            if self.moldable is None
            else self.moldable.build(varies=HALVINGS in self.levels),
        }
        if self.futures is None:
            return Scheduling(workload, **arguments)
        futures = self.futures.build(None if self.log is None else workload)
        return future_scheduling(futures, threads=None if workers == 1 else 1, **arguments)
