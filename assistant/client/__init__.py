"""Speaking to a service: the same calls as on a `Session`, from elsewhere."""

from assistant.client.http_store import HttpStore
from assistant.client.link import Link
from assistant.client.remote import Execution, RemoteSession, open_remote, open_settings
from assistant.client.working import HttpClaims, Worker

__all__ = [
    "Execution",
    "HttpClaims",
    "HttpStore",
    "Link",
    "RemoteSession",
    "Worker",
    "open_remote",
    "open_settings",
]
