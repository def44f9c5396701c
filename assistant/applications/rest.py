"""Any program that speaks HTTP as an application, in whatever language it is written.

Either Copperline calls it for every run (``url``, the push form: `rest_call` is the conversation),
or it comes for its runs itself (no ``url``, the pull form: the service hands them out).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from assistant.applications.command import check_today
from assistant.applications.measures import WALL, measures_of
from assistant.applications.rest_address import check_url
from assistant.core.errors import ApplicationError, RunError
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective
from assistant.core.ports import RunControl
from sim.api import format_duration
from strategies import Level, ParameterSpace


@dataclass(frozen=True)
class Rest:
    """Ask a program over HTTP for every run.

    Args:
        space: the parameters.
        objective: what is wanted of the measures; `WALL` is how long the run took.
        url: where a run is asked for, on this machine or over https; None if the program comes
            for its runs itself.
        baseline: today's configuration.
        limit_s: wall-clock seconds per run; no limit if None.
        noisy: whether it gives other results for the same values; None if unknown.

    The token in $COPPERLINE_ADAPTER_TOKEN, if there is one, goes with every request; it is read
    where the run is made and kept nowhere.

    Raises:
        ApplicationError: the address is none, or leaves this machine unencrypted.
        SpaceError: today's configuration is no point of the space.
    """

    space: ParameterSpace
    objective: Objective
    url: str | None = None
    baseline: Mapping[str, Level] | None = None
    limit_s: float | None = None
    noisy: bool | None = None

    name = "rest"
    measures = None

    def __post_init__(self) -> None:
        if self.url is not None:
            check_url(self.url)
        if self.limit_s is not None and not self.limit_s > 0:
            raise ApplicationError(f"the limit of a run is above 0 s, not {self.limit_s}")
        check_today(self.space, self.baseline)

    @property
    def deterministic(self) -> bool | None:
        """Whether the same values give the same result, as its user said; None if unknown."""
        return None if self.noisy is None else not self.noisy

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Where the program is reached, and what a run is allowed."""
        limit = "none" if self.limit_s is None else f"{format_duration(self.limit_s)} a run"
        return (
            Fact("Program", self.url or "asks for its runs itself, over HTTP"),
            Fact("Limit", limit),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Ask the program for one run.

        Raises:
            RunError: it is not reached, fails, does not answer in time, or gives no measures.
        """
        return self.evaluate_watched(values, seed, None, _NullRunControl())

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Ask the program for one run, as `evaluate` does, for at most so many seconds.

        The tighter of this limit and the application's own holds.
        """
        return self.evaluate_watched(values, seed, limit_s, _NullRunControl())

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        """Ask the program for one run; tell what it has measured so far, end it if that is wanted.

        Raises:
            StoppedError: the oversight wanted its end.
            RunError: as `evaluate`.
        """
        if self.url is None:
            raise RunError(
                "runs of this experiment are made by the program that registered it: it asks the "
                "service for them, and nobody else can make them"
            )
        from assistant.applications.rest_client import (
            request_run,  # asyncio, for whoever makes such runs
        )

        own_s = self.limit_s
        tighter_s = min((s for s in (own_s, limit_s) if s is not None), default=None)
        started_s = time.perf_counter()
        answer = request_run(self.url, values, seed, tighter_s, oversight)
        measures = measures_of(answer, self.objective, "the program")
        if WALL in self.objective.measures:
            measures.setdefault(WALL, time.perf_counter() - started_s)
        return measures


class _NullRunControl:
    """Nobody watches."""

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Do nothing with it."""

    def wants_end(self) -> bool:
        """Want nothing."""
        return False
