"""A real browser over a real server, for the measurements and the pictures of the UI."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

from assistant import AssistantError
from assistant.cli.commands.service import OPTIONS
from assistant.service.store_lock import find_endpoint

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SETTLED = "[data-testid=stApp][data-test-script-state=notRunning]"
CHART = "[data-testid=stVegaLiteChart] svg, [data-testid=stVegaLiteChart] canvas"
UP_WITHIN_S = 600.0
PATIENCE_MS = 300_000
"""So long something may take on a machine that is busy; nothing waits this long for nothing."""
HARMLESS = ("_stcore/health", "_stcore/host-config", "404")
"""What a deep link makes Streamlit itself say in the console."""


class NoBrowserError(AssistantError):
    """There is no Chromium, or playwright is not installed."""


def browser_path() -> str:
    """Return the path of an installed Chromium. Raises NoBrowserError."""
    found = next((path for name in BROWSERS if (path := which(name))), None)
    if found is None:
        raise NoBrowserError(
            f"no browser is installed: one of {', '.join(BROWSERS)} is needed on the path"
        )
    return found


def free_port() -> int:
    """Return a port of the loopback that is free now and that no connection is given by chance."""
    drawn = random.SystemRandom()
    while True:
        port = drawn.randrange(10_000, 20_000)  # the system gives ports from 32,768 on
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Served:
    """A server of pages.

    Args:
        url: where it listens.
        address: that it has printed, with the token.
        process: which serves.
        up_s: from its start until it said that it is healthy.
    """

    url: str
    address: str
    process: subprocess.Popen[bytes]
    up_s: float

    @property
    def cpu_s(self) -> float:
        """Processor time that the process has used, in seconds."""
        told = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def rss_bytes(self) -> int:
        """Memory that the process holds, in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def served(store: Path, script: Path, port: int | None = None) -> Iterator[Served]:
    """Serve the pages over a store until the block ends, with a service of their own."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "assistant.ui", "run", str(script)]  # as `copperline app`
    command += ["--server.address", "127.0.0.1", "--server.port", str(port)]
    command += ["--server.headless", "true"]
    command += [f"--{name}={value}" for name, value in OPTIONS.items()]
    began_s = time.monotonic()
    root = str(script.parent)
    with tempfile.NamedTemporaryFile() as printed, subprocess.Popen(
        [*command, "--", str(store)], cwd=store.parent, env={**os.environ, "PYTHONPATH": root},
        stdout=printed, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            address = printed_address(Path(printed.name), process)
            await_that(lambda: is_healthy(url), "the server of the pages started")
            yield Served(url, address, process, time.monotonic() - began_s)
        finally:
            process.terminate()


def printed_address(printed: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until a program has printed the address of the pages, and return it."""
    found: list[str] = []

    def is_printed() -> bool:
        found[:] = re.findall(r"http://\S+[?]token=\S+", printed.read_text())
        return bool(found) or process.poll() is not None

    await_that(is_printed, "the address of the pages was printed")
    if not found:
        said = printed.read_text().strip()
        raise AssistantError(f"the server of the pages did not start: {said}")
    return found[0]


@dataclass
class KeptUp:
    """``copperline app``: a server of pages and a service, both looked after.

    Args:
        url: where the pages are.
        address: of the pages as it was printed, with the token.
        store: the file that experiments are kept in.
        process: which looks after both.
        printed: file with what it prints, and with what the pages and the service complain of.
    """

    url: str
    address: str
    store: Path
    process: subprocess.Popen[bytes]
    printed: Path

    @property
    def service(self) -> int | None:
        """Process id of the service; None while there is none."""
        found = find_endpoint(self.store)
        return None if found is None else found.pid

    @property
    def pages(self) -> int | None:
        """Process id of the server of pages; None while there is none."""
        for pid in children(self.process.pid):
            with suppress(OSError):
                if b"assistant.ui" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        return None

    def kill(self, part: str) -> None:
        """Kill ``service`` or ``pages`` as the system does it, and wait until another is there."""
        before: int | None = None

        def is_there() -> bool:  # the list of a process's children is not always whole
            nonlocal before
            before = getattr(self, part)
            return before is not None

        await_that(is_there, f"the {part} is there")
        os.kill(before, signal.SIGKILL)
        await_that(lambda: getattr(self, part) not in (None, before), f"the {part} came back")
        if part == "pages":
            await_that(lambda: is_healthy(self.url), "the pages came back")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            found += map(int, task.read_text().split())
    return found


