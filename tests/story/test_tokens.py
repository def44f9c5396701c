"""Tokens with names on the command line, while a service runs and while none does."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from assistant.cli.main import run
from assistant.service.api_tokens import ApiTokenStore, token_store_path
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import SqliteStore
from tests.service.housed import housed

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    SqliteStore(tmp_path / "sweeps.db").close()
    return tmp_path / "sweeps.db"


@pytest.fixture
def call(store: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run ``copperline token``: exit code, output, errors."""

    def told(*arguments: str, command: str = "token") -> tuple[int, str, str]:
        code = run([command, *arguments, "--store", str(store)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return told


@pytest.mark.parametrize("serves", [True, False], ids=["a service runs", "none runs"])
def test_a_token_is_made_listed_and_revoked(store: Path, call: Call, serves: bool) -> None:
    if serves:
        with housed(store, executes=False):
            _made_listed_and_revoked(store, call)
    else:
        _made_listed_and_revoked(store, call)


def _made_listed_and_revoked(store: Path, call: Call) -> None:
    code, token, err = call("make", "gpu-1", "--days", "30")
    token = token.strip()
    assert (code, len(token)) == (0, 64)
    assert "shown only once" in err
    assert token not in err
    code, out, err = call("make", "gpu-1")
    assert (code, out) == (2, "")
    assert "there is a token 'gpu-1' already" in err
    assert call("make", "gpu/2")[0] == 2
    assert "no experiment 'nope'" in call("make", "a", "--experiment", "nope")[2]
    for days in ("0", "-1", "nan", "1e9"):
        assert "--days" in call("make", "a", f"--days={days}")[2]
    made = json.loads(call("make", "eye", "--role", "viewer", "--json")[1])
    assert made["role"] == "viewer"
    code, out, _ = call("list")
    assert code == 0
    assert "gpu-1" in out
    assert "never" in out
    listed = json.loads(call("list", "--json")[1])["tokens"]
    assert [one["name"] for one in listed] == ["eye", "gpu-1"]
    assert listed[1]["expires_s"] == pytest.approx(time.time() + 30 * 86_400, abs=600)
    for text in (
        out,
        json.dumps(listed),
        token_store_path(store).read_bytes().decode(errors="replace"),
    ):
        assert token not in text
    assert "2 with names" in call(command="doctor")[1]
    assert call("revoke", "gpu-1")[0] == 0
    code, _, err = call("revoke", "gpu-1")
    assert (code, "no token 'gpu-1'" in err) == (2, True)
    assert stat.S_IMODE(token_store_path(store).stat().st_mode) == 0o600


def test_doctor_says_whose_time_has_run_out_and_what_is_wrong(store: Path, call: Call) -> None:
    class Past:
        def now_s(self) -> float:
            return 1.0

    assert "copperline token make" in call(command="doctor")[1]
    ApiTokenStore(token_store_path(store), Past()).issue("old", "worker", expires_s=2.0)  # type: ignore[arg-type]
    assert "1 with names, 1 expired" in call(command="doctor")[1]
    assert "expired 1970" in call("list")[1]
    token_store_path(store).chmod(0o644)
    code, out, _ = call(command="doctor")
    assert code == 1
    assert "chmod 600" in out


@pytest.mark.soak
@pytest.mark.slow
def test_a_revoked_worker_ends_while_the_service_goes_on(tmp_path: Path, call: Call) -> None:
    """Real processes: a worker with its own token starts no program, is shown out, and ends."""
    store, canary = tmp_path / "sweeps.db", tmp_path / "canary"
    environment = {**os.environ, "COPPERLINE_STORE": str(store)}
    line = [sys.executable, "-m", "assistant.cli"]
    serve = subprocess.Popen(
        [*line, "serve", "--port", "0", "--allow-programs"], env=environment, stderr=subprocess.PIPE
    )
    try:
        url = _served(store)
        endpoint = find_endpoint(store)
        assert endpoint is not None
        owner = _client(url, endpoint.token)
        settings = {
            "runs": 2,
            "parameters": [{"name": "x", "levels": [1, 2]}],
            "objective": {"minimise": "wall_s"},
            "application": {"command": ["sh", "-c", f"touch {canary}", "sh", "{x}"]},
        }
        opened = owner.post("/v1/experiments", json={"settings": settings}).raise_for_status()
        at = f"/v1/experiments/{opened.json()['experiment']}"
        owner.post(f"{at}/suggestions", json={"n": 2}).raise_for_status()
        owner.post(f"{at}/batches/1/submission", json={}).raise_for_status()
        token = call("make", "gpu-1")[1].strip()
        work = [*line, "work", "--url", url]
        named = {**environment, "COPPERLINE_TOKEN": token}
        done = _done([*work, "--until-idle"], named)
        assert done.returncode == 0
        assert "does not execute" in done.stderr
        assert not canary.exists()
        done = _done([*work, "--until-idle", "--program", "sh"], named)
        assert "2 results sent" in done.stdout
        assert canary.exists()
        events = owner.get(f"{at}/events").json()["events"]
        workers = {one["worker"] for one in events if one["type"] == "RunStarted"}
        assert all(one.startswith("gpu-1/") for one in workers)
        idle = subprocess.Popen(work, env=named, stderr=subprocess.PIPE, text=True)
        try:
            assert call("revoke", "gpu-1")[0] == 0
            _, err = idle.communicate(timeout=240)
        finally:
            idle.kill()
        assert idle.returncode == 2
        assert "not valid" in err
        assert owner.get("/health").json()["status"] == "ok"
        owner.close()
    finally:
        serve.send_signal(signal.SIGTERM)
        _, told = serve.communicate(timeout=240)
    assert token.encode() not in told


def _done(line: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def _client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=240, trust_env=False)


def _served(store: Path, deadline_s: float = 240.0) -> str:
    until_s = time.monotonic() + deadline_s
    while time.monotonic() < until_s:
        endpoint = find_endpoint(store)
        if endpoint is not None:
            try:
                httpx.get(f"{endpoint.url}/health", trust_env=False).raise_for_status()
            except httpx.HTTPError:
                continue
            return endpoint.url
    raise AssertionError("the service did not start")
