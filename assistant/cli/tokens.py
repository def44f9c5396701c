"""``copperline token``: tokens with names, made, listed and revoked where the store lies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import typer

from assistant.cli.console import OUT, Json, StoreOption, print_json, say, table_of
from assistant.cli.experiments import existing
from assistant.client import Link
from assistant.door import link_to
from assistant.errors import ServiceError, SettingsError
from assistant.service.endpoint import Key, find
from assistant.service.house import House
from assistant.service.logs import Log
from assistant.service.roles import Role
from assistant.service.token_book import Holder, TokenBook, book_path, check_name
from assistant.store import SqliteStore

DAY_S = 86_400.0
MOST_DAYS = 36_500
_PATIENCE_S = 2.0
"""How long a short command that holds the store is waited for."""

Told = Mapping[str, Any]


class _Desk(Protocol):
    """Where tokens are made, listed and revoked."""

    def make(self, name: str, role: str, experiment: str | None, ends_s: float | None) -> Told:
        """Return what was made, the token with it."""

    def all(self) -> list[Told]:
        """Return what there is, latest first."""

    def revoke(self, name: str) -> None:
        """Let nobody in by a token any more."""


def make(
    name: Annotated[str, typer.Argument(help="Of whoever is handed it, such as gpu-1.")],
    role: Annotated[
        Literal["viewer", "steerer", "worker", "adapter"],
        typer.Option(help="What it may do; an adapter is a worker that sees its experiment."),
    ] = "worker",
    experiment: Annotated[
        str | None,
        typer.Option(help="For this experiment alone; an adapter needs it.", show_default=False),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="It ends after so many days; else never.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Make a token with a name and print it, this once: only its digest is kept."""
    if days is not None and not 0 < days <= MOST_DAYS:
        raise SettingsError(
            f"--days {days:g}: a token holds for more than 0 days, at most {MOST_DAYS:,}"
        )
    check_name(name)
    with _desk(existing(store)) as desk:
        ends_s = None if days is None else time.time() + days * DAY_S
        made = desk.make(name, role, experiment, ends_s)
    if as_json:
        print_json(made)
        return 0
    say(f"The token of {_what(made)}, {_until(made)}. It is shown this once; hand it over in")
    say("private, and take it back with: copperline token revoke " + name)
    typer.echo(made["token"])
    return 0


def show(store: StoreOption = None, as_json: Json = False) -> int:
    """List the tokens with names: for what, of whom, until when; never the tokens themselves."""
    with _desk(existing(store)) as desk:
        rows = desk.all()
    if as_json:
        print_json({"tokens": rows})
        return 0
    if not rows:
        OUT.print("No token has a name; make one with: copperline token make NAME")
        return 0
    table = table_of("name", "role", "experiment", "made (UTC)", "by", "ends", left=6)
    for one in rows:
        table.add_row(
            one["name"], one["role"], one["experiment"] or "all", _day(one["made_s"]),
            one["made_by"] or "the operator", _end(one),
        )  # fmt: skip
    OUT.print(table)
    return 0


def revoke(
    name: Annotated[str, typer.Argument(help="Of the token.")], store: StoreOption = None
) -> int:
    """Let nobody in by a token any more, from now on; the runs that it holds wait again."""
    with _desk(existing(store)) as desk:
        desk.revoke(name)
    OUT.print(f"Nobody is let in by the token '{name}' any more.")
    return 0


@contextmanager
def _desk(path: Path) -> Iterator[_Desk]:
    """Reach the tokens of a store: through the process that serves it, else in its file."""
    endpoint = find(path)
    if endpoint is not None:
        link = link_to(path, endpoint)
        try:
            yield _Through(link)
        finally:
            link.close()
        return
    key = Key.take(path, _PATIENCE_S)
    if key is None:
        raise ServiceError(f"a process uses the store '{path}'; try again once it has ended")
    with key:
        kept = SqliteStore(path)
        try:
            yield _Here(House(kept, Log(level="error"), book=TokenBook(book_path(path))))
        finally:
            kept.close()


class _Through:
    def __init__(self, link: Link) -> None:
        self._link = link

    def make(self, name: str, role: str, experiment: str | None, ends_s: float | None) -> Told:
        body = {"name": name, "role": role, "experiment": experiment, "expires_s": ends_s}
        told: Told = self._link.change("POST", "/v1/tokens", body)
        return told

    def all(self) -> list[Told]:
        found: list[Told] = self._link.get("/v1/tokens")
        return found

    def revoke(self, name: str) -> None:
        if name not in [one["name"] for one in self.all()]:
            raise SettingsError(f"no token '{name}'; copperline token list shows what there is")
        self._link.change("DELETE", f"/v1/tokens/{name}")


class _Here:
    def __init__(self, house: House) -> None:
        self._house = house

    def make(self, name: str, role: str, experiment: str | None, ends_s: float | None) -> Told:
        house = self._house
        token = house.issue_token(name, Role(role), experiment_id=experiment, expires_s=ends_s)
        made = house.book.get(name)
        if made is None:
            raise ServiceError("another process writes the tokens of this store; make it again")
        return {**_told(made), "token": token}

    def all(self) -> list[Told]:
        return [_told(one) for one in self._house.book.holders()]

    def revoke(self, name: str) -> None:
        self._house.revoke_token(name)


def _told(holder: Holder) -> Told:
    return {
        "name": holder.name,
        "role": str(holder.role),
        "experiment": holder.experiment_id,
        "made_s": holder.made_s,
        "expires_s": holder.expires_s,
        "made_by": holder.made_by,
    }


def _what(one: Told) -> str:
    only = f" for the experiment '{one['experiment']}' alone" if one["experiment"] else ""
    article = "an" if one["role"] == "adapter" else "a"
    return f"'{one['name']}', {article} {one['role']}{only}"


def _until(one: Told) -> str:
    ends_s = one["expires_s"]
    return "until it is revoked" if ends_s is None else f"until {_day(ends_s)} UTC"


def _end(one: Told) -> str:
    if one["expires_s"] is None:
        return "never"
    over = "over since " if one["expires_s"] <= time.time() else ""
    return f"{over}{_day(one['expires_s'])}"


def _day(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"
