"""Run Streamlit with every page imported beforehand, so that the first visitor need not wait.

Usage: ``python -m assistant.ui run streamlit_app.py``. What only a forecast needs is imported in a
thread, while the browser fetches the page.
"""

from importlib import import_module
from threading import Thread

from streamlit.web.cli import main

from assistant.ui.app import import_pages

if __name__ == "__main__":
    import_pages()
    Thread(target=import_module, args=("sklearn.cluster",), daemon=True).start()
    main(prog_name="streamlit")
