"""``python -m assistant.ui run streamlit_app.py``: Streamlit, with everything imported beforehand.

Streamlit imports the pages when the first person comes; here she need not wait for that. What only
a forecast needs is imported beside, while her browser fetches the page.
"""

from importlib import import_module
from threading import Thread

from streamlit.web.cli import main

if __name__ == "__main__":
    Thread(target=import_module, args=("sklearn.cluster",), daemon=True).start()
    main(prog_name="streamlit")
