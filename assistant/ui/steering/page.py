"""Steering: everything that is agreed and how it chooses, to look up and to change."""

import streamlit as st

from assistant import Experiment
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent
from assistant.ui.steering import controls


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants changed."""
    intent = None
    names = list(controls.SECTIONS)
    for tab, draw in zip(st.tabs(names), controls.SECTIONS.values(), strict=True):
        with tab, st.container(width=720):
            intent = draw(desk, experiment) or intent
    return intent
