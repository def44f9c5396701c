"""Commands ``copperline doctor``, ``token``, ``backup`` and ``restore``.

Hooks on the command line: the options that name them, and ``copperline hooks test``.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import typer

from assistant.applications.measures import last_lines
from assistant.cli.console import OUT, Json, StoreOption, print_json, say, store_path, table_of
from assistant.cli.experiment_view import existing, fresh_session, stored_session
from assistant.client.api import ApiClient
from assistant.config.snapshot import stored_hooks
from assistant.config.sweep_file import check_settings, read_settings
from assistant.core.errors import AssistantError, ServiceError, SettingsError, StoreError
from assistant.core.experiment import Experiment
from assistant.core.files import is_file
from assistant.core.version import version
from assistant.hooks.notices import HookCommands, of_test
from assistant.hooks.notifier import HookResult, start_hook
from assistant.service.api_tokens import ApiToken, ApiTokenStore, Role, check_name, token_store_path
from assistant.service.auth import read_tokens, tokens_path
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.store_connection import api_client_of
from assistant.service.store_lock import StoreLock, find_endpoint
from assistant.store.event_store import (
    SqliteStore,
    back_up,
    examine,
    refuse_network_file_system,
    restore,
)
from sim.api import wait_for_compiler
from sim.engines.compilation import (
    Compilation,
    Readiness,
    compilation_state,
    other_caches,
    remove_other_caches,
)

PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "simpy", "streamlit")

_SLOWER = (Readiness.FAILED, Readiness.UNAVAILABLE)

_WAYS_OUT = {
    Readiness.ABSENT: "the first simulation starts it; copperline doctor --compile starts it now",
    Readiness.PREPARING: "simulations are slower meanwhile, with the same results",
    Readiness.FAILED: "simulations are slower, with the same results; "
    "copperline doctor --compile tries again",
    Readiness.UNAVAILABLE: "simulations are slower, with the same results",
}


def doctor(
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the simulator now, and wait for it.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove compiled code of other versions.")
    ] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Show installed packages, the places of compiled code and experiments, and any problems.

    The exit code is 1 if the simulator cannot be compiled, if compiled code cannot be kept, or if
    the store or its tokens are damaged; otherwise it is 0.
    """
    if compile_now:
        if not as_json and compilation_state().readiness is not Readiness.READY:
            say("compiling the simulator ...")
        wait_for_compiler()
    n_removed_bytes = remove_other_caches() if clean else 0
    compiled = compilation_state()
    old_caches = other_caches()
    store_file = store_path(store)
    store_report = _store(store_file)
    is_well = compiled.reason is None and not store_report["faults"]
    if as_json:
        print_json(
            {
                "copperline": version(),
                "python": platform.python_version(),
                "packages": _packages(),
                "cores": os.cpu_count(),
                "compiled_code": _described(compiled),
                "other_versions": {str(path): size for path, size in old_caches.items()},
                "removed_bytes": n_removed_bytes,
                "store": {
                    "path": str(store_file.absolute()),
                    "size_bytes": _size(store_file),
                    **store_report,
                },
            }
        )
        return 0 if is_well else 1
    _line("Copperline", f"{version()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    _line(
        "Packages", ", ".join(f"{name} {compiled or '-'}" for name, compiled in _packages().items())
    )
    _line("Compiled code", _sentence(compiled))
    if compiled.folder is not None:
        _line("", f"{compiled.folder}, {_mb(compiled.size_bytes)}")
    if clean:
        _line("Other versions", f"{_mb(n_removed_bytes)} of compiled code removed")
    elif old_caches:
        size = _mb(sum(old_caches.values()))
        _line("Other versions", f"{size} of compiled code; copperline doctor --clean removes it")
    size_bytes = _size(store_file)
    state = "not created yet" if size_bytes is None else _mb(size_bytes)
    _line("Experiments", f"{store_file.absolute()}, {state}")
    if store_report["experiments"] is not None:
        _line("", f"{store_report['experiments']} experiments, {store_report['events']} events")
    for fault in store_report["faults"]:
        _line("", f"problem: {fault}")
    _line("Service", store_report["service"] or "not running; copperline serve starts it")
    if store_report["tokens"] is not None:
        _line("Tokens", _tokens(store_report["tokens"]))
    return 0 if is_well else 1


