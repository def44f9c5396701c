"""One experiment of 100,000 finished runs; part ``big`` of ``benchmarks.service``.

The event log is made by the store and its codec, as in use: batches of suggestions, a run of the
current configuration, failures, replicates, runs that wait. A service in a process of its own
serves it, and each operation is timed over HTTP, with the processor time and the memory of the
service beside it:

* the first look, in which the service reads the log, and the looks after it; runs, queue, pages of
  the log, the whole log;
* effects, forecast, what-if and suggestions, which learn from a sample
  (`strategies.data.learning_sample`);
* 200 people who look on every second, with what two workers and one person who decides wait
  meanwhile;
* pages of the browser UI and the report, each in a process of its own;
* the same with Optuna's relational storage (SQLite) where it has the operation: all trials, the
  best one, a suggestion by TPE, importances.

Other work on the machine makes the times upper bounds; processor seconds depend on it less.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np

from assistant import Objective, SingleMeasure, Sla
from assistant.core.events import (
    BatchSuggested,
    Event,
    ExperimentOpened,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunSubmitted,
)
from assistant.core.run import Outcome
from assistant.core.sla import Steering, WarningPolicy
from assistant.store.event_store import SqliteStore
from benchmarks.harness import Record, table
from benchmarks.service_http import NAME, TOKEN, Wire, append_in_parts, served
from strategies import Configuration, Parameter, ParameterSpace, Suggestion

SPACE = ParameterSpace(
    (
        *(Parameter(f"p{i}", tuple(range(10))) for i in range(5)),
        Parameter("mode", ("a", "b", "c", "d", "e", "f", "g", "h")),
    )
)
BASELINE = Configuration((5,) * 6, SPACE.lineage)
SEED = 1
BATCH = 100
EVERY_FAILED, EVERY_REPLICATE = 33, 50
QUEUED = 2_000
VIEWERS, WORKERS = 200, 2
LOOK_EVERY_S = 1.0
AT = f"/v1/experiments/{NAME}"
CHILD = Path(__file__).with_name("peers") / "storage_child.py"
SCRIPT = Path(__file__).resolve().parents[1] / "streamlit_app.py"


def big_store(path: Path, n_runs: int, n_queued: int = QUEUED) -> SqliteStore:
    """Return a store with one active experiment: so many runs are over, so many wait."""
    store, rng = SqliteStore(path), np.random.default_rng(SEED)
    objective = Objective(SingleMeasure("loss"), "minimise")
    opened = ExperimentOpened(
        0.0, NAME, NAME, NAME, (), SPACE, objective, Sla(max_runs=n_runs + 5_000, goal=0.5),
        Steering("grasp"), WarningPolicy(), WORKERS, SEED, BASELINE, "",
    )  # fmt: skip
    n_all = n_runs + n_queued
    numbers = rng.permutation(SPACE.size)[:n_all]
    configurations = [SPACE.configuration(int(number)) for number in numbers]
    configurations[0] = BASELINE
    for i in range(EVERY_REPLICATE, n_runs, EVERY_REPLICATE):
        configurations[i] = configurations[int(rng.integers(i))]
    noise = rng.normal(scale=0.1, size=n_all)
    events: list[Event] = [opened]
    for i, configuration in enumerate(configurations):
        if i % BATCH == 1:
            events.append(_batch(float(i), i // BATCH + 1, configurations[i : i + BATCH]))
        number, source = i + 1, "suggested" if i else "baseline"
        batch = (i - 1) // BATCH + 1 if i else None
        events.append(
            RunSubmitted(float(i), number, configuration, source, number, "drawn", batch)  # type: ignore[arg-type]
        )
        if i < n_runs:
            events += _ended(float(i), number, configuration, float(noise[i]))
    append_in_parts(store, NAME, events)
    return store


def _batch(at_s: float, number: int, configurations: Sequence[Configuration]) -> BatchSuggested:
    suggestions = tuple(
        Suggestion(configuration, "random", "drawn", "random") for configuration in configurations
    )
    return BatchSuggested(at_s, number, suggestions, exhausted=False)


def _ended(at_s: float, number: int, configuration: Configuration, noise: float) -> list[Event]:
    started = RunStarted(at_s, number, "worker", f"{number:032x}")
    if number % EVERY_FAILED == 0:
        return [started, RunFailed(at_s + 1.0, number, "exit code 1", 1.0)]
    loss = 1.0 + sum((level - 3) ** 2 for level in configuration.level_ids) / 10 + noise
    outcome = Outcome({"loss": loss}, loss, -loss, True, 0.0)
    return [started, RunCompleted(at_s + 1.0, number, outcome, 1.0 + abs(noise))]


def rss_bytes(pid: int) -> int | None:
    """Return the memory that a process holds now; None where nothing tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def operations(n_runs: int) -> dict[str, tuple[str, str, Any]]:
    """Return method, path and body of each operation, by its name, in the order of measuring."""
    return {
        "first look, with reading the log": ("GET", AT, None),
        "experiment": ("GET", AT, None),
        "queue, 1,000 runs": ("GET", f"{AT}/queue", None),
        "runs, the last 100": ("GET", f"{AT}/runs?after={n_runs - 100}", None),
        "events, 1,000 of the middle": ("GET", f"{AT}/events?since={n_runs}", None),
        "the whole log": ("GET", f"{AT}/export", None),
        "effects": ("GET", f"{AT}/effects", None),
        "effects again": ("GET", f"{AT}/effects", None),
        "forecast": ("GET", f"{AT}/forecast", None),
        "forecast again": ("GET", f"{AT}/forecast", None),
        "what if": ("POST", f"{AT}/what-if", {"exploitation": 0.5}),
        "suggest 1": ("POST", f"{AT}/suggestions", {"n": 1}),
        "suggest 8": ("POST", f"{AT}/suggestions", {"n": 8}),
        "experiment after a decision": ("GET", AT, None),
    }


