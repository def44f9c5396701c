"""What stories told on the command line share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import run

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """Run ``copperline workload`` in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = run(["workload", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call
