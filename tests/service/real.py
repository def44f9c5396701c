"""The real service on a socket, over a small experiment; and what a client does with it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from assistant import Session, Sla
from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.service.app import ServiceApp, make_service
from assistant.service.auth import RoleTokens
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.session.opening import open_session
from assistant.store.event_store import SqliteStore
from tests.assistant.examples import Bowl

TOKENS = RoleTokens({role: f"{role}-" + "0123456789abcdef" * 4 for role in Role})
NAME = "bowl"
AT = f"/v1/experiments/{NAME}"


@dataclass
class Real:
    """A service that runs, its house, and its log."""

    server: HttpServer
    app: ServiceApp
    service: ExperimentService
    lines: io.StringIO
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def client(self, role: Role = Role.OWNER) -> httpx.Client:
        """Return a client with the token of a role."""
        return self.client_with(TOKENS.by_role[role])

    def client_with(self, token: str) -> httpx.Client:
        """Return a client with any token."""
        headers = {"Authorization": f"Bearer {token}"}
        made = httpx.Client(base_url=self.url, headers=headers, timeout=120, trust_env=False)
        self.clients.append(made)
        return made

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def session(self) -> Session:
        return self.service.session(NAME)


@contextmanager
def serving(
    folder: Path, *, port: int = 0, look_after_s: float = 0.02, book: ApiTokenStore | None = None
) -> Iterator[Real]:
    """Serve the store of a folder; called again it goes on with what is there."""
    lines = io.StringIO()
    log = ServiceLog(lines, level="debug")
    store = SqliteStore(folder / "store.db")
    service = ExperimentService(store, log, book=book, files=folder)
    app = make_service(service, TOKENS, log, look_after_s=look_after_s)
    server = HttpServer(app.asgi, bind(port=port), log, drain=app.context.drain, drain_s=3)
    real = Real(server, app, service, lines)
    try:
        with server:
            yield real
    finally:
        for one in real.clients:
            one.close()
        store.close()


def with_runs(real: Real, n: int = 5, **more: Any) -> Session:
    """Open the experiment with so many runs that wait, and let workers have them."""
    open_session(
        Bowl(), store=real.service.store, sla=Sla(500), strategy="random",
        experiment_id=more.pop("name", NAME), **more,
    )  # fmt: skip
    session = real.service.session(NAME)
    if n:
        session.submit(session.suggest(n))
    real.service.queue.set_active(NAME, True)
    return session


def emptied(real: Real) -> Real:
    """Forget all that a service knows, which is quicker than to begin another."""
    store = real.service.store
    with real.service._loading:
        with store.transaction("normal") as connection:
            for table in ("lease", "attempt", "reply", "output", "run", "experiment", "event"):
                connection.execute(f"DELETE FROM {table}")
        real.service._sessions.clear()
        real.service._views._views.clear()
        store._known.cache_clear()
    real.lines.seek(0)
    real.lines.truncate()
    return real


def leased(client: httpx.Client, worker: str = "w", lease_s: float = 30.0, **more: Any) -> Any:
    """Claim a run, which there must be."""
    answer = client.post("/v1/leases", json={"worker": worker, "lease_s": lease_s}, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def result(client: httpx.Client, token: str, height: Any = 1.0) -> httpx.Response:
    """Tell the result of a claim."""
    body = {"measures": {"height": height}, "duration_s": 1.5}
    return client.post(f"/v1/leases/{token}/result", json=body)


def refused(answer: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """Check that it is a refusal of this status whose sentence has these words."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    for word in words:
        assert word in told["detail"], told
    return told


def event_log(client: httpx.Client, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of the experiment, of one type if it is named."""
    events = client.get(f"{AT}/events", params={"limit": 100_000}).json()["events"]
    return [one for one in events if kind in (None, one["type"])]
