"""Stores of event logs, the queue of runs, and backups. All stores pass the same tests."""

from assistant.store.event_store import MemoryStore, SqliteStore

STORES = (MemoryStore, SqliteStore)
