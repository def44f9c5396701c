"""Registry of strategies: an explicit tuple, then the entry points of third parties.

A third party registers by an entry point of group ``copperline.strategies`` whose name is the
strategy's and whose object is a `StrategyEntry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from strategies.doe.main_effects import METHODS
from strategies.samplers.anova_search import (
    DEFAULT_CAUTION,
    DEFAULT_DESIGN,
    DEFAULT_START,
    DESIGNS,
    Anova,
)
from strategies.samplers.factorial import (
    DEFAULT_RESOLUTION,
    RUN_ORDERS,
    FractionalFactorial,
    FullFactorial,
)
from strategies.samplers.grasp import DEFAULT_BETA, DEFAULT_NEIGHBOURS, Grasp
from strategies.samplers.latin_hypercube import CRITERIA, LatinHypercube
from strategies.samplers.particle_swarm import (
    DEFAULT_INERTIA,
    DEFAULT_PARTICLES,
    DEFAULT_PULL,
    MAX_PULL,
    ParticleSwarm,
)
from strategies.samplers.pattern_search import PatternSearch
from strategies.samplers.strategy import RandomSearch, Strategy
from strategies.space.errors import OptionError, StrategyError, UnknownStrategyError, hint

ENTRY_POINT_GROUP = "copperline.strategies"

OptionValue: TypeAlias = int | float | bool | str

DEFAULT_STRATEGY = "anova"  # Default strategy: the one that needs the fewest runs


@dataclass(frozen=True, slots=True)
class StrategyOption:
    """Option of a strategy: name, type, default and bounds.

    Args:
        name: keyword of the option.
        type: int, float, bool or str; an int is accepted where a float is expected.
        default: value when not given.
        low: least value, None for no bound.
        high: greatest value, None for no bound.
        summary: one line for people.
        choices: allowed texts, empty for any.
    """

    name: str
    type: type[int] | type[float] | type[bool] | type[str]
    default: OptionValue
    low: float | None = None
    high: float | None = None
    summary: str = ""
    choices: tuple[str, ...] = ()

    def check(self, strategy: str, value: OptionValue) -> OptionValue:
        """Return a value converted to the option's type, or raise `OptionError`."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            with suppress(OverflowError):  # too large for a float: refused below
                value = float(value)
        fits = type(value) is self.type
        if fits and isinstance(value, int | float):
            above = self.low is None or value >= self.low
            fits = above and (self.high is None or value <= self.high)
        if not fits or (self.choices and value not in self.choices):
            raise OptionError(
                f"option '{self.name}' of strategy '{strategy}' is {value!r}; it must be "
                f"{self.domain}."
            )
        return value

    @property
    def domain(self) -> str:
        """Allowed values as text, such as "a number from 0 to 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        noun = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        low = "" if self.low is None else f" from {self.low:g}"
        high = "" if self.high is None else f" to {self.high:g}"
        return f"{noun[self.type]}{low}{high or (' on' if low else '')}"


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """Registry entry of a strategy: name, constructor and options.

    Args:
        name: name in settings and commands.
        summary: one line for people.
        factory: constructor, called with the options.
        options: options of the strategy.
        starts: whether it chooses the first runs itself; else they are random, as in the paper.
        batch: suggestions that belong together; the default size of a batch, unless more runs
            execute at once.
    """

    name: str
    summary: str
    factory: Callable[..., Strategy]
    options: tuple[StrategyOption, ...] = ()
    starts: bool = False
    batch: int = 1

    def build(self, /, **options: OptionValue) -> Strategy:
        """Make the strategy, with defaults for missing options.

        Raises `OptionError` for an unknown option or a value out of bounds.
        """
        options_by_name = {option.name: option for option in self.options}
        for name in options:
            if name not in options_by_name:
                if not options_by_name:
                    raise OptionError(
                        f"strategy '{self.name}' has no options, so no '{name}'; leave it out."
                    )
                raise OptionError(
                    f"strategy '{self.name}' has no option '{name}'{hint(name, options_by_name)}"
                )
        values = {
            name: option.check(self.name, options.get(name, option.default))
            for name, option in options_by_name.items()
        }
        return self.factory(**values)


STRATEGIES: tuple[StrategyEntry, ...] = (
    StrategyEntry(
        "anova",
        "The default: expected improvement under one model of main effects and interactions, "
        "after a balanced design.",
        Anova,
        (
            StrategyOption(
                "start", int, DEFAULT_START, 1.0, None, "runs of the balanced design at first"
            ),
            StrategyOption(
                "caution", float, DEFAULT_CAUTION, 0.0, 10.0,
                "weight of the chance that a run succeeds; 0 ignores failures",
            ),
            StrategyOption(
                "design", str, DEFAULT_DESIGN,
                summary="levels of the first runs: the ends of ordinal parameters, or all",
                choices=DESIGNS,
            ),
        ),
        starts=True,
    ),
    StrategyEntry(
        "grasp",
        "The Copper paper's default: greedy randomised constructions from main effects, with "
        "their neighbours.",
        Grasp,
        (
            StrategyOption(
                "beta", float, DEFAULT_BETA, 0.0, 1.0,
                "greediness: 0 takes any level, 1 only the best seen and untried ones",
            ),
            StrategyOption(
                "neighbours", int, DEFAULT_NEIGHBOURS, 0.0, None,
                "neighbours suggested with every construction",
            ),
            StrategyOption(
                "effects", str, "means",
                summary="how the quality of a level is estimated",
                choices=METHODS,
            ),
        ),
        batch=DEFAULT_NEIGHBOURS + 1,
    ),
    StrategyEntry("random", "Uniformly at random, never twice.", RandomSearch, starts=True),
    StrategyEntry(
        "pattern_search",
        "Polls around the best configuration, with steps that are halved when none is better.",
        PatternSearch,
        starts=True,
    ),
    StrategyEntry(
        "particle_swarm",
        "Particles that move over the grid, drawn to their own best run and the swarm's.",
        ParticleSwarm,
        (
            StrategyOption("particles", int, DEFAULT_PARTICLES, 1.0, None, "how many particles"),
            StrategyOption(
                "inertia", float, DEFAULT_INERTIA, 0.0, 1.0,
                "share of a particle's last move that goes on",
            ),
            StrategyOption(
                "cognitive", float, DEFAULT_PULL, 0.0, MAX_PULL,
                "pull to the particle's own best run",
            ),
            StrategyOption(
                "social", float, DEFAULT_PULL, 0.0, MAX_PULL, "pull to the swarm's best run"
            ),
        ),
        starts=True,
    ),
    StrategyEntry(
        "latin_hypercube",
        "Every level about equally often, also with the runs before; no result is looked at.",
        LatinHypercube,
        (
            StrategyOption(
                "criterion", str, "maximin",
                summary="far apart, or parameters as little correlated as can be",
                choices=CRITERIA,
            ),
        ),
        starts=True,
    ),
    StrategyEntry(
        "full_factorial",
        "Every allowed configuration, in random or in standard order.",
        FullFactorial,
        (
            StrategyOption(
                "order", str, "random",
                summary="order of the runs; in standard order the last parameter moves fastest",
                choices=RUN_ORDERS,
            ),
        ),
        starts=True,
    ),
    StrategyEntry(
        "fractional_factorial",
        "Lowest and highest levels in a regular fraction, its fold-over and their factorial, then "
        "all levels.",
        FractionalFactorial,
        (
            StrategyOption(
                "resolution", int, DEFAULT_RESOLUTION, 3.0, 5.0,
                "3 tells main effects apart, 4 also from two-factor interactions, 5 those too",
            ),
        ),
        starts=True,
    ),
)  # fmt: skip


def strategy_entry(name: str) -> StrategyEntry:
    """Return the registry entry of a built-in or third-party strategy by its name.

    Raises `UnknownStrategyError` with the nearest match, `StrategyError` if two strategies have the
    same name or an entry point does not load.
    """
    built_in = {entry.name: entry for entry in STRATEGIES}
    third_party = _third_party(built_in)
    if name in built_in:
        return built_in[name]
    if name in third_party:
        return _load(third_party[name])
    raise UnknownStrategyError(f"no strategy '{name}'{hint(str(name), [*built_in, *third_party])}")


def strategy_names() -> tuple[str, ...]:
    """Return the names of all registered strategies, built-in ones first."""
    built_in = [entry.name for entry in STRATEGIES]
    return (*built_in, *sorted(_third_party(built_in)))


def make_strategy(name: str, /, **options: OptionValue) -> Strategy:
    """Construct a registered strategy by its name, with the given options."""
    return strategy_entry(name).build(**options)


def _third_party(built_in: Iterable[str]) -> dict[str, EntryPoint]:
    points: dict[str, EntryPoint] = {}
    names = set(built_in)
    for point in _declared(entry_points):
        if point.name in names:
            raise StrategyError(
                f"the strategy '{point.name}' is registered twice (again by '{point.value}'); "
                "names must be distinct, uninstall one of them."
            )
        names.add(point.name)
        points[point.name] = point
    return points


@cache
def _declared(read: Callable[..., Iterable[EntryPoint]]) -> tuple[EntryPoint, ...]:
    """Return the installed entry points, cached because the lookup takes 10 ms."""
    return tuple(read(group=ENTRY_POINT_GROUP))


def _load(point: EntryPoint) -> StrategyEntry:
    try:
        entry = point.load()
    except Exception as error:  # a third party's import may fail in any way
        raise StrategyError(
            f"the strategy '{point.name}' of '{point.value}' does not load: {error}."
        ) from error
    if not isinstance(entry, StrategyEntry) or entry.name != point.name:
        raise StrategyError(
            f"the entry point '{point.name}' of '{point.value}' is no StrategyEntry of that name."
        )
    return entry
