"""Parameters of the application "scheduling": partitions, policies, options and cluster size.

Names and limits of options come from the orders and backfills themselves, so a newly registered
one can be varied at once. A parameter without a meaning in a run (an option of another rule) has
one level only, so that no two configurations are the same simulation. The split has the three
parameters of section 4.1.1 and figure 5 of the Copper paper: 22 sizes of the small partition, and
20 requested times and 20 numbers of processors up to which a job goes there.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from assistant.core.errors import ApplicationError, RunError, hint
from sim.api import (
    ClusterSpec,
    Overrun,
    Partition,
    PolicyOption,
    SimError,
    TooWide,
    Workload,
    known_names,
    known_options,
    parse_duration,
)
from strategies import Exclusion, Level, Parameter

DependencySource = Literal["ignore", "logged", "sessions"]

MOST_PROCS = 10**12
MOST_CAP_W = 1e15
MOST_HALVINGS = 20

Kind = Literal["order", "backfill"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LANE_MAX_REQUESTED = "lane_max_requested_s"
LANE_MAX_PROCS = "lane_max_procs"
LANE = (LANE_MAX_REQUESTED, LANE_MAX_PROCS)

OFF_AFTER, POWER_CAP = "power_off_after_s", "power_cap_w"
POWER = (OFF_AFTER, POWER_CAP)
HALVINGS = "moldable_halvings"

BESIDE = (  # Can be varied with any policies
    "procs", *KINDS, "overrun", "dependencies", "grace_s", *LANE, *POWER, HALVINGS,
)  # fmt: skip
WHOLE_NUMBERS = {
    "procs": (1, MOST_PROCS),
    LANE_MAX_PROCS: (1, MOST_PROCS),
    HALVINGS: (0, MOST_HALVINGS),
}
WORDS = {"overrun": get_args(Overrun), "dependencies": get_args(DependencySource)}


@dataclass(frozen=True, slots=True)
class OptionalParameter:
    """A cluster parameter other than the three for the split into two partitions.

    Attributes:
        choices: all possible levels, if they are few.
        usual: default value of an option; None for other parameters.
    """

    name: str
    description: str
    unit: str = ""
    choices: tuple[Level, ...] = ()
    usual: Level | None = None


@dataclass(frozen=True, slots=True)
class OptionOwner:
    """An option of a scheduling policy, together with that policy."""

    kind: Kind
    policy: str
    option: PolicyOption

    @property
    def owner(self) -> str:
        """The kind and the name of the policy, for messages."""
        return f"{self.kind} '{self.policy}'"


def options_of(policies: Mapping[Kind, Iterable[str]]) -> dict[str, tuple[OptionOwner, ...]]:
    """Return the options of policies by option name. Raises UnknownNameError."""
    options: dict[str, tuple[OptionOwner, ...]] = {}
    for kind in KINDS:
        for policy in dict.fromkeys(policies[kind]):
            for option in known_options(kind, policy):
                options[option.name] = (
                    *options.get(option.name, ()),
                    OptionOwner(kind, policy, option),
                )
    return options


def every_option() -> dict[str, tuple[OptionOwner, ...]]:
    """Return the options of all registered policies by option name."""
    names = known_names()
    return options_of({kind: names[kind] for kind in KINDS})


def option_values(
    owners: Mapping[str, tuple[OptionOwner, ...]], options: Mapping[str, Level]
) -> dict[str, float]:
    """Convert option values to numbers for the simulator, where times may be texts such as '2h'.

    Raises:
        ApplicationError: a text is not a time.
        ScenarioError: a policy does not allow a value.
    """
    numbers: dict[str, float] = {}
    for name, value in options.items():
        for entry in owners[name]:
            is_time = entry.option.unit == "s" and isinstance(value, str)
            number = seconds(name, value, least=0.0) if is_time else value
            numbers[name] = entry.option.checked(number, entry.owner)
    return numbers


def optional_parameters(policies: Mapping[Kind, Iterable[str]]) -> tuple[OptionalParameter, ...]:
    """Return the cluster parameters (not of the partition split) for the given policies."""
    names = known_names()
    return (
        OptionalParameter("procs", "size of the whole cluster", "processors"),
        OptionalParameter("order", "order of the waiting jobs", choices=names["order"]),
        OptionalParameter("backfill", "overtaking by later jobs", choices=names["backfill"]),
        OptionalParameter(
            "overrun", "treatment of a job that exceeds its request", choices=get_args(Overrun)
        ),
        OptionalParameter(
            "dependencies",
            "whether jobs are submitted after the end of another one",
            choices=get_args(DependencySource),
        ),
        OptionalParameter(
            "grace_s", "time that a job may exceed its request before it is killed", "s"
        ),
        OptionalParameter(
            LANE_MAX_REQUESTED, "jobs that request at most this go first; 0 for no lane", "s"
        ),
        OptionalParameter(LANE_MAX_PROCS, "widest job in the lane", "processors"),
        OptionalParameter(OFF_AFTER, "idle time after which a node is off; 0 for never", "s"),
        OptionalParameter(POWER_CAP, "limit on the power of all nodes; 0 for none", "W"),
        OptionalParameter(
            HALVINGS, "how often the first in the queue may halve its processors to start earlier"
        ),
        *(_of_option(name, owned) for name, owned in options_of(policies).items()),
    )


def _of_option(name: str, owned: tuple[OptionOwner, ...]) -> OptionalParameter:
    option = owned[0].option
    is_switch = option.is_whole and (option.lowest, option.highest) == (0.0, 1.0)
    owners = " and ".join(entry.owner for entry in owned)
    choices = (0, 1) if is_switch else ()
    summary = f"of {owners}: {option.summary}"
    return OptionalParameter(name, summary, option.unit, choices, _plain(option.usual))


@dataclass(frozen=True, slots=True)
class RunPolicies:
    """The cluster size, policies and policy options of one run, without the partition split.

    Attributes:
        lane_max_requested_s: longest request of a job in the lane, in seconds; 0 for no lane.
        lane_max_procs: widest job in the lane.
        off_after_s: idle time after which a node is off, in seconds; 0 for never.
        power_cap_w: limit on the power of all nodes, in watts; 0 for none.
        halvings: how often a job may halve its processors.
    """

    procs: int
    order: str
    backfill: str
    overrun: Overrun
    dependencies: DependencySource
    grace_s: float
    options: Mapping[str, float]
    lane_max_requested_s: float
    lane_max_procs: int
    off_after_s: float
    power_cap_w: float
    halvings: int


@dataclass(frozen=True)
class SchedulingVariation:
    """The current values of all parameters except the partition split, and the varied levels.

    Args:
        baseline: current value of each of `BESIDE`.
        options: options of policies unless a level overrides them; the others are as usual.
        levels: levels of the varied parameters, as typed; after construction as simulated.

    Raises:
        ApplicationError: a level without a meaning, or an option that no run has.
        SimError: a policy that is not registered, or a value that its option does not allow.
    """

    baseline: Mapping[str, Level]
    options: Mapping[str, Level]
    levels: Mapping[str, Sequence[Level]]

    def __post_init__(self) -> None:
        levels = {name: self._checked(name, several) for name, several in self.levels.items()}
        object.__setattr__(self, "levels", levels)
        options = {name: self._option(name, value) for name, value in self.options.items()}
        object.__setattr__(self, "options", options)
        self._check_needed()
        if "kill" in self.among("overrun"):
            return
        if "grace_s" in levels or self.baseline["grace_s"]:
            raise ApplicationError(
                "grace_s is the time that a job may exceed its request before it is killed, but no "
                f"run kills jobs (overrun is {', '.join(map(str, self.among('overrun')))}); choose "
                "overrun = 'kill', or leave grace_s out"
            )

    def _check_needed(self) -> None:
        for name in self.levels:
            needed = self._needed(name)
            if needed and not any(self.levels.get(needed, (self._value(needed),))):
                raise ApplicationError(
                    f"'{name}' has no effect while '{needed}' is 0, as in every run; give "
                    f"levels of '{needed}', or leave '{name}' out"
                )

    def among(self, name: str) -> tuple[Level, ...]:
        """Return the varied levels of a parameter, or only its current value if it is fixed."""
        return tuple(self.levels.get(name, (self.baseline[name],)))

    def option_levels(self, name: str) -> tuple[Level, ...]:
        """Return the varied levels of an option, or its fixed value; none if no run has it."""
        if name in self.levels:
            return tuple(self.levels[name])
        usual = (owner.option.usual for owner in self.option_owners.get(name, ()))
        return (self.options[name],) if name in self.options else tuple(usual)

    @cached_property
    def option_owners(self) -> dict[str, tuple[OptionOwner, ...]]:
        """The options of all policies that a run may have, by name."""
        return options_of({kind: [str(name) for name in self.among(kind)] for kind in KINDS})

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that vary, in the order of ``levels``."""
        policies = {kind: [str(name) for name in self.among(kind)] for kind in KINDS}
        about = {entry.name: entry for entry in optional_parameters(policies)}
        return tuple(
            Parameter(
                name, tuple(levels), unit=about[name].unit, description=about[name].description
            )
            for name, levels in self.levels.items()
        )

    @cached_property
    def now(self) -> dict[str, Level]:
        """The current levels of the varied parameters; ApplicationError if one is not allowed."""
        return {name: self._now(name) for name in self.levels}

    @cached_property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Exclusions that fix a parameter at one level in runs where it has no effect."""
        return tuple(
            Exclusion.parse(f"{where} and {name} != {self.now[name]!r}")
            for name in self.levels
            for where in (self._idle_where(name), self._unneeded_where(name))
            if where
        )

    def run_settings(self, values: Mapping[str, Level]) -> RunPolicies:
        """Return the settings of a run with the given parameter values."""
        have = {**self.baseline, **{name: values[name] for name in BESIDE if name in values}}
        order, backfill = str(have["order"]), str(have["backfill"])
        option_levels = {**self.options, **{n: values[n] for n in self.levels if n not in BESIDE}}
        owners = options_of({"order": (order,), "backfill": (backfill,)})
        options = {name: float(option_levels[name]) for name in owners if name in option_levels}
        return RunPolicies(
            procs=int(have["procs"]),
            order=order,
            backfill=backfill,
            overrun=cast("Overrun", have["overrun"]),
            dependencies=cast("DependencySource", have["dependencies"]),
            grace_s=float(have["grace_s"]) if have["overrun"] == "kill" else 0.0,
            options={
                name: value
                for name, value in options.items()
                if any(value != entry.option.usual for entry in owners[name])
            },
            lane_max_requested_s=float(have[LANE_MAX_REQUESTED]),
            lane_max_procs=int(have[LANE_MAX_PROCS]),
            off_after_s=float(have[OFF_AFTER]),
            power_cap_w=float(have[POWER_CAP]),
            halvings=int(have[HALVINGS]),
        )

    def _now(self, name: str) -> Level:
        levels, value = self.levels[name], self._value(name)
        if value in levels:
            return next(level for level in levels if level == value)
        if self._is_idle_today(name):
            return levels[0]
        raise ApplicationError(
            f"the current {name}, {_plain(value)}, is not among its levels "
            f"({', '.join(map(str, levels))}); add it for the comparison"
        )

    def _value(self, name: str) -> Level:
        if name in BESIDE:
            return self.baseline[name]
        owned = self.option_owners[name]
        mine = [entry for entry in owned if entry.policy == self.baseline[entry.kind]]
        return self.options.get(name, (mine or list(owned))[0].option.usual)

    def _is_idle_today(self, name: str) -> bool:
        where, needed = self._means(name), self._needed(name)
        if needed and self._value(needed) == 0:
            return True
        return bool(where) and not any(self.baseline[n] in levels for n, levels in where.items())

    def _needed(self, name: str) -> str:
        """Return the option without which another one has no effect; empty if there is none."""
        needs = {entry.option.needs for entry in self.option_owners.get(name, ())}
        return needs.pop() if len(needs) == 1 else ""

    def _unneeded_where(self, name: str) -> str:
        needed = self._needed(name)
        return f"{needed} == 0" if needed in self.levels and 0 in self.levels[needed] else ""

    def _means(self, name: str) -> dict[str, tuple[Level, ...]]:
        """Return the levels of other parameters with which a parameter matters; empty for all."""
        if name == "grace_s":
            return {"overrun": ("kill",)}
        if name == LANE_MAX_PROCS:
            return {LANE_MAX_REQUESTED: tuple(v for v in self.among(LANE_MAX_REQUESTED) if v)}
        if name in BESIDE:
            return {}
        return {
            kind: tuple(entry.policy for entry in self.option_owners[name] if entry.kind == kind)
            for kind in KINDS
        }

    def _idle_where(self, name: str) -> str:
        """Return the condition under which a parameter has no meaning; empty if there is none."""
        parts = []
        for other, levels in self._means(name).items():
            among = self.among(other)
            if all(level in levels for level in among):
                return ""
            if any(level in levels for level in among):
                parts.append(_is_none_of(other, levels))
        return " and ".join(parts)

    def _checked(self, name: str, levels: Sequence[Level]) -> tuple[Level, ...]:
        if name in KINDS:
            return tuple(levels)
        if name in WORDS:
            for value in levels:
                if value not in WORDS[name]:
                    raise ApplicationError(
                        f"{name} has the level {value!r}{hint(str(value), WORDS[name])}"
                    )
            return tuple(levels)
        if name in ("grace_s", LANE_MAX_REQUESTED, OFF_AFTER):
            return tuple(seconds(name, value, least=0.0) for value in levels)
        if name in WHOLE_NUMBERS:
            return tuple(whole_number(name, value, *WHOLE_NUMBERS[name]) for value in levels)
        if name == POWER_CAP:
            return tuple(_watts(name, value) for value in levels)
        return tuple(self._option(name, value) for value in levels)

    def _option(self, name: str, value: Level) -> Level:
        if name not in self.option_owners:
            raise ApplicationError(self._unknown_option(name))
        return _plain(option_values(self.option_owners, {name: value})[name])

    def _unknown_option(self, name: str) -> str:
        owned = every_option().get(name)
        if owned is None:
            return f"no policy has an option '{name}'{hint(name, every_option())}"
        owners = " and ".join(entry.owner for entry in owned)
        have = "; ".join(f"{kind} {', '.join(map(str, self.among(kind)))}" for kind in KINDS)
        return (
            f"'{name}' is an option of {owners}, which no run uses ({have}); add the policy to the "
            f"levels of {owned[0].kind}, or remove the option"
        )


def whole_number(name: str, value: Level, least: int, most: int) -> int:
    """Return a level as a whole number, or raise ApplicationError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= most and value == int(value):  # type: ignore[operator]
        return int(value)
    raise ApplicationError(
        f"{name} has the level {value!r}; allowed are whole numbers from {least} to {most:,}"
    )


