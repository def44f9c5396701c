"""The terms of an agreement: what is counted, what is refused, what ends a sweep."""

import io
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agents import Follower
from assistant import (
    Experiment,
    Measure,
    Objective,
    Outcome,
    Run,
    RunState,
    Session,
    Sla,
    Tariff,
    Value,
    load_session,
    open_session,
)
from assistant.cli.live import SweepView
from assistant.codec import decode_event, encode_event
from assistant.ending import goal_to_confirm
from assistant.errors import ExperimentError, SettingsError
from assistant.events import ExperimentOpened, RunStarted
from assistant.executors import SerialExecutor, make_executor
from assistant.executors.attempt import attempt
from assistant.goal import first_to_reach
from assistant.ports import Completion, Reported, Work
from assistant.report.agreement import TermUse, agreement
from assistant.settings import SweepSettings, check_settings
from assistant.spending import spending
from assistant.store import MemoryStore
from strategies import Configuration, Level
from tests.assistant.examples import SPACE, Bowl, TickingClock
from tests.assistant.test_replicates import NoisyBowl

ENERGY = Tariff("J", measure="height")
"""The height of the bowl is the cost too: 1 at best, 17 at worst."""


@dataclass
class Timed:
    """An executor of which every run takes as long as is said, without taking it."""

    application: Bowl
    duration_s: float = 60.0
    capacity: int = 1
    taken: deque[Work] = field(default_factory=deque)
    works: list[Work] = field(default_factory=list)

    def submit(self, work: Work) -> None:
        self.taken.append(work)
        self.works.append(work)

    def collect(self) -> tuple[Completion, ...]:
        if not self.taken:
            return ()
        work = self.taken.popleft()
        return (replace(attempt(self.application, work), duration_s=self.duration_s),)

    def listen(self, reported: Reported) -> None: ...

    def stop(self, run_id: int) -> None: ...

    def cancel(self) -> None:
        self.taken.clear()

    def __enter__(self) -> "Timed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()


def session_under(sla: Sla, bowl: Bowl | None = None, **more: object) -> Session:
    return open_session(
        bowl or Bowl(),
        store=MemoryStore(),
        sla=sla,
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )


def at(x: int, y: int = 0, mode: str = "plain") -> dict[str, Level]:
    return {"x": x, "y": y, "mode": mode}


def used(session: Session) -> dict[str, TermUse]:
    return {use.term: use for use in agreement(session.experiment)}


# -- cost --------------------------------------------------------------------------------------


def test_a_price_per_hour_counts_what_a_run_holds_and_failed_runs_too() -> None:
    tariff = Tariff("EUR", per_hour=6.0, resources="x")
    bowl = Bowl(fail_at_x=3)
    session = session_under(Sla(max_cost=10.0, tariff=tariff), bowl)
    session.import_results([(at(1, 2), {"height": 3.0})])
    assert session.experiment.cost == 0.0
    for x in (1, 2, 3):
        session.include(at(x))
    session.run_queued(Timed(bowl, 600.0))
    assert session.experiment.cost == pytest.approx(1.0 + 2.0 + 3.0)  # 1 EUR each ten minutes
    assert session.experiment.spending is not None
    assert session.experiment.spending.n_known == 3
    assert used(session)["cost"].told == "6 EUR used"


def test_a_failed_run_costs_the_mean_where_a_measure_is_the_cost() -> None:
    bowl = Bowl(fail_at_x=3)
    session = session_under(Sla(max_cost=100.0, tariff=ENERGY), bowl)
    session.include(at(3))
    session.run_queued(Timed(bowl))
    assert session.experiment.cost is None, "nothing is known of what it cost"
    assert used(session)["cost"].told == "unknown: the cost of 1 run is not known"
    session.include(at(2))
    session.include(at(0))
    session.run_queued(Timed(bowl))
    assert session.experiment.cost == pytest.approx(1.0 + 5.0 + 3.0)
    told = used(session)["cost"].told
    assert told == "9 J used, of which 1 run of unknown cost at the mean of the others"


