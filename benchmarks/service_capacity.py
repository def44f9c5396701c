"""What each kind of request costs a service, and how many it answers; part ``capacity``.

``python -m benchmarks.service --part capacity --json FILE`` serves a store in a process of its own
on the loopback. Clients in this process ask again as soon as they have an answer (closed loops):

* ``lease``, ``heartbeat``, ``report`` (an intermediate result) and ``result``, as workers send;
* ``poll``: a worker that asks for a run while none waits for it;
* ``look``: a viewer who sends the last ETag and learns that nothing has changed;
* ``view``: a viewer's first look after a new event, which advances the shared view.

For each kind and number of clients: requests a second, the wait, and the processor time of the
service and of the clients for one request. ``store`` measures the same operations on the queue in
this process, without HTTP: what is left there of the wait is the disk. ``mixed`` lets workers with
runs of random length and viewers who look every second use the service at once; nothing is fitted
to it, so `benchmarks.service_model` is compared with it. ``size`` counts the bytes of a store.

The figures are medians over ``--rounds``. They are those of this machine at its load, which is
noted beside them; the clients need a core of their own.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeVar

from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from benchmarks.harness import Record, table
from benchmarks.service_http import NAME, TOKEN, Make, Served, Wire, served

T = TypeVar("T")
KINDS = ("lease", "heartbeat", "report", "result", "poll", "look")
CLIENTS = (1, 2, 4, 16, 64)
MIXED = ((16, 0), (64, 10), (128, 20))
"""Workers and viewers of the mixed loads."""
RUN_S = 0.5
BEAT_S, LOOK_S = 3.0, 1.0
WARM_UP_S = 1.5
LEASE_S = 600.0
MEASURES = {"loss": 1.0}
N_DONE, N_RUNS = 1_000, 2_000
"""Runs that are over, and that wait, in the experiment that all use."""
N_SIZED, N_REPORTS = 1_000, 10
AT = f"/v1/experiments/{NAME}"


class Connection:
    """One connection of HTTP/1.1 that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.tag = ""

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect to a service on the loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(
        self, method: str, path: str, body: object = None, headers: str = ""
    ) -> tuple[int, bytes]:
        """Send a request; return status and body. Raises AssertionError for an error status."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._writer.write(f"{head}{headers}\r\n".encode() + content)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        answer = await self._reader.readexactly(int(fields.get("content-length", "0")))
        status = int(lines[0].split()[1])
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {answer.decode()}")
        self.tag = fields.get("etag", "")
        return status, answer

    def close(self) -> None:
        """Close it."""
        self._writer.close()


class Requests:
    """Requests of each kind, and the tokens of the leases that they need.

    Args:
        prefix: of the idempotency keys, so that no other load has the same.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self._n = prefix, 0
        self.tokens: deque[str] = deque()

    async def send(self, kind: str, connection: Connection) -> bool:
        """Send one request of a kind; return False if there is no run or lease left for it."""
        if kind == "lease":
            token = await self.lease(connection)
            if token is not None:
                self.tokens.append(token)
            return token is not None
        if kind == "look":
            await self.look(connection)
            return True
        if kind == "poll":
            assert await self.lease(connection, without=[NAME]) is None
            return True
        if not self.tokens:
            return False
        token = self.tokens.popleft()
        if kind != "result":
            self.tokens.append(token)
        await self.tell(kind, token, connection)
        return True

    async def lease(self, connection: Connection, without: Sequence[str] = ()) -> str | None:
        """Lease a run of no experiment in ``without``; return its token, None if no run waits."""
        self._n += 1
        body = {"worker": "worker", "lease_s": LEASE_S, "without": list(without)}
        key = f"Idempotency-Key: {self._prefix}-{self._n}\r\n"
        status, answer = await connection.ask("POST", "/v1/leases", body, key)
        return None if status == 204 else str(json.loads(answer)["token"])

    async def tell(self, kind: str, token: str, connection: Connection) -> None:
        """Send a heartbeat, an intermediate result or a result of a leased run."""
        bodies: dict[str, object] = {
            "heartbeat": None,
            "report": {"measures": MEASURES},
            "result": {"measures": MEASURES, "duration_s": 0.001},
        }
        await connection.ask("POST", f"/v1/leases/{token}/{kind}", bodies[kind])

    async def look(self, connection: Connection) -> None:
        """Look at the experiment, with the last ETag if there is one."""
        header = f"If-None-Match: {connection.tag}\r\n" if connection.tag else ""
        await connection.ask("GET", AT, headers=header)


