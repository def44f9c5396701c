"""What the browser says of an experiment whose program asks for its runs itself."""

import pytest

from assistant.client import Execution
from assistant.opening import open_session
from assistant.sla import Sla
from assistant.store import MemoryStore
from assistant.ui.bar import state_words, still_words
from assistant.ui.desk import Seen
from tests.assistant.examples import Bowl

ASKING = "its program asks for runs itself, "


@pytest.mark.parametrize(
    ("heard_s", "words"),
    [(None, "not heard of yet"), (0.2, "last heard less than a second ago"),
     (312.0, "last heard about 5 min 12 s ago")],
)  # fmt: skip
def test_it_says_when_the_program_was_heard_and_names_no_worker(
    heard_s: float | None, words: str
) -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(10))
    session.submit(session.suggest(2))
    asking = Execution(active=True, executes=True, by_program=True, heard_s=heard_s)
    told = state_words(Seen(session.experiment, asking))
    assert told.endswith(f"Running; {ASKING}{words}")
    assert f"{ASKING}{words}" in still_words(asking)
    others = Execution(active=True, executes=False)
    assert "copperline work" in state_words(Seen(session.experiment, others))
    assert "start the experiment" in still_words(others)
    session.finish("enough")
    assert ASKING not in state_words(Seen(session.experiment, asking))
