"""Parts of a simulated episode: random streams, true qualities, simulated clock and executor."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from assistant import Application, AssistantError, Executor, Run, Session
from assistant.core.errors import RunError
from assistant.core.ports import ExecutionRequest, ExecutionResult, ReportListener

Purpose = Literal["insight", "intuition", "advice", "session", "bootstrap"]

NUMBERS: dict[Purpose, int] = {
    "insight": 0,
    "intuition": 1,
    "advice": 2,
    "session": 3,
    "bootstrap": 4,
}


@dataclass(frozen=True, slots=True)
class EpisodeStreams:
    """Independent random streams of one episode, one per purpose such as ``insight``."""

    entropy: tuple[int, ...]  # entropy of the study's cell: whole numbers from 0 on
    replication: int = 0  # number of the independent repetition, from 0 on

    def sequence(self, purpose: Purpose) -> np.random.SeedSequence:
        """Return the NumPy seed sequence of the random stream for a purpose."""
        key = (self.replication, NUMBERS[purpose])
        return np.random.SeedSequence(self.entropy, spawn_key=key)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        """Return a new NumPy generator at the beginning of the random stream for a purpose."""
        return np.random.default_rng(self.sequence(purpose))

    @property
    def session_seed(self) -> int:
        """Seed of the session's experiment: a 63-bit number derived from the stream ``session``."""
        return int(self.sequence("session").generate_state(1, np.uint64)[0] >> np.uint64(1))


def below(u: float, n: int) -> int:
    """Map a random number u in [0, 1) to a whole number from 0 to ``n`` - 1.

    >>> below(0.0, 3), below(0.5, 3), below(1 - 2**-53, 3)
    (0, 1, 2)
    """
    return min(int(u * n), n - 1)


MOST = 1_000_000  # Most configurations of a space that is evaluated completely


@dataclass(frozen=True, eq=False)
class Truth:
    """Parameter space with the true quality of every configuration, hidden from strategies."""

    application: Application  # a measured table, or another fast and deterministic application
    # float64 [size], maximised (`Objective` handles the sign), NaN where a run fails
    quality: NDArray[np.float64]
    level_ids: NDArray[np.int64]  # int64 [size, parameters]

    @classmethod
    def of(cls, application: Application) -> "Truth":
        """Evaluate every configuration of an application once and return the qualities.

        Raises:
            AssistantError: results vary, the space has exclusions, closed levels or more than
                1,000,000 configurations, or every run fails.
        """
        space, objective = application.space, application.objective
        where = f"the space of application '{application.name}'"
        if not getattr(application, "deterministic", None):
            raise AssistantError(
                f"application '{application.name}' may give varying results; a study "
                "needs a measured table (copperline tabulate makes one)"
            )
        if space.exclusions or space.closed:
            raise AssistantError(f"{where} has exclusions or closed levels; leave them out")
        if space.size > MOST:
            raise AssistantError(f"{where} has {space.size:,} configurations; at most {MOST:,}")
        quality = np.full(space.size, np.nan)
        for index in range(space.size):
            values = space.values(space.configuration(index))
            try:
                quality[index] = objective.assess(application.evaluate(values, 0)).quality
            except RunError:
                continue
        if np.isnan(quality).all():
            raise AssistantError(f"every run of {where} fails; there is nothing to find")
        n_levels = tuple(parameter.n_levels for parameter in space.parameters)
        level_ids = np.stack(np.unravel_index(np.arange(space.size), n_levels), axis=1)
        quality.flags.writeable = level_ids.flags.writeable = False
        return cls(application, quality, level_ids.astype(np.int64))

    @property
    def space(self) -> Any:  # a ParameterSpace of strategies, which agents do not import
        """Parameter space of the application."""
        return self.application.space

    @property
    def size(self) -> int:
        """Number of configurations in the parameter space."""
        return int(self.quality.size)

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each parameter."""
        return tuple(parameter.n_levels for parameter in self.application.space.parameters)

    @cached_property
    def ranked(self) -> NDArray[np.int64]:
        """Flat indices of the configurations with a result, best first."""
        measured = np.flatnonzero(~np.isnan(self.quality))
        order = np.argsort(-self.quality[measured], kind="stable")
        return measured[order].astype(np.int64)

    @property
    def optimum(self) -> float:
        """Best quality of any configuration."""
        return float(self.quality[self.ranked[0]])

    def reached_by(self, share: float) -> float:
        """Return the quality that the best `share` of the measured configurations reach."""
        place = max(0, math.ceil(share * self.ranked.size) - 1)
        return float(self.quality[self.ranked[place]])

    def ratio(self, quality: float) -> float | None:
        """Return the ratio of a quality to the optimum, at most 1 (Copper paper, section 4.3).

        At most 1; for a minimised objective it is optimum / result. None unless both are above 0.
        """
        objective = self.application.objective
        value, best = objective.value_of(quality), objective.value_of(self.optimum)
        if value <= 0 or best <= 0:
            return None
        return best / value if objective.goal == "minimise" else value / best


@dataclass(frozen=True, slots=True)
class ClusteringAdvice:
    """Advice to run inside regions (Copper paper, section 3.2): after how many runs, what share.

    Args:
        after: submitted runs when it is due: 70 % of the budget in the paper.
        exploitation: share of the later suggestions inside regions of good results, from 0 to 1.
    """

    after: int
    exploitation: float

    def __post_init__(self) -> None:
        if type(self.after) is not int or self.after < 0:
            raise AssistantError(
                f"the level is set after a whole number of runs, not {self.after!r}"
            )
        if not 0 <= self.exploitation <= 1:
            raise AssistantError(
                f"an exploitation level is a share from 0 to 1, not {self.exploitation!r}"
            )


def nobody_waits(seconds: float) -> None:
    """Return at once without waiting: the wait function of episodes without a simulated clock."""


def never(run: Run) -> bool:  # noqa: ARG001 - of no run
    """Return False, as the default stopping condition of an episode."""
    return False


@dataclass(frozen=True, slots=True)
class AnalystEpisode:
    """Settings of one episode: space, random streams, run limit and stopping condition.

    Args:
        truth: the space; analysts use its shape and, for their insight, its ranks.
        streams: random streams by name.
        max_runs: most runs that may be submitted in all.
        until: stopping condition; the episode ends with the round of a run that meets it.
        clustering: advice that is due at a fixed time; None for none.
        wait: function that lets simulated seconds pass.
    """

    truth: Truth
    streams: EpisodeStreams
    max_runs: int
    until: Callable[[Run], bool] = never
    clustering: ClusteringAdvice | None = None
    wait: Callable[[float], None] = field(default=nobody_waits)


class Agent(Protocol):
    """Protocol of simulated analysts, which submit the runs of a session during an episode."""

    @property
    def name(self) -> str:
        """Registered name of the kind of analyst."""

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Submit runs to a new session until the episode ends, and return the reason as text.

        It submits at most ``episode.max_runs`` runs, through the session only, draws from
        ``episode.streams`` only, and stops after the round in which ``episode.until`` was true of
        a run. The same streams give the same event log.
        """


