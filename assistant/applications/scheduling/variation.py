"""What may differ from run to run beside the split: policies, their options, the cluster's size.

Names and limits of options are those that orders and backfilling rules declare, so a new one can
be varied as soon as it is registered. Where a parameter means nothing, such as the option of a rule
in a run with another one, it has one level only: no two configurations are the same simulation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args

from assistant.errors import ApplicationError, hint
from sim.api import Option, Overrun, SimError, known_names, known_options, parse_duration
from strategies import Exclusion, Level, Parameter

MOST_PROCS = 10**12

Kind = Literal["order", "backfill"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BESIDE = ("procs", *KINDS, "overrun", "grace_s")
"""What may be varied whatever the policies."""


@dataclass(frozen=True, slots=True)
class Openable:
    """A parameter that a cluster may have beside its split.

    Attributes:
        name: of the parameter.
        description: one line for people.
        unit: for people.
        choices: all levels that it may have, if they are few.
        usual: of an option, what it is unless something else is told; None of all others.
    """

    name: str
    description: str
    unit: str = ""
    choices: tuple[Level, ...] = ()
    usual: Level | None = None


@dataclass(frozen=True, slots=True)
class Owned:
    """An option, and the policy that can be told it."""

    kind: Kind
    policy: str
    option: Option

    @property
    def owner(self) -> str:
        """The policy in words."""
        return f"{self.kind} '{self.policy}'"


def options_of(policies: Mapping[Kind, Iterable[str]]) -> dict[str, tuple[Owned, ...]]:
    """Return the options of some policies by name, each with all that can be told it.

    Raises:
        UnknownNameError: an order or a rule that nobody registered.
    """
    found: dict[str, tuple[Owned, ...]] = {}
    for kind in KINDS:
        for policy in dict.fromkeys(policies[kind]):
            for option in known_options(kind, policy):
                found[option.name] = (*found.get(option.name, ()), Owned(kind, policy, option))
    return found


def every_option() -> dict[str, tuple[Owned, ...]]:
    """Return the options of all registered policies by name."""
    names = known_names()
    return options_of({kind: names[kind] for kind in KINDS})


def told(known: Mapping[str, tuple[Owned, ...]], options: Mapping[str, Level]) -> dict[str, float]:
    """Return values of known options as they are simulated; times may be texts such as '2h'.

    Raises:
        ApplicationError: a text that is no time.
        ScenarioError: a value that a policy does not allow.
    """
    found: dict[str, float] = {}
    for name, value in options.items():
        for one in known[name]:
            is_time = one.option.unit == "s" and isinstance(value, str)
            number = seconds(name, value, least=0.0) if is_time else value
            found[name] = one.option.checked(number, one.owner)
    return found


def openable(policies: Mapping[Kind, Iterable[str]]) -> tuple[Openable, ...]:
    """Return what can be varied beside the split in runs with these policies.

    Raises:
        UnknownNameError: an order or a rule that nobody registered.
    """
    names = known_names()
    return (
        Openable("procs", "size of the whole cluster", "processors"),
        Openable("order", "which waiting job comes first", choices=names["order"]),
        Openable("backfill", "which later jobs may overtake", choices=names["backfill"]),
        Openable(
            "overrun", "what becomes of a job that outlives its request", choices=get_args(Overrun)
        ),
        Openable("grace_s", "how long a job may outlive its request before it is killed", "s"),
        *(_of_option(name, owned) for name, owned in options_of(policies).items()),
    )


def _of_option(name: str, owned: tuple[Owned, ...]) -> Openable:
    option = owned[0].option
    is_switch = option.is_whole and (option.lowest, option.highest) == (0.0, 1.0)
    owners = " and ".join(one.owner for one in owned)
    choices = (0, 1) if is_switch else ()
    summary = f"of {owners}: {option.summary}"
    return Openable(name, summary, option.unit, choices, _plain(option.usual))


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one run has beside its split; ``options`` has only what its policies know."""

    procs: int
    order: str
    backfill: str
    overrun: Overrun
    grace_s: float
    options: Mapping[str, float]


