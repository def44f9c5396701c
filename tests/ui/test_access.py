"""The access control before the real pages: another user of the machine, and the own browser."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from shutil import which

import pytest
import streamlit as st

from assistant.cli.main import run
from assistant.service import browser_access
from assistant.service.browser_access import AccessPolicy
from assistant.ui.app import UNGUARDED
from assistant.ui.web_server import content_security_policy, page_address
from benchmarks.browsing import (
    KeptUp,
    Served,
    await_that,
    browsing,
    free_port,
    kept_up,
    printed_address,
)
from benchmarks.screen import Screen
from tests.ui.screens import first_page

NOBODY = 65534
SOCKET = """host => new Promise(done => {
  const stream = new WebSocket(`ws://${host}/_stcore/stream`, ["streamlit"]);
  stream.onopen = () => done("open");
  stream.onerror = () => done("refused");
})"""


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_access, "_guarded", type(browser_access._guarded)())


def test_pages_without_access_control_show_nothing(store: Path, unguarded: None) -> None:
    page = first_page()
    assert [error.value for error in page.error] == [UNGUARDED]
    assert len(page.main) == 1
    assert not store.exists()


def test_the_policy_of_the_pages_allows_no_inline_script_but_streamlits_own() -> None:
    (scripts,) = re.findall(r"script-src ([^;]+);", content_security_policy())
    assert re.fullmatch(r"'self'( 'sha256-[A-Za-z0-9+/]{43}=')+", scripts)
    assert "frame-ancestors 'none'" in content_security_policy()


@pytest.mark.parametrize(
    ("address", "base", "shown"),
    [("127.0.0.1", "", "http://127.0.0.1:8501/"), ("::1", "", "http://[::1]:8501/"),
     ("0.0.0.0", "", "http://127.0.0.1:8501/"), ("::", "ui", "http://[::1]:8501/ui/"),
     (None, "/a/b/", "http://localhost:8501/a/b/")],
)  # fmt: skip
def test_the_printed_address_opens_in_a_browser_here(
    monkeypatch: pytest.MonkeyPatch, address: str | None, base: str, shown: str
) -> None:
    policy = AccessPolicy()
    options = {"server.address": address, "server.port": 8501, "server.baseUrlPath": base,
               "server.sslCertFile": None}  # fmt: skip
    monkeypatch.setattr(st, "get_option", options.__getitem__)
    assert page_address(policy) == f"{shown}?token={policy.token}"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--name", "http://ui.example/"], "'http://ui.example/' is not a host name"),
     (["--host", "203.0.113.7"], "cannot listen on '203.0.113.7'"),
     (["--port", "{taken}"], "cannot listen on '127.0.0.1', port {taken}")],
)  # fmt: skip
def test_what_it_cannot_serve_is_refused_before_anything_starts(
    options: list[str], sentence: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = [option.format(taken=port) for option in options]
        assert run(["app", "--store", str(store), *options]) == 2
    error = capsys.readouterr().err
    assert sentence.format(taken=port) in " ".join(error.split())
    assert "Traceback" not in error
    assert not store.exists()


# -- another user of this machine ------------------------------------------------------------------


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Served]:
    """``streamlit run`` itself, with a program in the place of the person's browser."""
    folder = tmp_path_factory.mktemp("direct")
    (folder / "bin").mkdir()
    opener = folder / "bin" / "xdg-open"
    opener.write_text('#!/bin/sh\nprintf %s "$*" > "$OPENED.new"; mv "$OPENED.new" "$OPENED"\n')
    opener.chmod(0o755)
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(repository / "streamlit_app.py")]
    command += ["--server.port", str(port), "--server.headless", "false"]
    command += ["--browser.gatherUsageStats", "false", "--server.showEmailPrompt", "false"]
    environment = {
        **os.environ, "PYTHONPATH": str(repository), "OPENED": str(folder / "opened"),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    with (folder / "printed").open("wb") as printed, subprocess.Popen(
        [*command, "--", str(folder / "store.db")], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            address = printed_address(folder / "printed", process)
            yield Served(f"http://127.0.0.1:{port}", address, process, 0.0)
        finally:
            process.terminate()


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as another user of this machine."""
    if os.geteuid() != 0 or which(command[0]) is None:
        pytest.skip(f"only root can run a command as another user, and needs {command[0]}")
    return subprocess.run(
        command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def status(url: str, *options: str) -> str:
    """Return the HTTP status that another user of this machine gets; 101 opens a web socket."""
    curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "120"]
    return as_nobody(*curl, *options, url).stdout


UPGRADE = (
    "-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13",
    "-H", "Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==", "-H", "Sec-WebSocket-Protocol: streamlit",
)  # fmt: skip


@pytest.mark.slow
def test_another_user_of_this_machine_is_refused(direct: Served) -> None:
    pages = ("/", "/new", "/overview?e=x", "/favicon.png", "/static/css/index.css", "/media/x.csv")
    parts = ("health", "host-config", "metrics", "upload_file/a/b", "agent/openapi.json")
    for path in (*pages, *(f"/_stcore/{part}" for part in parts), "/?token=guessed"):
        assert status(f"{direct.url}{path}") == "403", path
    assert status(f"{direct.url}/_stcore/upload_file/a/b", "-T", "/etc/hostname") == "403"
    assert status(f"{direct.url}/_stcore/agent/interact", "-d", "{}") == "403"
    socket_url = f"{direct.url}/_stcore/stream"
    assert status(socket_url, *UPGRADE) == "403"
    assert status(socket_url, *UPGRADE, "-H", f"Origin: {direct.url}") == "403"
    assert status(socket_url, *UPGRADE, "-H", "Host: evil.example") == "421"
    name, _, token = cookie_of(direct.address).partition("=")
    for value in ("", token[:-1], token.swapcase()):
        assert status(socket_url, *UPGRADE, "-H", f"Cookie: {name}={value}") == "403"
    head = dict(option.split(": ") for option in UPGRADE[1::2])
    own = HTTPConnection("127.0.0.1", int(direct.url.rpartition(":")[2]), timeout=120)
    with closing(own):
        own.request("GET", "/_stcore/stream", headers={**head, "Cookie": f"{name}={token}"})
        assert own.getresponse().status == 101, "it is the cookie alone that lets in"


@pytest.mark.slow
def test_another_user_of_this_machine_does_not_find_the_token(direct: Served) -> None:
    """The own browser is opened by a private page, since command lines can be read by everybody."""
    folder = Path(f"/proc/{direct.process.pid}/cwd").resolve()
    _, _, token = cookie_of(direct.address).partition("=")
    await_that((folder / "opened").exists, "the browser was opened")
    opened = (folder / "opened").read_text()
    assert opened.startswith("file:///")
    assert token not in opened
    page = Path(opened.removeprefix("file://"))
    assert page.stat().st_mode & 0o077 == 0
    assert f'content="0;url={direct.address}"' in page.read_text()
    for path in (page, Path(f"/proc/{direct.process.pid}/environ")):
        assert as_nobody("cat", str(path)).returncode != 0
    assert token not in as_nobody("cat", f"/proc/{direct.process.pid}/cmdline").stdout


def cookie_of(address: str) -> str:
    """Return the cookie of a printed address."""
    (port, token) = re.fullmatch(r"http://[^/]+:(\d+)/[?]token=(\S+)", address).groups()  # type: ignore[union-attr]
    return f"copperline-{port}={token}"


# -- a real browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def up(
    chromium: str, tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> Iterator[KeptUp]:
    with kept_up(tmp_path_factory.mktemp("up") / "store.db", repository) as found:
        yield found


@pytest.mark.browser
def test_a_foreign_page_reaches_neither_page_nor_socket(up: KeptUp, tmp_path: Path) -> None:
    """The browser of a person who uses the UI visits a page that rebinds its name to this host."""
    port = up.url.rpartition(":")[2]
    rebound = f"http://evil.example:{port}"
    neighbour = free_port()  # a page of another port shares the cookies of this host
    (tmp_path / "index.html").write_text(f'<iframe src="{up.url}/"></iframe>')
    serve = [sys.executable, "-m", "http.server", str(neighbour), "--bind", "127.0.0.1"]
    with (
        subprocess.Popen(
            serve, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server,
        browsing(up.address, arguments=["--host-resolver-rules=MAP evil.example 127.0.0.1"]) as new,
    ):
        try:
            page = new()
            await_that(lambda: listens(neighbour), "the other page is served")
            assert page.goto(f"{up.url}/").status == 200
            assert page.evaluate(SOCKET, f"127.0.0.1:{port}") == "open"
            for path in ("/", "/new", "/_stcore/host-config", f"/?{up.address.partition('?')[2]}"):
                assert page.goto(f"{rebound}{path}").status == 421
                assert page.evaluate(SOCKET, f"evil.example:{port}") == "refused"
                assert page.evaluate(SOCKET, f"127.0.0.1:{port}") == "refused"
            page.goto(f"http://127.0.0.1:{neighbour}/")
            assert page.evaluate(SOCKET, f"127.0.0.1:{port}") == "refused"
            refused = page.frames[1]

            def is_refused() -> bool:
                page.wait_for_timeout(20)  # what the browser tells comes while one waits
                return refused.url.startswith("chrome-error:")

            await_that(is_refused, "the pages were refused in a frame")
        finally:
            server.terminate()


@pytest.mark.browser
def test_one_click_on_the_printed_address_opens_the_own_browser(up: KeptUp) -> None:
    with browsing(None) as opened:
        screen = Screen(opened(), up.url)
        page = screen.page
        assert page.goto(f"{up.url}/").status == 403
        page.set_content(f'<a href="{up.address}">the printed address, in a page elsewhere</a>')
        page.get_by_role("link").click()
        page.wait_for_url(f"{up.url}/")
        screen.settled()
        assert "token" not in page.evaluate("document.cookie"), "no script reads the cookie"
        screen.watched.errors.clear()
        for path in ("/", "/new", "/workload", "/platform"):
            screen.goto(path)
            screen.drawn()
            assert screen.watched.complaints == []
            assert not [e for e in screen.watched.errors if "Content Security Policy" in e]
            assert screen.watched.strangers == []
        other = opened()  # a browser without the cookie
        assert other.goto(f"{up.url}/new").status == 403
        assert other.goto(up.address).status == 200
        assert other.url == f"{up.url}/"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
