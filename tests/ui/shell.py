"""A page by itself that needs no experiment, with the intents carried out as the frame does it."""

from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from assistant.ui.intents import Intent
from tests.ui.screens import sound


def shown(draw: Callable[..., Intent | None], *args: Any, form: Any = None) -> AppTest:
    """Return the page, drawn once.

    ``went`` in its state is where the last intent would have led. ``form`` is filled in first.
    """

    def script(draw, args, form):  # type: ignore[no-untyped-def]  # its source runs by itself
        import streamlit as st

        from assistant.ui.intents import perform
        from assistant.ui.pages import new_fields
        from assistant.ui.state import mark_rendered

        if form is not None and "filled" not in st.session_state:
            new_fields.begin(form)
        st.session_state["filled"] = True
        intent = draw(*args)
        if intent is not None:
            done = perform(intent)
            st.session_state["went"] = intent.then if done else ""
            st.rerun()
        mark_rendered()

    page = AppTest.from_function(script, args=(draw, args, form), default_timeout=300)
    return sound(page.run())
