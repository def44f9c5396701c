"""The web server of the browser UI: access control before Streamlit, and the address to open.

Streamlit serves ``streamlit_app.py`` as an ASGI app (``streamlit.App``), with the middleware and
the lifespan of this module.
"""

import base64
import hashlib
import html
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from threading import Thread

import streamlit as st
from starlette.middleware import Middleware
from streamlit import cli_util, file_util

from assistant.core.errors import ServiceError, SettingsError
from assistant.core.files import replace_private
from assistant.service.browser_access import AccessPolicy, BrowserAccess, opening_page

_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_OPENING_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={address}"><title>Copperline</title></head>
<body><a href="{address}">Open Copperline</a></body></html>
"""


def access_policy() -> AccessPolicy:
    """Return the policy that the environment of this process sets; end the process if it cannot."""
    try:
        return AccessPolicy.from_environment()
    except SettingsError as error:
        sys.stderr.write(f"copperline: {error}\n")
        sys.exit(2)


def middleware(policy: AccessPolicy) -> list[Middleware]:
    """Return the middleware that stands before every page, file and web socket of Streamlit."""
    return [Middleware(BrowserAccess, policy=policy, content_policy=content_security_policy())]


def content_security_policy() -> str:
    """Return the content security policy under which the pages of Streamlit and Vega work.

    Scripts come from this server, besides the inline ones of Streamlit's own page. Styles are
    inline, because Streamlit makes them in the browser.
    """
    page = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in _INLINE_SCRIPT.findall(page)
    ]
    scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "media-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "frame-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def page_address(policy: AccessPolicy) -> str:
    """Return the address that opens the UI in a browser of this machine, with the token."""
    host = st.get_option("server.address") or "localhost"
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - to show
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = st.get_option("server.baseUrlPath").strip("/")
    path = f"/{base}/" if base else "/"
    return f"{scheme}://{host}:{st.get_option('server.port')}{path}?token={policy.token}"


def lifespan(
    policy: AccessPolicy, store: Path
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return the lifespan of the app: it shows the address, and opens it as Streamlit would."""

    @asynccontextmanager
    async def print_address(_app: object) -> AsyncIterator[None]:
        address = page_address(policy)
        sys.stdout.write(f"The browser UI is at {address}\n")
        sys.stdout.flush()
        page = None if st.get_option("server.headless") else _written_page(address, store)
        if page is not None:
            Thread(target=cli_util.open_browser, args=(page.as_uri(),), daemon=True).start()
        yield
        if page is not None:
            page.unlink(missing_ok=True)

    return print_address


def _written_page(address: str, store: Path) -> Path | None:
    """Write a private page that leads to an address; None if it cannot be written."""
    path = opening_page(store, st.get_option("server.port"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_private(path, _OPENING_PAGE.format(address=html.escape(address)).encode())
    except (OSError, ServiceError) as error:
        sys.stdout.write(f"The browser is not opened: {error}. Open that address yourself.\n")
        sys.stdout.flush()
        return None
    return path
