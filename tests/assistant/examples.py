"""Small real applications for tests: pure functions of the values, quick, with known answers."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from assistant import Fact, Measure, Objective, SingleMeasure
from assistant.core.errors import RunError, RunStoppedError
from assistant.core.ports import RunControl
from strategies import Level, Parameter, ParameterSpace

SPACE = ParameterSpace(
    (
        Parameter("x", (0, 1, 2, 3)),
        Parameter("y", (0, 1, 2)),
        Parameter("mode", ("plain", "odd")),
    )
)


@dataclass(frozen=True)
class Bowl:
    """(x - 2)^2 + y + 1, plus 10 in mode ``odd``: the best is x=2, y=0, plain, with 1."""

    baseline: Mapping[str, Level] | None = None
    fail_at_x: int | None = None

    name = "bowl"
    space = SPACE
    objective = Objective(SingleMeasure("height"), "minimise")
    facts = (Fact("Bowl", "a known function"),)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        x, y = int(values["x"]), int(values["y"])
        if x == self.fail_at_x:
            raise RunError(f"x = {x} does not work")
        height = (x - 2) ** 2 + y + 1 + (10 if values["mode"] == "odd" else 0)
        return {"height": float(height), "series": (1.0, float(x)), "unknown": float("nan")}


@dataclass(frozen=True)
class Hills:
    """Five slopes, a mode whose level ``bad`` costs 30, and a rugged part: never below 5."""

    baseline: Mapping[str, Level] | None = None

    name = "hills"
    space = ParameterSpace(
        (*(Parameter(n, (0, 1, 2, 3, 4)) for n in "abcde"), Parameter("mode", ("good", "bad")))
    )
    objective = Objective(SingleMeasure("height"), "minimise")
    facts = (Fact("Hills", "a known function"),)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        ids = [int(values[name]) for name in "abcde"]
        slopes = sum((own - i % 4) ** 2 for i, own in enumerate(ids))
        rugged = 3 * ((7 * ids[0] + 5 * ids[1] + 3 * ids[2]) % 4)
        return {"height": 5.0 + slopes + rugged + (30 if values["mode"] == "bad" else 0)}


TODAY: Mapping[str, Level] = {"x": 0, "y": 2, "mode": "plain"}


class TickingClock:
    """A clock that advances by one second a look."""

    def __init__(self) -> None:
        self._now_s = 1_000_000.0

    def now_s(self) -> float:
        self._now_s += 1.0
        return self._now_s


@dataclass(frozen=True)
class Climb(Bowl):
    """A bowl that is measured step by step, and told of: ``y`` + 1 steps, from 100 down.

    With ``endless`` a run of ``x`` = 3 goes on until somebody wants its end.
    """

    endless: bool = True

    name = "climb"

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        result = self.evaluate(values, seed)
        for step in range(int(values["y"]) + 1):
            oversight.report({"height": 100.0 - step, "unknown": float("nan")})
        wait, until_s = threading.Event(), time.monotonic() + 600.0
        while self.endless and values["x"] == 3:
            if oversight.wants_end():
                raise RunStoppedError("it was told to end")
            if time.monotonic() > until_s:
                raise RunError("nobody ended it")
            wait.wait(0.01)
        return result