async def _closed_loop(
    port: int, kind: str, n_clients: int, seconds: float, requests: Requests
) -> list[float]:
    """Let clients send requests of one kind without a pause; return the waits in seconds."""
    connections = [await Connection.open(port) for _ in range(n_clients)]
    waits: list[float] = []
    until_s = time.perf_counter() + seconds

    async def loop(connection: Connection) -> None:
        while (began_s := time.perf_counter()) < until_s and await requests.send(kind, connection):
            waits.append(time.perf_counter() - began_s)

    await asyncio.gather(*map(loop, connections))
    for connection in connections:
        connection.close()
    return waits


def _measured(
    service: Served, load: Callable[[], Coroutine[Any, Any, list[float]]]
) -> dict[str, Any]:
    """Put a load on a service; return the waits, and what it costs for each request."""
    cpu_s, own_s, began_s = service.cpu_s() or 0.0, time.process_time(), time.perf_counter()
    waits = asyncio.run(load())
    seconds = time.perf_counter() - began_s
    n = len(waits)
    own_ms = 1e3 * (time.process_time() - own_s) / n
    cpu_ms = 1e3 * ((service.cpu_s() or 0.0) - cpu_s) / n
    return {
        "n": n, "s": seconds, "per_s": n / seconds, "mean_ms": 1e3 * sum(waits) / n,
        **_cuts_ms(waits), "cpu_ms": cpu_ms, "client_ms": own_ms, "load": os.getloadavg()[0],
    }  # fmt: skip


