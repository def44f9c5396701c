"""Ports: protocols of what the assistant uses: application, executor, store, clock."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from assistant.core.events import Event, Fact
from assistant.core.objective import Measure, Objective
from strategies import Level, ParameterSpace


@runtime_checkable
class Application(Protocol):
    """Program with discrete parameters: its space, its objective and how to run it once.

    ``evaluate`` depends only on (values, seed). It raises `RunError` when the run fails, which is
    recorded as a failure. An application must be picklable, because other processes execute it.
    """

    @property
    def name(self) -> str:
        """Name in the registry of applications."""

    @property
    def space(self) -> ParameterSpace:
        """Space of the parameters."""

    @property
    def objective(self) -> Objective:
        """Default objective."""

    @property
    def baseline(self) -> Mapping[str, Level] | None:
        """Current configuration, a point of the space; None if there is none."""

    @property
    def measures(self) -> tuple[str, ...] | None:
        """Names of all measures of a run; None if they are known only after a run."""

    @property
    def deterministic(self) -> bool | None:
        """Whether the same values give the same measures whatever the seed; None if unknown."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts for the report: the data, the rules, the assumptions."""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Run once and return the measures. Raises RunError if the run failed."""


@runtime_checkable
class StoppableApplication(Protocol):
    """Application that can end a run early, because a run is a process of its own."""

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Run once, as `Application.evaluate`; raise RunError after ``limit_s`` seconds."""


class RunControl(Protocol):
    """Control of a running run: it receives intermediate results and may request the end."""

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Receive an intermediate result, from the thread that executes the run."""

    def wants_end(self) -> bool:
        """Return whether the run shall end now; it must be cheap enough for ten calls a second."""


@runtime_checkable
class MonitoredApplication(Protocol):
    """Application whose runs send intermediate results and can be ended early."""

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        """Run once under a run control; ``limit_s`` None is no limit but the program's own.

        Raises:
            RunStoppedError: the run control requested the end, and the run has ended.
            RunError: the run failed.
        """


Result = tuple[Mapping[str, Level], Mapping[str, Measure]]


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """One run to execute; ``limit_s`` is its time limit in seconds, None for no limit.

    The limit is checked afterwards if the application is no `StoppableApplication`.
    """

    run_id: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Result of one execution: measures, or the reason why there are none."""

    run_id: int
    measures: Mapping[str, Measure] | None
    failure: str | None
    duration_s: float
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """Requested computing environment of one run; None where nothing is requested."""

    cores: int | None = None
    memory_bytes: int | None = None


ReportListener = Callable[[int, Mapping[str, Measure]], None]
"""Callback for the intermediate results of a run, by its number; called in any thread."""


class Executor(Protocol):
    """Place where runs execute; results may come back in any order."""

    @property
    def capacity(self) -> int:
        """Number of runs that it can execute at once (at least 1)."""

    def submit(self, work: ExecutionRequest) -> None:
        """Start to execute one run."""

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one run is over, and return the results; empty without runs."""

    def listen(self, reported: ReportListener) -> None:
        """Send intermediate results to the listener from now on, in any thread."""

    def stop(self, run_id: int) -> None:
        """End one running run; callable from any thread.

        `collect` returns it soon, as stopped, or with its result if that was first. Unknown runs
        are ignored.
        """

    def cancel(self) -> None:
        """Give up all runs under way; `collect` does not return them any more."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """One entry of a store's list of experiments."""

    id: str
    name: str
    opened_s: float
    n_events: int


class Store(Protocol):
    """Store of event logs. An appended event survives; a refused one leaves no trace."""

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events, the first of which has number ``position`` (from 0) in the event log.

        Raises:
            VersionConflictError: ``position`` is taken or leaves a gap, because of another writer.
                Nothing is stored then.
            StoreError: the medium fails. Nothing is stored then.
        """

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from number ``since`` (from 0). Raises StoreError if it is unknown."""

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, the latest first."""


class Clock(Protocol):
    """Clock, passed as an argument so that tests can replace it."""

    def now_s(self) -> float:
        """Return seconds since 1970-01-01 UTC."""


class SystemClock:
    """Clock of the machine."""

    def now_s(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        return time.time()