def one_by_one(path: Path, n_runs: int) -> dict[str, dict[str, float | None]]:
    """Time each operation, with the processor time and the memory of the service (bytes)."""
    found: dict[str, dict[str, float | None]] = {}
    with served(path) as service:
        wire = Wire(service.port)
        wire.until_it_answers()
        for name, (method, at, body) in operations(n_runs).items():
            before_s, asked_s = service.cpu_s() or 0.0, time.perf_counter()
            wire.send(method, at, body)
            wall_s = time.perf_counter() - asked_s
            cpu_s = None if service.cpu_s() is None else (service.cpu_s() or 0.0) - before_s
            found[name] = {"s": wall_s, "cpu_s": cpu_s, "rss_bytes": rss_bytes(service.pid)}
        wire.close()
    return found


class Viewer:
    """Somebody who looks at an experiment again and again, over one connection."""

    def __init__(self, port: int) -> None:
        self._port, self._tag = port, ""
        self.waits: list[float] = []
        self.statuses: Counter[int] = Counter()

    async def look_on(self, until_s: float, delay_s: float) -> None:
        """Look every second until then; the first time after a delay."""
        await asyncio.sleep(delay_s)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while time.monotonic() < until_s:
            asked_s = time.perf_counter()
            self.statuses[await self._look(reader, writer)] += 1
            self.waits.append(time.perf_counter() - asked_s)
            await asyncio.sleep(max(0.0, LOOK_EVERY_S - self.waits[-1]))
        writer.close()

    async def _look(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        head = f"GET {AT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        if self._tag:
            head += f"If-None-Match: {self._tag}\r\n"
        writer.write(f"{head}\r\n".encode())
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        await reader.readexactly(int(headers.get("content-length", "0")))
        self._tag = headers.get("etag", "")
        return int(lines[0].split()[1])


async def _watched(port: int, n_viewers: int, seconds: float) -> list[Viewer]:
    viewers = [Viewer(port) for _ in range(n_viewers)]
    until_s = time.monotonic() + seconds
    await asyncio.gather(
        *(one.look_on(until_s, i / n_viewers * LOOK_EVERY_S) for i, one in enumerate(viewers))
    )
    return viewers


def work_until(port: int, number: int, seconds: float, ends: Any) -> None:
    """Claim and complete runs for so long; one process. A refusal ends it, as an error."""
    wire, waits = Wire(port), list[float]()
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        asked_s = time.perf_counter()
        got = wire.lease(f"big-{number}-{len(waits)}")
        waits.append(time.perf_counter() - asked_s)
        if got is None:
            break
        time.sleep(0.1)
        wire.complete(got["token"])
    ends.put(waits)


def viewed(path: Path, n_viewers: int, seconds: float) -> dict[str, Any]:
    """Let people look on while workers complete runs and a person asks for suggestions."""
    context = multiprocessing.get_context("spawn")
    ends = context.Queue()
    with served(path) as service:
        wire = Wire(service.port)
        wire.until_it_answers()
        wire.send("GET", AT, None)
        before_s, began_s = service.cpu_s() or 0.0, time.monotonic()
        others: list[Any] = [
            context.Process(target=work_until, args=(service.port, i, seconds, ends))
            for i in range(WORKERS)
        ]
        others.append(context.Process(target=_decide, args=(service.port,)))
        for one in others:
            one.start()
        viewers = asyncio.run(_watched(service.port, n_viewers, seconds))
        claims = [wait for _ in range(WORKERS) for wait in ends.get(timeout=60)]
        for one in others:
            one.join()
        cpu_share = ((service.cpu_s() or 0.0) - before_s) / (time.monotonic() - began_s)
        memory = rss_bytes(service.pid)
        wire.close()
    statuses = sum((viewer.statuses for viewer in viewers), Counter[int]())
    return {
        "looks": sum(statuses.values()),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        **_cuts("look", [wait for viewer in viewers for wait in viewer.waits]),
        **_cuts("claim", claims), "claims": len(claims),
        "refused_workers": sum(one.exitcode != 0 for one in others[:WORKERS]),
        "cpu_share": cpu_share, "rss_bytes": memory, "load": os.getloadavg()[0],
    }  # fmt: skip


def _decide(port: int) -> None:
    wire = Wire(port)
    for _ in range(2):
        wire.send("POST", f"{AT}/suggestions", {"n": 1})
    wire.close()


def _cuts(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    if len(seconds) < 2:
        return {f"{name}_p50_s": None, f"{name}_p95_s": None}
    cuts = quantiles(seconds, n=20)
    return {f"{name}_p50_s": cuts[9], f"{name}_p95_s": cuts[18]}


REPORT = """
import json, resource, sys, time
from pathlib import Path
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import write_report
from assistant.session.opening import load_session
from assistant.store.event_store import SqliteStore
found = {}
def timed(name, act):
    cpu, at = time.process_time(), time.perf_counter()
    value = act()
    found[name] = {"s": time.perf_counter() - at, "cpu_s": time.process_time() - cpu,
        "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return value
path = Path(sys.argv[1])
store = timed("opening the store", lambda: SqliteStore(path))
session = timed("reading the log in a process of its own", lambda: load_session(store, sys.argv[2]))
timed("recommendation", session.recommendation)
events = timed("the log, decoded", session.events)
data = timed("report, collected", lambda: collect(session.experiment, events, session.now_s()))
timed("report (HTML)", lambda: write_report(data, path.with_name("report.html")))
print(json.dumps(found))
"""
PAGES = """
import json, os, resource, sys, time
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from assistant.service.browser_access import AccessPolicy, BrowserAccess
from assistant.ui import state
BrowserAccess(None, AccessPolicy(), "")  # as in use: pages without access control show nothing
script, experiment, names = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
sys.argv = ["streamlit_app.py"]
found = {}
page = AppTest.from_file(script, default_timeout=600)
page.query_params["e"] = experiment
for name in ["overview", *names]:
    page._page_hash = calc_hash(name)
    cpu, at = time.process_time(), time.perf_counter()
    page.run()
    assert not page.exception, [each.value for each in page.exception]
    assert not page.error, [each.value for each in page.error]
    title = f"page {name}" if f"first page" in found else "first page"
    found[title] = {"s": time.perf_counter() - at, "cpu_s": time.process_time() - cpu,
        "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
state.service_connection(os.environ["COPPERLINE_STORE"]).companion.end()
print(json.dumps(found))
"""
PAGE_NAMES = ("overview", "suggestions", "queue", "what-if", "space", "effects", "run", "steering",
              "report")  # fmt: skip


def in_a_process(
    script: str, *arguments: str, store: Path | None = None
) -> dict[str, dict[str, float | None]]:
    """Run a script in a process of its own; return the times that it prints."""
    environment = os.environ if store is None else {**os.environ, "COPPERLINE_STORE": str(store)}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr)
    found: dict[str, dict[str, float | None]] = json.loads(done.stdout.splitlines()[-1])
    return found


def optuna_times(folder: Path, python: str, n_trials: int) -> dict[str, Any]:
    """Time Optuna's storage with as many trials; ``missing`` where it is not installed."""
    done = subprocess.run(
        [python, str(CHILD), str(folder / "optuna-big.db"), str(n_trials)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


PEERS = {
    "first look, with reading the log": "all trials",
    "experiment": "best trial",
    "effects": "importances",
    "suggest 1": "ask (TPE)",
}
"""Operations of Optuna that answer the same question."""


def measure_big(options: argparse.Namespace, record: Record, folder: Path) -> None:
    """Measure one experiment with very many runs; print the tables."""
    n_runs, n_viewers, watch_s = (500, 10, 2.0) if options.quick else (100_000, VIEWERS, 30.0)
    path = folder / "big.db"

    def made() -> dict[str, Any]:
        began_s = time.perf_counter()
        store = big_store(path, n_runs)
        n_events = store.length(NAME)
        store.close()
        return {"s": time.perf_counter() - began_s, "n_events": n_events}

    if "big, made" in record.body["steps"] and not path.exists():
        made()  # the folder of a resumed benchmark is new
    making = record.step("big, made", made)
    found: dict[str, Any] = record.step("big, one by one", lambda: one_by_one(path, n_runs))
    found = found | record.step("big, report", lambda: in_a_process(REPORT, str(path), NAME))
    pages = (str(SCRIPT), NAME, ",".join(PAGE_NAMES))
    found |= record.step("big, pages", lambda: in_a_process(PAGES, *pages, store=path))
    other = record.step("big, optuna", lambda: optuna_times(folder, options.optuna_python, n_runs))
    rows = []
    for name, times in found.items():
        record.figure(f"big, {name}: s", times["s"])
        record.figure(f"big, {name}: cpu_s", times["cpu_s"])
        peer = other.get(PEERS.get(name, ""), {}).get("s")
        record.figure(f"big, {name}: optuna, s", peer)
        rows.append(
            [name, _text(times["s"]), _text(times["cpu_s"]), _mb(times["rss_bytes"]), _text(peer)]
        )
    table(
        [f"{n_runs:,} finished runs ({making['n_events']:,} events)", "s", "CPU of it, s",
         "memory after, MB", "Optuna RDB, s"],
        rows,
    )  # fmt: skip
    watched = record.step("big, viewers", lambda: viewed(path, n_viewers, watch_s))
    for kind in ("look_p50_s", "look_p95_s", "claim_p95_s", "cpu_share", "refused_workers"):
        record.figure(f"big, viewers: {kind}", watched[kind])
    table(
        ["people who look every second", "looks", "statuses", "median s", "95 % s",
         "claims of workers", "95 % s", "workers refused", "cores of the service", "memory, MB"],
        [[str(n_viewers), f"{watched['looks']:,}", str(watched["statuses"]),
          _text(watched["look_p50_s"]), _text(watched["look_p95_s"]), str(watched["claims"]),
          _text(watched["claim_p95_s"]), str(watched["refused_workers"]),
          f"{watched['cpu_share']:.2f}", _mb(watched["rss_bytes"])]],
    )  # fmt: skip


def _text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}" if seconds < 10 else f"{seconds:.1f}"


def _mb(n_bytes: float | None) -> str:
    return "" if n_bytes is None else f"{n_bytes / 2**20:.0f}"
