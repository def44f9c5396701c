"""A page by itself under Streamlit's own tester, over a real session in memory."""

from collections.abc import Callable
from dataclasses import dataclass

from streamlit.testing.v1 import AppTest

from assistant import Experiment, Session
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, perform


@dataclass(frozen=True)
class Seat:
    """A desk in memory: what is decided here happens in the session at once."""

    session: Session

    @property
    def experiment(self) -> Experiment:
        return self.session.experiment


Draw = Callable[[Desk, Experiment], Intent | None]


def staged(draw: Draw, session: Session, seconds: float = 60) -> AppTest:
    """Return the page, drawn once; interact with it and run it again."""

    def script(draw: Draw, seat: Seat) -> None:
        import streamlit as st

        intent = draw(seat, seat.experiment)
        if intent is not None:
            perform(intent)
            st.rerun()

    page = AppTest.from_function(script, args=(draw, Seat(session)), default_timeout=seconds)
    page.run()
    assert not page.exception, [e.value for e in page.exception]
    return page


__all__ = ["Intent", "Seat", "perform", "staged"]
