"""Application "scheduling": a cluster that runs a job log, with varying partitions and policies.

With the preset ``paper`` it is the SchedSim of the Copper paper (section 4.1.1, figure 5): past
workload, fixed number of processors, two variable partitions. Parameters are the size of the
small partition and the largest requested time and processors of its jobs (22 x 20 x 20 = 8,800
combinations); goals are a low mean response time and at most three hours of waiting for jobs
that requested under one hour. Other presets (`PRESETS`) open other parameters.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from assistant.applications import scheduling_parameters
from assistant.applications.scheduling_comparison import (
    CLASS_RATIO,
    COMPARED,
    LATER,
    LONGEST_RATIO,
    WaitProfile,
    compared,
    compared_later,
)
from assistant.applications.scheduling_parameters import (
    BESIDE,
    COMPUTED,
    HALVINGS,
    KINDS,
    LANE_MAX_PROCS,
    LANE_MAX_REQUESTED,
    OFF_AFTER,
    POWER_CAP,
    SMALL_PROCS,
    DependencySource,
    Kind,
    SchedulingVariation,
    cluster_of,
    computed_levels,
    every_option,
    option_values,
    options_of,
)
from assistant.applications.scheduling_presets import (
    DEFAULT_PRESET,
    Preset,
    PresetLevels,
    fill_preset,
    preset_named,
)
from assistant.core.errors import ApplicationError, RunError, hint
from assistant.core.events import Fact
from assistant.core.objective import Constraint, Measure, Objective, SingleMeasure
from sim.api import (
    Allocation,
    ClusterSpec,
    NodePower,
    Overrun,
    PowerCap,
    Scenario,
    SimError,
    SimulationResult,
    TooWide,
    Workload,
    check_policies,
    format_duration,
    simulate,
    simulate_many,
)
from sim.api import measures as measures_of
from sim.metrics import has_recorded_waits, max_wait_s, wait_agreement, with_power_cap
from strategies import Level, ParameterSpace

if TYPE_CHECKING:
    from sim.formats import AccountTree
    from sim.generators import Moldability

MEASURES = (
    *(
        f"{statistic}_{measure}"
        for measure in ("wait_s", "response_s", "slowdown", "bounded_slowdown")
        for statistic in ("mean", "median", "p95", "max")
    ),
    "makespan_s",
    "utilisation",
    "utilisation_at_arrival",
    "n_jobs",
    "n_rejected",
    "n_killed",
    "small_jobs_max_wait_s",
    "procs",
    *COMPARED,
)
"""Measures of every run; a measure without any job is missing or unknown."""

READING = "Reading the log"  # Label of the facts on what reading the log decided
ENERGY = ("energy_kwh", "energy_cost", "mean_power_kw", "peak_power_kw", "n_boots")
"""Further measures of a run if the power of the nodes is known."""

ACCOUNTS = "Account tree"  # Label of the fact on the accounts that have shares
RECORDED_WAITS = "Recorded waits"  # Label of the fact how far simulated waits are those of the log

MOST_LONGEST = 1.5
_MOST_CURRENT = 1_000  # Workloads whose waits under the current configuration are at hand
CLASS_WORDS = "no class of jobs waits longer on average than now (5 min are free)"
LONGEST_WORDS = "the longest wait is at most 1.5 times as long as now (5 min are free)"


def _size_is_missing(workload: Workload) -> str:
    used = f"its widest job uses {workload.widest_procs:,}"
    most = workload.recorded_procs_in_use
    if most is not None:
        used += f", and up to {most:,} were in use at once"
    return (
        f"{workload.name} does not contain the size of its cluster; set procs, in a command with "
        f"--procs ({used})"
    )


@dataclass(frozen=True, slots=True)
class CurrentPolicies:
    """The queue order and backfill policy currently used on the unpartitioned cluster."""

    order: str = "fcfs"
    backfill: str = "easy"


@dataclass(frozen=True, slots=True)
class ClusterPower:
    """Power of the nodes of a cluster, and its current daily cap.

    Attributes:
        nodes: watts of a node by state, and when it is switched off.
        cap_w: limit on the power of all nodes, in watts; 0 for none.
        cap_from_s, cap_until_s: when it begins and ends each day, in seconds since midnight.
    """

    nodes: NodePower
    cap_w: float = 0.0
    cap_from_s: float = 0.0
    cap_until_s: float = 86_400.0

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return a scenario with this power and its cap. Raises SimError."""
        return self.with_settings(scenario, self.nodes.off_after_s or 0.0, self.cap_w)

    def with_settings(self, scenario: Scenario, off_after_s: float, cap_w: float) -> Scenario:
        """Return a scenario with this power; 0 is never off, and no cap. Raises SimError."""
        nodes = replace(self.nodes, off_after_s=off_after_s or None)
        powered = replace(scenario, power=nodes)
        if not cap_w:
            return powered
        return with_power_cap(powered, PowerCap(cap_w, self.cap_from_s, self.cap_until_s))