def is_healthy(url: str) -> bool:
    """Return whether a server of pages answers, if only that it needs the token."""
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
            return True
    except urllib.error.HTTPError as refused:
        return refused.code == 403
    except OSError:
        return False


def await_that(holds: Callable[[], bool], what: str, within_s: float = UP_WITHIN_S) -> None:
    """Wait until something holds that no page shows. Raises AssistantError after `within_s`."""
    until_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until_s:
            raise AssistantError(f"it did not happen within {within_s:.0f} s that {what}")
        time.sleep(0.02)


@contextmanager
def kept_up(store: Path, root: Path) -> Iterator[KeptUp]:
    """Run ``copperline app`` over a store until the block ends.

    Args:
        store: the file of experiments; it need not exist.
        root: folder of the packages.
    """
    port = free_port()
    command = [sys.executable, "-m", "assistant.cli", "app", "--port", str(port)]
    with tempfile.NamedTemporaryFile() as printed, subprocess.Popen(
        [*command, "--store", str(store)], cwd=store.parent,
        env={**os.environ, "PYTHONPATH": str(root), "STREAMLIT_SERVER_HEADLESS": "true"},
        stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            address = printed_address(Path(printed.name), process)
            await_that(lambda: is_healthy(url), "the server of the pages started")
            yield KeptUp(url, address, store, process, Path(printed.name))
        finally:
            process.terminate()


@dataclass
class Watched:
    """What a page asked of whom, and what it complained of.

    Args:
        url: of the server; requests elsewhere are strangers.
    """

    url: str
    strangers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _is_cut_off: bool = False

    def on(self, page: Any) -> None:
        """Watch a page from now on."""
        page.on("request", self._asked)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._told)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """The server is killed in here: what the console says of that is no complaint.

        What a script of the page raises still is.
        """
        self._is_cut_off = True
        try:
            yield
        finally:
            self._is_cut_off = False

    def _told(self, message: Any) -> None:
        if message.type == "error" and not self._is_cut_off:
            self.errors.append(message.text)

    def _asked(self, request: Any) -> None:
        if request.url.startswith("http") and not request.url.startswith(self.url):
            self.strangers.append(request.url)

    @property
    def complaints(self) -> list[str]:
        """Errors of the console that are not Streamlit's own."""
        return [e for e in self.errors if not any(word in e for word in HARMLESS)]


@contextmanager
def browsing(
    address: str | None, dark: bool = False, arguments: Sequence[str] = ()
) -> Iterator[Callable[[], Any]]:
    """Yield what opens a page with a profile of its own, in one browser.

    Args:
        address: of the pages, with the token; each profile has opened it, unless it is None.
        dark: whether the pages are dark.
        arguments: of the browser's command line, besides `ARGUMENTS`.

    Raises:
        NoBrowserError: there is none.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NoBrowserError("playwright is not installed: pip install playwright") from error
    path = browser_path()
    with tempfile.TemporaryDirectory(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[*ARGUMENTS, *arguments], timeout=PATIENCE_MS
        )

        def page() -> Any:
            context = browser.new_context(
                viewport={"width": 1400, "height": 1600},
                color_scheme="dark" if dark else "light",
            )
            if address is not None:
                # its cookie is in the profile from now on
                context.request.get(address, timeout=PATIENCE_MS)
            opened = context.new_page()
            opened.set_default_timeout(PATIENCE_MS)
            return opened

        yield page
        browser.close()
