"""One application of kind rest, who watches its runs, and programs that answer as told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from assistant import Objective, SingleMeasure
from assistant.applications.rest import Rest
from assistant.core.errors import RunError
from assistant.core.objective import Measure
from strategies import Parameter, ParameterSpace
from tests.assistant.adapter import PATIENCE_S, Answer, Heard, Program, Reply

SPACE = ParameterSpace((Parameter("x", (1, 2)), Parameter("mode", ("a", "b"))))
COST = Objective(SingleMeasure("cost"))
VALUES = {"x": 1, "mode": "a"}
DONE = Reply({"measures": {"cost": 3.5, "beside": 2}})
SECRET = "s3cret-0123456789"


def rest(at: Program | str, limit_s: float | None = PATIENCE_S, **more: object) -> Rest:
    url = at if isinstance(at, str) else at.url
    return Rest(SPACE, COST, url, limit_s=limit_s, **more)  # type: ignore[arg-type]


def failure(of: Rest) -> str:
    with pytest.raises(RunError) as caught:
        of.evaluate(VALUES, 7)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 520
    return str(caught.value)


@dataclass
class Watching:
    """Whoever watches: wants the end once so much was reported, or so often looked."""

    after_reports: int | None = None
    after_looks: int | None = None
    reports: list[Mapping[str, Measure]] = field(default_factory=list)
    looks: int = 0
    meanwhile: Callable[[int], object] = lambda looks: None

    def report(self, measures: Mapping[str, Measure]) -> None:
        self.reports.append(measures)

    def wants_end(self) -> bool:
        self.looks += 1
        self.meanwhile(self.looks)
        enough = self.after_reports is not None and len(self.reports) >= self.after_reports
        return enough or (self.after_looks is not None and self.looks >= self.after_looks)


def following(*told: Reply, location: str = "/runs/1", end: Reply | None = None) -> Answer:
    """Answer 202, then at the Location one reply after the other, the last again and again."""
    waiting = list(told)

    def answer(heard: Heard) -> Reply:
        if heard.method == "POST":
            return Reply({}, 202, {"Location": location})
        if heard.method == "DELETE":
            return end or Reply(b"", 204)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return answer


def running(**measures: object) -> Reply:
    return Reply({"state": "running", "measures": measures})
