"""A page in a real browser, used as a person uses it."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from assistant import AssistantError
from benchmarks.browsing import PATIENCE_MS, SETTLED, Watched

_SHORT_MS, _EFFECT_MS = 10_000, 45_000
_LOOK_MS, _LOOKS = 50, 20
_ROW = 35  # pixels of a row of a table


class Screen:
    """A page, used as a person uses it: every step waits for what the step before did.

    A page that is drawn anew may close a list, move a button or drop a key that was pressed, so
    whatever cannot be done in one event is tried again until what it should do is seen.

    Args:
        page: of the browser.
        url: of the server.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        page.set_default_timeout(PATIENCE_MS)
        self.watched = Watched(url)
        self.watched.on(page)

    def goto(self, path: str = "/") -> None:
        """Open an address of the server and wait until it is drawn."""
        self.page.goto(f"{self.url}{path}")
        self.settled()

    def settled(self) -> None:
        """Wait until the page is drawn, and connected."""
        connected = f"{SETTLED}[data-test-connection-state=CONNECTED]"
        self.page.locator(connected).first.wait_for(state="attached")

    def drawn(self) -> None:
        """Wait until the page is drawn, with every chart and nothing that turns."""
        self.settled()
        for waiting in ("stSpinner", "stSkeleton"):
            self.page.get_by_test_id(waiting).locator("visible=true").first.wait_for(state="hidden")
        for chart in self.page.get_by_test_id("stVegaLiteChart").locator("visible=true").all():
            chart.locator("svg, canvas").first.wait_for(state="visible")
        self.settled()

    def menu(self, name: str, path: str) -> None:
        """Go to another page by the menu."""
        self.settled()
        self.page.get_by_role("link", name=name, exact=True).click()
        self.page.wait_for_url(f"**/{path}*")
        self.settled()

    def says(self, text: str | re.Pattern[str], *, exact: bool = False) -> None:
        """Wait until a text stands on the page."""
        found = self.page.get_by_text(text, exact=exact).locator("visible=true").first
        found.wait_for(state="visible")

    def button(self, name: str | re.Pattern[str]) -> Any:
        """Return a button; a name in text is all of it."""
        exact = isinstance(name, str)
        return self.page.get_by_role("button", name=name, exact=exact)

    def press(self, name: str | re.Pattern[str]) -> None:
        """Press a button, once the page is drawn and the button can be pressed."""
        self.settled()
        button = self.button(name)
        self._single(button)
        button.click()

    def fill(self, label: str, value: str) -> None:
        """Fill a line of text or a number in and leave it."""
        self.settled()
        field = self.page.get_by_label(label, exact=True)
        self._single(field)
        field.fill(value)
        field.press("Enter")
        self.settled()

    def shows(self, test_id: str, n: int) -> None:
        """Wait until the page is drawn with so many elements of a kind."""
        found = self.page.get_by_test_id(test_id)
        self._until(self.drawn, lambda: found.count() == n, f"there are {n} of {test_id}")

    def comes_to(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds of the drawn page: it may move as its parts come."""
        self._until(self.drawn, holds, what)

    def brush(
        self, chart: Any, begin: tuple[float, float], end: tuple[float, float], seen: Any
    ) -> None:
        """Drag over a chart between two shares of its width and height, until it is seen."""

        def dragged() -> None:
            self.drawn()
            box = chart.bounding_box()
            points = [
                (box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (begin, end)
            ]
            self.page.mouse.move(*points[0])
            self.page.mouse.down()
            self.page.mouse.move(*points[1], steps=6)
            self.page.mouse.up()
            self._in_a_while(seen)

        self._until(dragged, seen.is_visible, "a range of the chart is chosen")

    @contextmanager
    def reconnecting(self) -> Iterator[None]:
        """The server is killed in here: wait until the page has lost it and found it again."""
        with self.watched.cut_off():
            with self.page.expect_websocket():
                yield
            self.settled()

    def holds(self, label: str, value: str) -> None:
        """Wait until a field holds a value."""
        field = self.page.get_by_label(label, exact=True)
        self._until(field.wait_for, lambda: field.input_value() == value, f"{label} holds {value}")

    def choose(self, label: str, option: str) -> None:
        """Choose from a list, until the list says so."""
        field = self.page.get_by_role("combobox", name=label, exact=True)

        def chosen() -> None:
            self.settled()
            field.click()
            offered = self.page.get_by_role("option", name=option, exact=True)
            try:
                offered.click(timeout=_SHORT_MS)
            except self._failed:
                self.page.keyboard.press("Escape")  # it may be open with nothing in it

        self._until(chosen, lambda: field.input_value() == option, f"{label} is {option}")

    def open_part(self, title: str, inside: Any) -> None:
        """Open a part of the page that can be folded, until what is in it is seen."""
        head = self.page.locator("summary").filter(has_text=title)
        self._until(head.click, inside.is_visible, f"{title} is open")

    # -- tables ------------------------------------------------------------------------------------

    def column(self, table: str, title: str) -> int:
        """Return where the column of a table is that begins with a title; a mark of rows counts."""
        heads = self._table(table).locator("th")
        heads.first.wait_for(state="attached")
        titles = heads.all_text_contents()
        found = [i for i, text in enumerate(titles) if text.startswith(title)]
        if not found:
            raise AssistantError(f"'{table}' has no column {title}, but {', '.join(titles)}")
        return found[0]

    def cell(self, table: str, title: str, row: int) -> Any:
        """Return a cell of a table, by the words that describe the table and its column."""
        column = self.column(table, title)
        return self._table(table).get_by_test_id(f"glide-cell-{column}-{row}")

    def go_to_cell(self, table: str, title: str, row: int) -> None:
        """Make a cell the selected one: by a click into the first row, then by the arrows."""
        column = self.column(table, title)
        whole = self._table(table)
        over = whole.locator(".dvn-scroller")  # lies over the canvas
        wanted = self.cell(table, title, row)
        wanted.wait_for(state="attached")

        def moved() -> None:
            self.settled()
            has_focus = whole.evaluate("whole => whole.contains(document.activeElement)")
            if not has_focus or self._selected(table) is None:
                over.scroll_into_view_if_needed()
                over.click(position={"x": 20, "y": _ROW * 1.5}, timeout=_SHORT_MS)
                self._looked(lambda: self._selected(table) is not None)
            self._without_overlay()
            for _ in range(60):
                if (at := self._selected(table)) is None or at == (column, row):
                    return
                keys = ("ArrowLeft", "ArrowRight") if at[0] != column else ("ArrowUp", "ArrowDown")
                forward = column > at[0] if at[0] != column else row > at[1]
                self.page.keyboard.press(keys[forward])
                self._looked(lambda at=at: self._selected(table) != at)  # type: ignore[misc]

        what = f"cell {column}, {row} of {table} is the selected one"
        self._until(moved, lambda: self._selected(table) == (column, row), what)

    def reads(self, table: str, title: str, row: int, value: str) -> None:
        """Wait until a cell holds a value; what is said of cells is renewed as one moves there."""
        cell = self.cell(table, title, row)

        def moved() -> None:
            self.go_to_cell(table, title, row)
            self.go_to_cell(table, title, 0 if row else 1)

        what = f"cell {title}, {row} of {table} reads {value}"
        self._until(moved, lambda: cell.text_content() == value, what)

    def toggle(self, table: str, title: str, row: int, seen: Any) -> None:
        """Tick or untick a box in a table, until what that changes is seen."""

        def toggled() -> None:
            self.go_to_cell(table, title, row)
            self.page.keyboard.press("Space")
            self._in_a_while(seen)

        self._until(toggled, seen.is_visible, f"the box {title}, {row} of {table} has its effect")

    def edit(self, table: str, title: str, row: int, value: str, seen: Any) -> None:
        """Choose another value in a cell, until what that changes is seen."""

        def edited() -> None:
            self.go_to_cell(table, title, row)
            self.page.keyboard.press("Enter")
            overlay = self.page.locator("#portal [role=combobox]")
            overlay.wait_for(state="visible", timeout=_SHORT_MS)
            overlay.fill(value)
            self.page.get_by_role("option", name=value, exact=True).click(timeout=_SHORT_MS)
            self._in_a_while(seen)

        self._until(edited, seen.is_visible, f"cell {title}, {row} of {table} is {value}")

    def tick_row(self, table: str, row: int, seen: Any) -> None:
        """Choose a row of a table, until what that changes is seen."""

        def ticked() -> None:
            over = self._table(table).locator(".dvn-scroller")
            over.scroll_into_view_if_needed()
            over.click(position={"x": 20, "y": _ROW * (row + 1.5)}, timeout=_SHORT_MS)
            self._in_a_while(seen)

        self._until(ticked, seen.is_visible, f"row {row} of {table} is chosen")

    def _table(self, alt: str) -> Any:
        return self.page.get_by_test_id("stDataFrame").filter(
            has=self.page.get_by_role("region", name=alt, exact=True)
        )

    def _selected(self, table: str) -> tuple[int, int] | None:
        found = self._table(table).locator("td[aria-selected=true]")
        ids = found.evaluate_all("cells => cells.filter(c => c.tabIndex < 0).map(c => c.id)")
        if len(ids) != 1:
            return None
        _, _, column, row = ids[0].split("-")
        return int(column), int(row)

    # -- trying again ------------------------------------------------------------------------------

    @property
    def _failed(self) -> type[Exception]:
        """What the browser raises: it was not there in time, or went away meanwhile."""
        from playwright.sync_api import Error

        return Error

    def _without_overlay(self) -> None:
        """Close what a click on a cell has opened, if it was the selected one already."""
        overlay = self.page.locator("#portal .gdg-style")
        if overlay.count():
            self.page.keyboard.press("Escape")
            overlay.wait_for(state="detached", timeout=_SHORT_MS)

    def _in_a_while(self, seen: Any) -> None:
        """Give the effect of a key the time to come, before the key is pressed again."""
        with suppress(self._failed):
            seen.wait_for(state="visible", timeout=_EFFECT_MS)

    def _single(self, found: Any) -> None:
        """Wait until there is one: a page that is drawn anew may have the old one for a while."""
        found.first.wait_for(state="attached")
        self._until(lambda: None, lambda: found.count() == 1, f"there is one {found}")

    def _looked(self, done: Callable[[], bool]) -> bool:
        """Look for a second whether something is done."""
        for _ in range(_LOOKS):
            with suppress(self._failed):
                if done():
                    return True
            self.page.wait_for_timeout(_LOOK_MS)
        return False

    def _until(self, act: Callable[[], object], done: Callable[[], bool], what: str) -> None:
        """Act until it is done; a list that closed or a key that was lost is tried again."""
        until_s = time.monotonic() + PATIENCE_MS / 1000
        why: Exception | None = None
        while True:
            try:
                act()
            except self._failed as error:
                why = error
            if self._looked(done):
                return
            if time.monotonic() > until_s:
                raise AssistantError(f"it did not come about on the page that {what}") from why
