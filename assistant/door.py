"""The door to a store: straight to the file, or to the process that serves it.

One process at a time writes a store, the one that holds its key. Who comes while another serves
speaks to it; who comes first takes the key, and serves while it stays (`serving`). Whether a
command, a browser or a service came first makes no difference to what they can do.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from assistant.client import HttpStore, Link
from assistant.client.link import TRIES
from assistant.errors import ServiceError
from assistant.events import Event
from assistant.ports import StoredExperiment
from assistant.service.endpoint import Endpoint, Key, find
from assistant.store import SqliteStore

T = TypeVar("T")


class KeptStore(SqliteStore):
    """A file of journals whose key this process holds until it is closed; None if it has none."""

    def __init__(self, path: Path, key: Key | None) -> None:
        self.key = key
        if key is not None:
            weakref.finalize(self, key.release)  # for whoever forgets to close it
        try:
            super().__init__(path)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Close the file and give the key back."""
        super().close()
        self._release()

    def _release(self) -> None:
        if self.key is not None:
            self.key.release()
            self.key = None


class Reached:
    """A store that is reached whichever way there is: the service may end, or another begin.

    Args:
        path: of the store.
        take_key: whether this process may hold the key while nobody else serves.
    """

    def __init__(self, path: Path, *, take_key: bool = True) -> None:
        self._path, self._take_key = path, take_key
        self.inner = self._reach()

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """See `Store.append`."""
        self._do(lambda store: store.append(experiment_id, position, events))

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """See `Store.load`."""
        return self._do(lambda store: store.load(experiment_id, since))

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """See `Store.experiments`."""
        return self._do(lambda store: store.experiments())

    def close(self) -> None:
        """Close the file or the connection."""
        self.inner.close()

    def _do(self, ask: Callable[[KeptStore | HttpStore], T]) -> T:
        try:
            return ask(self.inner)
        except ServiceError:
            if isinstance(self.inner, HttpStore) and find(self._path) is None:
                self.inner.close()
                self.inner = self._reach()  # whoever served has ended
                return ask(self.inner)
            raise

    def _reach(self) -> KeptStore | HttpStore:
        endpoint = find(self._path)
        if endpoint is not None:
            return HttpStore(link_to(self._path, endpoint))
        return KeptStore(self._path, Key.take(self._path) if self._take_key else None)


def open_store(path: Path, *, take_key: bool = True) -> Reached:
    """Return the store at a path: through the service that runs, else the file itself.

    A process that holds the key and does not serve (a short command) does not keep others out:
    each append is a transaction of its own, and sessions catch up with one another.

    Raises:
        StoreError: it cannot be read; ServiceError: the service that runs does not answer.
    """
    return Reached(path, take_key=take_key)


def link_to(path: Path, endpoint: Endpoint, tries: int = TRIES) -> Link:
    """Return a connection to the service of a store, which finds it again after a restart.

    Args:
        path: of the store.
        endpoint: where it is served now.
        tries: how often a request is sent while no answer comes; 6 last about 3 s.
    """

    def again() -> tuple[str, str] | None:
        there = find(path)
        return None if there is None else (there.url, there.token)

    return Link(endpoint.url, endpoint.token, find=again, tries=tries)


@contextlib.contextmanager
def serving(path: Path) -> Iterator[Reached]:
    """Hold a store for long: others reach it through this process meanwhile.

    Where a service runs already, that one is used.

    Raises:
        StoreError: it cannot be read; ServiceError: the service that runs does not answer.
    """
    store = open_store(path)
    try:
        with contextlib.ExitStack() as stack:
            kept = store.inner
            if isinstance(kept, KeptStore) and kept.key is not None:
                stack.enter_context(_private(kept, kept.key))
            yield store
    finally:
        store.close()


@contextlib.contextmanager
def _private(store: SqliteStore, key: Key) -> Iterator[None]:
    """Serve a store on the loopback, to whoever may read its folder."""
    from assistant.service.app import make_service
    from assistant.service.auth import Role, Tokens
    from assistant.service.house import House
    from assistant.service.logs import Log
    from assistant.service.server import Server, bind
    from assistant.service.token_book import TokenBook, book_path

    tokens, log = Tokens.of_owner(), Log(level="error")
    house = House(store, log, book=TokenBook(book_path(key.store)))
    service = make_service(house, tokens, log, alone=False)
    with Server(service.asgi, bind(), log, drain=service.context.drain, drain_s=2) as server:
        key.publish(server.url, tokens.by_role[Role.OWNER])
        try:
            yield
        finally:
            key.withdraw()


def needs_service(path: Path) -> Link:
    """Return a connection to the service of a store. Raises ServiceError if none runs."""
    endpoint = find(path)
    if endpoint is None:
        raise ServiceError(
            f"no service runs for the store '{path}'; start one with: copperline serve"
        )
    return link_to(path, endpoint)
