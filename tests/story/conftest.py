"""What stories told on the command line share."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from assistant.cli.main import run

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """Run ``copperline`` in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = run([str(one) for one in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def say(cli: Told) -> Told:
    """Run ``copperline workload``."""
    return partial(cli, "workload")
