"""A SimPy model of one service, and the exact answer for the closed networks that have one.

The service is one process with one interpreter lock and one connection to its store:

* `loop` and `interpreter`: the event loop does one piece of Python code after the other, and its
  thread takes turns with those of the transactions: one of them at a time is at the interpreter;
* `store`: the lock of the one SQLite connection. It is held for the Python code of the transaction
  and for the disk, on which only results wait;
* slots and threads of `assistant.service.middleware` and `assistant.service.dependencies`: a
  worker's request beyond the last slot is refused, and the worker asks again later;
* the lock of the shared view, which a viewer's first look after a new event advances.

Workers, their heartbeats and viewers are closed loops: nobody asks again before the answer. Service
times, run lengths and times between requests are exponential, so that `closed_network` is exact
where a network has a product form.

References: Denning & Buzen 1978, The operational analysis of queueing network models (bounds);
Reiser & Lavenberg 1980, Mean-value analysis of closed multichain queueing networks.
"""

import math
import random
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from assistant.client.api import FIRST_PAUSE_S, TRIES
from assistant.client.worker import LEASE_S
from assistant.service.dependencies import VIEW_THREADS, WORK_THREADS
from assistant.session.execution_loop import BEAT_S, IDLE_S, REPORT_S

LOOK_S = 1.0
"""Seconds between two looks of a viewer."""

EVENTFUL = ("lease", "report", "result")
"""Kinds of requests that add an event to the log."""

Events = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True)
class RequestCost:
    """Mean times of one kind of request, in seconds.

    Args:
        app_s: processor time of the service outside of the store's lock.
        store_s: processor time inside of it.
        disk_s: wait for the disk inside of it.
        delay_s: rest of the wait of a client that is alone: kernel, threads that wake up.
    """

    app_s: float
    store_s: float = 0.0
    disk_s: float = 0.0
    delay_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """Processor time of the service."""
        return self.app_s + self.store_s


@dataclass(frozen=True)
class ServiceCosts:
    """Costs of a service.

    Args:
        kinds: cost of each kind of request: lease, heartbeat, report, result, poll (a lease that
            is not granted, since no run waits), look.
        view_s: processor time that the first look after a new event takes in addition.
        cores: processor seconds that a busy service uses in a second. Less than 1 if the machine
            does other work or its threads hinder one another, more if code outside of the
            interpreter lock goes on beside it.
        client_s: processor time of the clients' own process for a request, where they share one.
    """

    kinds: Mapping[str, RequestCost]
    view_s: float = 0.0
    cores: float = 1.0
    client_s: float = 0.0

    def core_s(self, kind: str) -> float:
        """Return for how long a request keeps the interpreter busy."""
        return self.kinds[kind].cpu_s / self.cores

    def lock_s(self, kind: str) -> float:
        """Return for how long a request holds the store's lock, if nobody else asks."""
        return self.kinds[kind].store_s / self.cores + self.kinds[kind].disk_s


@dataclass(frozen=True)
class ServiceSlots:
    """Requests in progress at once: of workers (more are refused), of viewers (more wait)."""

    work: int = 256
    view: int = 64
    waiting_views: int = 512


@dataclass
class Observed:
    """What a simulation counts between the end of the warm-up and its own end."""

    seconds: float = 0.0
    waits_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0
    lost_leases: int = 0
    busy_s: float = 0.0
    locked_s: float = 0.0

    def rate(self, kind: str) -> float:
        """Return the answers a second."""
        return len(self.waits_s[kind]) / self.seconds

    def wait_s(self, kind: str) -> float:
        """Return the mean wait for an answer; not a number without any."""
        waits = self.waits_s[kind]
        return sum(waits) / len(waits) if waits else math.nan

    @property
    def busy(self) -> float:
        """Share of the time in which the interpreter is busy."""
        return self.busy_s / self.seconds

    @property
    def locked(self) -> float:
        """Share of the time in which the store's lock is held."""
        return self.locked_s / self.seconds


