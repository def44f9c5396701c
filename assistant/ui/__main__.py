"""Run Streamlit with the pages imported: ``python -m assistant.ui run streamlit_app.py``.

Streamlit would import the pages only when the first browser connects. What only a forecast needs
is imported in a second thread.
"""

from importlib import import_module
from threading import Thread

from streamlit.web.cli import main

if __name__ == "__main__":
    Thread(target=import_module, args=("sklearn.cluster",), daemon=True).start()
    main(prog_name="streamlit")
