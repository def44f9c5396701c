"""One run tried before an experiment begins: ``copperline try`` in a process of its own.

The script never waits for it: it starts the process, looks in twice a second, and ends its group
if it is told to. What the program started beyond its group ends with it (`applications.child`).
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Literal

import streamlit as st

import assistant

MOST = 8
"""Trials at a time, over all browsers; a further one ends the oldest."""

_GRACE_S = 2.0
_READ_BYTES = 8 * 2**20
_TRIED, _FAILED, _BAD_INPUT = 0, 4, 2


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a trial.

    Args:
        state: ``tried`` if the run was made (it may have failed), ``refused`` if the sweep is
            wrong, ``stopped`` if the person ended it, ``broken`` for a fault of the program.
        said: what ``copperline try --json`` printed; None unless it was tried.
        sentence: why it was refused or is broken; empty otherwise.
    """

    state: Literal["tried", "refused", "stopped", "broken"]
    said: Mapping[str, Any] | None = None
    sentence: str = ""


class Attempt:
    """A trial under way.

    Args:
        text: the sweep file.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self, text: str) -> None:
        self._folder = TemporaryDirectory(prefix="copperline-try-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        (folder / "sweep.toml").write_text(text, encoding="utf-8")
        self._out, self._err = folder / "out.json", folder / "err.txt"
        command = [
            sys.executable, "-P", "-m", "assistant.cli", "try", "--json", str(folder / "sweep.toml")
        ]  # fmt: skip
        packages = str(Path(assistant.__file__).resolve().parent.parent)
        known = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(known)},
            )  # fmt: skip
        self._started_s = time.monotonic()
        self._stopped = False

    @property
    def seconds(self) -> float:
        """How long it has been at it."""
        return time.monotonic() - self._started_s

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the process and its group; does nothing if it is over."""
        if self.is_over:
            return
        self._stopped = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                return

    def result(self) -> Tried | None:
        """Return what came of it; None while it goes on. Its files are gone afterwards."""
        code = self._process.poll()
        if code is None:
            return None
        if self._stopped:
            found = Tried("stopped")
        else:
            found = _found(code, _text(self._out), _text(self._err))
        self._folder.cleanup()
        return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _found(code: int, out: str, err: str) -> Tried:
    """Return what a process said that ended by itself."""
    last = (err.strip().splitlines() or ["it said nothing"])[-1]
    if code == _BAD_INPUT:
        text = last.removeprefix("copperline: ")
        return Tried("refused", sentence=f"{text[:1].upper()}{text[1:]}")
    if code in (_TRIED, _FAILED):
        with suppress(ValueError):
            return Tried("tried", json.loads(out))
    return Tried(
        "broken",
        sentence=f"Something in Copperline went wrong: trying ended with exit code {code}; "
        f"its last word: {last}",
    )


class Trials:
    """The trials of all browsers, at most `MOST`; they end with the app."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()
        self._lock = Lock()
        atexit.register(self.close)

    def start(self, owner: str, text: str) -> None:
        """Begin a trial for a browser, in the place of its last one.

        Raises:
            OSError: the process could not be started.
        """
        attempt = Attempt(text)
        with self._lock:
            old = [self._attempts.pop(owner, None)]
            self._attempts[owner] = attempt
            if len(self._attempts) > MOST:
                old.append(self._attempts.popitem(last=False)[1])
        for one in old:
            if one is not None:
                one.stop()
                one.result()

    def of(self, owner: str) -> Attempt | None:
        """Return the trial of a browser that is not fetched yet."""
        with self._lock:
            return self._attempts.get(owner)

    def fetch(self, owner: str) -> Tried | None:
        """Return what came of a trial, once; None while it goes on or if there is none."""
        attempt = self.of(owner)
        if attempt is None or not attempt.is_over:
            return None
        with self._lock:
            if self._attempts.get(owner) is not attempt:
                return None
            del self._attempts[owner]
        return attempt.result()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            attempts = list(self._attempts.values())
            self._attempts.clear()
        for attempt in attempts:
            attempt.stop()
            attempt.result()


@st.cache_resource(max_entries=1, show_spinner=False)
def trials() -> Trials:
    """Return the trials of this process."""
    return Trials()