def test_an_unknown_cost_is_never_called_met_and_is_said_once() -> None:
    bowl = Bowl()
    session = session_under(Sla(2, max_cost=9.0, tariff=Tariff("J", measure="joules")), bowl)
    console = Console(file=io.StringIO(), width=200)
    with SweepView(session, console) as view:
        for x in (1, 2):
            session.include(at(x))
        session.run_queued(Timed(bowl), view.on_change)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.count("warning") == 1
    assert said.startswith(
        "warning: the cost of run 1 is unknown, since it gave no number as 'joules'; while no cost "
        "is known the limit of 9 J ends nothing"
    )
    assert used(session)["cost"].verdict == "open"
    session.finish("enough")
    assert (used(session)["cost"].verdict, used(session)["cost"].used) == ("unknown", None)


ENDED = st.tuples(
    st.sampled_from(["suggested", "imported", "replicate"]),
    st.one_of(st.none(), st.floats(0.0, 1e6)),
)


@given(st.lists(ENDED, max_size=12))
def test_cost_is_that_of_the_executed_runs_between_the_cheapest_and_the_dearest(
    ended: list[tuple[str, float | None]],
) -> None:
    runs = [
        Run(
            id=i,
            configuration=Configuration((0, 0, 0), SPACE.lineage),
            source=source,  # type: ignore[arg-type]
            seed=0,
            reason="",
            batch=None,
            submitted_s=0.0,
            started_s=1.0,
            ended_s=2.0,
            duration_s=1.0,
            outcome=Outcome({"height": cost}, 0.0, 0.0, True, 0.0),
        )
        for i, (source, cost) in enumerate(ended, 1)
    ]
    counted = spending(runs, SPACE.values, ENERGY)
    executed = [cost for source, cost in ended if source != "imported"]
    known = [cost for cost in executed if cost is not None]
    assert counted.n_known + counted.n_unknown == len(executed)
    if executed and not known:
        assert counted.total is None
        return
    low, high = min(known, default=0.0), max(known, default=0.0)
    assert counted.total is not None
    assert low * len(executed) <= counted.total * (1 + 1e-9)
    assert counted.total <= high * len(executed) * (1 + 1e-9)
    free = [run for run in runs if run.source != "imported"]
    assert spending(free, SPACE.values, ENERGY) == counted


def test_a_spent_cost_refuses_runs_stops_what_waits_and_stores_nothing() -> None:
    session = session_under(Sla(max_cost=4.0, tariff=ENERGY))
    for y in (0, 1, 2):  # these cost 1, 2 and 3; after the second 3, after the third 6
        session.include(at(2, y))
    session.include(at(1))
    session.run_queued(Timed(Bowl()), stop=session.is_over_limit)
    assert session.experiment.cost == pytest.approx(6.0)
    assert [run.id for run in session.experiment.runs_in(RunState.QUEUED)] == [4]
    assert session.passed_limit() == "the cost of 4 J is used up"
    n_events = session.experiment.n_events
    with pytest.raises(ExperimentError, match=r"cost of 4 J is used up \(6 J so far\); agree on"):
        session.include(at(3))
    assert session.experiment.n_events == n_events
    assert session.import_results([(at(3), {"height": 2.0})]) == 1, "what is free is taken"
    session.change_budget(Sla(max_cost=8.0, tariff=ENERGY))
    session.include(at(0))


def test_a_cost_alone_ends_a_sweep_and_the_overshoot_is_told() -> None:
    sla = Sla(max_cost=25.0, tariff=ENERGY)
    session = session_under(sla)
    reason = Follower(initial=3, batch=2).steer(session, Timed(Bowl()))
    session.finish(reason)
    assert reason == "the cost of 25 J is used up"
    spent = session.experiment.cost
    assert spent is not None
    last = max(session.experiment.runs, key=lambda run: run.ended_s or 0.0)
    assert last.outcome is not None
    assert spent - last.outcome.value < 25.0 <= spent
    use = used(session)["cost"]
    assert use.over == pytest.approx(spent - 25.0)
    assert use.verdict == ("missed" if spent > 25.0 else "met")
    again = Follower(initial=3, batch=2).steer(session_copy(session), Timed(Bowl()))
    assert again == reason, "taken over at its end, nothing more is tried"


def session_copy(session: Session) -> Session:
    store = MemoryStore()
    store.append(session.id, 0, session.events()[:-1])
    return load_session(store, session.id, clock=TickingClock())


