"""What the browser says of an experiment whose program asks for its runs itself."""

import pytest

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.core.sla import Sla
from assistant.session.opening import open_session
from assistant.store.event_store import MemoryStore
from assistant.ui.state import ExperimentSnapshot
from assistant.ui.status_bar import numbers, state_words
from tests.assistant.examples import Bowl

ASKING = "An external client takes the runs, "


@pytest.mark.parametrize(
    ("last_call_s", "state", "words"),
    [(None, "Waiting for workers", "no call yet"),
     (0.2, "Running", "last call less than a second ago"),
     (312.0, "Waiting for workers", "last call about 5 min 12 s ago")],
)  # fmt: skip
def test_it_says_when_the_program_was_heard_and_names_no_worker(
    last_call_s: float | None, state: str, words: str
) -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(10))
    session.submit(session.suggest(2))
    asking = ExecutionStatus(active=True, executes=True, external=True, last_call_s=last_call_s)
    told = state_words(ExperimentSnapshot(session.experiment, asking))
    assert f" {state}: " in told
    assert told.endswith(f"{ASKING}{words}.")
    others = ExecutionStatus(active=True, executes=False)
    assert "copperline work" in state_words(ExperimentSnapshot(session.experiment, others))
    session.finish("enough")
    assert ASKING not in state_words(ExperimentSnapshot(session.experiment, asking))


def test_runs_that_are_held_do_not_wait() -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(10))
    first, *_ = session.submit(session.suggest(3))
    session.hold(first.id)
    assert "0 running, 2 waiting, 1 held" in numbers(session.experiment)
