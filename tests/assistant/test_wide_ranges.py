"""Sweeps over wide ranges: levels are added by a rule, which a person sees and can stop."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from assistant import Measure, Objective, SingleMeasure, Sla, open_session
from assistant.analysis.recommendation import is_exhausted
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import SettingsError
from assistant.core.events import ExperimentOpened, SpaceChanged, SteeringChanged
from assistant.core.ports import Store
from assistant.core.sla import AutoSteering, Steering
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.experiment_summary import baseline_finding
from assistant.session.auto_steering import auto_steer
from assistant.session.opening import load_session
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore, SqliteStore
from strategies import Level, Parameter, ParameterSpace, StrategyError

BEST = 0.0045


@dataclass(frozen=True)
class Rate:
    """How far a rate is from 0.0045 in decades: none of the first levels is near it."""

    space = ParameterSpace(
        (Parameter.wide_range("rate", 1e-5, 1.0, log=True), Parameter("mode", ("plain", "odd")))
    )
    name = "rate"
    objective = Objective(SingleMeasure("off"), "minimise")
    baseline: Mapping[str, Level] | None = None
    deterministic = True
    facts = ()

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        return {"off": abs(math.log10(float(values["rate"]) / BEST)) + (values["mode"] == "odd")}


def swept(
    store: Store, runs: int = 24, *, refine: bool = True, max_runs: int | None = None
) -> Session:
    session = open_session(
        Rate(), store=store, experiment_id="one", sla=Sla(max_runs=runs), seed=3, refine=refine,
    )  # fmt: skip
    auto_steer(session, SerialExecutor(Rate()), AutoSteering(), max_runs=max_runs)
    return session


def best_rate(session: Session) -> float:
    best = session.experiment.best
    assert best is not None
    return float(session.experiment.space.values(best.configuration)["rate"])


def rates(session: Session) -> tuple[Level, ...]:
    return session.experiment.space.parameter("rate").added


def test_levels_come_near_the_best_and_the_summary_says_so() -> None:
    coarse, refined = swept(MemoryStore(), refine=False), swept(MemoryStore())
    assert rates(coarse) == ()
    assert best_rate(coarse) == 0.01
    assert abs(best_rate(refined) - BEST) < 5e-4
    changes = [event for event in refined.events() if isinstance(event, SpaceChanged)]
    assert tuple(event.space.parameter("rate").levels[-1] for event in changes) == rates(refined)
    assert {event.by for event in changes} == {"refinement"}
    assert changes[0].text == "rate=0.003 added between 0.001 and 0.01, beside the best result"
    assert [decode_event(encode_event(event)) for event in changes] == changes
    said = " ".join(baseline_finding(refined.experiment).sentences)
    n = 6 + len(rates(refined))
    assert f"Levels were added beside the best results: rate has {n} instead of 6." in said
    assert "Levels were added" not in " ".join(baseline_finding(coarse.experiment).sentences)


def test_an_exhausted_grid_goes_on_where_levels_come_and_ends_where_none_does() -> None:
    session = swept(MemoryStore(), runs=90)
    finished = auto_steer(session, SerialExecutor(Rate()), AutoSteering())
    n = len(session.experiment.runs)
    assert finished == f"the space is exhausted: all {n} allowed configurations have been run"
    assert 24 < n < 60
    assert session.is_exhausted
    assert is_exhausted(session.experiment)
    coarse = swept(MemoryStore(), runs=90, refine=False)
    assert len(coarse.experiment.runs) == 12
    assert coarse.is_exhausted
    coarse.change_strategy(refine=True)  # by hand: from now on levels come
    assert not coarse.is_exhausted
    assert not is_exhausted(coarse.experiment)
    assert coarse.suggest(1).suggestions


def test_an_interrupted_sweep_adds_the_same_levels(tmp_path: Path) -> None:
    whole = swept(MemoryStore())
    store = SqliteStore(tmp_path / "one.db")
    swept(store, max_runs=15)
    session = load_session(store, "one")
    auto_steer(session, SerialExecutor(Rate()), AutoSteering())
    assert rates(session) == rates(whole)
    assert [run.configuration for run in session.experiment.runs] == [
        run.configuration for run in whole.experiment.runs
    ]
    store.close()


def test_a_person_stops_it_and_adds_levels() -> None:
    session = swept(MemoryStore(), runs=16)
    n = len(rates(session))
    assert n > 0
    session.change_budget(Sla(max_runs=24))
    session.change_strategy(refine=False)
    assert str(session.experiment.steering) == "grasp, no levels added"
    session.change_strategy("random")
    assert not session.experiment.steering.refine  # another strategy changes nothing about it
    auto_steer(session, SerialExecutor(Rate()), AutoSteering())
    assert len(rates(session)) == n
    session.add_level("rate", 0.00451)
    (last,) = session.events()[-1:]
    assert isinstance(last, SpaceChanged)
    assert last.by == "analyst"
    assert rates(session)[-1] == 0.00451


def test_events_of_before_have_no_range_and_refine() -> None:
    (opened,) = open_session(Rate(), store=MemoryStore(), refine=False).events()
    old = json.loads(encode_event(opened))
    del old["steering"]["refine"]
    for parameter in old["space"]["parameters"]:
        del parameter["wide"]
    decoded = decode_event(json.dumps(old))
    assert isinstance(decoded, ExperimentOpened)
    assert decoded.steering.refine
    assert not decoded.space.is_wide  # so nothing is ever added
    assert decoded.space.lineage == Rate.space.lineage
    steered = json.loads(encode_event(SteeringChanged(1.0, Steering())))
    del steered["steering"]["refine"]
    assert decode_event(json.dumps(steered)) == SteeringChanged(1.0, Steering())
    changed = json.loads(encode_event(SpaceChanged(1.0, Rate.space, "x=1 closed")))
    del changed["by"]
    assert decode_event(json.dumps(changed)) == SpaceChanged(1.0, Rate.space, "x=1 closed")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("{low = 1, high = 9, step = 2, log = true}", "leave out the step, or use logarithmic"),
        ("{low = 1}", "parameters.0.range.high"),
        ("{low = 0.0, high = 1.0, log = true}", "parameter 'x': .* 0 < low < high"),
        ("{low = 2, high = 1}", "parameter 'x': .* low < high"),
    ],
)
def test_ranges_without_meaning_are_refused(table: str, said: str) -> None:
    text = f"""
[application]
kind = "rest"
[objective]
minimise = "off"
[[parameters]]
name = "x"
range = {table}
"""
    with pytest.raises((SettingsError, StrategyError), match=said):
        build_sweep(check_settings(tomllib.loads(text), "a sweep"))
