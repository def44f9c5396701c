"""The whole story in a real Chromium over a real server, with the network watched.

With COPPERLINE_SCREENSHOTS set to a folder, each step leaves a picture there, to be looked at.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assistant import RunState, load_session
from assistant.store import SqliteStore

pytestmark = pytest.mark.browser

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
HARMLESS = ("_stcore/health", "_stcore/host-config", "404")


@pytest.fixture
def server(tmp_path: Path, repository: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "streamlit", "run", str(repository / "streamlit_app.py"),
        "--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true",
        "--server.fileWatcherType", "none", "--browser.gatherUsageStats", "false",
        "--", str(tmp_path / "story.db"),
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                    break
            except OSError:
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.1)
        yield url
        process.terminate()


def picture(page: Any, name: str) -> None:
    folder = os.environ.get("COPPERLINE_SCREENSHOTS")
    if folder:
        page.wait_for_timeout(900)  # charts fade in
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_from_the_first_page_to_the_report(chromium: str, server: str, tmp_path: Path) -> None:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1400, "height": 1500})
        page.set_default_timeout(20_000)
        strangers: list[str] = []
        errors: list[str] = []
        page.on(
            "request",
            lambda r: (
                strangers.append(r.url)
                if r.url.startswith("http") and server not in r.url
                else None
            ),
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)

        def button(name: str) -> Any:
            """Return the button, once the drawing has ended: a page being drawn shows old parts."""
            expect(page.locator("[data-test-script-state=notRunning]")).to_have_count(1)
            found = page.get_by_role("button", name=name, exact=True)
            expect(found).to_have_count(1)
            return found

        def settled() -> None:
            """Wait until the page stands still: a list that is open would close when it moves."""
            expect(page.locator("[data-test-script-state=notRunning]")).to_have_count(1)
            page.wait_for_load_state("networkidle")

        def choose(label: str, option: str) -> None:
            """Choose from a list; a drawing that began meanwhile closes it, so ask again."""
            for attempt in range(3):
                settled()
                page.get_by_role("combobox", name=label).click()
                try:
                    page.get_by_role("option", name=option).click(timeout=5_000)
                except PlaywrightTimeout:
                    assert attempt < 2, f"the list {label!r} did not show {option!r}"
                    page.keyboard.press("Escape")
                else:
                    return

        def submit(n: int) -> Any:
            return page.get_by_role("button", name=f"Submit {n} runs")  # and its shortcut

        def says(text: str, *, exact: bool = False) -> None:
            expect(page.get_by_text(text, exact=exact).first).to_be_visible()

        def completed(text: str) -> None:
            says(text, exact=True)

        page.goto(server)
        says("No experiment is stored")
        picture(page, "1-empty")
        page.get_by_text("Job log (SWF)").click()
        page.get_by_label("Path of the log").fill("nowhere.swf")
        button("Start the experiment").click()
        says("there is no such file")
        picture(page, "2-refused")
        page.get_by_test_id("stRadioGroup").get_by_text("Built-in example").click()
        expect(page.get_by_label("Budget of runs")).to_have_count(1)
        page.get_by_label("Budget of runs").fill("16")
        page.get_by_label("Budget of runs").press("Enter")
        page.get_by_text("How it chooses").click()
        choose("Strategy", "grasp")
        says("Neighbours", exact=True)
        button("Start the experiment").click()
        completed("1 of 16")
        picture(page, "3-begun")
        page.get_by_label("How many").fill("8")
        page.get_by_label("How many").press("Enter")
        button("Suggest the first runs").click()
        expect(submit(8)).to_have_count(1)
        cell = page.get_by_test_id("glide-cell-1-1")
        box = page.get_by_test_id("stDataFrame").first.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 70, box["y"] + 35 + 35 * 1.5)
        try:
            expect(cell).to_have_text("false", timeout=2_000)
        except AssertionError:  # a click beside the box only selects the cell
            page.keyboard.press("Space")
        expect(submit(7)).to_have_count(1)
        picture(page, "4-suggested")
        submit(7).click()
        completed("8 of 16")
        picture(page, "5-ran")
        page.get_by_label("How many").fill("5")
        page.get_by_label("How many").press("Enter")
        button("Suggest").click()
        submit(5).click()
        completed("13 of 16")
        button("Suggest").click()
        says("The agreement is about to be missed.")
        expect(submit(3)).to_have_count(1)
        picture(page, "6-warned")
        page.get_by_role("button", name="Accept: ").click()
        says("Accepted; the suggestions below")
        expect(submit(3)).to_have_count(1)
        picture(page, "7-accepted")
        submit(3).click()
        completed("16 of 16")
        button("Good").click()
        says("is good.")
        for i, name in enumerate(
            [
                "A run of your own",
                "How it chooses",
                "Budget",
                "Levels",
                "Regions",
                "Past results",
                "Finish",
            ]
        ):
            page.get_by_role("tab", name=name).click()
            page.get_by_role("tab", name=name).scroll_into_view_if_needed()
            picture(page, f"8-{i}-{name.replace(' ', '-').lower()}")
        page.get_by_role("link", name="Learn").click()
        expect(page.get_by_role("heading", name="What matters")).to_be_visible()
        expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
        picture(page, "9-learn")
        page.get_by_role("link", name="Report").click()
        expect(page.get_by_role("heading", name="Today and best")).to_be_visible()
        picture(page, "10-report")
        with page.expect_download() as download:
            button("Download the report (HTML)").click()
        report = Path(download.value.path()).read_text()
        assert "<html" in report
        browser.close()
    store = SqliteStore(tmp_path / "story.db")
    session = load_session(store, store.experiments()[0].id)
    assert len(session.experiment.runs_in(RunState.COMPLETED)) >= 12
    assert any(run.good for run in session.experiment.runs)
    assert strangers == [], "no request leaves this machine"
    assert [e for e in errors if not any(word in e for word in HARMLESS)] == []
