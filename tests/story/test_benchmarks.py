"""Every benchmark runs in its quick mode and writes its one JSON object; it goes on from that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BROWSER = ("ui", "pictures")
"""Benchmarks that need a real browser."""
RESUMED = ("forecast", "search", "sim")
"""Benchmarks that go on from their JSON here; the steps of all of them are kept by one class."""

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
    "measured_spaces": (),
}


def test_every_benchmark_is_run_here(repository: Path) -> None:
    files = (repository / "benchmarks").glob("*.py")
    names = {path.stem for path in files if "def main()" in path.read_text()}
    assert names - {"claims"} == set(BENCHMARKS)  # `make soak` runs the claims themselves


def run_quick(name: str, target: Path, data: Path, repository: Path, *options: str) -> str:
    """Run a benchmark in its quick mode; return what it printed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(target)]
    command += [str(data / o) if i % 2 else o for i, o in enumerate(BENCHMARKS[name])]
    done = subprocess.run(
        [*command, *options], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_mode(
    name: str, repository: Path, shared_data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name in BROWSER:
        request.getfixturevalue("chromium")
    target = tmp_path / "result.json"
    assert run_quick(name, target, shared_data, repository).startswith("| ")
    result = json.loads(target.read_text())
    assert result["figures"]
    assert all(value is None or value == value for value in result["figures"].values())
    assert {"commit", "seeds", "versions", "machine", "figures"} <= set(result)
    if name in RESUMED:
        run_quick(name, target, shared_data, repository, "--resume")
        assert json.loads(target.read_text())["steps"] == result["steps"]
