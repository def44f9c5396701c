"""The access control of the browser UI, around an app that answers everything."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from assistant.core.errors import SettingsError
from assistant.service.browser_access import AccessPolicy, BrowserAccess

POLICY = AccessPolicy("a-token-of-forty-three-characters-0123456789", ("ui.example.org",))
URL = "http://127.0.0.1:8501"
COOKIE = f"copperline-8501={POLICY.token}"
PAGES = "default-src 'self'; frame-ancestors 'none'"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer every request, and open every web socket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    headers = [(b"X-Frame-Options", b"SAMEORIGIN"), (b"x-other", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"a page"})


GUARDED = BrowserAccess(app, POLICY, PAGES)


def asked(path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(GUARDED)) as client:
            named = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
            return await client.request(method, f"{URL}{path}", headers=named)

    return asyncio.run(ask())


def opened(extensions: tuple[str, ...] = ("websocket.http.response",), **headers: str) -> Message:
    """Return the first message that answers the opening of a web socket."""
    sent: list[Message] = []
    named = {"host": "127.0.0.1:8501", **headers}
    scope: dict[str, Any] = {
        "type": "websocket", "path": "/_stcore/stream", "query_string": b"", "scheme": "ws",
        "server": ("127.0.0.1", 8501), "extensions": {name: {} for name in extensions},
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(GUARDED(scope, receive, send))
    return sent[0]


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8501", 200), ("localhost:8501", 200), ("[::1]:8501", 200), ("LOCALHOST", 200),
     ("ui.example.org", 200), ("UI.example.org:443", 200), ("evil.example:8501", 421),
     ("127.0.0.1.evil.example", 421), ("localhost.", 421), ("evil.example:8501@localhost", 421),
     ("localhost, evil.example", 421), ("", 421)],
)  # fmt: skip
def test_only_own_host_names_are_served(host: str, status: int) -> None:
    answer = asked(host=host, cookie=COOKIE)
    assert answer.status_code == status
    if status == 421:
        assert f"does not have the host name {host!a}" in answer.text
        assert "--name" in answer.text


@pytest.mark.parametrize("origin", ["http://127.0.0.1:9999", "http://localhost:8501", "null", ""])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_pages_of_another_origin_may_not_use_it(origin: str, method: str) -> None:
    answer = asked("/_stcore/upload_file/x/y", method, origin=origin, cookie=COOKIE)
    assert (answer.status_code, "may not use this server" in answer.text) == (403, True)
    refused = opened(origin=origin, cookie=COOKIE)
    assert (refused["type"], refused["status"]) == ("websocket.http.response.start", 403)


def test_pages_of_its_own_origin_may() -> None:
    assert asked(method="PUT", origin=URL, cookie=COOKIE).status_code == 200
    assert opened(origin=URL, cookie=COOKIE)["type"] == "websocket.accept"
    behind_tls = {"host": "ui.example.org", "origin": "https://ui.example.org"}
    assert opened(**behind_tls, cookie=COOKIE)["type"] == "websocket.accept"


@pytest.mark.parametrize(
    "path", ["/", "/new", "/static/js/index.js", "/_stcore/health", "/media/x"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "OPTIONS"])
def test_without_the_secret_nothing_is_answered(path: str, method: str) -> None:
    answer = asked(path, method)
    assert answer.status_code == 403
    assert answer.headers["cache-control"] == "no-store"
    if method == "GET":
        assert "Open the address that Copperline has printed in its terminal" in answer.text


@pytest.mark.parametrize(
    "cookie",
    ["", "copperline-8501=", "copperline-8501=wrong", f"copperline-8502={POLICY.token}",
     f"copperline-8501={POLICY.token}x", f"copperline-8501={POLICY.token[:-1]}",
     "copperline-8501=\xe9"],
)  # fmt: skip
def test_a_wrong_cookie_lets_nobody_in(cookie: str) -> None:
    assert asked(cookie=cookie).status_code == 403
    assert opened(cookie=cookie)["status"] == 403
    assert opened((), cookie=cookie) == {"type": "websocket.close", "code": 1008}


def test_a_second_cookie_of_the_same_name_shuts_nobody_out() -> None:
    assert asked(cookie=f"copperline-8501=tossed; a=b; {COOKIE}").status_code == 200


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    answer = asked(f"/overview?e=a%2Fb&token={POLICY.token}&run=3")
    assert (answer.status_code, answer.headers["location"]) == (303, "/overview?e=a%2Fb&run=3")
    assert answer.headers["set-cookie"] == f"{COOKIE}; Path=/; HttpOnly; SameSite=Strict"
    assert asked(cookie=COOKIE).text == "a page"


def test_a_link_of_another_site_is_answered_with_a_page_that_goes_on() -> None:
    """A browser sends no strict cookie along a redirect that another site began."""
    answer = asked(f"/new?x=%22%3E&y=1&token={POLICY.token}", sec_fetch_site="cross-site")
    assert answer.status_code == 200
    assert answer.headers["set-cookie"].startswith(COOKIE)
    assert 'content="0;url=/new?x=%22%3E&amp;y=1"' in answer.text
    assert POLICY.token not in answer.text


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example/%5c.."])
def test_no_redirect_leads_to_another_server(path: str) -> None:
    location = asked(f"{path}?token={POLICY.token}").headers["location"]
    assert location.startswith("/evil.example/")


def test_an_old_token_beside_a_valid_cookie_is_dropped() -> None:
    assert asked("/new?token=old", cookie=COOKIE).headers["location"] == "/new"


@pytest.mark.parametrize("token", ["", "wrong", POLICY.token[:-1], f"{POLICY.token}x", "%C3%A9"])
def test_a_wrong_token_lets_nobody_in(token: str) -> None:
    answer = asked(f"/?token={token}")
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_a_token_signs_in_by_opening_a_page_only() -> None:
    assert asked(f"/?token={POLICY.token}", "POST").status_code == 403


@pytest.mark.parametrize(
    ("headers", "policy"),
    [({"cookie": COOKIE}, PAGES), ({}, "default-src 'none'"),
     ({"cookie": COOKIE, "host": "evil.example"}, "default-src 'none'")],
)  # fmt: skip
def test_every_answer_has_the_security_headers(headers: dict[str, str], policy: str) -> None:
    answer = asked(**headers)
    assert answer.headers["content-security-policy"].startswith(policy)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_each_start_has_a_token_of_its_own_and_no_child_inherits_it() -> None:
    assert AccessPolicy().token != AccessPolicy().token
    environment = {**POLICY.as_environment(), "PATH": "/bin"}
    assert AccessPolicy.from_environment(environment) == POLICY
    assert environment == {"PATH": "/bin"}
    assert POLICY.token not in repr(POLICY)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [({"COPPERLINE_UI_TOKEN": "short"}, "a token has 32 to 200 letters"),
     ({"COPPERLINE_UI_TOKEN": "x" * 31 + ";"}, "a token has 32 to 200 letters"),
     ({"COPPERLINE_UI_NAMES": "a.example, http://b.example"}, "'http://b.example' is not a host"),
     ({"COPPERLINE_UI_NAMES": "*"}, "'[*]' is not a host name")],
)  # fmt: skip
def test_a_policy_that_protects_nothing_is_refused(
    environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        AccessPolicy.from_environment(environment)


def test_the_cookie_is_for_tls_only_behind_tls() -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(GUARDED)) as client:
            return await client.get(f"https://ui.example.org:8443/?token={POLICY.token}")

    cookie = asyncio.run(ask()).headers["set-cookie"]
    assert cookie == f"copperline-8443={POLICY.token}; Path=/; HttpOnly; SameSite=Strict; Secure"
