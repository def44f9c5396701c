"""A service in this process with a worker, for the script under Streamlit's own tester.

It is found as any other service is. Runs execute in a thread, so that a test does not wait for a
process to start; `copperline serve --execute` has tests with processes.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assistant.cli.service import executor_of
from assistant.client import HttpClaims, Link, Worker
from assistant.service.app import make_service
from assistant.service.auth import Role, Tokens
from assistant.service.endpoint import Key
from assistant.service.house import House
from assistant.service.logs import Log
from assistant.service.server import Server, bind
from assistant.service.token_book import TokenBook, book_path
from assistant.store import SqliteStore

LOOK_S = 0.02


@contextmanager
def housed(store: Path, *, executes: bool = True) -> Iterator[House]:
    """Serve a store and execute what is started, until the block ends."""
    key = Key.take(store)
    assert key is not None, "somebody serves this store already"
    tokens, log = Tokens.of_owner(), Log(level="error")
    kept = SqliteStore(store)
    house = House(kept, log, book=TokenBook(book_path(store)))
    house.executes = executes
    service = make_service(house, tokens, log, look_after_s=LOOK_S)
    with Server(service.asgi, bind(), log, drain=service.context.drain, drain_s=2) as server:
        token = tokens.by_role[Role.OWNER]
        key.publish(server.url, token)
        ended = threading.Event()
        link = Link(server.url, token)
        worker = Worker(HttpClaims(link, worker="test"), lambda claim: executor_of(link, claim))

        def work() -> None:
            worker.work(ended.is_set, lambda _s: ended.wait(LOOK_S))

        thread = threading.Thread(target=work, name="test-worker", daemon=True)
        thread.start()
        try:
            yield house
        finally:
            ended.set()
            thread.join(10)
            link.close()
    kept.close()
    key.release()
