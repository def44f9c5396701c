"""No conversation outlasts a test, and none waits long before it asks again."""

import threading
from collections.abc import Iterator

import pytest

from assistant.applications import rest_client
from assistant.applications.rest_address import TOKEN
from tests.assistant.adapter import PATIENCE_S


@pytest.fixture(autouse=True)
def _nothing_is_left_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr(rest_client, "FIRST_PAUSE_S", 0.02)
    yield
    for thread in threading.enumerate():
        if thread.name == "copperline-rest":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
