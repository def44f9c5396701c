"""How long a supervisor waits for the service that it starts; no service is started here."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from assistant.core.errors import ServiceError
from assistant.service import store_connection
from assistant.service.store_connection import ServiceSupervisor

PATIENCE_S = 0.1


@pytest.fixture
def supervisor(tmp_path: Path) -> ServiceSupervisor:
    return ServiceSupervisor(tmp_path / "store.db")


def child_that(does: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", does])


def test_a_service_whose_process_lives_is_waited_for(
    supervisor: ServiceSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_that("import time; time.sleep(60)")
    monkeypatch.setattr(supervisor, "_started", lambda _: child)
    monkeypatch.setattr(store_connection, "STARTING_S", 6 * PATIENCE_S)
    began_s = time.monotonic()
    try:
        with pytest.raises(ServiceError, match="no service started"):
            supervisor.reach(PATIENCE_S)
    finally:
        child.kill()
        child.wait()
    assert time.monotonic() - began_s >= 6 * PATIENCE_S


def test_a_service_that_dies_is_not(
    supervisor: ServiceSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_that("")
    child.wait()
    monkeypatch.setattr(supervisor, "_started", lambda _: child)
    with pytest.raises(ServiceError, match="copperline serve --execute"):
        supervisor.reach(PATIENCE_S)  # five minutes otherwise
