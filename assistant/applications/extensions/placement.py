"""Application "placement": a fleet with variable machine counts, policies and overcommitment.

Pods, jobs of tasks or virtual machines come from a trace or a generator; each instance gets a
machine. Machines cost money while they are there, and so do waiting jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from assistant.applications.extensions import BatchApplication, Measures, Values
from assistant.core.errors import ApplicationError, RunError, hint
from assistant.core.events import Fact
from assistant.core.objective import Constraint, Measure, Objective, SingleMeasure
from sim.api import (
    ClusterSpec,
    MachineSpec,
    Partition,
    PolicyOption,
    Scenario,
    SimError,
    SimulationResult,
    Tasks,
    Workload,
    backfills_for,
    check_policies,
    format_duration,
    known_names,
    known_options,
    simulate,
    summarise_instances,
    summarise_placing,
)
from sim.generators import generate, published_model
from sim.metrics import overcommitted_share
from strategies import Exclusion, Level, Parameter, ParameterSpace

if TYPE_CHECKING:  # imported when a run needs it
    from sim.placement import LearnedPlacement

GIB, WHOLE = 2**30, 1000


@dataclass(frozen=True)
class MachineKind:
    """A kind of identical machines, with their price per hour and the numbers of them to try.

    Attributes:
        spec: one of the machines; its count is the current number.
        counts: levels of the number of machines; empty for the current number only.
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
                f"machine '{name}': the current count, {self.spec.count}, is not among its "
                f"counts ({', '.join(map(str, self.counts))}); add it for the comparison"
            )


def usual_machines() -> tuple[MachineKind, ...]:
    """Return three example kinds of machines for `usual_workload`, with assumed prices."""

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
    """Draw an example workload of AI pods from the published workload model of Joulie."""
    return generate(published_model("joulie"), duration_s=days * 86_400.0, seed=seed, scale=scale)


def without_sharing(workload: Workload) -> Workload:
    """Return the workload with requests for partial GPUs raised to whole GPUs, durations kept."""
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


def machine_kinds(
    machines: Sequence[MachineSpec], prices: Mapping[str, float]
) -> list[MachineKind]:
    """Group machines by equal specification into kinds, named after their GPUs and cores.

    Args:
        machines: machines, for example from `sim.api.read_machines`.
        prices: price per hour by name of the kind; 1 if missing.

    Raises:
        ApplicationError: a price names an unknown kind.
    """
    counts: dict[tuple[MachineSpec, str], int] = {}
    for machine in machines:
        labels = " ".join(f"{key}={text}" for key, text in sorted(machine.labels.items()))
        key = (replace(machine, name="kind", count=1), labels)
        counts[key] = counts.get(key, 0) + machine.count
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
                f"prices contain an unknown kind of machines '{name}'{hint(name, tuple(kinds))}"
            )
    return list(kinds.values())


def shares_gpus(workload: Workload) -> bool:
    """Return whether any instance of a workload uses only a fraction of a GPU."""
    tasks = workload.tasks
    return tasks is not None and bool(((tasks.mgpu > 0) & (tasks.mgpu < WHOLE)).any())


def with_tasks(workload: Workload) -> Workload:
    """Return the workload with tasks; if it has none, each job becomes a task of one instance."""
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


TRAINED = "Trained scheduler"
"""Label of the fact on each trained scheduler."""

COUNT = "_machines"  # Suffix of the parameter with the number of machines of a kind

POLICIES = ("placement", "order", "backfill")
ABOUT = {
    "placement": ("", "rule that chooses a machine with room for an instance"),
    "order": ("", "order of the waiting jobs"),
    "backfill": ("", "whether later jobs may overtake a job that finds no room"),
    "cpu_overcommit": ("", "virtual processors per real processor"),
    "gpu_sharing": ("", "whether instances may share a GPU; off gives each a whole GPU"),
}
TODAY: Mapping[str, Level] = {
    "placement": "first_fit", "order": "fcfs", "backfill": "greedy", "cpu_overcommit": 1.0,
    "gpu_sharing": "on",
}  # fmt: skip