class SimulatedService:
    """One service in simulated time, and the clients that use it.

    Args:
        costs: of the requests.
        seed: of all random times.
        slots: requests in progress at once.
    """

    def __init__(
        self, costs: ServiceCosts, seed: int = 0, slots: ServiceSlots | None = None
    ) -> None:
        self._costs, self._rng = costs, random.Random(seed)
        self._slots = ServiceSlots() if slots is None else slots
        self._env = env = simpy.Environment()
        self._loop, self._interpreter = simpy.Resource(env), simpy.Resource(env)
        self._store = simpy.Resource(env)
        self._clients, self._view_lock = simpy.Resource(env), simpy.Resource(env)
        self._view_slots = simpy.Resource(env, self._slots.view)
        self._work_threads = simpy.Resource(env, WORK_THREADS)
        self._view_threads = simpy.Resource(env, VIEW_THREADS)
        self._working = 0
        self._n_events = self._n_viewed = 0
        self._observed = Observed()

    # -- clients -------------------------------------------------------------------------------

    def add_clients(self, n: int, kind: str, think_s: float = 0.0) -> None:
        """Add clients that send requests of one kind, with exponential pauses."""
        for _ in range(n):
            self._env.process(self._client(kind, think_s))

    def add_workers(
        self, n: int, run_s: float, *, reports: bool = False, beat_s: float = BEAT_S
    ) -> None:
        """Add workers that execute a run now, and lease the next one when it has ended.

        Args:
            n: number of workers.
            run_s: mean length of a run in seconds.
            reports: whether programs report an intermediate result every `REPORT_S`.
            beat_s: seconds between two heartbeats.
        """
        for _ in range(n):
            self._env.process(self._worker(run_s, reports, beat_s))

    def add_idle_workers(self, n: int) -> None:
        """Add workers that ask for a run again and again while no run waits."""
        for _ in range(n):
            self._env.process(self._idle_worker())

    def add_viewers(self, n: int) -> None:
        """Add viewers who look every second."""
        for _ in range(n):
            self._env.process(self._viewer())

    def run(self, seconds: float, warm_up_s: float) -> Observed:
        """Return what happens in so many seconds after the warm-up."""
        self._env.run(warm_up_s)
        self._observed = observed = Observed(seconds)
        self._env.run(warm_up_s + seconds)
        return observed

    def _client(self, kind: str, think_s: float) -> Events:
        while True:
            if think_s:
                yield self._env.timeout(self._drawn(think_s))
            if self._costs.client_s:
                with self._clients.request() as turn:
                    yield turn
                    yield self._env.timeout(self._drawn(self._costs.client_s))
            yield from self._request(kind)

    def _worker(self, run_s: float, reports: bool, beat_s: float) -> Events:
        env = self._env
        phase = self._rng.random()  # workers do not begin together
        while True:
            end_s = env.now + self._drawn(run_s)
            yield from self._execute(end_s, reports, beat_s, phase)
            yield from self._until_answered("result")
            yield from self._until_answered("lease")
            phase = 1.0

    def _idle_worker(self) -> Events:
        yield self._env.timeout(self._rng.uniform(0.0, IDLE_S))
        while True:
            yield from self._until_answered("poll")
            yield self._env.timeout(IDLE_S)

    def _execute(self, end_s: float, reports: bool, beat_s: float, phase: float) -> Events:
        """Send heartbeats and intermediate results, which one thread of a worker does in turn."""
        env, due_s, renewed_s = self._env, self._env.now + phase * beat_s, self._env.now
        report_s = env.now + phase * REPORT_S if reports else math.inf
        while (next_s := min(due_s, report_s)) < end_s:
            yield env.timeout(max(0.0, next_s - env.now))
            if report_s < due_s:
                yield from self._sent("report")
                report_s = env.now + REPORT_S
                continue
            if (yield from self._sent("heartbeat")):
                if env.now - renewed_s > LEASE_S:
                    self._observed.lost_leases += 1
                    return
                renewed_s = env.now
            due_s = env.now + beat_s
        if end_s > env.now:
            yield env.timeout(end_s - env.now)

    def _viewer(self) -> Events:
        yield self._env.timeout(self._rng.uniform(0.0, LOOK_S))
        while True:
            began_s = self._env.now
            yield from self._request("look")
            yield self._env.timeout(max(0.0, LOOK_S - (self._env.now - began_s)))

    def _until_answered(self, kind: str) -> Events:
        """Send a request until it is answered."""
        while not (yield from self._sent(kind)):
            yield self._env.timeout(IDLE_S)

    def _sent(self, kind: str) -> Events:
        """Send a request as the client of workers does; the result is False if all are refused."""
        for attempt in range(TRIES):
            if attempt:
                yield self._env.timeout(FIRST_PAUSE_S * 2 ** (attempt - 1))
            if (yield from self._request(kind)):
                return True
        return False

    # -- the service ---------------------------------------------------------------------------

    def _request(self, kind: str) -> Events:
        """Answer a request; the result is False if it is refused."""
        began_s, cost = self._env.now, self._costs.kinds[kind]
        if kind == "look":
            yield from self._looked(cost)
        else:
            if self._working >= self._slots.work:
                yield from self._on_loop(cost.app_s / 2)
                self._observed.refused += 1
                return False
            self._working += 1
            yield from self._worked(cost)
            self._working -= 1
            self._n_events += kind in EVENTFUL
        if cost.delay_s:
            yield self._env.timeout(self._drawn(cost.delay_s))
        self._observed.waits_s[kind].append(self._env.now - began_s)
        return True

    def _worked(self, cost: RequestCost) -> Events:
        yield from self._on_loop(cost.app_s / 2)
        with self._work_threads.request() as thread:
            yield thread
            yield from self._stored(cost)
        yield from self._on_loop(cost.app_s / 2)

    def _looked(self, cost: RequestCost) -> Events:
        if len(self._view_slots.queue) >= self._slots.waiting_views:
            self._observed.refused += 1
            return
        with self._view_slots.request() as slot:
            yield slot
            yield from self._on_loop(cost.app_s / 2)
            with self._view_threads.request() as thread:
                yield thread
                with self._view_lock.request() as lock:
                    yield lock
                    yield from self._stored(cost)
                    if self._n_viewed != self._n_events:
                        self._n_viewed = self._n_events
                        yield from self._computed(self._costs.view_s)
            yield from self._on_loop(cost.app_s / 2)

    def _stored(self, cost: RequestCost) -> Events:
        if not (cost.store_s or cost.disk_s):
            return
        with self._store.request() as lock:
            yield lock
            began_s = self._env.now
            yield from self._computed(cost.store_s)
            if cost.disk_s:
                yield self._env.timeout(self._drawn(cost.disk_s))
            self._observed.locked_s += self._env.now - began_s

    def _on_loop(self, cpu_s: float) -> Events:
        """Compute in the thread of the event loop, which does one piece after the other."""
        if not cpu_s:
            return
        with self._loop.request() as turn:
            yield turn
            yield from self._computed(cpu_s)

    def _computed(self, cpu_s: float) -> Events:
        """Use the interpreter for so much processor time, on average."""
        if not cpu_s:
            return
        with self._interpreter.request() as turn:
            yield turn
            seconds = self._drawn(cpu_s / self._costs.cores)
            self._observed.busy_s += seconds
            yield self._env.timeout(seconds)

    def _drawn(self, mean_s: float) -> float:
        return self._rng.expovariate(1.0 / mean_s)


