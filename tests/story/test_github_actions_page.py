"""The page about GitHub Actions: the commands of its workflow run, and the summary is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import pages
from tests.story.conftest import Told

pytestmark = pytest.mark.slow
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
    (tmp_path / "summary.md").write_text("# Before\n")
    env = {
        **os.environ,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    commands = [step["run"] for step in steps if "run" in step]
    script = "\n".join(text for text in commands if not text.startswith("pip install"))
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=env, check=True, timeout=120)
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("# Before\n## compress\n")
    assert "| level | 6 | 1 |  |" in summary
    assert "### What matters" in summary
    uploaded = steps[-1]["with"]["path"]
    assert sorted(os.listdir(tmp_path / uploaded)) == ["report.html", "sweep.zip"]
    assert cli("import", "results/sweep.zip", "--store", "home.db")[0] == 0
