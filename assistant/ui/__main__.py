"""Run Streamlit with every page imported beforehand, so that the first visitor need not wait.

Usage: ``python -m assistant.ui run streamlit_app.py``. What only a forecast needs is imported in a
thread, while the browser fetches the page.
"""

import gc
import sys
from contextlib import suppress
from ctypes import CDLL
from importlib import import_module
from threading import Thread

from click.exceptions import Abort, ClickException
from streamlit.web.cli import main

from assistant.ui.app import import_pages
from strategies.blas_threads import limit_blas_of_process

_M_ARENA_MAX = -8  # Of mallopt(3), in malloc.h of glibc


def limit_arenas() -> None:
    """Let glibc allocate from two arenas; with one for each thread, what is freed stays held.

    Pages are drawn in ever new threads. Other C libraries have no such arenas.
    """
    with suppress(OSError, AttributeError):
        CDLL("libc.so.6").mallopt(_M_ARENA_MAX, 2)


def forget_imports() -> None:
    """Leave what was imported out of garbage collection; the rest is then collected more often.

    A full collection waits until the objects have grown by a quarter, and the modules are by far
    the most of them: pages that were drawn again and again stayed in memory meanwhile.
    """
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    limit_arenas()
    import_pages()
    forget_imports()
    limit_blas_of_process()
    Thread(target=import_module, args=("sklearn.cluster",), daemon=True).start()
    try:
        main(prog_name="streamlit", standalone_mode=False)
    except ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except Abort:  # Ctrl-C
        sys.exit(130)
