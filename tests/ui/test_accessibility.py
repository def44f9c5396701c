"""axe-core on every page in two states and more, light and dark; and the way by the keyboard."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.browsing import browsing, kept_up
from benchmarks.pictured import OWN, stored
from benchmarks.screen import Screen

pytestmark = pytest.mark.browser

STATES = ("just-begun", "own-program")
GENERAL = ("/", "/new", "/compare", "/workload", "/platform", "/agents")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
FADES_S = 30.0  # what fades in is paler at first, and nothing tells when it has come

STREAMLITS: tuple[tuple[str, str], ...] = (
    # The menu: its headings and groups are no items of its list.
    ("list", "[data-testid=stSidebarNavItems]"),
    ("listitem", "[data-testid=stSidebarNavItems]"),
    # The shortcut on a button is paler than the name of the button.
    ("color-contrast", "button kbd"),
    # A slider that cannot be moved: what is inactive needs no contrast, but its name is drawn
    # outside of what is marked inactive.
    ("color-contrast", ".stSlider:has(input:disabled)"),
    # Vega names the marks of a chart one by one, but not what holds them; the chart has a name.
    ("svg-img-alt", "[role=graphics-document][aria-label] .role-mark"),
)
"""A rule, and a part of the page of which Streamlit or Vega violates it; none is drawn by us."""
IN_THE_DARK: tuple[tuple[str, str], ...] = (
    # One colour is both the ground of white text and a text: 4.5 to 1 for the one leaves 3.6 to 1
    # for the other.
    ("color-contrast", "[data-testid=stButtonGroup] [data-selected=true]"),
    ("color-contrast", "[data-testid=stSliderThumbValue]"),
    ("color-contrast", "[role=tab][aria-selected=true]"),
)

MAIN: Mapping[str, str | re.Pattern[str]] = {
    "/": "Start the example",
    "/new": "Next",
    "/workload": "Tune the scheduler for this log",
    "/platform": "Play",
    "/agents": "Play",
    "overview": "Decide on the suggestions",
    "suggestions": re.compile("^Submit"),
    "queue": "Decide on the suggestions",
    "what-if": "Decide on the suggestions",
    "space": "Decide on the suggestions",
    "effects": re.compile("^Add th"),
    "run": "Good",
    "steering": "Use this strategy from now on",
    "report": "Download the report (HTML)",
}
"""What one comes to a page for."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    return stored(tmp_path_factory.mktemp("pages"), STATES)


@contextmanager
def at_work(store: Path, repository: Path) -> Iterator[Screen]:
    with kept_up(store, repository) as up, browsing(up.address) as opened:
        yield Screen(opened(), up.url)


def wear(page: Any, look: str) -> None:
    """Let the system of the browser ask for light or dark pages, and wait for the ground of it."""
    page.emulate_media(color_scheme=look)
    page.wait_for_function(
        """isDark => {
            const app = document.querySelector("[data-testid=stApp]");
            const [red] = getComputedStyle(app).backgroundColor.match(/\\d+/);
            return (red < 128) === isDark;
        }""",
        arg=look == "dark",
    )


def ours(page: Any, look: str) -> list[str]:
    """Return what axe-core finds that is not Streamlit's own; in the dark only colours differ."""
    theirs = (*STREAMLITS, *(IN_THE_DARK if look == "dark" else ()))
    from axe_playwright_python.sync_playwright import Axe

    rules = {"type": "rule", "values": ["color-contrast"]} if look == "dark" else RULES
    found = []
    for violation in Axe().run(page, options={"runOnly": rules}).response["violations"]:
        parts = [part for rule, part in theirs if rule == violation["id"]]
        for node in violation["nodes"]:
            element = page.locator(node["target"][-1]).first
            within = "(element, parts) => parts.some(part => element.closest(part) !== null)"
            if not element.evaluate(within, parts):
                found.append(f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}")
    return found


def is_reached(screen: Screen, name: str | re.Pattern[str]) -> bool:
    """Press the Tab key until the button has the focus, at most 80 times."""
    button = screen.button(name).first
    button.wait_for()
    for _ in range(80):
        screen.page.keyboard.press("Tab")
        if button.evaluate("button => button === document.activeElement"):
            return True
    return False


@pytest.mark.soak
def test_no_page_violates_a_rule_and_its_main_button_is_reached_with_the_tab_key(
    chromium: str, prepared: tuple[Path, dict[str, str]], repository: Path
) -> None:
    store, ids = prepared
    begun, full = (ids[state] for state in STATES)
    pages = {address: (MAIN.get(address), ("light", "dark")) for address in GENERAL}
    pages |= {f"/{own}?e={begun}": (None, ("light",)) for own in OWN}
    pages |= {f"/{own}?e={full}": (MAIN.get(own), ("light", "dark")) for own in OWN}
    with at_work(store, repository) as screen:
        found, unreached = {}, []
        for address, (main, looks) in pages.items():
            screen.page.emulate_media(color_scheme="light")
            screen.goto(address)
            for look in looks:
                wear(screen.page, look)
                until_s = time.monotonic() + FADES_S
                while True:
                    screen.drawn()
                    found[address, look] = ours(screen.page, look)
                    if not found[address, look] or time.monotonic() > until_s:
                        break
                    screen.page.wait_for_timeout(500)
            if main is not None and not is_reached(screen, main):
                screen.goto(address)  # a page that is drawn anew meanwhile takes the focus away
                if not is_reached(screen, main):
                    unreached.append((main, address))
    assert {shown: what for shown, what in found.items() if what} == {}
    assert unreached == []
