"""The pages about placement rules run as they stand, and name every rule."""

import re
from pathlib import Path

import pytest

from sim.policies import placements as registry


def test_the_page_runs(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "_others", {})
    page = (repository / "docs" / "howto" / "placement-rule.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    exec(compile(code, "docs/howto/placement-rule.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "last_fit [1 1 0]",
        "fewest_cores [1 1 0]",
        "first_fit [0 0 0]",
    ]


def test_the_page_tells_every_rule_and_its_options(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "placements.md").read_text()
    for rule in registry.PLACEMENTS:
        assert f"| `{rule.name}` |" in page, rule.name
        for option in rule.options:
            assert f"`{option.name}`" in page, option.name
