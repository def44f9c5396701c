"""A page by itself under Streamlit's own tester, over a real session in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamlit.testing.v1 import AppTest

from assistant import Experiment, Forecast
from assistant.analysis.experiment_state import ExecutionStatus
from assistant.ui.intents import Intent, perform
from assistant.ui.state import ExperimentSnapshot, ExperimentView, SteerableSession


@dataclass(frozen=True)
class Seat:
    """A desk in memory: what is decided here happens in the session at once."""

    session: SteerableSession
    active: bool = False

    @property
    def experiment(self) -> Experiment:
        return self.session.experiment

    @property
    def snapshot(self) -> ExperimentSnapshot:
        return ExperimentSnapshot(
            self.session.experiment, ExecutionStatus(active=self.active, executes=True)
        )

    def forecast(self) -> Forecast:
        return self.session.forecast()

    def refresh(self, *, now: bool = False) -> ExperimentSnapshot:
        del now
        return self.snapshot


Draw = Callable[[ExperimentView, Experiment], Intent | None]


def staged(
    draw: Draw,
    session: SteerableSession,
    seconds: float = 300,
    address: Mapping[str, list[str]] | None = None,
    *,
    active: bool = False,
) -> AppTest:
    """Return the page, drawn once; interact with it and run it again.

    ``active`` says that workers take the runs.
    ``address`` is what stands in the address behind the question mark, by name.
    """

    # The tester runs the source of this function elsewhere: it knows no name of this module.
    def script(draw, seat) -> None:  # type: ignore[no-untyped-def]
        import streamlit as st

        from assistant.ui.intents import perform
        from assistant.ui.state import mark_rendered

        intent = draw(seat, seat.experiment)
        if intent is not None:
            perform(intent)
            st.rerun()
        mark_rendered()

    page = AppTest.from_function(
        script, args=(draw, Seat(session, active)), default_timeout=seconds
    )
    page.query_params.update(address or {})
    page.run()
    assert not page.exception, [e.value for e in page.exception]
    return page


__all__ = ["Intent", "Seat", "perform", "staged"]
