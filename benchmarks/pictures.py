"""A picture of every page in every state, to be looked at: light and dark, wide and narrow.

``python -m benchmarks.pictures --to FOLDER`` makes experiments in every state (`pictured`), serves
them and takes a picture of each page as high as it is; ``index.html`` in the folder shows them all.
Counted are pages that are wider than their window, that show an error, or complain in the console.
"""

import html
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from assistant.ui.pages.new import STEPS
from benchmarks.browsing import browsing, kept_up
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.pictured import STATES, stored
from benchmarks.screen import Screen

ROOT = Path(__file__).resolve().parents[1]
LOOKS = ("light", "dark")
WIDE, MIDDLE, NARROW, HIGH, HIGHEST = 1400, 800, 390, 900, 9_000
"""Pixels of a window."""
QUICK = ("own-program",)
THREE_WIDTHS = ("just-begun", "middle", "warned", "own-program", "finished")
"""States of which every page is taken at three widths: wide, middle and narrow."""
_FADED_MS = 700  # charts fade in, and nothing tells when they have
_HIGH = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  return main === null ? 0 : main.scrollHeight;
}"""
_TOO_WIDE = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  return main !== null && main.scrollWidth > main.clientWidth + 1;
}"""

_HEAD = """<!doctype html><meta charset=utf-8><title>Every page</title><style>
body { font: 15px sans-serif } img { width: 420px; border: 1px solid #999 }
figure { display: inline-block; margin: 8px; vertical-align: top }
</style>"""


@dataclass(frozen=True)
class Taken:
    """A picture.

    Args:
        file: its name in the folder.
        faults: what is wrong with the page at first sight.
    """

    file: str
    faults: tuple[str, ...]


def take(screen: Screen, folder: Path, name: str, width: int = WIDE) -> Taken:
    """Take a picture of the page that is open, as high as it is."""
    page = screen.page
    page.set_viewport_size({"width": width, "height": HIGH})
    screen.drawn()
    high = min(max(HIGH, page.evaluate(_HIGH)), HIGHEST)
    page.set_viewport_size({"width": width, "height": high})
    screen.drawn()
    page.wait_for_timeout(_FADED_MS)
    file = f"{name}.png"
    page.screenshot(path=str(folder / file))
    faults = []
    if page.evaluate(_TOO_WIDE):
        faults.append("wider than its window")
    if page.get_by_test_id("stException").count() or page.get_by_text("went wrong").count():
        faults.append("shows an error")
    faults += [f"console: {said[:200]}" for said in screen.watched.complaints]
    screen.watched.errors.clear()
    return Taken(file, tuple(faults))


def general(screen: Screen, folder: Path, look: str) -> Iterator[Taken]:
    """Take the pages that belong to no experiment; each step of *New* with every source."""
    screen.goto("/")
    yield take(screen, folder, f"experiments-{look}")
    yield take(screen, folder, f"experiments-narrow-{look}", NARROW)
    screen.goto("/new")
    sources = screen.page.get_by_test_id("stRadioGroup").first.locator("label")
    sources.first.wait_for()
    for number in range(sources.count()):
        sources.nth(number).click()
        yield take(screen, folder, f"new-source-{number + 1}-{look}")
    steps = screen.page.get_by_test_id("stButtonGroup").first
    first, *later = STEPS
    for name in ("My program", "Built-in example"):
        steps.get_by_text(first).click()
        screen.settled()
        sources.filter(has_text=name).click()
        for step in later:
            screen.settled()
            steps.get_by_text(step).click()
            file = f"new-{name}-{step}-{look}".lower().replace(" ", "-")
            yield take(screen, folder, file)
    yield take(screen, folder, f"new-narrow-{look}", NARROW)
    screen.goto("/workload")
    yield take(screen, folder, f"workload-{look}")
    yield from _platform(screen, folder, look)
    yield from _study(screen, folder, look)


def _platform(screen: Screen, folder: Path, look: str) -> Iterator[Taken]:
    """Take *AI platform*: played, as a mean day, as tables, and beside the log of the example."""
    screen.page.set_viewport_size({"width": WIDE, "height": HIGH})
    screen.goto("/platform")
    yield take(screen, folder, f"platform-{look}")
    screen.page.set_viewport_size({"width": WIDE, "height": HIGH})
    screen.press("The paper's case: a full training cluster")
    screen.press("Play")
    screen.says(re.compile("^Most pipelines come at"))
    views = {
        "Over time": "Total potential improvement of deployed models",
        "Mean day": re.compile("^Each hour is the mean of that hour"),
        "Tables": "Wait by resource",
    }
    for view, seen in views.items():
        screen.page.get_by_role("radio", name=view).click()
        screen.says(seen)
        screen.settled()
        name = view.lower().replace(" ", "-")
        yield take(screen, folder, f"platform-{name}-{look}")
        yield take(screen, folder, f"platform-{name}-narrow-{look}", NARROW)
        screen.page.set_viewport_size({"width": WIDE, "height": HIGH})
    screen.page.get_by_role("radio", name="Compare with a log").click()
    screen.press("Compare")
    screen.says("Arrivals by hour of the week")
    yield take(screen, folder, f"platform-likeness-{look}")
    yield take(screen, folder, f"platform-likeness-narrow-{look}", NARROW)


def _study(screen: Screen, folder: Path, look: str) -> Iterator[Taken]:
    """Take *Agents* as it is filled in, and with a study that was played."""
    screen.goto("/agents")
    screen.page.get_by_role("radio", name="Set up a study").click()
    yield take(screen, folder, f"agents-{look}")
    yield take(screen, folder, f"agents-narrow-{look}", NARROW)
    screen.page.set_viewport_size({"width": WIDE, "height": HIGH})
    screen.press("Play")
    screen.says("Every cell")
    yield take(screen, folder, f"agents-played-{look}")
    yield take(screen, folder, f"agents-played-narrow-{look}", NARROW)


