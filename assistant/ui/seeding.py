"""First values of fields, which the browser is sure to hear of.

A run of the script that is interrupted by the next one takes with it what it had not sent yet. A
field whose first value went so would be shown empty, and the browser would then say that it *is*
empty. So first values are told again in every run until one has come to its end.
"""

import streamlit as st

_UNHEARD = "seeding-unheard"


def seed(key: str, value: object) -> None:
    """Fill a field in before it is drawn for the first time."""
    unheard: set[str] = st.session_state.setdefault(_UNHEARD, set())
    if key not in st.session_state:
        st.session_state[key] = value
        unheard.add(key)
    elif key in unheard:
        st.session_state[key] = st.session_state[key]


def heard() -> None:
    """Note that a run of the script has come to its end: all that it drew is sent."""
    st.session_state.setdefault(_UNHEARD, set()).clear()
