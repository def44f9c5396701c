"""Authentication and authorisation: one bearer token per role, in a file private to its owner."""

import hmac
import ipaddress
import json
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from assistant.core.errors import ServiceError, hint
from assistant.core.files import path_beside, read_private, write_new_private
from assistant.service.api_tokens import ApiToken, ApiTokenStore, Role
from assistant.service.observability import annotate_request
from assistant.service.problems import Problem, ProblemError, send_problem
from assistant.service.strict_json import RefusedJsonError, read_json

IN_FILE = (Role.VIEWER, Role.STEERER, Role.WORKER)

_BYTES = 32  # 256 bits
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{32,512}")  # as RFC 6750 writes a bearer token


@dataclass(frozen=True)
class RoleTokens:
    """Secret access tokens of a service, at most one for each role."""

    by_role: Mapping[Role, str] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_role", MappingProxyType(dict(self.by_role)))

    @classmethod
    def of_owner(cls) -> Self:
        """Return a set with only a new random owner token, for a private service."""
        return cls({Role.OWNER: secrets.token_hex(_BYTES)})

    def with_owner(self) -> "RoleTokens":
        """Return a copy of these tokens with a new random owner token."""
        return RoleTokens({**self.by_role, **RoleTokens.of_owner().by_role})

    def role_of(self, presented: bytes) -> Role | None:
        """Return the role of a token, or None if it is unknown; compare in constant time."""
        match: Role | None = None
        for role, token in self.by_role.items():
            if hmac.compare_digest(presented, token.encode()):
                match = role
        return match


def tokens_path(store: Path) -> Path:
    """Return the path of the file that holds a store's role tokens, ``<store>.tokens``."""
    return path_beside(store, "tokens")


def read_tokens(path: Path) -> RoleTokens | None:
    """Return the role tokens in a file, or None if the file does not exist.

    Raises ServiceError if other users can read it, or it is not one token for each role.
    """
    content = read_private(path)
    return None if content is None else RoleTokens(_checked(path, content))


def read_or_make_tokens(path: Path) -> RoleTokens:
    """Return the role tokens in a file, creating the file with fresh tokens if missing.

    Raises ServiceError as `read_tokens`, or if the file cannot be written.
    """
    if (stored := read_tokens(path)) is not None:
        return stored
    fresh = RoleTokens({role: secrets.token_hex(_BYTES) for role in IN_FILE})
    text = json.dumps(dict(fresh.by_role), indent=2)
    if write_new_private(path, f"{text}\n".encode()):
        return fresh
    stored = read_tokens(path)  # another process was faster
    if stored is None:
        raise ServiceError(f"'{path}' appears and disappears; start one service at a time")
    return stored


def _checked(path: Path, content: bytes) -> dict[Role, str]:
    way_out = "repair it, or delete it so that the next start makes new tokens"
    try:
        body = read_json(content)
    except RefusedJsonError as error:
        raise ServiceError(f"the tokens in '{path}' are damaged: {error}; {way_out}") from error
    names = [str(role) for role in IN_FILE]
    if not isinstance(body, dict):
        raise ServiceError(f"the tokens in '{path}' must be an object of {names}; {way_out}")
    for name in body:
        if name not in names:
            raise ServiceError(f"'{path}': there is no role {name!r}{hint(name, names)}")
    tokens: dict[Role, str] = {}
    for role in IN_FILE:
        token = body.get(role)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ServiceError(
                f"'{path}': the token of the {role} should be 32 to 512 letters, digits or "
                f"._~+/=-; {way_out}"
            )
        if token in tokens.values():
            raise ServiceError(f"'{path}': two roles share a token; {way_out}")
        tokens[role] = token
    return tokens


@dataclass(frozen=True, slots=True)
class Caller:
    """Authenticated caller: role, network address and named token (None for a role token)."""

    role: Role
    address: str
    holder: ApiToken | None = None

    @property
    def name(self) -> str | None:
        """Name of the caller's token, or None for a role token."""
        return None if self.holder is None else self.holder.name

    @property
    def experiment_id(self) -> str | None:
        """Id of the only experiment that the caller may access, or None for all."""
        return None if self.holder is None else self.holder.experiment_id

    def refuse_other(self, experiment_id: str) -> None:
        """Raise ProblemError (403) if the caller's token is for another experiment."""
        if self.experiment_id not in (None, experiment_id):
            raise ProblemError(
                Problem(
                    403,
                    f"the token '{self.name}' is only for the experiment '{self.experiment_id}'",
                    hint="use a token for this experiment, or for all experiments",
                )
            )


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, or raise ProblemError (401) if not authenticated."""
    caller = request.scope.get("state", {}).get("caller")
    if not isinstance(caller, Caller):
        raise ProblemError(
            Problem(401, "a token is needed", headers=(("WWW-Authenticate", "Bearer"),))
        )
    return caller


class AuthRateLimiter:
    """Rate limiter of failed authentications, with a leaky bucket for each network address.

    ``burst`` attempts may fail in a row, ``per_s`` are forgiven per second (monotonic clock). Of
    more than ``size`` addresses the one that failed longest ago is dropped.
    """

    def __init__(
        self,
        burst: int = 20,
        per_s: float = 1 / 3,
        size: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._per_s, self._size, self._clock = burst, per_s, size, clock
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._level)

    def count(self, address: str) -> int | None:
        """Count a failed attempt and return the seconds to wait if over the limit, else None.

        Attempts beyond the burst are not counted, so that waiting for that time suffices.
        """
        key, now_s = _network(address), self._clock()
        level, since_s = self._level.pop(key, (0.0, now_s))
        level = max(0.0, level - (now_s - since_s) * self._per_s)
        wait_s = None
        if level + 1 <= self._burst:
            level += 1
        else:
            wait_s = max(1, math.ceil((level + 1 - self._burst) / self._per_s))
        self._level[key] = (level, now_s)
        while len(self._level) > self._size:
            self._level.popitem(last=False)
        return wait_s


def _network(address: str) -> str:
    """Return the network of an address: for IPv6 the /64, because one host owns all of it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if ip.version == 4:
        return str(ip)
    return str(ipaddress.ip_network((ip, 64), strict=False))


