"""Statistics of an AI platform, fitted to its own logs; the shells come to them through here."""

from dataclasses import dataclass

from assistant.errors import SettingsError
from sim.aiops.logs import Logs, fit_statistics, read_logs, told_by
from sim.api import Model, save_model

MOST_COMPONENTS = 200


@dataclass(frozen=True)
class FittedPlatform:
    """A model of a platform, and what it took from the log in sentences."""

    model: Model
    sentences: tuple[str, ...]


def fit_platform(logs: Logs, name: str, *, components: int, seed: int) -> FittedPlatform:
    """Fit the statistics of a platform.

    Args:
        logs: of executed tasks, from `read_logs`.
        name: of the log, for people.
        components: of the mixture of data sets, at most.
        seed: of where searches begin.

    Raises:
        SettingsError: a number of components or a seed that cannot be.
        SimError: the log tells too little.
    """
    if not 1 <= components <= MOST_COMPONENTS:
        raise SettingsError(
            f"--components {components}: allowed are whole numbers from 1 to {MOST_COMPONENTS}"
        )
    if not 0 <= seed < 2**32:
        raise SettingsError(f"--seed {seed}: allowed are whole numbers from 0 to {2**32 - 1}")
    source = f"fitted to {len(logs):,} executed tasks of {name}"
    found = fit_statistics(logs, source=source, components=components, seed=seed)
    return FittedPlatform(found.model(), told_by(logs, found))


__all__ = ["FittedPlatform", "Logs", "fit_platform", "read_logs", "save_model"]
