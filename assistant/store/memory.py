"""A store that lasts as long as the process."""

from collections.abc import Sequence

from assistant.errors import GoneOnError, StoreError, TakenNameError, UnknownExperimentError
from assistant.events import Event, ExperimentOpened
from assistant.ports import StoredExperiment


class MemoryStore:
    """Keeps journals in a dictionary; what it returns is a copy."""

    def __init__(self) -> None:
        self._journals: dict[str, list[Event]] = {}

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events at ``position``. Raises StoreError if that is not the journal's end."""
        length = len(self._journals.get(experiment_id, []))
        check_position(experiment_id, position, length)
        self._journals.setdefault(experiment_id, []).extend(events)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the journal from ``since`` on. Raises StoreError for an unknown experiment."""
        if experiment_id not in self._journals:
            raise unknown_experiment(experiment_id, list(self._journals))
        return tuple(self._journals[experiment_id][since:])

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """Return what is stored, latest first."""
        opened = [
            StoredExperiment(experiment_id, first.name, first.at_s, len(journal))
            for experiment_id, journal in self._journals.items()
            if isinstance(first := journal[0], ExperimentOpened)
        ]
        return tuple(sorted(opened, key=lambda e: e.opened_s, reverse=True))


def check_position(experiment_id: str, position: int, length: int) -> None:
    """Refuse an append that does not continue the journal."""
    if position == length:
        return
    if position == 0:
        raise TakenNameError(
            f"there is an experiment '{experiment_id}' already; choose another name"
        )
    raise GoneOnError(
        f"experiment '{experiment_id}' has gone on elsewhere: its journal holds {length} events, "
        f"this session knows {position}; load it again"
    )


def unknown_experiment(experiment_id: str, known: Sequence[str]) -> StoreError:
    """Return the error for an experiment that is not stored."""
    names = ", ".join(sorted(known)[:10]) if known else "none is stored"
    return UnknownExperimentError(f"no experiment '{experiment_id}'; known: {names}")