def of_state(
    screen: Screen, folder: Path, look: str, state: str, experiment_id: str
) -> Iterator[Taken]:
    """Take the pages of an experiment; folded parts of Suggestions and tabs are opened as well."""
    for number, address in enumerate(STATES[state].pages):
        screen.goto(f"/{address}?e={experiment_id}")
        if STATES[state].starts and number == 0 and screen.button(_START).count():
            screen.press(_START)
            screen.says(re.compile("Running$"))
        yield take(screen, folder, f"{state}-{address}-{look}")
        if state in THREE_WIDTHS:
            yield take(screen, folder, f"{state}-{address}-middle-{look}", MIDDLE)
            yield take(screen, folder, f"{state}-{address}-narrow-{look}", NARROW)
        if state == "middle":
            yield from _unfolded(screen, folder, f"{state}-{address}", look)


_START = re.compile("^Start")


def _unfolded(screen: Screen, folder: Path, name: str, look: str) -> Iterator[Taken]:
    """Take a page once more with everything unfolded, and each of its tabs."""
    page = screen.page
    page.set_viewport_size({"width": WIDE, "height": HIGH})
    screen.settled()
    tabs = page.get_by_role("tab")
    for number in range(1, tabs.count()):
        tabs.nth(number).click()
        screen.settled()
        yield take(screen, folder, f"{name}-tab-{number + 1}-{look}")
    heads = page.locator("details:not([open]) > summary").locator("visible=true")
    n = heads.count()
    for _ in range(n):
        if heads.count():
            heads.first.click()
            screen.settled()
    if n:
        yield take(screen, folder, f"{name}-unfolded-{look}")


def empty(look: str, folder: Path) -> Iterator[Taken]:
    """Take the first page where nothing is stored."""
    with (
        tempfile.TemporaryDirectory() as made,
        at_work(Path(made) / "store.db", look) as screen,
    ):
        screen.goto("/")
        yield take(screen, folder, f"none-experiments-{look}")
        screen.goto("/overview")
        yield take(screen, folder, f"none-overview-{look}")


@contextmanager
def at_work(store: Path, look: str) -> Iterator[Screen]:
    """Serve a store and open a screen."""
    with kept_up(store, ROOT) as up, browsing(up.address, dark=look == "dark") as opened:
        yield Screen(opened(), up.url)


def index(folder: Path, states: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write a page that shows every picture, those with faults marked."""
    parts = [_HEAD]
    for state, taken in states.items():
        parts.append(f"<h2>{html.escape(state)}</h2>")
        for one in taken:
            told = html.escape("; ".join([one["file"], *one["faults"]]))
            parts.append(
                f'<figure><a href="{one["file"]}"><img loading=lazy src="{one["file"]}" '
                f'alt="{told}"></a><figcaption>{told}</figcaption></figure>'
            )
    (folder / "index.html").write_text("\n".join(parts) + "\n")


def main() -> None:
    """Take what was asked for, print the table, write the index."""
    options = parser(__doc__ or "")
    options.add_argument("--to", type=Path, default=Path("copperline-out") / "pictures")
    options.add_argument("--dark", action="store_true", help="only dark ones")
    options.add_argument("--light", action="store_true", help="only light ones")
    options.add_argument("--state", choices=tuple(STATES), action="append", help="repeat it")
    chosen = options.parse_args()
    record = Record("pictures", chosen, [1, 3], free=("to", "state", "dark", "light"))
    looks = [look for look in LOOKS if getattr(chosen, look)] or list(LOOKS)
    names = tuple(chosen.state or (QUICK if chosen.quick else STATES))
    if chosen.quick:
        looks = looks[:1]
    folder: Path = chosen.to
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        _take_all(record, chosen.quick, folder, Path(made), looks, names)
    _summarise(record, folder)


def _take_all(
    record: Record, quick: bool, folder: Path, made: Path, looks: list[str], names: tuple[str, ...]
) -> None:
    steps = {f"{name}, {look}" for name in names for look in looks}
    if steps <= set(record.body["steps"]):
        return
    store, ids = stored(made, names)
    for look in looks:
        if not quick:
            record.step(f"none, {look}", partial(_told, partial(empty, look, folder)))
        with at_work(store, look) as screen:
            if not quick:
                take_them = partial(general, screen, folder, look)
                record.step(f"general, {look}", partial(_told, take_them))
            for name in names:
                take_them = partial(of_state, screen, folder, look, name, ids[name])
                record.step(f"{name}, {look}", partial(_told, take_them))


def _told(take_them: Callable[[], Iterator[Taken]]) -> dict[str, Any]:
    return {"pictures": [{"file": one.file, "faults": list(one.faults)} for one in take_them()]}


def _summarise(record: Record, folder: Path) -> None:
    states = {name: step["pictures"] for name, step in record.body["steps"].items()}
    index(folder, states)
    every = [one for taken in states.values() for one in taken]
    record.figure("pictures", len(every))
    record.figure("pages with a fault at first sight", sum(bool(one["faults"]) for one in every))
    record.write()
    rows = [
        [name, str(len(taken)), "; ".join(f"{t['file']}: {f}" for t in taken for f in t["faults"])]
        for name, taken in states.items()
    ]
    table(["state", "pictures", "faults at first sight"], rows)


if __name__ == "__main__":
    guarded(main)
