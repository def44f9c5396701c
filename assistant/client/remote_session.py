"""Remote session: the methods of `Session` for an experiment of a remote service, over HTTP.

Queries (`experiment`, `forecast`, `what_if` ...) use the events that the service sends; decisions
are made by the service.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Unpack

from pydantic import TypeAdapter

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.analysis.recommendation import KEPT_RUNS
from assistant.client.api import ApiClient, HttpStore, OpenedAnswer, ServiceAnswer, path_part
from assistant.client.worker import HttpLeaseSource, run_leased
from assistant.core.codec import decode_event_object, encode_event
from assistant.core.commands import Keep
from assistant.core.errors import ExperimentError
from assistant.core.events import (
    Answer,
    BatchSuggested,
    Event,
    RunCancelled,
    RunCompleted,
    RunStopped,
    RunSubmitted,
)
from assistant.core.experiment import Experiment
from assistant.core.ports import Application, Clock, Executor, Result, SystemClock
from assistant.core.run import Run, RunOutput
from assistant.core.sla import AutoSteering, Sla, WarningPolicy
from assistant.session.event_log import Listener
from assistant.session.opening import ExperimentDescription, build_opened_event
from assistant.session.session import ExperimentQueries
from strategies import Level


class DecisionAnswer(ServiceAnswer):
    """Answer of a service to a decision: the events, their position and the new version."""

    events: list[dict[str, Any]]
    first: int
    version: int


_WARNING_POLICY: TypeAdapter[WarningPolicy] = TypeAdapter(WarningPolicy)


class RemoteSession(ExperimentQueries):
    """Session that steers one experiment of a remote service over HTTP.

    Calls may come from several threads; each is atomic. ``known`` is an earlier state of the
    experiment that is this session's own from now on, so that only later events are fetched.
    Raises StoreError: there is no such experiment; ServiceError: the service cannot be reached.
    """

    def __init__(
        self,
        link: ApiClient,
        experiment_id: str,
        clock: Clock | None = None,
        known: Experiment | None = None,
    ) -> None:
        self._link, self._clock = link, clock or SystemClock()
        self._kept, self._name = HttpStore(link), experiment_id
        self._path = f"/v1/experiments/{path_part(experiment_id)}"
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._expected: int | None = None
        if known is None:
            known = Experiment.replay(self._kept.load(self._name))
        self._experiment = known
        with link.reading():
            if self._experiment.opened.experiment_id != experiment_id:
                raise ValueError("the events of another experiment")

    @property
    def experiment(self) -> Experiment:
        """Current state of the experiment, computed from the received events."""
        return self._experiment

    def now_s(self) -> float:
        """Return the time of the local clock, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    def catch_up(self) -> None:
        """Fetch the experiment's new events from the service and apply them."""
        with self._lock:
            self._take(self._kept.load(self._name, self._experiment.n_events))

    def events(self) -> tuple[Event, ...]:
        """Return all events in the event log."""
        return self._kept.load(self._name)

    def output(self, run_id: int) -> RunOutput | None:
        """Return what the program of a run printed; None if nothing is stored.

        Raises ExperimentError if there is no such run, ServiceError if no reply comes.
        """
        return self._kept.output(self._name, self.experiment.run(run_id).id)

    def listen(self, listener: Listener) -> None:
        """Register a listener that is called with each event received from now on."""
        self._listeners.append(listener)

    def follow(
        self, on_event: Callable[[Event], None], stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Apply new events as they arrive and pass each to ``on_event``, until ``stop()``.

        Broken connections are made again: each event comes once, and none is left out. ``stop`` is
        called after every event, and every few seconds without one.
        Raises ServiceError if the service cannot be reached any more.
        """
        events = self._link.stream(f"{self._path}/events", self._experiment.n_events, stop)
        for position, record in events:
            with self._link.reading():
                event = decode_event_object(record)
            with self._lock:
                if position == self._experiment.n_events:
                    self._take((event,))
            on_event(event)

    # -- the loop ------------------------------------------------------------------------------

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """Suggest up to ``n`` initial configurations as a batch."""
        return self._suggest(n, "initial")

    def suggest(self, n: int) -> BatchSuggested:
        """Suggest a batch of up to ``n`` configurations, chosen by the strategy."""
        return self._suggest(n, "next")

    def confirm(self, n: int = KEPT_RUNS) -> BatchSuggested:
        """Suggest a batch of up to ``n`` replicates that would confirm the recommendation."""
        return self._suggest(n, "confirmation")

    def _suggest(self, n: int, kind: str) -> BatchSuggested:
        events = self._decide("/suggestions", {"n": n, "kind": kind})
        with self._link.reading():
            (batch,) = (event for event in events if isinstance(event, BatchSuggested))
        return batch

    def submit(
        self,
        batch: BatchSuggested,
        keep: Iterable[int] | None = None,
        edits: Mapping[int, Mapping[str, Level]] | None = None,
    ) -> tuple[Run, ...]:
        """Submit a batch's suggestions at the positions ``keep`` (from 0; None: all) as runs."""
        body = {
            "keep": None if keep is None else list(keep),
            "edits": {str(position): dict(levels) for position, levels in (edits or {}).items()},
        }
        return self._submitted(self._decide(f"/batches/{batch.number}/submission", body))

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """Submit one run of a configuration that the analyst has chosen."""
        body = {"values": dict(values), "reason": reason}
        runs = self._submitted(self._decide("/runs", body))
        with self._link.reading():
            return runs[0]

    def replicate(
        self, of: int | Mapping[str, Level], n: int = 1, reason: str = ""
    ) -> tuple[Run, ...]:
        """Submit ``n`` replicates of a run, given by its number or parameter values."""
        body = {"of": of if isinstance(of, int) else dict(of), "n": n, "reason": reason}
        return self._submitted(self._decide("/replicates", body))

    def submit_baseline(self) -> Run | None:
        """Submit the baseline configuration; return its run, or None without a baseline."""
        self._decide("/baseline")
        return self._experiment.baseline

    def _submitted(self, events: Sequence[Event]) -> tuple[Run, ...]:
        run_ids = [event.run_id for event in events if isinstance(event, RunSubmitted)]
        return tuple(self._experiment.run(run_id) for run_id in run_ids)

    # -- warnings ------------------------------------------------------------------------------

    def answer_warning(
        self, answer: Answer, exploitation: float | None = None, alternative: int | None = None
    ) -> BatchSuggested | None:
        """Answer the open warning, and return the batch that is suggested then, if any."""
        body = {"answer": answer, "exploitation": exploitation, "alternative": alternative}
        events = self._decide("/warning/answer", body)
        return next((event for event in events if isinstance(event, BatchSuggested)), None)

    # -- corrections ---------------------------------------------------------------------------

    def change_strategy(
        self,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        exploitation: float | Keep | None = "keep",
    ) -> None:
        """Change the strategy, its options or the exploitation level."""
        option_values = None if options is None else dict(options)
        self._decide(
            "/steering",
            {"strategy": strategy, "options": option_values, "exploitation": exploitation},
        )

    def weigh_region(self, region_id: int, weight: float) -> None:
        """Set the weight of a region of good results (default 1) in exploiting suggestions."""
        self._decide("/weights", {"region": region_id, "weight": weight})

    def change_budget(self, sla: Sla) -> None:
        """Replace the SLA (budget, deadline, cost limit and goal)."""
        self._decide("/sla", asdict(sla))

    def change_warning_policy(self, policy: WarningPolicy) -> None:
        """Replace the warning policy, including the rules for regions."""
        self._decide(
            "/warning-policy", {"warning_policy": _WARNING_POLICY.dump_python(policy, mode="json")}
        )

    def reprioritise(self, run_id: int, priority: float) -> None:
        """Set the priority of a waiting run (default 0, higher starts first)."""
        self._decide(f"/runs/{run_id}", {"priority": priority}, method="PATCH")

    def run_first(self, run_id: int) -> None:
        """Give a waiting run the highest priority, so that it starts next."""
        self._decide(f"/runs/{run_id}", {"priority": "first"}, method="PATCH")

    def hold(self, run_id: int) -> None:
        """Put a waiting run on hold until it is released."""
        self._decide(f"/runs/{run_id}/hold")

    def release(self, run_id: int) -> None:
        """Release a held run, so that it may start again."""
        self._decide(f"/runs/{run_id}/release")

    def cancel(self, run_id: int, reason: str = "") -> None:
        """Cancel a waiting or running run; one that never started uses none of the budget."""
        self._decide(f"/runs/{run_id}/cancel", {"reason": reason})

    def stop(self, run_id: int, reason: str = "", *, keep: bool = True) -> None:
        """End a running run; with ``keep``, its last intermediate result becomes its result."""
        self._decide(f"/runs/{run_id}/stop", {"reason": reason, "keep": keep})

    def rate(self, run_id: int, good: bool | None) -> None:
        """Rate the result of a run as good or bad, or withdraw the rating (None)."""
        self._decide(f"/runs/{run_id}/rating", {"good": good})

    def close_level(self, parameter: str, value: Level) -> None:
        """Exclude a parameter's level from further suggestions, without changing past runs."""
        self._change_level("close", parameter, value)

    def reopen_level(self, parameter: str, value: Level) -> None:
        """Allow a closed level of a parameter in suggestions again."""
        self._change_level("reopen", parameter, value)

    def add_level(self, parameter: str, value: Level) -> None:
        """Add a level to a parameter."""
        self._change_level("add", parameter, value)

    def prefer_level(self, parameter: str, value: Level) -> None:
        """Mark a parameter's level as preferred, so that more suggestions use it."""
        self._change_level("prefer", parameter, value)

    def unprefer_level(self, parameter: str, value: Level) -> None:
        """Remove the preferred mark from a parameter's level."""
        self._change_level("unprefer", parameter, value)

    def _change_level(self, change: str, parameter: str, value: Level) -> None:
        self._decide("/levels", {"change": change, "parameter": parameter, "value": value})

    def exclude(self, condition: str) -> None:
        """Exclude all configurations that meet a condition from further suggestions."""
        self._decide("/exclusions", {"condition": condition})

    def plan(self, levels: Mapping[str, Sequence[Level]]) -> None:
        """Set the levels that the analyst plans to try, by parameter (Copper paper, 2.2)."""
        self._decide("/plan", {"levels": {name: list(values) for name, values in levels.items()}})

    def import_results(self, results: Iterable[Result], *, replicates: bool = False) -> int:
        """Import earlier results, all or none, and return the number of new ones."""
        rows = [
            {"values": dict(values), "measures": dict(measures)} for values, measures in results
        ]
        events = self._decide("/import", {"results": rows, "replicates": replicates})
        return sum(isinstance(event, RunCompleted) for event in events)

    # -- execution -----------------------------------------------------------------------------

    def run_queued(
        self,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Execute waiting runs in this process, in addition to the workers of the service."""
        self._link.change("POST", f"{self._path}/start")
        leases = HttpLeaseSource(self._link, only=self.id)

        def changed(run_id: int) -> None:
            self.catch_up()
            if on_change is not None:
                on_change(self._experiment.run(run_id))

        def hear(_experiment: Experiment, event: Event) -> None:
            if isinstance(event, RunCancelled | RunStopped):
                executor.stop(event.run_id)  # earlier than the next heartbeat

        self.listen(hear)
        try:
            run_leased(leases, executor, changed, stop)
        finally:
            self._listeners.remove(hear)

    def recover(self) -> int:
        """Requeue the runs of a process that has died, and return their number."""
        return len(self._decide("/recovery"))

    def finish(self, reason: str) -> None:
        """Finish the experiment, or raise ExperimentError if it is finished already."""
        self._decide("/finish", {"reason": reason})

    def reopen(self) -> None:
        """Reopen a finished experiment, or raise ExperimentError if it is not finished."""
        self._decide("/reopen")

    def set_auto_steering(self, auto_steering: AutoSteering | None, reason: str = "") -> None:
        """Turn auto-steering on with these settings, or off if they are None."""
        limits = None if auto_steering is None else asdict(auto_steering)
        self._decide("/auto-steering", {"auto_steering": limits, "reason": reason})

    def start(self) -> None:
        """Allow workers to lease the experiment's runs from now on."""
        self._link.change("POST", f"{self._path}/start")

    def pause(self) -> None:
        """Stop workers from leasing the experiment's runs; running runs go on."""
        self._link.change("POST", f"{self._path}/pause")

    def execution(self) -> ExecutionStatus:
        """Return the status of run execution at the service."""
        return self._kept.execution(self._name)

    def look(self) -> Experiment:
        """Return a copy of the experiment's current state."""
        with self._lock:
            self.catch_up()
            return self._experiment.supposing(())

    @contextmanager
    def only_on(self, version: int) -> Iterator[None]:
        """Make each decision in the block fail unless the experiment is at this version."""
        with self._lock:
            self._expected = version
            try:
                yield
            finally:
                self._expected = None

    # -- the wire ------------------------------------------------------------------------------

    def _decide(
        self, path: str, body: dict[str, Any] | None = None, method: str = "POST"
    ) -> tuple[Event, ...]:
        """Send a decision, apply the resulting events, and return them."""
        with self._lock:
            try:
                plain_body = json.loads(json.dumps(body, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise ExperimentError(f"this cannot be sent to the service: {error}") from error
            answer = self._link.change(
                method, self._path + path, plain_body, version=self._expected
            )
            with self._link.reading():
                decision = DecisionAnswer.model_validate(answer)
                events = tuple(decode_event_object(event) for event in decision.events)
            if self._expected is not None:
                self._expected = decision.version
            if decision.first == self._experiment.n_events:
                self._take(events)
            else:
                self.catch_up()
            return events

    def _take(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._experiment.apply(event)
        for event in events:
            for listener in tuple(self._listeners):
                listener(self._experiment, event)


def open_remote(
    link: ApiClient,
    application: Application,
    clock: Clock | None = None,
    **described: Unpack[ExperimentDescription],
) -> RemoteSession:
    """Create an experiment at a service; this process executes its runs.

    The service has only the space and the objective of the application.
    """
    body = json.loads(encode_event(build_opened_event(application, **described)))
    answer = link.change("POST", "/v1/experiments", {"described": body})
    return RemoteSession(link, _opened(link, answer), clock)


def open_settings(link: ApiClient, tables: Mapping[str, Any], name: str = "") -> RemoteSession:
    """Create an experiment at a service from sweep settings, as in a sweep file."""
    answer = link.change("POST", "/v1/experiments", {"settings": dict(tables), "name": name})
    return RemoteSession(link, _opened(link, answer))


def _opened(link: ApiClient, answer: Any) -> str:
    with link.reading():
        return OpenedAnswer.model_validate(answer).experiment
