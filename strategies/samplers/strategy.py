"""The `Strategy` protocol, suggestions with their reasons, and random search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from strategies.doe.main_effects import DesignModel, Knowledge, Method
from strategies.space.errors import OptionError, hint
from strategies.space.parameter import Parameter, show, show_values
from strategies.space.parameter_space import Configuration, ParameterSpace

SuggestionKind: TypeAlias = Literal[
    "initial",
    "construction",
    "neighbour",
    "random",
    "region",
    "analyst",
    "poll",
    "particle",
    "design",
    "improvement",
    "confirmation",
]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Proposed configuration with the reason for proposing it.

    Args:
        configuration: configuration to run.
        strategy: name of the strategy or person that proposed it.
        reason: one sentence for people.
        kind: origin of the suggestion.
        expected: expected response (quality, where all is feasible), None if unknown.
        interval: 95 % interval of one run, None if unknown; strategies without a model of runs
            state none, and a session adds that of the ANOVA model. Of a confirmation, of the mean.
        near: configuration that it was derived from, for neighbours and in regions.
        region: number of the region it was drawn from, None outside.
        chance: probability that it beats the best run so far, None if unknown.
    """

    configuration: Configuration
    strategy: str
    reason: str
    kind: SuggestionKind
    expected: float | None = None
    interval: tuple[float, float] | None = None
    near: Configuration | None = None
    region: int | None = None
    chance: float | None = None


