"""A service in this process with a worker, for the script under Streamlit's own tester.

It is found as any other service is. Runs execute in a thread, so that a test does not wait for a
process to start; `copperline serve --execute` has tests with processes.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assistant.cli.commands.service import executor_of
from assistant.client.api import ApiClient
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.service.api_tokens import ApiTokenStore, Role, token_store_path
from assistant.service.app import make_service
from assistant.service.auth import RoleTokens
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.service.store_lock import StoreLock
from assistant.store.event_store import SqliteStore

LOOK_S = 0.02


@contextmanager
def housed(
    store: Path, *, executes: bool = True, works: bool = True
) -> Iterator[ExperimentService]:
    """Serve a store and execute what is started, if it ``works``, until the block ends."""
    key = StoreLock.take(store)
    assert key is not None, "somebody serves this store already"
    tokens, log = RoleTokens.of_owner(), ServiceLog(level="error")
    kept = SqliteStore(store)
    service = ExperimentService(kept, log, book=ApiTokenStore(token_store_path(store)))
    service.executes = executes
    app = make_service(service, tokens, log, look_after_s=LOOK_S)
    with HttpServer(app.asgi, bind(), log, drain=app.context.drain, drain_s=2) as server:
        token = tokens.by_role[Role.OWNER]
        key.publish(server.url, token)
        ended = threading.Event()
        link = ApiClient(server.url, token)
        worker = Worker(
            HttpLeaseSource(link, worker="test"), lambda lease: executor_of(link, lease)
        )

        def work() -> None:
            worker.work(ended.is_set, lambda _s: ended.wait(LOOK_S))

        thread = threading.Thread(target=work, name="test-worker", daemon=True)
        if works:
            thread.start()
        try:
            yield service
        finally:
            ended.set()
            if works:
                thread.join(120)
            link.close()
    kept.close()
    key.release()
