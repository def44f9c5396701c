"""Hypothesis generators for parameters, spaces and observations. Ties are made likely."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from hypothesis import strategies as st

from strategies import Configuration, Exclusion, Kind, Level, Observation, Parameter, ParameterSpace

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
WORDS = ("fcfs", "sjf", "wfp3", "easy", "none", "big small", "4")


def numbers() -> st.SearchStrategy[int | float]:
    """Whole numbers and fractions, as levels."""
    return st.integers(-20, 20) | st.integers(-40, 40).map(lambda n: n / 4)


@st.composite
def parameters(draw: st.DrawFn, name: str | None = None, max_levels: int = 5) -> Parameter:
    """A parameter of any family and kind; number levels come in any order."""
    values: list[Level] = draw(
        st.lists(numbers(), min_size=1, max_size=max_levels, unique=True).map(list)
        | st.lists(st.sampled_from(WORDS), min_size=1, max_size=max_levels, unique=True).map(list)
        | st.sampled_from([[True, False], [False, True], [True]])
    )
    kind = draw(st.sampled_from(["inferred", "ordinal", "nominal"]))
    return Parameter(name or draw(st.sampled_from(NAMES)), tuple(values), kind)


@st.composite
def spaces(
    draw: st.DrawFn, max_parameters: int = 4, max_levels: int = 5, exclusions: bool = True
) -> ParameterSpace:
    """A small space, some levels closed or preferred, with exclusions that may hold often.

    One in four of those with exclusions has given rows only.
    """
    n = draw(st.integers(1, max_parameters))
    drawn = tuple(draw(parameters(name=name, max_levels=max_levels)) for name in NAMES[:n])
    closed = set()
    for parameter in drawn:
        ids = range(parameter.n_levels)
        keep = draw(st.sampled_from(ids))
        closed |= {(parameter.name, i) for i in ids if i != keep and draw(st.integers(0, 3)) == 0}
    chosen = draw(st.lists(exclusions_of(drawn), max_size=2, unique=True)) if exclusions else []
    pairs = [(parameter.name, i) for parameter in drawn for i in range(parameter.n_levels)]
    preferred = draw(st.sets(st.sampled_from(pairs), max_size=2))
    space = ParameterSpace(drawn, tuple(chosen), frozenset(closed), preferred=frozenset(preferred))
    if not exclusions or draw(st.integers(0, 3)):
        return space
    rows = draw(st.sets(st.tuples(*(st.integers(0, p.n_levels - 1) for p in drawn)), min_size=1))
    return replace(space, rows=tuple(sorted(rows)))


def exclusions_of(drawn: tuple[Parameter, ...]) -> st.SearchStrategy[Exclusion]:
    """An exclusion of one level of one parameter, or of a pair of levels."""
    equal = st.sampled_from(drawn).flatmap(
        lambda p: st.sampled_from(p.levels).map(lambda level: f"{p.name} == {level!r}")
    )
    return equal.map(Exclusion) | st.tuples(equal, equal).map(lambda t: Exclusion(" and ".join(t)))


def configurations(space: ParameterSpace) -> st.SearchStrategy[Configuration]:
    """Any configuration of the full product, allowed or not."""
    return st.integers(0, space.size - 1).map(space.configuration)


def qualities() -> st.SearchStrategy[float]:
    """Few whole numbers, so that ties are likely, and some others."""
    return st.integers(-3, 3).map(float) | st.floats(-1e6, 1e6)


@st.composite
def observations(
    draw: st.DrawFn, configuration: Configuration, infeasible: bool = True
) -> Observation:
    """An observation of a configuration, feasible or not."""
    feasible = not infeasible or draw(st.booleans())
    violation = (
        0.0 if feasible else draw(st.sampled_from([1e-300, 0.5, 1.0]) | st.floats(1e-9, 1e9))
    )
    return Observation(configuration, draw(qualities()), feasible, violation)


@st.composite
def histories(
    draw: st.DrawFn, space: ParameterSpace, max_size: int = 12, infeasible: bool = True
) -> tuple[Observation, ...]:
    """Observations of configurations of a space; some may be replicates."""
    seen = draw(st.lists(configurations(space), max_size=max_size))
    return tuple(draw(observations(c, infeasible)) for c in seen)


def all_of(space: ParameterSpace, keep: Callable[[Configuration], bool]) -> list[Configuration]:
    """Every configuration of the full product that passes, by brute force."""
    everything = (space.configuration(i) for i in range(space.size))
    return [c for c in everything if keep(c)]


def grid(*n_levels: int, kind: Kind = "ordinal") -> ParameterSpace:
    """Parameters p0, p1, ... with levels 0, 1, ...: a level is its own id."""
    return ParameterSpace(
        tuple(Parameter(f"p{i}", tuple(range(n)), kind) for i, n in enumerate(n_levels))
    )


def observe_all(
    space: ParameterSpace,
    cells: Iterable[tuple[int, ...]],
    values: Iterable[float] | None = None,
) -> tuple[Observation, ...]:
    """Feasible observations of level ids, in order; the quality is 0 if not given."""
    listed = list(cells)
    return tuple(
        Observation(Configuration(cell, space.lineage), float(value))
        for cell, value in zip(listed, values or [0.0] * len(listed), strict=True)
    )
