"""What runs cost: how it is counted, what a limit refuses and ends."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agents import Follower
from assistant import Outcome, Run, RunState, Session, Sla, Tariff, load_session
from assistant.cli.experiment_view import LiveView
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.sla import Spending, cost_of, spending_of
from assistant.store.event_store import MemoryStore
from strategies import Configuration
from tests.assistant.agreed import Timed, at, session_under, used
from tests.assistant.examples import SPACE, Bowl, TickingClock

ENERGY = Tariff("J", measure="height")
"""The height of the bowl is the cost too: 1 at best, 17 at worst."""


def _spent(runs: list[Run]) -> Spending:
    executed = [run for run in runs if run.source != "imported"]
    return spending_of(cost_of(run, SPACE.values, ENERGY) for run in executed)


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
    assert used(session)["cost"].used_text == "6 EUR used"


def test_a_failed_run_costs_the_mean_where_a_measure_is_the_cost() -> None:
    bowl = Bowl(fail_at_x=3)
    session = session_under(Sla(max_cost=100.0, tariff=ENERGY), bowl)
    session.include(at(3))
    session.run_queued(Timed(bowl))
    assert session.experiment.cost is None, "nothing is known of what it cost"
    assert used(session)["cost"].used_text == "unknown: the cost of 1 run is not known"
    session.include(at(2))
    session.include(at(0))
    session.run_queued(Timed(bowl))
    assert session.experiment.cost == pytest.approx(1.0 + 5.0 + 3.0)
    told = used(session)["cost"].used_text
    assert told == "9 J used; 1 run of unknown cost counted at the mean of the others"


def test_an_unknown_cost_is_never_called_met_and_is_said_once() -> None:
    bowl = Bowl()
    session = session_under(Sla(2, max_cost=9.0, tariff=Tariff("J", measure="joules")), bowl)
    console = Console(file=io.StringIO(), width=200)
    with LiveView(session, console) as view:
        for x in (1, 2):
            session.include(at(x))
        session.run_queued(Timed(bowl), view.on_change)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.count("warning") == 1
    assert said.startswith(
        "warning: the cost of run 1 is unknown, since it returned no number 'joules'; the cost "
        "limit of 9 J has no effect until a cost is known"
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
    counted = _spent(runs)
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
    assert _spent(free) == counted


def test_a_spent_cost_refuses_runs_stops_what_waits_and_stores_nothing() -> None:
    session = session_under(Sla(max_cost=4.0, tariff=ENERGY))
    for y in (0, 1, 2):  # these cost 1, 2 and 3; after the second 3, after the third 6
        session.include(at(2, y))
    session.include(at(1))
    session.run_queued(Timed(Bowl()), stop=session.is_over_limit)
    assert session.experiment.cost == pytest.approx(6.0)
    assert [run.id for run in session.experiment.runs_in(RunState.QUEUED)] == [4]
    assert session.passed_limit() == "the cost limit of 4 J is used up"
    n_events = session.experiment.n_events
    with pytest.raises(ExperimentError, match=r"limit of 4 J is used up \(6 J so far\); set a"):
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
    assert reason == "the cost limit of 25 J is used up"
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