def _store(path: Path) -> dict[str, Any]:
    """Return the state of the store, its tokens and its service."""
    report: dict[str, Any] = {
        "experiments": None, "events": None, "faults": [], "service": None, "tokens": None,
    }  # fmt: skip
    try:
        refuse_network_file_system(path)
        if path.is_file():
            health = examine(path)
            report["experiments"], report["events"] = health.experiments, health.events
            report["faults"] += health.faults
        book = ApiTokenStore(token_store_path(path))
        over = [token.name for token in book.holders() if token.is_over(book.now_s())]
        report["tokens"] = {"names": [token.name for token in book.holders()], "over": over}
        read_tokens(tokens_path(path))
        endpoint = find_endpoint(path) if path.exists() else None
        if endpoint is not None:
            report["service"] = f"{endpoint.url}, process {endpoint.pid}"
    except AssistantError as error:
        report["faults"].append(str(error))
    return report


def _tokens(tokens: Mapping[str, list[str]]) -> str:
    names, over = tokens["names"], tokens["over"]
    if not names:
        return "none; copperline token make NAME makes one"
    end = f", {len(over)} expired; copperline token revoke removes them" if over else ""
    return f"{len(names)} with names{end}"


def _line(label: str, text: str) -> None:
    OUT.print(f"{label:<15}{text}", soft_wrap=True)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _packages() -> dict[str, str | None]:
    return {name: _installed(name) for name in PACKAGES}


def _installed(name: str) -> str | None:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return None


def _size(path: Path) -> int | None:
    return path.stat().st_size if is_file(path) else None


def _sentence(compiled: Compilation) -> str:
    parts = [str(compiled.readiness)]
    if compiled.took_s is not None:
        parts.append(f"took {compiled.took_s:.1f} s once")
    if compiled.reason is not None:
        parts.append(compiled.reason)
    if compiled.readiness in _WAYS_OUT and (
        compiled.reason is None or compiled.readiness in _SLOWER
    ):
        parts.append(_WAYS_OUT[compiled.readiness])
    return "; ".join(parts)


def _described(compiled: Compilation) -> dict[str, Any]:
    return {
        "readiness": str(compiled.readiness),
        "folder": None if compiled.folder is None else str(compiled.folder),
        "size_bytes": compiled.size_bytes,
        "took_s": compiled.took_s,
        "reason": compiled.reason,
    }


DAY_S = 86_400.0
MOST_DAYS = 36_500
_PATIENCE_S = 2.0  # maximum wait for a short command that holds the store

TokenRecord = Mapping[str, Any]


class _TokenStore(Protocol):
    """Interface to the named tokens of a store."""

    def make(
        self, name: str, role: str, experiment: str | None, ends_s: float | None
    ) -> TokenRecord:
        """Make a token with a name and a role, and return its record with the secret."""

    def all(self) -> list[TokenRecord]:
        """Return the records of all tokens, latest first."""

    def revoke(self, name: str) -> None:
        """Revoke the token with a name."""


