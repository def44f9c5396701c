"""The gate that all tests of pilots go to."""

from collections.abc import Iterator, Mapping

import pytest

from assistant import Measure
from assistant.core.ports import ExecutionResult
from assistant.executors.slurm import dispatcher
from assistant.executors.slurm.dispatcher import PilotDispatcher, PilotServer
from tests.assistant.slurm.house import Hand, House


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(dispatcher, "WAIT_S", 0.05)
    over: list[ExecutionResult] = []
    reports: list[tuple[int, Mapping[str, Measure]]] = []
    clock = Hand()
    kept = PilotDispatcher(over.append, lambda run, told: reports.append((run, told)), now_s=clock)
    opened = PilotServer(kept, "127.0.0.1")
    made = House(over, reports, clock, kept, opened)
    try:
        yield made
    finally:
        for line in made.lines:
            line.close()
        opened.close()
