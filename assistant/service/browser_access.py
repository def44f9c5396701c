"""Access control of the browser UI: ASGI middleware in front of every page, file and web socket.

A request must name this server (Host, against DNS rebinding), come from its own pages (Origin), and
carry the secret of this start: once as ``?token=`` in the address that the terminal shows, then as
a cookie. Every answer carries the security headers. Everything else is refused before the app.
"""

import html
import os
import re
import secrets
import threading
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assistant.core.errors import SettingsError
from assistant.core.files import path_beside
from assistant.service.middleware import is_own_host, is_own_origin

TOKEN_VARIABLE = "COPPERLINE_UI_TOKEN"  # noqa: S105 - the name of an environment variable
NAMES_VARIABLE = "COPPERLINE_UI_NAMES"

_TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,200}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

_Headers = list[tuple[bytes, bytes]]

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_REFUSAL_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

_SIGN_IN = """<h1>This browser has no access yet</h1>
<p>Open the address that Copperline has printed in its terminal. It ends with
<code>?token=...</code> and belongs to this start only.</p>
<p>If you have opened it before and have followed a link to here, <a href="">open this page
again</a>.</p>"""
_CONTINUE = """<meta http-equiv="refresh" content="0;url={location}">
<p><a href="{location}">Continue to Copperline</a></p>"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><title>Copperline</title></head>
<body><main>{body}</main></body></html>
"""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The secret of one start of the browser UI, and the host names under which it is reached.

    ``names`` have no port; the names of the loopback need not be given. Raises SettingsError.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES), repr=False)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if _TOKEN.fullmatch(self.token) is None:
            raise SettingsError(
                f"${TOKEN_VARIABLE}: a token has 32 to 200 letters, digits, '-' and '_'; unset it "
                "to have one made at each start"
            )
        for name in self.names:
            if _NAME.fullmatch(name) is None:
                raise SettingsError(
                    f"{name[:100]!a} is not a host name; give it without scheme, port and path, as "
                    "'ui.example.org'"
                )

    @classmethod
    def from_environment(
        cls, environment: MutableMapping[str, str] = os.environ, names: Iterable[str] = ()
    ) -> Self:
        """Take the policy out of the environment, so that no child process inherits the secret.

        A token is made if none is there. ``names`` come besides those of the environment.
        """
        token = environment.pop(TOKEN_VARIABLE, "")
        listed = environment.pop(NAMES_VARIABLE, "")
        every = (*(name.strip() for name in listed.split(",") if name.strip()), *names)
        return cls(token, every) if token else cls(names=every)

    def as_environment(self) -> Mapping[str, str]:
        """Return the variables from which a child process takes the policy."""
        return {TOKEN_VARIABLE: self.token, NAMES_VARIABLE: ",".join(self.names)}

    def admits(self, presented: str) -> bool:
        """Return whether a presented secret is the token, in constant time."""
        return secrets.compare_digest(presented.encode(), self.token.encode())


