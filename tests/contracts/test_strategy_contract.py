"""What every registered strategy promises. Being registered means being tested here."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    METHODS,
    STRATEGIES,
    Configuration,
    Copper,
    Exclusion,
    ExploitationStrategy,
    Failure,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    PreferenceStrategy,
    RegionRule,
    ScalarisedStrategy,
    Strategy,
    StrategyEntry,
    Suggestion,
    is_exhausted,
    make_strategy,
    strategy_entry,
)
from tests.draw.spaces import all_of, histories, spaces

SPACES = {
    "3x3x2x3": ParameterSpace(
        (
            Parameter("a", (1, 2, 4)),
            Parameter("b", ("x", "y", "z")),
            Parameter("c", (True, False)),
            Parameter("d", (0.1, 0.2, 0.3)),
        )
    ),
    "one level": ParameterSpace((Parameter("a", (1,)), Parameter("b", ("only",)))),
    "one parameter": ParameterSpace((Parameter("a", tuple(range(9))),)),
    "with exclusions": ParameterSpace(
        (Parameter("a", tuple(range(6))), Parameter("b", tuple(range(6)))),
        (Exclusion("a == 0 and b > 1"), Exclusion("(a + b) % 3 == 2")),
    ),
    "with closed levels": ParameterSpace(
        (Parameter("a", tuple(range(5))), Parameter("b", ("x", "y", "z"))),
        closed=frozenset({("a", 1), ("a", 4), ("b", 0)}),
    ),
    "with given rows": ParameterSpace(
        tuple(Parameter(f"p{i}", tuple(range(6))) for i in range(4)),
        closed=frozenset({("p0", 3)}),
        rows=tuple(sorted({(i % 6, i * i % 6, i // 6, (i + i // 3) % 6) for i in range(24)})),
    ),
}

Quality = Callable[[Configuration], float | None]


def total(configuration: Configuration) -> float:
    return float(sum(configuration.level_ids))


def constant(configuration: Configuration) -> float:
    return 0.1


def half_fail(configuration: Configuration) -> float | None:
    return total(configuration) if sum(configuration.level_ids) % 2 else None


def all_fail(configuration: Configuration) -> None:
    return None


EXPLOITING = tuple(
    StrategyEntry(
        base,
        f"{base} that spends {exploitation:g} of its suggestions inside regions.",
        lambda base=base, exploitation=exploitation: ExploitationStrategy(
            make_strategy(base), exploitation, RegionRule(min_samples=2)
        ),
    )
    for base in ("copper", "random")
    for exploitation in (0.0, 0.33, 1.0)
)
"""The wrapper keeps the promises of a strategy too; it is made by hand, not registered."""

BY_EFFECTS = tuple(
    StrategyEntry(
        "copper", f"copper by {effects}.", lambda effects=effects: Copper(effects=effects)
    )
    for effects in METHODS[1:]
)


@cache
def with_preferences(space: ParameterSpace) -> ParameterSpace:
    """Return the space with every third open level of its first two parameters preferred."""
    pairs = {
        (p.name, i)
        for p, ids in zip(space.parameters[:2], space.open_ids, strict=False)
        for i in ids[::3]
    }
    return dataclasses.replace(space, preferred=frozenset(pairs))


@dataclass(frozen=True)
class ThePreferred:
    """Prefers some levels of whatever space it is asked about, then asks the wrapper."""

    base: Strategy
    share: float

    @property
    def name(self) -> str:
        return self.base.name

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        known = dataclasses.replace(knowledge, space=with_preferences(knowledge.space))
        return PreferenceStrategy(self.base, self.share).suggest(n, known, rng)


PREFERRING = tuple(
    StrategyEntry(
        base,
        f"{base} that keeps {share:g} of its suggestions to preferred levels.",
        lambda base=base, share=share: ThePreferred(make_strategy(base), share),
    )
    for base, share in (("copper", 0.5), ("random", 1.0))
)


@dataclass(frozen=True)
class MeasuredTwice:
    """Gives every observation a second quality, which mostly contradicts the first, then asks."""

    base: Strategy

    @property
    def name(self) -> str:
        return self.base.name

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        twice = tuple(
            dataclasses.replace(o, second=o.configuration.level_ids[0] - o.quality)
            for o in knowledge.observations
        )
        known = dataclasses.replace(knowledge, observations=twice)
        return ScalarisedStrategy(self.base).suggest(n, known, rng)


SCALARISING = tuple(
    StrategyEntry(
        base,
        f"{base} that weighs two measures.",
        lambda base=base: MeasuredTwice(make_strategy(base)),
    )
    for base in ("copper", "random")
)

ENTRIES = (*map(strategy_entry, STRATEGIES), *EXPLOITING, *BY_EFFECTS, *PREFERRING, *SCALARISING)


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.summary.split(":")[0])
def entry(request: pytest.FixtureRequest) -> StrategyEntry:
    chosen: StrategyEntry = request.param
    return chosen


@pytest.fixture
def strategy(entry: StrategyEntry) -> Strategy:
    return entry.build()


def check(suggestions: Iterable[Suggestion], knowledge: Knowledge, name: str) -> None:
    """Re-derive the promises of one answer from scratch."""
    seen: set[Configuration] = set()
    for suggestion in suggestions:
        configuration = suggestion.configuration
        assert knowledge.space.is_allowed(configuration)
        assert configuration not in knowledge.taken
        assert configuration not in seen
        seen.add(configuration)
        assert suggestion.strategy == name
        assert suggestion.reason.endswith(".")
        assert "\n" not in suggestion.reason
        if suggestion.interval is not None:
            assert suggestion.expected is not None
            assert suggestion.interval[0] <= suggestion.expected <= suggestion.interval[1]


def run_to_exhaustion(
    strategy: Strategy, space: ParameterSpace, quality: Quality, n: int, seed: int = 1
) -> list[Configuration]:
    """Ask, run and learn until fewer than n come back; return everything proposed, in order."""
    rng = np.random.default_rng(seed)
    proposed: list[Configuration] = []
    observed: list[Observation] = []
    failed: list[Failure] = []
    while True:
        knowledge = Knowledge(space, tuple(observed), tuple(failed))
        suggestions = strategy.suggest(n, knowledge, rng)
        check(suggestions, knowledge, strategy.name)
        assert len(suggestions) <= n
        for suggestion in suggestions:
            proposed.append(suggestion.configuration)
            value = quality(suggestion.configuration)
            if value is None:
                failed.append(Failure(suggestion.configuration, "it stopped"))
            else:
                observed.append(Observation(suggestion.configuration, value))
        if len(suggestions) < n:
            final = Knowledge(space, tuple(observed), tuple(failed))
            assert is_exhausted(final)
            assert strategy.suggest(1, final, rng) == ()
            return proposed
        assert is_exhausted(knowledge) is False


@pytest.mark.parametrize(
    ("name", "quality", "n"),
    [
        (name, quality, (1, 4, 1000)[(i + j // 2) % 3])  # each of a kind meets two of another
        for i, name in enumerate(SPACES)
        for j, quality in enumerate((total, constant, half_fail, all_fail))
        if (i + j) % 2 == 0
    ],
)
def test_a_full_run_proposes_every_allowed_configuration_exactly_once(
    strategy: Strategy, name: str, quality: Quality, n: int
) -> None:
    space = SPACES[name]
    proposed = run_to_exhaustion(strategy, space, quality, n)
    assert len(proposed) == len(set(proposed))
    assert set(proposed) == set(all_of(space, space.is_allowed))


def test_the_same_seed_gives_the_same_run_and_another_seed_another(strategy: Strategy) -> None:
    space = SPACES["with exclusions"]
    first = run_to_exhaustion(strategy, space, total, 5, seed=7)
    assert first == run_to_exhaustion(strategy, space, total, 5, seed=7)
    assert first != run_to_exhaustion(strategy, space, total, 5, seed=8)


def test_suggesting_leaves_no_state_behind(strategy: Strategy, entry: StrategyEntry) -> None:
    space = SPACES["3x3x2x3"]
    history = tuple(Observation(space.configuration(i), float(i % 5)) for i in range(0, 54, 7))
    knowledge = Knowledge(space, history)
    first = strategy.suggest(6, knowledge, np.random.default_rng(3))
    strategy.suggest(2, Knowledge(space), np.random.default_rng(4))
    assert strategy.suggest(6, knowledge, np.random.default_rng(3)) == first
    fresh = entry.build().suggest(6, Knowledge(space, history), np.random.default_rng(3))
    assert fresh == first


def test_pending_and_running_configurations_are_not_proposed(strategy: Strategy) -> None:
    space = SPACES["3x3x2x3"]
    everything = list(space.configurations())
    free = set(everything[20:23])
    knowledge = Knowledge(
        space,
        (Observation(everything[0], 1.0),),
        (Failure(everything[1], "no"),),
        frozenset(everything[2:20]),
        tuple(everything[23:]),
    )
    suggestions = strategy.suggest(10, knowledge, np.random.default_rng(5))
    assert {s.configuration for s in suggestions} == free


def test_levels_closed_and_exclusions_made_after_runs_hold(strategy: Strategy) -> None:
    before = SPACES["3x3x2x3"]
    history = tuple(
        Observation(c, total(c)) for c in before.configurations() if sum(c.level_ids) > 5
    )
    after = before.closing("a", 4).excluding(Exclusion("b == 'z' and d > 0.15"))
    after = after.with_level("a", 8)
    knowledge = Knowledge(after, history)
    suggestions = strategy.suggest(1000, knowledge, np.random.default_rng(6))
    check(suggestions, knowledge, strategy.name)
    wanted = set(all_of(after, after.is_allowed)) - {o.configuration for o in history}
    assert {s.configuration for s in suggestions} == wanted


def test_infeasible_observations_are_survived(strategy: Strategy) -> None:
    space = SPACES["3x3x2x3"]
    history = tuple(
        Observation(c, 1.0, feasible=False, violation=1.0 + total(c))
        for c in list(space.configurations())[::3]
    )
    knowledge = Knowledge(space, history)
    suggestions = strategy.suggest(8, knowledge, np.random.default_rng(7))
    check(suggestions, knowledge, strategy.name)
    assert len(suggestions) == 8


def test_a_number_of_suggestions_below_one_is_refused(strategy: Strategy) -> None:
    for n in (0, -1, True, 2.0, None):
        with pytest.raises(OptionError, match=r"whole number from 1 on"):
            strategy.suggest(n, Knowledge(SPACES["3x3x2x3"]), np.random.default_rng(1))  # type: ignore[arg-type]


@pytest.mark.soak
@pytest.mark.parametrize("exclusions", [(), (Exclusion("p0 == p1 or p2 + p3 > 16"),)])
def test_a_space_of_10_to_the_12_is_searched_without_being_built(
    strategy: Strategy, exclusions: tuple[Exclusion, ...]
) -> None:
    levels = tuple(range(10))
    space = ParameterSpace(tuple(Parameter(f"p{i}", levels) for i in range(12)), exclusions)
    rng = np.random.default_rng(9)
    observed: list[Observation] = []
    for n in (10, 50, 5):
        knowledge = Knowledge(space, tuple(observed))
        suggestions = strategy.suggest(n, knowledge, rng)
        check(suggestions, knowledge, strategy.name)
        assert len(suggestions) == n
        observed += [Observation(s.configuration, total(s.configuration)) for s in suggestions]
    assert not is_exhausted(Knowledge(space, tuple(observed)))


def test_a_space_in_which_nothing_varies_is_exhausted(entry: StrategyEntry) -> None:
    space = ParameterSpace((Parameter("alpha", (0,)),))
    history = (Observation(space.configuration(0), 0.0),) * 2
    assert not entry.build().suggest(1, Knowledge(space, history), np.random.default_rng(1))


@pytest.mark.soak
@given(st.data())
def test_any_space_and_history_is_answered_in_full(data: st.DataObject) -> None:
    space = data.draw(spaces())
    history = data.draw(histories(space))
    knowledge = Knowledge(space, history)
    n = data.draw(st.integers(1, 12))
    free = set(all_of(space, space.is_allowed)) - knowledge.taken
    for entry in ENTRIES:
        strategy = entry.build()
        suggestions = strategy.suggest(n, knowledge, np.random.default_rng(1))
        check(suggestions, knowledge, strategy.name)
        assert len(suggestions) == min(n, len(free))
        assert is_exhausted(knowledge) == (not free)


def test_options_outside_their_bounds_are_refused(entry: StrategyEntry) -> None:
    with pytest.raises(OptionError, match=r"has no option.*'nonsense'"):
        entry.build(nonsense=1)
    for option in entry.options:
        assert entry.build(**{option.name: option.default}) == entry.build()
        with pytest.raises(OptionError, match=option.name):
            entry.build(**{option.name: None})  # type: ignore[arg-type]
        if option.choices:
            with pytest.raises(OptionError, match=f"one of {', '.join(option.choices)}"):
                entry.build(**{option.name: "nonsense"})
            for choice in option.choices:
                entry.build(**{option.name: choice})
        for bound, step in ((option.low, -1), (option.high, 1)):
            if bound is not None:
                with pytest.raises(OptionError, match=option.name):
                    entry.build(**{option.name: option.type(bound + step)})


def test_the_registry_names_each_strategy_once() -> None:
    for name in STRATEGIES:
        entry = strategy_entry(name)
        assert entry.name == make_strategy(name).name == name
        assert isinstance(make_strategy(name), Strategy)
        assert entry.summary.endswith(".")
