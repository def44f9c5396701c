"""Remote session: the methods of `Session` for an experiment at a service.

Queries (`experiment`, `forecast`, `what_if` ...) use the events that the service sends; decisions
are made by the service.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Unpack

from pydantic import TypeAdapter

from assistant.analysis.recommendation import KEPT_RUNS
from assistant.client.api import ApiClient, HttpStore
from assistant.client.worker import HttpLeaseSource, run_leased
from assistant.core.codec import decode_event, encode_event
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
from assistant.core.run import Run
from assistant.core.sla import AutoSteering, Sla, WarningPolicy
from assistant.session.event_log import Listener
from assistant.session.opening import ExperimentDescription, build_opened_event
from assistant.session.session import ExperimentQueries
from strategies import Level

_WATCH: TypeAdapter[WarningPolicy] = TypeAdapter(WarningPolicy)


@dataclass(frozen=True, slots=True)
class ExecutionStatus:
    """State of the execution of an experiment's runs.

    Args:
        active: whether workers may lease its runs.
        executes: whether the service starts workers for it.
        by_program: whether an external client asks for its runs; then workers get none.
        heard_s: seconds since its last request; None if there was none since the service began.
    """

    active: bool
    executes: bool
    notes: tuple[str, ...] = ()
    by_program: bool = False
    heard_s: float | None = None


class RemoteSession(ExperimentQueries):
    """One experiment of a service, steered from here.

    Calls may come from several threads; each is atomic.
    Raises StoreError: there is no such experiment; ServiceError: the service cannot be reached.
    """

    def __init__(self, link: ApiClient, experiment_id: str, clock: Clock | None = None) -> None:
        self._link, self._clock = link, clock or SystemClock()
        self._kept, self._name = HttpStore(link), experiment_id
        self._path = f"/v1/experiments/{experiment_id}"
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._expected: int | None = None
        self._experiment = Experiment.replay(self._kept.load(self._name))

    @property
    def experiment(self) -> Experiment:
        """The state, which is the fold of the received events."""
        return self._experiment

    def now_s(self) -> float:
        """Return the local time, in seconds since 1970-01-01 UTC."""
        return self._clock.now_s()

    def catch_up(self) -> None:
        """Apply the new events of the service."""
        with self._lock:
            self._take(self._kept.load(self._name, self._experiment.n_events))

    def events(self) -> tuple[Event, ...]:
        """Return the event log so far."""
        return self._kept.load(self._name)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every event that comes from now on."""
        self._listeners.append(listener)

    def follow(
        self, on_event: Callable[[Event], None], stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Apply the events of the service as they happen, until ``stop`` returns true.

        Broken connections are made again: each event comes once, and none is left out. ``stop`` is
        called after every event, and every few seconds without one.
        Raises ServiceError if the service cannot be reached any more.
        """
        events = self._link.stream(f"{self._path}/events", self._experiment.n_events, stop)
        for position, record in events:
            event = decode_event(json.dumps(record))
            with self._lock:
                if position == self._experiment.n_events:
                    self._take((event,))
            on_event(event)

    # -- the loop ------------------------------------------------------------------------------

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """See `Session.initial_evaluation`."""
        return self._suggest(n, "initial")

    def suggest(self, n: int) -> BatchSuggested:
        """See `Session.suggest`."""
        return self._suggest(n, "next")

    def confirm(self, n: int = KEPT_RUNS) -> BatchSuggested:
        """See `Session.confirm`."""
        return self._suggest(n, "confirmation")

    def _suggest(self, n: int, kind: str) -> BatchSuggested:
        events = self._decide("/suggestions", {"n": n, "kind": kind})
        return next(event for event in events if isinstance(event, BatchSuggested))

    def submit(
        self,
        batch: BatchSuggested,
        keep: Iterable[int] | None = None,
        edits: Mapping[int, Mapping[str, Level]] | None = None,
    ) -> tuple[Run, ...]:
        """See `Session.submit`."""
        body = {
            "keep": None if keep is None else list(keep),
            "edits": {str(position): dict(levels) for position, levels in (edits or {}).items()},
        }
        return self._submitted(self._decide(f"/batches/{batch.number}/submission", body))

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """See `Session.include`."""
        body = {"values": dict(values), "reason": reason}
        return self._submitted(self._decide("/runs", body))[0]

    def replicate(
        self, of: int | Mapping[str, Level], n: int = 1, reason: str = ""
    ) -> tuple[Run, ...]:
        """See `Session.replicate`."""
        body = {"of": of if isinstance(of, int) else dict(of), "n": n, "reason": reason}
        return self._submitted(self._decide("/replicates", body))

    def submit_baseline(self) -> Run | None:
        """See `Session.submit_baseline`."""
        self._decide("/baseline")
        return self._experiment.baseline

    def _submitted(self, events: Sequence[Event]) -> tuple[Run, ...]:
        run_ids = [event.run_id for event in events if isinstance(event, RunSubmitted)]
        return tuple(self._experiment.run(run_id) for run_id in run_ids)

    # -- warnings ------------------------------------------------------------------------------

    def answer_advice(
        self, answer: Answer, exploitation: float | None = None, alternative: int | None = None
    ) -> BatchSuggested | None:
        """See `Session.answer_advice`."""
        body = {"answer": answer, "exploitation": exploitation, "alternative": alternative}
        events = self._decide("/advice/answer", body)
        return next((event for event in events if isinstance(event, BatchSuggested)), None)

    # -- corrections ---------------------------------------------------------------------------

    def change_strategy(
        self,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        exploitation: float | Keep | None = "keep",
    ) -> None:
        """See `Session.change_strategy`."""
        option_values = None if options is None else dict(options)
        self._decide(
            "/steering",
            {"strategy": strategy, "options": option_values, "exploitation": exploitation},
        )

    def weigh_region(self, region_id: int, weight: float) -> None:
        """See `Session.weigh_region`."""
        self._decide("/weights", {"region": region_id, "weight": weight})

    def change_budget(self, sla: Sla) -> None:
        """See `Session.change_budget`."""
        self._decide("/agreement", asdict(sla))

    def change_watch(self, watch: WarningPolicy) -> None:
        """See `Session.change_watch`."""
        self._decide("/watch", {"watch": _WATCH.dump_python(watch, mode="json")})

    def reprioritise(self, run_id: int, priority: float) -> None:
        """See `Session.reprioritise`."""
        self._decide(f"/runs/{run_id}", {"priority": priority}, method="PATCH")

    def run_first(self, run_id: int) -> None:
        """See `Session.run_first`."""
        self._decide(f"/runs/{run_id}", {"priority": "first"}, method="PATCH")

    def hold(self, run_id: int) -> None:
        """See `Session.hold`."""
        self._decide(f"/runs/{run_id}/hold")

    def release(self, run_id: int) -> None:
        """See `Session.release`."""
        self._decide(f"/runs/{run_id}/release")

    def cancel(self, run_id: int, reason: str = "") -> None:
        """See `Session.cancel`."""
        self._decide(f"/runs/{run_id}/cancel", {"reason": reason})

    def stop(self, run_id: int, reason: str = "", *, keep: bool = True) -> None:
        """See `Session.stop`."""
        self._decide(f"/runs/{run_id}/stop", {"reason": reason, "keep": keep})

    def rate(self, run_id: int, good: bool | None) -> None:
        """See `Session.rate`."""
        self._decide(f"/runs/{run_id}/rating", {"good": good})

    def close_level(self, parameter: str, value: Level) -> None:
        """See `Session.close_level`."""
        self._change_level("close", parameter, value)

    def reopen_level(self, parameter: str, value: Level) -> None:
        """See `Session.reopen_level`."""
        self._change_level("reopen", parameter, value)

    def add_level(self, parameter: str, value: Level) -> None:
        """See `Session.add_level`."""
        self._change_level("add", parameter, value)

    def prefer_level(self, parameter: str, value: Level) -> None:
        """See `Session.prefer_level`."""
        self._change_level("prefer", parameter, value)

    def unprefer_level(self, parameter: str, value: Level) -> None:
        """See `Session.unprefer_level`."""
        self._change_level("unprefer", parameter, value)

    def _change_level(self, change: str, parameter: str, value: Level) -> None:
        self._decide("/levels", {"change": change, "parameter": parameter, "value": value})

    def exclude(self, condition: str) -> None:
        """See `Session.exclude`."""
        self._decide("/exclusions", {"condition": condition})

    def plan(self, levels: Mapping[str, Sequence[Level]]) -> None:
        """See `Session.plan`."""
        self._decide("/plan", {"levels": {name: list(values) for name, values in levels.items()}})

    def import_results(self, results: Iterable[Result], *, replicates: bool = False) -> int:
        """See `Session.import_results`."""
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
        """Execute the waiting runs on this side, beside other workers; see `Session.run_queued`."""
        self._link.change("POST", f"{self._path}/start")
        claims = HttpLeaseSource(self._link, only=self.id)

        def changed(run_id: int) -> None:
            self.catch_up()
            if on_change is not None:
                on_change(self._experiment.run(run_id))

        def hear(_experiment: Experiment, event: Event) -> None:
            if isinstance(event, RunCancelled | RunStopped):
                executor.stop(event.run_id)  # earlier than the next heartbeat

        self.listen(hear)
        try:
            run_leased(claims, executor, changed, stop)
        finally:
            self._listeners.remove(hear)

    def recover(self) -> int:
        """See `Session.recover`."""
        return len(self._decide("/recovery"))

    def finish(self, reason: str) -> None:
        """See `Session.finish`."""
        self._decide("/finish", {"reason": reason})

    def reopen(self) -> None:
        """See `Session.reopen`."""
        self._decide("/reopen")

    def hand_over(self, automatic: AutoSteering | None, reason: str = "") -> None:
        """See `Session.hand_over`."""
        limits = None if automatic is None else asdict(automatic)
        self._decide("/automatic", {"automatic": limits, "reason": reason})

    def start(self) -> None:
        """Let the workers of the service lease its runs from now on."""
        self._link.change("POST", f"{self._path}/start")

    def pause(self) -> None:
        """Let workers lease no more of its runs; running ones may end."""
        self._link.change("POST", f"{self._path}/pause")

    def execution(self) -> ExecutionStatus:
        """Return the state of execution at the service."""
        reply = self._link.get(f"{self._path}/execution")
        return ExecutionStatus(
            reply["active"], reply["executes"], tuple(reply["notes"]), reply["by_program"],
            reply["heard_s"],
        )  # fmt: skip

    def look(self) -> Experiment:
        """Return a copy of the present state."""
        with self._lock:
            self.catch_up()
            return self._experiment.supposing(())

    @contextmanager
    def only_on(self, version: int) -> Iterator[None]:
        """See `Session.only_on`; checked at each decision of the block."""
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
            if self._expected is not None:
                self._expected = answer["version"]
            events = tuple(decode_event(json.dumps(event)) for event in answer["events"])
            if answer["first"] == self._experiment.n_events:
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
    """Open an experiment at a service whose runs execute on this side; see `open_session`.

    The service has only the space and the objective of the application.
    """
    body = json.loads(encode_event(build_opened_event(application, **described)))
    answer = link.change("POST", "/v1/experiments", {"described": body})
    return RemoteSession(link, answer["experiment"], clock)


def open_settings(link: ApiClient, tables: Mapping[str, Any], name: str = "") -> RemoteSession:
    """Open an experiment at a service by the tables of a sweep file whose files it can read."""
    answer = link.change("POST", "/v1/experiments", {"settings": dict(tables), "name": name})
    return RemoteSession(link, answer["experiment"])
