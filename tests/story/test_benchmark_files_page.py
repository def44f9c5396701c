"""The page about hyperfine and pytest-benchmark: its programs are measured by the real tools."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import pages
from tests.story.conftest import Told

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("tool", "also"), [("pytest-benchmark", "extra_info.n_bytes"), ("hyperfine", "user_s")]
)
def test_a_run_of_the_page_gives_the_measures_that_it_lists(
    cli: Told, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    tool: str, also: str,
) -> None:  # fmt: skip
    if tool == "hyperfine" and shutil.which(tool) is None:
        pytest.skip("hyperfine is not installed")
    page = next(p for p in pages(repository) if p.name == "docs/howto/benchmark-files.md")
    (sweep,) = [text for text in page.blocks("toml") if f'format = "{tool}"' in text]
    (tmp_path / "compress.toml").write_text(sweep)
    (tmp_path / "test_compress.py").write_text(page.blocks("python")[0])
    (tmp_path / "big.txt").write_text("copperline " * 10_000)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    code, out, err = cli("try", "compress.toml", "--json")
    assert code == 0, err
    measures = json.loads(out)["measures"]
    listed = {name for name in measures if f"`{name}`" in page.prose}
    assert set(measures) - listed <= {"extra_info.n_bytes"}
    assert 0 < measures["min_s"] <= measures["median_s"] <= measures["max_s"]
    assert measures[also] > 0
    assert measures["n_times"] > 1