def closed_network(demands_s: Sequence[float], think_s: float, n: int) -> tuple[float, float]:
    """Return throughput and response time of a closed network of single servers, exactly.

    Mean value analysis (Reiser & Lavenberg 1980) for one class of ``n`` customers.

    Args:
        demands_s: service demand of a cycle at each station, in seconds (visits times mean
            exponential service time).
        think_s: mean time of a cycle outside of the stations.
        n: number of customers.

    >>> throughput, response_s = closed_network([1.0], 0.0, 3)
    >>> throughput, response_s
    (1.0, 3.0)
    """
    lengths, throughput, response_s = [0.0] * len(demands_s), 0.0, 0.0
    for customers in range(1, n + 1):
        residence_s = [d * (1 + length) for d, length in zip(demands_s, lengths, strict=True)]
        response_s = sum(residence_s)
        throughput = customers / (think_s + response_s)
        lengths = [throughput * each for each in residence_s]
    return throughput, response_s


def repairman_throughput(service_s: float, think_s: float, n: int) -> float:
    """Return the throughput of ``n`` machines and one repairman (M/M/1//n), exactly.

    The birth-death chain of the number of machines at the repairman; Feller 1968, XVII.7.

    >>> round(repairman_throughput(1.0, 1.0, 2), 6)
    0.8
    """
    weights = [1.0]
    for at in range(n):
        weights.append(weights[-1] * (n - at) * service_s / think_s)
    return (1.0 - weights[0] / math.fsum(weights)) / service_s


def bounds(demands_s: Sequence[float], think_s: float, n: int) -> float:
    """Return the most that a closed network can do a second (Denning & Buzen 1978).

    >>> bounds([0.5, 0.1], 1.4, 2), bounds([0.5, 0.1], 1.4, 100)
    (1.0, 2.0)
    """
    return min(1.0 / max(demands_s), n / (think_s + sum(demands_s)))
