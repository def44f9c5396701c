"""What the browser says of an experiment whose program asks for its runs itself."""

import pytest

from assistant.client.remote_session import ExecutionStatus
from assistant.core.sla import Sla
from assistant.session.opening import open_session
from assistant.store.event_store import MemoryStore
from assistant.ui.state import ExperimentSnapshot
from assistant.ui.status_bar import idle_words, state_words
from tests.assistant.examples import Bowl

ASKING = "an external client takes the runs, "


@pytest.mark.parametrize(
    ("last_call_s", "words"),
    [(None, "no call yet"), (0.2, "last call less than a second ago"),
     (312.0, "last call about 5 min 12 s ago")],
)  # fmt: skip
def test_it_says_when_the_program_was_heard_and_names_no_worker(
    last_call_s: float | None, words: str
) -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(10))
    session.submit(session.suggest(2))
    asking = ExecutionStatus(active=True, executes=True, external=True, last_call_s=last_call_s)
    told = state_words(ExperimentSnapshot(session.experiment, asking))
    assert told.endswith(f"Running; {ASKING}{words}")
    assert f"{ASKING}{words}" in idle_words(asking)
    others = ExecutionStatus(active=True, executes=False)
    assert "copperline work" in state_words(ExperimentSnapshot(session.experiment, others))
    assert "start the experiment" in idle_words(others)
    session.finish("enough")
    assert ASKING not in state_words(ExperimentSnapshot(session.experiment, asking))