EPOCH_S = 1_000_000_000.0
"""Start of a simulated clock, in seconds since 1970-01-01 UTC; arbitrary, but fixed."""


class SimulatedClock:
    """Clock whose time advances only when a caller waits.

    >>> clock = SimulatedClock()
    >>> clock.wait(3600.0)
    >>> clock.now_s() - EPOCH_S
    3600.0
    """

    def __init__(self) -> None:
        self._now_s = EPOCH_S

    def now_s(self) -> float:
        """Return the simulated time in seconds since 1970-01-01 UTC."""
        return self._now_s

    def wait(self, seconds: float) -> None:
        """Advance the simulated time by a number of seconds."""
        self._now_s += seconds


class SimulatedExecutor:
    """Executor that performs one run at a time on a simulated clock.

    A run moves the clock on by its measure ``duration_s``, or by ``run_s`` where that is unknown,
    as for a failed run.
    """

    capacity = 1

    def __init__(self, application: Application, clock: SimulatedClock, run_s: float = 0.0) -> None:
        self._application, self._clock, self._run_s = application, clock, run_s
        self._taken: deque[ExecutionRequest] = deque()

    def submit(self, work: ExecutionRequest) -> None:
        """Queue a run for execution."""
        self._taken.append(work)

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Execute the oldest queued run and return its result in a tuple; empty without a run."""
        if not self._taken:
            return ()
        work = self._taken.popleft()
        measures, failure, duration_s = None, None, self._run_s
        try:
            measures = self._application.evaluate(work.values, work.seed)
        except RunError as error:
            failure = str(error)
        else:
            measured_s = measures.get("duration_s")
            if isinstance(measured_s, int | float):
                duration_s = float(measured_s)
        self._clock.wait(duration_s)
        return (ExecutionResult(work.run_id, measures, failure, duration_s),)

    def listen(self, reported: ReportListener) -> None:
        """Ignore the listener, because simulated runs have no intermediate results."""

    def stop(self, run_id: int) -> None:
        """Do nothing, because a simulated run ends at once."""

    def cancel(self) -> None:
        """Remove all queued runs without executing them."""
        self._taken.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
