"""Two processes on one store: a sweep runs in one, somebody steers in the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agents import Follower
from assistant import Run, Session, Sla, load_session, open_session
from assistant.cli.main import run
from assistant.core.events import BatchSuggested, BudgetChanged, Event, RunStarted
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from tests.assistant.examples import Bowl


class Interrupted(SqliteStore):
    """A store on which somebody else is quicker, once: just before a kind of event is stored."""

    before: type | None = None
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        kind, self.before = self.before, None
        if kind is not None and any(isinstance(event, kind) for event in events):
            self.meanwhile()
        else:
            self.before = kind
        super().append(experiment_id, position, events)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    return tmp_path / "experiments.db"


def opened(store: SqliteStore) -> Session:
    return open_session(Bowl(), store=store, sla=Sla(9), experiment_id="bowl", strategy="copper")


def change_budget(path: Path, runs: int) -> None:
    """Agree on other runs in what could be another process."""
    session = load_session(SqliteStore(path), "bowl")
    session.change_budget(replace(session.experiment.sla, max_runs=runs))


def test_the_budget_changes_while_a_sweep_runs_elsewhere(path: Path) -> None:
    session = opened(SqliteStore(path))

    def on_change(one: Run) -> None:
        if one.id == 4 and one.ended_s is not None:
            change_budget(path, 13)
        if one.id == 6 and one.ended_s is None:
            assert run(["steer", "bowl", "--runs", "15"]) == 0

    reason = Follower(initial=3, batch=2).steer(session, SerialExecutor(Bowl()), on_change)
    assert reason == "the budget of 15 runs is used up"
    again = load_session(SqliteStore(path), "bowl").experiment
    assert len(again.runs) == 15
    assert all(one.outcome is not None for one in again.runs)
    assert sum(isinstance(e, BudgetChanged) for e in SqliteStore(path).load("bowl")) == 2


@pytest.mark.parametrize("before", [RunStarted, BatchSuggested])
def test_whoever_is_a_moment_later_goes_on_all_the_same(path: Path, before: type) -> None:
    """In between looking at the journal and storing, as long as a suggestion takes."""
    store = Interrupted(path)
    session = opened(store)
    session.submit(session.initial_evaluation(3))
    session.run_queued(SerialExecutor(Bowl()))
    store.meanwhile, store.before = lambda: change_budget(path, 12), before
    reason = Follower(initial=3, batch=2).steer(session, SerialExecutor(Bowl()))
    assert store.before is None
    assert reason == "the budget of 12 runs is used up"


def test_steer_is_stored_behind_the_runs_that_ended_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(SqliteStore(path))
    session.submit(session.initial_evaluation(3))

    class Late(Interrupted):
        def __init__(self, path: Path, _key: object) -> None:
            super().__init__(path)
            self.before = BudgetChanged
            self.meanwhile = lambda: session.run_queued(SerialExecutor(Bowl()))

    monkeypatch.setattr("assistant.service.store_connection.LockedStore", Late)
    assert run(["steer", "bowl", "--runs", "20"]) == 0
    session.catch_up()
    assert session.experiment.sla.max_runs == 20
    assert all(one.outcome is not None for one in session.experiment.runs)
