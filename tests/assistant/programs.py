"""Small programs of a user's own, in Python text, as applications."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assistant import Objective, SingleMeasure
from assistant.applications.program import Program
from assistant.core.errors import RunError
from assistant.core.objective import Measure
from strategies import Parameter, ParameterSpace

SPACE = ParameterSpace((Parameter("x", (1, 2)),))
COST = Objective(SingleMeasure("cost"))
PATIENCE_S = 300.0
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


WALLED = """
import resource, time
def await_wall(kind):  # it stands right after the start, which may be later on a busy machine
    end = time.monotonic() + 300
    while resource.getrlimit(kind)[0] == resource.RLIM_INFINITY and time.monotonic() < end:
        time.sleep(0.01)
"""
"""Text of a program that waits until the kernel holds it to a limit."""


def python(code: str, *arguments: str, **more: object) -> Program:
    """A command that runs Python text; braces in the text are the text's own."""
    escaped = code.replace("{", "{{").replace("}", "}}")
    given = {"space": SPACE, "objective": COST, "unused": True, **more}
    return Program((sys.executable, "-I", "-S", "-c", escaped, *arguments), **given)  # type: ignore[arg-type]


def failure(command: Program) -> str:
    """Return why a run of it fails."""
    with pytest.raises(RunError) as caught:
        command.evaluate({"x": 1}, 7)
    assert str(caught.value).isprintable()
    return str(caught.value)


def until(happens: Callable[[], bool]) -> bool:
    """Wait for a condition; False if it does not come about in time."""
    never, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while not happens():
        if time.monotonic() > deadline_s:
            return False
        never.wait(0.01)
    return True


def alive(mark: str) -> list[int]:
    """Return the processes that have a word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_zombie = "\nState:\tZ" in (path.parent / "status").read_text()
            if mark.encode() in path.read_bytes().split(b"\0") and not is_zombie:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


class Listener:
    """An oversight that keeps what it is told, and acts on it.

    Args:
        then: called with each report; True wants the end of the run.
    """

    def __init__(self, then: Callable[[Mapping[str, Measure]], bool]) -> None:
        self.told: list[Mapping[str, Measure]] = []
        self._then, self._enough = then, False

    def report(self, measures: Mapping[str, Measure]) -> None:
        self.told.append(dict(measures))
        self._enough = self._then(measures) or self._enough

    def wants_end(self) -> bool:
        return self._enough
