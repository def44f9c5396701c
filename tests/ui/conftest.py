"""A store of its own for each test, and no service left behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.service.experiment_service import ExperimentService
from assistant.ui import state
from tests.service.housed import housed


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where experiments are kept; nothing is there yet, and nobody serves it."""
    path = tmp_path / "store.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(path))
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
    made: list[state.ServiceConnection] = []
    build = state.ServiceConnection.__init__

    def noted(self: state.ServiceConnection, store: Path) -> None:
        build(self, store)
        made.append(self)

    monkeypatch.setattr(state.ServiceConnection, "__init__", noted)
    yield path
    for connection in made:
        connection.companion.end()
    state.service_connection.clear()


@pytest.fixture
def service(store: Path) -> Iterator[ExperimentService]:
    """The store is served and what is started is executed, in this process."""
    with housed(store) as opened:
        yield opened


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sixteen measured configurations; the best is x=4, y=4."""
    lines = ["x,y,objective"]
    lines += [
        f"{x},{y},{(4 - x) ** 2 + (4 - y) ** 2 + 1}" for x in (1, 2, 3, 4) for y in (1, 2, 3, 4)
    ]
    path = tmp_path / "measured.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
