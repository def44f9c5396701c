"""The agreement: what may be spent. Every form of it maps to remaining runs."""

from dataclasses import dataclass

from assistant.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Sla:
    """The budget of an experiment.

    Args:
        max_runs: runs that may be executed in all, failed ones too; None is no limit.
    """

    max_runs: int | None = None

    def __post_init__(self) -> None:
        if self.max_runs is not None and self.max_runs < 1:
            raise SettingsError(f"the budget must be at least 1 run, not {self.max_runs}")

    def remaining_runs(self, used: int) -> int | None:
        """Return how many more runs may be submitted when ``used`` have been; None: no limit.

        >>> Sla(max_runs=60).remaining_runs(45)
        15
        """
        return None if self.max_runs is None else max(0, self.max_runs - used)
