"""An application that is an external program, in any language, reached over HTTP.

Push form (``url``): Copperline calls the program for every run, see `rest_client`. Pull form (no
``url``): the program is an external client that takes its runs from the service.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from assistant.applications.measures import WALL, measures_of
from assistant.applications.program import check_baseline
from assistant.applications.rest_address import check_url
from assistant.core.errors import ApplicationError, RunError
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective
from assistant.core.ports import RunControl
from sim.api import format_duration
from strategies import Level, ParameterSpace


@dataclass(frozen=True)
class Rest:
    """An application whose runs are executed by an external program over HTTP.

    Args:
        objective: objective over its measures; `WALL` is the duration of a run.
        url: address for runs, on this machine or over https; None if the program takes its runs
            itself.
        limit_s: wall-clock seconds per run; no limit if None.
        noisy: whether equal values give different results; None if unknown.

    The token in $COPPERLINE_ADAPTER_TOKEN, if set, goes with every request; it is read where the
    run is executed and never stored.

    Raises:
        ApplicationError: the address is invalid, or leaves this machine unencrypted.
        SpaceError: the baseline is not a point of the space.
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
            raise ApplicationError(f"the limit of a run must be above 0 s, not {self.limit_s}")
        check_baseline(self.space, self.baseline)

    @property
    def deterministic(self) -> bool | None:
        """Whether equal parameter values give equal results, or None if the user did not say."""
        return None if self.noisy is None else not self.noisy

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The address of the program and the time limit of a run, for display."""
        limit = "none" if self.limit_s is None else f"{format_duration(self.limit_s)} a run"
        return (
            Fact("Program", self.url or "external client, takes its runs over HTTP"),
            Fact("Limit", limit),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Execute one run over HTTP. Raises RunError if no measures arrive in time."""
        return self.evaluate_watched(values, seed, None, _NullRunControl())

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Execute one run, within ``limit_s`` or its own time limit if that is shorter."""
        return self.evaluate_watched(values, seed, limit_s, _NullRunControl())

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        """Execute one run, report its intermediate results, and end it early on request.

        Raises:
            StoppedError: the run control ended the run.
            RunError: as `evaluate`.
        """
        if self.url is None:
            raise RunError(
                "only the external client that registered this experiment can execute its runs; it "
                "takes them from the service"
            )
        from assistant.applications.rest_client import request_run

        own_s = self.limit_s
        tighter_s = min((s for s in (own_s, limit_s) if s is not None), default=None)
        started_s = time.perf_counter()
        answer = request_run(self.url, values, seed, tighter_s, oversight)
        measures = measures_of(answer, self.objective, "the program")
        if WALL in self.objective.measures:
            measures.setdefault(WALL, time.perf_counter() - started_s)
        return measures


class _NullRunControl:
    """A run control that ignores results and never ends a run."""

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Ignore an intermediate result."""

    def wants_end(self) -> bool:
        """Return False, as no run is ended early."""
        return False
