"""How fast the queue is over HTTP; part ``http`` of ``benchmarks.service``.

A service in a process of its own on the loopback, workers in processes of their own. Each worker
claims a run under a key, as the client does, and tells its result at once: what is timed is the
service with its walls, its log and its journal, and the clients' own share of the processor.

* claims and results per second with 1 and with 8 workers, and the wait for a claim;
* meanwhile, the wait of a person who gives a run another priority;
* the wait for a claim, and for a priority, with 10 and with 100,000 runs in the queue;
* from the start of a service on a long journal to its first claim.

On a machine that does other work the rates are lower bounds and the waits upper ones; the load is
noted beside them.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from assistant.core.events import Event
from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from benchmarks.harness import Record, table

NAME = "runs"
WORKERS = (1, 8)
LEASE_S = 600.0
TOKEN = "0123456789abcdef" * 4
PEOPLE_PAUSE_S = 0.05
PATIENCE_S = 120.0
AT_ONCE = 5_000  # Events of one append
Make = Callable[[Path, int, int], SqliteStore]
"""Makes a store with one active experiment called `NAME`: so many runs wait, so many are over."""

SERVE = """
import sys
from pathlib import Path
from assistant.service.app import make_service
from assistant.service.auth import Role, RoleTokens
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.store import SqliteStore
log = ServiceLog(open(sys.argv[1] + ".log", "a"))
service = make_service(ExperimentService(SqliteStore(Path(sys.argv[1])), log), RoleTokens({Role.OWNER: sys.argv[2]}), log)
server = HttpServer(service.asgi, bind(), log, drain=service.context.drain)
print(server.url, flush=True)
server.run()
"""  # noqa: E501


def append_in_parts(store: SqliteStore, name: str, events: Sequence[Event]) -> None:
    """Append the events of a new experiment, some at once, and let workers take its runs."""
    for start in range(0, len(events), AT_ONCE):
        store.append(name, start, events[start : start + AT_ONCE])
    RunQueue(store).set_active(name, True)


@dataclass(frozen=True)
class Served:
    """A service in a process of its own."""

    port: int
    pid: int

    def cpu_s(self) -> float | None:
        """Return the processor time that it has used so far; None where nothing tells."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(path: Path) -> Iterator[Served]:
    """Serve a store in a process of its own, on a port at which it may not answer yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(path), TOKEN], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Served(int(process.stdout.readline().rsplit(":", 1)[1]), process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class Wire:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """Send one request; return what came, None for nothing."""
        content = self.send(method, path, body, key)
        return json.loads(content) if content else None

    def send(self, method: str, path: str, body: object = None, key: str = "") -> bytes:
        """Send one request; return the bytes that came."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if key:
            headers["Idempotency-Key"] = key
        told = None
        if body is not None:
            told, headers["Content-Type"] = json.dumps(body), "application/json"
        self._http.request(method, path, told, headers)
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise AssertionError(f"{method} {path}: {answer.status} {content.decode()}")
        return content

    def lease(self, key: str) -> Any:
        """Claim a run."""
        return self.ask("POST", "/v1/leases", {"worker": "worker", "lease_s": LEASE_S}, key)

    def complete(self, token: str) -> None:
        """Tell a result."""
        body = {"measures": {"loss": 1.0}, "duration_s": 0.001}
        self.ask("POST", f"/v1/leases/{token}/result", body)

    def until_it_answers(self) -> None:
        """Return once the service does."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.ask("GET", "/health")
                return
            except OSError:
                self._http.close()
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.005)

    def close(self) -> None:
        """Close it."""
        self._http.close()


def work(port: int, number: int, ready: Any, ends: Any) -> None:
    """Claim and complete until nothing waits; one process."""
    wire, waits = Wire(port), list[float]()
    wire.until_it_answers()
    ready.wait()
    began_s = time.monotonic()
    while True:
        asked_s = time.perf_counter()
        got = wire.lease(f"{number}-{len(waits)}")
        waits.append(time.perf_counter() - asked_s)
        if got is None:
            break
        wire.complete(got["token"])
    ends.put((waits[:-1], began_s, time.monotonic()))


class Person:
    """Somebody who gives the runs at the end of the queue other priorities all the time."""

    def __init__(self, port: int, runs: Sequence[int]) -> None:
        self.waits: list[float] = []
        self._wire, self._runs, self._stop = Wire(port), runs, threading.Event()
        self._thread = threading.Thread(target=self._decide, daemon=True)

    def first(self) -> float:
        """Decide once; return the wait, in which the service reads the journal (s)."""
        return self._one(0)

    def __enter__(self) -> "Person":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._wire.close()

    def _one(self, i: int) -> float:
        path = f"/v1/experiments/{NAME}/runs/{self._runs[i % len(self._runs)]}"
        asked_s = time.perf_counter()
        self._wire.ask("PATCH", path, {"priority": -1.0 - i % 3})
        return time.perf_counter() - asked_s

    def _decide(self) -> None:
        while not self._stop.wait(PEOPLE_PAUSE_S):
            try:
                self.waits.append(self._one(len(self.waits)))
            except AssertionError:  # the queue has come to its end: nothing waits any more
                return


def throughput(folder: Path, make: Make, n_runs: int, n_workers: int) -> dict[str, Any]:
    """Let workers empty a queue while a person decides."""
    path = folder / f"http-{n_workers}.db"
    make(path, n_runs, 0).close()
    context = multiprocessing.get_context("spawn")
    ready, ends = context.Barrier(n_workers + 1), context.Queue()
    with served(path) as service:
        workers = [
            context.Process(target=work, args=(service.port, i, ready, ends))
            for i in range(n_workers)
        ]
        for one in workers:
            one.start()
        wire = Wire(service.port)
        wire.until_it_answers()
        with Person(service.port, range(n_runs - 50, n_runs)) as person:
            ready.wait()
            before_s = service.cpu_s()
            waits, began, ended = zip(*(ends.get() for _ in workers), strict=True)
            after_s = service.cpu_s()
        for one in workers:
            one.join()
        wire.close()
    leases = [wait for some in waits for wait in some]
    seconds = max(ended) - min(began)
    return {
        "n": len(leases), "s": seconds, "per_s": len(leases) / seconds, **_ms("claim", leases),
        **_ms("decision", person.waits), "load": os.getloadavg()[0],
        "cpu_ms": None if before_s is None or after_s is None else
        1e3 * (after_s - before_s) / len(leases),
    }  # fmt: skip


def latency(folder: Path, make: Make, n_queued: int, n_claims: int) -> dict[str, float]:
    """Claim and give back, so that the queue stays as long as it is, while a person decides."""
    path = folder / f"http-queued-{n_queued}.db"
    make(path, n_queued, 0).close()
    with served(path) as service:
        wire, waits = Wire(service.port), []
        wire.until_it_answers()
        person = Person(service.port, range(n_queued // 2 + 1, n_queued + 1))
        first_s = person.first()
        with person:
            for i in range(n_claims):
                asked_s = time.perf_counter()
                got = wire.lease(f"claim-{i}")
                waits.append(time.perf_counter() - asked_s)
                wire.ask("POST", f"/v1/leases/{got['token']}/return", {})
        wire.close()
    return {**_ms("claim", waits), **_ms("decision", person.waits), "first_decision_s": first_s}


def restart(folder: Path, make: Make, n_runs: int) -> dict[str, float | None]:
    """Start a service on a long journal, half of it over; three times, the greatest counts."""
    path, waits, used = folder / "http-long.db", [], []
    make(path, n_runs - n_runs // 2, n_runs // 2).close()
    for i in range(3):
        began_s = time.perf_counter()
        with served(path) as service:
            wire = Wire(service.port)
            wire.until_it_answers()
            assert wire.lease(f"start-{i}") is not None
            waits.append(time.perf_counter() - began_s)
            used.append(service.cpu_s())
            wire.close()
    known = [one for one in used if one is not None]
    return {
        "first_claim_s": max(waits), "cpu_s": max(known, default=None),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def measure_http(options: argparse.Namespace, record: Record, folder: Path, make: Make) -> None:
    """Measure the queue over HTTP; print the tables."""
    n_runs, n_long, n_claims = (80, 600, 40) if options.quick else (4_000, 100_000, 500)
    rows = []
    for n in WORKERS:
        found = record.step(f"http, {n} workers", lambda n=n: throughput(folder, make, n_runs, n))
        for kind in ("per_s", "claim_p50_ms", "claim_p95_ms", "decision_p95_ms", "cpu_ms"):
            record.figure(f"http, {n} workers: {kind}", found[kind])
        cpu = _number(found["cpu_ms"], 1)
        rows.append([str(n), f"{found['per_s']:.0f}", *_told(found), cpu, f"{found['load']:.1f}"])
    table(
        ["workers over HTTP", "runs per second", "claim, median ms", "95 %",
         "priority meanwhile, 95 % ms", "CPU of the service, ms a run", "load"],
        rows,
    )  # fmt: skip
    rows = []
    for n_queued in (10, n_long):
        found = record.step(
            f"http, claim of {n_queued}", lambda n=n_queued: latency(folder, make, n, n_claims)
        )
        for kind in ("claim_p50_ms", "claim_p95_ms", "decision_p95_ms", "first_decision_s"):
            record.figure(f"http, claim of {n_queued}: {kind}", found[kind])
        rows.append([f"{n_queued:,}", *_told(found), f"{found['first_decision_s']:.2f}"])
    table(
        ["runs in the queue, over HTTP", "claim, median ms", "95 %", "priority meanwhile, 95 % ms",
         "first decision, s"],
        rows,
    )  # fmt: skip
    found = record.step(f"http, restart on {n_long}", lambda: restart(folder, make, n_long))
    for kind in ("first_claim_s", "cpu_s"):
        record.figure(f"http, restart on {n_long}: {kind}", found[kind])
    table(
        ["runs in the journal", "starting the service to its first claim, s", "its CPU, s", "load"],
        [[f"{n_long:,}", f"{found['first_claim_s']:.2f}", _number(found["cpu_s"], 2),
          f"{found['load']:.1f}"]],
    )  # fmt: skip


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _told(found: dict[str, Any]) -> list[str]:
    return [_number(found[kind], 1) for kind in ("claim_p50_ms", "claim_p95_ms", "decision_p95_ms")]


def _ms(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    """Return median and 95 % in ms; None of fewer than two."""
    if len(seconds) < 2:
        return {f"{name}_p50_ms": None, f"{name}_p95_ms": None}
    cuts = quantiles(seconds, n=20)
    return {f"{name}_p50_ms": 1e3 * cuts[9], f"{name}_p95_ms": 1e3 * cuts[18]}