@dataclass(frozen=True)
class Scheduling:
    """A simulated cluster that runs one workload with varying partitions and policies.

    Args:
        procs: processors of the cluster; the number in the log if None.
        current_policies: order and backfill of the baseline, where one partition has all ``procs``;
            None: as usual for the preset.
        levels: levels by parameter, instead of the computed ones and those of the preset: the three
            of the paper (if there is a split), ``procs``, ``order``, ``backfill``, ``overrun``,
            ``grace_s``, and every option of the policies that occur. All other parameters keep
            their current value; empty levels close a parameter that the preset opens.
        small_job_below_s: jobs that requested less are small jobs (paper: 1 h).
        small_job_wait_s: longest wait allowed for small jobs (paper: 3 h).
        too_wide: treatment of a job that fits no partition: ``reject`` makes the configuration
            infeasible, ``clip`` runs the job narrower and longer.
        overrun: treatment of a job that outlives its request: ``raise`` lets it run on and informs
            the scheduler, ``kill`` ends it, ``extend`` lets it run on and the scheduler finds out
            when the request runs out, ``extend_at_events`` when a job comes or ends.
        split: whether the paper's three parameters are opened; None: as in the preset.
        options: options of orders and backfills, by name; the others have their usual values.
        grace_s: seconds between the requested end and the kill.
        dependencies: whether jobs are submitted after the end of another one, as in
            `sim.api.Scenario`.
        accounts: accounts with the shares of users, for orders that use them.
        allocation: allocation to a job, as in `sim.api.Scenario`; None: as the preset needs.
        machine_procs: processors of each machine; None for no machines, or for machines of one
            processor if the preset needs machines.
        train_share: share of the jobs, the first ones, that a run simulates. The jobs after them
            check a configuration: a second simulation, of all jobs, gives the measures `LATER`.
            None: as in the preset.
        power: power of the nodes; None if unknown. It gives the measures `ENERGY`.
        moldable: how far a job may start on fewer processors, as in `sim.api.Scenario`; None: not
            at all, with Downey's speedup of variance 1 where ``moldable_halvings`` varies.

    Raises:
        ApplicationError: a size is unknown or too small, or a parameter cannot be built.
        SimError: an order or backfill is not registered, or does not have an option.
    """

    workload: Workload
    procs: int | None = None
    current_policies: CurrentPolicies | None = None
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    small_job_below_s: float = 3600.0
    small_job_wait_s: float = 3 * 3600.0
    too_wide: TooWide = "reject"
    overrun: Overrun = "raise"
    preset: str = DEFAULT_PRESET
    split: bool | None = None
    options: Mapping[str, Level] = field(default_factory=dict)
    grace_s: float = 0.0
    dependencies: DependencySource = "ignore"
    accounts: "AccountTree | None" = None
    allocation: Allocation | None = None
    machine_procs: int | None = None
    train_share: float | None = None
    power: ClusterPower | None = None
    moldable: "Moldability | None" = None

    name = "scheduling"

    def __post_init__(self) -> None:
        if self.allocation is None:
            object.__setattr__(self, "allocation", self._preset.allocation)
            if self._preset.allocation != "processors" and self.machine_procs is None:
                object.__setattr__(self, "machine_procs", 1)
        if self.train_share is not None and not 0 < self.train_share <= 1:
            raise ApplicationError(
                f"train_share is {self.train_share:g}; allowed are numbers above 0 and up to 1"
            )
        self._check_names()
        levels = {
            n: scheduling_parameters.checked_split_levels(n, g) if n in COMPUTED else tuple(g)
            for n, g in self.levels.items()
        }
        object.__setattr__(self, "levels", levels)
        if self.cluster_procs < 1:
            raise ApplicationError(
                f"the cluster must have at least 1 processor, not {self.cluster_procs}"
            )
        if self.too_wide != "clip" and self.workload.widest_procs > self.cluster_procs:
            raise ApplicationError(
                f"the widest job of {self.workload.name} needs {self.workload.widest_procs} "
                f"processors and the cluster has {self.cluster_procs}; set more processors "
                f"(procs, in a command --procs {self.workload.widest_procs}), or let such jobs run "
                "narrower and longer (too_wide = 'clip', --too-wide clip)"
            )
        self._check_machines()
        if self.accounts is not None and not any(self.variation.option_levels("fairshare_weight")):
            raise ApplicationError(
                "accounts has an effect only on fair shares, and no run has a fairshare_weight "
                "above 0; set options.fairshare_weight or give levels of it, or leave accounts out"
            )
        for off_after_s in self.variation.among(OFF_AFTER):
            for cap_w in self.variation.among(POWER_CAP):
                self._check_power(float(off_after_s), float(cap_w))
        for kind in KINDS:
            for policy in self.variation.among(kind):
                self._check_policy(kind, str(policy))
        self.space.from_values(self.baseline)
        self.scenario(self.baseline)  # raise for an impossible baseline now, not in a run

    def _check_names(self) -> None:
        options = every_option()
        option_values(
            options, {name: value for name, value in self.options.items() if name in options}
        )
        own_split = COMPUTED if self.has_split else ()
        for name in self.levels:
            if name in COMPUTED and not own_split:
                raise ApplicationError(
                    f"levels of '{name}' are given, but there is only one partition; remove "
                    "them, or set split = true"
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
                    f"allocation is '{self.allocation}', but the size of a machine is unknown; "
                    "set machine_procs, or choose allocation = 'processors'"
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

    def _check_power(self, off_after_s: float, cap_w: float) -> None:
        whole = Scenario(
            self.train,
            ClusterSpec.single(self.cluster_procs),
            too_wide="clip",
            moldable=self._moldability(int(self._has_moldable)),
        )
        if self.power is not None:
            self.power.with_settings(whole, off_after_s, cap_w)
            return
        if off_after_s or cap_w:
            name = OFF_AFTER if off_after_s else POWER_CAP
            raise ApplicationError(
                f"'{name}' needs the power of a node, which is unknown; set [application.power], "
                "in a command --power busy_w=350 --power idle_w=150"
            )

    def _check_policy(
        self, kind: Kind, policy: str, more: Mapping[str, Level] = MappingProxyType({})
    ) -> None:
        names: dict[Kind, str] = {
            "order": self._policies.order,
            "backfill": self._policies.backfill,
        }
        names[kind] = policy
        owners = options_of({policy_kind: (name,) for policy_kind, name in names.items()})
        check_policies(
            Scenario(
                self.workload,
                self._in_machines(ClusterSpec.single(self.cluster_procs)),
                order=names["order"],
                backfill=names["backfill"],
                options=option_values(
                    owners, {n: v for n, v in {**self.options, **more}.items() if n in owners}
                ),
                allocation=self._given,
                moldable=self._moldability(int(self._has_moldable)),
            )
        )

    @property
    def _has_moldable(self) -> bool:
        """Whether jobs may start on fewer processors in some run."""
        return any(self.levels.get(HALVINGS) or (self._now[HALVINGS],))

    @property
    def _given(self) -> Allocation:
        return self.allocation or "processors"

    @cached_property
    def has_split(self) -> bool:
        """Whether a partition of the cluster may be reserved for small jobs."""
        return self._preset.split if self.split is None else self.split

    @cached_property
    def _preset(self) -> Preset:
        return preset_named(self.preset)

    @cached_property
    def _policies(self) -> CurrentPolicies:
        return self.current_policies or CurrentPolicies(backfill=self._preset.usual_backfill)

    @cached_property
    def _filled(self) -> PresetLevels:
        now = {"order": self._policies.order, "backfill": self._policies.backfill}
        options = options_of({kind: (now[kind],) for kind in KINDS})
        usual = {name: owned[0].option.usual for name, owned in options.items()}
        overrides = option_values(options, {n: v for n, v in self.options.items() if n in options})
        return fill_preset(self._preset, {**usual, **overrides, **self._now}, self._check_policy)

    @property
    def _now(self) -> dict[str, Level]:
        return {
            "procs": self.cluster_procs,
            "order": self._policies.order,
            "backfill": self._policies.backfill,
            "overrun": self.overrun,
            "dependencies": self.dependencies,
            "grace_s": self.grace_s,
            LANE_MAX_REQUESTED: 0,
            LANE_MAX_PROCS: self.cluster_procs,
            OFF_AFTER: 0 if self.power is None else (self.power.nodes.off_after_s or 0),
            POWER_CAP: 0 if self.power is None else self.power.cap_w,
            HALVINGS: 0 if self.moldable is None else self.moldable.halvings,
        }

    @cached_property
    def train(self) -> Workload:
        """The jobs that a run simulates: all, or the first part of the log."""
        share = self._preset.train_share if self.train_share is None else self.train_share
        n_jobs = max(1, math.floor(share * self.workload.n_jobs))
        return self.workload if n_jobs == self.workload.n_jobs else self.workload.head(n_jobs)

    @property
    def is_checked(self) -> bool:
        """Whether jobs after those of a run check its configuration."""
        return self.train.n_jobs < self.workload.n_jobs

    @cached_property
    def variation(self) -> SchedulingVariation:
        """The parameters that vary, except those of the split into two partitions."""
        levels = {**self._filled.levels, **self.levels}
        beside = {
            name: several for name, several in levels.items() if name not in COMPUTED and several
        }
        return SchedulingVariation(self._now, self.options, beside)

    @cached_property
    def cluster_procs(self) -> int:
        """The current number of processors of the cluster."""
        procs = self.procs if self.procs is not None else self.workload.max_procs
        if procs is None:
            raise ApplicationError(_size_is_missing(self.workload))
        return procs

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameters of the split into partitions, then those of the preset or ``levels``.

        The baseline has no small partition. Its thresholds then have no meaning, so exactly one of
        their combinations is allowed. The same holds for every parameter without a meaning in some
        runs.
        """
        exclusions = self.variation.exclusions
        if not self.has_split:
            if not self.variation.parameters:
                raise ApplicationError(
                    f"no parameter varies: the preset '{self.preset}' opens none here; set "
                    "levels, such as those of order"
                )
            return ParameterSpace(self.variation.parameters, exclusions=exclusions)
        levels = self._split_levels
        return ParameterSpace(
            (*scheduling_parameters.split_parameters(levels), *self.variation.parameters),
            exclusions=(
                *(
                    [scheduling_parameters.unused_threshold_exclusion(levels)]
                    if 0 in levels[SMALL_PROCS]
                    else []
                ),
                *exclusions,
            ),
        )

    @cached_property
    def _split_levels(self) -> dict[str, tuple[Level, ...]]:
        explicit = {name: tuple(self.levels[name]) for name in COMPUTED if name in self.levels}
        return {
            **computed_levels(self.workload, self.cluster_procs, self.too_wide, self._unit_procs),
            **explicit,
        }

    @cached_property
    def baseline(self) -> Mapping[str, Level]:
        """The current configuration of the cluster."""
        if not self.has_split:
            return self.variation.now
        return {**scheduling_parameters.baseline_split(self._split_levels), **self.variation.now}

    @property
    def deterministic(self) -> bool:
        """True, because a simulation gives the same result every time."""
        return True

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures that a run may have."""
        lane = any(self.variation.among(LANE_MAX_REQUESTED))
        beside = (*(["small"] if self.has_split else []), *(["express"] if lane else []))
        partitions = (*beside, "main") if beside else ()
        energy = ENERGY if self.power is not None else ()
        names = (*MEASURES, *energy, *(f"utilisation_{name}" for name in partitions))
        return (*names, *LATER) if self.is_checked else names

    @property
    def objective(self) -> Objective:
        """The objective of the preset.

        If it is bounded: minimal mean wait, such that no class of jobs waits longer on average, and
        the longest wait is at most half as long again. Else minimal mean response, and a limited
        wait of small jobs. No job may be rejected.
        """
        every_job = Constraint("n_rejected", at_most=0.0, label="every job finds a partition")
        if self._preset.is_bounded:
            return Objective(
                SingleMeasure("mean_wait_s"),
                "minimise",
                (
                    Constraint(CLASS_RATIO, at_most=1.0, label=CLASS_WORDS),
                    Constraint(LONGEST_RATIO, at_most=MOST_LONGEST, label=LONGEST_WORDS),
                    every_job,
                ),
                unit="s",
            )
        return Objective(
            SingleMeasure("mean_response_s"),
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
                every_job,
            ),
            unit="s",
        )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the workload, the reading of its log, and the cluster, for display."""
        load = self.workload
        width = f"{load.n_jobs:,} jobs over {format_duration(load.span_s)}"
        too_wide = {
            "reject": "is rejected, which makes the configuration infeasible",
            "clip": "runs longer, on the whole widest partition, with the same work",
        }
        overrun = {
            "raise": "continues, and the scheduler plans with its run time",
            "kill": "is ended",
            "extend": "continues, and the scheduler extends its estimate step by step",
            "extend_at_events": "continues, and the scheduler extends its estimate when a job "
            "comes or ends",
        }
        dependencies = {
            "logged": "are submitted after the end of the preceding job of the log",
            "sessions": "are submitted after the end of the batch before in the user's session",
        }
        return (
            Fact("Workload", f"{load.name}: {width}, up to {load.widest_procs:,} processors"),
            Fact("Cluster", self._cluster_in_words),
            Fact("Current configuration", self._today_in_words),
            *(Fact("Power", text) for text in self._power_in_words),
            *(Fact("Left out", reason) for reason in self._left_out),
            *(Fact("Routing", scheduling_parameters.ROUTING) for _ in range(self.has_split)),
            Fact("A job that fits no partition", too_wide.get(self.too_wide, self.too_wide)),
            Fact("A job that exceeds its request", overrun.get(self.overrun, self.overrun)),
            *(
                Fact("Jobs with a preceding job", dependencies[self.dependencies])
                for _ in range(self.dependencies in dependencies)
            ),
            *(Fact("Moldable jobs", text) for text in self._moldable_in_words),
            *(Fact(ACCOUNTS, text) for text in self._accounts_in_words),
            *(Fact(READING, note.sentence) for note in load.ranked_notes),
            *(Fact("Checked on", text) for text in self._check_in_words),
            *(Fact(RECORDED_WAITS, sentence) for sentence in self._recorded_waits),
            Fact("Workload digest", load.digest[:16]),
        )

    @cached_property
    def _recorded_waits(self) -> tuple[str, ...]:
        """How far the simulated waits of the baseline are those of the log, if it records any."""
        if np.isnan(self.workload.logged_wait_s).all():
            return ()
        scenario, result = self.simulated(self.baseline, 0)
        if not has_recorded_waits(scenario.workload, result):
            return ()
        return (wait_agreement(scenario, result).sentence,)

    @property
    def _left_out(self) -> tuple[str, ...]:
        return tuple(why for kind, why in self._filled.left_out if kind not in self.levels)

    @property
    def _cluster_in_words(self) -> str:
        text = f"{self.cluster_procs:,} processors"
        if self.machine_procs is None:
            return text
        n = self.cluster_procs // self.machine_procs
        return f"{text} in {n:,} machines; a job gets {self._given.replace('_', ' ')}"

    @property
    def _unit_procs(self) -> int:
        """Processors of which each partition has a multiple: those of a machine or a node."""
        nodes = self.power.nodes.node_procs if self.power is not None else 1
        return self.machine_procs or nodes

    @property
    def _power_in_words(self) -> tuple[str, ...]:
        if self.power is None:
            return ()
        nodes, cap_w = self.power.nodes, self.power.cap_w
        begin, end = (f"{s / 3_600:g}" for s in (self.power.cap_from_s, self.power.cap_until_s))
        cap = f"all nodes together at most {cap_w:,g} W from {begin} to {end} h"
        off = nodes.off_after_s
        watts = (
            f"a node of {nodes.node_procs:,} processors: busy {nodes.busy_w:g} W, idle "
            f"{nodes.idle_w:g} W, off {nodes.off_w:g} W, booting {nodes.booting_w:g} W for "
            f"{format_duration(nodes.boot_s)}"
        )
        return (
            watts,
            "idle nodes stay on" if off is None else f"off after {format_duration(off)}",
            *((cap,) if cap_w else ()),
        )

    @property
    def _moldable_in_words(self) -> tuple[str, ...]:
        most = self._moldability(max(int(level) for level in self.variation.among(HALVINGS)))
        if most is None:
            return ()
        text = (
            f"the first in the queue starts on its processors halved up to {most.halvings} times "
            "if it ends earlier there than by waiting; Downey's speedup, average parallelism "
            f"{most.parallelism:g} per requested processor, variance {most.variance:g}"
        )
        return (text,)

    @property
    def _accounts_in_words(self) -> tuple[str, ...]:
        if self.accounts is None:
            return ()
        n_accounts, n_users = self.accounts.n_accounts, self.accounts.n_users
        listed = f"accounts: {n_accounts:,}, listed users: {n_users:,}"
        return (f"{listed}, digest {self.accounts.digest[:16]}",)

    @property
    def _check_in_words(self) -> tuple[str, ...]:
        if not self.is_checked:
            return ()
        later = self.workload.n_jobs - self.train.n_jobs
        text = (
            f"runs simulate the first {self.train.n_jobs:,} jobs; the {later:,} jobs after them "
            "check each configuration, and choose none"
        )
        return (text,)

    @property
    def _today_in_words(self) -> str:
        now = self._policies
        text = f"one partition, order {now.order}, backfill {now.backfill}"
        grace = f", grace {format_duration(self.grace_s)}" if self.grace_s else ""
        return text + "".join(f", {name} {value}" for name, value in self.options.items()) + grace

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Simulate one configuration. Raises RunError if the simulator refuses the scenario."""
        measures = self.measured(*self.simulated(values, seed))
        if not self.is_checked:
            return measures
        try:
            scenario = self.scenario(values, seed, self.workload)
            return {**measures, **self.measured(scenario, simulate(scenario))}
        except SimError as error:
            raise RunError(str(error)) from error

    def simulated(
        self, values: Mapping[str, Level], seed: int
    ) -> tuple[Scenario, SimulationResult]:
        """Simulate one configuration and return scenario and result. Raises RunError."""
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

        Configurations that `evaluate` would refuse with a RunError are left out.

        Args:
            configurations: values of the parameters; taken one by one, not far ahead.
            threads: number of parallel simulations; None for one per core.
            progress: function called with the number of configurations done.

        Raises:
            RunError: the simulator refuses a scenario.
        """
        taken: deque[Mapping[str, Level]] = deque()

        simulated = (self.train, self.workload) if self.is_checked else (self.train,)

        def scenarios() -> Iterator[Scenario]:
            for values in configurations:
                try:
                    on_each = [self.scenario(values, 0, workload) for workload in simulated]
                except RunError:
                    continue
                taken.append(values)
                yield from on_each

        results = simulate_many(scenarios(), each=self.measured, threads=threads)
        try:
            done = 0
            while parts := list(islice(results, len(simulated))):
                done += 1
                if progress is not None:
                    progress(done)
                yield taken.popleft(), {k: v for part in parts for k, v in part.items()}
        except SimError as error:
            raise RunError(str(error)) from error

    def measured(self, scenario: Scenario, result: SimulationResult) -> Mapping[str, Measure]:
        """Return the measures of a simulation result.

        Of a simulation of all jobs, where runs simulate fewer, they are those of the later jobs.
        """
        jobs = scenario.workload
        if self.is_checked and jobs is self.workload:
            mine = WaitProfile.of(scenario, result, first=self.train.n_jobs)
            return compared_later(mine, self._current_waits(jobs, self.train.n_jobs))
        measures: dict[str, Measure] = dict(measures_of(scenario, result))
        measures |= compared(WaitProfile.of(scenario, result), self._current_waits(jobs, 0))
        measures["small_jobs_max_wait_s"] = max_wait_s(
            scenario, result, requested_below_s=self.small_job_below_s
        )
        measures["procs"] = float(scenario.cluster.total_procs)
        return measures

    def _current_waits(self, jobs: Workload, first: int) -> WaitProfile | None:
        """Return the waits under the current configuration, which is simulated once."""
        if (jobs.digest, first) not in self._current:
            scenario = self.scenario(self.baseline, 0, jobs)
            if len(self._current) >= _MOST_CURRENT:
                self._current.clear()
            waits = WaitProfile.of(scenario, simulate(scenario), first)
            self._current[jobs.digest, first] = waits
        return self._current[jobs.digest, first]

    @cached_property
    def _current(self) -> dict[tuple[str, int], WaitProfile | None]:
        return {}

    def scenario(
        self, values: Mapping[str, Level], seed: int = 0, workload: Workload | None = None
    ) -> Scenario:
        """Return the scenario of a configuration, with ``workload`` or the jobs of a run.

        Raises:
            RunError: no processor is left for the main partition.
            ApplicationError: the simulator would refuse the scenario.
        """
        settings = self.variation.run_settings(values)
        try:
            scenario = Scenario(
                workload=self.train if workload is None else workload,
                cluster=self._in_machines(cluster_of(values, settings)),
                order=settings.order,
                backfill=settings.backfill,
                overrun=settings.overrun,
                dependencies=settings.dependencies,
                too_wide=self.too_wide,
                seed=seed,
                allocation=self._given,
                options=settings.options,
                grace_s=settings.grace_s,
                accounts=self.accounts,
                moldable=self._moldability(settings.halvings),
            )
            if self.power is None:
                return scenario
            return self.power.with_settings(scenario, settings.off_after_s, settings.power_cap_w)
        except SimError as error:
            raise ApplicationError(str(error)) from error

    def _moldability(self, halvings: int) -> "Moldability | None":
        if halvings == 0:
            return None
        from sim.generators import Moldability

        return replace(self.moldable or Moldability(0), halvings=halvings)

    def _in_machines(self, cluster: ClusterSpec) -> ClusterSpec:
        return cluster if self.machine_procs is None else cluster.in_machines_of(self.machine_procs)
