"""Parameter spaces: a finite product of levels, minus closed levels and exclusions."""

from __future__ import annotations

import hashlib
import html
import itertools
import json
import math
import operator
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from strategies.space.enumeration import (
    EXACT_BOUND,
    AllowedCombinations,
    AllowedConfigurations,
    by_distance,
    level_terms,
    squared_scale,
)
from strategies.space.errors import (
    NotAllowedError,
    SpaceError,
    UnknownLevelError,
    UnknownParameterError,
    hint,
)
from strategies.space.exclusion import Exclusion
from strategies.space.parameter import Level, Parameter, show, show_values

if TYPE_CHECKING:
    from strategies.space.condition import Conditions


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """Configuration of an experiment: one level id per parameter of a space.

    The space checks it, not the configuration. Ids are append-only, so equality and hash survive
    every edit of the space.
    """

    level_ids: tuple[int, ...]
    lineage: str


MAX_PARAMETERS = 1_000
MAX_SPACE_LEVELS = 20_000
MAX_EXCLUSIONS = 100


def check_names(parameters: Sequence[Parameter]) -> None:
    """Raise `SpaceError` unless parameters and levels are few enough and names are distinct."""
    if not parameters:
        raise SpaceError("a space has no parameters; give at least one.")
    if len(parameters) > MAX_PARAMETERS:
        raise SpaceError(
            f"a space has {len(parameters):,} parameters; at most {MAX_PARAMETERS:,} are allowed."
        )
    n_levels = sum(parameter.n_levels for parameter in parameters)
    if n_levels > MAX_SPACE_LEVELS:
        raise SpaceError(
            f"the parameters have {n_levels:,} levels in all; at most {MAX_SPACE_LEVELS:,} are "
            "allowed, use larger steps."
        )
    distinct: set[str] = set()
    for parameter in parameters:
        if parameter.name in distinct:
            raise SpaceError(f"two parameters are named '{parameter.name}'; names must differ.")
        distinct.add(parameter.name)


def check_pairs(
    parameters: Sequence[Parameter], pairs: frozenset[tuple[str, int]], verb: str
) -> None:
    """Raise `SpaceError` if a (parameter name, level id) pair denotes no existing level."""
    n_levels = {p.name: p.n_levels for p in parameters}
    for name, level_id in sorted(pairs):
        if name not in n_levels:
            raise UnknownParameterError(f"no parameter '{name}' to {verb}" + hint(name, n_levels))
        if not 0 <= level_id < n_levels[name]:
            raise SpaceError(
                f"parameter '{name}' has no level id {level_id} to {verb}; allowed are 0 to "
                f"{n_levels[name] - 1}."
            )


def check_closed(parameters: Sequence[Parameter], closed: frozenset[tuple[str, int]]) -> None:
    """Raise `SpaceError` if a closed level does not exist or a parameter has no open level left."""
    check_pairs(parameters, closed, "close")
    n_open = {p.name: p.n_levels for p in parameters}
    for name, _ in closed:
        n_open[name] -= 1
    for name, n in n_open.items():
        if n == 0:
            raise SpaceError(
                f"all levels of parameter '{name}' would be closed; leave at least one open."
            )


def check_rows(parameters: Sequence[Parameter], rows: Sequence[tuple[int, ...]]) -> None:
    """Raise `SpaceError` unless every row has a level of each parameter, and none a condition."""
    if any(p.when for p in parameters):
        raise SpaceError("parameters of a space with given rows cannot have a condition 'when'.")
    if len(rows) > EXACT_BOUND:
        raise SpaceError(
            f"a space has {len(rows):,} rows; at most {EXACT_BOUND:,} are allowed, so give a part."
        )
    d = len(parameters)
    if any(len(row) != d for row in rows):
        raise SpaceError(f"a row of the space has not one level id for each of {d} parameters.")
    ids = np.array(rows, dtype=np.int64)
    if ((ids < 0) | (ids >= [p.n_levels for p in parameters])).any():
        raise SpaceError("a row of the space has a level id that no level has.")