@dataclass(frozen=True)
class Variation:
    """How things are today, and the levels of what is varied.

    Args:
        today: a value for each of `BESIDE`.
        options: what policies are told unless a level says otherwise; the others are as usual.
        levels: of what is varied, as they may be typed; afterwards as they are simulated.

    Raises:
        ApplicationError: a level that means nothing, or an option that no run has.
        SimError: a policy that nobody registered, or a value that its option may not have.
    """

    today: Mapping[str, Level]
    options: Mapping[str, Level]
    levels: Mapping[str, Sequence[Level]]

    def __post_init__(self) -> None:
        levels = {name: self._checked(name, given) for name, given in self.levels.items()}
        object.__setattr__(self, "levels", levels)
        options = {name: self._option(name, value) for name, value in self.options.items()}
        object.__setattr__(self, "options", options)
        self._check_needed()
        if "kill" in self.among("overrun"):
            return
        if "grace_s" in levels or self.today["grace_s"]:
            raise ApplicationError(
                "grace_s is how long a job may outlive its request before it is killed, and no "
                f"run kills (overrun is {', '.join(map(str, self.among('overrun')))}); choose "
                "overrun = 'kill', or leave grace_s out"
            )

    def _check_needed(self) -> None:
        for name in self.levels:
            needed = self._needed(name)
            if needed and not any(self.levels.get(needed, (self._value(needed),))):
                raise ApplicationError(
                    f"'{name}' changes nothing while '{needed}' is 0, as it is in every run; give "
                    f"levels of '{needed}', or leave '{name}' out"
                )

    def among(self, name: str) -> tuple[Level, ...]:
        """Return the levels of something, or today's value if it is not varied."""
        return tuple(self.levels.get(name, (self.today[name],)))

    @cached_property
    def known(self) -> dict[str, tuple[Owned, ...]]:
        """The options of all policies that a run may have."""
        return options_of({kind: [str(name) for name in self.among(kind)] for kind in KINDS})

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What is varied, in the order in which it was named."""
        policies = {kind: [str(name) for name in self.among(kind)] for kind in KINDS}
        about = {one.name: one for one in openable(policies)}
        return tuple(
            Parameter(
                name, tuple(levels), unit=about[name].unit, description=about[name].description
            )
            for name, levels in self.levels.items()
        )

    @cached_property
    def now(self) -> dict[str, Level]:
        """Today's level of everything that is varied; where it means nothing, its only one.

        Raises:
            ApplicationError: today's value is not among the levels.
        """
        return {name: self._now(name) for name in self.levels}

    @cached_property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """What leaves one level of each parameter in the runs in which it means nothing."""
        return tuple(
            Exclusion.parse(f"{where} and {name} != {self.now[name]!r}")
            for name in self.levels
            for where in (self._idle_where(name), self._unneeded_where(name))
            if where
        )

    def chosen(self, values: Mapping[str, Level]) -> Chosen:
        """Return what a run with these values has."""
        have = {**self.today, **{name: values[name] for name in BESIDE if name in values}}
        order, backfill = str(have["order"]), str(have["backfill"])
        said = {**self.options, **{n: values[n] for n in self.levels if n not in BESIDE}}
        known = options_of({"order": (order,), "backfill": (backfill,)})
        options = {name: float(said[name]) for name in known if name in said}
        return Chosen(
            procs=int(have["procs"]),
            order=order,
            backfill=backfill,
            overrun=cast("Overrun", have["overrun"]),
            grace_s=float(have["grace_s"]) if have["overrun"] == "kill" else 0.0,
            options={
                name: value
                for name, value in options.items()
                if any(value != one.option.usual for one in known[name])
            },
        )

    def _now(self, name: str) -> Level:
        levels, value = self.levels[name], self._value(name)
        if value in levels:
            return next(level for level in levels if level == value)
        if self._is_idle_today(name):
            return levels[0]
        raise ApplicationError(
            f"today's {name}, {_plain(value)}, is not among its levels "
            f"({', '.join(map(str, levels))}); add it, so that there is something to compare with"
        )

    def _value(self, name: str) -> Level:
        if name in BESIDE:
            return self.today[name]
        owned = self.known[name]
        mine = [one for one in owned if one.policy == self.today[one.kind]]
        return self.options.get(name, (mine or list(owned))[0].option.usual)

    def _is_idle_today(self, name: str) -> bool:
        where, needed = self._means(name), self._needed(name)
        if needed and self._value(needed) == 0:
            return True
        return bool(where) and not any(self.today[n] in levels for n, levels in where.items())

    def _needed(self, name: str) -> str:
        """Return the option without which another one changes nothing; empty if there is none."""
        needs = {one.option.needs for one in self.known.get(name, ())}
        return needs.pop() if len(needs) == 1 else ""

    def _unneeded_where(self, name: str) -> str:
        needed = self._needed(name)
        return f"{needed} == 0" if needed in self.levels and 0 in self.levels[needed] else ""

    def _means(self, name: str) -> dict[str, tuple[Level, ...]]:
        """Return with which levels of what else something means something; empty is with all."""
        if name == "grace_s":
            return {"overrun": ("kill",)}
        if name in BESIDE:
            return {}
        return {
            kind: tuple(one.policy for one in self.known[name] if one.kind == kind)
            for kind in KINDS
        }

    def _idle_where(self, name: str) -> str:
        """Return the condition under which a parameter means nothing; empty is never."""
        parts = []
        for other, levels in self._means(name).items():
            among = self.among(other)
            if all(one in levels for one in among):
                return ""
            if any(one in levels for one in among):
                parts.append(_is_none_of(other, levels))
        return " and ".join(parts)

    def _checked(self, name: str, given: Sequence[Level]) -> tuple[Level, ...]:
        if name in KINDS:
            return tuple(given)
        if name == "overrun":
            for value in given:
                if value not in get_args(Overrun):
                    raise ApplicationError(
                        f"overrun has the level {value!r}{hint(str(value), get_args(Overrun))}"
                    )
            return tuple(given)
        if name == "grace_s":
            return tuple(seconds(name, value, least=0.0) for value in given)
        if name == "procs":
            return tuple(whole(name, value, 1) for value in given)
        return tuple(self._option(name, value) for value in given)

    def _option(self, name: str, value: Level) -> Level:
        """Return the value of an option as it is simulated."""
        if name not in self.known:
            raise ApplicationError(self._nobody_knows(name))
        return _plain(told(self.known, {name: value})[name])

    def _nobody_knows(self, name: str) -> str:
        owned = every_option().get(name)
        if owned is None:
            return f"no policy has an option '{name}'{hint(name, every_option())}"
        owners = " and ".join(one.owner for one in owned)
        have = "; ".join(f"{kind} {', '.join(map(str, self.among(kind)))}" for kind in KINDS)
        return (
            f"'{name}' is an option of {owners}, which no run has ({have}); add it to the levels "
            f"of {owned[0].kind}, or leave the option out"
        )


def whole(name: str, value: Level, least: int) -> int:
    """Return a level that is a number of processors. Raises ApplicationError if it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= MOST_PROCS and value == int(value):  # type: ignore[operator]
        return int(value)
    raise ApplicationError(
        f"{name} has the level {value!r}; allowed are whole numbers from {least} to {MOST_PROCS:,}"
    )


def seconds(name: str, value: Level, least: float) -> Level:
    """Return a level that is a time, also from a text such as '2h'.

    Raises:
        ApplicationError: it is none, or less than ``least``.
    """
    try:
        found = parse_duration(value)
    except (SimError, TypeError) as error:
        raise ApplicationError(f"{name} has the level {value!r}: {error}") from error
    if found < least:
        raise ApplicationError(f"{name} has the level {value!r}; allowed are times from {least:g}")
    return _plain(found)


def _is_none_of(name: str, levels: Iterable[Level]) -> str:
    one, *more = levels
    return f"{name} not in {[one, *more]!r}" if more else f"{name} != {one!r}"


def _plain(value: Any) -> Level:
    """Return a whole number as one."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else cast("Level", value)


def numbers_in_order(levels: Iterable[Level]) -> Iterator[Level]:
    """Yield levels, those that are numbers in ascending order."""
    given = list(levels)
    if all(isinstance(level, int | float) for level in given):
        given.sort(key=float)
    yield from given
