"""Background jobs of *Workload*: fits of models, generated workloads, and capacity plans."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import streamlit as st

from assistant.simtools.capacity import plan_from_table
from assistant.simtools.workload_generation import read_drawn
from assistant.simtools.workload_log import file_name
from assistant.ui.jobs import BackgroundJob, JobRegistry, work_folder
from assistant.ui.pages.workload_log import LogSelection
from sim.formats.registry import write_workload
from sim.generators.cloud.capacity import CapacityPlan
from sim.generators.generator import Model, load_model, save_model
from sim.metrics.workload_profile import ProfileWindow
from sim.model.workload import Workload

MOST_GENERATION_JOBS = 8

_OWNER = "workload-state-owner"

Failed = Literal["refused", "stopped", "broken"]


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Request for a fitted model; ``log`` identifies the log and its window."""

    generator: str
    knobs: tuple[tuple[str, float], ...]
    log: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """Request for a generated workload; equal requests give equal workloads."""

    model: str
    settings: str
    days: float
    seed: int
    scale: float


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Result of a fit or a draw; ``notes`` are warnings about parts lost in conversion."""

    wish: FitRequest | GenerationRequest
    state: Literal["done", "refused", "stopped", "broken"]
    model: Model | None = None
    workload: Workload | None = None
    sentence: str = ""
    notes: tuple[str, ...] = ()


class FitJob(BackgroundJob):
    """Fit of a model; raises OSError or SimError if it cannot be started."""

    def __init__(self, wish: FitRequest, selection: LogSelection, window: ProfileWindow) -> None:
        folder = work_folder("copperline-fit-")
        self._wish, self._model = wish, Path(folder.name) / "model.json"
        log = log_file(selection, Path(folder.name))
        command = ["workload", "fit", wish.generator, log, "--to", str(self._model), "--json"]
        for name, value in wish.knobs:
            command += ["--knob", f"{name}={value!r}"]
        for rule, choice in selection.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        command += ["--leave-out", str(window.leave_out), "--from", seconds_argument(window.from_s)]
        if window.to_s is not None:
            command += ["--until", seconds_argument(window.to_s)]
        super().__init__([command], folder)

    def result(self) -> GenerationResult | None:
        """Return the model once and remove the files; None while the fit goes on."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failure_result(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            return failed or GenerationResult(self._wish, "done", load_model(self._model))
        finally:
            self.close()


class GenerationJob(BackgroundJob):
    """Generation of a workload; raises OSError if the process cannot be started."""

    def __init__(self, wish: GenerationRequest, model: Model) -> None:
        folder = work_folder("copperline-draw-")
        file = Path(folder.name) / "model.json"
        save_model(model, file)
        target = Path(folder.name) / f"{model.generator}-seed-{wish.seed}"
        self._wish, self._model = wish, model
        command = [
            "workload", "generate", str(file), "--to", str(target), "--json",
            "--duration", seconds_argument(wish.days * 86_400.0), "--seed", str(wish.seed),
            "--scale", repr(wish.scale),
        ]  # fmt: skip
        for setting in json.loads(wish.settings):
            command += ["--set", setting]
        super().__init__([command], folder)

    def result(self) -> GenerationResult | None:
        """Return the workload once and remove the files; None while the job goes on."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failure_result(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return failed
            output = json.loads(ended.out)
            workload = read_drawn(Path(output["file"]))
            return GenerationResult(
                self._wish, "done", self._model, workload, notes=tuple(output["not_written"])
            )
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def generation_jobs() -> JobRegistry[GenerationResult]:
    """Return the fits and draws of this process."""
    return JobRegistry(MOST_GENERATION_JOBS)


def job_owner(kind: str) -> str:
    """Return the name of this browser's fit or draw in the registry."""
    name: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return f"{name}-{kind}"


def settings_text(settings: Mapping[str, Any], more: Sequence[str]) -> str:
    """Return settings as one text: values of fields, and lines ``name=value``."""
    lines = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return json.dumps([*lines, *more])


def _failure_result(
    wish: FitRequest | GenerationRequest, code: int, last_word: str, *, stopped: bool
) -> GenerationResult | None:
    reason = failure_reason(code, last_word, stopped=stopped)
    return None if reason is None else GenerationResult(wish, reason[0], sentence=reason[1])


def failure_reason(code: int, last_word: str, *, stopped: bool) -> tuple[Failed, str] | None:
    """Return the state of a failed command and its sentence; None on success."""
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


def log_file(selection: LogSelection, folder: Path) -> str:
    """Return the file of a log; write one if there is none."""
    if selection.path is not None:
        return str(Path(selection.path).absolute())
    if selection.upload is not None:
        path = folder / file_name(selection.upload[0])
        path.write_bytes(selection.upload[1])
    else:
        path = folder / f"{file_name(selection.log.name)}.swf"
        write_workload(selection.log, path)
    return str(path)


def seconds_argument(number: float) -> str:
    """Return a number of seconds as an argument of the command line."""
    return f"{number:.6f}s"


MOST_PLANS = 4


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Request for a capacity plan; equal requests give equal plans.

    Args:
        mem_bytes: memory of a server; 0 ignores memory.
        days: length of each future.
        share: share of the futures in which the servers must suffice.
        scales: factors of the load, one case each.
        settings: changes of the model, ``NAME=VALUE``.
        log: identity of the log and its window.
    """

    generator: str
    cores: int
    mem_bytes: int
    days: float
    futures: int
    share: float
    scales: tuple[str, ...]
    settings: tuple[str, ...]
    seed: int
    log: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Result of a plan; without a plan the sentence is the reason."""

    wish: PlanRequest
    state: Literal["done", "refused", "stopped", "broken"]
    plan: CapacityPlan | None = None
    sentence: str = ""


class PlanJob(BackgroundJob):
    """Computation of a capacity plan; raises OSError or SimError if it cannot be started."""

    def __init__(self, wish: PlanRequest, selection: LogSelection, window: ProfileWindow) -> None:
        folder = work_folder("copperline-capacity-")
        self._wish = wish
        command = [
            "workload", "capacity", log_file(selection, Path(folder.name)), "--json",
            "--generator", wish.generator, "--cores-per-server", str(wish.cores),
            "--days", repr(wish.days), "--futures", str(wish.futures),
            "--share", repr(wish.share), "--seed", str(wish.seed),
            "--leave-out", str(window.leave_out), "--from", seconds_argument(window.from_s),
        ]  # fmt: skip
        if window.to_s is not None:
            command += ["--until", seconds_argument(window.to_s)]
        if wish.mem_bytes:
            command += ["--memory-per-server", str(wish.mem_bytes)]
        for scale in wish.scales:
            command += ["--scale", scale]
        for setting in wish.settings:
            command += ["--set", setting]
        for rule, choice in selection.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        super().__init__([command], folder)

    def result(self) -> PlanResult | None:
        """Return the plan once and remove the files; None while the job goes on."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = failure_reason(ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return PlanResult(self._wish, failed[0], sentence=failed[1])
            return PlanResult(self._wish, "done", plan_from_table(json.loads(ended.out)))
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def plan_jobs() -> JobRegistry[PlanResult]:
    """Return the running plans of this process."""
    return JobRegistry(MOST_PLANS)
