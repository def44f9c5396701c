"""One run tried before an experiment begins: ``copperline try`` in a process of its own.

The script never waits for it: it starts the process, looks in twice a second, and ends its group
if it is told to. What the program started beyond its group ends with it (`applications.child`).
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from assistant.ui.background import Attempts, Ended, Work, work_folder

MOST = 8
"""Trials at a time, over all browsers; a further one ends the oldest."""

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


class Attempt(Work):
    """A trial under way.

    Args:
        text: the sweep file.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self, text: str) -> None:
        folder = work_folder("copperline-try-")
        file = Path(folder.name) / "sweep.toml"
        file.write_text(text, encoding="utf-8")
        super().__init__([["try", "--json", str(file)]], folder)

    def result(self) -> Tried | None:
        """Return what came of it; None while it goes on. Its files are gone afterwards."""
        ended = self.ended()
        if ended is None:
            return None
        found = Tried("stopped") if ended.stopped else _found(ended)
        self.close()
        return found


def _found(ended: Ended) -> Tried:
    """Return what a process said that ended by itself."""
    if ended.code == _BAD_INPUT:
        text = ended.last_word
        return Tried("refused", sentence=f"{text[:1].upper()}{text[1:]}")
    if ended.code in (_TRIED, _FAILED):
        with suppress(ValueError):
            return Tried("tried", json.loads(ended.out))
    return Tried(
        "broken",
        sentence=f"Something in Copperline went wrong: trying ended with exit code {ended.code}; "
        f"its last word: {ended.last_word}",
    )


class Trials(Attempts[Tried]):
    """The trials of all browsers, at most `MOST`; they end with the app."""

    def __init__(self) -> None:
        super().__init__(MOST)

    def start(self, owner: str, text: str) -> None:
        """Begin a trial for a browser, in the place of its last one.

        Raises:
            OSError: the process could not be started.
        """
        self.begin(owner, lambda: Attempt(text))


@st.cache_resource(max_entries=1, show_spinner=False)
def trials() -> Trials:
    """Return the trials of this process."""
    return Trials()
