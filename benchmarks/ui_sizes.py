"""Pages of experiments of 100, 1,000 and 10,000 runs; part ``sizes`` of ``benchmarks.ui``.

Each size has a server and a browser of its own. Measured are the first chart of *Overview*, each
page by the menu (the first visit and the median of those after it), a click on *Suggestions* to
its effect, and the memory of the pages' process. Beside it is optuna-dashboard on a study of the
same number of trials: its study page until the first chart, again, and its memory. It has one page
where we have nine, and computes no forecast or suggestion. A bare page of Streamlit, with a title
and one small chart, is the floor that no page can go under.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.browsing import CHART, await_that, browsing, free_port, is_healthy, kept_up
from benchmarks.harness import Record, table
from benchmarks.screen import Screen
from benchmarks.service_big import big_store, rss_bytes
from benchmarks.service_http import NAME

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = Path(__file__).with_name("peers") / "dashboard_child.py"
BARE = Path(__file__).with_name("peers") / "bare_page.py"
SIZES, QUICK_SIZES = (100, 1_000, 10_000), (100,)
N_WAITING, N_AGAIN = 20, 3
PLOT = ".js-plotly-plot .main-svg"
PAGES = {
    "suggestions": "Suggestions", "queue": "Queue", "what-if": "What if", "space": "Space",
    "effects": "Effects", "run": "Run", "steering": "Steering", "report": "Report",
    "overview": "Overview",
}  # fmt: skip


def our_pages(folder: Path, n_runs: int) -> dict[str, Any]:
    """Open every page of an experiment with so many runs; times in seconds."""
    from playwright.sync_api import expect

    path = folder / f"{n_runs}.db"
    if not path.exists():
        big_store(path, n_runs, N_WAITING).close()
    with kept_up(path, ROOT) as up, browsing(up.address) as opened:
        screen = Screen(opened(), up.url)
        page = screen.page
        page.set_viewport_size({"width": 1400, "height": 900})
        began_s = time.perf_counter()
        page.goto(f"{up.url}/overview?e={NAME}")
        page.locator(CHART).first.wait_for(state="visible")
        found: dict[str, Any] = {"first_chart_s": time.perf_counter() - began_s, "pages_s": {}}
        screen.drawn()
        for _ in range(1 + N_AGAIN):
            for name, title in PAGES.items():
                screen.settled()
                began_s = time.perf_counter()
                page.get_by_role("link", name=title, exact=True).click()
                page.wait_for_url(f"**/{name}*")
                screen.drawn()
                found["pages_s"].setdefault(name, []).append(time.perf_counter() - began_s)
        screen.menu("Suggestions", "suggestions")
        screen.press("Suggest")
        none = page.get_by_role("button", name="Take none", exact=True)
        none.wait_for()
        screen.settled()
        began_s = time.perf_counter()
        none.click()
        expect(page.get_by_role("button", name="Submit 0 runs")).to_be_visible()
        found["click_s"] = time.perf_counter() - began_s
        found["rss_bytes"] = None if up.pages is None else rss_bytes(up.pages)
    return found


@contextmanager
def _dashboard(python: str, folder: Path, n_trials: int) -> Iterator[tuple[str, int]]:
    port = free_port()
    command = [python, str(DASHBOARD), str(folder / f"optuna-{n_trials}.db"), str(n_trials)]
    with subprocess.Popen(
        [*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            await_that(
                lambda: process.poll() is not None or is_healthy(f"{url}/dashboard"),
                "the dashboard started",
            )
            yield url, process.pid
        finally:
            process.terminate()


def dashboard_pages(folder: Path, python: str, n_trials: int) -> dict[str, Any]:
    """Open the study page of optuna-dashboard; ``missing`` where it is not installed."""
    asked = subprocess.run(
        [python, "-c", "import optuna_dashboard"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return {"missing": asked.stderr.strip().splitlines()[-1]}
    with _dashboard(python, folder, n_trials) as (url, pid), browsing(f"{url}/dashboard") as opened:
        page, times = opened(), list[float]()
        page.set_viewport_size({"width": 1400, "height": 900})
        for _ in range(1 + N_AGAIN):
            page.goto("about:blank")
            began_s = time.perf_counter()
            page.goto(f"{url}/dashboard/studies/1")
            page.locator(PLOT).first.wait_for(state="visible")
            times.append(time.perf_counter() - began_s)
        return {"first_chart_s": times[0], "again_s": times[1:], "rss_bytes": rss_bytes(pid)}


@contextmanager
def _bare_server() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(BARE), "--server.headless", "true"]
    with subprocess.Popen(
        [*command, "--server.address", "127.0.0.1", "--server.port", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            await_that(lambda: is_healthy(url), "the server of the bare page started")
            yield url
        finally:
            process.terminate()


def bare_pages() -> dict[str, list[float]]:
    """Switch between two pages with a title and one small chart, and click; times in seconds."""
    with _bare_server() as url, browsing(None) as opened:
        screen = Screen(opened(), url)
        screen.page.set_viewport_size({"width": 1400, "height": 900})
        screen.page.goto(url)
        screen.page.locator(CHART).first.wait_for(state="visible")
        switches, clicks = list[float](), list[float]()
        for i in range(1 + N_AGAIN):
            for name in ("Second", "First"):
                screen.settled()
                began_s = time.perf_counter()
                screen.page.get_by_role("link", name=name, exact=True).click()
                screen.page.get_by_role("heading", name=name).wait_for(state="visible")
                screen.drawn()
                switches.append(time.perf_counter() - began_s)
            began_s = time.perf_counter()
            screen.button("Count").click()
            screen.says(f"{i + 1} clicks")
            clicks.append(time.perf_counter() - began_s)
        return {"switch_s": switches, "click_s": clicks}


def measure_sizes(record: Record, folder: Path, python: str, *, quick: bool) -> None:
    """Measure each size, our pages and then the peer; every one is a step of the record."""
    record.step("sizes, bare page", bare_pages)
    for n in QUICK_SIZES if quick else SIZES:
        record.step(f"sizes, {n}", lambda n=n: our_pages(folder, n))  # type: ignore[misc]
        record.step(f"sizes, {n}, peer", lambda n=n: dashboard_pages(folder, python, n))  # type: ignore[misc]


def summarise_sizes(record: Record, *, quick: bool) -> None:
    """Note the figures and print them, a column for each size."""
    sizes = QUICK_SIZES if quick else SIZES
    steps = record.body["steps"]
    if f"sizes, {sizes[-1]}" not in steps:
        return
    rows: dict[str, list[float | None]] = {}
    for n in sizes:
        ours, peer = steps[f"sizes, {n}"], steps[f"sizes, {n}, peer"]
        rows.setdefault("first chart of Overview (s)", []).append(ours["first_chart_s"])
        rows.setdefault("optuna-dashboard, first chart (s)", []).append(peer.get("first_chart_s"))
        again = median(peer["again_s"]) if "again_s" in peer else None
        rows.setdefault("optuna-dashboard, again (s)", []).append(again)
        for name, times in ours["pages_s"].items():
            rows.setdefault(f"{PAGES[name]}, first visit (s)", []).append(times[0])
            rows.setdefault(f"{PAGES[name]}, again (s)", []).append(median(times[1:]))
        rows.setdefault("click to effect (s)", []).append(ours["click_s"])
        for name, told in (("pages", ours), ("optuna-dashboard", peer)):
            held = told.get("rss_bytes")
            megabytes = None if held is None else held / 1e6
            rows.setdefault(f"memory of {name} (MB)", []).append(megabytes)
    for name, values in rows.items():
        for n, value in zip(sizes, values, strict=True):
            record.figure(f"{name}, {n:,} runs", value)
    lines = [
        [name, *("unknown" if value is None else f"{value:.3g}" for value in values)]
        for name, values in rows.items()
    ]
    bare = steps["sizes, bare page"]
    for name, times in (("page switch", bare["switch_s"]), ("click to effect", bare["click_s"])):
        record.figure(f"a bare page, {name} (s)", median(times))
        lines.append([f"a bare page, {name} (s)", *[f"{median(times):.3g}"] * len(sizes)])
    table(["figure", *(f"{n:,} runs" for n in sizes)], lines)
