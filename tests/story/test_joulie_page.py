"""The page about Joulie's workloads runs as it stands."""

import json
import re
from pathlib import Path

import pytest


def test_the_page_runs(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (repository / "docs" / "howto" / "joulie.md").read_text()
    _, code = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(compile(code, "docs/howto/joulie.md", "exec"), found)
    said = capsys.readouterr().out
    assert said.startswith("Fitted to joulie")
    assert "mean_inter_arrival_sec" in said
    assert "apiVersion:" in said
    told = json.loads((tmp_path / "site.json").read_text())
    assert all(entry in page for entry in told)
    changes = found["changes"]
    assert isinstance(changes, tuple)
    assert changes[0].parameter == "cpu_work_rate_per_core"
    assert changes[0].after > 1.5  # they took half the time
