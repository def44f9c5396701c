"""The wheel, built and installed clean, runs the demo without git and without this checkout."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.soak
def test_the_wheel_is_whole_and_runs(repository: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(repository)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {
        "agents", "assistant", "copperline.py", "hydra_plugins", "sim", "strategies",
        "streamlit_app.py",
    }  # fmt: skip
    assert "assistant/presentation/report/templates/report.html.j2" in names
    assert any(name.startswith("assistant/cli/templates/") for name in names)

    home = tmp_path / "clean"
    venv.create(home)
    pip = [sys.executable, "-m", "pip", "--python", str(home), "install", "--quiet", "--no-compile"]
    constraints = str(repository / "constraints.txt")
    subprocess.run([*pip, "--constraint", constraints, str(wheel)], check=True)

    away = tmp_path / "away"
    away.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COPPER"))}
    environment["PATH"] = str(home / "bin")  # no git, no tools of this machine
    environment["COPPERLINE_CACHE_DIR"] = str(tmp_path / "cache")
    assert shutil.which("git", path=environment["PATH"]) is None
    command = [str(home / "bin" / "copperline"), "demo", "--runs", "6"]
    done = subprocess.run(
        command, cwd=away, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    assert (away / "copperline-out" / "demo.html").exists()
