"""The browser UI: an ASGI app behind the access control, and the script that draws a page.

Open it with ``copperline app`` or ``make app``; ``streamlit run streamlit_app.py -- STORE`` serves
it behind the same access control. Everything drawn is in assistant.ui.
"""

import os
import sys
from pathlib import Path

import streamlit as st

from assistant.ui.app import run_app
from assistant.ui.web_server import access_policy, lifespan, middleware

_named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("COPPERLINE_STORE")
_store = Path(_named) if _named else Path("copperline-out") / "experiments.db"

if __name__ == "__main__":  # Streamlit draws a page
    st.set_page_config(page_title="Copperline", page_icon="🟠", layout="wide")
    run_app(_store)
else:  # the web server asks for the app
    _policy = access_policy()
    app = st.App(__file__, middleware=middleware(_policy), lifespan=lifespan(_policy, _store))