def make_token(
    name: Annotated[str, typer.Argument(help="Name of its user or machine, such as gpu-1.")],
    role: Annotated[
        Literal["viewer", "suggester", "steerer", "worker", "adapter"],
        typer.Option(
            help="Its role; a suggester never submits, and an adapter is a worker that sees its "
            "experiment."
        ),
    ] = "worker",
    experiment: Annotated[
        str | None,
        typer.Option(help="Only for this experiment; an adapter needs it.", show_default=False),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Days until it expires; never if not given.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Make a token with a name and print it once; only its digest is stored."""
    if days is not None and not 0 < days <= MOST_DAYS:
        raise SettingsError(f"--days {days:g}: give more than 0 days and at most {MOST_DAYS:,}")
    check_name(name)
    with _token_store(existing(store)) as desk:
        ends_s = None if days is None else time.time() + days * DAY_S
        token = desk.make(name, role, experiment, ends_s)
    if as_json:
        print_json(token)
        return 0
    say(f"Token of {_token_words(token)}, {_until(token)}. It is shown only once.")
    say("Hand it over in private, and revoke it with: copperline token revoke " + name)
    typer.echo(token["token"])
    return 0


def list_tokens(store: StoreOption = None, as_json: Json = False) -> int:
    """List the tokens: name, role, experiment, maker and end, but not the tokens themselves."""
    with _token_store(existing(store)) as desk:
        rows = desk.all()
    if as_json:
        print_json({"tokens": rows})
        return 0
    if not rows:
        OUT.print("There are no tokens with names; make one with: copperline token make NAME")
        return 0
    table = table_of("name", "role", "experiment", "made (UTC)", "by", "ends", left=6)
    for token in rows:
        table.add_row(
            token["name"], token["role"], token["experiment"] or "all", _day(token["created_s"]),
            token["created_by"] or "the operator", _end(token),
        )  # fmt: skip
    OUT.print(table)
    return 0


def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token.")], store: StoreOption = None
) -> int:
    """Revoke a token at once; the runs leased with it return to the queue."""
    with _token_store(existing(store)) as desk:
        desk.revoke(name)
    OUT.print(f"The token '{name}' is revoked.")
    return 0


@contextmanager
def _token_store(path: Path) -> Iterator[_TokenStore]:
    """Open the named tokens of a store: through the process that serves it, else its file."""
    endpoint = find_endpoint(path)
    if endpoint is not None:
        link = api_client_of(path, endpoint)
        try:
            yield _RemoteTokens(link)
        finally:
            link.close()
        return
    key = StoreLock.take(path, _PATIENCE_S)
    if key is None:
        raise ServiceError(f"a process uses the store '{path}'; try again once it has ended")
    with key:
        opened_store = SqliteStore(path)
        try:
            yield _LocalTokens(
                ExperimentService(
                    opened_store,
                    ServiceLog(level="error"),
                    book=ApiTokenStore(token_store_path(path)),
                )
            )
        finally:
            opened_store.close()


class _RemoteTokens:
    def __init__(self, link: ApiClient) -> None:
        self._link = link

    def make(
        self, name: str, role: str, experiment: str | None, ends_s: float | None
    ) -> TokenRecord:
        body = {"name": name, "role": role, "experiment": experiment, "expires_s": ends_s}
        reply: TokenRecord = self._link.change("POST", "/v1/tokens", body)
        return reply

    def all(self) -> list[TokenRecord]:
        tokens: list[TokenRecord] = self._link.get("/v1/tokens")
        return tokens

    def revoke(self, name: str) -> None:
        if name not in [token["name"] for token in self.all()]:
            raise SettingsError(f"there is no token '{name}'; copperline token list shows all")
        self._link.change("DELETE", f"/v1/tokens/{name}")


class _LocalTokens:
    def __init__(self, service: ExperimentService) -> None:
        self._service = service

    def make(
        self, name: str, role: str, experiment: str | None, ends_s: float | None
    ) -> TokenRecord:
        service = self._service
        token = service.issue_token(name, Role(role), experiment_id=experiment, expires_s=ends_s)
        holder = service.book.get(name)
        if holder is None:
            raise ServiceError("another process changed the tokens of this store; try again")
        return {**_token_record(holder), "token": token}

    def all(self) -> list[TokenRecord]:
        return [_token_record(holder) for holder in self._service.book.holders()]

    def revoke(self, name: str) -> None:
        self._service.revoke_token(name)


def _token_record(holder: ApiToken) -> TokenRecord:
    return {
        "name": holder.name,
        "role": str(holder.role),
        "experiment": holder.experiment_id,
        "created_s": holder.created_s,
        "expires_s": holder.expires_s,
        "created_by": holder.created_by,
    }


def _token_words(token: TokenRecord) -> str:
    only = f" for the experiment '{token['experiment']}' alone" if token["experiment"] else ""
    article = "an" if token["role"] == "adapter" else "a"
    return f"'{token['name']}', {article} {token['role']}{only}"


def _until(token: TokenRecord) -> str:
    ends_s = token["expires_s"]
    return "until it is revoked" if ends_s is None else f"until {_day(ends_s)} UTC"


def _end(token: TokenRecord) -> str:
    if token["expires_s"] is None:
        return "never"
    over = "expired " if token["expires_s"] <= time.time() else ""
    return f"{over}{_day(token['expires_s'])}"


def _day(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"


def backup(
    file: Annotated[Path, typer.Argument(help="Path of the copy; must not exist.")],
    store: StoreOption = None,
) -> int:
    """Copy the store as it is at one moment, even while it is in use."""
    health = back_up(existing(store), file)
    OUT.print(
        f"'{file}' holds {health.experiments} experiments with {health.events} events.",
        soft_wrap=True,
    )
    return 0


def restore_backup(
    file: Annotated[Path, typer.Argument(help="A copy made by copperline backup.")],
    store: StoreOption = None,
) -> int:
    """Replace the store with a backup; the old store is kept beside it."""
    if not file.exists():
        raise StoreError(f"there is no backup '{file}'")
    path = store_path(store)
    key = StoreLock.take(path)
    if key is None:
        raise ServiceError(f"a process uses the store '{path}'; end it before restoring")
    with key:
        former = restore(file, path)
    former_text = "" if former is None else f" The old store is kept as '{former}'."
    OUT.print(f"'{path}' is restored from the backup.{former_text}", soft_wrap=True)
    return 0


def run_hook_test(
    experiment: Annotated[
        str, typer.Argument(help="A stored experiment, 'latest', or a sweep file (TOML).")
    ] = "latest",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Start each hook once with a sample notice, and print its result."""
    if experiment.endswith(".toml"):
        path = Path(experiment)
        hooks = check_settings(read_settings(path), str(path)).hooks.build()
        subject = fresh_session(path).experiment  # checks them
    else:
        subject = stored_session(experiment, store).experiment
        hooks = stored_hooks(subject)
        hooks.check()
    if not hooks.kinds:
        raise SettingsError(
            f"'{experiment}' has no hooks; name some in [hooks], such as "
            'on_finish = ["notify-send", "Copperline"]'
        )
    answers = [_try(subject, hooks, number, as_json) for number in range(len(hooks.kinds))]
    if as_json:
        print_json(
            {"experiment": subject.opened.experiment_id, "hooks": [_row(a) for a in answers]}
        )
    failed = [f"on_{answer.kind}" for answer in answers if answer.fault is not None]
    if failed:
        raise SettingsError(f"{' and '.join(failed)} failed; see the output above")
    return 0


def _try(subject: Experiment, hooks: HookCommands, number: int, as_json: bool) -> HookResult:
    kind = hooks.kinds[number]
    notice = of_test(subject, kind, time.time())
    if not as_json:
        OUT.print(f"on_{kind}: {json.dumps(hooks.argv(kind))}", soft_wrap=True)
        OUT.print(f"its input: {notice.as_json().strip()}", soft_wrap=True)
    answer = start_hook(hooks, notice)
    if not as_json:
        output = last_lines(answer.output) or "nothing"
        ended = answer.fault or f"ended well after {answer.wall_s:.1f} s; output: {output}"
        OUT.print(f"on_{kind}: {ended}", soft_wrap=True)
    return answer


def _row(answer: HookResult) -> dict[str, object]:
    return {
        "hook": f"on_{answer.kind}",
        "code": answer.code,
        "wall_s": answer.wall_s,
        "said": last_lines(answer.output),
        "fault": answer.fault,
    }
