"""Experiments that steer themselves in a service do what an agent would; hooks are told."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents import Follower
from assistant import RunState, Sla, WarningPolicy, load_session, open_session
from assistant.client.remote_session import RemoteSession
from assistant.client.worker import HttpLeaseSource
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ExperimentError
from assistant.core.events import AutoSteeringChanged
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.service.store_connection import api_client_of, open_store
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import MemoryStore, SqliteStore
from tests.service.housed import housed


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "bowl.csv"
    cells = [(x, y) for x in range(12) for y in range(12)]
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + (y - 4) ** 2}\n" for x, y in cells)
    path.write_text(f"x,y,objective\n{rows}")
    return path


def tables(table: Path, **more: Any) -> dict[str, Any]:
    return {"runs": 24, "seed": 3, "application": {"kind": "lookup", "table": str(table)}, **more}


def opened(store: Path, said: dict[str, Any]) -> RemoteSession:
    built = build_sweep(check_settings(said, "the test"))
    session = open_sweep(
        built, open_store(store, take_key=False), "test", config_snapshot(said, ())
    )
    endpoint = find_endpoint(store)
    assert endpoint is not None
    return RemoteSession(api_client_of(store, endpoint), session.id)


def until(session: RemoteSession, holds: Callable[[], bool], seconds: float = 240) -> None:
    by_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < by_s, session.events()[-5:]
        time.sleep(0.02)
        session.catch_up()


def told(session: Any) -> list[Any]:
    """Everything that was decided, and what came of the runs."""
    experiment = session.experiment
    runs = [
        (r.configuration, r.source, r.seed, r.reason, r.batch, r.outcome) for r in experiment.runs
    ]
    return [runs, experiment.batches, experiment.warnings]


@pytest.mark.parametrize("answer", ["accept", "ignore"])
def test_a_service_steers_as_an_agent_does(tmp_path: Path, table: Path, answer: Any) -> None:
    store, said = tmp_path / "store.db", tables(table)
    with housed(store):
        session = opened(store, said)
        session.set_auto_steering(AutoSteering(4, 6, answer), "a test")
        session.start()
        until(session, lambda: session.experiment.auto_steering is None)
        event_log = SqliteStore(store).load(session.id)
    built = build_sweep(check_settings(said, "the test"))
    reference = open_sweep(built, MemoryStore(), "test", config_snapshot(said, ()))
    ended = Follower(6, 4, warnings=answer).steer(reference, SerialExecutor(built.application))
    mine, its = told(session), told(reference)
    assert mine[0] == its[0]
    assert [b.suggestions for b in mine[1]] == [b.suggestions for b in its[1]]
    handed = [event for event in event_log if isinstance(event, AutoSteeringChanged)]
    assert [event.reason for event in handed] == ["a test", ended]
    assert [event.auto_steering for event in handed] == [AutoSteering(4, 6, answer), None]


def test_nothing_happens_until_it_is_started(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store) as service:
        session = opened(store, tables(table))
        session.set_auto_steering(AutoSteering(4, 6))
        assert not service.queue.active()
        assert session.experiment.runs == ()


@pytest.mark.slow
def test_a_worker_until_idle_stays_between_two_batches(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store, works=False):
        session = opened(store, tables(table, runs=7))
        endpoint = find_endpoint(store)
        assert endpoint is not None
        leases = HttpLeaseSource(api_client_of(store, endpoint))
        session.set_auto_steering(AutoSteering(2, 2, "ignore"))
        assert not leases.expects_runs()  # nobody has started it
        session.start()
        assert leases.expects_runs()
        leases.leave_out(session.id)  # as after a refusal
        assert not leases.expects_runs()
        work = [sys.executable, "-m", "assistant.cli", "work", "--until-idle"]
        work += ["--store", str(store)]
        done = subprocess.run(work, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert "7 results sent" in done.stdout


def test_a_person_who_decides_again_ends_it(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, tables(table, runs=144))
        session.set_auto_steering(AutoSteering(1, 1, "ignore"))
        session.start()
        until(session, lambda: len(session.experiment.runs_in(RunState.COMPLETED)) >= 3)
        session.set_auto_steering(None, "enough of that")
        n = len(session.experiment.runs)
        until(session, lambda: not session.experiment.runs_in(RunState.QUEUED, RunState.RUNNING))
        untried = {(x, y) for x in range(12) for y in range(12)} - {
            tuple(session.experiment.space.values(run.configuration).values())
            for run in session.experiment.runs
        }
        x, y = sorted(untried)[0]
        session.include({"x": x, "y": y})  # it still executes what a person wants
        until(session, lambda: not session.experiment.runs_in(RunState.QUEUED, RunState.RUNNING))
        assert len(session.experiment.runs) <= n + 2


def test_it_waits_for_the_answer_to_a_warning(tmp_path: Path) -> None:
    store, small = tmp_path / "store.db", tmp_path / "small.csv"
    cells = [(x, y) for x in (1, 2, 3, 4) for y in (1, 2, 3, 4)]
    rows = "".join(f"{x},{y},{(4 - x) ** 2 + (4 - y) ** 2 + 1}\n" for x, y in cells)
    small.write_text(f"x,y,objective\n{rows}")
    with housed(store):
        session = opened(store, tables(small, runs=7))
        session.change_warning_policy(WarningPolicy(rule="paper"))
        for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
            session.include({"x": x, "y": y})
        session.start()
        until(session, lambda: len(session.experiment.runs_in(RunState.COMPLETED)) == 4)
        session.set_auto_steering(AutoSteering(3, 1, "wait"))
        until(session, lambda: session.experiment.open_warning is not None)
        n = session.experiment.n_events
        time.sleep(0.3)  # some turns of the helm
        session.catch_up()
        assert session.experiment.n_events == n
        session.answer_warning("ignored")
        until(session, lambda: len(session.experiment.runs_in(RunState.COMPLETED)) == 7)


def test_a_passed_deadline_gives_it_back(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, tables(table))
        session.set_auto_steering(AutoSteering(3, 4))
        session.change_budget(Sla(10, time.time() - 1))
        session.start()
        until(session, lambda: session.experiment.auto_steering is None)
        assert session.experiment.auto_steering_change is not None
        assert "deadline has passed" in session.experiment.auto_steering_change.reason
        assert not session.execution().active
        assert not session.experiment.runs_in(RunState.COMPLETED)


def test_without_a_limit_it_is_not_handed_over(table: Path) -> None:
    built = build_sweep(check_settings(tables(table), "the test"))
    session = open_session(built.application, store=MemoryStore(), sla=Sla())
    with pytest.raises(ExperimentError, match="would not end by itself"):
        session.set_auto_steering(AutoSteering())
    session.set_auto_steering(None)
    assert session.experiment.n_events == 1, "giving back what was not given is nothing"


KEEP = "import sys; open({!r}, 'a').write(sys.stdin.read())"


def hooked(folder: Path, table: Path, code: str) -> dict[str, Any]:
    hook = [sys.executable, "-S", "-c", code.format(str(folder / "told.jsonl"))]
    hooks = {"on_warning": hook, "on_finish": hook, "on_failure": hook}
    return tables(table, runs=7, hooks=hooks)


def test_hooks_are_told_of_what_is_started_here(tmp_path: Path, table: Path) -> None:
    store, path = tmp_path / "store.db", tmp_path / "told.jsonl"
    path.touch()

    def objects() -> list[Any]:
        whole = path.read_text().rpartition("\n")[0]  # a hook may be writing
        return [json.loads(line) for line in whole.splitlines()]

    def finishes() -> list[Any]:
        return [told["finish"] for told in objects() if told["finish"]]

    with housed(store):
        session = opened(store, hooked(tmp_path, table, KEEP))
        session.set_auto_steering(AutoSteering(3, 3, "ignore"))
        session.start()
        until(session, lambda: len(finishes()) == 1)
        session.finish("enough")
    assert [(one["reason"], one["finished"]) for one in finishes()] == [
        ("the budget of 7 runs is used up", False),
        ("enough", True),
    ]
    given = [warning.number for warning in session.experiment.warnings]
    assert [t["warning"]["number"] for t in objects() if t["kind"] == "warning"] == given


def test_no_hook_is_told_before_it_is_started(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, hooked(tmp_path, table, KEEP))
        session.finish("enough")
    assert not (tmp_path / "told.jsonl").exists()


def test_where_nothing_is_executed_hooks_are_not_started_and_that_is_noted(
    tmp_path: Path, table: Path
) -> None:
    store = tmp_path / "store.db"
    with housed(store, executes=False):
        session = opened(store, hooked(tmp_path, table, KEEP))
        session.set_auto_steering(AutoSteering(3, 3, "ignore"))
        session.start()
        until(session, lambda: session.experiment.auto_steering is None)
        assert session.execution().notes == ("this service does not start its hooks",)
    assert not (tmp_path / "told.jsonl").exists()


def test_a_failing_hook_is_noted_once(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, hooked(tmp_path, table, "import sys; sys.exit('no mail today')"))
        session.start()
        session.set_auto_steering(AutoSteering(3, 3, "ignore"))
        until(session, lambda: session.experiment.auto_steering is None)
        until(session, lambda: bool(session.execution().notes))
        (note,) = session.execution().notes
        assert note.startswith("the hook on_finish failed: the program ended with exit code 1")


def test_it_goes_on_after_a_restart(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, tables(table))
        session.set_auto_steering(AutoSteering(2, 4, "ignore"))
        session.start()
        until(session, lambda: len(session.experiment.runs_in(RunState.COMPLETED)) >= 5)
    with housed(store):
        endpoint = find_endpoint(store)
        assert endpoint is not None
        again = RemoteSession(api_client_of(store, endpoint), session.id)
        until(again, lambda: again.experiment.auto_steering is None)
    ended = load_session(SqliteStore(store), session.id).experiment
    assert len(ended.runs_in(RunState.COMPLETED)) == 24


def test_a_broken_program_ends_it_and_after_the_repair_it_goes_on(tmp_path: Path) -> None:
    said = {
        "runs": 8,
        "application": {
            "kind": "command", "command": ["sh", "tran.sh", "{x}"], "cwd": str(tmp_path),
        },
        "parameters": [{"name": "x", "levels": list(range(9))}],
        "objective": {"minimise": "height"},
    }  # fmt: skip
    store = tmp_path / "store.db"
    with housed(store):
        session = opened(store, said)
        session.set_auto_steering(AutoSteering(4, 6))
        session.start()
        until(session, lambda: session.experiment.finished is not None)
        reason = session.experiment.finished.reason  # type: ignore[union-attr]
        assert reason.startswith("the first 3 runs failed alike")
        until(session, lambda: not session.experiment.runs_in(RunState.RUNNING))
        n_failed = len(session.experiment.runs_in(RunState.FAILED))
        assert 3 <= n_failed <= 6
        (tmp_path / "tran.sh").write_text("""echo '{"height": '$1'}'""")
        session.reopen()
        until(session, lambda: len(session.experiment.runs_in(RunState.COMPLETED)) == 8 - n_failed)
        until(session, lambda: session.experiment.auto_steering is None)
        assert len(session.experiment.runs_in(RunState.FAILED)) == n_failed
