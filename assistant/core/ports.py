"""Ports: protocols for the application, executor, store and clock that the assistant uses."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from assistant.core.events import Event, Fact
from assistant.core.objective import Measure, Objective
from assistant.core.run import RunOutput
from strategies import Level, ParameterSpace


@runtime_checkable
class Application(Protocol):
    """Program to tune: its parameter space, its objective and how to execute one run.

    ``evaluate`` depends only on (values, seed). It raises `RunError` when the run fails, which is
    recorded as a failure. An application must be picklable, because other processes execute it.
    """

    @property
    def name(self) -> str:
        """Name of the application in the registry."""

    @property
    def space(self) -> ParameterSpace:
        """Parameter space of the application."""

    @property
    def objective(self) -> Objective:
        """Default objective of the application."""

    @property
    def baseline(self) -> Mapping[str, Level] | None:
        """Baseline configuration (current settings); None if there is none."""

    @property
    def measures(self) -> tuple[str, ...] | None:
        """Names of all measures of a run; None if known only after a run."""

    @property
    def deterministic(self) -> bool | None:
        """Whether a configuration gives the same measures for every seed; None if unknown."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts for the report, such as data sources, rules and assumptions."""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Execute one run and return its measures, or raise RunError if it failed."""


@runtime_checkable
class StoppableApplication(Protocol):
    """Application whose runs can be ended early, as each is a separate process."""

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Execute one run and return its measures; end it with RunError after ``limit_s`` s."""


class RunControl(Protocol):
    """Control of an executing run: receives intermediate results and may request its end."""

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Receive an intermediate result, in the thread that executes the run."""

    def wants_end(self) -> bool:
        """Return whether the run should end now; called up to ten times a second."""


@runtime_checkable
class OutputKeeper(RunControl, Protocol):
    """Run control that also keeps the output of the program, for `Store.save_output`."""

    def keep_output(self, output: RunOutput) -> None:
        """Receive the output of the program that has ended, in the thread that executes the run."""


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
        """Execute one run that sends intermediate results to a run control; return its measures.

        Raises:
            RunStoppedError: the run control requested the end, and the run has ended.
            RunError: the run failed.
        """


Result = tuple[Mapping[str, Level], Mapping[str, Measure]]


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """Request to execute a run; ``limit_s`` is its time limit in seconds, or None.

    The limit is checked afterwards if the application is no `StoppableApplication`.
    ``experiment_id`` names logs; it is empty if unknown.
    """

    run_id: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None = None
    experiment_id: str = ""


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Result of one executed run: its measures, or the reason of the failure.

    ``output`` is what the program printed; None if the application runs no program. ``lost`` says
    that the process that executed the run has died, for the reason ``failure``: the run has no
    result, and whoever leased it decides whether it is executed again.
    """

    run_id: int
    measures: Mapping[str, Measure] | None
    failure: str | None
    duration_s: float
    stopped: bool = False
    output: RunOutput | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RunLease:
    """Lease of one run by a worker: its token, length and the run to execute.

    Args:
        token: fencing token.
        attempt: number of this attempt, from 1.
        values: levels by parameter.
        limit_s: time limit of the run; None for none.
        lease_s: seconds until the lease ends without a heartbeat.
        again: whether it was leased under the same idempotency key before.
    """

    experiment_id: str
    run_id: int
    token: str
    attempt: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None
    lease_s: float
    again: bool = False


class LeaseSource(Protocol):
    """Source of leases of runs: an event log in this process, or a service over HTTP."""

    def lease(self) -> RunLease | None:
        """Lease the next run and return it, or None if no run may start."""

    def heartbeat(self, token: str) -> float:
        """Renew a lease and return its length in seconds, or raise LeaseLostError."""

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Record an intermediate result of a leased run, or raise LeaseLostError."""

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Record the result of a leased run, or raise LeaseLostError if it is refused."""

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        """Return a leased run to the queue without a result.

        With ``lost`` the process that executed it has died; after several such losses the run has
        failed.
        """


@dataclass(frozen=True, slots=True)
class Environment:
    """Cores and memory (bytes) requested for one run; None where nothing is requested."""

    cores: int | None = None
    memory_bytes: int | None = None


ReportListener = Callable[[int, Mapping[str, Measure]], None]
"""Callback for the intermediate results of a run, by its number; called in any thread."""


class Executor(Protocol):
    """Executor of runs, such as a process pool; results may arrive in any order."""

    @property
    def capacity(self) -> int:
        """Number of runs that the executor can execute at once (at least 1)."""

    def submit(self, work: ExecutionRequest) -> None:
        """Start the execution of one run."""

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until a run has ended, and return all new results; empty without runs."""

    def listen(self, reported: ReportListener) -> None:
        """Set the callback for intermediate results; it may be called in any thread."""

    def stop(self, run_id: int) -> None:
        """End one executing run early; callable from any thread.

        `collect` returns it soon, as stopped, or with its result if that was first. Unknown runs
        are ignored.
        """

    def cancel(self) -> None:
        """Abort all submitted runs, so that `collect` never returns their results."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """Entry in a store's list of experiments: identifier, name, opening time, event count, tags."""

    id: str
    name: str
    opened_s: float
    n_events: int
    tags: tuple[str, ...] = ()


class Store(Protocol):
    """Store of event logs; each append is durable, and stores all of its events or none."""

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events to an event log, the first at number ``position`` (from 0).

        Raises:
            VersionConflictError: ``position`` is taken or leaves a gap, because of another writer.
                Nothing is stored then.
            StoreError: the medium fails. Nothing is stored then.
        """

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from index ``since`` on (0 is the first), or raise StoreError."""

    def save_output(self, experiment_id: str, run_id: int, output: RunOutput) -> None:
        """Store the output of a run, in place of that of an earlier attempt."""

    def output(self, experiment_id: str, run_id: int) -> RunOutput | None:
        """Return the stored output of a run; None if none is stored."""

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, the latest first; with ``deleted`` the deleted ones."""


class Clock(Protocol):
    """Source of the current time, replaceable in tests."""

    def now_s(self) -> float:
        """Return the current time in seconds since 1970-01-01 UTC."""


class SteadyClock:
    """Clock that starts at the time of day and then only counts seconds.

    A jump of the time of day moves it neither forwards nor backwards, so that no deadline passes
    because a clock was set. Seconds count while the machine is suspended.
    """

    def __init__(
        self, wall_s: Callable[[], float] = time.time, steady_s: Callable[[], float] | None = None
    ) -> None:
        self._steady_s = steady_s or _seconds_since_boot
        self._offset_s = wall_s() - self._steady_s()

    def now_s(self) -> float:
        """Return the time in seconds since 1970-01-01 UTC, as if the clock had never been set."""
        return self._offset_s + self._steady_s()


def _seconds_since_boot() -> float:
    """Return the seconds since the start of the machine, suspended ones too if it counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_PROCESS_CLOCK = SteadyClock()


class SystemClock:
    """Clock of this process: the time of day at its start, and steady seconds from then on.

    All of a process agree on the time. The next process reads the time of day again.
    """

    def now_s(self) -> float:
        """Return the time in seconds since 1970-01-01 UTC."""
        return _PROCESS_CLOCK.now_s()
