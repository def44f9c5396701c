"""How the pages feel: first chart, page switch, click, live refresh, memory, large pictures.

``python -m benchmarks.ui`` serves the pages over a store that it makes, with a service of its own,
and uses them in a real Chromium:

* ``cold``: a server just started and a browser without a cache, until the first chart is drawn;
* ``switch``: from page to page by the menu, until the heading of the page and its charts are there;
* ``click``: from a click to its effect on the screen, and from another budget to its forecast;
* ``live``: processor time of the pages' process for each live refresh of one screen, and the share
  of a core that five screens take, while a run ends every second;
* ``memory``: what the process holds over so many minutes of live refresh, and its slope;
* ``map``: a map of 8,800 cells, from asking for the page until it is drawn, in each mode;
* ``gantt``: 5,000 jobs, and a window of 300,000 jobs;
* ``sizes``: every page at 100, 1,000 and 10,000 runs beside optuna-dashboard
  (`benchmarks.ui_sizes`), where ``--dashboard-python`` names an interpreter that has it.

Everything is measured on this machine at its load; the browser shares its processors.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from scipy.stats import theilslopes

from assistant.client.remote_session import RemoteSession
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.sla import AutoSteering
from assistant.executors import make_executor
from assistant.service.store_connection import ServiceSupervisor, needs_service
from assistant.store.event_store import SqliteStore
from assistant.ui.pages.overview import CHART_S
from assistant.ui.status_bar import LIVE_S
from benchmarks.browsing import CHART, SETTLED, Served, browsing, served
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.ui_sizes import measure_sizes, summarise_sizes
from sim.formats import write_swf
from sim.generators import default_workload

Opened = Callable[[], Any]
"""Opens a page with a profile of its own."""
SCRIPT = Path(__file__).resolve().parents[1] / "streamlit_app.py"
PARTS = ("cold", "switch", "click", "map", "gantt", "live", "memory", "sizes")
PAGES = {
    "Overview": "Best so far", "Suggestions": None, "Queue": None,
    "What if": None, "Space": "Space", "Effects": None, "Run": None, "Steering": None,
    "Report": "Basis of this report",
}  # fmt: skip
SCREENS = 5
DRAWN_A_SECOND = 2 / LIVE_S + 1 / CHART_S
"""Live parts of *Overview*: the bar and the numbers, and the chart."""


@dataclass(frozen=True)
class Prepared:
    """A store with experiments to look at, by what they are for."""

    store: Path
    ids: Mapping[str, str]


def table_of(path: Path, sizes: Sequence[int]) -> None:
    """Write a measured table of three parameters."""
    lines = ["a,b,c,objective"]
    a, b, c = (range(n) for n in sizes)
    lines += [
        f"{x},{y},{z},{100 + (x - 7) ** 2 + 2 * (y - 11) ** 2 + (z - 4) ** 2 + 3 * ((x * y) % 5)}"
        for x in a
        for y in b
        for z in c
    ]
    path.write_text("\n".join(lines) + "\n")


def prepare(folder: Path, *, quick: bool) -> Prepared:
    """Make the experiments that the pages are measured on."""
    store = SqliteStore(folder / "store.db")
    measured = folder / "measured.csv"
    table_of(measured, (22, 4, 4) if quick else (22, 20, 20))
    small, large = folder / "small.swf", folder / "large.swf"
    write_swf(default_workload(1, 500 if quick else 5_000), small)
    write_swf(default_workload(2, 2_000 if quick else 300_000), large)
    sleeps = {
        "application": {"kind": "command", "command": ["sleep", "{seconds}"], "unused": True},
        "objective": {"minimise": "wall_s"},
        "parameters": [
            {"name": "seconds", "levels": [0.8, 0.9, 1.0, 1.1]},
            {"name": "other", "levels": list(range(2_000))},
        ],
    }
    sweeps: dict[str, tuple[dict[str, Any], int]] = {
        "wide": ({"runs": 80, "application": {"kind": "lookup", "table": str(measured)}}, 40),
        "gantt": ({"runs": 9, "application": {"kind": "scheduling", "log": str(small)}}, 2),
        "huge": ({"runs": 9, "application": {"kind": "scheduling", "log": str(large)}}, 1),
        "live": ({"runs": 5_000, "goal": 0.1, **sleeps}, 0),
    }
    ids = {}
    for name, (tables, n) in sweeps.items():
        said = {"name": name, "seed": 3, **tables}
        built = build_sweep(check_settings(said, name))
        session = open_sweep(built, store, name, config_snapshot(said, ()))
        session.submit_baseline()
        if n > 1:
            session.submit(session.initial_evaluation(n - 1))
        if n:
            with make_executor(built.application, 1) as executor:
                session.run_queued(executor)
        if name == "wide":
            session.suggest(8)
        ids[name] = session.id
    store.close()
    return Prepared(folder / "store.db", ids)


@contextmanager
def pages_of(prepared: Prepared) -> Iterator[Served]:
    """Serve as `copperline app` does: the service is up before the pages."""
    companion = ServiceSupervisor(prepared.store)
    try:
        companion.reach()
        companion.keep()
        with served(prepared.store, SCRIPT) as server:
            yield server
    finally:
        companion.end()


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Yield a watch that tells the seconds since the block began."""
    began_s = time.perf_counter()
    yield lambda: time.perf_counter() - began_s


