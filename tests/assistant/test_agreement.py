"""The terms of an agreement: what is counted, what is refused, what ends a sweep."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from agents import Follower
from assistant import (
    Experiment,
    Measure,
    Objective,
    Outcome,
    Run,
    RunState,
    Session,
    SingleMeasure,
    Sla,
    Tariff,
)
from assistant.analysis.recommendation import goal_to_confirm
from assistant.config.sweep_file import SweepSettings, check_settings
from assistant.core.codec import decode_event, encode_event
from assistant.core.events import ExperimentOpened, RunStarted
from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.core.run import first_to_reach
from assistant.executors import make_executor
from assistant.executors.serial import SerialExecutor
from strategies import Configuration, Level
from tests.assistant.agreed import Timed, at, session_under, used
from tests.assistant.examples import SPACE, Bowl
from tests.assistant.test_replicates import NoisyBowl

# -- the goal ----------------------------------------------------------------------------------


def completed(number: int, level: int, value: float, ended_s: float, **more: object) -> Run:
    feasible = bool(more.get("feasible", True))
    outcome = Outcome({}, value, -value, feasible, 0.0 if feasible else 0.5)
    configuration = Configuration((level, 0, 0), SPACE.lineage)
    return Run(
        number, configuration, "suggested", 0, "", None, 0.0, 1.0, ended_s, 1.0, outcome
    )  # fmt: skip


MINIMISE = Objective(SingleMeasure("height"))


def test_the_goal_is_reached_by_the_run_that_ended_first_not_by_the_one_begun_first() -> None:
    runs = [completed(1, 0, 5.0, 30.0), completed(2, 1, 5.0, 20.0), completed(3, 2, 9.0, 10.0)]
    found = first_to_reach(runs, MINIMISE, 5.0)
    assert found is not None
    assert found.id == 2
    assert first_to_reach(runs, MINIMISE, 4.9) is None
    most = first_to_reach(runs, Objective(SingleMeasure("height"), "maximise"), 9.0)
    assert most is not None
    assert most.id == 3


def test_what_violates_a_constraint_reaches_nothing() -> None:
    runs = [completed(1, 0, 1.0, 10.0, feasible=False), completed(2, 1, 4.0, 20.0)]
    found = first_to_reach(runs, MINIMISE, 5.0)
    assert found is not None
    assert found.id == 2


def test_a_replicate_takes_a_lucky_goal_back_and_may_bring_it() -> None:
    lucky, worse = completed(1, 0, 4.0, 10.0), completed(2, 0, 8.0, 20.0)
    assert first_to_reach([lucky], MINIMISE, 5.0) == lucky
    assert first_to_reach([lucky, worse], MINIMISE, 5.0) is None  # their mean is 6
    better = completed(3, 0, 2.0, 30.0)
    assert first_to_reach([lucky, worse, better], MINIMISE, 5.0) == lucky  # 14 / 3 is below 5
    unlucky = completed(4, 1, 7.0, 11.0)
    good = completed(5, 1, 1.0, 12.0)
    assert first_to_reach([unlucky, good, lucky, worse], MINIMISE, 5.0) == good


def test_a_sweep_ends_at_the_goal_or_goes_on_beyond_it() -> None:
    sla = Sla(max_runs=24, goal=2.0)
    session = session_under(sla)
    reason = Follower(initial=4, batch=2).steer(session, SerialExecutor(Bowl()))
    run = session.experiment.goal_run
    assert run is not None
    assert run.outcome is not None
    assert run.outcome.value <= 2.0
    assert reason == f"the goal of 2 is reached by run {run.id}"
    assert len(session.experiment.runs) < 24
    assert used(session)["goal"].verdict == "met"

    going_on = session_under(Sla(max_runs=24, goal=2.0, at_goal="go_on"))
    reason = Follower(initial=4, batch=2).steer(going_on, SerialExecutor(Bowl()))
    assert reason == "the budget of 24 runs is used up"
    assert len(going_on.experiment.runs) == 24


def test_a_goal_out_of_reach_is_missed_by_what_the_best_lacks() -> None:
    session = session_under(Sla(max_runs=24, goal=0.25))
    session.finish(Follower(initial=4, batch=4).steer(session, SerialExecutor(Bowl())))
    use = used(session)["goal"]
    assert (use.verdict, use.over, use.run) == ("missed", 0.75, None)
    assert use.used_text == "not reached; the best is 1, 0.75 away"


def noisy_sweep(goal: float, seed: int) -> tuple[Session, str]:
    bowl = NoisyBowl(sd=2.0, deterministic=False)
    session = session_under(Sla(max_runs=60, goal=goal), bowl, seed=seed)
    return session, Follower(initial=6, batch=2).steer(session, SerialExecutor(bowl))


def repeated(session: Session) -> list[Run]:
    return [run for run in session.experiment.runs if "reached the goal" in run.reason]


def test_where_results_vary_a_goal_is_repeated_before_it_is_believed() -> None:
    session, reason = noisy_sweep(goal=1.5, seed=1)
    run = session.experiment.goal_run
    assert run is not None
    assert reason == f"the goal of 1.5 is reached by run {run.id}"
    assert [one.configuration for one in repeated(session)] == [run.configuration] * 2
    assert session.experiment.summaries[run.configuration].n == 3
    assert goal_to_confirm(session.experiment) is None


def test_a_lucky_goal_is_not_the_end() -> None:
    session, reason = noisy_sweep(goal=0.5, seed=4)  # the best of all has a mean of 1
    lucky = [run for run in session.experiment.runs if run.outcome and run.outcome.value <= 0.5]
    assert lucky
    assert repeated(session)
    assert session.experiment.goal_run is None
    assert reason.startswith("the budget of 60 runs is used up")


def test_only_limits_count_as_an_end_a_goal_does_not() -> None:
    session = session_under(Sla(goal=0.25))
    with pytest.raises(Exception, match="a cost limit would not end"):
        Follower().steer(session, SerialExecutor(Bowl()))


# -- a single run ------------------------------------------------------------------------------


def test_a_run_beyond_its_limit_has_failed_and_is_counted() -> None:
    session = session_under(Sla(max_runs=9, run_limit_s=60.0))
    session.import_results([(at(0), {"height": 5.0})])
    session.include(at(1))
    session.include(at(2))
    executor = Timed(Bowl(), 65.0)
    session.run_queued(executor)
    assert executor.works[0].limit_s == 60.0
    failed = session.experiment.runs_in(RunState.FAILED)
    assert [run.id for run in failed] == [2, 3]
    assert failed[0].failure == "it took 65 s, and the run limit is 60 s"
    assert used(session)["run_limit"].used_text == "2 runs took longer, and failed"
    assert used(session)["run_limit"].over == 5.0
    session.change_budget(Sla(max_runs=9, run_limit_s=65.0))
    session.include(at(3))
    session.run_queued(Timed(Bowl(), 65.0))
    assert session.experiment.run(4).state is RunState.COMPLETED, "as long as allowed is not longer"


def test_a_failure_of_its_own_keeps_its_words() -> None:
    bowl = Bowl(fail_at_x=1)
    session = session_under(Sla(max_runs=9, run_limit_s=60.0), bowl)
    session.include(at(1))
    session.run_queued(Timed(bowl, 65.0))
    assert session.experiment.run(1).failure == "x = 1 does not work"


@dataclass(frozen=True)
class Endable(Bowl):
    """A bowl that can end its runs, and says at which limit it was run."""

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        return {**self.evaluate(values, seed), "limit": limit_s}


@pytest.mark.parametrize("limit_s", [None, 600.0])
def test_an_application_that_can_end_a_run_is_told_the_limit(limit_s: float | None) -> None:
    with make_executor(Endable(), 1) as executor:
        executor.submit(ExecutionRequest(1, at(1), 0, limit_s))
        (completion,) = executor.collect()
    assert completion.measures is not None
    assert completion.measures.get("limit") == limit_s


def test_attempts_count_every_start() -> None:
    session = session_under(Sla(max_runs=9))
    session.include(at(1))

    class Interrupted(Timed):
        def collect(self) -> tuple[ExecutionResult, ...]:
            raise KeyboardInterrupt

    assert session.experiment.run(1).attempts == 0
    with pytest.raises(KeyboardInterrupt):
        session.run_queued(Interrupted(Bowl()))
    assert session.experiment.run(1).attempts == 1
    session.run_queued(Timed(Bowl()))
    assert session.experiment.run(1).attempts == 2
    assert Experiment.replay(session.events()).run(1).attempts == 2
    assert sum(isinstance(event, RunStarted) for event in session.events()) == 2


# -- what is agreed ----------------------------------------------------------------------------


def test_a_deadline_is_missed_by_what_the_last_run_took_beyond_it() -> None:
    session = session_under(Sla(deadline_s=1_000_010.0))
    session.include(at(1))
    session.run_queued(Timed(Bowl()))
    for _ in range(20):  # each look at the clock is a second
        session.is_overdue()
    session.include(at(2))
    session.run_queued(Timed(Bowl()))
    session.finish("late")
    use = used(session)["deadline"]
    last_s = session.experiment.run(2).ended_s
    assert last_s is not None
    assert use.over == last_s - 1_000_010.0 > 0
    assert use.verdict == "missed"
    assert use.used_text == f"the last run ended {use.over:g} s after it"


@pytest.mark.parametrize(
    ("tables", "max_runs"),
    [
        ({}, 60),
        ({"goal": 3}, 60),
        ({"goal": 3, "run_limit": "1m"}, 60),
        ({"deadline": "1h"}, None),
        ({"cost": {"limit": 3, "measure": "height"}}, None),
        ({"cost": {"measure": "height"}}, 60),
        ({"cost": {"limit": 3, "measure": "height"}, "runs": 7}, 7),
    ],
)
def test_the_budget_is_60_runs_unless_another_limit_is_said(
    tables: dict[str, object], max_runs: int | None
) -> None:
    settings = check_settings(tables, "here")
    assert isinstance(settings, SweepSettings)
    assert settings.sla(0.0).max_runs == max_runs


def test_every_term_may_stand_beside_every_other() -> None:
    tables = {
        "runs": 40,
        "deadline": "2h",
        "goal": 12,
        "at_goal": "go_on",
        "run_limit": "10m",
        "cost": {"limit": 20, "unit": "EUR", "per_hour": 0.5, "resources": "nodes"},
    }
    assert check_settings(tables, "here").sla(1000.0) == Sla(
        max_runs=40,
        deadline_s=8200.0,
        max_cost=20.0,
        tariff=Tariff("EUR", 0.5, "nodes"),
        goal=12.0,
        run_limit_s=600.0,
        at_goal="go_on",
    )


def test_journals_of_before_are_read() -> None:
    session = session_under(Sla(max_runs=7, deadline_s=2_000_000.0))
    line = encode_event(session.experiment.opened)
    new = (
        '"sla": {"max_runs": 7, "deadline_s": 2000000.0, "max_cost": null, "tariff": null, '
        '"goal": null, "run_limit_s": null, "at_goal": "stop", "keep_going": false}'
    )
    assert new in line
    old = decode_event(line.replace(new, '"sla": {"max_runs": 7, "deadline_s": 2000000.0}'))
    assert isinstance(old, ExperimentOpened)
    assert old.sla == Sla(7, 2_000_000.0)
    full = Sla(3, None, 2.0, Tariff("EUR", 0.5, "x"), 1.0, 60.0, "go_on")
    changed = session_under(full).experiment.opened
    assert decode_event(encode_event(changed)) == changed
