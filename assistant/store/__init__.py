"""Where journals are kept. Every store passes one contract suite."""

from assistant.store.event_store import MemoryStore, SqliteStore

STORES = (MemoryStore, SqliteStore)
