"""Draw docs/pictures/steering.gif: `copperline demo` in a terminal, then its pages in a browser.

Both are the real programs: the demo runs in a pseudo-terminal, its pages are those of `copperline
app` in a Chromium. Needs the extras ``dev`` and ``docs``, Chromium, and the font DejaVu Sans Mono.
"""

import io
import os
import pty
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pyte
from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS, LINES = 112, 31
WIDTH, HEIGHT = 1000, 640
"""Pixels of the picture."""
RUNS_SHOWN = (1, 4, 8, 12, 16, 20, 26, 32, 38)
"""Numbers of runs at which the terminal is shown."""
PAGES = (("overview", 0), ("overview", 640), ("effects", 560), ("space", 0))
"""Pages, and how many pixels down each is shown."""

TERMINAL_MS, ANSWER_MS, PAGE_MS = 700, 3500, 2500
COLOURS = 96
MAIN = "document.querySelector('[data-testid=stMain]')"
INK, PAPER = "#d8dee4", "#16202a"
NAMED = {
    "default": INK, "black": "#5c6773", "red": "#f2777a", "green": "#8fc98a", "brown": "#e8b04a",
    "yellow": "#e8b04a", "blue": "#6cb2eb", "magenta": "#d5a0e0", "cyan": "#6fd0d0", "white": INK,
}  # fmt: skip

sys.path.insert(0, str(ROOT))


def terminal(store: Path) -> Iterator[pyte.Screen]:
    """Run the demo in a pseudo-terminal; yield its screen at chosen runs, and at the end."""
    child, descriptor = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        arguments = ["-m", "assistant.cli", "demo", "--store", str(store)]
        os.chdir(store.parent)
        os.execv(sys.executable, [sys.executable, *arguments])
    ioctl(descriptor, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    left = list(RUNS_SHOWN)
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # the end of a pseudo-terminal on Linux
            break
        if not data:
            break
        stream.feed(data)
        found = re.findall(r"^(\d+)/\d+ runs", "\n".join(screen.display), re.MULTILINE)
        if found and left and int(found[-1]) >= left[0]:
            left = [one for one in left if one > int(found[-1])]
            yield screen
    if os.waitpid(child, 0)[1]:
        sys.exit("the demo failed")
    yield screen


def drawn(screen: pyte.Screen) -> Image.Image:
    """Return a picture of a terminal."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    margin = 18
    cell = (WIDTH - 2 * margin) / COLUMNS
    height = (HEIGHT - 2 * margin) / LINES
    size = int(cell / 0.602)  # the width of a letter of this font is 0.602 of its size
    plain = ImageFont.truetype("DejaVuSansMono.ttf", size)
    bold = ImageFont.truetype("DejaVuSansMono-Bold.ttf", size)
    for row in range(LINES):
        for column in range(COLUMNS):
            char = screen.buffer[row][column]
            if char.data.strip():
                colour = NAMED.get(char.fg) or f"#{char.fg}"
                at = (margin + column * cell, margin + row * height)
                draw.text(at, char.data, colour, font=bold if char.bold else plain)
    return image


def pages(store: Path) -> Iterator[Image.Image]:
    """Open the pages of the only experiment in a browser; yield a picture of each."""
    from assistant.store import SqliteStore
    from benchmarks.browsing import browsing, kept_up
    from benchmarks.screen import Screen

    (experiment,) = (one.id for one in SqliteStore(store).experiments())
    with kept_up(store, ROOT) as app, browsing(app.address) as new_page:
        page = new_page()
        page.set_viewport_size({"width": 1400, "height": 896})
        screen = Screen(page, app.url)
        for name, down in PAGES:
            screen.goto(f"/{name}?e={experiment}")
            screen.drawn()
            page.evaluate(f"{MAIN}.scrollBy(0, {down})")
            screen.drawn()
            page.wait_for_timeout(900)  # charts fade in, and nothing tells when they have
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            yield shot.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def main() -> None:
    """Draw the frames and write them as one animated picture."""
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store.db"
        frames = [drawn(screen) for screen in terminal(store)]
        times_ms = [TERMINAL_MS] * (len(frames) - 1) + [ANSWER_MS]
        for shot in pages(store):
            frames.append(shot)
            times_ms.append(PAGE_MS)
    reduced = [
        frame.quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        for frame in frames
    ]
    reduced[0].save(
        HERE / "steering.gif", save_all=True, append_images=reduced[1:], duration=times_ms, loop=0,
        optimize=True, disposal=1,
    )  # fmt: skip


if __name__ == "__main__":
    main()
