"""How many workers one service serves, by a model of it that is fitted to measurements.

``python -m benchmarks.service --part capacity --json costs.json`` measures a service on your
machine, ``python -m benchmarks.service_model --costs costs.json`` answers for it. Without
``--costs`` the answer is for the machine of ``benchmarks/service_costs.json``, which it names.

* ``limits``: requests of each kind a second, measured, and the bytes of a run in the store;
* ``validation``: the model (`benchmarks.service_simulation`) beside the measurements. Its
  parameters come from the queue without HTTP and from 1 to 4 clients of one kind; more clients,
  and mixed loads of workers and viewers, are held out;
* ``exact``: the simulation beside formulas of closed networks, where these are exact;
* ``scale``: for runs of 1 s to 10 min, how many workers fill the core, the store's lock and the
  connections of one service that has a core for itself, what gives way first, and how many
  services more workers need.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from assistant.client.worker import LEASE_S
from assistant.core.errors import AssistantError
from assistant.service.server import ConnectionLimits
from assistant.session.execution_loop import BEAT_S, IDLE_S, REPORT_S
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.service_capacity import KINDS, RUN_S
from benchmarks.service_simulation import (
    LOOK_S,
    RequestCost,
    ServiceCosts,
    ServiceSlots,
    SimulatedService,
    bounds,
    closed_network,
    repairman_throughput,
)

SHIPPED = Path(__file__).with_name("service_costs.json")
PARTS = ("limits", "validation", "exact", "scale")
FEW = (1, 2, 4)
"""Numbers of clients to which the model is fitted; greater ones are held out."""

ON_DISK = "result"
"""The kind of request whose transaction waits for the disk."""

FULL = 0.8
"""Share of a resource up to which it counts as enough."""

VIEWERS = 10
NEEDED = (1_000, 10_000)
T_99 = 3.250
"""Quantile of Student's t with 9 degrees of freedom, 99 % two-sided."""

REPLICATIONS = 10
DAY_S, HOUR_S = 86_400, 3_600
SHARES = (1.0, 2.0)
"""Loads to simulate, as multiples of the workers that a core carries."""


@dataclass(frozen=True)
class Scenario:
    """What the workers of a service do.

    Args:
        name: for tables.
        run_s: mean length of a run in seconds; None if no run waits.
        reports: whether programs report every `REPORT_S`.
        beat_s: seconds between two heartbeats.
    """

    name: str
    run_s: float | None
    reports: bool = False
    beat_s: float = BEAT_S

    @property
    def per_s(self) -> Mapping[str, float]:
        """Requests of one worker in a second by kind, if it never waits for the service."""
        if self.run_s is None:
            return {"poll": 1 / IDLE_S}
        reports = {"report": 1 / REPORT_S} if self.reports else {}
        whole_beats = 1 / math.expm1(self.beat_s / self.run_s)  # of an exponential run
        each = {"lease": 1.0, "result": 1.0, "heartbeat": whole_beats}
        return {kind: n / self.run_s for kind, n in each.items()} | reports


SCENARIOS = (
    Scenario("1 s", 1.0),
    Scenario("10 s", 10.0),
    Scenario("1 min", 60.0),
    Scenario("10 min", 600.0),
    Scenario("1 min, a report a second", 60.0, reports=True),
    Scenario("10 min, a heartbeat for each third of a lease", 600.0, beat_s=LEASE_S / 3),
    Scenario("none: no run waits", None),
)


