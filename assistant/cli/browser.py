"""``copperline app``: the browser UI and its service, kept alive until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from assistant.cli.console import EXIT_INTERRUPTED, StoreOption, say, store_path
from assistant.companion import Companion
from assistant.errors import SettingsError

OPTIONS = {
    "server.address": "127.0.0.1",
    "server.fileWatcherType": "none",
    "server.maxUploadSize": "512",
    "runner.postScriptGC": "false",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.light.primaryColor": "#a4561f",
    "theme.light.textColor": "#1a1816",
    "theme.light.codeTextColor": "#1a1816",
    "theme.dark.primaryColor": "#b3602b",
    "theme.dark.codeTextColor": "#f4f2ef",
}
"""How Streamlit serves the pages: to this machine alone, and without asking any other.

Streamlit would collect garbage through all generations after every drawing, live parts too, which
takes longer than the drawing; Python's own collector suffices.

Colours: white on the copper of a button, and captions, which are 40 % paler than the text, keep a
contrast of 4.5 to 1.
"""
AGAIN_S = 1.0


def pages_command(store: Path, port: int) -> list[str]:
    """Return what serves the pages over a store. Raises SettingsError where they are missing."""
    found = find_spec("streamlit_app")
    if found is None or found.origin is None:
        raise SettingsError("streamlit_app.py is not installed beside the packages; reinstall")
    command = [sys.executable, "-m", "assistant.ui", "run", found.origin]
    command += ["--server.port", str(port), *(f"--{name}={OPTIONS[name]}" for name in OPTIONS)]
    return [*command, "--", str(store)]


def app(
    port: Annotated[int, typer.Option(help="On this machine only.", min=1, max=65535)] = 8501,
    store: StoreOption = None,
) -> int:
    """Open the browser UI over the stored experiments; Ctrl-C ends it.

    Runs are executed by a service beside it, which is used if it runs already. If either of them
    dies, it is started again and goes on. Studies of analysts are stopped with it, and can go on.
    """
    command = pages_command(store_path(store), port)
    companion = Companion(store_path(store))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    try:
        companion.reach()
        companion.keep()
        while True:
            code = subprocess.run(command, check=False).returncode  # noqa: S603 - our own command
            if code >= 0:
                return code
            say("The browser's process was killed; it is started again.")
            time.sleep(AGAIN_S)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        _end_studies(store_path(store))
        companion.end()


def _end_studies(store: Path) -> None:
    """Stop the studies that were started from the pages; what was played is kept."""
    from agents import Shelf

    Shelf.beside(store).end()
