"""What the assistant asks of the world: an application, an executor, a store, a clock."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from assistant.core.events import Event, Fact
from assistant.core.objective import Measure, Objective
from strategies import Level, ParameterSpace


@runtime_checkable
class Application(Protocol):
    """A program with discrete parameters: what can be set, what is wanted, how one run is made.

    ``evaluate`` is a function of (values, seed) and nothing else. It raises `RunError` when the
    run fails; that becomes a recorded failure. An application crosses process borders, so
    everything in it must survive that.
    """

    @property
    def name(self) -> str:
        """The name in the registry of applications."""

    @property
    def space(self) -> ParameterSpace:
        """What can be set."""

    @property
    def objective(self) -> Objective:
        """What is wanted, unless the analyst says otherwise."""

    @property
    def baseline(self) -> Mapping[str, Level] | None:
        """Today's configuration, a point of the space; None when there is no today."""

    @property
    def measures(self) -> tuple[str, ...] | None:
        """Names of all measures that a run may give; None if they are known after a run only."""

    @property
    def deterministic(self) -> bool | None:
        """Whether the same values give the same measures whatever the seed; None if unknown."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What a reader of the report should know: the data, the rules, the assumptions."""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Run once. Returns the measures; raises RunError if the run failed."""


@runtime_checkable
class StoppableApplication(Protocol):
    """An application that can end a run, as one can whose run is a process of its own."""

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Run once, as `Application.evaluate` does; raise RunError after ``limit_s`` seconds."""


class RunControl(Protocol):
    """What watches over a run that goes on: it is told of it, and may want its end."""

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Be told what the run has measured so far; from the thread that executes it."""

    def wants_end(self) -> bool:
        """Whether the run shall end now; cheap enough to be asked ten times a second."""


@runtime_checkable
class MonitoredApplication(Protocol):
    """An application whose runs tell what they have measured so far, and can be ended early."""

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        """Run once, as `StoppableApplication.evaluate_within` does (None is no limit but the program's own).

        Raises:
            StoppedError: the oversight wanted its end, and it has ended.
            RunError: the run failed.
        """


Result = tuple[Mapping[str, Level], Mapping[str, Measure]]
"""A result from before: values and measures."""


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """One run to execute. ``limit_s`` is how long it may take, in seconds; None is no limit.

    An application that cannot end a run (see `StoppableApplication`) is judged by it afterwards.
    """

    run_id: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What came back from one run: measures, or the sentence that says why there are none."""

    run_id: int
    measures: Mapping[str, Measure] | None
    failure: str | None
    duration_s: float
    stopped: bool = False
    """Whether it was ended early because somebody wanted so."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The computing environment of one run, as it was asked for.

    Attributes:
        cores: processors; None is not said.
        memory_bytes: of all its processes together; None is not said.
    """

    cores: int | None = None
    memory_bytes: int | None = None


ReportListener = Callable[[int, Mapping[str, Measure]], None]
"""Told of a run, by its number, what it has measured so far; in any thread."""


class Executor(Protocol):
    """Where runs execute. Completions may come back in any order."""

    @property
    def capacity(self) -> int:
        """How many runs it can execute at once (at least 1)."""

    def submit(self, work: ExecutionRequest) -> None:
        """Take one run."""

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one taken run is over, and return those that are.

        Returns an empty tuple only if nothing is under way.
        """

    def listen(self, reported: ReportListener) -> None:
        """Tell what runs that go on have measured so far, from now on, in any thread."""

    def stop(self, run_id: int) -> None:
        """End one run that goes on; any thread may ask.

        It comes back from `collect` soon, stopped, or with its result if that was there first.
        Nothing happens for a run that is not under way.
        """

    def cancel(self) -> None:
        """Give up what is under way; nothing of it is returned by `collect` any more."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """One line of a store's table of contents."""

    id: str
    name: str
    opened_s: float
    n_events: int


class Store(Protocol):
    """Keeps journals. An appended event survives; a refused one leaves no trace."""

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events, the first of which is number ``position`` (from 0) of the journal.

        Raises:
            GoneOnError: another writer was there first (``position`` is taken or leaves a
                gap). Nothing is stored then.
            StoreError: the medium fails. Nothing is stored then.
        """

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the journal from event number ``since`` (from 0) on.

        Raises StoreError for an unknown experiment.
        """

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """Return what is stored, latest first."""


class Clock(Protocol):
    """The time of day, as an argument."""

    def now_s(self) -> float:
        """Return seconds since 1970-01-01 UTC."""


class SystemClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        return time.time()