class BrowserAccess:
    """Outermost ASGI middleware of the browser UI.

    ``content_policy`` is the content security policy of the pages of ``app``.
    """

    def __init__(self, app: ASGIApp, policy: AccessPolicy, content_policy: str) -> None:
        self._app, self._policy = app, policy
        self._names = frozenset(name.lower() for name in policy.names)
        self._content_policy = content_policy.encode()
        _guarded.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        if answer is None:
            await self._app(scope, receive, self._with_safe_headers(send))
        else:
            await answer.send(scope, receive, send)

    def _answer(self, scope: Scope) -> "_AccessResponse | None":
        """Return the answer to a request that does not reach the app; None if it does."""
        host = ", ".join(_values(scope, b"host"))
        if not is_own_host(scope, host, self._names):
            return _AccessResponse(
                421,
                f"This server does not have the host name {host[:100]!a}; the person who starts it "
                "can name it with --name.",
            )
        for origin in _values(scope, b"origin"):
            if not is_own_origin(origin, host):
                return _AccessResponse(403, f"Pages of {origin[:100]!a} may not use this server.")
        has_cookie = any(self._policy.admits(value) for value in _cookies(scope))
        tokens = _tokens(scope)
        if tokens and (has_cookie or any(map(self._policy.admits, tokens))):
            return self._signed_in(scope)
        if has_cookie:
            return None
        return _AccessResponse(403, _SIGN_IN, is_html=True)

    def _signed_in(self, scope: Scope) -> "_AccessResponse":
        """Set the cookie, and lead to the same address without the token."""
        query = scope["query_string"].decode("latin-1")
        rest = "&".join(part for part in query.split("&") if part.partition("=")[0] != "token")
        path = "/" + quote(scope["path"].lstrip("/\\"))  # '//name' would be another server
        location = f"{path}?{rest}" if rest else path
        secure = "; Secure" if scope["scheme"] == "https" else ""
        cookie = (
            f"{cookie_name(scope)}={self._policy.token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        )
        headers: _Headers = [(b"set-cookie", cookie.encode())]
        if _values(scope, b"sec-fetch-site") in ([], ["none"], ["same-origin"]):
            headers.append((b"location", location.encode("latin-1")))
            return _AccessResponse(303, "Continue without the token.", headers)
        # After a link of another site, a browser sends no strict cookie along a redirect.
        body = _CONTINUE.format(location=html.escape(location))
        return _AccessResponse(200, body, headers, is_html=True)

    def _with_safe_headers(self, send: Send) -> Send:
        names = {name for name, _ in SAFE_HEADERS}

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    header
                    for header in message.get("headers", ())
                    if header[0].lower() not in names
                ]
                policy = (b"content-security-policy", self._content_policy)
                message = {**message, "headers": [*headers, *SAFE_HEADERS, policy]}
            await send(message)

        return send_safely


@dataclass(frozen=True, slots=True)
class _AccessResponse:
    """Answer of the access control itself, to a request or to the opening of a web socket."""

    status: int
    body: str
    headers: _Headers = field(default_factory=list)
    is_html: bool = False

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = _PAGE.format(body=self.body) if self.is_html else f"{self.body}\n"
        content = text.encode()
        media_type = b"text/html" if self.is_html else b"text/plain"
        headers = [
            *self.headers,
            (b"content-type", media_type + b"; charset=utf-8"),
            (b"content-length", str(len(content)).encode()),
            (b"content-security-policy", _REFUSAL_POLICY.encode()),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),  # a body that nobody has read is not the next request
            *SAFE_HEADERS,
        ]
        kind = "http"
        if scope["type"] == "websocket":
            await receive()  # the request to connect
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": 1008})
                return
            kind = "websocket.http"
        await send({"type": f"{kind}.response.start", "status": self.status, "headers": headers})
        await send({"type": f"{kind}.response.body", "body": content})


_guarded = threading.Event()


def is_guarded() -> bool:
    """Return whether the pages of this process are served behind the access control."""
    return _guarded.is_set()


def opening_page(store: Path, port: int) -> Path:
    """Return the path of the private page that leads a browser of this user to the UI.

    The command line of a browser can be read by every user of the machine, so the token is there.
    """
    return path_beside(store, f"open-{port}.html")


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie, which is another one for each port of a host."""
    server = scope.get("server")
    return f"copperline-{server[1]}" if server else "copperline"


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _cookies(scope: Scope) -> Collection[str]:
    """Return the values of our cookie; another page of this host may have set one, too."""
    name = cookie_name(scope)
    pairs = (
        pair.strip().partition("=") for v in _values(scope, b"cookie") for pair in v.split(";")
    )
    return [value for key, _, value in pairs if key == name]


def _tokens(scope: Scope) -> Collection[str]:
    """Return the tokens in the address of a page."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return []
    query = scope["query_string"].decode("latin-1")
    return [value for key, value in parse_qsl(query, keep_blank_values=True) if key == "token"]
