"""The agreement: what may be spent, how it is watched, and how runs are chosen.

Every form of the agreement maps to remaining runs.
"""

from dataclasses import dataclass, field
from typing import Literal

from assistant.errors import SettingsError
from strategies import DEFAULT_STRATEGY, RegionRule

Pending = Literal["queued", "near", "box", "plan"]
"""What counts as pending in the paper's rule, which leaves it open (section 3.2): runs that wait in
a region; allowed configurations without a run near its members, or in its box; or, wherever it
lies, what is left of the range of values that the analyst submitted as her plan (section 2.2)."""

PENDING: tuple[Pending, ...] = ("near", "queued", "box", "plan")


@dataclass(frozen=True, slots=True)
class Sla:
    """The budget of an experiment. Both limits may hold at once; the tighter one counts.

    Args:
        max_runs: runs that may be executed in all, failed ones too; None is no limit.
        deadline_s: when the last run must be over, in seconds since 1970-01-01 UTC; None is none.
    """

    max_runs: int | None = None
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_runs", "deadline_s"):
            _number(name, getattr(self, name))
        if isinstance(self.max_runs, float):
            raise SettingsError(f"max_runs is a whole number or None, not {self.max_runs!r}")
        if self.max_runs is not None and self.max_runs < 1:
            raise SettingsError(f"the budget must be at least 1 run, not {self.max_runs}")
        if self.deadline_s is not None and not 0 < self.deadline_s < float("inf"):
            raise SettingsError(f"the deadline must be a moment in time, not {self.deadline_s}")

    def remaining_runs(self, used: int) -> int | None:
        """Return how many more runs may be submitted when ``used`` have been; None: no limit.

        >>> Sla(max_runs=60).remaining_runs(45)
        15
        """
        return None if self.max_runs is None else max(0, self.max_runs - used)

    def runs_until_deadline(
        self, now_s: float, mean_duration_s: float | None, workers: int
    ) -> int | None:
        """Return how many runs can be over by the deadline, ``workers`` at a time.

        None if there is no deadline, or if no run has ended yet and a duration is unknown.

        >>> Sla(deadline_s=1000.0).runs_until_deadline(400.0, 60.0, workers=2)
        20
        """
        if self.deadline_s is None:
            return None
        if self.deadline_s <= now_s:
            return 0
        if mean_duration_s is None:
            return None
        if mean_duration_s <= 0:
            return None
        return int((self.deadline_s - now_s) / mean_duration_s) * workers


@dataclass(frozen=True, slots=True)
class Watch:
    """How regions and pending runs are counted, and from when warnings are given.

    Args:
        regions: which observations are good, and how they are clustered.
        pending: what counts as pending in a region.
        warn_from: share of the runs of the budget after which warnings begin. The paper's own
            evaluation uses 0.7; 0 warns as soon as there is a region.
        advised: exploitation level that a warning proposes (the paper leaves it to the analyst).
    """

    regions: RegionRule = field(default_factory=RegionRule)
    pending: Pending = "near"
    warn_from: float = 0.0
    advised: float = 0.7

    def __post_init__(self) -> None:
        if self.pending not in PENDING:
            raise SettingsError(
                f"pending runs are counted as {', '.join(PENDING)}, not '{self.pending}'"
            )
        for name in ("warn_from", "advised"):
            _number(name, getattr(self, name))
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingsError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Steering:
    """How the next suggestions are chosen.

    Args:
        strategy: a registered strategy's name.
        options: of that strategy.
        exploitation: share of the suggestions inside regions (section 3.2); None does not split.
    """

    strategy: str = DEFAULT_STRATEGY
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    exploitation: float | None = None

    def __post_init__(self) -> None:
        _number("the exploitation level", self.exploitation)
        if self.exploitation is not None and not 0.0 <= self.exploitation <= 1.0:
            raise SettingsError(
                f"the exploitation level is a share from 0 to 1, not {self.exploitation}"
            )

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        text = f"{self.strategy} ({options})" if options else self.strategy
        split = self.exploitation
        return text if split is None else f"{text}, exploitation {split:g}"


def _number(name: str, value: object) -> None:
    """Refuse what is neither a number nor None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SettingsError(f"{name} is a number or None, not {value!r}")