def drawn(page: Any) -> None:
    """Wait until a chart is on the page and the page stands still."""
    page.locator(CHART).first.wait_for(state="visible")
    page.locator(SETTLED).first.wait_for(state="attached")


def cold(prepared: Prepared, repeats: int) -> dict[str, Any]:
    """Start a server and a browser anew, each time, and wait for the first chart."""
    up, first = [], []
    for _ in range(repeats):
        with pages_of(prepared) as server, browsing(server.address) as opened:
            page = opened()
            with timed() as passed:
                page.goto(f"{server.url}/overview?e={prepared.ids['wide']}")
                page.locator(CHART).first.wait_for(state="visible")
                first.append(passed())
            up.append(server.up_s)
    return {"n": repeats, "server_up_s": up, "first_chart_s": first}


def switch(page: Any, server: Served, prepared: Prepared, repeats: int) -> dict[str, Any]:
    """Go through the menu, each page from the one before."""
    page.goto(f"{server.url}/overview?e={prepared.ids['wide']}")
    drawn(page)
    found: dict[str, list[float]] = {name: [] for name in PAGES}
    for _ in range(repeats):
        for name in (*list(PAGES)[1:], "Overview"):
            with timed() as passed:
                page.get_by_role("link", name=name, exact=True).click()
                page.wait_for_function(
                    "want => location.pathname.replace('-', ' ').slice(1) === want",
                    arg=name.lower(),
                )
                page.locator(SETTLED).first.wait_for(state="attached")
                found[name].append(passed())
    return {"pages_s": found}


def click(page: Any, server: Served, prepared: Prepared, repeats: int) -> dict[str, Any]:
    """Click and wait for what the click does."""
    from playwright.sync_api import expect

    page.goto(f"{server.url}/suggestions?e={prepared.ids['wide']}")
    none = page.get_by_role("button", name="Take none", exact=True)
    all_ = page.get_by_role("button", name="Take all", exact=True)
    none.wait_for()
    taken = []
    for _ in range(repeats):
        for button, n in ((none, "0"), (all_, "8")):
            page.locator(SETTLED).first.wait_for(state="attached")
            with timed() as passed:
                button.click()
                expect(page.get_by_role("button", name=f"Submit {n} runs")).to_be_visible()
                taken.append(passed())
    page.goto(f"{server.url}/what-if?e={prepared.ids['wide']}")
    field = page.get_by_role("spinbutton", name="Maximum number of runs")
    field.wait_for()
    page.locator(SETTLED).first.wait_for(state="attached")
    asked = []
    for i in range(repeats):
        field.fill(str(90 + i))
        with timed() as passed:
            field.press("Enter")
            page.get_by_text(f"{90 + i} runs in all").first.wait_for()
            page.locator(SETTLED).first.wait_for(state="attached")
            asked.append(passed())
    return {"take_s": taken, "question_s": asked}


def live(opened: Callable[[], Any], server: Served, prepared: Prepared, for_s: float) -> Any:
    """Look on while a run ends every second, with one screen and with five."""
    screens: list[Any] = []
    found = {}
    idle = cpu_share(server, for_s / 2)
    for n in (1, SCREENS):
        while len(screens) < n:
            page = opened()
            page.goto(f"{server.url}/overview?e={prepared.ids['live']}")
            page.get_by_text("runs", exact=False).first.wait_for()
            screens.append(page)
        if n == 1:
            steer(screens[0], server, prepared)
        screens[0].wait_for_timeout(1_000 * min(5.0, for_s))  # the first drawing is no refresh
        found[str(n)] = cpu_share(server, for_s)
    for page in screens:
        page.context.close()
    per_refresh_s = (found["1"] - idle) / DRAWN_A_SECOND
    return {"idle_share": idle, "share": found, "drawn_a_second": DRAWN_A_SECOND,
            "cpu_per_refresh_s": per_refresh_s}  # fmt: skip


