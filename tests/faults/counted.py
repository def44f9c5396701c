"""One sweep for every executor that loses processes: what was executed, recorded and found."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from assistant import Measure, Sla, open_session
from assistant.core.errors import RunError
from assistant.core.events import RunCompleted, RunFailed
from assistant.core.ports import ExecutionResult, Executor
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from strategies import Level
from tests.assistant.examples import Bowl, TickingClock

RUN_S = 0.2
N_RUNS = 24


@dataclass(frozen=True)
class Counted(Bowl):
    """A bowl whose runs take a while, fail at x = 1, and are written down as they begin.

    No run ends before the file ``gate`` is there, if one is named.
    """

    lines: str = ""
    run_s: float = RUN_S
    gate: str = ""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        with Path(self.lines).open("a") as file:
            file.write(f"{sorted(values.items())}\n")
        while self.gate and not Path(self.gate).exists():
            threading.Event().wait(0.02)
        threading.Event().wait(self.run_s)
        if values["x"] == 1:
            raise RunError("x is 1")
        return super().evaluate(values, seed)


class Watched:
    """An executor that tells how many runs have come back before it waits for more.

    Attributes:
        n: runs that have come back.
        n_lost: times that one came back as lost.
    """

    def __init__(self, executor: Executor, on_count: Callable[[int], None]) -> None:
        self._executor, self._on_count = executor, on_count
        self.n = self.n_lost = 0
        self.capacity = executor.capacity
        self.submit, self.cancel = executor.submit, executor.cancel
        self.listen, self.stop = executor.listen, executor.stop

    def collect(self) -> tuple[ExecutionResult, ...]:
        self._on_count(self.n)
        found = self._executor.collect()
        self.n += len(found)
        self.n_lost += sum(one.lost for one in found)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def played(application: Counted, executor: Executor) -> dict[object, object]:
    """Make the sweep; return what came of each configuration, each recorded once."""
    session = open_session(
        application, store=MemoryStore(), sla=Sla(N_RUNS), clock=TickingClock(), workers=2
    )
    session.submit(session.suggest(N_RUNS))
    session.run_queued(executor)
    told = [event for event in session.events() if isinstance(event, RunCompleted | RunFailed)]
    assert Counter(event.run_id for event in told) == Counter(range(1, N_RUNS + 1))
    return {run.configuration: (run.outcome, run.failure) for run in session.experiment.runs}


def expected(tmp_path: Path) -> dict[object, object]:
    """Return what comes of the sweep in one process."""
    application = Counted(lines=str(tmp_path / "serial.txt"), run_s=0.0)
    return played(application, SerialExecutor(application))
