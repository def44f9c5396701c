"""The soak in CI: three hundred faults at random moments, and no orphans."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from assistant.service.endpoint import find
from tests.faults.soak.processes import MARK, marked

REPOSITORY = Path(__file__).parents[2]
SEED = 20_261_121
KINDS = {f"F{n}" for n in range(1, 9)}

pytestmark = [pytest.mark.slow, pytest.mark.faults]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **more}


def test_nothing_is_lost_through_three_hundred_faults(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.faults.soak", "--seed", str(SEED)]
    command += ["--faults", "320", "--per-round", "320", "--json", str(report)]
    ran = subprocess.run(
        command,
        check=False,
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )
    print(ran.stdout)  # noqa: T201 - the table
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(report.read_text())
    assert sum(told["faults"].values()) >= 300, ran.stdout
    assert len({kind[:2] for kind in told["faults"]} & KINDS) >= 6, ran.stdout
    assert all(one["notes"]["completed"] >= 100 for one in told["rounds"]), ran.stdout


def until(holds: object, seconds: float = 30.0) -> bool:
    by_s = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        if time.monotonic() > by_s:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_workers_of_a_service_end_with_it(tmp_path: Path, number: signal.Signals) -> None:
    mark = f"{MARK}={tmp_path}"
    command = [sys.executable, "-m", "assistant.cli", "serve", "--port", "0", "--workers", "2"]
    with (tmp_path / "words").open("wb") as words:
        service = subprocess.Popen(
            [*command, "--store", str(tmp_path / "store.db")],
            cwd=tmp_path,
            env=environment(**{MARK: str(tmp_path)}),
            stdout=words,
            stderr=words,
        )

    def claims() -> float:
        """Return how often a worker has asked in vain."""
        endpoint = find(tmp_path / "store.db")
        assert endpoint is not None
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        told = httpx.get(f"{endpoint.url}/metrics", headers=headers, trust_env=False).text
        lines = [x for x in told.splitlines() if x.startswith("copperline_claims") and "none" in x]
        return sum(float(line.split()[-1]) for line in lines)

    try:
        assert until(lambda: len(list(marked(mark))) >= 3), (tmp_path / "words").read_text()
        assert until(lambda: claims() >= 4), (tmp_path / "words").read_text()
        service.send_signal(number)
        assert service.wait(30) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert until(lambda: not list(marked(mark))), list(marked(mark))
    finally:
        for pid, _ in marked(mark):
            os.kill(pid, signal.SIGKILL)
        service.wait()
