"""Warnings that help: under which rule, once, titled by what is missed, with what to change."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pytest
from rich.console import Console

from agents import Follower
from assistant import (
    MissWarning,
    Objective,
    Session,
    SingleMeasure,
    Sla,
    WarningPolicy,
    open_session,
)
from assistant.analysis import warning as warnings
from assistant.analysis.calibration import (
    TERMS,
    ForecastCalibration,
    MissModel,
    ModelCoefficients,
    load_calibration,
)
from assistant.analysis.forecast import forecast
from assistant.analysis.paper_forecast import paper_forecast
from assistant.analysis.warning import _is_time, paper_warning_title, relaxations
from assistant.cli.experiment_view import print_warning, warning_object
from assistant.core.events import WarningIssued
from assistant.core.objective import Constraint
from assistant.executors.serial import SerialExecutor
from assistant.hooks.notices import of_warning
from assistant.presentation.tables.sla import warning_rows
from assistant.presentation.text.forecast import ForecastSubject, headline
from assistant.store.event_store import MemoryStore
from strategies import Level, RegionRule
from tests.assistant.examples import SPACE, Bowl, Hills, TickingClock

RULE = RegionRule(good="threshold", threshold=-3.0, eps=1.5, min_samples=2)


@dataclass(frozen=True)
class Loaded(Bowl):
    """A bowl whose load is at least 19/3 and whose heat is at least 40."""

    constraints: tuple[Constraint, ...] = (Constraint("load", at_most=5.0),)
    objective: Objective = field(init=False)

    name = "loaded"
    space = SPACE

    def __post_init__(self) -> None:
        objective = Objective(SingleMeasure("height"), "minimise", self.constraints)
        object.__setattr__(self, "objective", objective)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, float]:
        """Return the height of the bowl, the load and the heat."""
        x, y = int(values["x"]), int(values["y"])
        height = super().evaluate(values, seed)["height"]
        assert isinstance(height, float)
        return {"height": height, "load": (22 - x) / 3, "heat": 40.0 + y}


@dataclass(frozen=True)
class Flat(Bowl):
    """Every configuration gives 5."""

    name = "flat"

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, float]:
        """Return the same height, whatever the values."""
        return {"height": 5.0}


def opened(application: Bowl | Hills, sla: Sla, **more: object) -> Session:
    return open_session(
        application, store=MemoryStore(), sla=sla, clock=TickingClock(), **more  # type: ignore[arg-type]
    )  # fmt: skip


def run(session: Session, application: Bowl | Hills, n: int) -> tuple[MissWarning, ...]:
    """Run n suggestions, ask for one more, and return all warnings so far."""
    session.submit(session.suggest(n))
    session.run_queued(SerialExecutor(application))
    session.suggest(1)
    return session.experiment.warnings


def of_hand(per_run: float, intercept: float, warn: float) -> MissModel:
    """Return a model whose chance depends on the strategy and the runs left alone."""
    ranges = load_calibration().goal.terms.ranges
    of = dict.fromkeys(TERMS, 0.0) | {"left": -per_run}
    terms = ModelCoefficients(intercept, MappingProxyType(of), ranges)
    return MissModel(terms, {"grasp": 0.0, "copper": 0.5}, {}, {"grasp": warn, "copper": warn})


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ForecastCalibration]:
    """Return a function that replaces models of the calibration."""

    def calibrate(**models: MissModel) -> ForecastCalibration:
        changed = replace(load_calibration(), **models)  # type: ignore[arg-type]
        monkeypatch.setattr(warnings, "load_calibration", lambda: changed)
        return changed

    return calibrate


def assert_short(text: str) -> None:
    for sentence in re.split(r"(?<=[.:;])\s+", text):
        assert len([word for word in sentence.split() if word != "%"]) <= 20, sentence


# ---- the paper's rule


def bowl_with_a_region(runs: int = 4, **more: object) -> Session:
    """Return a session with three good runs in one region, whose others do not fit the budget."""
    session = opened(Bowl(), Sla(runs), **({"warning_policy": WarningPolicy(RULE)} | more))
    for x, y in ((2, 0), (2, 1), (1, 0)):
        session.include({"x": x, "y": y, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    session.suggest(1)
    return session


@pytest.mark.parametrize(
    ("strategy", "rule", "regions_help", "warns"),
    [
        ("grasp", "auto", False, False),
        ("copper", "auto", True, True),
        ("copper", "auto", False, False),
        ("random", "auto", True, False),  # not measured
        ("grasp", "paper", False, True),
    ],
)
def test_the_papers_rule_warns_where_it_was_measured_to_help_or_is_chosen(
    calibrated: Callable[..., ForecastCalibration],
    strategy: str,
    rule: str,
    *,
    regions_help: bool,
    warns: bool,
) -> None:
    added = {0.7: -0.4 if regions_help else 0.4}
    exploitation = {"copper": added, "grasp": {0.7: 0.4}}
    calibrated(goal=replace(load_calibration().goal, exploitation=exploitation))
    policy = WarningPolicy(RULE, rule=rule)  # type: ignore[arg-type]
    experiment = bowl_with_a_region(strategy=strategy, warning_policy=policy).experiment
    assert [one.basis for one in experiment.warnings] == ["paper"] * warns
    assert paper_forecast(experiment, 0.0).is_miss


def test_a_default_sweep_without_a_goal_is_not_told_to_stay_inside_the_regions() -> None:
    session = opened(Hills(), Sla(24))
    Follower().steer(session, SerialExecutor(Hills()))
    assert "paper" not in {one.basis for one in session.experiment.warnings}
    assert session.experiment.n_ended == 24


def test_the_papers_warning_is_repeated_only_when_something_changed() -> None:
    session = bowl_with_a_region(warning_policy=WarningPolicy(RULE, rule="paper"))
    session.answer_warning("accepted")  # it was repeated with every batch after this
    session.suggest(1)
    assert len(session.experiment.warnings) == 1
    session.change_budget(Sla(5))
    session.suggest(1)
    assert len(session.experiment.warnings) == 2
    experiment, paper = session.experiment, session.experiment.warnings[-1].forecast
    later = replace(paper, executed=paper.executed + 5)
    more = (paper.shortfall or 0) + 1
    assert not _is_time(experiment, later)
    assert not _is_time(experiment, replace(paper, shortfall=more))
    assert _is_time(experiment, replace(later, shortfall=more))


def test_the_papers_warning_is_titled_by_the_limit_that_is_missed() -> None:
    paper = bowl_with_a_region().forecast().paper
    assert paper_warning_title(paper) == "The budget is too small for the regions of good results"
    late = replace(paper, remaining_by_deadline=paper.remaining, basis="plan")
    assert paper_warning_title(late) == "The deadline is too early for your plan"
    dear = replace(paper, remaining_by_cost=paper.remaining)
    assert paper_warning_title(dear).startswith("The cost limit is too low")


# ---- nothing feasible


@pytest.mark.parametrize(
    ("sla", "strategy", "n"),
    [(Sla(20, goal=1.0), "grasp", 8), (Sla(20), "copper", 8), (Sla(), "grasp", 12)],
)
def test_nothing_feasible_names_the_bound_that_lets_the_nearest_run_in(
    calibrated: Callable[..., ForecastCalibration], sla: Sla, strategy: str, n: int
) -> None:
    helps = {"copper": {0.7: -0.4}}
    calibrated(goal=replace(load_calibration().goal, exploitation=helps))
    session = opened(Loaded(), sla, strategy=strategy)
    assert not run(session, Loaded(), n - 1)
    (warning,) = run(session, Loaded(), 1)
    assert (warning.basis, warning.heading) == ("nothing_feasible", "Nothing feasible yet")
    pattern = r"Run (\d+) would be feasible with 'load' at most (\S+) \(now 5\)"
    found = re.search(pattern, warning.text)
    assert found is not None
    nearest = session.experiment.run(int(found[1])).outcome
    assert nearest is not None
    outcomes = [one.outcome for one in session.experiment.runs if one.outcome is not None]
    assert nearest.violation == min(outcome.violation for outcome in outcomes)
    assert Constraint("load", at_most=float(found[2])).violation(nearest.measures) == 0.0
    assert "Relax a constraint" in warning.text
    assert_short(warning.text)


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.change_budget(Sla(21)),
        lambda session: session.change_strategy("random"),
        lambda session: session.change_warning_policy(WarningPolicy(warn_from=0.1)),
        lambda session: session.close_level("x", 0),
    ],
)
def test_nothing_feasible_is_said_again_only_after_a_change(
    change: Callable[[Session], None],
) -> None:
    session = opened(Loaded(), Sla(20))
    assert len(run(session, Loaded(), 8)) == 1
    assert len(run(session, Loaded(), 3)) == 1
    change(session)
    assert len(run(session, Loaded(), 1)) == 2
    assert len(run(session, Loaded(), 1)) == 2


def test_every_bound_is_named_where_no_run_violates_only_one() -> None:
    both = Loaded(constraints=(Constraint("load", at_most=5.0), Constraint("heat", at_least=50.0)))
    session = opened(both, Sla(20))
    session.include({"x": 3, "y": 2, "mode": "odd"})
    session.include({"x": 0, "y": 0, "mode": "odd"})
    session.run_queued(SerialExecutor(both))
    (sentence,) = relaxations(session.experiment)
    bounds = "'load' at most 6.3334 (now 5) and 'heat' at least 42 (now 50)"
    assert sentence == f"Run 1 would be feasible with {bounds}."


# ---- a goal without a forecast


@pytest.mark.parametrize(
    ("application", "reason"),
    [
        (Flat(), "All results are equal"),
        (
            Loaded(constraints=(Constraint("load", at_most=7.0), Constraint("heat", at_most=40.0))),
            "meets every constraint",
        ),
    ],
)
def test_a_goal_without_a_chance_is_a_warning_from_half_of_the_budget(
    application: Bowl, reason: str
) -> None:
    session = opened(application, Sla(24, goal=0.5))
    session.include({"x": 2, "y": 0, "mode": "plain"})
    assert not run(session, application, 10)
    (warning,) = run(session, application, 1)
    assert warning.basis == "silent"
    assert warning.heading == "The goal is not reached, and no chance can be given"
    assert warning.text.startswith("No run has reached 0.5; the best so far is ")
    assert reason.lower() in warning.text.lower()
    assert "12 runs are left." in warning.text
    assert "Allow more runs, choose an easier goal" in warning.text
    assert ("would be feasible with" in warning.text) is isinstance(application, Loaded)
    assert_short(warning.text)
    assert len(run(session, application, 1)) == 1


# ---- the end of the budget, without a goal


def test_without_a_goal_a_budget_that_ends_too_early_is_a_warning(
    calibrated: Callable[..., ForecastCalibration],
) -> None:
    changed = calibrated(end=of_hand(0.25, 2.2, warn=0.5))
    session, seen = opened(Hills(), Sla(40)), list[MissWarning]()
    reason = Follower().steer(session, SerialExecutor(Hills()), on_warning=seen.append)
    (warning,) = seen  # lastingly above the threshold, and not worse: once
    assert (warning.basis, warning.heading) == ("end", "The budget will probably end too early")
    assert warning.text.startswith("The chance that the budget suffices is ")
    assert_short(warning.text)
    change = next(one for one in warning.alternatives if one.kind == "more_runs")
    assert warning.outlook is not None
    assert warning.outlook.end is not None
    assert change.chance is not None
    assert change.chance > 1.0 - (warning.outlook.end.miss or 0.0)
    assert "budget of 40 runs is used up" in reason  # it was not interrupted
    assert changed.end.warn == {"grasp": 0.5, "copper": 0.5}


def test_a_warning_that_no_change_helps_says_what_else_to_do(
    calibrated: Callable[..., ForecastCalibration],
) -> None:
    calibrated(end=of_hand(1.0, 50.0, warn=0.5), goal=of_hand(1.0, 50.0, warn=0.5))
    for goal, text in ((None, "Open other levels."), (-20.0, "Choose an easier goal, or open")):
        session = opened(Hills(), Sla(40, goal=goal), warning_policy=WarningPolicy(warn_at=0.5))
        run(session, Hills(), 12)
        warning = run(session, Hills(), 4)[-1]
        assert not [one for one in warning.alternatives if one.kind != "close"]
        nothing = f"No examined change raises the chance. {text}"
        assert (nothing in warning.text) is (not warning.alternatives)
        assert_short(warning.text)


def test_a_strategy_without_calibration_gets_no_warning_and_the_reason(
    calibrated: Callable[..., ForecastCalibration],
) -> None:
    changed = calibrated(end=of_hand(1.0, 50.0, warn=0.5))
    session = opened(Hills(), Sla(40), strategy="random")
    run(session, Hills(), 12)
    assert run(session, Hills(), 8) == ()
    current = session.experiment
    seen = forecast(current, session.now_s(), calibration=changed)
    assert seen.end is not None
    assert seen.end.miss is None
    assert seen.end.silence == "it is not calibrated for the strategy random"
    assert seen.end.silence in headline(ForecastSubject.of(current), seen)


# ---- titled by what is missed


def test_every_place_titles_a_warning_by_what_is_missed() -> None:
    session = opened(Loaded(), Sla(20))
    (warning,) = run(session, Loaded(), 8)
    experiment, lead = session.experiment, f"Nothing feasible yet. {warning.text}"
    console = Console(file=io.StringIO(), width=1_000)
    print_warning(experiment, console, None)
    assert f"warning: {lead}" in console.file.getvalue()  # type: ignore[attr-defined]
    as_json = warning_object(experiment)
    assert as_json is not None
    assert as_json["title"] == "Nothing feasible yet"
    assert of_warning(experiment, warning, 0.0).sentence == lead
    (row,) = warning_rows(experiment)
    assert row.text == lead


def test_a_warning_of_an_old_event_log_has_a_title() -> None:
    warning = bowl_with_a_region(
        warning_policy=WarningPolicy(RULE, rule="paper")
    ).experiment.warnings[0]
    old = replace(warning, title="")
    assert old.heading == "The budget is too small for the regions"
    assert replace(old, basis="forecast").heading == "The goal will probably be missed"
    assert WarningIssued(0.0, old).warning.heading == old.heading
