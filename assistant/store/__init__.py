"""Stores of event logs, the queue of runs and backups. Every store passes one contract suite."""

from assistant.store.event_store import MemoryStore, SqliteStore

STORES = (MemoryStore, SqliteStore)