class Measured:
    """The measurements of ``benchmarks.service --part capacity``.

    Args:
        body: JSON object that it wrote. Raises AssistantError if figures are missing.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._figures: Mapping[str, float] = body.get("figures", {})
        self.machine = body.get("machine", {})
        self.load = self._median_load()

    @classmethod
    def read(cls, path: Path) -> "Measured":
        """Read a file. Raises AssistantError if it cannot be read or has no such figures."""
        try:
            return cls(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise AssistantError(f"cannot read the costs '{path}': {error}") from error

    def __call__(self, *names: object) -> float:
        """Return the figure of a name, in parts."""
        name = f"capacity, {', '.join(map(str, names[:-1]))}: {names[-1]}"
        try:
            return self._figures[name]
        except KeyError:
            raise AssistantError(
                f"the costs have no figure '{name}'; measure them with: "
                "python -m benchmarks.service --part capacity --json FILE"
            ) from None

    def at(self, kind: str, n_clients: int, name: str) -> float:
        """Return a figure of so many clients of one kind."""
        return self(kind, f"{n_clients} clients", name)

    @property
    def clients(self) -> list[int]:
        """Numbers of clients that were measured."""
        names = [name.split(", ")[2] for name in self._figures if ": per_s" in name]
        return sorted({int(name.split()[0]) for name in names})

    @property
    def mixed(self) -> list[tuple[int, int]]:
        """Workers and viewers of the mixed loads that were measured."""
        found = [
            name.split(", ")[2:4]
            for name in self._figures
            if name.startswith("capacity, mixed") and name.endswith(": busy")
        ]
        return [(int(w.split()[0]), int(v.split()[0])) for w, v in found]

    def _median_load(self) -> float:
        loads = [value for name, value in self._figures.items() if name.endswith(": load")]
        if not loads:
            raise AssistantError("the file of costs has no figures of the part 'capacity'")
        return median(loads)


def fitted(measured: Measured, few: Sequence[int] = FEW) -> ServiceCosts:
    """Return the costs of requests, from the queue without HTTP and from few clients.

    * processor times: of the service and, inside of the store's lock, of the queue by itself;
    * disk: what the queue's wait for a result is longer than its processor time, as stretched by
      the machine's other work as that of the other kinds, and no more than the results a second
      of ``few`` clients leave for it;
    * cores: processor seconds a second at the highest rate of ``few`` clients, who never pause;
    * delay: what is left of the time between two answers of a single client.
    """
    known = [n for n in few if n in measured.clients] or list(few)
    cpu_s = {k: median(measured.at(k, n, "cpu_ms") for n in known) / 1e3 for k in KINDS}
    client_s = median(measured.at(k, n, "client_ms") for k in KINDS for n in known) / 1e3
    others = [kind for kind in KINDS if kind != ON_DISK]
    stretched = median(
        _store(measured, k, "wall_ms") / _store(measured, k, "cpu_ms") for k in others
    )
    disk_s = max(
        0.0,
        (_store(measured, ON_DISK, "wall_ms") - stretched * _store(measured, ON_DISK, "cpu_ms"))
        / 1e3,
    )
    most = {k: max(measured.at(k, n, "per_s") for n in known) for k in KINDS}
    cores = median(most[k] * cpu_s[k] for k in others)
    store_s = {k: min(_store(measured, k, "cpu_ms") / 1e3, cpu_s[k]) for k in KINDS}
    disk_s = min(disk_s, max(0.0, 1 / most[ON_DISK] - store_s[ON_DISK] / cores))
    kinds = {}
    for kind in KINDS:
        disk = disk_s if kind == ON_DISK else 0.0
        alone_s = 1 / measured.at(kind, known[0], "per_s")
        delay_s = max(0.0, alone_s - cpu_s[kind] / cores - disk - client_s)
        kinds[kind] = RequestCost(cpu_s[kind] - store_s[kind], store_s[kind], disk, delay_s)
    return ServiceCosts(kinds, max(0.0, measured("view", "cpu_ms")) / 1e3, cores, client_s)


def _store(measured: Measured, kind: str, name: str) -> float:
    return measured("store", kind, name)


@dataclass(frozen=True)
class HeldOut:
    """One measurement that the model has not seen, beside what the model says."""

    what: str
    measured: float
    modelled: float

    @property
    def error(self) -> float:
        """Error of the model as a share of the measurement."""
        return self.modelled / self.measured - 1


def held_out(measured: Measured, costs: ServiceCosts, seconds: float) -> Iterator[HeldOut]:
    """Yield throughputs of many clients and of mixed loads, measured and modelled."""
    for n in (n for n in measured.clients if n not in FEW):
        for kind in KINDS:
            service = SimulatedService(costs, n)
            service.add_clients(n, kind)
            rate = service.run(seconds, seconds / 4).rate(kind)
            yield HeldOut(f"{kind}, {n} clients: a second", measured.at(kind, n, "per_s"), rate)
    for workers, viewers in measured.mixed:
        of = f"mixed, {workers} workers, {viewers} viewers"
        service = SimulatedService(costs, workers)
        service.add_workers(workers, RUN_S)
        service.add_viewers(viewers)
        found = service.run(2 * seconds, seconds)
        yield HeldOut(f"{of}: runs a second", measured(of, "runs_per_s"), found.rate("result"))
        yield HeldOut(f"{of}: cores busy", measured(of, "busy"), found.busy * costs.cores)


@dataclass(frozen=True)
class Fill:
    """How many workers fill each resource of one service up to `FULL`, with `VIEWERS` viewers.

    Args:
        core: workers until the interpreter is busy.
        store: until the store's lock is held.
        connections: until no further connection is accepted.
        bound: workers at which a queue begins in any case (Denning & Buzen's N*).
    """

    core: float
    store: float
    connections: int
    bound: float

    @property
    def most(self) -> int:
        """The most workers that fit."""
        return int(min(self.core, self.store, self.connections))

    @property
    def first(self) -> str:
        """Name of the resource that gives way first."""
        return min(("core", "store", "connections"), key=lambda name: getattr(self, name))


def fill(costs: ServiceCosts, scenario: Scenario) -> Fill:
    """Return how many workers fill one service, by the utilisation law."""
    requests = scenario.per_s.items()
    core = sum(n * costs.core_s(kind) for kind, n in requests)
    store = sum(n * costs.lock_s(kind) for kind, n in requests)
    events_per_s = sum(n for kind, n in requests if kind in ("lease", "report", "result"))
    looks = VIEWERS / LOOK_S
    view_s = costs.view_s / costs.cores
    # each look is the first after an event, as soon as there are more events than looks
    viewers = looks * (costs.core_s("look") + (view_s if events_per_s else 0.0))
    viewers_store = looks * costs.lock_s("look")
    connections = ConnectionLimits().connections - VIEWERS
    return Fill(
        max(0.0, FULL - viewers) / core if core else math.inf,
        max(0.0, FULL - viewers_store) / store if store else math.inf,
        connections,
        1 / max(core, store),
    )


@dataclass(frozen=True)
class Load:
    """What a simulated service does under a load.

    Args:
        busy: share of the time in which the interpreter is busy.
        longer: the wait for an answer, 95 %, in times of the mean wait of a client that is alone.
        refused: share of the requests of workers that are refused.
        lost: leases that end too early for each worker and hour.
    """

    busy: float
    longer: float
    refused: float
    lost: float


def loaded(costs: ServiceCosts, scenario: Scenario, n_workers: int, seconds: float) -> Load:
    """Simulate so many workers on one service that accepts all connections."""
    service = SimulatedService(costs, n_workers)
    service.add_viewers(VIEWERS)
    kind = "lease"
    if scenario.run_s is None:
        kind = "poll"
        service.add_idle_workers(n_workers)
    else:
        service.add_workers(
            n_workers, scenario.run_s, reports=scenario.reports, beat_s=scenario.beat_s
        )
        if scenario.run_s > scenario.beat_s:
            kind = "heartbeat"
    found = service.run(seconds, seconds / 2)
    alone_s = costs.core_s(kind) + costs.kinds[kind].disk_s + costs.kinds[kind].delay_s
    waits = sorted(found.waits_s[kind])
    n_answered = sum(len(each) for name, each in found.waits_s.items() if name != "look")
    return Load(
        found.busy,
        waits[int(0.95 * len(waits))] / alone_s if waits else math.nan,
        found.refused / (found.refused + n_answered),
        found.lost_leases / n_workers / seconds * HOUR_S,
    )


def print_limits(measured: Measured, costs: ServiceCosts, record: Record) -> None:
    """Print how many requests one service answers, and what a run takes in the store."""
    many = [n for n in measured.clients if n not in FEW] or measured.clients
    most = {k: max(measured.at(k, n, "per_s") for n in measured.clients) for k in KINDS}
    beat_s = costs.kinds["heartbeat"].cpu_s
    table(
        ["request", "a second, 1 client", f"a second, at most ({many[-1]} clients or fewer)",
         "processor time, heartbeats"],
        [
            [kind, f"{measured.at(kind, 1, 'per_s'):.0f}", f"{most[kind]:.0f}",
             f"{costs.kinds[kind].cpu_s / beat_s:.1f}"]
            for kind in KINDS
        ],
    )  # fmt: skip
    for kind in KINDS:
        record.figure(f"limits, {kind}: per_s", most[kind])
        record.figure(f"limits, {kind}: heartbeats", costs.kinds[kind].cpu_s / beat_s)
    runs_per_s = 1 / (costs.core_s("lease") + max(costs.core_s("result"), costs.lock_s("result")))
    record.figure("limits: events a day", 3 * runs_per_s * DAY_S)
    record.figure("limits: cores", costs.cores)
    events = measured("size", "plain_events") / 1_000, measured("size", "reports_events") / 1_000
    waiting, plain, reports = (
        measured("size", f"{name}_bytes") for name in ("waiting", "plain", "reports")
    )
    each = (reports - plain) / 10
    table(
        ["1,000 runs in the store", "MB", "events a run"],
        [
            ["waiting", f"{waiting / 1e6:.2f}", "1"],
            ["completed", f"{(waiting + plain) / 1e6:.2f}", f"{1 + events[0]:.0f}"],
            ["with 10 intermediate results each", f"{(waiting + reports) / 1e6:.2f}",
             f"{1 + events[1]:.0f}"],
        ],
    )  # fmt: skip
    record.figure("limits: bytes a completed run", (waiting + plain) / 1_000)
    record.figure("limits: bytes an intermediate result", each / 1_000)


def print_validation(
    measured: Measured, costs: ServiceCosts, record: Record, seconds: float
) -> None:
    """Print the model beside measurements that it was not fitted to."""
    found = list(held_out(measured, costs, seconds))
    table(
        ["held out", "measured", "model", "error"],
        [
            [one.what, f"{one.measured:.3g}", f"{one.modelled:.3g}", f"{100 * one.error:+.0f} %"]
            for one in found
        ],
    )  # fmt: skip
    rows = []
    for name, chosen in {
        "one kind of request": [each for each in found if "clients" in each.what],
        "workers and viewers": [each for each in found if "mixed" in each.what],
    }.items():
        if not chosen:
            continue
        errors = [abs(each.error) for each in chosen]
        record.figure(f"validation, {name}: n", len(errors))
        record.figure(f"validation, {name}: median error, %", 100 * median(errors))
        record.figure(f"validation, {name}: greatest error, %", 100 * max(errors))
        rows.append([name, str(len(errors)), f"{100 * median(errors):.0f} %",
                     f"{100 * max(errors):.0f} %"])  # fmt: skip
    table(["held out", "figures", "median error", "greatest error"], rows)


def print_exact(costs: ServiceCosts, record: Record, seconds: float) -> None:
    """Print the simulation beside formulas, for heartbeats that take the interpreter alone."""
    beat_s, think_s = costs.core_s("heartbeat"), 20 * costs.core_s("heartbeat")
    alone = ServiceCosts({"heartbeat": RequestCost(beat_s)})
    disk = ServiceCosts({"heartbeat": RequestCost(beat_s, 0.0, beat_s / 2)})
    rows = []
    for name, simulated, formula, demands in (
        ("repairman", alone, lambda n: repairman_throughput(beat_s, think_s, n), [beat_s]),
        ("two stations", disk, lambda n: closed_network([beat_s, beat_s / 2], think_s, n)[0],
         [beat_s, beat_s / 2]),
    ):  # fmt: skip
        for n in (10, 30):
            rates = []
            for seed in range(REPLICATIONS):
                service = SimulatedService(simulated, seed, ServiceSlots(10_000))
                service.add_clients(n, "heartbeat", think_s)
                rates.append(service.run(seconds, seconds / 4).rate("heartbeat") * beat_s)
            half = T_99 * stdev(rates) / math.sqrt(len(rates))
            exact, bound = formula(n) * beat_s, bounds(demands, think_s, n) * beat_s
            rows.append(
                [f"{name}, {n} clients", f"{exact:.3f}", f"{mean(rates):.3f} +- {half:.3f}",
                 f"{bound:.3f}"]
            )  # fmt: skip
            record.figure(f"exact, {name}, {n}: off by intervals", abs(mean(rates) - exact) / half)
    table(["core busy", "formula", "simulation, 99 %", "bound"], rows)


def print_scale(costs: ServiceCosts, record: Record, seconds: float) -> None:
    """Print how many workers one service serves, and what more of them need."""
    rows, loads = [], []
    for scenario in SCENARIOS:
        found = fill(costs, scenario)
        needs = [math.ceil(n / found.most) for n in NEEDED]
        rows.append(
            [scenario.name, f"{found.core:,.0f}", f"{found.store:,.0f}", f"{found.connections:,}",
             found.first, *map(str, needs)]
        )  # fmt: skip
        for name in ("core", "store", "connections"):
            record.figure(f"scale, {scenario.name}: {name}", getattr(found, name))
        for share in SHARES:
            n = int(found.core * share)
            load = loaded(costs, scenario, n, seconds)
            loads.append(
                [scenario.name, f"{n:,}", f"{load.busy:.2f}", f"{load.longer:.0f}",
                 f"{100 * load.refused:.0f} %", f"{load.lost:.1f}"]
            )  # fmt: skip
            record.figure(f"scale, {scenario.name}, {share:g}: busy", load.busy)
            record.figure(f"scale, {scenario.name}, {share:g}: refused", load.refused)
    table(
        ["runs of", "workers of a core", "of the store", "of the connections", "first",
         *(f"services for {n:,} workers" for n in NEEDED)],
        rows,
    )  # fmt: skip
    table(
        [
            "runs of",
            "workers",
            "core busy",
            "wait, times of alone",
            "refused",
            "leases lost, each worker and hour",
        ],
        loads,
    )


def main() -> None:
    """Fit, simulate, print the tables, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options_parser.add_argument("--costs", type=Path, default=SHIPPED, help="measured costs")
    options_parser.add_argument("--part", action="append", choices=PARTS, help="all if not given")
    options = options_parser.parse_args()
    record = Record("service_model", options, list(range(REPLICATIONS)), free=("part",))
    measured = Measured.read(options.costs)
    costs, seconds = fitted(measured), 1.0 if options.quick else 20.0
    acts: Mapping[str, Callable[[], None]] = {
        "limits": lambda: print_limits(measured, costs, record),
        "validation": lambda: print_validation(measured, costs, record, seconds / 4),
        "exact": lambda: print_exact(costs, record, seconds),
        "scale": lambda: print_scale(replace(costs, cores=1.0), record, seconds),
    }
    table(
        ["measured on", "cores", "load meanwhile", "cores that a busy service uses"],
        [[str(measured.machine.get("cpu")), str(measured.machine.get("cores")),
          f"{measured.load:.1f}", f"{costs.cores:.2f}"]],
    )  # fmt: skip
    for part in options.part or PARTS:
        acts[part]()
    record.write()


if __name__ == "__main__":
    guarded(main)
