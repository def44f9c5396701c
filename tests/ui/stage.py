"""A page by itself under Streamlit's own tester, over a real session in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamlit.testing.v1 import AppTest

from assistant import Experiment, Forecast
from assistant.client import Execution
from assistant.ui.desk import Desk, Seen, Steered
from assistant.ui.intents import Intent, perform


@dataclass(frozen=True)
class Seat:
    """A desk in memory: what is decided here happens in the session at once."""

    session: Steered

    @property
    def experiment(self) -> Experiment:
        return self.session.experiment

    @property
    def seen(self) -> Seen:
        return Seen(self.session.experiment, Execution(active=False, executes=True))

    def forecast(self) -> Forecast:
        return self.session.forecast()

    def refresh(self, *, now: bool = False) -> Seen:
        del now
        return self.seen


Draw = Callable[[Desk, Experiment], Intent | None]


def staged(
    draw: Draw,
    session: Steered,
    seconds: float = 60,
    address: Mapping[str, list[str]] | None = None,
) -> AppTest:
    """Return the page, drawn once; interact with it and run it again.

    ``address`` is what stands in the address behind the question mark, by name.
    """

    # The tester runs the source of this function elsewhere: it knows no name of this module.
    def script(draw, seat) -> None:  # type: ignore[no-untyped-def]
        import streamlit as st

        from assistant.ui.intents import perform
        from assistant.ui.seeding import heard

        intent = draw(seat, seat.experiment)
        if intent is not None:
            perform(intent)
            st.rerun()
        heard()

    page = AppTest.from_function(script, args=(draw, Seat(session)), default_timeout=seconds)
    page.query_params.update(address or {})
    page.run()
    assert not page.exception, [e.value for e in page.exception]
    return page


__all__ = ["Intent", "Seat", "perform", "staged"]
