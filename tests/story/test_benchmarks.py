"""Every benchmark runs in its quick mode, writes its one JSON object and resumes from it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BROWSER = ("ui", "pictures")
"""Benchmarks that need a real browser."""

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "sweeps": ("--logs", "swf"),
    "sim": ("--logs", "swf"),
    "sacct": (),
    "policies": ("--logs", "swf"),
    "futures": ("--logs", "swf"),
    "policy_ranking": ("--logs", "swf"),
    "slurm_fidelity": ("--run", "slurm_runs"),
    "slurm_tuned": (),
    "cloud": ("--azure", "azure_v1"),
    "cloud_lstm": ("--azure", "azure_v1"),
    "cloud_packing": ("--azure", "azure_v1"),
    "search": ("--tables", "tables"),
    "suggest": (),
    "learning": ("--pairs", "tables/pairs"),
    "ask_tell": (),
    "coverage": ("--tables", "tables"),
    "agents": (),
    "what_if": (),
    "modules_run": (),
    "service_model": (),
    "forecast": ("--tables", "tables"),
    "service": (),
    "workloads": (),
    "ui": (),
    "pictures": (),
    "aiops": (),
    "executors": (),
    "openb": ("--data", "openb"),
    "ranking": (),
    "placement": ("--data", ""),
    "deepjs": ("--data", ""),
    "warned_sweeps": ("--data", ""),
    "backtest": ("--data", ""),
    "default_question": ("--data", ""),
    "early_stopping": (),
    "wide_ranges": (),
}


def test_every_benchmark_is_run_here(repository: Path) -> None:
    files = (repository / "benchmarks").glob("*.py")
    names = {path.stem for path in files if "def main()" in path.read_text()}
    assert names - {"claims"} == set(BENCHMARKS)  # `make soak` runs the claims themselves


@pytest.mark.soak
@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_mode(
    name: str, repository: Path, shared_data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name in BROWSER:
        request.getfixturevalue("chromium")
    target = tmp_path / "result.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(target)]
    command += [str(shared_data / o) if i % 2 else o for i, o in enumerate(BENCHMARKS[name])]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| ")
    result = json.loads(target.read_text())
    assert result["figures"]
    assert all(value is None or value == value for value in result["figures"].values())
    assert {"commit", "seeds", "versions", "machine", "figures"} <= set(result)
    again = subprocess.run(
        [*command, "--resume"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(target.read_text())["steps"] == result["steps"]
