"""`copperline doctor` in processes of its own, over code caches of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine_code import ColdStart

pytestmark = pytest.mark.slow

RUN = "from assistant.cli.main import main; main()"


def doctor(
    repository: Path, cache: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    told = {"COPPERLINE_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0", **environment}
    return subprocess.run(
        [sys.executable, "-c", RUN, "doctor", *options],
        cwd=repository, env={**os.environ, **told}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.soak
def test_compiled_code_is_shown_made_and_cleaned(
    cold_start: ColdStart, tmp_path: Path, repository: Path
) -> None:
    cache = cold_start.copied(tmp_path)
    for path in cache.rglob("ready-*.json"):
        path.unlink()  # nothing says that it is complete; the compiler finds it there
    cold = doctor(repository, cache)
    assert cold.returncode == 0
    assert "not compiled yet; the first simulation starts it" in cold.stdout
    compiled = doctor(repository, cache, "--compile")
    assert compiled.returncode == 0, compiled.stderr
    assert "compiling the simulator ..." in compiled.stderr
    assert "ready; took " in compiled.stdout
    old = cache / "kernel-0123456789abcdef"
    old.mkdir()
    (old / "old.nbc").write_bytes(b"x" * 300_000)
    told = json.loads(doctor(repository, cache, "--json").stdout)
    assert told["compiled_code"]["readiness"] == "ready"
    assert told["compiled_code"]["size_bytes"] > 100_000
    assert told["other_versions"] == {str(old): 300_000}
    cleaned = doctor(repository, cache, "--clean")
    assert "0.3 MB of compiled code removed" in cleaned.stdout
    assert not old.exists()
    assert json.loads(doctor(repository, cache, "--json").stdout)["other_versions"] == {}


@pytest.mark.soak
def test_without_a_compiler_it_says_why_and_exits_with_1(tmp_path: Path, repository: Path) -> None:
    done = doctor(repository, tmp_path, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 1
    assert "unavailable; NUMBA_DISABLE_JIT is set; unset it to compile" in done.stdout
    refused = doctor(repository, tmp_path, "--compile", NUMBA_DISABLE_JIT="1")
    assert refused.returncode == 2
    assert "the compiled engine is not available: NUMBA_DISABLE_JIT is set" in refused.stderr