def steer(page: Any, server: Served, prepared: Prepared) -> None:
    """Let the experiment steer itself and start it, then look on."""
    session = RemoteSession(needs_service(prepared.store), prepared.ids["live"])
    if session.experiment.auto_steering is None:
        session.set_auto_steering(AutoSteering(warnings="ignore"))
    session.start()
    page.goto(f"{server.url}/overview?e={prepared.ids['live']}")
    drawn(page)


def cpu_share(server: Served, for_s: float) -> float:
    """Return the share of a core that the pages' process takes."""
    before_s, began_s = server.cpu_s, time.perf_counter()
    time.sleep(for_s)
    return (server.cpu_s - before_s) / (time.perf_counter() - began_s)


def memory(opened: Callable[[], Any], server: Served, prepared: Prepared, minutes: float) -> Any:
    """Look on for so many minutes; the slope is over the second half, when caches are full.

    It is the median slope of all pairs of moments, which brief peaks of computing do not change.
    """
    page = opened()
    steer(page, server, prepared)
    taken: list[tuple[float, int]] = []
    began_s = time.monotonic()
    while (at_s := time.monotonic() - began_s) < minutes * 60:
        taken.append((at_s, server.rss_bytes))
        time.sleep(min(10.0, minutes * 6))
    half = [one for one in taken if one[0] >= minutes * 30]
    slope = None
    if len(half) > 2:
        at, held = zip(*half, strict=True)
        slope = 60 * float(theilslopes(held, at).slope)
    return {
        "minutes": minutes, "first_mb": taken[0][1] / 1e6, "last_mb": taken[-1][1] / 1e6,
        "peak_mb": max(held for _, held in taken) / 1e6,
        "slope_mb_per_minute": None if slope is None else slope / 1e6,
        "course_mb": [[round(s), round(b / 1e6, 1)] for s, b in taken],
    }  # fmt: skip


def wide_map(page: Any, server: Served, prepared: Prepared, repeats: int) -> dict[str, Any]:
    """Draw the map in each mode, coming from another page."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        page.goto(f"{server.url}/report?e={prepared.ids['wide']}")
        page.get_by_text("Basis of this report").wait_for()
        with timed() as passed:
            page.get_by_role("link", name="Space", exact=True).click()
            drawn(page)
            found.setdefault("page", []).append(passed())
        for mode in ("Measured", "Predicted", "Uncertainty", "Regions"):
            with timed() as passed:
                page.get_by_test_id("stButtonGroup").get_by_text(mode, exact=True).first.click()
                with suppress(PlaywrightTimeout):  # it may have begun and ended already
                    running = page.locator("[data-test-script-state=running]").first
                    running.wait_for(state="attached", timeout=500)
                drawn(page)
                found.setdefault(mode.lower(), []).append(passed())
    return {"s": found}


def gantt(page: Any, server: Served, prepared: Prepared, repeats: int) -> dict[str, Any]:
    """Draw a run's schedule: the first time it is simulated again, then it is at hand."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("gantt", "huge"):
        times = []
        for _ in range(repeats):
            page.goto(f"{server.url}/report?e={prepared.ids[name]}")
            page.get_by_text("Basis of this report").wait_for()
            with timed() as passed:
                page.get_by_role("link", name="Run", exact=True).click()
                page.locator(CHART).nth(1).wait_for(state="visible")  # below its overview
                drawn(page)
                times.append(passed())
        found[name] = {"first_s": times[0], "again_s": times[1:]}
    return found


