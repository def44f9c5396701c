"""The paper's SchedSim: how to split a cluster into two partitions, and which jobs go where.

And beside it, or instead: which policies decide who goes first, and what they are told.

Section 4.1.1 of the Copper paper: a workload of the past, a fixed number of processors, two
variable partitions; parameters are the size of the partitions and the requested time and
processors up to which a job goes to the small one (22 x 20 x 20 = 8,800 combinations, section
4.1.1, figure 5); goals are a low overall response time and, for jobs that requested under one
hour, at most three hours of waiting. The number of processors, the order, the backfill and their
options may be parameters too; presets (`assistant.applications.scheduling.presets`) open some.

This is the only place where a configuration becomes a simulated scenario.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assistant.applications.scheduling import split
from assistant.applications.scheduling.computed import COMPUTED, SMALL_PROCS, computed_levels
from assistant.applications.scheduling.given import MEASURES, OF_ONE_PARTITION
from assistant.applications.scheduling.presets import (
    DEFAULT_PRESET,
    Filled,
    Preset,
    filled,
    preset_named,
)
from assistant.applications.scheduling.variation import (
    BESIDE,
    KINDS,
    Kind,
    Variation,
    every_option,
    options_of,
    told,
)
from assistant.errors import ApplicationError, RunError, hint
from assistant.events import Fact
from assistant.objective import Constraint, Measure, Objective, Value
from sim.api import (
    Allocation,
    ClusterSpec,
    Overrun,
    Scenario,
    SimError,
    SimulationResult,
    TooWide,
    Workload,
    check_policies,
    format_duration,
    max_wait_s,
    simulate,
    simulate_many,
)
from sim.api import measures as measures_of
from strategies import Level, ParameterSpace


@dataclass(frozen=True, slots=True)
class Today:
    """How the cluster is run now: one partition with this order and backfill."""

    order: str = "fcfs"
    backfill: str = "easy"


@dataclass(frozen=True)
class Scheduling:
    """One cluster over one workload, simulated: its partitions and its policies are what varies.

    Args:
        workload: the jobs of the past.
        procs: processors of the cluster; the log's own number if None.
        today: order and backfill now; with one partition of ``procs`` it is the baseline.
        levels: levels for any parameter by name, instead of the computed ones and those of the
            preset: the three of the paper (where there is a split), ``procs``, ``order``,
            ``backfill``, ``overrun``, ``grace_s``, and every option of the orders and backfills
            that occur. What is opened neither here nor by the preset is as today in every run;
            empty levels close a parameter beside the split that the preset opens.
        small_job_below_s: jobs that requested less are small jobs (paper: 1 h).
        small_job_wait_s: small jobs shall wait at most this long (paper: 3 h).
        too_wide: what becomes of a job that fits no partition: ``reject`` makes the
            configuration infeasible, ``clip`` runs it narrower and longer.
        overrun: what becomes of a job that outlives its request: ``raise`` lets it run on (the
            scheduler is told), ``kill`` ends it there, ``extend`` lets it run on and the scheduler
            finds out.
        preset: name of the parameters that are opened; see `PRESETS`.
        split: whether the paper's three parameters are opened; None is as the preset has it.
        options: what orders and backfills are told, by option; the others are as usual.
        grace_s: where jobs are killed, so long after their request.
        allocation: what a job is given, as in `sim.api.Scenario`; None is what the preset needs.
        machine_procs: processors of each machine; None does not tell machines apart, or makes a
            machine of each processor where the preset needs machines.

    Raises:
        ApplicationError: a size is unknown or too small, or a parameter cannot be built.
        SimError: an order or a backfill that nobody registered, or an option that it has not.
    """

    workload: Workload
    procs: int | None = None
    today: Today = field(default_factory=Today)
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    small_job_below_s: float = 3600.0
    small_job_wait_s: float = 3 * 3600.0
    too_wide: TooWide = "reject"
    overrun: Overrun = "raise"
    preset: str = DEFAULT_PRESET
    split: bool | None = None
    options: Mapping[str, Level] = field(default_factory=dict)
    grace_s: float = 0.0
    allocation: Allocation | None = None
    machine_procs: int | None = None

    name = "scheduling"

    def __post_init__(self) -> None:
        if self.allocation is None:
            object.__setattr__(self, "allocation", self._preset.allocation)
            if self._preset.allocation != "processors" and self.machine_procs is None:
                object.__setattr__(self, "machine_procs", 1)
        self._check_names()
        own = {
            n: split.checked(n, g) if n in COMPUTED else tuple(g) for n, g in self.levels.items()
        }
        object.__setattr__(self, "levels", own)
        if self.cluster_procs < 1:
            raise ApplicationError(
                f"the cluster must have at least 1 processor, not {self.cluster_procs}"
            )
        if self.too_wide != "clip" and self.workload.widest_procs > self.cluster_procs:
            raise ApplicationError(
                f"the widest job of {self.workload.name} needs {self.workload.widest_procs} "
                f"processors and the cluster has {self.cluster_procs}; name more processors "
                "with procs, or let such jobs run narrower and longer with too_wide = 'clip'"
            )
        self._check_machines()
        for kind in KINDS:
            for policy in self.variation.among(kind):
                self._check_policy(kind, str(policy))
        self.space.from_values(self.baseline)
        self.scenario(self.baseline)  # refuse what cannot be now, not in a run

    def _check_names(self) -> None:
        options = every_option()
        told(options, {name: value for name, value in self.options.items() if name in options})
        own_split = COMPUTED if self.has_split else ()
        for name in self.levels:
            if name in COMPUTED and not own_split:
                raise ApplicationError(
                    f"levels of '{name}' are given and there is one partition only; leave them "
                    "out, or say split = true"
                )
            if name not in (*own_split, *BESIDE, *options):
                raise ApplicationError(
                    f"the scheduling application has no parameter '{name}'"
                    f"{hint(name, (*own_split, *BESIDE, *options))}"
                )

    def _check_machines(self) -> None:
        size = self.machine_procs
        if size is None:
            if self.allocation != "processors":
                raise ApplicationError(
                    f"allocation is '{self.allocation}', and the size of a machine is not known; "
                    "say it with machine_procs, or choose allocation = 'processors'"
                )
            return
        if size < 1:
            raise ApplicationError(f"machine_procs is {size}; allowed are whole numbers from 1")
        for name in (SMALL_PROCS, "procs"):
            for level in self.levels.get(name, ()):
                if isinstance(level, int) and level % size:
                    raise ApplicationError(
                        f"{name} has the level {level}, which is not a whole number of machines "
                        f"of {size}; allowed are multiples of machine_procs"
                    )

    def _check_policy(self, kind: Kind, policy: str) -> None:
        """Raise SimError if a policy, as it would be told today, cannot be simulated."""
        names: dict[Kind, str] = {"order": self.today.order, "backfill": self.today.backfill}
        names[kind] = policy
        known = options_of({one: (name,) for one, name in names.items()})
        check_policies(
            Scenario(
                self.workload,
                self._in_machines(ClusterSpec.single(self.cluster_procs)),
                order=names["order"],
                backfill=names["backfill"],
                options=told(known, {n: v for n, v in self.options.items() if n in known}),
                allocation=self._given,
            )
        )

    @property
    def _given(self) -> Allocation:
        return self.allocation or "processors"

    @cached_property
    def has_split(self) -> bool:
        """Whether a part of the cluster may be kept for small jobs."""
        return self._preset.split if self.split is None else self.split

    @cached_property
    def _preset(self) -> Preset:
        return preset_named(self.preset)

    @cached_property
    def _filled(self) -> Filled:
        now = {"order": self.today.order, "backfill": self.today.backfill}
        options = options_of({kind: (now[kind],) for kind in KINDS})
        usual = {name: owned[0].option.usual for name, owned in options.items()}
        own = told(options, {n: v for n, v in self.options.items() if n in options})
        return filled(self._preset, {**usual, **own, **self._now}, self._check_policy)

    @property
    def _now(self) -> dict[str, Level]:
        return {
            "procs": self.cluster_procs,
            "order": self.today.order,
            "backfill": self.today.backfill,
            "overrun": self.overrun,
            "grace_s": self.grace_s,
        }

    @cached_property
    def variation(self) -> Variation:
        """What may differ from run to run beside the split."""
        levels = {**self._filled.levels, **self.levels}
        beside = {name: given for name, given in levels.items() if name not in COMPUTED and given}
        return Variation(self._now, self.options, beside)

    @cached_property
    def cluster_procs(self) -> int:
        """Processors of the cluster today."""
        procs = self.procs if self.procs is not None else self.workload.max_procs
        if procs is None:
            raise ApplicationError(
                f"{self.workload.name} does not say how many processors its cluster has; "
                f"name them with procs (its widest job uses {self.workload.widest_procs})"
            )
        return procs

    @cached_property
    def space(self) -> ParameterSpace:
        """The paper's three parameters, then those that the preset or the analyst opened.

        Today's configuration has no small partition; the thresholds mean nothing then, so of
        those combinations exactly one is allowed. So it is with every parameter that means nothing
        in some of the runs.
        """
        exclusions = self.variation.exclusions
        if not self.has_split:
            if not self.variation.parameters:
                raise ApplicationError(
                    f"nothing is varied: the preset '{self.preset}' opens no parameter here; name "
                    "levels, such as those of order"
                )
            return ParameterSpace(self.variation.parameters, exclusions=exclusions)
        levels = self._split_levels
        return ParameterSpace(
            (*split.parameters(levels), *self.variation.parameters),
            exclusions=(*([split.idle(levels)] if 0 in levels[SMALL_PROCS] else []), *exclusions),
        )

    @cached_property
    def _split_levels(self) -> dict[str, tuple[Level, ...]]:
        given = {name: tuple(self.levels[name]) for name in COMPUTED if name in self.levels}
        return {
            **computed_levels(
                self.workload, self.cluster_procs, self.too_wide, self.machine_procs or 1
            ),
            **given,
        }

    @cached_property
    def baseline(self) -> Mapping[str, Level]:
        """Today's configuration."""
        if not self.has_split:
            return self.variation.now
        return {**split.today(self._split_levels), **self.variation.now}

    @property
    def deterministic(self) -> bool:
        """A simulation repeats itself."""
        return True

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure that a run may give."""
        return MEASURES if self.has_split else OF_ONE_PARTITION

    @property
    def objective(self) -> Objective:
        """Minimise the mean response; small jobs wait at most so long; no job is turned away."""
        return Objective(
            Value("mean_response_s"),
            "minimise",
            (
                Constraint(
                    "small_jobs_max_wait_s",
                    at_most=self.small_job_wait_s,
                    label=(
                        f"jobs that requested under {format_duration(self.small_job_below_s)} "
                        f"wait at most {format_duration(self.small_job_wait_s)}"
                    ),
                ),
                Constraint("n_rejected", at_most=0.0, label="every job finds a partition"),
            ),
            unit="s",
        )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The data, the rules by which it was read, and the assumptions."""
        load = self.workload
        width = f"{load.n_jobs:,} jobs over {format_duration(load.span_s)}"
        too_wide = {
            "reject": "is turned away, which makes the configuration infeasible",
            "clip": "runs on all of the widest partition, for longer, with the same work",
        }
        overrun = {
            "raise": "runs on, and the scheduler plans with its run time",
            "kill": "is ended",
            "extend": "runs on, and the scheduler reckons with ever more",
        }
        return (
            Fact("Workload", f"{load.name}: {width}, up to {load.widest_procs:,} processors"),
            Fact("Cluster", self._cluster_in_words),
            Fact("Today", self._today_in_words),
            *(Fact("Left out", reason) for reason in self._left_out),
            *(Fact("Routing", split.ROUTING) for _ in range(self.has_split)),
            Fact("A job that fits no partition", too_wide.get(self.too_wide, self.too_wide)),
            Fact("A job that outlives its request", overrun.get(self.overrun, self.overrun)),
            *(Fact("Reading the log", note.sentence) for note in load.notes),
            Fact("Workload digest", load.digest[:16]),
        )

    @property
    def _left_out(self) -> tuple[str, ...]:
        return tuple(why for kind, why in self._filled.left_out if kind not in self.levels)

    @property
    def _cluster_in_words(self) -> str:
        text = f"{self.cluster_procs:,} processors"
        if self.machine_procs is None:
            return text
        n = self.cluster_procs // self.machine_procs
        return f"{text} in {n:,} machines; a job is given {self._given.replace('_', ' ')}"

    @property
    def _today_in_words(self) -> str:
        text = f"one partition, order {self.today.order}, backfill {self.today.backfill}"
        grace = f", grace {format_duration(self.grace_s)}" if self.grace_s else ""
        return text + "".join(f", {name} {value}" for name, value in self.options.items()) + grace

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Simulate one configuration. Raises RunError if the simulator refuses the scenario."""
        return self.measured(*self.simulated(values, seed))

    def simulated(
        self, values: Mapping[str, Level], seed: int
    ) -> tuple[Scenario, SimulationResult]:
        """Return one configuration as a scenario, with its schedule. Raises as `evaluate`."""
        try:
            scenario = self.scenario(values, seed)
            return scenario, simulate(scenario)
        except SimError as error:
            raise RunError(str(error)) from error

    def evaluate_many(
        self,
        configurations: Iterable[Mapping[str, Level]],
        *,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        """Simulate many configurations on all cores and yield each with its measures, in order.

        One that `evaluate` would refuse with a RunError is left out.

        Args:
            configurations: taken one by one, not far ahead.
            threads: how many work side by side; None is one per core.
            progress: called with the number of configurations done.

        Raises:
            RunError: the simulator refuses a scenario.
        """
        taken: deque[Mapping[str, Level]] = deque()

        def scenarios() -> Iterator[Scenario]:
            for values in configurations:
                try:
                    scenario = self.scenario(values)
                except RunError:
                    continue
                taken.append(values)
                yield scenario

        try:
            for measures in simulate_many(
                scenarios(), each=self.measured, threads=threads, progress=progress
            ):
                yield taken.popleft(), measures
        except SimError as error:
            raise RunError(str(error)) from error

    def measured(self, scenario: Scenario, result: SimulationResult) -> Mapping[str, Measure]:
        """Return the measures of a schedule."""
        measures: dict[str, Measure] = dict(measures_of(scenario, result))
        measures["small_jobs_max_wait_s"] = max_wait_s(
            scenario, result, requested_below_s=self.small_job_below_s
        )
        measures["procs"] = float(scenario.cluster.total_procs)
        return measures

    def scenario(
        self, values: Mapping[str, Level], seed: int = 0, workload: Workload | None = None
    ) -> Scenario:
        """Return what is simulated for a configuration; on other jobs if they are given.

        Raises:
            RunError: nothing is left for the main partition.
            ApplicationError: the simulator would refuse it.
        """
        chosen = self.variation.chosen(values)
        try:
            return Scenario(
                workload=self.workload if workload is None else workload,
                cluster=self._in_machines(split.cluster(values, chosen.procs)),
                order=chosen.order,
                backfill=chosen.backfill,
                overrun=chosen.overrun,
                too_wide=self.too_wide,
                seed=seed,
                allocation=self._given,
                options=chosen.options,
                grace_s=chosen.grace_s,
            )
        except SimError as error:
            raise ApplicationError(str(error)) from error

    def _in_machines(self, cluster: ClusterSpec) -> ClusterSpec:
        return cluster if self.machine_procs is None else cluster.in_machines_of(self.machine_procs)