GRID_BOUND = 50_000  # Most allowed configurations that `ParameterSpace.allowed_ids` lists
GRID_ENTRIES = 2_000_000  # Most level ids in that list, for spaces of many parameters

REJECTION_TRIES = 256
LAST_TRIES = 100_000


@dataclass(frozen=True)
class ParameterSpace:
    """Parameter space of an experiment: parameters, closed levels and exclusions.

    Args:
        parameters: at least one, names distinct.
        exclusions: conditions that no proposed configuration may meet.
        closed: (parameter name, level id) pairs that are not proposed any more. Levels are
            closed, never removed, so that history stays valid.
        lineage: digest of the first version of the space; edits keep it, and every
            configuration carries it. Computed when empty.
        preferred: (parameter name, level id) pairs that a share of the suggestions keeps to; see
            `strategies.steering.exploitation`. They forbid nothing, and have no effect while
            their level is closed.
        rows: level ids of the only configurations that may be proposed, for a space of which a
            small part exists; empty if all combinations do.
    Raises `SpaceError` (or a subclass) for invalid values.

    Not slotted: open levels and results of exclusions are cached on first use.
    """

    parameters: tuple[Parameter, ...]
    exclusions: tuple[Exclusion, ...] = ()
    closed: frozenset[tuple[str, int]] = frozenset()
    lineage: str = ""
    preferred: frozenset[tuple[str, int]] = frozenset()
    rows: tuple[tuple[int, ...], ...] = field(default=(), hash=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "exclusions", tuple(self.exclusions))
        object.__setattr__(self, "closed", frozenset(self.closed))
        object.__setattr__(self, "preferred", frozenset(self.preferred))
        check_names(self.parameters)
        check_closed(self.parameters, self.closed)
        check_pairs(self.parameters, self.preferred, "prefer")
        families = {p.name: p.family for p in self.parameters}
        if len(self.exclusions) > MAX_EXCLUSIONS:
            raise SpaceError(
                f"a space has {len(self.exclusions):,} exclusions; at most {MAX_EXCLUSIONS} are "
                "allowed, join some with 'or' or close levels."
            )
        for exclusion in self.exclusions:
            exclusion.check(families)
        _ = self.conditions  # raises for invalid ones
        if self.rows:
            check_rows(self.parameters, self.rows)
        if not self.lineage:
            object.__setattr__(self, "lineage", _digest(self))

    def _repr_html_(self) -> str:
        """Return the parameters and their levels as an HTML table, for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(p.name)}</td><td>{html.escape(p.listed)}</td>"
            f"<td>{html.escape(p.unit)}</td></tr>"
            for p in self.parameters
        )
        head = "<tr><th>parameter</th><th>levels</th><th>unit</th></tr>"
        excluded = "".join(f"<br>never: {html.escape(e.text)}" for e in self.exclusions)
        caption = f"{self.n_combinations:,} combinations{excluded}"
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the space."""
        return tuple(p.name for p in self.parameters)

    @property
    def size(self) -> int:
        """Number of all configurations, including closed and excluded ones."""
        return math.prod(p.n_levels for p in self.parameters)

    @cached_property
    def n_combinations(self) -> int:
        """Number of different configurations that exist, including closed and excluded ones.

        That is `size` where parameters have conditions that leave too many to be counted.
        """
        if self.rows:
            return len(self.rows)
        if self.conditions is None:
            return self.size
        return replace(self, exclusions=(), closed=frozenset()).count_allowed() or self.size

    @cached_property
    def open_size(self) -> int:
        """Number of configurations that have open levels only, including excluded ones."""
        if self.rows:
            open_sets = [frozenset(ids) for ids in self.open_ids]
            return sum(
                all(i in ids for i, ids in zip(row, open_sets, strict=True)) for row in self.rows
            )
        return math.prod(len(ids) for ids in self.open_ids)

    @cached_property
    def open_ids(self) -> tuple[tuple[int, ...], ...]:
        """Ids of the open levels of each parameter, ascending."""
        return tuple(
            tuple(i for i in range(p.n_levels) if (p.name, i) not in self.closed)
            for p in self.parameters
        )

    @cached_property
    def open_by_rank(self) -> tuple[tuple[int, ...], ...]:
        """Ids of the open levels of each parameter, in the order of rank."""
        return tuple(
            tuple(sorted(ids, key=p.ranks.__getitem__))
            for p, ids in zip(self.parameters, self.open_ids, strict=True)
        )

    @cached_property
    def conditions(self) -> Conditions | None:
        """Conditions under which parameters are active; None if all always are."""
        if not any(p.when for p in self.parameters):
            return None
        from strategies.space.condition import Conditions

        return Conditions(self.parameters)

    def inactive(self, configuration: Configuration) -> frozenset[str]:
        """Return the names of the parameters that do not matter in a configuration."""
        if self.conditions is None:
            return frozenset()
        names = self.names
        return frozenset(names[i] for i in self.conditions.inactive(self._ids(configuration)))

    def inactive_in(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return where parameters do not matter in configurations [n, d], bool [n, d]."""
        if self.conditions is None:
            return np.zeros(ids.shape, dtype=np.bool_)
        return self.conditions.inactive_in(ids)

    def marked_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return level ids [n, d] with the number of levels in place of inactive parameters."""
        if self.conditions is None:
            return ids
        return np.where(self.conditions.inactive_in(ids), self._level_counts, ids)

    def activated(
        self, before: Sequence[int], level_ids: tuple[int, ...], rng: np.random.Generator
    ) -> Configuration:
        """Return a changed configuration, with a random open level of parameters now active."""
        if self.conditions is None:
            return Configuration(level_ids, self.lineage)
        ids = list(level_ids)
        inactive = self.conditions.inactive(before)
        if not inactive <= self.conditions.inactive(level_ids):
            for position in sorted(inactive):
                open_ids = self.open_ids[position]
                ids[position] = open_ids[int(rng.integers(len(open_ids)))]
        return self.canonical(tuple(ids))

    def canonical_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return level ids [n, d] with the first level of every inactive parameter."""
        if self.conditions is None:
            return ids
        return np.where(self.conditions.inactive_in(ids), 0, ids)

    def canonical(self, level_ids: tuple[int, ...]) -> Configuration:
        """Return the configuration with level ids, those of inactive parameters being replaced."""
        if self.conditions is not None:
            level_ids = self.conditions.canonical(level_ids)
        return Configuration(level_ids, self.lineage)

    def count_allowed(self) -> int | None:
        """Count the allowed configurations exactly, or return None if too costly.

        Exact without exclusions, and while parameters that exclusions connect have at most 200,000
        combinations of open levels; beyond, exact if a bounded search ends, else None.
        """
        return self._admission.count()

    def check_not_empty(self) -> None:
        """Raise `SpaceError` if no configuration is allowed, or if that cannot be evaluated.

        An exclusion that cannot be evaluated for some combination raises `ExclusionError`. A space
        that is too large to be searched counts as not empty.
        """
        if self._admission.count() != 0:
            return
        texts = ", ".join(f"'{exclusion.text}'" for exclusion in self.exclusions)
        causes = [f"the exclusions {texts}"] if texts else []
        causes += ["the closed levels"] if self.closed else []
        raise SpaceError(
            f"{' and '.join(causes)} leave no configuration to run; allow at least one."
        )

    def allowed_combinations(self, names: Sequence[str]) -> AllowedCombinations | None:
        """Return the level combinations of given parameters that occur in allowed configurations.

        None where their number is unknown, as in `count_allowed`. Raises `UnknownParameterError`.
        """
        positions = tuple(self._position(name) for name in names)
        parts = self._admission.parts(positions)
        if parts is None:
            return None
        open_ids = tuple(frozenset(self._admission.open_ids[i]) for i in positions)
        return AllowedCombinations(parts, open_ids)

    def is_allowed(self, configuration: Configuration) -> bool:
        """Return whether a configuration is allowed: all levels open and not excluded.

        Raises `SpaceError` if it does not belong to this space.
        """
        level_ids = self._ids(configuration)
        return self._is_whole or self._admission.admits(level_ids)

    def count_allowed_of(self, configurations: Collection[Configuration]) -> int:
        """Return how many of given configurations of this space are allowed."""
        if self._is_whole:
            return len(configurations)
        return sum(map(self.is_allowed, configurations))

    def allowed_of(self, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return those of given configurations, each a level id per parameter, that are allowed."""
        return rows if self._is_whole else list(filter(self._admission.admits, rows))

    def check(self, configuration: Configuration) -> None:
        """Raise `NotAllowedError` if a configuration has a closed level or is excluded."""
        level_ids = self._ids(configuration)
        position = self._admission.closed_at(level_ids)
        if position is not None:
            parameter = self.parameters[position]
            value = show(parameter.levels[level_ids[position]])
            raise NotAllowedError(
                f"the level {value} of parameter '{parameter.name}' is closed; reopen it or "
                "choose another level."
            )
        if self.rows and level_ids not in self.rows:
            raise NotAllowedError(
                f"{show_values(self.values(configuration))} is none of the {len(self.rows):,} "
                "combinations that exist; choose one of those."
            )
        exclusion = self._admission.excluded_by(level_ids)
        if exclusion is not None:
            raise NotAllowedError(
                f"{show_values(self.values(configuration))} is excluded by '{exclusion.text}'."
            )

    def parameter(self, name: str) -> Parameter:
        """Return the parameter with a name, or raise `UnknownParameterError`."""
        return self.parameters[self._position(name)]

    def configuration(self, index: int) -> Configuration:
        """Return the configuration with an index in the full product of levels.

        Raises `SpaceError` outside 0 to size - 1.
        """
        if not 0 <= index < self.size:
            raise SpaceError(
                f"there is no configuration {index}; allowed are 0 to {self.size - 1}."
            )
        rest = int(index)
        level_ids = []
        for parameter in reversed(self.parameters):
            rest, level_id = divmod(rest, parameter.n_levels)
            level_ids.append(level_id)
        return Configuration(tuple(reversed(level_ids)), self.lineage)

    def index(self, configuration: Configuration) -> int:
        """Return the index of a configuration in the full product of this version of the space."""
        index = 0
        for parameter, level_id in zip(self.parameters, self._ids(configuration), strict=True):
            index = index * parameter.n_levels + level_id
        return index

    def level_ids(self, configurations: Sequence[Configuration]) -> NDArray[np.int64]:
        """Return the level ids of n configurations for each of d parameters, int64 [n, d].

        Raises `SpaceError` if one does not belong to this space.
        """
        n, d = len(configurations), len(self.parameters)
        if all(c.lineage == self.lineage and len(c.level_ids) == d for c in configurations):
            ids = np.array([c.level_ids for c in configurations], dtype=np.int64).reshape(n, d)
            if ((ids >= 0) & (ids < self._level_counts)).all():
                return ids
        return np.array([self._ids(c) for c in configurations], dtype=np.int64)

    def values(self, configuration: Configuration) -> dict[str, Level]:
        """Return the values of the active parameters of a configuration, by parameter name."""
        level_ids = self._ids(configuration)
        inactive = self.conditions.inactive(level_ids) if self.conditions else ()
        return {
            p.name: p.levels[level_id]
            for i, (p, level_id) in enumerate(zip(self.parameters, level_ids, strict=True))
            if i not in inactive
        }

    def all_values(self, configuration: Configuration) -> dict[str, Level | None]:
        """Return the values of all parameters in order, None for an inactive one."""
        values = self.values(configuration)
        return {name: values.get(name) for name in self.names}

    def from_values(self, values: Mapping[str, Level | None]) -> Configuration:
        """Return the configuration with given parameter values, whether allowed or not.

        An inactive parameter needs no value, and one that is given, or None, makes no difference.
        Raises `UnknownParameterError` for an extra name, `SpaceError` for a missing one,
        `UnknownLevelError` for a value that is no level.
        """
        for name in values:
            self._position(name)
        ids = [self._given_id(parameter, values) for parameter in self.parameters]
        level_ids = tuple([i or 0 for i in ids])
        inactive = self.conditions.inactive(level_ids) if self.conditions else ()
        missing = [
            parameter.name
            for position, (parameter, i) in enumerate(zip(self.parameters, ids, strict=True))
            if i is None and position not in inactive
        ]
        if missing:
            raise SpaceError(
                f"no value is given for {', '.join(missing)}; a configuration has one value for "
                f"every {'active ' * bool(self.conditions)}parameter."
            )
        return self.canonical(level_ids)

    def _given_id(self, parameter: Parameter, values: Mapping[str, Level | None]) -> int | None:
        """Return the id of a parameter's value, or None if it has none."""
        value = values.get(parameter.name)
        if value is not None:
            return parameter.level_id(value)
        if parameter.name in values and not parameter.when:
            raise UnknownLevelError(
                f"parameter '{parameter.name}' has no level None; its levels are "
                f"{parameter.listed}."
            )
        return None

    def parse_value(self, parameter_name: str, text: str) -> Level:
        """Return the level of a parameter that a text from the command line denotes."""
        return self.parameter(parameter_name).parse(text)

    def coordinates(self, configurations: Sequence[Configuration]) -> NDArray[np.float64]:
        """Return coordinates of configurations in the unit cube, float64 [n, d].

        An ordinal parameter is one column: rank / (levels - 1), or 0.5 with a single level.
        A nominal one is one column per level, one-hot over sqrt(2), so that two different
        levels are at Euclidean distance 1. Columns follow the parameters' order.
        """
        ids = np.array([self._ids(c) for c in configurations], dtype=np.int64)
        ids = ids.reshape(len(configurations), len(self.parameters))
        columns = [_coordinates(p, ids[:, i]) for i, p in enumerate(self.parameters)]
        return np.concatenate(columns, axis=1)

    def configurations(self) -> Iterator[Configuration]:
        """Yield the allowed configurations lazily, the last parameter moving fastest."""
        for level_ids in self._admission.all():
            yield Configuration(level_ids, self.lineage)

    @cached_property
    def allowed_ids(self) -> NDArray[np.int64] | None:
        """Level ids [m, d] of all allowed configurations, or None if they are too many.

        That is more than 50,000 configurations, or 2,000,000 level ids.
        """
        count = self._admission.count()
        if count is None or count > min(GRID_BOUND, GRID_ENTRIES // len(self.parameters)):
            return None
        ids = self._admission.grid()
        ids.flags.writeable = False
        return ids

    def open_by_distance(
        self, configuration: Configuration, rng: np.random.Generator
    ) -> Iterator[Configuration]:
        """Yield all other configurations of open levels, nearest first.

        Excluded configurations are included, so that a caller can bound its own walk; what is
        none of the given rows is not.
        """
        ids = self._ids(configuration)
        if self.rows:
            yield from self._rows_by_distance(ids, rng)
            return
        for level_ids in by_distance(self.parameters, self._admission.open_ids, ids, rng):
            yield Configuration(level_ids, self.lineage)

    def _rows_by_distance(
        self, centre: Sequence[int], rng: np.random.Generator
    ) -> Iterator[Configuration]:
        """Yield the allowed rows nearest first, ties in random order."""
        parameters, scale = self.parameters, squared_scale(self.parameters)
        terms = (level_terms(p, scale, i) for p, i in zip(parameters, centre, strict=True))
        columns = self._admission.grid().T
        squared = sum(
            (term[ids] for term, ids in zip(terms, columns, strict=True)),
            start=np.zeros(columns.shape[1], dtype=object),
        )
        shuffled = rng.permutation(len(squared))
        for place in shuffled[np.argsort(squared[shuffled], kind="stable")]:
            if squared[place]:
                yield Configuration(tuple(columns[:, place].tolist()), self.lineage)

    def neighbours(
        self, configuration: Configuration, rng: np.random.Generator
    ) -> Iterator[Configuration]:
        """Yield all other allowed configurations, nearest first by coordinates.

        Lazy; ties come in random order; the configuration itself need not be allowed.
        """
        return filter(self.is_allowed, self.open_by_distance(configuration, rng))

    def sample(
        self, rng: np.random.Generator, exclude: Container[Configuration] = frozenset()
    ) -> Configuration | None:
        """Draw an allowed configuration not in ``exclude`` uniformly; None if there is none.

        With conditions it is uniform over the open levels of each parameter instead, of which
        inactive ones are then dropped. Exact up to 200,000 open or allowed combinations. Beyond,
        raises `SpaceError` if 100,000 draws find no free one, since neither a configuration nor
        exhaustion could be established.
        """
        admission = self._admission
        for _ in range(0 if self.rows else REJECTION_TRIES):
            level_ids = admission.draw(rng)
            configuration = Configuration(level_ids, self.lineage)
            if configuration not in exclude and not admission.is_excluded(level_ids):
                return configuration
        count = admission.count()
        if count == 0:
            return None
        if self.rows or self.open_size > EXACT_BOUND:
            tries = REJECTION_TRIES if count is not None and count <= EXACT_BOUND else LAST_TRIES
            index = self._draw_hard(rng, exclude, tries)
            if index is not None:
                return index
            if tries == LAST_TRIES:
                raise SpaceError(
                    f"no free configuration was found in {LAST_TRIES} draws from {self.open_size} "
                    "combinations of open levels; the exclusions leave too few; close levels "
                    "instead."
                )
        return self._draw_listed(rng, exclude)

    def _draw_hard(
        self, rng: np.random.Generator, exclude: Container[Configuration], tries: int
    ) -> Configuration | None:
        """Draw from a large space of which nearly everything is excluded or taken."""
        for _ in range(tries):
            level_ids = self._admission.draw_allowed(rng) or self._admission.draw(rng)
            configuration = Configuration(level_ids, self.lineage)
            if configuration not in exclude and not self._admission.is_excluded(level_ids):
                return configuration
        return None

    def _draw_listed(
        self, rng: np.random.Generator, exclude: Container[Configuration]
    ) -> Configuration | None:
        """Draw from the list of free configurations, walked twice and never kept."""
        n_free = sum(configuration not in exclude for configuration in self.configurations())
        if n_free == 0:
            return None
        free = (c for c in self.configurations() if c not in exclude)
        return next(itertools.islice(free, int(rng.integers(n_free)), None))

    def with_level(self, parameter: str, value: Level) -> ParameterSpace:
        """Return a copy of the space with one more level of a parameter.

        Raises `SpaceError` where only given rows exist, since none of them has it.
        """
        if self.rows:
            raise SpaceError(
                f"a level cannot be added to '{parameter}': only the {len(self.rows):,} given "
                "combinations exist, and none has it."
            )
        position = self._position(parameter)
        longer = self.parameters[position].with_level(value)
        parameters = (*self.parameters[:position], longer, *self.parameters[position + 1 :])
        return replace(self, parameters=parameters)

    @property
    def is_wide(self) -> bool:
        """Whether levels may be added to any parameter."""
        return any(p.wide is not None for p in self.parameters)

    def closing(self, parameter: str, value: Level) -> ParameterSpace:
        """Return a copy of the space in which a level is closed, so not proposed any more.

        Raises `SpaceError` if it is closed already or is the parameter's last open level.
        """
        pair = (parameter, self.parameter(parameter).level_id(value))
        if pair in self.closed:
            raise SpaceError(
                f"the level {show(value)} of parameter '{parameter}' is closed already."
            )
        return replace(self, closed=self.closed | {pair})

    def reopening(self, parameter: str, value: Level) -> ParameterSpace:
        """Return a copy of the space in which a closed level is open again."""
        pair = (parameter, self.parameter(parameter).level_id(value))
        if pair not in self.closed:
            raise SpaceError(f"the level {show(value)} of parameter '{parameter}' is not closed.")
        return replace(self, closed=self.closed - {pair})

    def excluding(self, exclusion: Exclusion) -> ParameterSpace:
        """Return a copy of the space with one more exclusion."""
        if exclusion in self.exclusions:
            raise SpaceError(f"the exclusion '{exclusion.text}' exists already.")
        return replace(self, exclusions=(*self.exclusions, exclusion))

    def preferring(self, parameter: str, value: Level) -> ParameterSpace:
        """Return a copy of the space in which a level is marked as preferred.

        Raises `SpaceError` if it is preferred already or closed.
        """
        pair = (parameter, self.parameter(parameter).level_id(value))
        if pair in self.preferred:
            raise SpaceError(
                f"the level {show(value)} of parameter '{parameter}' is preferred already."
            )
        if pair in self.closed:
            raise SpaceError(
                f"the level {show(value)} of parameter '{parameter}' is closed; reopen it first."
            )
        return replace(self, preferred=self.preferred | {pair})

    def unpreferring(self, parameter: str, value: Level) -> ParameterSpace:
        """Return a copy of the space in which a level is no longer preferred."""
        pair = (parameter, self.parameter(parameter).level_id(value))
        if pair not in self.preferred:
            raise SpaceError(
                f"the level {show(value)} of parameter '{parameter}' is not preferred."
            )
        return replace(self, preferred=self.preferred - {pair})

    @cached_property
    def preferred_part(self) -> ParameterSpace:
        """Part of the space in which only preferred levels are open.

        The other levels of every parameter with open preferred levels are closed; it is the space
        itself if there are none.
        """
        not_preferred = {
            (parameter.name, level_id)
            for parameter, open_ids in zip(self.parameters, self.open_ids, strict=True)
            if any((parameter.name, i) in self.preferred for i in open_ids)
            for level_id in open_ids
            if (parameter.name, level_id) not in self.preferred
        }
        return replace(self, closed=self.closed | not_preferred) if not_preferred else self

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {p.name: i for i, p in enumerate(self.parameters)}

    @cached_property
    def _is_whole(self) -> bool:
        """Whether every configuration is allowed."""
        is_restricted = self.closed or self.exclusions or self.rows
        return not is_restricted and self.conditions is None

    @cached_property
    def _level_counts(self) -> tuple[int, ...]:
        return tuple(p.n_levels for p in self.parameters)

    @cached_property
    def _admission(self) -> AllowedConfigurations:
        return AllowedConfigurations(
            self.parameters, self.exclusions, self.open_ids, self.conditions, self.rows
        )

    def _position(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            raise UnknownParameterError(
                f"no parameter '{name}'" + hint(str(name), self._positions)
            ) from None

    def _ids(self, configuration: Configuration) -> tuple[int, ...]:
        """Return the level ids of a configuration, checked to belong to this space."""
        level_ids = configuration.level_ids
        if configuration.lineage != self.lineage:
            raise SpaceError(
                f"a configuration of space '{configuration.lineage}' was given to space "
                f"'{self.lineage}'; build it with this space's from_values."
            )
        if len(level_ids) != len(self.parameters):
            raise SpaceError(
                f"a configuration has {len(level_ids)} levels for {len(self.parameters)} "
                "parameters; it needs one for each."
            )
        counts = self._level_counts
        if min(level_ids, default=0) < 0 or not all(map(operator.lt, level_ids, counts)):
            place = next(i for i, n in enumerate(counts) if not 0 <= level_ids[i] < n)
            raise SpaceError(
                f"parameter '{self.parameters[place].name}' has no level id {level_ids[place]}; "
                f"allowed are 0 to {counts[place] - 1}."
            )
        return level_ids


def _coordinates(parameter: Parameter, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    if parameter.kind == "nominal":
        one_hot = np.zeros((ids.size, parameter.n_levels), dtype=np.float64)
        one_hot[np.arange(ids.size), ids] = 1.0 / math.sqrt(2.0)
        return one_hot
    if parameter.n_levels == 1:
        return np.full((ids.size, 1), 0.5)
    ranks = np.array(parameter.ranks, dtype=np.float64)
    return (ranks[ids] / (parameter.n_levels - 1)).reshape(-1, 1)


def _digest(space: ParameterSpace) -> str:
    definition = {
        "parameters": [
            [p.name, p.kind, list(p.levels), *([p.when] if p.when else [])]
            for p in space.parameters
        ],
        "exclusions": [exclusion.text for exclusion in space.exclusions],
        "closed": sorted(space.closed),
    }
    return hashlib.sha256(json.dumps(definition).encode()).hexdigest()[:16]