def main() -> None:
    """Measure what was asked for, print the table, write the JSON."""
    options = parser(__doc__ or "")
    options.add_argument("--part", choices=PARTS, action="append", help="only this; repeat it")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--seconds", type=float, default=40.0, help="of each live measurement")
    options.add_argument("--minutes", type=float, default=20.0, help="of the memory measurement")
    options.add_argument(
        "--dashboard-python", default=sys.executable, help="interpreter with optuna-dashboard"
    )
    chosen = options.parse_args()
    if chosen.quick:
        chosen.repeats, chosen.seconds, chosen.minutes = 1, 1.0, 0.05
    record = Record("ui", chosen, [1, 2, 3], free=("part",))
    random.seed(0)
    parts = set(chosen.part or PARTS)
    with tempfile.TemporaryDirectory() as folder:
        if not parts - {"sizes"} <= set(record.body["steps"]):
            measure(record, chosen, prepare(Path(folder), quick=chosen.quick))
        if "sizes" in parts:
            measure_sizes(record, Path(folder), chosen.dashboard_python, quick=chosen.quick)
    summarise(record)
    summarise_sizes(record, quick=chosen.quick)
    record.write()


def measure(record: Record, chosen: argparse.Namespace, prepared: Prepared) -> None:
    """Take every step that was asked for, each over a server of its own; quick ones share it."""
    repeats = chosen.repeats
    steps: dict[str, Callable[[Opened, Served], dict[str, Any]]] = {
        "switch": partial(paged, prepared, switch, repeats),
        "click": partial(paged, prepared, click, repeats),
        "map": partial(paged, prepared, wide_map, repeats),
        "gantt": partial(paged, prepared, gantt, repeats),
        "live": lambda opened, server: live(opened, server, prepared, chosen.seconds),
        "memory": lambda opened, server: memory(opened, server, prepared, chosen.minutes),
    }
    names = chosen.part or PARTS
    if "cold" in names:
        record.step("cold", lambda: {**cold(prepared, repeats), "load": os.getloadavg()[0]})
    left = [name for name in steps if name in names and name not in record.body["steps"]]
    for together in [left] if chosen.quick and left else [[name] for name in left]:
        with pages_of(prepared) as server, browsing(server.address) as opened:
            for name in together:
                take = partial(steps[name], opened, server)
                record.step(name, lambda take=take: {**take(), "load": os.getloadavg()[0]})  # type: ignore[misc]


def paged(
    prepared: Prepared, take: Callable[..., dict[str, Any]], repeats: int, opened: Opened,
    server: Served,
) -> dict[str, Any]:  # fmt: skip
    """Open one page for one step; what is imported late is imported before."""
    page = opened()
    page.goto(f"{server.url}/overview?e={prepared.ids['wide']}")
    drawn(page)
    told = take(page, server, prepared, repeats)
    page.context.close()
    return told


def summarise(record: Record) -> None:
    """Note the figures that the targets name, and print them as a table."""
    steps = record.body["steps"]
    figures: dict[str, float | None] = {}
    if "cold" in steps:
        figures["first chart, cold (s)"] = median(steps["cold"]["first_chart_s"])
    if "switch" in steps:
        pages = {name: median(times) for name, times in steps["switch"]["pages_s"].items()}
        figures["page switch, median of the pages (s)"] = median(pages.values())
        slowest = max(pages, key=pages.__getitem__)
        figures[f"page switch, slowest ({slowest}) (s)"] = pages[slowest]
    if "click" in steps:
        figures["click to effect (s)"] = median(steps["click"]["take_s"])
        figures["another budget to its forecast (s)"] = median(steps["click"]["question_s"])
    if "live" in steps:
        figures["CPU per live refresh (ms)"] = 1000 * steps["live"]["cpu_per_refresh_s"]
        figures["five screens (share of a core)"] = steps["live"]["share"][str(SCREENS)]
    if "memory" in steps:
        figures["memory slope (MB per minute)"] = steps["memory"]["slope_mb_per_minute"]
        figures["memory, peak (MB)"] = steps["memory"].get("peak_mb")
    if "map" in steps:
        for mode, times in steps["map"]["s"].items():
            figures[f"map of 8,800 cells, {mode} (s)"] = median(times)
    for name, words in (("gantt", "5,000"), ("huge", "300,000")):
        if "gantt" in steps:
            told = steps["gantt"][name]
            figures[f"schedule of {words} jobs, first (s)"] = told["first_s"]
            if told["again_s"]:
                figures[f"schedule of {words} jobs, again (s)"] = median(told["again_s"])
    for name, value in figures.items():
        record.figure(name, value)
    told = [
        [name, "unknown" if value is None else f"{value:.3g}"] for name, value in figures.items()
    ]
    if told:
        table(["figure", "measured"], told)


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    guarded(main)