MEASURES = (
    "cost", "machine_cost", "machine_h", "wait_h", "mean_wait_s", "p95_wait_s", "mean_response_s",
    "mean_slowdown", "mean_bounded_slowdown", "makespan_s", "cpu_allocation", "memory_allocation",
    "gpu_allocation", "cpu_placed", "memory_placed", "gpu_placed", "cpu_allocation_at_end",
    "memory_allocation_at_end", "gpu_allocation_at_end", "gpu_fragmented", "gpu_fragmented_at_end",
    "cpu_beyond", "n_rejected",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FleetPreset:
    """A named question about a fleet: levels that are opened, and what is current.

    Attributes:
        levels: levels by parameter, below those of the user; empty levels close a parameter.
        current: current values of parameters that differ from the usual ones.
        options: options of placement in every run.
    """

    name: str
    summary: str
    levels: Mapping[str, tuple[Level, ...]]
    current: Mapping[str, Level]
    options: Mapping[str, float]


PRESETS: tuple[FleetPreset, ...] = (
    FleetPreset(
        "kube_scheduler",
        "the scoring strategy of kube-scheduler, and the weights of its resources",
        {
            "placement": ("least_allocated", "most_allocated"),
            "balance_weight": (0.0, 1.0, 5.0),
            "mem_weight": (1.0, 5.0),
            "gpu_weight": (0.0, 1.0, 5.0),
            **dict.fromkeys(("order", "backfill", "cpu_overcommit", "gpu_sharing"), ()),
        },
        {"placement": "least_allocated"},
        {"gpu_weight": 0.0, "disk_weight": 0.0},
    ),
)


def fleet_preset_named(name: str) -> FleetPreset:
    """Return a preset by name. Raises ApplicationError if there is none."""
    by_name = {preset.name: preset for preset in PRESETS}
    if name not in by_name:
        raise ApplicationError(f"placement has no preset '{name}'{hint(name, by_name)}")
    return by_name[name]


@dataclass(frozen=True)
class FleetPlacement(BatchApplication):
    """A fleet of machines whose cost, including waiting, is minimised over several workloads.

    Args:
        workloads: one or more; a run is judged by the mean over them. A job without tasks is one
            instance with all its processors, like a virtual machine.
        kinds: kinds of machines, in the order in which placement considers them.
        levels: levels by parameter, instead of the usual ones; empty levels close a parameter, and
            naming an option of a placement rule opens it.
        current: current values of parameters that differ from the usual ones.
        options: options of placement in every run; gangs are placed at once unless set otherwise.
        learned: trained schedulers by the name that they have as a level of ``placement``; they
            choose tasks too, so backfill has no effect on them.
        wait_cost_per_h: cost per hour between the submission of a job and the placement of its
            first instance.
        beyond_at_most: largest share of the held processors that exceeds the real ones.
        wait_at_most_s: bound on the 95 % quantile of the wait; None for no bound.
        preset: name of one of `PRESETS`, below the levels, current values and options; None opens
            every policy.

    Raises:
        ApplicationError: an impossible name or level, or a current value that is not a level.
        SimError: the current configuration cannot be simulated.
    """

    workloads: tuple[Workload, ...] = field(default_factory=lambda: (usual_workload(),))
    kinds: tuple[MachineKind, ...] = field(default_factory=usual_machines)
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    current: Mapping[str, Level] = field(default_factory=dict)
    options: Mapping[str, float] = field(default_factory=dict)
    learned: Mapping[str, "LearnedPlacement"] = field(default_factory=dict)
    wait_cost_per_h: float = 10.0
    beyond_at_most: float = 0.05
    wait_at_most_s: float | None = None
    seed: int = 0
    preset: str | None = None

    name = "placement"
    at_once = 1
    measures = MEASURES
    deterministic = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "workloads", tuple(map(with_tasks, self.workloads)))
        object.__setattr__(self, "options", {"all_or_nothing": 1.0, **self.options})
        if self.preset is not None:
            self._ask(fleet_preset_named(self.preset))
        self._check()
        self.space.from_values(self.baseline)
        check_policies(self.scenario(self.baseline))

    def _check(self) -> None:
        if not self.workloads or not self.kinds:
            raise ApplicationError("placing needs at least one workload and one kind of machines")
        names = [kind.spec.name for kind in self.kinds]
        for name in names:
            if names.count(name) > 1:
                raise ApplicationError(
                    f"two kinds of machines are called '{name}'; names must be unique"
                )
        counts = [kind.spec.name + COUNT for kind in self.kinds]
        allowed_names = (*ABOUT, *counts, *self._options)
        for name in (*self.levels, *self.current):
            if name not in allowed_names:
                raise ApplicationError(
                    f"the application placement has no parameter '{name}'"
                    f"{hint(name, allowed_names)}"
                )
        self._check_learned()
        allowed = known_names() | {"backfill": backfills_for("instances")}
        allowed["placement"] = (*allowed["placement"], *self.learned)
        for name in POLICIES:
            for level in (*self._among(name), self._now(name)):
                if level not in allowed[name]:
                    raise ApplicationError(
                        f"{name} has the level {level!r}{hint(str(level), allowed[name])}"
                    )
        for level in (*self._among("gpu_sharing"), self._now("gpu_sharing")):
            if level not in ("on", "off"):
                raise ApplicationError(
                    f"gpu_sharing has the level {level!r}; allowed are 'on' and 'off'"
                )
        for level in (*self._among("cpu_overcommit"), self._now("cpu_overcommit")):
            if isinstance(level, bool | str) or not 1 <= level <= 100:
                raise ApplicationError(
                    f"cpu_overcommit has the level {level!r}; allowed are numbers from 1 to 100"
                )

    def _ask(self, preset: FleetPreset) -> None:
        has_gpus = any(kind.spec.gpus for kind in self.kinds)
        levels = {n: several for n, several in preset.levels.items() if has_gpus or "gpu" not in n}
        for name, asked in (
            ("levels", levels), ("current", preset.current), ("options", preset.options),
        ):  # fmt: skip
            object.__setattr__(self, name, {**asked, **getattr(self, name)})

    def _check_learned(self) -> None:
        for name in self.learned:
            if name in known_names()["placement"]:
                raise ApplicationError(
                    f"a trained scheduler is called '{name}', as a placement rule is; use another "
                    "name"
                )
        if self.learned and any(w.tasks is not None and w.tasks.gang.any() for w in self.workloads):
            raise ApplicationError(
                "the jobs have gangs, but trained schedulers place instances one by one; leave out "
                "'learned', or use jobs without gangs"
            )

    @cached_property
    def _options(self) -> dict[str, tuple[PolicyOption, tuple[str, ...]]]:
        options: dict[str, tuple[PolicyOption, tuple[str, ...]]] = {}
        for rule in known_names()["placement"]:
            for option in known_options("placement", rule):
                _, rules = options.get(option.name, (option, ()))
                options[option.name] = (option, (*rules, rule))
        return options

    def _now(self, name: str) -> Level:
        if name in self.current:
            return self.current[name]
        if name in TODAY:
            return TODAY[name]
        if name in self._options:
            return self.options.get(name, self._options[name][0].usual)
        return next(k.spec.count for k in self.kinds if k.spec.name + COUNT == name)

    def _among(self, name: str) -> tuple[Level, ...]:
        levels = tuple(self.levels.get(name, self._usual_levels.get(name, ())))
        return levels or (self._now(name),)

    @cached_property
    def _usual_levels(self) -> dict[str, tuple[Level, ...]]:
        usual: dict[str, tuple[Level, ...]] = {
            kind.spec.name + COUNT: kind.counts for kind in self.kinds
        }
        usual["placement"] = (*known_names()["placement"], *self.learned)
        usual["order"] = ("fcfs", "sjf", "saf", "laf")
        usual["backfill"] = ("greedy", "none")
        usual["cpu_overcommit"] = (1.0, 1.1, 1.25, 1.5, 2.0)
        if any(shares_gpus(workload) for workload in self.workloads):
            usual["gpu_sharing"] = ("on", "off")
        return usual

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameters: machine counts, policies, overcommitment, GPU sharing and options."""
        parameters = []
        names = [kind.spec.name + COUNT for kind in self.kinds]
        for name in (*names, *ABOUT, *(n for n in self.levels if n in self._options)):
            levels = tuple(self.levels.get(name, self._usual_levels.get(name, ())))
            if not levels:
                continue
            if self._now(name) not in levels:
                raise ApplicationError(
                    f"the current {name}, {self._now(name)}, is not among its levels "
                    f"({', '.join(map(str, levels))}); add it for the comparison"
                )
            is_text = any(isinstance(level, str) for level in levels)
            unit, text = self._about(name)
            parameters.append(
                Parameter(name, levels, "nominal" if is_text else "ordinal", unit, text)
            )
        if not parameters:
            raise ApplicationError(
                "no parameter varies; set counts of a kind of machines, or levels such as those of "
                "placement"
            )
        return ParameterSpace(tuple(parameters), exclusions=tuple(self._exclusions(names)))

    def _about(self, name: str) -> tuple[str, str]:
        if name in ABOUT:
            return ABOUT[name]
        if name in self._options:
            option = self._options[name][0]
            return option.unit, option.summary
        return "machines", f"number of the kind {name.removesuffix(COUNT)}"

    def _exclusions(self, counts: Sequence[str]) -> list[Exclusion]:
        """Return exclusions of fleets without a machine, and of options without a meaning."""
        exclusions = []
        if all(0 in self._among(name) for name in counts):
            text = " and ".join(f"{name} == 0" for name in counts if len(self._among(name)) > 1)
            exclusions.append(Exclusion.parse(text))
        rules = [str(rule) for rule in self._among("placement")]
        learned = [rule for rule in rules if rule in self.learned]
        if learned and len(rules) > len(learned) and len(self._among("backfill")) > 1:
            now = self._now("backfill")
            exclusions.append(Exclusion.parse(f"placement in {learned!r} and backfill != {now!r}"))
        for name in self.levels:
            unaware = [
                r for r in rules if name in self._options and r not in self._options[name][1]
            ]
            if unaware and len(rules) > 1:
                exclusions.append(
                    Exclusion.parse(f"placement in {unaware!r} and {name} != {self._now(name)!r}")
                )
        return exclusions

    @cached_property
    def baseline(self) -> Mapping[str, Level]:
        """The configuration that is in use before steering."""
        return {name: self._now(name) for name in self.space.names}

    @property
    def objective(self) -> Objective:
        """The objective: minimal cost, no rejected job, limits on overcommitment and wait."""
        constraints = [
            Constraint("n_rejected", at_most=0.0, label="every job finds machines"),
            Constraint(
                "cpu_beyond",
                at_most=self.beyond_at_most,
                label=(
                    f"at most {self.beyond_at_most:.0%} of the held processors exceed the real "
                    "processors"
                ),
            ),
        ]
        if self.wait_at_most_s is not None:
            label = f"95 % of the jobs wait at most {format_duration(self.wait_at_most_s)}"
            constraints.append(Constraint("p95_wait_s", at_most=self.wait_at_most_s, label=label))
        return Objective(SingleMeasure("cost"), "minimise", tuple(constraints))

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the fleet, the workloads and the costs, for display."""
        first = self.workloads[0]
        tasks = first.tasks
        n_instances = 0 if tasks is None else tasks.n_instances
        more = f", and {len(self.workloads) - 1} more" if len(self.workloads) > 1 else ""
        machines = "; ".join(
            f"{kind.spec.count} {kind.spec.name} ({kind.spec.procs} cores, {kind.spec.gpus} GPUs, "
            f"{kind.price_per_h:g} an hour)"
            for kind in self.kinds
        )
        return (
            Fact(
                "Workload",
                f"{first.name}: {first.n_jobs:,} jobs of {n_instances:,} instances over "
                f"{format_duration(first.span_s)}{more}",
            ),
            Fact("Current machines", machines),
            Fact(
                "Cost",
                "the machines until the end of the last job, and "
                f"{self.wait_cost_per_h:g} for each hour that a job waits",
            ),
            *(
                Fact(
                    TRAINED,
                    f"{name}: for {it.record.objective}, on {it.record.trained_on}, digest "
                    f"{it.digest[:16]}",
                )
                for name, it in self.learned.items()
            ),
        )

    def scenario(self, values: Mapping[str, Level], number: int = 0) -> Scenario:
        """Return the scenario of a configuration with workload ``number`` (from 0)."""
        have = {name: self._now(name) for name in ABOUT} | dict(values)
        factor = float(have["cpu_overcommit"])
        machines = [
            replace(kind.spec, procs=int(kind.spec.procs * factor), count=n)
            for kind in self.kinds
            if (n := self._count(kind, values))
        ]
        rule = str(have["placement"])
        if rule in self.learned:
            rule = str(TODAY["placement"])
        settings = {**self.options, **{n: float(values[n]) for n in values if n in self._options}}
        workload = self.workloads[number]
        return Scenario(
            workload if have["gpu_sharing"] == "on" else without_sharing(workload),
            ClusterSpec.of([Partition.of_machines("main", machines)]),
            order=str(have["order"]),
            backfill=str(have["backfill"]),
            placement=rule,
            allocation="instances",
            too_wide="reject",
            seed=self.seed,
            options={
                n: v
                for n, v in settings.items()
                if (n not in self._options or rule in self._options[n][1])
                and not (have["placement"] in self.learned and n == "all_or_nothing")
            },
        )

    def _count(self, kind: MachineKind, values: Mapping[str, Level]) -> int:
        return int(values.get(kind.spec.name + COUNT, kind.spec.count))

    def simulate(self, values: Mapping[str, Level], number: int = 0) -> SimulationResult:
        """Simulate a configuration with one workload. Raises RunError if that is impossible."""
        scheduler = self.learned.get(str(values.get("placement", self._now("placement"))))
        try:
            if scheduler is None:
                return simulate(self.scenario(values, number))
            from sim.placement import simulate_learned

            return simulate_learned(self.scenario(values, number), scheduler)
        except SimError as error:
            raise RunError(str(error)) from error

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - all meet the same workloads
        """Simulate all workloads and return the mean measures and the total of rejected jobs."""
        results = [
            self.measured(values, self.simulate(values, number), number)
            for number in range(len(self.workloads))
        ]
        averages: dict[str, Measure] = {}
        for name in MEASURES:
            numbers = [value for measures in results if (value := measures[name]) is not None]
            averages[name] = sum(numbers) / len(numbers) if len(numbers) == len(results) else None
        averages["n_rejected"] = float(sum(measures["n_rejected"] or 0.0 for measures in results))
        return averages

    def measured(
        self, values: Mapping[str, Level], result: SimulationResult, number: int = 0
    ) -> dict[str, float | None]:
        """Return the measures of a simulation, None if unknown. Raises RunError if no job ran."""
        scenario = self.scenario(values, number)
        of_instances = summarise_instances(scenario, result)
        makespan_s = of_instances.makespan_s
        if makespan_s is None:
            raise RunError("no job fits into any machine; choose other machines")
        summary = {**of_instances.flat(), **summarise_placing(scenario, result).flat()}
        real = [(kind, self._count(kind, values)) for kind in self.kinds]
        mcpu = np.repeat([kind.spec.procs * 1000 for kind, _ in real], [n for _, n in real])
        promised = scenario.cluster.total_procs * 1000 / float(mcpu.sum())
        for name in ("cpu_allocation", "cpu_allocation_at_end"):
            summary[name] *= promised  # as a share of the real processors
        hours = makespan_s / 3600
        wait_h = float(np.nansum(result.start_s - scenario.workload.submit_s)) / 3600
        machine_cost = hours * sum(n * kind.price_per_h for kind, n in real)
        summary |= {
            "machine_h": hours * len(mcpu),
            "machine_cost": machine_cost,
            "wait_h": wait_h,
            "cost": machine_cost + self.wait_cost_per_h * wait_h,
            "cpu_beyond": overcommitted_share(scenario, result, mcpu),
        }
        return {name: summary.get(name) for name in MEASURES}

    def evaluate_several(self, configurations: Sequence[Values]) -> Sequence[Measures]:
        """Simulate several configurations and return the measures of each."""
        return [self.evaluate(values, 0) for values in configurations]
