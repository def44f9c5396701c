"""A real Chromium opens a report from the disk, with the network watched."""

from pathlib import Path

import pytest

from assistant.cli.main import run
from benchmarks.browsing import PATIENCE_MS

pytestmark = pytest.mark.browser


def test_the_report_opens_offline_without_requests_or_errors(
    chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright.sync_api import sync_playwright

    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--runs", "12", "--report", "report.html"]) in (0, 3)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            timeout=PATIENCE_MS,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        requests: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        url = (tmp_path / "report.html").as_uri()
        page.goto(url)
        assert requests == [url]
        assert errors == []
        assert page.locator("#answer strong").is_visible()
        assert page.locator("#progress svg").is_visible()
        assert page.locator("#runs tr").count() == 13
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 1100, "the page must not scroll sideways"
        browser.close()
