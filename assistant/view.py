"""What can be read of an experiment that is being steered, wherever it is steered from.

All of it follows from the journal and the time. `assistant.session.Session` decides as well; a
client of a service reads the same from the events that the service sends.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from assistant.choosing import batch_size
from assistant.decisions import Keep
from assistant.ending import is_overdue, passed_limit
from assistant.experiment import Experiment
from assistant.forecast import forecast
from assistant.forecasts import Forecast
from assistant.recommendation import Recommendation, recommend
from assistant.what_if import Change, WhatIf, what_if
from strategies import Level, is_exhausted


class View(Protocol):
    """An experiment as far as it has come, and the time."""

    @property
    def experiment(self) -> Experiment:
        """The state, which is the fold over the journal."""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970-01-01 UTC."""

    @property
    def id(self) -> str:
        """The experiment's identifier in the store."""
        return self.experiment.opened.experiment_id

    @property
    def remaining_runs(self) -> int | None:
        """Runs that may still be submitted; None without a limit."""
        return self.experiment.remaining_runs

    @property
    def batch_size(self) -> int:
        """Suggestions at a time that suit the strategy and the runs that execute at once."""
        return batch_size(self.experiment)

    @property
    def is_exhausted(self) -> bool:
        """Whether every allowed configuration has been proposed or run."""
        return is_exhausted(self.experiment.knowledge)

    def is_overdue(self) -> bool:
        """Whether the deadline has passed; false without one."""
        return is_overdue(self.experiment, self.now_s())

    def passed_limit(self) -> str | None:
        """Say which limit of the agreement is used up by now: deadline or cost; None if neither.

        Limits of the number of runs are kept where runs are submitted.
        """
        return passed_limit(self.experiment, self.now_s())

    def is_over_limit(self) -> bool:
        """Whether nothing more should be started: the deadline has passed or the cost is used up.

        It is what `run_queued` may be given as ``stop``.
        """
        return self.passed_limit() is not None

    def recommendation(self) -> Recommendation | None:
        """Say what to take and how sure that is; None while nothing meets every constraint."""
        return recommend(self.experiment)

    def forecast(self) -> Forecast:
        """Say what comes of the experiment, now: the goal, the runs and the time that are left."""
        return forecast(self.experiment, self.now_s())

    def what_if(
        self,
        *,
        exploitation: float | Keep | None = "keep",
        max_runs: int | None = None,
        deadline_s: float | None = None,
        max_cost: float | None = None,
        goal: float | Literal["none"] | None = None,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        close: Iterable[tuple[str, Level]] = (),
        weights: Iterable[tuple[int, float]] = (),
    ) -> WhatIf:
        """Say what a change would come to, and change nothing. What is None stays as it is.

        Args:
            exploitation: share inside regions; None does not split.
            max_runs: runs in all.
            deadline_s: seconds since 1970-01-01 UTC.
            max_cost: in all, by the tariff.
            goal: value of the first measure; "none" for no goal.
            strategy: a registered name, with its ``options``.
            options: of the strategy.
            close: parameters with a level that is proposed no more.
            weights: regions by their number, with how much each counts.

        Raises:
            AssistantError, StrategyError: what the change itself would be refused for.
        """
        return what_if(
            self.experiment,
            self.now_s(),
            Change(
                exploitation, max_runs, deadline_s, max_cost, goal, strategy,
                dict(options or {}), tuple(close), tuple(weights),
            ),
        )  # fmt: skip
