"""Registry of strategies: an explicit table, then the entry points of third parties.

A third party registers by an entry point of group ``copperline.strategies`` whose name is the
strategy's and whose object is a `StrategyEntry`.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from strategies.samplers.strategy import OptionValue, Strategy, StrategyEntry
from strategies.space.errors import StrategyError, UnknownStrategyError, hint

ENTRY_POINT_GROUP = "copperline.strategies"

DEFAULT_STRATEGY = "grasp"  # Default strategy: the one that needs the fewest runs

STRATEGIES = {
    "grasp": "strategies.samplers.grasp:GRASP",
    "copper": "strategies.samplers.copper:COPPER",
    "random": "strategies.samplers.strategy:RANDOM",
    "pattern_search": "strategies.samplers.pattern_search:PATTERN_SEARCH",
    "particle_swarm": "strategies.samplers.particle_swarm:PARTICLE_SWARM",
    "latin_hypercube": "strategies.samplers.latin_hypercube:LATIN_HYPERCUBE",
    "full_factorial": "strategies.samplers.factorial:FULL_FACTORIAL",
    "fractional_factorial": "strategies.samplers.factorial:FRACTIONAL_FACTORIAL",
}
"""Built-in strategies by name: the module and the name of each entry, imported when named."""


def strategy_entry(name: str) -> StrategyEntry:
    """Return the registry entry of a built-in or third-party strategy by its name.

    Raises `UnknownStrategyError` with the nearest match, `StrategyError` if two strategies have the
    same name or an entry point does not load.
    """
    third_party = _third_party(STRATEGIES)
    if name in STRATEGIES:
        module, attribute = STRATEGIES[name].split(":")
        entry: StrategyEntry = getattr(import_module(module), attribute)
        return entry
    if name in third_party:
        return _load(third_party[name])
    raise UnknownStrategyError(
        f"no strategy '{name}'{hint(str(name), [*STRATEGIES, *third_party])}"
    )


def strategy_names() -> tuple[str, ...]:
    """Return the names of all registered strategies, built-in ones first."""
    return (*STRATEGIES, *sorted(_third_party(STRATEGIES)))


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
            f"the entry point '{point.name}' of '{point.value}' is no StrategyEntry with this name."
        )
    return entry
