"""A journal that ends with an open warning by the forecast."""

from assistant import Sla, open_session
from assistant.core.events import Event
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Hills, TickingClock


def journal_with_a_warning() -> tuple[Event, ...]:
    """Return the journal of a sweep towards a goal that nothing reaches."""
    session = open_session(
        Hills(), store=MemoryStore(), sla=Sla(50, goal=-20.0), clock=TickingClock(),
        strategy="copper", experiment_id="hills",
    )  # fmt: skip
    session.submit(session.initial_evaluation(12))
    while session.experiment.open_warning is None:
        session.run_queued(SerialExecutor(Hills()))
        batch = session.suggest(4)
        if session.experiment.open_warning is None:
            session.submit(batch)
    return session.events()