@runtime_checkable
class Strategy(Protocol):
    """Protocol of a stateless method that proposes configurations to run."""

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        ...

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` distinct free configurations.

        They are distinct, allowed and not in ``knowledge.taken``. Fewer than ``n`` are returned
        only if no allowed configuration is left.
        The same knowledge and generator state give the same suggestions.
        Raises `OptionError` unless ``n`` is a whole number of at least 1.
        """
        ...


def require_count(n: int) -> None:
    """Raise `OptionError` unless ``n`` is a whole number of at least 1."""
    if type(n) is not int or n < 1:
        raise OptionError(f"the batch size is {n!r}; it must be a whole number from 1 on.")


class Batch:
    """Batch under construction: up to n distinct free suggestions of one strategy.

    Raises `OptionError` unless n is a whole number of at least 1.
    """

    def __init__(
        self, strategy: str, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> None:
        require_count(n)
        self._strategy = strategy
        self._n = n
        self._knowledge = knowledge
        self._rng = rng
        self._suggestions: list[Suggestion] = []
        self.unavailable: set[Configuration] = set(knowledge.taken)

    @property
    def missing(self) -> int:
        """Number of suggestions that are still missing."""
        return self._n - len(self._suggestions)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Suggestions added so far, in order."""
        return tuple(self._suggestions)

    def is_free(self, configuration: Configuration) -> bool:
        """Return whether a configuration is allowed, not taken and not in the batch."""
        space = self._knowledge.space
        return configuration not in self.unavailable and space.is_allowed(configuration)

    def add(
        self,
        configuration: Configuration,
        kind: SuggestionKind,
        reason: str,
        near: Configuration | None = None,
    ) -> None:
        """Add a free configuration as a suggestion, with its expected response."""
        expected = self._knowledge.model.expected(configuration)
        value = expected.value if expected else None
        self.unavailable.add(configuration)
        self._suggestions.append(
            Suggestion(configuration, self._strategy, reason, kind, value, near=near)
        )

    def add_random(self, kind: SuggestionKind, reason: str) -> bool:
        """Add a random allowed configuration and return whether any was left."""
        configuration = self._knowledge.space.sample(self._rng, self.unavailable)
        if configuration is None:
            return False
        self.add(configuration, kind, reason)
        return True


LISTED_PARTS = 3
_METHOD_NAMES: dict[Method, str] = {
    "means": "level means",
    "blocks": "complete blocks",
    "least_squares": "least squares",
}


def construction_reason(model: DesignModel, configuration: Configuration, beta: float) -> str:
    """Explain which levels of a greedily built configuration are the best seen or untried."""
    best: list[str] = []
    untried: list[str] = []
    unknown: list[str] = []
    ordinary: list[str] = []
    compared, quality = "tried", "mean quality seen"
    if model.method != "means":
        compared, quality = "compared", f"quality estimated by {_METHOD_NAMES[model.method]}"
    for name, value in _by_importance(model, configuration):
        level_id = model.space.parameter(name).level_id(value)
        level = model.level(name, level_id)
        n_known = sum(1 for other in model.levels(name) if other.mean is not None)
        text = f"{name}={show(value)}"
        if level.mean is None:
            (unknown if level.count else untried).append(text)
        elif n_known > 1 and level.mean == model.q_max(name):
            best.append(f"{text} (of {n_known} levels {compared})")
        else:
            ordinary.append(text)
    parts = []
    if best:
        verb = "has" if len(best) == 1 else "have"
        parts.append(f"{join_listed(best)} {verb} the best {quality}")
    if untried:
        parts.append(f"{join_listed(untried)} {'is' if len(untried) == 1 else 'are'} untried")
    if unknown:
        verb = "has" if len(unknown) == 1 else "have"
        parts.append(f"{join_listed(unknown)} {verb} runs, but no runs to compare with yet")
    if not parts:
        return f"{join_listed(ordinary)} drawn from the levels above the greediness {beta:g}."
    return "; ".join(parts) + "."


def neighbour_reason(
    space: ParameterSpace, configuration: Configuration, near: Configuration, near_text: str
) -> str:
    """Explain in a sentence how a configuration differs from the one it was derived from."""
    sentence = f"{join_listed(differences(space, configuration, near))} from {near_text}."
    return sentence[0].upper() + sentence[1:]


def differences(
    space: ParameterSpace, configuration: Configuration, other: Configuration
) -> list[str]:
    """Return in words how a configuration differs from another, a text per active parameter."""
    values, others = space.values(configuration), space.values(other)
    ids = zip(space.parameters, configuration.level_ids, other.level_ids, strict=True)
    return [
        difference(parameter, a, b)
        if parameter.name in others
        else f"{parameter.name}={show(parameter.levels[a])}"
        for parameter, a, b in ids
        if parameter.name in values and (a != b or parameter.name not in others)
    ]


def difference(parameter: Parameter, level_id: int, other_id: int) -> str:
    """Describe in words how one level of a parameter differs from another."""
    if parameter.kind == "nominal":
        return f"a change to {parameter.name}={show(parameter.levels[level_id])}"
    steps = abs(parameter.ranks[level_id] - parameter.ranks[other_id])
    return f"{'one step' if steps == 1 else f'{steps} steps'} in {parameter.name}"


def _by_importance(
    model: DesignModel, configuration: Configuration
) -> list[tuple[str, str | int | float | bool]]:
    values = model.space.values(configuration)
    names = [entry.parameter for entry in model.importance if entry.parameter in values]
    return [(name, values[name]) for name in names]


def join_listed(parts: Sequence[str]) -> str:
    """Join up to three parts, and a count of the rest, with commas and "and"."""
    listed = list(parts[:LISTED_PARTS])
    if len(parts) > LISTED_PARTS:
        listed.append(f"{len(parts) - LISTED_PARTS} more")
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


_BY_NUMBER = re.compile(r"from suggestion \d+")


def renumber_reasons(
    suggestions: Sequence[Suggestion], space: ParameterSpace
) -> tuple[Suggestion, ...]:
    """Return the suggestions, with reasons that cite others by their numbers in this batch.

    A suggestion that is not in the batch is described by its values.
    """
    numbers = {s.configuration: i for i, s in enumerate(suggestions, start=1)}
    return tuple(
        _renumber_reason(s, numbers.get(s.near) if s.near else None, space) for s in suggestions
    )


def _renumber_reason(
    suggestion: Suggestion, number: int | None, space: ParameterSpace
) -> Suggestion:
    if suggestion.near is None or _BY_NUMBER.search(suggestion.reason) is None:
        return suggestion
    values = f"from the construction {show_values(space.values(suggestion.near))}"
    place = f"from suggestion {number}" if number else values
    return replace(suggestion, reason=_BY_NUMBER.sub(lambda _: place, suggestion.reason, count=1))


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Strategy that proposes allowed configurations uniformly at random, without replacement.

    Reference: Bergstra & Bengio 2012, Random search for hyper-parameter optimization.
    """

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "random"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` uniformly random free configurations."""
        require_count(n)
        unavailable = set(knowledge.taken)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            configuration = knowledge.space.sample(rng, unavailable)
            if configuration is None:
                break
            unavailable.add(configuration)
            expected = knowledge.model.expected(configuration)
            suggestions.append(
                Suggestion(
                    configuration,
                    self.name,
                    "Drawn at random among the configurations that have not been run.",
                    "random",
                    expected.value if expected else None,
                )
            )
        return tuple(suggestions)


OptionValue: TypeAlias = int | float | bool | str


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
        learns: whether it learns from earlier sweeps (`Knowledge.earlier`).
        batch: suggestions that belong together; the default size of a batch, unless more runs
            execute at once.
    """

    name: str
    summary: str
    factory: Callable[..., Strategy]
    options: tuple[StrategyOption, ...] = ()
    starts: bool = False
    learns: bool = False
    batch: int = 1

    def build(self, /, **options: OptionValue) -> Strategy:
        """Make the strategy, with defaults for missing options.

        Raises `OptionError` for an unknown option or a value out of bounds.
        """
        options_by_name = {option.name: option for option in self.options}
        for name in options:
            if name not in options_by_name:
                if not options_by_name:
                    raise OptionError(f"strategy '{self.name}' has no options; leave out '{name}'.")
                raise OptionError(
                    f"strategy '{self.name}' has no option '{name}'{hint(name, options_by_name)}"
                )
        values = {
            name: option.check(self.name, options.get(name, option.default))
            for name, option in options_by_name.items()
        }
        return self.factory(**values)


RANDOM = StrategyEntry("random", "Uniformly at random, never twice.", RandomSearch, starts=True)
