"""Models that are fitted and workloads that are drawn while the page goes on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import streamlit as st

from assistant.applications.generating import (
    Model,
    Workload,
    load_model,
    read_drawn,
    save_model,
    write_workload,
)
from assistant.applications.workloads import Window, file_name
from assistant.ui.background import Attempts, Work, work_folder
from assistant.ui.workload.log import Chosen

MOST = 8
"""Of fits and draws at a time, over all browsers; a further one ends the oldest."""

_OWNER = "workload-state-owner"

Failed = Literal["refused", "stopped", "broken"]


@dataclass(frozen=True, slots=True)
class FitWish:
    """What a model is asked for.

    Args:
        generator: its kind.
        knobs: how it is fitted.
        log: identity of the log that it learns from, with the window.
    """

    generator: str
    knobs: tuple[tuple[str, float], ...]
    log: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DrawWish:
    """What a workload is asked for; equal wishes give equal workloads."""

    model: str
    settings: str
    days: float
    seed: int
    scale: float


@dataclass(frozen=True, slots=True)
class Made:
    """What came of some work.

    Args:
        wish: what was asked for.
        state: whether it is there, was refused, was stopped or broke.
        model: fitted, or drawn from.
        workload: drawn; None of a fit.
        sentence: why there is nothing.
        notes: what of the workload was lost on the way here.
    """

    wish: FitWish | DrawWish
    state: Literal["done", "refused", "stopped", "broken"]
    model: Model | None = None
    workload: Workload | None = None
    sentence: str = ""
    notes: tuple[str, ...] = ()


class Fitting(Work):
    """A model under way.

    Raises:
        OSError: the process could not be started.
        SimError: the log of an upload cannot be kept for it.
    """

    def __init__(self, wish: FitWish, found: Chosen, window: Window) -> None:
        folder = work_folder("copperline-fit-")
        self._wish, self._model = wish, Path(folder.name) / "model.json"
        log = log_file(found, Path(folder.name))
        command = ["workload", "fit", wish.generator, log, "--to", str(self._model), "--json"]
        for name, value in wish.knobs:
            command += ["--knob", f"{name}={value!r}"]
        for rule, choice in found.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        command += ["--leave-out", str(window.leave_out), "--from", seconds(window.from_s)]
        if window.to_s is not None:
            command += ["--until", seconds(window.to_s)]
        super().__init__([command], folder)

    def result(self) -> Made | None:
        """Return the model, once; None while it goes on. Its files are gone afterwards."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failed(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            return failed or Made(self._wish, "done", load_model(self._model))
        finally:
            self.close()


class Drawing(Work):
    """A workload under way.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self, wish: DrawWish, model: Model) -> None:
        folder = work_folder("copperline-draw-")
        file = Path(folder.name) / "model.json"
        save_model(model, file)
        drawn = Path(folder.name) / f"{model.generator}-seed-{wish.seed}"
        self._wish, self._model = wish, model
        command = [
            "workload", "generate", str(file), "--to", str(drawn), "--json",
            "--duration", seconds(wish.days * 86_400.0), "--seed", str(wish.seed),
            "--scale", repr(wish.scale),
        ]  # fmt: skip
        for setting in json.loads(wish.settings):
            command += ["--set", setting]
        super().__init__([command], folder)

    def result(self) -> Made | None:
        """Return the workload, once; None while it goes on. Its files are gone afterwards."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failed(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return failed
            told = json.loads(ended.out)
            drawn = read_drawn(Path(told["file"]))
            return Made(self._wish, "done", self._model, drawn, notes=tuple(told["not_written"]))
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def makings() -> Attempts[Made]:
    """Return the fits and draws of this process."""
    return Attempts(MOST)


def owner(kind: str) -> str:
    """Return the name under which this browser's fit or draw is kept."""
    told: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return f"{told}-{kind}"


def settings_text(settings: Mapping[str, Any], more: Sequence[str]) -> str:
    """Return settings as one text: those of fields, and lines of the form ``name=value``."""
    lines = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return json.dumps([*lines, *more])


def _failed(wish: FitWish | DrawWish, code: int, last_word: str, *, stopped: bool) -> Made | None:
    told = why_not(code, last_word, stopped=stopped)
    return None if told is None else Made(wish, told[0], sentence=told[1])


def why_not(code: int, last_word: str, *, stopped: bool) -> tuple[Failed, str] | None:
    """Return what became of a command and the sentence for people; None if it did well."""
    if stopped:
        return "stopped", ""
    if code == 0:
        return None
    if code == 2:
        return "refused", f"{last_word[:1].upper()}{last_word[1:]}"
    return "broken", (
        f"Something in Copperline went wrong: it ended with exit code {code}; its last word: "
        f"{last_word}"
    )


def log_file(found: Chosen, folder: Path) -> str:
    """Return the file of a log, and write one if there is none."""
    if found.path is not None:
        return str(Path(found.path).absolute())
    if found.upload is not None:
        path = folder / file_name(found.upload[0])
        path.write_bytes(found.upload[1])
    else:
        path = folder / f"{file_name(found.log.name)}.swf"
        write_workload(found.log, path)
    return str(path)


def seconds(number: float) -> str:
    """Return a number of seconds as the command line takes it."""
    return f"{number:.6f}s"
