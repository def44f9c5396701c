"""The runner without a screen: what it executes, when it halts, what it says of a failure."""

import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from assistant import AssistantError, RunState, Sla, load_session
from assistant.objective import Measure
from assistant.store import SqliteStore
from assistant.ui.opening import Form, Opened, open_from
from assistant.ui.runner import Runner, RunnerState
from strategies import Level
from tests.ui.screens import until


@pytest.fixture
def opened(store: Path, table: Path) -> Opened:
    return open_from(Form("table", str(table), runs=10), store)


class Slow:
    """A table that takes its time."""

    def __init__(self, opened: Opened) -> None:
        self._inner = opened.application
        self.may_end = threading.Event()

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        self.may_end.wait(30)
        return self._inner.evaluate(values, seed)


def test_it_only_looks_until_it_is_started(store: Path, opened: Opened) -> None:
    runner = Runner(store, opened.session.id)
    assert runner.state is RunnerState.VIEWING
    runner.session.submit(runner.session.initial_evaluation(2))
    runner.wake()
    assert not runner.is_busy
    runner.start()
    until(lambda: not runner.is_busy)
    assert runner.state is RunnerState.IDLE
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 2


def test_pausing_ends_what_is_under_way_and_starts_nothing_more(
    store: Path, opened: Opened
) -> None:
    runner = Runner(store, opened.session.id)
    slow = Slow(opened)
    runner.session.submit(runner.session.initial_evaluation(3))
    runner.start(slow)  # type: ignore[arg-type]
    until(lambda: bool(runner.experiment.runs_in(RunState.RUNNING)))
    runner.pause()
    assert runner.is_pausing
    slow.may_end.set()
    until(lambda: not runner.is_busy)
    assert runner.state is RunnerState.PAUSED
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 1
    runner.start()
    until(lambda: not runner.is_busy)
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 3


def test_an_error_of_the_thread_is_kept_as_a_sentence(
    store: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(store, opened.session.id)
    runner.start()
    until(lambda: not runner.is_busy)

    def broken(*_: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(runner._store, "append", broken)
    monkeypatch.setattr(runner.session, "run_queued", broken)
    monkeypatch.setattr(runner.session, "run_queued", lambda *a, **k: broken())
    runner.wake()
    until(lambda: not runner.is_busy)
    assert runner.error == "Something in Copperline went wrong (RuntimeError: disk on fire)."
    assert runner.state is RunnerState.PAUSED


def test_a_passed_deadline_halts_it_and_is_said(store: Path, opened: Opened) -> None:
    runner = Runner(store, opened.session.id)
    runner.session.submit(runner.session.initial_evaluation(2))
    runner.session.change_budget(Sla(10, time.time() - 1))
    runner.start()
    until(lambda: not runner.is_busy)
    assert "deadline has passed" in runner.note
    assert not runner.experiment.runs_in(RunState.COMPLETED)


def test_automatic_steering_waits_for_the_answer_to_a_warning(store: Path, table: Path) -> None:
    opened = open_from(Form("table", str(table), runs=7), store)
    runner = Runner(store, opened.session.id)
    for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
        runner.session.include({"x": x, "y": y})
    runner.start(opened.application)
    until(lambda: not runner.is_busy)
    runner.session.submit(runner.session.initial_evaluation(1))
    runner.steer_by_itself(3)
    until(lambda: not runner.is_busy)
    assert runner.experiment.open_advice is not None
    assert "waits for your answer" in runner.note
    runner.session.answer_advice("accepted")
    runner.steer_by_itself(4, "ignore")
    until(lambda: not runner.is_busy)
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 7


def test_an_experiment_opened_from_python_can_be_looked_at_only(
    store: Path, opened: Opened
) -> None:
    from assistant import open_session

    session = open_session(opened.application, store=SqliteStore(store))
    runner = Runner(store, session.id)
    with pytest.raises(AssistantError, match="from Python"):
        runner.start()
    assert runner.state is RunnerState.VIEWING


def test_many_threads_may_decide_while_it_executes(store: Path, opened: Opened) -> None:
    runner = Runner(store, opened.session.id)
    runner.start(opened.application)
    refused: list[str] = []

    def include(x: int) -> None:
        for y in (1, 2, 3, 4):
            try:
                runner.session.include({"x": x, "y": y})
            except AssistantError as error:
                refused.append(str(error))
            runner.wake()

    threads = [threading.Thread(target=include, args=(x,)) for x in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: not runner.is_busy)
    assert len(refused) == 2
    assert all("budget" in sentence for sentence in refused)
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 10
    assert runner.error is None


def with_hooks(store: Path, table: Path, code: str) -> Opened:
    """Open a sweep file beside the table whose hooks run this Python code."""
    hook = json.dumps([sys.executable, "-S", "-c", code])
    text = f"runs = 7\n[application]\ntable = 'measured.csv'\n[hooks]\non_warning = {hook}\n"
    path = table.with_name("sweep.toml")
    path.write_text(text + f"on_finish = {hook}\non_failure = {hook}\n")
    return open_from(Form("file", str(path)), store)


KEEP = "import sys; open('told.jsonl', 'a').write(sys.stdin.read())"


def test_hooks_are_told_of_the_end_of_automatic_steering_and_of_the_finish(
    store: Path, table: Path
) -> None:
    opened = with_hooks(store, table, KEEP)
    runner = Runner(store, opened.session.id)
    runner.start(opened.application)
    runner.steer_by_itself(3, "ignore")
    until(lambda: not runner.is_busy)
    assert "budget of 7 runs is used up" in runner.note
    runner.session.finish("enough")
    runner.close()
    objects = [json.loads(line) for line in table.with_name("told.jsonl").read_text().splitlines()]
    no_goal = {"goal": None, "reached_by": None, "chance": None}
    assert [told["finish"] for told in objects if told["kind"] == "finish"] == [
        {"reason": "the budget of 7 runs is used up", "finished": False, **no_goal},
        {"reason": "enough", "finished": True, **no_goal},
    ]
    given = [advice.number for advice in runner.session.experiment.advice]
    assert [t["warning"]["number"] for t in objects if t["kind"] == "warning"] == given


def test_no_hook_is_told_before_it_is_started(store: Path, table: Path) -> None:
    opened = with_hooks(store, table, KEEP)
    runner = Runner(store, opened.session.id)
    runner.session.finish("enough")
    runner.close()
    assert not table.with_name("told.jsonl").exists()


def test_a_hook_hears_of_a_session_that_another_program_went_on_with(
    store: Path, table: Path
) -> None:
    opened = with_hooks(store, table, KEEP)
    runner = Runner(store, opened.session.id)
    runner.start(opened.application)
    until(lambda: not runner.is_busy)
    load_session(SqliteStore(store), opened.session.id).close_level("x", 1)
    runner.refresh()
    runner.session.finish("enough")
    runner.close()
    (told,) = table.with_name("told.jsonl").read_text().splitlines()
    assert json.loads(told)["finish"]["reason"] == "enough"


def test_a_failing_hook_and_an_error_of_the_thread_are_noted(
    store: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = with_hooks(store, table, KEEP + "; sys.exit('no mail today')")
    runner = Runner(store, opened.session.id)
    runner.start(opened.application)
    until(lambda: not runner.is_busy)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(runner.session, "run_queued", broken)
    runner.wake()
    until(lambda: not runner.is_busy)
    runner.close()
    (sentence,) = runner.hook_notes
    assert sentence.startswith("the hook on_failure failed: the program ended with exit code 1")
    (told,) = table.with_name("told.jsonl").read_text().splitlines()
    assert json.loads(told)["failure"]["of"] == "sweep"
