"""A session is the same in this process and through a service: one suite over both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assistant import Experiment, RunState, Session, Sla, Tariff, WarningPolicy, open_session
from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession, open_remote
from assistant.core.errors import (
    AssistantError,
    ExperimentError,
    SettingsError,
    StoreError,
    VersionConflictError,
)
from assistant.core.events import BatchSuggested, ResultRefused, RunCompleted, WarningAnswered
from assistant.core.ports import Application
from assistant.core.sla import AutoSteering
from assistant.executors import make_executor
from assistant.executors.serial import SerialExecutor
from assistant.service.api_tokens import Role
from assistant.service.app import make_service
from assistant.service.auth import RoleTokens
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.session.opening import earlier_sweep
from assistant.store.event_store import MemoryStore, SqliteStore
from strategies import SpaceError, StrategyError
from tests.assistant.examples import TODAY, Bowl, Climb, Hills

Steered = Session | RemoteSession
Open = Callable[..., Steered]


def local(_folder: Path) -> Iterator[Open]:
    store = MemoryStore()
    yield lambda application, **more: open_session(application, store=store, **more)


def on_disk(folder: Path) -> Iterator[Open]:
    store = SqliteStore(folder / "store.db")
    yield lambda application, **more: open_session(application, store=store, **more)


def remote(folder: Path) -> Iterator[Open]:
    tokens, log = RoleTokens.of_owner(), ServiceLog(level="error")
    service = ExperimentService(SqliteStore(folder / "store.db"), log)
    app = make_service(service, tokens, log)
    with HttpServer(app.asgi, bind(), log, drain=app.context.drain) as server:
        link = ApiClient(server.url, tokens.by_role[Role.OWNER])

        def opened(application: Application, **more: Any) -> RemoteSession:
            return open_remote(link, application, **more)

        yield opened
        link.close()


@pytest.fixture(params=[local, on_disk, remote], ids=["memory", "sqlite", "service"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    yield from request.param(tmp_path)


def executed(session: Steered, application: Application) -> None:
    session.run_queued(SerialExecutor(application))


def told(experiment: Experiment) -> list[object]:
    """Everything that decisions and results left, without times and workers."""
    return [
        (r.id, r.configuration, r.source, r.seed, r.reason, r.batch, r.outcome, r.failure, r.state)
        for r in experiment.runs
    ] + [(b.number, b.suggestions, b.exhausted) for b in experiment.batches]


def story(session: Steered, bowl: Bowl) -> None:
    """A sweep with every kind of decision in it."""
    session.submit_baseline()
    session.submit(session.initial_evaluation(4), keep=[0, 2, 3], edits={0: {"x": 3}})
    session.include({"x": 1, "y": 1, "mode": "odd"}, "because")
    executed(session, bowl)
    session.rate(2, False)
    session.close_level("mode", "odd")
    session.prefer_level("x", 2)
    session.unprefer_level("x", 2)
    session.exclude("x == 0 and y == 2")
    session.plan({"x": [1, 2]})
    session.change_strategy("copper", {"beta": 0.5}, 0.3)
    session.change_budget(Sla(20, goal=1.0, run_limit_s=60.0))
    session.change_warning_policy(WarningPolicy(warn_from=0.5))
    batch = session.suggest(2)
    session.submit(batch)
    session.hold(6)
    session.run_first(7)
    executed(session, bowl)
    session.release(6)
    session.reprioritise(6, 2.5)
    executed(session, bowl)
    session.reopen_level("mode", "odd")
    session.add_level("x", 4)
    session.change_strategy("random", None, None)
    session.submit(session.suggest(2))
    session.cancel(8, "not this one")
    executed(session, bowl)
    session.import_results([({"x": 0, "y": 0, "mode": "plain"}, {"height": 5.0})])
    session.rename("another")
    session.tag(["slow", "old"])
    session.tag(remove=["old"])
    session.finish("enough")
    session.delete()
    session.undelete()


def test_what_is_learnt_from_is_stored_by_value_and_chooses_the_first_runs(opened: Open) -> None:
    bowl = Bowl(baseline=TODAY)
    before = open_session(bowl, store=MemoryStore(), sla=Sla(30), experiment_id="before")
    before.submit(before.initial_evaluation(20))
    executed(before, bowl)
    earlier = earlier_sweep(before.experiment, bowl.objective)
    session = opened(bowl, sla=Sla(12), seed=5, strategy="grasp", earlier=(earlier,))
    (stored,) = session.experiment.opened.earlier
    assert (stored.experiment_id, stored.level_ids, stored.failed) == (
        "before", earlier.level_ids, earlier.failed
    )  # fmt: skip
    assert stored.responses == earlier.responses
    batch = session.initial_evaluation(4)
    assert "the earlier sweep 'before'" in batch.suggestions[0].reason
    session.submit(batch)
    executed(session, bowl)
    session.submit(session.suggest(2))
    executed(session, bowl)
    session.catch_up()
    reference = open_session(
        bowl, store=MemoryStore(), sla=Sla(12), seed=5, strategy="grasp", earlier=(earlier,)
    )
    reference.submit(reference.initial_evaluation(4))
    executed(reference, bowl)
    reference.submit(reference.suggest(2))
    executed(reference, bowl)
    assert told(session.experiment) == told(reference.experiment)


def test_what_cannot_be_learnt_from_is_refused_in_a_sentence(opened: Open) -> None:
    bowl = Bowl(baseline=TODAY)
    before = open_session(bowl, store=MemoryStore(), sla=Sla(30), experiment_id="before")
    with pytest.raises(SettingsError, match="'before': none of its runs has a result with height"):
        earlier_sweep(before.experiment, bowl.objective)
    before.submit(before.initial_evaluation(6))
    executed(before, bowl)
    earlier = earlier_sweep(before.experiment, bowl.objective)
    with pytest.raises(SettingsError, match=r"'copper' cannot learn .* take grasp"):
        opened(bowl, strategy="copper", earlier=(earlier,))
    with pytest.raises(SettingsError, match="'before' is named twice"):
        opened(bowl, strategy="grasp", earlier=(earlier, earlier))
    with pytest.raises(SettingsError, match="shares no parameter"):
        opened(Hills(), strategy="grasp", earlier=(earlier,))


def test_one_story_ends_in_the_same_state_everywhere(opened: Open) -> None:
    bowl = Bowl(baseline=TODAY)
    reference = open_session(bowl, store=MemoryStore(), sla=Sla(12), seed=5)
    story(reference, bowl)
    session = opened(bowl, sla=Sla(12), seed=5)
    story(session, bowl)
    session.catch_up()
    assert told(session.experiment) == told(reference.experiment)
    assert session.experiment.version == reference.experiment.version
    assert session.experiment.finished is not None
    again = Experiment.replay(session.events())
    assert told(again) == told(session.experiment)
    assert again.sla == reference.experiment.sla
    assert again.steering == reference.experiment.steering
    assert again.space == reference.experiment.space


def test_reading_is_the_same(opened: Open) -> None:
    hills = Hills()
    sla = Sla(40, goal=8.0, max_cost=1e9, tariff=Tariff("J", measure="height"))
    session = opened(hills, sla=sla, seed=2, strategy="copper")
    session.submit(session.initial_evaluation(14))
    executed(session, hills)
    session.catch_up()
    seen = session.forecast()
    assert seen.goal is not None
    assert seen.goal.chance is not None
    thought = session.what_if(max_runs=30, strategy="random")
    assert thought.after.goal is not None
    assert session.remaining_runs == 26
    assert session.batch_size == 5
    assert not session.is_exhausted
    assert not session.is_over_limit()
    assert session.passed_limit() is None
    best = session.recommendation()
    assert best is not None
    n = len(session.events())
    assert len(session.events()) == n


REFUSED: tuple[tuple[Callable[[Steered], object], Any], ...] = (
    (lambda s: s.suggest(0), (ExperimentError, AssistantError)),
    (lambda s: s.include({"x": 99, "y": 0, "mode": "plain"}), SpaceError),
    (lambda s: s.include({"x": 1}), StrategyError),
    (lambda s: s.rate(1, True), ExperimentError),
    (lambda s: s.rate(77, True), ExperimentError),
    (lambda s: s.hold(77), ExperimentError),
    (lambda s: s.stop(1), ExperimentError),
    (lambda s: s.stop(77), ExperimentError),
    (lambda s: s.reprioritise(1, 1e9), ExperimentError),
    (lambda s: s.change_strategy("no such"), StrategyError),
    (lambda s: s.change_strategy(None, {"no": 1}), StrategyError),
    (lambda s: s.close_level("z", 1), StrategyError),
    (lambda s: s.exclude("x +"), StrategyError),
    (lambda s: s.answer_warning("accepted"), ExperimentError),
    (lambda s: s.reopen(), ExperimentError),
    (lambda s: s.replicate(77), ExperimentError),
    (lambda s: s.change_warning_policy(WarningPolicy(rule="forecast")), SettingsError),
    (lambda s: s.import_results([({"x": 9}, {})]), StrategyError),
    (lambda s: s.weigh_region(3, 1.0), AssistantError),
)


def test_what_is_refused_is_refused_alike_and_leaves_nothing(opened: Open) -> None:
    bowl = Bowl()
    session = opened(bowl, sla=Sla(12))
    session.submit(session.suggest(1))
    reference = open_session(bowl, store=MemoryStore(), sla=Sla(12))
    reference.submit(reference.suggest(1))
    before = session.events()
    for number, (act, kind) in enumerate(REFUSED):
        with pytest.raises(kind) as refused:
            act(session)
        assert "\n" not in str(refused.value), number
        assert session.events() == before, number
        if kind != (ExperimentError, AssistantError):
            with pytest.raises(kind, match=r".") as there:
                act(reference)
            told_there = str(there.value)
            assert str(refused.value).replace(session.id, reference.id) == told_there, number


def test_a_warning_is_answered(opened: Open) -> None:
    hills = Hills()
    session = opened(hills, sla=Sla(50, goal=-20.0), strategy="copper", seed=3)
    session.submit(session.initial_evaluation(12))
    executed(session, hills)
    for _ in range(20):
        batch = session.suggest(2)
        if session.experiment.open_warning is not None:
            break
        session.submit(batch)
        executed(session, hills)
        session.catch_up()
    assert session.experiment.open_warning is not None
    follows = session.answer_warning("accepted", alternative=0)
    assert session.experiment.open_warning is None
    assert isinstance(session.events()[-1], BatchSuggested | WarningAnswered) or follows is None


def test_listeners_hear_what_happens_and_runs_are_told(opened: Open) -> None:
    bowl = Bowl()
    session = opened(bowl, sla=Sla(3))
    heard: list[str] = []
    session.listen(lambda _experiment, event: heard.append(type(event).__name__))
    session.submit(session.suggest(2))
    seen: list[RunState] = []
    session.run_queued(SerialExecutor(bowl), on_change=lambda run: seen.append(run.state))
    session.catch_up()
    assert heard.count("RunCompleted") == 2
    assert seen.count(RunState.COMPLETED) == 2
    assert sum(isinstance(event, RunCompleted) for event in session.events()) == 2


def test_a_run_that_goes_on_reports_and_is_stopped_alike(opened: Open) -> None:
    climb = Climb()
    session = opened(climb, sla=Sla(9))
    session.include({"x": 3, "y": 0, "mode": "plain"})
    session.include({"x": 3, "y": 0, "mode": "odd"})
    session.include({"x": 2, "y": 0, "mode": "plain"})
    pause = threading.Event()

    def end(run_id: int, keep: bool) -> None:
        until_s = time.monotonic() + 240
        while session.look().run(run_id).reported is None:
            assert time.monotonic() < until_s, "it has reported nothing"
            pause.wait(0.02)
        session.stop(run_id, "seen enough", keep=keep)

    with ThreadPoolExecutor(1) as other:
        ending = other.submit(lambda: (end(1, True), end(2, False)))
        session.run_queued(SerialExecutor(climb))
        ending.result()
    session.catch_up()
    first, second, third = session.experiment.runs
    assert (first.state, first.stopped) == (RunState.COMPLETED, "seen enough")
    assert first.outcome is not None
    assert first.outcome.measures == {"height": 100.0, "unknown": None}
    assert (second.state, second.cancelled) == (RunState.CANCELLED, "seen enough")
    assert third.outcome is not None
    assert third.stopped is None
    assert not any(isinstance(event, ResultRefused) for event in session.events())


def test_nothing_is_started_once_told_to_stop(opened: Open) -> None:
    bowl = Bowl()
    session = opened(bowl, sla=Sla(5))
    session.submit(session.suggest(3))
    session.run_queued(SerialExecutor(bowl), stop=lambda: True)
    session.catch_up()
    assert len(session.experiment.runs_in(RunState.QUEUED)) == 3


def test_an_interrupted_execution_leaves_its_runs_waiting(opened: Open) -> None:
    bowl = Bowl()
    session = opened(bowl, sla=Sla(5))
    session.submit(session.suggest(3))

    def interrupt(_run: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run_queued(SerialExecutor(bowl), on_change=interrupt)
    session.catch_up()
    assert len(session.experiment.runs_in(RunState.QUEUED)) == 3
    executed(session, bowl)
    session.catch_up()
    assert len(session.experiment.runs_in(RunState.COMPLETED)) == 3


def test_a_decision_for_another_version_is_refused_and_own_ones_follow_each_other(
    opened: Open,
) -> None:
    session = opened(Bowl(baseline=TODAY), sla=Sla(12), seed=5)
    session.submit(session.initial_evaluation(3))
    looked = session.look().version
    with session.only_on(looked):
        session.run_first(3)
        session.hold(1)
    with pytest.raises(VersionConflictError, match="load it again"), session.only_on(looked):
        session.cancel(2)
    session.catch_up()
    assert [run.state for run in session.experiment.runs] == [RunState.QUEUED] * 3
    session.cancel(2)  # whoever did not look may decide again


def test_it_is_handed_over_and_given_back(opened: Open) -> None:
    session = opened(Bowl(baseline=TODAY), seed=5)
    with pytest.raises(ExperimentError, match="would not end by itself"):
        session.set_auto_steering(AutoSteering())
    session.change_budget(Sla(12))
    session.set_auto_steering(AutoSteering(4, 2, "accept"), "lunch")
    assert session.look().auto_steering == AutoSteering(4, 2, "accept")
    session.set_auto_steering(None)
    assert session.look().auto_steering is None
    session.finish("enough")
    with pytest.raises(ExperimentError, match="finished"):
        session.set_auto_steering(AutoSteering())


def test_what_was_looked_at_stays_as_it_was(opened: Open) -> None:
    session = opened(Bowl(baseline=TODAY), seed=5)
    looked = session.look()
    session.submit_baseline()
    assert looked.runs == ()
    assert len(session.look().runs) == 1


def test_several_runs_at_once(opened: Open) -> None:
    hills = Hills()
    session = opened(hills, sla=Sla(12), workers=2)
    session.submit(session.initial_evaluation(8))
    with make_executor(hills, 2) as executor:
        session.run_queued(executor)
    session.catch_up()
    assert len(session.experiment.runs_in(RunState.COMPLETED)) == 8


def test_an_unknown_experiment_is_said(tmp_path: Path) -> None:
    for opened in remote(tmp_path):
        session = opened(Bowl(), sla=Sla(2))
        assert isinstance(session, RemoteSession)
        with pytest.raises(StoreError, match="no experiment 'nothing'"):
            RemoteSession(session._link, "nothing")
