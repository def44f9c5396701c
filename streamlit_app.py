"""The browser UI: page configuration and dispatch. Everything drawn is in assistant.ui.

Open it with ``copperline app`` or ``make app``; the argument after ``--`` is the store.
"""

import os
import sys
from pathlib import Path

import streamlit as st

from assistant.ui import app

st.set_page_config(page_title="Copperline", page_icon="🟠", layout="wide")

_named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("COPPERLINE_STORE")
app.run_app(Path(_named) if _named else Path("copperline-out") / "experiments.db")
