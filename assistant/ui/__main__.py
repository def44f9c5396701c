"""Run Streamlit, with scikit-learn imported in a thread, because the first forecast needs it.

Usage: ``python -m assistant.ui run streamlit_app.py``.
"""

from importlib import import_module
from threading import Thread

from streamlit.web.cli import main

if __name__ == "__main__":
    Thread(target=import_module, args=("sklearn.cluster",), daemon=True).start()
    main(prog_name="streamlit")