def _cuts_ms(waits: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(waits, n=20) if len(waits) > 1 else [waits[0]] * 19
    return {"p50_ms": 1e3 * cuts[9], "p95_ms": 1e3 * cuts[18]}


@contextmanager
def _ready(template: Path) -> Iterator[tuple[Served, Requests]]:
    """Serve a copy of a store until the block ends; the service has read its log."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        path = Path(folder) / "store.db"
        shutil.copy(template, path)
        with served(path) as service:
            wire = Wire(service.port)
            wire.until_it_answers()
            wire.send("GET", AT)
            wire.close()
            yield service, Requests("capacity")


def measure_kinds(template: Path, n_clients: int, seconds: float) -> dict[str, Any]:
    """Measure each kind of request with so many clients that never pause."""
    with _ready(template) as (service, requests):
        return {
            kind: _measured(
                service, partial(_closed_loop, service.port, kind, n_clients, seconds, requests)
            )
            for kind in KINDS
        }


def measure_view(template: Path, n: int) -> dict[str, Any]:
    """Measure what a viewer's first look after a new event takes more than another one."""
    with _ready(template) as (service, requests):

        async def repeated(kinds: Sequence[str]) -> list[float]:
            connection = await Connection.open(service.port)
            waits = []
            for _ in range(n):
                for kind in kinds:
                    began_s = time.perf_counter()
                    await requests.send(kind, connection)
                waits.append(time.perf_counter() - began_s)
            connection.close()
            return waits

        _measured(service, partial(repeated, ["lease"]))
        apart = [_measured(service, partial(repeated, [kind])) for kind in ("report", "look")]
        both = _measured(service, partial(repeated, ["report", "look"]))
    return {"cpu_ms": both["cpu_ms"] - sum(each["cpu_ms"] for each in apart)}


def measure_store(template: Path, n: int) -> dict[str, Any]:
    """Measure the operations on the queue in this process, one after the other."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        path = Path(folder) / "store.db"
        shutil.copy(template, path)
        store = SqliteStore(path)
        found = _direct(store, n)
        store.close()
    return found


def _direct(store: SqliteStore, n: int) -> dict[str, Any]:
    queue, tokens = RunQueue(store), list[str]()

    def lease() -> None:
        got = queue.lease("worker", LEASE_S, key=f"direct-{len(tokens)}")
        assert got is not None
        tokens.append(got.token)

    acts: dict[str, Callable[[int], object]] = {
        "lease": lambda _: lease(),
        "heartbeat": lambda i: queue.heartbeat(tokens[i]),
        "report": lambda i: queue.report(tokens[i], MEASURES),
        "result": lambda i: queue.complete(tokens[i], MEASURES, None, 0.001),
        "poll": lambda i: queue.lease("worker", LEASE_S, key=f"poll-{i}", without=[NAME]),
        "look": lambda i: store.load(NAME, store.length(NAME) - i % 2),
    }
    found = {}
    for kind, act in acts.items():
        cpu_s, began_s = time.process_time(), time.perf_counter()
        for i in range(n):
            act(i)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        found[kind] = {"cpu_ms": 1e3 * cpu_s / n, "wall_ms": 1e3 * wall_s / n}
    return found


class MixedLoad:
    """Workers that lease, execute for a random time and send the result, and viewers who look.

    Args:
        service: that they use.
        seconds: for which it is measured, after a warm-up.
        run_s: mean time of a run, exponentially distributed.
    """

    def __init__(self, service: Served, seconds: float, run_s: float = RUN_S) -> None:
        self._service, self._run_s, self._rng = service, run_s, random.Random(1)
        self._seconds = seconds
        self._from_s = time.perf_counter() + WARM_UP_S
        self._until_s = self._from_s + seconds
        self._requests = Requests("mixed")
        self._waits: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self._busy = 0.0

    async def run(self, n_workers: int, n_viewers: int) -> dict[str, Any]:
        """Put the load on the service; return runs a second, cores busy and waits by kind."""
        await asyncio.gather(
            self._watch(),
            *(self._work() for _ in range(n_workers)),
            *(self._view() for _ in range(n_viewers)),
        )
        kinds = {
            kind: {"n": len(waits), "mean_ms": 1e3 * sum(waits) / len(waits), **_cuts_ms(waits)}
            for kind, waits in self._waits.items()
            if waits
        }
        return {
            "runs_per_s": len(self._waits["result"]) / self._seconds, "busy": self._busy,
            "kinds": kinds, "load": os.getloadavg()[0],
        }  # fmt: skip

    async def _watch(self) -> None:
        """Measure the processor time of the service between warm-up and end."""
        await asyncio.sleep(self._from_s - time.perf_counter())
        before_s, from_s = self._service.cpu_s() or 0.0, time.perf_counter()
        await asyncio.sleep(self._until_s - time.perf_counter())
        used_s = (self._service.cpu_s() or 0.0) - before_s
        self._busy = used_s / (time.perf_counter() - from_s)

    async def _timed(self, kind: str, request: Awaitable[T]) -> T:
        began_s = time.perf_counter()
        answer = await request
        ended_s = time.perf_counter()
        if self._from_s <= ended_s < self._until_s:
            self._waits[kind].append(ended_s - began_s)
        return answer

    async def _work(self) -> None:
        connection, requests = await Connection.open(self._service.port), self._requests
        token = await self._timed("lease", requests.lease(connection))
        while token is not None and time.perf_counter() < self._until_s:
            left_s = self._rng.expovariate(1 / self._run_s)
            while left_s > BEAT_S:
                await asyncio.sleep(BEAT_S)
                await self._timed("heartbeat", requests.tell("heartbeat", token, connection))
                left_s -= BEAT_S
            await asyncio.sleep(left_s)
            await self._timed("result", requests.tell("result", token, connection))
            token = await self._timed("lease", requests.lease(connection))
        assert token is not None, "the queue is too short for this load"
        connection.close()

    async def _view(self) -> None:
        connection = await Connection.open(self._service.port)
        await asyncio.sleep(self._rng.uniform(0.0, LOOK_S))
        while (began_s := time.perf_counter()) < self._until_s:
            await self._timed("look", self._requests.look(connection))
            await asyncio.sleep(max(0.0, LOOK_S - (time.perf_counter() - began_s)))
        connection.close()


def measure_mixed(template: Path, n_workers: int, n_viewers: int, seconds: float) -> dict[str, Any]:
    """Measure workers and viewers together."""
    with _ready(template) as (service, _):
        return asyncio.run(MixedLoad(service, seconds).run(n_workers, n_viewers))


def measure_size(folder: Path, make: Make) -> dict[str, Any]:
    """Count the bytes of a store for each run, with and without intermediate results."""
    found: dict[str, Any] = {}
    for name, n_reports in (("plain", 0), ("reports", N_REPORTS)):
        path = folder / f"size-{name}.db"
        store = make(path, N_SIZED, 0)
        queue = RunQueue(store)
        before = _compact_bytes(store, path)
        length = store.length(NAME)
        for i in range(N_SIZED):
            lease = queue.lease("worker", LEASE_S, key=f"size-{i}")
            assert lease is not None
            for _ in range(n_reports):
                queue.report(lease.token, MEASURES)
            queue.complete(lease.token, MEASURES, None, 0.001)
        found[f"{name}_bytes"] = _compact_bytes(store, path) - before
        found[f"{name}_events"] = store.length(NAME) - length
        store.close()
    empty = folder / "size-empty.db"
    make(empty, 0, 0).close()
    waiting = folder / "size-waiting.db"
    make(waiting, N_SIZED, 0).close()
    found["waiting_bytes"] = _file_bytes(waiting) - _file_bytes(empty)
    return found


def _compact_bytes(store: SqliteStore, path: Path) -> int:
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return _file_bytes(path)


def _file_bytes(path: Path) -> int:
    """Return the bytes of the pages in use."""
    connection = sqlite3.connect(path)
    (pages,), (free,), (size,) = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    connection.close()
    return int((pages - free) * size)


def _medians(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each number, over rounds."""
    return {
        name: _medians([one[name] for one in found]) if isinstance(value, dict)
        else median(one[name] for one in found)
        for name, value in found[0].items()
        if all(name in one for one in found)
    }  # fmt: skip


def measure_capacity(options: argparse.Namespace, record: Record, folder: Path, make: Make) -> None:
    """Measure costs and rates of each kind of request; print the tables."""
    quick = options.quick
    rounds, seconds = (1, 0.3) if quick else (3, 1.0)
    clients, mixed = (CLIENTS[:3], MIXED[:2]) if quick else (CLIENTS, MIXED)
    n_direct, mixed_s = (100, 1.0) if quick else (1_000, 4.0)
    template = folder / "template.db"
    make(template, N_RUNS, N_DONE).close()

    size = record.step("capacity, size", partial(measure_size, folder, make))
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "store": partial(measure_store, template, n_direct),
        "view": partial(measure_view, template, n_direct // 10),
    }
    for n in clients:
        measures[f"{n} clients"] = partial(measure_kinds, template, n, seconds)
    for each in mixed:
        name = "mixed, {} workers, {} viewers".format(*each)
        measures[name] = partial(measure_mixed, template, *each, mixed_s)
    found_by: dict[str, list[dict[str, Any]]] = {name: [] for name in measures}
    for i in range(rounds):  # outside, so that a busy minute of the machine is in one round only
        for name, measure in measures.items():
            found_by[name].append(record.step(f"capacity, {name}, round {i}", measure))
    store, view = _medians(found_by["store"]), _medians(found_by["view"])
    kinds = {n: _medians(found_by[f"{n} clients"]) for n in clients}
    loads = {
        each: _medians(found_by["mixed, {} workers, {} viewers".format(*each)]) for each in mixed
    }
    _note(record, kinds, store, loads)
    record.figure("capacity, view: cpu_ms", view["cpu_ms"])
    for name, value in size.items():
        record.figure(f"capacity, size: {name}", value)
    _print(kinds, store, view, loads)


def _note(
    record: Record, kinds: dict[int, dict[str, Any]], store: dict[str, Any], loads: Any
) -> None:
    for n, found in kinds.items():
        for kind, values in found.items():
            for name in ("per_s", "mean_ms", "p95_ms", "cpu_ms", "client_ms", "load"):
                record.figure(f"capacity, {kind}, {n} clients: {name}", values[name])
    for kind, values in store.items():
        for name, value in values.items():
            record.figure(f"capacity, store, {kind}: {name}", value)
    for (workers, viewers), found in loads.items():
        of = f"capacity, mixed, {workers} workers, {viewers} viewers"
        for name in ("runs_per_s", "busy", "load"):
            record.figure(f"{of}: {name}", found[name])
        for kind, values in found["kinds"].items():
            record.figure(f"{of}, {kind}: mean_ms", values["mean_ms"])


def _print(
    kinds: dict[int, dict[str, Any]], store: dict[str, Any], view: dict[str, Any], loads: Any
) -> None:
    first = min(kinds)
    table(
        ["request", "CPU ms", "of it the queue", "disk ms", "wait ms, 1 client",
         *(f"a second, {n}" for n in kinds)],
        [
            [
                kind, f"{kinds[first][kind]['cpu_ms']:.2f}", f"{store[kind]['cpu_ms']:.2f}",
                f"{store[kind]['wall_ms'] - store[kind]['cpu_ms']:.2f}",
                f"{kinds[first][kind]['mean_ms']:.2f}",
                *(f"{found[kind]['per_s']:.0f}" for found in kinds.values()),
            ]
            for kind in KINDS
        ],
    )  # fmt: skip
    table(["look after an event, CPU ms"], [[f"{view['cpu_ms']:.2f}"]])
    table(
        ["workers, viewers", "runs a second", "core busy", "lease ms", "result ms", "load"],
        [
            [
                f"{workers}, {viewers}", f"{found['runs_per_s']:.1f}", f"{found['busy']:.2f}",
                f"{found['kinds']['lease']['mean_ms']:.1f}",
                f"{found['kinds']['result']['mean_ms']:.1f}", f"{found['load']:.1f}",
            ]
            for (workers, viewers), found in loads.items()
        ],
    )  # fmt: skip