class AuthMiddleware:
    """ASGI middleware that authenticates every request except those to ``public`` paths.

    It reads only the header Authorization, never the query, and passes it to no route. A valid
    token is accepted however many attempts from its address have failed: other users' mistakes
    lock out no one, and 256 bits cannot be guessed.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: RoleTokens,
        *,
        book: ApiTokenStore | None = None,
        public: Collection[str] = (),
        failures: AuthRateLimiter | None = None,
    ) -> None:
        self._app, self._tokens = app, tokens
        self._book = ApiTokenStore() if book is None else book
        self._public = frozenset(public)
        self._failures = AuthRateLimiter() if failures is None else failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401 or 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authorizations = [value for name, value in scope["headers"] if name == b"authorization"]
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        scope["headers"] = headers
        state = scope.setdefault("state", {})
        presented = _bearer(authorizations)
        address = scope["client"][0] if scope.get("client") else ""
        caller = None if presented is None else self._caller(presented, address)
        if caller is not None:
            state["caller"] = caller
            if caller.name is not None:
                annotate_request(scope, by=caller.name)
        elif scope["path"] not in self._public:
            annotate_request(scope, address=address)
            request_id = state.get("request_id", "")
            await self._refuse(send, request_id, address, presented, bool(authorizations))
            return
        await self._app(scope, receive, send)

    def _caller(self, presented: bytes, address: str) -> Caller | None:
        """Return the caller with a token; both kinds of tokens are always compared."""
        role, holder = self._tokens.role_of(presented), self._book.holder_of(presented)
        if role is not None:
            return Caller(role, address)
        return None if holder is None else Caller(holder.role, address, holder)

    async def _refuse(
        self,
        send: Send,
        request_id: str,
        address: str,
        presented: bytes | None,
        has_authorization: bool,
    ) -> None:
        wait_s = self._failures.count(address)
        if wait_s is not None:
            detail = "too many requests without a valid token came from this address"
            headers = (("Retry-After", str(wait_s)),)
            await send_problem(send, Problem(429, detail, headers=headers), request_id)
            return
        challenge = 'Bearer realm="copperline"' + (
            ', error="invalid_token"' if has_authorization else ""
        )
        detail = "this token is not valid" if has_authorization else "a token is needed"
        if presented is not None and self._book.has_ended(presented):
            detail = "this token has expired; request another one"
        headers = (("WWW-Authenticate", challenge),)
        await send_problem(send, Problem(401, detail, headers=headers), request_id)


def _bearer(authorizations: list[bytes]) -> bytes | None:
    """Return the token of the single Authorization header; None for any other headers."""
    if len(authorizations) != 1:
        return None
    scheme, _, token = authorizations[0].partition(b" ")
    token = token.strip(b" ")
    return token if scheme.lower() == b"bearer" and token else None


class RoleRequirement(SecurityBase):
    """FastAPI dependency that requires the caller of a route to have one of the given roles.

    ``Annotated[Caller, Depends(RoleRequirement(Role.STEERER))]``. A token for one experiment is
    refused on the paths of others. The OpenAPI document lists the bearer token for the route;
    `assistant.service.middleware.unprotected_routes` finds routes without this dependency.
    """

    def __init__(self, *roles: Role) -> None:
        self.roles = roles
        self.scheme_name = "token"
        self.model = HTTPBearer(description="A token of the store's .tokens file.")

    async def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises ProblemError: 403 for another role, 401 without a token."""
        caller = caller_of(request)
        if not any(caller.role.grants(role) for role in self.roles):
            role_names = " or ".join(self.roles)
            raise ProblemError(
                Problem(
                    403,
                    f"this needs the role {role_names}; the token has the role {caller.role}",
                    hint=f"use a token with the role {role_names}",
                )
            )
        if caller.role is Role.ADAPTER and caller.experiment_id is None:
            detail = "an adapter needs a named token for one experiment"
            raise ProblemError(Problem(403, detail))
        if "experiment" in request.path_params:
            caller.refuse_other(request.path_params["experiment"])
        return caller