def test_a_tariff_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="exactly one of per_hour and measure"):
        Tariff("EUR")
    with pytest.raises(SettingsError, match="needs a tariff"):
        Sla(max_cost=3.0)
    with pytest.raises(SettingsError, match="stop, go_on, not 'rest'"):
        Sla(goal=1.0, at_goal="rest")  # type: ignore[arg-type]


# -- the goal ----------------------------------------------------------------------------------


def completed(number: int, level: int, value: float, ended_s: float, **more: object) -> Run:
    feasible = bool(more.get("feasible", True))
    outcome = Outcome({}, value, -value, feasible, 0.0 if feasible else 0.5)
    configuration = Configuration((level, 0, 0), SPACE.lineage)
    return Run(
        number, configuration, "suggested", 0, "", None, 0.0, 1.0, ended_s, 1.0, outcome
    )  # fmt: skip


MINIMISE = Objective(Value("height"))


def test_the_goal_is_reached_by_the_run_that_ended_first_not_by_the_one_begun_first() -> None:
    runs = [completed(1, 0, 5.0, 30.0), completed(2, 1, 5.0, 20.0), completed(3, 2, 9.0, 10.0)]
    found = first_to_reach(runs, MINIMISE, 5.0)
    assert found is not None
    assert found.id == 2
    assert first_to_reach(runs, MINIMISE, 4.9) is None
    most = first_to_reach(runs, Objective(Value("height"), "maximise"), 9.0)
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
    assert use.told == "not reached; the best is 1, 0.75 away"


def noisy_sweep(goal: float, seed: int) -> tuple[Session, str]:
    bowl = NoisyBowl(sd=2.0, deterministic=False)
    session = session_under(Sla(max_runs=60, goal=goal), bowl, seed=seed)
    return session, Follower(initial=6, batch=2).steer(session, SerialExecutor(bowl))


def repeated(session: Session) -> list[Run]:
    return [run for run in session.experiment.runs if "the goal is reached" in run.reason]


def test_where_results_vary_a_goal_is_repeated_before_it_is_believed() -> None:
    session, reason = noisy_sweep(goal=1.5, seed=1)
    run = session.experiment.goal_run
    assert run is not None
    assert reason == f"the goal of 1.5 is reached by run {run.id}"
    assert [one.configuration for one in repeated(session)] == [run.configuration] * 2
    assert session.experiment.standings[run.configuration].n == 3
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
    with pytest.raises(Exception, match="a limit of cost would not end"):
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
    assert failed[0].failure == "it took 65 s, and the agreement allows 60 s per run"
    assert used(session)["run_limit"].told == "2 runs took longer, and failed"
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
        executor.submit(Work(1, at(1), 0, limit_s))
        (completion,) = executor.collect()
    assert completion.measures is not None
    assert completion.measures.get("limit") == limit_s


def test_attempts_count_every_start() -> None:
    session = session_under(Sla(max_runs=9))
    session.include(at(1))

    class Interrupted(Timed):
        def collect(self) -> tuple[Completion, ...]:
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
    assert use.told == f"the last run ended {use.over:g} s after it"


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
    assert settings.agreement(0.0).max_runs == max_runs


def test_every_term_may_stand_beside_every_other() -> None:
    tables = {
        "runs": 40,
        "deadline": "2h",
        "goal": 12,
        "at_goal": "go_on",
        "run_limit": "10m",
        "cost": {"limit": 20, "unit": "EUR", "per_hour": 0.5, "resources": "nodes"},
    }
    assert check_settings(tables, "here").agreement(1000.0) == Sla(
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
        '"goal": null, "run_limit_s": null, "at_goal": "stop"}'
    )
    assert new in line
    old = decode_event(line.replace(new, '"sla": {"max_runs": 7, "deadline_s": 2000000.0}'))
    assert isinstance(old, ExperimentOpened)
    assert old.sla == Sla(7, 2_000_000.0)
    full = Sla(3, None, 2.0, Tariff("EUR", 0.5, "x"), 1.0, 60.0, "go_on")
    changed = session_under(full).experiment.opened
    assert decode_event(encode_event(changed)) == changed