def _watts(name: str, value: Level) -> Level:
    """Return a level as a power, 0 for none, or raise ApplicationError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= MOST_CAP_W:  # type: ignore[operator]
        return value
    raise ApplicationError(
        f"{name} has the level {value!r}; allowed are watts from 0, for none, to {MOST_CAP_W:g}"
    )


def seconds(name: str, value: Level, least: float) -> Level:
    """Convert a level, such as 7200 or '2h', to seconds, or raise ApplicationError."""
    try:
        duration_s = parse_duration(value)
    except (SimError, TypeError) as error:
        raise ApplicationError(f"{name} has the level {value!r}: {error}") from error
    if duration_s < least:
        raise ApplicationError(f"{name} has the level {value!r}; allowed are times from {least:g}")
    return _plain(duration_s)


def _is_none_of(name: str, levels: Iterable[Level]) -> str:
    first, *more = levels
    return f"{name} not in {[first, *more]!r}" if more else f"{name} != {first!r}"


def _plain(value: Any) -> Level:
    """Return a whole float as an int, and every other level unchanged."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else cast("Level", value)


def numbers_in_order(levels: Iterable[Level]) -> Iterator[Level]:
    """Yield the levels of a parameter, in ascending order if all are numbers."""
    ordered = list(levels)
    if all(isinstance(level, int | float) for level in ordered):
        ordered.sort(key=float)
    yield from ordered


