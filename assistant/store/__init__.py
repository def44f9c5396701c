"""Where journals are kept. Every store passes one contract suite."""

from assistant.store.claim import Claim
from assistant.store.memory import MemoryStore, check_position
from assistant.store.queue import RunQueue
from assistant.store.sqlite import SqliteStore

STORES = (MemoryStore, SqliteStore)

__all__ = ["STORES", "Claim", "MemoryStore", "RunQueue", "SqliteStore", "check_position"]
