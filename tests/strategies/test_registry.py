"""Registration: explicit first, then entry points of third parties."""

from importlib.metadata import EntryPoint

import pytest

from strategies import (
    Copper,
    OptionError,
    RandomSearch,
    StrategyEntry,
    StrategyError,
    UnknownStrategyError,
    make_strategy,
    registry,
    strategy_names,
)

THIRD = StrategyEntry("third", "From elsewhere.", RandomSearch)


def declare(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    found = [EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in points]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)


def test_names_and_options() -> None:
    assert strategy_names()[:3] == ("grasp", "copper", "random")
    assert make_strategy("copper", beta=1) == Copper(beta=1.0)
    with pytest.raises(
        UnknownStrategyError, match=r"no strategy 'gasp'; did you mean 'grasp'\? Kn"
    ):
        make_strategy("gasp")
    with pytest.raises(OptionError, match=r"no option 'bta'; did you mean 'beta'\?"):
        make_strategy("copper", bta=0.5)
    with pytest.raises(
        OptionError, match=r"'beta' of strategy 'copper' is 1\.5; it must be a number fr"
    ):
        make_strategy("copper", beta=1.5)
    with pytest.raises(OptionError, match="'beta' of strategy 'copper' is nan"):
        make_strategy("copper", beta=float("nan"))
    with pytest.raises(OptionError, match="a whole number from 0 on"):
        make_strategy("copper", neighbours=2.5)


def test_a_third_party_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "THIRD", THIRD, raising=False)
    declare(monkeypatch, ("third", "strategies.registry:THIRD"))
    assert "third" in strategy_names()
    assert make_strategy("third") == RandomSearch()


def test_a_name_claimed_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, ("copper", "elsewhere:ENTRY"))
    with pytest.raises(StrategyError, match="'copper' is registered twice"):
        make_strategy("random")
    declare(monkeypatch, ("third", "one:ENTRY"), ("third", "two:ENTRY"))
    with pytest.raises(StrategyError, match=r"registered twice \(again by 'two:ENTRY'\)"):
        strategy_names()


def test_a_broken_third_party_is_named_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declare(monkeypatch, ("third", "no_such_module_anywhere:ENTRY"))
    assert make_strategy("random") == RandomSearch()
    with pytest.raises(StrategyError, match="does not load"):
        make_strategy("third")
    declare(monkeypatch, ("third", "strategies.registry:ENTRY_POINT_GROUP"))
    with pytest.raises(StrategyError, match="is no StrategyEntry with this name"):
        make_strategy("third")
