"""The page about GitHub Actions: the commands of its workflow run, and the summary is written."""

import shlex
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import pages
from tests.story.conftest import Told

pytestmark = pytest.mark.slow
REDIRECTED = [">>", "$GITHUB_STEP_SUMMARY"]
SWEEP = """
runs = 3
[application]
command = ["sh", "-c", "echo $1", "sh", "{level}"]
baseline = {level = 6}
[objective]
minimise = "n_bytes"
[[parameters]]
name = "level"
levels = [1, 3, 6, 9]
"""


def test_the_workflow_writes_the_summary_and_what_is_uploaded(
    repository: Path, tmp_path: Path, cli: Told
) -> None:
    page = next(p for p in pages(repository) if p.name == "docs/howto/github-actions.md")
    workflow = yaml.safe_load(page.blocks("yaml")[0])
    steps = workflow["jobs"]["sweep"]["steps"]
    (tmp_path / "compress.toml").write_text(SWEEP)
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    summary = "# Before\n"
    for line in lines:
        program, *words = shlex.split(line)
        if program == "copperline":
            code, out, err = cli(*(word for word in words if word not in REDIRECTED))
            assert code == 0, err
            summary += out if words[-2:] == REDIRECTED else ""
    assert summary.startswith("# Before\n## compress\n")
    assert "| level | 6 | 1 |  |" in summary
    assert "### What matters" in summary
    uploaded = steps[-1]["with"]["path"]
    names = sorted(path.name for path in (tmp_path / uploaded).iterdir())
    assert names == ["report.html", "sweep.zip"]
    assert cli("import", "results/sweep.zip", "--store", "home.db")[0] == 0
