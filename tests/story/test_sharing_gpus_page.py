"""The page about shared GPUs: its Python runs, and its sweep files are sweep files."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from assistant.config.sweep_file import check_settings


def blocks(repository: Path, kind: str) -> list[str]:
    page = (repository / "docs" / "howto" / "gpu-fleet.md").read_text()
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


def test_its_python_runs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(repository, "python")
    found: dict[str, Any] = {}
    exec(compile(code, "docs/howto/gpu-fleet.md", "exec"), found)
    cost, fragmented = map(float, capsys.readouterr().out.split())
    assert cost == found["measures"]["cost"] > 0
    assert 0 < fragmented < 1


def test_its_sweep_files_are_read(repository: Path) -> None:
    texts = blocks(repository, "toml")
    assert len(texts) == 3
    for text in texts:
        assert check_settings(tomllib.loads(text), "x").application.kind == "placement"
