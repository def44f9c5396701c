"""A store of its own for each test, and no runner left behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.ui import runner as runners


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "store.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(path))
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
    made: list[runners.Runner] = []
    build = runners.Runner.__init__

    def noted(self: runners.Runner, store: Path, experiment_id: str) -> None:
        build(self, store, experiment_id)
        made.append(self)

    monkeypatch.setattr(runners.Runner, "__init__", noted)
    yield path
    for runner in made:
        runner.close()
    runners.runner_of.clear()


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
