"""The gate that all tests of pilots go to."""

from collections.abc import Iterator, Mapping

import pytest

from assistant import Measure
from assistant.executors.slurm import gate
from assistant.executors.slurm.desk import Desk
from assistant.executors.slurm.gate import Gate
from assistant.ports import Completion
from tests.assistant.slurm.house import Hand, House


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(gate, "WAIT_S", 0.05)
    over: list[Completion] = []
    reports: list[tuple[int, Mapping[str, Measure]]] = []
    clock = Hand()
    kept = Desk(over.append, lambda run, told: reports.append((run, told)), now_s=clock)
    opened = Gate(kept, "127.0.0.1")
    made = House(over, reports, clock, kept, opened)
    try:
        yield made
    finally:
        for line in made.lines:
            line.close()
        opened.close()