SMALL_PROCS = "small_procs"
SMALL_MAX_REQUESTED = "small_max_requested_s"
SMALL_MAX_PROCS = "small_max_procs"
COMPUTED = (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS)

N_SPLITS, N_TIMES, N_WIDTHS = 22, 20, 20


def computed_levels(
    workload: Workload, cluster_procs: int, too_wide: TooWide, machine_procs: int = 1
) -> dict[str, tuple[Level, ...]]:
    """Compute ascending levels of the three partition split parameters from the jobs.

    Args:
        workload: jobs of the log.
        cluster_procs: processors of the cluster.
        too_wide: unless it is ``clip``, the main partition keeps room for the widest job.
        machine_procs: processors of a machine; every partition has a multiple of it.
    """
    room = max(cluster_procs - workload.widest_procs, 0)
    if too_wide == "clip":
        room = max(room, cluster_procs // 2)
    n_machines = np.linspace(0, room // machine_procs, N_SPLITS).round().astype(int)
    splits = np.unique(n_machines) * machine_procs
    requested_s, procs = workload.requested_s, workload.procs
    return {
        SMALL_PROCS: tuple(splits.tolist()),
        SMALL_MAX_REQUESTED: time_levels(float(requested_s.min()), float(requested_s.max())),
        SMALL_MAX_PROCS: width_levels(int(procs.min()), int(procs.max())),
    }


_ROUND_TIMES_S = tuple(
    size * count
    for size, counts in (
        (60, (1, 2, 5, 10, 15, 20, 30, 45)),
        (3_600, (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)),
        (86_400, (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30, 60, 120, 365)),
    )
    for count in counts
)


def time_levels(least_s: float, most_s: float) -> tuple[Level, ...]:
    """Return up to 20 round durations, in seconds, from ``least_s`` to at least ``most_s``."""
    inside = [int(t) for t in _ROUND_TIMES_S if least_s <= t < most_s]
    last = next((int(t) for t in _ROUND_TIMES_S if t >= most_s), int(-(-most_s // 60)) * 60)
    if len(inside) > N_TIMES - 1:
        picked = np.linspace(0, len(inside) - 1, N_TIMES - 1).round().astype(int)
        inside = [inside[i] for i in picked]
    return fill_gaps([*inside, last], N_TIMES, step=60)


def width_levels(least: int, most: int) -> tuple[Level, ...]:
    """Return up to 20 numbers of processors from ``least`` to ``most``, evenly on a log scale."""
    raw = np.unique(np.geomspace(least, most, N_WIDTHS).round().astype(int)).tolist()
    return fill_gaps(raw, N_WIDTHS, step=1)


def fill_gaps(levels: list[int], count: int, step: int) -> tuple[Level, ...]:
    """Insert multiples of ``step`` into the widest gaps until there are ``count`` levels.

    The result is shorter only if there is no room between the first and the last level.
    """
    distinct = sorted(set(levels))
    while len(distinct) < count:
        gaps = [(b / a, a, b) for a, b in itertools.pairwise(distinct) if b - a >= 2 * step]
        if not gaps:
            break
        _, low, high = max(gaps)
        middle = round(math.sqrt(low * high) / step) * step
        distinct = sorted({*distinct, min(max(middle, low + step), high - step)})
    return tuple(distinct)


ROUTING = "a job within both limits goes to the small partition, others to main"

_DESCRIBED: Mapping[str, tuple[str, str]] = {
    SMALL_PROCS: ("processors", "size of the small partition; 0 for none"),
    SMALL_MAX_REQUESTED: (
        "s",
        "largest requested time of a job in the small partition",
    ),
    SMALL_MAX_PROCS: (
        "processors",
        "largest number of processors of a job in the small partition",
    ),
}


def checked_split_levels(name: str, levels: Sequence[Level]) -> tuple[Level, ...]:
    """Check the levels of a partition split parameter; return times such as '2h' in seconds."""
    if name == SMALL_MAX_REQUESTED:
        return tuple(_above_zero(value) for value in levels)
    least = 0 if name == SMALL_PROCS else 1
    return tuple(whole_number(name, value, least, MOST_PROCS) for value in levels)


def _above_zero(value: Level) -> Level:
    duration_s = seconds(SMALL_MAX_REQUESTED, value, least=0.0)
    if not duration_s:
        raise ApplicationError(
            f"{SMALL_MAX_REQUESTED} has the level {value!r}; allowed are times above 0"
        )
    return duration_s


def split_parameters(levels: Mapping[str, Sequence[Level]]) -> tuple[Parameter, ...]:
    """Return the three parameters of the split into partitions with the given levels."""
    return tuple(
        Parameter(name, tuple(levels[name]), unit=unit, description=description)
        for name, (unit, description) in _DESCRIBED.items()
    )


def baseline_split(levels: Mapping[str, Sequence[Level]]) -> dict[str, Level]:
    """Return the split parameters for a single partition. Raises ApplicationError."""
    if 0 not in levels[SMALL_PROCS]:
        raise ApplicationError(
            f"the current {SMALL_PROCS}, 0, is not among its levels "
            f"({', '.join(map(str, levels[SMALL_PROCS]))}); add it for the comparison"
        )
    return {SMALL_PROCS: 0, **{name: levels[name][-1] for name in COMPUTED[1:]}}


def unused_threshold_exclusion(levels: Mapping[str, Sequence[Level]]) -> Exclusion:
    """Return the exclusion that fixes unused job limits in runs without a small partition."""
    last_s, last_procs = levels[SMALL_MAX_REQUESTED][-1], levels[SMALL_MAX_PROCS][-1]
    return Exclusion.parse(
        f"{SMALL_PROCS} == 0 and ({SMALL_MAX_REQUESTED} != {last_s!r} "
        f"or {SMALL_MAX_PROCS} != {last_procs!r})"
    )


def lane_widths(cluster_procs: int) -> tuple[Level, ...]:
    """Return the widest jobs of a lane: 1/64, 1/16 and 1/4 of the processors, and all of them."""
    return tuple(sorted({max(1, cluster_procs // part) for part in (64, 16, 4, 1)}))


def cluster_of(values: Mapping[str, Level], settings: RunPolicies) -> ClusterSpec:
    """Return the cluster of a run: one partition or the split, and a lane if there is one.

    The lane is a queue on the processors of the main partition whose jobs go first, as Slurm's
    PriorityTier makes them. It takes no processors away. Raises RunError without a main partition.
    """
    total, small = settings.procs, int(values.get(SMALL_PROCS, 0))
    if small >= total:
        raise RunError(
            f"a small partition of {small} processors leaves none of {total} for the main one"
        )
    partitions = [Partition("main", total - small)]
    if settings.lane_max_requested_s:
        partitions.insert(
            0,
            Partition(
                "express",
                on="main",
                max_requested_s=settings.lane_max_requested_s,
                max_procs=min(settings.lane_max_procs, total - small),
                tier=1,
            ),
        )
    if small:
        partitions.insert(
            0,
            Partition(
                "small",
                small,
                max_requested_s=float(values[SMALL_MAX_REQUESTED]),
                max_procs=min(int(values[SMALL_MAX_PROCS]), small),
            ),
        )
    return ClusterSpec.of(partitions)
