"""Sessions under an agreement, and an executor of which every run takes as long as is said."""

from collections import deque
from dataclasses import dataclass, field, replace
from types import TracebackType

from assistant import Session, Sla, open_session
from assistant.core.ports import ExecutionRequest, ExecutionResult, ReportListener
from assistant.executors.serial import execute_run
from assistant.presentation.tables.sla import TermUsage, sla_terms
from assistant.store.event_store import MemoryStore
from strategies import Level
from tests.assistant.examples import Bowl, TickingClock


@dataclass
class Timed:
    """An executor of which every run takes as long as is said, without taking it."""

    application: Bowl
    duration_s: float = 60.0
    capacity: int = 1
    taken: deque[ExecutionRequest] = field(default_factory=deque)
    works: list[ExecutionRequest] = field(default_factory=list)

    def submit(self, work: ExecutionRequest) -> None:
        self.taken.append(work)
        self.works.append(work)

    def collect(self) -> tuple[ExecutionResult, ...]:
        if not self.taken:
            return ()
        work = self.taken.popleft()
        return (replace(execute_run(self.application, work), duration_s=self.duration_s),)

    def listen(self, reported: ReportListener) -> None: ...

    def stop(self, run_id: int) -> None: ...

    def cancel(self) -> None:
        self.taken.clear()

    def __enter__(self) -> "Timed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()


def session_under(sla: Sla, bowl: Bowl | None = None, **more: object) -> Session:
    return open_session(
        bowl or Bowl(),
        store=MemoryStore(),
        sla=sla,
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )


def at(x: int, y: int = 0, mode: str = "plain") -> dict[str, Level]:
    return {"x": x, "y": y, "mode": mode}


def used(session: Session) -> dict[str, TermUsage]:
    return {use.term: use for use in sla_terms(session.experiment)}
