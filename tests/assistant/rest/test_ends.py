"""The limit of a run and its early stop, whatever the program does."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from assistant.applications import rest_client
from assistant.core.errors import RunError, RunStoppedError
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionRequest, Executor
from assistant.executors import make_executor
from sim.api import format_duration
from tests.assistant.adapter import PATIENCE_S, Heard, Reply, program
from tests.assistant.rest.asked import (
    DONE,
    VALUES,
    Watching,
    failure,
    following,
    rest,
    running,
)

SLOW: dict[str, Reply | None] = {
    "says nothing": None,
    "headers byte by byte": Reply(raw=b"HTTP/1.1 200 OK\r\n", drip=b"X: y\r\n"),
    "the answer byte by byte": Reply(
        raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", drip=b" "
    ),
}


@pytest.mark.parametrize("reply", SLOW.values(), ids=SLOW)
def test_the_limit_holds_however_slowly_it_answers(reply: Reply | None) -> None:
    with program(lambda heard: reply) as there:
        limit_s = 0.3
        started_s = time.monotonic()
        while (words := failure(rest(there, limit_s=limit_s))) and not there.heard:
            limit_s, started_s = 10 * limit_s, time.monotonic()  # it had no time to ask
        assert limit_s <= time.monotonic() - started_s < PATIENCE_S
        assert there.gone.wait(PATIENCE_S)
    limit = format_duration(limit_s)
    assert words == f"stopped at the limit of {limit}; its connection was closed"


def test_a_run_that_goes_on_is_ended_at_the_limit() -> None:
    with program(following(running())) as there:
        limit_s = 0.3
        while "connection was closed" in (words := failure(rest(there, limit_s=limit_s))):
            limit_s *= 10  # it had no time to learn where the run is
    limit = format_duration(limit_s)
    assert words == f"stopped at the limit of {limit}; the program was informed"
    assert there.methods()[-1] == "DELETE"
    assert there.heard[-1].path == "/runs/1"


def test_the_tighter_limit_holds() -> None:
    with program(lambda heard: None) as there:
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=60.0).evaluate_within(VALUES, 0, 0.2)
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=0.2).evaluate_within(VALUES, 0, 60.0)
        with pytest.raises(RunError, match=r"limit of 0\.2 s"):
            rest(there, limit_s=None).evaluate_watched(VALUES, 0, 0.2, Watching())


ENDS: dict[str, tuple[Reply, str]] = {
    "takes it": (Reply(b"", 204), "stopped early; the program was informed"),
    "was there before": (Reply({}, 404), "stopped early; the program was informed"),
    "does not know how": (Reply({"error": "no"}, 405), "did not end it (405; message: no)"),
    "breaks off": (Reply(raw=b""), "the program could not be informed"),
}


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS)
def test_an_early_stop_is_told_to_the_program(end: Reply, words: str) -> None:
    watching = Watching(after_reports=2)
    answer = following(running(cost=4), end=end)
    with program(answer) as there, pytest.raises(RunStoppedError) as caught:
        rest(there).evaluate_watched(VALUES, 7, None, watching)
    assert words in str(caught.value)
    assert watching.reports == [{"cost": 4.0}, {"cost": 4.0}]
    assert "DELETE" in there.methods()


def test_an_early_stop_does_not_wait_for_an_answer() -> None:
    with program(lambda heard: None) as there:
        with pytest.raises(RunStoppedError, match="its connection was closed"):
            rest(there).evaluate_watched(VALUES, 7, None, Watching(after_looks=2))
        assert there.gone.wait(PATIENCE_S)


def test_an_end_that_is_not_answered_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "END_S", 0.2)
    go_on = following(running())

    def silent(heard: Heard) -> Reply | None:
        return None if heard.method == "DELETE" else go_on(heard)

    with program(silent) as there, pytest.raises(RunStoppedError, match="it does not answer"):
        rest(there).evaluate_watched(VALUES, 7, None, Watching(after_reports=1))


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_executor_tells_what_is_measured_so_far_and_ends_the_run(workers: int) -> None:
    heard: SimpleQueue[tuple[int, Mapping[str, Measure]]] = SimpleQueue()

    def look_and_stop(executor: Executor) -> tuple[int, Mapping[str, Measure]]:
        first = heard.get(timeout=PATIENCE_S)
        executor.stop(first[0])
        return first

    with (
        program(following(running(cost=4))) as there,
        make_executor(rest(there, limit_s=60.0), workers) as executor,
        ThreadPoolExecutor(1) as other,
    ):
        executor.listen(lambda run_id, measures: heard.put((run_id, measures)))
        looking = other.submit(look_and_stop, executor)
        executor.submit(ExecutionRequest(5, VALUES, 7))
        (completion,) = executor.collect()
        assert looking.result() == (5, {"cost": 4.0})
    assert completion.stopped
    assert completion.failure == "stopped early; the program was informed"
    assert there.methods()[-1] == "DELETE"


def test_what_interrupts_copperline_ends_the_run() -> None:
    def interrupt(looks: int) -> None:
        if looks > 1 and "GET" in there.methods():
            raise KeyboardInterrupt

    with program(following(running())) as there:
        with pytest.raises(KeyboardInterrupt):
            rest(there).evaluate_watched(VALUES, 7, None, Watching(meanwhile=interrupt))
        there.wait_for("DELETE")


def test_it_is_asked_from_within_a_loop_of_events_too() -> None:
    async def notebook() -> Mapping[str, Measure]:
        return rest(there).evaluate(VALUES, 7)

    with program(lambda heard: DONE) as there:
        assert asyncio.run(notebook())["cost"] == 3.5
