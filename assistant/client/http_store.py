"""A store that another process keeps: journals through its service, so that one process writes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from assistant.client.link import Link
from assistant.codec import decode_event, encode_event
from assistant.events import Event
from assistant.ports import StoredExperiment

PAGE = 10_000


class HttpStore:
    """The store of a service, for sessions that live in this process.

    Needs the token of the owner: whoever may read the store's own folder.

    Args:
        link: to the service.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """See `Store.append`. Raises ServiceError if the service does not answer."""
        body = {
            "position": position,
            "events": [json.loads(encode_event(event)) for event in events],
        }
        self._link.change("POST", f"/v1/experiments/{experiment_id}/journal", body)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """See `Store.load`. Raises ServiceError if the service does not answer."""
        events: list[Event] = []
        path = f"/v1/experiments/{experiment_id}/events"
        while True:
            page = self._link.get(path, since=since + len(events), limit=PAGE)
            events += [decode_event(json.dumps(one)) for one in page["events"]]
            if not page["more"]:
                return tuple(events)

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """See `Store.experiments`. Raises ServiceError if the service does not answer."""
        return tuple(
            StoredExperiment(one["experiment"], one["name"], one["opened_s"], one["events"])
            for one in self._link.get("/v1/experiments")
        )

    def close(self) -> None:
        """End the connection."""
        self._link.close()
