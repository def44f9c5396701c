"""Plans of capacity that are made while the page goes on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import streamlit as st

from assistant.applications.capacity import CapacityPlan, plan_of
from assistant.applications.workloads import Window
from assistant.ui.background import Attempts, Work, work_folder
from assistant.ui.workload.log import Chosen
from assistant.ui.workload.making import log_file, seconds, why_not

MOST = 4
"""Plans at a time, over all browsers; a further one ends the oldest."""


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What is asked; equal wishes give equal plans.

    Args:
        generator: that is fitted to the log.
        cores: of a server.
        mem_bytes: of a server; 0 is not looked at.
        days: that count.
        futures: of each case.
        share: of them in which the servers suffice.
        scales: a case each.
        settings: what if, NAME=VALUE.
        seed: of the first future.
        log: identity of the log, with the window.
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
class Planned:
    """What came of it.

    Args:
        wish: what was asked.
        state: whether it is there, was refused, was stopped or broke.
        plan: None unless it is there.
        sentence: why not.
    """

    wish: PlanWish
    state: Literal["done", "refused", "stopped", "broken"]
    plan: CapacityPlan | None = None
    sentence: str = ""


class Planning(Work):
    """A plan under way.

    Raises:
        OSError: the process could not be started.
        SimError: the log of an upload cannot be kept for it.
    """

    def __init__(self, wish: PlanWish, found: Chosen, window: Window) -> None:
        folder = work_folder("copperline-capacity-")
        self._wish = wish
        command = [
            "workload", "capacity", log_file(found, Path(folder.name)), "--json",
            "--generator", wish.generator, "--cores-per-server", str(wish.cores),
            "--days", repr(wish.days), "--futures", str(wish.futures),
            "--share", repr(wish.share), "--seed", str(wish.seed),
            "--leave-out", str(window.leave_out), "--from", seconds(window.from_s),
        ]  # fmt: skip
        if window.to_s is not None:
            command += ["--until", seconds(window.to_s)]
        if wish.mem_bytes:
            command += ["--memory-per-server", str(wish.mem_bytes)]
        for scale in wish.scales:
            command += ["--scale", scale]
        for setting in wish.settings:
            command += ["--set", setting]
        for rule, choice in found.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        super().__init__([command], folder)

    def result(self) -> Planned | None:
        """Return the plan, once; None while it goes on. Its files are gone afterwards."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = why_not(ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return Planned(self._wish, failed[0], sentence=failed[1])
            return Planned(self._wish, "done", plan_of(json.loads(ended.out)))
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def plannings() -> Attempts[Planned]:
    """Return the plans of this process that are under way."""
    return Attempts(MOST)
